// The routing of experts in a profile is read as it was written, and refused where it contradicts itself. Its numbers
// for people are those of plain loops.
#include "profiler/expert_routing.h"

#include <string.h>

#include "common/random.h"
#include "profiler/profile.h"
#include "profiler/profile_reorder.h"
#include "tests/document.h"

// The page's profile, with the routing of one of its layers.
#define ROUTING \
    "\"routing\": {\"data\": \"71f39b86\", \"weights\": \"0a\", \"seed\": 1, \"batches\": 2, \"layers\": [" \
    "{\"layer\": \"embedding\", \"experts\": 3, \"top\": 2, \"pairs\": 8, \"counts\": [[1, 3, 4], [0, 8, 0]]}]}, "

static char *replaced(const char *text, const char *from, const char *to)
{
    const char *place = strstr(text, from);
    char *made = malloc(strlen(text) + strlen(to) + 1);
    assert_true(place && made);
    memcpy(made, text, (size_t)(place - text));
    strcpy(made + (place - text), to);
    strcat(made, place + strlen(from));
    return made;
}

static struct profile *read_with(const char *from, const char *to, struct error *error)
{
    char *page = test_document("docs/formats/profile.md"), *routing = replaced(ROUTING, from, to), joined[2048];
    snprintf(joined, sizeof joined, "%s\"notes\"", routing);
    char *text = replaced(page, "\"notes\"", joined);
    struct profile *profile = profile_read(text, strlen(text), "p.json", error);
    free(text);
    free(page);
    free(routing);
    return profile;
}

static void routing_is_read_as_it_was_written(void **state)
{
    (void)state;
    static const uint32_t order[] = { 0, 1, 2, 3 };
    struct error error = { 0 };
    struct text text = { 0 };
    struct profile *profile = read_with("", "", &error);
    assert_good(profile, error);
    struct profile *copy = profile_reorder(profile, order, &error);
    assert_good(copy, error);
    const struct profile_routing *routing = copy->routing;
    assert_true(routing && routing->batches == 2 && routing->seed == 1 && routing->layer_count == 1);
    assert_string_equal(routing->weights, "0a");
    const struct layer_routing *layer = &routing->layers[0];
    assert_true(layer->experts == 3 && layer->top == 2 && layer->pairs == 8);
    assert_true(layer->counts[1] == 3 && layer->counts[4] == 8 && layer->counts[5] == 0);
    profile_write(copy, &text);
    struct profile *again = profile_read(text.data, text.length, "again", &error);
    assert_good(again, error);
    assert_string_equal(again->hash, profile->hash);
    profile_free(again);
    profile_free(copy);
    profile_free(profile);
    text_clear(&text);
}

// What a run has counted: in which steps, where its experts were, and what they dropped.
#define RUN \
    "\"steps\": [4, 6], \"layers\": [{\"layer\": \"embedding\", \"experts\": 3, \"top\": 2, \"pairs\": 8, " \
    "\"capacity\": 3, \"dropped\": 6, \"members\": [1, 0, \"*\"], "
#define NO_RUN "\"layers\": [{\"layer\": \"embedding\", \"experts\": 3, \"top\": 2, \"pairs\": 8, "

static void what_a_run_counted_is_read_as_it_was_written(void **state)
{
    (void)state;
    static const uint32_t order[] = { 0, 1, 2, 3 };
    struct error error = { 0 };
    struct text text = { 0 };
    struct profile *profile = read_with(NO_RUN, RUN, &error);
    assert_good(profile, error);
    struct profile *copy = profile_reorder(profile, order, &error);
    assert_good(copy, error);
    profile_write(copy, &text);
    struct profile *again = profile_read(text.data, text.length, "again", &error);
    assert_good(again, error);
    const struct profile_routing *routing = again->routing;
    const struct layer_routing *layer = routing_find(routing, "embedding");
    assert_true(layer == &routing->layers[0] && !routing_find(routing, "block0.mlp"));
    assert_true(routing->first_step == 4 && routing->end_step == 6);
    assert_true(layer->capacity == 3 && layer->dropped == 6);
    assert_true(layer->members[0] == 1 && layer->members[1] == 0 && layer->members[2] == ROUTING_COPIED);
    assert_string_equal(again->hash, profile->hash);
    profile_free(again);
    profile_free(copy);
    profile_free(profile);
    text_clear(&text);
}

