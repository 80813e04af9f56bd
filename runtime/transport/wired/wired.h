// The transport over communicators, between processes or threads whose devices exchange messages directly
// (device/communicator.h, which on GPUs is NCCL). A *wire* is such a communicator (wiring.h).
//
//     interpreter      post_send(after) -> ticket ...............  wait for ticket->event, on the device
//     wired            turn: held until earlier ones on its wire are issued
//                      wire's queue: wait for `after`; exchange; record the ticket's event
//     communicator     ncclGroupStart ncclSend ncclGroupEnd on the wire's stream
//
// The host never waits for a message. A ticket is done as soon as its exchange is issued, and its event says when the
// bytes have moved. The host may have to wait for a turn that has not come, or for a communicator that is busy. It
// then polls, looks whether a rank has failed, and gives up at the deadline.
//
// Messages carry no headers: wiring.h proves that each is the one expected.
//
// A reduction is two exchanges for each piece of the gradients. In the first, every copy of the stage (or rank of a
// tie, ties.h) sends each other copy that one's share. It then adds up its own share, in the order of the copies, and
// sends the sum back. A rank moves as many bytes as in a ring all-reduce, and the bits are those of a plain loop.
#ifndef RUNTIME_TRANSPORT_WIRED_WIRED_H
#define RUNTIME_TRANSPORT_WIRED_WIRED_H

#include "device/communicator.h"
#include "runtime/groups/process_group.h"
#include "runtime/transport/transport.h"
#include "runtime/transport/wired/wiring.h"

struct wired_settings {
    const struct schedule *schedule;    // lowered
    const struct placement *placement;
    const struct ties *ties;  // NULL: none
    struct device *device;
    const struct process_group *group;  // says which rank this is
    uint64_t deadline_ns;  // for opening a wire; 0: ten minutes
    uint64_t abort_ns;     // limit for ending what is under way; 0: five seconds
    uint64_t room_bytes;   // device memory for what other copies send to a reduction; 0: 32 MiB
    bool one_for_all;      // a single communicator for all messages, in the order of the lists
};

struct wired;

// All ranks must call this together. It opens this rank's wires, in the order in which all ranks number them, and
// sends something over each, so that no connection is made later. Schedule, placement and ties are borrowed.
struct wired *wired_create(const struct wired_settings *settings, struct error *error);

// False if what is under way could not be ended in time. The process should then end at once, by _exit(): even an
// ordinary exit may hang.
bool wired_free(struct wired *wired);

// Registers memory that messages will come from and go to with the wires, until wired_free()
// (communicator_register()).
bool wired_register(struct wired *wired, void *memory, uint64_t bytes, struct error *error);

struct transport *wired_transport(struct wired *wired);  // borrowed
const struct wiring *wired_wiring(const struct wired *wired);

#endif
