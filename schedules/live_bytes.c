#include "schedules/live_bytes.h"

#include <stdlib.h>

#include "common/array.h"

__extension__ typedef __int128 wide;

// What an action changes when it starts and when it ends, and the bytes of its result.
struct change {
    wide start, end;
    uint64_t result;
};
enum { CHANGES = ACTION_REDUCE };  // number of kinds

struct tally {
    wide now, most;
};

// Records a level for drawing bytes over time.
static void tell(struct live *live, uint64_t time_ns, wide now)
{
    const wide shown = now < 0 ? 0 : now > (wide)UINT64_MAX ? (wide)UINT64_MAX : now;
    live->failed |= !timeline_add_level(live->timeline, (struct level){ live->rank, time_ns, (uint64_t)shown });
}

IN_LINE void add(struct live *live, struct tally *tally, uint64_t time_ns, wide bytes)
{
    tally->now += bytes;
    if (tally->now > tally->most)
        tally->most = tally->now;
    if (live->timeline)
        tell(live, time_ns, tally->now);
}

// --- deliveries ---------------------------------------------------------------------

// At the same time, data that goes comes before data that arrives.
static bool is_sooner(struct delivery a, struct delivery b)
{
    return a.time_ns < b.time_ns || (a.time_ns == b.time_ns && a.comes < b.comes);
}

static bool deliveries_push(struct deliveries *deliveries, struct delivery delivery)
{
    if (!array_reserve(&deliveries->at, &deliveries->capacity, deliveries->count + 1, sizeof deliveries->at[0]))
        return false;
    struct delivery *heap = deliveries->at;
    size_t hole = deliveries->count++;
    for (; hole > 0 && is_sooner(delivery, heap[(hole - 1) / 2]); hole = (hole - 1) / 2)
        heap[hole] = heap[(hole - 1) / 2];
    heap[hole] = delivery;
    return true;
}

static struct delivery deliveries_pop(struct deliveries *deliveries)
{
    struct delivery *heap = deliveries->at;
    const struct delivery top = heap[0], last = heap[--deliveries->count];
    size_t hole = 0;
    for (size_t child; (child = 2 * hole + 1) < deliveries->count; hole = child) {
        child += child + 1 < deliveries->count && is_sooner(heap[child + 1], heap[child]);
        if (!is_sooner(heap[child], last))
            break;
        heap[hole] = heap[child];
    }
    heap[hole] = last;
    return top;
}

// --- arrivals -----------------------------------------------------------------------

static int compare(const void *a, const void *b)
{
    const struct delivery *x = a, *y = b;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

// The bytes of a message over a boundary: the output of the stage before it, or its gradient.
static uint64_t boundary_bytes(const struct record *record, uint32_t boundary, uint32_t split)
{
    return record_row(record, boundary, split)->output_bytes;
}

// Collects all messages that the rank will use. They usually arrive in the order of their use.
static void collect_arrivals(struct live *live)
{
    const struct schedule *schedule = live->record->schedule;
    const struct action_list *list = &schedule->lists[live->rank];
    bool sorted[2] = { true, true };
    live->arrivals[0].next = live->arrivals[0].count = live->arrivals[1].next = live->arrivals[1].count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct action action = list->at[i];
        if (!needs_message(schedule, action))
            continue;
        const bool back = action.kind != ACTION_F;
        struct arrivals *arrivals = &live->arrivals[back];
        struct delivery *arrival = &arrivals->at[arrivals->count++];
        record_arrival(live->record, unit_of(schedule, action), back, &arrival->time_ns);
        arrival->bytes = boundary_bytes(live->record, back ? action.stage : action.stage - 1u, action.split);
        sorted[back] &= arrivals->count == 1 || arrival[-1].time_ns <= arrival->time_ns;
    }
    for (int back = 0; back < 2; back++) {
        if (!sorted[back])
            qsort(live->arrivals[back].at, live->arrivals[back].count, sizeof *live->arrivals[back].at, compare);
    }
}

static uint64_t next_arrival(const struct arrivals *arrivals)
{
    return arrivals->next < arrivals->count ? arrivals->at[arrivals->next].time_ns : UINT64_MAX;
}

