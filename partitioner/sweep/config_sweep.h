// From a model's configuration and a number of devices to a plan: every way to share the model out, estimated
// (profiler/estimate), bounded, and planned where the bound leaves hope.
//
//     tensor x context x expert x pipeline x data x placement x shard x micro-batch x schedule x chunks
//        |
//        v        config_space: estimate_model(), and what no plan of it can beat (config_bound)
//     rows, in the order of what their schedules' formulas promise
//        |
//        v        config_sweep: in rounds, planned by plan_search() on several threads, below the best of earlier
//        |        rounds, with little work each; then the best of them once more, with much
//     the best, its gap over all of the space, and why others lost
//
// A plan is of one pipeline; `data` of them train side by side. What lies between their iterations, gradients and the
// update, is the estimate's. Where devices stand, and so what crosses which level, is config_place's.
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
    struct estimate_request how;  // but for degrees, the micro-batch and what is shared
    uint32_t devices;
    uint32_t without;             // of them that are missing: then a few of the others may be idle, too
    uint32_t slow;                // of those that are there, numbered last, so many take part at this rate
    uint32_t slow_permille;       // of the others
    uint64_t global_batch;        // sequences
    double price;                 // of a device for an hour, in whatever money; 0: it is not asked for
    double watts;                 // that a device takes; 0 likewise
    // What may be chosen. No list: of tensor the powers of two up to the heads, of context those that leave 4096 tokens,
    // of expert those that divide the experts, of ranks all that divide the devices, of micro-batches 1 to 16, of chunks
    // 2, 4, 8 where a schedule takes several.
    struct sweep_list tensor, context, expert, ranks, chunks, micro_batches;
    struct config_placements placements;  // both, but only one of those where it is no slower in anything
    struct config_shards shards;    // none, optimizer, and weights where there is one rank
    const char *const *schedules;   // none: 1f1b, interleaved, zb-h1, zb-v
    size_t schedule_count;
    enum plan_target target;        // whose words plans are made in (target_search.h)
    struct holding holding;         // the optimizer's
    uint64_t memory_bytes;          // 0: the device's, without what is reserved, and with room for what estimates miss
    uint64_t budget;                // units of work for each of the best; 0: CONFIG_DEFAULT_BUDGET
    uint64_t deadline_ns;           // wall-clock time; 0: any. What is tried until then depends on the machine.
    unsigned threads;               // 0: one per core; the result is the same
    const volatile sig_atomic_t *interrupted;                    // or NULL
    void (*progress)(void *self, size_t settled, size_t all);  // after each round; or NULL
    void *self;
};

// What a request may have at most: devices, a degree or another number of its lists, and numbers in one of these.
enum { CONFIG_MOST_DEVICES = 1 << 16, CONFIG_MOST_DEGREE = 4096, CONFIG_MOST_NUMBERS = 64, CONFIG_MOST_SCHEDULES = 32 };

// Units of work for each of the best rows, and the most for each of all.
#define CONFIG_DEFAULT_BUDGET 200000
#define CONFIG_FIRST_BUDGET 2000

enum config_outcome {
    CONFIG_NOT_TRIED,     // interrupted
    CONFIG_PLANNED,
    CONFIG_NOT_QUICKER,   // no plan of it below the best of earlier rounds was found, or can be
    CONFIG_BOUNDED,       // not even tried: no plan of it can be as quick as the best
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
    uint32_t ranks, chunks, micro_batches;
    enum config_outcome outcome;
    double work_ns;          // of a rank in the mean, in an iteration
    uint64_t between_ns;     // gradients and update, beside what a plan has
    uint64_t bound_ns;       // no plan of it takes less, with what is between
    uint64_t expected_ns;    // by the formula of the schedule: who is tried first
    uint64_t iteration_ns;   // planned, with what is between
    uint64_t lower_bound_ns; // of that
    uint64_t peak_bytes;
    double bubble;
    bool is_best, is_on_front;
    bool was_looked_at;      // for any plan at all, however slow
    char reason[160];        // why not, in a few words
    struct plan *plan;       // of the best alone
};

// What keeps a way to share out from being a row, in the order in which it is looked for.
enum config_obstacle {
    CONFIG_NO_OBSTACLE,
    CONFIG_DEVICES_ARE_UNEVEN,
    CONFIG_RANKS_ARE_NONE,
    CONFIG_BATCH_IS_UNEVEN,
    CONFIG_MODEL_IS_UNEVEN,
    CONFIG_SCHEDULE_IS_NONE,
};

