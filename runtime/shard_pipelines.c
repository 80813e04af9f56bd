#include "runtime/shard_pipelines.h"

#include <pthread.h>
#include <stdlib.h>

uint32_t plan_members(const struct plan *plan)
{
    uint32_t members = 1;
    for (size_t s = 0; s < plan->stage_count; s++)
        if (plan_stage_group(&plan->stages[s]) > members)
            members = plan_stage_group(&plan->stages[s]);
    return members;
}

struct shard_pipelines *shard_pipelines_create(const struct plan *plan, const struct weir_layer *const *layers,
                                               uint32_t members, size_t layer_count, struct device *device,
                                               uint32_t runs, const struct session_settings *settings,
                                               struct error *error)
{
    struct shard_pipelines *pipelines = calloc(1, sizeof *pipelines);
    struct pipeline **of = calloc(members, sizeof(struct pipeline *));
    if (!pipelines || !of) {
        free(pipelines);
        free(of);
        error_no_memory(error, "the pipelines of a plan");
        return NULL;
    }
    *pipelines = (struct shard_pipelines){ .count = members, .of = of, .meeting = settings->shards };
    struct session_settings own = *settings;
    own.never_warms_up |= members > 1;  // they are made one after the other, and cannot add up yet
    bool good = true;
    for (uint32_t m = 0; good && m < members; m++) {
        of[m] = pipeline_create(plan, layers[m], layer_count, device, runs, &own, error);
        good = of[m] != NULL;
        own.first_core += plan->ranks;
        own.member++;
        own.opened = NULL;
        own.failed = NULL;
    }
    if (good)
        return pipelines;
    shard_pipelines_free(pipelines);
    return NULL;
}

void shard_pipelines_free(struct shard_pipelines *pipelines)
{
    if (!pipelines)
        return;
    for (uint32_t m = 0; m < pipelines->count; m++)
        pipeline_free(pipelines->of[m]);
    free(pipelines->of);
    free(pipelines);
}

void shard_pipelines_join(struct shard_pipelines *pipelines, struct pipeline_shards *shards)
{
    shards->of = pipelines->of;
    shards->count = pipelines->count;
    pipelines->of[0]->shards = shards;
}

struct stepping {  // a member
    struct session *session;
    struct shard_meeting *meeting;
    pthread_t thread;
    bool has_thread, good;
    struct error error;
};

static void *step_member(void *argument)
{
    struct stepping *stepping = argument;
    stepping->good = session_step(stepping->session, &stepping->error);
    return NULL;
}

static void start(struct stepping *stepping, uint32_t member)
{
    stepping->has_thread = pthread_create(&stepping->thread, NULL, step_member, stepping) == 0;
    if (stepping->has_thread)
        return;
    error_set_kind(&stepping->error, ERROR_MACHINE, "member %u of the groups: no thread could be started", member);
    shard_meeting_abandon(stepping->meeting, &stepping->error);
}

bool shard_pipelines_step(struct shard_pipelines *pipelines, struct error *error)
{
    if (pipelines->count == 1)
        return session_step(pipelines->of[0]->session, error);
    struct stepping *all = calloc(pipelines->count, sizeof *all);
    if (!all)
        return error_no_memory(error, "a step");
    for (uint32_t m = 0; m < pipelines->count; m++)
        all[m] = (struct stepping){ .session = pipelines->of[m]->session, .meeting = pipelines->meeting };
    for (uint32_t m = 1; m < pipelines->count; m++)
        start(&all[m], m);
    step_member(&all[0]);
    bool good = all[0].good;
    for (uint32_t m = 1; m < pipelines->count; m++) {
        if (all[m].has_thread)
            pthread_join(all[m].thread, NULL);
        good = good && all[m].good;
    }
    good = shard_meeting_is_well(pipelines->meeting, error) && good;
    for (uint32_t m = 0; !good && m < pipelines->count; m++)
        if (all[m].error.kind != ERROR_NONE)
            error_set_kind(error, all[m].error.kind, "%s", all[m].error.text);  // the first stays
    free(all);
    return good;
}

void shard_pipelines_set_rate(struct shard_pipelines *pipelines, float rate)
{
    for (uint32_t m = 0; m < pipelines->count; m++)
        session_set_rate(pipelines->of[m]->session, rate);
}
