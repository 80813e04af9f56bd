#include "partitioner/cuts/cut_problem.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/cost/window_cost.h"
#include "partitioner/cuts/cut_parts.h"
#include "partitioner/cuts/stage_memo.h"
#include "partitioner/cuts/stage_price.h"
#include "partitioner/search/search_request.h"
#include "schedules/lower.h"

// --- the clock ----------------------------------------------------------------------------

// The network for bounds if several channels may meet on a link. Bytes cost nothing: only the latency is certain.
static struct network *least_network(const struct cut_problem *problem, struct error *error)
{
    const struct network *network = problem->devices.network;
    struct network *least = network_uniform(network->ranks, (struct link){ 0 }, error);
    for (uint32_t pair = 0; least && pair < network->ranks * network->ranks; pair++) {
        const uint32_t link = network->link_of[pair];
        least->link_of[pair] = link;
        least->links[link] = network->links[link];
        least->links[link].bytes_per_second = 0;
    }
    return least;
}

// Simulates an asynchronous run of so many micro-batches.
static struct simulator *make_simulator(struct cut_problem *problem, uint32_t micro_batches,
                                        const struct network *network, struct error *error)
{
    struct schedule *order = search_order(problem->request, micro_batches, error);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    struct simulator *simulator = lowered ? simulator_create(lowered, network, error) : NULL;
    problem->clock.actions += order ? schedule_action_count(order) : 0;
    schedule_free(lowered);
    schedule_free(order);
    return simulator;
}

static bool make_clock(struct cut_problem *problem, struct error *error)
{
    const uint32_t m = problem->request->micro_batches;
    const struct network *network = problem->devices.network;
    struct cut_clock *clock = &problem->clock;
    clock->rows = arrays_add(&problem->arrays, problem->stages, sizeof clock->rows[0]);
    if (problem->schedule.pattern.is_known)
        clock->room = arrays_keep(&problem->arrays, pattern_room_create(problem->ranks, m, error));
    if (problem->arrays.failed)
        return error_no_memory(error, "a search");
    if (!problem->schedule.flushes) {
        clock->simulators[0] = make_simulator(problem, 3 * m, network, error);
        clock->simulators[1] = clock->simulators[0] ? make_simulator(problem, 2 * m, network, error) : NULL;
        return clock->simulators[1] != NULL;
    }
    clock->simulators[0] = simulator_create(problem->schedule.lowered, network, error);
    if (!clock->simulators[0])
        return false;
    clock->actions = schedule_action_count(problem->schedule.order);
    struct network *least = problem->devices.links_unshared ? NULL : least_network(problem, error);
    clock->bounding = least ? simulator_create(problem->schedule.lowered, least, error)
                    : problem->devices.links_unshared ? clock->simulators[0] : NULL;
    network_free(least);
    return clock->bounding != NULL;
}

// Checks that every sum of times stays below 2^61.
static bool check_times(const struct cut_problem *problem, struct error *error)
{
    unsigned __int128 round = 0;
    uint64_t slowest = 1000, most = 0, bytes = 0;
    const struct network *network = problem->devices.network;
    for (uint32_t s = 0; s < problem->stages; s++)
        slowest = problem->devices.speed[s] < slowest ? problem->devices.speed[s] : slowest;
    for (uint32_t l = 0; l < problem->places->layers; l++)
        bytes = add_clamped(bytes, problem->views[0].intervals->memory[l].output);
    for (uint32_t link = 0; link < network->link_count; link++) {
        const uint64_t way = transfer_ns(bytes, network->links[link].bytes_per_second, network->links[link].latency_ns);
        most = way > most ? way : most;
    }
    for (uint32_t v = 0; v < problem->view_count; v++) {
        uint64_t *const *sums = problem->views[v].sums;
        const uint32_t full = problem->places->full;
        const unsigned __int128 stage_round = (unsigned __int128)2 * sums[SUM_FORWARD][full] + sums[SUM_BACKWARD][full]
            + sums[SUM_INPUT][full] + sums[SUM_WEIGHT][full];
        round = stage_round > round ? stage_round : round;
    }
    round = round * 1000 / slowest + (unsigned __int128)2 * problem->stages * most;
    if (round * 3 * (problem->request->micro_batches + (unsigned __int128)problem->stages) >> 61)
        return error_set(error, "an iteration of this model would take more than 2^61 ns");
    return true;
}

// --- the whole ----------------------------------------------------------------------------

static bool find_partial(struct cut_problem *problem, bool is_whole)
{
    problem->is_partial = problem->places && !(is_whole && problem->places->is_complete);
    return problem->places != NULL;
}

