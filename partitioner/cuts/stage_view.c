// The costs of layers as a stage of some variant, with some number of copies. The costs are running totals over the
// places, so that what lies between any two places is one subtraction.
#include <stdlib.h>
#include <string.h>

#include "common/ascending.h"
#include "partitioner/cost/variant.h"
#include "partitioner/cuts/cut_parts.h"
#include "partitioner/search/search_request.h"

static bool is_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

// The first stage with the same variant and as many copies.
static uint32_t first_alike(const struct cut_problem *problem, uint32_t stage)
{
    const struct placement *placement = problem->schedule.placement;
    uint32_t first = 0;
    while (!is_same(cut_variant(problem, first), cut_variant(problem, stage))
           || placement_copies(placement, first) != placement_copies(placement, stage))
        first++;
    return first;
}

// Chooses prices of a byte at which some layer costs as much kept as recomputed, spread evenly over the layers.
static bool choose_prices(struct stage_view *view, struct error *error)
{
    const size_t layers = view->profile->layer_count;
    double *all = malloc((layers + 1) * sizeof all[0]);
    size_t count = 0;
    if (!all)
        return error_no_memory(error, "a search");
    for (size_t l = 0; l < layers; l++) {
        const uint64_t kept = view->intervals->memory[l].kept, again = profile_recompute_ns(&view->profile->layers[l]);
        if (kept > 0 && again > 0)
            all[count++] = (double)again / (double)kept;
    }
    qsort(all, count, sizeof all[0], ascending_doubles);
    for (size_t k = 0; k < VIEW_PRICES && count > 0; k++)
        view->price[k] = all[(2 * k + 1) * count / (2 * VIEW_PRICES)];
    free(all);
    return true;
}

// No other cuts are tried than in front of the layers that read what is exchanged. Changes the times of these.
static void find_exchanges(const struct cut_problem *problem, uint32_t stage, struct stage_view *view)
{
    const struct search_request *request = problem->request;
    const uint32_t layers = (uint32_t)request->profile->layer_count, cut = search_exchange_cut(request);
    const char *variant = cut_variant(problem, stage);
    view->exchange_ns[cut] = variant_exchange(view->profile, variant, cut, layers);
    for (uint32_t l = 1; search_has_segments(request) && l < layers; l++)
        if (profile_layer_reads_rows(&request->profile->layers[l]))
            view->exchange_ns[l] = variant_exchange(view->profile, variant, l, l + 1);
}

static bool create_view(struct cut_problem *problem, uint32_t stage, struct stage_view *view, struct error *error)
{
    const struct search_request *request = problem->request;
    const size_t layers = request->profile->layer_count;
    view->exchange_ns = arrays_add(&problem->arrays, layers + 1, sizeof view->exchange_ns[0]);
    view->apart = arrays_add(&problem->arrays, layers, sizeof view->apart[0]);
    view->counted = arrays_add(&problem->arrays, layers, sizeof view->counted[0]);
    if (problem->arrays.failed)
        return error_no_memory(error, "a search");
    view->profile = variant_of(request->profile, cut_variant(problem, stage), error);
    if (!view->profile)
        return false;
    find_exchanges(problem, stage, view);
    view->intervals = intervals_create(view->profile, &request->storage, error);
    if (!view->intervals)
        return false;
    view->intervals->splits = problem->schedule.order->splits;
    view->intervals->replicas = placement_copies(problem->schedule.placement, stage);
    return choose_prices(view, error);
}

bool stage_views_create(struct cut_problem *problem, struct error *error)
{
    problem->views = arrays_add(&problem->arrays, problem->stages, sizeof problem->views[0]);
    problem->view_of = arrays_add(&problem->arrays, problem->stages, sizeof problem->view_of[0]);
    if (problem->arrays.failed)
        return error_no_memory(error, "a search");
    for (uint32_t s = 0; s < problem->stages; s++) {
        const uint32_t alike = first_alike(problem, s);
        problem->view_of[s] = alike == s ? problem->view_count++ : problem->view_of[alike];
        if (alike == s && !create_view(problem, s, &problem->views[problem->view_of[s]], error))
            return false;
    }
    return true;
}

void stage_views_free(struct cut_problem *problem)
{
    for (uint32_t v = 0; problem->views && v < problem->view_count; v++) {
        struct stage_view *view = &problem->views[v];
        intervals_free(view->intervals);
        variant_free(view->profile);
        for (size_t sum = 0; sum < VIEW_SUMS; sum++)
            free(view->sums[sum]);
        free(view->cut_bytes);
    }
}

// --- sums ---------------------------------------------------------------------------------

static bool grow(struct stage_view *view, uint32_t count)
{
    if (count <= view->capacity)
        return true;
    const uint32_t capacity = count + view->capacity;
    for (size_t sum = 0; sum <= VIEW_SUMS; sum++) {
        uint64_t **table = sum < VIEW_SUMS ? &view->sums[sum] : &view->cut_bytes;
        uint64_t *grown = realloc(*table, capacity * sizeof grown[0]);
        if (!grown)
            return false;
        *table = grown;
    }
    view->capacity = capacity;
    return true;
}

