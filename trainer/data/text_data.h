// Text as training data: bytes, or the tokens of a token file (docs/formats/tokens.md), split once into training and
// held-out data.
//
//     file tokens  |0 ... 4095|4096 ... |         |   ...   |
//     every tenth block of 4,096 is held out:          ^ block 9, 19, 29, ...
//
// Blocks are held out, not the tail, so that the texts of a folder are held out in equal parts. The n-gram models and
// the network see the same split.
#ifndef TRAINER_DATA_TEXT_DATA_H
#define TRAINER_DATA_TEXT_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"
#include "trainer/data/sample_data.h"

struct text_data {
    uint16_t *train;
    size_t train_count;
    uint16_t *held;
    size_t held_count;
    size_t file_count;
    uint32_t vocabulary;  // tokens are below it; 256 for bytes
};

// Loads a file, or every regular file of a folder in the order of their names. Links inside the folder are skipped,
// since they would repeat a text. A single file that begins like a token file is read as one; in a folder it is bytes
// like the others. False with `error` if there are fewer than 10 x 4,096 tokens in all, since a block could not be
// held out. Cleared by text_data_clear().
bool text_data_load(const char *path, struct text_data *data, struct error *error);
// The same of a document of data of the kind "text".
bool text_data_take(const struct sample_data *from, struct text_data *data, struct error *error);
void text_data_clear(struct text_data *data);

// A hash of the tokens and how they are split; it does not depend on the files' names.
void text_data_hash(const struct text_data *data, char digits[HASH_SIZE]);

// The tokens of one training micro-batch: `rows` sequences of `length` tokens, and for each token the one after it as
// its target. The choice of sequences depends on seed, step and micro-batch alone, not on the caller or the order of
// calls.
void text_data_micro_batch(const struct text_data *data, uint64_t seed, uint64_t step, uint32_t micro_batch,
                           size_t rows, size_t length, int32_t *tokens, int32_t *targets);

// The held-out text as micro-batches of consecutive windows that together cover it once: their number, the real rows
// of one, and its tokens. If the last batch has fewer real rows, it repeats its last one.
size_t text_data_held_batches(const struct text_data *data, size_t rows, size_t length);
size_t text_data_held_rows(const struct text_data *data, size_t index, size_t rows, size_t length);
void text_data_held_batch(const struct text_data *data, size_t index, size_t rows, size_t length, int32_t *tokens,
                          int32_t *targets);

#endif
