// How a plan holds the states of a model: what its optimizer keeps, what replicas
// share, and what waits on the host. docs/memory.md has the formulas with their papers;
// what they come to for a stage is holding_cost.h.
#ifndef PARTITIONER_PLAN_HOLDING_H
#define PARTITIONER_PLAN_HOLDING_H

#include "profiler/cluster.h"
#include "profiler/estimate/estimate.h"
#include "profiler/profile.h"
#include "schedules/schedule.h"

// Optimizers, as far as memory goes (runtime/optimizer.h has their formulas).
enum optimizer_kind {
    OPTIMIZER_SGD,
    OPTIMIZER_MOMENTUM,
    OPTIMIZER_ADAMW,
    OPTIMIZER_ADAM,
    OPTIMIZER_LAMB,
    OPTIMIZER_LARS,
    OPTIMIZER_ADAFACTOR,        // from the shapes of the parameters
    OPTIMIZER_ADAM_8BIT,
    OPTIMIZER_ADAM_1BIT,        // whose replicas send each other signs of their momentum (runtime/signs.h)
    OPTIMIZER_SGD_MASTER,       // of 16-bit weights: a copy, gradients and what the optimizer keeps, all in fp32
    OPTIMIZER_MOMENTUM_MASTER,
    OPTIMIZER_ADAMW_MASTER,
};
extern const char *const optimizer_names[];  // "sgd", "momentum", "adamw", ..., NULL

// What is planned for where nobody names one: by commands, Python and weir.h alike.
#define OPTIMIZER_USUAL OPTIMIZER_ADAMW

// What the replicas of a stage hold once between them instead of each: ZeRO 1, 2, 3.
// Each holds what is on the left as well.
enum shard { SHARD_NONE, SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_WEIGHTS };
extern const char *const shard_names[];  // "none", "optimizer", "gradients", "weights", NULL

// Of all stages alike.
struct holding {
    enum optimizer_kind optimizer;
    enum shard shard;
    bool optimizer_on_host;    // its state, and the update
    bool activations_on_host;  // what is kept from F until its backward
    bool tied_apart;           // tied layers may be on different stages
    uint32_t window;           // layers of a stage whose weights are on its device at a time, of all that are on the
                               // host, or with sharded gradients in shares; 0: all, or one of those in shares
    uint64_t step_rate;        // bytes per second at which an update reads and writes; 0: it takes no time
    uint32_t bytes_per_parameter;  // by adamw-master, of what gradients have the rest, for planning alone; 0: 18
};

// Whether there is nothing to it but the optimizer.
bool holding_is_plain(const struct holding *holding);

// Whether documents could always say it: one of the first three optimizers, and plain.
bool holding_is_old(const struct holding *holding);

// Whether documents could not say it before their newest version: an optimizer that sends signs.
bool holding_is_new(const struct holding *holding);

// Whether something of it is on the host.
bool holding_uses_host(const struct holding *holding);

// For people: "adamw, optimizer and gradients shared by replicas, activations on the host".
void holding_say(const struct holding *holding, struct text *text);

// Whether it is an optimizer of 16-bit weights, which keeps them in fp32 too.
bool optimizer_is_master(enum optimizer_kind optimizer);

// Whether replicas send each other signs of the momentum that is to be, instead of gradients. Each has an error of every
// parameter, what signs have left so far.
bool optimizer_sends_signs(enum optimizer_kind optimizer);

// Numbers that adafactor keeps of a parameter of this shape, a row and a column of a matrix; numbers of which
// adam8bit keeps a scale; and numbers whose signs adam1bit sends with one, in so many bytes.
uint64_t optimizer_factored(struct shape shape);
enum { OPTIMIZER_8BIT_BLOCK = 2048, OPTIMIZER_SIGN_BLOCK = 1024, OPTIMIZER_SIGN_BYTES = 4 + OPTIMIZER_SIGN_BLOCK / 8 };

