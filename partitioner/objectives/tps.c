// Piper's prices (tps.h). A knapsack decides what a stage takes, with a way for each of its layers. First comes the
// floor, then the linear relaxation and a choice that fits. Only if the limit lies between these two, the best
// choice itself is found.
#include <math.h>
#include <stdlib.h>

#include "common/number.h"
#include "common/random.h"
#include "partitioner/search/layer_groups.h"
#include "partitioner/objectives/knapsack.h"
#include "partitioner/objectives/tps.h"

// The known bounds on a stage's load. They are kept until another stage takes their place.
enum { ANSWERS = 1 << 15 };
struct answer {
    struct tps_stage stage;
    double least, most;  // it loads at least and at most this
};

#define NO_PLACE UINT32_MAX

// A layer of the current stage in one of its ways, whatever the replicas.
struct choice {
    const struct tps_way *way;
    double moved_ns;  // twice the bytes along edges to other stages, at the rate
};

// The current stage as a knapsack: what its layers can choose from.
struct chooser {
    struct tps_stage stage;  // 0 replicas: none yet
    uint32_t *layers, *place;  // its layers, and the index of each layer among them; NO_PLACE: in another stage
    size_t layer_count;
    struct choice *choices;
    uint32_t *first;         // of each of its layers; layer_count + 1
    struct knapsack_option *options;
    uint32_t *chosen;
    struct knapsack knapsack;
};

struct prices {
    const struct graph_view *view;
    struct machines machines;
    uint32_t micro_batches;
    double ns_per_byte;
    struct tps_ways ways;
    struct tps_floors floors;
    struct edge *edges;  // between layers
    size_t edge_count;
    struct chooser chooser;
    struct minimax_way *minimax_ways;  // steps: replicas, a divisor of the micro-batches; cost: machines
    struct tps_stage *stage_of_way;    // degree and replicas of each
    size_t way_count;
    struct answer *answers;
    bool gave_up;                      // a choice was too large to be decided
};

// --- the stage in hand ------------------------------------------------------------------------

static void chooser_create(struct chooser *chooser, size_t layers, size_t ways, struct arrays *arrays)
{
    chooser->layers = arrays_add(arrays, layers, sizeof chooser->layers[0]);
    chooser->place = arrays_add(arrays, layers, sizeof chooser->place[0]);
    for (size_t i = 0; chooser->place && i < layers; i++)
        chooser->place[i] = NO_PLACE;
    chooser->first = arrays_add(arrays, layers + 1, sizeof chooser->first[0]);
    chooser->chosen = arrays_add(arrays, layers, sizeof chooser->chosen[0]);
    chooser->choices = arrays_add(arrays, ways, sizeof chooser->choices[0]);
    chooser->options = arrays_add(arrays, ways, sizeof chooser->options[0]);
    arrays->failed |= !knapsack_create(&chooser->knapsack, layers);
}

// Adds what the ways of a layer of the stage receive from another stage along an edge, or send there.
static void add_moved(struct prices *prices, struct edge edge)
{
    struct chooser *chooser = &prices->chooser;
    const bool sends = chooser->place[edge.from] != NO_PLACE;
    const uint32_t place = chooser->place[sends ? edge.from : edge.to];
    for (uint32_t c = chooser->first[place]; c < chooser->first[place + 1]; c++) {
        const struct profile_layer *way = chooser->choices[c].way->layer;
        const uint64_t bytes = sends ? profile_send_bytes(way, edge.to)
                                     : profile_receive_bytes(prices->view->request->profile, way, edge.from);
        chooser->choices[c].moved_ns += 2 * (double)bytes * prices->ns_per_byte;
    }
}

