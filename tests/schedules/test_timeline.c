#include "schedules/timeline.h"

#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "schedules/generators/generate.h"
#include "schedules/pictures/drawing.h"
#include "schedules/simulate.h"
#include "tests/test.h"

// 1F1B, p = 2, m = 2, F = 10 us, B = 20 us of which 5 recompute, a step of 5 us, latency 1 us.
static struct timeline small_timeline(void)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate("1f1b", 2, 1, 2, &error);
    assert_good(schedule, error);
    const struct cost_row row = { .forward_ns = 10000, .backward_ns = 15001, .recompute_ns = 5000, .step_ns = 5000 };
    const struct cost_row rows[2] = { row, row };
    struct network *network = network_uniform(2, (struct link){ 1000, 0 }, &error);
    assert_good(network, error);
    struct simulation simulation;
    struct timeline timeline = { .wants_levels = true };
    assert_good(schedule_simulate(schedule, rows, network, &simulation, &timeline, &error), error);
    simulation_clear(&simulation);
    network_free(network);
    schedule_free(schedule);
    return timeline;
}

static void assert_drawn(const struct timeline *timeline, size_t width, bool ascii, const char *want)
{
    struct text text = { 0 };
    timeline_draw_text(timeline, &(struct text_chart){ .width = width, .ascii = ascii }, &text);
    assert_string_equal(text.data, want);
    text_clear(&text);
}

static void text_chart_is_the_drawn_one(void **state)
{
    (void)state;
    struct timeline timeline = small_timeline();
    assert_drawn(&timeline, 104, false, 
                 "rank 0 F0────────F1────────······················B0╌╌╌───────────────··········B1╌╌╌───────────────STEP─\n"
                 "rank 1 ···········F0────────B0╌╌╌───────────────F1────────B1╌╌╌───────────────STEP─·····················\n"
                 "       ╵0 us              ╵20 us              ╵40 us              ╵60 us              ╵80 us\n"
                 "       F forward, B backward, R╌ recompute, STEP step, · idle\n");
    assert_drawn(&timeline, 39, true, 
                 "rank 0 F0-F1--.......B0----....B1----S-\n"
                 "rank 1 ....F0-B0-----F1-B1----S-.......\n"
                 "       |0 us           |50 us\n"
                 "       F forward, B backward, R~ recompute, STEP step, . idle\n");
    timeline_clear(&timeline);
}

// What happens between two marks: everything is there, nothing twice, and a row is as wide as it should be.
static void rows_are_as_wide_as_asked(void **state)
{
    (void)state;
    struct timeline timeline = small_timeline();
    for (size_t width = 17; width < 200; width += 13) {
        struct text text = { 0 };
        timeline_draw_text(&timeline, &(struct text_chart){ .width = width, .ascii = true }, &text);
        const char *first = strchr(text.data, '\n');
        const char *second = strchr(first + 1, '\n');
        assert_int_equal(first - text.data, width);
        assert_int_equal(second - first - 1, width);
        assert_memory_equal(text.data, "rank 0 F", 8);
        text_clear(&text);
    }
    timeline_clear(&timeline);
}

// (0F1;1B0)OVERLAP_F_B, then another of two columns; rank 1 has stages 0 and 1 the other way round.
static struct timeline grouped_timeline(void)
{
    static const struct span spans[] = {
        { 0, { .stage = 0, .kind = ACTION_F, .micro_batch = 1, .joined = 1 }, 0, 10, 0 },
        { 0, { .stage = 1, .kind = ACTION_B, .micro_batch = 0 }, 0, 10, 0 },
        { 0, { .stage = 0, .kind = ACTION_F, .micro_batch = 2, .joined = 1 }, 10, 12, 0 },
        { 0, { .stage = 1, .kind = ACTION_B, .micro_batch = 1 }, 10, 12, 0 },
        { 1, { .stage = 1, .kind = ACTION_F, .micro_batch = 1 }, 10, 14, 0 },
        { 1, { .stage = 0, .kind = ACTION_W, .micro_batch = 2 }, 15, 20, 0 },
    };
    struct timeline timeline = { 0 };
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
        assert_true(timeline_add(&timeline, spans[i]));
    return timeline;
}

