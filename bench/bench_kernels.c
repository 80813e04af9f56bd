// How fast the kernels of the cpu maker are on one thread.
//
// Kernels that pass over memory once are held against a copy that moves as many
// bytes (2.00 is half the speed of that copy); matrix products and attention are
// given in GFLOP/s. Each number is the best of many runs, in CPU time of the
// thread, so that a busy machine disturbs it little.
//
//     bench_kernels [DEVICE]        cpu, cpu:avx2, ..
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "device/kernels.h"

// 64 MiB a tensor: past every cache.
enum { ROWS = 16384, COLUMNS = 1024, COUNT = ROWS * COLUMNS, REPEATS = 10 };

struct bench {
    struct queue *queue;
    float *x, *y, *z, *out, *bias;
    uint8_t *bytes;
};

static struct values *values(float *floats)
{
    return (struct values *)floats;
}

static double best_ns(const struct bench *bench, void (*run)(const struct bench *))
{
    uint64_t best = UINT64_MAX;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        const uint64_t start = clock_thread_cpu_ns();
        run(bench);
        const uint64_t took = clock_thread_cpu_ns() - start;
        best = took < best ? took : best;
    }
    return (double)best;
}

static void run_copy(const struct bench *b)
{
    queue_copy(b->queue, b->out, b->x, COUNT * sizeof(float));
}

static void run_add(const struct bench *b)
{
    kernel_add(b->queue, values(b->out), values(b->x), values(b->y), COUNT);
}

static void run_add_branch(const struct bench *b)
{
    kernel_add_branch(b->queue, values(b->out), values(b->x), values(b->y), values(b->bias), ROWS, COLUMNS,
                      (struct dropout){ 0 });
}

static void run_add_branch_dropout(const struct bench *b)
{
    const struct dropout dropout = { .probability = 0.1f, .key = 7 };
    kernel_add_branch(b->queue, values(b->out), values(b->x), values(b->y), values(b->bias), ROWS, COLUMNS, dropout);
}

static void run_gelu(const struct bench *b)
{
    kernel_gelu(b->queue, values(b->out), values(b->x), COUNT);
}

static void run_gelu_backward(const struct bench *b)
{
    kernel_gelu_backward(b->queue, values(b->out), values(b->z), values(b->y), values(b->x), COUNT);
}

static void run_relu(const struct bench *b)
{
    kernel_relu(b->queue, values(b->out), b->bytes, values(b->x), COUNT);
}

static void run_softmax(const struct bench *b)
{
    kernel_softmax(b->queue, values(b->out), values(b->x), COUNT / 512, 512);
}

static struct layer_norm norm_of(const struct bench *b)
{
    return (struct layer_norm){ .in = values(b->x), .gain = values(b->bias), .offset = values(b->bias),
                                .rows = COUNT / 1024, .columns = 1024 };
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
    kernel_layer_norm_backward_weight(b->queue, &norm, b->out, b->out + 1024, values(b->y), b->z, b->z + norm.rows);
}

static void run_sum_columns(const struct bench *b)
{
    kernel_sum_columns(b->queue, b->bias, values(b->x), ROWS, COLUMNS);
}

static void run_cross_entropy_backward(const struct bench *b)
{
    const struct cross_entropy loss = {
        .logits = values(b->x), .targets = (const int32_t *)(const void *)b->bytes,
        .rows = ROWS, .columns = COLUMNS, .scale = 1,
    };
    kernel_cross_entropy_backward(b->queue, &loss, values(b->out), b->y);
}

static void run_adamw(const struct bench *b)
{
    const struct adamw adamw = { .rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f, .update = 1 };
    kernel_adamw(b->queue, &adamw, &(struct optimizer_span){ .next = values(b->x), .weights = values(b->x),
                                                             .gradients = b->out, .first = b->y, .second = b->z,
                                                             .count = COUNT });
}

static void run_sum_of_squares(const struct bench *b)
{
    kernel_sum_of_squares(b->queue, (double *)(void *)b->bias, b->x, COUNT);
}

static const struct pass {
    const char *name;
    void (*run)(const struct bench *);
    double passes;  // over COUNT floats, reads and writes
} passes[] = {
    { "copy", run_copy, 2 },
    { "add", run_add, 3 },
    { "add_branch (residual and bias)", run_add_branch, 3 },
    { "  with dropout", run_add_branch_dropout, 3 },
    { "gelu", run_gelu, 2 },
    { "gelu_backward, both outputs", run_gelu_backward, 4 },
    { "relu", run_relu, 2.25 },
    { "softmax of 512", run_softmax, 2 },
    { "layer_norm of 1024", run_layer_norm, 2 },
    { "layer_norm_backward_input", run_layer_norm_backward_input, 3 },
    { "layer_norm_backward_weight", run_layer_norm_backward_weight, 2 },
    { "sum_columns", run_sum_columns, 1 },
    { "cross_entropy_backward of 1024", run_cross_entropy_backward, 2 },
    { "adamw", run_adamw, 7 },
    { "sum_of_squares", run_sum_of_squares, 1 },
};

