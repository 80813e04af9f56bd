// Kernels of tables beside loops in double, and beside loops in float that have the stated order of additions. All
// instruction sets must leave the same bits.
#include "device/table_kernels.h"
#include "tests/device/kernel_rig.h"

static const size_t some_columns[] = { 1, 3, 8, 16, 37, 64, 130, 200 };

static bool does_tables(const struct rig *rig)
{
    return device_precision(rig->device) == PRECISION_FP32;
}

// The bits of a trial must be those that the first instruction set left.
enum { MOST_TRIALS = 1000 };

static void must_be_alike(char digits[MOST_TRIALS][HASH_SIZE], uint64_t trial, const void *bytes, size_t count)
{
    char own[HASH_SIZE];
    assert_true(trial < MOST_TRIALS);
    hash_bytes(bytes, count, own);
    if (digits[trial][0] == '\0')
        memcpy(digits[trial], own, HASH_SIZE);
    assert_string_equal(digits[trial], own);
}

static void must_equal(float got, float want, const char *what, size_t i)
{
    if (memcmp(&got, &want, sizeof got) != 0)
        fail_msg("%s[%zu] is %.9g, should be exactly %.9g", what, i, (double)got, (double)want);
}

// --- bags ---------------------------------------------------------------------------

enum { MOST_BAGS = 40, MOST_IDS = 6, SPARE_IDS = 5 };

// Bags of 0 to MOST_IDS ids, by few rows or many. There is room for more ids, which no bag has.
static struct bags some_bags(struct rig *rig, uint64_t trial)
{
    struct bags bags = { .count = random_below(&rig->seed, MOST_BAGS + 1), .columns = some_columns[trial % 8],
                         .rows = trial % 3 ? 1 + random_below(&rig->seed, 9) : 1 + random_below(&rig->seed, 300),
                         .is_mean = trial / 2 % 2 };
    int32_t *ends = (int32_t *)(void *)rig_buffer(rig, bags.count, false), end = 0;
    for (size_t b = 0; b < bags.count; b++)
        ends[b] = end += (int32_t)random_below(&rig->seed, trial % 5 == 4 ? 2 : MOST_IDS + 1);
    bags.ends = ends;
    bags.most = (size_t)end + SPARE_IDS;
    int32_t *ids = rig_tokens(rig, bags.most, bags.rows), *places = rig_tokens(rig, bags.rows, bags.rows);
    for (size_t i = (size_t)end; i < bags.most; i++)
        ids[i] = INT32_MAX;
    for (size_t row = 0; row < bags.rows; row++)
        if (random_below(&rig->seed, 4) == 0)
            places[row] = -1 - (int32_t)random_below(&rig->seed, 5);
    bags.ids = ids;
    bags.weights = trial % 4 == 1 ? rig_numbers(rig, bags.most, 2) : NULL;
    bags.places = trial % 7 == 3 ? places : NULL;
    return bags;
}

static size_t first_of(const struct bags *bags, size_t bag)
{
    return bag > 0 ? (size_t)bags->ends[bag - 1] : 0;
}

static size_t length_of(const struct bags *bags, size_t bag)
{
    return (size_t)bags->ends[bag] - first_of(bags, bag);
}

static int32_t place_of(const struct bags *bags, size_t i)
{
    return bags->places ? bags->places[bags->ids[i]] : bags->ids[i];
}

// Products are rounded by themselves, since the compiler may not fuse what lies in memory.
static float product(float a, float b)
{
    volatile float rounded = a * b;
    return rounded;
}

static float weight_of(const struct bags *bags, size_t i)
{
    return bags->weights ? bags->weights[i] : 1;
}

