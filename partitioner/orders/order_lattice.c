#include "partitioner/orders/order_lattice.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"

#define NO_BIT 255
#define NOWHERE UINT32_MAX

// What is known while a lattice is made.
struct making {
    struct order_lattice *lattice;
    const struct downsets *downsets;
    uint32_t *block_of;   // of each layer of the stage, from the first
    uint32_t *layer_of;   // of each block; NOWHERE outside
    uint32_t *local;      // of each downset; NOWHERE outside
    uint32_t *step_to;    // of those that begin at one downset, the segment to each; NO_STEP
    uint64_t most_bytes;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool is_inside(const struct order_lattice *lattice, uint32_t layer)
{
    return lattice->first <= layer && layer < lattice->end;
}

static bool holds(const struct making *making, uint32_t d, uint32_t layer)
{
    return downsets_holds(making->downsets, making->lattice->downsets[d],
                          making->block_of[layer - making->lattice->first]);
}

// --- downsets -----------------------------------------------------------------------------

static bool list_downsets(struct making *making, uint32_t from, uint32_t to, struct error *error)
{
    struct order_lattice *lattice = making->lattice;
    const struct downsets *downsets = making->downsets;
    struct downset_walk walk = { 0 };
    uint32_t d;
    lattice->downsets = malloc((downsets->count + 1) * sizeof lattice->downsets[0]);
    making->local = malloc(downsets->count * sizeof making->local[0]);
    if (!lattice->downsets || !making->local || !downset_walk_create(&walk, downsets, error))
        return error->kind != ERROR_NONE ? false : error_no_memory(error, "a search");
    memset(making->local, 0xff, downsets->count * sizeof making->local[0]);
    making->local[from] = 0;
    lattice->downsets[lattice->count++] = from;
    downset_walk_up(&walk, from);
    while (downset_walk_next(&walk, &d)) {
        if (!downsets_within(downsets_set(downsets, d), downsets_set(downsets, to), downsets->words)) {
            downset_walk_prune(&walk);
            continue;
        }
        making->local[d] = lattice->count;
        lattice->downsets[lattice->count++] = d;
    }
    downset_walk_clear(&walk);
    return true;
}

// --- what is alive ------------------------------------------------------------------------

static uint32_t readers_inside(const struct order_lattice *lattice, uint32_t layer)
{
    const struct intervals *intervals = lattice->intervals;
    uint32_t count = 0;
    for (uint32_t i = intervals->reader_at[layer]; i < intervals->reader_at[layer + 1]; i++)
        count += is_inside(lattice, intervals->readers[i]);
    return count;
}

// A bit for each tensor that several layers of the stage read.
static bool give_bits(struct order_lattice *lattice)
{
    uint8_t next = 0;
    for (uint32_t l = lattice->first; l < lattice->end; l++) {
        lattice->bit_of[l - lattice->first] = NO_BIT;
        if (readers_inside(lattice, l) < 2)
            continue;
        if (next == 64)
            return false;
        lattice->bit_bytes[next] = lattice->intervals->output[l];
        lattice->bit_of[l - lattice->first] = next++;
    }
    return true;
}

// What one of the readers of a tensor pays for it, in whole units of the prices.
static uint64_t part_of(const struct order_lattice *lattice, uint32_t layer)
{
    return lattice->intervals->output[layer] / 256 / readers_inside(lattice, layer) * 256;
}

static void see_tensors(const struct making *making, uint32_t d)
{
    struct order_lattice *lattice = making->lattice;
    const struct intervals *intervals = lattice->intervals;
    for (uint32_t l = lattice->first; l < lattice->end; l++) {
        uint32_t open = 0;
        for (uint32_t i = intervals->reader_at[l]; holds(making, d, l) && i < intervals->reader_at[l + 1]; i++)
            open += is_inside(lattice, intervals->readers[i]) && !holds(making, d, intervals->readers[i]);
        if (open == 0)
            continue;
        lattice->above[d] = add_clamped(lattice->above[d], intervals->output[l]);
        const uint8_t bit = lattice->bit_of[l - lattice->first];
        if (bit == NO_BIT)
            continue;
        lattice->live[d] |= (uint64_t)1 << bit;
        lattice->paid[64 * (size_t)d + bit] = open * part_of(lattice, l);
    }
}

// What is alive while a layer runs behind a downset.
static uint64_t alive_at(const struct order_lattice *lattice, uint32_t d, uint32_t layer)
{
    const struct intervals *intervals = lattice->intervals;
    const bool by_nobody = intervals->reader_at[layer] == intervals->reader_at[layer + 1];
    const bool stays = by_nobody || readers_inside(lattice, layer) > 0;
    return add_clamped(lattice->above[d], stays ? intervals->output[layer] : 0);
}

// --- steps --------------------------------------------------------------------------------

static struct lattice_step *add_step(struct order_lattice *lattice)
{
    if (lattice->step_count == lattice->step_room) {
        const size_t room = 2 * lattice->step_room + 64;
        struct lattice_step *grown = realloc(lattice->steps, room * sizeof *grown);
        if (!grown)
            return NULL;
        lattice->steps = grown;
        lattice->step_room = room;
    }
    return &lattice->steps[lattice->step_count++];
}

// What a layer reads of before downset `d`: the stage's own, and its input.
static void add_reads(const struct making *making, struct lattice_step *step, uint32_t d, uint32_t layer)
{
    const struct order_lattice *lattice = making->lattice;
    const struct intervals *intervals = lattice->intervals;
    for (uint32_t i = intervals->source_at[layer]; i < intervals->source_at[layer + 1]; i++) {
        const uint32_t q = intervals->sources[i];
        if (!is_inside(lattice, q)) {
            const uint8_t life = interval_needs_input(intervals, layer) ? INPUT_UNTIL_W : INPUT_UNTIL_I;
            step->life = life > step->life ? life : step->life;
        } else if (holds(making, d, q)) {
            const uint8_t bit = lattice->bit_of[q - lattice->first];
            if (bit == NO_BIT)
                step->read_bytes = add_clamped(step->read_bytes, intervals->output[q]);
            else
                step->read_set |= (uint64_t)1 << bit;
            step->part_bytes = add_clamped(step->part_bytes, part_of(lattice, q));
        }
    }
}

static bool add_kept(struct making *making, uint32_t d, uint32_t to, uint32_t layer)
{
    struct order_lattice *lattice = making->lattice;
    const struct intervals *intervals = lattice->intervals;
    const struct profile_layer *own = &intervals->profile->layers[layer];
    struct lattice_step *step = add_step(lattice);
    if (!step)
        return false;
    *step = (struct lattice_step){ .from = d, .to = to, .layers = 1, .layer = layer, .before = NO_STEP,
                                   .is_kept = true,
                                   .saved_bytes = intervals->saved[layer + 1] - intervals->saved[layer] };
    if (interval_needs_input(intervals, layer))
        add_reads(making, step, d, layer);
    step->peak_bytes = add_clamped(alive_at(lattice, d, layer),
                                   round_to_256(larger(own->workspace_bytes, own->backward_workspace_bytes)));
    return true;
}

// The segment that another one is with one more layer, if it is the first such, or better than those.
static bool extend(struct making *making, uint32_t begin, size_t before, struct downset_link link)
{
    struct order_lattice *lattice = making->lattice;
    const struct intervals *intervals = lattice->intervals;
    const struct lattice_step none = { .from = begin, .to = begin, .before = NO_STEP };
    struct lattice_step step = before == NO_STEP ? none : lattice->steps[before];
    const uint32_t d = step.to, to = making->local[link.downset], layer = making->layer_of[link.node];
    const struct profile_layer *own = &intervals->profile->layers[layer];
    const uint64_t alive = alive_at(lattice, d, layer), backward = round_to_256(own->backward_workspace_bytes);
    const uint64_t forward = round_to_256(own->workspace_bytes);
    step.backward_bytes = larger(step.backward_bytes, add_clamped(alive, backward));
    step.peak_bytes = larger(step.peak_bytes, add_clamped(alive, larger(forward, backward)));
    if (making->step_to[to] != NO_STEP) {
        struct lattice_step *known = &lattice->steps[making->step_to[to]];
        known->peak_bytes = known->peak_bytes < step.peak_bytes ? known->peak_bytes : step.peak_bytes;
        if (step.backward_bytes < known->backward_bytes) {
            known->backward_bytes = step.backward_bytes;
            known->before = (uint32_t)before;
            known->layer = layer;
        }
        return true;
    }
    step.to = to;
    step.layers++;
    step.layer = layer;
    step.before = (uint32_t)before;
    step.time_ns += interval_recompute_ns(intervals, layer, layer + 1);
    step.data_bytes = add_clamped(step.data_bytes, intervals->saved[layer + 1] - intervals->saved[layer]);
    step.data_bytes = add_clamped(step.data_bytes, intervals->output[layer]);
    step.forward_bytes = larger(step.forward_bytes, forward);
    add_reads(making, &step, begin, layer);
    if (step.data_bytes > making->most_bytes)
        return true;
    making->step_to[to] = (uint32_t)lattice->step_count;
    struct lattice_step *added = add_step(lattice);
    if (added)
        *added = step;
    return added != NULL;
}

static bool extend_all(struct making *making, uint32_t begin, size_t before)
{
    const struct order_lattice *lattice = making->lattice;
    const uint32_t d = lattice->downsets[before == NO_STEP ? begin : lattice->steps[before].to];
    for (uint32_t i = making->downsets->above_at[d]; i < making->downsets->above_at[d + 1]; i++) {
        const struct downset_link link = making->downsets->above[i];
        if (making->local[link.downset] != NOWHERE && !extend(making, begin, before, link))
            return false;
    }
    return true;
}

// All steps from a downset: the kept layers first, then segments, shorter ones first.
static bool list_steps(struct making *making, uint32_t begin)
{
    struct order_lattice *lattice = making->lattice;
    const uint32_t d = lattice->downsets[begin];
    lattice->step_at[begin] = (uint32_t)lattice->step_count;
    for (uint32_t i = making->downsets->above_at[d]; i < making->downsets->above_at[d + 1]; i++) {
        const struct downset_link link = making->downsets->above[i];
        if (making->local[link.downset] != NOWHERE
            && !add_kept(making, begin, making->local[link.downset], making->layer_of[link.node]))
            return false;
    }
    memset(making->step_to, 0xff, lattice->count * sizeof making->step_to[0]);
    size_t at = lattice->step_count;
    bool good = extend_all(making, begin, NO_STEP);
    for (; good && at < lattice->step_count; at++)
        good = extend_all(making, begin, at);
    return good;
}

// The workspace of a segment; and what the layers behind a downset need at least, from the last one down.
static void finish(struct order_lattice *lattice)
{
    lattice->step_at[lattice->count] = (uint32_t)lattice->step_count;
    for (uint32_t d = 0; d + 1 < lattice->count; d++)
        lattice->least[d] = UINT64_MAX;
    for (size_t i = lattice->step_count; i-- > 0;) {
        struct lattice_step *step = &lattice->steps[i];
        if (step->is_kept) {
            const uint64_t least = larger(step->peak_bytes, lattice->least[step->to]);
            lattice->least[step->from] = least < lattice->least[step->from] ? least : lattice->least[step->from];
            continue;
        }
        const uint64_t run = add_clamped(step->forward_bytes, lattice->above[step->to]);
        step->peak_bytes = larger(step->peak_bytes, add_clamped(step->data_bytes, larger(step->backward_bytes, run)));
    }
}

// --- making it ----------------------------------------------------------------------------

static bool allocate(struct making *making, uint32_t blocks)
{
    struct order_lattice *lattice = making->lattice;
    const size_t layers = lattice->end - lattice->first;
    lattice->bit_of = malloc(layers + 1);
    making->block_of = malloc((layers + 1) * sizeof making->block_of[0]);
    making->layer_of = malloc((blocks + (size_t)1) * sizeof making->layer_of[0]);
    return lattice->bit_of && making->block_of && making->layer_of;
}

static bool allocate_rows(struct making *making)
{
    struct order_lattice *lattice = making->lattice;
    const size_t count = lattice->count;
    lattice->above = calloc(count, sizeof lattice->above[0]);
    lattice->least = calloc(count, sizeof lattice->least[0]);
    lattice->live = calloc(count, sizeof lattice->live[0]);
    lattice->paid = calloc(64 * count, sizeof lattice->paid[0]);
    lattice->step_at = calloc(count + 1, sizeof lattice->step_at[0]);
    making->step_to = malloc(count * sizeof making->step_to[0]);
    return lattice->above && lattice->least && lattice->live && lattice->paid && lattice->step_at && making->step_to;
}

static bool make(struct making *making, uint32_t from, uint32_t to, bool *fits, struct error *error)
{
    struct order_lattice *lattice = making->lattice;
    *fits = give_bits(lattice);
    if (!*fits)
        return true;
    if (!list_downsets(making, from, to, error))
        return false;
    bool good = allocate_rows(making);
    for (uint32_t d = 0; good && d < lattice->count; d++)
        see_tensors(making, d);
    for (uint32_t d = 0; good && d < lattice->count; d++)
        good = list_steps(making, d);
    if (good)
        finish(lattice);
    return good || error_no_memory(error, "a search");
}

bool order_lattice_create(struct order_lattice *lattice, struct intervals *intervals, uint32_t first,
                          const struct order_graph *graph, uint32_t from, uint32_t to, const uint32_t *layers,
                          uint64_t most_bytes, bool *fits, struct error *error)
{
    const uint32_t count = graph->downsets->size[to] - graph->downsets->size[from];
    *lattice = (struct order_lattice){ .intervals = intervals, .first = first, .end = first + count };
    struct making making = { .lattice = lattice, .downsets = graph->downsets, .most_bytes = most_bytes };
    bool good = allocate(&making, graph->block_count) || error_no_memory(error, "a search");
    if (good) {
        memset(making.layer_of, 0xff, graph->block_count * sizeof making.layer_of[0]);
        for (uint32_t i = 0; i < count; i++) {
            making.block_of[i] = graph->block_of[layers[i]];
            making.layer_of[making.block_of[i]] = first + i;
        }
        good = make(&making, from, to, fits, error);
    }
    free(making.block_of);
    free(making.layer_of);
    free(making.local);
    free(making.step_to);
    return good;
}

void order_lattice_clear(struct order_lattice *lattice)
{
    free(lattice->downsets);
    free(lattice->above);
    free(lattice->least);
    free(lattice->live);
    free(lattice->step_at);
    free(lattice->steps);
    free(lattice->bit_of);
    free(lattice->paid);
    *lattice = (struct order_lattice){ 0 };
}

// --- prices -------------------------------------------------------------------------------

// From the last downset down.
void order_lattice_price(const struct order_lattice *lattice, struct recompute_prices *prices, bool dry)
{
    recompute_prices_begin(prices, lattice->count - 1);
    for (size_t i = lattice->step_count; i-- > 0;) {
        const struct lattice_step *step = &lattice->steps[i];
        const struct recompute_drop drop = { step->to, step->from, step->layers, step->time_ns,
                                             add_clamped(step->saved_bytes, step->part_bytes), step->peak_bytes };
        if (!dry || step->life == INPUT_UNTIL_F)
            recompute_prices_whole(prices, &drop);
    }
}
