// What the layers of a model cost: the *profile* document.
//
// Layers are in an order in which each comes after all layers that it reads from. Times are per micro-batch. Byte
// sums are sums of tensors rounded up to 256; those of imported files are not rounded. docs/formats/profile.md
// explains every field.
#ifndef PROFILER_PROFILE_H
#define PROFILER_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/text.h"
#include "profiler/cluster.h"

// More layers than this would be a mistake: the largest known graphs have thousands. A document with this many layers
// has fewer keys and values than json_syntax.h allows.
enum { PROFILE_MOST_LAYERS = 1 << 17, PROFILE_MOST_DEVICES = CLUSTER_MOST_DEVICES };

// Whether a layer's backward needs the layer's input: never, for W only, or for I and W.
enum input_kept { INPUT_KEPT_NONE, INPUT_KEPT_WEIGHT, INPUT_KEPT_BOTH };

struct spread {  // of at least 20 samples
    uint64_t min_ns, median_ns, p95_ns;
};

enum phase { PHASE_FORWARD, PHASE_BACKWARD_INPUT, PHASE_BACKWARD_WEIGHT, PHASE_BACKWARD, PHASE_RECOMPUTE, PHASES };

// What passes between a layer and another one if they are on different stages.
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
    uint64_t backward_ns;  // a fused B; I + W if none was measured
    bool has_backward;     // whether the document states it
    uint64_t recompute_ns;  // R, if has_recompute; use profile_recompute_ns()
    bool has_recompute;
    uint64_t parameter_bytes;
    uint64_t states_elsewhere_bytes;  // of these, those whose optimizer state is on devices outside the plan
    uint64_t output_bytes;           // what it passes on
    uint64_t saved_bytes;            // kept from F until its backward, without its input
    uint64_t shared_by_parts_bytes;          // of these, what the parts of a sequence have in common
    enum input_kept input_kept;
    uint64_t held_for_weight_bytes;  // alive between I and W besides the input; includes the gradient of the output
    uint64_t workspace_bytes;
    uint64_t backward_workspace_bytes;
    uint64_t state_bytes;            // kept without a gradient, such as running statistics
    uint64_t statistics_bytes;       // that a micro-batch's F leaves for that state, until STEP
    // For tables of vectors of ids: the most rows of each shape that a micro-batch has a gradient of, or 0 if all have
    // one, and the bytes of a row. The first `summed_rows` always count, since devices add up their gradients
    uint64_t touched_rows, row_bytes, summed_rows;
    uint64_t update_ns;              // of the variant that it is run as; 0 as read (cost/variant.h)
    uint64_t flops;
    struct shape *shapes;  // of its parameters, if they are known
    size_t shape_count;
    bool has_spread[PHASES];
    struct spread spread[PHASES];
    // Only if it differs from the producer's output_bytes; see profile_receive_bytes()
    struct profile_transfer *receives;
    size_t receive_count;
    struct profile_transfer *sends;  // only if it differs from its own output_bytes; see profile_send_bytes()
    size_t send_count;
    struct profile_variant *variants;  // other ways to run it, as written; this module does not choose among them
    size_t variant_count;
};

// The same layer run another way (recomputed, split over devices). Its name and numbers are in `layer`, which has no
// kind, no spread and no variants. It has shapes only for touched_rows.
struct profile_variant {
    struct profile_layer layer;
    uint32_t devices;  // the number of devices that it is split over, at least 1
    bool shares_output;  // whether each device has a share of the layer's output and input
    uint64_t communication_ns;
    uint64_t update_ns;  // for which its devices add up gradients at each update
    // If its devices have some of the experts each, by the profile's routing: what the slowest device takes, in
    // thousandths of the even share (0: not said). And which choices are dropped, in millionths
    uint64_t slowest_milli, dropped_ppm;
};

struct edge {
    uint32_t from, to;
};

struct estimated;
struct profile_reads;
struct profile_routing;

// For qsort(): by (from, to).
int edges_compare(const void *a, const void *b);

enum profile_how { PROFILE_MEASURED, PROFILE_ESTIMATED, PROFILE_IMPORTED };

struct profile_source {
    enum profile_how how;
    char *device;
    char *clock;
    uint64_t repeats;
    uint64_t sum_ns;    // of the parts: F + B of every layer
    uint64_t whole_ns;  // the whole model at once; 0 if not measured
    bool backward_split_measured;  // else assumed
};

