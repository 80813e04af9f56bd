#include "partitioner/evaluate/evaluate_storage.h"

#include <inttypes.h>
#include <string.h>

#include "common/number.h"

// The number of the segment that holds a layer, or -1.
int evaluate_segment_of(const struct scope *scope, uint32_t layer)
{
    for (size_t i = 0; i < scope->stage->recompute_count; i++)
        if (scope->stage->recompute[i].first <= layer && layer < scope->stage->recompute[i].end)
            return (int)i;
    return -1;
}

bool evaluate_is_recomputed(const struct scope *scope, uint32_t layer)
{
    return evaluate_segment_of(scope, layer) >= 0;
}

static uint64_t replicas_of(const struct scope *scope)
{
    return scope->stage->device_count;
}

static bool has_shard(const struct scope *scope, enum shard what)
{
    return replicas_of(scope) > 1 && scope->plan->storage.shard >= what;
}

static bool is_streamed(const struct scope *scope)
{
    const struct storage *storage = &scope->plan->storage;
    return storage->window && storage->window < scope->end - scope->first && storage->shard < SHARD_GRADIENTS;
}

bool evaluate_gathers(const struct scope *scope)
{
    return is_streamed(scope) || has_shard(scope, SHARD_WEIGHTS);
}

// Whether parts consist of whole blocks of 2048 fp32 numbers; and whether of whole tensors.
static bool is_in_blocks(const struct scope *scope)
{
    return scope->plan->storage.optimizer == OPTIMIZER_ADAM_8BIT;
}

static bool is_in_tensors(const struct scope *scope)
{
    const enum optimizer_kind kind = scope->plan->storage.optimizer;
    return kind == OPTIMIZER_LARS || kind == OPTIMIZER_LAMB || kind == OPTIMIZER_ADAFACTOR
        || kind == OPTIMIZER_ADAGRAD_ROWS || kind == OPTIMIZER_ADAM_ROWS;
}

// A replica's part, rounded up like a tensor. If an even part would end within a block, or something larger, all of
// that belongs to the next replica.
static uint64_t part_with(const struct scope *scope, uint64_t bytes, uint64_t more)
{
    const uint64_t replicas = replicas_of(scope), even = (bytes + replicas - 1) / replicas;
    return replicas > 1 ? min_u64(bytes, round_to_256(even + more)) : bytes;
}

static uint64_t even_part_of(const struct scope *scope, uint64_t bytes)
{
    return part_with(scope, bytes, is_in_blocks(scope) ? 2047 * 4 : 0);
}

// What all other replicas have of it.
static uint64_t rest_of(const struct scope *scope, uint64_t bytes)
{
    return bytes - bytes / replicas_of(scope);
}

static uint64_t weights_of(const struct scope *scope, uint32_t layer)
{
    return round_to_256(scope->profile->layers[layer].parameter_bytes);
}

static bool owns_for(const struct profile *profile, uint32_t owner, uint32_t reader)
{
    for (size_t i = 0; i < profile->one_owner_count; i++)
        if (profile->one_owner[i].from == owner && profile->one_owner[i].to == reader)
            return true;
    return false;
}

// Whether a layer is the first of the stage that reads weights of a layer outside.
static bool brings(const struct scope *scope, uint32_t layer, uint32_t owner)
{
    if (evaluate_is_inside(scope, owner) || !owns_for(scope->profile, owner, layer))
        return false;
    for (uint32_t l = scope->first; l < layer; l++)
        if (owns_for(scope->profile, owner, l))
            return false;
    return true;
}

uint64_t evaluate_weights(const struct scope *scope, uint32_t layer)
{
    uint64_t sum = weights_of(scope, layer);
    for (uint32_t owner = 0; scope->profile->one_owner_count && owner < scope->profile->layer_count; owner++)
        sum += brings(scope, layer, owner) ? weights_of(scope, owner) : 0;
    return sum;
}

