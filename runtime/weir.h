// Weir for authors of trainers: profile, plan and run layers of your own.
//
//     struct weir_layer layers[] = { source, block, block, loss };  // your functions, in order
//
//     profile = weir_profile_layers(layers, 4, &(struct weir_measuring){ .model = "mine" }, &error);
//     plan = weir_partition(profile, &(struct weir_planning){ .cluster = "2 devices, 1GiB, 10GB/s 1us",
//                                                             .schedule = "1f1b", .micro_batches = 8 }, &error);
//     runtime = weir_runtime_create(plan, layers, 4, &(struct weir_running){ .rate = 0.01f }, &error);
//     while (weir_runtime_step(runtime, &result, &error)) ...
//
// A layer is its sizes and a few functions (struct weir_layer). Weir owns all
// memory: each call is handed the places it may read and write, computes, and
// returns; it allocates nothing and talks to nobody.
//
// Sizes are bytes, times nanoseconds. Functions return false, or NULL, when
// something goes wrong and leave one sentence in `struct weir_error`; start with
// all zeroes, the first error stays. Strings and arrays given to Weir are borrowed
// for as long as the object made from them. A pointer that a function returns is
// yours, to be given to the _free() of its kind, which accepts NULL. Of a struct of
// options, fields that are 0 or NULL mean what is usual.
#ifndef RUNTIME_WEIR_H
#define RUNTIME_WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// "0.1.0"
const char *weir_version(void);

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
//     tied_parameters, tied_gradients: the same of the layer that this one is tied to
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
    const void *tied_parameters;
    void *tied_gradients;
    uint32_t copy;  // which copy of the layer this is, where a schedule has several (chimera, dualpipe); otherwise 0
};

// Parameters [first, end), as bytes of the layer's own.
struct weir_range {
    uint64_t first, end;
};

// A layer. Each feeds the next; the first has no input and finds its data by itself,
// from step and micro-batch; the last computes the loss and hands nothing on. The
// same call with the same data gives the same bits. Several threads call at a time,
// never for the same layer and copy: what a layer keeps behind `self` from call to
// call it keeps per copy.
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
    // An earlier layer of the model whose parameters this one reads, and adds gradients to, as
    // well: a head that takes the embedding's words. They are there once where the two layers are
    // on one stage; a plan that lets them be apart (tied_apart) gives the other stage a copy, and
    // the gradients of both are added up before an update. NULL: none.
    const struct weir_layer *tied;
    void *self;
    bool (*forward)(void *self, const struct weir_pass *pass, struct weir_error *error);
    bool (*backward_input)(void *self, const struct weir_pass *pass, struct weir_error *error);
    bool (*backward_weight)(void *self, const struct weir_pass *pass, struct weir_error *error);
    // Both at once, with the very result of I and then W. NULL: Weir calls these two.
    bool (*backward)(void *self, const struct weir_pass *pass, struct weir_error *error);
    // Writes the first parameters, the same each time.
    bool (*initialize)(void *self, void *queue, void *parameters, struct weir_error *error);
};

// --- profiles: what layers cost ---------------------------------------------------

struct weir_profile;

struct weir_measuring {
    const char *model;     // a name for the record
    uint64_t micro_batch;  // samples in one, for the record
    uint64_t repeats;      // samples of each time, at least 20
};

// Runs the layers on this machine, on buffers that begin as zeroes, and measures.
struct weir_profile *weir_profile_layers(const struct weir_layer *layers, size_t count,
                                         const struct weir_measuring *measuring, struct weir_error *error);
struct weir_profile *weir_profile_load(const char *path, struct weir_error *error);
bool weir_profile_save(const struct weir_profile *profile, const char *path, struct weir_error *error);
void weir_profile_free(struct weir_profile *profile);

// --- plans: which layers on which rank ----------------------------------------------

struct weir_plan;

struct weir_planning {
    const char *cluster;     // a file, or a line: "4 devices, 80GiB, 300GB/s 3us"
    const char *schedule;    // any that `weir schedule` lists: "gpipe", "1f1b", "zb-h1", ...
    uint32_t micro_batches;  // of an iteration
    uint32_t ranks;          // usual: one per device of the cluster
    const char *optimizer;   // "sgd" (usual), "momentum", "adamw"
    uint32_t chunks;         // stages on each rank; usual: as the schedule has it
    bool tied_apart;         // tied layers may be on different stages, under schedules that flush
};

// The plan with the least simulated time that fits the devices' memory, with layers
// run again where that is needed. Code 1 when nothing fits: which stage lacks how
// much.
struct weir_plan *weir_partition(const struct weir_profile *profile, const struct weir_planning *planning,
                                 struct weir_error *error);
struct weir_plan *weir_plan_load(const char *path, struct weir_error *error);
bool weir_plan_save(const struct weir_plan *plan, const char *path, struct weir_error *error);
void weir_plan_free(struct weir_plan *plan);

struct weir_stage {
    uint32_t first, end;         // layers
    uint32_t recomputed_layers;  // of them
    uint64_t peak_bytes;         // of memory, which its rank allocates at once; stages on one rank share a workspace
};
size_t weir_plan_stage_count(const struct weir_plan *plan);
struct weir_stage weir_plan_stage(const struct weir_plan *plan, size_t stage);

// The plan as a table for people; one iteration of it simulated, as the document
// "weir.simulation". Free them with free().
char *weir_plan_text(const struct weir_plan *plan, struct weir_error *error);
char *weir_simulate(const struct weir_plan *plan, struct weir_error *error);

// --- running -------------------------------------------------------------------------

struct weir_runtime;

struct weir_running {
    float rate;                   // of learning; usual: 0.001
    float momentum;               // of momentum; usual: 0.9
    float beta1, beta2, epsilon;  // of adamw; usual: 0.9, 0.999, 1e-8
    float decay;                  // of weights; usual: none
    uint32_t runs;         // asynchronous schedules: a step runs this many times the plan's micro-batches; usual: 1
    uint64_t deadline_ns;  // of one wait for another rank; usual: ten minutes
    bool pin;              // each rank's thread to a core of its own
};

// A thread per rank of the plan, and all memory. Plan and layers must outlive it.
struct weir_runtime *weir_runtime_create(const struct weir_plan *plan, const struct weir_layer *layers, size_t count,
                                         const struct weir_running *running, struct weir_error *error);
void weir_runtime_free(struct weir_runtime *runtime);

struct weir_result {
    double loss;             // mean over the micro-batches
    uint64_t iteration_ns;
    double makespan_bubble;  // the part of all ranks' time in which they did not compute
    uint32_t slowest_stage;
    uint64_t allocated_bytes;  // over all ranks
};

// One pass through the schedule, updates included. `result` may be NULL. After a
// failure every further step fails with the same error.
bool weir_runtime_step(struct weir_runtime *runtime, struct weir_result *result, struct weir_error *error);

void weir_runtime_set_rate(struct weir_runtime *runtime, float rate);

// Of the last step: the loss of each micro-batch (borrowed until the next step), and
// when everything happened, as Chrome trace events (free them with free()).
const float *weir_runtime_losses(const struct weir_runtime *runtime, uint32_t *count);
char *weir_runtime_trace(const struct weir_runtime *runtime, struct weir_error *error);

// Copies a layer's newest parameters into parameter_bytes of the host's memory.
bool weir_runtime_read(const struct weir_runtime *runtime, uint32_t layer, void *parameters,
                       struct weir_error *error);

#ifdef __cplusplus
}
#endif

#endif
