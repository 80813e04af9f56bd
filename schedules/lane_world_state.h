// The inside of lane_world.h: what is on each lane (lane_world.c), and how far a run has come
// (lane_world_run.c).
#ifndef SCHEDULES_LANE_WORLD_STATE_H
#define SCHEDULES_LANE_WORLD_STATE_H

#include "schedules/blocking.h"
#include "schedules/lane_world.h"
#include "schedules/record.h"

#define NEVER UINT64_MAX

enum item_kind { ITEM_COMPUTE, ITEM_REDUCE, ITEM_MOVE, ITEM_SEND, ITEM_RECV };

// A compute or a group, or one end of a message.
struct item {
    const struct action *group;
    uint32_t size;
    enum item_kind kind;
    uint32_t peer;     // of a message: the rank at its other end
    uint32_t channel;  // of a message or move: of the tariff's
    size_t queue;      // of a message: channel_of()
    size_t parcel;     // of a message or move: its place in lane_world.parcels
    size_t after;      // of these: how many items on the first lane of its rank must have ended
    size_t duration;   // of a compute: its place in lanes.durations
    size_t need;       // of a compute: the first of the messages and moves that it needs, in lanes.needs
    uint32_t needs;    // how many those are
    uint64_t reached_ns;  // NEVER: its rank has not come there
    bool begun;           // of a message in a group
    uint64_t start_ns, end_ns;
};

enum { LANES = 3, MOVES_LANE = LANES - 1 };

// What is on one lane of a rank, and how far it has come.
struct lane {
    struct item *begin, *at, *end;
    uint64_t free_ns;
    uint32_t pending;      // messages of its open group that have not begun
    uint64_t group_ns;     // when the last of those that have is over
};

// A message on its way, or what a move brings there.
struct parcel {
    struct item *receive;  // of a group's message
    uint64_t starts_ns;    // when it enters its link
    uint64_t arrives_ns;   // NEVER: has not been sent
    uint64_t received_ns;  // NEVER: its RECV has not ended
};

// A rank may be able to begin something.
struct event {
    uint64_t time_ns;
    uint32_t rank;
};

struct lane_world {
    struct schedule *lowered;
    struct record record;  // the usual world: what everything costs
    struct lane_rules rules;
    struct item *items;
    size_t item_count;
    struct lane (*ranks)[LANES];  // the last one: moves
    size_t *needs;         // of all computes: places in lane_world.parcels
    uint64_t *durations;
    size_t duration_count;

    // Of a run.
    struct parcel *parcels;    // per unit that receives, forward and back; then per unit, EVICT and PREFETCH
    size_t parcel_count;
    uint32_t *under_way;       // per queue
    uint32_t *waiting;         // per stage: how many of its copies stand at a REDUCE
    uint64_t *link_free_ns;
    struct event *events;      // a heap: soonest first, ties by rank
    size_t event_count, event_capacity;
    const uint64_t *now_durations;
    bool no_memory;
};

#endif
