// Gradients by rows beside the gradient of the whole matrix. The rows of a list have the same bits, and so has a matrix
// behind an update by the list.
#include "device/table_kernels.h"
#include "tests/device/kernel_rig.h"

enum { MOST_BAGS = 30, MOST_IDS = 5, CALLS = 3 };
static const size_t some_columns[] = { 1, 3, 8, 16, 32, 37, 64, 130 };

static bool does_tables(const struct rig *rig)
{
    return device_precision(rig->device) == PRECISION_FP32;
}

static void must_equal(float got, float want, const char *what, size_t i)
{
    if (memcmp(&got, &want, sizeof got) != 0)
        fail_msg("%s[%zu] is %.9g, should be exactly %.9g", what, i, (double)got, (double)want);
}

// A matrix, its gradient as a whole and as a list, and bags that add to both.
struct tables {
    size_t rows, columns;
    struct row_list list;
    float *whole;
    bool *is_touched;
};

static struct tables tables_of(struct rig *rig, size_t rows, size_t columns)
{
    struct tables t = { .columns = columns, .rows = rows };
    const size_t most = (size_t)CALLS * MOST_BAGS * MOST_IDS, room = most < t.rows ? most : t.rows;
    const size_t floats = row_list_bytes(room, t.rows, t.columns) / sizeof(float);
    float *memory = rig_buffer(rig, floats, false);
    t.list = row_list_in(memory, room, t.rows, t.columns);
    *t.list.count = 0;
    t.whole = rig_buffer(rig, t.rows * t.columns, false);
    memset(t.whole, 0, t.rows * t.columns * sizeof(float));
    t.is_touched = calloc(t.rows, sizeof *t.is_touched);
    assert_non_null(t.is_touched);
    return t;
}

static struct tables some_tables(struct rig *rig, uint64_t trial)
{
    const size_t rows = trial % 3 ? 1 + random_below(&rig->seed, 20) : 1 + random_below(&rig->seed, 400);
    return tables_of(rig, rows, some_columns[trial % 8]);
}

static struct bags some_bags(struct rig *rig, const struct tables *t, uint64_t trial)
{
    struct bags bags = { .count = random_below(&rig->seed, MOST_BAGS + 1), .rows = t->rows, .columns = t->columns,
                         .is_mean = trial % 2 };
    int32_t *ends = (int32_t *)(void *)rig_buffer(rig, bags.count, false), end = 0;
    for (size_t b = 0; b < bags.count; b++)
        ends[b] = end += (int32_t)random_below(&rig->seed, MOST_IDS + 1);
    bags.ends = ends;
    bags.most = (size_t)end + 2;
    bags.ids = rig_tokens(rig, bags.most, t->rows);
    for (int32_t i = 0; i < end; i++)
        t->is_touched[bags.ids[i]] = true;
    return bags;
}

// What a pass of a micro-batch does.
static void add_bags(struct rig *rig, struct tables *t, uint64_t trial)
{
    const struct bags bags = some_bags(rig, t, trial);
    const float *gradient = rig_numbers(rig, bags.count * t->columns, 1);
    struct bags listed = bags;
    listed.places = t->list.places;
    kernel_bag_backward(rig->queue, &bags, t->whole, rig_values(rig, gradient));
    kernel_list_rows(rig->queue, &t->list, &bags);
    kernel_bag_backward(rig->queue, &listed, t->list.sums, rig_values(rig, gradient));
    rig_settle(rig);
}

static void the_list_must_have_the_gradient(const struct tables *t)
{
    size_t touched = 0;
    for (size_t row = 0; row < t->rows; row++)
        touched += t->is_touched[row];
    assert_int_equal(*t->list.count, touched);
    for (size_t i = 0; i < touched; i++) {
        const size_t row = (size_t)t->list.numbers[i];
        assert_true(t->is_touched[row]);
        assert_int_equal(t->list.places[row], i);
        for (size_t c = 0; c < t->columns; c++)
            must_equal(t->list.sums[i * t->columns + c], t->whole[row * t->columns + c], "sum", i);
    }
}

// Twice, since a list is used again for each update.
static void check_listing(struct rig *rig, uint64_t trial)
{
    if (!does_tables(rig))
        return;
    struct tables t = some_tables(rig, trial);
    for (int update = 0; update < 2; update++) {
        for (uint64_t call = 0; call < CALLS; call++)
            add_bags(rig, &t, trial + call);
        the_list_must_have_the_gradient(&t);
        *t.list.count = 0;
        memset(t.whole, 0, t.rows * t.columns * sizeof(float));
        memset(t.is_touched, 0, t.rows * sizeof *t.is_touched);
    }
    free(t.is_touched);
}

