#include "partitioner/layouts/layout_model.h"

#include <stdlib.h>

#include "common/number.h"
#include "partitioner/cost/storage_cost.h"
#include "partitioner/cost/variant.h"
#include "partitioner/layouts/layout_memory.h"
#include "partitioner/layouts/path_around.h"
#include "partitioner/layouts/replica_time.h"
#include "partitioner/search/interval.h"
#include "partitioner/search/search_request.h"

// The facts of a stage that are known before its layers.
struct slot {
    const struct intervals *of;
    uint32_t ranks, ahead;  // ahead: micro-batches that one of them has in flight
    uint32_t updates;       // without a flush: in an iteration
    uint64_t speed;         // of its slowest device
    struct link among, next;
};

struct layout_model {
    const struct search_request *request;
    const struct layout_names *names;
    enum generator_order order;
    uint32_t layers;
    struct profile *views[LAYOUT_MOST_VARIANTS + 1];  // as `names`
    struct intervals *of[LAYOUT_MOST_VARIANTS + 1];
    bool *can_cut;
    struct layout_memory *memory;  // NULL if everything surely fits
    uint64_t capacity, speed;      // of a device, for what is held and kept; and the average of all devices
    struct replica_clock *clock;
    struct slot *slots;
    struct replica_stage *stages;
};

// --- what is known beforehand -----------------------------------------------------------

static bool find_order(const struct search_request *request, enum generator_order *order)
{
    *order = search_generator(request)->order;
    return *order == ORDER_1F1B || *order == ORDER_GPIPE || *order == ORDER_FORWARD_ONLY
        || replica_order_goes_on(*order);
}

bool layout_model_knows(const struct search_request *request)
{
    enum generator_order order;
    return find_order(request, &order);
}

// The memory of the smallest device, less about what a stage needs besides: a segment of two layers, and messages on
// their way.
static uint64_t capacity_of(const struct search_request *request)
{
    uint64_t memory = UINT64_MAX, most = 0, output = 0;
    for (size_t d = 0; d < request->cluster->device_count; d++)
        if (request->cluster->devices[d].memory_bytes < memory)
            memory = request->cluster->devices[d].memory_bytes;
    for (size_t l = 0; l < request->profile->layer_count; l++) {
        const struct profile_layer *layer = &request->profile->layers[l];
        most = max_u64(most, profile_kept_bytes(layer) + layer->output_bytes + layer->backward_workspace_bytes);
        output = max_u64(output, layer->output_bytes);
    }
    most = add_clamped(multiply_clamped(2, most), multiply_clamped(4, output));
    return memory - (most < memory / 2 ? most : memory / 2);
}

static bool fill(struct layout_model *model, struct error *error)
{
    const struct search_request *request = model->request;
    const uint32_t most = request->ranks < model->layers ? request->ranks : model->layers;
    for (size_t v = 0; v < model->names->count; v++) {
        model->views[v] = variant_of(request->profile, model->names->names[v], error);
        model->of[v] = model->views[v] ? intervals_create(model->views[v], &request->storage, error) : NULL;
        if (!model->of[v])
            return false;
    }
    model->can_cut = search_cuts(request, 1, error);
    model->clock = model->can_cut ? replica_clock_create(model->order, most, request->micro_batches, error) : NULL;
    if (!model->clock)
        return false;
    if (model->order != ORDER_FORWARD_ONLY)
        model->memory = layout_memory_create(request, error);
    model->slots = calloc(most, sizeof model->slots[0]);
    model->stages = calloc(most, sizeof model->stages[0]);
    return error->kind == ERROR_NONE
        && ((model->slots && model->stages) || error_no_memory(error, "the layouts of a plan"));
}

struct layout_model *layout_model_create(const struct search_request *request, const struct layout_names *names,
                                         struct error *error)
{
    struct layout_model *model = calloc(1, sizeof *model);
    if (!model)
        return error_null(error_no_memory(error, "the layouts of a plan"));
    model->request = request;
    model->names = names;
    model->layers = (uint32_t)request->profile->layer_count;
    model->capacity = capacity_of(request);
    for (size_t d = 0; d < request->cluster->device_count; d++)
        model->speed += request->cluster->devices[d].speed_permille;
    model->speed /= request->cluster->device_count;
    if (find_order(request, &model->order) && fill(model, error))
        return model;
    layout_model_free(model);
    return NULL;
}

void layout_model_free(struct layout_model *model)
{
    if (!model)
        return;
    for (size_t v = 0; v < sizeof model->of / sizeof model->of[0]; v++) {
        intervals_free(model->of[v]);
        variant_free(model->views[v]);
    }
    layout_memory_free(model->memory);
    replica_clock_free(model->clock);
    free(model->can_cut);
    free(model->slots);
    free(model->stages);
    free(model);
}

