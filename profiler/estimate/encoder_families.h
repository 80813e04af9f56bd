// The same for encoders, in which each token attends to all others.
#ifndef PROFILER_ESTIMATE_ENCODER_FAMILIES_H
#define PROFILER_ESTIMATE_ENCODER_FAMILIES_H

#include "profiler/estimate/config_fields.h"
#include "profiler/estimate/transformer.h"

void read_bert(struct config_fields *fields, struct transformer *model);
void read_roberta(struct config_fields *fields, struct transformer *model);
void read_roberta_prelayernorm(struct config_fields *fields, struct transformer *model);
void read_ernie_encoder(struct config_fields *fields, struct transformer *model);
void read_distilbert(struct config_fields *fields, struct transformer *model);
void read_eurobert(struct config_fields *fields, struct transformer *model);
void read_modernbert(struct config_fields *fields, struct transformer *model);
void read_modernbert_decoder(struct config_fields *fields, struct transformer *model);
void read_t5(struct config_fields *fields, struct transformer *model);
void read_umt5(struct config_fields *fields, struct transformer *model);
void read_vit(struct config_fields *fields, struct transformer *model);
void read_deit(struct config_fields *fields, struct transformer *model);
void read_ijepa(struct config_fields *fields, struct transformer *model);
void read_dinov2(struct config_fields *fields, struct transformer *model);

#endif
