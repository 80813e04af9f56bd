// Weir for authors of trainers: profile, plan and run layers of your own.
//
// A layer is its sizes and a few functions (struct weir_layer). Weir owns all
// memory: each call is handed the places it may read and write, computes, and
// returns; it allocates nothing and talks to nobody.
//
//     struct weir_layer layers[] = { ... };          your functions, in order
//
// Sizes are bytes, times nanoseconds. Functions return false, or NULL, when
// something goes wrong and leave one sentence in `struct weir_error`. Strings and
// arrays given to Weir are borrowed for as long as the object made from them.
#ifndef RUNTIME_WEIR_H
#define RUNTIME_WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_error {
    int code;  // what a program should exit with: 1 the answer is no, 2 input, 3 the machine
    char text[500];
};

// Whether a layer's backward needs its input: never, for W only, for I and W.
enum weir_input_kept { WEIR_INPUT_KEPT_NONE, WEIR_INPUT_KEPT_WEIGHT, WEIR_INPUT_KEPT_BOTH };

// Where one call finds its data. What a call does not use is NULL.
//
//                          F        I        W        B (full)
//     parameters           reads    reads    reads    reads
//     input                reads    reads*   reads*   reads*     * if input_kept says so
//     output               writes
//     saved                writes   reads             reads
//     output_gradient               reads             reads      NULL where the layer computes the loss
//     input_gradient                writes            writes     NULL for the first layer of the model
//     held                          writes   reads               begins with the output's gradient,
//                                                                which is there already when I begins
//     gradients                              adds     adds       of the parameters, over micro-batches
//     workspace            scratch  scratch  scratch  scratch
//     loss                 writes                                where the layer computes it
struct weir_pass {
    void *queue;          // of the device; layers that compute at once, in C, need not look at it
    uint64_t step;
    uint32_t micro_batch;  // within the step
    const void *parameters;
    const void *input;
    void *output;
    void *saved;
    const void *output_gradient;
    void *input_gradient;
    void *held;
    void *gradients;
    void *workspace;
    float *loss;  // of this micro-batch; NULL where a forward is run again
};

// Parameters [first, end), as bytes of the layer's own.
struct weir_range {
    uint64_t first, end;
};

struct weir_layer {
    const char *name;  // unique in the model
    const char *kind;  // what it is, for people
    uint64_t parameter_bytes;
    uint64_t output_bytes;              // what it hands on, per micro-batch
    uint64_t saved_bytes;               // kept from F until B or I, without the input
    enum weir_input_kept input_kept;
    uint64_t held_for_weight_bytes;     // kept from I until W besides the input, the output's gradient first
    uint64_t workspace_bytes;           // of F
    uint64_t backward_workspace_bytes;  // of B, I and W
    uint64_t flops;                     // of F; 0 where nobody counted
    const struct weir_range *undecayed;  // parameters without weight decay: biases, norms
    size_t undecayed_count;
    void *self;
    bool (*forward)(void *self, const struct weir_pass *pass, struct weir_error *error);
    bool (*backward_input)(void *self, const struct weir_pass *pass, struct weir_error *error);
    bool (*backward_weight)(void *self, const struct weir_pass *pass, struct weir_error *error);
    // Both at once, with the very result of I and then W. NULL: Weir calls these two.
    bool (*backward)(void *self, const struct weir_pass *pass, struct weir_error *error);
    // Writes the first parameters, the same each time.
    bool (*initialize)(void *self, void *queue, void *parameters, struct weir_error *error);
};

#ifdef __cplusplus
}
#endif

#endif
