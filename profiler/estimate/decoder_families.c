#include "profiler/estimate/families.h"

#include <string.h>

// --- fields -------------------------------------------------------------------

uint64_t read_size(struct config_fields *fields, const char *keys)
{
    return fields_number(fields, keys, 1, MOST_SIZE);
}

uint64_t read_size_or(struct config_fields *fields, const char *keys, uint64_t other)
{
    return fields_number_or(fields, keys, 1, MOST_SIZE, other);
}

uint64_t read_step_or(struct config_fields *fields, const char *keys, uint64_t other)
{
    const uint64_t step = fields_number_or(fields, keys, 1, TRANSFORMER_MOST_LAYERS, other);
    return step > 0 ? step : 1;
}

static uint64_t read_layers(struct config_fields *fields)
{
    static const char keys[] = "num_hidden_layers|n_layer|n_layers|num_layers";
    // A whole file that does not say so much is cut off, or is something else.
    if (!fields->is_within && !fields_state(fields, keys))
        return json_u64(fields->root, "num_hidden_layers", 1, TRANSFORMER_MOST_LAYERS);
    return fields_number(fields, keys, 1, TRANSFORMER_MOST_LAYERS);
}

void read_decoder_sizes(struct config_fields *fields, struct transformer *model)
{
    if (model->layers == 0)
        model->layers = read_layers(fields);
    model->hidden = read_size(fields, "hidden_size|n_embd|d_model|n_embed");
    model->heads = read_size(fields, "num_attention_heads|n_head|n_heads|num_heads");
    model->kv_heads = model->heads;
    model->is_tied = fields_flag(fields, "tie_word_embeddings");
    model->longest = fields_number_or(fields, "max_position_embeddings|n_positions|max_seq_len|seq_length", 1,
                                      MOST_POSITIONS, 0);
}

// Fields that have the same name in all later families.
static void read_common(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    model->kv_heads = model->heads;
    if (fields_have(fields, "num_key_value_heads"))
        model->kv_heads = read_size(fields, "num_key_value_heads");
    // The class's number is for its own number of heads.
    if (!fields_state(fields, "num_key_value_heads") && model->kv_heads > 0 && model->heads % model->kv_heads != 0)
        model->kv_heads = model->heads;
    model->head_size = read_size_or(fields, "head_dim", 0);
    model->is_rotary = true;
    model->drops_scores = fields_above_zero(fields, "attention_dropout");
}

static void read_window(struct config_fields *fields, struct transformer *model)
{
    const bool is_off = fields_have(fields, "use_sliding_window") && !fields_flag(fields, "use_sliding_window");
    if (fields_have(fields, "sliding_window") && !is_off)
        model->window = fields_number_or(fields, "sliding_window", 1, MOST_POSITIONS, 0);
}

// --- layers, word by word -------------------------------------------------------

void read_layer_words(struct config_fields *fields, const char *keys, const char *known, take_layer *take,
                      struct transformer *model)
{
    struct json list, item;
    if (!fields_list(fields, keys, &list))
        return;
    const size_t count = json_count(&list);
    if (count != model->layers) {
        json_refuse(&list, "names %zu layers, and num_hidden_layers is %llu", count,
                    (unsigned long long)model->layers);
        return;
    }
    for (uint64_t i = 0; json_next(&list, &item); i++) {
        const char *word = json_item_string(&item);
        if (!take(model, i, word))
            json_refuse(&item, "\"%.40s\" is none of those that are estimated: %s", word, known);
    }
}

static bool take_window(struct transformer *model, uint64_t layer, const char *word)
{
    model->is_local[layer] = strcmp(word, model->has_chunks ? "chunked_attention" : "sliding_attention") == 0;
    return model->is_local[layer] || strcmp(word, "full_attention") == 0;
}

