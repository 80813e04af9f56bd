// Whether a checkpoint belongs to the run that `weir train` is to continue, and what changes from there on.
#ifndef TRAINER_SAME_RUN_H
#define TRAINER_SAME_RUN_H

#include "runtime/checkpoint/resume.h"

// Refuses a checkpoint of another model, seed or text. Says if the plan, the steps, the rate, clipping or other
// options differ.
extern const struct resume_rules same_run;

#endif
