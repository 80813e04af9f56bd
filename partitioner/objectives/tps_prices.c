// What a stage costs in Piper's model. Where each layer's quickest way fits that is their
// sum; elsewhere ways that hold less must be mixed in, which is a knapsack: bounded at
// first, decided only when the search asks. Both answers are remembered.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "common/random.h"
#include "partitioner/objectives/knapsack.h"
#include "partitioner/objectives/tps.h"

// Answers beyond which those that are not exact are forgotten.
enum { MOST_ANSWERS = 1 << 21 };

struct answer {
    uint64_t ends, rest;  // the stage, as two numbers; `rest` 0: nothing stands here
    struct tps_price price;
};

// One way of a layer of the stage in hand, but for its replicas.
struct choice {
    const struct tps_way *way;
    double moved_ns;  // twice the bytes along edges to other stages, at the rate
};

struct tps_prices {
    const struct cut_view *view;
    double ns_per_byte;
    uint32_t micro_batches;
    struct tps_way *ways;
    uint32_t *way_at;       // of each layer; layer_count + 1
    uint32_t *degrees;
    size_t degree_count;
    uint64_t *work;         // of each downset
    uint64_t **time;        // of each degree and downset
    uint64_t **lacking;
    struct edge *incoming;  // edges by (to, from)
    uint32_t *incoming_at, *outgoing_at;  // of each layer
    // The stage in hand.
    bool has_stage;
    struct tps_stage stage;
    uint32_t *layers;       // of the stage
    size_t layer_count;
    struct choice *choices;
    uint32_t *first;        // of each of its layers; layer_count + 1
    struct knapsack_option *options;
    uint32_t *chosen;
    struct knapsack knapsack;
    // What was answered: open addressing.
    struct answer *answers;
    size_t room, answer_count;
};

struct tps_way tps_way_of(const struct profile_layer *layer, uint32_t variant)
{
    const struct profile_layer *way = variant ? &layer->variants[variant - 1].layer : layer;
    const uint64_t workspace =
        way->workspace_bytes > way->backward_workspace_bytes ? way->workspace_bytes : way->backward_workspace_bytes;
    return (struct tps_way){
        .layer = way,
        .variant = variant,
        .devices = variant ? layer->variants[variant - 1].devices : 1,
        .time_ns = add_clamped(add_clamped(way->forward_ns, way->backward_ns),
                               variant ? layer->variants[variant - 1].communication_ns : 0),
        .parameter_bytes = way->parameter_bytes,
        .in_flight_bytes = way->saved_bytes,
        .fixed_bytes = 2 * way->parameter_bytes + workspace,
    };
}

uint32_t tps_micro_batches(const struct bottleneck_request *request, const struct cut_machines *machines)
{
    return request->micro_batches ? request->micro_batches : machines->accelerators;
}

void tps_prices_free(struct tps_prices *prices)
{
    if (!prices)
        return;
    for (size_t t = 0; t < prices->degree_count; t++) {
        free(prices->time ? prices->time[t] : NULL);
        free(prices->lacking ? prices->lacking[t] : NULL);
    }
    free(prices->ways);
    free(prices->way_at);
    free(prices->degrees);
    free(prices->work);
    free(prices->time);
    free(prices->lacking);
    free(prices->incoming);
    free(prices->incoming_at);
    free(prices->outgoing_at);
    free(prices->layers);
    free(prices->choices);
    free(prices->first);
    free(prices->options);
    free(prices->chosen);
    knapsack_clear(&prices->knapsack);
    free(prices->answers);
    free(prices);
}

// --- ways and degrees ---------------------------------------------------------------------

static bool add_degree(struct tps_prices *prices, uint32_t devices)
{
    size_t at = 0;
    while (at < prices->degree_count && prices->degrees[at] < devices)
        at++;
    if (at < prices->degree_count && prices->degrees[at] == devices)
        return true;
    uint32_t *larger = realloc(prices->degrees, (prices->degree_count + 1) * sizeof larger[0]);
    if (!larger)
        return false;
    prices->degrees = larger;
    memmove(larger + at + 1, larger + at, (prices->degree_count - at) * sizeof larger[0]);
    larger[at] = devices;
    prices->degree_count++;
    return true;
}

