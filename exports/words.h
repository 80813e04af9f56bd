// The inside of export.h: what a format provides to export.c, and what it is given.
#ifndef EXPORTS_WORDS_H
#define EXPORTS_WORDS_H

#include "exports/choices.h"
#include "exports/export.h"
#include "exports/outline.h"
#include "schedules/generators/generate.h"

// Which layers are recomputed before their backward, in patterns that frameworks have. (Names call this "again".)
enum again_kind {
    AGAIN_NONE,
    AGAIN_FIRST,   // the first `counts` blocks of each stage, each separately
    AGAIN_GROUPS,  // blocks of each stage in groups of `counts` from the first on, each group as one segment; 0: none
    AGAIN_EACH,    // each block with a layer that is to be recomputed, separately
    AGAIN_MLP,     // in each block the layers whose name ends in "mlp", separately
};

struct again {
    enum again_kind kind;
    uint32_t *counts;          // one number for each stage
    struct segment *segments;  // the resulting segments, in order
    size_t count;
};

// A plan as a format can express it.
struct export {
    const struct export_format *format;
    const struct plan *plan;
    const struct profile *profile;  // or NULL
    const struct estimated *estimated;     // what the profile was estimated for (choices.h), or NULL
    uint32_t expressed;                         // those of its choices that the format expresses, one bit each
    const char *base;                      // or NULL; contains a dot, and its parts are names in Python
    struct outline outline;
    uint32_t stages;
    uint32_t *cuts;          // stage s has units [cuts[s], cuts[s + 1])
    bool *wants_again;       // per layer: whether the plan recomputes it, or memory is short without that
    struct again again;
    const char *schedule;    // the framework's name; NULL: it has none, and words->opens_files is set
    // Each of several equal replicas is a pipeline of its own, with its part of the micro-batches
    uint32_t pipelines;
    uint32_t ranks, micro_batches;  // of one pipeline
    struct text *text, *said;
};

struct schedule_word {
    const char *ours, *theirs;
};

struct export_words {
    enum grain grain;
    const struct schedule_word *schedules;  // ended by a NULL; NULL: the framework needs no name
    bool opens_files;  // orders without a name are given as a file, or by the format itself
    // Moves the cuts to where the framework can cut, and chooses the recomputation pattern that is nearest to the
    // plan's (again_is_planned()). NULL: the format can express all of both, or neither.
    bool (*fit)(struct export *export, struct error *error);
    // Marks which choices of the profile's estimate it expresses; called only if there is an estimate. NULL: none of
    // them.
    void (*tells)(struct export *export);
    bool (*write)(struct export *export, struct error *error);
};

extern const struct schedule_word pytorch_schedules[];  // torchtitan's, too
extern const struct export_words megatron_words, torchtitan_words, deepspeed_words, colossalai_words, nanotron_words,
    torchgpipe_words, pytorch_words, pytorch_csv_words;

// --- for formats --------------------------------------------------------------------------

// The blocks of a stage; how many of them have a layer that is to be recomputed; and whether a unit has such a layer.
uint32_t export_blocks(const struct export *export, uint32_t stage);
uint32_t export_blocks_again(const struct export *export, uint32_t stage);
bool export_has_again(const struct export *export);  // whether any stage has such a block
bool export_has_predicted(const struct export *export, uint32_t stage);  // a layer that predicts tokens further on
bool export_runs_again(const struct export *export, const struct unit *unit);

// Whether this pattern recomputes exactly the layers that the plan does, in the same segments. again_is() uses the
// same count for every stage; again_is_planned() uses the counts in export->again. Both leave the pattern in
// export->again.
bool again_is(struct export *export, enum again_kind kind, uint32_t count);
bool again_is_planned(struct export *export, enum again_kind kind);
void again_all_or_none(struct export *export);  // for formats that recompute each block, or none

// The micro-batch in samples, 0 if it is not known. Formats that need it say so themselves.
uint64_t export_micro_batch(const struct export *export);

// The order of one pipeline, which the caller frees with schedule_free(); and the same as PyTorch's CSV. ERROR_ANSWER
// if the CSV cannot express it.
struct schedule *export_order(const struct export *export, struct error *error);
bool export_csv(const struct schedule *order, struct text *csv, struct error *error);

// --- what formats write -----------------------------------------------------------------

// Adds a sentence about what is not in the text, or only approximately. Names in it are as in shown.h.
void export_say(struct export *export, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Writes the first lines, as comments that begin with `mark`. They name the plan and repeat all that was said so far.
void export_heading(struct export *export, const char *mark);

// Writes "[5, 4, 4]": how many blocks each stage has. If units are layers, it is the number of layers.
void export_write_blocks(struct export *export);

// Writes a number for each stage.
void export_write_counts(struct export *export, const uint32_t *counts);

#endif
