#include <stdio.h>
#include <string.h>

#include "profiler/import.h"
#include "tests/document.h"
#include "tests/test.h"

#define PAGE "docs/formats/piper.md"

static void the_example_of_the_page_becomes_a_profile_and_its_machine(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct cluster *cluster;
    char *text = test_document(PAGE);
    struct profile *profile = import_piper_text(text, strlen(text), "in/tiny.json", 2, &cluster, &error);
    assert_good(profile, error);
    assert_string_equal(profile->model, "tiny");
    assert_int_equal(profile->micro_batch, 2);
    assert_true(profile->is_chain);
    assert_int_equal(profile->source.sum_ns, 33000000);

    const struct profile_layer *block = &profile->layers[1];
    assert_string_equal(block->name, "block");
    assert_int_equal(block->forward_ns, 10000000);
    assert_int_equal(block->backward_ns, 20000000);
    assert_int_equal(block->parameter_bytes, 4000);
    assert_int_equal(block->saved_bytes, 9000);
    assert_int_equal(block->backward_workspace_bytes, 0);
    assert_int_equal(block->variant_count, 2);

    const struct profile_variant *recomp = &block->variants[0], *halves = &block->variants[1];
    assert_string_equal(recomp->layer.name, "recomp");
    assert_int_equal(recomp->devices, 1);
    assert_int_equal(recomp->layer.forward_ns, 10000000);
    assert_int_equal(recomp->layer.backward_ns, 30000000);
    assert_int_equal(recomp->layer.saved_bytes, 601);
    assert_int_equal(recomp->layer.backward_workspace_bytes, 8400);
    assert_string_equal(halves->layer.name, "vanilla on 2 devices");
    assert_int_equal(halves->devices, 2);
    assert_int_equal(profile_receive_bytes(profile, &halves->layer, 0), 16384);
    assert_int_equal(profile_receive_bytes(profile, block, 0), 8192);
    assert_int_equal(profile_send_bytes(&profile->layers[0].variants[0].layer, 1), 16384);

    assert_int_equal(cluster->device_count, 4);
    assert_int_equal(cluster->devices[3].memory_bytes, 8589934592);
    assert_int_equal(cluster->levels[0].bytes_per_second, 25000000000);
    assert_string_equal(profile->notes,
                        "An input of Piper with 2 nodes and 1 edge. Forward is taken as a third of the quickest way's "
                        "time. It means 4 devices of 8589934592 bytes at 25000000000 bytes per second and 64 "
                        "micro-batches.");
    cluster_free(cluster);
    profile_free(profile);
    free(text);
}

static void names_that_repeat_get_their_number(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *text = test_document_with(PAGE, "\"embedding\"", "\"block\"");
    struct profile *profile = import_piper_text(text, strlen(text), "tiny.json", 1, NULL, &error);
    assert_good(profile, error);
    assert_string_equal(profile->layers[0].name, "block.0");
    assert_string_equal(profile->layers[1].name, "block.1");
    assert_string_equal(profile->layers[1].kind, "block");
    profile_free(profile);
    free(text);
}

static void unknown_fields_are_counted(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *text =
        test_document_with(PAGE, "\"maxDevices\": 4,", "\"maxDevices\": 4, \"colour\": {\"a\": 1}, \"b\": [],");
    struct profile *profile = import_piper_text(text, strlen(text), "tiny.json", 1, NULL, &error);
    assert_good(profile, error);
    assert_non_null(strstr(profile->notes, "; 2 unknown fields left out."));
    profile_free(profile);
    free(text);
}

