// Words and their positions: out = words[token] + positions[place], then dropout.
#include "models/layer_kind.h"

enum { WORDS, POSITIONS };

static void embedding_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const struct layer_shape *shape = &layer->shape;
    tensor_add(tensors, count, (struct tensor){ .name = "words", .rows = layer_words(layer), .columns = shape->out,
                                                .padding_rows = shape->padding,
                                                .start = START_NORMAL, .deviation = 0.02f, .decays = true });
    tensor_add(tensors, count, (struct tensor){ .name = "positions", .rows = layer_positions(layer), .columns = shape->out,
                                                .start = START_NORMAL, .deviation = 0.02f, .decays = true });
}

static struct kind_sizes embedding_sizes(const struct layer *layer)
{
    const uint64_t tokens = round_to_256(layer_rows(layer) * sizeof(int32_t));
    const uint64_t output = layer_bytes(layer, layer_rows(layer) * layer->shape.out);
    return (struct kind_sizes){
        .output_bytes = output,
        .saved_bytes = tokens,
        .input = INPUT_NEVER,
        .held_bytes = tokens,
        .weight_workspace_bytes = layer->shape.dropout > 0 ? output : 0,
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
    };
}

// Numbers of the positions in front of a part.
static size_t positions_before(const struct layer *layer)
{
    return layer->shape.first * layer->shape.out;
}

static void embedding_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    const struct embedding embedding = embedding_of(layer, pass->tokens);
    queue_copy(pass->queue, pass->saved, pass->tokens, embedding.rows * sizeof(int32_t));
    kernel_embedding(pass->queue, &embedding, pass->output, weights.at[WORDS],
                     values_at(weights.at[POSITIONS], layer->shape.precision, positions_before(layer)));
    const struct dropout dropout = layer_dropout(layer, pass);
    if (dropout.probability > 0)
        kernel_dropout(pass->queue, pass->output, pass->output, embedding.rows * embedding.columns, dropout);
}

static void embedding_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    queue_copy(pass->queue, pass->held, pass->saved, layer_rows(layer) * sizeof(int32_t));
}

static void embedding_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const struct gradients gradients = layer_gradients(layer, pass->gradients);
    const struct embedding embedding = embedding_of(layer, pass->held);
    const struct values *gradient = gradient_behind_dropout(layer, pass, pass->workspace);
    kernel_embedding_backward(pass->queue, &embedding, gradients.at[WORDS],
                              gradients.at[POSITIONS] + positions_before(layer), gradient);
}

const struct layer_kind layer_embedding = {
    .name = "embedding",
    .tensors = embedding_tensors,
    .sizes = embedding_sizes,
    .forward = embedding_forward,
    .backward_input = embedding_backward_input,
    .backward_weight = embedding_backward_weight,
};
