// How the tables of a model are read: counted in real micro-batches, for planners of tables. It is the member "reads"
// of the profile document (docs/formats/profile.md).
#ifndef PROFILER_TABLE_READS_H
#define PROFILER_TABLE_READS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash.h"

struct json;
struct json_writer;
struct text;

enum { READS_MOST_RUNS = 21, READS_MOST_BATCHES = 1 << 20, READS_MOST_TABLES = 4096 };

struct table_reads {
    char *layer;  // by which the profile has the table's parameters
    char *name;
    uint64_t rows, columns;
    uint64_t reads_milli;      // ids of a sample, in thousandths: the mean over all micro-batches
    uint64_t reads_p95_milli;  // the mean over a micro-batch, which at least 95 % of them do not exceed
    // Distinct rows of a micro-batch, of two in turn, of four, .. (reads_run_count()): means, rounded up
    uint64_t unique[READS_MOST_RUNS];
    uint64_t unique_p95;       // of a micro-batch
};

struct profile_reads {
    char data[HASH_SIZE];  // of the numbers that were read
    uint64_t seed;         // of their order
    uint64_t batches;      // micro-batches
    struct table_reads *tables;
    size_t table_count;
};

// How many lengths of runs are counted: 1, 2, 4, .. up to so many micro-batches.
size_t reads_run_count(uint64_t batches);

// Distinct rows that an iteration of so many micro-batches reads, at most as many as there are batches: between two
// lengths of runs on a line, rounded up.
uint64_t reads_unique(const struct table_reads *table, uint64_t micro_batches);

// With room for so many tables, zeroed; NULL if memory runs out. Likewise a copy. Freed by reads_free().
struct profile_reads *reads_create(size_t tables);
struct profile_reads *reads_copy(const struct profile_reads *reads);
void reads_free(struct profile_reads *reads);

// Reads the member of a profile. Errors are noted in the document, whose reader checks them, and that the profile has
// the layers. NULL if memory runs out.
struct profile_reads *reads_read(struct json *root);
void reads_write(const struct profile_reads *reads, struct json_writer *writer);

// Appends a table of them.
void reads_print(const struct profile_reads *reads, uint64_t micro_batch, struct text *text);

#endif
