// The same for encoders, in which each token attends to all others.
#ifndef PROFILER_ESTIMATE_ENCODER_FAMILIES_H
#define PROFILER_ESTIMATE_ENCODER_FAMILIES_H

#include "profiler/estimate/config_fields.h"
#include "profiler/estimate/transformer.h"

void read_bert(struct config_fields *fields, struct transformer *model);
void read_roberta(struct config_fields *fields, struct transformer *model);
void read_t5(struct config_fields *fields, struct transformer *model);
void read_vit(struct config_fields *fields, struct transformer *model);

#endif
