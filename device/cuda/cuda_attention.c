// Attention: by cuDNN where the numbers have 16 bits and cuDNN has a plan for the shape that
// repeats its bits, otherwise by our own kernels. Both keep the same logarithms of sums,
// so either's backward goes with either's forward.
//
// A queue makes plans of its own when it meets a shape first: not every engine lets two threads run one plan at a time
// (cuDNN's release notes, limitations). The device makes one more, when it is asked for the workspace
// (attention_bytes()); all are made of one graph by one heuristic, so all want as much:
//
//     workspace   | cuDNN's | D of each row |      of a backward; a forward has the first part only
#include <assert.h>
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cudnn_attention.h"
#include "device/cuda/cudnn_versions.h"

struct entry {
    struct attention shape;
    bool is_backward;
    bool is_refused;  // cuDNN has none: our own kernels
    struct cudnn_plan plan;
    uint64_t row_sums_at, workspace_bytes;
};

struct cudnn {
    cudnnHandle_t handle;
    enum precision precision;
    struct entry *entries;
    size_t count;
};

// --- opening and closing -----------------------------------------------------------------

struct cudnn *cudnn_create(cudaStream_t stream, enum precision precision, struct error *error)
{
    struct cudnn *cudnn = calloc(1, sizeof *cudnn);
    if (!cudnn) {
        error_no_memory(error, "attention");
        return NULL;
    }
    cudnn->precision = precision;
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
    for (size_t i = 0; i < cudnn->count; i++)
        cudnn_plan_clear(&cudnn->entries[i].plan);
    free(cudnn->entries);
    if (cudnn->handle)
        cudnnDestroy(cudnn->handle);
    free(cudnn);
}

// --- plans by shape ----------------------------------------------------------------------

static void count_workspace(struct entry *entry)
{
    const struct attention *shape = &entry->shape;
    entry->workspace_bytes = (uint64_t)entry->plan.workspace_bytes;
    entry->row_sums_at = round_to_256(entry->workspace_bytes);
    if (entry->is_backward)
        entry->workspace_bytes = entry->row_sums_at + shape->batch * shape->heads * shape->sequence * sizeof(float);
}

static bool fill_entry(struct entry *entry, const struct cudnn *cudnn, struct error *error)
{
    struct cudnn_graph graph = { 0 };
    struct error reason = { 0 };
    if (entry->is_backward)
        cudnn_attention_backward(&graph, &entry->shape, cudnn->precision);
    else
        cudnn_attention_forward(&graph, &entry->shape, cudnn->precision);
    const cudnnStatus_t status = cudnn_plan_make(&entry->plan, &graph, cudnn->handle, NULL, &reason);
    cudnn_graph_clear(&graph);
    entry->is_refused = cudnn_has_none(status);
    if (status == CUDNN_STATUS_SUCCESS)
        count_workspace(entry);
    return status == CUDNN_STATUS_SUCCESS || entry->is_refused
        || error_set_kind(error, ERROR_MACHINE, "%s", reason.text);
}

static struct entry *find(const struct cudnn *cudnn, const struct attention *shape, bool is_backward)
{
    for (size_t i = 0; i < cudnn->count; i++) {
        struct entry *entry = &cudnn->entries[i];
        if (entry->is_backward == is_backward && entry->shape.batch == shape->batch
            && entry->shape.sequence == shape->sequence && entry->shape.heads == shape->heads
            && entry->shape.size == shape->size)
            return entry;
    }
    return NULL;
}

// NULL where cuDNN fails otherwise than by having none.
static struct entry *make(struct cudnn *cudnn, const struct attention *shape, bool is_backward, struct error *error)
{
    struct entry *grown = realloc(cudnn->entries, (cudnn->count + 1) * sizeof *grown);
    if (!grown) {
        error_no_memory(error, "attention");
        return NULL;
    }
    cudnn->entries = grown;
    struct entry *entry = &grown[cudnn->count];
    *entry = (struct entry){ .shape = *shape, .is_backward = is_backward };
    if (!fill_entry(entry, cudnn, error)) {
        cudnn_plan_clear(&entry->plan);
        return NULL;
    }
    cudnn->count++;
    return entry;
}

// --- what a device tells -----------------------------------------------------------------

static bool is_for_cudnn(const struct device *device, const struct attention *shape, bool is_backward)
{
    return device->precision != PRECISION_FP32 && cudnn_attends(cudnnGetVersion(), shape, is_backward);
}

static bool tell(struct device *device, const struct attention *shape, bool is_backward, uint64_t *bytes,
                 struct error *error)
{
    struct cuda_device *own = cuda_device_of(device);
    if (!is_for_cudnn(device, shape, is_backward))
        return true;
    if (!cudnn_is_sound(cudnnGetVersion(), error))
        return false;
    if (!own->attention && !(own->attention = cudnn_create(NULL, device->precision, error)))
        return false;
    const struct entry *entry = find(own->attention, shape, is_backward);
    if (!entry && !(entry = make(own->attention, shape, is_backward, error)))
        return false;
    if (!entry->is_refused)
        *bytes = entry->workspace_bytes;
    return true;
}

bool cuda_attention_bytes(struct device *device, const struct attention *shape, struct attention_bytes *bytes,
                          struct error *error)
{
    struct cuda_device *own = cuda_device_of(device);
    cuda_enter(device);
    pthread_mutex_lock(&own->attention_lock);
    const bool good = tell(device, shape, false, &bytes->forward, error)
                   && tell(device, shape, true, &bytes->backward, error);
    pthread_mutex_unlock(&own->attention_lock);
    return good;
}

