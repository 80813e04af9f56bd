#include "schedules/generators/engines.h"

#include <stdlib.h>
#include <string.h>

#include "schedules/csv.h"
#include "tests/test.h"

// Which generators an engine does not run, with commas between.
static void assert_not_run(unsigned engine, const char *want)
{
    struct text text = { 0 };
    text_add(&text, "%s", "");
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error error = { 0 };
        if (engine_runs_generator(&engines[engine], generator, &error)) {
            assert_int_equal(error.kind, ERROR_NONE);
        } else {
            assert_true(error.text[0] != '\0');
            text_add(&text, "%s%s", text.length ? ", " : "", generator->name);
        }
    }
    assert_string_equal(text.data, want);
    text_clear(&text);
}

static void each_engine_runs_its_schedules(void **state)
{
    (void)state;
    assert_not_run(ENGINE_THREADS, "");
    assert_not_run(ENGINE_PROCESSES, "");
    assert_not_run(ENGINE_PYTORCH, "pipedream, vertical, pipedream-2bw, chimera, dualpipe, seq1f1b, tables-ahead");
}

// What PyTorch runs can be written as its file, and comes back as the same order.
static void what_pytorch_runs_comes_back_from_its_file(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error error = { 0 };
        if (!engine_runs_generator(&engines[ENGINE_PYTORCH], generator, &error))
            continue;
        struct schedule *schedule = schedule_generate(generator->name, 4, 0, 8, &error);
        assert_good(schedule, error);
        struct text text = { 0 };
        struct csv_left_out left_out;
        size_t passed_over;
        const struct csv_style style = { .dialect = CSV_TORCH_2_9 };
        assert_good(csv_write(schedule, &style, &text, &left_out, &error), error);
        struct schedule *back = csv_read(text.data, text.length, "csv", &passed_over, &error);
        assert_good(back, error);
        assert_int_equal(back->stages, schedule->stages);
        assert_int_equal(back->micro_batches, schedule->micro_batches);
        schedule_free(back);
        schedule_free(schedule);
        text_clear(&text);
    }
}

static void engines_have_names(void **state)
{
    (void)state;
    struct error error = { 0 };
    for (unsigned engine = 0; engine < ENGINES; engine++)
        assert_ptr_equal(engine_find(engines[engine].name, &error), &engines[engine]);
    assert_null(engine_find("megaphone", &error));
    assert_error(error, "there is no engine named \"megaphone\" (there are threads, processes, pytorch)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_engine_runs_its_schedules),
        cmocka_unit_test(what_pytorch_runs_comes_back_from_its_file),
        cmocka_unit_test(engines_have_names),
    };
    return cmocka_run_group_tests_name("engines", tests, NULL, NULL);
}
