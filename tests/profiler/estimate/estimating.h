// Estimates for tests.
#ifndef TESTS_PROFILER_ESTIMATE_ESTIMATING_H
#define TESTS_PROFILER_ESTIMATE_ESTIMATING_H

#include <stdlib.h>
#include <string.h>

#include "profiler/estimate/estimate.h"
#include "tests/test.h"

// Of a config.json on a built-in device; the caller frees it.
static inline struct estimate *estimate_on(const char *name, const char *config, struct estimate_request request)
{
    struct error error = { 0 };
    struct transformer model;
    struct rated_device device;
    struct estimate *made = malloc(sizeof *made);
    assert_non_null(made);
    assert_good(transformer_read(config, strlen(config), "config.json", &model, &error), error);
    assert_good(rated_device_load(name, &device, &error), error);
    assert_good(estimate_model(&model, &device, &request, made, &error), error);
    return made;
}

#endif
