// The transport over communicators: between processes or threads whose devices talk to
// each other (device/communicator.h, which on GPUs is NCCL).
//
//     interpreter      post_send(after) -> ticket ...............  wait for ticket->event, on the device
//     wired            turn: held until those before it on its wire are issued
//                      wire's queue: wait for `after`; exchange; record the ticket's event
//     communicator     ncclGroupStart ncclSend ncclGroupEnd on the wire's stream
//
// The host never waits for a message: a ticket is done as soon as its exchange is
// issued, and its event says when the bytes have moved. What can make it wait is a turn
// that has not come, or a communicator that is busy; then it polls, looks whether some
// rank has failed, and gives up at the deadline.
//
// Messages carry no headers; that each is the one expected is what wiring.h proves.
//
// A reduction is two exchanges for each piece of the gradients: every copy of the stage (or
// rank of a tie, ties.h) sends each other one its share, adds the shares of its own in the order of the
// copies, and sends the sum back. Bytes per rank as of a ring; bits as of a loop.
#ifndef RUNTIME_WIRED_WIRED_H
#define RUNTIME_WIRED_WIRED_H

#include "device/communicator.h"
#include "runtime/process_group.h"
#include "runtime/transport.h"
#include "runtime/wired/wiring.h"

struct wired_settings {
    const struct schedule *schedule;    // lowered
    const struct placement *placement;
    const struct ties *ties;  // NULL: none
    struct device *device;
    const struct process_group *group;  // says which rank this is
    uint64_t deadline_ns;  // of opening a wire; 0: ten minutes
    uint64_t abort_ns;     // that ending what is under way may take; 0: five seconds
    uint64_t room_bytes;   // of the device, for what other copies send to a reduction; 0: 32 MiB
    bool one_for_all;      // a single communicator, in the order of the lists
};

struct wired;

// All ranks at a time: opens this rank's wires in the order in which all ranks number
// them, and sends something over each, so that no connection is made later. Schedule,
// placement and ties are borrowed.
struct wired *wired_create(const struct wired_settings *settings, struct error *error);

// False where what is under way could not be ended in time: the process had better end
// at once, by _exit(), for even leaving may hang.
bool wired_free(struct wired *wired);

// Memory that messages will come from and go to, until wired_free(): told to the wires (communicator_register()).
bool wired_register(struct wired *wired, void *memory, uint64_t bytes, struct error *error);

struct transport *wired_transport(struct wired *wired);  // borrowed
const struct wiring *wired_wiring(const struct wired *wired);
uint64_t wired_room_bytes(const struct wired *wired);    // device memory of its own, for reductions

#endif
