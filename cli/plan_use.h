// Checks that a command makes on a plan (partitioner/evaluate/belonging.h) and on a profile before it uses them. A
// refusal is an error with the file's name in front; other findings are printed on standard error.
#ifndef CLI_PLAN_USE_H
#define CLI_PLAN_USE_H

#include "partitioner/evaluate/belonging.h"

// The findings to look for are the bits of `asked`; those of `refused` are errors.
bool plan_use(const struct plan *plan, const char *file, struct plan_company with, unsigned asked, unsigned refused,
              struct error *error);

// The same together with a profile. If the plan does not belong to that profile, both files are named.
bool plan_use_with(const struct plan *plan, const char *file, const struct profile *profile, const char *profile_file,
                   unsigned asked, unsigned refused, struct error *error);

// The same for a plan that is to run, with this model (NULL: the plan's own).
bool plan_use_in_run(const struct plan *plan, const char *file, const char *model, struct error *error);

// Loads the profile from which plans are made or priced, and says what makes it untrusted (profiler/lint.h). NULL
// with `error`.
struct profile *plan_profile(const char *path, struct error *error);
// The same for a profile that was read from there. It is freed if that fails.
struct profile *plan_profile_said(struct profile *profile, const char *path, struct error *error);

#endif
