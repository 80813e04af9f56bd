#include <stdlib.h>

#include "device/table_kernels.h"
#include "runtime/ranks/weight_plan.h"
#include "runtime/stages/layer_state.h"
#include "runtime/twin/twin_parts.h"

// Adds a sum of gradients to those before it. After the last one, `gradients` is what the update reads: the whole
// sum, times a factor.
struct accumulation {
    uint32_t sum, sums;
    float factor;
};

static void accumulate(struct twin *twin, const struct accumulation *now, float *gradients, float *sum, uint64_t count)
{
    const uint64_t bytes = count * sizeof *gradients;
    if (count == 0)
        return;
    if (now->sums > 1 && now->sum == 0)
        queue_copy(twin->queue, sum, gradients, bytes);
    else if (now->sums > 1)
        kernel_add_floats(twin->queue, sum, sum, gradients, count);
    if (now->sum + 1 == now->sums)
        kernel_scale(twin->queue, gradients, now->sums > 1 ? sum : gradients, now->factor, count);
    else
        queue_zero(twin->queue, gradients, bytes);
}

// The same for a list of rows, whose sum is a list, too. Only schedules that flush have lists, and their factor is 1.
static void accumulate_list(const struct twin *twin, size_t l, uint32_t part, const struct accumulation *now)
{
    const struct row_list list = twin_list(twin, l, part);
    const uint64_t bytes = row_list_bytes(list.room, list.rows, list.columns);
    if (now->sums == 1)
        return;
    char *const sums = (char *)twin->own[l].sum;
    const struct row_list sum = row_list_in(sums + part * bytes, list.room, list.rows, list.columns);
    if (now->sum == 0)
        queue_zero(twin->queue, sum.count, sizeof *sum.count);
    kernel_add_list(twin->queue, &sum, &list);
    if (now->sum + 1 == now->sums)
        queue_copy(twin->queue, list.count, sum.count, bytes);
    else
        queue_zero(twin->queue, list.count, sizeof *list.count);
}

static void accumulate_lists(const struct twin *twin, size_t l, const struct accumulation *now)
{
    for (uint32_t part = 0; part < twin_table_parts(twin, l); part++)
        accumulate_list(twin, l, part, now);
}

// --- sums that the copies compress -------------------------------------------------------

// Whether the copies of the layer's stage send a compressed momentum for its next update.
static bool sends_compressed(const struct twin *twin, size_t l)
{
    return twin->compressed && twin->compressed[twin->own[l].stage].copies > 1
        && optimizer_is_frozen(&twin->settings.optimizer, twin->own[l].newest + 1);
}

// Index of a layer's first number within its stage.
static uint64_t first_of(const struct twin *twin, size_t layer)
{
    uint64_t first = 0;
    for (size_t l = 0; l < layer; l++)
        first += twin->own[l].stage == twin->own[layer].stage ? number_count(twin, l) : 0;
    return first;
}

// Keeps a copy's sum separate until the copies exchange them.
static void put_sum_aside(struct twin *twin, size_t l, uint32_t copy)
{
    const struct twin_compressed *compressed = &twin->compressed[twin->own[l].stage];
    const uint64_t bytes = number_count(twin, l) * sizeof(float);
    if (bytes == 0)
        return;
    queue_copy(twin->queue, compressed->gradients + copy * compressed->count + first_of(twin, l),
               twin->own[l].gradients, bytes);
    queue_zero(twin->queue, twin->own[l].gradients, bytes);
}

static void copy_moments(struct twin *twin, size_t l, bool is_back)
{
    const struct twin_compressed *compressed = &twin->compressed[twin->own[l].stage];
    const uint64_t count = number_count(twin, l), first = first_of(twin, l), bytes = count * sizeof(float);
    float *state = twin->own[l].state;
    if (bytes > 0 && is_back) {
        queue_copy(twin->queue, state, compressed->momentum + first, bytes);
    } else if (bytes > 0) {
        queue_copy(twin->queue, compressed->momentum + first, state, bytes);
        queue_copy(twin->queue, compressed->seconds + first, state + count, bytes);
    }
}

