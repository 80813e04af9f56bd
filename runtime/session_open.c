// How a session is made of a schedule, its stages and a device.
#include <stdlib.h>
#include <string.h>

#include "runtime/session.h"
#include "runtime/shards/member_messages.h"
#include "runtime/transport/channels.h"

static const uint64_t usual_deadline_ns = 600u * (uint64_t)1000000000;

static void explain(void *self, struct error *error)
{
    rank_status_report(self, error);
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
        .self = &session->status,
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
        || !ties_open(&session->ties, session->stages, schedule, session->placement, &settings->optimizer,
                      session->settings.scaling.scale > 0, error)
        || !weight_plan_open(&session->weight_plan, schedule, session->placement, error)
        || !folds_open(&session->folds, schedule, error)
        || !collectives_open(&session->collectives, schedule, session->placement, session->stages[0].shard, error)
        || !rank_status_open(&session->status, schedule, session->placement, &session->ties,
                             settings->group, error)
        || !recorder_open(&session->recorder, schedule, session->device, error))
        return false;
    weight_plan_keep_for_absent(&session->weight_plan, &session->collectives);
    return settings->group ? open_wires(session, error) : open_engine(session, settings, error);
}
// Allocates the slab of a rank, for the stages that are on it.
static bool open_slab(struct worker *worker, const struct slots *slots, struct error *error)
{
    const struct session *session = worker->session;
    const uint32_t stages = session->schedule->stages;
    struct stage_bytes *bytes = calloc(stages, sizeof *bytes);
    struct slots *rank_slots = calloc(stages, sizeof *rank_slots);
    uint32_t count = 0;
    for (uint32_t s = 0; bytes && rank_slots && s < stages; s++) {
        if (placement_find(session->placement, s, worker->rank) == NOT_HELD)
            continue;
        bytes[count] = stage_bytes_of_split(session->stages[s].bytes, session->schedule->splits);
        rank_slots[count++] = slots[s];
    }
    const bool good = bytes && rank_slots ? slab_open(&worker->slab, session->device, bytes, rank_slots, count, error)
                                          : error_no_memory(error, "the stages of a rank");
    free(bytes);
    free(rank_slots);
    return good;
}

static uint32_t metric_count(const struct session *session)
{
    return session->stages[session->schedule->stages - 1].metric_count;
}

// Those of all stages.
static uint32_t auxiliary_count(const struct session *session)
{
    const struct stage *last = &session->stages[session->schedule->stages - 1];
    return last->first_auxiliary + last->auxiliary_count;
}

// The rank's end of all messages. If the schedule exchanges, those to itself are taken out.
static struct transport *open_transport(struct worker *worker, struct error *error)
{
    const struct session *session = worker->session;
    struct transport *transport = session->wired ? wired_transport(session->wired)
                                                 : threads_transport(session->threads, worker->rank);
    struct exchange_settings settings = {
        .schedule = session->schedule, .rank = worker->rank, .device = session->device, .others = transport,
        .members = 1, .deadline_ns = session->settings.deadline_ns,
    };
    if (!session->schedule->exchanges)
        return transport;
    if (session->settings.exchanged
        && !(worker->member_end = member_end_open(session->settings.exchanged, session->settings.member, &settings,
                                                  error)))
        return NULL;
    worker->exchange = exchange_create(&settings, error);
    return worker->exchange ? exchange_transport(worker->exchange) : NULL;
}

