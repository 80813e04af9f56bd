// The ranks of a session as threads of this process: commands, and how long they are waited for.
#include <sched.h>

#include "common/clock.h"
#include "common/number.h"
#include "runtime/session.h"
#include "runtime/shards/shard_group.h"

static const uint64_t most_return_ns = 10u * (uint64_t)1000000000;

// --- a rank's thread --------------------------------------------------------------

// Pins to the n-th core that this process may use, as far as the kernel allows. Without pinning a pipeline is slower,
// never wrong.
static void pin_to_core(uint32_t rank)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    uint32_t skip = rank % (uint32_t)CPU_COUNT(&allowed);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed) || skip-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        return;
    }
}

static void do_command(struct worker *worker, enum command command)
{
    struct session *session = worker->session;
    if (command == COMMAND_INITIALIZE && !session->settings.lender)
        interpreter_initialize(worker->interpreter, &worker->error);
    if (command == COMMAND_RUN) {
        const bool good = interpreter_run(worker->interpreter, session->steps, &worker->error);
        if (!good && session->settings.shards)
            shard_group_abandon(session->settings.shards, session->settings.member, &worker->error);
        if (session->threads)
            threads_leave(session->threads, worker->rank);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct session *session = worker->session;
    uint64_t seen = 0;
    if (session->settings.pin)
        pin_to_core(session->settings.first_core + worker->rank);
    for (;;) {
        pthread_mutex_lock(&session->lock);
        while (session->commands == seen)
            pthread_cond_wait(&session->commanded, &session->lock);
        seen++;
        const enum command command = session->command;
        pthread_mutex_unlock(&session->lock);
        if (command == COMMAND_STOP)
            return NULL;
        do_command(worker, command);
        pthread_mutex_lock(&session->lock);
        worker->is_working = false;
        if (worker->is_left || --session->working == 0)
            pthread_cond_signal(&session->parked);
        pthread_mutex_unlock(&session->lock);
    }
}

static void give_command(struct session *session, enum command command)
{
    pthread_mutex_lock(&session->lock);
    session->command = command;
    session->commands++;
    session->working = 0;
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
        struct worker *worker = &session->workers[rank];
        if (!worker->started || worker->is_left)
            continue;
        worker->is_working = true;
        worker->looks = 0;
        session->working++;
    }
    pthread_cond_broadcast(&session->commanded);
    pthread_mutex_unlock(&session->lock);
}

// --- waiting for ranks ---------------------------------------------------------------

// Looks per deadline. Looks are counted rather than time, since the whole process may have been stopped for a while.
// They are at least half a second apart, since a thread that a busy machine does not schedule stands still, too.
enum { LOOKS = 8 };

static uint64_t look_ns_of(const struct session *session)
{
    const uint64_t least_ns = 500000000;
    return max_u64(session->settings.deadline_ns / LOOKS, least_ns);
}

// Whether a rank has stood still for too long. A rank that waits for another one ends its wait at the deadline by
// itself, and says for which rank it waits. So a waiting rank, and the ranks that it may wait for, get twice the
// deadline.
static bool does_not_move(struct session *session, struct worker *worker, bool others_wait)
{
    const uint64_t line = rank_status_line(&session->status, worker->rank);
    worker->looks = worker->looks > 0 && line == worker->seen ? worker->looks + 1 : 1;
    worker->seen = line;
    return worker->looks > (others_wait || rank_status_line_waits(line) ? 2 * LOOKS : LOOKS + 1);
}

static bool is_awaited(const struct worker *worker)
{
    return worker->is_working && !worker->is_left;
}

// The error of a rank that has ended, or NULL.
static const struct error *first_said(const struct session *session)
{
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++)
        if (!session->workers[rank].is_working && session->workers[rank].error.kind != ERROR_NONE)
            return &session->workers[rank].error;
    return NULL;
}

static void say_left(const struct session *session, const struct worker *worker, struct error *reason)
{
    char name[ACTION_SIZE], limit[NUMBER_SIZE];
    const char *action = rank_status_line_action(worker->seen, name);
    const struct error *said = first_said(session);
    const char *place = *action ? action : "the first weights of its layers";
    if (said)
        error_set_kind(reason, said->kind, "%s; rank %u is left at %s: a layer does not come back", said->text,
                       worker->rank, place);
    else
        error_set_kind(reason, ERROR_MACHINE,
                       "rank %u has been at %s for %s and is left there: a layer does not come back", worker->rank,
                       place, time_format(look_ns_of(session) * LOOKS, limit));
}

