// From a model's configuration and a number of devices to a plan. Every way to share the model out is estimated
// (profiler/estimate), bounded, and planned if its bound leaves hope.
//
//     tensor x context x expert x pipeline x data x placement x shard x micro-batch x schedule x chunks
//        |
//        v        config_space: estimate_model(), and a lower bound of all its plans (config_bound)
//     rows, in the order of what their schedules' formulas promise
//        |
//        v        config_sweep: plan_search() plans them in rounds, on several threads. Plans must be quicker than the
//        |        best of earlier rounds. Each row has little work; then the best rows are planned again, with much.
//     the best, its optimality gap over the whole space, and why others lost
//
// A plan is of one pipeline; `data` pipelines train side by side (data parallelism). The time between their
// iterations, for gradients and the update, comes from the estimate. config_place decides where devices stand, and
// thus which messages cross which level.
#ifndef PARTITIONER_SWEEP_CONFIG_SWEEP_H
#define PARTITIONER_SWEEP_CONFIG_SWEEP_H

#include "partitioner/sweep/config_place.h"
#include "partitioner/sweep/sweep.h"
#include "profiler/estimate/estimate.h"

struct config_shards {
    const enum estimate_shard *at;
    size_t count;
};

struct config_placements {
    const enum config_placement *at;
    size_t count;
};

struct config_request {
    const struct transformer *model;
    const struct rated_device *device;
    struct estimate_request how;  // except degrees, micro-batch and sharding
    uint32_t devices;
    uint32_t without;             // how many of them are missing; if not 0, a few of the others may be idle, too
    uint32_t slow;                // how many of the present devices, numbered last, are slow
    uint32_t slow_permille;       // the speed of slow devices, in thousandths of the others' speed
    uint64_t global_batch;        // sequences
    double price;                 // of a device for an hour, in any currency; 0: costs are not reported
    double watts;                 // power of a device, in watts; 0: energy is not reported
    // What may be chosen. An empty list leaves the choice to the sweep:
    // * tensor: the powers of two up to the number of heads.
    // * context: the powers of two that leave 4096 tokens for each device.
    // * expert: the powers of two that divide the number of experts.
    // * ranks: all numbers that divide the devices.
    // * micro-batches: the powers of two from 1 to 16 sequences.
    // * chunks: 2, 4 and 8, if a schedule takes several.
    struct sweep_list tensor, context, expert, ranks, chunks, micro_batches;
    struct config_placements placements;  // default: both, but only one of them if it is no slower in anything
    struct config_shards shards;    // default: none, optimizer, and weights if there is one rank
    // Default: 1f1b, interleaved, zb-h1, zb-v; dualpipe and dualpipev, too, if pairs hide what experts send
    const char *const *schedules;
    size_t schedule_count;
    enum plan_target target;        // the framework that must be able to run the plans (target_search.h)
    struct storage storage;         // of the optimizer
    // Memory of a device; 0: what the device has, less what is reserved and a margin for what estimates miss.
    uint64_t memory_bytes;
    uint64_t budget;                // units of work for each of the best rows; 0: CONFIG_DEFAULT_BUDGET
    // Wall-clock time; 0: no deadline. How much is tried until then depends on the machine.
    uint64_t deadline_ns;
    unsigned threads;               // 0: one per core; the result does not depend on it
    const volatile sig_atomic_t *interrupted;                    // or NULL
    void (*progress)(void *self, size_t settled, size_t all);  // after each round; or NULL
    void *self;
};

// Limits of a request: devices, a degree or another number of its lists, the numbers in one list, and schedules.
enum { CONFIG_MOST_DEVICES = 1 << 20 };
enum { CONFIG_MOST_DEGREE = 4096, CONFIG_MOST_NUMBERS = 64, CONFIG_MOST_SCHEDULES = 32 };

// Units of work for each of the best rows, and the limit for each of all rows before.
#define CONFIG_DEFAULT_BUDGET 200000
#define CONFIG_FIRST_BUDGET 2000

enum config_outcome {
    CONFIG_NOT_TRIED,     // interrupted
    CONFIG_PLANNED,
    CONFIG_NOT_QUICKER,   // no plan quicker than the best of earlier rounds was found, or none can exist
    CONFIG_BOUNDED,       // not tried: no plan of it can be as quick as the best
    CONFIG_DOES_NOT_FIT,
    CONFIG_REFUSED,
    CONFIG_OUTCOMES,
};
extern const char *const config_outcome_names[];  // "not tried", "planned", .., NULL

struct config_row {
    uint32_t tensor, context, expert, data, micro_batch;
    enum config_placement placement;
    enum estimate_shard shard;
    char schedule[32];
    const struct generator *generator;  // of that name
    uint32_t ranks, chunks, micro_batches;
    enum config_outcome outcome;
    double work_ns;          // of a rank on average, in an iteration
    uint64_t between_ns;     // gradients and update, in addition to the plan
    uint64_t bound_ns;       // lower bound of its plans, including between_ns
    uint64_t expected_ns;    // by the schedule's formula; the least is tried first
    uint64_t iteration_ns;   // planned, including between_ns
    uint64_t lower_bound_ns; // of iteration_ns
    uint64_t peak_bytes;
    double bubble;
    bool is_best, is_on_front;
    bool was_looked_at;      // planned without a time to beat, however slow
    char reason[160];        // why it lost, in a few words
    struct plan *plan;       // only for the best row
};

