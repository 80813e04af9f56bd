#include "device/attention_pattern.h"

// How many numbers below `count` are among the last of their stride, summed over all counts from 0 to `ends` - 1.
// With count = q stride + r there are q block + max(0, r - (stride - block)).
static uint64_t strided_below(const struct attention_pattern *pattern, uint64_t ends)
{
    const uint64_t stride = pattern->stride, block = pattern->block;
    if (stride == 0)
        return 0;
    const uint64_t strides = ends / stride, rest = ends % stride;
    const uint64_t last = rest > stride - block ? rest - (stride - block) : 0;
    return strides * (strides - (strides > 0)) / 2 * stride * block + strides * (block * (block - 1) / 2)
         + rest * strides * block + (last > 0 ? last * (last - 1) / 2 : 0);
}

static uint64_t strided_count(const struct attention_pattern *pattern, uint64_t below)
{
    return strided_below(pattern, below + 1) - strided_below(pattern, below);
}

// The window of query i begins at b = max(0, i + 1 - window). Before it, min(b, global) keys are seen, and the strided
// ones of [global, b).
uint64_t attention_pairs(const struct attention_pattern *pattern, size_t queries)
{
    const uint64_t all = queries, window = pattern->window, global = pattern->global;
    if (window == 0 || window >= all)
        return all * (all + 1) / 2;
    const uint64_t within = window * (window + 1) / 2 + (all - window) * window;
    const uint64_t ends = all - window + 1;  // b is below it; b = 0 sees nothing before it
    const uint64_t first = global + 1 < ends ? global + 1 : ends;  // b from here on is past the global tokens
    uint64_t before = first * (first - 1) / 2 + (ends - first) * global;
    if (pattern->stride > 0)
        before += strided_below(pattern, ends) - strided_below(pattern, first)
                - (ends - first) * strided_count(pattern, global);
    return within + before;
}
