// Weir for authors of trainers: profile, plan and run layers of your own.
//
//     struct weir_layer layers[] = { source, block, block, loss };  // your functions, in order
//
//     // while you write them: which function does what it may not, where the loss layer divides by 8 micro-batches
//     weir_layers_check(layers, 4, &(struct weir_guarding){ .loss_share = 1.0f / 8 }, &error);
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
// all zeroes, the first error stays, so calls may follow each other unasked: one that is given NULL for an object fails. Strings and arrays given to Weir are borrowed
// for as long as the object made from them. A pointer that a function returns is
// yours, to be given to the _free() of its kind, which accepts NULL; that of a text
// is weir_text_free(), or free(). Of a struct of options, fields that are 0 or NULL
// mean what is usual, and NULL for all of it means that of every field; where one of
// them says "needed", the error names the field: `planning.schedule is needed: ...`.
//
// Documents (docs/formats) are read from a text of `length` bytes; `name` is what
// errors call it (NULL: "the text"). They are written as a text that ends in a NUL.
#ifndef RUNTIME_WEIR_H
#define RUNTIME_WEIR_H

#include <signal.h>
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

void weir_text_free(char *text);

// "80GiB", "12.5ms": bytes and nanoseconds of a quantity with a unit.
bool weir_parse_bytes(const char *text, uint64_t *bytes, struct weir_error *error);
bool weir_parse_time(const char *text, uint64_t *ns, struct weir_error *error);

// For calls that take long: who is told how far they are, and how they are stopped. A call that is stopped
// returns the best it has so far, which says `stopped`, or the error that there is nothing yet.
struct weir_watch {
    // "12 of 72 plans": ten times a second at most, by one thread at a time, though not always the caller's. Or NULL.
    void (*progress)(void *self, const char *words);
    void *self;
    const volatile sig_atomic_t *stop;  // set it to 1 from anywhere, a signal handler too; or NULL
};

// What a call has found, as a document and as people read it.
struct weir_answer {
    char *document;
    char *text;
};
void weir_answer_clear(struct weir_answer *answer);

// Whether a layer's backward needs its input: never, for W only, for I and W.
enum weir_input_kept { WEIR_INPUT_KEPT_NONE, WEIR_INPUT_KEPT_WEIGHT, WEIR_INPUT_KEPT_BOTH };

// Of one layer. Who reads more adds some of them up in a layer of their own.
enum { WEIR_MOST_INPUTS = 8 };

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
//                                                                which is there already when I begins, and may
//                                                                be overwritten by I
//     gradients                              adds     adds       of the parameters, floats
//     tied_parameters, tied_gradients: the same of the layer that this one is tied to
//     workspace            scratch  scratch  scratch  scratch
//     loss                 writes                                where the layer computes it
//
// Gradients are sums over the micro-batches of an update, and nobody divides them: under schedules that flush, over all
// of an iteration, on whatever replica or copy; under asynchronous ones over those that a stage runs from one update to
// the next (where replicas, or the end of a run, make them others, they are scaled to as many). The layer that computes
// the loss divides the gradient it gives (input_gradient) by their number, if they are to be those of the mean; or, where
// the last micro-batch of a step has fewer samples (weir_running.batch), what each sample gives by the number of all.
// Layers keep their sizes there: what stands in the places of missing samples is theirs, as data are, and must give no
// gradient. `loss` is the micro-batch's own; struct weir_result has the mean of them.
//
// Of what several layers read, each sets a gradient of its own (of floats), and Weir adds them up: that of the last
// reader first, then to this that of the one before it, up to the first. So it is the same to the bit wherever the model
// is cut. Last and first are by the layers' order, or the plan's where it has one of its own.
struct weir_pass {
    void *queue;          // of the device: weir_queue_stream() of a GPU's; layers in C, which compute at once, ignore it
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
    // Where a schedule passes sequences through in parts: which one this is, of how many (0 or 1: all of them); what the
    // micro-batch's parts have in common; and, in backwards, its gradient. A part's input, output, gradients of these and
    // saved are its own: of each size the layer names, its share (of saved_bytes without carried_bytes), rounded down to
    // a multiple of 256. Parts come forward in order and backward in reverse.
    uint32_t split, splits;
    void *carried, *carried_gradient;
    float loss_scale;  // in fp16, of built-in layers, forward and backward: what the gradient of the loss is multiplied
                       // by; 0: nothing
    uint32_t copy;  // which copy of the layer this is, where a schedule has several (chimera, dualpipe); otherwise 0
    // Of a layer that reads several: each, in the order of its `inputs`; `input` and `input_gradient` are the first.
    const void *inputs[WEIR_MOST_INPUTS];
    void *input_gradients[WEIR_MOST_INPUTS];
};

// The cudaStream_t of a pass's or an update's queue on a GPU, for kernels of one's own, which work in its order; NULL on
// a CPU.
void *weir_queue_stream(void *queue);

// A part of a layer's parameters, as checkpoints name it: `rows` rows (0: a vector) of `columns` floats.
struct weir_tensor {
    const char *name;  // "weight"
    uint64_t rows, columns;
    uint64_t first_byte;
};

