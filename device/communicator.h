// Messages between the devices of several ranks, in the manner of NCCL.
//
// A communicator joins several ranks. Each rank has an *end* of it (NCCL's ncclComm_t); ends that were opened with
// the same name belong together. An end does what it is given in order, on a queue. Messages carry no tags: the first
// send from a to b matches the first receive of b from a, whatever the two were meant for. A send may wait until its
// receive is there, and everything behind it in the queue then waits too.
//
//     exchange = a group of sends and receives that move together; done when all are
//
// Calls return at once. After communicator_open() and communicator_exchange() an end may be busy for a while (NCCL:
// ncclInProgress). Until communicator_is_ready() says that it is ready, neither the end nor its queue may be given
// anything. One thread serves all ends of a rank.
#ifndef DEVICE_COMMUNICATOR_H
#define DEVICE_COMMUNICATOR_H

#include "device/device.h"

struct communicator;

// The name by which ends find each other (NCCL: ncclUniqueId). The rank that makes it passes it on to the other
// ranks.
struct communicator_name {
    unsigned char bytes[128];
};

// The library that carries messages to other ranks on this device. Communicators of a device run side by side: none
// waits for another.
struct communication {
    char library[40];  // "NCCL 2.28.9"
};
// False if the device has no such library.
bool device_communication(const struct device *device, struct communication *communication, struct error *error);

bool communicator_make_name(struct device *device, struct communicator_name *name, struct error *error);

// This rank's end of a communicator of `ranks`. It is ready when all ranks have opened theirs. NULL with the reason.
struct communicator *communicator_open(struct device *device, const struct communicator_name *name, uint32_t ranks,
                                       uint32_t rank, struct error *error);
// To be called after all that its queues were given is done, unless the communicator was aborted.
void communicator_close(struct communicator *communicator);

// False with the error, of this end or of another.
bool communicator_is_ready(struct communicator *communicator, bool *ready, struct error *error);

// Registers device memory from device_allocate() that this end will often send from and receive in. Messages may then
// move without a copy in between. It has an effect only if the device was opened for that ("cuda:registered");
// otherwise nothing happens. The memory must stay until the end is closed, and the end must be ready.
bool communicator_register(struct communicator *communicator, void *memory, uint64_t bytes, struct error *error);

// One message of an exchange.
struct message_end {
    bool is_send;
    uint32_t peer;  // rank within the communicator
    void *data;     // only read by a send
    uint64_t bytes;
};
void communicator_exchange(struct communicator *communicator, struct queue *queue, const struct message_end *ends,
                           size_t count);

// Ends what is in progress, here and as far as possible on other ranks. Queues that wait in the communicator
// continue, and have failed. False if that took longer than `limit_ns`: the device is then stuck (device.h).
bool communicator_abort(struct communicator *communicator, uint64_t limit_ns);

#endif
