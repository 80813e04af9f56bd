#include "tests/device/kernel_rig.h"

// --- layer norm --------------------------------------------------------------------

struct moments {
    double mean, rstd;
};

static struct moments moments_of(const float *in, size_t columns)
{
    double mean = 0, squares = 0;
    for (size_t c = 0; c < columns; c++)
        mean += (double)in[c] / (double)columns;
    for (size_t c = 0; c < columns; c++)
        squares += ((double)in[c] - mean) * ((double)in[c] - mean);
    return (struct moments){ mean, 1 / sqrt(squares / (double)columns + 1e-5) };
}

static void check_layer_norm(struct rig *rig, uint64_t trial)
{
    struct layer_norm norm = { .rows = 1 + trial % 7, .columns = 1 + rig_size(rig, 200) };
    const size_t count = norm.rows * norm.columns, columns = norm.columns;
    const float *in = rig_numbers(rig, count, 3);
    const float *gains = rig_numbers(rig, columns, 2), *offsets = rig_numbers(rig, columns, 2);
    norm.in = rig_values(rig, in), norm.gain = rig_values(rig, gains), norm.offset = rig_values(rig, offsets);
    float *out = rig_output(rig, count), *again = rig_output(rig, count);
    float *mean = rig_output(rig, norm.rows), *rstd = rig_output(rig, norm.rows);
    kernel_layer_norm(rig->queue, &norm, rig_values(rig, out), mean, rstd);
    kernel_layer_norm_again(rig->queue, &norm, rig_values(rig, again), mean, rstd);
    rig_settle(rig);
    assert_memory_equal(out, again, count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        const struct moments m = moments_of(in + i / columns * columns, columns);
        rig_close_to(mean[i / columns], m.mean, 1e-5, "mean", i / columns);
        rig_close_to(rstd[i / columns], m.rstd, 1e-5, "rstd", i / columns);
        const double h = ((double)in[i] - m.mean) * m.rstd;
        rig_value_close_to(out[i], h * (double)gains[i % columns] + (double)offsets[i % columns], 1e-4, "norm", i);
    }
}

static void layer_norm_equals_its_formula(void **state)
{
    (void)state;
    rig_try_everywhere(check_layer_norm, test_trials(60, 600));
}

static void check_norm_backward(struct rig *rig, uint64_t trial)
{
    struct layer_norm norm = { .rows = 1 + trial % 9, .columns = 2 + rig_size(rig, 150) };
    const size_t rows = norm.rows, columns = norm.columns, count = rows * columns;
    const float *in = rig_numbers(rig, count, 3);
    const float *gains = rig_numbers(rig, columns, 2), *offsets = rig_numbers(rig, columns, 2);
    norm.in = rig_values(rig, in), norm.gain = rig_values(rig, gains), norm.offset = rig_values(rig, offsets);
    const float *gradient = rig_numbers(rig, count, 2), *add = trial % 2 ? rig_numbers(rig, count, 2) : NULL;
    float *mean = rig_numbers(rig, rows, 1), *rstd = rig_numbers(rig, rows, 1);
    for (size_t row = 0; row < rows; row++) {
        const struct moments m = moments_of(in + row * columns, columns);
        mean[row] = (float)m.mean, rstd[row] = (float)m.rstd;
    }
    float *gain_before, *offset_before, *in_gradient = rig_output(rig, count);
    float *gain = rig_sums(rig, columns, &gain_before), *offset = rig_sums(rig, columns, &offset_before);
    kernel_layer_norm_backward_input(rig->queue, &norm, rig_values(rig, in_gradient), rig_values(rig, gradient),
                                     rig_values(rig, add), mean, rstd);
    kernel_layer_norm_backward_weight(rig->queue, &norm, gain, offset, rig_values(rig, gradient), mean, rstd);
    rig_settle(rig);

    for (size_t c = 0; c < columns; c++) {
        double gain_sum = (double)gain_before[c], offset_sum = (double)offset_before[c];
        for (size_t row = 0; row < rows; row++) {
            const struct moments m = moments_of(in + row * columns, columns);
            const size_t at = row * columns + c;
            gain_sum += (double)gradient[at] * ((double)in[at] - m.mean) * m.rstd;
            offset_sum += (double)gradient[at];
        }
        rig_close_to(gain[c], gain_sum, 1e-4, "gain's gradient", c);
        rig_close_to(offset[c], offset_sum, 1e-4, "offset's gradient", c);
    }
    for (size_t row = 0; row < rows; row++) {
        const struct moments m = moments_of(in + row * columns, columns);
        double sum = 0, sum_h = 0;
        for (size_t at = row * columns; at < (row + 1) * columns; at++) {
            const double g = (double)gradient[at] * (double)gains[at % columns];
            sum += g / (double)columns;
            sum_h += g * ((double)in[at] - m.mean) * m.rstd / (double)columns;
        }
        for (size_t at = row * columns; at < (row + 1) * columns; at++) {
            const double g = (double)gradient[at] * (double)gains[at % columns];
            const double h = ((double)in[at] - m.mean) * m.rstd;
            const double want = m.rstd * (g - sum - h * sum_h) + (add ? (double)add[at] : 0);
            rig_value_close_to(in_gradient[at], want, 1e-4, "in's gradient", at);
        }
    }
}

