// Clicks in Criteo's format: a line per sample, with cells apart by tabs.
//
//     label, 13 integers, 26 words of hex digits     0 or 1; an integer or a word may be missing
//
// A missing integer is 0. A word becomes one id: splitmix64 that begins with slot * 2^32 + word gives a number, whose
// remainder by the capacity is the id. A missing word is an empty bag.
#ifndef TRAINER_DATA_CRITEO_H
#define TRAINER_DATA_CRITEO_H

#include "trainer/data/click_writer.h"

enum { CRITEO_NUMBERS = 13, CRITEO_SLOTS = 26 };

uint32_t criteo_id(uint32_t slot, uint32_t word, uint64_t capacity);

// Adds the samples of all files, which may be packed by gzip, in their order. `train` are those to train on: all but
// the last tenth.
bool criteo_read(char *const *files, size_t count, uint64_t capacity, struct click_writer *writer, uint64_t *train,
                 struct error *error);

#endif
