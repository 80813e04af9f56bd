// A decision to begin with: the path of places whose busiest stage is least busy (cut_path.h), with regard to memory.
//
// If every rank has one stage, a stage costs
//
//     the way in of the first micro-batch, and out of the last     + busy, with what it must recompute
//
// The recomputation is known exactly on the path that results. Links count as well. Messages by themselves hold up no
// stage, but long ones make stages wait for each other. How long is known only after a simulation. So a part of their
// time is added, and several parts are tried.
//
// If ranks have several stages, what the rank's other stages take is not known while the cuts are chosen. The search
// therefore goes in rounds. First memory counts for nothing. Then every stage has an even share of its rank's memory,
// and no company: no work of the rank's other stages counts. Then each has what the others left over in the round
// before, and their company.
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/number.h"
#include "partitioner/cuts/cut_path.h"
#include "partitioner/cuts/cut_search.h"

enum { ROUNDS = 5, WORK_OUT_ROUNDS = 2000, LINK_PARTS = 4, LEAST_WORK = 500000 };

// The time that some layers were found to recompute. A stage with these layers and more, and with no fewer bytes of
// weights and messages, recomputes no less.
struct lesson {
    uint32_t to;
    uint64_t fixed_bytes, recompute_ns;
};

struct lessons {
    struct lesson *at;
    size_t count, capacity;
};

struct start {
    struct cut_problem *problem;
    struct lessons *lessons;    // for stages like s that begin at a place: [s * places + place]
    struct cut_state *best, trial;
    uint64_t *share, *company;  // of each stage: bytes of its rank's memory; time of the rank's other stages
    uint64_t link_parts;        // the part of a message's time that counts, in quarters
    uint64_t forward_percent;   // drained orders: weight of F against B, each relative to the model's; 0: their sum
    bool has_best;
};

// --- costs ------------------------------------------------------------------------------------

// The time of a micro-batch in front of a place, there and back.
static uint64_t way_to(const struct cut_problem *problem, uint32_t place)
{
    const struct cut_schedule *schedule = &problem->schedule;
    if (!schedule->flushes)
        return 0;
    const uint64_t ns = cut_sum(problem, 0, SUM_FORWARD, 0, place)
                      + (schedule->is_whole ? cut_sum(problem, 0, SUM_BACKWARD, 0, place) : 0);
    return stage_scaled_ns(ns, problem->devices.fastest);
}

static uint64_t busy_only(const void *self, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct start *start = self;
    return cut_stage_busy_ns(start->problem, stage, from, to, 0);
}

// The time of a message over a cut.
static uint64_t message_ns(const struct start *start, uint32_t stage, uint32_t place)
{
    const struct cut_problem *problem = start->problem;
    const struct placement *placement = problem->schedule.placement;
    if (stage + 1 == problem->stages)
        return 0;
    const uint32_t from = placement_rank(placement, stage, 0), to = placement_rank(placement, stage + 1, 0);
    if (from == to)
        return 0;
    const struct link *link = network_link(problem->devices.network, from, to);
    return transfer_ns(problem->views[problem->view_of[stage]].cut_bytes[place], link->bytes_per_second,
                       link->latency_ns);
}

// The part of the messages of all micro-batches that counts.
static uint64_t messages_ns(const struct start *start, uint32_t stage, uint32_t place)
{
    const struct cut_problem *problem = start->problem;
    const uint32_t copies = placement_copies(problem->schedule.placement, stage);
    return start->link_parts == 0 ? 0
        : message_ns(start, stage, place) * problem->request->micro_batches * start->link_parts / 4 / copies;
}

static uint64_t link_sum(const void *self, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct start *start = self;
    const struct stage_view *view = &start->problem->views[start->problem->view_of[stage]];
    (void)from;
    return view->cut_bytes[to] / 256;
}

