// The manifest of a checkpoint (docs/formats/checkpoint.md): which run it belongs to, how far that run had come, and
// the layers' files with their sizes and checksums. It is the last file to be written, and has a checksum of its own.
#ifndef RUNTIME_CHECKPOINT_MANIFEST_H
#define RUNTIME_CHECKPOINT_MANIFEST_H

#include "partitioner/plan/plan.h"
#include "runtime/checkpoint/layer_file.h"
#include "common/text.h"

// MANIFEST_MOST_WORDS is the most bytes of `words`.
enum { MANIFEST_WORD = 64, MANIFEST_MOST_WORDS = 65536 };

struct manifest_layer {
    char *name;
    uint64_t updates;  // that its weights have seen
    struct layer_written written;
};

struct manifest {
    char *model;                     // as plans name it
    char precision[MANIFEST_WORD];   // "fp32"
    char optimizer[MANIFEST_WORD];   // "adamw"
    // The learning rate's course, in words that tell it from any other (trainer/rates.h)
    char rate[MANIFEST_WORD];
    char clip[MANIFEST_WORD];        // likewise, the norm that gradients are clipped by; empty: they are not
    char augment[MANIFEST_WORD];     // how pictures are changed; empty: there are none, or as they are
    uint64_t batch;  // samples of an iteration, if the last micro-batch has fewer; 0: all are full
    struct {
        // The scale of the next step, in words that tell it from any other; empty: the loss is not scaled
        char scale[MANIFEST_WORD];
        uint64_t interval, made, skipped;  // loss_scaling.h
    } loss_scale;
    uint64_t freeze_step;  // if the optimizer has one; else 0
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
    uint64_t steps;       // of the whole run, on which the learning rate depends
    uint64_t step;        // made so far
    uint64_t passes;      // as many, or fewer if a pass is several steps; batches are drawn by the number of the pass
    uint64_t samples;     // consumed so far, if batches go on from there; 0: they do not
    double loss;          // of the last step, with six decimals
    bool has_held;        // whether the loss on held-out data after that step is known, by which checkpoints are better
    double held_loss;     // or worse than others; with six decimals
    // The text of the trainer's author, UTF-8; NULL: none. Like `model`, manifest_free() frees it in what
    // manifest_read() returns, and it is borrowed in a manifest that describes a run
    char *words;
    struct manifest_layer *layers;  // in the order of the model
    size_t layer_count;
    struct manifest_layer *copies;  // what copies of stages keep for themselves (copy_states.h), a file each
    size_t copy_count;
};

// Notes the plan of a run, its model and optimizer, and the precision.
bool manifest_note_plan(struct manifest *manifest, const struct plan *plan, enum precision precision,
                        uint32_t flush_every, struct error *error);

void manifest_write(const struct manifest *manifest, struct text *text);

// Reads a manifest and checks it, including its checksum. NULL with the fault. Free it with manifest_free().
struct manifest *manifest_read(const char *json, size_t length, const char *name, struct error *error);
void manifest_free(struct manifest *manifest);

#endif
