#include "profiler/estimate/families.h"

#include <string.h>

// --- which layers are recurrent ---------------------------------------------------

static bool is_recurrent_word(const char *word)
{
    return strcmp(word, "linear_attention") == 0 || strcmp(word, "mamba") == 0 || strcmp(word, "mamba2") == 0
        || strcmp(word, "conv") == 0;
}

static bool is_attention_word(const char *word)
{
    return strcmp(word, "full_attention") == 0 || strcmp(word, "attention") == 0;
}

static bool take_recurrent(struct transformer *model, uint64_t layer, const char *word)
{
    const bool is_recurrent = is_recurrent_word(word);
    model->marks[layer] &= (uint8_t)~LAYER_RECURRENT;
    model->marks[layer] |= is_recurrent ? LAYER_RECURRENT : 0;
    return is_recurrent || is_attention_word(word);
}

static void read_recurrent_layers(struct config_fields *fields, struct transformer *model)
{
    read_layer_words(fields, "layer_types|layers_block_type", "full_attention, linear_attention", take_recurrent,
                     model);
}

// Every `every`th layer is attention, unless the file names each layer.
static void recur_except(struct config_fields *fields, uint64_t every, struct transformer *model)
{
    for (uint64_t i = 0; i < model->layers; i++)
        model->marks[i] |= (i + 1) % every != 0 ? LAYER_RECURRENT : 0;
    read_recurrent_layers(fields, model);
}

// --- recurrences --------------------------------------------------------------------

static void read_mamba2_sizes(struct config_fields *fields, struct transformer *model)
{
    model->recurrence = RECURRENCE_MAMBA2;
    model->scan_heads = read_size(fields, "mamba_n_heads|mamba_num_heads|num_heads");
    model->scan_groups = read_size(fields, "mamba_n_groups|n_groups");
    model->scan_state = read_size(fields, "mamba_d_state|ssm_state_size|state_size");
    model->scan_kernel = read_size(fields, "mamba_d_conv|conv_kernel");
    model->scan_chunk = read_size(fields, "mamba_chunk_size|chunk_size");
    model->scan_conv_bias = fields_flag(fields, "mamba_conv_bias|use_conv_bias");
    model->scan_norm = true;
}

// The width of all heads together decides if a head's size is not stated, or is "auto".
static void read_mamba2_expanded(struct config_fields *fields, struct transformer *model)
{
    read_mamba2_sizes(fields, model);
    const uint64_t inner = fields_number_or(fields, "mamba_d_ssm", 1, MOST_SIZE,
                                            read_size(fields, "mamba_expand") * model->hidden);
    if (model->scan_heads == 0 || inner % model->scan_heads != 0)
        json_refuse(fields->root, "its %llu heads of Mamba do not divide their width of %llu",
                    (unsigned long long)model->scan_heads, (unsigned long long)inner);
    else
        model->scan_size = inner / model->scan_heads;
    model->scan_bias = fields_flag(fields, "mamba_proj_bias");
    fields_know(fields, "mamba_d_head");
}

enum { DELTA_CHUNK = 64 };  // of flash-linear-attention's kernels (fla/ops/gated_delta_rule/chunk.py)

static void read_delta_sizes(struct config_fields *fields, struct transformer *model)
{
    model->recurrence = RECURRENCE_DELTA;
    model->scan_heads = read_size(fields, "linear_num_value_heads");
    model->scan_size = read_size(fields, "linear_value_head_dim");
    model->scan_groups = read_size(fields, "linear_num_key_heads");
    model->scan_state = read_size(fields, "linear_key_head_dim");
    model->scan_kernel = read_size(fields, "linear_conv_kernel_dim");
    model->scan_chunk = DELTA_CHUNK;
    model->scan_norm = true;
}

