// Every kernel of a device against the same kernel of `cpu`, on fresh random inputs.
//
//     compare_kernels DEVICE [SEED [small]]        cuda, cuda:tf32, cuda:bf16, cpu:bf16, ..
//
// A case is one function that makes inputs, outputs and the call. It is run on the
// `cpu`, and twice on the device with other poison in the outputs; both runs must leave
// the same bits, and each output must be as near to the cpu's, in double precision, as
// the device's type of numbers allows (trial.h).
#include "device/kernels.h"
#include "tests/device/trial.h"

// Inputs, uniform in [-1, 1).
static struct values *values(struct trial *trial, size_t count)
{
    return trial_drawn(trial, VALUES, count, NULL, 0, 1);
}

static float *floats(struct trial *trial, size_t count)
{
    return trial_drawn(trial, FLOATS, count, NULL, 0, 1);
}

static int32_t *tokens(struct trial *trial, size_t count, size_t vocabulary)
{
    return trial_tokens(trial, count, vocabulary);
}

static void *output(struct trial *trial, enum number number, size_t count, const char *name)
{
    return trial_output(trial, number, count, name);
}

// Numbers that are added to.
static float *sums(struct trial *trial, size_t count, const char *name)
{
    return trial_drawn(trial, FLOATS, count, name, 0, 1);
}

static float *positive(struct trial *trial, size_t count, const char *name)
{
    return trial_drawn(trial, FLOATS, count, name, 0.51, 0.5);
}

// --- the cases -------------------------------------------------------------------

static size_t count_of(const struct trial *t)
{
    return t->rows * t->columns;
}

static void multiply(struct trial *t, bool transpose_a, bool transpose_b, bool biased, bool gelu, bool added)
{
    const size_t m = t->rows, n = t->columns, k = t->columns / 2 + 8;
    struct matmul product = { .transpose_a = transpose_a, .transpose_b = transpose_b, .m = m, .n = n, .k = k };
    product.a = values(t, m * k);
    product.b = values(t, k * n);
    if (added)
        product.sums = sums(t, m * n, "sums");
    else
        product.c = output(t, VALUES, m * n, "c");
    product.bias = biased ? values(t, n) : NULL;
    product.before_gelu = gelu ? output(t, VALUES, m * n, "before_gelu") : NULL;
    kernel_matmul(t->queue, &product);
}

static void run_matmul(struct trial *t)
{
    multiply(t, false, false, false, false, false);
}
static void run_matmul_a(struct trial *t)
{
    multiply(t, true, false, false, false, false);
}
static void run_matmul_b(struct trial *t)
{
    multiply(t, false, true, true, false, false);
}
static void run_matmul_gelu(struct trial *t)
{
    multiply(t, false, true, true, true, false);
}
static void run_matmul_sums(struct trial *t)
{
    multiply(t, true, false, false, false, true);
}

static void run_fill(struct trial *t)
{
    kernel_fill(t->queue, output(t, VALUES, count_of(t), "out"), 0.75f, count_of(t));
}

static void run_fill_normal(struct trial *t)
{
    kernel_fill_normal(t->queue, output(t, VALUES, count_of(t), "out"), 0.02f, t->seed, t->seed >> 8, count_of(t));
}

static void run_copies(struct trial *t)
{
    float *in = floats(t, count_of(t));
    queue_copy(t->queue, output(t, FLOATS, count_of(t), "copied"), in, count_of(t) * sizeof(float));
    queue_zero(t->queue, output(t, FLOATS, count_of(t), "zeroed"), count_of(t) * sizeof(float));
}

static void run_add(struct trial *t)
{
    struct values *a = values(t, count_of(t)), *b = values(t, count_of(t));
    kernel_add(t->queue, output(t, VALUES, count_of(t), "out"), a, b, count_of(t));
}

static void run_floats(struct trial *t)
{
    float *a = floats(t, count_of(t)), *b = floats(t, count_of(t));
    kernel_scale(t->queue, output(t, FLOATS, count_of(t), "scaled"), a, 0.3f, count_of(t));
    kernel_add_floats(t->queue, output(t, FLOATS, count_of(t), "added"), a, b, count_of(t));
}

static void run_types(struct trial *t)
{
    struct values *in = values(t, count_of(t));
    float *wide = floats(t, count_of(t));
    kernel_widen(t->queue, output(t, FLOATS, count_of(t), "widened"), in, count_of(t));
    kernel_narrow(t->queue, output(t, VALUES, count_of(t), "narrowed"), wide, count_of(t));
}

