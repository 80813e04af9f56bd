// What the layers of a model cost: the *profile* document.
//
// Layers are in an order in which each comes after all it reads from. Times are
// per micro-batch; byte sums are sums of tensors rounded up to 256, those of imported files as they stand. See
// docs/formats/profile.md for the meaning of every field.
#ifndef PROFILER_PROFILE_H
#define PROFILER_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/text.h"

// More layers than this is a mistake: the largest known graphs have thousands. A document of so many has fewer keys
// and values than json_syntax.h lets through.
enum { PROFILE_MOST_LAYERS = 1 << 17, PROFILE_MOST_DEVICES = 1 << 16 };

// Whether a layer's backward needs its input: never, for W only, for I and W.
enum input_kept { INPUT_KEPT_NONE, INPUT_KEPT_WEIGHT, INPUT_KEPT_BOTH };

struct spread {  // of at least 20 samples
    uint64_t min_ns, median_ns, p95_ns;
};

enum phase { PHASE_FORWARD, PHASE_BACKWARD_INPUT, PHASE_BACKWARD_WEIGHT, PHASE_BACKWARD, PHASE_RECOMPUTE, PHASES };

// What passes between a layer and another one when they stand on different stages.
struct profile_transfer {
    uint32_t layer;
    uint64_t bytes;
};

// A parameter as a matrix; a vector has one column.
struct shape {
    uint64_t rows, columns;
};

struct profile_layer {
    char *name;
    char *kind;
    uint64_t forward_ns;
    uint64_t backward_input_ns;
    uint64_t backward_weight_ns;
    uint64_t backward_ns;  // a fused B; I + W where none was measured
    bool has_backward;     // whether the document says it
    uint64_t recompute_ns;  // R, where has_recompute; ask profile_recompute_ns()
    bool has_recompute;
    uint64_t parameter_bytes;
    uint64_t states_elsewhere_bytes;  // of these, those that devices outside the plan keep the optimizer's state of
    uint64_t output_bytes;           // what it hands on
    uint64_t saved_bytes;            // kept from F until its backward, without its input
    uint64_t carried_bytes;          // of these, what the parts of a sequence have in common
    enum input_kept input_kept;
    uint64_t held_for_weight_bytes;  // alive between I and W besides the input, the output's gradient included
    uint64_t workspace_bytes;
    uint64_t backward_workspace_bytes;
    uint64_t flops;
    struct shape *shapes;  // of its parameters, where they are known
    size_t shape_count;
    bool has_spread[PHASES];
    struct spread spread[PHASES];
    struct profile_transfer *receives;  // where it is not the producer's output_bytes; see profile_receive_bytes()
    size_t receive_count;
    struct profile_transfer *sends;  // where it is not its own output_bytes; see profile_send_bytes()
    size_t send_count;
    struct profile_variant *variants;  // other ways to run it, as written; nothing here chooses among them
    size_t variant_count;
};

// The same layer run another way (recomputed, split over devices): its name and
// numbers stand in `layer`, which has no kind, no shapes, no spread and no variants.
struct profile_variant {
    struct profile_layer layer;
    uint32_t devices;  // on how many it is split, from 1
    bool shares_output;  // whether each of them has a share of what the layer hands on, and of what it reads
    uint64_t communication_ns;
};

struct edge {
    uint32_t from, to;
};

struct estimated;

// For qsort(): by (from, to).
int edges_compare(const void *a, const void *b);

enum profile_how { PROFILE_MEASURED, PROFILE_ESTIMATED, PROFILE_IMPORTED };

struct profile_source {
    enum profile_how how;
    char *device;
    char *clock;
    uint64_t repeats;
    uint64_t sum_ns;    // of the parts: F + B of every layer
    uint64_t whole_ns;  // the whole model at once; 0 where not measured
    bool backward_split_measured;  // else assumed
};

// Whether micro-batches are of sequences that can go through the stages in parts, one after the other: each part's work
// needs nothing of later ones.
enum profile_sequences { SEQUENCES_UNSAID, SEQUENCES_NONE, SEQUENCES_SOME };

struct profile {
    char *model;
    char *dtype;  // one that profile_dtype_bytes() knows
    char *notes;  // or NULL
    uint64_t micro_batch;
    enum profile_sequences sequences;  // as the document says; ask profile_has_sequences()
    struct profile_source source;
    struct profile_layer *layers;
    size_t layer_count;
    struct edge *edges;  // sorted by (from, to); edge_count 0 and is_chain: each layer feeds the next
    size_t edge_count;
    bool is_chain;
    struct edge *tied;
    size_t tied_count;
    // Of the tied ones: the second has none of these parameters among its own and reads all of the first's, of which it
    // needs a copy where they stand apart. Sorted; in another order of the layers the first may come later.
    struct edge *lent;
    size_t lent_count;
    uint32_t *no_cut_after;  // sorted layer numbers
    size_t no_cut_count;
    struct estimated *estimated;  // what it was estimated for (estimate/estimated.h), or NULL
    char hash[HASH_SIZE];    // of the canonical rewrite; set by load and profile_rehash()
};

struct profile *profile_load(const char *path, struct error *error);
struct profile *profile_read(const char *text, size_t length, const char *name, struct error *error);
void profile_write(const struct profile *profile, struct text *text);
bool profile_rehash(struct profile *profile, struct error *error);
void profile_free(struct profile *profile);

// Bytes of a number of this type, "bf16"; 0: there is none of that name.
uint32_t profile_dtype_bytes(const char *dtype);
#define PROFILE_DTYPES "fp64, fp32, tf32, fp16, bf16, fp8"  // for people; float64, float32, .. are the same

// An empty profile of `layer_count` zeroed layers, for measuring and importing.
struct profile *profile_create(const char *model, const char *dtype, uint64_t micro_batch, size_t layer_count,
                               struct error *error);

// Sums of a whole model stay below 2^53 too, so that whatever is added up for
// one micro-batch can be written. The first layer at which the sum of times or
// of sizes passes that, or layer_count when none does.
size_t profile_overflow_at(const struct profile *profile, const char **of_what);

// What running the layer again takes: R where it was measured, else F. Data that the forward left in a cache is gone by
// then, so that the two differ.
static inline uint64_t profile_recompute_ns(const struct profile_layer *layer)
{
    return layer->has_recompute ? layer->recompute_ns : layer->forward_ns;
}

// Whether schedules may cut sequences. Where the document does not say it, its layers may: by what parts have in common,
// or as Weir's own attention. Of others nothing is known, and then there are none.
bool profile_has_sequences(const struct profile *profile);

// The first layer of that name; layer_count where there is none.
uint32_t profile_find_layer(const struct profile *profile, const char *name);

bool profile_can_cut_after(const struct profile *profile, size_t layer);

// What a layer, run this way, takes from layer `from`, and hands to layer `to`, when
// they stand on another stage: with what a group of devices gathers and deals out around it.
uint64_t profile_receive_bytes(const struct profile *profile, const struct profile_layer *way, uint32_t from);
uint64_t profile_send_bytes(const struct profile_layer *way, uint32_t to);

#endif
