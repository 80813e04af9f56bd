#include "runtime/run.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "device/communicator.h"
#include "runtime/channels.h"
#include "runtime/session.h"
#include "runtime/shard_meeting.h"

static const uint64_t usual_deadline_ns = 600u * (uint64_t)1000000000, most_drain_ns = 60u * (uint64_t)1000000000,
                      most_return_ns = 10u * (uint64_t)1000000000;

// --- a rank's thread --------------------------------------------------------------

// To the n-th core this process may use, as far as the kernel lets us; a pipeline
// that is not pinned is slower, never wrong.
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
    if (command == COMMAND_INITIALIZE)
        interpreter_initialize(worker->interpreter, &worker->error);
    if (command == COMMAND_RUN) {
        const bool good = interpreter_run(worker->interpreter, session->steps, &worker->error);
        if (!good && session->settings.shards)
            shard_meeting_abandon(session->settings.shards, session->settings.member, &worker->error);
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
            pthread_cond_wait(&session->told, &session->lock);
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

static void tell(struct session *session, enum command command)
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
    pthread_cond_broadcast(&session->told);
    pthread_mutex_unlock(&session->lock);
}

// --- waiting for ranks ---------------------------------------------------------------

// In a deadline. Looks are counted, and not time, in which the whole process may have been stopped; and they are half a
// second apart at least: a thread that a busy machine does not let run stands still, too.
enum { LOOKS = 8 };

static uint64_t look_ns_of(const struct session *session)
{
    const uint64_t least_ns = 500000000;
    return max_u64(session->settings.deadline_ns / LOOKS, least_ns);
}

// Whether it stands still, and longer than others may that it is told of: a rank that waits ends that at the deadline by
// itself, and says for whom it waits, so it is given as much again, and so are those that it may wait for.
static bool does_not_move(struct session *session, struct worker *worker, bool others_wait)
{
    const uint64_t line = whereabouts_line(&session->whereabouts, worker->rank);
    worker->looks = worker->looks > 0 && line == worker->seen ? worker->looks + 1 : 1;
    worker->seen = line;
    return worker->looks > (others_wait || whereabouts_line_waits(line) ? 2 * LOOKS : LOOKS + 1);
}

static bool is_awaited(const struct worker *worker)
{
    return worker->is_working && !worker->is_left;
}

// What ranks have said that have ended, or nothing.
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
    const char *action = whereabouts_line_action(worker->seen, name);
    const struct error *said = first_said(session);
    const char *at = *action ? action : "the first weights of its layers";
    if (said)
        error_set_kind(reason, said->kind, "%s; rank %u is left at %s: a layer does not come back", said->text,
                       worker->rank, at);
    else
        error_set_kind(reason, ERROR_MACHINE, "rank %u has been at %s for %s and is left there: a layer does not come back",
                       worker->rank, at, time_format(look_ns_of(session) * LOOKS, limit));
}

// Under the lock. The first rank that does not move any more is waited for no longer: true.
static bool leave_one(struct session *session, struct error *reason)
{
    bool others_wait = false;
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++)
        others_wait |= is_awaited(&session->workers[rank])
                    && whereabouts_line_waits(whereabouts_line(&session->whereabouts, rank));
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

// Those that wait for it wait no longer.
static void abandon(struct session *session, uint32_t rank, const struct error *reason)
{
    const struct process_group *group = session->settings.group;
    struct transport *transport = session->threads ? threads_transport(session->threads, rank) : NULL;
    if (session->settings.shards)
        shard_meeting_abandon(session->settings.shards, session->settings.member, reason);
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
        const struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000),
                                        .tv_nsec = (long)(until_ns % 1000000000) };
        struct error reason = { 0 };
        if (pthread_cond_clockwait(&session->parked, &session->lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT
            || !leave_one(session, &reason))
            continue;
        pthread_mutex_unlock(&session->lock);
        abandon(session, session->settings.group ? session->settings.group->rank : 0, &reason);
        pthread_mutex_lock(&session->lock);
    }
    pthread_mutex_unlock(&session->lock);
}

