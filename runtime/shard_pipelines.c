#include "runtime/shard_pipelines.h"

#include <pthread.h>
#include <stdlib.h>

#include "runtime/updates/clipping.h"

// --- all members of this process, a thread each -------------------------------------------

struct doing {
    struct shard_pipelines *pipelines;
    uint32_t member;
    bool (*work)(struct shard_pipelines *pipelines, uint32_t member, void *self, struct error *error);
    void *self;
    pthread_t thread;
    bool has_thread, good;
    struct error error;
};

static bool is_here(const struct shard_pipelines *pipelines, uint32_t member)
{
    return rank_grid_have(pipelines->grid, member);
}

static uint32_t first_here(const struct shard_pipelines *pipelines)
{
    uint32_t member = 0;
    while (!is_here(pipelines, member))
        member++;
    return member;
}

// Ends the waits of other members for this one, which has failed.
static void leave(const struct doing *doing)
{
    const struct shard_pipelines *pipelines = doing->pipelines;
    if (pipelines->group)
        shard_group_abandon(pipelines->group, doing->member, &doing->error);
    if (pipelines->groups) {
        const struct process_group *group = member_groups_of(pipelines->groups, doing->member);
        group->abandon(group->self, &doing->error);
    }
}

static void *do_one(void *argument)
{
    struct doing *doing = argument;
    doing->good = doing->work(doing->pipelines, doing->member, doing->self, &doing->error);
    if (!doing->good)
        leave(doing);
    return NULL;
}

static void start(struct doing *doing)
{
    doing->has_thread = pthread_create(&doing->thread, NULL, do_one, doing) == 0;
    if (doing->has_thread)
        return;
    error_set_kind(&doing->error, ERROR_MACHINE, "member %u of the groups: no thread could be started", doing->member);
    leave(doing);
}

// The first failure that any member has reported.
static bool judge(const struct shard_pipelines *pipelines, const struct doing *all, struct error *error)
{
    bool good = !pipelines->group || shard_group_is_well(pipelines->group, error);
    for (uint32_t m = 0; m < pipelines->count; m++)
        if (is_here(pipelines, m) && !all[m].good)
            good = error_hand_on(error, &all[m].error);  // the first stays
    return good;
}

static bool do_all(struct shard_pipelines *pipelines,
                   bool (*work)(struct shard_pipelines *pipelines, uint32_t member, void *self, struct error *error),
                   void *self, struct error *error)
{
    const uint32_t first = first_here(pipelines);
    struct doing *all = calloc(pipelines->count, sizeof *all);
    if (!all)
        return error_no_memory(error, "the members of groups");
    for (uint32_t m = 0; m < pipelines->count; m++)
        all[m] = (struct doing){ .pipelines = pipelines, .member = m, .work = work, .self = self };
    for (uint32_t m = first + 1; m < pipelines->count; m++)
        if (is_here(pipelines, m))
            start(&all[m]);
    do_one(&all[first]);
    for (uint32_t m = first + 1; m < pipelines->count; m++)
        if (all[m].has_thread)
            pthread_join(all[m].thread, NULL);
    const bool good = judge(pipelines, all, error);
    free(all);
    return good;
}

// --- making --------------------------------------------------------------------------------

static struct session_settings settings_of(const struct shard_pipelines *pipelines, uint32_t member,
                                           const struct shard_request *request)
{
    struct session_settings settings = *request->settings;
    settings.member = member;
    settings.first_core += member * request->plan->ranks;
    settings.never_warms_up |= pipelines->count > 1;  // no member adds up before all are there
    if (pipelines->groups)
        settings.group = member_groups_of(pipelines->groups, member);
    if (member == first_here(pipelines))
        return settings;
    settings.opened = NULL;
    settings.failed = NULL;
    return settings;
}

// Layers are numbered by their places in the plan there.
static bool sets_alike(const struct shard_request *request, size_t layer)
{
    const struct split_norms *split = request->settings->split;
    uint32_t place = 0;
    while (request->plan->order && request->plan->order[place] != layer)
        place++;
    return split && split->layers[request->plan->order ? place : layer].sets_alike;
}

