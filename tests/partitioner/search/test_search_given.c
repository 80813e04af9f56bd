#include "partitioner/search/search_given.h"

#include <stdlib.h>
#include <string.h>

#include "tests/partitioner/small.h"

struct given {
    struct profile *profile;
    struct cluster *cluster;
    struct search_request request;
};

static struct given make(void)
{
    struct error error = { 0 };
    uint64_t seed = 7;
    struct given given = { .profile = small_random_chain(&seed, 4, 10) };
    given.cluster = cluster_uniform(4, 1 << 20, 10, 1000, &error);
    assert_good(given.cluster, error);
    given.request = (struct search_request){ .profile = given.profile, .cluster = given.cluster, .ranks = 3 };
    return given;
}

static void clear(struct given *given)
{
    profile_free(given->profile);
    cluster_free(given->cluster);
}

static void devices_are_the_clusters_and_each_once(void **state)
{
    (void)state;
    struct given given = make();
    static const uint32_t good[] = { 2, 0, 3 }, far[] = { 0, 4, 1 }, twice[] = { 1, 0, 1 };
    struct error error = { 0 };
    assert_true(search_give_devices(&given.request, good, 3, &error));
    assert_ptr_equal(given.request.layout.devices, good);
    assert_false(search_give_devices(&given.request, far, 3, &error));
    assert_error(error, "device 4 is not in the cluster (0 to 3)");
    error = (struct error){ 0 };
    assert_false(search_give_devices(&given.request, twice, 3, &error));
    assert_error(error, "device 1 is there twice");
    error = (struct error){ 0 };
    assert_false(search_give_devices(&given.request, good, 2, &error));
    assert_error(error, "names 2 devices, but 3 are needed");
    clear(&given);
}

static void the_first_part_of_a_name_is_enough(void **state)
{
    (void)state;
    struct given given = make();
    struct search_pin pins[4];
    size_t count = 0;
    struct error error = { 0 };
    free(given.profile->layers[1].name);
    given.profile->layers[1].name = strdup("node1.Linear");
    assert_true(search_give_pin(given.profile, "node1", 5, 1, pins, &count, &error));
    assert_int_equal(pins[count - 1].layer, 1);
    assert_false(search_give_pin(given.profile, "node", 4, 1, pins, &count, &error));
    assert_error(error, "the profile has no layer named \"node\"");
    error = (struct error){ 0 };
    free(given.profile->layers[2].name);
    given.profile->layers[2].name = strdup("node1.Conv");
    assert_false(search_give_pin(given.profile, "node1", 5, 1, pins, &count, &error));
    assert_error(error, "2 layers of the profile begin with \"node1\"; name one whole");
    clear(&given);
}

static void a_layer_is_pinned_by_its_name(void **state)
{
    (void)state;
    struct given given = make();
    struct search_pin pins[4];
    size_t count = 0;
    struct error error = { 0 };
    assert_true(search_give_pin(given.profile, "l2=1", 2, 1, pins, &count, &error));
    assert_true(search_give_pin(given.profile, "l0", 2, 0, pins, &count, &error));
    assert_true(search_give_pin(given.profile, "l2", 2, 1, pins, &count, &error));  // as it was
    assert_true(count == 3 && pins[0].layer == 2 && pins[0].stage == 1 && pins[1].layer == 0);
    assert_false(search_give_pin(given.profile, "l2", 2, 0, pins, &count, &error));
    assert_error(error, "layer \"l2\" cannot be on stages 1 and 0");
    error = (struct error){ 0 };
    assert_false(search_give_pin(given.profile, "l", 1, 0, pins, &count, &error));
    assert_error(error, "the profile has no layer named \"l\"");
    error = (struct error){ 0 };
    clear(&given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_the_clusters_and_each_once),
        cmocka_unit_test(a_layer_is_pinned_by_its_name),
        cmocka_unit_test(the_first_part_of_a_name_is_enough),
    };
    return cmocka_run_group_tests_name("search_given", tests, NULL, NULL);
}
