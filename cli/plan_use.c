#include "cli/plan_use.h"

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "profiler/lint.h"

// Lines of which each is a sentence on the file, and of those only the ones that have this in them.
static bool say(const char *file, struct text *lines, const char *which, struct error *error)
{
    if (lines->failed)
        return error_no_memory(error, "what is said of a file");
    for (char *line = lines->data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (strstr(line, which))
            command_say("%s%s%s", file, *file ? ": " : "", line);
    }
    return true;
}

bool plan_use(const struct plan *plan, const char *file, struct plan_company with, unsigned asked, unsigned refused,
              struct error *error)
{
    struct text said = { 0 };
    const bool good = plan_belongs(plan, with, asked, refused, &said, error) ? say(file, &said, "", error)
                                                                             : error_at(error, "%s", file);
    text_clear(&said);
    return good;
}

bool plan_use_in_run(const struct plan *plan, const char *file, const char *model, struct error *error)
{
    const unsigned refused = BELONGS_BY_MODEL | BELONGS_BY_MEMORY;
    return plan_use(plan, file, (struct plan_company){ .model = model }, refused | BELONGS_BY_NUMBERS, refused, error);
}

struct profile *plan_profile(const char *path, struct error *error)
{
    struct profile *profile = profile_load(path, error);
    struct text found = { 0 };
    if (!profile)
        return NULL;
    if (profile_lint(profile, path, &found).grave > 0 && !say("", &found, "untrusted: ", error)) {
        profile_free(profile);
        profile = NULL;
    }
    text_clear(&found);
    return profile;
}
