// The optimizer's update from one version of the weights to the next, over a stage's flat buffers.
//
// Every element is updated by itself, or with the rest of its tensor. So a whole stage at once, its layers one after
// the other, and the whole model in a sequential loop all give the same bits. The new version may be written over the
// old one or elsewhere. So a version can be kept without ever being copied.
#ifndef RUNTIME_UPDATES_OPTIMIZER_H
#define RUNTIME_UPDATES_OPTIMIZER_H

#include "device/kernels.h"
#include "partitioner/plan/plan.h"
#include "runtime/stages/stage.h"

enum { OPTIMIZER_MOST_COPIES = 3 };

// What a user-defined optimizer is given for a layer, to make the next version of its weights.
struct layer_update {
    struct queue *queue;
    uint32_t layer;   // index in the model
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
    // User-defined, in place of the kind's formula: called for each layer, on its state; or NULL
    layer_update_function *own;
    void *self;
    float rate;
    float momentum;               // for momentum,
    bool is_nesterov;             // and whether its step looks ahead (Nesterov 1983; Sutskever et al. 2013)
    float beta1, beta2, epsilon;  // for adam and adamw
    float trust;  // for lars: how large a step of rate 1 may be, as a fraction of a tensor's norm
    // If it compresses: the last update that changes the second moment; from the next one on, momentum is sent
    uint64_t freeze_step;
    float decay;
    float clip;  // limit of the norm of all gradients (clipping.h); 0: none
    bool measures_norm;  // whether that norm is measured even if nothing is clipped
    bool halts;          // with it: if the norm is not finite, no stage makes its update, and no state is folded
};

// The usual values: rate 0.001, momentum 0.9, betas 0.9 and 0.999, epsilon 1e-8 (for lamb 1e-6), trust 0.001, freeze
// step 100, no decay.
struct optimizer optimizer_default(enum optimizer_kind kind);

// Sets the freeze step for a run of `steps`: the given one, or, if that is 0, a fifth of them. Fails if one is given
// to an optimizer that has none.
bool optimizer_freeze(struct optimizer *optimizer, uint64_t given, uint64_t steps, struct error *error);

struct optimizer_buffers {
    struct values *next;  // may be `weights`
    const struct values *weights;
    const float *gradients;
    // optimizer_copies() times `count`: the moments, then the fp32 master copy if there is one; or blocks
    float *state;
    uint64_t count;
    const struct exempt *exempt;  // elements without decay, ascending and not adjacent
    size_t exempt_count;
    bool has_momentum;  // of a frozen update: replicas have already exchanged its first moment, and gradients are zero
    // Which layer each element belongs to, one after the other, with its rate. None: all have the usual one
    const struct stage_part *parts;
    size_t part_count;
};

// How many floats of state a kind has for each weight: 0 to 2, one more for -master, and one more for what compression
// lose. The second function names the `copy`-th of them, for files: "momentum", "first_moment", "second_moment",
// "master" or "error".
uint64_t optimizer_copies(enum optimizer_kind kind);
const char *optimizer_copy_name(enum optimizer_kind kind, uint64_t copy);

// Whether a kind keeps a block of bytes for each layer instead, of storage_state_bytes() bytes:
//
//     adafactor   for each tensor in turn, floats: a moment of each row and of each column; of a vector, of each number
//     adagrad-rows   floats: a sum of each number; of tables, of each row
//     adam8bit    | scales of first moments | of second ones | codes of first moments | of second ones |
bool optimizer_keeps_blocks(enum optimizer_kind kind);

// For adam8bit: how many blocks that many numbers of a layer are, counted from where a block begins. The second is the
// bytes of state that it keeps for them, a multiple of a float's bytes.
uint64_t optimizer_block_count(uint64_t numbers);
uint64_t optimizer_block_bytes(uint64_t numbers);

// The number of parts in which files keep a layer's state: its copies, except what belongs to each replica alone
// (what compression loses), or its block.
uint32_t optimizer_parts(enum optimizer_kind kind);

// Whether the norm of all gradients is measured, to clip them or as a result.
bool optimizer_measures_norm(const struct optimizer *optimizer);

// Whether this update leaves the second moment unchanged, so that replicas send a compressed momentum for it.
bool optimizer_is_frozen(const struct optimizer *optimizer, uint64_t update);

// Makes zeroed state ready for the first update of these weights.
void optimizer_begin(const struct optimizer *optimizer, struct queue *queue, const struct values *weights,
                     float *state, uint64_t count);

// Makes one update. `update` counts from 1; it corrects the moments of adamw for their start at zero. Neighbouring
// parts with the same rate are updated by one call. Frozen ones keep their bits.
void optimizer_update(const struct optimizer *optimizer, uint64_t update, struct queue *queue,
                      const struct optimizer_buffers *buffers);

#endif