// Whether whoever asked has been told of as much as this queue's plan wants.
static bool was_told(struct device *device, const struct entry *wanted)
{
    struct cuda_device *own = cuda_device_of(device);
    pthread_mutex_lock(&own->attention_lock);
    const struct entry *told = own->attention ? find(own->attention, &wanted->shape, wanted->is_backward) : NULL;
    const bool is_enough = wanted->is_refused || wanted->workspace_bytes <= (told ? told->workspace_bytes : 0);
    pthread_mutex_unlock(&own->attention_lock);
    return is_enough;
}

// --- plans of a queue --------------------------------------------------------------------

// NULL after failing the queue.
static const struct entry *entry_of(struct queue *queue, const struct attention *shape, bool is_backward)
{
    struct cuda_queue *own = cuda_queue_of(queue);
    struct error error = { 0 };
    struct entry *entry = own->cudnn ? find(own->cudnn, shape, is_backward) : NULL;
    if (entry)
        return entry;
    if (own->cudnn || (own->cudnn = cudnn_create(own->launch.stream, queue->device->precision, &error)))
        entry = make(own->cudnn, shape, is_backward, &error);
    if (entry && was_told(queue->device, entry))
        return entry;
    char size[NUMBER_SIZE];
    if (entry)
        error_set(&error, "attention by cuDNN takes a workspace of %s, and its caller was told of less",
                  bytes_format(entry->workspace_bytes, size));
    queue_fail(queue, error.text);
    return NULL;
}

// --- running ---------------------------------------------------------------------------------

struct binding {
    int64_t id;
    const void *address;
};

static void run(struct queue *queue, const struct entry *entry, const struct binding *bindings, size_t count,
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
    const cudnnStatus_t status = cudnn_plan_run(&entry->plan, cuda_queue_of(queue)->cudnn->handle, ids, addresses,
                                                count, workspace);
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

static bool are_for_cudnn(const void *const addresses[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((uintptr_t)addresses[i] % 16 != 0)
            return false;
    return true;
}

static const float one = 1;

static bool forward_by_cudnn(struct queue *queue, const struct attention *shape, struct values *out, float *log_sums,
                             const struct values *qkv, void *workspace)
{
    const void *const addresses[] = { out, log_sums, qkv, workspace };
    if (!is_for_cudnn(queue->device, shape, false)
        || !are_for_cudnn(addresses, sizeof addresses / sizeof addresses[0]))
        return false;
    const struct entry *entry = entry_of(queue, shape, false);
    if (!entry || entry->is_refused)
        return !entry;  // the queue has failed
    const float scale = 1 / sqrtf((float)shape->size), masked = cudnn_masked(cudnnGetVersion());
    const struct binding bindings[] = {
        { ATTENTION_Q, part_of(qkv, shape, 0) }, { ATTENTION_K, part_of(qkv, shape, 1) },
        { ATTENTION_V, part_of(qkv, shape, 2) }, { ATTENTION_OUT, out },
        { ATTENTION_LOG_SUMS, log_sums },        { ATTENTION_SCALE, &scale },
        { ATTENTION_MASKED, &masked },
    };
    run(queue, entry, bindings, sizeof bindings / sizeof bindings[0], workspace);
    return true;
}

static bool backward_by_cudnn(struct queue *queue, const struct attention *shape, struct values *qkv_gradient,
                              const struct values *out_gradient, const struct values *out, const float *log_sums,
                              const struct values *qkv, void *workspace)
{
    const void *const addresses[] = { qkv_gradient, out_gradient, out, log_sums, qkv, workspace };
    if (!is_for_cudnn(queue->device, shape, true)
        || !are_for_cudnn(addresses, sizeof addresses / sizeof addresses[0]))
        return false;
    const struct entry *entry = entry_of(queue, shape, true);
    if (!entry || entry->is_refused)
        return !entry;  // the queue has failed
    const float scale = 1 / sqrtf((float)shape->size), masked = cudnn_masked(cudnnGetVersion());
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
        { ATTENTION_ROW_SUMS, (char *)workspace + entry->row_sums_at },
        { ATTENTION_ONE, &one },
    };
    run(queue, entry, bindings, sizeof bindings / sizeof bindings[0], workspace);
    return true;
}

void cuda_attend(struct queue *queue, const struct attention *shape, struct values *out, float *log_sums,
                 const struct values *qkv, void *workspace)
{
    const struct cuda_launch *launch = cuda_launch_of(queue);
    if (!forward_by_cudnn(queue, shape, out, log_sums, qkv, workspace))
        cuda_check(queue, cuda_attention(launch, shape, out, log_sums, qkv, workspace), "attention");
}

void cuda_attend_backward(struct queue *queue, const struct attention *shape, struct values *qkv_gradient,
                          const struct values *out_gradient, const struct values *out, const float *log_sums,
                          const struct values *qkv, void *workspace)
{
    const struct cuda_launch *launch = cuda_launch_of(queue);
    if (!backward_by_cudnn(queue, shape, qkv_gradient, out_gradient, out, log_sums, qkv, workspace))
        cuda_check(queue, cuda_attention_backward(launch, shape, qkv_gradient, out_gradient, out, log_sums, qkv,
                                                  workspace),
                   "the backward of attention");
}
