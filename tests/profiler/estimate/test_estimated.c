#include "profiler/estimate/estimated.h"

#include "profiler/estimate/framework.h"
#include "tests/profiler/estimate/estimating.h"

static const char gemma[] =
    "{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 7, \"hidden_size\": 256, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"intermediate_size\": 512, \"vocab_size\": 1000, \"max_position_embeddings\": 8192,"
    " \"rope_theta\": 1e6, \"hidden_activation\": \"gelu_pytorch_tanh\"}";
static const char deepseek[] =
    "{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 4, \"hidden_size\": 7168, \"num_attention_heads\": 128,"
    " \"intermediate_size\": 18432, \"vocab_size\": 129280, \"max_position_embeddings\": 4096, \"q_lora_rank\": 1536,"
    " \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128,"
    " \"n_routed_experts\": 256, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 2048, \"n_shared_experts\": 1,"
    " \"first_k_dense_replace\": 1, \"rope_parameters\": {\"rope_theta\": 10000}, \"hidden_act\": \"silu\"}";

static struct text written_on(const char *device, const char *config, struct estimate_request request)
{
    struct error error = { 0 };
    struct estimate *made = estimate_on(device, config, request);
    struct profile *profile = estimate_profile(made, &error);
    struct text text = { 0 };
    assert_good(profile, error);
    profile_write(profile, &text);
    profile_free(profile);
    free(made);
    return text;
}

static struct profile *read_again(const struct text *text)
{
    struct error error = { 0 };
    struct text again = { 0 };
    struct profile *profile = profile_read(text->data, text->length, "p.json", &error);
    assert_good(profile, error);
    profile_write(profile, &again);
    assert_string_equal(text->data, again.data);
    text_clear(&again);
    return profile;
}

static void a_profile_has_the_model_that_it_was_estimated_of(void **state)
{
    (void)state;
    static const char *const configs[] = { gemma, deepseek };
    for (size_t i = 0; i < 2; i++) {
        struct error error = { 0 };
        struct transformer model;
        assert_good(transformer_read(configs[i], strlen(configs[i]), "config.json", &model, &error), error);
        struct text text = written_on("h100-sxm", configs[i], estimate_usual());
        struct profile *profile = read_again(&text);
        assert_non_null(profile->estimated);
        const struct transformer *read = &profile->estimated->model;
        assert_string_equal(read->name, model.name);
        assert_string_equal(read->activation, i ? "silu" : "gelu_pytorch_tanh");
        assert_int_equal(read->rotary_base, i ? 10000 : 1000000);
        assert_int_equal(transformer_parameters(read), transformer_parameters(&model));
        for (uint64_t l = 0; l < model.layers; l++)
            assert_int_equal(transformer_is_local(read, l), transformer_is_local(&model, l));
        profile_free(profile);
        text_clear(&text);
    }
}

