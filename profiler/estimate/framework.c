#include "profiler/estimate/framework.h"

#include <string.h>

#include "common/alike.h"

// Bytes per parameter: weights, gradients, optimizer, sums, sent, step. Megatron accumulates gradients of bf16 in 4
// bytes and those of fp16 as they are (arguments.py: accumulate_allreduce_grads_in_fp32). Adam has a copy of the
// weights and two moments of 4 bytes (18 and 16 bytes in all, theoretical_memory_usage.py).
#define MEGATRON_STATES .fp16 = { 2, 2, 12, 0, 2, 0 }, .bf16 = { 2, 4, 12, 0, 4, 0 }, .sharded = { 2, 4, 12, 0, 4, 0 }
// NVIDIA's recipes accumulate in 2 bytes (grad_reduce_in_fp32=False). For latent attention the moments have 2 bytes
// (exp_avg_dtype).
#define NVIDIA_STATES \
    .fp16 = { 2, 2, 12, 0, 2, 0 }, .bf16 = { 2, 2, 12, 0, 2, 0 }, .sharded = { 4, 4, 8, 0, 2, 0 }, .latent_optimizer = 8
// PyTorch's FSDP holds parameters, gradients and two moments of 4 bytes. MixedPrecision narrows what is gathered; in
// Composer's PURE it also narrows the gradients that are reduce-scattered. torchtitan reduce-scatters them in 4 bytes
// (mixed_precision_reduce).
#define FSDP_STATES(sent) \
    .fp16 = { 4, 4, 8, 0, sent, 0 }, .bf16 = { 4, 4, 8, 0, sent, 0 }, .sharded = { 4, 4, 8, 0, sent, 0 }

// Facts from before FlashAttention: scores are kept or recomputed, and passes are kernels of their own. The reduction
// of gradients is not hidden at all (training.py at that time: allreduce_gradients() after the last micro-batch).
// Interleaved messages are hidden from 2023 on (overlap_p2p_communication). Before, and with 1F1B, both ends wait,
// and the host with them (p2p_communication.py: torch.cuda.synchronize() after batch_isend_irecv()).
#define EARLY_MEGATRON \
    .attention = ATTENTION_PLAIN, .loss = LOSS_IN_PLACE, .waits_interleaved = true, .synchronizes = true, \
    MEGATRON_STATES

// Attention is scaled_dot_product_attention. DTensor's collectives are waited for; async TP is only on request. Norms
// are sequence parallel in every tensor-parallel plan (parallelize.py). Its benchmarks compile. FSDP reduce-scatters
// gradients behind the next layer's backward. What products in float8 read is gathered in float8
// (PrepareFloat8ModuleInput, Float8ColwiseParallel; for sharded weights enable_fsdp_float8_all_gather, as in its
// benchmarks). activation_checkpoint.selective_ac_option is "op".
#define TORCHTITAN \
    .attention = ATTENTION_FLASH, .overlap = OVERLAP_NOTHING, .dispatch = DISPATCH_EACH, .sequence_parallel = true, \
    .fused_passes = true, .fused_router = true, .hides_reduction = true, .hides_gather = true, .narrow_gathers = true, \
    .shard = ESTIMATE_SHARD_WEIGHTS, FSDP_STATES(4), .selective = SELECTIVE_OPERATIONS

// NVIDIA's recipes since the autumn of 2025. The loss is Transformer Engine's (cross_entropy_fusion_impl te). Tokens
// are dispatched by DeepEP on H100 and by HybridEP on later devices (moe_flex_dispatcher_backend). The router is
// fused (moe_router_fusion). HybridEP sends on 16 multiprocessors (moe_hybridep_num_sms).
#define BRIDGE \
    .senders = 16, \
    .attention = ATTENTION_FUSED, .overlap = OVERLAP_ALL, .loss = LOSS_FUSED, .dispatch = DISPATCH_ONCE, \
    .sequence_parallel = true, .fused_passes = true, .fused_router = true, .hides_reduction = true, \
    .hides_gather = true, \
    .shard = ESTIMATE_SHARD_OPTIMIZER, NVIDIA_STATES