// Parameters [first, end), as bytes of the layer's own.
struct weir_range {
    uint64_t first, end;
};

// A layer. Each feeds the next, unless `inputs` says otherwise; the first has no input and finds its data by itself,
// from step and micro-batch; the last computes the loss and hands nothing on, and every other one is read. The
// same call with the same data gives the same bits. Several threads call at a time,
// never for the same layer and copy: what a layer keeps behind `self` from call to
// call it keeps per copy.
struct weir_layer {
    const char *name;  // needed, unique in the model
    const char *kind;  // needed: what it is, for people
    uint64_t parameter_bytes;
    uint64_t output_bytes;              // what it hands on, per micro-batch
    uint64_t saved_bytes;               // kept from F until B or I, without the input
    // In how many parts its sequences may come, or in any number that divides it; 0: whole only. A profile says that there
    // are sequences where all its layers take parts. `carried_bytes` are those of saved_bytes that parts have in common:
    // of attention what later parts attend to, and its gradient, which they add to and the part itself reads, as the last
    // that goes back. They are there from a micro-batch's first F to its last backward, also where forwards are run again.
    uint32_t most_splits;
    uint64_t carried_bytes;
    enum weir_input_kept input_kept;
    uint64_t held_for_weight_bytes;     // kept from I until W besides the input, the output's gradient first
    uint64_t workspace_bytes;           // of F
    uint64_t backward_workspace_bytes;  // of B, I and W
    uint64_t flops;                     // of F; 0 where nobody counted
    const struct weir_range *undecayed;  // parameters without weight decay: biases, norms
    size_t undecayed_count;
    // An earlier layer of the model whose parameters this one reads, and adds gradients to, as
    // well: a head that takes the embedding's words. They are there once where the two layers are
    // on one stage; a plan that lets them be apart (weir_planning.tied) gives the other stage a copy, and
    // the gradients of both are added up before an update. NULL: none.
    const struct weir_layer *tied;
    // What checkpoints keep of the parameters, ascending and apart; the rest is zero when a run goes on. NULL: all
    // of them, as one vector "parameters". Lars and lamb measure their steps by these, and train nothing else.
    const struct weir_tensor *tensors;
    size_t tensor_count;
    void *self;
    // Needed, all three; where there is nothing to do, one that returns true.
    bool (*forward)(void *self, const struct weir_pass *pass, struct weir_error *error);
    bool (*backward_input)(void *self, const struct weir_pass *pass, struct weir_error *error);
    bool (*backward_weight)(void *self, const struct weir_pass *pass, struct weir_error *error);
    // Both at once, with the very result of I and then W. NULL: Weir calls these two.
    bool (*backward)(void *self, const struct weir_pass *pass, struct weir_error *error);
    // Writes the first parameters, the same each time. NULL: they begin as zeroes.
    bool (*initialize)(void *self, void *queue, void *parameters, struct weir_error *error);
    // The layers of this model before it that it reads from, each once, `input_count` of them: a sum of two branches, a
    // skip connection. What crosses several cuts is handed from stage to stage, once. NULL: the one before it.
    const struct weir_layer *const *inputs;
    size_t input_count;
};

// --- layers: whether they keep to that ----------------------------------------------

struct weir_guarding {
    float loss_share;      // gradients are those of so much of a micro-batch's loss: 1 / micro_batches, or usual: 1
    bool other_numbers;    // activations or parameters are no floats: NaN and differences are not looked at
    bool other_gradients;  // gradients are meant to be others than forward's: differences are not looked at
};

// Runs every function of every layer on this machine, a dozen times and more, on buffers of exactly the sizes that the
// layer names. Code 1 with the first that is wrong, in a sentence that names layer, function and field:
//
//   * it writes beyond a buffer (looked for in 64 KiB or the buffer's size on both sides), changes what it may only
//     read, or touches memory that is not there: SIGSEGV and SIGBUS are caught meanwhile, one check at a time;
//   * it gives other bits when called again, after another micro-batch, or as a forward without `loss`;
//   * it depends on what has no meaning for it: what it is to write, the workspace, an input that input_kept does not
//     keep, bytes of `saved` and `held` that nobody wrote, memory around buffers. All of that is filled with NaN first;
//   * it leaves a part of `output` or `input_gradient` unwritten (but for fewer than 256 bytes at the end, to which
//     sizes may be rounded up), or gives NaN;
//   * gradients are set, where they are to be added to;
//   * `backward` gives other bits than backward_input and backward_weight;
//   * gradients are not those of forward: an eighth of the numbers after the other, they agree to 2 % with differences
//     of the output (of the loss, where the layer computes it), as far as those are exact in floats.
//
// For the time when layers are written: a wild write can destroy more than this finds. `guarding` may be NULL.
bool weir_layers_check(const struct weir_layer *layers, size_t count, const struct weir_guarding *guarding,
                       struct weir_error *error);

// --- profiles: what layers cost ---------------------------------------------------

struct weir_profile;

struct weir_measuring {
    const char *model;     // a name for the record
    uint64_t micro_batch;  // samples in one, for the record
    uint64_t repeats;      // samples of each time, at least 20
};

