// Private: the internals of the transport over communicators. wired.c issues messages, wired_reduction.c adds up
// gradients, wired_create.c makes and frees.
#ifndef RUNTIME_TRANSPORT_WIRED_WIRED_ENGINE_H
#define RUNTIME_TRANSPORT_WIRED_WIRED_ENGINE_H

#include "runtime/transport/wired/wired.h"

// A message of a pass. Its ticket's event stays valid until the same message of the next pass.
struct posted {
    struct ticket *ticket;  // NULL: not posted, or issued already
    struct message_end end;
    const struct message_piece *pieces;  // NULL: the end's data
    size_t piece_count;
    struct event *after;
    struct event *event;
};

struct lane_end {  // this rank's end of a wire
    const struct wire *wire;
    struct communicator *communicator;
    struct queue *queue;
    struct posted *posted;  // by turn
    uint32_t count;         // of turns in a pass
    uint32_t turn;          // the next to be issued
    struct posted *issuing; // the one whose exchange is not known to be issued yet, or NULL
};

// The reduction under way. A rank does one at a time.
struct reducing {
    struct lane_end *end;  // NULL: none
    struct ticket *ticket;
    struct reduction what;
    float factor;          // by which the sum is multiplied; 1: not at all
    uint64_t piece;        // the next piece
    bool is_back;          // next come its sums, not its shares
    bool is_issuing;
};

// Micro-batches that all copies of a stage contribute to each update of a pass.
struct contributions {
    uint32_t *all;  // NULL if not needed
    uint32_t count;
    uint32_t next;
};

struct wired {
    struct transport transport;  // first, so that a pointer to it is a pointer to the engine
    struct wired_settings settings;
    struct wiring wiring;
    struct turns turns;
    uint32_t *passed;            // by channel: messages posted in this pass
    struct lane_end *ends;       // by wire; wires of other ranks have no communicator
    struct reducing reducing;
    struct event *reduced, *gathered;  // of reductions
    void *greetings;             // sent first over each wire
    float *room;                 // for what other copies send
    uint64_t room_floats;  // of one copy's part
    struct contributions *contributions;     // by group; not needed for ties, and for schedules that flush
    uint64_t waits_ns, waited_ns;  // since when the rank waits, and when it last did
    bool failed, is_stuck;
    struct error error;
};

extern const struct transport_functions wired_functions;

bool wired_fail(struct wired *wired, const struct error *reason, struct error *error);
// A wire broke. Fails with that reason, or with what the process group reports within three seconds. Returns false.
bool wired_broke(struct wired *wired, const struct error *reason, struct error *error);

// Whether the end's communicator accepts something now. False on failure.
bool lane_is_ready(struct wired *wired, struct lane_end *end, bool *ready, struct error *error);

// Moves the reduction under way as far as it goes.
bool reducing_move(struct wired *wired, struct error *error);
bool reducing_begin(struct wired *wired, const struct reduction *reduction, struct event *after,
                    struct ticket *ticket, struct error *error);

#endif
