// What the tests of this folder share: a folder with sound documents, made before the first test and removed after the
// last, and a command run in it and judged by the files that its words name.
#ifndef TESTS_HOSTILE_COMMAND_TRIAL_H
#define TESTS_HOSTILE_COMMAND_TRIAL_H

#include "tests/hostile/samples.h"
#include "tests/hostile/weir_child.h"

enum { TRIAL_MOST_WORDS = 40 };

// For cmocka_run_group_tests(): `*state` is the folder.
int trial_make(void **state);
int trial_clear(void **state);

// Runs the words in the folder; NULL, or what is wrong about how that ended. The child is the caller's to clear.
const char *trial_run(const char *const words[], const char *folder, struct child *child);

#endif
