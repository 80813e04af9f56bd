#include "partitioner/coupled/coupled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "partitioner/predict.h"
#include "partitioner/search/search_request.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"

// --- what the schedule does -----------------------------------------------------------

static void count_work(struct coupled *coupled)
{
    for (uint32_t r = 0; r < coupled->ranks; r++) {
        const struct action_list *list = &coupled->order->lists[r];
        for (uint32_t at = coupled->placement->stage_at[r]; at < coupled->placement->stage_at[r + 1]; at++) {
            struct coupled_work *work = &coupled->work_of[at];
            work->stage = coupled->placement->held[at];
            for (const struct action *action = list->at; action < list_end(list); action++) {
                if (action->stage != work->stage || action->split > 0)
                    continue;
                work->forwards += action->kind == ACTION_F;
                work->backwards += action->kind == ACTION_B;
                work->inputs += action->kind == ACTION_I;
                work->weights += action->kind == ACTION_W;
            }
        }
    }
}

uint64_t coupled_busy_ns(const struct coupled *coupled, uint32_t at, uint32_t first, uint32_t end,
                         uint64_t recompute_ns)
{
    const struct coupled_work *work = &coupled->work_of[at];
    const struct intervals *intervals = coupled->intervals[work->stage];
    const uint64_t ns = work->forwards * interval_forward_ns(intervals, first, end)
        + work->backwards * (interval_backward_ns(intervals, first, end) + recompute_ns)
        + work->inputs * (interval_backward_input_ns(intervals, first, end) + recompute_ns)
        + work->weights * interval_backward_weight_ns(intervals, first, end);
    return stage_scaled_ns(ns, coupled->speed[work->stage]);
}

// --- creation -------------------------------------------------------------------------

static bool allocate(struct coupled *coupled, struct error *error)
{
    const size_t held = coupled->placement->stage_at[coupled->ranks];
    coupled->work_of = calloc(held + 1, sizeof coupled->work_of[0]);
    coupled->leader = calloc(coupled->ranks, sizeof coupled->leader[0]);
    coupled->speed = calloc(coupled->stages, sizeof coupled->speed[0]);
    coupled->capacity = calloc(coupled->ranks, sizeof coupled->capacity[0]);
    coupled->rows = calloc(coupled->stages, sizeof coupled->rows[0]);
    return (coupled->work_of && coupled->leader && coupled->speed && coupled->capacity && coupled->rows)
        || error_no_memory(error, "a search");
}

static bool hold_the_same(const struct placement *placement, uint32_t a, uint32_t b)
{
    const uint32_t count = placement->stage_at[a + 1] - placement->stage_at[a];
    return count == placement->stage_at[b + 1] - placement->stage_at[b]
        && memcmp(&placement->held[placement->stage_at[a]], &placement->held[placement->stage_at[b]],
                  count * sizeof placement->held[0]) == 0;
}

// Copies recompute alike, so what one rank chooses holds for all that hold its stages.
static bool find_leaders(struct coupled *coupled, struct error *error)
{
    const struct placement *placement = coupled->placement;
    for (uint32_t r = 0; r < coupled->ranks; r++) {
        while (!hold_the_same(placement, coupled->leader[r], r))
            coupled->leader[r]++;
        uint64_t *least = &coupled->capacity[coupled->leader[r]];
        *least = coupled->capacity[r] < *least ? coupled->capacity[r] : *least;
    }
    for (uint32_t s = 0; s < coupled->stages; s++)
        for (uint32_t copy = 1; copy < placement_copies(placement, s); copy++)
            if (coupled->leader[placement_rank(placement, s, copy)] != coupled->leader[placement_rank(placement, s, 0)])
                return error_set(error, "the copies of stage %u of %s have different neighbours on their ranks; such"
                                 " schedules cannot be planned", s, coupled->generator->name);
    return true;
}

