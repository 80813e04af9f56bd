#include "common/number.h"
#include "tests/device/kernel_rig.h"
#include "tests/device/slow_pattern.h"

// Attention and its gradients the obvious way, in double, one head at a time.
struct slow {
    const struct attention *shape;
    const float *qkv, *gradient;
    double *p, *slope;  // [sequence][sequence]
};

static size_t qkv_at(const struct attention *a, size_t batch, size_t row, size_t part, size_t head, size_t c)
{
    return (((batch * a->sequence + row) * 3 + part) * a->heads + head) * a->size + c;
}

static size_t out_at(const struct attention *a, size_t batch, size_t row, size_t head, size_t c)
{
    return ((batch * a->sequence + row) * a->heads + head) * a->size + c;
}

static double dot(const struct slow *slow, size_t batch, size_t head, size_t i, size_t j)
{
    double sum = 0;
    for (size_t c = 0; c < slow->shape->size; c++)
        sum += (double)slow->qkv[qkv_at(slow->shape, batch, i, 0, head, c)]
             * (double)slow->qkv[qkv_at(slow->shape, batch, j, 1, head, c)];
    return sum / sqrt((double)slow->shape->size);
}

// P of one head; returns the log of row `i`'s sum in log_sums[i].
static void slow_probabilities(const struct slow *slow, size_t batch, size_t head, double *log_sums)
{
    const size_t sequence = slow->shape->sequence;
    for (size_t i = 0; i < sequence; i++) {
        double sum = 0;
        for (size_t j = 0; j < sequence; j++)
            sum += slow->p[i * sequence + j]
                = slow_sees(&slow->shape->pattern, i, j) ? exp(dot(slow, batch, head, i, j)) : 0;
        for (size_t j = 0; j < sequence; j++)
            slow->p[i * sequence + j] /= sum;
        log_sums[i] = log(sum);
    }
}

static void slow_slopes(const struct slow *slow, size_t batch, size_t head)
{
    const struct attention *a = slow->shape;
    for (size_t i = 0; i < a->sequence; i++) {
        double mean = 0;
        for (size_t j = 0; j < a->sequence; j++) {
            double g_v = 0;
            for (size_t c = 0; c < a->size; c++)
                g_v += (double)slow->gradient[out_at(a, batch, i, head, c)]
                     * (double)slow->qkv[qkv_at(a, batch, j, 2, head, c)];
            slow->slope[i * a->sequence + j] = g_v;
            mean += slow->p[i * a->sequence + j] * g_v;
        }
        for (size_t j = 0; j < a->sequence; j++) {
            double *slope = &slow->slope[i * a->sequence + j];
            *slope = slow->p[i * a->sequence + j] * (*slope - mean) / sqrt((double)a->size);
        }
    }
}

static void compare_head(const struct slow *slow, size_t batch, size_t head, const float *out,
                         const float *qkv_gradient)
{
    const struct attention *a = slow->shape;
    for (size_t i = 0; i < a->sequence; i++)
        for (size_t c = 0; c < a->size; c++) {
            double o = 0, dq = 0, dk = 0, dv = 0;
            for (size_t j = 0; j < a->sequence; j++) {
                o += slow->p[i * a->sequence + j] * (double)slow->qkv[qkv_at(a, batch, j, 2, head, c)];
                dq += slow->slope[i * a->sequence + j] * (double)slow->qkv[qkv_at(a, batch, j, 1, head, c)];
                dk += slow->slope[j * a->sequence + i] * (double)slow->qkv[qkv_at(a, batch, j, 0, head, c)];
                dv += slow->p[j * a->sequence + i] * (double)slow->gradient[out_at(a, batch, j, head, c)];
            }
            rig_value_close_to(out[out_at(a, batch, i, head, c)], o, 1e-5, "out", i);
            rig_value_close_to(qkv_gradient[qkv_at(a, batch, i, 0, head, c)], dq, 3e-5, "q's gradient", i);
            rig_value_close_to(qkv_gradient[qkv_at(a, batch, i, 1, head, c)], dk, 3e-5, "k's gradient", i);
            rig_value_close_to(qkv_gradient[qkv_at(a, batch, i, 2, head, c)], dv, 3e-5, "v's gradient", i);
        }
}