static uint64_t taught(const struct start *start, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct cut_problem *problem = start->problem;
    const struct lessons *lessons =
        start->lessons ? &start->lessons[(size_t)problem->alike[stage] * problem->places->count + from] : NULL;
    uint64_t most = 0, fixed = 0;
    for (size_t i = 0; lessons && i < lessons->count; i++) {
        const struct lesson *lesson = &lessons->at[i];
        if (lesson->to > to || lesson->recompute_ns <= most)
            continue;
        fixed = fixed ? fixed : stage_price_fixed(problem, stage, from, to);
        most = lesson->fixed_bytes <= fixed ? lesson->recompute_ns : most;
    }
    return most;
}

static bool note(struct lessons *lessons, const struct lesson *lesson)
{
    size_t kept = 0;
    for (size_t i = 0; i < lessons->count; i++) {
        const struct lesson *other = &lessons->at[i];
        if (other->to <= lesson->to && other->fixed_bytes <= lesson->fixed_bytes
            && other->recompute_ns >= lesson->recompute_ns)
            return true;
        if (other->to < lesson->to || other->fixed_bytes < lesson->fixed_bytes
            || other->recompute_ns > lesson->recompute_ns)
            lessons->at[kept++] = *other;
    }
    lessons->count = kept;
    if (!array_reserve(&lessons->at, &lessons->capacity, kept + 1, sizeof lessons->at[0]))
        return false;
    lessons->at[lessons->count++] = *lesson;
    return true;
}

// Notes a lesson for all stages that begin at `from` or in front of it.
static bool learn(struct start *start, uint32_t stage, uint32_t from, uint32_t to, uint64_t recompute_ns,
                  struct error *error)
{
    const struct cut_problem *problem = start->problem;
    const struct lesson lesson = { to, stage_price_fixed(problem, stage, from, to), recompute_ns };
    for (uint32_t place = 0; start->lessons && place <= from; place++)
        if (!note(&start->lessons[(size_t)problem->alike[stage] * problem->places->count + place], &lesson))
            return error_no_memory(error, "a search");
    return true;
}

// The cost if all forwards come before the first backward (GPipe). The slowest F or message counts, and the slowest B
// or message, each for itself and wherever they are. The cost is the larger of both, once they are weighed against
// each other.
static uint64_t drained_ns(const struct start *start, uint32_t stage, uint32_t from, uint32_t to, uint64_t recompute_ns)
{
    const struct cut_problem *problem = start->problem;
    const uint32_t full = problem->places->full;
    const unsigned __int128 all_f = cut_sum(problem, stage, SUM_FORWARD, 0, full) + 1;
    const unsigned __int128 all_b = cut_sum(problem, stage, SUM_BACKWARD, 0, full) + 1;
    const uint64_t message = message_ns(start, stage, to), forward = cut_sum(problem, stage, SUM_FORWARD, from, to);
    const uint64_t backward = cut_sum(problem, stage, SUM_BACKWARD, from, to) + recompute_ns;
    const unsigned __int128 f = forward > message ? forward : message, b = backward > message ? backward : message;
    const unsigned __int128 by_f = f * (all_f + all_b) / all_f * start->forward_percent / 100;
    const unsigned __int128 by_b = b * (all_f + all_b) / all_b;
    const uint64_t most = (uint64_t)(by_f > by_b ? by_f : by_b);
    return stage_scaled_ns(most * problem->request->micro_batches, problem->devices.speed[stage]);
}

// How long the stage waits for those behind it, as far as the pattern of the order tells (pattern.h).
static uint64_t waiting_ns(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                           uint64_t recompute_ns)
{
    const struct pattern *pattern = &problem->schedule.pattern;
    if (!pattern->is_known)
        return 0;
    const struct pattern_stage as = cut_pattern_stage(problem, stage, from, to, recompute_ns);
    const uint64_t way = pattern_round_ns(&as) - as.forward_ns - as.backward_ns;
    const uint64_t all = way_to(problem, problem->places->full);
    return pattern_stage_bound(pattern, stage, &as, way_to(problem, from), way + all - way_to(problem, to));
}