static bool make_one(struct shard_pipelines *pipelines, uint32_t member, void *self, struct error *error)
{
    const struct shard_request *request = self;
    const struct session_settings settings = settings_of(pipelines, member, request);
    for (size_t l = 0; l < request->layer_count && pipelines->count > 1; l++) {
        const struct weir_layer *layer = &request->layers[member][l];
        if ((layer->state_bytes > 0 || layer->has_auxiliary_loss) && !sets_alike(request, l))
            return error_set(error, "layer %s has %s, and layers are split over groups: plan without tensor"
                             " parallelism", layer->name,
                             layer->state_bytes > 0 ? "a state without a gradient" : "an auxiliary loss");
    }
    pipelines->of[member] = request->schedule
        ? pipeline_create_on(request->schedule, request->plan, request->layers[member], request->layer_count,
                             request->device, &settings, error)
        : pipeline_create(request->plan, request->layers[member], request->layer_count, request->device,
                          request->runs, &settings, error);
    return pipelines->of[member] != NULL;
}

static bool open_groups(struct shard_pipelines *pipelines, struct error *error)
{
    if (!pipelines->grid->group || pipelines->count == 1)
        return true;
    pipelines->groups = member_groups_create(pipelines->grid, error);
    return pipelines->groups != NULL;
}

struct shard_pipelines *shard_pipelines_create(const struct shard_request *request, struct error *error)
{
    const uint32_t members = request->grid->members;
    struct shard_pipelines *pipelines = calloc(1, sizeof *pipelines);
    if (pipelines)
        *pipelines = (struct shard_pipelines){ .count = members, .grid = request->grid,
                                               .group = request->settings->shards,
                                               .of = calloc(members, sizeof(struct pipeline *)) };
    const bool good = (pipelines && pipelines->of) || error_no_memory(error, "the pipelines of a plan");
    if (good && open_groups(pipelines, error) && do_all(pipelines, make_one, (void *)(uintptr_t)request, error)) {
        pipelines->first = pipelines->of[first_here(pipelines)];
        return pipelines;
    }
    shard_pipelines_free(pipelines);
    return NULL;
}

uint64_t shard_pipelines_free(struct shard_pipelines *pipelines)
{
    uint64_t left_bytes = 0;
    if (!pipelines)
        return 0;
    for (uint32_t m = 0; pipelines->of && m < pipelines->count; m++)
        left_bytes += pipeline_free(pipelines->of[m]);
    if (left_bytes > 0)
        return left_bytes;
    member_groups_free(pipelines->groups);
    free(pipelines->of);
    free(pipelines);
    return 0;
}

void shard_pipelines_join(struct shard_pipelines *pipelines, struct pipeline_shards *shards)
{
    shards->of = pipelines->of;
    pipelines->first->shards = shards;
}

// --- what all members do -------------------------------------------------------------------

static bool step_one(struct shard_pipelines *pipelines, uint32_t member, void *self, struct error *error)
{
    (void)self;
    return session_step(pipelines->of[member]->session, error);
}

bool shard_pipelines_step(struct shard_pipelines *pipelines, struct error *error)
{
    return do_all(pipelines, step_one, NULL, error);
}

void shard_pipelines_set_rate(struct shard_pipelines *pipelines, float rate)
{
    for (uint32_t m = 0; m < pipelines->count; m++)
        if (pipelines->of[m])
            session_set_rate(pipelines->of[m]->session, rate);
}

static bool time_one(struct shard_pipelines *pipelines, uint32_t member, void *self, struct error *error)
{
    struct timeline others = { 0 };
    const bool is_first = pipelines->of[member] == pipelines->first;
    const bool good = session_timeline(pipelines->of[member]->session, is_first ? self : &others, error);
    timeline_clear(&others);
    return good;
}

bool shard_pipelines_timeline(struct shard_pipelines *pipelines, struct timeline *timeline, struct error *error)
{
    return do_all(pipelines, time_one, timeline, error);
}