struct config_sweep {
    struct config_request request;  // with the sequence's length
    struct config_row *rows;  // in the order in which they were tried
    size_t count;
    size_t counts[CONFIG_OUTCOMES];
    size_t refused_degrees;   // ways to share out that do not divide the model
    struct config_row *best;  // NULL: there is none
    uint64_t lower_bound_ns;  // no row can be quicker
    struct config_sweep *left_out;  // the same without the slow devices; NULL: there are none, or no way without them
    double model_flops;       // of an iteration, forward and backward, without what is run again
    uint64_t memory_bytes;    // of a device, without what is reserved
    char stopped[80];         // why it ended early, or empty
    enum config_obstacle obstacle;  // the furthest that a way to share out came which is no row
    char met[300];                  // and the first that came there
};

// Plans in a framework's words: what the request leaves open of schedules and placements is what that has.
void config_request_for(struct config_request *request, enum plan_target target);

// NULL where the request cannot be (ERROR_INPUT), or a machine's trouble ends it. What the request points to outlives the
// sweep.
struct config_sweep *config_sweep_run(const struct config_request *request, struct error *error);
void config_sweep_free(struct config_sweep *sweep);

// What a row's plan is made of: for whoever prices or exports it. The caller frees it.
struct profile *config_profile(const struct config_request *request, const struct config_row *row, struct error *error);

// Of an iteration that takes so long: model flops' share of the devices' peak, and tokens per second of each device.
double config_utilization(const struct config_sweep *sweep, uint64_t iteration_ns);
double config_tokens_per_second(const struct config_sweep *sweep, uint64_t iteration_ns);

// What published runs took of memory beyond what is said of them, as a share: of dense ones one of ten 8 % or more; of the 24
// with experts or shared weights all but tests of a few GB and InternEvo's, of which it is not known what they are, less than
// 20 % (bench/peers/compare_estimates.py). In a sentence; and what a plan may take of a device: without that, but where memory
// was given.
double config_headroom(const struct transformer *model, enum estimate_shard shard);
void config_say_headroom(const struct transformer *model, enum estimate_shard shard, struct text *text);
uint64_t config_memory(const struct config_sweep *sweep, enum estimate_shard shard);

// The iteration without the slow devices, or 0.
uint64_t config_left_out_ns(const struct config_sweep *sweep);

// What 10^9 tokens cost, and take in kWh, with all devices paid for that are there.
double config_price(const struct config_sweep *sweep, uint64_t iteration_ns);
double config_energy(const struct config_sweep *sweep, uint64_t iteration_ns);

// The table a person reads, the document (docs/formats/configs.md), and a line per row for other programs.
void config_print(const struct config_sweep *sweep, struct text *text);
void config_write(const struct config_sweep *sweep, struct text *text);
void config_write_csv(const struct config_sweep *sweep, struct text *text);

// Time against memory (a self-contained SVG).
void config_draw(const struct config_sweep *sweep, struct text *text);

// Whether two rows share the model out alike: micro-batches, schedules and chunks may differ.
bool config_rows_are_alike(const struct config_row *a, const struct config_row *b);

// Of the rows like this one that were not looked at for any plan at all the one with the least bound that is below what it
// takes, by a hundredth and more; NULL: what was planned of them is about what they can reach.
struct config_row *config_open_row(const struct config_sweep *sweep, const struct config_row *row);

// The ways to share out that people see, each by its best row; more in the table are of no use.
enum { CONFIG_MOST_SHOWN = 12 };
size_t config_shown(const struct config_sweep *sweep, const struct config_row *shown[CONFIG_MOST_SHOWN]);

// Finds the front, the bound of all, and the reasons (config_judge.c); config_sweep_run() does.
void config_judge(struct config_sweep *sweep);

// --- for config_sweep.c -----------------------------------------------------------------------------------------

// Where no way to share out comes to a row, the first of those that came furthest says why (config_check.c).
void config_meet(struct config_sweep *sweep, enum config_obstacle what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Whether every number is one that can be, with a sentence that names it where it is not (config_check.c).
bool config_check(const struct config_request *request, struct error *error);

// Fills in rows, refused_degrees and model_flops (config_space.c).
bool config_list(struct config_sweep *sweep, struct error *error);

// What the layers of a row cost: with sequence parallelism where there is tensor parallelism, and in whole blocks.
bool config_estimate(const struct config_request *request, const struct config_row *row, struct estimate *estimate,
                     struct error *error);

#endif
