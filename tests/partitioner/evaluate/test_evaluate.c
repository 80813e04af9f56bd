#include "partitioner/evaluate/evaluate.h"

#include "partitioner/plan_search.h"
#include "schedules/copies.h"
#include "tests/partitioner/instance.h"

// Everything that the search writes holds, by definitions it does not share.
static void plans_of_the_search_hold(void **state)
{
    (void)state;
    uint64_t seed = 21, held = 0, recomputing = 0, listing = 0;
    const uint64_t trials = test_trials(400, 5000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        const uint32_t layers = 1 + (uint32_t)random_below(&seed, 9);
        const uint32_t ranks = 1 + (uint32_t)random_below(&seed, layers < 4 ? layers : 4);
        struct instance instance = instance_create(&seed, layers, ranks, false);
        struct error error = { 0 };
        if (trial % 2) {
            small_random_tables(seed, instance.profile);
            static const enum optimizer_kind kinds[] = { OPTIMIZER_SGD, OPTIMIZER_ADAGRAD, OPTIMIZER_ADAGRAD_ROWS,
                                                         OPTIMIZER_ADAM_ROWS };
            instance.request.storage.optimizer = kinds[trial / 2 % 4];
        }
        struct plan *plan = instance.network ? NULL : plan_search(&instance.request, &error);
        error = (struct error){ 0 };
        if (plan && !plan_evaluate(plan, instance.request.profile, &error))
            fail_msg("trial %d (%s): %s", (int)trial, instance.request.schedule, error.text);
        held += plan != NULL;
        for (size_t s = 0; plan && s < plan->stage_count; s++) {
            recomputing += plan->stages[s].recompute_count > 0;
            for (uint32_t l = plan->stages[s].first; l < plan->stages[s].end; l++)
                listing += storage_list_room(&plan->storage, instance.request.profile, l, 1) > 0;
        }
        plan_free(plan);
        instance_clear(&instance);
    }
    print_message("# %d plans hold, %d of their stages recompute, %d of their gradients are lists of rows\n", (int)held,
                  (int)recomputing, (int)listing);
    assert_true(held > trials / 4 && recomputing > trials / 20 && listing > trials / 20);
}

// Copies have micro-batches in turn, so that each has room to send its share of them. Returns whether some have fewer
// than all.
static bool copies_have_their_shares(const struct search_request *request)
{
    struct error error = { 0 };
    struct copies copies;
    bool are_fewer = false;
    struct schedule *order = search_order(request, request->micro_batches, &error);
    assert_good(order && copies_create(&copies, order, &error), error);
    for (uint32_t copy = 0; copy < copies.first[order->stages]; copy++) {
        uint32_t own = 0, stage = 0;
        while (copies.first[stage + 1] <= copy)
            stage++;
        for (uint32_t m = 0; m < order->micro_batches; m++)
            own += copies.of_route[(size_t)order->route_of[m] * order->stages + stage] == copy;
        const uint32_t count = copies_count(&copies, stage);
        assert_true(own <= (order->micro_batches + count - 1) / count);
        are_fewer |= own < order->micro_batches;
    }
    copies_clear(&copies);
    schedule_free(order);
    return are_fewer;
}

// Tables of several copies, some so large that lists of rows are less.
static void plans_with_lists_of_several_copies_hold(void **state)
{
    (void)state;
    static const char *const schedules[] = { "1f1b", "gpipe", "chimera", "dualpipe", "1f1b" };
    static const enum optimizer_kind kinds[] = { OPTIMIZER_SGD, OPTIMIZER_ADAGRAD, OPTIMIZER_ADAGRAD_ROWS,
                                                 OPTIMIZER_ADAM_ROWS };
    uint64_t seed = 5, held = 0, sending = 0, sharing = 0;
    const uint64_t trials = test_trials(60, 1000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint32_t replicas[2];
        struct error error = { 0 };
        struct profile *profile = small_random_chain(&seed, 4 + random_below(&seed, 5), 1000);
        struct cluster *cluster = cluster_uniform(8, 1 << 20, random_below(&seed, 200), 1000000000, &error);
        for (size_t l = 0; l < profile->layer_count; l++)
            profile->layers[l].parameter_bytes *= random_below(&seed, 3) ? 64 : 1;
        small_random_tables(seed, profile);
        struct search_request request = { .profile = profile, .cluster = cluster, .schedule = schedules[trial % 5],
                                          .ranks = 4, .chunks = 1,
                                          .micro_batches = 2 * (4 + (uint32_t)random_below(&seed, 5)),
                                          .storage.optimizer = kinds[random_below(&seed, 4)] };
        resolve(&request);
        if (request.generator.takes_replicas) {
            request.layout = (struct search_layout){ .replicas = replicas, .stages = 2 };
            request.ranks = replicas[0] = 1 + (uint32_t)random_below(&seed, 4);
            request.ranks += replicas[1] = 1 + (uint32_t)random_below(&seed, 4);
        }
        struct plan *plan = plan_search(&request, &error);
        assert_good(plan && plan_evaluate(plan, profile, &error), error);
        held++;
        sharing += copies_have_their_shares(&request);
        for (size_t s = 0; s < plan->stage_count; s++)
            for (uint32_t l = plan->stages[s].first; l < plan->stages[s].end; l++)
                sending += storage_sent_room(&plan->storage, profile, l, (uint32_t)plan->stages[s].device_count) > 0;
        plan_free(plan);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d plans, %d with copies that have some micro-batches, %d lists are sent\n", (int)held,
                  (int)sharing, (int)sending);
    assert_true(sending > trials / 4 && sharing > trials / 2);
}

