#include "profiler/estimate/kernel_times.h"

#include <math.h>

#include "tests/test.h"

// Numbers that can be multiplied in the head: 10 multiprocessors that do a tile of depth 1000 in 32768 ns.
static const struct rated_device device = {
    .memory_bytes_per_second = 1000000000,
    .memory_permille = 500,
    .multiprocessors = 10,
    .kernel_ns = 7,
    .sustained_permille = 1000,
    .levels = { { 4, 100, 1000000000, 500, 1 }, { 8, 1000, 1000000000, 100, 1 } },
    .level_count = 2,
};
static const struct rated_product product = {
    .gigaflops = 10000, .permille = 1000, .wave_permille = 500, .kernel_ns = 3,
};

static double product_of(double m, double n, double count)
{
    return product_ns(&device, &product, &(struct product_size){ m, n, 1000, count, 0, 0 });
}

static struct group in_a_row(double ranks, double stride)
{
    return (struct group){ .ranks = ranks, .stride = stride };
}

static void products_go_by_waves_of_tiles(void **state)
{
    (void)state;
    assert_true(product_of(1280, 128, 1) == 3 + 32768);       // 10 tiles: one wave
    assert_true(product_of(128, 128, 1) == 3 + 32768);        // a single tile takes no less
    assert_true(product_of(1280, 256, 1) == 3 + 2 * 32768);
    assert_true(product_of(1920, 128, 1) == 3 + 1.75 * 32768);  // of the empty half of the second wave half is lost
    assert_true(product_of(128, 128, 20) == 3 + 2 * 32768);
}

static void thin_products_go_by_their_bytes(void **state)
{
    (void)state;
    // (128 + 128) x 1000 numbers read and 128 x 128 written, of 2 bytes each, at half a byte per ns.
    assert_true(product_ns(&device, &product, &(struct product_size){ 128, 128, 1000, 1, 2, 2 })
                == 3 + 2 * 2 * (256000.0 + 16384));
    assert_true(pass_ns(&device, 1000) == 7 + 2000);
}

static void collectives_take_as_long_as_the_slowest_level(void **state)
{
    (void)state;
    const double bytes = 8000;
    assert_true(collective_ns(&device, ALL_GATHER, bytes, in_a_row(1, 1)) == 0);
    // Each of 4 lacks 6000 bytes, at half a byte per ns, in 3 steps around the ring; up and down a tree it is twice 2.
    assert_true(collective_ns(&device, ALL_GATHER, bytes, in_a_row(4, 1)) == 3 * 100 + 12000);
    assert_true(collective_ns(&device, ALL_REDUCE, bytes, in_a_row(4, 1)) == 2 * (2 * 100 + 12000));
    // Two groups of 4: each lacks the other's 4000, a quarter of it over each device's own link, a tenth as fast.
    assert_true(collective_ns(&device, ALL_GATHER, bytes, in_a_row(8, 1)) == 300 + 1000 + 12000);
    // Two that are 4 apart have one link each.
    assert_true(collective_ns(&device, ALL_GATHER, bytes, in_a_row(2, 4)) == 1000 + 40000);
    // Of what each of 8 sends, half leaves the group, by its own link.
    assert_true(collective_ns(&device, ALL_TO_ALL, bytes, in_a_row(8, 1)) == 200 + 1000 + 40000);
}

// Every device of the group by its number, and how many of them are in the first group of so many.
static double counted(struct group group, double reach)
{
    double found = 0;
    for (double row = 0; row < fmax(1, group.rows); row++)
        for (double i = 0; i < group.ranks; i++)
            found += row * group.row_stride + i * group.stride < reach;
    return found;
}

