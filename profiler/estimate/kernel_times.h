// How long kernels and collectives take on a rated device, in ns.
//
// The time of products is counted in tiles of 128 x 128 that cover the result. They are dealt to the multiprocessors in
// waves. The last wave may leave some idle; `wave_permille` of that is lost. The time of passes over memory depends on
// their bytes, and that of collectives on the slowest level that they cross.
#ifndef PROFILER_ESTIMATE_KERNEL_TIMES_H
#define PROFILER_ESTIMATE_KERNEL_TIMES_H

#include "profiler/estimate/rated_device.h"

// `count` products of m x k by k x n in one kernel. Numbers of the result have `result_bytes`, those read
// `number_bytes`.
struct product_size {
    double m, n, k, count;
    double number_bytes, result_bytes;
};
double product_ns(const struct rated_device *device, const struct rated_product *rated,
                  const struct product_size *size);

double pass_ns(const struct rated_device *device, double bytes);

enum collective { ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, ALL_TO_ALL };

// The devices of a collective: `rows` rows (0: one) of `ranks` devices. In the numbering of the levels, devices of a
// row are `stride` apart, and rows are `row_stride` apart. `bytes` is the size of the whole that is gathered or
// reduced. For ALL_TO_ALL it is what each rank sends, including its own share.
struct group {
    double ranks, stride;
    double rows, row_stride;
};
double collective_ns(const struct rated_device *device, enum collective what, double bytes, struct group group);

// A router sends each token to `chosen` experts. They are of `chosen_groups` of its `groups` groups, whose experts lie
// side by side. 0 groups: any experts.
struct token_routes {
    double chosen, groups, chosen_groups;
};

// In how many of `places` places a token has at least one of its experts, in the mean. Places have equal shares of the
// experts, and all choices are equally likely.
double token_places(const struct token_routes *routes, double places);

// The time to send tokens to the experts that the group shares, if the experts are evenly loaded. Each token crosses to
// a group of the level below only once, however many of its experts are there. `bytes` counts all tokens once for each
// of their experts.
double dispatch_ns(const struct rated_device *device, double bytes, const struct token_routes *routes,
                   struct group group);

#endif
