#include "partitioner/recompute.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"

// One way to have decided the layers before a position.
struct label {
    uint64_t time;       // F of what is recomputed
    uint64_t least;      // what any completion of it takes at least
    uint64_t bytes;      // kept, times slots
    uint64_t moved;      // kept, to the host and back; 0 where nothing goes there
    uint64_t transient;  // the largest workspace so far; from the start that without segments
    uint64_t kept_set;   // which tensors with several readers are kept already, by their bits
    uint32_t from;       // the position before
    uint32_t parent;     // which of its labels
    uint32_t layers;     // recomputed so far; 0 where only bytes matter
    uint8_t life;        // of the input, enum input_life
    bool is_segment;     // whether [from, position) is one
};

// What recomputing a layer, or several, saves at most, and the time it takes.
struct saving {
    uint64_t bytes, time;
    uint32_t layer;
};

struct labels {
    struct label *at;
    size_t count, capacity;
};

#define NO_BIT 255

// Labels a narrow walk keeps at a position, the layers of its longest segments; and how
// many labels a walk makes before it becomes narrow.
#define NARROW 32
#define NARROW_SEGMENT 32
#define MOST_MADE 2000000
#define MOST_MADE_LEAST 400000

struct walk {
    struct intervals *intervals;
    uint32_t first, end;
    const struct slots *slots;      // on the device
    const struct slots *all_slots;  // and on the host
    enum recompute_wanted wanted;
    size_t most_labels;
    uint64_t fixed;          // bytes that no choice changes
    uint64_t budget;         // bytes for what the choice decides
    uint64_t input_cost[3];  // of the input's slots, by life
    uint64_t transient;      // without segments
    uint64_t most_time;      // no label above it matters
    bool takes_no_time;      // only bytes matter
    bool gathers;            // a segment's weights count among its data (stage_cost.c)
    bool complete;
    uint64_t lost;           // the least time of what was cut
    uint64_t made;
    struct labels *positions;  // first to end, at [position - first]
    // Per layer of the interval, at [layer - first]:
    uint8_t *bits;            // the bit of a tensor with several readers inside, or NO_BIT
    uint64_t *live;           // which bits are alive at this position
    uint64_t *rest_bytes;     // what keeping this layer and all after it takes at least
    struct saving *savings;   // what recomputing each of them saves at most, best first
    struct saving *sums;      // running sums of those from this layer on, a row per layer
};

// --- what does not depend on labels ---------------------------------------------

static bool allocate(struct walk *walk)
{
    const size_t count = (size_t)walk->end - walk->first + 1;
    walk->positions = calloc(count, sizeof walk->positions[0]);
    walk->bits = calloc(count, sizeof walk->bits[0]);
    walk->live = calloc(count, sizeof walk->live[0]);
    walk->rest_bytes = calloc(count, sizeof walk->rest_bytes[0]);
    walk->savings = calloc(count, sizeof walk->savings[0]);
    walk->sums = calloc(count * count, sizeof walk->sums[0]);
    return walk->positions && walk->bits && walk->live && walk->rest_bytes && walk->savings && walk->sums;
}

static void clear(struct walk *walk)
{
    for (uint32_t i = 0; walk->positions && i <= walk->end - walk->first; i++)
        free(walk->positions[i].at);
    free(walk->positions);
    free(walk->bits);
    free(walk->live);
    free(walk->rest_bytes);
    free(walk->savings);
    free(walk->sums);
}

// Something that may take so little was left out.
static void lose(struct walk *walk, uint64_t least)
{
    walk->complete = false;
    walk->lost = least < walk->lost ? least : walk->lost;
}

static uint32_t readers_inside(const struct intervals *intervals, uint32_t q, uint32_t end, uint32_t *last)
{
    uint32_t count = 0;
    for (uint32_t i = intervals->reader_at[q]; i < intervals->reader_at[q + 1]; i++) {
        if (intervals->readers[i] < end) {
            *last = intervals->readers[i];
            count++;
        }
    }
    return count;
}

