// A hash table of what is known about stages. Its keys are their number and what they hold: layers [first, end), or
// any two numbers that say it.
#ifndef PARTITIONER_SEARCH_STAGE_TABLE_H
#define PARTITIONER_SEARCH_STAGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stage_entry {
    uint32_t stage, first, end;
    void *item;  // NULL: this entry is empty
};

// Open addressing. The items are the caller's. A table is zeroed to begin with.
struct stage_table {
    struct stage_entry *entries;
    size_t count, capacity;
};

// NULL if nothing is stored.
void *stage_table_get(const struct stage_table *table, uint32_t stage, uint32_t first, uint32_t end);

// Adds an item that is not there yet. False without memory.
bool stage_table_add(struct stage_table *table, uint32_t stage, uint32_t first, uint32_t end, void *item);

// Iterates over the items: the next one from *at on, which begins with 0; NULL after the last.
void *stage_table_next(const struct stage_table *table, size_t *cursor);

void stage_table_clear(struct stage_table *table);

#endif
