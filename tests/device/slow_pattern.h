// Which keys a query of attention sees, in other words than attention_pattern.h, and patterns drawn at random.
#ifndef TESTS_SLOW_PATTERN_H
#define TESTS_SLOW_PATTERN_H

#include "common/random.h"
#include "device/attention_pattern.h"

static inline bool slow_sees(const struct attention_pattern *p, size_t query, size_t key)
{
    if (key > query)
        return false;
    if (p->window == 0 || key + p->window > query || key < p->global)
        return true;
    for (size_t end = p->stride; p->stride > 0 && end <= key + p->block; end += p->stride)
        if (key < end)
            return true;
    return false;
}

// With a window of at most `longest` keys, and now and then with none.
static inline struct attention_pattern slow_pattern(uint64_t *seed, size_t longest)
{
    struct attention_pattern p = { 0 };
    if (random_below(seed, 8) == 0)
        return p;
    p.window = 1 + random_below(seed, 1 + random_below(seed, longest));
    p.global = random_below(seed, 2) ? random_below(seed, 30) : 0;
    if (random_below(seed, 2)) {
        p.stride = 2 + random_below(seed, 40);
        p.block = 1 + random_below(seed, p.stride - 1);
    }
    return p;
}

#endif
