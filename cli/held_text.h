// The line on held-out text, alike where a run has ended and where a checkpoint is measured.
#ifndef CLI_HELD_TEXT_H
#define CLI_HELD_TEXT_H

#include "common/text.h"

// Bits per token; of the counting models NAN where the text is of no bytes.
void held_text_say(double bits, double order0_bits, double order1_bits, struct text *text);

#endif
