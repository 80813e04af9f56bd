// Attention: by cuDNN where the numbers have 16 bits and cuDNN has a plan for the shape that
// repeats its bits, otherwise by our own kernels. Both keep the same logarithms of sums,
// so either's backward goes with either's forward.
//
// A device takes plans (attention_plans.h) when it is asked for their workspace, and remembers what it has told. Queues
// find them there and make none: so nothing is made while something runs, nor while a stream is captured.
//
//     workspace   | cuDNN's | D of each row |      of a backward; a forward has the first part only
#include <assert.h>
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "device/cuda/attention_plans.h"
#include "device/cuda/cudnn_attention.h"
#include "device/cuda/cudnn_versions.h"

// --- what a device tells -----------------------------------------------------------------

// Of a shape that it was asked for. They stay until the device is closed, so that whoever looks needs no lock.
struct told_attention {
    struct told_attention *next;
    struct attention shape;
    struct attention_plan *plans[ATTENTION_DIRECTIONS];  // NULL: our own kernels attend
};

static bool is_for_cudnn(const struct device *device, const struct attention *shape, bool is_backward)
{
    return device->precision != PRECISION_FP32 && cudnn_attends(cudnnGetVersion(), shape, is_backward);
}

// No shape is a part of a sequence here.
static struct told_attention *find_told(const struct device *device, const struct attention *shape)
{
    struct told_attention *told = atomic_load_explicit(&cuda_device_of(device)->told, memory_order_acquire);
    while (told && (told->shape.batch != shape->batch || told->shape.sequence != shape->sequence
                    || told->shape.heads != shape->heads || told->shape.size != shape->size))
        told = told->next;
    return told;
}

static struct told_attention *tell(struct device *device, const struct attention *shape,
                                   const bool is_wanted[ATTENTION_DIRECTIONS], struct error *error)
{
    struct told_attention *told = malloc(sizeof *told);
    if (!told) {
        error_no_memory(error, "attention");
        return NULL;
    }
    *told = (struct told_attention){ .shape = *shape };
    if (!attention_plans_take(device, shape, is_wanted, told->plans, error)) {
        free(told);
        return NULL;
    }
    // Two that ask at a time may each tell: whoever looks finds the same plans.
    told->next = atomic_load_explicit(&cuda_device_of(device)->told, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&cuda_device_of(device)->told, &told->next, told))
        ;
    return told;
}

void cuda_forget_attention(struct cuda_device *device)
{
    struct told_attention *told = atomic_load_explicit(&device->told, memory_order_acquire);
    while (told) {
        struct told_attention *next = told->next;
        for (size_t i = 0; i < ATTENTION_DIRECTIONS; i++)
            attention_plan_give(told->plans[i]);
        free(told);
        told = next;
    }
    atomic_store_explicit(&device->told, NULL, memory_order_relaxed);
}

static bool is_cudnns(const struct attention_plan *plan)
{
    return plan && attention_plan_is_there(plan);
}

static uint64_t row_sums_at(const struct attention_plan *plan)
{
    return round_to_256(attention_plan_bytes(plan));
}

static uint64_t row_sum_bytes(const struct attention *shape)
{
    return shape->batch * shape->heads * shape->sequence * sizeof(float);
}

bool cuda_attention_bytes(struct device *device, const struct attention *shape, struct attention_bytes *bytes,
                          struct error *error)
{
    const bool is_wanted[] = { is_for_cudnn(device, shape, false), is_for_cudnn(device, shape, true) };
    if (!is_wanted[ATTENTION_FORWARD] && !is_wanted[ATTENTION_BACKWARD])
        return true;
    if (is_wanted[ATTENTION_BACKWARD] && !cudnn_is_sound(cudnnGetVersion(), error))
        return false;
    cuda_enter(device);
    const struct told_attention *told = find_told(device, shape);
    if (!told && !(told = tell(device, shape, is_wanted, error)))
        return false;
    const struct attention_plan *forward = told->plans[ATTENTION_FORWARD], *backward = told->plans[ATTENTION_BACKWARD];
    if (is_cudnns(forward))
        bytes->forward = attention_plan_bytes(forward);
    if (is_cudnns(backward))
        bytes->backward = row_sums_at(backward) + row_sum_bytes(shape);
    return true;
}

// --- running ---------------------------------------------------------------------------------

// The plan that attends, or NULL where our own kernels do, or the queue has failed.
static struct attention_plan *plan_for(struct queue *queue, const struct attention *shape, bool is_backward)
{
    if (!is_for_cudnn(queue->device, shape, is_backward))
        return NULL;
    const struct told_attention *told = find_told(queue->device, shape);
    if (!told)
        queue_fail(queue, "attention by cuDNN works in a workspace, and its caller has not asked how large a one");
    struct attention_plan *plan = told ? told->plans[is_backward] : NULL;
    return is_cudnns(plan) ? plan : NULL;
}

struct binding {
    int64_t id;
    const void *address;
};

