#include "partitioner/orders/order_walk.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"

enum {
    NARROW = 32,           // labels of a downset that a narrow walk keeps
    NARROW_SEGMENT = 32,   // and layers of its longest segments
    MOST_MADE = 400000,    // labels made before a walk becomes narrow
    MANY = 5,              // layers from which on prices are worth their time
};

// A way to have decided the layers up to a downset that no other one beats.
struct label {
    uint64_t time;       // F of what is recomputed
    uint64_t least;      // what any completion takes at least
    uint64_t bytes;      // kept, times slots
    uint64_t transient;  // the largest workspace so far, and of what is left at least
    uint64_t kept_set;   // which tensors with several readers are kept already
    uint32_t step;       // the last one, and the label before it
    uint32_t parent;
    uint8_t life;        // of the input
};

struct labels {
    struct label *at;
    size_t count, room;
};

struct walk {
    const struct order_lattice *lattice;
    const struct slots *slots;
    uint64_t budget;          // for what the choice decides
    uint64_t input_cost[3];
    size_t most_labels;
    uint64_t most_time;       // no label above it matters
    uint64_t lost;            // the least of what was cut
    uint64_t made;
    struct labels *at;        // of each downset
    struct label *groups;     // room of thin_out()
    size_t group_room;
    struct recompute_prices *prices;  // or NULL
    struct recompute_prices *dry;     // of completions for which the input is not kept; or NULL
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// --- labels -------------------------------------------------------------------------------

// What the label has kept already of what prices say its completions pay for.
static uint64_t paid(const struct walk *walk, const struct label *label, uint32_t d)
{
    const uint64_t *parts = &walk->lattice->paid[64 * (size_t)d];
    uint64_t sum = 0;
    for (uint64_t set = label->kept_set; set; set &= set - 1)
        sum += parts[__builtin_ctzll(set)];
    return sum;
}

// What is left takes at least, where so many bytes are kept already.
static uint64_t rest_of(const struct walk *walk, const struct recompute_prices *prices, const struct label *label,
                        uint32_t d, uint64_t kept)
{
    const uint32_t slots = (uint32_t)smaller(walk->slots->kept, walk->slots->kept_through);
    if (add_clamped(kept, label->transient) > walk->budget)
        return UINT64_MAX;
    if (!prices || slots == 0)
        return 0;
    return recompute_prices_least(prices, walk->lattice->first + d, slots, walk->budget - kept, label->transient,
                                  paid(walk, label, d));
}

// The least time any completion of the label takes; UINT64_MAX if none fits. Where the input is not kept so far, it
// is not at the end, or it is.
static uint64_t least_time(const struct walk *walk, const struct label *label, uint32_t d)
{
    const uint64_t *costs = walk->input_cost;
    const bool is_open = walk->dry && label->life == INPUT_UNTIL_F;
    const uint64_t cost = is_open ? smaller(costs[INPUT_UNTIL_I], costs[INPUT_UNTIL_W]) : costs[label->life];
    uint64_t rest = rest_of(walk, walk->prices, label, d, add_clamped(label->bytes, cost));
    if (is_open && rest > 0)
        rest = smaller(rest, rest_of(walk, walk->dry, label, d, add_clamped(label->bytes, costs[INPUT_UNTIL_F])));
    return add_clamped(label->time, rest);
}

static bool add_label(struct walk *walk, uint32_t d, struct label label)
{
    struct labels *labels = &walk->at[d];
    walk->made++;
    label.kept_set &= walk->lattice->live[d];
    label.transient = larger(label.transient, walk->lattice->least[d]);
    label.least = least_time(walk, &label, d);
    if (label.least > walk->most_time)
        return true;
    if (labels->count == labels->room) {
        const size_t room = labels->room ? 2 * labels->room : 32;
        struct label *at = realloc(labels->at, room * sizeof *at);
        if (!at)
            return false;
        labels->at = at;
        labels->room = room;
    }
    labels->at[labels->count++] = label;
    return true;
}

static void lose(struct walk *walk, uint64_t least)
{
    walk->lost = smaller(walk->lost, least);
}

static bool take_step(struct walk *walk, uint32_t number, const struct label *label, uint32_t parent)
{
    const struct lattice_step *step = &walk->lattice->steps[number];
    struct label next = *label;
    next.time += step->time_ns;
    if (next.time > walk->most_time)
        return true;
    if (walk->most_labels <= NARROW && step->layers > NARROW_SEGMENT) {
        lose(walk, label->least);
        return true;
    }
    uint64_t read = step->read_bytes;
    for (uint64_t set = step->read_set & ~label->kept_set; set; set &= set - 1)
        read = add_clamped(read, walk->lattice->bit_bytes[__builtin_ctzll(set)]);
    next.bytes = add_clamped(next.bytes, multiply_clamped(walk->slots->kept, step->saved_bytes));
    next.bytes = add_clamped(next.bytes, multiply_clamped(walk->slots->kept_through, read));
    next.kept_set |= step->read_set;
    next.transient = larger(next.transient, step->peak_bytes);
    next.life = step->life > next.life ? step->life : next.life;
    next.step = number;
    next.parent = parent;
    return add_label(walk, step->to, next);
}

// --- dominance ----------------------------------------------------------------------------

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_time(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    int order = compare(x->time, y->time);
    order = order ? order : compare(x->bytes, y->bytes);
    order = order ? order : compare(x->transient, y->transient);
    order = order ? order : compare(x->life, y->life);
    order = order ? order : compare(y->kept_set, x->kept_set);
    order = order ? order : compare(x->step, y->step);
    return order ? order : compare(x->parent, y->parent);
}

static int by_least(const void *a, const void *b)
{
    const int order = compare(((const struct label *)a)->least, ((const struct label *)b)->least);
    return order ? order : by_time(a, b);
}

static bool beats(const struct label *a, const struct label *b)
{
    return a->bytes <= b->bytes && a->transient <= b->transient && a->life <= b->life
        && (a->kept_set & b->kept_set) == b->kept_set;
}

// Of labels that differ in nothing but time and bytes only the one with the fewest bytes can still beat what
// takes as much time or more.
static bool is_beaten(const struct walk *walk, const struct label *label, size_t *group_count)
{
    size_t own = *group_count;
    for (size_t i = 0; i < *group_count; i++) {
        struct label *group = &walk->groups[i];
        if (beats(group, label))
            return true;
        if (group->transient == label->transient && group->life == label->life && group->kept_set == label->kept_set)
            own = i;
    }
    walk->groups[own] = *label;
    *group_count += own == *group_count;
    return false;
}

// Those that promise most.
static void cut_labels(struct walk *walk, struct labels *labels)
{
    qsort(labels->at, labels->count, sizeof labels->at[0], by_least);
    lose(walk, labels->at[walk->most_labels].least);
    labels->count = walk->most_labels;
    qsort(labels->at, labels->count, sizeof labels->at[0], by_time);
}

static bool thin_out(struct walk *walk, struct labels *labels)
{
    if (labels->count < 2)
        return true;
    if (labels->count > walk->group_room) {
        struct label *grown = realloc(walk->groups, labels->room * sizeof *grown);
        if (!grown)
            return false;
        walk->groups = grown;
        walk->group_room = labels->room;
    }
    qsort(labels->at, labels->count, sizeof labels->at[0], by_time);
    size_t kept = 0, group_count = 0;
    for (size_t i = 0; i < labels->count; i++) {
        walk->made += group_count / 8;
        if (!is_beaten(walk, &labels->at[i], &group_count))
            labels->at[kept++] = labels->at[i];
    }
    labels->count = kept;
    if (kept > walk->most_labels)
        cut_labels(walk, labels);
    return true;
}

// --- the walk -----------------------------------------------------------------------------

static bool walk_downsets(struct walk *walk)
{
    const struct order_lattice *lattice = walk->lattice;
    if (!add_label(walk, 0, (struct label){ .step = NO_STEP }))
        return false;
    for (uint32_t d = 0; d < lattice->count; d++) {
        if (!thin_out(walk, &walk->at[d]))
            return false;
        if (walk->made > MOST_MADE)
            walk->most_labels = NARROW;
        for (uint32_t i = 0; i < walk->at[d].count; i++) {
            const struct label label = walk->at[d].at[i];
            for (uint32_t step = lattice->step_at[d]; step < lattice->step_at[d + 1]; step++)
                if (!take_step(walk, step, &label, i))
                    return false;
        }
    }
    return true;
}

// The last layers come first; segments' own orders are read off likewise.
static void read_way(const struct walk *walk, struct label label, struct order_walk_answer *answer)
{
    const struct order_lattice *lattice = walk->lattice;
    uint32_t place = lattice->end - lattice->first;
    while (label.step != NO_STEP) {
        const struct lattice_step *last = &lattice->steps[label.step];
        if (!last->is_kept)
            answer->segments[answer->segment_count++] = (struct segment){ place - last->layers, place };
        for (uint32_t step = label.step; step != NO_STEP; step = lattice->steps[step].before)
            answer->layers[--place] = lattice->steps[step].layer - lattice->first;
        label = walk->at[last->from].at[label.parent];
    }
    for (size_t i = 0; i < answer->segment_count / 2; i++) {
        const struct segment other = answer->segments[i];
        answer->segments[i] = answer->segments[answer->segment_count - 1 - i];
        answer->segments[answer->segment_count - 1 - i] = other;
    }
}

static bool keep_answer(const struct walk *walk, struct order_walk_answer *answer)
{
    const struct labels *labels = &walk->at[walk->lattice->count - 1];
    const size_t layers = walk->lattice->end - walk->lattice->first;
    if (labels->count == 0 || (answer->found && labels->at[0].time >= answer->time_ns))
        return true;
    order_walk_answer_clear(answer);
    answer->layers = malloc((layers + 1) * sizeof answer->layers[0]);
    answer->segments = malloc((layers + 1) * sizeof answer->segments[0]);
    if (!answer->layers || !answer->segments)
        return false;
    answer->found = true;
    answer->time_ns = labels->at[0].time;
    read_way(walk, labels->at[0], answer);
    return true;
}

// So many labels of a downset; raises what is known to be the least.
static bool walk_once(struct walk *walk, size_t most_labels, uint64_t *work, struct order_walk_answer *answer)
{
    const uint64_t known = answer->least_ns;
    walk->most_labels = most_labels;
    walk->most_time = answer->found ? answer->time_ns : UINT64_MAX - 1;
    walk->lost = UINT64_MAX;
    walk->made = 0;
    for (uint32_t d = 0; d < walk->lattice->count; d++)
        walk->at[d].count = 0;
    const bool good = walk_downsets(walk) && keep_answer(walk, answer);
    answer->least_ns = larger(known, smaller(walk->lost, answer->found ? answer->time_ns : UINT64_MAX));
    *work += walk->made;
    return good;
}

static bool set_prices(struct walk *walk, struct error *error)
{
    const struct order_lattice *lattice = walk->lattice;
    if (lattice->end - lattice->first < MANY)
        return true;
    walk->prices = recompute_prices_create(lattice->intervals, lattice->first, lattice->end, lattice->count,
                                           walk->budget, RECOMPUTE_QUICK, error);
    if (walk->prices && walk->input_cost[INPUT_UNTIL_F] < walk->input_cost[INPUT_UNTIL_I])
        walk->dry = recompute_prices_create(lattice->intervals, lattice->first, lattice->end, lattice->count,
                                            walk->budget, RECOMPUTE_QUICK, error);
    if (walk->prices)
        order_lattice_price(lattice, walk->prices, false);
    if (walk->dry)
        order_lattice_price(lattice, walk->dry, true);
    return error->kind == ERROR_NONE;
}

// A narrow walk first: what it finds bounds the full one.
bool order_walk(const struct order_lattice *lattice, const struct order_walk_request *request, uint64_t *work,
                struct order_walk_answer *answer, struct error *error)
{
    *answer = (struct order_walk_answer){ .least_ns = UINT64_MAX };
    if (request->fixed_bytes > request->capacity_bytes)
        return true;
    struct walk walk = { .lattice = lattice, .slots = request->slots,
                         .budget = request->capacity_bytes - request->fixed_bytes };
    answer->least_ns = 0;
    for (unsigned life = 0; life < 3; life++)
        walk.input_cost[life] = multiply_clamped(request->slots->input[life], request->input_bytes);
    walk.at = calloc(lattice->count, sizeof walk.at[0]);
    bool good = (walk.at || error_no_memory(error, "a search")) && set_prices(&walk, error);
    if (good) {
        const size_t narrow = request->most_labels < NARROW ? request->most_labels : NARROW;
        good = walk_once(&walk, narrow, work, answer);
        if (good && request->most_labels > NARROW && (!answer->found || answer->least_ns < answer->time_ns)
            && answer->least_ns < UINT64_MAX)
            good = walk_once(&walk, request->most_labels, work, answer);
        if (!good)
            error_no_memory(error, "a search");
    }
    for (uint32_t d = 0; walk.at && d < lattice->count; d++)
        free(walk.at[d].at);
    free(walk.at);
    free(walk.groups);
    recompute_prices_free(walk.prices);
    recompute_prices_free(walk.dry);
    return good;
}

void order_walk_answer_clear(struct order_walk_answer *answer)
{
    free(answer->layers);
    free(answer->segments);
    answer->layers = NULL;
    answer->segments = NULL;
    answer->segment_count = 0;
    answer->found = false;
}
