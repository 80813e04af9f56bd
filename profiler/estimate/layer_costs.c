#include "profiler/estimate/layer_costs.h"

#include <math.h>

#include "common/json.h"
#include "common/number.h"

// --- kernels ------------------------------------------------------------------

static struct phase_estimate *phase_of(struct layer_maker *maker, enum estimate_phase phase)
{
    return &maker->layer->phases[phase];
}

// The time of a launch without an operation of PyTorch around it: 5 us of 80 (NVIDIA's guide to Nsight Systems).
#define LAUNCH_ALONE (1.0 / 16)

// In a group, such as that of experts, each product has a launch of its own (transformer_engine/common/gemm:
// multi_stream_cublas_gemm).
static void add_product(struct layer_maker *maker, enum estimate_phase phase, const struct rated_product *rated,
                        struct product_size size)
{
    phase_of(maker, phase)->products_ns += product_ns(maker->device, rated, &size);
    phase_of(maker, phase)->launches += 1 + (maker->is_grouped ? (size.count - 1) * LAUNCH_ALONE : 0);
}

// A pass over this many numbers of activations.
static void add_pass(struct layer_maker *maker, enum estimate_phase phase, double numbers)
{
    phase_of(maker, phase)->passes_ns += pass_ns(maker->device, numbers * maker->number);
    phase_of(maker, phase)->launches += 1;
}

// A pass that a compiler fuses into the kernel beside it.
static void add_small_pass(struct layer_maker *maker, enum estimate_phase phase, double numbers)
{
    if (!maker->request->fused_passes)
        add_pass(maker, phase, numbers);
}

static void add_exchange(struct layer_maker *maker, enum estimate_phase phase, enum collective what, double bytes,
                         struct group group)
{
    if (group.ranks <= 1)
        return;
    phase_of(maker, phase)->communication_ns += collective_ns(maker->device, what, bytes, group);
    phase_of(maker, phase)->launches += 1;
}

// A number that is too large for a document is refused once everything is added up.
static uint64_t whole(double number)
{
    return (uint64_t)fmin(ceil(number), (double)JSON_MAX + 1);
}

static void count_flops(struct layer_maker *maker, double flops)
{
    maker->layer->flops += whole(flops);
}

// Quantization is a pass of its own. It reads the numbers as they are, and writes them narrow twice, once transposed.
static void add_narrowing(struct layer_maker *maker, enum estimate_phase phase, double numbers)
{
    if (maker->product_number < maker->number)
        add_pass(maker, phase, numbers * (1 + 2 * maker->product_number / maker->number));
}

// tokens x in by in x out, `count` at once, forward and backward. The gradient of the weights is added to one of 4
// bytes.
static void add_linear(struct layer_maker *maker, double tokens, double in, double out, double count)
{
    const double narrow = maker->product_number, wide = maker->number;
    add_narrowing(maker, ESTIMATE_F, tokens * in * count);
    add_product(maker, ESTIMATE_F, maker->products, (struct product_size){ tokens, out, in, count, narrow, wide });
    add_narrowing(maker, ESTIMATE_I, tokens * out * count);
    add_product(maker, ESTIMATE_I, maker->products, (struct product_size){ tokens, in, out, count, narrow, wide });
    add_product(maker, ESTIMATE_W, maker->products, (struct product_size){ in, out, tokens, count, narrow, 8 });
    count_flops(maker, 2 * tokens * in * out * count);
}

// --- tensor parallelism -------------------------------------------------------

static struct group tensor_group(const struct layer_maker *maker)
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
static void enter_split(struct layer_maker *maker)
{
    const double bytes = maker->tokens * (double)maker->model->hidden * maker->number;
    if (!maker->request->sequence_parallel) {
        add_exchange(maker, ESTIMATE_I, ALL_REDUCE, bytes, tensor_group(maker));
        return;
    }
    add_exchange(maker, ESTIMATE_F, ALL_GATHER, gathered_bytes(maker), tensor_group(maker));
    add_exchange(maker, ESTIMATE_I, REDUCE_SCATTER, bytes, tensor_group(maker));
    add_exchange(maker, ESTIMATE_W, ALL_GATHER, gathered_bytes(maker), tensor_group(maker));
}

