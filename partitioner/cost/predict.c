#include "partitioner/cost/predict.h"

#include <stdlib.h>

#include "common/json.h"
#include "common/number.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/cost/variant.h"
#include "partitioner/plan/collectives.h"
#include "schedules/lower.h"

uint32_t predict_run_length(enum weights weights, uint32_t ranks, uint32_t micro_batches)
{
    if (weights == WEIGHTS_FLUSH)
        return micro_batches;
    return 3 * micro_batches > 4 * ranks ? 3 * micro_batches : 4 * ranks;
}

struct slots *predict_slots_in(const struct schedule *lowered, struct error *error)
{
    struct slots *slots = calloc(lowered->stages, sizeof slots[0]);
    if (!slots)
        error_no_memory(error, "the slots of a plan");
    if (slots && slots_count(lowered, slots, error))
        return slots;
    free(slots);
    return NULL;
}

struct slots *predict_slots_by(const struct generator *generator, const struct generate_request *request,
                               const struct storage *storage, struct error *error)
{
    struct generate_request longer = *request;
    longer.micro_batches = predict_run_length(generator->weights, request->ranks, request->micro_batches);
    struct schedule *order = storage_order(storage, schedule_generate_by(generator, &longer, error), error);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    struct slots *slots = lowered ? predict_slots_in(lowered, error) : NULL;
    schedule_free(lowered);
    schedule_free(order);
    return slots;
}

uint64_t predict_reduce_ns(const struct storage *storage, const struct placement *placement, uint32_t stage,
                           uint64_t weights, const struct network *network)
{
    const uint32_t copies = placement_copies(placement, stage);
    uint64_t slowest = 0;
    for (uint32_t a = 0; a < copies; a++) {
        for (uint32_t b = 0; b < copies; b++) {
            const uint32_t from = placement_rank(placement, stage, a), to = placement_rank(placement, stage, b);
            if (a != b)
                slowest = max_u64(slowest, storage_reduce_ns(storage, copies, weights,
                                                             *network_link(network, from, to)));
        }
    }
    return slowest;
}

static void widen(struct link *link, struct link other)
{
    link->latency_ns = max_u64(link->latency_ns, other.latency_ns);
    if (other.bytes_per_second && (!link->bytes_per_second || other.bytes_per_second < link->bytes_per_second))
        link->bytes_per_second = other.bytes_per_second;
}

struct stage_place predict_place(const struct placement *placement, uint32_t stage, const struct network *network,
                                 const struct cluster *cluster)
{
    const uint32_t copies = placement_copies(placement, stage);
    struct stage_place place = { .replicas = copies, .host_bytes_per_second = storage_host_rate(cluster) };
    for (uint32_t a = 0; a < copies; a++) {
        for (uint32_t b = 0; b < copies; b++) {
            const uint32_t from = placement_rank(placement, stage, a), to = placement_rank(placement, stage, b);
            if (a != b)
                widen(&place.link, *network_link(network, from, to));
        }
    }
    return place;
}

static uint32_t stage_of(const uint32_t *cuts, uint32_t layer)
{
    uint32_t stage = 0;
    while (cuts[stage + 1] <= layer)
        stage++;
    return stage;
}

// Two ranks that hold both stages have nothing to send each other.
static bool have_both(const struct placement *placement, uint32_t a, uint32_t b, uint32_t one, uint32_t other)
{
    return placement_find(placement, b, one) != NOT_HELD && placement_find(placement, a, other) != NOT_HELD;
}

static uint64_t way_ns(struct link link, uint64_t bytes)
{
    return transfer_ns(bytes, link.bytes_per_second, link.latency_ns);
}

// The time in ns of the slowest message between any two ranks of the stages.
static uint64_t slowest_way_ns(const struct placement *placement, const struct network *network, uint32_t a,
                               uint32_t b, uint64_t bytes)
{
    uint64_t slowest = 0;
    for (uint32_t i = 0; i < placement_copies(placement, a); i++) {
        for (uint32_t j = 0; j < placement_copies(placement, b); j++) {
            const uint32_t one = placement_rank(placement, a, i), other = placement_rank(placement, b, j);
            if (!have_both(placement, a, b, one, other))
                slowest = max_u64(slowest, max_u64(way_ns(*network_link(network, one, other), bytes),
                                                   way_ns(*network_link(network, other, one), bytes)));
        }
    }
    return slowest;
}

// The stages whose STEPs take longer because of tied layers.
struct tie {
    const struct profile *const *profiles;  // by stage
    const struct storage *storage;
    const struct placement *placement;
    const struct network *network;
    struct cost_row *rows;
};

