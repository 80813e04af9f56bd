#include "tests/partitioner/instance.h"
#include "tests/partitioner/own_order.h"

struct tally {
    uint64_t instances, feasible, proved, plans;
};

static void check_against(const struct instance *instance, uint64_t best, struct plan *plan, const struct error *error,
                          uint64_t trial, struct tally *tally)
{
    const struct search_request *request = &instance->request;
    tally->instances++;
    if (!plan) {
        if (best != UINT64_MAX || error->kind != ERROR_ANSWER)
            fail_msg("trial %d (%s, %d layers, %u ranks): no plan, but brute force has %d: %s", (int)trial,
                     request->schedule, (int)request->profile->layer_count, request->ranks, (int)best, error->text);
        return;
    }
    const struct certificate *certificate = &plan->certificate;
    tally->feasible++;
    tally->proved += certificate->proved;
    if (certificate->value_ns < best || certificate->lower_bound_ns > best
        || (certificate->proved && certificate->value_ns != best)
        || (!instance->network && plan->iteration_ns != certificate->value_ns))
        fail_msg("trial %d (%s, %d layers, %u ranks, %u micro-batches%s): value %d, bound %d, plan %d, proved %d, but the"
                 " best is %d",
                 (int)trial, request->schedule, (int)request->profile->layer_count, request->ranks,
                 request->micro_batches, instance->network ? ", shared links" : "", (int)certificate->value_ns,
                 (int)certificate->lower_bound_ns, (int)plan->iteration_ns, certificate->proved, (int)best);
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct stage_memory *memory = &plan->stages[s].memory;
        if (memory->peak_bytes > memory->capacity_bytes)
            fail_msg("trial %d: stage %d: peak %d, capacity %d", (int)trial, (int)s, (int)memory->peak_bytes,
                     (int)memory->capacity_bytes);
    }
}

// Every cut and every way to recompute is tried.
static void small_plans_are_the_best_there_are(void **state)
{
    (void)state;
    uint64_t seed = 8, pin_seed = 9;
    struct tally tally = { 0 };
    const uint64_t trials = test_trials(200, 20000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        const uint32_t layers = 1 + (uint32_t)random_below(&seed, trial % 16 ? 8 : 9);
        const uint32_t ranks = 1 + (uint32_t)random_below(&seed, layers < 4 ? layers : 4);
        struct instance instance = instance_create(&seed, layers, ranks, false);
        struct error error = { 0 };
        const struct search_pin pins[2] = {
            { (uint32_t)random_below(&pin_seed, layers), (uint32_t)random_below(&pin_seed, ranks) },
            { (uint32_t)random_below(&pin_seed, layers), (uint32_t)random_below(&pin_seed, ranks) }
        };
        instance.request.pinned.at = pins;
        instance.request.pinned.count = trial % 8 == 0 ? 1 + random_below(&pin_seed, 2) : 0;
        const uint64_t best = brute_force(&instance, BRUTE_EVERY, &tally.plans);
        struct plan *plan = own_order_search(&instance.request, &error);
        check_against(&instance, best, plan, &error, trial, &tally);
        plan_free(plan);
        instance_clear(&instance);
    }
    print_message("# %d instances, %d with a plan, %d proved, %d plans simulated by the twin\n", (int)tally.instances,
                  (int)tally.feasible, (int)tally.proved, (int)tally.plans);
    assert_true(tally.feasible > trials / 2 && tally.proved >= tally.feasible * 95 / 100);
}

// Asynchronous plans may gain by recomputing more than they must, which this twin
// does not try: its best is only a plan that must not be missed.
static void check_async(const struct instance *instance, uint64_t best, struct plan *plan, const struct error *error,
                        uint64_t trial, struct tally *tally)
{
    const uint64_t value = plan ? plan->certificate.value_ns : UINT64_MAX;
    best = value < best ? value : best;
    check_against(instance, best, plan, error, trial, tally);
}

