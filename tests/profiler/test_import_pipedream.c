#include "profiler/import.h"

#include <stdio.h>
#include <string.h>

#include "common/text.h"
#include "tests/test.h"

#define NODE(id, description, forward, backward, activation, parameters)                                               \
    id " -- " description " -- forward_compute_time=" forward ", backward_compute_time=" backward                      \
       ", activation_size=" activation ", parameter_size=" parameters
#define PLAIN(id) NODE(id, "ReLU", "1.000", "2.000", "256.0", "0.000") "\n"

static struct profile *import(const char *text)
{
    struct error error = { 0 };
    struct profile *profile = import_pipedream_text(text, strlen(text), "g/tiny.graph.txt", 1, &error);
    assert_good(profile, error);
    return profile;
}

// --- what becomes of a graph ------------------------------------------------------

// The first block of the page, which is this text.
static void the_example_of_the_page_becomes_a_profile(void **state)
{
    (void)state;
    struct error error = { 0 };
    size_t length;
    char *page = text_load("docs/formats/pipedream.md", &length, &error);
    assert_good(page, error);
    char *begin = strstr(page, "\n```\n") + 5, *end = strstr(begin, "```\n");
    *end = '\0';
    struct profile *profile = import(begin);

    assert_string_equal(profile->model, "tiny");
    assert_string_equal(profile->dtype, "fp32");
    assert_int_equal(profile->source.how, PROFILE_IMPORTED);
    assert_false(profile->source.backward_split_measured);
    assert_int_equal(profile->source.sum_ns, 9706000);
    assert_int_equal(profile->layer_count, 3);

    const struct profile_layer *input = &profile->layers[0], *linear = &profile->layers[1], *lstm = &profile->layers[2];
    assert_string_equal(input->name, "node1.Input0");
    assert_string_equal(input->kind, "Input0");
    assert_int_equal(input->forward_ns, 0);
    assert_int_equal(input->output_bytes, 64);

    assert_string_equal(linear->name, "node2.Linear");
    assert_string_equal(linear->kind, "Linear");
    assert_int_equal(linear->forward_ns, 1001000);
    assert_int_equal(linear->backward_input_ns, 1000500);
    assert_int_equal(linear->backward_weight_ns, 1000500);
    assert_int_equal(linear->parameter_bytes, 80);
    assert_int_equal(linear->input_kept, INPUT_KEPT_NONE);

    assert_string_equal(lstm->kind, "LSTM");
    assert_int_equal(lstm->output_bytes, 384);
    assert_int_equal(lstm->saved_bytes, 384);
    assert_int_equal(lstm->parameter_bytes, 512);

    assert_false(profile->is_chain);
    assert_int_equal(profile->edge_count, 3);
    assert_string_equal(
        profile->notes,
        "A PipeDream graph of 3 nodes and 3 edges. Its backward is taken as half I and half W, what is saved as the "
        "output, and its mini-batch as one micro-batch; 1 Input node at no cost; 2 stage_id left out.");
    profile_free(profile);
    free(page);
}

static void nodes_are_ordered_by_their_edges_and_then_by_number(void **state)
{
    (void)state;
    struct profile *profile = import(PLAIN("node10") PLAIN("node9") PLAIN("node2") PLAIN("node3")
                                         NODE("node11", "Input", "0.000", "0.000", "0.0",
                                              "0.000") "\n"
                                                       "\tnode3 -- node2\n\tnode11 -- node10\n\tnode9 -- node10\n");
    static const char *const want[] = { "node11.Input", "node3.ReLU", "node2.ReLU", "node9.ReLU",
                                        "node10.ReLU" };
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(profile->layers[i].name, want[i]);
    profile_free(profile);
}

static void a_chain_in_any_order_is_a_chain(void **state)
{
    (void)state;
    struct profile *profile =
        import("\tnode2 -- node3\r\n\n" PLAIN("node3") PLAIN("node1") "\tnode1 -- node2\n" PLAIN("node2"));
    assert_true(profile->is_chain);
    assert_int_equal(profile->edge_count, 0);
    profile_free(profile);
}