// All ranks do it; true when none failed. Every rank that fails tells the others,
// so all errors are the first one; which is taken does not matter. What a rank that was left says may come at any time.
static bool tell_and_wait(struct session *session, enum command command, struct error *error)
{
    tell(session, command);
    await_ranks(session);
    if (session->left.kind != ERROR_NONE)
        return error_set_kind(error, session->left.kind, "%s", session->left.text);
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
        const struct error *its = &session->workers[rank].error;
        if (its->kind != ERROR_NONE)
            return error_set_kind(error, its->kind, "%s", its->text);
    }
    return true;
}

// --- making ---------------------------------------------------------------------------

static void explain(void *self, struct error *error)
{
    whereabouts_report(self, error);
    error_at(error, "nothing can ever move");
}

static bool fits_together(const struct schedule *schedule, const struct stage *stages, struct error *error)
{
    for (uint32_t s = 0; s + 1 < schedule->stages; s++)
        if (stages[s].bytes.output != stages[s + 1].bytes.input)
            return error_set(error, "stage %u hands on %llu bytes, but stage %u takes %llu", s,
                             (unsigned long long)stages[s].bytes.output, s + 1,
                             (unsigned long long)stages[s + 1].bytes.input);
    return true;
}

static bool open_engine(struct session *session, const struct session_settings *settings, struct error *error)
{
    const struct schedule *schedule = session->schedule;
    struct channel *channels = channels_create(schedule, session->stages, error);
    if (!channels)
        return false;
    const struct threads_settings threads = {
        .capacity = settings->capacity,
        .network = settings->network,
        .placement = session->placement,
        .ties = &session->ties,
        .device = session->device,
        .explain = explain,
        .self = &session->whereabouts,
    };
    session->threads = threads_create(schedule->ranks, channels, channel_count(schedule), &threads, error);
    free(channels);
    return session->threads != NULL;
}

static bool open_wires(struct session *session, struct error *error)
{
    const struct wired_settings wired = {
        .schedule = session->schedule,
        .placement = session->placement,
        .ties = &session->ties,
        .device = session->device,
        .group = session->settings.group,
        .deadline_ns = session->settings.deadline_ns,
        .one_for_all = session->settings.one_communicator,
    };
    session->wired = wired_create(&wired, error);
    return session->wired != NULL;
}

static bool open_shared(struct session *session, const struct session_settings *settings, struct error *error)
{
    const struct schedule *schedule = session->schedule;
    if (!(session->placement = placement_read(schedule, error))
        || !ties_open(&session->ties, session->stages, schedule, session->placement, settings->optimizer.clip > 0,
                      session->settings.scaling.scale > 0, error)
        || !weight_plan_open(&session->weight_plan, schedule, session->placement, error)
        || !meetings_open(&session->meetings, schedule, session->placement, session->stages[0].shard, error)
        || !whereabouts_open(&session->whereabouts, schedule, session->placement, &session->ties,
                             settings->group, error)
        || !recorder_open(&session->recorder, schedule, session->device, error))
        return false;
    weight_plan_keep_for_absent(&session->weight_plan, &session->meetings);
    return settings->group ? open_wires(session, error) : open_engine(session, settings, error);
}
// The slab of a rank, from the stages that are on it.
static bool open_slab(struct worker *worker, const struct slots *slots, struct error *error)
{
    const struct session *session = worker->session;
    const uint32_t stages = session->schedule->stages;
    struct stage_bytes *bytes = calloc(stages, sizeof *bytes);
    struct slots *own = calloc(stages, sizeof *own);
    uint32_t count = 0;
    for (uint32_t s = 0; bytes && own && s < stages; s++) {
        if (placement_find(session->placement, s, worker->rank) == NOT_HELD)
            continue;
        bytes[count] = stage_bytes_of_split(session->stages[s].bytes, session->schedule->splits);
        own[count++] = slots[s];
    }
    const bool good = bytes && own ? slab_open(&worker->slab, session->device, bytes, own, count, error)
                                   : error_no_memory(error, "the stages of a rank");
    free(bytes);
    free(own);
    return good;
}

