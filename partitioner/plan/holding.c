#include "partitioner/plan/holding.h"

#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "profiler/estimate/estimated.h"
#include "profiler/estimate/framework.h"
#include "schedules/host_moves.h"

const char *const shard_names[] = { "none", "optimizer", "gradients", "weights", NULL };
const char *const tied_names[] = { "together", "apart", NULL };

// What an optimizer keeps of a parameter. sgd, momentum: Polyak 1964. adam: Kingma and
// Ba 2015 (arXiv 1412.6980); adamw: Loshchilov and Hutter 2019 (1711.05101). lars: You
// et al. 2017 (1708.03888), momentum; lamb: You et al. 2020 (1904.00962), as adam.
// adafactor: Shazeer and Stern 2018 (1804.04235), without a first moment: a row and a
// column of fp32 of each matrix, a vector whole. adam8bit: Dettmers et al. 2022
// (2110.02861), two moments of a byte with an fp32 scale for each block of 2048.
// adam1bit: Tang et al. 2021 (2102.02888), as adam, and the error of what replicas send.
// *-master: fp32 beside 16-bit weights, Micikevicius et al. 2018 (1710.03740), with gradients
// summed in fp32.
struct optimizer_row {
    uint32_t copies;         // as large as the parameters, in their own type
    uint32_t bytes;          // of each parameter, whatever its type
    uint32_t scales, block;  // fp32 scales of each block of so many parameters
    bool factored, is_master;
    enum optimizer_unit unit;  // on no other of which what it does to a parameter depends
    bool sends_signs;
    bool is_old;             // the first version of documents knows it
};

static const struct optimizer_row rows[] = {
    [OPTIMIZER_SGD] = { .copies = 0, .is_old = true },
    [OPTIMIZER_MOMENTUM] = { .copies = 1, .is_old = true },
    [OPTIMIZER_ADAMW] = { .copies = 2, .is_old = true },
    [OPTIMIZER_ADAM] = { .copies = 2 },
    [OPTIMIZER_LAMB] = { .copies = 2, .unit = UPDATES_TENSORS },
    [OPTIMIZER_LARS] = { .copies = 1, .unit = UPDATES_TENSORS },
    [OPTIMIZER_ADAFACTOR] = { .factored = true, .unit = UPDATES_TENSORS },
    [OPTIMIZER_ADAM_8BIT] = { .bytes = 2, .scales = 2, .block = OPTIMIZER_8BIT_BLOCK, .unit = UPDATES_BLOCKS },
    [OPTIMIZER_ADAM_1BIT] = { .copies = 3, .unit = UPDATES_TENSORS, .sends_signs = true },
    [OPTIMIZER_SGD_MASTER] = { .bytes = 4, .is_master = true },
    [OPTIMIZER_MOMENTUM_MASTER] = { .bytes = 8, .is_master = true },
    [OPTIMIZER_ADAMW_MASTER] = { .bytes = 12, .is_master = true },
};

const char *const optimizer_names[] = {
    "sgd", "momentum", "adamw", "adam", "lamb", "lars", "adafactor", "adam8bit", "adam1bit", "sgd-master",
    "momentum-master", "adamw-master", NULL,
};

bool holding_is_plain(const struct holding *holding)
{
    return holding->shard == SHARD_NONE && !holding_uses_host(holding) && !holding->tied_apart && !holding->window
        && !holding->step_rate;
}

bool holding_is_old(const struct holding *holding)
{
    return holding_is_plain(holding) && rows[holding->optimizer].is_old;
}

bool holding_is_new(const struct holding *holding)
{
    return rows[holding->optimizer].sends_signs;
}

bool holding_uses_host(const struct holding *holding)
{
    return holding->optimizer_on_host || holding->activations_on_host;
}