// Runs the layers on this machine, on buffers that begin as zeroes, and measures. `measuring` may be NULL.
struct weir_profile *weir_profile_layers(const struct weir_layer *layers, size_t count,
                                         const struct weir_measuring *measuring, struct weir_error *error);
struct weir_profile *weir_profile_load(const char *path, struct weir_error *error);
struct weir_profile *weir_profile_read(const char *text, size_t length, const char *name, struct weir_error *error);
bool weir_profile_save(const struct weir_profile *profile, const char *path, struct weir_error *error);
char *weir_profile_document(const struct weir_profile *profile, struct weir_error *error);

// A table for people; and what looks wrong with it, a line each, in which "untrusted" means that no plan
// made of it can be believed.
char *weir_profile_text(const struct weir_profile *profile, struct weir_error *error);
char *weir_profile_lint(const struct weir_profile *profile, struct weir_error *error);
void weir_profile_free(struct weir_profile *profile);

// What a framework has otherwise: as it has it, or not.
enum weir_choice { WEIR_AS_USUAL, WEIR_YES, WEIR_NO };

// What a transformer would cost on devices that are not here (docs/estimate.md). What is not said is as a framework has it:
// `like`, which docs/estimate.md lists, "megatron" (usual).
struct weir_estimating {
    const char *device;  // needed: a built-in one ("h100-sxm"), a file or a document's text
    uint32_t tensor, context, expert, data;  // degrees; usual: 1
    uint32_t micro_batch;   // sequences; usual: 1
    uint32_t sequence;      // tokens in each; usual: as the model's file says
    const char *dtype;      // of activations and weights; usual: "bf16"
    const char *products;   // of what products read, "fp8"; usual: as dtype
    const char *attention;  // "fused", "flash", "plain", "again"
    const char *overlap;    // messages behind products: "nothing", "backward", "all"
    const char *shard;      // what devices of `data` hold once: "none" (usual), "optimizer", "gradients", "weights"
    const char *dispatch;   // tokens to their experts: to "each", or "once" to a group of devices
    const char *loss;       // of the logits: "inplace", "plain" (PyTorch's cross_entropy), "fused", "kernel", "compiled"
    enum weir_choice sequence_parallel, graphs, compiled, hidden_experts;
    bool blocking;
    bool whole_blocks;      // no cut between a block's attention and its MLP
    // Other ways to run each layer, over groups of devices, for plans to choose among (weir_planning.choose_variants):
    // "2,tensor4sp,context2,expert8,tensor4+context2", or "all"; usual: none.
    const char *variants;
    const char *again;      // of "norms", "activations", "latent": not kept but computed again, "norms,latent"
    const char *like;       // the framework: "megatron" (usual), "nemo", "torchtitan", ..
    uint32_t within;        // `shard` is within groups of so many devices, which are alike; usual: all of them
    uint32_t gradient_bytes;  // of a gradient, 2 or 4; usual: as the framework has it
    bool without_mtp;       // without multi-token prediction, where `config` has it
};

// `config`: the path of a Hugging Face config.json, or its text. Hands out where the time goes and the profile; either
// may be NULL.
bool weir_estimate(const char *config, const struct weir_estimating *estimating, struct weir_answer *answer,
                   struct weir_profile **profile, struct weir_error *error);

// --- plans: which layers on which rank ----------------------------------------------

struct weir_plan;

struct weir_numbers {
    const uint32_t *at;
    size_t count;
};

// A layer that is to be on a stage.
struct weir_pin {
    const char *layer;
    uint32_t stage;
};

struct weir_schedule;

struct weir_planning {
    const char *cluster;     // needed; a line: "4 devices, 80GiB, 300GB/s 3us"; a file; or a document's text
    const char *schedule;    // needed; any that `weir schedule` lists: "gpipe", "1f1b", "zb-h1", ...
    // Instead of it, this very order, with its ranks and micro-batches: loaded, or searched for (further down). It
    // flushes; STEPs are added where it has none, and messages placed anew.
    const struct weir_schedule *order;
    uint32_t micro_batches;  // needed without an order; of an iteration
    uint32_t ranks;          // usual: those of `replicas` or `devices`, or else one per device of the cluster
    // "adamw" (usual), "sgd", "momentum", "adam", "lamb", "lars", "adafactor", "adam8bit", "adam1bit"
    const char *optimizer;
    uint32_t chunks;         // stages on each rank; usual: as the schedule has it
    const char *tied;        // tied layers: "together" or "apart"; usual: apart where they lend and the schedule flushes
    uint64_t memory_bytes;   // of each device, instead of what the cluster says
    // How states are held (docs/memory.md); "gradients" and "weights" for planning alone.
    const char *shard;   // what replicas hold once between them: "none" (usual), "optimizer", "gradients", "weights"
    bool optimizer_on_host, activations_on_host;
    uint32_t window;     // layers of a stage with weights on the device; usual: all, or of shared ones 1
    uint64_t step_rate;  // bytes per second of an update; usual: it takes no time
    // What the search may choose beyond cuts and recomputation; variants, of layers of one's own, for planning alone.
    bool choose_replicas, choose_devices, choose_fewer_devices, choose_variants;
    bool own_order;      // a graph's layers stay in the order that the profile has; usual: all orders are searched
    // Only plans that this framework can be told: "megatron" or "torchtitan" (docs/exports.md); usual: "any".
    const char *target;
    // What the search may choose, given.
    struct weir_numbers replicas;  // ranks of each stage, which add up to `ranks`
    struct weir_numbers devices;   // of each rank
    const struct weir_pin *pins;
    size_t pin_count;
    uint64_t budget;       // units of work; usual: a few seconds' worth
    uint64_t deadline_ns;  // of all of it; plans then vary from time to time
    const struct weir_watch *watch;
};

