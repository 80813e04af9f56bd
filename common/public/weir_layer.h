// What the author of a trainer writes: layers, each with its sizes and functions, and perhaps an optimizer. weir.h
// includes this file.
#ifndef COMMON_PUBLIC_WEIR_LAYER_H
#define COMMON_PUBLIC_WEIR_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_error {
    int code;  // the exit code for a program: 1 the answer is no, 2 wrong input, 3 trouble of the machine
    char text[500];
};

// When a layer's backward needs its input: never, for W only, or for I and W.
enum weir_input_kept { WEIR_INPUT_KEPT_NONE, WEIR_INPUT_KEPT_WEIGHT, WEIR_INPUT_KEPT_BOTH };

// Most inputs that one layer may read. To read more, sum some of them in a layer of its own.
enum { WEIR_MOST_INPUTS = 8 };

// The data of one call of a layer. What a call does not use is NULL.
//
// In this table F is the forward, I the backward for the input, W the backward for the weights, and B both at once.
//
//                          F        I        W        B (full)
//     parameters           reads    reads    reads    reads
//     input                reads    reads*   reads*   reads*     * if input_kept says so
//     output               writes
//     saved                writes   reads             reads
//     output_gradient               reads             reads      NULL if the layer computes the loss
//     input_gradient                writes            writes     NULL for the first layer of the model, and with
//                                                                has_constant_inputs
//     held                          writes   reads               starts with the output's gradient,
//                                                                which is there already when I begins, and may
//                                                                be overwritten by I
//     gradients                              adds     adds       of the parameters, floats
//     tied_parameters, tied_gradients: the same for the layer that this one is tied to
//     state                reads**  reads**  reads**  reads**  ** in training only if state_reader says so
//     statistics           writes***                           *** sets all of it; NULL in an evaluation
//     workspace            scratch  scratch  scratch  scratch
//     loss                 writes                                if the layer computes it
//     auxiliary_loss       sets                                  if it has one; NULL if a forward is recomputed
//     metrics              adds                                  if it has metric_count; NULL if nobody counts
//
// Gradients are sums over the micro-batches of an update. Weir does not divide them. Under schedules that flush, the
// sum is over all micro-batches of an iteration, whatever replica or copy they ran on. Under asynchronous schedules
// it is over the micro-batches that a stage runs from one update to the next. If replicas, or the end of a run,
// change their number, the sum is scaled to the usual number.
//
// If gradients are to be those of the mean loss, the layer that computes the loss multiplies the gradient of its
// micro-batch's mean loss by `share`. The shares of an update add up to 1, whatever plan it runs by. So no layer needs
// to know how many micro-batches there are. If the last micro-batch of a step has fewer samples
// (weir_runtime_options.batch), its share is smaller, and `samples` says how many there are. The sizes of layers stay
// the same in such a micro-batch. The layer that reads the data decides what stands
// for missing samples. The layer that computes the loss gives them no gradient, and leaves them out of the loss.
//
// The field `loss` is the micro-batch's own loss; struct weir_result has the mean.
//
// A layer in the middle of the model may have an auxiliary loss (has_auxiliary_loss): deep supervision, the balance
// loss of a router, a penalty on activations. Training then minimizes the loss plus all auxiliary losses. The forward
// sets *auxiliary_loss as it is to count: if it has a weight, such as 0.01, the layer multiplies by it. If sequences
// come in parts, each part sets its own, and these are added up.
//
// The gradient is the layer's business, as that of the loss is. Its backward adds the gradient of share times
// *auxiliary_loss to what comes from above: in backward_input for the inputs, in backward_weight for the parameters.
// An example is a penalty on the input x, *auxiliary_loss = c * sum(x * x) / 2. With g, the gradient without it:
//
//     input_gradient[i] = g[i] + share * c * x[i];
//
// If several layers read an output, each writes a gradient of its own for it (floats), and Weir adds these up. It
// starts with the gradient of the last reader, adds that of the reader before it, and so on to the first. So the sum
// is the same bit for bit wherever the model is cut. First and last are by the order of the layers, or by the plan's
// own order if it has one.
struct weir_pass {
    // Which call this is. The layer's own data may depend on it, and dropout.
    // `queue` is the device's: weir_queue_stream() for a GPU; layers in C, which compute at once, ignore it.
    void *queue;
    uint64_t step;
    uint32_t micro_batch;  // within the step
    // The number of micro-batches that this one's update adds up, and the part of the update's mean loss that this one
    // is. (At the end of an asynchronous run an update may have fewer. Weir then scales its sum.) In an evaluation they
    // are the number of all micro-batches, and an equal part.
    uint32_t micro_batches;
    float share;
    uint64_t samples;   // of this micro-batch, if weir_runtime_options.micro_batch says how many a full one has; else 0
    bool is_training;   // false in an evaluation: no backward and no update follow
    bool is_rerun;      // a forward that is recomputed for its backward, after a first one of the same micro-batch
    // A schedule may pass sequences through in parts. The number of this part is `split`, and there are `splits` (0 or
    // 1: whole sequences).
    //
    // Each part has its own input, output, gradients of these, and saved. The size of each is the part's share of the
    // layer's size, rounded down to a multiple of 256. For saved it is the share of saved_bytes without
    // shared_by_parts_bytes. Parts come forward in order and backward in reverse.
    uint32_t split, splits;
    uint32_t copy;  // which copy of the layer this is, if a schedule has several (chimera, dualpipe); otherwise 0
    // loss scaling of built-in layers in fp16, forward and backward: the loss's gradient is multiplied by it; 0: no
    // scaling
    float loss_scale;

