// Profiles that other tools wrote. A file that is not what it should be is one
// sentence with its line; fields nobody here knows are counted in the notes.
#ifndef PROFILER_IMPORT_H
#define PROFILER_IMPORT_H

#include "profiler/cluster.h"
#include "profiler/profile.h"

// A graph.txt of PipeDream's profiler (docs/formats/pipedream.md). The file does
// not say how many samples its mini-batch had: `micro_batch` does, and 1 takes
// the whole mini-batch for one. The model's name is the file's.
struct profile *import_pipedream(const char *path, uint64_t micro_batch, struct error *error);

// The same of a text in memory; `name` stands for the file.
struct profile *import_pipedream_text(const char *text, size_t length, const char *name, uint64_t micro_batch,
                                      struct error *error);

// An input of dnn-partitioning (docs/formats/dnn-partitioning.md) or of Piper
// (docs/formats/piper.md). These say which machine is meant too: where `cluster` is not
// NULL it becomes that.
struct profile *import_dnn_partitioning(const char *path, uint64_t micro_batch, struct cluster **cluster,
                                        struct error *error);
struct profile *import_dnn_partitioning_text(const char *text, size_t length, const char *name, uint64_t micro_batch,
                                             struct cluster **cluster, struct error *error);
struct profile *import_piper(const char *path, uint64_t micro_batch, struct cluster **cluster, struct error *error);
struct profile *import_piper_text(const char *text, size_t length, const char *name, uint64_t micro_batch,
                                  struct cluster **cluster, struct error *error);

// Whether a text that could not be read is what one of these reads, or weir estimate: then the error says so instead.
bool import_hint(const char *text, size_t length, const char *name, struct error *error);

#endif
