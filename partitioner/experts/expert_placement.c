#include "partitioner/experts/expert_placement.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/arrays.h"
#include "common/ascending.h"
#include "common/number.h"
#include "partitioner/experts/expert_exhaustion.h"

const char *const expert_rule_names[] = { "expert % members", "in blocks", NULL };

// Pairs that the search may add up, so that the same input always gives the same placement.
#define SEARCH_WORK ((uint64_t)2 << 30)

struct search {
    const struct expert_request *request;
    uint32_t experts, members;
    uint32_t *member;   // of each expert
    uint32_t *count;    // of each member: its experts
    uint32_t copies;
    uint64_t *loads;    // [batches][members], without those of copied experts
    uint64_t *shares;   // of each micro-batch: a member's pairs of copied experts
    uint64_t *sums;     // of each expert, over all micro-batches
    uint32_t *by_sum;   // experts, those with the most pairs first
    uint64_t *totals;   // of each member, while experts are placed
    uint64_t work;      // that is left
    struct arrays arrays;
};

static uint64_t pairs_of(const struct search *search, uint64_t batch, uint32_t expert)
{
    return search->request->layer->counts[batch * search->experts + expert];
}

static uint64_t share_of(const struct expert_request *request, uint64_t pairs)
{
    return (pairs + request->members - 1) / request->members;
}

static bool open_search(struct search *search, const struct expert_request *request, uint32_t *member,
                        struct error *error)
{
    const size_t batches = request->routing->batches;
    *search = (struct search){ .request = request, .experts = request->layer->experts, .members = request->members,
                               .member = member, .work = SEARCH_WORK };
    search->count = arrays_add(&search->arrays, search->members, sizeof *search->count);
    search->loads = arrays_add(&search->arrays, batches * search->members, sizeof *search->loads);
    search->shares = arrays_add(&search->arrays, batches, sizeof *search->shares);
    search->sums = arrays_add(&search->arrays, search->experts, sizeof *search->sums);
    search->by_sum = arrays_add(&search->arrays, search->experts, sizeof *search->by_sum);
    search->totals = arrays_add(&search->arrays, search->members, sizeof *search->totals);
    return !search->arrays.failed || error_no_memory(error, "a placement of experts");
}

// --- cost --------------------------------------------------------------------------------------------

static void add_shares(struct search *search, uint32_t expert, bool is_away)
{
    for (uint64_t b = 0; b < search->request->routing->batches; b++) {
        const uint64_t share = share_of(search->request, pairs_of(search, b, expert));
        search->shares[b] = is_away ? search->shares[b] - share : search->shares[b] + share;
    }
    search->copies = is_away ? search->copies - 1 : search->copies + 1;
    search->member[expert] = ROUTING_COPIED;
}

static void add_loads(struct search *search, uint32_t expert, uint32_t member, bool is_away)
{
    if (member == ROUTING_COPIED) {
        add_shares(search, expert, is_away);
        return;
    }
    for (uint64_t b = 0; b < search->request->routing->batches; b++) {
        uint64_t *load = &search->loads[b * search->members + member];
        *load = is_away ? *load - pairs_of(search, b, expert) : *load + pairs_of(search, b, expert);
    }
    search->count[member] = is_away ? search->count[member] - 1 : search->count[member] + 1;
    search->member[expert] = member;
}

// With the prices of copies.
static uint64_t cost_of(const struct search *search)
{
    uint64_t cost = search->copies * search->request->copy_price;
    for (uint64_t b = 0; b < search->request->routing->batches; b++) {
        uint64_t most = 0;
        for (uint32_t m = 0; m < search->members; m++)
            most = max_u64(most, search->loads[b * search->members + m]);
        cost += most + search->shares[b];
    }
    return cost;
}

uint64_t expert_placement_cost(const struct expert_request *request, const uint32_t *member)
{
    return routing_load(request->routing, request->layer, member, request->members, 0).slowest;
}

static uint32_t by_rule(const struct expert_request *request, enum expert_rule rule, uint32_t expert)
{
    return rule == RULE_MODULO ? expert % request->members
                               : (uint32_t)((uint64_t)expert * request->members / request->layer->experts);
}

// --- search ------------------------------------------------------------------------------------------

static bool has_room(const struct search *search, uint32_t member)
{
    return member == ROUTING_COPIED || search->request->most == 0 || search->count[member] < search->request->most;
}

static void sum_experts(struct search *search)
{
    for (uint32_t e = 0; e < search->experts; e++) {
        uint32_t place = e;
        for (uint64_t b = 0; b < search->request->routing->batches; b++)
            search->sums[e] += pairs_of(search, b, e);
        for (; place > 0 && search->sums[search->by_sum[place - 1]] < search->sums[e]; place--)
            search->by_sum[place] = search->by_sum[place - 1];
        search->by_sum[place] = e;
    }
}

