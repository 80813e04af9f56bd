// The record of one simulated run: when each action ended, and when each message arrived. Results of the run (spans,
// bytes, the critical path) are derived from it, rank by rank. Other times follow: an action began its price before
// its end, and a message entered its link its transfer time before it arrived.
//
//     list     0F0  0SEND_F0  0F1  0SEND_F1  0RECV_B0  0B0
//     ends     18             36                       95     SENDs, RECVs, moves and VALIDATE take no time
//
// Actions that run together have one end.
#ifndef SCHEDULES_RECORD_H
#define SCHEDULES_RECORD_H

#include "schedules/host_places.h"
#include "schedules/simulate.h"
#include "schedules/tariff.h"
#include "schedules/versions.h"
#include "schedules/walk.h"

// What is recorded of a rank.
struct rank_record {
    uint64_t *first_ns;  // where the rank's part of `ends_ns` begins
    uint64_t *past_ns;   // where that part ends
    uint64_t free_ns;    // when its last action ended
    uint32_t in_flight;
    struct rank_result result;  // everything except the bytes
};

struct record {
    const struct schedule *schedule;
    const struct cost_row *costs;  // per stage
    struct cost_row *parts;        // the same per stage and split, if sequences are split; or NULL
    struct walk walk;      // its board says what has been done, and which messages have been given
    struct tariff tariff;
    uint64_t *ends_ns;     // of all actions that take time, in the order of the lists
    struct rank_record *ranks;
    uint64_t *arrived_ns[2];  // forward and back, per unit that uses it: when the message arrived, if it was given
    struct host_places places;
    uint64_t *moved_ns[2];    // per unit: when its EVICT and its PREFETCH ended, if it has them; NULL: no moves
    uint64_t iteration_ns;
    bool forward_only;     // nothing is kept for a backward
};

// Simulates a run and records it. Needs costs. Cleared by record_clear().
bool record_create(struct record *record, const struct schedule *schedule, const struct cost_row *costs,
                   const struct network *network, struct error *error);
void record_clear(struct record *record);

// The costs of an action that has a unit.
static inline const struct cost_row *record_row(const struct record *record, uint32_t stage, uint32_t split)
{
    return record->parts ? &record->parts[stage * record->schedule->splits + split] : &record->costs[stage];
}

// Actions that take no time happen when the action before them has ended.
static inline bool takes_time(struct action action)
{
    enum { TIMELESS = 1 << ACTION_SEND_F | 1 << ACTION_RECV_F | 1 << ACTION_SEND_B | 1 << ACTION_RECV_B
                    | 1 << ACTION_EVICT | 1 << ACTION_PREFETCH | 1 << ACTION_VALIDATE };
    return !((unsigned)TIMELESS >> action.kind & 1);
}

// The time within an action that recomputes, in ns.
static inline uint64_t record_recompute_ns(const struct record *record, struct action action)
{
    return recomputed_ns(&record->tariff, price_of(&record->walk.board, action));
}

// Sets `path` to the times that the critical path consists of: the longest chain of actions and messages.
bool record_critical_path(const struct record *record, struct critical_path *path, struct error *error);

// --- iterating over a rank's list, group by group ------------------------------------
//
//     struct stroll stroll = stroll_begin(record, rank);
//     while (stroll_next(&stroll)) ...
//
// A single action is a group of one.

struct stroll {
    const struct record *record;
    uint32_t rank;
    const struct action *at, *end;  // the next group
    const uint64_t *next_end_ns;    // the end of the next group that takes time
    const struct action *group;
    size_t size;
    bool takes_time;
    uint64_t start_ns, end_ns;
};

static inline struct stroll stroll_begin(const struct record *record, uint32_t rank)
{
    const struct action_list *list = &record->schedule->lists[rank];
    return (struct stroll){ .record = record, .rank = rank, .at = list->at, .end = list_end(list),
                            .next_end_ns = record->ranks[rank].first_ns };
}

static inline bool stroll_next(struct stroll *stroll)
{
    const struct record *record = stroll->record;
    if (stroll->at == stroll->end)
        return false;
    stroll->group = stroll->at;
    stroll->size = stroll->at->joined ? group_size(stroll->at, stroll->end) : 1;
    stroll->at += stroll->size;
    stroll->takes_time = takes_time(*stroll->group);
    stroll->start_ns = stroll->end_ns;
    if (stroll->takes_time) {
        stroll->end_ns = *stroll->next_end_ns++;
        stroll->start_ns = stroll->end_ns - group_ns(&record->tariff, &record->walk.board, stroll->group, stroll->size);
    }
    return true;
}

// How long a move occupies its link once it has begun, in ns.
static inline uint64_t record_move_ns(const struct record *record, struct action action)
{
    return record->tariff.channels[move_channel(&record->tariff, record->schedule, action)].occupied_ns;
}

// When the moves that the action waits for ended.
struct awaited_moves {
    uint64_t evict_ns, prefetch_ns;  // 0: no such move
    size_t evicted;                  // the unit of that EVICT, or NO_MOVE
};
static inline struct awaited_moves record_awaits(const struct record *record, struct action action)
{
    struct awaited_moves awaited = { .evicted = NO_MOVE };
    if (!record->places.waits || !has_unit(action))
        return awaited;
    const size_t unit = unit_of(record->schedule, action);
    awaited.evicted = host_places_wait(&record->places, record->schedule, action);
    if (awaited.evicted != NO_MOVE)
        awaited.evict_ns = record->moved_ns[0][awaited.evicted];
    if (waits_for_prefetch(action, record->walk.board.units[unit]))
        awaited.prefetch_ns = record->moved_ns[1][unit];
    return awaited;
}

// Returns whether the message that goes forward or back to a unit was given, and sets when it arrived.
static inline bool record_arrival(const struct record *record, size_t unit, bool back, uint64_t *arrived_ns)
{
    *arrived_ns = record->arrived_ns[back][unit];
    return record->walk.board.units[unit] & (back ? GIVEN_B : GIVEN_F);
}

#endif
