// The twin of the search over orders: all chains of downsets, all orders of each stage's
// layers, all segments of them. Sets of layers are bits of a number.
#ifndef TESTS_PARTITIONER_BRUTE_ORDERS_H
#define TESTS_PARTITIONER_BRUTE_ORDERS_H

#include "common/number.h"
#include "partitioner/cost/predict.h"
#include "partitioner/search/search.h"
#include "profiler/profile_reorder.h"
#include "schedules/lower.h"
#include "tests/partitioner/small_dag.h"

enum { ORDERS_MOST_STAGES = 8, ORDERS_MOST_WAYS = 512 };

// A stage's row, and what it takes of its rank.
struct orders_way {
    struct cost_row row;
    uint64_t bytes, workspace_bytes;
};

struct orders_stage {
    uint32_t stage, from, to;
    struct orders_way ways[ORDERS_MOST_WAYS];
    size_t count;
};

struct brute_orders {
    const struct search_request *request;
    struct placement *placement;
    struct slots *slots;
    struct network *network;
    struct simulator *simulators[2];
    bool flushes, shares_ranks;
    uint32_t layers, stages, after[SMALL_DAG_MOST];  // what each layer reads from
    uint32_t order[SMALL_DAG_MOST];
    struct orders_stage *known[4096];  // by hash of (stage, from, to)
    size_t known_count;
    struct orders_stage *chosen[ORDERS_MOST_STAGES];
    struct cost_row rows[ORDERS_MOST_STAGES];
    uint64_t bytes[ORDERS_MOST_STAGES], workspace[ORDERS_MOST_STAGES];  // per stage
    uint64_t best, plans;
};

// Of flushing schedules a way that takes no less of anything is no better; of others a
// longer stage may make a shorter iteration, and only ways of the same time compare.
static inline void orders_note(struct brute_orders *brute, struct orders_stage *stage, const struct orders_way *way)
{
    size_t left = 0;
    for (size_t i = 0; i < stage->count; i++) {
        const struct orders_way *other = &stage->ways[i];
        const bool comparable = brute->flushes || other->row.recompute_ns == way->row.recompute_ns;
        if (comparable && other->row.recompute_ns <= way->row.recompute_ns && other->bytes <= way->bytes
            && other->workspace_bytes <= way->workspace_bytes)
            return;
    }
    for (size_t i = 0; i < stage->count; i++) {
        const struct orders_way *other = &stage->ways[i];
        const bool comparable = brute->flushes || other->row.recompute_ns == way->row.recompute_ns;
        if (!comparable || way->row.recompute_ns > other->row.recompute_ns || way->bytes > other->bytes
            || way->workspace_bytes > other->workspace_bytes)
            stage->ways[left++] = *other;
    }
    assert_true(left < ORDERS_MOST_WAYS);
    stage->ways[left++] = *way;
    stage->count = left;
}

static inline void orders_segments(struct brute_orders *brute, struct orders_stage *stage,
                                   const struct profile *profile, struct segment range, uint32_t from,
                                   struct segment *segments, size_t count)
{
    if (from == range.end) {
        const struct search_request *request = brute->request;
        const struct stage_bytes bytes =
            stage_bytes_at(profile, range.first, range.end, segments, count, &request->storage, 1);
        const uint32_t rank = placement_rank(brute->placement, stage->stage, 0);
        const struct orders_way way = {
            stage_cost_of(profile, range.first, range.end, segments, count, &request->storage,
                          request->cluster->devices[rank].speed_permille),
            stage_memory_of(&bytes, &brute->slots[stage->stage]).peak_bytes - bytes.transient, bytes.transient };
        if (way.bytes + way.workspace_bytes <= request->cluster->devices[rank].memory_bytes)
            orders_note(brute, stage, &way);
        return;
    }
    orders_segments(brute, stage, profile, range, from + 1, segments, count);
    for (uint32_t to = from + 1; to <= range.end; to++) {
        segments[count] = (struct segment){ from, to };
        orders_segments(brute, stage, profile, range, to, segments, count + 1);
    }
}

// The order so far is that of `placed`; the rest of `to` comes in every order.
static inline void orders_extend(struct brute_orders *brute, struct orders_stage *stage, uint32_t placed, uint32_t at)
{
    // Nothing is quicker than nothing recomputed, and where a rank has one stage nothing else counts.
    if (brute->flushes && !brute->shares_ranks && stage->count > 0 && stage->ways[0].row.recompute_ns == 0)
        return;
    if (placed == stage->to) {
        struct error error = { 0 };
        uint32_t rest = at;
        for (uint32_t l = 0; l < brute->layers; l++)
            if (!(placed >> l & 1))
                brute->order[rest++] = l;
        struct profile *profile = profile_reorder(brute->request->profile, brute->order, &error);
        assert_good(profile, error);
        struct segment segments[SMALL_DAG_MOST];
        const struct segment range = { (uint32_t)__builtin_popcount(stage->from), at };
        orders_segments(brute, stage, profile, range, range.first, segments, 0);
        profile_free(profile);
        return;
    }
    for (uint32_t l = 0; l < brute->layers; l++) {
        const uint32_t bit = 1u << l;
        if (!(stage->to & bit) || (placed & bit) || (brute->after[l] & ~placed))
            continue;
        brute->order[at] = l;
        orders_extend(brute, stage, placed | bit, at + 1);
    }
}

