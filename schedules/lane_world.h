// When everything happens if messages hold their rank up.
//
// The usual simulation (simulate.h) lets messages pass beside everything else.
// Frameworks do less: PyTorch issues all messages of a rank on one stream, in the
// order of its list, and a receive that was posted early keeps the sends behind it
// waiting (its issues 172668 and 188833). Here a rank has lanes, and does what is on
// a lane one after the other, in the order of its list:
//
//     LANES_FREE   computes | messages pass beside, each when it is ready, RECVs wait for nothing
//     LANES_ONE    computes | messages, all on one lane
//     LANES_NONE   computes and messages on one lane: nothing overlaps
//
//     rank 0, LANES_ONE     computes   [0F0 ][0F1 ]
//                           messages        [0SEND_F0][3RECV_F0 ...][0SEND_F1]     rank 1 waits for 0F1's output
//
// What goes to the host and back has a lane of its own under all three.
//
// A compute begins when its lane is free and the RECVs and moves it needs have ended; actions
// that are done together begin and end together; a REDUCE begins when all copies of
// its stage stand at it. A message may begin when its lane is free and the computes
// that stand before it in the list have ended. With rendezvous sends it begins once
// both ends may; with a capacity of K the SEND begins as soon as fewer than K
// messages of its channel are under way. It then waits for its link (network.h),
// holds the SEND's lane until the link is free again, and the RECV's until it has
// arrived. In groups, the messages that stand in a row are reached together, and their
// lane is held until the last of them is over.
//
// Who begins at the same moment: the lowest rank first, its compute before its
// message. Exact integers; the same answer on every machine.
#ifndef SCHEDULES_LANE_WORLD_H
#define SCHEDULES_LANE_WORLD_H

#include "schedules/network.h"
#include "schedules/simulate.h"

enum lane_use { LANES_FREE, LANES_ONE, LANES_NONE };

struct lane_rules {
    enum lane_use use;
    uint32_t capacity;  // buffered sends per channel; 0: rendezvous. Does not matter with LANES_FREE
    bool grouped;       // rendezvous, but messages that stand in a row go as one group; the capacity does not matter
};

struct lane_world;  // a lowered schedule analysed once, so that it can be run often

// A compute order is lowered first, its receives early. What check.h refuses by the
// same rules for sends is refused here by the same sentence: what stands still there
// does so here, unless a rank would come to a REDUCE past a SEND that waits. `network` NULL: messages take no time.
struct lane_world *lane_world_create(const struct schedule *schedule, const struct cost_row *costs,
                                     const struct network *network, const struct lane_rules *rules,
                                     struct error *error);
void lane_world_free(struct lane_world *world);

// How long each compute, group, REDUCE and STEP takes by the costs: rank by rank, in the order
// of the lists. (Each copy has a duration for its REDUCE; the longest counts.)
const uint64_t *lane_world_durations(const struct lane_world *world, size_t *count);

// Runs with these durations (NULL: by the costs), which sum to less than 2^63 ns. False only without memory.
bool lane_world_run(struct lane_world *world, const uint64_t *durations, uint64_t *iteration_ns, struct error *error);

// --- what the last run was like ---------------------------------------------------

struct lane_world_rank {
    uint64_t first_ns, last_ns;  // start of its first compute, end of its last
    uint64_t busy_ns;            // F, B, I, W, R
    uint64_t held_ns;            // its messages' lane stood: a SEND or RECV that was reached waited for its other end
};

struct lane_world_result {
    struct lane_rules rules;
    uint64_t iteration_ns;
    uint64_t usual_ns;  // of the same schedule with messages that hold nobody up
    uint32_t ranks;
    struct lane_world_rank *per_rank;
};

// Of the last run, and its timeline unless that is NULL.
bool lane_world_result(const struct lane_world *world, struct lane_world_result *result, struct timeline *timeline,
                  struct error *error);
void lane_world_result_clear(struct lane_world_result *result);

// What the lanes cost: (iteration - usual) / usual.
static inline double lane_world_price(const struct lane_world_result *result)
{
    return result->usual_ns ? ((double)result->iteration_ns - (double)result->usual_ns) / (double)result->usual_ns : 0;
}

#endif
