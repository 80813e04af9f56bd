#include "partitioner/search/search_problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "partitioner/predict.h"

// A walk of recompute.h is cut beyond this many labels at a position.
static const size_t most_labels[] = { [RECOMPUTE_LEAST] = 20000, [RECOMPUTE_EVERY] = 8000 };

// --- links ------------------------------------------------------------------------------

static const struct link *link_of(const struct network *network, uint32_t from, uint32_t to)
{
    return &network->links[network->link_of[(size_t)from * network->ranks + to]];
}

static void price_links(struct problem *problem)
{
    const size_t row = (size_t)problem->layers + 1;
    for (uint32_t s = 0; s + 1 < problem->ranks; s++) {
        for (uint32_t l = 1; l < problem->layers; l++) {
            const uint64_t bytes = problem->intervals->cut[l];
            problem->forward_busy[s * row + l] =
                transfer_ns(bytes, link_of(problem->network, s, s + 1)->bytes_per_second, 0);
            problem->backward_busy[s * row + l] =
                transfer_ns(bytes, link_of(problem->network, s + 1, s)->bytes_per_second, 0);
        }
    }
}

// Whether each link carries the messages of one channel only.
static bool links_are_unshared(const struct problem *problem)
{
    const uint32_t channels = 2 * (problem->ranks - 1);
    for (uint32_t a = 0; a < channels; a++) {
        for (uint32_t b = 0; b < a; b++) {
            const uint32_t from_a = (a + 1) / 2, to_a = a % 2 ? (a - 1) / 2 : a / 2 + 1;
            const uint32_t from_b = (b + 1) / 2, to_b = b % 2 ? (b - 1) / 2 : b / 2 + 1;
            if (link_of(problem->network, from_a, to_a) == link_of(problem->network, from_b, to_b))
                return false;
        }
    }
    return true;
}

// The links between the devices of the ranks, each a single one.
static struct network *network_of(const struct search_request *request, struct error *error)
{
    uint32_t *devices = calloc(request->ranks, sizeof devices[0]);
    if (!devices) {
        error_no_memory(error, "a search");
        return NULL;
    }
    for (uint32_t r = 0; r < request->ranks; r++)
        devices[r] = request->devices ? request->devices[r] : r;
    struct network *network = cluster_network(request->cluster, devices, request->ranks, error);
    free(devices);
    return network;
}

static bool find_network(struct problem *problem, struct error *error)
{
    problem->network = problem->request->network;
    if (!problem->network)
        problem->network = problem->own_network = network_of(problem->request, error);
    return problem->network != NULL;
}

// --- the whole --------------------------------------------------------------------------

// Every time the search adds up stays below 2^61.
static bool check_times(const struct problem *problem, struct error *error)
{
    const uint32_t last = problem->layers;
    uint64_t slowest = 1000;
    for (uint32_t r = 0; r < problem->ranks; r++)
        if (search_device(problem->request, r)->speed_permille < slowest)
            slowest = search_device(problem->request, r)->speed_permille;
    unsigned __int128 round = 2 * (unsigned __int128)problem->intervals->forward[last]
                            + problem->intervals->backward[last] + 2 * problem->ranks;
    round = round * 1000 / (slowest);
    const struct cost_row added = problem_added(problem, 0, last);
    round += (unsigned __int128)added.forward_ns + added.backward_ns + added.step_ns;
    for (uint32_t s = 0; s + 1 < problem->ranks; s++) {
        uint64_t most = 0;
        for (uint32_t l = 1; l < last; l++) {
            const struct pattern_stage stage = problem_stage(problem, s, l, l, 0);
            const uint64_t way = pattern_round_ns(&stage);
            most = way > most ? way : most;
        }
        round += most;
    }
    if (round * 3 * (problem->micro_batches + (unsigned __int128)problem->ranks) >> 61)
        return error_set(error, "an iteration of this model would take more than 2^61 ns");
    return true;
}

static bool read_pattern(struct problem *problem, struct error *error)
{
    struct schedule *order = schedule_generate(problem->generator->name, problem->ranks, 1, problem->micro_batches,
                                               error);
    const bool good = order && pattern_read(order, &problem->pattern, error);
    problem->placement = good ? placement_read(order, error) : NULL;
    schedule_free(order);
    if (good && !problem->placement)
        return false;
    if (good && !problem->pattern.is_known)
        return error_set(error, "%s is not a schedule of whole backwards with one stage per rank",
                         problem->generator->name);
    return good;
}

static bool make_bounds(struct problem *problem, struct error *error)
{
    uint64_t *capacities = calloc(problem->ranks, sizeof capacities[0]);
    if (!capacities)
        return error_no_memory(error, "a search");
    for (uint32_t s = 0; s < problem->ranks; s++)
        capacities[s] = search_device(problem->request, s)->memory_bytes;
    problem->recompute_bounds =
        recompute_bounds_create(problem->intervals, problem->slots, capacities, problem->ranks, error);
    free(capacities);
    return problem->recompute_bounds != NULL;
}