static uint64_t cost_alone(const void *self, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct start *start = self;
    struct cut_problem *problem = start->problem;
    const struct stage_price *price = stage_table_get(&problem->narrow, problem->alike[stage], from, to);
    uint64_t recompute_ns;
    if (price && price->has_choices) {
        recompute_ns = price->fits ? price->choices[0].forward_ns : NO_TIME;
    } else {
        recompute_ns = stage_price_floor(problem, stage, from, to);
        recompute_ns = recompute_ns == NO_TIME ? NO_TIME : max_u64(recompute_ns, taught(start, stage, from, to));
    }
    if (recompute_ns == NO_TIME)
        return NO_TIME;
    if (start->forward_percent > 0) {
        const uint64_t busy = cut_stage_busy_ns(problem, stage, from, to, 0);
        const uint64_t drained = drained_ns(start, stage, from, to, recompute_ns);
        return drained > busy ? drained : busy;
    }
    const uint64_t busy = way_to(problem, from) + cut_stage_busy_ns(problem, stage, from, to, recompute_ns)
                        + messages_ns(start, stage, to) + (stage > 0 ? messages_ns(start, stage - 1, from) : 0);
    return max_u64(busy, waiting_ns(problem, stage, from, to, recompute_ns));
}

static bool work_out_alone(const void *self, uint32_t stage, uint32_t from, uint32_t to, bool *news,
                           struct error *error)
{
    struct start *start = (struct start *)self;
    struct cut_problem *problem = start->problem;
    const uint64_t before = cost_alone(self, stage, from, to);
    const struct stage_price *price = stage_price_of(problem, &problem->narrow, stage, from, to, error);
    if (!price)
        return false;
    // A stage that fits as it is recomputes nothing.
    if (add_clamped(price->bytes, price->workspace_bytes) > cut_capacity(problem, stage) && !price->has_choices) {
        price = stage_price_choices(problem, &problem->narrow, stage, from, to, error);
        if (!price || !learn(start, stage, from, to, price->fits ? price->choices[0].forward_ns : NO_TIME, error))
            return false;
    }
    *news = cost_alone(self, stage, from, to) != before;
    return true;
}

// The part of the layers that must be recomputed is estimated as the part that the lacking bytes are of the kept
// ones. A stage that lacks more than it keeps costs more than anything that fits.
static uint64_t cost_in_company(const void *self, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct start *start = self;
    struct cut_problem *problem = start->problem;
    struct error ignored = { 0 };
    const uint64_t busy = cut_stage_busy_ns(problem, stage, from, to, 0) + start->company[stage];
    if (start->share[stage] == UINT64_MAX || stage_price_most_bytes(problem, stage, from, to) <= start->share[stage])
        return busy;
    const struct stage_price *price = stage_price_of(problem, &problem->narrow, stage, from, to, &ignored);
    const uint64_t needs = price ? add_clamped(price->bytes, price->workspace_bytes) : UINT64_MAX;
    if (needs <= start->share[stage])
        return busy;
    const uint64_t lacks = needs - start->share[stage], lacking = (uint64_t)1 << 61;
    const uint64_t kept = multiply_clamped(problem->schedule.slots[stage].kept,
                                           cut_sum(problem, stage, SUM_SAVED, from, to))
                        / problem->schedule.order->splits;
    if (lacks > kept)
        return lacking + (lacks - kept < lacking ? lacks - kept : lacking);
    const unsigned __int128 again = (unsigned __int128)cut_sum(problem, stage, SUM_AGAIN, from, to) * lacks / kept;
    return cut_stage_busy_ns(problem, stage, from, to, (uint64_t)again) + start->company[stage];
}

// --- trying -----------------------------------------------------------------------------------

