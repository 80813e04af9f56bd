#include "partitioner/cuts/stage_price.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/number.h"
#include "partitioner/cuts/cut_parts.h"
#include "partitioner/cuts/stage_memo.h"
#include "partitioner/search/recompute_answers.h"
#include "partitioner/search/units.h"
#include "profiler/profile_reorder.h"

enum {
    NARROW_LABELS = 32,    // for the quickest way of a stage that has its ranks to itself, during the search
    LEAST_LABELS = 20000,  // the same for a proof
    EVERY_LABELS = 8000,   // for all times that some way of it takes, for a proof;
    SHORT_LAYERS = 24,     // for at most so many layers there are more:
    SHORT_LABELS = 40000,
    FRONT_LABELS = 12,     // for a position of a front, during the search
    EXACT_LABELS = 600,    // the same for a proof
    FEW_LAYERS = 10,       // so few layers have so few ways that all can be listed:
    FEW_LABELS = 4000,
    MOST_ORDERS = 720,     // of the layers of a stage, for a proof
    HASTY_BUDGET = 1000,   // below it, any way will do that is found at once
    PATIENT_BUDGET = 400000,  // from it on, ways are searched for as long as for a proof where hardly anything fits
};

#define ANY_CAPACITY (UINT64_MAX / 4)

// --- a stage as an interval of layers -------------------------------------------------------

// The layers of a stage as [first, end) of some order.
struct range {
    struct intervals *intervals;
    uint32_t first, end;
    struct profile *profile;  // made for it, or NULL
    uint32_t *order;          // of all layers; NULL: the profile's own
};

static void range_close(struct range *range)
{
    free(range->order);
    if (!range->profile)
        return;
    intervals_free(range->intervals);
    profile_free(range->profile);
}

// Opens a range in the order of the places. If `layers` is given, they stand between the layers in front of the stage
// and those behind it.
static bool range_open(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                       const uint32_t *layers, struct range *range, struct error *error)
{
    const struct places *places = problem->places;
    const struct stage_view *view = &problem->views[problem->view_of[stage]];
    *range = (struct range){ .intervals = view->intervals, .first = places_size(places, from),
                             .end = places_size(places, to) };
    view->intervals->until_ns = problem->context->deadline_ns;  // context_reserve() makes it earlier
    if (places->is_chain)
        return true;
    uint32_t *order = malloc((places->layers + (size_t)1) * sizeof order[0]);
    if (!order)
        return error_no_memory(error, "a search");
    uint32_t count = places_between(places, 0, from, order);
    places_between(places, from, to, order + count);
    if (layers)
        memcpy(order + count, layers, (range->end - range->first) * sizeof layers[0]);
    places_between(places, to, places->full, order + range->end);
    range->profile = profile_reorder(view->profile, order, error);
    range->intervals = range->profile ? intervals_create(range->profile, &problem->request->storage, error) : NULL;
    if (!range->intervals) {
        profile_free(range->profile);
        free(order);
        return false;
    }
    range->order = order;
    range->intervals->splits = view->intervals->splits;
    range->intervals->replicas = view->intervals->replicas;
    range->intervals->until_ns = view->intervals->until_ns;
    problem->context->work += 8 + places->layers / 2;
    return true;
}

// --- sizes ------------------------------------------------------------------------------------

// If a pattern says what is recomputed, these are the sizes of the stage.
static bool fill_pattern(struct cut_problem *problem, struct stage_price *price, const struct range *range,
                         struct error *error)
{
    struct recompute_choice choice;
    if (!units_choice(problem->request->units, range->intervals, range->first, range->end,
                      &problem->schedule.slots[price->stage], &choice, error))
        return false;
    price->workspace_bytes = choice.workspace_bytes;
    price->bytes = choice.bytes;
    price->away = choice.away;
    problem->context->work += 1 + (range->end - range->first) / 4;
    free(choice.segments);
    return true;
}

