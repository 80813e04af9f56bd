// How many buffers of each kind a stage needs at once, for the evaluator. The lists of a lowered schedule are
// replayed, action by action, and what is alive is counted. One stage is in focus at a time: of the lists, only its own
// actions and those of its neighbours are looked at.
#ifndef PARTITIONER_EVALUATE_EVALUATE_SLOTS_H
#define PARTITIONER_EVALUATE_EVALUATE_SLOTS_H

#include "common/arrays.h"
#include "partitioner/plan/placement.h"

#define KIND(kind) (1u << (kind))
#define BACKWARDS (KIND(ACTION_B) | KIND(ACTION_I))
#define LAST_BACKWARDS (KIND(ACTION_B) | KIND(ACTION_W))

struct replay {
    struct schedule *lowered;
    struct placement *placement;
    bool *alive;         // per part of a micro-batch
    size_t *ends;        // per micro-batch: how many of its actions that end something are still to come
    uint64_t *versions;  // of the weights that it uses; per part, too
    uint32_t stage;      // that is in focus,
    struct action_list *focus;  // and the actions near it, of the rank of each of its copies
    struct arrays arrays, focus_arrays;
};

// Takes ownership of the schedule, also if this fails. Cleared by replay_clear().
bool replay_begin(struct replay *replay, struct schedule *lowered, struct error *error);
void replay_clear(struct replay *replay);

// Puts a stage into focus. False only without memory.
bool replay_focus(struct replay *replay, uint32_t stage, struct error *error);

// The slots for what lives from one action of the stage in focus to another of its own, whose kinds are in these sets,
// which have no SENDs. It is the most that any rank of the stage needs. If a schedule only goes forward, F alone needs
// it.
uint64_t replay_within(const struct replay *replay, unsigned from, unsigned to);

// The slots for what all parts of a micro-batch share, from the first of such actions to the last; 0 if sequences
// are whole.
uint64_t replay_shared(const struct replay *replay, uint32_t stage, unsigned from, unsigned to);

// The slots for what the stage in focus hands to its neighbour `next`. These are two for messages, and, if that is on
// the same rank, those for what the other stage has not used yet.
uint64_t replay_handed(const struct replay *replay, uint32_t next, unsigned from, unsigned to);

// The slots for the statistics of micro-batches, from F to the STEP of the update that takes them in. If the stage has
// copies, room for all that one update takes in is added. The result is 0 if sequences are cut.
uint64_t replay_statistics(const struct replay *replay, uint32_t stage);

// The number of a stage's weight versions, from the oldest that is still to be used to the newest.
uint64_t replay_versions(const struct replay *replay, uint32_t stage);

#endif
