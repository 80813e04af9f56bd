// The log of a training run: what is written is read; what somebody else wrote is refused by its line, and stays; and
// a run that is gone on with has one log.
#include "trainer/run_log.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json.h"
#include "tests/document.h"
#include "tests/test.h"

static const char path[] = "run.jsonl";

static char folder[] = "/tmp/weir-run-log-XXXXXX", said[2000], *example;

// In a folder of its own, behind what is read of the project's.
static int enter(void **state)
{
    (void)state;
    example = test_block("docs/formats/log.md", "jsonl");
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    free(example);
    unlink(path);
    return rmdir(folder);
}

static void hear(void *self, const char *sentence)
{
    (void)self;
    snprintf(said, sizeof said, "%.1900s", sentence);
}

static struct run_log_request request_of(bool resumes, struct run_curve *past)
{
    return (struct run_log_request){
        .path = path, .resumes = resumes, .past = past, .say = hear,
        .run = { .model = "gpt-nano", .schedule = "1f1b", .plan_hash = "00000000000000000000000000000001",
                 .data_hash = "00000000000000000000000000000002", .seed = 7, .steps = 10 },
    };
}

static struct run_log *open_log(bool resumes, struct run_curve *past)
{
    struct error error = { 0 };
    const struct run_log_request request = request_of(resumes, past);
    struct run_log *log = run_log_open(&request, &error);
    assert_good(log, error);
    return log;
}

static void refused(bool resumes, const char *sentence)
{
    struct error error = { 0 };
    struct run_curve past = { 0 };
    const struct run_log_request request = request_of(resumes, &past);
    assert_null(run_log_open(&request, &error));
    assert_error(error, sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
    run_curve_clear(&past);
}

static void close_log(struct run_log *log, uint64_t step, const char *how)
{
    struct error error = { 0 };
    assert_good(run_log_close(log, step, how, strcmp(how, "failed") == 0 ? "a \"reason\"" : NULL, &error), error);
}

static void begin(struct run_log *log, uint64_t step)
{
    uint64_t bytes[2] = { 123456789, 42 };
    const struct train_result result = { .ranks = 2, .measured_bytes = bytes };
    run_log_begin(log, step, &result);
}

// Losses that no other step has.
static struct train_step step_of(uint32_t step)
{
    return (struct train_step){ .step = step, .loss = 5 - 0.25 * step, .tokens = 512, .took_ns = 1000000 + step,
                                .bubble = 0.25, .slowest_stage = 1, .rate = 0.1f, .gradient_norm = 2.5 };
}

static void steps(struct run_log *log, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++) {
        const struct train_step step = step_of(i);
        run_log_step(log, &step);
    }
}

static void write_file(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static char *read_whole(size_t *length)
{
    struct error error = { 0 };
    char *text = text_load(path, length, &error);
    assert_good(text, error);
    return text;
}

static void assert_points(const struct run_points *points, uint64_t first, uint64_t last)
{
    assert_int_equal(points->count, last - first + 1);
    for (uint64_t i = first; i <= last; i++) {
        assert_int_equal(points->at[i - first].step, i);
        assert_float_equal(points->at[i - first].value, (5 - 0.25 * (double)i) / log(2), 1e-6);
    }
}

static int no_file(void **state)
{
    (void)state;
    said[0] = '\0';
    unlink(path);
    return 0;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct run_curve past = { 0 };
    struct run_log *log = open_log(false, NULL);
    begin(log, 0);
    run_log_evaluation(log, &(struct train_evaluation){ 0, 8, NAN, NAN, true });
    steps(log, 1, 3);
    run_log_evaluation(log, &(struct train_evaluation){ 3, 7.5, 0.25, 0.5, true });
    run_log_kept(log, 3);
    struct train_step bad = step_of(4);
    bad.loss = NAN;  // and a scale, and no norm
    bad.gradient_norm = 0;
    bad.loss_scale = 65536;
    bad.is_skipped = true;
    run_log_step(log, &bad);
    run_log_evaluation(log, &(struct train_evaluation){ 4, INFINITY, NAN, NAN, false });
    close_log(log, 4, "failed");

    log = open_log(true, &past);
    assert_points(&past.trained, 1, 3);
    assert_int_equal(past.held.count, 2);
    assert_int_equal(past.held.at[1].step, 3);
    assert_float_equal(past.held.at[1].value, 7.5, 0);
    assert_int_equal(past.right.count, 1);
    assert_int_equal(past.right.at[0].step, 3);
    assert_float_equal(past.right.at[0].value, 0.25, 0);
    close_log(log, 0, "failed");  // before it has begun, so that nothing ends
    run_curve_clear(&past);
    log = open_log(true, &past);
    assert_points(&past.trained, 1, 3);
    close_log(log, 0, "failed");
    run_curve_clear(&past);
}

// Each line is what any reader of JSON takes, and begins alike.
static void a_line_is_an_object(void **state)
{
    (void)state;
    struct run_log *log = open_log(false, NULL);
    begin(log, 0);
    steps(log, 1, 2);
    close_log(log, 2, "complete");
    size_t length, lines = 0;
    char *text = read_whole(&length);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        struct error error = { 0 };
        assert_int_equal(strncmp(line, "{\"event\": \"", 11), 0);
        struct json_document *document = json_parse(line, (size_t)(end - line), "a line", &error);
        assert_good(document, error);
        json_free(document);
    }
    assert_int_equal(lines, 4);
    free(text);
}

