// Kernels of experts on the GPU that the CPU plays: routing beside that of tests/device/slow_routing.h, the rest beside
// the kernels of the CPU, which tests/device/test_experts.c holds against loops.
#include "device/expert_kernels.h"

#include "tests/device/cuda/cuda_rig.h"
#include "tests/device/slow_routing.h"

struct routed {
    struct routing r;
    float *statistics, *loss;
};

static int32_t *places(struct cuda_rig *rig, size_t count)
{
    return cuda_rig_bytes(rig, count, sizeof(int32_t), true);
}

// More pairs than a block has threads now and then.
static struct routed some_routing(struct cuda_rig *rig, uint64_t trial)
{
    struct routing r = { .router = slow_some_router(&rig->seed, trial), .auxiliary = 0.3f, .z = 0.1f };
    const size_t experts = r.router.experts, top = r.router.top;
    r.rows = 1 + some_size(rig, trial % 7 == 0 ? 400 : 40);
    r.counted = trial % 3 ? r.rows : random_below(&rig->seed, r.rows + 1);
    r.capacity = trial % 2 ? 1 + random_below(&rig->seed, 1 + 2 * r.rows * top / experts) : 0;
    r.most = routing_most(r.rows, experts, top, r.capacity);
    float *logits = some_floats(rig, r.rows * experts, 1), *bias = some_floats(rig, experts, 1);
    slow_draw_logits(&rig->seed, trial / 4, logits, r.rows * experts);
    slow_draw_logits(&rig->seed, trial / 4, bias, experts);
    r.logits = logits;
    r.bias = r.router.kind == ROUTER_DEEPSEEK && trial % 16 < 8 ? bias : NULL;
    r.choices = places(rig, r.rows * top), r.slots = places(rig, r.rows * top);
    r.pairs = places(rig, r.most), r.ends = places(rig, experts);
    r.gates = out_floats(rig, r.rows * top), r.shares = out_floats(rig, experts);
    r.log_sums = out_floats(rig, r.rows);
    r.scores = r.router.kind == ROUTER_DEEPSEEK ? out_floats(rig, r.rows) : NULL;
    const struct routed routed = { r, out_floats(rig, routing_statistics(experts)), out_floats(rig, 1) };
    must_launch(cuda_route(&rig->launch, &routed.r, routed.statistics, routed.loss));
    return routed;
}

static void check_route(struct cuda_rig *rig, uint64_t trial)
{
    const struct routed routed = some_routing(rig, trial);
    slow_check_routing(&routed.r, routed.statistics, *routed.loss);
}

static void routing_is_that_of_loops(void **state)
{
    (void)state;
    cuda_rig_try(check_route, test_trials(24, 1000));
}

// --- beside the cpu ----------------------------------------------------------------------

struct beside {
    struct device *device;
    struct queue *queue;
};

static struct beside beside_open(const struct cuda_rig *rig)
{
    static const char *const names[] = { [PRECISION_FP32] = "cpu", [PRECISION_BF16] = "cpu:bf16,baseline",
                                         [PRECISION_FP16] = "cpu:fp16,baseline" };
    struct error error = { 0 };
    struct beside beside = { .device = device_open(names[rig->precision], &error) };
    assert_good(beside.device, error);
    beside.queue = queue_create(beside.device, &error);
    assert_good(beside.queue, error);
    return beside;
}

static void beside_close(struct beside *beside)
{
    struct error error = { 0 };
    assert_good(queue_wait(beside->queue, &error), error);
    queue_free(beside->queue);
    device_close(beside->device);
}

// What is not written in both is 0xff in both, a NaN.
static void must_agree(struct cuda_rig *rig, const struct values *got, const struct values *want, size_t count,
                       const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (!isnan(value_at(rig, want, i)) || !isnan(value_at(rig, got, i)))
            must_be_near(rig, (double)value_at(rig, got, i), (double)value_at(rig, want, i), 1e-5, what, i);
}

