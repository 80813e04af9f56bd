#include "runtime/updates/clipping.h"

#include <stdlib.h>

#include "common/number.h"
#include "device/table_kernels.h"

static uint32_t count_layers(const struct stage *stages, uint32_t stage_count)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < stage_count; s++)
        for (size_t i = 0; i < stages[s].part_count; i++)
            count = stages[s].parts[i].layer >= count ? stages[s].parts[i].layer + 1 : count;
    return count;
}

static size_t norm_count(const struct clipping *clipping)
{
    return (size_t)clipping->layers * clipping->members;
}

bool clipping_open(struct clipping *clipping, struct device *device, const struct stage *stages, uint32_t stage_count,
                   float limit, bool measures, const struct split_norms *split, uint32_t member,
                   struct error *error)
{
    *clipping = (struct clipping){ .device = device, .limit = limit, .measures = limit > 0 || measures,
                                   .members = split ? split->members : 1, .member = member, .split = split };
    if (!clipping->measures)
        return true;
    clipping->layers = split ? split->layer_count : count_layers(stages, stage_count);
    clipping->host = calloc(norm_count(clipping) + 1, sizeof *clipping->host);
    if (!clipping->host)
        return error_no_memory(error, "the norms of gradients");
    clipping->norms =
        device_allocate(device, round_to_256((norm_count(clipping) + 1) * sizeof *clipping->norms), error);
    clipping->measured = clipping->norms ? event_create(device, error) : NULL;
    return clipping->measured != NULL;
}

void clipping_close(struct clipping *clipping)
{
    if (clipping->device)
        device_release(clipping->device, clipping->norms);
    event_free(clipping->measured);
    free(clipping->host);
}

void clipping_begin(const struct clipping *clipping, struct queue *queue)
{
    queue_zero(queue, clipping->norms, norm_count(clipping) * sizeof *clipping->norms);
}

struct norm_range split_measured(const struct split_norms *split, uint32_t layer, uint32_t member, uint64_t count)
{
    if (member == 0)
        return (struct norm_range){ 0, count };
    const struct split_layer *split_layer = &split->layers[layer];
    return split_layer->members > member
             ? (struct norm_range){ split_layer->first, split_layer->end - split_layer->first }
             : (struct norm_range){ 0 };
}

uint64_t split_added(const struct split_norms *split, uint32_t layer, uint64_t count)
{
    if (!split || !split->layers[layer].adds_up)
        return 0;
    return split->layers[layer].end > 0 ? split->layers[layer].first : count;
}

void clipping_measure_part(const struct clipping *clipping, struct queue *queue, const struct stage_part *part,
                           const float *gradients)
{
    const struct norm_range measured = split_measured(clipping->split, part->layer, clipping->member,
                                                      part->end - part->first);
    const struct row_list rows = row_list_of_all((float *)(uintptr_t)gradients, part->rows, part->columns);
    if (!part->is_copy && !part->is_frozen && measured.count > 0 && part->rows > 0)
        kernel_norm_rows(queue, &clipping->norms[(size_t)part->layer * clipping->members + clipping->member], &rows,
                         measured.first / part->columns);
    else if (!part->is_copy && !part->is_frozen && measured.count > 0)
        kernel_norm(queue, &clipping->norms[(size_t)part->layer * clipping->members + clipping->member],
                    gradients + measured.first, measured.count);
}

void clipping_measure(const struct clipping *clipping, struct queue *queue, const struct stage *stage,
                      const float *gradients)
{
    for (size_t i = 0; i < stage->part_count; i++) {
        const struct stage_part *part = &stage->parts[i];
        const struct row_list list = stage_part_rows(part, (float *)(uintptr_t)gradients);
        const size_t first = clipping->member > 0 ? part->summed : 0;  // member 0 measures what all have
        if (part->room > 0 && !part->is_frozen)
            kernel_norm_rows(queue, &clipping->norms[(size_t)part->layer * clipping->members + clipping->member],
                             &list, first);
        else if (part->room == 0)
            clipping_measure_part(clipping, queue, part, gradients + part->first);
    }
}

struct reduction clipping_sum(const struct clipping *clipping, uint32_t group)
{
    return (struct reduction){ .group = group, .numbers = clipping->norms, .number_bytes = sizeof(float),
                                .count = norm_count(clipping) };
}

void clipping_add_members(const struct clipping *clipping, struct queue *queue, uint32_t rank)
{
    const struct split_norms *split = clipping->split;
    if (split)
        split->add(split->self, rank, clipping->member, queue, clipping->norms, norm_count(clipping));
}

void clipping_clip(const struct clipping *clipping, struct queue *queue, float *gradients, uint64_t count)
{
    const struct clip clip = { .norms = clipping->norms, .norm_count = norm_count(clipping), .limit = clipping->limit };
    if (clipping->limit > 0)
        kernel_clip(queue, &clip, gradients, count);
}

void clipping_download(const struct clipping *clipping, struct queue *queue)
{
    queue_download(queue, clipping->host, clipping->norms, norm_count(clipping) * sizeof *clipping->norms);
}

double clipping_norm(const struct clipping *clipping)
{
    return clip_norm(clipping->host, norm_count(clipping));
}