// As an editor on another system saves it, and with names nobody would give.
static void line_ends_marks_and_odd_names_change_nothing(void **state)
{
    (void)state;
    struct text text = { 0 };
    text_add(&text, "\xef\xbb\xbf%s\r\n", NODE("a.b-c_1", "Conv2d(3), x=[1; 2]", "1.000", "2.000", "[256.0]", "0.000"));
    text_add(&text, "%s\r\n\r\n", NODE("9999999999999999999999", "", "1.000", "2.000", "[100.0; 300.0; 0.0]", "0.000"));
    text_add(&text, "%s\r\n", NODE("\xc3\xa9", "=", "0.000", "0.000", "0.0", "0.000"));
    text_add(&text, "\ta.b-c_1 -- 9999999999999999999999\r\n\t\xc3\xa9 -- a.b-c_1");
    struct profile *profile = import(text.data);
    text_clear(&text);
    static const char *const names[] = { "\xc3\xa9._", "a.b-c_1.Conv2d", "9999999999999999999999" };
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(profile->layers[i].name, names[i]);
    assert_string_equal(profile->layers[1].kind, "Conv2d");
    assert_int_equal(profile->layers[1].output_bytes, 256);
    assert_int_equal(profile->layers[2].output_bytes, 400);
    assert_true(profile->is_chain);
    profile_free(profile);
}

static void what_is_imported_can_be_written_and_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile =
        import(PLAIN("node1") PLAIN("node2") PLAIN("node3") "\tnode1 -- node2\n\tnode1 -- node3\n");
    struct text text = { 0 };
    profile_write(profile, &text);
    struct profile *again = profile_read(text.data, text.length, "again", &error);
    assert_good(again, error);
    assert_string_equal(again->hash, profile->hash);
    text_clear(&text);
    profile_free(again);
    profile_free(profile);
}

static void nothing_of_a_backward_is_lost_when_it_is_halved(void **state)
{
    (void)state;
    // Three decimals of a ms never make an odd number of ns; what must hold for any B
    // is that I and W add up to it.
    struct profile *profile = import(NODE("node1", "ReLU", "0.001", "0.003", "256.0", "0.000"));
    assert_int_equal(profile->layers[0].backward_input_ns, 1500);
    assert_int_equal(profile->layers[0].backward_input_ns + profile->layers[0].backward_weight_ns, 3000);
    profile_free(profile);
}

static struct name_row {
    const char *name, *path, *model;
} name_rows[] = {
    { "model: x.graph.txt", "some/where/vgg16.graph.txt", "vgg16" },
    { "model: graph.txt in a folder", "profiles/resnet50/graph.txt", "resnet50" },
    { "model: graph.txt alone", "graph.txt", "graph" },
    { "model: another ending", "vgg16_partitioned.txt", "vgg16_partitioned" },
    { "model: no ending", "gnmt", "gnmt" },
};

static void the_model_is_named_after_the_file(void **state)
{
    const struct name_row *row = *state;
    struct error error = { 0 };
    struct profile *profile = import_pipedream_text(PLAIN("node1"), strlen(PLAIN("node1")), row->path, 128, &error);
    assert_good(profile, error);
    assert_string_equal(profile->model, row->model);
    assert_int_equal(profile->micro_batch, 128);
    profile_free(profile);
}

// --- what is refused ---------------------------------------------------------------

