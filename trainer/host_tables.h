// Embedding tables that are larger than the device, in the host's memory. The device has room for some rows, and before
// each iteration gets those that the iteration's ids name, with their optimizer state:
//
//     device     | iteration k                          |       | iteration k + 1
//     a thread   | takes the rows of k - 1 that k does  | rows  |
//     on the     | not read, and gets those of k + 1    | are   |
//     host       | ready that k does not read           | moved |
//
// Rows that both iterations read never come to the host's tables: they go back with the others, with the changes of k.
// The loader is a function of the step, so that these rows are known before anything runs. There is no cache and no
// miss. To the runtime, the rows on the device are the layer's parameters. A row that no id names is not changed by
// sgd and adagrad, so the result is that of a device with all rows. (Its gradient is 0, and adds nothing to Adagrad's
// sum.) Norms of gradients are summed up in another order.
#ifndef TRAINER_HOST_TABLES_H
#define TRAINER_HOST_TABLES_H

#include "models/model.h"
#include "profiler/measure.h"
#include "runtime/pipeline.h"
#include "trainer/click_batch.h"
#include "trainer/model_layers.h"
#include "trainer/row_slots.h"

struct host_tables;

// Tables of the layers for which there is a room (rows on the device, by layer; 0: all), with first values by the seed.
// Each member of a group has its part of them: these are rows of units (models/table_places.h).
struct host_tables_request {
    const struct model *model;  // borrowed
    const size_t *rooms;
    uint32_t members;           // 1: nothing is split
    struct sharding how;        // its places are borrowed
    uint64_t seed;
};

// NULL with `error` without memory.
struct host_tables *host_tables_create(const struct host_tables_request *request, struct error *error);
void host_tables_free(struct host_tables *tables);

// The rows of a member's tables that are on its device, and which row each is there: those of the present iteration.
const struct row_slots *host_tables_slots(const struct host_tables *tables, uint32_t layer, uint32_t member);

// Takes back the rows on the device, and brings those of the pipeline's next step. A thread then reads samples of the
// step behind it until the next call of any function here, which waits for it: `layers`, of any member, must be there
// as long. False with `error` if there are more rows than there is room for; then nothing was changed.
bool host_tables_turn(struct host_tables *tables, const struct model_layers *layers, struct pipeline *pipeline,
                      struct error *error);

// Between two steps: what is on the device is on the host as well. All vectors of a micro-batch's ids then come from
// there to `output` on a device, if this process has the layer.
bool host_tables_take_back(struct host_tables *tables, const struct pipeline *pipeline, struct error *error);
bool host_tables_has(const struct host_tables *tables, uint32_t layer);
bool host_tables_look_up(struct host_tables *tables, uint32_t layer, const struct click_batch *batch,
                         struct queue *queue, void *output, struct error *error);

// The time in which as many rows as there is room for come from a device and others go there, with the sums of Adagrad;
// and that of what is done beside an iteration.
struct host_time {
    uint64_t turn_ns, beside_ns;
};
bool host_tables_time(const struct layer *layer, size_t room, struct device *device,
                      const struct measure_options *options, struct host_time *time, struct error *error);

// A part of a member's state, with all rows: copied out, given what is on the device; or replaced, which leaves nothing
// there.
void host_tables_get(struct host_tables *tables, uint32_t layer, uint32_t member, uint32_t part, const void *there,
                     void *all);
bool host_tables_put(struct host_tables *tables, uint32_t layer, uint32_t member, uint32_t part, const void *all,
                     void *there, struct error *error);

#endif