static void run_dropout(struct trial *t)
{
    struct values *in = values(t, count_of(t));
    const struct dropout dropout = { .probability = 0.2f, .key = dropout_key(t->seed, 3, 1, 2) };
    kernel_dropout(t->queue, output(t, VALUES, count_of(t), "out"), in, count_of(t), dropout);
}

static void run_relu(struct trial *t)
{
    struct values *in = values(t, count_of(t)), *gradient = values(t, count_of(t));
    uint8_t *passed = output(t, BYTES, count_of(t), "passed");
    kernel_relu(t->queue, output(t, VALUES, count_of(t), "out"), passed, in, count_of(t));
    kernel_relu_backward(t->queue, output(t, VALUES, count_of(t), "in_gradient"), gradient, passed, count_of(t));
}

static void run_add_branch(struct trial *t)
{
    struct values *trunk = values(t, count_of(t)), *branch = values(t, count_of(t)), *bias = values(t, t->columns);
    const struct dropout dropout = { .probability = 0.1f, .first = 7, .key = dropout_key(t->seed, 1, 0, 4) };
    kernel_add_branch(t->queue, output(t, VALUES, count_of(t), "out"), trunk, branch, bias, t->rows, t->columns,
                      dropout);
}

static void run_sum_columns(struct trial *t)
{
    struct values *in = values(t, count_of(t));
    kernel_sum_columns(t->queue, sums(t, t->columns, "sums"), in, t->rows, t->columns);
}

static void run_gelu(struct trial *t)
{
    struct values *in = values(t, count_of(t)), *gradient = values(t, count_of(t));
    kernel_gelu(t->queue, output(t, VALUES, count_of(t), "out"), in, count_of(t));
    struct values *again = output(t, VALUES, count_of(t), "out again");
    kernel_gelu_backward(t->queue, output(t, VALUES, count_of(t), "in_gradient"), again, gradient, in, count_of(t));
}

static void run_softmax(struct trial *t)
{
    struct values *in = values(t, count_of(t));
    kernel_softmax(t->queue, output(t, VALUES, count_of(t), "out"), in, t->rows, t->columns);
}

static void run_layer_norm(struct trial *t)
{
    const struct layer_norm norm = { .in = values(t, count_of(t)),
                                     .gain = values(t, t->columns),
                                     .offset = values(t, t->columns),
                                     .rows = t->rows,
                                     .columns = t->columns };
    struct values *gradient = values(t, count_of(t)), *add = values(t, count_of(t));
    float *mean = output(t, FLOATS, t->rows, "mean"), *rstd = output(t, FLOATS, t->rows, "rstd");
    kernel_layer_norm(t->queue, &norm, output(t, VALUES, count_of(t), "out"), mean, rstd);
    kernel_layer_norm_again(t->queue, &norm, output(t, VALUES, count_of(t), "out again"), mean, rstd);
    kernel_layer_norm_backward_input(t->queue, &norm, output(t, VALUES, count_of(t), "in_gradient"), gradient, add,
                                     mean, rstd);
    float *gain = sums(t, t->columns, "gain_gradient");
    kernel_layer_norm_backward_weight(t->queue, &norm, gain, sums(t, t->columns, "offset_gradient"), gradient, mean,
                                      rstd);
}

static void run_embedding(struct trial *t)
{
    const size_t vocabulary = 61, sequence = t->rows / 2;
    const struct embedding embedding = { .tokens = tokens(t, 2 * sequence, vocabulary),
                                         .rows = 2 * sequence,
                                         .sequence = sequence,
                                         .columns = t->columns,
                                         .vocabulary = vocabulary };
    struct values *words = values(t, vocabulary * t->columns), *positions = values(t, sequence * t->columns);
    struct values *gradient = values(t, 2 * sequence * t->columns);
    kernel_embedding(t->queue, &embedding, output(t, VALUES, 2 * sequence * t->columns, "out"), words, positions);
    float *of_words = sums(t, vocabulary * t->columns, "words_gradient");
    kernel_embedding_backward(t->queue, &embedding, of_words, sums(t, sequence * t->columns, "positions_gradient"),
                              gradient);
}

