#include "schedules/record.h"

#include <stdlib.h>

#include "common/large.h"
#include "common/number.h"
#include "schedules/rank_heap.h"

// The state of the run while it is simulated.
struct run {
    struct record *record;
    uint64_t *link_free_ns;
    uint64_t *met_ns;        // per stage: when all copies had reached its last REDUCE
    struct rank_heap heap;   // ranks that can continue, by the time at which their next action ends
};

struct stretch {
    uint64_t start_ns, end_ns;
};

// --- rare cases ---------------------------------------------------------------

static uint64_t end_of_moves(const struct record *record, struct action action)
{
    const struct awaited_moves awaited = record_awaits(record, action);
    return max_u64(awaited.evict_ns, awaited.prefetch_ns);
}

// The times of a group all of whose messages have been given.
static struct stretch stretch_of_group(const struct run *run, uint32_t rank, const struct action *group)
{
    const struct record *record = run->record;
    const size_t size = group_size(group, record->walk.cursors[rank].end);
    uint64_t start = record->ranks[rank].free_ns;
    for (size_t i = 0; i < size; i++) {
        if (needs_message(record->schedule, group[i]))
            start = max_u64(start, record->arrived_ns[group[i].kind != ACTION_F][unit_of(record->schedule, group[i])]);
        start = max_u64(start, end_of_moves(record, group[i]));
    }
    return (struct stretch){ start, start + group_ns(&record->tariff, &record->walk.board, group, size) };
}

// When a REDUCE starts. All copies have reached it; unless this one `opens` it, the time was computed for the one
// that did.
static uint64_t start_of_reduction(struct run *run, uint32_t stage, bool opens)
{
    const struct record *record = run->record;
    const struct copies *copies = &record->walk.board.copies;
    uint64_t *met_ns = &run->met_ns[stage];
    if (opens)
        *met_ns = 0;
    for (uint32_t copy = copies->first[stage]; opens && copy < copies->first[stage + 1]; copy++)
        *met_ns = max_u64(*met_ns, record->ranks[copies->ranks[copy]].free_ns);
    return *met_ns;
}

// --- every action ----------------------------------------------------------------------

// When an action would start and end if it came now; for a group, when the whole group would.
IN_LINE struct stretch stretch_of(struct run *run, const struct visit *visit, uint32_t price)
{
    const struct record *record = run->record;
    const uint64_t took = record->tariff.prices[price];
    if (visit->at->joined)
        return stretch_of_group(run, visit->rank, visit->at);
    uint64_t start = record->ranks[visit->rank].free_ns;
    if (visit_needs(visit))
        start = max_u64(start, record->arrived_ns[visit->at->kind != ACTION_F][visit->unit]);
    if (record->places.waits)
        start = max_u64(start, end_of_moves(record, *visit->at));
    if (visit->at->kind == ACTION_REDUCE)
        start = start_of_reduction(run, visit->at->stage, visit->opens);
    return (struct stretch){ start, start + took };
}

IN_LINE uint32_t price_of_visit(const struct record *record, const struct visit *visit)
{
    const unsigned did = visit->seat ? record->walk.board.units[visit->unit] : 0;
    return price_after(record->schedule, *visit->at, did);
}

// A forward in a group comes first, whichever is named first. Without backwards, nothing is kept.
IN_LINE void count_in_flight(struct rank_record *rank, const struct visit *visit, bool forward_only)
{
    const bool forward = visit->at->joined || (visit->at->kind == ACTION_F && !visit->follows);
    if (forward && ++rank->in_flight > rank->result.peak_in_flight)
        rank->result.peak_in_flight = rank->in_flight;
    if (!visit->at->joined && (forward_only || visit->follows || is_backward(*visit->at)))
        rank->in_flight--;
}

IN_LINE void count_time(struct rank_record *rank, const struct visit *visit, struct stretch stretch)
{
    if (rank->past_ns == rank->first_ns)
        rank->result.first_ns = stretch.start_ns;
    if (is_compute(*visit->at))
        rank->result.busy_ns += stretch.end_ns - stretch.start_ns;
    rank->free_ns = stretch.end_ns;
    *rank->past_ns++ = stretch.end_ns;
}

