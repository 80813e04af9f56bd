// PyTorch: where torch.distributed.pipelining splits a model, and what to wrap in its checkpoint().
//
// Layers are called by their names, which must be those of the model's modules. A schedule that has no name there is
// read from its CSV.

#include "common/json.h"
#include "exports/words.h"

static void write_split(struct export *export)
{
    text_add(export->text, "from torch.distributed.pipelining import SplitPoint\n\nSPLIT_SPEC = {\n");
    for (uint32_t s = 1; s < export->stages; s++) {
        text_add(export->text, "    ");
        json_quote(export->text, export->outline.layers[export->plan->stages[s].first]);
        text_add(export->text, ": SplitPoint.BEGINNING,\n");
    }
    text_add(export->text, "}\n");
}

static void write_segment(struct export *export, const struct segment *segment)
{
    text_add(export->text, "    [");
    for (uint32_t l = segment->first; l < segment->end; l++) {
        text_add(export->text, l > segment->first ? ", " : "");
        json_quote(export->text, export->outline.layers[l]);
    }
    text_add(export->text, "],\n");
}

static void write_again(struct export *export)
{
    bool has_again = false;
    for (uint32_t s = 0; s < export->stages; s++)
        has_again |= export->plan->stages[s].recompute_count > 0;
    if (!has_again)
        return;
    text_add(export->text,
             "\n# The modules of each list run in one torch.utils.checkpoint.checkpoint().\nRECOMPUTE = [\n");
    for (uint32_t s = 0; s < export->stages; s++)
        for (size_t i = 0; i < export->plan->stages[s].recompute_count; i++)
            write_segment(export, &export->plan->stages[s].recompute[i]);
    text_add(export->text, "]\n");
}

static void write_ranks(struct export *export, const struct schedule *order)
{
    text_add(export->text, "RANK_OF_STAGE = [");
    for (uint32_t s = 0; s < export->stages; s++)
        text_add(export->text, "%s%u", s ? ", " : "", order->routes[s]);
    text_add(export->text, "]\n");
}

static bool write(struct export *export, struct error *error)
{
    struct schedule *order = export_order(export, error);
    struct text csv = { 0 };
    const bool good = order && (export->schedule || export_csv(order, &csv, error));
    text_clear(&csv);
    if (!good) {
        schedule_free(order);
        return false;
    }
    if (!export->schedule)
        export_say(export,
                   "PyTorch has no schedule %s: let it load what `weir export pytorch-csv` writes of this plan.",
                   export->plan->schedule);
    export_heading(export, "#");
    write_split(export);
    write_ranks(export, order);
    text_add(export->text, "MICRO_BATCHES = %u\n", export->micro_batches);
    if (export->schedule)
        text_add(export->text, "SCHEDULE = \"%s\"  # get_schedule_class()\n", export->schedule);
    else
        text_add(export->text, "SCHEDULE = \"_PipelineScheduleRuntime\"  # with _load_csv()\n");
    write_again(export);
    schedule_free(order);
    return true;
}

const struct schedule_word pytorch_schedules[] = {
    { "1f1b", "1F1B" }, { "gpipe", "GPipe" }, { "interleaved", "Interleaved1F1B" }, { "looped-bfs", "LoopedBFS" },
    { "interleaved-zb", "InterleavedZeroBubble" }, { "zb-v", "ZBVZeroBubble" }, { "dualpipev", "DualPipeV" }, { 0 },
};

const struct export_words pytorch_words = { GRAIN_NAMES, pytorch_schedules, true, NULL, NULL, write };