// It goes on from an earlier step: what came behind that is void, and steps are counted from there.
static void one_file_over_several_processes(void **state)
{
    (void)state;
    struct run_curve past = { 0 };
    struct run_log *log = open_log(false, NULL);
    begin(log, 0);
    steps(log, 1, 6);
    run_log_evaluation(log, &(struct train_evaluation){ 6, 3, NAN, NAN, true });
    close_log(log, 6, "stopped");
    log = open_log(true, NULL);
    begin(log, 4);
    steps(log, 5, 8);
    // and is killed
    struct error error = { 0 };
    const struct run_log_request again = request_of(true, &past);
    assert_null(run_log_open(&again, &error));
    assert_error(error, "run.jsonl: another run is writing there: give this one a log of its own");
    close_log(log, 8, "stopped");
    log = open_log(true, &past);
    assert_points(&past.trained, 1, 8);
    assert_int_equal(past.held.count, 0);
    begin(log, 8);
    steps(log, 9, 10);
    close_log(log, 10, "complete");
    run_curve_clear(&past);
    log = open_log(true, &past);
    assert_points(&past.trained, 1, 10);
    close_log(log, 10, "failed");
    run_curve_clear(&past);
}

// An elastic run's next epoch does not wait for a process that was given up.
static void an_epoch_yields(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct run_log *first = open_log(false, NULL);
    begin(first, 0);
    struct run_log_request request = request_of(true, NULL);
    request.yields_ns = 1;
    struct run_log *second = run_log_open(&request, &error);
    assert_good(second, error);
    assert_string_equal(said, "run.jsonl: another process still writes there, and this one's steps are not in it");
    begin(second, 0);
    steps(second, 1, 2);
    close_log(second, 2, "complete");
    steps(first, 1, 1);
    close_log(first, 1, "complete");
    struct run_curve past = { 0 };
    first = open_log(true, &past);
    assert_points(&past.trained, 1, 1);
    close_log(first, 1, "complete");
    run_curve_clear(&past);
}

static void a_run_that_begins_overwrites_nothing(void **state)
{
    (void)state;
    struct run_log *log = open_log(false, NULL);
    begin(log, 0);
    close_log(log, 0, "complete");
    refused(false, "run.jsonl: is the log of a run: --resume goes on with that, or give this one another file");
    write_file("", 0);
    log = open_log(false, NULL);
    close_log(log, 0, "complete");
}

