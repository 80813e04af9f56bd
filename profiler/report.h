// A profile as a table that a person reads.
//
//     layer         F        p95      I        p95      W   ...  parameters  output    saved
//     embedding     2.00 us  ...
//     total         ...
//
//     The layers add up to 91.0 us; the whole model takes 93.5 us (2.7 % more).
#ifndef PROFILER_REPORT_H
#define PROFILER_REPORT_H

#include "common/text.h"
#include "profiler/profile.h"

void profile_print(const struct profile *profile, struct text *text);

#endif
