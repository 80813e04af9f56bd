// Plans whose stages hold the layers in an order of their own.
#include "partitioner/cost/predict.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/plan_search.h"
#include "profiler/profile_reorder.h"
#include "tests/partitioner/small_dag.h"

enum { LAYERS = 8 };

// A plan of the profile in this order, made of the reordered profile; then told its order.
static struct plan *plan_in(const struct profile *profile, const uint32_t *order, const struct cluster *cluster)
{
    struct error error = { 0 };
    struct profile *ordered = profile_reorder(profile, order, &error);
    assert_good(ordered, error);
    const struct search_request request = { .profile = ordered, .cluster = cluster, .schedule = "1f1b", .ranks = 2,
                                            .micro_batches = 4, .storage.optimizer = OPTIMIZER_ADAMW };
    struct plan *plan = plan_search(&request, &error);
    assert_good(plan, error);
    if (plan->order)  // the search had a better one; these tests are of this one
        free(plan->order);
    plan->order = malloc(LAYERS * sizeof order[0]);
    assert_non_null(plan->order);
    memcpy(plan->order, order, LAYERS * sizeof order[0]);
    const struct segment none = { 0, 0 };
    for (uint32_t s = 0; s < 2; s++) {
        const struct segment half = { s * LAYERS / 2, (s + 1) * LAYERS / 2 };
        assert_good(plan_set_stage(plan, s, ordered, half, s, &none, 0, &error), error);
    }
    profile_free(ordered);
    return plan;
}

static void certify(struct plan *plan)
{
    plan->certificate = (struct certificate){ .objective = "iteration_ns", .value_ns = plan->iteration_ns,
                                              .lower_bound_ns = plan->iteration_ns, .stopped = "made by hand" };
}

