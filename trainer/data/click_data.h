// Samples of clicks, as models of tables read them. They lie in the mapped file of a document (sample_data.h), whose
// numbers were checked when it was loaded.
#ifndef TRAINER_DATA_CLICK_DATA_H
#define TRAINER_DATA_CLICK_DATA_H

#include "trainer/data/sample_data.h"

// The ids of slot s are ids[s > 0 ? ends[s - 1] : 0 .. ends[s]). All of it is borrowed from the data.
struct click_sample {
    int32_t label;         // 0 or 1
    const float *numbers;  // as they are, without a logarithm
    const uint32_t *ids;
    const float *weights;  // of each id; NULL: all are 1, as in all documents so far
    const uint32_t *ends;  // of each slot
};

// A sample by its number in the document's order, of those to train on or of those held out. False if there is none.
bool sample_data_click(const struct sample_data *data, bool held_out, uint64_t number, struct click_sample *sample);

// The sample of a place: sample_data_place() says which comes when, and sample_data_held_place() which are held out.
void click_data_at(const struct sample_data *data, struct sample_place place, struct click_sample *sample);

// Data without clicks have no slots.
size_t click_data_slots(const struct sample_data *data);
size_t click_data_numbers(const struct sample_data *data);
const char *click_data_slot_name(const struct sample_data *data, size_t slot);
uint64_t click_data_ids(const struct sample_data *data, size_t slot);   // all ids of a slot are below it
uint64_t click_data_most(const struct sample_data *data, size_t slot);  // ids of one sample
// Samples with label 1, of those to train on or of those held out.
uint64_t click_data_positives(const struct sample_data *data, bool held_out);

#endif
