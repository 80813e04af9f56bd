// A whole pipeline, on the threads of this process or with a rank in each of several:
// made once, stepped many times.
//
//     struct session *session = session_create(lowered, stages, device, &settings, &error);
//     while (...)
//         if (!session_step(session, &error)) ...
//     session_free(session);
//
// A step is one pass through the schedule: an iteration where it flushes, a whole
// run where it is asynchronous. Between steps all threads are parked, and what was
// measured, the losses and the weights can be read. After a failure every step
// fails with the first error.
//
// The caller waits for its ranks no longer than the deadline, either: a rank that is at one action for so long, within a
// layer that does not come back, is left there. Its thread can neither be ended nor kept from going on some day, so all
// that it could touch stays, also after session_free().
#ifndef RUNTIME_RUN_H
#define RUNTIME_RUN_H

#include "runtime/interpreter.h"
#include "runtime/process_group.h"
#include "schedules/simulate.h"

struct session;

struct session_settings {
    enum waiting waiting;
    uint32_t capacity;              // sends that may be done before their receive is posted; 0: none
    const struct network *network;  // NULL: messages take no time; needed during session_create() only
    uint64_t deadline_ns;           // of one wait, and of one action or of a rank's first weights; 0: ten minutes
    bool pin;                       // rank r to the r-th core this process may use (modulo their number)
    uint32_t first_core;            // behind so many that are others'
    struct optimizer optimizer;
    struct loss_scaling scaling;    // of the loss, on a device in fp16: what is wished for (loss_scaling_open())
    uint64_t batch, micro_batch;    // samples of a pass, and of its micro-batches but the last; 0: all have as many
    // NULL: all ranks are threads of this process. Else this is one rank of several, whose device talks to theirs
    // (wired/wired.h); every call below is then made by all of them. Borrowed.
    const struct process_group *group;
    // Where layers are shards, that the ranks of other sessions have the rest of: told when a rank of this one fails.
    // Borrowed. NULL: they are whole.
    struct shard_meeting *shards;
    uint32_t member;  // of the groups that stages are split over: which this session has
    const struct split_norms *split;  // how their gradients are clipped (clipping.h). Borrowed
    bool never_warms_up;  // stages are called for micro-batches only, not ahead of the first pass (stage.h)
    bool one_communicator;  // for all messages; only in a process group
    bool *is_stuck;         // set where the device got stuck (device.h), or a rank was left. NULL: nobody asks
    // Told once, when the session stands: session_say_wiring() says how messages go. NULL: nobody asks.
    void (*opened)(void *self, const struct session *session);
    // Told once, when a step has failed and its ranks are parked: session_last_actions() and session_whereabouts() say
    // how it was. NULL: nobody asks.
    void (*failed)(void *self, const struct session *session);
    void *self;
};

struct session_result {
    uint64_t iteration_ns;  // first start to last end, anywhere
    struct bubble bubble;
    uint32_t ranks;
    const struct rank_result *per_rank;  // measured; bytes: the rank's slab
    const uint64_t *waited_ns;           // per rank
    const uint64_t *host_ns;             // per rank: of the processor, by its thread, until its queue had everything
    const uint64_t *replayed;            // per rank: actions its queue was given at once, where its device records
    uint32_t slowest_stage;              // with the most busy time
    const float *losses;                 // by micro-batch
    double loss;                         // their mean, by the samples of each
    double gradient_norm;                // before it was clipped; 0 where none is (optimizer.h)
    bool is_skipped;                     // no stage has stepped, since gradients have overflowed (loss_scaling.h)
};

// The schedule and the stages are copied; what a stage's `self` and `exempt` point
// to is borrowed. Refuses stages whose messages do not fit each other.
struct session *session_create(const struct schedule *lowered, const struct stage *stages, struct device *device,
                               const struct session_settings *settings, struct error *error);
// 0, or how many bytes of its ranks' memory it has left with who may still use them. Stages, what is behind them, and the
// device have to stay then, and the device is stuck.
uint64_t session_free(struct session *session);

bool session_step(struct session *session, struct error *error);
// False with the reason where nothing can be asked of it any more but to be freed: a rank was left, or a step has failed
// and what a rank's device was given does not come to an end within the deadline, either.
bool session_is_usable(struct session *session, struct error *error);

// Of the last step. Borrowed until the next.
const struct session_result *session_last(const struct session *session);
bool session_timeline(struct session *session, struct timeline *timeline, struct error *error);

// Which communicators messages take in a process group, and why: "NCCL 2.28.9: 6 communicators for messages"; nothing
// where ranks are threads.
void session_say_wiring(const struct session *session, struct text *text);

// Of a step that failed: what the ranks of this process had begun in it, in order; what was under way ends now. And
// one sentence on who waited for whom, also of ranks elsewhere as far as their news had come; nothing where nobody did.
bool session_last_actions(const struct session *session, struct timeline *timeline, struct error *error);
void session_whereabouts(const struct session *session, struct text *text);

// The learning rate from the next step on.
void session_set_rate(struct session *session, float rate);

// Bytes of the one device allocation that a rank made, and of that of its host's memory.
uint64_t session_slab_bytes(const struct session *session, uint32_t rank);
uint64_t session_host_bytes(const struct session *session, uint32_t rank);

// --- what lasts from one step to the next --------------------------------------------
//
// All that the next step depends on: the weights and what the optimizer keeps of them, how many updates they have seen,
// and how many steps were made, by which layers find their data. (Versions of the weights are kept within a step only.)

// Numbers [first, first + count) of a stage's newest weights, part 0; or of what the optimizer keeps of them, a float
// for each: parts 1 to optimizer_copies(). Of one that keeps blocks part 1 is these, and numbers are bytes.
struct state_span {
    uint32_t stage, part;
    uint64_t first, count;
};

// Whether a copy of a stage is on a rank of this process.
bool session_has(const struct session *session, uint32_t stage, uint32_t copy);
// Whether a part is shared out to the copies (shares.h). Each has some of it then, and all ranks read it together, in
// the same order, those who have no use of it into NULL.
bool session_is_shared(const struct session *session, uint32_t stage, uint32_t part);
uint32_t session_rank_of(const struct session *session, uint32_t stage, uint32_t copy);
// Of such a copy, between steps; and to all copies of this process.
bool session_read_state(struct session *session, const struct state_span *span, uint32_t copy, void *host,
                        struct error *error);
bool session_write_state(struct session *session, const struct state_span *span, const void *host,
                         struct error *error);
// What one copy has for itself.
bool session_write_copy(struct session *session, const struct state_span *span, uint32_t copy, const void *host,
                        struct error *error);

uint64_t session_steps(const struct session *session);
uint64_t session_updates(const struct session *session, uint32_t stage);
// How the loss of the next step is scaled.
const struct loss_scaling *session_scaling(const struct session *session);
// Before the first step: as if `steps` had been made, and `updates` of each stage, which are fewer where some were
// skipped; and, in fp16, the loss had come to be scaled so.
void session_go_on(struct session *session, uint64_t steps, const uint64_t *updates,
                   const struct loss_scaling *scaling);

// On how many ranks a stage is; and from the newest weights of one of its copies, which are
// all alike, so many bytes behind the first `offset`.
uint32_t session_copies(const struct session *session, uint32_t stage);
bool session_read_weights(struct session *session, uint32_t stage, uint32_t copy, uint64_t offset, uint64_t bytes,
                          void *host, struct error *error);

#endif