static void the_order_of_a_plan_is_predicted_evaluated_written_and_read(void **state)
{
    (void)state;
    uint64_t seed = 41;
    for (uint64_t trial = 0; trial < test_trials(100, 2000); trial++) {
        struct error error = { 0 };
        uint32_t order[LAYERS];
        struct profile *profile = small_random_dag(&seed, LAYERS, 4, 1000);
        struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
        small_random_order(&seed, profile, order);
        struct plan *plan = plan_in(profile, order, cluster);
        assert_good(plan_predict(plan, profile, &error), error);
        certify(plan);
        if (!plan_evaluate(plan, profile, &error))
            fail_msg("trial %d: %s", (int)trial, error.text);
        struct text text = { 0 }, again = { 0 };
        plan_write(plan, &text);
        struct plan *other = plan_read(text.data, text.length, "plan.json", &error);
        assert_good(other, error);
        assert_memory_equal(other->order, order, sizeof order);
        plan_write(other, &again);
        assert_string_equal(again.data, text.data);
        text_clear(&text);
        text_clear(&again);
        plan_free(other);
        plan_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
}

// Each layer gets a variant on two devices, which have rows of their own and add up gradients at each update.
static void add_rows(uint64_t *seed, struct profile *profile)
{
    struct error error = { 0 };
    for (size_t l = 0; l < profile->layer_count; l++) {
        struct profile_layer *layer = &profile->layers[l];
        layer->variants = calloc(1, sizeof layer->variants[0]);
        assert_non_null(layer->variants);
        layer->variant_count = 1;
        layer->variants[0] = (struct profile_variant){
            .layer = *layer, .devices = 2, .shares_output = true, .update_ns = random_below(seed, 3) * 400,
        };
        layer->variants[0].layer.name = strdup("rows2");
        layer->variants[0].layer.kind = NULL;
        layer->variants[0].layer.variants = NULL;
        layer->variants[0].layer.variant_count = 0;
        layer->variants[0].layer.shapes = NULL;
        layer->variants[0].layer.shape_count = 0;
    }
    assert_good(profile_rehash(profile, &error), error);
}

// The search prices stages of branches by sums of its own, and the evaluator by plain loops.
static void orders_of_devices_that_add_up_gradients_hold(void **state)
{
    (void)state;
    static const char *const variants[] = { "rows2", "rows2", "rows2" };
    uint64_t seed = 5;
    size_t ordered = 0;
    for (uint64_t trial = 0; trial < test_trials(100, 2000); trial++) {
        struct error error = { 0 };
        struct profile *profile = small_random_dag(&seed, LAYERS, 4, 1000);
        add_rows(&seed, profile);
        const uint32_t ranks = 2 + (uint32_t)trial % 2;
        struct cluster *cluster = cluster_uniform(2 * ranks, 1 << 20, 100, 1000000000, &error);
        const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b",
                                                .ranks = ranks, .micro_batches = 4,
                                                .layout = { .variants = variants, .stages = ranks } };
        struct plan *plan = plan_search(&request, &error);
        if (!plan || !plan_evaluate(plan, profile, &error))
            fail_msg("trial %d: %s", (int)trial, error.text);
        ordered += plan->order != NULL;
        plan_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
    assert_true(ordered > 0);
}

static struct profile *diamond(void)
{
    static const struct small_layer row = { 1000, 2000, 1, 1, 1, INPUT_KEPT_BOTH, 1, 1, 1 };
    static const struct edge edges[] = {
        { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 4 }, { 3, 5 }, { 4, 6 }, { 5, 7 }, { 6, 7 }
    };
    struct small_layer rows[LAYERS];
    for (size_t i = 0; i < LAYERS; i++)
        rows[i] = row;
    struct profile *profile = small_chain(rows, LAYERS);
    small_set_edges(profile, edges, sizeof edges / sizeof edges[0]);
    return profile;
}

// In the order 0 1 3 5 | 2 4 6 7 a branch lies on each stage.
static const uint32_t branches[LAYERS] = { 0, 1, 3, 5, 2, 4, 6, 7 };

static void an_order_that_is_none_of_the_profile_s_is_told(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = diamond();
    struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
    struct plan *plan = plan_in(profile, branches, cluster);
    assert_good(plan_predict(plan, profile, &error), error);
    certify(plan);
    assert_good(plan_evaluate(plan, profile, &error), error);
    plan->order[1] = 3;
    plan->order[2] = 1;
    assert_false(plan_evaluate(plan, profile, &error));
    assert_error(error, "order[1]: layer 3 reads from layer 1, which comes later, at place 2");
    plan->order[1] = 1;
    plan->order[2] = 4;
    plan->order[5] = 3;
    error = (struct error){ 0 };
    assert_false(plan_evaluate(plan, profile, &error));
    assert_error(error, "order[2]: layer 4 reads from layer 2, which comes later, at place 4");
    plan_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

static struct bad_row {
    const char *name, *from, *to, *sentence;
} bad_rows[] = {
    { "a layer twice", "[0, 1, 3, 5, 2, 4, 6, 7]", "[0, 1, 3, 5, 2, 4, 6, 6]",
      "plan.json: order[7]: layer 6 is there twice" },
    { "a layer that is not there", "[0, 1, 3, 5, 2, 4, 6, 7]", "[0, 1, 3, 5, 2, 4, 6, 8]",
      "plan.json: order[7]: is 8; it must be from 0 to 7" },
    { "fewer layers than the stages hold", "[0, 1, 3, 5, 2, 4, 6, 7]", "[0, 1, 3, 5, 2, 4, 6]",
      "plan.json: order: holds 7 layers, but the stages hold 8" },
};

static void is_refused(void **state)
{
    const struct bad_row *row = *state;
    struct error error = { 0 };
    struct profile *profile = diamond();
    struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
    struct plan *plan = plan_in(profile, branches, cluster);
    assert_good(plan_predict(plan, profile, &error), error);
    certify(plan);
    struct text text = { 0 }, changed = { 0 };
    plan_write(plan, &text);
    const char *at = strstr(text.data, row->from);
    assert_non_null(at);
    text_add_bytes(&changed, text.data, (size_t)(at - text.data));
    text_add(&changed, "%s%s", row->to, at + strlen(row->from));
    assert_null(plan_read(changed.data, changed.length, "plan.json", &error));
    assert_error(error, row->sentence);
    text_clear(&text);
    text_clear(&changed);
    plan_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

int main(void)
{
    enum { PLAIN = 3, ROWS = sizeof bad_rows / sizeof bad_rows[0] };
    struct CMUnitTest tests[PLAIN + ROWS] = {
        cmocka_unit_test(the_order_of_a_plan_is_predicted_evaluated_written_and_read),
        cmocka_unit_test(an_order_that_is_none_of_the_profile_s_is_told),
        cmocka_unit_test(orders_of_devices_that_add_up_gradients_hold),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[PLAIN + i] = (struct CMUnitTest)TEST_ROW(is_refused, &bad_rows[i]);
    return cmocka_run_group_tests_name("plan_order", tests, NULL, NULL);
}