void holding_say(const struct holding *holding, struct text *text)
{
    static const char *const shared[] = { NULL, "optimizer", "optimizer and gradients",
                                          "optimizer, gradients and weights" };
    char rate[NUMBER_SIZE];
    text_add(text, "%s", optimizer_names[holding->optimizer]);
    if (holding->shard != SHARD_NONE)
        text_add(text, ", %s shared by replicas", shared[holding->shard]);
    if (holding->optimizer_on_host || holding->activations_on_host)
        text_add(text, ", %s%s%s on the host", holding->optimizer_on_host ? "optimizer" : "",
                 holding->optimizer_on_host && holding->activations_on_host ? " and " : "",
                 holding->activations_on_host ? "activations" : "");
    if (holding->window) {
        text_add(text, ", %s of ", holding->shard == SHARD_GRADIENTS ? "gradients" : "weights");
        text_add_count(text, holding->window, "layer", "layers");
        text_add(text, " at a time");
    }
    if (holding->step_rate)
        text_add(text, ", updates at %s", rate_format(holding->step_rate, rate));
    if (holding->tied_apart)
        text_add(text, ", tied layers apart");
    if (holding->bytes_per_parameter)
        text_add(text, ", %u bytes of a parameter", holding->bytes_per_parameter);
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

bool optimizer_is_master(enum optimizer_kind optimizer)
{
    return rows[optimizer].is_master;
}

bool optimizer_sends_signs(enum optimizer_kind optimizer)
{
    return rows[optimizer].sends_signs;
}

bool optimizer_is_by_parameter(enum optimizer_kind optimizer)
{
    return rows[optimizer].unit == UPDATES_PARAMETERS;
}

bool optimizer_check_split(enum optimizer_kind optimizer, struct error *error)
{
    return optimizer_is_by_parameter(optimizer)
        || error_set(error, "%s looks at whole layers, of which a member of a group of devices has a part: plan with"
                     " sgd, momentum, adam or adamw, or without variants", optimizer_names[optimizer]);
}

enum optimizer_unit optimizer_unit(enum optimizer_kind optimizer)
{
    return rows[optimizer].unit;
}

uint64_t holding_gradient_bytes(const struct holding *holding, uint64_t weights)
{
    enum { USUAL = 4, OF_A_WEIGHT = 2, OF_ITS_STATES = 12 };
    const uint32_t all = holding->bytes_per_parameter, bytes = all ? all - OF_A_WEIGHT - OF_ITS_STATES : USUAL;
    return optimizer_is_master(holding->optimizer) ? multiply_clamped(bytes, weights / OF_A_WEIGHT) : weights;
}

uint64_t holding_state_bytes(const struct holding *holding, const struct profile *profile, uint32_t layer)
{
    const struct optimizer_row *row = &rows[holding->optimizer];
    const struct profile_layer *of = &profile->layers[layer];
    if (row->factored)
        return round_to_256(factored_bytes(of));
    const uint64_t updated = of->parameter_bytes - (row->unit == UPDATES_PARAMETERS ? of->states_elsewhere_bytes : 0);
    uint64_t bytes = multiply_clamped(row->copies, round_to_256(updated));
    if (!row->bytes)
        return bytes;
    const uint64_t parameters = updated / profile_dtype_bytes(profile->dtype);
    bytes = add_clamped(bytes, multiply_clamped(parameters, row->bytes));
    if (row->block)
        bytes += 4 * row->scales * ((parameters + row->block - 1) / row->block);
    return round_to_256(bytes);
}

uint64_t holding_largest_tensor(const struct profile *profile, uint32_t layer)
{
    const struct profile_layer *of = &profile->layers[layer];
    const uint64_t number = profile_dtype_bytes(profile->dtype), all = round_to_256(of->parameter_bytes);
    uint64_t most = of->shape_count > 0 ? 0 : all;
    for (size_t i = 0; i < of->shape_count; i++) {
        const uint64_t numbers = multiply_clamped(of->shapes[i].rows, of->shapes[i].columns);
        most = max_u64(most, round_to_256(multiply_clamped(numbers, number)));
    }
    return min_u64(most, all);
}

// What a share may have beyond an even one: its end moves back to where a block or tensor begins, by less than that.
static uint64_t beyond_even(const struct holding *holding, uint64_t tensor)
{
    const enum optimizer_unit unit = rows[holding->optimizer].unit;
    return unit == UPDATES_BLOCKS ? (OPTIMIZER_8BIT_BLOCK - 1) * sizeof(float) : unit == UPDATES_TENSORS ? tensor : 0;
}

uint64_t holding_share(const struct holding *holding, uint64_t bytes, uint64_t tensor, uint32_t replicas)
{
    const uint64_t even = bytes / replicas + (bytes % replicas > 0);
    return replicas == 1 ? bytes : min_u64(bytes, round_to_256(add_clamped(even, beyond_even(holding, tensor))));
}

// Of blocks: as many as fill what it has, and of each layer, and each that it has a copy of, a last one that is not full.
static uint64_t block_state_share(const struct optimizer_row *row, uint64_t numbers, uint32_t layers)
{
    const uint64_t blocks = numbers / row->block + 2 * (uint64_t)layers;
    return round_to_256(add_clamped(multiply_clamped(numbers, row->bytes), multiply_clamped(blocks, 4 * row->scales)));
}

uint64_t holding_state_share(const struct holding *holding, const struct shared_states *states, uint32_t replicas)
{
    const struct optimizer_row *row = &rows[holding->optimizer];
    const uint64_t kept = row->bytes > 0 ? row->bytes : 1;
    const uint64_t share = states->optimizer / replicas + (states->optimizer % replicas > 0);
    const uint64_t weights = holding_share(holding, states->weights, states->tensor, replicas);
    // A row and a column are little, and all may be of tensors that are one replica's.
    if (replicas == 1 || row->factored)
        return states->optimizer;
    if (row->unit == UPDATES_TENSORS)
        return min_u64(states->optimizer, multiply_clamped(row->copies, weights));
    if (row->unit == UPDATES_BLOCKS)
        return min_u64(states->optimizer, block_state_share(row, weights / sizeof(float), states->layers));
    return round_to_256(multiply_clamped((share / kept) + (share % kept > 0), kept));
}

size_t holding_machine(const struct cluster *cluster, size_t device)
{
    return cluster->level_count ? cluster_group(cluster, 0, device) : 0;
}

uint64_t holding_host_rate(const struct cluster *cluster)
{
    const uint64_t devices = cluster->level_count ? cluster->levels[0].size : 1;
    const uint64_t rate = cluster->has_host ? cluster->host_bytes_per_second / devices : 0;
    return cluster->has_host && rate == 0 ? 1 : rate;  // a rate of 0 would cost nothing
}

struct schedule *holding_order(const struct holding *holding, struct schedule *order, struct error *error)
{
    if (!order || !holding->activations_on_host || schedule_add_moves(order, error))
        return order;
    schedule_free(order);
    return NULL;
}

bool holding_can_tie_apart(const struct profile *profile, enum optimizer_kind optimizer, bool flushes)
{
    return profile->tied_count > 0 && flushes && !rows[optimizer].sends_signs;
}

bool holding_ties_apart(enum tied tied, const struct profile *profile, enum optimizer_kind optimizer, bool flushes)
{
    const bool is_usual = profile->lent_count > 0 && holding_can_tie_apart(profile, optimizer, flushes);
    return tied == TIED_APART || (tied == TIED_USUAL && is_usual);
}

uint32_t holding_bytes_per_parameter(enum optimizer_kind optimizer, const struct transformer *model,
                                     const struct estimate_request *request)
{
    return optimizer == OPTIMIZER_ADAMW_MASTER && request->like ? framework_bytes_per_parameter(model, request) : 0;
}

void holding_meet_profile(struct holding *holding, enum tied tied, const struct profile *profile, bool flushes)
{
    holding->tied_apart = holding_ties_apart(tied, profile, holding->optimizer, flushes);
    holding->bytes_per_parameter = 0;
    if (!profile->estimated)
        return;
    struct estimate_request request = profile->estimated->request;
    request.dtype = profile->dtype;
    holding->bytes_per_parameter = holding_bytes_per_parameter(holding->optimizer, &profile->estimated->model, &request);
}

static bool check_optimizer(const struct holding *holding, const struct profile *profile, struct error *error)
{
    const struct optimizer_row *row = &rows[holding->optimizer];
    if (row->is_master && profile_dtype_bytes(profile->dtype) != 2)
        return error_set(error, "optimizer %s keeps fp32 weights beside 16-bit ones, but the profile's are %.40s; use"
                         " the optimizer without -master", optimizer_names[holding->optimizer], profile->dtype);
    for (size_t l = 0; row->factored && l < profile->layer_count; l++)
        if (profile->layers[l].parameter_bytes && !profile->layers[l].shape_count)
            return error_set(error,
                             "optimizer %s: layer %.80s has parameters but no \"shapes\", from which its state"
                             " follows; add them to the profile",
                             optimizer_names[holding->optimizer], profile->layers[l].name);
    return true;
}

// A replica makes its momentum of its own gradients, whole, and once they are all there.
static bool check_signs(const struct holding *holding, const struct profile *profile, bool flushes,
                        struct error *error)
{
    const char *name = optimizer_names[holding->optimizer];
    if (!rows[holding->optimizer].sends_signs)
        return true;
    if (profile_dtype_bytes(profile->dtype) != 4)
        return error_set(error, "optimizer %s keeps its state in fp32 and beside weights in fp32, but the profile's are"
                         " %.40s; use adamw-master", name, profile->dtype);
    if (holding->shard != SHARD_NONE)
        return error_set(error, "optimizer %s: each replica keeps the whole momentum and what signs have left of its own,"
                         " and none of it can be shared; do not share its state, or take adamw", name);
    if (holding->optimizer_on_host)
        return error_set(error, "optimizer %s: replicas send each other momentum, which is to be on their devices; leave"
                         " the optimizer there, or take adamw", name);
    if (holding->tied_apart)
        return error_set(error, "optimizer %s: tied layers apart need each other's gradients, and replicas send momentum;"
                         " keep tied layers together, or take adamw", name);
    return flushes
        || error_set(error, "optimizer %s: replicas bring their momentum together at a flush, which an asynchronous"
                     " schedule has not; use a schedule that flushes, or adamw", name);
}

bool holding_check(const struct holding *holding, const struct profile *profile, const struct cluster *cluster,
                   bool flushes, struct error *error)
{
    if (!check_optimizer(holding, profile, error) || !check_signs(holding, profile, flushes, error))
        return false;
    if (holding_uses_host(holding) && !cluster->has_host)
        return error_set(error,
                         "states on the host: the cluster has no host; add one, such as \", host 512GiB 25GB/s\"");
    const bool leaves_weights = holding->window && holding->shard < SHARD_GRADIENTS;
    if (leaves_weights && !holding->optimizer_on_host)
        return error_set(error, "a window of layers leaves weights on the host, where their update must be too; put the"
                         " optimizer on the host, or shard gradients or weights, which leaves them with replicas");
    if (leaves_weights && !flushes)
        return error_set(error, "a window of layers: an asynchronous schedule needs several versions of the weights at"
                         " hand; use a schedule that flushes");
    if (holding->shard >= SHARD_GRADIENTS && profile->lent_count > 0)
        return error_set(error, "sharded %s: layer %.80s reads the parameters of layer %.80s, and a replica has room for"
                         " those of one layer at a time; share the optimizer's state alone", shard_names[holding->shard],
                         profile->layers[profile->lent[0].to].name, profile->layers[profile->lent[0].from].name);
    if (holding->tied_apart && !flushes)
        return error_set(error, "tied layers apart: their gradients are added up at a flush, which an asynchronous"
                         " schedule has not; keep them together");
    return true;
}

// Its own -master, or that of whom has none.
static enum optimizer_kind master_for(enum optimizer_kind optimizer)
{
    return rows[optimizer].is_old ? OPTIMIZER_SGD_MASTER + (optimizer - OPTIMIZER_SGD) : OPTIMIZER_ADAMW_MASTER;
}

static bool check_runnable_optimizer(const struct holding *holding, const char *dtype, struct error *error)
{
    const char *name = optimizer_names[holding->optimizer];
    const bool is_master = optimizer_is_master(holding->optimizer), is_narrow = profile_dtype_bytes(dtype) == 2;
    if (is_narrow && !is_master)
        return error_set(error, "the plan's optimizer is %s, and training in %s takes weights in fp32 beside those in"
                         " %s: plan with %s", name, dtype, dtype, optimizer_names[master_for(holding->optimizer)]);
    if (is_master && !is_narrow)
        return error_set(error, "the plan's optimizer is %s, for weights in bf16 or fp16, and the device computes in"
                         " %s: name a device such as cpu:bf16, or plan without -master", name, dtype);
    return true;
}

bool holding_check_runnable(const struct holding *holding, const char *dtype, struct error *error)
{
    return check_runnable_optimizer(holding, dtype, error)
        && (!holding->bytes_per_parameter
            || error_set(error, "the plan counts on %u bytes of a parameter, as the framework holds them that it was"
                         " estimated for: it is for planning alone", holding->bytes_per_parameter));
}

// --- as a part of documents -----------------------------------------------------------

void holding_write(const struct holding *holding, struct json_writer *writer)
{
    json_put_string(writer, "optimizer", optimizer_names[holding->optimizer]);
    if (holding->bytes_per_parameter)
        json_put_u64(writer, "bytes_per_parameter", holding->bytes_per_parameter);
    if (holding_is_plain(holding))
        return;
    json_begin_object(writer, "holding", JSON_LINES);
    json_put_string(writer, "shard", shard_names[holding->shard]);
    json_put_bool(writer, "optimizer_on_host", holding->optimizer_on_host);
    json_put_bool(writer, "activations_on_host", holding->activations_on_host);
    json_put_u64(writer, "window", holding->window);
    json_put_u64(writer, "step_bytes_per_second", holding->step_rate);
    json_put_bool(writer, "tied_apart", holding->tied_apart);
    json_close(writer);
}

void holding_read(struct json *object, unsigned version, unsigned since, unsigned newest, struct holding *holding)
{
    *holding = (struct holding){ .optimizer = (enum optimizer_kind)json_choice(object, "optimizer", optimizer_names) };
    const unsigned known = holding_is_new(holding) ? newest : rows[holding->optimizer].is_old ? 1 : since;
    if (version < known)
        json_refuse_key(object, "optimizer", "is \"%s\", which documents know since version %u",
                        optimizer_names[holding->optimizer], known);
    if (json_has(object, "bytes_per_parameter"))
        holding->bytes_per_parameter = (uint32_t)json_u64(object, "bytes_per_parameter", 16, 64);
    if (holding->bytes_per_parameter && holding->optimizer != OPTIMIZER_ADAMW_MASTER)
        json_refuse_key(object, "bytes_per_parameter", "is for adamw-master, and the optimizer is %s",
                        optimizer_names[holding->optimizer]);
    if (version < since || !json_has(object, "holding"))
        return;
    struct json place = json_object(object, "holding");
    holding->shard = (enum shard)json_choice(&place, "shard", shard_names);
    holding->optimizer_on_host = json_bool(&place, "optimizer_on_host");
    holding->activations_on_host = json_bool(&place, "activations_on_host");
    holding->window = (uint32_t)json_u64(&place, "window", 0, 1 << 20);
    holding->step_rate = json_u64(&place, "step_bytes_per_second", 0, JSON_MAX);
    holding->tied_apart = json_bool(&place, "tied_apart");
    if (holding_is_plain(holding))
        json_refuse(&place, "says nothing but what goes without saying; leave it out");
    json_end(&place);
}
