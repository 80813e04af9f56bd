#include "exports/fit.h"

#include <string.h>

#include "common/number.h"
#include "partitioner/evaluate/reprice.h"

// --- cuts -------------------------------------------------------------------------------

static uint64_t layer_ns(const struct export *export, uint32_t layer)
{
    const struct profile_layer *profiled = export->profile ? &export->profile->layers[layer] : NULL;
    return profiled ? profiled->forward_ns + profiled->backward_ns : 1;
}

// The unit at which a cut in front of `layer` is, or to which it is moved.
static uint32_t nearest_cut(const struct export *export, uint32_t layer)
{
    const struct outline *outline = &export->outline;
    uint32_t low = 0, high = outline->count;  // the first unit that begins at the layer or after it
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (outline->units[middle].first < layer)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || (low < outline->count && outline->units[low].first == layer))
        return low;
    const struct unit *inside = &outline->units[low - 1];
    uint64_t before_ns = 0, behind_ns = 0;
    for (uint32_t l = inside->first; l < inside->end; l++)
        *(l < layer ? &before_ns : &behind_ns) += layer_ns(export, l);
    return before_ns <= behind_ns && layer < inside->end ? low - 1 : low;
}

bool fit_cuts(struct export *export, struct error *error)
{
    for (uint32_t s = 1; s < export->stages; s++)
        export->cuts[s] = nearest_cut(export, export->plan->stages[s].first);
    export->cuts[export->stages] = export->outline.count;
    for (uint32_t s = 0; s < export->stages; s++)
        if (export->cuts[s] >= export->cuts[s + 1])
            return error_set_kind(error, ERROR_ANSWER,
                                  "stage %u is a part of what %s has as one, and no stage of its own"
                                  " there: plan again, with no_cut_after in the profile for all but the last layer of"
                                  " each block",
                                  s, export->format->title);
    return true;
}

// --- what differs -----------------------------------------------------------------------

static uint32_t first_layer(const struct export *export, uint32_t stage)
{
    const uint32_t cut = export->cuts[stage];
    return cut < export->outline.count ? export->outline.units[cut].first : export->outline.layer_count;
}

// The recomputed segments of a stage of the export. There are *count of them, beginning at the result.
static const struct segment *segments_of(const struct export *export, uint32_t stage, size_t *count)
{
    const struct again *again = &export->again;
    const uint32_t end = first_layer(export, stage + 1);
    size_t from = 0;
    while (from < again->count && again->segments[from].first < first_layer(export, stage))
        from++;
    for (*count = 0; from + *count < again->count && again->segments[from + *count].first < end;)
        ++*count;
    return again->segments + from;
}

static bool runs_the_same(const struct plan_stage *stage, const struct segment *segments, size_t count)
{
    bool same = stage->recompute_count == count;
    for (size_t i = 0; same && i < count; i++)
        same = stage->recompute[i].first == segments[i].first && stage->recompute[i].end == segments[i].end;
    return same;
}

static void write_segments(const struct export *export, const struct segment *segments, size_t count,
                           struct text *text)
{
    enum { SHOWN = 4 };
    for (size_t i = 0; i < count && i < SHOWN; i++) {
        text_add(text, i ? ", " : "");
        outline_write_layers(&export->outline, segments[i].first, segments[i].end, text);
    }
    if (count > SHOWN)
        text_add(text, " and %zu more", count - SHOWN);
    if (count == 0)
        text_add(text, "nothing");
}

// Whether stage `s` is as planned. If it is not, a sentence says how it differs.
static bool stage_is_planned(struct export *export, uint32_t s)
{
    const struct plan_stage *stage = &export->plan->stages[s];
    const uint32_t first = first_layer(export, s);
    const bool same_cut = stage->first == first;
    if (!same_cut)
        export_say(export, "Stage %u begins with %.60s in the plan, and with %.60s in %s, which cuts nowhere nearer.",
                   s, export->outline.layers[stage->first], export->outline.layers[first], export->format->title);
    size_t count;
    const struct segment *segments = segments_of(export, s, &count);
    if (runs_the_same(stage, segments, count))
        return same_cut;
    struct text planned = { 0 }, said = { 0 };
    write_segments(export, stage->recompute, stage->recompute_count, &planned);
    write_segments(export, segments, count, &said);
    if (planned.failed || said.failed)
        export->said->failed = true;
    else
        export_say(export, "Of stage %u the plan runs again %s; %s runs again %s.", s, planned.data,
                   export->format->title, said.data);
    text_clear(&planned);
    text_clear(&said);
    return false;
}

// --- what it takes ----------------------------------------------------------------------