// --- what messages change -------------------------------------------------------------

static void look_ahead(struct live *live)
{
    live->soonest_ns = live->deliveries.count ? live->deliveries.at[0].time_ns : UINT64_MAX;
    for (int back = 0; back < 2; back++) {
        const uint64_t arrival = next_arrival(&live->arrivals[back]);
        live->soonest_ns = arrival < live->soonest_ns ? arrival : live->soonest_ns;
    }
}

static void deliver(struct live *live, struct tally *tally)
{
    const struct delivery delivery = deliveries_pop(&live->deliveries);
    add(live, tally, delivery.time_ns, delivery.comes ? (wide)delivery.bytes : -(wide)delivery.bytes);
}

// At the same time, deliveries come before arrivals.
static void settle_next_of_both(struct live *live, struct tally *tally)
{
    const bool back = next_arrival(&live->arrivals[1]) < next_arrival(&live->arrivals[0]);
    struct arrivals *arrivals = &live->arrivals[back];
    if (live->deliveries.count > 0 && live->deliveries.at[0].time_ns <= next_arrival(arrivals)) {
        deliver(live, tally);
    } else {
        const struct delivery *arrival = &arrivals->at[arrivals->next++];
        add(live, tally, arrival->time_ns, arrival->bytes);
    }
    look_ahead(live);
}

// In a lowered schedule, data arrives only at its RECV.
static void settle_next(struct live *live, struct tally *tally)
{
    if (!live->record->schedule->lowered) {
        settle_next_of_both(live, tally);
        return;
    }
    deliver(live, tally);
    live->soonest_ns = live->deliveries.count ? live->deliveries.at[0].time_ns : UINT64_MAX;
}

// Applies all changes by messages before the given time.
IN_LINE void settle(struct live *live, struct tally *tally, uint64_t before_ns)
{
    while (live->soonest_ns < before_ns)
        settle_next(live, tally);
}

// --- what actions change ----------------------------------------------------------------

// The bytes that an F, B or I receives; 0 at the pipeline's ends.
static wide input_bytes(const struct record *record, struct action action)
{
    if (action.kind == ACTION_F)
        return action.stage == 0 ? 0 : boundary_bytes(record, action.stage - 1u, action.split);
    return action.stage + 1u == record->schedule->stages ? 0 : boundary_bytes(record, action.stage, action.split);
}

static uint64_t result_bytes(const struct record *record, struct action action)
{
    if (action.kind == ACTION_F)
        return action.stage + 1u == record->schedule->stages ? 0 : boundary_bytes(record, action.stage, action.split);
    return action.stage == 0 ? 0 : boundary_bytes(record, action.stage - 1u, action.split);
}

// For an F: its input slot becomes part of what is kept, or of what is there while it runs.
static struct change change_of_forward(const struct record *record, struct action action)
{
    const struct cost_row *row = record_row(record, action.stage, action.split);
    const wide kept = row->kept_forward_bytes, input = input_bytes(record, action);
    const wide while_running = row->transient_bytes + (input > kept ? input - kept : 0);
    return (struct change){ kept - input + while_running, -while_running - (record->forward_only ? kept : 0),
                            result_bytes(record, action) };
}

static struct change change_of(const struct record *record, struct action action)
{
    const struct cost_row *row = record_row(record, action.stage, action.split);
    const wide running = row->transient_bytes, held = row->kept_weight_bytes;
    struct change change = { is_move(action) ? 0 : running, is_move(action) ? 0 : -running, 0 };
    if (action.kind == ACTION_F)
        change = change_of_forward(record, action);
    if (action.kind == ACTION_R)
        change.start += row->again_bytes;
    if (is_backward(action)) {
        change.end -= row->kept_forward_bytes + row->again_bytes + input_bytes(record, action);
        change.result = result_bytes(record, action);
    }
    if (action.kind == ACTION_I || action.kind == ACTION_W)
        change.end += action.kind == ACTION_I ? held : -held;
    if (action.kind == ACTION_RECV_F)
        change = (struct change){ action.stage > 0 ? boundary_bytes(record, action.stage - 1u, action.split) : 0, 0,
                                  0 };
    if (action.kind == ACTION_RECV_B)
        change = (struct change){ boundary_bytes(record, action.stage, action.split), 0, 0 };
    return change;
}

