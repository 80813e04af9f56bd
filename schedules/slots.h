// How many buffers of each class a stage needs. This is a property of a lowered schedule and does not depend on
// costs. With the bytes of each class (known to the planner and to the runtime) it determines the memory of a rank:
//
//     peak_bytes = sum over its stages of (fixed + (versions - 1) * version_bytes + sum of count * bytes)
//                  + the largest workspace
//
// Each class is a row of equal slots in the rank's slab. An action that needs a slot takes the lowest free one. If
// sequences are split, a slot is for one split. The lifetimes below are in positions of the rank's list; actions
// that run together have one position:
//
//     input            RECV_F ........ the last use: F, or B / I, or W (three counts)
//     kept             F ............. end of B or I; if it goes to the host in between, F to EVICT, and PREFETCH
//                      to that end (host_places.h)
//     kept_through     F ............. end of B or W (inputs inside the stage, which W needs); to the host likewise
//     away             EVICT ......... PREFETCH (both of these, on the host)
//     held             I ............. end of W
//     again            R ............. end of B or I (recomputed data of a stage with an R of its own; a
//                      backward without an R recomputes by itself, and has a slot while it runs)
//     output           F ............. until F of the next but one message begins (two slots at most:
//                      the second may be filled while the first is under way)
//     output_gradient  RECV_B ........ end of B or I
//     input_gradient   B or I ........ as output
//     statistics       F ............. STEP of the update that takes the micro-batch in (folds.h), if sequences are
//                      whole. If the stage has copies, `gathered` is room for those of all copies in an update
//
// If sequences are split, what the parts have in common has a slot for the whole micro-batch:
//
//     shared_by_parts           the first F ...... end of the last B or I
//     shared_by_parts_gradient  the first B or I . end of the last
//
// Neighbouring stages on one rank pass data in place, and there is no input slot. An `output` then lives until the
// next stage's W (or B) has ended. An `input_gradient` lives until the stage before has had its B or I.
#ifndef SCHEDULES_SLOTS_H
#define SCHEDULES_SLOTS_H

#include "schedules/schedule.h"

enum input_life { INPUT_UNTIL_F, INPUT_UNTIL_I, INPUT_UNTIL_W };  // a full B ends both of the latter

struct slots {
    uint32_t input[3];  // by enum input_life; 0 if the input does not come from another rank
    uint32_t kept;
    uint32_t kept_through;
    uint32_t held;
    uint32_t again;  // 0 if the stage has no R: recomputed data is then part of a workspace
    uint32_t shared_by_parts, shared_by_parts_gradient;  // 0 if sequences are whole
    uint32_t output;
    uint32_t output_gradient;
    uint32_t input_gradient;
    uint32_t versions;  // weight versions alive at once, the newest included: 1 with a flush
    uint32_t away;      // 0 if nothing goes to the host
    uint32_t statistics, gathered_statistics;
};

// Counts for every stage (`slots` has schedule->stages rows). With several routes, a row holds the largest need over
// the ranks that hold the stage. Fails if an action is in an illegal place, or if memory runs out.
bool slots_count(const struct schedule *lowered, struct slots *slots, struct error *error);

#endif
