#include "schedules/pictures/palette.h"

#include <math.h>

#include "tests/test.h"

// What people see, as matrices over linear red, green and blue: Machado, Oliveira and
// Fernandes (2009), severity 1.
static struct sight {
    const char *name;
    double matrix[3][3];
    double least;  // distance of two kinds, in any shades; at 2.3 two colours beside each other are just told apart
} sights[] = {
    { "sight: usual", { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } }, 30 },
    { "sight: deuteranopia",
      { { 0.367322, 0.860646, -0.227968 }, { 0.280085, 0.672501, 0.047413 }, { -0.011820, 0.042940, 0.968881 } }, 24 },
    { "sight: protanopia",
      { { 0.152286, 1.052583, -0.204868 }, { 0.114503, 0.786281, 0.099216 }, { -0.003882, -0.048116, 1.051998 } }, 23 },
    { "sight: tritanopia",
      { { 1.255528, -0.076749, -0.178779 }, { -0.078411, 0.930809, 0.147602 }, { 0.004733, 0.691367, 0.303900 } }, 17 },
};

struct lab {
    double l, a, b;
};

static double linear(uint8_t part)
{
    const double share = part / 255.0;
    return share <= 0.04045 ? share / 12.92 : pow((share + 0.055) / 1.055, 2.4);
}

static double bent(double t)
{
    return t > 0.008856 ? cbrt(t) : 7.787 * t + 16.0 / 116;
}

// CIE L*a*b* of a colour as seen, under D65.
static struct lab lab_of(struct rgb colour, const struct sight *sight)
{
    const double in[3] = { linear(colour.red), linear(colour.green), linear(colour.blue) };
    double seen[3];
    for (int i = 0; i < 3; i++) {
        const double sum = sight->matrix[i][0] * in[0] + sight->matrix[i][1] * in[1] + sight->matrix[i][2] * in[2];
        seen[i] = fmin(1, fmax(0, sum));
    }
    const double x = bent((0.4124 * seen[0] + 0.3576 * seen[1] + 0.1805 * seen[2]) / 0.9505);
    const double y = bent(0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2]);
    const double z = bent((0.0193 * seen[0] + 0.1192 * seen[1] + 0.9505 * seen[2]) / 1.089);
    return (struct lab){ 116 * y - 16, 500 * (x - y), 200 * (y - z) };
}

static double distance(struct rgb a, struct rgb b, const struct sight *sight)
{
    const struct lab x = lab_of(a, sight), y = lab_of(b, sight);
    return sqrt((x.l - y.l) * (x.l - y.l) + (x.a - y.a) * (x.a - y.a) + (x.b - y.b) * (x.b - y.b));
}

static const unsigned kinds[] = { ACTION_F, ACTION_B, ACTION_I, ACTION_W, ACTION_R, ACTION_REDUCE, ACTION_STEP,
                                  ACTION_VALIDATE };
enum { KINDS = sizeof kinds / sizeof kinds[0] };

// Only these four are drawn in shades often; a recompute, a step is of one stage or another, but rare.
static unsigned shades_of(unsigned kind)
{
    return kind <= ACTION_W ? SHADES : 1;
}

static struct rgb as_it_is(struct rgb colour)
{
    return colour;
}

static struct rgb on_a_terminal(struct rgb colour)
{
    return palette_of_terminal(palette_terminal(colour));
}

static void assert_apart(const struct sight *sight, struct rgb (*show)(struct rgb), double least)
{
    for (unsigned a = 0; a < KINDS; a++) {
        for (unsigned b = 0; b < a; b++) {
            for (unsigned i = 0; i < shades_of(kinds[a]) * shades_of(kinds[b]); i++) {
                const unsigned x = i % shades_of(kinds[a]), y = i / shades_of(kinds[a]);
                const double apart =
                    distance(show(palette_box(kinds[a], x)), show(palette_box(kinds[b], y)), sight);
                if (apart < least)
                    fail_msg("kinds %u (shade %u) and %u (shade %u) are only %.1f apart", kinds[a], x, kinds[b], y, apart);
            }
        }
    }
}

static void kinds_stay_apart_in_every_shade(void **state)
{
    const struct sight *sight = *state;
    assert_apart(sight, as_it_is, sight->least);
    assert_apart(sight, on_a_terminal, sight->least / 2);
}

static void ink_can_be_read(void **state)
{
    (void)state;
    const struct sight *usual = &sights[0];
    for (unsigned a = 0; a < KINDS; a++) {
        for (unsigned shade = 0; shade < SHADES; shade++) {
            const double box = lab_of(palette_box(kinds[a], shade), usual).l;
            const double ink = lab_of(palette_ink(kinds[a], shade), usual).l;
            assert_true(fabs(box - ink) > 35);
        }
    }
}

static void shades_are_lighter_and_lighter(void **state)
{
    (void)state;
    for (unsigned a = 0; a < KINDS; a++) {
        for (unsigned shade = 1; shade < SHADES; shade++)
            assert_true(lab_of(palette_box(kinds[a], shade), &sights[0]).l
                        > lab_of(palette_box(kinds[a], shade - 1), &sights[0]).l + 3);
    }
}

static void terminal_colours_are_found_again(void **state)
{
    (void)state;
    for (unsigned number = 16; number < 256; number++) {
        const struct rgb want = palette_of_terminal(number), got = palette_of_terminal(palette_terminal(want));
        assert_memory_equal(&want, &got, sizeof want);
    }
}

int main(void)
{
    enum { PLAIN = 3, SIGHTS = sizeof sights / sizeof sights[0] };
    struct CMUnitTest tests[PLAIN + SIGHTS] = {
        cmocka_unit_test(ink_can_be_read),
        cmocka_unit_test(shades_are_lighter_and_lighter),
        cmocka_unit_test(terminal_colours_are_found_again),
    };
    for (size_t i = 0; i < SIGHTS; i++)
        tests[PLAIN + i] = (struct CMUnitTest)TEST_ROW(kinds_stay_apart_in_every_shade, &sights[i]);
    return cmocka_run_group_tests_name("palette", tests, NULL, NULL);
}
