#include "schedules/pictures/measured_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

// One micro-batch on two ranks, a file each; rank 1 has something that is no action.
static const char *const ranks[] = {
    "{\"distributedInfo\": {\"rank\": 0}, \"traceEvents\": ["
    "{\"ph\": \"X\", \"name\": \"0F0\", \"pid\": 7, \"tid\": 1, \"ts\": 100, \"dur\": 10},"
    "{\"ph\": \"X\", \"name\": \"0B0\", \"pid\": 7, \"tid\": 1, \"ts\": 140, \"dur\": 20}]}",
    "{\"distributedInfo\": {\"rank\": 1}, \"traceEvents\": ["
    "{\"ph\": \"X\", \"name\": \"1F0\", \"pid\": 7, \"tid\": 1, \"ts\": 110, \"dur\": 10},"
    "{\"ph\": \"X\", \"name\": \"cudaLaunch\", \"pid\": 7, \"tid\": 1, \"ts\": 121, \"dur\": 1},"
    "{\"ph\": \"X\", \"name\": \"1B0\", \"pid\": 7, \"tid\": 1, \"ts\": 120, \"dur\": 20}]}",
};

// The files of ranks [first, 2), as many as there are.
static void write_files(unsigned first, char paths[2][32])
{
    for (unsigned i = first; i < 2; i++) {
        struct error error = { 0 };
        struct text text = { 0 };
        char *path = paths[i - first];
        snprintf(path, 32, "/tmp/weir-run-XXXXXX");
        close(mkstemp(path));
        text_add(&text, "%s", ranks[i]);
        assert_good(text_save(&text, path, &error), error);
        text_clear(&text);
    }
}

static void files_of_a_rank_each_are_one_run(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct measured_run run;
    struct text text = { 0 };
    char paths[2][32];
    write_files(0, paths);
    assert_good(measured_run_load((const char *const[]){ paths[1], paths[0] }, 2, TRACE_LAST, &run, &error), error);
    assert_int_equal(run.simulation.iteration_ns, 60000);
    assert_int_equal(run.simulation.ranks, 2);
    assert_int_equal(run.simulation.per_rank[0].busy_ns, 30000);
    measured_run_note(&run, &text);
    assert_string_equal(text.data, "left out: 1 events that are no actions\n");
    text_clear(&text);
    measured_run_print(&run, &text);
    static const char begins[] = "measured: 2 ranks, 2 stages, 1 micro-batch, iteration 0 of 0 to 0\n"
                                 "time           60.0 us (60000 ns);";
    assert_memory_equal(text.data, begins, strlen(begins));
    text_clear(&text);
    measured_run_clear(&run);
    unlink(paths[0]), unlink(paths[1]);
}

static void missing_ranks_are_said(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct measured_run run;
    struct text text = { 0 };
    char paths[2][32];
    write_files(1, paths);
    assert_good(measured_run_load((const char *const[]){ paths[0] }, 1, TRACE_ALL, &run, &error), error);
    assert_true(run.all_iterations);
    measured_run_note(&run, &text);
    assert_non_null(strstr(text.data, "some ranks are missing: those there are have been numbered from 0\n"));
    text_clear(&text);
    measured_run_clear(&run);
    unlink(paths[0]);
}

static void a_run_with_nothing_to_say_is_said_nothing_of(void **state)
{
    (void)state;
    struct text text = { 0 };
    measured_run_note(&(struct measured_run){ .all_iterations = false }, &text);
    assert_int_equal(text.length, 0);
    assert_false(text.failed);
}

static void an_iteration_that_is_not_there_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct measured_run run;
    char paths[2][32], sentence[80];
    write_files(1, paths);
    assert_false(measured_run_load((const char *const[]){ paths[0] }, 1, 3, &run, &error));
    snprintf(sentence, sizeof sentence, "%s: has iterations 0 to 0, not 3", paths[0]);
    assert_error(error, sentence);
    measured_run_clear(&run);
    unlink(paths[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_a_rank_each_are_one_run),
        cmocka_unit_test(missing_ranks_are_said),
        cmocka_unit_test(a_run_with_nothing_to_say_is_said_nothing_of),
        cmocka_unit_test(an_iteration_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests_name("measured_run", tests, NULL, NULL);
}