const struct framework frameworks[] = {
    {
        .name = "megatron",
        .about = "Megatron-Core",
        .source = "NVIDIA/Megatron-LM, arguments.py and core/ of 2024 on",
        .attention = ATTENTION_FUSED,      // Transformer Engine's, through cuDNN
        .overlap = OVERLAP_ALL,            // tp_comm_overlap: rings of parts, as NVIDIA's recipes enable it
        .loss = LOSS_IN_PLACE,             // core/tensor_parallel/cross_entropy.py
        .dispatch = DISPATCH_EACH,         // moe_token_dispatcher_type alltoall
        .sequence_parallel = true,
        // bias_swiglu_fusion, bias_dropout_fusion, apply_rope_fusion; the router is not fused
        .fused_passes = true,
        .hides_reduction = true,           // overlap_grad_reduce
        .hides_gather = true,              // overlap_param_gather
        .shard = ESTIMATE_SHARD_OPTIMIZER,  // use_distributed_optimizer
        MEGATRON_STATES,
    },
    {
        .name = "megatron-2022",
        .about = "Megatron-LM of 2022 and 2023, before FlashAttention",
        .source = "Korthikanti et al., arXiv 2205.05198, and Megatron-LM of then",
        // async_tensor_model_parallel_allreduce: the backward's all-reduce, behind products
        .overlap = OVERLAP_BACKWARD,
        .sequence_parallel = false,        // runs that use it say so
        EARLY_MEGATRON,
    },
    {
        .name = "megatron-2021",
        .about = "Megatron-LM of 2021",
        .source = "Narayanan et al., SC '21, arXiv 2104.04473",
        .overlap = OVERLAP_NOTHING,        // from before the asynchronous all-reduce
        EARLY_MEGATRON,
    },
    {
        .name = "nemo",
        .about = "NVIDIA's recipes of 2024 and 2025 (NeMo, dgxc-benchmarking)",
        .source = "NVIDIA/NeMo, performance recipes of 24.07 to 25.07",
        .attention = ATTENTION_FUSED,
        .overlap = OVERLAP_ALL,            // tp_comm_overlap with user buffers
        .loss = LOSS_IN_PLACE,
        .dispatch = DISPATCH_EACH,
        .sequence_parallel = true,
        .fused_passes = true,
        .hides_reduction = true,
        .hides_gather = true,
        .shard = ESTIMATE_SHARD_OPTIMIZER,
        NVIDIA_STATES,
    },
    {
        .name = "bridge",
        .about = "NVIDIA's recipes of since June 2026 (Megatron-Bridge)",
        .source = "NVIDIA-NeMo/Megatron-Bridge, scripts/performance of 26.06 on",
        BRIDGE,
        .graphs_with_experts = true,       // cuda_graph_impl full_iteration, without dropping tokens
        // overlap_moe_expert_parallel_comm, by build_schedule_plan() of core/models/gpt/gpt_model.py, which
        // core/models/mamba/mamba_model.py does not have
        .hides_experts = true,
    },
    {
        .name = "bridge-2025",
        .about = "NVIDIA's recipes of autumn 2025 to spring 2026 (Megatron-Bridge)",
        .source = "NVIDIA-NeMo/Megatron-Bridge, scripts/performance of 25.11 to 26.04",
        BRIDGE,
    },
    {
        .name = "deepseek",
        .about = "DeepSeek's own framework, as DeepSeek-V3 was trained",
        .source = "DeepSeek-AI, arXiv 2412.19437, 3.2 and 3.3",
        .attention = ATTENTION_FUSED,
        .overlap = OVERLAP_ALL,
        .loss = LOSS_IN_PLACE,             // not said
        .dispatch = DISPATCH_NARROW,       // 3.2.2: once to each node; 3.3.2: in 8 bits, and back in bf16
        .sequence_parallel = true,
        .fused_passes = true,
        .fused_router = true,
        .hides_experts = true,             // 3.2.1: DualPipe
        .senders = 20,                     // 3.2.2: of 132 multiprocessors
        .narrow = NARROW_EXPERTS | NARROW_ATTENTION,  // 3.3.3
        // DeepEP, docs: dispatch hands tokens' weights to where experts run, and combine adds up without any
        .weighs_inside = true,
        .hides_reduction = true,
        .hides_gather = true,
        .shard = ESTIMATE_SHARD_OPTIMIZER,  // 3.2: ZeRO-1
        // 3.3.3: gradients and a copy of the weights of 4 bytes, moments of 2
        .fp16 = { 2, 4, 8, 0, 4, 0 }, .bf16 = { 2, 4, 8, 0, 4, 0 }, .sharded = { 2, 4, 8, 0, 4, 0 },
    },
    {
        .name = "torchtitan",
        .about = "torchtitan of since March 2025",
        .source = "pytorch/torchtitan, models/llama3, config/job_config.py and benchmarks/",
        TORCHTITAN,
        .loss = LOSS_KERNEL,               // compile.components: model and loss
    },
    {
        .name = "torchtitan-2024",
        .about = "torchtitan of before March 2025",
        .source = "pytorch/torchtitan, docs/performance.md and benchmarks/ of 2024",
        TORCHTITAN,
        .loss = LOSS_PLAIN,                // cross_entropy of logits in fp32, compiled or not
    },
    {
        .name = "fsdp",
        .about = "PyTorch's FSDP as llm-foundry runs it",
        .source = "mosaicml/llm-foundry, scripts/train/benchmarking",
        .attention = ATTENTION_FLASH,      // attn_impl flash
        .overlap = OVERLAP_ALL,
        .loss = LOSS_KERNEL,               // loss_fn fused_crossentropy, by flash_attn's kernel
        .dispatch = DISPATCH_EACH,
        // LanguageCrossEntropy, LanguagePerplexity of every micro-batch: use_train_metrics
        .metrics = 2,
        .hides_reduction = true,
        .hides_gather = true,
        .shard = ESTIMATE_SHARD_WEIGHTS,   // FULL_SHARD
        FSDP_STATES(2),
    },
    {
        .name = "deepspeed",
        .about = "Megatron-DeepSpeed with its pipeline engine, as BLOOM was trained",
        .source = "bigscience-workshop/Megatron-DeepSpeed; deepspeed/runtime/pipe/engine.py",
        .overlap = OVERLAP_NOTHING,        // a Megatron from before the asynchronous all-reduce
        .attention = ATTENTION_PLAIN,
        .loss = LOSS_IN_PLACE,
        .waits_interleaved = true,
        .sends_whole = true,               // engine.py sends activations as they are; partitioned ones are an option
        .shard = ESTIMATE_SHARD_OPTIMIZER,  // ZeRO-1
        .keeps_outputs = true,             // engine.py: pipe_buffers['outputs'] until BackwardPass
        .fp16 = { 2, 2, 12, 0, 2, 4 },        // stage_1_and_2.py: a share of the gradients is widened during the step
        // bf16_optimizer.py: fp32_groups_gradients_flat beside the gradients in the weights' type
        .bf16 = { 2, 2, 12, 4, 4, 0 },
        .sharded = { 2, 2, 12, 0, 2, 4 },
    },
    {
        .name = "internevo",
        .about = "InternEvo",
        .source = "InternLM/InternEvo, internlm/solver/optimizer/hybrid_zero_optim.py and doc/en/train_performance.md",
        .attention = ATTENTION_FLASH,
        .overlap = OVERLAP_ALL,
        .loss = LOSS_KERNEL,               // FlashCrossEntropyLoss
        .dispatch = DISPATCH_EACH,
        .sequence_parallel = true,
        .metrics = 1,                      // metrics.py: AccPerplex of every micro-batch
        .hides_reduction = true,           // overlap_sync_grad; without overlap_sync_param weights are waited for
        .shard = ESTIMATE_SHARD_OPTIMIZER,
        .fp16 = { 2, 2, 12, 0, 2, 4 },
        .bf16 = { 2, 2, 12, 0, 2, 4 },        // hybrid_zero_optim.py: gradients are converted to fp32 in step()
        .sharded = { 2, 2, 12, 0, 2, 4 },
    },
    { 0 },
};

