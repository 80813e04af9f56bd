#include "device/cuda/cudnn_attention.h"

#include <assert.h>

// The shapes of one attention: rows are queries, columns are keys.
struct shapes {
    cudnnDataType_t type;  // of tensors in memory, and of products' inputs
    int64_t heads[4];      // [batch][heads][sequence][size], of Q, O and their gradients
    int64_t turned[4];     // [batch][heads][size][sequence], of K^T and V^T
    int64_t scores[4];     // [batch][heads][sequence][sequence]
    int64_t rows[4];       // [batch][heads][sequence][1]
    int64_t in_qkv[4], turned_in_qkv[4];  // strides within qkv
    int64_t in_out[4];                    // strides within out
    int64_t per_row[4];
    int64_t turned_scores[4];  // strides of scores read across
};

static struct shapes shapes_of(const struct attention *shape, enum precision precision)
{
    assert(precision != PRECISION_FP32);
    const int64_t b = (int64_t)shape->batch, s = (int64_t)shape->sequence, h = (int64_t)shape->heads,
                  d = (int64_t)shape->size;
    return (struct shapes){
        .type = precision == PRECISION_FP16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16,
        .heads = { b, h, s, d },
        .turned = { b, h, d, s },
        .scores = { b, h, s, s },
        .rows = { b, h, s, 1 },
        .in_qkv = { s * 3 * h * d, d, 3 * h * d, 1 },
        .turned_in_qkv = { s * 3 * h * d, d, 1, 3 * h * d },
        .in_out = { s * h * d, d, h * d, 1 },
        .per_row = { h * s, s, 1, 1 },
        .turned_scores = { h * s * s, s * s, 1, s },
    };
}

static struct cudnn_tensor in_memory(struct cudnn_graph *graph, enum cudnn_attention_id id, const struct shapes *shapes,
                                     const int64_t dims[4], const int64_t strides[4])
{
    return cudnn_real(graph, id, shapes->type, dims, strides);
}

static struct cudnn_tensor of_scores(struct cudnn_graph *graph, const struct shapes *shapes)
{
    return cudnn_between(graph, CUDNN_DATA_FLOAT, shapes->scores);
}

static struct cudnn_tensor of_rows(struct cudnn_graph *graph, const struct shapes *shapes)
{
    return cudnn_between(graph, CUDNN_DATA_FLOAT, shapes->rows);
}

void cudnn_attention_forward(struct cudnn_graph *graph, const struct attention *shape, enum precision precision)
{
    const struct shapes shapes = shapes_of(shape, precision);
    const struct cudnn_tensor q = in_memory(graph, ATTENTION_Q, &shapes, shapes.heads, shapes.in_qkv);
    const struct cudnn_tensor k = in_memory(graph, ATTENTION_K, &shapes, shapes.turned, shapes.turned_in_qkv);
    const struct cudnn_tensor v = in_memory(graph, ATTENTION_V, &shapes, shapes.heads, shapes.in_qkv);
    const struct cudnn_tensor out = in_memory(graph, ATTENTION_OUT, &shapes, shapes.heads, shapes.in_out);
    const struct cudnn_tensor log_sums =
        cudnn_real(graph, ATTENTION_LOG_SUMS, CUDNN_DATA_FLOAT, shapes.rows, shapes.per_row);
    const struct cudnn_tensor scale = cudnn_scalar(graph, ATTENTION_SCALE);
    const struct cudnn_tensor masked = cudnn_scalar(graph, ATTENTION_MASKED);
    const struct cudnn_tensor product = of_scores(graph, &shapes), scaled = of_scores(graph, &shapes),
                              scores = of_scores(graph, &shapes), below = of_scores(graph, &shapes),
                              exponentials = of_scores(graph, &shapes);
    const struct cudnn_tensor most = of_rows(graph, &shapes), sum = of_rows(graph, &shapes),
                              log = of_rows(graph, &shapes);
    const struct cudnn_tensor probabilities = cudnn_between(graph, shapes.type, shapes.scores);

    cudnn_multiply(graph, q, k, product);
    cudnn_both(graph, CUDNN_POINTWISE_MUL, product, scale, scaled);
    cudnn_mask_ahead(graph, scaled, masked, scores);
    cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_MAX, scores, most);
    cudnn_both(graph, CUDNN_POINTWISE_SUB, scores, most, below);
    cudnn_each(graph, CUDNN_POINTWISE_EXP, below, exponentials);
    cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
    cudnn_each(graph, CUDNN_POINTWISE_LOG, sum, log);
    cudnn_both(graph, CUDNN_POINTWISE_ADD, most, log, log_sums);
    cudnn_both(graph, CUDNN_POINTWISE_DIV, exponentials, sum, probabilities);
    cudnn_multiply(graph, probabilities, v, out);
}