// The plan with the least simulated time that fits the devices' memory, with layers
// run again where that is needed. Code 1 when nothing fits: which stage lacks how
// much.
struct weir_plan *weir_partition(const struct weir_profile *profile, const struct weir_planning *planning,
                                 struct weir_error *error);
struct weir_plan *weir_plan_load(const char *path, struct weir_error *error);
struct weir_plan *weir_plan_read(const char *text, size_t length, const char *name, struct weir_error *error);
bool weir_plan_save(const struct weir_plan *plan, const char *path, struct weir_error *error);
char *weir_plan_document(const struct weir_plan *plan, struct weir_error *error);
void weir_plan_free(struct weir_plan *plan);

struct weir_stage {
    uint32_t first, end;         // layers
    uint32_t recomputed_layers;  // of them
    uint64_t peak_bytes;         // of memory, which its rank allocates at once; stages on one rank share a workspace
};
size_t weir_plan_stage_count(const struct weir_plan *plan);
struct weir_stage weir_plan_stage(const struct weir_plan *plan, size_t stage);

// The plan as a table for people.
char *weir_plan_text(const struct weir_plan *plan, struct weir_error *error);

struct weir_exporting {
    const struct weir_profile *profile;  // the one that the plan was made of; usual: what would be rounded is refused
    struct weir_numbers units;           // layers in each unit of the framework; usual: as the layers' names tell
    const char *base;                    // the config function of torchtitan's that is planned, "MODULE.FUNCTION"; or NULL
};

// The plan in another framework's words, as `weir export FORMAT` writes it: "megatron", "torchtitan", "deepspeed",
// "colossalai", "nanotron", "torchgpipe", "pytorch" or "pytorch-csv" (docs/exports.md). answer->document is that text,
// byte for byte, and answer->text what the command says beside it: a sentence a line of what the framework is not told,
// or does otherwise. `exporting` may be NULL. Fails with the command's sentence: code 1 where the framework has no way to
// run the plan, or only with a profile; code 2 where there is no such format, or the plan is not of that profile.
bool weir_plan_export(const struct weir_plan *plan, const char *format, const struct weir_exporting *exporting,
                      struct weir_answer *answer, struct weir_error *error);

// Whether the plan's times and bytes are what this profile gives, by other means than the search's. Code 1 where
// one is not: which, and what it should be. The certificate is not checked.
bool weir_plan_check(const struct weir_plan *plan, const struct weir_profile *profile, struct weir_error *error);

// Whether it is proved that no other cut or recomputation that fits is faster: by a search of this process, not as a file
// says that was loaded or read.
bool weir_plan_is_proved(const struct weir_plan *plan);

// weir_plan_check(), and whether the certificate holds, by a search anew of at most so many units of work (0: as
// weir_partition()). Code 1 where it is false, or where the search can tell neither way: the sentence says which. Afterwards
// the certificate counts as this process's own.
bool weir_plan_prove(struct weir_plan *plan, const struct weir_profile *profile, uint64_t budget,
                     const struct weir_watch *watch, struct weir_error *error);

// What its ranks compute, in which order, with what its stages cost (further down).
struct weir_schedule *weir_plan_schedule(const struct weir_plan *plan, struct weir_error *error);

// One iteration of it (further down).
struct weir_simulation;
struct weir_simulation *weir_plan_simulate(const struct weir_plan *plan, struct weir_error *error);

struct weir_explaining {
    uint64_t budget;  // units of work for each of some forty plans; usual: half a second's
    const struct weir_watch *watch;
};

// Why the plan is not faster, and what a change would gain: the document "weir.explanation". `explaining` may be
// NULL. Code 1 where the plan is not what its profile says.
bool weir_explain(const struct weir_plan *plan, const struct weir_profile *profile,
                  const struct weir_explaining *explaining, struct weir_answer *answer, struct weir_error *error);

// What GLPK, in a process of its own (weir-glpk), says of the plan's bound: a few sentences. Code 3 where there is no
// weir-glpk, and code 2 where the case is not for it. `watch` may be NULL.
char *weir_second_opinion(const struct weir_plan *plan, const struct weir_profile *profile,
                          const struct weir_watch *watch, struct weir_error *error);

struct weir_sweeping {
    const char *cluster;           // needed, as of struct weir_planning
    const char *const *schedules;  // usual: all that train, and "search"
    size_t schedule_count;
    struct weir_numbers ranks;          // usual: the cluster's devices
    struct weir_numbers chunks;         // usual: each schedule's own number, and twice it
    struct weir_numbers micro_batches;  // usual: the ranks, and twice, four and eight times as many
    const char *optimizer;  // usual: "adamw", as of struct weir_planning
    const char *tied;  // tied layers: "together" on one stage, or "apart" (usual) in the rows whose schedules flush
    bool own_order;    // plans keep the order in which the profile has the layers of a graph
    uint64_t memory_bytes;
    uint64_t budget;   // units of work for each plan; usual: a fraction of a second's
    unsigned threads;  // usual: one per core
    const struct weir_watch *watch;
};

