// PyTorch's CSV: the order of actions of one pipeline (docs/formats/csv.md). The file has no place for anything else,
// not even for a comment.

#include "exports/words.h"

static void say_stages(struct export *export)
{
    for (uint32_t s = 0; s < export->stages; s++) {
        const struct plan_stage *stage = &export->plan->stages[s];
        const uint32_t layers = stage->end - stage->first;
        size_t again = 0;
        for (size_t i = 0; i < stage->recompute_count; i++)
            again += stage->recompute[i].end - stage->recompute[i].first;
        if (layers > 0)
            export_say(export,
                       "The file does not say that stage %u has %u layers, %.60s to %.60s, of which %zu run again.", s,
                       layers, stage->layers[0], stage->layers[layers - 1], again);
    }
}

static bool write(struct export *export, struct error *error)
{
    struct schedule *order = export_order(export, error);
    const bool good = order && export_csv(order, export->text, error);
    schedule_free(order);
    if (good)
        say_stages(export);
    return good;
}

const struct export_words pytorch_csv_words = { GRAIN_NONE, NULL, false, NULL, NULL, write };
