// Every kernel of a device against the same kernel of `cpu`, on fresh random inputs.
//
//     compare_kernels DEVICE [SEED [small]]        cuda, cuda:tf32, cuda:bf16, cpu:bf16, ..
//
// A case is one function that makes inputs, outputs and the call. It is run on the
// `cpu`, and twice on the device with other poison in the outputs; both runs must leave
// the same bits, and each output must be as near to the cpu's, in double precision, as
// the device's type of numbers allows: |device - cpu| / |cpu|, over the whole output.
// Nothing is assumed of where memory is, so that this runs where the tests of
// kernel_rig.h, which look behind addresses, cannot.
//
// Exit code 0: all agree; 1: some do not; 3: there is no such device.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/random.h"
#include "device/kernels.h"

enum { MOST_BUFFERS = 24, GUARD_BYTES = 256, GUARD = 0x5a };

enum number { VALUES, FLOATS, DOUBLES, BYTES };

struct buffer {
    const char *name; // of an output; NULL of an input
    enum number number;
    size_t count, bytes;
    unsigned char *device, *host;
};

// One run of one case on one device.
struct trial {
    struct device *device;
    struct queue *queue;
    enum precision precision;
    bool rounds; // inputs are what bfloat16 has, also on the cpu
    uint64_t seed;
    float poison;
    size_t rows, columns;
    struct buffer buffer[MOST_BUFFERS];
    size_t buffer_count;
    struct error error;
};

