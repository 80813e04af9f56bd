#include "profiler/table_reads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/shown.h"

size_t reads_run_count(uint64_t batches)
{
    size_t runs = 0;
    for (; runs < READS_MOST_RUNS && batches > 0; batches /= 2)
        runs++;
    return runs;
}

uint64_t reads_unique(const struct table_reads *table, uint64_t micro_batches)
{
    const size_t run = reads_run_count(micro_batches) - 1;
    const uint64_t length = (uint64_t)1 << run, past = micro_batches - length;
    if (past == 0)
        return table->unique[run];
    const unsigned __int128 more = (unsigned __int128)(table->unique[run + 1] - table->unique[run]) * past;
    return table->unique[run] + (uint64_t)((more + length - 1) / length);
}

// --- memory ------------------------------------------------------------------------------

struct profile_reads *reads_create(size_t tables)
{
    struct profile_reads *reads = calloc(1, sizeof *reads);
    if (reads)
        reads->tables = calloc(tables + 1, sizeof reads->tables[0]);
    if (reads && reads->tables) {
        reads->table_count = tables;
        return reads;
    }
    free(reads);
    return NULL;
}

struct profile_reads *reads_copy(const struct profile_reads *reads)
{
    struct profile_reads *copy = reads_create(reads->table_count);
    bool good = copy != NULL;
    if (copy) {
        memcpy(copy->data, reads->data, sizeof copy->data);
        copy->seed = reads->seed;
        copy->batches = reads->batches;
    }
    for (size_t t = 0; good && t < reads->table_count; t++) {
        copy->tables[t] = reads->tables[t];
        copy->tables[t].layer = strdup(reads->tables[t].layer);
        copy->tables[t].name = strdup(reads->tables[t].name);
        good = copy->tables[t].layer && copy->tables[t].name;
    }
    if (good)
        return copy;
    reads_free(copy);
    return NULL;
}

void reads_free(struct profile_reads *reads)
{
    if (!reads)
        return;
    for (size_t t = 0; t < reads->table_count; t++) {
        free(reads->tables[t].layer);
        free(reads->tables[t].name);
    }
    free(reads->tables);
    free(reads);
}

// --- the document --------------------------------------------------------------------------

static void read_unique(struct json *object, const struct profile_reads *reads, struct table_reads *table)
{
    struct json list = json_array(object, "unique"), item;
    size_t count = 0;
    uint64_t before = 0;
    while (json_next(&list, &item)) {
        const uint64_t unique = json_item_u64(&item, before, table->rows);
        if (count < READS_MOST_RUNS)
            table->unique[count] = unique;
        before = unique;
        count++;
    }
    if (list.node && reads->batches > 0 && count != reads_run_count(reads->batches))
        json_refuse(&list, "has %zu numbers, and runs of 1, 2, 4, .. of %" PRIu64 " micro-batches are %zu", count,
                    reads->batches, reads_run_count(reads->batches));
}

static bool read_table(struct json *object, const struct profile_reads *reads, struct table_reads *table)
{
    table->layer = strdup(json_string(object, "layer"));
    table->name = strdup(json_string(object, "name"));
    table->rows = json_u64(object, "rows", 1, (uint64_t)1 << 40);
    table->columns = json_u64(object, "columns", 1, 65536);
    table->reads_milli = json_u64(object, "reads_milli", 0, (uint64_t)1 << 26);
    table->reads_p95_milli = json_u64(object, "reads_p95_milli", 0, (uint64_t)1 << 26);
    read_unique(object, reads, table);
    table->unique_p95 = json_u64(object, "unique_p95", 0, table->rows);
    json_end(object);
    return table->layer && table->name;
}

static int compare_tables(const void *a, const void *b)
{
    const struct table_reads *const *left = a, *const *right = b;
    const int order = strcmp((*left)->layer, (*right)->layer);
    return order ? order : strcmp((*left)->name, (*right)->name);
}

