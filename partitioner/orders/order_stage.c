// What the layers between two downsets take as a stage. In which order they stand there
// is still open, and matters: for what is alive at once, and for what can be a segment.
// Where a stage fits with nothing recomputed, its layers as they stand in the profile,
// no other order is better; elsewhere all orders are tried, or as many as there is time for.
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/orders/orders.h"
#include "partitioner/predict.h"
#include "profiler/profile_reorder.h"

enum {
    MOST_ORDERS = 5040,  // of the layers of a stage
    FEW_ORDERS = 24,     // where they prove nothing
    MOST_LABELS = 2000,  // recompute.h
};

// --- rows ---------------------------------------------------------------------------------

struct cost_row order_row(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to,
                          uint64_t recompute_ns)
{
    const struct coupled *coupled = orders->coupled;
    const uint64_t speed = coupled->speed[stage];
    return (struct cost_row){
        .forward_ns = stage_scaled_ns(order_sum(orders, SUM_FORWARD, from, to), speed),
        .backward_ns = stage_scaled_ns(order_sum(orders, SUM_BACKWARD, from, to), speed),
        .backward_input_ns = stage_scaled_ns(order_sum(orders, SUM_BACKWARD_INPUT, from, to), speed),
        .backward_weight_ns = stage_scaled_ns(order_sum(orders, SUM_BACKWARD_WEIGHT, from, to), speed),
        .recompute_ns = stage_scaled_ns(recompute_ns, speed),
        .reduce_ns = predict_reduce_ns(&orders->request->holding, coupled->placement, stage,
                                       order_sum(orders, SUM_WEIGHTS, from, to), coupled->network),
        .output_bytes = orders->graph->cut[to],
    };
}

static const struct link *link_of(const struct network *network, uint32_t from, uint32_t to)
{
    return &network->links[network->link_of[(size_t)from * network->ranks + to]];
}

struct pattern_stage order_pattern_stage(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to,
                                         uint64_t recompute_ns)
{
    const struct coupled *coupled = orders->coupled;
    const uint64_t speed = coupled->speed[stage];
    struct pattern_stage result = {
        .forward_ns = stage_scaled_ns(order_sum(orders, SUM_FORWARD, from, to), speed),
        .backward_ns = stage_scaled_ns(order_sum(orders, SUM_BACKWARD, from, to), speed)
                     + stage_scaled_ns(recompute_ns, speed),
    };
    if (orders->pattern.is_known && stage + 1 < orders->stages) {
        const struct link *there = link_of(coupled->network, stage, stage + 1);
        const struct link *back = link_of(coupled->network, stage + 1, stage);
        result.forward_busy_ns = transfer_ns(orders->graph->cut[to], there->bytes_per_second, 0);
        result.backward_busy_ns = transfer_ns(orders->graph->cut[to], back->bytes_per_second, 0);
        result.forward_latency_ns = there->latency_ns;
        result.backward_latency_ns = back->latency_ns;
    }
    return result;
}

// --- stages as they are ---------------------------------------------------------------------

struct profile *order_view(const struct orders *orders, uint32_t from, uint32_t to, const uint32_t *layers,
                           uint32_t count, struct error *error)
{
    const struct order_graph *graph = orders->graph;
    const uint32_t last = orders->downsets - 1;
    uint32_t *order = malloc((graph->profile->layer_count + 1) * sizeof order[0]);
    struct profile *made = NULL;
    if (order) {
        const uint32_t before = order_graph_layers(graph, 0, from, order);
        memcpy(order + before, layers, count * sizeof layers[0]);
        order_graph_layers(graph, to, last, order + before + count);
        made = profile_reorder(graph->profile, order, error);
    } else {
        error_no_memory(error, "a search");
    }
    free(order);
    return made;
}

uint32_t order_places_before(const struct orders *orders, uint32_t from)
{
    uint32_t before = 0;
    for (uint32_t l = 0; l < orders->graph->profile->layer_count; l++)
        before += downsets_holds(orders->graph->downsets, from, orders->graph->block_of[l]);
    return before;
}

uint64_t order_capacity(const struct orders *orders, uint32_t stage)
{
    const struct placement *placement = orders->coupled->placement;
    uint64_t least = UINT64_MAX;
    for (uint32_t copy = 0; copy < placement_copies(placement, stage); copy++) {
        const uint32_t rank = placement_rank(placement, stage, copy);
        const uint64_t bytes = orders->request->cluster->devices[rank].memory_bytes;
        least = bytes < least ? bytes : least;
    }
    return least;
}

