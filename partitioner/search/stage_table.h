// What is remembered of stages, by their number and what they hold: layers [first, end), or whatever two numbers say it.
#ifndef PARTITIONER_SEARCH_STAGE_TABLE_H
#define PARTITIONER_SEARCH_STAGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stage_entry {
    uint32_t stage, first, end;
    void *item;  // NULL: nothing stands here
};

// Open addressing; the items are the caller's. Zeroed to begin with.
struct stage_table {
    struct stage_entry *entries;
    size_t count, capacity;
};

// NULL where nothing is remembered.
void *stage_table_get(const struct stage_table *table, uint32_t stage, uint32_t first, uint32_t end);

// Of what is not there yet. False without memory.
bool stage_table_add(struct stage_table *table, uint32_t stage, uint32_t first, uint32_t end, void *item);

// One item after the other from *at, which begins with 0; NULL after the last.
void *stage_table_next(const struct stage_table *table, size_t *at);

void stage_table_clear(struct stage_table *table);

#endif
