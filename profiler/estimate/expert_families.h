// Reads the fields of families with experts, and of those with latent attention, into a zeroed model. For
// transformer_families.c.
#ifndef PROFILER_ESTIMATE_EXPERT_FAMILIES_H
#define PROFILER_ESTIMATE_EXPERT_FAMILIES_H

#include "profiler/estimate/config_fields.h"
#include "profiler/estimate/transformer.h"

void read_mixtral(struct config_fields *fields, struct transformer *model);
void read_gpt_oss(struct config_fields *fields, struct transformer *model);
void read_qwen_experts(struct config_fields *fields, struct transformer *model);
void read_qwen2_moe(struct config_fields *fields, struct transformer *model);
void read_qwen3_moe(struct config_fields *fields, struct transformer *model);
void read_olmoe(struct config_fields *fields, struct transformer *model);
void read_granite_experts(struct config_fields *fields, struct transformer *model);
void read_phimoe(struct config_fields *fields, struct transformer *model);
void read_minimax_m2(struct config_fields *fields, struct transformer *model);
void read_deepseek_experts(struct config_fields *fields, struct transformer *model);
void read_deepseek(struct config_fields *fields, struct transformer *model);
void read_deepseek_sparse(struct config_fields *fields, struct transformer *model);
void read_glm4_moe(struct config_fields *fields, struct transformer *model);
void read_glm4v_moe(struct config_fields *fields, struct transformer *model);
void read_glm4_moe_lite(struct config_fields *fields, struct transformer *model);
void read_dots1(struct config_fields *fields, struct transformer *model);
void read_ernie_moe(struct config_fields *fields, struct transformer *model);
void read_dbrx(struct config_fields *fields, struct transformer *model);
void read_llama4(struct config_fields *fields, struct transformer *model);
void read_hunyuan_moe(struct config_fields *fields, struct transformer *model);
void read_granitemoe_swa(struct config_fields *fields, struct transformer *model);
void read_mellum(struct config_fields *fields, struct transformer *model);
void read_sarvam_mla(struct config_fields *fields, struct transformer *model);
void read_sarvam_moe(struct config_fields *fields, struct transformer *model);
void read_solar_open(struct config_fields *fields, struct transformer *model);
void read_exaone_moe(struct config_fields *fields, struct transformer *model);
void read_afmoe(struct config_fields *fields, struct transformer *model);
void read_aria(struct config_fields *fields, struct transformer *model);
void read_hy_v3(struct config_fields *fields, struct transformer *model);
void read_longcat_flash(struct config_fields *fields, struct transformer *model);

// Latent attention alone, and in models without experts.
void read_latent(struct config_fields *fields, struct transformer *model);
void read_youtu(struct config_fields *fields, struct transformer *model);
void read_minicpm3(struct config_fields *fields, struct transformer *model);

#endif