static bool fill_sizes(struct cut_problem *problem, struct stage_price *price, struct error *error)
{
    struct range range;
    if (!range_open(problem, price->stage, price->from, price->to, NULL, &range, error))
        return false;
    if (problem->request->units) {
        const bool good = fill_pattern(problem, price, &range, error);
        range_close(&range);
        return good;
    }
    const uint32_t splits = problem->schedule.order->splits;
    const struct slots *slots = &problem->schedule.slots[price->stage];
    const struct stage_bytes whole = interval_bytes(range.intervals, range.first, range.end);
    const struct stage_bytes bytes = stage_bytes_of_split(whole, splits);
    price->workspace_bytes = bytes.transient;
    price->bytes = stage_memory_of(&bytes, slots).peak_bytes - bytes.transient;
    price->away = stage_away_of(&whole, splits, slots);
    problem->context->work += 1 + (range.end - range.first) / 16;
    range_close(&range);
    return true;
}

struct stage_price *stage_price_of(struct cut_problem *problem, struct stage_table *table, uint32_t stage,
                                   uint32_t from, uint32_t to, struct error *error)
{
    stage = problem->alike[stage];
    struct stage_price *price = stage_table_get(table, stage, from, to);
    if (price)
        return price;
    price = calloc(1, sizeof *price);
    if (!price || !stage_table_add(table, stage, from, to, price)) {
        free(price);
        return error_null(error_no_memory(error, "a search"));
    }
    price->stage = stage;
    price->from = from;
    price->to = to;
    return fill_sizes(problem, price, error) ? price : NULL;
}

// --- ways to recompute ------------------------------------------------------------------------

// A question about a stage, and where its answers go.
struct asking {
    struct cut_problem *problem;
    struct stage_price *price;
    uint64_t capacity;
    enum recompute_wanted wanted;
    size_t most_labels;
    uint32_t layer_count, *layers, *order;  // of the stage: ascending, and in the order so far
    bool *is_placed;
    uint32_t tried, most_orders;
    bool cut;                               // something was left out
    uint64_t least_ns;                      // no way in any order that was tried takes less
    struct error *error;
};

// Whether another choice is as good in all that is wanted.
static bool is_beaten(const struct asking *asking, const struct recompute_choice *choice)
{
    const bool any_time = asking->wanted == RECOMPUTE_LEAST || asking->wanted == RECOMPUTE_FRONT;
    const bool any_bytes = asking->wanted == RECOMPUTE_LEAST || asking->wanted == RECOMPUTE_EVERY;
    for (size_t i = 0; i < asking->price->count; i++) {
        const struct stage_choice *other = &asking->price->choices[i];
        if ((any_time ? other->forward_ns <= choice->forward_ns : other->forward_ns == choice->forward_ns)
            && (any_bytes || (other->bytes <= choice->bytes && other->workspace_bytes <= choice->workspace_bytes
                              && other->away.moved_bytes <= choice->away.moved_bytes
                              && other->away.host_bytes <= choice->away.host_bytes)))
            return true;
    }
    return false;
}

static bool add_choice(struct asking *asking, struct recompute_choice *choice, uint32_t first)
{
    struct stage_price *price = asking->price;
    struct stage_choice *grown = realloc(price->choices, (price->count + 1) * sizeof *grown);
    if (!grown)
        return error_no_memory(asking->error, "a search");
    price->choices = grown;
    struct stage_choice made = { choice->forward_ns, choice->bytes, choice->workspace_bytes, choice->away,
                                 choice->segments, choice->count, NULL };
    if (asking->order && !(made.layers = array_copy(asking->order, asking->layer_count, sizeof made.layers[0])))
        return error_no_memory(asking->error, "a search");
    choice->segments = NULL;  // taken
    for (size_t i = 0; i < made.count; i++)
        made.segments[i] = (struct segment){ made.segments[i].first - first, made.segments[i].end - first };
    size_t place = price->count++;
    for (; place > 0 && price->choices[place - 1].forward_ns > made.forward_ns; place--)
        price->choices[place] = price->choices[place - 1];
    price->choices[place] = made;
    return true;
}

