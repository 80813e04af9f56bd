#include "profiler/estimate/families.h"

#include <string.h>

static void read_encoder_sizes(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    model->is_bidirectional = model->has_layer_norm = true;
    model->attention_biases = model->output_bias = model->mlp_biases = true;
    model->drops = fields_above_zero(fields, "hidden_dropout_prob");
    model->drops_scores = fields_above_zero(fields, "attention_probs_dropout_prob");
}

static void read_encoder(struct config_fields *fields, struct transformer *model)
{
    read_encoder_sizes(fields, model);
    model->ffn = read_size(fields, "intermediate_size");
}

// The model that predicts masked words: its head has a product and a norm of its own before the table. Norms come after
// the products, which takes as many passes and keeps as many bytes.
static void read_bert(struct config_fields *fields, struct transformer *model)
{
    read_encoder(fields, model);
    model->positions = model->longest;
    model->token_types = fields_number(fields, "type_vocab_size", 0, MOST_WORDS);
    model->embedding_norm = model->head_transform = model->head_bias = true;
    if (fields_flag(fields, "add_cross_attention") || fields_flag(fields, "is_decoder"))
        json_refuse_key(fields->root, "is_decoder", "a decoder of this family is not estimated");
}

// The first two positions are kept for padding.
static void read_roberta(struct config_fields *fields, struct transformer *model)
{
    read_bert(fields, model);
    model->longest = model->positions > 2 ? model->positions - 2 : model->positions;
}

// What types of tasks add to types of tokens.
static void read_ernie_encoder(struct config_fields *fields, struct transformer *model)
{
    read_bert(fields, model);
    if (fields_flag(fields, "use_task_id"))
        model->token_types += fields_number(fields, "task_type_vocab_size", 0, MOST_WORDS);
    fields_know(fields, "task_type_vocab_size");
}

// The embedding has a norm, and the blocks' output another one.
static void read_roberta_prelayernorm(struct config_fields *fields, struct transformer *model)
{
    read_roberta(fields, model);
    model->head_norm = true;
}

// Half of BERT's layers, and no types of tokens.
static void read_distilbert(struct config_fields *fields, struct transformer *model)
{
    model->layers = fields_number(fields, "n_layers|num_hidden_layers", 1, TRANSFORMER_MOST_LAYERS);
    model->hidden = read_size(fields, "dim|hidden_size");
    model->heads = model->kv_heads = read_size(fields, "n_heads|num_attention_heads");
    model->ffn = read_size(fields, "hidden_dim");
    model->positions = model->longest = fields_number(fields, "max_position_embeddings", 1, MOST_POSITIONS);
    model->is_tied = fields_flag(fields, "tie_word_embeddings|tie_weights_");
    model->is_bidirectional = model->has_layer_norm = true;
    model->attention_biases = model->output_bias = model->mlp_biases = true;
    model->embedding_norm = model->head_transform = model->head_bias = true;
    model->drops = fields_above_zero(fields, "dropout");
    model->drops_scores = fields_above_zero(fields, "attention_dropout");
    fields_know(fields, "sinusoidal_pos_embds|qa_dropout|seq_classif_dropout");
}

// Llama, whose tokens attend to all others.
static void read_eurobert(struct config_fields *fields, struct transformer *model)
{
    read_llama(fields, model);
    model->is_bidirectional = true;
    model->head_bias = model->mlp_biases;
}

// What its first layer reads has the embedding's norm, and no other. The head has a product and a norm of its own
// behind the last norm. A window has as many tokens on either side.
static void read_modernbert(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    model->ffn = read_size(fields, "intermediate_size");
    model->is_bidirectional = model->is_gated = model->is_rotary = true;
    model->has_layer_norm = fields_flag(fields, "norm_bias");
    model->centered_norms = !model->has_layer_norm;
    model->attention_biases = model->output_bias = fields_flag(fields, "attention_bias");
    model->mlp_biases = fields_flag(fields, "mlp_bias");
    model->drops_scores = fields_above_zero(fields, "attention_dropout");
    model->drops = model->drops_scores;
    model->head_transform = model->head_norm = true;
    model->plain_transform = !fields_flag(fields, "classifier_bias");
    model->head_bias = fields_flag(fields, "decoder_bias");
    model->window = fields_number(fields, "local_attention", 2, MOST_POSITIONS);
    const uint64_t every = read_step_or(fields, "global_attn_every_n_layers", 3);
    for (uint64_t i = 0; i < model->layers; i++)
        model->is_local[i] = i % every != 0;
    read_windows(fields, 0, model);
    if (fields_above_zero(fields, "mlp_dropout"))
        json_refuse_key(fields->root, "mlp_dropout", "is above zero, and no estimate is made for a dropout within"
                        " MLPs");
    fields_know(fields, "classifier_pooling|sparse_prediction|sparse_pred_ignore_index|deterministic_flash_attn"
                        "|global_rope_theta|local_rope_theta|embedding_dropout|reference_compile"
                        "|repad_logits_with_grad");
}

