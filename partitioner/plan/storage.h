// How a plan holds the states of a model (its *storage*): what its optimizer keeps, what replicas share (ZeRO), and
// what is offloaded to the host. The formulas with their papers are in docs/memory.md. Their results for a stage are
// computed by storage_cost.h.
#ifndef PARTITIONER_PLAN_STORAGE_H
#define PARTITIONER_PLAN_STORAGE_H

#include "partitioner/plan/optimizers.h"
#include "profiler/cluster.h"
#include "profiler/estimate/estimate.h"
#include "profiler/profile.h"
#include "schedules/schedule.h"

// The states that the replicas of a stage hold once between them instead of once each: ZeRO 1, 2, 3. Each mode also
// shares the states of the modes before it.
enum shard { SHARD_NONE, SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_WEIGHTS };
extern const char *const shard_names[];  // "none", "optimizer", "gradients", "weights", NULL

enum { STORAGE_MOST_WINDOW = 1 << 20 };

// The same for all stages.
struct storage {
    enum optimizer_kind optimizer;
    enum shard shard;
    bool optimizer_on_host;    // its state, and the update
    bool activations_on_host;  // activations that are kept from F until the backward
    bool tied_apart;           // tied layers may be on different stages
    // Layers of a stage whose weights are on its device at a time. All its weights are on the host, or, with sharded
    // gradients, in shares. 0: all layers; of layers in shares, one.
    uint32_t window;
    // The most micro-batches of an update, whether copies of a stage have them in turn, and whether updates leave older
    // versions of the weights (no flush). All follow from the schedule (storage_meet_schedule()), and no document has
    // them. 0: no gradient is a list of rows
    uint32_t update_micro_batches;
    bool in_turn;
    bool leaves_versions;
    uint64_t step_rate;        // bytes per second at which an update reads and writes; 0: it takes no time
    // For adamw-master, and for planning alone: gradients have what weights and states leave of it. 0: 18.
    uint32_t bytes_per_parameter;
};

// Whether it is *plain*: it says nothing beyond the optimizer and its bytes_per_parameter.
bool storage_is_plain(const struct storage *storage);

// Whether any of it is on the host.
bool storage_uses_host(const struct storage *storage);

// Describes it for people: "adamw, optimizer and gradients shared by replicas, activations on the host".
void storage_say(const struct storage *storage, struct text *text);

// How many numbers adafactor keeps for a parameter of this shape: a row and a column for a matrix.
uint64_t optimizer_factored(struct shape shape);

// What members of a group have of the embedding tables.
struct split_tables {
    bool in_parts;    // there are some, and each member has lists of its rows
    bool by_columns;  // some rows are cut
    bool copied;      // all members have some
};

// Refuses an optimizer that cannot update layers split over devices, where each member of the group has a part of
// every tensor.
bool optimizer_check_split(enum optimizer_kind optimizer, struct split_tables tables, struct error *error);

// Bytes of the gradients of this many bytes of weights.
uint64_t storage_gradient_bytes(const struct storage *storage, uint64_t weights);

// Whether a layer of the model has tables, and an optimizer keeps or updates them by rows.
bool storage_is_for_rows(const struct storage *storage, const struct profile *profile);

// Sets what depends on the schedule. PipeDream updates a stage of one copy after each micro-batch. An order that
// somebody gives may do so whenever it likes, and 2BW after as many micro-batches as are in flight.
void storage_meet_schedule(struct storage *storage, enum weights weights, bool is_given, uint32_t micro_batches);

// How many rows a layer's gradient has room for if it is a list of rows (device/row_list.h); 0: it is no list. A table
// counts all its rows, or as many as the micro-batches of an update touch if that is less, behind rows that are always
// in the list. Several copies of a stage have room behind it for what each of them sends the others: its own rows, of
// the micro-batches that it has itself. They have no list where all this is not less than a gradient of all rows,
// unless the optimizer needs one. Without a flush the layer is updated in place, and an older version has the rows as
// they were in front of an update (undo list). There is no list where these rows are not less, nor with several copies.
uint64_t storage_list_room(const struct storage *storage, const struct profile *profile, uint32_t layer,
                           uint32_t copies);

// How many rows each of several copies sends the others, and the bytes of that.
uint64_t storage_sent_room(const struct storage *storage, const struct profile *profile, uint32_t layer,
                           uint32_t copies);
uint64_t storage_sent_bytes(const struct storage *storage, const struct profile *profile, uint32_t layer,
                            uint32_t copies);

