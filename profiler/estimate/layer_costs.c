#include "profiler/estimate/layer_costs.h"

#include <math.h>

#include "common/expert_rules.h"
#include "common/number.h"
#include "profiler/estimate/layer_kernels.h"
#include "profiler/estimate/recurrent_costs.h"

// --- embedding ----------------------------------------------------------------

// A product of each patch. Nothing reads the gradient of a picture.
static void add_patches(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, patch = (double)model->patch_numbers, number = maker->number;
    const struct rated_product *rated = maker->products;
    const double tokens = maker->tokens;
    layer_add_product(maker, ESTIMATE_F, rated, (struct product_size){ tokens, hidden, patch, 1, number, number });
    layer_add_product(maker, ESTIMATE_W, rated, (struct product_size){ patch, hidden, tokens, 1, number, 8 });
    layer_count_flops(maker, 2 * tokens * patch * hidden);
    layer_keep(maker, tokens * patch);
}

void make_embedding(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double numbers = maker->tokens * (double)model->hidden;
    if (model->patch_numbers > 0) {
        add_patches(maker);
    } else {
        layer_add_pass(maker, ESTIMATE_F, 2 * numbers);
        maker->layer->saved_bytes = layer_tensor_bytes(8 * maker->tokens);
    }
    if (model->token_types > 0)
        layer_add_small_pass(maker, ESTIMATE_F, 3 * numbers);
    if (model->positions > 0)
        layer_add_pass(maker, ESTIMATE_F, 3 * numbers);
    if (model->drops)
        layer_add_pass(maker, ESTIMATE_F, 2.5 * numbers);
    layer_leave_split(maker);
    if (maker->is_trained)
        layer_add_pass(maker, ESTIMATE_W, 6 * numbers);
    if (model->embedding_norm) {
        layer_add_norm(maker);
        layer_keep(maker, maker->local_tokens * (double)model->hidden);
    }
    const double bytes = maker->number;
    maker->layer->output_bytes = layer_tensor_bytes(maker->local_tokens * (double)model->hidden * bytes);
    layer_keep_mask(maker, maker->local_tokens * (double)model->hidden);
    layer_hold(maker, maker->local_tokens * (double)model->hidden);
    maker->layer->input_kept = INPUT_KEPT_NONE;
    const uint64_t all = model->patch_numbers > 0 ? 0 : model->vocabulary;
    const uint64_t words = layer_part_of((double)all, maker->tensor);
    maker->layer->parameters =
        words * model->hidden + transformer_embedding_parameters(model) - all * model->hidden;
}

// --- attention ----------------------------------------------------------------

static double pairs_of_chunks(double sequence, double chunk)
{
    const double rest = fmod(sequence, chunk);
    return ((sequence - rest) * chunk + rest * rest) / 2;
}

// Tokens of a sequence of this length that a token sees in the mean: half of all, or fewer if a window or a chunk is
// shorter.
static double seen_of(const struct layer_maker *maker, double sequence)
{
    const double chosen = (double)maker->model->index_chosen, window = chosen > 0 ? chosen : maker->window;
    if (maker->sees_all)  // a window has half on either side
        return window > 0 && window < sequence ? window * (1 - window / sequence / 4) : sequence;
    if (maker->model->has_chunks && window > 0 && window < sequence)
        return pairs_of_chunks(sequence, window) / sequence;
    return window > 0 && window < sequence ? window * (1 - window / sequence / 2) : sequence / 2;
}

// Pairs of a query and a key on this device, for one head. Both are of the same one of packed sequences.
static double pairs_seen(const struct layer_maker *maker)
{
    const struct fine_tuning *tuning = &maker->request->tuning;
    double tokens = 0, pairs = 0;
    for (size_t i = 0; i < tuning->length_count; i++) {
        const double length = tuning->lengths[i].tokens, all = tuning->lengths[i].share * length;
        tokens += all;
        pairs += all * seen_of(maker, length);
    }
    return maker->tokens * (tokens > 0 ? pairs / tokens : seen_of(maker, (double)maker->request->sequence));
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
    struct phase_estimate *forward = layer_phase(maker, ESTIMATE_F), *backward = layer_phase(maker, ESTIMATE_I);
    forward->attention_ns += (double)device->kernel_ns + flops / (peak * (double)rated->forward_permille);
    backward->attention_ns +=
        2 * (double)device->kernel_ns + 2.5 * flops / (peak * (double)rated->backward_permille);
    forward->launches += 1;
    backward->launches += 3;
    layer_count_flops(maker, flops);
    maker->layer->saved_bytes += layer_tensor_bytes(4 * maker->tokens * heads_here(maker));
}

