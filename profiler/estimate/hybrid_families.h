// The same for decoders of which some or all layers are recurrent (enum recurrence of transformer.h).
#ifndef PROFILER_ESTIMATE_HYBRID_FAMILIES_H
#define PROFILER_ESTIMATE_HYBRID_FAMILIES_H

#include "profiler/estimate/config_fields.h"
#include "profiler/estimate/transformer.h"

void read_nemotron_h(struct config_fields *fields, struct transformer *model);
void read_granite_hybrid(struct config_fields *fields, struct transformer *model);
void read_bamba(struct config_fields *fields, struct transformer *model);
void read_falcon_h1(struct config_fields *fields, struct transformer *model);
void read_jamba(struct config_fields *fields, struct transformer *model);
void read_qwen3_next(struct config_fields *fields, struct transformer *model);
void read_qwen3_5(struct config_fields *fields, struct transformer *model);
void read_qwen3_5_moe(struct config_fields *fields, struct transformer *model);
void read_minimax(struct config_fields *fields, struct transformer *model);
void read_mamba2(struct config_fields *fields, struct transformer *model);
void read_mamba(struct config_fields *fields, struct transformer *model);
void read_olmo_hybrid(struct config_fields *fields, struct transformer *model);
void read_kimi_linear(struct config_fields *fields, struct transformer *model);
void read_lfm2(struct config_fields *fields, struct transformer *model);
void read_lfm2_moe(struct config_fields *fields, struct transformer *model);

#endif