// What it updates by itself: every parameter, a block of a layer's (OPTIMIZER_8BIT_BLOCK, from its first on), or a whole
// tensor. So much no share of a replica cuts.
enum optimizer_unit { UPDATES_PARAMETERS, UPDATES_BLOCKS, UPDATES_TENSORS };
enum optimizer_unit optimizer_unit(enum optimizer_kind optimizer);
bool optimizer_is_by_parameter(enum optimizer_kind optimizer);
// Whether it can update layers that are split over devices: each member has a part of every tensor.
bool optimizer_check_split(enum optimizer_kind optimizer, struct error *error);

// Bytes of the gradients of so many bytes of weights.
uint64_t holding_gradient_bytes(const struct holding *holding, uint64_t weights);

// Bytes of the optimizer's state of a layer, rounded up to 256: of what devices outside the plan keep none, where the
// optimizer updates parameters by themselves.
uint64_t holding_state_bytes(const struct holding *holding, const struct profile *profile, uint32_t layer);

// What shares are of: layers, with so many bytes of weights and of the optimizer's state; the largest tensor's weights.
struct shared_states {
    uint32_t layers;
    uint64_t weights, optimizer, tensor;
};

// Of so many bytes of weights or gradients the most that a replica has a share of, and of the optimizer's state: what is
// updated together stays together. Rounded up to 256. (Of whom is asked how long it takes, shares are even but for blocks.)
uint64_t holding_share(const struct holding *holding, uint64_t bytes, uint64_t tensor, uint32_t replicas);
uint64_t holding_state_share(const struct holding *holding, const struct shared_states *states, uint32_t replicas);

// Bytes of the weights of a layer's largest tensor, rounded up to 256; of one whose shapes are not known, of all of it.
uint64_t holding_largest_tensor(const struct profile *profile, uint32_t layer);

// The machine of a device (its innermost group), and what of the rate of its host one
// device has: devices share it evenly, as if all of them were moving at once.
size_t holding_machine(const struct cluster *cluster, size_t device);
uint64_t holding_host_rate(const struct cluster *cluster);

// A compute order as it is run with this holding: with what goes to the host and back, if something does
// (schedules/host_moves.h). Takes the order, which may be NULL; NULL where that is so, or with an error.
struct schedule *holding_order(const struct holding *holding, struct schedule *order, struct error *error);

// Whether tied layers can be apart at all: the model has some, the schedule flushes, and gradients are added up.
bool holding_can_tie_apart(const struct profile *profile, enum optimizer_kind optimizer, bool flushes);

// What is asked of tied layers. The usual, of commands, Python and weir.h alike: apart where that can be and one reads
// parameters that another lends. (An importer ties layers that are to stand together, and nothing is lent.)
enum tied { TIED_TOGETHER, TIED_APART, TIED_USUAL };
extern const char *const tied_names[];  // "together", "apart", NULL
bool holding_ties_apart(enum tied tied, const struct profile *profile, enum optimizer_kind optimizer, bool flushes);

// What the profile that is planned for says of it: whether tied layers are apart, and of an estimated one how many
// bytes of a parameter its framework holds.
void holding_meet_profile(struct holding *holding, enum tied tied, const struct profile *profile, bool flushes);

// The second of these alone, of an estimate: 0 but for adamw-master like a framework that holds others than its 18.
uint32_t holding_bytes_per_parameter(enum optimizer_kind optimizer, const struct transformer *model,
                                     const struct estimate_request *request);

// Refuses what contradicts itself, the model, the cluster or the schedule, which
// flushes or not.
bool holding_check(const struct holding *holding, const struct profile *profile, const struct cluster *cluster,
                   bool flushes, struct error *error);

// Refuses, for those who train in that type ("fp32", "bf16" or "fp16"), optimizers of another type.
bool holding_check_runnable(const struct holding *holding, const char *dtype, struct error *error);

// As a part of documents: "optimizer" and, where it is not plain, "holding". An object of a document of this version
// can say all since `since`, but for what holding_is_new(), since `newest`.
struct json;
struct json_writer;
void holding_write(const struct holding *holding, struct json_writer *writer);
void holding_read(struct json *object, unsigned version, unsigned since, unsigned newest, struct holding *holding);

#endif
