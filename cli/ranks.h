// The ranks of a plan, as a command runs them, wherever they are (runtime/rank_places.h). Rank 0 speaks.
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "partitioner/plan/plan.h"
#include "runtime/agreement.h"
#include "runtime/rank_places.h"
#include "trainer/run_place.h"

// What one rank does, or all together; `speaks`: whether it prints and writes.
typedef bool ranks_work(void *self, const struct run_place *place, bool speaks, struct error *error);

struct ranks_request {
    const char *command;  // "train"
    const struct plan *plan;  // NULL: as many ranks as there are processes or devices
    const char *device;    // as of struct places_request; NULL: the usual one
    const char *folder;    // where the trace of a run that failed goes; NULL: nowhere
    bool verbose;          // rank 0 says what is set for the devices' libraries
    uint64_t seed, steps;
    const struct agreed *agreed;  // what else all processes must have alike, besides all of the above
    uint32_t agreed_count;
    ranks_work *work;
    void *self;
};

struct ranks {
    struct places *places;  // NULL: none came about
};

bool ranks_run(struct ranks *ranks, const struct ranks_request *request, struct error *error);

// The exit code, which it returns. A process whose device cannot be brought to an end is left at once.
int ranks_part(struct ranks *ranks, int code);

// Says on stderr, a line each, what the libraries of the devices read from the environment: as it was set for them, or
// as the user has set it.
bool devices_explain(const char *names, struct error *error);

#endif