static bool find_places(struct cut_problem *problem, enum cut_orders orders, struct error *error)
{
    const struct search_request *request = problem->request;
    // The cost of tied layers apart depends on the order of the layers.
    const bool is_graph =
        orders == CUT_ALL_ORDERS && !request->storage.tied_apart && request->profile->one_owner_count == 0;
    if (is_graph)
        problem->places = places_of_graph(request->profile, true, CUT_MOST_PLACES, error);
    if (is_graph && (!problem->places || problem->places->blocks >= problem->stages))
        return find_partial(problem, true);
    bool *can_cut = search_cuts(request, problem->stages, error);
    if (!is_graph && can_cut && search_check_pins(request, can_cut, problem->stages, error))
        problem->places = places_of_order(request->profile, can_cut, error);
    else if (is_graph && can_cut)
        error_set_kind(error, ERROR_ANSWER, "the model can be cut into %u stages at most", problem->places->blocks);
    free(can_cut);
    return error->kind == ERROR_NONE && find_partial(problem, orders == CUT_OWN_ORDER);
}

// Stages are alike if they have the same view and the same slots on as much memory.
static bool find_alike(struct cut_problem *problem, struct error *error)
{
    const struct slots *slots = problem->schedule.slots;
    problem->alike = arrays_add(&problem->arrays, problem->stages, sizeof problem->alike[0]);
    if (!problem->alike)
        return error_no_memory(error, "a search");
    for (uint32_t s = 0; s < problem->stages; s++) {
        uint32_t *alike = &problem->alike[s];
        while (problem->view_of[*alike] != problem->view_of[s]
               || cut_capacity(problem, *alike) != cut_capacity(problem, s)
               || memcmp(&slots[*alike], &slots[s], sizeof slots[0]) != 0)
            ++*alike;
    }
    return true;
}

// Makes bounds by prices of memory, over intervals of one order. They hold for stages that have their ranks to
// themselves and keep whole tensors.
static bool make_floors(struct cut_problem *problem, struct error *error)
{
    enum { MOST_ROWS = 1 << 22 };
    if (problem->request->units)  // what is recomputed is known
        return true;
    if (!problem->places->is_chain || !problem->schedule.is_alone || problem->view_count > 1
        || problem->schedule.order->splits > 1 || problem->request->storage.activations_on_host)
        return true;
    uint64_t *capacities = malloc(problem->stages * sizeof capacities[0]);
    if (!capacities)
        return error_no_memory(error, "a search");
    for (uint32_t s = 0; s < problem->stages; s++)
        capacities[s] = cut_capacity(problem, s);
    problem->floors = recompute_bounds_create(problem->views[0].intervals, problem->schedule.slots, capacities,
                                              problem->stages, error);
    free(capacities);
    if (problem->floors && (uint64_t)problem->stages * problem->places->count <= MOST_ROWS)
        problem->known_floors = stage_memo_create(problem, error);
    return error->kind == ERROR_NONE;
}

struct cut_problem *cut_problem_create(const struct search_request *request, enum cut_orders orders,
                                       struct search_context *context, struct error *error)
{
    struct cut_problem *problem = calloc(1, sizeof *problem);
    if (!problem)
        return error_null(error_no_memory(error, "a search"));
    problem->request = request;
    problem->context = context;
    if (cut_schedule_create(problem, error) && find_places(problem, orders, error)
        && stage_views_create(problem, error) && cut_problem_see_places(problem, error)
        && cut_devices_create(problem, error) && find_alike(problem, error) && make_floors(problem, error)
        && check_times(problem, error)
        && cut_schedule_read_pattern(problem, error) && make_clock(problem, error)) {
        problem->is_monotone = problem->schedule.flushes && problem->devices.links_unshared;
        return problem;
    }
    cut_problem_free(problem);
    return NULL;
}

void cut_problem_free(struct cut_problem *problem)
{
    if (!problem)
        return;
    stage_prices_clear(&problem->narrow);
    stage_prices_clear(&problem->exact);
    simulator_free(problem->clock.simulators[0]);
    simulator_free(problem->clock.simulators[1]);
    if (problem->clock.bounding != problem->clock.simulators[0])
        simulator_free(problem->clock.bounding);
    free(problem->devices.among);
    network_free(problem->devices.own_network);
    stage_memo_free(problem->known_floors);
    recompute_bounds_free(problem->floors);  // they refer to the views
    stage_views_free(problem);
    places_free(problem->places);
    cut_schedule_clear(&problem->schedule);
    arrays_clear(&problem->arrays);
    free(problem);
}

bool cut_may_end(const struct cut_problem *problem, uint32_t stage, uint32_t place)
{
    if ((place == problem->places->full) != (stage + 1 == problem->stages))
        return false;
    return (problem->request->pinned.count == 0 && !search_has_segments(problem->request))
        || search_may_begin(problem->request, stage + 1, places_size(problem->places, place));
}

// --- what stages take ---------------------------------------------------------------------

static struct stage_states states_of(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct places *places = problem->places;
    if (places->is_chain)
        return interval_states(problem->views[problem->view_of[stage]].intervals, places->first_of[from],
                               places->first_of[to]);
    return (struct stage_states){ .layers = places_size(places, to) - places_size(places, from),
                                  .with_weights = (uint32_t)cut_sum(problem, stage, SUM_WITH_WEIGHTS, from, to),
                                  .weights = cut_sum(problem, stage, SUM_WEIGHTS, from, to),
                                  .optimizer = cut_sum(problem, stage, SUM_OPTIMIZER, from, to),
                                  .update_ns = cut_sum(problem, stage, SUM_UPDATE, from, to) };
}

