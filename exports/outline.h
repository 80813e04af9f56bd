// Which of a plan's layers are one unit of another framework, whose smallest part is often a whole transformer layer.
//
//     layers of the plan     embedding  block0.attention  block0.mlp  block1.attention  block1.mlp  norm  head
//     units                  input      block 0                       block 1                       output
//
// By their names: a part of a name (parts end at a dot or a slash) that is a number, or letters with a number behind
// them, makes its layer one of a block: "layers.3.mlp", "block3.mlp", "model.layers.3", "h.3.attn". All that stands in
// front of the number is the same in all of them, and the numbers go up by one. Layers without a number stand in front
// of all blocks, where they are the input, or behind them, where they are the output.
#ifndef EXPORTS_OUTLINE_H
#define EXPORTS_OUTLINE_H

#include "partitioner/plan/plan.h"

// What predicts tokens further on ("mtp", "mtp.a") is one unit behind the blocks.
enum unit_kind { UNIT_INPUT, UNIT_BLOCK, UNIT_PREDICTED, UNIT_OUTPUT };

struct unit {
    uint32_t first, end;  // layers
    enum unit_kind kind;
    uint32_t number;      // of a block: how many blocks stand before it
};

struct outline {
    const char **layers;  // their names, which are the plan's
    uint32_t layer_count;
    struct unit *units;
    uint32_t count;
    uint32_t blocks, predicted;
};

// How fine a framework's units are.
enum grain {
    GRAIN_NONE,    // it knows nothing of layers
    GRAIN_NAMES,   // each layer is a unit, a block, and is called by its name
    GRAIN_LAYERS,  // each layer is a unit, a block, and the framework counts them
    GRAIN_BLOCKS,  // as above, input and output a unit each
    GRAIN_MODULES,  // as above, each layer of input and output a unit
};

// Freed by outline_clear(), whatever came of it. The error (ERROR_ANSWER) says which name is in the way.
bool outline_by_name(struct outline *outline, const struct plan *plan, enum grain grain, struct error *error);

// The same with so many layers in each unit. Of GRAIN_BLOCKS and GRAIN_MODULES the first count is the input's, the last
// the output's, and these two may be 0.
bool outline_by_hand(struct outline *outline, const struct plan *plan, enum grain grain, const uint32_t *counts,
                     size_t count, struct error *error);

void outline_clear(struct outline *outline);

// "block0.attention", or "block0.attention .. block1.mlp", of layers [first, end), one at least.
void outline_write_layers(const struct outline *outline, uint32_t first, uint32_t end, struct text *text);

#endif
