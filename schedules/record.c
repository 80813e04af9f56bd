#include "schedules/record.h"

#include <stdlib.h>

#include "schedules/rank_heap.h"

// While the run goes on.
struct run {
    struct record *record;
    uint64_t *link_free_ns;
    uint64_t *met_ns;        // per stage: when all copies stood at its last REDUCE
    struct rank_heap heap;   // by time: ranks that can go on, by when what they do next ends
};

IN_LINE uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

IN_LINE uint64_t arrival_for(const struct run *run, const struct visit *visit)
{
    return visit->needs ? run->record->arrived_ns[visit->action.kind != ACTION_F][visit->unit] : 0;
}

// --- what is met seldom ---------------------------------------------------------------

// When a group would end whose first action the visit is, and all of whose messages have been given.
static uint64_t end_of_group(const struct run *run, const struct visit *first)
{
    const struct record *record = run->record;
    const struct action *group = first->at;
    const size_t size = group_size(group, record->walk.cursors[first->rank].end);
    uint64_t start = record->free_ns[first->rank];
    for (size_t i = 0; i < size; i++) {
        struct visit visit = { .rank = first->rank, .action = group[i] };
        walk_sit(&record->walk, &visit);
        walk_is_served(&record->walk, &visit);
        start = later(start, arrival_for(run, &visit));
    }
    return start + group_ns(&record->tariff, &record->walk.board, group, size);
}

// When a REDUCE ends: all copies stand at theirs, or have gone on with another that stood there.
static uint64_t end_of_meeting(struct run *run, const struct visit *visit)
{
    const struct record *record = run->record;
    uint64_t *met_ns = &run->met_ns[visit->action.stage];
    if (visit->opens)
        *met_ns = 0;
    for (uint32_t copy = walk_first_copy(&record->walk, visit); copy < walk_end_copy(&record->walk, visit); copy++)
        *met_ns = later(*met_ns, record->free_ns[record->walk.board.copies.ranks[copy]]);
    return *met_ns + record->tariff.prices[price_of(&record->walk.board, visit->action)];
}

// --- every action ----------------------------------------------------------------------

// When an action would end that comes now.
IN_LINE uint64_t end_of(struct run *run, const struct visit *visit, uint32_t price)
{
    const struct record *record = run->record;
    if (visit->action.joined)
        return end_of_group(run, visit);
    if (visit->action.kind == ACTION_REDUCE)
        return end_of_meeting(run, visit);
    return later(record->free_ns[visit->rank], arrival_for(run, visit)) + record->tariff.prices[price];
}

IN_LINE void write_down(struct run *run, const struct visit *visit)
{
    struct record *record = run->record;
    uint64_t *free_ns = &record->free_ns[visit->rank];
    if (takes_time(visit->action)) {
        const uint32_t price = price_of(&record->walk.board, visit->action);
        record->tariff.uses[price]++;
        if (visit->action.kind == ACTION_F && (visit->action.joined || visit->follows))
            record->tariff.uses[price - PRICE_F + PRICE_OVERLAPPED]++;
        if (!visit->follows) {
            *free_ns = end_of(run, visit, price);
            *record->past_ns[visit->rank]++ = *free_ns;
        }
    }
    if (visit->gives) {
        struct channel *channel = &record->tariff.channels[visit->channel];
        channel->used++;
        record->arrived_ns[visit->back][visit->user] = channel_send(channel, run->link_free_ns, *free_ns);
    }
}

// --- in any order: every link has one sender ------------------------------------

static void run_in_order(struct run *run)
{
    for (struct visit visit; walk_next(&run->record->walk, &visit);)
        write_down(run, &visit);
}

// --- by time: who is first on a link is who is ready first ------------------------

