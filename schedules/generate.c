#include "schedules/generate.h"

#include <string.h>

#include "common/text.h"
#include "schedules/generators.h"

const struct generator generators[] = {
    { "gpipe", "all forwards, then all backwards", WEIGHTS_FLUSH, generate_gpipe },
    { "1f1b", "one forward, one backward in turns once the pipeline is full", WEIGHTS_FLUSH, generate_1f1b },
    { "pipedream", "1f1b that never drains: an update after each backward, older weights stashed", WEIGHTS_STASH,
      generate_pipedream },
    { NULL, NULL, WEIGHTS_FLUSH, NULL },
};

const struct generator *generator_find(const char *name, struct error *error)
{
    struct text known = { 0 };
    for (const struct generator *generator = generators; generator->name; generator++) {
        if (strcmp(generator->name, name) == 0) {
            text_clear(&known);
            return generator;
        }
        text_add(&known, "%s%s", known.length ? ", " : "", generator->name);
    }
    error_set(error, "there is no schedule named \"%s\" (there are %s)", name, known.data ? known.data : "none");
    text_clear(&known);
    return NULL;
}

struct schedule *schedule_generate(const char *name, uint32_t ranks, uint32_t chunks, uint32_t micro_batches,
                                   struct error *error)
{
    const struct generator *generator = generator_find(name, error);
    return generator ? generator->generate(ranks, chunks, micro_batches, error) : NULL;
}

struct schedule *generate_one_stage_per_rank(const char *name, enum weights weights, uint32_t ranks, uint32_t chunks,
                                             uint32_t micro_batches, struct error *error)
{
    if (chunks != 1) {
        error_set(error, "%s has one stage per rank: chunks must be 1, not %u", name, chunks);
        return NULL;
    }
    return schedule_create(name, weights, ranks, ranks, micro_batches, error);
}

bool generate_add(struct schedule *schedule, uint32_t rank, enum action_kind kind, uint32_t stage,
                  uint32_t micro_batch, struct error *error)
{
    const struct action action = { .stage = (uint16_t)stage, .kind = (uint8_t)kind, .micro_batch = micro_batch };
    return schedule_add(schedule, rank, action, error);
}

struct schedule *generate_done(struct schedule *schedule, bool good)
{
    if (good)
        return schedule;
    schedule_free(schedule);
    return NULL;
}
