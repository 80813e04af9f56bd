// The kernels, messages and bytes of which layers are made. Each function adds to the layer of its maker. For the
// functions of layer_costs.h.
#ifndef PROFILER_ESTIMATE_LAYER_KERNELS_H
#define PROFILER_ESTIMATE_LAYER_KERNELS_H

#include "profiler/estimate/layer_costs.h"

struct phase_estimate *layer_phase(struct layer_maker *maker, enum estimate_phase phase);

// One product; in a group, such as that of experts, each has a launch of its own.
void layer_add_product(struct layer_maker *maker, enum estimate_phase phase, const struct rated_product *rated,
                       struct product_size size);

// tokens x in by in x out, `count` at once, forward and backward. Tuned ones have LoRA's matrices beside them, if there
// is a rank, for each of `pieces` parts of the output.
void layer_leave_flops(struct layer_maker *maker, double flops);
void layer_add_linear(struct layer_maker *maker, double tokens, double in, double out, double count);
void layer_add_tuned(struct layer_maker *maker, double tokens, double in, double out, double count, double pieces);

// A pass over this many numbers of activations; a small one is fused by a compiler into the kernel beside it.
void layer_add_pass(struct layer_maker *maker, enum estimate_phase phase, double numbers);
void layer_add_passes(struct layer_maker *maker, double forward, double backward);  // in F and in I
void layer_add_small_pass(struct layer_maker *maker, enum estimate_phase phase, double numbers);
void layer_add_narrowing(struct layer_maker *maker, enum estimate_phase phase, double numbers);
void layer_add_bias_gradient(struct layer_maker *maker, double numbers);

// Flops per ns of a kernel that keeps products of its own on the chip, without a vendor's tuning: what FlashAttention 2
// reaches, which is of that kind.
double layer_fused_rate(const struct layer_maker *maker, enum estimate_phase phase);

void layer_count_flops(struct layer_maker *maker, double flops);  // of the forward

void layer_add_exchange(struct layer_maker *maker, enum estimate_phase phase, enum collective what, double bytes,
                        struct group group);
struct group layer_tensor_group(const struct layer_maker *maker);

// Communication before and after a part that is split over the tensor-parallel group, and what of it is hidden.
// Communication of other kinds is added after the last.
void layer_enter_split(struct layer_maker *maker);
void layer_leave_split(struct layer_maker *maker);
void layer_hide_exchanges(struct layer_maker *maker);

// Bytes, from numbers of activations: kept for the backward, and held from I to W. Numbers that products read are
// kept in the narrow type in which they read them.
uint64_t layer_tensor_bytes(double bytes);
void layer_keep(struct layer_maker *maker, double numbers);
bool layer_keeps_inputs(const struct layer_maker *maker);
void layer_keep_read(struct layer_maker *maker, double numbers);
double layer_narrow_bytes(double bits);  // of a number, and its part of a scale
void layer_keep_narrow(struct layer_maker *maker, double numbers, double bits);
void layer_keep_mask(struct layer_maker *maker, double numbers);
void layer_hold(struct layer_maker *maker, double numbers);
void layer_hold_read(struct layer_maker *maker, double numbers);
bool layer_is_recomputed(const struct layer_maker *maker, enum estimate_recompute what);
void layer_bring_back(struct layer_maker *maker, double bytes);  // while the backward of its layer runs

uint64_t layer_part_of(double parameters, double over);

// What every layer of a block has: its output, a norm whose output the next product reads, the sum with the residual.
void layer_set_output(struct layer_maker *maker);
void layer_add_norm(struct layer_maker *maker);
void layer_keep_norm(struct layer_maker *maker);
void layer_add_residual(struct layer_maker *maker);

#endif
