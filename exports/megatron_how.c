// How Megatron-LM computes and shards layers: what the profile was estimated for, as its arguments. The names are
// those of its arguments.py and transformer_config.py in 2026.

#include <string.h>

#include "exports/megatron.h"

static const struct estimate_request *how_of(const struct export *export)
{
    return &export->estimated->request;
}

static bool is_dtype(const struct export *export, const char *a, const char *b, const char *c)
{
    const char *dtype = export->profile->dtype;
    return strcmp(dtype, a) == 0 || strcmp(dtype, b) == 0 || strcmp(dtype, c) == 0;
}

static const char *dtype_argument(const struct export *export)
{
    return is_dtype(export, "bf16", "bfloat16", "bf16") ? "--bf16"
        : is_dtype(export, "fp16", "float16", "half")   ? "--fp16"
        : is_dtype(export, "fp32", "float32", "fp32")   ? ""
                                                        : NULL;
}

// --- which of it can be told ----------------------------------------------------------------

static bool shares_by_fsdp(const struct export *export)
{
    return how_of(export)->shard >= ESTIMATE_SHARD_GRADIENTS;
}

// It does so in pipelines with several stages per rank, and only if no whole layers are recomputed.
static bool hides_experts(const struct export *export)
{
    return how_of(export)->hidden_experts && export_expert(export) > 1 && !megatron_runs_layers_again(export)
        && (export->ranks == 1 || export->plan->chunks > 1) && dtype_argument(export) && *dtype_argument(export);
}

static bool has_dense_layers(const struct transformer *model)
{
    for (uint64_t i = 0; i < model->layers; i++)
        if (!transformer_has_experts(model, i))
            return true;
    return false;
}

static bool sends_once(const struct export *export)
{
    return how_of(export)->dispatch != DISPATCH_EACH && export_expert(export) > 1;
}

static bool has_experts(const struct export *export)
{
    return export->estimated->model.experts > 0;
}

// Full recomputation needs a graph of the whole iteration, in which the host takes no part. Experts' sizes are read
// by the host, however.
static bool has_graphs(const struct export *export)
{
    return how_of(export)->graphs && !(megatron_runs_layers_again(export) && has_experts(export));
}

static void tell_degrees(struct export *export)
{
    static const enum choice always[] = { CHOICE_TENSOR, CHOICE_CONTEXT, CHOICE_EXPERT, CHOICE_DATA, CHOICE_PLACEMENT,
                                          CHOICE_SHARD, CHOICE_SEQUENCE, CHOICE_MICRO_BATCH, CHOICE_MODEL,
                                          CHOICE_BLOCKING };
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        export_tells(export, always[i]);
    export_tells_if(export, export_tensor(export) > 1, CHOICE_SEQUENCE_PARALLEL);
}

static void tell_overlap(struct export *export)
{
    const struct estimate_request *how = how_of(export);
    export_tells_if(export, how->overlap == OVERLAP_ALL && how->sequence_parallel && export_tensor(export) > 1,
                    CHOICE_OVERLAP);
    export_tells_if(export, hides_experts(export), CHOICE_HIDDEN_EXPERTS);
    export_tells_if(export, how->dispatch == DISPATCH_ONCE && export_expert(export) > 1, CHOICE_DISPATCH);
}

// Recomputed parts of layers are expressed only if no whole layers are recomputed.
static void tell_again(struct export *export)
{
    const struct transformer *model = &export->estimated->model;
    const bool has_parts = !megatron_runs_layers_again(export);
    export_tells_if(export, has_parts, CHOICE_NORMS_AGAIN);
    export_tells_if(export, has_parts && has_experts(export) && !has_dense_layers(model), CHOICE_ACTIVATIONS_AGAIN);
    export_tells_if(export, has_parts && model->is_latent, CHOICE_LATENT_AGAIN);
    export_tells_if(export, has_parts || how_of(export)->attention != ATTENTION_RECOMPUTED, CHOICE_ATTENTION);
    if (has_parts && how_of(export)->recompute_tensors & RECOMPUTE_ACTIVATIONS && has_experts(export)
        && has_dense_layers(model))
        export_say(export, "Megatron-Core computes again what is between the products of experts (moe_act), and not of"
                           " the layers that have none.");
    if (!has_parts && (how_of(export)->recompute_tensors || how_of(export)->attention == ATTENTION_RECOMPUTED))
        export_say(export, "Where whole layers run again Megatron-Core runs no parts of the others again: these take"
                           " more memory than is planned.");
}

