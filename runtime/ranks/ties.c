#include "runtime/ranks/ties.h"

#include <assert.h>
#include <stdlib.h>

// The smallest key of any stage that is at least `last`; UINT32_MAX if there is none.
static uint32_t next_key(const struct stage *stages, uint32_t count, uint64_t last)
{
    uint32_t next = UINT32_MAX;
    for (uint32_t s = 0; s < count; s++)
        for (size_t i = 0; i < stages[s].shared_count; i++)
            if (stages[s].shared[i].key >= last && stages[s].shared[i].key < next)
                next = stages[s].shared[i].key;
    return next;
}

static bool shares(const struct stage *stage, uint32_t key)
{
    for (size_t i = 0; i < stage->shared_count; i++)
        if (stage->shared[i].key == key)
            return true;
    return false;
}

static uint32_t held_by(const struct tie *tie, const struct placement *placement, uint32_t rank)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < tie->stage_count; i++)
        held += placement_find(placement, tie->stages[i], rank) != NOT_HELD;
    return held;
}

// A rank with only some of the stages would have to bring the gradients of several.
static bool find_local(struct tie *tie, const struct placement *placement, struct error *error)
{
    uint32_t most = 0, least = UINT32_MAX, of_most = 0;
    for (uint32_t rank = 0; rank < placement->ranks; rank++) {
        const uint32_t held = held_by(tie, placement, rank);
        if (held > most) {
            most = held;
            of_most = rank;
        }
        least = held > 0 && held < least ? held : least;
    }
    tie->is_local = least == tie->stage_count;
    return most == 1 || tie->is_local
        || error_set(error, "rank %u holds %u of the %u stages whose layers are tied, and some rank holds %u: tied"
                     " layers that are apart run on ranks that hold one of these stages each, or all; plan with them"
                     " together", of_most, most, tie->stage_count, least);
}

static void list_ranks(struct tie *tie, const struct placement *placement)
{
    for (uint32_t i = 0; i < tie->stage_count; i++)
        tie->ranks[tie->rank_count++] = placement_rank(placement, tie->stages[i], 0);
    tie->adders = tie->rank_count;
    for (uint32_t i = 0; i < tie->stage_count; i++)
        for (uint32_t copy = 1; copy < placement_copies(placement, tie->stages[i]); copy++)
            tie->ranks[tie->rank_count++] = placement_rank(placement, tie->stages[i], copy);
}

static bool tie_open(struct tie *tie, uint32_t key, const struct stage *stages, const struct placement *placement,
                     struct error *error)
{
    *tie = (struct tie){ .key = key, .stages = calloc(placement->stages, sizeof tie->stages[0]),
                         .ranks = calloc(placement->copy_at[placement->stages] + 1u, sizeof tie->ranks[0]) };
    if (!tie->stages || !tie->ranks)
        return error_no_memory(error, "the tied layers of a pipeline");
    for (uint32_t s = 0; s < placement->stages; s++)
        if (shares(&stages[s], key))
            tie->stages[tie->stage_count++] = s;
    if (!find_local(tie, placement, error))
        return false;
    if (!tie->is_local)
        list_ranks(tie, placement);
    return true;
}

// The tie of the norms: all ranks, each once.
static bool norms_open(struct tie *tie, const struct placement *placement, struct error *error)
{
    *tie = (struct tie){ .key = UINT32_MAX, .stages = calloc(placement->stages, sizeof tie->stages[0]),
                         .ranks = calloc(placement->ranks, sizeof tie->ranks[0]) };
    if (!tie->stages || !tie->ranks)
        return error_no_memory(error, "the norms of gradients");
    for (uint32_t s = 0; s < placement->stages; s++)
        tie->stages[tie->stage_count++] = s;
    for (uint32_t rank = 0; rank < placement->ranks; rank++)
        if (placement->stage_at[rank] < placement->stage_at[rank + 1])
            tie->ranks[tie->rank_count++] = rank;
    tie->adders = tie->rank_count;
    tie->is_local = tie->rank_count == 1;
    return true;
}

static bool refuse_without_flush(const struct schedule *schedule, const struct optimizer *optimizer, bool scales,
                                 struct error *error)
{
    if (schedule->weights == WEIGHTS_FLUSH)
        return true;
    if (scales)
        return error_set(error, "training in fp16 skips a step on all stages where gradients overflow on one, and the"
                         " stages of %s, which has no flush, step at different times; name a device in bf16, or take a"
                         " schedule that flushes", schedule->name);
    if (optimizer->clip > 0)
        return error_set(error, "gradients are clipped by the norm over all stages, which is known at a flush only,"
                         " and %s has none; take a schedule that flushes, or leave clipping out", schedule->name);
    if (optimizer->measures_norm)
        return error_set(error, "gradient_norm is the norm over all stages, which is known at a flush only, and %s has"
                         " none; take a schedule that flushes, or leave gradient_norm out", schedule->name);
    return error_set(error, "tied layers are on different stages, whose gradients are added up at a flush, which %s has"
                     " not; plan with them together", schedule->name);
}

bool ties_open(struct ties *ties, const struct stage *stages, const struct schedule *schedule,
               const struct placement *placement, const struct optimizer *optimizer, bool scales, struct error *error)
{
    size_t most = 0;
    *ties = (struct ties){ .have_norms = scales || optimizer_measures_norm(optimizer) };
    for (uint32_t s = 0; s < placement->stages; s++)
        most += stages[s].shared_count;
    if (most == 0 && !ties->have_norms)
        return true;
    if (!refuse_without_flush(schedule, optimizer, scales, error))
        return false;
    ties->at = calloc(most + 1, sizeof ties->at[0]);
    bool good = ties->at || error_no_memory(error, "the tied layers of a pipeline");
    for (uint64_t last = 0; good;) {
        const uint32_t key = next_key(stages, placement->stages, last);
        if (key == UINT32_MAX)
            break;
        good = tie_open(&ties->at[ties->count++], key, stages, placement, error);
        last = (uint64_t)key + 1;
    }
    good = good && (!ties->have_norms || norms_open(&ties->at[ties->count++], placement, error));
    if (!good)
        ties_close(ties);
    return good;
}

void ties_close(struct ties *ties)
{
    for (uint32_t t = 0; t < ties->count; t++) {
        free(ties->at[t].stages);
        free(ties->at[t].ranks);
    }
    free(ties->at);
    *ties = (struct ties){ 0 };
}

bool tie_has(const struct tie *tie, uint32_t stage)
{
    for (uint32_t i = 0; i < tie->stage_count; i++)
        if (tie->stages[i] == stage)
            return true;
    return false;
}

bool ties_have(const struct ties *ties, uint32_t stage)
{
    for (uint32_t t = 0; t < ties->count; t++)
        if (tie_has(&ties->at[t], stage))
            return true;
    return false;
}

struct shared tie_range(const struct tie *tie, const struct stage *stage)
{
    size_t i = 0;
    while (stage->shared[i].key != tie->key)
        i++;
    assert(i < stage->shared_count);
    return stage->shared[i];
}
