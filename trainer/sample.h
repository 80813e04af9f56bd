// Text that a model of bytes generates after a prompt: each byte is drawn with the probabilities that the model gives
// it.
#ifndef TRAINER_SAMPLE_H
#define TRAINER_SAMPLE_H

#include "common/text.h"
#include "trainer/kept_model.h"

struct sample_settings {
    const char *prompt;  // at least one byte
    size_t tokens;       // bytes to draw
    // 1: the model's own probabilities; lower: likely bytes win more often; 0: always the likeliest
    double temperature;
    uint64_t seed;
};

// Appends the drawn bytes to `text`, without the prompt. Runs on a CPU, one byte at a time. The model sees as many of
// the last bytes as its sequence is long. False with `error` if the vocabulary is not of 256 bytes, or if logits are
// not finite.
bool sample_text(const struct kept_model *kept, const struct sample_settings *settings, struct text *text,
                 struct error *error);

#endif
