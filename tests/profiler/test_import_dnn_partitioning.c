#include <stdio.h>
#include <string.h>

#include "profiler/import.h"
#include "tests/document.h"
#include "tests/test.h"

#define PAGE "docs/formats/dnn-partitioning.md"

static struct profile *import(const char *text, struct cluster **cluster)
{
    struct error error = { 0 };
    struct profile *profile = import_dnn_partitioning_text(text, strlen(text), "in/tiny.json", 1, cluster, &error);
    assert_good(profile, error);
    return profile;
}

static void the_example_of_the_page_becomes_a_profile_and_its_machine(void **state)
{
    (void)state;
    char *text = test_document(PAGE);
    struct cluster *cluster;
    struct profile *profile = import(text, &cluster);
    assert_string_equal(profile->model, "tiny");
    assert_int_equal(profile->layer_count, 3);
    assert_true(profile->is_chain);
    assert_int_equal(profile->source.sum_ns, 3500000);

    const struct profile_layer *linear = &profile->layers[1];
    assert_string_equal(linear->name, "linear");
    assert_int_equal(linear->forward_ns, 1000000);
    assert_int_equal(linear->backward_ns, 2000000);
    assert_int_equal(linear->parameter_bytes, 8192);
    assert_int_equal(linear->output_bytes, 31250);
    assert_int_equal(linear->variant_count, 1);
    assert_string_equal(linear->variants[0].layer.name, "cpu");
    assert_int_equal(linear->variants[0].layer.forward_ns, 10000000);
    assert_int_equal(linear->variants[0].layer.backward_ns, 20000000);

    assert_int_equal(cluster->device_count, 3);
    assert_int_equal(cluster->devices[1].memory_bytes, 16000000000);
    assert_string_equal(cluster->devices[2].name, "cpu0");
    assert_int_equal(cluster->levels[0].bytes_per_second, 1000000000);
    assert_string_equal(profile->notes,
                        "An input of dnn-partitioning with 6 nodes, 3 of them backward. Transfers are times there: at "
                        "1 GB/s a byte is a ns. Its machine: 2 accelerators of 16000000000 bytes, 1 CPUs.");
    cluster_free(cluster);
    profile_free(profile);
    free(text);
}

static void forward_nodes_of_one_colour_are_tied(void **state)
{
    (void)state;
    const char *text = "{\"maxSizePerFPGA\": 1, \"maxFPGAs\": 1, \"maxCPUs\": 0, \"nodes\": ["
                       "{\"id\": 9, \"supportedOnFpga\": 1, \"cpuLatency\": 1, \"fpgaLatency\": 1, "
                       "\"isBackwardNode\": 0, \"colorClass\": 4, \"size\": 1},"
                       "{\"id\": 7, \"supportedOnFpga\": 1, \"cpuLatency\": 1, \"fpgaLatency\": 1, "
                       "\"isBackwardNode\": 0, \"colorClass\": 5},"
                       "{\"id\": 8, \"supportedOnFpga\": 1, \"cpuLatency\": 1, \"fpgaLatency\": 1, "
                       "\"isBackwardNode\": 0, \"colorClass\": 4, \"colour\": \"blue\"}],"
                       "\"edges\": [{\"sourceId\": 9, \"destId\": 7, \"cost\": 0}]}";
    struct profile *profile = import(text, NULL);
    static const char *const order[] = { "node8", "node9", "node7" };
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(profile->layers[i].name, order[i]);
    assert_int_equal(profile->tied_count, 1);
    assert_int_equal(profile->tied[0].from, 0);
    assert_int_equal(profile->tied[0].to, 1);
    assert_non_null(strstr(profile->notes, "; 1 unknown field left out."));
    profile_free(profile);
}

