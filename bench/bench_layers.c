// How fast the layers' kernels of a device are, for bench/peers/compare_layers.py and compare_tables.py, which hold
// them against PyTorch.
//
//     bench_layers DEVICE
//
// Each line of the input names a case by its numbers, as in
//
//     convolution BATCH HEIGHT WIDTH IN OUT GROUPS WINDOW_HEIGHT WINDOW_WIDTH STRIDE PADDING
//
// and is answered by a line with its times in nanoseconds: forward, gradients of the input, gradients of the weights.
// Or, with so many ids in each slot of a sample, by those of lookup and of its backward:
//
//     bags TABLES ROWS COLUMNS SAMPLES IDS
//
// Or by those of the backward and the update of the rows that have a gradient, by SGD, Adagrad, Adagrad with a number
// for each row, and Adam:
//
//     update TABLES ROWS COLUMNS SAMPLES IDS
//
// Or by those of attention and of its backward, where a WINDOW of 0 is none (device/attention_pattern.h):
//
//     attention BATCH SEQUENCE HEADS SIZE WINDOW GLOBAL STRIDE BLOCK
//
// Or by those of experts with GELU, dropless, and of an MLP of the same products: the forward and the backward of the
// first, then those of the second:
//
//     experts ROWS WIDTH INNER EXPERTS TOP
//
// Each is the best of a few runs. So the other side can take turns with this one, case by case.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/fail.h"
#include "common/clock.h"
#include "common/number.h"
#include "common/random.h"
#include "device/expert_kernels.h"
#include "device/picture_kernels.h"
#include "device/table_kernels.h"

enum { RUNS = 5, PASSES = 3, MOST_TAKEN = 32 };

struct bench {
    struct device *device;
    struct queue *queue;
    void *taken[MOST_TAKEN];  // the memory of a case
    size_t taken_count;
};

static void must(bool good, const struct error *error)
{
    if (!good)
        exit(fail(error));
}

static void *take(struct bench *bench, uint64_t bytes)
{
    struct error error = { 0 };
    must(bench->taken_count < MOST_TAKEN, &(struct error){ .text = "a case takes too many tensors" });
    void *made = device_allocate(bench->device, bytes, &error);
    must(made, &error);
    return bench->taken[bench->taken_count++] = made;
}

static void release_all(struct bench *bench)
{
    while (bench->taken_count > 0)
        device_release(bench->device, bench->taken[--bench->taken_count]);
}

static void *memory(struct bench *bench, uint64_t bytes)
{
    void *made = take(bench, bytes);
    kernel_fill_normal(bench->queue, made, 1, 1, 0, bytes / sizeof(float));
    return made;
}

// On a device that does each thing at once this is the thread's CPU time, which a busy machine disturbs little.
static uint64_t now_ns(const struct bench *bench)
{
    return device_runs_ahead(bench->device) ? clock_now_ns() : clock_thread_cpu_ns();
}

static double best_ns(const struct bench *bench, void (*run)(const struct bench *, const void *), const void *arguments)
{
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        struct error error = { 0 };
        const uint64_t start = now_ns(bench);
        run(bench, arguments);
        must(queue_wait(bench->queue, &error), &error);
        const double took = (double)(now_ns(bench) - start);
        best = i == 0 || took < best ? took : best;
    }
    return best;
}

// --- convolutions ------------------------------------------------------------------------

struct convolving {
    struct convolution shape;
    struct values *in, *out, *weights;
    float *weights_gradient;
    void *workspace;
};

static void run_forward(const struct bench *bench, const void *arguments)
{
    const struct convolving *x = arguments;
    kernel_convolution(bench->queue, &x->shape, x->out, x->in, x->weights, NULL, x->workspace);
}

static void run_input(const struct bench *bench, const void *arguments)
{
    const struct convolving *x = arguments;
    kernel_convolution_input(bench->queue, &x->shape, x->in, x->out, x->weights, x->workspace);
}

static void run_weight(const struct bench *bench, const void *arguments)
{
    const struct convolving *x = arguments;
    kernel_convolution_weight(bench->queue, &x->shape, x->weights_gradient, x->out, x->in, x->workspace);
}

static bool read_convolution(struct convolution *c, const char *line)
{
    struct window *w = &c->window;
    const bool is_whole
        = sscanf(line, "convolution %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu", &c->batch, &c->height, &c->width, &c->in,
                 &c->out, &c->groups, &w->height, &w->width, &w->stride_height, &w->padding_height) == 10;
    w->stride_width = w->stride_height;
    w->padding_width = w->padding_height;
    return is_whole;
}

