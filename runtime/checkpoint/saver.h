// Writes the checkpoints of a run while it goes on:
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
// Each rank writes the layers of which it has the first copy, into the folder that all ranks share. When all have,
// rank 0 writes the manifest and gives the checkpoint its name (run_folder.h). A write error is reported, and the run
// goes on. False is returned only if ranks have lost each other, or if a device could not be read.
//
// A checkpoint is finished before the next one begins. So the same checkpoints exist however slow a disk is.
#ifndef RUNTIME_CHECKPOINT_SAVER_H
#define RUNTIME_CHECKPOINT_SAVER_H

#include "runtime/checkpoint/lasting.h"
#include "runtime/pipeline.h"

struct saver;

// The checkpoint with the lowest loss on held-out data.
struct saved_best {
    uint64_t step;  // 0: none
    double loss;
};

struct saver_settings {
    const char *folder;
    uint32_t keep;                      // the number of complete checkpoints that stay, besides the best
    struct saved_best best;             // so far
    const struct process_group *group;  // NULL: one process has all ranks
    const struct lasting_model *lasting;  // of the pipeline; borrowed, like everything here
    const struct pipeline *pipeline;
    void (*tell)(void *self, const char *sentence);  // is told at once what could not be written
    void *self;
};

// A collective call of all ranks. Allocates host memory for what this process will write.
struct saver *saver_create(const struct saver_settings *settings, struct error *error);
// Ends a checkpoint that is being written, which gets no name.
void saver_free(struct saver *saver);

// The manifest must be complete, except for what is known only afterwards: the saver sets `layers` and their count. It
// is copied with its texts.
bool saver_save(struct saver *saver, const struct manifest *manifest, struct error *error);
bool saver_look(struct saver *saver, struct error *error);
// Waits for the last checkpoint.
bool saver_finish(struct saver *saver, struct error *error);

// The step of the newest checkpoint that was committed; 0: none.
uint64_t saver_newest(const struct saver *saver);
// The best one that exists, including earlier ones; and whether the last one begun could not be committed.
struct saved_best saver_best(const struct saver *saver);
bool saver_has_failed(const struct saver *saver);

#endif