// The bytes of a layer's weights whose optimizer state this device keeps. Optimizers of whole tensors, or blocks,
// keep all.
static uint64_t kept_of(const struct scope *scope, uint32_t layer)
{
    const struct profile_layer *profiled = &scope->profile->layers[layer];
    switch (scope->plan->storage.optimizer) {
    case OPTIMIZER_LARS:
    case OPTIMIZER_LAMB:
    case OPTIMIZER_ADAFACTOR:
    case OPTIMIZER_ADAM_8BIT:
    case OPTIMIZER_ADAM_1BIT:
    case OPTIMIZER_ADAGRAD_ROWS:
    case OPTIMIZER_ADAM_ROWS:
        return profiled->parameter_bytes;
    default:
        return profiled->parameter_bytes - profiled->states_elsewhere_bytes;
    }
}

static uint64_t parameters_of(const struct scope *scope, uint32_t layer)
{
    const char *type = scope->profile->dtype;
    const uint64_t bytes = kept_of(scope, layer);
    return strstr(type, "64") ? bytes / 8 : strstr(type, "32") ? bytes / 4 : strstr(type, "8") ? bytes : bytes / 2;
}

static uint64_t adafactor_of(const struct profile_layer *layer)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < layer->shape_count; i++) {
        const uint64_t rows = layer->shapes[i].rows, columns = layer->shapes[i].columns;
        bytes += 4 * (rows > 1 && columns > 1 ? rows + columns : rows * columns);
    }
    return round_to_256(bytes);
}

// A number of each row of a table, and of each weight of other layers.
static uint64_t by_rows_of(const struct profile_layer *layer, uint64_t weights)
{
    uint64_t rows = 0;
    for (size_t i = 0; layer->touched_rows && i < layer->shape_count; i++)
        rows += 4 * layer->shapes[i].rows * layer->shapes[i].columns / layer->row_bytes;
    return layer->touched_rows ? round_to_256(4 * rows) : weights;
}

static uint64_t state_of(const struct scope *scope, uint32_t layer)
{
    const uint64_t weights = round_to_256(kept_of(scope, layer)), parameters = parameters_of(scope, layer);
    switch (scope->plan->storage.optimizer) {
    case OPTIMIZER_SGD:
        return 0;
    case OPTIMIZER_MOMENTUM:
    case OPTIMIZER_ADAGRAD:
    case OPTIMIZER_LARS:
        return weights;
    case OPTIMIZER_ADAMW:
    case OPTIMIZER_ADAM:
    case OPTIMIZER_ADAM_ROWS:
    case OPTIMIZER_LAMB:
        return 2 * weights;
    case OPTIMIZER_ADAGRAD_ROWS:
        return by_rows_of(&scope->profile->layers[layer], weights);
    case OPTIMIZER_ADAM_1BIT:
        return 3 * weights;
    case OPTIMIZER_ADAFACTOR:
        return adafactor_of(&scope->profile->layers[layer]);
    case OPTIMIZER_ADAM_8BIT:
        return round_to_256(2 * parameters + 8 * ((parameters + 2047) / 2048));
    case OPTIMIZER_SGD_MASTER:
        return round_to_256(4 * parameters);
    case OPTIMIZER_MOMENTUM_MASTER:
        return round_to_256(8 * parameters);
    case OPTIMIZER_ADAMW_MASTER:
        return round_to_256(12 * parameters);
    }
    return 0;
}

// If there is an fp32 copy beside 16-bit weights, gradients are fp32, unless the plan says otherwise.
static uint64_t gradients_for(const struct scope *scope, uint64_t weights)
{
    const enum optimizer_kind kind = scope->plan->storage.optimizer;
    const bool wide = kind == OPTIMIZER_SGD_MASTER || kind == OPTIMIZER_MOMENTUM_MASTER
                   || kind == OPTIMIZER_ADAMW_MASTER;
    const uint64_t said = scope->plan->storage.bytes_per_parameter;
    return wide ? weights / 2 * (said ? said - 14 : 4) : weights;
}

