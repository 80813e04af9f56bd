// Megatron-Core: arguments of its training scripts.
//
//     Et*5|t*6|t*6|t*5L      --pipeline-model-parallel-layout: stages between bars, E the embedding, t a transformer
//                            layer, m one that predicts tokens further on, L the loss (with the norm and the head
//                            before it); x*n is n times x
//
// With P ranks, stage s is on rank s mod P, as in Weir. Recomputation is set once for all stages: the first N layers
// of each (block), groups of N (uniform), or kinds of modules (selective).

#include "exports/megatron.h"

static uint32_t most_blocks(const struct export *export, uint32_t (*count)(const struct export *, uint32_t))
{
    uint32_t most = 0;
    for (uint32_t s = 0; s < export->stages; s++) {
        const uint32_t blocks = count(export, s);
        most = blocks > most ? blocks : most;
    }
    return most;
}

// Whether n divides the number of layers of every stage. Megatron requires this of its groups of n layers.
static bool groups_come_out_even(const struct export *export, uint32_t n)
{
    for (uint32_t s = 0; s < export->stages; s++)
        if (export_blocks(export, s) % n != 0)
            return false;
    return true;
}

static bool has_loss_last(const struct export *export)
{
    const struct outline *outline = &export->outline;
    return outline->units[0].kind == UNIT_INPUT && outline->units[outline->count - 1].kind == UNIT_OUTPUT;
}

static bool fit(struct export *export, struct error *error)
{
    if (export->schedule && export->plan->chunks > 1 && export->micro_batches < export->ranks)
        return error_set_kind(error, ERROR_ANSWER, "Megatron-Core interleaves from %u micro-batches on, one for each"
                              " rank, but there are %u", export->ranks, export->micro_batches);
    if (!has_loss_last(export))
        export_say(export, "The model's layers have no %s by their names; Megatron-Core adds its own.",
                   export->outline.units[0].kind == UNIT_INPUT ? "head" : "embedding");
    const uint32_t again = most_blocks(export, export_blocks_again);
    if (again_is(export, AGAIN_NONE, 0) || again_is(export, AGAIN_FIRST, again) || again_is(export, AGAIN_MLP, 0))
        return true;
    for (uint32_t n = 2, most = most_blocks(export, export_blocks); n <= most; n++)
        if (groups_come_out_even(export, n) && again_is(export, AGAIN_GROUPS, n))
            return true;
    again_is(export, again > 0 ? AGAIN_FIRST : AGAIN_NONE, again);
    return true;
}

static void write_layout(struct export *export)
{
    text_add(export->text, "    --pipeline-model-parallel-layout 'E");
    for (uint32_t s = 0; s < export->stages; s++) {
        const uint32_t blocks = export_blocks(export, s);
        text_add(export->text, s > 0 ? "|" : "");
        if (blocks > 1)
            text_add(export->text, "t*%u", blocks);
        else
            text_add(export->text, blocks ? "t" : "");
        if (export_has_predicted(export, s))
            text_add_repeated(export->text, "m", export->outline.predicted);
    }
    text_add(export->text, "L'\n");
}

// The parts of layers that are recomputed, one after the other.
static void write_modules(struct export *export)
{
    const unsigned again = export->estimated ? export->estimated->request.recompute_tensors : 0;
    const struct { bool is; const char *name; } modules[] = {
        { export->again.kind == AGAIN_MLP, "mlp" },
        { export->estimated && export->estimated->request.attention == ATTENTION_RECOMPUTED, "core_attn" },
        { again & RECOMPUTE_NORMS, "layernorm" },
        { again & RECOMPUTE_ACTIVATIONS && export->estimated->model.experts > 0, "moe_act" },
        { again & RECOMPUTE_LATENT, "mla_up_proj" },
    };
    bool any = false;
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        if (modules[i].is && !any)
            text_add(export->text, "    --recompute-granularity selective\n    --recompute-modules");
        if (modules[i].is)
            text_add(export->text, " %s", modules[i].name);
        any |= modules[i].is;
    }
    text_add(export->text, any ? "\n" : "");
}

static void write_again(struct export *export)
{
    const struct again *again = &export->again;
    if (!megatron_runs_layers_again(export))
        write_modules(export);
    else
        text_add(export->text, "    --recompute-granularity full\n    --recompute-method %s\n"
                               "    --recompute-num-layers %u\n", again->kind == AGAIN_FIRST ? "block" : "uniform",
                 again->counts[0]);
}

// Weir's rounds are PyTorch's: there are m / p of them, rounded down, and at least one.
static void write_group(struct export *export)
{
    const uint32_t rounds = export->micro_batches / export->ranks, group = export->micro_batches / rounds;
    if (group != export->ranks)
        text_add(export->text, "    --microbatch-group-size-per-virtual-pipeline-stage %u\n", group);
}

static bool write(struct export *export, struct error *error)
{
    (void)error;
    const uint64_t samples = export_micro_batch(export);
    if (samples == 0)
        export_say(export,
                   "How many samples a micro-batch has is the profile's to say (--profile): --global-batch-size is"
                   " %u times --micro-batch-size.",
                   export->plan->micro_batches);
    export_heading(export, "#");
    megatron_write_environment(export);
    text_add(export->text, "PIPELINE_ARGS=(\n    --num-layers %u\n    --pipeline-model-parallel-size %u\n",
             export->outline.blocks, export->ranks);
    if (export->outline.predicted > 0)
        text_add(export->text, "    --mtp-num-layers %u\n", export->outline.predicted);
    write_layout(export);
    if (export->plan->chunks > 1)
        write_group(export);
    if (samples > 0)
        text_add(export->text, "    --micro-batch-size %llu\n    --global-batch-size %llu\n",
                 (unsigned long long)samples, (unsigned long long)export_batch(export));
    write_again(export);
    if (export->estimated) {
        megatron_write_how(export);
        megatron_write_model(export);
    }
    text_add(export->text, ")\n");
    return true;
}

static const struct schedule_word schedules[] = { { "1f1b", "1F1B" }, { "interleaved", "interleaved" }, { 0 } };

const struct export_words megatron_words = { GRAIN_BLOCKS, schedules, false, fit, megatron_tells, write };