static void take_layer(struct prices *prices, uint32_t layer, uint32_t devices)
{
    struct chooser *chooser = &prices->chooser;
    uint32_t count = chooser->first[chooser->layer_count];
    for (uint32_t v = prices->ways.way_at[layer]; v < prices->ways.way_at[layer + 1]; v++)
        if (prices->ways.ways[v].devices == devices)
            chooser->choices[count++] = (struct choice){ &prices->ways.ways[v], 0 };
    chooser->place[layer] = (uint32_t)chooser->layer_count;
    chooser->layers[chooser->layer_count++] = layer;
    chooser->first[chooser->layer_count] = count;
}

// Takes the stage's layers with their ways, which do not depend on the replicas and on what is in flight.
static void take_layers(struct prices *prices, const struct tps_stage *stage)
{
    struct chooser *chooser = &prices->chooser;
    const struct graph_view *view = prices->view;
    const uint64_t *inner = downsets_set(view->downsets, stage->inner);
    const uint64_t *outer = downsets_set(view->downsets, stage->outer);
    while (chooser->layer_count > 0)
        chooser->place[chooser->layers[--chooser->layer_count]] = NO_PLACE;
    for (uint32_t w = 0; w < view->downsets->words; w++)
        for (uint64_t rest = outer[w] & ~inner[w]; rest; rest &= rest - 1) {
            const uint32_t node = 64 * w + (uint32_t)__builtin_ctzll(rest);
            for (uint32_t i = view->layer_at[node]; i < view->layer_at[node + 1]; i++)
                take_layer(prices, view->layers[i], prices->ways.degrees[stage->degree]);
        }
    for (size_t e = 0; e < prices->edge_count; e++)
        if ((chooser->place[prices->edges[e].from] == NO_PLACE) != (chooser->place[prices->edges[e].to] == NO_PLACE))
            add_moved(prices, prices->edges[e]);
}

static void take_stage(struct prices *prices, const struct tps_stage *stage)
{
    struct chooser *chooser = &prices->chooser;
    const struct tps_stage before = chooser->stage;
    chooser->stage = *stage;
    if (before.replicas == 0 || before.inner != stage->inner || before.outer != stage->outer
        || before.degree != stage->degree)
        take_layers(prices, stage);
    const uint32_t count = chooser->first[chooser->layer_count];
    const double reduce_ns = 4.0 * (stage->replicas - 1) * prices->ns_per_byte / prices->micro_batches;
    for (uint32_t c = 0; c < count; c++) {
        const struct tps_way *way = chooser->choices[c].way;
        const double time = (double)way->time_ns + chooser->choices[c].moved_ns;
        const uint64_t bytes = add_clamped(multiply_clamped(way->in_flight_bytes, stage->in_flight), way->fixed_bytes);
        chooser->options[c] = (struct knapsack_option){
            (time + reduce_ns * (double)way->parameter_bytes) / stage->replicas, bytes };
    }
    chooser->knapsack.options = chooser->options;
    chooser->knapsack.first = chooser->first;
    chooser->knapsack.item_count = chooser->layer_count;
    chooser->knapsack.capacity_bytes = prices->machines.memory_bytes;
}

// --- prices -----------------------------------------------------------------------------------

static bool are_same(const struct tps_stage *a, const struct tps_stage *b)
{
    return a->inner == b->inner && a->outer == b->outer && a->degree == b->degree && a->replicas == b->replicas
        && a->in_flight == b->in_flight;
}

// The place for what is known of the stage, whether or not it is there.
static struct answer *find_answer(const struct prices *prices, const struct tps_stage *stage)
{
    const uint64_t rest = (uint64_t)stage->degree << 52 | (uint64_t)stage->replicas << 26 | stage->in_flight;
    uint64_t key = ((uint64_t)stage->outer << 32 | stage->inner) ^ rest * 0x9e3779b97f4a7c15u;
    return &prices->answers[random_next(&key) % ANSWERS];
}

