// A program: what a stage does in one action, as a list of steps. Steps are calls of layers, and copies and sums of
// tensors between them. Programs are written when the stage is made, so that all places are known before anything
// runs.
//
// For each of its tensors, a step says in which of the stage's places it lies, and at which offset. A tensor that is
// there only while the action runs is an *item* of the workspace. It lives from the first step that names it to the
// last, and gets its offset when all steps are written. The items that live at the same time never need more than the
// workspace in sum (partitioner/cost/stage_cost.h). If no choice of offsets keeps all of them apart, items are moved
// together between two steps.
#ifndef RUNTIME_STAGES_CHAIN_PROGRAM_H
#define RUNTIME_STAGES_CHAIN_PROGRAM_H

#include "runtime/stages/chain.h"

struct placed;

enum spot_base {
    AT_NOTHING, AT_INPUT, AT_OUTPUT, AT_KEPT, AT_THROUGH, AT_HELD, AT_RECOMPUTED, AT_OUTPUT_GRADIENT, AT_INPUT_GRADIENT,
    AT_WEIGHTS, AT_GRADIENTS, AT_WINDOW_WEIGHTS, AT_WINDOW_GRADIENTS, AT_WORKSPACE
};

struct spot {
    enum spot_base base;
    uint64_t at;  // an offset; in the workspace, until offsets are given, the number of the item
};

// The places of a call, each a field of struct weir_pass. The inputs and their gradients come first.
enum {
    SPOT_INPUTS, SPOT_INPUT_GRADIENTS = WEIR_MOST_INPUTS, SPOT_OUTPUT = 2 * WEIR_MOST_INPUTS, SPOT_SAVED,
    SPOT_OUTPUT_GRADIENT, SPOT_HELD, SPOT_WORKSPACE, SPOT_PARAMETERS, SPOT_GRADIENTS, SPOTS
};
enum { SPOT_TO, SPOT_FROM, SPOT_OTHER };  // of a copy, and of a sum

enum step_kind {
    STEP_CALL,
    STEP_COPY,  // TO = FROM
    STEP_BRING, // a copy between the device and its host
    STEP_GATHER,  // TO = all-gather of the replicas' shares
    STEP_SHARE,   // reduce-scatter: the replicas' shares of TO += FROM of all replicas
    STEP_ZERO,    // TO = 0
    STEP_ADD,   // TO = FROM + OTHER
    STEP_MARK,  // a time stamp where recomputation of a segment begins and ends
};

struct step {
    enum step_kind kind;
    const struct placed *link;  // the layer of a call
    layer_function function;
    bool is_rerun;              // a recomputed forward, whose loss has been given before
    bool is_on_second_queue;    // a transfer on the second queue (chain_ahead.c)
    uint8_t event;              // 1 or 2: a transfer records this event, and a call waits for it; 0: neither
    uint64_t bytes;             // of a copy or a sum; of what a call of forward reads first
    uint64_t first, count;      // of what replicas share: a range of elements of the stage's weights
    struct spot spots[SPOTS];
};

struct item {
    uint64_t bytes;        // rounded up to 256
    uint32_t first, last;  // the first and the last step that it lives in
    uint64_t at;
    bool is_scratch;       // needed in one layer's call only
};

struct program {
    struct step *steps;
    size_t step_count, step_room;
    struct item *items;
    size_t item_count, item_room;
    uint64_t moved_bytes;  // bytes moved between steps, if no offsets without moves were found
    bool is_on_second_queue;  // some steps are on the second queue
    bool failed;           // out of memory
};

void program_free(struct program *program);

// Adds an item to the workspace.
struct spot program_item(struct program *program, uint64_t bytes, bool is_scratch);

void program_step(struct program *program, const struct step *step);
void program_copy(struct program *program, struct spot to, struct spot from, uint64_t bytes);
void program_bring(struct program *program, struct spot to, struct spot from, uint64_t bytes);
void program_add(struct program *program, struct spot to, struct spot from, struct spot other, uint64_t bytes);
void program_gather(struct program *program, struct spot to, uint64_t first, uint64_t count);
void program_share(struct program *program, struct spot from, uint64_t first, uint64_t count);
void program_zero(struct program *program, struct spot to, uint64_t bytes);
void program_mark(struct program *program);

// Moves transfers into the window a layer ahead, on the second queue. Called before offsets are given.
void program_bring_ahead(struct program *program);

// Gives all items their offsets in a workspace of `workspace_bytes`. False without memory.
bool program_place(struct program *program, uint64_t workspace_bytes, struct error *error);

// Runs the program for one micro-batch: queues all its steps. False with the reason if a step fails.
bool program_run(const struct program *program, const struct stage_pass *pass, struct error *error);

#endif
