// Whatever allocation fails in a call of a binding's, it gives what it gives with more memory, or nothing and the
// sentence that memory is missing.
#include "tests/api/measured_trace.h"
#include "tests/api/scale_layers.h"
#include "tests/failing_between.h"

// What all calls begin with, made with all memory.
static struct weir_profile *profile;
static struct weir_plan *plan;
static struct weir_schedule *schedule;
static char *profile_text, *plan_text, *schedule_text;
static struct weir_layer layers[LAYERS];
static struct weir_plan *own_plan;  // of these
static char trace_file[] = "/tmp/weir-run-XXXXXX";

static int begin(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    profile = made_profile(5);
    plan = made_plan(profile, "1f1b");
    schedule = weir_plan_schedule(plan, &error);
    assert_good(schedule, error);
    profile_text = weir_profile_document(profile, &error);
    plan_text = weir_plan_document(plan, &error);
    schedule_text = weir_schedule_document(schedule, &error);
    assert_good(profile_text && plan_text && schedule_text, error);
    write_trace(plan, 1, trace_file);
    fill(layers);
    layers[0].forward = changing_data_forward;
    own_plan = plan_of(layers, "1f1b");
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(trace_file);
    weir_text_free(profile_text), weir_text_free(plan_text), weir_text_free(schedule_text);
    weir_schedule_free(schedule);
    weir_plan_free(plan);
    weir_plan_free(own_plan);
    weir_profile_free(profile);
    return 0;
}

struct call {
    const char *name;
    char *(*make)(struct weir_error *error);  // what it comes to, as a text
};

static char *read_profile(struct weir_error *error)
{
    struct weir_profile *read = weir_profile_read(profile_text, strlen(profile_text), NULL, error);
    char *text = read ? weir_profile_document(read, error) : NULL;
    weir_profile_free(read);
    return text;
}

static char *show_profile(struct weir_error *error)
{
    return weir_profile_text(profile, error);
}

static char *lint_profile(struct weir_error *error)
{
    return weir_profile_lint(profile, error);
}

static char *read_plan(struct weir_error *error)
{
    struct weir_plan *read = weir_plan_read(plan_text, strlen(plan_text), NULL, error);
    char *text = read ? weir_plan_document(read, error) : NULL;
    weir_plan_free(read);
    return text;
}

static char *partition(struct weir_error *error)
{
    const struct weir_partition_options planning = { .size = sizeof planning, .cluster = small_cluster,
                                                     .schedule = "1f1b", .micro_batches = 2, .choose_replicas = true };
    struct weir_plan *made = weir_partition(profile, &planning, error);
    char *text = made ? weir_plan_text(made, error) : NULL;
    weir_plan_free(made);
    return text;
}

static char *second(struct weir_answer *answer)
{
    weir_text_free(answer->document);
    return answer->text;
}

static char *explain(struct weir_error *error)
{
    struct weir_answer answer;
    const struct weir_explain_options explaining = { .size = sizeof explaining, .budget = 100 };
    return weir_explain(plan, profile, &explaining, &answer, error) ? second(&answer) : NULL;
}

static char *export(struct weir_error *error)
{
    struct weir_answer answer;
    const struct weir_export_options exporting = { .size = sizeof exporting, .profile = profile };
    return weir_plan_export(plan, "torchtitan", &exporting, &answer, error) ? second(&answer) : NULL;
}

static char *sweep(struct weir_error *error)
{
    static const char *const schedules[] = { "1f1b", "gpipe" };
    static const uint32_t micro_batches = 2;
    const struct weir_sweep_options sweeping = { .size = sizeof sweeping, .cluster = small_cluster,
                                                 .schedules = schedules, .schedule_count = 2,
                                                 .micro_batches = { &micro_batches, 1 }, .budget = 1000, .threads = 1 };
    struct weir_answer answer;
    struct weir_plan *best;
    char *text = weir_sweep(profile, &sweeping, &answer, &best, error) ? second(&answer) : NULL;
    assert_true(text || !best);
    weir_plan_free(best);
    return text;
}

static char *sweep_configs(struct weir_error *error)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 1024, \"num_attention_heads\": 8,"
        " \"intermediate_size\": 4096, \"vocab_size\": 32000, \"max_position_embeddings\": 2048}";
    static const uint32_t one = 1, two = 2;
    const struct weir_config_sweep_options sweeping = {
        .size = sizeof sweeping, .estimate = WEIR_OPTIONS(estimate, .device = "h100-sxm"), .devices = 2,
        .global_batch = 4, .ranks = { &two, 1 }, .micro_batch = { &one, 1 }, .budget = 1000, .threads = 1,
    };
    struct weir_answer answer;
    struct weir_plan *best;
    struct weir_profile *made;
    char *text = weir_sweep_configs(config, &sweeping, &answer, &best, &made, error) ? second(&answer) : NULL;
    assert_true(text || (!best && !made));
    weir_plan_free(best);
    weir_profile_free(made);
    return text;
}

