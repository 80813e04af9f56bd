// A cost model, as the search for the best plan and the pricing of a given one need it. It says which layers are
// nodes, and what a stage between two downsets of them loads. Both use the very same prices: the search over a
// graph's downsets, the pricing over those of the given plan's order.
#ifndef PARTITIONER_OBJECTIVES_OBJECTIVE_H
#define PARTITIONER_OBJECTIVES_OBJECTIVE_H

#include "partitioner/objectives/graph_view.h"
#include "partitioner/objectives/minimax.h"

// A stage of the plan that was found, up to a downset. Its positions in an order are filled in later.
struct found_stage {
    uint32_t downset;
    struct bottleneck_stage stage;
};

struct objective {
    // The node of each layer (graph_view_create()), to be freed by free(); NULL: each layer is a node.
    bool (*nodes)(const struct bottleneck_request *request, bool is_given, uint32_t **node_of, struct error *error);
    // Fills in prices, `bytes` zeroed bytes, over the downsets of a view. Their arrays are kept with those of the
    // view. They price the ways in which a given plan runs its layers, or all ways (`given` NULL). False with the
    // error, or without memory.
    size_t bytes;
    bool (*fill)(void *prices, struct graph_view *view, const struct bottleneck_result *given, struct error *error);
    // Frees what is not kept there, however much was filled in; NULL: nothing to free.
    void (*clear)(void *prices);
    // Fills in the fields of the problem that concern prices. Everything that the problem points to is kept with the
    // prices.
    void (*ask)(void *prices, struct minimax_problem *problem);
    // Lists the stages of what was found, at most as many as there are nodes. Returns their number.
    size_t (*stages)(void *prices, const struct minimax *found, struct found_stage *stages);
    // Chooses the variant of each layer of an answer that has its stages; NULL: all layers run as measured.
    bool (*choose)(void *prices, const struct found_stage *stages, struct bottleneck_result *result,
                   struct error *error);
    // Sets the error that says why no plan is allowed.
    void (*refuse)(void *prices, struct error *error);
    // What may be better than the prices say, as part of a sentence; NULL: nothing. The function itself may be NULL,
    // too.
    const char *(*doubt)(const void *prices);
    // Fills in the loads of a given plan's stages. Stage s is what downset ends[s + 1] holds and ends[s] does not.
    // False if the model does not allow the plan; the error names the stage.
    bool (*value)(void *prices, struct bottleneck_result *plan, const uint32_t *ends, struct error *error);
};

extern const struct objective pipedream_objective, max_load_objective, tps_objective;

#endif
