// Records what each micro-batch has been through on each stage, and decides whether an action may come next on its
// rank.
//
// These are the rules that a single rank's list can break: range, placement, repetition, and the order of actions on
// this rank. Code that walks the lists (check, lower, the simulators) places each action on a board. Waiting for
// other ranks is left to the code that walks.
//
//     unit (stage 1, micro-batch 0)      F | RECV_F | SEND_F      one bit per kind of action done
//
// If sequences are split, each split of a micro-batch is a unit. Forwards run in ascending order of splits,
// backwards in descending order.
#ifndef SCHEDULES_BOARD_H
#define SCHEDULES_BOARD_H

#include "schedules/copies.h"

enum { REASON_SIZE = 160 };

struct board {
    const struct schedule *schedule;
    bool lowered;     // whether inputs from other ranks must have been received by a RECV
    uint16_t *units;  // per unit: a bit for each kind of action done
    struct copies copies;
};

bool board_create(struct board *board, const struct schedule *schedule, bool lowered, struct error *error);
void board_clear(struct board *board);

// Units of one stage are adjacent in memory, since a rank takes its micro-batches more or less in order.
static inline size_t unit_index(const struct schedule *schedule, uint32_t stage, uint32_t micro_batch, uint32_t split)
{
    return ((size_t)stage * schedule->micro_batches + micro_batch) * schedule->splits + split;
}

static inline size_t unit_of(const struct schedule *schedule, struct action action)
{
    return unit_index(schedule, action.stage, action.micro_batch, action.split);
}

static inline size_t unit_count(const struct schedule *schedule)
{
    return (size_t)schedule->stages * schedule->micro_batches * schedule->splits;
}

static inline bool board_has(const struct board *board, struct action action, unsigned kinds)
{
    return board->units[unit_of(board->schedule, action)] & kinds;
}

// Bits for board_has().
enum {
    DID_F = 1 << ACTION_F,
    DID_BACKWARD = 1 << ACTION_B | 1 << ACTION_I,  // the gradient of the input is there
    DID_W = 1 << ACTION_B | 1 << ACTION_W,
    DID_R = 1 << ACTION_R,
    DID_RECV_F = 1 << ACTION_RECV_F,
    DID_RECV_B = 1 << ACTION_RECV_B,
    DID_EVICT = 1 << ACTION_EVICT,
    DID_PREFETCH = 1 << ACTION_PREFETCH,
};

// Forward, backward or recomputation: the actions that count as busy time.
static inline bool is_compute(struct action action)
{
    return action.kind <= ACTION_R;
}

static inline bool is_message(struct action action)
{
    return action.kind - (unsigned)ACTION_SEND_F <= ACTION_RECV_B - ACTION_SEND_F;
}

// A transfer to the host, or back.
static inline bool is_move(struct action action)
{
    return action.kind == ACTION_EVICT || action.kind == ACTION_PREFETCH;
}

static inline bool is_send(struct action action)
{
    return action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B;
}

// Whether an action belongs to a unit. All other actions belong to a copy of a stage.
static inline bool has_unit(struct action action)
{
    return action.kind < ACTION_REDUCE;
}

static inline bool is_backward(struct action action)
{
    return action.kind == ACTION_B || action.kind == ACTION_I;
}

// Whether a micro-batch passes from this stage to the next by a message.
static inline bool crosses_after(const struct schedule *schedule, uint32_t stage, uint32_t micro_batch)
{
    const uint32_t *route = &schedule->routes[(size_t)schedule->route_of[micro_batch] * schedule->stages];
    return stage + 1 < schedule->stages && (schedule->exchanges || route[stage] != route[stage + 1]);
}

static inline bool crosses_before(const struct schedule *schedule, uint32_t stage, uint32_t micro_batch)
{
    return stage > 0 && crosses_after(schedule, stage - 1, micro_batch);
}

// Whether the action needs a message: an F from an earlier stage, a B or I from a later one.
static inline bool needs_message(const struct schedule *schedule, struct action action)
{
    if (action.kind == ACTION_F)
        return crosses_before(schedule, action.stage, action.micro_batch);
    return is_backward(action) && crosses_after(schedule, action.stage, action.micro_batch);
}

// Whether its result is sent as a message.
static inline bool makes_message(const struct schedule *schedule, struct action action)
{
    if (action.kind == ACTION_F)
        return crosses_after(schedule, action.stage, action.micro_batch);
    return is_backward(action) && crosses_before(schedule, action.stage, action.micro_batch);
}

// The action whose result `action` needs, on another rank or on this one.
static inline struct action action_needed_by(struct action action)
{
    if (action.kind == ACTION_F)
        action.stage--;
    else
        action.stage++;
    return action;
}

// Whether a whole schedule only computes forward (inference): it has no backward, and nothing that belongs to one.
bool schedule_is_forward_only(const struct schedule *schedule);

// Whether the `size` actions at `group` may run together: an F, and a B or I of another stage or micro-batch. If
// not, `reason` says why.
bool group_fits(const struct action *group, size_t size, char reason[REASON_SIZE]);

// Whether the stage, micro-batch and split exist, and the stage is on this rank. If not, `reason` says why.
bool board_in_range(const struct board *board, uint32_t rank, struct action action, char reason[REASON_SIZE]);

// Places the action after all that this rank has placed so far. If it must not come here, returns false with the
// reason, and leaves the board unchanged.
bool board_place(struct board *board, uint32_t rank, struct action action, char reason[REASON_SIZE]);
// The same for an action that is known to be in range.
bool board_add(struct board *board, struct action action, char reason[REASON_SIZE]);

#endif
