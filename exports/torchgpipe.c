// torchgpipe: how its GPipe wraps an nn.Sequential. One process has all stages.
//
// A stage is a number of modules, one for each of the profile's layers. A stage is recomputed as a whole or not at
// all.

#include "exports/words.h"

static bool is_one_machine(const struct export *export)
{
    const struct cluster *cluster = export->plan->cluster;
    for (uint32_t s = 0; s < export->stages; s++)
        if (storage_machine(cluster, export->plan->stages[s].devices[0])
            != storage_machine(cluster, export->plan->stages[0].devices[0]))
            return false;
    return true;
}

static bool fit(struct export *export, struct error *error)
{
    if (export->pipelines > 1)
        return error_set_kind(error, ERROR_ANSWER,
                              "torchgpipe is one pipeline in one process, but the plan's stages have %u"
                              " replicas each",
                              export->pipelines);
    if (!is_one_machine(export))
        return error_set_kind(error, ERROR_ANSWER,
                              "torchgpipe is one process on one machine, but the plan's stages are on"
                              " several machines of its cluster");
    again_is(export, export_has_again(export) ? AGAIN_GROUPS : AGAIN_NONE, UINT32_MAX);
    return true;
}

static bool write(struct export *export, struct error *error)
{
    (void)error;
    export_heading(export, "#");
    text_add(export->text, "from torchgpipe import GPipe\n\n"
                           "model = GPipe(\n    model,  # an nn.Sequential of %u modules\n    balance=",
             export->outline.count);
    export_write_blocks(export);
    text_add(export->text, ",\n    devices=[");
    for (uint32_t s = 0; s < export->stages; s++)
        text_add(export->text, "%s%u", s ? ", " : "", export->plan->stages[s].devices[0]);
    text_add(export->text, "],\n    chunks=%u,\n    checkpoint=\"%s\",\n)\n", export->micro_batches,
             export->again.kind == AGAIN_NONE ? "never" : "always");
    return true;
}

static const struct schedule_word schedules[] = { { "gpipe", "GPipe" }, { 0 } };

const struct export_words torchgpipe_words = { GRAIN_LAYERS, schedules, false, fit, NULL, write };
