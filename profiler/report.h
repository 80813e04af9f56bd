// Prints a profile as a table for people.
//
//     layer         F        p95      I        p95      W   ...  parameters  output    saved
//     embedding     2.00 us  ...
//     total         ...
//
//     The layers add up to 91.0 us; the whole model takes 93.5 us (2.7 % more).
#ifndef PROFILER_REPORT_H
#define PROFILER_REPORT_H

#include "common/text.h"
#include "profiler/measure.h"
#include "profiler/profile.h"

void profile_print(const struct profile *profile, struct text *text);

// Prints what a profile leaves out of its measurement. These are the sums of F and B alone rather than in place, the
// sums by the other clock, and whether the times ever settled.
void measurement_print(const struct measurement *measurement, struct text *text);

#endif
