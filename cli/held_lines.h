// The lines on held-out text and samples, in the same form at the end of a run and when a checkpoint is measured.
#ifndef CLI_HELD_LINES_H
#define CLI_HELD_LINES_H

#include "common/text.h"
#include "trainer/held_samples.h"

// Appends the line. All numbers are in bits per token; those of the n-gram models (order 0 and 1) are NAN if tokens
// are not bytes.
void held_text_say(double bits, double order0_bits, double order1_bits, struct text *text);

// The same for pictures, or for clicks.
void held_samples_say(const struct sample_score *held, const struct simple_scores *simple, struct text *text);

#endif