// Sizes that are left out follow from those of attention.
static void read_delta_sizes_or(struct config_fields *fields, struct transformer *model)
{
    model->recurrence = RECURRENCE_DELTA;
    model->scan_heads = read_size_or(fields, "linear_num_value_heads", model->heads);
    model->scan_groups = read_size_or(fields, "linear_num_key_heads", model->heads);
    const uint64_t size = model->scan_groups > 0 ? model->hidden * 3 / 4 / model->scan_groups : 0;
    model->scan_state = read_size_or(fields, "linear_key_head_dim", size);
    model->scan_size = read_size_or(fields, "linear_value_head_dim", 2 * model->scan_state);
    model->scan_kernel = read_size(fields, "linear_conv_kernel_dim");
    model->scan_chunk = DELTA_CHUNK;
    model->scan_norm = true;
    if (model->scan_state == 0 || model->scan_size == 0)
        json_refuse_key(fields->root, "linear_key_head_dim", "is missing, and the hidden size is too small for one");
}

// --- families -----------------------------------------------------------------------

static bool take_single(struct transformer *model, uint64_t layer, const char *word)
{
    const bool is_sparse = strcmp(word, "moe") == 0, is_mlp = is_sparse || strcmp(word, "mlp") == 0;
    const bool is_recurrent = is_recurrent_word(word);
    model->has_lone_layers = true;
    model->marks[layer] = (uint8_t)((is_mlp ? LAYER_WITHOUT_MIXER : LAYER_WITHOUT_MLP) | (is_sparse ? LAYER_SPARSE : 0)
                                    | (is_recurrent ? LAYER_RECURRENT : 0));
    return is_mlp || is_recurrent || is_attention_word(word);
}

// A letter for each layer, such as "M-M-M*-ME".
static void read_pattern(struct config_fields *fields, struct transformer *model)
{
    static const char letters[] = "M-*E";
    static const char *const words[] = { "mamba", "mlp", "attention", "moe" };
    const char *pattern = json_string(fields->root, "hybrid_override_pattern");
    const size_t layers = strlen(pattern);
    model->layers = layers > 0 && layers <= TRANSFORMER_MOST_LAYERS ? layers : 1;
    if (model->layers != layers)
        json_refuse_key(fields->root, "hybrid_override_pattern", "has %zu layers; it must have from 1 to %d", layers,
                        TRANSFORMER_MOST_LAYERS);
    for (uint64_t i = 0; i < layers && i < TRANSFORMER_MOST_LAYERS; i++) {
        const char *letter = strchr(letters, pattern[i]);
        if (letter)
            take_single(model, i, words[letter - letters]);
        else
            json_refuse_key(fields->root, "hybrid_override_pattern", "has '%c', which is none of M, -, *, E",
                            pattern[i]);
    }
}

static void read_single_layers(struct config_fields *fields, struct transformer *model)
{
    struct json list;
    if (fields_list(fields, "layers_block_type|layer_types", &list)) {
        const size_t layers = json_count(&list);
        model->layers = layers > 0 && layers <= TRANSFORMER_MOST_LAYERS ? layers : 1;
        if (model->layers != layers)
            json_refuse(&list, "names %zu layers; it must name from 1 to %d", layers, TRANSFORMER_MOST_LAYERS);
        else
            read_layer_words(fields, "layers_block_type|layer_types", "linear_attention, full_attention, mlp, moe",
                             take_single, model);
    } else {
        read_pattern(fields, model);
    }
}

static void read_single_experts(struct config_fields *fields, struct transformer *model)
{
    model->marks_experts = true;
    bool has_some = false;
    for (uint64_t i = 0; i < model->layers && i < TRANSFORMER_MOST_LAYERS; i++)
        has_some |= (model->marks[i] & LAYER_SPARSE) != 0;
    fields_know(fields, "n_routed_experts|num_experts_per_tok|moe_intermediate_size|n_shared_experts|moe_latent_size"
                        "|moe_shared_expert_intermediate_size");
    if (!has_some)
        return;
    model->experts = fields_number(fields, "n_routed_experts", 2, MOST_EXPERTS);
    model->chosen = fields_number(fields, "num_experts_per_tok", 1, MOST_EXPERTS);
    model->expert_ffn = read_size(fields, "moe_intermediate_size");
    model->expert_hidden = read_size_or(fields, "moe_latent_size", 0);
    model->expert_every = 1;
    if (fields_number_or(fields, "n_shared_experts", 0, 64, 1) > 0)
        model->shared_ffn = read_size(fields, "moe_shared_expert_intermediate_size");
    model->corrected_router = model->buffered_correction = true;
}

