// Attention: by cuDNN if the numbers have 16 bits and cuDNN has a plan for the shape that repeats its bits, otherwise
// by our own kernels. Both keep the same logarithms of sums, so either one's backward works with either one's
// forward.
//
// A device takes plans (attention_plans.h) when it is asked for their workspace, and remembers its answers ("told").
// Queues find the plans there and make none. Nothing is therefore made while something runs, or while a stream is
// captured.
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

// The answer for one shape. Answers stay until the device is closed, so that reading them needs no lock.
struct attention_answer {
    struct attention_answer *next;
    struct attention shape;
    struct attention_plan *plans[ATTENTION_DIRECTIONS];  // NULL: our own kernels compute attention
};

static bool is_for_cudnn(const struct device *device, const struct attention *shape, bool is_backward)
{
    return device->precision != PRECISION_FP32 && cudnn_attends(cudnnGetVersion(), shape, is_backward);
}

// Shapes here are never a part of a sequence.
static struct attention_answer *find_answer(const struct device *device, const struct attention *shape)
{
    struct attention_answer *answer = atomic_load_explicit(&cuda_device_of(device)->answers, memory_order_acquire);
    while (answer && (answer->shape.batch != shape->batch || answer->shape.sequence != shape->sequence
                      || answer->shape.heads != shape->heads || answer->shape.size != shape->size))
        answer = answer->next;
    return answer;
}

static struct attention_answer *tell(struct device *device, const struct attention *shape,
                                   const bool is_wanted[ATTENTION_DIRECTIONS], struct error *error)
{
    struct attention_answer *answer = malloc(sizeof *answer);
    if (!answer)
        return error_null(error_no_memory(error, "attention"));
    *answer = (struct attention_answer){ .shape = *shape };
    if (!attention_plans_take(device, shape, is_wanted, answer->plans, error)) {
        free(answer);
        return NULL;
    }
    // Two threads that ask at the same time may each add an answer. Readers then find the same plans in both.
    answer->next = atomic_load_explicit(&cuda_device_of(device)->answers, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&cuda_device_of(device)->answers, &answer->next, answer))
        ;
    return answer;
}

void cuda_forget_attention(struct cuda_device *device)
{
    struct attention_answer *answer = atomic_load_explicit(&device->answers, memory_order_acquire);
    while (answer) {
        struct attention_answer *next = answer->next;
        for (size_t i = 0; i < ATTENTION_DIRECTIONS; i++)
            attention_plan_give(answer->plans[i]);
        free(answer);
        answer = next;
    }
    atomic_store_explicit(&device->answers, NULL, memory_order_relaxed);
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
    const struct attention_answer *answer = find_answer(device, shape);
    if (!answer && !(answer = tell(device, shape, is_wanted, error)))
        return false;
    const struct attention_plan *forward = answer->plans[ATTENTION_FORWARD];
    const struct attention_plan *backward = answer->plans[ATTENTION_BACKWARD];
    if (is_cudnns(forward))
        bytes->forward = attention_plan_bytes(forward);
    if (is_cudnns(backward))
        bytes->backward = row_sums_at(backward) + row_sum_bytes(shape);
    return true;
}

// --- running ---------------------------------------------------------------------------------

// The plan to run, or NULL if our own kernels are used or the queue has failed.
static struct attention_plan *plan_for(struct queue *queue, const struct attention *shape, bool is_backward)
{
    if (!is_for_cudnn(queue->device, shape, is_backward))
        return NULL;
    const struct attention_answer *answer = find_answer(queue->device, shape);
    if (!answer)
        queue_fail(queue, "attention by cuDNN works in a workspace, and its caller has not asked how large a one");
    struct attention_plan *plan = answer ? answer->plans[is_backward] : NULL;
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

// Q, K or V. Both kinds of 16-bit numbers are laid out alike.
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

void cuda_give_attention(struct queue *queue, const struct attention *shape, struct values *out, float *log_sums,
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

void cuda_give_attention_backward(struct queue *queue, const struct attention *shape, struct values *qkv_gradient,
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
