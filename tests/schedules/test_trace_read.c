#include "schedules/pictures/trace_read.h"

#include "schedules/generators/generate.h"
#include "schedules/pictures/trace_events.h"
#include "schedules/simulate.h"
#include "tests/document.h"
#include "tests/schedules/random_schedule.h"
#include "tests/test.h"

// --- names --------------------------------------------------------------------------

static struct name_row {
    const char *name;
    const char *want;  // the actions, or "" for none
    bool stage_is_rank;
} name_rows[] = {
    { "PP:0F1", "0F1", false },
    { "PP:12I255", "12I255", false },
    { "PP:2F0.1", "2F0.1", false },
    { "PP:1SEND_F3", "1SEND_F3", false },
    { "PP:(0F7;7B3)OVERLAP_F_B", "(0F7;7B3)OVERLAP_F_B", false },
    { "Forward 3", "0F3", true },
    { "Backward 0", "0B0", true },
    { "0F1", "0F1", false },
    { "3STEP", "3STEP", false },
    { "PP:0UNSHARD", "", false },
    { "Forward", "", false },
    { "Forward 3 of 4", "", false },
    { "Forward -3", "", false },
    { "Forward 99999999999999999999", "", false },
    { "PP:", "", false },
    { "", "", false },
    { "F1", "", false },
    { "aten::mm", "", false },
    { "0F1 ", "", false },
};

static void names_are_actions(void **state)
{
    const struct name_row *row = *state;
    struct action group[MOST_JOINED];
    bool stage_is_rank;
    struct text text = { 0 };
    const size_t count = trace_name_parse(row->name, group, &stage_is_rank);
    text_add(&text, "%s", "");
    if (count > 0)
        group_write(group, count, &text);
    assert_string_equal(text.data, row->want);
    assert_int_equal(stage_is_rank, row->stage_is_rank);
    text_clear(&text);
}

// --- whole files ----------------------------------------------------------------------

struct reading {
    struct timeline timeline;
    struct trace_summary summary;
};

// Up to four files, of which the last is NULL.
static bool read_files(const char *const *files, int64_t iteration, struct reading *reading, struct error *error)
{
    *reading = (struct reading){ .timeline = { 0 } };
    struct trace_reader *reader = trace_reader_create(error);
    assert_non_null(reader);
    bool good = true;
    for (size_t i = 0; good && files[i]; i++) {
        char name[20];
        snprintf(name, sizeof name, "file%u", (unsigned)i);
        good = trace_reader_take(reader, files[i], strlen(files[i]), name, error);
    }
    good = good && trace_reader_finish(reader, iteration, &reading->timeline, &reading->summary, error);
    trace_reader_free(reader);
    return good;
}

static struct reading read_one(const char *file, int64_t iteration)
{
    struct reading reading;
    struct error error = { 0 };
    assert_good(read_files((const char *const[]){ file, NULL }, iteration, &reading, &error), error);
    return reading;
}

// "0 0F0 0-10; 1 1F0 11-21": rank, action, from, to.
static void assert_spans(const struct timeline *timeline, const char *want)
{
    struct text text = { 0 };
    text_add(&text, "%s", "");
    for (size_t i = 0; i < timeline->span_count; i++) {
        const struct span *span = &timeline->spans[i];
        char name[ACTION_SIZE];
        text_add(&text, "%s%u %s%s %llu-%llu", i ? "; " : "", span->rank, action_format(span->action, name),
                 span->action.joined ? "+" : "", (unsigned long long)span->start_ns, (unsigned long long)span->end_ns);
    }
    assert_string_equal(text.data, want);
    text_clear(&text);
}

static void the_page_of_the_format_is_read(void **state)
{
    (void)state;
    char *document = test_document("docs/formats/trace.md");
    struct reading reading = read_one(document, TRACE_LAST);
    assert_spans(&reading.timeline, "0 0F0 0-10000; 0 0B0 42000-67000; 1 1F0 11000-21000; 1 1B0 21000-41000");
    assert_int_equal(reading.timeline.spans[1].recompute_ns, 5000);
    assert_int_equal(reading.summary.left_out, 2);
    assert_int_equal(reading.timeline.level_count, 1);
    timeline_clear(&reading.timeline);
    free(document);
}

