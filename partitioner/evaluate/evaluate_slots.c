#include "partitioner/evaluate/evaluate_slots.h"

#include <string.h>

#include "common/number.h"
#include "schedules/board.h"

static size_t parts(const struct replay *replay)
{
    return (size_t)replay->lowered->micro_batches * replay->lowered->splits;
}

bool replay_begin(struct replay *replay, struct schedule *lowered, struct error *error)
{
    *replay = (struct replay){ .lowered = lowered };
    replay->placement = lowered ? placement_read(lowered, error) : NULL;
    if (!replay->placement)
        return false;
    replay->alive = arrays_add(&replay->arrays, parts(replay), sizeof replay->alive[0]);
    replay->versions = arrays_add(&replay->arrays, parts(replay), sizeof replay->versions[0]);
    replay->ends = arrays_add(&replay->arrays, lowered->micro_batches, sizeof replay->ends[0]);
    return !replay->arrays.failed || error_no_memory(error, "the evaluation of a plan");
}

void replay_clear(struct replay *replay)
{
    arrays_clear(&replay->focus_arrays);
    arrays_clear(&replay->arrays);
    placement_free(replay->placement);
    schedule_free(replay->lowered);
}

static size_t part_of(const struct replay *replay, struct action action)
{
    return (size_t)action.micro_batch * replay->lowered->splits + action.split;
}

static bool is_of(struct action action, uint32_t stage, unsigned kinds)
{
    return action.stage == stage && action.micro_batch != NO_MICRO_BATCH && has_unit(action)
        && kinds >> action.kind & 1;
}

// --- a stage -----------------------------------------------------------------------------

// No slot begins or ends with a SEND.
static bool is_near(struct action action, uint32_t stage)
{
    return action.stage + 1u >= stage && action.stage <= stage + 1 && action.kind != ACTION_SEND_F
        && action.kind != ACTION_SEND_B;
}

// Copies the actions near a stage. Those that ran together still do.
static void see_near(const struct action_list *list, uint32_t stage, struct action_list *near)
{
    size_t group = 0;  // where the group in the list begins in the copy
    for (size_t i = 0; i < list->count; i++) {
        if (is_near(list->at[i], stage)) {
            near->at[near->count] = list->at[i];
            near->at[near->count++].joined = 1;
        }
        if (list->at[i].joined)
            continue;
        if (near->count > group)
            near->at[near->count - 1].joined = 0;
        group = near->count;
    }
}

bool replay_focus(struct replay *replay, uint32_t stage, struct error *error)
{
    const uint32_t copies = placement_copies(replay->placement, stage);
    struct arrays *arrays = &replay->focus_arrays;
    arrays_clear(arrays);
    replay->stage = stage;
    replay->focus = arrays_add(arrays, copies, sizeof replay->focus[0]);
    for (uint32_t copy = 0; copy < copies && !arrays->failed; copy++) {
        const struct action_list *list = &replay->lowered->lists[placement_rank(replay->placement, stage, copy)];
        struct action_list *near = &replay->focus[copy];
        near->at = arrays_add(arrays, list->count, sizeof near->at[0]);
        if (near->at)
            see_near(list, stage, near);
    }
    return !arrays->failed || error_no_memory(error, "the evaluation of a plan");
}

// --- slots -------------------------------------------------------------------------------

// A lifetime on a rank, from an action of `stage` to one of `end_stage`, whose kinds are in these sets. Only
// micro-batches count for which the stage `next` is on the same rank (`elsewhere`: on another). If no action ends it,
// it is a message.
struct lifetime {
    uint32_t stage, end_stage;
    unsigned from, to;
    uint32_t next;
    bool elsewhere;
};

static bool begins(const struct replay *replay, uint32_t rank, const struct lifetime *lifetime, struct action action)
{
    const bool exchanges = replay->lowered->exchanges;  // then no neighbour is reached without a message
    return is_of(action, lifetime->stage, lifetime->from)
        && (!(exchanges && lifetime->next != lifetime->stage)
            && schedule_rank(replay->lowered, lifetime->next, action.micro_batch) == rank) != lifetime->elsewhere;
}

