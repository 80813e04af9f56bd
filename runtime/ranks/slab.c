#include "runtime/ranks/slab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"

static struct slab_row row_of(uint64_t bytes, uint32_t count)
{
    return (struct slab_row){ .bytes = bytes, .count = count };
}

// The rows of a stage, without their addresses.
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
    if (slots->versions > 1) {
        stage->weights.bytes = bytes->version;
        stage->weights.more = stage->bytes.weights - bytes->version;
    }
    stage->rows[SLAB_INPUT] = row_of(bytes->input, slots->input[bytes->input_life]);
    stage->rows[SLAB_KEPT] = row_of(bytes->kept, slots->kept);
    stage->rows[SLAB_KEPT_THROUGH] = row_of(bytes->kept_through, slots->kept_through);
    stage->rows[SLAB_HELD] = row_of(bytes->held, slots->held);
    stage->rows[SLAB_RECOMPUTED] = row_of(bytes->again, slots->again);
    stage->rows[SLAB_SHARED_BY_PARTS] = row_of(bytes->shared_by_parts, slots->shared_by_parts);
    stage->rows[SLAB_SHARED_BY_PARTS_GRADIENT] = row_of(bytes->shared_by_parts, slots->shared_by_parts_gradient);
    stage->rows[SLAB_OUTPUT] = row_of(bytes->output, slots->output);
    stage->rows[SLAB_OUTPUT_GRADIENT] = row_of(bytes->output, slots->output_gradient);
    stage->rows[SLAB_INPUT_GRADIENT] = row_of(bytes->input, slots->input_gradient);
    stage->rows[SLAB_STATISTICS] = row_of(bytes->statistics, slots->statistics);
    stage->rows[SLAB_GATHERED_STATISTICS] = row_of(bytes->statistics, slots->gathered_statistics);
    stage->rows[SLAB_AWAY] = row_of(bytes->kept, slots->away);
    stage->rows[SLAB_AWAY_THROUGH] = row_of(bytes->kept_through, slots->away);
    stage->rows[SLAB_AWAY].is_on_host = stage->rows[SLAB_AWAY_THROUGH].is_on_host = true;
    stage->rows[SLAB_KEPT].oldest_first = stage->rows[SLAB_KEPT_THROUGH].oldest_first = slots->away > 0;
}

// Bytes of a row on the device, or on the host; 0 if it is on the other one.
static uint64_t row_size(const struct slab_row *row, bool on_host)
{
    return row->is_on_host == on_host ? add_clamped(multiply_clamped(row->bytes, row->count), row->more) : 0;
}

static uint64_t stage_host_size(const struct slab_stage *stage)
{
    uint64_t sum = host_states_bytes(&stage->bytes.host);
    for (int class = 0; class < SLAB_CLASSES; class++)
        sum = add_clamped(sum, row_size(&stage->rows[class], true));
    return sum;
}

// Weights, gradients, optimizer state and state without a gradient on the device.
static uint64_t states_size(const struct slab_stage *stage)
{
    uint64_t states = add_clamped(stage->window_bytes[0], stage->window_bytes[1]);
    if (!stage->bytes.streams)
        states = add_clamped(states, add_clamped(row_size(&stage->weights, false), stage->bytes.gradients));
    return add_clamped(states, add_clamped(stage->bytes.optimizer, stage->bytes.state));
}

static uint64_t stage_size(const struct slab_stage *stage)
{
    uint64_t sum = states_size(stage);
    for (int class = 0; class < SLAB_CLASSES; class++)
        sum = add_clamped(sum, row_size(&stage->rows[class], false));
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

// The same on the host, where it is host_bytes.
static uint64_t host_bytes_of(const struct stage_bytes *bytes, const struct slots *slots, uint32_t stage_count)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < stage_count; s++) {
        struct slab_stage stage;
        plan_rows(&stage, &bytes[s], &slots[s]);
        sum = add_clamped(sum, stage_host_size(&stage));
    }
    return sum;
}

// Gives each part its address, one after the other. All sizes are multiples of 256, so all offsets are.
static void *place(unsigned char **next, uint64_t bytes)
{
    assert(bytes % 256 == 0);
    if (bytes == 0)
        return NULL;
    void *memory = *next;
    *next += bytes;
    return memory;
}

static bool open_row(struct slab_row *row)
{
    row->taken = calloc(row->count + 1, sizeof *row->taken);
    row->given = calloc(row->count + 1, sizeof *row->given);
    row->used = calloc(row->count + 1, sizeof(struct event *));
    return row->taken && row->given && row->used;
}

static void place_states(struct slab_stage *stage, unsigned char **next)
{
    stage->window_weights = place(next, stage->window_bytes[0]);
    stage->window_gradients = place(next, stage->window_bytes[1]);
    if (!stage->bytes.streams) {
        stage->weights.base = place(next, row_size(&stage->weights, false));
        stage->gradients = place(next, stage->bytes.gradients);
    }
    stage->optimizer = place(next, stage->bytes.optimizer);
    stage->state = place(next, stage->bytes.state);
}

static bool place_stage(struct slab_stage *stage, unsigned char **next)
{
    bool good = open_row(&stage->weights);
    place_states(stage, next);
    for (int class = 0; class < SLAB_CLASSES; class++) {
        if (!stage->rows[class].is_on_host)
            stage->rows[class].base = place(next, row_size(&stage->rows[class], false));
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
        if (stage->rows[class].is_on_host)
            stage->rows[class].base = place(next, row_size(&stage->rows[class], true));
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
                           .host_bytes = host_bytes_of(bytes, slots, stage_count) };
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
    free(row->given);
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

static_assert(sizeof(bool) == 1, "slots that are taken are searched byte by byte");

static uint32_t lowest_free(const struct slab_row *row)
{
    const bool *free_slot = memchr(row->taken, false, row->count);
    return free_slot ? (uint32_t)(free_slot - row->taken) : NO_SLOT;
}

uint32_t row_take(struct slab_row *row)
{
    uint32_t best = lowest_free(row);
    for (uint32_t slot = best; row->oldest_first && slot < row->count; slot++)
        if (!row->taken[slot] && row->given[slot] < row->given[best])
            best = slot;
    if (best != NO_SLOT)
        row->taken[best] = true;
    return best;
}

bool row_has_free(const struct slab_row *row)
{
    return lowest_free(row) != NO_SLOT;
}

void row_give(struct slab_row *row, uint32_t slot, struct event *used)
{
    assert(slot < row->count && row->taken[slot]);
    row->taken[slot] = false;
    row->given[slot] = ++row->most_given;
    row->used[slot] = used;
}

void slab_give_all(struct slab *slab)
{
    for (uint32_t s = 0; s < slab->stage_count; s++)
        for (int class = 0; class < SLAB_CLASSES; class++) {
            struct slab_row *row = &slab->stages[s].rows[class];
            memset(row->taken, 0, row->count * sizeof *row->taken);
        }
}

void slab_forget_uses(struct slab *slab)
{
    for (uint32_t s = 0; s < slab->stage_count; s++)
        for (int class = 0; class < SLAB_CLASSES; class++)
            memset(slab->stages[s].rows[class].used, 0, slab->stages[s].rows[class].count * sizeof(struct event *));
}

void *row_at(const struct slab_row *row, uint32_t slot)
{
    if (slot == NO_SLOT || row->bytes + (slot == 0 ? row->more : 0) == 0)
        return NULL;
    assert(slot < row->count);
    return row->base + slot * row->bytes + (slot > 0 ? row->more : 0);
}
