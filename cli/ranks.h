// Runs the ranks of a plan for a command, wherever they are (runtime/groups/rank_places.h). Only rank 0 prints.
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "partitioner/plan/plan.h"
#include "runtime/groups/agreement.h"
#include "runtime/groups/rank_places.h"
#include "trainer/run_place.h"

// The work of one rank, or of all together if they are threads. If `speaks`, it prints and writes the results.
typedef bool ranks_work(void *self, const struct run_place *place, bool speaks, struct error *error);

struct ranks_request {
    const char *command;  // "train"
    const struct plan *plan;  // NULL: a rank for each process or device
    const char *device;    // as in struct places_request; NULL: the usual one
    const char *folder;    // for the trace of a failed run; NULL: none is written
    bool verbose;          // rank 0 prints the environment variables of the devices' libraries
    uint64_t seed, steps;
    const struct agreed *agreed;  // what else must be equal in all processes, besides the above
    uint32_t agreed_count;
    ranks_work *work;
    void *self;
};

struct ranks {
    struct places *places;  // NULL: the ranks could not be set up
};

// Sets up the ranks and runs the work. False with `error` if that or any rank fails. In either case ranks_part() must
// follow.
bool ranks_run(struct ranks *ranks, const struct ranks_request *request, struct error *error);

// Ends the ranks and returns `code`, the exit code. If the device of this process does not finish its work, the
// process exits at once with it.
int ranks_part(struct ranks *ranks, int code);

// Prints on stderr, a line each, the environment variables that the libraries of the devices read: as Weir has set
// them, or as the user has. A device whose libraries read none is described instead.
bool devices_explain(const char *names, struct error *error);

#endif