// D: what is subtracted from each row of dP. It is in memory, since cuDNN computes it in a pass of its own.
static struct cudnn_tensor row_sums(struct cudnn_graph *graph, const struct shapes *shapes, struct cudnn_tensor out,
                                    struct cudnn_tensor out_gradient)
{
    const int64_t strides[4] = { shapes->heads[1] * shapes->heads[2] * shapes->heads[3],
                                 shapes->heads[2] * shapes->heads[3], shapes->heads[1] * shapes->heads[3], 1 };
    const struct cudnn_tensor both = cudnn_between_strided(graph, CUDNN_DATA_FLOAT, shapes->heads, strides);
    const struct cudnn_tensor sum = of_rows(graph, shapes);
    const struct cudnn_tensor one = cudnn_scalar(graph, ATTENTION_ONE);
    const struct cudnn_tensor kept =
        cudnn_real(graph, ATTENTION_ROW_SUMS, CUDNN_DATA_FLOAT, shapes->rows, shapes->per_row);
    cudnn_both(graph, CUDNN_POINTWISE_MUL, out_gradient, out, both);
    cudnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, both, sum);
    cudnn_both(graph, CUDNN_POINTWISE_MUL, sum, one, kept);
    return kept;
}

// The probabilities, recomputed from what the forward kept.
static struct cudnn_tensor again(struct cudnn_graph *graph, const struct shapes *shapes, struct cudnn_tensor q,
                                 struct cudnn_tensor k, struct cudnn_tensor scale)
{
    const struct cudnn_tensor log_sums = cudnn_real(graph, ATTENTION_LOG_SUMS, CUDNN_DATA_FLOAT, shapes->rows,
                                                    shapes->per_row);
    const struct cudnn_tensor masked = cudnn_scalar(graph, ATTENTION_MASKED);
    const struct cudnn_tensor product = of_scores(graph, shapes), scaled = of_scores(graph, shapes),
                              lowered = of_scores(graph, shapes), logs = of_scores(graph, shapes),
                              probabilities = of_scores(graph, shapes);
    cudnn_multiply(graph, q, k, product);
    cudnn_both(graph, CUDNN_POINTWISE_MUL, product, scale, scaled);
    cudnn_both(graph, CUDNN_POINTWISE_SUB, scaled, log_sums, lowered);
    cudnn_mask_ahead(graph, lowered, masked, logs);
    cudnn_each(graph, CUDNN_POINTWISE_EXP, logs, probabilities);
    return probabilities;
}

// gradient = scores^T times `other`, with the scores rounded.
static void multiply_turned(struct cudnn_graph *graph, const struct shapes *shapes, struct cudnn_tensor scores,
                            struct cudnn_tensor other, struct cudnn_tensor gradient)
{
    const struct cudnn_tensor turned =
        cudnn_between_strided(graph, shapes->type, shapes->scores, shapes->turned_scores);
    cudnn_reshape(graph, scores, turned);
    cudnn_multiply(graph, turned, other, gradient);
}

void cudnn_attention_backward(struct cudnn_graph *graph, const struct attention *shape, enum precision precision)
{
    const struct shapes shapes = shapes_of(shape, precision);
    const struct cudnn_tensor q = in_memory(graph, ATTENTION_Q, &shapes, shapes.heads, shapes.in_qkv);
    const struct cudnn_tensor k = in_memory(graph, ATTENTION_K, &shapes, shapes.turned, shapes.turned_in_qkv);
    const struct cudnn_tensor v = in_memory(graph, ATTENTION_V, &shapes, shapes.turned, shapes.turned_in_qkv);
    const struct cudnn_tensor out = in_memory(graph, ATTENTION_OUT, &shapes, shapes.heads, shapes.in_out);
    const struct cudnn_tensor out_gradient =
        in_memory(graph, ATTENTION_OUT_GRADIENT, &shapes, shapes.heads, shapes.in_out);
    const struct cudnn_tensor scale = cudnn_scalar(graph, ATTENTION_SCALE);

    const struct cudnn_tensor sums = row_sums(graph, &shapes, out, out_gradient);
    const struct cudnn_tensor probabilities = again(graph, &shapes, q, k, scale);
    multiply_turned(graph, &shapes, probabilities, out_gradient,
                    in_memory(graph, ATTENTION_V_GRADIENT, &shapes, shapes.heads, shapes.in_qkv));

    const struct cudnn_tensor product = of_scores(graph, &shapes), lowered = of_scores(graph, &shapes),
                              weighed = of_scores(graph, &shapes), gradients = of_scores(graph, &shapes);
    cudnn_multiply(graph, out_gradient, v, product);
    cudnn_both(graph, CUDNN_POINTWISE_SUB, product, sums, lowered);
    cudnn_both(graph, CUDNN_POINTWISE_MUL, lowered, probabilities, weighed);
    cudnn_both(graph, CUDNN_POINTWISE_MUL, weighed, scale, gradients);
    multiply_turned(graph, &shapes, gradients, q,
                    in_memory(graph, ATTENTION_K_GRADIENT, &shapes, shapes.heads, shapes.in_qkv));

    const struct cudnn_tensor keys = cudnn_between_strided(graph, shapes.type, shapes.heads, shapes.in_qkv);
    cudnn_reshape(graph, k, keys);
    cudnn_multiply(graph, gradients, keys,
                   in_memory(graph, ATTENTION_Q_GRADIENT, &shapes, shapes.heads, shapes.in_qkv));
}
