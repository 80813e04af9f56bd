// The chain that ends last, followed back from its end:
//
//     rank 0   F0 ──────┐                      ┌── B0        an action began when the one before it on its
//     rank 1            └ latency ─ F0  B0 ────┘             rank had ended, or when its message arrived
//
// The chain goes back in time, and so in every rank's list: a place per rank is
// kept, and no list is gone through twice.
#include <stdlib.h>

#include "schedules/record.h"

// What the chain has not gone through yet of a rank's list, and of its ends.
struct place {
    const struct action *begin, *end;
    const uint64_t *past_ns;
};

struct chain {
    const struct record *record;
    struct place *places;  // per rank
    uint32_t rank;         // where the chain is
    struct critical_path *path;
};

static bool takes_time_last(const struct place *place)
{
    return !is_message(place->end[-1]);
}

static void go_back(struct place *place)
{
    place->past_ns -= takes_time_last(place);
    place->end--;
}

// The first of the ranks that end last, at the first of its actions that does so.
static struct place *begin(struct chain *chain)
{
    const struct record *record = chain->record;
    for (uint32_t rank = 0; rank < record->schedule->ranks; rank++) {
        const struct action_list *list = &record->schedule->lists[rank];
        chain->places[rank] = (struct place){ list->at, list_end(list), record->past_ns[rank] };
        if (record->free_ns[rank] > record->free_ns[chain->rank])
            chain->rank = rank;
    }
    struct place *place = &chain->places[chain->rank];
    const uint64_t *first_ns = &record->ends_ns[record->first[chain->rank]];
    while (place->past_ns - first_ns >= 2 && place->past_ns[-2] == record->iteration_ns)
        go_back(place);
    return place;
}

// To behind the one action of these kinds on a stage and micro-batch.
static void go_back_to(struct place *place, uint32_t stage, uint32_t micro_batch, unsigned kinds)
{
    const struct action *end = place->end;
    size_t ends = 0;
    while (end[-1].micro_batch != micro_batch || end[-1].stage != stage || !(kinds >> end[-1].kind & 1))
        ends += !is_message(*--end);
    place->end = end;
    place->past_ns -= ends;
}

// To who gave the message that the action began with.
static struct place *cross(struct chain *chain, struct action action, uint64_t arrived)
{
    const struct schedule *schedule = chain->record->schedule;
    const bool back = action.kind != ACTION_F;
    const uint32_t giver = back ? action.stage + 1u : action.stage - 1u;
    const unsigned kinds = schedule->lowered ? 1u << (back ? ACTION_SEND_B : ACTION_SEND_F)
                                             : (back ? DID_BACKWARD : DID_F);
    chain->rank = schedule_rank(schedule, giver, action.micro_batch);
    struct place *place = &chain->places[chain->rank];
    go_back_to(place, giver, action.micro_batch, kinds);

    const uint32_t number = channel_number(schedule, action.micro_batch, back ? action.stage : giver, back);
    const struct channel *channel = &chain->record->tariff.channels[number];
    chain->path->transfer_ns += channel->occupied_ns;
    chain->path->latency_ns += channel->latency_ns;
    chain->path->order_ns += arrived - channel->latency_ns - channel->occupied_ns - place->past_ns[-1];
    return place;
}

static void follow(struct chain *chain)
{
    const struct record *record = chain->record;
    struct place *place = begin(chain);
    while (place->end != place->begin) {
        const struct action action = place->end[-1];
        if (!takes_time_last(place)) {
            go_back(place);
            continue;
        }
        const uint64_t took = record->tariff.prices[price_of(&record->walk.board, action)];
        const uint64_t start = place->past_ns[-1] - took, recompute = record_recompute_ns(record, action);
        chain->path->recompute_ns += recompute;
        chain->path->compute_ns += took - recompute;
        if (start == 0)
            return;
        uint64_t arrived;
        go_back(place);
        if (needs_message(record->schedule, action)
            && record_arrival(record, action.stage, action.micro_batch, action.kind != ACTION_F, &arrived)
            && arrived >= start)
            place = cross(chain, action, arrived);
    }
}

bool record_critical_path(const struct record *record, struct critical_path *path, struct error *error)
{
    *path = (struct critical_path){ 0 };
    struct chain chain = { .record = record, .path = path };
    chain.places = calloc(record->schedule->ranks, sizeof *chain.places);
    if (!chain.places)
        return error_no_memory(error, "the critical path of a schedule");
    follow(&chain);
    free(chain.places);
    return true;
}
