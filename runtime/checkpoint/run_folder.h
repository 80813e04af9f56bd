// The folder with a run's checkpoints:
//
//     step-40/               a complete one: block0.mlp.safetensors .. config.json manifest.json
//     step-60/               a newer one
//     step-80.tmp/           one that is being written, or was when the run was killed
//
// A checkpoint gets its name last, and loses it first. run_folder_commit() renames step-80.tmp after everything in it
// is written. run_folder_keep() renames step-40 before anything in it is removed. In between everything is synced. So
// whatever ends a run or its machine, each step-N is complete, and what ends in .tmp belongs to no checkpoint.
//
// The folder itself may be given as a link. A link inside it is never followed when something is written or removed.
// If a link has the name of a checkpoint that is removed, the link is removed, and what it points to stays.
#ifndef RUNTIME_CHECKPOINT_RUN_FOLDER_H
#define RUNTIME_CHECKPOINT_RUN_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"

// The name of a temporary file; 16 hex digits follow. A rank that sees the file sees rank 0's folder. It has no other
// meaning.
#define RUN_FOLDER_SIGN ".weir-"

// Makes the folder unless it exists.
bool run_folder_make(const char *folder, struct error *error);
// Locks the folder, so that no other run writes there while this one does; -1 if another one does. The lock ends with
// run_folder_unlock(), or with the process.
int run_folder_lock(const char *folder, struct error *error);
void run_folder_unlock(int lock);
// Removes what an ended run has left half written or half removed. Only the run that holds the lock may call it.
bool run_folder_clean(const char *folder, struct error *error);

// The steps that have checkpoints, the newest first; the caller frees the array. NULL with an error; without
// checkpoints the array is empty, but not NULL.
uint64_t *run_folder_steps(const char *folder, size_t *count, struct error *error);

// Writes FOLDER/step-N, or FOLDER/step-N.tmp, into a buffer of PATH_MAX bytes.
bool run_folder_path(const char *folder, uint64_t step, char *path, struct error *error);
bool run_folder_aside(const char *folder, uint64_t step, char *path, struct error *error);

// A file by which other programs read a checkpoint: config.json or model.safetensors.index.json.
struct run_file {
    const char *name;
    struct text text;
};

// run_folder_begin() is called by every rank that writes, and makes step-N.tmp unless it exists. Then one rank calls
// one of the others. run_folder_commit() adds these files and the manifest, and gives the checkpoint its name. An
// older checkpoint of that step is removed. run_folder_discard() gives the new one up.
bool run_folder_begin(const char *folder, uint64_t step, struct error *error);
bool run_folder_commit(const char *folder, uint64_t step, const struct run_file *files, size_t count,
                       const struct text *manifest, struct error *error);
bool run_folder_discard(const char *folder, uint64_t step, struct error *error);

// Removes checkpoints up to `step`, except the `keep` newest and that of step `best` (0: none).
bool run_folder_keep(const char *folder, uint64_t step, uint32_t keep, uint64_t best, struct error *error);

// The manifest in a checkpoint's folder, as text; free() it.
char *run_folder_manifest(const char *checkpoint, size_t *length, char path[PATH_MAX], struct error *error);

#endif