static bool list_ways(struct tps_prices *prices)
{
    const struct profile *profile = prices->view->request->profile;
    size_t count = 0;
    for (size_t i = 0; i < profile->layer_count; i++)
        count += 1 + profile->layers[i].variant_count;
    prices->ways = calloc(count, sizeof prices->ways[0]);
    prices->way_at = calloc(profile->layer_count + 1, sizeof prices->way_at[0]);
    if (!prices->ways || !prices->way_at)
        return false;
    uint32_t at = 0;
    for (size_t i = 0; i < profile->layer_count; i++) {
        prices->way_at[i] = at;
        for (uint32_t v = 0; v <= profile->layers[i].variant_count; v++) {
            prices->ways[at] = tps_way_of(&profile->layers[i], v);
            const uint32_t devices = prices->ways[at].devices;
            if (devices <= prices->view->machines.accelerators && !add_degree(prices, devices))
                return false;
            at++;
        }
    }
    prices->way_at[profile->layer_count] = at;
    return true;
}

// The least of a layer's ways for so many devices; UINT64_MAX where there is none.
static uint64_t least_time(const struct tps_prices *prices, size_t layer, uint32_t devices)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t w = prices->way_at[layer]; w < prices->way_at[layer + 1]; w++)
        if (prices->ways[w].devices == devices && prices->ways[w].time_ns < least)
            least = prices->ways[w].time_ns;
    return least;
}

// Sums stay below 2^53, as a profile's own do.
static bool check_sum(const struct tps_prices *prices, const uint64_t *value, struct error *error)
{
    const struct profile *profile = prices->view->request->profile;
    uint64_t sum = 0;
    for (size_t i = 0; i < profile->layer_count; i++) {
        sum = add_clamped(sum, value[i]);
        if (sum > JSON_MAX)
            return error_set(error, "the ways to run the layers up to \"%s\" add up to more than 2^53 ns",
                             profile->layers[i].name);
    }
    return true;
}

static bool sum_degrees(struct tps_prices *prices, uint64_t *value, uint64_t *work, struct error *error)
{
    const size_t layers = prices->view->request->profile->layer_count;
    for (size_t i = 0; i < layers; i++)
        work[i] = UINT64_MAX;
    for (size_t t = 0; t < prices->degree_count; t++) {
        const uint32_t devices = prices->degrees[t];
        for (size_t i = 0; i < layers; i++)
            value[i] = least_time(prices, i, devices) == UINT64_MAX;
        prices->lacking[t] = cut_view_sum(prices->view, value, error);
        for (size_t i = 0; i < layers; i++) {
            const uint64_t time = least_time(prices, i, devices), machine = multiply_clamped(time, devices);
            value[i] = time == UINT64_MAX ? 0 : time;
            work[i] = machine < work[i] ? machine : work[i];
        }
        if (!check_sum(prices, value, error))
            return false;
        prices->time[t] = cut_view_sum(prices->view, value, error);
        if (!prices->time[t] || !prices->lacking[t])
            return false;
    }
    prices->work = check_sum(prices, work, error) ? cut_view_sum(prices->view, work, error) : NULL;
    return prices->work != NULL;
}

static bool fill_sums(struct tps_prices *prices, struct error *error)
{
    const size_t layers = prices->view->request->profile->layer_count;
    prices->time = calloc(prices->degree_count + 1, sizeof prices->time[0]);
    prices->lacking = calloc(prices->degree_count + 1, sizeof prices->lacking[0]);
    uint64_t *value = calloc(2 * layers, sizeof value[0]);
    const bool has_room = prices->time && prices->lacking && value;
    const bool good = has_room ? sum_degrees(prices, value, value + layers, error)
                               : error_no_memory(error, "the sums of a graph");
    free(value);
    return good;
}

// --- edges ----------------------------------------------------------------------------------

static int compare_incoming(const void *a, const void *b)
{
    const struct edge *left = a, *right = b;
    if (left->to != right->to)
        return left->to < right->to ? -1 : 1;
    return (left->from > right->from) - (left->from < right->from);
}