static bool open_worker(struct worker *worker, const struct slots *slots, struct error *error)
{
    struct session *session = worker->session;
    worker->queue = queue_create(session->device, error);
    if (!worker->queue || !open_slab(worker, slots, error)
        || (session->wired && !wired_register(session->wired, worker->slab.memory, worker->slab.bytes, error)))
        return error_at(error, "rank %u", worker->rank);
    const struct interpreter_needs needs = {
        .schedule = session->schedule,
        .stages = session->stages,
        .weight_plan = &session->weight_plan,
        .ties = &session->ties,
        .meetings = &session->meetings,
        .rank = worker->rank,
        .waiting = session->settings.waiting,
        .deadline_ns = session->settings.deadline_ns,
        .transport = session->wired ? wired_transport(session->wired)
                                    : threads_transport(session->threads, worker->rank),
        .queue = worker->queue,
        .captures_at_once = !session->wired,
        .slab = &worker->slab,
        .optimizer = &session->settings.optimizer,
        .split = session->settings.split,
        .member = session->settings.member,
        .recorder = &session->recorder,
        .whereabouts = &session->whereabouts,
        .losses = session->part_losses,
        .updates_before = session->updates_before,
        .scaling = session->settings.scaling,
    };
    worker->interpreter = interpreter_create(&needs, error);
    return worker->interpreter != NULL;
}

static bool open_workers(struct session *session, struct error *error)
{
    const struct schedule *schedule = session->schedule;
    struct slots *slots = calloc(schedule->stages, sizeof *slots);
    bool good = slots ? slots_count(schedule, slots, error) : error_no_memory(error, "the slots of a schedule");
    for (uint32_t rank = 0; good && rank < schedule->ranks; rank++) {
        session->workers[rank].session = session;
        session->workers[rank].rank = rank;
        good = !session_is_here(session, rank) || open_worker(&session->workers[rank], slots, error);
    }
    free(slots);
    return good;
}

static bool start_threads(struct session *session, struct error *error)
{
    pthread_mutex_init(&session->lock, NULL);
    pthread_cond_init(&session->told, NULL);
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
    return tell_and_wait(session, COMMAND_INITIALIZE, error);
}

static bool open_results(struct session *session, struct error *error)
{
    const struct schedule *schedule = session->schedule;
    session->losses = calloc(schedule->micro_batches + 1u, sizeof *session->losses);
    session->part_losses = calloc(parts_of(schedule) + 1u, sizeof *session->part_losses);
    session->workers = calloc(schedule->ranks, sizeof *session->workers);
    session->per_rank = calloc(schedule->ranks, sizeof *session->per_rank);
    session->waited_ns = calloc(schedule->ranks, sizeof *session->waited_ns);
    session->host_ns = calloc(schedule->ranks, sizeof *session->host_ns);
    session->replayed = calloc(schedule->ranks, sizeof *session->replayed);
    session->stage_ns = calloc(schedule->stages, sizeof *session->stage_ns);
    session->bytes = calloc(schedule->ranks, sizeof *session->bytes);
    session->updates_before = calloc(schedule->stages, sizeof *session->updates_before);
    session->last = (struct session_result){ .ranks = schedule->ranks, .per_rank = session->per_rank,
                                             .waited_ns = session->waited_ns, .host_ns = session->host_ns,
                                             .replayed = session->replayed, .losses = session->losses };
    if (!session->losses || !session->part_losses || !session->workers || !session->per_rank || !session->waited_ns
        || !session->host_ns || !session->replayed || !session->stage_ns || !session->bytes || !session->updates_before)
        return error_no_memory(error, "the results of a session");
    return true;
}

static bool copy_what_is_given(struct session *session, const struct schedule *lowered, const struct stage *stages,
                               struct error *error)
{
    session->schedule = schedule_copy(lowered, error);
    if (!session->schedule)
        return false;
    session->stages = malloc(lowered->stages * sizeof *stages);
    if (!session->stages)
        return error_no_memory(error, "the stages of a session");
    memcpy(session->stages, stages, lowered->stages * sizeof *stages);
    return true;
}

