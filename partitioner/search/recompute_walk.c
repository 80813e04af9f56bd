#include "partitioner/search/recompute_walk.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"

#define NO_BIT 255

// The most layers of a segment in a narrow walk, and how many labels a walk makes before it becomes narrow.
#define NARROW_SEGMENT 32
#define MOST_MADE 2000000
#define MOST_MADE_LEAST 400000

// --- what does not depend on labels ---------------------------------------------

void recompute_walk_clear(struct recompute_walk *walk)
{
    for (uint32_t i = 0; walk->positions && i <= walk->end - walk->first; i++)
        free(walk->positions[i].at);
    free(walk->positions);
    free(walk->parts);
    free(walk->prices);
}

// Notes that something was left out that may take as little as `least`.
static void lose(struct recompute_walk *walk, uint64_t least)
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

// A tensor that several layers inside read gets a bit from where it is made to its last reader, the lowest that is
// free. Behind layer l, the bits of tensors that were made before l and are read behind it are alive. The bit of y_l
// is not: y_l cannot be kept yet, and its bit may have been another's.
static void give_bits(struct recompute_walk *walk)
{
    uint64_t taken = 0;
    for (uint32_t l = walk->first; l < walk->end; l++) {
        for (uint32_t i = walk->intervals->source_at[l]; i < walk->intervals->source_at[l + 1]; i++) {
            const uint32_t q = walk->intervals->sources[i];
            uint32_t last = q;
            if (q >= walk->first && walk->positions[q - walk->first].bit != NO_BIT
                && readers_inside(walk->intervals, q, walk->end, &last) > 1 && last == l)
                taken &= ~((uint64_t)1 << walk->positions[q - walk->first].bit);
        }
        walk->positions[l + 1 - walk->first].live = taken;
        uint32_t last = l;
        walk->positions[l - walk->first].bit = NO_BIT;
        if (readers_inside(walk->intervals, l, walk->end, &last) < 2)
            continue;
        if (~taken == 0) {
            lose(walk, 0);  // more than 64 at once: counted once per reader, which is safe but too much
            continue;
        }
        const uint8_t bit = (uint8_t)__builtin_ctzll(~taken);
        walk->positions[l - walk->first].bit = bit;
        taken |= (uint64_t)1 << bit;
    }
}

static uint64_t layer_time(const struct recompute_walk *walk, uint32_t l)
{
    return walk->takes_no_time ? 0 : interval_recompute_ns(walk->intervals, l, l + 1);
}

// --- prices -----------------------------------------------------------------------

// From so many layers on, prices are worth their time.
#define MANY 5

static uint32_t price_slots(const struct recompute_walk *walk)
{
    return walk->slots->kept < walk->slots->kept_through ? walk->slots->kept : walk->slots->kept_through;
}

static bool may_ask_prices(const struct recompute_walk *walk)
{
    return walk->wanted == RECOMPUTE_LEAST && walk->end - walk->first >= MANY && walk->intervals->splits == 1
        && price_slots(walk) > 0 && walk->slots->again == 0;
}

static void sum_parts(struct recompute_walk *walk)
{
    const struct intervals *intervals = walk->intervals;
    for (uint32_t q = walk->first; q < walk->end; q++) {
        const uint8_t bit = walk->positions[q - walk->first].bit;
        uint64_t sum = 0;
        uint32_t position = walk->end;
        for (uint32_t i = intervals->reader_at[q + 1]; i-- > intervals->reader_at[q] && bit != NO_BIT;) {
            if (intervals->readers[i] >= walk->end)
                continue;
            for (; position > intervals->readers[i]; position--)
                if (sum > 0)
                    walk->parts[(size_t)(position - walk->first) * 64 + bit] = sum;
            sum += recompute_prices_part(walk->prices, q);
        }
        for (; position > q && sum > 0; position--)
            walk->parts[(size_t)(position - walk->first) * 64 + bit] = sum;
    }
}

static bool set_prices(struct recompute_walk *walk)
{
    struct error error = { 0 };
    if (!may_ask_prices(walk))
        return true;
    walk->prices =
        recompute_prices_create(walk->intervals, walk->first, walk->end, walk->budget, RECOMPUTE_QUICK, &error);
    if (!walk->prices)
        return error.kind == ERROR_NONE;
    walk->parts = calloc(((size_t)walk->end - walk->first + 1) * 64, sizeof walk->parts[0]);
    if (!walk->parts)
        return false;
    recompute_prices_rest(walk->prices);
    sum_parts(walk);
    return true;
}

