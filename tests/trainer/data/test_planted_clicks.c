// Generated clicks follow the stated formula, and their labels the stated probability.
#include "trainer/data/planted_clicks.h"

#include <math.h>

#include "tests/trainer/clicks.h"
#include "trainer/click_regression.h"

static void load(const struct planted_clicks *request, const char *name, struct sample_data *data)
{
    struct click_writer writer = { .samples = 0 };
    struct error error = { 0 };
    uint64_t train;
    const char *path = clicks_path(name);
    assert_good(planted_clicks_make(request, &writer, &train, &error), error);
    assert_good(click_writer_save(&writer, "make-clicks", "free", train, path, &error), error);
    assert_good(sample_data_load(path, data, &error), error);
    click_writer_clear(&writer);
}

// --- the twin: the header's formula, term by term -----------------------------------------------

static double normal(uint64_t seed, uint64_t what, uint64_t a, uint64_t b)
{
    double sum = 0;
    uint64_t state = seed;
    state = random_next(&state) ^ what;
    state = random_next(&state) ^ a;
    state = random_next(&state) ^ b;
    for (int i = 0; i < 4; i++)
        sum += random_unit(&state);
    return (sum - 2) * sqrt(3);
}

static double bag_mean(const struct planted_clicks *request, const struct click_sample *sample, size_t slot,
                       uint64_t what)
{
    const uint32_t first = slot > 0 ? sample->ends[slot - 1] : 0;
    double sum = 0;
    for (uint32_t i = first; i < sample->ends[slot]; i++)
        sum += normal(request->seed, what, slot, sample->ids[i]);
    return first < sample->ends[slot] ? sum / (sample->ends[slot] - first) : 0;
}

static double twin(const struct planted_clicks *request, const struct click_sample *sample)
{
    const uint64_t pairs = request->slots / 2 < 2 ? request->slots / 2 : 2;
    double z = -1;
    for (uint64_t s = 0; s < request->slots; s++)
        z += bag_mean(request, sample, s, 1) / sqrt((double)request->slots);
    for (uint64_t p = 0; p < pairs; p++)
        z += 1.5 * bag_mean(request, sample, 2 * p, 2) * bag_mean(request, sample, 2 * p + 1, 2) / sqrt((double)pairs);
    for (uint64_t n = 0; n < request->numbers; n++) {
        const double number = (double)sample->numbers[n];
        z += 0.5 * normal(request->seed, 3, n, 0) * ((number < 1 ? 0 : floor(log2(number)) + 1) - 5) / 3
           / sqrt((double)request->numbers);
    }
    return 1 / (1 + exp(-z));
}

static void probabilities_are_those_of_the_formula(void **state)
{
    (void)state;
    static const struct planted_clicks requests[] = {
        { 200, 26, 13, 50, 1, 1 }, { 200, 1, 0, 5, 1, 2 }, { 200, 3, 1, 30, 4, 3 }, { 200, 9, 2, 8, 2, 4 },
    };
    for (size_t r = 0; r < sizeof requests / sizeof requests[0]; r++) {
        struct sample_data data;
        load(&requests[r], "planted.json", &data);
        assert_true(data.train == 180 && data.held == 20 && data.clicks.is_generated
                    && data.clicks.seed == requests[r].seed);
        for (uint64_t i = 0; i < 200; i++) {
            struct click_sample sample;
            click_data_at(&data, (struct sample_place){ i, 0 }, &sample);
            assert_true(fabs(planted_clicks_probability(&requests[r], &sample) - twin(&requests[r], &sample)) < 1e-12);
        }
        sample_data_clear(&data);
    }
}