// Joined actions run together: what begins in a group is there together with what ends in it.
static uint64_t slots_of_copy(const struct replay *replay, uint32_t copy, const struct lifetime *lifetime)
{
    const uint32_t rank = placement_rank(replay->placement, replay->stage, copy);
    const struct action_list *list = &replay->focus[copy];
    const bool by_forward = lifetime->to && schedule_is_forward_only(replay->lowered);
    const unsigned to = by_forward ? lifetime->to | KIND(ACTION_F) : lifetime->to;
    uint64_t now = 0, most = 0;
    memset(replay->alive, 0, parts(replay) * sizeof replay->alive[0]);
    for (size_t first = 0, end = 0; first < list->count; first = end) {
        for (end = first + 1; list->at[end - 1].joined; end++)
            continue;
        for (size_t i = first; i < end; i++) {
            if (begins(replay, rank, lifetime, list->at[i])) {
                now += !replay->alive[part_of(replay, list->at[i])];
                replay->alive[part_of(replay, list->at[i])] = true;
            }
        }
        most = max_u64(most, now);
        for (size_t i = first; i < end; i++) {
            if (is_of(list->at[i], lifetime->end_stage, to)) {
                now -= replay->alive[part_of(replay, list->at[i])];
                replay->alive[part_of(replay, list->at[i])] = false;
            }
        }
    }
    return most;
}

// The most slots that any rank of the stage needs.
static uint64_t slots_between(const struct replay *replay, struct lifetime lifetime)
{
    uint64_t most = 0;
    for (uint32_t copy = 0; copy < placement_copies(replay->placement, replay->stage); copy++)
        most = max_u64(most, slots_of_copy(replay, copy, &lifetime));
    return most;
}

uint64_t replay_within(const struct replay *replay, unsigned from, unsigned to)
{
    const uint32_t stage = replay->stage;
    return slots_between(replay, (struct lifetime){ stage, stage, from, to, stage, false });
}

static uint64_t shared_on_rank(const struct replay *replay, uint32_t rank, uint32_t stage, unsigned from, unsigned to)
{
    const struct action_list *list = &replay->lowered->lists[rank];
    uint64_t now = 0, most = 0;
    memset(replay->ends, 0, replay->lowered->micro_batches * sizeof replay->ends[0]);
    memset(replay->alive, 0, parts(replay) * sizeof replay->alive[0]);  // here by micro-batch
    for (size_t i = 0; i < list->count; i++)
        if (is_of(list->at[i], stage, to))
            replay->ends[list->at[i].micro_batch]++;
    for (size_t first = 0, end = 0; first < list->count; first = end) {
        for (end = first + 1; list->at[end - 1].joined; end++)
            continue;
        for (size_t i = first; i < end; i++) {
            if (is_of(list->at[i], stage, from) && !replay->alive[list->at[i].micro_batch]) {
                replay->alive[list->at[i].micro_batch] = true;
                now++;
            }
        }
        most = max_u64(most, now);
        for (size_t i = first; i < end; i++)
            if (is_of(list->at[i], stage, to) && --replay->ends[list->at[i].micro_batch] == 0)
                now -= replay->alive[list->at[i].micro_batch];
    }
    return most;
}

uint64_t replay_shared(const struct replay *replay, uint32_t stage, unsigned from, unsigned to)
{
    const unsigned ends = schedule_is_forward_only(replay->lowered) ? KIND(ACTION_F) : to;
    uint64_t most = 0;
    for (uint32_t copy = 0; replay->lowered->splits > 1 && copy < placement_copies(replay->placement, stage); copy++)
        most = max_u64(most, shared_on_rank(replay, placement_rank(replay->placement, stage, copy), stage, from, ends));
    return most;
}

uint64_t replay_handed(const struct replay *replay, uint32_t next, unsigned from, unsigned to)
{
    const uint32_t stage = replay->stage;
    const uint64_t messages = slots_between(replay, (struct lifetime){ stage, next, from, 0, next, true });
    return slots_between(replay, (struct lifetime){ stage, next, from, to, next, false }) + min_u64(messages, 2);
}

// --- statistics ----------------------------------------------------------------------------

static bool is_at(struct action action, uint32_t stage, enum action_kind kind)
{
    return action.stage == stage && action.kind == kind;
}

// What ends that which an update takes in: REDUCE, if the stage has one on this rank; else STEP.
static enum action_kind cut_of(const struct action_list *list, uint32_t stage)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_at(list->at[i], stage, ACTION_REDUCE))
            return ACTION_REDUCE;
    return ACTION_STEP;
}

// From the end of the list: until which position the statistics of a micro-batch are needed.
static uint64_t statistics_on_rank(const struct replay *replay, uint32_t rank, uint32_t stage)
{
    const struct action_list *list = &replay->lowered->lists[rank];
    const enum action_kind cut = cut_of(list, stage);
    uint64_t *until = replay->versions;  // of each micro-batch
    size_t step = list->count, end = list->count;
    for (size_t i = list->count; i-- > 0;) {
        step = is_at(list->at[i], stage, ACTION_STEP) ? i : step;
        end = is_at(list->at[i], stage, cut) ? step : end;
        if (is_of(list->at[i], stage, LAST_BACKWARDS))
            until[list->at[i].micro_batch] = end;
    }
    uint64_t most = 0;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t now = 0;
        if (!is_of(list->at[i], stage, KIND(ACTION_F)))
            continue;
        for (size_t begun = 0; begun <= i; begun++)
            now += is_of(list->at[begun], stage, KIND(ACTION_F)) && until[list->at[begun].micro_batch] > i;
        most = max_u64(most, now);
    }
    return most;
}

