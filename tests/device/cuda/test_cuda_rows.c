#include "tests/device/cuda/cuda_rig.h"

// Columns that one warp takes, or, now and then, a block.
static size_t some_columns(struct cuda_rig *rig, uint64_t trial)
{
    const size_t columns = trial % 6 == 5 ? 2049 + random_below(&rig->seed, 3000) : 2 + some_size(rig, 700);
    return trial % 2 ? columns / 8 * 8 + 8 : columns;
}

// --- layer norm --------------------------------------------------------------------

struct moments {
    double mean, rstd;
};

static struct moments moments_of(const struct cuda_rig *rig, const struct values *in, size_t row, size_t columns)
{
    double mean = 0, squares = 0;
    for (size_t i = row * columns; i < (row + 1) * columns; i++)
        mean += (double)value_at(rig, in, i) / (double)columns;
    for (size_t i = row * columns; i < (row + 1) * columns; i++)
        squares += ((double)value_at(rig, in, i) - mean) * ((double)value_at(rig, in, i) - mean);
    return (struct moments){ mean, 1 / sqrt(squares / (double)columns + 1e-5) };
}

static struct layer_norm some_norm(struct cuda_rig *rig, uint64_t trial)
{
    struct layer_norm norm = { .rows = some_size(rig, 20), .columns = some_columns(rig, trial) };
    norm.in = some_values(rig, norm.rows * norm.columns, 3);
    norm.gain = some_values(rig, norm.columns, 2);
    norm.offset = some_values(rig, norm.columns, 2);
    return norm;
}

static void check_layer_norm(struct cuda_rig *rig, uint64_t trial)
{
    const struct layer_norm norm = some_norm(rig, trial);
    const size_t columns = norm.columns, count = norm.rows * columns;
    struct values *out = out_values(rig, count), *again = out_values(rig, count);
    float *mean = out_floats(rig, norm.rows), *rstd = out_floats(rig, norm.rows);
    must_launch(cuda_layer_norm(&rig->launch, &norm, out, mean, rstd));
    must_launch(cuda_layer_norm_again(&rig->launch, &norm, again, mean, rstd));
    assert_memory_equal(out, again, count * precision_bytes(rig->precision));
    for (size_t row = 0; row < norm.rows; row++) {
        const struct moments m = moments_of(rig, norm.in, row, columns);
        assert_true(fabs((double)mean[row] - m.mean) <= 1e-6 && fabs((double)rstd[row] - m.rstd) <= 2e-6 * m.rstd);
        for (size_t c = 0; c < columns; c++) {
            const double h = ((double)value_at(rig, norm.in, row * columns + c) - m.mean) * m.rstd;
            must_be_near(rig, value_at(rig, out, row * columns + c),
                         h * (double)value_at(rig, norm.gain, c) + (double)value_at(rig, norm.offset, c), 1e-5, "norm",
                         row * columns + c);
        }
    }
}

static void layer_norm_equals_its_formula_and_its_repetition(void **state)
{
    (void)state;
    cuda_rig_try(check_layer_norm, test_trials(12, 300));
}

static void keep_moments(struct cuda_rig *rig, const struct layer_norm *norm, float *mean, float *rstd)
{
    for (size_t row = 0; row < norm->rows; row++) {
        const struct moments m = moments_of(rig, norm->in, row, norm->columns);
        mean[row] = (float)m.mean, rstd[row] = (float)m.rstd;
    }
}

static void check_norm_input(struct cuda_rig *rig, uint64_t trial)
{
    const struct layer_norm norm = some_norm(rig, trial);
    const size_t columns = norm.columns, count = norm.rows * columns;
    const struct values *gradient = some_values(rig, count, 2), *add = trial % 3 ? some_values(rig, count, 2) : NULL;
    float *mean = some_floats(rig, norm.rows, 1), *rstd = some_floats(rig, norm.rows, 1);
    struct values *in_gradient = out_values(rig, count);
    keep_moments(rig, &norm, mean, rstd);
    must_launch(cuda_layer_norm_backward_input(&rig->launch, &norm, in_gradient, gradient, add, mean, rstd));
    for (size_t row = 0; row < norm.rows; row++) {
        const struct moments m = moments_of(rig, norm.in, row, columns);
        double sum = 0, sum_h = 0;
        for (size_t i = row * columns; i < (row + 1) * columns; i++) {
            const double g = (double)value_at(rig, gradient, i) * (double)value_at(rig, norm.gain, i % columns);
            sum += g / (double)columns;
            sum_h += g * ((double)value_at(rig, norm.in, i) - m.mean) * m.rstd / (double)columns;
        }
        for (size_t i = row * columns; i < (row + 1) * columns; i++) {
            const double g = (double)value_at(rig, gradient, i) * (double)value_at(rig, norm.gain, i % columns);
            const double h = ((double)value_at(rig, norm.in, i) - m.mean) * m.rstd;
            const double want = m.rstd * (g - sum - h * sum_h) + (add ? (double)value_at(rig, add, i) : 0);
            must_be_near(rig, value_at(rig, in_gradient, i), want, 1e-5, "in's gradient", i);
        }
    }
}

