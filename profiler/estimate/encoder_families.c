#include "profiler/estimate/encoder_families.h"

#include <string.h>

#include "profiler/estimate/decoder_families.h"

static void read_encoder(struct config_fields *fields, struct transformer *model)
{
    read_decoder_sizes(fields, model);
    model->ffn = read_size(fields, "intermediate_size");
    model->is_bidirectional = model->has_layer_norm = true;
    model->attention_biases = model->output_bias = model->mlp_biases = true;
    model->drops = fields_above_zero(fields, "hidden_dropout_prob");
    model->drops_scores = fields_above_zero(fields, "attention_probs_dropout_prob");
}

// The model that predicts masked words: its head has a product and a norm of its own before the table. Norms come after
// the products, which takes as many passes and keeps as many bytes.
void read_bert(struct config_fields *fields, struct transformer *model)
{
    read_encoder(fields, model);
    model->positions = model->longest;
    model->token_types = fields_number(fields, "type_vocab_size", 0, MOST_WORDS);
    model->embedding_norm = model->head_transform = model->head_bias = true;
    if (fields_flag(fields, "add_cross_attention") || fields_flag(fields, "is_decoder"))
        json_refuse_key(fields->root, "is_decoder", "a decoder of this family is not estimated");
}

// The first two positions are kept for padding.
void read_roberta(struct config_fields *fields, struct transformer *model)
{
    read_bert(fields, model);
    model->longest = model->positions > 2 ? model->positions - 2 : model->positions;
}

// Patches of a picture, and a token for the class, which the head alone reads.
void read_vit(struct config_fields *fields, struct transformer *model)
{
    struct json labels;
    read_encoder(fields, model);
    const uint64_t image = read_size(fields, "image_size"), patch = read_size(fields, "patch_size");
    const uint64_t along = patch > 0 ? image / patch : 0;
    model->attention_biases = fields_flag(fields, "qkv_bias");
    model->patch_numbers = fields_number(fields, "num_channels", 1, 1024) * patch * patch;
    model->positions = model->longest = along * along + 1;
    model->head_bias = true;
    model->vocabulary = fields_number_or(fields, "num_labels", 1, MOST_WORDS, 2);
    if (!fields_state(fields, "num_labels") && json_find(fields->root, "id2label", &labels))
        model->vocabulary = json_count(&labels) > 0 ? json_count(&labels) : 2;
    if (patch > image)
        json_refuse_key(fields->root, "patch_size", "is larger than image_size, which is %llu",
                        (unsigned long long)image);
    fields_know(fields, "encoder_stride|pooler_output_size|pooler_act");
}

// An encoder and a decoder, which may have another number of layers. Distances of tokens are in buckets, with a number
// for each head. The class reads the embedding's table in its head whatever the file says (configuration_t5.py: "we tie
// weights always").
void read_t5(struct config_fields *fields, struct transformer *model)
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
