#include "partitioner/plan/storage.h"

#include "common/json.h"
#include "common/number.h"
#include "profiler/estimate/estimated.h"
#include "profiler/estimate/framework.h"
#include "schedules/host_moves.h"

const char *const shard_names[] = { "none", "optimizer", "gradients", "weights", NULL };
const char *const tied_names[] = { "together", "apart", NULL };

// What an optimizer keeps: copies as large as the parameters, in their own type, and bytes of each parameter.
static uint32_t copies_of(const struct optimizer_row *row)
{
    return row->is_master ? 0 : row->moments + row->compresses + row->keeps_rows;
}

static uint32_t bytes_of(const struct optimizer_row *row)
{
    return row->is_master ? (uint32_t)sizeof(float) * (1 + row->moments) : row->codes;
}

bool storage_is_plain(const struct storage *storage)
{
    return storage->shard == SHARD_NONE && !storage_uses_host(storage) && !storage->tied_apart && !storage->window
        && !storage->step_rate;
}

bool storage_uses_host(const struct storage *storage)
{
    return storage->optimizer_on_host || storage->activations_on_host;
}

void storage_say(const struct storage *storage, struct text *text)
{
    static const char *const shared[] = { NULL, "optimizer", "optimizer and gradients",
                                          "optimizer, gradients and weights" };
    char rate[NUMBER_SIZE];
    text_add(text, "%s", optimizer_names[storage->optimizer]);
    if (storage->shard != SHARD_NONE)
        text_add(text, ", %s shared by replicas", shared[storage->shard]);
    if (storage->optimizer_on_host || storage->activations_on_host)
        text_add(text, ", %s%s%s on the host", storage->optimizer_on_host ? "optimizer" : "",
                 storage->optimizer_on_host && storage->activations_on_host ? " and " : "",
                 storage->activations_on_host ? "activations" : "");
    if (storage->window) {
        text_add(text, ", %s of ", storage->shard == SHARD_GRADIENTS ? "gradients" : "weights");
        text_add_count(text, storage->window, "layer", "layers");
        text_add(text, " at a time");
    }
    if (storage->step_rate)
        text_add(text, ", updates at %s", rate_format(storage->step_rate, rate));
    if (storage->tied_apart)
        text_add(text, ", tied layers apart");
    if (storage->bytes_per_parameter)
        text_add(text, ", %u bytes of a parameter", storage->bytes_per_parameter);
}

uint64_t optimizer_factored(struct shape shape)
{
    const bool is_vector = shape.rows == 1 || shape.columns == 1;
    return is_vector ? shape.rows * shape.columns : shape.rows + shape.columns;
}

static uint64_t factored_bytes(const struct profile_layer *layer)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < layer->shape_count; i++)
        bytes = add_clamped(bytes, multiply_clamped(optimizer_factored(layer->shapes[i]), 4));
    return bytes;
}

bool optimizer_check_split(enum optimizer_kind optimizer, struct split_tables tables, struct error *error)
{
    const struct optimizer_row *row = &optimizer_rows[optimizer];
    const char *name = optimizer_names[optimizer];
    if (optimizer_is_by_parameter(optimizer))
        return true;
    if ((!row->keeps_rows && !row->is_lazy) || !tables.in_parts)
        return error_set(error, "%s looks at whole layers, of which a member of a group of devices has a part: plan"
                         " with sgd, momentum, adam or adamw, or without variants", name);
    if (row->is_lazy && tables.copied)
        return error_set(error, "%s updates only rows that have a gradient, and some tables are on all devices of a"
                         " group, which update all rows of these: plan with adagrad, or with each table on one device,"
                         " by rows or by columns", name);
    return !row->keeps_rows || !tables.by_columns
        || error_set(error, "%s has a number for each row of a table, and columns of a table are on several devices:"
                     " plan with adagrad, or with tables by slots or by rows", name);
}

uint64_t storage_gradient_bytes(const struct storage *storage, uint64_t weights)
{
    enum { USUAL = 4, OF_A_WEIGHT = 2, OF_ITS_STATES = 12 };
    const uint32_t all = storage->bytes_per_parameter, bytes = all ? all - OF_A_WEIGHT - OF_ITS_STATES : USUAL;
    return optimizer_is_master(storage->optimizer) ? multiply_clamped(bytes, weights / OF_A_WEIGHT) : weights;
}

