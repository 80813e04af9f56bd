// An evaluation in the pipeline: forwards alone, on the stages of a pipeline between two of its steps. It uses the
// newest weights and the pipeline's own state without a gradient. It works in the memory that the plan has counted.
// Training goes on to the same bits.
//
// It has as many micro-batches as wanted, on the routes of the pipeline's schedule in turns. The losses have the bits
// of forward_losses.h, which needs memory of its own and one processor.
#ifndef RUNTIME_EVALUATION_H
#define RUNTIME_EVALUATION_H

#include "runtime/forward_losses.h"
#include "runtime/pipeline.h"

struct evaluation;

// Whether the pipeline's memory has room for forwards alone. It has none if its sequences go through in parts, or if
// a stage has fewer slots than they need.
bool evaluation_fits(const struct pipeline *pipeline, uint32_t micro_batches, bool *fits, struct error *error);

// Opens an evaluation that fits. In a process group all ranks make the same calls. `settings` are those of the
// pipeline's session. Borrows the pipeline. NULL with the reason if something fails.
struct evaluation *evaluation_open(const struct pipeline *pipeline, uint32_t micro_batches, struct device *device,
                                   const struct session_settings *settings, struct error *error);
// As session_free(): if bytes are left, the pipeline has to stay as well.
uint64_t evaluation_free(struct evaluation *evaluation);

uint32_t evaluation_micro_batches(const struct evaluation *evaluation);

// Computes it with the data that a step of that number would have. After a failure it can only be freed.
bool evaluation_run(struct evaluation *evaluation, uint64_t step, const struct forward_results *into,
                    struct error *error);
bool evaluation_is_usable(struct evaluation *evaluation, struct error *error);

#endif
