// Clicks are read as they were written, and from nowhere else.
#include "trainer/data/click_data.h"

#include "tests/trainer/clicks.h"
#include "trainer/model_spec.h"

static const struct random_clicks shapes[] = {
    { 1, 7, 3, 2, 1, 10, 3 }, { 2, 5, 0, 1, 0, 1, 1 }, { 3, 1, 1, 6, 3, 1000, 4 }, { 4, 40, 9, 3, 2, 5, 2 },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void check_sample(const struct random_clicks *clicks, const struct click_sample *sample, uint64_t number)
{
    const struct random_click click = random_click(clicks, number);
    assert_int_equal(sample->label, click.label);
    assert_null(sample->weights);
    for (size_t n = 0; n < clicks->numbers; n++)
        assert_true(sample->numbers[n] == click.numbers[n]);
    for (size_t s = 0; s < clicks->slots; s++)
        assert_int_equal(sample->ends[s], click.ends[s]);
    for (uint32_t i = 0; i < click.ends[clicks->slots - 1]; i++)
        assert_int_equal(sample->ids[i], click.ids[i]);
}

static void samples_are_those_that_were_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct random_clicks *clicks = &shapes[i];
        struct sample_data data;
        struct click_sample sample;
        uint64_t positives[2] = { 0, 0 };
        int32_t label;
        random_clicks_load(clicks, &data);
        for (uint64_t n = 0; n < clicks->train + clicks->held; n++) {
            const bool held = n >= clicks->train;
            assert_true(sample_data_click(&data, held, held ? n - clicks->train : n, &sample));
            check_sample(clicks, &sample, n);
            click_data_at(&data, (struct sample_place){ n, 2 }, &sample);
            check_sample(clicks, &sample, n);
            sample_data_targets(&data, (struct sample_place){ n, 0 }, 1, NULL, &label);
            assert_int_equal(label, sample.label);
            positives[held] += (uint64_t)label;
        }
        assert_false(sample_data_click(&data, false, clicks->train, &sample));
        assert_false(sample_data_click(&data, true, clicks->held, &sample));
        assert_int_equal(click_data_positives(&data, false), positives[0]);
        assert_int_equal(click_data_positives(&data, true), positives[1]);
        sample_data_clear(&data);
    }
}

static void fields_are_those_that_were_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct random_clicks *clicks = &shapes[i];
        struct sample_data data;
        uint64_t most[CLICKS_MOST_SLOTS] = { 0 }, all = 0;
        random_clicks_load(clicks, &data);
        for (uint64_t n = 0; n < clicks->train + clicks->held; n++) {
            const struct random_click click = random_click(clicks, n);
            for (size_t s = 0; s < clicks->slots; s++) {
                const uint64_t count = click.ends[s] - (s > 0 ? click.ends[s - 1] : 0);
                most[s] = count > most[s] ? count : most[s];
                all += count;
            }
        }
        assert_int_equal(click_data_slots(&data), clicks->slots);
        assert_int_equal(click_data_numbers(&data), clicks->numbers);
        assert_int_equal(data.clicks.occurrences, all);
        for (size_t s = 0; s < clicks->slots; s++) {
            assert_int_equal(click_data_ids(&data, s), clicks->ids);
            assert_int_equal(click_data_most(&data, s), most[s] > 0 ? most[s] : 1);
            assert_true(click_data_slot_name(&data, s)[1] == (char)('0' + s));
        }
        sample_data_clear(&data);
    }
}

static void data_without_clicks_have_none(void **state)
{
    (void)state;
    const struct sample_data data = { .train = 3, .held = 1, .field_count = 1 };
    struct click_sample sample;
    assert_int_equal(click_data_slots(&data), 0);
    assert_false(sample_data_click(&data, false, 0, &sample));
}

static void models_of_pictures_and_texts_refuse_clicks(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "fashion-mlp", "model fashion-mlp is of pictures, and the random data are clicks" },
        { "gpt-nano", "model gpt-nano is of texts, and the random data are no text" },
    };
    struct sample_data data;
    random_clicks_load(&shapes[0], &data);
    for (size_t i = 0; i < 2; i++) {
        struct error error = { 0 };
        struct model *model = model_from_spec(rows[i][0], PRECISION_FP32, &error);
        assert_good(model, error);
        assert_false(sample_data_fits(&data, model, &error));
        assert_error(error, rows[i][1]);
        model_free(model);
    }
    sample_data_clear(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_those_that_were_written),
        cmocka_unit_test(fields_are_those_that_were_written),
        cmocka_unit_test(data_without_clicks_have_none),
        cmocka_unit_test(models_of_pictures_and_texts_refuse_clicks),
    };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}
