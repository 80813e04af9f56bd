#include "profiler/estimate/transformer.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

#define UNKNOWN " is none of those that are estimated (docs/estimate.md)"

#define GPT_OSS                                                                                                \
    "\"model_type\": \"gpt_oss\", \"hidden_size\": 2880, \"num_attention_heads\": 64, \"num_key_value_heads\": 8," \
    " \"head_dim\": 64, \"intermediate_size\": 2880, \"vocab_size\": 201088, \"num_experts_per_tok\": 4"

#define LLAMA4                                                                                                 \
    "\"model_type\": \"llama4_text\", \"hidden_size\": 5120, \"num_hidden_layers\": 48, \"num_attention_heads\": 40," \
    " \"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 8192, \"intermediate_size_mlp\": 16384,"   \
    " \"vocab_size\": 202048, \"num_experts_per_tok\": 1"

// The configurations as they are published, less what no estimate reads; counted by whoever published them.
static const struct published {
    const char *name, *config;
    uint64_t parameters;
} published[] = {
    { "GPT-2", "{\"model_type\": \"gpt2\", \"n_layer\": 12, \"n_embd\": 768, \"n_head\": 12, \"n_positions\": 1024,"
               " \"vocab_size\": 50257}", 124439808 },
    { "GPT-2 XL", "{\"model_type\": \"gpt2\", \"n_layer\": 48, \"n_embd\": 1600, \"n_head\": 25, \"n_positions\": 1024,"
                  " \"vocab_size\": 50257, \"n_inner\": null}", 1557611200 },
    { "Llama 2 7B", "{\"model_type\": \"llama\", \"num_hidden_layers\": 32, \"hidden_size\": 4096,"
                    " \"num_attention_heads\": 32, \"intermediate_size\": 11008, \"vocab_size\": 32000}", 6738415616 },
    { "Llama 3 8B", "{\"model_type\": \"llama\", \"num_hidden_layers\": 32, \"hidden_size\": 4096,"
                    " \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336,"
                    " \"vocab_size\": 128256}", 8030261248 },
    { "Llama 3.1 405B", "{\"model_type\": \"llama\", \"num_hidden_layers\": 126, \"hidden_size\": 16384,"
                        " \"num_attention_heads\": 128, \"num_key_value_heads\": 8, \"intermediate_size\": 53248,"
                        " \"vocab_size\": 128256}", 405853388800 },
    { "Mistral 7B", "{\"model_type\": \"mistral\", \"num_hidden_layers\": 32, \"hidden_size\": 4096,"
                    " \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336,"
                    " \"vocab_size\": 32000, \"sliding_window\": 4096}", 7241732096 },
    { "Mixtral 8x7B", "{\"model_type\": \"mixtral\", \"num_hidden_layers\": 32, \"hidden_size\": 4096,"
                      " \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336,"
                      " \"vocab_size\": 32000, \"num_local_experts\": 8, \"num_experts_per_tok\": 2}", 46702792704 },
    { "Qwen2.5 7B", "{\"model_type\": \"qwen2\", \"num_hidden_layers\": 28, \"hidden_size\": 3584,"
                    " \"num_attention_heads\": 28, \"num_key_value_heads\": 4, \"intermediate_size\": 18944,"
                    " \"vocab_size\": 152064, \"tie_word_embeddings\": false}", 7615616512 },
    { "Qwen2.5 0.5B", "{\"model_type\": \"qwen2\", \"num_hidden_layers\": 24, \"hidden_size\": 896,"
                      " \"num_attention_heads\": 14, \"num_key_value_heads\": 2, \"intermediate_size\": 4864,"
                      " \"vocab_size\": 151936, \"tie_word_embeddings\": true}", 494032768 },
    { "Qwen3 8B", "{\"model_type\": \"qwen3\", \"num_hidden_layers\": 36, \"hidden_size\": 4096,"
                  " \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 12288,"
                  " \"vocab_size\": 151936, \"head_dim\": 128}", 8190735360 },
    { "Qwen3 30B-A3B", "{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 48, \"hidden_size\": 2048,"
                       " \"num_attention_heads\": 32, \"num_key_value_heads\": 4, \"intermediate_size\": 6144,"
                       " \"vocab_size\": 151936, \"head_dim\": 128, \"num_experts\": 128, \"num_experts_per_tok\": 8,"
                       " \"moe_intermediate_size\": 768, \"mlp_only_layers\": []}", 30532122624 },
    { "Qwen1.5 MoE", "{\"model_type\": \"qwen2_moe\", \"num_hidden_layers\": 24, \"hidden_size\": 2048,"
                     " \"num_attention_heads\": 16, \"num_key_value_heads\": 16, \"intermediate_size\": 5632,"
                     " \"vocab_size\": 151936, \"num_experts\": 60, \"num_experts_per_tok\": 4,"
                     " \"moe_intermediate_size\": 1408, \"shared_expert_intermediate_size\": 5632}", 14315784192 },
    { "GPT-NeoX 20B", "{\"model_type\": \"gpt_neox\", \"num_hidden_layers\": 44, \"hidden_size\": 6144,"
                      " \"num_attention_heads\": 64, \"intermediate_size\": 24576, \"vocab_size\": 50432}",
      20554567680 },
    { "DeepSeek V2 Lite", "{\"model_type\": \"deepseek_v2\", \"num_hidden_layers\": 27, \"hidden_size\": 2048,"
                          " \"num_attention_heads\": 16, \"intermediate_size\": 10944, \"vocab_size\": 102400,"
                          " \"q_lora_rank\": null, \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128,"
                          " \"qk_rope_head_dim\": 64, \"v_head_dim\": 128, \"n_routed_experts\": 64,"
                          " \"n_shared_experts\": 2, \"num_experts_per_tok\": 6, \"moe_intermediate_size\": 1408,"
                          " \"first_k_dense_replace\": 1}", 15706484224 },
    { "DeepSeek V3", "{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 61, \"hidden_size\": 7168,"
                     " \"num_attention_heads\": 128, \"intermediate_size\": 18432, \"vocab_size\": 129280,"
                     " \"q_lora_rank\": 1536, \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128,"
                     " \"qk_rope_head_dim\": 64,"
                     " \"v_head_dim\": 128, \"n_routed_experts\": 256, \"n_shared_experts\": 1,"
                     " \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 2048, \"first_k_dense_replace\": 3}",
      671026419200 },
    { "T5 large", "{\"model_type\": \"t5\", \"num_layers\": 24, \"d_model\": 1024, \"d_kv\": 64, \"num_heads\": 16,"
                  " \"d_ff\": 4096, \"vocab_size\": 32128}", 737668096 },
    { "mT5 small's decoder alone is larger", "{\"model_type\": \"mt5\", \"num_layers\": 2, \"num_decoder_layers\": 8}",
      // a table; 2 encoder and 8 decoder blocks of 3 products of an MLP, and 1 or 2 times 4 of attention; norms;
      // buckets
      250112 * 512 + 10 * 3 * 512 * 1024 + 18 * 4 * 512 * 384 + (2 * 2 + 8 * 3 + 2) * 512 + 2 * 32 * 6 },
    { "GPT-OSS 20B", "{" GPT_OSS ", \"num_hidden_layers\": 24, \"num_local_experts\": 32}", 20914757184 },
    { "GPT-OSS 120B", "{" GPT_OSS ", \"num_hidden_layers\": 36, \"num_local_experts\": 128, \"sliding_window\": 128,"
                      " \"attention_bias\": true}", 116829156672 },
    { "Gemma 7B", "{\"model_type\": \"gemma\", \"num_hidden_layers\": 28, \"hidden_size\": 3072,"
                  " \"num_attention_heads\": 16, \"num_key_value_heads\": 16, \"head_dim\": 256,"
                  " \"intermediate_size\": 24576, \"vocab_size\": 256000}", 8537680896 },
    { "Gemma 2 9B", "{\"model_type\": \"gemma2\", \"num_hidden_layers\": 42, \"hidden_size\": 3584,"
                    " \"num_attention_heads\": 16, \"num_key_value_heads\": 8, \"head_dim\": 256,"
                    " \"intermediate_size\": 14336, \"vocab_size\": 256000, \"final_logit_softcapping\": 30.0,"
                    " \"sliding_window\": 4096}", 9241705984 },
    { "Gemma 2 27B", "{\"model_type\": \"gemma2\", \"num_hidden_layers\": 46, \"hidden_size\": 4608,"
                     " \"num_attention_heads\": 32, \"num_key_value_heads\": 16, \"head_dim\": 128,"
                     " \"intermediate_size\": 36864, \"vocab_size\": 256000}", 27227128320 },
    { "Gemma 3 1B", "{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 26, \"hidden_size\": 1152,"
                    " \"num_attention_heads\": 4, \"num_key_value_heads\": 1, \"head_dim\": 256,"
                    " \"intermediate_size\": 6912, \"vocab_size\": 262144, \"sliding_window\": 512,"
                    " \"sliding_window_pattern\": 6}", 999885952 },
    { "OLMo 2 7B", "{\"model_type\": \"olmo2\", \"num_hidden_layers\": 32, \"hidden_size\": 4096,"
                   " \"num_attention_heads\": 32, \"num_key_value_heads\": 32, \"intermediate_size\": 11008,"
                   " \"vocab_size\": 100352}", 7298617344 },
    { "OLMo 2 13B", "{\"model_type\": \"olmo2\", \"num_hidden_layers\": 40, \"hidden_size\": 5120,"
                    " \"num_attention_heads\": 40, \"intermediate_size\": 13824, \"vocab_size\": 100352}", 13716198400 },
    { "Phi-3 mini", "{\"model_type\": \"phi3\", \"num_hidden_layers\": 32, \"hidden_size\": 3072,"
                    " \"num_attention_heads\": 32, \"num_key_value_heads\": 32, \"intermediate_size\": 8192,"
                    " \"vocab_size\": 32064, \"sliding_window\": 2047, \"resid_pdrop\": 0.0}", 3821079552 },
    { "Phi-4", "{\"model_type\": \"phi3\", \"num_hidden_layers\": 40, \"hidden_size\": 5120,"
               " \"num_attention_heads\": 40, \"num_key_value_heads\": 10, \"intermediate_size\": 17920,"
               " \"vocab_size\": 100352, \"sliding_window\": null}", 14659507200 },
    { "Granite 3.0 8B", "{\"model_type\": \"granite\", \"num_hidden_layers\": 40, \"hidden_size\": 4096,"
                        " \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 12800,"
                        " \"vocab_size\": 49155, \"tie_word_embeddings\": true}", 8170848256 },
    // Of those in the published file, 110,468,824,832, what predicts a token further is not here: a block, a product from
    // two hidden sizes to one and two norms in front, its own norm, embedding and head.
    { "GLM-4.5 Air", "{\"model_type\": \"glm4_moe\", \"num_hidden_layers\": 46, \"hidden_size\": 4096,"
                     " \"num_attention_heads\": 96, \"num_key_value_heads\": 8, \"head_dim\": 128,"
                     " \"intermediate_size\": 10944, \"vocab_size\": 151552, \"attention_bias\": true,"
                     " \"n_routed_experts\": 128, \"n_shared_experts\": 1, \"num_experts_per_tok\": 8,"
                     " \"moe_intermediate_size\": 1408, \"first_k_dense_replace\": 1, \"use_qk_norm\": false}",
      UINT64_C(110468824832) - (2341492864 + 2 * 4096 * 4096 + 3 * 4096 + UINT64_C(2) * 151552 * 4096) },
    { "Kimi K2", "{\"model_type\": \"kimi_k2\", \"num_hidden_layers\": 61, \"hidden_size\": 7168,"
                 " \"num_attention_heads\": 64, \"num_key_value_heads\": 64, \"intermediate_size\": 18432,"
                 " \"vocab_size\": 163840, \"q_lora_rank\": 1536, \"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128,"
                 " \"qk_rope_head_dim\": 64, \"v_head_dim\": 128, \"n_routed_experts\": 384, \"n_shared_experts\": 1,"
                 " \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 2048, \"first_k_dense_replace\": 1}",
      1026408232448 },
    // Of those in the published files, 108,641,793,536 and 401,583,781,376, 871,932,416 see images.
    { "Llama 4 Scout", "{" LLAMA4 ", \"num_local_experts\": 16, \"interleave_moe_layer_step\": 1}",
      108641793536 - 871932416 },
    { "Llama 4 Maverick", "{" LLAMA4 ", \"num_local_experts\": 128, \"interleave_moe_layer_step\": 2,"
                          " \"moe_layers\": [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39,"
                          " 41, 43, 45, 47]}",
      401583781376 - 871932416 },
};

