#include "profiler/estimate/families.h"

#include <string.h>

// --- who is chosen ------------------------------------------------------------------

static void read_chosen(struct config_fields *fields, const char *experts, struct transformer *model)
{
    model->experts = fields_number(fields, experts, 2, MOST_EXPERTS);
    model->chosen = fields_number(fields, "num_experts_per_tok|moe_topk|moe_k|num_experts_per_token", 1, MOST_EXPERTS);
    model->expert_every = 1;
}

void read_mixtral(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    read_chosen(fields, "num_local_experts", model);
    model->expert_ffn = model->ffn;
}

static void read_gpt_oss(struct config_fields *fields, struct transformer *model)
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

static void read_qwen2_moe(struct config_fields *fields, struct transformer *model)
{
    read_qwen2(fields, model);
    model->attention_biases = fields_flag(fields, "qkv_bias");
    read_qwen_experts(fields, model);
    model->shared_ffn = read_size(fields, "shared_expert_intermediate_size");
    model->gated_shared = true;
}

static void read_qwen3_moe(struct config_fields *fields, struct transformer *model)
{
    read_qwen3(fields, model);
    read_qwen_experts(fields, model);
}

static void read_olmoe(struct config_fields *fields, struct transformer *model)
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

static void read_phimoe(struct config_fields *fields, struct transformer *model)
{
    read_mixtral(fields, model);
    model->has_layer_norm = true;
    model->attention_biases = model->output_bias = fields_flag(fields, "attention_bias");
    model->head_bias = fields_flag(fields, "lm_head_bias");
}

static void read_minimax_m2(struct config_fields *fields, struct transformer *model)
{
    read_mixtral(fields, model);
    model->normed_heads = model->norms_across = true;
    model->corrected_router = model->buffered_correction = true;
    fields_know(fields, "use_qk_norm|use_routing_bias|qk_norm_type|attn_type_list");  // as its class always has them
}

static void read_latent_with(struct config_fields *fields, uint64_t value_size, struct transformer *model)
{
    model->is_latent = true;
    model->query_rank = read_size_or(fields, "q_lora_rank", 0);
    model->value_rank = read_size(fields, "kv_lora_rank");
    model->nope_size = read_size(fields, "qk_nope_head_dim");
    model->rope_size = read_size(fields, "qk_rope_head_dim");
    model->value_size = value_size;
    model->head_size = model->nope_size + model->rope_size;
    if (fields_flag(fields, "attention_bias"))
        json_refuse_key(fields->root, "attention_bias", "is true, and no estimate is made for latent attention with"
                        " biases");
}

void read_latent(struct config_fields *fields, struct transformer *model)
{
    read_latent_with(fields, read_size(fields, "v_head_dim"), model);
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
    const uint64_t groups = fields_number_or(fields, "n_group|num_expert_group", 1, model->experts, 1);
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
    read_chosen(fields, "n_routed_experts|num_local_experts|num_experts", model);
    model->expert_ffn = read_size(fields, "moe_intermediate_size");
    model->shared_ffn = fields_number_or(fields, "n_shared_experts|num_shared_experts", 0, 64, 0) * model->expert_ffn;
    model->dense_layers = fields_number_or(fields, "first_k_dense_replace", 0, TRANSFORMER_MOST_LAYERS, 0);
    model->expert_every = read_step_or(fields, "moe_layer_freq", 1);
    read_layer_words(fields, "mlp_layer_types", "dense, sparse", take_sparse, model);
    model->corrected_router = strcmp(model->name, "deepseek_v2") != 0;
    read_router_groups(fields, model);
}

static void read_deepseek(struct config_fields *fields, struct transformer *model)
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

static void read_deepseek_sparse(struct config_fields *fields, struct transformer *model)
{
    read_deepseek(fields, model);
    model->buffered_correction = true;
    model->index_heads = read_size(fields, "index_n_heads");
    model->index_size = read_size(fields, "index_head_dim");
    model->index_chosen = fields_number(fields, "index_topk", 1, MOST_POSITIONS);
    read_own_indexers(fields);
}

static void read_glm4_moe(struct config_fields *fields, struct transformer *model)
{
    read_glm(fields, model);
    read_deepseek_experts(fields, model);
    model->normed_heads = fields_flag(fields, "use_qk_norm");
}

