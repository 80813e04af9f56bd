// Families of Hugging Face's models, and what their readers share. For transformer_families.c.
#ifndef PROFILER_ESTIMATE_FAMILIES_H
#define PROFILER_ESTIMATE_FAMILIES_H

#include "profiler/estimate/config_fields.h"
#include "profiler/estimate/transformer.h"

// The sizes that most families have: num_hidden_layers, hidden_size, num_attention_heads, num_key_value_heads,
// head_dim, intermediate_size, vocab_size, sliding_window.
enum { FAMILY_SIZES = 8 };

// A model type, how its fields are read into a zeroed model, and what its class in transformers 5.24 gives those that
// are left out. What is false, null or 0 there is a size of 0, or not listed.
struct family {
    const char *name;
    void (*read)(struct config_fields *fields, struct transformer *model);
    uint32_t sizes[FAMILY_SIZES];
    const char *others;  // words in pairs, key and value
};

// The last one of each list has no name.
extern const struct family decoder_families[], expert_families[], hybrid_families[], encoder_families[];

// With these limits no count of parameters exceeds 2^62.
enum { MOST_SIZE = 1 << 18, MOST_WORDS = 1 << 24, MOST_POSITIONS = 1 << 26, MOST_EXPERTS = 1 << 12 };

// Sizes, and steps between layers. A step is 1 if it is refused, since the code divides by it.
uint64_t read_size(struct config_fields *fields, const char *keys);
uint64_t read_size_or(struct config_fields *fields, const char *keys, uint64_t other);
uint64_t read_step_or(struct config_fields *fields, const char *keys, uint64_t other);

// The sizes that every family has.
void read_decoder_sizes(struct config_fields *fields, struct transformer *model);

// Which layers see a window: according to the file if it says so for each layer, else all but every `every`th (0: as
// marked in is_local). If all layers are alike, none is local.
void read_windows(struct config_fields *fields, uint64_t every, struct transformer *model);

// Marks layers as local by whether their queries and keys are rotated, if the file says so for each layer.
void read_rotated_layers(struct config_fields *fields, bool rotated_are_local, struct transformer *model);

// The kind of each layer in the file's list, and what to do with its word.
typedef bool take_layer(struct transformer *model, uint64_t layer, const char *word);
void read_layer_words(struct config_fields *fields, const char *keys, const char *known, take_layer *take,
                      struct transformer *model);

// Families that others differ from.
void read_llama(struct config_fields *fields, struct transformer *model);
void read_llama_as(struct config_fields *fields, const char *ffn, struct transformer *model);  // with another key
void read_mistral(struct config_fields *fields, struct transformer *model);
void read_qwen2(struct config_fields *fields, struct transformer *model);
void read_qwen3(struct config_fields *fields, struct transformer *model);
void read_olmo2(struct config_fields *fields, struct transformer *model);
void read_exaone4(struct config_fields *fields, struct transformer *model);
void read_glm(struct config_fields *fields, struct transformer *model);
void read_hunyuan(struct config_fields *fields, struct transformer *model);
void read_ernie(struct config_fields *fields, struct transformer *model);
void read_mixtral(struct config_fields *fields, struct transformer *model);

// Parts of families, for those that have them beside others.
void read_granite_windows(struct config_fields *fields, struct transformer *model);  // which layers have one, and sinks
void read_qwen_experts(struct config_fields *fields, struct transformer *model);
void read_granite_experts(struct config_fields *fields, struct transformer *model);
void read_deepseek_experts(struct config_fields *fields, struct transformer *model);
void read_latent(struct config_fields *fields, struct transformer *model);

#endif