static void groups_have_both_labels_and_chunks_are_told_apart(void **state)
{
    (void)state;
    struct timeline timeline = grouped_timeline();
    assert_drawn(&timeline, 27, true,
                 "rank 0 F1---+b0--&&........\n"
                 "rank 1 ..........f1--.W2---\n"
                 "       |0 ns\n"
                 "       F forward, B backward, W backward for the weights, . idle; lower case: every other stage of a rank\n");
    struct text text = { 0 };
    timeline_draw_svg(&timeline, &(struct svg_chart){ .title = "" }, &text);
    // Two boxes of half the lane's height, one below the other.
    assert_non_null(strstr(text.data, "class=\"box F0\" x=\"74.00\" y=\"74.0\" width=\"620.00\" height=\"15.0\""));
    assert_non_null(strstr(text.data, "class=\"box B2\" x=\"74.00\" y=\"89.0\" width=\"620.00\" height=\"15.0\""));
    assert_non_null(strstr(text.data, "makespan bubble 47.5 %"));
    text_clear(&text);
    timeline_clear(&timeline);
}

static void charts_have_colours_and_sides_where_asked(void **state)
{
    (void)state;
    struct timeline timeline = { 0 };
    assert_true(timeline_add(&timeline, (struct span){ 0, { .kind = ACTION_F }, 0, 30, 0 }));
    assert_true(timeline_add(&timeline, (struct span){ 0, { .kind = ACTION_B }, 70, 100, 0 }));
    const uint64_t peak = 3 << 20;
    struct text text = { 0 };
    timeline_draw_text(&timeline, &(struct text_chart){ .width = 70, .ascii = true, .sides = true, .peak_bytes = &peak }, &text);
    assert_memory_equal(text.data, "rank 0 F0----------................B0----------   40 % idle   3.00 MiB\n", 71);
    text_clear(&text);
    timeline_draw_text(&timeline, &(struct text_chart){ .width = 17, .ascii = true, .colours = true, .sides = true }, &text);
    assert_memory_equal(text.data, "rank 0 \033[48;5;26;38;5;231mF0-\033[0m\033[2m....\033[0m\033[48;5;214;38;5;233mB0-\033[0m\n", 73);
    text_clear(&text);
    timeline_clear(&timeline);
}

// Two stages on each of two ranks; those of rank 0 exchange, forward and back.
static struct timeline exchanging_timeline(void)
{
    static const struct span spans[] = {
        { 0, { .stage = 0, .kind = ACTION_F }, 0, 10, 0 }, { 0, { .stage = 1, .kind = ACTION_F }, 30, 40, 0 },
        { 0, { .stage = 1, .kind = ACTION_B }, 40, 50, 0 }, { 0, { .stage = 0, .kind = ACTION_B }, 60, 70, 0 },
        { 1, { .stage = 2, .kind = ACTION_F }, 45, 60, 0 },
    };
    static const struct message messages[] = {
        { { .stage = 0, .kind = ACTION_SEND_F }, 0, 0, 10, 30 },
        { { .stage = 1, .kind = ACTION_SEND_B }, 0, 0, 50, 60 },
        { { .stage = 1, .kind = ACTION_SEND_F }, 0, 1, 40, 45 },
    };
    struct timeline timeline = { 0 };
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
        assert_true(timeline_add(&timeline, spans[i]));
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++)
        assert_true(timeline_add_message(&timeline, messages[i]));
    return timeline;
}

static void empty_timelines_are_drawn(void **state)
{
    (void)state;
    struct timeline timeline = { .ranks = 1 };
    assert_drawn(&timeline, 20, true, "rank 0 .............\n");
    struct text text = { 0 };
    timeline_draw_svg(&timeline, &(struct svg_chart){ .title = "nothing" }, &text);
    assert_non_null(strstr(text.data, "</svg>"));
    text_clear(&text);
    timeline_write_trace(&timeline, &text);
    struct error error = { 0 };
    struct json_document *document = json_parse(text.data, text.length, "trace", &error);
    assert_good(document, error);
    json_free(document);
    text_clear(&text);
}

static struct mark_row {
    const char *name;
    uint64_t length, marks, want;
    const char *label;  // of the third mark
    uint64_t unit;      // what 1 is where costs have no units
} mark_rows[] = {
    { "marks: ns", 7, 5, 2, "4 ns", 0 },
    { "marks: us", 60000, 5, 20000, "40 us", 0 },
    { "marks: one more than fits", 60000, 2, 50000, "100 us", 0 },
    { "marks: seconds", 9000000000, 9, 1000000000, "2 s", 0 },
    { "marks: nothing to mark", 0, 4, 1, "2 ns", 0 },
    { "marks: centuries", INT64_MAX, 1, 5000000000000000000, "10000000000 s", 0 },
    { "marks: without units", 600, 5, 200, "40", 10 },
    { "marks: a part of a unit", 7, 5, 10, "2", 10 },
};

