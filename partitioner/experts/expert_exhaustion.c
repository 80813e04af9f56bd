#include "partitioner/experts/expert_exhaustion.h"

#include <string.h>

#include "common/arrays.h"
#include "common/number.h"

// Pairs that may be added up, and experts with which that is worth a try.
#define EXHAUSTION_WORK ((uint64_t)1 << 28)
enum { MOST_EXPERTS = 16 };

struct exhaustion {
    const struct expert_request *request;
    uint32_t experts, members;
    uint64_t batches, work;  // work: what is left
    uint32_t *order;   // of the experts
    uint32_t *member, *best;  // of each expert
    uint32_t *count;   // of each member: its experts
    uint64_t *loads;   // [batches][members], without those of copied experts
    uint64_t *evens;   // of each micro-batch: the even share
    // [experts + 1][batches]: the most of these loads, and a member's pairs of copied experts, once so many experts
    // have places
    uint64_t *tops, *shares;
    uint32_t copies;
    uint64_t cost;
    struct arrays arrays;  // all of these
};

static bool open_search(struct exhaustion *x, const struct expert_request *request, struct error *error)
{
    *x = (struct exhaustion){ .request = request, .experts = request->layer->experts, .members = request->members,
                              .batches = request->routing->batches, .work = EXHAUSTION_WORK };
    x->order = arrays_add(&x->arrays, x->experts, sizeof *x->order);
    x->member = arrays_add(&x->arrays, x->experts, sizeof *x->member);
    x->best = arrays_add(&x->arrays, x->experts, sizeof *x->best);
    x->count = arrays_add(&x->arrays, x->members, sizeof *x->count);
    x->loads = arrays_add(&x->arrays, x->batches * x->members, sizeof *x->loads);
    x->evens = arrays_add(&x->arrays, x->batches, sizeof *x->evens);
    x->tops = arrays_add(&x->arrays, (x->experts + 1) * x->batches, sizeof *x->tops);
    x->shares = arrays_add(&x->arrays, (x->experts + 1) * x->batches, sizeof *x->shares);
    return !x->arrays.failed || error_no_memory(error, "all placements of experts");
}

static uint64_t pairs_of(const struct exhaustion *x, uint64_t batch, uint32_t expert)
{
    return x->request->layer->counts[batch * x->experts + expert];
}

static uint64_t share_of(const struct exhaustion *x, uint64_t pairs)
{
    return (pairs + x->members - 1) / x->members;
}

static uint64_t sum_of(const struct exhaustion *x, uint32_t expert)
{
    uint64_t sum = 0;
    for (uint64_t b = 0; b < x->batches; b++)
        sum += pairs_of(x, b, expert);
    return sum;
}

static void begin(struct exhaustion *x)
{
    for (uint32_t e = 0; e < x->experts; e++) {
        uint32_t place = e;
        for (; place > 0 && sum_of(x, x->order[place - 1]) < sum_of(x, e); place--)
            x->order[place] = x->order[place - 1];
        x->order[place] = e;
    }
    for (uint64_t b = 0; b < x->batches; b++) {
        for (uint32_t e = 0; e < x->experts; e++)
            x->evens[b] += pairs_of(x, b, e);
        x->evens[b] = share_of(x, x->evens[b]);
    }
}

// Puts the next expert on a member, or copies it. Returns the least that a placement with this beginning costs.
static uint64_t put(struct exhaustion *x, uint32_t depth, uint32_t member)
{
    const uint32_t expert = x->order[depth];
    const bool is_copied = member == ROUTING_COPIED;
    uint64_t *tops = x->tops + depth * x->batches, *shares = x->shares + depth * x->batches, sum = 0;
    for (uint64_t b = 0; b < x->batches; b++) {
        const uint64_t pairs = pairs_of(x, b, expert);
        uint64_t *load = &x->loads[b * x->members + (is_copied ? 0 : member)];
        *load += is_copied ? 0 : pairs;
        tops[b + x->batches] = is_copied ? tops[b] : max_u64(tops[b], *load);
        shares[b + x->batches] = shares[b] + (is_copied ? share_of(x, pairs) : 0);
        sum += max_u64(x->evens[b], tops[b + x->batches] + shares[b + x->batches]);
    }
    x->member[expert] = member;
    if (is_copied)
        x->copies++;
    else
        x->count[member]++;
    return sum + x->copies * x->request->copy_price;
}

static void take(struct exhaustion *x, uint32_t depth, uint32_t member)
{
    if (member == ROUTING_COPIED) {
        x->copies--;
        return;
    }
    for (uint64_t b = 0; b < x->batches; b++)
        x->loads[b * x->members + member] -= pairs_of(x, b, x->order[depth]);
    x->count[member]--;
}

// False once the work is done.
static bool place_from(struct exhaustion *x, uint32_t depth, uint32_t used)
{
    const uint32_t members = used < x->members ? used + 1 : x->members;
    bool good = true;
    for (uint32_t i = 0; good && i < members + x->request->may_copy; i++) {
        const uint32_t m = i < members ? i : ROUTING_COPIED;
        if (m != ROUTING_COPIED && x->request->most > 0 && x->count[m] == x->request->most)
            continue;
        good = x->work >= 2 * x->batches;
        if (!good)
            break;
        x->work -= 2 * x->batches;
        const uint64_t least = put(x, depth, m);
        if (least < x->cost && depth + 1 == x->experts) {
            x->cost = least;
            memcpy(x->best, x->member, x->experts * sizeof *x->best);
        } else if (least < x->cost) {
            good = place_from(x, depth + 1, m == used ? used + 1 : used);
        }
        take(x, depth, m);
    }
    return good;
}

bool expert_exhaust(const struct expert_request *request, uint32_t *member, uint64_t *cost, bool *proved,
                    struct error *error)
{
    struct exhaustion x;
    *proved = false;
    if (request->layer->experts > MOST_EXPERTS)
        return true;
    const bool good = open_search(&x, request, error);
    if (good) {
        x.cost = *cost;
        begin(&x);
        *proved = place_from(&x, 0, 0);
        if (x.cost < *cost)
            memcpy(member, x.best, x.experts * sizeof *member);
        *cost = x.cost;
    }
    arrays_clear(&x.arrays);
    return good;
}