static void floats_must_agree(struct cuda_rig *rig, const float *got, const float *want, size_t count,
                              const char *what)
{
    for (size_t i = 0; i < count; i++)
        must_be_near(rig, (double)got[i], (double)want[i], 1e-5, what, i);
}

static void check_rows(struct cuda_rig *rig, uint64_t trial)
{
    const struct routing r = some_routing(rig, trial).r;
    struct beside cpu = beside_open(rig);
    const size_t columns = 1 + some_size(rig, 30), all = r.rows * columns, slots = r.most * columns;
    const size_t pairs = r.rows * r.router.top;
    const bool is_gated = trial % 2;
    const struct values *in = some_values(rig, all, 1), *rows = some_values(rig, slots, 1);
    struct values *sorted[] = { out_values(rig, slots), out_values(rig, slots) };
    struct values *sums[] = { out_values(rig, all), out_values(rig, all) };
    float *gates[] = { out_floats(rig, pairs), out_floats(rig, pairs) };
    const struct values *add = trial % 3 ? in : NULL;
    must_launch(cuda_permute(&rig->launch, &r, sorted[0], in, columns, is_gated));
    must_launch(cuda_combine(&rig->launch, &r, sums[0], rows, add, columns, is_gated));
    must_launch(cuda_gate_gradients(&rig->launch, &r, gates[0], in, rows, columns));
    kernel_permute(cpu.queue, &r, sorted[1], in, columns, is_gated);
    kernel_combine(cpu.queue, &r, sums[1], rows, add, columns, is_gated);
    kernel_gate_gradients(cpu.queue, &r, gates[1], in, rows, columns);
    beside_close(&cpu);
    must_agree(rig, sorted[0], sorted[1], slots, "sorted");
    must_agree(rig, sums[0], sums[1], all, "sum");
    floats_must_agree(rig, gates[0], gates[1], pairs, "gradient of a gate");
}

static void rows_go_as_on_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_rows, test_trials(8, 500));
}

static void check_route_backward(struct cuda_rig *rig, uint64_t trial)
{
    const struct routing r = some_routing(rig, trial).r;
    struct beside cpu = beside_open(rig);
    const size_t count = r.rows * r.router.experts;
    const float *gates = some_floats(rig, r.rows * r.router.top, 1);
    struct values *gradient[] = { out_values(rig, count), out_values(rig, count) };
    must_launch(cuda_route_backward(&rig->launch, &r, gradient[0], gates, 0.5f));
    kernel_route_backward(cpu.queue, &r, gradient[1], gates, 0.5f);
    beside_close(&cpu);
    must_agree(rig, gradient[0], gradient[1], count, "gradient of a logit");
}

static void gradients_of_logits_are_those_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_route_backward, test_trials(8, 500));
}

// A member of two, which has some experts alone, and some are on both. The second one's tokens are the same.
static void check_taken(struct cuda_rig *rig, uint64_t trial)
{
    const struct routed routed = some_routing(rig, trial);
    struct routing r = routed.r;
    struct beside cpu = beside_open(rig);
    const size_t experts = r.router.experts, block = routing_block_bytes(experts);
    char *blocks = cuda_rig_bytes(rig, 2 * block / sizeof(double), sizeof(double), true);
    int32_t *kept[] = { places(rig, 2 * experts), places(rig, 2 * experts) };
    int32_t *taken[] = { places(rig, experts), places(rig, experts) };
    struct routing_members members = { .members = 2, .member = trial % 2, .blocks = blocks };
    size_t count = 0;
    for (size_t e = 0; e < experts; e++) {
        members.copied[e / 64] |= (uint64_t)(e % 3 == trial % 3) << e % 64;
        members.own[e / 64] |= (uint64_t)(e % 3 != trial % 3 && e % 2 == 0) << e % 64;
        count += e % 3 == trial % 3 || e % 2 == 0;
    }
    r.elsewhere = r.counted;
    kernel_route_own(cpu.queue, &r, blocks);
    kernel_route_own(cpu.queue, &r, blocks + block);
    members.kept = kept[1], members.taken = taken[1];
    kernel_route_all(cpu.queue, &r, &members, NULL, routed.loss);
    beside_close(&cpu);
    members.kept = kept[0], members.taken = taken[0];
    must_launch(cuda_route_own(&rig->launch, &r, blocks));
    memcpy(blocks + block, blocks, block);
    must_launch(cuda_route_all(&rig->launch, &r, &members, NULL, routed.loss));
    assert_memory_equal(kept[0], kept[1], 2 * experts * sizeof(int32_t));
    assert_memory_equal(taken[0], taken[1], count * sizeof(int32_t));
}

