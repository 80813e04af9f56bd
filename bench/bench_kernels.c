// How fast the kernels of a device are.
//
// Kernels that pass over memory once are compared with a copy that moves as many bytes (2.00 is half the speed of
// that copy). Matrix products and attention are in GFLOP/s. Each number is the best of many runs.
//
// On a device that runs ahead of its host (asynchronous launches), time is measured between two of its events around
// several runs, which hides the launches. On other devices it is CPU time of the thread, which a busy machine
// disturbs little.
//
//     bench_kernels [DEVICE [small|gpt2]]        cpu, cpu:avx2, cuda:bf16, ..
//
// The size `small` only shows that it works. The size `gpt2` is for GPUs: tensors larger than their caches, and the
// products and the attention of gpt2 with 16 sequences of 1024, with 50257 words and padded.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/fail.h"
#include "common/clock.h"
#include "device/kernels.h"
#include "device/picture_kernels.h"

enum { COLUMNS = 1024, REPEATS = 10, RUNS_AHEAD = 10, MOST_SHAPES = 10 };
enum { PICTURE_SIDE = 32, PICTURE_CHANNELS = 64 };

struct shape {
    size_t m, n, k;
};

// Measured sizes: tensors of rows * COLUMNS numbers, products, attention. A shape without a size ends a list.
struct size {
    const char *name;
    size_t rows;
    struct shape products[MOST_SHAPES + 1];
    struct attention attention[MOST_SHAPES + 1];
};

static const struct size sizes[] = {
    { "usual", 16384,
      { { 512, 384, 128 }, { 512, 512, 128 }, { 256, 1536, 384 }, { 1024, 1024, 1024 } },
      { { 4, 128, 4, 32, 0, 0, { 0 } }, { 2, 128, 6, 64, 0, 0, { 0 } }, { 2, 256, 6, 64, 0, 0, { 0 } } } },
    { "small", 64, { { 48, 32, 16 } }, { { 1, 16, 2, 16, 0, 0, { 0 } } } },
    { "gpt2", 65536,
      { { 16384, 2304, 768 }, { 16384, 768, 768 }, { 16384, 3072, 768 }, { 16384, 768, 3072 },
        { 16384, 50257, 768 }, { 16384, 50304, 768 }, { 16384, 768, 50257 }, { 16384, 768, 50304 },
        { 50257, 768, 16384 }, { 50304, 768, 16384 } },
      { { 16, 1024, 12, 64, 0, 0, { 0 } } } },
};

struct bench {
    struct device *device;
    struct queue *queue;
    struct event *start, *end;
    const struct size *size;
    size_t value_bytes;
    size_t count;  // numbers in a tensor
    float *x, *y, *z, *out, *bias, *log_sums;
    float *master;  // NULL if values are floats
    uint8_t *bytes;
    struct matmul product;
    struct attention attention;
    void *workspace;
};

static struct values *values(float *floats)
{
    return (struct values *)floats;
}

// --- time and memory ---------------------------------------------------------------

static double timed_ns(const struct bench *bench, void (*run)(const struct bench *))
{
    if (!device_runs_ahead(bench->device)) {
        const uint64_t start = clock_thread_cpu_ns();
        run(bench);
        return (double)(clock_thread_cpu_ns() - start);
    }
    struct error error = { 0 };
    event_record(bench->start, bench->queue);
    for (int i = 0; i < RUNS_AHEAD; i++)
        run(bench);
    event_record(bench->end, bench->queue);
    if (!queue_wait(bench->queue, &error))
        exit(fail(&error));
    return (double)(event_time_ns(bench->end) - event_time_ns(bench->start)) / RUNS_AHEAD;
}

static double best_ns(const struct bench *bench, void (*run)(const struct bench *))
{
    double best = timed_ns(bench, run);
    for (int repeat = 1; repeat < REPEATS; repeat++) {
        const double took = timed_ns(bench, run);
        best = took < best ? took : best;
    }
    return best;
}

// Fills memory with values between -6 and 6.
static void fill(const struct bench *bench, void *memory, uint64_t bytes)
{
    queue_zero(bench->queue, memory, bytes);
    kernel_fill_normal(bench->queue, memory, 1, 1, 0, bytes / bench->value_bytes);
}