    const void *parameters, *tied_parameters;
    void *gradients, *tied_gradients;
    // In backwards of a layer with touched_rows: `gradients` is a list of rows, with room for this many. 0: they are as
    // large as the parameters
    uint64_t gradient_rows;
    // A layer that reads several inputs finds them in `inputs`, in the order of its own `inputs`. The first of them is
    // also `input`.
    union {
        const void *input;
        const void *inputs[WEIR_MOST_INPUTS];
    };
    union {
        void *input_gradient;
        void *input_gradients[WEIR_MOST_INPUTS];
    };
    void *output;
    const void *output_gradient;
    void *saved;
    void *held;
    const void *state;
    void *statistics;
    // What the parts of the micro-batch's sequences have in common, such as the KV cache of attention; and, in
    // backwards, its gradient. NULL for whole sequences.
    void *shared_by_parts, *shared_by_parts_gradient;
    void *workspace;
    float *loss;  // of this micro-batch; NULL if a forward is recomputed
    // The layer's own loss of this micro-batch, in host memory, as it counts in the whole loss. NULL in backwards, if a
    // forward is recomputed, and without has_auxiliary_loss
    float *auxiliary_loss;
    // metric_count counts in the host's memory, to which the forward adds: how many were right, a histogram of scores.
    // Counts are whole numbers, so their sums have the same bits by any plan. NULL if a forward is recomputed
    uint64_t *metrics;
};

// A named part of a layer's parameters in checkpoints: `rows` rows of `columns` floats (0 rows: a vector).
struct weir_tensor {
    const char *name;  // "weight"
    uint64_t rows, columns;
    uint64_t first_byte;
};

// Parameters [first, end), as offsets in bytes into the layer's own parameters.
struct weir_range {
    uint64_t first, end;
};