static bool judge(struct start *start, struct error *error)
{
    if (!cut_state_complete(start->problem, &start->trial, 0, start->problem->stages, NO_TIME, error))
        return false;
    if (!start->has_best || cut_state_is_better(&start->trial, start->best))
        cut_state_copy(start->best, &start->trial, start->problem);
    start->has_best = true;
    return true;
}

// *found: whether there is a path, which is the trial then.
static bool try_path(struct start *start, const struct path_prices *prices, unsigned rounds, struct search_part part,
                     bool *found, struct error *error)
{
    struct cut_problem *problem = start->problem;
    struct path path = { .cuts = start->trial.cuts };
    start->trial.cuts[problem->stages] = 0;
    if (!cut_path_find(problem, prices, rounds, &part, &path, error))
        return false;
    *found = cut_state_has_cuts(&start->trial, problem);
    return !*found || judge(start, error);
}

// A measure that greedy cuts keep small: the work of a stage, or its bytes with all, half or none of what it keeps.
enum measure { MEASURE_WORK, MEASURE_BYTES, MEASURE_HALF, MEASURE_STATES, MEASURES };

// The measure of a stage, never less for more layers.
static uint64_t measure_of(const struct start *start, enum measure measure, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct cut_problem *problem = start->problem;
    const uint64_t parts = measure == MEASURE_BYTES ? 2 : measure == MEASURE_HALF ? 1 : 0;
    if (measure == MEASURE_WORK)
        return cut_stage_busy_ns(problem, stage, from, to, 0);
    const uint64_t kept =
        multiply_clamped(problem->schedule.slots[stage].kept, cut_sum(problem, stage, SUM_SAVED, from, to));
    return add_clamped(stage_price_states(problem, stage, from, to), multiply_clamped(kept, parts) / 2);
}

// Every stage takes as many layers as stay within the limit. Returns whether there are enough stages for all layers.
static bool cut_within(struct start *start, enum measure measure, uint64_t limit)
{
    const struct cut_problem *problem = start->problem;
    const uint32_t full = problem->places->full, stages = problem->stages;
    uint32_t *cuts = start->trial.cuts;
    cuts[0] = 0;
    for (uint32_t s = 0; s + 1 < stages; s++) {
        uint32_t best = NO_PLACE;
        for (uint32_t to = cuts[s] + 1; to + (stages - 1 - s) <= full; to++) {
            if (best != NO_PLACE && measure_of(start, measure, s, cuts[s], to) > limit)
                break;
            best = cut_may_end(problem, s, to) ? to : best;
        }
        if (best == NO_PLACE)
            return false;
        cuts[s + 1] = best;
    }
    cuts[stages] = full;
    for (uint32_t s = 0; s < stages; s++)
        if (measure_of(start, measure, s, cuts[s], cuts[s + 1]) > limit)
            return false;
    return true;
}

// Finds the cuts whose largest stage is smallest, by halving the limit. They are available at once, whatever the
// deadline is.
static bool try_greedy(struct start *start, enum measure measure, struct error *error)
{
    if (!start->problem->places->is_chain)
        return true;
    unsigned high = 0;
    while (high < 62 && !cut_within(start, measure, (uint64_t)1 << high))
        high++;
    uint64_t limit = (uint64_t)1 << high;
    for (uint64_t step = limit / 4; step > limit / 4096; step /= 2)
        if (cut_within(start, measure, limit - step))
            limit -= step;
    return !cut_within(start, measure, limit) || judge(start, error);
}

static bool start_greedily(struct start *start, struct error *error)
{
    for (enum measure measure = 0; measure < MEASURES; measure++)
        if (!start->has_best || start->best->most_lacking > 0)
            if (!try_greedy(start, measure, error))
                return false;
    return true;
}

static void forget(struct start *start)
{
    const struct cut_problem *problem = start->problem;
    for (size_t i = 0; start->lessons && i < (size_t)problem->stages * problem->places->count; i++)
        free(start->lessons[i].at);
    free(start->lessons);
    start->lessons = NULL;
}

