// NCCL over the communicators of cpu:queued, which move messages between threads and processes of one machine: a
// communicator here is one of those, with a queue of its own that each exchange of a stream is passed on to.
//
//     ncclGroupEnd()    notes what is to be sent and received, and returns; the communicator is busy
//     a little later    it goes to its stream: an event that was recorded too early comes before it
//     in its turn       it is given to the communicator's queue, and its stream stands until that is done
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/communicator.h"
#include "tests/weir_cuda/played/played.h"

_Static_assert(sizeof(ncclUniqueId) == sizeof(struct communicator_name), "an id is a name");

enum { VERSION = 22809, MOST_ENDS = 64, MOST_REGISTERED = 16 };

struct exchange {
    struct ncclComm *comm;
    struct message_end ends[MOST_ENDS];
    size_t count;
    bool has_begun;
};

struct ncclComm {
    pthread_mutex_t lock;
    struct communicator *communicator;
    struct queue *queue;
    bool is_open, is_aborted, is_ended;
    struct error error;
    struct exchange *waiting;  // has not gone to its stream yet
    cudaStream_t stream;       // which it will
    uint64_t looks;            // by then
    size_t given;              // exchanges that are not over
    void *registered[MOST_REGISTERED];
};

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static struct device *processor;  // whose communicators these are

// What the calling thread has said since ncclGroupStart().
static _Thread_local unsigned depth;
static _Thread_local struct exchange *group;
static _Thread_local cudaStream_t group_stream;

static struct device *the_processor(void)
{
    struct error error = { 0 };
    pthread_mutex_lock(&opening);
    if (!processor && !(processor = device_open("cpu:queued", &error)))
        played_complain("%s", error.text);
    pthread_mutex_unlock(&opening);
    return processor;
}

static __attribute__((destructor)) void close_processor(void)
{
    device_close(processor);
}

// --- the library --------------------------------------------------------------------------

ncclResult_t ncclGetVersion(int *version)
{
    *version = VERSION;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : result == ncclInvalidUsage ? "invalid usage"
         : result == ncclInvalidArgument ? "invalid argument" : result == ncclRemoteError ? "remote process exited or there was a network error"
         : "internal error - please report this issue to the NCCL developers";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return comm ? comm->error.text : "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    struct error error = { 0 };
    PLAYED_CALL(ncclSystemError);
    return communicator_make_name(the_processor(), (struct communicator_name *)id, &error) ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    PLAYED_CALL(ncclUnhandledCudaError);
    played_must_not_capture(__func__);
    return played_take(memory, bytes, ON_GPU) ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *memory)
{
    PLAYED_CALL(ncclUnhandledCudaError);
    return played_give(memory, ON_GPU) ? ncclSuccess : ncclInvalidArgument;
}

// --- communicators -----------------------------------------------------------------------------

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    PLAYED_CALL(ncclSystemError);
    *comm = NULL;
    if (config->blocking != 0)
        played_complain("NCCL: a communicator that blocks");
    struct ncclComm *own = calloc(1, sizeof *own);
    if (!own)
        return ncclSystemError;
    pthread_mutex_init(&own->lock, NULL);
    own->communicator = communicator_open(the_processor(), (const struct communicator_name *)&id, (uint32_t)ranks,
                                          (uint32_t)rank, &own->error);
    own->queue = own->communicator ? queue_create(the_processor(), &own->error) : NULL;
    if (own->queue) {
        *comm = own;
        return ncclInProgress;
    }
    communicator_close(own->communicator);
    free(own);
    return ncclSystemError;
}

static bool try_exchange(void *arguments);

// To its stream. The lock is held.
static void pass_on(struct ncclComm *comm)
{
    struct exchange *exchange = comm->waiting;
    comm->waiting = NULL;
    if (played_append(comm->stream, "an exchange", NULL, try_exchange, exchange, sizeof *exchange) != cudaSuccess)
        played_complain("no memory for an exchange");
    free(exchange);
}

