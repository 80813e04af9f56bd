#include "partitioner/search/search_given.h"

#include <string.h>

#include "partitioner/cost/variant.h"
#include "partitioner/search/search_request.h"
#include "schedules/generators/given_order.h"

// Stages of one rank have the same group. So that of a rank's first action counts.
static size_t count_by_order(const struct search_request *request, const struct schedule *order)
{
    const struct search_layout *layout = &request->layout;
    size_t count = 0;
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        const struct action_list *list = &order->lists[rank];
        const uint32_t stage = list->count > 0 ? list->at[0].stage : layout->stages;
        count += variant_devices(request->profile, stage < layout->stages ? layout->variants[stage] : NULL);
    }
    return count;
}

// The number of devices needed: one per rank or, if stages take variants, as many as their groups have. 0 with an
// error.
static size_t count_devices(const struct search_request *request, struct error *error)
{
    const struct search_layout *layout = &request->layout;
    size_t count = 0;
    if (layout->variants && !layout->replicas && layout->stages != request->ranks) {
        struct schedule *order = search_order(request, request->micro_batches, error);
        count = order ? count_by_order(request, order) : 0;
        schedule_free(order);
        return count;
    }
    for (uint32_t s = 0; layout->variants && s < layout->stages; s++)
        count += (layout->replicas ? layout->replicas[s] : 1) * variant_devices(request->profile, layout->variants[s]);
    return layout->variants ? count : request->ranks;
}

bool search_give_devices(struct search_request *request, const uint32_t *devices, size_t count, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (devices[i] >= request->cluster->device_count)
            return error_set(error, "device %u is not in the cluster (0 to %zu)", devices[i],
                             request->cluster->device_count - 1);
        for (size_t other = 0; other < i; other++)
            if (devices[other] == devices[i])
                return error_set(error, "device %u is there twice", devices[i]);
    }
    const size_t needed = count_devices(request, error);
    if (needed == 0)
        return false;
    if (count != needed)
        return error_set(error, "names %zu devices, but %zu are needed", count, needed);
    request->layout.devices = devices;
    return true;
}

// Finds a layer by its name, or by the part before a "." if only one layer's name begins so: "node3" is node3.Conv2d.
static bool find_layer(const struct profile *profile, const char *name, size_t length, uint32_t *layer,
                       struct error *error)
{
    size_t begin_so = 0;
    for (size_t l = 0; l < profile->layer_count; l++) {
        const char *known = profile->layers[l].name;
        if (strncmp(known, name, length) != 0 || (known[length] != '\0' && known[length] != '.'))
            continue;
        *layer = (uint32_t)l;
        if (known[length] == '\0')
            return true;
        begin_so++;
    }
    if (begin_so > 1)
        return error_set(error, "%zu layers of the profile begin with \"%.*s\"; name one whole", begin_so, (int)length,
                         name);
    return begin_so == 1 || error_set(error, "the profile has no layer named \"%.*s\"", (int)length, name);
}

bool search_give_pin(const struct profile *profile, const char *name, size_t length, uint32_t stage,
                     struct search_pin *pins, size_t *count, struct error *error)
{
    struct search_pin pin = { .stage = stage };
    if (!find_layer(profile, name, length, &pin.layer, error))
        return false;
    for (size_t other = 0; other < *count; other++)
        if (pins[other].layer == pin.layer && pins[other].stage != stage)
            return error_set(error, "layer \"%.*s\" cannot be on stages %u and %u", (int)length, name,
                             pins[other].stage, stage);
    pins[(*count)++] = pin;
    return true;
}

static bool reads_vectors(const struct profile *profile)
{
    bool reads = false;
    for (size_t l = 0; l < profile->layer_count; l++)
        reads |= profile->layers[l].kind && strcmp(profile->layers[l].kind, "exchange") == 0;
    return reads;
}

// Sets `segments` to what the model needs, if it was not given.
static bool count_segments(const struct profile *profile, const struct schedule *order, uint32_t *segments,
                           struct error *error)
{
    const uint32_t readers = search_rows_read(profile), layers = readers / 2, stages = order->stages;
    if ((readers == 0 && *segments > 0) || order->exchanges)  // schedule_segment() refuses the latter
        return true;
    if (readers == 0 && !reads_vectors(profile))
        return error_set(error, "no layer of %.60s reads what devices exchange; a model that does has the word"
                         " \"exchange\" in its name", profile->model);
    if (readers > 0 && layers % stages != 0)
        return error_set(error, "%.60s has %u stages, which do not divide the model's %u layers of experts: take"
                         " ranks and chunks with which each stage has as many of them", order->name, stages, layers);
    const uint32_t needed = readers / stages + (readers > 0 ? 1 : 2);
    if (*segments > 0 && *segments != needed)
        return error_set(error, "each stage of %.60s has %u layer%s of experts, which makes %u segments, not %u",
                         order->name, layers / stages, layers == stages ? "" : "s", needed, *segments);
    *segments = needed;
    return true;
}

struct schedule *search_give_segments(const struct profile *profile, const struct schedule *order,
                                      struct segmenting into, struct error *error)
{
    if (!count_segments(profile, order, &into.segments, error))
        return NULL;
    struct schedule *segments = schedule_segment(order, into, error);
    struct schedule *given = segments ? given_order(segments, error) : NULL;
    schedule_free(segments);
    return given;
}