// Communication after such a part: the forward reduces.
static void leave_split(struct layer_maker *maker)
{
    const double bytes = maker->tokens * (double)maker->model->hidden * maker->number;
    if (!maker->request->sequence_parallel) {
        add_exchange(maker, ESTIMATE_F, ALL_REDUCE, bytes, tensor_group(maker));
        return;
    }
    add_exchange(maker, ESTIMATE_F, REDUCE_SCATTER, bytes, tensor_group(maker));
    add_exchange(maker, ESTIMATE_I, ALL_GATHER, gathered_bytes(maker), tensor_group(maker));
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
static void hide_exchanges(struct layer_maker *maker)
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

static uint64_t tensor_bytes(double bytes)
{
    return round_to_256(whole(bytes));
}

// A tensor of the model's activations that is kept for the backward.
static void keep(struct layer_maker *maker, double numbers)
{
    maker->layer->saved_bytes += tensor_bytes(numbers * maker->number);
}

// What products read is kept in the narrow type in which they read it.
static void keep_read(struct layer_maker *maker, double numbers)
{
    maker->layer->saved_bytes += tensor_bytes(numbers * maker->product_number);
}

static bool is_recomputed(const struct layer_maker *maker, enum estimate_recompute what)
{
    return maker->request->recompute_tensors & what;
}

// What is recomputed is in memory while the backward of its layer runs.
static void bring_back(struct layer_maker *maker, double bytes)
{
    maker->layer->backward_workspace_bytes += tensor_bytes(bytes);
}

static void keep_mask(struct layer_maker *maker, double numbers)
{
    if (maker->model->drops)
        maker->layer->saved_bytes += tensor_bytes(numbers);
}

static void hold(struct layer_maker *maker, double numbers)
{
    maker->layer->held_for_weight_bytes += tensor_bytes(numbers * maker->number);
}

// W reads again what products read in F.
static void hold_read(struct layer_maker *maker, double numbers)
{
    maker->layer->held_for_weight_bytes += tensor_bytes(numbers * maker->product_number);
}

// The output of a norm, which the next product reads.
static void keep_norm(struct layer_maker *maker)
{
    const double numbers = maker->local_tokens * (double)maker->model->hidden;
    hold_read(maker, numbers);
    if (!is_recomputed(maker, RECOMPUTE_NORMS)) {
        keep_read(maker, numbers);
        return;
    }
    add_pass(maker, ESTIMATE_I, 2 * numbers);
    bring_back(maker, numbers * maker->product_number);
}

static uint64_t part_of(double parameters, double over)
{
    return whole(parameters / over);
}

static void set_output(struct layer_maker *maker)
{
    const double hidden = (double)maker->model->hidden;
    maker->layer->output_bytes = tensor_bytes(maker->local_tokens * hidden * maker->number);
    hold(maker, maker->local_tokens * hidden);
    maker->layer->input_kept = INPUT_KEPT_BOTH;
    // With the sequence split, what is gathered for a product lives as long as the product.
    const uint64_t gathered = maker->request->sequence_parallel && maker->tensor > 1
        ? tensor_bytes(maker->tokens * hidden * maker->number) : 0;
    maker->layer->workspace_bytes = gathered;
    maker->layer->backward_workspace_bytes = 2 * gathered;
}

// --- norms, residuals ---------------------------------------------------------

static void add_norm(struct layer_maker *maker)
{
    const double numbers = maker->local_tokens * (double)maker->model->hidden;
    add_pass(maker, ESTIMATE_F, 2 * numbers);
    add_pass(maker, ESTIMATE_I, 3 * numbers);
    if (!maker->model->has_layer_norm)
        return;
    phase_of(maker, ESTIMATE_W)->launches += 1;
    phase_of(maker, ESTIMATE_W)->passes_ns += pass_ns(maker->device, 0);
}

// The sum with the residual, including the norm, the bias and the dropout of models that have them.
static void add_residual(struct layer_maker *maker)
{
    const double numbers = maker->local_tokens * (double)maker->model->hidden;
    if (maker->model->norms_twice) {
        add_norm(maker);
        keep(maker, numbers);
    }
    add_pass(maker, ESTIMATE_F, 3.0 * numbers + (maker->model->drops ? numbers / 2 : 0));
    add_small_pass(maker, ESTIMATE_I, (maker->model->drops ? 2.5 : 1) * numbers);
}

// The gradient of a bias takes a pass of its own.
static void add_bias_gradient(struct layer_maker *maker, double numbers)
{
    add_pass(maker, ESTIMATE_W, numbers);
}

// --- embedding ----------------------------------------------------------------

void make_embedding(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double numbers = maker->tokens * (double)model->hidden;
    add_pass(maker, ESTIMATE_F, 2 * numbers);
    if (model->positions > 0)
        add_pass(maker, ESTIMATE_F, 3 * numbers);
    if (model->drops)
        add_pass(maker, ESTIMATE_F, 2.5 * numbers);
    leave_split(maker);
    add_pass(maker, ESTIMATE_W, 6 * numbers);
    const double bytes = maker->number;
    maker->layer->output_bytes = tensor_bytes(maker->local_tokens * (double)model->hidden * bytes);
    maker->layer->saved_bytes = tensor_bytes(8 * maker->tokens);
    keep_mask(maker, maker->local_tokens * (double)model->hidden);
    hold(maker, maker->local_tokens * (double)model->hidden);
    maker->layer->input_kept = INPUT_KEPT_NONE;
    maker->layer->parameters = part_of((double)model->vocabulary, maker->tensor) * model->hidden
        + model->positions * model->hidden;
}

// --- attention ----------------------------------------------------------------

static double pairs_of_chunks(double sequence, double chunk)
{
    const double rest = fmod(sequence, chunk);
    return ((sequence - rest) * chunk + rest * rest) / 2;
}

// Pairs of a query and a key on this device, for one head: half of all pairs, or fewer if a window or a chunk is
// shorter.
static double pairs_seen(const struct layer_maker *maker)
{
    const double sequence = (double)maker->request->sequence, window = maker->window;
    if (maker->model->has_chunks && window > 0 && window < sequence)
        return maker->tokens * pairs_of_chunks(sequence, window) / sequence;
    const double seen = window > 0 && window < sequence ? window * (1 - window / sequence / 2) : sequence / 2;
    return maker->tokens * seen;
}

static double heads_here(const struct layer_maker *maker)
{
    return (double)maker->model->heads / maker->tensor;
}

static double kv_heads_here(const struct layer_maker *maker)
{
    return fmax(1, (double)maker->model->kv_heads / maker->tensor);
}

static double attention_flops(const struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    return 2 * pairs_seen(maker) * heads_here(maker) * (double)(model->head_size + model->value_size);
}

static void add_fused_attention(struct layer_maker *maker)
{
    const double flops = attention_flops(maker);
    const struct rated_device *device = maker->device;
    const struct rated_attention *rated =
        maker->request->attention == ATTENTION_FLASH ? &device->flash : &device->fused;
    const double peak = (double)maker->head_products->gigaflops * (double)device->sustained_permille / 1e6;
    struct phase_estimate *forward = phase_of(maker, ESTIMATE_F), *backward = phase_of(maker, ESTIMATE_I);
    forward->attention_ns += (double)device->kernel_ns + flops / (peak * (double)rated->forward_permille);
    backward->attention_ns +=
        2 * (double)device->kernel_ns + 2.5 * flops / (peak * (double)rated->backward_permille);
    forward->launches += 1;
    backward->launches += 3;
    count_flops(maker, flops);
    maker->layer->saved_bytes += tensor_bytes(4 * maker->tokens * heads_here(maker));
}

// Scores of all pairs in memory: two products, with softmax and dropout between them.
static void add_scores(struct layer_maker *maker, enum estimate_phase phase)
{
    const struct transformer *model = maker->model;
    const double sequence = (double)maker->request->sequence;
    const double size = (double)model->head_size, heads = heads_here(maker) * (double)maker->request->micro_batch;
    const double queries = maker->tokens / (double)maker->request->micro_batch;
    const double number = maker->number;
    const struct rated_product *rated = maker->head_products;
    add_product(maker, phase, rated, (struct product_size){ queries, sequence, size, heads, number, number });
    add_pass(maker, phase, 2 * heads * queries * sequence);
    if (model->drops_scores)
        add_pass(maker, phase, 2.5 * heads * queries * sequence);
    add_product(maker, phase, rated, (struct product_size){ queries, size, sequence, heads, number, number });
}

static void add_plain_attention(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double sequence = (double)maker->request->sequence, scores = maker->tokens * sequence * heads_here(maker);
    const double size = (double)model->head_size, heads = heads_here(maker) * (double)maker->request->micro_batch;
    const double queries = maker->tokens / (double)maker->request->micro_batch, number = maker->number;
    const struct rated_product *rated = maker->head_products;
    add_scores(maker, ESTIMATE_F);
    if (maker->request->attention == ATTENTION_RECOMPUTED)
        add_scores(maker, ESTIMATE_I);
    for (int twice = 0; twice < 2; twice++) {
        add_product(maker, ESTIMATE_I, rated, (struct product_size){ queries, sequence, size, heads, number, number });
        add_product(maker, ESTIMATE_I, rated, (struct product_size){ queries, size, sequence, heads, number, number });
    }
    add_pass(maker, ESTIMATE_I, 3 * scores);
    if (model->drops_scores)
        add_pass(maker, ESTIMATE_I, 2.5 * scores);
    count_flops(maker, 8 * scores * size / 2);
    if (maker->request->attention == ATTENTION_RECOMPUTED) {
        maker->layer->backward_workspace_bytes += tensor_bytes((model->drops_scores ? 5 : 2) * scores);
        return;
    }
    keep(maker, scores);
    if (model->drops_scores) {
        keep(maker, scores);
        maker->layer->saved_bytes += tensor_bytes(scores);  // the scores after dropout
    }
}

// Keys and values go around the ring of the context-parallel group while attention works on those that are there.
static void add_context_ring(struct layer_maker *maker)
{
    const double ranks = (double)maker->request->context;
    if (ranks <= 1)
        return;
    const struct transformer *model = maker->model;
    const double size = (double)(model->head_size + model->value_size) / 2;
    const double bytes = 2 * maker->tokens * ranks * kv_heads_here(maker) * size * maker->number;
    const struct group group = { .ranks = ranks, .stride = maker->tensor };
    for (int i = ESTIMATE_F; i <= ESTIMATE_I; i++) {
        struct phase_estimate *phase = phase_of(maker, i);
        const double ring = collective_ns(maker->device, ALL_GATHER, (i == ESTIMATE_F ? 1 : 2) * bytes, group);
        const double exposed = fmax(ring / ranks, ring - phase->attention_ns * (ranks - 1) / ranks);
        phase->communication_ns += exposed;
        phase->hidden_ns += ring - exposed;
        phase->launches += 2 * (ranks - 1);
    }
}

// Recomputes queries, keys and values from what is kept of them.
static void add_latent_again(struct layer_maker *maker, double queries, double both)
{
    const struct transformer *model = maker->model;
    const double narrow = maker->product_number, wide = maker->number, tokens = maker->tokens;
    const double from = model->query_rank > 0 ? (double)model->query_rank : (double)model->hidden;
    const double values = (double)model->value_rank;
    if (!is_recomputed(maker, RECOMPUTE_LATENT))
        return;
    add_narrowing(maker, ESTIMATE_I, tokens * (from + values));
    add_product(maker, ESTIMATE_I, maker->products, (struct product_size){ tokens, queries, from, 1, narrow, wide });
    add_product(maker, ESTIMATE_I, maker->products, (struct product_size){ tokens, both, values, 1, narrow, wide });
    add_pass(maker, ESTIMATE_I, 2 * tokens * (both + queries));
}

static void add_latent_products(struct layer_maker *maker, double queries)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, values = (double)model->value_rank;
    const double narrow = values + (double)model->rope_size, tokens = maker->tokens;
    if (model->query_rank > 0) {
        add_linear(maker, tokens, hidden, (double)model->query_rank, 1);
        add_pass(maker, ESTIMATE_F, 2 * tokens * (double)model->query_rank);
        add_pass(maker, ESTIMATE_I, 3 * tokens * (double)model->query_rank);
        add_linear(maker, tokens, (double)model->query_rank, queries, 1);
        keep(maker, 2 * tokens * (double)model->query_rank);
        hold(maker, 2 * tokens * (double)model->query_rank);
    } else {
        add_linear(maker, tokens, hidden, queries, 1);
    }
    const double both = heads_here(maker) * (double)(model->nope_size + model->value_size);
    add_linear(maker, tokens, hidden, narrow, 1);
    add_pass(maker, ESTIMATE_F, 2 * tokens * values);
    add_pass(maker, ESTIMATE_I, 3 * tokens * values);
    add_linear(maker, tokens, values, both, 1);
    add_pass(maker, ESTIMATE_F, 2 * tokens * (both + queries));  // heads are put together from their two parts
    add_pass(maker, ESTIMATE_I, 2 * tokens * (both + queries));
    add_latent_again(maker, queries, both);
    keep(maker, tokens * (values + narrow));
    hold(maker, tokens * (values + narrow));
}

