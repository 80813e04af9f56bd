#include "tests/hostile/command_trial.h"

#include <unistd.h>

#include "tests/test.h"

int trial_make(void **state)
{
    *state = samples_make();
    return 0;
}

int trial_clear(void **state)
{
    if (*state)
        samples_remove(*state);
    return 0;
}

const char *trial_run(const char *const words[], const char *folder, struct child *child)
{
    const char *files[TRIAL_MOST_WORDS];
    size_t count = 0;
    for (size_t i = 0; words[i]; i++)
        if (count + 1 < TRIAL_MOST_WORDS && access(sample_path(folder, words[i]), F_OK) == 0)
            files[count++] = words[i];
    files[count] = NULL;
    child_run(words, folder, child);
    return child_fault(child, &(struct child_rules){ .files = files });
}
