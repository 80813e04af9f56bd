// What stands beside the layers of a checkpoint (docs/formats/checkpoint.md): which run it is of, how far that had
// come, and the layers' files with their sizes and checksums. It is the last file that is written, and has a checksum
// of its own.
#ifndef RUNTIME_CHECKPOINT_MANIFEST_H
#define RUNTIME_CHECKPOINT_MANIFEST_H

#include "runtime/checkpoint/layer_file.h"
#include "common/text.h"

enum { MANIFEST_WORD = 64 };

struct manifest_layer {
    char *name;
    uint64_t updates;  // that its weights have seen
    struct layer_written written;
};

struct manifest {
    char *model;                     // as plans name it
    char precision[MANIFEST_WORD];   // "fp32"
    char optimizer[MANIFEST_WORD];   // "adamw"
    char rate[MANIFEST_WORD];        // how the learning rate goes, in words that tell it from any other (trainer/rates.h)
    char clip[MANIFEST_WORD];        // likewise, the norm that gradients are clipped by; empty: they are not
    uint64_t batch;  // samples of an iteration, where the last micro-batch has fewer; 0: all are full
    struct {
        char scale[MANIFEST_WORD];  // of the next step, in words that tell it from any other; empty: it is not scaled
        uint64_t interval, made, skipped;  // loss_scaling.h
    } loss_scale;
    uint64_t freeze_step;  // of an optimizer that has one; else 0
    uint64_t seed;
    char data_hash[HASH_SIZE];
    uint64_t data_tokens;
    struct {
        char hash[HASH_SIZE];
        char schedule[MANIFEST_WORD];
        char weights[MANIFEST_WORD];  // "flush", "stash", ..
        uint64_t ranks, stages, micro_batches;
        uint64_t flush_every;  // steps in a pass
    } plan;
    uint64_t steps;       // of the whole run, by which the learning rate goes
    uint64_t step;        // made so far
    uint64_t passes;      // as many, or fewer where a pass is of several steps; batches are drawn by their number
    double loss;          // of the last step, with six decimals
    bool has_held;        // whether the loss on held-out data behind that step is known, by which checkpoints are better
    double held_loss;     // or worse than others; with six decimals
    struct manifest_layer *layers;  // in the order of the model
    size_t layer_count;
    struct manifest_layer *copies;  // what copies of stages keep for themselves (copy_states.h), a file each
    size_t copy_count;
};

void manifest_write(const struct manifest *manifest, struct text *text);

// NULL with what is wrong with it, its checksum included. Freed by manifest_free().
struct manifest *manifest_read(const char *json, size_t length, const char *name, struct error *error);
void manifest_free(struct manifest *manifest);

#endif