// Why a way to share out is not a row, in the order of the checks.
enum config_obstacle {
    CONFIG_NO_OBSTACLE,
    CONFIG_DEVICES_ARE_UNEVEN,
    CONFIG_RANKS_ARE_NONE,
    CONFIG_BATCH_IS_UNEVEN,
    CONFIG_MODEL_IS_UNEVEN,
    CONFIG_SCHEDULE_IS_NONE,
};

struct config_sweep {
    struct config_request request;  // with the sequence length filled in
    struct config_row *rows;  // in the order in which they were tried
    size_t count;
    size_t counts[CONFIG_OUTCOMES];
    size_t refused_degrees;   // ways to share out whose degrees do not divide the model
    struct config_row *best;  // NULL if there is none
    uint64_t lower_bound_ns;  // no row can be quicker than this
    // The sweep without the slow devices; NULL if there are none, or no way without them
    struct config_sweep *left_out;
    double model_flops;       // of an iteration, forward and backward, without recomputation
    uint64_t memory_bytes;    // of a device, less what is reserved
    char stopped[80];         // why the sweep ended early, or empty
    enum config_obstacle obstacle;  // the furthest that a way to share out came if none became a row
    char met[300];                  // what the first of those lacked, as a sentence
};

// Restricts a request to plans that the framework `target` can run. Schedules and placements that the request leaves
// open become those that the framework has.
void config_request_for(struct config_request *request, enum plan_target target);

// Runs the sweep. Returns NULL with ERROR_INPUT if the request is invalid, or with another kind if the machine fails.
// What the request points to must outlive the sweep. config_sweep_free() frees the sweep with its rows and the best
// plan.
struct config_sweep *config_sweep_run(const struct config_request *request, struct error *error);
void config_sweep_free(struct config_sweep *sweep);

// The profile that a row's plan is made of, for code that prices or exports the plan. The caller frees it.
struct profile *config_profile(const struct config_request *request, const struct config_row *row, struct error *error);

// For an iteration of `iteration_ns`: the model FLOPs as a share of the devices' peak, and the tokens per second of
// each device.
double config_utilization(const struct config_sweep *sweep, uint64_t iteration_ns);
double config_tokens_per_second(const struct config_sweep *sweep, uint64_t iteration_ns);

// How much more memory published runs took than is stated for them, as a share (bench/peers/compare_estimates.py).
// * Dense models: one of ten runs took 8 % or more.
// * Models with experts or with sharded weights: less than 20 % in all of 24 runs but two kinds. These are tests of a
//   few GB, and InternEvo's runs, of which it is not known what they are.
//
// config_say_headroom() says this in a sentence. config_memory() is what a plan may take of a device, in bytes:
// without this share, unless the request gave the memory.
double config_headroom(const struct transformer *model, enum estimate_shard shard);
void config_say_headroom(const struct transformer *model, enum estimate_shard shard, struct text *text);
uint64_t config_memory(const struct config_sweep *sweep, enum estimate_shard shard);

// The iteration time without the slow devices, in nanoseconds; 0 if there is none.
uint64_t config_left_out_ns(const struct config_sweep *sweep);

// The price of 10^9 tokens in the request's currency, and their energy in kWh. All devices that are present are paid
// for.
double config_price(const struct config_sweep *sweep, uint64_t iteration_ns);
double config_energy(const struct config_sweep *sweep, uint64_t iteration_ns);

// Writes a table for people, the document (docs/formats/configs.md), and a line per row for other programs.
void config_print(const struct config_sweep *sweep, struct text *text);
void config_write(const struct config_sweep *sweep, struct text *text);
void config_write_csv(const struct config_sweep *sweep, struct text *text);

// Draws time against memory, as a self-contained SVG.
void config_draw(const struct config_sweep *sweep, struct text *text);

// Whether two rows share the model out in the same way. Their micro-batches, schedules and chunks may differ.
bool config_rows_are_alike(const struct config_row *a, const struct config_row *b);

// A row that may still beat `row` in the same way to share out. It was never planned without a time to beat, and its
// bound is more than 1 % below the time of `row`. If there are several, it is the one with the least bound. NULL if
// there is none: then the plans are close to what this way can reach.
struct config_row *config_open_row(const struct config_sweep *sweep, const struct config_row *row);

// The ways to share out that are shown, each by its best row; a longer table is of no use. Returns how many there
// are.
enum { CONFIG_MOST_SHOWN = 12 };
size_t config_shown(const struct config_sweep *sweep, const struct config_row *shown[CONFIG_MOST_SHOWN]);

// Finds the front, the bound of the whole sweep, and the reasons (config_judge.c). config_sweep_run() calls it.
void config_judge(struct config_sweep *sweep);

// --- for config_sweep.c -----------------------------------------------------------------------------------------

// If no way to share out becomes a row, the first of those that came furthest says why (config_check.c). The argument
// `what` is the obstacle, and the others say it in a sentence.
void config_meet(struct config_sweep *sweep, enum config_obstacle what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Whether every number of the request is valid. If not, the error names it (config_check.c).
bool config_check(const struct config_request *request, struct error *error);

// Fills in rows, refused_degrees and model_flops (config_space.c).
bool config_list(struct config_sweep *sweep, struct error *error);

// Estimates what the layers of a row cost, in pairs of a forward and a backward if its schedule has them. It uses whole
// blocks, and sequence parallelism wherever there is tensor parallelism.
bool config_estimate(const struct config_request *request, const struct config_row *row, struct estimate *estimate,
                     struct error *error);

#endif
