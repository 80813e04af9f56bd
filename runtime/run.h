// A session: a whole pipeline that is created once and stepped many times. All its ranks are threads of this process,
// or this process has one of its ranks.
//
//     struct session *session = session_create(lowered, stages, device, &settings, &error);
//     while (...)
//         if (!session_step(session, &error)) ...
//     session_free(session);
//
// A step is one pass through the schedule: an iteration if the schedule flushes, a whole run if it is asynchronous.
// Between steps all threads are parked, and measurements, losses and weights can be read. After a failure every step
// fails with the first error.
//
// The caller does not wait for its ranks longer than the deadline, either. If a rank is at one action for that long,
// in a layer that does not return, it is left there. Its thread cannot be ended, and may continue some day. So all
// that it could touch stays allocated, also after session_free().
#ifndef RUNTIME_RUN_H
#define RUNTIME_RUN_H

#include "runtime/groups/process_group.h"
#include "runtime/ranks/interpreter.h"
#include "schedules/simulate.h"

struct session;

struct session_settings {
    bool has_variants;  // the layers are of the plan's variants, without being shards
    enum waiting waiting;
    uint32_t capacity;              // sends that may complete before their receive is posted; 0: none
    // link times that messages take; NULL: none; needed only during session_create()
    const struct network *network;
    uint64_t deadline_ns;           // for one wait, for one action, and for a rank's first weights; 0: ten minutes
    bool pin;                       // rank r to the r-th core that this process may use (modulo their number)
    uint32_t first_core;            // skip this many cores, which others use
    struct optimizer optimizer;
    struct loss_scaling scaling;    // loss scaling on a device in fp16, as requested (loss_scaling_open())
    // samples of a pass, and of each of its micro-batches but the last; 0: all have the same number
    uint64_t batch, micro_batch;
    // NULL: all ranks are threads of this process. Otherwise this process has one of several ranks, and its device
    // talks to theirs (wired/wired.h). Every call below is then made by all of them. Borrowed.
    const struct process_group *group;
    // If layers are shards, whose rest the ranks of other sessions have: the group in which they add up
    // (shard_group.h). It is told when a rank of this session fails. Borrowed. NULL: layers are whole.
    struct shard_group *shards;
    uint32_t member;  // which member of the groups over which stages are split this session is
    // How the members of a rank exchange what stages on it hand on (member_messages.h). Borrowed. NULL: they do not
    struct member_messages *exchanged;
    const struct split_norms *split;  // how gradients of split layers are clipped (clipping.h). Borrowed
    // The order in which auxiliary losses are added up (auxiliary_losses.h). Borrowed. NULL: that of the stages
    const uint32_t *auxiliary_order;
    bool never_warms_up;  // stages are called for micro-batches only, not ahead of the first pass (stage.h)
    bool one_communicator;  // one communicator for all messages; only in a process group
    // The session in whose memory this one works, between two of that one's steps, with its newest weights
    // (evaluation.h). Borrowed. NULL: it has its own
    struct session *lender;
    uint64_t last_input_bytes;  // what the model's last layer reads of a micro-batch first, for session_evaluate()
    bool *is_stuck;         // set if the device got stuck (device.h), or a rank was left. NULL: not reported
    // Called once, when the session is ready: session_say_wiring() says how messages travel. NULL: no callback.
    void (*opened)(void *self, const struct session *session);
    // Called once, when a step has failed and its ranks are parked: session_last_actions() and session_whereabouts()
    // say what they did. NULL: no callback.
    void (*failed)(void *self, const struct session *session);
    void *self;
};

struct session_result {
    uint64_t iteration_ns;  // from the first start on any rank to the last end on any rank
    struct bubble bubble;
    uint32_t ranks;
    const struct rank_result *per_rank;  // measured; its bytes are those of the rank's slab
    const struct rank_effort *efforts;   // per rank
    uint32_t slowest_stage;              // with the most busy time
    const float *losses;                 // by micro-batch
    // By micro-batch, then by layer that has an auxiliary loss, in the order of the stages; and by micro-batch the sum
    const float *auxiliary_losses, *auxiliary_sums;
    uint32_t auxiliary_count;
    const uint64_t *metrics;             // what the last layer has counted, over all micro-batches
    uint32_t metric_count;
    double loss;                         // mean of the losses, weighted by samples
    double auxiliary_loss;               // the same of auxiliary_sums
    double gradient_norm;                // before clipping; 0 if it is not measured (clipping.h)
    bool is_skipped;                     // no stage made an update, since gradients overflowed (loss_scaling.h)
};

