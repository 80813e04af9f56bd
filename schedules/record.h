// One simulated run written down: when each action ended, when each message
// arrived. What is asked about a run (spans, bytes, the longest chain) is read
// off it, rank by rank. The rest follows: an action began its price before it
// ended, and a message entered its link as long before it arrived as it takes.
//
//     list     0F0  0SEND_F0  0F1  0SEND_F1  0RECV_B0  0B0
//     ends     18             36                       95     SENDs, RECVs, moves and VALIDATE take no time
//
// Actions that are done together end once.
#ifndef SCHEDULES_RECORD_H
#define SCHEDULES_RECORD_H

#include "schedules/host_places.h"
#include "schedules/simulate.h"
#include "schedules/tariff.h"
#include "schedules/versions.h"
#include "schedules/walk.h"

// What is known of a rank.
struct rank_record {
    uint64_t *first_ns;  // in `ends_ns`: where those of the rank begin
    uint64_t *past_ns;   // and end
    uint64_t free_ns;    // its last end
    uint32_t in_flight;
    struct rank_result result;  // all but the bytes
};

struct record {
    const struct schedule *schedule;
    const struct cost_row *costs;  // per stage
    struct cost_row *parts;        // the same per stage and split, where sequences are split; or NULL
    struct walk walk;      // its board says what was done, and which messages were given
    struct tariff tariff;
    uint64_t *ends_ns;     // of all that takes time, in the order of the lists
    struct rank_record *ranks;
    uint64_t *arrived_ns[2];  // forward and back, per unit that uses it: the message's arrival, if it was given
    struct host_places places;
    uint64_t *moved_ns[2];    // per unit: when its EVICT and its PREFETCH have ended, if it has them; NULL: none has
    uint64_t iteration_ns;
    bool forward_only;     // nothing is kept for a backward
};

// Simulates and writes down. Needs costs. Cleared by record_clear().
bool record_create(struct record *record, const struct schedule *schedule, const struct cost_row *costs,
                   const struct network *network, struct error *error);
void record_clear(struct record *record);

// What an action costs that has a unit.
static inline const struct cost_row *record_row(const struct record *record, uint32_t stage, uint32_t split)
{
    return record->parts ? &record->parts[stage * record->schedule->splits + split] : &record->costs[stage];
}

// What takes no time happens when what stands before it has ended.
static inline bool takes_time(struct action action)
{
    enum { TIMELESS = 1 << ACTION_SEND_F | 1 << ACTION_RECV_F | 1 << ACTION_SEND_B | 1 << ACTION_RECV_B
                    | 1 << ACTION_EVICT | 1 << ACTION_PREFETCH | 1 << ACTION_VALIDATE };
    return !((unsigned)TIMELESS >> action.kind & 1);
}

// The time within an action that recomputes.
static inline uint64_t record_recompute_ns(const struct record *record, struct action action)
{
    return recomputed_ns(&record->tariff, price_of(&record->walk.board, action));
}

// What the longest chain of actions and messages is made of.
bool record_critical_path(const struct record *record, struct critical_path *path, struct error *error);

// --- a rank's list, one group after the other ------------------------------------
//
//     struct stroll stroll = stroll_begin(record, rank);
//     while (stroll_next(&stroll)) ...
//
// An action alone is a group of one.

struct stroll {
    const struct record *record;
    uint32_t rank;
    const struct action *at, *end;  // the next group
    const uint64_t *next_end_ns;    // of the next group that has one
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

// What a move takes its link for, once it has begun.
static inline uint64_t record_move_ns(const struct record *record, struct action action)
{
    return record->tariff.channels[move_channel(&record->tariff, record->schedule, action)].occupied_ns;
}

// When the moves that the action waits for have ended.
struct awaited_moves {
    uint64_t evict_ns, prefetch_ns;  // 0: none
    size_t evicted;                  // whose EVICT that is, or NO_MOVE
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

// Whether the message that goes forward or back to a unit was given, and when it arrived.
static inline bool record_arrival(const struct record *record, size_t unit, bool back, uint64_t *arrived_ns)
{
    *arrived_ns = record->arrived_ns[back][unit];
    return record->walk.board.units[unit] & (back ? GIVEN_B : GIVEN_F);
}

#endif
