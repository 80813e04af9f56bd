// A timeline's spans as a picture needs them: rank by rank, in order of time, each
// with its place in its rank's lane.
//
//     rank 0   [F7     ][F8  ]    two at the same time (a group, or two streams of a
//              [B3     ]          measured run) share the lane: row 0 and row 1 of 2; moves to the host and
//              [E6 ][P4 ]         back are in the last row
//
// A rank's stages are numbered from 0: its chunks, told apart by shade.
#ifndef SCHEDULES_LANES_H
#define SCHEDULES_LANES_H

#include "schedules/board.h"
#include "schedules/pictures/drawing.h"

struct lane_box {
    const struct span *span;
    uint16_t chunk;
    uint16_t row, rows;
};

struct lanes {
    const struct timeline *timeline;
    struct extent extent;
    struct lane_box *boxes;  // all spans, those of no length included
    size_t *first;           // per rank, and one more: where its boxes begin
    uint32_t chunks;         // the most stages of a rank; 0 without spans
};

// Keeps the timeline, which must stay as it is. False only without memory.
bool lanes_create(struct lanes *lanes, const struct timeline *timeline);
void lanes_clear(struct lanes *lanes);

// The time in which a rank does at least one F, B, I, W or R.
uint64_t lanes_busy_ns(const struct lanes *lanes, uint32_t rank);

// Which shade of the palette a box has.
unsigned lanes_shade(const struct lanes *lanes, const struct lane_box *box);

// 1 - busy / (ranks * time), the makespan bubble (simulate.h).
double lanes_bubble(const struct lanes *lanes);

#endif
