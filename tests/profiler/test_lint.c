#include "profiler/lint.h"

#include <string.h>

#include "tests/document.h"
#include "tests/test.h"

// The example of the page, in which nothing is wrong but what `change` did.
static struct profile *changed(void (*change)(struct profile *profile))
{
    struct error error = { 0 };
    char *text = test_document("docs/formats/profile.md");
    struct profile *profile = profile_read(text, strlen(text), "p", &error);
    assert_good(profile, error);
    free(text);
    change(profile);
    return profile;
}

static void nothing(struct profile *profile)
{
    (void)profile;
}

static void keep_sum(struct profile *profile)
{
    profile->source.sum_ns = 0;
    for (size_t i = 0; i < profile->layer_count; i++)
        profile->source.sum_ns += profile->layers[i].forward_ns + profile->layers[i].backward_ns;
    profile->source.whole_ns = profile->source.sum_ns;
}

static void one_layer_without_time(struct profile *profile)
{
    profile->layers[2].forward_ns = profile->layers[2].backward_ns = 0;
    profile->layers[2].backward_input_ns = profile->layers[2].backward_weight_ns = 0;
    keep_sum(profile);
}

static void no_time_at_all(struct profile *profile)
{
    for (size_t i = 0; i < profile->layer_count; i++) {
        profile->layers[i].kind[0] = '\0';
        profile->layers[i].has_backward = false;
        profile->layers[i].forward_ns = profile->layers[i].backward_ns = 0;
        profile->layers[i].backward_input_ns = profile->layers[i].backward_weight_ns = 0;
    }
    keep_sum(profile);
}

static void no_forward(struct profile *profile)
{
    profile->layers[2].forward_ns = 0;
    keep_sum(profile);
}

static void a_cheap_backward(struct profile *profile)
{
    profile->layers[2].forward_ns = 2001;
    keep_sum(profile);
}

static void a_dear_fused_backward(struct profile *profile)
{
    profile->layers[1].backward_input_ns = 14000;
    profile->layers[1].backward_weight_ns = 8000;
    profile->layers[1].backward_ns = 24201; // 2201 more, of 22000
    keep_sum(profile);
}

static void a_wide_spread(struct profile *profile)
{
    profile->layers[1].spread[PHASE_FORWARD].p95_ns = 22501;
}

static void a_spread_just_narrow_enough(struct profile *profile)
{
    profile->layers[1].spread[PHASE_FORWARD].p95_ns = 22500;
}

static void a_long_whole(struct profile *profile)
{
    profile->source.whole_ns = 101112; // 91000 is 10.001 % below it
}

static void a_whole_just_near_enough(struct profile *profile)
{
    profile->source.whole_ns = 101111;
}

static void a_short_whole(struct profile *profile)
{
    profile->source.whole_ns = 82727; // 91000 is 10.0003 % above it
}

static void no_whole(struct profile *profile)
{
    profile->source.whole_ns = 0;
}

static void a_changed_time(struct profile *profile)
{
    profile->layers[0].forward_ns += 1000;
}

static void few_repeats(struct profile *profile)
{
    profile->source.repeats = 19;
}

static void an_assumed_split(struct profile *profile)
{
    profile->source.backward_split_measured = false;
}

static void weights_of_nothing(struct profile *profile)
{
    profile->layers[2].parameter_bytes = 0;
}

static void nothing_saved(struct profile *profile)
{
    profile->layers[2].saved_bytes = 0;
    profile->layers[2].input_kept = INPUT_KEPT_NONE;
}

static void no_output(struct profile *profile)
{
    profile->layers[1].output_bytes = 0;
}

static void nobody_reads(struct profile *profile)
{
    profile->edges[3] = profile->edges[2]; // [1, 3] for [2, 3]
    profile->edge_count = 3;
}

static void one_layer_of_all(struct profile *profile)
{
    profile->layers[3].forward_ns = 1000000;
    keep_sum(profile);
}

static void tied_to_nothing(struct profile *profile)
{
    profile->layers[3].parameter_bytes = 0;
    profile->layers[3].backward_weight_ns = 0;
}

static void lent_parameters(struct profile *profile)
{
    tied_to_nothing(profile);
    profile->one_owner = calloc(1, sizeof profile->one_owner[0]);
    assert_non_null(profile->one_owner);
    profile->one_owner[profile->one_owner_count++] = profile->tied[0];
}

static void nothing_is_lent(struct profile *profile)
{
    lent_parameters(profile);
    profile->layers[0].parameter_bytes = 0;
    profile->layers[0].backward_weight_ns = 0;
}