static void *memory(const struct bench *bench, uint64_t bytes)
{
    struct error error = { 0 };
    void *memory = device_allocate(bench->device, bytes, &error);
    if (!memory)
        exit(fail(&error));
    fill(bench, memory, bytes);
    return memory;
}

static void release(const struct bench *bench, void *memory)
{
    queue_wait(bench->queue, &(struct error){ 0 });
    device_release(bench->device, memory);
}

// --- passes over memory -------------------------------------------------------------

static void run_copy(const struct bench *b)
{
    queue_copy(b->queue, b->out, b->x, b->count * b->value_bytes);
}

static void run_add(const struct bench *b)
{
    kernel_add(b->queue, values(b->out), values(b->x), values(b->y), b->count);
}

static void run_add_branch(const struct bench *b)
{
    kernel_add_branch(b->queue, values(b->out), values(b->x), values(b->y), values(b->bias), b->size->rows, COLUMNS,
                      (struct dropout){ 0 });
}

static void run_add_branch_dropout(const struct bench *b)
{
    const struct dropout dropout = { .probability = 0.1f, .key = 7 };
    kernel_add_branch(b->queue, values(b->out), values(b->x), values(b->y), values(b->bias), b->size->rows, COLUMNS,
                      dropout);
}

static void run_gelu(const struct bench *b)
{
    kernel_gelu(b->queue, values(b->out), values(b->x), b->count);
}

static void run_gelu_backward(const struct bench *b)
{
    kernel_gelu_backward(b->queue, values(b->out), values(b->z), values(b->y), values(b->x), b->count);
}

static void run_relu(const struct bench *b)
{
    kernel_relu(b->queue, values(b->out), b->bytes, values(b->x), b->count);
}

static struct layer_norm norm_of(const struct bench *b)
{
    return (struct layer_norm){ .in = values(b->x), .gain = values(b->bias), .offset = values(b->bias),
                                .rows = b->size->rows, .columns = COLUMNS };
}

static void run_layer_norm(const struct bench *b)
{
    const struct layer_norm norm = norm_of(b);
    kernel_layer_norm(b->queue, &norm, values(b->out), b->z, b->z + norm.rows);
}

static void run_layer_norm_backward_input(const struct bench *b)
{
    const struct layer_norm norm = norm_of(b);
    kernel_layer_norm_backward_input(b->queue, &norm, values(b->out), values(b->y), NULL, b->z, b->z + norm.rows);
}

static void run_layer_norm_backward_weight(const struct bench *b)
{
    const struct layer_norm norm = norm_of(b);
    kernel_layer_norm_backward_weight(b->queue, &norm, b->out, b->out + COLUMNS, values(b->y), b->z,
                                      b->z + norm.rows);
}

static void run_sum_columns(const struct bench *b)
{
    kernel_sum_columns(b->queue, b->bias, values(b->x), b->size->rows, COLUMNS);
}

static void run_cross_entropy_backward(const struct bench *b)
{
    const struct cross_entropy loss = {
        .logits = values(b->x), .targets = (const int32_t *)(const void *)b->bytes,
        .rows = b->size->rows, .columns = COLUMNS, .scale = 1,
    };
    kernel_cross_entropy_backward(b->queue, &loss, values(b->out), b->y);
}

static void run_adamw(const struct bench *b)
{
    const struct adamw adamw = { .rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f, .update = 1 };
    kernel_adamw(b->queue, &adamw, &(struct optimizer_span){ .next = values(b->x), .weights = values(b->x),
                                                             .master = b->master, .gradients = b->out, .first = b->y,
                                                             .second = b->z, .count = b->count });
}

static void run_norm(const struct bench *b)
{
    kernel_norm(b->queue, b->bias, b->x, b->count);
}

// --- the same of pictures, in fp32 only -----------------------------------------------

static struct batch_norm batch_norm_of(const struct bench *b)
{
    const size_t rows = b->count / PICTURE_CHANNELS;
    return (struct batch_norm){ .in = values(b->x), .gain = values(b->bias), .offset = values(b->bias), .rows = rows,
                                .counted = rows, .channels = PICTURE_CHANNELS, .has_relu = true };
}

