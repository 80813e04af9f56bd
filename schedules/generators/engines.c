#include "schedules/generators/engines.h"

#include <string.h>

#include "common/alike.h"
#include "schedules/csv.h"

// Weir runs every valid schedule.
static bool weir_runs(const struct schedule *schedule, struct error *error)
{
    (void)schedule;
    (void)error;
    return true;
}

// torch.distributed.pipelining runs what its CSV file can express.
static bool pytorch_runs(const struct schedule *schedule, struct error *error)
{
    struct text text = { 0 };
    struct csv_left_out left_out;
    const bool good = csv_write(schedule, &(struct csv_style){ .dialect = CSV_TORCH_2_9 }, &text, &left_out, error);
    text_clear(&text);
    return good;
}

const struct engine engines[] = {
    [ENGINE_THREADS] = { "threads", "Weir, a thread for each rank", weir_runs },
    [ENGINE_PROCESSES] = { "processes", "Weir, a process for each rank", weir_runs },
    [ENGINE_PYTORCH] = { "pytorch", "torch.distributed.pipelining, from its CSV", pytorch_runs },
    [ENGINES] = { 0 },
};

const struct engine *engine_find(const char *name, struct error *error)
{
    struct text known = { 0 };
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    const struct engine *found = NULL;
    for (const struct engine *engine = engines; engine->name && !found; engine++) {
        found = strcmp(engine->name, name) == 0 ? engine : NULL;
        alike_try(&alike, name, engine->name);
        text_add(&known, "%s%s", known.length ? ", " : "", engine->name);
    }
    if (!found)
        error_set(error, "there is no engine named \"%s\"%s (there are %s)", name, alike_said(&alike, said),
                  known.data ? known.data : "none");
    text_clear(&known);
    return found;
}

bool engine_runs_generator(const struct engine *engine, const struct generator *generator, struct error *error)
{
    enum { RANKS = 4, MICRO_BATCHES = 8 };  // numbers that all schedules accept
    if (generator->given)
        return engine->runs(generator->given, error);
    struct schedule *schedule = schedule_generate(generator->name, generator_ranks(generator, RANKS), 0, MICRO_BATCHES,
                                                   error);
    const bool good = schedule && engine->runs(schedule, error);
    schedule_free(schedule);
    return good;
}
