// Follows the chain of actions and messages that ends last, backward from its end:
//
//     rank 0   F0 ──────┐                      ┌── B0        an action began when the one before it on its
//     rank 1            └ latency ─ F0  B0 ────┘             rank had ended, or when its message arrived, or
//                                                            when something had gone to the host, or come back
//
// The chain goes back in time, and therefore backward in every rank's list. A position is kept per rank, so no list
// is traversed twice.
#include <stdlib.h>

#include "schedules/record.h"

// The part of a rank's list, and of its ends, that the chain has not yet passed.
struct place {
    const struct action *begin, *end;
    const uint64_t *past_ns;
};

struct chain {
    const struct record *record;
    struct place *places;  // per rank
    uint32_t rank;         // the rank at which the chain is
    struct critical_path *path;
};

// The beginning of the last group of the part that is left.
static const struct action *last_group(const struct place *place)
{
    const struct action *group = place->end - 1;
    while (group > place->begin && group[-1].joined)
        group--;
    return group;
}

static void go_back(struct place *place)
{
    place->end = last_group(place);
    place->past_ns -= takes_time(*place->end);
}

// Begins at the first of the ranks that end last, at the first of its actions that ends then.
static struct place *begin(struct chain *chain)
{
    const struct record *record = chain->record;
    for (uint32_t rank = 0; rank < record->schedule->ranks; rank++) {
        const struct action_list *list = &record->schedule->lists[rank];
        chain->places[rank] = (struct place){ list->at, list_end(list), record->ranks[rank].past_ns };
        if (record->ranks[rank].free_ns > record->ranks[chain->rank].free_ns)
            chain->rank = rank;
    }
    struct place *place = &chain->places[chain->rank];
    const uint64_t *first_ns = record->ranks[chain->rank].first_ns;
    while (place->past_ns - first_ns >= 2 && place->past_ns[-2] == record->iteration_ns)
        go_back(place);
    return place;
}

// Moves back to just behind the group that contains `action`, or an action of one of these kinds instead. This
// traverses every list once, so its speed matters.
static void go_back_to(struct place *place, struct action action, unsigned kinds)
{
    const struct action *cursor = place->end;
    size_t groups = 0;
    for (;;) {
        cursor--;
        if (cursor->micro_batch == action.micro_batch && cursor->stage == action.stage && cursor->split == action.split
            && (kinds >> cursor->kind & 1))
            break;
        groups += takes_time(*cursor) && !cursor->joined;
    }
    if (cursor->joined) {  // the other action of the group has been passed
        cursor++;
        groups--;
    }
    place->end = cursor + 1;
    place->past_ns -= groups;
}

// Continues at the rank that gave the message with whose arrival the action began.
static struct place *cross(struct chain *chain, struct action action, uint64_t arrived)
{
    const struct schedule *schedule = chain->record->schedule;
    const bool back = action.kind != ACTION_F;
    const struct action giver = action_needed_by(action);
    const unsigned kinds = schedule->lowered ? 1u << (back ? ACTION_SEND_B : ACTION_SEND_F)
                                             : (back ? DID_BACKWARD : DID_F);
    chain->rank = schedule_rank(schedule, giver.stage, giver.micro_batch);
    struct place *place = &chain->places[chain->rank];
    go_back_to(place, giver, kinds);

    const uint32_t number = channel_number(schedule, action, back ? action.stage : giver.stage, back);
    const struct channel *channel = &chain->record->tariff.channels[number];
    chain->path->transfer_ns += channel->occupied_ns;
    chain->path->latency_ns += channel->latency_ns;
    chain->path->order_ns += arrived - channel->latency_ns - channel->occupied_ns - place->past_ns[-1];
    return place;
}

