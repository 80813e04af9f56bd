// Lists of rows beside those of the CPU, which tests/device/test_row_lists.c holds against whole gradients. The order
// of the rows in a list may differ. Their sums, and what updates leave behind, must have the bits of the CPU.
#include "tests/device/cuda/cuda_rig.h"

enum { CALLS = 2 };

// A GPU multiplies and adds at once. A processor that cannot leaves other bits.
static bool fuses(void)
{
    struct device *device = device_open("cpu:avx2", &(struct error){ 0 });
    device_close(device);
    return device != NULL;
}

static struct queue *cpu_queue(struct device **device)
{
    struct error error = { 0 };
    *device = device_open(fuses() ? "cpu:avx2" : "cpu:baseline", &error);
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

// Ids within one chunk of the sort or over several, of few rows or many; there is room for more.
static struct bags some_bags(struct cuda_rig *rig, uint64_t trial, size_t rows, size_t columns)
{
    struct bags bags = { .columns = columns, .rows = rows, .is_mean = trial / 2 % 2 };
    bags.count = trial % 4 == 3 ? 400 + random_below(&rig->seed, 200) : some_size(rig, 60);
    int32_t *ends = some_tokens(rig, bags.count, 6), end = 0;
    for (size_t b = 0; b < bags.count; b++)
        ends[b] = end += ends[b];
    bags.ends = ends;
    bags.most = (size_t)end + random_below(&rig->seed, 50);
    bags.ids = some_tokens(rig, bags.most, bags.rows);
    return bags;
}

// Its memory holds anything but the count.
static struct row_list some_list(struct cuda_rig *rig, size_t room, size_t rows, size_t columns)
{
    const struct row_list list = { (uint32_t *)some_tokens(rig, 1, 1),
                                   some_tokens(rig, room, rows), some_tokens(rig, rows, rows),
                                   cuda_rig_bytes(rig, room * columns, sizeof(float), false), room, rows, columns };
    return list;
}

struct pair {
    struct row_list gpu, cpu;
};

static struct pair some_lists(struct cuda_rig *rig, struct queue *queue, uint64_t trial)
{
    const size_t rows = trial % 3 ? 1 + random_below(&rig->seed, 9) : 1 + random_below(&rig->seed, 700);
    const size_t columns = trial % 2 ? some_size(rig, 30) / 8 * 8 + 8 : 1 + some_size(rig, 30);
    const struct pair all = { some_list(rig, rows, rows, columns), some_list(rig, rows, rows, columns) };
    for (uint64_t call = 0; call < CALLS; call++) {
        const bool is_own = trial % 5 > 2;  // which is then added to the others
        const struct pair own = { some_list(rig, rows, rows, columns), some_list(rig, rows, rows, columns) };
        const struct pair pair = is_own ? own : all;
        const struct bags bags = some_bags(rig, trial + call, rows, columns);
        const float *gradient = some_floats(rig, bags.count * columns, 1);
        struct bags on_gpu = bags, on_cpu = bags;
        on_gpu.places = pair.gpu.places, on_cpu.places = pair.cpu.places;
        must_launch(cuda_list_rows(&rig->launch, &pair.gpu, &bags));
        must_launch(cuda_bag_backward(&rig->launch, &on_gpu, pair.gpu.sums, (const struct values *)gradient));
        kernel_list_rows(queue, &pair.cpu, &bags);
        kernel_bag_backward(queue, &on_cpu, pair.cpu.sums, (const struct values *)gradient);
        if (is_own) {
            must_launch(cuda_add_list(&rig->launch, &all.gpu, &own.gpu));
            kernel_add_list(queue, &all.cpu, &own.cpu);
        }
    }
    return all;
}

static void check_lists(struct cuda_rig *rig, uint64_t trial)
{
    if (rig->precision != PRECISION_FP32)
        return;
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    const struct pair pair = some_lists(rig, queue, trial);
    cpu_close(queue, device);
    assert_int_equal(rig->failure, CUDA_FAILURE_NONE);
    assert_int_equal(*pair.gpu.count, *pair.cpu.count);
    for (uint32_t i = 0; i < *pair.cpu.count; i++) {
        const int32_t row = pair.cpu.numbers[i];
        const uint32_t place = (uint32_t)pair.gpu.places[row];
        assert_true(place < *pair.gpu.count && pair.gpu.numbers[place] == row);
        for (size_t c = 0; c < pair.cpu.columns; c++)
            must_equal((double)pair.gpu.sums[place * pair.gpu.columns + c],
                       (double)pair.cpu.sums[i * pair.cpu.columns + c], "sum", c);
    }
}

static void lists_have_the_rows_and_sums_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_lists, test_trials(8, 200));
}

struct updated {
    float *weights, *first, *second;
    struct optimizer_span span;
};

static struct updated some_weights(struct cuda_rig *rig, const struct row_list *list, size_t kept, bool is_output,
                                   uint64_t seed)
{
    const size_t count = list->rows * list->columns, states = list->rows * kept;
    float *floats[3];
    rig->seed = seed;
    for (int i = 0; i < 3; i++) {
        const size_t some = i == 0 ? count : states;
        floats[i] = cuda_rig_bytes(rig, some, sizeof(float), is_output);
        for (size_t k = 0; k < some; k++)
            floats[i][k] = (float)random_unit(&rig->seed);
    }
    return (struct updated){ floats[0], floats[1], floats[2],
                             { .next = (struct values *)floats[0], .weights = (struct values *)floats[0],
                               .first = kept ? floats[1] : NULL, .second = kept ? floats[2] : NULL, .count = count } };
}

