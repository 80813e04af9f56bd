#include "device/communicator.h"

#include <stdlib.h>

#include "device/recording.h"

bool device_communication(const struct device *device, struct communication *communication, struct error *error)
{
    if (!device->communicators)
        return error_set(error, "device %s has nothing that sends to other ranks (cuda has, by NCCL)", device->name);
    *communication = device->communicators->communication(device);
    return true;
}

bool communicator_make_name(struct device *device, struct communicator_name *name, struct error *error)
{
    struct communication communication;
    return device_communication(device, &communication, error)
        && device->communicators->make_name(device, name, error);
}

struct communicator *communicator_open(struct device *device, const struct communicator_name *name, uint32_t ranks,
                                       uint32_t rank, struct error *error)
{
    struct communication communication;
    if (!device_communication(device, &communication, error))
        return NULL;
    struct communicator *communicator = calloc(1, sizeof *communicator);
    if (!communicator)
        return error_null(error_no_memory(error, "a communicator"));
    *communicator = (struct communicator){ .device = device, .ranks = ranks, .rank = rank };
    if (!device->communicators->open(communicator, name, error)) {
        free(communicator);
        return NULL;
    }
    return communicator;
}

void communicator_close(struct communicator *communicator)
{
    if (!communicator)
        return;
    communicator->device->communicators->close(communicator);
    free(communicator);
}

bool communicator_is_ready(struct communicator *communicator, bool *ready, struct error *error)
{
    return communicator->device->communicators->is_ready(communicator, ready, error);
}

bool communicator_register(struct communicator *communicator, void *memory, uint64_t bytes, struct error *error)
{
    const struct communicator_functions *functions = communicator->device->communicators;
    return bytes == 0 || !functions->enroll || functions->enroll(communicator, memory, bytes, error);
}

void communicator_exchange(struct communicator *communicator, struct queue *queue, const struct message_end *ends,
                           size_t count)
{
    if (count == 0 || !queue_is_well(queue))
        return;
    if (queue->recorded)
        recorded_cut(queue, &cut_exchange);
    communicator->device->communicators->exchange(communicator, queue, ends, count);
}

bool communicator_abort(struct communicator *communicator, uint64_t limit_ns)
{
    const bool is_ended = communicator->device->communicators->abort(communicator, limit_ns);
    if (!is_ended)
        device_get_stuck(communicator->device);
    return is_ended;
}