// A move begins when the rank reaches it and its earlier moves have ended.
static void move(struct run *run, const struct visit *visit)
{
    struct record *record = run->record;
    struct channel *channel = &record->tariff.channels[move_channel(&record->tariff, record->schedule, *visit->at)];
    channel->used++;
    record->moved_ns[visit->at->kind == ACTION_PREFETCH][visit->unit] =
        channel_send(channel, run->link_free_ns, record->ranks[visit->rank].free_ns);
}

IN_LINE void write_down(struct run *run, const struct visit *visit)
{
    struct record *record = run->record;
    struct rank_record *rank = &record->ranks[visit->rank];
    if (takes_time(*visit->at)) {
        const uint32_t price = price_of_visit(record, visit);
        record->tariff.uses[price]++;
        if (visit->at->kind == ACTION_F && (visit->at->joined || visit->follows))
            record->tariff.uses[price - PRICE_F + PRICE_OVERLAPPED]++;
        if (!visit->follows)
            count_time(rank, visit, stretch_of(run, visit, price));
        if (is_compute(*visit->at))
            count_in_flight(rank, visit, record->forward_only);
        if (visit->at->kind != ACTION_F)
            rank->result.recompute_ns += recomputed_ns(&record->tariff, price);
    }
    if (visit->gives) {
        struct channel *channel = &record->tariff.channels[visit->channel];
        channel->used++;
        record->arrived_ns[visit->back][visit->user] = channel_send(channel, run->link_free_ns, rank->free_ns);
    }
    if (is_move(*visit->at))
        move(run, visit);
}

// --- in any order: every link has one sender ------------------------------------

IN_LINE void run_in_order_as(struct run *run, const bool simple)
{
    for (struct visit visit; walk_next_as(&run->record->walk, &visit, simple);)
        write_down(run, &visit);
}

static void run_in_order(struct run *run)
{
    if (walk_is_simple(&run->record->walk))
        run_in_order_as(run, true);
    else
        run_in_order_as(run, false);
}

// --- by time: the message that is ready first is first on its link ------------------------

// Records when the rank's next action ends if it can continue, and the same for the ranks that it wakes.
static bool enter(struct run *run, uint32_t rank)
{
    struct record *record = run->record;
    struct visit visit;
    const enum look look = walk_look(&record->walk, rank, &visit);
    if (look != LOOK_READY)
        return look != LOOK_REFUSED;
    uint64_t ends_ns = record->ranks[rank].free_ns;
    if (takes_time(*visit.at))
        ends_ns = stretch_of(run, &visit, price_of_visit(record, &visit)).end_ns;
    rank_heap_push(&run->heap, rank, ends_ns);
    bool good = true;
    for (uint32_t copy = walk_first_copy(&record->walk, &visit); good && copy < walk_end_copy(&record->walk, &visit);
         copy++) {
        const uint32_t other = record->walk.board.copies.ranks[copy];
        good = other == rank || enter(run, other);
    }
    return good;
}

// Does the rank's next action, or the whole group.
static bool go_on(struct run *run, uint32_t rank)
{
    struct walk *walk = &run->record->walk;
    struct visit visit;
    do {
        if (walk_look(walk, rank, &visit) != LOOK_READY || !walk_place(walk, &visit))
            return false;
        write_down(run, &visit);
        if (visit.woken != NO_RANK && !enter(run, visit.woken))
            return false;
    } while (visit.at->joined);
    return enter(run, rank);
}

static void run_by_time(struct run *run)
{
    bool good = true;
    for (uint32_t rank = 0; good && rank < run->record->schedule->ranks; rank++)
        good = enter(run, rank);
    while (good && run->heap.count > 0)
        good = go_on(run, rank_heap_pop(&run->heap).rank);
}

// --- all of it ----------------------------------------------------------------------

