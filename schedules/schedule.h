// A schedule: what each rank does, in which order. This is the object that is generated, checked, simulated, drawn
// and run.
//
//     rank 0   0F0 0F1 0B0 0F2 0B1 0B2 0STEP      1F1B, p = 2, m = 3
//     rank 1   1F0 1B0 1F1 1B1 1F2 1B2 1STEP
//
// An action is written as in PyTorch's pipelining: stage, kind, micro-batch. A rank does its actions one after the
// other, but a forward and a backward in brackets run together. A list without SEND and RECV is a *compute order*;
// schedule_lower() adds them (lower.h).
//
//     2F0.1                    split 1 of the sequence of micro-batch 0
//     (0F7;7B3)OVERLAP_F_B     0F7 and 7B3 at the same time
//     0EVICT3 ... 0PREFETCH3   what stage 0 keeps of micro-batch 3 goes to the host, and comes back
//
// A micro-batch goes from one stage to the next by a message if they are on different ranks. In a schedule that
// *exchanges* it does so on one rank, too. A rank may be several devices, with samples of their own, and then an
// all-to-all among them is such a message.
//
// EVICT and PREFETCH do not block their rank. Like messages they begin at their place in the list, when everything
// before them is done. They go over the rank's link to its host, one after the other (host_moves.h).
//
// A flushing schedule (weights: flush) describes one iteration, which is repeated. An asynchronous schedule (stash,
// vertical, 2bw) describes a whole run of `micro_batches`, with a STEP after each update. It is generated for as
// many micro-batches as the run has.
#ifndef SCHEDULES_SCHEDULE_H
#define SCHEDULES_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"

enum action_kind {
    ACTION_F,  // forward
    ACTION_B,  // full backward
    ACTION_I,  // backward for the input
    ACTION_W,  // backward for the weights
    ACTION_R,  // recompute, if it is an action of its own; otherwise B or I contains it
    ACTION_SEND_F,
    ACTION_RECV_F,
    ACTION_SEND_B,
    ACTION_RECV_B,
    ACTION_EVICT,     // what is kept for the backward goes to the host,
    ACTION_PREFETCH,  // and comes back
    ACTION_REDUCE,  // gradients are added up over the copies of a stage, all of which take part at once
    ACTION_STEP,    // optimizer
    ACTION_VALIDATE,  // checks the STEP of the iteration before, which did not wait for the other stages (zero bubble)
};
enum { ACTION_KINDS = ACTION_VALIDATE + 1 };

#define NO_MICRO_BATCH UINT32_MAX

struct action {
    uint16_t stage;
    uint8_t kind;   // enum action_kind
    uint8_t split : 7;   // of a sequence: `2F0.1` is split 1; 0 if sequences are whole
    uint8_t joined : 1;  // runs together with the next action of the list
    uint32_t micro_batch;  // STEP or REDUCE: the number of the update, from 0; NO_MICRO_BATCH in a flush
};
enum { MOST_SPLITS = 127 };

// Whether they are the same, joined or not.
static inline bool action_is_same(struct action a, struct action b)
{
    return a.stage == b.stage && a.kind == b.kind && a.micro_batch == b.micro_batch && a.split == b.split;
}

static inline bool action_adds_gradient(struct action action)
{
    return action.kind == ACTION_B || action.kind == ACTION_W;
}

// Schedules and plans have no more.
enum { SCHEDULE_MOST_RANKS = 65536, SCHEDULE_MOST_ROUTES = 65536 };

// Which weight version a micro-batch uses (versions.h), as in the papers:
//
//     flush      the only version: all micro-batches are done before a STEP
//     stash      forward and backward: the version that its stage had when that forward ran (PipeDream)
//     vertical   on every stage the version that it used at stage 0 (PipeDream's vertical sync)
//     2bw        w(t + 1) = w(t) - f'(w(t - 1)): one older than the newest that its update is made from (PipeDream-2BW)
enum weights { WEIGHTS_FLUSH, WEIGHTS_STASH, WEIGHTS_VERTICAL, WEIGHTS_2BW };
extern const char *const weights_names[];  // NULL-terminated: "flush", "stash", "vertical", "2bw"

// The costs of a stage, per micro-batch. Times are in ns, sizes in bytes.
struct cost_row {
    uint64_t forward_ns;
    uint64_t backward_ns;  // a full B, without recomputation
    uint64_t backward_input_ns;
    uint64_t backward_weight_ns;
    uint64_t recompute_ns;  // added to B (or I) if the schedule has no R of its own
    uint64_t step_ns;
    uint64_t overlapped_ns;  // an F of this stage together with a backward of any other; 0: one runs after the other
    uint64_t reduce_ns;      // one REDUCE, from when its last copy has reached it
    uint64_t move_ns;        // one EVICT, or PREFETCH, over the rank's link to its host
    uint64_t exchange_ns;    // one message to the next stage, or from there, if that is on the same rank
    uint64_t output_bytes;         // one message to the next stage; its gradient is as large
    uint64_t kept_forward_bytes;   // from the start of F to the end of B or I; includes the input if it is kept
    uint64_t kept_weight_bytes;    // from the end of I to the end of W
    uint64_t moved_bytes;          // the part of the kept bytes that is on the host between EVICT and PREFETCH
    uint64_t again_bytes;          // from R to the end of B or I, if the stage has an R of its own
    uint64_t transient_bytes;      // largest workspace of an action
    uint64_t fixed_bytes;          // weights, gradients, optimizer
    uint64_t version_bytes;        // one more version of the weights
};

