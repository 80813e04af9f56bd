#include "runtime/slab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"

static struct slab_row row_of(uint64_t bytes, uint32_t count)
{
    return (struct slab_row){ .bytes = bytes, .count = count };
}

// The rows of a stage, without places.
static void plan_rows(struct slab_stage *stage, const struct stage_bytes *bytes, const struct slots *slots)
{
    stage->bytes = *bytes;
    stage->all_weights = bytes->streams || bytes->room_weights > 0 ? bytes->all_weights : bytes->weights;
    stage->workspace = stage_workspace(bytes, slots);
    if (bytes->streams) {
        stage->window_bytes[0] = bytes->weights;
        stage->window_bytes[1] = bytes->gradients;
        stage->bytes.weights = bytes->host.weights;
        stage->bytes.gradients = bytes->host.gradients;
    } else {
        stage->window_bytes[0] = bytes->room_weights;
        stage->window_bytes[1] = bytes->room_gradients;
        stage->bytes.weights -= bytes->room_weights;
        stage->bytes.gradients -= bytes->room_gradients;
    }
    stage->weights = row_of(stage->bytes.weights, slots->versions);
    stage->rows[SLAB_INPUT] = row_of(bytes->input, slots->input[bytes->input_life]);
    stage->rows[SLAB_KEPT] = row_of(bytes->kept, slots->kept);
    stage->rows[SLAB_KEPT_THROUGH] = row_of(bytes->kept_through, slots->kept_through);
    stage->rows[SLAB_HELD] = row_of(bytes->held, slots->held);
    stage->rows[SLAB_AGAIN] = row_of(bytes->again, slots->again);
    stage->rows[SLAB_CARRIED] = row_of(bytes->carried, slots->carried);
    stage->rows[SLAB_CARRIED_GRADIENT] = row_of(bytes->carried, slots->carried_gradient);
    stage->rows[SLAB_OUTPUT] = row_of(bytes->output, slots->output);
    stage->rows[SLAB_OUTPUT_GRADIENT] = row_of(bytes->output, slots->output_gradient);
    stage->rows[SLAB_INPUT_GRADIENT] = row_of(bytes->input, slots->input_gradient);
    stage->rows[SLAB_KEPT].is_on_host = stage->rows[SLAB_KEPT_THROUGH].is_on_host = bytes->kept_on_host;
}

static uint64_t row_size(const struct slab_row *row)
{
    return multiply_clamped(row->bytes, row->is_on_host && row->count > 1 ? 1 : row->count);
}

static uint64_t row_host_size(const struct slab_row *row)
{
    return row->is_on_host ? multiply_clamped(row->bytes, row->count) : 0;
}

static uint64_t stage_host_size(const struct slab_stage *stage)
{
    uint64_t sum = host_states_bytes(&stage->bytes.host);
    for (int class = 0; class < SLAB_CLASSES; class++)
        sum = add_clamped(sum, row_host_size(&stage->rows[class]));
    return sum;
}

// Weights, gradients and optimizer on the device.
static uint64_t states_size(const struct slab_stage *stage)
{
    uint64_t states = add_clamped(stage->window_bytes[0], stage->window_bytes[1]);
    if (!stage->bytes.streams)
        states = add_clamped(states, add_clamped(row_size(&stage->weights), stage->bytes.gradients));
    return add_clamped(states, stage->bytes.optimizer);
}

static uint64_t stage_size(const struct slab_stage *stage)
{
    uint64_t sum = states_size(stage);
    for (int class = 0; class < SLAB_CLASSES; class++)
        sum = add_clamped(sum, row_size(&stage->rows[class]));
    return sum;
}

uint64_t slab_bytes(const struct stage_bytes *bytes, const struct slots *slots, uint32_t stage_count)
{
    uint64_t sum = 0, workspace = 0;
    for (uint32_t s = 0; s < stage_count; s++) {
        struct slab_stage stage;
        plan_rows(&stage, &bytes[s], &slots[s]);
        sum = add_clamped(sum, stage_size(&stage));
        workspace = max_u64(workspace, stage_workspace(&bytes[s], &slots[s]));
    }
    return add_clamped(sum, workspace);
}

uint64_t slab_host_bytes(const struct stage_bytes *bytes, const struct slots *slots, uint32_t stage_count)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < stage_count; s++) {
        struct slab_stage stage;
        plan_rows(&stage, &bytes[s], &slots[s]);
        sum = add_clamped(sum, stage_host_size(&stage));
    }
    return sum;
}

// Gives each part its place, one after the other. All sizes are multiples of 256,
// hence all places are.
static void *place(unsigned char **next, uint64_t bytes)
{
    assert(bytes % 256 == 0);
    if (bytes == 0)
        return NULL;
    void *at = *next;
    *next += bytes;
    return at;
}

static bool open_row(struct slab_row *row)
{
    row->taken = calloc(row->count + 1, sizeof *row->taken);
    row->used = calloc(row->count + 1, sizeof(struct event *));
    return row->taken && row->used;
}

