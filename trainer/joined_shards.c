// All shards of a layer as one, one behind the other: what the sequential twin runs.
#include <stdlib.h>

#include "trainer/layer_binding.h"

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
    if (good)
        binding->layer = binding->all[0];
    return good;
}

static void *piece_of(const void *all, uint32_t shard, uint64_t bytes)
{
    return all ? (char *)(uintptr_t)all + shard * bytes : NULL;
}

// Of what a part of a sequence has of it (layer_most_splits()).
static uint64_t part_bytes(const struct weir_pass *pass, uint64_t bytes)
{
    return pass->splits > 1 ? bytes / pass->splits / 256 * 256 : bytes;
}

// What goes in and out: where rows are shared, the shards' shares of it one behind the other.
static void share_rows(const struct layer_binding *binding, const struct weir_pass *pass, uint32_t shard,
                       struct layer_pass *own)
{
    const struct layer_shape *shape = &binding->layer.shape;
    const uint64_t bytes = shape->batch * shape->sequence * shape->in * precision_bytes(shape->precision);
    const uint64_t share = bytes / binding->shard_count / (pass->splits > 1 ? pass->splits : 1);
    if (!shape->shares_rows)
        return;
    own->input = piece_of(own->input, shard, share);
    own->output = piece_of(own->output, shard, share);
    own->output_gradient = piece_of(own->output_gradient, shard, share);
    own->input_gradient = piece_of(own->input_gradient, shard, share);
}

// The gradient that `held` starts with is then all of it, with what each shard holds behind.
static uint64_t gradient_bytes(const struct layer_binding *binding)
{
    const uint64_t own = layer_sizes(&binding->layer).output_bytes;
    return binding->layer.shape.shares_rows ? own * binding->shard_count : 0;
}

static void *held_of(const struct layer_binding *binding, const struct weir_pass *pass, uint32_t shard)
{
    const uint64_t bytes = layer_sizes(&binding->layer).held_for_weight_bytes;
    return pass->held ? (char *)pass->held + gradient_bytes(binding) + shard * part_bytes(pass, bytes) : NULL;
}

static void passes_of(const struct layer_binding *binding, const struct weir_pass *pass, bool is_forward,
                      struct layer_pass passes[SHARDS_MOST])
{
    const struct layer_sizes sizes = layer_sizes(&binding->layer);
    const struct layer_pass whole = is_forward ? binding_forward_pass_of(binding, pass) : binding_pass_of(binding, pass);
    const uint64_t own_carried = pass->splits > 1 ? sizes.carried_bytes : 0;
    for (uint32_t s = 0; s < binding->shard_count; s++) {
        passes[s] = whole;
        passes[s].parameters = piece_of(whole.parameters, s, sizes.parameter_bytes);
        passes[s].gradients = piece_of(whole.gradients, s, sizes.gradient_bytes);
        passes[s].tied_parameters = piece_of(whole.tied_parameters, s, binding->tied.parameter_bytes);
        passes[s].tied_gradients = piece_of(whole.tied_gradients, s, binding->tied.gradient_bytes);
        share_rows(binding, pass, s, &passes[s]);
        passes[s].loss = s == 0 ? whole.loss : NULL;
        passes[s].saved = piece_of(whole.saved, s, part_bytes(pass, sizes.saved_bytes - own_carried));
        passes[s].carried = piece_of(whole.carried, s, sizes.carried_bytes);
        passes[s].carried_gradient = piece_of(whole.carried_gradient, s, sizes.carried_bytes);
        passes[s].held = held_of(binding, pass, s);
        passes[s].workspace = piece_of(whole.workspace, s,
                                       is_forward ? sizes.workspace_bytes : sizes.backward_workspace_bytes);
    }
}

static bool all_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct layer_binding *binding = self;
    struct layer_pass passes[SHARDS_MOST];
    passes_of(binding, pass, true, passes);
    shards_forward(binding->all, passes, binding->shard_count);
    return true;
}

static bool all_backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct layer_binding *binding = self;
    struct layer_pass passes[SHARDS_MOST];
    passes_of(binding, pass, false, passes);
    shards_backward(binding->all, passes, binding->shard_count);
    return true;
}

static bool all_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct layer_binding *binding = self;
    struct layer_pass passes[SHARDS_MOST];
    passes_of(binding, pass, false, passes);
    shards_backward_input(binding->all, passes, binding->shard_count);
    return true;
}

static bool all_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct layer_binding *binding = self;
    struct layer_pass passes[SHARDS_MOST];
    passes_of(binding, pass, false, passes);
    shards_backward_weight(binding->all, passes, binding->shard_count);
    return true;
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
    layer->output_bytes *= binding->layer.shape.shares_rows ? count : 1;
    layer->saved_bytes *= count;
    layer->carried_bytes *= count;
    layer->held_for_weight_bytes = layer->held_for_weight_bytes * count + gradient_bytes(binding);
    layer->backward_workspace_bytes *= count;
    layer->flops *= count;
    layer->tensors = NULL;  // each is there in parts
    layer->tensor_count = 0;
    layer->forward = all_forward;
    layer->backward = all_backward;
    layer->backward_input = all_backward_input;
    layer->backward_weight = all_backward_weight;
    layer->initialize = all_initialize;
}
