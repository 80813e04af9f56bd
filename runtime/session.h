// The inside of a session (run.h): for run.c, which makes and steps it, and session_state.c, which reads and writes what
// lasts from one step to the next.
#ifndef RUNTIME_SESSION_H
#define RUNTIME_SESSION_H

#include <pthread.h>

#include "runtime/run.h"
#include "runtime/sharing.h"
#include "runtime/threads.h"
#include "runtime/wired/wired.h"

enum command { COMMAND_NONE, COMMAND_INITIALIZE, COMMAND_RUN, COMMAND_STOP };

// A rank: a thread that does what it is told and parks again.
struct worker {
    struct session *session;
    uint32_t rank;
    pthread_t thread;
    bool started;
    struct queue *queue;
    struct slab slab;
    struct interpreter *interpreter;
    struct error error;
    // Under the session's lock, with what the caller has seen of it while it waits.
    bool is_working, is_left;  // left: its layers do not come back, and it is waited for no more
    uint64_t seen;             // its line (whereabouts.h)
    unsigned looks;            // so often it was the same
};

// What a rank has allocated.
struct rank_bytes {
    uint64_t device, host;
};

struct session {
    struct schedule *schedule;
    struct stage *stages;
    struct session_settings settings;
    struct device *device;
    struct threads *threads;  // one of these
    struct wired *wired;
    struct whereabouts whereabouts;
    struct recorder recorder;
    struct placement *placement;
    struct ties ties;
    struct meetings meetings;
    struct weight_plan weight_plan;
    float *losses;       // by micro-batch
    float *part_losses;  // and of each part of its sequences
    struct worker *workers;
    uint64_t steps;

    pthread_mutex_t lock;
    pthread_cond_t told, parked;
    bool has_lock;
    enum command command;
    uint64_t commands;  // how many were given
    uint32_t working;  // ranks that are waited for

    struct error failed;
    struct error left;  // of the first rank that was left
    struct session_result last;
    struct rank_result *per_rank;
    uint64_t *waited_ns, *host_ns, *replayed;
    uint64_t *stage_ns;
    struct rank_bytes *bytes;  // by rank
    uint64_t first_step;       // that this session makes
    uint64_t *updates_before;  // by stage: of that many, had none been skipped
};

// Whether a rank is a thread of this process.
static inline bool session_is_here(const struct session *session, uint32_t rank)
{
    const struct process_group *group = session->settings.group;
    return !group || group->rank == rank;
}

// A rank of this process. Each has the norms of all, and scales the loss as all do.
static inline struct interpreter *session_any_interpreter(const struct session *session)
{
    const struct process_group *group = session->settings.group;
    return session->workers[group ? group->rank : 0].interpreter;
}

#endif
