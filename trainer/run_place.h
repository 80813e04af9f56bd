// The place in which a plan is run: on one device by the threads of this process, or as one rank of several processes.
#ifndef TRAINER_RUN_PLACE_H
#define TRAINER_RUN_PLACE_H

#include "runtime/run.h"

struct run_place {
    const char *device;             // by name
    const struct process_group *group;  // NULL: all ranks are threads of this process
    const struct link *exchange_link;   // what exchanges of members seem to take in one process; NULL: nothing
    bool *is_stuck;                 // these three as in runtime/run.h
    void (*opened)(void *self, const struct session *session);
    void (*failed)(void *self, const struct session *session);
    void *self;
};

// The settings of a session in this place, with this optimizer.
static inline struct session_settings run_place_session(const struct run_place *place, struct optimizer optimizer)
{
    return (struct session_settings){ .capacity = TRANSPORT_UNLIMITED, .optimizer = optimizer, .group = place->group,
                                      .is_stuck = place->is_stuck, .opened = place->opened, .failed = place->failed,
                                      .self = place->self };
}

#endif