// What each rank has allocated, told to all.
static bool open_bytes(struct session *session, struct error *error)
{
    const struct process_group *group = session->settings.group;
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
        const struct slab *slab = &session->workers[rank].slab;
        session->bytes[rank] = (struct rank_bytes){ slab->bytes, slab->host_bytes };
    }
    const struct rank_bytes own = session->bytes[group ? group->rank : 0];
    return !group || group->all_gather(group->self, &own, sizeof own, session->bytes, error);
}

static struct session *create(const struct schedule *lowered, const struct stage *stages, struct device *device,
                              const struct session_settings *settings, struct error *error)
{
    if (!fits_together(lowered, stages, error))
        return NULL;
    struct session *session = calloc(1, sizeof *session);
    if (!session) {
        error_no_memory(error, "a session");
        return NULL;
    }
    session->device = device;
    session->settings = *settings;
    session->settings.network = NULL;
    if (session->settings.deadline_ns == 0)
        session->settings.deadline_ns = usual_deadline_ns;
    if (!loss_scaling_open(&session->settings.scaling, &settings->scaling, device_precision(device), error)
        || !copy_what_is_given(session, lowered, stages, error) || !open_results(session, error)
        || !open_shared(session, settings, error) || !open_workers(session, error)
        || !start_threads(session, error) || !open_bytes(session, error)) {
        session->failed = *error;
        session_free(session);
        return NULL;
    }
    return session;
}

struct session *session_create(const struct schedule *lowered, const struct stage *stages, struct device *device,
                               const struct session_settings *settings, struct error *error)
{
    struct error reason = { 0 };
    struct session *session = create(lowered, stages, device, settings, &reason);
    if (session && settings->opened)
        settings->opened(settings->self, session);
    if (session)
        return session;
    if (settings->group)
        settings->group->abandon(settings->group->self, &reason);
    error_set_kind(error, reason.kind, "%s", reason.text);
    return NULL;
}

// A rank that was only slow has come back, or does so soon: then nothing is left.
static void take_back_left(struct session *session)
{
    const uint64_t until_ns = add_clamped(clock_now_ns(), min_u64(session->settings.deadline_ns, most_return_ns));
    const struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000) };
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
        is_late = is_one_left
            && pthread_cond_clockwait(&session->parked, &session->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
    }
    if (was_one_left && !is_one_left)
        session->left = (struct error){ 0 };
    pthread_mutex_unlock(&session->lock);
}

// One that was left ends by itself, if it ever comes back.
static void stop_threads(struct session *session)
{
    if (!session->has_lock)
        return;
    if (session->left.kind != ERROR_NONE)
        take_back_left(session);
    tell(session, COMMAND_STOP);
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
        struct worker *worker = &session->workers[rank];
        if (worker->started && worker->is_left)
            pthread_detach(worker->thread);
        else if (worker->started)
            pthread_join(worker->thread, NULL);
    }
}

// What a rank has that was not left, which nobody else touches once a run has failed.
static void free_ranks(struct session *session)
{
    for (uint32_t rank = 0; session->workers && rank < session->schedule->ranks; rank++) {
        struct worker *worker = &session->workers[rank];
        if (worker->is_left)
            continue;
        queue_free(worker->queue);
        interpreter_free(worker->interpreter);
        slab_close(&worker->slab);
    }
}

static uint64_t bytes_of_left(const struct session *session, bool of_all)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; session->workers && rank < session->schedule->ranks; rank++)
        if (of_all || session->workers[rank].is_left)
            bytes += session->workers[rank].slab.bytes + session->workers[rank].slab.host_bytes;
    return bytes;
}

