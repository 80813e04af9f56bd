#include "trainer/row_slots.h"

#include <stdlib.h>
#include <string.h>

static void clear_index(struct row_slots *slots)
{
    memset(slots->index, 0xff, ((size_t)1 << slots->bits) * sizeof slots->index[0]);
}

// Where a row is in the index, or where it would be. Fibonacci hashing: Knuth, volume 3, section 6.4.
static size_t place_of(const struct row_slots *slots, uint32_t row)
{
    const size_t mask = ((size_t)1 << slots->bits) - 1;
    size_t at = (size_t)((row * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - slots->bits));
    while (slots->index[at] != NOT_THERE && slots->rows[slots->index[at]] != row)
        at = (at + 1) & mask;
    return at;
}

static bool make_room(struct row_slots *slots, size_t room)
{
    unsigned bits = 1;
    while ((size_t)1 << bits < 2 * room)
        bits++;
    uint32_t *rows = realloc(slots->rows, room * sizeof rows[0]);
    slots->rows = rows ? rows : slots->rows;
    int32_t *index = rows ? realloc(slots->index, ((size_t)1 << bits) * sizeof index[0]) : NULL;
    if (!index)
        return false;
    slots->index = index;
    slots->bits = bits;
    slots->room = room;
    clear_index(slots);
    for (size_t slot = 0; slot < slots->count; slot++)
        index[place_of(slots, slots->rows[slot])] = (int32_t)slot;
    return true;
}

bool row_slots_open(struct row_slots *slots, size_t room, struct error *error)
{
    *slots = (struct row_slots){ 0 };
    return make_room(slots, room > 0 ? room : 1) || error_no_memory(error, "the rows of tables");
}

void row_slots_close(struct row_slots *slots)
{
    free(slots->rows);
    free(slots->index);
    *slots = (struct row_slots){ 0 };
}

int32_t row_slots_find(const struct row_slots *slots, uint32_t row)
{
    return slots->index[place_of(slots, row)];
}

int32_t row_slots_add(struct row_slots *slots, uint32_t row)
{
    size_t at = place_of(slots, row);
    if (slots->index[at] != NOT_THERE)
        return slots->index[at];
    if (slots->count == slots->room) {
        if (slots->room > INT32_MAX / 2 || !make_room(slots, 2 * slots->room))
            return NOT_THERE;
        at = place_of(slots, row);
    }
    slots->rows[slots->count] = row;
    slots->index[at] = (int32_t)slots->count;
    return (int32_t)slots->count++;
}

void row_slots_clear(struct row_slots *slots)
{
    slots->count = 0;
    clear_index(slots);
}
