// Models whose layers have names, plans of them that were chosen at random or by hand, for the tests of what is
// exported.
#ifndef TESTS_EXPORTS_NAMED_H
#define TESTS_EXPORTS_NAMED_H

#include "exports/export.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/search/search_request.h"
#include "tests/partitioner/resolve.h"
#include "tests/test.h"

enum { NAMED_MOST = 64 };

// Layers by units: `inputs`, `blocks` of `parts` layers each, `outputs`.
struct named {
    uint32_t inputs, blocks, parts, outputs;
    struct profile *profile;
};

static inline void named_layer(struct profile_layer *layer, const char *name, uint64_t *seed)
{
    *layer = (struct profile_layer){
        .name = strdup(name), .kind = strdup("test"),
        .forward_ns = 1000 + random_below(seed, 1000), .backward_input_ns = 1000 + random_below(seed, 1000),
        .backward_weight_ns = 500 + random_below(seed, 1000), .parameter_bytes = 256 * random_below(seed, 20),
        .output_bytes = 256 * (1 + random_below(seed, 4)), .saved_bytes = 256 * (1 + random_below(seed, 20)),
        .input_kept = INPUT_KEPT_WEIGHT, .held_for_weight_bytes = 256,
    };
    layer->backward_ns = layer->backward_input_ns + layer->backward_weight_ns;
}

static inline struct named named_model(uint32_t inputs, uint32_t blocks, uint32_t parts, uint32_t outputs,
                                       uint64_t seed)
{
    static const char *const input_names[] = { "embedding", "position" }, *const output_names[] = { "norm", "head" };
    static const char *const part_names[] = { "attention", "mlp", "adapter" };
    struct error error = { 0 };
    struct named named = { inputs, blocks, parts, outputs, NULL };
    const size_t layers = inputs + blocks * parts + outputs;
    named.profile = profile_create("named", "fp32", 3, layers, &error);
    assert_good(named.profile, error);
    for (size_t l = 0; l < layers; l++) {
        char name[40];
        if (l < inputs)
            snprintf(name, sizeof name, "%s", input_names[l]);
        else if (l >= layers - outputs)
            snprintf(name, sizeof name, "%s", output_names[l - (layers - outputs) + 2 - outputs]);
        else if (parts == 1)
            snprintf(name, sizeof name, "model.layers.%zu", l - inputs);
        else
            snprintf(name, sizeof name, "block%zu.%s", (l - inputs) / parts, part_names[(l - inputs) % parts]);
        named_layer(&named.profile->layers[l], name, &seed);
    }
    assert_good(profile_rehash(named.profile, &error), error);
    return named;
}

// What is decided: stage s has layers [cuts[s], cuts[s + 1]).
struct decision {
    uint32_t stages, cuts[NAMED_MOST + 1];
    struct segment again[4 * NAMED_MOST];
    size_t count;
};

struct asked {
    const char *schedule;
    uint32_t ranks, chunks, micro_batches;
    uint64_t memory_bytes;  // 0: plenty
};

static inline struct plan *named_begin(const struct named *named, const struct asked *asked, struct error *error)
{
    char synopsis[80];
    snprintf(synopsis, sizeof synopsis, "%u devices, %lluB, 10GB/s 1us", asked->ranks,
             (unsigned long long)(asked->memory_bytes ? asked->memory_bytes : 1 << 30));
    struct cluster *cluster = cluster_load(synopsis, error);
    assert_good(cluster, *error);
    struct search_request request = { .profile = named->profile, .cluster = cluster, .schedule = asked->schedule,
        .ranks = asked->ranks, .chunks = asked->chunks, .micro_batches = asked->micro_batches };
    resolve(&request);
    struct plan *plan = search_begin_plan(&request, asked->ranks * asked->chunks, error);
    cluster_free(cluster);
    return plan;
}

static inline void named_set_stages(struct plan *plan, const struct named *named, const struct decision *decision)
{
    struct error error = { 0 };
    struct schedule *order = schedule_generate(plan->schedule, plan->ranks, plan->chunks, plan->micro_batches, &error);
    assert_good(order, error);
    for (uint32_t s = 0; s < decision->stages; s++) {
        const struct segment layers = { decision->cuts[s], decision->cuts[s + 1] };
        size_t from = 0, count = 0;
        while (from < decision->count && decision->again[from].first < layers.first)
            from++;
        while (from + count < decision->count && decision->again[from + count].first < layers.end)
            count++;
        assert_good(plan_set_stage(plan, s, named->profile, layers, order->routes[s], decision->again + from, count,
                                   &error), error);
    }
    schedule_free(order);
    assert_good(plan_price(plan, named->profile, &error), error);
}

static inline struct plan *named_plan(const struct named *named, const struct asked *asked,
                                      const struct decision *decision)
{
    struct error error = { 0 };
    struct plan *plan = named_begin(named, asked, &error);
    assert_good(plan, error);
    named_set_stages(plan, named, decision);
    return plan;
}

#endif