// Listing ways is cheap compared with what else counts as work. If each rank has one stage of a chain, memory is
// tight more often, and more ways are listed for the same budget.
static void count_labels(struct cut_problem *problem, uint64_t made)
{
    const bool is_plain = problem->places->is_chain && problem->schedule.is_alone;
    problem->context->work += 1 + made / (is_plain ? 32 : 8);
}

// All answers are about the profile as measured.
static struct recompute_answers *answers_of(const struct cut_problem *problem, uint32_t stage)
{
    return cut_variant(problem, stage) ? NULL : problem->request->answers;
}

// Lists the ways in one order of the stage's layers.
static bool ask_order(struct asking *asking)
{
    struct cut_problem *problem = asking->problem;
    struct stage_price *price = asking->price;
    struct range range;
    struct recompute_list list = { 0 };
    uint64_t made = 0;
    if (!range_open(problem, price->stage, price->from, price->to, asking->order, &range, asking->error))
        return false;
    const struct recompute_question question = { range.first, range.end, problem->schedule.slots[price->stage],
                                                 asking->capacity, asking->wanted, asking->most_labels };
    bool good = recompute_answers_find(answers_of(problem, price->stage), range.intervals, range.order, &question,
                                       &made, &list, asking->error);
    asking->cut |= !list.complete;
    if (asking->wanted == RECOMPUTE_LEAST && list.least_ns < asking->least_ns)
        asking->least_ns = list.least_ns;
    for (size_t i = 0; good && i < list.count; i++)
        if (!is_beaten(asking, &list.at[i]))
            good = add_choice(asking, &list.at[i], range.first);
    count_labels(problem, made);
    recompute_list_clear(&list);
    range_close(&range);
    asking->tried++;
    return good;
}

// Whether all layers of the stage from which a layer reads are placed.
static bool is_ready(const struct asking *asking, uint32_t index)
{
    const struct profile *profile = asking->problem->places->profile;
    for (size_t e = 0; e < profile->edge_count; e++)
        for (uint32_t i = 0; profile->edges[e].to == asking->layers[index] && i < index; i++)
            if (asking->layers[i] == profile->edges[e].from && !asking->is_placed[i])
                return false;
    return true;
}

// Tries one order after the other, the ascending one first.
static bool ask_orders(struct asking *asking, uint32_t placed)
{
    struct search_context *context = asking->problem->context;
    const bool is_enough = asking->wanted == RECOMPUTE_LEAST && asking->price->count > 0
                        && asking->price->choices[0].forward_ns == 0;
    if (is_enough || (asking->tried > 0 && asking->cut))
        return true;
    if (asking->tried == asking->most_orders || (asking->tried > 0 && context_is_over(context, context->budget))) {
        asking->cut = true;
        return true;
    }
    if (placed == asking->layer_count)
        return ask_order(asking);
    for (uint32_t i = 0; i < asking->layer_count; i++) {
        if (asking->is_placed[i] || !is_ready(asking, i))
            continue;
        asking->is_placed[i] = true;
        asking->order[placed] = asking->layers[i];
        if (!ask_orders(asking, placed + 1))
            return false;
        asking->is_placed[i] = false;
    }
    return true;
}

static bool ask_graph(struct asking *asking)
{
    const struct places *places = asking->problem->places;
    const struct stage_price *price = asking->price;
    const size_t room = places->layers + (size_t)1;
    asking->layers = malloc(room * sizeof asking->layers[0]);
    asking->order = malloc(room * sizeof asking->order[0]);
    asking->is_placed = calloc(room, sizeof asking->is_placed[0]);
    bool good = asking->layers && asking->order && asking->is_placed;
    if (good) {
        asking->layer_count = places_between(places, price->from, price->to, asking->layers);
        good = ask_orders(asking, 0);
    } else {
        error_no_memory(asking->error, "a search");
    }
    free(asking->layers);
    free(asking->order);
    free(asking->is_placed);
    return good;
}

