// Whatever the bytes, a model's config.json ends in a model whose layers can be estimated, or in one sentence.
#include <stdint.h>
#include <stdlib.h>

#include "profiler/estimate/estimate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_estimate(const struct transformer *model)
{
    struct error error = { 0 };
    struct rated_device device;
    struct estimate_request request = estimate_usual();
    request.sequence = 4096;
    struct estimate *estimate = malloc(sizeof *estimate);
    if (!estimate || !rated_device_load("h100-sxm", &device, &error))
        abort();
    for (request.tensor = 1; request.tensor <= 8; request.tensor *= 8) {
        struct error reason = { 0 };
        request.sequence_parallel = request.tensor > 1;
        if (estimate_model(model, &device, &request, estimate, &reason) != (reason.kind == ERROR_NONE))
            abort();
        if (reason.kind == ERROR_NONE && model->layers < 200)
            profile_free(estimate_profile(estimate, &reason));
    }
    free(estimate);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct transformer model;
    const bool good = transformer_read((const char *)data, size, "fuzz", &model, &error);
    if (good != (error.kind == ERROR_NONE))
        abort();
    if (good)
        try_estimate(&model);
    return 0;
}
