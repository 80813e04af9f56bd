// Which layers on which devices, which are recomputed, and what that is predicted
// to take: the *plan* document.
#ifndef PARTITIONER_PLAN_PLAN_H
#define PARTITIONER_PLAN_PLAN_H

#include "common/hash.h"
#include "partitioner/plan/holding.h"
#include "partitioner/plan/placement.h"
#include "profiler/cluster.h"
#include "profiler/profile.h"
#include "schedules/generators/generate.h"
#include "schedules/simulate.h"

// Layers [first, end) that keep only the input of `first` and are run again
// before their backward.
struct segment {
    uint32_t first, end;
};

// What a stage takes of its rank. Of a rank's stages only the largest workspace counts.
struct stage_memory {
    uint64_t weights_bytes;
    uint64_t gradients_bytes;
    uint64_t optimizer_bytes;
    uint64_t versions_bytes;   // beyond the first
    uint64_t kept_bytes;       // all slots of what is kept (input, kept, kept_through, held)
    uint64_t transient_bytes;  // the largest workspace
    uint64_t buffers_bytes;    // slots of outputs and gradients on their way
    uint64_t live_peak_bytes;  // simulated; of all stages of its rank
    uint64_t peak_bytes;       // the sum of the above but live_peak: the slab, where it is the rank's only stage
    uint64_t capacity_bytes;   // of the device; of several the least
    uint64_t host_bytes;       // of each copy, on the host of its device
};

struct plan_stage {
    uint32_t first, end;  // layers, by their places in the plan's order; may be empty in a plan made by hand
    char **layers;        // their names, end - first of them
    bool *pinned;         // which of them somebody has pinned to this stage, as many; NULL: none
    uint32_t *devices;    // groups of replicas or copies, in the order of placement.h: [replica * group + i]
    size_t device_count;  // replicas or copies
    uint32_t group;       // devices of each; 0 and 1: one
    char *variant;        // of its layers (variant.h), or NULL
    struct segment *recompute;
    size_t recompute_count;
    struct cost_row costs;
    struct stage_memory memory;
};

enum certificate_by { BY_ENUMERATION, BY_DUAL, BY_SOLVER };

// `value_ns` is the best found, `lower_bound_ns` what no plan can beat; `proved`
// only when nothing was left to try. gap = (value - bound) / value. One that was read is a claim: anybody can write a file,
// and nothing in it shows that a search has proved it. Who repeats it says so.
struct certificate {
    char objective[40];  // "iteration_ns"
    uint64_t value_ns;
    uint64_t lower_bound_ns;
    double gap;
    bool proved;
    enum certificate_by by;
    char stopped[80];  // why the search ended early, or empty
    bool is_claimed;   // by a file
};

// Gives it this bound, no more than its value, and what follows from that; `stopped` counts where nothing is proved.
void certificate_bound(struct certificate *certificate, uint64_t bound_ns, const char *stopped);

// The first of its numbers that the others deny, by its key, and how; NULL where they agree. Fractions are documents',
// with six decimals.
const char *certificate_denied(const struct certificate *certificate, char why[160]);

// Whose words a plan is made in (target_search.h): what its certificate says is of plans in these.
enum plan_target { TARGET_ANY, TARGET_MEGATRON, TARGET_TORCHTITAN };
extern const char *const plan_target_names[];  // "any", "megatron", "torchtitan", NULL

struct plan {
    char *model;
    char profile_hash[HASH_SIZE];
    struct cluster *cluster;
    char schedule[64];       // its name
    struct schedule *given;  // its order, where that was given (given_order.h); NULL: a generator of its name makes it
    enum weights weights;
    uint32_t ranks, chunks, micro_batches;
    struct holding holding;
    enum plan_target target;
    uint32_t *order;  // the profile's layer at each place; NULL: they stand as in the profile
    struct plan_stage *stages;
    size_t stage_count;
    uint64_t iteration_ns;  // asynchronous: of micro_batches more in the steady state, T(3m) - T(2m)
    struct bubble bubble;   // of the simulated iteration; asynchronous: of the run of 3m
    uint32_t bottleneck_stage;
    struct certificate certificate;
    char *notes;  // or NULL
};

// A plan of `stage_count` zeroed stages, for searching and by hand.
struct plan *plan_create(size_t stage_count, struct error *error);
void plan_free(struct plan *plan);

// Gives a stage its layers [first, end), with their names from the profile (in the
// plan's order), one device, and what is recomputed.
bool plan_set_stage(struct plan *plan, size_t stage, const struct profile *profile, struct segment layers,
                    uint32_t device, const struct segment *recompute, size_t recompute_count, struct error *error);