// Of either direction.
static void *workspace_for(struct rig *rig, const struct attention *a)
{
    struct error error = { 0 };
    struct attention_bytes bytes;
    assert_good(attention_bytes(rig->device, a, &bytes, &error), error);
    return rig_buffer(rig, round_to_256(max_u64(bytes.forward, bytes.backward)) / sizeof(float), false);
}

enum { MOST_PARTS = 5 };

// What kernels read and write of a part of all sequences.
struct part {
    struct attention shape;
    float *out, *gradient, *log_sums;
};

// Rows of a part, of each sequence or head, to their place among all, or from there.
static void move_rows(float *whole, float *own, const struct part *part, size_t sequences, size_t row, bool to_whole)
{
    const size_t bytes = part->shape.sequence * row * sizeof(float);
    for (size_t i = 0; i < sequences; i++) {
        float *at = whole + (i * attention_whole(&part->shape) + part->shape.first) * row;
        float *mine = own + i * part->shape.sequence * row;
        memcpy(to_whole ? at : mine, to_whole ? mine : at, bytes);
    }
}

static struct part part_of(struct rig *rig, const struct attention *a, size_t parts, size_t p, float *gradient)
{
    const size_t first = a->sequence * p / parts, rows = a->sequence * (p + 1) / parts - first;
    const size_t count = a->batch * rows * a->heads * a->size;
    struct part part = { .shape = *a, .out = rig_output(rig, count), .gradient = rig_buffer(rig, count, false),
                         .log_sums = rig_output(rig, a->batch * a->heads * rows) };
    part.shape.sequence = rows;
    part.shape.first = first;
    part.shape.whole = parts > 1 ? a->sequence : 0;
    move_rows(gradient, part.gradient, &part, a->batch, a->heads * a->size, false);
    return part;
}

// Forward part by part, and backward in reverse.
static void attend(struct rig *rig, const struct attention *a, size_t parts, const float *qkv, float *gradient,
                   float *out, float *log_sums, float *qkv_gradient)
{
    struct part all[MOST_PARTS];
    void *workspace = workspace_for(rig, a);
    for (size_t p = 0; p < parts; p++) {
        const struct part part = all[p] = part_of(rig, a, parts, p, gradient);
        kernel_attention(rig->queue, &part.shape, rig_values(rig, part.out), part.log_sums, rig_values(rig, qkv),
                         workspace);
    }
    for (size_t p = parts; p-- > 0;)
        kernel_attention_backward(rig->queue, &all[p].shape, rig_values(rig, qkv_gradient),
                                  rig_values(rig, all[p].gradient), rig_values(rig, all[p].out), all[p].log_sums,
                                  rig_values(rig, qkv), workspace);
    rig_settle(rig);
    for (size_t p = 0; p < parts; p++) {
        move_rows(out, all[p].out, &all[p], a->batch, a->heads * a->size, true);
        move_rows(log_sums, all[p].log_sums, &all[p], a->batch * a->heads, 1, true);
    }
}

static void check_attention_of(struct rig *rig, const struct attention *a, size_t parts)
{
    const size_t out_count = a->batch * a->sequence * a->heads * a->size;
    const float *qkv = rig_numbers(rig, 3 * out_count, 1.5);
    float *gradient = rig_numbers(rig, out_count, 1);
    float *out = rig_output(rig, out_count), *log_sums = rig_output(rig, a->batch * a->heads * a->sequence);
    float *qkv_gradient = rig_output(rig, 3 * out_count);
    attend(rig, a, parts, qkv, gradient, out, log_sums, qkv_gradient);

    struct slow slow = { a, qkv, gradient, calloc(a->sequence * a->sequence, sizeof(double)),
                         calloc(a->sequence * a->sequence, sizeof(double)) };
    double *slow_sums = calloc(a->sequence, sizeof(double));
    for (size_t batch = 0; batch < a->batch; batch++)
        for (size_t head = 0; head < a->heads; head++) {
            slow_probabilities(&slow, batch, head, slow_sums);
            slow_slopes(&slow, batch, head);
            for (size_t i = 0; i < a->sequence; i++)
                rig_close_to(log_sums[(batch * a->heads + head) * a->sequence + i], slow_sums[i], 3e-6, "log sum", i);
            compare_head(&slow, batch, head, out, qkv_gradient);
        }
    free(slow.p);
    free(slow.slope);
    free(slow_sums);
}