static bool read(const char *text, struct transformer *model, struct error *error)
{
    return transformer_read(text, strlen(text), "config.json", model, error);
}

static void parameters_are_as_many_as_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        struct error error = { 0 };
        struct transformer model;
        if (!read(published[i].config, &model, &error))
            fail_msg("%s: %s", published[i].name, error.text);
        if (transformer_parameters(&model) != published[i].parameters)
            fail_msg("%s: %llu, not %llu", published[i].name, (unsigned long long)transformer_parameters(&model),
                     (unsigned long long)published[i].parameters);
    }
}

#define PLAIN                                                                                               \
    "\"hidden_size\": 64, \"num_attention_heads\": 4, \"intermediate_size\": 64, \"vocab_size\": 100,"       \
    " \"num_local_experts\": 8, \"num_experts_per_tok\": 4, \"num_hidden_layers\": 8"

// By F and S of each layer, as the file says it, against what is made of it; "": the file does not say it.
static void sees(const char *family, const char *types, const char *more, uint64_t window, uint64_t local_window,
                 const char *layers)
{
    char config[1000];
    int at = snprintf(config, sizeof config, "{" PLAIN ", \"model_type\": \"%s\"%s", family, more);
    for (size_t i = 0; types[i]; i++)
        at += snprintf(config + at, sizeof config - (size_t)at, "%s\"%s_attention\"", i ? ", " : ", \"layer_types\": [",
                       types[i] == 'F' ? "full" : "sliding");
    snprintf(config + at, sizeof config - (size_t)at, types[0] ? "]}" : "}");
    struct error error = { 0 };
    struct transformer model;
    if (!read(config, &model, &error))
        fail_msg("%s: %s", config, error.text);
    assert_int_equal(model.window, window);
    assert_int_equal(model.local_window, local_window);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(transformer_is_local(&model, i), layers[i] == 'S');
}