void read_windows(struct config_fields *fields, uint64_t every, struct transformer *model)
{
    for (uint64_t i = 0; i < model->layers && every > 0; i++)
        model->is_local[i] = model->window > 0 && (i + 1) % every != 0;
    read_layer_words(fields, "layer_types",
                     model->has_chunks ? "full_attention, chunked_attention" : "full_attention, sliding_attention",
                     take_window, model);
    uint64_t local = 0;
    for (uint64_t i = 0; i < model->layers; i++)
        local += model->is_local[i];
    if (local > 0 && model->window == 0)
        json_refuse_key(fields->root, "layer_types", "has sliding_attention, and there is no sliding_window");
    if (local == model->layers)
        return;
    model->local_window = local > 0 ? model->window : 0;
    model->window = 0;
}

void read_rotated_layers(struct config_fields *fields, bool rotated_are_local, struct transformer *model)
{
    struct json list, item;
    if (!fields_list(fields, "no_rope_layers", &list))
        return;
    const size_t count = json_count(&list);
    if (count > 0 && count != model->layers)
        json_refuse(&list, "has %zu layers, and num_hidden_layers is %llu", count, (unsigned long long)model->layers);
    for (uint64_t i = 0; i < model->layers && json_next(&list, &item); i++)
        model->is_local[i] = json_item_u64(&item, 0, 1) == rotated_are_local;
}

// Each `every`th layer sees everything, from the first one on.
static void see_all_from_first(uint64_t every, struct transformer *model)
{
    for (uint64_t i = 0; i < model->layers; i++)
        model->is_local[i] = model->window > 0 && i % every != 0;
}

// --- GPT and what came before Llama ----------------------------------------------

static void have_biases(struct transformer *model, bool has)
{
    model->attention_biases = model->output_bias = model->mlp_biases = has;
}

static void read_gpt2(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    model->ffn = read_size_or(fields, "n_inner", 4 * model->hidden);
    model->positions = model->longest;
    model->has_layer_norm = true;
    have_biases(model, true);
    model->drops = fields_above_zero(fields, "resid_pdrop");
    model->drops_scores = fields_above_zero(fields, "attn_pdrop");
    if (fields_flag(fields, "add_cross_attention"))
        json_refuse_key(fields->root, "add_cross_attention", "is true, and no estimate is made for a decoder that"
                        " reads an encoder");
}

static void read_gpt_bigcode(struct config_fields *fields, struct transformer *model)
{
    read_gpt2(fields, model);
    if (fields_flag(fields, "multi_query"))
        model->kv_heads = 1;
}

static void read_gpt_neo_layers(struct config_fields *fields, struct transformer *model)
{
    struct json list, item, words, word;
    uint64_t layer = 0;
    if (!fields_list(fields, "attention_types", &list))
        return;
    while (json_next(&list, &item)) {
        json_item_array(&item);
        if (!json_next(&item, &words))
            continue;
        struct json again = item, count;
        const uint64_t times = json_next(&again, &count) ? json_item_u64(&count, 0, TRANSFORMER_MOST_LAYERS) : 0;
        for (uint64_t i = 0; i < times && layer < model->layers; i++) {
            struct json each = words;
            json_item_array(&each);
            while (json_next(&each, &word) && layer < model->layers)
                model->is_local[layer++] = strcmp(json_item_string(&word), "local") == 0;
        }
    }
    if (layer != model->layers)
        json_refuse(&list, "names %llu layers, and num_layers is %llu", (unsigned long long)layer,
                    (unsigned long long)model->layers);
}

static void read_gpt_neo(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    model->ffn = read_size_or(fields, "intermediate_size", 4 * model->hidden);
    model->positions = model->longest;
    model->has_layer_norm = model->output_bias = model->mlp_biases = true;
    model->drops = fields_above_zero(fields, "resid_dropout");
    model->drops_scores = fields_above_zero(fields, "attention_dropout");
    model->window = fields_number_or(fields, "window_size", 1, MOST_POSITIONS, 256);
    for (uint64_t i = 0; i < model->layers; i++)
        model->is_local[i] = i % 2 == 1;
    read_gpt_neo_layers(fields, model);
    read_windows(fields, 0, model);
}