static void time_convolution(struct bench *bench, const struct convolution *shape)
{
    static void (*const passes[PASSES])(const struct bench *, const void *) = { run_forward, run_input, run_weight };
    struct error error = { 0 };
    struct convolution_bytes bytes;
    must(convolution_bytes(bench->device, shape, &bytes, &error), &error);
    const size_t weights = shape->window.height * shape->window.width * shape->in / shape->groups * shape->out;
    const size_t outs = shape->batch * convolution_height(shape) * convolution_width(shape) * shape->out;
    const struct convolving x = {
        .shape = *shape,
        .in = memory(bench, shape->batch * shape->height * shape->width * shape->in * sizeof(float)),
        .out = memory(bench, outs * sizeof(float)),
        .weights = memory(bench, weights * sizeof(float)),
        .weights_gradient = memory(bench, weights * sizeof(float)),
        .workspace = memory(bench, max_u64(bytes.forward, max_u64(bytes.input, bytes.weight))),
    };
    double ns[PASSES];
    for (int i = 0; i < PASSES; i++) {
        passes[i](bench, &x);  // warm
        ns[i] = best_ns(bench, passes[i], &x);
    }
    printf("%.0f %.0f %.0f\n", ns[0], ns[1], ns[2]);
}

// --- bags ------------------------------------------------------------------------------------

struct looking_up {
    struct bags bags;
    struct values *matrix, *out;
    float *gradient;
};

static void run_bags(const struct bench *bench, const void *arguments)
{
    const struct looking_up *x = arguments;
    kernel_bag(bench->queue, &x->bags, x->out, x->matrix);
}

static void run_bags_backward(const struct bench *bench, const void *arguments)
{
    const struct looking_up *x = arguments;
    kernel_bag_backward(bench->queue, &x->bags, x->gradient, x->out);
}

// An update: the rows of the gradient listed, the gradient added up, and the update of these rows. The span is of all
// rows of the tables.
struct updating {
    struct looking_up looking_up;
    struct row_list list;
    struct optimizer_span span;
    enum { UPDATE_SGD, UPDATE_ADAGRAD, UPDATE_ADAGRAD_BY_ROW, UPDATE_ADAM } by;
};

static void run_update(const struct bench *bench, const void *arguments)
{
    const struct updating *x = arguments;
    const struct adagrad adagrad = { .rate = 0.1f, .epsilon = 1e-10f };
    struct bags bags = x->looking_up.bags;
    queue_zero(bench->queue, x->list.count, sizeof *x->list.count);
    kernel_list_rows(bench->queue, &x->list, &bags);
    bags.places = x->list.places;
    kernel_bag_backward(bench->queue, &bags, x->list.sums, x->looking_up.out);
    if (x->by == UPDATE_SGD)
        kernel_sgd_rows(bench->queue, &(struct sgd){ .rate = 0.1f }, &x->list, &x->span);
    else if (x->by == UPDATE_ADAM)
        kernel_adamw_rows(bench->queue,
                          &(struct adamw){ .rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .update = 9,
                                           .is_lazy = true }, &x->list, &x->span);
    else
        kernel_adagrad_rows(bench->queue, &adagrad, &x->list, &x->span, x->by == UPDATE_ADAGRAD_BY_ROW);
}

struct table_sizes {
    size_t tables, rows, columns, samples, ids;
};

static bool read_tables(struct table_sizes *sizes, const char *line)
{
    return sscanf(line, "%*s %zu %zu %zu %zu %zu", &sizes->tables, &sizes->rows, &sizes->columns, &sizes->samples,
                  &sizes->ids) == 5;
}