// As PyTorch's profiler writes it: rank and clock of the file, the host's annotations and the GPU's.
static void files_of_the_profiler_are_read(void **state)
{
    (void)state;
    static const char rank1[] =
        "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"GPU\"}],\n"
        " \"traceEvents\": [\n"
        "  {\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 77, \"tid\": 77, \"ts\": 1.5, \"dur\": 9,"
        " \"args\": {\"Input Dims\": [[1, 2], []]}},\n"
        "  {\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"PP:1F0\", \"pid\": 77, \"tid\": 77, \"ts\": 0.5, \"dur\": 1},\n"
        "  {\"ph\": \"X\", \"cat\": \"gpu_user_annotation\", \"name\": \"PP:1F0\", \"pid\": 0, \"tid\": 7, \"ts\": 2.25, \"dur\": 3},\n"
        "  {\"ph\": \"X\", \"cat\": \"gpu_user_annotation\", \"name\": \"PP:1F0\", \"pid\": 0, \"tid\": 9, \"ts\": 4.25, \"dur\": 2},\n"
        "  {\"ph\": \"X\", \"cat\": \"gpu_user_annotation\", \"name\": \"PP:1SEND_B0\", \"pid\": 0, \"tid\": 9, \"ts\": 4, \"dur\": 1},\n"
        "  {\"name\": \"Trace\", \"ph\": \"X\", \"pid\": \"Spans\", \"tid\": \"t\", \"ts\": 1, \"dur\": 1}],\n"
        " \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 1, \"world_size\": 2},\n"
        " \"baseTimeNanoseconds\": 1000000}\n";
    static const char rank0[] =
        "{\"distributedInfo\": {\"rank\": 0}, \"traceEvents\": [{\"ph\": \"X\", \"name\": \"PP:0F0\", \"pid\": 5,"
        " \"ts\": 1000.0004, \"dur\": 1e0}]}";
    struct reading reading;
    struct error error = { 0 };
    assert_good(read_files((const char *const[]){ rank1, rank0, NULL }, TRACE_LAST, &reading, &error), error);
    assert_spans(&reading.timeline, "0 0F0 0-1000; 1 1F0 2250-6250");
    assert_int_equal(reading.summary.doubled, 1);
    assert_int_equal(reading.summary.messages, 1);
    assert_int_equal(reading.summary.left_out, 2);
    timeline_clear(&reading.timeline);
}

// --- waiting within actions ---------------------------------------------------------------

// An event of rank `pid`, on its thread `tid`, from `ts` to `ts + dur`.
#define EVENT(cat, name, pid, tid, ts, dur)                                                                       \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":" #pid ",\"tid\":" #tid ",\"ts\":" #ts ",\"dur\":" #dur "}"
#define NAMED(name, pid, ts, dur) EVENT("user_annotation", name, pid, 1, ts, dur)
#define OPERATOR(name, pid, ts, dur) EVENT("cpu_op", name, pid, 1, ts, dur)