static bool fill(struct problem *problem, struct error *error)
{
    const struct search_request *request = problem->request;
    const size_t cells = ((size_t)problem->layers + 1) * problem->ranks;
    problem->can_cut = search_cuts(request, problem->ranks, error);
    if (!problem->can_cut)
        return false;
    if (!search_check_pins(request, problem->can_cut, problem->ranks, error))
        return false;
    problem->forward_busy = calloc(cells, sizeof problem->forward_busy[0]);
    problem->backward_busy = calloc(cells, sizeof problem->backward_busy[0]);
    if (!problem->forward_busy || !problem->backward_busy)
        return error_no_memory(error, "a search");
    problem->intervals = intervals_create(request->profile, &request->holding, error);
    if (!problem->intervals || !find_network(problem, error))
        return false;
    price_links(problem);
    problem->is_plain = holding_is_plain(&request->holding);
    problem->slots = search_slots(request, error);
    if (!problem->slots || !check_times(problem, error) || !read_pattern(problem, error))
        return false;
    if (!make_bounds(problem, error))
        return false;
    problem->flushes = problem->generator->weights == WEIGHTS_FLUSH;
    problem->links_unshared = links_are_unshared(problem);
    problem->is_monotone = problem->flushes && problem->links_unshared;
    problem->bounds_hold = problem->flushes;
    problem->progress.best_ns = UINT64_MAX;
    problem->budget = request->budget ? request->budget : SEARCH_DEFAULT_BUDGET;
    problem->limit = problem->budget;
    problem->deadline_ns = request->deadline_ns ? clock_now_ns() + request->deadline_ns : 0;
    return true;
}

struct problem *problem_create(const struct search_request *request, struct error *error)
{
    if (!search_check(request, error))
        return NULL;
    const struct generator *generator = generator_find(request->schedule, error);
    struct problem *problem = generator ? calloc(1, sizeof *problem) : NULL;
    if (generator && !problem)
        error_no_memory(error, "a search");
    if (!problem)
        return NULL;
    problem->request = request;
    problem->generator = generator;
    problem->layers = (uint32_t)request->profile->layer_count;
    problem->ranks = request->ranks;
    problem->micro_batches = request->micro_batches;
    if (fill(problem, error))
        return problem;
    problem_free(problem);
    return NULL;
}

static void choices_free(struct choices *choices)
{
    if (!choices)
        return;
    free(choices->forward_ns);
    free(choices->recompute_ns);
    free(choices);
}

static void clear_table(struct stage_table *table)
{
    size_t at = 0;
    for (struct choices *choices; (choices = stage_table_next(table, &at));)
        choices_free(choices);
    stage_table_clear(table);
}

void problem_free(struct problem *problem)
{
    if (!problem)
        return;
    clear_table(&problem->least);
    clear_table(&problem->every);
    recompute_bounds_free(problem->recompute_bounds);
    pattern_clear(&problem->pattern);
    network_free(problem->own_network);
    placement_free(problem->placement);
    intervals_free(problem->intervals);
    free(problem->slots);
    free(problem->can_cut);
    free(problem->forward_busy);
    free(problem->backward_busy);
    free(problem);
}

struct cost_row problem_added(const struct problem *problem, uint32_t first, uint32_t end)
{
    struct cost_row added = { 0 };
    if (problem->is_plain)
        return added;
    const struct stage_place place = { .speed_permille = 1000, .replicas = 1,
                                       .host_bytes_per_second = holding_host_rate(problem->request->cluster) };
    const struct stage_states states = interval_states(problem->intervals, first, end);
    holding_add_times(&problem->request->holding, &place, &states, &added);
    return added;
}

struct pattern_stage problem_stage(const struct problem *problem, uint32_t stage, uint32_t first, uint32_t end,
                                   uint64_t recompute_ns)
{
    const uint64_t speed = search_device(problem->request, stage)->speed_permille;
    struct pattern_stage result = {
        .forward_ns = stage_scaled_ns(interval_forward_ns(problem->intervals, first, end), speed),
        .backward_ns = stage_scaled_ns(interval_backward_ns(problem->intervals, first, end), speed) + recompute_ns,
    };
    if (!problem->is_plain) {
        const struct cost_row added = problem_added(problem, first, end);
        result.forward_ns += added.forward_ns;
        result.backward_ns += added.backward_ns;
    }
    if (stage + 1 < problem->ranks) {
        const size_t cell = (size_t)stage * (problem->layers + 1) + end;
        result.forward_busy_ns = problem->forward_busy[cell];
        result.backward_busy_ns = problem->backward_busy[cell];
        result.forward_latency_ns = link_of(problem->network, stage, stage + 1)->latency_ns;
        result.backward_latency_ns = link_of(problem->network, stage + 1, stage)->latency_ns;
    }
    return result;
}

// --- choices ----------------------------------------------------------------------------

