// One simulated run written down: when each action ended, when each message
// arrived. What is asked about a run (spans, bytes, the longest chain) is read
// off it, rank by rank. The rest follows: an action began its price before it
// ended, and a message entered its link as long before it arrived as it takes.
//
//     list     0F0  0SEND_F0  0F1  0SEND_F1  0RECV_B0  0B0
//     ends     18             36                       95     SENDs and RECVs take no time
#ifndef SCHEDULES_RECORD_H
#define SCHEDULES_RECORD_H

#include "schedules/simulate.h"
#include "schedules/tariff.h"
#include "schedules/versions.h"
#include "schedules/walk.h"

struct record {
    const struct schedule *schedule;
    const struct cost_row *costs;
    struct walk walk;      // its board says what was done, and which messages were given
    struct tariff tariff;
    uint64_t *ends_ns;     // of all but SENDs and RECVs, in the order of the lists
    size_t *first;         // where in `ends_ns` those of a rank begin
    uint64_t **past_ns;    // per rank: where in `ends_ns` they end
    uint64_t *free_ns;     // per rank: its last end
    uint64_t *arrived_ns[2];  // forward and back, per unit that uses it: the message's arrival, if it was given
    uint64_t iteration_ns;
};

// Simulates and writes down. Needs costs. Cleared by record_clear().
bool record_create(struct record *record, const struct schedule *schedule, const struct cost_row *costs,
                   const struct network *network, struct error *error);
void record_clear(struct record *record);

// The time within an action that recomputes.
uint64_t record_recompute_ns(const struct record *record, struct action action);

// What the longest chain of actions and messages is made of.
bool record_critical_path(const struct record *record, struct critical_path *path, struct error *error);

// --- a rank's list, one action after the other ----------------------------------
//
//     struct stroll stroll = stroll_begin(record, rank);
//     while (stroll_next(&stroll)) ...

struct stroll {
    const struct record *record;
    uint32_t rank;
    const struct action *at, *end;  // the next action
    const uint64_t *next_end_ns;    // of the next action that has one
    struct action action;
    bool takes_time;  // false: a SEND or RECV, which happens when what stands before it has ended
    uint64_t start_ns, end_ns;
};

static inline struct stroll stroll_begin(const struct record *record, uint32_t rank)
{
    const struct action_list *list = &record->schedule->lists[rank];
    return (struct stroll){ .record = record, .rank = rank, .at = list->at, .end = list_end(list),
                            .next_end_ns = &record->ends_ns[record->first[rank]] };
}

static inline bool stroll_next(struct stroll *stroll)
{
    const struct record *record = stroll->record;
    if (stroll->at == stroll->end)
        return false;
    stroll->action = *stroll->at++;
    stroll->takes_time = !is_message(stroll->action);
    stroll->start_ns = stroll->end_ns;
    if (stroll->takes_time) {
        stroll->end_ns = *stroll->next_end_ns++;
        stroll->start_ns = stroll->end_ns - record->tariff.prices[price_of(&record->walk.board, stroll->action)];
    }
    return true;
}

// Whether a message was given to the unit of this stage and micro-batch, and when it arrived.
static inline bool record_arrival(const struct record *record, uint32_t stage, uint32_t micro_batch, bool back,
                                  uint64_t *arrived_ns)
{
    const size_t unit = unit_index(record->schedule, stage, micro_batch);
    *arrived_ns = record->arrived_ns[back][unit];
    return record->walk.board.units[unit] & (back ? GIVEN_B : GIVEN_F);
}

#endif
