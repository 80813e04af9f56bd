// The part of the check that needs costs: whether all bytes fit at every moment.
#include <stdlib.h>

#include "common/number.h"
#include "schedules/checking.h"
#include "schedules/simulate.h"

// What a rank holds, compared with its limit.
struct storage {
    bool is_over;
    uint64_t over_ns, over_bytes;  // when it first exceeds the limit, and what it holds then
    uint64_t most_ns, most_bytes;
    struct action action;  // what it does when it first exceeds the limit, or does next; at its end, what it did last
    bool is_found;
};

static void follow(const struct timeline *timeline, const uint64_t *limit_bytes, struct storage *holdings)
{
    for (size_t i = 0; i < timeline->level_count; i++) {
        const struct level *level = &timeline->levels[i];
        struct storage *storage = &holdings[level->rank];
        if (level->bytes > storage->most_bytes) {
            storage->most_ns = level->time_ns;
            storage->most_bytes = level->bytes;
        }
        if (level->bytes > limit_bytes[level->rank] && !storage->is_over) {
            storage->is_over = true;
            storage->over_ns = level->time_ns;
            storage->over_bytes = level->bytes;
        }
    }
}

static void find_actions(const struct timeline *timeline, struct storage *holdings)
{
    for (size_t i = 0; i < timeline->span_count; i++) {
        const struct span *span = &timeline->spans[i];
        struct storage *storage = &holdings[span->rank];
        if (!storage->is_over || storage->is_found)
            continue;
        storage->action = span->action;
        storage->is_found = span->end_ns > storage->over_ns;
    }
}

static size_t position_of(const struct schedule *schedule, uint32_t rank, struct action action)
{
    const struct action_list *list = &schedule->lists[rank];
    for (size_t i = 0; i < list->count; i++)
        if (action_is_same(list->at[i], action))
            return i;
    return SIZE_MAX;
}

static void add_excess(struct check *check, const struct schedule *lowered, uint32_t rank,
                       const struct storage *storage)
{
    const uint64_t limit = check->request->limit_bytes[rank];
    const struct action action = storage->action;
    char now[NUMBER_SIZE], time[NUMBER_SIZE], excess[NUMBER_SIZE], most[NUMBER_SIZE], most_time[NUMBER_SIZE];
    bytes_format(storage->over_bytes, now);
    bytes_format(storage->over_bytes - limit, excess);
    time_format(storage->over_ns, time);
    if (storage->most_bytes > storage->over_bytes)
        check_add_fault(check, rank, position_of(lowered, rank, action), action,
                        "at %s the rank holds %s, %s too much, and at %s %s", time, now, excess,
                        time_format(storage->most_ns, most_time), bytes_format(storage->most_bytes, most));
    else
        check_add_fault(check, rank, position_of(lowered, rank, action), action, "at %s the rank holds %s, %s too much",
                        time, now, excess);
}

// Finds the rank that has least left of its limit, or exceeds it most.
static void find_tightest(const uint64_t *limit_bytes, const struct storage *holdings, uint32_t ranks,
                          struct check_memory *memory)
{
    *memory = (struct check_memory){ .is_known = true, .peak_bytes = holdings[0].most_bytes,
                                     .limit_bytes = limit_bytes[0] };
    for (uint32_t rank = 1; rank < ranks; rank++) {
        const int64_t left = (int64_t)limit_bytes[rank] - (int64_t)holdings[rank].most_bytes;
        if (left < (int64_t)memory->limit_bytes - (int64_t)memory->peak_bytes)
            *memory = (struct check_memory){ true, rank, holdings[rank].most_bytes, limit_bytes[rank] };
    }
}

bool check_memory(struct check *check, const struct schedule *lowered, struct error *error)
{
    // In a compute order, received data occupies memory from its arrival; with a RECV, from when that is posted.
    const struct schedule *judged = check->request->receives == RECEIVES_EARLY ? check->schedule : lowered;
    const uint64_t *limits = check->request->limit_bytes;
    struct simulation simulation = { 0 };
    struct timeline timeline = { .wants_levels = true };
    struct storage *holdings = calloc(judged->ranks, sizeof *holdings);
    const bool good = (holdings || error_no_memory(error, "the bytes of a schedule"))
                   && schedule_simulate(judged, NULL, check->request->network, &simulation, &timeline, error);
    if (good) {
        follow(&timeline, limits, holdings);
        find_actions(&timeline, holdings);
        find_tightest(limits, holdings, judged->ranks, &check->result->memory);
    }
    for (uint32_t rank = 0; good && rank < judged->ranks; rank++) {
        if (holdings[rank].is_over)
            add_excess(check, lowered, rank, &holdings[rank]);
    }
    free(holdings);
    simulation_clear(&simulation);
    timeline_clear(&timeline);
    return good;
}
