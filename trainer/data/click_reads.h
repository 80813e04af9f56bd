// What batches of clicks read of each slot's table, which planners of tables want to know.
#ifndef TRAINER_DATA_CLICK_READS_H
#define TRAINER_DATA_CLICK_READS_H

#include "trainer/data/click_data.h"

struct click_reads {
    uint64_t reads_milli;      // ids a sample, mean over all batches, in thousandths
    uint64_t reads_p95_milli;  // ids a sample, mean over a batch: at least 95 % of batches have no more
    uint64_t unique;           // different ids of a batch, mean over the batches, rounded up
    uint64_t unique_p95, unique_most;
};

// The first batches of a training run: of so many samples, in the order of a seed (decision 095).
struct click_batches {
    uint64_t seed, samples, count;
};
// Counts each slot over all batches.
bool click_reads_count(const struct sample_data *data, const struct click_batches *batches, struct click_reads *slots,
                       struct error *error);
// Appends the counts as a document (docs/formats/reads.md).
void click_reads_put(const struct sample_data *data, const struct click_batches *batches,
                     const struct click_reads *slots, struct text *text);

#endif