// What every group of a level lacks goes over the links of those within it, in rows as in one.
static void a_group_may_be_of_rows_that_stand_apart(void **state)
{
    (void)state;
    const double bytes = 8000;
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int rows = 1; rows <= 8; rows *= 2)
            for (int apart = ranks; apart * rows <= 32; apart *= 2) {
                const struct group group = { ranks, 1, rows, apart };
                const double inside = counted(group, 4), all = ranks * rows;
                const double near = bytes * (inside - 1) / inside * 2;
                const double far = bytes * (all - inside) / all / inside * 10;
                const double steps = (inside > 1 ? 100 * (inside - 1) : 0) + (all > inside ? 1000 * (all / inside - 1) : 0);
                assert_true(fabs(collective_ns(&device, ALL_GATHER, bytes, group) - steps - fmax(near, far)) < 1e-6);
            }
    // Rows without a gap are one.
    assert_true(collective_ns(&device, ALL_REDUCE, bytes, (struct group){ 2, 1, 4, 2 })
                == collective_ns(&device, ALL_REDUCE, bytes, in_a_row(8, 1)));
    const struct token_routes two = { .chosen = 2 };
    assert_true(dispatch_ns(&device, bytes, &two, (struct group){ 2, 1, 4, 2 })
                == dispatch_ns(&device, bytes, &two, in_a_row(8, 1)));
}

static void a_token_is_sent_to_a_group_once(void **state)
{
    (void)state;
    // Two experts of each token in two groups of 4: three times out of four both groups have some, so that of what
    // leaves the group a quarter is spared. Within the group of 4 all that is spread over 8 ranks goes apart.
    const double groups = 2 * (1 - 0.25) / 2;
    const struct token_routes one = { .chosen = 1 }, two = { .chosen = 2 };
    assert_true(dispatch_ns(&device, 8000, &two, in_a_row(8, 1)) == 200 + 1000 + groups * 4000 * 10);
    assert_true(dispatch_ns(&device, 8000, &one, in_a_row(8, 1))
                == collective_ns(&device, ALL_TO_ALL, 8000, in_a_row(8, 1)));
}

// Counts the places of each choice of `chosen` experts among those of the groups in `open`, one place after the other.
static double counted_places(unsigned open, unsigned groups, unsigned chosen, unsigned places)
{
    enum { EXPERTS = 8 };
    double sum = 0, count = 0;
    for (unsigned choice = 0; choice < (1u << 3 * chosen); choice++) {
        unsigned reached = 0, taken = 0;
        for (unsigned i = 0; i < chosen; i++) {
            const unsigned expert = choice >> 3 * i & 7;
            taken += open >> expert * groups / EXPERTS & 1;
            reached |= 1u << expert * places / EXPERTS;
        }
        if (taken < chosen)
            continue;
        sum += __builtin_popcount(reached);
        count++;
    }
    return sum / count;
}

static void a_router_of_groups_reaches_as_many_places_as_are_counted(void **state)
{
    (void)state;
    for (unsigned groups = 2; groups <= 8; groups *= 2)
        for (unsigned taken = 1; taken < groups; taken++)
            for (unsigned places = 1; places <= 8; places *= 2) {
                const struct token_routes routes = { .chosen = 3, .groups = groups, .chosen_groups = taken };
                double sum = 0, count = 0;
                for (unsigned open = 0; open < 1u << groups; open++) {
                    if ((unsigned)__builtin_popcount(open) != taken)
                        continue;
                    sum += counted_places(open, groups, 3, places);
                    count++;
                }
                if (fabs(token_places(&routes, places) - sum / count) > 1e-9)
                    fail_msg("%u of %u groups, %u places: %g, not %g", taken, groups, places,
                             token_places(&routes, places), sum / count);
            }
    const struct token_routes open = { .chosen = 3 }, odd = { .chosen = 3, .groups = 8, .chosen_groups = 4 };
    assert_true(fabs(token_places(&open, 8) - counted_places(1, 1, 3, 8)) < 1e-9);
    assert_true(token_places(&odd, 3) == token_places(&open, 3));  // places that cut groups limit nothing
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_go_by_waves_of_tiles),
        cmocka_unit_test(thin_products_go_by_their_bytes),
        cmocka_unit_test(collectives_take_as_long_as_the_slowest_level),
        cmocka_unit_test(a_group_may_be_of_rows_that_stand_apart),
        cmocka_unit_test(a_token_is_sent_to_a_group_once),
        cmocka_unit_test(a_router_of_groups_reaches_as_many_places_as_are_counted),
    };
    return cmocka_run_group_tests_name("kernel_times", tests, NULL, NULL);
}
