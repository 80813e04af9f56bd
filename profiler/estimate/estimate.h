// Estimates what the layers of a transformer cost on a device that is not present. It counts matrix products, passes
// over memory, launches, and the communication within a layer. It also counts the bytes that Megatron keeps of each
// layer (Korthikanti et al. 2022, 2205.05198).
//
// All numbers are per device and micro-batch. Devices are numbered as in Megatron: tensor innermost, then context,
// expert and data. The ranks of a pipeline are outside of these, or (`apart`) between the devices of a stage and
// data.
#ifndef PROFILER_ESTIMATE_ESTIMATE_H
#define PROFILER_ESTIMATE_ESTIMATE_H

#include "profiler/estimate/fine_tuning.h"
#include "profiler/estimate/rated_device.h"
#include "profiler/estimate/transformer.h"
#include "profiler/profile.h"

// How attention is computed. Either one kernel keeps no scores: the vendor's (FUSED), or FlashAttention 2 (FLASH). Or
// scores are in memory: they are kept (PLAIN), or recomputed in the backward (RECOMPUTED; Korthikanti's "selective").
enum attention_how { ATTENTION_FUSED, ATTENTION_FLASH, ATTENTION_PLAIN, ATTENTION_RECOMPUTED };

static inline bool attention_is_one_kernel(enum attention_how how)
{
    return how == ATTENTION_FUSED || how == ATTENTION_FLASH;
}

// How much of a layer's own communication is hidden:
// * OVERLAP_NOTHING: nothing.
// * OVERLAP_BACKWARD: in the backward, what fits behind the products for the weights' gradients.
// * OVERLAP_ALL: all that fits behind the products beside it, in as many parts as there are devices.
enum overlap_how { OVERLAP_NOTHING, OVERLAP_BACKWARD, OVERLAP_ALL };

// How tokens reach their experts:
// * DISPATCH_EACH: they are sent to each expert separately (NCCL's all-to-all).
// * DISPATCH_ONCE: they are sent once to each group of devices that has some of their experts, which distributes them
//   (DeepEP, HybridEP).
// * DISPATCH_NARROW: the same, and what experts' products read is sent in their narrow type: tokens in the forward, and
//   gradients of outputs in the backward. What comes back is wide (DeepSeek-AI, arXiv 2412.19437, 3.3.2).
enum dispatch_how { DISPATCH_EACH, DISPATCH_ONCE, DISPATCH_NARROW };

// How the loss is computed from the logits:
// * LOSS_IN_PLACE: widened to fp32 and from there in place, as in Megatron.
// * LOSS_PLAIN: PyTorch's cross_entropy, each step into memory of its own.
// * LOSS_FUSED: one kernel, which writes the gradient over the logits (Transformer Engine).
// * LOSS_KERNEL: one kernel each way, with a gradient beside the logits (FlashAttention's, or a compiler's).
// * LOSS_COMPILED: Megatron's, fused by a compiler (--cross-entropy-loss-fusion), which makes a copy.
enum loss_how { LOSS_IN_PLACE, LOSS_PLAIN, LOSS_FUSED, LOSS_KERNEL, LOSS_COMPILED };

// Sharding: what devices with the same part of the model hold only once between them.
enum estimate_shard { ESTIMATE_SHARD_NONE, ESTIMATE_SHARD_OPTIMIZER, ESTIMATE_SHARD_GRADIENTS, ESTIMATE_SHARD_WEIGHTS };

// What is recomputed within a layer in the backward instead of being kept (Megatron's --recompute-modules layernorm,
// moe_act, mla_up_proj):
// * RECOMPUTE_NORMS: the outputs of norms.
// * RECOMPUTE_ACTIVATIONS: what comes between the products of MLPs and experts.
// * RECOMPUTE_LATENT: queries, keys and values of latent attention.
enum estimate_recompute { RECOMPUTE_NORMS = 1, RECOMPUTE_ACTIVATIONS = 2, RECOMPUTE_LATENT = 4 };

// What is kept for the backward in fewer bits than it is computed in. Each 128 numbers have a scale of 4 bytes.
// * NARROW_EXPERTS: what the activations of experts read, in 8 bits (DeepSeek-AI, arXiv 2412.19437, 3.3.3).
// * NARROW_ACTIVATIONS: what those of all MLPs read (Megatron's activation_func_fp8_input_store).
// * NARROW_ATTENTION: the output of attention, which its own backward and the next product's read, in 12 bits (E5M6 of
//   the same paper).
enum estimate_narrow { NARROW_EXPERTS = 1, NARROW_ACTIVATIONS = 2, NARROW_ATTENTION = 4 };