// A plan for every schedule, and which are worth it: the document "weir.sweep". `best`, which may be NULL, receives
// the plan that is suggested, or NULL where nothing fits.
bool weir_sweep(const struct weir_profile *profile, const struct weir_sweeping *sweeping, struct weir_answer *answer,
                struct weir_plan **best, struct weir_error *error);

struct weir_config_sweeping {
    // The device, and how layers are estimated. What the sweep chooses is not said here: degrees, micro_batch, shard.
    struct weir_estimating estimating;
    uint32_t devices;       // needed: how many there are
    uint32_t without;       // of them that are missing: as many pipelines as there can be, and the rest idle
    uint32_t slow;          // of those that are there, so many are slow: whether they are worth it
    uint32_t slow_permille; // and have so many thousandths of the rate of the others
    uint64_t global_batch;  // needed: sequences of an iteration
    double price, watts;    // of a device, for an hour: what 10^9 tokens cost, and take in kWh; usual: it is not said
    // What may be chosen; usual: every way that may be good (docs/estimate.md). Each has 64 numbers at most.
    struct weir_numbers tensor, context, expert;  // degrees, up to 4096
    struct weir_numbers ranks, chunks;            // of a pipeline, and stages on each where schedules take any number
    struct weir_numbers micro_batch;              // sequences in one; there are as many as the batch then has
    const char *const *shards;     // as estimating.shard; usual: "none", "optimizer", and "weights" of one rank
    size_t shard_count;
    const char *placement;         // "tp-cp-ep-dp-pp" or "tp-cp-ep-pp-dp", Megatron's orders of devices; usual: both
    const char *const *schedules;  // usual: "1f1b", "interleaved", "zb-h1", "zb-v"; such as flush
    size_t schedule_count;
    const char *target;     // as planning.target; only its schedules and its order of devices are then tried
    const char *optimizer;  // usual: "adamw-master"
    uint64_t memory_bytes;  // of each device; usual: the device's, without what is reserved
    uint64_t budget;        // units of work for each of the best plans; usual: 200000
    uint64_t deadline_ns;   // of all of it; what is tried until then varies
    unsigned threads;       // usual: one per core; the result is the same
    const struct weir_watch *watch;
};

// A plan for every way to share a transformer out over devices that are not here, and which are worth it: the document
// "weir.configs". `config` as of weir_estimate(). `best` receives the quickest plan, which is of one pipeline, and
// `profile` what its layers cost (weir_plan_check() and weir_explain() take both), or NULL where nothing fits; either may
// be NULL, and `answer`. Between iterations gradients are added up, beside what the plan has: its row's `between_ns`.
bool weir_sweep_configs(const char *config, const struct weir_config_sweeping *sweeping, struct weir_answer *answer,
                        struct weir_plan **best, struct weir_profile **profile, struct weir_error *error);

struct weir_stating {
    // The device, how layers are estimated, and the degrees, micro_batch and shard of the layout; without a shard the
    // framework's.
    struct weir_estimating estimating;
    const char *placement;   // usual: "tp-cp-ep-dp-pp"
    const char *schedule;    // usual: "1f1b", or "interleaved" with chunks
    uint32_t ranks, chunks;  // of a pipeline, and stages on each; usual: 1, or the schedule's own
    uint32_t micro_batches;  // needed: of each pipeline, in an iteration; any number
    const char *recompute;   // "none" (usual), "selective", "full", "4" of each rank's blocks, "mlp,layernorm"
    struct weir_numbers blocks;  // of each stage; usual: evenly
    const char *layout;      // instead, Megatron's --pipeline-model-parallel-layout: "Et*2|(t*3|)*6tmL"
    uint32_t expert_tensor;  // devices that share each expert; usual: 1
    uint32_t offloaded;      // blocks of each stage whose kept bytes are on the host
    uint64_t memory_bytes;   // of each device; usual: the device's, without what is reserved
};

// What an iteration of this very layout takes, where that goes, what each rank holds and whether it fits: the document
// "weir.judgement". `config` as of weir_estimate(). A layout that does not fit is judged as well.
bool weir_judge(const char *config, const struct weir_stating *stating, struct weir_answer *answer,
                struct weir_error *error);

// --- schedules: what each rank does, in which order ----------------------------------

struct weir_generating {
    const char *name;               // needed; any that `weir schedule` lists
    uint32_t ranks, micro_batches;  // needed
    uint32_t chunks;                // stages on each rank; usual: as the schedule has it
    uint32_t splits;                // of each sequence (seq1f1b)
    struct weir_numbers replicas;   // ranks of each stage, which add up to `ranks`; usual: one each
};

struct weir_schedule *weir_schedule_generate(const struct weir_generating *generating, struct weir_error *error);
struct weir_schedule *weir_schedule_load(const char *path, struct weir_error *error);

