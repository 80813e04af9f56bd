#include "runtime/updates/optimizer.h"

#include <assert.h>

#include "common/public/weir_layer.h"
#include "device/table_kernels.h"

_Static_assert((int)EIGHT_BIT_BLOCK == (int)OPTIMIZER_8BIT_BLOCK, "plans count blocks of another size");

static uint64_t moments_of(enum optimizer_kind kind)
{
    return optimizer_rows[kind].moments;
}

// Whether the size of an element's update depends on the rest of its tensor, or layer.
static bool is_by_tensor(enum optimizer_kind kind)
{
    const enum optimizer_formula formula = optimizer_rows[kind].formula;
    return formula == FORMULA_LARS || formula == FORMULA_LAMB || optimizer_keeps_blocks(kind);
}

struct optimizer optimizer_default(enum optimizer_kind kind)
{
    const float epsilon = optimizer_rows[kind].epsilon;
    return (struct optimizer){ .kind = kind, .rate = 1e-3f, .momentum = moments_of(kind) == 1 ? 0.9f : 0.0f,
                               .beta1 = 0.9f, .beta2 = 0.999f, .trust = 0.001f, .freeze_step = 100,
                               .epsilon = epsilon > 0 ? epsilon : 1e-8f };
}

bool optimizer_freeze(struct optimizer *optimizer, uint64_t given, uint64_t steps, struct error *error)
{
    const uint64_t usual = steps >= 5 ? steps / 5 : 1;
    if (given > 0 && !optimizer_compresses(optimizer->kind))
        return error_set(error, "a freeze step is adam1bit's, and the plan's optimizer is %s; leave it out",
                         optimizer_names[optimizer->kind]);
    optimizer->freeze_step = given > 0 ? given : usual;
    return true;
}

bool optimizer_measures_norm(const struct optimizer *optimizer)
{
    return optimizer->clip > 0 || optimizer->measures_norm;
}

uint64_t optimizer_copies(enum optimizer_kind kind)
{
    return moments_of(kind) + optimizer_is_master(kind) + optimizer_compresses(kind);
}

bool optimizer_keeps_blocks(enum optimizer_kind kind)
{
    return optimizer_rows[kind].is_factored || optimizer_rows[kind].codes > 0 || optimizer_rows[kind].keeps_rows;
}

uint64_t optimizer_block_count(uint64_t numbers)
{
    return (numbers + EIGHT_BIT_BLOCK - 1) / EIGHT_BIT_BLOCK;
}

uint64_t optimizer_block_bytes(uint64_t numbers)
{
    const uint64_t codes = 2 * numbers, size = sizeof(float);
    return 2 * size * optimizer_block_count(numbers) + (codes + size - 1) / size * size;
}

uint32_t optimizer_parts(enum optimizer_kind kind)
{
    return optimizer_keeps_blocks(kind) ? 1 : (uint32_t)optimizer_copies(kind) - optimizer_compresses(kind);
}

const char *optimizer_copy_name(enum optimizer_kind kind, uint64_t copy)
{
    static const char *const names[] = { "first_moment", "second_moment" };
    assert(copy < optimizer_copies(kind));
    if (copy == moments_of(kind))
        return optimizer_is_master(kind) ? "master" : "error";
    if (optimizer_rows[kind].formula == FORMULA_ADAGRAD)
        return "sum";
    return moments_of(kind) == 1 ? "momentum" : names[copy];
}

bool optimizer_is_frozen(const struct optimizer *optimizer, uint64_t update)
{
    return optimizer_compresses(optimizer->kind) && !optimizer->own && update > optimizer->freeze_step;
}

// After the moments.
static float *master_of(const struct optimizer *optimizer, float *state, uint64_t count)
{
    return optimizer_is_master(optimizer->kind) ? state + moments_of(optimizer->kind) * count : NULL;
}

void optimizer_begin(const struct optimizer *optimizer, struct queue *queue, const struct values *weights,
                     float *state, uint64_t count)
{
    float *master = master_of(optimizer, state, count);
    if (master)
        kernel_widen(queue, master, weights, count);
}

// --- formulas --------------------------------------------------------------------------

