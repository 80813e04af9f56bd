#include "runtime/mpi/courier.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/listener.h"
#include "common/number.h"

// How long a process that ends waits for the others to end, too, before it leaves MPI as it is: one that has done its
// work, and one that has failed, which the others have heard of by other means. Then MPI has as long to end itself: over
// TCP, MPICH's now and then does not (docs/machines.md).
enum { GOOD_END_SECONDS = 300, BAD_END_SECONDS = 1, FINALIZE_SECONDS = 10 };
enum { ROUNDS = 3 };  // at each look: MPI reads in one what it tells of in another
static const uint64_t second_ns = 1000000000;

struct courier_world courier_world = { .all = MPI_COMM_NULL };

static struct {
    pthread_mutex_t lock;  // guards what follows
    pthread_cond_t stopped;
    struct listener *listener;  // called when something changes
    struct errand *given;       // in their order
    bool has_thread;
    bool is_up, is_foreign;         // MPI; the program has started it, and ends it
    pid_t process;                  // that has it: not what that one has forked
    bool is_stopping, has_stopped;  // courier_stop()
    struct error error;             // of starting MPI
} courier = { .lock = PTHREAD_MUTEX_INITIALIZER, .stopped = PTHREAD_COND_INITIALIZER };

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
    courier.is_foreign = is_up;
    if (is_up)
        MPI_Query_thread(&level);
    else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS || level < MPI_THREAD_FUNNELED)
        return error_set_kind(error, ERROR_MACHINE, "MPI does not start");
    return !is_up || level == MPI_THREAD_MULTIPLE
        || error_set_kind(error, ERROR_MACHINE, "this program has started MPI for its own thread alone: it is to start "
                          "it by MPI_Init_thread with MPI_THREAD_MULTIPLE, or leave that to Weir");
}

// Messages of our own are apart from those that the program may send.
static bool find_world(struct error *error)
{
    int *largest = NULL, is_there = 0;
    const int code = MPI_Comm_dup(MPI_COMM_WORLD, &courier_world.all);
    if (!mpi_error(code, "MPI_Comm_dup", error))
        return false;
    MPI_Comm_set_errhandler(courier_world.all, MPI_ERRORS_RETURN);
    MPI_Comm_rank(courier_world.all, &courier_world.rank);
    MPI_Comm_size(courier_world.all, &courier_world.ranks);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &is_there);
    courier_world.largest_tag = is_there ? *largest : 32767;
    return true;
}

// --- going ----------------------------------------------------------------------------------

static struct timespec time_of(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
}

// Under the lock; `at` is where the list has it.
static void end_errand(struct errand **at)
{
    struct errand *errand = *at;
    *at = errand->next;
    errand->is_over = true;
    pthread_cond_broadcast(&errand->ended);
    if (errand->is_left)
        free(errand);
}

static void end_all(const struct error *reason)
{
    while (courier.given) {
        courier.given->error = *reason;
        end_errand(&courier.given);
    }
}

// Each errand once, without the lock while it is in MPI. Whether anything moved.
static bool go_round(void)
{
    bool moved = false;
    for (struct errand **at = &courier.given; *at && !courier.is_stopping;) {
        struct errand *errand = *at;
        pthread_mutex_unlock(&courier.lock);
        const enum errand_state state = errand->go(errand);
        pthread_mutex_lock(&courier.lock);
        moved |= state != ERRAND_WAITS;
        if (state == ERRAND_OVER)
            end_errand(at);
        else
            at = &errand->next;
    }
    return moved;
}

// Under the lock, which it gives up meanwhile. Until there is something to do: an errand, or the next look at those
// that there are.
static void pause_after(bool moved)
{
    const bool is_idle = !courier.given;
    pthread_mutex_unlock(&courier.lock);
    if (is_idle)
        listener_sleep(courier.listener, moved);
    else
        listener_pause(courier.listener, moved);
    pthread_mutex_lock(&courier.lock);
}

static void go_on(void)
{
    static const struct error stopped = { .text = "a communicator was aborted", .kind = ERROR_MACHINE };
    pthread_mutex_lock(&courier.lock);
    courier.is_up = true;
    while (!courier.is_stopping) {
        bool moved = false;
        for (int i = 0; i < ROUNDS && !courier.is_stopping; i++)
            moved |= go_round();
        if (!courier.is_stopping)
            pause_after(moved);
    }
    courier.error = stopped;
    end_all(&stopped);
    courier.has_stopped = true;
    pthread_cond_broadcast(&courier.stopped);
    pthread_mutex_unlock(&courier.lock);
}

static void *be_courier(void *argument)
{
    (void)argument;
    struct error error = { 0 };
    prctl(PR_SET_TIMERSLACK, 1);  // pauses are short: wake when asked, not 50 us later
    if (start_mpi(&error) && find_world(&error)) {
        go_on();
        return NULL;
    }
    pthread_mutex_lock(&courier.lock);
    courier.error = error;
    end_all(&error);
    pthread_mutex_unlock(&courier.lock);
    return NULL;
}

