// What a command asks of a plan before it uses it (partitioner/evaluate/belonging.h), and of a profile: what is refused is
// the error, with the file in front; the rest is said on standard error.
#ifndef CLI_PLAN_USE_H
#define CLI_PLAN_USE_H

#include "partitioner/evaluate/belonging.h"

bool plan_use(const struct plan *plan, const char *file, struct plan_company with, unsigned asked, unsigned refused,
              struct error *error);

// The same beside a profile: where the plan is not of that one, both files are named.
bool plan_use_with(const struct plan *plan, const char *file, const struct profile *profile, const char *profile_file,
                   unsigned asked, unsigned refused, struct error *error);

// The same of one that is to run, of this model (NULL: its own).
bool plan_use_in_run(const struct plan *plan, const char *file, const char *model, struct error *error);

// The profile that plans are to be made of, or priced by. What makes it untrusted (profiler/lint.h) is said.
struct profile *plan_profile(const char *path, struct error *error);

#endif