// Where a run has failed, a queue may hold what never comes to its end; which is looked for once.
static void look_for_hung_queue(struct session *session)
{
    const uint64_t within_ns = min_u64(session->settings.deadline_ns, most_drain_ns);
    const bool may_hang = session->failed.kind != ERROR_NONE && session->left.kind == ERROR_NONE
                       && device_runs_ahead(session->device);
    char limit[NUMBER_SIZE];
    for (uint32_t rank = 0; may_hang && session->workers && rank < session->schedule->ranks; rank++)
        if (session->workers[rank].queue && !queue_ends_within(session->workers[rank].queue, within_ns)) {
            error_set_kind(&session->left, ERROR_MACHINE, "rank %u: what its device was given has not come to an end"
                           " within %s: a layer does not come back", rank, time_format(within_ns, limit));
            return;
        }
}

bool session_is_usable(struct session *session, struct error *error)
{
    look_for_hung_queue(session);
    return session->left.kind == ERROR_NONE
        || error_set_kind(error, session->left.kind, "%s", session->left.text);
}

// To who may still use it, for good: the session with all of its ranks, or but for those that were not left, where each
// has its memory for itself.
static uint64_t leave_all(struct session *session)
{
    const bool is_apart = !device_runs_ahead(session->device);
    const uint64_t bytes = bytes_of_left(session, !is_apart);
    if (is_apart)
        free_ranks(session);
    device_leave(session->device);
    if (session->settings.is_stuck)
        *session->settings.is_stuck = true;
    return bytes > 0 ? bytes : 1;
}

uint64_t session_free(struct session *session)
{
    if (!session)
        return 0;
    stop_threads(session);
    look_for_hung_queue(session);
    if (session->left.kind != ERROR_NONE)
        return leave_all(session);
    if (session->has_lock) {
        pthread_cond_destroy(&session->told);
        pthread_cond_destroy(&session->parked);
        pthread_mutex_destroy(&session->lock);
    }
    // All that queues still have to do is done before anything it needs goes.
    for (uint32_t rank = 0; session->workers && rank < session->schedule->ranks; rank++)
        queue_free(session->workers[rank].queue);
    threads_free(session->threads);
    const bool is_free = wired_free(session->wired);
    if ((!is_free || device_is_stuck(session->device)) && session->settings.is_stuck)
        *session->settings.is_stuck = true;
    for (uint32_t rank = 0; session->workers && rank < session->schedule->ranks; rank++) {
        interpreter_free(session->workers[rank].interpreter);
        slab_close(&session->workers[rank].slab);
    }
    whereabouts_close(&session->whereabouts);
    recorder_close(&session->recorder);
    weight_plan_close(&session->weight_plan);
    meetings_close(&session->meetings);
    ties_close(&session->ties);
    placement_free(session->placement);
    free(session->losses);
    free(session->part_losses);
    free(session->workers);
    free(session->per_rank);
    free(session->waited_ns);
    free(session->host_ns);
    free(session->replayed);
    free(session->stage_ns);
    free(session->bytes);
    free(session->updates_before);
    free(session->stages);
    schedule_free(session->schedule);
    free(session);
    return 0;
}

// --- stepping -----------------------------------------------------------------------------

static void time_stages(struct session *session)
{
    memset(session->stage_ns, 0, session->schedule->stages * sizeof *session->stage_ns);
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
        const struct rank_record *record = &session->recorder.ranks[rank];
        for (size_t i = 0; i < record->span_count; i++)
            session->stage_ns[record->spans[i].action.stage] += record->spans[i].end_ns - record->spans[i].start_ns;
    }
}

// In the order of the parts.
static void add_up_losses(struct session *session)
{
    const uint32_t splits = session->schedule->splits;
    for (uint32_t m = 0; m < session->schedule->micro_batches; m++) {
        const float *parts = &session->part_losses[(size_t)m * splits];
        session->losses[m] = parts[0];
        for (uint32_t s = 1; s < splits; s++)
            session->losses[m] += parts[s];
    }
}

