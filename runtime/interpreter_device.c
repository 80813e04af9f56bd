// Waiting for the rank's own queue, which may be behind the host, and what it says when
// something in it has failed.
#include "common/clock.h"
#include "common/number.h"
#include "common/pause.h"
#include "runtime/interpreting.h"

static struct rank_record *record_of(const struct interpreter *in)
{
    return &in->needs.recorder->ranks[in->needs.rank];
}

struct recording begin_span(struct interpreter *in, const struct action *actions, size_t count)
{
    return recorder_add(in->needs.recorder, in->needs.rank, actions, count);
}

void end_span(struct interpreter *in, struct span_events events)
{
    event_record(events.end, in->needs.queue);
    in->latest = events.end;
    in->ended = record_of(in)->span_count;
}

void begin_replay(struct interpreter *in, const struct replay_key *key)
{
    replays_begin(&in->replays, key);
}

void end_replay(struct interpreter *in)
{
    record_of(in)->replayed += replays_end(&in->replays);
}

void queue_behind(struct interpreter *in, struct event *event)
{
    if (event)
        queue_wait_event(in->needs.queue, event);
}

// --- failures ------------------------------------------------------------------------

// How many spans have come; well, unless the queue says otherwise behind that.
static size_t count_come(struct interpreter *in)
{
    size_t come = in->well;
    while (come < in->ended && event_done(record_of(in)->events[come].end))
        come++;
    if (!queue_has_failed(in->needs.queue))
        in->well = come;
    return come;
}

// Where a message never came, the queue goes on all the same, with whatever bytes are there: that one is the reason.
static bool messages_are_well(struct interpreter *in, struct error *error)
{
    return in->needs.transport->functions->check(in->needs.transport, error);
}

// It was an action behind those that are known to have been done well, up to the last
// that was given.
static bool failed_by(struct interpreter *in, struct action last, struct error *error)
{
    const struct rank_record *record = record_of(in);
    char first[ACTION_SIZE], name[ACTION_SIZE];
    if (!messages_are_well(in, error))
        return false;
    queue_report(in->needs.queue, error);
    if (!device_runs_ahead(queue_device(in->needs.queue)) || in->well + 1 >= record->span_count)
        return at_action(in, last, error);
    return error_at(error, "rank %u: one of the actions from %s to %s", in->needs.rank,
                    action_format(record->spans[in->well].action, first), action_format(last, name));
}

bool is_well(struct interpreter *in, struct action action, struct error *error)
{
    if (queue_has_failed(in->needs.queue))
        return failed_by(in, action, error);
    count_come(in);
    return true;
}

// --- the end of a pass -----------------------------------------------------------------

// The receive that an action's queue waits for, if its message has not come.
static bool waits_for_message(const struct interpreter *in, struct action action, struct action *receive)
{
    const struct flight *flight = flights_flight(&in->flights, action);
    const bool goes_back = action.kind == ACTION_B || action.kind == ACTION_I;
    if (action.kind != ACTION_F && !goes_back)
        return false;
    const struct ticket *ticket = goes_back ? &flight->output_gradient : &flight->input;
    *receive = action;
    receive->kind = goes_back ? ACTION_RECV_B : ACTION_RECV_F;
    return ticket->done && ticket->event && !event_done(ticket->event);
}

// Says on the board what the queue is at.
static void tell_whereabouts(const struct interpreter *in, size_t come)
{
    struct action receive;
    if (come >= in->ended)
        return;
    const struct action action = record_of(in)->spans[come].action;
    if (waits_for_message(in, action, &receive))
        whereabouts_wait(in->needs.whereabouts, in->needs.rank, receive);
    else
        whereabouts_act(in->needs.whereabouts, in->needs.rank, action);
}

// A queue wakes who waits for it when all is done, and then one has to look for failures only; more often where spans
// are counted, and soon where looking moves messages.
static void wait_a_while(const struct interpreter *in, bool is_for_all, uint64_t waited_ns)
{
    enum { FOR_FAILURES_NS = 10000000 };
    queue_wait_for(in->needs.queue, in->needs.transport->is_held ? SHORTEST_PAUSE_NS
                                    : is_for_all ? FOR_FAILURES_NS : pause_ns(waited_ns));
}

// Until at most so many spans are left to be done; of 0, until the queue is, too. Or it has failed. Every action has
// the deadline anew, as every message has.
static bool look_until_left(struct interpreter *in, size_t left, struct error *error)
{
    uint64_t since_ns = 0;
    size_t come = 0;
    while (!queue_has_failed(in->needs.queue)) {
        const size_t now_come = count_come(in);
        if (left > 0 ? in->ended - now_come <= left : queue_is_done(in->needs.queue))
            break;
        const uint64_t now_ns = clock_now_ns();
        if (since_ns == 0 || now_come > come)
            since_ns = now_ns;
        come = now_come;
        tell_whereabouts(in, come);
        if (!messages_are_well(in, error))
            return false;
        if (now_ns - since_ns >= in->needs.deadline_ns)
            return deadline_missed(in, error);
        wait_a_while(in, left == 0, now_ns - since_ns);
    }
    return true;
}

bool stay_near(struct interpreter *in, struct error *error)
{
    enum { FAR = 64 };
    if (in->ended - in->well <= FAR)
        return true;
    const uint64_t begun_ns = clock_thread_cpu_ns();
    const bool good = look_until_left(in, FAR, error);
    in->looked_ns += clock_thread_cpu_ns() - begun_ns;
    return good;
}

bool await_device(struct interpreter *in, struct error *error)
{
    const struct rank_record *record = record_of(in);
    if (!look_until_left(in, 0, error))
        return false;
    if (!queue_has_failed(in->needs.queue))
        return messages_are_well(in, error) && moves_are_well(in, error);
    if (record->span_count > 0)
        return failed_by(in, record->spans[record->span_count - 1].action, error);
    queue_report(in->needs.queue, error);
    return error_at(error, "rank %u", in->needs.rank);
}
