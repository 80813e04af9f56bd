// What a format gives to export.c, and what it is given: the inside of export.h.
#ifndef EXPORTS_WORDS_H
#define EXPORTS_WORDS_H

#include "exports/choices.h"
#include "exports/export.h"
#include "exports/outline.h"
#include "schedules/generators/generate.h"

// Which layers run again before their backward, in patterns that frameworks have.
enum again_kind {
    AGAIN_NONE,
    AGAIN_FIRST,   // of each stage the first `counts` blocks, each by itself
    AGAIN_GROUPS,  // of each stage its blocks in groups of `counts` from the first on, each group as one; 0: none
    AGAIN_EACH,    // each block of which a layer is to run again, by itself
    AGAIN_MLP,     // of each block the layers whose name ends in "mlp", by themselves
};

struct again {
    enum again_kind kind;
    uint32_t *counts;          // a number for each stage
    struct segment *segments;  // what that comes to, in order
    size_t count;
};

// A plan as a format can say it.
struct export {
    const struct export_format *format;
    const struct plan *plan;
    const struct profile *profile;  // or NULL
    const struct estimated *estimated;     // what the profile was estimated for (choices.h), or NULL
    uint32_t told;                         // of its choices, those that the format tells: a bit each
    const char *base;                      // or NULL; with a dot in it, and parts that are names in Python
    struct outline outline;
    uint32_t stages;
    uint32_t *cuts;          // stage s has units [cuts[s], cuts[s + 1])
    bool *wants_again;       // layer by layer: whether the plan runs it again, or memory is short without
    struct again again;
    const char *schedule;    // in the framework's words; NULL: it has no name for it, and words->opens_files
    uint32_t pipelines;      // of equal replicas each is a pipeline of its own, with its part of the micro-batches
    uint32_t ranks, micro_batches;  // of one pipeline
    struct text *text, *said;
};

struct schedule_word {
    const char *ours, *theirs;
};

struct export_words {
    enum grain grain;
    const struct schedule_word *schedules;  // ended by a NULL; NULL: it needs no name
    bool opens_files;  // orders without a name are told as a file, or by the format itself
    // Moves the cuts to what the framework can cut, and chooses the pattern of what runs again that is nearest to the
    // plan's (again_is_planned()). NULL: it can say all of both, or neither.
    bool (*fit)(struct export *export, struct error *error);
    // Marks what it tells of what the profile was estimated for, where it was. NULL: nothing of it.
    void (*tells)(struct export *export);
    bool (*write)(struct export *export, struct error *error);
};

extern const struct export_words megatron_words, torchtitan_words, deepspeed_words, colossalai_words, nanotron_words,
    torchgpipe_words, pytorch_words, pytorch_csv_words;

// --- what formats ask -------------------------------------------------------------------

// Of a stage: its blocks; how many of them have a layer that is to run again, and whether this unit has.
uint32_t export_blocks(const struct export *export, uint32_t stage);
uint32_t export_blocks_again(const struct export *export, uint32_t stage);
bool export_has_predicted(const struct export *export, uint32_t stage);  // what predicts tokens further on
bool export_runs_again(const struct export *export, const struct unit *unit);

// Whether this pattern runs exactly those layers again that the plan does, in the same segments. With the same count
// for every stage; again_is_planned() takes the counts that are there.
bool again_is(struct export *export, enum again_kind kind, uint32_t count);
bool again_is_planned(struct export *export, enum again_kind kind);

// The micro-batch in samples, 0 where it is not known; the first use says so.
uint64_t export_micro_batch(const struct export *export);

// The order of one pipeline; the same as PyTorch's CSV (ERROR_ANSWER where that has no way to say it).
struct schedule *export_order(const struct export *export, struct error *error);
bool export_csv(const struct schedule *order, struct text *csv, struct error *error);

// --- what formats write -----------------------------------------------------------------

// A sentence about what is not in the text, or only near it; names in it are as shown.h says.
void export_say(struct export *export, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The first lines, which name the plan and say all that was said so far, as comments that begin with `mark`.
void export_heading(struct export *export, const char *mark);

// "[5, 4, 4]", how many blocks each stage has; of layers, how many layers.
void export_write_blocks(struct export *export);

// A number for each stage.
void export_write_counts(struct export *export, const uint32_t *counts);

#endif
