#include "profiler/estimate/decoder_families.h"

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

// A layer sees everything if its queries and keys are not rotated.
static void read_rotated_layers(struct config_fields *fields, bool rotated_are_local, struct transformer *model)
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

// --- GPT and what came before Llama ----------------------------------------------

static void have_biases(struct transformer *model, bool has)
{
    model->attention_biases = model->output_bias = model->mlp_biases = has;
}

void read_gpt2(struct config_fields *fields, struct transformer *model)
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

void read_gpt_bigcode(struct config_fields *fields, struct transformer *model)
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

void read_gpt_neo(struct config_fields *fields, struct transformer *model)
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

void read_gpt_neox(struct config_fields *fields, struct transformer *model)
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

void read_gptj(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    share_norm(model);
    model->ffn = read_size_or(fields, "n_inner", 4 * model->hidden);
    model->is_rotary = model->has_layer_norm = model->mlp_biases = model->head_bias = true;
    model->drops = fields_above_zero(fields, "resid_pdrop");
    model->drops_scores = fields_above_zero(fields, "attn_pdrop");
}

void read_bloom(struct config_fields *fields, struct transformer *model)
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

void read_falcon(struct config_fields *fields, struct transformer *model)
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

void read_mpt(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    model->ffn = read_step_or(fields, "expansion_ratio", 4) * model->hidden;
    model->centered_norms = model->has_alibi = true;
    model->drops = fields_above_zero(fields, "resid_pdrop");
    fields_know(fields, "attn_config|no_bias|learned_pos_emb|norm_type");  // its class has slopes and no biases, always
}

// Two positions more than it takes are learned, since the first two are kept for padding.
void read_opt(struct config_fields *fields, struct transformer *model)
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

void read_phi(struct config_fields *fields, struct transformer *model)
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

void read_starcoder2(struct config_fields *fields, struct transformer *model)
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
void read_ministral(struct config_fields *fields, struct transformer *model)
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

void read_phi3(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    model->drops = fields_above_zero(fields, "resid_pdrop");
}

void read_gemma(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->mlp_biases = false;
}

void read_gemma2(struct config_fields *fields, struct transformer *model)
{
    read_gemma(fields, model);
    model->norms_twice = true;
    model->caps_logits = fields_have(fields, "final_logit_softcapping");
    read_windows(fields, 2, model);
}

void read_gemma3(struct config_fields *fields, struct transformer *model)
{
    read_gemma(fields, model);
    model->norms_twice = model->normed_heads = true;
    model->caps_logits = fields_have(fields, "final_logit_softcapping");
    read_windows(fields, read_step_or(fields, "sliding_window_pattern|_sliding_window_pattern", 6), model);
}

void read_olmo(struct config_fields *fields, struct transformer *model)
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

void read_olmo3(struct config_fields *fields, struct transformer *model)
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

void read_glm4(struct config_fields *fields, struct transformer *model)
{
    read_glm(fields, model);
    model->norms_twice = true;
}

void read_smollm3(struct config_fields *fields, struct transformer *model)
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

void read_seed_oss(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->output_bias = fields_flag(fields, "attention_out_bias");
    model->drops = fields_above_zero(fields, "residual_dropout");
}

// Its activation has two parameters of its own.
void read_apertus(struct config_fields *fields, struct transformer *model)
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

void read_cohere(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    share_norm(model);
    model->mlp_biases = false;
    model->centered_norms = true;
    model->normed_heads = model->norms_across = fields_flag(fields, "use_qk_norm");
}

void read_cohere2(struct config_fields *fields, struct transformer *model)
{
    read_cohere(fields, model);
    read_windows(fields, read_step_or(fields, "sliding_window_pattern|_sliding_window_pattern", 4), model);
}

void read_stablelm(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    model->has_layer_norm = true;
    model->attention_biases = fields_flag(fields, "use_qkv_bias");
    model->normed_heads = model->norms_across = fields_flag(fields, "qk_layernorm");
    model->is_parallel = model->shares_norm = fields_flag(fields, "use_parallel_residual");
    model->drops = fields_above_zero(fields, "hidden_dropout");
}

void read_nemotron(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->is_gated = false;
    model->has_layer_norm = true;
}