// Which layers recur, have experts or are alone is in lists.
static void a_profile_of_layers_that_recur_has_them(void **state)
{
    (void)state;
    static const char *const configs[] = {
        "{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"M-M*ME\"}",
        "{\"model_type\": \"falcon_h1\", \"num_hidden_layers\": 2}",
        "{\"model_type\": \"jamba\", \"num_hidden_layers\": 9}",
        "{\"model_type\": \"qwen3_next\", \"num_hidden_layers\": 8}",
        "{\"model_type\": \"minimax\", \"num_hidden_layers\": 3}",
        "{\"model_type\": \"mamba2\", \"num_hidden_layers\": 3}",
        "{\"model_type\": \"mamba\", \"num_hidden_layers\": 3}",
        "{\"model_type\": \"kimi_linear\", \"num_hidden_layers\": 6}",
        "{\"model_type\": \"lfm2\", \"num_hidden_layers\": 3, \"full_attn_idxs\": [1]}",
        "{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4, \"classifier_bias\": true}",
        "{\"model_type\": \"modernbert\", \"num_hidden_layers\": 4}",
        "{\"model_type\": \"dinov2_with_registers\", \"num_hidden_layers\": 2, \"num_labels\": 7}",
        "{\"model_type\": \"umt5\", \"num_layers\": 2}",
        "{\"model_type\": \"falcon\", \"num_hidden_layers\": 3}",
        "{\"model_type\": \"t5\", \"num_layers\": 2, \"num_decoder_layers\": 3}",
    };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct estimate_request request = estimate_usual();
        struct error error = { 0 };
        struct transformer model;
        assert_good(transformer_read(configs[i], strlen(configs[i]), "config.json", &model, &error), error);
        request.sequence = model.positions > 0 ? model.positions : 1024;
        struct text text = written_on("h100-sxm", configs[i], request);
        struct profile *profile = read_again(&text);
        const struct transformer *read = &profile->estimated->model;
        assert_int_equal(transformer_parameters(read), transformer_parameters(&model));
        assert_int_equal(estimate_layers(read), profile->layer_count);
        for (size_t l = 0; l < profile->layer_count; l++) {
            assert_int_equal(estimate_part(read, l), estimate_part(&model, l));
            assert_string_equal(profile->layers[l].kind, estimate_part_kind(read, estimate_part(read, l)));
        }
        assert_int_equal(profile->no_cut_count, model.is_parallel ? model.layers : 0);
        profile_free(profile);
        text_clear(&text);
    }
}

// One at a time, so that none is dropped.
static struct estimate_request changed(size_t which)
{
    struct estimate_request request = estimate_usual();
    request.sequence = 4096;
    switch (which) {
    case 1: request.tensor = 2; break;
    case 2: request.context = 2; break;
    case 3: request.data = 2; break;
    case 4: request.data = 2, request.expert = 2; break;
    case 5: request.data = 2, request.inner_ranks = 4; break;
    case 6: request.sequence = 2048; break;
    case 7: request.products = "fp8"; break;
    case 8: request.attention = ATTENTION_FLASH; break;
    case 9: request.overlap = OVERLAP_ALL; break;
    case 10: request.dispatch = DISPATCH_ONCE; break;
    case 11: request.loss = LOSS_FUSED; break;
    case 12: request.recompute_tensors = RECOMPUTE_NORMS; break;
    case 13: request.recompute_tensors = RECOMPUTE_LATENT | RECOMPUTE_ACTIVATIONS; break;
    case 14: request.sequence_parallel = true; break;
    case 15: request.graphs = true; break;
    case 16: request.blocking = true; break;
    case 17: request.hidden_experts = true; break;
    case 18: request.fused_passes = true; break;
    case 19: request.shard = ESTIMATE_SHARD_OPTIMIZER; break;
    case 20: request.whole_blocks = true; break;
    case 21: request.dtype = "fp16"; break;
    case 22: request.micro_batch = 2; break;
    case 23: request.like = framework_find("nemo", NULL), request.said = ~0u; break;
    case 24: request.data = 4, request.within = 2, request.shard = ESTIMATE_SHARD_OPTIMIZER; break;
    case 25: request.gradient_bytes = 2; break;
    case 26: request.narrow = NARROW_ATTENTION | NARROW_EXPERTS; break;
    case 27: request.narrow = NARROW_ACTIVATIONS; break;
    default: break;
    }
    return request;
}

static void every_choice_is_in_the_profile_and_read_back(void **state)
{
    (void)state;
    enum { CHANGES = 28 };
    struct profile *profiles[CHANGES];
    for (size_t i = 0; i < CHANGES; i++) {
        struct text text = written_on("h100-sxm", deepseek, changed(i));
        profiles[i] = read_again(&text);
        text_clear(&text);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(profiles[i]->hash, profiles[j]->hash);
    }
    assert_int_equal(profiles[5]->estimated->request.inner_ranks, 4);
    assert_string_equal(profiles[7]->estimated->products, "fp8");
    assert_string_equal(profiles[23]->estimated->request.like->name, "nemo");
    assert_int_equal(profiles[23]->estimated->request.gradient_bytes, 2);  // which that framework has
    assert_int_equal(profiles[24]->estimated->request.within, 2);
    assert_int_equal(profiles[13]->estimated->request.recompute_tensors, RECOMPUTE_LATENT | RECOMPUTE_ACTIVATIONS);
    assert_int_equal(profiles[26]->estimated->request.narrow, NARROW_ATTENTION | NARROW_EXPERTS);
    for (size_t i = 0; i < CHANGES; i++)
        profile_free(profiles[i]);
}