// Scores of all pairs in memory: two products, with softmax and dropout between them.
static void add_scores(struct layer_maker *maker, enum estimate_phase phase, struct product_size wide,
                       struct product_size narrow)
{
    const double scores = wide.count * wide.m * wide.n;
    layer_add_product(maker, phase, maker->head_products, wide);
    layer_add_pass(maker, phase, 2 * scores);
    if (maker->model->drops_scores)
        layer_add_pass(maker, phase, 2.5 * scores);
    layer_add_product(maker, phase, maker->head_products, narrow);
}

static void add_plain_attention(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double sequence = (double)maker->request->sequence, scores = maker->tokens * sequence * heads_here(maker);
    const double size = (double)model->head_size, heads = heads_here(maker) * (double)maker->request->micro_batch;
    const double queries = maker->tokens / (double)maker->request->micro_batch, number = maker->number;
    const struct rated_product *rated = maker->head_products;
    const struct product_size wide = { queries, sequence, size, heads, number, number };
    const struct product_size narrow = { queries, size, sequence, heads, number, number };
    add_scores(maker, ESTIMATE_F, wide, narrow);
    if (maker->request->attention == ATTENTION_RECOMPUTED)
        add_scores(maker, ESTIMATE_I, wide, narrow);
    for (int twice = 0; twice < 2; twice++) {
        layer_add_product(maker, ESTIMATE_I, rated, wide);
        layer_add_product(maker, ESTIMATE_I, rated, narrow);
    }
    layer_add_pass(maker, ESTIMATE_I, 3 * scores);
    if (model->drops_scores)
        layer_add_pass(maker, ESTIMATE_I, 2.5 * scores);
    layer_count_flops(maker, (maker->sees_all ? 8 : 4) * scores * size);
    if (maker->request->attention == ATTENTION_RECOMPUTED) {
        maker->layer->backward_workspace_bytes += layer_tensor_bytes((model->drops_scores ? 5 : 2) * scores);
        return;
    }
    layer_keep(maker, scores);
    if (model->drops_scores) {
        layer_keep(maker, scores);
        maker->layer->saved_bytes += layer_tensor_bytes(scores);  // the scores after dropout
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
        struct phase_estimate *phase = layer_phase(maker, i);
        const double ring = collective_ns(maker->device, ALL_GATHER, (i == ESTIMATE_F ? 1 : 2) * bytes, group);
        const double exposed = fmax(ring / ranks, ring - phase->attention_ns * (ranks - 1) / ranks);
        phase->communication_ns += exposed;
        phase->hidden_ns += ring - exposed;
        phase->launches += 2 * (ranks - 1);
    }
}

// With all that follows recomputed, too, the outputs of norms within latent attention are.
static bool keeps_normed_latents(const struct layer_maker *maker)
{
    return !layer_is_recomputed(maker, RECOMPUTE_LATENT) || !layer_is_recomputed(maker, RECOMPUTE_NORMS);
}

// Recomputes queries, keys and values from what is kept of them.
static void add_latent_again(struct layer_maker *maker, double queries, double both)
{
    const struct transformer *model = maker->model;
    const double narrow = maker->product_number, wide = maker->number, tokens = maker->tokens;
    const double from = model->query_rank > 0 ? (double)model->query_rank : (double)model->hidden;
    const double values = (double)model->value_rank;
    if (!layer_is_recomputed(maker, RECOMPUTE_LATENT))
        return;
    layer_add_narrowing(maker, ESTIMATE_I, tokens * (from + values));
    const struct rated_product *rated = maker->products;
    layer_add_product(maker, ESTIMATE_I, rated, (struct product_size){ tokens, queries, from, 1, narrow, wide });
    layer_add_product(maker, ESTIMATE_I, rated, (struct product_size){ tokens, both, values, 1, narrow, wide });
    layer_add_pass(maker, ESTIMATE_I, 2 * tokens * (both + queries));
    const double normed = keeps_normed_latents(maker) ? 0 : tokens * (values + (double)model->query_rank);
    if (normed == 0)
        return;
    layer_add_pass(maker, ESTIMATE_I, 2 * normed);
    layer_bring_back(maker, normed * maker->number);
}

static void add_latent_products(struct layer_maker *maker, double queries)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, values = (double)model->value_rank;
    const double narrow = values + (double)model->rope_size, tokens = maker->tokens;
    const bool keeps_normed = keeps_normed_latents(maker);
    if (model->query_rank > 0) {
        layer_add_tuned(maker, tokens, hidden, (double)model->query_rank, 1, 1);
        layer_add_passes(maker, 2 * tokens * (double)model->query_rank, 3 * tokens * (double)model->query_rank);
        layer_add_tuned(maker, tokens, (double)model->query_rank, queries, 1, 1);
        layer_keep(maker, (keeps_normed ? 2 : 1) * tokens * (double)model->query_rank);
        layer_hold(maker, 2 * tokens * (double)model->query_rank);
    } else {
        layer_add_tuned(maker, tokens, hidden, queries, 1, 1);
    }
    const double both = heads_here(maker) * (double)(model->nope_size + model->value_size);
    layer_add_tuned(maker, tokens, hidden, narrow, 1, 1);
    layer_add_passes(maker, 2 * tokens * values, 3 * tokens * values);
    layer_add_tuned(maker, tokens, values, both, 1, 1);
    const double heads = tokens * (both + queries);  // that are put together from their two parts
    layer_add_passes(maker, 2 * heads, 2 * heads);
    add_latent_again(maker, queries, both);
    layer_keep(maker, tokens * ((keeps_normed ? values : 0) + narrow));
    layer_hold(maker, tokens * (values + narrow));
}

