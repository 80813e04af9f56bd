// Attention: by cuDNN where the numbers are bfloat16 and cuDNN has a plan for the shape that
// repeats its bits, otherwise by our own kernels. Both keep the same logarithms of sums,
// so either's backward goes with either's forward. A plan is made when its shape is met
// first in a queue, with a workspace of its own.
#include <assert.h>
#include <cudnn.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cudnn_attention.h"

struct entry {
    struct attention shape;
    bool is_backward;
    bool is_refused;  // cuDNN has none: our own kernels
    struct cudnn_plan plan;
    char *workspace;
    uint64_t workspace_bytes;
    uint64_t row_sums_at;  // in the workspace
};

struct cudnn {
    struct device *device;
    cudnnHandle_t handle;
    struct entry *entries;
    size_t count;
};

// --- opening and closing -----------------------------------------------------------------

struct cudnn *cudnn_create(struct device *device, cudaStream_t stream, struct error *error)
{
    struct cudnn *cudnn = calloc(1, sizeof *cudnn);
    if (!cudnn) {
        error_no_memory(error, "a queue");
        return NULL;
    }
    cudnn->device = device;
    cudnnStatus_t status = cudnnCreate(&cudnn->handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnSetStream(cudnn->handle, stream);
    if (status == CUDNN_STATUS_SUCCESS)
        return cudnn;
    error_set_kind(error, ERROR_MACHINE, "opening cuDNN failed: %s", cudnnGetErrorString(status));
    cudnn_free(cudnn);
    return NULL;
}

void cudnn_free(struct cudnn *cudnn)
{
    if (!cudnn)
        return;
    for (size_t i = 0; i < cudnn->count; i++) {
        cudnn_plan_clear(&cudnn->entries[i].plan);
        cuda_give_workspace(cudnn->device, cudnn->entries[i].workspace, cudnn->entries[i].workspace_bytes);
    }
    free(cudnn->entries);
    if (cudnn->handle)
        cudnnDestroy(cudnn->handle);
    free(cudnn);
}

// --- plans by shape ----------------------------------------------------------------------

static bool take_workspace(struct cudnn *cudnn, struct entry *entry, struct error *error)
{
    const struct attention *shape = &entry->shape;
    entry->row_sums_at = round_to_256((uint64_t)entry->plan.workspace_bytes);
    entry->workspace_bytes = entry->row_sums_at + shape->batch * shape->heads * shape->sequence * sizeof(float);
    void *memory;
    if (!cuda_take_workspace(cudnn->device, &memory, entry->workspace_bytes, error))
        return false;
    entry->workspace = memory;
    return true;
}

static bool fill_entry(struct cudnn *cudnn, struct entry *entry, struct error *error)
{
    struct cudnn_graph graph = { 0 };
    struct error reason = { 0 };
    if (entry->is_backward)
        cudnn_attention_backward(&graph, &entry->shape);
    else
        cudnn_attention_forward(&graph, &entry->shape);
    const cudnnStatus_t status = cudnn_plan_make(&entry->plan, &graph, cudnn->handle, NULL, &reason);
    cudnn_graph_clear(&graph);
    entry->is_refused = cudnn_has_none(status);
    if (entry->is_refused)
        return true;
    return status == CUDNN_STATUS_SUCCESS ? take_workspace(cudnn, entry, error)
                                          : error_set_kind(error, ERROR_MACHINE, "%s", reason.text);
}

static bool is_like(const struct entry *entry, const struct attention *shape, bool is_backward)
{
    return entry->is_backward == is_backward && entry->shape.batch == shape->batch
        && entry->shape.sequence == shape->sequence && entry->shape.heads == shape->heads
        && entry->shape.size == shape->size;
}

// The queue's handles. NULL after failing the queue.
static struct cudnn *handles_of(struct queue *queue)
{
    struct cuda_queue *own = cuda_queue_of(queue);
    struct error error = { 0 };
    if (!own->cudnn && !(own->cudnn = cudnn_create(queue->device, own->launch.stream, &error)))
        queue_fail(queue, error.text);
    return own->cudnn;
}

// NULL after failing the queue.
static const struct entry *find(struct queue *queue, const struct attention *shape, bool is_backward)
{
    struct cudnn *cudnn = handles_of(queue);
    for (size_t i = 0; cudnn && i < cudnn->count; i++)
        if (is_like(&cudnn->entries[i], shape, is_backward))
            return &cudnn->entries[i];
    if (!cudnn)
        return NULL;
    struct entry *grown = realloc(cudnn->entries, (cudnn->count + 1) * sizeof *grown);
    struct error error = { 0 };
    if (!grown) {
        queue_fail(queue, "no memory for attention");
        return NULL;
    }
    cudnn->entries = grown;
    struct entry *entry = &grown[cudnn->count];
    *entry = (struct entry){ .shape = *shape, .is_backward = is_backward };
    if (!fill_entry(cudnn, entry, &error)) {
        cudnn_plan_clear(&entry->plan);
        queue_fail(queue, error.text);
        return NULL;
    }
    cudnn->count++;
    return entry;
}

// --- running ---------------------------------------------------------------------------------

struct binding {
    int64_t id;
    const void *address;
};

static void run(struct queue *queue, const struct entry *entry, const struct binding *bindings, size_t count)
{
    enum { MOST = 16 };
    int64_t ids[MOST];
    void *addresses[MOST];
    assert(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        ids[i] = bindings[i].id;
        addresses[i] = (void *)(uintptr_t)bindings[i].address;
    }
    const cudnnStatus_t status = cudnn_plan_run(&entry->plan, cuda_queue_of(queue)->cudnn->handle, ids, addresses,
                                                count, entry->workspace);
    if (status == CUDNN_STATUS_SUCCESS)
        return;
    char sentence[200];
    snprintf(sentence, sizeof sentence, "attention by cuDNN failed: %s", cudnnGetErrorString(status));
    queue_fail(queue, sentence);
}

static const struct values *part_of(const struct values *qkv, const struct attention *shape, size_t part)
{
    return values_at(qkv, PRECISION_BF16, part * shape->heads * shape->size);
}

// cuDNN reads 16 bytes at a time.
static bool is_for_cudnn(struct queue *queue, const struct attention *shape, const void *const addresses[],
                         size_t count)
{
    bool is = queue->device->precision == PRECISION_BF16 && shape->size % 8 == 0;
    for (size_t i = 0; is && i < count; i++)
        is = (uintptr_t)addresses[i] % 16 == 0;
    return is;
}

static const float lowest = -FLT_MAX, one = 1;

static bool forward_by_cudnn(struct queue *queue, const struct attention *shape, struct values *out, float *log_sums,
                             const struct values *qkv)
{
    const void *const addresses[] = { out, log_sums, qkv };
    const struct entry *entry = NULL;
    if (is_for_cudnn(queue, shape, addresses, 3) && (entry = find(queue, shape, false)) == NULL)
        return true;  // the queue has failed
    if (!entry || entry->is_refused)
        return false;
    const float scale = 1 / sqrtf((float)shape->size);
    const struct binding bindings[] = {
        { ATTENTION_Q, part_of(qkv, shape, 0) }, { ATTENTION_K, part_of(qkv, shape, 1) },
        { ATTENTION_V, part_of(qkv, shape, 2) }, { ATTENTION_OUT, out },
        { ATTENTION_LOG_SUMS, log_sums },        { ATTENTION_SCALE, &scale },
        { ATTENTION_LOWEST, &lowest },
    };
    run(queue, entry, bindings, sizeof bindings / sizeof bindings[0]);
    return true;
}

static bool backward_by_cudnn(struct queue *queue, const struct attention *shape, struct values *qkv_gradient,
                              const struct values *out_gradient, const struct values *out, const float *log_sums,
                              const struct values *qkv)
{
    const void *const addresses[] = { qkv_gradient, out_gradient, out, log_sums, qkv };
    const struct entry *entry = NULL;
    if (is_for_cudnn(queue, shape, addresses, 5) && (entry = find(queue, shape, true)) == NULL)
        return true;  // the queue has failed
    if (!entry || entry->is_refused)
        return false;
    const float scale = 1 / sqrtf((float)shape->size);
    const struct binding bindings[] = {
        { ATTENTION_Q, part_of(qkv, shape, 0) },
        { ATTENTION_K, part_of(qkv, shape, 1) },
        { ATTENTION_V, part_of(qkv, shape, 2) },
        { ATTENTION_OUT, out },
        { ATTENTION_LOG_SUMS, log_sums },
        { ATTENTION_SCALE, &scale },
        { ATTENTION_LOWEST, &lowest },
        { ATTENTION_OUT_GRADIENT, out_gradient },
        { ATTENTION_Q_GRADIENT, part_of(qkv_gradient, shape, 0) },
        { ATTENTION_K_GRADIENT, part_of(qkv_gradient, shape, 1) },
        { ATTENTION_V_GRADIENT, part_of(qkv_gradient, shape, 2) },
        { ATTENTION_ROW_SUMS, entry->workspace + entry->row_sums_at },
        { ATTENTION_ONE, &one },
    };
    run(queue, entry, bindings, sizeof bindings / sizeof bindings[0]);
    return true;
}

void cuda_attend(struct queue *queue, const struct attention *shape, struct values *out, float *log_sums,
                 const struct values *qkv, void *workspace)
{
    const struct cuda_launch *launch = cuda_launch_of(queue);
    if (!forward_by_cudnn(queue, shape, out, log_sums, qkv))
        cuda_check(queue, cuda_attention(launch, shape, out, log_sums, qkv, workspace), "attention");
}

void cuda_attend_backward(struct queue *queue, const struct attention *shape, struct values *qkv_gradient,
                          const struct values *out_gradient, const struct values *out, const float *log_sums,
                          const struct values *qkv, void *workspace)
{
    const struct cuda_launch *launch = cuda_launch_of(queue);
    if (!backward_by_cudnn(queue, shape, qkv_gradient, out_gradient, out, log_sums, qkv))
        cuda_check(queue, cuda_attention_backward(launch, shape, qkv_gradient, out_gradient, out, log_sums, qkv,
                                                  workspace),
                   "the backward of attention");
}
