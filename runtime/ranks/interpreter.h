// Runs a lowered schedule on one rank. No other code runs one.
//
//     rank 1's list   1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 ...
//     WAIT_AT_USE     RECV is posted as soon as a slot is free, at the latest at its place in the list; F waits for its
//                     input, and for a free output slot (the send before the previous one); SEND posts; B waits for its
//                     output's gradient
//     WAIT_IN_ORDER   RECV and SEND post and wait at their place in the list: the strictest order, by which
//                     schedule_check() judges
//
// Actions in brackets begin together, once everything they need is there, and run one after the other: a processor
// cannot do better. REDUCE waits for the other copies of its stage. These STEPs run after the end of the list:
//
// * The STEP of a stage with tied parameters, together with those of the stages that share them (ties.h).
// * Every STEP, if the norm of all gradients is measured (clipping.h).
// * The STEP of a stage whose replicas each update a share of the weights and then all-gather the others' (shares.h).
//
// None of this waits for computing. Actions are given to the rank's queue, which a device may execute later. If an
// action needs something from another queue, events order it after that (docs/decisions/043-events-by-slot.md). The
// rank waits for its queue only at the end of the pass.
//
// VALIDATE has nothing to check: an update that needs something of other stages waits for it. So no update is made
// too early, and none is ever undone.
//
// All memory belongs to the slab and exists before the first action; nothing is allocated during a pass. Every wait
// has a deadline, and rank_status.h shows what it waits for.
#ifndef RUNTIME_RANKS_INTERPRETER_H
#define RUNTIME_RANKS_INTERPRETER_H

#include "partitioner/plan/collectives.h"
#include "runtime/ranks/rank_status.h"
#include "runtime/ranks/recorder.h"
#include "runtime/ranks/slab.h"
#include "runtime/ranks/ties.h"
#include "runtime/ranks/weight_plan.h"
#include "runtime/stages/pass_share.h"
#include "runtime/stages/stage.h"
#include "runtime/transport/transport.h"
#include "runtime/updates/loss_scaling.h"
#include "runtime/updates/optimizer.h"
#include "schedules/folds.h"

enum waiting { WAIT_AT_USE, WAIT_IN_ORDER };

// What an interpreter works with. All of it is borrowed. It is shared between ranks if it is only read, or if each
// rank has its own part of it.
struct interpreter_needs {
    const struct schedule *schedule;  // lowered
    const struct stage *stages;       // of the whole schedule
    const struct weight_plan *weight_plan;
    const struct folds *folds;        // which micro-batches an update takes in
    const struct ties *ties;          // NULL: no stages share weights
    const struct collectives *collectives;  // of replicas that share gradients or weights
    uint32_t rank;
    enum waiting waiting;
    uint64_t deadline_ns;  // for each wait
    struct transport *transport;
    struct queue *queue;
    // Recordings (replays.h) are captured even while messages, which may wait on the device, are under way
    bool captures_at_once;
    struct slab *slab;  // of this rank; its stages are in order of their number
    const struct optimizer *optimizer;
    // For layers that are split over a group of devices (clipping.h); NULL: they are whole
    const struct split_norms *split;
    uint32_t member;                  // the member of that group whose session this is
    struct recorder *recorder;
    struct rank_status *status;
    struct update_samples samples;
    float *losses;  // by micro-batch, then by part of its sequences
    float *auxiliary_losses;   // the same, then by layer that has one, of all stages; NULL: no layer has one
    uint32_t auxiliary_count;  // how many have
    uint64_t *metrics;  // of this rank; NULL: nothing is counted
    // Memory for what the model's last layer reads in an evaluation: `last_input_bytes` of each micro-batch. NULL: it
    // is not wanted
    char *const *last_inputs;
    uint64_t last_input_bytes;
    // By stage: the updates its weights had seen when version 0 was put there, plus the steps skipped by then. NULL:
    // none.
    const uint64_t *updates_before;
    struct loss_scaling scaling;  // at the start; empty unless the device computes in fp16
};

struct interpreter;

// Fails if the schedule has an action that these stages cannot do: a separate R, or splits of a sequence.
struct interpreter *interpreter_create(const struct interpreter_needs *needs, struct error *error);
void interpreter_free(struct interpreter *interpreter);

// Writes the initial weights of the rank's stages, and zeroes all memory that must start as zero.
bool interpreter_initialize(struct interpreter *interpreter, struct error *error);

// Makes one pass through the list. On any failure the other ranks are told.
bool interpreter_run(struct interpreter *interpreter, uint64_t step, struct error *error);

// For a rank that works in the slab of another interpreter, between two of that one's passes: its next pass uses that
// one's newest weights. It must make no update.
void interpreter_use_weights(struct interpreter *interpreter, const struct interpreter *owner);

// How the loss of the next pass is scaled. The second sets it before the first pass, when a run continues from a
// checkpoint.
const struct loss_scaling *interpreter_scaling(const struct interpreter *interpreter);
void interpreter_set_scaling(struct interpreter *interpreter, const struct loss_scaling *scaling);

// The norm of all gradients of the last pass before clipping; 0 if norms are not measured (clipping.h).
double interpreter_gradient_norm(const struct interpreter *interpreter);

// A part of the state of one of this rank's stages, on the device or on its host. Part 0 is the newest weights. Parts
// 1 to optimizer_copies() are what the optimizer keeps: a float for each weight of the stage, or of the rank's share
// of them (shares.h). LAYER_STATE is the state without a gradient.
#define LAYER_STATE UINT32_MAX
void *interpreter_state(const struct interpreter *interpreter, uint32_t stage, uint32_t part);
// The newest weights on the host, which an update there reads; NULL: there are none.
void *interpreter_host_weights(const struct interpreter *interpreter, uint32_t stage);

#endif
