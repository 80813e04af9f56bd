// Makes documents of samples (sample_data.h) from what is installed or given.
#ifndef TRAINER_DATA_MAKE_DATA_H
#define TRAINER_DATA_MAKE_DATA_H

#include "trainer/data/planted_clicks.h"
#include "trainer/data/sample_data.h"

// What some kinds of clicks are made with.
struct data_options {
    bool by_time;                   // movielens: hold the latest ratings out
    uint64_t capacity;              // criteo: ids of each slot
    struct planted_clicks planted;  // make-clicks
};
struct data_options data_options_usual(void);

struct data_kind {
    const char *name;
    const char *sentence;  // what it is
    const char *files;     // what may be named instead of what is installed
    bool (*make)(char *const *files, size_t count, const struct data_options *options, const char *path,
                 struct error *error);
};
// The kinds; `count` of them.
const struct data_kind *data_kinds(size_t *count);

// Writes the document and, beside it, its numbers. A file that is there is replaced. False with `error`, and then
// nothing is left.
bool data_make(const char *kind, char *const *files, size_t count, const struct data_options *options,
               const char *path, struct error *error);

#endif
