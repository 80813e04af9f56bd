#include "partitioner/plan/balance.h"
#include "partitioner/plan_search.h"
#include "tests/partitioner/small.h"

static struct plan *plan_of(struct profile *profile, const char *schedule, uint32_t ranks, uint64_t memory_bytes)
{
    struct error error = { 0 };
    struct cluster *cluster = cluster_uniform(ranks, memory_bytes, 1000, 1000000000, &error);
    assert_good(cluster, error);
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = schedule,
                                            .ranks = ranks,
                                            .micro_batches = 4, .storage.optimizer = OPTIMIZER_SGD };
    struct plan *plan = plan_search(&request, &error);
    assert_good(plan, error);
    cluster_free(cluster);
    return plan;
}

static void prints_as(struct plan *plan, const char *sentence)
{
    struct text text = { 0 };
    plan_print(plan, &text);
    assert_string_equal(text.data, sentence);
    text_clear(&text);
    plan_free(plan);
}

// A stage has two layers, 30 us for F, 60 for B, and keeps 4 blocks of 256 bytes for each
// of four micro-batches. All stages but the ends hand on and receive as much.
static void stages_that_are_alike_are_one_line(void **state)
{
    (void)state;
    struct small_layer rows[14];
    for (int i = 0; i < 14; i++)
        rows[i] = (struct small_layer){ 15000, 30000, 4, 1, 2, INPUT_KEPT_NONE, 0, 0, 0 };
    struct profile *profile = small_chain(rows, 14);
    prints_as(plan_of(profile, "gpipe", 7, 16384),
        "small by gpipe: 7 ranks, 4 micro-batches, sgd\n"
        "\n"
        "  stage  layers                                       device           F           B   recompute\n"
        "    0-6  l0 .. l13 (2 each)                              0-6     30.0 us     60.0 us           -\n"
        "\n"
        "  stage     weights   gradients   optimizer    versions        kept   transient     buffers peak (slab)\n"
        "      0    2.00 KiB    2.00 KiB           -           -    4.00 KiB       256 B       768 B    9.00 KiB of 16.0 KiB (56 %)\n"
        "    1-5    2.00 KiB    2.00 KiB           -           -    4.25 KiB       256 B    1.25 KiB    9.75 KiB of 16.0 KiB (61 %)\n"
        "      6    2.00 KiB    2.00 KiB           -           -    4.25 KiB       512 B       512 B    9.25 KiB of 16.0 KiB (58 %)\n"
        "\n"
        "An iteration takes 915 us, 229 us per micro-batch, 60.7 % of it bubble (makespan). Work is even: no rank"
        " has 1 % more than the average. Memory is tightest on stage 1: 6.25 KiB of 16.0 KiB to spare. Proved optimal: "
        "no"
        " other cut or recomputation that fits is faster.\n");
    profile_free(profile);
}

static void ranks_of_several_stages_are_weighed_whole(void **state)
{
    (void)state;
    const struct small_layer rows[] = { { 10000, 20000, 4, 1, 8, INPUT_KEPT_BOTH, 0, 1, 1 },
                                        { 20000, 40000, 4, 1, 8, INPUT_KEPT_BOTH, 0, 1, 2 },
                                        { 10000, 20000, 4, 1, 8, INPUT_KEPT_BOTH, 0, 2, 1 },
                                        { 10000, 20000, 4, 1, 8, INPUT_KEPT_BOTH, 0, 1, 1 } };
    struct profile *profile = small_chain(rows, 4);
    struct plan *plan = plan_of(profile, "zb-v", 2, 24576);
    struct balance balance;
    struct error error = { 0 };
    assert_good(balance_read(plan, &balance, &error), error);
    assert_true(balance.shares_ranks);
    assert_int_equal(balance.busiest, 1);
    assert_int_equal(balance.next, 0);
    struct text name = { 0 };
    balance_name_rank(&balance, 0, &name);
    assert_string_equal(name.data, "rank 0 (stages 0, 3)");
    for (uint32_t rank = 0; rank < 2; rank++)
        assert_int_equal(balance.of[rank].peak_bytes, plan_rank_bytes(plan, balance.placement, rank));
    text_clear(&name);
    balance_clear(&balance);
    struct text text = { 0 };
    plan_print(plan, &text);
    assert_non_null(strstr(text.data, "\n  rank   stages               peak (slab)\n"
                                      "      0  0, 3    "));
    assert_non_null(strstr(text.data, "The bottleneck is rank 1 (stages 1, 2)"));
    text_clear(&text);
    plan_free(plan);
    profile_free(profile);
}

