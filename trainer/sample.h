// Text that a model of bytes writes behind a text: each byte drawn by the probabilities that the model gives it.
#ifndef TRAINER_SAMPLE_H
#define TRAINER_SAMPLE_H

#include "common/text.h"
#include "trainer/kept_model.h"

struct sample_settings {
    const char *prompt;  // at least a byte
    size_t tokens;       // to be drawn
    double temperature;  // 1: the model's own probabilities; towards 0 the likely ones win; 0: always the likeliest
    uint64_t seed;
};

// Adds what is drawn to `text`. On a CPU, one byte after the other: the model sees as many of the last bytes as its
// sequence is long.
bool sample_text(const struct kept_model *kept, const struct sample_settings *settings, struct text *text,
                 struct error *error);

#endif