// What is under way. NCCL's own thread would go on by itself; here it does when it is asked, as device/cuda always does.
static ncclResult_t state_of(struct ncclComm *comm)
{
    if (comm->error.kind != ERROR_NONE)
        return ncclRemoteError;
    if (!comm->is_open) {
        bool ready = false;
        if (!communicator_is_ready(comm->communicator, &ready, &comm->error))
            return ncclRemoteError;
        comm->is_open = ready;
        return ready ? ncclSuccess : ncclInProgress;
    }
    if (comm->waiting && comm->looks > 0) {
        comm->looks--;
        return ncclInProgress;
    }
    if (comm->waiting)
        pass_on(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    PLAYED_CALL(ncclInternalError);
    pthread_mutex_lock(&comm->lock);
    if (comm->is_aborted)
        played_complain("NCCL: a communicator is asked for its state that was aborted");
    *state = state_of(comm);
    pthread_mutex_unlock(&comm->lock);
    if (*state == ncclInProgress)
        played_poll();
    return ncclSuccess;
}

static void close_comm(struct ncclComm *comm)
{
    communicator_close(comm->communicator);
    queue_free(comm->queue);
    pthread_mutex_destroy(&comm->lock);
    free(comm->waiting);
    free(comm);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    PLAYED_CALL(ncclInternalError);
    pthread_mutex_lock(&comm->lock);
    comm->is_ended = true;
    if (comm->given > 0)
        played_complain("NCCL: a communicator ends with %zu exchanges that are not over", comm->given);
    pthread_mutex_unlock(&comm->lock);
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    PLAYED_CALL(ncclInternalError);
    if (!comm->is_ended)
        played_complain("NCCL: a communicator is destroyed before its end");
    for (size_t i = 0; i < MOST_REGISTERED; i++)
        if (comm->registered[i])
            played_complain("NCCL: a communicator is destroyed with memory that is registered");
    close_comm(comm);
    return ncclSuccess;
}

// Streams that stand in an exchange go on; the rest of it is left, since one of them may be looking at it.
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    PLAYED_CALL(ncclInternalError);
    communicator_abort(comm->communicator, 1000000000);
    pthread_mutex_lock(&comm->lock);
    comm->is_aborted = true;
    pthread_mutex_unlock(&comm->lock);
    return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    PLAYED_CALL(ncclInvalidUsage);
    played_must_be_inside(memory, bytes, "memory that is registered");
    for (size_t i = 0; i < MOST_REGISTERED; i++)
        if (!comm->registered[i]) {
            comm->registered[i] = memory;
            *handle = &comm->registered[i];
            return ncclSuccess;
        }
    return ncclInvalidUsage;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    (void)comm;
    PLAYED_CALL(ncclInvalidUsage);
    *(void **)handle = NULL;
    return ncclSuccess;
}

// --- messages --------------------------------------------------------------------------------------

// An exchange whose turn has come: begun as soon as the communicator is ready, over when its queue is.
static bool try_exchange(void *arguments)
{
    struct exchange *exchange = arguments;
    struct ncclComm *comm = exchange->comm;
    bool ready = false;
    pthread_mutex_lock(&comm->lock);
    bool over = comm->is_aborted && !exchange->has_begun;
    if (!over && !exchange->has_begun
        && (!communicator_is_ready(comm->communicator, &ready, &comm->error) || ready)) {
        communicator_exchange(comm->communicator, comm->queue, exchange->ends, exchange->count);
        exchange->has_begun = true;
    }
    if (exchange->has_begun && queue_is_done(comm->queue)) {
        over = true;
        queue_report(comm->queue, &comm->error);
    }
    comm->given -= over;
    pthread_mutex_unlock(&comm->lock);
    played_counts.exchanges += over;
    return over;
}

// Which nccl.h declares without prototypes.
ncclResult_t ncclGroupStart(void);  // NOLINT(readability-redundant-declaration)
ncclResult_t ncclGroupEnd(void);    // NOLINT(readability-redundant-declaration)

ncclResult_t ncclGroupStart(void)
{
    PLAYED_CALL(ncclInternalError);
    depth++;
    return ncclSuccess;
}

static ncclResult_t add(bool is_send, void *data, size_t bytes, int peer, ncclComm_t comm, cudaStream_t stream)
{
    if (comm->is_aborted || !comm->is_open)
        played_complain("NCCL: a message on a communicator that is not open");
    if (depth == 0)
        played_complain("NCCL: a message outside of a group, which a communicator that does not block has none of");
    played_must_be_inside(data, bytes, "a message");
    if (!group && !(group = calloc(1, sizeof *group)))
        return ncclSystemError;
    if (group->count > 0 && (group->comm != comm || group_stream != stream))
        played_complain("NCCL: a group of several communicators or streams is not played");
    if (group->count == MOST_ENDS)
        played_complain("NCCL: a group of too many messages");
    group->comm = comm;
    group_stream = stream;
    group->ends[group->count++] = (struct message_end){ is_send, (uint32_t)peer, data, bytes };
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    PLAYED_CALL(ncclInvalidArgument);
    return type == ncclInt8 ? add(true, (void *)(uintptr_t)data, count, peer, comm, stream) : ncclInvalidArgument;
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    PLAYED_CALL(ncclInvalidArgument);
    return type == ncclInt8 ? add(false, data, count, peer, comm, stream) : ncclInvalidArgument;
}

ncclResult_t ncclGroupEnd(void)
{
    const bool fails = played_fails(__func__);
    if (depth == 0)
        return ncclInvalidUsage;
    if (--depth > 0 || !group)
        return ncclSuccess;
    struct exchange *exchange = group;
    struct ncclComm *comm = exchange->comm;
    group = NULL;
    if (fails) {
        free(exchange);
        return ncclSystemError;
    }
    pthread_mutex_lock(&comm->lock);
    if (comm->waiting)
        played_complain("NCCL: a communicator is given something while it is busy");
    comm->waiting = exchange;
    comm->stream = group_stream;
    comm->looks = played_draw(3);
    comm->given++;
    pthread_mutex_unlock(&comm->lock);
    return ncclInProgress;
}