#define WIDE ", \"intermediate_size_mlp\": 128"

static void layers_see_what_their_types_say(void **state)
{
    (void)state;
    sees("gpt_oss", "", "", 0, 128, "SFSFSFSF");
    sees("gpt_oss", "", ", \"sliding_window\": 64", 0, 64, "SFSFSFSF");
    sees("gpt_oss", "SFSFFFFF", ", \"sliding_window\": 64", 0, 64, "SFSFFFFF");
    sees("gpt_oss", "SSSSSSSS", "", 128, 0, "FFFFFFFF");  // of one kind, as in a model that has no other
    sees("gpt_oss", "FFFFFFFF", "", 0, 0, "FFFFFFFF");
    sees("gemma", "", "", 0, 0, "FFFFFFFF");
    sees("gemma2", "", "", 0, 4096, "SFSFSFSF");
    sees("gemma3_text", "", ", \"sliding_window\": 512", 0, 512, "SSSSSFSS");
    sees("gemma3_text", "", ", \"sliding_window_pattern\": 4", 0, 4096, "SSSFSSSF");
    sees("gemma3_text", "SFFFFFFF", ", \"sliding_window_pattern\": 4", 0, 4096, "SFFFFFFF");
    sees("mistral", "", ", \"sliding_window\": 64", 64, 0, "FFFFFFFF");
    sees("llama4_text", "", WIDE, 0, 8192, "SSSFSSSF");
    sees("llama4_text", "", WIDE ", \"no_rope_layers\": [], \"attention_chunk_size\": 64", 0, 64, "SSSFSSSF");
    sees("llama4_text", "", WIDE ", \"no_rope_layer_interval\": 2", 0, 8192, "SFSFSFSF");
    sees("llama4_text", "", WIDE ", \"no_rope_layers\": [1, 1, 0, 0, 1, 1, 1, 1]", 0, 8192, "SSFFSSSS");
}

