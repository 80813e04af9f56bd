// Colossal-AI: a HybridParallelPlugin.
//
// A stage is a number of transformer layers, and a number of its first ones are recomputed. This is exactly what
// plans say. The embedding is on the first stage, and the norm and the head are on the last. If ranks have several
// stages, its list of layers is taken for a list of ranks (it must have pp_size numbers). Only its own distribution
// is left then. It is even; if there is a remainder, the stages in the middle get one layer more each.

#include <string.h>

#include "exports/words.h"

// How many of `blocks` blocks stage `s` gets.
static uint32_t even_share(uint32_t blocks, uint32_t stages, uint32_t s)
{
    const uint32_t rest = blocks % stages, from = stages / 2 - rest / 2;
    return blocks / stages + (s >= from && s < from + rest);
}

// Cuts stages that have this many blocks each. The input is before them, the output after them.
static void cut_evenly(struct export *export)
{
    const struct outline *outline = &export->outline;
    uint32_t unit = outline->units[0].kind == UNIT_INPUT;
    for (uint32_t s = 0; s + 1 < export->stages; s++)
        export->cuts[s + 1] = unit += even_share(outline->blocks, export->stages, s);
}

static bool fit(struct export *export, struct error *error)
{
    if (export->plan->chunks > 1 && export->outline.blocks < export->stages)
        return error_set_kind(error, ERROR_ANSWER, "Colossal-AI has %u layers for %u stages: one at least is empty",
                              export->outline.blocks, export->stages);
    if (strcmp(export->schedule, "interleaved") == 0 && export->micro_batches % export->ranks != 0)
        return error_set_kind(error, ERROR_ANSWER, "Colossal-AI interleaves as many micro-batches as a multiple of"
                              " its %u ranks, but there are %u", export->ranks, export->micro_batches);
    if (export->plan->chunks > 1)
        cut_evenly(export);
    for (uint32_t s = 0; s < export->stages; s++)
        export->again.counts[s] = export_blocks_again(export, s);
    again_is_planned(export, export_has_again(export) ? AGAIN_FIRST : AGAIN_NONE);
    return true;
}

// --- the V --------------------------------------------------------------------------------

static bool is_v(const struct export *export)
{
    return strcmp(export->schedule, "zbv") == 0;
}

// For a schedule on a V, the recomputation counts are in the order of ranks, twice from first to last. The stages,
// however, go there and back.
static void write_again(struct export *export)
{
    uint32_t *counts = export->again.counts;
    for (uint32_t low = export->ranks, high = export->stages; is_v(export) && low + 1 < high; low++) {
        const uint32_t count = counts[--high];
        counts[high] = counts[low];
        counts[low] = count;
    }
    text_add(export->text, "    gradient_checkpoint_config=PipelineGradientCheckpointConfig(\n"
                           "        num_ckpt_layers_per_stage=");
    export_write_counts(export, counts);
    text_add(export->text, "),  # and model.gradient_checkpointing_enable()\n");
}

// The costs from which it makes its order: means over the stages, in ns and bytes.
static void write_order(struct export *export)
{
    uint64_t sums[5] = { 0 };
    for (uint32_t s = 0; s < export->stages; s++) {
        const struct cost_row *row = &export->plan->stages[s].costs;
        const uint64_t times[5] = { row->forward_ns, row->backward_input_ns + row->recompute_ns,
                                    row->backward_weight_ns, row->kept_forward_bytes, row->kept_weight_bytes };
        for (size_t i = 0; i < 5; i++)
            sums[i] += times[i] / export->stages;
    }
    text_add(export->text, "    scheduler_nodes=PipelineGraph(\n        n_stage=%u, n_micro=%u, f_cost=%llu,"
                           " b_cost=%llu, w_cost=%llu, c_cost=0,\n        f_mem=%llu, b_mem=%lld,"
                           " w_mem=-%llu).get_v_schedule(),\n",
             export->ranks, export->micro_batches, (unsigned long long)sums[0], (unsigned long long)sums[1],
             (unsigned long long)sums[2], (unsigned long long)sums[3], (long long)sums[4] - (long long)sums[3],
             (unsigned long long)sums[4]);
}

// --- the plugin ---------------------------------------------------------------------------

static void write_imports(struct export *export)
{
    text_add(export->text, "from colossalai.booster.plugin import HybridParallelPlugin\n");
    if (is_v(export))
        text_add(export->text, "from colossalai.pipeline.schedule.v_schedule import PipelineGraph\n");
    if (export->again.kind != AGAIN_NONE)
        text_add(export->text, "from colossalai.shardformer import PipelineGradientCheckpointConfig\n");
    text_add(export->text, "\n");
}

static void say_all(struct export *export)
{
    if (is_v(export))
        export_say(export, "Colossal-AI makes the order on its V itself, from the means of what stages cost: it need"
                   " not be the plan's.");
    if (export->plan->chunks > 1)
        export_say(export, "Where ranks have several stages Colossal-AI takes no list of layers: %u of them are dealt"
                   " as it deals them.", export->outline.blocks);
}

static bool write(struct export *export, struct error *error)
{
    (void)error;
    const bool has_list = export->plan->chunks == 1;
    say_all(export);
    export_heading(export, "#");
    write_imports(export);
    text_add(export->text, "plugin = HybridParallelPlugin(\n    tp_size=1,\n    pp_size=%u,\n    pp_style=\"%s\",\n"
                           "    num_model_chunks=%u,\n    num_microbatches=%u,\n", export->ranks, export->schedule,
             export->plan->chunks, export->micro_batches);
    if (has_list) {
        text_add(export->text, "    num_layers_per_stage=");
        export_write_blocks(export);
        text_add(export->text, ",\n");
    }
    if (is_v(export))
        write_order(export);
    if (export->again.kind != AGAIN_NONE)
        write_again(export);
    text_add(export->text, ")\n");
    return true;
}

static const struct schedule_word schedules[] = {
    { "1f1b", "1f1b" }, { "interleaved", "interleaved" }, { "zb-v", "zbv" }, { 0 },
};

const struct export_words colossalai_words = { GRAIN_BLOCKS, schedules, false, fit, NULL, write };
