// How many buffers of each class a stage needs: a property of a lowered schedule,
// whatever anything costs. With the bytes of each class (known to the planner and
// to the runtime) this is the memory of a rank:
//
//     peak_bytes = sum over its stages of (fixed + (versions - 1) * version_bytes + sum of count * bytes)
//                  + the largest workspace
//
// Each class is a row of equal slots in the rank's slab; whoever needs one takes
// the lowest that is free. Where sequences are split, a slot is for a split. Lives, by
// position in the rank's list (what is done together has one):
//
//     input            RECV_F ........ the last use: F, or B / I, or W (three counts)
//     kept             F ............. end of B or I; where it goes to the host in between, F to EVICT, and PREFETCH
//                      to that end (host_places.h)
//     kept_through     F ............. end of B or W (inputs inside the stage, which W needs); likewise
//     away             EVICT ......... PREFETCH (of both, on the host)
//     held             I ............. end of W
//     again            R ............. end of B or I (of a stage with R of its own: what is run again; a
//                      backward without one runs it again itself, and has a slot while it runs)
//     output           F ............. until F of the next but one message begins (two slots at most:
//                      the second may be filled while the first is under way)
//     output_gradient  RECV_B ........ end of B or I
//     input_gradient   B or I ........ as output
//
// What the parts of a sequence have in common has a slot for all of a micro-batch, where there are parts:
//
//     carried           the first F ... end of the last B or I
//     carried_gradient  the first B or I ... end of the last
//
// Neighbouring stages on one rank hand over in place: `output` then lives until the
// next stage's W (or B) has ended, `input_gradient` until the stage before has had
// its B or I, and there is no input slot.
#ifndef SCHEDULES_SLOTS_H
#define SCHEDULES_SLOTS_H

#include "schedules/schedule.h"

enum input_life { INPUT_UNTIL_F, INPUT_UNTIL_I, INPUT_UNTIL_W };  // a full B ends both of the latter

struct slots {
    uint32_t input[3];  // by enum input_life; 0 where the input does not come from another rank
    uint32_t kept;
    uint32_t kept_through;
    uint32_t held;
    uint32_t again;  // 0 where the stage has no R: what is run again is part of a workspace then
    uint32_t carried, carried_gradient;  // 0 where sequences are whole
    uint32_t output;
    uint32_t output_gradient;
    uint32_t input_gradient;
    uint32_t versions;  // of the weights alive at once, the newest included: 1 with a flush
    uint32_t away;      // 0 where nothing goes to the host
};

// Counts for every stage (`slots` has schedule->stages rows). With several
// routes, a row holds the largest need over the ranks that hold the stage.
bool slots_count(const struct schedule *lowered, struct slots *slots, struct error *error);

#endif
