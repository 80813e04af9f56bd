#include "exports/outline.h"

#include <stdlib.h>
#include <string.h>

#include "common/shown.h"
#include "profiler/block_names.h"

// --- units ------------------------------------------------------------------------------

static bool begin(struct outline *outline, const struct plan *plan, struct error *error)
{
    *outline = (struct outline){ .layer_count = plan->stages[plan->stage_count - 1].end };
    outline->layers = calloc((size_t)outline->layer_count + 1, sizeof outline->layers[0]);
    outline->units = calloc((size_t)outline->layer_count + 3, sizeof outline->units[0]);
    if (!outline->layers || !outline->units)
        return error_no_memory(error, "the units of a plan");
    for (size_t s = 0; s < plan->stage_count; s++)
        for (uint32_t l = plan->stages[s].first; l < plan->stages[s].end; l++)
            outline->layers[l] = plan->stages[s].layers[l - plan->stages[s].first];
    return true;
}

void outline_clear(struct outline *outline)
{
    free(outline->layers);
    free(outline->units);
    *outline = (struct outline){ 0 };
}

static void add_unit(struct outline *outline, enum unit_kind kind, uint32_t first, uint32_t end)
{
    outline->units[outline->count++] = (struct unit){ first, end, kind, outline->blocks };
    outline->blocks += kind == UNIT_BLOCK;
}

// Adds what is before or after the blocks.
static void add_ends(struct outline *outline, enum grain grain, enum unit_kind kind, uint32_t first, uint32_t end)
{
    if (grain == GRAIN_BLOCKS && first < end)
        add_unit(outline, kind, first, end);
    for (uint32_t l = first; grain == GRAIN_MODULES && l < end; l++)
        add_unit(outline, kind, l, l + 1);
}

static bool refuse_layer(const struct outline *outline, uint32_t layer, const char *why, struct error *error)
{
    return error_set_kind(error, ERROR_ANSWER, "layer \"%.60s\" %s, so that names do not tell which layers are one of"
                          " the framework's: --units says how many layers each has", outline->layers[layer], why);
}

// The end of the block that begins at `layer`, whose first number is known. The layers of a block are consecutive.
static uint32_t block_end(const struct outline *outline, uint32_t layer, const struct block_name *block)
{
    const char *name = outline->layers[layer];
    while (++layer < outline->layer_count && block_name_is_same(name, block, outline->layers[layer]))
        continue;
    return layer;
}

static bool add_blocks(struct outline *outline, uint32_t *layer, struct error *error)
{
    const char *first = outline->layers[*layer];
    struct block_name now, last = { 0 };
    for (bool is_first = true; *layer < outline->layer_count && block_name_read(outline->layers[*layer], &now);
         is_first = false) {
        if (!is_first && (now.before != last.before || strncmp(outline->layers[*layer], first, now.before) != 0))
            return refuse_layer(outline, *layer, "begins another row of numbered layers", error);
        if (!is_first && now.number != last.number + 1)
            return refuse_layer(outline, *layer, "is not of the block behind the one before it", error);
        const uint32_t end = block_end(outline, *layer, &now);
        add_unit(outline, UNIT_BLOCK, *layer, end);
        last = now;
        *layer = end;
    }
    return true;
}

bool outline_by_name(struct outline *outline, const struct plan *plan, enum grain grain, struct error *error)
{
    if (!begin(outline, plan, error))
        return false;
    struct block_name numbered;
    uint32_t layer = 0;
    for (; grain <= GRAIN_LAYERS && layer < outline->layer_count; layer++)
        add_unit(outline, UNIT_BLOCK, layer, layer + 1);
    if (grain <= GRAIN_LAYERS)
        return true;
    while (layer < outline->layer_count && !block_name_read(outline->layers[layer], &numbered))
        layer++;
    if (layer == outline->layer_count)
        return refuse_layer(outline, 0, "has no number, and none behind it has one", error);
    add_ends(outline, grain, UNIT_INPUT, 0, layer);
    if (!add_blocks(outline, &layer, error))
        return false;
    for (uint32_t l = layer; l < outline->layer_count; l++)
        if (block_name_read(outline->layers[l], &numbered))
            return refuse_layer(outline, l, "has a number, but stands behind layers without one", error);
    for (; layer + outline->predicted < outline->layer_count; outline->predicted++)
        if (!block_name_is_predicted(outline->layers[layer + outline->predicted]))
            break;
    if (outline->predicted > 0)
        add_unit(outline, UNIT_PREDICTED, layer, layer + outline->predicted);
    add_ends(outline, grain, UNIT_OUTPUT, layer + outline->predicted, outline->layer_count);
    return true;
}

bool outline_by_hand(struct outline *outline, const struct plan *plan, enum grain grain, const uint32_t *counts,
                     size_t count, struct error *error)
{
    const bool has_ends = grain != GRAIN_LAYERS;
    uint64_t sum = 0;
    if (!begin(outline, plan, error))
        return false;
    for (size_t i = 0; i < count; i++) {
        const bool is_end = has_ends && (i == 0 || i + 1 == count);
        sum += counts[i];
        if (counts[i] == 0 && !is_end)
            return error_named(error, "--units: unit %zu has no layer", i);
    }
    if (sum != outline->layer_count)
        return error_named(error, "--units: names %llu layers, but the plan has %u", (unsigned long long)sum,
                           outline->layer_count);
    if (has_ends && count < 3)
        return error_named(error, "--units: has %zu numbers, but there are an input, an output and blocks", count);
    uint32_t layer = 0;
    for (size_t i = 0; i < count; layer += counts[i++])
        if (has_ends && (i == 0 || i + 1 == count))
            add_ends(outline, grain, i == 0 ? UNIT_INPUT : UNIT_OUTPUT, layer, layer + counts[i]);
        else
            add_unit(outline, UNIT_BLOCK, layer, layer + counts[i]);
    return true;
}

void outline_write_layers(const struct outline *outline, uint32_t first, uint32_t end, struct text *text)
{
    shown_add_cell(text, outline->layers[first], 0, 60);
    if (end - first > 1) {
        text_add(text, " .. ");
        shown_add_cell(text, outline->layers[end - 1], 0, 60);
    }
}
