#include "profiler/profile.h"

#include <stdio.h>
#include <string.h>

#include "profiler/profile_reorder.h"
#include "tests/document.h"
#include "tests/test.h"

static struct profile *read_text(const char *text)
{
    struct error error = { 0 };
    struct profile *profile = profile_read(text, strlen(text), "p.json", &error);
    assert_good(profile, error);
    return profile;
}

static char *written(const struct profile *profile)
{
    struct error error = { 0 };
    struct text text = { 0 };
    profile_write(profile, &text);
    char *taken = text_take(&text, &error);
    assert_good(taken, error);
    return taken;
}

// --- the page's example ---------------------------------------------------------

static void the_example_of_the_page_is_read_whole(void **state)
{
    (void)state;
    char *text = test_document("docs/formats/profile.md");
    struct profile *profile = read_text(text);

    assert_string_equal(profile->model, "tiny");
    assert_int_equal(profile->micro_batch, 4);
    assert_string_equal(profile->dtype, "fp32");
    assert_string_equal(profile->notes, "An example; nobody measured it.");
    assert_int_equal(profile->source.how, PROFILE_MEASURED);
    assert_int_equal(profile->source.sum_ns, 91000);
    assert_true(profile->source.backward_split_measured);

    assert_int_equal(profile->layer_count, 4);
    const struct profile_layer *mlp = &profile->layers[1];
    assert_true(mlp->has_backward);
    assert_int_equal(mlp->backward_ns, 29000);
    assert_int_equal(mlp->input_kept, INPUT_KEPT_BOTH);
    assert_true(mlp->has_spread[PHASE_RECOMPUTE]);
    assert_int_equal(mlp->spread[PHASE_BACKWARD].p95_ns, 30100);

    const struct profile_layer *head = &profile->layers[3];
    assert_false(head->has_backward);
    assert_int_equal(head->backward_ns, 26000);
    assert_false(head->has_spread[PHASE_FORWARD]);
    assert_int_equal(head->variant_count, 1);
    assert_string_equal(head->variants[0].layer.name, "split over two devices");
    assert_int_equal(head->variants[0].communication_ns, 900);

    assert_false(profile->is_chain);
    assert_int_equal(profile->edge_count, 4);
    assert_int_equal(profile->tied[0].to, 3);
    assert_false(profile_can_cut_after(profile, 0));
    assert_true(profile_can_cut_after(profile, 1));
    profile_free(profile);
    free(text);
}

static void what_was_read_is_written_byte_for_byte(void **state)
{
    (void)state;
    char *text = test_document("docs/formats/profile.md");
    struct profile *profile = read_text(text);
    char *again = written(profile);
    assert_string_equal(again, text);
    free(again);
    free(text);
    profile_free(profile);
}

// --- the example with one thing changed ------------------------------------------

// The example with the first `from` replaced by `to`.
static char *changed(const char *from, const char *to)
{
    char *text = test_document("docs/formats/profile.md");
    char *at = strstr(text, from);
    if (!at)
        fail_msg("the example has no %s", from);
    const size_t before = (size_t)(at - text);
    char *result = malloc(strlen(text) + strlen(to) + 1);
    assert_non_null(result);
    sprintf(result, "%.*s%s%s", (int)before, text, to, at + strlen(from));
    free(text);
    return result;
}

static void the_hash_is_of_the_meaning_not_of_the_spelling(void **state)
{
    (void)state;
    char *texts[] = { changed("tiny", "tiny"), changed("[0, 1],\n    [1, 2]", "[1,2]  ,   [0,1]"),
                      changed("\"forward_ns\": 2000", "\"forward_ns\": 2001") };
    struct profile *profiles[3];
    for (size_t i = 0; i < 3; i++)
        profiles[i] = read_text(texts[i]);
    assert_string_equal(profiles[0]->hash, profiles[1]->hash);
    assert_string_not_equal(profiles[0]->hash, profiles[2]->hash);
    for (size_t i = 0; i < 3; i++) {
        profile_free(profiles[i]);
        free(texts[i]);
    }
}

