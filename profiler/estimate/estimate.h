// What the layers of a transformer cost on a device that is not here: its products, passes over memory, launches and
// the communication within a layer, and the bytes that Megatron keeps of each (Korthikanti et al. 2022, 2205.05198).
//
// All is per device and micro-batch. Devices are numbered as Megatron numbers them: tensor innermost, then context,
// expert and data, with the ranks of a pipeline outside of these, or (`apart`) between a stage's devices and data.
#ifndef PROFILER_ESTIMATE_ESTIMATE_H
#define PROFILER_ESTIMATE_ESTIMATE_H

#include "profiler/estimate/rated_device.h"
#include "profiler/estimate/transformer.h"
#include "profiler/profile.h"

// How attention is computed: by one kernel that keeps no scores, the vendor's or FlashAttention 2; with scores that are
// kept; with scores that are computed again in the backward (what Korthikanti calls selective).
enum attention_how { ATTENTION_FUSED, ATTENTION_FLASH, ATTENTION_PLAIN, ATTENTION_AGAIN };

// What of a layer's own communication is hidden: nothing; in the backward what fits behind the products for the
// weights; all that fits behind the products beside it, in as many parts as there are devices.
enum overlap_how { OVERLAP_NOTHING, OVERLAP_BACKWARD, OVERLAP_ALL };

// How tokens reach their experts: to each of them apart (NCCL's all-to-all), or once to each group of devices that has
// some of them, which deals them out (DeepEP, HybridEP).
enum dispatch_how { DISPATCH_EACH, DISPATCH_ONCE };

// How the loss is computed of the logits: widened to fp32 and from there in place, as Megatron has it; by PyTorch's
// cross_entropy, each step into memory of its own; in one kernel that writes their gradient over them (Transformer
// Engine); in one kernel each way with a gradient beside them (FlashAttention's, or a compiler's); as Megatron has it, put
// together by a compiler (--cross-entropy-loss-fusion), which makes a copy.
enum loss_how { LOSS_IN_PLACE, LOSS_PLAIN, LOSS_FUSED, LOSS_KERNEL, LOSS_COMPILED };

// What devices with the same part of the model hold once between them.
enum estimate_shard { ESTIMATE_SHARD_NONE, ESTIMATE_SHARD_OPTIMIZER, ESTIMATE_SHARD_GRADIENTS, ESTIMATE_SHARD_WEIGHTS };

// What within a layer is not kept but computed again in the backward: what norms give; what comes between the products
// of MLPs and experts; queries, keys and values of latent attention. (Megatron's --recompute-modules layernorm,
// moe_act, mla_up_proj.)
enum estimate_again { AGAIN_NORMS = 1, AGAIN_ACTIVATIONS = 2, AGAIN_LATENT = 4 };

// For people and for options; each ends in NULL. Those of `again` stand in the order of their bits.
extern const char *const estimate_attention_words[], *const estimate_overlap_words[], *const estimate_shard_words[],
    *const estimate_dispatch_words[], *const estimate_again_words[], *const estimate_loss_words[];

// "norms,latent"; false with a sentence that says what there is.
bool estimate_again_parse(const char *text, unsigned *again, struct error *error);

// What of a request is not as its framework has it (framework.h).
enum estimate_said {
    SAID_ATTENTION = 1, SAID_OVERLAP = 2, SAID_LOSS = 4, SAID_DISPATCH = 8, SAID_SEQUENCE_PARALLEL = 16,
    SAID_COMPILED = 32, SAID_GRAPHS = 64, SAID_HIDDEN_EXPERTS = 128,
};

struct framework;