// The document "weir.schedule", or PyTorch's CSV.
struct weir_schedule *weir_schedule_read(const char *text, size_t length, const char *name, struct weir_error *error);
bool weir_schedule_save(const struct weir_schedule *schedule, const char *path, struct weir_error *error);
char *weir_schedule_document(const struct weir_schedule *schedule, struct weir_error *error);

struct weir_csv {
    const char *dialect;  // which PyTorch is to read it: "torch2.9" (usual) or "torch2.6"
    bool lowered;         // with the SENDs and RECVs between ranks
    bool line_feeds;      // at the ends of lines, rather than CR LF
};

// As PyTorch's pipelining reads it, which has no cells for STEP and REDUCE. `csv` may be NULL.
char *weir_schedule_csv(const struct weir_schedule *schedule, const struct weir_csv *csv, struct weir_error *error);

// What the stages of a schedule cost.
struct weir_pricing {
    // "18522us,18086us,9337us,601us": F, I, W (B is both) of every stage, and a message's latency; or a document with
    // rows of costs (docs/formats/costs.md). Usual: what the schedule says itself.
    const char *costs;
    const char *overlapped;  // with "F,I,W,C": what an F and a backward take that are done together
    // Of a micro-batch after F, and after I; usual: what the costs say. Without costs actions then take no time.
    uint64_t kept_forward_bytes, kept_weight_bytes;
    const char *cluster;     // whose links the messages take, rank r on device r
};

struct weir_checking {
    uint32_t buffered_sends;  // per channel; usual: none, rendezvous
    bool grouped;             // messages that stand in a row go together
    const char *receives;     // where they are put: "early" (usual of a compute order), "late", "timed"
    bool shared_channels;     // all channels between two ranks share a communicator
    uint64_t memory_bytes;    // of each rank
    const struct weir_pricing *pricing;
};

// Whether it can run: the document "weir.check". `checking` may be NULL.
char *weir_schedule_check(const struct weir_schedule *schedule, const struct weir_checking *checking,
                          struct weir_error *error);

// What it takes. `pricing` may be NULL where the schedule has costs.
struct weir_simulation *weir_schedule_simulate(const struct weir_schedule *schedule, const struct weir_pricing *pricing,
                                               struct weir_error *error);

struct weir_searching {
    uint32_t ranks, micro_batches;  // needed
    uint32_t chunks;          // stages on each rank; usual: 1, 2 in a V, 4 in a wave
    const char *placement;    // "one-way" (usual), "v", "wave"
    const char *objective;    // "span" (usual): a rank's own first start to last end; "makespan": of all ranks
    struct weir_pricing pricing;  // its costs are needed, its cluster is not used
    uint64_t memory_bytes;    // of each rank; usual: as much as it takes
    uint64_t budget;          // units of work; usual: a few seconds' worth
    const struct weir_watch *watch;
};

struct weir_found {
    uint64_t time_ns;   // by the objective
    uint64_t bound_ns;  // no order takes less
    double gap;         // (time - bound) / time
    bool proved;        // that there is none better
    uint64_t work;      // units
    char method[80];    // what found it
    char stopped[80];   // why nothing more was tried, or empty
};

// The order that takes the least time, and how far from the least possible that is. `found` may be NULL. Code 1
// where a rank cannot hold even one micro-batch.
struct weir_schedule *weir_search(const struct weir_searching *searching, struct weir_found *found,
                                  struct weir_error *error);
void weir_schedule_free(struct weir_schedule *schedule);

// --- simulations: what that takes ----------------------------------------------------

// The document "weir.simulation"; a summary and a row per rank, for people.
char *weir_simulation_document(const struct weir_simulation *simulation, struct weir_error *error);
char *weir_simulation_text(const struct weir_simulation *simulation, struct weir_error *error);

enum weir_picture {
    WEIR_CHART,  // of characters, for terminals
    WEIR_SVG,
    WEIR_PAGE,   // HTML, to zoom in
    WEIR_TRACE,  // Chrome trace events
};

struct weir_drawing {
    enum weir_picture picture;
    size_t columns;  // of a chart; usual: 110
    bool ascii;      // a chart without box characters
    bool colours;    // a chart with a terminal's escapes
    bool messages;   // an SVG with an arrow for each
    const char *title;  // of an SVG or a page; usual: the schedule, its ranks and micro-batches
    const char *font;   // of an SVG: a family, or several with commas between; usual: a sans-serif one
    uint32_t width;     // of an SVG, in pixels, from 320; usual: 1338, and 1414 with peaks
};

// `drawing` may be NULL: a chart.
char *weir_simulation_draw(const struct weir_simulation *simulation, const struct weir_drawing *drawing,
                           struct weir_error *error);
void weir_simulation_free(struct weir_simulation *simulation);

// --- comparisons: a run that was measured against what was planned --------------------

// A run, as a profiler has recorded it: docs/formats/trace.md.
struct weir_traces {
    const char *const *files;  // needed; of PyTorch's profiler or Weir, packed by gzip or not: of all ranks, or of each
    size_t count;
    bool has_iteration;
    uint32_t iteration;        // which, from 0; usual, without has_iteration: the last that is whole
};