static struct refusal {
    const char *name, *from, *to, *sentence;
} refusals[] = {
    { "refused: another format", "weir.profile", "weir.plan",
      "p.json: format: is \"weir.plan\", not \"weir.profile\"" },
    { "refused: a missing key", "\"model\": \"tiny\",", "", "p.json: model: is missing" },
    { "refused: an unknown key", "\"flops\": 0", "\"flops\": 0, \"gflops\": 1",
      "p.json: layers[0]: key \"gflops\" is not known" },
    { "refused: an empty name", "\"name\": \"embedding\"", "\"name\": \"\"", "p.json: layers[0].name: is empty" },
    { "refused: a type nobody knows", "\"dtype\": \"fp32\"", "\"dtype\": \"fp31\"",
      "p.json: dtype: is \"fp31\", not one of fp64, fp32, tf32, fp16, bf16, fp8" },
    { "refused: a repeated name", "block0.norm", "head", "p.json: layers: layers 2 and 3 are both called head" },
    { "refused: a negative time", "\"forward_ns\": 2000", "\"forward_ns\": -1",
      "p.json: layers[0].forward_ns: is -1; it cannot be negative" },
    { "refused: a fraction of a ns", "\"forward_ns\": 2000", "\"forward_ns\": 0.5",
      "p.json: layers[0].forward_ns: is 0.5, not a whole number" },
    { "refused: a micro-batch of nothing", "\"micro_batch\": 4", "\"micro_batch\": 0",
      "p.json: micro_batch: is 0; it must be at least 1" },
    { "refused: absurd sums", "\"forward_ns\": 2000", "\"forward_ns\": 9007199254740991",
      "p.json: layers: the times of layers 0 to 0 add up to more than 2^53 - 1" },
    { "refused: absurd sums of halves", "\"backward_weight_ns\": 14000", "\"backward_weight_ns\": 9007199254740991",
      "p.json: layers: the times of layers 0 to 1 add up to more than 2^53 - 1" },
    { "refused: a spread of two", "[15800, 16000, 17000]", "[15800, 16000]",
      "p.json: layers[1].spread.backward_input: is not [min, median, p95]" },
    { "refused: a spread out of order", "[15800, 16000, 17000]", "[15800, 16000, 15000]",
      "p.json: layers[1].spread.backward_input: does not rise from min over median to p95" },
    { "refused: a newer version", "\"version\": 1", "\"version\": 11",
      "p.json: version: is 11; this Weir reads version 1" },
    { "refused: an edge to nowhere", "[1, 2],", "[1, 4],", "p.json: edges[1][1]: is 4; it must be from 0 to 3" },
    { "refused: an edge backwards", "[1, 2],", "[2, 1],",
      "p.json: edges[1]: [2, 1] does not go from a layer to a later one" },
    { "refused: an edge twice", "[1, 2],", "[0, 1],", "p.json: edges: [0, 1] is there twice" },
    { "refused: an edge of three", "[1, 2],", "[1, 2, 3],", "p.json: edges[1]: is not a pair of layers" },
    { "refused: a layer tied to itself", "[0, 3]", "[3, 3]",
      "p.json: tied[0]: [3, 3] does not go from a layer to a later one" },
    { "refused: one owner of a pair that is not tied", "\"version\": 1", "\"version\": 1, \"one_owner\": [[0, 2]]",
      "p.json: one_owner: [0, 2] is not among the tied layers" },
    { "refused: one owner twice", "\"version\": 1", "\"version\": 1, \"one_owner\": [[0, 3], [0, 3]]",
      "p.json: one_owner: [0, 3] is there twice" },
    { "refused: a cut named twice", "\"no_cut_after\": [0]", "\"no_cut_after\": [0, 2, 0]",
      "p.json: no_cut_after: layer 0 is there twice" },
    { "refused: a variant without its price", "\"communication_ns\": 900,", "",
      "p.json: layers[3].variants[0].communication_ns: is missing" },
};