// A machine that goes down leaves the beginning of a line, at any byte of it.
static void a_torn_line_is_removed(void **state)
{
    (void)state;
    struct run_log *log = open_log(false, NULL);
    begin(log, 0);
    steps(log, 1, 2);
    close_log(log, 2, "stopped");
    size_t length, end_at, left;
    char *text = read_whole(&length);
    for (end_at = length - 1; text[end_at - 1] != '\n'; end_at--)
        ;
    for (size_t cut = end_at + 1; cut < length; cut++) {
        write_file(text, cut);
        struct run_curve past = { 0 };
        char sentence[200];
        log = open_log(true, &past);
        assert_points(&past.trained, 1, 2);
        snprintf(sentence, sizeof sentence, "run.jsonl: its last line was cut off, and is removed (%zu bytes)",
                 cut - end_at);
        assert_string_equal(said, sentence);
        close_log(log, 2, "stopped");
        char *mended = read_whole(&left);
        assert_int_equal(left, end_at);
        assert_memory_equal(mended, text, end_at);
        free(mended);
        run_curve_clear(&past);
    }
    free(text);
}

static void what_is_no_log_stays(void **state)
{
    (void)state;
    static const char *const others[] = { "my thesis", "my thesis\n", "{\"event\": \"begin\"}\n", "{}\n", "\n",
                                          "\xff\xfe\n", "{\"event\": \"step\", \"time\": \"\", \"step\": 1}\n" };
    static const char no_log[] = "run.jsonl: is no log of a training run, and is left as it is: give the run another"
                                 " file";
    static const char *const sentences[] = {
        no_log, no_log, "run.jsonl: line 1: time: is missing", "run.jsonl: line 1: event: is missing", no_log, no_log,
        "run.jsonl: line 1: event: is \"step\", and a log begins with \"begin\"",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        size_t length;
        write_file(others[i], strlen(others[i]));
        refused(true, sentences[i]);
        refused(false, sentences[i]);
        char *text = read_whole(&length);
        assert_string_equal(text, others[i]);
        free(text);
    }
}

// In what was written.
struct changed {
    const char *name, *from, *to, *sentence;
};

static struct changed changes[] = {
    { "another model", "\"model\": \"gpt-nano\"", "\"model\": \"gpt-mini\"",
      "run.jsonl: line 1: model: is \"gpt-mini\", and this run is of \"gpt-nano\": give it a log of its own" },
    { "another seed", "\"seed\": 7", "\"seed\": 8",
      "run.jsonl: line 1: seed: is 8, and this run's is 7: give it a log of its own" },
    { "other data", "0002\", \"plan", "0003\", \"plan",
      "run.jsonl: line 1: data_hash: is 00000000000000000000000000000003, and this run's is"
      " 00000000000000000000000000000002: give it a log of its own" },
    { "another format", "weir.log", "weir.plan", "run.jsonl: line 1: format: is \"weir.plan\", not \"weir.log\"" },
    { "a newer version", "\"version\": 1", "\"version\": 2",
      "run.jsonl: line 1: version: is 2; this Weir reads version 1" },
    { "a step that is missing", "\"step\": 2", "\"step\": 3",
      "run.jsonl: line 3: step: is 3, and the line before is of step 1" },
    { "a key that is missing", "\"skipped\": false, ", "", "run.jsonl: line 2: skipped: is missing" },
    { "a key that is unknown", "\"skipped\"", "\"beauty\": 1, \"skipped\"",
      "run.jsonl: line 2: key \"beauty\" is not known" },
    { "a loss that is none", "4.750000", "\"low\"", "run.jsonl: line 2: loss: is a string, not a number" },
    { "an end of another step", "\"step\": 2, \"how\"", "\"step\": 1, \"how\"",
      "run.jsonl: line 5: step: is 1, and the line before is of step 2" },
    { "an end in another way", "\"complete\"", "\"happy\"",
      "run.jsonl: line 5: how: is \"happy\", not one of complete, stopped, failed" },
    { "two objects in a line", "}\n{\"event\": \"end\"", "} {\"event\": \"end\"",
      "run.jsonl: line 4, column 62: text stands after the end of the document" },
};

static void what_was_changed_is_refused_by_its_line(void **state)
{
    const struct changed *changed = *state;
    struct error error = { 0 };
    struct text other = { 0 };
    size_t length;
    no_file(NULL);
    struct run_log *log = open_log(false, NULL);
    begin(log, 0);
    steps(log, 1, 2);
    run_log_kept(log, 2);
    close_log(log, 2, "complete");
    char *text = read_whole(&length), *at = strstr(text, changed->from);
    assert_non_null(at);
    text_add_bytes(&other, text, (size_t)(at - text));
    text_add(&other, "%s%s", changed->to, at + strlen(changed->from));
    write_file(other.data, other.length);
    const struct run_log_request request = request_of(true, NULL);
    assert_null(run_log_open(&request, &error));
    assert_error(error, changed->sentence);
    text_clear(&other);
    free(text);
}

