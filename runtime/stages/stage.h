// A stage as the interpreter sees it: a few functions and their sizes.
//
// The interpreter owns all memory and gives each call the places it may use. A stage puts its work into the queue and
// returns at once. A device may run ahead of its host. So everything that reads or writes this memory must go through
// the queue, also work in plain C (queue_call()). A stage allocates nothing, does not block, and sends no messages.
#ifndef RUNTIME_STAGES_STAGE_H
#define RUNTIME_STAGES_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/public/weir_layer.h"
#include "device/device.h"
#include "device/row_list.h"
#include "partitioner/cost/stage_cost.h"
#include "runtime/stages/stopwatch.h"

// How replicas that shard weights or gradients (ZeRO 2 and 3, docs/memory.md) gather or add up those of a layer. A
// stage asks for elements [first, first + count) of all its weights. All replicas ask for the same ones in the same
// order. The exchange begins after everything that the stage's queue was given before. What `queue`, which may be
// another one, is given afterwards runs after it.
struct stage_exchange {
    // All-gathers the replicas' shares of these elements into `room`, which holds all of them; NULL: this replica
    // needs none.
    bool (*gather)(const struct stage_exchange *self, struct queue *queue, void *room, uint64_t first, uint64_t count,
                   struct error *error);
    // Reduce-scatters gradients: adds those of each replica (NULL: it has none) to the shares of all, in the order of
    // the replicas.
    bool (*add)(const struct stage_exchange *self, struct queue *queue, const float *gradients, uint64_t first,
                uint64_t count, struct error *error);
};

// The data of one action of one micro-batch. A pointer is NULL if the stage or the action does not have what it
// points to.
struct stage_pass {
    // The stage as if it were one layer. Each of its layers gets a copy with places of its own. The weight version of
    // `parameters` is the one that this micro-batch uses. The runtime zeroes `gradients` at a STEP. Asynchronous runs
    // have step 0. `loss` receives the loss of this part, and `auxiliary_loss` those of the layers that have one, in
    // order.
    struct weir_pass base;
    // The newest version of the weights, which has the tables of all versions, if their gradients are lists of rows;
    // NULL: that is `parameters`
    void *newest;
    void *last_input;        // F: host memory for what the model's last layer reads; NULL: it is not wanted
    void *kept_through;
    void *recomputed;        // what is recomputed, from R to B or I; NULL: that goes into the workspace
    uint64_t workspace_bytes;     // size of the workspace, by stage_workspace()
    struct stopwatch *reruns;     // B, I and R: measures recomputation; or NULL
    bool was_recomputed;          // B and I: an R of their own has already recomputed the forwards
    // The room on the device for weights and gradients of single layers while they are used. This is for a stage with
    // both on the host (bytes.streams), or whose replicas have shares of them (bytes.room_weights,
    // bytes.room_gradients).
    void *window_weights, *window_gradients;
    struct queue *moves;    // a second queue, for transfers that may run a layer ahead; or NULL
    struct event **moved;   // three events, by which the two queues wait for each other
    const struct stage_exchange *exchange;  // NULL: replicas shard neither, or the call only warms up
    bool is_absent;                         // only takes part in the exchanges that other replicas make
    const struct action *together;  // the actions done at the same time, including this one; each is called separately
    size_t together_count;
};

// When an action began: at `known_ns`, or, if that is 0, when the event occurred.
struct span_start {
    const struct event *event;
    uint64_t known_ns;
};

// Elements [first, end) of a stage's weights. Each layer's weights go through `room`, which holds one whole layer.
struct first_share {
    void *weights, *room;
    uint64_t first, end;
};

struct stage_functions {
    bool (*forward)(void *self, const struct stage_pass *pass, struct error *error);
    bool (*backward)(void *self, const struct stage_pass *pass, struct error *error);
    bool (*backward_input)(void *self, const struct stage_pass *pass, struct error *error);
    bool (*backward_weight)(void *self, const struct stage_pass *pass, struct error *error);
    // Writes the initial weights.
    bool (*initialize)(void *self, struct queue *queue, void *weights, struct error *error);
    // Recomputes forwards before B or I. NULL: B and I recompute by themselves, and an R is refused.
    bool (*recompute)(void *self, const struct stage_pass *pass, struct error *error);
    // Extra time of a STEP or REDUCE, besides the work of the runtime itself. NULL: none.
    void (*linger)(void *self, struct queue *queue, enum action_kind kind, struct span_start start);
    // Writes the initial weights if each replica has a share of them.
    bool (*initialize_share)(void *self, struct queue *queue, const struct first_share *to, struct error *error);
    // Writes the first state without a gradient; and makes the next one, from the statistics of an update's
    // micro-batches and the stage's newest weights. NULL: the stage has no state.
    bool (*initialize_state)(void *self, struct queue *queue, void *state, struct error *error);
    bool (*fold)(void *self, const struct weir_fold *fold, struct error *error);
};