// Tensors that several layers inside read get a bit from where they are made to
// their last reader, the lowest that is free. Behind layer l the bits of what was
// made before l and is read behind it are alive; y_l cannot be kept yet, so its
// bit, which may have been another's, is not.
static void give_bits(struct walk *walk)
{
    uint64_t taken = 0;
    for (uint32_t l = walk->first; l < walk->end; l++) {
        for (uint32_t i = walk->intervals->source_at[l]; i < walk->intervals->source_at[l + 1]; i++) {
            const uint32_t q = walk->intervals->sources[i];
            uint32_t last = q;
            if (q >= walk->first && walk->bits[q - walk->first] != NO_BIT
                && readers_inside(walk->intervals, q, walk->end, &last) > 1 && last == l)
                taken &= ~((uint64_t)1 << walk->bits[q - walk->first]);
        }
        walk->live[l + 1 - walk->first] = taken;
        uint32_t last = l;
        walk->bits[l - walk->first] = NO_BIT;
        if (readers_inside(walk->intervals, l, walk->end, &last) < 2)
            continue;
        if (~taken == 0) {
            lose(walk, 0);  // more than 64 at once: counted once per reader, which is safe but too much
            continue;
        }
        const uint8_t bit = (uint8_t)__builtin_ctzll(~taken);
        walk->bits[l - walk->first] = bit;
        taken |= (uint64_t)1 << bit;
    }
}

// Of splits every tensor is rounded up by itself: not less than what the stage takes.
static uint64_t slots_of(const struct walk *walk, uint32_t count, uint64_t bytes)
{
    const uint32_t splits = walk->intervals->splits;
    return multiply_clamped(count, splits == 1 ? bytes : round_to_256((bytes + splits - 1) / splits));
}

static uint64_t layer_time(const struct walk *walk, uint32_t l)
{
    return walk->takes_no_time ? 0 : interval_forward_ns(walk->intervals, l, l + 1);
}

// What keeping the layer takes at least, and recomputing it saves at most.
static struct saving weigh_layer(const struct walk *walk, uint32_t l, uint64_t *surely)
{
    const struct intervals *intervals = walk->intervals;
    struct saving saving = { .bytes = slots_of(walk, walk->slots->kept, intervals->saved[l + 1] - intervals->saved[l]),
                             .time = layer_time(walk, l), .layer = l };
    *surely = add_clamped(saving.bytes, slots_of(walk, walk->slots->held, intervals->held[l + 1] - intervals->held[l]));
    for (uint32_t i = intervals->source_at[l]; interval_needs_input(intervals, l) && i < intervals->source_at[l + 1];
         i++) {
        const uint32_t q = intervals->sources[i];
        uint32_t last;
        if (q < walk->first)
            continue;
        const uint64_t bytes = slots_of(walk, walk->slots->kept_through, intervals->output[q]);
        saving.bytes = add_clamped(saving.bytes, bytes);
        if (readers_inside(intervals, q, walk->end, &last) == 1)
            *surely = add_clamped(*surely, bytes);
    }
    return saving;
}

// Most bytes per time first.
static int by_density(const void *a, const void *b)
{
    const struct saving *x = a, *y = b;
    const unsigned __int128 left = (unsigned __int128)x->bytes * y->time, right = (unsigned __int128)y->bytes * x->time;
    if (left != right)
        return left > right ? -1 : 1;
    return (x->layer > y->layer) - (x->layer < y->layer);
}

static struct saving *sums_from(const struct walk *walk, uint32_t position)
{
    return &walk->sums[(size_t)(position - walk->first) * (walk->end - walk->first + 1)];
}

// For each layer: what keeping it and all behind it takes at least, and how much
// saving these costs how much time at least. That is a knapsack whose items may be
// taken in part, best first; layers that take no time are the best of all.
static void sum_rests(struct walk *walk)
{
    const uint32_t count = walk->end - walk->first;
    for (uint32_t l = walk->end; l-- > walk->first;) {
        uint64_t surely;
        walk->savings[l - walk->first] = weigh_layer(walk, l, &surely);
        walk->rest_bytes[l - walk->first] = add_clamped(walk->rest_bytes[l + 1 - walk->first], surely);
    }
    qsort(walk->savings, count, sizeof walk->savings[0], by_density);
    for (uint32_t l = walk->first; l <= walk->end; l++) {
        struct saving *sums = sums_from(walk, l), sum = { .layer = l };
        uint32_t next = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (walk->savings[i].layer < l)
                continue;
            sum.bytes = add_clamped(sum.bytes, walk->savings[i].bytes);
            sum.time += walk->savings[i].time;
            sums[next++] = sum;
        }
    }
}