static struct bad_row {
    const char *name, *from, *to, *sentence;
} bad_rows[] = {
    { "refused: no device", "\"maxDevices\": 4", "\"maxDevices\": 0",
      "g.json: maxDevices: is 0; it must be from 1 to 65536" },
    { "refused: no rate", "25000000000.0", "0.25", "g.json: bandwidth: is less than a byte per second" },
    { "refused: no memory", "8589934592.0", "0.25", "g.json: maxMemoryPerDevice: is less than a byte" },
    { "refused: a node twice", "\"id\": 1,", "\"id\": 0,", "g.json: nodes[1].id: is 0, as nodes[0] is already" },
    { "refused: no node", "\"nodes\": [", "\"nodes\": [], \"rest\": [", "g.json: nodes: holds 0 nodes (1 to 131072)" },
    { "refused: a missing field", "\"timePerSample\": 0.03, ", "",
      "g.json: nodes[1].TMPCs.1[0].timePerSample: is missing" },
    { "refused: a negative size", "\"memoryUsageA\": 500.0", "\"memoryUsageA\": -1",
      "g.json: nodes[0].TMPCs.1[0].memoryUsageA: is -1; it cannot be negative" },
    { "refused: weights that are not in B", "\"memoryUsageB\": 8000.0", "\"memoryUsageB\": 7999.0",
      "g.json: nodes[1].TMPCs.1[0].memoryUsageB: does not hold the weights and their gradients, twice the "
      "parameterSize" },
    { "refused: a degree that is none", "\"2\": [", "\"two\": [",
      "g.json: nodes[0].TMPCs.two: is not a number of devices (1 to 65536)" },
    { "refused: a degree with a zero in front", "\"2\": [", "\"02\": [",
      "g.json: nodes[0].TMPCs.02: is not a number of devices (1 to 65536)" },
    { "refused: no way on one device", "\"1\": [{\"id\": \"vanilla\", \"timePerSample\": 0.003",
      "\"3\": [{\"id\": \"vanilla\", \"timePerSample\": 0.003",
      "g.json: nodes[0].TMPCs.1: holds no way to run the node on one device" },
    { "refused: a way twice", "\"recomp\"", "\"vanilla\"",
      "g.json: nodes[1].TMPCs.1[1].id: stands twice in this list" },
    { "refused: a way without a name", "\"recomp\"", "\"\"", "g.json: nodes[1].TMPCs.1[1].id: is empty" },
    { "refused: a sync that is missing", "\"syncTimeFw\": {\"0\": 0.0}", "\"syncTimeFw\": {}",
      "g.json: nodes[1].TMPCs.1[0].syncTimeFw.0: is missing" },
    { "refused: a sync of no edge", "\"syncTimeFw\": {}", "\"syncTimeFw\": {\"1\": 0.0}",
      "g.json: nodes[0].TMPCs.1[0].syncTimeFw: names a node that no edge comes from or goes to" },
    { "refused: an edge to nobody", "\"destId\": 1", "\"destId\": 7", "g.json: edges[0].destId: no node has the id 7" },
    { "refused: an edge twice", "\"edges\": [",
      "\"edges\": [{\"sourceId\": 0, \"destId\": 1, \"communicationCost\": 1},",
      "g.json: edges[1]: the edge from 0 to 1 is there twice" },
    { "refused: a node that feeds itself", "\"sourceId\": 0", "\"sourceId\": 1",
      "g.json: edges[0]: the edge from 1 to 1 closes a cycle" },
    { "refused: too much of everything", "\"timePerSample\": 0.03,", "\"timePerSample\": 1e9,",
      "g.json: nodes[1].TMPCs.1[0].timePerSample: is 1e+09: more than a profile can hold" },
};

static void what_is_wrong_is_one_sentence_with_its_place(void **state)
{
    const struct bad_row *row = *state;
    struct error error = { 0 };
    struct cluster *cluster = NULL;
    char *text = test_document_with(PAGE, row->from, row->to);
    assert_null(import_piper_text(text, strlen(text), "g.json", 1, &cluster, &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
    assert_null(cluster);
    free(text);
}

static struct profile *import_real(const char *name, struct cluster **cluster)
{
    char path[200];
    snprintf(path, sizeof path, "../shared/data/partition/piper/%s", name);
    FILE *file = fopen(path, "r");
    if (!file)
        TEST_SKIP("the real inputs are not here (../shared/data/partition/piper)");
    fclose(file);
    struct error error = { 0 };
    struct profile *profile = import_piper(path, 1, cluster, &error);
    assert_good(profile, error);
    return profile;
}

static void a_real_bert_keeps_its_ways(void **state)
{
    (void)state;
    struct cluster *cluster;
    struct profile *profile = import_real("bert32a100.json", &cluster);
    assert_int_equal(profile->layer_count, 37);
    assert_int_equal(profile->edge_count, 67);
    const struct profile_layer *block = &profile->layers[5];
    assert_string_equal(block->kind, "ParallelTransformerLayer");
    assert_int_equal(block->forward_ns + block->backward_ns, 30474000);
    assert_int_equal(block->parameter_bytes, 176997120);
    assert_int_equal(block->variant_count, 7);
    assert_string_equal(block->variants[6].layer.name, "activation recomp on 8 devices");
    assert_int_equal(block->variants[6].layer.saved_bytes, 48234496);
    assert_int_equal(block->variants[6].layer.backward_workspace_bytes, 138604096 - 2 * 22144800);
    assert_int_equal(cluster->device_count, 10);
    cluster_free(cluster);
    profile_free(profile);
}

static void a_real_resnet_keeps_its_names(void **state)
{
    (void)state;
    struct cluster *cluster;
    struct profile *profile = import_real("resnet.json", &cluster);
    assert_int_equal(profile->layer_count, 177);
    assert_int_equal(profile->edge_count, 193);
    uint64_t named = 0;
    for (size_t i = 0; i < profile->layer_count; i++)
        named += strcmp(profile->layers[i].name, "node77") == 0;
    assert_int_equal(named, 1);
    assert_int_equal(profile->source.sum_ns, 462381000000);
    cluster_free(cluster);
    profile_free(profile);
}

int main(void)
{
    enum { BAD = sizeof bad_rows / sizeof bad_rows[0] };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_page_becomes_a_profile_and_its_machine),
        cmocka_unit_test(names_that_repeat_get_their_number),
        cmocka_unit_test(unknown_fields_are_counted),
        cmocka_unit_test(a_real_bert_keeps_its_ways),
        cmocka_unit_test(a_real_resnet_keeps_its_names),
    };
    struct CMUnitTest bad[BAD];
    for (size_t i = 0; i < BAD; i++)
        bad[i] = (struct CMUnitTest)TEST_ROW(what_is_wrong_is_one_sentence_with_its_place, &bad_rows[i]);
    return cmocka_run_group_tests_name("import piper", tests, NULL, NULL)
           + cmocka_run_group_tests_name("import piper: refusals", bad, NULL, NULL);
}