// What this process has seen, and, in a process group, what all have.
static bool measure(struct session *session, struct error *error)
{
    const struct process_group *group = session->settings.group;
    const struct measured_pass pass = {
        .per_rank = session->per_rank, .waited_ns = session->waited_ns, .host_ns = session->host_ns,
        .replayed = session->replayed, .stage_ns = session->stage_ns, .iteration_ns = &session->last.iteration_ns,
        .losses = session->losses,
    };
    add_up_losses(session);
    recorder_end(&session->recorder);
    recorder_results(&session->recorder, session->per_rank, &session->last.iteration_ns);
    time_stages(session);
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
        session->waited_ns[rank] = session->recorder.ranks[rank].waited_ns;
        session->host_ns[rank] = session->recorder.ranks[rank].host_ns;
        session->replayed[rank] = session->recorder.ranks[rank].replayed;
    }
    return !group || share_pass(group, &session->recorder, &pass, error);
}

// Of what it is the mean over: samples, of which the last micro-batch may have fewer, or micro-batches.
static uint64_t weight_of(const struct session_settings *settings, uint32_t micro_batch)
{
    const uint64_t before = micro_batch * settings->micro_batch;
    return settings->batch > 0 ? min_u64(settings->batch - before, settings->micro_batch) : 1;
}

static double mean_loss(const struct session *session)
{
    double sum = 0, weights = 0;
    for (uint32_t i = 0; i < session->schedule->micro_batches; i++) {
        const double weight = (double)weight_of(&session->settings, i);
        sum += weight * (double)session->losses[i];
        weights += weight;
    }
    return weights > 0 ? sum / weights : 0;
}

static void sum_up(struct session *session)
{
    struct session_result *last = &session->last;
    for (uint32_t rank = 0; rank < last->ranks; rank++)
        session->per_rank[rank].live_peak_bytes = session->bytes[rank].device;
    last->bubble = bubble_of(last->iteration_ns, session->per_rank, last->ranks);
    last->gradient_norm = interpreter_gradient_norm(session_any_interpreter(session));
    last->is_skipped = session_scaling(session)->scale > 0 && !isfinite(last->gradient_norm);
    last->slowest_stage = 0;
    for (uint32_t s = 1; s < session->schedule->stages; s++)
        if (session->stage_ns[s] > session->stage_ns[last->slowest_stage])
            last->slowest_stage = s;
    last->loss = mean_loss(session);
}

// All ranks begin together.
static bool begin(struct session *session, struct error *error)
{
    const struct process_group *group = session->settings.group;
    if (session->threads)
        threads_begin(session->threads);
    if (group && !group->all_gather(group->self, NULL, 0, NULL, error))
        return false;
    recorder_begin(&session->recorder);
    return true;
}

bool session_step(struct session *session, struct error *error)
{
    struct error *failed = &session->failed;
    const bool is_first = failed->kind == ERROR_NONE;
    if (is_first && begin(session, failed) && tell_and_wait(session, COMMAND_RUN, failed)
        && measure(session, failed)) {
        session->steps++;
        sum_up(session);
        return true;
    }
    if (is_first && session->settings.failed)
        session->settings.failed(session->settings.self, session);
    return error_set_kind(error, failed->kind, "%s", failed->text);
}

void session_say_wiring(const struct session *session, struct text *text)
{
    struct communication communication;
    struct error unknown = { 0 };
    if (!session->wired || !device_communication(session->device, &communication, &unknown))
        return;
    text_add(text, "%s: ", communication.library);
    wiring_say(wired_wiring(session->wired), text);
}

bool session_last_actions(const struct session *session, struct timeline *timeline, struct error *error)
{
    return recorder_last_actions(&session->recorder, timeline, error);
}

void session_whereabouts(const struct session *session, struct text *text)
{
    whereabouts_write(&session->whereabouts, text);
}

const struct session_result *session_last(const struct session *session)
{
    return &session->last;
}

bool session_timeline(struct session *session, struct timeline *timeline, struct error *error)
{
    const struct process_group *group = session->settings.group;
    if (group && !share_spans(group, &session->recorder, error))
        return false;
    return recorder_timeline(&session->recorder, timeline, error);
}

void session_set_rate(struct session *session, float rate)
{
    session->settings.optimizer.rate = rate;
}

uint64_t session_slab_bytes(const struct session *session, uint32_t rank)
{
    return session->bytes[rank].device;
}

uint64_t session_host_bytes(const struct session *session, uint32_t rank)
{
    return session->bytes[rank].host;
}