static void run_batch_norm(const struct bench *b)
{
    const struct batch_norm norm = batch_norm_of(b);
    float *moments = b->bias + PICTURE_CHANNELS;
    kernel_batch_norm(b->queue, &norm, values(b->out), moments, moments + PICTURE_CHANNELS, b->bytes, NULL);
}

static void run_batch_norm_backward(const struct bench *b)
{
    const struct batch_norm norm = batch_norm_of(b);
    float *moments = b->bias + PICTURE_CHANNELS;
    kernel_batch_norm_backward(b->queue, &norm, values(b->out), NULL, moments + 2 * PICTURE_CHANNELS, values(b->y),
                               moments, moments + PICTURE_CHANNELS, b->bytes);
}

static void run_batch_norm_running(const struct bench *b)
{
    const struct batch_norm norm = batch_norm_of(b);
    kernel_batch_norm_running(b->queue, &norm, values(b->out), b->bias, b->z);
}

static struct pooling pooling_of(const struct bench *b, struct window window)
{
    return (struct pooling){ .batch = b->count / (PICTURE_SIDE * PICTURE_SIDE * PICTURE_CHANNELS),
                             .height = PICTURE_SIDE, .width = PICTURE_SIDE, .channels = PICTURE_CHANNELS,
                             .window = window };
}

static const struct window window_of_2 = { 2, 2, 2, 2, 0, 0 }, window_of_3 = { 3, 3, 2, 2, 1, 1 };

static void run_max_pool(const struct bench *b)
{
    const struct pooling pooling = pooling_of(b, window_of_2);
    kernel_max_pool(b->queue, &pooling, values(b->out), b->bytes, values(b->x));
}

static void run_max_pool_of_3(const struct bench *b)
{
    const struct pooling pooling = pooling_of(b, window_of_3);
    kernel_max_pool(b->queue, &pooling, values(b->out), b->bytes, values(b->x));
}

static void run_max_pool_backward(const struct bench *b)
{
    const struct pooling pooling = pooling_of(b, window_of_2);
    kernel_max_pool_backward(b->queue, &pooling, values(b->out), values(b->x), b->bytes);
}

static void run_max_pool_backward_of_3(const struct bench *b)
{
    const struct pooling pooling = pooling_of(b, window_of_3);
    kernel_max_pool_backward(b->queue, &pooling, values(b->out), values(b->x), b->bytes);
}

static void run_average_pool(const struct bench *b)
{
    const struct pooling pooling = pooling_of(b, window_of_2);
    kernel_average_pool(b->queue, &pooling, values(b->out), values(b->x));
}

static void run_average_pool_backward(const struct bench *b)
{
    const struct pooling pooling = pooling_of(b, window_of_2);
    kernel_average_pool_backward(b->queue, &pooling, values(b->out), values(b->x));
}

static void run_copy_columns(const struct bench *b)
{
    kernel_copy_columns(b->queue, values(b->out), values(b->x), b->count / (2 * PICTURE_CHANNELS), PICTURE_CHANNELS,
                        2 * PICTURE_CHANNELS, PICTURE_CHANNELS);
}

static void run_upsample(const struct bench *b)
{
    struct upsampling upsampling = { .height = PICTURE_SIDE / 2, .width = PICTURE_SIDE / 2,
                                     .channels = PICTURE_CHANNELS, .factor = 2 };
    upsampling.batch = b->count / (PICTURE_SIDE * PICTURE_SIDE * PICTURE_CHANNELS);
    kernel_upsample(b->queue, &upsampling, values(b->out), values(b->x));
}