// Whether no link carries messages of two channels, from one rank and stage to another.
static bool find_shared_links(struct coupled *coupled, struct error *error)
{
    const struct network *network = coupled->network;
    const struct schedule *order = coupled->order;
    uint64_t *channel_of = calloc(network->link_count, sizeof channel_of[0]);
    if (!channel_of)
        return error_no_memory(error, "a search");
    coupled->links_unshared = true;
    for (uint32_t route = 0; route < order->route_count; route++) {
        for (uint32_t s = 0; s + 1 < order->stages; s++) {
            const uint32_t *ranks = &order->routes[(size_t)route * order->stages + s];
            for (uint32_t back = 0; back < 2 && ranks[0] != ranks[1]; back++) {
                const uint64_t pair = (uint64_t)ranks[back] * network->ranks + ranks[1 - back];
                const uint32_t link = network->link_of[pair];
                const uint64_t channel = 1 + back + 2 * (s + order->stages * pair);
                coupled->links_unshared &= channel_of[link] == 0 || channel_of[link] == channel;
                channel_of[link] = channel;
            }
        }
    }
    free(channel_of);
    return true;
}

// Links on which bytes cost nothing, where several channels may meet: only the
// latency is certain then.
static struct network *least_network(const struct coupled *coupled, struct error *error)
{
    const struct network *network = coupled->network;
    struct network *least = network_uniform(network->ranks, (struct link){ 0 }, error);
    for (uint32_t pair = 0; least && pair < network->ranks * network->ranks; pair++) {
        const uint32_t link = network->link_of[pair];
        least->link_of[pair] = link;
        least->links[link] = network->links[link];
        if (!coupled->links_unshared)
            least->links[link].bytes_per_second = 0;
    }
    return least;
}

static struct simulator *make_simulator(struct coupled *coupled, uint32_t micro_batches, const struct network *network,
                                        struct error *error)
{
    struct schedule *order = search_order(coupled->request, micro_batches, error);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    struct simulator *simulator = lowered ? simulator_create(lowered, network, error) : NULL;
    for (uint32_t r = 0; order && r < order->ranks; r++)
        coupled->actions += order->lists[r].count;
    schedule_free(lowered);
    schedule_free(order);
    return simulator;
}

static bool make_simulators(struct coupled *coupled, struct error *error)
{
    const uint32_t m = coupled->request->micro_batches;
    if (!coupled->flushes) {
        coupled->simulators[0] = make_simulator(coupled, 3 * m, coupled->network, error);
        coupled->simulators[1] = coupled->simulators[0] ? make_simulator(coupled, 2 * m, coupled->network, error) : NULL;
        return coupled->simulators[1] != NULL;
    }
    struct network *least = least_network(coupled, error);
    if (least) {
        coupled->simulators[0] = make_simulator(coupled, m, coupled->network, error);
        coupled->bound_simulator = coupled->simulators[0] ? make_simulator(coupled, m, least, error) : NULL;
        coupled->actions /= 2;
    }
    network_free(least);
    return coupled->bound_simulator != NULL;
}

// Every time the search adds up stays below 2^61.
static bool check_times(const struct coupled *coupled, struct error *error)
{
    unsigned __int128 round = 0;
    uint64_t slowest = 1000, most = 0, bytes = 0;
    for (uint32_t s = 0; s < coupled->stages; s++)
        slowest = coupled->speed[s] < slowest ? coupled->speed[s] : slowest;
    for (uint32_t l = 0; l <= coupled->layers; l++)
        bytes = coupled->intervals[0]->cut[l] > bytes ? coupled->intervals[0]->cut[l] : bytes;
    for (uint32_t link = 0; link < coupled->network->link_count; link++) {
        const struct link *of = &coupled->network->links[link];
        const uint64_t way = transfer_ns(bytes, of->bytes_per_second, of->latency_ns);
        most = way > most ? way : most;
    }
    for (uint32_t s = 0; s < coupled->stages; s++) {
        const struct intervals *intervals = coupled->intervals[s];
        const unsigned __int128 own = (unsigned __int128)2 * intervals->forward[coupled->layers]
            + intervals->backward[coupled->layers] + intervals->backward_input[coupled->layers]
            + intervals->backward_weight[coupled->layers];
        round = own > round ? own : round;
    }
    round = round * 1000 / slowest + (unsigned __int128)2 * coupled->stages * most;
    if (round * 3 * (coupled->request->micro_batches + (unsigned __int128)coupled->stages) >> 61)
        return error_set(error, "an iteration of this model would take more than 2^61 ns");
    return true;
}