static void layer_norm_backward_equals_its_formulas(void **state)
{
    (void)state;
    rig_try_everywhere(check_norm_backward, test_trials(60, 600));
}

static void check_sum_columns(struct rig *rig, uint64_t trial)
{
    const size_t rows = 1 + trial % 50, columns = rig_size(rig, 300);
    const float *in = rig_numbers(rig, rows * columns, 1);
    float *before, *sums = rig_sums(rig, columns, &before);
    kernel_sum_columns(rig->queue, sums, rig_values(rig, in), rows, columns);
    rig_settle(rig);
    for (size_t c = 0; c < columns; c++) {
        double want = (double)before[c];
        for (size_t row = 0; row < rows; row++)
            want += (double)in[row * columns + c];
        rig_close_to(sums[c], want, 1e-5, "sum", c);
    }
}

static void columns_are_added_to_what_is_there(void **state)
{
    (void)state;
    rig_try_everywhere(check_sum_columns, test_trials(60, 600));
}

// --- words and loss -----------------------------------------------------------------

static void check_embedding(struct rig *rig, uint64_t trial)
{
    const size_t batch = 1 + trial % 3, sequence = 1 + trial % 11;
    struct embedding e = { .rows = batch * sequence, .sequence = sequence, .columns = rig_size(rig, 80),
                           .vocabulary = 1 + trial % 9 };
    e.tokens = rig_tokens(rig, e.rows, e.vocabulary);
    const float *words = rig_numbers(rig, e.vocabulary * e.columns, 1);
    const float *positions = rig_numbers(rig, sequence * e.columns, 1);
    const float *gradient = rig_numbers(rig, e.rows * e.columns, 1);
    float *words_before, *positions_before, *out = rig_output(rig, e.rows * e.columns);
    float *words_gradient = rig_sums(rig, e.vocabulary * e.columns, &words_before);
    float *positions_gradient = rig_sums(rig, sequence * e.columns, &positions_before);
    kernel_embedding(rig->queue, &e, rig_values(rig, out), rig_values(rig, words), rig_values(rig, positions));
    kernel_embedding_backward(rig->queue, &e, words_gradient, positions_gradient, rig_values(rig, gradient));
    rig_settle(rig);
    for (size_t i = 0; i < e.rows * e.columns; i++) {
        const size_t row = i / e.columns, c = i % e.columns;
        const float word = words[(size_t)e.tokens[row] * e.columns + c];
        assert_true(out[i] == rig_round(word + positions[row % sequence * e.columns + c]));
        words_before[(size_t)e.tokens[row] * e.columns + c] += gradient[i];
        positions_before[row % sequence * e.columns + c] += gradient[i];
    }
    assert_memory_equal(words_gradient, words_before, e.vocabulary * e.columns * sizeof(float));
    assert_memory_equal(positions_gradient, positions_before, sequence * e.columns * sizeof(float));
}

static void words_and_positions_are_added_and_get_their_gradients(void **state)
{
    (void)state;
    rig_try_everywhere(check_embedding, test_trials(60, 600));
}

