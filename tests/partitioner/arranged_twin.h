// The twin of a search whose layout is given: all cuts, and for each stage every way
// to recompute its layers, whatever the order of the schedule.
#ifndef TESTS_PARTITIONER_ARRANGED_TWIN_H
#define TESTS_PARTITIONER_ARRANGED_TWIN_H

#include "partitioner/cost/predict.h"
#include "partitioner/cost/variant.h"
#include "partitioner/search/search_request.h"
#include "schedules/lower.h"
#include "tests/partitioner/small.h"

// So much memory has room for anything. Where a longer stage never makes a shorter iteration
// (orders that flush, links of their own) nothing then needs to be tried but the cuts.
#define TWIN_ROOM ((uint64_t)1 << 50)

enum { TWIN_STAGES = 9, TWIN_LAYERS = 9, TWIN_DEVICES = 4 };

// --- the twin: all cuts, and for each stage every way to recompute its layers ----------

struct way {
    uint64_t recompute_ns, bytes, workspace;
};

// Of layers as a stage, in order of their time.
struct ways {
    struct way *at;
    size_t count;
    struct cost_row row;  // but for their time
    bool are_known;
};

struct twin {
    const struct search_request *request;
    struct placement *placement;
    struct slots *slots;
    struct network *network;
    struct simulator *simulators[2];
    uint32_t stages, splits, cuts[TWIN_STAGES + 1];
    struct ways ways[TWIN_STAGES][TWIN_LAYERS][TWIN_LAYERS + 1];  // of stage, first and end
    struct cost_row rows[TWIN_STAGES];
    uint64_t bytes[TWIN_DEVICES], workspace[TWIN_DEVICES];
    uint64_t best, plans;
    bool has_room;                       // memory without end, where nothing is recomputed
    struct profile *views[TWIN_STAGES];  // of each stage: the profile with its variant's numbers
    uint32_t group[TWIN_STAGES];         // devices of a rank that holds it
    uint32_t seat_at[TWIN_DEVICES + 1];  // the first device of rank r
};

static inline const struct cluster_device *twin_device(const struct twin *twin, uint32_t rank, uint32_t i)
{
    const uint32_t seat = twin->seat_at[rank] + i;
    return &twin->request->cluster->devices[twin->request->layout.devices ? twin->request->layout.devices[seat] : seat];
}

// Which devices each rank is, and what its stages' layers take there.
static inline void twin_sit(struct twin *twin)
{
    struct error error = { 0 };
    const struct search_request *request = twin->request;
    for (uint32_t s = 0; s < twin->stages; s++) {
        const char *variant = request->layout.variants ? request->layout.variants[s] : NULL;
        twin->views[s] = variant_of(request->profile, variant, &error);
        assert_good(twin->views[s], error);
        twin->group[s] = variant_devices(request->profile, variant);
    }
    uint32_t first[TWIN_DEVICES];
    for (uint32_t r = 0; r < request->ranks; r++) {
        const uint32_t group = twin->group[twin->placement->held[twin->placement->stage_at[r]]];
        first[r] = request->layout.devices ? request->layout.devices[twin->seat_at[r]] : twin->seat_at[r];
        twin->seat_at[r + 1] = twin->seat_at[r] + group;
    }
    twin->network = cluster_network(request->cluster, first, request->ranks, &error);
    assert_good(twin->network, error);
}

static inline bool twin_takes_no_more(const struct way *a, const struct way *b)
{
    return a->recompute_ns == b->recompute_ns && a->bytes <= b->bytes && a->workspace <= b->workspace;
}

// Of those that take the same time, such as none takes no more bytes and workspace than.
static inline void twin_add_way(struct ways *ways, struct way way)
{
    size_t count = 0;
    for (size_t i = 0; i < ways->count; i++)
        if (twin_takes_no_more(&ways->at[i], &way))
            return;
    for (size_t i = 0; i < ways->count; i++)
        if (!twin_takes_no_more(&way, &ways->at[i]))
            ways->at[count++] = ways->at[i];
    ways->at = realloc(ways->at, (count + 1) * sizeof way);
    assert_non_null(ways->at);
    ways->count = count + 1;
    for (; count > 0 && ways->at[count - 1].recompute_ns > way.recompute_ns; count--)
        ways->at[count] = ways->at[count - 1];
    ways->at[count] = way;
}