static void read_gpt_neox(struct config_fields *fields, struct transformer *model)
{
    read_common(fields, model);
    model->ffn = read_size(fields, "intermediate_size");
    model->attention_biases = model->output_bias = fields_flag(fields, "attention_bias");
    model->has_layer_norm = model->mlp_biases = true;
    model->drops = fields_above_zero(fields, "hidden_dropout");
    fields_know(fields, "use_parallel_residual");  // the products are the same either way
}

// Attention and MLP read the same norm.
static void share_norm(struct transformer *model)
{
    model->is_parallel = model->shares_norm = true;
}

static void read_gptj(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    share_norm(model);
    model->ffn = read_size_or(fields, "n_inner", 4 * model->hidden);
    model->is_rotary = model->has_layer_norm = model->mlp_biases = model->head_bias = true;
    model->drops = fields_above_zero(fields, "resid_pdrop");
    model->drops_scores = fields_above_zero(fields, "attn_pdrop");
}

static void read_bloom(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    model->ffn = 4 * model->hidden;
    model->has_layer_norm = model->has_alibi = model->embedding_norm = true;
    have_biases(model, true);
    model->drops = fields_above_zero(fields, "hidden_dropout");
    model->drops_scores = fields_above_zero(fields, "attention_dropout");
}

// Its newer architecture has two norms in front of a block, one for attention and one for the MLP, unless it says one.
static void read_falcon_norms(struct config_fields *fields, bool is_new, struct transformer *model)
{
    const uint64_t norms = fields_number_or(fields, "num_ln_in_parallel_attn", 1, 2, is_new ? 2 : 1);
    model->is_parallel = is_new || fields_flag(fields, "parallel_attn");
    model->shares_norm = model->is_parallel && norms == 1;
}

static void read_falcon(struct config_fields *fields, struct transformer *model)
{
    const bool is_new = fields_flag(fields, "new_decoder_architecture");
    read_decoder_sizes(fields, model);
    if (is_new)
        model->kv_heads = read_size_or(fields, "num_kv_heads|n_head_kv", model->heads);
    else if (fields_flag(fields, "multi_query"))
        model->kv_heads = 1;
    model->ffn = read_size_or(fields, "ffn_hidden_size", 4 * model->hidden);
    model->has_layer_norm = true;
    have_biases(model, fields_flag(fields, "bias"));
    model->has_alibi = fields_flag(fields, "alibi");
    model->is_rotary = !model->has_alibi;
    model->drops = fields_above_zero(fields, "hidden_dropout");
    model->drops_scores = fields_above_zero(fields, "attention_dropout");
    read_falcon_norms(fields, is_new, model);
}

static void read_mpt(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    model->ffn = read_step_or(fields, "expansion_ratio", 4) * model->hidden;
    model->centered_norms = model->has_alibi = true;
    model->drops = fields_above_zero(fields, "resid_pdrop");
    fields_know(fields, "attn_config|no_bias|learned_pos_emb|norm_type");  // its class has slopes and no biases, always
}

// Two positions more than it takes are learned, since the first two are kept for padding.
static void read_opt(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    model->ffn = read_size(fields, "ffn_dim");
    model->positions = model->longest + 2;
    model->has_layer_norm = true;
    have_biases(model, fields_flag(fields, "enable_bias"));
    model->drops = fields_above_zero(fields, "dropout");
    model->drops_scores = fields_above_zero(fields, "attention_dropout");
    if (fields_number_or(fields, "word_embed_proj_dim", 1, MOST_SIZE, model->hidden) != model->hidden)
        json_refuse_key(fields->root, "word_embed_proj_dim", "is not the hidden size of %llu, and no estimate is made"
                        " for the products between them", (unsigned long long)model->hidden);
    if (!fields_flag(fields, "do_layer_norm_before"))
        json_refuse_key(fields->root, "do_layer_norm_before", "is false, and no estimate is made for norms behind"
                        " layers and none at the end");
}

static void read_phi(struct config_fields *fields, struct transformer *model)
{
    read_common(fields, model);
    share_norm(model);
    model->ffn = read_size(fields, "intermediate_size");
    model->has_layer_norm = model->head_bias = true;
    have_biases(model, true);
    model->drops = fields_above_zero(fields, "resid_pdrop");
    if (fields_flag(fields, "qk_layernorm"))
        json_refuse_key(fields->root, "qk_layernorm", "is true, and no estimate is made for layer norms of heads with"
                        " biases");
}

