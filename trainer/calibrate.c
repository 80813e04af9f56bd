#include "trainer/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/ascending.h"
#include "common/clock.h"
#include "device/kernels.h"

enum { ROWS = 512, COLUMNS = 512, COUNT = ROWS * COLUMNS, TENSORS = 6, REPEATS = 15, RUNS_AHEAD = 10 };

// Sizes of the measured products. Some are of layers that fill a cache, others of layers that do not.
static const size_t product_sizes[][3] = { { 512, 384, 128 }, { 256, 512, 512 }, { 384, 1536, 256 } };
enum { PRODUCTS = sizeof product_sizes / sizeof product_sizes[0], FORMS = 3, MOST_PRODUCT = 384 * 1536 };

struct bench {
    struct device *device;
    struct queue *queue;
    struct event *start, *end;
    struct values *tensors[TENSORS];  // of COUNT numbers each
    float *floats[2];                 // likewise
    struct values *product[3];        // of MOST_PRODUCT numbers each
    float *sums;                      // likewise
    void *workspace;
    struct matmul matmul;
    struct attention attention;
    size_t count;                     // numbers in one pass
    struct error *error;
};

// --- time ---------------------------------------------------------------------

static double once_ns(const struct bench *bench, void (*run)(const struct bench *))
{
    if (!device_runs_ahead(bench->device)) {
        const uint64_t start = clock_thread_cpu_ns();
        for (int i = 0; i < RUNS_AHEAD; i++)
            run(bench);
        return (double)(clock_thread_cpu_ns() - start) / RUNS_AHEAD;
    }
    event_record(bench->start, bench->queue);
    for (int i = 0; i < RUNS_AHEAD; i++)
        run(bench);
    event_record(bench->end, bench->queue);
    if (!queue_wait(bench->queue, bench->error))
        return 1;
    return (double)(event_time_ns(bench->end) - event_time_ns(bench->start)) / RUNS_AHEAD;
}

static double median_ns(const struct bench *bench, void (*run)(const struct bench *))
{
    double times[REPEATS];
    run(bench);
    for (int i = 0; i < REPEATS; i++)
        times[i] = once_ns(bench, run);
    qsort(times, REPEATS, sizeof times[0], ascending_doubles);
    return times[REPEATS / 2] > 1 ? times[REPEATS / 2] : 1;
}

// --- passes over memory ---------------------------------------------------------

static struct layer_norm norm_of(const struct bench *b)
{
    return (struct layer_norm){ .in = b->tensors[0], .gain = b->tensors[1], .offset = b->tensors[1],
                                .rows = b->count / COLUMNS, .columns = COLUMNS };
}

static void run_add(const struct bench *b)
{
    kernel_add(b->queue, b->tensors[2], b->tensors[0], b->tensors[1], b->count);
}

static void run_gelu(const struct bench *b)
{
    kernel_gelu(b->queue, b->tensors[2], b->tensors[0], b->count);
}

static void run_gelu_backward(const struct bench *b)
{
    kernel_gelu_backward(b->queue, b->tensors[2], b->tensors[3], b->tensors[1], b->tensors[0], b->count);
}

static void run_norm(const struct bench *b)
{
    const struct layer_norm norm = norm_of(b);
    kernel_layer_norm(b->queue, &norm, b->tensors[2], b->floats[0], b->floats[0] + ROWS);
}

static void run_norm_backward(const struct bench *b)
{
    const struct layer_norm norm = norm_of(b);
    kernel_layer_norm_backward_input(b->queue, &norm, b->tensors[2], b->tensors[3], NULL, b->floats[0],
                                     b->floats[0] + ROWS);
}

static const struct {
    void (*run)(const struct bench *);
    double tensors;  // tensors that it reads or writes
} passes[] = { { run_add, 3 }, { run_gelu, 2 }, { run_gelu_backward, 4 }, { run_norm, 2 }, { run_norm_backward, 3 } };
enum { PASSES = sizeof passes / sizeof passes[0] };

static void rate_passes(struct bench *bench, double number, struct rated_device *rated)
{
    double bytes = 0, ns = 0;
    bench->count = COUNT;
    for (int i = 0; i < PASSES; i++) {
        bytes += passes[i].tensors * number * COUNT;
        ns += median_ns(bench, passes[i].run);
    }
    bench->count = 16;
    const double least = median_ns(bench, run_add);
    rated->kernel_ns = (uint64_t)least;
    rated->memory_bytes_per_second = (uint64_t)(bytes / (ns > PASSES * least ? ns - PASSES * least : 1) * 1e9);
    rated->memory_permille = 1000;
}

// --- products and attention -------------------------------------------------------

static void run_product(const struct bench *b)
{
    kernel_matmul(b->queue, &b->matmul);
}

static double product_ns_of(struct bench *bench, const size_t size[3], int form)
{
    bench->matmul = (struct matmul){ .transpose_a = form == 2, .transpose_b = form == 1, .m = size[0], .n = size[1],
                                     .k = size[2], .a = bench->product[0], .b = bench->product[1] };
    if (form == 2)
        bench->matmul.sums = bench->sums;  // as gradients of weights are added up
    else
        bench->matmul.c = bench->product[2];
    return median_ns(bench, run_product);
}

static uint64_t permille_of(double flops, double ns, uint64_t gigaflops)
{
    const double share = 1000 * flops / ns / (double)gigaflops;
    return share < 1 ? 1 : share > 1000 ? 1000 : (uint64_t)share;
}

