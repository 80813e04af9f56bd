// Reads in a profile are what the loader gives the tables of a model, in the first micro-batches of a training.
#include "trainer/model_reads.h"

#include "tests/trainer/clicks.h"
#include "trainer/measure_model.h"
#include "trainer/model_spec.h"

enum { MOST_ROWS = 64, BATCHES = 6, ROWS = 4, IDS = 40 };
static const struct random_clicks shape = { 1, 19, 3, 3, 2, IDS, 2 };
static const char spec[] = "deepfm,numbers=2,ids=2,rows=7/40/11,columns=4,top=8,micro_batch=4";

// The twin: every id of every sample by itself, looked up in flags of all rows.
static void check_table(const struct sample_data *data, size_t slot, uint32_t rows, const struct table_reads *found)
{
    bool met[BATCHES][MOST_ROWS] = { { false } };
    uint64_t reads = 0, one = 0, runs_of_4 = 0;
    for (uint64_t i = 0; i < BATCHES * ROWS; i++) {
        const struct random_click click = random_click(&shape, sample_data_place(data, 1, i).sample);
        for (uint32_t k = slot > 0 ? click.ends[slot - 1] : 0; k < click.ends[slot]; k++) {
            uint64_t state = click.ids[k];
            met[i / ROWS][click.ids[k] < rows ? click.ids[k] : random_below(&state, rows)] = true;
            reads++;
        }
    }
    for (uint32_t row = 0; row < rows; row++) {
        bool in_four = false;
        for (size_t b = 0; b < BATCHES; b++) {
            one += met[b][row];
            in_four |= b < 4 && met[b][row];
        }
        runs_of_4 += in_four;
    }
    assert_int_equal(found->rows, rows);
    assert_int_equal(found->reads_milli, (2000 * reads + BATCHES * ROWS) / (2 * BATCHES * ROWS));
    assert_int_equal(found->unique[0], (one + BATCHES - 1) / BATCHES);
    assert_int_equal(found->unique[2], runs_of_4);
    assert_int_equal(found->unique[3], 0);
}

static void reads_are_those_of_the_loader(void **state)
{
    (void)state;
    static const uint32_t rows[] = { 7, 40, 11 };
    struct error error = { 0 };
    struct sample_data data;
    random_clicks_load(&shape, &data);
    struct model *model = model_from_spec(spec, PRECISION_FP32, &error);
    assert_good(model, error);
    assert_good(model_reads_fit(&data, model, &error), error);
    struct profile_reads *reads = model_reads_count(&data, model, 1, BATCHES, &error);
    assert_good(reads, error);
    assert_string_equal(reads->data, data.hash);
    assert_true(reads->seed == 1 && reads->batches == BATCHES && reads->table_count == 6);
    for (size_t t = 0; t < 6; t++) {
        assert_string_equal(reads->tables[t].layer, t < 3 ? "tables" : "wide.tables");
        assert_string_equal(reads->tables[t].name, click_data_slot_name(&data, t % 3));
        assert_int_equal(reads->tables[t].columns, t < 3 ? 4 : 1);
        check_table(&data, t % 3, rows[t % 3], &reads->tables[t]);
    }
    reads_free(reads);
    model_free(model);
    sample_data_clear(&data);
}

static void a_profile_has_the_same_reads_each_time(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct sample_data data;
    struct text texts[2] = { { 0 } };
    const struct measure_options options = measure_usual_options();
    random_clicks_load(&shape, &data);
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    for (int i = 0; i < 2; i++) {
        struct profile *profile = measure_reads(spec, device, &data, BATCHES, &options, NULL, &error);
        assert_good(profile, error);
        struct json_writer writer = json_writer(&texts[i]);
        json_begin_object(&writer, NULL, JSON_LINES);
        reads_write(profile->reads, &writer);
        json_close(&writer);
        profile_free(profile);
    }
    assert_string_equal(texts[0].data, texts[1].data);
    text_clear(&texts[0]);
    text_clear(&texts[1]);
    device_close(device);
    sample_data_clear(&data);
}

static void a_model_without_tables_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct sample_data data;
    random_clicks_load(&shape, &data);
    struct model *model = model_from_spec("fashion-mlp", PRECISION_FP32, &error);
    assert_good(model, error);
    assert_false(model_reads_fit(&data, model, &error));
    assert_error(error, "model fashion-mlp has no tables, whose reads would be counted");
    model_free(model);
    sample_data_clear(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_are_those_of_the_loader),
        cmocka_unit_test(a_profile_has_the_same_reads_each_time),
        cmocka_unit_test(a_model_without_tables_is_refused),
    };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}