// Of a vocabulary in parts each row has its word from one of them, and from all others zeros; the first adds positions.
static void check_embedding_in_parts(struct rig *rig, uint64_t trial)
{
    const size_t batch = 1 + trial % 3, sequence = 1 + trial % 11, parts = 1 + trial % 4;
    struct embedding whole = { .sequence = sequence, .rows = batch * sequence, .columns = rig_size(rig, 80) };
    whole.vocabulary = parts * (1 + trial % 5) - (trial % 5 > 0 && trial % 2);  // the last may have one less
    whole.tokens = rig_tokens(rig, whole.rows, whole.vocabulary);
    const size_t numbers = whole.rows * whole.columns, share = (whole.vocabulary + parts - 1) / parts;
    const float *words = rig_numbers(rig, whole.vocabulary * whole.columns, 1);
    const float *positions = rig_numbers(rig, sequence * whole.columns, 1), *gradient = rig_numbers(rig, numbers, 1);
    float *words_before, *positions_before;
    float *words_gradient = rig_sums(rig, whole.vocabulary * whole.columns, &words_before);
    for (size_t part = 0; part < parts; part++) {
        struct embedding e = whole;
        e.first = part * share;
        e.own = whole.vocabulary - e.first < share ? whole.vocabulary - e.first : share;
        float *out = rig_output(rig, numbers);
        float *positions_gradient = rig_sums(rig, sequence * whole.columns, &positions_before);
        const size_t before = e.first * whole.columns;
        kernel_embedding(rig->queue, &e, rig_values(rig, out), rig_values(rig, words + before),
                         part == 0 ? rig_values(rig, positions) : NULL);
        kernel_embedding_backward(rig->queue, &e, words_gradient + before, positions_gradient,
                                  rig_values(rig, gradient));
        rig_settle(rig);
        for (size_t i = 0; i < numbers; i++) {
            const size_t row = i / whole.columns, c = i % whole.columns, token = (size_t)whole.tokens[row];
            const bool is_own = token >= e.first && token < e.first + e.own;
            const float word = is_own ? words[token * whole.columns + c] : 0;
            const float position = part == 0 ? positions[row % sequence * whole.columns + c] : 0;
            assert_true(out[i] == rig_round(word + position));
            positions_before[row % sequence * whole.columns + c] += gradient[i];
            if (is_own)
                words_before[token * whole.columns + c] += gradient[i];
        }
        assert_memory_equal(positions_gradient, positions_before, sequence * whole.columns * sizeof(float));
    }
    assert_memory_equal(words_gradient, words_before, whole.vocabulary * whole.columns * sizeof(float));
}

static void words_in_parts_are_there_once(void **state)
{
    (void)state;
    rig_try_everywhere(check_embedding_in_parts, test_trials(60, 600));
}

// None, little, or a lot of label smoothing.
static float smoothing_of(uint64_t trial)
{
    static const float some[] = { 0, 0.1f, 0.75f };
    return some[trial / 2 % 3];
}

static void check_cross_entropy(struct rig *rig, uint64_t trial)
{
    struct cross_entropy loss = { .rows = 1 + trial % 20, .columns = rig_size(rig, 300), .scale = 1.0f / 7,
                                  .smoothing = smoothing_of(trial) };
    const double smoothing = (double)loss.smoothing, even = smoothing / (double)loss.columns;
    const size_t gap = trial % 3 * (trial % 4 ? 1 : 47);  // as that of a row with padding
    const size_t stride = loss.columns + gap, count = loss.rows * stride;
    loss.stride = gap > 0 ? stride : 0;
    const float *logits = rig_numbers(rig, count, 1 + (double)(trial % 40));
    loss.logits = rig_values(rig, logits);
    int32_t *targets = rig_tokens(rig, loss.rows, loss.columns);
    if (trial % 2)
        targets[trial % loss.rows] = NO_TARGET;
    loss.targets = targets;
    float *sum = rig_output(rig, 1), *log_sums = rig_output(rig, loss.rows), *gradient = rig_output(rig, count);
    kernel_cross_entropy(rig->queue, &loss, sum, log_sums);
    kernel_cross_entropy_backward(rig->queue, &loss, rig_values(rig, gradient), log_sums);
    rig_settle(rig);
    double want = 0;
    for (size_t row = 0; row < loss.rows; row++) {
        double exps = 0, logit_sum = 0;
        for (size_t c = 0; c < loss.columns; c++) {
            exps += exp((double)logits[row * stride + c]);
            logit_sum += (double)logits[row * stride + c];
        }
        rig_close_to(log_sums[row], log(exps), 2e-6, "log sum", row);
        const size_t target = (size_t)loss.targets[row];
        const bool counts = loss.targets[row] != NO_TARGET;
        if (counts)
            want += (log(exps) - (1 - smoothing) * (double)logits[row * stride + target] - even * logit_sum) / 7;
        for (size_t c = 0; c < stride; c++)
            assert_true(counts || gradient[row * stride + c] == 0);
        for (size_t c = 0; counts && c < loss.columns; c++) {
            const double p = exp((double)logits[row * stride + c]) / exps;
            rig_value_close_to(gradient[row * stride + c], (p - (1 - smoothing) * (c == target) - even) / 7, 4e-6,
                               "gradient", c);
        }
        for (size_t c = loss.columns; c < stride; c++)
            assert_true(gradient[row * stride + c] == 0);
    }
    rig_close_to(*sum, want, 1e-5, "loss", 0);
}