static bool record_allocate(struct record *record, struct error *error)
{
    const struct schedule *schedule = record->schedule;
    const size_t units = unit_count(schedule);
    size_t actions = schedule_action_count(schedule);
    record->ends_ns = malloc((actions + 1) * sizeof *record->ends_ns);
    record->ranks = calloc(schedule->ranks, sizeof *record->ranks);
    record->arrived_ns[0] = large_malloc(units, sizeof *record->arrived_ns[0]);
    record->arrived_ns[1] = large_malloc(units, sizeof *record->arrived_ns[1]);
    for (int back = 0; schedule->moves && back < 2; back++)
        record->moved_ns[back] = large_malloc(units, sizeof *record->moved_ns[back]);
    const bool has_moves = !schedule->moves || (record->moved_ns[0] && record->moved_ns[1]);
    if (!record->ends_ns || !record->ranks || !record->arrived_ns[0] || !record->arrived_ns[1] || !has_moves)
        return error_no_memory(error, "the record of a simulation");
    for (uint32_t rank = schedule->ranks; rank-- > 0;) {
        actions -= schedule->lists[rank].count;
        record->ranks[rank].first_ns = record->ranks[rank].past_ns = &record->ends_ns[actions];
    }
    return true;
}

static bool share_costs(struct record *record, struct error *error)
{
    const uint32_t stages = record->schedule->stages, splits = record->schedule->splits;
    if (splits == 1)
        return true;
    record->parts = calloc((size_t)stages * splits, sizeof *record->parts);
    if (!record->parts)
        return error_no_memory(error, "the costs of a schedule");
    for (uint32_t i = 0; i < stages * splits; i++)
        record->parts[i] = cost_row_part(&record->costs[i / splits], i % splits, splits);
    return true;
}

static bool record_run(struct record *record, struct error *error)
{
    struct run run = { .record = record };
    run.link_free_ns = calloc(tariff_links(&record->tariff) + 1, sizeof *run.link_free_ns);
    run.met_ns = calloc(record->schedule->stages, sizeof *run.met_ns);
    run.heap.at = calloc(record->schedule->ranks, sizeof *run.heap.at);
    const bool good = run.link_free_ns && run.met_ns && run.heap.at;
    if (good && record->tariff.shared)
        run_by_time(&run);
    else if (good)
        run_in_order(&run);
    free(run.link_free_ns);
    free(run.met_ns);
    free(run.heap.at);
    return good ? walk_end(&record->walk, error) : error_no_memory(error, "a simulated run");
}

bool record_create(struct record *record, const struct schedule *schedule, const struct cost_row *costs,
                   const struct network *network, struct error *error)
{
    *record = (struct record){ .schedule = schedule, .costs = costs,
                                .forward_only = schedule_is_forward_only(schedule) };
    bool good = host_places_create(&record->places, schedule, error) && walk_create(&record->walk, schedule, error)
             && tariff_create(&record->tariff, schedule, network, error) && record_allocate(record, error)
             && share_costs(record, error);
    if (good) {
        tariff_fill(&record->tariff, costs);
        good = record_run(record, error);
    }
    if (good && !tariff_sum_is_possible(&record->tariff))
        good = error_set(error, "the times of the schedule add up to more than 2^63 ns");
    for (uint32_t rank = 0; good && rank < schedule->ranks; rank++) {
        record->ranks[rank].result.last_ns = record->ranks[rank].free_ns;
        record->iteration_ns = max_u64(record->iteration_ns, record->ranks[rank].free_ns);
    }
    if (!good)
        record_clear(record);
    return good;
}

void record_clear(struct record *record)
{
    walk_clear(&record->walk);
    tariff_clear(&record->tariff);
    free(record->parts);
    free(record->ends_ns);
    free(record->ranks);
    free(record->arrived_ns[0]);
    free(record->arrived_ns[1]);
    free(record->moved_ns[0]);
    free(record->moved_ns[1]);
    host_places_clear(&record->places);
    *record = (struct record){ 0 };
}