static void a_mistake_is_named_with_its_place(void **state)
{
    const struct refusal *row = *state;
    struct error error = { 0 };
    char *text = changed(row->from, row->to);
    assert_null(profile_read(text, strlen(text), "p.json", &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
    free(text);
}

static void what_is_lent_is_kept(void **state)
{
    (void)state;
    char *text = changed("\"version\": 1", "\"version\": 1, \"one_owner\": [[0, 3]]"), *again, *anew;
    struct profile *profile = read_text(text);
    assert_int_equal(profile->one_owner_count, 1);
    assert_int_equal(profile->one_owner[0].from, 0);
    assert_int_equal(profile->one_owner[0].to, 3);
    again = written(profile);
    profile_free(profile);
    profile = read_text(again);
    anew = written(profile);
    assert_string_equal(anew, again);
    profile_free(profile);
    free(anew);
    free(again);
    free(text);
}

static void whether_there_are_sequences_is_said_or_told_by_the_layers(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        bool has;
    } rows[] = {
        { "\"version\": 1", "\"version\": 1, \"sequences\": true", true },
        { "\"version\": 1", "\"version\": 1, \"sequences\": false", false },
        { "\"kind\": \"mlp\"", "\"kind\": \"attention\"", true },
        { "\"kind\": \"mlp\"", "\"kind\": \"MultiheadAttention\"", false },
        { "\"version\": 1", "\"version\": 1", false },  // absent: no layer tells it
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = changed(rows[i].from, rows[i].to);
        struct profile *profile = read_text(text);
        char *again = written(profile);
        struct profile *copy = read_text(again);
        const uint32_t order[] = { 0, 1, 2, 3 };
        struct error error = { 0 };
        struct profile *ordered = profile_reorder(profile, order, &error);
        assert_good(ordered, error);
        assert_int_equal(profile_has_sequences(profile), rows[i].has);
        assert_int_equal(profile_has_sequences(copy), rows[i].has);
        assert_int_equal(ordered->sequences, profile->sequences);
        assert_int_equal(strstr(again, "\"sequences\": ") != NULL, profile->sequences != SEQUENCES_UNSAID);
        profile_free(ordered);
        profile_free(copy);
        profile_free(profile);
        free(again);
        free(text);
    }
    char *text = changed("\"flops\": 0", "\"flops\": 0, \"shared_by_parts_bytes\": 0");
    struct profile *profile = read_text(text);
    assert_false(profile_has_sequences(profile));
    profile->layers[1].shared_by_parts_bytes = 256;
    assert_true(profile_has_sequences(profile));
    profile_free(profile);
    free(text);
}

static void a_model_has_at_least_one_layer(void **state)
{
    (void)state;
    const char text[] =
        "{\"format\": \"weir.profile\", \"version\": 1, \"model\": \"m\", \"micro_batch\": 1, \"dtype\": \"fp32\", "
        "\"source\": {\"how\": \"imported\", \"device\": \"\", \"clock\": \"\", \"repeats\": 0, \"sum_ns\": 0, "
        "\"whole_ns\": 0, \"backward_split\": \"assumed\"}, \"layers\": []}";
    struct error error = { 0 };
    assert_null(profile_read(text, strlen(text), "p.json", &error));
    assert_error(error, "p.json: layers: holds 0 layers (1 to 131072)");
}

// --- cuts -------------------------------------------------------------------------

static struct profile *random_profile(uint64_t *seed)
{
    struct error error = { 0 };
    const size_t count = 1 + random_below(seed, 9);
    struct profile *profile = profile_create("random", "fp32", 1, count, &error);
    assert_good(profile, error);
    profile->edges = calloc(count * count, sizeof profile->edges[0]);
    profile->is_chain = false;
    for (uint32_t i = 0; i < count; i++) {
        char name[24];
        snprintf(name, sizeof name, "layer %u", i);
        profile->layers[i].name = strdup(name);
        profile->layers[i].kind = strdup("");
        profile->layers[i].output_bytes = (uint64_t)1 << (3 * i); // a sum tells who is in it
        profile->layers[i].forward_ns = random_below(seed, 1000);
        profile->layers[i].backward_ns = 0;
        for (uint32_t j = i + 1; j < count; j++)
            if (random_below(seed, 3) == 0)
                profile->edges[profile->edge_count++] = (struct edge){ i, j };
    }
    return profile;
}

static void random_profiles_survive_a_round_trip(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(300, 3000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct profile *profile = random_profile(&seed);
        char *once = written(profile);
        struct profile *again = read_text(once);
        assert_good(profile_rehash(profile, &error), error);
        char *twice = written(again);
        // Edges that spell a chain become none, so compare from the second writing on.
        struct profile *third = read_text(twice);
        char *thrice = written(third);
        if (strcmp(twice, thrice) != 0 || (!again->is_chain && strcmp(profile->hash, again->hash) != 0))
            fail_msg("trial %llu", (unsigned long long)trial);
        free(once);
        free(twice);
        free(thrice);
        profile_free(profile);
        profile_free(again);
        profile_free(third);
    }
}

static void a_list_of_edges_that_is_a_chain_is_a_chain(void **state)
{
    (void)state;
    char *text = changed("[1, 3],\n", "");
    struct profile *profile = read_text(text);
    assert_true(profile->is_chain);
    assert_int_equal(profile->edge_count, 0);
    char *again = written(profile);
    assert_null(strstr(again, "edges"));
    free(again);
    free(text);
    profile_free(profile);
}

// --- optional fields ----------------------------------------------------------------

// The example with more in its last layer and in that layer's variant, each in one line.
static char *with_more(const char *of_the_head, const char *of_its_variant)
{
    char *text = test_document("docs/formats/profile.md"), *result = malloc(strlen(text) + 200);
    char *head = strstr(text, "\"flops\": 4194304,"), *variant = strstr(text, "\"communication_ns\"");
    assert_true(result && head && variant);
    *head = *variant = '\0';  // the quote that begins each key
    sprintf(result, "%s%s\"%s%s\"%s", text, of_the_head, head + 1, of_its_variant, variant + 1);
    free(text);
    return result;
}

static void devices_and_what_passes_along_edges_are_read(void **state)
{
    (void)state;
    char *text =
        with_more("\"receives\": [[2, 100]],", "\"sends\": [],\"receives\": [[2, 7], [1, 9]], \"devices\": 2,");
    struct profile *profile = read_text(text);
    const struct profile_layer *head = &profile->layers[3];
    assert_int_equal(profile_receive_bytes(profile, head, 2), 100);
    assert_int_equal(profile_receive_bytes(profile, head, 1), 16384);
    assert_int_equal(profile_receive_bytes(profile, &head->variants[0].layer, 1), 9);
    assert_int_equal(profile_send_bytes(&profile->layers[0], 1), 16384);
    assert_int_equal(head->variants[0].devices, 2);
    char *again = written(profile);
    assert_non_null(strstr(again, "\"receives\": [[1, 9], [2, 7]]"));
    struct profile *third = read_text(again);
    assert_string_equal(third->hash, profile->hash);
    profile_free(third);
    profile_free(profile);
    free(again);
    free(text);
}

static void shapes_of_parameters_are_read(void **state)
{
    (void)state;
    char *text = with_more("\"shapes\": [[1000, 16], [16, 1]],", "");
    struct profile *profile = read_text(text);
    assert_int_equal(profile->layers[3].shape_count, 2);
    assert_int_equal(profile->layers[3].shapes[0].rows, 1000);
    assert_int_equal(profile->layers[3].shapes[0].columns, 16);
    assert_int_equal(profile->layers[2].shape_count, 0);
    char *again = written(profile);
    assert_non_null(strstr(again, "\"shapes\": [[1000, 16], [16, 1]]"));
    struct profile *third = read_text(again);
    assert_string_equal(third->hash, profile->hash);
    profile_free(third);
    profile_free(profile);
    free(again);
    free(text);
}

static struct transfer_refusal {
    const char *name, *head, *variant, *sentence;
} transfer_refusals[] = {
    { "refused: what comes along no edge", "\"receives\": [[0, 1]],", "",
      "p.json: layers: layer 3 receives from layer 0, but no edge goes there" },
    { "refused: what a variant sends along no edge", "", "\"sends\": [[3, 1]],",
      "p.json: layers: layer 3 sends to layer 3, but no edge goes there" },
    { "refused: an edge's bytes twice", "\"receives\": [[2, 1], [2, 1]],", "",
      "p.json: layers[3].receives: layer 2 is there twice" },
    { "refused: three numbers for an edge", "\"receives\": [[2, 1, 1]],", "",
      "p.json: layers[3].receives[0]: is not a layer and its bytes" },
    { "refused: a shape of three sides", "\"shapes\": [[2, 1, 1]],", "",
      "p.json: layers[3].shapes[0]: is not [rows, columns]" },
    { "refused: a shape of nothing", "\"shapes\": [[2, 0]],", "",
      "p.json: layers[3].shapes[0][1]: is 0; it must be from 1 to 2147483647" },
    { "refused: a variant's shape", "", "\"shapes\": [[2, 1]],",
      "p.json: layers[3].variants[0]: key \"shapes\" is not known" },
    { "refused: no device", "", "\"devices\": 0,",
      "p.json: layers[3].variants[0].devices: is 0; it must be from 1 to 65536" },
};

static void what_is_optional_is_read_strictly(void **state)
{
    const struct transfer_refusal *row = *state;
    struct error error = { 0 };
    char *text = with_more(row->head, row->variant);
    assert_null(profile_read(text, strlen(text), "p.json", &error));
    assert_error(error, row->sentence);
    free(text);
}

static void what_running_a_layer_again_takes_is_read(void **state)
{
    (void)state;
    char *text = test_document("docs/formats/profile.md"), *result = malloc(strlen(text) + 200);
    char *mlp = strstr(text, "\"backward_ns\": 29000,"), *variant = strstr(text, "\"backward_weight_ns\": 6000,");
    assert_true(result && mlp && variant);
    *mlp = *variant = '\0';
    sprintf(result, "%s\"recompute_ns\": 15700, \"%s\"recompute_ns\": 6800, \"%s", text, mlp + 1, variant + 1);
    struct profile *profile = read_text(result);
    assert_int_equal(profile_recompute_ns(&profile->layers[0]), 2000);  // F, as nobody measured it
    assert_int_equal(profile_recompute_ns(&profile->layers[1]), 15700);
    assert_int_equal(profile_recompute_ns(&profile->layers[3]), 13000);
    assert_int_equal(profile_recompute_ns(&profile->layers[3].variants[0].layer), 6800);
    char *again = written(profile);
    assert_non_null(strstr(again, "\"backward_ns\": 29000,\n      \"recompute_ns\": 15700,"));
    struct profile *third = read_text(again);
    assert_string_equal(third->hash, profile->hash);
    profile_free(third);
    profile_free(profile);
    free(again);
    free(result);
    free(text);
}

static void outputs_that_devices_share_are_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *plain = test_document("docs/formats/profile.md"), text[8192];
    const char *at = strstr(plain, "\"communication_ns\"");
    const int head = (int)(at - plain);
    snprintf(text, sizeof text, "%.*s\"devices\": 2, \"shares_output\": true, \"update_ns\": 7, %s", head, plain, at);
    struct profile *profile = read_text(text);
    assert_true(profile->layers[3].variants[0].shares_output);
    assert_int_equal(profile->layers[3].variants[0].update_ns, 7);
    char *again = written(profile);
    struct profile *third = read_text(again);
    assert_string_equal(third->hash, profile->hash);
    assert_true(third->layers[3].variants[0].shares_output);
    assert_int_equal(third->layers[3].variants[0].update_ns, 7);
    snprintf(text, sizeof text, "%.*s\"update_ns\": 0, %s", head, plain, at);
    assert_null(profile_read(text, strlen(text), "p.json", &error));
    assert_non_null(strstr(error.text, "p.json: layers[3].variants[0].update_ns: "));
    error = (struct error){ 0 };
    snprintf(text, sizeof text, "%.*s\"shares_output\": true, %s", head, plain, at);
    assert_null(profile_read(text, strlen(text), "p.json", &error));
    assert_error(error, "p.json: layers[3].variants[0].shares_output: is true of a variant on one device");
    profile_free(third);
    profile_free(profile);
    free(again);
    free(plain);
}