static double head_norms_here(const struct layer_maker *maker)
{
    const double heads = maker->model->norms_across ? heads_here(maker) + kv_heads_here(maker) : 2;
    return heads * (double)maker->model->head_size;
}

static uint64_t attention_share(const struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, size = (double)model->head_size;
    const double norm = (double)transformer_norm_parameters(model);
    if (model->is_latent)
        return part_of((double)transformer_attention_parameters(model), maker->tensor);
    const double out = heads_here(maker) * size, all = out + 2 * kv_heads_here(maker) * size;
    return (uint64_t)(norm + hidden * (all + out) + (model->attention_biases ? all : 0)
                      + (model->output_bias ? hidden : 0) + (model->normed_heads ? head_norms_here(maker) : 0)
                      + (model->has_sinks ? heads_here(maker) : 0));
}

void make_attention(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, tokens = maker->tokens;
    const double queries = heads_here(maker) * (double)model->head_size;
    const double keys = model->is_latent ? queries : kv_heads_here(maker) * (double)model->head_size;
    const double values = heads_here(maker) * (double)model->value_size;
    const double kept_values = model->is_latent ? values : keys;
    set_output(maker);
    add_norm(maker);
    enter_split(maker);
    if (model->is_latent)
        add_latent_products(maker, queries);
    else
        add_linear(maker, tokens, hidden, queries + 2 * keys, 1);
    if (model->attention_biases)
        add_bias_gradient(maker, tokens * (queries + 2 * keys));
    for (int i = ESTIMATE_F; i <= ESTIMATE_I; i++) {
        if (model->is_rotary)
            add_pass(maker, i, 2 * tokens * (queries + keys));
        if (model->normed_heads)
            add_small_pass(maker, i, 2 * tokens * (queries + keys));
    }
    if (maker->request->attention == ATTENTION_FUSED || maker->request->attention == ATTENTION_FLASH)
        add_fused_attention(maker);
    else
        add_plain_attention(maker);
    add_linear(maker, tokens, values, hidden, 1);
    leave_split(maker);
    hide_exchanges(maker);
    add_context_ring(maker);
    add_residual(maker);
    if (model->output_bias)
        add_bias_gradient(maker, maker->local_tokens * hidden);

    keep_norm(maker);
    if (is_recomputed(maker, RECOMPUTE_LATENT)) {
        bring_back(maker, tokens * (queries + keys + kept_values) * maker->number);
    } else {
        keep(maker, tokens * queries);
        keep(maker, tokens * keys);
        keep(maker, tokens * kept_values);
    }
    keep_read(maker, tokens * values);
    keep_mask(maker, maker->local_tokens * hidden);
    hold(maker, tokens * (queries + keys + kept_values));
    hold_read(maker, tokens * values);
    maker->layer->parameters = attention_share(maker);
}

