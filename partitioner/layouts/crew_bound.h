// What no plan of a schedule without a flush can beat, whose stages are crews: several
// ranks each, to which micro-batches are dealt in turns (schedules/generators/replicas.c).
//
// The objective is T(3m) - T(2m). Take the longest path of the run of 2m and its last
// action, of stage s. In the run of 3m all these actions are there, and in the same order
// on each rank: that of 2m is that of 3m without the micro-batches behind 2m. So the path
// is one of the run of 3m as well, and goes on there with whatever follows its end:
//
//     run of 2m   F0 ............................ B REDUCE STEP
//     run of 3m   F0 ............................ B REDUCE STEP F B REDUCE STEP F B ......
//                 |<----------- T(2m) ------------------------>|<-- any path of the rest -->|
//
//     T(3m) - T(2m)  >=  the longest path of the run of 3m that begins behind the last STEP
//                        which s has in the run of 2m; the least of that over all s where a run can end
//
// A run ends with stage 0, for its last backward comes behind that of all others; with
// another only if its REDUCE and STEP take longer than the way that B still has, so that
// it has several ranks, or a STEP that takes time. All ranks of a crew are done with a
// REDUCE at once, so the path may go on with any of them. It goes on with the next F of s,
// down to a stage b, or with the next B of s, up to it; stays there for all that the rank
// has left, or goes from there down and back up as often as it can; and returns to stage 0.
// Sizes that are not decided yet are the least they can be: by dynamic programming over
// the cuts the least of the largest such path, as in layout_bound.c.
//
// No lower duration makes a longer path, so every number may be less than it will be:
// nothing is recomputed here, no holding adds anything.
//
// Where channels share links, messages of the shorter run may wait for others for which
// they do not wait in the longer one, so that its path may be longer than the same path
// there: but not by much. Both runs are the same, link for link, until stage 0 begins
// with a micro-batch of those behind 2m. What is then still to be sent in the shorter
// run are messages of so many micro-batches as can be in flight. A path waits on a link
// only while that carries another one of them, and for each once:
//
//     T(2m) <= the same path in the run of 3m + all those messages on links that are shared
//
// So the bound is the least over the cuts of the largest path less these messages, their
// sum carried along beside it (crew_worths). They cannot be many where a link is slow,
// for the rest of the run of 3m has to send far more of them: that is one of the paths.
#ifndef PARTITIONER_LAYOUTS_CREW_BOUND_H
#define PARTITIONER_LAYOUTS_CREW_BOUND_H

#include "partitioner/plan/holding.h"
#include "schedules/network.h"

struct crewed_stage {
    const uint64_t *forward, *backward, *weights;  // running totals of its layers; layers + 1
    uint64_t speed_permille;  // of the slowest device
    uint32_t copies;
    struct link next;         // to the next stage: nothing between two of their ranks is quicker
    struct link among;        // between two of its copies
    // On the way to the next stage (crew_links.h). Late messages, of those that the shorter run still sends as above,
    // are on links that channels share, each at least as quick as that; the rest of the longer run sends as many over
    // one of that rate as are carried.
    uint64_t late, late_bytes_per_second;
    uint64_t carried, carried_bytes_per_second;
};

struct crews {
    const struct crewed_stage *stages;
    uint32_t stage_count, layers, micro_batches;
    const uint64_t *cut;       // bytes of a message over the cut in front of layer l; layers + 1
    const bool *can_cut;       // layers + 1
    const struct holding *holding;
};

// The better of two links, in each respect.
struct link crew_better_link(struct link a, struct link b);

bool crew_bound(const struct crews *crews, uint64_t *bound_ns, struct error *error);

// --- its parts, for bounds on many layouts at once ---------------------------------

// A stage of `copies` ranks; it and all behind it are `ranks`.
struct crew_run {
    uint32_t micro_batches, copies, ranks;
};

// The next micro-batch that the first rank of a stage would take forward behind its last
// STEP of the run of 2m, and the next backward; 3m and more: there is none.
uint64_t crew_next_forward(const struct crew_run *run);
uint64_t crew_next_backward(const struct crew_run *run);

// What a rank of a stage still has to do when a path comes to it.
struct crew_rest {
    uint64_t forwards, backwards;
    uint64_t messages;  // that its link to the next stage still carries; 0: not known
    uint64_t ahead;     // F of the micro-batch that is so many behind comes after B
    bool is_forward;    // it comes to an F, the first of `forwards`; else to a B
};

// The path comes to F or to B of micro-batch i.
struct crew_rest crew_rest_from(const struct crew_run *run, uint64_t i, bool is_forward);

// A stage and all around it, or less of it: on the way back to stage 0 and, where the path
// came from there, on the way in; of what is behind it, with the ways there and back.
struct crew_place {
    uint64_t forward_ns, backward_ns, reduce_ns;
    uint64_t busy_ns;  // of a message to the next stage
    uint64_t before_ns, after_ns;
};

// The largest path by way of a stage, out of what it has left:
//
//     before + all F, all B, a REDUCE between each two           all F, B and REDUCE, and no way out
//     before + F + after + B, then the rest                      the first goes down and comes back
//     before + all but the B behind the last F + after + B       so does the last
//     before + (1 + (F - 1) / ahead) (F + after + B) + the rest  so does the first, whenever it can
//     before + F + messages behind it + after + B                the link to the next stage
uint64_t crew_path(const struct crew_rest *rest, const struct crew_place *place);

// How many micro-batches of the run of 2m may still be under way when stage 0, of so many copies, begins with one
// of those behind them.
uint64_t crew_late(const struct crew_run *first);

// What a plan is worth: its largest path, less what the shorter run's may be longer for waiting on links. Of many
// plans, those that no other has beaten in both; where they are too many, one stands for two.
enum { CREW_MOST_WORTHS = 8 };
struct crew_worth {
    uint64_t most, late;
};
struct crew_worths {
    uint32_t count;
    struct crew_worth at[CREW_MOST_WORTHS];  // both ascending
};
bool crew_worths_beat(const struct crew_worths *worths, uint64_t most, uint64_t late);
void crew_worths_note(struct crew_worths *worths, uint64_t most, uint64_t late);

// The least; UINT64_MAX: there are none.
uint64_t crew_worths_least(const struct crew_worths *worths);

// A duration, or so little of it that no sum along a path passes 2^62.
uint64_t crew_within(uint64_t ns, uint32_t micro_batches, uint32_t stages);

#endif
