// The price of a copy: the time of its gradients' sum, in pairs that a device does in that time, and a least.
#include "partitioner/experts/copy_price.h"

#include "tests/test.h"

enum { EXPERTS = 8, PAIRS = 1000, BATCHES = 3 };

static struct stand {
    struct layer_routing routed;
    struct profile_routing routing;
    struct profile_layer layers[2];
    struct profile profile;
    struct cluster *cluster;
} stand;

// An expert has 1 MiB of gradients, and a pair takes 2 us with its backward.
static int stand_up(void **state)
{
    (void)state;
    struct error error = { 0 };
    stand = (struct stand){
        .routed = { .layer = (char *)"experts", .experts = EXPERTS, .top = 1, .pairs = PAIRS },
        .layers = { { .name = (char *)"first", .forward_ns = 7 },
                    { .name = (char *)"experts", .forward_ns = 600000, .backward_input_ns = 800000,
                      .backward_weight_ns = 600000, .parameter_bytes = (uint64_t)EXPERTS << 20 } },
    };
    stand.routing = (struct profile_routing){ .batches = BATCHES, .layers = &stand.routed, .layer_count = 1 };
    stand.profile = (struct profile){ .dtype = (char *)"fp32", .layers = stand.layers, .layer_count = 2,
                                      .routing = &stand.routing };
    stand.cluster = cluster_uniform(4, (uint64_t)1 << 30, 1000, (uint64_t)1 << 30, &error);
    return stand.cluster ? 0 : -1;
}

static int sit_down(void **state)
{
    (void)state;
    cluster_free(stand.cluster);
    return 0;
}

static uint64_t price(const struct cluster *cluster, uint32_t members, uint64_t micro_batches)
{
    const struct copy_pricing pricing = { &stand.profile, cluster, members, micro_batches };
    return copy_price(&pricing, &stand.routed);
}

// 1 MiB at 1 GiB/s and a latency take 977,562.5 ns: 488 pairs for each other member, and these are rounded up.
static void it_is_what_a_device_does_while_gradients_are_added_up(void **state)
{
    (void)state;
    assert_in_range(price(stand.cluster, 2, 1), BATCHES * 488, BATCHES * 489);
    assert_in_range(price(stand.cluster, 4, 1), BATCHES * 3 * 488, BATCHES * 3 * 489);
    assert_in_range(price(stand.cluster, 4, 10), BATCHES * 3 * 48, BATCHES * 3 * 49);
    stand.layers[1].has_backward = true;
    stand.layers[1].backward_ns = 400000;  // a fused one, with which a pair takes 1 us
    assert_in_range(price(stand.cluster, 2, 1), BATCHES * 977, BATCHES * 978);
    stand.profile.dtype = (char *)"bf16";  // numbers of half the bytes have gradients of as many
    assert_in_range(price(stand.cluster, 2, 1), BATCHES * 1953, BATCHES * 1955);
}

static void it_is_a_twentieth_of_an_even_share_at_least(void **state)
{
    (void)state;
    assert_int_equal(price(NULL, 2, 1), BATCHES * PAIRS / 2 / 20);
    assert_int_equal(price(NULL, 4, 7), (BATCHES * PAIRS / 4 + 19) / 20);
    assert_int_equal(price(stand.cluster, 4, 1000000), (BATCHES * PAIRS / 4 + 19) / 20);
    stand.layers[1].forward_ns = stand.layers[1].backward_input_ns = stand.layers[1].backward_weight_ns = 0;
    assert_int_equal(price(stand.cluster, 2, 1), BATCHES * PAIRS / 2 / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_what_a_device_does_while_gradients_are_added_up, stand_up, sit_down),
        cmocka_unit_test_setup_teardown(it_is_a_twentieth_of_an_even_share_at_least, stand_up, sit_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
