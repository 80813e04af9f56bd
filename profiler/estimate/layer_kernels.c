#include "profiler/estimate/layer_kernels.h"

#include <math.h>

#include "common/json.h"
#include "common/number.h"

// --- kernels ------------------------------------------------------------------

struct phase_estimate *layer_phase(struct layer_maker *maker, enum estimate_phase phase)
{
    return &maker->layer->phases[phase];
}

// The time of a launch without an operation of PyTorch around it: 5 us of 80 (NVIDIA's guide to Nsight Systems).
#define LAUNCH_ALONE (1.0 / 16)

// In a group, such as that of experts, each product has a launch of its own (transformer_engine/common/gemm:
// multi_stream_cublas_gemm).
void layer_add_product(struct layer_maker *maker, enum estimate_phase phase, const struct rated_product *rated,
                        struct product_size size)
{
    layer_phase(maker, phase)->products_ns += product_ns(maker->device, rated, &size);
    layer_phase(maker, phase)->launches += 1 + (maker->is_grouped ? (size.count - 1) * LAUNCH_ALONE : 0);
}

// A pass over this many numbers of activations.
void layer_add_pass(struct layer_maker *maker, enum estimate_phase phase, double numbers)
{
    layer_phase(maker, phase)->passes_ns += pass_ns(maker->device, numbers * maker->number);
    layer_phase(maker, phase)->launches += 1;
}

// One in the forward, and one in the backward.
void layer_add_passes(struct layer_maker *maker, double forward, double backward)
{
    layer_add_pass(maker, ESTIMATE_F, forward);
    layer_add_pass(maker, ESTIMATE_I, backward);
}

// A pass that a compiler fuses into the kernel beside it.
void layer_add_small_pass(struct layer_maker *maker, enum estimate_phase phase, double numbers)
{
    if (!maker->request->fused_passes)
        layer_add_pass(maker, phase, numbers);
}

void layer_add_exchange(struct layer_maker *maker, enum estimate_phase phase, enum collective what, double bytes,
                                struct group group)
{
    if (group.ranks <= 1)
        return;
    layer_phase(maker, phase)->communication_ns += collective_ns(maker->device, what, bytes, group);
    layer_phase(maker, phase)->launches += 1;
}

// A number that is too large for a document is refused once everything is added up.
static uint64_t whole(double number)
{
    return (uint64_t)fmin(ceil(number), (double)JSON_MAX + 1);
}

double layer_fused_rate(const struct layer_maker *maker, enum estimate_phase phase)
{
    const struct rated_device *device = maker->device;
    const struct rated_attention *rated = device->flash.forward_permille > 0 ? &device->flash : &device->fused;
    const double usual = phase == ESTIMATE_F ? 250 : 200;
    const double permille = (double)(phase == ESTIMATE_F ? rated->forward_permille : rated->backward_permille);
    return (double)maker->head_products->gigaflops * (double)device->sustained_permille / 1e6
        * (permille > 0 ? permille : usual);
}

void layer_count_flops(struct layer_maker *maker, double flops)
{
    maker->layer->flops += whole(flops);
}

// Leaves out some of the backward's, which are twice those of the forward.
void layer_leave_flops(struct layer_maker *maker, double flops)
{
    maker->layer->frozen_flops += whole(flops);
}

// Quantization is a pass of its own. It reads the numbers as they are, and writes them narrow twice, once transposed.
void layer_add_narrowing(struct layer_maker *maker, enum estimate_phase phase, double numbers)
{
    if (maker->product_number < maker->number)
        layer_add_pass(maker, phase, numbers * (1 + 2 * maker->product_number / maker->number));
}

// tokens x in by in x out, `count` at once, forward and backward. The gradient of the weights is added to one of 4
// bytes.
void layer_add_linear(struct layer_maker *maker, double tokens, double in, double out, double count)
{
    const double narrow = maker->product_number, wide = maker->number;
    layer_add_narrowing(maker, ESTIMATE_F, tokens * in * count);
    const struct rated_product *rated = maker->products;
    layer_add_product(maker, ESTIMATE_F, rated, (struct product_size){ tokens, out, in, count, narrow, wide });
    layer_add_narrowing(maker, ESTIMATE_I, tokens * out * count);
    layer_add_product(maker, ESTIMATE_I, rated, (struct product_size){ tokens, in, out, count, narrow, wide });
    if (maker->is_trained)
        layer_add_product(maker, ESTIMATE_W, rated, (struct product_size){ in, out, tokens, count, narrow, 8 });
    else
        maker->layer->frozen_flops += whole(2 * tokens * in * out * count);
    layer_count_flops(maker, 2 * tokens * in * out * count);
}