// The indexer scores all earlier tokens, with queries of many heads and one key. Then the best are found, and attention
// gathers them. Its backward has the products of scores twice.
static void add_indexer(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, size = (double)model->index_size, tokens = maker->tokens;
    const double from = model->query_rank > 0 ? (double)model->query_rank : hidden;
    const double heads = (double)model->index_heads, pairs = tokens * (double)maker->request->sequence / 2;
    if (model->index_chosen == 0)
        return;
    layer_add_linear(maker, tokens, from, heads * size, 1);
    layer_add_linear(maker, tokens, hidden, size + heads, 1);
    const double flops = 2 * pairs * heads * size;
    layer_count_flops(maker, flops);
    layer_phase(maker, ESTIMATE_F)->attention_ns += flops / layer_fused_rate(maker, ESTIMATE_F);
    layer_phase(maker, ESTIMATE_I)->attention_ns += 2 * flops / layer_fused_rate(maker, ESTIMATE_I);
    layer_add_pass(maker, ESTIMATE_F, 2 * pairs * 4 / maker->number);
    layer_keep(maker, tokens * (heads * size + size + heads));
    layer_hold(maker, tokens * (heads * size + size + heads));
    maker->layer->saved_bytes += layer_tensor_bytes(4 * tokens * (double)model->index_chosen);  // which were chosen
    maker->layer->workspace_bytes += layer_tensor_bytes(4 * pairs);
}

static double head_norms_here(const struct layer_maker *maker)
{
    if (maker->model->bare_norms)
        return 0;
    const double heads = maker->model->norms_across ? heads_here(maker) + kv_heads_here(maker) : 2;
    return heads * (double)maker->model->head_size;
}

static uint64_t attention_share(const struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, size = (double)model->head_size;
    const double norm = (double)transformer_norm_parameters(model);
    if (model->is_latent)
        return layer_part_of((double)transformer_attention_parameters(model), maker->tensor);
    const double out = heads_here(maker) * size;
    const double all = out * (model->gates_attention ? 2 : 1) + 2 * kv_heads_here(maker) * size;
    return (uint64_t)(norm + hidden * (all + out) + (model->attention_biases ? all : 0)
                      + (model->output_bias ? hidden : 0) + (model->normed_heads ? head_norms_here(maker) : 0)
                      + (model->has_sinks ? heads_here(maker) : 0));
}

// The kernels of attention itself.
static void add_kernels(struct layer_maker *maker)
{
    if (attention_is_one_kernel(maker->request->attention))
        add_fused_attention(maker);
    else
        add_plain_attention(maker);
}

// E5M6: written in the forward. The backward reads it, and writes what the gradient of the weights reads.
static void keep_narrow_output(struct layer_maker *maker, double numbers)
{
    enum { BITS = 12 };
    const double share = layer_narrow_bytes(BITS) / maker->number;
    layer_add_passes(maker, share * numbers, (share + maker->product_number / maker->number) * numbers);
    layer_keep_narrow(maker, numbers, BITS);
}