// The least time in which layers from `position` on save so many bytes; UINT64_MAX
// if they cannot.
static uint64_t time_to_save(const struct walk *walk, uint32_t position, uint64_t bytes)
{
    const struct saving *sums = sums_from(walk, position);
    uint32_t low = 0, high = walk->end - position;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (sums[middle].bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == walk->end - position)
        return UINT64_MAX;
    const struct saving before = low > 0 ? sums[low - 1] : (struct saving){ 0 };
    const uint64_t item = sums[low].bytes - before.bytes, time = sums[low].time - before.time;
    return before.time + (uint64_t)((unsigned __int128)(bytes - before.bytes) * time / item);
}

// --- labels ---------------------------------------------------------------------

// The least time any completion of the label takes; UINT64_MAX if none fits.
static uint64_t least_time(const struct walk *walk, const struct label *label, uint32_t position)
{
    const uint64_t used = add_clamped(add_clamped(label->bytes, label->transient), walk->input_cost[label->life]);
    if (used > walk->budget)
        return UINT64_MAX;
    const uint64_t all = add_clamped(used, walk->rest_bytes[position - walk->first]);
    if (all <= walk->budget)
        return label->time;
    const uint64_t more = time_to_save(walk, position, all - walk->budget);
    return more == UINT64_MAX ? UINT64_MAX : label->time + more;
}

static bool add_label(struct walk *walk, uint32_t position, struct label label)
{
    walk->made++;
    label.kept_set &= walk->live[position - walk->first];
    label.least = least_time(walk, &label, position);
    if (label.least > walk->most_time)
        return true;
    if (walk->takes_no_time)
        label.least = add_clamped(label.bytes, label.transient);
    struct labels *labels = &walk->positions[position - walk->first];
    if (labels->count == labels->capacity) {
        const size_t capacity = labels->capacity ? 2 * labels->capacity : 32;
        struct label *at = realloc(labels->at, capacity * sizeof *at);
        if (!at)
            return false;
        labels->at = at;
        labels->capacity = capacity;
    }
    labels->at[labels->count++] = label;
    return true;
}

static void move(const struct walk *walk, struct label *label, uint64_t bytes)
{
    if (walk->intervals->holding.activations_on_host)
        label->moved = add_clamped(label->moved, bytes);
}

// The label keeps y_q through, if it does not already.
static void keep_tensor(const struct walk *walk, struct label *label, uint32_t q)
{
    const uint8_t bit = walk->bits[q - walk->first];
    if (bit != NO_BIT) {
        if (label->kept_set >> bit & 1)
            return;
        label->kept_set |= (uint64_t)1 << bit;
    }
    label->bytes =
        add_clamped(label->bytes, slots_of(walk, walk->slots->kept_through, walk->intervals->output[q]));
    move(walk, label, walk->intervals->output[q]);
}

// What a layer reads, made before `made_before`, is kept, or lives on as input.
static void keep_sources(const struct walk *walk, struct label *label, uint32_t layer, uint32_t made_before)
{
    const struct intervals *intervals = walk->intervals;
    for (uint32_t i = intervals->source_at[layer]; i < intervals->source_at[layer + 1]; i++) {
        const uint32_t q = intervals->sources[i];
        if (q >= walk->first && q < made_before) {
            keep_tensor(walk, label, q);
        } else if (q < walk->first) {
            const uint8_t life = interval_needs_input(intervals, layer) ? INPUT_UNTIL_W : INPUT_UNTIL_I;
            label->life = life > label->life ? life : label->life;
        }
    }
}

static bool keep_layer(struct walk *walk, uint32_t layer, const struct label *label, uint32_t parent)
{
    const struct intervals *intervals = walk->intervals;
    struct label next = *label;
    next.from = layer;
    next.parent = parent;
    next.is_segment = false;
    next.bytes = add_clamped(
        next.bytes, slots_of(walk, walk->slots->kept, intervals->saved[layer + 1] - intervals->saved[layer]));
    move(walk, &next, intervals->saved[layer + 1] - intervals->saved[layer]);
    next.bytes = add_clamped(next.bytes,
                             slots_of(walk, walk->slots->held, intervals->held[layer + 1] - intervals->held[layer]));
    if (interval_needs_input(intervals, layer))
        keep_sources(walk, &next, layer, layer);
    return add_label(walk, layer + 1, next);
}