static void rows_of_copied_experts_come_first(void **state)
{
    (void)state;
    cuda_rig_try(check_taken, test_trials(24, 500));
}

// GELU is that of the rounded product. The cpu's is not, which far below 0 is another number in 16 bits.
static void must_be_gelu(struct cuda_rig *rig, const struct values *got, const struct values *of, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double x = (double)value_at(rig, of, i), y = (double)value_at(rig, got, i);
        if (!isnan(x) || !isnan(y))
            must_be_near(rig, y, x / (1 + exp(-x * (1.59576912 + 1.59576912 * 0.044715 * x * x))), 1e-5, "GELU", i);
    }
}

// More rows and columns than a tile has, and fewer; groups without rows. The first groups are given apart.
static void check_products(struct cuda_rig *rig, uint64_t trial)
{
    const struct routing r = some_routing(rig, trial).r;
    struct beside cpu = beside_open(rig);
    const size_t groups = r.router.experts, apart = random_below(&rig->seed, groups);
    const size_t k = 1 + some_size(rig, 30), n = 1 + some_size(rig, trial % 4 ? 20 : 80);
    const struct values *in = some_values(rig, r.most * k, 1), *weight = some_values(rig, groups * k * n, 1);
    const struct values *bias = trial % 3 ? some_values(rig, groups * n, 1) : NULL;
    struct values *out[] = { out_values(rig, r.most * n), out_values(rig, r.most * n) };
    struct values *before[] = { out_values(rig, r.most * n), out_values(rig, r.most * n) };
    const bool has_gelu = trial / 2 % 2;
    struct matmul product = { .m = r.most, .n = n, .k = k, .transpose_b = trial % 2, .a = in, .b = weight,
                              .c = out[0], .bias = bias, .before_gelu = has_gelu ? before[0] : NULL };
    if (apart > 0)
        must_launch(cuda_grouped_matmul(&rig->launch, &product, r.ends, 0, apart));
    struct matmul behind = product;
    behind.b = values_at(weight, rig->precision, apart * k * n);
    behind.bias = bias ? values_at(bias, rig->precision, apart * n) : NULL;
    must_launch(cuda_grouped_matmul(&rig->launch, &behind, r.ends, apart, groups - apart));
    product.c = out[1], product.before_gelu = has_gelu ? before[1] : NULL;
    kernel_grouped_matmul(cpu.queue, &product, r.ends, 0, groups);
    beside_close(&cpu);
    must_agree(rig, has_gelu ? before[0] : out[0], has_gelu ? before[1] : out[1], r.most * n, "product");
    if (has_gelu)
        must_be_gelu(rig, out[0], before[0], r.most * n);
}

