#include "runtime/stages/chain_program.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/random.h"
#include "device/kernels.h"
#include "runtime/stages/chain_parts.h"
#include "runtime/stages/layer_state.h"

void program_free(struct program *program)
{
    free(program->steps);
    free(program->items);
    *program = (struct program){ 0 };
}

// --- writing -------------------------------------------------------------------------

void program_step(struct program *program, const struct step *step)
{
    program->failed |= !array_reserve(&program->steps, &program->step_room, program->step_count + 1, sizeof *step);
    if (!program->failed)
        program->steps[program->step_count++] = *step;
}

struct spot program_item(struct program *program, uint64_t bytes, bool is_scratch)
{
    const struct spot spot = { AT_WORKSPACE, program->item_count };
    program->failed |= !array_reserve(&program->items, &program->item_room, program->item_count + 1,
                                      sizeof program->items[0]);
    if (program->failed)
        return (struct spot){ AT_NOTHING, 0 };
    program->items[program->item_count++] =
        (struct item){ .bytes = round_to_256(bytes), .first = UINT32_MAX, .is_scratch = is_scratch };
    return spot;
}

void program_copy(struct program *program, struct spot to, struct spot from, uint64_t bytes)
{
    if (bytes > 0)
        program_step(program, &(struct step){ .kind = STEP_COPY, .bytes = bytes,
                                              .spots = { [SPOT_TO] = to, [SPOT_FROM] = from } });
}

void program_bring(struct program *program, struct spot to, struct spot from, uint64_t bytes)
{
    if (bytes > 0)
        program_step(program, &(struct step){ .kind = STEP_BRING, .bytes = bytes,
                                              .spots = { [SPOT_TO] = to, [SPOT_FROM] = from } });
}

void program_add(struct program *program, struct spot to, struct spot from, struct spot other, uint64_t bytes)
{
    if (bytes > 0)
        program_step(program, &(struct step){ .kind = STEP_ADD, .bytes = bytes,
                                              .spots = { [SPOT_TO] = to, [SPOT_FROM] = from, [SPOT_OTHER] = other } });
}

void program_gather(struct program *program, struct spot to, uint64_t first, uint64_t count)
{
    if (count > 0)
        program_step(program, &(struct step){ .kind = STEP_GATHER, .first = first, .count = count,
                                              .spots = { [SPOT_TO] = to } });
}

void program_share(struct program *program, struct spot from, uint64_t first, uint64_t count)
{
    if (count > 0)
        program_step(program, &(struct step){ .kind = STEP_SHARE, .first = first, .count = count,
                                              .spots = { [SPOT_FROM] = from } });
}

void program_zero(struct program *program, struct spot to, uint64_t bytes)
{
    if (bytes > 0)
        program_step(program, &(struct step){ .kind = STEP_ZERO, .bytes = bytes, .spots = { [SPOT_TO] = to } });
}

void program_mark(struct program *program)
{
    program_step(program, &(struct step){ .kind = STEP_MARK });
}

// --- offsets that stay -----------------------------------------------------------------

static void find_lives(struct program *program)
{
    for (uint32_t s = 0; s < program->step_count; s++)
        for (size_t i = 0; i < SPOTS; i++) {
            const struct spot spot = program->steps[s].spots[i];
            if (spot.base != AT_WORKSPACE)
                continue;
            struct item *item = &program->items[spot.at];
            item->first = item->first < s ? item->first : s;
            item->last = s;
        }
}

// An item's turn to get an offset, and from which end of the workspace.
struct turn {
    uint64_t key;
    uint32_t item;
    bool from_high;
};