// False if memory runs out.
static bool check_names(const struct json *list, const struct profile_reads *reads)
{
    const struct table_reads **sorted = calloc(reads->table_count + 1, sizeof sorted[0]);
    if (!sorted)
        return false;
    for (size_t t = 0; t < reads->table_count; t++)
        sorted[t] = &reads->tables[t];
    qsort(sorted, reads->table_count, sizeof sorted[0], compare_tables);
    for (size_t t = 1; t < reads->table_count; t++)
        if (compare_tables(&sorted[t - 1], &sorted[t]) == 0)
            json_refuse(list, "has two tables of layer %.60s with the name \"%.60s\"", sorted[t]->layer,
                        sorted[t]->name);
    free(sorted);
    return true;
}

struct profile_reads *reads_read(struct json *root)
{
    struct json object = json_object(root, "reads"), list = json_array(&object, "tables"), item;
    const size_t count = json_count(&list);
    if (list.node && (count == 0 || count > READS_MOST_TABLES))
        json_refuse(&list, "holds %zu tables (1 to %d)", count, READS_MOST_TABLES);
    struct profile_reads *reads = reads_create(count > READS_MOST_TABLES ? 0 : count);
    if (!reads)
        return NULL;
    json_string_into(&object, "data", reads->data, sizeof reads->data);
    reads->seed = json_u64(&object, "seed", 0, UINT32_MAX);
    reads->batches = json_u64(&object, "batches", 1, READS_MOST_BATCHES);
    bool good = true;
    for (size_t t = 0; good && t < reads->table_count; t++)
        good = json_next(&list, &item) ? read_table(&item, reads, &reads->tables[t])
                                       : (reads->tables[t].layer = strdup("")) && (reads->tables[t].name = strdup(""));
    json_end(&object);
    if (good && check_names(&list, reads))
        return reads;
    reads_free(reads);
    return NULL;
}

static void write_table(const struct profile_reads *reads, const struct table_reads *table, struct json_writer *writer)
{
    json_begin_object(writer, NULL, JSON_INLINE);
    json_put_string(writer, "layer", table->layer);
    json_put_string(writer, "name", table->name);
    json_put_u64(writer, "rows", table->rows);
    json_put_u64(writer, "columns", table->columns);
    json_put_u64(writer, "reads_milli", table->reads_milli);
    json_put_u64(writer, "reads_p95_milli", table->reads_p95_milli);
    json_begin_array(writer, "unique", JSON_INLINE);
    for (size_t run = 0; run < reads_run_count(reads->batches); run++)
        json_put_u64(writer, NULL, table->unique[run]);
    json_close(writer);
    json_put_u64(writer, "unique_p95", table->unique_p95);
    json_close(writer);
}

void reads_write(const struct profile_reads *reads, struct json_writer *writer)
{
    json_begin_object(writer, "reads", JSON_LINES);
    json_put_string(writer, "data", reads->data);
    json_put_u64(writer, "seed", reads->seed);
    json_put_u64(writer, "batches", reads->batches);
    json_begin_array(writer, "tables", JSON_LINES);
    for (size_t t = 0; t < reads->table_count; t++)
        write_table(reads, &reads->tables[t], writer);
    json_close(writer);
    json_close(writer);
}

void reads_print(const struct profile_reads *reads, uint64_t micro_batch, struct text *text)
{
    const size_t last = reads_run_count(reads->batches) - 1;
    char of_last[48];
    snprintf(of_last, sizeof of_last, "of %" PRIu64, (uint64_t)1 << last);
    text_add(text, "\n%" PRIu64 " micro-batches of %" PRIu64 " samples read, and distinct rows of one and of %" PRIu64
                   ":\n\n", reads->batches, micro_batch, (uint64_t)1 << last);
    text_add(text, "table                                  rows  ids a sample  95 %% of them     of one  95 %% of them"
                   " %12s\n", of_last);
    for (size_t t = 0; t < reads->table_count; t++) {
        const struct table_reads *table = &reads->tables[t];
        struct text name = { 0 };
        text_add(&name, "%s.%s", table->layer, table->name);
        shown_add_cell(text, name.data ? name.data : "", 28, 60);
        text->failed |= name.failed;
        text_clear(&name);
        text_add(text, " %14" PRIu64 " %13.3f %13.3f %10" PRIu64 " %13" PRIu64 " %12" PRIu64 "\n", table->rows,
                 (double)table->reads_milli / 1000, (double)table->reads_p95_milli / 1000, table->unique[0],
                 table->unique_p95, table->unique[last]);
    }
}