static bool start_alone(struct start *start, struct error *error)
{
    enum { MOST_LESSONS = 1 << 22 };
    const size_t rows = (size_t)start->problem->stages * start->problem->places->count;
    if (start->problem->places->is_chain && rows < MOST_LESSONS) {
        start->lessons = calloc(rows, sizeof start->lessons[0]);
        if (!start->lessons)
            return error_no_memory(error, "a search");
    }
    const struct path_prices prices = { start, cost_alone, busy_only, work_out_alone, link_sum };
    bool found = true;
    for (start->link_parts = 0; start->link_parts < LINK_PARTS && found; start->link_parts++) {
        // The first pass learns what stages take, which the others then know. If nothing fits so far, it gets half of
        // the budget. It then also gets what is often needed to find something, however small the budget is.
        const bool is_lacking = start->has_best && start->best->most_lacking > 0;
        const uint64_t parts = start->link_parts > 0 ? 1 : is_lacking ? 12 : 4;
        struct search_part part = context_part(start->problem->context, parts, 24);
        if (start->link_parts == 0 && is_lacking && !cut_problem_keeps_budget(start->problem))
            part.until_work = max_u64(part.until_work, part.work + LEAST_WORK);
        if (!try_path(start, &prices, WORK_OUT_ROUNDS, part, &found, error))
            return false;
    }
    static const uint64_t percents[] = { 100, 90, 112, 80, 125, 70, 140 };
    const bool is_drained = start->problem->schedule.pattern.is_known && start->problem->schedule.pattern.is_drained;
    start->link_parts = 0;
    for (size_t i = 0; is_drained && i < sizeof percents / sizeof percents[0]; i++) {
        start->forward_percent = percents[i];
        if (!try_path(start, &prices, WORK_OUT_ROUNDS, context_part(start->problem->context, 1, 48), &found, error))
            return false;
    }
    return true;
}

// --- several stages on a rank -------------------------------------------------------------------

static void share_evenly(struct start *start)
{
    const struct cut_problem *problem = start->problem;
    const struct placement *placement = problem->schedule.placement;
    for (uint32_t s = 0; s < problem->stages; s++) {
        const uint32_t rank = placement_rank(placement, s, 0);
        start->share[s] = cut_capacity(problem, s) / (placement->stage_at[rank + 1] - placement->stage_at[rank]);
    }
}

// The slab of a stage of the trial, regardless of what else is on its rank.
static uint64_t slab_of(struct start *start, uint32_t s, struct error *error)
{
    const struct cut_state *state = &start->trial;
    const struct stage_price *price =
        stage_price_of(start->problem, &start->problem->narrow, s, state->cuts[s], state->cuts[s + 1], error);
    if (!price)
        return 0;
    if (state->of[s].choice == NOT_RECOMPUTED)
        return add_clamped(price->bytes, price->workspace_bytes);
    const struct stage_choice *choice = &price->choices[state->of[s].choice];
    return add_clamped(choice->bytes, choice->workspace_bytes);
}

// Each stage gets what the others of its rank left over, but not less than half of an even share.
static bool share_anew(struct start *start, struct error *error)
{
    struct cut_problem *problem = start->problem;
    const struct placement *placement = problem->schedule.placement;
    const struct cut_state *state = &start->trial;
    memset(start->company, 0, problem->stages * sizeof start->company[0]);
    for (uint32_t r = 0; r < placement->ranks; r++) {
        const uint32_t from = placement->stage_at[r], to = placement->stage_at[r + 1];
        uint64_t slabs = 0, busy = 0;
        for (uint32_t i = from; i < to; i++) {
            const uint32_t s = placement->held[i];
            slabs = add_clamped(slabs, slab_of(start, s, error));
            busy += cut_busy_ns(problem, i, state->cuts[s], state->cuts[s + 1], state->of[s].recompute_ns);
        }
        for (uint32_t i = from; i < to; i++) {
            const uint32_t s = placement->held[i];
            const uint64_t capacity = cut_capacity(problem, s), others = slabs - slab_of(start, s, error);
            const uint64_t left = others < capacity ? capacity - others : 0, half = capacity / (to - from) / 2;
            start->share[s] = left > half ? left : half;
            const uint64_t stage_busy =
                cut_busy_ns(problem, i, state->cuts[s], state->cuts[s + 1], state->of[s].recompute_ns);
            start->company[s] = max_u64(start->company[s], busy - stage_busy);
        }
    }
    return error->kind == ERROR_NONE;
}

