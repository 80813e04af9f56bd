// torchtitan 0.3: a function that adds the plan to its trainer's configuration.
//
//     def plan_pipeline(config):      config.parallelism..., and what it needs beside that
//     def planned():                  request->base() with the plan: what `--module FILE --config planned` loads
//
// A stage is a list of names: tok_embeddings, layers.N, norm, lm_head, and whatever else the model has. With P ranks,
// stage s is on rank s mod P, or there and back for a schedule on a V. A schedule that has no name there is read from
// PyTorch's CSV. Either all transformer layers are recomputed, or none.

#include <string.h>

#include "common/json.h"
#include "exports/words.h"

static bool fit(struct export *export, struct error *error)
{
    (void)error;
    again_all_or_none(export);
    return true;
}

// --- modules ----------------------------------------------------------------------------

// Other names for the modules of torchtitan's models, by the last part of a name.
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

// Profiles often have the last norm as part of the head.
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

// Whether stages are there and back over the ranks (on a V), or else round and round.
static bool is_placed(const struct schedule *order, bool on_a_v)
{
    const uint32_t p = order->ranks;
    for (uint32_t s = 0; s < order->stages; s++)
        if (order->routes[s] != (on_a_v && s >= p ? 2 * p - 1 - s : s % p))
            return false;
    return order->route_count == 1 && (!on_a_v || order->stages == 2 * p);
}

// For an order that is read from a file, only the placement is taken from the schedule's name.
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

// Without a pipeline, the local batch is one micro-batch, and the trainer accumulates gradients over several.
static void write_batch(struct export *export)
{
    const uint64_t samples = export_micro_batch(export);
    const bool has_pipeline = export->stages > 1;
    if (samples > 0 && has_pipeline)
        text_add(export->text, "    config.parallelism.pipeline_parallel_microbatch_size = %llu\n",
                 (unsigned long long)samples);
    if (has_pipeline)
        text_add(export->text,
                 "    config.training.local_batch_size = %u * config.parallelism.pipeline_parallel_microbatch_size\n",
                 export->micro_batches);
    else if (samples > 0)
        text_add(export->text, "    config.training.local_batch_size = %llu\n", (unsigned long long)samples);
    if (samples > 0)
        text_add(export->text, "    config.training.global_batch_size = %llu\n",
                 (unsigned long long)export_batch(export));
    else if (!has_pipeline)
        text_add(export->text, "    config.training.global_batch_size = %llu * config.training.local_batch_size\n",
                 (unsigned long long)(export->micro_batches * export_data(export)));
}

// --- what it was estimated for ------------------------------------------------------------

// Experts are sharded among devices that share matrices, sequences or weights, and no others.
static bool shares_for_experts(const struct export *export)
{
    return export_expert(export) > export_tensor(export) * export_context(export);
}

static bool shares_states(const struct export *export)
{
    return export->estimated->request.shard != ESTIMATE_SHARD_NONE || shares_for_experts(export);
}

static bool is_bf16(const struct export *export)
{
    return strcmp(export->profile->dtype, "bf16") == 0 || strcmp(export->profile->dtype, "bfloat16") == 0;
}

static bool is_fp32(const struct export *export)
{
    return strcmp(export->profile->dtype, "fp32") == 0 || strcmp(export->profile->dtype, "float32") == 0;
}

static bool has_narrow_products(const struct export *export)
{
    return strcmp(export->estimated->products, "fp8") == 0 || strcmp(export->estimated->products, "fp4") == 0;
}

static bool hides_all(const struct export *export)
{
    const struct estimate_request *how = &export->estimated->request;
    return how->overlap == OVERLAP_ALL && how->fused_passes && how->tensor > 1;
}

static bool has_graphs(const struct export *export)
{
    return export->estimated && export->estimated->request.graphs && export->stages == 1 && export_expert(export) == 1;
}