// The part of a sum that a layer adds.
static uint64_t part_of(const struct stage_view *view, enum view_sum sum, uint32_t layer)
{
    const struct profile_layer *profiled = &view->profile->layers[layer];
    const struct intervals *intervals = view->intervals;
    const struct layer_memory *memory = &intervals->memory[layer];
    switch (sum) {
    case SUM_FORWARD: return profiled->forward_ns;
    case SUM_BACKWARD: return profiled->backward_ns;
    case SUM_INPUT: return profiled->backward_input_ns;
    case SUM_WEIGHT: return profiled->backward_weight_ns;
    case SUM_AGAIN: return profile_recompute_ns(profiled);
    case SUM_WITH_WEIGHTS: return memory->weights > 0;
    case SUM_WEIGHTS: return memory->weights;
    case SUM_OPTIMIZER: return intervals->before[layer + 1].optimizer - intervals->before[layer].optimizer;
    case SUM_GRADIENTS: return interval_gradients(intervals, layer, layer + 1, intervals->replicas);
    case SUM_REDUCED: return interval_reduced(intervals, layer, layer + 1, intervals->replicas);
    case SUM_SAVED: return memory->kept;
    case SUM_SHARED_BY_PARTS: return memory->shared_by_parts;
    case SUM_HELD: return memory->held;
    case SUM_STATE: return memory->state;
    case SUM_STATISTICS: return memory->statistics;
    case SUM_UPDATE: return profiled->update_ns;
    case SUM_OUTPUTS: return layer_workspace(memory, memory->output);
    default: break;
    }
    const double kept = view->price[sum - SUM_PRICES] * (double)memory->kept;
    const uint64_t again = profile_recompute_ns(profiled);
    return kept < (double)again ? (uint64_t)kept : again;
}

// Whether a tensor that is made in the place is read behind it.
static bool crosses(const struct places *places, const struct intervals *intervals, uint32_t place, uint32_t layer)
{
    bool crosses = false;
    for (uint32_t i = intervals->reader_at[layer]; i < intervals->reader_at[layer + 1] && !crosses; i++)
        crosses = places_holds(places, place, layer) && !places_holds(places, place, intervals->readers[i]);
    return crosses;
}

static void sum_layer(struct stage_view *view, uint32_t place, uint32_t layer, bool adds)
{
    for (size_t sum = 0; sum < VIEW_SUMS; sum++) {
        const uint64_t part = part_of(view, (enum view_sum)sum, layer);
        view->sums[sum][place] += adds ? part : -part;
    }
}

// In one order, a place has all layers of the place before it.
static void sum_chain(struct stage_view *view, const struct places *places, uint32_t place)
{
    for (size_t sum = 0; sum < VIEW_SUMS; sum++)
        view->sums[sum][place] = place > 0 ? view->sums[sum][place - 1] : 0;
    for (uint32_t l = place > 0 ? places->first_of[place - 1] : 0; l < places->first_of[place]; l++)
        sum_layer(view, place, l, true);
    view->cut_bytes[place] = view->intervals->cut[places->first_of[place]];
}

// Counts a tensor anew, once, if it may cross one of the two places and not the other.
static void recount(struct stage_view *view, const struct places *places, uint32_t place, uint32_t near, uint32_t layer)
{
    if (view->counted[layer] == place)
        return;
    view->counted[layer] = place;
    const uint64_t output = view->intervals->memory[layer].output;
    view->cut_bytes[place] -= crosses(places, view->intervals, near, layer) ? output : 0;
    view->cut_bytes[place] += crosses(places, view->intervals, place, layer) ? output : 0;
}

// In a graph, places that were added one after the other differ by few layers. Whether a tensor crosses changes only
// for these layers, and for those they read.
static void sum_graph(struct stage_view *view, const struct places *places, uint32_t place)
{
    const struct intervals *intervals = view->intervals;
    const uint32_t near = place > 0 ? place - 1 : 0;  // the empty place is the first
    for (size_t sum = 0; sum < VIEW_SUMS; sum++)
        view->sums[sum][place] = place > 0 ? view->sums[sum][near] : 0;
    view->cut_bytes[place] = place > 0 ? view->cut_bytes[near] : 0;
    const uint32_t count = places_apart(places, place, near, view->apart);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t layer = view->apart[i];
        sum_layer(view, place, layer, places_holds(places, place, layer));
        recount(view, places, place, near, layer);
        for (uint32_t k = intervals->source_at[layer]; k < intervals->source_at[layer + 1]; k++)
            recount(view, places, place, near, intervals->sources[k]);
    }
}

bool cut_problem_see_places(struct cut_problem *problem, struct error *error)
{
    for (uint32_t v = 0; v < problem->view_count; v++) {
        struct stage_view *view = &problem->views[v];
        if (!grow(view, problem->places->count))
            return error_no_memory(error, "a search");
        for (; view->known < problem->places->count; view->known++) {
            if (problem->places->is_chain)
                sum_chain(view, problem->places, view->known);
            else
                sum_graph(view, problem->places, view->known);
        }
    }
    return true;
}
