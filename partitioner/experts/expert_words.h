// The copied experts in a variant's name, as `weir place` and profiles write it (docs/experts.md). A word stands for
// each layer of experts, or one for all:
//
//     rows2:0+*+1+0/dealt     expert 1 of the first layer is copied, and none of the second
#ifndef PARTITIONER_EXPERTS_EXPERT_WORDS_H
#define PARTITIONER_EXPERTS_EXPERT_WORDS_H

#include <stdbool.h>
#include <stdint.h>

// Whether an expert of layer `number` among those with experts is copied, and how many of that layer are.
bool expert_words_copy(const char *variant, uint32_t number, uint32_t expert);
uint32_t expert_words_copies(const char *variant, uint32_t number);

#endif