static bool price_as_it_is(struct orders *orders, struct order_stage *of, struct error *error)
{
    const struct coupled *coupled = orders->coupled;
    uint32_t *layers = malloc((orders->graph->profile->layer_count + 1) * sizeof layers[0]);
    if (!layers)
        return error_no_memory(error, "a search");
    of->layer_count = order_graph_layers(orders->graph, of->from, of->to, layers);
    struct profile *profile = order_view(orders, of->from, of->to, layers, of->layer_count, error);
    free(layers);
    if (!profile)
        return false;
    const uint32_t first = order_places_before(orders, of->from);
    const struct stage_bytes bytes = stage_bytes_of_split(
        stage_bytes_of(profile, first, first + of->layer_count, NULL, 0, &orders->request->holding),
        coupled->order->splits);
    of->workspace_bytes = bytes.transient;
    of->bytes = stage_memory_of(&bytes, &coupled->slots[of->stage]).peak_bytes - bytes.transient;
    of->fits_as_it_is = add_clamped(of->bytes, of->workspace_bytes) <= order_capacity(orders, of->stage);
    profile_free(profile);
    return true;
}

struct order_stage *order_stage_of(struct orders *orders, uint32_t stage, uint32_t from, uint32_t to,
                                   struct error *error)
{
    struct order_stage *made = stage_table_get(&orders->known, stage, from, to);
    if (made)
        return made;
    made = calloc(1, sizeof *made);
    if (!made || !stage_table_add(&orders->known, stage, from, to, made)) {
        free(made);
        error_no_memory(error, "a search");
        return NULL;
    }
    *made = (struct order_stage){ .stage = stage, .from = from, .to = to };
    orders->coupled->work += 4 + orders->graph->profile->layer_count / 4;
    return price_as_it_is(orders, made, error) ? made : NULL;
}

// --- ways to recompute ------------------------------------------------------------------------

// All orders of a stage's layers, one after the other.
struct enumeration {
    struct orders *orders;
    struct order_stage *of;
    uint32_t *layers;   // of the stage, ascending
    bool *is_placed;    // of them
    uint32_t *order;    // so far
    uint32_t tried;
    bool cut;           // not all were tried
    enum recompute_wanted wanted;
    struct error *error;
};

// Whether one choice is all that can be asked for: nothing recomputed, where less time is all that counts.
static bool is_enough(const struct enumeration *all)
{
    return all->wanted == RECOMPUTE_LEAST && all->of->count > 0 && all->of->at[0].forward_ns == 0;
}

// Whether the stage has a choice already that is as good.
static bool is_known(const struct enumeration *all, const struct recompute_choice *choice)
{
    const bool any_time = all->wanted == RECOMPUTE_LEAST || all->wanted == RECOMPUTE_FRONT;
    const bool any_bytes = all->wanted == RECOMPUTE_LEAST || all->wanted == RECOMPUTE_EVERY;
    for (size_t i = 0; i < all->of->count; i++) {
        const struct order_choice *other = &all->of->at[i];
        const bool in_time =
            any_time ? other->forward_ns <= choice->forward_ns : other->forward_ns == choice->forward_ns;
        if (in_time
            && (any_bytes || (other->bytes <= choice->bytes && other->workspace_bytes <= choice->workspace_bytes)))
            return true;
    }
    return false;
}

static void clear_choice(struct order_choice *choice)
{
    free(choice->layers);
    free(choice->segments);
}

static bool add_choice(struct enumeration *all, const struct recompute_choice *choice, uint32_t first)
{
    struct order_stage *of = all->of;
    struct order_choice *grown = realloc(of->at, (of->count + 1) * sizeof *grown);
    if (!grown)
        return error_no_memory(all->error, "a search");
    of->at = grown;
    struct order_choice made = {
        choice->forward_ns, choice->bytes, choice->workspace_bytes, NULL, NULL, choice->count
    };
    made.layers = malloc((of->layer_count + 1) * sizeof made.layers[0]);
    made.segments = malloc((choice->count + 1) * sizeof made.segments[0]);
    if (!made.layers || !made.segments) {
        clear_choice(&made);
        return error_no_memory(all->error, "a search");
    }
    memcpy(made.layers, all->order, of->layer_count * sizeof made.layers[0]);
    for (size_t i = 0; i < choice->count; i++)
        made.segments[i] = (struct segment){ choice->segments[i].first - first, choice->segments[i].end - first };
    // Ascending in time.
    size_t at = of->count++;
    for (; at > 0 && of->at[at - 1].forward_ns > made.forward_ns; at--)
        of->at[at] = of->at[at - 1];
    of->at[at] = made;
    return true;
}

