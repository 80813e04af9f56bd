// Sums over the members of a group of devices that a stage is split over, and data that a smaller group hands over to a
// larger one, where the members are threads of one process and their memory is on one device. Sums of members with a
// device each go over a wire (shard_wire.h); those who hand over are on one device then, too.
//
//     host of member 0    part 0 there -+-             -+- first share  added and copied -+-               -+- go on
//     host of member 1    part 1 there -+- all are here -+- second share added and copied -+- all are given -+- go on
//
// Each adds one share of the elements of all parts, ((part 0 + part 1) + part 2) + .., and copies it to the others: no
// memory beside the parts is needed, and no two touch the same element. Where the sum is scattered it copies its share to
// its own alone; where shares are gathered it adds nothing. Hosts meet when they give the work, not when it
// is done; queues wait for each other by events.
//
// All members come to a place in the same order, since they run the same schedule. When one fails the others are told,
// and nobody waits longer than the deadline.
#ifndef RUNTIME_SHARD_MEETING_H
#define RUNTIME_SHARD_MEETING_H

#include "device/kernels.h"
#include "runtime/shard_wire.h"
#include "runtime/weir.h"

struct shard_meeting;

// `places`: where sums may be under way at a time. deadline_ns: of one wait; 0: ten minutes.
struct shard_meeting *shard_meeting_create(struct device *device, uint32_t members, uint32_t places,
                                           uint64_t deadline_ns, struct error *error);
void shard_meeting_free(struct shard_meeting *meeting);

// From now on sums are over a wire, which the meeting takes; NULL: nothing changes.
void shard_meeting_take_wire(struct shard_meeting *meeting, struct shard_wire *wire);

// Who meets at a place: the first so many members, this one of them; or, where one hands over what it has, these are
// counted from that one.
struct attendance {
    uint32_t place, members, member;
};

// What fails, fails the queue.
void shard_meeting_meet(struct shard_meeting *meeting, const struct attendance *at, struct queue *queue,
                        const struct shard_numbers *part);
// Of those on this device, whether or not there is a wire.
void shard_meeting_meet_here(struct shard_meeting *meeting, const struct attendance *at, struct queue *queue,
                             const struct shard_numbers *part);

// Member 0's data become those of all.
void shard_meeting_hand_over(struct shard_meeting *meeting, const struct attendance *at, struct queue *queue,
                             void *data, uint64_t bytes);

// False with the first failure; the second for the functions of layers.
bool shard_meeting_is_well(struct shard_meeting *meeting, struct error *error);
bool shard_meeting_lets_on(struct shard_meeting *meeting, struct weir_error *error);
// By the thread of a member, which has failed.
void shard_meeting_abandon(struct shard_meeting *meeting, uint32_t member, const struct error *reason);

#endif
