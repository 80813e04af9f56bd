#include "partitioner/objectives/loads_document.h"

#include <string.h>

#include "profiler/import.h"
#include "tests/document.h"
#include "tests/test.h"

#define PAGE "docs/formats/loads.md"

struct given {
    struct profile *profile;
    struct cluster *cluster;
    struct bottleneck_request request;
};

// The example of Piper's page on three devices, which is what the page of loads plans.
static void setup(struct given *given)
{
    struct error error = { 0 };
    char *text = test_document("docs/formats/piper.md");
    given->profile = import_piper_text(text, strlen(text), "piper.json", 1, NULL, &error);
    assert_good(given->profile, error);
    given->cluster = cluster_uniform(3, 12000, 0, 25000000000, &error);
    assert_good(given->cluster, error);
    given->request = (struct bottleneck_request){ .model = BOTTLENECK_TPS, .profile = given->profile,
                                                  .cluster = given->cluster, .is_straight = true };
    free(text);
}

static void clear(struct given *given)
{
    cluster_free(given->cluster);
    profile_free(given->profile);
}

static void the_example_of_the_page_is_what_is_found_and_written(void **state)
{
    (void)state;
    struct given given;
    struct error error = { 0 };
    setup(&given);
    given.request.micro_batches = 64;
    struct bottleneck_result *plan = bottleneck_search(&given.request, &error);
    assert_good(plan, error);
    struct text text = { 0 };
    loads_write(&given.request, plan, &text);
    char *page = test_document(PAGE);
    assert_string_equal(text.data, page);
    free(page);
    text_clear(&text);
    bottleneck_free(plan);
    clear(&given);
}

static void what_was_written_is_priced_anew(void **state)
{
    (void)state;
    struct given given;
    struct error error = { 0 };
    setup(&given);
    char *page = test_document(PAGE);
    struct bottleneck_result *plan = loads_read(&given.request, page, strlen(page), "loads.json", &error);
    assert_good(plan, error);
    assert_int_equal(given.request.micro_batches, 64);
    assert_int_equal(plan->stages[1].group, 2);
    assert_int_equal(plan->variant[1], 2);
    assert_good(bottleneck_value(&given.request, plan, &error), error);
    assert_int_equal((uint64_t)(plan->value_ns + 0.5), 16501311);
    free(page);
    bottleneck_free(plan);
    clear(&given);
}

static struct bad_row {
    const char *name, *from, *to, *sentence;
} bad_rows[] = {
    { "refused: another format", "weir.loads", "weir.trace", "l.json: format: is \"weir.trace\", not \"weir.plan\"" },
    { "refused: a layer nobody has", "\"block\"", "\"blocks\"",
      "l.json: stages[1].layers[0]: the profile has no layer of this name" },
    { "refused: a layer twice", "\"block\"", "\"embedding\"",
      "l.json: stages[1].layers[0]: stands in stage 0 already" },
    { "refused: a layer in no stage", "\"layers\": [\"block\"],\n      \"variants\": [\"vanilla on 2 devices\"]",
      "\"layers\": [],\n      \"variants\": []", "l.json: stages: layer \"block\" is in no stage" },
    { "refused: a way nobody has", "vanilla on 2 devices", "vanilla on 3 devices",
      "l.json: stages[1].variants[0]: layer \"block\" has no variant of this name" },
    { "refused: a way too many", "[null]", "[null, null]", "l.json: stages[0].variants: holds 2 ways for 1 layers" },
    { "refused: no replica", "\"replicas\": 1", "\"replicas\": 0",
      "l.json: stages[0].replicas: is 0; it must be from 1 to 65536" },
    { "refused: of another model", "tps_ns", "max_load_ns",
      "l.json: certificate.objective: is of model max-load, and tps was asked for" },
    { "refused: an unknown key", "\"on_cpu\": false", "\"on_cpu\": false, \"on_gpu\": true",
      "l.json: stages[0]: key \"on_gpu\" is not known" },
};

static void what_is_wrong_is_one_sentence_with_its_place(void **state)
{
    const struct bad_row *row = *state;
    struct given given;
    struct error error = { 0 };
    setup(&given);
    char *text = test_document_with(PAGE, row->from, row->to);
    assert_null(loads_read(&given.request, text, strlen(text), "l.json", &error));
    assert_error(error, row->sentence);
    free(text);
    clear(&given);
}

int main(void)
{
    enum { BAD = sizeof bad_rows / sizeof bad_rows[0] };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_page_is_what_is_found_and_written),
        cmocka_unit_test(what_was_written_is_priced_anew),
    };
    struct CMUnitTest bad[BAD];
    for (size_t i = 0; i < BAD; i++)
        bad[i] = (struct CMUnitTest)TEST_ROW(what_is_wrong_is_one_sentence_with_its_place, &bad_rows[i]);
    return cmocka_run_group_tests_name("loads document", tests, NULL, NULL)
           + cmocka_run_group_tests_name("loads document: refusals", bad, NULL, NULL);
}