static bool start_in_company(struct start *start, struct error *error)
{
    struct cut_problem *problem = start->problem;
    const struct path_prices prices = { start, cost_in_company, busy_only, NULL, NULL };
    memset(start->share, 0xff, problem->stages * sizeof start->share[0]);
    for (int round = 0; round < ROUNDS && !context_is_ended(problem->context); round++) {
        bool found;
        if (!try_path(start, &prices, 1, context_part(problem->context, 1, 12), &found, error))
            return false;
        if (!found)
            return true;
        if (round == 0)
            share_evenly(start);
        else if (!share_anew(start, error))
            return false;
    }
    return true;
}

// --- the whole ----------------------------------------------------------------------------------

// Tries given cuts, by layers of an order, if they are places and no pin forbids them.
static bool try_given(struct start *start, const uint32_t *given, const uint32_t *order, struct error *error)
{
    struct cut_problem *problem = start->problem;
    if (!given)
        return true;
    for (uint32_t s = 0; s <= problem->stages; s++) {
        start->trial.cuts[s] = places_of_first(problem->places, order, given[s]);
        if (start->trial.cuts[s] == NO_PLACE || (s > 0 && !cut_may_end(problem, s - 1, start->trial.cuts[s])))
            return true;
    }
    if (!cut_problem_see_places(problem, error))
        return false;
    return judge(start, error);
}

static bool try_known(struct start *start, struct error *error)
{
    const struct search_known *known = &start->problem->request->known;
    return try_given(start, known->stages == start->problem->stages ? known->cuts : NULL, known->order, error);
}

// If a known plan fits only when ways to recompute are searched for longer, everything begins with it. Any other
// known plan comes last, so that it does not lead the search elsewhere than if nothing were known.
static bool see_known(struct start *start, struct error *error)
{
    struct cut_problem *problem = start->problem;
    if (!try_known(start, error))
        return false;
    if (start->has_best && start->best->most_lacking > 0) {
        problem->insists = true;
        if (!try_known(start, error))
            return false;
        if (start->best->most_lacking == 0)
            return true;
        problem->insists = false;
    }
    start->has_best = false;
    return true;
}

bool cut_start(struct cut_problem *problem, struct cut_state *best, struct error *error)
{
    struct start start = { .problem = problem, .best = best };
    start.share = calloc(problem->stages, sizeof start.share[0]);
    start.company = calloc(problem->stages, sizeof start.company[0]);
    bool good = (start.share && start.company) || error_no_memory(error, "a search");
    good = good && cut_state_create(&start.trial, problem, error)
        && see_known(&start, error) && try_given(&start, problem->request->layout.begin, NULL, error)
        && start_greedily(&start, error);
    if (good && problem->schedule.is_alone)
        good = start_alone(&start, error);
    // Activations that go to the host take time that no lower bound knows.
    if (good && (!problem->schedule.is_alone || best->most_lacking > 0
                 || problem->request->storage.activations_on_host))
        good = start_in_company(&start, error);
    good = good && (problem->insists || try_known(&start, error));
    forget(&start);
    free(start.share);
    free(start.company);
    cut_state_clear(&start.trial);
    return good;
}