static int by_key(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static bool live_together(const struct item *a, const struct item *b)
{
    return a->first <= b->last && b->first <= a->last && a->bytes > 0 && b->bytes > 0;
}

// Finds the free place that is closest to the item's end, among those placed before it, within `room` bytes.
static bool find_offset(struct item *items, const struct turn *turns, size_t turn, uint64_t room)
{
    struct item *item = &items[turns[turn].item];
    const bool from_high = turns[turn].from_high;
    uint64_t behind = 0;  // how far from that end
    if (item->bytes > room)
        return false;
    for (size_t i = 0; i < turn;) {
        const struct item *other = &items[turns[i++].item];
        if (!live_together(item, other))
            continue;
        const uint64_t begin = from_high ? room - other->at - other->bytes : other->at;
        if (begin >= behind + item->bytes || begin + other->bytes <= behind)
            continue;
        behind = begin + other->bytes;
        if (behind > room - item->bytes)
            return false;
        i = 0;
    }
    item->at = from_high ? room - item->bytes - behind : behind;
    return true;
}

// Orders to try: outputs that pass from layer to layer at alternate ends, with scratch between; the largest first;
// the longest-living first; then at random.
enum { TRY_ENDS, TRY_LARGEST, TRY_LASTING, TRY_RANDOM, TRIES = 40 };

static void choose_turns(const struct program *program, int trial, struct turn *turns)
{
    uint64_t seed = (uint64_t)trial;
    uint32_t passing = 0;
    for (uint32_t i = 0; i < program->item_count; i++) {
        const struct item *item = &program->items[i];
        turns[i] = (struct turn){ .item = i };
        switch (trial) {
        case TRY_ENDS:
            turns[i].key = item->is_scratch ? 0 : UINT64_MAX - item->first;
            turns[i].from_high = !item->is_scratch && passing++ % 2 == 1;
            break;
        case TRY_LARGEST:
            turns[i].key = item->bytes;
            break;
        case TRY_LASTING:
            turns[i].key = item->last - item->first;
            break;
        default:
            turns[i].key = random_below(&seed, 2) ? item->bytes : random_below(&seed, item->bytes + 1);
            turns[i].from_high = random_below(&seed, 2);
        }
    }
    qsort(turns, program->item_count, sizeof *turns, by_key);
}

static bool place_all(struct program *program, struct turn *turns, uint64_t room)
{
    for (int trial = 0; trial < TRIES; trial++) {
        size_t placed = 0;
        choose_turns(program, trial, turns);
        while (placed < program->item_count && find_offset(program->items, turns, placed, room))
            placed++;
        if (placed == program->item_count)
            return true;
    }
    return false;
}

// Replaces items by their offsets.
static void settle(const struct program *program, struct step *step)
{
    for (size_t i = 0; i < SPOTS; i++)
        if (step->spots[i].base == AT_WORKSPACE)
            step->spots[i].at = program->items[step->spots[i].at].at;
}

// --- offsets that change -----------------------------------------------------------------

static int by_offset(const void *a, const void *b)
{
    const struct item *const *x = a, *const *y = b;
    if ((*x)->at != (*y)->at)
        return (*x)->at < (*y)->at ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

// Moves an item down. The new place may overlap the old one, so it is copied in pieces that do not overlap.
static void move_item(struct program *into, struct item *item, uint64_t to)
{
    const uint64_t distance = item->at - to;
    for (uint64_t done = 0; distance > 0 && done < item->bytes; done += distance) {
        const uint64_t left = item->bytes - done, piece = left < distance ? left : distance;
        program_copy(into, (struct spot){ AT_WORKSPACE, to + done }, (struct spot){ AT_WORKSPACE, item->at + done },
                     piece);
    }
    into->moved_bytes += distance > 0 ? item->bytes : 0;
    item->at = to;
}

// Finds a place behind or between the living items.
static bool find_gap(struct item **living, size_t count, struct item *item, uint64_t room)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < count && living[i]->at < offset + item->bytes; i++)
        offset = living[i]->at + living[i]->bytes > offset ? living[i]->at + living[i]->bytes : offset;
    item->at = offset;
    return item->bytes <= room && offset <= room - item->bytes;
}

// Places the items that begin with a step among the living ones, which are in the order of their offsets.
static bool begin_items(struct program *program, uint32_t step, struct item **living, size_t count, uint64_t room)
{
    for (size_t i = 0; i < program->item_count; i++) {
        struct item *item = &program->items[i];
        if (item->first != step || item->bytes == 0)
            continue;
        if (!find_gap(living, count, item, room))
            return false;
        living[count++] = item;
        qsort(living, count, sizeof(struct item *), by_offset);
    }
    return true;
}

static size_t find_living(struct program *program, uint32_t step, struct item **living)
{
    size_t count = 0;
    for (size_t i = 0; i < program->item_count; i++) {
        struct item *item = &program->items[i];
        if (item->first < step && item->last >= step && item->bytes > 0)
            living[count++] = item;
    }
    qsort(living, count, sizeof(struct item *), by_offset);
    return count;
}

