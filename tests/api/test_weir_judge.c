#include <string.h>

#include "api/weir.h"
#include "tests/test.h"

static const char config[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 8, \"hidden_size\": 4096, \"num_attention_heads\": 32,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 32000, \"max_position_embeddings\": 4096}";

// The same for sequences of twice the length.
static const char longer[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 8, \"hidden_size\": 4096, \"num_attention_heads\": 32,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 32000,"
    " \"max_position_embeddings\": 8192}";

static const struct weir_estimate_options nemo = {
    .size = sizeof nemo, .device = "h100-sxm", .tensor = 2, .data = 4, .like = "nemo",
};

static const struct weir_judge_options usual = {
    .size = sizeof usual, .estimate = &nemo, .ranks = 2, .chunks = 2, .micro_batches = 4, .recompute = "full",
};

static void a_stated_layout_is_judged(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_answer answer = { 0 };
    if (!weir_judge(config, &usual, &answer, &error))
        fail_msg("%s", error.text);
    assert_non_null(strstr(answer.document, "\"format\": \"weir.judgement\""));
    assert_non_null(strstr(answer.document, "\"like\": \"nemo\""));
    assert_non_null(strstr(answer.document, "\"schedule\": \"interleaved\""));
    assert_non_null(strstr(answer.document, "\"shard\": \"optimizer\""));
    assert_non_null(strstr(answer.text, "An iteration takes "));
    weir_answer_clear(&answer);
}

static void what_is_trained_and_what_weeks_take_are_judged(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_answer answer = { 0 };
    struct weir_estimate_options tuned = nemo;
    tuned.lora = "16:attention";
    tuned.lengths = "512:50%,8192:50%";
    tuned.sequence = 8192;
    const uint32_t none[] = { 0 };
    const struct weir_weeks_options weeks = {
        .size = sizeof weeks, .mtbf_ns = 36000000000000, .checkpoint_rate = 10000000000, .repair_ns = 36000000000000,
        .spares = { none, 1 },
    };
    struct weir_judge_options stating = usual;
    stating.estimate = &tuned;
    stating.weeks = &weeks;
    if (!weir_judge(longer, &stating, &answer, &error))
        fail_msg("%s", error.text);
    assert_non_null(strstr(answer.document, "\"weeks\": {"));
    assert_non_null(strstr(answer.document, "\"spares\": 0"));
    assert_non_null(strstr(answer.text, "Over weeks, with a failure every 10 h 0 min"));
    weir_answer_clear(&answer);
}

static void refuses(struct weir_judge_options stating, const char *sentence)
{
    struct weir_error error = { 0 };
    struct weir_answer answer = { 0 };
    assert_false(weir_judge(config, &stating, &answer, &error));
    assert_string_equal(error.text, sentence);
    assert_int_equal(error.code, 2);
}

static void what_cannot_be_is_a_sentence(void **state)
{
    (void)state;
    struct weir_judge_options wrong = usual;
    struct weir_estimate_options estimate = nemo;
    wrong.micro_batches = 0;
    refuses(wrong, "weir_judge_options.micro_batches is needed: of an iteration");
    wrong = usual;
    wrong.estimate = &estimate;
    estimate.gradient_bytes = 3;
    refuses(wrong, "gradient_bytes: gradients are of 2 bytes or of 4, not 3");
    wrong = usual;
    wrong.recompute = "some";
    refuses(wrong, "recompute: \"some\" is none of none, selective, full, how many blocks of each rank, nor some of"
                   " core_attn, mlp, moe, layernorm, moe_act, mla_up_proj with commas between them");
    wrong = usual;
    wrong.estimate = &estimate;
    estimate = nemo;
    estimate.variants = "all";
    refuses(wrong, "weir_estimate_options.variants are for plans that choose among them, and a stated layout has none");
    estimate = nemo;
    estimate.within = 3;
    refuses(wrong, "the within degree of 3 does not divide the devices with the same weights, context x data of them (4)");
}

static void weeks_need_what_the_command_needs(void **state)
{
    (void)state;
    const uint32_t many[] = { 2, 4 };
    struct weir_weeks_options weeks = { .size = sizeof weeks, .mtbf_ns = 1000000000 };
    struct weir_judge_options wrong = usual;
    wrong.weeks = &weeks;
    refuses(wrong, "weir_weeks_options.mtbf_ns and checkpoint_rate are needed: how long all devices run until one"
                   " fails, and at which rate they together save a checkpoint");
    weeks.checkpoint_rate = 1000000000;
    weeks.elastic = true;
    refuses(wrong, "weir_weeks_options.spares and elastic go with repair_ns: without it another device is there at"
                   " once");
    weeks.repair_ns = 1000000000;
    weeks.spares = (struct weir_numbers){ many, 2 };
    refuses(wrong, "weir_weeks_options.spares: takes one number, up to 1048576");
    weeks.spares.count = 0;
    weeks.restart_ns = UINT64_MAX;
    refuses(wrong, "weir_weeks_options.restart_ns: 18446744073709551615 is more than 2^53 - 1");
    weeks.size = 8;
    refuses(wrong, "weir_weeks_options.size: 8 is not the size of such a struct, which has 72 bytes or more: set it to"
                   " sizeof(struct weir_weeks_options)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stated_layout_is_judged),
        cmocka_unit_test(what_is_trained_and_what_weeks_take_are_judged),
        cmocka_unit_test(what_cannot_be_is_a_sentence),
        cmocka_unit_test(weeks_need_what_the_command_needs),
    };
    return cmocka_run_group_tests_name("weir_judge", tests, NULL, NULL);
}
