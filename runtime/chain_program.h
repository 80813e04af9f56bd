// What a stage does in one action, as a list of steps: calls of layers, and between them copies and sums of tensors. It
// is written when the stage is made, so that where everything lies is known before anything runs.
//
// A step says for each of its tensors in which of the stage's places it lies, and where in it. What is only there while
// the action runs is an *item* of the workspace: it lives from the first step that names it to the last, and gets its
// offset when all steps are there. The sizes of items that live at a time never add up to more than the workspace
// (partitioner/cost/stage_cost.h); where no choice of offsets keeps all of them apart, items are moved together
// between two steps.
#ifndef RUNTIME_CHAIN_PROGRAM_H
#define RUNTIME_CHAIN_PROGRAM_H

#include "runtime/chain.h"

struct placed;

enum spot_base {
    AT_NOTHING, AT_INPUT, AT_OUTPUT, AT_KEPT, AT_THROUGH, AT_HELD, AT_AGAIN, AT_OUTPUT_GRADIENT, AT_INPUT_GRADIENT,
    AT_WEIGHTS, AT_GRADIENTS, AT_WINDOW_WEIGHTS, AT_WINDOW_GRADIENTS, AT_WORKSPACE
};

struct spot {
    enum spot_base base;
    uint64_t at;  // an offset; of the workspace, until offsets are given, the item's number
};

// The spots of a call, each a field of struct weir_pass; the inputs and their gradients are the first.
enum {
    SPOT_INPUTS, SPOT_INPUT_GRADIENTS = WEIR_MOST_INPUTS, SPOT_OUTPUT = 2 * WEIR_MOST_INPUTS, SPOT_SAVED,
    SPOT_OUTPUT_GRADIENT, SPOT_HELD, SPOT_WORKSPACE, SPOT_PARAMETERS, SPOT_GRADIENTS, SPOTS
};
enum { SPOT_TO, SPOT_FROM, SPOT_OTHER };  // of a copy, and of a sum

enum step_kind {
    STEP_CALL,
    STEP_COPY,  // TO = FROM
    STEP_BRING, // the same between the device and its host
    STEP_GATHER,  // TO = FROM of all replicas, which have a share of it each
    STEP_SHARE,   // their shares of TO += FROM of all of them
    STEP_ZERO,    // TO = 0
    STEP_ADD,   // TO = FROM + OTHER
    STEP_MARK,  // of the time, where segments begin and end to be run again
};

struct step {
    enum step_kind kind;
    const struct placed *link;  // of a call
    layer_function function;
    bool is_rerun;              // its loss has been told
    bool is_beside;             // what comes or goes on the other queue (chain_ahead.c)
    uint8_t event;              // 1 or 2: what comes tells it, and a call waits for it; 0: neither
    uint64_t bytes;             // of a copy or a sum
    uint64_t first, count;      // of what replicas share: elements of the stage's weights
    struct spot spots[SPOTS];
};

struct item {
    uint64_t bytes;        // rounded up to 256
    uint32_t first, last;  // the steps that it lives from and to
    uint64_t at;
    bool is_scratch;       // of one layer's call
};

struct program {
    struct step *steps;
    size_t step_count, step_room;
    struct item *items;
    size_t item_count, item_room;
    uint64_t moved_bytes;  // between steps, since no offsets were found that need no moving
    bool is_beside;        // some steps are
    bool failed;           // for want of memory
};

void program_free(struct program *program);

// A new item.
struct spot program_item(struct program *program, uint64_t bytes, bool is_scratch);

void program_call(struct program *program, const struct step *call);
void program_copy(struct program *program, struct spot to, struct spot from, uint64_t bytes);
void program_bring(struct program *program, struct spot to, struct spot from, uint64_t bytes);
void program_add(struct program *program, struct spot to, struct spot from, struct spot other, uint64_t bytes);
void program_gather(struct program *program, struct spot to, uint64_t first, uint64_t count);
void program_share(struct program *program, struct spot from, uint64_t first, uint64_t count);
void program_zero(struct program *program, struct spot to, uint64_t bytes);
void program_mark(struct program *program);

// Has what comes into the window come a layer ahead, on the other queue; before offsets are given.
void program_bring_ahead(struct program *program);

// Gives all items their offsets in a workspace of so many bytes.
bool program_place(struct program *program, uint64_t workspace_bytes, struct error *error);

bool program_run(const struct program *program, const struct stage_pass *pass, struct error *error);

#endif