static struct attention_bytes workspace_of(struct trial *t, const struct attention *shape)
{
    struct attention_bytes bytes;
    if (attention_bytes(t->device, shape, &bytes, &t->error))
        return bytes;
    fprintf(stderr, "%s\n", t->error.text);
    exit(2);
}

static void run_attention(struct trial *t)
{
    const struct attention shape = { .batch = 2, .sequence = t->rows, .heads = 3, .size = t->columns >= 128 ? 64 : 32 };
    const size_t count = shape.batch * shape.sequence * shape.heads * shape.size;
    struct values *qkv = values(t, 3 * count), *gradient = values(t, count), *out = output(t, VALUES, count, "out");
    float *log_sums = output(t, FLOATS, shape.batch * shape.heads * shape.sequence, "log_sums");
    const struct attention_bytes workspace = workspace_of(t, &shape);
    kernel_attention(t->queue, &shape, out, log_sums, qkv, output(t, BYTES, workspace.forward, NULL));
    struct values *qkv_gradient = output(t, VALUES, 3 * count, "qkv_gradient");
    kernel_attention_backward(t->queue, &shape, qkv_gradient, gradient, out, log_sums, qkv,
                              output(t, BYTES, workspace.backward, NULL));
}

static void run_cross_entropy(struct trial *t)
{
    const size_t stride = (t->columns + 7) / 8 * 8;  // as a head has it
    const struct cross_entropy loss = { .logits = values(t, t->rows * stride),
                                        .targets = tokens(t, t->rows, t->columns),
                                        .rows = t->rows,
                                        .columns = t->columns,
                                        .stride = stride,
                                        .scale = 1 / (float)t->rows };
    float *log_sums = output(t, FLOATS, t->rows, "log_sums");
    kernel_cross_entropy(t->queue, &loss, output(t, FLOATS, 1, "loss"), log_sums);
    kernel_cross_entropy_backward(t->queue, &loss, output(t, VALUES, t->rows * stride, "logits_gradient"), log_sums);
}

static void run_parts(struct trial *t)
{
    const struct cross_entropy loss = { .logits = values(t, t->rows * t->columns),
                                        .targets = tokens(t, t->rows, 2 * t->columns),
                                        .rows = t->rows,
                                        .columns = t->columns,
                                        .scale = 1 / (float)t->rows,
                                        .first = t->columns,
                                        .whole = 2 * t->columns };
    float *parts = output(t, FLOATS, 3 * t->rows, "log_sums of parts"), *log_sums = output(t, FLOATS, t->rows, "log_sums");
    queue_zero(t->queue, parts, t->rows * sizeof *parts);
    kernel_cross_entropy_part(t->queue, &loss, parts + t->rows, parts + 2 * t->rows);
    const struct cross_entropy_parts joined = { parts, 2, t->rows, loss.scale, loss.targets };
    kernel_cross_entropy_join(t->queue, &joined, output(t, FLOATS, 1, "loss"), log_sums);
    kernel_cross_entropy_backward(t->queue, &loss, output(t, VALUES, t->rows * t->columns, "logits_gradient"), log_sums);
}

// The weights are the same numbers on both sides before the device rounds them: in bfloat16 it is the master that
// is updated.
static struct optimizer_span make_span(struct trial *t)
{
    const uint64_t seed = t->seed;
    float *master = sums(t, count_of(t), NULL);
    t->seed = seed;
    const enum precision rounds = t->rounds;
    t->rounds = PRECISION_FP32;
    struct optimizer_span span = { .weights = values(t, count_of(t)), .count = count_of(t) };
    t->rounds = rounds;
    span.master = t->precision != PRECISION_FP32 ? master : NULL;
    span.gradients = floats(t, count_of(t));
    span.first = sums(t, count_of(t), "first");
    span.next = output(t, VALUES, count_of(t), "next");
    return span;
}

static void run_adamw(struct trial *t)
{
    struct optimizer_span span = make_span(t);
    span.second = positive(t, count_of(t), "second");
    const struct adamw adamw = {
        .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .decay = 0.1f, .update = 3
    };
    kernel_adamw(t->queue, &adamw, &span);
}

static void run_sgd(struct trial *t)
{
    const struct optimizer_span span = make_span(t);
    kernel_sgd(t->queue, &(struct sgd){ .rate = 0.01f, .momentum = 0.9f, .decay = 0.1f }, &span);
}

