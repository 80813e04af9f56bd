// Profiles that other tools wrote. A malformed file gives a one-sentence error with its line. Unknown fields are
// counted in the notes of the profile. All functions return a profile that the caller frees with profile_free(), or
// NULL with an error.
#ifndef PROFILER_IMPORT_H
#define PROFILER_IMPORT_H

#include "profiler/cluster.h"
#include "profiler/profile.h"

// A graph.txt of PipeDream's profiler (docs/formats/pipedream.md). The file does not say how many samples its
// mini-batch had; `micro_batch` does. With 1, the whole mini-batch counts as one sample. The model is named after the
// file.
struct profile *import_pipedream(const char *path, uint64_t micro_batch, struct error *error);

// The same from a text in memory; `name` stands for the file.
struct profile *import_pipedream_text(const char *text, size_t length, const char *name, uint64_t micro_batch,
                                      struct error *error);

// An input of dnn-partitioning (docs/formats/dnn-partitioning.md) or of Piper (docs/formats/piper.md). These also
// describe a machine. If `cluster` is not NULL, it receives that as a cluster, which the caller frees.
struct profile *import_dnn_partitioning(const char *path, uint64_t micro_batch, struct cluster **cluster,
                                        struct error *error);
struct profile *import_dnn_partitioning_text(const char *text, size_t length, const char *name, uint64_t micro_batch,
                                             struct cluster **cluster, struct error *error);
struct profile *import_piper(const char *path, uint64_t micro_batch, struct cluster **cluster, struct error *error);
struct profile *import_piper_text(const char *text, size_t length, const char *name, uint64_t micro_batch,
                                  struct cluster **cluster, struct error *error);

// Checks whether a text that could not be read is an input of one of these importers, or of weir estimate. If so, the
// error says so instead.
bool import_hint(const char *text, size_t length, const char *name, struct error *error);

#endif