// Notes when what the rank does next ends, if it can go on; and of those it lets go on.
static bool enter(struct run *run, uint32_t rank)
{
    struct record *record = run->record;
    struct visit visit;
    const enum look look = walk_look(&record->walk, rank, &visit);
    if (look != LOOK_READY)
        return look != LOOK_REFUSED;
    const uint32_t price = price_of(&record->walk.board, visit.action);
    rank_heap_push(&run->heap, rank, takes_time(visit.action) ? end_of(run, &visit, price) : record->free_ns[rank]);
    bool good = true;
    for (uint32_t at = walk_first_copy(&record->walk, &visit); good && at < walk_end_copy(&record->walk, &visit); at++) {
        const uint32_t other = record->walk.board.copies.ranks[at];
        good = other == rank || enter(run, other);
    }
    return good;
}

// What the rank stands at, all of it if it is a group.
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
    } while (visit.action.joined);
    return enter(run, rank);
}

static void run_by_time(struct run *run)
{
    bool good = true;
    for (uint32_t rank = 0; good && rank < run->record->schedule->ranks; rank++)
        good = enter(run, rank);
    while (good && run->heap.count > 0)
        good = go_on(run, rank_heap_pop(&run->heap));
}

// --- all of it ----------------------------------------------------------------------

static bool record_allocate(struct record *record, struct error *error)
{
    const struct schedule *schedule = record->schedule;
    const size_t units = unit_count(schedule);
    size_t actions = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        actions += schedule->lists[rank].count;
    record->ends_ns = malloc((actions + 1) * sizeof *record->ends_ns);
    record->first = calloc(schedule->ranks, sizeof *record->first);
    record->past_ns = calloc(schedule->ranks, sizeof *record->past_ns);
    record->free_ns = calloc(schedule->ranks, sizeof *record->free_ns);
    record->arrived_ns[0] = malloc(units * sizeof *record->arrived_ns[0]);
    record->arrived_ns[1] = malloc(units * sizeof *record->arrived_ns[1]);
    if (!record->ends_ns || !record->first || !record->past_ns || !record->free_ns || !record->arrived_ns[0]
        || !record->arrived_ns[1])
        return error_no_memory(error, "the record of a simulation");
    for (uint32_t rank = schedule->ranks; rank-- > 0;) {
        actions -= schedule->lists[rank].count;
        record->first[rank] = actions;
        record->past_ns[rank] = &record->ends_ns[actions];
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
    const uint32_t ranks = record->schedule->ranks;
    struct run run = { .record = record };
    run.link_free_ns = calloc(record->tariff.link_count + (size_t)1, sizeof *run.link_free_ns);
    run.met_ns = calloc(record->schedule->stages, sizeof *run.met_ns);
    run.heap.ranks = calloc(ranks, sizeof *run.heap.ranks);
    run.heap.moments_ns = calloc(ranks, sizeof *run.heap.moments_ns);
    const bool good = run.link_free_ns && run.met_ns && run.heap.ranks && run.heap.moments_ns;
    if (good && record->tariff.shared)
        run_by_time(&run);
    else if (good)
        run_in_order(&run);
    free(run.link_free_ns);
    free(run.met_ns);
    free(run.heap.ranks);
    free(run.heap.moments_ns);
    return good ? walk_end(&record->walk, error) : error_no_memory(error, "a simulated run");
}

bool record_create(struct record *record, const struct schedule *schedule, const struct cost_row *costs,
                   const struct network *network, struct error *error)
{
    *record = (struct record){ .schedule = schedule, .costs = costs,
                                .forward_only = schedule_is_forward_only(schedule) };
    bool good = walk_create(&record->walk, schedule, error)
             && tariff_create(&record->tariff, schedule, network, error) && record_allocate(record, error)
             && share_costs(record, error);
    if (good) {
        tariff_fill(&record->tariff, costs);
        good = record_run(record, error);
    }
    if (good && !tariff_sum_is_possible(&record->tariff))
        good = error_set(error, "the times of the schedule add up to more than 2^63 ns");
    for (uint32_t rank = 0; good && rank < schedule->ranks; rank++)
        record->iteration_ns =
            record->free_ns[rank] > record->iteration_ns ? record->free_ns[rank] : record->iteration_ns;
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
    free(record->first);
    free(record->past_ns);
    free(record->free_ns);
    free(record->arrived_ns[0]);
    free(record->arrived_ns[1]);
    *record = (struct record){ 0 };
}
