#include "profiler/estimate/recurrent_costs.h"

#include <math.h>

#include "profiler/estimate/layer_kernels.h"

enum { BACKWARD_FORWARDS = 3 };  // as many times as the forward: it again, and the gradients of two factors

// --- operations -------------------------------------------------------------------

// Scores of a group's chunk are read by each of its heads.
static double mamba2_flops(const struct transformer *model, double heads, double groups)
{
    const double size = (double)model->scan_size, state = (double)model->scan_state;
    return 2 * (double)model->scan_chunk * (groups * state + heads * size) + 4 * heads * size * state;
}

// Within a chunk there are scores of keys with keys and of queries with keys. The inverse of the former multiplies keys
// and values, and the latter multiply the values that are new. Three products are with the state. The inverse itself
// is left out: it is of a triangle as wide as a chunk, a sixtieth of the rest.
static double delta_flops(const struct transformer *model, double heads)
{
    const double size = (double)model->scan_size, state = (double)model->scan_state;
    return heads * (2 * (double)model->scan_chunk * (3 * state + 2 * size) + 6 * size * state);
}

static double lightning_flops(const struct transformer *model, double heads)
{
    const double size = (double)model->scan_size;
    return heads * (4 * (double)model->scan_chunk * size + 4 * size * size);
}

// No products: a decay and its exponential, two products and a sum that update each number of the state, and a product
// and a sum that read it.
static double mamba_flops(const struct transformer *model, double channels)
{
    return 7 * channels * (double)model->scan_state;
}

static double scan_flops(const struct transformer *model, double over)
{
    const double heads = (double)model->scan_heads / over, groups = fmax(1, (double)model->scan_groups / over);
    switch (model->recurrence) {
    case RECURRENCE_MAMBA2:
        return mamba2_flops(model, heads, groups);
    case RECURRENCE_DELTA:
        return delta_flops(model, heads);
    case RECURRENCE_LIGHTNING:
        return lightning_flops(model, heads);
    case RECURRENCE_MAMBA:
        return mamba_flops(model, heads * (double)model->scan_size);
    default:
        return 0;
    }
}

// --- kernels ------------------------------------------------------------------------

static double inner_of(const struct layer_maker *maker)
{
    return (double)(maker->model->scan_heads * maker->model->scan_size) / maker->tensor;
}

static double width_of(const struct layer_maker *maker)
{
    return (double)transformer_scan_width(maker->model) / maker->tensor;
}

static double convolved_of(const struct layer_maker *maker)
{
    return (double)transformer_convolved_width(maker->model) / maker->tensor;
}

// The states at the ends of chunks are in memory in 4 bytes. The forward writes what each chunk adds, passes it on from
// chunk to chunk, and reads it. The backward does so again, and with gradients.
static double states_of(const struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    if (model->recurrence == RECURRENCE_MAMBA || model->recurrence == RECURRENCE_CONVOLUTION)
        return 0;
    return maker->tokens / (double)model->scan_chunk * inner_of(maker) * (double)model->scan_state * 4 / maker->number;
}

// The scan of Mamba 1 keeps states in registers, and writes them once in so many tokens.
enum { MAMBA_CHUNK = 2048 };

// Numbers of a token that go from kernel to kernel within a forward.
// * Mamba 2: scores of each group's chunk, in 4 bytes (ops/triton/ssd_bmm.py, for ssd_chunk_scan.py).
// * Delta: scores of keys and their inverse, what it makes of keys and values, and the values that are new
//   (fla/ops/gated_delta_rule/wy_fast.py, common/chunk_delta_h.py).
static double between_of(const struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double heads = (double)model->scan_heads / maker->tensor;
    const double groups = fmax(1, (double)model->scan_groups / maker->tensor), chunk = (double)model->scan_chunk;
    if (model->recurrence == RECURRENCE_MAMBA2)
        return groups * chunk * 4 / maker->number;
    return model->recurrence == RECURRENCE_DELTA
        ? heads * (2 * chunk + (double)model->scan_state) + 2 * inner_of(maker) : 0;
}

// What a convolution reads is multiplied by a gate before it.
static void add_gate(struct layer_maker *maker)
{
    layer_add_passes(maker, 3 * maker->tokens * inner_of(maker), 5 * maker->tokens * inner_of(maker));
}

// Scans are kernels of small products.
static void add_scan(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    if (model->recurrence == RECURRENCE_CONVOLUTION) {
        add_gate(maker);
        return;
    }
    const double flops = maker->tokens * scan_flops(model, maker->tensor), inner = inner_of(maker);
    const double read = (model->scan_kernel > 0 ? convolved_of(maker) : 3 * inner) + inner;
    layer_count_flops(maker, flops);
    layer_add_passes(maker, maker->tokens * (read + inner), maker->tokens * (2 * read + 2 * inner));
    if (model->recurrence == RECURRENCE_MAMBA)
        return;
    layer_phase(maker, ESTIMATE_F)->attention_ns += flops / layer_fused_rate(maker, ESTIMATE_F);
    layer_phase(maker, ESTIMATE_I)->attention_ns += BACKWARD_FORWARDS * flops / layer_fused_rate(maker, ESTIMATE_I);
    layer_add_passes(maker, 4 * states_of(maker) + 2 * maker->tokens * between_of(maker),
                     8 * states_of(maker) + 6 * maker->tokens * between_of(maker));
    layer_phase(maker, ESTIMATE_F)->launches += 3;
    layer_phase(maker, ESTIMATE_I)->launches += 8;
}

