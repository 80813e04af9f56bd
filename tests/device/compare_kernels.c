// Every kernel of a device against the same kernel of `cpu`, on fresh random inputs.
//
//     compare_kernels DEVICE [SEED [small]]        cuda, cuda:tf32, cuda:bf16, cpu:bf16, ..
//
// A case is one function that makes inputs, outputs and the call. It is run on the
// `cpu`, and twice on the device with other poison in the outputs; both runs must leave
// the same bits, and each output must be as near to the cpu's, in double precision, as
// the device's type of numbers allows (trial.h).
//
// Which sizes are tried, and which path of a GPU's kernels each takes, is the table of shapes below. `small` takes
// those that are quick also where something looks at every access, and leaves out no kind of case.
#include "device/expert_kernels.h"
#include "device/kernels.h"
#include "device/picture_kernels.h"
#include "device/table_kernels.h"
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

// What a kernel works in begins where memory that is allocated does.
static void *workspace(struct trial *trial, uint64_t bytes)
{
    const int shift = trial->shift;
    trial->shift = 0;
    void *begin = output(trial, BYTES, bytes, NULL);
    trial->shift = shift;
    return begin;
}

// --- the cases -------------------------------------------------------------------

static size_t count_of(const struct trial *t)
{
    return t->rows * t->columns;
}

// k is a multiple of 8 where the columns are one of 16.
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