// What predicts tokens further on is attention and experts, and no other is estimated.
static void check_predicted(struct config_fields *fields)
{
    char pattern[8];
    struct json list;
    fields_word(fields, "mtp_hybrid_override_pattern", pattern, sizeof pattern);
    const bool has_list = fields_list(fields, "mtp_layers_block_type", &list);
    if (pattern[0] && strcmp(pattern, "*E") != 0)
        json_refuse_key(fields->root, "mtp_hybrid_override_pattern", "is \"%.8s\", and *E alone is estimated", pattern);
    if (has_list && json_count(&list) != 2)
        json_refuse(&list, "names %zu layers, and attention and experts alone are estimated", json_count(&list));
}

// Each layer is a mixer or an MLP or experts, behind a norm of its own.
static void read_nemotron_h(struct config_fields *fields, struct transformer *model)
{
    read_single_layers(fields, model);  // which says how many there are
    read_llama(fields, model);
    read_mamba2_sizes(fields, model);
    model->scan_size = read_size(fields, "mamba_head_dim");
    model->is_gated = model->is_rotary = model->attention_biases = model->output_bias = false;
    model->scan_bias = fields_flag(fields, "use_bias");
    read_single_experts(fields, model);
    check_predicted(fields);
    fields_know(fields, "expand|mamba_expand|mamba_proj_bias|attention_bias|mamba_hidden_act"
                        "|mtp_hybrid_override_pattern|mtp_layers_block_type|num_hidden_layers|hybrid_override_pattern");
}

static void read_granite_hybrid(struct config_fields *fields, struct transformer *model)
{
    char positions[16];
    read_granite_experts(fields, model);
    read_mamba2_expanded(fields, model);
    fields_word(fields, "position_embedding_type", positions, sizeof positions);
    model->is_rotary = strcmp(positions, "rope") == 0;
    recur_except(fields, UINT64_MAX, model);
}

static void read_bamba(struct config_fields *fields, struct transformer *model)
{
    struct json list, item;
    read_llama(fields, model);
    read_mamba2_expanded(fields, model);
    for (uint64_t i = 0; i < model->layers; i++)
        model->marks[i] |= LAYER_RECURRENT;
    if (!fields_list(fields, "attn_layer_indices", &list))
        return;
    while (json_next(&list, &item))
        model->marks[json_item_u64(&item, 0, TRANSFORMER_MOST_LAYERS - 1)] &= (uint8_t)~LAYER_RECURRENT;
}

// Attention and Mamba 2 read the same norm, in every layer.
static void read_falcon_h1(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->output_bias = model->attention_biases;
    read_mamba2_expanded(fields, model);
    model->scan_norm = fields_flag(fields, "mamba_rms_norm");
    model->side_by_side = true;
    for (uint64_t i = 0; i < model->layers; i++)
        model->marks[i] |= LAYER_RECURRENT;
    if (model->scan_bias != fields_flag(fields, "projectors_bias"))
        json_refuse_key(fields->root, "projectors_bias", "is not as mamba_proj_bias, and no estimate is made for one"
                        " without the other");
    fields_know(fields, "layers_block_type|layer_types|mamba_use_mlp|mamba_norm_before_gate");
}

static void read_mamba_sizes(struct config_fields *fields, struct transformer *model)
{
    char rank[8];
    model->recurrence = RECURRENCE_MAMBA;
    model->scan_heads = model->scan_groups = 1;
    model->scan_size = read_size(fields, "mamba_expand|expand") * model->hidden;
    model->scan_state = read_size(fields, "mamba_d_state|state_size");
    model->scan_kernel = read_size(fields, "mamba_d_conv|conv_kernel");
    fields_word(fields, "mamba_dt_rank|time_step_rank", rank, sizeof rank);
    model->scan_rank = (model->hidden + 15) / 16;
    if (strcmp(rank, "auto") != 0)
        model->scan_rank = read_size_or(fields, "mamba_dt_rank|time_step_rank", model->scan_rank);
    model->scan_conv_bias = fields_flag(fields, "mamba_conv_bias|use_conv_bias");
    model->scan_bias = fields_flag(fields, "mamba_proj_bias|use_bias");
}

