// Sweeps over configurations as authors of trainers ask for them: rows, the best of them as a plan, and its profile.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/weir.h"
#include "common/json.h"
#include "tests/test.h"

static const char config[] =
    "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 4, \"hidden_size\": 2048, \"num_attention_heads\": 16,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 4096, \"vocab_size\": 32000, \"num_local_experts\": 8,"
    " \"num_experts_per_tok\": 2, \"max_position_embeddings\": 4096}";

static const struct weir_config_sweep_options usual = {
    .size = sizeof usual, .estimate = WEIR_OPTIONS(estimate, .device = "h100-sxm"), .devices = 8, .global_batch = 32,
    .budget = 2000,
};

struct found {
    struct weir_answer answer;
    struct weir_plan *best;
    struct weir_profile *profile;
};

static struct found find(const struct weir_config_sweep_options *sweeping)
{
    struct weir_error error = { 0 };
    struct found found;
    if (!weir_sweep_configs(config, sweeping, &found.answer, &found.best, &found.profile, &error))
        fail_msg("%s", error.text);
    return found;
}

static void lose(struct found *found)
{
    weir_answer_clear(&found->answer);
    weir_plan_free(found->best);
    weir_profile_free(found->profile);
}

static struct json_document *parse(const char *text)
{
    struct error error = { 0 };
    struct json_document *document = json_parse(text, strlen(text), "what was found", &error);
    assert_good(document, error);
    return document;
}

// The row that is the best of a document of one; its place is good as long as the document.
static struct json best_row(struct json_document *document)
{
    struct json root = json_root(document), rows = json_array(&root, "rows"), row, best = { 0 };
    unsigned count = 0;
    while (json_next(&rows, &row))
        if (json_bool(&row, "best")) {
            best = row;
            count++;
        }
    assert_int_equal(count, 1);
    return best;
}

static uint64_t number(struct json *object, const char *key)
{
    return json_u64(object, key, 0, JSON_MAX);
}

// --- what comes out ------------------------------------------------------------------

static uint64_t plan_iteration_ns(const struct weir_plan *plan)
{
    struct weir_error error = { 0 };
    char *text = weir_plan_document(plan, &error);
    assert_good(text, error);
    struct json_document *document = parse(text);
    struct json root = json_root(document), predicted = json_object(&root, "predicted");
    const uint64_t ns = number(&predicted, "iteration_ns");
    json_free(document);
    weir_text_free(text);
    return ns;
}

// By itself, of the row's degrees.
static char *estimated_profile(struct json *row)
{
    struct weir_error error = { 0 };
    struct weir_profile *profile;
    const struct weir_estimate_options estimating = {
        .size = sizeof estimating,
        .device = "h100-sxm",
        .tensor = (uint32_t)number(row, "tensor"),
        .context = (uint32_t)number(row, "context"),
        .expert = (uint32_t)number(row, "expert"),
        .data = (uint32_t)number(row, "data"),
        .micro_batch = (uint32_t)number(row, "micro_batch"),
        .shard = json_string(row, "shard"),
        .sequence_parallel = number(row, "tensor") > 1,
        .whole_blocks = true,
    };
    assert_good(weir_estimate(config, &estimating, NULL, &profile, &error), error);
    char *text = weir_profile_document(profile, &error);
    weir_profile_free(profile);
    return text;
}

static void plan_and_profile_are_those_of_the_best_row(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct found found = find(&usual);
    struct json_document *document = parse(found.answer.document);
    struct json row = best_row(document);
    assert_int_equal(plan_iteration_ns(found.best) + number(&row, "between_ns"), number(&row, "iteration_ns"));
    assert_good(weir_plan_check(found.best, found.profile, &error), error);
    char *expected = estimated_profile(&row), *profile = weir_profile_document(found.profile, &error);
    assert_string_equal(profile, expected);
    assert_non_null(strstr(found.answer.text, "Best: tensor "));
    weir_text_free(expected), weir_text_free(profile);
    json_free(document);
    lose(&found);
}

static void lists_narrow_what_is_tried(void **state)
{
    (void)state;
    static const uint32_t two = 2, four[] = { 2, 4 }, one = 1;
    static const char *const shards[] = { "optimizer", "none" }, *const schedules[] = { "gpipe", "1f1b" };
    struct weir_config_sweep_options sweeping = usual;
    sweeping.tensor = (struct weir_numbers){ &two, 1 };
    sweeping.context = sweeping.expert = sweeping.micro_batch = (struct weir_numbers){ &one, 1 };
    sweeping.ranks = (struct weir_numbers){ four, 2 };
    sweeping.shards = shards, sweeping.shard_count = 2;
    sweeping.schedules = schedules, sweeping.schedule_count = 2;
    struct found found = find(&sweeping);
    struct json_document *document = parse(found.answer.document);
    struct json root = json_root(document), rows = json_array(&root, "rows"), row;
    assert_int_equal(json_count(&rows), 6);  // 2 ranks by 2 schedules, of 2 pipelines with either shard
    while (json_next(&rows, &row)) {
        assert_int_equal(number(&row, "tensor"), 2);
        assert_int_equal(number(&row, "data") * number(&row, "ranks"), 4);
        assert_int_equal(number(&row, "data") * number(&row, "micro_batches"), 32);
    }
    json_free(document);
    lose(&found);
}