// Beside `pieces` linear layers that read the same: x A B, scaled and added to x W. All of it is in the type of
// activations. The output of A is kept.
static void add_adapters(struct layer_maker *maker, double tokens, double in, double out, double pieces)
{
    const double rank = maker->lora_rank, number = maker->number;
    const struct rated_product *rated = maker->head_products;
    if (rank <= 0)
        return;
    layer_add_product(maker, ESTIMATE_F, rated, (struct product_size){ tokens, pieces * rank, in, 1, number, number });
    layer_add_product(maker, ESTIMATE_F, rated, (struct product_size){ tokens, out, rank, 1, number, number });
    layer_add_product(maker, ESTIMATE_I, rated, (struct product_size){ tokens, rank, out, 1, number, number });
    layer_add_product(maker, ESTIMATE_I, rated, (struct product_size){ tokens, in, pieces * rank, 1, number, number });
    layer_add_product(maker, ESTIMATE_W, rated, (struct product_size){ rank, out, tokens, 1, number, 8 });
    layer_add_product(maker, ESTIMATE_W, rated, (struct product_size){ in, pieces * rank, tokens, 1, number, 8 });
    layer_add_pass(maker, ESTIMATE_F, 3 * tokens * out);
    layer_add_small_pass(maker, ESTIMATE_F, 2 * tokens * out);
    layer_add_small_pass(maker, ESTIMATE_I, 2 * tokens * out);
    layer_add_pass(maker, ESTIMATE_I, 3 * tokens * in);
    layer_count_flops(maker, 2 * tokens * rank * (pieces * in + out));
    layer_keep(maker, tokens * pieces * rank);
    maker->layer->adapter_parameters += whole(rank * (pieces * in + out));
}

void layer_add_tuned(struct layer_maker *maker, double tokens, double in, double out, double count, double pieces)
{
    layer_add_linear(maker, tokens, in, out, count);
    add_adapters(maker, tokens, in, out, pieces);
}

// --- tensor parallelism -------------------------------------------------------

struct group layer_tensor_group(const struct layer_maker *maker)
{
    return (struct group){ .ranks = maker->tensor, .stride = 1 };
}

static double gathered_bytes(const struct layer_maker *maker)
{
    const double number = maker->request->narrow_gathers ? maker->product_number : maker->number;
    return maker->tokens * (double)maker->model->hidden * number;
}

// Communication before a part that is split over the tensor-parallel group. With sequence parallelism the forward
// all-gathers the sequence, and the backward reduce-scatters. For the weights' gradient the input is gathered once
// more. Without sequence parallelism there is only an all-reduce in the backward.
void layer_enter_split(struct layer_maker *maker)
{
    const double bytes = maker->tokens * (double)maker->model->hidden * maker->number;
    if (!maker->request->sequence_parallel) {
        layer_add_exchange(maker, ESTIMATE_I, ALL_REDUCE, bytes, layer_tensor_group(maker));
        return;
    }
    layer_add_exchange(maker, ESTIMATE_F, ALL_GATHER, gathered_bytes(maker), layer_tensor_group(maker));
    layer_add_exchange(maker, ESTIMATE_I, REDUCE_SCATTER, bytes, layer_tensor_group(maker));
    layer_add_exchange(maker, ESTIMATE_W, ALL_GATHER, gathered_bytes(maker), layer_tensor_group(maker));
}

// Communication after such a part: the forward reduces.
void layer_leave_split(struct layer_maker *maker)
{
    const double bytes = maker->tokens * (double)maker->model->hidden * maker->number;
    if (!maker->request->sequence_parallel) {
        layer_add_exchange(maker, ESTIMATE_F, ALL_REDUCE, bytes, layer_tensor_group(maker));
        return;
    }
    layer_add_exchange(maker, ESTIMATE_F, REDUCE_SCATTER, bytes, layer_tensor_group(maker));
    layer_add_exchange(maker, ESTIMATE_I, ALL_GATHER, gathered_bytes(maker), layer_tensor_group(maker));
}

static void hide(struct phase_estimate *phase, double room, double least)
{
    const double exposed = fmax(least, phase->communication_ns - room);
    if (exposed >= phase->communication_ns)
        return;
    phase->hidden_ns += phase->communication_ns - exposed;
    phase->communication_ns = exposed;
}

// Communication that does not belong to tensor parallelism is added after this.
void layer_hide_exchanges(struct layer_maker *maker)
{
    struct phase_estimate *phases = maker->layer->phases;
    if (maker->request->overlap == OVERLAP_BACKWARD) {
        hide(&phases[ESTIMATE_W], phases[ESTIMATE_I].products_ns, 0);
        hide(&phases[ESTIMATE_I], phases[ESTIMATE_W].products_ns, phases[ESTIMATE_I].communication_ns / 2);
    }
    for (int i = 0; i < ESTIMATE_PHASES && maker->request->overlap == OVERLAP_ALL; i++)
        hide(&phases[i], phases[i].products_ns * (1 - 1 / maker->tensor), phases[i].communication_ns / maker->tensor);
}

// --- bytes --------------------------------------------------------------------

uint64_t layer_tensor_bytes(double bytes)
{
    return round_to_256(whole(bytes));
}

// A tensor of the model's activations that is kept for the backward.
void layer_keep(struct layer_maker *maker, double numbers)
{
    maker->layer->saved_bytes += layer_tensor_bytes(numbers * maker->number);
}