// The bytes that the label keeps already, among those that its completions pay for by the prices.
static uint64_t paid(const struct recompute_walk *walk, const struct recompute_label *label, uint32_t position)
{
    const uint64_t *parts = &walk->parts[(size_t)(position - walk->first) * 64];
    uint64_t sum = 0;
    for (uint64_t set = label->kept_set; set; set &= set - 1)
        sum += parts[__builtin_ctzll(set)];
    return sum;
}

// --- labels ---------------------------------------------------------------------

// The least time that any completion of the label can take; UINT64_MAX if none fits.
static uint64_t least_time(const struct recompute_walk *walk, const struct recompute_label *label, uint32_t position)
{
    const uint64_t kept = add_clamped(label->bytes, walk->stage.input_cost[label->life]);
    const uint64_t used = add_clamped(kept, label->transient);
    if (used > walk->budget)
        return UINT64_MAX;
    if (!walk->prices)
        return label->time;
    const uint64_t rest = recompute_prices_least(walk->prices, position, price_slots(walk), walk->budget - kept,
                                                 label->transient, paid(walk, label, position));
    return rest == UINT64_MAX ? rest : label->time + (walk->takes_no_time ? 0 : rest);
}

static bool add_label(struct recompute_walk *walk, uint32_t position, struct recompute_label label)
{
    walk->made++;
    label.kept_set &= walk->positions[position - walk->first].live;
    if (position == walk->end)
        memset(label.whole, 0, sizeof label.whole);  // nothing more is added
    label.least = least_time(walk, &label, position);
    if (label.least > walk->most_time)
        return true;
    if (walk->takes_no_time)
        label.least = add_clamped(label.bytes, label.transient);
    struct recompute_position *labels = &walk->positions[position - walk->first];
    if (labels->count == labels->capacity) {
        const size_t capacity = labels->capacity ? 2 * labels->capacity : 32;
        struct recompute_label *larger = realloc(labels->at, capacity * sizeof *larger);
        if (!larger)
            return false;
        labels->at = larger;
        labels->capacity = capacity;
    }
    labels->at[labels->count++] = label;
    return true;
}

static uint32_t class_slots(const struct slots *slots, enum recompute_class class)
{
    const uint32_t by_class[CLASSES] = { slots->kept, slots->kept_through, slots->held, slots->again };
    return by_class[class];
}

// Adds bytes of a micro-batch to what the label keeps in a class.
static void keep_bytes(const struct recompute_walk *walk, struct recompute_label *label, enum recompute_class class,
                       uint64_t bytes)
{
    const uint32_t splits = walk->intervals->splits;
    if (splits == 1) {
        label->bytes = add_clamped(label->bytes, multiply_clamped(class_slots(walk->slots, class), bytes));
        return;
    }
    if (class_slots(walk->slots, class) > 0)
        label->whole[class] = add_clamped(label->whole[class], bytes);
    label->bytes = 0;
    for (unsigned c = 0; c < CLASSES; c++) {
        const uint64_t part = round_to_256(label->whole[c] / splits + (label->whole[c] % splits > 0));
        label->bytes = add_clamped(label->bytes, multiply_clamped(class_slots(walk->slots, c), part));
    }
}

static void move(const struct recompute_walk *walk, struct recompute_label *label, uint64_t bytes)
{
    if (walk->intervals->storage.activations_on_host)
        label->moved = add_clamped(label->moved, bytes);
}

// Adds y_q to what the label keeps through, unless it is kept already.
static void keep_tensor(const struct recompute_walk *walk, struct recompute_label *label, uint32_t q)
{
    const uint8_t bit = walk->positions[q - walk->first].bit;
    if (bit != NO_BIT) {
        if (label->kept_set >> bit & 1)
            return;
        label->kept_set |= (uint64_t)1 << bit;
    }
    keep_bytes(walk, label, CLASS_THROUGH, walk->intervals->memory[q].output);
    move(walk, label, walk->intervals->memory[q].output);
}

// Keeps what a layer reads, if it is needed beyond F: what was made before `made_before` is kept, and the input lives
// on.
static void keep_sources(const struct recompute_walk *walk, struct recompute_label *label, uint32_t layer,
                         uint32_t made_before, bool in_segment)
{
    const struct intervals *intervals = walk->intervals;
    const uint8_t life = (uint8_t)layer_reads_until(&intervals->profile->layers[layer], in_segment);
    if (life == INPUT_UNTIL_F)
        return;
    for (uint32_t i = intervals->source_at[layer]; i < intervals->source_at[layer + 1]; i++) {
        const uint32_t q = intervals->sources[i];
        if (q >= walk->first && q < made_before) {
            keep_tensor(walk, label, q);
        } else if (q < walk->first) {
            label->life = life > label->life ? life : label->life;
        }
    }
}