// The known bounds on the stage's load, `least` and `most`. The limit is not between the two, unless the choice is
// too large to be decided.
static const struct answer *ask_for(struct prices *prices, const struct tps_stage *stage, double below)
{
    struct answer *answer = find_answer(prices, stage);
    if (are_same(&answer->stage, stage) && (!(answer->least < below) || answer->most < below))
        return answer;
    *answer = (struct answer){ *stage, INFINITY, INFINITY };
    take_stage(prices, stage);
    const enum knapsack_answer found =
        knapsack_solve(&prices->chooser.knapsack, below, &answer->least, &answer->most, NULL);
    prices->gave_up |= found == KNAPSACK_BOUND || found == KNAPSACK_NO_MEMORY;
    return answer;
}

static double price(void *self, uint32_t inner, uint32_t outer, uint32_t most, double below, double *loads)
{
    const struct prices *prices = self;
    (void)below;
    for (size_t w = 0; w < prices->way_count; w++) {
        if (prices->stage_of_way[w].replicas > most)
            continue;
        const struct tps_sums *sums = &prices->floors.sums[prices->stage_of_way[w].degree];
        loads[w] = sums->of[TPS_LACKING][outer] > sums->of[TPS_LACKING][inner] ? INFINITY
                 : (double)(sums->of[TPS_TIME][outer] - sums->of[TPS_TIME][inner]) / prices->stage_of_way[w].replicas;
    }
    return 0;
}

static double refine(void *self, uint32_t inner, uint32_t outer, size_t way, uint32_t later, double load, double below)
{
    struct prices *prices = self;
    struct tps_stage stage = prices->stage_of_way[way];
    stage.inner = inner;
    stage.outer = outer;
    (void)load;
    stage.in_flight = (later + 2 * stage.replicas - 1) / stage.replicas;
    if (!(tps_floor(&prices->floors, &stage, below) < below))
        return INFINITY;
    return ask_for(prices, &stage, below)->most;
}

static void ask(void *self, struct minimax_problem *problem)
{
    const struct prices *prices = self;
    problem->ways.list = prices->minimax_ways;
    problem->ways.count = prices->way_count;
    problem->ways.most_steps = prices->machines.accelerators < prices->micro_batches ? prices->machines.accelerators
                                                                               : prices->micro_batches;
    problem->ways.most_cost = prices->machines.accelerators;
    problem->work = prices->floors.work;
    problem->ways.cost_speed = 1;
    problem->loads = price;
    problem->refine = refine;
}

// --- all of them --------------------------------------------------------------------------------

static void clear(void *self)
{
    knapsack_clear(&((struct prices *)self)->chooser.knapsack);
}

// Groups of each degree, in all numbers that share the micro-batches evenly.
static void list_ways(struct prices *prices, struct arrays *arrays)
{
    const uint32_t machines = prices->machines.accelerators;
    const uint32_t most = prices->view->request->is_straight ? 1 : machines;
    const size_t room = prices->ways.degree_count * most;
    prices->minimax_ways = arrays_add(arrays, room, sizeof prices->minimax_ways[0]);
    prices->stage_of_way = arrays_add(arrays, room, sizeof prices->stage_of_way[0]);
    for (uint32_t t = 0; !arrays->failed && t < prices->ways.degree_count; t++)
        for (uint32_t d = 1; d <= most && d * prices->ways.degrees[t] <= machines; d++) {
            if (prices->micro_batches % d != 0)
                continue;
            prices->minimax_ways[prices->way_count] = (struct minimax_way){ d, d * prices->ways.degrees[t] };
            prices->stage_of_way[prices->way_count++] = (struct tps_stage){ .degree = t, .replicas = d };
        }
}