// A number, those of the rows, and the rows themselves, which so many micro-batches name. Each table has room for what
// they name, or for all its rows; rows that devices add up are always there.
static uint64_t rows_of_batches(const struct profile_layer *profiled, uint64_t batches)
{
    uint64_t room = 0, rows = 0;
    for (size_t i = 0; i < profiled->shape_count; i++) {
        const uint64_t all = 4 * profiled->shapes[i].rows * profiled->shapes[i].columns / profiled->row_bytes;
        const uint64_t named = batches * profiled->touched_rows;
        const uint64_t before = rows < profiled->summed_rows ? profiled->summed_rows - rows : 0;
        const uint64_t added_up = all < before ? all : before;
        room += added_up + (all - added_up < named ? all - added_up : named);
        rows += all;
    }
    return 256 + round_to_256(4 * room) + round_to_256(room * profiled->row_bytes);
}

// What each copy sends of a list of rows to the others: the rows of the micro-batches that it has.
static uint64_t sent_for(const struct scope *scope, uint32_t layer)
{
    const uint64_t copies = replicas_of(scope), all = scope->plan->micro_batches;
    const uint64_t own = scope->plan->given ? all : (all + copies - 1) / copies;
    return copies > 1 ? rows_of_batches(&scope->profile->layers[layer], own) : 0;
}

// Bytes of a list of rows instead of a gradient of all of a table; 0: there is none. Lists are for weights in fp32 that
// an update moves only by their gradients. A list has the rows of all micro-batches, and a place of each row of the
// tables. Behind it is what all copies of the stage send. An older version of the tables has such rows without places
// (`undo`). A list is only there if that is less than the tables, or, with several copies, if the list is.
static uint64_t listed_for(const struct scope *scope, uint32_t layer, uint64_t *undo)
{
    const struct storage *storage = &scope->plan->storage;
    const struct profile_layer *profiled = &scope->profile->layers[layer];
    const bool is_by_rows = storage->optimizer == OPTIMIZER_SGD || storage->optimizer == OPTIMIZER_ADAGRAD
                         || storage->optimizer == OPTIMIZER_ADAGRAD_ROWS || storage->optimizer == OPTIMIZER_ADAM_ROWS;
    const bool flushes = scope->plan->weights == WEIGHTS_FLUSH;
    uint64_t rows = 0;
    const bool is_each = scope->plan->weights == WEIGHTS_STASH || scope->plan->weights == WEIGHTS_VERTICAL;
    const uint64_t batches = is_each && !scope->plan->given ? 1 : scope->plan->micro_batches;
    *undo = 0;
    if (!is_by_rows || storage->shard || storage->optimizer_on_host || storage->window
        || (replicas_of(scope) > 1 && !flushes) || !strstr(scope->profile->dtype, "32") || !profiled->touched_rows)
        return 0;
    for (size_t i = 0; i < profiled->shape_count; i++)
        rows += 4 * profiled->shapes[i].rows * profiled->shapes[i].columns / profiled->row_bytes;
    *undo = rows_of_batches(profiled, batches);
    const uint64_t list = *undo + round_to_256(4 * rows) + replicas_of(scope) * sent_for(scope, layer);
    const bool is_less = (flushes ? list : *undo) < weights_of(scope, layer);
    const bool is_always = flushes && (replicas_of(scope) == 1 || storage->optimizer == OPTIMIZER_ADAM_ROWS);
    return is_less || is_always ? list : (*undo = 0);
}

static uint64_t all_gradients(const struct scope *scope)
{
    uint64_t sum = 0;
    for (uint32_t l = scope->first; l < scope->end; l++) {
        uint64_t undo;
        const uint64_t own = weights_of(scope, l), listed = listed_for(scope, l, &undo);
        sum += gradients_for(scope, evaluate_weights(scope, l) - own) + (listed ? listed : gradients_for(scope, own));
    }
    return sum;
}