#define SOME ", \"use_sliding_window\": true, \"sliding_window\": 64"

static void layers_of_qwen_see_windows_from_one_on(void **state)
{
    (void)state;
    static const char *const families[] = { "qwen2", "qwen3" };
    for (int i = 0; i < 2; i++) {
        sees(families[i], "", ", \"sliding_window\": 64, \"max_window_layers\": 4", 0, 0, "FFFFFFFF");
        sees(families[i], "", SOME ", \"max_window_layers\": 5", 0, 64, "FFFFFSSS");
        sees(families[i], "", SOME ", \"max_window_layers\": 8", 0, 0, "FFFFFFFF");
        sees(families[i], "", SOME ", \"max_window_layers\": 0", 64, 0, "FFFFFFFF");
        sees(families[i], "", SOME, 0, 0, "FFFFFFFF");  // from the 28th on
        sees(families[i], "FSFSFSFS", SOME ", \"max_window_layers\": 5", 0, 64, "FSFSFSFS");
        sees(families[i], "FFFFFFFF", ", \"sliding_window\": 64", 0, 0, "FFFFFFFF");
    }
}

static const struct wrong {
    const char *config, *sentence;
} wrong[] = {
    { "[]", "config.json: is a list, not an object" },
    { "{}", "config.json: model_type: is missing: every config.json of a Hugging Face model has it" },
    { "{\"format\": \"weir.profile\"}",
      "config.json: model_type: is missing: the file is a \"weir.profile\", not the config.json of a Hugging Face model" },
    { "{\"text_config\": {\"model_type\": \"llama\"}}",
      "config.json: model_type: is missing; its text_config, in a file of its own, may have one" },
    { "{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"rwkv\"}}",
      "config.json: text_config.model_type: \"rwkv\"" UNKNOWN },
    { "{\"model_type\": \"seeing\", \"text_config\": {}}",
      "config.json: text_config.model_type: \"seeing\"" UNKNOWN },
    { "{\"model_type\": \"rwkv\"}", "config.json: model_type: \"rwkv\"" UNKNOWN },
    { "{\"model_type\": \"lama\"}", "config.json: model_type: \"lama\"" UNKNOWN ": did you mean llama?" },
    { "{\"model_type\": \"llama\", \"vocab_size\": 100}", "config.json: num_hidden_layers: is missing" },
    { "{\"model_type\": \"gpt2\", \"vocab_size\": 100, \"n_layer\": 2, \"n_embd\": 64, \"n_head\": 3,"
      " \"n_positions\": 16}", "config.json: its 3 heads do not divide its hidden size of 64" },
    { "{\"model_type\": \"llama\", \"vocab_size\": 100, \"num_hidden_layers\": 2, \"hidden_size\": 64,"
      " \"num_attention_heads\": 4, \"num_key_value_heads\": 3, \"intermediate_size\": 64}",
      "config.json: its 3 heads of keys and values do not divide its 4 heads" },
    { "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 100, \"num_hidden_layers\": 2, \"hidden_size\": 64,"
      " \"num_attention_heads\": 4, \"intermediate_size\": 64, \"num_experts\": 4, \"num_experts_per_tok\": 8,"
      " \"moe_intermediate_size\": 64}", "config.json: num_experts_per_tok: is 8, of 4 experts" },
    { "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 100, \"num_experts_per_tok\": 8}",
      "config.json: num_hidden_layers: is missing" },
    { "{\"model_type\": \"mixtral\", \"vocab_size\": 16777216, \"num_hidden_layers\": 4096, \"hidden_size\": 262144,"
      " \"num_attention_heads\": 64, \"intermediate_size\": 262144, \"num_local_experts\": 4096,"
      " \"num_experts_per_tok\": 1}", "config.json: says a model of more than 7 * 10^13 parameters" },
    { "{" GPT_OSS ", \"num_local_experts\": 8, \"num_hidden_layers\": 2, \"layer_types\": [\"full_attention\"]}",
      "config.json: layer_types: names 1 layers, and num_hidden_layers is 2" },
    { "{" GPT_OSS ", \"num_local_experts\": 8, \"num_hidden_layers\": 2,"
      " \"layer_types\": [\"full_attention\", \"linear_attention\"]}",
      "config.json: layer_types[1]: \"linear_attention\" is none of those that are estimated: full_attention,"
      " sliding_attention" },
    { "{\"model_type\": \"qwen3\", \"vocab_size\": 100, \"num_hidden_layers\": 1, \"hidden_size\": 64,"
      " \"num_attention_heads\": 4, \"intermediate_size\": 64, \"layer_types\": [\"sliding_attention\"]}",
      "config.json: layer_types: has sliding_attention, and there is no sliding_window" },
    { "{" LLAMA4 ", \"num_local_experts\": 16, \"no_rope_layer_interval\": 0}",
      "config.json: no_rope_layer_interval: is 0; it must be from 1 to 4096" },
    { "{" LLAMA4 ", \"num_local_experts\": 16, \"interleave_moe_layer_step\": 0, \"moe_layers\": [1]}",
      "config.json: interleave_moe_layer_step: is 0; it must be from 1 to 4096" },
    { "{\"model_type\": \"gemma3_text\", \"vocab_size\": 100, \"num_hidden_layers\": 2, \"hidden_size\": 64,"
      " \"num_attention_heads\": 4, \"intermediate_size\": 64, \"sliding_window_pattern\": 0}",
      "config.json: sliding_window_pattern: is 0; it must be from 1 to 4096" },
    { "{" LLAMA4 ", \"num_local_experts\": 16, \"no_rope_layers\": [1, 0]}",
      "config.json: no_rope_layers: has 2 layers, and num_hidden_layers is 48" },
    { "{" LLAMA4 ", \"num_local_experts\": 16, \"interleave_moe_layer_step\": 24, \"moe_layers\": [23, 46]}",
      "config.json: moe_layers: is not each interleave_moe_layer_step-th layer, and no estimate is made for others" },
    { "{" LLAMA4 ", \"num_local_experts\": 16, \"interleave_moe_layer_step\": 24, \"moe_layers\": [23]}",
      "config.json: moe_layers: is not each interleave_moe_layer_step-th layer, and no estimate is made for others" },
    { "{\"model_type\": \"llama4_text\", \"vocab_size\": 100, \"num_hidden_layers\": 1, \"hidden_size\": 64,"
      " \"num_attention_heads\": 4, \"intermediate_size\": 64, \"layer_types\": [\"sliding_attention\"]}",
      "config.json: layer_types[0]: \"sliding_attention\" is none of those that are estimated: full_attention,"
      " chunked_attention" },
};

