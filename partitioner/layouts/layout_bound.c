// Lower bounds of a layout's plans: by dynamic programming over the cuts, the least of the largest, over the stages,
// of paths that every plan has. Stage s holds layers [first, end). A rank of it does `own` micro-batches and is w
// ahead (schedules/generators/replicas.c):
//
//     before + own (F + B)                                    the way in and out, and its work
//     before + round + (own - w) F + (own - 1) B              the first micro-batch goes on and comes back
//     before + k round + (own - 1 - (k - 1) w) (F + B)        so do the last, and others; work between
//
// Each of these also holds with only the way in, and with the all-reduce of gradients instead of the way out. B
// includes what must be recomputed at least to fit (layout_memory.h). The sum F + after + B is round. The least that
// one micro-batch takes in the stages on either side, with the fastest of the links between them, is before and
// after. Times are on the slowest of a stage's devices.
//
// If the schedule never flushes, this only says where to look first. What is timed there is a run of 3 m
// micro-batches less one of 2 m. Take the longest path of the shorter run, and its last action, which is of stage s.
// The longer run has all its actions, in the same order on each rank. So the path is one of the longer run as well,
// and goes on there with whatever follows its end:
//
//     run of 2 m   F0 ............................ B REDUCE STEP
//     run of 3 m   F0 ............................ B REDUCE STEP F B REDUCE STEP F B ......
//                  |<----------- T(2 m) ----------------------->|<-- any path of the rest -->|
//
// It goes down to a stage behind it with its next F, or back to one in front of it with its next B. There it goes
// through all that the rank still has to do. A run ends with stage 0. It ends with another stage only if that has
// several ranks or a STEP takes time. The least of all these counts. If channels share links, messages of the shorter
// run may wait for others that do not hold them up in the longer one. Then nothing is known.
//
// For all layouts at once, only the average of the work is known.
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/cost/variant.h"
#include "partitioner/layouts/layout.h"
#include "partitioner/layouts/layout_memory.h"
#include "partitioner/layouts/layout_totals.h"
#include "partitioner/layouts/path_around.h"
#include "partitioner/search/interval.h"
#include "partitioner/search/search_request.h"
#include "schedules/generators/generate.h"

typedef unsigned __int128 wide;

struct layout_bounds {
    const struct search_request *request;
    const struct layout_names *names;
    const struct generator *generator;
    bool flushes;
    struct layout_memory *memory;  // NULL if everything surely fits
    struct totals of[LAYOUT_MOST_VARIANTS + 1];  // as `names`
    size_t of_count;
    struct totals least;   // of these and of the request's variants, layer by layer
    bool *can_cut;         // layers + 1
    uint64_t *way;         // of a message over a cut: [level * (layers + 1) + cut]
    uint64_t *cell[4];     // rows of stages: before, after, the largest path, the way in alone
    uint32_t layers;
    bool has_backward;
    struct arrays arrays;
};

// A stage of the layout in question.
struct slot {
    const struct totals *of;
    uint64_t speed;        // of its slowest device
    uint64_t memory;       // of its smallest device
    uint32_t own, ahead;   // micro-batches of its first rank
    uint32_t copies, left; // left: ranks of it and of all stages behind it
    uint64_t forwards, backwards;  // without a flush: what one of its ranks still does after a run of 2 m
    unsigned levels_on;    // bits: levels of links to the next stage
    unsigned levels_among; // and among its copies
};

// --- what is known beforehand -----------------------------------------------------------

// Fills in the totals of a variant by name, and lowers the least of all to them.
static bool total_of(struct layout_bounds *bounds, const char *name, bool is_first, struct totals *totals,
                     struct error *error)
{
    struct profile *view = variant_of(bounds->request->profile, name, error);
    const bool good = view && (totals_fill(view, &bounds->request->storage, bounds->has_backward,
                                           bounds->generator->takes_replicas, totals, &bounds->arrays)
                               || error_no_memory(error, "the bounds of a plan"));
    variant_free(view);
    if (!good)
        return false;
    totals_lower(totals->forward, bounds->least.forward, bounds->layers, is_first);
    totals_lower(totals->backward, bounds->least.backward, bounds->layers, is_first);
    totals_lower(totals->weights, bounds->least.weights, bounds->layers, is_first);
    totals_lower(totals->through, bounds->least.through, bounds->layers, is_first);
    return true;
}

