// A trace of a run of a plan, as simulated with one stage's forwards ten times as long as planned.
#ifndef TESTS_API_MEASURED_TRACE_H
#define TESTS_API_MEASURED_TRACE_H

#include <stdio.h>
#include <unistd.h>

#include "tests/api/written_profile.h"

// The schedule with ten times as long forwards of one stage.
static inline struct weir_schedule *with_slow_forwards(const struct weir_schedule *schedule, uint32_t stage)
{
    struct weir_error error = { 0 };
    struct text text = { 0 };
    char *document = weir_schedule_document(schedule, &error), *at = document;
    assert_good(document, error);
    for (uint32_t s = 0; s <= stage; s++)
        assert_non_null(at = strstr(at + 1, "\"forward_ns\": "));
    at += strlen("\"forward_ns\": ");
    text_add_bytes(&text, document, (size_t)(at - document));
    text_add(&text, "%llu%s", 10 * strtoull(at, NULL, 10), at + strspn(at, "0123456789"));
    assert_false(text.failed);
    struct weir_schedule *slow = weir_schedule_read(text.data, text.length, "slow", &error);
    assert_good(slow, error);
    weir_text_free(document);
    text_clear(&text);
    return slow;
}

// NO_STAGE: as planned. The caller frees the text.
enum { NO_STAGE = -1 };
static inline char *trace_of(const struct weir_plan *plan, int slow_stage)
{
    struct weir_error error = { 0 };
    struct weir_schedule *planned = weir_plan_schedule(plan, &error), *slow;
    assert_good(planned, error);
    slow = slow_stage == NO_STAGE ? NULL : with_slow_forwards(planned, (uint32_t)slow_stage);
    struct weir_simulation *run =
        weir_schedule_simulate(slow ? slow : planned, WEIR_OPTIONS(price, .cluster = small_cluster), &error);
    assert_good(run, error);
    char *trace = weir_simulation_draw(run, WEIR_OPTIONS(draw, .picture = WEIR_TRACE), &error);
    assert_good(trace, error);
    weir_simulation_free(run);
    weir_schedule_free(planned), weir_schedule_free(slow);
    return trace;
}

// Its file, whose name takes the place of "XXXXXX" in `path`.
static inline void write_trace(const struct weir_plan *plan, int slow_stage, char *path)
{
    char *trace = trace_of(plan, slow_stage);
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    assert_true(fputs(trace, file) >= 0 && fclose(file) == 0);
    weir_text_free(trace);
}

#endif
