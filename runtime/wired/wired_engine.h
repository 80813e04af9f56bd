// Private: the insides of the transport over communicators. wired.c issues messages,
// wired_reduction.c adds up gradients, wired_create.c makes and frees.
#ifndef RUNTIME_WIRED_WIRED_ENGINE_H
#define RUNTIME_WIRED_WIRED_ENGINE_H

#include "runtime/wired/wired.h"

// A message of a pass; its ticket's event stays until the same message of the next one.
struct posted {
    struct ticket *ticket;  // NULL: not posted, or issued
    struct message_end end;
    struct event *after;
    struct event *event;
};

struct lane_end {  // of a wire that this rank is on
    const struct wire *wire;
    struct communicator *communicator;
    struct queue *queue;
    struct posted *posted;  // by turn
    uint32_t count;         // of turns in a pass
    uint32_t turn;          // the next to be issued
    struct posted *issuing; // whose exchange is not known to be issued yet, or NULL
};

// The reduction under way: a rank does one at a time.
struct reducing {
    struct lane_end *end;  // NULL: none
    struct ticket *ticket;
    struct reduction what;
    float factor;          // of the sum; 1: none
    uint64_t piece;        // which one is next
    bool is_back;          // its sums are next, not its shares
    bool is_issuing;
};

// Micro-batches that all copies of a stage bring to each update of a pass.
struct brought {
    uint32_t *all;  // NULL where nobody asks
    uint32_t count;
    uint32_t next;
};

struct wired {
    struct transport transport;  // first, so that a transport is its engine
    struct wired_settings settings;
    struct wiring wiring;
    struct turns turns;
    uint32_t *passed;            // by channel: messages posted in this pass
    struct lane_end *ends;       // by wire; those of others have no communicator
    struct reducing reducing;
    struct event *reduced, *gathered;  // of reductions
    void *greetings;             // what is sent first over each wire
    float *room;                 // what other copies send
    uint64_t room_bytes, room_floats;  // floats: of one copy's part
    struct brought *brought;     // by group: those of ties, and of schedules that flush, ask nobody
    uint64_t waits_ns, waited_ns;  // since when the rank waits, and when it last did
    bool failed, is_stuck;
    struct error error;
};

extern const struct transport_functions wired_functions;

bool wired_fail(struct wired *wired, const struct error *reason, struct error *error);
// A wire broke: fails for that, or for what the group says within three seconds. Returns false.
bool wired_broke(struct wired *wired, const struct error *reason, struct error *error);

// Whether the end's communicator takes something now. False on failure.
bool lane_is_ready(struct wired *wired, struct lane_end *end, bool *ready, struct error *error);

// Takes the reduction under way as far as it goes.
bool reducing_move(struct wired *wired, struct error *error);
bool reducing_begin(struct wired *wired, const struct reduction *reduction, struct event *after,
                    struct ticket *ticket, struct error *error);

#endif
