// Simulates when everything happens if messages block their rank.
//
// The usual simulation (simulate.h) overlaps messages with everything else. Frameworks do less. PyTorch issues all
// messages of a rank on one stream, in the order of its list. A receive that was posted early delays the sends
// behind it (its issues 172668 and 188833). In this simulation a rank has lanes (streams). It executes what is on a
// lane one after the other, in the order of its list:
//
//     LANES_FREE   computes | messages overlap, each begins when it is ready, RECVs wait for nothing
//     LANES_ONE    computes | messages, all on one lane
//     LANES_NONE   computes and messages on one lane: nothing overlaps
//
//     rank 0, LANES_ONE     computes   [0F0 ][0F1 ]
//                           messages        [0SEND_F0][3RECV_F0 ...][0SEND_F1]     rank 1 waits for 0F1's output
//
// Transfers to the host and back have a lane of their own under all three rules.
//
// A computation begins when its lane is free and the RECVs and moves that it needs have ended. Actions that run
// together begin and end together. A REDUCE begins when all copies of its stage have reached it.
//
// A message may begin when its lane is free and the computations before it in the list have ended. With rendezvous
// sends it begins once both ends may begin. With a capacity of K the SEND begins as soon as fewer than K messages of
// its channel are under way. The message then waits for its link (network.h). It occupies the SEND's lane until the
// link is free again, and the RECV's lane until it has arrived. With groups, consecutive messages are reached
// together, and their lane is occupied until the last of them has ended.
//
// If several items can begin at the same moment, the lowest rank is first, and its computation is before its
// message. All arithmetic is exact, with integers: the result is the same on every machine.
#ifndef SCHEDULES_LANE_WORLD_H
#define SCHEDULES_LANE_WORLD_H

#include "schedules/network.h"
#include "schedules/simulate.h"

enum lane_use { LANES_FREE, LANES_ONE, LANES_NONE };

struct lane_rules {
    enum lane_use use;
    uint32_t capacity;  // buffered sends per channel; 0: rendezvous. Has no effect with LANES_FREE
    bool grouped;       // rendezvous, but consecutive messages form one group; the capacity has no effect
};

struct lane_world;  // a lowered schedule that is analysed once, so that it can be simulated many times

// Creates it. A compute order is lowered first, with early receives. `network` NULL: messages take no time. Freed by
// lane_world_free(). With lanes that are not free a schedule that exchanges is refused: a message from a rank to itself
// holds no lane up.
//
// What check.h refuses under the same rules for sends is refused here, with the same sentence. A schedule that
// deadlocks there also deadlocks here, unless a rank would reach a REDUCE past a SEND that waits.
struct lane_world *lane_world_create(const struct schedule *schedule, const struct cost_row *costs,
                                     const struct network *network, const struct lane_rules *rules,
                                     struct error *error);
void lane_world_free(struct lane_world *world);

// The time of each computation, group, REDUCE and STEP by the costs, in ns: rank by rank, in the order of the lists.
// (Each copy has a duration for its REDUCE; the longest counts.) The array belongs to `world` and has `count`
// entries.
const uint64_t *lane_world_durations(const struct lane_world *world, size_t *count);

// Simulates with these durations, whose sum is less than 2^63 ns (NULL: by the costs). Returns false only if memory
// runs out.
bool lane_world_run(struct lane_world *world, const uint64_t *durations, uint64_t *iteration_ns, struct error *error);

// --- results of the last run ---------------------------------------------------

struct lane_world_rank {
    uint64_t first_ns, last_ns;  // start of its first computation, end of its last
    uint64_t busy_ns;            // time in F, B, I, W and R
    uint64_t held_ns;            // time in which a SEND or RECV that it had reached waited for its other end
};

struct lane_world_result {
    struct lane_rules rules;
    uint64_t iteration_ns;
    uint64_t usual_ns;  // the same schedule if messages block no rank
    uint32_t ranks;
    struct lane_world_rank *per_rank;
};

// The results of the last run, and its timeline unless `timeline` is NULL.
bool lane_world_result(const struct lane_world *world, struct lane_world_result *result, struct timeline *timeline,
                  struct error *error);
void lane_world_result_clear(struct lane_world_result *result);

// The relative cost of the lanes: (iteration - usual) / usual.
static inline double lane_world_price(const struct lane_world_result *result)
{
    return result->usual_ns ? ((double)result->iteration_ns - (double)result->usual_ns) / (double)result->usual_ns : 0;
}

#endif
