// Private to weir-mpi.so: the MPI thread, the thread that makes all calls of MPI (a progress thread). It is given
// errands (tasks).
//
//     the thread with an errand  gives it, and waits or goes on ............  is woken
//     the MPI thread                MPI_Init   go   go   go   go   it is over
//
// MPI has calls that wait for all processes, without a deadline and without a way to give up. A thread that waits for
// an errand has a deadline, or an abort, and leaves the MPI thread behind if it does not return. Also, MPI makes
// progress only while it is called. The MPI thread calls it again and again as long as there are errands, even while a
// stage computes. Waiting takes a small part of a core: common/listener.h says how long it pauses between two calls.
// Without errands it sleeps.
//
// A process has one MPI thread, as it has one MPI. The MPI thread stays until the process ends, since MPI can be
// started only once.
#ifndef RUNTIME_TRANSPORT_MPI_MPI_THREAD_H
#define RUNTIME_TRANSPORT_MPI_MPI_THREAD_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum errand_state { ERRAND_WAITS, ERRAND_MOVED, ERRAND_OVER };

struct errand {
    // Called on the MPI thread: does what can be done without waiting. A failure is left in `error`, and ends the
    // errand too.
    enum errand_state (*go)(struct errand *errand);
    struct error error;
    const char *_Atomic call;  // the call of MPI that it waits in
    // Used by the MPI thread only:
    struct errand *next;
    pthread_cond_t ended;
    bool is_over, is_left;
};

// Starts an errand that has `go`, `call`, and zeros otherwise. Starts the MPI thread and MPI first if needed. Returns
// false, with the errand over, if they cannot be started or were stopped.
bool mpi_thread_give(struct errand *errand, struct error *error);

// Waits until the errand is over, and returns true. Returns false after `deadline_ns` (clock_now_ns()), with the call
// of MPI in which it waits. The errand then belongs to the MPI thread, which frees it (so it must be from malloc()).
bool mpi_thread_await(struct errand *errand, uint64_t deadline_ns, const char **call);

// Whether it is over. Never blocks.
bool mpi_thread_is_over(struct errand *errand);

// Ends all errands as failed, and makes no call of MPI ever after. What MPI has under way stays as it is, and no
// further byte moves. Returns false if the MPI thread has not returned from a call of MPI within `limit_ns`.
bool mpi_thread_stop(uint64_t limit_ns);
// False, with an error, once it was stopped or if MPI could not be started.
bool mpi_thread_is_well(struct error *error);

// For use on the MPI thread: a communicator of all of MPI's processes, separate from those of the program; this
// process's rank, their number, and the largest tag.
struct mpi_thread_world {
    MPI_Comm all;
    int rank, ranks, largest_tag;
};
extern struct mpi_thread_world mpi_thread_world;
// For use elsewhere: copies it; false as long as there is none.
bool mpi_thread_knows_world(struct mpi_thread_world *world);

// Sets the error to MPI's own description of a failure.
bool mpi_error(int code, const char *what, struct error *error);

#endif