// Finds the one way that a pattern leaves.
static bool find_pattern(struct cut_problem *problem, struct stage_price *price, uint64_t capacity, struct error *error)
{
    struct range range;
    struct recompute_choice choice;
    struct asking asking = { .problem = problem, .price = price, .error = error };
    price->count = 0;
    price->complete = true;
    price->least_ns = NO_TIME;
    if (!range_open(problem, price->stage, price->from, price->to, NULL, &range, error))
        return false;
    bool good = units_choice(problem->request->units, range.intervals, range.first, range.end,
                             &problem->schedule.slots[price->stage], &choice, error);
    if (good && add_clamped(choice.bytes, choice.workspace_bytes) <= capacity) {
        price->least_ns = choice.forward_ns;
        good = add_choice(&asking, &choice, range.first);
    }
    free(choice.segments);
    range_close(&range);
    return good;
}

// `proves`: list all that may matter to a proof, or say that the list is incomplete. The last lists of a search may
// take as much work again as its budget, and no more. After that, lists are short, but still of the kind that a proof
// needs.
static bool find_choices(struct cut_problem *problem, struct stage_price *price, uint64_t capacity, bool proves,
                         struct error *error)
{
    const bool exact = proves && !context_is_over(problem->context, multiply_clamped(2, problem->context->budget));
    const bool is_alone = problem->schedule.is_alone && !problem->request->storage.activations_on_host;
    const bool any_time = problem->is_monotone || !proves;  // less time is never worse
    const uint32_t layers = places_size(problem->places, price->to) - places_size(problem->places, price->from);
    struct asking asking = { .problem = problem, .price = price, .capacity = capacity,
                             .most_orders = exact ? MOST_ORDERS : 1, .least_ns = NO_TIME, .error = error };
    if (is_alone && capacity < ANY_CAPACITY) {
        asking.wanted = any_time ? RECOMPUTE_LEAST : RECOMPUTE_EVERY;
        asking.most_labels = !exact ? NARROW_LABELS : any_time ? LEAST_LABELS
                           : layers <= SHORT_LAYERS ? SHORT_LABELS : EVERY_LABELS;
    } else {
        asking.wanted = any_time ? RECOMPUTE_FRONT : RECOMPUTE_EVERY_FRONT;
        asking.most_labels = !exact ? FRONT_LABELS : layers <= FEW_LAYERS ? FEW_LABELS : EXACT_LABELS;
    }
    if (problem->request->units)
        return find_pattern(problem, price, capacity, error);
    if (!proves && problem->context->budget < HASTY_BUDGET)
        asking.most_labels = 1;
    price->count = 0;
    if (!(problem->places->is_chain ? ask_order(&asking) : ask_graph(&asking)))
        return false;
    price->complete = !asking.cut;
    if (price->complete)
        price->least_ns = price->count > 0 ? price->choices[0].forward_ns : NO_TIME;
    else if (problem->places->is_chain && asking.wanted == RECOMPUTE_LEAST)
        price->least_ns = asking.least_ns;
    else
        price->least_ns = stage_price_floor(problem, price->stage, price->from, price->to);
    return true;
}

struct stage_price *stage_price_choices(struct cut_problem *problem, struct stage_table *table, uint32_t stage,
                                        uint32_t from, uint32_t to, struct error *error)
{
    struct stage_price *price = stage_price_of(problem, table, stage, from, to, error);
    if (!price || price->has_choices)
        return price;
    const bool proves = table == &problem->exact;
    if (!find_choices(problem, price, cut_capacity(problem, price->stage), proves, error))
        return NULL;
    price->has_choices = true;
    price->fits = price->count > 0;
    // A stage that does not fit lacks something, and the search needs to know how much.
    const bool complete = price->complete;
    const uint64_t least = price->least_ns;
    if (!price->fits && !proves && !find_choices(problem, price, ANY_CAPACITY, false, error))
        return NULL;
    if (!price->fits) {
        price->complete = complete;
        price->least_ns = least;
    }
    return price;
}

