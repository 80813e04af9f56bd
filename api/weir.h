// Weir for authors of trainers: profile, plan and run layers of your own.
//
//     struct weir_layer layers[] = { source, block, block, loss };  // your functions, in order
//
//     // while you write them: names the function that breaks its contract
//     weir_layers_check(layers, 4, NULL, &error);
//     profile = weir_profile_layers(layers, 4, WEIR_OPTIONS(profile, .model = "mine"), &error);
//     plan = weir_partition(profile, WEIR_OPTIONS(partition, .cluster = "2 devices, 1GiB, 10GB/s 1us",
//                                                 .schedule = "1f1b", .micro_batches = 8), &error);
//     runtime = weir_runtime_create(plan, layers, 4, WEIR_OPTIONS(runtime, .rate = 0.01f), &error);
//     while (weir_runtime_step(runtime, &result, &error)) ...
//
// A layer is its sizes and a few functions (struct weir_layer, in weir_layer.h). Weir owns all memory. Each call of a
// layer is given the places that it may read and write, computes, and returns. It allocates nothing and sends no
// messages.
//
// Sizes are bytes and times are nanoseconds.
//
// If something goes wrong, a function returns false or NULL and leaves one sentence in `struct weir_error`. The
// struct starts as all zeroes, and the first error stays. So calls can follow each other without a check after each
// one: a call that is given NULL for an object fails.
//
// Strings and arrays given to Weir are borrowed for as long as the object made from them exists. Structs of options are
// read only during the call. A pointer that a function returns is yours: give it to the _free() of its kind, which
// accepts NULL. A text is freed by weir_text_free() or free().
//
// Options are a struct, named after what the function does: weir_plan_export() takes struct weir_export_options. A
// field that is 0 or NULL means the default, which comments give after "usual:". NULL instead of a struct means the
// default for every field. A field whose comment says "needed" has no default, and the error names it:
// `weir_partition_options.schedule is needed: ...`.
//
// The first field of each struct of options is its own size, which WEIR_OPTIONS() fills in. So a later libweir can
// have fields that your program did not know when it was built: they get their defaults. Fields that an earlier
// libweir does not know are an error, unless they are 0 or NULL. Options within options are pointers, because a struct
// inside another cannot grow.
//
// Documents (docs/formats) are read from a text of `length` bytes; errors call it `name` (NULL: "the text"). They are
// written as a text that ends in a NUL.
#ifndef API_WEIR_H
#define API_WEIR_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir_layer.h"  // struct weir_layer, weir_pass, weir_tensor, weir_update, weir_error

