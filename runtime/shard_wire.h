// The sum over the members of a group that have a device each, which talk to each other (device/communicator.h).
//
//     shares     each member sends every other one its share of the part
//     add        ((part 0 + part 1) + part 2) + .., of the own share, as one loop over all parts would
//     sums       each member sends its share, added up, to every other one
//
// The first two alone scatter the sum over the members; the last alone gathers what they have a share each of.
//
// Long parts go in pieces, since the room for what others send is small. All is issued on the queue that computes: the
// host waits for the communicator to take it, not for the sum. One thread at a time.
#ifndef RUNTIME_SHARD_WIRE_H
#define RUNTIME_SHARD_WIRE_H

#include "device/kernels.h"
#include "runtime/seats.h"

enum { SHARE_MULTIPLE = 64 };  // elements: shares begin where lines of a cache do

static inline size_t share_begin(size_t count, uint32_t share, uint32_t shares)
{
    return share == shares ? count : count / SHARE_MULTIPLE * share / shares * SHARE_MULTIPLE;
}

// What members meet for: the sum of what they bring; the sum, of which each gets its share only, in its place; or what
// each has a share of, in its place, on all. Shares of these two are equal.
enum shard_meet { MEET_ALL_REDUCE, MEET_REDUCE_SCATTER, MEET_ALL_GATHER };

// What a member brings: numbers of the device's precision, or floats whatever that is.
struct shard_numbers {
    void *at;
    size_t count;
    bool are_floats;
    enum shard_meet meet;
};

static inline size_t shard_number_bytes(const struct shard_numbers *numbers, const struct device *device)
{
    return numbers->are_floats ? sizeof(float) : precision_bytes(device_precision(device));
}

// Some of them, behind the first so many.
static inline struct shard_numbers shard_numbers_behind(struct shard_numbers all, const struct device *device,
                                                        size_t first, size_t count)
{
    return (struct shard_numbers){ (char *)all.at + first * shard_number_bytes(&all, device), count, all.are_floats,
                                   all.meet };
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
    const struct seats *seats;  // with a group
    struct device *device;
    uint64_t most_bytes;   // of a part
    uint64_t room_bytes;   // at most, of the device, for what others send; 0: 32 MiB
    uint64_t deadline_ns;  // of one wait; 0: ten minutes
};

// All places together. Success without a wire where this place's rank is no group. Seats and device are borrowed.
bool shard_wire_create(struct shard_wire **wire, const struct shard_wire_settings *settings, struct error *error);
void shard_wire_free(struct shard_wire *wire);

bool shard_wire_meet(struct shard_wire *wire, struct queue *queue, const struct shard_numbers *part,
                     struct error *error);

// Ends what is under way, by the thread that meets: there are no sums any more.
void shard_wire_abort(struct shard_wire *wire);

// Which member of its group this place has.
uint32_t shard_wire_member(const struct shard_wire *wire);

// Device memory of its own.
uint64_t shard_wire_room_bytes(const struct shard_wire *wire);

#endif