// The larger of two layers, in bytes, as a stage has them.
static uint64_t larger_bytes(const struct profile *profile, struct edge pair)
{
    return round_to_256(max_u64(profile->layers[pair.from].parameter_bytes, profile->layers[pair.to].parameter_bytes));
}

static void add_tie(const struct tie *tie, uint32_t a, uint32_t b, struct edge pair)
{
    const uint32_t stages[] = { a, b };
    for (size_t i = 0; i < 2; i++) {
        struct cost_row *row = &tie->rows[stages[i]];
        const uint64_t gradients = storage_gradient_bytes(tie->storage, larger_bytes(tie->profiles[stages[i]], pair));
        row->step_ns = add_clamped(row->step_ns, slowest_way_ns(tie->placement, tie->network, a, b, gradients));
    }
}

// Whether the stage has the weights of `owner`, as its own or as a copy.
static bool has_weights_of(const struct profile *profile, const uint32_t *cuts, uint32_t stage, uint32_t owner)
{
    bool has = cuts[stage] <= owner && owner < cuts[stage + 1];
    for (size_t i = 0; i < profile->one_owner_count && !has; i++)
        has = profile->one_owner[i].from == owner && cuts[stage] <= profile->one_owner[i].to
           && profile->one_owner[i].to < cuts[stage + 1];
    return has;
}

// Every two stages that have it send each other its gradients.
static void add_ties_of_owner(const struct tie *tie, const struct profile *profile, const uint32_t *cuts,
                              uint32_t owner)
{
    const uint32_t stages = tie->placement->stages;
    for (uint32_t a = 0; a < stages; a++)
        for (uint32_t b = a + 1; b < stages && has_weights_of(profile, cuts, a, owner); b++)
            if (has_weights_of(profile, cuts, b, owner))
                add_tie(tie, a, b, (struct edge){ owner, owner });
}

static bool is_one_owner(const struct profile *profile, struct edge pair)
{
    bool is = false;
    for (size_t i = 0; i < profile->one_owner_count && !is; i++) {
        const struct edge shared = profile->one_owner[i];
        is = (shared.from == pair.from && shared.to == pair.to) || (shared.from == pair.to && shared.to == pair.from);
    }
    return is;
}

void predict_add_tied(const struct profile *const *profiles, const struct storage *storage,
                      const struct placement *placement, const struct network *network, const uint32_t *cuts,
                      struct cost_row *rows)
{
    const struct profile *profile = profiles[0];
    const struct tie tie = { profiles, storage, placement, network, rows };
    for (size_t i = 0; i < profile->tied_count; i++) {
        const struct edge pair = profile->tied[i];
        const uint32_t a = stage_of(cuts, pair.from), b = stage_of(cuts, pair.to);
        if (a != b && !is_one_owner(profile, pair))
            add_tie(&tie, a, b, pair);
    }
    for (size_t i = 0; i < profile->one_owner_count; i++)
        if (i == 0 || profile->one_owner[i].from != profile->one_owner[i - 1].from)
            add_ties_of_owner(&tie, profile, cuts, profile->one_owner[i].from);
}

// What a plan's stages are counted with.
struct counting {
    const struct placement *placement;
    const struct network *network;
    uint32_t splits;
    bool exchanges;  // stages on one rank send each other messages
};

// The lowest speed and the least memory of the devices that hold the stage count. `profile` has the numbers of the
// stage's variant.
static void fill_numbers(struct plan *plan, uint32_t s, const struct profile *profile, const struct counting *with,
                         const struct slots *slots)
{
    struct plan_stage *stage = &plan->stages[s];
    uint64_t speed = UINT64_MAX, memory = UINT64_MAX;
    for (size_t i = 0; i < plan_stage_seats(stage); i++) {
        const struct cluster_device *device = &plan->cluster->devices[stage->devices[i]];
        speed = device->speed_permille < speed ? device->speed_permille : speed;
        memory = device->memory_bytes < memory ? device->memory_bytes : memory;
    }
    struct stage_place place = predict_place(with->placement, s, with->network, plan->cluster);
    place.speed_permille = speed;
    place.has_recompute = slots->again > 0;
    const struct stage_bytes bytes = stage_bytes_at(profile, stage->first, stage->end, stage->recompute,
                                                    stage->recompute_count, &plan->storage, place.replicas);
    stage->costs = stage_cost_at(profile, stage->first, stage->end, stage->recompute, stage->recompute_count,
                                 &plan->storage, &place);
    const uint64_t reduced = stage_reduced_bytes(profile, stage->first, stage->end, &plan->storage, place.replicas);
    stage->costs.reduce_ns = predict_reduce_ns(&plan->storage, with->placement, s, reduced, with->network);
    const struct stage_bytes split = stage_bytes_of_split(bytes, with->splits);
    stage->memory = stage_memory_of(&split, slots);
    stage->memory.capacity_bytes = memory;
}

