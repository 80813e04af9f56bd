// Random planning problems, and the twin that solves them by trying everything.
#ifndef TESTS_PARTITIONER_INSTANCE_H
#define TESTS_PARTITIONER_INSTANCE_H

#include "partitioner/cost/predict.h"
#include "partitioner/search/recompute.h"
#include "partitioner/search/search.h"
#include "schedules/lower.h"
#include "tests/partitioner/resolve.h"
#include "tests/partitioner/small.h"

enum { INSTANCE_RANKS = 6 };

struct instance {
    struct profile *profile;
    struct cluster *cluster;
    struct network *network;  // with shared links; or NULL: the cluster's
    struct search_request request;
};

static const char *const instance_schedules[] = { "gpipe", "1f1b", "pipedream" };

// Capacities around what some plan takes, so that most instances have a plan and
// many plans do not fit.
static inline void instance_set_memory(struct instance *instance, uint64_t *seed)
{
    struct error error = { 0 };
    const uint32_t ranks = instance->request.ranks, layers = (uint32_t)instance->profile->layer_count;
    struct slots *slots =
        predict_slots(instance->request.schedule, ranks, 1, instance->request.micro_batches, &error);
    assert_good(slots, error);
    const bool roomy = random_below(seed, 3) == 0;
    uint32_t first = 0;
    for (uint32_t s = 0; s < ranks; s++) {
        const uint32_t left = layers - first - (ranks - s - 1);
        const uint32_t end = s + 1 == ranks ? layers : first + 1 + (uint32_t)random_below(seed, left);
        struct segment segments[64];
        const size_t count = random_below(seed, 2) ? small_random_segments(seed, first, end, segments) : 0;
        const struct stage_bytes bytes = stage_bytes_at(instance->profile, first, end, segments, count,
                                                        &instance->request.storage, 1);
        const uint64_t peak = stage_memory_of(&bytes, &slots[s]).peak_bytes;
        instance->cluster->devices[s].memory_bytes = 1 + peak + peak / 8 * random_below(seed, roomy ? 12 : 4);
        first = end;
    }
    free(slots);
}

static inline void instance_share_links(struct instance *instance, uint64_t *seed)
{
    struct error error = { 0 };
    const uint32_t ranks = instance->request.ranks;
    instance->network = network_uniform(ranks, (struct link){ 20, 20000000000 }, &error);
    assert_good(instance->network, error);
    for (uint32_t from = 0; from < ranks; from++)
        for (uint32_t to = 0; to < ranks; to++)
            instance->network->link_of[from * ranks + to] %= 1 + (uint32_t)random_below(seed, 2);
    instance->request.network = instance->network;
}

// `most_ns` small makes many ties. Tied layers and forbidden cuts leave at least
// `ranks` stages only by chance.
static inline struct instance instance_create(uint64_t *seed, uint32_t layers, uint32_t ranks, bool plain)
{
    struct error error = { 0 };
    struct instance instance = { 0 };
    instance.profile = small_random_chain(seed, layers, random_below(seed, 3) == 0 ? 4 : 1000);
    if (random_below(seed, 3) == 0)
        small_random_edges(seed, instance.profile);
    if (!plain && layers > 2 && random_below(seed, 6) == 0) {
        instance.profile->tied = malloc(sizeof instance.profile->tied[0]);
        const uint32_t from = (uint32_t)random_below(seed, layers - 1);
        instance.profile->tied[0] = (struct edge){ from, from + 1 };
        instance.profile->tied_count = 1;
    }
    if (!plain && random_below(seed, 6) == 0) {
        instance.profile->no_cut_after = malloc(sizeof(uint32_t));
        instance.profile->no_cut_after[0] = (uint32_t)random_below(seed, layers);
        instance.profile->no_cut_count = 1;
    }
    const uint64_t rate = random_below(seed, 3) == 0 ? 1000000000 : 1000000000000;
    instance.cluster = cluster_uniform(ranks, 1, random_below(seed, 200), rate, &error);
    assert_good(instance.cluster, error);
    if (random_below(seed, 4) == 0)
        for (uint32_t r = 0; r < ranks; r++)
            instance.cluster->devices[r].speed_permille = 500 + 250 * random_below(seed, 4);
    instance.request = (struct search_request){ .profile = instance.profile, .cluster = instance.cluster,
                                                .schedule = instance_schedules[random_below(seed, 3)],
                                                .ranks = ranks, .chunks = 1,
                                                .micro_batches = 1 + (uint32_t)random_below(seed, 6),
                                                .storage.optimizer = (enum optimizer_kind)random_below(seed, 3) };
    resolve(&instance.request);
    instance_set_memory(&instance, seed);
    if (!plain && random_below(seed, 5) == 0)
        instance_share_links(&instance, seed);
    return instance;
}

