#include "exports/choices.h"

#include <string.h>

#include "exports/words.h"
#include "profiler/estimate/framework.h"

// --- degrees ----------------------------------------------------------------------------

uint64_t export_tensor(const struct export *export)
{
    return export->estimated ? export->estimated->request.tensor : 1;
}

uint64_t export_context(const struct export *export)
{
    return export->estimated ? export->estimated->request.context : 1;
}

uint64_t export_expert(const struct export *export)
{
    return export->estimated ? export->estimated->request.expert : 1;
}

bool export_scales_blocks(const struct export *export)
{
    const char *device = export->profile->source.device;
    return strstr(device, "b200") || strstr(device, "b300");
}

uint64_t export_data(const struct export *export)
{
    return export->pipelines * (export->estimated ? export->estimated->request.data : 1);
}

uint64_t export_devices(const struct export *export)
{
    return export_tensor(export) * export_context(export) * export_data(export) * export->ranks;
}

uint64_t export_within(const struct export *export)
{
    const uint64_t within = export->estimated ? export->estimated->request.within : 0;
    return within ? within : export_context(export) * export_data(export);
}

uint64_t export_batch(const struct export *export)
{
    return export_micro_batch(export) * export->micro_batches * export_data(export);
}

// --- choices in words -------------------------------------------------------------------

static void say_number(struct text *text, const char *format, uint64_t number, uint64_t usual)
{
    if (number == usual)
        return;
    const char *mark = strstr(format, "%u");
    text_add(text, "%.*s%llu%s", (int)(mark - format), format, (unsigned long long)number, mark + 2);
}

static void say_flag(struct text *text, const char *what, bool is)
{
    if (is)
        text_add(text, "%s", what);
}

// The word for people for an enum value; NULL if it is the usual choice.
static void say_word(struct text *text, const char *const *words, unsigned word)
{
    if (words[word])
        text_add(text, "%s", words[word]);
}

static const char *const shards[] = { NULL, "the optimizer's states held once by devices with the same parameters",
    "gradients and the optimizer's states held once by devices with the same parameters",
    "weights, gradients and the optimizer's states held once by devices with the same parameters" };
static const char *const attentions[] = { NULL, "attention by FlashAttention 2",
    "attention that keeps its scores", "attention whose scores are computed again in the backward" };
static const char *const overlaps[] = { "no message within a layer hidden behind products", NULL,
    "all messages within layers hidden that fit behind the products beside them" };
static const char *const dispatches[] = { NULL, "tokens sent once to each group of experts (DeepEP, HybridEP)",
    "tokens sent once to each group of experts (DeepEP, HybridEP), in the type that products read" };
static const char *const losses[] = { NULL, "a loss by PyTorch's cross_entropy, each step in memory of its own",
    "a loss in one kernel that writes over its logits",
    "a loss in one kernel each way, with a gradient beside its logits",
    "a loss that a compiler puts together" };