static uint64_t version_of(const struct scope *scope)
{
    uint64_t sum = 0, undo;
    for (uint32_t l = scope->first; l < scope->end; l++) {
        const bool is_listed = listed_for(scope, l, &undo) > 0 && scope->plan->weights != WEIGHTS_FLUSH;
        sum += evaluate_weights(scope, l) - (is_listed ? weights_of(scope, l) - undo : 0);
    }
    return sum;
}

static uint64_t all_weights(const struct scope *scope)
{
    uint64_t sum = 0;
    for (uint32_t l = scope->first; l < scope->end; l++)
        sum += evaluate_weights(scope, l);
    return sum;
}

static uint64_t all_states(const struct scope *scope)
{
    uint64_t sum = 0;
    for (uint32_t l = scope->first; l < scope->end; l++) {
        sum += state_of(scope, l);
        for (uint32_t owner = 0; scope->profile->one_owner_count && owner < scope->profile->layer_count; owner++)
            sum += brings(scope, l, owner) ? state_of(scope, owner) : 0;
    }
    return sum;
}

// In a profile without shapes, a layer counts as one tensor.
static uint64_t largest_tensor(const struct scope *scope, uint32_t layer)
{
    const struct profile_layer *profiled = &scope->profile->layers[layer];
    const uint64_t size = strstr(scope->profile->dtype, "32") ? 4 : profile_dtype_bytes(scope->profile->dtype);
    uint64_t most = 0;
    for (size_t i = 0; i < profiled->shape_count; i++)
        most = max_u64(most, round_to_256(profiled->shapes[i].rows * profiled->shapes[i].columns * size));
    return profiled->shape_count > 0 ? min_u64(most, weights_of(scope, layer)) : weights_of(scope, layer);
}

static uint64_t part_of(const struct scope *scope, uint64_t bytes)
{
    uint64_t most = 0;
    for (uint32_t l = scope->first; l < scope->end; l++) {
        most = max_u64(most, largest_tensor(scope, l));
        for (uint32_t owner = 0; scope->profile->one_owner_count && owner < scope->profile->layer_count; owner++)
            most = max_u64(most, brings(scope, l, owner) ? largest_tensor(scope, owner) : 0);
    }
    return is_in_tensors(scope) ? part_with(scope, bytes, most) : even_part_of(scope, bytes);
}

// Two bytes for each number, and eight for each block. Each layer, and the copy that it may read, has a block that
// is not full.
static uint64_t block_part_of(const struct scope *scope, uint64_t weights)
{
    const uint64_t numbers = weights / 4;
    uint64_t blocks = numbers / 2048;
    for (uint32_t l = scope->first; l < scope->end; l++)
        blocks += 2;
    return round_to_256(2 * numbers + 8 * blocks);
}

// The part of an optimizer's state of a replica that has this many bytes of weights. The 12 bytes that adamw-master
// keeps for a parameter go to one replica. Which replica has many of adafactor's rows and columns is not known, so
// each counts all.
static uint64_t state_part_of(const struct scope *scope, uint64_t bytes, uint64_t weights)
{
    const uint64_t replicas = replicas_of(scope);
    const enum optimizer_kind kind = scope->plan->storage.optimizer;
    const uint64_t whole = kind == OPTIMIZER_ADAMW_MASTER ? 12 : 1;
    uint64_t part = (bytes + replicas - 1) / replicas;
    if (replicas == 1 || kind == OPTIMIZER_ADAFACTOR)
        return bytes;
    if (is_in_blocks(scope))
        return min_u64(bytes, block_part_of(scope, weights));
    if (is_in_tensors(scope))
        return min_u64(bytes, kind == OPTIMIZER_LAMB || kind == OPTIMIZER_ADAM_ROWS ? 2 * weights : weights);
    while (part % whole != 0)
        part++;
    return round_to_256(part);
}