// Makes the exchange for those of the stages whose copies compress.
static void meet_compressed(struct twin *twin, const bool *stages)
{
    for (uint32_t s = 0; s < twin->settings.schedule->stages; s++) {
        bool do_meet = false;
        for (size_t l = 0; l < twin->layer_count; l++)
            do_meet |= stages[s] && twin->own[l].stage == s && sends_compressed(twin, l);
        for (size_t l = 0; do_meet && l < twin->layer_count; l++)
            if (twin->own[l].stage == s)
                copy_moments(twin, l, false);
        if (do_meet)
            twin_compressed_meet(&twin->compressed[s], twin->settings.optimizer.beta1);
        for (size_t l = 0; do_meet && l < twin->layer_count; l++)
            if (twin->own[l].stage == s)
                copy_moments(twin, l, true);
    }
}

static void add_sum(struct twin *twin, const bool *stages, const struct accumulation *now)
{
    for (size_t l = 0; l < twin->layer_count; l++)
        if (stages[twin->own[l].stage] && twin_has_lists(twin, l))
            accumulate_lists(twin, l, now);
        else if (stages[twin->own[l].stage] && sends_compressed(twin, l))
            put_sum_aside(twin, l, now->sum);
        else if (stages[twin->own[l].stage])
            accumulate(twin, now, twin->own[l].gradients, twin->own[l].sum, number_count(twin, l));
    for (size_t i = 0; i < twin->share_count; i++)
        if (stages[twin->shares[i].stage])
            accumulate(twin, now, twin->shares[i].gradients, twin->shares[i].sum,
                       number_count(twin, twin->shares[i].owner));
}

// The place to which the gradients of a share are added. If its stage comes before the owner's, this is the next such
// share; otherwise, or if there is none, it is the owner's gradients.
static float *sum_behind(const struct twin *twin, size_t share)
{
    const struct twin_share *this_share = &twin->shares[share];
    const struct twin_layer *owner = &twin->own[this_share->owner];
    for (size_t i = share + 1; this_share->stage < owner->stage && i < twin->share_count; i++)
        if (twin->shares[i].owner == this_share->owner && twin->shares[i].stage < owner->stage)
            return twin->shares[i].gradients;
    return owner->gradients;
}

// Adds the shares to the owners' gradients, stage by stage.
static void add_shares(struct twin *twin)
{
    for (size_t i = 0; i < twin->share_count; i++) {
        const struct twin_share *share = &twin->shares[i];
        float *sum = sum_behind(twin, i);
        const uint64_t count = number_count(twin, share->owner);
        kernel_add_floats(twin->queue, sum, sum, share->gradients, count);
        queue_zero(twin->queue, share->gradients, count * sizeof *sum);
    }
}

// A layer's gradients are in as many pieces as it has lists of rows, or in one.
static uint32_t piece_count(const struct twin *twin, size_t l)
{
    return twin_has_lists(twin, l) ? twin_table_parts(twin, l) : 1;
}

static struct twin_numbers {
    float *at;
    uint64_t count;
} numbers_of(const struct twin *twin, size_t l, uint32_t piece)
{
    const struct row_list list = twin_list(twin, l, piece);
    return list.room > 0 ? (struct twin_numbers){ list.sums, list.room * list.columns }
                         : (struct twin_numbers){ twin->own[l].gradients, number_count(twin, l) };
}

static void forget_layer(struct twin *twin, size_t l)
{
    for (uint32_t part = 0; twin_has_lists(twin, l) && part < twin_table_parts(twin, l); part++)
        queue_zero(twin->queue, twin_list(twin, l, part).count, sizeof(uint32_t));
    if (!twin_has_lists(twin, l))
        queue_zero(twin->queue, twin->own[l].gradients, number_count(twin, l) * sizeof(float));
}

// Divides gradients by the loss scale.
static void unscale(struct twin *twin)
{
    for (size_t l = 0; l < twin->layer_count; l++)
        for (uint32_t i = 0; twin->layers[l].parameter_bytes > 0 && i < piece_count(twin, l); i++) {
            const struct twin_numbers numbers = numbers_of(twin, l, i);
            kernel_scale(twin->queue, numbers.at, numbers.at, 1 / twin->scaling.scale, numbers.count);
        }
}

