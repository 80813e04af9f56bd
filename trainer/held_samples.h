// How many held-out pictures or clicks a model gets right. Its weights are those of a pipeline between two of its
// steps, or of a checkpoint, put into a twin.
#ifndef TRAINER_HELD_SAMPLES_H
#define TRAINER_HELD_SAMPLES_H

#include "trainer/predictions.h"
#include "trainer/sample_score.h"

// Opens predictions of what is held out, as one evaluation. Refuses data that have no score.
bool held_samples_open(struct predictions *held, struct error *error);
bool held_samples_score(struct predictions *held, struct sample_score *score, struct error *error);

// A twin for it, of the model's initial weights until others are put into it.
struct held_twin {
    struct sample_course course;
    struct model_layers *layers;
    struct twin *twin;
};
bool held_twin_open(struct held_twin *held, const struct model *model, const struct sample_data *data,
                    struct device *device, struct error *error);
void held_twin_close(struct held_twin *held);

// What a simple model reaches on the same split: the most frequent label for all, and logistic regression. On pixels it
// is trained for some epochs by plain gradient descent, and the share that is right counts. On clicks it is trained to
// its optimum, and the AUC counts (click_regression.h). NAN if labels are per pixel, or if it would take minutes.
struct simple_scores {
    double majority, regression;
};
bool held_samples_simple(const struct sample_data *data, uint64_t seed, struct simple_scores *scores,
                          struct error *error);

#endif
