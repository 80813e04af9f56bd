// The model to beat: bytes predicted by counting.
//
// An order-1 model knows how often each byte followed each other byte in the
// training text; a byte never seen after another falls back on how often it was
// seen at all, and that on 1 in 256, each mixed in by the number of different
// bytes seen there (Witten and Bell 1991, method C).
#ifndef TRAINER_NGRAM_H
#define TRAINER_NGRAM_H

#include "trainer/text_data.h"

// Of bytes, or tokens that are no more: bits per byte of the held-out text under the model counted on the training
// text; `order` is 0 (how often a byte is) or 1 (given the byte before it). The
// first byte of the held-out text is not predicted.
double ngram_bits_per_byte(const struct text_data *data, unsigned order);

#endif
