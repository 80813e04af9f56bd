// Private to weir-mpi.so: the thread that makes all calls of MPI.
//
//     whoever has an errand      gives it, and waits or goes on ............  is woken
//     the courier                MPI_Init   go   go   go   go   it is over
//
// MPI has calls that wait for all processes, without a deadline and without a way to give up; who waits for an errand
// has a deadline, or an abort, and leaves the courier behind where it does not come back. And MPI moves nothing while
// nobody calls it: the courier does so again and again as long as there are errands, also while a stage computes. How
// long it pauses between two looks is said in common/listener.h: waiting takes a small part of a core. Without errands
// it sleeps.
//
// There is one, as there is one MPI in a process, and it stays until the process ends: MPI can be started only once.
#ifndef RUNTIME_MPI_COURIER_H
#define RUNTIME_MPI_COURIER_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum errand_state { ERRAND_WAITS, ERRAND_MOVED, ERRAND_OVER };

struct errand {
    // On the courier: does what can be done without waiting. What goes wrong is left in `error`; it is over then, too.
    enum errand_state (*go)(struct errand *errand);
    struct error error;
    const char *_Atomic call;  // of MPI, that it waits in
    // The courier's:
    struct errand *next;
    pthread_cond_t ended;
    bool is_over, is_left;
};

// `errand` has `go`, `call`, and zeros. Starts the courier, and MPI, where that was not done. False, and the errand is
// over, where it cannot be started, or was stopped.
bool courier_give(struct errand *errand, struct error *error);

// Until it is over: true. False past `deadline_ns` (clock_now_ns), with the call of MPI that it waits in: it is the
// courier's then, which frees it (it must be of malloc()).
bool courier_await(struct errand *errand, uint64_t deadline_ns, const char **call);

// Whether it is over. Never blocks.
bool courier_is_over(struct errand *errand);

// Ends all errands, as failed, and makes no call of MPI ever after: what MPI has under way stays as it is, and moves no
// byte more. False where the courier does not come out of a call of MPI by then.
bool courier_stop(uint64_t limit_ns);
// False, with a sentence, once it was stopped or where MPI could not be started.
bool courier_is_well(struct error *error);

// On the courier: all of MPI's processes, apart from those of the program; which this one is of how many, and the
// largest tag.
struct courier_world {
    MPI_Comm all;
    int rank, ranks, largest_tag;
};
extern struct courier_world courier_world;
// Elsewhere: false as long as there is none.
bool courier_knows_world(struct courier_world *world);

// MPI's own words for what went wrong.
bool mpi_error(int code, const char *what, struct error *error);

#endif