static const struct small_layer rows[] = {
    { 3000, 6000, 4, 2, 8, INPUT_KEPT_WEIGHT, 2, 1, 2 },
    { 2000, 5000, 4, 2, 8, INPUT_KEPT_BOTH, 2, 1, 2 },
    { 4000, 7000, 4, 2, 8, INPUT_KEPT_WEIGHT, 2, 1, 2 },
    { 1000, 3000, 4, 2, 8, INPUT_KEPT_NONE, 2, 1, 2 },
};

static uint64_t *number_of(struct plan *plan, size_t which)
{
    struct plan_stage *stage = &plan->stages[1];
    uint64_t *all[] = {
        &stage->costs.forward_ns,          &stage->costs.backward_ns,        &stage->costs.backward_input_ns,
        &stage->costs.backward_weight_ns,  &stage->costs.recompute_ns,       &stage->costs.output_bytes,
        &stage->costs.kept_forward_bytes,  &stage->costs.kept_weight_bytes,  &stage->costs.transient_bytes,
        &stage->costs.fixed_bytes,         &stage->costs.version_bytes,      &stage->costs.reduce_ns,
        &stage->memory.weights_bytes,
        &stage->memory.gradients_bytes,    &stage->memory.optimizer_bytes,   &stage->memory.versions_bytes,
        &stage->memory.kept_bytes,         &stage->memory.transient_bytes,   &stage->memory.buffers_bytes,
        &stage->memory.peak_bytes,         &stage->memory.capacity_bytes,    &stage->memory.live_peak_bytes,
        &plan->iteration_ns,               &plan->certificate.value_ns,
    };
    return which < sizeof all / sizeof all[0] ? all[which] : NULL;
}

static const char *const number_names[] = {
    "stages[1].costs.forward_ns",         "stages[1].costs.backward_ns",       "stages[1].costs.backward_input_ns",
    "stages[1].costs.backward_weight_ns", "stages[1].costs.recompute_ns",      "stages[1].costs.output_bytes",
    "stages[1].costs.kept_forward_bytes", "stages[1].costs.kept_weight_bytes", "stages[1].costs.transient_bytes",
    "stages[1].costs.fixed_bytes",        "stages[1].costs.version_bytes",     "stages[1].costs.reduce_ns",
    "stages[1].memory.weights_bytes",
    "stages[1].memory.gradients_bytes",   "stages[1].memory.optimizer_bytes",  "stages[1].memory.versions_bytes",
    "stages[1].memory.kept_bytes",        "stages[1].memory.transient_bytes",  "stages[1].memory.buffers_bytes",
    "stages[1].memory.peak_bytes",        "stages[1].memory.capacity_bytes",   "stages[1].memory.live_peak_bytes",
    "predicted.iteration_ns",             "certificate.value_ns",
};

static struct plan *plan_of(const char *schedule, struct profile *profile, struct cluster *cluster)
{
    struct error error = { 0 };
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = schedule,
                                            .ranks = generator_ranks(generator_find(schedule, &error), 2),
                                            .micro_batches = 4, .storage.optimizer = OPTIMIZER_ADAMW };
    struct plan *plan = plan_search(&request, &error);
    assert_good(plan, error);
    return plan;
}

static void is_written_and_read_alike(const struct plan *plan)
{
    struct error error = { 0 };
    struct text text = { 0 }, again = { 0 };
    plan_write(plan, &text);
    struct plan *other = plan_read(text.data, text.length, "plan.json", &error);
    assert_good(other, error);
    plan_write(other, &again);
    assert_string_equal(again.data, text.data);
    plan_free(other);
    text_clear(&text);
    text_clear(&again);
}

