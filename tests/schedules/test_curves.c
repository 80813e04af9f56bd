// Curves within a page: where a point and a mark of an axis stand is where its number belongs, whatever the numbers.
#include "schedules/pictures/curves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schedules/pictures/timeline_html.h"
#include "tests/test.h"

enum { MOST = 400 };

// A scale of the picture: a number is at a * number + b.
struct scale {
    double a, b;
};

// cmocka compares floats, which are too short for steps of a long run.
static void assert_near(double is, double wanted, double by)
{
    if (fabs(is - wanted) > by)
        fail_msg("%.17g is not %.17g", is, wanted);
}

static struct scale scale_of(double number, double at, double other, double other_at)
{
    const double a = (other_at - at) / (other - number);
    return (struct scale){ a, at - a * number };
}

static char *draw(const struct curve *curves, size_t count)
{
    struct error error = { 0 };
    struct text text = { 0 };
    curves_draw(&(struct curve_chart){ "loss", "step", curves, .count = count }, &text);
    char *drawn = text_take(&text, &error);
    assert_good(drawn, error);
    return drawn;
}

// The points of the polyline of a class.
static size_t points_of(const char *drawn, const char *class, double x[MOST], double y[MOST])
{
    char opening[60];
    snprintf(opening, sizeof opening, "<polyline class=\"%s\" points=\"", class);
    const char *at = strstr(drawn, opening);
    assert_non_null(at);
    at += strlen(opening);
    size_t count = 0;
    for (int length = 0; sscanf(at, " %lf,%lf%n", &x[count], &y[count], &length) == 2; at += length)
        count++;
    assert_int_equal(*at, '"');
    return count;
}

// Every mark stands at its number, as far as its digits say it and a tenth of a pixel shows it. Their numbers.
static size_t assert_marks(const char *drawn, bool across, struct scale scale)
{
    const char *const form = across ? "<path d=\"M%lf %*d V%*d\"/><text x=\"%lf\" y=\"%*f\" text-anchor=\"middle\">%lf<"
                                    : "<path d=\"M%*d %lf H%*d\"/><text x=\"%*f\" y=\"%lf\" text-anchor=\"end\">%lf<";
    size_t count = 0;
    double line, label, number;
    for (const char *at = drawn; (at = strstr(at, "<path")); at++) {
        if (sscanf(at, form, &line, &label, &number) != 3)
            continue;
        count++;
        assert_near(line, scale.a * number + scale.b, 0.11);
    }
    return count;
}

static void points_stand_where_their_numbers_belong(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (uint64_t trial = 0; trial < test_trials(300, 20000); trial++) {
        struct curve_point points[2][MOST];
        struct curve curves[2] = { { "trained on", points[0], 2 + random_below(&random, MOST - 2), false },
                                   { "held out", points[1], random_below(&random, 20), true } };
        const double size = pow(10, (double)random_below(&random, 12) - 6);
        const double middle = (double)random_below(&random, 20) - 10;
        for (size_t c = 0; c < 2; c++) {
            uint64_t step = random_below(&random, 3) * 1000000;
            for (size_t i = 0; i < curves[c].count; i++, step += 1 + random_below(&random, 50))
                points[c][i] = (struct curve_point){ step, middle + size * random_unit(&random) };
        }
        char *drawn = draw(curves, 2);
        double x[MOST], y[MOST];
        size_t low = 0, high = 0;
        const struct curve_point *at = points[0];
        assert_int_equal(points_of(drawn, "curve0", x, y), curves[0].count);
        for (size_t i = 0; i < curves[0].count; i++) {
            low = at[i].y < at[low].y ? i : low;
            high = at[i].y > at[high].y ? i : high;
            assert_true(x[i] >= 56 && x[i] <= 948 && y[i] >= 10 && y[i] <= 212);
        }
        const size_t last = curves[0].count - 1;
        const struct scale across = scale_of((double)at[0].x, x[0], (double)at[last].x, x[last]);
        if (y[low] - y[high] > 100 && x[last] - x[0] > 100) {  // else a tenth of a pixel is too coarse for a scale
            const struct scale up = scale_of(at[low].y, y[low], at[high].y, y[high]);
            for (size_t i = 0; i <= last; i++) {
                assert_near(x[i], across.a * (double)at[i].x + across.b, 0.11);
                assert_near(y[i], up.a * at[i].y + up.b, 0.11);
            }
            double held_x[MOST], held_y[MOST];
            assert_int_equal(points_of(drawn, "curve1", held_x, held_y), curves[1].count);
            for (size_t i = 0; i < curves[1].count; i++) {
                assert_near(held_x[i], across.a * (double)points[1][i].x + across.b, 1);
                assert_near(held_y[i], up.a * points[1][i].y + up.b, 0.3);
            }
        }
        size_t dots = 0;
        for (const char *dot = drawn; (dot = strstr(dot, "<circle class=\"curve1\"")); dot++)
            dots++;
        assert_int_equal(dots, curves[1].count);
        free(drawn);
    }
}

static void marks_stand_at_their_numbers(void **state)
{
    (void)state;
    static const double ranges[][2] = { { 2.5, 8 }, { 0, 1 }, { 5.001, 5.004 }, { -3, 900 }, { 1e6, 1.5e6 },
                                        { 0.00012, 0.00097 } };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const struct curve_point points[] = { { 1, ranges[i][0] }, { 1500, ranges[i][1] } };
        const struct curve curve = { "loss", points, 2, false };
        char *drawn = draw(&curve, 1);
        double x[MOST], y[MOST];
        assert_int_equal(points_of(drawn, "curve0", x, y), 2);
        const size_t across = assert_marks(drawn, true, scale_of(1, x[0], 1500, x[1]));
        const size_t up = assert_marks(drawn, false, scale_of(ranges[i][0], y[0], ranges[i][1], y[1]));
        assert_in_range(across, 3, 9);
        assert_in_range(up, 3, 9);
        free(drawn);
    }
}

