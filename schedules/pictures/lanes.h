// A timeline's spans prepared for drawing: rank by rank, in order of time, each with its place in its rank's lane.
//
//     rank 0   [F7     ][F8  ]    two at the same time (a group, or two streams of a
//              [B3     ]          measured run) share the lane: row 0 and row 1 of 2; moves to the host and
//              [E6 ][P4 ]         back are in the last row
//
//     rank 0   [X3 ]   [X4 ]     a second, thin lane of a rank has its exchanges, one after the other
//
// The stages of a rank are numbered from 0. These numbers are its chunks, which have different shades.
#ifndef SCHEDULES_LANES_H
#define SCHEDULES_LANES_H

#include "schedules/board.h"
#include "schedules/pictures/drawing.h"

enum { NO_LANE = UINT32_MAX };

struct lane_box {
    const struct span *span;
    uint16_t chunk;
    uint16_t row, rows;
};

struct lanes {
    const struct timeline *timeline;
    struct extent extent;
    struct lane_box *boxes;  // all spans, including those of zero length; behind them the exchanges that take time
    size_t *first;           // per lane, and one more: the index of its first box
    uint32_t count;          // a lane for each rank, then one for each rank that exchanges, in order
    struct span *exchanges;  // per message: it as a span, if it is an exchange
    uint32_t chunks;         // the most stages of any rank; 0 without spans
};

// The timeline is borrowed and must not change. Returns false only if memory runs out. Cleared by lanes_clear().
bool lanes_create(struct lanes *lanes, const struct timeline *timeline);
void lanes_clear(struct lanes *lanes);

// The lane of a rank's exchanges, or NO_LANE.
uint32_t lanes_of_exchanges(const struct lanes *lanes, uint32_t rank);

// The time in which a rank does at least one F, B, I, W or R, in ns.
uint64_t lanes_busy_ns(const struct lanes *lanes, uint32_t rank);

// The shade of the palette for a box.
unsigned lanes_shade(const struct lanes *lanes, const struct lane_box *box);

// 1 - busy / (ranks * time), the makespan bubble (simulate.h).
double lanes_bubble(const struct lanes *lanes);

#endif