// What products read is kept for the gradient of their weights, or of LoRA's.
bool layer_keeps_inputs(const struct layer_maker *maker)
{
    return maker->is_trained || maker->lora_rank > 0;
}

// What products read is kept in the narrow type in which they read it.
void layer_keep_read(struct layer_maker *maker, double numbers)
{
    if (!layer_keeps_inputs(maker))
        return;
    maker->layer->saved_bytes += layer_tensor_bytes(numbers * maker->product_number);
}

double layer_narrow_bytes(double bits)
{
    return bits / 8 + 4.0 / 128;
}

void layer_keep_narrow(struct layer_maker *maker, double numbers, double bits)
{
    maker->layer->saved_bytes += layer_tensor_bytes(numbers * layer_narrow_bytes(bits));
}

bool layer_is_recomputed(const struct layer_maker *maker, enum estimate_recompute what)
{
    return maker->request->recompute_tensors & what;
}

// What is recomputed is in memory while the backward of its layer runs.
void layer_bring_back(struct layer_maker *maker, double bytes)
{
    maker->layer->backward_workspace_bytes += layer_tensor_bytes(bytes);
}

void layer_keep_mask(struct layer_maker *maker, double numbers)
{
    if (maker->model->drops)
        maker->layer->saved_bytes += layer_tensor_bytes(numbers);
}

void layer_hold(struct layer_maker *maker, double numbers)
{
    maker->layer->held_for_weight_bytes += layer_tensor_bytes(numbers * maker->number);
}

// W reads again what products read in F.
void layer_hold_read(struct layer_maker *maker, double numbers)
{
    if (!layer_keeps_inputs(maker))
        return;
    maker->layer->held_for_weight_bytes += layer_tensor_bytes(numbers * maker->product_number);
}

// The output of a norm, which the next product reads.
void layer_keep_norm(struct layer_maker *maker)
{
    const double numbers = maker->local_tokens * (double)maker->model->hidden;
    if (!layer_keeps_inputs(maker))
        return;
    layer_hold_read(maker, numbers);
    if (!layer_is_recomputed(maker, RECOMPUTE_NORMS)) {
        layer_keep_read(maker, numbers);
        return;
    }
    layer_add_pass(maker, ESTIMATE_I, 2 * numbers);
    layer_bring_back(maker, numbers * maker->product_number);
}

uint64_t layer_part_of(double parameters, double over)
{
    return whole(parameters / over);
}

void layer_set_output(struct layer_maker *maker)
{
    const double hidden = (double)maker->model->hidden;
    maker->layer->output_bytes = layer_tensor_bytes(maker->local_tokens * hidden * maker->number);
    layer_hold(maker, maker->local_tokens * hidden);
    maker->layer->input_kept = INPUT_KEPT_BOTH;
    // With the sequence split, what is gathered for a product lives as long as the product.
    const uint64_t gathered = maker->request->sequence_parallel && maker->tensor > 1
        ? layer_tensor_bytes(maker->tokens * hidden * maker->number) : 0;
    maker->layer->workspace_bytes = gathered;
    maker->layer->backward_workspace_bytes = 2 * gathered;
}

// --- norms, residuals ---------------------------------------------------------

void layer_add_norm(struct layer_maker *maker)
{
    const double numbers = maker->local_tokens * (double)maker->model->hidden;
    layer_add_passes(maker, 2 * numbers, 3 * numbers);
    if (!maker->model->has_layer_norm || !maker->is_trained)
        return;
    layer_phase(maker, ESTIMATE_W)->launches += 1;
    layer_phase(maker, ESTIMATE_W)->passes_ns += pass_ns(maker->device, 0);
}

// The sum with the residual, including the norm, the bias and the dropout of models that have them.
// What is added is scaled by a vector, whose gradient reads it again.
static void add_scale(struct layer_maker *maker)
{
    const double numbers = maker->local_tokens * (double)maker->model->hidden;
    layer_add_small_pass(maker, ESTIMATE_F, 2 * numbers);
    layer_add_small_pass(maker, ESTIMATE_I, 2 * numbers);
    if (!maker->is_trained)
        return;
    layer_add_small_pass(maker, ESTIMATE_W, 2 * numbers);
    layer_keep(maker, numbers);
}

void layer_add_residual(struct layer_maker *maker)
{
    if (maker->model->scales_layers)
        add_scale(maker);
    const double numbers = maker->local_tokens * (double)maker->model->hidden;
    if (maker->model->norms_twice) {
        layer_add_norm(maker);
        layer_keep(maker, numbers);
    }
    layer_add_pass(maker, ESTIMATE_F, 3.0 * numbers + (maker->model->drops ? numbers / 2 : 0));
    layer_add_small_pass(maker, ESTIMATE_I, (maker->model->drops ? 2.5 : 1) * numbers);
}

// The gradient of a bias takes a pass of its own.
void layer_add_bias_gradient(struct layer_maker *maker, double numbers)
{
    if (maker->is_trained)
        layer_add_pass(maker, ESTIMATE_W, numbers);
}