static struct wait_row {
    const char *name, *events, *want;
    uint64_t waits, waited_ns;
} wait_rows[] = {
    // _PipelineScheduleRuntime posts the receive before the action and waits within it; what stands between its
    // arrival and the first operator is the action's own.
    { "waits: of a receive posted before", "[" NAMED("PP:0F0", 0, 0, 10) "," OPERATOR("aten::mm", 0, 2, 8) ","
      NAMED("PP:1RECV_F0", 1, 0, 2) "," OPERATOR("aten::empty_strided", 1, 0.1, 0.2) "," OPERATOR("c10d::recv_", 1, 0.5, 1)
      "," NAMED("gloo:recv", 1, 1, 11) "," NAMED("PP:1F0", 1, 2, 20) "," OPERATOR("aten::mm", 1, 13, 9) "]",
      "0 0F0 0-10000; 1 1F0 12000-22000", 1, 10000 },
    // ScheduleGPipe does both within the action.
    { "waits: of a receive posted within", "[" OPERATOR("aten::mm", 1, 48, 2) "," NAMED("gloo:recv", 1, 32, 14) ","
      OPERATOR("aten::empty_strided", 1, 31, 1) "," OPERATOR("c10d::recv_", 1, 32, 5) "," NAMED("Forward 0", 1, 30, 20) ","
      NAMED("Forward 0", 0, 20, 8) "]", "0 0F0 26000-30000; 1 1F0 0-8000", 1, 16000 },
    { "waits: of nothing, while it computes for a later receive", "[" NAMED("PP:1F0", 0, 0, 10) ","
      OPERATOR("aten::mm", 0, 1, 2) "," NAMED("gloo:recv", 0, 0, 5) "," OPERATOR("aten::mm", 0, 6, 2) "]",
      "0 1F0 0-10000", 0, 0 },
    { "waits: on another thread are another's", "[" NAMED("PP:1F0", 0, 0, 10) ","
      EVENT("user_annotation", "gloo:recv", 0, 2, 0, 5) "," EVENT("cpu_op", "aten::mm", 0, 3, 6, 2) "]",
      "0 1F0 0-10000", 0, 0 },
    // Without receives: 1F0 and 0B0 take another rank's message; 0F0 takes none, and 1B0 is the last stage's.
    { "waits: until the first operator", "[" NAMED("PP:0F0", 0, 0, 10) "," OPERATOR("aten::mm", 0, 4, 6) ","
      NAMED("PP:0B0", 0, 10, 40) "," OPERATOR("MmBackward0", 0, 40, 10) "," NAMED("PP:1F0", 1, 0, 20) ","
      OPERATOR("aten::mm", 1, 12, 8) "," NAMED("PP:1B0", 1, 20, 15) "," OPERATOR("MmBackward0", 1, 25, 5) "]",
      "0 0F0 0-10000; 0 0B0 40000-50000; 1 1F0 12000-20000; 1 1B0 20000-35000", 2, 42000 },
    // The rank's own work is no message, whichever kind of backward made it; a group's members have unlike inputs.
    { "waits: of nothing for what is here", "[" NAMED("PP:0F0", 0, 0, 10) "," NAMED("PP:1F0", 0, 10, 10) ","
      OPERATOR("aten::mm", 0, 14, 6) "," NAMED("PP:1I0", 0, 20, 10) "," NAMED("PP:0B0", 0, 30, 10) ","
      OPERATOR("MmBackward0", 0, 35, 5) "," NAMED("PP:(2F1;5B0)OVERLAP_F_B", 0, 40, 10) ","
      OPERATOR("aten::mm", 0, 45, 5) "," NAMED("PP:5I1", 0, 50, 5) "]",
      "0 0F0 0-10000; 0 1F0 10000-20000; 0 1I0 20000-30000; 0 0B0 30000-40000; 0 2F1+ 40000-50000; 0 5B0 40000-50000;"
      " 0 5I1 50000-55000", 0, 0 },
    { "waits: a group's members wait alike", "[" NAMED("gloo:recv", 0, 0, 4) "," NAMED("PP:(2F1;5B0)OVERLAP_F_B", 0, 0, 10)
      "," OPERATOR("aten::mm", 0, 5, 5) "]", "0 2F1+ 0-6000; 0 5B0 0-6000", 2, 8000 },
    { "waits: a wait before the first action begins the clock later", "[" NAMED("gloo:recv", 0, 0, 7) ","
      NAMED("PP:1F0", 0, 0, 10) "," NAMED("PP:1F1", 0, 10, 10) "]", "0 1F0 0-3000; 0 1F1 3000-13000", 1, 7000 },
};