static void fill_changes(struct change *changes, const struct record *record)
{
    const struct schedule *schedule = record->schedule;
    for (uint32_t stage = 0; stage < schedule->stages; stage++) {
        for (uint32_t split = 0; split < schedule->splits; split++) {
            for (unsigned kind = 0; kind < CHANGES; kind++)
                *changes++ = change_of(record, (struct action){ .stage = (uint16_t)stage, .kind = (uint8_t)kind,
                                                                .split = split & 0x7f });
        }
    }
}

IN_LINE const struct change *find_change(const struct live *live, struct action action)
{
    const size_t row = (size_t)action.stage * live->record->schedule->splits + action.split;
    return &live->changes[row * CHANGES + action.kind];
}

// --- one action after the other -------------------------------------------------------------

static void add_delivery(struct live *live, struct delivery delivery)
{
    if (!deliveries_push(&live->deliveries, delivery))
        live->failed = true;
    else if (delivery.time_ns < live->soonest_ns)
        live->soonest_ns = delivery.time_ns;
}

// Kept data has left when its EVICT has ended. It is back in memory from when its PREFETCH enters the link.
static void add_move(struct live *live, struct action move)
{
    const struct record *record = live->record;
    const bool comes = move.kind == ACTION_PREFETCH;
    const uint64_t end_ns = record->moved_ns[comes][unit_of(record->schedule, move)];
    add_delivery(live, (struct delivery){ comes ? end_ns - record_move_ns(record, move) : end_ns,
                                          record_row(record, move.stage, move.split)->moved_bytes, comes });
}

// The buffer of a result is there while the result is made, and until its message is delivered. If all that takes no
// time, the buffer is not counted.
IN_LINE uint64_t keep_result(struct live *live, struct action action, uint64_t start_ns, uint64_t bytes)
{
    const struct record *record = live->record;
    const bool back = action.kind != ACTION_F;
    uint64_t arrived_ns;
    if (!makes_message(record->schedule, action))
        return bytes;
    const size_t unit = unit_of(record->schedule, action), stride = record->walk.stride;
    if (!record_arrival(record, back ? unit - stride : unit + stride, back, &arrived_ns))
        return bytes;
    if (arrived_ns <= start_ns)
        return 0;
    add_delivery(live, (struct delivery){ arrived_ns, bytes, false });
    return bytes;
}

// One more version exists while STEP writes it; one fewer when the last user of a version has ended.
static void change_versions(struct live *live, struct tally *tally, struct action action, uint64_t start_ns,
                            uint64_t end_ns)
{
    const wide before = versions_alive(&live->versions, live->rank, action.stage);
    versions_advance(&live->versions, live->rank, action);
    const wide more = versions_alive(&live->versions, live->rank, action.stage) - before;
    const uint64_t time_ns = more > 0 ? start_ns : end_ns;
    settle(live, tally, more > 0 ? time_ns + 1 : time_ns);
    add(live, tally, time_ns, more * live->record->costs[action.stage].version_bytes);
}

// A backward without an R of its own, on a stage where other backwards have one, recomputes by itself.
static uint64_t again_bytes(const struct live *live, struct action action)
{
    const struct record *record = live->record;
    const uint64_t bytes = record_row(record, action.stage, action.split)->again_bytes;
    const bool runs_itself = is_backward(action)
        && !(record->walk.board.units[unit_of(record->schedule, action)] & DID_R);
    return runs_itself ? bytes : 0;
}

// Actions that run together start together and end together.
IN_LINE void compute(struct live *live, struct tally *tally, const struct action *group, size_t size, uint64_t start_ns,
                     uint64_t end_ns)
{
    wide ends = 0;
    for (size_t i = 0; i < size; i++) {
        const struct change *change = find_change(live, group[i]);
        const uint64_t result = change->result ? keep_result(live, group[i], start_ns, change->result) : 0;
        const uint64_t again = live->has_again ? again_bytes(live, group[i]) : 0;
        add(live, tally, start_ns, change->start + result + again);
        ends += change->end;
    }
    settle(live, tally, end_ns);
    add(live, tally, end_ns, ends);
}

