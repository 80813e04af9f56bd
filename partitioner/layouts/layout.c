#include "partitioner/layouts/layout.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "partitioner/cost/variant.h"

void layout_clear(struct layout *layout)
{
    free(layout->cuts);
    free(layout->replicas);
    free(layout->variants);
    free(layout->devices);
    *layout = (struct layout){ 0 };
}

void layouts_clear(struct layouts *layouts)
{
    for (size_t i = 0; i < layouts->count; i++)
        layout_clear(&layouts->at[i]);
    free(layouts->at);
    *layouts = (struct layouts){ 0 };
}

bool layout_add(struct layouts *layouts, const struct layout *layout, struct error *error)
{
    struct layout copy = *layout;
    copy.devices = array_copy(layout->devices, (size_t)layout->device_count + layout->spare_count,
                              sizeof copy.devices[0]);
    if (layout->replicas)
        copy.replicas = array_copy(layout->replicas, layout->stages, sizeof copy.replicas[0]);
    if (layout->variants)
        copy.variants = array_copy(layout->variants, layout->stages, sizeof copy.variants[0]);
    if (layout->cuts)
        copy.cuts = array_copy(layout->cuts, (size_t)layout->stages + 1, sizeof copy.cuts[0]);
    if (!copy.devices || (layout->cuts && !copy.cuts) || (layout->replicas && !copy.replicas)
        || (layout->variants && !copy.variants)
        || !array_reserve(&layouts->at, &layouts->capacity, layouts->count + 1, sizeof layouts->at[0])) {
        layout_clear(&copy);
        return error_no_memory(error, "the layouts of a plan");
    }
    layouts->at[layouts->count++] = copy;
    return true;
}

bool layout_is_same(const struct layout *a, const struct layout *b)
{
    if (a->stages != b->stages || a->device_count != b->device_count)
        return false;
    for (uint32_t s = 0; s < a->stages; s++)
        if ((a->replicas && a->replicas[s] != b->replicas[s]) || a->variants[s] != b->variants[s])
            return false;
    return memcmp(a->devices, b->devices, a->device_count * sizeof a->devices[0]) == 0;
}

bool layout_ties_hold(const struct layout *layout, const struct profile *profile)
{
    return layout->stages < 2 || variants_tie(profile, layout->variants[0], layout->variants[layout->stages - 1]);
}

struct search_request layout_request(const struct search_request *request, const struct layout *layout)
{
    struct search_request fixed = *request;
    bool has_replicas = false, has_variants = false;
    for (uint32_t s = 0; layout->replicas && s < layout->stages; s++)
        has_replicas |= layout->replicas[s] > 1;
    for (uint32_t s = 0; layout->variants && s < layout->stages; s++)
        has_variants |= layout->variants[s] != NULL;
    fixed.free = (struct search_freedom){ 0 };
    fixed.ranks = layout->ranks;
    fixed.layout.replicas = has_replicas ? layout->replicas : NULL;
    fixed.layout.stages = has_replicas || has_variants ? layout->stages : 0;
    fixed.layout.variants = has_variants ? layout->variants : NULL;
    fixed.layout.devices = layout->devices;
    fixed.layout.begin = has_replicas || has_variants ? layout->cuts : NULL;
    return fixed;
}

bool layout_names_read(const struct search_request *request, struct layout_names *names, struct error *error)
{
    *names = (struct layout_names){ .count = 1, .devices = { 1 } };
    if (request->free.variants)
        names->count += variant_names(request->profile, names->names + 1, LAYOUT_MOST_VARIANTS);
    for (size_t i = 1; i < names->count; i++) {
        struct profile *variant = variant_of(request->profile, names->names[i], error);
        if (!variant)
            return false;
        variant_free(variant);
        names->devices[i] = variant_devices(request->profile, names->names[i]);
    }
    return true;
}
