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

// What is said of a choice. `format` has the number, or nothing where the choice is a flag. An enum's values have
// `words` instead, and NULL for the usual one.
struct said {
    const char *format;
    uint64_t number, usual;
    const char *const *words;
};

static void say(const struct said *said, struct text *text)
{
    const char *words = said->words ? said->words[said->number] : said->format;
    if (!words || (!said->words && said->number == said->usual))
        return;
    const char *mark = strstr(words, "%u");
    if (mark)
        text_add(text, "%.*s%llu%s", (int)(mark - words), words, (unsigned long long)said->number, mark + 2);
    else
        text_add(text, "%s", words);
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

// What the plan counts on; nothing if it is the usual choice, or the optimizer, for which export.c has a sentence.
static void say_choice(const struct export *export, enum choice choice, struct text *text)
{
    const struct estimate_request *how = &export->estimated->request;
    const struct said choices[CHOICES] = {
        [CHOICE_TENSOR] = { .format = "groups of %u devices that share each layer's matrices (tensor parallel)",
                            .number = how->tensor, .usual = 1 },
        [CHOICE_SEQUENCE_PARALLEL] = {
            .format = "sequence parallelism (what matrices do not touch is split along the sequence)",
            .number = how->sequence_parallel },
        [CHOICE_CONTEXT] = { .format = "groups of %u devices that share each sequence (context parallel)",
                             .number = how->context, .usual = 1 },
        [CHOICE_EXPERT] = { .format = "groups of %u devices that share the experts",
                            .number = how->expert, .usual = 1 },
        [CHOICE_DATA] = { .format = "%u pipelines side by side (data parallel)", .number = how->data, .usual = 1 },
        [CHOICE_PLACEMENT] = { .format = "devices numbered along the %u ranks of a pipeline before the next pipeline's",
                               .number = how->inner_ranks, .usual = 1 },
        [CHOICE_SHARD] = { .number = how->shard, .words = shards },
        [CHOICE_SEQUENCE] = { .format = "sequences of %u tokens", .number = how->sequence },
        [CHOICE_MICRO_BATCH] = { .format = "%u sequences in a micro-batch", .number = export->profile->micro_batch },
        [CHOICE_ATTENTION] = { .number = how->attention, .words = attentions },
        [CHOICE_OVERLAP] = { .number = how->overlap, .words = overlaps },
        [CHOICE_DISPATCH] = { .number = how->dispatch, .words = dispatches },
        [CHOICE_HIDDEN_EXPERTS] = { .format = "what experts send hidden behind other micro-batches' work",
                                    .number = how->hidden_experts },
        [CHOICE_LOSS] = { .number = how->loss, .words = losses },
        [CHOICE_NORMS_AGAIN] = { .format = "norms computed again rather than kept",
                                 .number = how->recompute_tensors & RECOMPUTE_NORMS },
        [CHOICE_ACTIVATIONS_AGAIN] = { .format = "what is between an MLP's products computed again rather than kept",
                                       .number = how->recompute_tensors & RECOMPUTE_ACTIVATIONS },
        [CHOICE_LATENT_AGAIN] = {
            .format = "queries, keys and values of latent attention computed again rather than kept",
            .number = how->recompute_tensors & RECOMPUTE_LATENT },
        [CHOICE_NARROW_EXPERTS] = { .format = "what experts' activations read kept in 8 bits",
                                    .number = how->narrow & NARROW_EXPERTS },
        [CHOICE_NARROW_ACTIVATIONS] = { .format = "what activations read kept in 8 bits",
                                        .number = how->narrow & NARROW_ACTIVATIONS },
        [CHOICE_NARROW_ATTENTION] = { .format = "the output of attention kept in 12 bits",
                                      .number = how->narrow & NARROW_ATTENTION },
        [CHOICE_GRAPHS] = { .format = "CUDA graphs, with which launches cost the host nothing", .number = how->graphs },
        [CHOICE_BLOCKING] = { .format = "a host that waits for each kernel (CUDA_LAUNCH_BLOCKING=1)",
                              .number = how->blocking },
        [CHOICE_COMPILED] = { .format = "a compiler that makes small passes part of the kernel beside them",
                              .number = how->fused_passes },
        [CHOICE_GRADIENTS] = { .format = "gradients of %u bytes", .number = how->gradient_bytes },
        [CHOICE_WITHIN] = { .format = "states that are held once by %u devices, and again by the next as many",
                            .number = how->within },
    };
    say(&choices[choice], text);
    if (choice == CHOICE_DTYPE)
        text_add(text, "activations and weights of %s", export->profile->dtype);
    if (choice == CHOICE_PRODUCTS && export->estimated->products[0])
        text_add(text, "products of %s", export->estimated->products);
    if (choice == CHOICE_MODEL) {
        text_add(text, "a model of this shape: %s with ", export->estimated->model.name);
        estimated_say_model(export->estimated, text);
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
