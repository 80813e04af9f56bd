#include "runtime/checkpoint/saver.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "runtime/checkpoint/copy_states.h"
#include "runtime/groups/agreement.h"

// The jobs of the thread. Only rank 0 commits.
enum job { JOB_NONE, JOB_WRITE, JOB_COMMIT, JOB_END };

// How far a checkpoint is. It is the same on all ranks: they change it by what all have reported.
enum saving { SAVING_NOTHING, SAVING_LAYERS, SAVING_NAME };

// During a long wait, ranks let each other know that they are alive.
enum { LOOK_SECONDS = 5 };

struct saver {
    struct saver_settings settings;
    struct lasting_state *snapshots;  // of the layers that this process writes; NULLs for others
    struct copy_files copies;  // what copies of stages keep for themselves
    struct manifest manifest;  // of the checkpoint being written
    char *model, *words;
    enum saving saving;
    uint64_t newest;
    struct saved_best best;
    bool has_failed;

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum job job;         // under the lock, like the next two
    bool should_stop;     // the run has ended: what is not written yet need not be
    struct error failed;  // of the last job
};

// --- the thread ------------------------------------------------------------------------

static bool should_stop(struct saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    const bool stop = saver->should_stop;
    pthread_mutex_unlock(&saver->lock);
    return stop;
}

static bool write_layers(struct saver *saver, struct error *error)
{
    const struct lasting_model *lasting = saver->settings.lasting;
    char folder[PATH_MAX];
    const uint64_t step = saver->manifest.step;
    bool good = run_folder_begin(saver->settings.folder, step, error)
             && run_folder_aside(saver->settings.folder, step, folder, error);
    for (size_t l = 0; good && l < lasting->layer_count && !should_stop(saver); l++)
        if (saver->snapshots[l].parts[0])
            good = layer_file_save(folder, &lasting->form, &lasting->layers[l], step, saver->snapshots[l].parts,
                                   &saver->manifest.layers[l].written, error);
    if (good && saver->manifest.copy_count > 0 && !should_stop(saver))
        good = copy_files_save(&saver->copies, folder, step, error);
    return good;
}

// The best checkpoint once the current one is committed.
static struct saved_best next_best(const struct saver *saver)
{
    const struct manifest *manifest = &saver->manifest;
    const bool is_better = manifest->has_held
                        && (saver->best.step == 0 || manifest->held_loss < saver->best.loss
                            || saver->best.step == manifest->step);
    return is_better ? (struct saved_best){ manifest->step, manifest->held_loss } : saver->best;
}

static bool commit(struct saver *saver, struct error *error)
{
    const struct saver_settings *settings = &saver->settings;
    const uint64_t step = saver->manifest.step;
    struct text text = { 0 };
    manifest_write(&saver->manifest, &text);
    const struct lasting_model *lasting = settings->lasting;
    const bool good = run_folder_commit(settings->folder, step, lasting->files, lasting->file_count, &text, error)
                   && run_folder_keep(settings->folder, step, settings->keep, next_best(saver).step, error);
    text_clear(&text);
    return good;
}

static void *work(void *argument)
{
    struct saver *saver = argument;
    pthread_mutex_lock(&saver->lock);
    while (saver->job != JOB_END) {
        const enum job job = saver->job;
        if (job == JOB_NONE) {
            pthread_cond_wait(&saver->changed, &saver->lock);
            continue;
        }
        pthread_mutex_unlock(&saver->lock);
        struct error failed = { 0 };
        if (job == JOB_WRITE)
            write_layers(saver, &failed);
        else
            commit(saver, &failed);
        pthread_mutex_lock(&saver->lock);
        saver->failed = failed;
        saver->job = saver->job == JOB_END ? JOB_END : JOB_NONE;
        pthread_cond_broadcast(&saver->changed);
    }
    pthread_mutex_unlock(&saver->lock);
    return NULL;
}

static void give(struct saver *saver, enum job job)
{
    pthread_mutex_lock(&saver->lock);
    saver->job = job;
    saver->failed = (struct error){ 0 };
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
}

// Waits until the job is done, but not long.
static void wait_for_job(struct saver *saver)
{
    const uint64_t until_ns = clock_now_ns() + LOOK_SECONDS * (uint64_t)1000000000;
    pthread_mutex_lock(&saver->lock);
    while (saver->job != JOB_NONE && clock_wait(&saver->changed, &saver->lock, until_ns))
        ;
    pthread_mutex_unlock(&saver->lock);
}

// --- making ------------------------------------------------------------------------------

