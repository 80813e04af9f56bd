// What batches of clicks read of each slot's table, which planners of tables want to know. It is counted in ids, or in
// the rows of tables that ids are hashed to.
#ifndef TRAINER_DATA_CLICK_READS_H
#define TRAINER_DATA_CLICK_READS_H

#include "trainer/data/click_data.h"

enum { CLICK_RUNS = 21 };
struct click_reads {
    uint64_t reads_milli;      // ids a sample, mean over all batches, in thousandths
    uint64_t reads_p95_milli;  // ids a sample, mean over a batch: at least 95 % of batches have no more
    // Different ones of a batch, mean over the batches, rounded up; of every two batches in turn, every four, ..
    // Batches that are left over may be larger than others, so each is at least the one before it
    uint64_t unique[CLICK_RUNS];
    uint64_t unique_p95, unique_most;  // of a batch
};

// The first batches of a training run: of so many samples, in the order of a seed (decision 095).
struct click_batches {
    uint64_t seed, samples, count;
};
// Counts each slot over all batches. `rows` are those of each slot's table; NULL: ids are counted, not rows.
bool click_reads_count(const struct sample_data *data, const struct click_batches *batches, const uint32_t *rows,
                       struct click_reads *slots, struct error *error);
// Appends the counts as a document (docs/formats/reads.md).
void click_reads_put(const struct sample_data *data, const struct click_batches *batches,
                     const struct click_reads *slots, struct text *text);

#endif