void read_arcee(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->is_gated = false;
}

void read_helium(struct config_fields *fields, struct transformer *model)
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

// --- experts --------------------------------------------------------------------

static void read_chosen(struct config_fields *fields, const char *experts, struct transformer *model)
{
    model->experts = fields_number(fields, experts, 2, MOST_EXPERTS);
    model->chosen = fields_number(fields, "num_experts_per_tok|moe_topk|moe_k", 1, MOST_EXPERTS);
    model->expert_every = 1;
}

void read_mixtral(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    read_chosen(fields, "num_local_experts", model);
    model->expert_ffn = model->ffn;
}

void read_gpt_oss(struct config_fields *fields, struct transformer *model)
{
    read_mixtral(fields, model);
    model->attention_biases = model->output_bias = fields_flag(fields, "attention_bias");
    model->has_sinks = model->biased_experts = true;
    read_windows(fields, 2, model);
}

// Layers that the list names have no experts.
static void read_dense_layers(struct config_fields *fields, struct transformer *model)
{
    struct json list, item;
    if (!fields_list(fields, "mlp_only_layers", &list) || json_count(&list) == 0)
        return;
    for (uint64_t i = 0; i < model->layers; i++)
        model->marks[i] |= (i + 1) % model->expert_every == 0 ? LAYER_SPARSE : 0;
    while (json_next(&list, &item)) {
        const uint64_t layer = json_item_u64(&item, 0, TRANSFORMER_MOST_LAYERS - 1);
        model->marks[layer] &= (uint8_t)~LAYER_SPARSE;
    }
    model->marks_experts = true;
}

void read_qwen_experts(struct config_fields *fields, struct transformer *model)
{
    read_chosen(fields, "num_experts|num_local_experts", model);
    model->expert_ffn = read_size(fields, "moe_intermediate_size");
    model->expert_every = read_step_or(fields, "decoder_sparse_step", 1);
    read_dense_layers(fields, model);
}

void read_qwen2_moe(struct config_fields *fields, struct transformer *model)
{
    read_qwen2(fields, model);
    model->attention_biases = fields_flag(fields, "qkv_bias");
    read_qwen_experts(fields, model);
    model->shared_ffn = read_size(fields, "shared_expert_intermediate_size");
    model->gated_shared = true;
}

void read_qwen3_moe(struct config_fields *fields, struct transformer *model)
{
    read_qwen3(fields, model);
    read_qwen_experts(fields, model);
}

void read_olmoe(struct config_fields *fields, struct transformer *model)
{
    read_olmo2(fields, model);
    read_chosen(fields, "num_experts|num_local_experts", model);
    model->expert_ffn = model->ffn;
}

// The shared expert has a size of its own. With no experts it is a plain MLP.
void read_granite_experts(struct config_fields *fields, struct transformer *model)
{
    const uint64_t shared = fields_number_or(fields, "shared_intermediate_size", 0, MOST_SIZE, 0);
    read_llama(fields, model);
    model->mlp_biases = false;
    if (fields_number(fields, "num_local_experts", 0, MOST_EXPERTS) == 0) {
        model->ffn = shared;
        if (shared == 0)
            json_refuse_key(fields->root, "shared_intermediate_size", "is 0, and there are no experts");
        return;
    }
    read_chosen(fields, "num_local_experts", model);
    model->expert_ffn = model->ffn;
    model->shared_ffn = shared;
}

void read_phimoe(struct config_fields *fields, struct transformer *model)
{
    read_mixtral(fields, model);
    model->has_layer_norm = true;
    model->attention_biases = model->output_bias = fields_flag(fields, "attention_bias");
    model->head_bias = fields_flag(fields, "lm_head_bias");
}

void read_minimax_m2(struct config_fields *fields, struct transformer *model)
{
    read_mixtral(fields, model);
    model->normed_heads = model->norms_across = true;
    model->corrected_router = model->buffered_correction = true;
    fields_know(fields, "use_qk_norm|use_routing_bias|qk_norm_type|attn_type_list");  // as its class always has them
}

