// The numbers or the ids of a micro-batch of clicks, as the sources of a model read them (models/numbers.c, tables.c).
// They are filled sample by sample, and then go to the device:
//
//     numbers   [sample][number]
//     ids       rows of all tables together, sample by sample and slot by slot, with room for layer_most_ids();
//               where each slot of each sample ends; and weights, if the model has them
#ifndef TRAINER_CLICK_BATCH_H
#define TRAINER_CLICK_BATCH_H

#include "models/layer.h"
#include "trainer/row_slots.h"

// One sample. The ids of slot s are ids[s > 0 ? ends[s - 1] : 0 .. ends[s]).
struct click_lists {
    const float *numbers;
    const uint32_t *ids, *ends;
    const float *weights;  // of each id; NULL: all are 1
};

static inline uint32_t click_first(const struct click_lists *sample, size_t slot)
{
    return slot > 0 ? sample->ends[slot - 1] : 0;
}

struct click_batch {
    float *numbers;
    int32_t *rows, *ends;
    float *weights;  // NULL without
    size_t samples, lists;  // so many are in it
    const struct row_slots *slots;  // of tables on the host: which rows are where on the device. NULL: `own` says
    size_t host_first;              // rows of the layer's matrix from this one on are those on the host, if it has room
    struct row_slots own;           // as they come, until there is no more room: for a layer that is measured alone
    struct {
        float *numbers, *weights;
        uint32_t *ids, *ends;
    } drawn;
};

// For a layer of numbers or of tables. False with `error` without memory. Freed by click_batch_free().
bool click_batch_create(const struct layer *layer, struct click_batch *batch, struct error *error);
void click_batch_free(struct click_batch *batch);

void click_batch_begin(const struct layer *layer, struct click_batch *batch);
// A slot may have no more ids than the layer has room for. NULL: numbers of 0, and no ids.
//
// If members have parts of the tables, each of them gets the samples of all members, one member after the other. Shares
// are filled up to the largest one. Then come its own samples once more, for which copied tables are read.
void click_batch_add(const struct layer *layer, struct click_batch *batch, const struct click_lists *sample);
size_t click_batch_samples(const struct layer *layer);  // so many are to be added
// A sample of random numbers and ids, of which low ones are the more frequent ones, as Zipf's law has it. Slots have
// from none to all of the ids that there is room for, or just one if there is room for one. It is there until the next
// one is drawn.
struct click_lists click_batch_draw(const struct layer *layer, struct click_batch *batch, uint64_t *seed);

// The room on the device, and the way there, which the pass is told.
uint64_t click_batch_bytes(const struct layer *layer);
void click_batch_upload(const struct layer *layer, const struct click_batch *batch, void *place,
                        struct layer_pass *pass);

#endif
