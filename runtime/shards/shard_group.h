// Collectives of a tensor-parallel group whose members are threads of one process with memory on one device. They are
// all-reduce, reduce-scatter, all-gather, all-to-all, rows on their way to experts and back (device/row_exchange.h),
// and handing data over from a smaller group to a larger one. If members have a device each, all but the last go over a
// wire (shard_wire.h); members that hand over are on one device then, too.
//
//     host of member 0    part 0 there -+-             -+- first share  added and copied -+-               -+- go on
//     host of member 1    part 1 there -+- all are here -+- second share added and copied -+- all are given -+- go on
//
// Each member adds one share of the elements of all parts, ((part 0 + part 1) + part 2) + .., and copies it to the
// others. So no memory is needed beside the parts, and no two members touch the same element. For a reduce-scatter, a
// member copies its share to its own part only. For an all-gather, it adds nothing. For an all-to-all, it copies its
// shares of all parts to where it receives. It copies the rows that come to it. Hosts meet when they give the
// work to their queues, not when it is done; the queues wait for each other by events.
//
// All members start their collectives in the same order, since they run the same schedule. When one fails the others
// are told, and none waits longer than the deadline.
#ifndef RUNTIME_SHARDS_SHARD_GROUP_H
#define RUNTIME_SHARDS_SHARD_GROUP_H

#include "device/kernels.h"
#include "runtime/shards/shard_wire.h"
#include "common/public/weir_layer.h"

struct shard_group;

// `places` is the number of places at which sums may be under way at the same time. `deadline_ns` is for one wait; 0:
// ten minutes.
struct shard_group *shard_group_create(struct device *device, uint32_t members, uint32_t places,
                                           uint64_t deadline_ns, struct error *error);
void shard_group_free(struct shard_group *group);

// From now on sums go over a wire, which the group takes over; NULL: nothing changes.
void shard_group_take_wire(struct shard_group *group, struct shard_wire *wire);

// Which members meet at a place: `members` of them, of which this is number `member`. For a sum these are the first
// members of the group. For a hand-over they are counted from the member that hands over.
struct attendance {
    uint32_t place, members, member;
};

// The sum, scatter or gather of `part`. A failure fails the queue.
void shard_group_meet(struct shard_group *group, const struct attendance *attendance, struct queue *queue,
                        const struct shard_numbers *part);
// The same among members on this device, even if there is a wire.
void shard_group_meet_here(struct shard_group *group, const struct attendance *attendance, struct queue *queue,
                             const struct shard_numbers *part);

// Exchanges of rows at a place since the last shard_group_time_anew(), and how long they took: from when the last
// member had come until all had their rows. Only members on one device are timed, and not on one that records its
// work. Call both functions while nothing is under way.
struct exchange_time {
    uint64_t count, ns;
};
void shard_group_time_anew(struct shard_group *group);
struct exchange_time shard_group_time(const struct shard_group *group, uint32_t place);

// All members get member 0's data.
void shard_group_hand_over(struct shard_group *group, const struct attendance *attendance, struct queue *queue,
                             void *data, uint64_t bytes);

// False, with the first failure. The second function is for the functions of layers.
bool shard_group_is_well(struct shard_group *group, struct error *error);
bool shard_group_lets_on(struct shard_group *group, struct weir_error *error);
// Called by the thread of a member that has failed.
void shard_group_abandon(struct shard_group *group, uint32_t member, const struct error *reason);

#endif