static bool fill(struct coupled *coupled, struct error *error)
{
    const struct search_request *request = coupled->request;
    coupled->can_cut = search_cuts(request, coupled->stages, error);
    if (!coupled->can_cut || !search_check_pins(request, coupled->can_cut, coupled->stages, error)
        || !allocate(coupled, error) || !coupled_view(coupled, error) || !coupled_sit(coupled, error))
        return false;
    count_work(coupled);
    if (!find_leaders(coupled, error))
        return false;
    coupled->slots = search_slots(request, error);
    if (!coupled->slots || !check_times(coupled, error) || !find_shared_links(coupled, error)
        || !make_simulators(coupled, error))
        return false;
    coupled->is_monotone = coupled->flushes && coupled->links_unshared;
    coupled->budget = request->budget ? request->budget : SEARCH_DEFAULT_BUDGET;
    coupled->deadline_ns = request->deadline_ns ? clock_now_ns() + request->deadline_ns : 0;
    return true;
}

static bool check_variants(const struct coupled *coupled, struct error *error)
{
    const struct search_request *request = coupled->request;
    return !request->variants || request->stages == coupled->stages
        || error_set(error, "variants are given for %u stages, but %s has %u on %u ranks", request->stages,
                     request->schedule, coupled->stages, coupled->ranks);
}

struct coupled *coupled_create(const struct search_request *request, struct error *error)
{
    const struct generator *generator = generator_find(request->schedule, error);
    struct coupled *coupled = generator ? calloc(1, sizeof *coupled) : NULL;
    if (generator && !coupled)
        error_no_memory(error, "a search");
    if (!coupled)
        return NULL;
    coupled->request = request;
    coupled->generator = generator;
    coupled->flushes = generator->weights == WEIGHTS_FLUSH;
    coupled->order = search_order(request, request->micro_batches, error);
    coupled->placement = coupled->order ? placement_read(coupled->order, error) : NULL;
    if (coupled->placement) {
        coupled->layers = (uint32_t)request->profile->layer_count;
        coupled->stages = coupled->order->stages;
        coupled->ranks = coupled->order->ranks;
        if (check_variants(coupled, error) && fill(coupled, error))
            return coupled;
    }
    coupled_free(coupled);
    return NULL;
}

static void clear_table(struct stage_table *table)
{
    size_t at = 0;
    for (struct coupled_stage *stage; (stage = stage_table_next(table, &at));) {
        recompute_list_clear(&stage->front);
        free(stage);
    }
    stage_table_clear(table);
}

void coupled_free(struct coupled *coupled)
{
    if (!coupled)
        return;
    schedule_free(coupled->order);
    coupled_leave(coupled);
    placement_free(coupled->placement);
    network_free(coupled->own_network);
    simulator_free(coupled->simulators[0]);
    simulator_free(coupled->simulators[1]);
    simulator_free(coupled->bound_simulator);
    clear_table(&coupled->narrow);
    clear_table(&coupled->whole);
    free(coupled->slots);
    free(coupled->can_cut);
    free(coupled->work_of);
    free(coupled->leader);
    free(coupled->places);
    free(coupled->speed);
    free(coupled->capacity);
    free(coupled->rows);
    free(coupled);
}