// The same with tokens that see those before them, in windows of one side.
static void read_modernbert_decoder(struct config_fields *fields, struct transformer *model)
{
    read_modernbert(fields, model);
    model->is_bidirectional = false;
    model->window /= 2;
    model->local_window /= 2;
}

static void read_labels(struct config_fields *fields, struct transformer *model)
{
    struct json labels;
    model->head_bias = true;
    model->vocabulary = fields_number_or(fields, "num_labels", 1, MOST_WORDS, 2);
    if (!fields_state(fields, "num_labels") && json_find(fields->root, "id2label", &labels))
        model->vocabulary = json_count(&labels) > 0 ? json_count(&labels) : 2;
}

// Patches of a picture, and so many tokens beside them.
static void read_patches(struct config_fields *fields, uint64_t tokens, struct transformer *model)
{
    const uint64_t image = read_size(fields, "image_size"), patch = read_size(fields, "patch_size");
    const uint64_t along = patch > 0 ? image / patch : 0;
    model->attention_biases = fields_flag(fields, "qkv_bias");
    model->patch_numbers = fields_number(fields, "num_channels", 1, 1024) * patch * patch;
    model->positions = model->longest = along * along + tokens;
    model->patch_tokens = tokens;
    read_labels(fields, model);
    if (patch > image)
        json_refuse_key(fields->root, "patch_size", "is larger than image_size, which is %llu",
                        (unsigned long long)image);
    fields_know(fields, "encoder_stride|pooler_output_size|pooler_act");
}

// A token for the class, which the head alone reads.
static void read_vit(struct config_fields *fields, struct transformer *model)
{
    read_encoder(fields, model);
    read_patches(fields, 1, model);
}

// Another token, for what a teacher says.
static void read_deit(struct config_fields *fields, struct transformer *model)
{
    read_encoder(fields, model);
    read_patches(fields, 2, model);
}

// The head reads the mean of the patches.
static void read_ijepa(struct config_fields *fields, struct transformer *model)
{
    read_encoder(fields, model);
    read_patches(fields, 0, model);
}

// What is added to the residual is scaled by a vector. The head reads the token for the class and the mean of patches.
// Registers are tokens without a position; they count as such.
static void read_dinov2(struct config_fields *fields, struct transformer *model)
{
    const bool has_registers = strstr(model->name, "registers");
    const uint64_t registers = fields_number_or(fields, "num_register_tokens", 0, 1024, 0);
    read_encoder_sizes(fields, model);
    model->ffn = read_step_or(fields, "mlp_ratio", 4) * model->hidden;
    model->is_gated = fields_flag(fields, "use_swiglu_ffn");
    if (model->is_gated)
        model->ffn = (model->ffn * 2 / 3 + 7) / 8 * 8;
    read_patches(fields, 1, model);
    model->scales_layers = model->reads_mean = true;
    model->has_mask_token = has_registers || fields_flag(fields, "use_mask_token");
    model->positions += registers;
    model->longest = model->positions;
    fields_know(fields, "layerscale_value|apply_layernorm|reshape_hidden_states|out_features|out_indices|stage_names");
}

// An encoder and a decoder, which may have another number of layers. Distances of tokens are in buckets, with a number
// for each head. The class reads the embedding's table in its head whatever the file says (configuration_t5.py: "we tie
// weights always").
static void read_t5(struct config_fields *fields, struct transformer *model)
{
    char kind[32];
    model->encoder_layers = fields_number(fields, "num_layers", 1, TRANSFORMER_MOST_LAYERS / 2);
    model->layers = model->encoder_layers
        + fields_number_or(fields, "num_decoder_layers", 1, TRANSFORMER_MOST_LAYERS / 2, model->encoder_layers);
    read_decoder_sizes(fields, model);
    model->is_tied = true;
    model->head_size = read_size(fields, "d_kv");
    model->ffn = read_size(fields, "d_ff");
    model->position_buckets = fields_number(fields, "relative_attention_num_buckets", 1, MOST_POSITIONS);
    model->drops = model->drops_scores = fields_above_zero(fields, "dropout_rate");
    fields_word(fields, "feed_forward_proj", kind, sizeof kind);
    model->is_gated = strncmp(kind, "gated-", 6) == 0;
    fields_know(fields, "relative_attention_max_distance|is_gated_act|dense_act_fn|is_encoder_decoder"
                        "|scale_decoder_outputs");
}

// Each layer has numbers for the distances of tokens.
static void read_umt5(struct config_fields *fields, struct transformer *model)
{
    read_t5(fields, model);
    model->buckets_each = true;
}