static struct bad_row {
    const char *name, *text, *sentence;
} bad_rows[] = {
    { "refused: empty", "", "g.txt:1: the file is empty; a PipeDream graph has a line per node" },
    { "refused: blank lines only", "\n\n", "g.txt:1: no line describes a node; a PipeDream graph has a line per node" },
    { "refused: cut short before its edges", PLAIN("node1") PLAIN("node2"),
      "g.txt:1: 2 nodes and no edge between them; is the file cut short?" },
    { "refused: binary",
      PLAIN("node1") "\x7f"
                     "ELF\x01",
      "g.txt:2: byte 0x7f is not text; a PipeDream graph is a text file" },
    { "refused: not UTF-8", PLAIN("node1") "node\xff",
      "g.txt:2: byte 0xff is not text; a PipeDream graph is a text file" },
    { "refused: JSON", "{\"a\": 1}",
      "g.txt:1: expected \"name -- description -- forward_compute_time=..., ...\", not \"{\"a\": 1}\"" },
    { "refused: a missing field",
      PLAIN("node1") "node2 -- ReLU -- forward_compute_time=1.000, activation_size=1.0, parameter_size=0.000\n",
      "g.txt:2: node2: backward_compute_time is missing" },
    { "refused: a repeated field", "node2 -- ReLU -- forward_compute_time=1.000, forward_compute_time=1.000",
      "g.txt:1: node2: forward_compute_time stands twice" },
    { "refused: cut short in a number", "node2 -- ReLU -- forward_compute_time=1.",
      "g.txt:1: node2: forward_compute_time: \"1.\" is not a time in ms such as 10.814" },
    { "refused: cut short in a size",
      "node2 -- ReLU -- forward_compute_time=1.000, backward_compute_time=1.000, activation_size=12",
      "g.txt:1: the last line ends in \"12\", without a line end; is the file cut short?" },
    { "refused: cut short in the last size", PLAIN("node1") "\tnode1 -- node2\n" NODE("node2", "ReLU", "1", "2", "3", "45"),
      "g.txt:3: the last line ends in \"45\", without a line end; is the file cut short?" },
    { "refused: cut short in a field's name", "node2 -- ReLU -- forward_compute_time=1.000, backward_com",
      "g.txt:1: node2: \"backward_com\" is not a field such as parameter_size=80.000" },
    { "refused: a negative time", NODE("node1", "ReLU", "-1.000", "2.000", "256.0", "0.000"),
      "g.txt:1: node1: forward_compute_time: \"-1.000\" is negative; a layer takes 0 ms or more" },
    { "refused: a negative size", NODE("node1", "ReLU", "1.000", "2.000", "-256.0", "0.000"),
      "g.txt:1: node1: activation_size: \"-256.0\" is negative; a tensor has 0 bytes or more" },
    { "refused: not a number", NODE("node1", "ReLU", "nan", "2.000", "256.0", "0.000"),
      "g.txt:1: node1: forward_compute_time: \"nan\" is not a time in ms such as 10.814" },
    { "refused: infinite", NODE("node1", "ReLU", "1.000", "2.000", "inf", "0.000"),
      "g.txt:1: node1: activation_size: \"inf\" is not a whole size in bytes such as 64" },
    { "refused: half a byte", NODE("node1", "ReLU", "1.000", "2.000", "0.5", "0.000"),
      "g.txt:1: node1: activation_size: \"0.5\" is not a whole size in bytes such as 64" },
    { "refused: more time than there is", NODE("node1", "ReLU", "99999999999999999999999.000", "2.000", "1.0", "0.000"),
      "g.txt:1: node1: forward_compute_time: \"99999999999999999999999.000\" ms is more than a profile can hold" },
    { "refused: sums past the end", NODE("node1", "ReLU", "9000000000.000", "9000000000.000", "1.0", "0.000"),
      "g.txt:1: the times up to this node add up to more than a profile can hold" },
    { "refused: a list without its end", NODE("node1", "ReLU", "1.000", "2.000", "[1.0; 2.0", "0.000"),
      "g.txt:1: node1: activation_size: \"[1.0; 2.0\" is a list without its end; write it as [64.0; 32.0]" },
    { "refused: a hole in a list", NODE("node1", "ReLU", "1.000", "2.000", "[1.0; ]", "0.000"),
      "g.txt:1: node1: activation_size: \"\" is not a whole size in bytes such as 64" },
    { "refused: a list of nothing", NODE("node1", "ReLU", "1.000", "2.000", "[]", "0.000"),
      "g.txt:1: node1: activation_size: \"\" is not a whole size in bytes such as 64" },
    { "refused: a list without its spaces", NODE("node1", "ReLU", "1.000", "2.000", "[1.0;2.0]", "0.000"),
      "g.txt:1: node1: activation_size: \"1.0;2.0\" is not a whole size in bytes such as 64" },
    { "refused: a list of more than there is",
      NODE("node1", "ReLU", "1.000", "2.000", "[9007199254740000.0; 9007199254740000.0]", "0.000"),
      "g.txt:1: node1: activation_size: the list's sizes add up to more than a profile can hold" },
    { "refused: a line that ends in the middle", NODE("node1", "ReLU", "1.000", "2.000", "1.0\r", "0.000"),
      "g.txt:1: node1: activation_size: \"1.0\r\" is not a whole size in bytes such as 64" },
    { "refused: a mark and nothing else", "\xef\xbb\xbf",
      "g.txt:1: the file is empty; a PipeDream graph has a line per node" },
    { "refused: three nodes in a ring and one beside it",
      PLAIN("node1") PLAIN("node2") PLAIN("node3")
          PLAIN("node4") "\tnode1 -- node2\r\n\tnode2 -- node3\r\n\tnode3 -- node1\r\n",
      "g.txt:7: the edge from node3 to node1 closes a cycle" },
    { "refused: a stage that is none", NODE("node1", "ReLU", "1.000", "2.000", "1.0", "0.000") " -- stage_id=-1",
      "g.txt:1: node1: stage_id: \"-1\" is not a stage's number" },
    { "refused: a repeated node", PLAIN("node1") PLAIN("node2") PLAIN("node1"),
      "g.txt:3: node1 stands in line 1 already" },
    { "refused: a repeated edge", PLAIN("node1") PLAIN("node2") "\tnode1 -- node2\n\tnode1 -- node2\n",
      "g.txt:4: the edge from node1 to node2 stands in line 3 already" },
    { "refused: an edge to nobody", PLAIN("node1") "\tnode1 -- node2\n", "g.txt:2: no line describes node2" },
    { "refused: an edge from nobody", PLAIN("node1") "\tnode01 -- node1\n", "g.txt:2: no line describes node01" },
    { "refused: an edge cut short", PLAIN("node1") "\tnode1 -",
      "g.txt:2: an edge is \"node1 -- node2\", not \"node1 -\"" },
    { "refused: a node that feeds itself", PLAIN("node1") "\tnode1 -- node1\n", "g.txt:2: node1 feeds itself" },
    { "refused: a cycle",
      PLAIN("node1") PLAIN("node2") PLAIN("node3")
          PLAIN("node4") "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node2\n\tnode3 -- node4\n",
      "g.txt:7: the edge from node3 to node2 closes a cycle" },
    { "refused: an edge without its tab", PLAIN("node1") PLAIN("node2") "node1 -- node2\n",
      "g.txt:3: an edge begins with a tab or a space, and \"node1 -- node2\" does not" },
    { "refused: half an edge behind spaces", PLAIN("node1") PLAIN("node2") "    node1 --\n",
      "g.txt:3: an edge is \"node1 -- node2\", not \"node1 --\"" },
    { "refused: a node behind spaces", "  " PLAIN("node1"),
      "g.txt:1: a line with a space in front is an edge, but this one describes node \"node1\"" },
    { "refused: a node behind a tab", "\t" PLAIN("node1"),
      "g.txt:1: a line with a space in front is an edge, but this one describes node \"node1\"" },
    { "refused: a name with a space", PLAIN("node 1"), "g.txt:1: \"node 1\" is not the name of a node such as node12" },
};