struct estimate_request {
    const struct framework *like;  // has what `said` leaves open; NULL: all is as it stands here
    unsigned said;                 // of enum estimate_said, together
    uint64_t tensor, context, expert, data;  // degrees, from 1; `expert` divides tensor x context x data
    uint64_t apart;                          // ranks of a pipeline between devices of a data group; 1: none
    uint64_t micro_batch, sequence;          // sequence 0: the longest that the model's file says
    const char *dtype;                       // of activations and weights: "bf16"
    const char *products;                    // of the layers' products, "fp8"; NULL: as dtype
    enum attention_how attention;
    enum overlap_how overlap;
    enum estimate_shard shard;
    enum dispatch_how dispatch;
    enum loss_how loss;
    unsigned again;          // of enum estimate_again, together
    uint64_t within;         // of the devices with the same part of the model, so many hold once what `shard` says, and
                             // each such group has all of it; 0: all of them
    bool narrow_gathers;     // what products read is gathered as narrow, over tensor groups and of shared weights
    uint32_t metrics;        // cross entropies of the logits that are computed to be told, beside the loss
    uint32_t gradient_bytes;  // of a parameter, in which gradients are kept and sent; 0: as the framework has it
    bool sequence_parallel;  // what tensor parallelism leaves whole is split along the sequence
    bool graphs;             // launches cost the host nothing
    bool blocking;           // the host waits for each kernel before it launches the next (CUDA_LAUNCH_BLOCKING)
    bool hidden_experts;     // what experts send is hidden behind other micro-batches' work
    bool without_mtp;        // multi-token prediction is left out (estimate_leave_out())
    bool whole_blocks;       // the profile is not cut between a block's attention and its MLP
    bool fused_passes;       // neighbouring passes over memory are one kernel, as a compiler makes them
};

// All said: nothing is like a framework.
struct estimate_request estimate_usual(void);

// What is asked where nobody says anything: all as the first framework has it.
struct estimate_request estimate_unsaid(void);

// Where some layers see a window and others all, attention is the latter's.
enum layer_part {
    PART_EMBEDDING, PART_ATTENTION, PART_WINDOWED, PART_MLP, PART_EXPERTS, PART_PREDICTED, PART_HEAD, LAYER_PARTS
};
enum estimate_phase { ESTIMATE_F, ESTIMATE_I, ESTIMATE_W, ESTIMATE_PHASES };

struct phase_estimate {
    double products_ns, attention_ns, passes_ns, communication_ns;  // on the device, what is hidden left out
    double hidden_ns;    // communication behind other work
    double launches;     // kernels
    double waiting_ns;   // for the host to launch them
};

struct layer_estimate {
    struct phase_estimate phases[ESTIMATE_PHASES];
    uint64_t parameters;         // of this device's share
    uint64_t expert_parameters;  // of them, those of experts
    uint64_t output_bytes, saved_bytes, held_for_weight_bytes, workspace_bytes, backward_workspace_bytes, flops;
    enum input_kept input_kept;
};

struct estimate {
    struct transformer model;
    struct rated_device device;
    struct estimate_request request;
    struct layer_estimate parts[LAYER_PARTS];  // each kind of layer once
    uint64_t counts[LAYER_PARTS];
    double reduce_ns;  // the gradients of all of it, over the devices that hold the same, with
    double gather_ns;  // what shares are gathered in once they are updated
    double update_ns;  // the optimizer's pass over all of it
};

double phase_estimate_ns(const struct phase_estimate *phase);

// Takes out of the model what the request leaves out of it.
void estimate_leave_out(const struct estimate_request *request, struct transformer *model);

// False with a sentence where degrees do not divide the model, or the device has no such products.
bool estimate_model(const struct transformer *model, const struct rated_device *device,
                    const struct estimate_request *request, struct estimate *estimate, struct error *error);

// The profile that the planner takes; a device in its cluster stands for one of each tensor x context group. Of what
// --shard leaves to the devices with the same parameters it counts this device's share, but for gradients, which are whole.
struct profile *estimate_profile(const struct estimate *estimate, struct error *error);

// How many layers that profile has, the kind of the i-th, and of the two of each block.
size_t estimate_layers(const struct transformer *model);
enum layer_part estimate_part(const struct transformer *model, size_t i);
enum layer_part estimate_attention_part(const struct transformer *model, uint64_t block);
enum layer_part estimate_rest_part(const struct transformer *model, uint64_t block);

// The numbers of one kind of its layers, into a zeroed one.
void estimate_numbers(const struct estimate *estimate, enum layer_part part, struct profile_layer *layer);

// Where each layer's time goes, and what the whole keeps: a screen for people, and the document "weir.estimate".
void estimate_print(const struct estimate *estimate, struct text *text);
void estimate_write(const struct estimate *estimate, struct text *text);

#endif