static inline struct ways *twin_ways(struct twin *twin, uint32_t s)
{
    return &twin->ways[s][twin->cuts[s]][twin->cuts[s + 1]];
}

// Of the slowest device that holds the stage.
static inline uint64_t twin_speed(const struct twin *twin, uint32_t s)
{
    uint64_t speed = UINT64_MAX;
    for (uint32_t copy = 0; copy < placement_copies(twin->placement, s); copy++)
        for (uint32_t i = 0; i < twin->group[s]; i++) {
            const struct cluster_device *device = twin_device(twin, placement_rank(twin->placement, s, copy), i);
            speed = device->speed_permille < speed ? device->speed_permille : speed;
        }
    return speed;
}

static inline void twin_note_way(struct twin *twin, uint32_t s, const struct segment *segments, size_t count)
{
    const struct profile *profile = twin->views[s];
    const struct stage_bytes bytes =
        stage_bytes_at(profile, twin->cuts[s], twin->cuts[s + 1], segments, count, &twin->request->storage, 1);
    const struct stage_bytes split = stage_bytes_of_split(bytes, twin->splits);
    uint64_t again_ns = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t l = segments[i].first; l < segments[i].end; l++)
            again_ns += profile_recompute_ns(&profile->layers[l]);
    const struct stage_memory memory = stage_memory_of(&split, &twin->slots[s]);
    twin_add_way(twin_ways(twin, s), (struct way){ stage_scaled_ns(again_ns, twin_speed(twin, s)),
                                                   memory.peak_bytes - memory.transient_bytes,
                                                   memory.transient_bytes });
}

static inline void twin_note_ways(struct twin *twin, uint32_t s, uint32_t from, struct segment *segments, size_t count)
{
    const uint32_t end = twin->cuts[s + 1];
    if (from == end) {
        twin_note_way(twin, s, segments, count);
        return;
    }
    twin_note_ways(twin, s, from + 1, segments, count);
    for (uint32_t to = from + 1; !twin->has_room && to <= end; to++) {
        segments[count] = (struct segment){ from, to };
        twin_note_ways(twin, s, to, segments, count + 1);
    }
}

static inline void twin_know_ways(struct twin *twin, uint32_t s)
{
    const struct storage *storage = &twin->request->storage;
    const uint32_t first = twin->cuts[s], end = twin->cuts[s + 1];
    struct ways *ways = twin_ways(twin, s);
    struct segment segments[TWIN_LAYERS];
    const uint64_t weights = stage_bytes_at(twin->views[s], first, end, NULL, 0, storage, 1).weights;
    ways->row = stage_cost_of(twin->views[s], first, end, NULL, 0, storage, twin_speed(twin, s));
    ways->row.reduce_ns = predict_reduce_ns(storage, twin->placement, s, weights, twin->network);
    ways->are_known = true;
    twin_note_ways(twin, s, first, segments, 0);
}

// Whether no rank of the stage holds a later one, which would want to know what is left.
static inline bool twin_is_last(const struct twin *twin, uint32_t s)
{
    bool last = true;
    for (uint32_t copy = 0; copy < placement_copies(twin->placement, s); copy++)
        last &= twin->placement->held[twin->placement->stage_at[placement_rank(twin->placement, s, copy) + 1] - 1] == s;
    return last;
}

