// The row `search` of a sweep. It is not a schedule with a name but an order that is searched for
// (schedules/search/order_search.h). The cuts are those of a schedule with the same placement:
//
//     1 stage per rank     one way       cuts of zb-h1, or of 1f1b if that does not fit
//     2                    on a V        cuts of zb-v, v-half or v-min, the first that fits
//
// The search counts what micro-batches keep, but no message buffers. If the slab (all of a rank's memory) of the
// order that it found is too large, it is run again with that much less memory. A plan is then made for the order
// that was found; the plan may cut otherwise.
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/number.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/plan_search.h"
#include "partitioner/sweep/sweep.h"
#include "schedules/generators/given_order.h"
#include "schedules/lower.h"
#include "schedules/search/order_search.h"

enum { MOST_TRIALS = 4 };

// The plan whose cuts are used. NULL with the outcome in the row, or with an error.
static struct plan *find_cuts(const struct sweep_request *request, struct sweep_row *row, struct error *error)
{
    struct search_request search = sweep_search_of(request, row);
    const struct generator *generator = NULL;
    while ((generator = generator_to_search(row->chunks, generator))) {
        struct error why = { 0 };
        struct search_shortage shortage = { 0 };
        search.schedule = generator->name;
        search.found.shortage = &shortage;
        struct plan *plan = plan_search(&search, &why);
        if (plan)
            return plan;
        if (!sweep_note_none(row, &shortage, &why, error))
            return NULL;
    }
    // If no schedule fits, that does not prove that no order fits.
    if (row->found.outcome == SWEEP_DOES_NOT_FIT)
        row->found.outcome = SWEEP_NONE_FOUND;
    return NULL;
}

// An order for a plan's cuts, and its costs.
struct ordered {
    const struct sweep_request *request;
    struct plan *plan;  // its stages' memory becomes that of the order
    struct schedule *planned;  // the plan's own order, with its costs
    struct placement *placement;
    struct network *network;
    struct schedule *lowered;
};

static void clear(struct ordered *ordered)
{
    placement_free(ordered->placement);
    network_free(ordered->network);
    schedule_free(ordered->planned);
    schedule_free(ordered->lowered);
}

static bool begin(struct ordered *ordered, struct error *error)
{
    ordered->planned = plan_schedule(ordered->plan, ordered->plan->micro_batches, false, error);
    ordered->placement = ordered->planned ? plan_placement(ordered->plan, error) : NULL;
    ordered->network = ordered->placement ? plan_network(ordered->plan, error) : NULL;
    return ordered->network != NULL;
}

// The search has a single latency. It is that of the slowest message.
static uint64_t slowest_message(const struct ordered *ordered)
{
    uint64_t slowest = 0;
    for (uint32_t s = 0; s + 1 < ordered->plan->stage_count; s++) {
        const uint32_t from = placement_rank(ordered->placement, s, 0),
            to = placement_rank(ordered->placement, s + 1, 0);
        const struct link *link = network_link(ordered->network, from, to);
        const uint64_t bytes = ordered->planned->costs[s].output_bytes;
        const uint64_t ns = transfer_ns(bytes, link->bytes_per_second, link->latency_ns);
        slowest = from != to && ns > slowest ? ns : slowest;
    }
    return slowest;
}

// If kept activations go to the host, a rank keeps about two micro-batches' worth. The order's own slots give the
// exact number.
static void keep_on_host(struct cost_row *rows, size_t stages)
{
    for (size_t s = 0; s < stages; s++) {
        rows[s].kept_forward_bytes -= rows[s].moved_bytes;
        rows[s].fixed_bytes = add_clamped(rows[s].fixed_bytes, multiply_clamped(2, rows[s].moved_bytes));
    }
}

static void lower_found(struct ordered *ordered, struct order_found *found, struct error *why)
{
    struct schedule *order = storage_order(&ordered->plan->storage, found->schedule, why);
    found->schedule = NULL;
    ordered->lowered = order ? schedule_lower(order, why) : NULL;
    schedule_free(order);
}

// False if there is no order, with an error or the reason.
static bool find_order(struct ordered *ordered, uint64_t memory_bytes, struct error *why)
{
    const struct plan *plan = ordered->plan;
    struct cost_row *rows = array_copy(ordered->planned->costs, plan->stage_count, sizeof rows[0]);
    if (!rows)
        return error_no_memory(why, "a sweep");
    keep_on_host(rows, plan->stage_count);
    const struct order_request request = {
        .ranks = plan->ranks,
        .micro_batches = plan->micro_batches,
        .chunks = plan->chunks,
        .placement = plan->chunks == 1 ? PLACEMENT_ONE_WAY : PLACEMENT_V,
        .costs = rows,
        .latency_ns = slowest_message(ordered),
        .memory_bytes = memory_bytes,
        .objective = OBJECTIVE_MAKESPAN,
        .budget = ordered->request->budget ? ordered->request->budget : SWEEP_DEFAULT_BUDGET,
        .interrupted = ordered->request->interrupted,
    };
    struct order_found found = { 0 };
    schedule_free(ordered->lowered);
    ordered->lowered = NULL;
    if (order_search(&request, &found, why))
        lower_found(ordered, &found, why);
    order_found_clear(&found);
    free(rows);
    return ordered->lowered != NULL;
}