// Its output is computed again in the backward, but for the delta rule and a convolution alone, which keep it.
static void add_convolution(struct layer_maker *maker)
{
    const double numbers = maker->tokens * convolved_of(maker);
    if (numbers <= 0)
        return;
    layer_add_pass(maker, ESTIMATE_F, 2 * numbers);
    if (maker->model->recurrence != RECURRENCE_DELTA && maker->model->recurrence != RECURRENCE_CONVOLUTION)
        layer_add_pass(maker, ESTIMATE_I, 2 * numbers);
    layer_add_pass(maker, ESTIMATE_I, 3 * numbers);
    layer_add_pass(maker, ESTIMATE_W, 2 * numbers);
    layer_count_flops(maker, 2 * numbers * (double)maker->model->scan_kernel);
}

// Step sizes by a product of low rank, beside what is written to the state and read from it.
static void add_steps(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double inner = inner_of(maker), rank = (double)model->scan_rank;
    const double narrow = rank + 2 * (double)model->scan_state, tokens = maker->tokens;
    if (model->recurrence != RECURRENCE_MAMBA)
        return;
    layer_add_linear(maker, tokens, inner, narrow, 1);
    layer_add_linear(maker, tokens, rank, inner, 1);
    layer_keep(maker, tokens * narrow);
    layer_hold(maker, tokens * (narrow + inner));
}

// The delta rule with a decay for each channel: products of low rank make that, and the output's gate. The decay is
// kept as it is made and in 4 bytes.
static void add_channel_gates(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double inner = inner_of(maker), rank = (double)model->scan_rank, tokens = maker->tokens;
    if (model->recurrence != RECURRENCE_DELTA || rank <= 0)
        return;
    for (int i = 0; i < 2; i++)
        layer_add_linear(maker, tokens, rank, inner, 1);
    layer_add_passes(maker, (1 + 4 / maker->number) * tokens * inner, (2 + 4 / maker->number) * tokens * inner);
    layer_keep(maker, 2 * tokens * inner);
    layer_keep(maker, 4 / maker->number * tokens * inner);
    layer_hold(maker, 2 * tokens * inner);
}

// The output passes a norm and a gate before the last product.
static void add_gated_norm(struct layer_maker *maker)
{
    const double numbers = maker->tokens * inner_of(maker);
    layer_add_passes(maker, 3 * numbers, 5 * numbers);
}

// Besides what the products read: what the kernels of each recurrence keep for their backward.
// * Mamba: the convolution's output is computed again (mamba_ssm/ops/selective_scan_interface.py).
// * Mamba 2: likewise (ops/triton/ssd_combined.py, mamba_split_conv1d_scan_combined).
// * Delta: queries, keys and values behind the convolution, and the inverse of each chunk's scores
//   (fla/ops/gated_delta_rule/chunk.py).
//   With a decay for each channel, also scores of queries and keys (fla/ops/kda/chunk.py).
// * Convolution: what it reads, behind the first gate.
// * Lightning: queries, keys and values before and behind their activation, and the output behind its norm.
static double kept_of(const struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double inner = inner_of(maker), heads = (double)model->scan_heads / maker->tensor;
    switch (model->recurrence) {
    case RECURRENCE_DELTA:
        return convolved_of(maker) + (model->scan_rank > 0 ? 2 : 1) * heads * (double)model->scan_chunk;
    case RECURRENCE_CONVOLUTION:
        return inner;
    case RECURRENCE_LIGHTNING:
        return 4 * inner;
    case RECURRENCE_MAMBA:
        return 2 * inner * (double)model->scan_state / MAMBA_CHUNK * 4 / maker->number;
    default:
        return 0;
    }
}

void add_recurrence(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double tokens = maker->tokens, hidden = (double)model->hidden, inner = inner_of(maker);
    const double width = width_of(maker);
    layer_add_linear(maker, tokens, hidden, width, 1);
    if (model->scan_bias) {
        layer_add_bias_gradient(maker, tokens * width);
        layer_add_bias_gradient(maker, maker->local_tokens * hidden);
    }
    add_convolution(maker);
    add_steps(maker);
    add_channel_gates(maker);
    add_scan(maker);
    add_gated_norm(maker);
    layer_add_linear(maker, tokens, inner, hidden, 1);
    layer_keep(maker, tokens * (width + inner));  // what the first product makes, and the scan's output
    if (kept_of(maker) > 0)
        layer_keep(maker, tokens * kept_of(maker));
    layer_keep_read(maker, tokens * inner);
    layer_hold(maker, tokens * width);
    layer_hold_read(maker, tokens * inner);
    maker->layer->workspace_bytes += layer_tensor_bytes(2 * states_of(maker) * maker->number);
    maker->layer->backward_workspace_bytes += layer_tensor_bytes(3 * states_of(maker) * maker->number);
}

void add_recurrence_exchange(struct layer_maker *maker)
{
    const struct group group = { .ranks = (double)maker->request->context, .stride = maker->tensor };
    const double bytes = maker->tokens * maker->number;
    for (int i = ESTIMATE_F; i <= ESTIMATE_I; i++) {
        layer_add_exchange(maker, i, ALL_TO_ALL, bytes * width_of(maker), group);
        layer_add_exchange(maker, i, ALL_TO_ALL, bytes * inner_of(maker), group);
    }
}