// The names that may be chosen, and those that are given, which may be quicker than any of these.
static bool total_all(struct layout_bounds *bounds, struct error *error)
{
    const struct search_request *request = bounds->request;
    for (size_t i = 0; i < bounds->names->count; i++)
        if (!total_of(bounds, bounds->names->names[i], i == 0, &bounds->of[bounds->of_count++], error))
            return false;
    for (uint32_t s = 0; request->layout.variants && s < request->layout.stages; s++) {
        struct totals given;
        if (request->layout.variants[s] && !total_of(bounds, request->layout.variants[s], false, &given, error))
            return false;
    }
    return true;
}

// Lowers the bytes of a message over each cut to those of a variant by name, if these are less.
static bool lower_cuts(const struct layout_bounds *bounds, const char *name, uint64_t *cut, struct error *error)
{
    const struct search_request *request = bounds->request;
    struct profile *view = variant_of(request->profile, name, error);
    struct intervals *intervals = view ? intervals_create(view, &request->storage, error) : NULL;
    for (uint32_t l = 1; intervals && l < bounds->layers; l++)
        cut[l] = min_u64(cut[l], intervals->cut[l]);
    intervals_free(intervals);
    variant_free(view);
    return error->kind == ERROR_NONE;
}

static bool find_cuts(const struct layout_bounds *bounds, uint64_t *cut, struct error *error)
{
    const struct search_request *request = bounds->request;
    bool good = true;
    for (uint32_t l = 1; l < bounds->layers; l++)
        cut[l] = UINT64_MAX;
    for (size_t i = 0; good && i < bounds->names->count; i++)
        good = lower_cuts(bounds, bounds->names->names[i], cut, error);
    for (uint32_t s = 0; good && request->layout.variants && s < request->layout.stages; s++)
        good = lower_cuts(bounds, request->layout.variants[s], cut, error);
    return good;
}

static bool price_ways(struct layout_bounds *bounds, struct error *error)
{
    const struct cluster *cluster = bounds->request->cluster;
    const size_t row = (size_t)bounds->layers + 1;
    uint64_t *cut = arrays_add(&bounds->arrays, row, sizeof *cut);
    bounds->way = arrays_add(&bounds->arrays, (cluster->level_count + 1) * row, sizeof bounds->way[0]);
    if (bounds->arrays.failed)
        return error_no_memory(error, "the bounds of a plan");
    const bool good = find_cuts(bounds, cut, error);
    for (size_t level = 0; good && level < cluster->level_count; level++)
        for (uint32_t l = 1; l < bounds->layers; l++)
            bounds->way[level * row + l] = transfer_ns(cut[l], cluster->levels[level].bytes_per_second,
                                                       cluster->levels[level].latency_ns);
    return good;
}

static bool fill(struct layout_bounds *bounds, struct error *error)
{
    const struct search_request *request = bounds->request;
    const size_t row = (size_t)bounds->layers + 1;
    totals_create(&bounds->least, bounds->layers, &bounds->arrays);
    for (size_t i = 0; i < sizeof bounds->cell / sizeof bounds->cell[0]; i++)
        bounds->cell[i] = arrays_add(&bounds->arrays, ((size_t)request->ranks + 2) * row, sizeof bounds->cell[i][0]);
    if (bounds->arrays.failed)
        return error_no_memory(error, "the bounds of a plan");
    bounds->can_cut = arrays_keep(&bounds->arrays, search_cuts(request, 1, error));
    if (!bounds->can_cut)
        return false;
    if (bounds->generator->takes_replicas && bounds->has_backward)
        bounds->memory = layout_memory_create(request, error);
    if (error->kind != ERROR_NONE || !total_all(bounds, error))
        return false;
    return price_ways(bounds, error);
}

