#include "device/kernels.h"

#include <assert.h>
#include <math.h>

#include "common/number.h"
#include "common/random.h"
#include "device/cpu.h"
#include "device/expert_kernels.h"
#include "device/kernel_list.h"
#include "device/recording.h"

// The table that a queue's kernels go to: its device's, or the recording's if there is one.
static const struct kernel_functions *kernels_of(const struct queue *queue)
{
    return queue->recorded ? &recorded_kernels : queue->device->kernels;
}

// Gives a kernel to the queue's device, unless the queue has failed.
#define AFTER(kernel, check)                                                                    \
    void kernel_##kernel(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S))     \
    {                                                                                           \
        assert(check);                                                                          \
        if (queue_is_well(queue))                                                               \
            kernels_of(queue)->kernel(queue PARAMETERS_##kernel(ARGUMENT, ARGUMENT));           \
    }
#define AS_GIVEN(kernel, ...) AFTER(kernel, queue)
KERNELS_AS_GIVEN(AS_GIVEN)

#define UPDATING(kernel, ...) AFTER(kernel, (span->master != NULL) == (queue->device->precision != PRECISION_FP32))
KERNELS_UPDATING(UPDATING)

#define IN_FP32(kernel, ...) AFTER(kernel, queue->device->precision == PRECISION_FP32)
KERNELS_OF_OPTIMIZERS_IN_FP32(IN_FP32)

void kernel_matmul(struct queue *queue, const struct matmul *matmul)
{
    struct matmul packed = *matmul;
    assert((matmul->c != NULL) != (matmul->sums != NULL));
    assert(matmul->c || (!matmul->bias && !matmul->before_gelu));
    if (packed.lda == 0)
        packed.lda = packed.transpose_a ? packed.m : packed.k;
    if (packed.ldb == 0)
        packed.ldb = packed.transpose_b ? packed.k : packed.n;
    if (packed.ldc == 0)
        packed.ldc = packed.n;
    if (queue_is_well(queue))
        kernels_of(queue)->matmul(queue, &packed);
}

uint64_t dropout_key(uint64_t seed, uint64_t step, uint32_t micro_batch, uint32_t layer)
{
    uint64_t key = seed;
    key = random_next(&key) ^ step;
    key = random_next(&key) ^ ((uint64_t)micro_batch << 32 | layer);
    return random_next(&key);
}

static inline bool may_drop(struct dropout dropout, size_t count)
{
    return dropout.probability >= 0 && dropout.probability < 1 && dropout.first + count <= (size_t)UINT32_MAX;
}
AFTER(dropout, may_drop(dropout, count))
AFTER(add_branch, may_drop(dropout, rows * columns))

// For one head at a time, the cpu maker takes K and V transposed and two blocks of ATTENTION_ROWS rows of scores.
uint64_t attention_workspace_bytes(const struct attention *attention)
{
    const uint64_t across = attention_row_floats(attention_whole(attention));
    return round_to_256((2 * attention->size + 2 * ATTENTION_ROWS) * across * sizeof(float));
}

bool attention_bytes(struct device *device, const struct attention *attention, struct attention_bytes *bytes,
                     struct error *error)
{
    const uint64_t usual = attention_workspace_bytes(attention);
    *bytes = (struct attention_bytes){ usual, usual };
    return !device->functions->attention_bytes || device->functions->attention_bytes(device, attention, bytes, error);
}

bool convolution_is_possible(const struct convolution *convolution, struct error *error)
{
    const struct convolution *c = convolution;
    const struct window *w = &c->window;
    if (c->batch == 0 || c->height == 0 || c->width == 0 || c->in == 0 || c->out == 0 || c->groups == 0
        || w->height == 0 || w->width == 0 || w->stride_height == 0 || w->stride_width == 0)
        return error_set(error, "a convolution has a size, a number of groups or a stride of 0");
    if (c->in % c->groups != 0 || c->out % c->groups != 0)
        return error_set(error, "%zu groups of a convolution do not divide its channels, %zu in and %zu out",
                         c->groups, c->in, c->out);
    return (convolution_height(c) > 0 && convolution_width(c) > 0)
        || error_set(error, "the window of a convolution, %zux%zu, is larger than its padded input, %zux%zu",
                     w->height, w->width, c->height + 2 * w->padding_height, c->width + 2 * w->padding_width);
}

bool convolution_may_run(struct queue *queue, const struct convolution *convolution)
{
    struct error error = { 0 };
    if (convolution_is_possible(convolution, &error))
        return true;
    queue_fail(queue, error.text);
    return false;
}

bool convolution_bytes(struct device *device, const struct convolution *convolution, struct convolution_bytes *bytes,
                       struct error *error)
{
    *bytes = (struct convolution_bytes){ 0 };
    if (device->precision != PRECISION_FP32 && !device->has_pictures)
        return error_set(error, "a GPU computes convolutions in fp32 only, and this one is in %s: name it without",
                         precision_name(device->precision));
    return convolution_is_possible(convolution, error)
        && device->functions->convolution_bytes(device, convolution, bytes, error);
}

static struct cross_entropy with_stride(const struct cross_entropy *loss)
{
    struct cross_entropy whole = *loss;
    assert(loss->stride == 0 || loss->stride >= loss->columns);
    if (whole.stride == 0)
        whole.stride = whole.columns;
    return whole;
}

static bool may_smooth(struct queue *queue, const struct cross_entropy *loss, bool is_part)
{
    if (!(loss->smoothing >= 0 && loss->smoothing < 1))
        queue_fail(queue, "label smoothing is not a number from 0 to below 1");
    else if (loss->smoothing > 0 && is_part)
        queue_fail(queue, "label smoothing needs all columns of the logits on one device");
    return queue_is_well(queue);
}

#define OF_CROSS_ENTROPY(kernel, check, is_part)                                                \
    void kernel_##kernel(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S))     \
    {                                                                                           \
        const struct cross_entropy whole = with_stride(loss);                                   \
        assert(check);                                                                          \
        loss = &whole;                                                                          \
        if (may_smooth(queue, loss, is_part))                                                   \
            kernels_of(queue)->kernel(queue PARAMETERS_##kernel(ARGUMENT, ARGUMENT));           \
    }
OF_CROSS_ENTROPY(cross_entropy, queue, cross_entropy_whole(loss) > loss->columns)
OF_CROSS_ENTROPY(cross_entropy_both, cross_entropy_whole(loss) == loss->columns, false)
OF_CROSS_ENTROPY(cross_entropy_part, queue, true)
OF_CROSS_ENTROPY(cross_entropy_backward, queue, cross_entropy_whole(loss) > loss->columns)

// --- pictures ------------------------------------------------------------------

// What is wrong with a call, or NULL.
static const char *wrong_window(const struct pooling *p)
{
    const struct window *w = &p->window;
    if (w->height == 0 || w->width == 0)
        return "a window of pooling has no pixels";
    if (w->stride_height == 0 || w->stride_width == 0)
        return "a window of pooling does not move (its stride is 0)";
    if (w->padding_height > w->height / 2 || w->padding_width > w->width / 2)
        return "the padding of pooling is larger than half of its window";
    if (pooling_height(p) == 0 || pooling_width(p) == 0)
        return "a window of pooling is larger than the picture with its padding";
    return NULL;
}

static const char *wrong_maximum(const struct pooling *p)
{
    const bool is_small = p->window.height <= 255 && p->window.width <= 255
        && p->window.height * p->window.width <= 255;
    return is_small ? wrong_window(p) : "max pooling has a window of more than 255 pixels";
}

static const char *wrong_norm(const struct batch_norm *norm)
{
    return norm->counted > norm->rows ? "a batch norm counts more rows than it has" : NULL;
}

static const char *wrong_factor(const struct upsampling *upsampling)
{
    return upsampling->factor == 0 ? "upsampling has a factor of 0" : NULL;
}

// `otherwise` is what to say if the device has no such kernels.
static bool may_do(struct queue *queue, bool has_kernels, const char *otherwise, const char *wrong)
{
    if (!has_kernels)
        queue_fail(queue, otherwise);
    else if (wrong)
        queue_fail(queue, wrong);
    return queue_is_well(queue);
}

static bool is_in_fp32(const struct queue *queue)
{
    return queue->device->precision == PRECISION_FP32;
}

#define IF_RIGHT(kernel, has_kernels, otherwise, wrong)                                         \
    void kernel_##kernel(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S))     \
    {                                                                                           \
        if (may_do(queue, has_kernels, otherwise, wrong))                                       \
            kernels_of(queue)->kernel(queue PARAMETERS_##kernel(ARGUMENT, ARGUMENT));           \
    }
#define OF_PICTURES(kernel, wrong)                                       \
    IF_RIGHT(kernel, is_in_fp32(queue) || queue->device->has_pictures,   \
             "the kernels of pictures need a GPU in fp32", wrong)
OF_PICTURES(convolution, NULL)
OF_PICTURES(convolution_input, NULL)
OF_PICTURES(convolution_weight, NULL)
OF_PICTURES(max_pool, wrong_maximum(pooling))
OF_PICTURES(max_pool_backward, wrong_maximum(pooling))
OF_PICTURES(average_pool, wrong_window(pooling))
OF_PICTURES(average_pool_backward, wrong_window(pooling))
OF_PICTURES(batch_norm, wrong_norm(norm))
OF_PICTURES(batch_norm_backward, wrong_norm(norm))
OF_PICTURES(batch_norm_running, NULL)
OF_PICTURES(batch_norm_merge, NULL)
OF_PICTURES(batch_norm_fold, NULL)
OF_PICTURES(copy_columns, columns > out_stride || columns > in_stride
                              ? "a copy of columns has rows that are longer than their strides" : NULL)
OF_PICTURES(upsample, wrong_factor(upsampling))
OF_PICTURES(upsample_backward, wrong_factor(upsampling))

// --- tables --------------------------------------------------------------------

// Ids and ends are integers of 32 bits.
static const char *wrong_bags(const struct bags *bags)
{
    if (bags->columns == 0)
        return "a table has no columns";
    if (bags->rows > INT32_MAX || bags->most > INT32_MAX)
        return "tables have more than 2^31 - 1 rows, or a micro-batch has more ids than that";
    return NULL;
}

static const char *wrong_interaction(const struct interaction *interaction)
{
    return interaction_rows(interaction->count, interaction->bottom != NULL) < 2
               ? "an interaction has fewer than two vectors" : NULL;
}

#define OF_TABLES(kernel, wrong) \
    IF_RIGHT(kernel, is_in_fp32(queue), "the kernels of tables need a device in fp32", wrong)
OF_TABLES(bag, wrong_bags(bags))
OF_TABLES(bag_backward, wrong_bags(bags))
OF_TABLES(list_rows, bags->rows != list->rows || bags->columns != list->columns
                         ? "a list of rows is for another matrix than its bags" : wrong_bags(bags))
OF_TABLES(add_list, list->rows != other->rows || list->columns != other->columns
                        ? "lists of the rows of different matrices are added up" : NULL)
OF_TABLES(sgd_rows, NULL)
OF_TABLES(adagrad_rows, NULL)
OF_TABLES(adamw_rows, NULL)
OF_TABLES(move_rows, NULL)
OF_TABLES(norm_rows, NULL)
OF_TABLES(interaction, wrong_interaction(interaction))
OF_TABLES(interaction_backward, wrong_interaction(interaction))
OF_TABLES(cross, NULL)
OF_TABLES(cross_backward, NULL)
OF_TABLES(sum_rows, NULL)
OF_TABLES(sum_rows_backward, NULL)
OF_TABLES(log_counts, NULL)
OF_TABLES(binary_cross_entropy, NULL)

// --- experts -------------------------------------------------------------------

// What is wrong with a routing, or NULL. Slots and pairs are integers of 32 bits.
static const char *wrong_routing(const struct routing *routing)
{
    const struct router *router = &routing->router;
    const bool has_groups = router->kind == ROUTER_DEEPSEEK;
    if (router->experts == 0 || router->experts > ROUTER_EXPERTS || router->top == 0 || router->top > ROUTER_TOP
        || router->top > router->experts)
        return "a router has no experts or too many, or a token takes more than there are";
    if (has_groups && (router->groups == 0 || router->groups > ROUTER_GROUPS || router->experts % router->groups != 0))
        return "the groups of a router do not divide its experts, or are too many";
    if (has_groups && (router->best_groups == 0 || router->best_groups > router->groups
                       || router->best_groups * (router->experts / router->groups) < router->top))
        return "the best groups of a router have fewer experts than a token takes";
    if (routing->counted > routing->rows || routing->rows > (size_t)INT32_MAX / router->top)
        return "a routing has more tokens than rows, or more than 2^31 - 1 pairs";
    return NULL;
}

static const char *wrong_groups(const struct matmul *matmul)
{
    const bool has_gaps = matmul->lda > 0 || matmul->ldb > 0 || matmul->ldc > 0;
    if (has_gaps || (matmul->sums != NULL) != matmul->transpose_a)
        return "a grouped product has gaps between its rows, or sums of the wrong sides";
    return NULL;
}

#define OF_EXPERTS(kernel, wrong) IF_RIGHT(kernel, true, NULL, wrong)
OF_EXPERTS(route, wrong_routing(routing))
OF_EXPERTS(route_own, wrong_routing(routing))
OF_EXPERTS(route_all, wrong_routing(routing))
OF_EXPERTS(route_backward, wrong_routing(routing))
OF_EXPERTS(move_bias, NULL)
OF_EXPERTS(permute, wrong_routing(routing))
OF_EXPERTS(combine, wrong_routing(routing))
OF_EXPERTS(gate_gradients, wrong_routing(routing))
OF_EXPERTS(grouped_matmul, wrong_groups(matmul))
OF_EXPERTS(grouped_sum_columns, NULL)
OF_EXPERTS(activate, NULL)
OF_EXPERTS(activate_backward, NULL)

// --- numbers of optimizers -----------------------------------------------------

// The value of a positive code. Decade 0 has `first_steps` codes, and each further decade has twice as many.
static float positive_value(unsigned code, unsigned first_steps)
{
    static const float decades[] = { 1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1 };
    unsigned decade = 0, steps = first_steps;
    for (; decade < 7 && code >= steps; decade++, steps *= 2)
        code -= steps;
    return decade == 7 ? 1.0f : decades[decade] * (0.1f + 0.9f * ((float)code + 0.5f) / (float)steps);
}

float eight_bit_value(unsigned code, bool is_signed)
{
    if (!is_signed)
        return code == 0 ? 0.0f : positive_value(code - 1, 2);
    if (code == 127)
        return 0.0f;
    return code > 127 ? positive_value(code - 128, 1) : -positive_value(126 - code, 1);
}

float trust_ratio(double above, double below, double norm)
{
    return above > 0 && norm > 0 ? (float)(above / below) : 1.0f;
}

double clip_norm(const float *norms, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)norms[i] * (double)norms[i];
    return sqrt(sum);
}

float clip_factor(const struct clip *clip)
{
    const double norm = clip_norm(clip->norms, clip->norm_count);
    return norm <= (double)clip->limit ? 1.0f : (float)((double)clip->limit / norm);
}