static void read_latent(struct config_fields *fields, struct transformer *model)
{
    model->is_latent = true;
    model->query_rank = read_size_or(fields, "q_lora_rank", 0);
    model->value_rank = read_size(fields, "kv_lora_rank");
    model->nope_size = read_size(fields, "qk_nope_head_dim");
    model->rope_size = read_size(fields, "qk_rope_head_dim");
    model->value_size = read_size(fields, "v_head_dim");
    model->head_size = model->nope_size + model->rope_size;
    if (fields_flag(fields, "attention_bias"))
        json_refuse_key(fields->root, "attention_bias", "is true, and no estimate is made for latent attention with"
                        " biases");
}

static bool take_sparse(struct transformer *model, uint64_t layer, const char *word)
{
    const bool is_sparse = strcmp(word, "sparse") == 0;
    model->marks[layer] |= is_sparse ? LAYER_SPARSE : 0;
    model->marks_experts = true;
    return is_sparse || strcmp(word, "dense") == 0;
}

// Groups that leave no choice are left out. Those that a file leaves out limit nothing.
static void read_router_groups(struct config_fields *fields, struct transformer *model)
{
    const uint64_t groups = fields_number_or(fields, "n_group", 1, model->experts, 1);
    const uint64_t chosen = fields_number_or(fields, "topk_group", 1, groups, groups);
    char method[32];
    fields_word(fields, "topk_method", method, sizeof method);
    if (chosen == groups || strcmp(method, "greedy") == 0)
        return;
    if (model->experts % groups != 0 || chosen * (model->experts / groups) < model->chosen)
        json_refuse_key(fields->root, "n_group", "does not divide the experts, or its topk_group groups have fewer"
                        " experts than a token is sent to");
    model->router_groups = groups;
    model->chosen_groups = chosen;
}

void read_deepseek_experts(struct config_fields *fields, struct transformer *model)
{
    read_chosen(fields, "n_routed_experts|num_local_experts", model);
    model->expert_ffn = read_size(fields, "moe_intermediate_size");
    model->shared_ffn = fields_number_or(fields, "n_shared_experts", 0, 64, 0) * model->expert_ffn;
    model->dense_layers = fields_number_or(fields, "first_k_dense_replace", 0, TRANSFORMER_MOST_LAYERS, 0);
    model->expert_every = read_step_or(fields, "moe_layer_freq", 1);
    read_layer_words(fields, "mlp_layer_types", "dense, sparse", take_sparse, model);
    model->corrected_router = strcmp(model->name, "deepseek_v2") != 0;
    read_router_groups(fields, model);
}

void read_deepseek(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    read_latent(fields, model);
    read_deepseek_experts(fields, model);
}

// An indexer may be shared by layers. No estimate is made for that.
static void read_own_indexers(struct config_fields *fields)
{
    struct json list, item;
    char pattern[8];
    bool is_shared = fields_number_or(fields, "index_topk_freq", 1, TRANSFORMER_MOST_LAYERS, 1) > 1;
    fields_word(fields, "index_topk_pattern", pattern, sizeof pattern);
    if (fields_list(fields, "indexer_types", &list))
        while (json_next(&list, &item))
            is_shared |= strcmp(json_item_string(&item), "full") != 0;
    if (is_shared || pattern[0])
        json_refuse_key(fields->root, "indexer_types", "an indexer is shared by layers, and no estimate is made for"
                        " that");
    fields_know(fields, "layer_types|index_skip_topk_offset");
}

void read_deepseek_sparse(struct config_fields *fields, struct transformer *model)
{
    read_deepseek(fields, model);
    model->buffered_correction = true;
    model->index_heads = read_size(fields, "index_n_heads");
    model->index_size = read_size(fields, "index_head_dim");
    model->index_chosen = fields_number(fields, "index_topk", 1, MOST_POSITIONS);
    read_own_indexers(fields);
}

void read_glm4_moe(struct config_fields *fields, struct transformer *model)
{
    read_glm(fields, model);
    read_deepseek_experts(fields, model);
    model->normed_heads = fields_flag(fields, "use_qk_norm");
}

void read_glm4v_moe(struct config_fields *fields, struct transformer *model)
{
    read_glm4_moe(fields, model);
    model->buffered_correction = true;
}