// The same as predict_reduce_ns().
static uint64_t reduce_ns(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                          uint64_t weights)
{
    const struct cut_devices *devices = &problem->devices;
    const uint32_t copies = placement_copies(problem->schedule.placement, stage);
    const uint64_t own = cut_sum(problem, stage, SUM_WEIGHTS, from, to);
    const uint64_t reduced = weights - own + cut_sum(problem, stage, SUM_REDUCED, from, to);
    uint64_t slowest = 0;
    for (uint32_t i = devices->among_at[stage]; i < devices->among_at[stage + 1]; i++) {
        const uint64_t ns = storage_reduce_ns(&problem->request->storage, copies, reduced, devices->among[i]);
        slowest = ns > slowest ? ns : slowest;
    }
    return slowest;
}

static void add_window(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                       const struct stage_states *states, struct cost_row *row)
{
    const struct intervals *intervals = problem->views[problem->view_of[stage]].intervals;
    const struct places *places = problem->places;
    const struct stage_place *place = &problem->devices.places[stage];
    struct stage_place here = *place;
    here.speed_permille = problem->devices.speed[stage];
    if (places->is_chain && window_overlaps(&intervals->storage, intervals->profile, row))
        window_add_overlapping(&intervals->storage, &here, intervals->profile, places->first_of[from],
                               places->first_of[to], row);
    else
        window_add_in_turn(&intervals->storage, place, states, row);
}

struct cost_row cut_row(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                        uint64_t recompute_ns)
{
    const struct stage_view *view = &problem->views[problem->view_of[stage]];
    const uint64_t speed = problem->devices.speed[stage];
    const struct stage_states states = states_of(problem, stage, from, to);
    struct cost_row row = {
        .forward_ns = stage_scaled_ns(view->sums[SUM_FORWARD][to] - view->sums[SUM_FORWARD][from], speed),
        .backward_ns = stage_scaled_ns(view->sums[SUM_BACKWARD][to] - view->sums[SUM_BACKWARD][from], speed),
        .backward_input_ns = stage_scaled_ns(view->sums[SUM_INPUT][to] - view->sums[SUM_INPUT][from], speed),
        .backward_weight_ns = stage_scaled_ns(view->sums[SUM_WEIGHT][to] - view->sums[SUM_WEIGHT][from], speed),
        .recompute_ns = stage_scaled_ns(recompute_ns, speed),
        .reduce_ns = reduce_ns(problem, stage, from, to, states.weights),
        .exchange_ns = stage + 1 < problem->stages ? problem->views[problem->view_of[stage + 1]]
                                                         .exchange_ns[places_size(problem->places, to)] : 0,
        .output_bytes = view->cut_bytes[to],
    };
    storage_add_times(&view->intervals->storage, &problem->devices.places[stage], &states, &row);
    if (storage_moves_layers(&view->intervals->storage, problem->devices.places[stage].replicas, states.layers))
        add_window(problem, stage, from, to, &states, &row);
    return row;
}

struct pattern_stage cut_pattern_stage(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                                       uint64_t recompute_ns)
{
    const struct cost_row row = cut_row(problem, stage, from, to, recompute_ns);
    struct pattern_stage result = { .forward_ns = row.forward_ns, .backward_ns = row.backward_ns + row.recompute_ns };
    if (problem->schedule.pattern.is_known && stage + 1 < problem->stages) {
        const struct link *there = network_link(problem->devices.network, stage, stage + 1);
        const struct link *back = network_link(problem->devices.network, stage + 1, stage);
        result.forward_busy_ns = transfer_ns(row.output_bytes, there->bytes_per_second, 0);
        result.backward_busy_ns = transfer_ns(row.output_bytes, back->bytes_per_second, 0);
        result.forward_latency_ns = there->latency_ns;
        result.backward_latency_ns = back->latency_ns;
    }
    return result;
}

uint64_t cut_busy_ns(const struct cut_problem *problem, uint32_t index, uint32_t from, uint32_t to,
                     uint64_t recompute_ns)
{
    const struct rank_work *work = &problem->schedule.work_of[index];
    const uint32_t s = work->stage;
    const uint64_t ns = work->forwards * cut_sum(problem, s, SUM_FORWARD, from, to)
        + work->backwards * (cut_sum(problem, s, SUM_BACKWARD, from, to) + recompute_ns)
        + work->inputs * (cut_sum(problem, s, SUM_INPUT, from, to) + recompute_ns)
        + work->weights * cut_sum(problem, s, SUM_WEIGHT, from, to);
    return stage_scaled_ns(ns, problem->devices.speed[s]);
}

uint64_t cut_stage_busy_ns(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                           uint64_t recompute_ns)
{
    return cut_busy_ns(problem, problem->schedule.busiest[stage], from, to, recompute_ns);
}

uint64_t cut_capacity(const struct cut_problem *problem, uint32_t stage)
{
    // All ranks that hold a stage hold the same stages. Their least memory is stored with the first of them.
    const uint32_t rank = placement_rank(problem->schedule.placement, stage, 0);
    return problem->devices.capacity[problem->schedule.leader[rank]];
}