// The plan with the export's stages, and with all its numbers computed for them.
static struct plan *priced(const struct export *export, struct error *error)
{
    struct plan *plan = plan_copy(export->plan, error);
    bool good = plan != NULL;
    for (uint32_t s = 0; good && s < export->stages; s++) {
        const struct plan_stage *from = &export->plan->stages[s];
        const struct segment layers = { first_layer(export, s), first_layer(export, s + 1) };
        size_t count;
        const struct segment *segments = segments_of(export, s, &count);
        good = plan_set_stage(plan, s, export->profile, layers, from->devices[0], segments, count, error)
               && plan_set_variant(plan, s, from->variant, from->devices, from->device_count, plan_stage_group(from),
                                   error);
    }
    if (good && plan_price(plan, export->profile, error))
        return plan;
    plan_free(plan);
    return NULL;
}

static void refuse_excess(const struct export *export, const struct plan *plan, const struct plan_excess *excess,
                          struct error *error)
{
    struct text text = { 0 };
    plan_say_excess(plan, excess, &text);
    error_set_kind(error, ERROR_ANSWER, "rounded to what %s can say, it does not fit: %s",
                   export->format->title, text.failed ? "memory" : text.data);
    text_clear(&text);
}

static bool say_price(struct export *export, const struct plan *plan, struct error *error)
{
    uint32_t rank;
    const uint64_t was_ns = export->plan->iteration_ns, is_ns = plan->iteration_ns;
    const uint64_t was_bytes = plan_peak_bytes(export->plan, &rank, error);
    const uint64_t is_bytes = was_bytes ? plan_peak_bytes(plan, &rank, error) : 0;
    char times[2][NUMBER_SIZE], bytes[2][NUMBER_SIZE];
    if (is_bytes == 0)
        return false;
    export_say(export, "So it takes %s an iteration by the simulator, where the plan takes %s (%+.1f %%), and %s on its"
               " fullest rank, where the plan takes %s.", time_format(is_ns, times[0]), time_format(was_ns, times[1]),
               was_ns ? 100.0 * ((double)is_ns - (double)was_ns) / (double)was_ns : 0.0,
               bytes_format(is_bytes, bytes[0]), bytes_format(was_bytes, bytes[1]));
    return true;
}

// Without a profile the first of the sentences that say what differs becomes the error.
static bool refuse_rounding(const struct export *export, const char *said, struct error *error)
{
    const char *end = strchr(said, '\n');
    return error_set_kind(error, ERROR_ANSWER, "%.*s --profile rounds the plan to what %s can say, and says what that"
                          " takes (no_cut_after in a profile keeps cuts out of blocks)", (int)(end - said), said,
                          export->format->title);
}

static enum fit judge(struct export *export, uint32_t *rank, struct error *error)
{
    struct plan_excess excess;
    struct plan *plan = priced(export, error);
    enum fit fit = FIT_FAILS;
    if (plan && plan_find_excess(plan, plan->cluster, &excess, error)) {
        fit = excess.lacks_bytes > 0 ? FIT_LACKS : say_price(export, plan, error) ? FIT_GOOD : FIT_FAILS;
        *rank = excess.rank;
    }
    if (fit == FIT_LACKS)
        refuse_excess(export, plan, &excess, error);
    plan_free(plan);
    return fit;
}

enum fit fit_price(struct export *export, uint32_t *rank, struct error *error)
{
    bool same = true;
    const size_t said_before = export->said->length;
    for (uint32_t s = 0; s < export->stages; s++)
        same &= stage_is_planned(export, s);
    if (export->said->failed)
        return error_no_memory(error, "what is said of a plan"), FIT_FAILS;
    if (same)
        return FIT_GOOD;
    if (!export->profile)
        return refuse_rounding(export, export->said->data + said_before, error), FIT_FAILS;
    return judge(export, rank, error);
}

// Marks the first block of a stage none of whose layers are marked.
static bool want_more(struct export *export, uint32_t stage)
{
    for (uint32_t u = export->cuts[stage]; u < export->cuts[stage + 1]; u++) {
        const struct unit *unit = &export->outline.units[u];
        if (unit->kind == UNIT_BLOCK && !export_runs_again(export, unit))
            return export->wants_again[unit->first] = true;
    }
    return false;
}

bool fit_more(struct export *export, uint32_t rank, struct error *error)
{
    struct placement *placement = plan_placement(export->plan, error);
    bool more = false;
    for (uint32_t i = placement ? placement->stage_at[rank] : 0; placement && i < placement->stage_at[rank + 1]; i++)
        more |= want_more(export, placement->held[i]);
    placement_free(placement);
    return more;
}
