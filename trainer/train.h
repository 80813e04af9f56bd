// Trains a model on text by a plan, and compares what was predicted with what was measured.
#ifndef TRAINER_TRAIN_H
#define TRAINER_TRAIN_H

#include <signal.h>

#include "models/model.h"
#include "partitioner/plan/plan.h"
#include "runtime/checkpoint/checkpoints.h"
#include "schedules/timeline.h"
#include "trainer/data/text_data.h"
#include "trainer/expert_counts.h"
#include "trainer/held_samples.h"
#include "trainer/rates.h"
#include "trainer/run_place.h"

// What is reported about one iteration. An asynchronous run reports its iterations once it has drained; each of them
// is the next `micro_batches` micro-batches of the run.
struct train_step {
    uint32_t step;            // from 1
    double loss;              // nats per target, mean over its samples
    uint64_t tokens;          // that it has seen; of pictures, how many
    uint64_t took_ns;         // wall-clock time since the iteration before ended
    double bubble;            // makespan
    uint32_t slowest_stage;
    float rate;               // learning rate
    double gradient_norm;     // of all gradients, before clipping; 0: not measured (clip and loss_scale need it)
    bool is_skipped;          // its fp16 gradients have overflowed on some stage, so no stage has made its update
    float loss_scale;         // of the next step; 0: gradients are not scaled
};

// An evaluation: how well the weights after a step predict held-out text, or pictures.
struct train_evaluation {
    uint64_t step;
    double bits;     // per target
    double right;    // share of the targets that are right; NAN for texts
    double auc;      // of clicks; else NAN
    bool is_best;    // the best of this run so far
};

struct train_result;

// Callbacks during a run, in this order of calls, on each rank that has them. NULL: not called.
struct train_listener {
    // Before the first step: the step that the run continues from, and `result` with its bytes.
    void (*begun)(void *self, uint64_t step, const struct train_result *result);
    void (*tell)(void *self, const struct train_step *step);
    void (*evaluated)(void *self, const struct train_evaluation *evaluation);
    void (*kept)(void *self, uint64_t step);  // its checkpoint is complete
    void *self;
};

struct train_settings {
    const struct text_data *text;      // one of these two; the other is NULL
    const struct sample_data *samples;
    struct augmentation augmentation;  // of pictures
    uint32_t steps;
    uint64_t seed;
    struct rates rates;     // learning rates
    float clip;             // limit of the gradients' norm (runtime/updates/optimizer.h)
    uint64_t freeze_step;  // optimizer_freeze(); 0: the usual step
    uint64_t batch;         // samples of an iteration (batch_settings_take()); 0: micro-batches are full
    struct loss_scaling scaling;  // requested scaling, in fp16 (runtime/updates/loss_scaling.h)
    uint32_t flush_every;   // asynchronous schedules drain after so many iterations; `steps` is a multiple of it
    bool pin;               // each rank's thread to a core of its own
    struct run_place place;
    struct checkpoint_settings checkpoints;
    const char *weights;    // initial weights (given_weights.h); NULL: from the seed
    uint32_t eval_every;    // steps between evaluations on held-out text; 0: only at the end
    const volatile sig_atomic_t *stop;  // if it becomes 1 on any rank, the run ends after the current pass; NULL: never
    volatile sig_atomic_t *keep;        // likewise, a checkpoint is made and the run continues; reset to 0. NULL: never
    void (*say)(void *self, const char *sentence);  // says what happens to checkpoints, if there are any
    void *self;
    struct train_listener listener;
};

struct train_result {
    uint64_t steps;         // made in all, including those before a resume
    bool is_stopped;        // on request, before its last step
    bool is_complete;       // it made its last step. If not, only the next two fields have a meaning
    uint64_t saved_step;    // of this run's newest checkpoint; 0: none
    bool save_has_failed;   // the last checkpoint could not be written

    double first_loss, last_loss;      // nats per byte
    double held_bits;                  // bits per target of the held-out data; NAN on all ranks but the first
    double order0_bits, order1_bits;   // of the n-gram models on the same split; NAN for other data than bytes
    struct sample_score held;            // of pictures; else NAN
    struct simple_scores simple;       // what simple models reach on them; on the first rank
    uint64_t skipped_steps;            // of the whole run, before a resume too
    uint64_t parameter_count;
    uint64_t bytes_trained;
    double bytes_per_second;           // in the median iteration

    // One pass of the schedule: predicted from the plan's costs, and measured, as the median over all passes.
    struct simulation predicted;
    uint32_t iterations;               // in one pass
    uint64_t measured_ns;
    struct bubble measured_bubble;     // of the pass with the median time
    struct timeline predicted_timeline;
    struct timeline measured_timeline; // of the last pass
    // of the last pass: its actions without messages, and how many of them a device that records work (CUDA graphs)
    // was given in one piece; both 0 for other devices
    size_t actions, replayed;
    uint32_t ranks;
    uint64_t *predicted_bytes;         // peak per rank, as planned
    uint64_t *measured_bytes;          // as allocated on the device
    uint64_t *predicted_host_bytes;    // likewise, on its host
    uint64_t *measured_host_bytes;
    struct expert_counts *experts;     // of the last update, by layer
    size_t expert_layers;
    struct profile_routing *routing;   // of the last updates (routing_record.h); NULL: there are no experts
};

// Trains. All ranks of a run call it. False with `error` on failure, and then `result` is empty; else the caller
// clears `result`.
bool train_plan(const struct plan *plan, const struct model *model, const struct train_settings *settings,
                struct train_result *result, struct error *error);
void train_result_clear(struct train_result *result);

// Appends the table of predicted and measured numbers to `text`.
void train_result_print(const struct train_result *result, struct text *text);

#endif