bool coupled_must_stop(struct coupled *coupled)
{
    const struct search_request *request = coupled->request;
    if (request->progress && coupled->work >= coupled->next_progress) {
        const struct search_progress now = { UINT64_MAX, 0, coupled->work, coupled->budget };
        coupled->next_progress = coupled->work + SEARCH_PROGRESS_WORK;
        request->progress(request->self, &now);
    }
    if (coupled->stopped[0])
        return true;
    if (request->interrupted && *request->interrupted)
        snprintf(coupled->stopped, sizeof coupled->stopped, "interrupted");
    else if (coupled->deadline_ns && clock_now_ns() > coupled->deadline_ns)
        snprintf(coupled->stopped, sizeof coupled->stopped, "the deadline has passed");
    else if (coupled->work > coupled->budget)
        snprintf(coupled->stopped, sizeof coupled->stopped, "the budget of %llu units of work is used up",
                 (unsigned long long)coupled->budget);
    return coupled->stopped[0] != '\0';
}

// --- states ---------------------------------------------------------------------------

bool coupled_state_create(struct coupled_state *state, const struct coupled *coupled, struct error *error)
{
    const size_t stages = coupled->stages;
    *state = (struct coupled_state){ 0 };
    state->decision.cuts = calloc(stages + 1, sizeof state->decision.cuts[0]);
    state->decision.spared = calloc(coupled->ranks, sizeof state->decision.spared[0]);
    state->recompute_ns = calloc(stages, sizeof state->recompute_ns[0]);
    state->choice = calloc(stages, sizeof state->choice[0]);
    state->away = calloc(stages, sizeof state->away[0]);
    state->lacks_bytes = calloc(coupled->ranks, sizeof state->lacks_bytes[0]);
    if (!state->decision.cuts || !state->decision.spared || !state->recompute_ns || !state->choice
        || !state->away || !state->lacks_bytes)
        return error_no_memory(error, "a search");
    for (uint32_t r = 0; r < coupled->ranks; r++)
        state->decision.spared[r] = SPARES_NONE;
    return true;
}

void coupled_state_clear(struct coupled_state *state)
{
    free(state->decision.cuts);
    free(state->decision.spared);
    free(state->recompute_ns);
    free(state->choice);
    free(state->away);
    free(state->lacks_bytes);
    *state = (struct coupled_state){ 0 };
}

void coupled_state_copy(struct coupled_state *to, const struct coupled_state *from, const struct coupled *coupled)
{
    const size_t stages = coupled->stages, ranks = coupled->ranks;
    memcpy(to->decision.cuts, from->decision.cuts, (stages + 1) * sizeof to->decision.cuts[0]);
    memcpy(to->decision.spared, from->decision.spared, ranks * sizeof to->decision.spared[0]);
    memcpy(to->recompute_ns, from->recompute_ns, stages * sizeof to->recompute_ns[0]);
    memcpy(to->choice, from->choice, stages * sizeof to->choice[0]);
    memcpy(to->away, from->away, stages * sizeof to->away[0]);
    memcpy(to->lacks_bytes, from->lacks_bytes, ranks * sizeof to->lacks_bytes[0]);
    to->is_whole = from->is_whole;
    to->host_lacks = from->host_lacks;
    to->most_lacking = from->most_lacking;
    to->value_ns = from->value_ns;
}

bool coupled_is_better(const struct coupled_state *a, const struct coupled_state *b)
{
    if (a->most_lacking != b->most_lacking)
        return a->most_lacking < b->most_lacking;
    return a->most_lacking == 0 && a->value_ns < b->value_ns;
}

// --- what a decision takes ------------------------------------------------------------

struct cost_row coupled_row(const struct coupled *coupled, uint32_t stage, uint32_t first, uint32_t end,
                            uint64_t recompute_ns)
{
    const struct intervals *intervals = coupled->intervals[stage];
    const uint64_t speed = coupled->speed[stage];
    const struct stage_states states = interval_states(intervals, first, end);
    struct cost_row row = {
        .forward_ns = stage_scaled_ns(interval_forward_ns(intervals, first, end), speed),
        .backward_ns = stage_scaled_ns(interval_backward_ns(intervals, first, end), speed),
        .backward_input_ns = stage_scaled_ns(interval_backward_input_ns(intervals, first, end), speed),
        .backward_weight_ns = stage_scaled_ns(interval_backward_weight_ns(intervals, first, end), speed),
        .recompute_ns = stage_scaled_ns(recompute_ns, speed),
        .reduce_ns = predict_reduce_ns(&intervals->holding, coupled->placement, stage, states.weights,
                                       coupled->network),
        .output_bytes = intervals->cut[end],
    };
    holding_add_times(&intervals->holding, &coupled->places[stage], &states, &row);
    return row;
}