static bool keep_layer(struct recompute_walk *walk, uint32_t layer, const struct recompute_label *label,
                       uint32_t parent)
{
    const struct layer_memory *memory = &walk->intervals->memory[layer];
    struct recompute_label next = *label;
    next.from = layer;
    next.parent = parent;
    next.is_segment = false;
    keep_bytes(walk, &next, CLASS_KEPT, memory->kept - (walk->intervals->splits > 1 ? memory->shared_by_parts : 0));
    move(walk, &next, memory->kept);
    keep_bytes(walk, &next, CLASS_HELD, memory->held);
    keep_sources(walk, &next, layer, layer, false);
    return add_label(walk, layer + 1, next);
}

// W of `layer` in a segment needs what it reads of the segment. The first layer that needs a tensor counts it.
static uint64_t held_sources(const struct recompute_walk *walk, uint32_t layer, uint32_t segment_first)
{
    const struct intervals *intervals = walk->intervals;
    const struct profile_layer *layers = intervals->profile->layers;
    const bool holds = layer_holds_input(&layers[layer]);
    uint64_t bytes = 0;
    for (uint32_t i = intervals->source_at[layer]; holds && i < intervals->source_at[layer + 1]; i++) {
        const uint32_t q = intervals->sources[i];
        uint32_t k = intervals->reader_at[q];
        while (intervals->readers[k] != layer && !layer_holds_input(&layers[intervals->readers[k]]))
            k++;
        if (q >= segment_first && intervals->readers[k] == layer)
            bytes = add_clamped(bytes, intervals->memory[q].output);
    }
    return bytes;
}