// How many micro-batches the copies bring to one update, at most.
static uint64_t statistics_gathered(const struct replay *replay, uint32_t stage)
{
    uint64_t *brought = replay->versions;  // by update
    uint64_t most = 0;
    memset(brought, 0, parts(replay) * sizeof brought[0]);
    for (uint32_t copy = 0; copy < placement_copies(replay->placement, stage); copy++) {
        const struct action_list *list = &replay->lowered->lists[placement_rank(replay->placement, stage, copy)];
        const enum action_kind cut = cut_of(list, stage);
        size_t update = 0, coming = 0;
        for (size_t i = 0; i < list->count; i++) {
            coming += is_of(list->at[i], stage, LAST_BACKWARDS);
            if (!is_at(list->at[i], stage, cut) || update == parts(replay))
                continue;
            brought[update++] += coming;
            coming = 0;
        }
    }
    for (size_t update = 0; update < parts(replay); update++)
        most = max_u64(most, brought[update]);
    return most;
}

uint64_t replay_statistics(const struct replay *replay, uint32_t stage)
{
    const uint32_t copies = placement_copies(replay->placement, stage);
    uint64_t most = 0;
    if (replay->lowered->splits > 1 || schedule_is_forward_only(replay->lowered))
        return 0;
    for (uint32_t copy = 0; copy < copies; copy++)
        most = max_u64(most, statistics_on_rank(replay, placement_rank(replay->placement, stage, copy), stage));
    return most + (copies > 1 ? statistics_gathered(replay, stage) : 0);
}

// --- versions ----------------------------------------------------------------------------

// For each micro-batch, how many updates stage `stage` on `rank` has seen before the first action on the list that
// is one of these kinds.
static void note_updates(const struct replay *replay, uint32_t rank, uint32_t stage, unsigned kinds)
{
    const struct action_list *list = &replay->lowered->lists[rank];
    uint64_t updates = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct action action = list->at[i];
        updates += action.stage == stage && action.kind == ACTION_STEP;
        if (is_of(action, stage, kinds) && action.split == 0)
            replay->versions[part_of(replay, action)] = updates;
    }
}

// The version that each micro-batch uses on this rank. With stash this is the newest at its F; with vertical the
// newest when it enters at stage 0. With 2bw it is the one before the newest that its update is made from.
static void note_versions(const struct replay *replay, uint32_t rank, uint32_t stage)
{
    const enum weights weights = replay->lowered->weights;
    memset(replay->versions, 0, parts(replay) * sizeof replay->versions[0]);
    if (weights != WEIGHTS_VERTICAL)
        note_updates(replay, rank, stage, weights == WEIGHTS_2BW ? LAST_BACKWARDS : KIND(ACTION_F));
    for (uint32_t r = 0; weights == WEIGHTS_VERTICAL && r < replay->lowered->ranks; r++)
        note_updates(replay, r, 0, KIND(ACTION_F));
    for (size_t i = 0; weights == WEIGHTS_2BW && i < parts(replay); i++)
        replay->versions[i] -= replay->versions[i] > 0;
}

static uint64_t versions_of_rank(const struct replay *replay, uint32_t rank, uint32_t stage)
{
    const struct action_list *list = &replay->lowered->lists[rank];
    uint64_t newest = 0, most = 1;
    note_versions(replay, rank, stage);
    for (size_t i = 0; i < list->count; i++)
        newest += list->at[i].stage == stage && list->at[i].kind == ACTION_STEP;
    // From the end of the list: the oldest version that is used after this position, and the newest at it.
    uint64_t oldest = newest;
    for (size_t i = list->count; i-- > 0;) {
        const struct action action = list->at[i];
        most = max_u64(most, newest >= oldest ? newest - oldest + 1 : 1);
        newest -= action.stage == stage && action.kind == ACTION_STEP;
        if (is_of(action, stage, LAST_BACKWARDS))
            oldest = min_u64(oldest, replay->versions[part_of(replay, action)]);
    }
    return most;
}

uint64_t replay_versions(const struct replay *replay, uint32_t stage)
{
    uint64_t most = 1;
    if (replay->lowered->weights == WEIGHTS_FLUSH)
        return most;
    for (uint32_t copy = 0; copy < placement_copies(replay->placement, stage); copy++)
        most = max_u64(most, versions_of_rank(replay, placement_rank(replay->placement, stage, copy), stage));
    return most;
}