static bool try_order(struct enumeration *all)
{
    struct orders *orders = all->orders;
    struct order_stage *of = all->of;
    struct coupled *coupled = orders->coupled;
    const uint32_t first = order_places_before(orders, of->from);
    struct profile *profile = order_view(orders, of->from, of->to, all->order, of->layer_count, all->error);
    struct intervals *intervals = profile ? intervals_create(profile, &orders->request->holding, all->error) : NULL;
    struct recompute_list list = { 0 };
    uint64_t made = 0;
    bool good = intervals != NULL;
    if (good) {
        intervals->splits = coupled->order->splits;
        good = recompute_search(intervals, first, first + of->layer_count, &coupled->slots[of->stage],
                                order_capacity(orders, of->stage), all->wanted, MOST_LABELS, &made, &list, all->error);
        all->cut |= !list.complete;
    }
    for (size_t i = 0; good && i < list.count; i++)
        if (!is_known(all, &list.at[i]))
            good = add_choice(all, &list.at[i], first);
    recompute_list_clear(&list);
    intervals_free(intervals);
    profile_free(profile);
    coupled->work += 8 + orders->graph->profile->layer_count / 2 + made / 8;
    all->tried++;
    return good;
}

static bool is_ready(const struct enumeration *all, uint32_t index)
{
    const struct profile *profile = all->orders->graph->profile;
    for (size_t e = 0; e < profile->edge_count; e++)
        if (profile->edges[e].to == all->layers[index])
            for (uint32_t i = 0; i < index; i++)
                if (all->layers[i] == profile->edges[e].from && !all->is_placed[i])
                    return false;
    return true;
}

static bool try_orders(struct enumeration *all, uint32_t placed)
{
    if (is_enough(all) || all->cut)
        return true;
    const uint32_t most = all->orders->graph->is_reduced ? FEW_ORDERS : MOST_ORDERS;
    if (all->tried == most || (all->tried > 0 && coupled_must_stop(all->orders->coupled))) {
        all->cut = true;
        return true;
    }
    if (placed == all->of->layer_count)
        return try_order(all);
    for (uint32_t i = 0; i < all->of->layer_count; i++) {
        if (all->is_placed[i] || !is_ready(all, i))
            continue;
        all->is_placed[i] = true;
        all->order[placed] = all->layers[i];
        if (!try_orders(all, placed + 1))
            return false;
        all->is_placed[i] = false;
    }
    return true;
}

static enum recompute_wanted wanted(const struct orders *orders)
{
    if (orders->shares_ranks)
        return orders->coupled->is_monotone ? RECOMPUTE_FRONT : RECOMPUTE_EVERY_FRONT;
    return orders->coupled->is_monotone ? RECOMPUTE_LEAST : RECOMPUTE_EVERY;
}

// Where layers were put to others, what would fit without that is not known.
static void know_least(struct enumeration *all)
{
    struct order_stage *of = all->of;
    const uint64_t floor = order_recompute_ns(all->orders, of->stage, of->from, of->to);
    of->complete = !all->cut && !all->orders->graph->is_reduced;
    if (of->complete)
        of->least_ns = of->count > 0 ? of->at[0].forward_ns : NO_ORDER;
    else
        of->least_ns = floor > of->least_ns ? floor : of->least_ns;
}

struct order_stage *order_front(struct orders *orders, uint32_t stage, uint32_t from, uint32_t to, struct error *error)
{
    struct order_stage *of = order_stage_of(orders, stage, from, to, error);
    if (!of || of->has_front)
        return of;
    struct enumeration all = { .orders = orders, .of = of, .wanted = wanted(orders), .error = error };
    all.layers = malloc((orders->graph->profile->layer_count + 1) * sizeof all.layers[0]);
    all.order = malloc((of->layer_count + (size_t)1) * sizeof all.order[0]);
    all.is_placed = calloc(of->layer_count + (size_t)1, sizeof all.is_placed[0]);
    bool good = all.layers && all.order && all.is_placed, done = false;
    if (good) {
        order_graph_layers(orders->graph, from, to, all.layers);
        good = order_quickest(orders, of, all.layers, &done, error) && (done || try_orders(&all, 0));
    } else {
        error_no_memory(error, "a search");
    }
    if (!done)
        know_least(&all);
    of->has_front = true;
    free(all.layers);
    free(all.order);
    free(all.is_placed);
    return good ? of : NULL;
}
