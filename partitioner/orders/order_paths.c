// What mixtures of paths say of all chains, and chains that come of them. A mixture prices every
// stage by itself (path_game.h), so that the cheapest chain is a shortest way through the net of
// stages, and no plan is below it. Where that leaves a gap, the places at which one of the stages
// may end are parted in two, and each half has a mixture of its own:
//
//     ends of stage 3        40 .. 90: 3403 us
//                          /                    \            .
//                 40 .. 61: 3551 us        62 .. 90: 3448 us
//
// The half with the least bound comes next; a half without any chain below the best plan is left,
// and so is, in any half, a stage whose cheapest chain is not below it.
#include <stdlib.h>
#include <string.h>

#include "partitioner/orders/order_box.h"

// Times that prices can be multiplied with.
#define MOST_NS ((uint64_t)1 << 39)

// Mixtures of one part, and boxes that are kept at most.
enum { MOST_TURNS = 60, MOST_SLOW = 8, MOST_BOXES = 100000 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool must_stop(const struct paths *paths)
{
    return paths->orders->coupled->work > paths->until || coupled_must_stop(paths->orders->coupled);
}

static bool fail_memory(struct paths *paths)
{
    paths->failed = true;
    return error_no_memory(paths->error, "a search");
}

// --- boxes --------------------------------------------------------------------------------

static bool comes_first(const void *of, uint32_t a, uint32_t b)
{
    const struct paths *paths = of;
    const uint64_t x = paths->boxes[a]->bound_ns, y = paths->boxes[b]->bound_ns;
    return x != y ? x < y : a < b;
}

static struct box *box_create(const struct paths *paths)
{
    const size_t stages = paths->orders->stages;
    const size_t prices = stages * PATH_PARTS * sizeof(uint64_t), ends = (stages + 1) * sizeof(uint32_t);
    struct box *box = malloc(sizeof *box + prices + 2 * ends);
    if (!box)
        return NULL;
    box->bound_ns = 0;
    box->prices = (uint64_t *)(box + 1);
    box->from = (uint32_t *)((char *)box->prices + prices);
    box->to = box->from + stages + 1;
    return box;
}

static bool add_box(struct paths *paths, struct box *box)
{
    if (paths->box_count == paths->box_room) {
        const size_t room = 2 * paths->box_room + 64;
        struct box **grown = realloc(paths->boxes, room * sizeof *grown);
        paths->boxes = grown ? grown : paths->boxes;
        uint32_t *heap = grown ? realloc(paths->heap.nodes, room * sizeof *heap) : NULL;
        paths->heap.nodes = heap ? heap : paths->heap.nodes;
        if (!grown || !heap) {
            free(box);
            return fail_memory(paths);
        }
        paths->box_room = room;
    }
    paths->boxes[paths->box_count] = box;
    node_heap_push(&paths->heap, (uint32_t)paths->box_count++, comes_first, paths);
    return true;
}

// --- the cheapest chain ---------------------------------------------------------------------

// What it takes to find a longest path.
static uint64_t time_units(const struct orders *orders)
{
    return (uint64_t)orders->stages * orders->pattern.micro_batches * (1 + orders->pattern.goes_on) / 10;
}

// The cheapest chain as a plan: its longest path and itself take part in the game.
static uint64_t time_cheapest(struct paths *paths)
{
    const struct orders *orders = paths->orders;
    struct order_chain *chain = &paths->chain;
    uint64_t latency;
    for (uint32_t s = 0; s < orders->stages; s++) {
        const struct offer *offer = &paths->offers[paths->next[order_cell(orders, s, chain->at[s])]];
        chain->at[s + 1] = offer->to;
        chain->as[s] = offer->edge->edge.stage;
        memcpy(&paths->parts[s * PATH_PARTS], offer->parts, sizeof offer->parts);
    }
    const uint64_t time = path_longest(&orders->pattern, paths->room, chain->as, paths->counts, &latency);
    path_game_add_path(paths->game, paths->counts, latency);
    path_game_add_plan(paths->game, paths->parts, chain->at);
    orders->coupled->work += 2 + time_units(orders);
    return time;
}

// --- plans ----------------------------------------------------------------------------------

// What the stages of the chain must recompute; true where that is what it looked like.
static bool price_chain(struct paths *paths, bool *fits)
{
    struct orders *orders = paths->orders;
    const uint32_t *at = paths->chain.at;
    bool as_known = true;
    *fits = true;
    for (uint32_t s = 0; s < orders->stages && *fits; s++) {
        struct order_stage *of = order_stage_of(orders, s, at[s], at[s + 1], paths->error);
        if (of && !of->fits_as_it_is)
            of = order_front(orders, s, at[s], at[s + 1], paths->error);
        if (!of) {
            paths->failed = true;
            return false;
        }
        const uint64_t least = of->fits_as_it_is ? 0 : of->least_ns;
        *fits = least != NO_ORDER;
        order_chain_set(&paths->chain, s, of, *fits ? least : 0);
        as_known &= !order_net_reprice(&paths->net, orders, s, at[s], at[s + 1], least);
    }
    return as_known;
}

// Plans whose stages were cheaper than they are take no part any more.
static void forget_plans(struct paths *paths)
{
    paths->game->plan_count = paths->game->plan_turn = 0;
}

// The chain that was found cheapest may be better than the best plan. True where something about its
// stages is news, so that it is no longer what it was.
static bool try_chain(struct paths *paths, const struct box *box)
{
    struct orders *orders = paths->orders;
    const size_t bytes = ((size_t)orders->stages + 1) * sizeof paths->tried[0];
    bool fits;
    const bool as_known = price_chain(paths, &fits), again = memcmp(paths->tried, paths->chain.at, bytes) == 0;
    if (paths->failed)
        return false;
    memcpy(paths->tried, paths->chain.at, bytes);
    if (fits && !again) {
        const uint64_t lost = orders->lost_ns;
        order_chain_finish(&paths->chain, box->bound_ns);
        orders->lost_ns = lost;
        paths->failed |= paths->chain.failed;
    }
    if (as_known)
        return false;
    forget_plans(paths);
    return true;
}

// --- one box ----------------------------------------------------------------------------------

static bool is_leaf(const struct orders *orders, const struct box *box)
{
    for (uint32_t s = 0; s <= orders->stages; s++)
        if (box->from[s] != box->to[s])
            return false;
    return true;
}

static void use_mixture(struct paths *paths, uint64_t *prices, uint64_t *latency)
{
    const struct orders *orders = paths->orders;
    uint64_t unused;
    path_game_solve(paths->game);
    path_game_prices(paths->game, prices, latency);
    path_game_average(paths->game, paths->parts);
    for (uint32_t s = 0; s < orders->stages; s++) {
        const uint64_t *parts = &paths->parts[s * PATH_PARTS];
        struct pattern_stage *as = &paths->chain.as[s];
        as->forward_ns = parts[PATH_FORWARD];
        as->backward_ns = parts[PATH_BACKWARD];
        as->forward_busy_ns = parts[PATH_THERE];
        as->backward_busy_ns = parts[PATH_BACK];
    }
    if (path_longest(&orders->pattern, paths->room, paths->chain.as, paths->counts, &unused) > 0)
        path_game_add_path(paths->game, paths->counts, unused);
    orders->coupled->work += 5 + paths->game->path_count * paths->game->plan_count / 24 + time_units(orders);
}

static void choose_plans(struct paths *paths, const struct box *box)
{
    for (size_t i = 0; i < paths->game->plan_count; i++) {
        struct game_plan *plan = &paths->game->plans[i];
        plan->is_in = true;
        for (uint32_t s = 0; s <= paths->orders->stages; s++)
            plan->is_in &= box_holds(box, s, plan->places[s]);
    }
}

// Whether there may be a chain below the best plan; raises the box's bound.
static bool bound_box(struct paths *paths, struct box *box, bool once)
{
    struct orders *orders = paths->orders;
    const size_t parts = (size_t)orders->stages * PATH_PARTS;
    uint64_t *prices = malloc(parts * sizeof prices[0]), latency = box->latency;
    unsigned slow = 0;
    if (!prices)
        return fail_memory(paths);
    memcpy(prices, box->prices, parts * sizeof prices[0]);
    const uint64_t inherited = box->bound_ns;
    bool open = box_list(paths, box);
    const uint64_t by_loops = box->bound_ns;
    choose_plans(paths, box);
    for (unsigned turn = 0; turn < MOST_TURNS && open && !paths->failed; turn++) {
        const uint64_t cheapest = box_find_cheapest(paths, box, prices);
        open = cheapest != NO_ORDER;
        const uint64_t bound = open ? (cheapest + latency + ((1 << GAME_BITS) - 1)) >> GAME_BITS : NO_ORDER;
        const uint64_t before = box->bound_ns;
        if (bound > box->bound_ns) {
            box->bound_ns = bound;
            memcpy(box->prices, prices, parts * sizeof prices[0]);
            box->latency = latency;
        }
        if (!open || bound >= orders->best.value_ns) {
            open = false;
            break;
        }
        const uint64_t time = time_cheapest(paths);
        if (time < orders->best.value_ns && !orders->only_bounds && try_chain(paths, box)) {
            open = box_list(paths, box);
            continue;
        }
        open = box->bound_ns < orders->best.value_ns;
        box_leave_dear(paths, box, latency);
        const uint64_t gap = orders->best.value_ns - (open ? box->bound_ns : 0);
        slow = box->bound_ns - before > gap / 50 ? 0 : slow + 1;
        if (!open || once || slow == MOST_SLOW || must_stop(paths))
            break;
        use_mixture(paths, prices, &latency);
        if (paths->game->value_ns < (double)box->bound_ns + (double)gap / 20)
            break;
    }
    box->asks_loops &= by_loops > inherited || box->bound_ns == by_loops;
    free(prices);
    return open;
}

// --- halves -----------------------------------------------------------------------------------

static double work_at(const struct orders *orders, uint32_t place)
{
    return (double)(orders->graph->sums[SUM_FORWARD][place] + orders->graph->sums[SUM_BACKWARD][place]);
}

// The stage whose end the plans of the mixture agree on least, and where to part it.
static bool choose_cut(const struct paths *paths, const struct box *box, uint32_t *at, uint32_t *last)
{
    double most = 0;
    for (uint32_t s = 1; s < paths->orders->stages; s++) {
        double sum = 0, square = 0, weights = 0, numbers = 0;
        uint32_t least = UINT32_MAX, largest = 0;
        for (size_t i = 0; i < paths->game->plan_count; i++) {
            const struct game_plan *plan = &paths->game->plans[i];
            if (!plan->is_in || plan->weight < 1e-6)
                continue;
            const double work = work_at(paths->orders, plan->places[s]);
            weights += plan->weight;
            sum += plan->weight * work;
            square += plan->weight * work * work;
            numbers += plan->weight * plan->places[s];
            least = plan->places[s] < least ? plan->places[s] : least;
            largest = plan->places[s] > largest ? plan->places[s] : largest;
        }
        const double spread = weights > 0 ? square / weights - sum / weights * (sum / weights) : 0;
        if (least >= largest || spread <= most)
            continue;
        most = spread;
        *at = s;
        *last = (uint32_t)(numbers / weights);
        *last = *last < least ? least : *last >= largest ? largest - 1 : *last;
    }
    if (most > 0)
        return true;
    uint32_t widest = 0;
    for (uint32_t s = 1; s < paths->orders->stages; s++) {
        const uint32_t width = box->to[s] - box->from[s];
        if (width > widest) {
            widest = width;
            *at = s;
            *last = box->from[s] + width / 2;
        }
    }
    return widest > 0;
}

static bool add_half(struct paths *paths, const struct box *box, uint32_t s, uint32_t from, uint32_t to)
{
    const size_t stages = paths->orders->stages;
    struct box *half = box_create(paths);
    if (!half)
        return fail_memory(paths);
    half->bound_ns = box->bound_ns;
    half->latency = box->latency;
    half->asks_loops = box->asks_loops;
    memcpy(half->prices, box->prices, stages * PATH_PARTS * sizeof half->prices[0]);
    memcpy(half->from, box->from, 2 * (stages + 1) * sizeof half->from[0]);
    half->from[s] = from;
    half->to[s] = to;
    if (bound_box(paths, half, true))
        return add_box(paths, half);
    free(half);
    return !paths->failed;
}

// A box of one chain.
static void finish(struct paths *paths, const struct box *box)
{
    struct orders *orders = paths->orders;
    bool fits = true;
    memcpy(paths->chain.at, box->from, ((size_t)orders->stages + 1) * sizeof box->from[0]);
    if (orders->only_bounds)
        orders_lose(orders, box->bound_ns);
    else
        price_chain(paths, &fits);
    if (!orders->only_bounds && !paths->failed && fits)
        order_chain_finish(&paths->chain, box->bound_ns);
    paths->failed |= paths->chain.failed;
}

// What no chain has of all is gone through no more.
static void shrink_net(struct paths *paths)
{
    for (uint32_t s = 0; s < paths->orders->stages; s++) {
        struct order_row *row = &paths->net.rows[s];
        size_t kept = 0;
        for (size_t i = paths->offer_at[s]; i < paths->offer_at[s + 1]; i++)
            row->at[kept++] = *paths->offers[i].edge;
        paths->net.count -= row->count - kept;
        row->count = kept;
    }
}

static bool open_box(struct paths *paths, struct box *box)
{
    uint32_t s = 0, last = 0;
    if (!bound_box(paths, box, false))
        return !paths->failed;
    if (paths->box_count == 1)
        shrink_net(paths);
    if (must_stop(paths)) {
        orders_lose(paths->orders, box->bound_ns);
    } else if (is_leaf(paths->orders, box) || !choose_cut(paths, box, &s, &last)) {
        finish(paths, box);
    } else {
        return add_half(paths, box, s, box->from[s], last) && add_half(paths, box, s, last + 1, box->to[s]);
    }
    return !paths->failed;
}

// --- the whole ----------------------------------------------------------------------------------

// All chains; its prices are those of the longest path of a plan without any time.
static bool add_all(struct paths *paths, uint64_t bound_ns)
{
    const struct orders *orders = paths->orders;
    struct box *all = box_create(paths);
    uint64_t latency;
    if (!all)
        return fail_memory(paths);
    all->bound_ns = bound_ns;
    all->asks_loops = true;
    for (uint32_t s = 0; s <= orders->stages; s++) {
        all->from[s] = s == orders->stages ? orders->downsets - 1 : 0;
        all->to[s] = s == 0 ? 0 : orders->downsets - 1;
    }
    for (uint32_t s = 0; s < orders->stages; s++)
        paths->chain.as[s] = order_pattern_stage(orders, s, 0, orders->downsets - 1, 0);
    path_longest(&orders->pattern, paths->room, paths->chain.as, paths->counts, &latency);
    path_game_add_path(paths->game, paths->counts, latency);
    paths->game->paths[0].weight = 1;
    path_game_prices(paths->game, all->prices, &all->latency);
    return add_box(paths, all);
}

static void search(struct paths *paths, uint64_t *bound_ns)
{
    struct orders *orders = paths->orders;
    const uint64_t lost = orders->lost_ns;
    orders->lost_ns = NO_ORDER;
    bool good = add_all(paths, *bound_ns);
    while (good && paths->heap.count > 0) {
        const uint32_t index = node_heap_pop(&paths->heap, comes_first, paths);
        struct box *box = paths->boxes[index];
        if (box->bound_ns > *bound_ns)
            *bound_ns = box->bound_ns < orders->lost_ns ? box->bound_ns : *bound_ns;
        const bool is_done = box->bound_ns >= orders->best.value_ns;
        if (is_done || must_stop(paths) || paths->box_count > MOST_BOXES) {
            orders_lose(orders, box->bound_ns);
            break;
        }
        good = open_box(paths, box);
        free(box);
        paths->boxes[index] = NULL;
    }
    if (good) {
        const uint64_t least = orders->lost_ns < orders->best.value_ns ? orders->lost_ns : orders->best.value_ns;
        *bound_ns = larger(*bound_ns, least);
        if (*bound_ns > orders->best.value_ns)  // found in the last parts, and below all others
            *bound_ns = orders->best.value_ns;
    }
    orders->lost_ns = lost;
}

static bool begin(struct paths *paths)
{
    const struct orders *orders = paths->orders;
    const size_t cells = ((size_t)orders->stages + 1) * orders->downsets;
    const size_t parts = (size_t)orders->stages * PATH_PARTS;
    paths->offers = malloc((paths->net.count + 1) * sizeof paths->offers[0]);
    paths->offer_at = calloc((size_t)orders->stages + 1, sizeof paths->offer_at[0]);
    paths->ahead = malloc(cells * sizeof paths->ahead[0]);
    paths->behind = malloc(cells * sizeof paths->behind[0]);
    paths->rounds_ahead = malloc(cells * sizeof paths->rounds_ahead[0]);
    paths->rounds_behind = malloc(cells * sizeof paths->rounds_behind[0]);
    paths->loops = malloc(cells * sizeof paths->loops[0]);
    paths->next = malloc(cells * sizeof paths->next[0]);
    paths->parts = calloc(parts, sizeof paths->parts[0]);
    paths->tried = calloc((size_t)orders->stages + 1, sizeof paths->tried[0]);
    paths->counts = calloc(parts, sizeof paths->counts[0]);
    if (!paths->offers || !paths->offer_at || !paths->ahead || !paths->behind || !paths->rounds_ahead
        || !paths->rounds_behind || !paths->loops || !paths->next || !paths->parts || !paths->counts || !paths->tried)
        return fail_memory(paths);
    paths->game = path_game_create(orders->stages, paths->error);
    paths->room = path_room_create(&orders->pattern, paths->error);
    return paths->game && paths->room && loop_target_create(&paths->target, &orders->pattern, paths->error)
        && order_chain_create(&paths->chain, paths->orders, paths->error);
}

static void end(struct paths *paths)
{
    for (size_t i = 0; i < paths->box_count; i++)
        free(paths->boxes[i]);
    free(paths->boxes);
    free(paths->heap.nodes);
    path_game_free(paths->game);
    path_room_free(paths->room);
    order_chain_clear(&paths->chain);
    order_net_clear(&paths->net);
    free(paths->offers);
    free(paths->offer_at);
    free(paths->ahead);
    free(paths->behind);
    free(paths->rounds_ahead);
    free(paths->rounds_behind);
    free(paths->loops);
    loop_target_clear(&paths->target);
    free(paths->next);
    free(paths->parts);
    free(paths->counts);
    free(paths->tried);
}

bool order_paths(struct orders *orders, uint64_t until, uint64_t *bound_ns, struct error *error)
{
    struct paths paths = { .orders = orders, .until = until, .error = error };
    bool whole;
    if (orders->best.value_ns >= MOST_NS / orders->stages || orders->stages < 2)
        return true;
    bool good = order_net_create(&paths.net, orders, orders->best.value_ns, &whole, error);
    if (good && whole) {
        good = begin(&paths);
        if (good)
            search(&paths, bound_ns);
    }
    good &= !paths.failed;
    end(&paths);
    return good;
}