// What lies between the norm and the sum, with what is kept of it.
static void add_attention(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, tokens = maker->tokens;
    const double queries = heads_here(maker) * (double)model->head_size;
    const double keys = model->is_latent ? queries : kv_heads_here(maker) * (double)model->head_size;
    const double values = heads_here(maker) * (double)model->value_size;
    const double kept_values = model->is_latent ? values : keys, gate = model->gates_attention ? queries : 0;
    add_indexer(maker);
    if (model->is_latent) {
        add_latent_products(maker, queries);
    } else {
        layer_add_tuned(maker, tokens, hidden, queries + gate + 2 * keys, 1, 3);
    }
    if (model->attention_biases)
        layer_add_bias_gradient(maker, tokens * (queries + gate + 2 * keys));
    for (int i = ESTIMATE_F; i <= ESTIMATE_I; i++) {
        if (model->is_rotary)
            layer_add_pass(maker, i, 2 * tokens * (queries + keys));
        if (model->normed_heads)
            layer_add_small_pass(maker, i, 2 * tokens * (queries + keys));
    }
    add_kernels(maker);
    if (gate > 0) {
        layer_add_passes(maker, 3 * tokens * gate, 5 * tokens * gate);
        layer_keep(maker, 2 * tokens * gate);  // the gate, and the output of attention
        layer_hold(maker, tokens * gate);
    }
    layer_add_tuned(maker, tokens, values, hidden, 1, 1);
    if (layer_is_recomputed(maker, RECOMPUTE_LATENT)) {
        layer_bring_back(maker, tokens * (queries + keys + kept_values) * maker->number);
    } else {
        layer_keep(maker, tokens * queries);
        layer_keep(maker, tokens * keys);
        layer_keep(maker, tokens * kept_values);
    }
    const bool is_one = attention_is_one_kernel(maker->request->attention);
    // A fused kernel's backward reads its output, which is wide. So does that of the next product, if it is not narrow.
    const bool is_apart = !layer_keeps_inputs(maker) || maker->product_number < maker->number;
    if (maker->request->narrow & NARROW_ATTENTION && (is_one || layer_keeps_inputs(maker))) {
        keep_narrow_output(maker, tokens * values);
    } else {
        if (is_one && is_apart)
            layer_keep(maker, tokens * values);
        layer_keep_read(maker, tokens * values);
    }
    layer_hold(maker, tokens * (queries + keys + kept_values));
    layer_hold_read(maker, tokens * values);
}

// A decoder's second attention: queries are its own, keys and values the encoder's output. The gradient of that is
// added to that of what is passed on.
static void add_cross_attention(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, tokens = maker->tokens, number = maker->local_tokens * hidden;
    const double queries = heads_here(maker) * (double)model->head_size;
    const double keys = kv_heads_here(maker) * (double)model->head_size;
    maker->sees_all = true;
    layer_add_norm(maker);
    layer_enter_split(maker);
    layer_add_linear(maker, tokens, hidden, queries, 1);
    layer_add_linear(maker, tokens, hidden, 2 * keys, 1);
    layer_add_pass(maker, ESTIMATE_I, 3 * number);
    add_kernels(maker);
    layer_add_linear(maker, tokens, queries, hidden, 1);
    layer_leave_split(maker);
    layer_keep(maker, tokens * (queries + 2 * keys));
    layer_keep_read(maker, tokens * queries);
    layer_hold(maker, tokens * (queries + 2 * keys));
    layer_hold_read(maker, tokens * queries);
    layer_add_residual(maker);
    layer_keep_norm(maker);
    layer_keep_mask(maker, number);
    layer_keep(maker, number);  // what it reads, the output of the first attention
    maker->sees_all = false;
}

void make_attention(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double numbers = maker->local_tokens * (double)model->hidden;
    layer_set_output(maker);
    layer_add_norm(maker);
    layer_enter_split(maker);
    add_attention(maker);
    layer_leave_split(maker);
    const bool has_cross = model->encoder_layers > 0 && maker->part == PART_ATTENTION;
    if (has_cross)
        add_cross_attention(maker);
    layer_hide_exchanges(maker);
    for (int i = 0; i <= has_cross; i++)
        add_context_ring(maker);
    layer_add_residual(maker);
    if (model->output_bias)
        layer_add_bias_gradient(maker, numbers);
    layer_keep_norm(maker);
    layer_keep_mask(maker, numbers);
    maker->layer->parameters = (has_cross ? 2 : 1) * attention_share(maker)
        + layer_part_of((double)transformer_own_buckets(model), maker->tensor);
}

// --- between encoder and decoder ------------------------------------------------

// The encoder's last norm, and the table's rows of the decoder's tokens.
void make_crossing(struct layer_maker *maker)
{
    const double numbers = maker->tokens * (double)maker->model->hidden;
    layer_set_output(maker);
    layer_add_norm(maker);
    layer_add_pass(maker, ESTIMATE_F, 2 * numbers);
    layer_add_pass(maker, ESTIMATE_W, 6 * numbers);
    maker->layer->saved_bytes += layer_tensor_bytes(8 * maker->tokens);
    layer_keep_mask(maker, 2 * maker->local_tokens * (double)maker->model->hidden);
    maker->layer->parameters = transformer_crossing_parameters(maker->model);
}

// --- recurrences ----------------------------------------------------------------

void make_recurrent(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    layer_set_output(maker);
    layer_add_norm(maker);
    layer_enter_split(maker);
    add_recurrence(maker);
    if (model->side_by_side)
        add_attention(maker);
    layer_leave_split(maker);
    layer_hide_exchanges(maker);
    add_recurrence_exchange(maker);
    if (model->side_by_side)
        add_context_ring(maker);
    layer_add_residual(maker);
    layer_keep_norm(maker);
    layer_keep_mask(maker, maker->local_tokens * (double)model->hidden);
    const double norm = (double)transformer_norm_parameters(model);
    maker->layer->parameters = (uint64_t)norm
        + layer_part_of((double)transformer_recurrent_parameters(model) - norm, maker->tensor);
}