static struct choices *copy_choices(const struct recompute_list *list, uint64_t speed)
{
    struct choices *choices = calloc(1, sizeof *choices);
    if (!choices)
        return NULL;
    choices->complete = list->complete;
    choices->forward_ns = calloc(list->count + 1, sizeof choices->forward_ns[0]);
    choices->recompute_ns = calloc(list->count + 1, sizeof choices->recompute_ns[0]);
    if (!choices->forward_ns || !choices->recompute_ns) {
        choices_free(choices);
        return NULL;
    }
    choices->count = list->count;
    for (size_t i = 0; i < list->count; i++) {
        choices->forward_ns[i] = list->at[i].forward_ns;
        choices->recompute_ns[i] = stage_scaled_ns(list->at[i].forward_ns, speed);
    }
    return choices;
}

static const struct choices *find_choices(struct problem *problem, struct stage_table *table,
                                          enum recompute_wanted wanted, uint32_t stage, uint32_t first, uint32_t end,
                                          struct error *error)
{
    struct choices *choices = stage_table_get(table, stage, first, end);
    if (choices)
        return choices;
    const struct cluster_device *device = search_device(problem->request, stage);
    struct recompute_list list;
    uint64_t made = 0;
    if (!recompute_search(problem->intervals, first, end, &problem->slots[stage], device->memory_bytes, wanted,
                          most_labels[wanted], &made, &list, error))
        return NULL;
    problem->work += 1 + made / 8;
    if (wanted == RECOMPUTE_LEAST)
        recompute_bounds_learn(problem->recompute_bounds, stage, first, end, list.least_ns);
    choices = copy_choices(&list, device->speed_permille);
    recompute_list_clear(&list);
    if (choices && stage_table_add(table, stage, first, end, choices))
        return choices;
    choices_free(choices);
    error_no_memory(error, "a search");
    return NULL;
}

uint64_t problem_recompute_ns(const struct problem *problem, uint32_t stage, uint32_t first, uint32_t end)
{
    if (problem->ignores_memory)
        return 0;
    const uint64_t least = recompute_bound(problem->recompute_bounds, stage, first, end);
    const uint64_t speed = search_device(problem->request, stage)->speed_permille;
    return least == UINT64_MAX ? UINT64_MAX : stage_scaled_ns(least, speed);
}

const struct choices *problem_least(struct problem *problem, uint32_t stage, uint32_t first, uint32_t end,
                                    struct error *error)
{
    return find_choices(problem, &problem->least, RECOMPUTE_LEAST, stage, first, end, error);
}

const struct choices *problem_every(struct problem *problem, uint32_t stage, uint32_t first, uint32_t end,
                                    struct error *error)
{
    return find_choices(problem, &problem->every, RECOMPUTE_EVERY, stage, first, end, error);
}

const struct choices *problem_known(const struct problem *problem, uint32_t stage, uint32_t first, uint32_t end)
{
    return stage_table_get(&problem->least, stage, first, end);
}

bool problem_segments(struct problem *problem, uint32_t stage, uint32_t first, uint32_t end, uint64_t forward_ns,
                      struct recompute_choice *choice, struct error *error)
{
    const uint64_t capacity = search_device(problem->request, stage)->memory_bytes;
    *choice = (struct recompute_choice){ 0 };
    for (int every = 0; every < 2 && !choice->segments; every++) {
        struct recompute_list list;
        uint64_t made = 0;
        const enum recompute_wanted wanted = every ? RECOMPUTE_EVERY : RECOMPUTE_LEAST;
        if (!recompute_search(problem->intervals, first, end, &problem->slots[stage], capacity, wanted,
                              most_labels[wanted], &made, &list, error))
            return false;
        for (size_t i = 0; i < list.count && !choice->segments; i++) {
            if (list.at[i].forward_ns != forward_ns)
                continue;
            *choice = list.at[i];
            list.at[i].segments = NULL;  // ours now
        }
        recompute_list_clear(&list);
    }
    return true;
}

bool problem_may_begin(const struct problem *problem, uint32_t stage, uint32_t first)
{
    return problem->can_cut[first] && (first == 0) == (stage == 0)
        && (first == problem->layers) == (stage == problem->ranks)
        && search_pins_allow(problem->request, stage, first);
}

// --- the end ------------------------------------------------------------------------------

static void tell(struct problem *problem)
{
    const struct search_request *request = problem->request;
    if (!request->progress || problem->work < problem->next_progress)
        return;
    problem->next_progress = problem->work + SEARCH_PROGRESS_WORK;
    problem->progress.work = problem->work;
    problem->progress.budget = problem->budget;
    request->progress(request->self, &problem->progress);
}

bool problem_is_interrupted(struct problem *problem)
{
    tell(problem);
    const struct search_request *request = problem->request;
    if (problem->stopped[0])
        return true;
    if (request->interrupted && *request->interrupted)
        snprintf(problem->stopped, sizeof problem->stopped, "interrupted");
    else if (problem->deadline_ns && clock_now_ns() > problem->deadline_ns)
        snprintf(problem->stopped, sizeof problem->stopped, "the deadline has passed");
    return problem->stopped[0] != '\0';
}

bool problem_must_stop(struct problem *problem)
{
    if (problem_is_interrupted(problem))
        return true;
    if (problem->work <= problem->limit)
        return false;
    snprintf(problem->stopped, sizeof problem->stopped, "the budget of %llu units of work is used up",
             (unsigned long long)problem->budget);
    return true;
}
