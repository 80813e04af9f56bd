// What a rank holds while it runs: for each of its stages the micro-batches in
// flight, the slots they take in the slab, and the messages on their way out.
//
// Neighbouring stages on one rank exchange no messages: the upper one reads its
// input where the lower one has written its output, and the gradient the other way
// round; the slots live until the reader is done (schedules/slots.h counts alike).
// Which neighbours are on this rank depends on a micro-batch's route.
#ifndef RUNTIME_FLIGHTS_H
#define RUNTIME_FLIGHTS_H

#include "partitioner/plan/placement.h"
#include "runtime/channels.h"
#include "runtime/shares.h"
#include "runtime/slab.h"
#include "runtime/transport.h"
#include "runtime/weight_ring.h"

// One micro-batch (or a split of it) on one stage: its slots, and its two receives.
struct flight {
    uint32_t slots[SLAB_CLASSES];  // or NO_SLOT
    uint32_t weights;              // slot of the version it met at its forward
    uint64_t version;
    bool was_recomputed;           // by an R of its own
    uint32_t parts_done;           // of the first part: how many of the micro-batch need what they share no more
    struct ticket input, output_gradient;
    struct event *fetched;         // behind what a PREFETCH has brought back; NULL: nothing is to be waited for
};

// A message on its way out, by slot of its row.
struct outgoing {
    struct ticket ticket;
    struct action send;
};

enum direction { OUTPUTS, GRADIENTS };

// The messages of a kind that a stage receives in a pass, in order, and how many
// of their receives are posted.
struct incoming {
    struct action *receives;
    uint32_t count, posted;
};

// A stage on this rank.
struct local {
    const struct stage *does;
    struct slab_stage *memory;
    struct weight_ring ring;
    uint32_t copy;                 // which one of the stage this is
    struct share own;              // what of its weights is updated here
    uint32_t brought;              // gradients added since the last STEP
    uint32_t brought_by_all;       // by all copies, where these share them
    bool is_step_due;              // which is made behind the list, with other stages or replicas
    struct flight *flights;        // by part_place()
    struct outgoing *outgoing[2];  // by direction, then slot
    struct incoming incoming[2];   // RECV_F, RECV_B
};

// Whether what the rank has of the stage's gradients, or weights, is its share of them.
static inline bool local_shares_gradients(const struct local *local)
{
    return local->does->bytes.room_gradients > 0;
}

static inline bool local_shares_weights(const struct local *local)
{
    return local->does->bytes.room_weights > 0;
}

struct flights {
    const struct schedule *schedule;
    struct local *locals;  // in order of their stage
    uint32_t local_count;
    uint32_t rank;
    struct local **by_stage;  // NULL where a stage is on other ranks only
};

bool flights_open(struct flights *flights, const struct schedule *schedule, const struct placement *placement,
                  uint32_t rank, const struct stage *stages, struct slab *slab, struct error *error);
void flights_close(struct flights *flights);

static inline struct local *flights_local(const struct flights *flights, struct action action)
{
    return flights->by_stage[action.stage];
}

static inline struct flight *flights_flight(const struct flights *flights, struct action action)
{
    return &flights->by_stage[action.stage]->flights[part_place(flights->schedule, action)];
}

// The first part of the action's micro-batch, whose flight has the slots of what all parts share.
static inline struct action flights_first_part(struct action action)
{
    action.split = 0;
    return action;
}

// Whether the stage below, or above, is on this rank too, as far as the action's micro-batch goes.
bool flights_has_below(const struct flights *flights, struct action action);
bool flights_has_above(const struct flights *flights, struct action action);

// Takes the lowest free slot of a class for a micro-batch, and gives it back
// (nothing happens where it has none), with the event behind its last use.
bool flights_take(const struct flights *flights, struct action action, enum slab_class class, struct error *error);
void flights_give(const struct flights *flights, struct action action, enum slab_class class, struct event *used);

// The event behind the last use of a slot that is taken, which may be NULL: of who had
// it before, or since flights_use() of who has it now.
struct event *flights_used(const struct flights *flights, struct action action, enum slab_class class);
void flights_use(const struct flights *flights, struct action action, enum slab_class class, struct event *used);

// Gives back what the neighbours on this rank have held for this micro-batch:
// after B or I, the gradient from above; after B or W, the output from below.
void flights_give_above(const struct flights *flights, struct action action, struct event *used);
void flights_give_below(const struct flights *flights, struct action action, struct event *used);

// Where an action finds its data; NULL where there is none.
void *flights_at(const struct flights *flights, struct action action, enum slab_class class);
void *flights_input(const struct flights *flights, struct action action);
void *flights_output_gradient(const struct flights *flights, struct action action);

// The row that messages of a direction are sent from, and its send that was posted
// first, NULL if none is under way.
struct slab_row *outgoing_row(struct local *local, enum direction direction);
struct outgoing *outgoing_oldest(struct local *local, enum direction direction);

// Which class of slot a RECV fills, and its row.
enum slab_class receive_class(struct action receive);

void flights_cancel(struct flights *flights, struct transport *transport);

#endif