static struct refusal {
    const char *name, *from, *to, *sentence;
} refusals[] = {
    { "refused: a choice nobody knows", "\"loss\": \"inplace\"", "\"loss\": \"inplace\", \"magic\": true",
      "p.json: estimate: key \"magic\" is not known" },
    { "refused: a word nobody knows", "\"loss\": \"inplace\"", "\"loss\": \"gain\"",
      "p.json: estimate.loss: is \"gain\", not one of inplace, plain, fused, kernel, compiled" },
    { "refused: a framework nobody knows", "\"sequence\": 4096", "\"like\": \"magatron\", \"sequence\": 4096",
      "p.json: estimate.like: \"magatron\" is none of megatron, megatron-2022, megatron-2021, nemo, bridge, bridge-2025,"
      " deepseek, torchtitan, torchtitan-2024, fsdp, deepspeed, internevo: did you mean megatron?" },
    { "refused: gradients of 3 bytes", "\"sequence\": 4096", "\"gradient_bytes\": 3, \"sequence\": 4096",
      "p.json: estimate.gradient_bytes: gradients are of 2 bytes or of 4" },
    { "refused: no word at all", "\"loss\": \"inplace\",", "", "p.json: estimate.loss: is missing" },
    { "refused: a degree of nothing", "\"sequence\": 4096", "\"sequence\": 4096, \"tensor\": 0",
      "p.json: estimate.tensor: is 0; it must be from 1 to 65536" },
    { "refused: a model without layers", "\"layers\": 4,", "", "p.json: estimate.model.layers: is missing" },
    { "refused: more chosen than experts", "\"chosen\": 8", "\"chosen\": 800",
      "p.json: estimate.model.experts: are 256, and of these chosen, expert_ffn or expert_every is missing or too large" },
    { "refused: nothing to keep narrow", "\"loss\": \"inplace\"", "\"loss\": \"inplace\", \"narrow\": [\"none\"]",
      "p.json: estimate.narrow[0]: \"none\" is none of experts, activations, attention, each once" },
    { "refused: a tensor to recompute, twice", "\"loss\": \"inplace\"",
      "\"loss\": \"inplace\", \"recompute_tensors\": [\"norms\", \"norms\"]",
      "p.json: estimate.recompute_tensors[1]: \"norms\" is none of norms, activations, latent, each once" },
};

static void what_an_estimate_cannot_be_is_a_sentence(void **state)
{
    const struct refusal *row = *state;
    struct text text = written_on("h100-sxm", deepseek, changed(0)), other = { 0 };
    char *at = strstr(text.data, row->from);
    assert_non_null(at);
    text_add(&other, "%.*s%s%s", (int)(at - text.data), text.data, row->to, at + strlen(row->from));
    struct error error = { 0 };
    assert_null(profile_read(other.data, other.length, "p.json", &error));
    assert_error(error, row->sentence);
    text_clear(&text);
    text_clear(&other);
}

int main(void)
{
    struct CMUnitTest tests[2 + sizeof refusals / sizeof refusals[0]] = {
        cmocka_unit_test(a_profile_has_the_model_that_it_was_estimated_of),
        cmocka_unit_test(a_profile_of_layers_that_recur_has_them),
        cmocka_unit_test(every_choice_is_in_the_profile_and_read_back),
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        tests[2 + i] = (struct CMUnitTest)TEST_ROW(what_an_estimate_cannot_be_is_a_sentence, &refusals[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
