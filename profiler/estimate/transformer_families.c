#include "profiler/estimate/transformer_families.h"

#include <stdio.h>
#include <string.h>

// With these limits no count of parameters exceeds 2^62.
enum { MOST_SIZE = 1 << 18, MOST_WORDS = 1 << 24, MOST_POSITIONS = 1 << 26, MOST_EXPERTS = 1 << 12 };

// --- fields -------------------------------------------------------------------

// Other tools write null for fields that they leave out.
static bool has(struct json *root, const char *key)
{
    struct json value;
    return json_has(root, key) && json_find(root, key, &value) && json_kind(&value) != JSON_NULL;
}

static uint64_t size(struct json *root, const char *key)
{
    return json_u64(root, key, 1, MOST_SIZE);
}

static uint64_t size_or(struct json *root, const char *key, uint64_t other)
{
    return has(root, key) ? size(root, key) : other;
}

// A step between layers. It is 1 if the value is refused, since the code divides by it.
static uint64_t step_or(struct json *root, const char *key, uint64_t other)
{
    const uint64_t step = has(root, key) ? json_u64(root, key, 1, TRANSFORMER_MOST_LAYERS) : other;
    return step > 0 ? step : 1;
}

// Whether a dropout rate is above 0.
static bool is_dropped(struct json *root, const char *key, bool other)
{
    return has(root, key) ? json_fraction(root, key) > 0 : other;
}

// The base of the rotation of queries and keys. It is an integer in all known files; newer files have it one level
// deeper.
static void read_rotary_base(struct json *root, struct transformer *model)
{
    struct json within = *root, value;
    if (!has(root, "rope_theta") && json_find(root, "rope_parameters", &value) && json_kind(&value) == JSON_OBJECT)
        within = json_object(root, "rope_parameters");
    const char *key = has(&within, "rotary_emb_base") ? "rotary_emb_base" : "rope_theta";
    if (has(&within, key) && json_find(&within, key, &value) && json_kind(&value) == JSON_NUMBER) {
        const double base = json_fraction(&within, key);
        model->rotary_base = base >= 1 && base <= (double)JSON_MAX ? (uint64_t)(base + 0.5) : 0;
    }
}

// The activation may have any name. A model without a known one computes as fast.
static void read_activation(struct json *root, struct transformer *model)
{
    static const char *const keys[] = { "hidden_act", "hidden_activation", "activation_function" };
    struct json value;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_find(root, keys[i], &value) && json_kind(&value) == JSON_STRING)
            snprintf(model->activation, sizeof model->activation, "%s", json_string(root, keys[i]));
}

static bool flag_or(struct json *root, const char *key, bool other)
{
    return has(root, key) ? json_bool(root, key) : other;
}

// --- families -----------------------------------------------------------------

static void read_gpt2(struct json *root, struct transformer *model)
{
    model->layers = json_u64(root, "n_layer", 1, TRANSFORMER_MOST_LAYERS);
    model->hidden = size(root, "n_embd");
    model->heads = model->kv_heads = size(root, "n_head");
    model->ffn = size_or(root, "n_inner", 4 * model->hidden);
    model->positions = model->longest = json_u64(root, "n_positions", 1, MOST_POSITIONS);
    model->is_tied = flag_or(root, "tie_word_embeddings", true);
    model->has_layer_norm = model->attention_biases = model->output_bias = model->mlp_biases = true;
    model->drops = is_dropped(root, "resid_pdrop", true);
    model->drops_scores = is_dropped(root, "attn_pdrop", true);
}

// Fields that have the same name in all later families.
static void read_common(struct json *root, struct transformer *model)
{
    model->layers = json_u64(root, "num_hidden_layers", 1, TRANSFORMER_MOST_LAYERS);
    model->hidden = size(root, "hidden_size");
    model->heads = size(root, "num_attention_heads");
    model->kv_heads = size_or(root, "num_key_value_heads", model->heads);
    model->head_size = size_or(root, "head_dim", 0);
    model->is_rotary = true;
    model->drops_scores = is_dropped(root, "attention_dropout", false);
    if (has(root, "max_position_embeddings"))
        model->longest = json_u64(root, "max_position_embeddings", 1, MOST_POSITIONS);
    if (has(root, "sliding_window") && flag_or(root, "use_sliding_window", true))
        model->window = json_u64(root, "sliding_window", 1, MOST_POSITIONS);
}

// --- layers that see a window and layers that see all ---------------------------