static void print_passes(const struct bench *bench)
{
    printf("%-34s %10s %8s %13s\n", "pass over 64 MiB tensors", "time us", "GB/s", "time / copy's");
    double copy = 0;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        memset(bench->bytes, 0, COUNT);
        kernel_fill_normal(bench->queue, values(bench->x), 1, 1, 4 * (size_t)COUNT);  // x, y, z, out
        kernel_fill_normal(bench->queue, values(bench->bias), 1, 2, COLUMNS);
        kernel_fill(bench->queue, values(bench->z), 1, COUNT);
        const double ns = best_ns(bench, passes[i].run);
        const double rate = passes[i].passes * COUNT * sizeof(float) / ns;
        copy = i == 0 ? rate : copy;
        printf("%-34s %10.1f %8.1f %13.2f\n", passes[i].name, ns / 1000, rate, copy / rate);
    }
}

static void print_matmuls(const struct bench *bench)
{
    static const struct shape {
        size_t m, n, k;
    } shapes[] = { { 512, 384, 128 }, { 512, 512, 128 }, { 256, 1536, 384 }, { 1024, 1024, 1024 } };
    printf("\n%-22s %10s %10s %10s %10s\n", "matmul, GFLOP/s", "a b", "a b^T", "a^T b", "a^T b^T");
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const struct shape *shape = &shapes[s];
        char name[64];
        snprintf(name, sizeof name, "%zu x %zu x %zu", shape->m, shape->n, shape->k);
        printf("%-22s", name);
        for (int form = 0; form < 4; form++) {
            const struct matmul matmul = { .transpose_a = form & 2, .transpose_b = form & 1, .m = shape->m,
                                           .n = shape->n, .k = shape->k, .a = values(bench->x),
                                           .b = values(bench->y), .c = values(bench->out) };
            uint64_t best = UINT64_MAX;
            for (int repeat = 0; repeat < REPEATS; repeat++) {
                const uint64_t start = clock_thread_cpu_ns();
                kernel_matmul(bench->queue, &matmul);
                const uint64_t took = clock_thread_cpu_ns() - start;
                best = took < best ? took : best;
            }
            printf(" %10.1f", 2.0 * (double)(shape->m * shape->n * shape->k) / (double)best);
        }
        printf("\n");
    }
}

static void print_attention(const struct bench *bench)
{
    static const struct attention shapes[] = { { 4, 128, 4, 32 }, { 2, 128, 6, 64 }, { 2, 256, 6, 64 } };
    printf("\n%-34s %10s %10s   (of the causal half)\n", "attention, GFLOP/s", "forward", "backward");
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const struct attention *shape = &shapes[s];
        const double half = (double)(shape->batch * shape->heads * shape->sequence * shape->sequence * shape->size);
        uint64_t forward = UINT64_MAX, backward = UINT64_MAX;
        struct values *x = values(bench->x), *out = values(bench->z);
        float *log_sums = bench->z + COUNT / 2;
        for (int repeat = 0; repeat < 3 * REPEATS; repeat++) {
            const uint64_t start = clock_thread_cpu_ns();
            kernel_attention(bench->queue, shape, out, log_sums, x, bench->out);
            const uint64_t middle = clock_thread_cpu_ns();
            kernel_attention_backward(bench->queue, shape, values(bench->y), x, out, log_sums, x, bench->out);
            const uint64_t end = clock_thread_cpu_ns();
            forward = middle - start < forward ? middle - start : forward;
            backward = end - middle < backward ? end - middle : backward;
        }
        char name[64];
        snprintf(name, sizeof name, "%zu x %zu, %zu heads of %zu", shape->batch, shape->sequence, shape->heads,
                 shape->size);
        printf("%-34s %10.1f %10.1f   %.1f us, %.1f us\n", name, 2 * half / (double)forward,
               5 * half / (double)backward, (double)forward / 1000, (double)backward / 1000);
    }
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    struct device *device = device_open(count > 1 ? arguments[1] : "cpu", &error);
    struct queue *queue = device ? queue_create(device, &error) : NULL;
    const uint64_t bytes = (4 * (uint64_t)COUNT + COLUMNS) * sizeof(float) + COUNT;
    float *memory = queue ? device_allocate(device, bytes, &error) : NULL;
    if (!memory) {
        fprintf(stderr, "%s\n", error.text);
        return 3;
    }
    const struct bench bench = {
        .queue = queue, .x = memory, .y = memory + COUNT, .z = memory + 2 * COUNT, .out = memory + 3 * COUNT,
        .bias = memory + 4 * COUNT, .bytes = (uint8_t *)(memory + 4 * COUNT + COLUMNS),
    };
    printf("%s\n\n", device_description(device));
    print_passes(&bench);
    print_matmuls(&bench);
    print_attention(&bench);
    const bool good = queue_wait(queue, &error);
    if (!good)
        fprintf(stderr, "%s\n", error.text);
    device_release(device, memory);
    queue_free(queue);
    device_close(device);
    return good ? 0 : 3;
}
