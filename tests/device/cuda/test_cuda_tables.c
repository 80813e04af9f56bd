// Beside the kernels of the CPU, which tests/device/test_tables.c holds against loops. All but logarithms and losses
// must have their bits.
#include "tests/device/cuda/cuda_rig.h"

static struct queue *cpu_queue(struct device **device)
{
    struct error error = { 0 };
    *device = device_open("cpu:baseline", &error);
    assert_good(*device, error);
    struct queue *queue = queue_create(*device, &error);
    assert_good(queue, error);
    return queue;
}

static void cpu_close(struct queue *queue, struct device *device)
{
    struct error error = { 0 };
    assert_good(queue_wait(queue, &error), error);
    queue_free(queue);
    device_close(device);
}

static struct values *values(float *floats)
{
    return (struct values *)floats;
}

static const struct values *values_of(const float *floats)
{
    return (const struct values *)floats;
}

// Poisoned, without a guard: what the CPU makes.
static float *wanted(struct cuda_rig *rig, size_t count)
{
    return cuda_rig_bytes(rig, count, sizeof(float), false);
}

static void must_all_equal(const float *got, const float *want, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        must_equal((double)got[i], (double)want[i], what, i);
}

static void must_all_be_near(const float *got, const float *want, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= 1e-6 * (1 + fabs((double)want[i]))))
            fail_msg("%s[%zu] is %.9g, should be %.9g", what, i, (double)got[i], (double)want[i]);
}

// Ids within one chunk of the sort or over several, of few rows or many; there is room for more.
static struct bags some_bags(struct cuda_rig *rig, uint64_t trial)
{
    struct bags bags = { .columns = 1 + some_size(rig, 70), .is_mean = trial / 2 % 2,
                         .rows = trial % 3 ? 1 + random_below(&rig->seed, 9) : 1 + random_below(&rig->seed, 3000) };
    if (trial % 2)
        bags.columns = bags.columns / 8 * 8 + 8;
    bags.count = trial % 4 == 3 ? 400 + random_below(&rig->seed, 400) : some_size(rig, 60);
    int32_t *ends = some_tokens(rig, bags.count, 6), *places = some_tokens(rig, bags.rows, bags.rows), end = 0;
    for (size_t b = 0; b < bags.count; b++)
        ends[b] = end += ends[b];
    bags.ends = ends;
    bags.most = (size_t)end + random_below(&rig->seed, 50);
    bags.ids = some_tokens(rig, bags.most, bags.rows);
    for (size_t row = 0; row < bags.rows; row++)
        if (random_below(&rig->seed, 4) == 0)
            places[row] = -3;
    bags.places = trial % 5 == 2 ? places : NULL;
    bags.weights = trial % 3 == 1 ? some_floats(rig, bags.most, 2) : NULL;
    return bags;
}

static void check_bags(struct cuda_rig *rig, uint64_t trial)
{
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    const struct bags bags = some_bags(rig, trial);
    const size_t outs = bags.count * bags.columns, all = bags.rows * bags.columns;
    const float *matrix = some_floats(rig, all, 1), *gradient = some_floats(rig, outs, 1);
    float *out = out_floats(rig, outs), *want = wanted(rig, outs), *before, *sums = some_sums(rig, all, &before);
    must_launch(cuda_bag(&rig->launch, &bags, values(out), values_of(matrix)));
    must_launch(cuda_bag_backward(&rig->launch, &bags, sums, values_of(gradient)));
    assert_int_equal(rig->failure, CUDA_FAILURE_NONE);
    kernel_bag(queue, &bags, values(want), values_of(matrix));
    kernel_bag_backward(queue, &bags, before, values_of(gradient));
    cpu_close(queue, device);
    must_all_equal(out, want, outs, "bag");
    must_all_equal(sums, before, all, "gradient");
}

static void bags_and_their_gradients_have_the_bits_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_bags, test_trials(16, 200));
}