// --- MLP ----------------------------------------------------------------------

static void add_activation(struct layer_maker *maker, double numbers)
{
    const double inputs = maker->model->is_gated ? 2 : 1;
    add_pass(maker, ESTIMATE_F, (inputs + 1) * numbers);
    add_pass(maker, ESTIMATE_I, (2 * inputs + 1) * numbers);
}

// The products up and down, and the activation between them, for `count` MLPs of `tokens` tokens each.
static void add_mlp(struct layer_maker *maker, double tokens, double ffn, double count)
{
    const double hidden = (double)maker->model->hidden, ups = maker->model->is_gated ? 2 : 1;
    add_linear(maker, tokens, hidden, ups * ffn, count);
    add_activation(maker, tokens * ffn * count);
    add_linear(maker, tokens, ffn, hidden, count);
    keep(maker, ups * tokens * ffn * count);
    if (is_recomputed(maker, RECOMPUTE_ACTIVATIONS)) {
        add_pass(maker, ESTIMATE_I, (ups + 1) * tokens * ffn * count);
        bring_back(maker, tokens * ffn * count * maker->product_number);
    } else {
        keep_read(maker, tokens * ffn * count);
    }
    hold(maker, ups * tokens * ffn * count);
    hold_read(maker, tokens * ffn * count);
}