static void say_shares(struct export *export)
{
    const enum estimate_shard shard = export->estimated->request.shard;
    if (shard == ESTIMATE_SHARD_NONE && shares_for_experts(export))
        export_say(export, "torchtitan shares experts only between devices that share weights, and so these share"
                           " them: it takes less memory than is planned.");
    if (shard == ESTIMATE_SHARD_OPTIMIZER || shard == ESTIMATE_SHARD_GRADIENTS)
        export_say(export, "torchtitan shares weights%s with the optimizer's states: it takes less memory than is"
                           " planned.", shard == ESTIMATE_SHARD_OPTIMIZER ? " and gradients" : " as gradients");
}

// How a model computes its attention, its loss and its experts' messages is decided by the config function that makes
// it.
static void tells(struct export *export)
{
    static const enum choice always[] = { CHOICE_TENSOR, CHOICE_SEQUENCE_PARALLEL, CHOICE_CONTEXT, CHOICE_EXPERT,
                                          CHOICE_DATA, CHOICE_SHARD, CHOICE_SEQUENCE, CHOICE_MICRO_BATCH,
                                          CHOICE_COMPILED, CHOICE_WITHIN };
    const struct estimate_request *how = &export->estimated->request;
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        export_tells(export, always[i]);
    export_tells_if(export, is_bf16(export) || is_fp32(export), CHOICE_DTYPE);
    export_tells_if(export, has_narrow_products(export), CHOICE_PRODUCTS);
    export_tells_if(export, hides_all(export), CHOICE_OVERLAP);
    export_tells_if(export, has_graphs(export), CHOICE_GRAPHS);
    export_tells_if(export, how->gradient_bytes == 4, CHOICE_GRADIENTS);
    export_tells_if(export, how->loss == LOSS_PLAIN || (how->loss == LOSS_KERNEL && how->fused_passes), CHOICE_LOSS);
    if (how->loss == LOSS_IN_PLACE)
        export_say(export, "The plan counts on a loss in place of its logits; torchtitan's is in chunks, or PyTorch's"
                           " cross_entropy.");
    say_shares(export);
    if (how->inner_ranks > 1)
        export_say(export, "torchtitan numbers devices with the pipeline outermost: start its processes so that those"
                           " of a pipeline are side by side.");
}

// Sharding is always among all devices of a context-parallel group.
static uint64_t shared_by(const struct export *export)
{
    const struct estimate_request *how = &export->estimated->request;
    const uint64_t within = how->within / how->context;
    return within > 0 && how->data % within == 0 ? within : how->data;
}

// Sharded weights are gathered again for every pass; with less sharding they are gathered once.
static void write_degrees(struct export *export)
{
    const struct estimate_request *how = &export->estimated->request;
    const char *const prefix = "    config.parallelism.";
    const uint64_t shares = shares_states(export) ? shared_by(export) : 1;
    text_add(export->text, "%stensor_parallel_degree = %llu\n", prefix, (unsigned long long)how->tensor);
    text_add(export->text, "%senable_sequence_parallel = %s\n", prefix, how->sequence_parallel ? "True" : "False");
    text_add(export->text, "%scontext_parallel_degree = %llu\n", prefix, (unsigned long long)how->context);
    text_add(export->text, "%sexpert_parallel_degree = %llu\n", prefix, (unsigned long long)how->expert);
    text_add(export->text, "%sdata_parallel_replicate_degree = %llu\n", prefix,
             (unsigned long long)(export_data(export) / shares));
    text_add(export->text, "%sdata_parallel_shard_degree = %llu\n", prefix, (unsigned long long)shares);
    if (shares_states(export))
        text_add(export->text, "%sfsdp_reshard_after_forward = \"%s\"\n", prefix,
                 how->shard == ESTIMATE_SHARD_WEIGHTS ? "always" : "never");
    text_add(export->text, "    config.training.seq_len = %llu\n", (unsigned long long)how->sequence);
}

