// What samples of clicks have: a label of 0 or 1, numbers, and slots. A slot has ids, none or some for each sample.
//
// The file of numbers has five parts. Each has the samples to train on first, then those held out:
//
//     starts   u64 for each sample: where its ids begin among all ids
//     numbers  f32 for each sample and number
//     ends     u32 for each sample and slot: where the slot's ids end among those of the sample
//     ids      u32, sample by sample and slot by slot
//     labels   u8 for each sample
#ifndef TRAINER_DATA_CLICK_FIELDS_H
#define TRAINER_DATA_CLICK_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/json.h"

enum { CLICK_NAME = 32, CLICK_NUMBERS = 64, CLICK_SLOTS = 128 };

// How samples were held out: by a hash of their number, the last ones of the file, or the latest ones.
enum click_split { CLICK_SPLIT_RANDOM, CLICK_SPLIT_LAST, CLICK_SPLIT_TIME };
extern const char *const click_splits[];  // "random", ..; NULL-terminated

struct click_slot {
    char name[CLICK_NAME];
    uint64_t ids;   // all of its ids are below it
    uint64_t most;  // ids of one sample
};

struct click_fields {
    char numbers[CLICK_NUMBERS][CLICK_NAME];  // their names
    size_t number_count;
    struct click_slot slots[CLICK_SLOTS];
    size_t slot_count;     // 0: the samples are no clicks
    uint64_t occurrences;  // ids of all samples
    enum click_split split;
    bool is_generated;     // by a seed, from known probabilities
    uint64_t seed;
    uint32_t best_auc_ppm;  // of the known probabilities, on the held-out samples
};

// The places at which the parts begin in the file of numbers.
struct click_layout {
    uint64_t starts, numbers, ends, ids, labels, bytes;
};
// False if they are too many to count.
bool click_layout_find(const struct click_fields *fields, uint64_t samples, struct click_layout *layout);

// The keys of a document from `split` to `occurrences`.
void click_fields_read(struct json *root, struct click_fields *fields);
void click_fields_put(const struct click_fields *fields, struct json_writer *writer);

// Whether the bytes of a file of numbers are what its document says. False with a sentence that begins with `path`.
bool click_fields_check(const struct click_fields *fields, uint64_t samples, const unsigned char *bytes,
                        const char *path, struct error *error);

#endif