static bool copy_choice(const struct stage_choice *from, struct stage_choice *to, struct error *error)
{
    struct segment *segments = array_copy(from->segments, from->count, sizeof segments[0]);
    if (!segments)
        return error_no_memory(error, "a search");
    free(to->segments);
    *to = *from;
    to->segments = segments;
    return true;
}

bool stage_price_insist(struct cut_problem *problem, struct stage_price *price, struct error *error)
{
    const uint64_t budget = problem->request->limits.budget;
    if (price->fits || !problem->places->is_chain || !problem->schedule.is_alone || (budget && budget < PATIENT_BUDGET))
        return true;
    const struct stage_price *exact =
        stage_price_choices(problem, &problem->exact, price->stage, price->from, price->to, error);
    if (!exact || !exact->fits)
        return exact != NULL;
    price->choices = price->choices ? price->choices : calloc(1, sizeof price->choices[0]);
    if (!price->choices)
        return error_no_memory(error, "a search");
    price->fits = true;
    price->complete = exact->complete;
    price->least_ns = exact->least_ns;
    for (; price->count > 1; price->count--)
        free(price->choices[price->count - 1].segments);
    price->count = 1;
    return copy_choice(&exact->choices[0], &price->choices[0], error);
}

// --- bounds -------------------------------------------------------------------------------------

static void put_held(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to,
                     struct stage_bytes *bytes)
{
    const struct stage_view *view = &problem->views[problem->view_of[stage]];
    const struct stage_states states = { .layers = places_size(problem->places, to)
                                             - places_size(problem->places, from),
                                         .weights = cut_sum(problem, stage, SUM_WEIGHTS, from, to),
                                         .optimizer = cut_sum(problem, stage, SUM_OPTIMIZER, from, to),
                                         .gradients = cut_sum(problem, stage, SUM_GRADIENTS, from, to),
                                         .state = cut_sum(problem, stage, SUM_STATE, from, to),
                                         .statistics = cut_sum(problem, stage, SUM_STATISTICS, from, to) };
    storage_put_bytes(&problem->request->storage, view->intervals->replicas, &states, bytes);
}

uint64_t stage_price_most_bytes(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct stage_view *view = &problem->views[problem->view_of[stage]];
    if (!storage_is_plain(&problem->request->storage) || problem->request->units)
        return UINT64_MAX;
    struct stage_bytes bytes = { .input = view->cut_bytes[from], .output = view->cut_bytes[to],
                                 .input_life = INPUT_UNTIL_W,
                                 .kept = cut_sum(problem, stage, SUM_SAVED, from, to),
                                 .shared_by_parts = cut_sum(problem, stage, SUM_SHARED_BY_PARTS, from, to),
                                 .kept_through = cut_sum(problem, stage, SUM_OUTPUTS, from, to),
                                 .held = cut_sum(problem, stage, SUM_HELD, from, to),
                                 .transient = cut_sum(problem, stage, SUM_OUTPUTS, from, to) };
    bytes.transient_with_recompute = bytes.transient;
    put_held(problem, stage, from, to, &bytes);
    bytes = stage_bytes_of_split(bytes, problem->schedule.order->splits);
    return stage_memory_of(&bytes, &problem->schedule.slots[stage]).peak_bytes;
}

uint64_t stage_price_states(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to)
{
    struct stage_bytes bytes = { 0 };
    put_held(problem, stage, from, to, &bytes);
    return stage_memory_of(&bytes, &problem->schedule.slots[stage]).peak_bytes;
}

uint64_t stage_price_fixed(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct stage_view *view = &problem->views[problem->view_of[stage]];
    struct stage_bytes bytes = { .input = view->cut_bytes[from], .output = view->cut_bytes[to],
                                 .input_life = INPUT_UNTIL_F };
    put_held(problem, stage, from, to, &bytes);
    const struct slots *slots = &problem->schedule.slots[stage];
    const uint32_t life = min_u32(slots->input[INPUT_UNTIL_F],
                                  min_u32(slots->input[INPUT_UNTIL_I], slots->input[INPUT_UNTIL_W]));
    return stage_fixed_bytes(stage_bytes_of_split(bytes, problem->schedule.order->splits), slots, life);
}