// The view's edges stand by (from, to), as the profile's do.
static bool index_edges(struct tps_prices *prices)
{
    const struct cut_view *view = prices->view;
    const size_t layers = view->request->profile->layer_count, edges = view->graph.edge_count;
    prices->incoming = calloc(edges + 1, sizeof prices->incoming[0]);
    prices->incoming_at = calloc(layers + 2, sizeof prices->incoming_at[0]);
    prices->outgoing_at = calloc(layers + 2, sizeof prices->outgoing_at[0]);
    if (!prices->incoming || !prices->incoming_at || !prices->outgoing_at)
        return false;
    for (size_t e = 0; e < edges; e++) {
        prices->incoming[e] = view->edges[e];
        prices->incoming_at[view->edges[e].to + 1]++;
        prices->outgoing_at[view->edges[e].from + 1]++;
    }
    qsort(prices->incoming, edges, sizeof prices->incoming[0], compare_incoming);
    for (size_t i = 0; i < layers; i++) {
        prices->incoming_at[i + 1] += prices->incoming_at[i];
        prices->outgoing_at[i + 1] += prices->outgoing_at[i];
    }
    return true;
}

static bool is_between(const struct tps_prices *prices, uint32_t layer)
{
    return cut_view_holds(prices->view, prices->stage.outer, layer)
        && !cut_view_holds(prices->view, prices->stage.inner, layer);
}

static double moved_bytes(const struct tps_prices *prices, uint32_t layer, const struct tps_way *way)
{
    const struct profile *profile = prices->view->request->profile;
    double bytes = 0;
    for (uint32_t e = prices->incoming_at[layer]; e < prices->incoming_at[layer + 1]; e++)
        if (!is_between(prices, prices->incoming[e].from))
            bytes += (double)profile_receive_bytes(profile, way->layer, prices->incoming[e].from);
    for (uint32_t e = prices->outgoing_at[layer]; e < prices->outgoing_at[layer + 1]; e++)
        if (!is_between(prices, prices->view->edges[e].to))
            bytes += (double)profile_send_bytes(way->layer, prices->view->edges[e].to);
    return bytes;
}

// --- the stage in hand ------------------------------------------------------------------------

static bool make_room(struct tps_prices *prices)
{
    const size_t layers = prices->view->request->profile->layer_count, ways = prices->way_at[layers];
    prices->layers = calloc(layers, sizeof prices->layers[0]);
    prices->first = calloc(layers + 1, sizeof prices->first[0]);
    prices->chosen = calloc(layers, sizeof prices->chosen[0]);
    prices->choices = calloc(ways, sizeof prices->choices[0]);
    prices->options = calloc(ways, sizeof prices->options[0]);
    prices->room = 1024;
    prices->answers = calloc(prices->room, sizeof prices->answers[0]);
    return prices->layers && prices->first && prices->chosen && prices->choices && prices->options && prices->answers;
}

// Its ways stand behind the `count` of those before it; how many there are then.
static uint32_t take_layer(struct tps_prices *prices, uint32_t layer, uint32_t count)
{
    const uint32_t devices = prices->degrees[prices->stage.degree];
    prices->first[prices->layer_count] = count;
    prices->layers[prices->layer_count++] = layer;
    for (uint32_t w = prices->way_at[layer]; w < prices->way_at[layer + 1]; w++)
        if (prices->ways[w].devices == devices)
            prices->choices[count++] = (struct choice){
                &prices->ways[w], 2 * moved_bytes(prices, layer, &prices->ways[w]) * prices->ns_per_byte };
    return count;
}

static void take_stage(struct tps_prices *prices, const struct tps_stage *stage)
{
    if (prices->has_stage && prices->stage.inner == stage->inner && prices->stage.outer == stage->outer
        && prices->stage.degree == stage->degree)
        return;
    const struct downsets *downsets = prices->view->downsets;
    const uint64_t *inner = downsets_set(downsets, stage->inner), *outer = downsets_set(downsets, stage->outer);
    prices->has_stage = true;
    prices->stage = *stage;
    prices->layer_count = 0;
    uint32_t count = 0;
    for (uint32_t w = 0; w < downsets->words; w++)  // nodes are layers: this model leaves none to others
        for (uint64_t rest = outer[w] & ~inner[w]; rest; rest &= rest - 1)
            count = take_layer(prices, 64 * w + (uint32_t)__builtin_ctzll(rest), count);
    prices->first[prices->layer_count] = count;
}

