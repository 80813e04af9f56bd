// The bytes on a rank over time, and their maximum.
//
// Some things come and go with the rank's own actions, in the order of its list;
// others when a message arrives or has been delivered, at any time between.
//
//     own        start F: + kept, + output buffer, + workspace     end F: - workspace
//                start B: + workspace, + input gradient buffer     end B: - workspace, - kept, - gradient slot
//     messages   delivered: - its buffer here       arrived (compute orders; else from its RECV): + its slot
//
// The slot of an input is given up when F starts: what F needs of it is in `kept`
// or in the workspace. At one moment the ends come first, then deliveries, then
// arrivals, then starts.
#include <stdlib.h>

#include "schedules/record.h"

enum phase { PHASE_END, PHASE_DELIVERED, PHASE_ARRIVED, PHASE_START };

struct change {
    uint64_t time_ns;
    int64_t bytes;
    uint32_t phase;
    uint32_t number;  // among those of its list: keeps the order of equals
};

struct changes {
    struct change *at;
    size_t count, capacity;
    bool sorted, failed;
};

struct live {
    const struct record *record;
    uint32_t rank;
    struct changes own, messages;
    struct versions *versions;
};

static int compare(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->phase != y->phase)
        return x->phase < y->phase ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void add(struct changes *changes, uint64_t time_ns, enum phase phase, int64_t bytes)
{
    if (bytes == 0 || changes->failed)
        return;
    if (changes->count == changes->capacity) {
        const size_t capacity = changes->capacity ? 2 * changes->capacity : 256;
        struct change *at = realloc(changes->at, capacity * sizeof *at);
        if (!at) {
            changes->failed = true;
            return;
        }
        changes->at = at;
        changes->capacity = capacity;
    }
    struct change *change = &changes->at[changes->count];
    *change = (struct change){ time_ns, bytes, phase, (uint32_t)changes->count };
    changes->sorted &= changes->count == 0 || compare(change - 1, change) < 0;
    changes->count++;
}

// --- what an action changes -------------------------------------------------------

static bool computes(struct action action)
{
    return action.kind <= ACTION_R;
}

// What goes over a boundary: the output of the stage before it, or the gradient of that.
static int64_t boundary_bytes(const struct live *live, uint32_t stage)
{
    return (int64_t)live->record->costs[stage].output_bytes;
}

// The bytes an F takes in, or a B or I; 0 at the pipeline's ends.
static int64_t input_bytes(const struct live *live, struct action action)
{
    if (action.kind == ACTION_F)
        return action.stage == 0 ? 0 : boundary_bytes(live, action.stage - 1u);
    return action.stage + 1u == live->record->schedule->stages ? 0 : boundary_bytes(live, action.stage);
}

static int64_t result_bytes(const struct live *live, struct action action)
{
    if (action.kind == ACTION_F)
        return action.stage + 1u == live->record->schedule->stages ? 0 : boundary_bytes(live, action.stage);
    return action.stage == 0 ? 0 : boundary_bytes(live, action.stage - 1u);
}

// Inputs that came by a message have a slot from their arrival, or from their
// RECV where there is one; those of a neighbour here, from when it made them.
static void take_input(struct live *live, const struct stroll *stroll)
{
    const struct schedule *schedule = live->record->schedule;
    const int64_t bytes = input_bytes(live, stroll->action);
    if (stroll->step->wait != NO_MESSAGE && !schedule->lowered)
        add(&live->messages, live->record->timing.arrived_ns[stroll->step->wait], PHASE_ARRIVED, bytes);
    if (stroll->action.kind == ACTION_F)
        add(&live->own, stroll->start_ns, PHASE_START, -bytes);
}

// A result's buffer is there while it is made and until its message is delivered.
static void send_result(struct live *live, const struct stroll *stroll)
{
    const uint32_t boundary = live->record->order.channels[stroll->step->channel].boundary;
    add(&live->messages, live->record->timing.arrived_ns[stroll->step->give], PHASE_DELIVERED,
        -boundary_bytes(live, boundary));
}

static void receive(struct live *live, const struct stroll *stroll)
{
    const uint32_t boundary = stroll->action.kind == ACTION_RECV_F ? stroll->action.stage - 1u : stroll->action.stage;
    add(&live->own, stroll->start_ns, PHASE_START, boundary_bytes(live, boundary));
}