// --- the families ---------------------------------------------------------------

#define BERT \
    "max_position_embeddings 512 type_vocab_size 2 tie_word_embeddings 1 hidden_dropout_prob 0.1 " \
    "attention_probs_dropout_prob 0.1 hidden_act gelu"
#define VIT "qkv_bias 1 image_size 224 num_channels 3 hidden_act gelu"

// Encoders, in which each token attends to all others.
const struct family encoder_families[] = {
    // layers, width, heads, heads of keys, width of a head, width inside an MLP, words, window
    { "bert", read_bert, { 12, 768, 12, 0, 0, 3072, 30522, 0 }, BERT },
    { "roberta", read_roberta, { 12, 768, 12, 0, 0, 3072, 50265, 0 }, BERT },
    { "xlm-roberta", read_roberta, { 12, 768, 12, 0, 0, 3072, 30522, 0 }, BERT },
    { "camembert", read_roberta, { 12, 768, 12, 0, 0, 3072, 30522, 0 }, BERT },
    { "data2vec-text", read_roberta, { 12, 768, 12, 0, 0, 3072, 30522, 0 }, BERT },
    { "xlm-roberta-xl", read_roberta, { 36, 2560, 32, 0, 0, 10240, 250880, 0 },
      "max_position_embeddings 514 type_vocab_size 1 tie_word_embeddings 1 hidden_dropout_prob 0.1 "
      "attention_probs_dropout_prob 0.1 hidden_act gelu" },
    { "roberta-prelayernorm", read_roberta_prelayernorm, { 12, 768, 12, 0, 0, 3072, 50265, 0 }, BERT },
    { "megatron-bert", read_bert, { 24, 1024, 16, 0, 0, 4096, 29056, 0 }, BERT },
    { "ernie", read_ernie_encoder, { 12, 768, 12, 0, 0, 3072, 30522, 0 }, BERT " task_type_vocab_size 3" },
    { "distilbert", read_distilbert, { 0, 0, 0, 0, 0, 0, 30522, 0 },
      "n_layers 6 dim 768 n_heads 12 hidden_dim 3072 max_position_embeddings 512 tie_word_embeddings 1 dropout 0.1 "
      "attention_dropout 0.1 activation gelu" },
    { "eurobert", read_eurobert, { 12, 768, 12, 0, 0, 3072, 128256, 0 }, "" },
    { "modernbert", read_modernbert, { 22, 768, 12, 0, 0, 1152, 50368, 0 },
      "local_attention 128 tie_word_embeddings 1 decoder_bias 1 hidden_activation gelu" },
    { "modernbert-decoder", read_modernbert_decoder, { 22, 768, 12, 0, 0, 1152, 50368, 0 },
      "local_attention 128 tie_word_embeddings 1 decoder_bias 1 hidden_activation gelu" },
    { "t5", read_t5, { 0, 0, 0, 0, 0, 0, 32128, 0 },
      "num_layers 6 d_model 512 d_kv 64 num_heads 8 d_ff 2048 relative_attention_num_buckets 32 dropout_rate 0.1 "
      "feed_forward_proj relu tie_word_embeddings 1" },
    { "mt5", read_t5, { 0, 0, 0, 0, 0, 0, 250112, 0 },
      "num_layers 8 d_model 512 d_kv 64 num_heads 6 d_ff 1024 relative_attention_num_buckets 32 dropout_rate 0.1 "
      "feed_forward_proj gated-gelu tie_word_embeddings 1" },
    { "umt5", read_umt5, { 0, 0, 0, 0, 0, 0, 250112, 0 },
      "num_layers 8 d_model 512 num_heads 6 d_ff 1024 d_kv 64 tie_word_embeddings 1 "
      "relative_attention_num_buckets 32 dropout_rate 0.1 feed_forward_proj gated-gelu" },
    { "vit", read_vit, { 12, 768, 12, 0, 0, 3072, 0, 0 }, VIT " patch_size 16" },
    { "vit_msn", read_vit, { 12, 768, 12, 0, 0, 3072, 0, 0 }, VIT " patch_size 16" },
    { "deit", read_deit, { 12, 768, 12, 0, 0, 3072, 0, 0 }, VIT " patch_size 16" },
    { "ijepa", read_ijepa, { 12, 768, 12, 0, 0, 3072, 0, 0 }, VIT " patch_size 16" },
    { "dinov2", read_dinov2, { 12, 768, 12, 0, 0, 0, 0, 0 }, VIT " patch_size 14 mlp_ratio 4 use_mask_token 1" },
    { "dinov2_with_registers", read_dinov2, { 12, 768, 12, 0, 0, 0, 0, 0 },
      VIT " patch_size 16 mlp_ratio 4 num_register_tokens 4" },
    { 0 },
};