static void waiting_is_no_part_of_an_action(void **state)
{
    const struct wait_row *row = *state;
    struct reading reading = read_one(row->events, TRACE_LAST);
    assert_spans(&reading.timeline, row->want);
    assert_int_equal(reading.summary.waits, row->waits);
    assert_int_equal(reading.summary.waited_ns, row->waited_ns);
    timeline_clear(&reading.timeline);
}

// --- bytes --------------------------------------------------------------------------------

#define COUNTER(pid, ts, bytes) "{\"ph\":\"C\",\"name\":\"memory\",\"pid\":" #pid ",\"ts\":" #ts ",\"args\":{\"bytes\":" #bytes "}}"
#define ALLOCATED(device, pid, ts, bytes)                                                                            \
    "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"pid\":" #pid ",\"ts\":" #ts                       \
    ",\"args\":{\"Total Allocated\":" #bytes ",\"Device Type\":" #device ",\"Addr\":1}}"

static struct level_row {
    const char *name, *events, *want;
} level_rows[] = {
    // What was held when the rank began, and no more once it has ended; of an iteration its own.
    { "bytes: of the iteration shown", "[" NAMED("0F0", 0, 0, 10) "," COUNTER(0, 0, 100) "," COUNTER(0, 5, 300) ","
      COUNTER(0, 8, 200) "," COUNTER(0, 12, 700) "," NAMED("0F0", 0, 20, 10) "," COUNTER(0, 21, 250) "," COUNTER(0, 30, 9)
      "]", "0: 700 at 20000; 0: 250 at 21000" },
    { "bytes: of ranks that act", "[" NAMED("0F0", 7, 0, 10) "," COUNTER(8, 1, 100) "," COUNTER(7, 3, 300) "]",
      "0: 300 at 3000" },
    { "bytes: of the device, where it says so", "[" NAMED("0F0", 0, 0, 10) "," ALLOCATED(0, 0, 1, 5) ","
      ALLOCATED(1, 0, 2, 400) "," ALLOCATED(0, 0, 3, 6) "]", "0: 400 at 2000" },
    { "bytes: of the host, where no device does", "[" NAMED("0F0", 0, 0, 10) "," ALLOCATED(0, 0, 4, 5) ","
      ALLOCATED(0, 0, 1, 6) "]", "0: 6 at 1000; 0: 5 at 4000" },
    { "bytes: none that are no number", "[" NAMED("0F0", 0, 0, 10) "," COUNTER(0, 1, -3) "," COUNTER(0, 1, 2.5) "]", "" },
};

static void bytes_are_those_of_what_is_shown(void **state)
{
    const struct level_row *row = *state;
    struct reading reading = read_one(row->events, TRACE_LAST);
    struct text text = { 0 };
    text_add(&text, "%s", "");
    for (size_t i = 0; i < reading.timeline.level_count; i++) {
        const struct level *level = &reading.timeline.levels[i];
        text_add(&text, "%s%u: %llu at %llu", i ? "; " : "", level->rank, (unsigned long long)level->bytes,
                 (unsigned long long)(level->time_ns));
    }
    assert_string_equal(text.data, row->want);
    text_clear(&text);
    timeline_clear(&reading.timeline);
}

static void ranks_follow_the_order_where_nothing_says_them(void **state)
{
    (void)state;
    static const char events[] =
        "[{\"ph\":\"X\",\"name\":\"Forward 0\",\"pid\":900,\"ts\":5,\"dur\":1},"
        "{\"ph\":\"X\",\"name\":\"Forward 0\",\"pid\":80,\"ts\":6,\"dur\":2},"
        "{\"ph\":\"X\",\"name\":\"Backward 0\",\"pid\":80,\"ts\":8,\"dur\":2}]";
    struct reading reading = read_one(events, TRACE_LAST);
    assert_spans(&reading.timeline, "0 0F0 0-1000; 1 1F0 1000-3000; 1 1B0 3000-5000");
    timeline_clear(&reading.timeline);
}