// Their operator graphs say true and false, and colours of some nodes only.
static void flags_may_be_booleans_and_colours_missing(void **state)
{
    (void)state;
    const char *text = "{\"maxSizePerFPGA\": 1.0, \"maxFPGAs\": 1, \"maxCPUs\": 0, \"nodes\": ["
                       "{\"id\": 1, \"supportedOnFpga\": true, \"cpuLatency\": 1, \"fpgaLatency\": 1, "
                       "\"isBackwardNode\": false, \"colorClass\": 4, \"size\": 1},"
                       "{\"id\": 2, \"supportedOnFpga\": 1, \"cpuLatency\": 1, \"fpgaLatency\": 4.358526865641276e-07, "
                       "\"isBackwardNode\": false, \"size\": 16.0}],"
                       "\"edges\": [{\"sourceId\": 1, \"destId\": 2, \"cost\": 0}]}";
    struct profile *profile = import(text, NULL);
    assert_int_equal(profile->layer_count, 2);
    assert_int_equal(profile->tied_count, 0);
    assert_int_equal(profile->layers[1].forward_ns, 0);
    profile_free(profile);
}

// The training graph may go against the forward one, where layers feed one another only.
static void backward_edges_may_go_back(void **state)
{
    (void)state;
    char *text = test_document_with(PAGE, "\"sourceId\": 4, \"destId\": 5, \"cost\": 0.5",
                                    "\"sourceId\": 5, \"destId\": 4, \"cost\": 0.5");
    char *at = strstr(text, "{\"sourceId\": 5, \"destId\": 6, \"cost\": 0.03125}");
    assert_non_null(at);
    memcpy(at, "{\"sourceId\": 6, \"destId\": 5, \"cost\": 0.03125}", 44);
    struct profile *profile = import(text, NULL);
    assert_int_equal(profile->layers[0].output_bytes, 500000);
    profile_free(profile);
    free(text);
}

// --- graphs of operators -------------------------------------------------------------------------

struct operators {
    struct text nodes, edges;
};

// A node of colour `colour` (0: none) that takes `us`, and an edge from each of `from` (0 ends them), at `cost` us.
static void add(struct operators *graph, unsigned id, bool is_backward, unsigned colour, unsigned us)
{
    text_add(&graph->nodes, "%s{\"id\": %u, \"name\": \"op%u\", \"supportedOnFpga\": true, \"cpuLatency\": %u.0, "
             "\"fpgaLatency\": 0.%03u, \"isBackwardNode\": %s, \"size\": %u", graph->nodes.length ? ", " : "", id, id, us,
             us, is_backward ? "true" : "false", id);
    if (colour)
        text_add(&graph->nodes, ", \"colorClass\": %u", colour);
    text_add(&graph->nodes, "}");
}

static void feed(struct operators *graph, unsigned from, unsigned to, unsigned us)
{
    text_add(&graph->edges, "%s{\"sourceId\": %u, \"destId\": %u, \"cost\": 0.%03u}", graph->edges.length ? ", " : "",
             from, to, us);
}

static char *operators_text(struct operators *graph)
{
    struct text text = { 0 };
    struct error error = { 0 };
    text_add(&text, "{\"maxSizePerFPGA\": 1e9, \"maxFPGAs\": 2, \"maxCPUs\": 1, \"nodes\": [%s], \"edges\": [%s]}",
             graph->nodes.data, graph->edges.data);
    text_clear(&graph->nodes);
    text_clear(&graph->edges);
    return text_take(&text, &error);
}

// Weights 1 and 2 with their products 3 and 4, which reads 3 and is read by 5 and 6; gradients 15, 16, 14, 13, with the
// sum 20 of those of 4's two readers, updates 11 and 12 of the weights, and 21, which nobody reads.
static struct operators products(void)
{
    struct operators graph = { 0 };
    add(&graph, 1, false, 1, 0), add(&graph, 3, false, 1, 100);
    add(&graph, 2, false, 2, 0), add(&graph, 4, false, 2, 200);
    add(&graph, 5, false, 3, 30), add(&graph, 6, false, 4, 40);
    add(&graph, 13, true, 1, 110), add(&graph, 11, true, 1, 1);
    add(&graph, 14, true, 2, 210), add(&graph, 12, true, 2, 2);
    add(&graph, 15, true, 3, 31), add(&graph, 16, true, 4, 41);
    add(&graph, 20, true, 0, 5), add(&graph, 21, true, 9, 6);
    feed(&graph, 1, 3, 9), feed(&graph, 2, 4, 9), feed(&graph, 3, 4, 7), feed(&graph, 4, 5, 8), feed(&graph, 4, 6, 8);
    feed(&graph, 15, 20, 8), feed(&graph, 16, 20, 8), feed(&graph, 20, 14, 8), feed(&graph, 14, 13, 7);
    feed(&graph, 13, 11, 9), feed(&graph, 14, 12, 7), feed(&graph, 16, 21, 8);
    feed(&graph, 3, 14, 7);  // which the backward reads of the forward of the layer before
    return graph;
}

