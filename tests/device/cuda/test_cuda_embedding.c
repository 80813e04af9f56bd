#include "tests/device/cuda/cuda_rig.h"

// Rows within one chunk of the sort or over several, of few words or many.
static struct embedding some_embedding(struct cuda_rig *rig, uint64_t trial)
{
    struct embedding e = { .sequence = 1 + some_size(rig, 40), .columns = 1 + some_size(rig, 70) };
    if (trial % 2)
        e.columns = e.columns / 8 * 8 + 8;
    e.rows = trial % 4 == 3 ? 1025 + random_below(&rig->seed, 2500) : some_size(rig, 200);
    e.vocabulary = trial % 3 ? 1 + random_below(&rig->seed, 9) : 1 + random_below(&rig->seed, 5000);
    e.tokens = some_tokens(rig, e.rows, e.vocabulary);
    return e;
}

// Of a vocabulary in parts, some of its words.
static struct embedding some_part(struct cuda_rig *rig, uint64_t trial)
{
    struct embedding e = some_embedding(rig, trial);
    e.first = random_below(&rig->seed, e.vocabulary);
    e.own = 1 + random_below(&rig->seed, e.vocabulary - e.first);
    return e;
}

static bool is_own(const struct embedding *e, size_t row)
{
    return (size_t)e->tokens[row] >= e->first && (size_t)e->tokens[row] < e->first + e->own;
}

static void check_part(struct cuda_rig *rig, uint64_t trial)
{
    const struct embedding e = some_part(rig, trial);
    const struct values *words = some_values(rig, e.own * e.columns, 1);
    const struct values *positions = trial % 2 ? some_values(rig, e.sequence * e.columns, 1) : NULL;
    struct values *out = out_values(rig, e.rows * e.columns), *gradient = some_values(rig, e.rows * e.columns, 1);
    float *of_words = out_floats(rig, e.own * e.columns), *want = some_floats(rig, e.own * e.columns, 0);
    float *of_positions = out_floats(rig, e.sequence * e.columns);
    for (size_t i = 0; i < e.rows * e.columns; i++)
        set_value(rig, gradient, i, (float)random_below(&rig->seed, 100));
    memset(of_words, 0, e.own * e.columns * sizeof *of_words);
    memset(of_positions, 0, e.sequence * e.columns * sizeof *of_positions);
    must_launch(cuda_embedding(&rig->launch, &e, out, words, positions));
    must_launch(cuda_embedding_backward(&rig->launch, &e, of_words, of_positions, gradient));
    assert_int_equal(rig->failure, CUDA_FAILURE_NONE);
    for (size_t i = 0; i < e.rows * e.columns; i++) {
        const size_t row = i / e.columns, c = i % e.columns, word = ((size_t)e.tokens[row] - e.first) * e.columns + c;
        const float position = positions ? value_at(rig, positions, row % e.sequence * e.columns + c) : 0;
        const float own = is_own(&e, row) ? value_at(rig, words, word) : 0;
        must_equal(value_at(rig, out, i), rounded_to(rig->precision, own + position), "out", i);
        if (is_own(&e, row))
            want[word] += value_at(rig, gradient, i);
    }
    for (size_t i = 0; i < e.own * e.columns; i++)
        must_equal(of_words[i], want[i] + 0.0f, "words", i);
}

static void some_of_the_words_are_there_and_get_gradients(void **state)
{
    (void)state;
    cuda_rig_try(check_part, test_trials(12, 200));
}

static void check_embedding(struct cuda_rig *rig, uint64_t trial)
{
    const struct embedding e = some_embedding(rig, trial);
    const struct values *words = some_values(rig, e.vocabulary * e.columns, 1);
    const struct values *positions = some_values(rig, e.sequence * e.columns, 1);
    struct values *out = out_values(rig, e.rows * e.columns);
    must_launch(cuda_embedding(&rig->launch, &e, out, words, positions));
    assert_int_equal(rig->failure, CUDA_FAILURE_NONE);
    for (size_t i = 0; i < e.rows * e.columns; i++) {
        const size_t row = i / e.columns, c = i % e.columns;
        const float sum = value_at(rig, words, (size_t)e.tokens[row] * e.columns + c)
                          + value_at(rig, positions, row % e.sequence * e.columns + c);
        must_equal(value_at(rig, out, i), rounded_to(rig->precision, sum), "out", i);
    }
}

static void words_and_positions_are_added(void **state)
{
    (void)state;
    cuda_rig_try(check_embedding, test_trials(12, 200));
}

