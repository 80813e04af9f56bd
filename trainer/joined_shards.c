// Runs all shards of a layer as one layer, one shard after the other, for the sequential twin.
#include <stdlib.h>

#include "trainer/layer_binding.h"

static bool have_own_rows(const struct layer_binding *binding)
{
    return binding->layer.shape.shares_rows || layer_owns_rows(&binding->layer);
}

// A shard's share of an input is what a shard of the layer that makes it hands on.
static bool find_input_shares(struct layer_binding *binding, const struct model *model, struct sharding sharding,
                              struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && have_own_rows(binding) && i < binding->layer.input_count; i++) {
        struct layer from;
        good = layer_shard(&model->layers[binding->layer.inputs[i]], sharding, 0, &from, error);
        binding->input_share[i] = good ? layer_sizes(&from).output_bytes : 0;
    }
    return good;
}

bool binding_open_shards(struct layer_binding *binding, const struct model *model, struct device *device,
                         struct sharding sharding, struct error *error)
{
    const uint32_t shards = (uint32_t)sharding.shards;
    const struct layer *whole = &model->layers[binding->layer.index];
    struct layer words;
    if (whole->shape.tied && layer_shard(&model->layers[0], sharding, 0, &words, error))
        binding->tied = layer_sizes(&words);
    binding->all = calloc(shards, sizeof binding->all[0]);
    binding->shard_count = shards;
    bool good = binding->all || error_no_memory(error, "the layers of a model");
    for (uint32_t s = 0; good && s < shards; s++)
        good = layer_shard(whole, sharding, s, &binding->all[s], error)
            && layer_ask(&binding->all[s], device, error);
    if (!good)
        return false;
    binding->layer = binding->all[0];
    return find_input_shares(binding, model, sharding, error);
}

static void *piece_of(const void *all, uint32_t shard, uint64_t bytes)
{
    return all ? (char *)(uintptr_t)all + shard * bytes : NULL;
}

// The bytes that one part of a sequence has of `bytes` (layer_most_splits()).
static uint64_t part_bytes(const struct weir_pass *pass, uint64_t bytes)
{
    return pass->splits > 1 ? bytes / pass->splits / 256 * 256 : bytes;
}

// Inputs and outputs: if shards have rows of their own, their shares follow one another.
static void share_rows(const struct layer_binding *binding, const struct weir_pass *pass, uint32_t shard,
                       struct layer_pass *shard_pass)
{
    struct weir_pass *base = &shard_pass->base;
    const uint64_t output = part_bytes(pass, layer_sizes(&binding->layer).output_bytes);
    if (!have_own_rows(binding))
        return;
    for (uint32_t i = 0; i < binding->layer.input_count; i++) {
        const uint64_t share = part_bytes(pass, binding->input_share[i]);
        base->inputs[i] = piece_of(base->inputs[i], shard, share);
        base->input_gradients[i] = piece_of(base->input_gradients[i], shard, share);
    }
    base->output = piece_of(base->output, shard, output);
    base->output_gradient = piece_of(base->output_gradient, shard, output);
}

// With rows of their own, `held` starts with the gradient of all rows; what each shard holds follows.
static uint64_t gradient_bytes(const struct layer_binding *binding)
{
    const struct layer_sizes sizes = layer_sizes(&binding->layer);
    return have_own_rows(binding) && sizes.held_for_weight_bytes > 0 ? sizes.output_bytes * binding->shard_count : 0;
}

static void *held_of(const struct layer_binding *binding, const struct weir_pass *pass, uint32_t shard)
{
    const uint64_t bytes = layer_sizes(&binding->layer).held_for_weight_bytes;
    return pass->held ? (char *)pass->held + gradient_bytes(binding) + shard * part_bytes(pass, bytes) : NULL;
}

// With own rows each shard has its own samples, as they were fetched one shard behind the other.
static void share_samples(const struct layer_binding *binding, uint32_t shard, const struct layer_pass *whole,
                          struct layer_pass *shard_pass)
{
    const struct layer_shape *shape = &binding->layer.shape;
    const size_t splits = whole->base.splits > 1 ? whole->base.splits : 1;
    const size_t numbers = shape->batch * binding->sequence / splits;
    if (!layer_owns_rows(&binding->layer))
        return;
    shard_pass->base.samples = binding_samples_of(&binding->all[shard], binding_samples(binding, &whole->base));
    shard_pass->tokens = piece_of(whole->tokens, shard, numbers * sizeof(int32_t));
    shard_pass->targets = piece_of(whole->targets, shard, numbers * sizeof(int32_t));
    shard_pass->pixels = piece_of(whole->pixels, shard, shape->batch * shape->sequence * shape->out * sizeof(float));
}

