#include "partitioner/tables/table_set.h"

#include <stdlib.h>
#include <string.h>

#include "common/ascending.h"
#include "common/json.h"
#include "common/number.h"

// --- reading ----------------------------------------------------------------------------

// Limits on single numbers, with which no time of a table exceeds 64 bits.
#define MOST_ROWS ((uint64_t)1 << 40)
#define MOST_READS_MILLI ((uint64_t)1 << 26)
#define MOST_FIXED_PS ((uint64_t)1000000000000)
#define MOST_ROW_PS ((uint64_t)1000000000)

// A set while it is being read. The document remembers errors (common/json.h); a lack of memory is remembered here.
struct reading {
    struct table_set *set;
    bool lacks_memory;
};

static char *copy_of(struct reading *reading, const char *string)
{
    char *copy = strdup(string);
    reading->lacks_memory |= !copy;
    return copy;
}

static void read_rates(struct table_set *set, struct json *root)
{
    struct json list = json_array(root, "rates"), item;
    if (json_count(&list) > TABLES_MOST_RATES)
        json_refuse(&list, "holds %zu rates (at most %d)", json_count(&list), TABLES_MOST_RATES);
    while (set->rate_count < TABLES_MOST_RATES && json_next(&list, &item)) {
        struct table_rate *rate = &set->rates[set->rate_count++];
        rate->above_bytes = json_u64(&item, "above_bytes", 0, JSON_MAX);
        rate->fixed_ps = json_u64(&item, "fixed_ps", 0, MOST_FIXED_PS);
        rate->row_ps = json_u64(&item, "row_ps", 0, MOST_ROW_PS);
        rate->bytes_per_second = json_u64(&item, "bytes_per_second", 1000000, JSON_MAX);
        if (rate == set->rates && rate->above_bytes > 0)
            json_refuse_key(&item, "above_bytes", "is not 0, so that smaller tables have no rate");
        else if (rate > set->rates && rate->above_bytes <= rate[-1].above_bytes)
            json_refuse_key(&item, "above_bytes", "is not above that of the rate before it");
        json_end(&item);
    }
    if (list.node && set->rate_count == 0)
        json_refuse(&list, "is empty");
}

static void check_unique(const struct table_set *set, const struct json *item, const struct table *table)
{
    const uint64_t ids = multiply_clamped(set->micro_batches, table_ids(set, table));
    if (table->unique > table->rows)
        json_refuse_key(item, "unique", "is %llu, but the table has %llu rows", (unsigned long long)table->unique,
                        (unsigned long long)table->rows);
    else if (table->unique > ids)
        json_refuse_key(item, "unique", "is %llu, but an iteration reads only %llu rows",
                        (unsigned long long)table->unique, (unsigned long long)ids);
}

static void read_table(struct reading *reading, struct json *item, struct table *table)
{
    table->name = copy_of(reading, json_string(item, "name"));
    table->rows = json_u64(item, "rows", 1, MOST_ROWS);
    table->reads_milli = json_u64(item, "reads_milli", 0, MOST_READS_MILLI);
    table->reads_p95_milli = json_u64(item, "reads_p95_milli", 0, MOST_READS_MILLI);
    table->unique = json_u64(item, "unique", 0, MOST_ROWS);
    check_unique(reading->set, item, table);
    json_end(item);
}

static void check_names(struct reading *reading, const struct json *list)
{
    const struct table_set *set = reading->set;
    const char **names = calloc(set->table_count + 1, sizeof names[0]);
    reading->lacks_memory |= !names;
    if (reading->lacks_memory) {
        free(names);
        return;
    }
    for (size_t t = 0; t < set->table_count; t++)
        names[t] = set->tables[t].name;
    qsort(names, set->table_count, sizeof names[0], ascending_texts);
    for (size_t t = 0; t + 1 < set->table_count; t++)
        if (strcmp(names[t], names[t + 1]) == 0)
            json_refuse(list, "has two tables with the name \"%s\"", names[t]);
    free(names);
}

static void read_tables(struct reading *reading, struct json *root)
{
    struct table_set *set = reading->set;
    struct json list = json_array(root, "tables"), item;
    const size_t count = json_count(&list);
    if (list.node && (count == 0 || count > TABLES_MOST))
        json_refuse(&list, "holds %zu tables (1 to %d)", count, TABLES_MOST);
    if (count == 0 || count > TABLES_MOST)
        return;
    set->tables = calloc(count, sizeof set->tables[0]);
    reading->lacks_memory |= !set->tables;
    while (set->tables && json_next(&list, &item))
        read_table(reading, &item, &set->tables[set->table_count++]);
    check_names(reading, &list);
}

static void read_set(struct reading *reading, struct json *root)
{
    struct table_set *set = reading->set;
    json_format(root, "weir.tables");
    set->model = copy_of(reading, json_string(root, "model"));
    set->columns = json_u64(root, "columns", 1, TABLES_MOST_COLUMNS);
    set->number_bytes = json_u64(root, "number_bytes", 1, 8);
    set->batch = json_u64(root, "batch", 1, TABLES_MOST_BATCH);
    set->micro_batches = json_u64(root, "micro_batches", 1, TABLES_MOST_MICRO_BATCHES);
    if (json_has(root, "dense_bytes"))
        set->dense_bytes = json_u64(root, "dense_bytes", 0, JSON_MAX);
    read_rates(set, root);
    read_tables(reading, root);
    if (json_has(root, "notes"))
        set->notes = copy_of(reading, json_string(root, "notes"));
    json_end(root);
}

struct table_set *table_set_read(const char *text, size_t length, const char *name, struct error *error)
{
    struct json_document *document = json_parse(text, length, name, error);
    if (!document)
        return NULL;
    struct reading reading = { .set = calloc(1, sizeof *reading.set) };
    reading.lacks_memory = !reading.set;
    if (reading.set) {
        struct json root = json_root(document);
        read_set(&reading, &root);
    }
    if (reading.lacks_memory ? !error_no_memory(error, "tables") : !json_ok(document, error)) {
        table_set_free(reading.set);
        reading.set = NULL;
    }
    json_free(document);
    return reading.set;
}

void table_set_free(struct table_set *set)
{
    if (!set)
        return;
    for (size_t t = 0; t < set->table_count; t++)
        free(set->tables[t].name);
    free(set->tables);
    free(set->model);
    free(set->notes);
    free(set);
}

// --- what reading takes -------------------------------------------------------------------

static uint64_t ids_of(const struct table_set *set, uint64_t milli)
{
    return (set->batch * milli + 999) / 1000;
}

uint64_t table_ids(const struct table_set *set, const struct table *table)
{
    return ids_of(set, table->reads_milli);
}

uint64_t table_ids_p95(const struct table_set *set, const struct table *table)
{
    return ids_of(set, table->reads_p95_milli);
}

uint64_t table_read_ps(const struct table_set *set, uint64_t table_bytes, uint64_t rows, uint64_t width_bytes)
{
    size_t r = 0;
    while (r + 1 < set->rate_count && table_bytes > set->rates[r + 1].above_bytes)
        r++;
    const struct table_rate *rate = &set->rates[r];
    const unsigned __int128 bytes = (unsigned __int128)rows * width_bytes;
    const unsigned __int128 ps = (bytes * 1000000000000u + rate->bytes_per_second - 1) / rate->bytes_per_second
                               + (unsigned __int128)rows * rate->row_ps + rate->fixed_ps;
    return ps > UINT64_MAX ? UINT64_MAX : (uint64_t)ps;
}