static void plans_in_a_frameworks_words_are_what_weir_partition_makes(void **state)
{
    (void)state;
    static const uint32_t two = 2, one = 1;
    struct weir_error error = { 0 };
    struct weir_config_sweep_options sweeping = usual;
    sweeping.target = "megatron";
    sweeping.tensor = sweeping.ranks = (struct weir_numbers){ &two, 1 };
    sweeping.expert = sweeping.micro_batch = (struct weir_numbers){ &one, 1 };
    struct found found = find(&sweeping);
    struct json_document *document = parse(found.answer.document);
    struct json root = json_root(document), rows = json_array(&root, "rows"), row;
    while (json_next(&rows, &row)) {
        const char *schedule = json_string(&row, "schedule");
        assert_true(strcmp(schedule, "1f1b") == 0 || strcmp(schedule, "interleaved") == 0);
    }
    json_free(document);
    char *swept = weir_plan_document(found.best, &error);
    assert_non_null(strstr(swept, "\"for\": \"megatron\""));
    weir_text_free(swept);
    const struct weir_partition_options planning = { .size = sizeof planning,
                                                     .cluster = "2 devices, 80GiB, 300GB/s 3us", .schedule = "1f1b",
                                                     .micro_batches = 8, .optimizer = "adamw-master",
                                                     .target = "torchtitan" };
    struct weir_plan *plan = weir_partition(found.profile, &planning, &error);
    assert_good(plan, error);
    char *planned = weir_plan_document(plan, &error);
    assert_non_null(strstr(planned, "\"for\": \"torchtitan\""));
    weir_text_free(planned);
    weir_plan_free(plan);
    lose(&found);
}

static void what_is_not_wanted_is_not_handed_out(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct found found = find(&usual);
    struct weir_plan *best;
    assert_good(weir_sweep_configs(config, &usual, NULL, &best, NULL, &error), error);
    char *first = weir_plan_document(found.best, &error), *second = weir_plan_document(best, &error);
    assert_string_equal(first, second);
    weir_text_free(first), weir_text_free(second);
    weir_plan_free(best);
    lose(&found);
}

static void where_nothing_fits_there_is_neither_plan_nor_profile(void **state)
{
    (void)state;
    struct weir_config_sweep_options sweeping = usual;
    sweeping.memory_bytes = 1 << 28;
    struct found found = find(&sweeping);
    assert_null(found.best);
    assert_null(found.profile);
    assert_non_null(strstr(found.answer.text, "None of them fits in 256 MiB per device."));
    lose(&found);
}

// --- a sweep that is watched -----------------------------------------------------------

struct told {
    volatile sig_atomic_t stop;
    char last[200];
};

static void listen(void *self, const char *words)
{
    struct told *told = self;
    snprintf(told->last, sizeof told->last, "%s", words);
    told->stop = 1;
}

static void a_sweep_that_is_stopped_has_the_best_so_far(void **state)
{
    (void)state;
    struct told told = { 0 };
    const struct weir_watch watch = { listen, &told, &told.stop };
    struct weir_config_sweep_options sweeping = usual;
    sweeping.watch = &watch;
    struct found found = find(&sweeping);
    assert_non_null(strstr(told.last, " configurations"));
    assert_non_null(strstr(found.answer.document, "\"stopped\": \"interrupted\""));
    assert_non_null(found.best);
    assert_non_null(found.profile);
    lose(&found);
}

static void one_that_is_stopped_at_once_has_none(void **state)
{
    (void)state;
    volatile sig_atomic_t stop = 1;
    const struct weir_watch watch = { .stop = &stop };
    struct weir_config_sweep_options sweeping = usual;
    sweeping.watch = &watch;
    struct found found = find(&sweeping);
    assert_non_null(strstr(found.answer.document, "\"outcome\": \"not tried\""));
    assert_null(found.best);
    lose(&found);
}

// --- refusals --------------------------------------------------------------------------

static void refuses(const char *model, const struct weir_config_sweep_options *sweeping, const char *sentence)
{
    struct weir_error error = { 0 };
    struct found found;
    assert_false(weir_sweep_configs(model, sweeping, &found.answer, &found.best, &found.profile, &error));
    assert_string_equal(error.text, sentence);
    assert_int_equal(error.code, 2);
    assert_null(found.answer.document);
    assert_null(found.best);
    assert_null(found.profile);
}

#define REFUSES(sentence, ...)                                \
    do {                                                      \
        struct weir_config_sweep_options wrong = usual;       \
        __VA_ARGS__;                                          \
        refuses(config, &wrong, sentence);                    \
    } while (0)

