// Waiting for the rank's own queue, which may be behind the host; and the error when something in it has failed.
#include "common/clock.h"
#include "common/pause.h"
#include "runtime/ranks/interpreting.h"

static struct rank_record *record_of(const struct interpreter *interpreter)
{
    return &interpreter->needs.recorder->ranks[interpreter->needs.rank];
}

struct recording begin_span(struct interpreter *interpreter, const struct action *actions, size_t count)
{
    return recorder_add(interpreter->needs.recorder, interpreter->needs.rank, actions, count);
}

void end_span(struct interpreter *interpreter, struct span_events events)
{
    event_record(events.end, interpreter->needs.queue);
    interpreter->latest = events.end;
    interpreter->ended = record_of(interpreter)->span_count;
}

void begin_replay(struct interpreter *interpreter, const struct replay_key *key)
{
    replays_begin(&interpreter->replays, key);
}

void end_replay(struct interpreter *interpreter)
{
    record_of(interpreter)->effort.replayed += replays_end(&interpreter->replays);
}

// --- failures ------------------------------------------------------------------------

// How many spans are done. They have succeeded, unless the queue reports a failure after that.
static size_t count_come(struct interpreter *interpreter)
{
    size_t come = interpreter->well;
    while (come < interpreter->ended && event_done(record_of(interpreter)->events[come].end))
        come++;
    if (!queue_has_failed(interpreter->needs.queue))
        interpreter->well = come;
    return come;
}

// If a message never came, the queue still goes on, with whatever bytes are there. The missing message is then the
// reason.
static bool messages_are_well(struct interpreter *interpreter, struct error *error)
{
    return interpreter->needs.transport->functions->check(interpreter->needs.transport, error);
}

// The failed action is one after those known to have succeeded, up to the last one given.
static bool failed_by(struct interpreter *interpreter, struct action last, struct error *error)
{
    const struct rank_record *record = record_of(interpreter);
    char first[ACTION_SIZE], name[ACTION_SIZE];
    if (!messages_are_well(interpreter, error))
        return false;
    queue_report(interpreter->needs.queue, error);
    if (!device_runs_ahead(queue_device(interpreter->needs.queue)) || interpreter->well + 1 >= record->span_count)
        return at_action(interpreter, last, error);
    return error_at(error, "rank %u: one of the actions from %s to %s", interpreter->needs.rank,
                    action_format(record->spans[interpreter->well].action, first), action_format(last, name));
}

bool is_well(struct interpreter *interpreter, struct action action, struct error *error)
{
    if (queue_has_failed(interpreter->needs.queue))
        return failed_by(interpreter, action, error);
    count_come(interpreter);
    return true;
}

// --- the end of a pass -----------------------------------------------------------------

// The receive that an action's queue waits for, if its message has not come.
static bool waits_for_message(const struct interpreter *interpreter, struct action action, struct action *receive)
{
    const struct flight *flight = flights_flight(&interpreter->flights, action);
    const bool goes_back = action.kind == ACTION_B || action.kind == ACTION_I;
    if (action.kind != ACTION_F && !goes_back)
        return false;
    const struct ticket *ticket = goes_back ? &flight->output_gradient : &flight->input;
    *receive = action;
    receive->kind = goes_back ? ACTION_RECV_B : ACTION_RECV_F;
    return ticket->done && ticket->event && !event_done(ticket->event);
}

// Writes on the board of ranks' status what the queue is doing.
static void tell_whereabouts(const struct interpreter *interpreter, size_t come)
{
    struct action receive;
    if (come >= interpreter->ended)
        return;
    const struct action action = record_of(interpreter)->spans[come].action;
    if (waits_for_message(interpreter, action, &receive))
        rank_status_wait(interpreter->needs.status, interpreter->needs.rank, receive);
    else
        rank_status_act(interpreter->needs.status, interpreter->needs.rank, action);
}

// A queue wakes its waiter when everything is done, so the waiter only has to look for failures now and then. It
// looks more often if spans are counted, and soon if looking is what moves messages.
static void wait_a_while(const struct interpreter *interpreter, bool is_for_all, uint64_t waited_ns)
{
    enum { FOR_FAILURES_NS = 10000000 };
    queue_wait_for(interpreter->needs.queue, interpreter->needs.transport->is_held ? SHORTEST_PAUSE_NS
                                    : is_for_all ? FOR_FAILURES_NS : pause_ns(waited_ns));
}

// Waits until at most `left` spans are still to be done (for 0, until the queue is done too), or until the queue has
// failed. The deadline starts anew with every action, as it does with every message.
static bool look_until_left(struct interpreter *interpreter, size_t left, struct error *error)
{
    uint64_t since_ns = 0;
    size_t come = 0;
    while (!queue_has_failed(interpreter->needs.queue)) {
        const size_t now_come = count_come(interpreter);
        if (left > 0 ? interpreter->ended - now_come <= left : queue_is_done(interpreter->needs.queue))
            break;
        const uint64_t now_ns = clock_now_ns();
        if (since_ns == 0 || now_come > come)
            since_ns = now_ns;
        come = now_come;
        tell_whereabouts(interpreter, come);
        if (!messages_are_well(interpreter, error))
            return false;
        if (now_ns - since_ns >= interpreter->needs.deadline_ns)
            return deadline_missed(interpreter, error);
        wait_a_while(interpreter, left == 0, now_ns - since_ns);
    }
    return true;
}

bool stay_near(struct interpreter *interpreter, struct error *error)
{
    enum { FAR = 64 };
    if (interpreter->ended - interpreter->well <= FAR)
        return true;
    const uint64_t begun_ns = clock_thread_cpu_ns();
    const bool good = look_until_left(interpreter, FAR, error);
    interpreter->looked_ns += clock_thread_cpu_ns() - begun_ns;
    return good;
}

bool await_device(struct interpreter *interpreter, struct error *error)
{
    const struct rank_record *record = record_of(interpreter);
    if (!look_until_left(interpreter, 0, error))
        return false;
    if (!queue_has_failed(interpreter->needs.queue))
        return messages_are_well(interpreter, error) && moves_are_well(interpreter, error);
    if (record->span_count > 0)
        return failed_by(interpreter, record->spans[record->span_count - 1].action, error);
    queue_report(interpreter->needs.queue, error);
    return error_at(error, "rank %u", interpreter->needs.rank);
}