void make_mlp(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, ffn = (double)model->ffn / maker->tensor;
    const double ups = model->is_gated ? 2 : 1;
    set_output(maker);
    add_norm(maker);
    enter_split(maker);
    add_mlp(maker, maker->tokens, ffn, 1);
    leave_split(maker);
    hide_exchanges(maker);
    add_residual(maker);
    if (model->mlp_biases)
        add_bias_gradient(maker, maker->local_tokens * hidden);  // the other bias's is summed in the activation's pass
    keep_norm(maker);
    keep_mask(maker, maker->local_tokens * hidden);
    const double norm = (double)transformer_norm_parameters(model);
    maker->layer->parameters =
        (uint64_t)(norm + (ups + 1) * hidden * ffn + (model->mlp_biases ? ups * ffn + hidden : 0));
}

// --- experts ------------------------------------------------------------------

// Sends tokens to their experts, or back.
static void add_dispatch(struct layer_maker *maker, enum estimate_phase phase, double numbers)
{
    const struct group group = { .ranks = (double)maker->request->expert, .stride = 1 };
    if (group.ranks > 1) {
        const double bytes = numbers * maker->number;
        phase_of(maker, phase)->communication_ns += maker->request->dispatch == DISPATCH_ONCE
            ? dispatch_ns(maker->device, bytes, (double)maker->model->chosen, group)
            : collective_ns(maker->device, ALL_TO_ALL, bytes, group);
        phase_of(maker, phase)->launches += 1;
    }
    add_pass(maker, phase, 2 * numbers);  // permuted into the experts' order, or back into their own
}

