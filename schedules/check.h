// Proves that a schedule can run, before it runs.
//
// A schedule has to be:
//
//     complete     each micro-batch has F once and B, or I and W, once on every stage; STEP after the last backward
//     ordered      F before B on a rank
//     placed       each stage is on the rank that its route names
//     free of deadlock, and of cycles across ranks
//     in order     messages are received in the order in which they are sent
//     consistent   B uses the weight version of its F
//
// Deadlock is judged in the strictest model. A rank does its list in order, one thing at a time. A SEND ends when
// its RECV is reached, or when fewer than `capacity` messages of its channel are under way. A RECV ends when its
// message has arrived. A schedule that runs in this model runs under every transport that buffers more or posts
// receives earlier. The check takes time linear in the number of actions.
#ifndef SCHEDULES_CHECK_H
#define SCHEDULES_CHECK_H

#include "schedules/network.h"
#include "schedules/schedule.h"

#define CHECK_NEVER UINT32_MAX  // no capacity is enough

struct check_fault {
    uint32_t rank;
    size_t position;  // in the rank's list, from 0; SIZE_MAX if something is missing
    struct action action;
    char reason[160];
};

// The way in which RECVs are added to a compute order: lower.h, lower_late.h, lower_timed.h (which needs the schedule's
// costs).
enum receives { RECEIVES_EARLY, RECEIVES_LATE, RECEIVES_TIMED };

// What a schedule is checked for. All zero: rendezvous, receives early, a communicator or tag for each channel,
// groups of any length.
struct check_request {
    uint32_t capacity;       // buffered sends per channel, or per pair of ranks if its channels share a communicator
    bool grouped;            // no buffers, but consecutive messages form a group (blocking.h)
    enum receives receives;  // where RECVs are added to a compute order
    bool shared;             // all channels between two ranks share a communicator (communicators.h)
    uint32_t most_in_group;  // the most messages in a row; 0: any number
    const uint64_t *limit_bytes;    // memory limit of each rank, each below 2^63; or NULL. Needs the schedule's costs
    const struct network *network;  // how long messages take, if costs matter; NULL: no time
};
enum { NCCL_MOST_IN_GROUP = 256 };  // point-to-point operations; more can hang (PyTorch's pull request 174942)

// How many ordered pairs of ranks exchange messages, and how many of them could use one communicator for all their
// channels.
struct check_sharing {
    bool is_known;  // false: the schedule cannot even be lowered
    size_t pairs, can;
    struct check_fault first_fault;  // of the first pair that cannot, if there is one
};

// The rank that has least left of its limit, or exceeds it most.
struct check_memory {
    bool is_known;  // false: not requested, or the schedule does not run to its end
    uint32_t rank;
    uint64_t peak_bytes, limit_bytes;
};

struct check_result {
    bool ok;            // with the requested capacity
    uint32_t capacity;  // the least number of buffered sends that works, counted as in the request; CHECK_NEVER
    bool grouped;       // whether it runs to its end without buffers if consecutive messages form groups
    struct check_fault *faults;
    size_t fault_count;
    struct check_sharing sharing;
    struct check_memory memory;
    struct text cycle;  // "rank 2 waits at RECV_B 5 from rank 3; rank 3 waits at ...", or empty
};

// Checks with sends that buffer `capacity` messages per channel (0: rendezvous). A compute order is lowered first;
// positions then count its messages, too. Returns false only if memory runs out; faults are in the result, which
// check_result_clear() frees.
bool schedule_check(const struct schedule *schedule, uint32_t capacity, struct check_result *result,
                    struct error *error);
bool schedule_check_as(const struct schedule *schedule, const struct check_request *request,
                       struct check_result *result, struct error *error);
void check_result_clear(struct check_result *result);

// Whether a schedule runs as requested. If not, the error is that sentence. `grouped` may be NULL.
bool schedule_runs(const struct schedule *schedule, const struct check_request *request, bool *grouped,
                   struct error *error);

// Whether a schedule from outside can run if sends are buffered or grouped as much as it needs. The simulator makes
// the same assumption. Call this after reading a schedule: one that cannot run has no times and no bytes. The error
// (ERROR_INPUT) has the first fault.
bool schedule_can_run(const struct schedule *schedule, struct error *error);

// The document of `weir check --json`.
void check_result_write(const struct check_result *result, struct text *text);

#endif
