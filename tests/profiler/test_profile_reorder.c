#include "profiler/profile_reorder.h"

#include <string.h>

#include "tests/document.h"

enum { MOST_LAYERS = 12 };

static struct profile *random_dag(uint64_t *seed, uint32_t layers)
{
    struct error error = { 0 };
    struct profile *profile = profile_create("dag", "fp32", 1, layers, &error);
    assert_good(profile, error);
    profile->is_chain = false;
    profile->edges = calloc(MOST_LAYERS * MOST_LAYERS, sizeof profile->edges[0]);
    profile->tied = calloc(1, sizeof profile->tied[0]);
    profile->one_owner = calloc(1, sizeof profile->one_owner[0]);
    profile->no_cut_after = calloc(1, sizeof profile->no_cut_after[0]);
    for (uint32_t l = 0; l < layers; l++) {
        char name[16];
        snprintf(name, sizeof name, "l%u", l);
        profile->layers[l] = (struct profile_layer){ .name = strdup(name), .kind = strdup("test"),
                                                     .forward_ns = l, .output_bytes = 1 + random_below(seed, 100) };
        for (uint32_t to = l + 1; to < layers; to++)
            if (random_below(seed, 4) == 0)
                profile->edges[profile->edge_count++] = (struct edge){ l, to };
    }
    for (size_t e = 0; e < profile->edge_count; e += 2) {  // every other edge has bytes of its own
        struct profile_layer *to = &profile->layers[profile->edges[e].to];
        if (!to->receives)
            to->receives = calloc(MOST_LAYERS, sizeof to->receives[0]);
        to->receives[to->receive_count++] =
            (struct profile_transfer){ profile->edges[e].from, random_below(seed, 100) };
    }
    if (layers > 1 && random_below(seed, 2)) {
        profile->tied[profile->tied_count++] = (struct edge){ 0, 1 + (uint32_t)random_below(seed, layers - 1) };
        profile->one_owner[profile->one_owner_count++] = profile->tied[0];
        profile->no_cut_after[profile->no_cut_count++] = (uint32_t)random_below(seed, layers - 1);
    }
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

// Layers at random, each once all it reads from is there.
static void random_order(uint64_t *seed, const struct profile *profile, uint32_t *order)
{
    bool placed[MOST_LAYERS] = { false };
    for (size_t at = 0; at < profile->layer_count;) {
        const uint32_t l = (uint32_t)random_below(seed, profile->layer_count);
        bool ready = !placed[l];
        for (size_t e = 0; e < profile->edge_count; e++)
            ready &= profile->edges[e].to != l || placed[profile->edges[e].from];
        if (ready)
            order[at++] = l;
        placed[l] |= ready;
    }
}

static bool contains(const uint32_t *order, size_t count, uint32_t layer)
{
    for (size_t i = 0; i < count; i++)
        if (order[i] == layer)
            return true;
    return false;
}

// By sets of layers of the original: what crosses a cut, and whether it parts a pair.
static uint64_t crossing_bytes(const struct profile *profile, const uint32_t *order, size_t end)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < end; i++) {
        bool crosses = false;
        for (size_t e = 0; e < profile->edge_count; e++)
            crosses |= profile->edges[e].from == order[i] && !contains(order, end, profile->edges[e].to);
        bytes += crosses ? profile->layers[order[i]].output_bytes : 0;
    }
    return bytes;
}

static uint64_t own_crossing_bytes(const struct profile *profile, size_t end)
{
    uint32_t own[MOST_LAYERS];
    for (uint32_t i = 0; i < profile->layer_count; i++)
        own[i] = i;
    return profile->is_chain ? profile->layers[end - 1].output_bytes : crossing_bytes(profile, own, end);
}

// Whose edge carries what, by the names, which are the original numbers.
static void check_transfers(const struct profile *profile, const struct profile *other, const uint32_t *order)
{
    for (size_t e = 0; e < other->edge_count; e++) {
        const uint32_t from = other->edges[e].from, to = other->edges[e].to;
        assert_int_equal(profile_receive_bytes(other, &other->layers[to], from),
                         profile_receive_bytes(profile, &profile->layers[order[to]], order[from]));
    }
}

static bool parts(const uint32_t *order, size_t end, uint32_t a, uint32_t b)
{
    return contains(order, end, a) != contains(order, end, b);
}