static void plans_of_14_to_18_layers_are_proved(void **state)
{
    (void)state;
    uint64_t seed = 9;
    struct tally tally = { 0 };
    const uint64_t trials = test_trials(40, 1000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        const uint32_t layers = 14 + (uint32_t)random_below(&seed, 5);
        const uint32_t ranks = 2 + (uint32_t)random_below(&seed, 4);
        struct instance instance = instance_create(&seed, layers, ranks, true);
        instance.request.micro_batches += (uint32_t)random_below(&seed, 8);
        struct error error = { 0 };
        const uint64_t best = brute_force(&instance, BRUTE_LEAST, &tally.plans);
        struct plan *plan = own_order_search(&instance.request, &error);
        if (plan && plan->weights != WEIGHTS_FLUSH)
            check_async(&instance, best, plan, &error, trial, &tally);
        else
            check_against(&instance, best, plan, &error, trial, &tally);
        if (plan && !plan->certificate.proved)
            print_message("# trial %d (%s, %u layers, %u ranks): gap %d ppm, %s\n", (int)trial, plan->schedule, layers,
                          ranks, (int)(1e6 * plan->certificate.gap), plan->certificate.stopped);
        plan_free(plan);
        instance_clear(&instance);
    }
    print_message("# %d instances, %d with a plan, %d proved, %d plans simulated by the twin\n", (int)tally.instances,
                  (int)tally.feasible, (int)tally.proved, (int)tally.plans);
    assert_true(tally.feasible > trials / 2 && tally.proved >= tally.feasible * 95 / 100);
}

// --- what a search says when it cannot do all ------------------------------------------

static struct instance fixed_instance(const char *schedule, uint32_t layers, uint32_t ranks)
{
    uint64_t seed = 21;
    struct instance instance = instance_create(&seed, layers, ranks, true);
    network_free(instance.network);
    instance.network = NULL;
    instance.request.network = NULL;
    instance.request.schedule = schedule;
    instance.request.micro_batches = 6;
    for (uint32_t r = 0; r < ranks; r++)
        instance.cluster->devices[r] = (struct cluster_device){ instance.cluster->devices[r].name, 1 << 30, 1000 };
    return instance;
}

static void a_small_budget_leaves_a_plan_with_a_gap(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct instance instance = fixed_instance(instance_schedules[i], 40, 6);
        struct error error = { 0 };
        struct plan *whole = own_order_search(&instance.request, &error);
        instance.request.limits.budget = 60;
        struct plan *plan = own_order_search(&instance.request, &error);
        assert_good(plan && whole, error);
        assert_false(plan->certificate.proved);
        assert_string_equal(plan->certificate.stopped, "the budget of 60 units of work is used up");
        assert_true(plan->certificate.lower_bound_ns < whole->certificate.value_ns);
        assert_true(plan->certificate.value_ns >= whole->certificate.value_ns);
        assert_true(plan->certificate.gap > 0);
        plan_free(plan);
        plan_free(whole);
        instance_clear(&instance);
    }
}

static void an_interrupt_leaves_the_best_plan_so_far(void **state)
{
    (void)state;
    struct instance instance = fixed_instance("pipedream", 40, 6);
    struct error error = { 0 };
    static volatile sig_atomic_t interrupted = 1;
    instance.request.limits.interrupted = &interrupted;
    struct plan *plan = own_order_search(&instance.request, &error);
    assert_good(plan, error);
    assert_string_equal(plan->certificate.stopped, "interrupted");
    plan_free(plan);
    instance_clear(&instance);
}

struct heard {
    uint64_t times, work, best_ns, bound_ns;
};

static void hear(void *self, const struct search_progress *now)
{
    struct heard *heard = self;
    assert_true(now->work >= heard->work && now->best_ns <= heard->best_ns && now->bound_ns >= heard->bound_ns);
    *heard = (struct heard){ heard->times + 1, now->work, now->best_ns, now->bound_ns };
}

static void a_long_search_tells_how_far_it_is(void **state)
{
    (void)state;
    struct instance instance = fixed_instance("pipedream", 40, 6);
    struct heard heard = { .best_ns = UINT64_MAX };
    struct error error = { 0 };
    instance.request.limits.progress = hear;
    instance.request.limits.self = &heard;
    instance.request.limits.budget = 200000;
    struct plan *plan = own_order_search(&instance.request, &error);
    assert_good(plan, error);
    assert_true(heard.times > 0 && heard.times < 50);
    assert_true(heard.best_ns >= plan->certificate.value_ns && heard.bound_ns <= plan->certificate.lower_bound_ns);
    plan_free(plan);
    instance_clear(&instance);
}

