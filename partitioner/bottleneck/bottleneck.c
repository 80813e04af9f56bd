#include "partitioner/bottleneck/bottleneck.h"

#include <stdlib.h>

const char *const bottleneck_names[] = { "pipedream", "max-load", "tps", NULL };
const char *const bottleneck_objectives[] = { "pipedream_ns", "max_load_ns", "tps_ns", NULL };

struct bottleneck_result *bottleneck_create(const struct bottleneck_request *request, size_t stage_count,
                                            struct error *error)
{
    struct bottleneck_result *result = calloc(1, sizeof *result);
    if (!result) {
        error_no_memory(error, "a plan");
        return NULL;
    }
    result->model = request->model;
    result->layer_count = request->profile->layer_count;
    result->stage_count = stage_count;
    result->by = BY_ENUMERATION;
    result->order = calloc(result->layer_count + 1, sizeof result->order[0]);
    result->stages = calloc(stage_count + 1, sizeof result->stages[0]);
    if (!result->order || !result->stages) {
        error_no_memory(error, "a plan");
        bottleneck_free(result);
        return NULL;
    }
    for (uint32_t i = 0; i < result->layer_count; i++)
        result->order[i] = i;
    for (uint32_t s = 0; s < stage_count; s++)
        result->stages[s] = (struct bottleneck_stage){ .replicas = 1, .group = 1, .server_stage = s, .servers = 1 };
    return result;
}

void bottleneck_free(struct bottleneck_result *result)
{
    if (!result)
        return;
    free(result->order);
    free(result->variant);
    free(result->stages);
    free(result);
}
