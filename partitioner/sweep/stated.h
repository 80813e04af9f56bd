// Judges a layout that the user states: how long an iteration takes and what the time is spent on, what each rank
// keeps, and whether that fits. Nothing is searched for. What the framework does comes from its row in
// profiler/estimate/framework.h.
//
//     estimate_model() --> a row of costs for each stage --> its schedule, simulated --> times and bytes
//
// The framework decides whether stages wait for each other's messages, whether gradients are reduced after the last
// backward or earlier, and what a rank keeps. A layout with fewer micro-batches than ranks is judged like any other.
#ifndef PARTITIONER_SWEEP_STATED_H
#define PARTITIONER_SWEEP_STATED_H

#include "partitioner/sweep/config_sweep.h"

// What is recomputed: nothing; what the framework calls selective; whole blocks, the first ones of each rank; parts
// of blocks.
enum stated_again { STATED_NOTHING, STATED_SELECTIVE, STATED_BLOCKS, STATED_MODULES };

// Parts of Megatron's --recompute-modules that enum estimate_recompute does not have.
enum stated_module { MODULE_ATTENTION = 1, MODULE_MLP = 2, MODULE_EXPERTS = 4 };

struct stated_recompute {
    const char *said;  // the parsed text, borrowed; NULL if nothing was parsed
    enum stated_again how;
    uint64_t blocks;   // UINT64_MAX: all
    unsigned modules;  // flags of enum stated_module
    unsigned again;    // flags of enum estimate_recompute
};

// Parses "none", "selective", "full", a number such as "4" (the first 4 blocks of each rank), or a list of parts from
// "core_attn,layernorm,moe_act,mla_up_proj,mlp,moe". False with an error for any other text.
bool stated_recompute_parse(const char *text, struct stated_recompute *recompute, struct error *error);

struct stated_request {
    const struct transformer *model;
    const struct rated_device *device;
    // Including degrees, micro-batch and sharding; NULL as its framework (`like`) is the first one
    struct estimate_request how;
    enum config_placement placement;
    const char *schedule;
    uint32_t ranks, chunks, micro_batches;
    struct stated_recompute recompute;
    struct sweep_list blocks;  // of each stage; none: evenly, with one less at both ends if only that divides
    const char *layout;        // Megatron's --pipeline-model-parallel-layout, such as "Et*2|(t*3|)*6tmL"; or NULL
    // Or NULL; replaces recompute, blocks and layout: it says the layers of each stage and what is recomputed
    const struct plan *plan;
    uint32_t expert_tensor;    // tensor parallelism of experts: devices that share each expert; 0: 1
    uint64_t memory_bytes;     // of a device, for allocations; 0: the device's, less what is reserved
    uint32_t offloaded;        // blocks of each stage whose kept bytes are on the host
};

// The parts of an iteration's time, on the rank with most work.
struct stated_time {
    double products_ns, attention_ns, passes_ns, messages_ns, host_ns;  // F, I and W of all micro-batches
    double again_ns;                                                    // recomputation
    double waiting_ns;            // for other ranks and their messages
    double reduce_ns, update_ns;  // between iterations, without what is hidden
};

// What a rank holds at its peak.
struct stated_bytes {
    double weights, gradients, optimizer;
    double activations;  // kept for the backward
    double workspace;    // transient workspace, gathered weights, libraries' workspaces
    double given_out;    // the sum of all: the peak of allocated memory that PyTorch's allocator reports
    double reserved;     // including what the allocator has cached
};

struct judgement {
    struct stated_request request;  // with the sequence length filled in
    struct estimate estimate;
    bool has_pairs;  // forwards and backwards run in pairs, which hide what experts send
    uint64_t iteration_ns, devices;
    double utilization;       // MFU: model FLOPs as a share of the devices' peak for the type of the products
    double tokens_per_second;  // per device
    struct stated_time time;
    struct stated_bytes *bytes;  // of each rank
    uint32_t busiest, fullest;
    double memory_bytes, reserved_bytes;  // of a device; and the part of it that the driver and libraries reserve
    bool fits;                // what the fullest rank allocates fits in what the driver leaves
};

// Judges the layout. NULL with ERROR_INPUT if the layout is not possible, or with another error if memory runs out.
// What the request points to must outlive the judgement; judgement_free() frees it.
struct judgement *stated_judge(const struct stated_request *request, struct error *error);
void judgement_free(struct judgement *judgement);

// The sequences of an iteration.
double judgement_sequences(const struct judgement *judgement);

// Judges the best row of a sweep as if it had been stated: its messages are waited for, and its bytes are the
// framework's.
struct judgement *stated_judge_best(const struct config_sweep *sweep, struct error *error);

struct weeks;

// What may be told beside a judgement, each or NULL: a sweep over the same devices; the judgement of its best, if it
// found one; a run of weeks (stated_weeks.h).
struct stated_more {
    const struct config_sweep *sweep;
    const struct judgement *judged;
    const struct weeks *weeks;
};

// Writes a screen for people, and the document (docs/formats/judgement.md).
void judgement_print(const struct judgement *judgement, const struct stated_more *more, struct text *text);
void judgement_write(const struct judgement *judgement, const struct stated_more *more, struct text *text);

// --- for stated_judge.c -----------------------------------------------------------------------------------------

// How many layers of each kind a stage has, and how many of them are recomputed.
struct stated_stage {
    double counts[LAYER_SLOTS], again[LAYER_SLOTS];
    bool has_table;  // another stage of its ranks holds the embedding's table, which it then reads there
};

double stated_blocks(const struct transformer *model, const struct stated_stage *stage);  // of the stage

// The ranks x chunks stages (stated_layout.c), which the caller frees with free(). NULL with an error if the layout
// is not possible.
struct stated_stage *stated_stages(const struct stated_request *request, struct error *error);

// Fills in a stage's costs, in time and bytes, for actions that run alone. `bytes` receives what it holds between
// iterations (stated_costs.c).
void stated_costs(const struct judgement *judgement, const struct stated_stage *stage, bool is_last,
                  struct cost_row *row, struct stated_bytes *bytes);

// What a pair hides of a stage's F, or of its I (stated_costs.c).
uint64_t stated_paired_ns(const struct judgement *judgement, const struct stated_stage *stage,
                          enum estimate_phase phase);

// Adds the time of F, I and W of a stage's micro-batch, by kind of work, and the time of its recomputation
// (stated_costs.c).
void stated_work(const struct judgement *judgement, const struct stated_stage *stage, struct stated_time *time);

// The bytes that PyTorch and its libraries hold on the device whatever is trained.
double stated_workspace(const struct judgement *judgement);

#endif
