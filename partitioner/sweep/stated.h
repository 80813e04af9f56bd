// A layout that somebody states, judged: what an iteration of it takes and where that goes, what each rank keeps and
// whether that fits. Nothing is searched for; what the framework does is its row's (profiler/estimate/framework.h).
//
//     estimate_model() --> a row of costs for each stage --> its schedule, simulated --> times and bytes
//
// Stages wait for each other's messages as the framework has it, gradients are added up behind the last backward or not,
// and a rank keeps what the framework keeps. Fewer micro-batches than ranks are judged like others.
#ifndef PARTITIONER_SWEEP_STATED_H
#define PARTITIONER_SWEEP_STATED_H

#include "partitioner/sweep/config_sweep.h"

// What is run again: nothing; what the framework calls selective; whole blocks, the first ones of each rank; parts.
enum stated_again { STATED_NOTHING, STATED_SELECTIVE, STATED_BLOCKS, STATED_MODULES };

// Parts of Megatron's --recompute-modules that are no enum estimate_again.
enum stated_module { MODULE_ATTENTION = 1, MODULE_MLP = 2, MODULE_EXPERTS = 4 };

struct stated_recompute {
    const char *said;  // what was parsed, borrowed; NULL: nothing was
    enum stated_again how;
    uint64_t blocks;   // UINT64_MAX: all
    unsigned modules;  // of enum stated_module
    unsigned again;    // of enum estimate_again
};

// "none", "selective", "full", "4" (the first 4 blocks of each rank), or "core_attn,layernorm,moe_act,mla_up_proj,mlp,moe".
bool stated_recompute_parse(const char *text, struct stated_recompute *recompute, struct error *error);

struct stated_request {
    const struct transformer *model;
    const struct rated_device *device;
    struct estimate_request how;  // with its degrees, its micro-batch and what is shared; like a framework, or the first
    enum config_placement placement;
    const char *schedule;
    uint32_t ranks, chunks, micro_batches;
    struct stated_recompute recompute;
    struct sweep_list blocks;  // of each stage; none: evenly, one less at the ends where that divides
    const char *layout;        // Megatron's --pipeline-model-parallel-layout, "Et*2|(t*3|)*6tmL"; or NULL
    const struct plan *plan;   // instead of all three: who has which layers, and what is run again, or NULL
    uint32_t expert_tensor;    // devices that share each expert; 0: 1
    uint64_t memory_bytes;     // of a device, for what is given out; 0: the device's, without what is reserved
    uint32_t offloaded;        // blocks of each stage whose kept bytes are on the host
};

// Of the rank that has most to do.
struct stated_time {
    double products_ns, attention_ns, passes_ns, messages_ns, host_ns;  // F, I and W of all micro-batches
    double again_ns;                                                    // run again
    double waiting_ns;            // for other ranks and their messages
    double reduce_ns, update_ns;  // between iterations, with what is not hidden
};

// What a rank holds when it holds most.
struct stated_bytes {
    double weights, gradients, optimizer;
    double activations;  // what waits for its backward
    double workspace;    // for a moment, gathered weights, libraries' own
    double given_out;    // all of that: what PyTorch's allocator says at most
    double reserved;     // with what it has cached beside
};

struct judgement {
    struct stated_request request;  // with the sequence's length
    struct estimate estimate;
    uint64_t iteration_ns, devices;
    double utilization;       // model flops' share of the devices' peak, of the type of products
    double tokens_per_second;  // of a device
    struct stated_time time;
    struct stated_bytes *bytes;  // of each rank
    uint32_t busiest, fullest;
    double memory_bytes, reserved_bytes;  // of a device, and of it the driver's and libraries'
    bool fits;                // what is given out of the fullest, in what the driver leaves
};

// NULL where the layout cannot be (ERROR_INPUT), or without memory. What the request points to outlives it.
struct judgement *stated_judge(const struct stated_request *request, struct error *error);
void judgement_free(struct judgement *judgement);

// Of an iteration.
double judgement_sequences(const struct judgement *judgement);

// The best of a sweep, judged as if it had been stated: its messages are waited for, and its bytes are the framework's.
struct judgement *stated_judge_best(const struct config_sweep *sweep, struct error *error);

// What a sweep over the same devices found, and that judged; or NULL where it found nothing.
struct stated_best {
    const struct config_sweep *sweep;
    const struct judgement *judged;
};

// A screen for people, and the document (docs/formats/judgement.md); `best` may be NULL.
void judgement_print(const struct judgement *judgement, const struct stated_best *best, struct text *text);
void judgement_write(const struct judgement *judgement, const struct stated_best *best, struct text *text);

// --- for stated_judge.c -----------------------------------------------------------------------------------------

// Layers of each kind that a stage has, and of them those that are run again.
struct stated_stage {
    double counts[LAYER_PARTS], again[LAYER_PARTS];
};

// Of ranks x chunks stages (stated_layout.c); freed by free().
struct stated_stage *stated_stages(const struct stated_request *request, struct error *error);

// What a stage's costs are, in time and bytes; `bytes` receives what it holds between iterations (stated_costs.c).
void stated_costs(const struct judgement *judgement, const struct stated_stage *stage, bool is_last, struct cost_row *row,
                  struct stated_bytes *bytes);

// F, I and W of a stage's micro-batch by what they are made of, and what of it is run again (stated_costs.c).
void stated_work(const struct judgement *judgement, const struct stated_stage *stage, struct stated_time *time);

// What PyTorch and its libraries have on the device whatever is trained.
double stated_workspace(const struct judgement *judgement);

#endif
