// Numbers of 16 bits against their formulas, and rounding against the nearest of all.
#include "device/half.h"

#include <math.h>

#include "tests/test.h"

// By the definition: sign, exponent and rest as powers of two, which doubles hold exactly.
static double by_formula(unsigned half, int exponent_bits)
{
    const int rest_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (int)(half >> rest_bits) & ((1 << exponent_bits) - 1);
    const int rest = (int)half & ((1 << rest_bits) - 1);
    const double sign = half & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return rest ? NAN : sign * INFINITY;
    return sign * ldexp(exponent ? rest + (1 << rest_bits) : rest, (exponent ? exponent : 1) - bias - rest_bits);
}

static const struct format {
    enum precision precision;
    int exponent_bits;
    double largest;
} formats[] = { { PRECISION_BF16, 8, 0x1.fep127 }, { PRECISION_FP16, 5, 65504 } };

static void all_numbers_are_those_of_their_formula(void **state)
{
    (void)state;
    for (size_t f = 0; f < 2; f++)
        for (unsigned half = 0; half < 1 << 16; half++) {
            const double want = by_formula(half, formats[f].exponent_bits);
            const double found = (double)half_widen(formats[f].precision, (uint16_t)half);
            if (isnan(want) ? !isnan(found) : found != want || signbit(found) != signbit(want))
                fail_msg("%s %04x is %.9g, not %.9g", precision_name(formats[f].precision), half, found, want);
        }
}

static void numbers_come_back_as_they_were(void **state)
{
    (void)state;
    for (size_t f = 0; f < 2; f++)
        for (unsigned half = 0; half < 1 << 16; half++) {
            const float x = half_widen(formats[f].precision, (uint16_t)half);
            const uint16_t again = half_round(formats[f].precision, x);
            if (isnan(x) ? !isnan(half_widen(formats[f].precision, again)) : again != half)
                fail_msg("%s %04x comes back as %04x", precision_name(formats[f].precision), half, again);
        }
}

// Between two neighbours the nearer, in the middle the even one. Behind the largest stands, for this, the next power of
// two, which is written as infinity.
static void must_round(const struct format *format, float x)
{
    const unsigned infinity = half_round(format->precision, INFINITY);
    unsigned low = 0, high = infinity;
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if (by_formula(middle, format->exponent_bits) <= fabs((double)x))
            low = middle;
        else
            high = middle;
    }
    const double below = by_formula(low, format->exponent_bits);
    const double step = below - by_formula(low - (low > 0), format->exponent_bits);
    const double above = high == infinity ? below + step : by_formula(high, format->exponent_bits);
    const double under = fabs((double)x) - below, over = above - fabs((double)x);
    const unsigned want = (under < over || (under == over && low % 2 == 0) ? low : high) | (signbit(x) ? 0x8000 : 0);
    const unsigned found = half_round(format->precision, x);
    if (found != want)
        fail_msg("%.9g becomes %s %04x, not %04x", (double)x, precision_name(format->precision), found, want);
}

static void floats_become_the_nearest(void **state)
{
    (void)state;
    for (size_t f = 0; f < 2; f++) {
        uint64_t seed = 1;
        for (uint64_t trial = 0; trial < test_trials(100000, 10000000); trial++) {
            const float x = half_float_of_bits((uint32_t)random_next(&seed));
            if (isfinite(x) && fabs((double)x) <= formats[f].largest)
                must_round(&formats[f], x);
        }
        for (unsigned half = 0; half < 0x7fff; half++) {  // and right in the middle, or beside it
            const double middle = (by_formula(half, formats[f].exponent_bits)
                                   + by_formula(half + 1, formats[f].exponent_bits)) / 2;
            if (!isfinite(middle))
                continue;
            must_round(&formats[f], (float)middle);
            must_round(&formats[f], nextafterf((float)-middle, 0));
            must_round(&formats[f], nextafterf((float)middle, INFINITY));
        }
    }
}

static void what_is_past_the_largest_is_infinite(void **state)
{
    (void)state;
    assert_int_equal(half_round(PRECISION_FP16, 65519.996f), 0x7bff);
    assert_int_equal(half_round(PRECISION_FP16, 65520), 0x7c00);
    assert_int_equal(half_round(PRECISION_FP16, -1e30f), 0xfc00);
    assert_int_equal(half_round(PRECISION_FP16, -INFINITY), 0xfc00);
    assert_int_equal(half_round(PRECISION_FP16, 0x1p-25f), 0);
    assert_int_equal(half_round(PRECISION_FP16, 0x1.000002p-25f), 1);
    assert_int_equal(half_round(PRECISION_BF16, 3.4e38f), 0x7f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_numbers_are_those_of_their_formula),
        cmocka_unit_test(numbers_come_back_as_they_were),
        cmocka_unit_test(floats_become_the_nearest),
        cmocka_unit_test(what_is_past_the_largest_is_infinite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
