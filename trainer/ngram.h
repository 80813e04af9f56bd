// The baseline to beat: bytes predicted by counting.
//
// An order-1 model knows how often each byte followed each other byte in the training text. For a byte that was never
// seen after another, it falls back on how often the byte was seen at all, and from there on 1 in 256. The weight of
// each fallback is the number of different bytes seen in that context (Witten and Bell 1991, method C).
#ifndef TRAINER_NGRAM_H
#define TRAINER_NGRAM_H

#include "trainer/data/text_data.h"

// Bits per byte of the held-out text under the model counted on the training text. `order` is 0 (how often a byte is)
// or 1 (given the byte before it). Tokens must be bytes, or of a vocabulary that is no larger. The first byte of the
// held-out text is not predicted.
double ngram_bits_per_byte(const struct text_data *data, unsigned order);

#endif