static void what_cannot_be_is_a_sentence(void **state)
{
    (void)state;
    static const uint32_t none = 0, large = 5000, seven = 7;
    static const char *const some[] = { "some" }, *const pipedream[] = { "pipedream" };
    refuses(NULL, &usual, "config is needed, and is NULL, as what a call returns that has failed");
    refuses(config, NULL, "weir_config_sweep_options.devices is needed: how many there are");
    refuses("{}", &usual, "config: model_type: is missing: every config.json of a Hugging Face model has it");
    REFUSES("weir_config_sweep_options.devices is needed: how many there are", wrong.devices = 0);
    REFUSES("weir_config_sweep_options.global_batch is needed: sequences of an iteration", wrong.global_batch = 0);
    REFUSES("weir_estimate_options.device is needed: a built-in one (\"h100-sxm\"), a file or a document's text",
            wrong.estimate = NULL);
    REFUSES("weir_estimate_options.tensor is what the sweep chooses: say it in weir_config_sweep_options.tensor",
            wrong.estimate = WEIR_OPTIONS(estimate, .tensor = 2));
    REFUSES("weir_estimate_options.micro_batch is what the sweep chooses: say it in"
            " weir_config_sweep_options.micro_batch",
            wrong.estimate = WEIR_OPTIONS(estimate, .micro_batch = 2));
    REFUSES("weir_estimate_options.data is what the sweep chooses: it follows from devices and degrees",
            wrong.estimate = WEIR_OPTIONS(estimate, .data = 2));
    REFUSES("weir_estimate_options.shard is what the sweep chooses: say it in weir_config_sweep_options.shards",
            wrong.estimate = WEIR_OPTIONS(estimate, .shard = "none"));
    REFUSES("weir_estimate_options.variants are for plans that choose among them, stage by stage: a sweep"
            " tries weir_config_sweep_options.tensor, context and expert",
            wrong.estimate = WEIR_OPTIONS(estimate, .variants = "all"));
    REFUSES("overlap: \"some\" is none of nothing, backward, all",
            wrong.estimate = WEIR_OPTIONS(estimate, .overlap = "some"));
    REFUSES("shards: \"some\" is none of none, optimizer, gradients, weights", wrong.shards = some;
            wrong.shard_count = 1);
    REFUSES("pipedream does not flush: its iterations are not of so many sequences", wrong.schedules = pipedream;
            wrong.schedule_count = 1);
    REFUSES("tensor: 0 is not between 1 and 4096", wrong.tensor = (struct weir_numbers){ &none, 1 });
    REFUSES("chunks: 5000 is not between 1 and 4096", wrong.chunks = (struct weir_numbers){ &large, 1 });
    REFUSES("ranks: 65 numbers, of 64 at most", wrong.ranks = (struct weir_numbers){ &none, 65 });
    REFUSES("schedules: 33 is not between 0 and 32", wrong.schedules = some; wrong.schedule_count = 33);
    REFUSES("devices: 1048577 is not between 1 and 1048576", wrong.devices = 1048577);
    REFUSES("8 devices without 8 leave none", wrong.without = 8);
    REFUSES("4 of 4 devices are slow, which leaves none; say how fast the device is instead", wrong.without = 4;
            wrong.slow = 4; wrong.slow_permille = 800);
    REFUSES("slow devices have 1 to 1000 thousandths of the rate of others, not 0", wrong.slow = 1);
    REFUSES("target: \"megatro\" is none of any, megatron, torchtitan: did you mean megatron?",
            wrong.target = "megatro");
    REFUSES("placement: \"dp-pp\" is none of tp-cp-ep-dp-pp, tp-cp-ep-pp-dp", wrong.placement = "dp-pp");
    REFUSES("price: -1 is no amount, which is 0 or more", wrong.price = -1);
    REFUSES("watts: inf is no amount, which is 0 or more", wrong.watts = INFINITY);
    REFUSES("no configuration of 7 devices takes a batch of 5: a pipeline has 1 to 6 ranks (blocks, embedding and head),"
            " which divide the 7 devices left by tensor 1 x context 1; none of those asked for does", wrong.devices = 7;
            wrong.global_batch = 5; wrong.ranks = (struct weir_numbers){ &seven, 1 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_and_profile_are_those_of_the_best_row),
        cmocka_unit_test(lists_narrow_what_is_tried),
        cmocka_unit_test(plans_in_a_frameworks_words_are_what_weir_partition_makes),
        cmocka_unit_test(what_is_not_wanted_is_not_handed_out),
        cmocka_unit_test(where_nothing_fits_there_is_neither_plan_nor_profile),
        cmocka_unit_test(a_sweep_that_is_stopped_has_the_best_so_far),
        cmocka_unit_test(one_that_is_stopped_at_once_has_none),
        cmocka_unit_test(what_cannot_be_is_a_sentence),
    };
    return cmocka_run_group_tests_name("weir_configs", tests, NULL, NULL);
}