// Copies the busiest experts, and places the others.
static void place_longest_first(struct search *search, uint32_t copies)
{
    uint64_t *totals = search->totals;
    for (uint32_t i = 0; i < copies; i++)
        add_loads(search, search->by_sum[i], ROUTING_COPIED, false);
    memset(totals, 0, search->members * sizeof *totals);
    for (uint32_t i = copies; i < search->experts; i++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t m = 0; m < search->members; m++)
            if (has_room(search, m) && (best == UINT32_MAX || totals[m] < totals[best]))
                best = m;
        totals[best] += search->sums[search->by_sum[i]];
        add_loads(search, search->by_sum[i], best, false);
    }
}

static void put(struct search *search, uint32_t expert, uint32_t member)
{
    add_loads(search, expert, search->member[expert], true);
    add_loads(search, expert, member, false);
}

// Both rules give each member its share of the experts, for which there is room.
static void begin_with(struct search *search, enum expert_rule rule)
{
    for (uint32_t e = 0; e < search->experts; e++)
        put(search, e, by_rule(search->request, rule, e));
}

static bool may_go_on(struct search *search)
{
    const uint64_t work = search->request->routing->batches * (search->members + 4);
    if (search->work < work)
        return false;
    search->work -= work;
    return true;
}

// Moves an expert if that makes the cost less.
static bool try_move(struct search *search, uint32_t expert, uint32_t member, uint64_t *cost)
{
    const uint32_t from = search->member[expert];
    if (from == member || !has_room(search, member) || !may_go_on(search))
        return false;
    put(search, expert, member);
    const uint64_t now = cost_of(search);
    if (now >= *cost) {
        put(search, expert, from);
        return false;
    }
    *cost = now;
    return true;
}

static bool try_change(struct search *search, uint32_t a, uint32_t b, uint64_t *cost)
{
    const uint32_t of_a = search->member[a], of_b = search->member[b];
    if (of_a == of_b || !may_go_on(search))
        return false;
    put(search, a, of_b);
    put(search, b, of_a);
    const uint64_t now = cost_of(search);
    if (now >= *cost) {
        put(search, a, of_a);
        put(search, b, of_b);
        return false;
    }
    *cost = now;
    return true;
}

static void descend(struct search *search, uint64_t *cost)
{
    bool is_better = true;
    while (is_better) {
        is_better = false;
        for (uint32_t e = 0; e < search->experts; e++)
            for (uint32_t m = 0; m <= search->members; m++)
                if (m < search->members || search->request->may_copy)
                    is_better |= try_move(search, search->by_sum[e], m < search->members ? m : ROUTING_COPIED, cost);
        for (uint32_t a = 0; a < search->experts; a++)
            for (uint32_t b = a + 1; b < search->experts; b++)
                is_better |= try_change(search, search->by_sum[a], search->by_sum[b], cost);
    }
}

static void take_all(struct search *search)
{
    for (uint32_t e = 0; e < search->experts; e++)
        add_loads(search, e, search->member[e], true);
}

// How many of the busiest experts are copied, if the others are then placed longest first. More copies than those whose
// price is all that can be gained are not tried.
static uint32_t copies_that_pay(struct search *search, uint64_t even)
{
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t copies = 0; copies <= search->experts; copies++) {
        const uint64_t work = search->request->routing->batches * (search->experts + search->members + 4);
        if (even + copies * search->request->copy_price >= least || search->work < work)
            break;
        search->work -= work;
        place_longest_first(search, copies);
        const uint64_t cost = cost_of(search);
        take_all(search);
        if (cost < least) {
            least = cost;
            best = copies;
        }
    }
    return best;
}

// --- bound and rules ---------------------------------------------------------------------------------

// That of placements without copies, and the even share.
static bool find_bound(const struct expert_request *request, uint64_t *bound, uint64_t *even, struct error *error)
{
    const uint32_t experts = request->layer->experts, members = request->members;
    uint32_t *sorted = calloc(experts, sizeof *sorted);
    if (!sorted)
        return error_no_memory(error, "a placement of experts");
    for (uint64_t b = 0; b < request->routing->batches; b++) {
        memcpy(sorted, request->layer->counts + b * experts, experts * sizeof *sorted);
        qsort(sorted, experts, sizeof *sorted, ascending_u32s);
        uint64_t pairs = 0;
        for (uint32_t e = 0; e < experts; e++)
            pairs += sorted[e];
        const uint64_t two =
            experts > members ? (uint64_t)sorted[experts - members - 1] + sorted[experts - members] : 0;
        *bound += max_u64(max_u64(share_of(request, pairs), sorted[experts - 1]), two);
        *even += share_of(request, pairs);
    }
    free(sorted);
    return true;
}

