#include "runtime/transport/mpi/mpi_thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/listener.h"
#include "common/number.h"

// How long a process that ends waits for the others to end too, before it leaves MPI as it is. GOOD_END_SECONDS is
// for a process that has done its work. BAD_END_SECONDS is for one that has failed, which the others have learned by
// other means. Then MPI has FINALIZE_SECONDS to end itself: over TCP, MPICH sometimes does not (docs/machines.md).
enum { GOOD_END_SECONDS = 300, BAD_END_SECONDS = 1, FINALIZE_SECONDS = 10 };
enum { ROUNDS = 3 };  // at each look: MPI may report in one call what it has read in another
static const uint64_t second_ns = 1000000000;

struct mpi_thread_world mpi_thread_world = { .all = MPI_COMM_NULL };

static struct {
    pthread_mutex_t lock;  // guards what follows
    pthread_cond_t stopped;
    struct listener *listener;  // called when something changes
    struct errand *given;       // in order
    bool has_thread;
    bool is_up, is_foreign;         // MPI; started by the program, which also ends it
    pid_t process;                  // that has MPI: a process forked from it does not
    bool is_stopping, has_stopped;  // mpi_thread_stop()
    struct error error;             // of starting MPI
} mpi_thread = { .lock = PTHREAD_MUTEX_INITIALIZER, .stopped = PTHREAD_COND_INITIALIZER };

bool mpi_error(int code, const char *what, struct error *error)
{
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS)
        return true;
    MPI_Error_string(code, words, &length);
    return error_set_kind(error, ERROR_MACHINE, "%s: %.160s", what, words);
}

// --- starting MPI -------------------------------------------------------------------------

static bool start_mpi(struct error *error)
{
    int is_up = 0, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&is_up);
    mpi_thread.is_foreign = is_up;
    if (is_up)
        MPI_Query_thread(&level);
    else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS || level < MPI_THREAD_FUNNELED)
        return error_set_kind(error, ERROR_MACHINE, "MPI does not start");
    return !is_up || level == MPI_THREAD_MULTIPLE
        || error_set_kind(error, ERROR_MACHINE, "this program has started MPI for its own thread alone: it is to start "
                          "it by MPI_Init_thread with MPI_THREAD_MULTIPLE, or leave that to Weir");
}

// Our own messages use a communicator apart from those of the program.
static bool find_world(struct error *error)
{
    int *largest = NULL, is_there = 0;
    const int code = MPI_Comm_dup(MPI_COMM_WORLD, &mpi_thread_world.all);
    if (!mpi_error(code, "MPI_Comm_dup", error))
        return false;
    MPI_Comm_set_errhandler(mpi_thread_world.all, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi_thread_world.all, &mpi_thread_world.rank);
    MPI_Comm_size(mpi_thread_world.all, &mpi_thread_world.ranks);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &is_there);
    mpi_thread_world.largest_tag = is_there ? *largest : 32767;
    return true;
}

// --- going ----------------------------------------------------------------------------------

// Called under the lock. `link` is the errand's place in the list.
static void end_errand(struct errand **link)
{
    struct errand *errand = *link;
    *link = errand->next;
    errand->is_over = true;
    pthread_cond_broadcast(&errand->ended);
    if (errand->is_left)
        free(errand);
}

static void end_all(const struct error *reason)
{
    while (mpi_thread.given) {
        mpi_thread.given->error = *reason;
        end_errand(&mpi_thread.given);
    }
}

// Calls each errand once, without the lock while it is in MPI. Returns whether anything moved.
static bool go_round(void)
{
    bool moved = false;
    for (struct errand **link = &mpi_thread.given; *link && !mpi_thread.is_stopping;) {
        struct errand *errand = *link;
        pthread_mutex_unlock(&mpi_thread.lock);
        const enum errand_state state = errand->go(errand);
        pthread_mutex_lock(&mpi_thread.lock);
        moved |= state != ERRAND_WAITS;
        if (state == ERRAND_OVER)
            end_errand(link);
        else
            link = &errand->next;
    }
    return moved;
}

// Called under the lock, which is released meanwhile. Pauses until there is something to do: a new errand, or the
// next look at the present ones.
static void pause_after(bool moved)
{
    const bool is_idle = !mpi_thread.given;
    pthread_mutex_unlock(&mpi_thread.lock);
    if (is_idle)
        listener_sleep(mpi_thread.listener, moved);
    else
        listener_pause(mpi_thread.listener, moved);
    pthread_mutex_lock(&mpi_thread.lock);
}

static void go_on(void)
{
    static const struct error stopped = { .text = "a communicator was aborted", .kind = ERROR_MACHINE };
    pthread_mutex_lock(&mpi_thread.lock);
    mpi_thread.is_up = true;
    while (!mpi_thread.is_stopping) {
        bool moved = false;
        for (int i = 0; i < ROUNDS && !mpi_thread.is_stopping; i++)
            moved |= go_round();
        if (!mpi_thread.is_stopping)
            pause_after(moved);
    }
    mpi_thread.error = stopped;
    end_all(&stopped);
    mpi_thread.has_stopped = true;
    pthread_cond_broadcast(&mpi_thread.stopped);
    pthread_mutex_unlock(&mpi_thread.lock);
}

// --- the end of the process -------------------------------------------------------------------

struct parting {
    struct errand errand;
    MPI_Request request;
};

// A non-blocking barrier, since MPI_Finalize would wait without a pause for processes that have not come so far.
static enum errand_state go_parting(struct errand *errand)
{
    struct parting *parting = (struct parting *)errand;
    int is_done = 0, code = MPI_SUCCESS;
    if (parting->request == MPI_REQUEST_NULL)
        code = MPI_Ibarrier(mpi_thread_world.all, &parting->request);
    if (code == MPI_SUCCESS)
        code = MPI_Test(&parting->request, &is_done, MPI_STATUS_IGNORE);
    if (!mpi_error(code, "MPI_Ibarrier", &errand->error))
        return ERRAND_OVER;
    return is_done ? ERRAND_OVER : ERRAND_WAITS;
}