const struct framework *framework_find(const char *name, struct error *error)
{
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    for (size_t i = 0; frameworks[i].name; i++) {
        if (strcmp(frameworks[i].name, name) == 0)
            return &frameworks[i];
        alike_try(&alike, name, frameworks[i].name);
    }
    struct text names = { 0 };
    framework_names(&names);
    error_set(error, "\"%.60s\" is none of %s%s", name, names.data ? names.data : "", alike_said(&alike, said));
    text_clear(&names);
    return NULL;
}

const struct framework *framework_of(const struct estimate_request *request)
{
    return request->like ? request->like : &frameworks[0];
}

void framework_names(struct text *text)
{
    for (size_t i = 0; frameworks[i].name; i++)
        text_add(text, "%s%s", i > 0 ? ", " : "", frameworks[i].name);
}

// --- what a request leaves unsaid ---------------------------------------------

static bool is_said(const struct estimate_request *request, enum estimate_said what)
{
    return request->said & what;
}

enum attention_how framework_attention(const struct rated_device *device, enum attention_how attention)
{
    const bool is_there = attention == ATTENTION_FUSED ? device->fused.forward_permille > 0
                        : attention == ATTENTION_FLASH ? device->flash.forward_permille > 0 : true;
    return is_there ? attention : ATTENTION_PLAIN;
}