void storage_meet_schedule(struct storage *storage, enum weights weights, bool is_given, uint32_t micro_batches)
{
    const bool is_each = weights == WEIGHTS_STASH || weights == WEIGHTS_VERTICAL;
    storage->leaves_versions = weights != WEIGHTS_FLUSH;
    storage->in_turn = !is_given;
    storage->update_micro_batches = is_each && !is_given ? 1 : micro_batches;
}

bool storage_is_for_rows(const struct storage *storage, const struct profile *profile)
{
    const struct optimizer_row *row = &optimizer_rows[storage->optimizer];
    bool has_tables = false;
    for (size_t l = 0; l < profile->layer_count; l++)
        has_tables |= profile->layers[l].touched_rows > 0;
    return has_tables && (row->keeps_rows || row->is_lazy);
}

static uint64_t rows_of(const struct profile *profile, const struct profile_layer *layer, size_t shape)
{
    const uint64_t numbers = multiply_clamped(layer->shapes[shape].rows, layer->shapes[shape].columns);
    return multiply_clamped(numbers, profile_dtype_bytes(profile->dtype)) / layer->row_bytes;
}

// The rows as they were in front of an update: their count, their numbers, and they themselves.
static uint64_t undo_bytes(const struct profile_layer *layer, uint64_t room)
{
    const uint64_t number = sizeof(uint32_t), numbers = round_to_256(multiply_clamped(room, number));
    return add_clamped(add_clamped(round_to_256(number), numbers),
                       round_to_256(multiply_clamped(room, layer->row_bytes)));
}

static uint64_t all_rows_of(const struct profile *profile, const struct profile_layer *layer)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < layer->shape_count; i++)
        rows = add_clamped(rows, rows_of(profile, layer, i));
    return rows;
}

// What an undo list has, and where each row of the tables is in the list.
static uint64_t list_bytes(const struct profile *profile, const struct profile_layer *layer, uint64_t room)
{
    const uint64_t places = multiply_clamped(all_rows_of(profile, layer), sizeof(uint32_t));
    return add_clamped(undo_bytes(layer, room), round_to_256(places));
}

// The rows of a layer's tables that so many micro-batches touch, and those that are always in a list.
static uint64_t touched_by(const struct profile *profile, const struct profile_layer *layer, uint64_t micro_batches)
{
    const uint64_t touched = multiply_clamped(micro_batches, layer->touched_rows);
    uint64_t room = 0, summed = layer->summed_rows;
    for (size_t i = 0; i < layer->shape_count; i++) {
        const uint64_t rows = rows_of(profile, layer, i), always = min_u64(rows, summed);
        room = add_clamped(room, add_clamped(always, min_u64(rows - always, touched)));
        summed -= always;
    }
    return room;
}

// The rows that a copy sends, if the gradient is a list.
static uint64_t sent_by(const struct storage *storage, const struct profile *profile, const struct profile_layer *layer,
                        uint32_t copies)
{
    const uint64_t all = storage->update_micro_batches;
    const uint64_t own = storage->in_turn ? all / copies + (all % copies > 0) : all;
    return copies > 1 ? touched_by(profile, layer, own) : 0;
}

// An undo list has all that a copy sends, as well.
static uint64_t sent_bytes(const struct profile_layer *layer, uint64_t room)
{
    return room > 0 ? undo_bytes(layer, room) : 0;
}

uint64_t storage_list_room(const struct storage *storage, const struct profile *profile, uint32_t layer,
                           uint32_t copies)
{
    const struct profile_layer *profiled = &profile->layers[layer];
    const struct optimizer_row *row = &optimizer_rows[storage->optimizer];
    const bool lists = row->is_by_rows && storage->shard == SHARD_NONE && !storage->optimizer_on_host
                    && storage->window == 0 && storage->update_micro_batches > 0 && profiled->touched_rows > 0
                    && !(copies > 1 && storage->leaves_versions);
    if (!lists || profile_dtype_bytes(profile->dtype) != sizeof(float) || profiled->row_bytes == 0)
        return 0;
    const uint64_t room = touched_by(profile, profiled, storage->update_micro_batches);
    const uint64_t whole = round_to_256(profiled->parameter_bytes);
    if (storage->leaves_versions)
        return undo_bytes(profiled, room) < whole ? room : 0;
    const uint64_t sent = sent_bytes(profiled, sent_by(storage, profile, profiled, copies));
    const bool is_less = add_clamped(list_bytes(profile, profiled, room), multiply_clamped(copies, sent)) < whole;
    return copies == 1 || is_less || row->is_lazy ? room : 0;
}