static void missing_ranks_are_said(void **state)
{
    (void)state;
    struct reading reading = read_one(
        "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"3F0\",\"pid\":1,\"ts\":5,\"dur\":1}],\"distributedInfo\":{\"rank\":3}}", TRACE_LAST);
    assert_spans(&reading.timeline, "0 3F0 0-1000");
    assert_true(reading.summary.renumbered);
    timeline_clear(&reading.timeline);
}

// Three times F0 F1, the last one cut off.
static void iterations_are_told_apart(void **state)
{
    (void)state;
    static const char events[] =
        "[{\"ph\":\"X\",\"name\":\"0F0\",\"pid\":1,\"ts\":0,\"dur\":1},{\"ph\":\"X\",\"name\":\"0F1\",\"pid\":1,\"ts\":1,\"dur\":1},"
        "{\"ph\":\"X\",\"name\":\"0F0\",\"pid\":1,\"ts\":4,\"dur\":1},{\"ph\":\"X\",\"name\":\"0F1\",\"pid\":1,\"ts\":5,\"dur\":2},"
        "{\"ph\":\"X\",\"name\":\"0F0\",\"pid\":1,\"ts\":8,\"dur\":1}]";
    struct reading reading = read_one(events, TRACE_LAST);
    assert_spans(&reading.timeline, "0 0F0 4000-5000; 0 0F1 5000-7000");
    assert_int_equal(reading.summary.iterations, 3);
    assert_int_equal(reading.summary.iteration, 1);
    assert_true(reading.summary.uneven);
    timeline_clear(&reading.timeline);
    reading = read_one(events, 2);
    assert_spans(&reading.timeline, "0 0F0 8000-9000");
    timeline_clear(&reading.timeline);
    reading = read_one(events, TRACE_ALL);
    assert_int_equal(reading.timeline.span_count, 5);
    timeline_clear(&reading.timeline);
}

static void what_is_done_together_is_a_group(void **state)
{
    (void)state;
    struct reading reading =
        read_one("[{\"ph\":\"X\",\"name\":\"PP:(0F7;7B3)OVERLAP_F_B\",\"pid\":1,\"ts\":3,\"dur\":4}]", TRACE_LAST);
    assert_spans(&reading.timeline, "0 0F7+ 0-4000; 0 7B3 0-4000");
    timeline_clear(&reading.timeline);
}

