// Which keys a query of attention sees, among those up to its own position. The rule stands here alone, and kernels
// ask it about single pairs, tiles and runs of keys.
//
//              keys              window 3, global 1, stride 4, block 1: query i sees key j <= i if
//        0 1 2 3 4 5 6 7 8
//     0  #                           i - j < window                      the last tokens, its own among them
//     1  # #                         or j < global                       the first tokens of the sequence
//     2  # # #                       or j % stride >= stride - block     the last tokens of each stride
//     3  # # # #
//     4  # . # # #               The papers' names: a window is local attention (Longformer, Mistral), global tokens
//     5  # . . # # #             are Longformer's, and strides are the "fixed" pattern of Sparse Transformers, which
//     6  # . . # # # #           is also DeepSpeed's.
//     7  # . . # . # # #
//     8  # . . # . . # # #
#ifndef DEVICE_ATTENTION_PATTERN_H
#define DEVICE_ATTENTION_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The kernels of GPUs follow the same rule.
#ifdef __CUDACC__
#define ATTENTION_RULE static inline __host__ __device__
#else
#define ATTENTION_RULE static inline
#endif

struct attention_pattern {
    size_t window;         // 0: a query sees all keys up to its own, and the rest is 0, too
    size_t global;
    size_t stride, block;  // block < stride; 0: there are no strides
};

// The first key from `key` on that is among the last of its stride. Positions fit in 32 bits, in which GPUs divide
// faster.
ATTENTION_RULE size_t attention_next_strided(const struct attention_pattern *pattern, size_t key)
{
    if (pattern->stride == 0)
        return SIZE_MAX;
    const uint32_t stride = (uint32_t)pattern->stride, at = (uint32_t)key % stride;
    const size_t begin = stride - pattern->block;
    return at >= begin ? key : key - at + begin;
}

ATTENTION_RULE bool attention_sees(const struct attention_pattern *pattern, size_t query, size_t key)
{
    return key <= query
        && (pattern->window == 0 || query - key < pattern->window || key < pattern->global
            || attention_next_strided(pattern, key) == key);
}

// Whether each query of [query, query_end) sees each key of [key, key_end). It may say no where only several parts of
// the rule together say yes.
ATTENTION_RULE bool attention_sees_all(const struct attention_pattern *pattern, size_t query, size_t query_end,
                                       size_t key, size_t key_end)
{
    if (key_end > query + 1)
        return false;
    if (pattern->window == 0 || query_end - 1 - key < pattern->window || key_end <= pattern->global)
        return true;
    return attention_next_strided(pattern, key) == key
        && (uint32_t)key / (uint32_t)pattern->stride == (uint32_t)(key_end - 1) / (uint32_t)pattern->stride;
}

// Keys [begin, end).
struct attention_run {
    size_t begin, end;
};

// The first keys from `from` on that are seen by queries from `query` on. The next run may begin where this one ends.
// No key past the last query is seen, so that the caller cuts a run that goes further.
ATTENTION_RULE struct attention_run attention_run(const struct attention_pattern *pattern, size_t query, size_t from)
{
    const size_t window = pattern->window > 0 && query + 1 > pattern->window ? query + 1 - pattern->window : 0;
    struct attention_run run = { from, SIZE_MAX };
    if (from < pattern->global && from < window) {
        run.end = pattern->global;
    } else if (from < window) {
        const size_t strided = attention_next_strided(pattern, from);
        run.begin = strided < window ? strided : window;
        if (strided < window)
            run.end = strided - (uint32_t)strided % (uint32_t)pattern->stride + pattern->stride;
    }
    return run;
}

// The query from which on none sees a key of [key, key_end).
ATTENTION_RULE size_t attention_query_end(const struct attention_pattern *pattern, size_t key, size_t key_end)
{
    const bool is_seen_by_all_later = pattern->window == 0 || key < pattern->global
                                   || attention_next_strided(pattern, key) < key_end;
    return is_seen_by_all_later ? SIZE_MAX : key_end - 1 + pattern->window;
}

// How many pairs of a query and a key that it sees there are with queries [0, queries).
uint64_t attention_pairs(const struct attention_pattern *pattern, size_t queries);

#endif