uint64_t storage_sent_room(const struct storage *storage, const struct profile *profile, uint32_t layer,
                           uint32_t copies)
{
    return storage_list_room(storage, profile, layer, copies) > 0
               ? sent_by(storage, profile, &profile->layers[layer], copies) : 0;
}

uint64_t storage_sent_bytes(const struct storage *storage, const struct profile *profile, uint32_t layer,
                            uint32_t copies)
{
    return sent_bytes(&profile->layers[layer], storage_sent_room(storage, profile, layer, copies));
}

uint64_t storage_reduced_bytes(const struct storage *storage, const struct profile *profile, uint32_t layer,
                               uint32_t copies)
{
    const uint64_t sent = storage_sent_bytes(storage, profile, layer, copies);
    return sent > 0 ? multiply_clamped(copies, sent / 2) : round_to_256(profile->layers[layer].parameter_bytes);
}

uint64_t storage_version_less(const struct storage *storage, const struct profile *profile, uint32_t layer)
{
    const struct profile_layer *profiled = &profile->layers[layer];
    const uint64_t room = storage->leaves_versions ? storage_list_room(storage, profile, layer, 1) : 0;
    return room > 0 ? round_to_256(profiled->parameter_bytes) - undo_bytes(profiled, room) : 0;
}

uint64_t storage_layer_gradients(const struct storage *storage, const struct profile *profile, uint32_t layer,
                                 uint32_t copies)
{
    const struct profile_layer *profiled = &profile->layers[layer];
    const uint64_t room = storage_list_room(storage, profile, layer, copies);
    const uint64_t sent = multiply_clamped(copies, storage_sent_bytes(storage, profile, layer, copies));
    return room > 0 ? add_clamped(list_bytes(profile, profiled, room), sent)
                    : storage_gradient_bytes(storage, round_to_256(profiled->parameter_bytes));
}

uint64_t storage_state_bytes(const struct storage *storage, const struct profile *profile, uint32_t layer)
{
    const struct optimizer_row *row = &optimizer_rows[storage->optimizer];
    const struct profile_layer *profiled = &profile->layers[layer];
    if (row->is_factored)
        return round_to_256(factored_bytes(profiled));
    if (row->keeps_rows && profiled->touched_rows > 0)
        return round_to_256(multiply_clamped(all_rows_of(profile, profiled), sizeof(float)));
    const uint64_t updated =
        profiled->parameter_bytes - (row->unit == UPDATES_PARAMETERS ? profiled->states_elsewhere_bytes : 0);
    uint64_t bytes = multiply_clamped(copies_of(row), round_to_256(updated));
    if (!bytes_of(row))
        return bytes;
    const uint64_t parameters = updated / profile_dtype_bytes(profile->dtype);
    bytes = add_clamped(bytes, multiply_clamped(parameters, bytes_of(row)));
    if (row->codes > 0)
        bytes += sizeof(float) * row->codes * ((parameters + OPTIMIZER_8BIT_BLOCK - 1) / OPTIMIZER_8BIT_BLOCK);
    return round_to_256(bytes);
}

uint64_t storage_largest_tensor(const struct profile *profile, uint32_t layer)
{
    const struct profile_layer *profiled = &profile->layers[layer];
    const uint64_t number = profile_dtype_bytes(profile->dtype), all = round_to_256(profiled->parameter_bytes);
    uint64_t most = profiled->shape_count > 0 ? 0 : all;
    for (size_t i = 0; i < profiled->shape_count; i++) {
        const uint64_t numbers = multiply_clamped(profiled->shapes[i].rows, profiled->shapes[i].columns);
        most = max_u64(most, round_to_256(multiply_clamped(numbers, number)));
    }
    return min_u64(most, all);
}

