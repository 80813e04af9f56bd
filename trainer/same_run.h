// Whether a checkpoint is of the run that `weir train` is to go on with, and what changes there.
#ifndef TRAINER_SAME_RUN_H
#define TRAINER_SAME_RUN_H

#include "runtime/checkpoint/resume.h"

// Refuses one of another model, seed or text; says that plan, steps, rate or clipping are others.
extern const struct resume_rules same_run;

#endif