static void marks_are_round(void **state)
{
    const struct mark_row *row = *state;
    const uint64_t mark = drawing_mark_ns((struct extent){ 100, 100 + row->length }, row->marks, row->unit);
    char label[40];
    assert_int_equal(mark, row->want);
    assert_string_equal(drawing_mark(2 * mark, mark, row->unit, label, sizeof label), row->label);
}

// --- SVG ---------------------------------------------------------------------------

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        count++;
    return count;
}

// Every tag that opens closes, in order.
static void assert_well_formed(const char *text)
{
    const char *open[32];
    size_t depth = 0;
    for (const char *at = text; (at = strchr(at, '<')); at++) {
        const char *end = strchr(at, '>');
        assert_non_null(end);
        if (at[1] == '/') {
            assert_true(depth > 0);
            depth--;
            assert_memory_equal(at + 2, open[depth], (size_t)(end - at - 2));
        } else if (end[-1] != '/') {
            assert_true(depth < 32);
            open[depth++] = at + 1;
        }
    }
    assert_int_equal(depth, 0);
}

static void svg_has_a_box_per_action_and_says_what_it_is(void **state)
{
    (void)state;
    struct timeline timeline = small_timeline();
    struct text text = { 0 };
    const uint64_t peaks[] = { 3 << 20, 1 << 20 };
    timeline_draw_svg(&timeline, &(struct svg_chart){ .title = "a < b & \"c\"", .messages = true, .peak_bytes = peaks }, &text);
    assert_well_formed(text.data);
    assert_int_equal(count_of(text.data, "<g><title>"), 10);
    assert_int_equal(count_of(text.data, "<line class=\"message\""), 4);
    assert_non_null(strstr(text.data, ">3.00 MiB</text>"));
    assert_non_null(strstr(text.data, ">a &lt; b &amp; \"c\"; 97.0 us, makespan bubble 38.1 %</text>"));
    assert_non_null(strstr(text.data, "<title>1B0: 20.0 us, from 21.0 us to 41.0 us</title>"));
    assert_non_null(strstr(text.data, ">rank 1</text>"));
    assert_non_null(strstr(text.data, ">R: recompute</text>"));
    text_clear(&text);
    timeline_clear(&timeline);
}

static void exchanges_are_drawn_below_their_rank(void **state)
{
    (void)state;
    struct timeline timeline = exchanging_timeline();
    assert_drawn(&timeline, 42, true,
                 "rank 0 F0---..........f0---b0---.....B0---\n"
                 "send 0 .....F0--------..........B0---.....\n"
                 "rank 1 ......................F0------.....\n"
                 "       |0 ns                    |50 ns\n"
                 "       F forward, B backward, SEND_F exchange forward, SEND_B exchange backward, . idle; lower case: "
                 "every other stage of a rank\n");
    struct text text = { 0 };
    timeline_draw_svg(&timeline, &(struct svg_chart){ .title = "", .messages = true }, &text);
    assert_well_formed(text.data);
    assert_non_null(strstr(text.data, ">rank 0</text>\n<rect fill=\"url(#idle)\" x=\"74\" y=\"106\" width=\"1240\" "
                                      "height=\"12\"/>"));
    assert_non_null(strstr(text.data, ">exchange</text>\n<rect fill=\"url(#idle)\" x=\"74\" y=\"126\" width=\"1240\" "
                                      "height=\"30\"/>"));
    assert_non_null(strstr(text.data, "<title>0SEND_F0: 20 ns, from 10 ns to 30 ns</title><rect class=\"box SEND_F0\" "
                                      "x=\"251.14\" y=\"106.0\" width=\"354.29\" height=\"12.0\"/>"));
    assert_non_null(strstr(text.data, "<title>1SEND_B0: 10 ns, from 50 ns to 60 ns</title>"));
    assert_non_null(strstr(text.data, " height=\"7\"/><text class=\"label\" x=\"317\" y=\"53\">SEND_F: exchange "
                                      "forward</text>"));
    assert_int_equal(count_of(text.data, "<line class=\"message\""), 1);  // an exchange is no arrow
    text_clear(&text);
    timeline_clear(&timeline);
    timeline = (struct timeline){ .ranks = 1 };  // with nothing else that takes time
    const struct message alone = { { .kind = ACTION_SEND_F }, 0, 0, 10, 30 };
    assert_true(timeline_add_message(&timeline, alone));
    assert_drawn(&timeline, 27, true,
                 "rank 0 ....................\n"
                 "send 0 F0------------------\n"
                 "       |0 ns\n"
                 "       SEND_F exchange forward, . idle\n");
    timeline_clear(&timeline);
}