static void read_jamba(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    model->is_rotary = false;
    read_mamba_sizes(fields, model);
    model->scan_norm = model->marks_experts = true;
    const uint64_t period = read_step_or(fields, "attn_layer_period", 8);
    const uint64_t offset = fields_number_or(fields, "attn_layer_offset", 0, TRANSFORMER_MOST_LAYERS, 4);
    const uint64_t every = read_step_or(fields, "expert_layer_period", 2);
    const uint64_t first = fields_number_or(fields, "expert_layer_offset", 0, TRANSFORMER_MOST_LAYERS, 1);
    const uint64_t experts = fields_number(fields, "num_experts|num_local_experts", 1, MOST_EXPERTS);
    model->chosen = fields_number(fields, "num_experts_per_tok", 1, MOST_EXPERTS);
    model->experts = experts > 1 ? experts : 0;
    model->chosen = experts > 1 ? model->chosen : 0;
    model->expert_ffn = model->ffn;
    model->expert_every = 1;
    for (uint64_t i = 0; i < model->layers; i++) {
        model->marks[i] |= i % period != offset % period ? LAYER_RECURRENT : 0;
        model->marks[i] |= experts > 1 && i % every == first % every ? LAYER_SPARSE : 0;
    }
    fields_know(fields, "layers_block_type");
}

static void read_qwen_hybrid(struct config_fields *fields, const char *ffn, struct transformer *model)
{
    read_llama_as(fields, ffn, model);
    model->window = 0;
    model->mlp_biases = false;
    model->normed_heads = model->gates_attention = true;
    read_delta_sizes(fields, model);
    recur_except(fields, read_step_or(fields, "full_attention_interval", 4), model);
}

static void read_gated_experts(struct config_fields *fields, struct transformer *model)
{
    read_qwen_experts(fields, model);
    model->shared_ffn = read_size(fields, "shared_expert_intermediate_size");
    model->gated_shared = true;
}

static void read_qwen3_next(struct config_fields *fields, struct transformer *model)
{
    read_qwen_hybrid(fields, "intermediate_size", model);
    read_gated_experts(fields, model);
}

static void read_qwen3_5(struct config_fields *fields, struct transformer *model)
{
    read_qwen_hybrid(fields, "intermediate_size", model);
    fields_know(fields, "attn_output_gate");
}

// All layers have experts; a width of plain MLPs is not stated.
static void read_qwen3_5_moe(struct config_fields *fields, struct transformer *model)
{
    read_qwen_hybrid(fields, "moe_intermediate_size", model);
    read_gated_experts(fields, model);
    fields_know(fields, "attn_output_gate");
}

static void read_minimax(struct config_fields *fields, struct transformer *model)
{
    read_mixtral(fields, model);
    model->recurrence = RECURRENCE_LIGHTNING;
    model->scan_heads = model->scan_groups = model->heads;
    model->scan_size = model->scan_state = model->head_size ? model->head_size
                                         : model->heads > 0 ? model->hidden / model->heads : 0;
    model->scan_chunk = read_size(fields, "block_size");
    model->scan_norm = true;
    for (uint64_t i = 0; i < model->layers; i++)
        model->marks[i] |= i % 2 == 1 ? LAYER_RECURRENT : 0;
    read_layer_words(fields, "layer_types", "full_attention, linear_attention", take_recurrent, model);
    fields_know(fields, "full_attn_alpha_factor|full_attn_beta_factor");
}

// What has nothing but a recurrence in its layers.
static void read_lone_sizes(struct config_fields *fields, struct transformer *model)
{
    model->layers = fields_number(fields, "num_hidden_layers|n_layer", 1, TRANSFORMER_MOST_LAYERS);
    model->hidden = model->ffn = read_size(fields, "hidden_size|d_model");
    model->is_tied = fields_flag(fields, "tie_word_embeddings");
    model->has_lone_layers = true;
    for (uint64_t i = 0; i < model->layers; i++)
        model->marks[i] |= LAYER_RECURRENT | LAYER_WITHOUT_MLP;
}