struct action_list {
    struct action *at;
    size_t count;
    size_t capacity;
};

static inline const struct action *list_end(const struct action_list *list)
{
    return list->count ? list->at + list->count : list->at;  // an empty list may be NULL
}

struct schedule {
    char name[64];
    enum weights weights;
    uint32_t ranks;          // p
    uint32_t stages;         // S
    uint32_t micro_batches;  // m
    uint32_t splits;         // k: parts in which each sequence goes through the stages, in order; 1: whole
    uint32_t route_count;
    uint32_t *routes;        // route_count rows of S ranks: the rank of each stage
    uint32_t *route_of;      // per micro-batch
    struct cost_row *costs;  // S rows, or NULL
    struct action_list *lists;  // per rank
    bool lowered;            // whether the lists contain SENDs and RECVs,
    bool moves;              // and EVICTs and PREFETCHes
    bool exchanges;          // stages on one rank send each other messages, too
    char *notes;             // free text of the document, or NULL
};

// Creates an empty schedule with one route, stage s on rank s % ranks, and whole sequences. Freed by
// schedule_free().
struct schedule *schedule_create(const char *name, enum weights weights, uint32_t ranks, uint32_t stages,
                                 uint32_t micro_batches, struct error *error);
void schedule_free(struct schedule *schedule);

size_t schedule_action_count(const struct schedule *schedule);  // of all ranks
// Splits sequences into `splits` parts (1 to MOST_SPLITS), which pass through the stages one after the other.
bool schedule_split(struct schedule *schedule, uint32_t splits, struct error *error);
struct schedule *schedule_copy(const struct schedule *schedule, struct error *error);

// Adds an action to a rank's list. Returns false only if memory runs out.
bool schedule_add(struct schedule *schedule, uint32_t rank, struct action action, struct error *error);

// Sets of kinds have bits 1 << kind.
enum {
    KINDS_OF_MESSAGES = 1 << ACTION_SEND_F | 1 << ACTION_RECV_F | 1 << ACTION_SEND_B | 1 << ACTION_RECV_B,
    KINDS_OF_MOVES = 1 << ACTION_EVICT | 1 << ACTION_PREFETCH,
};
unsigned schedule_kinds(const struct schedule *schedule);  // those of its actions
void schedule_drop(struct schedule *schedule, unsigned kinds);  // all actions of these

static inline uint32_t schedule_rank(const struct schedule *schedule, uint32_t stage, uint32_t micro_batch)
{
    const uint32_t route = micro_batch == NO_MICRO_BATCH ? 0 : schedule->route_of[micro_batch];
    return schedule->routes[(size_t)route * schedule->stages + stage];
}

// Formats an action: "2F0", "1SEND_B3", "0STEP", "2F0.1". `buffer` has ACTION_SIZE bytes and is returned. `joined`
// is not shown.
enum { ACTION_SIZE = 40 };
const char *action_format(struct action action, char *buffer);
// Reads one action of `length` bytes; the whole token must be the action.
bool action_parse(const char *token, size_t length, struct action *action, struct error *error);

// How many actions run together at `group`: 1, or the size of the group. `end` is the end of the list.
static inline size_t group_size(const struct action *group, const struct action *end)
{
    size_t size = 1;
    while (group + size < end && group[size - 1].joined)
        size++;
    return size;
}

// Appends the token of the group at `group`: "0F7", or "(0F7;7B3)OVERLAP_F_B".
void group_write(const struct action *group, size_t size, struct text *text);
// Reads a token of `length` bytes into `group`: an action, or a group of up to MOST_JOINED. The whole token must be
// that. Returns the number of actions, 0 on failure.
enum { MOST_JOINED = 8 };
size_t group_parse(const char *token, size_t length, struct action group[MOST_JOINED], struct error *error);

// "4 ranks, 4 stages, 1 micro-batch"
void schedule_write_shape(uint32_t ranks, uint32_t stages, uint32_t micro_batches, struct text *text);

// The schedule document (docs/formats/schedule.md).
struct schedule *schedule_read(const char *text, size_t length, const char *name, struct error *error);
void schedule_write(const struct schedule *schedule, struct text *text);

// The order within another document: the keys from `name` on, except costs and notes. The object may have other
// keys. When writing, the caller begins the object and ends it.
struct json;
struct json_writer;
struct schedule *schedule_read_order(struct json *object, struct error *error);
void schedule_write_order(const struct schedule *schedule, struct json_writer *writer);

#endif