static struct fault_row {
    const char *name, *first, *second, *sentence;
} fault_rows[] = {
    { "fault: no actions", "{\"traceEvents\":[]}", NULL,
      "file0: has no complete event (ph X) that is named like an action: PP:0F1, Forward 1 or 0F1" },
    { "fault: no names, as Schedule1F1B has none", "[" OPERATOR("c10d::recv_", 0, 0, 1) "," OPERATOR("aten::mm", 0, 1, 1) "]",
      NULL, "file0: passes messages, but names no actions: of PyTorch's schedules Schedule1F1B does not;"
      " ScheduleInterleaved1F1B with one stage per rank does the same, and names them" },
    { "fault: no trace", "{\"format\":\"weir.plan\"}", NULL, "file0: byte 22: has no traceEvents: is no trace" },
    { "fault: no time", "[{\"ph\":\"X\",\"name\":\"0F0\",\"pid\":1,\"dur\":1}]", NULL,
      "file0: byte 40: the event before it, \"0F0\": ts: is missing, negative or too large" },
    { "fault: negative", "[{\"ph\":\"X\",\"name\":\"0F0\",\"pid\":1,\"ts\":1,\"dur\":-1}]", NULL,
      "file0: byte 48: the event before it, \"0F0\": dur: is missing, negative or too large" },
    { "fault: recompute", "[{\"ph\":\"X\",\"name\":\"0F0\",\"ts\":1,\"dur\":1,\"args\":{\"recompute_us\":2}}]", NULL,
      "file0: byte 65: the event before it, \"0F0\": recompute_us: is more than dur" },
    { "fault: cut off", "{\"traceEvents\":[{\"ph\":\"X\"", NULL,
      "file0: byte 25: ends where a comma or the object's end should come" },
    { "fault: no event", "[1]", NULL, "file0: byte 1: an event is an object" },
    { "fault: rank", "{\"distributedInfo\":{\"rank\":-1}}", NULL,
      "file0: byte 29: distributedInfo.rank: must be 0 to 4095, not -1" },
    { "fault: one rank twice", "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"0F0\",\"ts\":1,\"dur\":1}],\"distributedInfo\":{\"rank\":1}}",
      "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"0F0\",\"ts\":1,\"dur\":1}],\"distributedInfo\":{\"rank\":1}}",
      "file1: is of rank 1, as file0 is" },
    { "fault: one says no rank", "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"0F0\",\"ts\":1,\"dur\":1}],\"distributedInfo\":{\"rank\":1}}",
      "[{\"ph\":\"X\",\"name\":\"0F0\",\"ts\":1,\"dur\":1}]",
      "file1: does not say its rank (distributedInfo.rank, or a process named \"rank 0\"), though others do" },
    { "fault: backward first", "[{\"ph\":\"X\",\"name\":\"0B1\",\"ts\":1,\"dur\":1},{\"ph\":\"X\",\"name\":\"0F1\",\"ts\":2,\"dur\":1}]", NULL,
      "file0: rank 0 has done 0B1 before 0F1 in iteration 0: these are not the actions of whole iterations, or its clock"
      " went back" },
    { "fault: weights first", "[{\"ph\":\"X\",\"name\":\"1I0\",\"ts\":1,\"dur\":1},{\"ph\":\"X\",\"name\":\"1W0\",\"ts\":3,\"dur\":1},"
      "{\"ph\":\"X\",\"name\":\"1I0\",\"ts\":8,\"dur\":1},{\"ph\":\"X\",\"name\":\"1W0\",\"ts\":6,\"dur\":1}]", NULL,
      "file0: rank 0 has done 1W0 before 1I0 in iteration 1: these are not the actions of whole iterations, or its clock"
      " went back" },
};

static void faults_are_named(void **state)
{
    const struct fault_row *row = *state;
    struct reading reading;
    struct error error = { 0 };
    assert_false(read_files((const char *const[]){ row->first, row->second, NULL }, TRACE_LAST, &reading, &error));
    assert_error(error, row->sentence);
    timeline_clear(&reading.timeline);
}

static void iterations_that_are_not_there_are_refused(void **state)
{
    (void)state;
    struct reading reading;
    struct error error = { 0 };
    assert_false(read_files((const char *const[]){ "[{\"ph\":\"X\",\"name\":\"0F0\",\"ts\":1,\"dur\":1}]", NULL }, 1, &reading,
                            &error));
    assert_error(error, "file0: has iterations 0 to 0, not 1");
    timeline_clear(&reading.timeline);
}

// --- our own come back ------------------------------------------------------------------

static size_t count_same(const struct timeline *timeline, const struct span *span)
{
    size_t count = 0;
    for (size_t i = 0; i < timeline->span_count; i++) {
        const struct span *other = &timeline->spans[i];
        count += other->rank == span->rank && other->start_ns == span->start_ns && other->end_ns == span->end_ns
              && other->recompute_ns == span->recompute_ns && other->action.kind == span->action.kind
              && other->action.stage == span->action.stage && other->action.micro_batch == span->action.micro_batch
              && other->action.split == span->action.split;
    }
    return count;
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(500, 20000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *schedule = random_schedule(&seed);
        struct cost_row costs[6];
        random_costs(&seed, costs, schedule->stages, 1);
        for (uint32_t s = 0; s < schedule->stages; s++)  // whatever is summed, nobody overlaps
            costs[s].overlapped_ns = 0;
        struct simulation simulation;
        struct timeline timeline = { 0 };
        assert_good(schedule_simulate(schedule, costs, NULL, &simulation, &timeline, &error), error);
        struct text text = { 0 };
        timeline_write_trace(&timeline, &text);
        struct reading reading = read_one(text.data, TRACE_ALL);
        bool same = reading.timeline.span_count == timeline.span_count && reading.summary.iterations == 1;
        for (size_t i = 0; same && i < timeline.span_count; i++)
            same = count_same(&reading.timeline, &timeline.spans[i]) == 1;
        if (!same)
            fail_msg("trial %llu: %zu spans became %zu", (unsigned long long)trial, timeline.span_count,
                     reading.timeline.span_count);
        text_clear(&text);
        timeline_clear(&reading.timeline);
        timeline_clear(&timeline);
        simulation_clear(&simulation);
        schedule_free(schedule);
    }
}