// The bytes of a layer's weights that copies take as long to add up the gradients of as they take for the layer's. What
// copies send goes to each of the others once, and sums go two ways in shares: a list counts half of what all send.
uint64_t storage_reduced_bytes(const struct storage *storage, const struct profile *profile, uint32_t layer,
                               uint32_t copies);

// The bytes by which an older version of a layer's weights is smaller than the layer, in a stage of one copy.
uint64_t storage_version_less(const struct storage *storage, const struct profile *profile, uint32_t layer);

// Bytes of a layer's gradients in one of the copies of a stage, rounded up to 256. (ZeRO's shares are taken of it.)
uint64_t storage_layer_gradients(const struct storage *storage, const struct profile *profile, uint32_t layer,
                                 uint32_t copies);

// Bytes of the optimizer's state of a layer, rounded up to 256. If the optimizer updates each parameter by itself,
// states that devices outside the plan keep are not counted.
uint64_t storage_state_bytes(const struct storage *storage, const struct profile *profile, uint32_t layer);

// The states that shares are taken of: a number of layers, the bytes of their weights and of their optimizer state,
// and the bytes of the largest tensor's weights.
struct shared_states {
    uint32_t layers;
    uint64_t weights, optimizer, tensor;
};

// The most bytes that one replica has as its share: of this many bytes of weights or gradients, and of the
// optimizer's state. Units that are updated together stay together. Rounded up to 256. (For timing, callers give a
// `tensor` of 0: shares are then even, except that 8-bit blocks are not cut.)
uint64_t storage_share(const struct storage *storage, uint64_t bytes, uint64_t tensor, uint32_t replicas);
uint64_t storage_state_share(const struct storage *storage, const struct shared_states *states, uint32_t replicas);

// Bytes of the weights of a layer's largest tensor, rounded up to 256. If the layer's shapes are not known, this is
// all of its weights.
uint64_t storage_largest_tensor(const struct profile *profile, uint32_t layer);

// The machine of a device (its innermost group), and the part of its host's rate that one device has, in bytes per
// second. Devices share the rate evenly, as if all of them were moving data at once.
size_t storage_machine(const struct cluster *cluster, size_t device);
uint64_t storage_host_rate(const struct cluster *cluster);

// A compute order as it is run with this storage: it gets the moves to the host and back, if there are any
// (schedules/host_moves.h). Takes ownership of the order, which may be NULL. Returns NULL if it is, or with an
// error.
struct schedule *storage_order(const struct storage *storage, struct schedule *order, struct error *error);

// Whether tied layers can be on different stages at all: the model has some, the schedule flushes, and the optimizer
// adds up gradients.
bool storage_can_tie_apart(const struct profile *profile, enum optimizer_kind optimizer, bool flushes);

// The request for tied layers. TIED_USUAL is the default of commands, Python and weir.h alike: apart if that
// is possible and some pair has one owner. (An importer ties layers that are to stay together, and none of
// its pairs has one owner.)
enum tied { TIED_TOGETHER, TIED_APART, TIED_USUAL };
extern const char *const tied_names[];  // "together", "apart", NULL
bool storage_ties_apart(enum tied tied, const struct profile *profile, enum optimizer_kind optimizer, bool flushes);

// Sets what depends on the profile that is planned for. This is whether tied layers are apart, and, if the profile is
// an estimate, how many bytes its framework holds for each parameter.
void storage_meet_profile(struct storage *storage, enum tied tied, const struct profile *profile, bool flushes);

// The second of these alone, for an estimate. It is 0 unless the optimizer is adamw-master and the estimate is for a
// framework that holds another number than adamw-master's 18.
uint32_t storage_bytes_per_parameter(enum optimizer_kind optimizer, const struct transformer *model,
                                     const struct estimate_request *request);

// Refuses storage that contradicts itself, the model, the cluster, or the schedule, which flushes or not.
bool storage_check(const struct storage *storage, const struct profile *profile, const struct cluster *cluster,
                   bool flushes, struct error *error);

// For training in this type ("fp32", "bf16" or "fp16"): refuses optimizers of another type, and holdings that are
// for planning alone (bytes_per_parameter).
bool storage_check_runnable(const struct storage *storage, const char *dtype, struct error *error);

// Writes and reads it as a part of documents: "optimizer" and, if it is not plain, "storage".
struct json;
struct json_writer;
void storage_write(const struct storage *storage, struct json_writer *writer);
void storage_read(struct json *object, struct storage *storage);

#endif