static void layer_norm_gives_its_input_the_gradient_of_its_formula(void **state)
{
    (void)state;
    cuda_rig_try(check_norm_input, test_trials(12, 300));
}

// --- columns ---------------------------------------------------------------------------

// Few rows, or enough for several tiles down.
static size_t some_rows(struct cuda_rig *rig, uint64_t trial)
{
    return trial % 3 == 2 ? 100 + random_below(&rig->seed, 400) : some_size(rig, 60);
}

static void check_norm_weight(struct cuda_rig *rig, uint64_t trial)
{
    struct layer_norm norm = { .rows = some_rows(rig, trial), .columns = 1 + some_size(rig, 90) };
    const size_t count = norm.rows * norm.columns;
    norm.in = some_values(rig, count, 3);
    const struct values *gradient = some_values(rig, count, 2);
    const float *mean = some_floats(rig, norm.rows, 1), *rstd = some_floats(rig, norm.rows, 2);
    float *gain_before, *gain = some_sums(rig, norm.columns, &gain_before);
    float *offset_before, *offset = some_sums(rig, norm.columns, &offset_before);
    must_launch(cuda_layer_norm_backward_weight(&rig->launch, &norm, gain, offset, gradient, mean, rstd));
    for (size_t c = 0; c < norm.columns; c++) {
        double gain_sum = (double)gain_before[c], offset_sum = (double)offset_before[c], size = 1;
        for (size_t row = 0; row < norm.rows; row++) {
            const double g = (double)value_at(rig, gradient, row * norm.columns + c);
            const double x = (double)value_at(rig, norm.in, row * norm.columns + c);
            gain_sum += g * (x - (double)mean[row]) * (double)rstd[row];
            size += fabs(g * (x - (double)mean[row]) * (double)rstd[row]);
            offset_sum += g;
        }
        assert_true(fabs((double)gain[c] - gain_sum) <= 2e-6 * size);
        assert_true(fabs((double)offset[c] - offset_sum) <= 2e-6 * size + 1e-4);
    }
}

static void layer_norm_adds_to_the_gradients_of_its_weights(void **state)
{
    (void)state;
    cuda_rig_try(check_norm_weight, test_trials(12, 300));
}

static void check_sum_columns(struct cuda_rig *rig, uint64_t trial)
{
    const size_t rows = some_rows(rig, trial), columns = 1 + some_size(rig, 400);
    const struct values *in = some_values(rig, rows * columns, 1);
    float *before, *sums = some_sums(rig, columns, &before);
    must_launch(cuda_sum_columns(&rig->launch, sums, in, rows, columns));
    for (size_t c = 0; c < columns; c++) {
        double want = (double)before[c], size = 1;
        for (size_t row = 0; row < rows; row++) {
            want += (double)value_at(rig, in, row * columns + c);
            size += fabs((double)value_at(rig, in, row * columns + c));
        }
        assert_true(fabs((double)sums[c] - want) <= 1e-6 * size);
    }
}

static void columns_are_added_to_what_is_there(void **state)
{
    (void)state;
    cuda_rig_try(check_sum_columns, test_trials(15, 300));
}

// --- loss -----------------------------------------------------------------------------

// What a row of logits comes to: its log sum, and its loss, 0 without a target.
struct row_loss {
    double log_sum, loss;
};

