// Private: the inside of a session (run.h), for the files that share it:
//
//     session_ranks.c   its ranks as threads: commands, and waiting for them
//     session_open.c    how it is made
//     session_state.c   reads and writes the state that lasts from one step to the next
//     run.c             steps and frees it
#ifndef RUNTIME_SESSION_H
#define RUNTIME_SESSION_H

#include <pthread.h>

#include "common/arrays.h"
#include "runtime/auxiliary_losses.h"
#include "runtime/groups/pass_report.h"
#include "runtime/run.h"
#include "runtime/transport/exchange.h"
#include "runtime/transport/threads.h"
#include "runtime/transport/wired/wired.h"

enum command { COMMAND_NONE, COMMAND_INITIALIZE, COMMAND_RUN, COMMAND_STOP };

// A rank: a thread that waits for a command, carries it out, and parks again.
struct worker {
    struct session *session;
    uint32_t rank;
    pthread_t thread;
    bool started;
    struct queue *queue;
    struct slab slab;
    struct exchange *exchange;  // NULL: no message goes from the rank to itself
    struct member_end *member_end;  // of what the rank's members exchange
    struct interpreter *interpreter;
    struct error error;
    // Under the session's lock, with what the caller has seen while it waits for the rank.
    bool is_working, is_left;  // left: a layer does not return, and the rank is no longer waited for
    uint64_t seen;             // the rank's line when last looked at (rank_status.h)
    unsigned looks;            // how often that line was the same
};

// Bytes that a rank has allocated.
struct rank_bytes {
    uint64_t device, host;
};

struct session {
    struct schedule *schedule;
    struct stage *stages;
    struct session_settings settings;
    struct device *device;
    struct threads *threads;  // either this or `wired`
    struct wired *wired;
    struct rank_status status;
    struct recorder recorder;
    struct placement *placement;
    struct ties ties;
    struct collectives collectives;
    struct weight_plan weight_plan;
    struct folds folds;
    struct arrays arrays;  // what the pointers below point to, except last_inputs
    float *losses;       // by micro-batch
    float *part_losses;  // by micro-batch, one for each part of its sequences
    struct auxiliary_losses auxiliary;
    uint64_t *metrics;   // those of the pass, then by rank what each has counted; NULL: nothing is counted
    char *last_inputs;   // the caller's, while an evaluation wants them
    struct worker *workers;
    uint64_t steps;

    pthread_mutex_t lock;
    pthread_cond_t commanded, parked;
    bool has_lock;
    enum command command;
    uint64_t commands;  // how many commands were given
    uint32_t working;  // how many ranks are waited for

    struct error failed;
    struct error left;  // of the first rank that was left
    struct session_result last;
    struct rank_result *per_rank;
    struct rank_effort *efforts;
    uint64_t *stage_ns;
    struct rank_bytes *bytes;  // by rank
    uint64_t first_step;       // number of the first step that this session makes
    uint64_t *updates_before;  // by stage: updates before that step, if none had been skipped
};

// Whether a rank is a thread of this process.
static inline bool session_is_here(const struct session *session, uint32_t rank)
{
    const struct process_group *group = session->settings.group;
    return !group || group->rank == rank;
}

// The interpreter of some rank of this process. For norms and loss scaling it does not matter which: all have the
// same.
static inline struct interpreter *session_any_interpreter(const struct session *session)
{
    const struct process_group *group = session->settings.group;
    return session->workers[group ? group->rank : 0].interpreter;
}

// Starts a thread for each rank of this process, which initializes its weights. Stops them: a rank that was left ends
// by itself, if it ever returns.
bool session_start_ranks(struct session *session, struct error *error);
void session_stop_ranks(struct session *session);

// Gives a command to all ranks and waits for them; true if none failed. A rank that fails tells the others, so all
// errors are the first one, and it does not matter which is returned. The error of a rank that was left may change at
// any time.
bool session_command(struct session *session, enum command command, struct error *error);

#endif