static void what_is_wrong_is_one_sentence_with_its_line(void **state)
{
    const struct bad_row *row = *state;
    struct error error = { 0 };
    assert_null(import_pipedream_text(row->text, strlen(row->text), "g.txt", 1, &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
}

static void a_folder_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_null(import_pipedream("profiler", 1, &error));
    assert_error(error, "profiler: is a folder, not a file");
}

static void times_may_have_any_number_of_decimals(void **state)
{
    (void)state;
    struct profile *profile = import(NODE("node1", "ReLU", "1.5", "2.0000004999999999999999", "1.0", "0.000") "\n");
    assert_int_equal(profile->layers[0].forward_ns, 1500000);
    assert_int_equal(profile->layers[0].backward_ns, 2000000);
    profile_free(profile);
    profile = import(NODE("node1", "ReLU", "0.9999995", "3.123456789", "1.0", "0.000") "\n");
    assert_int_equal(profile->layers[0].forward_ns, 1000000);
    assert_int_equal(profile->layers[0].backward_ns, 3123457);
    profile_free(profile);
}

// Whole numbers without decimals, lists of them, spaces in front of edges and behind lines: as DAPPLE's are.
static void profiles_of_dapple_are_read(void **state)
{
    (void)state;
    struct profile *profile =
        import(NODE("node1", "Input", "0.00", "0", "[4816896; 32032]", "0") "\n"
               NODE("node2", "cell_stem_0", "4.9", "12.58", "[38535168; 38535168]", "245760") " \r\n"
               NODE("node3", "attention_mask", "0.011", "0", "3538944", "0") "  \n"
               NODE("node4", "layer_0", "8", "13", "12976128.0", "50384896") "\n"
               "    node1 -- node2\n\t \tnode2 -- node4 \n        node3 -- node4\n \t \n");
    static const char *const names[] = { "node1.Input", "node2.cell_stem_0", "node3.attention_mask", "node4.layer_0" };
    static const uint64_t numbers[][3] = { { 0, 0, 4848928 }, { 4900000, 12580000, 77070336 }, { 11000, 0, 3538944 },
                                           { 8000000, 13000000, 12976128 } };
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(profile->layers[i].name, names[i]);
        assert_int_equal(profile->layers[i].forward_ns, numbers[i][0]);
        assert_int_equal(profile->layers[i].backward_ns, numbers[i][1]);
        assert_int_equal(profile->layers[i].output_bytes, numbers[i][2]);
    }
    assert_int_equal(profile->layers[3].parameter_bytes, 50384896);
    assert_int_equal(profile->edge_count, 3);
    profile_free(profile);
}