static void cross_entropy_equals_its_formulas(void **state)
{
    (void)state;
    rig_try_everywhere(check_cross_entropy, test_trials(60, 600));
}

// The gradient goes over the logits, now and then. On a processor gradient and loss have the bits of the two kernels.
static void check_cross_entropy_in_one(struct rig *rig, uint64_t trial)
{
    struct cross_entropy loss = { .rows = 1 + trial % 20, .columns = rig_size(rig, 300), .scale = 1.0f / 7,
                                  .smoothing = smoothing_of(trial) };
    loss.stride = loss.columns + trial % 3 * (trial % 4 ? 1 : 47);
    const size_t count = loss.rows * loss.stride;
    const float *logits = rig_numbers(rig, count, 1 + (double)(trial % 40));
    int32_t *targets = rig_tokens(rig, loss.rows, loss.columns);
    if (trial % 2)
        targets[trial % loss.rows] = NO_TARGET;
    loss.targets = targets;
    float *sum = rig_output(rig, 1), *log_sums = rig_output(rig, loss.rows), *gradient = rig_output(rig, count);
    struct cross_entropy scaled = loss;
    scaled.scale = 1024.0f / 7;
    loss.logits = scaled.logits = rig_values(rig, logits);
    kernel_cross_entropy(rig->queue, &loss, sum, log_sums);
    kernel_cross_entropy_backward(rig->queue, &scaled, rig_values(rig, gradient), log_sums);
    float *sum_in_one = rig_output(rig, 1), *losses = rig_output(rig, loss.rows), *in_one = rig_output(rig, count);
    if (trial % 2) {
        memcpy(in_one, logits, count * sizeof *logits);
        loss.logits = rig_values(rig, in_one);
    }
    kernel_cross_entropy_both(rig->queue, &loss, sum_in_one, losses, rig_values(rig, in_one), scaled.scale);
    rig_settle(rig);
    for (size_t row = 0; row < loss.rows; row++) {
        double at_target = targets[row] == NO_TARGET ? (double)log_sums[row]
                                                     : (double)logits[row * loss.stride + (size_t)targets[row]];
        const double share = (double)loss.smoothing, of_target = at_target;
        for (size_t c = 0; targets[row] != NO_TARGET && c < loss.columns; c++)
            at_target += share / (double)loss.columns * ((double)logits[row * loss.stride + c] - of_target);
        rig_close_to(losses[row], (double)log_sums[row] - at_target, 4e-6 * (1 + fabs(at_target)), "a row's loss", row);
    }
    if (strncmp(device_name(rig->device), "cpu", 3) == 0) {
        assert_memory_equal(sum_in_one, sum, sizeof *sum);
        assert_memory_equal(in_one, gradient, count * sizeof *gradient);
        return;
    }
    rig_close_to(*sum_in_one, (double)*sum, 1e-5, "loss", 0);
    for (size_t i = 0; i < count; i++)
        rig_value_close_to(in_one[i], (double)gradient[i], 4e-6, "gradient", i);
}

static void cross_entropy_in_one_is_its_forward_and_its_backward(void **state)
{
    (void)state;
    rig_try_everywhere(check_cross_entropy_in_one, test_trials(60, 600));
}

