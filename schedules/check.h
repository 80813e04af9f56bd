// Whether a schedule can run, proved before it does.
//
// Complete (each micro-batch F once and B, or I and W, once on every stage, STEP
// after the last backward), ordered (F before B on a rank), placed (each stage on
// the rank its route says), no cycle across ranks, no deadlock, message order,
// and the version of B equal to that of F.
//
// Deadlock is judged in the strictest of worlds: a rank does its list in order,
// one thing at a time; a SEND ends when its RECV is reached, or when fewer than
// `capacity` messages of its channel are under way; a RECV ends when its message
// is there. What runs here runs under every transport that buffers more or posts
// receives earlier. Linear in the number of actions.
#ifndef SCHEDULES_CHECK_H
#define SCHEDULES_CHECK_H

#include "schedules/network.h"
#include "schedules/schedule.h"

#define CHECK_NEVER UINT32_MAX  // no capacity is enough

struct check_fault {
    uint32_t rank;
    size_t position;  // in the rank's list, from 0; SIZE_MAX if the fault is something missing
    struct action action;
    char reason[160];
};

// Where the RECVs of a compute order are put: lower.h, lower_late.h, lower_timed.h (needs the schedule's costs).
enum receives { RECEIVES_EARLY, RECEIVES_LATE, RECEIVES_TIMED };

// What a schedule is held against. All zero: rendezvous, receives early, a
// communicator or tag per channel, groups of any length.
struct check_request {
    uint32_t capacity;       // buffered sends per channel, or per pair of ranks if its channels share
    bool grouped;            // no buffers, but messages that stand in a row go as one group (blocking.h)
    enum receives receives;  // where a compute order's RECVs are put
    bool shared;             // all channels between two ranks share a communicator (communicators.h)
    uint32_t most_in_group;  // messages in a row; 0: any number
    const uint64_t *limit_bytes;    // per rank, each below 2^63; or NULL. Needs the schedule's costs
    const struct network *network;  // where costs matter: what messages take; NULL: nothing
};
enum { NCCL_MOST_IN_GROUP = 256 };  // point-to-point operations; more can hang (PyTorch's pull request 174942)

// How many ordered pairs of ranks exchange messages, and how many of them could
// share a communicator among their channels.
struct check_sharing {
    bool is_known;  // false: it cannot even be lowered
    size_t pairs, can;
    struct check_fault first_fault;  // of the first pair that cannot, if there is one
};

// The rank with the least left of its limit, or that lacks most.
struct check_memory {
    bool is_known;  // false: not asked, or it does not come to its end
    uint32_t rank;
    uint64_t peak_bytes, limit_bytes;
};

struct check_result {
    bool ok;            // with the asked capacity
    uint32_t capacity;  // least number of buffered sends that works, counted as the request does; CHECK_NEVER
    bool grouped;       // whether it comes to its end without buffers if messages that stand in a row go as one group
    struct check_fault *faults;
    size_t fault_count;
    struct check_sharing sharing;
    struct check_memory memory;
    struct text cycle;  // "rank 2 waits at RECV_B 5 from rank 3; rank 3 waits at ...", or empty
};

// Judges with sends that buffer `capacity` messages per channel (0: rendezvous).
// A compute order is lowered first, and positions are then those with its messages. False only without memory.
bool schedule_check(const struct schedule *schedule, uint32_t capacity, struct check_result *result,
                    struct error *error);
bool schedule_check_as(const struct schedule *schedule, const struct check_request *request,
                       struct check_result *result, struct error *error);
void check_result_clear(struct check_result *result);

// The first fault and the cycle as one sentence, of kind ERROR_ANSWER. Returns false.
bool check_result_error(const struct check_result *result, struct error *error);

// Whether a schedule that somebody gives can run where sends are buffered or grouped as much as it needs, which is the
// world of the simulator. Whoever reads one asks this: what cannot run has no times and no bytes. The error (ERROR_INPUT)
// has the first fault.
bool schedule_can_run(const struct schedule *schedule, struct error *error);

// The document of `weir check --json`.
void check_result_write(const struct check_result *result, struct text *text);

#endif