static void check_bag(struct rig *rig, uint64_t trial)
{
    static char digits[MOST_TRIALS][HASH_SIZE];
    if (!does_tables(rig))
        return;
    const struct bags bags = some_bags(rig, trial);
    const float *matrix = rig_numbers(rig, bags.rows * bags.columns, 1);
    float *out = rig_output(rig, bags.count * bags.columns);
    kernel_bag(rig->queue, &bags, rig_values(rig, out), rig_values(rig, matrix));
    rig_settle(rig);
    for (size_t n = 0; n < bags.count * bags.columns; n++) {
        const size_t bag = n / bags.columns, c = n % bags.columns, length = length_of(&bags, bag);
        float sum = 0;
        double wide = 0;
        for (size_t i = first_of(&bags, bag); i < (size_t)bags.ends[bag]; i++)
            if (place_of(&bags, i) >= 0) {
                const float x = matrix[(size_t)place_of(&bags, i) * bags.columns + c];
                sum += product(x, weight_of(&bags, i));
                wide += (double)x * (double)weight_of(&bags, i);
            }
        rig_close_to(out[n], bags.is_mean && length > 0 ? wide / (double)length : wide, 2e-6, "bag", n);
        must_equal(out[n], bags.is_mean && length > 0 ? product(sum, 1.0f / (float)length) : sum, "bag", n);
        assert_true(length > 0 || out[n] == 0);
    }
    must_be_alike(digits, trial, out, bags.count * bags.columns * sizeof *out);
}

static void bags_are_sums_and_means_of_rows_in_the_order_of_their_ids(void **state)
{
    (void)state;
    rig_try_everywhere(check_bag, test_trials(120, MOST_TRIALS));
}

static void check_bag_backward(struct rig *rig, uint64_t trial)
{
    static char digits[MOST_TRIALS][HASH_SIZE];
    if (!does_tables(rig))
        return;
    const struct bags bags = some_bags(rig, trial);
    const float *gradient = rig_numbers(rig, bags.count * bags.columns, 1);
    float *before, *sums = rig_sums(rig, bags.rows * bags.columns, &before);
    kernel_bag_backward(rig->queue, &bags, sums, rig_values(rig, gradient));
    rig_settle(rig);
    double *wide = calloc(bags.rows * bags.columns, sizeof *wide);
    assert_non_null(wide);
    for (size_t n = 0; n < bags.rows * bags.columns; n++)
        wide[n] = (double)before[n];
    for (size_t bag = 0; bag < bags.count; bag++)
        for (size_t i = first_of(&bags, bag); i < (size_t)bags.ends[bag]; i++)
            for (size_t c = 0; place_of(&bags, i) >= 0 && c < bags.columns; c++) {
                const size_t n = (size_t)place_of(&bags, i) * bags.columns + c;
                const float share = bags.is_mean ? 1.0f / (float)length_of(&bags, bag) : 1;
                const float factor = product(share, weight_of(&bags, i)), g = gradient[bag * bags.columns + c];
                before[n] += product(g, factor);
                wide[n] += (double)g * (double)weight_of(&bags, i) / (bags.is_mean ? (double)length_of(&bags, bag) : 1);
            }
    for (size_t n = 0; n < bags.rows * bags.columns; n++) {
        rig_close_to(sums[n], wide[n], 2e-5, "gradient", n);
        must_equal(sums[n], before[n], "gradient", n);
    }
    free(wide);
    must_be_alike(digits, trial, sums, bags.rows * bags.columns * sizeof *sums);
}

static void each_id_adds_its_gradient_to_its_row_one_after_the_other(void **state)
{
    (void)state;
    rig_try_everywhere(check_bag_backward, test_trials(120, MOST_TRIALS));
}

// All bags at once, or the first ones and then the others.
static void check_going_on(struct rig *rig, uint64_t trial)
{
    if (!does_tables(rig))
        return;
    const struct bags bags = some_bags(rig, trial);
    const size_t half = bags.count / 2, count = bags.rows * bags.columns;
    const size_t past = half > 0 ? (size_t)bags.ends[half - 1] : 0;
    const float *gradient = rig_numbers(rig, bags.count * bags.columns, 1);
    float *before, *whole = rig_sums(rig, count, &before), *halves = rig_output(rig, count);
    memcpy(halves, before, count * sizeof *halves);
    int32_t *ends = rig_tokens(rig, bags.count - half, 1);
    for (size_t b = half; b < bags.count; b++)
        ends[b - half] = bags.ends[b] - (int32_t)past;
    struct bags first = bags, others = bags;
    first.count = half, others.count = bags.count - half;
    others.ids += past, others.ends = ends, others.most -= past;
    others.weights = bags.weights ? bags.weights + past : NULL;
    kernel_bag_backward(rig->queue, &bags, whole, rig_values(rig, gradient));
    kernel_bag_backward(rig->queue, &first, halves, rig_values(rig, gradient));
    kernel_bag_backward(rig->queue, &others, halves, rig_values(rig, gradient + half * bags.columns));
    rig_settle(rig);
    assert_memory_equal(whole, halves, count * sizeof *whole);
}