// How much larger than an even share one may be. Its end moves back to the start of a block or tensor, by less than
// the size of that.
static uint64_t beyond_even(const struct storage *storage, uint64_t tensor)
{
    const enum optimizer_unit unit = optimizer_rows[storage->optimizer].unit;
    return unit == UPDATES_BLOCKS ? (OPTIMIZER_8BIT_BLOCK - 1) * sizeof(float) : unit == UPDATES_TENSORS ? tensor : 0;
}

uint64_t storage_share(const struct storage *storage, uint64_t bytes, uint64_t tensor, uint32_t replicas)
{
    const uint64_t even = bytes / replicas + (bytes % replicas > 0);
    return replicas == 1 ? bytes : min_u64(bytes, round_to_256(add_clamped(even, beyond_even(storage, tensor))));
}

// For a state in blocks: the blocks that fill the share. For each layer, and each layer that it has a copy of, there
// is one last block that is not full.
static uint64_t block_state_share(const struct optimizer_row *row, uint64_t numbers, uint32_t layers)
{
    const uint64_t blocks = numbers / OPTIMIZER_8BIT_BLOCK + 2 * (uint64_t)layers;
    return round_to_256(add_clamped(multiply_clamped(numbers, bytes_of(row)),
                                    multiply_clamped(blocks, sizeof(float) * row->codes)));
}

uint64_t storage_state_share(const struct storage *storage, const struct shared_states *states, uint32_t replicas)
{
    const struct optimizer_row *row = &optimizer_rows[storage->optimizer];
    const uint64_t kept = bytes_of(row) > 0 ? bytes_of(row) : 1;
    const uint64_t share = states->optimizer / replicas + (states->optimizer % replicas > 0);
    const uint64_t weights = storage_share(storage, states->weights, states->tensor, replicas);
    // A row and a column are little, and all of them may belong to tensors that one replica has.
    if (replicas == 1 || row->is_factored)
        return states->optimizer;
    if (row->unit == UPDATES_TENSORS)
        return min_u64(states->optimizer, multiply_clamped(copies_of(row), weights));
    if (row->unit == UPDATES_BLOCKS)
        return min_u64(states->optimizer, block_state_share(row, weights / sizeof(float), states->layers));
    return round_to_256(multiply_clamped((share / kept) + (share % kept > 0), kept));
}

size_t storage_machine(const struct cluster *cluster, size_t device)
{
    return cluster->level_count ? cluster_group(cluster, 0, device) : 0;
}

uint64_t storage_host_rate(const struct cluster *cluster)
{
    const uint64_t devices = cluster->level_count ? cluster->levels[0].size : 1;
    const uint64_t rate = cluster->has_host ? cluster->host_bytes_per_second / devices : 0;
    return cluster->has_host && rate == 0 ? 1 : rate;  // a rate of 0 would cost nothing
}

struct schedule *storage_order(const struct storage *storage, struct schedule *order, struct error *error)
{
    if (!order || !storage->activations_on_host || schedule_add_moves(order, error))
        return order;
    schedule_free(order);
    return NULL;
}

bool storage_can_tie_apart(const struct profile *profile, enum optimizer_kind optimizer, bool flushes)
{
    return profile->tied_count > 0 && flushes && !optimizer_rows[optimizer].compresses;
}

bool storage_ties_apart(enum tied tied, const struct profile *profile, enum optimizer_kind optimizer, bool flushes)
{
    const bool is_usual = profile->one_owner_count > 0 && storage_can_tie_apart(profile, optimizer, flushes);
    return tied == TIED_APART || (tied == TIED_USUAL && is_usual);
}

uint32_t storage_bytes_per_parameter(enum optimizer_kind optimizer, const struct transformer *model,
                                     const struct estimate_request *request)
{
    return optimizer == OPTIMIZER_ADAMW_MASTER && request->like ? framework_bytes_per_parameter(model, request) : 0;
}

void storage_meet_profile(struct storage *storage, enum tied tied, const struct profile *profile, bool flushes)
{
    storage->tied_apart = storage_ties_apart(tied, profile, storage->optimizer, flushes);
    storage->bytes_per_parameter = 0;
    if (!profile->estimated)
        return;
    struct estimate_request request = profile->estimated->request;
    request.dtype = profile->dtype;
    storage->bytes_per_parameter = storage_bytes_per_parameter(storage->optimizer, &profile->estimated->model,
                                                               &request);
}