// W of `layer` in a segment needs what it reads of the segment; whoever needs it first counts it.
static uint64_t held_sources(const struct walk *walk, uint32_t layer, uint32_t segment_first)
{
    const struct intervals *intervals = walk->intervals;
    uint64_t bytes = 0;
    for (uint32_t i = intervals->source_at[layer]; interval_needs_input(intervals, layer) && i < intervals->source_at[layer + 1];
         i++) {
        const uint32_t q = intervals->sources[i];
        uint32_t k = intervals->reader_at[q];
        while (intervals->readers[k] != layer && !interval_needs_input(intervals, intervals->readers[k]))
            k++;
        if (q >= segment_first && intervals->readers[k] == layer)
            bytes = add_clamped(bytes, intervals->output[q]);
    }
    return bytes;
}

static void raise_to(uint64_t *largest, uint64_t value)
{
    if (value > *largest)
        *largest = value;
}

static bool wants_every(const struct walk *walk)
{
    return walk->wanted == RECOMPUTE_EVERY || walk->wanted == RECOMPUTE_EVERY_FRONT;
}

static bool wants_front(const struct walk *walk)
{
    return walk->wanted == RECOMPUTE_FRONT || walk->wanted == RECOMPUTE_EVERY_FRONT;
}

// Every segment that begins at `first`.
static bool drop_layers(struct walk *walk, uint32_t first, const struct label *label, uint32_t parent)
{
    const struct intervals *intervals = walk->intervals;
    struct label next = *label;
    next.from = first;
    next.parent = parent;
    next.is_segment = true;
    uint64_t data = 0, backward = 0, forward = 0;
    for (uint32_t l = first; l < walk->end; l++) {
        const struct profile_layer *layer = &intervals->profile->layers[l];
        data = add_clamped(data, add_clamped(intervals->saved[l + 1] - intervals->saved[l], intervals->output[l]));
        if (walk->gathers)
            data = add_clamped(data, intervals->weights[l + 1] - intervals->weights[l]);
        raise_to(&forward, round_to_256(layer->workspace_bytes));
        raise_to(&backward, add_clamped(round_to_256(layer->backward_workspace_bytes), intervals->alive[l]));
        if (add_clamped(label->bytes, data) > walk->budget || next.time > walk->most_time)
            return true;  // longer ones only need more, and take longer
        if (walk->wanted == RECOMPUTE_LEAST && !walk->takes_no_time && walk->most_labels <= NARROW
            && l - first == NARROW_SEGMENT) {
            lose(walk, label->least);
            return true;
        }
        if (wants_front(walk) && l - first == walk->most_labels) {
            walk->complete = false;
            return true;
        }
        next.time += layer_time(walk, l);
        next.layers += !walk->takes_no_time;
        next.bytes = add_clamped(
            next.bytes, slots_of(walk, walk->slots->held, add_clamped(intervals->held[l + 1] - intervals->held[l],
                                                                held_sources(walk, l, first))));
        keep_sources(walk, &next, l, first);
        next.kept_set &= walk->live[l + 1 - walk->first];
        struct label ended = next;
        const uint64_t above = l + 1 < walk->end ? intervals->above[l + 1] : 0;
        raise_to(&ended.transient, add_clamped(data, backward));
        raise_to(&ended.transient, add_clamped(data, add_clamped(forward, above)));
        if (!add_label(walk, l + 1, ended))
            return false;
    }
    return true;
}

// --- dominance ------------------------------------------------------------------

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_time(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    int order = compare(x->time, y->time);
    order = order ? order : compare(x->layers, y->layers);
    order = order ? order : compare(x->bytes, y->bytes);
    order = order ? order : compare(x->transient, y->transient);
    order = order ? order : compare(x->life, y->life);
    order = order ? order : compare(x->moved, y->moved);
    order = order ? order : compare(y->kept_set, x->kept_set);
    order = order ? order : compare(y->from, x->from);
    return order ? order : compare(x->parent, y->parent);
}

static int by_least(const void *a, const void *b)
{
    const int order = compare(((const struct label *)a)->least, ((const struct label *)b)->least);
    return order ? order : by_time(a, b);
}