static void states_that_are_elsewhere_are_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *plain = test_document("docs/formats/profile.md"), text[8192];
    const char *at = strstr(strstr(plain, "\"output_bytes\"") + 1, "\"output_bytes\"");  // of layer 1
    const int head = (int)(at - plain);
    snprintf(text, sizeof text, "%.*s\"states_elsewhere_bytes\": 256, %s", head, plain, at);
    struct profile *profile = read_text(text);
    assert_int_equal(profile->layers[1].states_elsewhere_bytes, 256);
    assert_int_equal(profile->layers[2].states_elsewhere_bytes, 0);
    char *again = written(profile);
    struct profile *third = read_text(again);
    assert_string_equal(third->hash, profile->hash);
    snprintf(text, sizeof text, "%.*s\"states_elsewhere_bytes\": 123456789012, %s", head, plain, at);
    assert_null(profile_read(text, strlen(text), "p.json", &error));
    assert_non_null(strstr(error.text, "p.json: layers[1].states_elsewhere_bytes: is 123456789012; it must be from 0 to"));
    profile_free(third);
    profile_free(profile);
    free(again);
    free(plain);
}

static void state_without_a_gradient_is_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *plain = test_document("docs/formats/profile.md"), text[8192];
    const char *at = strstr(strstr(plain, "\"flops\"") + 1, "\"flops\"");  // of layer 1
    const int head = (int)(at - plain);
    snprintf(text, sizeof text, "%.*s\"state_bytes\": 512, \"statistics_bytes\": 64, %s", head, plain, at);
    struct profile *profile = read_text(text);
    assert_int_equal(profile->layers[1].state_bytes, 512);
    assert_int_equal(profile->layers[1].statistics_bytes, 64);
    assert_int_equal(profile->layers[0].state_bytes, 0);
    char *again = written(profile);
    struct profile *third = read_text(again);
    assert_string_equal(third->hash, profile->hash);
    char *cut = strstr(text, "\"version\": 1");
    static const char said[] = "\"version\": 1,\"sequences\": true";
    memmove(cut + sizeof said - 1, cut + 12, strlen(cut + 12) + 1);
    memcpy(cut, said, sizeof said - 1);
    assert_null(profile_read(text, strlen(text), "p.json", &error));
    assert_error(error, "p.json: sequences: is true, and layers[1] has state_bytes, which take whole sequences: say"
                 " false");
    profile_free(third);
    profile_free(profile);
    free(again);
    free(plain);
}