static double cost_of(const struct tps_prices *prices, const struct choice *choice, uint32_t replicas)
{
    const double reduced = 4.0 * (replicas - 1) * (double)choice->way->parameter_bytes * prices->ns_per_byte;
    return ((double)choice->way->time_ns + choice->moved_ns + reduced / prices->micro_batches) / replicas;
}

static uint64_t bytes_of(const struct tps_way *way, uint32_t in_flight)
{
    return add_clamped(multiply_clamped(way->in_flight_bytes, in_flight), way->fixed_bytes);
}

// Every layer in its quickest way, of equal ones that which holds less; and up to how many in flight that fits.
static struct tps_price quickest(const struct tps_prices *prices, uint32_t replicas)
{
    struct tps_price price = { .is_exact = true };
    uint64_t in_flight = 0, fixed = 0;
    for (size_t l = 0; l < prices->layer_count; l++) {
        const struct tps_way *best = NULL;
        double least = INFINITY;
        for (uint32_t c = prices->first[l]; c < prices->first[l + 1]; c++) {
            const struct tps_way *way = prices->choices[c].way;
            const double cost = cost_of(prices, &prices->choices[c], replicas);
            if (cost < least || (cost == least && bytes_of(way, 1) < bytes_of(best, 1))) {
                best = way;
                least = cost;
            }
        }
        price.load += least;
        in_flight = best ? add_clamped(in_flight, best->in_flight_bytes) : in_flight;
        fixed = best ? add_clamped(fixed, best->fixed_bytes) : fixed;
    }
    const uint64_t memory = prices->view->machines.memory_bytes;
    const uint64_t most = fixed > memory ? 0 : in_flight == 0 ? UINT32_MAX : (memory - fixed) / in_flight;
    price.until = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
    return price;
}

static void fill_knapsack(struct tps_prices *prices, const struct tps_stage *stage)
{
    const uint32_t count = prices->first[prices->layer_count];
    for (uint32_t c = 0; c < count; c++)
        prices->options[c] = (struct knapsack_option){ cost_of(prices, &prices->choices[c], stage->replicas),
                                                       bytes_of(prices->choices[c].way, stage->in_flight) };
    prices->knapsack.options = prices->options;
    prices->knapsack.first = prices->first;
    prices->knapsack.item_count = prices->layer_count;
    prices->knapsack.capacity_bytes = prices->view->machines.memory_bytes;
}

// --- what was answered before ---------------------------------------------------------------

static size_t find_answer(const struct tps_prices *prices, uint64_t ends, uint64_t rest)
{
    uint64_t hash = ends ^ rest * 0x9e3779b97f4a7c15u;
    size_t at = random_next(&hash) & (prices->room - 1);
    while (prices->answers[at].rest && (prices->answers[at].ends != ends || prices->answers[at].rest != rest))
        at = (at + 1) & (prices->room - 1);
    return at;
}

static uint64_t ends_of(const struct tps_stage *stage)
{
    return (uint64_t)stage->outer << 32 | stage->inner;
}

// Never 0, since there is a replica.
static uint64_t rest_of(const struct tps_stage *stage)
{
    return (uint64_t)stage->degree << 56 | (uint64_t)stage->replicas << 28 | stage->in_flight;
}

// Into a table of another size; what is not exact is left behind where there is too much.
static bool move_answers(struct tps_prices *prices, size_t room, bool forget)
{
    struct answer *old = prices->answers;
    const size_t count = prices->room;
    struct answer *answers = calloc(room, sizeof answers[0]);
    if (!answers)
        return false;
    prices->answers = answers;
    prices->room = room;
    prices->answer_count = 0;
    for (size_t i = 0; i < count; i++)
        if (old[i].rest && (!forget || (old[i].price.is_exact && old[i].price.until == 0))) {
            answers[find_answer(prices, old[i].ends, old[i].rest)] = old[i];
            prices->answer_count++;
        }
    free(old);
    return true;
}

