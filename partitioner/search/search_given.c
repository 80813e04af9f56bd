#include "partitioner/search/search_given.h"

#include <string.h>

#include "partitioner/cost/variant.h"

// The number of devices needed: one per rank or, if stages take variants, as many as their groups have.
static size_t count_devices(const struct search_request *request)
{
    size_t count = 0;
    for (uint32_t s = 0; request->layout.variants && s < request->layout.stages; s++)
        count += (request->layout.replicas ? request->layout.replicas[s] : 1)
               * variant_devices(request->profile, request->layout.variants[s]);
    return request->layout.variants ? count : request->ranks;
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
    const size_t needed = count_devices(request);
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
