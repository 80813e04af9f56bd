// Words and their positions: out = words[token] + positions[place], then dropout.
//
// A shard has some of the words; for the other words its part of the sum is zeros. Only the first shard adds the
// positions, so that in the sum at most one addition per number has two nonzero operands. All shards have the
// positions and their gradients. Shards that share rows pass on their own rows of the sum; in the backward they
// gather the gradient. If the words cannot be divided evenly, such shards have all of them, and there is no sum.
#include "models/layer_kind.h"

enum { WORDS, POSITIONS };

static void embedding_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const struct layer_shape *shape = &layer->shape;
    tensor_add(tensors, count, (struct tensor){ .name = "words", .rows = layer_own_words(layer),
                                                .columns = shape->out, .padding_rows = layer_own_padding(layer),
                                                .split = layer_splits_words(layer) ? SPLIT_ROWS : SPLIT_NONE,
                                                .start = START_NORMAL, .deviation = 0.02f, .decays = true });
    tensor_add(tensors, count, (struct tensor){ .name = "positions", .rows = layer_positions(layer),
                                                .columns = shape->out, .start = START_NORMAL, .deviation = 0.02f,
                                                .decays = true });
}

static struct kind_sizes embedding_sizes(const struct layer *layer)
{
    const uint64_t tokens = round_to_256(layer_rows(layer) * sizeof(int32_t));
    const uint64_t output = layer_bytes(layer, layer_rows(layer) * layer->shape.out);
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, layer_own_rows(layer) * layer->shape.out),
        .saved_bytes = tokens,
        .input = INPUT_NEVER,
        .held_bytes = tokens,
        .forward_workspace_bytes = layer->shape.shards > 1 ? output : 0,
        .weight_workspace_bytes = layer_shares_rows(layer) || layer->shape.dropout > 0 ? output : 0,
    };
}

static struct embedding embedding_of(const struct layer *layer, const void *tokens)
{
    return (struct embedding){
        .tokens = tokens,
        .rows = layer_rows(layer),
        .sequence = layer->shape.sequence,
        .columns = layer->shape.out,
        .vocabulary = layer->shape.vocabulary,
        .first = layer_first_word(layer),
        .own = layer_own_words(layer) - layer_own_padding(layer),
    };
}

// The offset of a part's first position.
static size_t positions_before(const struct layer *layer)
{
    return layer->shape.first * layer->shape.out;
}

// The place where the words are first written. A shard writes them to its workspace, since shards in one place share
// one output.
static struct values *found_words(const struct layer *layer, const struct layer_pass *pass)
{
    return layer->shape.shards > 1 ? pass->base.workspace : pass->base.output;
}

static void begin_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct embedding embedding = embedding_of(layer, pass->tokens);
    const struct values *positions = values_at(weights.at[POSITIONS], layer->shape.precision, positions_before(layer));
    queue_copy(pass->base.queue, pass->base.saved, pass->tokens, embedding.rows * sizeof(int32_t));
    kernel_embedding(pass->base.queue, &embedding, found_words(layer, pass), weights.at[WORDS],
                     layer_first_word(layer) > 0 ? NULL : positions);
}

static struct shard_part forward_summed(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_splits_words(layer) ? summed_rows(layer, found_words(layer, pass)) : (struct shard_part){ 0 };
}

static void end_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct dropout dropout = dropout_of(layer, pass);
    const struct values *found = own_rows_of(layer, found_words(layer, pass));
    const size_t count = layer_own_rows(layer) * layer->shape.out;
    if (dropout.probability > 0)
        kernel_dropout(pass->base.queue, pass->base.output, found, count, dropout);
    else if (found != pass->base.output)
        queue_copy(pass->base.queue, pass->base.output, found, count * precision_bytes(layer->shape.precision));
}

static void hold_tokens(const struct layer *layer, const struct layer_pass *pass)
{
    queue_copy(pass->base.queue, pass->base.held, pass->base.saved, layer_rows(layer) * sizeof(int32_t));
}

static void begin_weight(const struct layer *layer, const struct layer_pass *pass)
{
    if (layer_shares_rows(layer))
        own_gradient_behind_dropout(layer, pass, pass->base.workspace);
}

static void add_gradients(const struct layer *layer, const struct layer_pass *pass)
{
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    const struct embedding embedding = embedding_of(layer, pass->base.held);
    const struct values *gradient
        = layer_shares_rows(layer) ? pass->base.workspace : gradient_behind_dropout(layer, pass, pass->base.workspace);
    kernel_embedding_backward(pass->base.queue, &embedding, gradients.at[WORDS],
                              gradients.at[POSITIONS] + positions_before(layer), gradient);
}

const struct layer_kind layer_embedding = {
    .name = "embedding",
    .data = DATA_TOKENS,
    .tensors = embedding_tensors,
    .sizes = embedding_sizes,
    .forward = { { begin_forward, forward_summed }, { end_forward, NULL } },
    .backward_input = { { hold_tokens, NULL } },
    .backward_weight = { { begin_weight, workspace_gathered }, { add_gradients, NULL } },
};