#ifdef __cplusplus
extern "C" {
#endif

// "0.1.0"
const char *weir_version(void);

// A pointer to options that lives until the end of the block: WEIR_OPTIONS(partition, .cluster = "...", .ranks = 2) is
// a struct weir_partition_options with its size and these fields.
//
// In C++, which cannot take the address of such a struct, give it a name and set its size:
//
//     const weir_partition_options options = { .size = sizeof options, .cluster = "...", .ranks = 2 };  // C++20
//     weir_partition_options options = {};                                                             // C++11
//     options.size = sizeof options;
#ifndef __cplusplus
#define WEIR_OPTIONS(NAME, ...) \
    (&(struct weir_##NAME##_options){ .size = sizeof(struct weir_##NAME##_options), __VA_ARGS__ })
#endif

void weir_text_free(char *text);

// Parse a quantity with a unit into bytes or nanoseconds: "80GiB", "12.5ms".
bool weir_parse_bytes(const char *text, uint64_t *bytes, struct weir_error *error);
bool weir_parse_time(const char *text, uint64_t *ns, struct weir_error *error);
bool weir_parse_span(const char *text, uint64_t *ns, struct weir_error *error);  // also in min, h and d: "3.1h"
bool weir_parse_rate(const char *text, uint64_t *bytes_per_second, struct weir_error *error);  // "2TB/s"

// For calls that take long: a callback for their progress, and a way to stop them. A call that is stopped returns the
// best result so far, which says `stopped`, or an error if there is none yet.
struct weir_watch {
    // A callback that gets "12 of 72 plans", at most ten times a second. One thread at a time calls it, not always
    // the caller's. NULL: no callback.
    void (*progress)(void *self, const char *words);
    void *self;
    const volatile sig_atomic_t *stop;  // set it to 1 from anywhere, also from a signal handler; or NULL
};

// The result of a call, as a document and as a text for people.
struct weir_answer {
    char *document;
    char *text;
};
void weir_answer_clear(struct weir_answer *answer);

// The cudaStream_t of a pass's or an update's queue on a GPU, for your own kernels, which then run in its order. NULL
// on a CPU.
void *weir_queue_stream(void *queue);

// --- layers: whether they keep to their contract ----------------------------------------

struct weir_check_layers_options {
    size_t size;
    bool other_numbers;    // activations or parameters are not floats: NaN and differences are not checked
    bool other_gradients;  // gradients are meant to differ from those of forward: differences are not checked
    bool unread_state;     // evaluations are meant to give the same whatever a layer's state is
    // For layers that do not multiply by weir_pass.share: the part of a micro-batch's loss that gradients are of, for
    // example 1 / micro_batches. Such layers train wrong by a plan with another number of micro-batches. Usual: the
    // share that each pass states
    float loss_share;
};

// Runs every function of every layer on this machine, a dozen times or more, on buffers of exactly the sizes that the
// layer states. The first fault is an error with code 1, whose sentence names layer, function and field. These are
// faults:
//
//   * the function writes beyond a buffer (checked on both sides, for 64 KiB or the buffer's size, whichever is
//     larger), changes what it may only read, or touches memory that is not there. SIGSEGV and SIGBUS are caught
//     during the check, one check at a time.
//   * it gives different bits when called again, after another micro-batch, or as a forward without `loss`
//     and `auxiliary_loss`.
//   * its result depends on memory that has no meaning for it: its outputs, the workspace, an input that input_kept
//     does not keep, bytes of `saved` and `held` that no call wrote, memory around buffers. All of these are filled
//     with NaN first.
//   * it leaves a part of `output` or `input_gradient` unwritten (except fewer than 256 bytes at the end, to which
//     sizes may be rounded up), or gives NaN.
//   * it sets gradients or metrics, instead of adding to them; or adds to statistics, instead of setting them.
//   * fold depends on what forwards of other micro-batches have left behind self.
//   * in an evaluation, a layer with state gives the same whatever the state is.
//   * `backward` gives other bits than backward_input and backward_weight.
//   * gradients are not those of forward. Each eighth of the numbers must agree to 2 % with differences of the output
//     (of the loss, if the layer computes it), as far as those are exact in floats. If a layer has an auxiliary loss,
//     its share counts with the output, and then alone.
//
// Use this while writing layers, not in training: a wild write can destroy more than this finds. `options` may be
// NULL.
bool weir_layers_check(const struct weir_layer *layers, size_t count, const struct weir_check_layers_options *options,
                       struct weir_error *error);

// --- profiles: what layers cost ---------------------------------------------------

struct weir_profile;

struct weir_profile_options {
    size_t size;
    const char *model;     // a name for the record
    uint64_t micro_batch;  // samples in one, for the record
    uint64_t repeats;      // measurements of each time, 20 or more; usual: 20
};

// Measures the layers on this machine, in buffers that start as zeroes. `options` may be NULL.
struct weir_profile *weir_profile_layers(const struct weir_layer *layers, size_t count,
                                         const struct weir_profile_options *options, struct weir_error *error);
struct weir_profile *weir_profile_load(const char *path, struct weir_error *error);
struct weir_profile *weir_profile_read(const char *text, size_t length, const char *name, struct weir_error *error);
bool weir_profile_save(const struct weir_profile *profile, const char *path, struct weir_error *error);
char *weir_profile_document(const struct weir_profile *profile, struct weir_error *error);

// A table for people; and what looks wrong with the profile, one line each. "untrusted" in a line means that no plan
// made of this profile can be believed.
char *weir_profile_text(const struct weir_profile *profile, struct weir_error *error);
char *weir_profile_lint(const struct weir_profile *profile, struct weir_error *error);
void weir_profile_free(struct weir_profile *profile);

// An option whose default depends on the framework: as the framework has it, yes, or no.
enum weir_choice { WEIR_AS_USUAL, WEIR_YES, WEIR_NO };

// What to estimate: the cost of a transformer on devices that you do not have (docs/estimate.md). Fields that are not
// set are as the framework `like` has them.
struct weir_estimate_options {
    size_t size;
    const char *device;  // needed: a built-in one ("h100-sxm"), a file or a document's text
    uint32_t tensor, context, expert, data;  // degrees; usual: 1
    uint32_t micro_batch;   // sequences; usual: 1
    uint32_t sequence;      // tokens in each; usual: as the model's file says
    const char *dtype;      // of activations and weights; usual: "bf16"
    const char *products;   // type of what matrix products read, such as "fp8"; usual: as dtype
    const char *attention;  // "fused", "flash", "plain", "recomputed"
    const char *overlap;    // which messages are hidden behind products: "nothing", "backward", "all"
    const char *shard;      // what devices of `data` shard (ZeRO): "none" (usual), "optimizer", "gradients", "weights"
    // How tokens reach their experts: to "each"; "once" to a group of devices; or that in the "narrow" type of products
    const char *dispatch;
    // how the loss is computed: "inplace", "plain" (PyTorch's cross_entropy), "fused", "kernel", "compiled"
    const char *loss;
    enum weir_choice sequence_parallel, graphs, compiled, hidden_experts;
    bool blocking;
    bool whole_blocks;      // no cut between a block's attention and its MLP
    bool without_mtp;       // leave out multi-token prediction, if `config` has it
    // Other ways to run each layer (variants), over groups of devices, for weir_partition_options.choose_variants:
    // "2,tensor4sp,context2,expert8,tensor4+context2", or "all"; usual: none.
    const char *variants;
    // recomputed within layers instead of kept, any of "norms", "activations", "latent": "norms,latent"
    const char *recompute_tensors;
    // the framework: "megatron" (usual), "nemo", "torchtitan", ..; docs/estimate.md has the list
    const char *like;
    // `shard` is within groups of this many devices, which all hold the same; usual: one group of all
    uint32_t within;
    uint32_t gradient_bytes;  // bytes of a gradient, 2 or 4; usual: as the framework has it
    // Kept for the backward in fewer bits: what activations of "experts" or all "activations" read, and the output of
    // "attention"; or "none". Usual: as the framework has it
    const char *narrow;
    // Fine-tuning, for estimates without a profile, and for weir_judge(). Parts that are not trained are any of
    // "embedding", "attention", "mlp", "experts", "head". LoRA stands beside linear layers, "16" or "16:attention".
    // Sequences are packed by their lengths, "512:30%,2048:70%". Usual: none of this
    const char *frozen, *lora, *lengths;
};

// Estimates a model. `config` is the path of a Hugging Face config.json, or its text. `answer` receives where the
// time goes, and `profile` the estimated profile; either may be NULL.
bool weir_estimate(const char *config, const struct weir_estimate_options *options, struct weir_answer *answer,
                   struct weir_profile **profile, struct weir_error *error);

// --- plans: which layers on which rank ----------------------------------------------

struct weir_plan;

struct weir_numbers {
    const uint32_t *at;
    size_t count;
};

// A layer that must be on a given stage.
struct weir_pin {
    const char *layer;
    uint32_t stage;
};

struct weir_schedule;

struct weir_partition_options {
    size_t size;
    const char *cluster;     // needed: a line such as "4 devices, 80GiB, 300GB/s 3us", a file, or a document's text
    const char *schedule;    // needed; any that `weir schedule` lists: "gpipe", "1f1b", "zb-h1", ...
    // Instead of `schedule`: exactly this order, with its ranks and micro-batches, loaded or found by weir_search().
    // It must flush. STEPs are added if it has none, and messages are placed anew.
    const struct weir_schedule *order;
    uint32_t micro_batches;  // needed without an order; in one iteration
    uint32_t ranks;          // usual: as `replicas` or `devices` give them, or else one per device of the cluster
    const char *optimizer;   // "adamw" (usual), or another that docs/memory.md lists: "sgd", "lamb", ...
    uint32_t chunks;         // stages on each rank; usual: as the schedule has it
    // tied layers: "together" or "apart"; usual: apart if they lend parameters and the schedule flushes
    const char *tied;
    uint64_t memory_bytes;   // of each device, instead of what the cluster says
    // How weights, gradients and optimizer states are held (docs/memory.md). "gradients" and "weights" are for
    // planning only.
    const char *shard;   // what replicas shard between them (ZeRO): "none" (usual), "optimizer", "gradients", "weights"
    bool optimizer_on_host, activations_on_host;
    // layers of a stage with weights on the device at a time; usual: all, or 1 if weights are sharded
    uint32_t window;
    uint64_t step_rate;  // bytes that an update processes per second; usual: updates take no time
    // What the search may choose besides cuts and recomputation. Variants of your own layers are for planning only.
    bool choose_replicas, choose_devices, choose_fewer_devices, choose_variants;
    bool own_order;      // a graph's layers stay in the profile's order; usual: all orders are searched
    // Only plans that this framework can express: "megatron" or "torchtitan" (docs/exports.md); usual: "any".
    const char *target;
    // Fixed values for what the search may otherwise choose.
    struct weir_numbers replicas;  // ranks of each stage, which add up to `ranks`
    struct weir_numbers devices;   // device of each rank
    const struct weir_pin *pins;
    size_t pin_count;
    uint64_t budget;       // units of work; usual: a few seconds' worth
    uint64_t deadline_ns;  // for the whole call; with it, plans can differ from call to call
    const struct weir_watch *watch;
};

// The plan with the least simulated time that fits the devices' memory. Layers are recomputed if that is needed to
// fit. If no plan fits, the code is 1 and the error says which stage lacks how much.
struct weir_plan *weir_partition(const struct weir_profile *profile, const struct weir_partition_options *options,
                                 struct weir_error *error);
struct weir_plan *weir_plan_load(const char *path, struct weir_error *error);
struct weir_plan *weir_plan_read(const char *text, size_t length, const char *name, struct weir_error *error);
bool weir_plan_save(const struct weir_plan *plan, const char *path, struct weir_error *error);
char *weir_plan_document(const struct weir_plan *plan, struct weir_error *error);
void weir_plan_free(struct weir_plan *plan);

struct weir_stage {
    uint32_t first, end;         // layers
    uint32_t recomputed_layers;  // of them
    uint64_t peak_bytes;         // memory that its rank allocates at once; stages on one rank share a workspace
};
size_t weir_plan_stage_count(const struct weir_plan *plan);
struct weir_stage weir_plan_stage(const struct weir_plan *plan, size_t stage);

// What a plan is for. Names are borrowed from the plan: of its schedule ("1f1b") and of its optimizer ("adamw").
uint32_t weir_plan_ranks(const struct weir_plan *plan);
uint32_t weir_plan_micro_batches(const struct weir_plan *plan);
const char *weir_plan_schedule_name(const struct weir_plan *plan);
const char *weir_plan_optimizer(const struct weir_plan *plan);

// The plan as a table for people.
char *weir_plan_text(const struct weir_plan *plan, struct weir_error *error);

struct weir_export_options {
    size_t size;
    // the profile of which the plan was made; usual: none, and a plan that would have to be rounded is refused
    const struct weir_profile *profile;
    struct weir_numbers units;           // layers in each unit of the framework; usual: found from the layers' names
    const char *base;                    // torchtitan's config function that is planned, "MODULE.FUNCTION"; or NULL
};

// The plan in another framework's words, as `weir export FORMAT` writes it. `format` is "megatron", "torchtitan",
// "deepspeed", "colossalai", "nanotron", "torchgpipe", "pytorch" or "pytorch-csv" (docs/exports.md).
//
// The document of the answer is that text, byte for byte. The text of the answer is what the command prints beside it:
// one sentence per line on what the framework is not told, or does otherwise.
//
// `options` may be NULL.
//
// Errors have the command's sentence. Code 1: the framework cannot run the plan, or an export needs a profile. Code
// 2: there is no such format, or the plan is not of that profile.
bool weir_plan_export(const struct weir_plan *plan, const char *format, const struct weir_export_options *options,
                      struct weir_answer *answer, struct weir_error *error);

// Whether the plan's times and bytes are what this profile gives. They are computed independently of the search. If
// one is not, the code is 1 and the error says which one and what it should be. The certificate is not checked.
bool weir_plan_check(const struct weir_plan *plan, const struct weir_profile *profile, struct weir_error *error);

// Whether a search in this process has proved that no other cut or recomputation that fits is faster. What a loaded
// file claims does not count.
bool weir_plan_is_proved(const struct weir_plan *plan);

// weir_plan_check(), and then whether the certificate holds. For that it searches again, with at most `budget` units
// of work (0: as weir_partition()). If the certificate is false, or the search cannot decide, the code is 1 and the
// error says which. If it holds, it counts as proved by this process from then on.
bool weir_plan_prove(struct weir_plan *plan, const struct weir_profile *profile, uint64_t budget,
                     const struct weir_watch *watch, struct weir_error *error);

// The schedule of the plan: what its ranks compute, in which order, with the costs of its stages (further down).
struct weir_schedule *weir_plan_schedule(const struct weir_plan *plan, struct weir_error *error);

// A simulation of one iteration of the plan (further down).
struct weir_simulation;
struct weir_simulation *weir_plan_simulate(const struct weir_plan *plan, struct weir_error *error);

struct weir_explain_options {
    size_t size;
    uint64_t budget;  // units of work for each of about forty plans; usual: half a second's worth
    const struct weir_watch *watch;
};

// Why the plan is not faster, and what a change would gain: the document "weir.explanation". `options` may be
// NULL. Code 1 if the plan does not agree with the profile.
bool weir_explain(const struct weir_plan *plan, const struct weir_profile *profile,
                  const struct weir_explain_options *options, struct weir_answer *answer, struct weir_error *error);

// What GLPK says of the plan's bound, in a few sentences. It runs in a process of its own (weir-glpk). Code 3 if
// there is no weir-glpk, and code 2 if its integer programs do not cover the case. `watch` may be NULL.
char *weir_second_opinion(const struct weir_plan *plan, const struct weir_profile *profile,
                          const struct weir_watch *watch, struct weir_error *error);

struct weir_sweep_options {
    size_t size;
    const char *cluster;           // needed, as in struct weir_partition_options
    const char *const *schedules;  // usual: all that train, and "search"
    size_t schedule_count;
    struct weir_numbers ranks;          // usual: the cluster's devices
    struct weir_numbers chunks;         // usual: each schedule's own number, and twice that
    struct weir_numbers micro_batches;  // usual: the number of ranks, and two, four and eight times that
    const char *optimizer;  // usual: "adamw", as in struct weir_partition_options
    const char *tied;  // tied layers: "together" on one stage, or "apart" (usual) in rows whose schedules flush
    bool own_order;    // a graph's layers stay in the profile's order
    uint64_t memory_bytes;
    uint64_t budget;   // units of work for each plan; usual: a fraction of a second's worth
    unsigned threads;  // usual: one per core
    const struct weir_watch *watch;
};

// Plans the model for every schedule and says which plans are worth it: the document "weir.sweep".
//
// `best`, which may be NULL, receives the suggested plan, or NULL if no plan fits.
bool weir_sweep(const struct weir_profile *profile, const struct weir_sweep_options *options,
                struct weir_answer *answer, struct weir_plan **best, struct weir_error *error);

struct weir_config_sweep_options {
    size_t size;
    // Needed: the device, and how layers are estimated. Degrees, micro_batch and shard are not set: the sweep chooses
    // them.
    const struct weir_estimate_options *estimate;
    uint32_t devices;       // needed: number of devices
    // how many of them are missing: the others form as many pipelines as possible, and the rest idle
    uint32_t without;
    uint32_t slow;          // how many of the devices present are slow: the sweep says whether they are worth using
    uint32_t slow_permille; // their rate, in thousandths of the rate of the others
    uint64_t global_batch;  // needed: sequences per iteration
    // price per hour and power of a device: adds cost and energy (kWh) of 10^9 tokens; usual: left out
    double price, watts;
    // What the sweep may choose; usual: every way that may be good (docs/estimate.md). Each list has at most 64
    // numbers.
    struct weir_numbers tensor, context, expert;  // degrees, up to 4096
    // of a pipeline; and stages per rank, for schedules that take any number
    struct weir_numbers ranks, chunks;
    struct weir_numbers micro_batch;              // sequences in one; their number follows from the global batch
    // as weir_estimate_options.shard; usual: "none", "optimizer", and "weights" with one rank
    const char *const *shards;
    size_t shard_count;
    const char *placement;         // Megatron's orders of devices, "tp-cp-ep-dp-pp" or "tp-cp-ep-pp-dp"; usual: both
    const char *const *schedules;  // only those that flush; usual: "1f1b", "interleaved", "zb-h1", "zb-v"
    size_t schedule_count;
    const char *target;     // as weir_partition_options.target; only its schedules and its order of devices are tried
    const char *optimizer;  // usual: "adamw-master"
    uint64_t memory_bytes;  // of each device; usual: the device's own, minus what is reserved
    uint64_t budget;        // units of work for each of the best plans; usual: 200000
    uint64_t deadline_ns;   // for the whole call; what is tried until then varies
    unsigned threads;       // usual: one per core; the result is the same
    const struct weir_watch *watch;
};

// Plans every way to distribute a transformer over devices that you do not have, and says which are worth it: the
// document "weir.configs". `config` is as for weir_estimate().
//
// `best` receives the fastest plan, which is of one pipeline. `profile` receives the costs of its layers;
// weir_plan_check() and weir_explain() take both. If nothing fits, both are NULL. `best`, `profile` and `answer` may
// be NULL. Gradients are reduced between iterations, which the plan does not include: its row has that as
// `between_ns`.
bool weir_sweep_configs(const char *config, const struct weir_config_sweep_options *options, struct weir_answer *answer,
                        struct weir_plan **best, struct weir_profile **profile, struct weir_error *error);

// A run of weeks on devices that fail (docs/estimate.md, over weeks).
struct weir_weeks_options {
    size_t size;
    uint64_t mtbf_ns;           // needed: mean time between failures of any of the devices
    uint64_t checkpoint_rate;   // needed: bytes per second at which all devices together save one, and read it
    uint64_t checkpoint_bytes;  // usual: weights and the optimizer's states of all parameters
    uint64_t restart_ns;        // from a failure until training goes on, without reading the checkpoint; usual: 10 min
    uint64_t repair_ns;         // until a broken device is back; usual: another one is there at once
    bool elastic;               // fewer pipelines go on meanwhile; usual: whatever is best
    struct weir_numbers spares;  // one number of devices that stand in; usual: some are tried
};

struct weir_judge_options {
    size_t size;
    // Needed: the device, how layers are estimated, and the degrees, micro_batch and shard of the layout. Without a
    // shard, the framework's is taken.
    const struct weir_estimate_options *estimate;
    const char *placement;   // usual: "tp-cp-ep-dp-pp"
    const char *schedule;    // usual: "1f1b", or "interleaved" with chunks
    // ranks of a pipeline, and stages on each; usual: 1 rank, and the schedule's own number of stages
    uint32_t ranks, chunks;
    uint32_t micro_batches;  // needed: of each pipeline in an iteration; any number
    const char *recompute;   // "none" (usual), "selective", "full", "4" of each rank's blocks, "mlp,layernorm"
    struct weir_numbers blocks;  // blocks of each stage; usual: distributed evenly
    const char *layout;      // instead of `blocks`, Megatron's --pipeline-model-parallel-layout: "Et*2|(t*3|)*6tmL"
    uint32_t expert_tensor;  // devices that share each expert (expert tensor parallelism); usual: 1
    uint32_t offloaded;      // blocks of each stage whose kept activations are offloaded to the host
    uint64_t memory_bytes;   // of each device; usual: the device's own, minus what is reserved
    const struct weir_weeks_options *weeks;  // usual: an iteration alone is judged
};

// Judges exactly this layout: how long an iteration takes, where the time goes, what each rank holds, and whether it
// fits. The answer is the document "weir.judgement". `config` is as for weir_estimate(). A layout that does not fit
// is judged as well.
bool weir_judge(const char *config, const struct weir_judge_options *options, struct weir_answer *answer,
                struct weir_error *error);

// --- schedules: what each rank does, in which order ----------------------------------

struct weir_generate_options {
    size_t size;
    const char *name;               // needed; any that `weir schedule` lists
    uint32_t ranks, micro_batches;  // needed
    uint32_t chunks;                // stages on each rank; usual: as the schedule has it
    uint32_t splits;                // parts of each sequence (seq1f1b)
    struct weir_numbers replicas;   // ranks of each stage, which add up to `ranks`; usual: one each
    uint32_t segments, passes;      // of each stage (docs/schedules.md), and how many passes are in turns; usual: 1, 2
};

struct weir_schedule *weir_schedule_generate(const struct weir_generate_options *options, struct weir_error *error);
struct weir_schedule *weir_schedule_load(const char *path, struct weir_error *error);

// Reads the document "weir.schedule", or PyTorch's CSV.
struct weir_schedule *weir_schedule_read(const char *text, size_t length, const char *name, struct weir_error *error);
bool weir_schedule_save(const struct weir_schedule *schedule, const char *path, struct weir_error *error);
char *weir_schedule_document(const struct weir_schedule *schedule, struct weir_error *error);

struct weir_csv_options {
    size_t size;
    bool lowered;         // with the SENDs and RECVs between ranks
    bool line_feeds;      // line ends are LF instead of CR LF
    const char *dialect;  // the PyTorch version that is to read it: "torch2.9" (usual) or "torch2.6"
};

// The schedule as PyTorch's pipelining reads it, which has no cells for STEP and REDUCE. `options` may be NULL.
char *weir_schedule_csv(const struct weir_schedule *schedule, const struct weir_csv_options *options,
                        struct weir_error *error);

// What the stages and messages of a schedule cost.
struct weir_price_options {
    size_t size;
    // F, I, W of every stage (B is both I and W) and the latency of a message: "18522us,18086us,9337us,601us"; or a
    // document with rows of costs (docs/formats/costs.md). Usual: what the schedule itself says.
    const char *costs;
    const char *overlapped;  // with "F,I,W,C": the time of an F and a backward that run together
    // Bytes kept of a micro-batch after F, and after I; usual: as in the costs. Without costs, actions then take no
    // time.
    uint64_t kept_forward_bytes, kept_weight_bytes;
    const char *cluster;     // the cluster whose links the messages take, with rank r on device r
};

struct weir_check_options {
    size_t size;
    // per channel, sends that may complete before their receive is posted; usual: none (rendezvous)
    uint32_t buffered_sends;
    bool grouped;             // adjacent messages are issued together, as a group
    const char *receives;     // where receives are placed: "early" (usual for a compute order), "late", "timed"
    bool shared_channels;     // all channels between two ranks share a communicator
    uint64_t memory_bytes;    // of each rank
    const struct weir_price_options *price;  // usual: what the schedule itself says
};

// Whether the schedule can run: the document "weir.check". `options` may be NULL.
char *weir_schedule_check(const struct weir_schedule *schedule, const struct weir_check_options *options,
                          struct weir_error *error);

// Simulates the schedule. `options` may be NULL if the schedule has costs.
struct weir_simulation *weir_schedule_simulate(const struct weir_schedule *schedule,
                                               const struct weir_price_options *options, struct weir_error *error);

struct weir_search_options {
    size_t size;
    uint32_t ranks, micro_batches;  // needed
    uint32_t chunks;          // stages on each rank; usual: 1, 2 in a V, 4 in a wave
    const char *placement;    // "one-way" (usual), "v", "wave"
    // "span" (usual): from a rank's own first start to its last end; "makespan": over all ranks
    const char *objective;
    const struct weir_price_options *price;  // needed, with costs; its cluster is not used
    uint64_t memory_bytes;    // of each rank; usual: as much as needed
    uint64_t budget;          // units of work; usual: a few seconds' worth
    const struct weir_watch *watch;
};

struct weir_found {
    uint64_t time_ns;   // by the objective
    uint64_t bound_ns;  // no order takes less time
    double gap;         // (time - bound) / time
    bool proved;        // no order is better
    uint64_t work;      // units of work that were done
    char method[80];    // the method that found it
    char stopped[80];   // why the search stopped, or empty
};

// Searches for the order that takes the least time, and says how far it is from the least possible time. `found` may
// be NULL. Code 1 if a rank cannot hold even one micro-batch.
struct weir_schedule *weir_search(const struct weir_search_options *options, struct weir_found *found,
                                  struct weir_error *error);
void weir_schedule_free(struct weir_schedule *schedule);

// --- simulations: what running takes -------------------------------------------------

// The document "weir.simulation"; and a summary with a row per rank, for people.
char *weir_simulation_document(const struct weir_simulation *simulation, struct weir_error *error);
char *weir_simulation_text(const struct weir_simulation *simulation, struct weir_error *error);

enum weir_picture {
    WEIR_CHART,  // of characters, for terminals
    WEIR_SVG,
    WEIR_PAGE,   // HTML, to zoom in
    WEIR_TRACE,  // Chrome trace events
};

struct weir_draw_options {
    size_t size;
    enum weir_picture picture;
    size_t columns;  // of a chart; usual: 110
    bool ascii;      // a chart without box characters
    bool colours;    // a chart with a terminal's escapes
    bool messages;   // an SVG with an arrow for each message
    uint32_t width;     // of an SVG, in pixels, from 320; usual: 1338, and 1414 with peaks
    const char *title;  // of an SVG or a page; usual: the schedule with its ranks and micro-batches
    const char *font;   // of an SVG: a font family, or several separated by commas; usual: a sans-serif one
};

// `options` may be NULL: a chart.
char *weir_simulation_draw(const struct weir_simulation *simulation, const struct weir_draw_options *options,
                           struct weir_error *error);
void weir_simulation_free(struct weir_simulation *simulation);

// --- comparisons: a measured run against its plan --------------------------------------

// The run to compare, as recorded by a profiler: docs/formats/trace.md.
struct weir_compare_options {
    size_t size;
    // needed: traces of PyTorch's profiler or Weir, gzipped or not; one of all ranks, or one per rank
    const char *const *files;
    size_t file_count;
    bool has_iteration;
    uint32_t iteration;        // which one, from 0; usual (without has_iteration): the last complete one
    // of a plan: its profile, which says what was planned for experts; usual: only what the run counted is shown
    const struct weir_profile *profile;
};

struct weir_comparison;

// Why the run took longer than planned, or less long: each cause, with the part of the iteration that it explains.
// `price` is as for weir_schedule_simulate().
//
// If the run is of other work, the code is 2 and the error names the first action that only one of the two has. The
// plan must outlive the comparison; the schedule and the files need not.
struct weir_comparison *weir_plan_compare(const struct weir_plan *plan, const struct weir_compare_options *options,
                                          struct weir_error *error);
struct weir_comparison *weir_schedule_compare(const struct weir_schedule *schedule,
                                              const struct weir_price_options *price,
                                              const struct weir_compare_options *options, struct weir_error *error);

// The document "weir.comparison" (docs/formats/comparison.md); the same for people; and notes, one per line, on what
// was left out of the traces and may surprise. The notes may be empty.
char *weir_comparison_document(const struct weir_comparison *comparison, struct weir_error *error);
char *weir_comparison_text(const struct weir_comparison *comparison, struct weir_error *error);
char *weir_comparison_notes(const struct weir_comparison *comparison, struct weir_error *error);
void weir_comparison_free(struct weir_comparison *comparison);

// Makes a profile for the next plan: `profile` with the times of each stage's layers scaled to the measured times of
// its actions.
//
// `profile` must be the one of which the compared plan was made. Code 2 if it is not, or if a schedule was compared,
// or if the run counted the routing of experts, which only the command takes into a profile.
struct weir_profile *weir_profile_refine(const struct weir_profile *profile, const struct weir_comparison *comparison,
                                         struct weir_error *error);

// --- running -------------------------------------------------------------------------

struct weir_runtime;

// Checkpoints (docs/formats/checkpoint.md), which are written in the background while training continues.
struct weir_checkpoint_options {
    size_t size;
    const char *folder;  // needed; all ranks share it
    uint32_t every;      // steps between two checkpoints; usual: only weir_runtime_save() makes one
    uint32_t keep;       // how many of the newest are kept; usual: 2
    // continue from the newest complete checkpoint, if there is one; needed if the folder has checkpoints
    bool resume;
    const char *data;    // a word for the training data, such as its hash: a run resumes only if it is the same
    // A callback for messages, one sentence each: from where a run continues, which checkpoint is damaged and left
    // out, what could not be written. Any thread may call it. NULL: no callback.
    void (*say)(void *self, const char *sentence);
    void *self;
};

struct weir_runtime_options {
    size_t size;
    float rate;                   // learning rate; usual: 0.001
    float momentum;               // of momentum and lars: m = momentum m + g, p -= rate m; usual: 0.9
    bool nesterov;                // of momentum: p -= rate (g + momentum m)
    float beta1, beta2, epsilon;  // of adam, adamw, lamb; usual: 0.9, 0.999, 1e-8 (lamb: 1e-6)
    float trust;                  // of lars: a tensor's step at rate 1, relative to its norm; usual: 0.001
    float decay;                  // weight decay, added to g except in adamw and lamb; usual: none
    // maximum norm of the gradients of all layers that are not frozen, over all stages; usual: they are not clipped
    float clip;
    // of adam1bit: the last update of the second moment; after it replicas send signs. Usual: 100
    uint64_t freeze_step;
    // An optimizer of your own, in place of the plan's, on the state that the plan's optimizer has. It is called for
    // each layer on the thread of the layer's rank. NULL: the plan's optimizer.
    bool (*update)(void *self, const struct weir_update *update, struct weir_error *error);
    void *self;
    uint32_t states;       // how many of state[] `update` needs: a plan with fewer is refused
    uint32_t runs;         // asynchronous schedules: a step runs this many times the plan's micro-batches; usual: 1
    // Samples of a step, and of a full micro-batch, for a step whose samples do not fill its last micro-batch.
    // weir_result.loss is then the mean weighted by samples. Only for schedules that flush. Usual: all micro-batches
    // are full.
    uint64_t batch, micro_batch;
    // Time limit for one wait for another rank, and for one action of a rank (a forward or backward of a stage's
    // layers). Usual: ten minutes in a step, five elsewhere. A layer always has at least four and a half seconds.
    uint64_t deadline_ns;
    bool pin;              // pin each rank's thread to a core of its own
    // Measures weir_result.gradient_norm even if nothing is clipped. All stages then make their updates together, at
    // the schedule's flush. Parameters and losses stay the same bits
    bool gradient_norm;
    // A device that computes in floats: "cpu", "cuda", "cuda:1"; or one for each rank, all in one process:
    // "cuda:0,cuda:1", "cuda:all". Usual: "cpu"; with several processes "cpu:queued", which can send messages between
    // processes.
    const char *device;
    const struct weir_checkpoint_options *checkpoints;  // NULL: no checkpoints
};

// Creates a thread per rank of the plan, and all memory. Plan and layers must outlive it. `options` may be NULL.
//
// If torchrun, mpirun or srun has started a process for each rank, each process is that rank. Without a launcher,
// WEIR_RANK (from 0), WEIR_RANKS (how many) and WEIR_RENDEZVOUS say so. WEIR_RENDEZVOUS is a file, which need not
// exist, in which rank 0 writes where the others find it. Without it, ranks meet at MASTER_ADDR and MASTER_PORT, or
// on one machine if the launcher names the job. A rank is refused if nothing distinguishes its run from another on
// its machine.
//
// All processes make the same calls in the same order with the same values. Weir checks that plan and `options` are
// the same. Calls return the same on all processes.
struct weir_runtime *weir_runtime_create(const struct weir_plan *plan, const struct weir_layer *layers, size_t count,
                                         const struct weir_runtime_options *options, struct weir_error *error);
// Frees the runtime. Checkpoints that are still being written are lost: weir_runtime_save() and weir_runtime_train()
// wait for them.
//
// Usually returns 0, and all memory is freed. It is different if a layer did not return within `deadline_ns`. The call
// that waited for that layer has failed with code 3, and every later call except this one is refused. The layer's
// thread cannot be ended: it stays in the layer for as long as the process lives, with all memory that it may still
// touch. This function then returns the bytes of that memory. It is the memory of the thread's rank, or that of all
// ranks on a device other than "cpu", where messages continue by themselves. Plan, layers and what they point to must
// then stay until the process ends.
uint64_t weir_runtime_free(struct weir_runtime *runtime);

// The number of this process, and the number of processes. 0 of 1: all ranks are threads of this process.
uint32_t weir_runtime_process(const struct weir_runtime *runtime, uint32_t *processes);

// Whether a pipeline run by this plan computes what one processor computes. Both start with the layers' first
// parameters, run `steps` steps, and are compared bit for bit, on threads of this process. Replicas and copies of a
// stage add up in an order of their own, which the sequential run follows. So two plans may differ from each other in
// the last bits.
//
// If they differ, the code is 1 and the error says in which layer, where, and by how much.
//
// `options` may be NULL; its checkpoints and device are ignored.
bool weir_verify(const struct weir_plan *plan, const struct weir_layer *layers, size_t count,
                 const struct weir_runtime_options *options, uint32_t steps, struct weir_error *error);

struct weir_result {
    double loss;             // mean over the micro-batches, weighted by their samples if `batch` was given
    // The same mean of the auxiliary losses, which each micro-batch adds up over the layers that have one; 0: none has.
    // `loss` does not count them
    double auxiliary_loss;
    // The norm of all gradients over all stages, before clipping. 0 unless weir_runtime_options.clip or .gradient_norm
    // is set
    double gradient_norm;
    uint64_t iteration_ns;
    double makespan_bubble;  // the part of all ranks' time in which they did not compute
    uint32_t slowest_stage;
    uint64_t allocated_bytes;  // over all ranks
    // What the layer that computes the loss has counted in the step, over all micro-batches; borrowed until the next
    const uint64_t *metrics;
    uint32_t metric_count;
};

// One pass through the schedule, including updates. `result` may be NULL.
//
// After a failure every later step fails with the same error. If a layer did not return within `deadline_ns`, every
// call except weir_runtime_free() fails. Then weir_runtime_losses() returns NULL, weir_runtime_steps() the steps
// before, and weir_runtime_set_rate() does nothing.
bool weir_runtime_step(struct weir_runtime *runtime, struct weir_result *result, struct weir_error *error);

// Number of steps made, including those before the checkpoint from which the run was resumed. It is the number of the
// next step, counted from 0.
uint64_t weir_runtime_steps(const struct weir_runtime *runtime);

// Makes a checkpoint of the current state, if there is none of it yet, and waits until all that is being written is
// on the disk. Needs weir_runtime_options.checkpoints. Code 3 if the checkpoint could not be written.
bool weir_runtime_save(struct weir_runtime *runtime, struct weir_error *error);

// Sets what else a trainer needs to continue: its epoch, its best score, how far its data loader is. It is UTF-8, at
// most 65,536 bytes, in a form of your own. Every later checkpoint has a copy of these words. NULL or "" removes them.
// Needs weir_runtime_options.checkpoints.
//
// A checkpoint has the words that were set when it was made, and keeps them. weir_runtime_step() makes those that are
// due. So set the words of a step before it; within weir_runtime_train(), `after` sets those of the next step.
bool weir_runtime_set_words(struct weir_runtime *runtime, const char *words, struct weir_error *error);

// The words set last, or else those of the checkpoint from which the run was resumed. "" if there are none. They are
// borrowed until the next weir_runtime_set_words().
const char *weir_runtime_words(const struct weir_runtime *runtime);

void weir_runtime_set_rate(struct weir_runtime *runtime, float rate);

struct weir_train_options {
    size_t size;
    uint64_t steps;                             // needed: how many to make from here
    // Gives the learning rate of a step, numbered as weir_runtime_steps(). NULL: the rate is unchanged.
    float (*rate)(void *self, uint64_t step);
    // Called after every step with its number; the first is 0. If it returns false on any process, training ends
    // after this step on all processes, without an error. NULL: no callback.
    bool (*after)(void *self, uint64_t step, const struct weir_result *result);
    void *self;
};

// Runs steps one after the other, with a checkpoint whenever one is due. Checkpoints are on the disk when this
// returns. The callback `after` may read, write and evaluate the runtime. If `last` is not NULL, it receives the
// result of the last step.
bool weir_runtime_train(struct weir_runtime *runtime, const struct weir_train_options *options,
                        struct weir_result *last, struct weir_error *error);

struct weir_evaluate_options {
    size_t size;
    // Layers find held-out data by it, as they find any data: pass a step that training does not reach.
    uint64_t step;
    uint32_t micro_batches;  // needed: any number
    float *losses;           // one of each micro-batch; or NULL
    float *auxiliary_losses; // of each micro-batch the sum over the layers that have one; or NULL
    uint64_t *metrics;       // what the layer that computes the loss counts, metric_count of it, over all; or NULL
    // The model's predictions: what the layer that computes the loss reads first, as many bytes as that has, one
    // micro-batch behind the other; or NULL
    void *predictions;
};

// Evaluates the newest parameters between two steps, without an update: forward only, on the runtime's own ranks and
// in its own memory, each with the state of its layers. Training goes on to the same bits. If that memory has no room
// for it (sequences in parts), it runs on this thread, with several processes on rank 0's. It then takes one layer
// after the other, in memory of its own. The bits are the same.
bool weir_runtime_evaluate(const struct weir_runtime *runtime, const struct weir_evaluate_options *options,
                           struct weir_error *error);

// The losses of the last step, one per micro-batch, borrowed until the next step; and when everything in that step
// happened, as Chrome trace events.
const float *weir_runtime_losses(const struct weir_runtime *runtime, uint32_t *count);
char *weir_runtime_trace(const struct weir_runtime *runtime, struct weir_error *error);

// Copies the auxiliary losses of a layer in the last step into `losses`: as many as weir_runtime_losses() counts, one
// per micro-batch. Code 2 if the layer has none.
bool weir_runtime_auxiliary_losses(const struct weir_runtime *runtime, uint32_t layer, float *losses,
                                   struct weir_error *error);

// Copies a layer's newest parameters into `parameters`, parameter_bytes of host memory.
bool weir_runtime_read(const struct weir_runtime *runtime, uint32_t layer, void *parameters,
                       struct weir_error *error);

// Writes a layer's parameters, between two steps, to every rank that has the layer. Its optimizer state stays.
bool weir_runtime_write(struct weir_runtime *runtime, uint32_t layer, const void *parameters,
                        struct weir_error *error);

// The same for a layer's state without a gradient, state_bytes of host memory. Code 2 if it has none.
bool weir_runtime_read_state(const struct weir_runtime *runtime, uint32_t layer, void *state, struct weir_error *error);
bool weir_runtime_write_state(struct weir_runtime *runtime, uint32_t layer, const void *state,
                              struct weir_error *error);

// Finds a layer by its name. Code 2 if there is none.
bool weir_runtime_find(const struct weir_runtime *runtime, const char *name, uint32_t *layer,
                       struct weir_error *error);

#ifdef __cplusplus
}
#endif

#endif
