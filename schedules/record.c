#include "schedules/record.h"

#include <stdlib.h>

#include "schedules/rank_heap.h"

// While the run goes on.
struct run {
    struct record *record;
    uint64_t *link_free_ns;
    struct rank_heap heap;   // by time: ranks that can go on, by when what they do next ends
};

// When an action would end that comes now.
IN_LINE uint64_t end_of(const struct run *run, const struct visit *visit, uint32_t price)
{
    const struct record *record = run->record;
    uint64_t start = record->free_ns[visit->rank];
    if (visit->needs) {
        const uint64_t arrived = record->arrived_ns[visit->action.kind != ACTION_F][visit->unit];
        start = arrived > start ? arrived : start;
    }
    return start + record->tariff.prices[price];
}

IN_LINE void write_down(struct run *run, const struct visit *visit)
{
    struct record *record = run->record;
    uint64_t *free_ns = &record->free_ns[visit->rank];
    if (!is_message(visit->action)) {
        const uint32_t price = price_of(&record->walk.board, visit->action);
        record->tariff.uses[price]++;
        *free_ns = end_of(run, visit, price);
        *record->past_ns[visit->rank]++ = *free_ns;
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

// Notes when what the rank does next ends, if it can go on.
static bool enter(struct run *run, uint32_t rank)
{
    struct record *record = run->record;
    struct visit visit;
    const enum look look = walk_look(&record->walk, rank, &visit);
    if (look == LOOK_READY)
        rank_heap_push(&run->heap, rank,
                       is_message(visit.action) ? record->free_ns[rank]
                                                : end_of(run, &visit, price_of(&record->walk.board, visit.action)));
    return look != LOOK_REFUSED;
}

static void run_by_time(struct run *run)
{
    struct walk *walk = &run->record->walk;
    bool good = true;
    for (uint32_t rank = 0; good && rank < walk->schedule->ranks; rank++)
        good = enter(run, rank);
    while (good && run->heap.count > 0) {
        const uint32_t rank = rank_heap_pop(&run->heap);
        struct visit visit;
        good = walk_look(walk, rank, &visit) == LOOK_READY && walk_place(walk, &visit);
        if (!good)
            return;
        write_down(run, &visit);
        good = (visit.woken == NO_RANK || enter(run, visit.woken)) && enter(run, rank);
    }
}

// --- all of it ----------------------------------------------------------------------

static bool record_allocate(struct record *record, struct error *error)
{
    const struct schedule *schedule = record->schedule;
    const size_t units = (size_t)schedule->stages * schedule->micro_batches;
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

static bool record_run(struct record *record, struct error *error)
{
    const uint32_t ranks = record->schedule->ranks;
    struct run run = { .record = record };
    run.link_free_ns = calloc(record->tariff.link_count + (size_t)1, sizeof *run.link_free_ns);
    run.heap.ranks = calloc(ranks, sizeof *run.heap.ranks);
    run.heap.moments_ns = calloc(ranks, sizeof *run.heap.moments_ns);
    const bool good = run.link_free_ns && run.heap.ranks && run.heap.moments_ns;
    if (good && record->tariff.shared)
        run_by_time(&run);
    else if (good)
        run_in_order(&run);
    free(run.link_free_ns);
    free(run.heap.ranks);
    free(run.heap.moments_ns);
    return good ? walk_end(&record->walk, error) : error_no_memory(error, "a simulated run");
}

bool record_create(struct record *record, const struct schedule *schedule, const struct cost_row *costs,
                   const struct network *network, struct error *error)
{
    *record = (struct record){ .schedule = schedule, .costs = costs };
    bool good = walk_create(&record->walk, schedule, error)
             && tariff_create(&record->tariff, schedule, network, error) && record_allocate(record, error);
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
    free(record->ends_ns);
    free(record->first);
    free(record->past_ns);
    free(record->free_ns);
    free(record->arrived_ns[0]);
    free(record->arrived_ns[1]);
    *record = (struct record){ 0 };
}

uint64_t record_recompute_ns(const struct record *record, struct action action)
{
    const enum price price = (enum price)(price_of(&record->walk.board, action) % PRICES);
    const bool recomputes = price == PRICE_R || price == PRICE_B_RECOMPUTING || price == PRICE_I_RECOMPUTING;
    return recomputes ? record->costs[action.stage].recompute_ns : 0;
}
