// Which of a plan's layers make up one unit of another framework, whose smallest part is often a whole transformer
// layer.
//
//     layers of the plan     embedding  block0.attention  block0.mlp  block1.attention  block1.mlp  norm  head
//     units                  input      block 0                       block 1                       output
//
// Units are found by the layers' names. The parts of a name end at a dot or a slash. If a part is a number, or
// letters followed by a number, the layer belongs to a block: "layers.3.mlp", "block3.mlp", "model.layers.3",
// "h.3.attn". What stands before the number is the same in all of these names, and the numbers go up by one. Layers
// without a number are before all blocks, where they are the input, or after them, where they are the output.
#ifndef EXPORTS_OUTLINE_H
#define EXPORTS_OUTLINE_H

#include "partitioner/plan/plan.h"

// Layers that predict tokens further on ("mtp", "mtp.a") are one unit after the blocks.
enum unit_kind { UNIT_INPUT, UNIT_BLOCK, UNIT_PREDICTED, UNIT_OUTPUT };

struct unit {
    uint32_t first, end;  // layers
    enum unit_kind kind;
    uint32_t number;      // for a block: how many blocks are before it
};

struct outline {
    const char **layers;  // their names, borrowed from the plan
    uint32_t layer_count;
    struct unit *units;
    uint32_t count;
    uint32_t blocks, predicted;
};

// How fine a framework's units are.
enum grain {
    GRAIN_NONE,    // it knows nothing of layers
    GRAIN_NAMES,   // each layer is a unit, namely a block, and is called by its name
    GRAIN_LAYERS,  // each layer is a unit, namely a block, and the framework counts them
    GRAIN_BLOCKS,  // blocks as above; input and output are one unit each
    GRAIN_MODULES,  // blocks as above; each layer of input and output is a unit
};

// Finds the units by the layers' names. The outline must be cleared by outline_clear(), whatever the result. False
// with an error (ERROR_ANSWER) that says which name is in the way.
bool outline_by_name(struct outline *outline, const struct plan *plan, enum grain grain, struct error *error);

// The same with `counts` layers in each unit. For GRAIN_BLOCKS and GRAIN_MODULES the first count is the input's and
// the last is the output's; these two may be 0.
bool outline_by_hand(struct outline *outline, const struct plan *plan, enum grain grain, const uint32_t *counts,
                     size_t count, struct error *error);

void outline_clear(struct outline *outline);

// Writes "block0.attention", or "block0.attention .. block1.mlp", for layers [first, end), of which there is at least
// one.
void outline_write_layers(const struct outline *outline, uint32_t first, uint32_t end, struct text *text);

#endif
