// A timeline's spans prepared for drawing: rank by rank, in order of time, each with its place in its rank's lane.
//
//     rank 0   [F7     ][F8  ]    two at the same time (a group, or two streams of a
//              [B3     ]          measured run) share the lane: row 0 and row 1 of 2; moves to the host and
//              [E6 ][P4 ]         back are in the last row
//
// The stages of a rank are numbered from 0. These numbers are its chunks, which have different shades.
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
    struct lane_box *boxes;  // all spans, including those of zero length
    size_t *first;           // per rank, and one more: the index of its first box
    uint32_t chunks;         // the most stages of any rank; 0 without spans
};

// The timeline is borrowed and must not change. Returns false only if memory runs out. Cleared by lanes_clear().
bool lanes_create(struct lanes *lanes, const struct timeline *timeline);
void lanes_clear(struct lanes *lanes);

// The time in which a rank does at least one F, B, I, W or R, in ns.
uint64_t lanes_busy_ns(const struct lanes *lanes, uint32_t rank);

// The shade of the palette for a box.
unsigned lanes_shade(const struct lanes *lanes, const struct lane_box *box);

// 1 - busy / (ranks * time), the makespan bubble (simulate.h).
double lanes_bubble(const struct lanes *lanes);

#endif