static void parameters_of_other_shapes(struct profile *profile)
{
    static const struct shape shape = { 64, 64 };
    profile->layers[1].shapes = malloc(sizeof shape);
    assert_non_null(profile->layers[1].shapes);
    profile->layers[1].shapes[0] = shape;
    profile->layers[1].shape_count = 1;
    profile->layers[1].parameter_bytes = 16384 * (uint64_t)1000;
}

static void parameters_times_a_thousand(struct profile *profile)
{
    profile->layers[1].flops = 2 * (uint64_t)100000 * 16;
    profile->layers[1].parameter_bytes = 400000 * (uint64_t)1000;
}

static void a_relu_that_keeps_nothing(struct profile *profile)
{
    strcpy(profile->layers[2].kind, "ReLU");
    profile->layers[2].parameter_bytes = profile->layers[2].saved_bytes = 0;
    profile->layers[2].backward_weight_ns = 0;
    profile->layers[2].input_kept = INPUT_KEPT_NONE;
}

// Milliseconds, written as if they were nanoseconds; and picoseconds.
static void scale_times(struct profile *profile, uint64_t times, uint64_t divided, uint64_t bytes)
{
    for (size_t i = 0; i < profile->layer_count; i++) {
        struct profile_layer *layer = &profile->layers[i];
        uint64_t *const all[] = { &layer->forward_ns, &layer->backward_ns, &layer->backward_input_ns,
                                  &layer->backward_weight_ns };
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
            *all[k] = *all[k] * times / divided + (*all[k] > 0);
        memset(layer->has_spread, 0, sizeof layer->has_spread);
        layer->output_bytes = layer->output_bytes > 0 ? bytes : 0;
        layer->flops = 0;
    }
    keep_sum(profile);
}

static void milliseconds(struct profile *profile)
{
    scale_times(profile, 1, 1000, 16 << 20);
}

static void hours(struct profile *profile)
{
    scale_times(profile, 10000000000, 1, 1 << 20);
}