static inline void instance_clear(struct instance *instance)
{
    profile_free(instance->profile);
    cluster_free(instance->cluster);
    network_free(instance->network);
}

// --- the twin -----------------------------------------------------------------------

// Which ways to recompute the twin tries for each stage of each cut.
enum brute_recompute {
    BRUTE_NONE,
    BRUTE_EVERY,  // every segmentation
    BRUTE_LEAST,  // the quickest (recompute.h), which is enough where longer stages never make a shorter iteration
};

struct brute {
    const struct instance *instance;
    enum brute_recompute recompute;
    struct intervals *intervals;
    struct slots *slots;
    struct network *network;
    struct simulator *simulators[2];
    uint32_t cuts[INSTANCE_RANKS + 1];
    struct cost_row rows[INSTANCE_RANKS];
    uint64_t times[INSTANCE_RANKS][512];  // of the ways to recompute that fit, each once
    size_t time_count[INSTANCE_RANKS];
    uint64_t best;  // UINT64_MAX: nothing fits
    uint64_t plans;
};

static inline bool brute_can_cut(const struct profile *profile, uint32_t at)
{
    for (size_t i = 0; i < profile->tied_count; i++)
        if (profile->tied[i].from < at && at <= profile->tied[i].to)
            return false;
    return profile_can_cut_after(profile, at - 1);
}

static inline void brute_note(struct brute *brute, uint32_t s, const struct segment *segments, size_t count)
{
    const struct search_request *request = &brute->instance->request;
    const struct stage_bytes bytes = stage_bytes_at(request->profile, brute->cuts[s], brute->cuts[s + 1], segments,
                                                    count, &request->storage, 1);
    if (stage_memory_of(&bytes, &brute->slots[s]).peak_bytes > request->cluster->devices[s].memory_bytes)
        return;
    const struct cost_row row = stage_cost_of(request->profile, brute->cuts[s], brute->cuts[s + 1], segments, count,
                                              &request->storage, request->cluster->devices[s].speed_permille);
    for (size_t i = 0; i < brute->time_count[s]; i++)
        if (brute->times[s][i] == row.recompute_ns)
            return;
    brute->rows[s] = row;
    brute->times[s][brute->time_count[s]++] = row.recompute_ns;
}

static inline void brute_segments(struct brute *brute, uint32_t s, uint32_t from, struct segment *segments,
                                  size_t count)
{
    const uint32_t end = brute->cuts[s + 1];
    if (from == end) {
        brute_note(brute, s, segments, count);
        return;
    }
    brute_segments(brute, s, from + 1, segments, count);
    for (uint32_t to = from + 1; brute->recompute == BRUTE_EVERY && to <= end; to++) {
        segments[count] = (struct segment){ from, to };
        brute_segments(brute, s, to, segments, count + 1);
    }
}

