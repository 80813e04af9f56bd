#include "partitioner/explain/nearest.h"

#include "partitioner/cuts/lone_layer.h"
#include "partitioner/plan_search.h"
#include "profiler/profile_reorder.h"
#include "tests/partitioner/instance.h"
#include "tests/partitioner/resolve.h"

static struct nearest find(const struct search_request *request)
{
    struct error error = { 0 };
    struct nearest nearest;
    const struct nearest_request search = { .search = request };
    assert_good(nearest_find(&search, &nearest, &error), error);
    return nearest;
}

static const struct what_if *row_of(const struct nearest *nearest, enum what_if_kind kind)
{
    for (size_t i = 0; i < nearest->count; i++)
        if (nearest->at[i].kind == kind)
            return &nearest->at[i];
    return NULL;
}

static struct lone_layer lone_layer_of(const struct search_request *request)
{
    struct error error = { 0 };
    struct lone_layer layer = { 0 };
    struct search_context context = context_of(request, SEARCH_DEFAULT_BUDGET);
    struct cut_problem *problem = cut_problem_create(request, CUT_OWN_ORDER, &context, &error);
    assert_good(problem && lone_layer_find(problem, &layer, &error), error);
    cut_problem_free(problem);
    return layer;
}

// --- against trying everything --------------------------------------------------------------

// The best plan with so much more memory on each device; UINT64_MAX: none fits.
static uint64_t brute_with(const struct instance *instance, uint64_t more_bytes)
{
    uint64_t plans = 0;
    for (size_t i = 0; i < instance->cluster->device_count; i++)
        instance->cluster->devices[i].memory_bytes += more_bytes;
    const uint64_t best = brute_force(instance, BRUTE_EVERY, &plans);
    for (size_t i = 0; i < instance->cluster->device_count; i++)
        instance->cluster->devices[i].memory_bytes -= more_bytes;
    return best;
}

// The cluster with devices like its last one until there are so many.
static uint64_t brute_on(const struct instance *instance, uint32_t ranks)
{
    struct error error = { 0 };
    uint64_t plans = 0;
    struct instance larger = *instance;
    const struct cluster *own = instance->cluster;
    larger.cluster = cluster_uniform(ranks, 1, own->levels[0].latency_ns, own->levels[0].bytes_per_second, &error);
    assert_good(larger.cluster, error);
    for (uint32_t i = 0; i < ranks; i++) {
        const struct cluster_device *like = &own->devices[i < own->device_count ? i : own->device_count - 1];
        larger.cluster->devices[i].memory_bytes = like->memory_bytes;
        larger.cluster->devices[i].speed_permille = like->speed_permille;
    }
    larger.request.cluster = larger.cluster;
    larger.request.ranks = ranks;
    const uint64_t best = brute_force(&larger, BRUTE_EVERY, &plans);
    cluster_free(larger.cluster);
    return best;
}

static void check_value(const struct what_if *row, uint64_t best, int trial)
{
    if (best == UINT64_MAX || best > row->row.found.iteration_ns
        || (row->row.found.proved && best != row->row.found.iteration_ns))
        fail_msg("trial %d: \"%s\" is said to take %d, trying everything finds %d", trial, row->change,
                 (int)row->row.found.iteration_ns, (int)best);
}

static void check_memory(const struct nearest *nearest, const struct instance *instance, int trial)
{
    const struct what_if *row = row_of(nearest, WHAT_IF_MEMORY);
    assert_non_null(row);
    check_value(row, brute_with(instance, row->more_bytes), trial);
    assert_true(row->is_least);
    if (row->more_bytes > 256 && brute_with(instance, row->more_bytes - 256) != UINT64_MAX)
        fail_msg("trial %d: \"%s\" is not the least", trial, row->change);
}

static void check_micro_batches(const struct nearest *nearest, const struct instance *instance, int trial)
{
    const struct what_if *row = row_of(nearest, WHAT_IF_MICRO_BATCHES);
    for (uint32_t m = 1; m < instance->request.micro_batches; m++) {
        struct instance fewer = *instance;
        fewer.request.micro_batches = m;
        const uint64_t best = brute_with(&fewer, 0);
        if ((best != UINT64_MAX) != (row && m <= row->row.micro_batches))
            fail_msg("trial %d: %d micro-batches %s", trial, (int)m, row ? "fit, which is not said" : "do not fit");
        if (row && m == row->row.micro_batches)
            check_value(row, best, trial);
    }
    assert_true(!row || row->is_least);
}

static void check_ranks(const struct nearest *nearest, const struct instance *instance, int trial)
{
    const struct what_if *row = row_of(nearest, WHAT_IF_RANKS);
    const uint32_t most = instance->request.ranks + 4 < INSTANCE_RANKS ? instance->request.ranks + 4 : INSTANCE_RANKS;
    for (uint32_t ranks = instance->request.ranks + 1; ranks <= most; ranks++) {
        if (row && ranks > row->row.ranks)
            return;
        const uint64_t best = ranks <= instance->profile->layer_count ? brute_on(instance, ranks) : UINT64_MAX;
        if ((best != UINT64_MAX) != (row && ranks == row->row.ranks))
            fail_msg("trial %d: %d ranks, of %d are said to fit", trial, (int)ranks, row ? (int)row->row.ranks : 0);
        if (best != UINT64_MAX)
            check_value(row, best, trial);
    }
}