static void read_layer_types(struct json *root, struct transformer *model)
{
    struct json list = json_array(root, "layer_types"), item;
    const size_t count = json_count(&list);
    if (count != model->layers) {
        json_refuse(&list, "names %zu layers, and num_hidden_layers is %llu", count,
                    (unsigned long long)model->layers);
        return;
    }
    const char *local = model->has_chunks ? "chunked_attention" : "sliding_attention";
    for (uint64_t i = 0; json_next(&list, &item); i++) {
        const char *word = json_item_string(&item);
        model->is_local[i] = strcmp(word, local) == 0;
        if (!model->is_local[i] && strcmp(word, "full_attention") != 0)
            json_refuse(&item, "\"%.40s\" is none of those that are estimated: full_attention, %s", word, local);
    }
}

// Which layers are local: according to the file if it says so for each layer, else `is_local`. If all layers are
// alike, none is local.
static void mix_windows(struct json *root, struct transformer *model)
{
    if (has(root, "layer_types"))
        read_layer_types(root, model);
    uint64_t local = 0;
    for (uint64_t i = 0; i < model->layers; i++)
        local += model->is_local[i];
    if (local > 0 && model->window == 0)
        json_refuse_key(root, "layer_types", "has sliding_attention, and there is no sliding_window");
    if (local == model->layers)
        return;
    model->local_window = local > 0 ? model->window : 0;
    model->window = 0;
}

// All layers but every `every`th see a window. Its size is `window` tokens if the file does not state one.
static void see_windows(struct transformer *model, uint64_t every, uint64_t window)
{
    model->window = model->window > 0 ? model->window : window;
    for (uint64_t i = 0; i < model->layers; i++)
        model->is_local[i] = (i + 1) % every != 0;
}

// --- more families --------------------------------------------------------------

static void read_gpt_neox(struct json *root, struct transformer *model)
{
    read_common(root, model);
    model->ffn = size(root, "intermediate_size");
    model->is_tied = flag_or(root, "tie_word_embeddings", false);
    model->attention_biases = model->output_bias = flag_or(root, "attention_bias", true);
    model->has_layer_norm = model->mlp_biases = true;
    model->drops = is_dropped(root, "hidden_dropout", false);
}

static void read_llama(struct json *root, struct transformer *model)
{
    read_common(root, model);
    model->ffn = size(root, "intermediate_size");
    model->is_gated = true;
    model->is_tied = flag_or(root, "tie_word_embeddings", false);
    model->attention_biases = model->output_bias = flag_or(root, "attention_bias", false);
    model->mlp_biases = flag_or(root, "mlp_bias", false);
}

// Layers from `max_window_layers` on see a window, if any layer does.
static void read_qwen_windows(struct json *root, struct transformer *model)
{
    const uint64_t first = has(root, "max_window_layers")
        ? json_u64(root, "max_window_layers", 0, TRANSFORMER_MOST_LAYERS) : 28;
    const bool some = flag_or(root, "use_sliding_window", false) && model->window > 0;
    for (uint64_t i = first; i < model->layers && some; i++)
        model->is_local[i] = true;
    if (!some)
        model->window = 0;
    mix_windows(root, model);
}

static void read_qwen2(struct json *root, struct transformer *model)
{
    read_llama(root, model);
    model->attention_biases = true;
    model->output_bias = false;
    read_qwen_windows(root, model);
}

static void read_qwen3(struct json *root, struct transformer *model)
{
    read_llama(root, model);
    model->head_size = size_or(root, "head_dim", 128);
    model->normed_heads = true;
    read_qwen_windows(root, model);
}

// Its norms come after the products, not before. There are as many passes, and as many bytes are kept.
static void read_olmo2(struct json *root, struct transformer *model)
{
    read_llama(root, model);
    model->normed_heads = model->norms_across = true;
}

static void read_phi3(struct json *root, struct transformer *model)
{
    read_llama(root, model);
    model->drops = is_dropped(root, "resid_pdrop", false);
}

static void read_gemma(struct json *root, struct transformer *model)
{
    read_llama(root, model);
    model->head_size = size_or(root, "head_dim", 256);
    model->is_tied = flag_or(root, "tie_word_embeddings", true);
}

static void read_gemma2(struct json *root, struct transformer *model)
{
    read_gemma(root, model);
    model->norms_twice = true;
    model->caps_logits = !json_has(root, "final_logit_softcapping") || has(root, "final_logit_softcapping");
    see_windows(model, 2, 4096);
    mix_windows(root, model);
}