// The most weights of this many consecutive layers.
static uint64_t most_in_a_row(const struct scope *scope, uint32_t layers)
{
    uint64_t most = 0;
    for (uint32_t from = scope->first; from < scope->end; from++) {
        uint64_t sum = 0;
        for (uint32_t l = from; l < scope->end && l < from + layers; l++)
            sum += evaluate_weights(scope, l);
        most = max_u64(most, sum);
    }
    return most;
}

void evaluate_storage(const struct scope *scope, struct sizes *sizes)
{
    const struct storage *storage = &scope->plan->storage;
    const uint64_t weights = all_weights(scope), states = all_states(scope);
    const uint64_t room = most_in_a_row(scope, storage->window > 1 ? storage->window : 1);
    sizes->weights = weights;
    sizes->version = version_of(scope);
    sizes->gradients = all_gradients(scope);
    sizes->optimizer = has_shard(scope, SHARD_OPTIMIZER) ? state_part_of(scope, states, part_of(scope, weights))
                                                         : states;
    if (has_shard(scope, SHARD_GRADIENTS))
        sizes->gradients = part_of(scope, gradients_for(scope, weights)) + gradients_for(scope, room);
    if (has_shard(scope, SHARD_WEIGHTS)) {
        sizes->version = part_of(scope, weights);
        sizes->weights = sizes->version + room;
    }
    if (is_streamed(scope)) {
        sizes->weights = sizes->version = most_in_a_row(scope, storage->window);
        sizes->gradients = gradients_for(scope, sizes->weights);
    }
    if (storage->optimizer_on_host) {
        const bool is_shared = has_shard(scope, SHARD_OPTIMIZER) && !is_streamed(scope);
        const uint64_t gradients = gradients_for(scope, weights);
        sizes->host = sizes->optimizer + (is_shared ? part_of(scope, weights) + part_of(scope, gradients)
                                                    : weights + gradients);
        sizes->optimizer = 0;
    }
}

// --- times --------------------------------------------------------------------------------

// The device of a replica that sends and receives its messages: the first of its group.
static uint32_t first_of(const struct plan_stage *stage, size_t replica)
{
    return stage->devices[replica * plan_stage_group(stage)];
}

// The time of this many messages, one after the other, over the worst of the links between the stage's devices.
static uint64_t link_time(const struct scope *scope, uint64_t bytes, uint64_t messages)
{
    const struct cluster *cluster = scope->plan->cluster;
    uint64_t latency = 0, rate = UINT64_MAX;
    for (size_t a = 0; a < replicas_of(scope); a++) {
        for (size_t b = 0; b < a; b++) {
            const size_t level = cluster_level_between(cluster, first_of(scope->stage, a), first_of(scope->stage, b));
            const struct cluster_level *link = &cluster->levels[level];
            latency = max_u64(latency, link->latency_ns);
            rate = min_u64(rate, link->bytes_per_second);
        }
    }
    return transfer_ns(bytes, rate, messages * latency);
}

static uint64_t host_time(const struct scope *scope, uint64_t bytes)
{
    const struct cluster *cluster = scope->plan->cluster;
    const uint64_t sharing = cluster->level_count ? cluster->levels[0].size : 1;
    const uint64_t rate = cluster->host_bytes_per_second / sharing;
    return transfer_ns(bytes, rate ? rate : 1, 0);
}

static void add_step(const struct scope *scope, struct added_times *times)
{
    const struct storage *storage = &scope->plan->storage;
    uint64_t weights = all_weights(scope), states = all_states(scope), gradients = gradients_for(scope, weights);
    if (has_shard(scope, SHARD_OPTIMIZER)) {
        weights = even_part_of(scope, weights);
        gradients = even_part_of(scope, gradients);
        states = state_part_of(scope, states, weights);
    }
    if (storage->step_rate)
        times->step_ns += transfer_ns(2 * weights + gradients + 2 * states, storage->step_rate, 0);
    if (storage->optimizer_on_host && !is_streamed(scope))
        times->step_ns += host_time(scope, gradients) + host_time(scope, weights);
}

