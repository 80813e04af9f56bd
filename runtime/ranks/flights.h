// What a rank holds while it runs: for each of its stages the micro-batches in flight, the slots that they take in
// the slab, and the messages being sent.
//
// Neighbouring stages on one rank exchange no messages. The upper stage reads its input where the lower one wrote its
// output, and for the gradient it is the other way round. The slots stay taken until the reader is done
// (schedules/slots.h counts them in the same way). Which neighbours are on this rank depends on a micro-batch's
// route.
#ifndef RUNTIME_RANKS_FLIGHTS_H
#define RUNTIME_RANKS_FLIGHTS_H

#include "partitioner/plan/placement.h"
#include "runtime/ranks/slab.h"
#include "runtime/ranks/weight_ring.h"
#include "runtime/transport/channels.h"
#include "runtime/transport/transport.h"
#include "runtime/updates/shares.h"

// One micro-batch (or a split of one) on one stage: its slots, and its two receives.
struct flight {
    uint32_t slots[SLAB_CLASSES];  // or NO_SLOT
    uint32_t weights;              // slot of the version that its forward used
    uint64_t version;
    bool was_recomputed;           // by a separate R action
    // In the first part's flight: how many parts of the micro-batch are done with what the parts share
    uint32_t parts_done;
    struct ticket input, output_gradient;
    struct event *fetched;         // after what a PREFETCH has brought back; NULL: there is nothing to wait for
};

// A message being sent. There is one for each slot of its row.
struct outgoing {
    struct ticket ticket;
    struct action send;
};

enum direction { OUTPUTS, GRADIENTS };

// The messages of one kind that a stage receives in a pass, in order, and how many of these receives are posted.
struct incoming {
    struct action *receives;
    uint32_t count, posted;
};

// A stage on this rank.
struct local {
    const struct stage *does;
    struct slab_stage *memory;
    struct weight_ring ring;
    uint32_t stage, copies, copy;  // the stage's number, how many copies of it there are, and which of them this is
    struct share own;              // the share of its weights that is updated here
    uint32_t contributed;              // gradients added since the last STEP
    uint32_t contributed_by_all;       // the same by all copies, if these share gradients
    uint32_t updates;                  // STEPs in this pass
    // of the update whose statistics copies gather: where each copy's begin, in floats, and the end of the last
    uint64_t *statistics_edges;
    bool is_step_due;              // its STEP runs after the list, with other stages or replicas
    struct flight *flights;        // by part_place()
    struct outgoing *outgoing[2];  // by direction, then slot
    struct incoming incoming[2];   // RECV_F, RECV_B
};

// Whether the rank holds only its share of the stage's gradients, or of its weights.
static inline bool local_shares_gradients(const struct local *local)
{
    return local->does->bytes.room_gradients > 0;
}

static inline bool local_shares_weights(const struct local *local)
{
    return local->does->bytes.room_weights > 0;
}

// The STEP of a flush.
static inline struct action local_step(const struct local *local)
{
    return (struct action){ .stage = (uint16_t)local->stage, .kind = ACTION_STEP, .micro_batch = NO_MICRO_BATCH };
}

struct flights {
    const struct schedule *schedule;
    struct local *locals;  // in order of their stage
    uint32_t local_count;
    uint32_t rank;
    struct local **by_stage;  // NULL for a stage that is only on other ranks
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

// The first part of the action's micro-batch. Its flight has the slots of what all parts share.
static inline struct action flights_first_part(struct action action)
{
    action.split = 0;
    return action;
}

// Whether the stage below, or above, is on this rank too, on the route of the action's micro-batch.
bool flights_has_below(const struct flights *flights, struct action action);
bool flights_has_above(const struct flights *flights, struct action action);

// Takes the lowest free slot of a class for a micro-batch; and gives it back, with the event after its last use.
// Giving back does nothing if the micro-batch has no slot of the class.
bool flights_take(const struct flights *flights, struct action action, enum slab_class class, struct error *error);
void flights_give(const struct flights *flights, struct action action, enum slab_class class, struct event *used);

// The event after the last use of a taken slot. It may be NULL. It is that of the slot's previous user until
// flights_use() sets that of the current one.
struct event *flights_used(const struct flights *flights, struct action action, enum slab_class class);
void flights_use(const struct flights *flights, struct action action, enum slab_class class, struct event *used);

// Gives back what the neighbours on this rank have held for this micro-batch. After B or I, that is the gradient
// from the stage above; after B or W, the output of the stage below.
void flights_give_above(const struct flights *flights, struct action action, struct event *used);
void flights_give_below(const struct flights *flights, struct action action, struct event *used);

// The address of an action's data; NULL if there is none.
void *flights_at(const struct flights *flights, struct action action, enum slab_class class);
void *flights_input(const struct flights *flights, struct action action);
void *flights_output_gradient(const struct flights *flights, struct action action);

// The row from which messages of a direction are sent; and the earliest posted send that is still under way, or NULL.
struct slab_row *outgoing_row(struct local *local, enum direction direction);
struct outgoing *outgoing_oldest(struct local *local, enum direction direction);

// Which class of slot a RECV fills, and its row.
enum slab_class receive_class(struct action receive);

void flights_cancel(struct flights *flights, struct transport *transport);

#endif
