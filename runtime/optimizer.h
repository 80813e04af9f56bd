// From one version of the weights to the next, over a stage's flat buffers.
//
// Every element is updated by itself, or with the rest of its tensor, so that a stage at once, its layers one
// after the other, or the whole model in a sequential loop give the same bits.
// The new version may be written over the old one or elsewhere: that is how a
// version is kept without ever being copied.
#ifndef RUNTIME_OPTIMIZER_H
#define RUNTIME_OPTIMIZER_H

#include "device/kernels.h"
#include "partitioner/plan/plan.h"
#include "runtime/stage.h"

enum { OPTIMIZER_MOST_COPIES = 3 };

// What an optimizer of one's own is given of a layer: from one version of its weights to the next.
struct layer_update {
    struct queue *queue;
    uint32_t layer;   // of the model
    uint64_t update;  // from 1
    float rate;
    const struct values *weights;
    struct values *next;  // may be `weights`
    const float *gradients;
    float *state[OPTIMIZER_MOST_COPIES];  // as many as the kind has, `count` floats each
    uint64_t count;                       // of weights
};
typedef bool layer_update_function(void *self, const struct layer_update *update, struct error *error);

struct optimizer {
    enum optimizer_kind kind;
    layer_update_function *own;  // in place of the kind's formula, layer by layer, on its state; or NULL
    void *self;
    float rate;
    float momentum;               // of momentum,
    bool is_nesterov;             // by which the step looks ahead (Nesterov 1983; Sutskever et al. 2013)
    float beta1, beta2, epsilon;  // of adam and adamw
    float trust;  // of lars: how much of a tensor's norm a step of rate 1 may be
    uint64_t freeze_step;  // of adam1bit: the last update that changes the second moment; signs are sent from the next on
    float decay;
    float clip;  // the most that the norm of all gradients may be (clipping.h); 0: as it comes
};

// The usual numbers: rate 0.001, momentum 0.9, betas 0.9 and 0.999, epsilon 1e-8 (of lamb 1e-6), trust 0.001, freeze
// step 100, no decay.
struct optimizer optimizer_default(enum optimizer_kind kind);

// The freeze step of a run of so many: the one given, or where that is 0 a fifth of them. Given to an optimizer that has
// none it is refused.
bool optimizer_freeze(struct optimizer *optimizer, uint64_t given, uint64_t steps, struct error *error);

struct optimizer_buffers {
    struct values *next;  // may be `weights`
    const struct values *weights;
    const float *gradients;
    float *state;  // optimizer_copies() times `count`: moments, and the master copy where there is one; or blocks
    uint64_t count;
    const struct exempt *exempt;  // elements without decay, ascending, apart
    size_t exempt_count;
    bool has_momentum;  // of a frozen update: replicas have brought its first moment together, and gradients are zero
    const struct stage_part *parts;  // whose layer's each element is, for an optimizer of one's own or by tensors
    size_t part_count;
};

// How many floats of state a kind has for each weight: 0 to 2, and one more of -master and of what signs leave; and what
// the `copy`-th of them are, in a word for files: "momentum", "first_moment", "second_moment", "master" or "error".
uint64_t optimizer_copies(enum optimizer_kind kind);
const char *optimizer_copy_name(enum optimizer_kind kind, uint64_t copy);

// Whether a kind keeps a block of bytes for each layer instead, as many as holding_state_bytes() says:
//
//     adafactor   of each tensor in turn, floats: a moment of each row and of each column; of a vector of each number
//     adam8bit    | scales of first moments | of second ones | codes of first moments | of second ones |
bool optimizer_keeps_blocks(enum optimizer_kind kind);

// Of adam8bit, how many blocks so many numbers of a layer are, from one where a block begins on, and what it keeps of
// them: a multiple of a float's bytes.
uint64_t optimizer_block_count(uint64_t numbers);
uint64_t optimizer_block_bytes(uint64_t numbers);

// In how many parts a layer's state is kept in files: its copies, but for what is each replica's own (what signs leave),
// or its block.
uint32_t optimizer_parts(enum optimizer_kind kind);

// Whether this update leaves the second moment as it is, and replicas send signs for it.
bool optimizer_is_frozen(const struct optimizer *optimizer, uint64_t update);

// Makes state that is all zeroes ready for the first update of these weights.
void optimizer_begin(const struct optimizer *optimizer, struct queue *queue, const struct values *weights,
                     float *state, uint64_t count);

// `update` counts from 1: it corrects the moments of adamw for their start at zero.
void optimizer_update(const struct optimizer *optimizer, uint64_t update, struct queue *queue,
                      const struct optimizer_buffers *buffers);

#endif