static void must_refuse_rows(const char *plain, const char *at, const char *keys, const char *why)
{
    struct error error = { 0 };
    char text[8192];
    snprintf(text, sizeof text, "%.*s%s, %s", (int)(at - plain), plain, keys, at);
    assert_null(profile_read(text, strlen(text), "p.json", &error));
    assert_non_null(strstr(error.text, why));
}

static void the_rows_that_a_micro_batch_touches_are_read(void **state)
{
    (void)state;
    char *plain = test_document("docs/formats/profile.md"), text[8192];
    const char *at = strstr(strstr(plain, "\"flops\"") + 1, "\"flops\"");  // of layer 1
    char *own = strstr(at, "\"shapes\"");
    if (own && own < strstr(at + 1, "\"flops\""))
        memcpy(own, "\"shaped\"", 8);
    snprintf(text, sizeof text, "%.*s\"shapes\": [[100, 8], [8, 1]], \"touched_rows\": 20, \"row_bytes\": 16, %s",
             (int)(at - plain), plain, at);
    struct profile *profile = read_text(text);
    assert_int_equal(profile->layers[1].touched_rows, 20);
    assert_int_equal(profile->layers[1].row_bytes, 16);
    assert_int_equal(profile->layers[0].touched_rows, 0);
    char *again = written(profile);
    struct profile *third = read_text(again);
    assert_string_equal(third->hash, profile->hash);
    snprintf(text, sizeof text, "%.*s\"shapes\": [[100, 8], [8, 1]], \"touched_rows\": 20, \"row_bytes\": 16,"
             " \"summed_rows\": 50, %s", (int)(at - plain), plain, at);
    struct profile *summed = read_text(text);
    assert_int_equal(summed->layers[1].summed_rows, 50);
    assert_string_not_equal(summed->hash, profile->hash);
    profile_free(summed);
    must_refuse_rows(plain, at, "\"touched_rows\": 20, \"row_bytes\": 16",
                     "touched_rows: is of \"shapes\", which are missing");
    must_refuse_rows(plain, at, "\"shapes\": [[100, 8], [9, 1]], \"touched_rows\": 20, \"row_bytes\": 16",
                     "row_bytes: is 16, of which shapes[1] has no whole number");
    profile_free(third);
    profile_free(profile);
    free(again);
    free(plain);
}