static const char *optimizer_arguments(const struct export *export)
{
    switch (export->plan->storage.optimizer) {
    case OPTIMIZER_ADAMW:
    case OPTIMIZER_ADAMW_MASTER:
        return "--optimizer adam";
    case OPTIMIZER_SGD:
    case OPTIMIZER_SGD_MASTER:
        return "--optimizer sgd\n    --sgd-momentum 0.0";
    case OPTIMIZER_MOMENTUM:
    case OPTIMIZER_MOMENTUM_MASTER:
        return "--optimizer sgd";
    default:
        return NULL;
    }
}

static void tell_optimizer(struct export *export)
{
    const char *dtype = dtype_argument(export);
    const bool is_wide = !dtype || !*dtype || optimizer_is_master(export->plan->storage.optimizer);
    export_tells_if(export, optimizer_arguments(export), CHOICE_OPTIMIZER);
    if (optimizer_arguments(export) && !is_wide)
        export_say(export, "Megatron-Core keeps weights and gradients of 4 bytes beside those of 2: plan with"
                           " --optimizer adamw-master, or it takes more memory than is planned.");
}

// Its fusions are on unless they are turned off, except for the router's.
static void tell_passes(struct export *export)
{
    export_tells(export, CHOICE_COMPILED);
    if (!how_of(export)->fused_passes && !has_experts(export))
        export_say(export, "The plan counts on small passes that are kernels of their own; Megatron-Core makes them"
                           " part of others, and may be quicker than is planned.");
}

// Gradients of fp16 have this width anyway.
static bool is_reduced_narrow(const struct export *export)
{
    return how_of(export)->gradient_bytes == 2 && dtype_argument(export)
        && strcmp(dtype_argument(export), "--bf16") == 0;
}

static bool shares_in_instances(const struct export *export)
{
    const uint64_t all = export_context(export) * export_data(export), within = export_within(export);
    return how_of(export)->shard != ESTIMATE_SHARD_NONE && within < all && all % within == 0;
}

void megatron_tells(struct export *export)
{
    const struct estimate_request *how = how_of(export);
    tell_degrees(export);
    tell_overlap(export);
    tell_again(export);
    export_tells_if(export, dtype_argument(export), CHOICE_DTYPE);
    export_tells_if(export,
                    strcmp(export->estimated->products, "fp8") == 0 || strcmp(export->estimated->products, "fp4") == 0,
                    CHOICE_PRODUCTS);
    export_tells_if(export, how->loss != LOSS_PLAIN && how->loss != LOSS_KERNEL, CHOICE_LOSS);
    export_tells_if(export, has_graphs(export), CHOICE_GRAPHS);
    export_tells_if(export, is_reduced_narrow(export) || how->gradient_bytes == 4, CHOICE_GRADIENTS);
    export_tells_if(export, shares_in_instances(export), CHOICE_WITHIN);
    tell_passes(export);
    if (how->loss == LOSS_FUSED)
        export_say(export, "Megatron-LM has turned off Transformer Engine's fused loss, which the plan counts on: its"
                           " own (native) takes more memory for the logits.");
    if (how->tensor > 1 && how->tensor * how->context > 1 && shares_by_fsdp(export))
        export_say(export, "Megatron-FSDP wants CUDA_DEVICE_MAX_CONNECTIONS unset, and tensor parallelism wants 1:"
                           " expect less to be hidden than is planned.");
    tell_optimizer(export);
    megatron_say_model(export);
}

// --- the environment ------------------------------------------------------------------------

void megatron_write_environment(struct export *export)
{
    if (!export->estimated)
        return;
    const bool shares = export_tensor(export) * export_context(export) > 1;
    if (shares_by_fsdp(export))
        text_add(export->text, "unset CUDA_DEVICE_MAX_CONNECTIONS\n");
    else if (hides_experts(export))
        text_add(export->text, "export CUDA_DEVICE_MAX_CONNECTIONS=32\n");
    else if (shares)
        text_add(export->text, "export CUDA_DEVICE_MAX_CONNECTIONS=1\n");
    if (how_of(export)->blocking)
        text_add(export->text, "export CUDA_LAUNCH_BLOCKING=1\n");
    text_add(export->text, "# Of %llu devices (WORLD_SIZE). Data, tokenizer, learning rate and steps are yours to add;"
                           " to try it: --mock-data\n# --tokenizer-type NullTokenizer --lr 1e-4 --train-iters 20.\n",
             (unsigned long long)export_devices(export));
}