static inline void twin_simulate_ways(struct twin *twin, uint32_t s)
{
    if (s == twin->stages) {
        uint64_t value = simulator_iteration_ns(twin->simulators[0], twin->rows);
        if (twin->simulators[1])
            value -= simulator_iteration_ns(twin->simulators[1], twin->rows);
        twin->best = value < twin->best ? value : twin->best;
        twin->plans++;
        return;
    }
    const struct ways *ways = twin_ways(twin, s);
    const bool last = twin_is_last(twin, s);
    uint64_t tried_ns = UINT64_MAX;
    twin->rows[s] = ways->row;
    for (size_t i = 0; i < ways->count; i++) {
        const struct way *way = &ways->at[i];
        if (last && way->recompute_ns == tried_ns)
            continue;
        uint64_t bytes[TWIN_DEVICES], workspace[TWIN_DEVICES];
        memcpy(bytes, twin->bytes, sizeof bytes);
        memcpy(workspace, twin->workspace, sizeof workspace);
        bool fits = true;
        for (uint32_t copy = 0; copy < placement_copies(twin->placement, s); copy++) {
            const uint32_t rank = placement_rank(twin->placement, s, copy);
            twin->bytes[rank] += way->bytes;
            if (way->workspace > twin->workspace[rank])
                twin->workspace[rank] = way->workspace;
            for (uint32_t j = 0; j < twin->group[s]; j++)
                fits &= twin->bytes[rank] + twin->workspace[rank] <= twin_device(twin, rank, j)->memory_bytes;
        }
        twin->rows[s].recompute_ns = way->recompute_ns;
        if (fits) {
            twin_simulate_ways(twin, s + 1);
            tried_ns = way->recompute_ns;
        }
        memcpy(twin->bytes, bytes, sizeof bytes);
        memcpy(twin->workspace, workspace, sizeof workspace);
    }
}

static inline void twin_try_cuts(struct twin *twin, uint32_t s)
{
    const uint32_t layers = (uint32_t)twin->request->profile->layer_count;
    if (s == twin->stages) {
        twin_simulate_ways(twin, 0);
        return;
    }
    for (uint32_t end = twin->cuts[s] + 1; end <= layers; end++) {
        if ((end == layers) != (s + 1 == twin->stages) || !small_pins_hold(twin->request, s, twin->cuts[s], end))
            continue;
        twin->cuts[s + 1] = end;
        if (!twin_ways(twin, s)->are_known)
            twin_know_ways(twin, s);
        twin_try_cuts(twin, s + 1);
    }
}

static inline struct simulator *twin_simulator_of(const struct search_request *request, uint32_t micro_batches,
                                      const struct network *network)
{
    struct error error = { 0 };
    struct schedule *order = search_order(request, micro_batches, &error);
    struct schedule *lowered = order ? schedule_lower(order, &error) : NULL;
    struct simulator *simulator = lowered ? simulator_create(lowered, network, &error) : NULL;
    assert_good(simulator, error);
    schedule_free(lowered);
    schedule_free(order);
    return simulator;
}

static inline uint64_t twin_solve(const struct search_request *request, const struct schedule *order, uint64_t *plans)
{
    static struct twin twin;
    struct error error = { 0 };
    const uint32_t m = request->micro_batches;
    const bool flushes = order->weights == WEIGHTS_FLUSH;
    twin = (struct twin){ .request = request, .stages = order->stages, .splits = order->splits,
                            .best = UINT64_MAX };
    twin.placement = placement_read(order, &error);
    twin.slots = search_slots(request, &error);
    assert_good(twin.placement && twin.slots, error);
    twin.has_room = request->cluster->devices[0].memory_bytes >= TWIN_ROOM;
    twin_sit(&twin);
    twin.simulators[0] = twin_simulator_of(request, flushes ? m : 3 * m, twin.network);
    twin.simulators[1] = flushes ? NULL : twin_simulator_of(request, 2 * m, twin.network);
    twin_try_cuts(&twin, 0);
    simulator_free(twin.simulators[0]);
    simulator_free(twin.simulators[1]);
    network_free(twin.network);
    for (uint32_t s = 0; s < twin.stages; s++) {
        variant_free(twin.views[s]);
        for (uint32_t first = 0; first < TWIN_LAYERS; first++)
            for (uint32_t end = first; end <= TWIN_LAYERS; end++)
                free(twin.ways[s][first][end].at);
    }
    placement_free(twin.placement);
    free(twin.slots);
    *plans += twin.plans;
    return twin.best;
}

#endif