// Wherever it stands it says what it is, in a font and a width of one's own; what is narrow has its legend in rows.
static void svg_has_a_title_a_font_and_a_width(void **state)
{
    (void)state;
    struct timeline timeline = small_timeline();
    struct text text = { 0 };
    timeline_draw_svg(&timeline, &(struct svg_chart){ .title = "a < b" }, &text);
    assert_well_formed(text.data);
    assert_memory_equal(text.data, "<svg ", 5);
    assert_non_null(strstr(text.data, " width=\"1338\" height=\"190\" role=\"img\" font-family=\"DejaVu Sans, "));
    assert_non_null(strstr(text.data, ">\n<title>a &lt; b; 97.0 us, makespan bubble 38.1 %</title>\n<style>"));
    text_clear(&text);
    const uint64_t peaks[] = { 3 << 20, 1 << 20 };
    timeline_draw_svg(&timeline, &(struct svg_chart){ .title = "a long title that takes more room than there is",
                                                      .font = "Times New Roman, \"serif\"", .width = 400,
                                                      .peak_bytes = peaks }, &text);
    assert_well_formed(text.data);
    assert_non_null(strstr(text.data, " viewBox=\"0 0 400 "));
    assert_non_null(strstr(text.data, " font-family=\"Times New Roman,  serif \" "));
    assert_non_null(strstr(text.data, ">live peak</text>"));
    assert_null(strstr(text.data, "font-size=\"16\""));       // the title is smaller
    assert_non_null(strstr(text.data, " x=\"74\" y=\"62\" "));  // the legend's second row
    for (const char *at = text.data; (at = strstr(at, "<rect class=\"box ")); at++) {
        double x, width;
        assert_int_equal(sscanf(strstr(at, " x="), " x=\"%lf\" y=\"%*f\" width=\"%lf\"", &x, &width), 2);
        assert_true(x >= 74 && x + width <= 300.01);
    }
    text_clear(&text);
    timeline_clear(&timeline);
}

// Costs without units are drawn without units: nobody has said what 1 is.
static void costs_without_units_are_drawn_without(void **state)
{
    (void)state;
    struct timeline timeline = { .unit_ns = 2 };
    assert_true(timeline_add(&timeline, (struct span){ 0, { .kind = ACTION_F }, 0, 3, 0 }));
    assert_true(timeline_add(&timeline, (struct span){ 0, { .kind = ACTION_B }, 3, 10, 0 }));
    struct text text = { 0 };
    timeline_draw_svg(&timeline, &(struct svg_chart){ .title = "units" }, &text);
    assert_well_formed(text.data);
    assert_non_null(strstr(text.data, "<title>0F0: 1.5, from 0 to 1.5</title>"));
    assert_non_null(strstr(text.data, "<title>units; 5, makespan bubble 0.0 %</title>"));
    assert_non_null(strstr(text.data, ">5</text>"));
    assert_null(strstr(text.data, " ns"));
    text_clear(&text);
    timeline_draw_text(&timeline, &(struct text_chart){ .width = 70, .ascii = true }, &text);
    assert_non_null(strstr(text.data, "|0"));
    assert_null(strstr(text.data, " ns"));
    text_clear(&text);
    timeline_clear(&timeline);
}