// State without a gradient, such as the running mean of a batch norm. The optimizer, clipping, ZeRO and loss scaling
// leave it alone.
//
// A forward never changes the state. It sets the statistics of its micro-batch (the mean of its batch), the same bits
// whenever it runs. The layer's `fold` then makes the next state from those of all micro-batches that an update takes
// in, replicas and copies included:
//
//     F 0   F 1   B 0   F 2   B 1  B 2  STEP
//     set   set         set             fold(state, statistics of 0, 1, 2)
//
// So the state has the same bits by any plan, as far as the inputs of the layer have, whatever is recomputed or
// resumed. Every copy of a layer folds the same. Under asynchronous schedules each update folds its own micro-batches:
// a momentum is then one per update, not per batch. A step that loss scaling skips still folds.
//
// Who reads the state:
//
// * Evaluation (the default): `state` is NULL in training. Any schedule will do.
// * Training as well, such as a router's bias: its forwards and backwards get the state as the last update left it.
//   Schedules without a flush are refused.
//
// A fold may also read the layer's parameters, as the update has left them (fold_reads_parameters). So a layer keeps an
// average of its weights, which evaluations use (Polyak averages, exponential moving averages):
//
//     state = d state + (1 - d) parameters
//
// Its initialize_state then writes what its initialize writes. Plans that keep parameters on the host, or shard them
// over replicas, are refused.
//
// Layers with state take whole sequences and cannot be split over a tensor-parallel group.
enum weir_state_reader { WEIR_STATE_READ_BY_EVALUATION, WEIR_STATE_READ_BY_TRAINING };

// One fold: the statistics of `count` micro-batches (1 or more), ascending by their number within the step. They are
// NULL if the layer has none. `state` is read and written. All are on the device, and the queue has everything that
// they wait for. The arrays are there for the call only.
struct weir_fold {
    void *queue;
    void *state;
    const void *parameters;  // the newest, behind the update; NULL without fold_reads_parameters
    const void *const *statistics;
    const uint32_t *micro_batches;
    uint32_t count;
};