static void check_attention(struct rig *rig, uint64_t trial)
{
    const struct attention a = { .batch = 1 + trial % 2, .sequence = rig_size(rig, 40), .heads = 1 + trial % 3,
                                 .size = rig_size(rig, 40) };
    check_attention_of(rig, &a, 1);
}

static void attention_of_any_size_equals_the_plain_sums(void **state)
{
    (void)state;
    rig_try_everywhere(check_attention, test_trials(30, 600));
}

// Of lengths that no vector or block divides; gradients of keys are rounded as often as they are added to.
static void check_parts(struct rig *rig, uint64_t trial)
{
    const size_t parts = 2 + trial % (MOST_PARTS - 1);
    const struct attention a = { .batch = 1 + trial % 2, .sequence = parts * (1 + rig_size(rig, 60)),
                                 .heads = 1 + trial % 3, .size = rig_size(rig, 24) };
    check_attention_of(rig, &a, parts);
}

static void attention_in_parts_equals_the_plain_sums(void **state)
{
    (void)state;
    rig_try_everywhere(check_parts, test_trials(12, 300));
}

static void check_long_attention(struct rig *rig, uint64_t trial)
{
    static const size_t shapes[][3] = { { 128, 1, 32 }, { 200, 2, 8 }, { 64, 1, 64 }, { 65, 1, 5 } };
    const size_t *shape = shapes[trial % 4];
    const struct attention a = { .batch = 1, .sequence = shape[0], .heads = shape[1], .size = shape[2] };
    check_attention_of(rig, &a, trial < 4 ? 1 : 2 + trial % 2);
}

static void attention_of_several_blocks_equals_the_plain_sums(void **state)
{
    (void)state;
    rig_try_everywhere(check_long_attention, 8);
}

// Windows shorter and longer than the sequence, global tokens and strides, none of which tiles divide; whole and in
// parts.
static void check_patterns(struct rig *rig, uint64_t trial)
{
    const size_t parts = trial % 2 ? 1 : 2 + trial / 2 % (MOST_PARTS - 1);
    const struct attention a = { .batch = 1 + trial % 2, .sequence = parts * (1 + rig_size(rig, 160 / parts)),
                                 .heads = 1 + trial % 3, .size = rig_size(rig, 24),
                                 .pattern = slow_pattern(&rig->seed, 180) };
    check_attention_of(rig, &a, parts);
}

static void attention_with_a_pattern_equals_the_plain_sums(void **state)
{
    (void)state;
    rig_try_everywhere(check_patterns, test_trials(40, 800));
}

// Keys that no query of a tile sees are not touched, whatever they hold.
static void check_unseen(struct rig *rig, uint64_t trial)
{
    (void)trial;
    const struct attention a = { .batch = 1, .sequence = 200, .heads = 1, .size = 16, .pattern = { .window = 20 } };
    float *qkv = rig_numbers(rig, 3 * 200 * 16, 1);
    float *out = rig_output(rig, 200 * 16), *log_sums = rig_output(rig, 200);
    void *workspace = workspace_for(rig, &a);
    for (size_t i = 0; i < 100 * 48; i++)
        qkv[i] = NAN;
    kernel_attention(rig->queue, &a, rig_values(rig, out), log_sums, rig_values(rig, qkv), workspace);
    rig_settle(rig);
    for (size_t i = 0; i < 200 * 16; i++)
        if (i / 16 < 119 || i / 16 >= 119 + 64)  // a tile of any device is no longer
            assert_true(isnan(out[i]) == (i / 16 < 119));
}

static void what_no_query_sees_changes_nothing(void **state)
{
    (void)state;
    rig_try_everywhere(check_unseen, 1);
}