// What a stage leaves with its host lengthens its actions, and tied layers apart its STEP.
static void add_to_rows(struct coupled *coupled, const struct coupled_state *state)
{
    const struct search_request *request = coupled->request;
    for (uint32_t s = 0; request->holding.activations_on_host && s < coupled->stages; s++)
        holding_add_moved(&coupled->places[s], state->away[s].moved_bytes, &coupled->rows[s]);
    if (request->holding.tied_apart)
        predict_add_tied(request->profile, &request->holding, coupled->placement, coupled->network, state->decision.cuts,
                         coupled->rows);
}

uint64_t coupled_time(struct coupled *coupled, const struct coupled_state *state)
{
    const uint32_t *cuts = state->decision.cuts;
    for (uint32_t s = 0; s < coupled->stages; s++)
        coupled->rows[s] = coupled_row(coupled, s, cuts[s], cuts[s + 1], state->recompute_ns[s]);
    add_to_rows(coupled, state);
    coupled->work += 1 + coupled->actions / 32;
    uint64_t value = simulator_iteration_ns(coupled->simulators[0], coupled->rows);
    if (coupled->simulators[1])
        value -= simulator_iteration_ns(coupled->simulators[1], coupled->rows);
    return value;
}

uint64_t coupled_host_lacks(const struct coupled *coupled, const struct coupled_state *state)
{
    const struct cluster *cluster = coupled->request->cluster;
    const struct placement *placement = coupled->placement;
    if (!holding_uses_host(&coupled->request->holding))
        return 0;
    uint64_t most = 0;
    for (size_t machine = 0; machine <= holding_machine(cluster, cluster->device_count - 1); machine++) {
        uint64_t bytes = 0;
        for (uint32_t r = 0; r < coupled->ranks; r++)
            for (uint32_t seat = coupled->seat_at[r]; seat < coupled->seat_at[r + 1]; seat++)
                for (uint32_t at = placement->stage_at[r]; at < placement->stage_at[r + 1]; at++)
                    if (holding_machine(cluster, coupled->seats[seat]) == machine)
                        bytes = add_clamped(bytes, state->away[placement->held[at]].host_bytes);
        const uint64_t lacks = bytes > cluster->host_memory_bytes ? bytes - cluster->host_memory_bytes : 0;
        most = lacks > most ? lacks : most;
    }
    return most;
}

static bool holds_any(const struct coupled *coupled, uint32_t rank, uint32_t from, uint32_t to)
{
    const struct placement *placement = coupled->placement;
    for (uint32_t at = placement->stage_at[rank]; at < placement->stage_at[rank + 1]; at++)
        if (from <= placement->held[at] && placement->held[at] < to)
            return true;
    return false;
}

bool coupled_complete(struct coupled *coupled, struct coupled_state *state, uint32_t from, uint32_t to,
                      struct error *error)
{
    state->is_whole = false;
    state->most_lacking = 0;
    for (uint32_t r = 0; r < coupled->ranks; r++) {
        if (holds_any(coupled, r, from, to) && !coupled_choose(coupled, state, r, error))
            return false;
        if (state->lacks_bytes[r] > state->most_lacking)
            state->most_lacking = state->lacks_bytes[r];
    }
    state->host_lacks = coupled_host_lacks(coupled, state);
    if (state->host_lacks > state->most_lacking)
        state->most_lacking = state->host_lacks;
    state->value_ns = state->most_lacking == 0 ? coupled_time(coupled, state) : 0;
    return true;
}