static uint64_t way_between(const struct cluster *cluster, uint32_t a, uint32_t b, uint64_t bytes)
{
    const struct cluster_level *link = &cluster->levels[cluster_level_between(cluster, a, b)];
    return a == b ? 0 : transfer_ns(bytes, link->bytes_per_second, link->latency_ns);
}

static bool is_on(const struct plan_stage *stage, uint32_t device)
{
    for (size_t replica = 0; replica < stage->device_count; replica++)
        if (first_of(stage, replica) == device)
            return true;
    return false;
}

// The time of gradients from any replica of one stage to any of another, over the slowest link, except between
// devices that have both stages.
static uint64_t slowest_way(const struct scope *scope, const struct plan_stage *other, uint64_t weights)
{
    uint64_t slowest = 0;
    for (size_t a = 0; a < replicas_of(scope); a++) {
        for (size_t b = 0; b < other->device_count; b++) {
            const uint32_t here = first_of(scope->stage, a), there = first_of(other, b);
            if (is_on(other, here) && is_on(scope->stage, there))
                continue;
            slowest = max_u64(slowest, way_between(scope->plan->cluster, here, there, gradients_for(scope, weights)));
        }
    }
    return slowest;
}

// Layers whose gradients must be the same: two that are tied, or an owner and all that read its weights.
struct tie {
    uint32_t one, other;
    bool is_one_owner;
};

static bool has_of(const struct scope *scope, const struct plan_stage *stage, struct tie tie)
{
    for (uint32_t l = stage->first; l < stage->end; l++)
        if (l == tie.one || (tie.is_one_owner ? owns_for(scope->profile, tie.one, l) : l == tie.other))
            return true;
    return false;
}

// The time of what all other stages that have some of these layers send here, if this stage has some.
static uint64_t time_of_tie(const struct scope *scope, struct tie tie, uint64_t weights)
{
    const struct plan *plan = scope->plan;
    uint64_t time = 0;
    for (size_t s = 0; s < plan->stage_count && has_of(scope, scope->stage, tie); s++)
        if (&plan->stages[s] != scope->stage && has_of(scope, &plan->stages[s], tie))
            time += slowest_way(scope, &plan->stages[s], weights);
    return time;
}

static uint64_t tied_time(const struct scope *scope)
{
    const struct profile *profile = scope->profile;
    uint64_t time = 0;
    for (size_t i = 0; i < profile->tied_count; i++) {
        const struct edge pair = profile->tied[i];
        const uint64_t weights = max_u64(weights_of(scope, pair.from), weights_of(scope, pair.to));
        if (!owns_for(profile, pair.from, pair.to) && !owns_for(profile, pair.to, pair.from))
            time += time_of_tie(scope, (struct tie){ pair.from, pair.to, false }, weights);
    }
    for (uint32_t l = 0; profile->one_owner_count && l < profile->layer_count; l++)
        time += time_of_tie(scope, (struct tie){ l, l, true }, weights_of(scope, l));
    return time;
}

// With room for two layers, a layer comes while the one before computes, if none is run again, tied or read in
// branches.
static bool moves_overlap(const struct scope *scope)
{
    const struct profile *profile = scope->profile;
    for (uint32_t l = scope->first; l < scope->end; l++) {
        const struct profile_layer *layer = &profile->layers[l];
        if (evaluate_is_recomputed(scope, l) && (layer->has_recompute ? layer->recompute_ns : layer->forward_ns))
            return false;
    }
    return scope->plan->storage.window > 1 && profile->is_chain && !profile->tied_count && !profile->one_owner_count;
}

static uint64_t speed_of(const struct scope *scope)
{
    uint64_t speed = UINT64_MAX;
    for (size_t i = 0; i < plan_stage_seats(scope->stage); i++)
        speed = min_u64(speed, scope->plan->cluster->devices[scope->stage->devices[i]].speed_permille);
    return speed;
}