const bool *layout_can_cut(const struct layout_model *model)
{
    return model->can_cut;
}

// --- stages -----------------------------------------------------------------------------

static const struct intervals *intervals_of(const struct layout_model *model, const char *variant)
{
    size_t v = 0;
    while (v + 1 < model->names->count && model->names->names[v] != variant)
        v++;
    return model->of[v];
}

// The slowest link between any two of these devices. No two of them are further apart than some two neighbours in the
// list.
static struct link link_of(const struct cluster *cluster, const uint32_t *devices, uint32_t count)
{
    size_t level = 0;
    for (uint32_t i = 0; i + 1 < count && level + 1 < cluster->level_count; i++) {
        const size_t pair_level = cluster_level_between(cluster, devices[i], devices[i + 1]);
        level = pair_level > level ? pair_level : level;
    }
    if (cluster->level_count == 0)
        return (struct link){ 0 };
    return (struct link){ cluster->levels[level].latency_ns, cluster->levels[level].bytes_per_second };
}

static uint32_t devices_of(const struct layout_model *model, const struct layout *layout, uint32_t s)
{
    return layout->replicas[s] * variant_devices(model->request->profile, layout->variants[s]);
}

// A stage of `ranks` ranks on these devices, with `left` ranks from it on, and `behind` devices in the stage behind
// it.
static struct slot slot_of(const struct layout_model *model, const char *variant, uint32_t ranks, uint32_t left,
                           const uint32_t *devices, uint32_t behind)
{
    const struct cluster *cluster = model->request->cluster;
    const bool goes_back_soon = model->order == ORDER_1F1B || replica_order_goes_on(model->order);
    const uint32_t count = ranks * variant_devices(model->request->profile, variant);
    const uint32_t each = (model->request->micro_batches + ranks - 1) / ranks, ahead = (left + ranks - 1) / ranks;
    struct slot slot = { .of = intervals_of(model, variant), .ranks = ranks, .speed = UINT64_MAX,
                         .ahead = goes_back_soon && ahead < each ? ahead : each, .updates = each,
                         .among = link_of(cluster, devices, count), .next = link_of(cluster, devices, count + behind) };
    for (uint32_t i = 0; i < count; i++)
        slot.speed = min_u64(slot.speed, cluster->devices[devices[i]].speed_permille);
    return slot;
}

static void fill_slots(struct layout_model *model, const struct layout *layout)
{
    uint32_t left = layout->ranks, device = 0, batch = 1;
    for (uint32_t s = 0; s < layout->stages; s++) {
        const uint32_t behind = s + 1 < layout->stages ? devices_of(model, layout, s + 1) : 0;
        model->slots[s] = slot_of(model, layout->variants[s], layout->replicas[s], left, layout->devices + device,
                                  behind);
        device += devices_of(model, layout, s);
        batch = max_u32(batch, (left + layout->replicas[s] - 1) / layout->replicas[s] * layout->replicas[s]);
        left -= layout->replicas[s];
    }
    for (uint32_t s = 0; model->order == ORDER_2BW && s < layout->stages; s++)
        model->slots[s].updates = model->request->micro_batches / batch;
}

static struct replica_stage stage_of(const struct layout_model *model, const struct slot *slot, uint32_t first,
                                     uint32_t end)
{
    const struct intervals *intervals = slot->of;
    struct replica_stage stage = { .ranks = slot->ranks };
    stage.forward_ns = stage_scaled_ns(interval_forward_ns(intervals, first, end), slot->speed);
    if (end < model->layers) {
        stage.latency_ns = slot->next.latency_ns;
        stage.busy_ns = transfer_ns(intervals->cut[end], slot->next.bytes_per_second, 0);
    }
    if (model->order == ORDER_FORWARD_ONLY)
        return stage;
    const uint64_t backward = interval_backward_ns(intervals, first, end);
    const uint64_t again = layout_memory_least(model->memory, first, end, slot->ranks, slot->ahead, model->capacity);
    // It takes very long if it cannot fit.
    stage.backward_ns = stage_scaled_ns(again == UINT64_MAX ? 1000 * (backward + 1) : backward + again, slot->speed);
    if (slot->ranks > 1)
        stage.reduce_ns = storage_reduce_ns(&model->request->storage, slot->ranks,
                                            interval_reduced(intervals, first, end, slot->ranks), slot->among);
    return stage;
}

// --- times ------------------------------------------------------------------------------

// How long a micro-batch takes to where a stage begins, and from there back.
struct front {
    uint64_t there_ns, back_ns;
};

static struct front front_behind(const struct front *front, const struct replica_stage *stage)
{
    const uint64_t way = stage->busy_ns + stage->latency_ns;
    return (struct front){ front->there_ns + stage->forward_ns + way, front->back_ns + stage->backward_ns + way };
}