static void read_starcoder2(struct config_fields *fields, struct transformer *model)
{
    read_common(fields, model);
    read_window(fields, model);
    model->ffn = read_size(fields, "intermediate_size");
    model->has_layer_norm = true;
    have_biases(model, fields_flag(fields, "use_bias"));
    model->drops = fields_above_zero(fields, "residual_dropout");
}

// --- Llama, and what differs from it ---------------------------------------------

void read_llama(struct config_fields *fields, struct transformer *model)
{
    read_llama_as(fields, "intermediate_size", model);
}

void read_llama_as(struct config_fields *fields, const char *ffn, struct transformer *model)
{
    read_common(fields, model);
    read_window(fields, model);
    model->ffn = read_size(fields, ffn);
    model->is_gated = true;
    model->attention_biases = model->output_bias = fields_flag(fields, "attention_bias");
    model->mlp_biases = fields_flag(fields, "mlp_bias");
}

// Its class has no biases, whatever a file says of them.
void read_mistral(struct config_fields *fields, struct transformer *model)
{
    read_common(fields, model);
    read_window(fields, model);
    model->ffn = read_size(fields, "intermediate_size");
    model->is_gated = true;
}

// Its class has the kinds of layers.
static void read_ministral(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    for (uint64_t i = 0; i < model->layers; i++)
        model->is_local[i] = model->window > 0;
    read_windows(fields, 0, model);
}

// Layers from `max_window_layers` on see a window, if any layer does.
static void read_qwen_windows(struct config_fields *fields, struct transformer *model)
{
    const uint64_t first = fields_number_or(fields, "max_window_layers", 0, TRANSFORMER_MOST_LAYERS, 28);
    const bool some = fields_flag(fields, "use_sliding_window") && model->window > 0;
    for (uint64_t i = first; i < model->layers && some; i++)
        model->is_local[i] = true;
    if (!some)
        model->window = 0;
    read_windows(fields, 0, model);
}

void read_qwen2(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    model->attention_biases = true;
    read_qwen_windows(fields, model);
}

void read_qwen3(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->normed_heads = true;
    read_qwen_windows(fields, model);
}

static void read_phi3(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    model->drops = fields_above_zero(fields, "resid_pdrop");
}

static void read_gemma(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->mlp_biases = false;
}

static void read_vaultgemma(struct config_fields *fields, struct transformer *model)
{
    read_gemma(fields, model);
    model->caps_logits = fields_have(fields, "final_logit_softcapping");
    read_windows(fields, 2, model);
}

static void read_gemma2(struct config_fields *fields, struct transformer *model)
{
    read_vaultgemma(fields, model);
    model->norms_twice = true;
}

static void read_gemma3(struct config_fields *fields, struct transformer *model)
{
    read_gemma(fields, model);
    model->norms_twice = model->normed_heads = true;
    model->caps_logits = fields_have(fields, "final_logit_softcapping");
    read_windows(fields, read_step_or(fields, "sliding_window_pattern|_sliding_window_pattern", 6), model);
}

static void read_olmo(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->bare_norms = true;
}

// Its norms come after the products, not before. There are as many passes, and as many bytes are kept.
void read_olmo2(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->normed_heads = model->norms_across = true;
}

static void read_olmo3(struct config_fields *fields, struct transformer *model)
{
    read_olmo2(fields, model);
    read_windows(fields, 4, model);
}

// A pattern such as "LLLG" or a number: of how many layers the last sees everything. Without one all do.
void read_exaone4(struct config_fields *fields, struct transformer *model)
{
    char pattern[64];
    read_mistral(fields, model);
    model->normed_heads = true;
    fields_word(fields, "sliding_window_pattern", pattern, sizeof pattern);
    const bool is_word = strspn(pattern, "LG") == strlen(pattern) && pattern[0];
    read_windows(fields, is_word ? strlen(pattern) : read_step_or(fields, "sliding_window_pattern", 1), model);
}

