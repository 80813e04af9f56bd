// How many held-out pictures or clicks a pipeline gets right, between two of its steps. The forwards run in the
// pipeline, on its own ranks (runtime/evaluation.h). All ranks of the process group call these functions together. Or
// how many the weights of a checkpoint get right, which are put into a twin. The same weights give the same bits.
#ifndef TRAINER_HELD_SAMPLES_H
#define TRAINER_HELD_SAMPLES_H

#include "runtime/evaluation.h"
#include "runtime/twin/twin.h"
#include "trainer/model_layers.h"

struct held_samples {
    const struct model *model;
    const struct sample_data *data;
    struct twin *twin;                        // computes the forwards; NULL: the pipeline does
    const struct pipeline *pipeline;
    struct device *device;
    const struct session_settings *settings;  // of the pipeline's session
    struct evaluation *evaluation;            // NULL: it is opened by the first call, if it fits
    // If the pipeline's layers are split over devices: whole ones, which one processor runs, and their data
    struct model_layers *whole;
    struct sample_course course;
    uint32_t micro_batches;
    uint64_t score_bytes;                     // of a micro-batch
    float *losses;                            // of each micro-batch
    char *scores;
};

struct held_score {
    double bits;         // per target
    double right, top5;  // shares of the targets; top5 is NAN with at most 5 classes
    double auc;          // of clicks (auc.h); else NAN
};

// Borrows what it is given but `held`, which the other fields are set in.
bool held_samples_open(struct held_samples *held, struct error *error);
void held_samples_close(struct held_samples *held);
bool held_samples_score(struct held_samples *held, struct held_score *score, struct error *error);

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
