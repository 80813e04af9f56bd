// torchtitan 0.3: a function that adds the plan to its trainer's configuration.
//
//     def plan_pipeline(config):      config.parallelism..., and what it needs beside that
//     def planned():                  request->base() with the plan: what `--module FILE --config planned` loads
//
// A stage is a list of names: tok_embeddings, layers.N, norm, lm_head, and whatever else the model has. Of P ranks
// stage s is on rank s mod P, or, where the schedule is one on a V, there and back. A schedule without a name there is
// read from PyTorch's CSV. All transformer layers are run again, or none.

#include <string.h>

#include "common/json.h"
#include "common/shown.h"
#include "exports/words.h"

static bool fit(struct export *export, struct error *error)
{
    (void)error;
    uint32_t blocks = 0;
    for (uint32_t s = 0; s < export->stages; s++)
        blocks += export_blocks_again(export, s);
    if (!again_is(export, AGAIN_NONE, 0) && blocks > 0)
        again_is(export, AGAIN_FIRST, UINT32_MAX);
    return true;
}

// --- modules ----------------------------------------------------------------------------

// How others call the modules that torchtitan's models have, by the last part of a name.
static const struct { const char *theirs, *names[8]; } modules[] = {
    { "tok_embeddings", { "tok_embeddings", "embedding", "embeddings", "embed_tokens", "tok_embedding", "wte", NULL } },
    { "norm", { "norm", "final_norm", "ln_f", "final_layernorm", "final_layer_norm", NULL } },
    { "lm_head", { "lm_head", "head", "output", NULL } },
};
enum { MODULES = sizeof modules / sizeof modules[0], NORM = 1, HEAD = 2 };

static const char *module_of(const char *layer)
{
    const char *dot = strrchr(layer, '.'), *last = dot ? dot + 1 : layer;
    for (size_t i = 0; i < MODULES; i++)
        for (size_t n = 0; modules[i].names[n]; n++)
            if (strcmp(modules[i].names[n], last) == 0)
                return modules[i].theirs;
    return layer;
}

static bool has_module(const struct export *export, const char *module)
{
    for (uint32_t u = 0; u < export->outline.count; u++) {
        const struct unit *unit = &export->outline.units[u];
        if (unit->kind != UNIT_BLOCK && strcmp(module_of(export->outline.layers[unit->first]), module) == 0)
            return true;
    }
    return false;
}

// Profiles often have the last norm within the head.
static void write_unit(struct export *export, const struct unit *unit)
{
    if (unit->kind == UNIT_BLOCK) {
        text_add(export->text, "\"layers.%u\"", unit->number);
        return;
    }
    const char *module = module_of(export->outline.layers[unit->first]);
    if (strcmp(module, modules[HEAD].theirs) == 0 && !has_module(export, modules[NORM].theirs))
        text_add(export->text, "\"%s\", ", modules[NORM].theirs);
    json_quote(export->text, module);
}

static void write_stage(struct export *export, uint32_t stage)
{
    text_add(export->text, "        [");
    for (uint32_t u = export->cuts[stage]; u < export->cuts[stage + 1]; u++) {
        text_add(export->text, u > export->cuts[stage] ? ", " : "");
        write_unit(export, &export->outline.units[u]);
    }
    text_add(export->text, "],\n");
}

static void say_modules(struct export *export)
{
    for (uint32_t u = 0; u < export->outline.count; u++) {
        const struct unit *unit = &export->outline.units[u];
        const char *layer = export->outline.layers[unit->first], *module = module_of(layer);
        if (unit->kind != UNIT_BLOCK && module == layer)
            export_say(export, "Layer %.60s is taken for a module of this name.", layer);
    }
    if (!has_module(export, modules[0].theirs) || !has_module(export, modules[HEAD].theirs))
        export_say(export, "The model's layers have no %s by their names; a stage must name that module too.",
                   has_module(export, modules[0].theirs) ? "head" : "embedding");
}

// --- the schedule -----------------------------------------------------------------------

// Where stages are: on a V, there and back over the ranks, or round and round. false: elsewhere.
static bool is_placed(const struct schedule *order, bool on_a_v)
{
    const uint32_t p = order->ranks;
    for (uint32_t s = 0; s < order->stages; s++)
        if (order->routes[s] != (on_a_v && s >= p ? 2 * p - 1 - s : s % p))
            return false;
    return order->route_count == 1 && (!on_a_v || order->stages == 2 * p);
}

// Of an order that is read from a file only the placement is taken from the schedule's name.
static bool find_placement(struct export *export, const char **name, struct error *error)
{
    struct schedule *order = export_order(export, error);
    if (!order)
        return false;
    struct text csv = { 0 };
    *name = is_placed(order, false) ? "PipelineScheduleMulti" : is_placed(order, true) ? "ZBVZeroBubble" : NULL;
    bool good = export_csv(order, &csv, error);
    if (good && !*name)
        good = error_set_kind(error, ERROR_ANSWER,
                              "torchtitan has the stages of a rank round and round or on a V, but %s"
                              " has them elsewhere",
                              export->plan->schedule);
    text_clear(&csv);
    schedule_free(order);
    return good;
}

