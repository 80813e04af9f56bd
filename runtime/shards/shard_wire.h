// Collectives of a tensor-parallel group whose members have a device each, which exchange messages directly
// (device/communicator.h). An all-reduce takes three steps:
//
//     shares     each member sends every other one its share of the part
//     add        ((part 0 + part 1) + part 2) + .., for its own share, as one loop over all parts would
//     sums       each member sends its summed share to every other one
//
// The first two steps alone are a reduce-scatter. The last alone is an all-gather. An all-to-all is one step, in which
// shares go straight to where they are wanted.
//
// Long parts are sent in pieces, since the room for what others send is small. Everything is issued on the queue that
// computes. The host waits until the communicator accepts it, not for the sum. Only one thread may call at a time.
#ifndef RUNTIME_SHARDS_SHARD_WIRE_H
#define RUNTIME_SHARDS_SHARD_WIRE_H

#include "device/kernels.h"
#include "device/row_exchange.h"
#include "runtime/groups/rank_grid.h"

enum { SHARE_MULTIPLE = 64 };  // elements: shares begin at the start of a cache line

static inline size_t share_begin(size_t count, uint32_t share, uint32_t shares)
{
    return share == shares ? count : count / SHARE_MULTIPLE * share / shares * SHARE_MULTIPLE;
}

// The collectives. MEET_ALL_REDUCE gives each member the sum of what all bring. MEET_REDUCE_SCATTER gives each member
// only its share of the sum, in its place. MEET_ALL_GATHER gives all members all shares, each in its place.
// MEET_ALL_TO_ALL gives member i share i of all members, in their order. The shares of the latter three are equal.
// MEET_ROWS moves rows of `count` numbers to the members that have their experts, or back (row_exchange.h).
enum shard_meet { MEET_ALL_REDUCE, MEET_REDUCE_SCATTER, MEET_ALL_GATHER, MEET_ALL_TO_ALL, MEET_ROWS };

// What a member brings: numbers of the device's precision, or floats whatever the precision is.
struct shard_numbers {
    void *at;
    size_t count;
    bool are_floats;
    enum shard_meet meet;
    void *received;  // of an all-to-all, or of rows: what this member gets, elsewhere than at `at`
    struct row_exchange rows;
};

static inline size_t shard_number_bytes(const struct shard_numbers *numbers, const struct device *device)
{
    return numbers->are_floats ? sizeof(float) : precision_bytes(device_precision(device));
}

// `count` of the numbers, after the first `first`.
static inline struct shard_numbers shard_numbers_behind(struct shard_numbers all, const struct device *device,
                                                        size_t first, size_t count)
{
    all.at = (char *)all.at + first * shard_number_bytes(&all, device);
    all.count = count;
    return all;
}

// sum += other.
static inline void shard_numbers_add(struct queue *queue, struct shard_numbers sum, const void *other)
{
    if (sum.count > 0 && sum.are_floats)
        kernel_add_floats(queue, sum.at, sum.at, other, sum.count);
    else if (sum.count > 0)
        kernel_add(queue, sum.at, sum.at, other, sum.count);
}

struct shard_wire;

struct shard_wire_settings {
    const struct rank_grid *grid;  // they have a process group
    struct device *device;
    uint64_t most_bytes;   // of the largest part
    uint32_t most_runs;    // of rows that this place sends and receives at once; 0: none
    uint64_t room_bytes;   // limit of the device memory for what others send; 0: 32 MiB
    uint64_t deadline_ns;  // for one wait; 0: ten minutes
};

// All places must call this together. It succeeds without a wire (NULL) if this place's rank is not a group. Seats
// and device are borrowed.
bool shard_wire_create(struct shard_wire **wire, const struct shard_wire_settings *settings, struct error *error);
void shard_wire_free(struct shard_wire *wire);

bool shard_wire_meet(struct shard_wire *wire, struct queue *queue, const struct shard_numbers *part,
                     struct error *error);

// Ends what is under way. Called by the thread that meets; no sums can follow.
void shard_wire_abort(struct shard_wire *wire);

// Which member of its group this place has.
uint32_t shard_wire_member(const struct shard_wire *wire);

#endif