// Computes a norm for each member that has a shard of the layer.
static void measure_layer(struct twin *twin, size_t l)
{
    const struct split_norms *split = twin->settings.split;
    const uint32_t shards = split ? split->layers[l].members : 1;
    const uint64_t count = number_count(twin, l) / shards;
    struct layer_table table = layer_table_of(&twin->layers[l]);
    table.rows /= twin->layers[l].row_columns > 0 ? shards : 1;  // of one member
    for (uint32_t m = 0; m < shards; m++) {
        const struct norm_range measured = split_measured(split, (uint32_t)l, m, count);
        const struct row_list list = twin_list(twin, l, m);
        const struct row_list rows = list.room > 0 ? list : row_list_of_all(twin->own[l].gradients + m * count,
                                                                            table.rows, table.columns);
        if (measured.count > 0 && table.rows > 0)
            kernel_norm_rows(twin->queue, &twin->norms[l * members_of(twin) + m], &rows,
                             measured.first / table.columns);
        else if (measured.count > 0)
            kernel_norm(twin->queue, &twin->norms[l * members_of(twin) + m],
                        twin->own[l].gradients + m * count + measured.first, measured.count);
    }
}

static void measure(struct twin *twin)
{
    queue_zero(twin->queue, twin->norms, twin_norm_count(twin) * sizeof *twin->norms);
    for (size_t l = 0; l < twin->layer_count; l++)
        if (twin->layers[l].parameter_bytes > 0 && !twin->layers[l].is_frozen)
            measure_layer(twin, l);
}

// Clips the gradients of all layers by their norm.
static void clip(struct twin *twin)
{
    const struct clip clip = { twin->norms, twin_norm_count(twin), twin->settings.optimizer.clip };
    for (size_t l = 0; l < twin->layer_count; l++)
        for (uint32_t i = 0; twin->layers[l].parameter_bytes > 0 && i < piece_count(twin, l); i++)
            kernel_clip(twin->queue, &clip, numbers_of(twin, l, i).at, numbers_of(twin, l, i).count);
}

// Whether the gradients are finite, if the loss is scaled. Without loss scaling this is not checked, and the update
// is made.
static bool judge(struct twin *twin, bool *makes, struct error *error)
{
    *makes = true;
    if (twin->scaling.scale <= 0)
        return true;
    float *host = malloc(twin_norm_count(twin) * sizeof *host);
    if (!host)
        return error_no_memory(error, "the norms of gradients");
    queue_download(twin->queue, host, twin->norms, twin_norm_count(twin) * sizeof *host);
    const bool good = queue_wait(twin->queue, error);
    *makes = good && loss_scaling_judge(&twin->scaling, clip_norm(host, twin_norm_count(twin)));
    free(host);
    return good;
}

static void forget_gradients(struct twin *twin)
{
    for (size_t l = 0; l < twin->layer_count; l++)
        forget_layer(twin, l);
}

// Members' parts of tables follow one another, and each begins with a row of its own.
static void update_by_members(struct twin *twin, size_t l, const struct optimizer *optimizer,
                              struct optimizer_buffers *buffers, struct stage_part part)
{
    const uint32_t members = twin_table_parts(twin, l);
    const uint64_t list = row_list_bytes(part.room, part.room, part.columns) / sizeof(float);
    const uint64_t count = number_count(twin, l) / members;
    buffers->parts = &part;
    buffers->part_count = 1;
    for (uint32_t m = 0; m < members; m++) {
        part.first = m * count;
        part.end = part.first + count;
        part.rows = members > 1 ? count / part.columns : part.rows;
        part.list = m * list;
        part.state = m * part.rows * sizeof(float);
        optimizer_update(optimizer, twin->own[l].newest, twin->queue, buffers);
    }
}