static void update_by_adam(const struct optimizer *optimizer, uint64_t update, struct queue *queue,
                           const struct optimizer_span *span, bool decays)
{
    const struct adamw adamw = { .rate = optimizer->rate, .beta1 = optimizer->beta1, .beta2 = optimizer->beta2,
                                 .epsilon = optimizer->epsilon, .decay = decays ? optimizer->decay : 0,
                                 .is_coupled = optimizer_rows[optimizer->kind].is_coupled, .update = update,
                                 .frozen = optimizer_is_frozen(optimizer, update) ? optimizer->freeze_step : 0 };
    kernel_adamw(queue, &adamw, span);
}

// For gradients that are all here. A number without a second moment has none to be divided by, and stays unchanged.
static void move_momentum(const struct optimizer *optimizer, struct queue *queue, const struct optimizer_span *span)
{
    kernel_scale(queue, span->first, span->first, optimizer->beta1, span->count);
    kernel_add_where(queue, span->first, span->gradients, 1 - optimizer->beta1, span->second, span->count);
}

static void update_by_sgd(const struct optimizer *optimizer, struct queue *queue, const struct optimizer_span *span,
                          bool decays)
{
    const struct sgd sgd = { .rate = optimizer->rate, .momentum = optimizer->momentum,
                             .decay = decays ? optimizer->decay : 0, .is_nesterov = optimizer->is_nesterov };
    kernel_sgd(queue, &sgd, span);
}

static void update_by_adagrad(const struct optimizer *optimizer, struct queue *queue, const struct optimizer_span *span,
                              bool decays)
{
    const struct adagrad adagrad = { .rate = optimizer->rate, .epsilon = optimizer->epsilon,
                                     .decay = decays ? optimizer->decay : 0 };
    kernel_adagrad(queue, &adagrad, span);
}

// Tensors without decay are not scaled by their norm, either: biases and norms, as the authors do.
static void update_by_lars(const struct optimizer *optimizer, struct queue *queue, const struct optimizer_span *span,
                           bool decays)
{
    const struct lars lars = { .rate = optimizer->rate, .momentum = optimizer->momentum,
                               .decay = decays ? optimizer->decay : 0, .trust = decays ? optimizer->trust : 0 };
    kernel_lars(queue, &lars, span);
}

static void update_by_lamb(const struct optimizer *optimizer, uint64_t update, struct queue *queue,
                           const struct optimizer_span *span, bool decays)
{
    const struct lamb lamb = {
        .rate = optimizer->rate, .beta1 = optimizer->beta1, .beta2 = optimizer->beta2, .epsilon = optimizer->epsilon,
        .decay = decays ? optimizer->decay : 0, .trusts = decays, .update = update,
    };
    kernel_lamb(queue, &lamb, span);
}

// --- over a stage ----------------------------------------------------------------------

// One update of a stage.
struct work {
    const struct optimizer *optimizer;
    uint64_t update;
    struct queue *queue;
    const struct optimizer_buffers *buffers;
    float *block;          // state of a part, of adagrad-rows,
    uint64_t block_first;  // and the element that it begins with
};

// Updates elements [first, end), all with decay or all without.
static void update_span(const struct work *work, uint64_t first, uint64_t end, bool decays)
{
    const struct optimizer_buffers *buffers = work->buffers;
    const enum optimizer_kind kind = work->optimizer->kind;
    float *state = buffers->state, *master = master_of(work->optimizer, state, buffers->count);
    const uint64_t moments = moments_of(kind);
    const enum precision precision = device_precision(queue_device(work->queue));
    const struct optimizer_span span = {
        .next = values_at(buffers->next, precision, first),
        .weights = values_at(buffers->weights, precision, first),
        .master = master ? master + first : NULL,
        .gradients = buffers->gradients + first,
        .first = moments > 0 ? state + first : NULL,
        .second = moments > 1 ? state + buffers->count + first : NULL,
        .count = end - first,
    };
    if (optimizer_is_frozen(work->optimizer, work->update) && !buffers->has_momentum)
        move_momentum(work->optimizer, work->queue, &span);
    switch (optimizer_rows[kind].formula) {
    case FORMULA_LARS:
        update_by_lars(work->optimizer, work->queue, &span, decays);
        break;
    case FORMULA_LAMB:
        update_by_lamb(work->optimizer, work->update, work->queue, &span, decays);
        break;
    case FORMULA_ADAM:
        update_by_adam(work->optimizer, work->update, work->queue, &span, decays);
        break;
    case FORMULA_ADAGRAD:
        update_by_adagrad(work->optimizer, work->queue, &span, decays);
        break;
    default:
        update_by_sgd(work->optimizer, work->queue, &span, decays);
    }
}