// Continues where the rank began the move that the action waited for.
static struct place *wait_for(struct chain *chain, struct action move, uint64_t ended)
{
    struct place *place = &chain->places[chain->rank];
    const uint64_t took = record_move_ns(chain->record, move);
    go_back_to(place, move, 1u << move.kind);
    chain->path->transfer_ns += took;
    chain->path->order_ns += ended - took - place->past_ns[-1];
    return place;
}

static struct action action_of_unit(const struct schedule *schedule, size_t unit, enum action_kind kind)
{
    const size_t part = unit % ((size_t)schedule->micro_batches * schedule->splits);
    return (struct action){ .stage = (uint16_t)(unit / ((size_t)schedule->micro_batches * schedule->splits)),
                            .kind = (uint8_t)kind,
                            .micro_batch = (uint32_t)(part / schedule->splits),
                            .split = part % schedule->splits & 0x7f };
}

// Returns NULL if the action waited for no move.
static struct place *go_back_by_move(struct chain *chain, struct action action, uint64_t start)
{
    const struct record *record = chain->record;
    const struct awaited_moves awaited = record_awaits(record, action);
    if (start > 0 && awaited.prefetch_ns >= start) {
        action.kind = ACTION_PREFETCH;
        return wait_for(chain, action, awaited.prefetch_ns);
    }
    if (start > 0 && awaited.evict_ns >= start)
        return wait_for(chain, action_of_unit(record->schedule, awaited.evicted, ACTION_EVICT), awaited.evict_ns);
    return NULL;
}

// A REDUCE began when the last of its copies was free. The chain continues with such a copy: its own rank's if
// possible.
static struct place *go_to_reduction(struct chain *chain, struct action reduce, uint64_t start)
{
    const struct record *record = chain->record;
    const struct copies *copies = &record->walk.board.copies;
    struct place *here = &chain->places[chain->rank];
    if (here->past_ns > record->ranks[chain->rank].first_ns && here->past_ns[-1] == start)
        return here;
    for (uint32_t copy = copies->first[reduce.stage]; copy < copies->first[reduce.stage + 1]; copy++) {
        const uint32_t rank = copies->ranks[copy];
        struct place *place = &chain->places[rank];
        if (place == here)
            continue;
        go_back_to(place, reduce, 1u << ACTION_REDUCE);
        go_back(place);
        if (place->past_ns > record->ranks[rank].first_ns && place->past_ns[-1] == start) {
            chain->rank = rank;
            return place;
        }
    }
    return here;
}

// From the group that has just been passed to what it waited for.
static struct place *go_on(struct chain *chain, const struct action *group, size_t size, uint64_t start)
{
    const struct record *record = chain->record;
    if (group->kind == ACTION_REDUCE)
        return go_to_reduction(chain, *group, start);
    for (size_t i = 0; i < size; i++) {
        uint64_t arrived;
        if (has_unit(group[i]) && needs_message(record->schedule, group[i])
            && record_arrival(record, unit_of(record->schedule, group[i]), group[i].kind != ACTION_F, &arrived)
            && arrived >= start)
            return cross(chain, group[i], arrived);
    }
    for (size_t i = 0; i < size; i++) {
        struct place *place = go_back_by_move(chain, group[i], start);
        if (place)
            return place;
    }
    return &chain->places[chain->rank];
}

static void follow(struct chain *chain)
{
    const struct record *record = chain->record;
    struct place *place = begin(chain);
    while (place->end != place->begin) {
        const struct action *group = last_group(place);
        const size_t size = (size_t)(place->end - group);
        if (!takes_time(*group)) {
            go_back(place);
            continue;
        }
        const uint64_t took = group_ns(&record->tariff, &record->walk.board, group, size);
        const uint64_t start = place->past_ns[-1] - took;
        uint64_t recompute = 0;
        for (size_t i = 0; i < size; i++)
            recompute += record_recompute_ns(record, group[i]);
        chain->path->recompute_ns += recompute;
        chain->path->compute_ns += took - recompute;
        if (start == 0)
            return;
        go_back(place);
        place = go_on(chain, group, size, start);
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