// Computes the largest slab of a rank with the order's own slots, and the most that any rank lacks.
static bool measure_slabs(const struct ordered *ordered, struct sweep_row *row, struct error *error)
{
    struct plan *plan = ordered->plan;
    struct slots *slots = calloc(plan->stage_count, sizeof slots[0]);
    if (!slots)
        return error_no_memory(error, "a sweep");
    const bool good = slots_count(ordered->lowered, slots, error);
    for (uint32_t s = 0; good && s < plan->stage_count; s++) {
        struct plan_stage *stage = &plan->stages[s];
        const struct stage_bytes sizes = stage_bytes_at(ordered->request->profile, stage->first, stage->end,
                                                        stage->recompute, stage->recompute_count, &plan->storage,
                                                        placement_copies(ordered->placement, s));
        stage->memory = stage_memory_of(&sizes, &slots[s]);
    }
    free(slots);
    row->found.peak_bytes = row->found.lacks_bytes = 0;
    for (uint32_t r = 0; good && r < plan->ranks; r++) {
        const uint64_t bytes = plan_rank_bytes(plan, ordered->placement, r);
        const uint64_t has = plan->cluster->devices[r].memory_bytes, lacks = bytes > has ? bytes - has : 0;
        if (lacks > row->found.lacks_bytes || (row->found.lacks_bytes == 0 && bytes > row->found.peak_bytes))
            row->found.rank = r;
        row->found.lacks_bytes = max_u64(row->found.lacks_bytes, lacks);
        row->found.peak_bytes = max_u64(row->found.peak_bytes, bytes);
    }
    return good;
}

static uint64_t least_memory(const struct plan *plan)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; r < plan->ranks; r++)
        least = min_u64(least, plan->cluster->devices[r].memory_bytes);
    return least;
}

static void refuse(struct sweep_row *row, const char *reason)
{
    row->found = (struct sweep_found){ .outcome = SWEEP_REFUSED };
    snprintf(row->reason, sizeof row->reason, "%.*s", (int)sizeof row->reason - 1, reason);
}

// Finds an order whose slabs fit, if that takes only a few trials.
static bool fit_order(struct ordered *ordered, struct sweep_row *row, struct error *error)
{
    uint64_t memory = least_memory(ordered->plan);
    for (int trial = 0; trial < MOST_TRIALS; trial++) {
        struct error why = { 0 };
        if (!find_order(ordered, memory, &why)) {
            refuse(row, why.text);
            return why.kind != ERROR_MACHINE || error_hand_on(error, &why);
        }
        if (!measure_slabs(ordered, row, error))
            return false;
        row->found.outcome = row->found.lacks_bytes ? SWEEP_NONE_FOUND : SWEEP_PLANNED;
        if (row->found.lacks_bytes == 0 || row->found.lacks_bytes >= memory)
            return true;
        memory -= row->found.lacks_bytes;
    }
    return true;
}

static bool note_time(const struct ordered *ordered, struct sweep_row *row, struct error *error)
{
    struct simulation simulation;
    if (!schedule_simulate(ordered->lowered, ordered->planned->costs, ordered->network, &simulation, NULL, error))
        return false;
    sweep_note_time(row, simulation.iteration_ns, simulation.bubble.makespan);
    simulation_clear(&simulation);
    return true;
}

// Makes the plan for the order. Without a plan the row stays as simulated, unless an engine is to run it.
static bool plan_order(const struct ordered *ordered, struct sweep_row *row, struct error *error)
{
    struct error why = { 0 };
    struct sweep_row planned = *row;
    struct search_request search = sweep_search_of(ordered->request, row);
    struct schedule *given = given_order(ordered->lowered, &why);
    const struct engine *engine = ordered->request->engine;
    if (!given || (engine && !engine->runs(given, &why))) {
        schedule_free(given);
        if (engine)
            refuse(row, why.text);
        return why.kind != ERROR_MACHINE || error_hand_on(error, &why);
    }
    search.schedule = given->name;
    search.given = given;
    const bool good = sweep_plan_row(&search, &planned, error);
    schedule_free(given);
    if (good && planned.plan) {
        *row = planned;
        row->only_simulated = false;
        row->found.lower_bound_ns = 0;  // the plan's bound is for its order alone
        row->found.proved = false;
    } else if (good && engine) {
        refuse(row, planned.reason);
    }
    return good;
}

bool sweep_order_row(const struct sweep_request *request, struct sweep_row *row, struct error *error)
{
    if (row->chunks > 2) {
        row->found.outcome = SWEEP_REFUSED;
        snprintf(row->reason, sizeof row->reason, "an order is searched for 1 or 2 stages per rank, not %u",
                 row->chunks);
        return true;
    }
    struct plan *plan = find_cuts(request, row, error);
    if (!plan)
        return error->kind == ERROR_NONE;
    struct ordered ordered = { .request = request, .plan = plan };
    bool good = begin(&ordered, error) && fit_order(&ordered, row, error);
    if (good && row->found.outcome == SWEEP_PLANNED)
        good = note_time(&ordered, row, error) && plan_order(&ordered, row, error);
    else
        row->found.peak_bytes = 0;
    clear(&ordered);
    plan_free(plan);
    return good;
}