// Of matrices in the middle of wider ones: what lies between the rows of c is left alone.
static void run_matmul_parts(struct trial *t)
{
    const size_t m = t->rows, n = t->columns, k = t->columns / 2 + 8;
    const struct matmul product = { .transpose_b = true, .m = m, .n = n, .k = k, .a = values(t, m * (k + 8)),
                                    .b = values(t, n * (k + 3)), .lda = k + 8, .ldb = k + 3, .ldc = n + 16,
                                    .c = trial_drawn(t, VALUES, m * (n + 16), "c", 0, 1), .bias = values(t, n) };
    kernel_matmul(t->queue, &product);
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

// No other takes as many numbers.
static void run_many(struct trial *t)
{
    float *a = floats(t, count_of(t)), *b = floats(t, count_of(t));
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
    kernel_dropout(t->queue, output(t, VALUES, count_of(t), "nothing dropped"), in, count_of(t), (struct dropout){ 0 });
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
    kernel_layer_norm_backward_input(t->queue, &norm, output(t, VALUES, count_of(t), "in_gradient alone"), gradient,
                                     NULL, mean, rstd);
    float *gain = sums(t, t->columns, "gain_gradient");
    kernel_layer_norm_backward_weight(t->queue, &norm, gain, sums(t, t->columns, "offset_gradient"), gradient, mean,
                                      rstd);
}

enum { WORDS = 23 };

// Of few words, one of them in every third row: where rows are many its run, or every word's, is a long one.
static int32_t *words_of(struct trial *t, size_t rows)
{
    int32_t *device = tokens(t, rows, WORDS);
    struct buffer *buffer = &t->buffer[t->buffer_count - 1];
    for (size_t row = 0; row < rows; row += 3)
        memcpy(buffer->host + 4 * row, &(int32_t){ 7 }, 4);
    trial_give(t, buffer);
    return device;
}

// All words, and a part of them without positions, as of a vocabulary that is split.
static void run_embedding(struct trial *t)
{
    const size_t sequence = t->rows / 2, rows = 2 * sequence, count = rows * t->columns;
    const struct embedding embedding = { .tokens = words_of(t, rows), .rows = rows, .sequence = sequence,
                                         .columns = t->columns, .vocabulary = WORDS };
    struct embedding part = embedding;
    part.first = 5, part.own = 11;
    struct values *words = values(t, WORDS * t->columns), *positions = values(t, sequence * t->columns);
    struct values *gradient = values(t, count);
    kernel_embedding(t->queue, &embedding, output(t, VALUES, count, "out"), words, positions);
    float *of_words = sums(t, WORDS * t->columns, "words_gradient");
    kernel_embedding_backward(t->queue, &embedding, of_words, sums(t, sequence * t->columns, "positions_gradient"),
                              gradient);
    kernel_embedding(t->queue, &part, output(t, VALUES, count, "out of a part"), words, NULL);
    float *of_part = sums(t, part.own * t->columns, "words_gradient of a part");
    kernel_embedding_backward(t->queue, &part, of_part, sums(t, sequence * t->columns, NULL), gradient);
}

static struct attention_bytes workspace_of(struct trial *t, const struct attention *shape)
{
    struct attention_bytes bytes;
    if (attention_bytes(t->device, shape, &bytes, &t->error))
        return bytes;
    fprintf(stderr, "%s\n", t->error.text);
    exit(2);
}

// Rows are a sequence here, and columns a head's.
static void attend(struct trial *t, const struct attention_pattern *pattern)
{
    const struct attention shape = { .batch = 2, .sequence = t->rows, .heads = t->rows < 1024 ? 3 : 12,
                                     .size = t->columns, .pattern = *pattern };
    const size_t count = shape.batch * shape.sequence * shape.heads * shape.size;
    struct values *qkv = values(t, 3 * count), *gradient = values(t, count), *out = output(t, VALUES, count, "out");
    float *log_sums = output(t, FLOATS, shape.batch * shape.heads * shape.sequence, "log_sums");
    const struct attention_bytes bytes = workspace_of(t, &shape);
    kernel_attention(t->queue, &shape, out, log_sums, qkv, workspace(t, bytes.forward));
    struct values *qkv_gradient = output(t, VALUES, 3 * count, "qkv_gradient");
    kernel_attention_backward(t->queue, &shape, qkv_gradient, gradient, out, log_sums, qkv,
                              workspace(t, bytes.backward));
}

static void run_attention(struct trial *t)
{
    attend(t, &(struct attention_pattern){ 0 });
}

static void run_window(struct trial *t)
{
    attend(t, &(struct attention_pattern){ .window = 1 + t->rows / 8 });
}

static void run_pattern(struct trial *t)
{
    attend(t, &(struct attention_pattern){ .window = 1 + t->rows / 16, .global = 3, .stride = 2 + t->rows / 4,
                                           .block = 1 });
}

// A sequence in two parts, the second one longer: its backward comes first, and the other's adds to that.
static void run_attention_parts(struct trial *t)
{
    const size_t before = t->rows / 3, heads = 3, size = t->columns, batch = 2, width = heads * size;
    struct values *qkv = values(t, 3 * batch * t->rows * width);
    struct values *qkv_gradient = output(t, VALUES, 3 * batch * t->rows * width, "qkv_gradient");
    for (int is_first = 0; is_first < 2; is_first++) {
        const struct attention part = { .batch = batch, .sequence = is_first ? before : t->rows - before,
                                        .heads = heads, .size = size, .first = is_first ? 0 : before,
                                        .whole = t->rows };
        const size_t count = batch * part.sequence * width;
        if (part.sequence == 0)
            continue;
        struct values *gradient = values(t, count);
        struct values *out = output(t, VALUES, count, is_first ? "out of the first" : "out of the last");
        float *log_sums = output(t, FLOATS, batch * heads * part.sequence, NULL);
        const struct attention_bytes bytes = workspace_of(t, &part);
        kernel_attention(t->queue, &part, out, log_sums, qkv, workspace(t, bytes.forward));
        kernel_attention_backward(t->queue, &part, qkv_gradient, gradient, out, log_sums, qkv,
                                  workspace(t, bytes.backward));
    }
}

// Every fifth row has none.
static int32_t *targets_of(struct trial *t, size_t words)
{
    int32_t *device = tokens(t, t->rows, words);
    struct buffer *buffer = &t->buffer[t->buffer_count - 1];
    for (size_t row = 4; row < t->rows; row += 5)
        memcpy(buffer->host + 4 * row, &(int32_t){ NO_TARGET }, 4);
    trial_give(t, buffer);
    return device;
}

static void cross_entropy(struct trial *t, float smoothing)
{
    const size_t stride = (t->columns + 7) / 8 * 8;  // as a head has it
    const struct cross_entropy loss = { .logits = values(t, t->rows * stride),
                                        .targets = targets_of(t, t->columns),
                                        .rows = t->rows,
                                        .columns = t->columns,
                                        .stride = stride,
                                        .scale = 1 / (float)t->rows,
                                        .smoothing = smoothing };
    float *log_sums = output(t, FLOATS, t->rows, "log_sums");
    kernel_cross_entropy(t->queue, &loss, output(t, FLOATS, 1, "loss"), log_sums);
    kernel_cross_entropy_backward(t->queue, &loss, output(t, VALUES, t->rows * stride, "logits_gradient"), log_sums);
    float *sum = output(t, FLOATS, 1, "loss, in one"), *losses = output(t, FLOATS, t->rows, "losses, in one");
    struct values *gradient = output(t, VALUES, t->rows * stride, "gradient, in one");
    kernel_cross_entropy_both(t->queue, &loss, sum, losses, gradient, loss.scale);
}

static void run_cross_entropy(struct trial *t)
{
    cross_entropy(t, 0);
}
static void run_smoothed(struct trial *t)
{
    cross_entropy(t, 0.1f);
}

static void run_parts(struct trial *t)
{
    const struct cross_entropy loss = { .logits = values(t, t->rows * t->columns),
                                        .targets = targets_of(t, 2 * t->columns),
                                        .rows = t->rows,
                                        .columns = t->columns,
                                        .scale = 1 / (float)t->rows,
                                        .first = t->columns,
                                        .whole = 2 * t->columns };
    float *parts = output(t, FLOATS, 3 * t->rows, "log_sums of parts");
    float *log_sums = output(t, FLOATS, t->rows, "log_sums");
    queue_zero(t->queue, parts, t->rows * sizeof *parts);
    kernel_cross_entropy_part(t->queue, &loss, parts + t->rows, parts + 2 * t->rows);
    const struct cross_entropy_parts joined = { parts, 2, t->rows, loss.scale, loss.targets };
    kernel_cross_entropy_join(t->queue, &joined, output(t, FLOATS, 1, "loss"), log_sums);
    struct values *gradient = output(t, VALUES, t->rows * t->columns, "logits_gradient");
    kernel_cross_entropy_backward(t->queue, &loss, gradient, log_sums);
}

// Steps are as long as weights are, or what is wrong with one would be lost in what weights of 16 bits are rounded by.
//
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

static const struct adamw as_ever = { .rate = 0.3f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .decay = 0.1f,
                                     .update = 3 };

static void adamw(struct trial *t, bool is_coupled, uint64_t frozen)
{
    struct optimizer_span span = make_span(t);
    struct adamw adamw = as_ever;
    adamw.is_coupled = is_coupled, adamw.frozen = frozen;
    span.second = positive(t, count_of(t), "second");
    kernel_adamw(t->queue, &adamw, &span);
}

static void run_adamw(struct trial *t)
{
    adamw(t, false, 0);
}
static void run_adam(struct trial *t)
{
    adamw(t, true, 0);
}
static void run_adamw_frozen(struct trial *t)
{
    adamw(t, false, 2);
}

static void run_adam8bit(struct trial *t)
{
    const size_t blocks = (count_of(t) + EIGHT_BIT_BLOCK - 1) / EIGHT_BIT_BLOCK;
    for (int is_coupled = 0; is_coupled < 2; is_coupled++) {
        struct adamw adamw = as_ever;
        adamw.is_coupled = is_coupled;
        const struct eight_bit_span span = {
            .weights = values(t, count_of(t)), .gradients = floats(t, count_of(t)), .count = count_of(t),
            .first = trial_drawn(t, CODES, count_of(t), "first", 127.5, 127.5),
            .second = trial_drawn(t, CODES, count_of(t), "second", 127.5, 127.5),
            .first_scales = positive(t, blocks, "first_scales"), .second_scales = positive(t, blocks, "second_scales"),
            .next = output(t, VALUES, count_of(t), "next"),
        };
        kernel_adam8bit(t->queue, &adamw, &span);
    }
}

static void sgd(struct trial *t, bool is_nesterov, bool has_momentum)
{
    struct optimizer_span span = make_span(t);
    if (!has_momentum)
        span.first = NULL;
    kernel_sgd(t->queue, &(struct sgd){ .rate = 0.5f, .momentum = 0.9f, .decay = 0.1f, .is_nesterov = is_nesterov },
               &span);
}

static void run_adagrad(struct trial *t)
{
    struct optimizer_span span = make_span(t);
    span.first = positive(t, count_of(t), "sum");
    kernel_adagrad(t->queue, &(struct adagrad){ .rate = 0.5f, .epsilon = 1e-10f, .decay = 0.1f }, &span);
}

static void run_sgd(struct trial *t)
{
    sgd(t, false, false);
}
static void run_momentum(struct trial *t)
{
    sgd(t, false, true);
}
static void run_nesterov(struct trial *t)
{
    sgd(t, true, true);
}

static void run_lars(struct trial *t)
{
    const struct optimizer_span span = make_span(t);
    kernel_lars(t->queue, &(struct lars){ .rate = 1, .momentum = 0.9f, .decay = 0.1f, .trust = 0.5f }, &span);
}

static void run_lamb(struct trial *t)
{
    struct optimizer_span span = make_span(t);
    span.second = positive(t, count_of(t), "second");
    const struct lamb lamb = { .rate = 0.5f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-6f, .decay = 0.1f,
                               .trusts = true, .update = 3 };
    kernel_lamb(t->queue, &lamb, &span);
}

// A matrix, and the same many numbers as a vector, whose smaller moments make steps so long that they are cut.
static void run_adafactor(struct trial *t)
{
    const struct adafactor adafactor = { .rate = 0.5f, .decay = 0.1f, .update = 3 };
    for (int is_matrix = 0; is_matrix < 2; is_matrix++) {
        const size_t rows = is_matrix ? t->rows : 1, columns = count_of(t) / rows;
        const struct factored_span span = {
            .weights = values(t, count_of(t)), .gradients = floats(t, count_of(t)), .rows = rows, .columns = columns,
            .row = is_matrix ? trial_drawn(t, FLOATS, rows, "row", 2, 1)
                             : trial_drawn(t, FLOATS, columns, "second", 0.1, 0.09),
            .column = is_matrix ? trial_drawn(t, FLOATS, columns, "column", 2, 1) : NULL,
            .next = output(t, VALUES, count_of(t), is_matrix ? "next of a matrix" : "next of a vector"),
        };
        kernel_adafactor(t->queue, &adafactor, &span);
    }
}

// Numbers count where this is not 0: three of four.
static float *where_of(struct trial *t)
{
    float *device = positive(t, count_of(t), NULL);
    struct buffer *buffer = &t->buffer[t->buffer_count - 1];
    for (size_t i = 0; i < count_of(t); i += 4)
        buffer_set(buffer, i, 0);
    trial_give(t, buffer);
    return device;
}

// What a replica does: momentum where numbers count, the signs of it, and the sum of what signs say.
static void run_signs(struct trial *t)
{
    float *in = floats(t, count_of(t)), *where = where_of(t), *numbers = sums(t, count_of(t), "left by signs");
    struct sign_block *blocks = output(t, SIGNS, count_of(t), "signs");
    kernel_add_where(t->queue, sums(t, count_of(t), "added where"), in, 0.7f, where, count_of(t));
    kernel_take_signs(t->queue, blocks, numbers, where, count_of(t));
    kernel_add_signs(t->queue, sums(t, count_of(t), "added by signs"), blocks, 0.3f, where, count_of(t));
}

static struct convolution_bytes room_for(struct trial *t, const struct convolution *shape)
{
    struct convolution_bytes bytes;
    if (convolution_bytes(t->device, shape, &bytes, &t->error))
        return bytes;
    fprintf(stderr, "%s\n", t->error.text);
    exit(2);
}

static void convolve(struct trial *t, size_t groups, size_t out_channels, struct window window)
{
    const struct convolution shape = { .batch = 2, .height = t->rows, .width = t->rows + 3, .in = t->columns,
                                       .out = out_channels, .groups = groups, .window = window };
    const size_t in_count = shape.batch * shape.height * shape.width * shape.in;
    const size_t out_count = shape.batch * convolution_height(&shape) * convolution_width(&shape) * shape.out;
    const size_t weight_count = window.height * window.width * shape.in / groups * shape.out;
    const struct convolution_bytes bytes = room_for(t, &shape);
    struct values *in = values(t, in_count), *weights = values(t, weight_count), *bias = values(t, shape.out);
    struct values *gradient = values(t, out_count);
    kernel_convolution(t->queue, &shape, output(t, VALUES, out_count, "out"), in, weights, bias,
                       workspace(t, bytes.forward));
    kernel_convolution_input(t->queue, &shape, output(t, VALUES, in_count, "in_gradient"), gradient, weights,
                             workspace(t, bytes.input));
    kernel_convolution_weight(t->queue, &shape, sums(t, weight_count, "weights_gradient"), gradient, in,
                              workspace(t, bytes.weight));
}

static void run_convolution(struct trial *t)
{
    convolve(t, 1, t->columns + 8, (struct window){ 3, 3, 1, 1, 1, 1 });
}
static void run_strided(struct trial *t)
{
    convolve(t, 1, 16, (struct window){ 7, 5, 2, 3, 3, 2 });
}
static void run_pixels(struct trial *t)
{
    convolve(t, 1, 40, (struct window){ 1, 1, 1, 1, 0, 0 });
}
static void run_groups(struct trial *t)
{
    convolve(t, t->columns, 2 * t->columns, (struct window){ 3, 3, 1, 1, 1, 1 });
}

static void run_clip(struct trial *t)
{
    float *gradients = output(t, FLOATS, count_of(t), "gradients"), *in = floats(t, count_of(t));
    float *norm = output(t, FLOATS, 1, "norm");
    kernel_norm(t->queue, norm, in, count_of(t));
    kernel_scale(t->queue, gradients, in, 1, count_of(t));
    kernel_clip(t->queue, &(struct clip){ .norms = norm, .norm_count = 1, .limit = 0.5f }, gradients, count_of(t));
}

// --- pictures: rows of 8 pixels, with columns as channels -------------------------

static struct batch_norm norm_of_picture(struct trial *t)
{
    return (struct batch_norm){ .in = values(t, count_of(t)), .gain = values(t, t->columns),
                                .offset = values(t, t->columns), .rows = t->rows,
                                .counted = t->rows - t->rows / 10, .channels = t->columns, .has_relu = true,
                                .add = values(t, count_of(t)) };
}

// What the ReLU has let pass hangs on the last bit of a number near 0.
static void run_batch_norm(struct trial *t)
{
    const struct batch_norm norm = norm_of_picture(t);
    float *mean = output(t, FLOATS, t->columns, "mean"), *rstd = output(t, FLOATS, t->columns, "rstd");
    float *statistics = output(t, FLOATS, batch_norm_statistics(t->columns), "statistics");
    double *merged = output(t, DOUBLES, batch_norm_sums(t->columns), "sums");
    uint8_t *passed = output(t, BYTES, batch_norm_passed_bytes(t->rows, t->columns), NULL);
    kernel_batch_norm(t->queue, &norm, output(t, VALUES, count_of(t), "out"), mean, rstd, passed, statistics);
    kernel_batch_norm_merge(t->queue, merged, statistics, t->columns, true);
    kernel_batch_norm_merge(t->queue, merged, statistics, t->columns, false);
    float *running = sums(t, t->columns, "running mean"), *variance = positive(t, t->columns, "running variance");
    kernel_batch_norm_fold(t->queue, running, variance, merged, t->columns, 0.1f);
    kernel_batch_norm_running(t->queue, &norm, output(t, VALUES, count_of(t), "out of running"), running, variance);
}

static void run_batch_norm_backward(struct trial *t)
{
    const struct batch_norm norm = norm_of_picture(t);
    const size_t bytes = batch_norm_passed_bytes(t->rows, t->columns);
    const uint8_t *passed = trial_drawn(t, CODES, bytes, NULL, 127.5, 127.5);
    const struct values *gradient = values(t, count_of(t));
    const float *mean = floats(t, t->columns), *rstd = positive(t, t->columns, NULL);
    struct values *in_gradient = output(t, VALUES, count_of(t), "in_gradient");
    struct values *add_gradient = output(t, VALUES, count_of(t), "add_gradient");
    kernel_batch_norm_backward(t->queue, &norm, in_gradient, add_gradient, output(t, FLOATS, 2 * t->columns, "sums"),
                               gradient, mean, rstd, passed);
}

static void run_pooling(struct trial *t)
{
    const struct pooling p = { .batch = 1, .height = t->rows > 8 ? t->rows / 8 : 1, .width = 8, .channels = t->columns,
                               .window = { 3, 3, 2, 2, 1, 1 } };
    const size_t large = p.height * p.width * p.channels, count = pooling_height(&p) * pooling_width(&p) * p.channels;
    const struct values *in = values(t, large), *gradient = values(t, count);
    uint8_t *won = output(t, BYTES, count, "won");
    kernel_max_pool(t->queue, &p, output(t, VALUES, count, "largest"), won, in);
    kernel_max_pool_backward(t->queue, &p, output(t, VALUES, large, "gradient of the largest"), gradient, won);
    kernel_average_pool(t->queue, &p, output(t, VALUES, count, "average"), in);
    kernel_average_pool_backward(t->queue, &p, output(t, VALUES, large, "gradient of the average"), gradient);
}

static void run_branches(struct trial *t)
{
    const struct upsampling u = { .batch = 1, .height = t->rows > 8 ? t->rows / 8 : 1, .width = 8,
                                  .channels = t->columns, .factor = 2 };
    const size_t count = u.height * u.width * u.channels;
    const struct values *in = values(t, count), *gradient = values(t, 4 * count);
    kernel_upsample(t->queue, &u, output(t, VALUES, 4 * count, "upsampled"), in);
    kernel_upsample_backward(t->queue, &u, output(t, VALUES, count, "its gradient"), gradient);
    kernel_copy_columns(t->queue, trial_drawn(t, VALUES, 2 * count, "joined", 0, 1), in, u.height * u.width, u.channels,
                        2 * u.channels, u.channels);
}

// --- tables: a bag for each row, a third of them empty ------------------------------

enum { TABLE_ROWS = 61 };

static struct bags bags_of(struct trial *t)
{
    int32_t *ends = trial_tokens(t, t->rows, 3), end = 0;
    struct buffer *buffer = &t->buffer[t->buffer_count - 1];
    for (size_t b = 0; b < t->rows; b++) {
        int32_t length;
        memcpy(&length, buffer->host + 4 * b, sizeof length);
        end += length;
        memcpy(buffer->host + 4 * b, &end, sizeof end);
    }
    trial_give(t, buffer);
    return (struct bags){ .ids = trial_tokens(t, 3 * t->rows, TABLE_ROWS), .ends = ends, .count = t->rows,
                          .most = 3 * t->rows, .rows = TABLE_ROWS, .columns = t->columns };
}

static void look_up(struct trial *t, bool is_mean, bool is_weighted)
{
    struct bags bags = bags_of(t);
    const struct values *matrix = values(t, TABLE_ROWS * t->columns), *gradient = values(t, count_of(t));
    bags.is_mean = is_mean;
    bags.weights = is_weighted ? floats(t, bags.most) : NULL;
    kernel_bag(t->queue, &bags, output(t, VALUES, count_of(t), "bags"), matrix);
    kernel_bag_backward(t->queue, &bags, sums(t, TABLE_ROWS * t->columns, "gradient of the table"), gradient);
}

static void run_bags(struct trial *t)
{
    look_up(t, false, false);
}
static void run_weighted_bags(struct trial *t)
{
    look_up(t, true, true);
}

// The rows of a list may come in another order. What updates by it leave in the table has none.
static void run_row_lists(struct trial *t)
{
    struct bags bags = bags_of(t);
    const size_t count = TABLE_ROWS * t->columns, bytes = row_list_bytes(TABLE_ROWS, TABLE_ROWS, t->columns);
    const struct row_list list = row_list_in(workspace(t, bytes), TABLE_ROWS, TABLE_ROWS, t->columns);
    const struct values *gradient = values(t, count_of(t));
    struct values *weights = (struct values *)(void *)sums(t, count, "weights");
    const struct optimizer_span span = { .next = weights, .weights = weights, .first = positive(t, count, "first"),
                                         .second = positive(t, count, "second"), .count = count };
    const struct optimizer_span plain = { .next = weights, .weights = weights, .count = count };
    const struct adagrad adagrad = { .rate = 0.5f, .epsilon = 1e-10f };
    queue_zero(t->queue, list.count, sizeof *list.count);
    kernel_list_rows(t->queue, &list, &bags);
    bags.places = list.places;
    kernel_bag_backward(t->queue, &bags, list.sums, gradient);
    kernel_norm_rows(t->queue, output(t, FLOATS, 1, "norm of the rows"), &list, 0);
    kernel_norm_rows(t->queue, output(t, FLOATS, 1, "norm of the last rows"), &list, 20);
    kernel_add_list(t->queue, &list, &list);
    kernel_move_rows(t->queue, &list, sums(t, count, "rows that changed places"), true);
    kernel_sgd_rows(t->queue, &(struct sgd){ .rate = 0.5f }, &list, &plain);
    kernel_adagrad_rows(t->queue, &adagrad, &list, &span, false);
    kernel_adagrad_rows(t->queue, &adagrad, &list, &span, true);
    kernel_adamw_rows(t->queue, &(struct adamw){ .rate = 0.5f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-3f,
                                                 .update = 3, .is_lazy = true }, &list, &span);
}

// A few samples: a vector has no more columns than models have.
static void run_interaction(struct trial *t)
{
    const size_t count = 9, columns = t->columns < 64 ? t->columns : 64, samples = t->rows / 8 + 1;
    const struct interaction x = { values(t, samples * columns), values(t, samples * count * columns), samples, count,
                                   columns };
    const size_t width = interaction_width(count, columns, true);
    const struct values *gradient = values(t, samples * width);
    kernel_interaction(t->queue, &x, output(t, VALUES, samples * width, "out"));
    struct values *of_bottom = output(t, VALUES, samples * columns, "gradient of the bottom");
    kernel_interaction_backward(t->queue, &x, of_bottom, output(t, VALUES, samples * count * columns, "and of vectors"),
                                gradient);
}

static void run_cross(struct trial *t)
{
    const size_t count = count_of(t);
    const struct values *first = values(t, count), *y = values(t, count), *add = values(t, count);
    kernel_cross(t->queue, output(t, VALUES, count, "cross"), first, y, add, count);
    struct values *of_first = output(t, VALUES, count, "gradient of first");
    struct values *of_add = output(t, VALUES, count, "gradient of add");
    kernel_cross_backward(t->queue, of_first, output(t, VALUES, count, "gradient of y"), of_add, add, first, y, count);
    kernel_log_counts(t->queue, output(t, VALUES, count, "logarithms"), first, count);
    kernel_sum_rows(t->queue, output(t, VALUES, t->rows, "sums of rows"), first, t->rows, t->columns, true);
    kernel_sum_rows_backward(t->queue, output(t, VALUES, count, "their gradient"), y, t->rows, t->columns);
}

static void run_answers(struct trial *t)
{
    const struct binary_cross_entropy loss = { values(t, t->rows), trial_tokens(t, t->rows, 2), t->rows, 0.5f };
    float *sum = output(t, FLOATS, 1, "loss"), *losses = output(t, FLOATS, t->rows, "losses");
    kernel_binary_cross_entropy(t->queue, &loss, sum, losses, output(t, VALUES, t->rows, "gradient"));
}

// --- experts: eight, of which each row takes two -------------------------------------

enum { EXPERTS = 8, TAKEN = 2 };

static struct routing routing_of(struct trial *t)
{
    const size_t pairs = t->rows * TAKEN;
    return (struct routing){
        .router = { ROUTER_MIXTRAL, EXPERTS, TAKEN, 1, 1, 1 }, .rows = t->rows, .counted = t->rows, .most = pairs,
        .auxiliary = 0.5f, .z = 0.25f, .logits = floats(t, t->rows * EXPERTS),
        .choices = output(t, FLOATS, pairs, NULL), .slots = output(t, FLOATS, pairs, NULL),
        .pairs = output(t, FLOATS, pairs, NULL), .ends = output(t, FLOATS, EXPERTS, NULL),
        .gates = output(t, FLOATS, pairs, "gates"), .shares = output(t, FLOATS, EXPERTS, "shares"),
        .log_sums = output(t, FLOATS, t->rows, "log_sums"),
    };
}

// Rows go to their experts, which give them back as they are.
static void run_routing(struct trial *t)
{
    const struct routing routing = routing_of(t);
    const size_t slots = routing.most * t->columns;
    const struct values *in = values(t, count_of(t));
    float *statistics = output(t, FLOATS, routing_statistics(EXPERTS), "statistics");
    kernel_route(t->queue, &routing, statistics, output(t, FLOATS, 1, "loss"));
    struct values *sorted = output(t, VALUES, slots, "sorted");
    kernel_permute(t->queue, &routing, sorted, in, t->columns, true);
    kernel_combine(t->queue, &routing, output(t, VALUES, count_of(t), "sums"), sorted, in, t->columns, true);
    float *gates = output(t, FLOATS, routing.most, "gradient of gates");
    kernel_gate_gradients(t->queue, &routing, gates, in, sorted, t->columns);
    kernel_route_backward(t->queue, &routing, output(t, VALUES, t->rows * EXPERTS, "gradient of logits"), gates, 0.5f);
}

// Two members with half of the rows each, of which the second one has all experts. Some of them are copied.
static void run_members(struct trial *t)
{
    struct routing routing = routing_of(t);
    const size_t block = routing_block_bytes(EXPERTS) / sizeof(float);
    float *room = output(t, FLOATS, 2 * block + 1, NULL), *blocks = room + (uintptr_t)room / sizeof(float) % 2;
    const struct routing_members members = { .members = 2, .member = 1, .own = { (1 << EXPERTS) - 4 },
                                             .copied = { 3 },
                                             .blocks = blocks, .kept = output(t, FLOATS, 2 * EXPERTS, NULL),
                                             .taken = output(t, FLOATS, EXPERTS, NULL) };
    routing.elsewhere = routing.counted;
    routing.capacity = t->rows / 2 + 1;
    kernel_route_own(t->queue, &routing, blocks);
    kernel_route_own(t->queue, &routing, blocks + block);
    kernel_route_all(t->queue, &routing, &members, output(t, FLOATS, routing_statistics(EXPERTS), "statistics"),
                     output(t, FLOATS, 1, "loss"));
}

// Groups of any size, the last one empty.
static int32_t *ends_of(struct trial *t)
{
    int32_t *ends = trial_tokens(t, EXPERTS, t->rows / EXPERTS * 2 + 1), end = 0;
    struct buffer *buffer = &t->buffer[t->buffer_count - 1];
    for (size_t e = 0; e < EXPERTS; e++) {
        int32_t length;
        memcpy(&length, buffer->host + 4 * e, sizeof length);
        const int32_t left = (int32_t)t->rows - end;
        end += e + 1 == EXPERTS ? 0 : e + 2 == EXPERTS || length > left ? left : length;
        memcpy(buffer->host + 4 * e, &end, sizeof end);
    }
    trial_give(t, buffer);
    return ends;
}

static void run_grouped(struct trial *t)
{
    const int32_t *ends = ends_of(t);
    const size_t m = t->rows, n = t->columns < 256 ? t->columns : 256, k = n / 2 + 8;
    const struct values *in = values(t, m * k), *weight = values(t, EXPERTS * k * n), *gradient = values(t, m * n);
    kernel_grouped_matmul(t->queue, &(struct matmul){ .m = m, .n = n, .k = k, .a = in, .b = weight,
                                                      .c = output(t, VALUES, m * n, "out"),
                                                      .bias = values(t, EXPERTS * n),
                                                      .before_gelu = output(t, VALUES, m * n, "before_gelu") },
                          ends, 0, EXPERTS);
    kernel_grouped_matmul(t->queue, &(struct matmul){ .m = m, .n = k, .k = n, .transpose_b = true, .a = gradient,
                                                      .b = weight, .c = output(t, VALUES, m * k, "in_gradient") },
                          ends, 0, EXPERTS);
    kernel_grouped_matmul(t->queue, &(struct matmul){ .m = k, .n = n, .k = m, .transpose_a = true, .a = in,
                                                      .b = gradient, .sums = sums(t, EXPERTS * k * n, "sums") },
                          ends, 0, EXPERTS);
    kernel_grouped_sum_columns(t->queue, sums(t, EXPERTS * n, "bias_gradient"), gradient, ends, 0, EXPERTS, n);
    // The same of some of the groups.
    kernel_grouped_matmul(t->queue, &(struct matmul){ .m = k, .n = n, .k = m, .transpose_a = true, .a = in,
                                                      .b = gradient, .sums = sums(t, 2 * k * n, "sums of two") },
                          ends, 1, 2);
    kernel_grouped_sum_columns(t->queue, sums(t, 2 * n, "bias_gradient of two"), gradient, ends, 1, 2, n);
}

static void activate(struct trial *t, bool is_swiglu)
{
    const struct activation activation = { is_swiglu, t->rows, t->columns, NULL };
    const size_t wide = is_swiglu ? 2 * count_of(t) : count_of(t);
    const struct values *in = values(t, wide), *gradient = values(t, count_of(t));
    kernel_activate(t->queue, &activation, output(t, VALUES, count_of(t), "out"), in);
    struct values *again = output(t, VALUES, count_of(t), "out again");
    kernel_activate_backward(t->queue, &activation, output(t, VALUES, wide, "in_gradient"), again, gradient, in);
}

static void run_activation(struct trial *t)
{
    activate(t, false);
}
static void run_swiglu(struct trial *t)
{
    activate(t, true);
}

static void run_moved_bias(struct trial *t)
{
    kernel_move_bias(t->queue, sums(t, t->columns, "bias"), positive(t, t->columns, NULL), t->columns, 0.25f);
}

// --- the sizes --------------------------------------------------------------------

// What cases are of, so that a shape takes those that its size says something about.
enum of {
    PRODUCTS = 1,
    NUMBERS = 2,     // each by itself
    UPDATES = 4,     // likewise
    ROWS = 8,        // and columns
    WORD_ROWS = 16,  // and targets
    SUMS = 32,       // over all numbers
    HEADS = 64,
    MANY = 128,
    PICTURES = 256,
    MATRICES = PRODUCTS | NUMBERS | UPDATES | ROWS | WORD_ROWS | SUMS,
};

// Which paths of device/cuda a shape takes. Packs are 16 bytes: 4 floats, 8 numbers of 16 bits.
static const struct shape {
    size_t rows, columns;
    int shift;
    enum of of;
    bool small;
} shapes[] = {
    // No row but the first begins a pack; of all numbers the last ones go by themselves. No epilogue with GELU.
    { 38, 53, 0, MATRICES, true },
    // Packs begin behind a head that is alike for all. Products whose addresses are multiples of a number only.
    { 38, 53, 1, MATRICES, true },
    // Every row in packs; cuBLASLt's epilogue with bias and GELU, whose rows begin at multiples of 8 numbers.
    { 24, 64, 0, MATRICES, true },
    // Rows in packs of 4 numbers of 16 bits, at 4 and 8 bytes; rows of floats at 8.
    { 24, 64, 2, MATRICES, true },
    // Nothing begins a pack where the next does: every number by itself.
    { 24, 64, APART, MATRICES, true },
    // More rows than CHUNK: those of words are merged; a run longer than LONG_RUN.
    { 1040, 8, 0, WORD_ROWS, true },
    // Heads of each SIZE of attention.cu, in packs and not, one tile and two; sequences of one position.
    { 38, 32, 0, HEADS, true },
    { 38, 24, 1, HEADS, true },
    { 33, 64, 4, HEADS, true },
    { 1, 64, 0, HEADS, true },
    { 20, 128, 0, HEADS, true },
    { 20, 256, 0, HEADS, true },
    // Pictures of so many rows and channels.
    { 9, 3, 0, PICTURES, true },
    { 14, 24, 0, PICTURES, true },

    // As a small model has them.
    { 128, 192, 0, MATRICES, false },
    { 256, 768, 0, MATRICES, false },
    // Rows of more than WARP_COLUMNS, a block each, in packs and not; a word's rows in three chunks.
    { 2100, 2304, 0, PRODUCTS | ROWS | WORD_ROWS, false },
    // Likewise, beginning anywhere; sums of squares of more than 2048 blocks of 4096 numbers.
    { 4099, 2051, 0, PRODUCTS | ROWS | WORD_ROWS | SUMS, false },
    // More numbers by themselves than MOST_BLOCKS of 256 threads.
    { 4099, 2051, APART, NUMBERS, false },
    // More rows than MOST_TILES_DOWN of LEAST_ROWS; all of a word's chunks look at seventeen others.
    { 17000, 40, 0, PRODUCTS | ROWS | WORD_ROWS | SUMS, false },
    // More rows than PART, and than 2048 blocks of 256 have: losses are strided over.
    { (1 << 20) + 770, 8, 0, WORD_ROWS, false },
    // More packs of floats than MOST_BLOCKS of 256 threads.
    { 4100, 4096, 0, MANY, false },
    // cuDNN at gpt2's sequences, at such as are no multiple of 128, and at larger heads; many tiles of our own. They are
    // few, since cuDNN compiles a plan for each, which takes a second.
    { 1024, 64, 0, HEADS, false },
    { 1000, 64, 0, HEADS, false },
    { 300, 128, 0, HEADS, false },
    { 130, 256, 0, HEADS, false },
    { 56, 64, 0, PICTURES, false },
    { 14, 256, 0, PICTURES, false },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static const struct {
    const char *name;
    void (*run)(struct trial *trial);
    enum of of;
    bool of_floats;  // of devices in fp32 only
} cases[] = {
    { "matmul", run_matmul, PRODUCTS, false },
    { "matmul a transposed", run_matmul_a, PRODUCTS, false },
    { "matmul b transposed, bias", run_matmul_b, PRODUCTS, false },
    { "matmul bias, gelu", run_matmul_gelu, PRODUCTS, false },
    { "matmul added to sums", run_matmul_sums, PRODUCTS, false },
    { "matmul of parts", run_matmul_parts, PRODUCTS, false },
    { "fill", run_fill, NUMBERS, false },
    { "fill_normal", run_fill_normal, NUMBERS, false },
    { "copy, zero", run_copies, NUMBERS, false },
    { "add", run_add, NUMBERS, false },
    { "scale, add_floats", run_floats, NUMBERS, false },
    { "add_floats of many", run_many, MANY, false },
    { "widen, narrow", run_types, NUMBERS, false },
    { "dropout", run_dropout, NUMBERS, false },
    { "relu", run_relu, NUMBERS, false },
    { "add_branch", run_add_branch, NUMBERS, false },
    { "sum_columns", run_sum_columns, ROWS, false },
    { "gelu", run_gelu, NUMBERS, false },
    { "layer_norm", run_layer_norm, ROWS, false },
    { "embedding", run_embedding, WORD_ROWS, false },
    { "attention", run_attention, HEADS, false },
    { "attention of parts", run_attention_parts, HEADS, false },
    { "attention with a window", run_window, HEADS, false },
    { "attention with a pattern", run_pattern, HEADS, false },
    { "cross_entropy", run_cross_entropy, WORD_ROWS, false },
    { "cross_entropy, smoothed", run_smoothed, WORD_ROWS, false },
    { "cross_entropy in parts", run_parts, WORD_ROWS, false },
    { "adamw", run_adamw, UPDATES, false },
    { "adam, decay coupled", run_adam, UPDATES, false },
    { "adamw, frozen", run_adamw_frozen, UPDATES, false },
    { "adam8bit", run_adam8bit, UPDATES, true },
    { "sgd", run_sgd, UPDATES, false },
    { "sgd, momentum", run_momentum, UPDATES, false },
    { "sgd, nesterov", run_nesterov, UPDATES, false },
    { "adagrad", run_adagrad, UPDATES, false },
    { "lars", run_lars, SUMS, false },
    { "lamb", run_lamb, SUMS, false },
    { "adafactor", run_adafactor, SUMS, true },
    { "signs", run_signs, UPDATES, true },
    { "convolution", run_convolution, PICTURES, true },
    { "convolution, strided", run_strided, PICTURES, true },
    { "convolution by product", run_pixels, PICTURES, true },
    { "convolution in groups", run_groups, PICTURES, true },
    { "norm, clip", run_clip, SUMS, false },
    { "routing to experts", run_routing, ROWS, false },
    { "routing of members", run_members, ROWS, false },
    { "grouped products", run_grouped, ROWS, false },
    { "gelu of experts", run_activation, ROWS, false },
    { "swiglu of experts", run_swiglu, ROWS, false },
    { "bias of a router", run_moved_bias, ROWS, false },
    { "batch_norm", run_batch_norm, ROWS, true },
    { "batch_norm_backward", run_batch_norm_backward, ROWS, true },
    { "pooling", run_pooling, ROWS, true },
    { "upsample, copy_columns", run_branches, ROWS, true },
    { "bags", run_bags, ROWS, true },
    { "bags, weighted means", run_weighted_bags, ROWS, true },
    { "lists of rows", run_row_lists, ROWS, true },
    { "interaction", run_interaction, ROWS, true },
    { "cross, sums of rows", run_cross, ROWS, true },
    { "binary cross entropy", run_answers, ROWS, true },
};
enum { CASES = sizeof cases / sizeof cases[0] };

// --- running and comparing ---------------------------------------------------------

enum { FEW = 1000 };  // one of so many codes

// What lies between two codes, but for the last bit, may have either; how many have, and none another.
static double codes_astray(const struct buffer *got, const struct buffer *want)
{
    size_t count = 0;
    for (size_t i = 0; i < got->count; i++) {
        const int off = abs((int)got->host[i] - (int)want->host[i]);
        if (off > 1)
            return INFINITY;
        count += off > 0;
    }
    return (double)count / (double)got->count;
}

static double numbers_astray(const struct buffer *got, const struct buffer *want)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < got->count; i++)
        nearness_add(&off, &size, buffer_number(got, i), buffer_number(want, i));
    return nearness(off, size);
}