// With the lock held: stops waiting for the first rank that no longer moves. True if there is one.
static bool leave_one(struct session *session, struct error *reason)
{
    bool others_wait = false;
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++)
        others_wait |= is_awaited(&session->workers[rank])
                    && rank_status_line_waits(rank_status_line(&session->status, rank));
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
        struct worker *worker = &session->workers[rank];
        if (!is_awaited(worker) || !does_not_move(session, worker, others_wait))
            continue;
        say_left(session, worker, reason);
        worker->is_left = true;
        session->working--;
        if (session->left.kind == ERROR_NONE)
            session->left = *reason;
        return true;
    }
    return false;
}

// Ends the waits of other ranks for this one.
static void abandon(struct session *session, uint32_t rank, const struct error *reason)
{
    const struct process_group *group = session->settings.group;
    struct transport *transport = session->threads ? threads_transport(session->threads, rank) : NULL;
    if (session->settings.shards)
        shard_group_abandon(session->settings.shards, session->settings.member, reason);
    if (transport)
        transport->functions->abandon(transport, reason);
    if (group)
        group->abandon(group->self, reason);
}

static void await_ranks(struct session *session)
{
    const uint64_t look_ns = look_ns_of(session);
    pthread_mutex_lock(&session->lock);
    while (session->working > 0) {
        const uint64_t until_ns = add_clamped(clock_now_ns(), look_ns);
        struct error reason = { 0 };
        if (clock_wait(&session->parked, &session->lock, until_ns) || !leave_one(session, &reason))
            continue;
        pthread_mutex_unlock(&session->lock);
        abandon(session, session->settings.group ? session->settings.group->rank : 0, &reason);
        pthread_mutex_lock(&session->lock);
    }
    pthread_mutex_unlock(&session->lock);
}

bool session_command(struct session *session, enum command command, struct error *error)
{
    give_command(session, command);
    await_ranks(session);
    if (session->left.kind != ERROR_NONE)
        return error_hand_on(error, &session->left);
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
        const struct error *its = &session->workers[rank].error;
        if (its->kind != ERROR_NONE)
            return error_hand_on(error, its);
    }
    return true;
}

// --- starting and stopping ------------------------------------------------------------

bool session_start_ranks(struct session *session, struct error *error)
{
    pthread_mutex_init(&session->lock, NULL);
    pthread_cond_init(&session->commanded, NULL);
    pthread_cond_init(&session->parked, NULL);
    session->has_lock = true;
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
        struct worker *worker = &session->workers[rank];
        if (!session_is_here(session, rank))
            continue;
        worker->started = pthread_create(&worker->thread, NULL, work, worker) == 0;
        if (!worker->started)
            return error_set_kind(error, ERROR_MACHINE, "rank %u: no thread could be started (%u are running)", rank,
                                  rank);
    }
    return session_command(session, COMMAND_INITIALIZE, error);
}

// A rank that was only slow may have returned, or may do so soon. If all return, no rank is left.
static void take_back_left(struct session *session)
{
    const uint64_t until_ns = add_clamped(clock_now_ns(), min_u64(session->settings.deadline_ns, most_return_ns));
    bool is_late = false, is_one_left = true, was_one_left = false;
    pthread_mutex_lock(&session->lock);
    while (is_one_left && !is_late) {
        is_one_left = false;
        for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
            struct worker *worker = &session->workers[rank];
            was_one_left |= worker->is_left;
            worker->is_left = worker->is_left && worker->is_working;
            is_one_left |= worker->is_left;
        }
        is_late = is_one_left && !clock_wait(&session->parked, &session->lock, until_ns);
    }
    if (was_one_left && !is_one_left)
        session->left = (struct error){ 0 };
    pthread_mutex_unlock(&session->lock);
}

void session_stop_ranks(struct session *session)
{
    if (!session->has_lock)
        return;
    if (session->left.kind != ERROR_NONE)
        take_back_left(session);
    give_command(session, COMMAND_STOP);
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
        struct worker *worker = &session->workers[rank];
        if (worker->started && worker->is_left)
            pthread_detach(worker->thread);
        else if (worker->started)
            pthread_join(worker->thread, NULL);
    }
}
