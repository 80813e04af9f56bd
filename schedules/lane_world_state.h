// Private to lane_world.h: what is on each lane (lane_world.c), and the state of a run (lane_world_run.c).
#ifndef SCHEDULES_LANE_WORLD_STATE_H
#define SCHEDULES_LANE_WORLD_STATE_H

#include "common/arrays.h"
#include "schedules/blocking.h"
#include "schedules/lane_world.h"
#include "schedules/rank_heap.h"
#include "schedules/record.h"

#define NEVER UINT64_MAX

enum item_kind { ITEM_COMPUTE, ITEM_REDUCE, ITEM_MOVE, ITEM_SEND, ITEM_RECV };

// A computation or a group, or one end of a message, or a move.
struct item {
    const struct action *group;
    uint32_t size;
    enum item_kind kind;
    uint32_t peer;     // message: the rank at its other end
    uint32_t channel;  // message or move: its channel in the tariff
    size_t queue;      // message: channel_of()
    size_t parcel;     // message or move: its index in lane_world.parcels
    size_t after;      // message or move: how many items on the first lane of its rank must have ended
    size_t duration;   // computation: its index in lane_world.durations
    size_t need;       // computation: the index in lane_world.needs of the first message or move that it needs
    uint32_t needs;    // how many messages and moves it needs
    uint64_t reached_ns;  // when its rank reached it; NEVER: not yet
    bool begun;           // message in a group: whether it has begun
    uint64_t start_ns, end_ns;
};

enum { LANES = 3, MOVES_LANE = LANES - 1 };

// The items on one lane of a rank, and the position in them.
struct lane {
    struct item *begin, *at, *end;
    uint64_t free_ns;
    uint32_t pending;      // messages of its open group that have not begun
    uint64_t group_ns;     // when the last of those that have begun ends
};

// A message under way, or the data that a move brings.
struct parcel {
    struct item *receive;  // message in a group: its RECV
    uint64_t starts_ns;    // when it enters its link
    uint64_t arrives_ns;   // NEVER: it has not been sent
    uint64_t received_ns;  // NEVER: its RECV has not ended
};

struct lane_world {
    struct schedule *lowered;
    struct record record;  // the usual simulation: what everything costs
    struct lane_rules rules;
    struct item *items;
    size_t item_count;
    struct lane (*ranks)[LANES];  // the last lane of each rank is for moves
    size_t *needs;         // of all computations: indices in lane_world.parcels
    uint64_t *durations;
    size_t duration_count;

    // The state of a run.
    struct parcel *parcels;    // per unit that receives, forward and back; then per unit, EVICT and PREFETCH
    size_t parcel_count;
    uint32_t *under_way;       // per queue: messages under way
    uint32_t *waiting;         // per stage: how many of its copies have reached a REDUCE
    uint64_t *link_free_ns;
    struct arrays arrays;      // all of these
    struct rank_heap events;   // moments at which ranks may be able to begin something
    size_t event_capacity;
    const uint64_t *now_durations;
    bool no_memory;
};

#endif
