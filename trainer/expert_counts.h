// What the experts of a run had to do in its last update: read from the state of their layers, shown by layer.
#ifndef TRAINER_EXPERT_COUNTS_H
#define TRAINER_EXPERT_COUNTS_H

#include "common/text.h"
#include "models/model.h"
#include "runtime/pipeline.h"

struct expert_counts {
    char layer[LAYER_NAME_SIZE];
    size_t experts;
    float *counts;                 // choices of each expert, with those that were dropped
    double dropped;                // share of all choices
    double auxiliary, z;           // means over the micro-batches, without coefficients
};

// Reads those of all layers of experts, in their order; `count` of them. All ranks of a run call it. False with `error`
// on failure. The array is freed by expert_counts_free(); NULL: the model has no experts.
bool expert_counts_read(const struct pipeline *pipeline, const struct model *model, struct expert_counts **all,
                        size_t *count, struct error *error);
void expert_counts_free(struct expert_counts *all, size_t count);

// Appends a table with a line for each layer.
void expert_counts_print(const struct expert_counts *all, size_t count, struct text *text);

#endif