// Where kinds would make two names alike, and where a kind has what a name should not.
static void names_have_their_kinds(void **state)
{
    (void)state;
    struct profile *profile = import(NODE("node1", "Conv2d (3, 4)", "1.0", "2.0", "1.0", "0.0") "\n"
                                     NODE("node2", "a b=c,d", "1.0", "2.0", "1.0", "0.0") "\n\tnode1 -- node2\n");
    assert_string_equal(profile->layers[0].name, "node1.Conv2d");
    assert_string_equal(profile->layers[1].name, "node2.a_b_c_d");
    profile_free(profile);
    profile = import(NODE("a", "b.c", "1.0", "2.0", "1.0", "0.0") "\n" NODE("a.b_c", "", "1.0", "2.0", "1.0", "0.0") "\n"
                     "\ta -- a.b_c\n");
    assert_string_equal(profile->layers[0].name, "a");
    assert_string_equal(profile->layers[0].kind, "b.c");
    assert_string_equal(profile->layers[1].name, "a.b_c");
    profile_free(profile);
}

static void unknown_fields_are_counted(void **state)
{
    (void)state;
    struct profile *profile =
        import(NODE("node1", "ReLU", "1.000", "2.000", "1.0", "0.000") ", colour=blue -- shape=round\n");
    assert_non_null(strstr(profile->notes, "; 2 unknown fields left out."));
    profile_free(profile);
}

// --- order against a slow twin -------------------------------------------------------

// Random graphs, their lines shuffled. The twin picks, over and over, the least
// node whose producers are all placed.
static void random_graphs_are_ordered_as_the_twin_orders_them(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(500, 5000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        enum { MOST = 9 };
        const size_t count = 1 + random_below(&seed, MOST);
        size_t rank[MOST]; // edges go from lower to higher rank, so that there is no cycle
        bool edge[MOST][MOST] = { { false } }, placed[MOST] = { false };
        struct text text = { 0 };
        for (size_t i = 0; i < count; i++)
            rank[i] = random_below(&seed, 5);
        rank[0] = 0, rank[count - 1] = count > 1 ? 5 : 0;  // one edge at least: without any, a file is cut short
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < count; j++)
                if (rank[i] < rank[j] && (j - i == count - 1 || random_below(&seed, 2))) {
                    edge[i][j] = true;
                    text_add(&text, "\tnode%zu -- node%zu\n", i, j);
                }
        for (size_t i = count; i-- > 0;)
            text_add(&text,
                     "node%zu -- %s -- forward_compute_time=1.000, backward_compute_time=1.000, activation_size=1.0, "
                     "parameter_size=0.000\n",
                     i, rank[i] == 0 && i % 2 ? "Input" : "ReLU");
        struct profile *profile = import(text.data);

        size_t edges = 0;
        for (size_t layer = 0; layer < count; layer++) {
            size_t best = count;
            for (size_t i = 0; i < count; i++) {
                bool ready = !placed[i];
                for (size_t j = 0; j < count; j++)
                    ready = ready && !(edge[j][i] && !placed[j]);
                const bool input = rank[i] == 0 && i % 2, best_input = best < count && rank[best] == 0 && best % 2;
                if (ready && (best == count || (input && !best_input)))
                    best = i;
            }
            placed[best] = true;
            char name[32];
            snprintf(name, sizeof name, "node%zu.%s", best, rank[best] == 0 && best % 2 ? "Input" : "ReLU");
            if (strcmp(profile->layers[layer].name, name) != 0)
                fail_msg("trial %llu: layer %zu is %s, the twin has %s", (unsigned long long)trial, layer,
                         profile->layers[layer].name, name);
            for (size_t j = 0; j < count; j++)
                edges += edge[best][j];
        }
        assert_int_equal(profile->is_chain ? count - 1 : profile->edge_count, edges);
        text_clear(&text);
        profile_free(profile);
    }
}

// --- the real profiles ----------------------------------------------------------------