static char *generate(struct weir_error *error)
{
    const struct weir_generate_options generating = { .size = sizeof generating, .name = "zb-v", .ranks = 2,
                                                      .micro_batches = 4 };
    struct weir_schedule *made = weir_schedule_generate(&generating, error);
    char *text = made ? weir_schedule_csv(made, WEIR_OPTIONS(csv, .lowered = true), error) : NULL;
    weir_schedule_free(made);
    return text;
}

static char *cut_into_segments(struct weir_error *error)
{
    struct weir_schedule *made = weir_schedule_generate(
        WEIR_OPTIONS(generate, .name = "zb-v", .ranks = 2, .micro_batches = 4, .segments = 2), error);
    char *text = made ? weir_schedule_document(made, error) : NULL;
    weir_schedule_free(made);
    return text;
}

static char *read_schedule(struct weir_error *error)
{
    struct weir_schedule *read = weir_schedule_read(schedule_text, strlen(schedule_text), NULL, error);
    char *text = read ? weir_schedule_document(read, error) : NULL;
    weir_schedule_free(read);
    return text;
}

static const struct weir_price_options pricing = { .size = sizeof pricing, .costs = "1us,1us,1us,1us",
                                                   .kept_forward_bytes = 10, .cluster = "2 devices, 1GiB, 1GB/s 1us" };

static char *check(struct weir_error *error)
{
    const struct weir_check_options checking = { .size = sizeof checking, .receives = "timed", .memory_bytes = 1000000,
                                                 .price = &pricing };
    return weir_schedule_check(schedule, &checking, error);
}

static char *drawn(struct weir_simulation *simulation, enum weir_picture picture, struct weir_error *error)
{
    const struct weir_draw_options drawing = { .size = sizeof drawing, .picture = picture };
    char *text = simulation ? weir_simulation_draw(simulation, &drawing, error) : NULL;
    weir_simulation_free(simulation);
    return text;
}

static char *draw_chart(struct weir_error *error)
{
    return drawn(weir_schedule_simulate(schedule, &pricing, error), WEIR_CHART, error);
}

static char *draw_svg(struct weir_error *error)
{
    return drawn(weir_plan_simulate(plan, error), WEIR_SVG, error);
}

static char *draw_page(struct weir_error *error)
{
    return drawn(weir_plan_simulate(plan, error), WEIR_PAGE, error);
}

static char *draw_trace(struct weir_error *error)
{
    return drawn(weir_plan_simulate(plan, error), WEIR_TRACE, error);
}

static char *show_simulation(struct weir_error *error)
{
    struct weir_simulation *simulation = weir_plan_simulate(plan, error);
    char *text = simulation ? weir_simulation_text(simulation, error) : NULL;
    weir_simulation_free(simulation);
    return text;
}

static char *search(struct weir_error *error)
{
    const struct weir_search_options searching = { .size = sizeof searching, .ranks = 2, .micro_batches = 3,
                                                   .price = WEIR_OPTIONS(price, .costs = "1us,1us,2us,1us") };
    struct weir_schedule *found = weir_search(&searching, NULL, error);
    char *text = found ? weir_schedule_document(found, error) : NULL;
    weir_schedule_free(found);
    return text;
}

static struct weir_comparison *compared(struct weir_error *error)
{
    const struct weir_compare_options traces = { .size = sizeof traces, .files = (const char *const[]){ trace_file },
                                                 .file_count = 1 };
    return weir_plan_compare(plan, &traces, error);
}

static char *compare_document(struct weir_error *error)
{
    struct weir_comparison *comparison = compared(error);
    char *text = comparison ? weir_comparison_document(comparison, error) : NULL;
    weir_comparison_free(comparison);
    return text;
}

static char *compare_text(struct weir_error *error)
{
    const struct weir_compare_options traces = { .size = sizeof traces, .files = (const char *const[]){ trace_file },
                                                 .file_count = 1 };
    struct weir_comparison *comparison = weir_schedule_compare(schedule, &pricing, &traces, error);
    char *text = comparison ? weir_comparison_text(comparison, error) : NULL;
    weir_comparison_free(comparison);
    return text;
}

static char *compare_notes(struct weir_error *error)
{
    struct weir_comparison *comparison = compared(error);
    char *text = comparison ? weir_comparison_notes(comparison, error) : NULL;
    weir_comparison_free(comparison);
    return text;
}

