#include <string.h>

#include "api/weir.h"
#include "tests/test.h"

static const char config[] =
    "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 3, \"hidden_size\": 4096, \"num_attention_heads\": 32,"
    " \"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"vocab_size\": 32000, \"num_local_experts\": 8,"
    " \"num_experts_per_tok\": 2, \"max_position_embeddings\": 4096}";

static void a_model_is_estimated_and_planned(void **state)
{
    (void)state;
    const struct weir_estimate_options estimating = { .size = sizeof estimating, .device = "h100-sxm", .expert = 8,
                                                      .data = 8, .dispatch = "once" };
    struct weir_error error = { 0 };
    struct weir_answer answer = { 0 };
    struct weir_profile *profile = NULL;
    if (!weir_estimate(config, &estimating, &answer, &profile, &error))
        fail_msg("%s", error.text);
    assert_non_null(strstr(answer.document, "\"format\": \"weir.estimate\""));
    assert_non_null(strstr(answer.text, "mixtral of "));
    const struct weir_partition_options planning = {
        .size = sizeof planning, .cluster = "2 devices, 80GiB, 50GB/s 10us", .schedule = "1f1b", .micro_batches = 4,
    };
    struct weir_plan *plan = weir_partition(profile, &planning, &error);
    if (!plan)
        fail_msg("%s", error.text);
    assert_true(weir_plan_check(plan, profile, &error));
    weir_plan_free(plan);
    weir_profile_free(profile);
    weir_answer_clear(&answer);
}

static void refuses(const char *model, struct weir_estimate_options estimating, const char *sentence)
{
    struct weir_error error = { 0 };
    assert_false(weir_estimate(model, &estimating, NULL, NULL, &error));
    assert_string_equal(error.text, sentence);
    assert_int_equal(error.code, 2);
}

static void what_is_not_trained_is_estimated_and_not_planned(void **state)
{
    (void)state;
    const struct weir_estimate_options tuning = { .size = sizeof tuning, .device = "h100-sxm", .lora = "16" };
    struct weir_error error = { 0 };
    struct weir_answer answer = { 0 };
    struct weir_profile *profile = NULL;
    if (!weir_estimate(config, &tuning, &answer, NULL, &error))
        fail_msg("%s", error.text);
    assert_non_null(strstr(answer.document, "\"adapter_parameters\""));
    weir_answer_clear(&answer);
    assert_false(weir_estimate(config, &tuning, NULL, &profile, &error));
    assert_string_equal(error.text, "weir_estimate_options.frozen, lora and lengths: plans train all parameters, on"
                                    " sequences of one length; leave them out, or ask for no profile");
    const struct weir_config_sweep_options sweeping = { .size = sizeof sweeping, .estimate = &tuning, .devices = 8,
                                                        .global_batch = 8 };
    error = (struct weir_error){ 0 };
    assert_false(weir_sweep_configs(config, &sweeping, NULL, NULL, NULL, &error));
    assert_string_equal(error.text, "weir_estimate_options.frozen, lora and lengths: plans train all parameters, on"
                                    " sequences of one length; state the layout, and judge it with weir_judge()");
}

static void what_cannot_be_is_a_sentence(void **state)
{
    (void)state;
    const struct weir_estimate_options usual = { .size = sizeof usual, .device = "h100-sxm" };
    struct weir_estimate_options wrong = usual;
    refuses(NULL, usual, "config is needed, and is NULL, as what a call returns that has failed");
    refuses("{}", usual, "config: model_type: is missing: every config.json of a Hugging Face model has it");
    wrong.device = NULL;
    refuses(config, wrong, "weir_estimate_options.device is needed: a built-in one (\"h100-sxm\"), a file or a"
            " document's text");
    wrong.device = "{}";
    refuses(config, wrong, "device: format: is missing");
    wrong = usual;
    wrong.overlap = "some";
    refuses(config, wrong, "overlap: \"some\" is none of nothing, backward, all");
    wrong = usual;
    wrong.variants = "1";
    refuses(config, wrong, "variants: \"1\" is none of 2, tensor2, tensor2sp, context2, expert2, .., nor several of these"
            " with + between them, each kind once");
    wrong = usual;
    wrong.loss = "fast";
    refuses(config, wrong, "loss: \"fast\" is none of inplace, plain, fused, kernel, compiled");
    wrong = usual;
    wrong.narrow = "experts,all";
    refuses(config, wrong, "narrow: \"all\" is none of experts, activations, attention, or none");
    wrong.narrow = NULL;
    wrong.frozen = "heads";
    refuses(config, wrong, "frozen: \"heads\" is none of embedding, attention, mlp, experts, head, all");
    wrong.frozen = "mlp";
    wrong.lora = "16";
    refuses(config, wrong, "lora: LoRA freezes all parts already; leave out the frozen parts, or LoRA");
    wrong.frozen = wrong.lora = NULL;
    wrong.lengths = "512";
    refuses(config, wrong, "lengths: \"512\" is not a length in tokens and its share of sequences, such as 2048:70%");
    wrong.lora = wrong.lengths = NULL;
    wrong.recompute_tensors = "norms,some";
    refuses(config, wrong, "recompute_tensors: \"some\" is none of norms, activations, latent");
    wrong = usual;
    wrong.tensor = 3;
    refuses(config, wrong, "the tensor degree of 3 does not divide the heads (32)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_estimated_and_planned),
        cmocka_unit_test(what_is_not_trained_is_estimated_and_not_planned),
        cmocka_unit_test(what_cannot_be_is_a_sentence),
    };
    return cmocka_run_group_tests_name("weir_estimate", tests, NULL, NULL);
}