// About what an iteration takes because of this stage. It is the longer of two: what its ranks do; and the first
// micro-batch going on through all layers behind it and coming back, with what the ranks do meanwhile.
static uint64_t load_of(const struct layout_model *model, const struct slot *slot, const struct front *front,
                        const struct replica_stage *stage, uint32_t end)
{
    const uint64_t each = (model->request->micro_batches + slot->ranks - 1) / slot->ranks;
    const uint64_t f = stage->forward_ns, b = stage->backward_ns;
    if (replica_order_goes_on(model->order))
        return add_clamped(multiply_clamped(each, f + b), multiply_clamped(slot->updates, stage->reduce_ns));
    uint64_t inner = multiply_clamped(each, f + b);
    if (model->order != ORDER_FORWARD_ONLY) {
        const uint64_t rest = interval_forward_ns(slot->of, end, model->layers)
                            + interval_backward_ns(slot->of, end, model->layers);
        const uint64_t round = f + b + 2 * (stage->busy_ns + stage->latency_ns) + stage_scaled_ns(rest, model->speed);
        inner = max_u64(inner, path_around(round, each, slot->ahead, f, b));
    }
    return add_clamped(front->there_ns + max_u64(front->back_ns, stage->reduce_ns), inner);
}

bool layout_time_within(struct layout_model *model, struct layout *layout, uint64_t limit_ns, uint64_t *work)
{
    const uint64_t m = model->request->micro_batches;
    struct front front = { 0 };
    fill_slots(model, layout);
    *work += 1 + layout->stages / 16;
    for (uint32_t s = 0; s < layout->stages; s++) {
        const struct slot *slot = &model->slots[s];
        struct replica_stage *stage = &model->stages[s];
        *stage = stage_of(model, slot, layout->cuts[s], layout->cuts[s + 1]);
        if (load_of(model, slot, &front, stage, layout->cuts[s + 1]) > limit_ns)
            return false;
        front = front_behind(&front, stage);
    }
    *work += (replica_order_goes_on(model->order) ? 10 * m : m) * layout->stages / 256;
    layout->estimate_ns = replica_time(model->clock, model->stages, layout->stages);
    return layout->estimate_ns <= limit_ns;
}

// --- cutting ----------------------------------------------------------------------------

// The last place up to `most` where the stage is within the limit, searched from `hint` on; `first` if there is none.
static uint32_t furthest(const struct layout_model *model, const struct slot *slot, const struct front *front,
                         uint32_t first, uint32_t hint, uint32_t most, uint64_t limit_ns)
{
    uint32_t low = first, high = most + 1, tried = hint;
    for (uint32_t stride = 1; high - low > 1; stride *= 2) {
        if (tried <= low || tried >= high)
            tried = low + (high - low) / 2;
        const struct replica_stage stage = stage_of(model, slot, first, tried);
        if (load_of(model, slot, front, &stage, tried) <= limit_ns) {
            low = tried;
            tried += stride;
        } else {
            high = tried;
            tried = tried > stride ? tried - stride : 0;
        }
    }
    while (low > first && !model->can_cut[low])
        low--;
    return low;
}

static bool cut_within(struct layout_model *model, struct layout *layout, uint64_t limit_ns)
{
    struct front front = { 0 };
    uint32_t left = layout->ranks;
    layout->cuts[0] = 0;
    for (uint32_t s = 0; s < layout->stages; s++) {
        const uint32_t first = layout->cuts[s], most = model->layers - (layout->stages - 1 - s);
        const bool is_last = s + 1 == layout->stages;
        const uint32_t hint = first + (model->layers - first) * layout->replicas[s] / left;
        const uint32_t end = furthest(model, &model->slots[s], &front, first, is_last ? most : hint, most, limit_ns);
        if (end <= first || (is_last && end < model->layers))
            return false;
        const struct replica_stage stage = stage_of(model, &model->slots[s], first, end);
        front = front_behind(&front, &stage);
        layout->cuts[s + 1] = end;
        left -= layout->replicas[s];
    }
    return true;
}

bool layout_cut(struct layout_model *model, struct layout *layout, uint64_t limit_ns, uint64_t *work)
{
    uint64_t low = 0, high = limit_ns;
    fill_slots(model, layout);
    *work += 1 + layout->stages / 4;
    if (layout->stages > model->layers || !cut_within(model, layout, high))
        return false;
    *work += layout->stages;
    for (uint64_t down = high / 64 + 1; high > low && high - low > high / 512 + 1; down *= 2) {
        const uint64_t tried_ns = low == 0 && down < high ? high - down : low + (high - low) / 2;
        if (cut_within(model, layout, tried_ns))
            high = tried_ns;
        else
            low = tried_ns;
    }
    if (!cut_within(model, layout, high))
        return false;
    return layout_time_within(model, layout, UINT64_MAX, work);
}
