// What bindings see of comparisons: a run that was measured against its plan, and the profile that it gives.
#include <zlib.h>

#include "tests/api/measured_trace.h"

struct made {
    struct weir_profile *profile;
    struct weir_plan *plan;
    char as_planned[32], slow[32];  // files of its runs: as planned, and with a slow stage 1
};

static int make(void **state)
{
    static struct made made;
    made = (struct made){ .as_planned = "/tmp/weir-run-XXXXXX", .slow = "/tmp/weir-run-XXXXXX" };
    made.profile = made_profile(8);
    made.plan = made_plan(made.profile, "1f1b");
    write_trace(made.plan, NO_STAGE, made.as_planned);
    write_trace(made.plan, 1, made.slow);
    *state = &made;
    return 0;
}

static int forget(void **state)
{
    struct made *made = *state;
    unlink(made->as_planned), unlink(made->slow);
    weir_plan_free(made->plan);
    weir_profile_free(made->profile);
    return 0;
}

static struct weir_comparison *compared(const struct made *made, const char *file)
{
    struct weir_error error = { 0 };
    const struct weir_compare_options traces = { .size = sizeof traces, .files = (const char *const[]){ file },
                                                 .file_count = 1 };
    struct weir_comparison *comparison = weir_plan_compare(made->plan, &traces, &error);
    assert_good(comparison, error);
    return comparison;
}

// Whether a text of the comparison has these words in it.
static bool says(char *(*text_of)(const struct weir_comparison *, struct weir_error *),
                 const struct weir_comparison *comparison, const char *words)
{
    struct weir_error error = { 0 };
    char *text = text_of(comparison, &error);
    assert_good(text, error);
    const bool found = strstr(text, words) != NULL;
    weir_text_free(text);
    return found;
}

static void a_run_as_planned_has_no_causes(void **state)
{
    struct weir_comparison *comparison = compared(*state, ((const struct made *)*state)->as_planned);
    assert_true(says(weir_comparison_document, comparison, "\"causes\": [],"));
    assert_true(says(weir_comparison_text, comparison, "1f1b: 2 ranks, 2 stages, 4 micro-batches, iteration 0 of 0 to 0"));
    weir_comparison_free(comparison);
    weir_comparison_free(NULL);
}

static void a_slow_stage_comes_first(void **state)
{
    const struct made *made = *state;
    struct weir_comparison *comparison = compared(made, made->slow);
    assert_true(says(weir_comparison_document, comparison, "\"causes\": [\n    {\"cause\": \"stage\", \"stage\": 1,"));
    assert_true(says(weir_comparison_text, comparison, "stage 1: its actions take longer than planned"));
    assert_true(says(weir_comparison_notes, comparison, "left out: "));
    weir_comparison_free(comparison);
}

static void packed_files_are_read_alike(void **state)
{
    const struct made *made = *state;
    struct weir_error error = { 0 };
    char path[] = "/tmp/weir-run-XXXXXX", *trace = trace_of(made->plan, 1);
    close(mkstemp(path));
    gzFile packed = gzopen(path, "wb");
    assert_true(gzwrite(packed, trace, (unsigned)strlen(trace)) > 0 && gzclose(packed) == Z_OK);
    struct weir_comparison *comparison = compared(made, path), *plain = compared(made, made->slow);
    char *a = weir_comparison_document(comparison, &error), *b = weir_comparison_document(plain, &error);
    assert_good(a && b, error);
    assert_string_equal(a, b);
    weir_text_free(a), weir_text_free(b), weir_text_free(trace);
    weir_comparison_free(comparison), weir_comparison_free(plain);
    unlink(path);
}

// The same order, costs and links, said beside each other.
static void a_schedule_is_compared_as_its_plan_is(void **state)
{
    const struct made *made = *state;
    struct weir_error error = { 0 };
    const struct weir_compare_options traces = { .size = sizeof traces, .files = (const char *const[]){ made->slow },
                                                 .file_count = 1 };
    const struct weir_price_options pricing = { .size = sizeof pricing, .cluster = small_cluster };
    struct weir_schedule *schedule = weir_plan_schedule(made->plan, &error);
    struct weir_comparison *of_plan = compared(made, made->slow);
    struct weir_comparison *of_schedule = weir_schedule_compare(schedule, &pricing, &traces, &error);
    assert_good(of_schedule, error);
    weir_schedule_free(schedule);
    char *a = weir_comparison_text(of_plan, &error), *b = weir_comparison_text(of_schedule, &error);
    assert_good(a && b, error);
    assert_string_equal(a, b);
    weir_text_free(a), weir_text_free(b);
    assert_null(weir_profile_refine(made->profile, of_schedule, &error));
    assert_error(error, "the comparison is of a schedule, which has no layers: compare a plan with the run");
    assert_int_equal(error.code, 2);
    weir_comparison_free(of_plan), weir_comparison_free(of_schedule);
}