// --- MLP ----------------------------------------------------------------------

enum { NARROW_BITS = 8 };

// A narrow copy of what an activation reads is written beside its output, and read in the backward instead.
static void add_activation(struct layer_maker *maker, double numbers)
{
    const double inputs = maker->model->is_gated ? 2 : 1;
    const double narrow = maker->has_narrow ? inputs * layer_narrow_bytes(NARROW_BITS) / maker->number : 0;
    layer_add_passes(maker, (inputs + 1 + narrow) * numbers,
                     ((maker->has_narrow ? narrow : inputs) + inputs + 1) * numbers);
}

// The products up and down, and the activation between them, for `count` MLPs of `tokens` tokens each.
static void add_mlp(struct layer_maker *maker, double tokens, double hidden, double ffn, double count)
{
    const double ups = maker->model->is_gated ? 2 : 1;
    layer_add_tuned(maker, tokens, hidden, ups * ffn, count, ups);
    add_activation(maker, tokens * ffn * count);
    layer_add_tuned(maker, tokens, ffn, hidden, count, 1);
    if (maker->has_narrow)
        layer_keep_narrow(maker, ups * tokens * ffn * count, NARROW_BITS);
    else
        layer_keep(maker, ups * tokens * ffn * count);
    if (layer_is_recomputed(maker, RECOMPUTE_ACTIVATIONS)) {
        layer_add_pass(maker, ESTIMATE_I, (ups + 1) * tokens * ffn * count);
        layer_bring_back(maker, tokens * ffn * count * maker->product_number);
    } else {
        layer_keep_read(maker, tokens * ffn * count);
    }
    layer_hold(maker, ups * tokens * ffn * count);
    layer_hold_read(maker, tokens * ffn * count);
}

// With a norm that it shares with the attention beside it, an MLP reads what is kept there.
static void begin_mlp(struct layer_maker *maker)
{
    layer_set_output(maker);
    if (!maker->model->shares_norm)
        layer_add_norm(maker);
    if (maker->model->is_parallel)
        maker->layer->input_kept = INPUT_KEPT_NONE;
}

static void end_mlp(struct layer_maker *maker)
{
    layer_add_residual(maker);
    if (maker->model->shares_norm)
        layer_hold_read(maker, maker->local_tokens * (double)maker->model->hidden);
    else
        layer_keep_norm(maker);
}

void make_mlp(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, ffn = (double)model->ffn / maker->tensor;
    const double ups = model->is_gated ? 2 : 1;
    begin_mlp(maker);
    maker->has_narrow = maker->request->narrow & NARROW_ACTIVATIONS;
    layer_enter_split(maker);
    add_mlp(maker, maker->tokens, hidden, ffn, 1);
    layer_leave_split(maker);
    layer_hide_exchanges(maker);
    if (model->mlp_biases)  // the other bias's gradient is summed in the activation's pass
        layer_add_bias_gradient(maker, maker->local_tokens * hidden);
    end_mlp(maker);
    layer_keep_mask(maker, maker->local_tokens * hidden);
    const double norm = (double)(transformer_second_norm_parameters(model) + model->activation_parameters);
    maker->layer->parameters =
        (uint64_t)(norm + (ups + 1) * hidden * ffn + (model->mlp_biases ? ups * ffn + hidden : 0));
}

// --- experts ------------------------------------------------------------------

// The bytes of a number on the way to experts. Blocks of 128 narrow numbers have a scale of 4 bytes.
static double dispatched_bytes(const struct layer_maker *maker)
{
    const bool is_narrow = maker->request->dispatch == DISPATCH_NARROW && maker->product_number < maker->number;
    return is_narrow ? maker->product_number + 4.0 / 128 : maker->number;
}

// Sends so many pairs of a token and an expert to their experts, or back.
static void add_dispatch(struct layer_maker *maker, enum estimate_phase phase, double pairs, double width,
                         double number)
{
    const double numbers = pairs * width, bytes = expert_sent_bytes(pairs, width, number);
    const struct transformer *model = maker->model;
    const struct group group = { .ranks = (double)maker->request->expert, .stride = 1 };
    const struct token_routes routes = { (double)model->chosen, (double)model->router_groups,
                                         (double)model->chosen_groups };
    if (group.ranks > 1) {
        const double ns = maker->request->dispatch == DISPATCH_EACH
            ? collective_ns(maker->device, ALL_TO_ALL, bytes, group)
            : dispatch_ns(maker->device, bytes, &routes, group);
        layer_phase(maker, phase)->communication_ns += ns;
        layer_phase(maker, phase)->dispatch_ns += ns;
        layer_phase(maker, phase)->launches += 1;
        layer_phase(maker, phase)->dispatched_bytes += bytes;
    }
    layer_add_pass(maker, phase, 2 * numbers);  // permuted into the experts' order, or back into their own
}

