#include "runtime/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "device/communicator.h"
#include "runtime/session.h"
#include "runtime/shards/member_messages.h"

static const uint64_t most_drain_ns = 60u * (uint64_t)1000000000;

// --- freeing ------------------------------------------------------------------------------

// Frees the memory of ranks that were not left. No other rank uses it once a run has failed.
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

// If a run has failed, a queue may hold work that never ends. Once such a queue is found, no queue is waited for
// again.
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
        || error_hand_on(error, &session->left);
}

// Gives memory up for good to threads that may still use it. It is that of the whole session with all its ranks. If
// each rank has its memory for itself, the ranks that were not left are freed.
static uint64_t leave_all(struct session *session)
{
    const bool has_own_memory = !device_runs_ahead(session->device);
    const uint64_t bytes = bytes_of_left(session, !has_own_memory);
    if (has_own_memory)
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
    session_stop_ranks(session);
    look_for_hung_queue(session);
    if (session->left.kind != ERROR_NONE)
        return leave_all(session);
    if (session->has_lock) {
        pthread_cond_destroy(&session->commanded);
        pthread_cond_destroy(&session->parked);
        pthread_mutex_destroy(&session->lock);
    }
    // Queues finish all their work before what it needs is freed.
    for (uint32_t rank = 0; session->workers && rank < session->schedule->ranks; rank++)
        queue_free(session->workers[rank].queue);
    for (uint32_t rank = 0; session->workers && rank < session->schedule->ranks; rank++)
        exchange_free(session->workers[rank].exchange);
    for (uint32_t rank = 0; session->workers && rank < session->schedule->ranks; rank++)
        member_end_close(session->workers[rank].member_end);
    threads_free(session->threads);
    const bool is_free = wired_free(session->wired);
    if ((!is_free || device_is_stuck(session->device)) && session->settings.is_stuck)
        *session->settings.is_stuck = true;
    struct session *lender = session->settings.lender;
    for (uint32_t rank = 0; session->workers && rank < session->schedule->ranks; rank++) {
        interpreter_free(session->workers[rank].interpreter);
        slab_close(&session->workers[rank].slab);
        if (lender)
            slab_give_all(&lender->workers[rank].slab);
    }
    rank_status_close(&session->status);
    recorder_close(&session->recorder);
    weight_plan_close(&session->weight_plan);
    folds_close(&session->folds);
    collectives_close(&session->collectives);
    ties_close(&session->ties);
    placement_free(session->placement);
    auxiliary_losses_close(&session->auxiliary);
    arrays_clear(&session->arrays);
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

// Adds up the losses in the order of the parts.
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

// What the ranks with the last stage have counted, in this process and in all others.
static bool sum_metrics(struct session *session, struct error *error)
{
    const uint32_t count = session->last.metric_count, last_stage = session->schedule->stages - 1u;
    bool good = true;
    for (uint32_t copy = 0; good && count > 0 && copy < session_copies(session, last_stage); copy++) {
        const uint32_t rank = session_rank_of(session, last_stage, copy);
        uint64_t *counted = session->metrics + (rank + 1) * (size_t)count;
        good = group_broadcast(session->settings.group, rank, counted, count * sizeof *counted, error);
        for (uint32_t i = 0; good && i < count; i++)
            session->metrics[i] += counted[i];
    }
    return good;
}

// Those of all ranks, added up.
static bool measure_auxiliary(struct session *session, struct error *error)
{
    const struct process_group *group = session->settings.group;
    if (group && !auxiliary_losses_share(&session->auxiliary, group, session->schedule, session->stages, error))
        return false;
    auxiliary_losses_add_up(&session->auxiliary, session->settings.auxiliary_order);
    return true;
}

// Measurements of this process, and, in a process group, of all processes.
static bool measure(struct session *session, struct error *error)
{
    const struct process_group *group = session->settings.group;
    const struct measured_pass pass = {
        .per_rank = session->per_rank, .efforts = session->efforts, .stage_ns = session->stage_ns,
        .iteration_ns = &session->last.iteration_ns, .losses = session->losses,
    };
    add_up_losses(session);
    recorder_end(&session->recorder);
    recorder_results(&session->recorder, session->per_rank, &session->last.iteration_ns);
    time_stages(session);
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++)
        session->efforts[rank] = session->recorder.ranks[rank].effort;
    return (!group || share_pass(group, &session->recorder, &pass, error)) && measure_auxiliary(session, error)
        && sum_metrics(session, error);
}

// The weight of a micro-batch in the mean loss: its samples, if the last micro-batch may have fewer, else 1.
static uint64_t weight_of(const struct session_settings *settings, uint32_t micro_batch)
{
    const struct update_samples all = { .batch = settings->batch, .micro_batch = settings->micro_batch };
    return settings->batch > 0 ? samples_of(&all, micro_batch) : 1;
}

static double mean_of(const struct session *session, const float *losses)
{
    double sum = 0, weights = 0;
    for (uint32_t i = 0; i < session->schedule->micro_batches; i++) {
        const double weight = (double)weight_of(&session->settings, i);
        sum += weight * (double)losses[i];
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
    last->is_skipped = (session_scaling(session)->scale > 0 || session->settings.optimizer.halts)
                    && !isfinite(last->gradient_norm);
    last->slowest_stage = 0;
    for (uint32_t s = 1; s < session->schedule->stages; s++)
        if (session->stage_ns[s] > session->stage_ns[last->slowest_stage])
            last->slowest_stage = s;
    last->loss = mean_of(session, session->losses);
    last->auxiliary_loss = mean_of(session, session->auxiliary.sums);
}

// All ranks begin a pass together.
static bool begin(struct session *session, struct error *error)
{
    const struct process_group *group = session->settings.group;
    if (session->threads)
        threads_begin(session->threads);
    if (group && !group->all_gather(group->self, NULL, 0, NULL, error))
        return false;
    recorder_begin(&session->recorder);
    if (session->metrics)
        memset(session->metrics, 0,
               (session->schedule->ranks + 1u) * (size_t)session->last.metric_count * sizeof *session->metrics);
    return true;
}

bool session_step(struct session *session, struct error *error)
{
    struct error *failed = &session->failed;
    const bool is_first = failed->kind == ERROR_NONE;
    if (is_first && begin(session, failed) && session_command(session, COMMAND_RUN, failed)
        && measure(session, failed)) {
        session->steps++;
        sum_up(session);
        return true;
    }
    if (is_first && session->settings.failed)
        session->settings.failed(session->settings.self, session);
    return error_hand_on(error, failed);
}

bool session_evaluate(struct session *session, uint64_t step, void *last_inputs, struct error *error)
{
    const struct session *lender = session->settings.lender;
    const uint64_t bytes = session->settings.last_input_bytes;
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++)
        if (session_is_here(session, rank))
            interpreter_use_weights(session->workers[rank].interpreter, lender->workers[rank].interpreter);
    session->steps = step;
    session->last_inputs = last_inputs;
    bool good = session_step(session, error);
    const uint32_t last_stage = session->schedule->stages - 1u;
    char *to = last_inputs;
    for (uint32_t m = 0; good && to && m < session->schedule->micro_batches; m++, to += bytes)
        good = group_broadcast(session->settings.group, schedule_rank(session->schedule, last_stage, m), to, bytes,
                               error);
    return good;
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
    rank_status_write(&session->status, text);
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