static enum errand_state go_finalizing(struct errand *errand)
{
    (void)errand;
    MPI_Finalize();
    return ERRAND_OVER;
}

// Whether it succeeded in time.
static bool part(enum errand_state (*go)(struct errand *errand), uint64_t seconds)
{
    const char *call;
    struct error ignored = { 0 };
    struct parting *parting = calloc(1, sizeof *parting);
    if (!parting)
        return false;
    parting->errand.go = go;
    parting->request = MPI_REQUEST_NULL;
    const bool is_given = mpi_thread_give(&parting->errand, &ignored);
    if (is_given && !mpi_thread_await(&parting->errand, clock_now_ns() + seconds * second_ns, &call))
        return false;  // it belongs to the MPI thread now
    const bool is_good = is_given && parting->errand.error.kind == ERROR_NONE;
    free(parting);
    return is_good;
}

// A launcher takes a process that ends without MPI_Finalize for one that has crashed.
static void part_from_others(int status, void *argument)
{
    (void)argument;
    pthread_mutex_lock(&mpi_thread.lock);
    const bool is_ours = mpi_thread.is_up && !mpi_thread.is_foreign && mpi_thread.process == getpid();
    pthread_mutex_unlock(&mpi_thread.lock);
    if (is_ours && part(go_parting, status == 0 ? GOOD_END_SECONDS : BAD_END_SECONDS))
        part(go_finalizing, FINALIZE_SECONDS);
}

// --- the thread -----------------------------------------------------------------------------------

// MPICH from 4.2 on tells its launcher at exit that MPI_Finalize was called. So that this handler runs before MPICH's,
// it is registered after MPI was started.
static void *be_courier(void *argument)
{
    (void)argument;
    struct error error = { 0 };
    prctl(PR_SET_TIMERSLACK, 1);  // pauses are short: wake when asked, not 50 us later
    if (start_mpi(&error) && find_world(&error)) {
        on_exit(part_from_others, NULL);
        go_on();
        return NULL;
    }
    pthread_mutex_lock(&mpi_thread.lock);
    mpi_thread.error = error;
    end_all(&error);
    pthread_mutex_unlock(&mpi_thread.lock);
    return NULL;
}

// --- for others -----------------------------------------------------------------------------------

// Called under the lock.
static bool start_thread(struct error *error)
{
    pthread_t thread;
    if (mpi_thread.has_thread)
        return true;
    if (!mpi_thread.listener && !(mpi_thread.listener = listener_create(error)))
        return false;
    if (pthread_create(&thread, NULL, be_courier, NULL) != 0)
        return error_set_kind(error, ERROR_MACHINE, "no thread could be started for MPI");
    pthread_detach(thread);
    mpi_thread.has_thread = true;
    mpi_thread.process = getpid();
    return true;
}

bool mpi_thread_give(struct errand *errand, struct error *error)
{
    pthread_mutex_lock(&mpi_thread.lock);
    const bool good = start_thread(error)
                   && (mpi_thread.error.kind == ERROR_NONE
                       || error_hand_on(error, &mpi_thread.error));
    errand->is_over = !good;
    if (good) {
        struct errand **end = &mpi_thread.given;
        while (*end)
            end = &(*end)->next;
        *end = errand;
        errand->next = NULL;
        pthread_cond_init(&errand->ended, NULL);
        listener_call(mpi_thread.listener);
    }
    pthread_mutex_unlock(&mpi_thread.lock);
    return good;
}

bool mpi_thread_await(struct errand *errand, uint64_t deadline_ns, const char **call)
{
    pthread_mutex_lock(&mpi_thread.lock);
    while (!errand->is_over && clock_wait(&errand->ended, &mpi_thread.lock, deadline_ns))
        ;
    const bool is_over = errand->is_over;
    errand->is_left = !is_over;
    *call = errand->call;
    pthread_mutex_unlock(&mpi_thread.lock);
    return is_over;
}

bool mpi_thread_is_over(struct errand *errand)
{
    pthread_mutex_lock(&mpi_thread.lock);
    const bool is_over = errand->is_over;
    pthread_mutex_unlock(&mpi_thread.lock);
    return is_over;
}

bool mpi_thread_stop(uint64_t limit_ns)
{
    const uint64_t until_ns = add_clamped(clock_now_ns(), limit_ns);
    pthread_mutex_lock(&mpi_thread.lock);
    mpi_thread.is_stopping = true;
    if (mpi_thread.listener)
        listener_call(mpi_thread.listener);
    while (mpi_thread.is_up && !mpi_thread.has_stopped
           && clock_wait(&mpi_thread.stopped, &mpi_thread.lock, until_ns))
        ;
    const bool has_stopped = !mpi_thread.is_up || mpi_thread.has_stopped;
    pthread_mutex_unlock(&mpi_thread.lock);
    return has_stopped;
}

bool mpi_thread_is_well(struct error *error)
{
    pthread_mutex_lock(&mpi_thread.lock);
    const bool is_well = mpi_thread.error.kind == ERROR_NONE
                      || error_hand_on(error, &mpi_thread.error);
    pthread_mutex_unlock(&mpi_thread.lock);
    return is_well;
}

bool mpi_thread_knows_world(struct mpi_thread_world *world)
{
    pthread_mutex_lock(&mpi_thread.lock);
    const bool is_up = mpi_thread.is_up;
    *world = mpi_thread_world;
    pthread_mutex_unlock(&mpi_thread.lock);
    return is_up;
}