// Places items step by step. If a step has no room for its new items, the living items are moved together before it.
static bool place_moving(struct program *program, struct item **living, uint64_t room)
{
    struct program moving = { .items = program->items, .item_count = program->item_count };
    bool fits = true;
    for (uint32_t s = 0; fits && !moving.failed && s < program->step_count; s++) {
        size_t count = find_living(program, s, living);
        if (!begin_items(program, s, living, count, room)) {
            uint64_t used = 0;
            count = find_living(program, s, living);
            for (size_t i = 0; i < count; i++) {
                move_item(&moving, living[i], used);
                used += living[i]->bytes;
            }
            fits = begin_items(program, s, living, count, room);
        }
        struct step step = program->steps[s];
        settle(program, &step);
        program_step(&moving, &step);
    }
    assert(fits);  // else the counted workspace is too small
    free(program->steps);
    program->steps = moving.steps;
    program->step_count = moving.step_count;
    program->moved_bytes = moving.moved_bytes;
    program->failed = moving.failed;
    return fits && !moving.failed;
}

bool program_place(struct program *program, uint64_t workspace_bytes, struct error *error)
{
    struct turn *turns = calloc(program->item_count + 1, sizeof *turns);
    struct item **living = calloc(program->item_count + 1, sizeof(struct item *));
    bool good = turns && living && !program->failed;
    if (good)
        find_lives(program);
    if (good && place_all(program, turns, workspace_bytes))
        for (size_t s = 0; s < program->step_count; s++)
            settle(program, &program->steps[s]);
    else if (good)
        good = place_moving(program, living, workspace_bytes);
    free(turns);
    free(living);
    return good || error_no_memory(error, "a stage");
}

// --- running -----------------------------------------------------------------------------

static const void *base_of(const struct stage_pass *pass, enum spot_base base)
{
    const void *const bases[] = {
        [AT_NOTHING] = NULL,
        [AT_INPUT] = pass->base.input,
        [AT_OUTPUT] = pass->base.output,
        [AT_KEPT] = pass->base.saved,
        [AT_THROUGH] = pass->kept_through,
        [AT_HELD] = pass->base.held,
        [AT_RECOMPUTED] = pass->recomputed,
        [AT_OUTPUT_GRADIENT] = pass->base.output_gradient,
        [AT_INPUT_GRADIENT] = pass->base.input_gradient,
        [AT_WEIGHTS] = pass->base.parameters,
        [AT_GRADIENTS] = pass->base.gradients,
        [AT_WINDOW_WEIGHTS] = pass->window_weights,
        [AT_WINDOW_GRADIENTS] = pass->window_gradients,
        [AT_WORKSPACE] = pass->base.workspace,
    };
    return bases[base];
}

static void *offset_or_null(const void *base, uint64_t bytes)
{
    return base ? chain_offset(base, bytes) : NULL;
}

static void *at_spot(const struct stage_pass *pass, struct spot spot)
{
    return offset_or_null(base_of(pass, spot.base), spot.at);
}

// The layer gets what the stage got, with its own places.
static bool run_call(const struct step *step, const struct stage_pass *pass, struct error *error)
{
    const struct placed *link = step->link;
    struct weir_pass layer_pass = pass->base;
    layer_pass.parameters = at_spot(pass, step->spots[SPOT_PARAMETERS]);
    if (link->home.room > 0 && pass->newest)
        layer_pass.parameters = chain_offset(pass->newest, link->home.parameters);
    layer_pass.gradients = at_spot(pass, step->spots[SPOT_GRADIENTS]);
    layer_pass.gradient_rows = link->home.room;
    layer_pass.tied_parameters = link->tied ? chain_offset(pass->base.parameters, link->tied->parameters) : NULL;
    layer_pass.tied_gradients = link->tied ? offset_or_null(pass->base.gradients, link->tied->gradients) : NULL;
    layer_pass.output = at_spot(pass, step->spots[SPOT_OUTPUT]);
    layer_pass.output_gradient = at_spot(pass, step->spots[SPOT_OUTPUT_GRADIENT]);
    layer_kept_give(link->layer, at_spot(pass, step->spots[SPOT_SAVED]), &layer_pass);
    layer_pass.held = at_spot(pass, step->spots[SPOT_HELD]);
    layer_pass.shared_by_parts = offset_or_null(pass->base.shared_by_parts, link->shared_by_parts);
    layer_pass.shared_by_parts_gradient = offset_or_null(pass->base.shared_by_parts_gradient, link->shared_by_parts);
    layer_pass.workspace = at_spot(pass, step->spots[SPOT_WORKSPACE]);
    layer_state_give(link->layer, offset_or_null(pass->base.state, link->state),
                     offset_or_null(pass->base.statistics, link->statistics), step->function == link->layer->forward,
                     &layer_pass);
    layer_pass.is_rerun = step->is_rerun;
    if (step->is_rerun)
        layer_pass.loss = NULL;
    if (step->is_rerun || link->layer->metric_count == 0)
        layer_pass.metrics = NULL;
    layer_pass.auxiliary_loss = link->layer->has_auxiliary_loss && !step->is_rerun && pass->base.auxiliary_loss
                                  ? pass->base.auxiliary_loss + link->auxiliary : NULL;
    for (size_t i = 0; i < WEIR_MOST_INPUTS; i++) {
        layer_pass.inputs[i] = at_spot(pass, step->spots[SPOT_INPUTS + i]);
        layer_pass.input_gradients[i] = at_spot(pass, step->spots[SPOT_INPUT_GRADIENTS + i]);
    }
    if (pass->last_input && link->layer->output_bytes == 0 && step->bytes > 0)
        queue_download(pass->base.queue, pass->last_input, layer_pass.input, step->bytes);
    return chain_call_layer(link->layer, step->function, &layer_pass, error);
}

