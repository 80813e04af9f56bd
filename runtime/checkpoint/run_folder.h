// The folder with a run's checkpoints:
//
//     step-40/               one that is whole: block0.mlp.safetensors .. config.json manifest.json
//     step-60/               a newer one
//     step-80.tmp/           one that is being written, or was when the run was killed
//
// A checkpoint gets its name last, and loses it first: run_folder_commit() renames step-80.tmp when everything in it,
// and run_folder_keep() renames step-40 before anything in it goes. In between everything is synced, so that whatever
// ends a run or its machine, each step-N is whole, and what ends in .tmp is nobody's.
//
// The folder may be named by a link. A link in it is never followed when something is written or removed: where one has
// the name of a checkpoint that goes, the link goes, and what it points to stays.
#ifndef RUNTIME_CHECKPOINT_RUN_FOLDER_H
#define RUNTIME_CHECKPOINT_RUN_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"

// A file that has no other meaning: whoever sees it, sees rank 0's folder. 16 hex digits follow.
#define RUN_FOLDER_SIGN ".weir-"

// Makes the folder unless it is there.
bool run_folder_make(const char *folder, struct error *error);
// So that no other run does while this one writes there; -1 where another one does. run_folder_unlock() ends it, and so
// does the end of the process.
int run_folder_lock(const char *folder, struct error *error);
void run_folder_unlock(int lock);
// Removes what an ended run has left half written or half removed. By the only run that writes there.
bool run_folder_clean(const char *folder, struct error *error);

// The steps of which there are checkpoints, the newest first; the caller frees them. NULL with a reason; none are an
// array of none.
uint64_t *run_folder_steps(const char *folder, size_t *count, struct error *error);

// FOLDER/step-N, and FOLDER/step-N.tmp, in buffers of PATH_MAX.
bool run_folder_path(const char *folder, uint64_t step, char *path, struct error *error);
bool run_folder_aside(const char *folder, uint64_t step, char *path, struct error *error);

// A file by which others read a checkpoint: config.json or model.safetensors.index.json.
struct run_file {
    const char *name;
    struct text text;
};

// By every rank that writes: the folder aside is there. Then by one: gives the checkpoint these files, its manifest and
// its name; or gives it up. One of that step that was there goes.
bool run_folder_begin(const char *folder, uint64_t step, struct error *error);
bool run_folder_commit(const char *folder, uint64_t step, const struct run_file *files, size_t count,
                       const struct text *manifest, struct error *error);
bool run_folder_discard(const char *folder, uint64_t step, struct error *error);

// Of the checkpoints up to a step leaves the `keep` newest, and that of step `best` (0: none).
bool run_folder_keep(const char *folder, uint64_t step, uint32_t keep, uint64_t best, struct error *error);

// The manifest of a checkpoint's folder, as text; free() it.
char *run_folder_manifest(const char *checkpoint, size_t *length, char path[PATH_MAX], struct error *error);

#endif