static char *refine(struct weir_error *error)
{
    struct weir_comparison *comparison = compared(error);
    struct weir_profile *refined = comparison ? weir_profile_refine(profile, comparison, error) : NULL;
    char *text = refined ? weir_profile_document(refined, error) : NULL;
    weir_profile_free(refined);
    weir_comparison_free(comparison);
    return text;
}

// --- own layers ------------------------------------------------------------------------------

// With all memory again.
static char *answer(const char *text)
{
    fails_from = SIZE_MAX;
    return strdup(text);
}

static char *guard(struct weir_error *error)
{
    const struct weir_check_layers_options options = { .size = sizeof options, .loss_share = 1 };
    return weir_layers_check(layers, LAYERS, &options, error) ? answer("fine") : NULL;
}

static char *verify(struct weir_error *error)
{
    const struct weir_runtime_options running = { .size = sizeof running, .clip = 0.5f };
    return weir_verify(own_plan, layers, LAYERS, &running, 2, error) ? answer("equal") : NULL;
}

static char *run(struct weir_error *error)
{
    const struct weir_runtime_options running = { .size = sizeof running, .rate = 0.01f, .clip = 0.5f };
    struct weir_runtime *runtime = weir_runtime_create(own_plan, layers, LAYERS, &running, error);
    float parameters[3] = { 0 }, losses[2] = { 0 };
    bool good = runtime && weir_runtime_step(runtime, NULL, error) && weir_runtime_step(runtime, NULL, error)
             && weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = 100,
                                                   .micro_batches = 2, .losses = losses), error);
    for (uint32_t l = 0; good && l < 3; l++)
        good = weir_runtime_read(runtime, 1 + l, &parameters[l], error);
    weir_runtime_free(runtime);
    char text[200];
    snprintf(text, sizeof text, "%a %a %a, %a %a", (double)parameters[0], (double)parameters[1], (double)parameters[2],
             (double)losses[0], (double)losses[1]);
    return good ? answer(text) : NULL;
}

static struct call calls[] = {
    { "reading_a_profile", read_profile }, { "showing_a_profile", show_profile },
    { "judging_a_profile", lint_profile }, { "reading_a_plan", read_plan },
    { "planning", partition },             { "explaining", explain },
    { "exporting", export },
    { "sweeping", sweep },                 { "sweeping_configurations", sweep_configs },
    { "generating", generate },            { "cutting_into_segments", cut_into_segments },
    { "reading_a_schedule", read_schedule }, { "checking", check },
    { "drawing_a_chart", draw_chart },     { "drawing_an_svg", draw_svg },
    { "drawing_a_page", draw_page },       { "drawing_a_trace", draw_trace },
    { "showing_a_simulation", show_simulation }, { "searching", search },
    { "comparing", compare_document },     { "showing_a_comparison", compare_text },
    { "noting_what_was_left_out", compare_notes }, { "refining", refine },
    { "guarding", guard },                 { "verifying", verify },
    { "running", run },
};

// Each of the first allocations, then some of the others; that one alone, and all from there on.
static void nothing_comes_out_wrong(void **state)
{
    const struct call *call = *state;
#if HAS_SANITIZER
    (void)call;
    TEST_SKIP("a sanitizer brings an allocator of its own");
#else
    struct weir_error none = { 0 };
    char *expected = call->make(&none);
    assert_good(expected, none);
    fail_between(SIZE_MAX, SIZE_MAX);
    free(call->make(&none));
    const size_t all = allocations, each = test_trials(150, 1500);
    uint64_t seed = 5;
    for (size_t i = 0; i < each && i < all; i++) {
        const size_t from = all <= each ? i : random_below(&seed, all);
        for (int alone = 0; alone < 2; alone++) {
            struct weir_error error = { 0 };
            fail_between(from, alone ? from + 1 : SIZE_MAX);
            char *made = call->make(&error);
            fail_between(SIZE_MAX, SIZE_MAX);
            if (made && strcmp(made, expected) != 0)
                fail_msg("allocation %zu of %zu: something else came out:\n%s", from, all, made);
            if (!made && (error.code != 3 || !strstr(error.text, "memory")))
                fail_msg("allocation %zu of %zu: code %d, \"%s\"", from, all, error.code, error.text);
            free(made);
        }
    }
    free(expected);
#endif
}

int main(void)
{
    enum { CALLS = sizeof calls / sizeof calls[0] };
    struct CMUnitTest tests[CALLS];
    fail_between(SIZE_MAX, SIZE_MAX);
    for (size_t i = 0; i < CALLS; i++)
        tests[i] = (struct CMUnitTest)TEST_ROW(nothing_comes_out_wrong, &calls[i]);
    return cmocka_run_group_tests(tests, begin, end);
}
