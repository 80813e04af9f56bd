#include "runtime/checkpoint/checkpoints.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/path.h"
#include "runtime/checkpoint/run_folder.h"
#include "runtime/groups/agreement.h"

struct checkpoints {
    struct checkpoints_request request;
    struct manifest run;
    struct saver *saver;
    char *words;    // of the checkpoint that the run was resumed from, until they are taken
    uint64_t samples;  // that the run had consumed there
    uint64_t last;  // the step that was saved, or resumed from
    int lock;       // rank 0's, on the folder
};

// --- the folder ----------------------------------------------------------------------------

static bool put_sign(const char *folder, char path[PATH_MAX], struct error *error)
{
    unsigned long long chance = 0;
    char name[32];
    if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance)
        return error_set_kind(error, ERROR_MACHINE, "no random number can be had: %s", strerror(errno));
    snprintf(name, sizeof name, RUN_FOLDER_SIGN "%016llx", chance);
    if (!path_join(folder, name, path, error))
        return false;
    const int file = open(path, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0666);
    if (file < 0)
        return error_set_kind(error, ERROR_MACHINE, "%.300s: cannot be written: %s", folder, strerror(errno));
    close(file);
    return true;
}

// All ranks must write to one folder, or a checkpoint would never be complete.
static bool is_shared(const struct checkpoints_request *request, struct error *error)
{
    const struct process_group *group = request->group;
    const char *folder = request->settings.folder;
    char path[PATH_MAX] = "", name[32] = "", here[PATH_MAX];
    if (!group)
        return true;
    const bool put = !group_is_first(group) || put_sign(folder, path, error);
    if (!ranks_all_good(group, put, error))
        return false;
    if (group_is_first(group))
        snprintf(name, sizeof name, "%s", strrchr(path, '/') + 1);
    bool good = group->broadcast(group->self, 0, name, sizeof name, error);
    if (good) {
        name[sizeof name - 1] = '\0';
        const bool sees = snprintf(here, sizeof here, "%s/%s", folder, name) < PATH_MAX && access(here, F_OK) == 0;
        good = ranks_all_good(group, sees || error_named(error, "rank %u does not see %.300s as rank 0 does:"
                                                                " checkpoints go to a folder that all ranks share",
                                                         group->rank, folder), error);
    }
    if (group_is_first(group))
        unlink(path);
    return good;
}

static bool prepare_folder(struct checkpoints *checkpoints, struct error *error)
{
    const struct checkpoints_request *request = &checkpoints->request;
    const char *folder = request->settings.folder;
    size_t count = 0;
    bool good = true;
    if (group_is_first(request->group)) {
        good = run_folder_make(folder, error) && (checkpoints->lock = run_folder_lock(folder, error)) >= 0
            && run_folder_clean(folder, error);
        uint64_t *steps = good ? run_folder_steps(folder, &count, error) : NULL;
        good = good && steps;
        if (good && count > 0 && !request->settings.resume)
            good = error_named(error, "%.300s: has checkpoints of a run, the newest of step %llu: give %s to go on with"
                                      " it, or another folder", folder, (unsigned long long)steps[0],
                               request->rules->asked_by);
        free(steps);
    }
    return ranks_all_good(request->group, good, error) && is_shared(request, error);
}

// --- making --------------------------------------------------------------------------------

static bool resume(struct checkpoints *checkpoints, uint64_t *step, uint64_t *passes, struct error *error)
{
    const struct checkpoints_request *request = &checkpoints->request;
    const struct resume_request resuming = { .folder = request->settings.folder, .group = request->group,
                                             .lasting = request->lasting, .pipeline = request->pipeline,
                                             .run = request->run, .rules = request->rules, .say = request->say,
                                             .self = request->self };
    struct manifest *found;
    if (!request->settings.resume)
        return true;
    const bool good = resume_run(&resuming, &found, error);
    if (found) {
        *step = checkpoints->last = found->step;
        *passes = found->passes;
        checkpoints->samples = found->samples;
        checkpoints->words = found->words;
        found->words = NULL;
    }
    manifest_free(found);
    return good;
}

// The best of the existing checkpoints, as rank 0 reads them. Damaged ones are left out.
static bool find_best(const struct checkpoints_request *request, struct saved_best *best, struct error *error)
{
    const struct process_group *group = request->group;
    size_t count = 0;
    struct error none = { 0 };
    uint64_t *steps = group_is_first(group) ? run_folder_steps(request->settings.folder, &count, error) : NULL;
    *best = (struct saved_best){ 0 };
    if (!ranks_all_good(group, !group_is_first(group) || steps, error)) {
        free(steps);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        char checkpoint[PATH_MAX], path[PATH_MAX];
        size_t length = 0;
        char *text = run_folder_path(request->settings.folder, steps[i], checkpoint, &none)
                       ? run_folder_manifest(checkpoint, &length, path, &none) : NULL;
        struct manifest *found = text ? manifest_read(text, length, path, &none) : NULL;
        if (found && found->has_held && (best->step == 0 || found->held_loss < best->loss))
            *best = (struct saved_best){ found->step, found->held_loss };
        manifest_free(found);
        free(text);
    }
    free(steps);
    return group_broadcast(group, 0, best, sizeof *best, error);
}

