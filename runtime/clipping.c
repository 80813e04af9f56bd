#include "runtime/clipping.h"

#include <stdlib.h>

#include "common/number.h"
#include "device/kernels.h"

static uint32_t count_layers(const struct stage *stages, uint32_t stage_count)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < stage_count; s++)
        for (size_t i = 0; i < stages[s].part_count; i++)
            count = stages[s].parts[i].layer >= count ? stages[s].parts[i].layer + 1 : count;
    return count;
}

bool clipping_open(struct clipping *clipping, struct device *device, const struct stage *stages, uint32_t stage_count,
                   float limit, struct error *error)
{
    *clipping = (struct clipping){ .device = device, .limit = limit };
    if (limit <= 0)
        return true;
    clipping->layers = count_layers(stages, stage_count);
    clipping->host = calloc(clipping->layers + 1u, sizeof *clipping->host);
    if (!clipping->host)
        return error_no_memory(error, "the norms of gradients");
    clipping->norms = device_allocate(device, round_to_256((clipping->layers + 1u) * sizeof *clipping->norms), error);
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
    queue_zero(queue, clipping->norms, clipping->layers * sizeof *clipping->norms);
}

void clipping_measure_part(const struct clipping *clipping, struct queue *queue, const struct stage_part *part,
                           const float *gradients)
{
    if (!part->is_copy && part->end > part->first)
        kernel_norm(queue, &clipping->norms[part->layer], gradients, part->end - part->first);
}

void clipping_measure(const struct clipping *clipping, struct queue *queue, const struct stage *stage,
                      const float *gradients)
{
    for (size_t i = 0; i < stage->part_count; i++)
        clipping_measure_part(clipping, queue, &stage->parts[i], gradients + stage->parts[i].first);
}

struct reduction clipping_sum(const struct clipping *clipping, uint32_t group)
{
    return (struct reduction){ .group = group, .numbers = clipping->norms, .number_bytes = sizeof(float),
                                .count = clipping->layers };
}

void clipping_clip(const struct clipping *clipping, struct queue *queue, float *gradients, uint64_t count)
{
    const struct clip clip = { .norms = clipping->norms, .norm_count = clipping->layers, .limit = clipping->limit };
    kernel_clip(queue, &clip, gradients, count);
}

void clipping_download(const struct clipping *clipping, struct queue *queue)
{
    queue_download(queue, clipping->host, clipping->norms, clipping->layers * sizeof *clipping->norms);
}

double clipping_norm(const struct clipping *clipping)
{
    return clip_norm(clipping->host, clipping->layers);
}
