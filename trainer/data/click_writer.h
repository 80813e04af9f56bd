// Collects samples of clicks, and saves them as a document with its file of numbers. They are in memory until then.
#ifndef TRAINER_DATA_CLICK_WRITER_H
#define TRAINER_DATA_CLICK_WRITER_H

#include "common/text.h"
#include "trainer/data/click_data.h"

struct click_writer {
    struct click_fields fields;  // the caller sets all of it but `most` and `occurrences`
    struct text numbers, ends, ids, labels;
    uint64_t samples;
};

void click_writer_add_number(struct click_writer *writer, const char *name);
void click_writer_add_slot(struct click_writer *writer, const char *name, uint64_t ids);
// Adds numbers I1, I2, .. and slots C1, C2, .. of as many ids each, the names of Criteo's data.
void click_writer_add_numbered(struct click_writer *writer, uint64_t numbers, uint64_t slots, uint64_t ids);

// Adds a sample. Those to train on come first, then those held out.
void click_writer_add(struct click_writer *writer, const struct click_sample *sample);
// Saves all samples; `train` of them are to train on. False with `error`, and then nothing is left.
bool click_writer_save(struct click_writer *writer, const char *kind, const char *licence, uint64_t train,
                       const char *path, struct error *error);
void click_writer_clear(struct click_writer *writer);

#endif
