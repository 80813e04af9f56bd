// Runs a lowered schedule on one rank: the only thing that ever does.
//
//     rank 1's list   1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 ...
//     WAIT_AT_USE     RECV has been posted, at the latest, as soon as a slot was free; F waits for its
//                     input, and for a free output slot (the send but one before it); SEND posts; B
//                     waits for its output's gradient
//     WAIT_IN_ORDER   RECV and SEND post and wait where they stand: the strictest of worlds, the one
//                     schedule_check() judges by
//
// Actions in brackets are begun together, once all that they need is there, and done
// one after the other: a processor has no better way. REDUCE waits for the other
// copies of its stage; a STEP of a stage that shares weights with others is made behind
// the list, with theirs (ties.h), and so are all where gradients are clipped (clipping.h), and those of a stage whose
// replicas update a share of the weights each and gather the others' (shares.h). None of this waits for computing:
// actions are given to the rank's queue, which a device may do later, and what one needs of another queue it is ordered
// behind by events (docs/decisions/043-events-by-slot.md); only at the end of the pass
// does the rank wait for its queue. VALIDATE finds nothing to judge: where an update
// needs something of other stages, it waits for it, so none is made too early
// and none is ever taken back.
//
// All memory is the slab's and was there before the first action; nothing is
// allocated on the way. Every wait has a deadline, and says on the board of
// whereabouts what it waits for.
#ifndef RUNTIME_INTERPRETER_H
#define RUNTIME_INTERPRETER_H

#include "partitioner/plan/meetings.h"
#include "runtime/loss_scaling.h"
#include "runtime/optimizer.h"
#include "runtime/recorder.h"
#include "runtime/slab.h"
#include "runtime/stage.h"
#include "runtime/ties.h"
#include "runtime/transport.h"
#include "runtime/weight_plan.h"
#include "runtime/whereabouts.h"

enum waiting { WAIT_AT_USE, WAIT_IN_ORDER };

// What an interpreter works with; all borrowed, and shared between ranks where
// nothing is written or each rank has its own part.
struct interpreter_needs {
    const struct schedule *schedule;  // lowered
    const struct stage *stages;       // all of the schedule's
    const struct weight_plan *weight_plan;
    const struct ties *ties;          // NULL: no stages share weights
    const struct meetings *meetings;  // of replicas that share gradients or weights
    uint32_t rank;
    enum waiting waiting;
    uint64_t deadline_ns;  // of one wait
    struct transport *transport;
    struct queue *queue;
    bool captures_at_once;  // recordings (replays.h): while messages are under way, too, which may wait on the device
    struct slab *slab;  // this rank's; its stages in order of their number
    const struct optimizer *optimizer;
    const struct split_norms *split;  // of layers that are split over members (clipping.h), of which this session has
    uint32_t member;                  // this one; NULL: they are whole
    struct recorder *recorder;
    struct whereabouts *whereabouts;
    float *losses;  // by micro-batch, then part of its sequences
    // By stage: what its weights had seen when version 0 was put there, and the steps that had been skipped. NULL: none.
    const uint64_t *updates_before;
    struct loss_scaling scaling;  // to begin with; of a device that is not in fp16 nothing
};

struct interpreter;

// Refuses what these stages cannot do: an R of its own, splits of a sequence.
struct interpreter *interpreter_create(const struct interpreter_needs *needs, struct error *error);
void interpreter_free(struct interpreter *interpreter);

// Writes the initial weights of the rank's stages and zeroes what must be zero.
bool interpreter_initialize(struct interpreter *interpreter, struct error *error);

// One pass through the list. On any failure the other ranks are told.
bool interpreter_run(struct interpreter *interpreter, uint64_t step, struct error *error);

// How the loss of the next pass is scaled; and that of a run which is gone on with, before its first pass.
const struct loss_scaling *interpreter_scaling(const struct interpreter *interpreter);
void interpreter_set_scaling(struct interpreter *interpreter, const struct loss_scaling *scaling);

// The norm of all gradients of the last pass, before they were clipped; 0 where none are.
double interpreter_gradient_norm(const struct interpreter *interpreter);

// Of a stage of this rank, on the device or its host: part 0, its newest weights; the others, what the optimizer keeps
// (optimizer_copies() of them), a float for each of the weights or of the rank's share of them (shares.h).
void *interpreter_state(const struct interpreter *interpreter, uint32_t stage, uint32_t part);
// The same weights on the host, which an update there reads; NULL: there are none.
void *interpreter_host_weights(const struct interpreter *interpreter, uint32_t stage);

#endif