// Each part with logits of its own, as a device that has them does.
static void check_cross_entropy_in_parts(struct rig *rig, uint64_t trial)
{
    const size_t rows = 1 + trial % 20, parts = 1 + trial % 4, columns = rig_size(rig, 100), all = parts * columns;
    int32_t *targets = rig_tokens(rig, rows, all);
    const float scale = 1.0f / 7;
    struct cross_entropy of[4];
    const float *logits[4];
    if (trial % 2)
        targets[trial % rows] = NO_TARGET;
    float *const table = rig_output(rig, (parts + 1) * rows), *gradients[4];
    float *targets_of_parts = rig_output(rig, parts * rows);
    for (size_t p = 0; p < parts; p++) {
        of[p] = (struct cross_entropy){ .targets = targets, .rows = rows, .columns = columns, .scale = scale,
                                        .first = p * columns, .whole = all };
        logits[p] = rig_numbers(rig, rows * columns, 1 + (double)(trial % 40));
        of[p].logits = rig_values(rig, logits[p]);
        gradients[p] = rig_output(rig, rows * columns);
        kernel_cross_entropy_part(rig->queue, &of[p], table + p * rows, targets_of_parts + p * rows);
    }
    rig_settle(rig);
    for (size_t row = 0; row < rows; row++) {
        table[parts * rows + row] = 0;
        for (size_t p = 0; p < parts; p++)
            table[parts * rows + row] += targets_of_parts[p * rows + row];
    }
    float *sum = rig_output(rig, 1), *log_sums = rig_output(rig, rows);
    const struct cross_entropy_parts joined = { table, parts, rows, scale, targets };
    kernel_cross_entropy_join(rig->queue, &joined, sum, log_sums);
    for (size_t p = 0; p < parts; p++)
        kernel_cross_entropy_backward(rig->queue, &of[p], rig_values(rig, gradients[p]), log_sums);
    rig_settle(rig);
    double want = 0;
    for (size_t row = 0; row < rows; row++) {
        const size_t target = (size_t)targets[row];
        double exps = 0;
        for (size_t i = 0; i < all; i++)
            exps += exp((double)logits[i / columns][row * columns + i % columns]);
        rig_close_to(log_sums[row], log(exps), 2e-6, "log sum", row);
        const bool counts = targets[row] != NO_TARGET;
        if (counts)
            want += (log(exps) - (double)logits[target / columns][row * columns + target % columns]) / 7;
        for (size_t i = 0; i < all; i++) {
            const double p = exp((double)logits[i / columns][row * columns + i % columns]) / exps;
            rig_value_close_to(gradients[i / columns][row * columns + i % columns], counts ? (p - (i == target)) / 7 : 0,
                               4e-6, "gradient", i);
        }
    }
    rig_close_to(*sum, want, 1e-5, "loss", 0);
}

static void a_loss_of_columns_in_parts_is_that_of_all(void **state)
{
    (void)state;
    rig_try_everywhere(check_cross_entropy_in_parts, test_trials(60, 600));
}

static struct outside_row {
    const char *name;
    int32_t token;
    bool target;
    const char *sentence;
} outside_rows[] = {
    { "a token past the vocabulary fails the queue", 10, false, "a token is outside the vocabulary" },
    { "a negative token fails the queue", -1, false, "a token is outside the vocabulary" },
    { "a target past the vocabulary fails the queue", 10, true, "a target is outside the vocabulary" },
    { "a target below none fails the queue", NO_TARGET - 1, true, "a target is outside the vocabulary" },
};

static struct values *values(float *floats)
{
    return (struct values *)floats;
}

static void what_is_outside_the_vocabulary_fails_the_queue(void **state)
{
    const struct outside_row *row = *state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    struct queue *queue = queue_create(device, &error), *other = queue_create(device, &error);
    float words[10] = { 0 }, out[10] = { 0 };
    const struct embedding embedding = { .tokens = &row->token, .rows = 1, .sequence = 1, .columns = 1,
                                         .vocabulary = 10 };
    const struct cross_entropy loss = { .logits = values(words), .targets = &row->token, .rows = 1, .columns = 10 };
    if (row->target) {
        kernel_cross_entropy(queue, &loss, out, out);
        kernel_cross_entropy_both(other, &loss, out, out, values(out), 1);
        assert_false(queue_wait(other, &error));
        assert_error(error, row->sentence);
    } else {
        kernel_embedding(queue, &embedding, values(out), values(words), values(words));
    }
    assert_false(queue_wait(queue, &error));
    assert_error(error, row->sentence);
    queue_free(other);
    queue_free(queue);
    device_close(device);
}

