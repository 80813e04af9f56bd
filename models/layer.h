// A layer: the smallest unit that can be placed on a stage.
//
// A *kind* is written once over device functions; a *layer* is a kind with a name
// and a shape. A layer has no state and allocates nothing: what it may read and
// write comes in a pass, and how many bytes of each it needs is known before any
// device is there; only what a device's own libraries work in, that device must be
// asked (layer_ask()). In the words of a profile:
//
//                 F                      I                          W
//     reads    parameters, input     parameters, output_gradient,  parameters, held,
//                                    saved, input (if INPUT_FOR_BOTH)  input (unless INPUT_NEVER)
//     writes   output, saved         input_gradient, held          gradients (added to)
//
//     held   |output's gradient|what else W needs from F and I|
//             ^ starts here, so that the layer above can write its input's gradient straight to its place
//
// After I, `saved` and the output's gradient elsewhere are not needed any more; W
// reads only what the table says. B is I and then W with the same bits, `held`
// lying in its workspace, but for copies of what F saved, which W then reads where
// they are. Every tensor begins at a multiple of 256 bytes, and sizes are sums of such
// tensors.
//
// A sequence may come in parts, one pass after the other, forward in order and backward in
// reverse, each part a pass of its own with tensors of its rows alone. What parts have in common
// (of attention: queries, keys and values) is `carried`, there for the whole of the sequence from
// the first part's F to its B; its gradient from the first B on. A part's dropout is its own.
//
// Tensors of activations are [batch][sequence][width] numbers of the precision that
// the shape names, as are parameters. Gradients of parameters are floats always:
// number i of the parameters has its gradient in float i.
#ifndef MODELS_LAYER_H
#define MODELS_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/kernels.h"

struct layer_shape {
    size_t batch, sequence;   // rows = batch * sequence
    size_t first, whole;      // of a part of the sequence: where it begins, in how long a one; 0: it is all
    size_t in, out;           // widths; of a half-block both are the model's width
    size_t heads;             // of attention
    size_t vocabulary;        // of embedding and head
    size_t padding;           // words behind them that no token names: for products of an even size
    size_t branches;          // residual branches in the model: their ends start smaller by its root
    float dropout;            // of embedding and branches
    enum precision precision; // of the device that it is to run on
    bool tied;                // of a head: its words are the embedding's
    size_t shards, shard;     // over how many it is split, and which this is (shards.h); 0: it is whole
    bool shares_rows;         // of a shard: input and output are its share of the rows
};

enum { LAYER_NAME_SIZE = 32, LAYER_TENSORS = 8 };

struct layer {
    char name[LAYER_NAME_SIZE];  // "block0.attention"
    const struct layer_kind *kind;
    uint32_t index;              // in its model
    struct layer_shape shape;
    bool has_skip;
    uint32_t skip;               // a sum: what it adds to the output of the layer before, by index
    bool has_asked;
    struct attention_bytes attention;  // of one that has asked: its attention's workspace
};

// The kinds. A half-block is norm, branch, dropout and residual, so a block can be
// cut in its middle; the head is norm, projection and loss.
extern const struct layer_kind layer_embedding, layer_attention, layer_mlp, layer_head, layer_linear, layer_relu,
    layer_sum;

const char *layer_kind_name(const struct layer *layer);  // "attention"

// Asks the device that the layer is to run on how much workspace its kernels take there, which sizes and passes then go
// by. A layer that has not asked may run on those of the `cpu` maker only.
bool layer_ask(struct layer *layer, struct device *device, struct error *error);

// Whether the backward needs the input: never, for W only, for I and W.
enum layer_input { INPUT_NEVER, INPUT_FOR_WEIGHT, INPUT_FOR_BOTH };

struct layer_sizes {
    uint64_t parameter_bytes;
    uint64_t gradient_bytes;  // of the parameters
    uint64_t output_bytes;    // 0 of a head
    uint64_t saved_bytes;   // kept from F until B or I, without the input
    uint64_t carried_bytes;   // of these, what parts of a sequence have in common
    enum layer_input input;
    uint64_t held_for_weight_bytes;     // between I and W, the output's gradient first; 0: there is no W to do
    uint64_t workspace_bytes;           // of F
    uint64_t backward_workspace_bytes;  // of B, I or W, whichever needs most
    uint64_t flops;                     // of F: matrix products, attention's over the causal half; without padding
};
struct layer_sizes layer_sizes(const struct layer *layer);

// What shards meet for. A share is one of as many equal runs of the numbers as there are shards.
enum shard_exchange {
    SHARD_ALL_REDUCE,      // each gets the sum of all parts in place of its own
    SHARD_REDUCE_SCATTER,  // each gets its share of that sum, in its place there; the others mean nothing any more
    SHARD_ALL_GATHER,      // each brings its share, in its place, and gets those of all
};