// Creates a session. The schedule and the stages are copied; what `self` and `exempt` of a stage point to is
// borrowed. Stages whose messages do not fit together are refused. NULL with the reason if something fails.
struct session *session_create(const struct schedule *lowered, const struct stage *stages, struct device *device,
                               const struct session_settings *settings, struct error *error);
// Frees a session. Returns 0, or the bytes of its ranks' memory that had to stay, because a rank that was left may
// still use them. Then the stages, what is behind them, and the device have to stay as well, and the device is stuck.
uint64_t session_free(struct session *session);

bool session_step(struct session *session, struct error *error);
// For a session that has a lender: makes a pass with the lender's newest weights, as a step of this number. What the
// model's last layer reads goes to `last_inputs`, one micro-batch behind the other, on all ranks; NULL: it is not
// wanted.
bool session_evaluate(struct session *session, uint64_t step, void *last_inputs, struct error *error);
// False, with the reason, if the session can only be freed. This is so if a rank was left, or if a step has failed and
// a device does not finish the work it was given within the deadline.
bool session_is_usable(struct session *session, struct error *error);

// The results of the last step, borrowed until the next; and its timeline.
const struct session_result *session_last(const struct session *session);
bool session_timeline(struct session *session, struct timeline *timeline, struct error *error);

// Says which communicators messages use in a process group, and why: "NCCL 2.28.9: 6 communicators for messages".
// Adds nothing if ranks are threads.
void session_say_wiring(const struct session *session, struct text *text);

// Both tell of a step that failed. The function session_last_actions() gives the actions that ranks of this process
// had begun, in order; those under way end now. The function session_whereabouts() adds one sentence that says which
// rank waited for which. Ranks of other processes are as their last status message had them. It adds nothing if no
// rank waited.
bool session_last_actions(const struct session *session, struct timeline *timeline, struct error *error);
void session_whereabouts(const struct session *session, struct text *text);

// Sets the learning rate from the next step on.
void session_set_rate(struct session *session, float rate);

// Bytes of the one allocation that a rank made on its device, and of the one on its host.
uint64_t session_slab_bytes(const struct session *session, uint32_t rank);
uint64_t session_host_bytes(const struct session *session, uint32_t rank);

// --- state that lasts from one step to the next ---------------------------------------
//
// The next step depends on exactly this: the weights, the optimizer state, the number of updates, and the number of
// steps, by which layers find their data. (Weight versions are kept within a step only.)

// Numbers [first, first + count) of a stage. Part LAYER_STATE is its state without a gradient (floats, one behind the
// other by layer). Part 0 is its newest weights. Parts 1 to optimizer_copies() are
// optimizer state, with a float for each weight. If the optimizer keeps blocks, part 1 is the blocks, and numbers are
// bytes.
struct state_span {
    uint32_t stage, part;
    uint64_t first, count;
};

// Whether a copy of a stage is on a rank of this process.
bool session_has(const struct session *session, uint32_t stage, uint32_t copy);
// Whether a part is sharded over the copies of a stage (shares.h). Each copy then has some of it, and all ranks read
// it together, in the same order. A rank that does not need the data passes NULL.
bool session_is_shared(const struct session *session, uint32_t stage, uint32_t part);
uint32_t session_rank_of(const struct session *session, uint32_t stage, uint32_t copy);
// Between steps: reads the state of one copy, and writes the state of all copies in this process.
bool session_read_state(struct session *session, const struct state_span *span, uint32_t copy, void *host,
                        struct error *error);
bool session_write_state(struct session *session, const struct state_span *span, const void *host,
                         struct error *error);
// Writes the part of it that one copy has.
bool session_write_copy(struct session *session, const struct state_span *span, uint32_t copy, const void *host,
                        struct error *error);

uint64_t session_steps(const struct session *session);
uint64_t session_updates(const struct session *session, uint32_t stage);
// The loss scaling of the next step.
const struct loss_scaling *session_scaling(const struct session *session);
// Before the first step: continue as if `steps` steps had been made, with `updates` updates of each stage, and with
// this loss scaling (fp16). Updates are fewer than steps if some were skipped.
void session_go_on(struct session *session, uint64_t steps, const uint64_t *updates,
                   const struct loss_scaling *scaling);

// How many ranks hold a stage; and, for all processes, what session_read_state() reads of one of these copies. All
// copies are equal.
uint32_t session_copies(const struct session *session, uint32_t stage);
bool session_read_and_tell(struct session *session, const struct state_span *span, uint32_t copy, void *host,
                           struct error *error);
// All processes get what that with a copy of a stage has.
bool session_tell(const struct session *session, uint32_t stage, uint32_t copy, void *data, uint64_t bytes,
                  struct error *error);

#endif