// Calls `update` on pieces of [first, end), in turn with decay and exempt from it.
static void walk_range(const struct work *work, uint64_t first, uint64_t end,
                       void (*update)(const struct work *work, uint64_t first, uint64_t end, bool decays))
{
    const struct optimizer_buffers *buffers = work->buffers;
    size_t i = 0;
    while (i < buffers->exempt_count && buffers->exempt[i].end <= first)
        i++;
    for (; first < end; i++) {
        const struct exempt rest = { end, end }, *exempt = i < buffers->exempt_count ? &buffers->exempt[i] : &rest;
        const uint64_t from = exempt->first < end ? exempt->first : end, to = exempt->end < end ? exempt->end : end;
        if (first < from)
            update(work, first, from, true);
        if (from < to)
            update(work, from > first ? from : first, to, false);
        first = to;
    }
}

// A tensor of a part, as elements of the stage; for a part that names no tensors, the whole part.
static struct exempt tensor_of(const struct stage_part *part, size_t tensor, enum precision precision)
{
    if (part->tensor_count == 0)
        return (struct exempt){ part->first, stage_part_end(part) };
    const struct weir_tensor *from = &part->tensors[tensor];
    const uint64_t first = part->first + from->first_byte / precision_bytes(precision);
    return (struct exempt){ first, first + (from->rows > 0 ? from->rows : 1) * from->columns };
}

// Between tensors there are zeros, which stay.
static void update_tensors(const struct work *work, const struct stage_part *part)
{
    const enum precision precision = device_precision(queue_device(work->queue));
    for (size_t t = 0; t < part->tensor_count || t == 0; t++) {
        const struct exempt range = tensor_of(part, t, precision);
        walk_range(work, range.first, range.end, update_span);
    }
}

// --- blocks, of weights in fp32 --------------------------------------------------------

// A tensor decays if none of it is exempt.
static bool decays(const struct work *work, struct exempt range)
{
    for (size_t i = 0; i < work->buffers->exempt_count; i++)
        if (work->buffers->exempt[i].first < range.end && work->buffers->exempt[i].end > range.first)
            return false;
    return true;
}

static void update_by_adafactor(const struct work *work, const struct stage_part *part, float *state)
{
    const struct optimizer *optimizer = work->optimizer;
    for (size_t t = 0; t < part->tensor_count || t == 0; t++) {
        const struct exempt range = tensor_of(part, t, PRECISION_FP32);
        const uint64_t rows = part->tensor_count > 0 && part->tensors[t].rows > 1 ? part->tensors[t].rows : 1;
        const struct shape shape = { rows, (range.end - range.first) / rows };
        const bool is_matrix = rows > 1 && shape.columns > 1;
        const struct factored_span span = {
            .next = values_at(work->buffers->next, PRECISION_FP32, range.first),
            .weights = values_at(work->buffers->weights, PRECISION_FP32, range.first),
            .gradients = work->buffers->gradients + range.first,
            .rows = is_matrix ? rows : 1,
            .columns = is_matrix ? shape.columns : range.end - range.first,
            .row = state,
            .column = is_matrix ? state + rows : NULL,
        };
        const float decay = decays(work, range) ? optimizer->decay : 0;
        const struct adafactor adafactor = { .rate = optimizer->rate, .decay = decay, .update = work->update };
        if (range.first < range.end)
            kernel_adafactor(work->queue, &adafactor, &span);
        state += optimizer_factored(shape);
    }
}

// Applies decay by a step without gradients, since exempt elements may begin and end within a block.
static void decay_range(const struct work *work, uint64_t first, uint64_t end, bool decays)
{
    const struct optimizer_span span = { .next = values_at(work->buffers->next, PRECISION_FP32, first),
                                         .weights = values_at(work->buffers->weights, PRECISION_FP32, first),
                                         .count = end - first };
    const struct sgd sgd = { .rate = work->optimizer->rate, .decay = decays ? work->optimizer->decay : 0 };
    kernel_sgd(work->queue, &sgd, &span);
}