static void read_mamba2(struct config_fields *fields, struct transformer *model)
{
    read_mamba2_sizes(fields, model);
    read_lone_sizes(fields, model);
    model->scan_size = read_size(fields, "head_dim");
    model->scan_bias = fields_flag(fields, "use_bias");
    model->heads = model->kv_heads = model->scan_heads;
    model->head_size = model->scan_size;
    fields_know(fields, "expand|rms_norm|time_step_rank|residual_in_fp32");
}

// A head is a channel. Norms of FalconMamba's step sizes have no parameters.
static void read_mamba(struct config_fields *fields, struct transformer *model)
{
    read_lone_sizes(fields, model);
    read_mamba_sizes(fields, model);
    model->heads = model->kv_heads = model->hidden;
    model->head_size = 1;
    fields_know(fields, "intermediate_size|residual_in_fp32|use_mambapy|use_falcon_mambapy|use_associative_scan"
                        "|num_heads|layer_types");
}

// Heads of the recurrence are as many as those of attention, and their sizes follow from the hidden size, unless the
// file says them.
static void read_olmo_hybrid(struct config_fields *fields, struct transformer *model)
{
    struct json rotation, base;
    read_olmo2(fields, model);
    model->mlp_biases = false;
    read_delta_sizes_or(fields, model);
    const bool says_rotation = json_find(fields->root, "rope_parameters", &rotation);
    const bool is_object = says_rotation && json_kind(&rotation) == JSON_OBJECT;
    const bool has_base = is_object && json_find(&rotation, "rope_theta", &base) && json_kind(&base) == JSON_NUMBER;
    model->is_rotary = !says_rotation || has_base;
    recur_except(fields, 4, model);
    if (model->layers < 4)
        model->marks[model->layers - 1] &= (uint8_t)~LAYER_RECURRENT;
    read_recurrent_layers(fields, model);
    fields_know(fields, "linear_allow_neg_eigval|linear_a_log_min|linear_a_log_max|linear_dt_min|linear_dt_max"
                        "|linear_dt_init_floor");
}

// An object of its own says sizes and, from 1 on, which layers are attention; or each is a field.
static void read_kimi_layers(struct config_fields *fields, struct transformer *model)
{
    struct json within = *fields->root, list, item;
    struct config_fields linear = *fields;
    uint64_t heads = read_size(fields, "linear_num_heads"), size = read_size(fields, "linear_head_dim");
    uint64_t kernel = read_size(fields, "linear_conv_kernel_dim");
    for (uint64_t i = 0; i < model->layers; i++)
        model->marks[i] |= i == 0 || i % 4 != 0 ? LAYER_RECURRENT : 0;
    const bool is_apart = json_find(fields->root, "linear_attn_config", &within) && json_kind(&within) == JSON_OBJECT;
    if (is_apart) {
        linear = fields_object(fields, "linear_attn_config", &within);
        heads = read_size_or(&linear, "num_heads", heads);
        size = read_size_or(&linear, "head_dim", size);
        kernel = read_size_or(&linear, "short_conv_kernel_size", kernel);
        fields_know(&linear, "kda_layers");
    }
    model->recurrence = RECURRENCE_DELTA;
    model->scan_heads = model->scan_groups = heads;
    model->scan_size = model->scan_state = model->scan_rank = size;
    model->scan_kernel = kernel;
    if (is_apart && !fields_state(fields, "layer_types") && fields_list(&linear, "full_attn_layers", &list)) {
        for (uint64_t i = 0; i < model->layers; i++)
            model->marks[i] |= LAYER_RECURRENT;
        while (json_next(&list, &item))
            model->marks[json_item_u64(&item, 1, model->layers) - 1] &= (uint8_t)~LAYER_RECURRENT;
    }
    read_recurrent_layers(fields, model);
}