static inline void brute_stage(struct brute *brute, uint32_t s)
{
    struct segment segments[64] = { 0 };
    brute->time_count[s] = 0;
    if (brute->recompute != BRUTE_LEAST) {
        brute_segments(brute, s, brute->cuts[s], segments, 0);
        return;
    }
    struct error error = { 0 };
    struct recompute_list list;
    uint64_t work = 0;
    assert_good(recompute_search(brute->intervals, brute->cuts[s], brute->cuts[s + 1], &brute->slots[s],
                                 brute->instance->cluster->devices[s].memory_bytes, RECOMPUTE_LEAST, 100000, &work,
                                 &list, &error),
                error);
    assert_true(list.complete);
    if (list.count > 0)
        brute_note(brute, s, list.at[0].segments, list.at[0].count);
    recompute_list_clear(&list);
}

static inline void brute_simulate(struct brute *brute, uint32_t s)
{
    const uint32_t ranks = brute->instance->request.ranks;
    if (s < ranks) {
        for (size_t i = 0; i < brute->time_count[s]; i++) {
            brute->rows[s].recompute_ns = brute->times[s][i];
            brute_simulate(brute, s + 1);
        }
        return;
    }
    uint64_t value = simulator_iteration_ns(brute->simulators[0], brute->rows);
    if (brute->simulators[1])
        value -= simulator_iteration_ns(brute->simulators[1], brute->rows);
    brute->plans++;
    brute->best = value < brute->best ? value : brute->best;
}

static inline void brute_cuts(struct brute *brute, uint32_t s)
{
    const struct search_request *request = &brute->instance->request;
    const uint32_t layers = (uint32_t)request->profile->layer_count;
    if (s == request->ranks) {
        brute_simulate(brute, 0);
        return;
    }
    for (uint32_t end = brute->cuts[s] + 1; end <= layers; end++) {
        const bool last = s + 1 == request->ranks;
        if ((end == layers) != last || (!last && !brute_can_cut(request->profile, end)))
            continue;
        if (!small_pins_hold(request, s, brute->cuts[s], end))
            continue;
        brute->cuts[s + 1] = end;
        brute_stage(brute, s);
        if (brute->time_count[s] > 0)
            brute_cuts(brute, s + 1);
    }
}

static inline struct simulator *brute_simulator(const struct brute *brute, uint32_t micro_batches)
{
    struct error error = { 0 };
    const struct search_request *request = &brute->instance->request;
    struct schedule *order = schedule_generate(request->schedule, request->ranks, 1, micro_batches, &error);
    struct schedule *lowered = order ? schedule_lower(order, &error) : NULL;
    assert_good(lowered, error);
    struct simulator *simulator = simulator_create(lowered, brute->network, &error);
    assert_good(simulator, error);
    schedule_free(order);
    schedule_free(lowered);
    return simulator;
}

// The best objective over all cuts and these ways to recompute.
static inline uint64_t brute_force(const struct instance *instance, enum brute_recompute recompute, uint64_t *plans)
{
    struct error error = { 0 };
    static struct brute brute;
    brute = (struct brute){ .instance = instance, .recompute = recompute, .best = UINT64_MAX };
    const struct search_request *request = &instance->request;
    const uint32_t devices[INSTANCE_RANKS] = { 0, 1, 2, 3, 4, 5 };
    const bool flushes = generator_find(request->schedule, &error)->weights == WEIGHTS_FLUSH;
    brute.slots = predict_slots(request->schedule, request->ranks, 1, request->micro_batches, &error);
    struct network *own = cluster_network(request->cluster, devices, request->ranks, &error);
    brute.intervals = intervals_create(request->profile, &request->storage, &error);
    assert_good(brute.slots && own && brute.intervals, error);
    brute.network = instance->network ? instance->network : own;
    brute.simulators[0] = brute_simulator(&brute, flushes ? request->micro_batches : 3 * request->micro_batches);
    brute.simulators[1] = flushes ? NULL : brute_simulator(&brute, 2 * request->micro_batches);
    brute_cuts(&brute, 0);
    simulator_free(brute.simulators[0]);
    simulator_free(brute.simulators[1]);
    network_free(own);
    intervals_free(brute.intervals);
    free(brute.slots);
    *plans += brute.plans;
    return brute.best;
}

#endif