static bool compare(const struct trial *got, const struct trial *want, const struct trial *again, const char *name,
                    double bound)
{
    bool good = true;
    for (size_t b = 0; b < want->buffer_count; b++) {
        const struct buffer *buffer = &got->buffer[b], *right = &want->buffer[b];
        if (!buffer->name)
            continue;
        const bool is_codes = buffer->number == CODES, same = buffer_is_same(buffer, &again->buffer[b]);
        const double astray = is_codes ? codes_astray(buffer, right) : numbers_astray(buffer, right);
        good = trial_judge(got, name, buffer->name, astray, is_codes ? 1.0 / FEW : bound, same) && good;
    }
    return good;
}

static bool try_case(struct trial trials[3], size_t c, uint64_t seed, double bound)
{
    bool good = true;
    for (size_t t = 0; t < 3 && good; t++) {
        trials[t].seed = seed + 100 * c;
        cases[c].run(&trials[t]);
        good = trial_finish(&trials[t], cases[c].name);
    }
    good = good && compare(&trials[1], &trials[0], &trials[2], cases[c].name, bound);
    for (size_t t = 0; t < 3; t++)
        trial_clear(&trials[t]);
    trial_renew(trials);
    return good;
}

static int compare_kernels(struct trial trials[3], uint64_t seed, double bound, bool small)
{
    const bool has_floats = trials[1].precision == PRECISION_FP32;
    int tried = 0, failed = 0;
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t c = 0; c < CASES; c++) {
            if ((small && !shapes[s].small) || !(shapes[s].of & cases[c].of) || (cases[c].of_floats && !has_floats))
                continue;
            for (size_t t = 0; t < 3; t++) {
                trials[t].rows = shapes[s].rows;
                trials[t].columns = shapes[s].columns;
                trials[t].shift = t > 0 ? shapes[s].shift : 0;
            }
            tried++;
            failed += !try_case(trials, c, seed + s, bound);
        }
    printf("%d cases, %d failed\n", tried, failed);
    return failed ? 1 : 0;
}

int main(int count, char **arguments)
{
    return trial_main("compare_kernels", compare_kernels, 1e-3, count, arguments);
}
