// What stages on several ranks must run again at least, against the least that fits, found exactly with the slots that
// their schedule has.
#include "partitioner/layouts/layout_memory.h"

#include "partitioner/plan_search.h"
#include "partitioner/search/recompute.h"
#include "partitioner/search/search_request.h"
#include "tests/partitioner/resolve.h"
#include "tests/partitioner/small_dag.h"

enum { MOST_LAYERS = 12, MOST_RANKS = 7 };

struct crews {
    uint32_t replicas[MOST_RANKS], stages, ranks;
};

static struct crews random_crews(uint64_t *seed, uint32_t most)
{
    struct crews crews = { .stages = 0 };
    const uint32_t stages = 1 + (uint32_t)random_below(seed, 3);
    while (crews.stages < stages && crews.ranks < most) {
        const uint32_t ranks = 1 + (uint32_t)random_below(seed, 3), left = most - crews.ranks;
        crews.replicas[crews.stages] = ranks < left ? ranks : left;
        crews.ranks += crews.replicas[crews.stages++];
    }
    return crews;
}

// The least of layers [first, end) as this stage; UINT64_MAX where nothing fits.
static uint64_t exactly(const struct search_request *request, const struct slots *slots, uint32_t replicas,
                        uint32_t first, uint32_t end, uint64_t capacity)
{
    struct error error = { 0 };
    struct recompute_list list;
    uint64_t work = 0;
    struct intervals *intervals = intervals_create(request->profile, &request->storage, &error);
    assert_good(intervals, error);
    intervals->replicas = replicas;
    assert_good(recompute_search(intervals, first, end, slots, capacity, RECOMPUTE_LEAST, 1000000, &work, &list, &error),
                error);
    assert_true(list.complete);
    const uint64_t least = list.count > 0 ? list.at[0].forward_ns : UINT64_MAX;
    recompute_list_clear(&list);
    intervals_free(intervals);
    return least;
}

struct tally {
    uint64_t asked, tight, said, least;  // tight: where something must be run again; said, least: sums of these
    uint64_t impossible, known_impossible;
};

static void hold_against(struct tally *tally, uint64_t said, uint64_t least, uint64_t trial)
{
    if (said > least)
        fail_msg("trial %d: %d ns must be run again, but %d do", (int)trial, (int)said, (int)least);
    tally->asked++;
    tally->impossible += least == UINT64_MAX;
    tally->known_impossible += said == UINT64_MAX;
    if (least != UINT64_MAX && least > 0) {
        tally->tight++;
        tally->said += said;
        tally->least += least;
    }
}

static uint64_t ahead_of(const struct search_request *request, const struct crews *crews, uint32_t stage)
{
    uint32_t left = crews->ranks;
    for (uint32_t s = 0; s < stage; s++)
        left -= crews->replicas[s];
    const uint32_t ranks = crews->replicas[stage], own = (request->micro_batches + ranks - 1) / ranks;
    const uint32_t ahead = (left + ranks - 1) / ranks;
    return ahead < own && strcmp(request->schedule, "gpipe") != 0 ? ahead : own;
}

// Of stages that begin and end anywhere; longer ones are said to need no less.
static void ask(struct tally *tally, const struct search_request *request, const struct crews *crews, uint64_t *seed,
                uint64_t trial)
{
    struct error error = { 0 };
    struct layout_memory *memory = layout_memory_create(request, &error);
    assert_int_equal(error.kind, ERROR_NONE);
    if (!memory)
        return;
    struct slots *slots = search_slots(request, &error);
    assert_good(slots, error);
    const uint32_t layers = (uint32_t)request->profile->layer_count, s = (uint32_t)random_below(seed, crews->stages);
    const uint64_t capacity = request->cluster->devices[0].memory_bytes, ahead = ahead_of(request, crews, s);
    const uint32_t first = s == 0 ? 0 : 1 + (uint32_t)random_below(seed, layers - 1);
    uint64_t before = 0;
    for (uint32_t end = first; end <= layers; end++) {
        const uint64_t said = layout_memory_least(memory, first, end, crews->replicas[s], ahead, capacity);
        if (said < before)
            fail_msg("trial %d: layers %u to %u need less than one layer less", (int)trial, first, end);
        before = said;
        if (end > first && (s + 1 < crews->stages) == (end < layers))
            hold_against(tally, said, exactly(request, &slots[s], crews->replicas[s], first, end, capacity), trial);
    }
    free(slots);
    layout_memory_free(memory);
}