// All counts are within five standard deviations of what they are drawn from.
static void samples_are_distributed_as_stated(void **state)
{
    (void)state;
    enum { SAMPLES = 20000, IDS = 6 };
    const struct planted_clicks request = { SAMPLES, 2, 1, IDS, 3, 11 };
    struct sample_data data;
    double expected = 0, variance = 0, labels = 0, empty = 0, ids[IDS] = { 0 }, all = 0, wide = 0, negative = 0;
    load(&request, "planted.json", &data);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        struct click_sample sample;
        click_data_at(&data, (struct sample_place){ i, 0 }, &sample);
        const double p = planted_clicks_probability(&request, &sample);
        expected += p;
        variance += p * (1 - p);
        labels += sample.label;
        empty += sample.ends[0] == 0;
        wide += sample.ends[0] == 3;
        negative += sample.numbers[0] < 0;
        for (uint32_t k = 0; k < sample.ends[1]; k++, all++)
            ids[sample.ids[k]]++;
    }
    assert_true(fabs(labels - expected) < 5 * sqrt(variance));
    assert_true(fabs(empty - SAMPLES * 0.05) < 5 * sqrt(SAMPLES * 0.05));
    assert_true(fabs(wide - SAMPLES * 0.95 / 3) < 5 * sqrt(SAMPLES / 3.0));
    assert_true(fabs(negative - SAMPLES * 0.95 / 50) < 5 * sqrt(SAMPLES / 50.0));
    for (int k = 0; k < IDS; k++) {
        const double share = 1 / (k + 1.0) / (1 + 1 / 2.0 + 1 / 3.0 + 1 / 4.0 + 1 / 5.0 + 1 / 6.0);
        assert_true(fabs(ids[k] - all * share) < 5 * sqrt(all * share));
    }
    sample_data_clear(&data);
}

// By all pairs of the held-out samples; and logistic regression stays far below, since it does not know the pairs.
static void the_best_auc_is_that_of_the_probabilities(void **state)
{
    (void)state;
    const struct planted_clicks request = { 12000, 8, 2, 40, 1, 5 };
    struct sample_data data;
    struct click_baseline baseline;
    struct error error = { 0 };
    double wins = 0, pairs = 0;
    load(&request, "planted.json", &data);
    for (uint64_t i = 0; i < data.held; i++) {
        struct click_sample one, other;
        sample_data_click(&data, true, i, &one);
        for (uint64_t k = 0; one.label && k < data.held; k++) {
            sample_data_click(&data, true, k, &other);
            if (other.label)
                continue;
            const double p = planted_clicks_probability(&request, &one);
            const double q = planted_clicks_probability(&request, &other);
            wins += p > q ? 1 : p == q ? 0.5 : 0;
            pairs++;
        }
    }
    assert_int_equal(data.clicks.best_auc_ppm, (uint32_t)round(1e6 * wins / pairs));
    assert_good(click_baseline_find(&data, 1, &baseline, &error), error);
    assert_true(baseline.auc > 0.55 && baseline.auc + 0.05 < wins / pairs);
    sample_data_clear(&data);
}

static void the_same_request_gives_the_same_bytes(void **state)
{
    (void)state;
    struct planted_clicks request = { 300, 5, 3, 70, 2, 9 };
    struct sample_data first, again, other;
    load(&request, "planted.json", &first);
    load(&request, "again.json", &again);
    request.seed = 10;
    load(&request, "other.json", &other);
    assert_string_equal(first.hash, again.hash);
    assert_string_not_equal(first.hash, other.hash);
    assert_string_equal(first.hash, "561559735ff25583b1ee53ebe2d7b1bc");
    sample_data_clear(&first);
    sample_data_clear(&again);
    sample_data_clear(&other);
}

static void labels_that_are_all_the_same_are_refused(void **state)
{
    (void)state;
    const struct planted_clicks request = { 10, 1, 0, 1, 1, 1 };
    struct click_writer writer = { .samples = 0 };
    struct error error = { 0 };
    uint64_t train;
    assert_false(planted_clicks_make(&request, &writer, &train, &error));
    assert_error(error, "the 1 held-out samples all have the same label, so that nothing can be said of them: ask for"
                        " more with --samples");
    click_writer_clear(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probabilities_are_those_of_the_formula),
        cmocka_unit_test(samples_are_distributed_as_stated),
        cmocka_unit_test(the_best_auc_is_that_of_the_probabilities),
        cmocka_unit_test(the_same_request_gives_the_same_bytes),
        cmocka_unit_test(labels_that_are_all_the_same_are_refused),
    };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}