static void a_list_has_each_row_once_with_the_sum_of_its_gradients(void **state)
{
    (void)state;
    rig_try_everywhere(check_listing, test_trials(60, 1000));
}

// The lists of copies, added up in their order.
static void check_sums(struct rig *rig, uint64_t trial)
{
    if (!does_tables(rig))
        return;
    struct tables sum = some_tables(rig, trial);
    for (uint64_t copy = 0; copy < 3; copy++) {
        struct tables t = tables_of(rig, sum.rows, sum.columns);
        add_bags(rig, &t, trial + copy);
        struct row_list sent = t.list;
        sent.places = NULL;
        kernel_add_list(rig->queue, &sum.list, &sent);
        rig_settle(rig);
        for (size_t i = 0; i < t.rows * t.columns; i++)
            sum.whole[i] += t.whole[i];
        for (size_t row = 0; row < t.rows; row++)
            sum.is_touched[row] |= t.is_touched[row];
        free(t.is_touched);
    }
    the_list_must_have_the_gradient(&sum);
    free(sum.is_touched);
}

static void sums_of_lists_have_the_bits_of_sums_of_gradients(void **state)
{
    (void)state;
    rig_try_everywhere(check_sums, test_trials(60, 1000));
}

// --- updates ---------------------------------------------------------------------------

// Two copies of weights and states: one for the update of the whole matrix, one for that of the list.
struct updated {
    float *weights, *first, *second;
    struct optimizer_span span;
};

static float *copy_of(struct rig *rig, const float *from, size_t count)
{
    float *copy = rig_output(rig, count);
    if (count > 0)
        memcpy(copy, from, count * sizeof *copy);
    return copy;
}

static void some_weights(struct rig *rig, const struct tables *t, size_t kept, struct updated updated[2])
{
    const size_t count = t->rows * t->columns, states = t->rows * kept;
    const float *weights = rig_numbers(rig, count, 1), *first = rig_numbers(rig, states, 1);
    float *second = rig_numbers(rig, states, 1);
    for (size_t i = 0; i < states; i++)
        second[i] = fabsf(second[i]);
    for (int k = 0; k < 2; k++) {
        struct updated *u = &updated[k];
        *u = (struct updated){ copy_of(rig, weights, count), copy_of(rig, kept ? first : NULL, states),
                               copy_of(rig, kept ? second : NULL, states), { 0 } };
        u->span = (struct optimizer_span){ .next = rig_values(rig, u->weights), .weights = rig_values(rig, u->weights),
                                           .first = u->first, .second = u->second, .count = count };
    }
    updated[0].span.gradients = t->whole;
}

static void must_be_alike(const struct tables *t, size_t kept, const struct updated updated[2])
{
    for (size_t i = 0; i < t->rows * t->columns; i++)
        must_equal(updated[1].weights[i], updated[0].weights[i], "weight", i);
    for (size_t i = 0; i < t->rows * kept; i++)
        must_equal(updated[1].first[i], updated[0].first[i], "first", i);
}

static void check_equal_updates(struct rig *rig, uint64_t trial)
{
    if (!does_tables(rig))
        return;
    struct tables t = some_tables(rig, trial);
    const bool is_sgd = trial % 2;
    const size_t kept = is_sgd ? 0 : t.columns;
    struct updated updated[2];
    some_weights(rig, &t, kept, updated);
    for (int k = 0; k < 2; k++) {
        updated[k].weights[0] = -0.0f;  // which a step of 0 leaves as it is
        for (size_t i = 0; i < t.rows * kept; i++)
            updated[k].first[i] = fabsf(updated[k].first[i]);
        updated[k].span.first = is_sgd ? NULL : updated[k].first;
    }
    add_bags(rig, &t, trial);
    const struct sgd sgd = { .rate = 0.3f };
    const struct adagrad adagrad = { .rate = 0.3f, .epsilon = 1e-10f };
    if (is_sgd) {
        kernel_sgd(rig->queue, &sgd, &updated[0].span);
        kernel_sgd_rows(rig->queue, &sgd, &t.list, &updated[1].span);
    } else {
        kernel_adagrad(rig->queue, &adagrad, &updated[0].span);
        kernel_adagrad_rows(rig->queue, &adagrad, &t.list, &updated[1].span, false);
    }
    rig_settle(rig);
    must_be_alike(&t, kept, updated);
    free(t.is_touched);
}