static struct row_loss loss_of_row(const struct cuda_rig *rig, const struct cross_entropy *loss,
                                   const struct values *logits, size_t row)
{
    double total = 0, logit_sum = 0;
    for (size_t c = 0; c < loss->columns; c++) {
        total += exp((double)value_at(rig, logits, row * loss->stride + c));
        logit_sum += (double)value_at(rig, logits, row * loss->stride + c);
    }
    const int32_t target = loss->targets[row];
    if (target == NO_TARGET)
        return (struct row_loss){ log(total), 0 };
    const double at_target = (double)value_at(rig, logits, row * loss->stride + (size_t)target);
    const double share = (double)loss->smoothing, mean = logit_sum / (double)loss->columns;
    return (struct row_loss){ log(total), log(total) - (1 - share) * at_target - share * mean };
}

static void check_gradient_of_row(const struct cuda_rig *rig, const struct cross_entropy *loss,
                                  const struct values *logits, const struct values *gradient, size_t row,
                                  double scale)
{
    const double log_sum = loss_of_row(rig, loss, logits, row).log_sum;
    const bool counts = loss->targets[row] != NO_TARGET;
    const size_t first = row * loss->stride;
    for (size_t c = 0; !counts && c < loss->columns; c++)
        must_equal(value_at(rig, gradient, first + c), 0, "a gradient without a target", first + c);
    for (size_t c = 0; counts && c < loss->columns; c++) {
        const double share = exp((double)value_at(rig, logits, first + c) - log_sum);
        const double own = c == (size_t)loss->targets[row] ? 1 - (double)loss->smoothing : 0;
        const double even = (double)loss->smoothing / (double)loss->columns;
        must_be_near(rig, value_at(rig, gradient, first + c), (share - own - even) * scale, 1e-5, "logits' gradient",
                     first + c);
    }
    for (size_t c = loss->columns; c < loss->stride; c++)
        must_equal(value_at(rig, gradient, first + c), 0, "a gradient between the rows", first + c);
}

static struct cross_entropy some_loss(struct cuda_rig *rig, uint64_t trial)
{
    struct cross_entropy loss = { .rows = some_size(rig, 20), .columns = some_columns(rig, trial), .scale = 1.0f / 7,
                                  .smoothing = trial % 4 == 1 ? 0.1f : trial % 4 == 2 ? 0.75f : 0 };
    loss.stride = loss.columns + trial % 3 * (trial % 4 ? 4 : 300) + trial % 2;
    loss.logits = some_values(rig, loss.rows * loss.stride, 1 + (double)(trial % 40));
    int32_t *targets = some_tokens(rig, loss.rows, loss.columns);
    if (trial / 2 % 2)
        targets[trial % loss.rows] = NO_TARGET;
    loss.targets = targets;
    return loss;
}

// Where the gradient goes: now and then over the logits, which are copied there.
static struct values *gradient_for(struct cuda_rig *rig, struct cross_entropy *loss, bool is_over)
{
    const size_t count = loss->rows * loss->stride;
    struct values *gradient = out_values(rig, count);
    if (is_over) {
        memcpy(gradient, loss->logits, count * precision_bytes(rig->precision));
        loss->logits = gradient;
    }
    return gradient;
}

static void check_cross_entropy(struct cuda_rig *rig, uint64_t trial)
{
    struct cross_entropy loss = some_loss(rig, trial);
    const struct values *logits = loss.logits;
    float *sum = out_floats(rig, 1), *log_sums = out_floats(rig, loss.rows);
    must_launch(cuda_cross_entropy(&rig->launch, &loss, sum, log_sums));
    struct values *gradient = gradient_for(rig, &loss, trial % 2);
    must_launch(cuda_cross_entropy_backward(&rig->launch, &loss, gradient, log_sums));
    assert_int_equal(rig->failure, CUDA_FAILURE_NONE);
    double want = 0;
    for (size_t row = 0; row < loss.rows; row++) {
        const struct row_loss own = loss_of_row(rig, &loss, logits, row);
        assert_true(fabs((double)log_sums[row] - own.log_sum) <= 1e-5 * (1 + fabs(own.log_sum)));
        want += own.loss;
        check_gradient_of_row(rig, &loss, logits, gradient, row, (double)loss.scale);
    }
    assert_true(fabs((double)*sum - want / 7) <= 1e-5 * (1 + fabs(want)));
}