static void no_stage_needs_less_than_is_said(void **state)
{
    (void)state;
    static const char *const schedules[] = { "1f1b", "gpipe", "pipedream" };
    struct tally tally = { 0 };
    uint64_t seed = 11;
    const uint64_t trials = test_all_trials(1500, 40000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        const uint32_t layers = 4 + (uint32_t)random_below(&seed, MOST_LAYERS - 3);
        struct profile *profile = random_below(&seed, 2) ? small_random_chain(&seed, layers, 1000)
                                                         : small_random_dag(&seed, layers, 3, 1000);
        const struct crews crews = random_crews(&seed, MOST_RANKS);
        const uint64_t memory_bytes = 256 * (10 + random_below(&seed, 300));
        struct cluster *cluster = cluster_uniform(crews.ranks, memory_bytes, 5, 1000000000, &error);
        assert_good(cluster, error);
        struct search_request request = {
            .profile = profile, .cluster = cluster, .schedule = schedules[random_below(&seed, 3)],
            .ranks = crews.ranks, .layout.stages = crews.stages, .layout.replicas = crews.replicas, .chunks = 1,
            .micro_batches = 3 + (uint32_t)random_below(&seed, 9),
            .storage = { .optimizer = random_below(&seed, 2) ? OPTIMIZER_SGD : OPTIMIZER_ADAMW,
                         .shard = random_below(&seed, 3) ? SHARD_NONE : (enum shard)random_below(&seed, 4) } };
        resolve(&request);
        ask(&tally, &request, &crews, &seed, trial);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d stages, %d of them must run something again, %d %% of which is said; %d of %d fit nowhere, "
                  "and are known to\n", (int)tally.asked, (int)tally.tight, (int)(100 * tally.said / tally.least),
                  (int)tally.known_impossible, (int)tally.impossible);
    assert_true(tally.tight > trials / 4);
    assert_true(tally.said > tally.least / 6);
}

// Where layers are many, sums know nearly all.
static void of_a_long_chain_most_is_said(void **state)
{
    (void)state;
    enum { LAYERS = 40, RANKS = 8 };
    struct error error = { 0 };
    uint64_t seed = 7, said = 0, least = 0;
    const uint32_t replicas[] = { 1, RANKS - 1 };
    struct small_layer rows[LAYERS];
    for (uint32_t l = 0; l < LAYERS; l++)
        rows[l] = (struct small_layer){ .forward = 200 + random_below(&seed, 2800), .backward = 4000, .output = 40,
                                        .parameters = 1, .saved = 10 + random_below(&seed, 300),
                                        .input_kept = INPUT_KEPT_BOTH };
    struct profile *profile = small_chain(rows, LAYERS);
    for (uint64_t parts = 4; parts < 10; parts++) {
        const uint64_t capacity = (uint64_t)LAYERS * 200 * 256 * RANKS * parts / 10;
        struct cluster *cluster = cluster_uniform(RANKS, capacity, 5, 1000000000, &error);
        assert_good(cluster, error);
        struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b",
                                          .ranks = RANKS, .chunks = 1, .micro_batches = 20,
                                          .layout = { .stages = 2, .replicas = replicas } };
        resolve(&request);
        struct layout_memory *memory = layout_memory_create(&request, &error);
        assert_good(memory, error);
        struct slots *slots = search_slots(&request, &error);
        assert_good(slots, error);
        for (uint32_t end = LAYERS / 2; end < LAYERS; end += 5) {
            const uint64_t exact = exactly(&request, &slots[0], 1, 0, end, capacity);
            const uint64_t known = layout_memory_least(memory, 0, end, 1, RANKS, capacity);
            assert_true(known <= exact);
            said += known;
            least += exact;
        }
        free(slots);
        layout_memory_free(memory);
        cluster_free(cluster);
    }
    print_message("# of %d ns that must be run again, %d are said\n", (int)least, (int)said);
    assert_true(least > 0 && said > least / 10 * 8);
    profile_free(profile);
}