static bool remember(struct tps_prices *prices, const struct tps_stage *stage, struct tps_price price,
                     struct error *error)
{
    if (2 * prices->answer_count >= prices->room) {
        const bool forget = prices->answer_count >= MOST_ANSWERS;
        if (!move_answers(prices, forget ? prices->room : 2 * prices->room, forget))
            return error_no_memory(error, "the prices of stages");
        if (2 * prices->answer_count >= prices->room && !move_answers(prices, 2 * prices->room, false))
            return error_no_memory(error, "the prices of stages");
    }
    const size_t at = find_answer(prices, ends_of(stage), rest_of(stage));
    prices->answer_count += prices->answers[at].rest == 0;
    prices->answers[at] = (struct answer){ ends_of(stage), rest_of(stage), price };
    return true;
}

static const struct tps_price *recall(const struct tps_prices *prices, const struct tps_stage *stage)
{
    const struct answer *answer = &prices->answers[find_answer(prices, ends_of(stage), rest_of(stage))];
    return answer->rest ? &answer->price : NULL;
}

// --- prices ------------------------------------------------------------------------------------

// The quickest ways, remembered as the stage's price with nothing in flight.
static bool price_quickest(struct tps_prices *prices, struct tps_stage stage, struct tps_price *price,
                           struct error *error)
{
    stage.in_flight = 0;
    const struct tps_price *known = recall(prices, &stage);
    if (known) {
        *price = *known;
        return true;
    }
    take_stage(prices, &stage);
    *price = quickest(prices, stage.replicas);
    return remember(prices, &stage, *price, error);
}

bool tps_price(struct tps_prices *prices, const struct tps_stage *stage, struct tps_price *price, struct error *error)
{
    if (!price_quickest(prices, *stage, price, error))
        return false;
    if (stage->in_flight <= price->until)
        return true;
    const struct tps_price *known = recall(prices, stage);
    if (known) {
        *price = *known;
        return true;
    }
    take_stage(prices, stage);
    fill_knapsack(prices, stage);
    *price = (struct tps_price){ .load = INFINITY };
    const enum knapsack_answer answer = knapsack_bound(&prices->knapsack, &price->load);
    price->is_exact = answer != KNAPSACK_BOUND;
    return answer == KNAPSACK_NO_MEMORY ? error_no_memory(error, "the choice of ways")
                                        : remember(prices, stage, *price, error);
}

bool tps_price_exactly(struct tps_prices *prices, const struct tps_stage *stage, struct tps_price *price,
                       uint32_t *variant, struct error *error)
{
    take_stage(prices, stage);
    fill_knapsack(prices, stage);
    *price = (struct tps_price){ .load = INFINITY };
    const enum knapsack_answer answer = knapsack_solve(&prices->knapsack, &price->load, prices->chosen);
    if (answer == KNAPSACK_NO_MEMORY)
        return error_no_memory(error, "the choice of ways");
    price->is_exact = answer != KNAPSACK_BOUND;
    for (size_t l = 0; variant && answer != KNAPSACK_NONE && l < prices->layer_count; l++)
        variant[prices->layers[l]] = prices->choices[prices->first[l] + prices->chosen[l]].way->variant;
    struct tps_price settled = *price;
    settled.is_exact = true;  // of it no more is known to be found out
    return remember(prices, stage, settled, error);
}

const uint32_t *tps_degrees(const struct tps_prices *prices, size_t *count)
{
    *count = prices->degree_count;
    return prices->degrees;
}

uint64_t tps_work(const struct tps_prices *prices, uint32_t downset)
{
    return prices->work[downset];
}

uint64_t tps_time(const struct tps_prices *prices, size_t degree, uint32_t downset)
{
    return prices->time[degree][downset];
}

uint64_t tps_lacking(const struct tps_prices *prices, size_t degree, uint32_t downset)
{
    return prices->lacking[degree][downset];
}

struct tps_prices *tps_prices_create(const struct cut_view *view, struct error *error)
{
    struct tps_prices *prices = calloc(1, sizeof *prices);
    if (!prices) {
        error_no_memory(error, "the prices of stages");
        return NULL;
    }
    prices->view = view;
    prices->ns_per_byte = view->machines.bytes_per_second ? 1e9 / (double)view->machines.bytes_per_second : 0;
    prices->micro_batches = tps_micro_batches(view->request, &view->machines);
    if (!list_ways(prices) || !index_edges(prices) || !make_room(prices))
        error_no_memory(error, "the prices of stages");
    else if (fill_sums(prices, error))
        return prices;
    tps_prices_free(prices);
    return NULL;
}