static void check_longer_window(struct rig *rig, uint64_t trial)
{
    const struct attention a = { .batch = 1, .sequence = 70, .heads = 2, .size = 16 };
    struct attention windowed = a;
    windowed.pattern = (struct attention_pattern){ .window = 70 + trial, .stride = 8, .block = 1 };
    const float *qkv = rig_numbers(rig, 3 * 70 * 32, 1);
    float *gradient = rig_numbers(rig, 70 * 32, 1), *log_sums = rig_output(rig, 140);
    float *outs[2], *qkv_gradients[2];
    for (size_t i = 0; i < 2; i++) {
        outs[i] = rig_output(rig, 70 * 32);
        qkv_gradients[i] = rig_output(rig, 3 * 70 * 32);
        attend(rig, i == 0 ? &a : &windowed, 1, qkv, gradient, outs[i], log_sums, qkv_gradients[i]);
    }
    assert_memory_equal(outs[0], outs[1], 70 * 32 * sizeof(float));
    assert_memory_equal(qkv_gradients[0], qkv_gradients[1], 3 * 70 * 32 * sizeof(float));
}

static void a_window_as_long_as_the_sequence_changes_no_bit(void **state)
{
    (void)state;
    rig_try_everywhere(check_longer_window, 2);
}

static void check_causal(struct rig *rig, uint64_t trial)
{
    (void)trial;
    const struct attention a = { .batch = 1, .sequence = 50, .heads = 2, .size = 16 };
    float *qkv = rig_numbers(rig, 3 * 50 * 32, 1);
    float *out = rig_output(rig, 50 * 32), *later = rig_output(rig, 50 * 32), *log_sums = rig_output(rig, 100);
    void *workspace = workspace_for(rig, &a);
    kernel_attention(rig->queue, &a, rig_values(rig, out), log_sums, rig_values(rig, qkv), workspace);
    rig_settle(rig);
    for (size_t i = 30 * 96; i < 50 * 96; i++)
        qkv[i] = rig_precision == PRECISION_FP16 ? rig_large() : 1e30f;  // the future, as seen from the first 30 rows
    kernel_attention(rig->queue, &a, rig_values(rig, later), log_sums, rig_values(rig, qkv), workspace);
    rig_settle(rig);
    assert_memory_equal(out, later, 30 * 32 * sizeof(float));
    assert_memory_not_equal(out + 30 * 32, later + 30 * 32, 32 * sizeof(float));
}

static void the_future_changes_nothing(void **state)
{
    (void)state;
    rig_try_everywhere(check_causal, 1);
}

static void check_nan(struct rig *rig, uint64_t trial)
{
    const struct attention a = { .batch = 1, .sequence = 20, .heads = 1, .size = 16 };
    float *qkv = rig_numbers(rig, 3 * 20 * 16, 1);
    float *out = rig_buffer(rig, 20 * 16, false), *log_sums = rig_output(rig, 20);
    void *workspace = workspace_for(rig, &a);
    qkv[(9 * 3 + trial) * 16 + 3] = NAN;  // of row 9: in q, k or v
    kernel_attention(rig->queue, &a, rig_values(rig, out), log_sums, rig_values(rig, qkv), workspace);
    rig_settle(rig);
    assert_false(isnan(out[0]));
    assert_true(isnan(out[9 * 16 + 3]));
    assert_true(isnan(out[19 * 16 + 3]) == (trial > 0));
}

static void a_nan_reaches_all_who_attend_to_it(void **state)
{
    (void)state;
    rig_try_everywhere(check_nan, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_any_size_equals_the_plain_sums),
        cmocka_unit_test(attention_in_parts_equals_the_plain_sums),
        cmocka_unit_test(attention_of_several_blocks_equals_the_plain_sums),
        cmocka_unit_test(attention_with_a_pattern_equals_the_plain_sums),
        cmocka_unit_test(what_no_query_sees_changes_nothing),
        cmocka_unit_test(a_window_as_long_as_the_sequence_changes_no_bit),
        cmocka_unit_test(the_future_changes_nothing),
        cmocka_unit_test(a_nan_reaches_all_who_attend_to_it),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
