// Which rows of a large table have a place among few, and which place. The first row has place 0, the next one 1, and
// so on. A row's place is found by hashing (open addressing: Knuth, volume 3, section 6.4), so that memory and time
// depend on the rows which have a place, and not on those of the table.
#ifndef TRAINER_ROW_SLOTS_H
#define TRAINER_ROW_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum { NOT_THERE = -1 };

struct row_slots {
    uint32_t *rows;      // by slot
    size_t count, room;  // `room` grows
    int32_t *index;      // slots, where their rows' hashes say; or NOT_THERE
    unsigned bits;       // log2 of how many there are: twice as many as rows, or more
};

// Empty, with room for so many rows to begin with. False with `error` without memory; row_slots_close() frees either.
bool row_slots_open(struct row_slots *slots, size_t room, struct error *error);
void row_slots_close(struct row_slots *slots);

// The slot of a row, or NOT_THERE. The slot of a row that is added if it has none: NOT_THERE without memory.
int32_t row_slots_find(const struct row_slots *slots, uint32_t row);
int32_t row_slots_add(struct row_slots *slots, uint32_t row);

// Takes all rows out.
void row_slots_clear(struct row_slots *slots);

#endif