static bool check_optimizer(const struct storage *storage, const struct profile *profile, struct error *error)
{
    const struct optimizer_row *row = &optimizer_rows[storage->optimizer];
    if (row->is_master && profile_dtype_bytes(profile->dtype) != 2)
        return error_set(error, "optimizer %s keeps fp32 weights beside 16-bit ones, but the profile's are %.40s; use"
                         " the optimizer without -master", optimizer_names[storage->optimizer], profile->dtype);
    for (size_t l = 0; row->is_factored && l < profile->layer_count; l++)
        if (profile->layers[l].parameter_bytes && !profile->layers[l].shape_count)
            return error_set(error,
                             "optimizer %s: layer %.80s has parameters but no \"shapes\", from which its state"
                             " follows; add them to the profile",
                             optimizer_names[storage->optimizer], profile->layers[l].name);
    return true;
}

// A replica computes its momentum from its own gradients: whole ones, once all of them are there.
static bool check_compressed(const struct storage *storage, const struct profile *profile, bool flushes,
                        struct error *error)
{
    const char *name = optimizer_names[storage->optimizer];
    if (!optimizer_rows[storage->optimizer].compresses)
        return true;
    if (profile_dtype_bytes(profile->dtype) != 4)
        return error_set(error, "optimizer %s keeps its state in fp32 and beside weights in fp32, but the profile's are"
                         " %.40s; use adamw-master", name, profile->dtype);
    if (storage->shard != SHARD_NONE)
        return error_set(error, "optimizer %s: each replica keeps the whole momentum and what compression left of its"
                         " own, and none of it can be shared; do not share its state, or take adamw", name);
    if (storage->optimizer_on_host)
        return error_set(error, "optimizer %s: replicas send each other momentum, which is to be on their devices;"
                         " leave the optimizer there, or take adamw", name);
    if (storage->tied_apart)
        return error_set(error, "optimizer %s: tied layers apart need each other's gradients, and replicas send"
                         " momentum; keep tied layers together, or take adamw", name);
    return flushes
        || error_set(error, "optimizer %s: replicas bring their momentum together at a flush, which an asynchronous"
                     " schedule has not; use a schedule that flushes, or adamw", name);
}

// State of rows has no shares, and rows without a gradient are known from a list alone.
static bool check_rows(const struct storage *storage, const struct profile *profile, bool flushes, struct error *error)
{
    const char *name = optimizer_names[storage->optimizer];
    const bool is_lazy = optimizer_rows[storage->optimizer].is_lazy;
    if (!storage_is_for_rows(storage, profile))
        return true;
    if (profile_dtype_bytes(profile->dtype) != sizeof(float))
        return error_set(error, "optimizer %s: tables and their state are in fp32, and the profile's are %.40s; use an"
                         " fp32 profile", name, profile->dtype);
    if (storage->shard != SHARD_NONE)
        return error_set(error, "optimizer %s: rows of tables are updated whole, and shares cut through them; do not"
                         " share its state, or take adagrad", name);
    if (is_lazy && (storage->optimizer_on_host || storage->window))
        return error_set(error, "optimizer %s: the rows to update are in a list on the device; leave the optimizer and"
                         " all layers there, or take adagrad-rows", name);
    return !is_lazy || flushes
        || error_set(error, "optimizer %s: only a schedule that flushes has lists of the rows to update; use one, or"
                     " take adagrad-rows", name);
}