static enum optimizer_kind optimizer_of(const char *name)
{
    int kind = 0;
    while (strcmp(optimizer_names[kind], name) != 0)
        kind++;
    return (enum optimizer_kind)kind;
}

static void check_others(const struct nearest *nearest, const struct instance *instance, int trial)
{
    for (size_t i = 0; i < nearest->count; i++) {
        const struct what_if *row = &nearest->at[i];
        struct instance changed = *instance;
        if (row->kind == WHAT_IF_SCHEDULE)
            changed.request.schedule = row->row.schedule;
        else if (row->kind == WHAT_IF_STORAGE)
            changed.request.storage.optimizer = optimizer_of(row->option + strlen("--optimizer "));
        else
            continue;
        for (size_t k = 0; k < sizeof instance_schedules / sizeof instance_schedules[0]; k++)
            if (strcmp(changed.request.schedule, instance_schedules[k]) == 0)
                check_value(row, brute_with(&changed, 0), trial);
    }
}

static void nearest_requests_fit_and_nothing_nearer_does(void **state)
{
    (void)state;
    uint64_t seed = 91, kinds[WHAT_IF_KINDS] = { 0 }, refused = 0, lone = 0;
    for (uint64_t trial = 0; trial < test_all_trials(300, 6000); trial++) {
        const uint32_t ranks = 1 + (uint32_t)random_below(&seed, 3);
        struct instance instance = instance_create(&seed, ranks + (uint32_t)random_below(&seed, 4), ranks, true);
        if (!profile_has_one_order(instance.profile)) {  // the twin knows no other
            instance_clear(&instance);
            continue;
        }
        const uint64_t part = 4 + random_below(&seed, 6);
        for (uint32_t r = 0; r < ranks; r++)
            instance.cluster->devices[r].memory_bytes = 1 + instance.cluster->devices[r].memory_bytes * part / 10;
        struct plan *plan = plan_search(&instance.request, &(struct error){ 0 });
        if (!plan) {
            struct nearest nearest = find(&instance.request);
            const struct lone_layer layer = lone_layer_of(&instance.request);
            check_memory(&nearest, &instance, (int)trial);
            check_micro_batches(&nearest, &instance, (int)trial);
            check_ranks(&nearest, &instance, (int)trial);
            check_others(&nearest, &instance, (int)trial);
            assert_true(row_of(&nearest, WHAT_IF_MEMORY)->more_bytes >= layer.lacks_bytes);
            for (size_t i = 0; i < nearest.count; i++)
                kinds[nearest.at[i].kind]++;
            refused++;
            lone += layer.lacks_bytes > 0;
            nearest_clear(&nearest);
        } else {
            const struct lone_layer layer = lone_layer_of(&instance.request);
            if (layer.lacks_bytes > 0)
                fail_msg("trial %d: layer %d is said to fit nowhere, and there is a plan", (int)trial,
                         (int)layer.layer);
        }
        plan_free(plan);
        instance_clear(&instance);
    }
    assert_true(refused > 30 && lone > 5 && kinds[WHAT_IF_MICRO_BATCHES] > 5 && kinds[WHAT_IF_RANKS] > 5
                && kinds[WHAT_IF_SCHEDULE] > 1 && kinds[WHAT_IF_STORAGE] > 5);
}

// --- orders of any kind -----------------------------------------------------------------------

// On ranks of several stages all cuts of so few layers are tried: what is said to be the
// least is, and one tensor less is refused.
static void the_least_memory_of_any_order_is_exact_where_all_is_tried(void **state)
{
    (void)state;
    static const char *const schedules[] = { "zb-v", "zb-h1", "interleaved", "chimera" };
    uint64_t seed = 93, least = 0;
    for (uint64_t trial = 0; trial < test_all_trials(16, 200); trial++) {
        struct instance instance = instance_create(&seed, 5, 2, true);
        struct search_request request = instance.request;
        struct error error = { 0 };
        request.schedule = schedules[trial % 4];
        resolve(&request);
        request.micro_batches = 4;
        request.chunks = 0;
        instance.cluster->devices[0].memory_bytes = instance.cluster->devices[1].memory_bytes = 512;
        struct nearest nearest = find(&request);
        const struct what_if *row = row_of(&nearest, WHAT_IF_MEMORY);
        assert_non_null(row);
        for (int less = 0; less < 2; less++) {
            for (int r = 0; r < 2; r++)
                instance.cluster->devices[r].memory_bytes = 512 + row->more_bytes - (less ? 1 : 0);
            error = (struct error){ 0 };
            struct plan *plan = plan_search(&request, &error);
            if ((less && row->is_least && plan) || (!less && !plan))
                fail_msg("trial %d: %s with %s%s: %s", (int)trial, request.schedule, row->change,
                         less ? " less one byte" : "", plan ? "there is a plan" : error.text);
            plan_free(plan);
        }
        least += row->is_least;
        nearest_clear(&nearest);
        instance_clear(&instance);
    }
    assert_true(least > 4);
}