static bool fill(void *self, struct graph_view *view, const struct bottleneck_result *given, struct error *error)
{
    struct prices *prices = self;
    struct arrays *arrays = &view->arrays;
    const struct bottleneck_request *request = view->request;
    const size_t layers = request->profile->layer_count;
    prices->view = view;
    if (!machines_find(&prices->machines, request, 1, false, error))
        return false;
    if (prices->machines.accelerators == 0)
        return error_set(error, "tps plans for accelerators, of which the cluster has none");
    prices->micro_batches = request->micro_batches ? request->micro_batches : prices->machines.accelerators;
    prices->ns_per_byte = prices->machines.bytes_per_second ? 1e9 / (double)prices->machines.bytes_per_second : 0;
    prices->answers = arrays_add(arrays, ANSWERS, sizeof prices->answers[0]);
    prices->edges = arrays_keep(arrays, downsets_edges(request->profile, NULL, &prices->edge_count, error));
    if (!tps_ways_create(&prices->ways, request->profile, given, prices->machines.accelerators, arrays, error))
        return false;
    tps_floors_create(&prices->floors, view, &prices->ways, &prices->machines, prices->micro_batches);
    list_ways(prices, arrays);
    chooser_create(&prices->chooser, layers, prices->ways.way_at[layers], arrays);
    return !arrays->failed;
}

// --- the answer ---------------------------------------------------------------------------------

static size_t list_stages(void *self, const struct minimax *found, struct found_stage *stages)
{
    const struct prices *prices = self;
    for (uint32_t s = 0; s < found->stage_count; s++) {
        const struct tps_stage *way = &prices->stage_of_way[found->stages[s].way];
        stages[s] = (struct found_stage){ found->stages[s].downset,
                                          { .replicas = way->replicas, .group = prices->ways.degrees[way->degree],
                                            .part = s, .servers = 1 } };
    }
    return found->stage_count;
}

// The index of the degree of a stage's groups; the number of degrees if no layer has a way for so many devices.
static uint32_t degree_of(const struct prices *prices, const struct bottleneck_stage *stage)
{
    uint32_t degree = 0;
    while (degree < prices->ways.degree_count && prices->ways.degrees[degree] != stage->group)
        degree++;
    return degree;
}

// Chooses the best ways of the layers, exactly.
static bool choose(void *self, const struct found_stage *stages, struct bottleneck_result *result, struct error *error)
{
    struct prices *prices = self;
    const struct chooser *chooser = &prices->chooser;
    uint32_t behind = 0;
    for (size_t s = result->stage_count; s-- > 0;) {
        const struct bottleneck_stage *chosen = &result->stages[s];
        behind += chosen->replicas;
        const struct tps_stage stage = { s > 0 ? stages[s - 1].downset : 0, stages[s].downset,
                                         degree_of(prices, chosen), chosen->replicas,
                                         (behind + chosen->replicas - 1) / chosen->replicas };
        double least, most;
        take_stage(prices, &stage);
        if (knapsack_solve(&prices->chooser.knapsack, INFINITY, &least, &most, chooser->chosen) == KNAPSACK_NO_MEMORY)
            return error_no_memory(error, "the choice of ways");
        for (size_t l = 0; l < chooser->layer_count; l++)
            result->variant[chooser->layers[l]] = chooser->choices[chooser->first[l] + chooser->chosen[l]].way->variant;
    }
    return true;
}

static const char *doubt(const void *self)
{
    return ((const struct prices *)self)->gave_up ? "a stage's layers have too many ways to run" : NULL;
}

static void refuse(void *self, struct error *error)
{
    const struct prices *prices = self;
    const struct profile *profile = prices->view->request->profile;
    char holds[NUMBER_SIZE], has[NUMBER_SIZE];
    bytes_format(prices->machines.memory_bytes, has);
    for (size_t i = 0; i < profile->layer_count && error->kind == ERROR_NONE; i++) {
        uint64_t fewest = UINT64_MAX;  // of a device of any group, with one micro-batch in flight
        for (uint32_t w = prices->ways.way_at[i]; w < prices->ways.way_at[i + 1]; w++) {
            const struct tps_way *way = &prices->ways.ways[w];
            const uint64_t bytes = add_clamped(way->in_flight_bytes, way->fixed_bytes);
            fewest = way->devices <= prices->machines.accelerators && bytes < fewest ? bytes : fewest;
        }
        if (fewest > prices->machines.memory_bytes)
            error_set_kind(error, ERROR_ANSWER, "layer \"%s\" alone holds %s; a machine has %s",
                           profile->layers[i].name, bytes_format(fewest, holds), has);
    }
    error_set_kind(error, ERROR_ANSWER, "no stages for %u machines of %s fit, in whatever way the layers run",
                   prices->machines.accelerators, has);
}