// Words for people and for options. Each list ends in NULL. Those of `recompute_tensors` and `narrow` are in the order
// of their bits.
extern const char *const estimate_attention_words[], *const estimate_overlap_words[], *const estimate_shard_words[],
    *const estimate_dispatch_words[], *const estimate_recompute_words[], *const estimate_narrow_words[],
    *const estimate_loss_words[];
#define ESTIMATE_RECOMPUTE_WORDS "norms, activations, latent"
#define ESTIMATE_NARROW_WORDS "experts, activations, attention"

// Parses a list such as "norms,latent". False with an error that says what there is. "none" is an empty list of what is
// narrow.
bool estimate_recompute_parse(const char *text, unsigned *tensors, struct error *error);
bool estimate_narrow_parse(const char *text, unsigned *narrow, struct error *error);

// Which choices of a request are its own rather than its framework's (framework.h).
enum estimate_said {
    SAID_ATTENTION = 1, SAID_OVERLAP = 2, SAID_LOSS = 4, SAID_DISPATCH = 8, SAID_SEQUENCE_PARALLEL = 16,
    SAID_COMPILED = 32, SAID_GRAPHS = 64, SAID_HIDDEN_EXPERTS = 128, SAID_NARROW = 256,
};

struct framework;

struct estimate_request {
    const struct framework *like;  // decides what `said` leaves open; NULL: everything is as stated here
    unsigned said;                 // flags of enum estimate_said
    // Degrees of parallelism, at least 1; `expert` divides tensor x context x data
    uint64_t tensor, context, expert, data;
    // Ranks of a pipeline between the devices of a data-parallel group; 1: none
    uint64_t inner_ranks;
    uint64_t micro_batch, sequence;          // sequence 0: the longest one that the model's file states
    const char *dtype;                       // of activations and weights, such as "bf16"
    const char *products;                    // type of the layers' products, such as "fp8"; NULL: dtype
    enum attention_how attention;
    enum overlap_how overlap;
    enum estimate_shard shard;
    enum dispatch_how dispatch;
    enum loss_how loss;
    unsigned recompute_tensors;  // flags of enum estimate_recompute
    unsigned narrow;             // flags of enum estimate_narrow
    // A token's weight for an expert is applied in front of the expert's last product, so that no backward reads what
    // the expert puts out.
    bool weighs_inside;
    // The number of devices, among those with the same part of the model, that hold only once what `shard` says. Each
    // such group holds all of it. 0: all devices with the same part.
    uint64_t within;
    // What products read is gathered in their narrow type, over tensor-parallel groups and for sharded weights.
    bool narrow_gathers;
    uint32_t metrics;        // cross entropies of the logits that are computed only to be reported, beside the loss
    uint32_t gradient_bytes;  // of a parameter, for keeping and sending gradients; 0: as in the framework
    bool sequence_parallel;  // what tensor parallelism does not split is split along the sequence
    bool graphs;             // CUDA graphs: launches cost the host nothing
    bool blocking;           // the host waits for each kernel before it launches the next (CUDA_LAUNCH_BLOCKING)
    // Communication of experts is hidden in pairs of a forward and a backward of two micro-batches (DualPipe;
    // Megatron's overlap_moe_expert_parallel_comm)
    bool hidden_experts;
    bool without_mtp;        // multi-token prediction is left out (estimate_leave_out())
    bool whole_blocks;       // the profile is not cut between a block's attention and its MLP
    bool fused_passes;       // neighbouring passes over memory are one kernel, as a compiler fuses them
    struct fine_tuning tuning;  // only for estimates and layouts that are judged: plans train everything
};

// The usual request, with every choice stated and no framework.
struct estimate_request estimate_usual(void);

// The request if the user states nothing: all as in the first framework.
struct estimate_request estimate_unsaid(void);

// A table with LAYER_SLOTS places has one for what is not there.
// If some layers attend to a window and others to everything, PART_ATTENTION is the latter. An encoder in front of a
// decoder has PART_ENCODER and PART_ENCODER_MLP, and PART_CROSSING is between them.
enum layer_part {
    PART_EMBEDDING, PART_ATTENTION, PART_WINDOWED, PART_ENCODER, PART_RECURRENT, PART_MLP, PART_ENCODER_MLP,
    PART_EXPERTS, PART_CROSSING, PART_PREDICTED, PART_HEAD,
    LAYER_PARTS, PART_NONE = LAYER_PARTS, LAYER_SLOTS
};
enum estimate_phase { ESTIMATE_F, ESTIMATE_I, ESTIMATE_W, ESTIMATE_PHASES };