static void read_glm4v_moe(struct config_fields *fields, struct transformer *model)
{
    read_glm4_moe(fields, model);
    model->buffered_correction = true;
}

static void read_glm4_moe_lite(struct config_fields *fields, struct transformer *model)
{
    read_deepseek(fields, model);
    model->buffered_correction = true;
    if (!model->marks_experts)
        model->dense_layers = fields_number_or(fields, "first_k_dense_replace", 0, TRANSFORMER_MOST_LAYERS, 1);
}

static void read_dots1(struct config_fields *fields, struct transformer *model)
{
    read_qwen3(fields, model);
    read_deepseek_experts(fields, model);
    model->buffered_correction = true;
}

static void read_ernie_moe(struct config_fields *fields, struct transformer *model)
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
static void read_dbrx(struct config_fields *fields, struct transformer *model)
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

static void read_llama4(struct config_fields *fields, struct transformer *model)
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

// Its shared expert is as large as the others.
static void read_hunyuan_moe(struct config_fields *fields, struct transformer *model)
{
    struct json list, item;
    read_hunyuan(fields, model);
    model->expert_ffn = model->shared_ffn = model->ffn;
    model->experts = fields_number(fields, "num_experts|num_local_experts", 2, MOST_EXPERTS);
    model->expert_every = 1;
    const bool is_list = json_find(fields->root, "moe_topk", &list) && json_kind(&list) == JSON_ARRAY;
    if (!is_list)
        model->chosen = fields_number(fields, "moe_topk|num_experts_per_tok", 1, MOST_EXPERTS);
    bool are_alike = true;
    for (bool is_first = true; is_list && json_next(&list, &item); is_first = false) {
        const uint64_t chosen = json_item_u64(&item, 1, MOST_EXPERTS);
        are_alike &= is_first || chosen == model->chosen;
        model->chosen = chosen;
    }
    if (!are_alike)
        json_refuse_key(fields->root, "moe_topk", "is not the same of all layers, and no estimate is made for that");
    // which its class has as large as all others, and one of them
    fields_know(fields, "moe_intermediate_size|num_shared_expert|use_mixed_mlp_moe|use_qk_norm|moe_layer_num_skipped"
                        "|moe_drop_tokens|moe_random_routing_dropped_token|use_cla|cla_share_factor");
}

static void read_granitemoe_swa(struct config_fields *fields, struct transformer *model)
{
    read_granite_experts(fields, model);
    read_granite_windows(fields, model);
}

// All layers see everything, unless the file names each of them.
static void read_mellum(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->normed_heads = true;
    model->mlp_biases = false;
    read_windows(fields, 0, model);
    read_qwen_experts(fields, model);
    read_layer_words(fields, "mlp_layer_types", "dense, sparse", take_sparse, model);
}

static void read_sarvam_mla(struct config_fields *fields, struct transformer *model)
{
    read_deepseek(fields, model);
    model->buffered_correction = true;
}

static void read_sarvam_moe(struct config_fields *fields, struct transformer *model)
{
    read_glm4_moe(fields, model);
    model->buffered_correction = true;
}

// All layers have experts.
static void read_solar_open(struct config_fields *fields, struct transformer *model)
{
    read_llama_as(fields, "moe_intermediate_size", model);
    model->output_bias = model->mlp_biases = false;
    read_deepseek_experts(fields, model);
    model->dense_layers = 0;
    model->buffered_correction = true;
    fields_know(fields, "intermediate_size|first_k_dense_replace");
}

static void read_exaone_moe(struct config_fields *fields, struct transformer *model)
{
    read_exaone4(fields, model);
    read_deepseek_experts(fields, model);
    model->buffered_correction = true;
}