static void the_sum_goes_on_over_several_calls(void **state)
{
    (void)state;
    rig_try_everywhere(check_going_on, test_trials(60, MOST_TRIALS));
}

// --- interaction --------------------------------------------------------------------

static struct interaction some_interaction(struct rig *rig, uint64_t trial, float **bottom, float **vectors)
{
    struct interaction x = { .samples = random_below(&rig->seed, 5), .count = 2 + random_below(&rig->seed, 39),
                             .columns = some_columns[trial % 8] };
    if (trial % 3 == 0)
        x.count = 1 + random_below(&rig->seed, 3) + (trial % 2 == 0 ? 0 : 1);
    *bottom = trial % 2 == 0 ? rig_numbers(rig, x.samples * x.columns, 1) : NULL;
    *vectors = rig_numbers(rig, x.samples * x.count * x.columns, 1);
    x.bottom = rig_values(rig, *bottom);
    x.vectors = rig_values(rig, *vectors);
    return x;
}

static const float *row_of(const struct interaction *x, const float *bottom, const float *vectors, size_t sample,
                           size_t row)
{
    if (!bottom)
        return vectors + (sample * x->count + row) * x->columns;
    return row == 0 ? bottom + sample * x->columns : vectors + (sample * x->count + row - 1) * x->columns;
}

static void check_interaction(struct rig *rig, uint64_t trial)
{
    static char digits[MOST_TRIALS][HASH_SIZE];
    if (!does_tables(rig))
        return;
    float *bottom, *vectors;
    const struct interaction x = some_interaction(rig, trial, &bottom, &vectors);
    const size_t width = interaction_width(x.count, x.columns, bottom != NULL);
    float *out = rig_output(rig, x.samples * width);
    kernel_interaction(rig->queue, &x, rig_values(rig, out));
    rig_settle(rig);
    const float *next = out;
    for (size_t sample = 0; sample < x.samples; sample++) {
        for (size_t c = 0; bottom && c < x.columns; c++)
            must_equal(*next++, bottom[sample * x.columns + c], "bottom", c);
        for (size_t i = 1; i < interaction_rows(x.count, bottom != NULL); i++)
            for (size_t j = 0; j < i; j++) {
                const float *a = row_of(&x, bottom, vectors, sample, i), *b = row_of(&x, bottom, vectors, sample, j);
                float sum = 0;
                double wide = 0;
                for (size_t c = 0; c < x.columns; c++) {
                    sum += product(a[c], b[c]);
                    wide += (double)a[c] * (double)b[c];
                }
                rig_close_to(*next, wide, 1e-5, "product", i);
                must_equal(*next++, sum, "product", i);
            }
    }
    assert_true(next == out + x.samples * width);
    must_be_alike(digits, trial, out, x.samples * width * sizeof *out);
}

static void interactions_are_all_products_below_the_diagonal(void **state)
{
    (void)state;
    rig_try_everywhere(check_interaction, test_trials(80, MOST_TRIALS));
}