static void operators_of_one_colour_are_a_layer(void **state)
{
    (void)state;
    struct operators graph = products();
    char *text = operators_text(&graph);
    struct profile *profile = import(text, NULL);
    static const struct {
        const char *name;
        uint64_t forward_us, backward_us, bytes, sent_us;
    } want[] = { { "op3", 100, 111, 28, 7 }, { "op4", 200, 217, 52, 8 }, { "op5", 30, 31, 20, 0 }, { "op6", 40, 47, 43, 0 } };
    assert_int_equal(profile->layer_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        assert_string_equal(layer->name, want[i].name);
        assert_int_equal(layer->forward_ns, want[i].forward_us * 1000);
        assert_int_equal(layer->backward_ns, want[i].backward_us * 1000);
        assert_int_equal(layer->parameter_bytes, want[i].bytes);
        assert_int_equal(layer->output_bytes, want[i].sent_us * 1000);
    }
    assert_int_equal(profile->edge_count, 3);
    assert_int_equal(profile->tied_count, 0);
    assert_string_equal(profile->notes,
                        "An input of dnn-partitioning with 14 nodes, 8 of them backward. Nodes of one colour are one layer,"
                        " and the backward nodes of no layer's colour are of the layer that they feed. Transfers are times"
                        " there: at 1 GB/s a byte is a ns. Its machine: 2 accelerators of 1000000000 bytes, 1 CPUs.");
    profile_free(profile);
    free(text);
}

static void edges_that_cost_otherwise_are_counted(void **state)
{
    (void)state;
    struct operators graph = products();
    add(&graph, 7, false, 5, 50);
    feed(&graph, 3, 7, 7);   // has no backward
    feed(&graph, 1, 5, 9);   // another tensor of op3's layer, which with that leaves it
    char *text = operators_text(&graph);
    struct profile *profile = import(text, NULL);
    assert_int_equal(profile->layers[0].output_bytes, 16000);
    assert_non_null(strstr(profile->notes, " 3 edges cost otherwise than what a layer hands on does, forward and back. "));
    profile_free(profile);
    free(text);
}

static void colours_that_feed_each_other_are_refused(void **state)
{
    (void)state;
    struct operators graph = products();
    struct error error = { 0 };
    feed(&graph, 4, 1, 8);
    char *text = operators_text(&graph);
    assert_null(import_dnn_partitioning_text(text, strlen(text), "g.json", 1, NULL, &error));
    assert_error(error, "g.json: edges[13]: the edge from 2 to 1 closes a cycle");
    free(text);
}