// --- the end of the process -------------------------------------------------------------------

struct parting {
    struct errand errand;
    MPI_Request request;
};

// Without a pause, MPI_Finalize would wait for who has not come so far.
static enum errand_state go_parting(struct errand *errand)
{
    struct parting *parting = (struct parting *)errand;
    int is_done = 0, code = MPI_SUCCESS;
    if (parting->request == MPI_REQUEST_NULL)
        code = MPI_Ibarrier(courier_world.all, &parting->request);
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

// Whether it came to a good end by then.
static bool part(enum errand_state (*go)(struct errand *errand), uint64_t seconds)
{
    const char *call;
    struct error ignored = { 0 };
    struct parting *parting = calloc(1, sizeof *parting);
    if (!parting)
        return false;
    parting->errand.go = go;
    parting->request = MPI_REQUEST_NULL;
    const bool is_given = courier_give(&parting->errand, &ignored);
    if (is_given && !courier_await(&parting->errand, clock_now_ns() + seconds * second_ns, &call))
        return false;  // it is the courier's
    const bool is_good = is_given && parting->errand.error.kind == ERROR_NONE;
    free(parting);
    return is_good;
}

// A launcher takes a process that ends without MPI_Finalize for one that has crashed.
static void part_from_others(int status, void *argument)
{
    (void)argument;
    pthread_mutex_lock(&courier.lock);
    const bool is_ours = courier.is_up && !courier.is_foreign && courier.process == getpid();
    pthread_mutex_unlock(&courier.lock);
    if (is_ours && part(go_parting, status == 0 ? GOOD_END_SECONDS : BAD_END_SECONDS))
        part(go_finalizing, FINALIZE_SECONDS);
}

// --- for others -----------------------------------------------------------------------------------

// Under the lock.
static bool start_thread(struct error *error)
{
    pthread_t thread;
    if (courier.has_thread)
        return true;
    if (!courier.listener && !(courier.listener = listener_create(error)))
        return false;
    if (pthread_create(&thread, NULL, be_courier, NULL) != 0)
        return error_set_kind(error, ERROR_MACHINE, "no thread could be started for MPI");
    pthread_detach(thread);
    courier.has_thread = true;
    courier.process = getpid();
    on_exit(part_from_others, NULL);
    return true;
}

bool courier_give(struct errand *errand, struct error *error)
{
    pthread_mutex_lock(&courier.lock);
    const bool good = start_thread(error)
                   && (courier.error.kind == ERROR_NONE
                       || error_set_kind(error, courier.error.kind, "%s", courier.error.text));
    errand->is_over = !good;
    if (good) {
        struct errand **end = &courier.given;
        while (*end)
            end = &(*end)->next;
        *end = errand;
        errand->next = NULL;
        pthread_cond_init(&errand->ended, NULL);
        listener_call(courier.listener);
    }
    pthread_mutex_unlock(&courier.lock);
    return good;
}

bool courier_await(struct errand *errand, uint64_t deadline_ns, const char **call)
{
    const struct timespec until = time_of(deadline_ns);
    int trouble = 0;
    pthread_mutex_lock(&courier.lock);
    while (!errand->is_over && trouble == 0)
        trouble = pthread_cond_clockwait(&errand->ended, &courier.lock, CLOCK_MONOTONIC, &until);
    const bool is_over = errand->is_over;
    errand->is_left = !is_over;
    *call = errand->call;
    pthread_mutex_unlock(&courier.lock);
    return is_over;
}

bool courier_is_over(struct errand *errand)
{
    pthread_mutex_lock(&courier.lock);
    const bool is_over = errand->is_over;
    pthread_mutex_unlock(&courier.lock);
    return is_over;
}

bool courier_stop(uint64_t limit_ns)
{
    const struct timespec until = time_of(add_clamped(clock_now_ns(), limit_ns));
    int trouble = 0;
    pthread_mutex_lock(&courier.lock);
    courier.is_stopping = true;
    if (courier.listener)
        listener_call(courier.listener);
    while (courier.is_up && !courier.has_stopped && trouble == 0)
        trouble = pthread_cond_clockwait(&courier.stopped, &courier.lock, CLOCK_MONOTONIC, &until);
    const bool has_stopped = !courier.is_up || courier.has_stopped;
    pthread_mutex_unlock(&courier.lock);
    return has_stopped;
}

bool courier_is_well(struct error *error)
{
    pthread_mutex_lock(&courier.lock);
    const bool is_well = courier.error.kind == ERROR_NONE
                      || error_set_kind(error, courier.error.kind, "%s", courier.error.text);
    pthread_mutex_unlock(&courier.lock);
    return is_well;
}

bool courier_knows_world(struct courier_world *world)
{
    pthread_mutex_lock(&courier.lock);
    const bool is_up = courier.is_up;
    *world = courier_world;
    pthread_mutex_unlock(&courier.lock);
    return is_up;
}
