// Probabilities for the samples of a document: forwards alone, through the stages of a plan, with given weights.
#ifndef TRAINER_SCORE_H
#define TRAINER_SCORE_H

#include "common/text.h"
#include "partitioner/plan/plan.h"
#include "trainer/data/sample_data.h"
#include "trainer/kept_model.h"
#include "trainer/run_place.h"
#include "trainer/sample_score.h"

enum score_split { SCORE_HELD_OUT, SCORE_TRAIN, SCORE_ALL };
extern const char *const score_splits[];  // "held-out", "train", "all"; NULL-terminated

struct sample_range score_range(const struct sample_data *data, enum score_split split);

struct score_settings {
    const struct sample_data *data;
    enum score_split split;
    const struct kept_model *kept;  // weights of the plan's model
    uint32_t most;                  // micro-batches of an evaluation; 0: the usual number
    struct run_place place;
};

// Whether samples of the data can be scored: they fit the model, which has one answer for a sample. False with `error`.
bool score_fits(const struct sample_data *data, enum score_split split, const struct model *model, struct error *error);

// Appends a line for each sample, in the order of the document: its number there, what is predicted of it, its label.
//
//     18000 <tab> 0.0712 <tab> 0            a click: the probability of label 1
//     60000 <tab> 7 <tab> 0.98 <tab> 7      a picture: its likeliest class, and that class's probability
//
// A probability has as many digits as its float needs. All ranks of a run call it, and all have the lines.
bool score_plan(const struct plan *plan, const struct model *model, const struct score_settings *settings,
                struct text *lines, struct sample_score *score, struct error *error);

#endif
