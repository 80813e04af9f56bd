// nanotron: a part of its YAML, and the costs by which it cuts.
//
// It has no list of layers. It gives each kind of module a cost, and adds the costs up along the model. It moves on
// to the next of P ranks after the first module at which the sum exceeds its rank's part of the total:
//
//     costs     embedding e, each of N layers d, head h       T = e + N d + h
//     rank r    ends behind layer b if  e + b d > T (r + 1) / P >= e + (b - 1) d
//
// The first and the last stage may thus be shorter or longer, and the others differ by at most one layer. With d =
// COST, a search looks for an e and an h that give the plan's cuts. If there are none, the plan is rounded to the
// cuts of e = h = 0.

#include <string.h>

#include "exports/words.h"

enum { COST = 120 };  // of a layer: many small numbers divide it

struct costs {
    uint64_t embedding, head;
};

// Narrows [least, most], the integer costs e for which a total of T ends rank r after b layers.
static void narrow(uint64_t total, uint32_t ranks, uint32_t r, uint32_t blocks, int64_t *least, int64_t *most)
{
    const int64_t part = (int64_t)(total * (r + 1) / ranks);  // an integer exceeds T (r + 1) / P from part + 1 on
    const int64_t from = part + 1 - (int64_t)blocks * COST, to = from + COST - 1;
    *least = from > *least ? from : *least;
    if (blocks > 0)  // the embedding itself may have any cost
        *most = to < *most ? to : *most;
}

// The model's blocks before the end of a stage.
static uint32_t blocks_before_end(const struct export *export, uint32_t stage)
{
    const uint32_t cut = export->cuts[stage + 1];
    return cut < export->outline.count ? export->outline.units[cut].number : export->outline.blocks;
}

// The costs with the smallest total that give the cuts of the export; false if there are none.
static bool find_costs(const struct export *export, struct costs *costs)
{
    const uint64_t blocks = (uint64_t)export->outline.blocks * COST;
    for (uint64_t total = blocks; total <= blocks * export->stages; total++) {
        int64_t least = 0, most = (int64_t)(total - blocks);
        for (uint32_t r = 0; r + 1 < export->stages && least <= most; r++)
            narrow(total, export->stages, r, blocks_before_end(export, r), &least, &most);
        if (least <= most) {
            *costs = (struct costs){ (uint64_t)least, total - blocks - (uint64_t)least };
            return true;
        }
    }
    return false;
}

// Cuts as nanotron does if embedding and head cost nothing.
static void cut_evenly(struct export *export)
{
    const uint32_t blocks = export->outline.blocks, input = export->outline.units[0].kind == UNIT_INPUT;
    for (uint32_t r = 0; r + 1 < export->stages; r++) {
        const uint64_t part = (uint64_t)blocks * (r + 1) / export->stages;  // layers whose sum does not exceed it
        export->cuts[r + 1] = input + (uint32_t)part + 1;
    }
}

static bool fit(struct export *export, struct error *error)
{
    struct costs costs;
    if (export->micro_batches + 1 < export->ranks)
        return error_set_kind(error, ERROR_ANSWER,
                              "nanotron wants at least a micro-batch for each rank but one: %u, not %u",
                              export->ranks - 1, export->micro_batches);
    if (export->stages > 1 && !find_costs(export, &costs)) {
        if (export->outline.blocks <= export->stages)
            return error_set_kind(error, ERROR_ANSWER, "nanotron cuts nowhere near these cuts");
        cut_evenly(export);
    }
    again_all_or_none(export);
    return true;
}

static void write_costs(struct export *export, const struct costs *costs)
{
    text_add(export->text,
             "\n# nanotron cuts by what its modules cost. In front of what builds a Llama, in Python:\n"
             "#   from nanotron.models import llama\n"
             "#   llama.LlamaModel.get_block_compute_costs = lambda self: {\n"
             "#       llama.Embedding: %llu, llama.LlamaDecoderLayer: %d, llama.TensorParallelColumnLinear: %llu}\n",
             (unsigned long long)costs->embedding, COST, (unsigned long long)costs->head);
}

