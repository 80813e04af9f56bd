// Which block of a model a layer is a part of, by its name: the first part of it (parts end at a dot or a slash) that is a
// number, or letters with a number behind them: "layers.3.mlp", "block3.mlp", "model.layers.3", "h.3.attn".
#ifndef PROFILER_BLOCK_NAMES_H
#define PROFILER_BLOCK_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block_name {
    size_t before;  // bytes in front of the number: the same in all blocks
    uint32_t number;
};

bool block_name_read(const char *name, struct block_name *block);

// Whether two names are of one block, `block` being that of the first.
bool block_name_is_same(const char *name, const struct block_name *block, const char *other);

// Whether one predicts tokens further on, behind the blocks: "mtp", "mtp.a".
bool block_name_is_predicted(const char *name);

#endif