// Makes the next version of a layer's weights, and zeroes its gradients.
static void optimize(struct twin *twin, size_t l)
{
    const struct weir_layer *layer = &twin->layers[l];
    struct twin_layer *updated = &twin->own[l];
    const struct layer_table table = layer_table_of(layer);
    const struct stage_part part = { .layer = (uint32_t)l, .end = number_count(twin, l),
                                     .numbers = layer->parameter_bytes / number_bytes(twin), .rows = table.rows,
                                     .columns = table.columns, .room = twin_list(twin, l, 0).room,
                                     .tensors = layer->tensors,
                                     .tensor_count = layer->tensors ? layer->tensor_count : 0 };
    struct optimizer_buffers buffers = {
        .next = weights_of(twin, l, updated->newest + 1),
        .weights = weights_of(twin, l, updated->newest),
        .gradients = updated->gradients,
        .state = updated->state,
        .count = number_count(twin, l),
        .exempt = updated->exempt,
        .exempt_count = layer->undecayed_count,
        .has_momentum = sends_compressed(twin, l),
    };
    struct optimizer optimizer = twin->settings.optimizer;
    optimizer.rate *= layer->rate_factor > 0 ? layer->rate_factor : 1;
    updated->newest++;
    if (layer->parameter_bytes == 0)
        return;
    // What is frozen stays as it is, and so do rows that are not in a list.
    if ((layer->is_frozen || part.room > 0) && buffers.next != buffers.weights)
        queue_copy(twin->queue, buffers.next, buffers.weights, parameter_bytes(twin, l));
    if (part.room > 0)
        buffers.weights = buffers.next;
    if (!layer->is_frozen)
        update_by_members(twin, l, &optimizer, &buffers, part);
    forget_layer(twin, l);
}

// Without a flush, an update is the mean of the micro-batches there are. Their losses are shares of a whole update of
// one copy.
static float factor_of(const struct twin *twin, const struct update_part *parts, uint32_t sums)
{
    size_t contributed = 0;
    for (uint32_t sum = 0; sum < sums; sum++)
        contributed += parts[sum].count;
    if (twin->settings.schedule->weights == WEIGHTS_FLUSH || contributed == 0)
        return 1.0f;
    return (float)schedule_samples(twin->settings.schedule) / (float)contributed;
}

// Adds up the gradients that members with own rows have, and gives each of them the sum.
static void add_up_members(struct twin *twin, size_t layer, float *gradients)
{
    const struct split_norms *split = twin->settings.split;
    const uint32_t members = split ? split->layers[layer].members : 1;
    const uint64_t count = number_count(twin, layer) / members, added = split_added(split, (uint32_t)layer, count);
    for (uint32_t m = 1; added > 0 && m < members; m++)
        kernel_add_floats(twin->queue, gradients, gradients, gradients + m * count, added);
    for (uint32_t m = 1; added > 0 && m < members; m++)
        queue_copy(twin->queue, gradients + m * count, gradients, added * sizeof *gradients);
}

static void add_members(struct twin *twin, const bool *stages)
{
    for (size_t l = 0; l < twin->layer_count; l++)
        if (stages[twin->own[l].stage])
            add_up_members(twin, l, twin->own[l].gradients);
    for (size_t i = 0; i < twin->share_count; i++)
        if (stages[twin->shares[i].stage])
            add_up_members(twin, twin->shares[i].owner, twin->shares[i].gradients);
}

// Computes all gradients that an update reads.
static bool gather_update(struct twin *twin, const struct update_step *made, uint64_t step, struct error *error)
{
    const struct stage_updates *stage = &twin->updates.stages[made->first_stage];
    const struct update_part *parts = &stage->parts[(size_t)made->update * stage->sums];
    struct accumulation accumulation = { .sums = stage->sums, .factor = factor_of(twin, parts, stage->sums) };
    for (; accumulation.sum < stage->sums; accumulation.sum++) {
        const struct update_part *part = &parts[accumulation.sum];
        for (size_t i = 0; i < part->count; i++)
            if (!twin_add_gradients(twin, step, part->micro_batches[i], made->stages, error))
                return false;
        add_sum(twin, made->stages, &accumulation);
    }
    if (twin->compressed)
        meet_compressed(twin, made->stages);
    add_members(twin, made->stages);
    return true;
}

static void make_update(struct twin *twin, const struct update_step *made)
{
    for (size_t l = 0; l < twin->layer_count; l++)
        if (made->stages[twin->own[l].stage])
            optimize(twin, l);
}

static bool is_added_up(const struct twin *twin, const struct update_step *made, uint32_t micro_batch)
{
    const struct stage_updates *stage = &twin->updates.stages[made->first_stage];
    const struct update_part *parts = &stage->parts[(size_t)made->update * stage->sums];
    for (uint32_t sum = 0; sum < stage->sums; sum++)
        for (size_t i = 0; i < parts[sum].count; i++)
            if (parts[sum].micro_batches[i] == micro_batch)
                return true;
    return false;
}