static inline struct orders_stage *orders_stage_of(struct brute_orders *brute, uint32_t s, uint32_t from, uint32_t to)
{
    size_t slot = ((s * 1000003u + from) * 1000003u + to) % 4096;
    for (; brute->known[slot]; slot = (slot + 1) % 4096)
        if (brute->known[slot]->stage == s && brute->known[slot]->from == from && brute->known[slot]->to == to)
            return brute->known[slot];
    assert_true(++brute->known_count < 4096);
    struct orders_stage *stage = calloc(1, sizeof *stage);
    assert_non_null(stage);
    *stage = (struct orders_stage){ .stage = s, .from = from, .to = to };
    uint32_t at = 0;
    for (uint32_t l = 0; l < brute->layers; l++)
        if (from >> l & 1)
            brute->order[at++] = l;
    orders_extend(brute, stage, from, at);
    return brute->known[slot] = stage;
}

static inline bool orders_fit(const struct brute_orders *brute)
{
    const struct placement *placement = brute->placement;
    for (uint32_t r = 0; r < placement->ranks; r++) {
        uint64_t bytes = 0, workspace = 0;
        for (uint32_t at = placement->stage_at[r]; at < placement->stage_at[r + 1]; at++) {
            const uint32_t s = placement->held[at];
            bytes += brute->bytes[s];
            workspace = brute->workspace[s] > workspace ? brute->workspace[s] : workspace;
        }
        if (bytes + workspace > brute->request->cluster->devices[r].memory_bytes)
            return false;
    }
    return true;
}

static inline void orders_try_ways(struct brute_orders *brute, uint32_t s)
{
    if (s == brute->stages) {
        if (!orders_fit(brute))
            return;
        uint64_t value = simulator_iteration_ns(brute->simulators[0], brute->rows);
        if (brute->simulators[1])
            value -= simulator_iteration_ns(brute->simulators[1], brute->rows);
        brute->plans++;
        brute->best = value < brute->best ? value : brute->best;
        return;
    }
    for (size_t i = 0; i < brute->chosen[s]->count; i++) {
        brute->rows[s] = brute->chosen[s]->ways[i].row;
        brute->bytes[s] = brute->chosen[s]->ways[i].bytes;
        brute->workspace[s] = brute->chosen[s]->ways[i].workspace_bytes;
        orders_try_ways(brute, s + 1);
    }
}

// Tied layers, and a layer after which no stage may end with the one behind it, are on one side.
static inline bool orders_may_cut(const struct profile *profile, uint32_t set)
{
    for (size_t i = 0; i < profile->tied_count; i++)
        if ((set >> profile->tied[i].from & 1) != (set >> profile->tied[i].to & 1))
            return false;
    for (size_t i = 0; i < profile->no_cut_count; i++)
        if (profile->no_cut_after[i] + 1 < profile->layer_count
            && (set >> profile->no_cut_after[i] & 1) != (set >> (profile->no_cut_after[i] + 1) & 1))
            return false;
    return true;
}

static inline void orders_try_sets(struct brute_orders *brute, uint32_t s, uint32_t from)
{
    const uint32_t all = (1u << brute->layers) - 1;
    if (s == brute->stages) {
        orders_try_ways(brute, 0);
        return;
    }
    for (uint32_t to = from + 1; to <= all; to++) {
        bool is_downset = (to & from) == from && (to == all) == (s + 1 == brute->stages);
        for (uint32_t l = 0; l < brute->layers && is_downset; l++)
            is_downset = !(to >> l & 1) || !(brute->after[l] & ~to);
        if (!is_downset || !orders_may_cut(brute->request->profile, to))
            continue;
        brute->chosen[s] = orders_stage_of(brute, s, from, to);
        if (brute->chosen[s]->count > 0)
            orders_try_sets(brute, s + 1, to);
    }
}

static inline struct simulator *orders_simulator(struct brute_orders *brute, uint32_t micro_batches)
{
    struct error error = { 0 };
    const struct search_request *request = brute->request;
    struct schedule *order =
        schedule_generate(request->schedule, request->ranks, request->chunks, micro_batches, &error);
    struct schedule *lowered = order ? schedule_lower(order, &error) : NULL;
    assert_good(lowered, error);
    struct simulator *simulator = simulator_create(lowered, brute->network, &error);
    assert_good(simulator, error);
    brute->stages = order->stages;
    if (!brute->placement)
        brute->placement = placement_read(order, &error);
    assert_good(brute->placement, error);
    schedule_free(order);
    schedule_free(lowered);
    return simulator;
}

// The best objective there is; UINT64_MAX where nothing fits. Links are the cluster's.
static inline uint64_t brute_orders(const struct search_request *request, uint64_t *plans)
{
    struct error error = { 0 };
    static struct brute_orders brute;
    static const uint32_t devices[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const struct profile *profile = request->profile;
    brute = (struct brute_orders){ .request = request, .best = UINT64_MAX, .layers = (uint32_t)profile->layer_count };
    for (size_t e = 0; e < profile->edge_count; e++)
        brute.after[profile->edges[e].to] |= 1u << profile->edges[e].from;
    const uint32_t m = request->micro_batches;
    brute.flushes = generator_find(request->schedule, &error)->weights == WEIGHTS_FLUSH;
    brute.network = cluster_network(request->cluster, devices, request->ranks, &error);
    brute.slots = predict_slots(request->schedule, request->ranks, request->chunks, m, &error);
    assert_good(brute.network && brute.slots, error);
    brute.simulators[0] = orders_simulator(&brute, brute.flushes ? m : 3 * m);
    brute.simulators[1] = brute.flushes ? NULL : orders_simulator(&brute, 2 * m);
    brute.shares_ranks = brute.stages > request->ranks;
    orders_try_sets(&brute, 0, 0);
    for (size_t i = 0; i < 4096; i++)
        free(brute.known[i]);
    simulator_free(brute.simulators[0]);
    simulator_free(brute.simulators[1]);
    placement_free(brute.placement);
    network_free(brute.network);
    free(brute.slots);
    *plans += brute.plans;
    return brute.best;
}

#endif
