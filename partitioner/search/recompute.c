#include "partitioner/search/recompute.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/search/recompute_walk.h"

static bool read_choice(const struct recompute_walk *walk, struct recompute_label label,
                        struct recompute_choice *choice)
{
    *choice = (struct recompute_choice){
        .bytes = add_clamped(walk->stage.fixed, add_clamped(label.bytes, walk->stage.input_cost[label.life])),
        .workspace_bytes = label.transient,
    };
    choice->segments = malloc(((size_t)walk->end - walk->first + 1) * sizeof choice->segments[0]);
    if (!choice->segments)
        return false;
    for (uint32_t position = walk->end; position > walk->first;) {
        if (label.is_segment) {
            choice->segments[choice->count++] = (struct segment){ label.from, position };
            choice->forward_ns += interval_recompute_ns(walk->intervals, label.from, position);
        }
        position = label.from;
        label = walk->positions[position - walk->first].at[label.parent];
    }
    for (size_t i = 0; i < choice->count / 2; i++) {
        const struct segment other = choice->segments[i];
        choice->segments[i] = choice->segments[choice->count - 1 - i];
        choice->segments[choice->count - 1 - i] = other;
    }
    return true;
}

// The labels at the end are in order of time, then of layers.
static bool read_choices(const struct recompute_walk *walk, struct recompute_list *list)
{
    const struct recompute_position *labels = &walk->positions[walk->end - walk->first];
    list->at = calloc(labels->count + 1, sizeof list->at[0]);
    if (!list->at)
        return false;
    for (size_t i = 0; i < labels->count; i++) {
        if (!(walk->wanted & RECOMPUTE_FRONT) && i > 0 && labels->at[i].time == labels->at[i - 1].time)
            continue;
        if (!read_choice(walk, labels->at[i], &list->at[list->count]))
            return false;
        list->count++;
        if (walk->wanted == RECOMPUTE_LEAST)
            break;
    }
    list->complete = walk->complete;
    return true;
}

// Chooses to recompute nothing, if that fits. False only without memory.
static bool choose_nothing(const struct recompute_walk *walk, uint64_t capacity, struct recompute_list *list)
{
    const struct stage_bytes bytes = stage_bytes_of_split(interval_bytes(walk->intervals, walk->first, walk->end),
                                                          walk->intervals->splits);
    const uint64_t peak = stage_memory_of(&bytes, walk->slots).peak_bytes;
    if (peak > capacity)
        return true;
    list->at = calloc(1, sizeof list->at[0]);
    if (!list->at)
        return false;
    list->least_ns = 0;
    list->count = 1;
    list->at[0] = (struct recompute_choice){ .bytes = peak - bytes.transient, .workspace_bytes = bytes.transient };
    list->at[0].segments = calloc(1, sizeof list->at[0].segments[0]);
    return list->at[0].segments != NULL;
}

static struct recompute_stage stage_of(const struct recompute_walk *walk)
{
    const struct intervals *intervals = walk->intervals;
    struct stage_bytes bytes = interval_bytes(walk->intervals, walk->first, walk->end);
    struct recompute_stage stage = {
        .transient = bytes.transient,
        .gathers = storage_gathers(&intervals->storage, intervals->replicas, walk->end - walk->first),
    };
    bytes = stage_bytes_of_split(bytes, intervals->splits);
    for (unsigned life = 0; life < 3; life++)
        stage.input_cost[life] = multiply_clamped(walk->slots->input[life], bytes.input);
    stage.fixed = stage_fixed_bytes(bytes, walk->slots, 0);
    return stage;
}

static bool walk_once(struct recompute_walk *walk, struct recompute_list *list, uint64_t *work)
{
    const bool good = recompute_walk(walk) && read_choices(walk, list);
    recompute_walk_clear(walk);
    *work += walk->made;
    return good;
}

// Keeps the better of two lists, each of which may be empty, and frees the other.
static void take_better(struct recompute_list *list, struct recompute_list *other)
{
    if (other->count > 0 && (list->count == 0 || other->at[0].forward_ns <= list->at[0].forward_ns)) {
        const struct recompute_list taken = *list;
        *list = *other;
        *other = taken;
    }
    recompute_list_clear(other);
}

// No choice takes less than the best found, or than what was lost on the way to it.
static uint64_t least_of(const struct recompute_walk *walk, const struct recompute_list *list)
{
    const uint64_t found = list->count > 0 ? list->at[0].forward_ns : UINT64_MAX;
    return walk->complete || found < walk->lost ? found : walk->lost;
}