static struct lint_row {
    const char *name;
    void (*change)(struct profile *profile);
    const char *want;
    size_t grave;
} rows[] = {
    { "lint: nothing to say", nothing, "", 0 },
    { "lint: a layer without time", one_layer_without_time,
      "p.json: layers[2] (block0.norm): takes no time at all; it is too short for the clock, or was never run\n", 0 },
    { "lint: no time at all", no_time_at_all,
      "p.json: untrusted: no layer takes any time, so every plan is as good as another; measure the model\n"
      "p.json: the whole model was never timed, so nothing vouches for the sum of its layers\n"
      "p.json: layers[0] (embedding): takes no time at all; it is too short for the clock, or was never run\n"
      "p.json: layers[1] (block0.mlp): takes no time at all; it is too short for the clock, or was never run\n"
      "p.json: layers[2] (block0.norm): takes no time at all; it is too short for the clock, or was never run\n"
      "p.json: layers[3] (head): takes no time at all; it is too short for the clock, or was never run\n",
      1 },
    { "lint: no forward", no_forward,
      "p.json: layers[2] (block0.norm): its forward takes no time, but its backward takes 2.00 us\n", 0 },
    { "lint: a cheap backward", a_cheap_backward,
      "p.json: layers[2] (block0.norm): its backward (2.00 us) is cheaper than its forward (2.00 us); see whether all "
      "of it was "
      "timed\n",
      0 },
    { "lint: a dear fused backward", a_dear_fused_backward,
      "p.json: layers[1] (block0.mlp): its fused backward (24.2 us) takes more than I and W together (22.0 us); run "
      "those two "
      "instead\n",
      0 },
    { "lint: a wide spread", a_wide_spread,
      "p.json: layers[1] (block0.mlp): spread.forward is wide: p95 22.5 us is more than 1.5 times the median 15.0 us; "
      "measure on "
      "an idle machine\n",
      0 },
    { "lint: a spread just narrow enough", a_spread_just_narrow_enough, "", 0 },
    { "lint: the whole takes longer", a_long_whole,
      "p.json: untrusted: the layers add up to 91.0 us, but the whole model takes 101 us, more than 10 % apart; "
      "measure it again "
      "on an idle machine\n",
      1 },
    { "lint: a whole just near enough", a_whole_just_near_enough, "", 0 },
    { "lint: the whole takes less", a_short_whole,
      "p.json: untrusted: the layers add up to 91.0 us, but the whole model takes 82.7 us, more than 10 % apart; "
      "measure it again "
      "on an idle machine\n",
      1 },
    { "lint: no whole", no_whole,
      "p.json: the whole model was never timed, so nothing vouches for the sum of its layers\n", 0 },
    { "lint: a time changed by hand", a_changed_time,
      "p.json: untrusted: source.sum_ns is 91.0 us, but the layers add up to 92.0 us; it was changed by hand, so "
      "measure it "
      "again\n",
      1 },
    { "lint: few repeats", few_repeats, "p.json: each time stands on 19 samples; take at least 20\n", 0 },
    { "lint: an assumed split", an_assumed_split,
      "p.json: the split of the backward into I and W is assumed; plans that part the two stand on a guess\n", 0 },
    { "lint: weights of nothing", weights_of_nothing,
      "p.json: layers[2] (block0.norm): has no parameters, yet its backward for the weights takes 500 ns\n", 0 },
    { "lint: nothing saved", nothing_saved,
      "p.json: layers[2] (block0.norm): has parameters, but keeps neither its input nor anything else for their "
      "gradients; set "
      "input_kept or saved_bytes\n",
      0 },
    { "lint: no output", no_output, "p.json: layers[1] (block0.mlp): hands on 0 bytes to the layers that read it\n",
      0 },
    { "lint: nobody reads", nobody_reads,
      "p.json: layers[2] (block0.norm): feeds no other layer; its work is lost, or an edge is missing\n", 0 },
    { "lint: one layer is most of it", one_layer_of_all,
      "p.json: layers[3] (head): its backward (26.0 us) is cheaper than its forward (1.00 ms); see whether all of it "
      "was timed\n"
      "p.json: layers[3] (head): takes more than half of the model's time, and no cut can part it; split it in two "
      "layers\n",
      0 },
    { "lint: parameters of other shapes", parameters_of_other_shapes,
      "p.json: layers[1] (block0.mlp): has 15.6 MiB of parameters, and its shapes are of 4096 numbers; one of the two is"
      " wrong\n", 0 },
    { "lint: parameters times a thousand", parameters_times_a_thousand,
      "p.json: layers[1] (block0.mlp): has 381 MiB of parameters, of which its 3200000 operations cannot use half; see"
      " whether these are bytes\n", 0 },
    { "lint: a relu keeps nothing", a_relu_that_keeps_nothing,
      "p.json: layers[2] (block0.norm): is a ReLU, whose backward needs something of its forward, yet it keeps nothing;"
      " set saved_bytes or input_kept\n", 0 },
    { "lint: milliseconds", milliseconds,
      "p.json: untrusted: its forwards take 35 ns, and would hand on 1.44e+06 GB and compute 0 GFLOP a second: no device"
      " is so fast; give times in nanoseconds\n", 1 },
    { "lint: hours", hours,
      "p.json: untrusted: its forwards take 3.1e+05 s to hand on 3.15 MB: give times in nanoseconds\n", 1 },
    { "lint: tied to nothing", tied_to_nothing,
      "p.json: tied[0]: embedding and head share parameters, but head has none\n", 0 },
    { "lint: what one has and the other reads", lent_parameters, "", 0 },
    { "lint: the owner has nothing", nothing_is_lent,
      "p.json: one_owner: head reads the parameters of embedding, which has none\n", 0 },
};

static void what_is_wrong_is_said_with_place_and_advice(void **state)
{
    const struct lint_row *row = *state;
    struct profile *profile = changed(row->change);
    struct text text = { 0 };
    const struct lint lint = profile_lint(profile, "p.json", &text);
    assert_string_equal(text.data ? text.data : "", row->want);
    size_t lines = 0;
    for (const char *at = row->want; *at; at++)
        lines += *at == '\n';
    assert_int_equal(lint.findings, lines);
    assert_int_equal(lint.grave, row->grave);
    struct text grave = { 0 };
    assert_int_equal(profile_lint_grave(profile, "p.json", &grave).findings, row->grave);
    for (const char *line = grave.data; line && *line; line = strchr(line, '\n') + 1)
        assert_memory_equal(line, "p.json: untrusted: ", strlen("p.json: untrusted: "));
    text_clear(&grave);
    assert_int_equal(profile_sum_holds(profile), strstr(row->want, "more than 10 % apart") == NULL);
    text_clear(&text);
    profile_free(profile);
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        tests[i] = (struct CMUnitTest)TEST_ROW(what_is_wrong_is_said_with_place_and_advice, &rows[i]);
    return cmocka_run_group_tests_name("lint", tests, NULL, NULL);
}
