#include "cli/plan_use.h"

#include "cli/command.h"
#include "profiler/lint.h"

bool plan_use(const struct plan *plan, const char *file, struct plan_company with, unsigned asked, unsigned refused,
              struct error *error)
{
    struct text said = { 0 };
    const bool good = plan_belongs(plan, with, asked, refused, &said, error) ? command_say_lines(file, &said, error)
                                                                             : error_name(error, "%s", file);
    text_clear(&said);
    return good;
}

bool plan_use_with(const struct plan *plan, const char *file, const struct profile *profile, const char *profile_file,
                   unsigned asked, unsigned refused, struct error *error)
{
    const unsigned of_profile = BELONGS_BY_MODEL | BELONGS_BY_PROFILE;
    const struct plan_company with = { profile->model, profile->hash };
    struct text both = { 0 };
    text_add(&both, "%s with %s", file, profile_file);
    const bool good = text_ok(&both, "the names of two files", error)
        && plan_use(plan, both.data, with, asked & of_profile, refused & of_profile, error)
        && plan_use(plan, file, with, asked & ~of_profile, refused & ~of_profile, error);
    text_clear(&both);
    return good;
}

bool plan_use_in_run(const struct plan *plan, const char *file, const char *model, struct error *error)
{
    const unsigned refused = BELONGS_BY_MODEL | BELONGS_BY_MEMORY;
    return plan_use(plan, file, (struct plan_company){ .model = model }, refused | BELONGS_BY_NUMBERS, refused, error);
}

struct profile *plan_profile(const char *path, struct error *error)
{
    return plan_profile_said(profile_load(path, error), path, error);
}

struct profile *plan_profile_said(struct profile *profile, const char *path, struct error *error)
{
    struct text found = { 0 };
    if (!profile)
        return NULL;
    profile_lint_grave(profile, path, &found);
    if (!command_say_lines("", &found, error)) {
        profile_free(profile);
        profile = NULL;
    }
    text_clear(&found);
    return profile;
}
