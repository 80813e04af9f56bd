#include "partitioner/search/recompute_walk.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
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
    if (!array_reserve(&labels->at, &labels->capacity, labels->count + 1, sizeof labels->at[0]))
        return false;
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

// A label of a position, and what it is sorted by: these numbers, and what is left of by_time() if they are equal.
struct label_key {
    uint64_t first, third;
    uint32_t second, label;
};

static struct label_key time_key(const struct recompute_label *labels, uint32_t label)
{
    return (struct label_key){ labels[label].time, labels[label].bytes, labels[label].layers, label };
}

static bool is_before(const struct recompute_label *labels, const struct label_key *a, const struct label_key *b)
{
    if (a->first != b->first)
        return a->first < b->first;
    if (a->second != b->second)
        return a->second < b->second;
    if (a->third != b->third)
        return a->third < b->third;
    return by_time(&labels[a->label], &labels[b->label]) < 0;
}

// Lists where each ascending run ends. Returns the number of runs.
static size_t list_runs(const struct recompute_label *labels, const struct label_key *keys, size_t count,
                        uint32_t *ends)
{
    size_t runs = 0;
    for (size_t i = 1; i <= count; i++)
        if (i == count || is_before(labels, &keys[i], &keys[i - 1]))
            ends[runs++] = (uint32_t)i;
    return runs;
}

// Merges two runs, [first, middle) and [middle, end), of which the first goes through the room.
static void merge_runs(const struct recompute_label *labels, struct label_key *keys, size_t first, size_t middle,
                       size_t end, struct label_key *room)
{
    const size_t lower = middle - first;
    memcpy(room, &keys[first], lower * sizeof room[0]);
    for (size_t i = 0; i < lower;)
        keys[first++] = middle < end && is_before(labels, &keys[middle], &room[i]) ? keys[middle++] : room[i++];
}

// What labels are sorted with: keys, and room for as many keys, runs and groups (below).
struct label_sort {
    struct label_key *keys, *room;
    uint32_t *ends;
    const struct recompute_label **groups;
};

// Sorts the keys [first, end); what is equal keeps its order. Labels come in runs, one for each layer at which their
// last segment begins, since the labels there are in order of time. So there is little to merge.
static void sort_keys(const struct recompute_label *labels, struct label_sort *sort, size_t first, size_t end)
{
    struct label_key *keys = sort->keys + first;
    uint32_t *ends = sort->ends;
    for (size_t runs = list_runs(labels, keys, end - first, ends), half; runs > 1; runs = half) {
        half = 0;
        for (size_t r = 0; r < runs; r += 2) {
            const size_t begin = r > 0 ? ends[r - 1] : 0, last = r + 1 < runs ? r + 1 : r;
            if (last > r)
                merge_runs(labels, keys, begin, ends[r], ends[last], sort->room);
            ends[half++] = ends[last];
        }
    }
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
static bool is_beaten(const struct recompute_label *label, const struct recompute_label **groups, size_t *group_count)
{
    size_t group = *group_count;
    for (size_t i = 0; i < *group_count; i++) {
        const struct recompute_label *other = groups[i];
        if (beats(other, label))
            return true;
        if (other->transient == label->transient && other->life == label->life && other->moved == label->moved
            && other->kept_set == label->kept_set && takes_no_more(label, other))
            group = i;
    }
    groups[group] = label;
    *group_count += group == *group_count;
    return false;
}

// Keeps as many of these labels as wanted, spread from the first to the last.
static void spread_keys(struct label_key *keys, size_t count, size_t wanted)
{
    for (size_t i = 1; i < wanted; i++)
        keys[i] = keys[i * (count - 1) / (wanted - 1)];
}

// Cuts the labels to as many as are wanted. Those of a front remain spread all along it, its ends among them.
// Otherwise those that promise most remain, and as a part of them some with few bytes, and with more and more. The
// reason is that, if memory is tight, all that promise most may end without a way that fits. A list of every time
// that is incomplete proves nothing, so the rest of it is made quickly.
static size_t cut_labels(struct recompute_walk *walk, const struct recompute_label *labels, struct label_sort *sort,
                         size_t count)
{
    const size_t most = walk->most_labels, promising = most - most / walk->spread_part;
    struct label_key *keys = sort->keys;
    walk->complete = false;
    if (walk->wanted == RECOMPUTE_EVERY && most > NARROW)
        walk->most_labels = NARROW;
    if (walk->wanted & RECOMPUTE_FRONT) {
        spread_keys(keys, count, most);
        return most;
    }
    for (uint32_t i = 0; i < count; i++)  // the second number is from now on the place in order of time
        keys[i] = (struct label_key){ labels[keys[i].label].least, 0, i, keys[i].label };
    sort_keys(labels, sort, 0, count);
    lose(walk, keys[promising].first);
    for (size_t i = promising; i < count; i++)
        keys[i].first = add_clamped(labels[keys[i].label].bytes, labels[keys[i].label].transient);
    sort_keys(labels, sort, promising, count);
    spread_keys(keys + promising, count - promising, most - promising);
    for (size_t i = 0; i < most; i++)
        keys[i].first = 0;
    sort_keys(labels, sort, 0, most);
    return most;
}

// Sorts the labels by time, and leaves out those that another one beats. Returns how many are left.
static size_t list_unbeaten(struct recompute_walk *walk, const struct recompute_position *labels,
                            struct label_sort *sort)
{
    struct label_key *keys = sort->keys;
    size_t kept = 0, group_count = 0;
    uint64_t last_time = 0;
    for (uint32_t i = 0; i < labels->count; i++)
        keys[i] = time_key(labels->at, i);
    sort_keys(labels->at, sort, 0, labels->count);
    for (size_t i = 0; i < labels->count; i++) {
        if ((walk->wanted & RECOMPUTE_EVERY) && keys[i].first != last_time)
            group_count = 0;
        last_time = keys[i].first;
        walk->made += group_count / 8;
        if (!is_beaten(&labels->at[keys[i].label], sort->groups, &group_count))
            keys[kept++] = keys[i];
    }
    return kept;
}

// Leaves only the labels of these keys, in their order and in no more memory than they need.
static bool keep_labels(struct recompute_position *labels, const struct label_key *keys, size_t count)
{
    struct recompute_label *kept = malloc(count * sizeof kept[0]);
    if (!kept)
        return false;
    for (size_t i = 0; i < count; i++)
        kept[i] = labels->at[keys[i].label];
    free(labels->at);
    labels->at = kept;
    labels->count = labels->capacity = count;
    return true;
}

static bool thin_out(struct recompute_walk *walk, uint32_t position)
{
    struct recompute_position *labels = &walk->positions[position - walk->first];
    struct label_sort sort;
    if (labels->count < 2)
        return true;
    sort.keys = malloc(labels->count * (2 * sizeof sort.keys[0] + sizeof sort.groups[0] + sizeof sort.ends[0]));
    if (!sort.keys)
        return false;
    sort.room = sort.keys + labels->count;
    sort.groups = (const struct recompute_label **)(sort.room + labels->count);
    sort.ends = (uint32_t *)(sort.groups + labels->count);
    size_t kept = list_unbeaten(walk, labels, &sort);
    if (kept > walk->most_labels)
        kept = cut_labels(walk, labels->at, &sort, kept);
    const bool good = keep_labels(labels, sort.keys, kept);
    free(sort.keys);
    return good;
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
