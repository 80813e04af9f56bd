// The twin of a search that is asked for everything at once: every order, layout, cut and segment. It
// simulates every plan there is, but for those that take as long as another and no less memory; each that would be
// the best, and some of the others, it prices as a plan of its own, by plan_predict(), and asks the evaluator about it.
#ifndef TESTS_PARTITIONER_CROSSED_TWIN_H
#define TESTS_PARTITIONER_CROSSED_TWIN_H

#include <stdio.h>

#include "partitioner/cost/predict.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/search/search_request.h"
#include "profiler/profile_reorder.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "tests/partitioner/small_dag.h"

enum { MOST_LAYERS = 9, MOST_DEVICES = 4 };

// A way to recompute the layers of a stage, and what it takes.
struct way {
    struct cost_row row;  // times alone
    uint64_t bytes, workspace, host;
    struct segment segments[MOST_LAYERS];
    size_t count;
};

struct ways {
    struct way *at;
    size_t count;
    bool are_known;
};

struct twin {
    const struct search_request *asked;
    const struct profile *ordered;  // the layers in the order that is tried
    uint32_t order[MOST_LAYERS];
    bool is_own_order;
    uint32_t replicas[MOST_LAYERS], stages, devices[MOST_DEVICES], ranks;
    struct search_request request;  // with this layout
    struct placement *placement;
    struct slots *slots;
    struct network *network;
    struct simulator *simulators[2];
    uint32_t splits, cuts[MOST_LAYERS + 1];
    struct ways ways[MOST_LAYERS][MOST_LAYERS][MOST_LAYERS + 1];  // of stage, first and end
    const struct way *chosen[MOST_LAYERS];
    uint64_t bytes[MOST_DEVICES], workspace[MOST_DEVICES];  // of each rank
    uint64_t best, plans, most;  // plans: up to `most`
    uint64_t refused;
    bool keeps_all, only_count;
};

// --- one plan

static inline bool has_room(const struct twin *twin, const struct plan *plan)
{
    struct error error = { 0 };
    uint32_t *devices = plan_devices(plan, twin->placement, &error);
    assert_good(devices, error);
    bool room = true;
    for (uint32_t r = 0; r < plan->ranks; r++)
        room &= plan_rank_bytes(plan, twin->placement, r) <= plan->cluster->devices[devices[r]].memory_bytes;
    for (size_t machine = 0; machine < plan->cluster->device_count; machine++) {
        const uint64_t bytes = plan_host_bytes(plan, machine);
        room &= bytes == 0 || bytes <= plan->cluster->host_memory_bytes;
    }
    free(devices);
    return room;
}

// The evaluator must say the same.
static inline void ask_evaluator(struct twin *twin, struct plan *plan, bool room)
{
    struct error error = { 0 };
    plan->certificate = (struct certificate){ .objective = "iteration_ns", .value_ns = plan->iteration_ns };
    plan->certificate.gap = plan->iteration_ns > 0 ? 1 : 0;
    plan->certificate.proved = plan->iteration_ns == 0;
    if (!plan->certificate.proved)
        snprintf(plan->certificate.stopped, sizeof plan->certificate.stopped, "a plan of the twin");
    plan->order = twin->is_own_order ? NULL : twin->order;
    const bool holds = plan_evaluate(plan, twin->asked->profile, &error);
    plan->order = NULL;
    if (holds != room)
        fail_msg("a plan that %s, but the evaluator says: %s", room ? "fits" : "does not fit", error.text);
}

// What is chosen, as a plan of its own: it takes so long, and fits or not.
static inline void price_anew(struct twin *twin, uint64_t value, bool room)
{
    struct error error = { 0 };
    const struct placement *placement = twin->placement;
    struct plan *plan = search_begin_plan(&twin->request, placement->stages, &error);
    assert_good(plan, error);
    for (uint32_t s = 0; s < placement->stages; s++) {
        const struct way *way = twin->chosen[s];
        uint32_t devices[MOST_DEVICES];
        for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++)
            devices[copy] = twin->devices[placement_rank(placement, s, copy)];
        const struct segment layers = { twin->cuts[s], twin->cuts[s + 1] };
        assert_good(plan_set_stage(plan, s, twin->ordered, layers, 0, way->segments, way->count, &error)
                        && plan_set_devices(plan, s, devices, placement_copies(placement, s), &error), error);
    }
    assert_good(plan_predict(plan, twin->ordered, &error), error);
    if (plan->iteration_ns != value || has_room(twin, plan) != room)
        fail_msg("a plan takes %lld, but the twin says %lld, or else one has no room", (long long)plan->iteration_ns,
                 (long long)value);
    ask_evaluator(twin, plan, room);
    plan_free(plan);
}