static void add_router(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double experts = (double)(model->experts + model->idle_experts);
    enum { SMALL_KERNELS = 40 };  // the top few experts of each token, their weights, counts and places
    layer_add_linear(maker, maker->local_tokens, (double)model->hidden, experts, 1);
    for (int i = 0; i < SMALL_KERNELS; i++) {
        layer_add_small_pass(maker, ESTIMATE_F, 2 * maker->local_tokens * experts);
        layer_add_small_pass(maker, ESTIMATE_I, maker->local_tokens * experts);
    }
}

// Each expert's bias is multiplied by the expert's weight for a token and added to the expert's output. This is done
// in fp32; then the outputs are concatenated and narrowed, as in Megatron (TEGroupedMLP._apply_bias). The gradients
// of the weights for tokens are in I, with a copy that concatenates those of the experts' outputs.
static void add_output_biases(struct layer_maker *maker, double numbers, double experts)
{
    const double wide = 4 / maker->number;
    for (double i = 0; i < experts; i++) {
        layer_add_pass(maker, ESTIMATE_F, wide * numbers / experts);
        layer_add_passes(maker, (1 + 2 * wide) * numbers / experts, (1 + wide) * numbers / experts);
        layer_add_pass(maker, ESTIMATE_I, 2 * wide * numbers / experts);
        layer_add_pass(maker, ESTIMATE_I, wide * numbers / experts);
        layer_add_bias_gradient(maker, 2 * wide * numbers / experts);
        layer_add_bias_gradient(maker, wide * numbers / experts);
    }
    layer_add_pass(maker, ESTIMATE_F, 2 * wide * numbers);
    layer_add_passes(maker, (1 + wide) * numbers, (1 + wide) * numbers);
    layer_add_pass(maker, ESTIMATE_I, 2 * numbers);
    maker->layer->workspace_bytes += 2 * layer_tensor_bytes(4 * numbers);
    maker->layer->backward_workspace_bytes += layer_tensor_bytes(4 * numbers);
}

static void add_expert_biases(struct layer_maker *maker, double sent, double here)
{
    const struct transformer *model = maker->model;
    if (!model->biased_experts)
        return;
    layer_add_bias_gradient(maker, maker->local_tokens * (double)model->experts);
    layer_add_bias_gradient(maker, (model->is_gated ? 2 : 1) * sent * (double)model->expert_ffn);
    add_output_biases(maker, sent * (double)model->hidden, here);
}

// A product in front of the dispatch makes tokens narrow, and one behind it makes them wide again.
static void add_latent_experts(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, narrow = (double)model->expert_hidden, tokens = maker->local_tokens;
    if (model->expert_hidden == 0)
        return;
    layer_add_linear(maker, tokens, hidden, narrow, 1);
    layer_add_linear(maker, tokens, narrow, hidden, 1);
    layer_keep(maker, 2 * tokens * narrow);
    layer_hold(maker, 2 * tokens * narrow);
}

void make_experts(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, ranks = (double)maker->request->expert;
    const double narrow = model->expert_hidden ? (double)model->expert_hidden : hidden;
    const double sent = maker->local_tokens * (double)model->chosen;  // as many come back, if experts are evenly loaded
    const double here = (double)model->experts / ranks;
    begin_mlp(maker);
    maker->has_narrow = maker->request->narrow & (NARROW_ACTIVATIONS | NARROW_EXPERTS);
    add_router(maker);
    if (model->shared_ffn > 0) {
        maker->lora_rank = maker->request->tuning.lora & TUNED_MLP ? (double)maker->request->tuning.lora_rank : 0;
        layer_enter_split(maker);
        add_mlp(maker, maker->tokens, hidden, (double)model->shared_ffn / maker->tensor, 1);
        layer_leave_split(maker);
    }
    const bool has_adapters = maker->lora_rank > 0;
    maker->lora_rank = 0;
    add_latent_experts(maker);
    layer_hide_exchanges(maker);
    const double number = maker->number, there = dispatched_bytes(maker);
    add_dispatch(maker, ESTIMATE_F, sent, narrow, there);
    maker->is_grouped = true;
    add_mlp(maker, sent / here, narrow, (double)model->expert_ffn, here);
    maker->is_grouped = false;
    add_expert_biases(maker, sent, here);
    add_dispatch(maker, ESTIMATE_F, sent, narrow, number);
    add_dispatch(maker, ESTIMATE_I, sent, narrow, there);
    add_dispatch(maker, ESTIMATE_I, sent, narrow, number);
    layer_keep_read(maker, sent * narrow);  // what the experts have read
    if (!maker->request->weighs_inside)
        layer_keep(maker, sent * narrow);   // and their outputs
    layer_hold_read(maker, sent * narrow);
    layer_hold(maker, sent * narrow);
    maker->lora_rank = has_adapters ? (double)maker->request->tuning.lora_rank : 0;
    end_mlp(maker);  // the shared experts read the norm
    const double routed = (double)(2 * (model->experts + model->idle_experts) + model->chosen);
    maker->layer->saved_bytes += layer_tensor_bytes(4 * maker->local_tokens * routed);

    maker->layer->expert_parameters = transformer_experts_parameters(model) / maker->request->expert;
    const double split = (model->is_gated ? 3 : 2) * hidden * (double)model->shared_ffn;
    maker->layer->parameters = transformer_router_parameters(model) + maker->layer->expert_parameters
        - (uint64_t)(split * (1 - 1 / maker->tensor));
}