static void update_by_adam8bit(const struct work *work, const struct stage_part *part, float *state)
{
    const uint64_t count = stage_part_end(part) - part->first, blocks = optimizer_block_count(count);
    const struct optimizer *optimizer = work->optimizer;
    struct values *next = values_at(work->buffers->next, PRECISION_FP32, part->first);
    const struct eight_bit_span span = {
        .next = next, .weights = next, .gradients = work->buffers->gradients + part->first, .count = count,
        .first_scales = state, .second_scales = state + blocks,
        .first = (uint8_t *)(state + 2 * blocks), .second = (uint8_t *)(state + 2 * blocks) + count,
    };
    const struct adamw adamw = { .rate = optimizer->rate, .beta1 = optimizer->beta1, .beta2 = optimizer->beta2,
                                 .epsilon = optimizer->epsilon, .update = work->update };
    if (count == 0)
        return;
    walk_range(work, part->first, part->end, decay_range);
    kernel_adam8bit(work->queue, &adamw, &span);
}

static void update_adagrad_block(const struct work *work, uint64_t first, uint64_t end, bool decays)
{
    const struct optimizer_span span = {
        .next = values_at(work->buffers->next, PRECISION_FP32, first),
        .weights = values_at(work->buffers->weights, PRECISION_FP32, first),
        .gradients = work->buffers->gradients + first,
        .first = work->block + (first - work->block_first),
        .count = end - first,
    };
    update_by_adagrad(work->optimizer, work->queue, &span, decays);
}

// A layer that is no table keeps a number of each weight.
static void update_by_plain_adagrad(const struct work *work, const struct stage_part *part, float *state)
{
    struct work with = *work;
    with.block = state;
    with.block_first = part->first;
    walk_range(&with, part->first, part->end, update_adagrad_block);
}

static void update_block(const struct work *work, const struct stage_part *part)
{
    float *state = work->buffers->state + part->state / sizeof(float);
    if (optimizer_rows[work->optimizer->kind].keeps_rows)
        update_by_plain_adagrad(work, part, state);
    else if (optimizer_rows[work->optimizer->kind].is_factored)
        update_by_adafactor(work, part, state);
    else
        update_by_adam8bit(work, part, state);
}

// --- rows ------------------------------------------------------------------------------

// Whether a part is tables that are updated by rows. Without a list these are all rows.
static bool is_by_rows(const struct optimizer *optimizer, const struct stage_part *part)
{
    return part->room > 0 || (part->rows > 0 && optimizer_rows[optimizer->kind].keeps_rows);
}

static void update_rows_by_adam(const struct work *work, const struct row_list *list, const struct optimizer_span *span)
{
    const struct optimizer *optimizer = work->optimizer;
    const struct adamw adamw = { .rate = optimizer->rate, .beta1 = optimizer->beta1, .beta2 = optimizer->beta2,
                                 .epsilon = optimizer->epsilon, .update = work->update, .is_lazy = true };
    kernel_adamw_rows(work->queue, &adamw, list, span);
}

// A list of rows updates the same weights that it was made with.
static void update_rows(const struct work *work, const struct stage_part *part)
{
    const struct optimizer *optimizer = work->optimizer;
    const struct optimizer_row *row = &optimizer_rows[optimizer->kind];
    const struct optimizer_buffers *buffers = work->buffers;
    const struct row_list list = stage_part_rows(part, (float *)(uintptr_t)buffers->gradients);
    const struct optimizer_span span = {
        .next = values_at(buffers->next, PRECISION_FP32, part->first),
        .weights = values_at(buffers->weights, PRECISION_FP32, part->first),
        .first = row->keeps_rows ? buffers->state + part->state / sizeof(float)
               : row->moments > 0 ? buffers->state + part->first : NULL,
        .second = row->moments > 1 ? buffers->state + buffers->count + part->first : NULL,
        .count = part->rows * part->columns,
    };
    assert(part->room == 0 || buffers->next == buffers->weights);
    if (row->formula == FORMULA_ADAM)
        update_rows_by_adam(work, &list, &span);
    else if (row->formula == FORMULA_ADAGRAD)
        kernel_adagrad_rows(work->queue, &(struct adagrad){ .rate = optimizer->rate, .epsilon = optimizer->epsilon },
                            &list, &span, row->keeps_rows);
    else
        kernel_sgd_rows(work->queue, &(struct sgd){ .rate = optimizer->rate }, &list, &span);
}

