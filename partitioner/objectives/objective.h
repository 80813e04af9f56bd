// What a model is to the search of the best plan and to the price of a given one: which
// layers are nodes, and what a stage between two downsets of them loads. Both ask the very
// same prices, once over a graph's downsets, once over those of the given plan's order.
#ifndef PARTITIONER_OBJECTIVES_OBJECTIVE_H
#define PARTITIONER_OBJECTIVES_OBJECTIVE_H

#include "partitioner/objectives/graph_view.h"
#include "partitioner/objectives/minimax.h"

// A stage of the plan that was found, up to a downset; places in an order are filled in later.
struct found_stage {
    uint32_t downset;
    struct bottleneck_stage stage;
};

struct objective {
    // The node of each layer (graph_view_create), for free(); NULL: each is one.
    bool (*nodes)(const struct bottleneck_request *request, bool is_given, uint32_t **node_of, struct error *error);
    // Fills in prices, `bytes` of zeros, over the downsets of a view, with whose arrays theirs are kept: of the ways in
    // which a given plan runs its layers, or of all (NULL). False with the error, or without memory.
    size_t bytes;
    bool (*fill)(void *prices, struct graph_view *view, const struct bottleneck_result *given, struct error *error);
    // Frees what is not kept there, however much was filled in; NULL: nothing.
    void (*clear)(void *prices);
    // Fills in what concerns prices. What the problem points to is kept with these.
    void (*ask)(void *prices, struct minimax_problem *problem);
    // The stages of what was found, at most as many as nodes; how many.
    size_t (*stages)(void *prices, const struct minimax *found, struct found_stage *stages);
    // Chooses the variant of each layer of an answer that has its stages; NULL: all run as measured.
    bool (*choose)(void *prices, const struct found_stage *stages, struct bottleneck_result *result,
                   struct error *error);
    // The error that says why no plan is allowed.
    void (*refuse)(void *prices, struct error *error);
    // What may be better than the prices say, as a sentence's part; NULL: nothing; or there is no such function.
    const char *(*doubt)(const void *prices);
    // Fills in the loads of a given plan's stages; stage s is what downset ends[s + 1] holds and ends[s] does not.
    // False where the model does not allow it, naming the stage.
    bool (*value)(void *prices, struct bottleneck_result *plan, const uint32_t *ends, struct error *error);
};

extern const struct objective pipedream_objective, max_load_objective, tps_objective;

#endif