static void update_on_gpu(struct cuda_rig *rig, uint64_t trial, const struct row_list *list,
                          const struct optimizer_span *span)
{
    const struct sgd sgd = { .rate = 0.3f };
    const struct adagrad adagrad = { .rate = 0.3f, .epsilon = 1e-10f };
    const struct adamw adamw = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-3f, .update = 3,
                                 .is_lazy = true };
    if (trial % 4 == 0)
        must_launch(cuda_sgd_rows(&rig->launch, &sgd, list, span));
    else if (trial % 4 == 1)
        must_launch(cuda_adamw_rows(&rig->launch, &adamw, list, span));
    else
        must_launch(cuda_adagrad_rows(&rig->launch, &adagrad, list, span, trial % 4 == 3));
}

static void update_on_cpu(struct queue *queue, uint64_t trial, const struct row_list *list,
                          const struct optimizer_span *span)
{
    const struct sgd sgd = { .rate = 0.3f };
    const struct adagrad adagrad = { .rate = 0.3f, .epsilon = 1e-10f };
    const struct adamw adamw = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-3f, .update = 3,
                                 .is_lazy = true };
    if (trial % 4 == 0)
        kernel_sgd_rows(queue, &sgd, list, span);
    else if (trial % 4 == 1)
        kernel_adamw_rows(queue, &adamw, list, span);
    else
        kernel_adagrad_rows(queue, &adagrad, list, span, trial % 4 == 3);
}

// By a list, or by all rows.
static void check_updates(struct cuda_rig *rig, uint64_t trial)
{
    if (rig->precision != PRECISION_FP32)
        return;
    struct device *device;
    struct queue *queue = cpu_queue(&device);
    struct pair pair = some_lists(rig, queue, trial / 4);
    if (trial % 5 == 4) {
        const size_t rows = pair.gpu.rows, columns = pair.gpu.columns;
        float *gradient = some_floats(rig, rows * columns, 1);
        pair.gpu = pair.cpu = row_list_of_all(gradient, rows, columns);
    }
    const size_t kept = trial % 4 == 0 ? 0 : trial % 4 == 3 ? 1 : pair.gpu.columns;
    const uint64_t seed = rig->seed;
    const struct updated gpu = some_weights(rig, &pair.gpu, kept, true, seed);
    const struct updated cpu = some_weights(rig, &pair.gpu, kept, false, seed);
    update_on_gpu(rig, trial, &pair.gpu, &gpu.span);
    update_on_cpu(queue, trial, &pair.cpu, &cpu.span);
    if (trial % 5 != 4) {
        must_launch(cuda_move_rows(&rig->launch, &pair.gpu, gpu.weights, trial % 2));
        kernel_move_rows(queue, &pair.cpu, cpu.weights, trial % 2);
    }
    float norms[2];
    must_launch(cuda_norm_rows(&rig->launch, &norms[0], &pair.gpu, trial % 3));
    kernel_norm_rows(queue, &norms[1], &pair.cpu, trial % 3);
    cpu_close(queue, device);
    assert_true(fabs((double)norms[0] - (double)norms[1]) <= 1e-6 * (1 + (double)norms[1]));
    for (size_t i = 0; fuses() && i < pair.gpu.rows * pair.gpu.columns; i++)
        must_equal((double)gpu.weights[i], (double)cpu.weights[i], "weight", i);
    for (size_t i = 0; fuses() && i < pair.gpu.rows * kept; i++)
        must_equal((double)gpu.first[i], (double)cpu.first[i], "first", i);
    for (size_t i = 0; fuses() && i < pair.gpu.rows * kept; i++)
        must_equal((double)gpu.second[i], (double)cpu.second[i], "second", i);
}

static void updates_of_rows_have_the_bits_of_the_cpu(void **state)
{
    (void)state;
    cuda_rig_try(check_updates, test_trials(20, 400));
}

// Nothing behind the room is written, which the guards see.
static void check_full(struct cuda_rig *rig, uint64_t trial)
{
    const size_t room = 1 + trial % 3;
    const struct row_list list = some_list(rig, room, 5, 3);
    int32_t *ends = some_tokens(rig, 1, 1), *ids = some_tokens(rig, 4, 1);
    for (int32_t i = 0; i < 4; i++)
        ids[i] = i;
    ends[0] = 4;
    const struct bags bags = { .ids = ids, .ends = ends, .count = 1, .most = 4, .rows = 5, .columns = 3 };
    must_launch(cuda_list_rows(&rig->launch, &list, &bags));
    assert_int_equal(rig->failure, CUDA_FAILURE_LIST);
    assert_int_equal(*list.count, room);
    const struct row_list more = some_list(rig, 4, 5, 3);
    *more.count = 4;
    for (int32_t i = 0; i < 4; i++)
        more.numbers[i] = 4 - i;
    rig->failure = CUDA_FAILURE_NONE;
    must_launch(cuda_add_list(&rig->launch, &list, &more));
    assert_int_equal(rig->failure, CUDA_FAILURE_LIST);
    assert_int_equal(*list.count, room);
}

static void a_full_list_is_told(void **state)
{
    (void)state;
    cuda_rig_try(check_full, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_have_the_rows_and_sums_of_the_cpu),
        cmocka_unit_test(updates_of_rows_have_the_bits_of_the_cpu),
        cmocka_unit_test(a_full_list_is_told),
    };
    return cmocka_run_group_tests_name("cuda_row_lists", tests, NULL, NULL);
}