struct phase_estimate {
    double products_ns, attention_ns, passes_ns, communication_ns;  // on the device, without what is hidden
    double dispatch_ns;  // of experts' messages, hidden or not
    double dispatched_bytes;  // that the device sends in these messages, with those that stay on it
    double paired_ns;    // the part of them that is hidden where forwards run together with backwards (hidden_experts)
    double hidden_ns;    // communication that is hidden behind other work, paired_ns included
    double launches;     // number of kernels
    double waiting_ns;   // time waiting for the host to launch them
};

struct layer_estimate {
    struct phase_estimate phases[ESTIMATE_PHASES];
    uint64_t parameters;         // of this device's share of the layer
    uint64_t expert_parameters;  // of these, the parameters of experts
    uint64_t frozen_parameters, frozen_expert_parameters;  // the parts of both that are not trained
    uint64_t adapter_parameters;  // those of LoRA, part of `parameters`
    uint64_t frozen_flops;        // of twice `flops` in the backward, what is left out
    double alone_ns;  // of experts' messages in I, what is hidden behind W if these are in no pair (hidden_experts)
    uint64_t output_bytes, saved_bytes, held_for_weight_bytes, workspace_bytes, backward_workspace_bytes, flops;
    enum input_kept input_kept;
};

struct estimate {
    struct transformer model;
    struct rated_device device;
    struct estimate_request request;
    struct layer_estimate parts[LAYER_PARTS];  // each kind of layer once
    uint64_t counts[LAYER_PARTS];
    double reduce_ns;  // to reduce all gradients over the devices that hold the same parameters; includes gather_ns
    double gather_ns;  // to gather the shares once they are updated
    double update_ns;  // the optimizer's pass over all parameters
};

double phase_estimate_ns(const struct phase_estimate *phase);

// Adds as many phases like this; their paired_ns is left out.
static inline void phase_estimate_add(struct phase_estimate *to, const struct phase_estimate *from, double times)
{
    to->products_ns += times * from->products_ns;
    to->attention_ns += times * from->attention_ns;
    to->passes_ns += times * from->passes_ns;
    to->communication_ns += times * from->communication_ns;
    to->dispatch_ns += times * from->dispatch_ns;
    to->dispatched_bytes += times * from->dispatched_bytes;
    to->hidden_ns += times * from->hidden_ns;
    to->launches += times * from->launches;
    to->waiting_ns += times * from->waiting_ns;
}

// Removes from the model what the request leaves out of it.
void estimate_leave_out(const struct estimate_request *request, struct transformer *model);

// Estimates all layers. False with an error if the degrees of parallelism do not divide what they split, such as heads
// or experts. So it is if the device has no rate for matrix products of the request's precision.
bool estimate_model(const struct transformer *model, const struct rated_device *device,
                    const struct estimate_request *request, struct estimate *estimate, struct error *error);

// The profile for the planner, which the caller frees; NULL with an error. A device in its cluster represents one of
// each tensor x context group. With sharding it counts this device's share of what is sharded, except for gradients,
// which are whole.
struct profile *estimate_profile(const struct estimate *estimate, struct error *error);

// How many layers that profile has; the kind of the i-th layer, and its block; and the kinds of the two layers of a
// block. In some models a block is one layer, and the other is PART_NONE.
size_t estimate_layers(const struct transformer *model);
enum layer_part estimate_part(const struct transformer *model, size_t i);
uint64_t estimate_block(const struct transformer *model, size_t i);
enum layer_part estimate_attention_part(const struct transformer *model, uint64_t block);
enum layer_part estimate_rest_part(const struct transformer *model, uint64_t block);

// What a block hands on.
uint64_t estimate_output_bytes(const struct estimate *estimate);

// Whether blocks begin with layers of this kind.
bool estimate_begins_block(const struct transformer *model, enum layer_part part);

// The kind of layer in words: that of an estimate, and that of a profile.
const char *estimate_part_name(const struct transformer *model, enum layer_part part);
const char *estimate_part_kind(const struct transformer *model, enum layer_part part);

// Writes the numbers of one kind of layer into a zeroed profile layer.
void estimate_numbers(const struct estimate *estimate, enum layer_part part, struct profile_layer *layer);

// Writes where each layer's time goes, and what is kept in all: a screen for people, and the document
// "weir.estimate".
void estimate_print(const struct estimate *estimate, struct text *text);
void estimate_write(const struct estimate *estimate, struct text *text);

#endif