// Rows that change places twice are where they were, and a copy leaves the matrix as it is.
static void check_moves(struct rig *rig, uint64_t trial)
{
    if (!does_tables(rig))
        return;
    struct tables t = some_tables(rig, trial);
    struct updated updated[2];
    some_weights(rig, &t, 0, updated);
    add_bags(rig, &t, trial);
    rig_settle(rig);
    const size_t columns = t.columns, listed = *t.list.count * columns;
    const float *sums = copy_of(rig, t.list.sums, listed), *rows = updated[0].weights;
    kernel_move_rows(rig->queue, &t.list, updated[1].weights, true);
    rig_settle(rig);
    for (size_t i = 0; i < listed; i++) {
        const size_t there = (size_t)t.list.numbers[i / columns] * columns + i % columns;
        must_equal(t.list.sums[i], rows[there], "row", i);
        must_equal(updated[1].weights[there], sums[i], "sum", i);
    }
    kernel_move_rows(rig->queue, &t.list, updated[1].weights, true);
    rig_settle(rig);
    must_be_alike(&t, 0, updated);
    for (size_t i = 0; i < listed; i++)
        must_equal(t.list.sums[i], sums[i], "sum", i);
    kernel_move_rows(rig->queue, &t.list, updated[1].weights, false);
    rig_settle(rig);
    must_be_alike(&t, 0, updated);
    for (size_t i = 0; i < listed; i++)
        must_equal(t.list.sums[i], rows[(size_t)t.list.numbers[i / columns] * columns + i % columns], "copy", i);
    free(t.is_touched);
}

static void rows_change_places_with_sums(void **state)
{
    (void)state;
    rig_try_everywhere(check_moves, test_trials(40, 500));
}

static void sgd_and_adagrad_leave_the_bits_of_an_update_of_all_rows(void **state)
{
    (void)state;
    rig_try_everywhere(check_equal_updates, test_trials(80, 1000));
}

static void check_by_row(struct rig *rig, uint64_t trial)
{
    if (!does_tables(rig))
        return;
    struct tables t = some_tables(rig, trial);
    struct updated updated[2];
    some_weights(rig, &t, 1, updated);
    const float *before = copy_of(rig, updated[0].weights, t.rows * t.columns);
    for (size_t row = 0; row < t.rows; row++)
        updated[0].first[row] = updated[1].first[row] = fabsf(updated[0].first[row]);
    const float *sums = copy_of(rig, updated[0].first, t.rows);
    add_bags(rig, &t, trial);
    const struct adagrad adagrad = { .rate = 0.3f, .epsilon = 1e-8f };
    const struct row_list all = row_list_of_all(t.whole, t.rows, t.columns);
    kernel_adagrad_rows(rig->queue, &adagrad, &all, &updated[0].span, true);
    kernel_adagrad_rows(rig->queue, &adagrad, &t.list, &updated[1].span, true);
    rig_settle(rig);
    must_be_alike(&t, 1, updated);
    for (size_t row = 0; row < t.rows; row++) {
        double squares = 0;
        for (size_t c = 0; c < t.columns; c++)
            squares += (double)t.whole[row * t.columns + c] * (double)t.whole[row * t.columns + c];
        const double sum = (double)sums[row] + squares / (double)t.columns;
        rig_close_to(updated[1].first[row], sum, 1e-6, "sum", row);
        for (size_t c = 0; c < t.columns; c++) {
            const size_t i = row * t.columns + c;
            const double step = (double)t.whole[i] / (sqrt(sum) + 1e-8);
            rig_close_to(updated[1].weights[i], (double)before[i] - (double)adagrad.rate * step, 1e-6, "weight", i);
        }
    }
    free(t.is_touched);
}

static void adagrad_by_row_keeps_the_sum_of_mean_squares(void **state)
{
    (void)state;
    rig_try_everywhere(check_by_row, test_trials(60, 1000));
}

// torch.optim.SparseAdam: step size = rate * sqrt(1 - beta2^t) / (1 - beta1^t), denominator = sqrt(second) + epsilon.
static void check_lazy_adam(struct rig *rig, uint64_t trial)
{
    if (!does_tables(rig))
        return;
    struct tables t = some_tables(rig, trial);
    struct updated updated[2];
    some_weights(rig, &t, t.columns, updated);
    add_bags(rig, &t, trial);
    const struct adamw adamw = { .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-3f,
                                 .update = 1 + trial % 7, .is_lazy = true };
    const double update = (double)adamw.update;
    const double size = (double)adamw.rate * sqrt(1 - pow((double)adamw.beta2, update))
                      / (1 - pow((double)adamw.beta1, update));
    kernel_adamw_rows(rig->queue, &adamw, &t.list, &updated[1].span);
    rig_settle(rig);
    for (size_t i = 0; i < t.rows * t.columns; i++) {
        const struct updated *was = &updated[0], *is = &updated[1];
        const double g = (double)t.whole[i], m = (double)was->first[i], v = (double)was->second[i];
        const double first = m + (g - m) * (1 - (double)adamw.beta1);
        const double second = v + (g * g - v) * (1 - (double)adamw.beta2);
        const bool is_touched = t.is_touched[i / t.columns];
        if (!is_touched) {
            must_equal(is->weights[i], was->weights[i], "weight without a gradient", i);
            must_equal(is->first[i], was->first[i], "first moment without a gradient", i);
            must_equal(is->second[i], was->second[i], "second moment without a gradient", i);
            continue;
        }
        rig_close_to(is->first[i], first, 1e-6, "first", i);
        rig_close_to(is->second[i], second, 1e-6, "second", i);
        rig_close_to(is->weights[i], (double)was->weights[i] - size * first / (sqrt(second) + (double)adamw.epsilon),
                     1e-5, "weight", i);
    }
    free(t.is_touched);
}