// The output of attention is gated. The correction of its router is a parameter that is not trained.
static void read_afmoe(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->mlp_biases = false;
    model->normed_heads = model->norms_twice = model->gates_attention = true;
    read_windows(fields, read_step_or(fields, "global_attn_every_n_layers", 4), model);
    read_chosen(fields, "num_experts|num_local_experts", model);
    model->expert_ffn = read_size(fields, "moe_intermediate_size");
    model->shared_ffn = fields_number_or(fields, "num_shared_experts", 0, 64, 0) * model->expert_ffn;
    model->dense_layers = fields_number_or(fields, "num_dense_layers", 0, TRANSFORMER_MOST_LAYERS, 0);
    model->corrected_router = true;
    if (model->attention_biases)
        json_refuse_key(fields->root, "attention_bias", "is true, and no estimate is made for biases beside a gate that"
                        " has none");
    fields_know(fields, "mup_enabled");
}

static void read_aria(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->mlp_biases = false;
    read_chosen(fields, "moe_num_experts", model);
    model->expert_ffn = model->ffn;
    model->shared_ffn = fields_number_or(fields, "moe_num_shared_experts", 0, 64, 0) * model->ffn;
}

// The first layer has no experts, unless the file names each.
static void read_hy_v3(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->normed_heads = true;
    read_deepseek_experts(fields, model);
    model->buffered_correction = true;
    model->dense_layers = 1;
    fields_know(fields, "enable_moe_fp32_combine");
}

// Some of those that the router chooses among compute nothing. A token is sent to its share of the others, in the mean.
static void read_idle_experts(struct config_fields *fields, struct transformer *model)
{
    char kind[16];
    model->idle_experts = fields_number_or(fields, "zero_expert_num", 0, MOST_EXPERTS, 0);
    fields_word(fields, "zero_expert_type", kind, sizeof kind);
    const uint64_t all = model->experts + model->idle_experts;
    const uint64_t chosen = fields_number(fields, "moe_topk|num_experts_per_tok", 1, MOST_EXPERTS);
    model->chosen = all > 0 ? (chosen * model->experts + all / 2) / all : 0;
    if (model->chosen == 0 || (kind[0] && strcmp(kind, "identity") != 0))
        json_refuse_key(fields->root, "zero_expert_num", "leaves a token no expert that computes, or its experts do not"
                        " hand it on as it is");
}

// A layer is two blocks. The first has experts beside its MLP, whose outputs are added behind the second.
static void read_longcat_flash(struct config_fields *fields, struct transformer *model)
{
    model->layers = 2 * fields_number(fields, "num_layers", 1, TRANSFORMER_MOST_LAYERS / 2);
    read_llama_as(fields, "ffn_hidden_size|intermediate_size", model);
    read_latent(fields, model);
    model->experts = fields_number(fields, "n_routed_experts|num_local_experts", 2, MOST_EXPERTS);
    model->expert_ffn = read_size(fields, "expert_ffn_hidden_size|moe_intermediate_size");
    model->shared_ffn = model->ffn;
    model->expert_every = 2;
    model->corrected_router = model->buffered_correction = true;
    read_idle_experts(fields, model);
    if (fields_flag(fields, "router_bias"))
        json_refuse_key(fields->root, "router_bias", "is true, and no estimate is made for a router with a bias");
    fields_know(fields, "num_hidden_layers|head_dim|qk_head_dim|attention_method|mla_scale_q_lora|mla_scale_kv_lora");
}

// --- latent attention, and no experts ---------------------------------------------------

static void read_youtu(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    read_latent(fields, model);
}

static void read_minicpm3(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    const uint64_t size = model->heads > 0 ? model->hidden / model->heads : 0;
    read_latent_with(fields, read_size_or(fields, "v_head_dim", size), model);
    model->mlp_biases = fields_flag(fields, "mlp_bias");
    fields_know(fields, "dim_model_base");
}

// --- the families ---------------------------------------------------------------

#define LATENT "q_lora_rank 1536 kv_lora_rank 512 qk_nope_head_dim 128 qk_rope_head_dim 64 v_head_dim 128"
#define DEEPSEEK_V3 \
    "n_routed_experts 256 num_experts_per_tok 8 moe_intermediate_size 2048 n_shared_experts 1 " \
    "first_k_dense_replace 3"