static inline bool hosts_have_room(const struct twin *twin)
{
    const struct cluster *cluster = twin->asked->cluster;
    for (size_t machine = 0; machine < cluster->device_count; machine++) {
        uint64_t bytes = 0;
        for (uint32_t s = 0; s < twin->placement->stages; s++)
            for (uint32_t copy = 0; copy < placement_copies(twin->placement, s); copy++)
                if (storage_machine(cluster, twin->devices[placement_rank(twin->placement, s, copy)]) == machine)
                    bytes += twin->chosen[s]->host;
        if (bytes > 0 && bytes > cluster->host_memory_bytes)
            return false;
    }
    return true;
}

static inline uint64_t time_of(const struct twin *twin)
{
    struct cost_row rows[MOST_LAYERS];
    const struct profile *profiles[MOST_LAYERS];
    for (uint32_t s = 0; s < twin->placement->stages; s++) {
        rows[s] = twin->chosen[s]->row;
        profiles[s] = twin->ordered;
    }
    if (twin->asked->storage.tied_apart)
        predict_add_tied(profiles, &twin->asked->storage, twin->placement, twin->network, twin->cuts, rows);
    const uint64_t value = simulator_iteration_ns(twin->simulators[0], rows);
    return twin->simulators[1] ? value - simulator_iteration_ns(twin->simulators[1], rows) : value;
}

// Every best one is priced by all there is, and a few others.
static inline void try_plan(struct twin *twin, bool devices_have_room)
{
    enum { EACH = 64 };
    if (!devices_have_room) {
        if (twin->refused++ % EACH == 0)
            price_anew(twin, time_of(twin), false);
        return;
    }
    const bool room = hosts_have_room(twin);
    const uint64_t value = time_of(twin);
    if (twin->plans++ % EACH == 0 || value < twin->best)
        price_anew(twin, value, room);
    if (room && value < twin->best)
        twin->best = value;
}

// --- the ways to recompute a stage

static inline bool takes_no_more(const struct way *a, const struct way *b)
{
    return memcmp(&a->row, &b->row, sizeof a->row) == 0 && a->bytes <= b->bytes && a->workspace <= b->workspace
        && a->host <= b->host;
}

// Of those that take the same time, such as none takes no more of any memory.
static inline void add_way(struct ways *ways, const struct way *way)
{
    size_t count = 0;
    for (size_t i = 0; i < ways->count; i++)
        if (takes_no_more(&ways->at[i], way))
            return;
    for (size_t i = 0; i < ways->count; i++)
        if (!takes_no_more(way, &ways->at[i]))
            ways->at[count++] = ways->at[i];
    ways->at = realloc(ways->at, (count + 1) * sizeof *way);
    assert_non_null(ways->at);
    ways->at[count] = *way;
    ways->count = count + 1;
}

static inline struct ways *ways_of(struct twin *twin, uint32_t s)
{
    return &twin->ways[s][twin->cuts[s]][twin->cuts[s + 1]];
}

static inline void note_way(struct twin *twin, uint32_t s, const struct segment *segments, size_t count)
{
    const struct search_request *asked = twin->asked;
    const struct storage *storage = &asked->storage;
    const uint32_t first = twin->cuts[s], end = twin->cuts[s + 1], copies = placement_copies(twin->placement, s);
    struct stage_place place = predict_place(twin->placement, s, twin->network, asked->cluster);
    place.speed_permille = UINT64_MAX;
    for (uint32_t copy = 0; copy < copies; copy++) {
        const uint32_t device = twin->devices[placement_rank(twin->placement, s, copy)];
        const uint64_t speed = asked->cluster->devices[device].speed_permille;
        place.speed_permille = speed < place.speed_permille ? speed : place.speed_permille;
    }
    const struct stage_bytes whole = stage_bytes_at(twin->ordered, first, end, segments, count, storage, copies);
    const struct stage_bytes split = stage_bytes_of_split(whole, twin->splits);
    const struct stage_memory memory = stage_memory_of(&split, &twin->slots[s]);
    struct way way = { .bytes = memory.peak_bytes - memory.transient_bytes, .workspace = memory.transient_bytes,
                       .host = memory.host_bytes, .count = count };
    uint64_t weights = 0;
    for (uint32_t l = first; l < end; l++)
        weights += stage_layer_weights(twin->ordered, first, end, l);
    way.row = stage_cost_at(twin->ordered, first, end, segments, count, storage, &place);
    way.row.reduce_ns = predict_reduce_ns(storage, twin->placement, s, weights, twin->network);
    way.row.kept_forward_bytes = way.row.kept_weight_bytes = way.row.transient_bytes = 0;
    memcpy(way.segments, segments, count * sizeof segments[0]);
    add_way(ways_of(twin, s), &way);
}

