// Reads the fields of decoders' families into a zeroed model: what their classes in transformers make of a
// config.json. For transformer_families.c.
#ifndef PROFILER_ESTIMATE_DECODER_FAMILIES_H
#define PROFILER_ESTIMATE_DECODER_FAMILIES_H

#include "profiler/estimate/config_fields.h"
#include "profiler/estimate/transformer.h"

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

void read_gpt2(struct config_fields *fields, struct transformer *model);
void read_gpt_bigcode(struct config_fields *fields, struct transformer *model);
void read_gpt_neo(struct config_fields *fields, struct transformer *model);
void read_gpt_neox(struct config_fields *fields, struct transformer *model);
void read_gptj(struct config_fields *fields, struct transformer *model);
void read_bloom(struct config_fields *fields, struct transformer *model);
void read_falcon(struct config_fields *fields, struct transformer *model);
void read_mpt(struct config_fields *fields, struct transformer *model);
void read_opt(struct config_fields *fields, struct transformer *model);
void read_phi(struct config_fields *fields, struct transformer *model);
void read_starcoder2(struct config_fields *fields, struct transformer *model);
void read_llama(struct config_fields *fields, struct transformer *model);
void read_llama_as(struct config_fields *fields, const char *ffn, struct transformer *model);  // with another key
void read_ministral(struct config_fields *fields, struct transformer *model);
void read_mistral(struct config_fields *fields, struct transformer *model);
void read_qwen2(struct config_fields *fields, struct transformer *model);
void read_qwen3(struct config_fields *fields, struct transformer *model);
void read_phi3(struct config_fields *fields, struct transformer *model);
void read_gemma(struct config_fields *fields, struct transformer *model);
void read_gemma2(struct config_fields *fields, struct transformer *model);
void read_gemma3(struct config_fields *fields, struct transformer *model);
void read_olmo(struct config_fields *fields, struct transformer *model);
void read_olmo2(struct config_fields *fields, struct transformer *model);
void read_olmo3(struct config_fields *fields, struct transformer *model);
void read_exaone4(struct config_fields *fields, struct transformer *model);
void read_glm(struct config_fields *fields, struct transformer *model);
void read_glm4(struct config_fields *fields, struct transformer *model);
void read_smollm3(struct config_fields *fields, struct transformer *model);
void read_seed_oss(struct config_fields *fields, struct transformer *model);
void read_apertus(struct config_fields *fields, struct transformer *model);
void read_hunyuan(struct config_fields *fields, struct transformer *model);
void read_cohere(struct config_fields *fields, struct transformer *model);
void read_cohere2(struct config_fields *fields, struct transformer *model);
void read_stablelm(struct config_fields *fields, struct transformer *model);
void read_nemotron(struct config_fields *fields, struct transformer *model);
void read_arcee(struct config_fields *fields, struct transformer *model);
void read_vaultgemma(struct config_fields *fields, struct transformer *model);
void read_cwm(struct config_fields *fields, struct transformer *model);
void read_granite_windows(struct config_fields *fields, struct transformer *model);  // which layers have one, and sinks
void read_granite_swa(struct config_fields *fields, struct transformer *model);
void read_hyperclovax(struct config_fields *fields, struct transformer *model);
void read_nanochat(struct config_fields *fields, struct transformer *model);
void read_emu3(struct config_fields *fields, struct transformer *model);
void read_helium(struct config_fields *fields, struct transformer *model);
void read_ernie(struct config_fields *fields, struct transformer *model);

#endif
