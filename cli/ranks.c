#include "cli/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/last_actions.h"
#include "common/hash.h"

// Of what all ranks must agree on.
static bool digest_of(const struct plan *plan, const char *device, uint64_t seed, uint64_t steps, uint64_t *digest,
                      struct error *error)
{
    struct text text = { 0 };
    char digits[HASH_SIZE];
    plan_write(plan, &text);
    text_add(&text, "%s %llu %llu", device, (unsigned long long)seed, (unsigned long long)steps);
    const bool good = !text.failed || error_no_memory(error, "a plan");
    if (good) {
        hash_bytes(text.data, text.length, digits);
        digits[16] = '\0';
        *digest = strtoull(digits, NULL, 16);
    }
    text_clear(&text);
    return good;
}

static bool has_number(const char *words)
{
    for (const char *word = words; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL)
        if (word[0] >= '0' && word[0] <= '9')
            return true;
    return false;
}

// "cuda" and "cuda:bf16" are, of the third process on a machine, "cuda:2" and "cuda:2,bf16".
static void choose_device(struct ranks *ranks, const char *device, const struct launch *launch)
{
    const size_t name = strcspn(device, ":");
    const char *words = device[name] ? device + name + 1 : NULL;
    const bool takes_number = name == strlen("cuda") && memcmp(device, "cuda", name) == 0;
    if (launch->ranks > 1 && takes_number && !has_number(words))
        snprintf(ranks->device, sizeof ranks->device, "cuda:%u%s%s", launch->local_rank, words ? "," : "",
                 words ? words : "");
    else
        snprintf(ranks->device, sizeof ranks->device, "%s", device);
}

static void say_failure(void *self, const struct session *session)
{
    const struct ranks *ranks = self;
    last_actions_say(session, ranks->control ? &ranks->company : NULL, ranks->folder);
}

bool ranks_meet(struct ranks *ranks, const struct plan *plan, const char *device, const char *folder, uint64_t seed,
                uint64_t steps, struct run_place *place, struct error *error)
{
    struct launch launch;
    struct control_settings settings = { 0 };
    *ranks = (struct ranks){ .speaks = true, .folder = folder };
    if (!launch_from_environment(&launch, error))
        return false;
    choose_device(ranks, device, &launch);
    *place = (struct run_place){ .device = ranks->device, .is_stuck = &ranks->is_stuck, .failed = say_failure,
                                 .self = ranks };
    if (launch.ranks == 1)
        return true;
    ranks->speaks = launch.rank == 0;
    if (launch.ranks != plan->ranks)
        return error_set(error, "%s started %u processes, and the plan has %u ranks: a process each, or a single one "
                         "for all, is needed", launch.by, launch.ranks, plan->ranks);
    if (!digest_of(plan, device, seed, steps, &settings.digest, error))
        return false;
    ranks->control = control_open(&launch, &settings, error);
    if (!ranks->control)
        return false;
    ranks->company = control_company(ranks->control);
    place->company = &ranks->company;
    return true;
}

int ranks_part(struct ranks *ranks, int code)
{
    control_close(ranks->control);
    if (ranks->is_stuck) {
        fflush(NULL);
        _exit(code);
    }
    return code;
}