// --- multi-token prediction -----------------------------------------------------

static void add_layer(struct layer_estimate *all, const struct layer_estimate *part)
{
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        phase_estimate_add(&all->phases[i], &part->phases[i], 1);
    all->parameters += part->parameters;
    all->expert_parameters += part->expert_parameters;
    all->saved_bytes += part->saved_bytes;
    all->held_for_weight_bytes += part->held_for_weight_bytes;
    all->workspace_bytes = max_u64(all->workspace_bytes, part->workspace_bytes);
    all->backward_workspace_bytes = max_u64(all->backward_workspace_bytes, part->backward_workspace_bytes);
    all->flops += part->flops;
}

// A block like the last one, or of attention and what has the last MLPs if layers are alone.
static void add_last_block(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    struct layer_estimate *all = maker->layer, attention = { 0 }, rest = { 0 };
    maker->window = (double)(transformer_is_local(model, model->layers - 1) ? model->local_window : model->window);
    maker->layer = &attention;
    const bool is_lone = model->has_lone_layers;
    const bool is_recurrent = !is_lone && transformer_is(model, model->layers - 1, LAYER_RECURRENT);
    const bool has_experts = is_lone ? model->experts > 0 : transformer_has_experts(model, model->layers - 1);
    (is_recurrent ? make_recurrent : make_attention)(maker);
    maker->layer = &rest;
    (has_experts ? make_experts : make_mlp)(maker);
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
    layer_set_output(maker);
    maker->layer->output_bytes *= 1 + model->predicted;
    layer_add_pass(maker, ESTIMATE_F, 2 * numbers);
    layer_add_pass(maker, ESTIMATE_W, 6 * numbers);
    for (int i = 0; i < 2; i++) {
        layer_add_norm(maker);
        layer_keep(maker, maker->local_tokens * hidden);
        layer_keep_norm(maker);
        layer_enter_split(maker);
    }
    layer_add_linear(maker, maker->tokens, 2 * hidden, hidden / maker->tensor, 1);
    layer_leave_split(maker);
    layer_hide_exchanges(maker);
    maker->layer->parameters = 3 * (model->has_layer_norm ? 2 : 1) * model->hidden
        + layer_part_of(2 * hidden * hidden, maker->tensor);
    add_last_block(maker);
}

// --- head ---------------------------------------------------------------------

// In fp32: the logits are widened; the largest of each token is found and subtracted; exponentials and their sum are
// computed; then the exponentials are divided by the sum.
static void add_wide_loss(struct layer_maker *maker, double logits)
{
    const double wide = 4 / maker->number;
    layer_add_pass(maker, ESTIMATE_F, logits * (1 + wide));
    layer_add_pass(maker, ESTIMATE_F, logits * wide);
    layer_add_small_pass(maker, ESTIMATE_F, logits * 2 * wide);
    layer_add_small_pass(maker, ESTIMATE_F, logits * 2 * wide);
    layer_add_small_pass(maker, ESTIMATE_F, logits * wide);
    layer_add_pass(maker, ESTIMATE_I, logits * 2 * wide);
    layer_add_pass(maker, ESTIMATE_I, logits * (1 + wide));
    maker->layer->saved_bytes += layer_tensor_bytes(4 * logits);
    maker->layer->workspace_bytes += layer_tensor_bytes(maker->number * logits);
    maker->layer->backward_workspace_bytes += layer_tensor_bytes(maker->number * logits);
    if (maker->request->loss == LOSS_COMPILED)  // in place except for a copy
        maker->layer->backward_workspace_bytes += layer_tensor_bytes(4 * logits);
    if (maker->request->loss != LOSS_PLAIN)
        return;
    // The widened logits lie beside their logarithms. The gradient of the logarithms and that of the logits lie
    // beside these, and one more with DTensor.
    const int besides = maker->tensor > 1 ? 3 : 2;
    maker->layer->workspace_bytes += layer_tensor_bytes(4 * logits);
    maker->layer->backward_workspace_bytes +=
        (uint64_t)besides * layer_tensor_bytes(4 * logits) - layer_tensor_bytes(maker->number * logits);
}