// --- what is said --------------------------------------------------------------------------------

// GPipe keeps all of six micro-batches; each layer keeps 100 blocks of 256 bytes of each.
static void nearest_requests_are_said_with_their_options(void **state)
{
    (void)state;
    const struct small_layer rows[] = { { 10000, 20000, 1, 1, 100, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 10000, 20000, 1, 1, 100, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 10000, 20000, 1, 1, 100, INPUT_KEPT_NONE, 0, 0, 0 } };
    struct error error = { 0 };
    struct profile *profile = small_chain(rows, 3);
    struct cluster *cluster = cluster_uniform(2, 256 * 118, 1000, 1000000000, &error);
    struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "gpipe", .ranks = 2,
                                      .micro_batches = 6, .storage.optimizer = OPTIMIZER_ADAMW };
    resolve(&request);
    assert_null(plan_search(&request, &error));
    assert_error(error,
                 "no plan fits: even in the one that lacks least, stage 0 (l0 to l1) needs at least 29.8 KiB with"
                 " recomputation and device0 has 29.5 KiB, 256 B too little");
    struct nearest nearest = find(&request);
    struct text text = { 0 };
    nearest_print(&nearest, &text);
    assert_string_equal(text.data,
                        "What does fit, each planned:\n"
                        "   per m.-b.        peak  change\n"
                        "     87.1 us    29.8 KiB  29.8 KiB on each device, no less: --memory 30464B\n"
                        "     88.5 us    29.5 KiB  5 micro-batches an iteration, no more: --micro-batches 5\n"
                        "     54.2 us    29.0 KiB  3 ranks, on devices like the last, no less: --ranks 3\n"
                        "     80.0 us    29.3 KiB  schedule zb-h2: --schedule zb-h2\n"
                        "     80.4 us    28.8 KiB  schedule zb-h1: --schedule zb-h1\n"
                        "     82.1 us    28.8 KiB  schedule 1f1b: --schedule 1f1b\n"
                        "     87.1 us    29.3 KiB  optimizer momentum: --optimizer momentum\n"
                        "Smaller micro-batches need less, too; they need a profile of their own.\n");
    text_clear(&text);
    nearest_clear(&nearest);
    // With time for none of them there are none.
    const struct nearest_request brief = { .search = &request, .deadline_ns = 1 };
    assert_good(nearest_find(&brief, &nearest, &error), error);
    assert_int_equal(nearest.count + nearest.planned, 0);
    cluster_free(cluster);
    profile_free(profile);
}

// Each layer has 40 blocks of weights, as many of gradients, and twice as many that AdamW keeps:
// 160 of 150. Without the latter there is room for what the host brings and takes.
static void states_on_the_host_are_offered_where_there_is_one(void **state)
{
    (void)state;
    const struct small_layer rows[] = { { 10000, 20000, 40, 1, 4, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 10000, 20000, 40, 1, 4, INPUT_KEPT_NONE, 0, 0, 0 } };
    for (int has_host = 0; has_host < 2; has_host++) {
        struct error error = { 0 };
        struct profile *profile = small_chain(rows, 2);
        struct cluster *cluster = cluster_uniform(2, 256 * 150, 1000, 1000000000, &error);
        cluster->has_host = has_host;
        cluster->host_memory_bytes = 1 << 20;
        cluster->host_bytes_per_second = 1000000000;
        struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = 2,
                                          .micro_batches = 4, .storage.optimizer = OPTIMIZER_ADAMW };
        resolve(&request);
        struct nearest nearest = find(&request);
        const struct what_if *row = row_of(&nearest, WHAT_IF_STORAGE);
        assert_non_null(row);
        assert_string_equal(row->option, has_host ? "--host optimizer" : "--optimizer momentum");
        request.storage.optimizer_on_host = has_host;
        request.storage.optimizer = has_host ? OPTIMIZER_ADAMW : OPTIMIZER_MOMENTUM;
        struct plan *plan = plan_search(&request, &error);
        assert_good(plan, error);
        assert_int_equal(plan->iteration_ns, row->row.found.iteration_ns);
        assert_false(nearest.failed[WHAT_IF_STORAGE]);
        struct text text = { 0 };
        plan_print(plan, &text);
        assert_int_equal(strstr(text.data, "adamw, optimizer on the host\n") != NULL, has_host);
        assert_int_equal(strstr(text.data, "\n  On the host, of each device: stages 0-1 40.0 KiB\n") != NULL, has_host);
        text_clear(&text);
        plan_free(plan);
        nearest_clear(&nearest);
        cluster_free(cluster);
        profile_free(profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_requests_fit_and_nothing_nearer_does),
        cmocka_unit_test(the_least_memory_of_any_order_is_exact_where_all_is_tried),
        cmocka_unit_test(nearest_requests_are_said_with_their_options),
        cmocka_unit_test(states_on_the_host_are_offered_where_there_is_one),
    };
    return cmocka_run_group_tests_name("nearest", tests, NULL, NULL);
}