// The gated delta rule with a decay for each channel, beside latent attention without rotation.
static void read_kimi_linear(struct config_fields *fields, struct transformer *model)
{
    read_mistral(fields, model);
    model->longest = fields_number_or(fields, "model_max_length|max_position_embeddings", 1, MOST_POSITIONS, 0);
    read_latent(fields, model);
    model->is_rotary = false;
    read_kimi_layers(fields, model);
    model->scan_chunk = DELTA_CHUNK;
    model->scan_norm = true;
    read_deepseek_experts(fields, model);
    if (!model->marks_experts)
        model->dense_layers = fields_number_or(fields, "first_k_dense_replace", 0, TRANSFORMER_MOST_LAYERS, 1);
    model->buffered_correction = true;
    fields_know(fields, "head_dim|moe_renormalize|moe_router_activation_func|use_grouped_topk|mla_use_nope"
                        "|linear_head_dim|linear_num_heads|linear_conv_kernel_dim");
}

// Layers are attention, unless they are named.
static void read_convolution(struct config_fields *fields, struct transformer *model)
{
    struct json list, item;
    model->recurrence = RECURRENCE_CONVOLUTION;
    model->scan_heads = model->scan_groups = 1;
    model->scan_size = model->hidden;
    model->scan_kernel = read_size(fields, "conv_L_cache");
    model->scan_bias = model->scan_conv_bias = fields_flag(fields, "conv_bias");
    model->normed_heads = true;
    if (fields_state(fields, "tie_embedding"))
        model->is_tied = fields_flag(fields, "tie_embedding");
    if (!fields_state(fields, "layer_types") && fields_list(fields, "full_attn_idxs", &list)) {
        for (uint64_t i = 0; i < model->layers; i++)
            model->marks[i] |= LAYER_RECURRENT;
        while (json_next(&list, &item))
            model->marks[json_item_u64(&item, 0, TRANSFORMER_MOST_LAYERS - 1)] &= (uint8_t)~LAYER_RECURRENT;
    }
    read_layer_words(fields, "layer_types", "full_attention, conv", take_recurrent, model);
    fields_know(fields, "full_attn_idxs|conv_dim|conv_dim_out|conv_use_xavier_init|block_dim|block_use_swiglu"
                        "|block_use_xavier_init|block_norm_eps|block_mlp_init_scale|block_out_init_scale|use_pos_enc"
                        "|num_heads|theta");
}

// Two thirds of what the file says, times a factor, rounded up.
static uint64_t adjusted_ffn(struct config_fields *fields, uint64_t ffn)
{
    const uint64_t unit = read_step_or(fields, "block_multiple_of", 256);
    double factor = 1;
    if (fields_state(fields, "block_ffn_dim_multiplier"))
        factor = json_fraction(fields->root, "block_ffn_dim_multiplier");
    const double wanted = factor > 0 && factor < 1024 ? factor * (double)(2 * ffn / 3) : 0;
    if (wanted < 1)
        json_refuse_key(fields->root, "block_ffn_dim_multiplier", "makes an MLP without width, or one that is too"
                        " wide");
    return ((uint64_t)wanted + unit - 1) / unit * unit;
}

static void read_lfm2(struct config_fields *fields, struct transformer *model)
{
    read_llama_as(fields, "block_ff_dim|intermediate_size", model);
    model->attention_biases = model->output_bias = model->mlp_biases = false;
    read_convolution(fields, model);
    const bool is_off = fields_state(fields, "block_auto_adjust_ff_dim")
        && !fields_flag(fields, "block_auto_adjust_ff_dim");
    model->ffn = is_off ? model->ffn : adjusted_ffn(fields, model->ffn);
}

static void read_lfm2_moe(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->attention_biases = model->output_bias = model->mlp_biases = false;
    read_convolution(fields, model);
    read_deepseek_experts(fields, model);
    model->dense_layers = fields_number_or(fields, "num_dense_layers", 0, TRANSFORMER_MOST_LAYERS, 2);
    model->buffered_correction = true;
    fields_know(fields, "use_expert_bias");
}

// --- the families ---------------------------------------------------------------

#define MAMBA2 \
    "mamba_n_heads 128 mamba_n_groups 1 mamba_d_state 256 mamba_d_conv 4 mamba_chunk_size 256 mamba_conv_bias 1 " \
    "mamba_expand 2"
#define DELTA \
    "linear_num_value_heads 32 linear_value_head_dim 128 linear_num_key_heads 16 linear_key_head_dim 128 " \
    "linear_conv_kernel_dim 4"

