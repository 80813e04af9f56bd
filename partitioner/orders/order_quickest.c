// The quickest way to recompute the layers between two downsets, of all their orders at once, where blocks are single
// layers and less time is all that counts.
#include <stdlib.h>
#include <string.h>

#include "partitioner/orders/order_walk.h"
#include "partitioner/orders/orders.h"

enum { MOST_LABELS = 2000 };  // of a downset

static bool can_walk(const struct orders *orders, uint32_t stage)
{
    const struct order_graph *graph = orders->graph;
    const struct coupled *coupled = orders->coupled;
    return graph->downsets && !graph->is_reduced && graph->block_count == graph->profile->layer_count
        && coupled->is_monotone && !orders->shares_ranks && coupled->order->splits == 1
        && coupled->slots[stage].held == 0 && holding_is_plain(&orders->request->holding);
}

// What of the stage no choice changes, and its input.
static struct order_walk_request request_of(const struct orders *orders, const struct order_stage *of,
                                            struct intervals *intervals, uint32_t first)
{
    struct stage_bytes bytes = interval_bytes(intervals, first, first + of->layer_count);
    struct slots slots = orders->coupled->slots[of->stage];
    struct order_walk_request request = { .slots = &orders->coupled->slots[of->stage], .input_bytes = bytes.input,
                                          .capacity_bytes = order_capacity(orders, of->stage),
                                          .most_labels = MOST_LABELS };
    bytes.kept = bytes.kept_through = bytes.held = bytes.transient = 0;
    bytes.input_life = INPUT_UNTIL_F;
    slots.input[INPUT_UNTIL_F] = 0;
    request.fixed_bytes = stage_memory_of(&bytes, &slots).peak_bytes;
    return request;
}

// The way that was found as a choice of the stage, if it fits.
static bool take_way(struct orders *orders, struct order_stage *of, uint32_t first, const uint32_t *layers,
                     struct order_walk_answer *answer, struct error *error)
{
    struct order_choice choice = { .forward_ns = answer->time_ns, .layers = answer->layers,
                                   .segments = answer->segments, .count = answer->segment_count };
    for (uint32_t i = 0; i < of->layer_count; i++)
        choice.layers[i] = layers[choice.layers[i]];
    struct profile *view = order_view(orders, of->from, of->to, choice.layers, of->layer_count, error);
    struct segment *segments = malloc((choice.count + 1) * sizeof segments[0]);
    of->at = malloc(sizeof of->at[0]);
    const bool good = view && ((segments && of->at) || error_no_memory(error, "a search"));
    for (size_t i = 0; good && i < choice.count; i++)
        segments[i] = (struct segment){ first + choice.segments[i].first, first + choice.segments[i].end };
    if (good) {
        const struct stage_bytes bytes = stage_bytes_at(view, first, first + of->layer_count, segments, choice.count,
                                                        &orders->request->holding, 1);
        const uint64_t peak = stage_memory_of(&bytes, &orders->coupled->slots[of->stage]).peak_bytes;
        choice.workspace_bytes = bytes.transient;
        choice.bytes = peak - bytes.transient;
        if (peak <= order_capacity(orders, of->stage)) {
            of->at[of->count++] = choice;
            answer->layers = NULL;  // taken
            answer->segments = NULL;
        }
    }
    free(segments);
    profile_free(view);
    return good;
}

static bool walk(struct orders *orders, struct order_stage *of, struct intervals *intervals, const uint32_t *layers,
                 bool *done, struct error *error)
{
    const uint32_t first = order_places_before(orders, of->from);
    const struct order_walk_request request = request_of(orders, of, intervals, first);
    struct order_lattice lattice = { 0 };
    struct order_walk_answer answer = { 0 };
    uint64_t made = 0;
    bool fits = false;
    bool good = order_lattice_create(&lattice, intervals, first, orders->graph, of->from, of->to, layers,
                                     request.capacity_bytes, &fits, error)
             && (!fits || order_walk(&lattice, &request, &made, &answer, error));
    of->least_ns = fits ? answer.least_ns : 0;
    if (good && fits && answer.found)
        good = take_way(orders, of, first, layers, &answer, error);
    of->complete = of->count > 0 ? of->at[0].forward_ns == of->least_ns : of->least_ns == NO_ORDER;
    *done = of->complete || of->count > 0;
    orders->coupled->work += 8 + of->layer_count / 2 + (made + lattice.step_count) / 8;
    order_walk_answer_clear(&answer);
    order_lattice_clear(&lattice);
    return good;
}

bool order_quickest(struct orders *orders, struct order_stage *of, const uint32_t *layers, bool *done,
                    struct error *error)
{
    *done = false;
    if (!can_walk(orders, of->stage))
        return true;
    struct profile *view = order_view(orders, of->from, of->to, layers, of->layer_count, error);
    struct intervals *intervals = view ? intervals_create(view, &orders->request->holding, error) : NULL;
    const bool good = intervals && walk(orders, of, intervals, layers, done, error);
    intervals_free(intervals);
    profile_free(view);
    return good;
}
