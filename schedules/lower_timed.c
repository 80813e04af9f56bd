#include "schedules/lower_timed.h"

#include <assert.h>
#include <stdlib.h>

#include "schedules/lower.h"
#include "schedules/record.h"
#include "schedules/standstill.h"

// A computation or a group. Among those that end at the same moment, `turn` decides, which orders everything after
// what it needs. The REDUCEs of all copies at one time have the same turn.
struct done {
    uint64_t end_ns;
    uint64_t turn;
    uint32_t rank;
    uint32_t size;
    const struct action *group;
};

struct timed {
    const struct schedule *order;
    struct schedule *lowered;
    struct record record;
    struct stroll *strolls;  // per rank
    uint64_t *reductions;      // per stage: the turn of its last REDUCE
    struct done *done;
    size_t count;
};

static bool timed_create(struct timed *timed, const struct cost_row *costs, const struct network *network,
                         struct error *error)
{
    const struct schedule *order = timed->order;
    const size_t actions = schedule_action_count(order);
    costs = costs ? costs : order->costs;
    if (!costs)
        return error_set(error, "schedule %s has no costs by which its receives could be placed", order->name);
    if (!record_create(&timed->record, order, costs, network, error))
        return false;
    timed->lowered = schedule_copy(order, error);
    if (!timed->lowered)
        return false;
    timed->strolls = calloc(order->ranks, sizeof *timed->strolls);
    timed->reductions = calloc(order->stages, sizeof *timed->reductions);
    timed->done = calloc(actions + 1, sizeof *timed->done);
    return (timed->strolls && timed->reductions && timed->done) || error_no_memory(error, "lowering a schedule");
}

static void timed_clear(struct timed *timed)
{
    record_clear(&timed->record);
    free(timed->strolls);
    free(timed->reductions);
    free(timed->done);
}

// Records what the rank does next, with its time.
static void note(struct timed *timed, const struct visit *visit)
{
    struct stroll *stroll = &timed->strolls[visit->rank];
    stroll_next(stroll);
    uint64_t turn = timed->count;
    if (visit->at->kind == ACTION_REDUCE) {
        if (visit->opens)
            timed->reductions[visit->at->stage] = turn;
        turn = timed->reductions[visit->at->stage];
    }
    timed->done[timed->count++] = (struct done){ stroll->end_ns, turn, visit->rank, (uint32_t)stroll->size,
                                                 stroll->group };
}

static bool note_all(struct timed *timed, struct error *error)
{
    struct walk walk;
    struct visit visit;
    if (!walk_create(&walk, timed->order, error))
        return false;
    for (uint32_t rank = 0; rank < timed->order->ranks; rank++)
        timed->strolls[rank] = stroll_begin(&timed->record, rank);
    while (walk_next(&walk, &visit)) {
        if (!visit.follows)
            note(timed, &visit);
    }
    const bool good = walk_end(&walk, error);
    walk_clear(&walk);
    return good;
}

static int compare(const void *a, const void *b)
{
    const struct done *x = a, *y = b;
    if (x->end_ns != y->end_ns)
        return x->end_ns < y->end_ns ? -1 : 1;
    if (x->turn != y->turn)
        return x->turn < y->turn ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

// Adds the SEND, and its RECV at the end of the peer's list.
static bool add_message(struct timed *timed, uint32_t rank, struct action action, struct error *error)
{
    struct action send = action;
    send.kind = action.kind == ACTION_F ? ACTION_SEND_F : ACTION_SEND_B;
    send.joined = 0;
    const struct action receive = action_mirror(send);
    const uint32_t peer = schedule_rank(timed->order, receive.stage, receive.micro_batch);
    return schedule_add(timed->lowered, rank, send, error) && schedule_add(timed->lowered, peer, receive, error);
}

static bool add_all(struct timed *timed, struct error *error)
{
    bool good = true;
    for (uint32_t rank = 0; rank < timed->order->ranks; rank++)
        timed->lowered->lists[rank].count = 0;
    for (const struct done *done = timed->done; done < timed->done + timed->count; done++) {
        for (uint32_t i = 0; good && i < done->size; i++)
            good = lower_add(timed->lowered, done->rank, done->group[i], error);
        for (uint32_t i = 0; good && i < done->size; i++) {
            if (makes_message(timed->order, done->group[i]))
                good = add_message(timed, done->rank, done->group[i], error);
        }
    }
    return good;
}

struct schedule *schedule_lower_timed(const struct schedule *order, const struct cost_row *costs,
                                      const struct network *network, struct error *error)
{
    assert(!order->lowered);

    struct timed timed = { .order = order };
    bool good = timed_create(&timed, costs, network, error) && note_all(&timed, error);
    if (good) {
        qsort(timed.done, timed.count, sizeof *timed.done, compare);
        good = add_all(&timed, error);
    }
    timed_clear(&timed);
    if (!good) {
        schedule_free(timed.lowered);
        return NULL;
    }
    timed.lowered->lowered = true;
    return timed.lowered;
}