struct weir_comparison;

// Why the run took longer than planned, or less long: each cause by what it explains of the iteration. `pricing` is as
// of weir_schedule_simulate(). Code 2, with the first action that only one of the two has, where the run is of other
// work. The plan must outlive the comparison; the schedule and the files need not.
struct weir_comparison *weir_plan_compare(const struct weir_plan *plan, const struct weir_traces *traces,
                                          struct weir_error *error);
struct weir_comparison *weir_schedule_compare(const struct weir_schedule *schedule, const struct weir_pricing *pricing,
                                              const struct weir_traces *traces, struct weir_error *error);

// The document "weir.comparison" (docs/formats/comparison.md); the same for people; and what was left out of the traces
// and may surprise, a line each, which may be none.
char *weir_comparison_document(const struct weir_comparison *comparison, struct weir_error *error);
char *weir_comparison_text(const struct weir_comparison *comparison, struct weir_error *error);
char *weir_comparison_notes(const struct weir_comparison *comparison, struct weir_error *error);
void weir_comparison_free(struct weir_comparison *comparison);

// The profile, of which the plan that was run is, with the times of each stage's layers scaled to what its actions
// took: what to plan by next. Code 2 where the plan is of another profile, or a schedule was compared.
struct weir_profile *weir_profile_refine(const struct weir_profile *profile, const struct weir_comparison *comparison,
                                         struct weir_error *error);

// --- running -------------------------------------------------------------------------

struct weir_runtime;

// An optimizer of one's own: from a layer's parameters to the next version of them. Of a plan with the optimizer on the
// host all of it is in the host's memory, and its queue does each thing at once; on GPUs such plans are refused.
struct weir_update {
    void *queue;
    const struct weir_layer *layer;
    uint64_t number;          // of the layer's updates, from 1
    float rate;
    const float *parameters;
    float *next;              // where the new ones go; may be `parameters`
    const float *gradients;   // clipped, if that is asked for
    float *state[2];          // `count` floats each, zero before the first update: of a plan for "momentum" one, for
                              // "adamw" two; NULL beyond those
    uint64_t count;           // of the layer's parameters
};

// Checkpoints (docs/formats/checkpoint.md), written in the background while training goes on.
struct weir_keeping {
    const char *folder;  // needed; all ranks share it
    uint32_t every;      // steps from one to the next; usual: only weir_runtime_save() makes one
    uint32_t keep;       // the newest ones; usual: 2
    bool resume;         // go on from the newest that is whole, if there is one; a folder with checkpoints needs it
    const char *data;    // a word on what is trained on, such as its hash: a run goes on only where that is the same
    // What there is to say of them, a sentence each: from where a run goes on, what is damaged and left out, what could
    // not be written. By any thread. NULL: nobody listens.
    void (*say)(void *self, const char *sentence);
    void *self;
};

struct weir_running {
    float rate;                   // of learning; usual: 0.001
    float momentum;               // of momentum and lars: m = momentum m + g, p -= rate m; usual: 0.9
    bool nesterov;                // of momentum: p -= rate (g + momentum m)
    float beta1, beta2, epsilon;  // of adam, adamw, lamb; usual: 0.9, 0.999, 1e-8 (of lamb 1e-6)
    float trust;                  // of lars: a tensor's step at rate 1, by its norm; usual: 0.001
    float decay;                  // of weights, as a part of g but for adamw and lamb; usual: none
    float clip;            // the most that the norm of all gradients may be, over all stages; usual: as it comes
    uint64_t freeze_step;  // of adam1bit: the last update of the second moment; then replicas send signs. Usual: 100
    // In place of the plan's optimizer, on the state that it has: called for each layer on its rank's thread. NULL: the
    // plan's.
    bool (*update)(void *self, const struct weir_update *update, struct weir_error *error);
    void *self;
    uint32_t states;       // that `update` needs of state[], at least: a plan with fewer is refused
    uint32_t runs;         // asynchronous schedules: a step runs this many times the plan's micro-batches; usual: 1
    // Samples of a step and of a full micro-batch, where those of a step do not fill its last one: by how many each has,
    // weir_result.loss is the mean. Schedules that flush only. Usual: all have as many.
    uint64_t batch, micro_batch;
    // Of one wait for another rank, and of one action of a rank, which is a forward or a backward of a stage's layers;
    // usual: ten minutes in a step, five elsewhere. A layer has half a dozen seconds at least.
    uint64_t deadline_ns;
    bool pin;              // each rank's thread to a core of its own
    // That computes in floats: "cpu", "cuda", "cuda:1"; or one for each rank, "cuda:0,cuda:1", "cuda:all" (one process then). Usual: "cpu"; of
    // several processes "cpu:queued", which has messages between processes.
    const char *device;
    const struct weir_keeping *keeping;  // NULL: nothing is kept
};

