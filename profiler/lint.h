// What looks wrong with a profile: one line per finding, with its place and what to do about it. Most findings are
// worth a look. Some mean that no plan made from this profile can be trusted.
#ifndef PROFILER_LINT_H
#define PROFILER_LINT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/text.h"
#include "profiler/profile.h"

// Whether the sum of the parts and the time of the whole model are within 10 % of each other. True if the whole was
// not timed.
bool profile_sum_holds(const struct profile *profile);

struct lint {
    size_t findings;
    size_t grave;  // how many of them make the profile untrustworthy
};

// Adds the findings to `text`. Each begins with `name`, the name of the file.
struct lint profile_lint(const struct profile *profile, const char *name, struct text *text);

// The same for only those that make the profile untrustworthy.
struct lint profile_lint_grave(const struct profile *profile, const char *name, struct text *text);

#endif