static bool prepare(struct saver *saver, struct error *error)
{
    const struct lasting_model *lasting = saver->settings.lasting;
    const struct pipeline *pipeline = saver->settings.pipeline;
    saver->snapshots = calloc(lasting->layer_count + 1, sizeof *saver->snapshots);
    saver->manifest.layers = calloc(lasting->layer_count + 1, sizeof *saver->manifest.layers);
    bool good = (saver->snapshots && saver->manifest.layers) || error_no_memory(error, "a checkpoint");
    for (size_t l = 0; good && l < lasting->layer_count; l++) {
        saver->manifest.layers[l].name = (char *)(uintptr_t)lasting->layers[l].name;
        good = layer_file_has_name(&lasting->layers[l], error)
            && (!pipeline_has_first(pipeline, (uint32_t)l)
                || lasting_state_create(&saver->snapshots[l], lasting, l, "a copy of what checkpoints keep", error));
    }
    saver->manifest.layer_count = lasting->layer_count;
    return good && copy_files_open(&saver->copies, pipeline, error);
}

// Blocks signals in the thread, since other threads handle them.
static bool start(struct saver *saver, struct error *error)
{
    sigset_t all, before;
    pthread_mutex_init(&saver->lock, NULL);
    pthread_cond_init(&saver->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    saver->has_thread = pthread_create(&saver->thread, NULL, work, saver) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (saver->has_thread)
        return true;
    pthread_cond_destroy(&saver->changed);
    pthread_mutex_destroy(&saver->lock);
    return error_set_kind(error, ERROR_MACHINE, "no thread could be started to write checkpoints");
}

struct saver *saver_create(const struct saver_settings *settings, struct error *error)
{
    struct saver *saver = calloc(1, sizeof *saver);
    bool good = saver || error_no_memory(error, "a checkpoint");
    if (saver) {
        saver->settings = *settings;
        saver->best = settings->best;
    }
    good = good && prepare(saver, error) && start(saver, error);
    if (ranks_all_good(settings->group, good, error))
        return saver;
    saver_free(saver);
    return NULL;
}

void saver_free(struct saver *saver)
{
    if (!saver)
        return;
    if (saver->has_thread) {
        pthread_mutex_lock(&saver->lock);
        saver->should_stop = true;
        saver->job = JOB_END;
        pthread_cond_broadcast(&saver->changed);
        pthread_mutex_unlock(&saver->lock);
        pthread_join(saver->thread, NULL);
        pthread_cond_destroy(&saver->changed);
        pthread_mutex_destroy(&saver->lock);
    }
    for (size_t l = 0; saver->snapshots && l < saver->settings.lasting->layer_count; l++)
        lasting_state_clear(&saver->snapshots[l]);
    free(saver->snapshots);
    copy_files_close(&saver->copies);
    free(saver->manifest.layers);
    free(saver->model);
    free(saver->words);
    free(saver);
}

// --- what ranks tell each other --------------------------------------------------------------

enum { IS_BUSY, HAS_FAILED, REPORTS };

// Exchanges what this rank's thread has done, and whether any rank is busy or has failed.
static bool exchange(struct saver *saver, uint64_t any[REPORTS], struct error *error)
{
    pthread_mutex_lock(&saver->lock);
    const bool is_busy = saver->job != JOB_NONE;
    const struct error failed = saver->failed;
    pthread_mutex_unlock(&saver->lock);
    if (!is_busy && failed.kind != ERROR_NONE) {
        char sentence[sizeof failed.text + 100];
        snprintf(sentence, sizeof sentence, "checkpoint of step %llu: %s",
                 (unsigned long long)saver->manifest.step, failed.text);
        saver->settings.tell(saver->settings.self, sentence);
        pthread_mutex_lock(&saver->lock);
        saver->failed = (struct error){ 0 };
        pthread_mutex_unlock(&saver->lock);
        saver->has_failed = true;
    }
    any[IS_BUSY] = is_busy;
    any[HAS_FAILED] = saver->has_failed;
    return ranks_most(saver->settings.group, any, REPORTS, error);
}

// For a layer, or, after all layers, for what a copy keeps: its entry in the manifest; and whether this process
// writes it.
static struct layer_written *written_at(const struct saver *saver, size_t i)
{
    const size_t layers = saver->manifest.layer_count;
    return i < layers ? &saver->manifest.layers[i].written : &saver->copies.files[i - layers].written;
}

static bool writes(const struct saver *saver, size_t i)
{
    const size_t layers = saver->manifest.layer_count;
    return i < layers ? saver->snapshots[i].parts[0] != NULL : saver->copies.kept[i - layers] != NULL;
}

// Gathers the sizes and checksums of what other ranks have written, for the manifest.
static bool gather_written(struct saver *saver, struct error *error)
{
    const struct process_group *group = saver->settings.group;
    const size_t count = saver->manifest.layer_count + saver->manifest.copy_count;
    if (!group)
        return true;
    struct layer_written *written = calloc(count + 1, sizeof *written);
    struct layer_written *all = calloc(count * group->ranks + 1, sizeof *all);
    bool good = (written && all) || error_no_memory(error, "the files of a checkpoint");
    for (size_t i = 0; good && i < count; i++)
        if (writes(saver, i))
            written[i] = *written_at(saver, i);
    good = good && group->all_gather(group->self, written, count * sizeof *written, all, error);
    for (size_t i = 0; good && i < count * group->ranks; i++)
        if (all[i].weights.bytes > 0)
            *written_at(saver, i % count) = all[i];
    free(written);
    free(all);
    return good;
}

// What exists of the checkpoint is removed now or, if that fails too, when the next run begins.
static void give_up(struct saver *saver)
{
    struct error error = { 0 };
    saver->saving = SAVING_NOTHING;
    saver->has_failed = true;
    if (group_is_first(saver->settings.group))
        run_folder_discard(saver->settings.folder, saver->manifest.step, &error);
}

bool saver_look(struct saver *saver, struct error *error)
{
    uint64_t any[REPORTS];
    if (saver->saving == SAVING_NOTHING)
        return true;
    if (!exchange(saver, any, error))
        return false;
    if (any[IS_BUSY])
        return true;
    if (any[HAS_FAILED]) {
        give_up(saver);
    } else if (saver->saving == SAVING_NAME) {
        saver->saving = SAVING_NOTHING;
        saver->newest = saver->manifest.step;
        saver->best = next_best(saver);
    } else {
        if (!gather_written(saver, error))
            return false;
        saver->saving = SAVING_NAME;
        if (group_is_first(saver->settings.group))
            give(saver, JOB_COMMIT);
    }
    return true;
}

bool saver_finish(struct saver *saver, struct error *error)
{
    while (saver->saving != SAVING_NOTHING) {
        wait_for_job(saver);
        if (!saver_look(saver, error))
            return false;
    }
    return true;
}

// --- saving ----------------------------------------------------------------------------------

static bool take_snapshot(struct saver *saver, uint32_t layer, uint32_t part, struct error *error)
{
    const struct pipeline *pipeline = saver->settings.pipeline;
    void *place = saver->snapshots[layer].parts[part];
    return (!place && !pipeline_is_shared(pipeline, layer, part))
        || pipeline_read_part(pipeline, layer, part, place, error);
}

static void note_scaling(struct manifest *run, const struct loss_scaling *scaling)
{
    if (scaling->scale <= 0)
        return;
    snprintf(run->loss_scale.scale, sizeof run->loss_scale.scale, "%.9g", (double)scaling->scale);
    run->loss_scale.interval = scaling->interval;
    run->loss_scale.made = scaling->made;
    run->loss_scale.skipped = scaling->skipped;
}

static bool take_snapshots(struct saver *saver, struct error *error)
{
    const struct pipeline *pipeline = saver->settings.pipeline;
    bool good = true;
    note_scaling(&saver->manifest, session_scaling(pipeline->session));
    for (uint32_t l = 0; good && l < saver->manifest.layer_count; l++) {
        saver->manifest.layers[l].updates = pipeline_updates(pipeline, l);
        saver->manifest.layers[l].written = (struct layer_written){ 0 };
        for (uint32_t part = 0; good && part < lasting_parts(&saver->settings.lasting->form); part++)
            good = take_snapshot(saver, l, part, error);
        void *state = saver->snapshots[l].parts[LASTING_STATE];
        if (good && state)
            good = pipeline_read_part(pipeline, l, LAYER_STATE, state, error);
    }
    if (good && saver->manifest.copy_count > 0)
        good = copy_files_read(&saver->copies, pipeline, error);
    return good;
}

// Copies what the run says of itself, whose texts may change or be freed while the thread writes.
static bool take_manifest(struct saver *saver, const struct manifest *manifest, struct error *error)
{
    struct manifest_layer *layers = saver->manifest.layers;
    free(saver->model);
    free(saver->words);
    saver->model = strdup(manifest->model);
    saver->words = manifest->words ? strdup(manifest->words) : NULL;
    saver->manifest = *manifest;
    saver->manifest.model = saver->model;
    saver->manifest.words = saver->words;
    saver->manifest.layers = layers;
    saver->manifest.layer_count = saver->settings.lasting->layer_count;
    saver->manifest.copies = saver->copies.files;  // empty until the freeze step
    saver->manifest.copy_count = manifest->step > manifest->freeze_step ? saver->copies.states.count : 0;
    return (saver->model && (saver->words || !manifest->words)) || error_no_memory(error, "a checkpoint");
}

bool saver_save(struct saver *saver, const struct manifest *manifest, struct error *error)
{
    if (!saver_finish(saver, error))
        return false;
    const bool good = take_manifest(saver, manifest, error) && take_snapshots(saver, error);
    if (!ranks_all_good(saver->settings.group, good, error))
        return false;
    saver->has_failed = false;
    saver->saving = SAVING_LAYERS;
    give(saver, JOB_WRITE);
    return true;
}

uint64_t saver_newest(const struct saver *saver)
{
    return saver->newest;
}

bool saver_has_failed(const struct saver *saver)
{
    return saver->has_failed;
}

struct saved_best saver_best(const struct saver *saver)
{
    return saver->best;
}