static struct refusal {
    const char *name, *from, *to, *sentence;
} refusals[] = {
    { "refused: a layer that is not there", "\"layer\": \"embedding\"", "\"layer\": \"tail\"",
      "p.json: routing: layers[0].layer is \"tail\", and there is no layer of that name" },
    { "refused: too few numbers", "[0, 8, 0]", "[8, 0]",
      "p.json: routing.layers[0].counts[1]: has 2 numbers, for 3 experts" },
    { "refused: other pairs", "[0, 8, 0]", "[0, 7, 0]",
      "p.json: routing.layers[0].counts[1]: adds up to 7, and a micro-batch has 8 pairs of a token and an expert" },
    { "refused: another number of micro-batches", "\"batches\": 2", "\"batches\": 3",
      "p.json: routing.layers[0].counts: has 2 micro-batches, and 3 were counted" },
    { "refused: more choices than experts", "\"top\": 2", "\"top\": 4",
      "p.json: routing.layers[0].top: is 4; it must be from 1 to 3" },
    { "refused: an unknown key", "\"seed\": 1", "\"seed\": 1, \"seeds\": 2",
      "p.json: routing: key \"seeds\" is not known" },
    { "refused: places without a run", "\"counts\"", "\"members\": [0, 1, 0], \"counts\"",
      "p.json: routing.layers[0]: key \"members\" is not known" },
    { "refused: a run of no steps", NO_RUN, "\"steps\": [6, 6], " NO_RUN,
      "p.json: routing.steps[1]: is 6; it must be at least 7" },
    { "refused: steps without an end", NO_RUN, "\"steps\": [6], " NO_RUN,
      "p.json: routing.steps: has 1 numbers, not the step before the first and the last one" },
    { "refused: a run that does not say what it dropped", NO_RUN, "\"steps\": [6, 7], " NO_RUN,
      "p.json: routing.layers[0].dropped: is missing" },
    { "refused: too few places", NO_RUN,
      "\"steps\": [6, 7], " NO_RUN "\"dropped\": 0, \"members\": [0, 1], ",
      "p.json: routing.layers[0].members: has 2 numbers, for 3 experts" },
    { "refused: a word that is no place", NO_RUN,
      "\"steps\": [6, 7], " NO_RUN "\"dropped\": 0, \"members\": [0, \"all\", 1], ",
      "p.json: routing.layers[0].members[1]: is neither a device nor \"*\", an expert that all of them have" },
};

static void a_mistake_is_named_with_its_place(void **state)
{
    const struct refusal *row = *state;
    struct error error = { 0 };
    assert_null(read_with(row->from, row->to, &error));
    assert_error(error, row->sentence);
}

// The twins count micro-batches one by one.
static void means_and_percentiles_are_those_of_plain_loops(void **state)
{
    (void)state;
    enum { BATCHES = 60, EXPERTS = 3, PAIRS = 40 };
    uint64_t seed = 5;
    uint32_t counts[BATCHES * EXPERTS];
    for (int trial = 0; trial < 50; trial++) {
        for (int b = 0; b < BATCHES; b++) {
            counts[b * EXPERTS] = (uint32_t)random_below(&seed, PAIRS / 2);
            counts[b * EXPERTS + 1] = (uint32_t)random_below(&seed, PAIRS / 2);
            counts[b * EXPERTS + 2] = PAIRS - counts[b * EXPERTS] - counts[b * EXPERTS + 1];
        }
        const struct layer_routing layer = { .experts = EXPERTS, .top = 1, .pairs = PAIRS, .counts = counts };
        const struct profile_routing routing = { .batches = BATCHES };
        const uint64_t capacity = random_below(&seed, PAIRS);
        const uint32_t members[EXPERTS] = { 0, trial % 3 == 2 ? ROUTING_COPIED : (uint32_t)trial % 2, 1 };
        uint64_t dropped = 0, slowest = 0, sent = 0;
        for (uint32_t e = 0; e < EXPERTS; e++) {
            uint64_t sum = 0;
            uint32_t p95 = 0;
            for (int b = 0; b < BATCHES; b++) {
                const uint32_t count = counts[b * EXPERTS + (int)e];
                int above = 0;
                sum += count;
                dropped += count > capacity ? count - capacity : 0;
                for (int other = 0; other < BATCHES; other++)
                    above += counts[other * EXPERTS + (int)e] > count;
                if (above <= BATCHES / 20 && (p95 == 0 || count < p95))
                    p95 = count;
            }
            assert_int_equal(routing_mean_milli(&routing, &layer, e), (1000 * sum + BATCHES / 2) / BATCHES);
            assert_int_equal(routing_p95(&routing, &layer, e), p95);
        }
        for (int b = 0; b < BATCHES; b++) {
            uint64_t rows[2] = { 0, 0 }, moved[2] = { 0, 0 };
            for (int e = 0; e < EXPERTS; e++) {
                const uint64_t count = counts[b * EXPERTS + e];
                const uint64_t taken = capacity > 0 && count > capacity ? capacity : count;
                for (uint32_t m = 0; m < 2; m++) {
                    rows[m] += members[e] == ROUTING_COPIED ? (taken + 1) / 2 : members[e] == m ? taken : 0;
                    moved[m] += members[e] == m ? taken : 0;
                }
            }
            slowest += rows[0] > rows[1] ? rows[0] : rows[1];
            sent += moved[0] > moved[1] ? moved[0] : moved[1];
        }
        const struct routing_load load = routing_load(&routing, &layer, members, 2, capacity);
        assert_true(load.slowest == slowest && load.sent == sent && load.dropped == (capacity > 0 ? dropped : 0));
        assert_int_equal(routing_slowest_milli(&routing, &layer, members, 2, capacity),
                         (2000 * slowest + PAIRS * BATCHES / 2) / (PAIRS * BATCHES));
        assert_int_equal(routing_dropped_ppm(&routing, &layer, capacity), 1000000 * dropped / (PAIRS * BATCHES));
    }
}

int main(void)
{
    enum { REFUSALS = sizeof refusals / sizeof refusals[0] };
    struct CMUnitTest tests[REFUSALS + 3] = {
        cmocka_unit_test(routing_is_read_as_it_was_written),
        cmocka_unit_test(what_a_run_counted_is_read_as_it_was_written),
        cmocka_unit_test(means_and_percentiles_are_those_of_plain_loops),
    };
    for (size_t i = 0; i < REFUSALS; i++)
        tests[3 + i] = (struct CMUnitTest)TEST_ROW(a_mistake_is_named_with_its_place, &refusals[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