static void tell(void *self, const char *sentence)
{
    const struct checkpoints_request *request = self;
    char whole[1000];
    if (group_is_first(request->group))
        request->say(request->self, sentence);
    else {
        snprintf(whole, sizeof whole, "rank %u: %s", request->group->rank, sentence);
        request->say(request->self, whole);
    }
}

struct checkpoints *checkpoints_open(const struct checkpoints_request *request, uint64_t *step, uint64_t *passes,
                                     struct error *error)
{
    struct checkpoints *checkpoints = calloc(1, sizeof *checkpoints);
    if (checkpoints) {
        checkpoints->request = *request;
        checkpoints->run = *request->run;
        checkpoints->lock = -1;
    }
    *step = *passes = 0;
    bool good = checkpoints || error_no_memory(error, "checkpoints");
    struct saved_best best = { 0 };
    good = ranks_all_good(request->group, good, error) && prepare_folder(checkpoints, error)
        && resume(checkpoints, step, passes, error) && find_best(request, &best, error);
    if (good) {
        const struct saver_settings settings = {
            .folder = request->settings.folder, .keep = request->settings.keep, .best = best, .group = request->group,
            .lasting = request->lasting, .pipeline = request->pipeline, .tell = tell, .self = &checkpoints->request,
        };
        checkpoints->saver = saver_create(&settings, error);
        if (checkpoints->saver)
            return checkpoints;
    }
    checkpoints_close(checkpoints);
    return NULL;
}

void checkpoints_close(struct checkpoints *checkpoints)
{
    if (!checkpoints)
        return;
    saver_free(checkpoints->saver);
    run_folder_unlock(checkpoints->lock);
    free(checkpoints->words);
    free(checkpoints);
}

// --- saving --------------------------------------------------------------------------------

static bool save(struct checkpoints *checkpoints, const struct checkpoint_moment *moment, struct error *error)
{
    struct manifest *run = &checkpoints->run;
    run->step = checkpoints->last = moment->step;
    run->steps = moment->step > run->steps ? moment->step : run->steps;  // for a run without an end
    run->passes = moment->passes;
    run->samples = moment->samples;
    run->loss = moment->loss;
    run->has_held = moment->has_held && isfinite(moment->held_loss);
    run->held_loss = run->has_held ? moment->held_loss : 0;
    run->words = (char *)(uintptr_t)moment->words;
    return saver_save(checkpoints->saver, run, error);
}

// Waits for the checkpoint being written, which may be better than all existing ones.
static bool is_best(struct checkpoints *checkpoints, const struct checkpoint_moment *moment, bool *is,
                    struct error *error)
{
    *is = false;
    if (!moment->has_held || !isfinite(moment->held_loss))
        return true;
    if (!saver_finish(checkpoints->saver, error))
        return false;
    const struct saved_best best = saver_best(checkpoints->saver);
    *is = best.step == 0 || moment->held_loss < best.loss;
    return true;
}

bool checkpoints_pass(struct checkpoints *checkpoints, const struct checkpoint_moment *moment, struct error *error)
{
    const uint32_t every = checkpoints->request.settings.every;
    const bool is_due = every > 0 && moment->step / every > checkpoints->last / every;
    bool is_the_best;
    if (!is_best(checkpoints, moment, &is_the_best, error))
        return false;
    if (moment->step > checkpoints->last && (is_due || moment->is_wanted || is_the_best))
        return save(checkpoints, moment, error);
    return saver_look(checkpoints->saver, error);
}

bool checkpoints_end(struct checkpoints *checkpoints, const struct checkpoint_moment *moment, struct error *error)
{
    if (moment->step > checkpoints->last && !save(checkpoints, moment, error))
        return false;
    return checkpoints_wait(checkpoints, error);
}

bool checkpoints_wait(struct checkpoints *checkpoints, struct error *error)
{
    return saver_finish(checkpoints->saver, error);
}

uint64_t checkpoints_samples(const struct checkpoints *checkpoints)
{
    return checkpoints->samples;
}

char *checkpoints_take_words(struct checkpoints *checkpoints)
{
    char *words = checkpoints->words;
    checkpoints->words = NULL;
    return words;
}

struct saved_best checkpoints_best(const struct checkpoints *checkpoints)
{
    return saver_best(checkpoints->saver);
}

uint64_t checkpoints_newest(const struct checkpoints *checkpoints)
{
    return saver_newest(checkpoints->saver);
}

bool checkpoints_have_failed(const struct checkpoints *checkpoints)
{
    return saver_has_failed(checkpoints->saver);
}
