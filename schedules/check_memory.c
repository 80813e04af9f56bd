// The part of the check that needs costs: whether all bytes fit at every moment.
#include <stdlib.h>

#include "common/number.h"
#include "schedules/checking.h"
#include "schedules/simulate.h"

// What a rank holds, against its limit.
struct holding {
    bool is_over;
    uint64_t over_ns, over_bytes;  // when it first holds too much, and how much that is
    uint64_t most_ns, most_bytes;
    struct action action;  // what it does when it first holds too much, or does next; at its end, what it did last
    bool is_found;
};

static void follow(const struct timeline *timeline, const uint64_t *limit_bytes, struct holding *holdings)
{
    for (size_t i = 0; i < timeline->level_count; i++) {
        const struct level *level = &timeline->levels[i];
        struct holding *holding = &holdings[level->rank];
        if (level->bytes > holding->most_bytes) {
            holding->most_ns = level->time_ns;
            holding->most_bytes = level->bytes;
        }
        if (level->bytes > limit_bytes[level->rank] && !holding->is_over) {
            holding->is_over = true;
            holding->over_ns = level->time_ns;
            holding->over_bytes = level->bytes;
        }
    }
}

static void find_actions(const struct timeline *timeline, struct holding *holdings)
{
    for (size_t i = 0; i < timeline->span_count; i++) {
        const struct span *span = &timeline->spans[i];
        struct holding *holding = &holdings[span->rank];
        if (!holding->is_over || holding->is_found)
            continue;
        holding->action = span->action;
        holding->is_found = span->end_ns > holding->over_ns;
    }
}

static size_t position_of(const struct schedule *schedule, uint32_t rank, struct action action)
{
    const struct action_list *list = &schedule->lists[rank];
    for (size_t i = 0; i < list->count; i++) {
        const struct action at = list->at[i];
        if (at.stage == action.stage && at.kind == action.kind && at.micro_batch == action.micro_batch
            && at.split == action.split)
            return i;
    }
    return SIZE_MAX;
}

static void add_excess(struct check *check, const struct schedule *lowered, uint32_t rank,
                       const struct holding *holding)
{
    const uint64_t limit = check->request->limit_bytes[rank];
    const struct action action = holding->action;
    char now[NUMBER_SIZE], time[NUMBER_SIZE], excess[NUMBER_SIZE], most[NUMBER_SIZE], most_time[NUMBER_SIZE];
    bytes_format(holding->over_bytes, now);
    bytes_format(holding->over_bytes - limit, excess);
    time_format(holding->over_ns, time);
    if (holding->most_bytes > holding->over_bytes)
        check_add_fault(check, rank, position_of(lowered, rank, action), action,
                        "at %s the rank holds %s, %s too much, and at %s %s", time, now, excess,
                        time_format(holding->most_ns, most_time), bytes_format(holding->most_bytes, most));
    else
        check_add_fault(check, rank, position_of(lowered, rank, action), action, "at %s the rank holds %s, %s too much",
                        time, now, excess);
}

// The rank that has least left, or lacks most.
static void find_tightest(const uint64_t *limit_bytes, const struct holding *holdings, uint32_t ranks,
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
    // What a compute order receives has a place from when it arrives; a RECV has one from when it is posted.
    const struct schedule *judged = check->request->receives == RECEIVES_EARLY ? check->schedule : lowered;
    const uint64_t *limits = check->request->limit_bytes;
    struct simulation simulation = { 0 };
    struct timeline timeline = { .wants_levels = true };
    struct holding *holdings = calloc(judged->ranks, sizeof *holdings);
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