// A stage whose forwards take ten times as long is given fewer layers.
static void the_next_plan_is_made_of_what_was_measured(void **state)
{
    const struct made *made = *state;
    struct weir_error error = { 0 };
    struct weir_comparison *comparison = compared(made, made->slow);
    struct weir_profile *refined = weir_profile_refine(made->profile, comparison, &error);
    assert_good(refined, error);
    struct weir_plan *next = made_plan(refined, "1f1b");
    assert_true(weir_plan_stage(next, 0).end > weir_plan_stage(made->plan, 0).end);
    assert_null(weir_profile_refine(refined, comparison, &error));
    assert_non_null(strstr(error.text, "the plan was made of the profile "));
    assert_int_equal(error.code, 2);
    weir_plan_free(next);
    weir_profile_free(refined);
    weir_comparison_free(comparison);
}

static char *layers_of(const struct weir_profile *profile)
{
    struct weir_error error = { 0 };
    char *document = weir_profile_document(profile, &error);
    assert_good(document, error);
    const char *from = strstr(document, "\"layers\""), *end = strstr(from, "\"tied\"");
    char *layers = strndup(from, (size_t)(end - from));
    assert_non_null(layers);
    weir_text_free(document);
    return layers;
}

// A run as planned says what the profile says already.
static void nothing_is_refined_by_a_run_as_planned(void **state)
{
    const struct made *made = *state;
    struct weir_error error = { 0 };
    struct weir_comparison *comparison = compared(made, made->as_planned);
    struct weir_profile *refined = weir_profile_refine(made->profile, comparison, &error);
    assert_good(refined, error);
    char *before = layers_of(made->profile), *after = layers_of(refined);
    assert_string_equal(before, after);
    free(before), free(after);
    weir_profile_free(refined);
    weir_comparison_free(comparison);
}

// A run that cannot be held against the plan: `%s` is the file's name.
static struct refusal_row {
    const char *name;
    bool has_file, has_iteration;
    uint32_t iteration;
    const char *file;      // or NULL: that of the slow run
    const char *sentence;
} refusal_rows[] = {
    { "files_are_needed", .sentence = "weir_compare_options.files is needed: the file of a run, or one for each rank" },
    { "a_file_that_is_not_there_is_named", .has_file = true, .file = "/nowhere/rank0.json",
      .sentence = "/nowhere/rank0.json: cannot be read: No such file or directory" },
    { "an_iteration_must_be_there", .has_file = true, .has_iteration = true, .iteration = 7,
      .sentence = "%s: has iterations 0 to 0, not 7" },
};

static void a_comparison_is_refused(void **state)
{
    const struct refusal_row *row = *state;
    struct weir_error error = { 0 };
    void *holds;
    make(&holds);
    struct made *made = holds;
    const char *file = row->file ? row->file : made->slow;
    const struct weir_compare_options traces = { .size = sizeof traces, .files = &file, .file_count = row->has_file,
                                                 .has_iteration = row->has_iteration, .iteration = row->iteration };
    char sentence[200];
    const char *name = strstr(row->sentence, "%s") ? file : "";
    snprintf(sentence, sizeof sentence, "%s%s", name, row->sentence + (*name ? 2 : 0));
    assert_null(weir_plan_compare(made->plan, &traces, &error));
    assert_error(error, sentence);
    assert_int_equal(error.code, 2);
    forget(&holds);
}

static void other_work_is_refused(void **state)
{
    const struct made *made = *state;
    struct weir_error error = { 0 };
    const struct weir_compare_options traces = { .size = sizeof traces, .files = (const char *const[]){ made->slow },
                                                 .file_count = 1 };
    const struct weir_generate_options generating = { .size = sizeof generating, .name = "1f1b", .ranks = 2,
                                                      .micro_batches = 5 };
    struct weir_schedule *longer = weir_schedule_generate(&generating, &error);
    assert_good(longer, error);
    assert_null(weir_schedule_compare(longer, NULL, &traces, &error));
    assert_error(error, "the schedule has no costs: give F,I,W,C or a document of them");
    error = (struct weir_error){ 0 };
    assert_null(weir_schedule_compare(longer, WEIR_OPTIONS(price, .costs = "1ms,1ms,1ms,0us"), &traces, &error));
    char sentence[200];
    snprintf(sentence, sizeof sentence, "%s: 0F4 on rank 0 is in the plan only: the two do not do the same work",
             made->slow);
    assert_error(error, sentence);
    weir_schedule_free(longer);
}

#define OF_RUNS(test) cmocka_unit_test_setup_teardown(test, make, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OF_RUNS(a_run_as_planned_has_no_causes),
        OF_RUNS(a_slow_stage_comes_first),
        OF_RUNS(packed_files_are_read_alike),
        OF_RUNS(a_schedule_is_compared_as_its_plan_is),
        OF_RUNS(the_next_plan_is_made_of_what_was_measured),
        OF_RUNS(nothing_is_refined_by_a_run_as_planned),
        TEST_ROW(a_comparison_is_refused, &refusal_rows[0]),
        TEST_ROW(a_comparison_is_refused, &refusal_rows[1]),
        TEST_ROW(a_comparison_is_refused, &refusal_rows[2]),
        OF_RUNS(other_work_is_refused),
    };
    return cmocka_run_group_tests_name("weir_comparison", tests, NULL, NULL);
}
