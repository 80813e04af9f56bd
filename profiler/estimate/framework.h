// Training frameworks as rows of facts: what each hides behind other work, what it keeps, and how it launches
// kernels.
//
// Two runs of one model on the same devices differ by what their frameworks do. An estimate is made as for one of
// them (estimate_request.like). What the request states differs from that framework:
//
//     --like megatron --tensor 8 --loss fused       Megatron's overlap, kernels and bytes, with another loss
//
// Every row names its source; framework.c says where each fact is from. Nothing in it is fitted to a run.
#ifndef PROFILER_ESTIMATE_FRAMEWORK_H
#define PROFILER_ESTIMATE_FRAMEWORK_H

#include "common/text.h"
#include "profiler/estimate/estimate.h"

// Bytes per parameter. With sharding, the devices that have a parameter hold these only once, a share on each.
struct framework_states {
    uint32_t weights, gradients, optimizer;
    uint32_t sums;  // whole gradients of another type, to which those of each micro-batch are added
    uint32_t sent;  // of a gradient, when gradients are reduced over devices
    uint32_t step;  // of a share of the gradients that is widened during the update, if the optimizer is sharded
};

// What "selective" recomputation recomputes: attention alone, or products according to torchtitan's policy.
enum framework_selective { SELECTIVE_ATTENTION, SELECTIVE_OPERATIONS };

struct framework {
    const char *name;
    const char *about;   // for people, such as "Megatron-Core as its own recipes run it"
    const char *source;  // where the facts are from
    // How layers run.
    enum attention_how attention;
    enum overlap_how overlap;
    enum loss_how loss;
    enum dispatch_how dispatch;
    bool sequence_parallel;  // if there is tensor parallelism
    bool fused_passes;       // for models without experts
    bool fused_router;       // for models with experts
    // What products read is gathered in their narrow type, over tensor-parallel groups and for sharded weights
    bool narrow_gathers;
    bool graphs;             // for models without experts
    bool graphs_with_experts;
    bool hides_experts;      // communication of experts, behind other micro-batches' work
    bool weighs_inside;      // tokens' weights are applied within experts (estimate_request.weighs_inside)
    unsigned narrow;         // flags of enum estimate_narrow, if products read narrow numbers
    uint32_t senders;        // multiprocessors that send tokens to experts while others compute; 0: the usual number
    uint32_t metrics;        // cross entropies that are computed only to be reported, beside the loss
    // How stages and pipelines communicate.
    bool waits_interleaved;  // messages of interleaved schedules are waited for, as those of 1F1B always are
    bool synchronizes;       // the host waits for messages, too, so that the work after them is launched late
    bool sends_whole;        // each device of a tensor-parallel group sends the whole output of a stage
    bool hides_reduction;    // gradients are reduced behind the last backward
    bool hides_gather;       // weights are gathered behind the next forward
    enum estimate_shard shard;  // the default for a stated layout
    // Bytes.
    struct framework_states fp16, bf16, sharded;  // by the activations' type; `sharded` if weights are sharded
    uint32_t latent_optimizer;  // for models with latent attention; 0: like others
    bool keeps_outputs;         // the output that a stage has sent on stays until its backward
    enum framework_selective selective;
};

// Ended by a NULL name. The first is the default of the commands, of Python and of weir.h.
extern const struct framework frameworks[];

const struct framework *framework_find(const char *name, struct error *error);

// The framework of a request; the first one if the request names none.
const struct framework *framework_of(const struct estimate_request *request);

// Adds the names: "megatron, megatron-2022, .."
void framework_names(struct text *text);

// Fills in what a request leaves open with its framework's choices, for this model on this device.
void framework_fill(const struct transformer *model, const struct rated_device *device,
                    struct estimate_request *request);

// Attention as this device can do it: without such a kernel, scores are kept.
enum attention_how framework_attention(const struct rated_device *device, enum attention_how attention);

// Bytes per parameter on a device with these choices. If the request has no framework, they are those of the first
// one.
struct framework_states framework_states(const struct transformer *model, const struct estimate_request *request);

// Their sum, for plans with 16-bit weights and adamw-master: at least 16; 0 stands for that optimizer's own 18.
uint32_t framework_bytes_per_parameter(const struct transformer *model, const struct estimate_request *request);

// The default sharding. Nothing is sharded if only one device has a part of the model.
enum estimate_shard framework_shard(const struct estimate_request *request);

// Adds a note such as "as megatron has it (source): what a tuned run reaches; untuned ones took up to twice that".
void framework_say(const struct framework *framework, struct text *text);

#endif