// Wide and narrow ones, halves of a lane, W as well.
static void svg_labels_every_box(void **state)
{
    (void)state;
    struct timeline timeline = { .ranks = 1 };
    const uint64_t lengths[] = { 100000, 2000, 900, 300, 10 };
    uint64_t now = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (unsigned kind = ACTION_F; kind <= ACTION_W; kind++) {
            const struct action action = { .kind = (uint8_t)kind, .micro_batch = (uint32_t)(10 + i) };
            assert_true(timeline_add(&timeline, (struct span){ 0, action, now, now + lengths[i], 0 }));
            if (kind != ACTION_I)
                now += lengths[i];  // the I and the W at the same time
        }
    }
    struct text text = { 0 };
    timeline_draw_svg(&timeline, &(struct svg_chart){ .title = "labels" }, &text);
    assert_well_formed(text.data);
    assert_int_equal(count_of(text.data, "<g><title>"), 20);
    assert_int_equal(count_of(text.data, "<text class=\"in "), 20);
    assert_int_equal(count_of(text.data, ">W14</text>"), 1);
    assert_int_equal(count_of(text.data, "rotate(-90)\">F11</text>"), 1);
    text_clear(&text);
    timeline_clear(&timeline);
}

// --- trace --------------------------------------------------------------------------

struct event {
    char phase;
    uint64_t rank, thread, id, start_ns, end_ns, bytes;
};

// "12.345" us in ns.
static uint64_t ns_of(double us)
{
    return (uint64_t)(us * 1000 + 0.5);
}

enum { MOST_EVENTS = 4000 };

static size_t read_events(const char *data, size_t length, struct event *events)
{
    struct error error = { 0 };
    struct json_document *document = json_parse(data, length, "trace", &error);
    assert_good(document, error);
    struct json root = json_root(document), item;
    struct json array = json_array(&root, "traceEvents");
    size_t count = 0;
    while (json_next(&array, &item)) {
        struct event event = { .phase = json_string(&item, "ph")[0], .rank = json_u64(&item, "pid", 0, 100) };
        if (event.phase == 'M')
            continue;
        event.start_ns = ns_of(json_fraction(&item, "ts"));
        if (event.phase == 'X')
            event.end_ns = event.start_ns + ns_of(json_fraction(&item, "dur"));
        if (event.phase == 'X' || event.phase == 's' || event.phase == 'f')
            event.thread = json_u64(&item, "tid", 1, 8);
        if (event.phase == 's' || event.phase == 'f')
            event.id = json_u64(&item, "id", 1, 1000);
        if (event.phase == 'C') {
            struct json arguments = json_object(&item, "args");
            event.bytes = json_u64(&arguments, "bytes", 0, JSON_MAX);
        }
        assert_true(count < MOST_EVENTS);
        events[count++] = event;
    }
    assert_good(json_ok(document, &error), error);
    json_free(document);
    return count;
}

static const struct event *box_around(const struct event *events, size_t count, const struct event *arrow)
{
    for (size_t i = 0; i < count; i++) {
        if (events[i].phase == 'X' && events[i].rank == arrow->rank && events[i].thread == arrow->thread
            && events[i].start_ns <= arrow->start_ns
            && arrow->start_ns < events[i].end_ns)
            return &events[i];
    }
    return NULL;
}

static void trace_has_exact_times_and_arrows_between_boxes(void **state)
{
    (void)state;
    struct timeline timeline = small_timeline();
    struct text text = { 0 };
    timeline_write_trace(&timeline, &text);
    static struct event events[MOST_EVENTS];
    const size_t count = read_events(text.data, text.length, events);
    size_t boxes = 0, arrows = 0;
    for (size_t i = 0; i < count; i++) {
        if (events[i].phase == 'X') {
            const struct span *span = &timeline.spans[boxes++];
            assert_int_equal(events[i].start_ns, span->start_ns);
            assert_int_equal(events[i].end_ns, span->end_ns);
            continue;
        }
        if (events[i].phase == 'C')
            continue;
        arrows++;
        assert_non_null(box_around(events, count, &events[i]));
        if (events[i].phase == 'f') {
            assert_int_equal(events[i - 1].phase, 's');
            assert_int_equal(events[i - 1].id, events[i].id);
            assert_true(box_around(events, count, &events[i - 1])->end_ns + 1000 <= events[i].start_ns);
        }
    }
    assert_int_equal(boxes, timeline.span_count);
    assert_int_equal(arrows, 8);
    text_clear(&text);
    timeline_clear(&timeline);
}

// What Perfetto asks for: the events of a thread are apart or one within the other.
static void assert_nested(const struct event *events, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct event *a = &events[i], *b = &events[j];
            if (a->phase != 'X' || b->phase != 'X' || a->rank != b->rank || a->thread != b->thread)
                continue;
            assert_true(a->end_ns <= b->start_ns || b->end_ns <= a->start_ns);
        }
    }
}