static void check_backward(struct cuda_rig *rig, uint64_t trial)
{
    const struct embedding e = some_embedding(rig, trial);
    const size_t words_count = e.vocabulary * e.columns, positions_count = e.sequence * e.columns;
    const struct values *gradient = some_values(rig, e.rows * e.columns, 1);
    float *words_before, *words = some_sums(rig, words_count, &words_before);
    float *positions_before, *positions = some_sums(rig, positions_count, &positions_before);
    must_launch(cuda_embedding_backward(&rig->launch, &e, words, positions, gradient));
    assert_int_equal(rig->failure, CUDA_FAILURE_NONE);
    double *want = calloc(words_count + positions_count, sizeof *want);
    assert_non_null(want);
    for (size_t i = 0; i < words_count + positions_count; i++)
        want[i] = (double)(i < words_count ? words_before[i] : positions_before[i - words_count]);
    for (size_t i = 0; i < e.rows * e.columns; i++) {
        const size_t row = i / e.columns, c = i % e.columns;
        want[(size_t)e.tokens[row] * e.columns + c] += (double)value_at(rig, gradient, i);
        want[words_count + row % e.sequence * e.columns + c] += (double)value_at(rig, gradient, i);
    }
    const double tolerance = 1e-6 * sqrt((double)e.rows + 1);
    for (size_t i = 0; i < words_count; i++)
        if (!(fabs((double)words[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("word %zu has %.9g, should have %.9g", i / e.columns, (double)words[i], want[i]);
    for (size_t i = 0; i < positions_count; i++)
        assert_true(fabs((double)positions[i] - want[words_count + i]) <= 2e-5 * (1 + fabs(want[words_count + i])));
    free(want);
}

static void every_word_gets_the_gradients_of_its_rows(void **state)
{
    (void)state;
    cuda_rig_try(check_backward, test_trials(16, 200));
}

// Whole numbers have one sum, in whichever order.
static void check_exactly(struct cuda_rig *rig, uint64_t trial)
{
    struct embedding e = some_embedding(rig, trial);
    struct values *gradient = some_values(rig, e.rows * e.columns, 1);
    for (size_t i = 0; i < e.rows * e.columns; i++)
        set_value(rig, gradient, i, (float)random_below(&rig->seed, 100));
    float *words = out_floats(rig, e.vocabulary * e.columns), *want = some_floats(rig, e.vocabulary * e.columns, 0);
    float *positions = out_floats(rig, e.sequence * e.columns);
    memset(words, 0, e.vocabulary * e.columns * sizeof *words);
    memset(positions, 0, e.sequence * e.columns * sizeof *positions);
    must_launch(cuda_embedding_backward(&rig->launch, &e, words, positions, gradient));
    for (size_t i = 0; i < e.rows * e.columns; i++)
        want[(size_t)e.tokens[i / e.columns] * e.columns + i % e.columns] += value_at(rig, gradient, i);
    for (size_t i = 0; i < e.vocabulary * e.columns; i++)
        must_equal(words[i], want[i] + 0.0f, "words", i);
}

static void no_row_is_left_out_or_counted_twice(void **state)
{
    (void)state;
    cuda_rig_try(check_exactly, test_trials(8, 100));
}

static void check_wrong_token(struct cuda_rig *rig, uint64_t trial)
{
    struct embedding e = { .rows = 50, .sequence = 10, .columns = 24, .vocabulary = 7 };
    int32_t *tokens = some_tokens(rig, 50, 7);
    tokens[random_below(&rig->seed, 50)] = trial % 2 ? 7 : -1;
    e.tokens = tokens;
    const struct values *words = some_values(rig, 7 * 24, 1), *positions = some_values(rig, 10 * 24, 1);
    const struct values *gradient = some_values(rig, 50 * 24, 1);
    float *before, *words_gradient = some_sums(rig, 7 * 24, &before);
    float *positions_gradient = some_sums(rig, 10 * 24, &before);
    struct values *out = out_values(rig, 50 * 24);
    must_launch(cuda_embedding(&rig->launch, &e, out, words, positions));
    assert_int_equal(rig->failure, CUDA_FAILURE_TOKEN);
    rig->failure = CUDA_FAILURE_NONE;
    must_launch(cuda_embedding_backward(&rig->launch, &e, words_gradient, positions_gradient, gradient));
    assert_int_equal(rig->failure, CUDA_FAILURE_TOKEN);
}

static void a_token_outside_the_vocabulary_is_told_and_nothing_outside_is_touched(void **state)
{
    (void)state;
    cuda_rig_try(check_wrong_token, 4);
}

int main(void)
{
    const struct CMUnitTest cuda_embedding[] = {
        cmocka_unit_test(words_and_positions_are_added),
        cmocka_unit_test(some_of_the_words_are_there_and_get_gradients),
        cmocka_unit_test(every_word_gets_the_gradients_of_its_rows),
        cmocka_unit_test(no_row_is_left_out_or_counted_twice),
        cmocka_unit_test(a_token_outside_the_vocabulary_is_told_and_nothing_outside_is_touched),
    };
    return cmocka_run_group_tests(cuda_embedding, NULL, NULL);
}
