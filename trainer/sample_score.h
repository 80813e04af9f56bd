// How well predictions tell samples: the shares of their targets that are right, and of clicks the AUC.
//
//     sample_counts_open(&counts, model, samples, &error);
//     for each sample
//         sample_counts_add(&counts, logits, targets);
//     sample_counts_score(&counts, nats, &score);
//     sample_counts_close(&counts);
#ifndef TRAINER_SAMPLE_SCORE_H
#define TRAINER_SAMPLE_SCORE_H

#include "models/model.h"
#include "trainer/data/auc.h"

struct sample_score {
    double bits;         // per target
    double right, top5;  // shares of the targets; top5 is NAN with at most 5 classes
    double auc;          // of clicks (auc.h); else NAN
};

struct sample_counts {
    const struct model *model;  // borrowed; of pictures or clicks
    uint64_t samples, right, top5;
    struct scored *clicks;      // NULL: they are pictures
};

// With room for so many samples.
bool sample_counts_open(struct sample_counts *counts, const struct model *model, uint64_t samples,
                        struct error *error);
void sample_counts_close(struct sample_counts *counts);

// Logits are those of predictions_at(), and targets those of sample_data_targets().
void sample_counts_add(struct sample_counts *counts, const float *logits, const int32_t *targets);
// `nats` is the sum of the samples' losses. Sorts what it has of clicks.
void sample_counts_score(const struct sample_counts *counts, double nats, struct sample_score *score);

// How many classes have a higher logit than one of them; of equal ones the first is the higher.
size_t class_rank(const float *logits, size_t classes, size_t class);

#endif