IN_LINE void follow_group(struct live *live, struct tally *tally, const struct stroll *stroll)
{
    settle(live, tally, stroll->start_ns + 1);
    if (is_move(*stroll->group))
        add_move(live, *stroll->group);
    else if (!stroll->takes_time)
        add(live, tally, stroll->start_ns, find_change(live, *stroll->group)->start);
    else if (is_compute(*stroll->group))
        compute(live, tally, stroll->group, stroll->size, stroll->start_ns, stroll->end_ns);
    for (size_t i = 0; live->versions.version_of && stroll->takes_time && i < stroll->size; i++)
        change_versions(live, tally, stroll->group[i], stroll->start_ns, stroll->end_ns);
}

static void follow(struct live *live, struct tally *tally)
{
    enum { CHANGES_NOTHING = 1 << ACTION_SEND_F | 1 << ACTION_SEND_B | 1 << ACTION_VALIDATE };
    for (struct stroll stroll = stroll_begin(live->record, live->rank); stroll_next(&stroll);) {
        if (!((unsigned)CHANGES_NOTHING >> stroll.group->kind & 1))
            follow_group(live, tally, &stroll);
    }
    settle(live, tally, UINT64_MAX);
}

bool live_peak(struct live *live, uint32_t rank, uint64_t *peak_bytes, struct error *error)
{
    struct tally tally = { 0 };
    live->rank = rank;
    add(live, &tally, 0, live->fixed_bytes[rank]);
    if (!live->record->schedule->lowered)
        collect_arrivals(live);
    look_ahead(live);
    follow(live, &tally);
    *peak_bytes = tally.most > (wide)UINT64_MAX ? UINT64_MAX : (uint64_t)tally.most;
    return !live->failed || error_no_memory(error, "the bytes of a rank");
}

// --- beginning and end ----------------------------------------------------------------------

static void add_fixed_bytes(struct live *live)
{
    const struct copies *copies = &live->record->walk.board.copies;
    for (uint32_t stage = 0; stage < live->record->schedule->stages; stage++) {
        live->has_again |= live->record->costs[stage].again_bytes > 0;
        for (uint32_t copy = copies->first[stage]; copy < copies->first[stage + 1]; copy++)
            live->fixed_bytes[copies->ranks[copy]] += live->record->costs[stage].fixed_bytes;
    }
}

static bool allocate_arrivals(struct live *live)
{
    const struct schedule *schedule = live->record->schedule;
    size_t most = 1;
    for (uint32_t rank = 0; rank < schedule->ranks && !schedule->lowered; rank++)
        most = schedule->lists[rank].count > most ? schedule->lists[rank].count : most;
    live->arrivals[0].at = malloc(most * sizeof *live->arrivals[0].at);
    live->arrivals[1].at = malloc(most * sizeof *live->arrivals[1].at);
    return live->arrivals[0].at && live->arrivals[1].at;
}

bool live_create(struct live *live, const struct record *record, struct timeline *timeline, struct error *error)
{
    const struct schedule *schedule = record->schedule;
    *live = (struct live){ .record = record, .timeline = timeline };
    live->changes = malloc((size_t)schedule->stages * schedule->splits * CHANGES * sizeof *live->changes);
    live->fixed_bytes = calloc(schedule->ranks, sizeof *live->fixed_bytes);
    if (!live->changes || !live->fixed_bytes || !allocate_arrivals(live)) {
        live_clear(live);
        return error_no_memory(error, "the bytes of a schedule");
    }
    if (!versions_create(&live->versions, schedule, error)) {
        live_clear(live);
        return false;
    }
    fill_changes(live->changes, record);
    add_fixed_bytes(live);
    return true;
}

void live_clear(struct live *live)
{
    versions_clear(&live->versions);
    free(live->changes);
    free(live->fixed_bytes);
    free(live->deliveries.at);
    free(live->arrivals[0].at);
    free(live->arrivals[1].at);
}