// Tries every segment that begins at `first`.
static bool drop_layers(struct recompute_walk *walk, uint32_t first, const struct recompute_label *label,
                        uint32_t parent)
{
    const struct intervals *intervals = walk->intervals;
    struct recompute_label next = *label;
    next.from = first;
    next.parent = parent;
    next.is_segment = true;
    struct segment_memory segment = { 0 };
    for (uint32_t l = first; l < walk->end; l++) {
        const struct layer_memory *memory = &intervals->memory[l];
        // This includes the weights of a copy that the layer brings to the stage.
        const uint64_t gathered =
            walk->stage.gathers ? stage_layer_weights(intervals->profile, walk->first, walk->end, l) : 0;
        segment_add(&segment, memory, intervals->alive[l], gathered);
        if (add_clamped(label->bytes, segment.data) > walk->budget || next.time > walk->most_time)
            return true;  // longer ones only need more, and take longer
        if (walk->wanted == RECOMPUTE_LEAST && !walk->takes_no_time && walk->most_labels <= NARROW
            && l - first == NARROW_SEGMENT) {
            lose(walk, label->least);
            return true;
        }
        if ((walk->wanted & RECOMPUTE_FRONT) && l - first == walk->most_labels) {
            walk->complete = false;
            return true;
        }
        next.time += layer_time(walk, l);
        next.layers += !walk->takes_no_time;
        keep_bytes(walk, &next, CLASS_HELD, add_clamped(memory->held, held_sources(walk, l, first)));
        keep_bytes(walk, &next, CLASS_AGAIN, add_clamped(memory->again, gathered));
        keep_sources(walk, &next, l, first, true);
        next.kept_set &= walk->positions[l + 1 - walk->first].live;
        struct recompute_label ended = next;
        const uint64_t above = l + 1 < walk->end ? intervals->above[l + 1] : 0;
        ended.transient =
            max_u64(ended.transient, walk->slots->again > 0 ? segment_workspace_with_recompute(&segment, above)
                                                            : segment_workspace(&segment, above));
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
    const struct recompute_label *x = a, *y = b;
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
    const int order = compare(((const struct recompute_label *)a)->least, ((const struct recompute_label *)b)->least);
    return order ? order : by_time(a, b);
}

static int by_bytes(const void *a, const void *b)
{
    const struct recompute_label *x = a, *y = b;
    const int order = compare(add_clamped(x->bytes, x->transient), add_clamped(y->bytes, y->transient));
    return order ? order : by_time(a, b);
}

static bool takes_no_more(const struct recompute_label *a, const struct recompute_label *b)
{
    bool no_more = a->bytes <= b->bytes;
    for (unsigned class = 0; class < CLASSES; class++)
        no_more &= a->whole[class] <= b->whole[class];
    return no_more;
}

static bool beats(const struct recompute_label *a, const struct recompute_label *b)
{
    return takes_no_more(a, b) && a->transient <= b->transient && a->life <= b->life && a->moved <= b->moved
        && (a->kept_set & b->kept_set) == b->kept_set;
}

// Labels that differ in nothing but time and bytes form a group (with splits: some of them do). In a group, only the
// label with the fewest bytes can still beat what takes as much time or more.
static bool is_beaten(const struct recompute_label *label, struct recompute_label *groups, size_t *group_count)
{
    size_t group = *group_count;
    for (size_t i = 0; i < *group_count; i++) {
        if (beats(&groups[i], label))
            return true;
        if (groups[i].transient == label->transient && groups[i].life == label->life && groups[i].moved == label->moved
            && groups[i].kept_set == label->kept_set && takes_no_more(label, &groups[i]))
            group = i;
    }
    groups[group] = *label;
    *group_count += group == *group_count;
    return false;
}

// Keeps as many of these labels as wanted, spread from the first to the last.
static void spread_labels(struct recompute_label *labels, size_t count, size_t wanted)
{
    for (size_t i = 1; i < wanted; i++)
        labels[i] = labels[i * (count - 1) / (wanted - 1)];
}

// Cuts the labels to as many as are wanted. Those of a front remain spread all along it, its ends among them.
// Otherwise those that promise most remain, and as a part of them some with few bytes, and with more and more. The
// reason is that, if memory is tight, all that promise most may end without a way that fits. A list of every time
// that is incomplete proves nothing, so the rest of it is made quickly.
static void cut_labels(struct recompute_walk *walk, struct recompute_position *labels)
{
    const size_t kept = labels->count, most = walk->most_labels;
    const size_t promising = most - most / walk->spread_part;
    walk->complete = false;
    labels->count = most;
    if (walk->wanted == RECOMPUTE_EVERY && most > NARROW)
        walk->most_labels = NARROW;
    if (walk->wanted & RECOMPUTE_FRONT) {
        spread_labels(labels->at, kept, most);
        return;
    }
    qsort(labels->at, kept, sizeof labels->at[0], by_least);
    lose(walk, labels->at[promising].least);
    qsort(labels->at + promising, kept - promising, sizeof labels->at[0], by_bytes);
    spread_labels(labels->at + promising, kept - promising, most - promising);
    qsort(labels->at, most, sizeof labels->at[0], by_time);
}

static bool thin_out(struct recompute_walk *walk, uint32_t position)
{
    struct recompute_position *labels = &walk->positions[position - walk->first];
    if (labels->count < 2)
        return true;
    qsort(labels->at, labels->count, sizeof labels->at[0], by_time);
    struct recompute_label *groups = malloc(labels->count * sizeof groups[0]);
    if (!groups)
        return false;
    size_t kept = 0, group_count = 0;
    for (size_t i = 0; i < labels->count; i++) {
        const struct recompute_label *label = &labels->at[i];
        if ((walk->wanted & RECOMPUTE_EVERY) && i > 0 && label->time != labels->at[i - 1].time)
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

static bool walk_layers(struct recompute_walk *walk)
{
    const struct recompute_label start = { .transient = walk->stage.transient };
    if (!add_label(walk, walk->first, start))
        return false;
    for (uint32_t l = walk->first; l < walk->end; l++) {
        if (!thin_out(walk, l))
            return false;
        if (walk->intervals->until_ns && clock_now_ns() >= walk->intervals->until_ns)
            walk->most_labels = 1;  // goes to the end at once: what is left is still a way, if it fits
        const size_t count = walk->positions[l - walk->first].count;
        for (uint32_t i = 0; i < count; i++) {
            if (walk->most_labels > NARROW
                && walk->made > (walk->wanted == RECOMPUTE_LEAST ? MOST_MADE_LEAST : MOST_MADE))
                walk->most_labels = NARROW;
            const struct recompute_label label = walk->positions[l - walk->first].at[i];
            if (!keep_layer(walk, l, &label, i) || !drop_layers(walk, l, &label, i))
                return false;
        }
    }
    return thin_out(walk, walk->end);
}

bool recompute_walk(struct recompute_walk *walk)
{
    walk->positions = calloc((size_t)walk->end - walk->first + 1, sizeof walk->positions[0]);
    if (!walk->positions)
        return false;
    give_bits(walk);
    return set_prices(walk) && walk_layers(walk);
}