static void the_same_request_gives_the_same_bytes(void **state)
{
    (void)state;
    uint64_t seed = 22;
    for (uint64_t trial = 0; trial < test_trials(30, 300); trial++) {
        struct instance instance = instance_create(&seed, 6 + (uint32_t)random_below(&seed, 8), 3, true);
        struct text texts[2] = { { 0 }, { 0 } };
        for (int i = 0; i < 2; i++) {
            struct error error = { 0 };
            struct plan *plan = own_order_search(&instance.request, &error);
            if (plan)
                plan_write(plan, &texts[i]);
            else
                text_add(&texts[i], "%s", error.text);
            plan_free(plan);
        }
        assert_string_equal(texts[0].data, texts[1].data);
        text_clear(&texts[0]);
        text_clear(&texts[1]);
        instance_clear(&instance);
    }
}

// What is lacking is really lacking, and with that much more there is a plan.
static void a_shortage_is_the_least_there_is(void **state)
{
    (void)state;
    uint64_t seed = 23, found = 0;
    for (uint64_t trial = 0; trial < test_trials(150, 1500); trial++) {
        const uint32_t layers = 2 + (uint32_t)random_below(&seed, 6);
        struct instance instance = instance_create(&seed, layers, 2, true);
        struct error error = { 0 };
        for (uint32_t r = 0; r < 2; r++)
            instance.cluster->devices[r].memory_bytes = 1 + instance.cluster->devices[r].memory_bytes / 2;
        struct search_shortage shortage = { 0 };
        instance.request.found.shortage = &shortage;
        struct plan *plan = own_order_search(&instance.request, &error);
        instance.request.found.shortage = NULL;
        if ((plan != NULL) != (shortage.lacks_bytes == 0))
            fail_msg("trial %d: lacks %d, and there is %s plan", (int)trial, (int)shortage.lacks_bytes, plan ? "a" : "no");
        plan_free(plan);
        for (int more = 0; shortage.lacks_bytes > 0 && more < 2; more++) {
            for (uint32_t r = 0; r < 2; r++)
                instance.cluster->devices[r].memory_bytes += more == 0 ? shortage.lacks_bytes - 1 : 1;
            error = (struct error){ 0 };
            plan = own_order_search(&instance.request, &error);
            if ((plan != NULL) != (more == 1))
                fail_msg("trial %d: lacks %d, but with %s there is %s plan", (int)trial, (int)shortage.lacks_bytes,
                         more ? "that" : "less", plan ? "a" : "no");
            plan_free(plan);
            found += more;
        }
        instance_clear(&instance);
    }
    assert_true(found > 20);
}

// --- requests that cannot be ---------------------------------------------------------------

enum { TOO_MANY_RANKS, TOO_FEW_LAYERS, TIED, CHUNKS, UNKNOWN_SCHEDULE, NO_SUCH_STAGE, PINNED_BACKWARDS };

static struct refused_row {
    const char *name;
    int what;
    enum error_kind kind;
    const char *sentence;
} refused_rows[] = {
    { "more ranks than devices", TOO_MANY_RANKS, ERROR_INPUT, "3 ranks need as many devices, but the cluster has 2" },
    { "fewer layers than ranks", TOO_FEW_LAYERS, ERROR_ANSWER,
      "the model has 1 layers, too few for a stage on each of 2 ranks; use 1" },
    { "layers that are tied across all cuts", TIED, ERROR_ANSWER,
      "the model can be cut into 1 stage at most, too few for 2 ranks (no_cut_after forbids 0 cuts; tied layers must be"
      " on one stage unless tied apart); use 1" },
    { "several stages per rank", CHUNKS, ERROR_INPUT, "1f1b has one stage per rank: chunks must be 1, not 2" },
    { "a layer pinned to a stage there is not", NO_SUCH_STAGE, ERROR_INPUT,
      "layer l4 is pinned to stage 2, but 1f1b on 2 ranks has stages 0 to 1" },
    { "layers pinned against their order", PINNED_BACKWARDS, ERROR_ANSWER,
      "with the layers that are pinned no cut is left between stages 0 and 1; pin fewer, or in the order of the "
      "layers" },
    { "a schedule that nobody knows", UNKNOWN_SCHEDULE, ERROR_INPUT,
      "there is no schedule named \"2f2b\" (there are gpipe, 1f1b, " },
};