struct layout_bounds *layout_bounds_create(const struct search_request *request,
                                                     const struct layout_names *names, struct error *error)
{
    struct layout_bounds *bounds = calloc(1, sizeof *bounds);
    if (!bounds)
        return error_null(error_no_memory(error, "the bounds of a plan"));
    bounds->request = request;
    bounds->names = names;
    bounds->generator = search_generator(request);
    bounds->layers = (uint32_t)request->profile->layer_count;
    bounds->has_backward = !bounds->generator->is_inference;
    bounds->flushes = bounds->generator->weights == WEIGHTS_FLUSH;
    if (fill(bounds, error))
        return bounds;
    layout_bounds_free(bounds);
    return NULL;
}

void layout_bounds_free(struct layout_bounds *bounds)
{
    if (!bounds)
        return;
    layout_memory_free(bounds->memory);
    arrays_clear(&bounds->arrays);
    free(bounds);
}

// --- one layout ----------------------------------------------------------------------

static const struct totals *totals_of(const struct layout_bounds *bounds, const char *name)
{
    for (size_t i = 0; i < bounds->names->count; i++) {
        const char *known = bounds->names->names[i];
        if (known == name || (known && name && strcmp(known, name) == 0))
            return &bounds->of[i];
    }
    return &bounds->least;
}

// The levels of the links between the first devices of two stages' groups.
static unsigned levels_between(const struct cluster *cluster, const uint32_t *a, uint32_t copies_a, uint32_t group_a,
                               const uint32_t *b, uint32_t copies_b, uint32_t group_b)
{
    unsigned levels = 0;
    for (uint32_t i = 0; i < copies_a; i++)
        for (uint32_t j = 0; j < copies_b; j++)
            if (a[i * group_a] != b[j * group_b])
                levels |= 1u << cluster_level_between(cluster, a[i * group_a], b[j * group_b]);
    return levels;
}

static struct slot *slots_of(const struct layout_bounds *bounds, const struct layout *layout)
{
    const struct search_request *request = bounds->request;
    const bool keeps_all = bounds->generator->keeps_all;
    struct slot *slots = calloc((size_t)layout->stages + 1, sizeof slots[0]);
    const uint32_t *devices = layout->devices, *before = NULL;
    uint32_t group_before = 1, left = layout->ranks;
    for (uint32_t s = 0; slots && s < layout->stages; s++) {
        const uint32_t copies = layout->replicas[s];
        const uint32_t group = variant_devices(request->profile, layout->variants[s]);
        const uint32_t each = (request->micro_batches + copies - 1) / copies, ahead = (left + copies - 1) / copies;
        slots[s] = (struct slot){
            .of = totals_of(bounds, layout->variants[s]),
            .speed = UINT64_MAX,
            .memory = UINT64_MAX,
            .own = each,
            .ahead = ahead < each && !keeps_all ? ahead : each,
            .copies = copies,
            .left = left,
            .levels_among = levels_between(request->cluster, devices, copies, group, devices, copies, group),
        };
        for (uint32_t i = 0; i < copies * group; i++) {
            const struct cluster_device *device = &request->cluster->devices[devices[i]];
            slots[s].speed = min_u64(slots[s].speed, device->speed_permille);
            slots[s].memory = min_u64(slots[s].memory, device->memory_bytes);
        }
        if (s > 0)
            slots[s - 1].levels_on = levels_between(request->cluster, before, layout->replicas[s - 1],
                                                    group_before, devices, copies, group);
        before = devices;
        group_before = group;
        devices += copies * group;
        left -= copies;
    }
    return slots;
}

static uint64_t up(uint64_t count, uint32_t copies)
{
    return (count + copies - 1) / copies;
}

// The actions that the rank of micro-batch i has left, from its F or B of that one on, in a run of `all`
// micro-batches.
static void see_rest(struct slot *slot, uint64_t all, uint64_t i, bool is_forward)
{
    uint64_t forwards = 0, backwards = 0;
    if (i < all) {
        const uint64_t each = all / slot->copies + (i % slot->copies < all % slot->copies);
        const uint64_t most = up(slot->left, slot->copies), ahead = most < each ? most : each;
        const uint64_t left = each - i / slot->copies;
        forwards = is_forward ? left : left > ahead ? left - ahead : 0;
        backwards = !is_forward ? left : left + ahead - 1 < each ? left + ahead - 1 : each;
    }
    slot->forwards = forwards < slot->forwards ? forwards : slot->forwards;
    slot->backwards = backwards < slot->backwards ? backwards : slot->backwards;
}