// One more version while STEP writes it; one less when its last user has ended.
static void change_versions(struct live *live, const struct stroll *stroll, enum phase end)
{
    const size_t copy = versions_copy(live->versions, live->rank, stroll->action.stage);
    const int64_t before = versions_alive(live->versions, copy);
    versions_advance(live->versions, live->rank, stroll->action);
    const int64_t more = (int64_t)versions_alive(live->versions, copy) - before;
    const int64_t bytes = more * (int64_t)live->record->costs[stroll->action.stage].version_bytes;
    if (more > 0)
        add(&live->own, stroll->start_ns, PHASE_START, bytes);
    else
        add(&live->own, stroll->end_ns, end, bytes);
}

static void start_computing(struct live *live, const struct stroll *stroll)
{
    const struct cost_row *row = &live->record->costs[stroll->action.stage];
    const unsigned kind = stroll->action.kind;
    const bool passes_on = kind == ACTION_F || kind == ACTION_B || kind == ACTION_I;
    if (passes_on)
        take_input(live, stroll);
    add(&live->own, stroll->start_ns, PHASE_START,
        (int64_t)row->transient_bytes + (kind == ACTION_F ? (int64_t)row->kept_forward_bytes : 0)
            + (passes_on ? result_bytes(live, stroll->action) : 0));
}

static void end_computing(struct live *live, const struct stroll *stroll, enum phase end)
{
    const struct cost_row *row = &live->record->costs[stroll->action.stage];
    const unsigned kind = stroll->action.kind;
    int64_t bytes = -(int64_t)row->transient_bytes;
    if (kind == ACTION_B || kind == ACTION_I)
        bytes -= (int64_t)row->kept_forward_bytes + input_bytes(live, stroll->action);
    if (kind == ACTION_I)
        bytes += (int64_t)row->kept_weight_bytes;
    if (kind == ACTION_W)
        bytes -= (int64_t)row->kept_weight_bytes;
    add(&live->own, stroll->end_ns, end, bytes);
}

static void collect(struct live *live)
{
    struct stroll stroll = stroll_begin(live->record, live->rank);
    while (stroll_next(&stroll)) {
        if (!stroll.step) {
            receive(live, &stroll);
            continue;
        }
        // What takes no time ends in the moment, and the phase, in which it began.
        const enum phase end = stroll.end_ns > stroll.start_ns ? PHASE_END : PHASE_START;
        if (computes(stroll.action))
            start_computing(live, &stroll);
        if (stroll.step->give != NO_MESSAGE)
            send_result(live, &stroll);
        if (computes(stroll.action))
            end_computing(live, &stroll, end);
        change_versions(live, &stroll, end);
    }
}

// --- the sum ------------------------------------------------------------------------

static uint64_t fixed_bytes(const struct live *live)
{
    const struct schedule *schedule = live->record->schedule;
    uint64_t bytes = 0;
    for (uint32_t stage = 0; stage < schedule->stages; stage++) {
        bool here = false;
        for (uint32_t route = 0; route < schedule->route_count; route++)
            here |= schedule->routes[(size_t)route * schedule->stages + stage] == live->rank;
        bytes += here ? live->record->costs[stage].fixed_bytes : 0;
    }
    return bytes;
}

static uint64_t largest_sum(struct live *live)
{
    __extension__ typedef __int128 wide;
    const struct changes *own = &live->own, *messages = &live->messages;
    if (!messages->sorted)
        qsort(messages->at, messages->count, sizeof *messages->at, compare);
    wide now = fixed_bytes(live), most = now;
    for (size_t i = 0, j = 0; i < own->count || j < messages->count;) {
        const bool mine = j == messages->count
                       || (i < own->count
                           && (own->at[i].time_ns < messages->at[j].time_ns
                               || (own->at[i].time_ns == messages->at[j].time_ns
                                   && own->at[i].phase < messages->at[j].phase)));
        now += mine ? own->at[i++].bytes : messages->at[j++].bytes;
        most = now > most ? now : most;
    }
    return most > (wide)UINT64_MAX ? UINT64_MAX : (uint64_t)most;
}

bool record_live_peak(const struct record *record, uint32_t rank, struct versions *versions, uint64_t *bytes,
                      struct error *error)
{
    struct live live = { record, rank, { .sorted = true }, { .sorted = true }, versions };
    collect(&live);
    const bool good = !live.own.failed && !live.messages.failed;
    if (good)
        *bytes = largest_sum(&live);
    free(live.own.at);
    free(live.messages.at);
    return good || error_no_memory(error, "the bytes of a rank");
}