static bool open_worker(struct worker *worker, const struct slots *slots, struct error *error)
{
    struct session *session = worker->session;
    struct session *lender = session->settings.lender;
    struct slab *slab = lender ? &lender->workers[worker->rank].slab : &worker->slab;
    worker->queue = queue_create(session->device, error);
    if (!worker->queue || (!lender && !open_slab(worker, slots, error))
        || (session->wired && !wired_register(session->wired, slab->memory, slab->bytes, error)))
        return error_at(error, "rank %u", worker->rank);
    struct transport *transport = open_transport(worker, error);
    if (!transport)
        return error_at(error, "rank %u", worker->rank);
    const struct interpreter_needs needs = {
        .schedule = session->schedule,
        .stages = session->stages,
        .weight_plan = &session->weight_plan,
        .folds = &session->folds,
        .ties = &session->ties,
        .collectives = &session->collectives,
        .rank = worker->rank,
        .waiting = session->settings.waiting,
        .deadline_ns = session->settings.deadline_ns,
        .transport = transport,
        .queue = worker->queue,
        .captures_at_once = !session->wired,
        .slab = slab,
        .optimizer = &session->settings.optimizer,
        .split = session->settings.split,
        .member = session->settings.member,
        .recorder = &session->recorder,
        .status = &session->status,
        .samples = { session->weight_plan.samples, session->settings.batch, session->settings.micro_batch },
        .losses = session->part_losses,
        .auxiliary_losses = session->auxiliary.parts,
        .auxiliary_count = session->auxiliary.count,
        .metrics = session->metrics ? session->metrics + (worker->rank + 1) * metric_count(session) : NULL,
        .last_inputs = session->settings.lender ? &session->last_inputs : NULL,
        .last_input_bytes = session->settings.last_input_bytes,
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

static bool open_results(struct session *session, struct error *error)
{
    const struct schedule *schedule = session->schedule;
    struct arrays *arrays = &session->arrays;
    if (!auxiliary_losses_open(&session->auxiliary, auxiliary_count(session), schedule->micro_batches,
                               schedule->splits, error))
        return false;
    session->losses = arrays_add(arrays, schedule->micro_batches, sizeof *session->losses);
    session->part_losses = arrays_add(arrays, parts_of(schedule), sizeof *session->part_losses);
    if (metric_count(session) > 0)
        session->metrics =
            arrays_add(arrays, (schedule->ranks + 1u) * (size_t)metric_count(session), sizeof *session->metrics);
    session->workers = arrays_add(arrays, schedule->ranks, sizeof *session->workers);
    session->per_rank = arrays_add(arrays, schedule->ranks, sizeof *session->per_rank);
    session->efforts = arrays_add(arrays, schedule->ranks, sizeof *session->efforts);
    session->stage_ns = arrays_add(arrays, schedule->stages, sizeof *session->stage_ns);
    session->bytes = arrays_add(arrays, schedule->ranks, sizeof *session->bytes);
    session->updates_before = arrays_add(arrays, schedule->stages, sizeof *session->updates_before);
    session->last = (struct session_result){ .ranks = schedule->ranks, .per_rank = session->per_rank,
                                             .efforts = session->efforts, .losses = session->losses,
                                             .auxiliary_losses = session->auxiliary.whole,
                                             .auxiliary_sums = session->auxiliary.sums,
                                             .auxiliary_count = session->auxiliary.count,
                                             .metrics = session->metrics, .metric_count = metric_count(session) };
    return !arrays->failed || error_no_memory(error, "the results of a session");
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

// The bytes that each rank has allocated, gathered on all ranks.
static bool open_bytes(struct session *session, struct error *error)
{
    const struct process_group *group = session->settings.group;
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++) {
        const struct slab *slab = &session->workers[rank].slab;
        session->bytes[rank] = (struct rank_bytes){ slab->bytes, slab->host_bytes };
    }
    const struct rank_bytes bytes = session->bytes[group ? group->rank : 0];
    return !group || group->all_gather(group->self, &bytes, sizeof bytes, session->bytes, error);
}

static struct session *create(const struct schedule *lowered, const struct stage *stages, struct device *device,
                              const struct session_settings *settings, struct error *error)
{
    if (!fits_together(lowered, stages, error))
        return NULL;
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return error_null(error_no_memory(error, "a session"));
    session->device = device;
    session->settings = *settings;
    session->settings.network = NULL;
    if (session->settings.deadline_ns == 0)
        session->settings.deadline_ns = usual_deadline_ns;
    if (!loss_scaling_open(&session->settings.scaling, &settings->scaling, device_precision(device), error)
        || !copy_what_is_given(session, lowered, stages, error) || !open_results(session, error)
        || !open_shared(session, settings, error) || !open_workers(session, error)
        || !session_start_ranks(session, error) || !open_bytes(session, error)) {
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
    return error_null(error_hand_on(error, &reason));
}
