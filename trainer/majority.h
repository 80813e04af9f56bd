// The simplest model to beat: it says the most frequent label of the training samples for all.
#ifndef TRAINER_MAJORITY_H
#define TRAINER_MAJORITY_H

#include "trainer/data/sample_data.h"

// The share of the held-out samples that it gets right, of data with one label per sample below `classes`, which are at
// most 65536. If labels are equally frequent it says the first. Something must be held out.
double majority_right(const struct sample_data *data, uint64_t classes);

#endif