static inline void note_ways(struct twin *twin, uint32_t s, uint32_t from, struct segment *segments, size_t count)
{
    const uint32_t end = twin->cuts[s + 1];
    if (from == end) {
        note_way(twin, s, segments, count);
        return;
    }
    note_ways(twin, s, from + 1, segments, count);
    for (uint32_t to = from + 1; !twin->keeps_all && to <= end; to++) {
        segments[count] = (struct segment){ from, to };
        note_ways(twin, s, to, segments, count + 1);
    }
}

// --- all plans of a layout

static inline void try_stage(struct twin *twin, uint32_t s);

static inline void try_way(struct twin *twin, uint32_t s, const struct way *way)
{
    const struct placement *placement = twin->placement;
    uint64_t bytes[MOST_DEVICES], workspace[MOST_DEVICES];
    memcpy(bytes, twin->bytes, sizeof bytes);
    memcpy(workspace, twin->workspace, sizeof workspace);
    bool fits = true;
    for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++) {
        const uint32_t r = placement_rank(placement, s, copy);
        twin->bytes[r] += way->bytes;
        twin->workspace[r] = way->workspace > twin->workspace[r] ? way->workspace : twin->workspace[r];
        fits &= twin->bytes[r] + twin->workspace[r] <= twin->asked->cluster->devices[twin->devices[r]].memory_bytes;
    }
    twin->chosen[s] = way;
    if (s + 1 == placement->stages)
        try_plan(twin, fits);
    else if (fits)
        try_stage(twin, s + 1);
    memcpy(twin->bytes, bytes, sizeof bytes);
    memcpy(twin->workspace, workspace, sizeof workspace);
}

static inline void try_ways(struct twin *twin, uint32_t s)
{
    struct segment segments[MOST_LAYERS];
    struct ways *ways = ways_of(twin, s);
    if (!ways->are_known)
        note_ways(twin, s, twin->cuts[s], segments, 0);
    ways->are_known = true;
    for (size_t i = 0; i < ways->count && twin->plans < twin->most; i++)
        try_way(twin, s, &ways->at[i]);
}

static inline bool may_end(const struct twin *twin, uint32_t end)
{
    const struct profile *profile = twin->ordered;
    for (size_t i = 0; i < profile->tied_count && !twin->asked->storage.tied_apart; i++)
        if (profile->tied[i].from < end && end <= profile->tied[i].to)
            return false;
    return profile_can_cut_after(profile, end - 1);
}

// To be counted: each layer may be run again or not.
static inline void count_ways(struct twin *twin, uint32_t s)
{
    const uint32_t layers = (uint32_t)twin->ordered->layer_count;
    if (s + 1 < twin->placement->stages)
        try_stage(twin, s + 1);
    else
        twin->plans += twin->keeps_all ? 1 : (uint64_t)1 << layers;
}

static inline void try_stage(struct twin *twin, uint32_t s)
{
    const uint32_t layers = (uint32_t)twin->ordered->layer_count, first = twin->cuts[s];
    const bool is_last = s + 1 == twin->placement->stages;
    for (uint32_t end = first + 1; end <= layers && twin->plans < twin->most; end++) {
        twin->cuts[s + 1] = end;
        if ((end == layers) != is_last || (!is_last && !may_end(twin, end))
            || !small_pins_hold(twin->asked, s, first, end))
            continue;
        if (twin->only_count)
            count_ways(twin, s);
        else
            try_ways(twin, s);
    }
}

static inline struct simulator *simulator_of(const struct twin *twin, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *order = search_order(&twin->request, micro_batches, &error);
    struct schedule *lowered = order ? schedule_lower(order, &error) : NULL;
    struct simulator *simulator = lowered ? simulator_create(lowered, twin->network, &error) : NULL;
    assert_good(simulator, error);
    schedule_free(lowered);
    schedule_free(order);
    return simulator;
}

static inline void begin_layout(struct twin *twin, const struct schedule *order)
{
    struct error error = { 0 };
    const uint32_t m = twin->asked->micro_batches;
    const bool flushes = order->weights == WEIGHTS_FLUSH;
    twin->slots = search_slots(&twin->request, &error);
    twin->network = cluster_network(twin->asked->cluster, twin->devices, twin->ranks, &error);
    assert_good(twin->slots && twin->network, error);
    twin->simulators[0] = simulator_of(twin, flushes ? m : 3 * m);
    twin->simulators[1] = flushes ? NULL : simulator_of(twin, 2 * m);
    twin->splits = order->splits;
}

static inline void end_layout(struct twin *twin)
{
    simulator_free(twin->simulators[0]);
    simulator_free(twin->simulators[1]);
    network_free(twin->network);
    free(twin->slots);
    for (uint32_t s = 0; s < twin->placement->stages; s++)
        for (uint32_t first = 0; first < MOST_LAYERS; first++)
            for (uint32_t end = 0; end <= MOST_LAYERS; end++)
                free(twin->ways[s][first][end].at);
    memset(twin->ways, 0, sizeof twin->ways);
}