static uint64_t find_floor(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct stage_view *view = &problem->views[problem->view_of[stage]];
    const uint64_t fixed = stage_price_fixed(problem, stage, from, to), capacity = cut_capacity(problem, stage);
    const uint32_t slots = problem->schedule.slots[stage].kept;
    if (fixed > capacity)
        return NO_TIME;
    if (problem->request->units)
        return units_recompute_ns(problem->request->units, view->intervals, places_size(problem->places, from),
                                  places_size(problem->places, to));
    if (problem->floors && stage_price_surely_fits(problem, stage, from, to))
        return 0;
    if (problem->floors)
        return recompute_bound(problem->floors, problem->alike[stage], places_size(problem->places, from),
                               places_size(problem->places, to));
    if (slots == 0 || problem->request->storage.activations_on_host)
        return 0;
    // Tensors that the parts of a sequence have in common take at least as much as if each part kept its
    // share. This also holds for what is recomputed.
    const uint64_t room = multiply_clamped((capacity - fixed) / slots + 1, problem->schedule.order->splits);
    if (view->sums[SUM_SAVED][to] - view->sums[SUM_SAVED][from] <= room)
        return 0;
    uint64_t least = 0;
    for (uint32_t k = 0; k < VIEW_PRICES; k++) {
        const uint64_t cost = view->sums[SUM_PRICES + k][to] - view->sums[SUM_PRICES + k][from];
        const double spent = view->price[k] * (double)room * (1 + 1e-9) + 1;
        if (spent < (double)cost && cost - (uint64_t)spent > least)
            least = cost - (uint64_t)spent;
    }
    return least > 0 ? least - 1 : 0;
}

uint64_t stage_price_floor(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to)
{
    uint64_t floor_ns;
    if (!problem->known_floors)
        return find_floor(problem, stage, from, to);
    if (!stage_memo_get(problem->known_floors, stage, from, to, &floor_ns)) {
        floor_ns = find_floor(problem, stage, from, to);
        stage_memo_set(problem->known_floors, stage, from, to, floor_ns);
    }
    return floor_ns;
}

uint64_t stage_price_known_floor(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to)
{
    stage = problem->alike[stage];
    const struct stage_price *price = stage_table_get(&problem->exact, stage, from, to);
    if (!price || !price->has_choices)
        price = stage_table_get(&problem->narrow, stage, from, to);
    // During the search not all orders of a stage's layers are tried.
    const bool holds = price && price->has_choices && problem->is_monotone
                    && (problem->places->is_chain || price->complete);
    return holds ? price->least_ns : stage_price_floor(problem, stage, from, to);
}

bool stage_price_find_least(struct cut_problem *problem, struct stage_price *price, struct error *error)
{
    struct range range;
    uint64_t made = 0;
    if (price->has_least_bytes)
        return true;
    if (problem->request->units) {  // there is one way
        price->least_bytes = add_clamped(price->bytes, price->workspace_bytes);
        price->has_least_bytes = price->is_least = true;
        return true;
    }
    if (!range_open(problem, price->stage, price->from, price->to, NULL, &range, error))
        return false;
    const struct recompute_question question = { .first = range.first, .end = range.end,
                                                 .slots = problem->schedule.slots[price->stage] };
    const bool good = recompute_answers_least(answers_of(problem, price->stage), range.intervals, range.order,
                                              &question, &price->least_bytes, &price->is_least, &made, error);
    price->is_least &= problem->places->is_chain;
    price->has_least_bytes = true;
    count_labels(problem, made);
    range_close(&range);
    return good;
}

void stage_prices_clear(struct stage_table *table)
{
    size_t cursor = 0;
    for (struct stage_price *price; (price = stage_table_next(table, &cursor));) {
        for (size_t i = 0; i < price->count; i++) {
            free(price->choices[i].segments);
            free(price->choices[i].layers);
        }
        free(price->choices);
        free(price);
    }
    stage_table_clear(table);
}