// Ends, and has a picture, where numbers lie closer together than doubles do, or far apart.
static void numbers_of_all_sizes_are_drawn(void **state)
{
    (void)state;
    static const struct curve_point all[][2] = {
        { { 7, 5 }, { 7, 5 } }, { { 1, 5 }, { 2, 5 + 1e-15 } }, { { 1, 0 }, { 2, 0 } }, { { 1, -1e300 }, { 2, 1e300 } },
        { { 1, 5e-324 }, { 2, 0 } }, { { UINT64_MAX - 1, 1 }, { UINT64_MAX, 2 } },
        { { 0, 1e15 }, { UINT64_MAX, 1e15 + 1 } },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        for (size_t count = 1; count <= 2; count++) {
            const struct curve curve = { "loss", all[i], count, true };
            char *drawn = draw(&curve, 1);
            double x[MOST], y[MOST];
            assert_int_equal(points_of(drawn, "curve0", x, y), count);
            for (size_t p = 0; p < count; p++)
                assert_true(x[p] >= 56 && x[p] <= 948 && y[p] >= 10 && y[p] <= 212);
            assert_true(strlen(drawn) < 10000);
            assert_null(strstr(drawn, "nan"));
            assert_null(strstr(drawn, "inf"));
            free(drawn);
        }
    }
}

static void nothing_is_no_picture_and_names_are_escaped(void **state)
{
    (void)state;
    const struct curve_point point = { 3, 4.25 };
    const struct curve curves[] = { { "none", NULL, 0, false }, { "a <b> & c", &point, 1, true } };
    char *nothing = draw(curves, 1), *drawn = draw(curves, 2);
    assert_string_equal(nothing, "");
    assert_null(strstr(drawn, "<b>"));
    assert_null(strstr(drawn, "none</span>"));
    assert_non_null(strstr(drawn, "<title>a &lt;b&gt; &amp; c, step 3: 4.2500</title>"));
    free(nothing);
    free(drawn);
}

// In the page of a run they stand once, and where there are none the page is as it was.
static void a_page_has_them_below(void **state)
{
    (void)state;
    struct timeline timeline = { .ranks = 1 };
    struct simulation simulation;
    struct error error = { 0 };
    const struct curve_point point = { 3, 4.25 };
    const struct curve curve = { "loss", &point, 1, true };
    const struct curve_chart chart = { "loss", "step", &curve, .count = 1 };
    struct text with = { 0 }, without = { 0 }, plain = { 0 };
    assert_good(timeline_measure(&timeline, &simulation, &error), error);
    const struct page_run run = { .name = "run", .timeline = &timeline, .simulation = &simulation };
    assert_true(timeline_draw_html_with(&run, 1, NULL, "run", &chart, &with));
    assert_true(timeline_draw_html_with(&run, 1, NULL, "run", NULL, &without));
    assert_true(timeline_draw_html(&run, 1, NULL, "run", &plain));
    assert_string_equal(without.data, plain.data);
    const char *first = strstr(with.data, "<div id=\"curves\">");
    assert_non_null(first);
    assert_null(strstr(first + 1, "<div id=\"curves\">"));
    assert_true(strstr(with.data, "<main id=\"runs\">") < first);
    assert_null(strstr(plain.data, "<figure"));
    assert_null(strstr(with.data, "@CURVES@"));
    text_clear(&with);
    text_clear(&without);
    text_clear(&plain);
    simulation_clear(&simulation);
}

// Each chart is what it is alone, but for the colours that it begins with. One without points is left out.
static void charts_stand_beside_each_other(void **state)
{
    (void)state;
    const struct curve_point points[] = { { 1, 0.5 }, { 3, 0.75 } };
    const struct curve curve = { "held out", points, 2, true };
    const struct curve_chart last = { "right", "step", &curve, 1, .first_colour = 1 };
    const struct curve_chart empty = { "empty", "step", &curve, 0, .beside = &last };
    const struct curve_chart first = { "loss", "step", &curve, 1, .beside = &empty };
    const struct curve_chart alone = { "loss", "step", &curve, .count = 1 };
    const size_t opening = strlen("<div id=\"curves\">\n"), end = strlen("</div>\n");
    struct text all = { 0 }, one = { 0 }, other = { 0 }, joined = { 0 };
    curves_draw(&first, &all);
    curves_draw(&alone, &one);
    curves_draw(&last, &other);
    text_add(&joined, "%.*s%s", (int)(one.length - end), one.data, other.data + opening);
    assert_string_equal(all.data, joined.data);
    double x[MOST], y[MOST];
    assert_int_equal(points_of(other.data, "curve1", x, y), 2);
    assert_non_null(strstr(other.data, "<circle class=\"curve1\""));
    assert_non_null(strstr(other.data, "<span class=\"curve1\">"));
    assert_null(strstr(other.data, "curve0"));
    text_clear(&all);
    text_clear(&one);
    text_clear(&other);
    text_clear(&joined);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_stand_where_their_numbers_belong),
        cmocka_unit_test(marks_stand_at_their_numbers),
        cmocka_unit_test(numbers_of_all_sizes_are_drawn),
        cmocka_unit_test(nothing_is_no_picture_and_names_are_escaped),
        cmocka_unit_test(a_page_has_them_below),
        cmocka_unit_test(charts_stand_beside_each_other),
    };
    return cmocka_run_group_tests_name("curves", tests, NULL, NULL);
}