static bool begins(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

static void *integers(struct bench *bench, const int32_t *from, size_t count)
{
    struct error error = { 0 };
    void *made = take(bench, count * sizeof *from);
    queue_upload(bench->queue, made, from, count * sizeof *from);
    must(queue_wait(bench->queue, &error), &error);
    return made;
}

// The ids of each table are uniform, so that hardly a row is in a cache.
static struct bags draw_bags(struct bench *bench, const struct table_sizes *sizes)
{
    const size_t count = sizes->samples * sizes->tables;
    int32_t *ids = malloc(count * sizes->ids * sizeof *ids), *ends = malloc(count * sizeof *ends);
    uint64_t seed = 1;
    must(ids && ends, &(struct error){ .text = "no memory" });
    for (size_t bag = 0, i = 0; bag < count; bag++) {
        for (size_t k = 0; k < sizes->ids; k++)
            ids[i++] = (int32_t)(bag % sizes->tables * sizes->rows + random_below(&seed, sizes->rows));
        ends[bag] = (int32_t)i;
    }
    const struct bags bags = { .ids = integers(bench, ids, count * sizes->ids), .ends = integers(bench, ends, count),
                               .count = count, .most = count * sizes->ids, .rows = sizes->tables * sizes->rows,
                               .columns = sizes->columns };
    free(ids);
    free(ends);
    return bags;
}

static void time_bags(struct bench *bench, const struct table_sizes *sizes)
{
    const uint64_t bytes = sizes->tables * sizes->rows * sizes->columns * sizeof(float);
    struct looking_up x = { .bags = draw_bags(bench, sizes), .matrix = memory(bench, bytes) };
    x.gradient = memory(bench, bytes);
    x.out = memory(bench, sizes->samples * sizes->tables * sizes->columns * sizeof(float));
    run_bags(bench, &x);  // warm
    const double forward_ns = best_ns(bench, run_bags, &x);
    run_bags_backward(bench, &x);
    printf("%.0f %.0f\n", forward_ns, best_ns(bench, run_bags_backward, &x));
}

static void time_updates(struct bench *bench, const struct table_sizes *sizes)
{
    const size_t rows = sizes->tables * sizes->rows, ids = sizes->samples * sizes->tables * sizes->ids;
    const size_t room = ids < rows ? ids : rows;
    const uint64_t bytes = rows * sizes->columns * sizeof(float);
    struct updating x = { .looking_up = { .bags = draw_bags(bench, sizes), .matrix = memory(bench, bytes) } };
    x.looking_up.out = memory(bench, sizes->samples * sizes->tables * sizes->columns * sizeof(float));
    x.list = row_list_in(memory(bench, row_list_bytes(room, rows, sizes->columns)), room, rows, sizes->columns);
    x.span = (struct optimizer_span){ .next = x.looking_up.matrix, .weights = x.looking_up.matrix,
                                      .first = memory(bench, bytes), .second = memory(bench, bytes),
                                      .count = rows * sizes->columns };
    float *const first = x.span.first;
    queue_zero(bench->queue, first, bytes);
    queue_zero(bench->queue, x.span.second, bytes);
    for (x.by = UPDATE_SGD; x.by <= UPDATE_ADAM; x.by++) {
        x.span.first = x.by == UPDATE_SGD ? NULL : first;
        run_update(bench, &x);  // warm
        printf("%.0f%c", best_ns(bench, run_update, &x), x.by == UPDATE_ADAM ? '\n' : ' ');
    }
}

// --- attention ---------------------------------------------------------------------------

struct attending {
    struct attention shape;
    struct values *qkv, *out, *qkv_gradient, *out_gradient;
    float *log_sums;
    void *workspace;
};

static void run_attention(const struct bench *bench, const void *arguments)
{
    const struct attending *x = arguments;
    kernel_attention(bench->queue, &x->shape, x->out, x->log_sums, x->qkv, x->workspace);
}

static void run_attention_backward(const struct bench *bench, const void *arguments)
{
    const struct attending *x = arguments;
    kernel_attention_backward(bench->queue, &x->shape, x->qkv_gradient, x->out_gradient, x->out, x->log_sums, x->qkv,
                              x->workspace);
}

static bool read_attention(struct attention *a, const char *line)
{
    struct attention_pattern *p = &a->pattern;
    *a = (struct attention){ 0 };
    return sscanf(line, "attention %zu %zu %zu %zu %zu %zu %zu %zu", &a->batch, &a->sequence, &a->heads, &a->size,
                  &p->window, &p->global, &p->stride, &p->block) == 8;
}

static void time_attention(struct bench *bench, const struct attention *shape)
{
    struct error error = { 0 };
    struct attention_bytes bytes;
    must(attention_bytes(bench->device, shape, &bytes, &error), &error);
    const uint64_t out = shape->batch * shape->sequence * shape->heads * shape->size * sizeof(float);
    const struct attending x = {
        .shape = *shape,
        .qkv = memory(bench, 3 * out),
        .out = memory(bench, out),
        .qkv_gradient = memory(bench, 3 * out),
        .out_gradient = memory(bench, out),
        .log_sums = memory(bench, shape->batch * shape->heads * shape->sequence * sizeof(float)),
        .workspace = memory(bench, max_u64(bytes.forward, bytes.backward)),
    };
    run_attention(bench, &x);  // warm
    const double forward_ns = best_ns(bench, run_attention, &x);
    run_attention_backward(bench, &x);
    printf("%.0f %.0f\n", forward_ns, best_ns(bench, run_attention_backward, &x));
}

// --- experts -----------------------------------------------------------------------------
//
// A dense MLP is one expert, which all rows take as they lie. It is as wide inside as the experts that a row takes.

struct routed {
    struct routing routing;
    size_t width, inner;
    struct values *in, *out, *gradient, *sorted, *wide, *bent, *given, *bent_gradient, *up, *down, *up_bias, *down_bias;
    struct values *logits_gradient;
    float *sums, *gates_gradient, *statistics, *loss;
};

static void multiply_groups(const struct bench *bench, const struct routed *x, struct matmul product)
{
    const size_t experts = x->routing.router.experts;
    if (experts > 1)
        kernel_grouped_matmul(bench->queue, &product, x->routing.ends, 0, experts);
    else
        kernel_matmul(bench->queue, &product);
}

static void run_experts(const struct bench *bench, const void *arguments)
{
    const struct routed *x = arguments;
    const struct routing *routing = &x->routing;
    const bool is_dense = routing->router.experts == 1;
    if (!is_dense) {
        kernel_route(bench->queue, routing, x->statistics, x->loss);
        kernel_permute(bench->queue, routing, x->sorted, x->in, x->width, false);
    }
    multiply_groups(bench, x, (struct matmul){ .m = routing->most, .n = x->inner, .k = x->width,
                                               .a = is_dense ? x->in : x->sorted, .b = x->up, .bias = x->up_bias,
                                               .c = x->bent, .before_gelu = x->wide });
    multiply_groups(bench, x, (struct matmul){ .m = routing->most, .n = x->width, .k = x->inner, .a = x->bent,
                                               .b = x->down, .bias = x->down_bias, .c = x->given });
    if (!is_dense)
        kernel_combine(bench->queue, routing, x->out, x->given, NULL, x->width, true);
}

// Adds the gradients of a matrix and of its biases.
static void add_groups(const struct bench *bench, const struct routed *x, const struct values *in,
                       const struct values *gradient, size_t in_width, size_t out_width)
{
    const struct routing *routing = &x->routing;
    multiply_groups(bench, x, (struct matmul){ .transpose_a = true, .m = in_width, .n = out_width, .k = routing->most,
                                               .a = in, .b = gradient, .sums = x->sums });
    if (routing->router.experts > 1)
        kernel_grouped_sum_columns(bench->queue, x->sums, gradient, routing->ends, 0, routing->router.experts,
                                   out_width);
    else
        kernel_sum_columns(bench->queue, x->sums, gradient, routing->most, out_width);
}

static void run_experts_backward(const struct bench *bench, const void *arguments)
{
    const struct routed *x = arguments;
    const struct routing *routing = &x->routing;
    const bool is_dense = routing->router.experts == 1;
    const struct activation activation = { false, routing->most, x->inner, NULL };
    const struct values *gradient = is_dense ? x->gradient : x->sorted;
    if (!is_dense) {
        kernel_gate_gradients(bench->queue, routing, x->gates_gradient, x->gradient, x->given, x->width);
        kernel_permute(bench->queue, routing, x->sorted, x->gradient, x->width, true);
    }
    multiply_groups(bench, x, (struct matmul){ .transpose_b = true, .m = routing->most, .n = x->inner, .k = x->width,
                                               .a = gradient, .b = x->down, .c = x->bent });
    kernel_activate_backward(bench->queue, &activation, x->bent_gradient, x->bent, x->bent, x->wide);
    add_groups(bench, x, x->bent, gradient, x->inner, x->width);
    multiply_groups(bench, x, (struct matmul){ .transpose_b = true, .m = routing->most, .n = x->width, .k = x->inner,
                                               .a = x->bent_gradient, .b = x->up, .c = x->given });
    if (!is_dense) {
        kernel_route_backward(bench->queue, routing, x->logits_gradient, x->gates_gradient, 1);
        kernel_combine(bench->queue, routing, x->out, x->given, NULL, x->width, false);
        kernel_permute(bench->queue, routing, x->sorted, x->in, x->width, false);
    }
    add_groups(bench, x, is_dense ? x->in : x->sorted, x->bent_gradient, x->width, x->inner);
}

static struct routing routing_with_room(struct bench *bench, size_t rows, size_t experts, size_t top)
{
    const uint64_t pairs = rows * top * sizeof(float);
    return (struct routing){
        .router = { ROUTER_MIXTRAL, experts, top, 1, 1, 1 }, .rows = rows, .counted = rows, .most = rows * top,
        .auxiliary = 0.01f, .z = 0.001f, .logits = memory(bench, rows * experts * sizeof(float)),
        .choices = memory(bench, pairs), .slots = memory(bench, pairs), .pairs = memory(bench, pairs),
        .ends = memory(bench, experts * sizeof(float)), .gates = memory(bench, pairs),
        .shares = memory(bench, experts * sizeof(float)), .log_sums = memory(bench, rows * sizeof(float)),
    };
}

static void time_mlp(struct bench *bench, const struct routing *routing, size_t width, size_t inner)
{
    const size_t rows = routing->rows, slots = routing->most, experts = routing->router.experts;
    const uint64_t row = width * sizeof(float), wide = inner * sizeof(float);
    struct routed x = {
        .routing = *routing, .width = width, .inner = inner,
        .in = memory(bench, rows * row), .out = memory(bench, rows * row), .gradient = memory(bench, rows * row),
        .sorted = memory(bench, slots * row), .given = memory(bench, slots * row),
        .wide = memory(bench, slots * wide), .bent = memory(bench, slots * wide),
        .bent_gradient = memory(bench, slots * wide), .up = memory(bench, experts * width * wide),
        .down = memory(bench, experts * width * wide), .up_bias = memory(bench, experts * wide),
        .down_bias = memory(bench, experts * row),
        .logits_gradient = memory(bench, rows * experts * sizeof(float)),
        .sums = memory(bench, experts * width * wide),
        .gates_gradient = memory(bench, slots * sizeof(float)),
        .statistics = memory(bench, routing_statistics(experts) * sizeof(float)),
        .loss = memory(bench, sizeof(float)),
    };
    run_experts(bench, &x);  // warm
    const double forward_ns = best_ns(bench, run_experts, &x);
    run_experts_backward(bench, &x);
    printf("%.0f %.0f ", forward_ns, best_ns(bench, run_experts_backward, &x));
}

// Rows, width, width inside of an expert, experts, and how many of them a row takes.
static void time_experts(struct bench *bench, const size_t sizes[5])
{
    const size_t tops[] = { sizes[4], 1 }, experts[] = { sizes[3], 1 };
    for (size_t i = 0; i < 2; i++) {
        const struct routing r = routing_with_room(bench, sizes[0], experts[i], tops[i]);
        time_mlp(bench, &r, sizes[1], i == 0 ? sizes[2] : sizes[2] * sizes[4]);
        release_all(bench);
    }
    printf("\n");
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    if (count != 2) {
        fprintf(stderr, "usage: bench_layers DEVICE < cases\n");
        return 2;
    }
    struct bench bench = { .device = device_open(arguments[1], &error) };
    must(bench.device, &error);
    bench.queue = queue_create(bench.device, &error);
    must(bench.queue, &error);
    char line[200];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        struct convolution shape;
        struct table_sizes tables;
        struct attention attention;
        size_t experts[5];
        if (read_convolution(&shape, line)) {
            time_convolution(&bench, &shape);
        } else if (begins(line, "bags ") && read_tables(&tables, line)) {
            time_bags(&bench, &tables);
        } else if (begins(line, "update ") && read_tables(&tables, line)) {
            time_updates(&bench, &tables);
        } else if (read_attention(&attention, line)) {
            time_attention(&bench, &attention);
        } else if (sscanf(line, "experts %zu %zu %zu %zu %zu", &experts[0], &experts[1], &experts[2], &experts[3],
                          &experts[4]) == 5) {
            time_experts(&bench, experts);
        } else {
            fprintf(stderr, "bench_layers: no such case: %s", line);
            return 2;
        }
        release_all(&bench);
    }
    queue_free(bench.queue);
    device_close(bench.device);
    return 0;
}
