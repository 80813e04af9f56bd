#include <string.h>

#include "api/weir.h"
#include "tests/test.h"

static const char config[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 8, \"hidden_size\": 4096, \"num_attention_heads\": 32,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 32000, \"max_position_embeddings\": 4096}";

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stated_layout_is_judged),
        cmocka_unit_test(what_cannot_be_is_a_sentence),
    };
    return cmocka_run_group_tests_name("weir_judge", tests, NULL, NULL);
}