// What a shard brings: numbers of the layer's precision, or floats. None: there is nothing to meet for.
struct shard_part {
    void *numbers;
    size_t count;
    bool are_floats;
    enum shard_exchange exchange;
};

// How the shards of a layer meet, in the order of the queue. A sum is part 0 + part 1 + .., rounded as kernel_add(), or
// kernel_add_floats(), does behind each.
struct shard_sum {
    void *self;
    void (*add)(void *self, struct queue *queue, const struct shard_part *part);
};

// A part of the layer: itself, for these positions only. `splits` 0 or 1: the layer.
struct layer layer_part(const struct layer *layer, uint32_t split, uint32_t splits);

// The most parts of equal length, 128 at most, so that each, and of every number that divides theirs, finds room in its
// share of what the whole layer takes (of what is saved, without what is carried), rounded down to 256. 1: it has none.
uint32_t layer_most_splits(const struct layer *layer);

struct layer_pass {
    struct queue *queue;
    const void *parameters;
    void *gradients;              // of the parameters; each W adds to them
    const void *tied_parameters;  // of a tied head: the embedding's, which begin with the words,
    void *tied_gradients;         // and their gradients, which W adds to as well
    const void *input;            // NULL of an embedding
    void *output;                 // NULL of a head
    void *saved;
    void *held;                   // I and W; not of B
    const void *output_gradient;  // I and B; may be where `held` starts. NULL of a head
    void *input_gradient;         // I and B; NULL of an embedding
    const void *skip;             // of a sum: the other input,
    void *skip_gradient;          // and its gradient
    void *workspace;
    void *carried;                // of a part: of its whole sequences
    void *carried_gradient;       // I and B of a part

    // Which pass this is: dropout depends on nothing else.
    uint64_t seed, step;
    uint32_t micro_batch;
    uint32_t split, splits;  // which part, of how many; 0 or 1: all of the sequence
    bool training;  // false: nothing is dropped

    const int32_t *tokens;   // device; F of an embedding; those of the part
    const int32_t *targets;  // device; F of a head
    float loss_scale;        // F of a head: one over the number of samples of the whole step
    float gradient_scale;    // F of a head: what its gradients are multiplied by besides, in fp16; 0: nothing
    bool keeps_logits;       // F of a head: they stay for layer_logits(), and no backward may follow. Otherwise their
                             // gradient is written over them
    float *loss;             // host; F of a head: the micro-batch's share of the loss, once the queue is
                             // done. NULL: not wanted
    const struct shard_sum *sum;  // of a shard. NULL: nothing is added, so that one may be measured by itself
    bool is_both;                 // set by layer_backward() for the kind: W finds what F saved
};

void layer_forward(const struct layer *layer, const struct layer_pass *pass);
void layer_backward(const struct layer *layer, const struct layer_pass *pass);
void layer_backward_input(const struct layer *layer, const struct layer_pass *pass);
void layer_backward_weight(const struct layer *layer, const struct layer_pass *pass);

// Of a head, behind a forward that keeps its logits, with what it has saved: a row's logits, on the device. They are
// `vocabulary` numbers.
const struct values *layer_logits(const struct layer *head, const void *saved, size_t row);

// --- parameters --------------------------------------------------------------------

enum tensor_start { START_ZERO, START_ONE, START_NORMAL };
// What a shard has of a tensor: all of it, or so many of its rows, or of its columns.
enum tensor_split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLUMNS };

struct tensor {
    const char *name;  // "qkv.weight"
    size_t rows, columns;
    size_t padding_rows, padding_columns;  // so many of these, the last ones: zeros, which have no gradient
    size_t padding_of_whole;  // of a shard whose columns are split: of those of the whole tensor
    uint64_t offset;  // of its first number among the layer's parameters
    enum tensor_start start;
    float deviation;  // of START_NORMAL
    bool decays;      // matrices do; biases and norms do not
    enum tensor_split split;
    size_t parts;     // of SPLIT_COLUMNS: so many tensors side by side, each of which is split: Q, K and V
};

// The layer's tensors in the order of their offsets; returns how many.
size_t layer_tensors(const struct layer *layer, struct tensor tensors[LAYER_TENSORS]);
uint64_t layer_parameter_count(const struct layer *layer);  // without padding

// Writes the initial parameters. They depend on the seed and the layer's index in
// its model, not on who initializes which layers where, nor on padding; gaps between
// tensors are 0.
void layer_initialize(const struct layer *layer, struct queue *queue, void *parameters, uint64_t seed);

#endif