static void read_gemma3(struct json *root, struct transformer *model)
{
    read_gemma(root, model);
    model->norms_twice = model->normed_heads = true;
    model->caps_logits = has(root, "final_logit_softcapping");
    see_windows(model, step_or(root, "sliding_window_pattern", 6), 4096);
    mix_windows(root, model);
}

static void read_mixtral(struct json *root, struct transformer *model)
{
    read_llama(root, model);
    model->experts = json_u64(root, "num_local_experts", 2, MOST_EXPERTS);
    model->chosen = json_u64(root, "num_experts_per_tok", 1, MOST_EXPERTS);
    model->expert_ffn = model->ffn;
    model->expert_every = 1;
}

static void read_gpt_oss(struct json *root, struct transformer *model)
{
    read_mixtral(root, model);
    model->attention_biases = model->output_bias = flag_or(root, "attention_bias", true);
    model->has_sinks = model->biased_experts = true;
    see_windows(model, 2, 128);
    mix_windows(root, model);
}

static void read_qwen_experts(struct json *root, struct transformer *model)
{
    model->experts = json_u64(root, "num_experts", 2, MOST_EXPERTS);
    model->chosen = json_u64(root, "num_experts_per_tok", 1, MOST_EXPERTS);
    model->expert_ffn = size(root, "moe_intermediate_size");
    model->expert_every = step_or(root, "decoder_sparse_step", 1);
    if (!has(root, "mlp_only_layers"))
        return;
    struct json list = json_array(root, "mlp_only_layers");
    if (json_count(&list) > 0)
        json_refuse(&list, "names layers without experts one by one, which no estimate is made for");
}

static void read_qwen2_moe(struct json *root, struct transformer *model)
{
    read_qwen2(root, model);
    read_qwen_experts(root, model);
    model->shared_ffn = size(root, "shared_expert_intermediate_size");
    model->gated_shared = true;
}

static void read_qwen3_moe(struct json *root, struct transformer *model)
{
    read_qwen3(root, model);
    read_qwen_experts(root, model);
}

static void read_latent(struct json *root, struct transformer *model)
{
    model->is_latent = true;
    model->query_rank = size_or(root, "q_lora_rank", 0);
    model->value_rank = size(root, "kv_lora_rank");
    model->nope_size = size(root, "qk_nope_head_dim");
    model->rope_size = size(root, "qk_rope_head_dim");
    model->value_size = size(root, "v_head_dim");
    model->head_size = model->nope_size + model->rope_size;
}

static void read_deepseek_experts(struct json *root, struct transformer *model)
{
    model->experts = json_u64(root, "n_routed_experts", 2, MOST_EXPERTS);
    model->chosen = json_u64(root, "num_experts_per_tok", 1, MOST_EXPERTS);
    model->expert_ffn = size(root, "moe_intermediate_size");
    if (has(root, "n_shared_experts"))
        model->shared_ffn = json_u64(root, "n_shared_experts", 0, 64) * model->expert_ffn;
    if (has(root, "first_k_dense_replace"))
        model->dense_layers = json_u64(root, "first_k_dense_replace", 0, TRANSFORMER_MOST_LAYERS);
    model->expert_every = step_or(root, "moe_layer_freq", 1);
    model->corrected_router = strcmp(model->name, "deepseek_v2") != 0;
}

static void read_deepseek(struct json *root, struct transformer *model)
{
    read_llama(root, model);
    read_latent(root, model);
    read_deepseek_experts(root, model);
}

static void read_glm4_moe(struct json *root, struct transformer *model)
{
    read_llama(root, model);
    read_deepseek_experts(root, model);
    model->output_bias = false;
    model->normed_heads = flag_or(root, "use_qk_norm", false);
}

// A layer sees everything if its queries and keys are not rotated.
static void read_rotated_layers(struct json *root, struct transformer *model)
{
    struct json list = json_array(root, "no_rope_layers"), item;
    const size_t count = json_count(&list);
    if (count > 0 && count != model->layers)
        json_refuse(&list, "has %zu layers, and num_hidden_layers is %llu", count, (unsigned long long)model->layers);
    for (uint64_t i = 0; i < model->layers && json_next(&list, &item); i++)
        model->is_local[i] = json_item_u64(&item, 0, 1);
}