// Thousandths of a ms and bytes as they stand in the files (input nodes apart),
// counted by other means.
static struct real_row {
    const char *name, *file;
    size_t nodes, edges;
    uint64_t forward_us, input_us, backward_us, activation_bytes, parameter_bytes;
} real_rows[] = {
    { "real: alexnet", "alexnet.graph.txt", 23, 23, 680703, 635902, 40520, 1278713860, 244403360 },
    { "real: vgg16", "vgg16.graph.txt", 41, 41, 251874, 17972, 438633, 14759219204, 553430176 },
    { "real: resnet50", "resnet50.graph.txt", 177, 193, 201450, 18962, 260931, 19308728324, 102228128 },
    { "real: inception_v3", "inception_v3.graph.txt", 326, 362, 310969, 21700, 399769, 16686773768, 108645056 },
    { "real: gnmt", "gnmt.graph.txt", 48, 58, 33533, 0, 55883, 409159680, 775063808 },
    { "real: gnmt_large", "gnmt_large.graph.txt", 96, 122, 182563, 0, 337890, 1355637248, 1110870272 },
    { "real: vgg16 with stages", "vgg16_partitioned.txt", 41, 41, 55095, 17787, 626153, 14759219204, 553430176 },
};

static void a_real_graph_keeps_its_counts_and_sums(void **state)
{
    const struct real_row *row = *state;
    char path[200];
    snprintf(path, sizeof path, "../shared/data/partition/pipedream/%s", row->file);
    FILE *file = fopen(path, "r");
    if (!file)
        TEST_SKIP("the real profiles are not here (../shared/data/partition/pipedream)");
    fclose(file);

    struct error error = { 0 };
    struct profile *profile = import_pipedream(path, 1, &error);
    assert_good(profile, error);
    assert_int_equal(profile->layer_count, row->nodes);
    assert_int_equal(profile->is_chain ? profile->layer_count - 1 : profile->edge_count, row->edges);
    uint64_t forward_ns = 0, backward_ns = 0, output = 0, parameters = 0;
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        forward_ns += layer->forward_ns;
        backward_ns += layer->backward_input_ns + layer->backward_weight_ns;
        output += layer->output_bytes;
        parameters += layer->parameter_bytes;
    }
    assert_int_equal(forward_ns, (row->forward_us - row->input_us) * 1000);
    assert_int_equal(backward_ns, row->backward_us * 1000);
    assert_int_equal(output, row->activation_bytes);
    assert_int_equal(parameters, row->parameter_bytes);
    profile_free(profile);
}

int main(void)
{
    enum {
        NAMES = sizeof name_rows / sizeof name_rows[0],
        BAD = sizeof bad_rows / sizeof bad_rows[0],
        REAL = sizeof real_rows / sizeof real_rows[0]
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_page_becomes_a_profile),
        cmocka_unit_test(nodes_are_ordered_by_their_edges_and_then_by_number),
        cmocka_unit_test(a_chain_in_any_order_is_a_chain),
        cmocka_unit_test(line_ends_marks_and_odd_names_change_nothing),
        cmocka_unit_test(what_is_imported_can_be_written_and_read),
        cmocka_unit_test(nothing_of_a_backward_is_lost_when_it_is_halved),
        cmocka_unit_test(a_folder_is_refused),
        cmocka_unit_test(times_may_have_any_number_of_decimals),
        cmocka_unit_test(profiles_of_dapple_are_read),
        cmocka_unit_test(names_have_their_kinds),
        cmocka_unit_test(unknown_fields_are_counted),
        cmocka_unit_test(random_graphs_are_ordered_as_the_twin_orders_them),
    };
    struct CMUnitTest names[NAMES], bad[BAD], real[REAL];
    for (size_t i = 0; i < NAMES; i++)
        names[i] = (struct CMUnitTest)TEST_ROW(the_model_is_named_after_the_file, &name_rows[i]);
    for (size_t i = 0; i < BAD; i++)
        bad[i] = (struct CMUnitTest)TEST_ROW(what_is_wrong_is_one_sentence_with_its_line, &bad_rows[i]);
    for (size_t i = 0; i < REAL; i++)
        real[i] = (struct CMUnitTest)TEST_ROW(a_real_graph_keeps_its_counts_and_sums, &real_rows[i]);
    return cmocka_run_group_tests_name("import pipedream", tests, NULL, NULL)
           + cmocka_run_group_tests_name("import pipedream: names", names, NULL, NULL)
           + cmocka_run_group_tests_name("import pipedream: refusals", bad, NULL, NULL)
           + cmocka_run_group_tests_name("import pipedream: real profiles", real, NULL, NULL);
}