// The bytes of a shard's gradient, which may be a list of all rows of its tables.
static uint64_t own_gradient_bytes(const struct layer_sizes *sizes, uint64_t rows)
{
    return rows > 0 ? row_list_bytes(rows, rows, sizes->row_columns) : sizes->gradient_bytes;
}

static void passes_of(const struct layer_binding *binding, const struct weir_pass *pass, bool is_forward,
                      struct layer_pass passes[SHARDS_MOST])
{
    const struct layer_sizes sizes = layer_sizes(&binding->layer);
    const struct layer_pass whole = is_forward ? binding_forward_pass_of(binding, pass)
                                               : binding_pass_of(binding, pass);
    const uint64_t own_shared_by_parts = pass->splits > 1 ? sizes.shared_by_parts_bytes : 0;
    for (uint32_t s = 0; s < binding->shard_count; s++) {
        passes[s] = whole;
        struct weir_pass *shard_pass = &passes[s].base;
        shard_pass->parameters = piece_of(pass->parameters, s, sizes.parameter_bytes);
        shard_pass->gradient_rows = pass->gradient_rows / binding->shard_count;
        shard_pass->gradients = piece_of(pass->gradients, s, own_gradient_bytes(&sizes, shard_pass->gradient_rows));
        shard_pass->tied_parameters = piece_of(pass->tied_parameters, s, binding->tied.parameter_bytes);
        shard_pass->tied_gradients = piece_of(pass->tied_gradients, s, binding->tied.gradient_bytes);
        share_rows(binding, pass, s, &passes[s]);
        share_samples(binding, s, &whole, &passes[s]);
        if (is_forward && binding->clicks)
            binding_fetch_clicks(binding, s, &passes[s]);  // into the workspace behind that of all shards
        shard_pass->loss = s == 0 ? pass->loss : NULL;
        shard_pass->saved = piece_of(pass->saved, s, part_bytes(pass, sizes.saved_bytes - own_shared_by_parts));
        shard_pass->shared_by_parts = piece_of(pass->shared_by_parts, s, sizes.shared_by_parts_bytes);
        shard_pass->shared_by_parts_gradient = piece_of(pass->shared_by_parts_gradient, s, sizes.shared_by_parts_bytes);
        shard_pass->held = held_of(binding, pass, s);
        shard_pass->workspace = piece_of(pass->workspace, s,
                                         is_forward ? sizes.workspace_bytes : sizes.backward_workspace_bytes);
    }
}

// Runs all shards through one of the passes of models/shards.h.
static bool run_all(const struct layer_binding *binding, const struct weir_pass *pass, bool is_forward,
                    void (*run)(const struct layer *, const struct layer_pass *, size_t))
{
    struct layer_pass passes[SHARDS_MOST];
    passes_of(binding, pass, is_forward, passes);
    run(binding->all, passes, binding->shard_count);
    return true;
}

static bool all_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    return run_all(self, pass, true, shards_forward);
}

static bool all_backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    return run_all(self, pass, false, shards_backward);
}

static bool all_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    return run_all(self, pass, false, shards_backward_input);
}

static bool all_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    return run_all(self, pass, false, shards_backward_weight);
}

static bool all_initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)error;
    const struct layer_binding *binding = self;
    const uint64_t bytes = layer_sizes(&binding->layer).parameter_bytes;
    for (uint32_t s = 0; s < binding->shard_count; s++)
        layer_initialize(&binding->all[s], queue, piece_of(parameters, s, bytes), binding->settings.seed);
    return true;
}

void binding_join_shards(const struct layer_binding *binding, struct weir_layer *layer)
{
    const uint64_t count = binding->shard_count;
    layer->parameter_bytes *= count;
    layer->output_bytes *= have_own_rows(binding) ? count : 1;
    layer->saved_bytes *= count;
    layer->shared_by_parts_bytes *= count;
    layer->held_for_weight_bytes = layer->held_for_weight_bytes * count + gradient_bytes(binding);
    layer->backward_workspace_bytes *= count;
    layer->flops *= count;
    layer->tensors = NULL;  // each tensor is stored in parts
    layer->tensor_count = 0;
    layer->forward = all_forward;
    layer->backward = all_backward;
    layer->backward_input = all_backward_input;
    layer->backward_weight = all_backward_weight;
    layer->initialize = all_initialize;
}