static void traces_of_groups_are_nested_and_arrows_are_paired(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate("dualpipev", 4, 2, 10, &error);
    assert_good(schedule, error);
    struct cost_row rows[8];
    for (size_t i = 0; i < 8; i++)
        rows[i] = (struct cost_row){ .forward_ns = 1000, .backward_ns = 2000, .backward_input_ns = 1000,
                                     .backward_weight_ns = 1000, .overlapped_ns = 2500, .kept_forward_bytes = 64 };
    struct simulation simulation;
    struct timeline timeline = { .wants_levels = true };
    assert_good(schedule_simulate(schedule, rows, NULL, &simulation, &timeline, &error), error);
    struct text text = { 0 };
    timeline_write_trace(&timeline, &text);
    static struct event events[MOST_EVENTS];
    const size_t count = read_events(text.data, text.length, events);
    assert_nested(events, count);
    size_t begins = 0, ends = 0, levels = 0, second = 0;
    for (size_t i = 0; i < count; i++) {
        begins += events[i].phase == 's';
        ends += events[i].phase == 'f';
        second += events[i].phase == 'X' && events[i].thread == 2;
        if (events[i].phase == 's' || events[i].phase == 'f')
            assert_non_null(box_around(events, count, &events[i]));
        if (events[i].phase == 'C') {
            assert_int_equal(events[i].bytes, timeline.levels[levels].bytes);
            assert_int_equal(events[i].start_ns, timeline.levels[levels].time_ns);
            levels++;
        }
    }
    assert_int_equal(begins, ends);
    assert_int_equal(begins, timeline.message_count);
    assert_int_equal(levels, timeline.level_count);
    assert_true(second > 0 && levels > 0);
    simulation_clear(&simulation);
    timeline_clear(&timeline);
    text_clear(&text);
    schedule_free(schedule);
}

// The runtime's timelines hold many iterations, and come rank by rank from threads.
static void arrows_stay_within_their_iteration(void **state)
{
    (void)state;
    struct timeline timeline = { 0 };
    const struct action f0 = { .kind = ACTION_F }, f1 = { .stage = 1, .kind = ACTION_F }, send = { .kind = ACTION_SEND_F };
    for (uint64_t i = 0; i < 3; i++)
        assert_true(timeline_add(&timeline, (struct span){ 1, f1, 100 * i + 20, 100 * i + 30, 0 }));
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(timeline_add(&timeline, (struct span){ 0, f0, 100 * i, 100 * i + 10, 0 }));
        assert_true(timeline_add_message(&timeline, (struct message){ send, 0, 1, 100 * i + 10, 100 * i + 15 }));
    }
    struct text text = { 0 };
    timeline_write_trace(&timeline, &text);
    static struct event events[MOST_EVENTS];
    const size_t count = read_events(text.data, text.length, events);
    assert_int_equal(count, 12);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(events[6 + 2 * i].start_ns, 100 * i + 9);
        assert_int_equal(events[7 + 2 * i].start_ns, 100 * i + 20);
    }
    text_clear(&text);
    timeline_clear(&timeline);
}

int main(void)
{
    enum { MARKS = sizeof mark_rows / sizeof mark_rows[0], PLAIN = 13 };
    struct CMUnitTest tests[PLAIN + MARKS] = {
        cmocka_unit_test(text_chart_is_the_drawn_one),
        cmocka_unit_test(rows_are_as_wide_as_asked),
        cmocka_unit_test(groups_have_both_labels_and_chunks_are_told_apart),
        cmocka_unit_test(charts_have_colours_and_sides_where_asked),
        cmocka_unit_test(exchanges_are_drawn_below_their_rank),
        cmocka_unit_test(empty_timelines_are_drawn),
        cmocka_unit_test(svg_has_a_box_per_action_and_says_what_it_is),
        cmocka_unit_test(svg_has_a_title_a_font_and_a_width),
        cmocka_unit_test(costs_without_units_are_drawn_without),
        cmocka_unit_test(svg_labels_every_box),
        cmocka_unit_test(trace_has_exact_times_and_arrows_between_boxes),
        cmocka_unit_test(traces_of_groups_are_nested_and_arrows_are_paired),
        cmocka_unit_test(arrows_stay_within_their_iteration),
    };
    for (size_t i = 0; i < MARKS; i++)
        tests[PLAIN + i] = (struct CMUnitTest)TEST_ROW(marks_are_round, &mark_rows[i]);
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
