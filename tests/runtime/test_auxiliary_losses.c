#include "runtime/auxiliary_losses.h"

#include "common/random.h"
#include "tests/test.h"

enum { COUNT = 3, MICRO_BATCHES = 5, SPLITS = 4 };

// A sum in floats depends on its order, so numbers of all sizes show another one.
static void parts_come_before_layers_and_layers_in_the_given_order(void **state)
{
    (void)state;
    static const uint32_t order[COUNT] = { 2, 0, 1 };
    struct error error = { 0 };
    struct auxiliary_losses losses;
    uint64_t seed = 1;
    uint32_t differing = 0;
    assert_good(auxiliary_losses_open(&losses, COUNT, MICRO_BATCHES, SPLITS, &error), error);
    for (uint32_t m = 0; m < MICRO_BATCHES; m++)
        for (uint32_t s = 0; s < SPLITS; s++)
            for (uint32_t i = 0; i < COUNT; i++)
                auxiliary_losses_at(&losses, m, s)[i] = (float)random_unit(&seed);
    for (int given = 0; given < 2; given++) {
        auxiliary_losses_add_up(&losses, given ? order : NULL);
        for (uint32_t m = 0; m < MICRO_BATCHES; m++) {
            float whole[COUNT], sum = 0, other = 0;
            for (uint32_t i = 0; i < COUNT; i++) {
                const float *first = &losses.parts[m * SPLITS * COUNT + i];
                whole[i] = first[0] + first[COUNT] + first[2 * COUNT] + first[3 * COUNT];
                assert_true(losses.whole[m * COUNT + i] == whole[i]);
            }
            for (uint32_t i = 0; i < COUNT; i++) {
                sum += whole[given ? order[i] : i];
                other += whole[given ? i : order[i]];
            }
            assert_true(losses.sums[m] == sum);
            differing += sum != other;
        }
    }
    assert_true(differing > 0);
    auxiliary_losses_close(&losses);
}

static void without_layers_sums_are_zero(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct auxiliary_losses losses;
    assert_good(auxiliary_losses_open(&losses, 0, MICRO_BATCHES, 1, &error), error);
    auxiliary_losses_add_up(&losses, NULL);
    for (uint32_t m = 0; m < MICRO_BATCHES; m++)
        assert_true(losses.sums[m] == 0);
    auxiliary_losses_close(&losses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_come_before_layers_and_layers_in_the_given_order),
        cmocka_unit_test(without_layers_sums_are_zero),
    };
    return cmocka_run_group_tests_name("auxiliary_losses", tests, NULL, NULL);
}