static void run_lars(struct trial *t)
{
    const struct optimizer_span span = make_span(t);
    kernel_lars(t->queue, &(struct lars){ .rate = 1, .momentum = 0.9f, .decay = 0.1f, .trust = 0.01f }, &span);
}

static void run_lamb(struct trial *t)
{
    struct optimizer_span span = make_span(t);
    span.second = positive(t, count_of(t), "second");
    const struct lamb lamb = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-6f, .decay = 0.1f,
                               .trusts = true, .update = 3 };
    kernel_lamb(t->queue, &lamb, &span);
}

static void run_clip(struct trial *t)
{
    float *gradients = output(t, FLOATS, count_of(t), "gradients"), *in = floats(t, count_of(t));
    float *norm = output(t, FLOATS, 1, "norm");
    kernel_norm(t->queue, norm, in, count_of(t));
    kernel_scale(t->queue, gradients, in, 1, count_of(t));
    kernel_clip(t->queue, &(struct clip){ .norms = norm, .norm_count = 1, .limit = 0.5f }, gradients, count_of(t));
}

static const struct {
    const char *name;
    void (*run)(struct trial *trial);
} cases[] = {
    { "matmul", run_matmul },
    { "matmul a transposed", run_matmul_a },
    { "matmul b transposed, bias", run_matmul_b },
    { "matmul bias, gelu", run_matmul_gelu },
    { "matmul added to sums", run_matmul_sums },
    { "fill", run_fill },
    { "fill_normal", run_fill_normal },
    { "copy, zero", run_copies },
    { "add", run_add },
    { "scale, add_floats", run_floats },
    { "widen, narrow", run_types },
    { "dropout", run_dropout },
    { "relu", run_relu },
    { "add_branch", run_add_branch },
    { "sum_columns", run_sum_columns },
    { "gelu", run_gelu },
    { "softmax", run_softmax },
    { "layer_norm", run_layer_norm },
    { "embedding", run_embedding },
    { "attention", run_attention },
    { "cross_entropy", run_cross_entropy },
    { "cross_entropy in parts", run_parts },
    { "adamw", run_adamw },
    { "sgd", run_sgd },
    { "lars", run_lars },
    { "lamb", run_lamb },
    { "norm, clip", run_clip },
};

// --- running and comparing ---------------------------------------------------------

static bool compare(const struct trial *got, const struct trial *want, const struct trial *again, const char *name,
                    double bound)
{
    bool good = true;
    for (size_t b = 0; b < want->buffer_count; b++) {
        const struct buffer *buffer = &got->buffer[b];
        if (!buffer->name)
            continue;
        double off = 0, size = 0;
        for (size_t i = 0; i < buffer->count; i++)
            nearness_add(&off, &size, buffer_number(buffer, i), buffer_number(&want->buffer[b], i));
        const bool same = buffer_is_same(buffer, &again->buffer[b]);
        good = trial_judge(got, name, buffer->name, nearness(off, size), bound, same) && good;
    }
    return good;
}

static bool try_case(struct trial trials[3], size_t c, uint64_t seed, double bound)
{
    bool good = true;
    for (size_t t = 0; t < 3 && good; t++) {
        trials[t].seed = seed + c;
        cases[c].run(&trials[t]);
        good = trial_finish(&trials[t], cases[c].name);
    }
    good = good && compare(&trials[1], &trials[0], &trials[2], cases[c].name, bound);
    for (size_t t = 0; t < 3; t++)
        trial_clear(&trials[t]);
    return good;
}

// In all three shapes, or in the smallest.
static int compare_kernels(struct trial trials[3], uint64_t seed, double bound, bool small)
{
    static const size_t shapes[][2] = { { 38, 53 }, { 128, 192 }, { 256, 768 } };
    const size_t shape_count = small ? 1 : sizeof shapes / sizeof shapes[0];
    int failed = 0;
    for (size_t s = 0; s < shape_count; s++)
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            for (size_t t = 0; t < 3; t++) {
                trials[t].rows = shapes[s][0];
                trials[t].columns = shapes[s][1];
            }
            failed += !try_case(trials, c, seed, bound);
        }
    printf("%zu cases of %zu kernels, %d failed\n", shape_count * (sizeof cases / sizeof cases[0]),
           sizeof cases / sizeof cases[0], failed);
    return failed ? 1 : 0;
}

int main(int count, char **arguments)
{
    return trial_main("compare_kernels", compare_kernels, 1e-3, count, arguments);
}