static void is_refused(void **state)
{
    const struct refused_row *row = *state;
    struct instance instance = fixed_instance("1f1b", row->what == TOO_FEW_LAYERS ? 2 : 5, 2);
    struct error error = { 0 };
    struct profile *single = NULL;
    if (row->what == TOO_MANY_RANKS)
        instance.request.ranks = 3;
    if (row->what == CHUNKS)
        instance.request.chunks = 2;
    const struct search_pin pins[] = { { 4, row->what == NO_SUCH_STAGE ? 2 : 0 }, { 0, 1 } };
    instance.request.pinned.at = pins;
    instance.request.pinned.count = row->what == NO_SUCH_STAGE ? 1 : row->what == PINNED_BACKWARDS ? 2 : 0;
    if (row->what == UNKNOWN_SCHEDULE)
        instance.request.schedule = "2f2b";
    if (row->what == TIED) {
        instance.profile->tied = malloc(sizeof instance.profile->tied[0]);
        instance.profile->tied[0] = (struct edge){ 0, 4 };
        instance.profile->tied_count = 1;
    }
    if (row->what == TOO_FEW_LAYERS) {
        single = small_chain(&(struct small_layer){ .forward = 1, .backward = 1 }, 1);
        instance.request.profile = single;
    }
    assert_null(own_order_search(&instance.request, &error));
    if (row->what == UNKNOWN_SCHEDULE)  // the sentence goes on to name them all
        error.text[strlen(row->sentence)] = 0;
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, row->kind);
    profile_free(single);
    instance_clear(&instance);
}

static void what_does_not_fit_is_said_with_numbers(void **state)
{
    (void)state;
    // Two equal layers; each keeps 100 units per micro-batch, of which GPipe has six in
    // flight. Run again, l1 takes 2 for weights and gradients, 6 inputs, 2 gradients of
    // them, and a workspace of 100 + 1 + 1: 112 units are 28 KiB.
    const struct small_layer rows[] = { { 10, 20, 1, 1, 100, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 10, 20, 1, 1, 100, INPUT_KEPT_NONE, 0, 0, 0 } };
    struct instance instance = fixed_instance("gpipe", 5, 2);
    struct profile *profile = small_chain(rows, 2);
    instance.request.profile = profile;
    instance.request.storage.optimizer = OPTIMIZER_SGD;
    instance.cluster->devices[0].memory_bytes = instance.cluster->devices[1].memory_bytes = 256 * 102;
    struct error error = { 0 };
    assert_null(own_order_search(&instance.request, &error));
    assert_int_equal(error.kind, ERROR_ANSWER);
    assert_error(error,
                 "no plan fits: even in the one that lacks least, stage 1 (l1 to l1) needs at least 28.0 KiB with"
                 " recomputation and device1 has 25.5 KiB, 2.50 KiB too little; no cut helps: layer l1 alone needs"
                 " at least 26.0 KiB, and its device has 25.5 KiB");
    profile_free(profile);
    instance_clear(&instance);
}

int main(void)
{
    enum { PLAIN = 8, ROWS = sizeof refused_rows / sizeof refused_rows[0] };
    struct CMUnitTest tests[PLAIN + ROWS] = {
        cmocka_unit_test(small_plans_are_the_best_there_are),
        cmocka_unit_test(plans_of_14_to_18_layers_are_proved),
        cmocka_unit_test(a_small_budget_leaves_a_plan_with_a_gap),
        cmocka_unit_test(an_interrupt_leaves_the_best_plan_so_far),
        cmocka_unit_test(a_long_search_tells_how_far_it_is),
        cmocka_unit_test(the_same_request_gives_the_same_bytes),
        cmocka_unit_test(a_shortage_is_the_least_there_is),
        cmocka_unit_test(what_does_not_fit_is_said_with_numbers),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[PLAIN + i] = (struct CMUnitTest)TEST_ROW(is_refused, &refused_rows[i]);
    return cmocka_run_group_tests_name("search", tests, NULL, NULL);
}