// --- of one's own ------------------------------------------------------------------------

struct own_call {
    layer_update_function *function;
    void *self;
    struct layer_update update;
};

static void do_own_call(struct queue *queue, const void *arguments)
{
    const struct own_call *call = arguments;
    struct error error = { 0 };
    if (!call->function(call->self, &call->update, &error))
        queue_fail(queue, error.text);
}

// On a GPU the user's function gives its work to the queue; in C it computes when it is called.
static void update_by_own(const struct work *work, const struct stage_part *part)
{
    const struct optimizer *optimizer = work->optimizer;
    const struct optimizer_buffers *buffers = work->buffers;
    struct queue *queue = work->queue;
    const enum precision precision = device_precision(queue_device(queue));
    struct own_call call = { optimizer->own, optimizer->self, {
        .queue = queue, .layer = part->layer, .update = work->update, .rate = optimizer->rate,
        .weights = values_at(buffers->weights, precision, part->first),
        .next = values_at(buffers->next, precision, part->first),
        .gradients = buffers->gradients + part->first, .count = part->end - part->first,
    } };
    for (uint64_t copy = 0; copy < optimizer_copies(optimizer->kind); copy++)
        call.update.state[copy] = buffers->state + copy * buffers->count + part->first;
    if (part->first == part->end)
        return;
    if (queue_stream(queue))
        do_own_call(queue, &call);
    else
        queue_call(queue, do_own_call, &call, sizeof call);
}

// --- by parts ------------------------------------------------------------------------------

// The next version of what is frozen has the same bits.
static void keep(const struct work *work, const struct stage_part *part)
{
    const enum precision precision = device_precision(queue_device(work->queue));
    const struct optimizer_buffers *buffers = work->buffers;
    if (buffers->next != buffers->weights && part->first < part->end)
        queue_copy(work->queue, values_at(buffers->next, precision, part->first),
                   values_at(buffers->weights, precision, part->first),
                   (part->end - part->first) * precision_bytes(precision));
}

static void update_part(const struct work *work, const struct stage_part *part)
{
    const struct optimizer *optimizer = work->optimizer;
    if (part->is_frozen)
        keep(work, part);
    else if (optimizer->own)
        update_by_own(work, part);
    else if (is_by_rows(optimizer, part))
        update_rows(work, part);
    else if (optimizer_keeps_blocks(optimizer->kind))
        update_block(work, part);
    else if (is_by_tensor(optimizer->kind))
        update_tensors(work, part);
    else
        walk_range(work, part->first, part->end, update_span);
}

// Whether one call may update both parts. An empty part goes with any.
static bool goes_with(const struct optimizer *optimizer, const struct stage_part *part, const struct stage_part *next)
{
    const bool is_alike = part->is_frozen == next->is_frozen && part->rate_factor == next->rate_factor;
    const bool are_lists = part->room > 0 || next->room > 0;
    return !optimizer->own && !is_by_tensor(optimizer->kind) && !are_lists && (is_alike || next->first == next->end);
}

void optimizer_update(const struct optimizer *optimizer, uint64_t update, struct queue *queue,
                      const struct optimizer_buffers *buffers)
{
    const bool needs_parts = optimizer->own || optimizer_keeps_blocks(optimizer->kind);
    const struct stage_part whole = { .end = buffers->count }, *parts = buffers->part_count ? buffers->parts : &whole;
    const size_t count = buffers->part_count > 0 || needs_parts ? buffers->part_count : 1;
    assert(update > 0);
    for (size_t i = 0, next; i < count; i = next) {
        struct stage_part part = parts[i];
        for (next = i + 1; next < count && goes_with(optimizer, &part, &parts[next]); next++)
            part.end = parts[next].end;
        struct optimizer paced = *optimizer;
        paced.rate *= part.rate_factor > 0 ? part.rate_factor : 1;
        update_part(&(struct work){ .optimizer = &paced, .update = update, .queue = queue, .buffers = buffers }, &part);
    }
}