static void check_interaction(struct cuda_rig *rig, uint64_t trial)
{
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    struct interaction x = { .samples = some_size(rig, 4), .count = 2 + some_size(rig, 30),
                             .columns = 1 + some_size(rig, 40) };
    if (trial % 2)
        x.columns = x.columns / 4 * 4 + 4;
    const size_t small = x.samples * x.columns, large = x.count * small;
    x.bottom = trial % 3 ? values(some_floats(rig, small, 1)) : NULL;
    x.vectors = values(some_floats(rig, large, 1));
    const size_t count = x.samples * interaction_width(x.count, x.columns, x.bottom != NULL);
    const float *gradient = some_floats(rig, count, 1);
    float *out = out_floats(rig, count), *want = wanted(rig, count);
    float *of_vectors = out_floats(rig, large), *want_vectors = wanted(rig, large);
    float *of_bottom = x.bottom ? out_floats(rig, small) : NULL, *want_bottom = wanted(rig, small);
    must_launch(cuda_interaction(&rig->launch, &x, values(out)));
    must_launch(cuda_interaction_backward(&rig->launch, &x, values(of_bottom), values(of_vectors),
                                          values_of(gradient)));
    kernel_interaction(queue, &x, values(want));
    kernel_interaction_backward(queue, &x, values(want_bottom), values(want_vectors), values_of(gradient));
    cpu_close(queue, device);
    must_all_equal(out, want, count, "out");
    must_all_equal(of_vectors, want_vectors, large, "gradients of vectors");
    must_all_equal(of_bottom, want_bottom, x.bottom ? small : 0, "gradient of bottom");
}

static void interactions_have_the_bits_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_interaction, test_trials(12, 200));
}

static void check_cross(struct cuda_rig *rig, uint64_t trial)
{
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    const size_t count = some_size(rig, 300);
    const float *first = some_floats(rig, count, 2), *y = some_floats(rig, count, 2), *g = some_floats(rig, count, 2);
    const float *add = trial % 2 ? first : some_floats(rig, count, 2);
    float *out = out_floats(rig, count), *of_first = out_floats(rig, count), *of_y = out_floats(rig, count);
    float *of_add = trial % 2 ? NULL : out_floats(rig, count), *want = wanted(rig, count);
    float *want_first = wanted(rig, count), *want_y = wanted(rig, count), *want_add = wanted(rig, count);
    must_launch(cuda_cross(&rig->launch, values(out), values_of(first), values_of(y), values_of(add), count));
    must_launch(cuda_cross_backward(&rig->launch, values(of_first), values(of_y), values(of_add), values_of(g),
                                    values_of(first), values_of(y), count));
    kernel_cross(queue, values(want), values_of(first), values_of(y), values_of(add), count);
    kernel_cross_backward(queue, values(want_first), values(want_y), of_add ? values(want_add) : NULL, values_of(g),
                          values_of(first), values_of(y), count);
    cpu_close(queue, device);
    must_all_equal(out, want, count, "cross");
    must_all_equal(of_first, want_first, count, "gradient of first");
    must_all_equal(of_y, want_y, count, "gradient of y");
    must_all_equal(of_add, want_add, of_add ? count : 0, "gradient of add");
}

static void crosses_have_the_bits_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_cross, test_trials(12, 200));
}

static void check_sum_rows(struct cuda_rig *rig, uint64_t trial)
{
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    const size_t rows = some_size(rig, 40), columns = 1 + some_size(rig, 100), count = rows * columns;
    const float *in = some_floats(rig, count, 1), *g = some_floats(rig, rows, 1);
    float *before, *out = some_sums(rig, rows, &before), *of_in = out_floats(rig, count), *want = wanted(rig, count);
    must_launch(cuda_sum_rows(&rig->launch, values(out), values_of(in), rows, columns, trial % 2));
    must_launch(cuda_sum_rows_backward(&rig->launch, values(of_in), values_of(g), rows, columns));
    kernel_sum_rows(queue, values(before), values_of(in), rows, columns, trial % 2);
    kernel_sum_rows_backward(queue, values(want), values_of(g), rows, columns);
    cpu_close(queue, device);
    must_all_equal(out, before, rows, "sum");
    must_all_equal(of_in, want, count, "gradient");
}

static void sums_of_rows_have_the_bits_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_sum_rows, test_trials(12, 200));
}