static bool fill_stage(struct plan *plan, uint32_t s, const struct profile *profile, const struct counting *with,
                       const struct slots *slots, struct error *error)
{
    const struct plan_stage *stage = &plan->stages[s];
    if (variant_devices(profile, stage->variant) != plan_stage_group(stage))
        return error_set(error, "stages[%u]: groups of %u devices, but \"%.60s\" takes %u", s, plan_stage_group(stage),
                         stage->variant ? stage->variant : "no variant", variant_devices(profile, stage->variant));
    struct profile *view = variant_of(profile, stage->variant, error);
    if (view && with->exchanges && s > 0
        && placement_rank(with->placement, s - 1, 0) == placement_rank(with->placement, s, 0))
        plan->stages[s - 1].costs.exchange_ns = variant_exchange(view, stage->variant, stage->first, stage->end);
    if (view)
        fill_numbers(plan, s, view, with, slots);
    variant_free(view);
    return view != NULL;
}

static bool add_tied(struct plan *plan, const struct profile *profile, const struct placement *placement,
                     const struct network *network, struct error *error)
{
    uint32_t *cuts = calloc(plan->stage_count + 1, sizeof cuts[0]);
    struct cost_row *rows = calloc(plan->stage_count, sizeof rows[0]);
    struct profile **views = calloc(plan->stage_count, sizeof(struct profile *));
    bool good = (cuts && rows && views) || error_no_memory(error, "the tied layers of a plan");
    for (size_t s = 0; good && s < plan->stage_count; s++) {
        cuts[s + 1] = plan->stages[s].end;
        views[s] = variant_of(profile, plan->stages[s].variant, error);
        good = views[s] != NULL;
    }
    if (good)
        predict_add_tied((const struct profile *const *)views, &plan->storage, placement, network, cuts, rows);
    for (size_t s = 0; good && s < plan->stage_count; s++)
        plan->stages[s].costs.step_ns = add_clamped(plan->stages[s].costs.step_ns, rows[s].step_ns);
    for (size_t s = 0; views && s < plan->stage_count; s++)
        variant_free(views[s]);
    free(views);
    free(cuts);
    free(rows);
    return good;
}

// Whether replicas that share states can run their collectives (collectives.h).
static bool replicas_can_meet(const struct plan *plan, const struct schedule *lowered,
                              const struct placement *placement, struct error *error)
{
    struct collectives collectives = { 0 };
    const bool good = plan->storage.shard == SHARD_NONE
                   || collectives_open(&collectives, lowered, placement, plan->storage.shard, error);
    collectives_close(&collectives);
    return good;
}

static bool fill_stages(struct plan *plan, const struct profile *profile, const struct placement *placement,
                        const struct network *network, const struct schedule *lowered, const struct slots *slots,
                        struct error *error)
{
    const struct counting with = { placement, network, lowered->splits, lowered->exchanges };
    bool good = replicas_can_meet(plan, lowered, placement, error);
    for (uint32_t s = 0; good && s < plan->stage_count; s++)
        good = fill_stage(plan, s, profile, &with, &slots[s], error);
    return good && (!plan->storage.tied_apart || add_tied(plan, profile, placement, network, error));
}

static bool simulate(const struct plan *plan, const struct network *network, uint32_t micro_batches,
                     struct simulation *simulation, struct error *error)
{
    struct schedule *lowered = plan_schedule(plan, micro_batches, true, error);
    const bool good = lowered && schedule_simulate(lowered, NULL, network, simulation, NULL, error);
    schedule_free(lowered);
    return good;
}

// `whole` is the run that is timed; the caller clears it either way. `lowered` is that run as a schedule with costs, if
// it is at hand; or NULL.
static bool time_run(const struct plan *plan, const struct schedule *lowered, const struct network *network,
                     struct simulation *whole, uint64_t *iteration_ns, struct error *error)
{
    const bool flushes = plan->weights == WEIGHTS_FLUSH;
    struct simulation shorter = { 0 };
    const bool good =
        lowered ? schedule_simulate(lowered, NULL, network, whole, NULL, error)
                : simulate(plan, network, flushes ? plan->micro_batches : 3 * plan->micro_batches, whole, error)
                  && (flushes || simulate(plan, network, 2 * plan->micro_batches, &shorter, error));
    if (good)
        *iteration_ns = whole->iteration_ns - shorter.iteration_ns;
    simulation_clear(&shorter);
    return good;
}