static void run(struct queue *queue, struct attention_plan *plan, const struct binding *bindings, size_t count,
                void *workspace)
{
    enum { MOST = 16 };
    int64_t ids[MOST];
    void *addresses[MOST];
    assert(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        ids[i] = bindings[i].id;
        addresses[i] = (void *)(uintptr_t)bindings[i].address;
    }
    const cudnnStatus_t status = attention_plan_run(plan, cuda_queue_of(queue)->launch.stream, ids, addresses, count,
                                                    workspace);
    if (status == CUDNN_STATUS_SUCCESS)
        return;
    char sentence[200];
    snprintf(sentence, sizeof sentence, "attention by cuDNN failed: %s", cudnnGetErrorString(status));
    queue_fail(queue, sentence);
}

// Q, K or V: what 16 bits have of either kind lies alike.
static const struct values *part_of(const struct values *qkv, const struct attention *shape, size_t part)
{
    return values_at(qkv, PRECISION_BF16, part * shape->heads * shape->size);
}

// cuDNN reads 16 bytes at a time.
static bool are_for_cudnn(const void *const addresses[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((uintptr_t)addresses[i] % 16 != 0)
            return false;
    return true;
}

static void forward_by_cudnn(struct queue *queue, struct attention_plan *plan, const struct attention *shape,
                             struct values *out, float *log_sums, const struct values *qkv, void *workspace)
{
    const float scale = 1 / sqrtf((float)shape->size), masked = cudnn_masked(cudnnGetVersion());
    const struct binding bindings[] = {
        { ATTENTION_Q, part_of(qkv, shape, 0) }, { ATTENTION_K, part_of(qkv, shape, 1) },
        { ATTENTION_V, part_of(qkv, shape, 2) }, { ATTENTION_OUT, out },
        { ATTENTION_LOG_SUMS, log_sums },        { ATTENTION_SCALE, &scale },
        { ATTENTION_MASKED, &masked },
    };
    run(queue, plan, bindings, sizeof bindings / sizeof bindings[0], workspace);
}

static void backward_by_cudnn(struct queue *queue, struct attention_plan *plan, const struct attention *shape,
                              struct values *qkv_gradient, const struct values *out_gradient, const struct values *out,
                              const float *log_sums, const struct values *qkv, void *workspace)
{
    const float scale = 1 / sqrtf((float)shape->size), masked = cudnn_masked(cudnnGetVersion()), one = 1;
    const struct binding bindings[] = {
        { ATTENTION_Q, part_of(qkv, shape, 0) },
        { ATTENTION_K, part_of(qkv, shape, 1) },
        { ATTENTION_V, part_of(qkv, shape, 2) },
        { ATTENTION_OUT, out },
        { ATTENTION_LOG_SUMS, log_sums },
        { ATTENTION_SCALE, &scale },
        { ATTENTION_MASKED, &masked },
        { ATTENTION_OUT_GRADIENT, out_gradient },
        { ATTENTION_Q_GRADIENT, part_of(qkv_gradient, shape, 0) },
        { ATTENTION_K_GRADIENT, part_of(qkv_gradient, shape, 1) },
        { ATTENTION_V_GRADIENT, part_of(qkv_gradient, shape, 2) },
        { ATTENTION_ROW_SUMS, (char *)workspace + row_sums_at(plan) },
        { ATTENTION_ONE, &one },
    };
    run(queue, plan, bindings, sizeof bindings / sizeof bindings[0], workspace);
}

void cuda_attend(struct queue *queue, const struct attention *shape, struct values *out, float *log_sums,
                 const struct values *qkv, void *workspace)
{
    const struct cuda_launch *launch = cuda_launch_of(queue);
    const void *const addresses[] = { out, log_sums, qkv, workspace };
    struct attention_plan *plan = plan_for(queue, shape, false);
    if (!queue_is_well(queue))
        return;
    if (plan && are_for_cudnn(addresses, sizeof addresses / sizeof addresses[0]))
        forward_by_cudnn(queue, plan, shape, out, log_sums, qkv, workspace);
    else
        cuda_check(queue, cuda_attention(launch, shape, out, log_sums, qkv, workspace), "attention");
}

void cuda_attend_backward(struct queue *queue, const struct attention *shape, struct values *qkv_gradient,
                          const struct values *out_gradient, const struct values *out, const float *log_sums,
                          const struct values *qkv, void *workspace)
{
    const struct cuda_launch *launch = cuda_launch_of(queue);
    const void *const addresses[] = { qkv_gradient, out_gradient, out, log_sums, qkv, workspace };
    struct attention_plan *plan = plan_for(queue, shape, true);
    if (!queue_is_well(queue))
        return;
    if (plan && are_for_cudnn(addresses, sizeof addresses / sizeof addresses[0]))
        backward_by_cudnn(queue, plan, shape, qkv_gradient, out_gradient, out, log_sums, qkv, workspace);
    else
        cuda_check(queue, cuda_attention_backward(launch, shape, qkv_gradient, out_gradient, out, log_sums, qkv,
                                                  workspace),
                   "the backward of attention");
}