// --- a given plan -------------------------------------------------------------------------------

// The ways are those of the plan, so that there is nothing to choose.
static bool price_given(struct prices *prices, struct bottleneck_result *plan, uint32_t s, struct tps_stage stage,
                        struct error *error)
{
    struct bottleneck_stage *given = &plan->stages[s];
    uint64_t held = 0;
    char holds[NUMBER_SIZE], has[NUMBER_SIZE];
    for (uint32_t position = given->first; position < given->end; position++) {
        const struct tps_way *way = &prices->ways.ways[prices->ways.way_at[plan->order[position]]];
        if (way->devices != given->group)
            return error_set_kind(error, ERROR_ANSWER,
                                  "stage %u: layer \"%s\" runs on %u devices, the stage's groups have %u", s,
                                  prices->view->request->profile->layers[plan->order[position]].name, way->devices,
                                  given->group);
        held = add_clamped(held, add_clamped(multiply_clamped(way->in_flight_bytes, stage.in_flight),
                                             way->fixed_bytes));
    }
    if (held > prices->machines.memory_bytes)
        return error_set_kind(error, ERROR_ANSWER, "stage %u: its layers hold %s, its machine %s", s,
                              bytes_format(held, holds), bytes_format(prices->machines.memory_bytes, has));
    given->load_ns = given->first < given->end ? ask_for(prices, &stage, 0)->least : 0;
    return true;
}

static bool value(void *self, struct bottleneck_result *plan, const uint32_t *ends, struct error *error)
{
    struct prices *prices = self;
    uint64_t replicas = 0, machines = 0;
    for (uint32_t s = (uint32_t)plan->stage_count; s-- > 0;) {
        const struct bottleneck_stage *given = &plan->stages[s];
        replicas += given->replicas;
        machines += (uint64_t)given->replicas * given->group;
        if (prices->micro_batches % given->replicas != 0)
            return error_set_kind(error, ERROR_ANSWER, "stage %u: %u replicas cannot share %u micro-batches evenly", s,
                                  given->replicas, prices->micro_batches);
        if (given->replicas > 1 && prices->view->request->is_straight)
            return error_set_kind(error, ERROR_ANSWER, "stage %u: replicas were not asked for", s);
        if (replicas > prices->micro_batches)
            return error_set_kind(error, ERROR_ANSWER, "the stages from %u on have %llu replicas, for %u micro-batches",
                                  s, (unsigned long long)replicas, prices->micro_batches);
        if (machines > prices->machines.accelerators)
            return error_set_kind(error, ERROR_ANSWER, "the stages from %u on take %llu machines; there are %u", s,
                                  (unsigned long long)machines, prices->machines.accelerators);
        const struct tps_stage stage = { ends[s], ends[s + 1], degree_of(prices, given), given->replicas,
                                         (uint32_t)((replicas + given->replicas - 1) / given->replicas) };
        if (!price_given(prices, plan, s, stage, error))
            return false;
    }
    return true;
}

// Each layer of a given plan is a node. It was checked before whether the plan separates what belongs together.
static bool list_nodes(const struct bottleneck_request *request, bool is_given, uint32_t **node_of, struct error *error)
{
    return is_given || (*node_of = layer_groups(request->profile, true, NULL, error)) != NULL;
}

const struct objective tps_objective = { .nodes = list_nodes, .bytes = sizeof(struct prices), .fill = fill,
                                         .clear = clear, .ask = ask, .stages = list_stages, .choose = choose,
                                         .refuse = refuse, .doubt = doubt, .value = value };