// With experts, or with latent attention.
const struct family expert_families[] = {
    // layers, width, heads, heads of keys, width of a head, width inside an MLP, words, window
    { "youtu", read_youtu, { 32, 2048, 16, 16, 0, 6144, 128256, 0 }, LATENT " tie_word_embeddings 1" },
    { "minicpm3", read_minicpm3, { 62, 2560, 40, 40, 0, 6400, 73448, 0 },
      "tie_word_embeddings 1 q_lora_rank 768 kv_lora_rank 256 qk_nope_head_dim 64 qk_rope_head_dim 32" },
    { "mixtral", read_mixtral, { 32, 4096, 32, 8, 0, 14336, 32000, 0 }, "num_local_experts 8 num_experts_per_tok 2" },
    { "qwen2_moe", read_qwen2_moe, { 24, 2048, 16, 16, 0, 5632, 151936, 4096 },
      "qkv_bias 1 num_experts 60 num_experts_per_tok 4 moe_intermediate_size 1408 "
      "shared_expert_intermediate_size 5632" },
    { "qwen3_moe", read_qwen3_moe, { 24, 2048, 32, 4, 0, 6144, 151936, 4096 },
      "num_experts 128 num_experts_per_tok 8 moe_intermediate_size 768" },
    { "qwen3_vl_moe_text", read_qwen3_moe, { 24, 2048, 16, 16, 0, 5632, 151936, 0 },
      "tie_word_embeddings 1 num_experts 60 num_experts_per_tok 4 moe_intermediate_size 1408" },
    { "deepseek_v2", read_deepseek, { 32, 4096, 32, 0, 0, 11008, 102400, 0 },
      LATENT " n_routed_experts 64 moe_intermediate_size 1407 n_shared_experts 2" },
    { "deepseek_v3", read_deepseek, { 61, 7168, 128, 128, 0, 18432, 129280, 0 }, LATENT " " DEEPSEEK_V3 },
    { "kimi_k2", read_deepseek, { 61, 7168, 128, 128, 0, 18432, 129280, 0 }, LATENT " " DEEPSEEK_V3 },
    { "deepseek_v32", read_deepseek_sparse, { 61, 7168, 128, 128, 64, 18432, 129280, 0 },
      LATENT " " DEEPSEEK_V3 " index_n_heads 64 index_head_dim 128 index_topk 2048" },
    { "glm_moe_dsa", read_deepseek_sparse, { 78, 6144, 64, 64, 64, 12288, 154880, 0 },
      DEEPSEEK_V3 " q_lora_rank 2048 kv_lora_rank 512 qk_nope_head_dim 192 qk_rope_head_dim 64 v_head_dim 256 "
      "index_n_heads 32 index_head_dim 128 index_topk 2048" },
    { "gpt_oss", read_gpt_oss, { 36, 2880, 64, 8, 64, 2880, 201088, 128 },
      "attention_bias 1 num_local_experts 128 num_experts_per_tok 4" },
    { "glm4_moe", read_glm4_moe, { 46, 4096, 96, 8, 0, 10944, 151552, 0 },
      "n_routed_experts 128 num_experts_per_tok 8 moe_intermediate_size 1408 n_shared_experts 1 "
      "first_k_dense_replace 1" },
    { "glm4v_moe_text", read_glm4v_moe, { 46, 4096, 96, 8, 0, 10944, 151424, 0 },
      "attention_bias 1 n_routed_experts 128 num_experts_per_tok 8 moe_intermediate_size 1408 n_shared_experts 1 "
      "first_k_dense_replace 1" },
    { "glm4_moe_lite", read_glm4_moe_lite, { 47, 2048, 20, 20, 0, 10240, 154880, 0 },
      "n_routed_experts 64 num_experts_per_tok 4 moe_intermediate_size 1536 n_shared_experts 1 q_lora_rank 768 "
      "kv_lora_rank 512 qk_nope_head_dim 192 qk_rope_head_dim 64 v_head_dim 256" },
    { "llama4_text", read_llama4, { 48, 5120, 40, 8, 128, 8192, 202048, 0 },
      "intermediate_size_mlp 16384 num_local_experts 16 num_experts_per_tok 1" },
    { "olmoe", read_olmoe, { 16, 2048, 16, 0, 0, 2048, 50304, 0 }, "num_experts 64 num_experts_per_tok 8" },
    { "granitemoe", read_granite_experts, { 32, 4096, 32, 0, 0, 11008, 32000, 0 },
      "num_local_experts 8 num_experts_per_tok 2" },
    { "granitemoeshared", read_granite_experts, { 32, 4096, 32, 0, 0, 11008, 32000, 0 },
      "num_local_experts 8 num_experts_per_tok 2" },
    { "phimoe", read_phimoe, { 32, 4096, 32, 8, 0, 6400, 32064, 0 }, "num_local_experts 16 num_experts_per_tok 2" },
    { "minimax_m2", read_minimax_m2, { 62, 3072, 48, 8, 128, 1536, 200064, 0 },
      "num_local_experts 256 num_experts_per_tok 8" },
    { "dots1", read_dots1, { 62, 4608, 32, 32, 0, 10944, 152064, 4096 }, "moe_intermediate_size 1408" },
    { "ernie4_5_moe", read_ernie_moe, { 28, 2560, 20, 4, 0, 12288, 103424, 0 },
      "tie_word_embeddings 1 moe_num_experts 64 moe_k 6 moe_intermediate_size 1536 moe_num_shared_experts 2 "
      "moe_layer_start_index 1" },
    { "dbrx", read_dbrx, { 0, 0, 0, 0, 0, 0, 32000, 0 }, "n_layers 24 d_model 2048 n_heads 16" },
    { "hunyuan_v1_moe", read_hunyuan_moe, { 32, 4096, 32, 0, 0, 11008, 290943, 0 }, "" },
    { "flex_olmo", read_olmoe, { 32, 4096, 32, 0, 0, 11008, 100352, 0 }, "num_experts 7 num_experts_per_tok 5" },
    { "granitemoe_swa", read_granitemoe_swa, { 32, 4096, 32, 0, 0, 11008, 32000, 128 },
      "num_local_experts 8 num_experts_per_tok 2" },
    { "mellum", read_mellum, { 28, 2304, 32, 4, 128, 7168, 98304, 1024 },
      "num_local_experts 64 num_experts_per_tok 8 moe_intermediate_size 896" },
    { "sarvam_mla", read_sarvam_mla, { 32, 4096, 64, 0, 0, 16384, 262144, 0 },
      "n_routed_experts 128 num_experts_per_tok 8 moe_intermediate_size 2048 n_shared_experts 1 "
      "first_k_dense_replace 1 kv_lora_rank 512 qk_nope_head_dim 128 qk_rope_head_dim 64 v_head_dim 128" },
    { "sarvam_moe", read_sarvam_moe, { 19, 4096, 64, 4, 64, 8192, 262144, 0 },
      "use_qk_norm 1 n_routed_experts 128 num_experts_per_tok 6 moe_intermediate_size 1024 n_shared_experts 1 "
      "first_k_dense_replace 1" },
    { "solar_open", read_solar_open, { 48, 4096, 64, 8, 128, 0, 196608, 0 },
      "n_routed_experts 128 num_experts_per_tok 8 moe_intermediate_size 1280 n_shared_experts 1" },
    { "exaone_moe", read_exaone_moe, { 32, 4096, 32, 32, 0, 16384, 102400, 4096 },
      "sliding_window_pattern 4 num_experts 64 num_experts_per_tok 8 moe_intermediate_size 1024 "
      "num_shared_experts 1 first_k_dense_replace 1" },
    { "afmoe", read_afmoe, { 32, 2048, 16, 0, 128, 6144, 200192, 1024 },
      "num_experts 64 num_experts_per_tok 6 moe_intermediate_size 1408 num_shared_experts 2 num_dense_layers 1" },
    { "aria_text", read_aria, { 32, 4096, 32, 0, 0, 4096, 32000, 0 },
      "moe_num_experts 8 moe_topk 2 moe_num_shared_experts 2" },
    { "hy_v3", read_hy_v3, { 80, 4096, 64, 8, 128, 13312, 120832, 0 },
      "num_experts 192 num_experts_per_tok 8 moe_intermediate_size 1536 num_shared_experts 1" },
    { "longcat_flash", read_longcat_flash, { 0, 6144, 64, 0, 0, 0, 131072, 0 },
      LATENT " num_layers 28 ffn_hidden_size 12288 n_routed_experts 512 moe_topk 12 expert_ffn_hidden_size 2048 "
      "zero_expert_num 256" },
    { 0 },
};