// What a pass reads and writes per element: values, floats, and with bfloat16 more for the fp32 copy of the weights.
static const struct pass {
    const char *name;
    void (*run)(const struct bench *);
    double values, floats, more_bytes;
    bool of_pictures;
} passes[] = {
    { "copy", run_copy, 2, 0, 0, false },
    { "add", run_add, 3, 0, 0, false },
    { "add_branch (residual and bias)", run_add_branch, 3, 0, 0, false },
    { "  with dropout", run_add_branch_dropout, 3, 0, 0, false },
    { "gelu", run_gelu, 2, 0, 0, false },
    { "gelu_backward, both outputs", run_gelu_backward, 4, 0, 0, false },
    { "relu", run_relu, 2, 0.25, 0, false },
    { "layer_norm of 1024", run_layer_norm, 2, 0, 0, false },
    { "layer_norm_backward_input", run_layer_norm_backward_input, 3, 0, 0, false },
    { "layer_norm_backward_weight", run_layer_norm_backward_weight, 2, 0, 0, false },
    { "sum_columns", run_sum_columns, 1, 0, 0, false },
    { "cross_entropy_backward of 1024", run_cross_entropy_backward, 2, 0, 0, false },
    { "adamw", run_adamw, 2, 5, 6, false },
    { "norm", run_norm, 0, 1, 0, false },
    { "batch_norm of 64, ReLU", run_batch_norm, 2, 1. / 32, 0, true },
    { "batch_norm_backward", run_batch_norm_backward, 3, 1. / 32, 0, true },
    { "batch_norm_running", run_batch_norm_running, 2, 0, 0, true },
    { "max_pool of 2 x 2", run_max_pool, 1.25, 1. / 16, 0, true },
    { "max_pool_backward", run_max_pool_backward, 1.25, 1. / 16, 0, true },
    { "max_pool of 3 x 3, stride 2", run_max_pool_of_3, 1.25, 1. / 16, 0, true },
    { "max_pool_backward", run_max_pool_backward_of_3, 1.25, 1. / 16, 0, true },
    { "average_pool of 2 x 2", run_average_pool, 1.25, 0, 0, true },
    { "average_pool_backward", run_average_pool_backward, 1.25, 0, 0, true },
    { "copy_columns, 64 of 128", run_copy_columns, 1, 0, 0, true },
    { "upsample by 2", run_upsample, 1.25, 0, 0, true },
};

static double bytes_of(const struct pass *pass, const struct bench *bench)
{
    const double more = bench->master ? pass->more_bytes : 0;
    return (pass->values * (double)bench->value_bytes + 4 * pass->floats + more) * (double)bench->count;
}

static void print_passes(struct bench *bench)
{
    const bool is_full = device_precision(bench->device) == PRECISION_FP32;
    float **tensors[] = { &bench->x, &bench->y, &bench->z, &bench->out, &bench->master };
    const size_t tensor_count = is_full ? 4 : 5;
    const uint64_t bytes = tensor_count * bench->count * sizeof(float);
    float *all = memory(bench, bytes);
    for (size_t t = 0; t < tensor_count; t++)
        *tensors[t] = all + t * bench->count;
    bench->bias = memory(bench, COLUMNS * sizeof(float));
    bench->bytes = memory(bench, bench->count);

    printf("pass over %4llu MiB tensors %18s %8s %13s\n",
           (unsigned long long)(bench->count * bench->value_bytes) >> 20, "time us", "GB/s", "time / copy's");
    double copy = 0;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        if (passes[i].of_pictures && !is_full)
            continue;
        fill(bench, all, bytes);  // what the previous pass left could be slow, such as denormal floats
        queue_zero(bench->queue, bench->bytes, bench->count);
        kernel_fill(bench->queue, values(bench->z), 1, bench->count);
        const double ns = best_ns(bench, passes[i].run);
        const double rate = bytes_of(&passes[i], bench) / ns;
        copy = i == 0 ? rate : copy;
        printf("%-34s %10.1f %8.1f %13.2f\n", passes[i].name, ns / 1000, rate, copy / rate);
    }
    release(bench, all);
    release(bench, bench->bytes);
    release(bench, bench->bias);
}

// --- products and attention ---------------------------------------------------------------

static void run_product(const struct bench *b)
{
    kernel_matmul(b->queue, &b->product);
}