// Logits are read twice and written. The backward scales what is there.
static void add_fused_loss(struct layer_maker *maker, double logits)
{
    layer_add_passes(maker, 3 * logits, 2 * logits);
    layer_keep(maker, logits);
}

// Logits are read; for the gradient they are read again, and it is written beside them.
static void add_kernel_loss(struct layer_maker *maker, double logits)
{
    layer_add_passes(maker, logits, 2 * logits);
    layer_keep(maker, logits);
    maker->layer->backward_workspace_bytes += layer_tensor_bytes(maker->number * logits);
}

// Cross entropies that are only reported, computed by PyTorch's function under autocast. Logits are widened, and
// their logarithms written. This happens after the backward, when there is room.
static void add_metrics(struct layer_maker *maker, double logits)
{
    const double wide = 4 / maker->number;
    for (uint32_t i = 0; i < maker->request->metrics; i++) {
        layer_add_pass(maker, ESTIMATE_F, logits * (1 + wide));
        layer_add_pass(maker, ESTIMATE_F, logits * 2 * wide);
    }
}

// Logits are divided, go through tanh, whose output is kept for the backward, and are multiplied.
static void add_cap(struct layer_maker *maker, double logits)
{
    layer_add_passes(maker, 2 * logits, 3 * logits);
    for (int i = 0; i < 2; i++) {
        layer_add_small_pass(maker, ESTIMATE_F, 2 * logits);
        layer_add_small_pass(maker, ESTIMATE_I, 2 * logits);
    }
    layer_keep(maker, logits);
}

// The head runs once for each token that is predicted.
void make_head(struct layer_maker *maker)
{
    const struct transformer *model = maker->model;
    const double hidden = (double)model->hidden, words = ceil((double)model->vocabulary / maker->tensor);
    // A class is predicted of each picture, and otherwise a word at each token.
    const double tokens = model->patch_numbers > 0 ? (double)maker->request->micro_batch : maker->tokens;
    const double number = maker->number, logits = tokens * words, read = (model->reads_mean ? 2 : 1) * hidden;
    const struct rated_product *rated = maker->head_products;
    layer_set_output(maker);
    maker->layer->output_bytes = maker->layer->held_for_weight_bytes = 0;
    if (model->head_norm) {
        layer_add_norm(maker);
        layer_keep(maker, maker->local_tokens * hidden);
    }
    if (model->head_transform) {
        layer_add_linear(maker, maker->local_tokens, hidden, hidden, 1);
        if (!model->plain_transform)
            layer_add_bias_gradient(maker, maker->local_tokens * hidden);
        layer_keep(maker, maker->local_tokens * hidden);
    }
    layer_add_norm(maker);
    layer_enter_split(maker);
    layer_add_product(maker, ESTIMATE_F, rated, (struct product_size){ tokens, words, read, 1, number, number });
    if (maker->goes_back)
        layer_add_product(maker, ESTIMATE_I, rated, (struct product_size){ tokens, read, words, 1, number, number });
    if (maker->is_trained)
        layer_add_product(maker, ESTIMATE_W, rated, (struct product_size){ words, read, tokens, 1, number, 8 });
    layer_count_flops(maker, 2 * tokens * words * read);
    layer_leave_flops(maker, (2.0 - maker->goes_back - maker->is_trained) * 2 * tokens * words * read);
    layer_hide_exchanges(maker);
    if (model->caps_logits)
        add_cap(maker, logits);
    if (maker->request->loss == LOSS_FUSED)
        add_fused_loss(maker, logits);
    else if (maker->request->loss == LOSS_KERNEL)
        add_kernel_loss(maker, logits);
    else
        add_wide_loss(maker, logits);
    add_metrics(maker, logits);
    if (model->head_bias)
        layer_add_bias_gradient(maker, logits);
    for (int i = 0; i < 3; i++)
        layer_add_exchange(maker, ESTIMATE_F, ALL_REDUCE, 4 * tokens, layer_tensor_group(maker));
    if (maker->is_trained)
        layer_keep(maker, maker->local_tokens * hidden);
    maker->layer->held_for_weight_bytes = layer_tensor_bytes(number * logits);
    layer_hold(maker, maker->local_tokens * hidden);
    const struct layer_estimate once = *maker->layer;
    for (uint64_t i = 0; i < model->predicted; i++)
        add_layer(maker->layer, &once);
    const uint64_t own = (model->is_tied ? 0 : (uint64_t)read) + (model->head_bias ? 1 : 0);
    maker->layer->parameters =
        transformer_head_parameters(model) - model->vocabulary * own + (uint64_t)words * own;
}
