// Frameworks that train, as rows of facts: what each hides behind other work, what it keeps, how it launches.
//
// Two runs of one model on the same devices differ by what their frameworks do. An estimate is asked like one of them
// (estimate_request.like), and what is said besides is not as that has it:
//
//     --like megatron --tensor 8 --loss fused       Megatron's overlap, kernels and bytes, with another loss
//
// Every row names its source; framework.c has where each fact is from. Nothing in it is fitted to a run.
#ifndef PROFILER_ESTIMATE_FRAMEWORK_H
#define PROFILER_ESTIMATE_FRAMEWORK_H

#include "common/text.h"
#include "profiler/estimate/estimate.h"

// Bytes of a parameter. What --shard leaves to all that have it is held once between them, a share on each.
struct framework_states {
    uint32_t weights, gradients, optimizer;
    uint32_t sums;  // whole gradients of another type, to which those of each micro-batch are added
    uint32_t sent;  // of a gradient when they are added up over devices
    uint32_t step;  // of a share of gradients widened while it is updated, where the optimizer is shared
};

// What "selective" recomputation runs again: attention alone, or products by torchtitan's policy.
enum framework_selective { SELECTIVE_ATTENTION, SELECTIVE_OPERATIONS };

struct framework {
    const char *name;
    const char *about;   // for people: "Megatron-Core as its own recipes run it"
    const char *source;  // where the facts are from
    // How layers run.
    enum attention_how attention;
    enum overlap_how overlap;
    enum loss_how loss;
    enum dispatch_how dispatch;
    bool sequence_parallel;  // where there is tensor parallelism
    bool fused_passes;       // of models without experts
    bool fused_router;       // and of those with
    bool narrow_gathers;     // what products read is gathered as narrow, over tensor groups and of shared weights
    bool graphs;             // of models without experts
    bool graphs_with_experts;
    bool hides_experts;      // what experts send, behind other micro-batches' work
    uint32_t metrics;        // cross entropies that are computed to be told, beside the loss
    // How stages and pipelines meet.
    bool waits_interleaved;  // messages of interleaved schedules are waited for; those of 1F1B always are
    bool synchronizes;       // and the host waits with them, so that what comes next is launched late
    bool sends_whole;        // each device of a tensor group sends all of a stage's output
    bool hides_reduction;    // gradients are added up behind the last backward
    bool hides_gather;       // and weights gathered behind the next forward
    enum estimate_shard shard;  // of a stated layout, where nobody says what is shared
    // Bytes.
    struct framework_states fp16, bf16, sharded;  // by the activations' type; where weights are shared
    uint32_t latent_optimizer;  // of models with latent attention; 0: as others
    bool keeps_outputs;         // what a stage has handed on stays until its backward
    enum framework_selective selective;
};

// The first one is what commands, Python and weir.h take where nobody says another. Ended by a NULL name.
extern const struct framework frameworks[];

const struct framework *framework_find(const char *name, struct error *error);

// The one that a request is like; of one that says none the first.
const struct framework *framework_of(const struct estimate_request *request);

// "megatron, megatron-2022, .."
void framework_names(struct text *text);

// What a request leaves unsaid, as its framework has it, for this model on this device.
void framework_fill(const struct transformer *model, const struct rated_device *device,
                    struct estimate_request *request);

// Bytes of a parameter on a device with these choices. Of a request without a framework, the first one's.
struct framework_states framework_states(const struct transformer *model, const struct estimate_request *request);

// The same added up, for plans with 16-bit weights by adamw-master: 16 at least; 0: the 18 that it has.
uint32_t framework_bytes_per_parameter(const struct transformer *model, const struct estimate_request *request);

// What the devices with the same part of the model hold once where nobody says it: nothing where there is one.
enum estimate_shard framework_shard(const struct estimate_request *request);

// "as megatron has it (source): what a tuned run reaches; untuned ones took up to twice that"
void framework_say(const struct framework *framework, struct text *text);

#endif
