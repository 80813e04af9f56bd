#include "profiler/links.h"

#include <assert.h>
#include <stdlib.h>

#include "common/json.h"
#include "common/number.h"

const uint64_t link_usual_sizes[LINK_SIZES] = { 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216 };

// The largest distance of a point from the line, in per mille of the point.
static uint64_t worst_distance(const uint64_t *bytes, const uint64_t *ns, size_t count, const struct link_cost *cost)
{
    uint64_t worst = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t fitted = transfer_ns(bytes[i], cost->bytes_per_second, cost->latency_ns);
        const uint64_t apart = fitted > ns[i] ? fitted - ns[i] : ns[i] - fitted;
        const uint64_t permille = multiply_clamped(apart, 1000) / (ns[i] ? ns[i] : 1);
        worst = permille > worst ? permille : worst;
    }
    return worst;
}

// The line y = a + b x with the least sum of ((a + b x - y) / y)^2, that is with
// weights w = 1 / y^2:
//
//     b = (Sw Swxy - Swx Swy) / (Sw Swxx - Swx^2)        a = (Swy - b Swx) / Sw
//
// A latency below zero is an accident of the fit; it becomes zero, and the rate is
// fitted again through the origin: b = Swxy / Swxx.
bool link_fit(const uint64_t *bytes, const uint64_t *ns, size_t count, struct link_cost *cost, struct error *error)
{
    double sw = 0, swx = 0, swy = 0, swxx = 0, swxy = 0;
    for (size_t i = 0; i < count; i++) {
        const double x = (double)bytes[i], y = ns[i] ? (double)ns[i] : 1.0, w = 1.0 / (y * y);
        sw += w;
        swx += w * x;
        swy += w * y;
        swxx += w * x * x;
        swxy += w * x * y;
    }
    const double apart = sw * swxx - swx * swx;
    double b = apart > 0 ? (sw * swxy - swx * swy) / apart : 0;
    double a = (swy - b * swx) / sw;
    if (b > 0 && a < 0) {
        a = 0;
        b = swxy / swxx;
    }
    if (!(b > 0) || 1e9 / b < 1 || 1e9 / b > (double)JSON_MAX)
        return error_set_kind(error, ERROR_ANSWER,
                              "larger messages do not take longer, so no rate can be told; measure larger sizes");
    cost->latency_ns = (uint64_t)(a + 0.5);
    cost->bytes_per_second = (uint64_t)(1e9 / b + 0.5);
    cost->worst_permille = worst_distance(bytes, ns, count, cost);
    return true;
}

// The median time of one way.
static bool time_size(const struct link_measured *what, uint64_t bytes, const struct measure_options *options,
                      uint64_t *samples, uint64_t *ns, struct error *error)
{
    if (!what->ping_pong(what->self, bytes, error))
        return false;
    for (uint64_t i = 0; i < options->repeats; i++) {
        const uint64_t from = options->now_ns(options->self, MEASURE_WALL);
        if (!what->ping_pong(what->self, bytes, error))
            return false;
        samples[i] = options->now_ns(options->self, MEASURE_WALL) - from;
    }
    *ns = spread_of(samples, options->repeats).median_ns / 2;
    return true;
}

bool measure_link(const struct link_measured *what, const uint64_t *sizes, size_t size_count,
                  const struct measure_options *options, struct link_cost *cost, struct error *error)
{
    assert(size_count >= LINK_LEAST_SIZES && options->repeats > 0);
    uint64_t *samples = calloc(options->repeats, sizeof samples[0]);
    uint64_t *ns = calloc(size_count, sizeof ns[0]);
    bool good = samples && ns;
    if (!good)
        error_no_memory(error, "the samples of a link");
    for (size_t i = 0; i < size_count && good; i++) {
        good = time_size(what, sizes[i], options, samples, &ns[i], error)
               || error_at(error, "%llu bytes", (unsigned long long)sizes[i]);
        if (good && options->progress)
            options->progress(options->self, i + 1, size_count);
    }
    good = good && link_fit(sizes, ns, size_count, cost, error);
    free(samples);
    free(ns);
    return good;
}

bool answer_link(const struct link_measured *what, const uint64_t *sizes, size_t size_count,
                 const struct measure_options *options, struct error *error)
{
    for (size_t i = 0; i < size_count; i++)
        for (uint64_t call = 0; call < 1 + options->repeats; call++)
            if (!what->ping_pong(what->self, sizes[i], error))
                return error_at(error, "%llu bytes", (unsigned long long)sizes[i]);
    return true;
}