static void print_product(struct bench *bench, const struct shape *shape)
{
    const size_t ldc = (shape->n + 7) / 8 * 8;  // as in a layer
    void *a = memory(bench, shape->m * shape->k * bench->value_bytes);
    void *b = memory(bench, shape->k * shape->n * bench->value_bytes);
    void *c = memory(bench, shape->m * ldc * bench->value_bytes);
    char name[64];
    snprintf(name, sizeof name, "%zu x %zu x %zu", shape->m, shape->n, shape->k);
    printf("%-22s", name);
    for (int form = 0; form < 4; form++) {
        bench->product = (struct matmul){ .transpose_a = form & 2, .transpose_b = form & 1, .m = shape->m,
                                          .n = shape->n, .k = shape->k, .a = a, .b = b, .c = c, .ldc = ldc };
        const double flops = 2.0 * (double)shape->m * (double)shape->n * (double)shape->k;
        printf(" %10.1f", flops / best_ns(bench, run_product));
    }
    printf("\n");
    release(bench, a);
    release(bench, b);
    release(bench, c);
}

static void run_attention(const struct bench *b)
{
    kernel_attention(b->queue, &b->attention, values(b->z), b->log_sums, values(b->x), b->workspace);
}

static void run_attention_backward(const struct bench *b)
{
    kernel_attention_backward(b->queue, &b->attention, values(b->out), values(b->y), values(b->z), b->log_sums,
                              values(b->x), b->workspace);
}

static uint64_t workspace_bytes(const struct bench *bench, const struct attention *shape)
{
    struct attention_bytes bytes;
    struct error error = { 0 };
    if (!attention_bytes(bench->device, shape, &bytes, &error))
        exit(fail(&error));
    return bytes.forward > bytes.backward ? bytes.forward : bytes.backward;
}

static void print_attention(struct bench *bench, const struct attention *shape)
{
    const size_t rows = shape->batch * shape->heads * shape->sequence;
    const size_t width = rows * shape->size * bench->value_bytes;
    const double half = (double)(rows * shape->sequence * shape->size);
    bench->attention = *shape;
    bench->x = memory(bench, 3 * width);
    bench->out = memory(bench, 3 * width);
    bench->y = memory(bench, width);
    bench->z = memory(bench, width);
    bench->log_sums = memory(bench, rows * sizeof(float));
    bench->workspace = memory(bench, workspace_bytes(bench, shape));
    const double forward = best_ns(bench, run_attention), backward = best_ns(bench, run_attention_backward);
    char name[64];
    snprintf(name, sizeof name, "%zu x %zu, %zu heads of %zu", shape->batch, shape->sequence, shape->heads,
             shape->size);
    printf("%-34s %10.1f %10.1f   %.1f us, %.1f us\n", name, 2 * half / forward, 5 * half / backward, forward / 1000,
           backward / 1000);
    void *all[] = { bench->x, bench->out, bench->y, bench->z, bench->log_sums, bench->workspace };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        release(bench, all[i]);
}

static void print_all(struct bench *bench)
{
    printf("%s\n\n", device_description(bench->device));
    print_passes(bench);
    printf("\n%-22s %10s %10s %10s %10s\n", "matmul, GFLOP/s", "a b", "a b^T", "a^T b", "a^T b^T");
    for (const struct shape *shape = bench->size->products; shape->m > 0; shape++)
        print_product(bench, shape);
    printf("\n%-34s %10s %10s   (of the causal half)\n", "attention, GFLOP/s", "forward", "backward");
    for (const struct attention *shape = bench->size->attention; shape->batch > 0; shape++)
        print_attention(bench, shape);
}

static const struct size *size_called(const char *name)
{
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (strcmp(sizes[i].name, name) == 0)
            return &sizes[i];
    fprintf(stderr, "usage: bench_kernels [DEVICE [small|gpt2]]\n");
    exit(2);
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    const struct size *size = size_called(count > 2 ? arguments[2] : "usual");
    struct device *device = device_open(count > 1 ? arguments[1] : "cpu", &error);
    struct bench bench = { .device = device, .size = size, .count = size->rows * COLUMNS };
    bench.queue = device ? queue_create(device, &error) : NULL;
    bench.start = bench.queue ? event_create(device, &error) : NULL;
    bench.end = bench.start ? event_create(device, &error) : NULL;
    bool good = bench.end != NULL;
    if (good) {
        bench.value_bytes = precision_bytes(device_precision(device));
        print_all(&bench);
        good = queue_wait(bench.queue, &error);
    }
    event_free(bench.end);
    event_free(bench.start);
    queue_free(bench.queue);
    device_close(device);
    return good ? 0 : fail(&error);
}