static void where_a_run_would_wait_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(false, "run.jsonl: is a pipe or a socket, at which a run would wait for its reader: give it a file");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    refused(false, "run.jsonl: is a folder, not a file");
    rmdir(path);
}

// A disk that is full is said once, leaves no half a line, and is a failure when the run is over.
static void a_full_disk_is_said_once(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct run_log_request request = request_of(false, NULL);
    request.path = "/dev/full";
    struct run_log *log = run_log_open(&request, &error);
    assert_good(log, error);
    begin(log, 0);
    assert_string_equal(said, "/dev/full: cannot be written: No space left on device; the run goes on without a log");
    said[0] = '\0';
    steps(log, 1, 3);
    assert_string_equal(said, "");
    assert_false(run_log_close(log, 3, "complete", NULL, &error));
    assert_error(error, "/dev/full: not all of the run's log could be written");
    assert_int_equal(error.kind, ERROR_MACHINE);
}

static void the_example_is_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct run_curve past = { 0 };
    size_t whole;
    assert_good(run_log_read(example, strlen(example), "example", NULL, &past, &whole, &error), error);
    assert_int_equal(past.trained.count, 4);
    assert_float_equal(past.trained.at[3].value, 5.202999 / log(2), 1e-6);
    assert_int_equal(past.held.count, 3);
    assert_int_equal(past.held.at[2].step, 4);
    assert_int_equal(whole, strlen(example));
    run_curve_clear(&past);
}

// Each is the mean of its neighbours, all of them are in, and the last is where the last is.
static void curves_are_thinned(void **state)
{
    (void)state;
    struct run_curve curve = { 0 };
    struct run_point thinned[10];
    assert_int_equal(run_points_thin(&curve.trained, 10, thinned), 0);
    for (uint64_t step = 1; step <= 1000; step++) {
        run_curve_add(&curve, &curve.trained, step, (double)step);
        const size_t count = run_points_thin(&curve.trained, 10, thinned);
        const uint64_t each = (step + 9) / 10;
        assert_int_equal(count, (step + each - 1) / each);
        for (size_t i = 0; i < count; i++) {
            const uint64_t first = i * each + 1, last = (i + 1) * each < step ? (i + 1) * each : step;
            assert_int_equal(thinned[i].step, last);
            assert_float_equal(thinned[i].value, (double)(first + last) / 2, 1e-9);
        }
    }
    run_curve_add(&curve, &curve.trained, 1001, NAN);
    assert_int_equal(curve.trained.count, 1000);
    run_curve_cut(&curve, 400);
    assert_int_equal(curve.trained.count, 400);
    run_curve_clear(&curve);
}

int main(void)
{
    enum { CHANGES = sizeof changes / sizeof changes[0], OTHERS = 11 };
    struct CMUnitTest tests[OTHERS + CHANGES] = {
        cmocka_unit_test_setup(what_is_written_is_read, no_file),
        cmocka_unit_test_setup(a_line_is_an_object, no_file),
        cmocka_unit_test_setup(one_file_over_several_processes, no_file),
        cmocka_unit_test_setup(an_epoch_yields, no_file),
        cmocka_unit_test_setup(a_run_that_begins_overwrites_nothing, no_file),
        cmocka_unit_test_setup(a_torn_line_is_removed, no_file),
        cmocka_unit_test_setup(what_is_no_log_stays, no_file),
        cmocka_unit_test_setup(where_a_run_would_wait_is_refused, no_file),
        cmocka_unit_test_setup(a_full_disk_is_said_once, no_file),
        cmocka_unit_test(the_example_is_read),
        cmocka_unit_test(curves_are_thinned),
    };
    for (size_t i = 0; i < CHANGES; i++)
        tests[OTHERS + i] = (struct CMUnitTest)TEST_ROW(what_was_changed_is_refused_by_its_line, &changes[i]);
    return cmocka_run_group_tests_name("the log of a run", tests, enter, leave);
}
