// How long training pauses for a checkpoint. The state is copied between two steps, and written while the next steps
// run.
//
//     bench_checkpoint [MODEL ROUNDS [FOLDER]]
//
// The model is profiled right now, planned for two ranks (1f1b, 16 micro-batches, adamw) and trained. A round has
// some steps on their own and as many after a checkpoint, so that other load on the machine affects both. The output
// is the time of a step, of the copy, and of a step that runs while the thread writes. It also has the total cost of
// a checkpoint, relative to a step.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/model_run.h"
#include "common/ascending.h"
#include "common/clock.h"
#include "common/json.h"
#include "runtime/checkpoint/run_folder.h"
#include "runtime/checkpoint/saver.h"
#include "trainer/model_lasting.h"

enum { ROUNDS_MOST = 1000, TURN = 4 };

struct subject {
    struct device *device;
    struct model *model;
    struct profile *profile;
    struct model_run run;
    struct lasting_model *lasting;
    struct saver *saver;
};

struct times {
    uint64_t alone[ROUNDS_MOST * TURN], copy[ROUNDS_MOST], beside[ROUNDS_MOST * TURN], written[ROUNDS_MOST];
};

static void say(void *self, const char *sentence)
{
    (void)self;
    fprintf(stderr, "bench_checkpoint: %s\n", sentence);
}

static bool make(struct subject *subject, const char *name, const char *folder, struct error *error)
{
    const struct measure_options options = measure_usual_options();
    subject->device = device_open("cpu", error);
    subject->model = subject->device ? model_from_spec(name, PRECISION_FP32, error) : NULL;
    subject->profile = subject->model ? measure_model(name, subject->device, &options, NULL, error) : NULL;
    if (subject->profile && model_run_open(&subject->run, subject->profile, subject->model, subject->device, 2,
                                           OPTIMIZER_ADAMW, error))
        subject->lasting = lasting_model_create(subject->model, OPTIMIZER_ADAMW, error);
    if (!subject->lasting)
        return false;
    const struct saver_settings saving = {
        .folder = folder, .keep = 1, .lasting = subject->lasting, .pipeline = subject->run.pipeline, .tell = say,
    };
    subject->saver = saver_create(&saving, error);
    return subject->saver != NULL;
}

static void clear(struct subject *subject)
{
    saver_free(subject->saver);
    lasting_model_free(subject->lasting);
    model_run_close(&subject->run);
    profile_free(subject->profile);
    model_free(subject->model);
    device_close(subject->device);
}

static bool step(struct subject *subject, uint64_t *ns, struct error *error)
{
    const uint64_t start_ns = clock_now_ns();
    const bool good = session_step(subject->run.pipeline->session, error) && saver_look(subject->saver, error);
    *ns = clock_now_ns() - start_ns;
    return good;
}

static bool take_round(struct subject *subject, size_t round, struct times *times, struct error *error)
{
    struct manifest manifest = { .model = subject->run.plan->model, .rate = "0.001", .steps = JSON_MAX };
    bool good = true;
    for (size_t i = 0; good && i < TURN; i++)
        good = step(subject, &times->alone[round * TURN + i], error);
    manifest.step = manifest.passes = session_steps(subject->run.pipeline->session);
    manifest.plan.ranks = manifest.plan.stages = manifest.plan.micro_batches = manifest.plan.flush_every = 1;
    uint64_t start_ns = clock_now_ns();
    good = good && saver_save(subject->saver, &manifest, error);
    times->copy[round] = clock_now_ns() - start_ns;
    for (size_t i = 0; good && i < TURN; i++)
        good = step(subject, &times->beside[round * TURN + i], error);
    good = good && saver_finish(subject->saver, error);
    times->written[round] = clock_now_ns() - start_ns;
    return good && (!saver_has_failed(subject->saver) || error_set(error, "a checkpoint could not be written"));
}

static double median_ms(uint64_t *times, size_t count)
{
    qsort(times, count, sizeof *times, ascending_u64s);
    return (double)times[count / 2] / 1e6;
}

static bool measure(const char *name, size_t rounds, const char *folder, struct error *error)
{
    static struct times times;
    struct subject subject = { 0 };
    uint64_t first;
    bool good = make(&subject, name, folder, error) && step(&subject, &first, error);
    for (size_t round = 0; good && round < rounds; round++)
        good = take_round(&subject, round, &times, error);
    if (good) {
        const double alone = median_ms(times.alone, rounds * TURN), copy = median_ms(times.copy, rounds);
        const double beside = median_ms(times.beside, rounds * TURN), slower = beside > alone ? beside - alone : 0;
        printf("%-10s step %8.1f ms   copy %7.2f ms, %.2f %% of a step   beside the writer %8.1f ms   on disk after"
               " %8.1f ms\n", name, alone, copy, 100 * copy / alone, beside, median_ms(times.written, rounds));
        printf("%-10s a checkpoint costs %.2f %% of a step where it stands still, and %.2f %% in %d steps beside it\n",
               name, 100 * copy / alone, 100 * TURN * slower / alone, TURN);
    }
    clear(&subject);
    return good;
}

int main(int count, char **arguments)
{
    struct error error = { 0 }, none = { 0 };
    char made[] = "/tmp/weir-bench-checkpoint-XXXXXX";
    const char *folder = count == 4 ? arguments[3] : mkdtemp(made);
    bool good = folder || error_set_kind(&error, ERROR_MACHINE, "no folder could be made in /tmp");
    if (good && count >= 3) {
        const size_t rounds = strtoul(arguments[2], NULL, 10);
        good = rounds > 0 && rounds <= ROUNDS_MOST ? measure(arguments[1], rounds, folder, &error)
                                                   : error_set(&error, "from 1 to %d rounds", ROUNDS_MOST);
    } else if (good) {
        good = measure("gpt-nano", 11, folder, &error) && measure("gpt-10m", 3, folder, &error);
    }
    if (count != 4 && folder) {
        run_folder_keep(folder, UINT64_MAX, 0, 0, &none);
        rmdir(folder);
    }
    return good ? 0 : fail(&error);
}