static void what_parts_of_sequences_share_is_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *plain = test_document("docs/formats/profile.md"), text[8192];
    const char *at = strstr(strstr(plain, "\"input_kept\"") + 1, "\"input_kept\"");  // of layer 1
    const int head = (int)(at - plain);
    snprintf(text, sizeof text, "%.*s\"shared_by_parts_bytes\": 256, %s", head, plain, at);
    struct profile *profile = read_text(text);
    assert_int_equal(profile->layers[1].shared_by_parts_bytes, 256);
    assert_int_equal(profile->layers[2].shared_by_parts_bytes, 0);
    char *again = written(profile);
    struct profile *third = read_text(again);
    assert_string_equal(third->hash, profile->hash);
    snprintf(text, sizeof text, "%.*s\"shared_by_parts_bytes\": 123456, %s", head, plain, at);
    assert_null(profile_read(text, strlen(text), "p.json", &error));
    assert_error(error, "p.json: layers[1].shared_by_parts_bytes: is 123456; it must be from 0 to 65792");
    profile_free(third);
    profile_free(profile);
    free(again);
    free(plain);
}

static void a_profile_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_null(profile_load("no/such/profile.json", &error));
    assert_non_null(strstr(error.text, "no/such/profile.json"));
}

// Files of the tools that Weir imports from are often given as they are.
static void a_file_of_another_tool_is_refused_with_its_importer(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        { "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000\n",
          "x: is a graph of PipeDream's: weir import pipedream makes a profile of it" },
        { "\nnode17 -- ReLU(inplace) -- forward", "x: is a graph of PipeDream's: weir import pipedream makes a profile"
                                                  " of it" },
        { "{\"maxDevices\": 2, \"nodes\": [{\"id\": \"0\", \"TMPCs\": {}}]}",
          "x: is an input of Piper's: weir import piper makes a profile of it" },
        { "{\"maxFPGAs\": 2, \"nodes\": [{\"id\": 0, \"fpgaLatency\": 1.5}]}",
          "x: is an input of dnn-partitioning's: weir import dnn-partitioning makes a profile of it" },
        { "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\"}",
          "x: is a model's configuration: weir estimate makes a profile of it" },
        { "node1 - no graph", "x: line 1, column 1: a value is expected (NaN and Infinity are not JSON)" },
        { "node", "x: line 1, column 1: a value is expected (NaN and Infinity are not JSON)" },
        { "{}", "x: format: is missing" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        assert_null(profile_read(rows[i].text, strlen(rows[i].text), "x", &error));
        assert_error(error, rows[i].sentence);
        assert_int_equal(error.kind, ERROR_INPUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_another_tool_is_refused_with_its_importer),
        cmocka_unit_test(the_example_of_the_page_is_read_whole),
        cmocka_unit_test(what_was_read_is_written_byte_for_byte),
        cmocka_unit_test(the_hash_is_of_the_meaning_not_of_the_spelling),
        cmocka_unit_test(what_is_lent_is_kept),
        cmocka_unit_test(whether_there_are_sequences_is_said_or_told_by_the_layers),
        cmocka_unit_test(a_model_has_at_least_one_layer),
        cmocka_unit_test(random_profiles_survive_a_round_trip),
        cmocka_unit_test(a_list_of_edges_that_is_a_chain_is_a_chain),
        cmocka_unit_test(a_profile_that_is_not_there_is_an_error),
        cmocka_unit_test(devices_and_what_passes_along_edges_are_read),
        cmocka_unit_test(shapes_of_parameters_are_read),
        cmocka_unit_test(what_running_a_layer_again_takes_is_read),
        cmocka_unit_test(outputs_that_devices_share_are_read),
        cmocka_unit_test(states_that_are_elsewhere_are_read),
        cmocka_unit_test(state_without_a_gradient_is_read),
        cmocka_unit_test(the_rows_that_a_micro_batch_touches_are_read),
        cmocka_unit_test(what_parts_of_sequences_share_is_read),
    };
    enum { TRANSFERS = sizeof transfer_refusals / sizeof transfer_refusals[0] };
    struct CMUnitTest transfers[TRANSFERS];
    for (size_t i = 0; i < TRANSFERS; i++)
        transfers[i] = (struct CMUnitTest)TEST_ROW(what_is_optional_is_read_strictly, &transfer_refusals[i]);
    struct CMUnitTest rows[sizeof refusals / sizeof refusals[0]];
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        rows[i] = (struct CMUnitTest)TEST_ROW(a_mistake_is_named_with_its_place, &refusals[i]);
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL)
           + cmocka_run_group_tests_name("profile: optional fields", transfers, NULL, NULL)
           + cmocka_run_group_tests_name("profile: refusals", rows, NULL, NULL);
}