// With as much shared memory as a row takes, a little less, and none: the same bits.
static void check_both(struct cuda_rig *rig, uint64_t trial)
{
    const struct cross_entropy given = some_loss(rig, trial);
    const size_t bytes = (given.columns + 16 / precision_bytes(rig->precision)) * precision_bytes(rig->precision);
    const size_t shared[] = { bytes + 1024, bytes + 1023, 0 };
    const size_t count = given.rows * given.stride * precision_bytes(rig->precision);
    const float *first_losses = NULL, *first_sum = NULL;
    const struct values *first = NULL;
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        struct cross_entropy loss = given;
        float *sum = out_floats(rig, 1), *losses = out_floats(rig, loss.rows);
        struct values *gradient = gradient_for(rig, &loss, (trial + i) % 2);
        rig->launch.shared_bytes = shared[i];
        must_launch(cuda_cross_entropy_both(&rig->launch, &loss, sum, losses, gradient, 3.0f / 7));
        assert_int_equal(rig->failure, CUDA_FAILURE_NONE);
        first = first ? first : gradient;
        first_losses = first_losses ? first_losses : losses;
        first_sum = first_sum ? first_sum : sum;
        assert_memory_equal(gradient, first, count);
        assert_memory_equal(losses, first_losses, loss.rows * sizeof *losses);
        assert_memory_equal(sum, first_sum, sizeof *sum);
    }
    double want = 0;
    for (size_t row = 0; row < given.rows; row++) {
        const struct row_loss own = loss_of_row(rig, &given, given.logits, row);
        assert_true(fabs((double)first_losses[row] - own.loss) <= 2e-5 * (1 + fabs(own.log_sum)));
        want += own.loss;
        check_gradient_of_row(rig, &given, given.logits, first, row, 3. / 7);
    }
    assert_true(fabs((double)*first_sum - want / 7) <= 1e-5 * (1 + fabs(want)));
}

static void cross_entropy_and_its_gradient_in_one_equal_their_formula(void **state)
{
    (void)state;
    cuda_rig_try(check_both, test_trials(18, 300));
}

// A row as long as GPT-2's, which in 16 bits has room in the shared memory of every GPU of ours, and in fp32 has not.
static void check_vocabulary(struct cuda_rig *rig, uint64_t trial)
{
    (void)trial;
    struct cross_entropy loss = { .rows = 1, .columns = 50257, .stride = 50264, .scale = 1 };
    rig->launch.shared_bytes = 99 << 10;
    loss.logits = some_values(rig, loss.stride, 10);
    loss.targets = some_tokens(rig, 1, loss.columns);
    const struct values *logits = loss.logits;
    float *sum = out_floats(rig, 1), *losses = out_floats(rig, 1);
    struct values *gradient = gradient_for(rig, &loss, true);
    must_launch(cuda_cross_entropy_both(&rig->launch, &loss, sum, losses, gradient, 1024));
    check_gradient_of_row(rig, &loss, logits, gradient, 0, 1024);
    assert_true(*sum == losses[0]);
    assert_true(fabs((double)*sum - loss_of_row(rig, &loss, logits, 0).loss) <= 1e-4);
}

static void so_do_those_of_a_row_of_50257(void **state)
{
    (void)state;
    cuda_rig_try(check_vocabulary, 1);
}

static void cross_entropy_equals_its_formula(void **state)
{
    (void)state;
    cuda_rig_try(check_cross_entropy, test_trials(18, 300));
}