static void adam_by_rows_is_that_of_pytorch_and_leaves_other_rows_alone(void **state)
{
    (void)state;
    rig_try_everywhere(check_lazy_adam, test_trials(60, 1000));
}

// --- norms -------------------------------------------------------------------------------

static void check_norm(struct rig *rig, uint64_t trial)
{
    if (!does_tables(rig))
        return;
    struct tables t = some_tables(rig, trial);
    for (uint64_t call = 0; call < CALLS; call++)
        add_bags(rig, &t, trial + call);
    float *norms = rig_output(rig, 5);
    const size_t first = t.rows / 3;
    const struct row_list all = row_list_of_all(t.whole, t.rows, t.columns);
    const struct row_list rest = row_list_of_all(t.whole + first * t.columns, t.rows - first, t.columns);
    kernel_norm_rows(rig->queue, &norms[0], &t.list, 0);
    kernel_norm_rows(rig->queue, &norms[1], &all, 0);
    kernel_norm(rig->queue, &norms[2], t.whole, t.rows * t.columns);
    kernel_norm_rows(rig->queue, &norms[3], &t.list, first);
    kernel_norm_rows(rig->queue, &norms[4], &rest, 0);
    rig_settle(rig);
    must_equal(norms[3], norms[4], "norm of the last rows", 0);
    must_equal(norms[0], norms[1], "norm", 0);
    rig_close_to(norms[0], (double)norms[2], 1e-6, "norm", 0);
    free(t.is_touched);
}

static void a_norm_does_not_depend_on_which_rows_are_listed_and_in_which_order(void **state)
{
    (void)state;
    rig_try_everywhere(check_norm, test_trials(60, 1000));
}

// --- wrong calls ---------------------------------------------------------------------------

static void must_fail(size_t room, const struct bags *bags, const char *words)
{
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    assert_good(queue, error);
    void *memory = device_allocate(device, row_list_bytes(room, 3, 2), &error);
    assert_good(memory, error);
    queue_zero(queue, memory, row_list_bytes(room, 3, 2));
    const struct row_list list = row_list_in(memory, room, 3, 2);
    kernel_list_rows(queue, &list, bags);
    assert_false(queue_wait(queue, &error));
    assert_non_null(strstr(error.text, words));
    device_release(device, memory);
    queue_free(queue);
    device_close(device);
}

static void a_list_that_is_full_or_of_another_matrix_fails_the_queue(void **state)
{
    (void)state;
    const int32_t ends[] = { 3 };
    const struct bags bags = { .ids = (const int32_t[]){ 2, 2, 1 }, .ends = ends, .count = 1, .most = 3, .rows = 3,
                               .columns = 2 };
    struct bags other = bags, wrong = bags;
    other.rows = 4;
    wrong.ids = (const int32_t[]){ 2, 3, 1 };
    must_fail(1, &bags, "a list of rows is full");
    must_fail(3, &other, "a list of rows is for another matrix than its bags");
    must_fail(3, &wrong, "an id is outside of the rows of its table");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_has_each_row_once_with_the_sum_of_its_gradients),
        cmocka_unit_test(sums_of_lists_have_the_bits_of_sums_of_gradients),
        cmocka_unit_test(sgd_and_adagrad_leave_the_bits_of_an_update_of_all_rows),
        cmocka_unit_test(rows_change_places_with_sums),
        cmocka_unit_test(adagrad_by_row_keeps_the_sum_of_mean_squares),
        cmocka_unit_test(adam_by_rows_is_that_of_pytorch_and_leaves_other_rows_alone),
        cmocka_unit_test(a_norm_does_not_depend_on_which_rows_are_listed_and_in_which_order),
        cmocka_unit_test(a_list_that_is_full_or_of_another_matrix_fails_the_queue),
    };
    return cmocka_run_group_tests_name("row_lists", tests, NULL, NULL);
}