static void place_states(struct slab_stage *stage, unsigned char **next)
{
    stage->window_weights = place(next, stage->window_bytes[0]);
    stage->window_gradients = place(next, stage->window_bytes[1]);
    if (!stage->bytes.streams) {
        stage->weights.base = place(next, row_size(&stage->weights));
        stage->gradients = place(next, stage->bytes.gradients);
    }
    stage->optimizer = place(next, stage->bytes.optimizer);
}

static bool place_stage(struct slab_stage *stage, unsigned char **next)
{
    bool good = open_row(&stage->weights);
    place_states(stage, next);
    for (int class = 0; class < SLAB_CLASSES; class++) {
        stage->rows[class].base = place(next, row_size(&stage->rows[class]));
        good = open_row(&stage->rows[class]) && good;
    }
    return good;
}

static void place_on_host(struct slab_stage *stage, unsigned char **next)
{
    stage->on_host.weights = place(next, stage->bytes.host.weights);
    stage->on_host.gradients = place(next, stage->bytes.host.gradients);
    stage->on_host.optimizer = place(next, stage->bytes.host.optimizer);
    for (int class = 0; class < SLAB_CLASSES; class++)
        stage->rows[class].on_host = place(next, row_host_size(&stage->rows[class]));
    if (!stage->bytes.streams)
        return;
    assert(stage->weights.count <= 1);
    stage->weights.base = stage->on_host.weights;
    stage->gradients = stage->on_host.gradients;
}

static bool allocate(struct slab *slab, struct error *error)
{
    if (slab->bytes > 0 && !(slab->memory = device_allocate(slab->device, slab->bytes, error)))
        return false;
    if (slab->host_bytes > 0 && !(slab->host_memory = device_allocate_host(slab->device, slab->host_bytes, error)))
        return false;
    return true;
}

bool slab_open(struct slab *slab, struct device *device, const struct stage_bytes *bytes, const struct slots *slots,
               uint32_t stage_count, struct error *error)
{
    *slab = (struct slab){ .device = device, .stage_count = stage_count,
                           .bytes = slab_bytes(bytes, slots, stage_count),
                           .host_bytes = slab_host_bytes(bytes, slots, stage_count) };
    slab->stages = calloc(stage_count + 1, sizeof *slab->stages);
    if (!slab->stages)
        return error_no_memory(error, "the slots of a rank");
    if (!allocate(slab, error)) {
        slab_close(slab);
        return false;
    }
    unsigned char *next = slab->memory, *next_on_host = slab->host_memory;
    bool good = true;
    for (uint32_t s = 0; s < stage_count; s++) {
        plan_rows(&slab->stages[s], &bytes[s], &slots[s]);
        good = place_stage(&slab->stages[s], &next) && good;
        place_on_host(&slab->stages[s], &next_on_host);
    }
    slab->workspace = next;
    if (!good) {
        slab_close(slab);
        return error_no_memory(error, "the slots of a rank");
    }
    return true;
}

static void row_close(struct slab_row *row)
{
    free(row->taken);
    free(row->used);
}

void slab_close(struct slab *slab)
{
    for (uint32_t s = 0; slab->stages && s < slab->stage_count; s++) {
        row_close(&slab->stages[s].weights);
        for (int class = 0; class < SLAB_CLASSES; class++)
            row_close(&slab->stages[s].rows[class]);
    }
    free(slab->stages);
    if (slab->device)
        device_release(slab->device, slab->memory);
    if (slab->device)
        device_release(slab->device, slab->host_memory);
    *slab = (struct slab){ 0 };
}

uint32_t row_take(struct slab_row *row)
{
    for (uint32_t slot = 0; slot < row->count; slot++) {
        if (!row->taken[slot]) {
            row->taken[slot] = true;
            return slot;
        }
    }
    return NO_SLOT;
}

bool row_has_free(const struct slab_row *row)
{
    for (uint32_t slot = 0; slot < row->count; slot++)
        if (!row->taken[slot])
            return true;
    return false;
}

void row_give(struct slab_row *row, uint32_t slot, struct event *used)
{
    assert(slot < row->count && row->taken[slot]);
    row->taken[slot] = false;
    row->used[slot] = used;
}

void slab_forget_uses(struct slab *slab)
{
    for (uint32_t s = 0; s < slab->stage_count; s++)
        for (int class = 0; class < SLAB_CLASSES; class++)
            memset(slab->stages[s].rows[class].used, 0, slab->stages[s].rows[class].count * sizeof(struct event *));
}

void *row_at(const struct slab_row *row, uint32_t slot)
{
    if (slot == NO_SLOT || row->bytes == 0)
        return NULL;
    assert(slot < row->count);
    return row->is_on_host ? row->base : row->base + slot * row->bytes;
}

void *row_at_host(const struct slab_row *row, uint32_t slot)
{
    if (slot == NO_SLOT || !row->on_host)
        return NULL;
    assert(slot < row->count);
    return row->on_host + slot * row->bytes;
}