// Of every schedule: one stage per rank, several, copies, backwards in parts, splits, none.
static void any_other_number_is_told_by_its_place(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error error = { 0 };
        struct profile *profile = small_chain(rows, 4);
        for (size_t l = 0; l < profile->layer_count; l++)
            profile->layers[l].shared_by_parts_bytes = profile->layers[l].saved_bytes / 2;
        struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
        struct plan *plan = plan_of(generator->name, profile, cluster);
        assert_good(plan_evaluate(plan, profile, &error), error);
        is_written_and_read_alike(plan);
        for (size_t i = 0; number_of(plan, i); i++) {
            error = (struct error){ 0 };
            *number_of(plan, i) += 1;
            if (plan_evaluate(plan, profile, &error))
                fail_msg("%s: %s: another number was not noticed", generator->name, number_names[i]);
            if (strncmp(error.text, number_names[i], strlen(number_names[i])) != 0)
                fail_msg("%s: %s: noticed as: %s", generator->name, number_names[i], error.text);
            assert_int_equal(error.kind, ERROR_ANSWER);
            *number_of(plan, i) -= 1;
        }
        plan_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
}

static void stages_that_fit_alone_must_fit_together(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = small_chain(rows, 4);
    struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
    struct plan *plan = plan_of("zb-v", profile, cluster);
    struct placement *placement = plan_placement(plan, &error);
    assert_good(placement, error);
    const uint64_t needs = plan_rank_bytes(plan, placement, 0);
    plan->cluster->devices[0].memory_bytes = needs;
    plan->stages[0].memory.capacity_bytes = plan->stages[3].memory.capacity_bytes = needs;
    assert_good(plan_evaluate(plan, profile, &error), error);
    plan->cluster->devices[0].memory_bytes = needs - 1;
    plan->stages[0].memory.capacity_bytes = plan->stages[3].memory.capacity_bytes = needs - 1;
    assert_true(plan->stages[0].memory.peak_bytes < needs && plan->stages[3].memory.peak_bytes < needs);
    assert_false(plan_evaluate(plan, profile, &error));
    char sentence[200];
    snprintf(sentence, sizeof sentence,
             "rank 0: its 2 stages need %d bytes, which do not fit into the %d of its device", (int)needs,
             (int)needs - 1);
    assert_error(error, sentence);
    placement_free(placement);
    plan_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

// The devices of a plan are where its schedule has the stages.
static void a_stage_on_another_rank_than_the_schedule_s_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *schedule, *sentence;
        size_t stage;
        uint32_t device;
    } cases[] = {
        { "zb-v", "stages[2].devices: device 0, but the schedule has this stage on rank 1, which is device 1", 2, 0 },
        { "interleaved", "stages[2].devices: device 1, but the schedule has this stage on rank 0, which is device 0", 2,
          1 },
        { "chimera", "stages[1].devices: device 0, but the schedule has this stage on rank 1, which is device 1", 1, 0 },
        { "1f1b", "ranks 0 and 1 are both on device 0", 1, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = { 0 };
        struct profile *profile = small_chain(rows, 4);
        struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
        struct plan *plan = plan_of(cases[i].schedule, profile, cluster);
        plan->stages[cases[i].stage].devices[0] = cases[i].device;
        assert_null(plan_schedule(plan, 4, true, &error));
        assert_error(error, cases[i].sentence);
        plan_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
}

static void claims_that_do_not_follow_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = small_chain(rows, 4);
    struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
    struct plan *plan = plan_of("1f1b", profile, cluster);
    assert_true(plan->certificate.proved);

    plan->certificate.lower_bound_ns -= 1;
    assert_false(plan_evaluate(plan, profile, &error));
    assert_error(error, "certificate.proved: is true, but 1 ns lie between bound and value");
    plan->certificate.lower_bound_ns += 2;
    error = (struct error){ 0 };
    assert_false(plan_evaluate(plan, profile, &error));
    assert_memory_equal(error.text, "certificate.lower_bound_ns: ", 28);
    plan->certificate.lower_bound_ns -= 1;

    profile->layers[0].forward_ns += 1;
    assert_good(profile_rehash(profile, &error), error);
    error = (struct error){ 0 };
    assert_false(plan_evaluate(plan, profile, &error));
    assert_memory_equal(error.text, "the plan was made of the profile ", 33);
    free(profile->model);
    profile->model = strdup("large");
    error = (struct error){ 0 };
    assert_false(plan_evaluate(plan, profile, &error));
    assert_error(error, "the plan is one of the model \"small\", not of \"large\"");
    plan_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_of_the_search_hold),
        cmocka_unit_test(plans_with_lists_of_several_copies_hold),
        cmocka_unit_test(any_other_number_is_told_by_its_place),
        cmocka_unit_test(stages_that_fit_alone_must_fit_together),
        cmocka_unit_test(a_stage_on_another_rank_than_the_schedule_s_is_refused),
        cmocka_unit_test(claims_that_do_not_follow_are_refused),
    };
    return cmocka_run_group_tests_name("evaluate", tests, NULL, NULL);
}
