// The *plan* document: which layers run on which devices, which of them are recomputed, and the predicted time and
// memory.
#ifndef PARTITIONER_PLAN_PLAN_H
#define PARTITIONER_PLAN_PLAN_H

#include "common/hash.h"
#include "partitioner/plan/storage.h"
#include "partitioner/plan/placement.h"
#include "profiler/cluster.h"
#include "profiler/profile.h"
#include "schedules/generators/generate.h"
#include "schedules/simulate.h"

// Layers [first, end) that keep only the input of `first` and are run again before their backward.
struct segment {
    uint32_t first, end;
};

// The part of its rank's *slab* that a stage takes. The slab is all device memory of a rank, in one allocation. If a
// rank holds several stages, only the largest of their workspaces counts.
struct stage_memory {
    uint64_t weights_bytes;
    uint64_t gradients_bytes;
    uint64_t optimizer_bytes;
    uint64_t versions_bytes;   // beyond the first
    uint64_t kept_bytes;       // all slots of what is kept (input, kept, kept_through, held)
    uint64_t transient_bytes;  // the largest workspace
    uint64_t buffers_bytes;    // slots of outputs and gradients that are being sent
    uint64_t live_peak_bytes;  // simulated, of all stages of its rank together
    uint64_t peak_bytes;  // the sum of the above except live_peak_bytes: the slab, if its rank holds no other stage
    uint64_t capacity_bytes;   // of the stage's device; the least if there are several
    uint64_t host_bytes;       // on the host of its device, for each copy
};

struct plan_stage {
    uint32_t first, end;  // layers, by their positions in the plan's order; may be empty in a plan made by hand
    char **layers;        // their names, end - first of them
    bool *pinned;         // a flag for each layer: whether it was pinned to this stage; NULL: none
    // A group of devices for each replica or copy, in the order of placement.h: [replica * group + i]
    uint32_t *devices;
    size_t device_count;  // replicas or copies
    uint32_t group;       // devices of each replica; 0 and 1: one
    char *variant;        // the variant of its layers (cost/variant.h), or NULL
    struct segment *recompute;
    size_t recompute_count;
    struct cost_row costs;
    struct stage_memory memory;
};

enum certificate_by { BY_ENUMERATION, BY_DUAL, BY_SOLVER };

// Why a search ended before it had proved its answer.
enum search_stop { STOP_NONE, STOP_INTERRUPTED, STOP_DEADLINE, STOP_BUDGET, STOP_OTHER };

// `value_ns` is the best value found, and `lower_bound_ns` a bound that no plan can beat. `proved` is set only if
// nothing was left to try. gap = (value - bound) / value. A certificate that was read from a file is a claim:
// anybody can write a file, and nothing in it shows that a search has proved it. Output that repeats a claim says
// that it is one.
struct certificate {
    char objective[40];  // "iteration_ns"
    uint64_t value_ns;
    uint64_t lower_bound_ns;
    double gap;
    bool proved;
    enum certificate_by by;
    enum search_stop stop;
    char stopped[80];  // why the search ended early, or empty
    bool is_claimed;   // it was read from a file
};

// Sets the lower bound to `bound_ns`, but at most to the certificate's value, and with it `proved` and `gap`. The
// reason `stop`, and `stopped` for the same in words, are used only if nothing is proved.
void certificate_bound(struct certificate *certificate, uint64_t bound_ns, enum search_stop stop, const char *stopped);

// Returns the key of the first number that contradicts the others, and says how in `why`; NULL if they agree.
// Fractions are those of documents, with six decimals.
const char *certificate_denied(const struct certificate *certificate, char why[160]);

// The framework that has to be able to express the plan (target_search.h). The certificate is about such plans only.
// The most that a command or a plan made by hand can ask for.
enum { ASKED_MOST_RANKS = 4096, ASKED_MOST_CHUNKS = 1024, ASKED_MOST_MICRO_BATCHES = 1 << 20 };

enum plan_target { TARGET_ANY, TARGET_MEGATRON, TARGET_TORCHTITAN };
extern const char *const plan_target_names[];  // "any", "megatron", "torchtitan", NULL

struct plan {
    char *model;
    char profile_hash[HASH_SIZE];
    struct cluster *cluster;
    char schedule[64];       // its name
    struct schedule *given;  // its order, if one was given (given_order.h); NULL: a generator of its name makes it
    enum weights weights;
    uint32_t ranks, chunks, micro_batches;
    struct storage storage;
    enum plan_target target;
    uint32_t *order;  // the profile's layer at each position; NULL: in the profile's order
    struct plan_stage *stages;
    size_t stage_count;
    uint64_t iteration_ns;  // asynchronous: the time of micro_batches more in the steady state, T(3m) - T(2m)
    struct bubble bubble;   // of the simulated iteration; asynchronous: of the run of 3m micro-batches
    uint32_t bottleneck_stage;
    struct certificate certificate;
    char *notes;  // or NULL
};

// A plan of `stage_count` zeroed stages, for searches and for plans made by hand. Freed by plan_free().
struct plan *plan_create(size_t stage_count, struct error *error);
void plan_free(struct plan *plan);

// Gives a stage its layers [first, end), with their names from the profile (in the plan's order), one device, and
// its recomputed segments.
bool plan_set_stage(struct plan *plan, size_t stage, const struct profile *profile, struct segment layers,
                    uint32_t device, const struct segment *recompute, size_t recompute_count, struct error *error);