// --- arguments --------------------------------------------------------------------------------

static void write_degrees(struct export *export)
{
    put_number(export, "--tensor-model-parallel-size", export_tensor(export));
    if (how_of(export)->sequence_parallel && export_tensor(export) > 1)
        put(export, "--sequence-parallel");
    put_number(export, "--context-parallel-size", export_context(export));
    if (has_experts(export)) {
        put_number(export, "--expert-model-parallel-size", export_expert(export));
        if (export_tensor(export) > 1)
            put(export, "--expert-tensor-parallel-size 1");
    }
    if (how_of(export)->inner_ranks > 1)
        put(export, "--use-tp-pp-dp-mapping");
    put_number(export, "--seq-length", how_of(export)->sequence);
}

static void write_shares(struct export *export)
{
    static const char *const strategies[] = { NULL, NULL, "optim_grads", "optim_grads_params" };
    const enum estimate_shard shard = how_of(export)->shard;
    const uint64_t all = export_context(export) * export_data(export);
    if (shard != ESTIMATE_SHARD_NONE)
        put(export, "--use-distributed-optimizer\n    --overlap-grad-reduce\n    --overlap-param-gather");
    else if (all > 1)
        put(export, "--overlap-grad-reduce");
    if (shares_in_instances(export))
        put_number(export, "--num-distributed-optimizer-instances", all / export_within(export));
    if (shares_by_fsdp(export))
        text_add(export->text, "    --use-megatron-fsdp\n    --data-parallel-sharding-strategy %s\n"
                               "    --no-gradient-accumulation-fusion\n    --ckpt-format fsdp_dtensor\n",
                               strategies[shard]);
}

// For 8-bit numbers: blocks of 32 share a scale if the device supports that, else each tensor has one.
static void write_numbers(struct export *export)
{
    const char *dtype = dtype_argument(export), *products = export->estimated->products;
    if (dtype && *dtype)
        put(export, dtype);
    if (is_reduced_narrow(export))
        put(export, "--grad-reduce-in-bf16");
    if (strcmp(products, "fp8") == 0)
        put(export, export_scales_blocks(export) ? "--fp8-format e4m3\n    --fp8-recipe mxfp8"
                                         : "--fp8-format hybrid\n    --fp8-recipe tensorwise");
    else if (strcmp(products, "fp4") == 0)
        put(export, "--fp4-format e2m1\n    --fp4-recipe nvfp4");
}

static void write_messages(struct export *export)
{
    if (export->expressed & 1u << CHOICE_OVERLAP)
        put(export, "--tp-comm-overlap");
    if (!has_experts(export))
        return;
    put(export, sends_once(export) ? "--moe-token-dispatcher-type flex\n    --moe-flex-dispatcher-backend deepep"
                                   : "--moe-token-dispatcher-type alltoall");
    if (how_of(export)->fused_passes)
        put(export, "--moe-router-fusion");
    if (hides_experts(export))
        put(export, "--overlap-moe-expert-parallel-comm");
}

static void write_graphs(struct export *export)
{
    if (!has_graphs(export))
        return;
    if (megatron_runs_layers_again(export)) {
        put(export, "--cuda-graph-impl full_iteration\n    --no-check-for-nan-in-loss-and-grad\n    --te-rng-tracker");
        return;
    }
    const bool has_mlp = has_dense_layers(&export->estimated->model) && !hides_experts(export);
    text_add(export->text, "    --cuda-graph-impl transformer_engine\n    --cuda-graph-modules attn%s%s\n"
                           "    --te-rng-tracker\n", has_mlp ? " mlp" : "",
             has_experts(export) ? " moe_router moe_preprocess" : "");
}

void megatron_write_how(struct export *export)
{
    static const char *const attentions[] = { "fused", "flash", "unfused", "unfused" };
    write_degrees(export);
    write_shares(export);
    write_numbers(export);
    text_add(export->text, "    --attention-backend %s\n", attentions[how_of(export)->attention]);
    if (how_of(export)->loss == LOSS_FUSED || how_of(export)->loss == LOSS_COMPILED)
        put(export, "--cross-entropy-loss-fusion\n    --cross-entropy-fusion-impl native");
    write_messages(export);
    write_graphs(export);
    if (optimizer_arguments(export))
        put(export, optimizer_arguments(export));
}