static void a_cut_of_an_order_is_the_same_cut_of_the_graph(void **state)
{
    (void)state;
    uint64_t seed = 31;
    for (uint64_t trial = 0; trial < test_trials(1000, 20000); trial++) {
        struct error error = { 0 };
        const uint32_t layers = 1 + (uint32_t)random_below(&seed, MOST_LAYERS);
        struct profile *profile = random_dag(&seed, layers);
        uint32_t order[MOST_LAYERS];
        random_order(&seed, profile, order);
        struct profile *other = profile_reorder(profile, order, &error);
        assert_good(other, error);
        assert_string_equal(other->hash, profile->hash);
        for (size_t i = 0; i < layers; i++)
            assert_string_equal(other->layers[i].name, profile->layers[order[i]].name);
        for (size_t e = 0; e < other->edge_count; e++)
            assert_true(other->edges[e].from < other->edges[e].to);
        check_transfers(profile, other, order);
        if (other->one_owner_count)
            assert_true(order[other->one_owner[0].from] == profile->one_owner[0].from
                        && order[other->one_owner[0].to] == profile->one_owner[0].to);
        for (size_t end = 1; end < layers; end++) {
            const bool glued = profile->no_cut_count
                            && parts(order, end, profile->no_cut_after[0], profile->no_cut_after[0] + 1);
            const bool tied = profile->tied_count && parts(order, end, profile->tied[0].from, profile->tied[0].to);
            if (own_crossing_bytes(other, end) != crossing_bytes(profile, order, end)
                || profile_can_cut_after(other, end - 1) == glued
                || (other->tied_count && tied != (other->tied[0].from < end && end <= other->tied[0].to)))
                fail_msg("trial %d: the cut in front of place %d is another one", (int)trial, (int)end);
        }
        profile_free(other);
        profile_free(profile);
    }
}

static void the_profile_s_own_order_changes_nothing(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *text = test_document("docs/formats/profile.md");
    struct profile *profile = profile_read(text, strlen(text), "p.json", &error);
    assert_good(profile, error);
    const uint32_t own[] = { 0, 1, 2, 3 };
    struct profile *same = profile_reorder(profile, own, &error);
    assert_good(same, error);
    struct text again = { 0 };
    profile_write(same, &again);
    assert_string_equal(again.data, text);
    text_clear(&again);
    profile_free(same);
    profile_free(profile);
    free(text);
}

static void an_order_is_forced_where_each_layer_reads_from_the_one_before(void **state)
{
    (void)state;
    uint64_t seed = 32;
    struct profile *profile = random_dag(&seed, 3);
    profile->is_chain = true;
    assert_true(profile_has_one_order(profile));
    profile->is_chain = false;
    profile->edges[0] = (struct edge){ 0, 1 };
    profile->edges[1] = (struct edge){ 0, 2 };
    profile->edges[2] = (struct edge){ 1, 2 };
    profile->edge_count = 3;
    assert_true(profile_has_one_order(profile));
    profile->edge_count = 2;
    assert_false(profile_has_one_order(profile));
    profile_free(profile);
}

static struct bad_row {
    const char *name;
    uint32_t order[3];
    const char *sentence;
} bad_rows[] = {
    { "a layer that is not there", { 0, 3, 1 }, "order[1]: layer 3 is none of the profile's 3" },
    { "a layer twice", { 0, 1, 0 }, "order[2]: layer 0 stands at place 0 already" },
    { "a layer before what it reads",
      { 1, 0, 2 },
      "order[0]: layer 1 reads from layer 0, which comes later, at place 1" },
};

static void is_refused(void **state)
{
    const struct bad_row *row = *state;
    struct error error = { 0 };
    struct profile *profile = profile_create("chain", "fp32", 1, 3, &error);
    assert_good(profile, error);
    assert_null(profile_reorder(profile, row->order, &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, ERROR_ANSWER);
    profile_free(profile);
}

int main(void)
{
    enum { PLAIN = 3, ROWS = sizeof bad_rows / sizeof bad_rows[0] };
    struct CMUnitTest tests[PLAIN + ROWS] = {
        cmocka_unit_test(a_cut_of_an_order_is_the_same_cut_of_the_graph),
        cmocka_unit_test(the_profile_s_own_order_changes_nothing),
        cmocka_unit_test(an_order_is_forced_where_each_layer_reads_from_the_one_before),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[PLAIN + i] = (struct CMUnitTest)TEST_ROW(is_refused, &bad_rows[i]);
    return cmocka_run_group_tests_name("profile_reorder", tests, NULL, NULL);
}
