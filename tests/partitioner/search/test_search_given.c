#include "partitioner/search/search_given.h"

#include <stdlib.h>
#include <string.h>

#include "partitioner/search/search_request.h"
#include "schedules/generators/generate.h"
#include "schedules/generators/given_order.h"
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

static void a_rank_with_several_stages_has_one_group(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t ranks, stages;
    } rows[] = { { "1f1b", 2, 2 }, { "interleaved", 2, 4 }, { "zb-v", 2, 4 }, { "dualpipe", 2, 2 } };
    static const uint32_t devices[] = { 3, 1, 0, 2 };
    static const char *const names[] = { "rows2", "rows2", "rows2", "rows2" };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct given given = make();
        struct error error = { 0 };
        struct profile_layer *layer = &given.profile->layers[1];
        layer->variants = calloc(1, sizeof layer->variants[0]);
        layer->variants[0] = (struct profile_variant){ .devices = 2 };
        layer->variants[0].layer.name = strdup("rows2");
        layer->variant_count = 1;
        given.request.schedule = rows[i].name;
        given.request.ranks = rows[i].ranks;
        given.request.micro_batches = 4;
        given.request.layout = (struct search_layout){ .variants = names, .stages = rows[i].stages };
        assert_good(search_resolve(&given.request, &error), error);
        assert_good(search_give_devices(&given.request, devices, 4, &error), error);
        assert_false(search_give_devices(&given.request, devices, 3, &error));
        assert_error(error, "names 3 devices, but 4 are needed");
        clear(&given);
    }
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

static void set_kind(struct profile *profile, size_t layer, const char *kind)
{
    free(profile->layers[layer].kind);
    profile->layers[layer].kind = strdup(kind);
}

// Blocks of an attention, a router, products, and a sum.
static struct profile *with_experts(size_t blocks)
{
    uint64_t seed = 8;
    struct profile *profile = small_random_chain(&seed, 4 * blocks, 10);
    for (size_t l = 0; l < profile->layer_count; l++)
        set_kind(profile, l, ((const char *[]){ "attention", "router", "products", "combine" })[l % 4]);
    return profile;
}

static struct schedule *cut_order(const struct profile *profile, const char *name, uint32_t ranks,
                                  struct segmenting into, struct error *error)
{
    const struct generate_request generate = { .ranks = ranks, .micro_batches = 4 };
    struct schedule *order = schedule_generate_as(name, &generate, error);
    struct schedule *segments = order ? search_give_segments(profile, order, into, error) : NULL;
    schedule_free(order);
    return segments;
}

static void each_layer_that_exchanges_begins_a_segment(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t ranks, segments;
        size_t blocks;
    } rows[] = { { "1f1b", 1, 3, 1 }, { "1f1b", 2, 3, 2 }, { "dualpipe", 2, 5, 4 }, { "zb-v", 2, 3, 4 },
                 { "interleaved", 1, 7, 6 }, { "gpipe", 3, 5, 6 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (uint32_t said = 0; said < 4; said++) {
            struct error error = { 0 };
            const struct segmenting into = { .segments = said % 2 ? rows[i].segments : 0, .open = said / 2 };
            const struct generate_request generate = { .ranks = rows[i].ranks, .micro_batches = 4,
                                                       .into = { rows[i].segments, into.open } };
            struct profile *profile = with_experts(rows[i].blocks);
            struct schedule *order = cut_order(profile, rows[i].name, rows[i].ranks, into, &error);
            struct schedule *same = schedule_generate_as(rows[i].name, &generate, &error);
            assert_good(order && same, error);
            assert_true(order->exchanges && given_order_check(order, &error));
            struct text one = { 0 }, other = { 0 };
            schedule_write(order, &one);
            schedule_write(same, &other);
            assert_string_equal(one.data, other.data);
            text_clear(&one);
            text_clear(&other);
            schedule_free(order);
            schedule_free(same);
            profile_free(profile);
        }
}

static void tables_and_dense_layers_are_two_segments(void **state)
{
    (void)state;
    struct given given = make();
    struct error error = { 0 };
    set_kind(given.profile, 2, "exchange");
    struct schedule *order = cut_order(given.profile, "1f1b", 1, (struct segmenting){ 0 }, &error);
    assert_good(order, error);
    assert_int_equal(order->stages, 2);
    schedule_free(order);
    clear(&given);
}

// The layers that begin them may be pinned.
static void any_model_is_cut_into_as_many_segments_as_are_said(void **state)
{
    (void)state;
    struct given given = make();
    struct error error = { 0 };
    struct schedule *order = cut_order(given.profile, "1f1b", 1, (struct segmenting){ .segments = 4 }, &error);
    assert_good(order, error);
    assert_int_equal(order->stages, 4);
    schedule_free(order);
    clear(&given);
}

static void segments_that_the_model_does_not_have_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t ranks, segments;
        size_t blocks;
        const char *error;
    } rows[] = {
        { "1f1b", 2, 0, 0, "no layer of small reads what devices exchange; a model that does has the word \"exchange\""
                           " in its name" },
        { "1f1b", 2, 0, 3, "1f1b has 2 stages, which do not divide the model's 3 layers of experts: take ranks and"
                           " chunks with which each stage has as many of them" },
        { "1f1b", 4, 3, 2, "1f1b has 4 stages, which do not divide the model's 2 layers of experts: take ranks and"
                           " chunks with which each stage has as many of them" },
        { "1f1b", 2, 5, 2, "each stage of 1f1b has 1 layer of experts, which makes 3 segments, not 5" },
        { "1f1b", 2, 3, 4, "each stage of 1f1b has 2 layers of experts, which makes 5 segments, not 3" },
        { "pipedream", 2, 0, 2, "its weights are \"stash\": an order without a flush is one of a whole run, and a plan"
                                " is for runs of any length; plan for a schedule by its name, or for an order that"
                                " flushes" },
        { "tables-ahead", 1, 0, 2, "tables-ahead exchanges between stages of a rank already: its stages cannot be cut"
                                   " again" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct given given = make();
        struct profile *profile = rows[i].blocks > 0 ? with_experts(rows[i].blocks) : given.profile;
        assert_null(cut_order(profile, rows[i].name, rows[i].ranks,
                              (struct segmenting){ .segments = rows[i].segments }, &error));
        assert_error(error, rows[i].error);
        if (profile != given.profile)
            profile_free(profile);
        clear(&given);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_the_clusters_and_each_once),
        cmocka_unit_test(a_rank_with_several_stages_has_one_group),
        cmocka_unit_test(a_layer_is_pinned_by_its_name),
        cmocka_unit_test(the_first_part_of_a_name_is_enough),
        cmocka_unit_test(each_layer_that_exchanges_begins_a_segment),
        cmocka_unit_test(tables_and_dense_layers_are_two_segments),
        cmocka_unit_test(any_model_is_cut_into_as_many_segments_as_are_said),
        cmocka_unit_test(segments_that_the_model_does_not_have_are_refused),
    };
    return cmocka_run_group_tests_name("search_given", tests, NULL, NULL);
}
