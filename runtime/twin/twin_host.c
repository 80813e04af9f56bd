#include "runtime/twin/twin_host.h"

static uint64_t weight_bytes(const struct twin_host *host, uint64_t count)
{
    return count * precision_bytes(device_precision(host->device));
}

bool twin_host_open(struct twin_host *host, const struct device *device, uint64_t count, struct error *error)
{
    *host = (struct twin_host){ .device = device_open_host(device, error) };
    return host->device && (host->queue = queue_create(host->device, error))
        && (host->weights = device_allocate(host->device, weight_bytes(host, count) + 256, error))
        && (host->gradients = device_allocate(host->device, count * sizeof(float) + 256, error));
}

void twin_host_close(struct twin_host *host)
{
    queue_free(host->queue);
    if (host->device) {
        device_release(host->device, host->weights);
        device_release(host->device, host->gradients);
    }
    device_close(host->device);
}

bool twin_host_begin(const struct twin_host *host, const struct optimizer *optimizer, struct queue *queue,
                     const struct values *weights, float *state, uint64_t count, struct error *error)
{
    queue_download(queue, host->weights, weights, weight_bytes(host, count));
    if (!queue_wait(queue, error))
        return false;
    optimizer_begin(optimizer, host->queue, host->weights, state, count);
    return queue_wait(host->queue, error);
}

bool twin_host_update(const struct twin_host *host, const struct optimizer *optimizer, uint64_t update,
                      struct queue *queue, const struct optimizer_buffers *buffers, struct error *error)
{
    struct optimizer_buffers here = *buffers;
    here.weights = here.next = host->weights;
    here.gradients = host->gradients;
    queue_download(queue, host->weights, buffers->weights, weight_bytes(host, buffers->count));
    queue_download(queue, host->gradients, buffers->gradients, buffers->count * sizeof(float));
    if (!queue_wait(queue, error))
        return false;
    optimizer_update(optimizer, update, host->queue, &here);
    if (!queue_wait(host->queue, error))
        return false;
    queue_upload(queue, buffers->next, host->weights, weight_bytes(host, buffers->count));
    return true;
}