// The document (docs/formats/plan.md). Reading refuses what can be seen to be wrong without the profile; evaluate.h
// checks the rest.
struct plan *plan_load(const char *path, struct error *error);
struct plan *plan_read(const char *text, size_t length, const char *name, struct error *error);
void plan_write(const struct plan *plan, struct text *text);
// A copy, made by writing the document and reading it; freed by plan_free().
struct plan *plan_copy(const struct plan *plan, struct error *error);
// The hash of the written document: two plans with the same hash are the same.
bool plan_hash(const struct plan *plan, char digits[HASH_SIZE], struct error *error);

// Reads the segments of a stage whose layers are set. `segments` is a list of lists of layer names. False if there
// is no memory.
struct json;
bool plan_read_segments(struct json *segments, struct plan_stage *stage);

// Returns the profile with its layers in the plan's order. This is `profile` itself if the plan has no order of its
// own; else it is *made, which the caller frees. Returns NULL if the plan's order is not one of this profile's
// layers.
const struct profile *plan_ordered(const struct plan *plan, const struct profile *profile, struct profile **made,
                                   struct error *error);

// Whether place i of the order has layer i.
bool plan_order_is_own(const uint32_t *order, size_t layers);

// Takes the order of the profile's layers as that of the plan, which has none yet. Returns the profile in that order,
// as plan_ordered() will once the stages are set. The plan keeps no order if it is the profile's own.
const struct profile *plan_set_order(struct plan *plan, const struct profile *profile, const uint32_t *order,
                                     struct profile **made, struct error *error);

// Sets the devices of all copies of a stage, instead of one device.
bool plan_set_devices(struct plan *plan, size_t stage, const uint32_t *devices, size_t count, struct error *error);

// Records that a layer was pinned to its stage. `place` is the layer's position in the plan's order.
bool plan_pin_layer(struct plan *plan, size_t stage, uint32_t place, struct error *error);

// Gives a stage a variant (or NULL), and with it a group of devices for each copy: `copies` times `group` devices.
bool plan_set_variant(struct plan *plan, size_t stage, const char *variant, const uint32_t *devices, size_t copies,
                      uint32_t group, struct error *error);

// The number of devices of each copy of a stage, and of all its copies together (its *seats*).
static inline uint32_t plan_stage_group(const struct plan_stage *stage)
{
    return stage->group > 1 ? stage->group : 1;
}

static inline size_t plan_stage_seats(const struct plan_stage *stage)
{
    return stage->device_count * plan_stage_group(stage);
}

// The number of devices of all ranks. It is the number of ranks, or, if ranks are groups of devices, the sum of
// their sizes. All stages of a rank have the same group; the groups of two ranks may differ in size.
size_t plan_seat_count(const struct plan *plan);

// The generator that makes the orders of the plan's schedule.
bool plan_generator(const struct plan *plan, struct generator *generator, struct error *error);

// Sets *replicas to the number of replicas of each stage, which the caller frees. *replicas is NULL if the schedule
// does not support replicas or no stage has several.
bool plan_replicas(const struct plan *plan, uint32_t **replicas, struct error *error);

// The plan's schedule for this many micro-batches, generated, placed on its ranks and priced, and lowered if asked.
// A given order always has its own number of micro-batches. Fails if the plan's stages and devices are not those of
// the schedule.
struct schedule *plan_schedule(const struct plan *plan, uint32_t micro_batches, bool lowered, struct error *error);

// Simulates the plan's schedule for this many micro-batches on the plan's own network. `timeline` may be NULL.
struct timeline;
bool plan_simulate(const struct plan *plan, uint32_t micro_batches, struct simulation *run, struct timeline *timeline,
                   struct error *error);

// The same for a schedule that plan_schedule() has lowered.
bool plan_simulate_lowered(const struct plan *plan, const struct schedule *lowered, struct simulation *run,
                           struct timeline *timeline, struct error *error);

// Which ranks hold which of the plan's stages, and on which devices the ranks are. Freed by placement_free().
struct placement *plan_placement(const struct plan *plan, struct error *error);

// The same, read from the plan's schedule, which is at hand.
struct placement *plan_placement_in(const struct plan *plan, const struct schedule *schedule, struct error *error);

// The device of each rank, for a placement that was read from a schedule of the plan; freed by free(). NULL if the
// stages are not those of the schedule.
uint32_t *plan_devices(const struct plan *plan, const struct placement *placement, struct error *error);

// The slab of a rank in bytes: what all its stages take, with only the largest of their workspaces.
uint64_t plan_rank_bytes(const struct plan *plan, const struct placement *placement, uint32_t rank);

// The largest slab of any rank, and the first rank that has it. 0 with an error if the stages are not those of the
// schedule.
uint64_t plan_peak_bytes(const struct plan *plan, uint32_t *rank, struct error *error);

// The bytes of memory of each rank's device, freed by free(). NULL if the stages are not those of the schedule.
uint64_t *plan_capacities(const struct plan *plan, struct error *error);

// The bytes that the devices of a machine (storage_machine()) store on their host.
uint64_t plan_host_bytes(const struct plan *plan, size_t machine);

// The links between the plan's ranks, from its cluster. Within an innermost group each ordered pair of devices has a
// link of its own. Further out all pairs between two groups share one link in each direction.
struct network *plan_network(const struct plan *plan, struct error *error);

// The same for devices that are named directly.
struct network *cluster_network(const struct cluster *cluster, const uint32_t *devices, uint32_t ranks,
                                struct error *error);

// The same with rank r on device r; fails if there are fewer devices than ranks.
struct network *cluster_network_by_rank(const struct cluster *cluster, uint32_t ranks, struct error *error);

// Prints the plan for people to read: its tables, and a paragraph that sums it up.
void plan_print(const struct plan *plan, struct text *text);

#endif