static void check_interaction_backward(struct rig *rig, uint64_t trial)
{
    static char digits[MOST_TRIALS][HASH_SIZE];
    if (!does_tables(rig))
        return;
    float *bottom, *vectors;
    const struct interaction x = some_interaction(rig, trial, &bottom, &vectors);
    const size_t rows = interaction_rows(x.count, bottom != NULL);
    const size_t width = interaction_width(x.count, x.columns, bottom != NULL);
    const float *gradient = rig_numbers(rig, x.samples * width, 1);
    float *of_bottom = bottom ? rig_output(rig, x.samples * x.columns) : NULL;
    float *of_vectors = rig_output(rig, x.samples * x.count * x.columns);
    kernel_interaction_backward(rig->queue, &x, rig_values(rig, of_bottom), rig_values(rig, of_vectors),
                                rig_values(rig, gradient));
    rig_settle(rig);
    for (size_t n = 0; n < x.samples * rows * x.columns; n++) {
        const size_t sample = n / x.columns / rows, i = n / x.columns % rows, c = n % x.columns;
        const float *from = gradient + sample * width, *pairs = from + (bottom ? x.columns : 0);
        float sum = bottom && i == 0 ? from[c] : 0;
        double wide = (double)sum;
        for (size_t j = 0; j < rows; j++) {
            const size_t high = i > j ? i : j, low = i > j ? j : i;
            if (i == j)
                continue;
            const float g = pairs[high * (high - 1) / 2 + low], y = row_of(&x, bottom, vectors, sample, j)[c];
            sum += product(g, y);
            wide += (double)g * (double)y;
        }
        const float got = row_of(&x, of_bottom, of_vectors, sample, i)[c];
        rig_close_to(got, wide, 1e-5, "gradient", n);
        must_equal(got, sum, "gradient", n);
    }
    must_be_alike(digits, trial, of_vectors, x.samples * x.count * x.columns * sizeof *of_vectors);
}

static void each_vector_gets_the_gradients_of_its_products(void **state)
{
    (void)state;
    rig_try_everywhere(check_interaction_backward, test_trials(80, MOST_TRIALS));
}

// --- crosses, sums and logarithms ------------------------------------------------------

static void check_cross(struct rig *rig, uint64_t trial)
{
    static char digits[MOST_TRIALS][HASH_SIZE];
    if (!does_tables(rig))
        return;
    const size_t count = rig_size(rig, 300);
    const bool is_first = trial % 2;
    const float *first = rig_numbers(rig, count, 2), *y = rig_numbers(rig, count, 2);
    const float *add = is_first ? first : rig_numbers(rig, count, 2), *g = rig_numbers(rig, count, 2);
    float *out = rig_output(rig, count), *of_first = rig_output(rig, count), *of_y = rig_output(rig, count);
    float *of_add = is_first ? NULL : rig_output(rig, count);
    kernel_cross(rig->queue, rig_values(rig, out), rig_values(rig, first), rig_values(rig, y), rig_values(rig, add),
                 count);
    kernel_cross_backward(rig->queue, rig_values(rig, of_first), rig_values(rig, of_y), rig_values(rig, of_add),
                          rig_values(rig, g), rig_values(rig, first), rig_values(rig, y), count);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        must_equal(out[i], product(first[i], y[i]) + add[i], "cross", i);
        rig_close_to(of_y[i], (double)g[i] * (double)first[i], 1e-6, "gradient of y", i);
        rig_close_to(of_first[i], (double)g[i] * (double)y[i] + (is_first ? (double)g[i] : 0), 1e-6,
                     "gradient of first", i);
        assert_true(!of_add || memcmp(&of_add[i], &g[i], sizeof g[i]) == 0);
    }
    must_be_alike(digits, trial, of_first, count * sizeof *of_first);
}

static void a_cross_is_a_product_and_a_sum(void **state)
{
    (void)state;
    rig_try_everywhere(check_cross, test_trials(40, MOST_TRIALS));
}

