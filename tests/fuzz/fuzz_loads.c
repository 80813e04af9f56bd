// Whatever the bytes, reading a loads document for a model of two layers ends in stages
// that can be priced or refused, or in one sentence with the file in front.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/objectives/loads_document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct profile *make_profile(void)
{
    struct error error = { 0 };
    struct profile *profile = profile_create("piper", "fp32", 1, 2, &error);
    if (!profile)
        abort();
    static const char *const names[] = { "embedding", "block" };
    for (size_t i = 0; i < 2; i++) {
        struct profile_layer *layer = &profile->layers[i];
        *layer = (struct profile_layer){ .name = strdup(names[i]), .kind = strdup(""), .forward_ns = 10 + i };
        layer->variants = calloc(1, sizeof layer->variants[0]);
        layer->variant_count = 1;
        layer->variants[0] = (struct profile_variant){ .devices = 2, .layer.name = strdup("vanilla on 2 devices") };
    }
    return profile;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct profile *profile = make_profile();
    struct cluster *cluster = cluster_uniform(4, 1000, 0, 1000, &error);
    struct bottleneck_request request = { .model = BOTTLENECK_TPS, .profile = profile, .cluster = cluster };
    struct bottleneck_result *result = loads_read(&request, (const char *)data, size, "fuzz.json", &error);
    if ((result != NULL) == (error.kind != ERROR_NONE))
        abort();
    if (!result && error.kind == ERROR_INPUT && strncmp(error.text, "fuzz.json:", 10) != 0)
        abort();
    struct error unpriced = { 0 };
    if (result && bottleneck_value(&request, result, &unpriced) == (unpriced.kind != ERROR_NONE))
        abort();
    bottleneck_free(result);
    cluster_free(cluster);
    profile_free(profile);
    return 0;
}