// Whether micro-batches consist of sequences that can go through the stages in parts, one after the other. For that,
// the work on a part must need nothing of later parts.
enum profile_sequences { SEQUENCES_UNSAID, SEQUENCES_NONE, SEQUENCES_SOME };

struct profile {
    char *model;
    char *dtype;  // one that profile_dtype_bytes() knows
    char *notes;  // or NULL
    uint64_t micro_batch;
    enum profile_sequences sequences;  // as in the document; use profile_has_sequences()
    struct profile_source source;
    struct profile_layer *layers;
    size_t layer_count;
    struct edge *edges;  // sorted by (from, to); if is_chain, edge_count is 0 and each layer feeds the next
    size_t edge_count;
    bool is_chain;
    struct edge *tied;
    size_t tied_count;
    // Some of the tied pairs: the second layer owns none of these parameters and reads all of the first layer's. It
    // needs a copy of them if the two are on different stages. The pairs are sorted. In another order of the layers
    // the first may come later.
    struct edge *one_owner;
    size_t one_owner_count;
    uint32_t *no_cut_after;  // sorted layer numbers
    size_t no_cut_count;
    struct estimated *estimated;  // what it was estimated for (estimate/estimated.h), or NULL
    struct profile_reads *reads;  // how tables are read (table_reads.h), or NULL
    struct profile_routing *routing;  // how tokens are routed to experts (expert_routing.h), or NULL
    char hash[HASH_SIZE];    // of the canonical rewrite; set when loading, and by profile_rehash()
};

// The edges of the model, that is, which layer reads which, in order of (from, to). Chains have them, too.
static inline size_t profile_edge_count(const struct profile *profile)
{
    return profile->is_chain ? profile->layer_count - 1 : profile->edge_count;
}

static inline struct edge profile_edge(const struct profile *profile, size_t i)
{
    return profile->is_chain ? (struct edge){ (uint32_t)i, (uint32_t)i + 1 } : profile->edges[i];
}

struct profile *profile_load(const char *path, struct error *error);
struct profile *profile_read(const char *text, size_t length, const char *name, struct error *error);
void profile_write(const struct profile *profile, struct text *text);
bool profile_rehash(struct profile *profile, struct error *error);
bool profile_add_note(struct profile *profile, const char *sentence, struct error *error);
void profile_free(struct profile *profile);

// Bytes of a number of this type, such as "bf16"; 0 if there is no such type.
uint32_t profile_dtype_bytes(const char *dtype);
#define PROFILE_DTYPES "fp64, fp32, tf32, fp16, bf16, fp8"  // for people; float64, float32, .. are the same

// A profile with `layer_count` zeroed layers, for measuring and importing. The caller frees it; NULL with an error.
struct profile *profile_create(const char *model, const char *dtype, uint64_t micro_batch, size_t layer_count,
                               struct error *error);

// The first layer at which the sum of all times or of all sizes reaches 2^53; layer_count if there is none. Sums over a
// whole model must stay below that, too, so that whatever is added up for one micro-batch can be written. *of_what
// becomes "times" or "sizes".
size_t profile_overflow_at(const struct profile *profile, const char **of_what);

// The time of running the layer again: R if it was measured, else F. The two differ, since by then the data that the
// forward left in a cache is gone.
static inline uint64_t profile_recompute_ns(const struct profile_layer *layer)
{
    return layer->has_recompute ? layer->recompute_ns : layer->forward_ns;
}

// What a layer keeps of each micro-batch from its F until its backward, without its input. Plans, bounds and reports
// ask here. The checker counts by itself (partitioner/evaluate/).
static inline uint64_t profile_kept_bytes(const struct profile_layer *layer)
{
    return layer->saved_bytes;
}

// Whether schedules may cut sequences. If the document does not say so, they may if the layers show it: by
// shared_by_parts_bytes, or by being Weir's own attention. Otherwise nothing is known, and the answer is no.
bool profile_has_sequences(const struct profile *profile);

// The first layer of that name; layer_count if there is none.
uint32_t profile_find_layer(const struct profile *profile, const char *name);

bool profile_can_cut_after(const struct profile *profile, size_t layer);

// The bytes that a layer, run this way, receives from layer `from`, and sends to layer `to`, if they are on another
// stage. They include what a group of devices gathers and scatters around it.
uint64_t profile_receive_bytes(const struct profile *profile, const struct profile_layer *way, uint32_t from);
uint64_t profile_send_bytes(const struct profile_layer *way, uint32_t to);

#endif