// The least that is left of each stage, wherever the run of 2 m may end.
static void see_rests(const struct layout_bounds *bounds, struct slot *slots, uint32_t stages)
{
    const uint64_t m = bounds->request->micro_batches;
    for (uint32_t s = 0; s < stages; s++)
        slots[s].forwards = slots[s].backwards = UINT64_MAX;
    for (uint32_t from = 0; from < stages; from++) {
        const struct slot *begun = &slots[from];
        if (from > 0 && begun->copies == 1 && storage_is_plain(&bounds->request->storage))
            continue;
        const uint64_t updates = up(2 * m, begun->copies), all = up(3 * m, begun->copies);
        const uint64_t most = up(begun->left, begun->copies);
        const uint64_t forward = begun->copies * (updates - 1 + (most < all ? most : all));
        for (uint32_t s = 0; s < stages; s++) {
            const bool is_back = s < from || (s == from && forward >= 3 * m);
            see_rest(&slots[s], 3 * m, is_back ? begun->copies * updates : forward, !is_back);
        }
    }
}

static uint64_t scaled(uint64_t ns, uint64_t speed)
{
    return speed == 1000 ? ns : stage_scaled_ns(ns, speed);  // mostly without a call, which takes a while
}

static uint64_t forward_of(const struct slot *slot, uint32_t first, uint32_t end)
{
    return scaled(slot->of->forward[end] - slot->of->forward[first], slot->speed);
}

static uint64_t backward_of(const struct slot *slot, uint32_t first, uint32_t end)
{
    return scaled(slot->of->backward[end] - slot->of->backward[first], slot->speed);
}

// The time of a message over a cut, on the fastest of these levels.
static uint64_t way_of(const struct layout_bounds *bounds, unsigned levels, uint32_t cut)
{
    uint64_t least = UINT64_MAX;
    for (unsigned level = 0; levels >> level; level++) {
        const uint64_t way = bounds->way[level * ((size_t)bounds->layers + 1) + cut];
        if (levels >> level & 1 && way < least)
            least = way;
    }
    return least == UINT64_MAX ? 0 : least;
}

// The same as predict_reduce_ns(): over the slowest link among the copies.
static uint64_t reduce_of(const struct layout_bounds *bounds, const struct slot *slot, uint32_t first,
                          uint32_t end)
{
    const uint64_t weights = slot->of->weights[end] - slot->of->weights[first];
    uint64_t most = 0;
    for (unsigned level = 0; slot->levels_among >> level; level++) {
        const struct cluster_level *cluster_level = &bounds->request->cluster->levels[level];
        const struct link link = { cluster_level->latency_ns, cluster_level->bytes_per_second };
        if (slot->levels_among >> level & 1 && bounds->has_backward)
            most = max_u64(most, storage_reduce_ns(&bounds->request->storage, slot->copies, weights, link));
    }
    return most;
}

// The time of a micro-batch over a cut behind the stage, there and back.
static uint64_t round_over(const struct layout_bounds *bounds, const struct slot *slot, uint32_t cut)
{
    return (bounds->has_backward ? 2 : 1) * way_of(bounds, slot->levels_on, cut);
}

// What the first s stages take, with layers up to a cut, and the messages behind each. This is F and the way in, or F
// and B and the ways in and back.
static void fill_before(const struct layout_bounds *bounds, const struct slot *slots, uint32_t stages, bool goes_back,
                        uint64_t *before)
{
    const size_t row = (size_t)bounds->layers + 1;
    for (size_t i = 0; i < (stages + 1) * row; i++)
        before[i] = UINT64_MAX;
    before[0] = 0;
    for (uint32_t s = 0; s < stages; s++) {
        const struct slot *slot = &slots[s];
        for (uint32_t end = s + 1; end <= bounds->layers; end++) {
            uint64_t least = UINT64_MAX;
            for (uint32_t first = s; first < end && bounds->can_cut[end]; first++) {
                const uint64_t work = forward_of(slot, first, end) + (goes_back ? backward_of(slot, first, end) : 0);
                if (before[s * row + first] != UINT64_MAX && before[s * row + first] + work < least)
                    least = before[s * row + first] + work;
            }
            const uint64_t way = goes_back ? round_over(bounds, slot, end) : way_of(bounds, slot->levels_on, end);
            before[(s + 1) * row + end] = least == UINT64_MAX ? least : least + way;
        }
    }
}

