#include "schedules/pictures/timeline_html.h"

#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "schedules/generators/generate.h"
#include "tests/test.h"

struct shown {
    struct timeline timeline;
    struct simulation simulation;
};

static struct shown show(const char *name, uint32_t chunks)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate(name, 4, chunks, 10, &error);
    assert_good(schedule, error);
    struct cost_row rows[8];
    for (size_t i = 0; i < 8; i++)
        rows[i] = (struct cost_row){ .forward_ns = 1000, .backward_ns = 2000, .backward_input_ns = 1000,
                                     .backward_weight_ns = 1000, .overlapped_ns = 2500, .kept_forward_bytes = 64 };
    struct shown shown = { .timeline.wants_levels = true };
    assert_good(schedule_simulate(schedule, rows, NULL, &shown.simulation, &shown.timeline, &error), error);
    schedule_free(schedule);
    return shown;
}

static void hide(struct shown *shown)
{
    timeline_clear(&shown->timeline);
    simulation_clear(&shown->simulation);
}

// The JSON within the page, as a strict reader sees it. The caller frees it.
static struct json_document *data_of(const struct text *page)
{
    static const char opening[] = "<script type=\"application/json\" id=\"data\">";
    struct error error = { 0 };
    const char *begin = strstr(page->data, opening);
    assert_non_null(begin);
    begin += strlen(opening);
    const char *end = strstr(begin, "</script>");
    assert_non_null(end);
    struct json_document *document = json_parse(begin, (size_t)(end - begin), "data", &error);
    assert_good(document, error);
    return document;
}

enum { BOX_NUMBERS = 13 };

// Goes through a run's boxes as page.js does, and holds them against the timeline.
static void assert_boxes(struct json *run, const struct timeline *timeline)
{
    struct json lanes = json_array(run, "spans"), lane;
    size_t count = 0, critical = 0;
    while (json_next(&lanes, &lane)) {
        json_item_array(&lane);
        struct json number;
        uint64_t start = 0, length = 0;
        for (size_t i = 0; json_next(&lane, &number); i++) {
            const double value = json_item_fraction(&number);
            if (i % BOX_NUMBERS == 0)
                start += (uint64_t)value;
            if (i % BOX_NUMBERS == 1)
                length = (uint64_t)value;
            if (i % BOX_NUMBERS == 10)
                assert_true(value <= (double)timeline->span_count);
            if (i % BOX_NUMBERS == 12) {
                critical += value > 0;
                count++;
                assert_true(start + length <= 1000000);
            }
        }
    }
    assert_int_equal(count, timeline->span_count);
    assert_true(critical > 5);
}

static void the_page_holds_what_the_timeline_does(void **state)
{
    (void)state;
    struct shown shown = show("dualpipev", 2);
    struct text text = { 0 };
    const struct page_run run = { "a </script><b> & \"c\"", &shown.timeline, &shown.simulation, false, NULL };
    assert_true(timeline_draw_html(&run, 1, NULL, "<title> & more", &text));
    assert_non_null(strstr(text.data, "<title>&lt;title&gt; &amp; more</title>"));
    assert_null(strstr(text.data, "a </script>"));
    struct json_document *document = data_of(&text);
    struct json root = json_root(document), runs = json_array(&root, "runs"), item;
    assert_int_equal(json_count(&runs), 1);
    assert_true(json_next(&runs, &item));
    assert_string_equal(json_string(&item, "name"), run.name);
    assert_int_equal(json_u64(&item, "iteration", 0, JSON_MAX), shown.simulation.iteration_ns);
    assert_boxes(&item, &shown.timeline);
    struct json levels = json_array(&item, "levels"), messages = json_array(&item, "messages");
    assert_int_equal(json_count(&levels), 4);
    assert_int_equal(json_count(&messages), 4 * shown.timeline.message_count);
    assert_false(json_has(&root, "difference"));
    struct error error = { 0 };
    assert_good(json_ok(document, &error), error);
    json_free(document);
    text_clear(&text);
    hide(&shown);
}

// A lane behind those of ranks, whose boxes say what they waited for.
static void exchanges_have_a_lane(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate("tables-ahead", 1, 2, 3, &error);
    assert_good(schedule, error);
    const struct cost_row rows[2] = { { .forward_ns = 2, .backward_ns = 3, .exchange_ns = 5 },
                                      { .forward_ns = 6, .backward_ns = 9 } };
    struct shown shown = { 0 };
    assert_good(schedule_simulate(schedule, rows, NULL, &shown.simulation, &shown.timeline, &error), error);
    const struct page_run run = { "a", &shown.timeline, &shown.simulation, false, NULL };
    struct text text = { 0 };
    assert_true(timeline_draw_html(&run, 1, NULL, "one", &text));
    // F0, made by box 0, is on the critical path; F1 waited for F0, which ended after the maker of F1.
    char lane[160];
    snprintf(lane, sizeof lane, "],\n[2,5,%d,0,0,0,0,0,1,0,1,0,1,5,5,%d,0,1,0,0,0,1,0,%zu,0,0,", ACTION_SEND_F,
             ACTION_SEND_F, shown.timeline.span_count + 1);
    assert_non_null(strstr(text.data, lane));
    assert_non_null(strstr(text.data, "]],\n\"exchanges\":[0],\n\"messages\":["));
    json_free(data_of(&text));
    text_clear(&text);
    hide(&shown);
    schedule_free(schedule);
    shown = show("1f1b", 1);
    const struct page_run other = { "b", &shown.timeline, &shown.simulation, false, NULL };
    assert_true(timeline_draw_html(&other, 1, NULL, "none", &text));
    assert_null(strstr(text.data, "\"exchanges\":"));
    text_clear(&text);
    hide(&shown);
}