// Decoders of which some or all layers are recurrent (enum recurrence of transformer.h).
const struct family hybrid_families[] = {
    // layers, width, heads, heads of keys, width of a head, width inside an MLP, words, window
    { "nemotron_h", read_nemotron_h, { 0, 4096, 32, 8, 128, 21504, 131072, 0 },
      "n_routed_experts 8 num_experts_per_tok 2 moe_intermediate_size 7688 n_shared_experts 1 mamba_num_heads 128 "
      "mamba_head_dim 64 n_groups 8 ssm_state_size 128 conv_kernel 4 chunk_size 128 use_conv_bias 1 "
      "moe_shared_expert_intermediate_size 7688 mlp_hidden_act relu2" },
    { "granitemoehybrid", read_granite_hybrid, { 32, 4096, 32, 0, 0, 11008, 32000, 0 },
      MAMBA2 " num_local_experts 8 num_experts_per_tok 2 shared_intermediate_size 1024" },
    { "bamba", read_bamba, { 32, 4096, 32, 8, 0, 14336, 128000, 0 }, MAMBA2 },
    { "falcon_h1", read_falcon_h1, { 32, 4096, 32, 8, 0, 14336, 128000, 0 }, MAMBA2 " mamba_d_ssm 1024" },
    { "jamba", read_jamba, { 32, 4096, 32, 8, 0, 14336, 65536, 0 },
      "num_experts 16 num_experts_per_tok 2 mamba_d_state 16 mamba_d_conv 4 mamba_conv_bias 1 mamba_expand 2" },
    { "qwen3_next", read_qwen3_next, { 48, 2048, 16, 2, 256, 5632, 151936, 0 },
      DELTA " num_experts 512 num_experts_per_tok 10 moe_intermediate_size 512 shared_expert_intermediate_size 512" },
    { "qwen3_5_text", read_qwen3_5, { 32, 4096, 16, 4, 256, 12288, 248320, 0 }, DELTA },
    { "qwen3_5_moe_text", read_qwen3_5_moe, { 40, 2048, 16, 2, 256, 0, 248320, 0 },
      DELTA " num_experts 256 num_experts_per_tok 8 moe_intermediate_size 512 shared_expert_intermediate_size 512" },
    { "minimax", read_minimax, { 32, 4096, 32, 8, 0, 14336, 32000, 0 },
      "num_local_experts 8 num_experts_per_tok 2 block_size 256" },
    { "mamba2", read_mamba2, { 64, 4096, 0, 0, 64, 0, 32768, 0 },
      "num_heads 128 n_groups 8 state_size 128 conv_kernel 4 chunk_size 256 use_conv_bias 1" },
    { "olmo_hybrid", read_olmo_hybrid, { 32, 3840, 30, 0, 0, 11008, 100352, 0 }, "linear_conv_kernel_dim 4" },
    { "kimi_linear", read_kimi_linear, { 27, 2304, 32, 32, 0, 9216, 163840, 0 },
      "num_experts 256 num_experts_per_tok 8 moe_intermediate_size 1024 num_shared_experts 1 kv_lora_rank 512 "
      "qk_nope_head_dim 128 qk_rope_head_dim 64 v_head_dim 128 linear_num_heads 32 linear_head_dim 128 "
      "linear_conv_kernel_dim 4" },
    { "lfm2", read_lfm2, { 32, 2560, 32, 8, 0, 12288, 65536, 0 }, "tie_word_embeddings 1 conv_L_cache 3" },
    { "lfm2_moe", read_lfm2_moe, { 32, 2048, 32, 8, 0, 7168, 65536, 0 },
      "tie_word_embeddings 1 num_experts 32 num_experts_per_tok 4 moe_intermediate_size 1792 num_dense_layers 2 "
      "conv_L_cache 3" },
    { "mamba", read_mamba, { 32, 768, 0, 0, 0, 0, 50280, 0 },
      "tie_word_embeddings 1 expand 2 state_size 16 conv_kernel 4 use_conv_bias 1" },
    { "falcon_mamba", read_mamba, { 32, 768, 0, 0, 0, 0, 50280, 0 },
      "tie_word_embeddings 1 expand 2 state_size 16 conv_kernel 4 use_conv_bias 1" },
    { 0 },
};
