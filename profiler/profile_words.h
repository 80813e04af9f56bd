// The words of the profile document, in the order of the enums that they stand for. The reader and the writer share
// them.
#ifndef PROFILER_PROFILE_WORDS_H
#define PROFILER_PROFILE_WORDS_H

#include "profiler/profile.h"

extern const char *const profile_how_words[];  // "measured", "estimated", "imported", NULL
extern const char *const input_kept_words[];   // "none", "weight", "both", NULL
extern const char *const split_words[];        // "assumed", "measured", NULL
extern const char *const phase_words[PHASES];  // "forward", "backward_input", ...

#endif