// Elements [first, end) of a stage's weights without weight decay (biases, norms).
struct exempt {
    uint64_t first, end;
};

// Elements [first, end) of a stage's weights of which other stages have a copy, under the same key (tied parameters,
// ties.h).
struct shared {
    uint32_t key;
    uint64_t first, end;
};

// Elements [first, end) of a stage's weights that are the parameters of one layer. The stage's own layers come first.
// Copies of parameters of other stages' layers follow.
struct weir_tensor;
struct stage_part {
    uint32_t layer;  // of the model
    uint64_t first, end;
    bool is_copy;
    bool is_frozen;     // nothing of it is updated
    float rate_factor;  // of its updates; 0: the usual rate
    uint64_t numbers;  // how many numbers the layer has, from the first on; zeros follow
    uint64_t state, state_end;  // range of bytes in the stage's optimizer state, if that is in blocks
    uint64_t rows, columns;  // of a layer of tables; else 0
    // A list of rows begins at this float of the stage's gradients, and has room for so many rows. The first
    // `summed` are always in it. With room 0 the gradient is no list, but as large as the weights
    uint64_t list, room, summed;
    uint64_t sent_room;  // of several copies: rows that each sends the others, in room for all of them behind the list
    uint64_t undo;  // with a list: where an older version has the rows that changed since, in bytes (stage_part_undo())
    const struct weir_tensor *tensors;  // tensors by bytes from the first; none: one vector. Borrowed
    size_t tensor_count;
};

// The end of the numbers that the layer has.
static inline uint64_t stage_part_end(const struct stage_part *part)
{
    return part->numbers > 0 ? part->first + part->numbers : part->end;
}

// The gradient of a layer of tables by rows, of which a stage has `gradients`.
static inline struct row_list stage_part_rows(const struct stage_part *part, float *gradients)
{
    return part->room > 0 ? row_list_in(gradients + part->list, part->room, part->rows, part->columns)
                          : row_list_of_all(gradients + part->first, part->rows, part->columns);
}

// The rows of a layer of tables as they were before an update, in an older version of the weights.
static inline struct row_list stage_part_undo(const struct stage_part *part, void *version)
{
    return row_list_without_places((char *)version + part->undo, part->room, part->rows, part->columns);
}

static inline uint64_t stage_part_undo_bytes(const struct stage_part *part)
{
    return row_list_bytes_without_places(part->room, part->columns);
}

// What a copy of the stage sends the others of its list of rows.
static inline uint64_t stage_part_sent_bytes(const struct stage_part *part)
{
    return row_list_bytes_without_places(part->sent_room, part->columns);
}

static inline struct row_list stage_part_sent(const struct stage_part *part, float *gradients, uint32_t copy)
{
    char *const first = (char *)(gradients + part->list) + row_list_bytes(part->room, part->rows, part->columns);
    return row_list_without_places(first + copy * stage_part_sent_bytes(part), part->sent_room, part->rows,
                                   part->columns);
}

struct stage {
    const struct stage_functions *functions;
    void *self;
    struct stage_bytes bytes;  // of one replica
    uint64_t list_bytes;       // of its gradients, the last, which are lists of rows and not a float for each weight
    uint64_t version_bytes;    // of its weights in front of layers with lists: what an older version has whole
    enum shard shard;          // which of its states replicas shard
    enum optimizer_unit unit;  // which units of a layer's numbers are never cut by a share
    const struct exempt *exempt;  // ascending, without overlap; borrowed
    size_t exempt_count;
    const struct shared *shared;  // ascending by key; borrowed
    size_t shared_count;
    // every weight is in one of them; borrowed. None if there is no clipping and there are no layers
    const struct stage_part *parts;
    size_t part_count;
    bool takes_splits;  // whether it accepts parts of sequences
    uint32_t metric_count;  // counts beside the loss, of the last stage
    // How many of its layers have an auxiliary loss, and how many of the layers of the stages before it
    uint32_t auxiliary_count, first_auxiliary;
    const char *trains_by;  // the first layer whose state training reads; NULL: none. Borrowed
    // Whether it may be called ahead of the first pass, with the first micro-batch of each kind of action and
    // meaningless data. Then all that is done only once (such as loading kernels) is done before there are messages
    // (interpreting.h).
    bool warms_up;
};

#endif