static uint64_t computed(const struct scope *scope, uint32_t layer, enum action_kind kind)
{
    const struct profile_layer *profiled = &scope->profile->layers[layer];
    const uint64_t ns = kind == ACTION_F ? profiled->forward_ns : kind == ACTION_B ? profiled->backward_ns
                      : kind == ACTION_I ? profiled->backward_input_ns : profiled->backward_weight_ns;
    return (uint64_t)(((unsigned __int128)ns * 1000 + speed_of(scope) - 1) / speed_of(scope));
}

// The time of what comes for some layers before such an action, and of what goes back after it. With shares, all of
// a layer goes over a link, since it is mostly one replica's, and the sums stay where they are.
static uint64_t way_time(const struct scope *scope, uint64_t bytes, uint64_t layers)
{
    return is_streamed(scope) ? host_time(scope, bytes) : link_time(scope, bytes, layers);
}

static uint64_t goes(const struct scope *scope, enum action_kind kind, uint64_t weights, uint64_t layers)
{
    const bool adds_up = kind == ACTION_B || kind == ACTION_W;
    const bool leaves = is_streamed(scope) || has_shard(scope, SHARD_GRADIENTS);
    return adds_up && leaves ? way_time(scope, gradients_for(scope, weights), layers) : 0;
}

static uint64_t comes(const struct scope *scope, enum action_kind kind, uint64_t weights, uint64_t layers)
{
    const uint64_t so_far = is_streamed(scope) ? goes(scope, kind, weights, layers) : 0;
    return so_far + (evaluate_gathers(scope) ? way_time(scope, weights, layers) : 0);
}

static uint64_t comes_of(const struct scope *scope, enum action_kind kind, uint32_t layer)
{
    const uint64_t weights = evaluate_weights(scope, layer);
    return comes(scope, kind, weights, weights ? 1 : 0);
}

static uint64_t goes_of(const struct scope *scope, enum action_kind kind, uint32_t layer)
{
    const uint64_t weights = evaluate_weights(scope, layer);
    return goes(scope, kind, weights, weights ? 1 : 0);
}

// Played layer by layer on two lanes. A layer computes when it has come and the layer before has computed. The next
// layer begins to come when this one begins to compute, behind what goes back of the layer before.
static uint64_t uncovered(const struct scope *scope, enum action_kind kind)
{
    const uint32_t count = scope->end - scope->first;
    uint64_t lane = 0, done = 0, sum = 0;
    for (uint32_t i = 0; i <= count; i++) {
        const uint32_t next = kind == ACTION_F ? scope->first + i : scope->end - 1 - i;
        const uint32_t now = kind == ACTION_F ? next - 1 : next + 1, last = kind == ACTION_F ? now - 1 : now + 1;
        const uint64_t starts = max_u64(lane, done);
        lane = starts;
        if (i > 1)
            lane += goes_of(scope, kind, last);
        if (i < count)
            lane += comes_of(scope, kind, next);
        if (i == 0)
            continue;
        done = starts + computed(scope, now, kind);
        sum += computed(scope, now, kind);
    }
    const uint32_t last = kind == ACTION_F ? scope->end - 1 : scope->first;
    return max_u64(lane, done) + goes_of(scope, kind, last) - sum;
}

static uint64_t in_turn(const struct scope *scope, enum action_kind kind)
{
    uint64_t layers = 0;
    for (uint32_t l = scope->first; l < scope->end; l++)
        layers += evaluate_weights(scope, l) > 0;
    return comes(scope, kind, all_weights(scope), layers) + goes(scope, kind, all_weights(scope), layers);
}

// For which devices with rows of their own add up the gradients of all weights that the stage has.
static uint64_t members_time(const struct scope *scope)
{
    const struct profile_layer *layers = scope->profile->layers;
    uint64_t sum = 0;
    for (uint32_t l = scope->first; l < scope->end; l++) {
        sum += layers[l].update_ns;
        for (uint32_t owner = 0; scope->profile->one_owner_count && owner < scope->profile->layer_count; owner++)
            sum += brings(scope, l, owner) ? layers[owner].update_ns : 0;
    }
    return sum;
}