static void check_sum_rows(struct rig *rig, uint64_t trial)
{
    static char digits[MOST_TRIALS][HASH_SIZE];
    if (!does_tables(rig))
        return;
    const size_t rows = rig_size(rig, 20), columns = rig_size(rig, 200);
    const bool is_first = trial % 2;
    const float *in = rig_numbers(rig, rows * columns, 1), *g = rig_numbers(rig, rows, 1);
    float *before, *out = rig_sums(rig, rows, &before), *of_in = rig_output(rig, rows * columns);
    kernel_sum_rows(rig->queue, rig_values(rig, out), rig_values(rig, in), rows, columns, is_first);
    kernel_sum_rows_backward(rig->queue, rig_values(rig, of_in), rig_values(rig, g), rows, columns);
    rig_settle(rig);
    for (size_t row = 0; row < rows; row++) {
        double sum = is_first ? 0 : (double)before[row];
        for (size_t c = 0; c < columns; c++) {
            sum += (double)in[row * columns + c];
            must_equal(of_in[row * columns + c], g[row], "gradient", row);
        }
        rig_close_to(out[row], sum, 1e-5, "sum", row);
    }
    must_be_alike(digits, trial, out, rows * sizeof *out);
}

static void rows_are_added_up_and_their_gradient_is_copied(void **state)
{
    (void)state;
    rig_try_everywhere(check_sum_rows, test_trials(40, MOST_TRIALS));
}

static void check_log_counts(struct rig *rig, uint64_t trial)
{
    if (!does_tables(rig))
        return;
    const size_t count = rig_size(rig, 300);
    float *in = rig_numbers(rig, count, trial % 2 ? 1e6 : 1e-3), *out = rig_output(rig, count);
    in[0] = trial % 3 ? NAN : 0;
    kernel_log_counts(rig->queue, rig_values(rig, out), rig_values(rig, in), count);
    rig_settle(rig);
    for (size_t i = 0; i < count; i++) {
        const double want = log1p(fmax((double)in[i], 0));
        assert_true(isnan(in[i]) ? isnan(out[i]) : fabs((double)out[i] - want) <= 1e-6 * want);
    }
}

static void logarithms_of_counts_are_those_of_double(void **state)
{
    (void)state;
    rig_try_everywhere(check_log_counts, test_trials(20, MOST_TRIALS));
}

// --- the loss ----------------------------------------------------------------------

static void check_loss(struct rig *rig, uint64_t trial)
{
    static char digits[MOST_TRIALS][HASH_SIZE];
    if (!does_tables(rig))
        return;
    const size_t rows = rig_size(rig, 300);
    const bool wants_gradient = trial % 3 > 0;
    const float *logits = rig_numbers(rig, rows, trial % 2 ? 120 : 3);
    int32_t *targets = rig_tokens(rig, rows, 2);
    float *sum = rig_output(rig, 1), *losses = rig_output(rig, rows);
    float *gradient = wants_gradient ? rig_output(rig, rows) : NULL;
    for (size_t row = 0; row < rows; row++)
        targets[row] = random_below(&rig->seed, 5) == 0 ? NO_TARGET : targets[row];
    const struct binary_cross_entropy loss = { rig_values(rig, logits), targets, rows, 0.25f };
    kernel_binary_cross_entropy(rig->queue, &loss, sum, losses, rig_values(rig, gradient));
    rig_settle(rig);
    double total = 0;
    for (size_t row = 0; row < rows; row++) {
        const double x = targets[row] == 1 ? -(double)logits[row] : (double)logits[row];
        const double yes = 1 / (1 + exp(-(double)logits[row]));
        const bool counts = targets[row] != NO_TARGET;
        const double want = counts ? (x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))) : 0;
        assert_true(fabs((double)losses[row] - want) <= 2e-6 * want + 1e-30);
        if (gradient)
            rig_close_to(gradient[row], counts ? 0.25 * (yes - targets[row]) : 0, 1e-6, "gradient", row);
        total += want;
    }
    rig_close_to(*sum, 0.25 * total, 1e-6, "loss", 0);
    must_be_alike(digits, trial, losses, rows * sizeof *losses);
}

static void the_loss_of_a_yes_or_no_is_that_of_double(void **state)
{
    (void)state;
    rig_try_everywhere(check_loss, test_trials(60, MOST_TRIALS));
}

// --- what is refused ------------------------------------------------------------------