// While the tokens of one micro-batch are being sent, the layers of another one compute.
static void hide_dispatch(struct layer_maker *maker, enum estimate_phase phase, double before)
{
    struct phase_estimate *costs = phase_of(maker, phase);
    const double sent = costs->communication_ns - before;
    const double work = costs->products_ns + costs->passes_ns;
    if (!maker->request->hidden_experts)
        return;
    const double exposed = fmax(0, sent - work);
    costs->communication_ns = before + exposed;
    costs->hidden_ns += sent - exposed;
}

static void add_router(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double experts = (double)model->experts;
    enum { SMALL_KERNELS = 40 };  // the top few experts of each token, their weights, counts and places
    add_linear(maker, maker->local_tokens, (double)model->hidden, experts, 1);
    for (int i = 0; i < SMALL_KERNELS; i++) {
        add_small_pass(maker, ESTIMATE_F, 2 * maker->local_tokens * experts);
        add_small_pass(maker, ESTIMATE_I, maker->local_tokens * experts);
    }
}

// Each expert's bias is multiplied by the expert's weight for a token and added to the expert's output. This is done
// in fp32; then the outputs are concatenated and narrowed, as in Megatron (TEGroupedMLP._apply_bias). The gradients
// of the weights for tokens are in I, with a copy that concatenates those of the experts' outputs.
static void add_output_biases(struct layer_maker *maker, double numbers, double experts)
{
    const double wide = 4 / maker->number;
    for (double i = 0; i < experts; i++) {
        add_pass(maker, ESTIMATE_F, wide * numbers / experts);
        add_pass(maker, ESTIMATE_F, (1 + 2 * wide) * numbers / experts);
        add_pass(maker, ESTIMATE_I, (1 + wide) * numbers / experts);
        add_pass(maker, ESTIMATE_I, 2 * wide * numbers / experts);
        add_pass(maker, ESTIMATE_I, wide * numbers / experts);
        add_pass(maker, ESTIMATE_W, 2 * wide * numbers / experts);
        add_pass(maker, ESTIMATE_W, wide * numbers / experts);
    }
    add_pass(maker, ESTIMATE_F, 2 * wide * numbers);
    add_pass(maker, ESTIMATE_F, (1 + wide) * numbers);
    add_pass(maker, ESTIMATE_I, (1 + wide) * numbers);
    add_pass(maker, ESTIMATE_I, 2 * numbers);
    maker->layer->workspace_bytes += 2 * tensor_bytes(4 * numbers);
    maker->layer->backward_workspace_bytes += tensor_bytes(4 * numbers);
}

static void add_expert_biases(struct layer_maker *maker, double sent, double here)
{
    const struct transformer *model = maker->model;
    if (!model->biased_experts)
        return;
    add_bias_gradient(maker, maker->local_tokens * (double)model->experts);
    add_bias_gradient(maker, (model->is_gated ? 2 : 1) * sent * (double)model->expert_ffn);
    add_output_biases(maker, sent * (double)model->hidden, here);
}