static void what_is_wrong_is_a_sentence_with_the_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct error error = { 0 };
        struct transformer model;
        assert_false(read(wrong[i].config, &model, &error));
        assert_string_equal(error.text, wrong[i].sentence);
    }
}

// Sizes that the classes of transformers give what is left out; counted by transformers (python/tests/torch/
// test_estimated_families.py does so for every family).
static void what_a_file_leaves_out_is_as_its_class_has_it(void **state)
{
    (void)state;
    static const struct {
        const char *config, *notes;
        uint64_t parameters;
    } cases[] = {
        { "{\"model_type\": \"gemma3\", \"text_config\": {\"hidden_size\": 2560, \"intermediate_size\": 10240,"
          " \"model_type\": \"gemma3_text\", \"num_hidden_layers\": 34, \"sliding_window\": 1024}}",
          "gemma3: its text model alone is estimated, without what sees images or hears\n"
          "left out, and taken from the defaults of gemma3_text: vocab_size 262208, num_attention_heads 8,"
          " num_key_value_heads 4\n", 3880263168 },
        { "{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\", \"num_hidden_layers\": 3,"
          " \"vocab_size\": 32064}}",
          "llava: its text model alone is estimated, without what sees images or hears\n"
          "left out, and taken from the defaults of llama: hidden_size 4096, num_attention_heads 32, intermediate_size"
          " 11008\n", 869822464 },
        { "{\"model_type\": \"qwen2_vl\", \"num_hidden_layers\": 2, \"hidden_size\": 1536, \"num_attention_heads\": 12,"
          " \"num_key_value_heads\": 2, \"intermediate_size\": 8960, \"vocab_size\": 151936,"
          " \"tie_word_embeddings\": true}",
          "qwen2_vl: its text model alone is estimated, without what sees images or hears\n", 326970880 },
        { "{\"model_type\": \"mistral\", \"num_hidden_layers\": 2, \"attention_bias\": true, \"vocab_size\": 32000,"
          " \"hidden_size\": 4096, \"num_attention_heads\": 32, \"num_key_value_heads\": 8,"
          " \"intermediate_size\": 14336, \"layer_types\": [\"full_attention\"], \"rms_norm_eps\": 1e-5}",
          "attention_bias, layer_types: these keys are not read for mistral: see that they say nothing that costs"
          " time or memory\n", 698372096 },
        { "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"vocab_size\": 32000, \"hidden_size\": 4096,"
          " \"num_attention_heads\": 32, \"intermediate_size\": 11008, \"use_cache\": true, \"rope_theta\": 1e4,"
          " \"architectures\": [\"LlamaForSequenceClassification\"], \"add_cross_attention\": false}",
          "architectures: LlamaForSequenceClassification has a head of its own, and what is estimated is a model that"
          " predicts tokens\n", 666914816 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = { 0 };
        struct transformer model;
        struct text notes = { 0 };
        char path[64];
        snprintf(path, sizeof path, "left-out-%zu.json", i);
        struct text config = { 0 };
        text_add(&config, "%s", cases[i].config);
        assert_good(text_save(&config, path, &error), error);
        const bool good = transformer_load_noting(path, &model, &notes, &error);
        remove(path);
        assert_good(good, error);
        assert_string_equal(notes.data, cases[i].notes);
        assert_int_equal(transformer_parameters(&model), cases[i].parameters);
        text_clear(&config);
        text_clear(&notes);
    }
}

// Python writes them without quotes, in lists that no estimate reads.
static void infinite_limits_are_passed_over(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct transformer model;
    assert_good(read("{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"M-E*\", \"mamba_head_dim\": 64,"
                     " \"time_step_limit\": [0.0, Infinity], \"least\": -Infinity, \"none\": NaN,"
                     " \"what\": \"NaN\\\"\"}",
                     &model, &error), error);
    assert_int_equal(model.layers, 4);
    assert_int_equal(transformer_parameters(&model), 1968355712);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_as_many_as_published),
        cmocka_unit_test(layers_see_what_their_types_say),
        cmocka_unit_test(layers_of_qwen_see_windows_from_one_on),
        cmocka_unit_test(what_a_file_leaves_out_is_as_its_class_has_it),
        cmocka_unit_test(infinite_limits_are_passed_over),
        cmocka_unit_test(what_is_wrong_is_a_sentence_with_the_field),
    };
    return cmocka_run_group_tests_name("transformer", tests, NULL, NULL);
}