void framework_fill(const struct transformer *model, const struct rated_device *device,
                    struct estimate_request *request)
{
    const struct framework *like = request->like;
    if (!like)
        return;
    if (!is_said(request, SAID_ATTENTION))
        request->attention = framework_attention(device, like->attention);
    if (!is_said(request, SAID_OVERLAP))
        request->overlap = like->overlap;
    if (!is_said(request, SAID_LOSS))
        request->loss = like->loss;
    if (!is_said(request, SAID_DISPATCH))
        request->dispatch = like->dispatch;
    if (!is_said(request, SAID_SEQUENCE_PARALLEL))
        request->sequence_parallel = like->sequence_parallel && request->tensor > 1;
    if (!is_said(request, SAID_COMPILED))
        request->fused_passes = model->experts ? like->fused_router : like->fused_passes;
    if (!is_said(request, SAID_GRAPHS))
        request->graphs = model->experts ? like->graphs_with_experts : like->graphs;
    if (!is_said(request, SAID_HIDDEN_EXPERTS))
        request->hidden_experts = like->hides_experts && model->recurrence == RECURRENCE_NONE;
    const double wide = profile_dtype_bytes(request->dtype);
    if (!is_said(request, SAID_NARROW))
        request->narrow = request->products && profile_dtype_bytes(request->products) < wide ? like->narrow : 0;
    request->metrics = like->metrics;
    request->weighs_inside = like->weighs_inside;
    request->narrow_gathers = like->narrow_gathers;
    request->said = ~0u;
}

struct framework_states framework_states(const struct transformer *model, const struct estimate_request *request)
{
    const struct framework *like = framework_of(request);
    struct framework_states states = like->bf16;
    if (profile_dtype_bytes(request->dtype) >= 4)
        states = (struct framework_states){ 4, 4, 8, 0, 4, 0 };  // no copy of the weights is needed
    else if (request->shard == ESTIMATE_SHARD_WEIGHTS)
        states = like->sharded;
    else if (strcmp(request->dtype, "fp16") == 0)
        states = like->fp16;
    if (model->is_latent && like->latent_optimizer)
        states.optimizer = like->latent_optimizer;
    if (request->gradient_bytes) {
        states.sums = request->gradient_bytes == states.gradients ? states.sums : 0;
        states.gradients = states.sent = request->gradient_bytes;
    }
    return states;
}

uint32_t framework_bytes_per_parameter(const struct transformer *model, const struct estimate_request *request)
{
    enum { USUAL = 18, LEAST = 16 };
    const struct framework_states states = framework_states(model, request);
    const uint32_t all = states.weights + states.gradients + states.sums + states.optimizer;
    return all == USUAL ? 0 : all > LEAST ? all : LEAST;
}

enum estimate_shard framework_shard(const struct estimate_request *request)
{
    const bool is_alone = request->context * request->data == 1;
    return is_alone || !request->like ? ESTIMATE_SHARD_NONE : request->like->shard;
}

void framework_say(const struct framework *framework, struct text *text)
{
    text_add(text, "Like %s: %s (%s).\nThat is what a tuned run reaches; untuned ones took up to twice that.\n",
             framework->name, framework->about, framework->source);
}