// The converters for linear layers and for experts. They depend on the type of the products, and on whether the
// device scales blocks of 32.
static void find_converters(struct export *export, const char **linear, const char **experts)
{
    const bool scales_blocks = export_scales_blocks(export);
    const bool has_experts = export->estimated->model.experts > 0;
    if (strcmp(export->estimated->products, "fp4") == 0) {
        *linear = "NVFP4LinearConverter";
        *experts = NULL;
        if (has_experts)
            export_say(export, "torchtitan has no experts of fp4: theirs stay as wide as activations.");
    } else {
        *linear = scales_blocks ? "MXFP8LinearConverter" : "Float8LinearConverter";
        *experts = !has_experts  ? NULL
                 : scales_blocks ? "MXFP8GroupedExpertsConverter" : "Float8GroupedExpertsConverter";
    }
}

// The head and the router stay in the wide type.
static void write_products(struct export *export, const char *linear, const char *experts)
{
    const bool leaves_out = linear[0] == 'F';
    text_add(export->text, "    from torchtitan.components.quantization import %s%s%s\n"
                           "    compiled = config.compile.enable and \"model\" in config.compile.components\n"
                           "    converters = [%s.Config(model_compile_enabled=compiled, %s)]\n", linear,
             experts ? ", " : "", experts ? experts : "", linear,
             leaves_out ? "filter_fqns=[\"lm_head\", \"router.gate\"]"
                        : "fqns=[\"attention\", \"feed_forward\", \"shared_experts\"]");
    if (experts)
        text_add(export->text, "    converters.append(%s.Config(model_compile_enabled=compiled))\n", experts);
    text_add(export->text, "    for converter in converters:\n"
                           "        config.model_spec.model = converter.build().convert(config.model_spec.model)\n");
}

static void write_how(struct export *export, const char *linear, const char *experts)
{
    const struct estimate_request *how = &export->estimated->request;
    write_degrees(export);
    if (is_bf16(export) || is_fp32(export))
        text_add(export->text, "    config.training.mixed_precision_param = \"%s\"\n",
                 is_bf16(export) ? "bfloat16" : "float32");
    text_add(export->text, "    config.compile.enable = %s\n", how->fused_passes ? "True" : "False");
    if (how->fused_passes)
        text_add(export->text, "    config.compile.components = [\"model\"%s]\n",
                 how->loss == LOSS_KERNEL ? ", \"loss\"" : "");
    if (hides_all(export))
        text_add(export->text, "    config.compile.enable_async_tensor_parallel = True\n");
    if (linear)
        write_products(export, linear, experts);
}

// The config function has a model of its own.
static void write_model(struct export *export)
{
    const struct transformer *model = &export->estimated->model;
    text_add(export->text,
             "    model = config.model_spec.model\n"
             "    if (model.dim, model.vocab_size) != (%llu, %llu):\n"
             "        raise ValueError(f\"planned for dim %llu and %llu words, not {model.dim} and"
             " {model.vocab_size}\")\n",
             (unsigned long long)model->hidden, (unsigned long long)model->vocabulary,
             (unsigned long long)model->hidden, (unsigned long long)model->vocabulary);
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

// If no stage names a layer, torchtitan silently leaves it out. Its CUDA graphs and pipelines exclude each other.
static void write_head(struct export *export)
{
    text_add(export->text,
             "def plan_pipeline(config):\n"
             "    \"\"\"Adds the plan to a Trainer.Config, which is returned.\"\"\"\n"
             "    if len(config.model_spec.model.layers) != %u:\n"
             "        raise ValueError(f\"planned for %u layers, not {len(config.model_spec.model.layers)}\")\n"
             "    config.training.disable_cuda_graphs = %s\n",
             export->outline.blocks, export->outline.blocks, has_graphs(export) ? "False" : "True");
    if (export->estimated)
        write_model(export);
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
    const char *linear = NULL, *experts = NULL;
    if (export->estimated && has_narrow_products(export))
        find_converters(export, &linear, &experts);
    export_heading(export, "#");
    write_imports(export);
    write_head(export);
    text_add(export->text, "    config.parallelism.pipeline_parallel_degree = %u\n", export->ranks);
    if (export->estimated)
        write_how(export, linear, experts);
    else if (export->pipelines > 1)
        text_add(export->text, "    config.parallelism.data_parallel_replicate_degree = %u\n", export->pipelines);
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

const struct export_words torchtitan_words = { GRAIN_MODULES, pytorch_schedules, true, fit, tells, write };
