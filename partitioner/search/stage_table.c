#include "partitioner/search/stage_table.h"

#include <stdlib.h>

static size_t find(const struct stage_table *table, uint32_t stage, uint32_t first, uint32_t end)
{
    const uint64_t key = ((uint64_t)stage * 1000003 + first) * 1000003 + end;
    size_t slot = (size_t)((key * 0x9E3779B97F4A7C15u) >> 32) & (table->capacity - 1);
    for (const struct stage_entry *entry; (entry = &table->entries[slot])->item;
         slot = (slot + 1) & (table->capacity - 1))
        if (entry->stage == stage && entry->first == first && entry->end == end)
            break;
    return slot;
}

// Half of the table stays empty.
static bool grow(struct stage_table *table)
{
    if (table->count * 2 < table->capacity)
        return true;
    struct stage_table larger = { .capacity = table->capacity ? 2 * table->capacity : 256, .count = table->count };
    larger.entries = calloc(larger.capacity, sizeof larger.entries[0]);
    if (!larger.entries)
        return false;
    for (size_t i = 0; i < table->capacity; i++) {
        const struct stage_entry *entry = &table->entries[i];
        if (entry->item)
            larger.entries[find(&larger, entry->stage, entry->first, entry->end)] = *entry;
    }
    free(table->entries);
    *table = larger;
    return true;
}

void *stage_table_get(const struct stage_table *table, uint32_t stage, uint32_t first, uint32_t end)
{
    return table->capacity > 0 ? table->entries[find(table, stage, first, end)].item : NULL;
}

bool stage_table_add(struct stage_table *table, uint32_t stage, uint32_t first, uint32_t end, void *item)
{
    if (!grow(table))
        return false;
    table->entries[find(table, stage, first, end)] = (struct stage_entry){ stage, first, end, item };
    table->count++;
    return true;
}

void *stage_table_next(const struct stage_table *table, size_t *cursor)
{
    while (*cursor < table->capacity && !table->entries[*cursor].item)
        ++*cursor;
    return *cursor < table->capacity ? table->entries[(*cursor)++].item : NULL;
}

void stage_table_clear(struct stage_table *table)
{
    free(table->entries);
    *table = (struct stage_table){ 0 };
}
