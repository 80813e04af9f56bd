#include "exports/outline.h"

#include <string.h>

#include "tests/test.h"

// A plan of one stage with the layers of a list: "embedding h.0 h.1 head".
static struct plan *plan_of(const char *names)
{
    struct error error = { 0 };
    struct plan *plan = plan_create(1, &error);
    assert_good(plan, error);
    plan->stages[0].layers = calloc(32, sizeof plan->stages[0].layers[0]);
    for (size_t length; *names; names += length + (names[length] == ' ')) {
        length = strcspn(names, " ");
        plan->stages[0].layers[plan->stages[0].end++] = strndup(names, length);
    }
    return plan;
}

// "i:0-1 0:1-3 1:3-5 o:5-6": of each unit what it is, and its layers.
static void write_units(const struct outline *outline, struct text *text)
{
    for (uint32_t u = 0; u < outline->count; u++) {
        const struct unit *unit = &outline->units[u];
        text_add(text, u ? " " : "");
        if (unit->kind == UNIT_BLOCK)
            text_add(text, "%u", unit->number);
        else
            text_add(text, unit->kind == UNIT_INPUT ? "i" : "o");
        text_add(text, ":%u-%u", unit->first, unit->end);
    }
}

static struct named_row {
    const char *name, *layers;
    enum grain grain;
    const char *units;   // or NULL
    const char *because;  // what the error says of a layer
} named_rows[] = {
    { "blocks of two layers", "embedding block0.attention block0.mlp block1.attention block1.mlp head", GRAIN_BLOCKS,
      "i:0-1 0:1-3 1:3-5 o:5-6", NULL },
    { "numbers between dots", "model.embed_tokens model.layers.0 model.layers.1 model.norm lm_head", GRAIN_BLOCKS,
      "i:0-1 0:1-2 1:2-3 o:3-5", NULL },
    { "the same, of modules", "model.embed_tokens model.layers.0 model.layers.1 model.norm lm_head", GRAIN_MODULES,
      "i:0-1 0:1-2 1:2-3 o:3-4 o:4-5", NULL },
    { "the same, layer by layer", "model.embed_tokens model.layers.0 model.layers.1 model.norm lm_head", GRAIN_LAYERS,
      "0:0-1 1:1-2 2:2-3 3:3-4 4:4-5", NULL },
    { "GPT-2's names", "wte wpe h.0.attn h.0.mlp h.1.attn h.1.mlp ln_f", GRAIN_BLOCKS, "i:0-2 0:2-4 1:4-6 o:6-7",
      NULL },
    { "BERT's, with a second number behind", "encoder.layer.0.dense1 encoder.layer.0.dense2 encoder.layer.1.dense1",
      GRAIN_BLOCKS, "0:0-2 1:2-3", NULL },
    { "numbers from 1 on", "layer1 layer2 layer3", GRAIN_BLOCKS, "0:0-1 1:1-2 2:2-3", NULL },
    { "numbers of two digits", "l8 l9 l10 l11 head", GRAIN_BLOCKS, "0:0-1 1:1-2 2:2-3 3:3-4 o:4-5", NULL },
    { "a number that is skipped", "h.0 h.1 h.3", GRAIN_BLOCKS, NULL,
      "layer \"h.3\" is not of the block behind the one before it" },
    { "a block that comes back", "h.0.a h.1.a h.0.b", GRAIN_BLOCKS, NULL,
      "layer \"h.0.b\" is not of the block behind the one before it" },
    { "two rows of numbers", "encoder.0 encoder.1 decoder.0", GRAIN_BLOCKS, NULL,
      "layer \"decoder.0\" begins another row of numbered layers" },
    { "a layer between blocks", "h.0 pool h.1", GRAIN_BLOCKS, NULL,
      "layer \"h.1\" has a number, but stands behind layers without one" },
    { "no numbers", "embedding middle head", GRAIN_BLOCKS, NULL,
      "layer \"embedding\" has no number, and none behind it has"
      " one" },
    { "numbers in the middle of words", "conv2d(3,3) relu6x", GRAIN_BLOCKS, NULL,
      "layer \"conv2d(3,3)\" has no number, and none behind it has one" },
};

static void names_tell_units(void **state)
{
    const struct named_row *row = *state;
    struct error error = { 0 };
    struct outline outline;
    struct text text = { 0 };
    struct plan *plan = plan_of(row->layers);
    if (outline_by_name(&outline, plan, row->grain, &error)) {
        write_units(&outline, &text);
        assert_non_null(row->units);
        assert_string_equal(text.data, row->units);
    } else {
        assert_null(row->units);
        assert_int_equal(error.kind, ERROR_ANSWER);
        text_add(&text, "%s, so that names do not tell which layers are one of the framework's: --units says how many"
                 " layers each has", row->because);
        assert_string_equal(error.text, text.data);
    }
    text_clear(&text);
    outline_clear(&outline);
    plan_free(plan);
}

static struct hand_row {
    const char *name;
    enum grain grain;
    uint32_t counts[6];
    size_t count;
    const char *units, *sentence;
} hand_rows[] = {
    { "an input, blocks, an output", GRAIN_BLOCKS, { 1, 2, 2, 1 }, 4, "i:0-1 0:1-3 1:3-5 o:5-6", NULL },
    { "no input and no output", GRAIN_BLOCKS, { 0, 2, 4, 0 }, 4, "0:0-2 1:2-6", NULL },
    { "modules at the ends", GRAIN_MODULES, { 2, 2, 2 }, 3, "i:0-1 i:1-2 0:2-4 o:4-5 o:5-6", NULL },
    { "groups of layers", GRAIN_LAYERS, { 3, 1, 2 }, 3, "0:0-3 1:3-4 2:4-6", NULL },
    { "a layer too few", GRAIN_BLOCKS, { 1, 2, 1, 1 }, 4, NULL, "--units: names 5 layers, but the plan has 6" },
    { "an empty block", GRAIN_BLOCKS, { 1, 0, 4, 1 }, 4, NULL, "--units: unit 1 has no layer" },
    { "an empty group", GRAIN_LAYERS, { 0, 6 }, 2, NULL, "--units: unit 0 has no layer" },
    { "no blocks",
      GRAIN_BLOCKS,
      { 3, 3 },
      2,
      NULL,
      "--units: has 2 numbers, but there are an input, an output and blocks" },
};

static void counts_tell_units(void **state)
{
    const struct hand_row *row = *state;
    struct error error = { 0 };
    struct outline outline;
    struct text text = { 0 };
    struct plan *plan = plan_of("a b c d e f");
    const bool good = outline_by_hand(&outline, plan, row->grain, row->counts, row->count, &error);
    assert_int_equal(good, row->units != NULL);
    if (good) {
        write_units(&outline, &text);
        assert_string_equal(text.data, row->units);
    } else {
        assert_error(error, row->sentence);
        assert_int_equal(error.kind, ERROR_INPUT);
    }
    text_clear(&text);
    outline_clear(&outline);
    plan_free(plan);
}

int main(void)
{
    enum { NAMED = sizeof named_rows / sizeof named_rows[0], BY_HAND = sizeof hand_rows / sizeof hand_rows[0] };
    struct CMUnitTest tests[NAMED + BY_HAND];
    for (size_t i = 0; i < NAMED; i++)
        tests[i] = (struct CMUnitTest)TEST_ROW(names_tell_units, &named_rows[i]);
    for (size_t i = 0; i < BY_HAND; i++)
        tests[NAMED + i] = (struct CMUnitTest)TEST_ROW(counts_tell_units, &hand_rows[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