// Times all sizes in all three forms: forward, gradient of the input, gradient of the weights. The rate is of all of
// them together, since layers have as much of each.
static void rate_products(struct bench *bench, struct rated_device *rated)
{
    static const size_t tiny[3] = { 8, 8, 8 };
    struct rated_product *product = &rated->products[0];
    double flops = 0, ns = 0, fastest = 0;
    const double least = product_ns_of(bench, tiny, 0);
    for (int i = 0; i < PRODUCTS; i++)
        for (int form = 0; form < FORMS; form++) {
            const size_t *size = product_sizes[i];
            const double operations = 2.0 * (double)(size[0] * size[1] * size[2]),
                         took = product_ns_of(bench, size, form);
            flops += operations;
            ns += took > least ? took - least : 1;
            fastest = operations / took > fastest ? operations / took : fastest;
        }
    product->gigaflops = fastest > 1 ? (uint64_t)fastest : 1;
    product->permille = permille_of(flops, ns, product->gigaflops);
    product->wave_permille = 0;
    product->kernel_ns = (uint64_t)least;
}

static void run_attention(const struct bench *b)
{
    kernel_attention(b->queue, &b->attention, b->tensors[2], b->floats[0], b->product[0], b->workspace);
}

static void run_attention_backward(const struct bench *b)
{
    kernel_attention_backward(b->queue, &b->attention, b->product[1], b->tensors[1], b->tensors[2], b->floats[0],
                              b->product[0], b->workspace);
}

// Attention computes half of all pairs of positions. The backward does 2.5 times as much as the forward.
static bool rate_attention(struct bench *bench, struct rated_device *rated)
{
    bench->attention = (struct attention){ .batch = 2, .sequence = 128, .heads = 8, .size = 64 };
    struct attention_bytes bytes;
    if (!attention_bytes(bench->device, &bench->attention, &bytes, bench->error))
        return false;
    bench->workspace =
        device_allocate(bench->device, bytes.forward > bytes.backward ? bytes.forward : bytes.backward, bench->error);
    if (!bench->workspace)
        return false;
    const double flops = 2.0 * 2 * 2 * 8 * 64 * 128 * 128 / 2;
    const uint64_t gigaflops = rated->products[0].gigaflops;
    rated->fused.forward_permille = permille_of(flops, median_ns(bench, run_attention), gigaflops);
    rated->fused.backward_permille = permille_of(2.5 * flops, median_ns(bench, run_attention_backward), gigaflops);
    rated->flash = rated->fused;
    return true;
}

// --- the device -------------------------------------------------------------------

static void rate_memory(struct rated_device *rated)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), cores = sysconf(_SC_NPROCESSORS_ONLN);
    rated->memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_C(1) << 30;
    rated->multiprocessors = 1;
    rated->sustained_permille = 1000;
    rated->level_count = 1;
    rated->levels[0] = (struct rated_level){ .size = cores > 1 ? (uint64_t)cores : 2,
                                             .bytes_per_second = rated->memory_bytes_per_second, .permille = 1000,
                                             .message_permille = 1000 };
}

static bool allocate(struct bench *bench, uint64_t number)
{
    bool good = true;
    for (int i = 0; good && i < TENSORS; i++)
        good = (bench->tensors[i] = device_allocate(bench->device, COUNT * number, bench->error)) != NULL;
    for (int i = 0; good && i < 2; i++)
        good = (bench->floats[i] = device_allocate(bench->device, COUNT * sizeof(float), bench->error)) != NULL;
    for (int i = 0; good && i < 3; i++)
        good = (bench->product[i] = device_allocate(bench->device, MOST_PRODUCT * number, bench->error)) != NULL;
    good = good && (bench->sums = device_allocate(bench->device, MOST_PRODUCT * sizeof(float), bench->error)) != NULL;
    for (int i = 0; good && i < TENSORS; i++)
        kernel_fill_normal(bench->queue, bench->tensors[i], 1, 1, 0, COUNT);
    for (int i = 0; good && i < 3; i++)
        kernel_fill_normal(bench->queue, bench->product[i], 1, 2, 0, MOST_PRODUCT);
    for (int i = 0; good && i < 2; i++)
        queue_zero(bench->queue, bench->floats[i], COUNT * sizeof(float));
    if (good)
        queue_zero(bench->queue, bench->sums, MOST_PRODUCT * sizeof(float));
    return good;
}

static void release(struct bench *bench)
{
    queue_free(bench->queue);  // first: after this the queue no longer uses the memory
    for (int i = 0; i < TENSORS; i++)
        device_release(bench->device, bench->tensors[i]);
    for (int i = 0; i < 2; i++)
        device_release(bench->device, bench->floats[i]);
    for (int i = 0; i < 3; i++)
        device_release(bench->device, bench->product[i]);
    device_release(bench->device, bench->sums);
    device_release(bench->device, bench->workspace);
    event_free(bench->start);
    event_free(bench->end);
}

bool calibrate_device(struct device *device, struct rated_device *rated, struct error *error)
{
    const enum precision precision = device_precision(device);
    struct bench bench = { .device = device, .error = error };
    *rated = (struct rated_device){ .product_count = 1 };
    snprintf(rated->name, sizeof rated->name, "%.*s", (int)sizeof rated->name - 1, device_description(device));
    snprintf(rated->products[0].dtype, sizeof rated->products[0].dtype, "%s", precision_name(precision));
    bench.queue = queue_create(device, error);
    bench.start = bench.queue ? event_create(device, error) : NULL;
    bench.end = bench.start ? event_create(device, error) : NULL;
    bool good = bench.end && allocate(&bench, precision_bytes(precision));
    if (good) {
        rate_passes(&bench, precision_bytes(precision), rated);
        rate_products(&bench, rated);
        good = rate_attention(&bench, rated) && queue_wait(bench.queue, error);
        rate_memory(rated);
    }
    release(&bench);
    return good && error->kind == ERROR_NONE;
}
