// A profile of a micro-batch that was not measured, from three that were: each time lies on a line through the smallest
// and the largest, and the one between them is the check. Bytes are asked of the layers.
#ifndef TRAINER_MEASURE_SIZES_H
#define TRAINER_MEASURE_SIZES_H

#include "common/text.h"
#include "trainer/measure_model.h"

enum { MEASURED_SIZES = 3 };

// `sizes` are ascending and have the model's own micro-batch between the first and the last, or equal to one. Appends to
// `said` by how much the line misses the size in the middle: all layers, and the worst one that takes a percent or more.
// A model with batch norms is another model with another micro-batch, which is said, too.
struct profile *measure_sizes(const char *spec, struct device *device, const struct measure_options *options,
                              const uint32_t sizes[MEASURED_SIZES], struct text *said, struct error *error);

#endif