void read_glm4_moe_lite(struct config_fields *fields, struct transformer *model)
{
    read_deepseek(fields, model);
    model->buffered_correction = true;
    if (!model->marks_experts)
        model->dense_layers = fields_number_or(fields, "first_k_dense_replace", 0, TRANSFORMER_MOST_LAYERS, 1);
}

void read_dots1(struct config_fields *fields, struct transformer *model)
{
    read_qwen3(fields, model);
    read_deepseek_experts(fields, model);
    model->buffered_correction = true;
}

void read_ernie_moe(struct config_fields *fields, struct transformer *model)
{
    read_ernie(fields, model);
    model->head_bias = model->attention_biases;
    read_chosen(fields, "moe_num_experts", model);
    model->expert_ffn = read_size(fields, "moe_intermediate_size");
    model->shared_ffn = fields_number_or(fields, "moe_num_shared_experts", 0, 64, 0) * model->expert_ffn;
    model->corrected_router = model->marks_experts = true;
    const uint64_t every = read_step_or(fields, "moe_layer_interval", 1);
    const uint64_t first = fields_number_or(fields, "moe_layer_start_index", 0, TRANSFORMER_MOST_LAYERS, 0);
    struct json last;
    const bool has_last = json_find(fields->root, "moe_layer_end_index", &last) && json_kind(&last) == JSON_NUMBER
        && json_item_fraction(&last) >= 0;
    const uint64_t end = has_last ? json_item_u64(&last, 0, TRANSFORMER_MOST_LAYERS) : model->layers;
    for (uint64_t i = first; i < model->layers && i <= end; i++)
        model->marks[i] |= (i + 1) % every == 0 ? LAYER_SPARSE : 0;
}

// Sizes of attention and of experts are in objects of their own.
void read_dbrx(struct config_fields *fields, struct transformer *model)
{
    struct json within;
    read_decoder_sizes(fields, model);
    model->is_rotary = model->is_gated = model->centered_norms = true;
    model->drops = fields_above_zero(fields, "resid_pdrop");
    struct config_fields attention = fields_object(fields, "attn_config", &within);
    model->kv_heads = read_size_or(&attention, "kv_n_heads", 1);
    model->drops_scores = fields_above_zero(&attention, "attn_pdrop");
    struct config_fields experts = fields_object(fields, "ffn_config", &within);
    model->ffn = model->expert_ffn = read_size_or(&experts, "ffn_hidden_size", 3584);
    model->experts = fields_number_or(&experts, "moe_num_experts", 2, MOST_EXPERTS, 4);
    model->chosen = fields_number_or(&experts, "moe_top_k", 1, MOST_EXPERTS, 1);
    model->expert_every = 1;
}

// A file may say twice which layers have experts.
static void check_expert_layers(struct config_fields *fields, const struct transformer *model)
{
    struct json list, item;
    if (!fields_list(fields, "moe_layers", &list))
        return;
    bool are_those = json_count(&list) == model->layers / model->expert_every;
    for (uint64_t i = 1; json_next(&list, &item); i++)
        are_those &= json_item_u64(&item, 0, TRANSFORMER_MOST_LAYERS) == i * model->expert_every - 1;
    if (!are_those)
        json_refuse(&list, "is not each interleave_moe_layer_step-th layer, and no estimate is made for others");
}

static void read_llama4_windows(struct config_fields *fields, struct transformer *model)
{
    model->has_chunks = true;
    model->window = fields_number_or(fields, "attention_chunk_size", 1, MOST_POSITIONS, 8192);
    const uint64_t every = read_step_or(fields, "no_rope_layer_interval", 4);
    for (uint64_t i = 0; i < model->layers; i++)
        model->is_local[i] = (i + 1) % every != 0;
    read_rotated_layers(fields, true, model);
    read_windows(fields, 0, model);
}

void read_llama4(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->mlp_biases = false;
    read_llama4_windows(fields, model);
    read_chosen(fields, "num_local_experts", model);
    model->expert_ffn = model->shared_ffn = model->ffn;
    model->ffn = read_size(fields, "intermediate_size_mlp");
    model->expert_every = read_step_or(fields, "interleave_moe_layer_step", 1);
    check_expert_layers(fields, model);
}
