// Answers that are remembered are those of recompute_search(), whose work is counted each time.

#include "partitioner/search/recompute_answers.h"
#include "profiler/profile_reorder.h"
#include "tests/partitioner/small.h"

enum { LAYERS = 24, ORDERS = 3 };

static void assert_same_lists(const struct recompute_list *a, const struct recompute_list *b, uint64_t trial)
{
    bool same = a->count == b->count && a->complete == b->complete && a->least_ns == b->least_ns;
    for (size_t i = 0; same && i < a->count; i++) {
        const struct recompute_choice *x = &a->at[i], *y = &b->at[i];
        same = x->forward_ns == y->forward_ns && x->bytes == y->bytes && x->workspace_bytes == y->workspace_bytes
            && x->count == y->count && memcmp(x->segments, y->segments, x->count * sizeof x->segments[0]) == 0;
    }
    if (!same)
        fail_msg("question %llu: it is answered differently", (unsigned long long)trial);
}

// One of few questions, so that most are asked several times.
static struct recompute_question random_question(uint64_t *seed, struct intervals *intervals)
{
    const uint32_t kept = 1 + (uint32_t)random_below(seed, 2);
    struct recompute_question question = {
        .first = (uint32_t)random_below(seed, 2),
        .end = LAYERS - (uint32_t)random_below(seed, 2),
        .slots = { .input = { 1, kept, kept }, .kept = kept, .kept_through = kept, .output = 1, .versions = 1 },
        .wanted = random_below(seed, 2) ? RECOMPUTE_LEAST : RECOMPUTE_EVERY,
        .most_labels = random_below(seed, 2) ? 32 : 8,
    };
    intervals->replicas = 1 + (uint32_t)random_below(seed, 2);
    struct stage_bytes bytes = interval_bytes(intervals, question.first, question.end);
    const uint64_t most = stage_memory_of(&bytes, &question.slots).peak_bytes;
    question.capacity_bytes = most - most / (random_below(seed, 2) ? 8 : 4);
    return question;
}

// The profile's own order, the same as a list, and one in which two layers that may be swapped are.
static void fill_orders(uint32_t orders[ORDERS][LAYERS])
{
    for (uint32_t o = 0; o < ORDERS; o++)
        for (uint32_t i = 0; i < LAYERS; i++)
            orders[o][i] = i;
    orders[2][10] = 11;
    orders[2][11] = 10;
}

// A chain in which layer 11 reads layer 9 as layer 10 does, and layer 12 reads both.
static struct profile *make_profile(uint64_t *seed)
{
    struct error error = { 0 };
    struct profile *profile = small_random_chain(seed, LAYERS, 1000);
    profile->edges = calloc(LAYERS + 1, sizeof profile->edges[0]);
    assert_non_null(profile->edges);
    for (uint32_t i = 0; i + 1 < LAYERS; i++)
        if (i != 10)
            profile->edges[profile->edge_count++] = (struct edge){ i, i + 1 };
    profile->edges[profile->edge_count++] = (struct edge){ 9, 11 };
    profile->edges[profile->edge_count++] = (struct edge){ 10, 12 };
    profile->is_chain = false;
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

static void answers_are_those_of_the_search(void **state)
{
    (void)state;
    uint64_t seed = 7, asked = 0, dear = 0;
    struct error error = { 0 };
    struct profile *profile = make_profile(&seed);
    const struct storage storage = { .optimizer = OPTIMIZER_ADAMW };
    uint32_t orders[ORDERS][LAYERS];
    fill_orders(orders);
    struct recompute_answers *answers = recompute_answers_create(&error);
    assert_good(answers, error);
    for (; asked < 2000; asked++) {
        const uint32_t o = (uint32_t)random_below(&seed, ORDERS);
        struct profile *ordered = profile_reorder(profile, orders[o], &error);
        assert_good(ordered, error);
        struct intervals *intervals = intervals_create(ordered, &storage, &error);
        assert_good(intervals, error);
        const struct recompute_question question = random_question(&seed, intervals);
        struct recompute_list list, twin;
        uint64_t work = 3, twin_work = 3;
        assert_good(recompute_answers_find(answers, intervals, o ? orders[o] : NULL, &question, &work, &list, &error),
                    error);
        assert_good(recompute_search(intervals, question.first, question.end, &question.slots, question.capacity_bytes,
                                     question.wanted, question.most_labels, &twin_work, &twin, &error), error);
        assert_same_lists(&list, &twin, asked);
        assert_int_equal(work, twin_work);
        dear += work > 2000;
        recompute_list_clear(&list);
        recompute_list_clear(&twin);
        intervals_free(intervals);
        profile_free(ordered);
    }
    const size_t known = recompute_answers_count(answers);
    assert_true(dear > 300 && known > 50);
    assert_true(known <= 2 * 128 * 2);  // of two orders; more would be questions that are remembered twice
    recompute_answers_free(answers);
    profile_free(profile);
}

// A list that nothing is remembered in is the search itself.
static void without_answers_everything_is_asked(void **state)
{
    (void)state;
    uint64_t seed = 8, work = 0, twin_work = 0;
    struct error error = { 0 };
    struct profile *profile = make_profile(&seed);
    struct intervals *intervals = intervals_create(profile, &(struct storage){ .optimizer = OPTIMIZER_ADAMW }, &error);
    assert_good(intervals, error);
    const struct recompute_question question = random_question(&seed, intervals);
    struct recompute_list list, twin;
    assert_good(recompute_answers_find(NULL, intervals, NULL, &question, &work, &list, &error), error);
    assert_good(recompute_search(intervals, question.first, question.end, &question.slots, question.capacity_bytes,
                                 question.wanted, question.most_labels, &twin_work, &twin, &error), error);
    assert_same_lists(&list, &twin, 0);
    assert_int_equal(work, twin_work);
    recompute_list_clear(&list);
    recompute_list_clear(&twin);
    intervals_free(intervals);
    profile_free(profile);
}

// What is cut short by the clock is no answer to keep.
static void what_the_clock_cuts_short_is_not_remembered(void **state)
{
    (void)state;
    uint64_t seed = 9, work = 0;
    struct error error = { 0 };
    struct profile *profile = make_profile(&seed);
    struct intervals *intervals = intervals_create(profile, &(struct storage){ .optimizer = OPTIMIZER_ADAMW }, &error);
    struct recompute_answers *answers = recompute_answers_create(&error);
    assert_good(intervals && answers, error);
    struct recompute_question question = random_question(&seed, intervals);
    question.wanted = RECOMPUTE_EVERY;
    question.capacity_bytes = UINT64_MAX / 4;  // whatever way it goes, it fits
    struct recompute_list list;
    for (unsigned turn = 0; turn < 2; turn++) {
        intervals->until_ns = turn == 0;  // long past
        assert_good(recompute_answers_find(answers, intervals, NULL, &question, &work, &list, &error), error);
        recompute_list_clear(&list);
        assert_int_equal(recompute_answers_count(answers), turn);
    }
    recompute_answers_free(answers);
    intervals_free(intervals);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_the_search),
        cmocka_unit_test(without_answers_everything_is_asked),
        cmocka_unit_test(what_the_clock_cuts_short_is_not_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
