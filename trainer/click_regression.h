// Logistic regression on clicks: the simple model that a model of tables has to beat.
//
// It has a weight for each id of each slot, a weight for each number, and a bias. A number enters as
// log(max(x, 0) + 1), moved and scaled to mean 0 and variance 1 over the training samples, so that one L2 suits all
// weights:
//
//     minimized    L2 / 2 |w|^2 + sum over samples of log(1 + exp(-y w . x)),     y = -1 or 1
//
// It is trained by coordinate ascent on the dual problem (Yu, Huang, Lin 2011), a sample at a time, whose value is a
// lower bound of what is minimized. Training stops when the two are as close as is asked for. So the weights are the
// problem's own, and neither a rate nor the order of samples decides them.
#ifndef TRAINER_CLICK_REGRESSION_H
#define TRAINER_CLICK_REGRESSION_H

#include "trainer/data/click_data.h"

struct click_regression {
    const struct sample_data *data;  // borrowed
    uint64_t *first_weights;         // of each slot; then of the numbers
    uint64_t weight_count;
    double *weights;                 // slot by slot, then of the numbers, then the bias
    double l2;                       // that the weights were trained with; 0: not yet
    bool has_all;                    // they were trained with the samples to choose on, too
    double *shares;                  // of each training sample: between 0 and 1, the dual problem's unknowns
    double *logits;                  // log(1 / share - 1)
    double *squares;                 // |x|^2 of each training sample
    float *features;                 // numbers of all samples, as they enter
};

bool click_regression_open(struct click_regression *regression, const struct sample_data *data, struct error *error);
void click_regression_close(struct click_regression *regression);

// A tenth of the training samples, by a hash of their number, on which an L2 is chosen.
bool click_regression_chooses_on(uint64_t sample);

struct click_fit {
    double gap;       // (what is minimized - its lower bound) / what is minimized
    uint32_t epochs;
};
// Trains until the gap is at most `gap`, or for `most_epochs`, with or without the samples to choose on. It goes on
// from the weights of the last call, whose L2 may be another, unless they know samples that are now left out.
struct click_fit click_regression_train(struct click_regression *regression, uint64_t seed, double l2,
                                        bool leaves_some_out, double gap, uint32_t most_epochs);

// w . x of a sample.
double click_regression_score(const struct click_regression *regression, struct sample_place place);

// What simple models reach on the held-out samples.
struct click_baseline {
    double majority;  // share of the label that is the more frequent to train on
    double auc;       // of logistic regression. NAN if it would take minutes, or if all held-out labels are the same
    double l2;        // the best of five by AUC on the samples to choose on
    struct click_fit fit;
};
bool click_baseline_find(const struct sample_data *data, uint64_t seed, struct click_baseline *baseline,
                         struct error *error);

#endif
