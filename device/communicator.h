// Messages between the devices of several ranks, in the manner of NCCL.
//
// A communicator joins a few ranks, each with its own end; ends that were opened with
// the same name belong together. What an end is given is done in order, on a queue, and
// messages carry no tags: the first send from a to b is the first receive of b from a,
// whatever either was meant for. A send may wait until its receive is there, and all
// that stands behind it in the queue waits too.
//
//     exchange = a group of sends and receives that move together; done when all are
//
// Calls return at once. After communicator_open() and communicator_exchange() an end
// may be busy for a while (NCCL: ncclInProgress); until communicator_is_ready() says so
// neither the end nor its queue may be given anything. One thread for all ends of a rank.
#ifndef DEVICE_COMMUNICATOR_H
#define DEVICE_COMMUNICATOR_H

#include "device/device.h"

struct communicator;

// What ends are joined by; whoever makes it passes it on to the other ranks.
struct communicator_name {
    unsigned char bytes[128];
};

// What talks to other ranks on this device. Communicators of a device run side by side: none waits for another.
struct communication {
    char library[40];  // "NCCL 2.28.9"
};
// False where the device has nothing that does.
bool device_communication(const struct device *device, struct communication *communication, struct error *error);

bool communicator_make_name(struct device *device, struct communicator_name *name, struct error *error);

// This rank's end among `ranks`. Ready when all have opened theirs.
struct communicator *communicator_open(struct device *device, const struct communicator_name *name, uint32_t ranks,
                                       uint32_t rank, struct error *error);
// Not before all that its queues were given is done, unless it was aborted.
void communicator_close(struct communicator *communicator);

// False with what went wrong, here or at another end.
bool communicator_is_ready(struct communicator *communicator, bool *ready, struct error *error);

// Memory of the device, from device_allocate(), that this end will often send from and receive in: its messages may
// then move without a copy in between. Where the device was opened for that ("cuda:registered"); elsewhere nothing
// happens. The memory stays until the end is closed; the end must be ready.
bool communicator_register(struct communicator *communicator, void *memory, uint64_t bytes, struct error *error);

// One message of an exchange.
struct message_end {
    bool is_send;
    uint32_t peer;  // rank within the communicator
    void *data;     // a send only reads
    uint64_t bytes;
};
void communicator_exchange(struct communicator *communicator, struct queue *queue, const struct message_end *ends,
                           size_t count);

// Ends what is under way, here and as far as possible elsewhere: queues that wait in it
// go on and have failed. False if that took longer than `limit_ns`: then the device is
// stuck (device.h).
bool communicator_abort(struct communicator *communicator, uint64_t limit_ns);

#endif