// Makes a transfer or an exchange on the given queue.
static bool move(const struct step *step, const struct stage_pass *pass, struct queue *queue, struct error *error)
{
    const struct stage_exchange *exchange = pass->exchange;
    void *to = at_spot(pass, step->spots[SPOT_TO]);
    const void *from = at_spot(pass, step->spots[SPOT_FROM]);
    switch (step->kind) {
    case STEP_GATHER:
        return !exchange || exchange->gather(exchange, queue, to, step->first, step->count, error);
    case STEP_SHARE:
        return !exchange || exchange->add(exchange, queue, from, step->first, step->count, error);
    case STEP_ZERO:
        queue_zero(queue, to, step->bytes);
        return true;
    default:
        queue_transfer(queue, to, from, step->bytes);
        return true;
    }
}

// Makes a transfer on the second queue. It begins after all work that is in front of it.
static bool move_on_second_queue(const struct step *step, const struct stage_pass *pass, struct error *error)
{
    event_record(pass->moved[0], pass->base.queue);
    queue_wait_event(pass->moves, pass->moved[0]);
    if (!move(step, pass, pass->moves, error))
        return false;
    if (step->event)
        event_record(pass->moved[step->event], pass->moves);
    return true;
}

static bool run_step(const struct step *step, const struct stage_pass *pass, struct error *error)
{
    void *to = at_spot(pass, step->spots[SPOT_TO]);
    const void *from = at_spot(pass, step->spots[SPOT_FROM]);
    switch (step->kind) {
    case STEP_GATHER:
    case STEP_SHARE:
    case STEP_ZERO:
    case STEP_BRING:
        return step->is_on_second_queue && pass->moves ? move_on_second_queue(step, pass, error)
                                              : move(step, pass, pass->base.queue, error);
    case STEP_CALL:
        if (step->event && pass->moves)
            queue_wait_event(pass->base.queue, pass->moved[step->event]);
        return run_call(step, pass, error);
    case STEP_COPY:
        queue_copy(pass->base.queue, to, from, step->bytes);
        return true;
    case STEP_ADD:
        kernel_add(pass->base.queue, to, from, at_spot(pass, step->spots[SPOT_OTHER]),
                   step->bytes / precision_bytes(device_precision(queue_device(pass->base.queue))));
        return true;
    default:
        return !pass->reruns || stopwatch_mark(pass->reruns, pass->base.queue, error);
    }
}

// An absent replica gives nothing and takes nothing.
static bool run_absent(const struct step *step, const struct stage_pass *pass, struct error *error)
{
    if (step->kind == STEP_GATHER)
        return pass->exchange->gather(pass->exchange, pass->base.queue, NULL, step->first, step->count, error);
    return step->kind != STEP_SHARE
        || pass->exchange->add(pass->exchange, pass->base.queue, NULL, step->first, step->count, error);
}

bool program_run(const struct program *program, const struct stage_pass *pass, struct error *error)
{
    for (size_t s = 0; s < program->step_count; s++)
        if (!(pass->is_absent ? run_absent : run_step)(&program->steps[s], pass, error))
            return false;
    if (program->is_on_second_queue && pass->moves) {  // what follows finds everything moved back
        event_record(pass->moved[0], pass->moves);
        queue_wait_event(pass->base.queue, pass->moved[0]);
    }
    return true;
}
