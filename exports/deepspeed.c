// DeepSpeed: a PipelineModule that is given its partition explicitly, for which DeepSpeed has no argument.
//
// DeepSpeed counts the layers it is given, one for each of the profile's. The parts are the first layer of each
// stage, and the end. Recomputation is in groups of consecutive layers from a stage's first on, all groups or some:
// an interval, and a flag for each group. DeepSpeed's own arguments set both for all stages alike; here each stage
// has its own.

#include <string.h>

#include "exports/words.h"

// The length of the plan's first recomputed segment on a stage, in units. The whole stage may be in groups of this
// length.
static uint32_t group_of(const struct export *export, uint32_t stage)
{
    const struct plan_stage *planned = &export->plan->stages[stage];
    uint32_t units = 0;
    for (uint32_t u = export->cuts[stage]; planned->recompute_count > 0 && u < export->cuts[stage + 1]; u++)
        units += export->outline.units[u].first < planned->recompute[0].end;
    return units;
}

static bool fit(struct export *export, struct error *error)
{
    (void)error;
    if (again_is(export, AGAIN_NONE, 0) || again_is(export, AGAIN_EACH, 1))
        return true;
    for (uint32_t s = 0; s < export->stages; s++)
        export->again.counts[s] = group_of(export, s);
    if (!again_is_planned(export, AGAIN_GROUPS))
        again_is(export, AGAIN_EACH, 1);
    return true;
}

static void write_parts(struct export *export)
{
    text_add(export->text, "    PARTS = [");
    for (uint32_t s = 0; s < export->stages; s++)
        text_add(export->text, "%u, ", export->cuts[s]);
    text_add(export->text, "%u]  # the first layer of each stage, and the end\n", export->cuts[export->stages]);
}

static void write_each(struct export *export)
{
    text_add(export->text, "    RUN_AGAIN = [  # layers of each stage, by their places in it, each by itself\n");
    for (uint32_t s = 0; s < export->stages; s++) {
        const char *comma = "";
        text_add(export->text, "        [");
        for (uint32_t u = export->cuts[s]; u < export->cuts[s + 1]; u++)
            if (export_runs_again(export, &export->outline.units[u])) {
                text_add(export->text, "%s%u", comma, u - export->cuts[s]);
                comma = ", ";
            }
        text_add(export->text, "],\n");
    }
    text_add(export->text, "    ]\n");
}

static void write_groups(struct export *export)
{
    text_add(export->text, "    INTERVALS = ");
    export_write_counts(export, export->again.counts);
    text_add(export->text, "  # layers that run again as one, from a stage's first on; 0: none\n");
}

static void write_class(struct export *export)
{
    const enum again_kind kind = export->again.kind;
    text_add(export->text, "from deepspeed.pipe import PipelineModule\n\n\n"
                           "class PlannedPipelineModule(PipelineModule):\n");
    write_parts(export);
    if (kind == AGAIN_EACH)
        write_each(export);
    else if (kind == AGAIN_GROUPS)
        write_groups(export);
    text_add(export->text, "\n"
                           "    def __init__(self, layers, **options):\n"
                           "        options.setdefault(\"num_stages\", len(self.PARTS) - 1)\n"
                           "        super().__init__(layers, **options)\n");
    if (kind != AGAIN_NONE)
        text_add(export->text, "        self.activation_checkpoint_interval = %s\n",
                 kind == AGAIN_EACH ? "1" : "self.INTERVALS[self.stage_id]");
    text_add(export->text,
             "\n"
             "    def _partition_layers(self, method=None):\n"
             "        if len(self._layer_specs) != self.PARTS[-1]:\n"
             "            raise ValueError(f\"planned for {self.PARTS[-1]} layers, not {len(self._layer_specs)}\")\n"
             "        self.parts = list(self.PARTS)\n"
             "        stage = self._topo.get_coord(self.global_rank).pipe\n"
             "        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])\n");
    if (kind == AGAIN_EACH)
        text_add(export->text,
                 "\n"
                 "    def _precompute_checkpointable_values(self):\n"
                 "        again = self.RUN_AGAIN[self.stage_id]\n"
                 "        self.is_checkpointable_results = [at in again for at in range(len(self.forward_funcs))]\n");
}

static bool is_dtype(const struct export *export, const char *name, const char *other)
{
    return strcmp(export->profile->dtype, name) == 0 || strcmp(export->profile->dtype, other) == 0;
}

static bool is_16_bits(const struct export *export)
{
    return is_dtype(export, "bf16", "bfloat16") || is_dtype(export, "fp16", "half");
}

// In a pipeline, DeepSpeed shards the optimizer state at most.
static bool tells_shard(const struct export *export)
{
    return export->estimated->request.shard <= ESTIMATE_SHARD_OPTIMIZER || export->ranks == 1;
}

static void tells(struct export *export)
{
    export_tells(export, CHOICE_DATA);
    export_tells(export, CHOICE_MICRO_BATCH);
    export_tells_if(export, is_16_bits(export) || is_dtype(export, "fp32", "float32"), CHOICE_DTYPE);
    export_tells_if(export, tells_shard(export), CHOICE_SHARD);
}

static void write_how(struct export *export, uint64_t samples)
{
    if (samples > 0)
        text_add(export->text, "    \"train_batch_size\": %llu,\n", (unsigned long long)export_batch(export));
    if (is_16_bits(export))
        text_add(export->text, "    \"%s\": {\"enabled\": True},\n",
                 export->profile->dtype[0] == 'b' ? "bf16" : "fp16");
    text_add(export->text, "    \"zero_optimization\": {\"stage\": %d},\n",
             tells_shard(export) ? (int)export->estimated->request.shard : 1);
}

static bool write(struct export *export, struct error *error)
{
    (void)error;
    const uint64_t samples = export_micro_batch(export);
    if (export->again.kind == AGAIN_GROUPS)
        export_say(export, "DeepSpeed runs again only groups with a layer that has parameters of its own.");
    if (export->again.count > 0 && export->again.segments[0].first == 0)
        export_say(export, "The model's first layer runs again, and its input may need no gradient: give"
                   " activation_checkpoint_func=deepspeed.checkpointing.non_reentrant_checkpoint.");
    export_heading(export, "#");
    write_class(export);
    text_add(export->text, "\n\nDEEPSPEED_CONFIG = {\n");
    if (samples > 0)
        text_add(export->text, "    \"train_micro_batch_size_per_gpu\": %llu,\n", (unsigned long long)samples);
    if (export->estimated)
        write_how(export, samples);
    text_add(export->text, "    \"gradient_accumulation_steps\": %u,  # micro-batches\n}\n", export->micro_batches);
    return true;
}

static const struct schedule_word schedules[] = { { "1f1b", "1F1B" }, { 0 } };

const struct export_words deepspeed_words = { GRAIN_LAYERS, schedules, false, fit, tells, write };