// A thread per rank of the plan, and all memory. Plan and layers must outlive it. `running` may be NULL.
//
// Where torchrun, mpirun or srun have started a process for each rank, each is that rank. So it is with WEIR_RANK (0 and
// on), WEIR_RANKS (how many) and WEIR_RENDEZVOUS, a file that need not be there, in which rank 0 says where the others
// find it; without that they meet at MASTER_ADDR and MASTER_PORT, or on one machine where the launcher names the job.
// A rank whose run nothing tells from another one on its machine is refused. All processes make the same calls in the same order with the same values; that plan and `running` are the same is seen to. What calls
// return is the same on all.
struct weir_runtime *weir_runtime_create(const struct weir_plan *plan, const struct weir_layer *layers, size_t count,
                                         const struct weir_running *running, struct weir_error *error);
// Checkpoints that are still being written are lost: weir_runtime_save() and weir_runtime_train() wait for them.
//
// Returns 0, and all memory is given back. Where a layer did not come back within running.deadline_ns, the call that
// waited for it has failed with code 3, and every other one but this is refused. Its thread cannot be ended: it is left in
// the layer with what it may still touch, for as long as the process lives, and this returns how many bytes of memory
// that are. These are its rank's, or all ranks' on a device other than "cpu", where messages go on by themselves. Plan,
// layers and what they point to have to outlive the process then.
uint64_t weir_runtime_free(struct weir_runtime *runtime);

// Of the ranks, in how many processes, which this is. 0 of 1: all are threads here.
uint32_t weir_runtime_process(const struct weir_runtime *runtime, uint32_t *processes);

// Whether a pipeline by this plan computes what one processor computes: both begin with the layers' first parameters,
// run `steps` steps, and are compared bit for bit, on threads of this process. (Replicas and copies of a stage add up in
// an order of their own, which the sequential run follows: plans may differ from each other in the last bits.) Code 1 where they differ: in which layer,
// where, and by how much. Of `running`, which may be NULL, what is kept and the device are not looked at.
bool weir_verify(const struct weir_plan *plan, const struct weir_layer *layers, size_t count,
                 const struct weir_running *running, uint32_t steps, struct weir_error *error);

struct weir_result {
    double loss;             // mean over the micro-batches, by their samples where running.batch says how many
    double gradient_norm;    // before it was clipped; 0 where it is not
    uint64_t iteration_ns;
    double makespan_bubble;  // the part of all ranks' time in which they did not compute
    uint32_t slowest_stage;
    uint64_t allocated_bytes;  // over all ranks
};

// One pass through the schedule, updates included. `result` may be NULL. After a failure every further step fails with
// the same error; after that of a layer that did not come back (running.deadline_ns), every call but
// weir_runtime_free(): weir_runtime_losses() returns NULL, weir_runtime_steps() the steps before, and
// weir_runtime_set_rate() does nothing.
bool weir_runtime_step(struct weir_runtime *runtime, struct weir_result *result, struct weir_error *error);

// Steps made, those included after which a run that is gone on with was saved: the number of the next, from 0.
uint64_t weir_runtime_steps(const struct weir_runtime *runtime);

// A checkpoint of where it is, if there is none of that yet; and waits until all that is being written is on the disk.
// Needs running.keeping. Code 3 where it could not be written.
bool weir_runtime_save(struct weir_runtime *runtime, struct weir_error *error);

void weir_runtime_set_rate(struct weir_runtime *runtime, float rate);

struct weir_training {
    uint64_t steps;                             // needed: how many to make from here
    float (*rate)(void *self, uint64_t step);   // of learning in a step, by weir_runtime_steps(); NULL: as it is
    // Told behind every step, of the number that it had: the first is 0. False ends the training well, with this step,
    // on all processes. NULL: nobody asks.
    bool (*after)(void *self, uint64_t step, const struct weir_result *result);
    void *self;
};

// Steps, one after the other, and a checkpoint where one is due, which is on the disk when this returns. Within `after` the runtime may be read, written and evaluated. `last`, which may be NULL,
// receives the result of the last step.
bool weir_runtime_train(struct weir_runtime *runtime, const struct weir_training *training, struct weir_result *last,
                        struct weir_error *error);

// Forward alone with the newest parameters, on this thread (of several processes, on rank 0's), a layer after the other
// in memory of its own for the largest: the loss of each of so many micro-batches into `losses`, and no update. Layers find held-out data as they
// find any, by `step`: give them one that training does not reach.
bool weir_runtime_evaluate(const struct weir_runtime *runtime, uint64_t step, uint32_t micro_batches, float *losses,
                           struct weir_error *error);

// Of the last step: the loss of each micro-batch (borrowed until the next step), and
// when everything happened, as Chrome trace events.
const float *weir_runtime_losses(const struct weir_runtime *runtime, uint32_t *count);
char *weir_runtime_trace(const struct weir_runtime *runtime, struct weir_error *error);

// Copies a layer's newest parameters into parameter_bytes of the host's memory.
bool weir_runtime_read(const struct weir_runtime *runtime, uint32_t layer, void *parameters,
                       struct weir_error *error);

// The same the other way, between two steps, to every rank that has the layer. What the optimizer keeps of it stays.
bool weir_runtime_write(struct weir_runtime *runtime, uint32_t layer, const void *parameters,
                        struct weir_error *error);

// Which layer is called so. Code 2 where none is.
bool weir_runtime_find(const struct weir_runtime *runtime, const char *name, uint32_t *layer,
                       struct weir_error *error);

#ifdef __cplusplus
}
#endif

#endif
