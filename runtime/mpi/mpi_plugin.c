// weir-mpi.so: what one process has to say, told to all by MPI, and no more. Tensors do
// not move by it; it brings processes together that MPI's launcher has started, where
// nobody has said how else (runtime/processes/meeting.c).
//
// MPI is up only for that moment. It ends a process by itself where it cannot start,
// and its launcher then ends the others.
//
//     caller    waits, until the deadline ......................  goes on, with or without
//     thread    MPI_Init  MPI_Ibcast  MPI_Finalize
//
// MPI_Init and MPI_Finalize wait for all processes, without a deadline and without a way to give up; one that was
// stopped before them would hold all others for ever. So a thread makes all calls of MPI, and is left behind where it
// does not come to an end; the process ends by exit() all the same, and the launcher then ends the others.
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "device/plugin.h"

// What is told: of the caller and of the thread, and freed by who is the last to need it.
struct telling {
    pthread_mutex_t lock;  // guards what follows
    pthread_cond_t ended;
    bool has_ended, is_left;
    bool good;
    struct error error;

    _Atomic(const char *) call;  // of MPI, that it is in
    uint32_t rank, ranks;
    uint64_t start_ns, deadline_ns;
    uint64_t bytes;
    unsigned char data[];
};

static bool is_late(const struct telling *telling, struct error *error)
{
    const uint64_t limit_ns = telling->deadline_ns > telling->start_ns ? telling->deadline_ns - telling->start_ns : 0;
    const uint64_t seconds = (limit_ns + 500000000) / 1000000000;
    return error_set_kind(error, ERROR_MACHINE, "rank %u of %u: %s has not come to an end within %llu s: it waits for "
                          "all ranks, and MPI does not say which of them has not come. Look for one that was stopped; "
                          "with MASTER_ADDR (the machine of rank 0) ranks meet without MPI and name who is missing",
                          telling->rank, telling->ranks, telling->call, (unsigned long long)seconds);
}

static bool knows_us(const struct telling *telling, struct error *error)
{
    int own = 0, count = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    if ((uint32_t)own == telling->rank && (uint32_t)count == telling->ranks)
        return true;
    return error_set_kind(error, ERROR_MACHINE, "the MPI of weir-mpi.so takes rank %u of %u for rank %d of %d: it is "
                          "not the MPI whose launcher has started it; start it by that one's, or set MASTER_ADDR",
                          telling->rank, telling->ranks, own, count);
}

static bool spread(struct telling *telling, struct error *error)
{
    MPI_Request request;
    int is_done = 0;
    telling->call = "MPI_Ibcast";
    bool good = MPI_Ibcast(telling->data, (int)telling->bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request) == MPI_SUCCESS;
    while (good && !is_done) {
        if (clock_now_ns() >= telling->deadline_ns)
            return is_late(telling, error);
        good = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS;
        poll(NULL, 0, is_done ? 0 : 1);
    }
    return good || error_set_kind(error, ERROR_MACHINE, "MPI could not tell all ranks where rank 0 is");
}

static bool tell_by_mpi_that_is_up(struct telling *telling, struct error *error)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return knows_us(telling, error) && spread(telling, error);
}

static bool tell_by_mpi(struct telling *telling, struct error *error)
{
    int level;
    telling->call = "MPI_Init";
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return error_set_kind(error, ERROR_MACHINE, "MPI does not start");
    const bool good = tell_by_mpi_that_is_up(telling, error);
    telling->call = "MPI_Finalize";
    if (good)
        MPI_Finalize();  // all ranks come to it; after a failure some may not
    return good;
}

// --- a thread for it ---------------------------------------------------------------------

static void telling_free(struct telling *telling)
{
    pthread_cond_destroy(&telling->ended);
    pthread_mutex_destroy(&telling->lock);
    free(telling);
}

static void *tell_in_thread(void *argument)
{
    struct telling *telling = argument;
    struct error error = { 0 };
    const bool good = tell_by_mpi(telling, &error);
    pthread_mutex_lock(&telling->lock);
    telling->good = good;
    telling->error = error;
    telling->has_ended = true;
    const bool is_left = telling->is_left;
    pthread_cond_signal(&telling->ended);
    pthread_mutex_unlock(&telling->lock);
    if (is_left)
        telling_free(telling);
    return NULL;
}

// False where the thread has not come to its end by the deadline; the telling is the thread's then.
static bool await_end(struct telling *telling, struct error *error)
{
    const struct timespec until = { .tv_sec = (time_t)(telling->deadline_ns / 1000000000),
                                    .tv_nsec = (long)(telling->deadline_ns % 1000000000) };
    int trouble = 0;
    pthread_mutex_lock(&telling->lock);
    while (!telling->has_ended && trouble == 0)
        trouble = pthread_cond_clockwait(&telling->ended, &telling->lock, CLOCK_MONOTONIC, &until);
    const bool has_ended = telling->has_ended;
    telling->is_left = !has_ended;
    if (!has_ended)
        is_late(telling, error);
    pthread_mutex_unlock(&telling->lock);
    return has_ended;
}

// Whether the telling is still the caller's.
static bool tell_with_thread(struct telling *telling, struct error *error)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, tell_in_thread, telling) != 0) {
        error_set_kind(&telling->error, ERROR_MACHINE, "no thread could be started for MPI");
        return true;
    }
    pthread_detach(thread);
    return await_end(telling, error);
}

static bool tell(uint32_t rank, uint32_t ranks, void *data, uint64_t bytes, uint64_t deadline_ns, struct error *error)
{
    int is_up = 0;
    struct telling *telling = calloc(1, sizeof *telling + bytes);
    if (!telling)
        return error_no_memory(error, "what MPI is to tell");
    telling->rank = rank;
    telling->ranks = ranks;
    telling->start_ns = clock_now_ns();
    telling->deadline_ns = deadline_ns;
    telling->bytes = bytes;
    memcpy(telling->data, data, bytes);
    pthread_mutex_init(&telling->lock, NULL);
    pthread_cond_init(&telling->ended, NULL);
    MPI_Initialized(&is_up);
    if (is_up)  // by the program that this is a part of, whose thread may be the only one that is allowed
        telling->good = tell_by_mpi_that_is_up(telling, &telling->error);
    else if (!tell_with_thread(telling, error))
        return false;
    const bool good = telling->good || error_set_kind(error, ERROR_MACHINE, "%s", telling->error.text);
    if (good)
        memcpy(data, telling->data, bytes);
    telling_free(telling);
    return good;
}

static const struct process_functions processes = { .tell = tell };

static const struct plugin plugin = {
    .version = WEIR_VERSION,
    .boundary = WEIR_BOUNDARY,
    .processes = &processes,
};

const struct plugin *weir_mpi_plugin(void);

const struct plugin *weir_mpi_plugin(void)
{
    return &plugin;
}
