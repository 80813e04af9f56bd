// What of a model is trained, if not all of it, and on which sequences.
//
// * Frozen parts have no gradients and no optimizer's states, and no product for the gradient of weights. Their
//   backward still takes the gradient further, if something in front of them is trained.
// * LoRA: everything is frozen, and beside each product x W of some parts stands x A B, of a small rank. A and B are
//   trained.
// * Sequences are packed: those of a batch have several lengths, and tokens attend to those of their own alone.
#ifndef PROFILER_ESTIMATE_FINE_TUNING_H
#define PROFILER_ESTIMATE_FINE_TUNING_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

// Parts of a model. Norms belong to what they are in front of, a router and shared experts to the experts.
enum tuned_part { TUNED_EMBEDDING = 1, TUNED_ATTENTION = 2, TUNED_MLP = 4, TUNED_EXPERTS = 8, TUNED_HEAD = 16,
                  TUNED_ALL = 31 };

enum { TUNING_MOST_LENGTHS = 16 };

struct fine_tuning {
    unsigned frozen;     // flags of enum tuned_part
    uint32_t lora_rank;  // 0: no LoRA
    unsigned lora;       // parts whose linear layers have A and B: attention, MLPs and shared experts
    // Sequences that are packed: their lengths in tokens, and how many there are of each, as shares of all sequences.
    // No lengths: all have the length of the request.
    struct { uint32_t tokens; double share; } lengths[TUNING_MOST_LENGTHS];
    size_t length_count;
};

// Whether it is anything but usual training.
bool fine_tuning_is(const struct fine_tuning *tuning);

// The name of the first of these parts, of which there is one or more.
const char *fine_tuning_part(unsigned flags);

// Parse "attention,mlp" or "all"; "16" or "16:attention" or "16:attention,mlp"; and "512:30%,2048:70%". False with an
// error, also for frozen parts beside LoRA.
bool fine_tuning_read_frozen(const char *text, struct fine_tuning *tuning, struct error *error);
bool fine_tuning_read_lora(const char *text, struct fine_tuning *tuning, struct error *error);
bool fine_tuning_read_lengths(const char *text, struct fine_tuning *tuning, struct error *error);

#endif