void read_glm(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->output_bias = model->mlp_biases = false;
}

static void read_glm4(struct config_fields *fields, struct transformer *model)
{
    read_glm(fields, model);
    model->norms_twice = true;
}

static void read_smollm3(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->window = fields_flag(fields, "use_sliding_window") ? model->window : 0;
    const uint64_t every = read_step_or(fields, "no_rope_layer_interval", 4);
    for (uint64_t i = 0; i < model->layers; i++)
        model->is_local[i] = (i + 1) % every == 0;
    read_rotated_layers(fields, false, model);
    for (uint64_t i = 0; i < model->layers && model->window == 0; i++)
        model->is_local[i] = false;
    read_windows(fields, 0, model);
}

static void read_seed_oss(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->output_bias = fields_flag(fields, "attention_out_bias");
    model->drops = fields_above_zero(fields, "residual_dropout");
}

// Its activation has two parameters of its own.
static void read_apertus(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->is_gated = model->mlp_biases = false;
    model->normed_heads = true;
    model->activation_parameters = 2;
}

void read_hunyuan(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->mlp_biases = false;
    model->normed_heads = true;
}

static void read_cohere(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    share_norm(model);
    model->mlp_biases = false;
    model->centered_norms = true;
    model->normed_heads = model->norms_across = fields_flag(fields, "use_qk_norm");
}

static void read_cohere2(struct config_fields *fields, struct transformer *model)
{
    read_cohere(fields, model);
    read_windows(fields, read_step_or(fields, "sliding_window_pattern|_sliding_window_pattern", 4), model);
}

static void read_stablelm(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    model->has_layer_norm = true;
    model->attention_biases = fields_flag(fields, "use_qkv_bias");
    model->normed_heads = model->norms_across = fields_flag(fields, "qk_layernorm");
    model->is_parallel = model->shares_norm = fields_flag(fields, "use_parallel_residual");
    model->drops = fields_above_zero(fields, "hidden_dropout");
}

static void read_nemotron(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->is_gated = false;
    model->has_layer_norm = true;
}

static void read_arcee(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->is_gated = false;
}

static void read_helium(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->output_bias = false;
}

void read_ernie(struct config_fields *fields, struct transformer *model)
{
    read_common(fields, model);
    model->ffn = read_size(fields, "intermediate_size");
    model->is_gated = true;
    have_biases(model, fields_flag(fields, "use_bias"));
}

static void read_cwm(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    model->mlp_biases = fields_flag(fields, "mlp_bias");
    see_all_from_first(4, model);
    read_windows(fields, 0, model);
}

void read_granite_windows(struct config_fields *fields, struct transformer *model)
{
    model->has_sinks = true;
    see_all_from_first(4, model);
    read_windows(fields, 0, model);
    fields_know(fields, "layer_rope_theta");  // layers without rotation save a pass
}

static void read_granite_swa(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    read_granite_windows(fields, model);
}

static void read_hyperclovax(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->norms_twice = fields_flag(fields, "use_post_norm");
}

// No norm has parameters, and the embedding passes one.
static void read_nanochat(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->is_gated = model->mlp_biases = false;
    model->bare_norms = model->normed_heads = model->embedding_norm = true;
    model->caps_logits = fields_have(fields, "final_logit_softcapping");
}

static void read_emu3(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->drops = model->drops_scores;
}

// --- the families ---------------------------------------------------------------

#define GPT2 "n_layer 12 n_embd 768 n_head 12 n_positions 1024 tie_word_embeddings 1 attn_pdrop 0.1 resid_pdrop 0.1"