// The document (docs/formats/plan.md). What a reader can see to be wrong without
// the profile is refused; the rest is for evaluate.h.
struct plan *plan_load(const char *path, struct error *error);
struct plan *plan_read(const char *text, size_t length, const char *name, struct error *error);
void plan_write(const struct plan *plan, struct text *text);
// By way of the document; freed by plan_free().
struct plan *plan_copy(const struct plan *plan, struct error *error);
// Of what is written: two plans with the same hash are the same.
bool plan_hash(const struct plan *plan, char digits[HASH_SIZE], struct error *error);

// The segments of a stage whose layers are set: a list of lists of their names. False without memory.
struct json;
bool plan_read_segments(struct json *segments, struct plan_stage *stage);

// The profile with its layers in the plan's order: `profile` itself where the plan has
// no order of its own, else *made, which the caller frees. NULL where the plan's order
// is none of this profile's.
const struct profile *plan_ordered(const struct plan *plan, const struct profile *profile, struct profile **made,
                                   struct error *error);

// The devices of all copies of a stage instead of one.
bool plan_set_devices(struct plan *plan, size_t stage, const uint32_t *devices, size_t count, struct error *error);

// Says that a stage's layer, by its place in the plan's order, was pinned to it.
bool plan_pin_layer(struct plan *plan, size_t stage, uint32_t place, struct error *error);

// A stage that takes a variant (or NULL), and so for each copy a group of devices.
bool plan_set_variant(struct plan *plan, size_t stage, const char *variant, const uint32_t *devices, size_t copies,
                      uint32_t group, struct error *error);

// How many devices hold a stage, and each of its copies.
static inline uint32_t plan_stage_group(const struct plan_stage *stage)
{
    return stage->group > 1 ? stage->group : 1;
}

static inline size_t plan_stage_seats(const struct plan_stage *stage)
{
    return stage->device_count * plan_stage_group(stage);
}

// Devices of all ranks: as many as ranks, or, where ranks are groups, those of all groups. A rank's stages have the same
// group, and those of two ranks may be of unlike size.
size_t plan_seat_count(const struct plan *plan);

// Who makes the orders of its schedule.
bool plan_generator(const struct plan *plan, struct generator *generator, struct error *error);

// How many replicas each stage has, where the schedule knows replicas and some stage has several; else *replicas is
// NULL. The caller frees it.
bool plan_replicas(const struct plan *plan, uint32_t **replicas, struct error *error);

// The plan's schedule for this many micro-batches (of an order that was given: its own), generated, placed on its ranks
// and priced; lowered if asked. Fails where the plan's stages and devices are not
// those of the schedule.
struct schedule *plan_schedule(const struct plan *plan, uint32_t micro_batches, bool lowered, struct error *error);

// Runs the plan's schedule for this many micro-batches on its own network. `timeline` may be NULL.
struct timeline;
bool plan_simulate(const struct plan *plan, uint32_t micro_batches, struct simulation *run, struct timeline *timeline,
                   struct error *error);

// Which ranks hold which of the plan's stages, and on which devices they are.
struct placement *plan_placement(const struct plan *plan, struct error *error);

// Those devices, for a placement that was read from a schedule of the plan; freed by free(). NULL where the stages are
// not the schedule's.
uint32_t *plan_devices(const struct plan *plan, const struct placement *placement, struct error *error);

// The slab of a rank: what its stages take, with the largest of their workspaces.
uint64_t plan_rank_bytes(const struct plan *plan, const struct placement *placement, uint32_t rank);

// The largest slab of a rank, and the first that has it. 0 with an error where the stages are not the schedule's.
uint64_t plan_peak_bytes(const struct plan *plan, uint32_t *rank, struct error *error);

// The memory of each rank's device, freed by free(). NULL where the stages are not the schedule's.
uint64_t *plan_capacities(const struct plan *plan, struct error *error);

// What the devices of a machine (holding_machine()) leave with their host.
uint64_t plan_host_bytes(const struct plan *plan, size_t machine);

// The links between the plan's ranks, from its cluster. Within an innermost group
// each ordered pair of devices has a link of its own; further out all pairs between
// two groups share one in each direction.
struct network *plan_network(const struct plan *plan, struct error *error);

// The same for devices that are named directly.
struct network *cluster_network(const struct cluster *cluster, const uint32_t *devices, uint32_t ranks,
                                struct error *error);

// The same where rank r is on device r; fails where there are fewer devices.
struct network *cluster_network_by_rank(const struct cluster *cluster, uint32_t ranks, struct error *error);

// The table a person reads, and a sentence of sense.
void plan_print(const struct plan *plan, struct text *text);

#endif
