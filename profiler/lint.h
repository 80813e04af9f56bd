// What looks wrong with a profile: one line per finding, with its place and what
// to do about it. Most findings are worth a look; some mean that no plan made of
// this profile can be believed.
#ifndef PROFILER_LINT_H
#define PROFILER_LINT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/text.h"
#include "profiler/profile.h"

// Whether the sum of the parts and the whole model, timed once around, lie within
// 10 % of each other; true where nobody timed the whole.
bool profile_sum_holds(const struct profile *profile);

struct lint {
    size_t findings;
    size_t grave;  // of them: those that make the profile untrusted
};

// Adds the findings to `text`; `name` (of the file) stands in front of each.
struct lint profile_lint(const struct profile *profile, const char *name, struct text *text);

#endif
