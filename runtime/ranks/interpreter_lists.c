// Gradients that are lists of rows (device/row_list.h): what is always in them, what copies of a stage send each other,
// and the rows of older versions.
#include <stdlib.h>

#include "device/table_kernels.h"
#include "runtime/ranks/interpreting.h"

uint64_t dense_gradients(const struct local *local)
{
    return (local->memory->bytes.gradients - local->does->list_bytes) / sizeof(float);
}

const struct stage_part *next_list(const struct local *local, size_t i)
{
    while (i < local->does->part_count && local->does->parts[i].room == 0)
        i++;
    return i < local->does->part_count ? &local->does->parts[i] : NULL;
}

static bool list_summed(struct queue *queue, const struct stage_part *part, float *gradients, struct error *error)
{
    const struct row_list list = stage_part_rows(part, gradients);
    const uint32_t counts[] = { (uint32_t)part->summed, (uint32_t)part->summed };
    int32_t *numbers = malloc(part->summed * sizeof *numbers);
    if (!numbers)
        return error_no_memory(error, "a list of rows");
    for (uint64_t i = 0; i < part->summed; i++)
        numbers[i] = (int32_t)i;
    queue_upload(queue, list.count, counts, sizeof counts);
    queue_upload(queue, list.numbers, numbers, part->summed * sizeof *numbers);
    queue_upload(queue, list.places, numbers, part->summed * sizeof *numbers);
    free(numbers);
    return true;
}

bool begin_lists(struct interpreter *interpreter, const struct local *local, struct error *error)
{
    bool good = true;
    FOR_LISTS (part, local)
        good = good && (part->summed == 0
                        || list_summed(interpreter->needs.queue, part, local->memory->gradients, error));
    return good;
}

void list_empty(struct queue *queue, const struct stage_part *part, float *gradients)
{
    const struct row_list list = stage_part_rows(part, gradients);
    if (part->summed == 0) {
        queue_zero(queue, list.count, sizeof *list.count);
        return;
    }
    queue_copy(queue, list.count, list.count + 1, sizeof *list.count);
    queue_zero(queue, list.sums, part->summed * list.columns * sizeof *list.sums);
}

// --- copies of a stage ---------------------------------------------------------------------

// Plans have room for what a copy sends if the copies have micro-batches in turn.
static bool check_sent(const struct interpreter *interpreter, const struct local *local, const struct stage_part *part,
                       struct error *error)
{
    const uint32_t all = interpreter->needs.weight_plan->samples, share = (all + local->copies - 1) / local->copies;
    const uint32_t own = local->contributed / interpreter->needs.schedule->splits;
    return part->sent_room >= part->room || own <= share
        || error_set_kind(error, ERROR_MACHINE, "a copy of a stage has the gradients of %u of %u micro-batches, and room"
                          " to send the rows of %u", own, all, share);
}

static bool send_rows(struct interpreter *interpreter, const struct local *local, const struct stage_part *part,
                      struct action action, struct error *error)
{
    const struct row_list list = stage_part_rows(part, local->memory->gradients);
    const struct row_list own = stage_part_sent(part, local->memory->gradients, local->copy);
    const struct reduction reduction = {
        .kind = REDUCTION_GATHER,
        .group = action.stage,
        .numbers = stage_part_sent(part, local->memory->gradients, 0).count,
        .number_bytes = sizeof(float),
        .count = local->copies * stage_part_sent_bytes(part) / sizeof(float),
    };
    struct queue *queue = interpreter->needs.queue;
    if (!check_sent(interpreter, local, part, error))
        return false;
    queue_copy(queue, own.count, list.count, sizeof *own.count);
    queue_copy(queue, own.numbers, list.numbers, own.room * sizeof *own.numbers);
    queue_copy(queue, own.sums, list.sums, own.room * own.columns * sizeof *own.sums);
    if (!gather_for_update(interpreter, &reduction, action, error))
        return false;
    list_empty(queue, part, local->memory->gradients);
    for (uint32_t copy = 0; copy < local->copies; copy++) {
        const struct row_list sent = stage_part_sent(part, local->memory->gradients, copy);
        kernel_add_list(queue, &list, &sent);
    }
    return true;
}

bool lists_add_up(struct interpreter *interpreter, const struct local *local, struct action action, struct error *error)
{
    FOR_LISTS (part, local)
        if (part->sent_room > 0 && !send_rows(interpreter, local, part, action, error))
            return false;
    return true;
}

// --- older versions ------------------------------------------------------------------------

void lists_swap(struct interpreter *interpreter, const struct local *local, void *version)
{
    const struct slab_stage *memory = local->memory;
    float *newest = row_at(&memory->weights, local->ring.newest);
    FOR_LISTS (part, local) {
        const struct row_list undo = stage_part_undo(part, version);
        kernel_move_rows(interpreter->needs.queue, &undo, newest + part->first, true);
    }
}

void lists_put_aside(struct interpreter *interpreter, const struct local *local, uint32_t slot)
{
    struct queue *queue = interpreter->needs.queue;
    const struct slab_row *weights = &local->memory->weights;
    float *newest = row_at(weights, local->ring.newest);
    void *version = row_at(weights, slot);
    if (local->does->version_bytes > 0)
        queue_copy(queue, version, newest, local->does->version_bytes);
    FOR_LISTS (part, local) {
        const struct row_list list = stage_part_rows(part, local->memory->gradients);
        const struct row_list undo = stage_part_undo(part, version);
        queue_copy(queue, undo.count, list.count, sizeof *undo.count);
        queue_copy(queue, undo.numbers, list.numbers, part->room * sizeof *undo.numbers);
        kernel_move_rows(queue, &undo, newest + part->first, false);
    }
}
