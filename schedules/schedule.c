#include "schedules/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

const char *const weights_names[] = { "flush", "stash", "vertical", "2bw", NULL };

// Data about a schedule is mostly arrays of a few bytes per stage and micro-batch. With this many pairs of a stage
// and a micro-batch they take a gigabyte or two.
#define MOST_FORWARDS ((uint64_t)1 << 27)

static bool sizes_are_possible(uint32_t ranks, uint32_t stages, uint32_t micro_batches, struct error *error)
{
    if (ranks == 0 || stages == 0 || micro_batches == 0)
        return error_set(error, "a schedule has at least one rank, one stage and one micro-batch");
    if (stages > UINT16_MAX)
        return error_set(error, "%u stages are more than a schedule can have (%d)", stages, UINT16_MAX);
    if ((uint64_t)stages * micro_batches > MOST_FORWARDS)
        return error_set(error, "%u stages times %u micro-batches are more than a schedule can have (2^27)", stages,
                         micro_batches);
    return true;
}

struct schedule *schedule_create(const char *name, enum weights weights, uint32_t ranks, uint32_t stages,
                                 uint32_t micro_batches, struct error *error)
{
    if (!sizes_are_possible(ranks, stages, micro_batches, error))
        return NULL;
    struct schedule *schedule = calloc(1, sizeof *schedule);
    if (schedule) {
        schedule->routes = calloc(stages, sizeof *schedule->routes);
        schedule->route_of = calloc(micro_batches, sizeof *schedule->route_of);
        schedule->lists = calloc(ranks, sizeof *schedule->lists);
    }
    if (!schedule || !schedule->routes || !schedule->route_of || !schedule->lists) {
        schedule_free(schedule);
        return error_null(error_no_memory(error, "a schedule"));
    }
    strncpy(schedule->name, name, sizeof schedule->name - 1);
    schedule->weights = weights;
    schedule->ranks = ranks;
    schedule->stages = stages;
    schedule->micro_batches = micro_batches;
    schedule->splits = 1;
    schedule->route_count = 1;
    for (uint32_t stage = 0; stage < stages; stage++)
        schedule->routes[stage] = stage % ranks;
    return schedule;
}

bool schedule_split(struct schedule *schedule, uint32_t splits, struct error *error)
{
    if (splits == 0 || splits > MOST_SPLITS)
        return error_set(error, "sequences go through the stages in 1 to %d splits, not %u", MOST_SPLITS, splits);
    if ((uint64_t)schedule->stages * schedule->micro_batches * splits > MOST_FORWARDS)
        return error_set(error,
                         "%u stages times %u micro-batches in %u splits are more than a schedule can have (2^27)",
                         schedule->stages, schedule->micro_batches, splits);
    schedule->splits = splits;
    return true;
}

void schedule_free(struct schedule *schedule)
{
    if (!schedule)
        return;
    for (uint32_t rank = 0; schedule->lists && rank < schedule->ranks; rank++)
        free(schedule->lists[rank].at);
    free(schedule->lists);
    free(schedule->costs);
    free(schedule->route_of);
    free(schedule->routes);
    free(schedule->notes);
    free(schedule);
}

size_t schedule_action_count(const struct schedule *schedule)
{
    size_t count = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        count += schedule->lists[rank].count;
    return count;
}

static void *duplicate(const void *from, size_t count, size_t size)
{
    void *copy = calloc(count ? count : 1, size);
    if (copy && count)
        memcpy(copy, from, count * size);
    return copy;
}

static bool copy_lists(struct schedule *copy, const struct schedule *schedule)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *from = &schedule->lists[rank];
        struct action_list *to = &copy->lists[rank];
        to->at = duplicate(from->at, from->count, sizeof *to->at);
        if (!to->at)
            return false;
        to->count = from->count;
        to->capacity = from->count ? from->count : 1;
    }
    return true;
}

struct schedule *schedule_copy(const struct schedule *schedule, struct error *error)
{
    struct schedule *copy = schedule_create(schedule->name, schedule->weights, schedule->ranks, schedule->stages,
                                            schedule->micro_batches, error);
    if (!copy)
        return NULL;
    const size_t cells = (size_t)schedule->route_count * schedule->stages;
    free(copy->routes);
    copy->routes = duplicate(schedule->routes, cells, sizeof *copy->routes);
    copy->route_count = schedule->route_count;
    memcpy(copy->route_of, schedule->route_of, schedule->micro_batches * sizeof *copy->route_of);
    copy->splits = schedule->splits;
    copy->lowered = schedule->lowered;
    copy->moves = schedule->moves;
    copy->exchanges = schedule->exchanges;
    if (schedule->costs)
        copy->costs = duplicate(schedule->costs, schedule->stages, sizeof *copy->costs);
    if (schedule->notes)
        copy->notes = strdup(schedule->notes);
    if (!copy->routes || (schedule->costs && !copy->costs) || (schedule->notes && !copy->notes)
        || !copy_lists(copy, schedule)) {
        schedule_free(copy);
        return error_null(error_no_memory(error, "a copy of a schedule"));
    }
    return copy;
}

bool schedule_add(struct schedule *schedule, uint32_t rank, struct action action, struct error *error)
{
    struct action_list *list = &schedule->lists[rank];
    if (!array_reserve(&list->at, &list->capacity, list->count + 1, sizeof list->at[0]))
        return error_no_memory(error, "the actions of a schedule");
    list->at[list->count++] = action;
    schedule->lowered |= action.kind >= ACTION_SEND_F && action.kind <= ACTION_RECV_B;
    schedule->moves |= action.kind == ACTION_EVICT || action.kind == ACTION_PREFETCH;
    return true;
}

unsigned schedule_kinds(const struct schedule *schedule)
{
    unsigned kinds = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        for (size_t i = 0; i < schedule->lists[rank].count; i++)
            kinds |= 1u << schedule->lists[rank].at[i].kind;
    return kinds;
}

void schedule_drop(struct schedule *schedule, unsigned kinds)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        struct action_list *list = &schedule->lists[rank];
        size_t kept = 0;
        for (size_t i = 0; i < list->count; i++)
            if (!(kinds >> list->at[i].kind & 1))
                list->at[kept++] = list->at[i];
        list->count = kept;
    }
    schedule->lowered = schedule->lowered && !(kinds & KINDS_OF_MESSAGES);
    schedule->moves = schedule->moves && !(kinds & KINDS_OF_MOVES);
}

void schedule_write_shape(uint32_t ranks, uint32_t stages, uint32_t micro_batches, struct text *text)
{
    text_add_count(text, ranks, "rank", "ranks");
    text_add(text, ", ");
    text_add_count(text, stages, "stage", "stages");
    text_add(text, ", ");
    text_add_count(text, micro_batches, "micro-batch", "micro-batches");
}
