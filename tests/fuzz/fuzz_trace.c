// Whatever the bytes, reading a trace ends in a timeline or in one sentence; the
// timeline can be measured and drawn, and written as a trace that is read again.
#include <stdint.h>
#include <stdlib.h>

#include "schedules/pictures/measured.h"
#include "schedules/pictures/trace_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_trace(const char *data, size_t size, struct timeline *timeline, struct trace_summary *summary)
{
    struct error error = { 0 };
    struct trace_reader *reader = trace_reader_create(&error);
    const bool good = reader && trace_reader_take(reader, data, size, "fuzz.json", &error)
                   && trace_reader_finish(reader, TRACE_ALL, timeline, summary, &error);
    if (good != (error.kind == ERROR_NONE))
        abort();
    trace_reader_free(reader);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct timeline timeline = { 0 }, again = { 0 };
    struct trace_summary summary, second;
    struct simulation simulation = { 0 };
    struct error error = { 0 };
    if (read_trace((const char *)data, size, &timeline, &summary)) {
        struct text text = { 0 };
        if (!timeline_measure(&timeline, &simulation, &error))
            abort();
        timeline_draw_text(&timeline, &(struct text_chart){ .width = 80 }, &text);
        text_clear(&text);
        timeline_write_trace(&timeline, &text);
        if (!read_trace(text.data, text.length, &again, &second) || second.stages != summary.stages
            || second.actions > summary.actions)
            abort();
        text_clear(&text);
    }
    simulation_clear(&simulation);
    timeline_clear(&timeline);
    timeline_clear(&again);
    return 0;
}