static void must_fail(const char *name, void (*call)(struct queue *queue), const char *sentence)
{
    struct error error = { 0 };
    struct device *device = device_open(name, &error);
    struct queue *queue = device ? queue_create(device, &error) : NULL;
    assert_good(queue, error);
    call(queue);
    assert_false(queue_wait(queue, &error));
    assert_string_equal(error.text, sentence);
    queue_free(queue);
    device_close(device);
}

static void call_bag_of(struct queue *queue, const int32_t *ids, const int32_t *ends)
{
    static float matrix[4], out[4];
    const struct bags bags = { .ids = ids, .ends = ends, .count = 2, .most = 3, .rows = 4, .columns = 1 };
    kernel_bag(queue, &bags, (struct values *)out, (const struct values *)matrix);
    kernel_bag_backward(queue, &bags, matrix, (const struct values *)out);
}

static void call_wrong_id(struct queue *queue)
{
    call_bag_of(queue, (int32_t[]){ 0, 4, 0 }, (int32_t[]){ 1, 2 });
}

static void call_negative_id(struct queue *queue)
{
    call_bag_of(queue, (int32_t[]){ 0, -1, 0 }, (int32_t[]){ 1, 2 });
}

static void call_late_wrong_id(struct queue *queue)
{
    static float matrix[4], out[500];
    static int32_t ids[1000], ends[500];
    for (size_t b = 0; b < 500; b++)
        ends[b] = 2 * (int32_t)b + 2;
    ids[777] = 4;
    const struct bags bags = { .ids = ids, .ends = ends, .count = 500, .most = 1000, .rows = 4, .columns = 1 };
    kernel_bag(queue, &bags, (struct values *)out, (const struct values *)matrix);
}

static void call_falling_ends(struct queue *queue)
{
    call_bag_of(queue, (int32_t[]){ 0, 1, 2 }, (int32_t[]){ 2, 1 });
}

static void call_far_end(struct queue *queue)
{
    call_bag_of(queue, (int32_t[]){ 0, 1, 2 }, (int32_t[]){ 2, 4 });
}

static void call_of_one_vector(struct queue *queue)
{
    kernel_interaction(queue, &(struct interaction){ .samples = 1, .count = 1, .columns = 4 }, NULL);
}

static void call_wrong_target(struct queue *queue)
{
    static float logits[2], losses[2], sum;
    const struct binary_cross_entropy loss = { (const struct values *)logits, (int32_t[]){ 0, 2 }, 2, 1 };
    kernel_binary_cross_entropy(queue, &loss, &sum, losses, NULL);
}

static void wrong_calls_fail_the_queue(void **state)
{
    (void)state;
    must_fail("cpu", call_wrong_id, "an id is outside of the rows of its table");
    must_fail("cpu", call_negative_id, "an id is outside of the rows of its table");
    must_fail("cpu", call_late_wrong_id, "an id is outside of the rows of its table");
    must_fail("cpu", call_falling_ends, "the ends of bags do not ascend, or are past the room for ids");
    must_fail("cpu", call_far_end, "the ends of bags do not ascend, or are past the room for ids");
    must_fail("cpu", call_of_one_vector, "an interaction has fewer than two vectors");
    must_fail("cpu", call_wrong_target, "a target of a yes or no is neither 0 nor 1");
    must_fail("cpu:bf16", call_wrong_id, "the kernels of tables need a device in fp32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bags_are_sums_and_means_of_rows_in_the_order_of_their_ids),
        cmocka_unit_test(each_id_adds_its_gradient_to_its_row_one_after_the_other),
        cmocka_unit_test(the_sum_goes_on_over_several_calls),
        cmocka_unit_test(interactions_are_all_products_below_the_diagonal),
        cmocka_unit_test(each_vector_gets_the_gradients_of_its_products),
        cmocka_unit_test(a_cross_is_a_product_and_a_sum),
        cmocka_unit_test(rows_are_added_up_and_their_gradient_is_copied),
        cmocka_unit_test(logarithms_of_counts_are_those_of_double),
        cmocka_unit_test(the_loss_of_a_yes_or_no_is_that_of_double),
        cmocka_unit_test(wrong_calls_fail_the_queue),
    };
    return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