// The same of stages from s on, with layers from a cut on, and with the ways back.
static void fill_after(const struct layout_bounds *bounds, const struct slot *slots, uint32_t stages, uint64_t *after)
{
    const size_t row = (size_t)bounds->layers + 1;
    for (size_t i = 0; i < (stages + 1) * row; i++)
        after[i] = UINT64_MAX;
    after[stages * row + bounds->layers] = 0;
    for (uint32_t s = stages; s-- > 0;) {
        for (uint32_t first = 0; first < bounds->layers; first++) {
            uint64_t least = UINT64_MAX;
            for (uint32_t end = first + 1; end <= bounds->layers && bounds->can_cut[first]; end++) {
                const uint64_t rest = after[(s + 1) * row + end];
                const uint64_t work = forward_of(&slots[s], first, end) + backward_of(&slots[s], first, end);
                if (rest != UINT64_MAX && work + rest + round_over(bounds, &slots[s], end) < least)
                    least = work + rest + round_over(bounds, &slots[s], end);
            }
            after[s * row + first] = least;
        }
    }
}

// The longest path of stage s with these layers; UINT64_MAX if no plan has them.
static uint64_t path_bound(const struct layout_bounds *bounds, const struct slot *slots, uint32_t s,
                            uint32_t first, uint32_t end)
{
    const size_t row = (size_t)bounds->layers + 1;
    const uint64_t before = bounds->cell[0][s * row + first], after = bounds->cell[1][(s + 1) * row + end];
    if (before == UINT64_MAX || after == UINT64_MAX)
        return UINT64_MAX;
    const struct slot *slot = &slots[s];
    // If there is an update for each micro-batch of a copy, its gradients are all-reduced that often.
    const uint64_t reduces = bounds->generator->weights == WEIGHTS_FLUSH ? 1 : slot->own;
    const uint64_t again =
        layout_memory_least(bounds->memory, first, end, slot->copies, slot->ahead, slot->memory);
    if (again == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t f = forward_of(slot, first, end), b = backward_of(slot, first, end) + scaled(again, slot->speed);
    const uint64_t reduce = slot->copies > 1 ? reduces * reduce_of(bounds, slot, first, end) : 0;
    uint64_t inner = slot->own * (f + b);
    const uint64_t round = f + round_over(bounds, slot, end) + after + b;
    if (bounds->has_backward)
        inner = max_u64(inner, path_around(round, slot->own, slot->ahead, f, b));
    return inner + max_u64(before, bounds->cell[3][s * row + first] + reduce);
}

// Without a flush: all that a rank of stage s does after the run of 2 m.
static uint64_t rest_bound(const struct layout_bounds *bounds, const struct slot *slots, uint32_t s, uint32_t first,
                           uint32_t end)
{
    const struct slot *slot = &slots[s];
    const bool reduces_each = slot->copies > 1 && bounds->generator->weights == WEIGHTS_STASH;  // 2bw: not so often
    const uint64_t reduce = reduces_each ? reduce_of(bounds, slot, first, end) : 0;
    if (!bounds->can_cut[first] || !bounds->can_cut[end])
        return UINT64_MAX;
    return add_clamped(multiply_clamped(slot->forwards, forward_of(slot, first, end)),
                       multiply_clamped(slot->backwards, backward_of(slot, first, end) + reduce));
}

typedef uint64_t (*bound_of_stage)(const struct layout_bounds *bounds, const struct slot *slots, uint32_t s,
                                   uint32_t first, uint32_t end);

static uint64_t least_of_largest(struct layout_bounds *bounds, const struct slot *slots, uint32_t stages,
                                 uint64_t at_least, bound_of_stage stage_bound)
{
    const size_t row = (size_t)bounds->layers + 1;
    uint64_t *largest = bounds->cell[2];
    for (size_t i = 0; i < (stages + 1) * row; i++)
        largest[i] = UINT64_MAX;
    largest[0] = at_least;
    for (uint32_t s = 0; s < stages; s++) {
        for (uint32_t end = s + 1; end <= bounds->layers; end++) {
            uint64_t *best = &largest[(s + 1) * row + end];
            for (uint32_t first = end; first-- > s;) {
                if (largest[s * row + first] >= *best)
                    continue;
                const uint64_t most = max_u64(largest[s * row + first], stage_bound(bounds, slots, s, first, end));
                *best = most < *best ? most : *best;
            }
        }
    }
    return largest[stages * row + bounds->layers];
}

// All work, evenly on all devices, and the way of one micro-batch: this is known of any schedule. The way does not
// count if sequences are split, since their parts are on several stages at once.
static uint64_t work_bound(const struct layout_bounds *bounds, uint64_t speeds, uint64_t fastest)
{
    const uint64_t round = bounds->least.forward[bounds->layers] + bounds->least.backward[bounds->layers];
    const wide work = (wide)round * bounds->request->micro_batches * 1000 / speeds;
    const uint64_t through = bounds->generator->takes_splits ? 0 : bounds->least.through[bounds->layers];
    const wide way = (wide)through * 1000 / fastest;
    return work > way ? (uint64_t)work : (uint64_t)way;
}

static uint64_t work_of(const struct layout_bounds *bounds, const struct layout *layout)
{
    uint64_t speeds = 0, fastest = 0;
    for (uint32_t i = 0; i < layout->device_count; i++) {
        const uint64_t speed = bounds->request->cluster->devices[layout->devices[i]].speed_permille;
        speeds += speed;
        fastest = max_u64(fastest, speed);
    }
    return work_bound(bounds, speeds, fastest);
}

bool layout_bound(struct layout_bounds *bounds, struct layout *layout, struct error *error)
{
    uint64_t rest_ns = 0;
    layout->estimate_ns = work_of(bounds, layout);
    if (layout->replicas) {
        struct slot *slots = slots_of(bounds, layout);
        if (!slots)
            return error_no_memory(error, "the bounds of a plan");
        fill_before(bounds, slots, layout->stages, true, bounds->cell[0]);
        fill_after(bounds, slots, layout->stages, bounds->cell[1]);
        fill_before(bounds, slots, layout->stages, false, bounds->cell[3]);
        layout->estimate_ns = least_of_largest(bounds, slots, layout->stages, bounds->cell[1][0], path_bound);
        if (!bounds->flushes && bounds->request->cluster->level_count < 2) {
            see_rests(bounds, slots, layout->stages);
            rest_ns = least_of_largest(bounds, slots, layout->stages, 0, rest_bound);
        }
        free(slots);
    }
    layout->bound_ns = bounds->flushes ? layout->estimate_ns : rest_ns;
    return true;
}

// --- all layouts -----------------------------------------------------------------------

// How many devices of the cluster are faster, or as fast and in front of it.
static uint32_t count_faster(const struct cluster *cluster, uint32_t device)
{
    const uint64_t speed = cluster->devices[device].speed_permille;
    uint32_t count = 0;
    for (uint32_t i = 0; i < cluster->device_count; i++)
        count += cluster->devices[i].speed_permille + (i < device) > speed;
    return count;
}

// The bound for the devices that are given, or for the fastest there are.
static uint64_t work_of_all(const struct layout_bounds *bounds)
{
    const struct search_request *request = bounds->request;
    const struct cluster *cluster = request->cluster;
    uint64_t speeds = 0, fastest = 0;
    for (uint32_t i = 0; i < cluster->device_count; i++) {
        const uint64_t speed = cluster->devices[i].speed_permille;
        fastest = max_u64(fastest, speed);
        speeds += request->free.devices && count_faster(cluster, i) < request->ranks ? speed : 0;
    }
    for (uint32_t i = 0; i < request->ranks && !request->free.devices; i++)
        speeds += cluster->devices[request->layout.devices ? request->layout.devices[i] : i].speed_permille;
    return work_bound(bounds, speeds, fastest);
}

uint64_t layout_bound_of_all(const struct layout_bounds *bounds)
{
    return bounds->flushes ? work_of_all(bounds) : 0;
}
