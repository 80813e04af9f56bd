// Embedding tables and how they are read: the *tables* document (docs/formats/tables.md).
//
// All tables have the same width. A sample brings each table some ids, whose rows are added up to one vector.
#ifndef PARTITIONER_TABLES_TABLE_SET_H
#define PARTITIONER_TABLES_TABLE_SET_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum {
    TABLES_MOST = 4096,
    TABLES_MOST_RATES = 16,
    TABLES_MOST_COLUMNS = 65536,
    TABLES_MOST_BATCH = 1 << 24,
    TABLES_MOST_MICRO_BATCHES = 1 << 20,
};

struct table {
    char *name;
    uint64_t rows;
    uint64_t reads_milli;      // ids of a sample, in thousandths: the mean
    uint64_t reads_p95_milli;  // and that of 95 % of all micro-batches
    uint64_t unique;           // distinct rows that an iteration reads
};

// Reading n rows of a table takes fixed_ps + n row_ps, and its bytes at the rate.
struct table_rate {
    uint64_t above_bytes;  // for tables larger than this, up to the next rate
    uint64_t fixed_ps, row_ps, bytes_per_second;
};

struct table_set {
    char *model;
    uint64_t columns, number_bytes;
    uint64_t batch;          // samples of a micro-batch, on all members together
    uint64_t micro_batches;  // of an iteration
    uint64_t dense_bytes;    // taken on each member by what is not a table
    struct table_rate rates[TABLES_MOST_RATES];
    size_t rate_count;
    struct table *tables;
    size_t table_count;
    char *notes;  // or NULL
};

// Reads a document. NULL with an error. table_set_free() frees the result.
struct table_set *table_set_read(const char *text, size_t length, const char *name, struct error *error);
void table_set_free(struct table_set *set);

// Ids that all samples of a micro-batch bring to a table, rounded up: the mean, and 95 %.
uint64_t table_ids(const struct table_set *set, const struct table *table);
uint64_t table_ids_p95(const struct table_set *set, const struct table *table);

// The time in ps of reading `rows` rows of `width_bytes` each, from a table of `table_bytes`.
uint64_t table_read_ps(const struct table_set *set, uint64_t table_bytes, uint64_t rows, uint64_t width_bytes);

#endif
