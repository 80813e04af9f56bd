// Which block of a model a layer belongs to, by the layer's name. The parts of a name end at a dot or a slash. The
// first part that is a number, or letters followed by a number, names the block: "layers.3.mlp", "block3.mlp",
// "model.layers.3", "h.3.attn".
#ifndef PROFILER_BLOCK_NAMES_H
#define PROFILER_BLOCK_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block_name {
    size_t before;  // bytes before the number; they are the same in all blocks
    uint32_t number;
};

// False if the name has no such part.
bool block_name_read(const char *name, struct block_name *block);

// Whether two names belong to one block; `block` is that of the first name.
bool block_name_is_same(const char *name, const struct block_name *block, const char *other);

// Whether the layer predicts tokens further on, after the blocks: "mtp", "mtp.a".
bool block_name_is_predicted(const char *name);

#endif