// An infinite logit has no part in a loss that is not smoothed.
static void an_infinite_logit_counts_in_a_smoothed_loss_only(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    struct queue *queue = device ? queue_create(device, &error) : NULL;
    assert_good(queue, error);
    float logits[3] = { 0.3f, -INFINITY, 1.7f }, gradient[3], sum = 0, log_sum = 0;
    const int32_t target = 2;
    const struct cross_entropy loss = { .logits = values(logits), .targets = &target, .rows = 1, .columns = 3,
                                        .scale = 1 };
    kernel_cross_entropy(queue, &loss, &sum, &log_sum);
    kernel_cross_entropy_backward(queue, &loss, values(gradient), &log_sum);
    assert_good(queue_wait(queue, &error), error);
    assert_true(sum == (float)((double)log_sum - (double)logits[2]));
    assert_true(gradient[1] == 0 && isfinite(gradient[0]) && isfinite(gradient[2]));
    struct cross_entropy smoothed = loss;
    smoothed.smoothing = 0.1f;
    kernel_cross_entropy(queue, &smoothed, &sum, &log_sum);
    assert_good(queue_wait(queue, &error), error);
    assert_true(sum == INFINITY);
    queue_free(queue);
    device_close(device);
}

static struct smoothing_row {
    const char *name;
    float smoothing;
    size_t whole;
    const char *sentence;
} smoothing_rows[] = {
    { "smoothing of all is refused", 1, 0, "label smoothing is not a number from 0 to below 1" },
    { "negative smoothing is refused", -0.1f, 0, "label smoothing is not a number from 0 to below 1" },
    { "smoothing by NaN is refused", NAN, 0, "label smoothing is not a number from 0 to below 1" },
    { "smoothing of a part of the columns is refused", 0.1f, 6,
      "label smoothing needs all columns of the logits on one device" },
};

static void wrong_smoothing_fails_the_queue(void **state)
{
    const struct smoothing_row *row = *state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    float out[3] = { 0 };
    const int32_t target = 2;
    const struct cross_entropy loss = { .logits = values(out), .targets = &target, .rows = 1, .columns = 3, .scale = 1,
                                        .whole = row->whole, .smoothing = row->smoothing };
    for (int kernel = 0; kernel < 4; kernel++) {
        struct queue *queue = queue_create(device, &error);
        assert_good(queue, error);
        if (kernel == 0)
            kernel_cross_entropy(queue, &loss, out, out);
        else if (kernel == 1)
            kernel_cross_entropy_backward(queue, &loss, values(out), out);
        else if (kernel == 2)
            kernel_cross_entropy_part(queue, &loss, out, out);
        else if (row->whole == 0)
            kernel_cross_entropy_both(queue, &loss, out, out, values(out), 1);
        const bool was_given = kernel < 3 || row->whole == 0;
        assert_true(queue_wait(queue, &error) == !was_given);
        if (was_given)
            assert_error(error, row->sentence);
        queue_free(queue);
    }
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norm_equals_its_formula),
        cmocka_unit_test(layer_norm_backward_equals_its_formulas),
        cmocka_unit_test(columns_are_added_to_what_is_there),
        cmocka_unit_test(words_and_positions_are_added_and_get_their_gradients),
        cmocka_unit_test(words_in_parts_are_there_once),
        cmocka_unit_test(cross_entropy_equals_its_formulas),
        cmocka_unit_test(cross_entropy_in_one_is_its_forward_and_its_backward),
        cmocka_unit_test(a_loss_of_columns_in_parts_is_that_of_all),
        cmocka_unit_test(an_infinite_logit_counts_in_a_smoothed_loss_only),
        TEST_ROW(wrong_smoothing_fails_the_queue, &smoothing_rows[0]),
        TEST_ROW(wrong_smoothing_fails_the_queue, &smoothing_rows[1]),
        TEST_ROW(wrong_smoothing_fails_the_queue, &smoothing_rows[2]),
        TEST_ROW(wrong_smoothing_fails_the_queue, &smoothing_rows[3]),
        TEST_ROW(what_is_outside_the_vocabulary_fails_the_queue, &outside_rows[0]),
        TEST_ROW(what_is_outside_the_vocabulary_fails_the_queue, &outside_rows[1]),
        TEST_ROW(what_is_outside_the_vocabulary_fails_the_queue, &outside_rows[2]),
        TEST_ROW(what_is_outside_the_vocabulary_fails_the_queue, &outside_rows[3]),
    };
    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