static const char *dtype_of(const struct export *export)
{
    static const struct { const char *ours, *theirs; } types[] = {
        { "bf16", "bfloat16" }, { "bfloat16", "bfloat16" }, { "fp16", "float16" }, { "half", "float16" },
        { "float16", "float16" }, { "fp32", "float32" }, { "float32", "float32" }, { "fp64", "float64" },
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].ours, export->profile->dtype) == 0)
            return types[i].theirs;
    return NULL;
}

static void tells(struct export *export)
{
    static const enum choice expressed[] = { CHOICE_TENSOR, CHOICE_SEQUENCE_PARALLEL, CHOICE_CONTEXT, CHOICE_EXPERT,
                                        CHOICE_DATA, CHOICE_SEQUENCE, CHOICE_MICRO_BATCH };
    for (size_t i = 0; i < sizeof expressed / sizeof expressed[0]; i++)
        export_tells(export, expressed[i]);
    export_tells_if(export, export->estimated->request.shard <= ESTIMATE_SHARD_OPTIMIZER, CHOICE_SHARD);
    export_tells_if(export, dtype_of(export), CHOICE_DTYPE);
    if (export_context(export) > 1)
        export_say(export, "context_parallel_size is a key of nanotron's later than 0.4, which has none.");
}

// How matrices are sharded: with the sequence in parts, or whole.
static void write_degrees(struct export *export)
{
    const struct estimate_request *how = &export->estimated->request;
    text_add(export->text, "  tp_mode: %s\n", how->sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE");
    if (how->context > 1)
        text_add(export->text, "  context_parallel_size: %llu\n", (unsigned long long)how->context);
    text_add(export->text, "  expert_parallel_size: %llu\n", (unsigned long long)how->expert);
}

static void write_rest(struct export *export)
{
    const struct estimate_request *how = &export->estimated->request;
    text_add(export->text, "  sequence_length: %llu\noptimizer:\n  zero_stage: %d\n", (unsigned long long)how->sequence,
             how->shard != ESTIMATE_SHARD_NONE);
    if (dtype_of(export))
        text_add(export->text, "model:\n  dtype: %s\n", dtype_of(export));
}

static bool write(struct export *export, struct error *error)
{
    struct costs costs = { 0 };
    const uint64_t samples = export_micro_batch(export);
    if (export->stages > 1 && !find_costs(export, &costs))
        return error_set_kind(error, ERROR_ANSWER, "nanotron cuts nowhere near these cuts");
    if (export->again.kind != AGAIN_NONE)
        export_say(export, "recompute_layer is a key of nanotron's later than 0.4, which has none for recomputation.");
    if (samples == 0)
        export_say(export, "tokens.micro_batch_size is the profile's to say (--profile).");
    export_heading(export, "#");
    text_add(export->text, "parallelism:\n  dp: %llu\n  pp: %u\n  tp: %llu\n  pp_engine: %s\n",
             (unsigned long long)export_data(export), export->ranks, (unsigned long long)export_tensor(export),
             export->schedule);
    if (export->estimated)
        write_degrees(export);
    if (export->again.kind != AGAIN_NONE)
        text_add(export->text, "  recompute_layer: true\n");
    text_add(export->text, "tokens:\n  batch_accumulation_per_replica: %u\n", export->micro_batches);
    if (samples > 0)
        text_add(export->text, "  micro_batch_size: %llu\n", (unsigned long long)samples);
    if (export->estimated)
        write_rest(export);
    if (export->stages > 1)
        write_costs(export, &costs);
    return true;
}

static const struct schedule_word schedules[] = { { "1f1b", "1f1b" }, { "gpipe", "afab" }, { 0 } };

const struct export_words nanotron_words = { GRAIN_BLOCKS, schedules, false, fit, tells, write };