static struct bad_row {
    const char *name, *from, *to, *sentence;
} bad_rows[] = {
    { "refused: cut short", "    {\"sourceId\": 5", "", "g.json: line 15, column 1: a value is expected" },
    { "refused: a missing field", "\"fpgaLatency\": 1.0, ", "", "g.json: nodes[1].fpgaLatency: is missing" },
    { "refused: a negative time", "\"fpgaLatency\": 1.0", "\"fpgaLatency\": -1.0",
      "g.json: nodes[1].fpgaLatency: is -1; it cannot be negative" },
    { "refused: more time than there is", "\"fpgaLatency\": 1.0", "\"fpgaLatency\": 1e15",
      "g.json: nodes[1].fpgaLatency: is 1e+15: more than a profile can hold" },
    { "refused: a size past any", "\"size\": 4096.0", "\"size\": 1e300",
      "g.json: nodes[1].size: is 1e+300; it must be from -2^53 to 2^53" },
    { "refused: sums past the end", "\"fpgaLatency\": 1.0", "\"fpgaLatency\": 9.007199254e9",
      "g.json: nodes: the times up to \"linear\" add up to more than a profile can hold" },
    { "refused: text for a flag", "\"isBackwardNode\": 0", "\"isBackwardNode\": \"no\"",
      "g.json: nodes[0].isBackwardNode: is a string, not a whole number" },
    { "refused: text for a number", "\"cpuLatency\": 10.0", "\"cpuLatency\": \"10\"",
      "g.json: nodes[1].cpuLatency: is a string, not a number" },
    { "refused: a layer for CPUs alone", "\"supportedOnFpga\": 1", "\"supportedOnFpga\": 0",
      "g.json: nodes[0].supportedOnFpga: is 0; Weir has no place for a layer that only a CPU can run" },
    { "refused: a node twice", "\"id\": 3", "\"id\": 2", "g.json: nodes[2].id: is 2, as nodes[1] is already" },
    { "refused: a name twice", "\"linear\"", "\"loss\"", "g.json: nodes: two are called \"loss\"" },
    { "refused: an edge to nobody", "\"destId\": 2", "\"destId\": 20",
      "g.json: edges[0].destId: no node has the id 20" },
    { "refused: an edge twice", "\"sourceId\": 2, \"destId\": 3, \"cost\": 0.03125",
      "\"sourceId\": 1, \"destId\": 2, \"cost\": 0.5", "g.json: edges[1]: the edge from 1 to 2 is there twice" },
    { "refused: a node that feeds itself", "\"sourceId\": 2, \"destId\": 3", "\"sourceId\": 2, \"destId\": 2",
      "g.json: edges[1]: node 2 feeds itself" },
    { "refused: two costs of one node", "\"sourceId\": 2, \"destId\": 3, \"cost\": 0.03125",
      "\"sourceId\": 1, \"destId\": 3, \"cost\": 0.03125",
      "g.json: edges[1].cost: is not that of edges[0], which leaves node 1 too" },
    { "refused: a cycle", "\"edges\": [", 
      "\"edges\": [{\"sourceId\": 3, \"destId\": 1, \"cost\": 1}, {\"sourceId\": 6, \"destId\": 4, \"cost\": 1},",
      "g.json: edges[0]: the edge from 3 to 1 closes a cycle" },
    { "refused: from backward to forward", "\"edges\": [",
      "\"edges\": [{\"sourceId\": 4, \"destId\": 3, \"cost\": 0.5},",
      "g.json: edges[0]: the edge goes from backward node 4 to forward node 3" },
    { "refused: into another layer's backward", "\"edges\": [",
      "\"edges\": [{\"sourceId\": 3, \"destId\": 4, \"cost\": 0.5},",
      "g.json: edges[0]: nothing goes forward from node 3 to the layer of backward node 4" },
    { "refused: a backward edge at a cost of its own", "\"sourceId\": 4, \"destId\": 5, \"cost\": 0.5",
      "\"sourceId\": 4, \"destId\": 5, \"cost\": 0.75",
      "g.json: edges[2]: the backward edge from 4 to 5 has no forward edge of its own and of its cost" },
    { "refused: a forward edge without a backward one", "{\"sourceId\": 4, \"destId\": 5, \"cost\": 0.5},", "",
      "g.json: edges[0]: the edge from 1 to 2 has no backward edge beside it" },
    { "refused: a backward node of nobody", "\"size\": 16.0}\n  ]",
      "\"size\": 16.0}, {\"id\": 7, \"supportedOnFpga\": 1, \"cpuLatency\": 1, \"fpgaLatency\": 1, \"isBackwardNode\": 1}]",
      "g.json: nodes[6]: node 7 is a backward node whose colour has no forward node, and no edge leads to one that has" },
    { "refused: a backward node that only forward ones feed", "\"isBackwardNode\": 0, \"colorClass\": 2, \"size\": 4096.0}",
      "\"isBackwardNode\": 1, \"size\": 4096.0}",
      "g.json: nodes[1]: node 2 is a backward node whose colour has no forward node, and no edge leads to one that has" },
    { "refused: no memory", "16000000000.0", "0", "g.json: maxSizePerFPGA: is less than a byte" },
    { "refused: no machine", "\"maxFPGAs\": 2, \"maxCPUs\": 1", "\"maxFPGAs\": 0, \"maxCPUs\": 0",
      "g.json: maxFPGAs: there is neither an accelerator nor a CPU" },
    { "refused: a list for the document", "{\n  \"maxSizePerFPGA\"", "[{\n  \"maxSizePerFPGA\"",
      "g.json: line 18, column 1: the text ends inside a list" },
};

