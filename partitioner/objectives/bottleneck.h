// The cost models of other planners: the load of the busiest stage, by which `weir bottleneck --model` plans. A
// model prices a stage by its layers and replicas alone, and a plan by its worst stage. Nothing is simulated. The
// page docs/bottleneck.md says what each model leaves out.
//
//     pipedream   PipeDream's optimizer, as it is coded       pipedream_price.h
//     max-load    dnn-partitioning's                          max_load.h
//     tps         Piper's                                     tps.h
//
// A plan cuts a graph into stages along downsets: sets of layers that contain all that their layers read
// (downsets.h). So its stages are intervals of an order of the layers, which the answer includes. A new model is a
// price function (objective.h), and a row of the table in bottleneck.c.
#ifndef PARTITIONER_OBJECTIVES_BOTTLENECK_H
#define PARTITIONER_OBJECTIVES_BOTTLENECK_H

#include <signal.h>

#include "partitioner/plan/plan.h"

enum bottleneck_model { BOTTLENECK_PIPEDREAM, BOTTLENECK_MAX_LOAD, BOTTLENECK_TPS, BOTTLENECK_MODELS };
extern const char *const bottleneck_names[];       // "pipedream", "max-load", "tps", NULL
extern const char *const bottleneck_objectives[];  // as a certificate states it: "pipedream_ns", ...

// Called now and then with the best value so far (INFINITY before there is one), and a bound that no plan is below.
// With a `hear` of NULL nothing is called.
struct bottleneck_listener {
    void (*hear)(void *self, double best_ns, double bound_ns);
    void *self;
};

// A model ignores what it does not know, and refuses what it cannot do without.
struct bottleneck_request {
    enum bottleneck_model model;
    const struct profile *profile;
    const struct cluster *cluster;  // its devices are the machines; rates by level, innermost first
    uint32_t machines;              // only the first so many devices; 0: all
    uint32_t micro_batches;         // per iteration (tps); 0: as many as machines
    bool heed_memory;               // apply the model's own rule about memory, with the devices' bytes
    bool is_straight;               // no replicas
    bool may_use_fewer;             // machines may be left without work
    bool counts_activations;        // pipedream: count the transfer of activations (its compression ratio 1)
    uint32_t cpus;                  // max-load: machines of the host that may take layers
    size_t most_downsets;           // 0: the default
    uint64_t budget;                // units of a model's own work; 0: the default
    uint64_t until_ns;                         // of clock_now_ns(): when the search ends; 0: never
    const volatile sig_atomic_t *interrupted;  // ends the search once it is not 0; or NULL
    struct bottleneck_listener listener;
};

struct bottleneck_stage {
    uint32_t first, end;     // positions in the order
    uint32_t replicas;
    uint32_t group;          // devices of each replica; 1 except for tensor parallelism
    uint32_t part;           // two levels of pipedream: which part of the outer level it is in ...
    uint32_t servers;        // ... and how many servers hold copies of that part; else the stage's number, and 1
    bool on_cpu;             // max-load
    double load_ns;
};

struct bottleneck_result {
    enum bottleneck_model model;
    uint32_t *order;   // of the layers; stages are intervals of it
    uint32_t *variant; // of each layer by number: 0 as measured, 1 and up the profile's variants
    struct bottleneck_stage *stages;
    size_t layer_count, stage_count;
    uint32_t machines_used;
    double value_ns;        // the largest load
    double lower_bound_ns;  // no plan that the model allows is below
    bool proved;            // by exhaustion, unless `by` says otherwise
    enum certificate_by by;
    size_t downset_count;   // downsets that were looked at; 0 if a model has none
    char stopped[80];       // why the search ended early, or empty
};

// The best plan in the model; of equally good plans always the same one. NULL with an error of kind ERROR_ANSWER if
// no plan is allowed, or if the search was ended before it found any. Freed by bottleneck_free().
struct bottleneck_result *bottleneck_search(const struct bottleneck_request *request, struct error *error);

// Prices any plan in the model: fills in the stages' loads and the value, from the layers alone. Reads the
// order, the stages (except load_ns), which hold each layer once, and the variants. False if the model does not
// allow the plan; the error names the stage.
bool bottleneck_value(const struct bottleneck_request *request, struct bottleneck_result *plan, struct error *error);

// Certifies a plan by a search of the same request, which did not make the plan. The bound is that of the search,
// and `proved` is set if the plan is as good. There is no bound if the plan is better than all that the search may
// choose from (with fewer machines, say), or if nothing was found (`best` NULL). In these cases `stopped` says so.
void bottleneck_certify_by(struct bottleneck_result *plan, const struct bottleneck_result *best);

// The certificate as documents state it. Fails if the largest load is more than 2^53 - 1 ns.
bool bottleneck_certificate(const struct bottleneck_result *result, struct certificate *certificate,
                            struct error *error);

// A zeroed answer of this many stages, in the profile's order of layers. Freed by bottleneck_free().
struct bottleneck_result *bottleneck_create(const struct bottleneck_request *request, size_t stage_count,
                                            struct error *error);
// Orders the layers by the stage of each; those of one stage stay in the profile's order. Sets the ranges of the
// stages accordingly.
void bottleneck_place(struct bottleneck_result *result, const uint32_t *stage_of);
void bottleneck_free(struct bottleneck_result *result);

// Prints a table for people to read: the value in full digits, the stages, and what was proved.
void bottleneck_print(const struct bottleneck_request *request, const struct bottleneck_result *result,
                      struct text *text);
// The same for a plan that was given, with how far it is from the best plan found; `best` may be NULL.
void bottleneck_print_given(const struct bottleneck_request *request, const struct bottleneck_result *plan,
                            const struct bottleneck_result *best, struct text *text);

#endif