static inline void try_layout(struct twin *twin)
{
    struct error error = { 0 };
    twin->request = *twin->asked;
    twin->request.profile = twin->ordered;
    twin->request.ranks = twin->ranks;
    twin->request.layout.stages = twin->stages;
    twin->request.layout.replicas = twin->stages ? twin->replicas : NULL;
    twin->request.layout.devices = twin->devices;
    struct schedule *order = search_order(&twin->request, twin->asked->micro_batches, &error);
    if (order && order->stages <= twin->ordered->layer_count) {
        twin->placement = placement_read(order, &error);
        assert_good(twin->placement, error);
        if (!twin->only_count)
            begin_layout(twin, order);
        try_stage(twin, 0);
        if (!twin->only_count)
            end_layout(twin);
        placement_free(twin->placement);
    }
    schedule_free(order);
}

static inline void try_devices(struct twin *twin, uint32_t rank)
{
    const struct search_request *asked = twin->asked;
    if (rank == twin->ranks) {
        try_layout(twin);
        return;
    }
    for (uint32_t d = 0; d < asked->cluster->device_count; d++) {
        bool used = false;
        for (uint32_t r = 0; r < rank; r++)
            used |= twin->devices[r] == d;
        if (used || (!asked->free.devices && d != (asked->layout.devices ? asked->layout.devices[rank] : rank)))
            continue;
        twin->devices[rank] = d;
        try_devices(twin, rank + 1);
    }
}

static inline void try_replicas(struct twin *twin)
{
    const struct search_request *asked = twin->asked;
    const uint32_t ranks = twin->ranks;
    if (ranks > 0 && (ranks == asked->ranks || asked->free.fewer))
        try_devices(twin, 0);
    if (twin->stages == asked->profile->layer_count)
        return;
    const uint32_t s = twin->stages++;
    for (uint32_t r = 1; r <= asked->ranks - ranks; r++) {
        twin->replicas[s] = r;
        twin->ranks = ranks + r;
        try_replicas(twin);
    }
    twin->stages = s;
    twin->ranks = ranks;
}

static inline void try_layouts(struct twin *twin)
{
    const struct search_request *asked = twin->asked;
    twin->ranks = twin->stages = 0;
    if (asked->free.replicas) {
        try_replicas(twin);
        return;
    }
    twin->stages = asked->layout.replicas ? asked->layout.stages : 0;
    for (uint32_t s = 0; s < twin->stages; s++)
        twin->replicas[s] = asked->layout.replicas[s];
    const bool fewer = asked->free.fewer && !asked->layout.replicas;
    for (twin->ranks = fewer ? 1 : asked->ranks; twin->ranks <= asked->ranks; twin->ranks++)
        try_devices(twin, 0);
}

// All orders that begin with the first `count` places of this one.
static inline void try_orders(struct twin *twin, uint32_t count)
{
    struct error error = { 0 };
    const struct profile *profile = twin->asked->profile;
    if (count == profile->layer_count) {
        struct profile *ordered = profile_reorder(profile, twin->order, &error);
        assert_good(ordered, error);
        twin->ordered = ordered;
        twin->is_own_order = true;
        for (uint32_t i = 0; i < count; i++)
            twin->is_own_order &= twin->order[i] == i;
        if (twin->is_own_order || twin->asked->pinned.count == 0)  // pins are for the profile's own order
            try_layouts(twin);
        profile_free(ordered);
        return;
    }
    for (uint32_t l = 0; l < profile->layer_count; l++) {
        bool ready = true;
        uint32_t read = 0;
        for (uint32_t i = 0; i < count; i++)
            ready &= twin->order[i] != l;
        for (size_t e = 0; e < profile->edge_count; e++)
            read += profile->edges[e].to == l;
        for (size_t e = 0; e < profile->edge_count; e++)
            for (uint32_t i = 0; i < count; i++)
                read -= profile->edges[e].to == l && profile->edges[e].from == twin->order[i];
        if (!ready || read > 0 || (profile->is_chain && l != count))
            continue;
        twin->order[count] = l;
        try_orders(twin, count + 1);
    }
}

// `keeps_all`: nothing that is recomputed could make an iteration shorter. `only_count`: how many plans there may be.
static inline struct twin twin_solve(const struct search_request *asked, bool keeps_all, uint64_t most, bool only_count)
{
    struct twin twin = { .asked = asked, .best = UINT64_MAX, .most = most, .keeps_all = keeps_all,
                         .only_count = only_count };
    try_orders(&twin, 0);
    return twin;
}

#endif