void make_experts(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, ranks = (double)maker->request->expert;
    const double sent = maker->local_tokens * (double)model->chosen;  // as many come back, if experts are evenly loaded
    const double here = (double)model->experts / ranks;
    set_output(maker);
    add_norm(maker);
    add_router(maker);
    if (model->shared_ffn > 0) {
        enter_split(maker);
        add_mlp(maker, maker->tokens, (double)model->shared_ffn / maker->tensor, 1);
        leave_split(maker);
    }
    hide_exchanges(maker);
    const struct phase_estimate *phases = maker->layer->phases;
    const double before[] = { phases[ESTIMATE_F].communication_ns, phases[ESTIMATE_I].communication_ns };
    add_dispatch(maker, ESTIMATE_F, sent * hidden);
    maker->is_grouped = true;
    add_mlp(maker, sent / here, (double)model->expert_ffn, here);
    maker->is_grouped = false;
    add_expert_biases(maker, sent, here);
    add_dispatch(maker, ESTIMATE_F, sent * hidden);
    add_dispatch(maker, ESTIMATE_I, sent * hidden);
    add_dispatch(maker, ESTIMATE_I, sent * hidden);
    for (int i = ESTIMATE_F; i <= ESTIMATE_I; i++)
        hide_dispatch(maker, i, before[i]);
    add_residual(maker);
    keep_norm(maker);
    keep_read(maker, sent * hidden);  // what the experts have read
    keep(maker, sent * hidden);       // and their outputs
    hold_read(maker, sent * hidden);
    hold(maker, sent * hidden);
    maker->layer->saved_bytes += tensor_bytes(4 * maker->local_tokens * (double)(2 * model->experts + model->chosen));

    maker->layer->expert_parameters = transformer_experts_parameters(model) / maker->request->expert;
    const double shared = (double)(transformer_mlp_parameters(model) - transformer_norm_parameters(model));
    const double split = model->shared_ffn > 0 ? shared * (double)model->shared_ffn / (double)model->ffn : 0;
    maker->layer->parameters = transformer_router_parameters(model) + maker->layer->expert_parameters
        - (uint64_t)(split * (1 - 1 / maker->tensor));
}

// --- multi-token prediction -----------------------------------------------------

static void add_layer(struct layer_estimate *all, const struct layer_estimate *part)
{
    for (int i = 0; i < ESTIMATE_PHASES; i++) {
        struct phase_estimate *to = &all->phases[i];
        const struct phase_estimate *from = &part->phases[i];
        to->products_ns += from->products_ns;
        to->attention_ns += from->attention_ns;
        to->passes_ns += from->passes_ns;
        to->communication_ns += from->communication_ns;
        to->hidden_ns += from->hidden_ns;
        to->launches += from->launches;
    }
    all->parameters += part->parameters;
    all->expert_parameters += part->expert_parameters;
    all->saved_bytes += part->saved_bytes;
    all->held_for_weight_bytes += part->held_for_weight_bytes;
    all->workspace_bytes = max_u64(all->workspace_bytes, part->workspace_bytes);
    all->backward_workspace_bytes = max_u64(all->backward_workspace_bytes, part->backward_workspace_bytes);
    all->flops += part->flops;
}

// A block like the last one.
static void add_last_block(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    struct layer_estimate *all = maker->layer, attention = { 0 }, rest = { 0 };
    maker->window = (double)(transformer_is_local(model, model->layers - 1) ? model->local_window : model->window);
    maker->layer = &attention;
    make_attention(maker);
    maker->layer = &rest;
    (transformer_has_experts(model, model->layers - 1) ? make_experts : make_mlp)(maker);
    maker->layer = all;
    add_layer(all, &attention);
    add_layer(all, &rest);
}

// The output of the blocks, and the table's row of the next token, each pass a norm. Side by side they go through a
// product of twice the width (Megatron-Core's multi_token_prediction.py: enorm, hnorm, eh_proj, a column-parallel
// product). The output of the blocks is passed on beside the result, since the head reads both.
void make_predicted(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, numbers = maker->tokens * hidden;
    set_output(maker);
    maker->layer->output_bytes *= 1 + model->predicted;
    add_pass(maker, ESTIMATE_F, 2 * numbers);
    add_pass(maker, ESTIMATE_W, 6 * numbers);
    for (int i = 0; i < 2; i++) {
        add_norm(maker);
        keep(maker, maker->local_tokens * hidden);
        keep_norm(maker);
        enter_split(maker);
    }
    add_linear(maker, maker->tokens, 2 * hidden, hidden / maker->tensor, 1);
    leave_split(maker);
    hide_exchanges(maker);
    maker->layer->parameters = 3 * (model->has_layer_norm ? 2 : 1) * model->hidden
        + part_of(2 * hidden * hidden, maker->tensor);
    add_last_block(maker);
}

// --- head ---------------------------------------------------------------------

