// Patterns of recomputation, and whether they are the plan's.

#include <string.h>

#include "exports/words.h"

static const struct unit *units_of(const struct export *export, uint32_t stage, const struct unit **end)
{
    *end = export->outline.units + export->cuts[stage + 1];
    return export->outline.units + export->cuts[stage];
}

uint32_t export_blocks(const struct export *export, uint32_t stage)
{
    const struct unit *end, *unit = units_of(export, stage, &end);
    uint32_t blocks = 0;
    for (; unit < end; unit++)
        blocks += unit->kind == UNIT_BLOCK;
    return blocks;
}

bool export_has_predicted(const struct export *export, uint32_t stage)
{
    const struct unit *end, *unit = units_of(export, stage, &end);
    for (; unit < end; unit++)
        if (unit->kind == UNIT_PREDICTED)
            return true;
    return false;
}

bool export_runs_again(const struct export *export, const struct unit *unit)
{
    for (uint32_t l = unit->first; l < unit->end; l++)
        if (export->wants_again[l])
            return true;
    return false;
}

uint32_t export_blocks_again(const struct export *export, uint32_t stage)
{
    const struct unit *end, *unit = units_of(export, stage, &end);
    uint32_t blocks = 0;
    for (; unit < end; unit++)
        blocks += unit->kind == UNIT_BLOCK && export_runs_again(export, unit);
    return blocks;
}

bool export_has_again(const struct export *export)
{
    uint32_t s = 0;
    while (s < export->stages && export_blocks_again(export, s) == 0)
        s++;
    return s < export->stages;
}

// --- patterns ---------------------------------------------------------------------------

static void add_segment(struct again *again, uint32_t first, uint32_t end)
{
    again->segments[again->count++] = (struct segment){ first, end };
}

static bool ends_in_mlp(const char *name)
{
    static const char word[] = "mlp";
    const size_t length = strlen(name);
    return length >= sizeof word - 1 && strcmp(name + length - (sizeof word - 1), word) == 0;
}

static void add_mlps(struct export *export, const struct unit *block)
{
    for (uint32_t l = block->first; l < block->end; l++)
        if (ends_in_mlp(export->outline.layers[l]))
            add_segment(&export->again, l, l + 1);
}

// Adds the segments of a block, which is number `index` of its stage.
static void add_block(struct export *export, uint32_t stage, uint32_t index, const struct unit *block)
{
    struct again *again = &export->again;
    const uint32_t count = again->counts[stage];
    if (again->kind == AGAIN_MLP)
        add_mlps(export, block);
    else if (again->kind == AGAIN_EACH && export_runs_again(export, block))
        add_segment(again, block->first, block->end);
    else if (again->kind == AGAIN_FIRST && index < count)
        add_segment(again, block->first, block->end);
    else if (again->kind == AGAIN_GROUPS && count > 0 && index % count == 0)
        add_segment(again, block->first, block->end);
    else if (again->kind == AGAIN_GROUPS && count > 0)
        again->segments[again->count - 1].end = block->end;
}

static void make_segments(struct export *export)
{
    export->again.count = 0;
    for (uint32_t s = 0; s < export->stages; s++) {
        uint32_t index = 0;
        const struct unit *end, *unit = units_of(export, s, &end);
        for (; unit < end; unit++)
            if (unit->kind == UNIT_BLOCK)
                add_block(export, s, index++, unit);
    }
}

static bool are_planned(const struct export *export)
{
    const struct again *again = &export->again;
    size_t index = 0;
    for (size_t s = 0; s < export->plan->stage_count; s++)
        for (size_t i = 0; i < export->plan->stages[s].recompute_count; i++, index++) {
            const struct segment *segment = &export->plan->stages[s].recompute[i];
            if (index >= again->count || segment->first != again->segments[index].first
                || segment->end != again->segments[index].end)
                return false;
        }
    return index == again->count;
}

bool again_is_planned(struct export *export, enum again_kind kind)
{
    export->again.kind = kind;
    make_segments(export);
    return are_planned(export);
}

bool again_is(struct export *export, enum again_kind kind, uint32_t count)
{
    for (uint32_t s = 0; s < export->stages; s++)
        export->again.counts[s] = count;
    return again_is_planned(export, kind);
}

void again_all_or_none(struct export *export)
{
    if (!again_is(export, AGAIN_NONE, 0) && export_has_again(export))
        again_is(export, AGAIN_FIRST, UINT32_MAX);
}