bool storage_check(const struct storage *storage, const struct profile *profile, const struct cluster *cluster,
                   bool flushes, struct error *error)
{
    if (!check_rows(storage, profile, flushes, error))
        return false;
    if (!check_optimizer(storage, profile, error) || !check_compressed(storage, profile, flushes, error))
        return false;
    if (storage_uses_host(storage) && !cluster->has_host)
        return error_set(error,
                         "states on the host: the cluster has no host; add one, such as \", host 512GiB 25GB/s\"");
    const bool leaves_weights = storage->window && storage->shard < SHARD_GRADIENTS;
    if (leaves_weights && !storage->optimizer_on_host)
        return error_set(error, "a window of layers leaves weights on the host, where their update must be too; put the"
                         " optimizer on the host, or shard gradients or weights, which leaves them with replicas");
    if (leaves_weights && !flushes)
        return error_set(error, "a window of layers: an asynchronous schedule needs several versions of the weights at"
                         " hand; use a schedule that flushes");
    if (storage->shard >= SHARD_GRADIENTS && profile->one_owner_count > 0)
        return error_set(error,
                         "sharded %s: layer %.80s reads the parameters of layer %.80s, and a replica has room for"
                         " those of one layer at a time; share the optimizer's state alone",
                         shard_names[storage->shard], profile->layers[profile->one_owner[0].to].name,
                         profile->layers[profile->one_owner[0].from].name);
    if (storage->tied_apart && !flushes)
        return error_set(error, "tied layers apart: their gradients are added up at a flush, which an asynchronous"
                         " schedule has not; keep them together");
    return true;
}

static bool check_runnable_optimizer(const struct storage *storage, const char *dtype, struct error *error)
{
    const char *name = optimizer_names[storage->optimizer];
    const bool is_master = optimizer_is_master(storage->optimizer), is_narrow = profile_dtype_bytes(dtype) == 2;
    if (is_narrow && !is_master)
        return error_set(error, "the plan's optimizer is %s, and training in %s takes weights in fp32 beside those in"
                         " %s: plan with %s", name, dtype, dtype,
                         optimizer_names[optimizer_master(storage->optimizer)]);
    if (is_master && !is_narrow)
        return error_set(error, "the plan's optimizer is %s, for weights in bf16 or fp16, and the device computes in"
                         " %s: name a device such as cpu:bf16, or plan without -master", name, dtype);
    return true;
}

bool storage_check_runnable(const struct storage *storage, const char *dtype, struct error *error)
{
    return check_runnable_optimizer(storage, dtype, error)
        && (!storage->bytes_per_parameter
            || error_set(error, "the plan counts on %u bytes of a parameter, as the framework holds them that it was"
                         " estimated for: it is for planning alone", storage->bytes_per_parameter));
}

// --- as a part of documents -----------------------------------------------------------

void storage_write(const struct storage *storage, struct json_writer *writer)
{
    json_put_string(writer, "optimizer", optimizer_names[storage->optimizer]);
    if (storage->bytes_per_parameter)
        json_put_u64(writer, "bytes_per_parameter", storage->bytes_per_parameter);
    if (storage_is_plain(storage))
        return;
    json_begin_object(writer, "storage", JSON_LINES);
    json_put_string(writer, "shard", shard_names[storage->shard]);
    json_put_bool(writer, "optimizer_on_host", storage->optimizer_on_host);
    json_put_bool(writer, "activations_on_host", storage->activations_on_host);
    json_put_u64(writer, "window", storage->window);
    json_put_u64(writer, "step_bytes_per_second", storage->step_rate);
    json_put_bool(writer, "tied_apart", storage->tied_apart);
    json_close(writer);
}

void storage_read(struct json *object, struct storage *storage)
{
    *storage = (struct storage){ .optimizer = (enum optimizer_kind)json_choice(object, "optimizer", optimizer_names) };
    if (json_has(object, "bytes_per_parameter"))
        storage->bytes_per_parameter = (uint32_t)json_u64(object, "bytes_per_parameter", 16, 64);
    if (storage->bytes_per_parameter && storage->optimizer != OPTIMIZER_ADAMW_MASTER)
        json_refuse_key(object, "bytes_per_parameter", "is for adamw-master, and the optimizer is %s",
                        optimizer_names[storage->optimizer]);
    if (!json_has(object, "storage"))
        return;
    struct json place = json_object(object, "storage");
    storage->shard = (enum shard)json_choice(&place, "shard", shard_names);
    storage->optimizer_on_host = json_bool(&place, "optimizer_on_host");
    storage->activations_on_host = json_bool(&place, "activations_on_host");
    storage->window = (uint32_t)json_u64(&place, "window", 0, STORAGE_MOST_WINDOW);
    storage->step_rate = json_u64(&place, "step_bytes_per_second", 0, JSON_MAX);
    storage->tied_apart = json_bool(&place, "tied_apart");
    if (storage_is_plain(storage))
        json_refuse(&place, "says nothing but what goes without saying; leave it out");
    json_end(&place);
}