static void what_is_wrong_is_one_sentence_with_its_place(void **state)
{
    const struct bad_row *row = *state;
    struct error error = { 0 };
    struct cluster *cluster = NULL;
    char *text = test_document_with(PAGE, row->from, row->to);
    assert_null(import_dnn_partitioning_text(text, strlen(text), "g.json", 1, &cluster, &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
    assert_null(cluster);
    free(text);
}

// Thousandths of a ms, bytes and edges as they stand in the files, counted by other means.
static struct real_row {
    const char *name, *file;
    size_t layers, edges;
    uint64_t forward_us, backward_us;
} real_rows[] = {
    { "real: bert24_inference", "bert24_inference.json", 32, 55, 92406, 0 },
    { "real: bert24_training", "bert24_training.json", 32, 55, 92406, 125407 },
    { "real: gnmt_inference", "gnmt_inference.json", 96, 122, 182563, 0 },
    { "real: resnet50_inference", "resnet50_inference.json", 177, 193, 201450, 0 },
    { "real: resnet50_training", "resnet50_training.json", 177, 193, 201450, 260931 },
};

static void a_real_input_keeps_its_counts_and_sums(void **state)
{
    const struct real_row *row = *state;
    char path[200];
    snprintf(path, sizeof path, "../shared/data/partition/dnn-partitioning/LayerGraphs/%s", row->file);
    FILE *file = fopen(path, "r");
    if (!file)
        TEST_SKIP("the real inputs are not here (../shared/data/partition/dnn-partitioning)");
    fclose(file);
    struct error error = { 0 };
    struct cluster *cluster;
    struct profile *profile = import_dnn_partitioning(path, 1, &cluster, &error);
    assert_good(profile, error);
    assert_int_equal(profile->layer_count, row->layers);
    assert_int_equal(profile->edge_count, row->edges);
    uint64_t forward_ns = 0, backward_ns = 0, cpu_ns = 0;
    for (size_t i = 0; i < profile->layer_count; i++) {
        forward_ns += profile->layers[i].forward_ns;
        backward_ns += profile->layers[i].backward_ns;
        cpu_ns += profile->layers[i].variants[0].layer.forward_ns + profile->layers[i].variants[0].layer.backward_ns;
    }
    assert_int_equal(forward_ns, row->forward_us * 1000);
    assert_int_equal(backward_ns, row->backward_us * 1000);
    assert_in_range(cpu_ns, profile->source.sum_ns, 10 * profile->source.sum_ns);
    assert_int_equal(cluster->device_count, 7);
    cluster_free(cluster);
    profile_free(profile);
}

int main(void)
{
    enum { BAD = sizeof bad_rows / sizeof bad_rows[0], REAL = sizeof real_rows / sizeof real_rows[0] };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_page_becomes_a_profile_and_its_machine),
        cmocka_unit_test(forward_nodes_of_one_colour_are_tied),
        cmocka_unit_test(flags_may_be_booleans_and_colours_missing),
        cmocka_unit_test(backward_edges_may_go_back),
        cmocka_unit_test(operators_of_one_colour_are_a_layer),
        cmocka_unit_test(edges_that_cost_otherwise_are_counted),
        cmocka_unit_test(colours_that_feed_each_other_are_refused),
    };
    struct CMUnitTest bad[BAD], real[REAL];
    for (size_t i = 0; i < BAD; i++)
        bad[i] = (struct CMUnitTest)TEST_ROW(what_is_wrong_is_one_sentence_with_its_place, &bad_rows[i]);
    for (size_t i = 0; i < REAL; i++)
        real[i] = (struct CMUnitTest)TEST_ROW(a_real_input_keeps_its_counts_and_sums, &real_rows[i]);
    return cmocka_run_group_tests_name("import dnn-partitioning", tests, NULL, NULL)
           + cmocka_run_group_tests_name("import dnn-partitioning: refusals", bad, NULL, NULL)
           + cmocka_run_group_tests_name("import dnn-partitioning: real inputs", real, NULL, NULL);
}