// In fp32: the logits are widened; the largest of each token is found and subtracted; exponentials and their sum are
// computed; then the exponentials are divided by the sum.
static void add_wide_loss(struct layer_maker *maker, double logits)
{
    const double wide = 4 / maker->number;
    add_pass(maker, ESTIMATE_F, logits * (1 + wide));
    add_pass(maker, ESTIMATE_F, logits * wide);
    add_small_pass(maker, ESTIMATE_F, logits * 2 * wide);
    add_small_pass(maker, ESTIMATE_F, logits * 2 * wide);
    add_small_pass(maker, ESTIMATE_F, logits * wide);
    add_pass(maker, ESTIMATE_I, logits * 2 * wide);
    add_pass(maker, ESTIMATE_I, logits * (1 + wide));
    maker->layer->saved_bytes += tensor_bytes(4 * logits);
    maker->layer->workspace_bytes += tensor_bytes(maker->number * logits);
    maker->layer->backward_workspace_bytes += tensor_bytes(maker->number * logits);
    if (maker->request->loss == LOSS_COMPILED)  // in place except for a copy
        maker->layer->backward_workspace_bytes += tensor_bytes(4 * logits);
    if (maker->request->loss != LOSS_PLAIN)
        return;
    // The widened logits lie beside their logarithms. The gradient of the logarithms and that of the logits lie
    // beside these, and one more with DTensor.
    const int besides = maker->tensor > 1 ? 3 : 2;
    maker->layer->workspace_bytes += tensor_bytes(4 * logits);
    maker->layer->backward_workspace_bytes +=
        (uint64_t)besides * tensor_bytes(4 * logits) - tensor_bytes(maker->number * logits);
}

// Logits are read twice and written. The backward scales what is there.
static void add_fused_loss(struct layer_maker *maker, double logits)
{
    add_pass(maker, ESTIMATE_F, 3 * logits);
    add_pass(maker, ESTIMATE_I, 2 * logits);
    keep(maker, logits);
}

// Logits are read; for the gradient they are read again, and it is written beside them.
static void add_kernel_loss(struct layer_maker *maker, double logits)
{
    add_pass(maker, ESTIMATE_F, logits);
    add_pass(maker, ESTIMATE_I, 2 * logits);
    keep(maker, logits);
    maker->layer->backward_workspace_bytes += tensor_bytes(maker->number * logits);
}

// Cross entropies that are only reported, computed by PyTorch's function under autocast. Logits are widened, and
// their logarithms written. This happens after the backward, when there is room.
static void add_metrics(struct layer_maker *maker, double logits)
{
    const double wide = 4 / maker->number;
    for (uint32_t i = 0; i < maker->request->metrics; i++) {
        add_pass(maker, ESTIMATE_F, logits * (1 + wide));
        add_pass(maker, ESTIMATE_F, logits * 2 * wide);
    }
}

// Logits are divided, go through tanh, whose output is kept for the backward, and are multiplied.
static void add_cap(struct layer_maker *maker, double logits)
{
    add_pass(maker, ESTIMATE_F, 2 * logits);
    add_pass(maker, ESTIMATE_I, 3 * logits);
    for (int i = 0; i < 2; i++) {
        add_small_pass(maker, ESTIMATE_F, 2 * logits);
        add_small_pass(maker, ESTIMATE_I, 2 * logits);
    }
    keep(maker, logits);
}

// The head runs once for each token that is predicted.
void make_head(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, words = ceil((double)model->vocabulary / maker->tensor);
    const double tokens = maker->tokens, number = maker->number, logits = tokens * words;
    const struct rated_product *rated = maker->head_products;
    set_output(maker);
    maker->layer->output_bytes = maker->layer->held_for_weight_bytes = 0;
    add_norm(maker);
    enter_split(maker);
    add_product(maker, ESTIMATE_F, rated, (struct product_size){ tokens, words, hidden, 1, number, number });
    add_product(maker, ESTIMATE_I, rated, (struct product_size){ tokens, hidden, words, 1, number, number });
    add_product(maker, ESTIMATE_W, rated, (struct product_size){ words, hidden, tokens, 1, number, 8 });
    count_flops(maker, 2 * tokens * words * hidden);
    hide_exchanges(maker);
    if (model->caps_logits)
        add_cap(maker, logits);
    if (maker->request->loss == LOSS_FUSED)
        add_fused_loss(maker, logits);
    else if (maker->request->loss == LOSS_KERNEL)
        add_kernel_loss(maker, logits);
    else
        add_wide_loss(maker, logits);
    add_metrics(maker, logits);
    for (int i = 0; i < 3; i++)
        add_exchange(maker, ESTIMATE_F, ALL_REDUCE, 4 * tokens, tensor_group(maker));
    keep(maker, maker->local_tokens * hidden);
    maker->layer->held_for_weight_bytes = tensor_bytes(number * logits);
    hold(maker, maker->local_tokens * hidden);
    const struct layer_estimate once = *maker->layer;
    for (uint64_t i = 0; i < model->predicted; i++)
        add_layer(maker->layer, &once);
    const uint64_t norm = (model->has_layer_norm ? 2 : 1) * model->hidden;
    maker->layer->parameters = norm + (model->is_tied ? 0 : (uint64_t)words * model->hidden);
}