// One stage, in which four micro-batches keep 40 + 40 + 8 blocks each, 88 KiB of 64: with l0 and l1 run again
// 40 KiB for l2 alone, and l0's and l1's own while they run.
static void recomputation_and_a_gap_are_said(void **state)
{
    (void)state;
    const struct small_layer rows[] = { { 10000, 20000, 4, 1, 8, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 20000, 40000, 4, 1, 40, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 20000, 40000, 4, 1, 40, INPUT_KEPT_NONE, 0, 0, 0 } };
    struct profile *profile = small_chain(rows, 3);
    struct plan *plan = plan_of(profile, "gpipe", 1, 65536);
    plan->certificate.proved = false;
    plan->certificate.gap = 0.0031;
    plan->certificate.lower_bound_ns = 700000;
    prints_as(plan,
        "small by gpipe: 1 rank, 4 micro-batches, sgd\n"
        "\n"
        "  stage  layers                                       device           F           B   recompute\n"
        "      0  l0 .. l2 (3)                                      0     50.0 us      100 us     30.0 us\n"
        "\n"
        "  stage     weights   gradients   optimizer    versions        kept   transient     buffers peak (slab)\n"
        "      0    3.00 KiB    3.00 KiB           -           -    40.0 KiB    13.0 KiB           -    59.0 KiB of "
        "64.0 KiB (92 %)\n"
        "\n"
        "  stage 0 runs again before their backward: l0 .. l1\n"
        "\n"
        "An iteration takes 720 us, 180 us per micro-batch, 0.0 % of it bubble (makespan). Recomputation is 17 % of all"
        " work. Memory is tightest on stage 0: 5.00 KiB of 64.0 KiB to spare. It is at most 0.31 % from optimal: "
        "nothing"
        " that fits can take less than 700 us.\n");
    profile_free(profile);
}

// A megabyte takes a millisecond between layers of 30 us.
static void links_that_the_ranks_wait_for_are_named(void **state)
{
    (void)state;
    const struct small_layer rows[] = { { 10000, 20000, 4, 4096, 2, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 10000, 20000, 4, 1, 2, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 10000, 20000, 4, 1, 2, INPUT_KEPT_NONE, 0, 0, 0 } };
    struct profile *profile = small_chain(rows, 3);
    struct text text = { 0 };
    struct plan *plan = plan_of(profile, "gpipe", 3, 1 << 30);
    plan_print(plan, &text);
    assert_non_null(strstr(text.data, " of the critical path, most of it from rank 0 to rank 1; `weir explain` says what"
                                      " quicker ones would gain."));
    text_clear(&text);
    plan_free(plan);
    profile_free(profile);
}

static void layers_that_run_again_one_by_one_are_said_together(void **state)
{
    (void)state;
    struct small_layer rows[8];
    for (int i = 0; i < 8; i++)
        rows[i] = (struct small_layer){ 15000, 30000, 4, 1, 2, INPUT_KEPT_NONE, 0, 0, 0 };
    struct profile *profile = small_chain(rows, 8);
    struct plan *plan = plan_of(profile, "gpipe", 1, 1 << 20);
    static const struct segment again[] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 3, 4 }, { 4, 6 }, { 6, 7 }, { 7, 8 } };
    struct plan_stage *stage = &plan->stages[0];
    free(stage->recompute);
    stage->recompute_count = sizeof again / sizeof again[0];
    stage->recompute = malloc(sizeof again);
    assert_non_null(stage->recompute);
    memcpy(stage->recompute, again, sizeof again);
    struct text text = { 0 };
    plan_print(plan, &text);
    assert_non_null(strstr(text.data, "\n  stage 0 runs again before their backward: each of l0 .. l3, l4 .. l5, l6, l7\n"));
    text_clear(&text);
    plan_free(plan);
    profile_free(profile);
}

static void a_plan_by_another_model_says_what_it_is_worth_there(void **state)
{
    (void)state;
    static const struct {
        struct certificate certificate;
        const char *sentence;
    } cases[] = {
        { { .objective = "tps_ns", .value_ns = 16501311, .lower_bound_ns = 16501311, .proved = true },
          " another measure, tps_ns: 16.5 ms there, proved least.\n" },
        { { .objective = "max_load_ns", .value_ns = 4500000, .lower_bound_ns = 3062500, .gap = 0.319444 },
          " another measure, max_load_ns: 4.50 ms there, and none loads less than 3.06 ms.\n" },
        { { .objective = "pipedream_ns", .value_ns = 4500000, .gap = 1, .stopped = "no plan was found" },
          " another measure, pipedream_ns: 4.50 ms there, without a bound: no plan was found.\n" },
    };
    const struct small_layer row = { 15000, 30000, 4, 1, 2, INPUT_KEPT_NONE, 0, 0, 0 };
    struct profile *profile = small_chain(&row, 1);
    struct plan *plan = plan_of(profile, "gpipe", 1, 1 << 20);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text text = { 0 };
        plan->certificate = cases[i].certificate;
        plan_print(plan, &text);
        assert_non_null(strstr(text.data, cases[i].sentence));
        text_clear(&text);
    }
    plan_free(plan);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_that_are_alike_are_one_line),
        cmocka_unit_test(ranks_of_several_stages_are_weighed_whole),
        cmocka_unit_test(recomputation_and_a_gap_are_said),
        cmocka_unit_test(links_that_the_ranks_wait_for_are_named),
        cmocka_unit_test(layers_that_run_again_one_by_one_are_said_together),
        cmocka_unit_test(a_plan_by_another_model_says_what_it_is_worth_there),
    };
    return cmocka_run_group_tests_name("plan_table", tests, NULL, NULL);
}