static void write_batch(struct export *export)
{
    const uint64_t samples = export_micro_batch(export);
    if (samples > 0)
        text_add(export->text, "    config.parallelism.pipeline_parallel_microbatch_size = %llu\n",
                 (unsigned long long)samples);
    text_add(export->text,
             "    config.training.local_batch_size = %u * config.parallelism.pipeline_parallel_microbatch_size\n",
             export->micro_batches);
}

static void write_degrees(struct export *export)
{
    const struct export_degrees *degrees = export->degrees;
    if (!degrees)
        return;
    const bool is_whole = !degrees->shares_optimizer && !degrees->shares_weights;
    text_add(export->text, "    config.parallelism.tensor_parallel_degree = %u\n", degrees->tensor);
    text_add(export->text, "    config.parallelism.context_parallel_degree = %u\n", degrees->context);
    text_add(export->text, "    config.parallelism.expert_parallel_degree = %u\n", degrees->expert);
    text_add(export->text, "    config.parallelism.data_parallel_%s_degree = %u\n", is_whole ? "replicate" : "shard",
             degrees->data);
    if (is_whole)
        text_add(export->text, "    config.parallelism.data_parallel_shard_degree = 1\n");
    if (degrees->shares_optimizer)
        text_add(export->text, "    config.parallelism.fsdp_reshard_after_forward = \"never\"\n");
    text_add(export->text, "    config.training.seq_len = %llu\n", (unsigned long long)degrees->sequence);
}

static void write_imports(struct export *export)
{
    if (export->again.kind != AGAIN_NONE)
        text_add(export->text, "from torchtitan.distributed.activation_checkpoint import FullAC\n");
    if (export->base) {
        const char *dot = strrchr(export->base, '.');
        text_add(export->text, "from %.*s import %s\n", (int)(dot - export->base), export->base, dot + 1);
    }
    if (export->again.kind != AGAIN_NONE || export->base)
        text_add(export->text, "\n\n");
}

// torchtitan leaves layers out, without a word, that no stage names. Its CUDA graphs and pipelines exclude each other.
static void write_head(struct export *export)
{
    text_add(export->text,
             "def plan_pipeline(config):\n"
             "    \"\"\"Adds the plan to a Trainer.Config, which is returned.\"\"\"\n"
             "    if len(config.model_spec.model.layers) != %u:\n"
             "        raise ValueError(f\"planned for %u layers, not {len(config.model_spec.model.layers)}\")\n"
             "    config.training.disable_cuda_graphs = True\n",
             export->outline.blocks, export->outline.blocks);
}

static bool write(struct export *export, struct error *error)
{
    const char *name = export->schedule;
    if (!name && !find_placement(export, &name, error))
        return false;
    if (!export->schedule)
        export_say(export,
                   "torchtitan has no schedule %s: it reads schedule.csv, which is what `weir export pytorch-csv`"
                   " writes of this plan.",
                   export->plan->schedule);
    say_modules(export);
    if (export->degrees && export->degrees->shares_optimizer)
        export_say(export, "torchtitan shares weights and gradients with the optimizer's states: it takes less memory"
                           " than is planned.");
    if (export->degrees && export->degrees->pipeline_inside)
        export_say(export, "torchtitan numbers devices with the pipeline outermost: its processes have to be started in an"
                           " order in which those of a pipeline are side by side.");
    export_heading(export, "#");
    write_imports(export);
    write_head(export);
    text_add(export->text, "    config.parallelism.pipeline_parallel_degree = %u\n", export->ranks);
    if (export->pipelines > 1)
        text_add(export->text, "    config.parallelism.data_parallel_replicate_degree = %u\n", export->pipelines);
    write_degrees(export);
    text_add(export->text, "    config.parallelism.pipeline_parallel_schedule = \"%s\"\n", name);
    if (!export->schedule)
        text_add(export->text, "    config.parallelism.pipeline_parallel_schedule_csv = \"schedule.csv\"\n");
    write_batch(export);
    text_add(export->text, "    config.parallelism.module_fqns_per_model_part = [\n");
    for (uint32_t s = 0; s < export->stages; s++)
        write_stage(export, s);
    text_add(export->text, "    ]\n");
    text_add(export->text, "    config.activation_checkpoint = %s\n",
             export->again.kind == AGAIN_NONE ? "None" : "FullAC.Config()");
    text_add(export->text, "    return config\n");
    if (export->base)
        text_add(export->text, "\n\ndef planned():\n    return plan_pipeline(%s())\n", strrchr(export->base, '.') + 1);
    return true;
}

static const struct schedule_word schedules[] = {
    { "1f1b", "1F1B" }, { "gpipe", "GPipe" }, { "interleaved", "Interleaved1F1B" }, { "looped-bfs", "LoopedBFS" },
    { "interleaved-zb", "InterleavedZeroBubble" }, { "zb-v", "ZBVZeroBubble" }, { "dualpipev", "DualPipeV" }, { 0 },
};

const struct export_words torchtitan_words = { GRAIN_MODULES, schedules, true, fit, write };