static void price_rules(const struct expert_request *request, uint32_t *member, uint64_t rules[EXPERT_RULES])
{
    for (int rule = 0; rule < EXPERT_RULES; rule++) {
        for (uint32_t e = 0; e < request->layer->experts; e++)
            member[e] = by_rule(request, (enum expert_rule)rule, e);
        rules[rule] = expert_placement_cost(request, member);
    }
}

// --- the whole ---------------------------------------------------------------------------------------

static bool fits(const struct expert_request *request, struct error *error)
{
    const uint64_t room = (uint64_t)request->most * request->members;
    return request->most == 0 || room >= request->layer->experts
        || error_set_kind(error, ERROR_ANSWER, "layer %.60s has %" PRIu32 " experts, and %" PRIu32 " members have room"
                          " for %" PRIu32 " each", request->layer->layer, request->layer->experts, request->members,
                          request->most);
}

// A placement, and what it costs with the prices of its copies.
struct found {
    uint32_t *member;
    uint64_t cost;
    bool is_least;
};

static bool search_placement(const struct expert_request *request, uint64_t even, struct expert_plan *plan,
                             struct found *found, struct error *error)
{
    struct search search;
    const bool good = open_search(&search, request, found->member, error);
    if (good) {
        sum_experts(&search);
        place_longest_first(&search, request->may_copy ? copies_that_pay(&search, even) : 0);
        found->cost = cost_of(&search);
        descend(&search, &found->cost);
        for (int rule = 0; rule < EXPERT_RULES; rule++)
            if (plan->rules[rule] < found->cost) {
                found->cost = plan->rules[rule];
                begin_with(&search, (enum expert_rule)rule);
                descend(&search, &found->cost);
            }
        plan->binding = search.by_sum[0];
        plan->binding_pairs = search.sums[plan->binding];
    }
    arrays_clear(&search.arrays);
    return good && expert_exhaust(request, found->member, &found->cost, &found->is_least, error);
}

static uint32_t count_copies(const struct expert_request *request, const uint32_t *member)
{
    uint32_t copies = 0;
    for (uint32_t e = 0; e < request->layer->experts; e++)
        copies += member[e] == ROUTING_COPIED;
    return copies;
}

// The better one of a placement without copies and of one with them.
static void take(const struct expert_request *request, const struct found *alone, const struct found *copied,
                 uint64_t even, struct expert_plan *plan)
{
    const bool are_copied = request->may_copy && copied->cost < alone->cost;
    const struct found *best = are_copied ? copied : alone;
    memcpy(plan->member, best->member, request->layer->experts * sizeof *plan->member);
    plan->copies = count_copies(request, plan->member);
    plan->alone = alone->cost;
    plan->cost = best->cost - plan->copies * request->copy_price;
    plan->bound = alone->is_least ? alone->cost : plan->bound;
    if (request->may_copy)
        plan->bound = copied->is_least ? best->cost : min_u64(plan->bound, even + request->copy_price);
}

static bool search_both(const struct expert_request *request, struct expert_plan *plan, struct error *error)
{
    struct expert_request without = *request;
    struct found alone = { .member = calloc(request->layer->experts, sizeof *alone.member) }, copied = alone;
    uint64_t even = 0;
    without.may_copy = false;
    without.copy_price = 0;
    copied.member = calloc(request->layer->experts, sizeof *copied.member);
    const bool good = ((alone.member && copied.member) || error_no_memory(error, "a placement of experts"))
        && find_bound(request, &plan->bound, &even, error)
        && search_placement(&without, even, plan, &alone, error)
        && (!request->may_copy || search_placement(request, even, plan, &copied, error));
    if (good)
        take(request, &alone, &copied, even, plan);
    free(alone.member);
    free(copied.member);
    return good;
}

bool expert_plan_make(const struct expert_request *request, struct expert_plan *plan, struct error *error)
{
    *plan = (struct expert_plan){ .member = calloc(request->layer->experts, sizeof *plan->member) };
    bool good = plan->member || error_no_memory(error, "a placement of experts");
    good = good && fits(request, error);
    if (good)
        price_rules(request, plan->member, plan->rules);
    if (good && search_both(request, plan, error))
        return true;
    expert_plan_clear(plan);
    return false;
}

void expert_plan_clear(struct expert_plan *plan)
{
    free(plan->member);
    *plan = (struct expert_plan){ 0 };
}
