// Checkpoints of a run, written while it goes on:
//
//     struct saver *saver = saver_create(&settings, &error);
//     while (...) {
//         session_step(...);
//         if (it is time to)
//             if (!saver_save(saver, &manifest, &error)) ...   // copies states; a thread writes them
//         if (!saver_look(saver, &error)) ...                  // after each step: how far is it, on all ranks?
//     }
//     if (!saver_finish(saver, &error)) ...
//
// Each rank writes the layers of which it has the first copy, in the folder that all ranks share; when all have,
// the first writes the manifest and gives the checkpoint its name (run_folder.h). What cannot be written is told, and
// the run goes on; false is returned only where ranks have lost each other or something cannot be read of a device.
//
// A checkpoint is waited for before the next one begins. So there is always the same one, however slow a disk is.
#ifndef RUNTIME_CHECKPOINT_SAVER_H
#define RUNTIME_CHECKPOINT_SAVER_H

#include "runtime/checkpoint/layer_file.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/run_folder.h"
#include "runtime/pipeline.h"

struct saver;

// The checkpoint of the least loss on held-out data.
struct saved_best {
    uint64_t step;  // 0: none
    double loss;
};

struct saver_settings {
    const char *folder;
    uint32_t keep;                      // as many whole checkpoints stay, and the best
    struct saved_best best;             // so far
    const struct process_group *group;  // NULL: one process has all ranks
    struct lasting_form form;
    const struct lasting_layer *layers;  // of the pipeline, borrowed like all of this
    size_t layer_count;
    const struct run_file *files;  // that stand in each checkpoint beside them
    size_t file_count;
    const struct pipeline *pipeline;
    void (*tell)(void *self, const char *sentence);  // what could not be written, at once
    void *self;
};

// Takes memory of the host for what this process is to write. By all ranks.
struct saver *saver_create(const struct saver_settings *settings, struct error *error);
// Ends what is being written, without a name.
void saver_free(struct saver *saver);

// Of the manifest everything but what is only known afterwards: `layers` and their count are the saver's.
bool saver_save(struct saver *saver, const struct manifest *manifest, struct error *error);
bool saver_look(struct saver *saver, struct error *error);
// Waits for the last one.
bool saver_finish(struct saver *saver, struct error *error);

// The step of the newest checkpoint that was committed; 0: none was. And whether the last that was begun could not be.
uint64_t saver_newest(const struct saver *saver);
// The best that is there, also of those before.
struct saved_best saver_best(const struct saver *saver);
bool saver_has_failed(const struct saver *saver);

#endif
