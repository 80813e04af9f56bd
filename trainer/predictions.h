// What a model predicts of samples, by forwards alone. They run in a pipeline between two of its steps, on its own
// ranks (runtime/evaluation.h). All ranks of the process group call these functions together. Or they run in a twin
// that was given weights. The same weights give the same bits.
//
//     samples      |0 1 2 3|4 5 6 7|8 9 . .|. . . .|     three micro-batches of four, in evaluations of two
//     evaluation           0               1             the last one has less
#ifndef TRAINER_PREDICTIONS_H
#define TRAINER_PREDICTIONS_H

#include "runtime/evaluation.h"
#include "runtime/twin/twin.h"
#include "trainer/model_layers.h"

struct predictions {
    const struct model *model;
    const struct sample_data *data;
    struct sample_range range;                // of no samples: what is held out
    struct twin *twin;                        // computes the forwards; NULL: the pipeline does
    const struct pipeline *pipeline;
    struct device *device;
    const struct session_settings *settings;  // of the pipeline's session
    struct host_tables *host;                 // tables that are there; NULL: none are
    struct evaluation *evaluation;            // NULL: it is opened by the first call, if it fits
    // If the pipeline's layers are split over devices: whole ones, which one processor runs, and their data
    struct model_layers *whole;
    struct sample_course course;
    uint32_t micro_batches;                   // of an evaluation
    uint64_t evaluations;
    uint64_t output_bytes;                    // what is predicted of a micro-batch
    float *losses;                            // of each micro-batch of the last evaluation
    char *outputs;                            // in the model's precision
    float *numbers;                           // the same as floats
};

enum { PREDICTIONS_MOST = UINT16_MAX - 1 };  // micro-batches of an evaluation

// Sets the fields from `evaluation` on, for evaluations of at most so many micro-batches. The caller has set the
// others. If that makes several, the layers' sample_course has predictions_range() and predictions_samples(), too.
bool predictions_open(struct predictions *predictions, uint32_t most, struct error *error);
void predictions_close(struct predictions *predictions);

struct sample_range predictions_range(const struct predictions *predictions);
uint64_t predictions_samples(const struct predictions *predictions);  // room of an evaluation

// Computes an evaluation; false with `error`. What the last layer reads of a sample is then found by its place in the
// evaluation: a logit for each class of each target, or one of a click.
bool predictions_run(struct predictions *predictions, uint64_t evaluation, struct error *error);
uint64_t predictions_count(const struct predictions *predictions, uint64_t evaluation);  // its samples
const float *predictions_at(const struct predictions *predictions, uint64_t sample);

// The sum over the samples of the last evaluation of their losses, each the mean over its targets.
double predictions_nats(const struct predictions *predictions);

#endif