static void two_runs_come_with_their_difference(void **state)
{
    (void)state;
    struct shown a = show("zb-h1", 1), b = show("1f1b", 1);
    struct difference difference;
    struct error error = { 0 };
    struct text text = { 0 };
    assert_good(timeline_compare(&a.timeline, &b.timeline, 0, &difference, &error), error);
    const struct page_run runs[2] = { { "a", &a.timeline, &a.simulation, false, NULL },
                                      { "b", &b.timeline, &b.simulation, false, NULL } };
    assert_true(timeline_draw_html(runs, 2, &difference, "two", &text));
    struct json_document *document = data_of(&text);
    struct json root = json_root(document), first = json_object(&root, "first"), list = json_array(&root, "runs");
    assert_int_equal(json_count(&list), 2);
    assert_memory_equal(json_string(&root, "difference"), "in the order: rank 3", 20);
    assert_int_equal(json_u64(&first, "rank", 0, 3), 3);
    assert_int_equal(json_u64(&root, "base", 0, 1), 1);
    assert_string_equal(json_string(&root, "work"), "");
    assert_good(json_ok(document, &error), error);
    json_free(document);
    text_clear(&text);
    hide(&a);
    hide(&b);
}

// What was predicted is subtracted from what was measured, wherever either stands.
static void measured_less_predicted(void **state)
{
    (void)state;
    struct shown a = show("1f1b", 1);
    struct difference difference;
    struct error error = { 0 };
    assert_good(timeline_compare(&a.timeline, &a.timeline, 0, &difference, &error), error);
    for (unsigned measured = 0; measured < 4; measured++) {
        const struct page_run runs[2] = { { "a", &a.timeline, &a.simulation, measured & 1, NULL },
                                          { "b", &a.timeline, &a.simulation, measured >> 1, NULL } };
        struct text text = { 0 };
        assert_true(timeline_draw_html(runs, 2, &difference, "two", &text));
        struct json_document *document = data_of(&text);
        struct json root = json_root(document);
        assert_int_equal(json_u64(&root, "base", 0, 1), measured == 2 ? 0 : 1);
        assert_good(json_ok(document, &error), error);
        json_free(document);
        text_clear(&text);
    }
    hide(&a);
}

// What 1 is, and what each rank's device has; neither where nobody has said.
static void units_and_limits_are_told(void **state)
{
    (void)state;
    struct shown shown = show("1f1b", 1);
    const uint64_t limits[] = { 1000, 2000, 3000, 4000 };
    for (unsigned known = 0; known < 2; known++) {
        shown.timeline.unit_ns = known ? 250 : 0;
        const struct page_run run = { "a", &shown.timeline, &shown.simulation, false, known ? limits : NULL };
        struct text text = { 0 };
        struct error error = { 0 };
        assert_true(timeline_draw_html(&run, 1, NULL, "one", &text));
        struct json_document *document = data_of(&text);
        struct json root = json_root(document), list = json_array(&root, "runs"), item, number;
        assert_true(json_next(&list, &item));
        assert_int_equal(json_u64(&item, "unit", 0, JSON_MAX), known ? 250 : 0);
        struct json told = json_array(&item, "limits");
        assert_int_equal(json_count(&told), known ? 4 : 0);
        for (size_t i = 0; json_next(&told, &number); i++)
            assert_int_equal(json_item_u64(&number, 0, JSON_MAX), limits[i]);
        assert_good(json_ok(document, &error), error);
        json_free(document);
        text_clear(&text);
    }
    hide(&shown);
}

static void nothing_makes_a_page_too(void **state)
{
    (void)state;
    struct timeline timeline = { .ranks = 1 };
    struct simulation simulation;
    struct error error = { 0 };
    struct text text = { 0 };
    assert_good(timeline_measure(&timeline, &simulation, &error), error);
    const struct page_run nothing = { "nothing", &timeline, &simulation, false, NULL };
    assert_true(timeline_draw_html(&nothing, 1, NULL, "nothing", &text));
    json_free(data_of(&text));
    text_clear(&text);
    simulation_clear(&simulation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_holds_what_the_timeline_does),
        cmocka_unit_test(exchanges_have_a_lane),
        cmocka_unit_test(two_runs_come_with_their_difference),
        cmocka_unit_test(measured_less_predicted),
        cmocka_unit_test(units_and_limits_are_told),
        cmocka_unit_test(nothing_makes_a_page_too),
    };
    return cmocka_run_group_tests_name("timeline_html", tests, NULL, NULL);
}