// A layer. Each layer feeds the next one, unless `inputs` says otherwise. The first layer has no input and finds its
// data by itself, from step and micro-batch. The last layer computes the loss and has no output; the output of every
// other layer is read by some layer.
//
// The same call with the same data must give the same bits. Several threads may call at a time, but never for the
// same layer and copy. If a layer keeps something behind `self` between calls, it keeps it per copy.
struct weir_layer {
    const char *name;  // needed, unique in the model
    const char *kind;  // needed: what it is, for people
    uint64_t parameter_bytes;
    uint64_t output_bytes;              // its output, per micro-batch
    uint64_t saved_bytes;               // kept from F until B or I, without the input
    // The number of parts in which the layer's sequences may come; any divisor of it is possible, too. 0: whole
    // sequences only. A profile says that there are sequences if all its layers take parts.
    //
    // shared_by_parts_bytes is the part of saved_bytes that the parts have in common: in attention the KV cache, to
    // which later parts attend. Its gradient has the same size. Later parts add to this gradient, and the part itself,
    // which goes back after them, reads it. Both are there from a micro-batch's first F to its last backward, also if
    // forwards are recomputed.
    uint32_t most_splits;
    uint64_t shared_by_parts_bytes;
    enum weir_input_kept input_kept;
    uint64_t held_for_weight_bytes;     // kept from I until W, besides the input; begins with the output's gradient
    uint64_t workspace_bytes;           // of F
    uint64_t backward_workspace_bytes;  // of B, I and W
    uint64_t flops;                     // of F; 0: not counted
    const struct weir_range *undecayed;  // parameters without weight decay: biases, norms
    size_t undecayed_count;
    // For tables of vectors of ids: the most rows of each of `tensors` that a micro-batch has a gradient of. 0: all
    // parameters have one. A plan that can have it (docs/memory.md) makes `gradients` a list of rows:
    //
    //     count      1 number              how many rows are in the list
    //     numbers    gradient_rows         which row each of them is, counted over all tensors
    //     places     rows of all tensors   where each row is in the list
    //     sums       gradient_rows times the columns of a row, floats
    //
    // All but the sums are of 32 bits, and each of the four begins at a multiple of 256 bytes. A row is in the list if
    // its place is below the count and has its number. W adds to the sums of such a row, and takes a place for any
    // other. The tensors have equal columns and no gaps, they do not decay, and no layer is tied to theirs. I and W
    // must not read parameters: without a flush these may be newer than those of the micro-batch's forward.
    uint64_t touched_rows;
    // Unless it is 0, the rows of touched_rows are not those of tensors. All parameters together are rows of so many
    // columns then, touched_rows is the most of all of them, and the first `summed_rows` are always in the list, as
    // its first.
    uint64_t row_columns, summed_rows;
    // The learning rate of this layer's updates is the run's rate times this. 0: the run's rate.
    float rate_factor;
    // A frozen layer's parameters stay as they are: nothing updates them, decay included, and the optimizer's state for
    // them stays as it is. Its gradients are computed, and do not count in the norm that clips. Plans count a frozen
    // layer's memory as any other's.
    bool is_frozen;
    // No gradient of what the layer reads is wanted: images, tokens, the outputs of frozen layers. Its backwards find
    // NULL in input_gradients. A layer whose output nobody wants a gradient of has no backward: neither time nor memory
    // is planned for one, and no message. Such a layer has no parameters of its own, or they are frozen.
    //
    // The layer and those that it reads are on one stage: profiles of the layers say so (no_cut_after).
    bool has_constant_inputs;
    // An earlier layer of the model whose parameters this layer reads as well, and adds gradients to (tied
    // parameters): for example a head that uses the embedding's weights. If both layers are on one stage, the
    // parameters are stored once. A plan that allows them on different stages (weir_partition_options.tied) gives the
    // other stage a copy. The gradients of both are then added up before an update. NULL: none.
    const struct weir_layer *tied;
    // What checkpoints store of the parameters, ascending and without overlap; the rest is zero when a run resumes.
    // NULL: all of them, as one vector "parameters". Lars and lamb measure their steps per tensor, and train nothing
    // else.
    const struct weir_tensor *tensors;
    size_t tensor_count;
    // State without a gradient: whole floats; see enum weir_state_reader. `states` names its parts in checkpoints, by
    // names that `tensors` has not. NULL: one vector "state".
    uint64_t state_bytes, statistics_bytes;
    enum weir_state_reader state_reader;
    bool fold_reads_parameters;
    const struct weir_tensor *states;
    size_t state_count;
    // The size of weir_pass.metrics, if the layer computes the loss; 0: it counts nothing
    uint32_t metric_count;
    // The layer sets weir_pass.auxiliary_loss, and its backwards add that loss's gradient. The last layer has none: it
    // has the loss. Layers that have one cannot be split over a tensor-parallel group.
    bool has_auxiliary_loss;
    void *self;
    // All three are needed. If there is nothing to do, give a function that returns true.
    bool (*forward)(void *self, const struct weir_pass *pass, struct weir_error *error);
    bool (*backward_input)(void *self, const struct weir_pass *pass, struct weir_error *error);
    bool (*backward_weight)(void *self, const struct weir_pass *pass, struct weir_error *error);
    // I and W at once, with exactly the result of I and then W. NULL: Weir calls those two.
    bool (*backward)(void *self, const struct weir_pass *pass, struct weir_error *error);
    // Writes the first parameters, the same each time. NULL: parameters start as zeroes.
    bool (*initialize)(void *self, void *queue, void *parameters, struct weir_error *error);
    // The same for the state; and, needed with a state, its next value. No forward runs meanwhile.
    bool (*initialize_state)(void *self, void *queue, void *state, struct weir_error *error);
    bool (*fold)(void *self, const struct weir_fold *fold, struct weir_error *error);
    // The earlier layers of this model that it reads, each once, `input_count` of them: a sum of two branches, a skip
    // connection. An output that crosses several cuts is sent from stage to stage, once. NULL: the layer before it.
    const struct weir_layer *const *inputs;
    size_t input_count;
};

// An update by an optimizer of your own: from a layer's parameters to their next version. Frozen layers have none. If
// the plan has the optimizer on the host, all of this is in host memory, and the queue does each thing at once. On GPUs
// such plans are refused.
struct weir_update {
    void *queue;
    const struct weir_layer *layer;
    uint64_t number;          // number of the layer's update, from 1
    float rate;               // the run's, times the layer's rate_factor
    const float *parameters;
    float *next;              // receives the new parameters; may be `parameters`
    const float *gradients;   // clipped, if that is asked for
    // `count` floats each, zero before the first update: one if planned for "momentum", two for "adamw"; else NULL
    float *state[2];
    uint64_t count;           // of the layer's parameters
};

#ifdef __cplusplus
}
#endif

#endif