static void check_sums(struct cuda_rig *rig, uint64_t trial)
{
    const struct routing r = some_routing(rig, trial).r;
    struct beside cpu = beside_open(rig);
    const size_t groups = r.router.experts, apart = random_below(&rig->seed, groups);
    const size_t m = 1 + some_size(rig, trial % 4 ? 20 : 80), n = 1 + some_size(rig, 20);
    const struct values *in = some_values(rig, r.most * m, 1), *gradient = some_values(rig, r.most * n, 1);
    float *before[2], *sums = some_sums(rig, groups * m * n, &before[0]);
    float *bias = some_sums(rig, groups * n, &before[1]);
    struct matmul product = { .m = m, .n = n, .k = r.most, .transpose_a = true, .a = in, .b = gradient, .sums = sums };
    struct matmul behind = product;
    behind.sums = sums + apart * m * n;
    if (apart > 0) {
        must_launch(cuda_grouped_matmul(&rig->launch, &product, r.ends, 0, apart));
        must_launch(cuda_grouped_sum_columns(&rig->launch, bias, gradient, r.ends, 0, apart, n));
    }
    must_launch(cuda_grouped_matmul(&rig->launch, &behind, r.ends, apart, groups - apart));
    must_launch(cuda_grouped_sum_columns(&rig->launch, bias + apart * n, gradient, r.ends, apart, groups - apart, n));
    product.sums = before[0];
    kernel_grouped_matmul(cpu.queue, &product, r.ends, 0, groups);
    kernel_grouped_sum_columns(cpu.queue, before[1], gradient, r.ends, 0, groups, n);
    beside_close(&cpu);
    floats_must_agree(rig, sums, before[0], groups * m * n, "sum");
    floats_must_agree(rig, bias, before[1], groups * n, "sum of a column");
}

static void products_of_groups_are_those_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_products, test_trials(6, 300));
    cuda_rig_try(check_sums, test_trials(6, 300));
}

static void check_activation(struct cuda_rig *rig, uint64_t trial)
{
    struct beside cpu = beside_open(rig);
    const size_t rows = some_size(rig, 9), columns = 1 + some_size(rig, 40), wide = trial % 2 ? 2 * columns : columns;
    int32_t *used = some_tokens(rig, 1, rows + 1);
    const struct activation activation = { trial % 2, rows, columns, trial % 3 ? used : NULL };
    const struct values *in = some_values(rig, rows * wide, 4), *gradient = some_values(rig, rows * columns, 1);
    struct values *out[] = { out_values(rig, rows * columns), out_values(rig, rows * columns) };
    struct values *again[] = { out_values(rig, rows * columns), out_values(rig, rows * columns) };
    struct values *slopes[] = { out_values(rig, rows * wide), out_values(rig, rows * wide) };
    must_launch(cuda_activate(&rig->launch, &activation, out[0], in));
    must_launch(cuda_activate_backward(&rig->launch, &activation, slopes[0], again[0], gradient, in));
    kernel_activate(cpu.queue, &activation, out[1], in);
    kernel_activate_backward(cpu.queue, &activation, slopes[1], again[1], gradient, in);
    beside_close(&cpu);
    must_agree(rig, out[0], out[1], rows * columns, "activated");
    must_agree(rig, again[0], out[0], rows * columns, "activated again");
    must_agree(rig, slopes[0], slopes[1], rows * wide, "gradient");
}

static void activations_are_those_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_activation, test_trials(24, 500));
}

static void check_bias(struct cuda_rig *rig, uint64_t trial)
{
    struct beside cpu = beside_open(rig);
    const size_t experts = 1 + some_size(rig, 300);
    float *counts = some_floats(rig, experts, 1), *before, *bias = some_sums(rig, experts, &before);
    for (size_t e = 0; e < experts; e++)
        counts[e] = (float)random_below(&rig->seed, trial % 2 ? 2 : 50);
    must_launch(cuda_move_bias(&rig->launch, bias, counts, experts, 0.25f));
    kernel_move_bias(cpu.queue, before, counts, experts, 0.25f);
    beside_close(&cpu);
    assert_memory_equal(bias, before, experts * sizeof *bias);
}

static void biases_move_as_on_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_bias, test_trials(12, 200));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routing_is_that_of_loops),
        cmocka_unit_test(gradients_of_logits_are_those_of_the_cpu),
        cmocka_unit_test(rows_go_as_on_the_cpu),
        cmocka_unit_test(rows_of_copied_experts_come_first),
        cmocka_unit_test(products_of_groups_are_those_of_the_cpu),
        cmocka_unit_test(activations_are_those_of_the_cpu),
        cmocka_unit_test(biases_move_as_on_the_cpu),
    };
    return cmocka_run_group_tests_name("cuda_experts", tests, NULL, NULL);
}