// Of stages that have their ranks to themselves.
static void crews_run_again_the_least_that_fits(void **state)
{
    (void)state;
    struct error error = { 0 };
    uint64_t seed = 9, tight = 0;
    for (uint64_t trial = 0; trial < test_all_trials(40, 1000); trial++) {
        struct profile *profile = small_random_chain(&seed, 30, 1000);
        const struct crews crews = random_crews(&seed, MOST_RANKS);
        const uint64_t capacity = 256 * (120 + random_below(&seed, 200));
        struct cluster *cluster = cluster_uniform(crews.ranks, capacity, 5, 1000000000, &error);
        assert_good(cluster, error);
        struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b",
                                          .ranks = crews.ranks, .layout.stages = crews.stages, .chunks = 1,
                                          .layout.replicas = crews.replicas, .micro_batches = 12 };
        resolve(&request);
        struct slots *slots = search_slots(&request, &error);
        assert_good(slots, error);
        struct plan *plan = plan_search(&request, &error);
        for (size_t s = 0; plan && s < plan->stage_count; s++) {
            const struct plan_stage *stage = &plan->stages[s];
            uint64_t again = 0;
            for (size_t i = 0; i < stage->recompute_count; i++)
                for (uint32_t l = stage->recompute[i].first; l < stage->recompute[i].end; l++)
                    again += profile_recompute_ns(&profile->layers[l]);
            const uint64_t least = exactly(&request, &slots[s], crews.replicas[s], stage->first, stage->end, capacity);
            if (again != least)
                fail_msg("trial %d, stage %d: %d ns are run again, but %d do", (int)trial, (int)s, (int)again,
                         (int)least);
            tight += least > 0;
        }
        assert_true(plan || error.kind == ERROR_ANSWER);
        error = (struct error){ 0 };
        plan_free(plan);
        free(slots);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d stages had to run something again\n", (int)tight);
    assert_true(tight > 10);
}

// With a sixth of the budget the search without them gets somewhere; with replicas it gets no less far.
static void who_may_have_replicas_is_no_slower(void **state)
{
    (void)state;
    enum { RANKS = 8, BUDGET = 60000 };
    struct error error = { 0 };
    uint64_t seed = 13, quicker = 0, trials = test_all_trials(12, 300);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct profile *profile = small_random_chain(&seed, 40, 1000);
        struct cluster *cluster = cluster_uniform(RANKS, 256 * (80 + random_below(&seed, 100)), 5, 1000000000, &error);
        assert_good(cluster, error);
        struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = RANKS,
                                          .chunks = 1, .micro_batches = 24, .limits.budget = BUDGET / 6 };
        struct plan *straight = plan_search(&request, &error);
        error = (struct error){ 0 };
        request.limits.budget = BUDGET;
        request.free.replicas = true;
        struct plan *plan = plan_search(&request, &error);
        error = (struct error){ 0 };
        if (straight && (!plan || plan->iteration_ns > straight->iteration_ns))
            fail_msg("trial %d: %d ns with replicas, %d without", (int)trial, plan ? (int)plan->iteration_ns : -1,
                     (int)straight->iteration_ns);
        quicker += straight && plan->iteration_ns < straight->iteration_ns;
        plan_free(plan);
        plan_free(straight);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d of %d are quicker with replicas\n", (int)quicker, (int)trials);
    assert_true(quicker > 0);
}

static void of_ample_memory_nothing_is_said(void **state)
{
    (void)state;
    struct error error = { 0 };
    uint64_t seed = 5;
    const uint32_t replicas[] = { 1, 2 };
    struct profile *profile = small_random_chain(&seed, 6, 1000);
    struct cluster *cluster = cluster_uniform(3, (uint64_t)1 << 40, 5, 1000000000, &error);
    struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = 3,
                                      .chunks = 1, .micro_batches = 8,
                                      .layout = { .stages = 2, .replicas = replicas } };
    resolve(&request);
    assert_null(layout_memory_create(&request, &error));
    for (size_t i = 0; i < cluster->device_count; i++)
        cluster->devices[i].memory_bytes = 256;
    struct layout_memory *memory = layout_memory_create(&request, &error);
    assert_good(memory, error);
    layout_memory_free(memory);
    request.storage.window = 2;  // of which prices know nothing
    assert_null(layout_memory_create(&request, &error));
    assert_int_equal(error.kind, ERROR_NONE);
    profile_free(profile);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_stage_needs_less_than_is_said),
        cmocka_unit_test(of_a_long_chain_most_is_said),
        cmocka_unit_test(crews_run_again_the_least_that_fits),
        cmocka_unit_test(who_may_have_replicas_is_no_slower),
        cmocka_unit_test(of_ample_memory_nothing_is_said),
    };
    return cmocka_run_group_tests_name("layout_memory", tests, NULL, NULL);
}