static void exchanges_are_read_back(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate("tables-ahead", 1, 2, 3, &error);
    assert_good(schedule, error);
    const struct cost_row costs[2] = { { .forward_ns = 2, .backward_ns = 3, .exchange_ns = 5 },
                                       { .forward_ns = 6, .backward_ns = 9 } };
    struct simulation simulation;
    struct timeline timeline = { 0 };
    assert_good(schedule_simulate(schedule, costs, NULL, &simulation, &timeline, &error), error);
    struct text text = { 0 }, again = { 0 };
    timeline_write_trace(&timeline, &text);
    struct reading reading = read_one(text.data, TRACE_LAST);
    assert_int_equal(reading.timeline.message_count, 6);
    assert_int_equal(reading.summary.messages, 0);  // none was left out
    assert_int_equal(reading.summary.actions, timeline.span_count);
    timeline_write_trace(&reading.timeline, &again);
    assert_non_null(strstr(again.data, "{\"ph\":\"X\",\"name\":\"1SEND_B0\",\"cat\":\"message\",\"pid\":0,\"tid\":2,"));
    text_clear(&text);
    text_clear(&again);
    timeline_clear(&reading.timeline);
    timeline_clear(&timeline);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

int main(void)
{
    enum { NAMES = sizeof name_rows / sizeof name_rows[0], FAULTS = sizeof fault_rows / sizeof fault_rows[0],
           WAITS = sizeof wait_rows / sizeof wait_rows[0], LEVELS = sizeof level_rows / sizeof level_rows[0] };
    enum { PLAIN = 9 };
    struct CMUnitTest tests[PLAIN + NAMES + FAULTS + WAITS + LEVELS] = {
        cmocka_unit_test(the_page_of_the_format_is_read),
        cmocka_unit_test(files_of_the_profiler_are_read),
        cmocka_unit_test(ranks_follow_the_order_where_nothing_says_them),
        cmocka_unit_test(missing_ranks_are_said),
        cmocka_unit_test(iterations_are_told_apart),
        cmocka_unit_test(what_is_done_together_is_a_group),
        cmocka_unit_test(iterations_that_are_not_there_are_refused),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(exchanges_are_read_back),
    };
    for (size_t i = 0; i < NAMES; i++)
        tests[PLAIN + i] = (struct CMUnitTest)TEST_ROW(names_are_actions, &name_rows[i]);
    for (size_t i = 0; i < FAULTS; i++)
        tests[PLAIN + NAMES + i] = (struct CMUnitTest)TEST_ROW(faults_are_named, &fault_rows[i]);
    for (size_t i = 0; i < WAITS; i++)
        tests[PLAIN + NAMES + FAULTS + i] = (struct CMUnitTest)TEST_ROW(waiting_is_no_part_of_an_action, &wait_rows[i]);
    for (size_t i = 0; i < LEVELS; i++)
        tests[PLAIN + NAMES + FAULTS + WAITS + i] =
            (struct CMUnitTest)TEST_ROW(bytes_are_those_of_what_is_shown, &level_rows[i]);
    return cmocka_run_group_tests_name("trace_read", tests, NULL, NULL);
}