const struct family decoder_families[] = {
    // layers, width, heads, heads of keys, width of a head, width inside an MLP, words, window
    { "llama", read_llama, { 32, 4096, 32, 0, 0, 11008, 32000, 0 }, "" },
    { "mistral", read_mistral, { 32, 4096, 32, 8, 0, 14336, 32000, 4096 }, "" },
    { "ministral", read_ministral, { 32, 4096, 32, 8, 0, 14336, 32000, 4096 }, "" },
    { "ministral3", read_mistral, { 34, 4096, 32, 8, 128, 14336, 131072, 0 }, "" },
    { "qwen2", read_qwen2, { 32, 4096, 32, 32, 0, 22016, 151936, 4096 }, "" },
    { "qwen2_vl_text", read_qwen2, { 80, 8192, 64, 8, 0, 29568, 152064, 4096 }, "" },
    { "qwen2_5_vl_text", read_qwen2, { 80, 8192, 64, 8, 0, 29568, 152064, 4096 }, "" },
    { "qwen3", read_qwen3, { 32, 4096, 32, 32, 128, 22016, 151936, 4096 }, "" },
    { "qwen3_vl_text", read_qwen3, { 32, 4096, 32, 32, 128, 22016, 151936, 0 }, "" },
    { "gpt2", read_gpt2, { 0, 0, 0, 0, 0, 0, 50257, 0 }, GPT2 },
    { "gpt_bigcode", read_gpt_bigcode, { 0, 0, 0, 0, 0, 0, 50257, 0 }, GPT2 " multi_query 1" },
    { "gpt_neo", read_gpt_neo, { 0, 2048, 0, 0, 0, 0, 50257, 0 },
      "num_layers 24 num_heads 16 max_position_embeddings 2048 window_size 256 tie_word_embeddings 1" },
    { "gpt_neox", read_gpt_neox, { 44, 6144, 64, 0, 0, 24576, 50432, 0 }, "attention_bias 1" },
    { "gptj", read_gptj, { 0, 0, 0, 0, 0, 0, 50400, 0 }, "n_layer 28 n_embd 4096 n_head 16" },
    { "codegen", read_gptj, { 0, 0, 0, 0, 0, 0, 50400, 0 }, "n_layer 28 n_embd 4096 n_head 16" },
    { "bloom", read_bloom, { 0, 64, 0, 0, 0, 0, 250880, 0 }, "n_layer 2 n_head 8 tie_word_embeddings 1" },
    { "falcon", read_falcon, { 32, 4544, 71, 0, 0, 0, 65024, 0 },
      "tie_word_embeddings 1 multi_query 1 parallel_attn 1" },
    { "mpt", read_mpt, { 0, 0, 0, 0, 0, 0, 50368, 0 },
      "n_layers 24 d_model 2048 n_heads 16 expansion_ratio 4 tie_word_embeddings 1" },
    { "opt", read_opt, { 12, 768, 12, 0, 0, 0, 50272, 0 },
      "ffn_dim 3072 max_position_embeddings 2048 tie_word_embeddings 1 enable_bias 1 do_layer_norm_before 1 "
      "dropout 0.1 activation_function relu" },
    { "phi", read_phi, { 24, 2048, 32, 0, 0, 8192, 51200, 0 }, "" },
    { "phi3", read_phi3, { 32, 3072, 32, 0, 0, 8192, 32064, 0 }, "" },
    { "starcoder2", read_starcoder2, { 30, 3072, 24, 2, 0, 12288, 49152, 0 }, "tie_word_embeddings 1 use_bias 1" },
    { "gemma", read_gemma, { 28, 3072, 16, 16, 256, 24576, 256000, 0 },
      "tie_word_embeddings 1 hidden_act gelu_pytorch_tanh" },
    { "gemma2", read_gemma2, { 26, 2304, 8, 4, 256, 9216, 256000, 4096 },
      "tie_word_embeddings 1 final_logit_softcapping 30 hidden_activation gelu_pytorch_tanh" },
    { "gemma3_text", read_gemma3, { 26, 2304, 8, 4, 256, 9216, 262208, 4096 },
      "tie_word_embeddings 1 hidden_activation gelu_pytorch_tanh" },
    { "granite", read_llama, { 32, 4096, 32, 0, 0, 11008, 32000, 0 }, "" },
    { "olmo", read_olmo, { 32, 4096, 32, 0, 0, 11008, 50304, 0 }, "" },
    { "olmo2", read_olmo2, { 32, 4096, 32, 0, 0, 11008, 50304, 0 }, "" },
    { "olmo3", read_olmo3, { 32, 4096, 32, 0, 0, 11008, 50304, 4096 }, "" },
    { "exaone4", read_exaone4, { 32, 4096, 32, 32, 0, 16384, 102400, 4096 }, "sliding_window_pattern 4" },
    { "glm", read_glm, { 40, 4096, 32, 2, 128, 13696, 151552, 0 }, "attention_bias 1" },
    { "glm4", read_glm4, { 40, 4096, 32, 2, 128, 13696, 151552, 0 }, "attention_bias 1" },
    { "glm4v_text", read_glm4, { 40, 4096, 32, 2, 0, 13696, 151552, 0 }, "attention_bias 1" },
    { "smollm3", read_smollm3, { 36, 2048, 16, 4, 0, 11008, 128256, 0 }, "tie_word_embeddings 1" },
    { "seed_oss", read_seed_oss, { 64, 4096, 80, 8, 128, 27648, 155136, 0 },
      "attention_bias 1 attention_dropout 0.1 residual_dropout 0.1" },
    { "apertus", read_apertus, { 32, 4096, 32, 0, 0, 14336, 131072, 0 }, "hidden_act xielu" },
    { "hunyuan_v1_dense", read_hunyuan, { 32, 4096, 32, 0, 0, 11008, 290943, 0 }, "" },
    { "cohere", read_cohere, { 40, 8192, 64, 0, 0, 22528, 256000, 0 }, "tie_word_embeddings 1" },
    { "cohere2", read_cohere2, { 40, 8192, 64, 0, 0, 22528, 256000, 4096 }, "tie_word_embeddings 1" },
    { "stablelm", read_stablelm, { 32, 2560, 32, 32, 0, 6912, 50304, 0 }, "" },
    { "nemotron", read_nemotron, { 32, 6144, 48, 0, 0, 24576, 256000, 0 }, "hidden_act relu2" },
    { "arcee", read_arcee, { 32, 2560, 32, 0, 0, 18432, 32000, 0 }, "hidden_act relu2" },
    { "helium", read_helium, { 24, 2560, 20, 20, 128, 7040, 48000, 0 }, "" },
    { "internlm3", read_glm, { 48, 4096, 32, 2, 128, 10240, 128512, 0 }, "" },
    { "ernie4_5", read_ernie, { 18, 1024, 16, 2, 128, 3072, 103424, 0 }, "tie_word_embeddings 1" },
    { "cwm", read_cwm, { 64, 6144, 48, 8, 128, 21504, 128256, 8192 }, "" },
    { "exaone", read_llama, { 32, 4096, 32, 8, 0, 14336, 102400, 0 }, "" },
    { "iquestcoder", read_llama, { 80, 5120, 40, 8, 128, 27648, 76800, 0 }, "" },
    { "vaultgemma", read_vaultgemma, { 26, 2304, 8, 4, 256, 9216, 256000, 4096 },
      "tie_word_embeddings 1 final_logit_softcapping 30 hidden_activation gelu_pytorch_tanh" },
    { "hyperclovax", read_hyperclovax, { 32, 4096, 32, 0, 0, 11008, 32000, 0 }, "use_post_norm 1" },
    { "granite_swa", read_granite_swa, { 24, 2560, 20, 4, 0, 8192, 100352, 128 }, "tie_word_embeddings 1" },
    { "nanochat", read_nanochat, { 12, 768, 6, 0, 0, 8192, 50304, 0 }, "final_logit_softcapping 15 hidden_act relu2" },
    { "jais2", read_nemotron, { 32, 3328, 26, 0, 0, 26624, 150272, 0 },
      "attention_bias 1 mlp_bias 1 hidden_act relu2" },
    { "gpt-sw3", read_gpt2, { 0, 0, 0, 0, 0, 0, 50257, 0 }, GPT2 " activation_function gelu_new" },
    { "emu3_text_model", read_emu3, { 32, 4096, 32, 8, 0, 14336, 184622, 0 }, "attention_dropout 0.1" },
    { 0 },
};