bool plan_time(const struct plan *plan, const struct network *network, uint64_t *iteration_ns, struct error *error)
{
    struct simulation whole = { 0 };
    const bool good = time_run(plan, NULL, network, &whole, iteration_ns, error);
    simulation_clear(&whole);
    return good;
}

// Busy within one iteration; of equally busy stages, the first.
static uint32_t find_bottleneck(const struct plan *plan)
{
    uint32_t bottleneck = 0;
    uint64_t most = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct cost_row *row = &plan->stages[s].costs;
        const uint64_t busy = add_clamped(row->forward_ns, add_clamped(row->backward_ns, row->recompute_ns));
        if (busy > most) {
            most = busy;
            bottleneck = s;
        }
    }
    return bottleneck;
}

// A rank's live peak is that of all its stages together. Among the copies of a stage the largest counts.
static void fill_live_peaks(struct plan *plan, const struct placement *placement, const struct simulation *run)
{
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        uint64_t most = 0;
        for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++) {
            const uint64_t peak = run->per_rank[placement_rank(placement, s, copy)].live_peak_bytes;
            most = peak > most ? peak : most;
        }
        plan->stages[s].memory.live_peak_bytes = most;
    }
}

bool plan_is_too_long(const struct plan *plan)
{
    return plan->iteration_ns > JSON_MAX;
}

// `lowered` has the length of predict_run_length().
static bool fill_predicted(struct plan *plan, const struct placement *placement, const struct network *network,
                           struct schedule *lowered, struct error *error)
{
    struct simulation whole = { 0 };
    for (size_t s = 0; s < plan->stage_count; s++)
        lowered->costs[s] = plan->stages[s].costs;
    bool good = time_run(plan, plan->weights == WEIGHTS_FLUSH ? lowered : NULL, network, &whole, &plan->iteration_ns,
                         error);
    // Documents hold no larger number, and no user waits that long.
    if (good && plan_is_too_long(plan))
        good = error_set(error, "an iteration would take more than 2^53 - 1 ns, 104 days: see to the units of"
                                " profile and cluster, or take fewer micro-batches");
    if (good) {
        plan->bubble = whole.bubble;
        plan->bottleneck_stage = find_bottleneck(plan);
        fill_live_peaks(plan, placement, &whole);
    }
    simulation_clear(&whole);
    return good;
}

// `known` and its slots: see plan_predict_in(); or NULL.
static bool predict(struct plan *plan, const struct profile *profile, struct schedule *known,
                    const struct slots *known_slots, struct error *error)
{
    struct profile *made;
    if (!storage_check(&plan->storage, profile, plan->cluster, plan->weights == WEIGHTS_FLUSH, error))
        return false;
    const struct profile *ordered = plan_ordered(plan, profile, &made, error);
    struct placement *placement = !ordered ? NULL
                                : known    ? plan_placement_in(plan, known, error) : plan_placement(plan, error);
    struct network *network = placement ? plan_network(plan, error) : NULL;
    const uint32_t run = predict_run_length(plan->weights, plan->ranks, plan->micro_batches);
    struct schedule *lowered = known || !network ? known : plan_schedule(plan, run, true, error);
    struct slots *slots = known || !lowered ? NULL : predict_slots_in(lowered, error);
    if (network && lowered && !lowered->costs && !(lowered->costs = calloc(lowered->stages, sizeof lowered->costs[0])))
        error_no_memory(error, "the costs of a schedule");
    const bool good = network && lowered && lowered->costs && (known || slots)
                   && fill_stages(plan, ordered, placement, network, lowered, known ? known_slots : slots, error)
                   && fill_predicted(plan, placement, network, lowered, error);
    free(slots);
    if (!known)
        schedule_free(lowered);
    network_free(network);
    placement_free(placement);
    profile_free(made);
    return good;
}

bool plan_predict(struct plan *plan, const struct profile *profile, struct error *error)
{
    return predict(plan, profile, NULL, NULL, error);
}

bool plan_predict_in(struct plan *plan, const struct profile *profile, struct schedule *lowered,
                     const struct slots *slots, struct error *error)
{
    return predict(plan, profile, lowered, slots, error);
}