static uint16_t narrow(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float widen(uint16_t narrowed)
{
    const uint32_t bits = (uint32_t)narrowed << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static size_t size_of(const struct trial *trial, enum number number)
{
    static const size_t sizes[] = { 0, sizeof(float), sizeof(double), 1 };
    return number == VALUES ? precision_bytes(trial->precision) : sizes[number];
}

static void set_number(const struct trial *trial, struct buffer *buffer, size_t i, float x)
{
    const uint16_t half = narrow(x);
    if (buffer->number == VALUES && trial->precision == PRECISION_BF16)
        memcpy(buffer->host + 2 * i, &half, 2);
    else if (buffer->number == DOUBLES)
        memcpy(buffer->host + 8 * i, &(double){ (double)x }, 8);
    else if (buffer->number == BYTES)
        buffer->host[i] = 0xcd;
    else
        memcpy(buffer->host + 4 * i, &x, 4);
}

static double get_number(const struct trial *trial, const struct buffer *buffer, size_t i)
{
    double wide;
    float full;
    uint16_t half;
    if (buffer->number == BYTES)
        return buffer->host[i];
    if (buffer->number == DOUBLES)
        return memcpy(&wide, buffer->host + 8 * i, 8), wide;
    if (buffer->number == VALUES && trial->precision == PRECISION_BF16)
        return memcpy(&half, buffer->host + 2 * i, 2), (double)widen(half);
    return memcpy(&full, buffer->host + 4 * i, 4), (double)full;
}

// Device memory with a guard behind it; the host's copy is uploaded by give().
static struct buffer *make(struct trial *trial, enum number number, size_t count, const char *name)
{
    if (trial->buffer_count == MOST_BUFFERS) {
        fprintf(stderr, "compare_kernels: a case has more than %d buffers\n", MOST_BUFFERS);
        exit(2);
    }
    struct buffer *buffer = &trial->buffer[trial->buffer_count++];
    const size_t bytes = count * size_of(trial, number);
    *buffer = (struct buffer){ .name = name, .number = number, .count = count, .bytes = bytes };
    buffer->host = malloc(bytes + GUARD_BYTES);
    buffer->device = device_allocate(trial->device, bytes + GUARD_BYTES, &trial->error);
    if (!buffer->host || !buffer->device) {
        fprintf(stderr, "%s\n", buffer->host ? trial->error.text : "compare_kernels: out of memory");
        exit(2);
    }
    memset(buffer->host + bytes, GUARD, GUARD_BYTES);
    return buffer;
}

static void *give(struct trial *trial, struct buffer *buffer)
{
    queue_upload(trial->queue, buffer->device, buffer->host, buffer->bytes + GUARD_BYTES);
    return buffer->device;
}

static void draw(struct trial *trial, struct buffer *buffer, double spread)
{
    for (size_t i = 0; i < buffer->count; i++) {
        const float x = (float)((2 * random_unit(&trial->seed) - 1) * spread);
        set_number(trial, buffer, i, trial->rounds && buffer->number == VALUES ? widen(narrow(x)) : x);
    }
}

// Inputs, uniform in [-1, 1).
static struct values *values(struct trial *trial, size_t count)
{
    struct buffer *buffer = make(trial, VALUES, count, NULL);
    draw(trial, buffer, 1);
    return give(trial, buffer);
}

static float *floats(struct trial *trial, size_t count)
{
    struct buffer *buffer = make(trial, FLOATS, count, NULL);
    draw(trial, buffer, 1);
    return give(trial, buffer);
}

static int32_t *tokens(struct trial *trial, size_t count, size_t vocabulary)
{
    struct buffer *buffer = make(trial, FLOATS, count, NULL);
    for (size_t i = 0; i < count; i++)
        memcpy(buffer->host + 4 * i, &(int32_t){ (int32_t)random_below(&trial->seed, vocabulary) }, 4);
    return give(trial, buffer);
}

// Outputs: poisoned, or numbers that are added to.
static void *output(struct trial *trial, enum number number, size_t count, const char *name)
{
    struct buffer *buffer = make(trial, number, count, name);
    for (size_t i = 0; i < count; i++)
        set_number(trial, buffer, i, trial->poison);
    return give(trial, buffer);
}

static float *sums(struct trial *trial, size_t count, const char *name)
{
    struct buffer *buffer = make(trial, FLOATS, count, name);
    draw(trial, buffer, 1);
    return give(trial, buffer);
}

static float *positive(struct trial *trial, size_t count, const char *name)
{
    struct buffer *buffer = make(trial, FLOATS, count, name);
    for (size_t i = 0; i < count; i++)
        set_number(trial, buffer, i, (float)(0.01 + random_unit(&trial->seed)));
    return give(trial, buffer);
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
    kernel_fill_normal(t->queue, output(t, VALUES, count_of(t), "out"), 0.02f, t->seed, count_of(t));
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
    const struct dropout dropout = { .probability = 0.1f, .key = dropout_key(t->seed, 1, 0, 4) };
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

static void run_attention(struct trial *t)
{
    const struct attention shape = { .batch = 2, .sequence = t->rows, .heads = 3, .size = t->columns >= 128 ? 64 : 32 };
    const size_t count = shape.batch * shape.sequence * shape.heads * shape.size;
    struct values *qkv = values(t, 3 * count), *gradient = values(t, count), *out = output(t, VALUES, count, "out");
    float *log_sums = output(t, FLOATS, shape.batch * shape.heads * shape.sequence, "log_sums");
    void *workspace = give(t, make(t, BYTES, attention_workspace_bytes(&shape), NULL));
    kernel_attention(t->queue, &shape, out, log_sums, qkv, workspace);
    kernel_attention_backward(t->queue, &shape, output(t, VALUES, 3 * count, "qkv_gradient"), gradient, out, log_sums,
                              qkv, workspace);
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
    struct values *gradient = output(t, VALUES, t->rows * stride, "logits_gradient");
    kernel_fill(t->queue, gradient, 0, t->rows * stride);  // what is between the rows stays
    kernel_cross_entropy_backward(t->queue, &loss, gradient, log_sums);
}

// The weights are the same numbers on both sides before the device rounds them: in bfloat16 it is the master that
// is updated.
static struct optimizer_span make_span(struct trial *t)
{
    const uint64_t seed = t->seed;
    float *master = sums(t, count_of(t), NULL);
    t->seed = seed;
    const bool rounds = t->rounds;
    t->rounds = false;
    struct optimizer_span span = { .weights = values(t, count_of(t)), .count = count_of(t) };
    t->rounds = rounds;
    span.master = t->precision == PRECISION_BF16 ? master : NULL;
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

static void run_sum_of_squares(struct trial *t)
{
    float *in = floats(t, count_of(t));
    kernel_sum_of_squares(t->queue, output(t, DOUBLES, 1, "sum"), in, count_of(t));
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
    { "adamw", run_adamw },
    { "sgd", run_sgd },
    { "sum_of_squares", run_sum_of_squares },
};

// --- running and comparing ---------------------------------------------------------

static bool finish(struct trial *trial, const char *name)
{
    for (size_t b = 0; b < trial->buffer_count; b++)
        queue_download(trial->queue, trial->buffer[b].host, trial->buffer[b].device,
                       trial->buffer[b].bytes + GUARD_BYTES);
    bool good = queue_wait(trial->queue, &trial->error);
    if (!good)
        printf("%s: FAILED: %s\n", name, trial->error.text);
    for (size_t b = 0; good && b < trial->buffer_count; b++)
        for (size_t i = 0; good && i < GUARD_BYTES; i++)
            if (trial->buffer[b].host[trial->buffer[b].bytes + i] != GUARD) {
                printf("%s: FAILED: buffer %zu was written past its end\n", name, b);
                good = false;
            }
    return good;
}

static void clear(struct trial *trial)
{
    for (size_t b = 0; b < trial->buffer_count; b++) {
        device_release(trial->device, trial->buffer[b].device);
        free(trial->buffer[b].host);
    }
    trial->buffer_count = 0;
}

static bool compare(const struct trial *got, const struct trial *want, const struct trial *again, const char *name,
                    double bound)
{
    bool good = true;
    for (size_t b = 0; b < want->buffer_count; b++) {
        const struct buffer *buffer = &got->buffer[b];
        if (!buffer->name)
            continue;
        double off = 0, size = 0;
        for (size_t i = 0; i < buffer->count; i++) {
            const double x = get_number(got, buffer, i), y = get_number(want, &want->buffer[b], i);
            off += (x - y) * (x - y);
            size += y * y;
        }
        const double relative = size > 0 ? sqrt(off / size) : sqrt(off);
        const bool same = memcmp(buffer->host, again->buffer[b].host, buffer->bytes) == 0;
        const bool near = relative <= bound; // not of a NaN
        printf("%-26s %4zu x %-4zu %-18s off by %8.2e of %.0e  %s%s\n", name, got->rows, got->columns, buffer->name,
               relative, bound, near ? "" : "FAILED", same ? near ? "good" : "" : "FAILED: other bits the second time");
        good = good && near && same;
    }
    return good;
}

static bool try_case(struct trial trials[3], size_t c, uint64_t seed, double bound)
{
    static const float poison[] = { -1e30f, NAN, -1e30f };
    bool good = true;
    for (size_t t = 0; t < 3 && good; t++) {
        trials[t].seed = seed + c;
        trials[t].poison = poison[t];
        cases[c].run(&trials[t]);
        good = finish(&trials[t], cases[c].name);
    }
    good = good && compare(&trials[1], &trials[0], &trials[2], cases[c].name, bound);
    for (size_t t = 0; t < 3; t++)
        clear(&trials[t]);
    return good;
}

// In all three shapes, or in the smallest.
static int compare_devices(struct trial trials[3], uint64_t seed, double bound, bool small)
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
    if (count < 2) {
        fprintf(stderr, "usage: compare_kernels DEVICE [SEED [small]]\n");
        return 2;
    }
    struct error error = { 0 };
    const bool small = count > 3 && strcmp(arguments[3], "small") == 0;
    const uint64_t seed = count > 2 ? strtoull(arguments[2], NULL, 10) : clock_now_ns();
    struct device *cpu = device_open("cpu", &error), *device = cpu ? device_open(arguments[1], &error) : NULL;
    struct queue *of_cpu = device ? queue_create(cpu, &error) : NULL;
    struct queue *queue = of_cpu ? queue_create(device, &error) : NULL;
    int code = 3;
    if (queue) {
        const enum precision precision = device_precision(device);
        const bool rounds = precision == PRECISION_BF16;
        struct trial trials[3] = { { .device = cpu, .queue = of_cpu, .precision = PRECISION_FP32, .rounds = rounds } };
        trials[1] = trials[2] =
            (struct trial){ .device = device, .queue = queue, .precision = precision, .rounds = rounds };
        printf("%s (%s) against cpu, seed %llu\n", arguments[1], device_description(device), (unsigned long long)seed);
        code = compare_devices(trials, seed, rounds ? 1e-2 : strstr(arguments[1], "tf32") ? 1e-3 : 1e-5, small);
    } else {
        fprintf(stderr, "compare_kernels: %s\n", error.text);
    }
    queue_free(queue);
    queue_free(of_cpu);
    device_close(device);
    device_close(cpu);
    return code;
}