static void check_cross_entropy_in_parts(struct cuda_rig *rig, uint64_t trial)
{
    enum { PARTS = 3 };
    const size_t rows = some_size(rig, 20), columns = some_columns(rig, trial), all = PARTS * columns;
    int32_t *targets = some_tokens(rig, rows, all);
    float *table = out_floats(rig, (PARTS + 1) * rows), *own = out_floats(rig, rows);
    float *found = some_floats(rig, rows, 0), *sum = out_floats(rig, 1), *log_sums = out_floats(rig, rows);
    const struct values *logits[PARTS];
    struct cross_entropy of[PARTS];
    if (trial / 2 % 2)
        targets[trial % rows] = NO_TARGET;
    for (size_t p = 0; p < PARTS; p++) {
        logits[p] = some_values(rig, rows * columns, 1 + (double)(trial % 40));
        of[p] = (struct cross_entropy){ .logits = logits[p], .targets = targets, .rows = rows, .columns = columns,
                                        .stride = columns, .scale = 1.0f / 7, .first = p * columns, .whole = all };
        must_launch(cuda_cross_entropy_part(&rig->launch, &of[p], table + p * rows, own));
        for (size_t row = 0; row < rows; row++)
            found[row] += own[row];
    }
    memcpy(table + PARTS * rows, found, rows * sizeof *found);
    const struct cross_entropy_parts parts = { table, PARTS, rows, 1.0f / 7, targets };
    must_launch(cuda_cross_entropy_join(&rig->launch, &parts, sum, log_sums));
    double want = 0;
    for (size_t row = 0; row < rows; row++) {
        const size_t target = (size_t)targets[row];
        double total = 0;
        for (size_t c = 0; c < all; c++)
            total += exp((double)value_at(rig, logits[c / columns], row * columns + c % columns));
        assert_true(fabs((double)log_sums[row] - log(total)) <= 1e-5 * (1 + fabs(log(total))));
        if (targets[row] == NO_TARGET)
            continue;
        want += log(total) - (double)value_at(rig, logits[target / columns], row * columns + target % columns);
        must_equal(found[row], value_at(rig, logits[target / columns], row * columns + target % columns),
                   "target's logit", row);
    }
    assert_true(fabs((double)*sum - want / 7) <= 1e-5 * (1 + fabs(want)));
    struct values *gradient = out_values(rig, rows * columns);
    const size_t part = trial % PARTS;
    must_launch(cuda_cross_entropy_backward(&rig->launch, &of[part], gradient, log_sums));
    assert_int_equal(rig->failure, CUDA_FAILURE_NONE);
    for (size_t i = 0; i < rows * columns; i++) {
        const bool is_target = (size_t)targets[i / columns] == part * columns + i % columns;
        const double share = exp((double)value_at(rig, logits[part], i) - (double)log_sums[i / columns]);
        const bool counts = targets[i / columns] != NO_TARGET;
        must_be_near(rig, value_at(rig, gradient, i), counts ? (share - is_target) / 7 : 0, 1e-5, "logits' gradient", i);
    }
}

static void cross_entropy_in_parts_is_that_of_all(void **state)
{
    (void)state;
    cuda_rig_try(check_cross_entropy_in_parts, test_trials(18, 300));
}

static void check_wrong_target(struct cuda_rig *rig, uint64_t trial)
{
    struct cross_entropy loss = { .rows = 9, .columns = 40, .stride = 40, .scale = 1 };
    loss.logits = some_values(rig, 9 * 40, 1);
    int32_t *targets = some_tokens(rig, 9, 40);
    targets[random_below(&rig->seed, 9)] = trial % 2 ? 40 : NO_TARGET - 1;
    loss.targets = targets;
    float *sum = out_floats(rig, 1), *log_sums = out_floats(rig, 9);
    struct values *gradient = out_values(rig, 9 * 40);
    must_launch(cuda_cross_entropy(&rig->launch, &loss, sum, log_sums));
    assert_int_equal(rig->failure, CUDA_FAILURE_TARGET);
    rig->failure = CUDA_FAILURE_NONE;
    must_launch(cuda_cross_entropy_backward(&rig->launch, &loss, gradient, log_sums));
    assert_int_equal(rig->failure, CUDA_FAILURE_TARGET);
    rig->failure = CUDA_FAILURE_NONE;
    must_launch(cuda_cross_entropy_both(&rig->launch, &loss, sum, log_sums, gradient, 1));
    assert_int_equal(rig->failure, CUDA_FAILURE_TARGET);
}

static void a_target_outside_the_row_is_told_and_nothing_outside_is_read(void **state)
{
    (void)state;
    cuda_rig_try(check_wrong_target, 4);
}

int main(void)
{
    const struct CMUnitTest cuda_rows[] = {
        cmocka_unit_test(layer_norm_equals_its_formula_and_its_repetition),
        cmocka_unit_test(layer_norm_gives_its_input_the_gradient_of_its_formula),
        cmocka_unit_test(layer_norm_adds_to_the_gradients_of_its_weights),
        cmocka_unit_test(columns_are_added_to_what_is_there),
        cmocka_unit_test(cross_entropy_equals_its_formula),
        cmocka_unit_test(cross_entropy_and_its_gradient_in_one_equal_their_formula),
        cmocka_unit_test(so_do_those_of_a_row_of_50257),
        cmocka_unit_test(cross_entropy_in_parts_is_that_of_all),
        cmocka_unit_test(a_target_outside_the_row_is_told_and_nothing_outside_is_read),
    };
    return cmocka_run_group_tests(cuda_rows, NULL, NULL);
}