struct added_times evaluate_added_times(const struct scope *scope, const struct sizes *sizes)
{
    struct added_times times = { 0 };
    const uint64_t weights = all_weights(scope);
    if (weights && has_shard(scope, SHARD_OPTIMIZER) && !has_shard(scope, SHARD_WEIGHTS))
        times.step_ns += link_time(scope, rest_of(scope, weights), 1);
    if (weights)
        add_step(scope, &times);
    times.step_ns += tied_time(scope) + members_time(scope);
    if (is_streamed(scope) || has_shard(scope, SHARD_GRADIENTS)) {
        uint64_t (*added)(const struct scope *, enum action_kind) = moves_overlap(scope) ? uncovered : in_turn;
        times.forward_ns += added(scope, ACTION_F);
        times.backward_ns += added(scope, ACTION_B);
        times.backward_input_ns += added(scope, ACTION_I);
        times.backward_weight_ns += added(scope, ACTION_W);
    }
    if (scope->plan->storage.activations_on_host)
        times.move_ns = host_time(scope, sizes->kept + sizes->kept_through);
    return times;
}

// Each copy gets its part of the gradients from every other copy. It then sends all of them the sum, unless it
// updates its part alone and no layers are tied apart. So this takes twice, or once, the time over the slowest of
// their links. Sharded gradients have been handed on by then. Signs take a bit for each of 1024 weights, and a
// float: 132 bytes. What a copy sends of lists of rows goes to the others once, and not back: half of all these bytes.
uint64_t evaluate_reduce_time(const struct scope *scope)
{
    uint64_t weights = all_weights(scope), undo;
    for (uint32_t l = scope->first; l < scope->end; l++)
        if (replicas_of(scope) > 1 && listed_for(scope, l, &undo) > 0)
            weights = weights - weights_of(scope, l) + replicas_of(scope) * (sent_for(scope, l) / 2);
    const bool are_signs = scope->plan->storage.optimizer == OPTIMIZER_ADAM_1BIT;
    const uint64_t bytes = are_signs ? 132 * rest_of(scope, (weights / 4 + 1023) / 1024)
                                     : rest_of(scope, gradients_for(scope, weights));
    const bool moves = weights && !has_shard(scope, SHARD_GRADIENTS);
    uint64_t slowest = 0;
    for (size_t a = 0; moves && a < replicas_of(scope); a++)
        for (size_t b = 0; b < a; b++)
            slowest = max_u64(slowest, way_between(scope->plan->cluster, first_of(scope->stage, a),
                                                   first_of(scope->stage, b), bytes));
    return has_shard(scope, SHARD_OPTIMIZER) && !scope->plan->storage.tied_apart ? slowest : 2 * slowest;
}

// --- the host -----------------------------------------------------------------------------

bool evaluate_host(const struct plan *plan, struct error *error)
{
    const struct cluster *cluster = plan->cluster;
    const size_t in_machine = cluster->level_count ? cluster->levels[0].size : 1;
    for (size_t machine = 0; machine * in_machine < cluster->device_count; machine++) {
        uint64_t bytes = 0;
        for (size_t s = 0; s < plan->stage_count; s++)
            for (size_t i = 0; i < plan_stage_seats(&plan->stages[s]); i++)
                if (plan->stages[s].devices[i] / in_machine == machine)
                    bytes = add_clamped(bytes, plan->stages[s].memory.host_bytes);
        if (bytes > 0 && bytes > cluster->host_memory_bytes)
            return error_set_kind(error, ERROR_ANSWER,
                                  "machine %zu: its stages leave %" PRIu64 " bytes with their host, which has %" PRIu64,
                                  machine, bytes, cluster->host_memory_bytes);
    }
    return true;
}
