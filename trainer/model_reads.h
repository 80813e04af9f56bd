// How the tables of a model are read by samples, for its profile.
#ifndef TRAINER_MODEL_READS_H
#define TRAINER_MODEL_READS_H

#include "models/model.h"
#include "profiler/table_reads.h"
#include "trainer/data/sample_data.h"

// Whether the data can be read by the model, and it has tables. False with `error`.
bool model_reads_fit(const struct sample_data *data, const struct model *model, struct error *error);

// Counts the reads of the first `batches` micro-batches of a training with the seed, by tables of all layers that have
// some. NULL with `error`.
struct profile_reads *model_reads_count(const struct sample_data *data, const struct model *model, uint64_t seed,
                                        uint64_t batches, struct error *error);

#endif