// A narrow walk comes first. What it finds bounds the full one, which spreads its labels differently, so that both do
// not fail alike. If neither finds a way, any way is better than none: the one with the fewest bytes, if that fits.
static bool search_least(struct recompute_walk walk, struct recompute_list *list, uint64_t *work)
{
    struct recompute_list other = { 0 };
    struct recompute_walk narrow = walk, bytes = walk;
    narrow.most_labels = walk.most_labels < NARROW ? walk.most_labels : NARROW;
    narrow.spread_part = 4;
    if (!walk_once(&narrow, list, work))
        return false;
    uint64_t least = least_of(&narrow, list);
    bool complete = narrow.complete || (list->count > 0 && narrow.lost > list->at[0].forward_ns);
    if (!complete && walk.most_labels > NARROW) {
        walk.most_time = list->count > 0 ? list->at[0].forward_ns : walk.most_time;
        if (!walk_once(&walk, &other, work))
            return false;
        take_better(list, &other);
        const uint64_t sharper = least_of(&walk, list);
        least = sharper > least ? sharper : least;
        complete = walk.complete || (list->count > 0 && walk.lost > list->at[0].forward_ns);
    }
    bytes.takes_no_time = true;
    if (list->count == 0 && !complete) {
        if (!walk_once(&bytes, &other, work))
            return false;
        take_better(list, &other);
    }
    list->complete = complete;
    list->least_ns = complete && list->count > 0 ? list->at[0].forward_ns : least;
    return true;
}

// Fills in what choices store on the host, with these slots.
static void see_away(const struct recompute_walk *walk, const struct slots *slots, struct recompute_list *list)
{
    const struct intervals *intervals = walk->intervals;
    for (size_t i = 0; i < list->count && storage_uses_host(&intervals->storage); i++) {
        struct recompute_choice *choice = &list->at[i];
        const struct stage_bytes bytes = stage_bytes_at(intervals->profile, walk->first, walk->end, choice->segments,
                                                        choice->count, &intervals->storage, intervals->replicas);
        choice->away = stage_away_of(&bytes, intervals->splits, slots);
    }
}

bool recompute_search(struct intervals *intervals, uint32_t first, uint32_t end, const struct slots *slots,
                      uint64_t capacity_bytes, enum recompute_wanted wanted, size_t most_labels, uint64_t *work,
                      struct recompute_list *list, struct error *error)
{
    assert(first <= end && end <= intervals->layers && most_labels > 0);
    *list = (struct recompute_list){ .complete = true, .least_ns = UINT64_MAX };
    struct recompute_walk walk = { .intervals = intervals, .first = first, .end = end, .slots = slots,
                                   .wanted = wanted, .most_labels = most_labels, .spread_part = 2,
                                   .most_time = UINT64_MAX - 1, .complete = true, .lost = UINT64_MAX };
    bool good = wanted != RECOMPUTE_LEAST || choose_nothing(&walk, capacity_bytes, list);
    walk.stage = stage_of(&walk);
    walk.budget = capacity_bytes - walk.stage.fixed;
    if (good && list->count == 0 && walk.stage.fixed <= capacity_bytes)
        good = wanted == RECOMPUTE_LEAST ? search_least(walk, list, work) : walk_once(&walk, list, work);
    see_away(&walk, slots, list);
    if (!good)
        recompute_list_clear(list);
    return good || error_no_memory(error, "the choice of what to recompute");
}

static uint64_t least_bytes(const struct recompute_walk *walk)
{
    const struct recompute_position *labels = &walk->positions[walk->end - walk->first];
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < labels->count; i++) {
        const struct recompute_label *label = &labels->at[i];
        const uint64_t input = walk->stage.input_cost[label->life];
        least = min_u64(least, add_clamped(add_clamped(label->bytes, label->transient), input));
    }
    return least;
}

static bool walk_for_bytes(struct recompute_walk *walk, uint64_t *bytes)
{
    const bool good = recompute_walk(walk);
    if (good)
        *bytes = least_bytes(walk);
    recompute_walk_clear(walk);
    return good;
}

bool recompute_least_bytes(struct intervals *intervals, uint32_t first, uint32_t end, const struct slots *slots,
                           bool input, uint64_t *bytes, bool *complete, uint64_t *work, struct error *error)
{
    struct recompute_walk walk = { .intervals = intervals, .first = first, .end = end, .slots = slots,
                                   .wanted = RECOMPUTE_LEAST, .most_labels = 20000, .spread_part = 2,
                                   .budget = UINT64_MAX - 1, .most_time = UINT64_MAX - 1, .takes_no_time = true,
                                   .complete = true };
    walk.stage = stage_of(&walk);
    if (!input)
        memset(walk.stage.input_cost, 0, sizeof walk.stage.input_cost);
    struct recompute_walk narrow = walk;  // what it finds is the budget of the full walk
    narrow.most_labels = NARROW;
    bool good = walk_for_bytes(&narrow, bytes);
    *complete = narrow.complete;
    if (good && !narrow.complete) {
        walk.budget = *bytes;
        good = walk_for_bytes(&walk, bytes);
        *complete = walk.complete;
    }
    *work += narrow.made + walk.made;
    *bytes = add_clamped(walk.stage.fixed, *bytes);
    return good || error_no_memory(error, "the choice of what to recompute");
}

void recompute_list_clear(struct recompute_list *list)
{
    for (size_t i = 0; list->at && i < list->count; i++)
        free(list->at[i].segments);
    free(list->at);
    *list = (struct recompute_list){ 0 };
}