// The next state of the layers that an update changes: from the statistics of what it adds up, one micro-batch after
// the other.
static bool fold(struct twin *twin, const struct update_step *made, struct error *error)
{
    const uint32_t micro_batches = twin->settings.schedule->micro_batches;
    const void **statistics = calloc(micro_batches + 1u, sizeof *statistics);
    uint32_t *numbers = calloc(micro_batches + 1u, sizeof *numbers);
    bool good = (statistics && numbers) || error_no_memory(error, "the sequential twin");
    for (size_t l = 0; good && l < twin->layer_count; l++) {
        struct weir_fold all = { .queue = twin->queue, .state = twin->own[l].layer_state, .statistics = statistics,
                                 .parameters = twin->layers[l].fold_reads_parameters
                                                   ? weights_of(twin, l, twin->own[l].newest) : NULL,
                                 .micro_batches = numbers };
        if (!all.state || !made->stages[twin->own[l].stage])
            continue;
        for (uint32_t m = 0; m < micro_batches; m++)
            if (is_added_up(twin, made, m)) {
                statistics[all.count] = twin_statistics(twin, l, m);
                numbers[all.count++] = m;
            }
        good = all.count == 0 || layer_fold(&twin->layers[l], &all, error);
    }
    free(statistics);
    free(numbers);
    return good;
}

// For tied layers on different stages, clipping and loss scaling. These exist only with a flush, where a pass makes
// one update of all stages, or none.
static bool make_updates_at_once(struct twin *twin, uint64_t step, struct error *error)
{
    const struct updates *updates = &twin->updates;
    for (size_t i = 0; i < updates->step_count; i++)
        if (!gather_update(twin, &updates->steps[i], step, error))
            return false;
    add_shares(twin);
    if (twin->scaling.scale > 0)
        unscale(twin);
    if (twin->norms)
        measure(twin);
    bool makes;
    if (!judge(twin, &makes, error))
        return false;
    if (!makes)
        forget_gradients(twin);
    else if (twin->settings.optimizer.clip > 0)
        clip(twin);
    for (size_t i = 0; makes && i < updates->step_count; i++)
        make_update(twin, &updates->steps[i]);
    bool good = true;
    for (size_t i = 0; good && i < updates->step_count; i++)
        good = fold(twin, &updates->steps[i], error);
    return good;
}

static bool make_updates(struct twin *twin, uint64_t step, struct error *error)
{
    const struct updates *updates = &twin->updates;
    for (size_t i = 0; i < updates->step_count; i++) {
        if (!gather_update(twin, &updates->steps[i], step, error))
            return false;
        make_update(twin, &updates->steps[i]);
        if (!fold(twin, &updates->steps[i], error))
            return false;
    }
    return true;
}

// In the order of the parts.
static void add_up_losses(struct twin *twin, float *losses)
{
    auxiliary_losses_add_up(&twin->auxiliary, NULL);
    for (uint32_t m = 0; m < twin->settings.schedule->micro_batches; m++) {
        losses[m] = twin->part_losses[(size_t)m * twin->splits];
        for (uint32_t split = 1; split < twin->splits; split++)
            losses[m] += twin->part_losses[(size_t)m * twin->splits + split];
    }
}

bool twin_step(struct twin *twin, uint64_t step, float *losses, struct error *error)
{
    const struct updates *updates = &twin->updates;
    bool good = true;
    for (size_t l = 0; l < twin->layer_count; l++)
        twin->begun[twin->own[l].stage] = twin->own[l].newest;
    if (updates->step_count > 0)
        good = (twin->share_count > 0 || twin->norms ? make_updates_at_once : make_updates)(twin, step, error);
    // Without an update there is still what the forwards find.
    for (uint32_t i = 0; good && updates->step_count == 0 && i < updates->schedule->micro_batches; i++)
        good = twin_go_forward(twin, step, i, error);
    good = good && queue_wait(twin->queue, error);
    if (good && losses)
        add_up_losses(twin, losses);
    return good;
}
