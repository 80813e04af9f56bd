// Other people's cost models: the load of the busiest stage, as `weir partition --model`
// plans by it. A model prices a stage by its layers and replicas alone, and a plan by
// its worst stage; nothing is simulated, and what each model leaves out stands in
// docs/bottleneck.md.
//
//     pipedream   PipeDream's optimizer, as it is coded       pipedream_price.h
//     max-load    dnn-partitioning's                          max_load.h
//     tps         Piper's                                     tps.h
//
// A plan cuts a graph into stages along downsets (downsets.h), so that its stages are
// intervals of an order of the layers that the answer brings along. A new model is a
// price function (objective.h), and a row of the table in bottleneck.c.
#ifndef PARTITIONER_OBJECTIVES_BOTTLENECK_H
#define PARTITIONER_OBJECTIVES_BOTTLENECK_H

#include <signal.h>

#include "partitioner/plan/plan.h"

enum bottleneck_model { BOTTLENECK_PIPEDREAM, BOTTLENECK_MAX_LOAD, BOTTLENECK_TPS, BOTTLENECK_MODELS };
extern const char *const bottleneck_names[];       // "pipedream", "max-load", "tps", NULL
extern const char *const bottleneck_objectives[];  // as a certificate states it: "pipedream_ns", ...

// Called now and then: the best value so far, INFINITY before there is one, and what none is below. NULL: nobody is.
struct bottleneck_listener {
    void (*hear)(void *self, double best_ns, double bound_ns);
    void *self;
};

// What a model does not know it ignores; what it cannot do without it refuses.
struct bottleneck_request {
    enum bottleneck_model model;
    const struct profile *profile;
    const struct cluster *cluster;  // its devices are the machines; rates by level, innermost first
    uint32_t machines;              // the first so many devices; 0: all
    uint32_t micro_batches;         // per iteration (tps); 0: as many as machines
    bool heed_memory;               // the model's own rule about memory, with the devices' bytes
    bool is_straight;               // no replicas
    bool may_use_fewer;             // machines may be left without work
    bool counts_activations;        // pipedream: what activations take on their way (its compression ratio 1)
    uint32_t cpus;                  // max-load: machines of the host that may take layers
    size_t most_downsets;           // 0: the usual
    uint64_t budget;                // units of a model's own work; 0: the usual
    uint64_t until_ns;                         // of clock_now_ns(), when the search ends; 0: never
    const volatile sig_atomic_t *interrupted;  // ends it once it is not 0; or NULL
    struct bottleneck_listener listener;
};

struct bottleneck_stage {
    uint32_t first, end;     // places in the order
    uint32_t replicas;
    uint32_t group;          // devices of each replica; 1 but for tensor parallelism
    uint32_t part;           // two levels of pipedream: which part of the outer level it is in ...
    uint32_t servers;        // ... and how many servers hold copies of that part; else the stage's number, and 1
    bool on_cpu;             // max-load
    double load_ns;
};

struct bottleneck_result {
    enum bottleneck_model model;
    uint32_t *order;   // of the layers; stages are intervals of it
    uint32_t *variant; // of each layer by number: 0 as measured, 1 and up the profile's variants; NULL: all 0
    struct bottleneck_stage *stages;
    size_t layer_count, stage_count;
    uint32_t machines_used;
    double value_ns;        // the largest load
    double lower_bound_ns;  // nothing the model allows is below
    bool proved;            // by exhaustion, but for what `by` says
    enum certificate_by by;
    size_t downset_count;   // that were looked at; 0 where a model has none
    char stopped[80];       // why the search ended early, or empty
};

// The best plan there is in the model; of equal ones always the same. NULL, of kind
// ERROR_ANSWER, where nothing is allowed, or where the search was ended before any was found.
struct bottleneck_result *bottleneck_search(const struct bottleneck_request *request, struct error *error);

// What a plan is worth in the model, whoever made it: fills in the stages' loads and the
// value, from the layers alone. Reads order, stages (but load_ns), which hold each layer
// once, and variants. False where the model does not allow it, naming the stage.
bool bottleneck_value(const struct bottleneck_request *request, struct bottleneck_result *plan, struct error *error);

// What a search of the same request says of a plan that it did not make: its bound, and `proved` where the plan is as
// good. Where the plan is better than all the search may choose from (fewer machines, say), or nothing was found
// (`best` NULL), there is no bound, and `stopped` says so.
void bottleneck_certify_by(struct bottleneck_result *plan, const struct bottleneck_result *best);

// As documents state it.
bool bottleneck_certificate(const struct bottleneck_result *result, struct certificate *certificate,
                            struct error *error);

// An answer of so many stages, zeroed, its order that of the profile.
struct bottleneck_result *bottleneck_create(const struct bottleneck_request *request, size_t stage_count,
                                            struct error *error);
// Orders the layers by the stage of each, those of a stage as in the profile, and ends the stages accordingly.
void bottleneck_place(struct bottleneck_result *result, const uint32_t *stage_of);
void bottleneck_free(struct bottleneck_result *result);

// The table a person reads: the value in full digits, the stages, what was proved.
void bottleneck_print(const struct bottleneck_request *request, const struct bottleneck_result *result,
                      struct text *text);
// The same of a plan that was given, and how far it is from the best that was found; `best` may be NULL.
void bottleneck_print_given(const struct bottleneck_request *request, const struct bottleneck_result *plan,
                            const struct bottleneck_result *best, struct text *text);

#endif