// What the plan counts on; nothing if it is the usual choice.
static void say_choice(const struct export *export, enum choice choice, struct text *text)
{
    const struct estimate_request *how = &export->estimated->request;
    switch (choice) {
    case CHOICE_TENSOR:
        return say_number(text, "groups of %u devices that share each layer's matrices (tensor parallel)", how->tensor,
                          1);
    case CHOICE_SEQUENCE_PARALLEL:
        return say_flag(text, "sequence parallelism (what matrices do not touch is split along the sequence)",
                        how->sequence_parallel);
    case CHOICE_CONTEXT:
        return say_number(text, "groups of %u devices that share each sequence (context parallel)", how->context, 1);
    case CHOICE_EXPERT:
        return say_number(text, "groups of %u devices that share the experts", how->expert, 1);
    case CHOICE_DATA:
        return say_number(text, "%u pipelines side by side (data parallel)", how->data, 1);
    case CHOICE_PLACEMENT:
        return say_number(text, "devices numbered along the %u ranks of a pipeline before the next pipeline's",
                          how->inner_ranks, 1);
    case CHOICE_SHARD:
        return say_word(text, shards, how->shard);
    case CHOICE_SEQUENCE:
        return say_number(text, "sequences of %u tokens", how->sequence, 0);
    case CHOICE_MICRO_BATCH:
        return say_number(text, "%u sequences in a micro-batch", export->profile->micro_batch, 0);
    case CHOICE_DTYPE:
        text_add(text, "activations and weights of %s", export->profile->dtype);
        return;
    case CHOICE_PRODUCTS:
        if (export->estimated->products[0])
            text_add(text, "products of %s", export->estimated->products);
        return;
    case CHOICE_ATTENTION:
        return say_word(text, attentions, how->attention);
    case CHOICE_OVERLAP:
        return say_word(text, overlaps, how->overlap);
    case CHOICE_DISPATCH:
        return say_word(text, dispatches, how->dispatch);
    case CHOICE_HIDDEN_EXPERTS:
        return say_flag(text, "what experts send hidden behind other micro-batches' work", how->hidden_experts);
    case CHOICE_LOSS:
        return say_word(text, losses, how->loss);
    case CHOICE_NORMS_AGAIN:
        return say_flag(text, "norms computed again rather than kept", how->recompute_tensors & RECOMPUTE_NORMS);
    case CHOICE_ACTIVATIONS_AGAIN:
        return say_flag(text, "what is between an MLP's products computed again rather than kept",
                        how->recompute_tensors & RECOMPUTE_ACTIVATIONS);
    case CHOICE_LATENT_AGAIN:
        return say_flag(text, "queries, keys and values of latent attention computed again rather than kept",
                        how->recompute_tensors & RECOMPUTE_LATENT);
    case CHOICE_NARROW_EXPERTS:
        return say_flag(text, "what experts' activations read kept in 8 bits", how->narrow & NARROW_EXPERTS);
    case CHOICE_NARROW_ACTIVATIONS:
        return say_flag(text, "what activations read kept in 8 bits", how->narrow & NARROW_ACTIVATIONS);
    case CHOICE_NARROW_ATTENTION:
        return say_flag(text, "the output of attention kept in 12 bits", how->narrow & NARROW_ATTENTION);
    case CHOICE_GRAPHS:
        return say_flag(text, "CUDA graphs, with which launches cost the host nothing", how->graphs);
    case CHOICE_BLOCKING:
        return say_flag(text, "a host that waits for each kernel (CUDA_LAUNCH_BLOCKING=1)", how->blocking);
    case CHOICE_COMPILED:
        return say_flag(text, "a compiler that makes small passes part of the kernel beside them", how->fused_passes);
    case CHOICE_GRADIENTS:
        return say_number(text, "gradients of %u bytes", how->gradient_bytes, 0);
    case CHOICE_WITHIN:
        return say_number(text, "states that are held once by %u devices, and again by the next as many", how->within,
                          0);
    case CHOICE_MODEL:
        text_add(text, "a model of this shape: %s with ", export->estimated->model.name);
        estimated_say_model(export->estimated, text);
        return;
    default:  // the optimizer, which the plan states and export.c has a sentence for
        return;
    }
}

void export_tells(struct export *export, enum choice choice)
{
    export->expressed |= 1u << choice;
}

void export_tells_if(struct export *export, bool does, enum choice choice)
{
    export->expressed |= does ? 1u << choice : 0;
}

void export_say_omitted(struct export *export)
{
    if (export->estimated && export->estimated->request.like)
        export_say(export, "Times and bytes are estimated like %s.", export->estimated->request.like->name);
    for (unsigned choice = 0; export->estimated && choice < CHOICES; choice++) {
        struct text text = { 0 };
        if (!(export->expressed & 1u << choice))
            say_choice(export, (enum choice)choice, &text);
        if (text.failed)
            export->said->failed = true;
        else if (text.length)
            export_say(export, "The plan counts on %s; nothing here tells %s.", text.data, export->format->title);
        text_clear(&text);
    }
}
