#include "partitioner/experts/expert_placement.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
    uint64_t *loads;    // [batches][members]
    uint64_t *sums;     // of each expert, over all micro-batches
    uint32_t *by_sum;   // experts, those with the most pairs first
    uint64_t work;      // that is left
};

static uint64_t pairs_of(const struct search *search, uint64_t batch, uint32_t expert)
{
    return search->request->layer->counts[batch * search->experts + expert];
}

// --- memory -----------------------------------------------------------------------------------------

static void close_search(struct search *search)
{
    free(search->count);
    free(search->loads);
    free(search->sums);
    free(search->by_sum);
}

static bool open_search(struct search *search, const struct expert_request *request, uint32_t *member,
                        struct error *error)
{
    const size_t loads = (size_t)request->routing->batches * request->members;
    *search = (struct search){ .request = request, .experts = request->layer->experts, .members = request->members,
                               .member = member, .work = SEARCH_WORK,
                               .count = calloc(request->members, sizeof *search->count),
                               .loads = calloc(loads + 1, sizeof *search->loads),
                               .sums = calloc(request->layer->experts, sizeof *search->sums),
                               .by_sum = calloc(request->layer->experts, sizeof *search->by_sum) };
    if (search->count && search->loads && search->sums && search->by_sum)
        return true;
    close_search(search);
    return error_no_memory(error, "a placement of experts");
}

// --- cost --------------------------------------------------------------------------------------------

static void add_loads(struct search *search, uint32_t expert, uint32_t member, bool is_away)
{
    for (uint64_t b = 0; b < search->request->routing->batches; b++) {
        uint64_t *load = &search->loads[b * search->members + member];
        *load = is_away ? *load - pairs_of(search, b, expert) : *load + pairs_of(search, b, expert);
    }
    search->count[member] = is_away ? search->count[member] - 1 : search->count[member] + 1;
    search->member[expert] = member;
}

static uint64_t cost_of(const struct search *search)
{
    uint64_t cost = 0;
    for (uint64_t b = 0; b < search->request->routing->batches; b++) {
        uint64_t most = 0;
        for (uint32_t m = 0; m < search->members; m++)
            most = max_u64(most, search->loads[b * search->members + m]);
        cost += most;
    }
    return cost;
}

uint64_t expert_placement_cost(const struct expert_request *request, const uint32_t *member)
{
    uint64_t cost = 0;
    for (uint64_t b = 0; b < request->routing->batches; b++) {
        uint64_t most = 0;
        for (uint32_t m = 0; m < request->members; m++) {
            uint64_t load = 0;
            for (uint32_t e = 0; e < request->layer->experts; e++)
                load += member[e] == m ? request->layer->counts[b * request->layer->experts + e] : 0;
            most = max_u64(most, load);
        }
        cost += most;
    }
    return cost;
}

static uint32_t by_rule(const struct expert_request *request, enum expert_rule rule, uint32_t expert)
{
    return rule == RULE_MODULO ? expert % request->members
                               : (uint32_t)((uint64_t)expert * request->members / request->layer->experts);
}

// --- search ------------------------------------------------------------------------------------------

static bool has_room(const struct search *search, uint32_t member)
{
    return search->request->most == 0 || search->count[member] < search->request->most;
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

static void place_longest_first(struct search *search, uint64_t *totals)
{
    for (uint32_t i = 0; i < search->experts; i++) {
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
            for (uint32_t m = 0; m < search->members; m++)
                is_better |= try_move(search, search->by_sum[e], m, cost);
        for (uint32_t a = 0; a < search->experts; a++)
            for (uint32_t b = a + 1; b < search->experts; b++)
                is_better |= try_change(search, search->by_sum[a], search->by_sum[b], cost);
    }
}

// --- bound and rules ---------------------------------------------------------------------------------

static int compare_down(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static bool find_bound(const struct expert_request *request, uint64_t *bound, struct error *error)
{
    const uint32_t experts = request->layer->experts, members = request->members;
    uint32_t *sorted = calloc(experts, sizeof *sorted);
    if (!sorted)
        return error_no_memory(error, "a placement of experts");
    for (uint64_t b = 0; b < request->routing->batches; b++) {
        memcpy(sorted, request->layer->counts + b * experts, experts * sizeof *sorted);
        qsort(sorted, experts, sizeof *sorted, compare_down);
        uint64_t pairs = 0;
        for (uint32_t e = 0; e < experts; e++)
            pairs += sorted[e];
        const uint64_t two = experts > members ? (uint64_t)sorted[members - 1] + sorted[members] : 0;
        *bound += max_u64(max_u64((pairs + members - 1) / members, sorted[0]), two);
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

static bool search_placement(const struct expert_request *request, struct expert_plan *plan, struct error *error)
{
    struct search search;
    uint64_t *totals = calloc(request->members, sizeof *totals);
    if (!totals)
        return error_no_memory(error, "a placement of experts");
    const bool good = open_search(&search, request, plan->member, error);
    if (good) {
        sum_experts(&search);
        place_longest_first(&search, totals);
        plan->cost = cost_of(&search);
        descend(&search, &plan->cost);
        for (int rule = 0; rule < EXPERT_RULES; rule++)
            if (plan->rules[rule] < plan->cost) {
                plan->cost = plan->rules[rule];
                begin_with(&search, (enum expert_rule)rule);
                descend(&search, &plan->cost);
            }
        plan->binding = search.by_sum[0];
        plan->binding_pairs = search.sums[plan->binding];
        close_search(&search);
    }
    free(totals);
    return good;
}

bool expert_plan_make(const struct expert_request *request, struct expert_plan *plan, struct error *error)
{
    *plan = (struct expert_plan){ .member = calloc(request->layer->experts, sizeof *plan->member) };
    bool good = plan->member || error_no_memory(error, "a placement of experts");
    good = good && fits(request, error);
    if (good)
        price_rules(request, plan->member, plan->rules);
    bool proved = false;
    if (good && find_bound(request, &plan->bound, error) && search_placement(request, plan, error)
        && expert_exhaust(request, plan->member, &plan->cost, &proved, error)) {
        plan->bound = proved ? plan->cost : plan->bound;
        return true;
    }
    expert_plan_clear(plan);
    return false;
}

void expert_plan_clear(struct expert_plan *plan)
{
    free(plan->member);
    *plan = (struct expert_plan){ 0 };
}