static void check_loss(struct cuda_rig *rig, uint64_t trial)
{
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    const size_t rows = some_size(rig, 600);
    const float *logits = some_floats(rig, rows, trial % 2 ? 30 : 2);
    int32_t *targets = some_tokens(rig, rows, 3);
    for (size_t row = 0; row < rows; row++)
        targets[row] = targets[row] == 2 ? NO_TARGET : targets[row];
    float *sum = out_floats(rig, 1), *losses = out_floats(rig, rows), *logs = out_floats(rig, rows);
    float *gradient = trial % 3 ? out_floats(rig, rows) : NULL, *want_sum = wanted(rig, 1);
    float *want_losses = wanted(rig, rows), *want_gradient = wanted(rig, rows), *want_logs = wanted(rig, rows);
    const struct binary_cross_entropy loss = { values_of(logits), targets, rows, 0.25f };
    must_launch(cuda_binary_cross_entropy(&rig->launch, &loss, sum, losses, values(gradient)));
    must_launch(cuda_log_counts(&rig->launch, values(logs), values_of(logits), rows));
    assert_int_equal(rig->failure, CUDA_FAILURE_NONE);
    kernel_binary_cross_entropy(queue, &loss, want_sum, want_losses, gradient ? values(want_gradient) : NULL);
    kernel_log_counts(queue, values(want_logs), values_of(logits), rows);
    cpu_close(queue, device);
    must_all_be_near(sum, want_sum, 1, "loss");
    must_all_be_near(losses, want_losses, rows, "losses");
    must_all_be_near(logs, want_logs, rows, "logarithms");
    must_all_be_near(gradient, want_gradient, gradient ? rows : 0, "gradient");
}

static void losses_and_logarithms_are_near_those_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_loss, test_trials(12, 100));
}

// Nothing outside is read, and the failure is stored.
static void check_wrong(struct cuda_rig *rig, uint64_t trial)
{
    int32_t *ids = some_tokens(rig, 4, 3), *ends = some_tokens(rig, 3, 1), *targets = some_tokens(rig, 2, 2);
    const struct bags bags = { .ids = ids, .ends = ends, .count = 3, .most = 4, .rows = 3, .columns = 5 };
    const float *matrix = some_floats(rig, 15, 1), *logits = some_floats(rig, 2, 1);
    float *out = out_floats(rig, 15), *before, *sums = some_sums(rig, 15, &before), *losses = out_floats(rig, 3);
    const struct binary_cross_entropy loss = { values_of(logits), targets, 2, 1 };
    ends[0] = 1, ends[1] = trial % 3 == 1 ? 9 : 3, ends[2] = 4;
    ids[2] = trial % 3 == 0 ? trial % 2 ? 3 : -1 : 0;
    targets[1] = trial % 3 == 2 ? 7 : 0;
    must_launch(cuda_bag(&rig->launch, &bags, values(out), values_of(matrix)));
    must_launch(cuda_bag_backward(&rig->launch, &bags, sums, values_of(matrix)));
    must_launch(cuda_binary_cross_entropy(&rig->launch, &loss, losses, losses + 1, NULL));
    static const enum cuda_failure wanted_failures[] = { CUDA_FAILURE_ID, CUDA_FAILURE_BAG, CUDA_FAILURE_ANSWER };
    assert_int_equal(rig->failure, wanted_failures[trial % 3]);
}

static void wrong_ids_ends_and_targets_are_told(void **state)
{
    (void)state;
    cuda_rig_try(check_wrong, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bags_and_their_gradients_have_the_bits_of_the_cpu),
        cmocka_unit_test(interactions_have_the_bits_of_the_cpu),
        cmocka_unit_test(crosses_have_the_bits_of_the_cpu),
        cmocka_unit_test(sums_of_rows_have_the_bits_of_the_cpu),
        cmocka_unit_test(losses_and_logarithms_are_near_those_of_the_cpu),
        cmocka_unit_test(wrong_ids_ends_and_targets_are_told),
    };
    return cmocka_run_group_tests_name("cuda_tables", tests, NULL, NULL);
}
