// Trains a model by a plan on text, and holds what was predicted against what was
// measured.
#ifndef TRAINER_TRAIN_H
#define TRAINER_TRAIN_H

#include <signal.h>

#include "models/model.h"
#include "partitioner/plan/plan.h"
#include "schedules/timeline.h"
#include "runtime/checkpoint/checkpoints.h"
#include "trainer/rates.h"
#include "trainer/run_place.h"
#include "trainer/text_data.h"

// What one iteration told. An asynchronous run tells of its iterations when it has
// drained: each is the next `micro_batches` of it.
struct train_step {
    uint32_t step;            // from 1
    double loss;              // nats per token, the mean of its samples
    uint64_t tokens;          // that it has seen,
    uint64_t took_ns;         // and how long it is since the one before ended, by the clock
    double bubble;            // makespan
    uint32_t slowest_stage;
    float rate;               // of learning
    double gradient_norm;     // of all gradients, before they were clipped; 0: it was not asked for (clip, loss_scale)
    bool is_skipped;          // its gradients, in fp16, have overflowed somewhere, and no stage has stepped;
    float loss_scale;         // so that the next step's are scaled by this. 0: they are not scaled
};

// What a run's weights behind a step make of held-out text.
struct train_evaluation {
    uint64_t step;
    double bits;     // per token
    bool is_best;    // of all of this run
};

struct train_result;

// What a run tells while it goes on, in this order of calls; by each rank that has listeners. NULLs: nobody listens.
struct train_listener {
    // Before the first step: behind which step it goes on, and what `result` has of bytes.
    void (*begun)(void *self, uint64_t step, const struct train_result *result);
    void (*tell)(void *self, const struct train_step *step);
    void (*evaluated)(void *self, const struct train_evaluation *evaluation);
    void (*kept)(void *self, uint64_t step);  // its checkpoint is whole
    void *self;
};

struct train_settings {
    const struct text_data *text;
    uint32_t steps;
    uint64_t seed;
    struct rates rates;     // of learning
    float clip;             // of the gradients' norm (runtime/optimizer.h)
    uint64_t freeze_step;  // optimizer_freeze(); 0: the usual one
    uint64_t batch;         // samples of an iteration (batch_settings_take()); 0: micro-batches are full
    struct loss_scaling scaling;  // in fp16, what is wished for (runtime/loss_scaling.h)
    uint32_t flush_every;   // asynchronous schedules drain after so many iterations, of which steps is a multiple
    bool pin;               // each rank to a core of its own
    struct run_place place;
    struct checkpoint_settings checkpoints;
    const char *weights;    // that the run begins with (given_weights.h); NULL: the seed's
    uint32_t eval_every;    // so many steps from one look at held-out text to the next; 0: none before the end
    const volatile sig_atomic_t *stop;  // once it is 1 on some rank the run ends behind the pass at hand; NULL: never
    volatile sig_atomic_t *keep;        // likewise, a checkpoint is made and the run goes on; is set to 0. NULL: never
    void (*say)(void *self, const char *sentence);  // what happens to checkpoints; where there are any
    void *self;
    struct train_listener listener;
};

struct train_result {
    uint64_t steps;         // made, those included that a run was gone on from
    bool is_stopped;        // before its last step, as was asked for
    bool is_complete;       // made its last step. Where not, there is nothing to tell but the next two
    uint64_t saved_step;    // the newest checkpoint of this run; 0: none
    bool save_has_failed;   // the last one could not be written

    double first_loss, last_loss;      // nats per byte
    double held_bits;                  // bits per byte of the held-out text; NAN on any but the first of several ranks
    double order0_bits, order1_bits;   // of the counting models on the same split; NAN of a larger vocabulary than bytes
    uint64_t skipped_steps;            // of all, as above
    uint64_t parameter_count;
    uint64_t bytes_trained;
    double bytes_per_second;           // of the median iteration

    // One pass of the schedule: predicted from the plan's costs, and measured as the median over all passes.
    struct simulation predicted;
    uint32_t iterations;               // in it
    uint64_t measured_ns;
    struct bubble measured_bubble;     // of the pass with the median time
    struct timeline predicted_timeline;
    struct timeline measured_timeline; // of the last pass
    size_t actions, replayed;          // of the last pass: all but messages, and those a device that records was given at
                                       // once; both 0 where it does not
    uint32_t ranks;
    uint64_t *predicted_bytes;         // peak per rank, as planned
    uint64_t *measured_bytes;          // as allocated on the device
    uint64_t *predicted_host_bytes;    // likewise on its host
    uint64_t *measured_host_bytes;
};

bool train_plan(const struct plan *plan, const struct model *model, const struct train_settings *settings,
                struct train_result *result, struct error *error);
void train_result_clear(struct train_result *result);

// The table of predicted against measured.
void train_result_print(const struct train_result *result, struct text *text);

#endif