static bool beats(const struct label *a, const struct label *b)
{
    return a->bytes <= b->bytes && a->transient <= b->transient && a->life <= b->life && a->moved <= b->moved
        && (a->kept_set & b->kept_set) == b->kept_set;
}

// Labels that differ in nothing but time and bytes form a group, of which only the
// one with the fewest bytes can still beat what takes as much time or more.
static bool is_beaten(const struct label *label, struct label *groups, size_t *group_count)
{
    size_t own = *group_count;
    for (size_t i = 0; i < *group_count; i++) {
        if (beats(&groups[i], label))
            return true;
        if (groups[i].transient == label->transient && groups[i].life == label->life && groups[i].moved == label->moved
            && groups[i].kept_set == label->kept_set)
            own = i;
    }
    groups[own] = *label;
    *group_count += own == *group_count;
    return false;
}

// As many of the labels as are wanted: those that promise most, or, of a front, some
// all along it, its ends among them. A list of every time that is not complete proves
// nothing, so the rest of it is made quickly.
static void cut_labels(struct walk *walk, struct labels *labels)
{
    const size_t kept = labels->count, most = walk->most_labels;
    walk->complete = false;
    labels->count = most;
    if (walk->wanted == RECOMPUTE_EVERY && most > NARROW)
        walk->most_labels = NARROW;
    if (!wants_front(walk)) {
        qsort(labels->at, kept, sizeof labels->at[0], by_least);
        lose(walk, labels->at[most].least);
        qsort(labels->at, most, sizeof labels->at[0], by_time);
        return;
    }
    for (size_t i = 1; i < most; i++)
        labels->at[i] = labels->at[i * (kept - 1) / (most - 1)];
}

static bool thin_out(struct walk *walk, uint32_t position)
{
    struct labels *labels = &walk->positions[position - walk->first];
    if (labels->count < 2)
        return true;
    qsort(labels->at, labels->count, sizeof labels->at[0], by_time);
    struct label *groups = malloc(labels->count * sizeof groups[0]);
    if (!groups)
        return false;
    size_t kept = 0, group_count = 0;
    for (size_t i = 0; i < labels->count; i++) {
        const struct label *label = &labels->at[i];
        if (wants_every(walk) && i > 0 && label->time != labels->at[i - 1].time)
            group_count = 0;
        walk->made += group_count / 8;
        if (!is_beaten(label, groups, &group_count))
            labels->at[kept++] = *label;
    }
    labels->count = kept;
    free(groups);
    if (kept > walk->most_labels)
        cut_labels(walk, labels);
    return true;
}

// --- the walk -------------------------------------------------------------------

static bool walk_layers(struct walk *walk)
{
    const struct label start = { .transient = walk->transient };
    if (!add_label(walk, walk->first, start))
        return false;
    for (uint32_t l = walk->first; l < walk->end; l++) {
        if (!thin_out(walk, l))
            return false;
        const size_t count = walk->positions[l - walk->first].count;
        for (uint32_t i = 0; i < count; i++) {
            if (walk->made > (walk->wanted == RECOMPUTE_LEAST ? MOST_MADE_LEAST : MOST_MADE))
                walk->most_labels = NARROW;
            const struct label label = walk->positions[l - walk->first].at[i];
            if (!keep_layer(walk, l, &label, i) || !drop_layers(walk, l, &label, i))
                return false;
        }
    }
    return thin_out(walk, walk->end);
}

static void see_away(const struct walk *walk, struct recompute_choice *choice)
{
    const struct intervals *intervals = walk->intervals;
    if (!holding_uses_host(&intervals->holding))
        return;
    const struct stage_bytes bytes = stage_bytes_at(intervals->profile, walk->first, walk->end, choice->segments,
                                                    choice->count, &intervals->holding, intervals->replicas);
    choice->away = stage_away_of(&bytes, intervals->splits, walk->all_slots);
}