// A file may say twice which layers have experts.
static void check_expert_layers(struct json *root, const struct transformer *model)
{
    struct json list = json_array(root, "moe_layers"), item;
    bool are_those = json_count(&list) == model->layers / model->expert_every;
    for (uint64_t i = 1; json_next(&list, &item); i++)
        are_those &= json_item_u64(&item, 0, TRANSFORMER_MOST_LAYERS) == i * model->expert_every - 1;
    if (!are_those)
        json_refuse(&list, "is not each interleave_moe_layer_step-th layer, and no estimate is made for others");
}

static void read_llama4_windows(struct json *root, struct transformer *model)
{
    model->has_chunks = true;
    model->window = has(root, "attention_chunk_size") ? json_u64(root, "attention_chunk_size", 1, MOST_POSITIONS)
                                                      : 8192;
    see_windows(model, step_or(root, "no_rope_layer_interval", 4), model->window);
    if (has(root, "no_rope_layers"))
        read_rotated_layers(root, model);
    mix_windows(root, model);
}

static void read_llama4(struct json *root, struct transformer *model)
{
    read_llama(root, model);
    read_llama4_windows(root, model);
    model->experts = json_u64(root, "num_local_experts", 2, MOST_EXPERTS);
    model->chosen = json_u64(root, "num_experts_per_tok", 1, MOST_EXPERTS);
    model->expert_ffn = model->shared_ffn = model->ffn;
    model->ffn = size(root, "intermediate_size_mlp");
    model->expert_every = step_or(root, "interleave_moe_layer_step", 1);
    if (has(root, "moe_layers"))
        check_expert_layers(root, model);
}

// --- which one it is ----------------------------------------------------------

static const struct family {
    const char *name;
    void (*read)(struct json *root, struct transformer *model);
} families[] = {
    { "llama", read_llama },         { "mistral", read_llama },           { "qwen2", read_qwen2 },
    { "qwen3", read_qwen3 },         { "gpt2", read_gpt2 },               { "gpt_neox", read_gpt_neox },
    { "mixtral", read_mixtral },     { "qwen2_moe", read_qwen2_moe },     { "qwen3_moe", read_qwen3_moe },
    { "deepseek_v2", read_deepseek }, { "deepseek_v3", read_deepseek },   { "gpt_oss", read_gpt_oss },
    { "gemma", read_gemma },         { "gemma2", read_gemma2 },           { "gemma3_text", read_gemma3 },
    { "olmo2", read_olmo2 },         { "phi3", read_phi3 },               { "granite", read_llama },
    { "glm4_moe", read_glm4_moe },   { "kimi_k2", read_deepseek },        { "llama4_text", read_llama4 },
};
enum { FAMILIES = sizeof families / sizeof families[0] };

// Models that also see or hear have the text model in an object of its own.
static bool has_text_model(const struct json *root)
{
    struct json value;
    return json_find(root, "text_config", &value) && json_kind(&value) == JSON_OBJECT;
}

static const struct family *find_family(const struct json *root, const char *name)
{
    char known[300] = "";
    for (size_t i = 0; i < FAMILIES; i++) {
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", families[i].name);
    }
    json_refuse_key(root, "model_type", "\"%.40s\" is none of those that are estimated: %s%s", name, known,
                    has_text_model(root) ? "; its text_config, in a file of its own, may be one" : "");
    return NULL;
}

// For a file without a model_type, the error says what the file is.
static void find_type(struct json *root)
{
    struct json value;
    if (json_kind(root) != JSON_OBJECT || json_find(root, "model_type", &value))
        return;
    if (has_text_model(root))
        json_refuse_key(root, "model_type", "is missing; its text_config, in a file of its own, may have one");
    else if (json_find(root, "format", &value) && json_kind(&value) == JSON_STRING)
        json_refuse_key(root, "model_type", "is missing: the file is a \"%.40s\", not the config.json of a Hugging Face"
                        " model", json_string(root, "format"));
    else
        json_refuse_key(root, "model_type", "is missing: every config.json of a Hugging Face model has it");
}

void transformer_read_family(struct json *root, struct transformer *model)
{
    find_type(root);
    json_string_into(root, "model_type", model->name, sizeof model->name);
    const struct family *family = find_family(root, model->name);
    if (!family)
        return;
    model->vocabulary = json_u64(root, "vocab_size", 1, MOST_WORDS);
    family->read(root, model);
    if (model->is_rotary)
        read_rotary_base(root, model);
    read_activation(root, model);
    if (has(root, "num_nextn_predict_layers"))
        model->predicted = json_u64(root, "num_nextn_predict_layers", 0, TRANSFORMER_MOST_PREDICTED);
}
