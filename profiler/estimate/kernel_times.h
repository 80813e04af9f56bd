// What kernels and collectives take on a rated device, in ns.
//
// Products go by tiles: so many of 128 x 128 as cover the result are dealt to the multiprocessors in waves, and of what
// the last wave leaves idle `wave_permille` is lost. Passes over memory go by their bytes, collectives by the slowest
// level they cross.
#ifndef PROFILER_ESTIMATE_KERNEL_TIMES_H
#define PROFILER_ESTIMATE_KERNEL_TIMES_H

#include "profiler/estimate/rated_device.h"

// `count` products of m x k by k x n in one kernel; numbers of the result are of `result_bytes`.
struct product_size {
    double m, n, k, count;
    double number_bytes, result_bytes;
};
double product_ns(const struct rated_device *device, const struct rated_product *of, const struct product_size *size);

double pass_ns(const struct rated_device *device, double bytes);

enum collective { ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, ALL_TO_ALL };

// Of `ranks` devices that stand `stride` apart, as numbered within the levels, in `rows` of them that stand `apart`; no
// rows: one. `bytes`: of the gathered, or the reduced, whole; of ALL_TO_ALL what each rank sends, its own share included.
struct group {
    double ranks, stride;
    double rows, apart;
};
double collective_ns(const struct rated_device *device, enum collective what, double bytes, struct group group);

// Tokens to the `chosen` of the experts that the group shares, even ones; each token crosses to a group of the level
// below once, however many of its experts are there. `bytes`: of all tokens once for each of their experts.
double dispatch_ns(const struct rated_device *device, double bytes, double chosen, struct group group);

#endif