static bool read_choice(const struct walk *walk, struct label label, struct recompute_choice *choice)
{
    *choice = (struct recompute_choice){
        .bytes = add_clamped(walk->fixed, add_clamped(label.bytes, walk->input_cost[label.life])),
        .workspace_bytes = label.transient,
    };
    choice->segments = malloc(((size_t)walk->end - walk->first + 1) * sizeof choice->segments[0]);
    if (!choice->segments)
        return false;
    for (uint32_t position = walk->end; position > walk->first;) {
        if (label.is_segment) {
            choice->segments[choice->count++] = (struct segment){ label.from, position };
            choice->forward_ns += interval_forward_ns(walk->intervals, label.from, position);
        }
        position = label.from;
        label = walk->positions[position - walk->first].at[label.parent];
    }
    for (size_t i = 0; i < choice->count / 2; i++) {
        const struct segment other = choice->segments[i];
        choice->segments[i] = choice->segments[choice->count - 1 - i];
        choice->segments[choice->count - 1 - i] = other;
    }
    see_away(walk, choice);
    return true;
}

// The labels at the end are in order of time, then of layers.
static bool read_choices(const struct walk *walk, struct recompute_list *list)
{
    const struct labels *labels = &walk->positions[walk->end - walk->first];
    list->at = calloc(labels->count + 1, sizeof list->at[0]);
    if (!list->at)
        return false;
    for (size_t i = 0; i < labels->count; i++) {
        if (!wants_front(walk) && i > 0 && labels->at[i].time == labels->at[i - 1].time)
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

static bool fits_as_it_is(const struct walk *walk, uint64_t capacity)
{
    const struct stage_bytes bytes = stage_bytes_of_split(interval_bytes(walk->intervals, walk->first, walk->end),
                                                          walk->intervals->splits);
    return stage_memory_of(&bytes, walk->slots).peak_bytes <= capacity;
}

static bool choose_nothing(const struct walk *walk, struct recompute_list *list)
{
    list->least_ns = 0;
    list->at = calloc(1, sizeof list->at[0]);
    if (!list->at)
        return false;
    const struct stage_bytes bytes = stage_bytes_of_split(interval_bytes(walk->intervals, walk->first, walk->end),
                                                          walk->intervals->splits);
    list->at[0].workspace_bytes = bytes.transient;
    list->at[0].bytes = stage_memory_of(&bytes, walk->slots).peak_bytes - bytes.transient;
    list->at[0].segments = calloc(1, sizeof list->at[0].segments[0]);
    list->count = list->at[0].segments ? 1 : 0;
    see_away(walk, &list->at[0]);
    return list->count == 1;
}

// What of the stage no choice changes; the walk learns what else it wants to know.
static uint64_t fixed_bytes(struct walk *walk)
{
    struct stage_bytes bytes = interval_bytes(walk->intervals, walk->first, walk->end);
    walk->transient = bytes.transient;
    walk->gathers = holding_gathers(&walk->intervals->holding, walk->intervals->replicas, walk->end - walk->first);
    bytes = stage_bytes_of_split(bytes, walk->intervals->splits);
    for (unsigned life = 0; life < 3; life++)
        walk->input_cost[life] = multiply_clamped(walk->slots->input[life], bytes.input);
    bytes.kept = bytes.kept_through = bytes.held = bytes.transient = 0;
    bytes.input_life = INPUT_UNTIL_F;
    struct slots slots = *walk->slots;
    slots.input[INPUT_UNTIL_F] = 0;
    return stage_memory_of(&bytes, &slots).peak_bytes;
}

// What of the capacity is left for what the choice decides; false if nothing is.
static bool set_budget(struct walk *walk, uint64_t capacity)
{
    walk->fixed = fixed_bytes(walk);
    walk->budget = walk->fixed <= capacity ? capacity - walk->fixed : 0;
    return walk->fixed <= capacity;
}

static bool try_walk(struct walk *walk, struct recompute_list *list)
{
    bool good = allocate(walk);
    if (good) {
        give_bits(walk);
        sum_rests(walk);
        good = walk_layers(walk) && read_choices(walk, list);
    }
    clear(walk);
    return good;
}

// The slots that are on the device.
static struct slots slots_here(const struct intervals *intervals, const struct slots *slots)
{
    return intervals->holding.activations_on_host ? stage_slots_here(slots) : *slots;
}

static bool walk_once(struct walk *walk, struct recompute_list *list, uint64_t *work)
{
    const bool good = try_walk(walk, list);
    *work += walk->made;
    return good;
}

// The better of two, each of which may be empty; the other is gone.
static void take_better(struct recompute_list *list, struct recompute_list *other)
{
    if (other->count > 0 && (list->count == 0 || other->at[0].forward_ns <= list->at[0].forward_ns)) {
        const struct recompute_list taken = *list;
        *list = *other;
        *other = taken;
    }
    recompute_list_clear(other);
}

// No choice takes less than the best found or what was lost on the way to it.
static uint64_t least_of(const struct walk *walk, const struct recompute_list *list)
{
    const uint64_t found = list->count > 0 ? list->at[0].forward_ns : UINT64_MAX;
    return walk->complete || found < walk->lost ? found : walk->lost;
}

// A narrow walk first: what it finds bounds the full one. Where neither finds a way, any
// is better than none: the one with the fewest bytes, if that fits.
static bool search_least(struct walk walk, struct recompute_list *list, uint64_t *work)
{
    struct recompute_list other = { 0 };
    struct walk narrow = walk, bytes = walk;
    narrow.most_labels = walk.most_labels < NARROW ? walk.most_labels : NARROW;
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

bool recompute_search(struct intervals *intervals, uint32_t first, uint32_t end, const struct slots *slots,
                      uint64_t capacity_bytes, enum recompute_wanted wanted, size_t most_labels, uint64_t *work,
                      struct recompute_list *list, struct error *error)
{
    assert(first <= end && end <= intervals->layers && most_labels > 0);
    *list = (struct recompute_list){ .complete = true, .least_ns = UINT64_MAX };
    const struct slots here = slots_here(intervals, slots);
    struct walk walk = { .intervals = intervals, .first = first, .end = end, .slots = &here,
                         .all_slots = slots, .wanted = wanted,
                         .most_labels = most_labels, .most_time = UINT64_MAX - 1, .complete = true,
                         .lost = UINT64_MAX };
    if (wanted == RECOMPUTE_LEAST && fits_as_it_is(&walk, capacity_bytes))
        return choose_nothing(&walk, list) || error_no_memory(error, "the choice of what to recompute");
    if (!set_budget(&walk, capacity_bytes))
        return true;
    const bool good = wanted == RECOMPUTE_LEAST ? search_least(walk, list, work) : walk_once(&walk, list, work);
    if (!good)
        recompute_list_clear(list);
    return good || error_no_memory(error, "the choice of what to recompute");
}

static uint64_t least_bytes(const struct walk *walk)
{
    const struct labels *labels = &walk->positions[walk->end - walk->first];
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < labels->count; i++) {
        const struct label *label = &labels->at[i];
        const uint64_t bytes = add_clamped(add_clamped(label->bytes, label->transient), walk->input_cost[label->life]);
        least = bytes < least ? bytes : least;
    }
    return least;
}

static bool walk_for_bytes(struct walk *walk, uint64_t *bytes)
{
    bool good = allocate(walk);
    if (good) {
        give_bits(walk);
        sum_rests(walk);
        good = walk_layers(walk);
    }
    if (good)
        *bytes = least_bytes(walk);
    clear(walk);
    return good;
}

bool recompute_least_bytes(struct intervals *intervals, uint32_t first, uint32_t end, const struct slots *slots,
                           bool input, uint64_t *bytes, bool *complete, uint64_t *work, struct error *error)
{
    const struct slots here = slots_here(intervals, slots);
    struct walk walk = { .intervals = intervals, .first = first, .end = end, .slots = &here, .all_slots = slots,
                         .wanted = RECOMPUTE_LEAST, .most_labels = 20000, .budget = UINT64_MAX - 1,
                         .most_time = UINT64_MAX - 1, .takes_no_time = true, .complete = true };
    const uint64_t fixed = fixed_bytes(&walk);
    if (!input)
        memset(walk.input_cost, 0, sizeof walk.input_cost);
    struct walk narrow = walk;  // what it finds is the budget of the full one
    narrow.most_labels = NARROW;
    bool good = walk_for_bytes(&narrow, bytes);
    *complete = narrow.complete;
    if (good && !narrow.complete) {
        walk.budget = *bytes;
        good = walk_for_bytes(&walk, bytes);
        *complete = walk.complete;
    }
    *work += narrow.made + walk.made;
    *bytes = add_clamped(fixed, *bytes);
    return good || error_no_memory(error, "the choice of what to recompute");
}

void recompute_list_clear(struct recompute_list *list)
{
    for (size_t i = 0; list->at && i < list->count; i++)
        free(list->at[i].segments);
    free(list->at);
    *list = (struct recompute_list){ 0 };
}
