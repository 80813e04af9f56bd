#include "runtime/transport/mpi/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/transport/mpi/mpi_thread.h"

enum { PIECE_BYTES = 1 << 30 };  // MPI counts with an int

// What the bytes of a communicator's name contain.
struct name {
    char magic[8];  // "weirmpi1"
    int32_t maker;  // a process of MPI
    int32_t tag;
};
static const char magic[8] = "weirmpi1";

// An end of a communicator.
struct end {
    struct end *next;  // of this process
    struct name name;
    uint32_t ranks, rank;
    struct joining *joining;  // NULL: all have come
    int32_t processes[];      // by rank
};

// What the ends of this process share.
static struct {
    pthread_mutex_t lock;
    struct end *ends;
    int32_t made;
} own = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct communication communication(const struct device *device)
{
    (void)device;
    char words[MPI_MAX_LIBRARY_VERSION_STRING];
    struct communication communication;
    int length = 0;
    MPI_Get_library_version(words, &length);
    words[strcspn(words, ",\n")] = '\0';  // "Open MPI v4.1.4, package: ..", "MPICH Version:\t4.0.2"
    const char *version = words + strcspn(words, "0123456789");
    snprintf(communication.library, sizeof communication.library, "%.20s %.16s",
             strncmp(words, "MPICH", 5) == 0 ? "MPICH" : strncmp(words, "Open MPI", 8) == 0 ? "Open MPI" : "MPI",
             version);
    return communication;
}

static bool know_world(struct mpi_thread_world *world, struct error *error)
{
    return mpi_thread_knows_world(world)
        || (mpi_thread_is_well(error)
            && error_set_kind(error, ERROR_MACHINE,
                              "messages by MPI are between processes, a "
                              "rank each: start them by mpirun, or leave \"mpi\" out of the "
                              "device's name"));
}

static bool make_name(struct device *device, struct communicator_name *name, struct error *error)
{
    (void)device;
    struct mpi_thread_world world;
    if (!know_world(&world, error))
        return false;
    pthread_mutex_lock(&own.lock);
    const int64_t tag = (int64_t)own.made * world.ranks + world.rank;
    own.made += tag <= world.largest_tag;
    pthread_mutex_unlock(&own.lock);
    if (tag > world.largest_tag)
        return error_set_kind(error, ERROR_MACHINE, "MPI tells no more than %d communicators apart, and so many were "
                              "made", world.largest_tag);
    struct name made = { .maker = world.rank, .tag = (int32_t)tag };
    memcpy(made.magic, magic, sizeof magic);
    memset(name, 0, sizeof *name);
    memcpy(name->bytes, &made, sizeof made);
    return true;
}

// --- coming together ----------------------------------------------------------------------

struct joining {
    struct errand errand;
    struct end *end;
    bool has_begun, tells;
    int count;
    uint32_t *hellos;       // of the maker: in the order of arrival; of the others: one, its own
    MPI_Request *requests;
    MPI_Status *statuses;
};

static bool is_maker(const struct end *end)
{
    return end->name.maker == mpi_thread_world.rank;
}

// Starts the requests of each phase. The maker first receives from all others, then sends to them.
static int begin_hearing(struct joining *joining)
{
    const struct end *end = joining->end;
    int code = MPI_SUCCESS;
    for (uint32_t i = 0; i + 1 < end->ranks && code == MPI_SUCCESS; i++)
        code = MPI_Irecv(&joining->hellos[i], 1, MPI_UINT32_T, MPI_ANY_SOURCE, end->name.tag, mpi_thread_world.all,
                         &joining->requests[joining->count++]);
    return code;
}

static int begin_telling(struct joining *joining)
{
    struct end *end = joining->end;
    int code = MPI_SUCCESS;
    end->processes[end->rank] = mpi_thread_world.rank;
    for (int i = 0; i < joining->count; i++)
        if (joining->hellos[i] < end->ranks)
            end->processes[joining->hellos[i]] = joining->statuses[i].MPI_SOURCE;
    joining->count = 0;
    joining->tells = true;
    for (uint32_t rank = 0; rank < end->ranks && code == MPI_SUCCESS; rank++)
        if (rank != end->rank)
            code = MPI_Isend(end->processes, (int)end->ranks, MPI_INT32_T, end->processes[rank], end->name.tag,
                             mpi_thread_world.all, &joining->requests[joining->count++]);
    return code;
}

static int begin_coming(struct joining *joining)
{
    struct end *end = joining->end;
    joining->hellos[0] = end->rank;
    joining->count = 2;
    joining->tells = true;
    const int code = MPI_Isend(joining->hellos, 1, MPI_UINT32_T, end->name.maker, end->name.tag, mpi_thread_world.all,
                               &joining->requests[0]);
    return code != MPI_SUCCESS ? code
        : MPI_Irecv(end->processes, (int)end->ranks, MPI_INT32_T, end->name.maker, end->name.tag, mpi_thread_world.all,
                    &joining->requests[1]);
}

static enum errand_state go_joining(struct errand *errand)
{
    struct joining *joining = (struct joining *)errand;
    int are_done = 0, code = MPI_SUCCESS;
    if (!joining->has_begun)
        code = is_maker(joining->end) ? begin_hearing(joining) : begin_coming(joining);
    joining->has_begun = true;
    if (code == MPI_SUCCESS)
        code = MPI_Testall(joining->count, joining->requests, &are_done, joining->statuses);
    if (code == MPI_SUCCESS && are_done && !joining->tells) {
        code = begin_telling(joining);
        are_done = 0;
    }
    if (!mpi_error(code, "a communicator did not come up", &errand->error))
        return ERRAND_OVER;
    return are_done ? ERRAND_OVER : ERRAND_WAITS;
}

static void joining_free(struct joining *joining)
{
    if (!joining)
        return;
    free(joining->hellos);
    free(joining->requests);
    free(joining->statuses);
    free(joining);
}

static struct joining *joining_create(struct end *end)
{
    struct joining *joining = calloc(1, sizeof *joining);
    if (!joining)
        return NULL;
    *joining = (struct joining){
        .errand.go = go_joining,
        .errand.call = "MPI_Irecv",
        .end = end,
        .hellos = calloc(end->ranks + 2u, sizeof *joining->hellos),
        .requests = calloc(end->ranks + 2u, sizeof(MPI_Request)),
        .statuses = calloc(end->ranks + 2u, sizeof(MPI_Status)),
    };
    if (joining->hellos && joining->requests && joining->statuses)
        return joining;
    joining_free(joining);
    return NULL;
}

// --- ends -----------------------------------------------------------------------------------

static void unlist(const struct end *end)
{
    pthread_mutex_lock(&own.lock);
    struct end **link = &own.ends;
    while (*link && *link != end)
        link = &(*link)->next;
    if (*link)
        *link = end->next;
    pthread_mutex_unlock(&own.lock);
}

// Refuses two ends of one communicator in the same process: messages in the two directions could not be told apart.
static bool list(struct end *end, struct error *error)
{
    pthread_mutex_lock(&own.lock);
    bool is_there = false;
    for (const struct end *other = own.ends; other; other = other->next)
        is_there |= other->name.tag == end->name.tag;
    if (!is_there) {
        end->next = own.ends;
        own.ends = end;
    }
    pthread_mutex_unlock(&own.lock);
    return !is_there
        || error_set(error, "ranks of one process send each other nothing by MPI: leave \"mpi\" out of their devices' "
                     "names, or start a process for each");
}

static bool join(struct end *end, struct error *error)
{
    end->joining = joining_create(end);
    if (!end->joining)
        return error_no_memory(error, "a communicator");
    return mpi_thread_give(&end->joining->errand, error);
}

static bool open_end(struct communicator *communicator, const struct communicator_name *name, struct error *error)
{
    struct mpi_thread_world world;
    if (!know_world(&world, error))
        return false;
    struct end *end = calloc(1, sizeof *end + communicator->ranks * sizeof end->processes[0]);
    if (!end)
        return error_no_memory(error, "a communicator");
    memcpy(&end->name, name->bytes, sizeof end->name);
    end->ranks = communicator->ranks;
    end->rank = communicator->rank;
    communicator->own = end;
    if (memcmp(end->name.magic, magic, sizeof magic) != 0) {
        error_set_kind(error, ERROR_MACHINE, "a communicator's name is not one of MPI: ranks have other devices");
    } else if (list(end, error)) {
        if (join(end, error))
            return true;
        unlist(end);
        joining_free(end->joining);
    }
    free(end);
    return false;
}

// A joining belongs to the MPI thread until it is over. If it is not over, it is left to the MPI thread, together with the
// end.
static void close_end(struct communicator *communicator)
{
    struct end *end = communicator->own;
    unlist(end);
    if (end->joining && !mpi_thread_is_over(&end->joining->errand))
        return;
    joining_free(end->joining);
    free(end);
}

static bool is_ready(struct communicator *communicator, bool *ready, struct error *error)
{
    struct end *end = communicator->own;
    *ready = false;
    if (end->joining && mpi_thread_is_over(&end->joining->errand)) {
        const struct error reason = end->joining->errand.error;
        if (reason.kind != ERROR_NONE)
            return error_hand_on(error, &reason);
        joining_free(end->joining);
        end->joining = NULL;
    }
    *ready = !end->joining;
    return mpi_thread_is_well(error);
}

static bool abort_end(struct communicator *communicator, uint64_t limit_ns)
{
    (void)communicator;
    return mpi_thread_stop(limit_ns);
}

// --- messages ---------------------------------------------------------------------------------

struct exchange {
    const struct end *end;
    size_t count;
    struct message_end messages[];
};

// An exchange under way: a request for each piece of each message.
struct moving {
    struct errand errand;
    const struct exchange *exchange;
    bool has_begun;
    int left, count;
    MPI_Request *requests;
    MPI_Status *statuses;
    int *done;         // indices of finished requests
    size_t *of;        // by request: which message,
    int *bytes;        // and how many bytes of it
};

static size_t pieces_of(const struct message_end *message)
{
    return message->bytes == 0 ? 1 : (size_t)((message->bytes - 1) / PIECE_BYTES + 1);
}

static int begin_message(struct moving *moving, size_t number)
{
    const struct message_end *message = &moving->exchange->messages[number];
    const struct end *end = moving->exchange->end;
    int code = MPI_SUCCESS;
    for (size_t piece = 0; piece < pieces_of(message) && code == MPI_SUCCESS; piece++) {
        const uint64_t offset = (uint64_t)piece * PIECE_BYTES;
        char *data = (char *)message->data + offset;
        const int bytes = (int)min_u64(message->bytes - offset, PIECE_BYTES), process = end->processes[message->peer];
        MPI_Request *request = &moving->requests[moving->count];
        moving->of[moving->count] = number;
        moving->bytes[moving->count++] = bytes;
        code = message->is_send
                 ? MPI_Isend(data, bytes, MPI_BYTE, process, end->name.tag, mpi_thread_world.all, request)
                 : MPI_Irecv(data, bytes, MPI_BYTE, process, end->name.tag, mpi_thread_world.all, request);
    }
    return code;
}

static bool wrong_size(const struct moving *moving, int request, const char *sends, struct error *error)
{
    return error_set_kind(error, ERROR_MACHINE, "rank %u of a communicator sends %s bytes where rank %u expects %d",
                          moving->exchange->messages[moving->of[request]].peer, sends, moving->exchange->end->rank,
                          moving->bytes[request]);
}

// Whether a finished request has succeeded.
static bool judge(const struct moving *moving, int request, const MPI_Status *status, int code, struct error *error)
{
    int kind = MPI_SUCCESS, bytes = 0;
    char sends[16];
    if (code == MPI_ERR_IN_STATUS)
        MPI_Error_class(status->MPI_ERROR, &kind);
    if (kind == MPI_ERR_TRUNCATE)
        return wrong_size(moving, request, "more", error);
    if (kind != MPI_SUCCESS)
        return mpi_error(status->MPI_ERROR, "a message of MPI failed", error);
    if (moving->exchange->messages[moving->of[request]].is_send)
        return true;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    snprintf(sends, sizeof sends, "%d", bytes);
    return bytes == moving->bytes[request] || wrong_size(moving, request, sends, error);
}

static bool judge_all(struct moving *moving, int count, int code, struct error *error)
{
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
        return mpi_error(code, "messages of MPI failed", error);
    for (int i = 0; i < count; i++)
        if (!judge(moving, moving->done[i], &moving->statuses[i], code, error))
            return false;
    return true;
}

static enum errand_state go_moving(struct errand *errand)
{
    struct moving *moving = (struct moving *)errand;
    int count = 0, code = MPI_SUCCESS;
    for (size_t i = 0; !moving->has_begun && i < moving->exchange->count && code == MPI_SUCCESS; i++)
        code = begin_message(moving, i);
    moving->left = moving->has_begun ? moving->left : moving->count;
    moving->has_begun = true;
    if (code == MPI_SUCCESS)
        code = MPI_Testsome(moving->count, moving->requests, &count, moving->done, moving->statuses);
    count = count == MPI_UNDEFINED ? 0 : count;
    if (!judge_all(moving, count, code, &errand->error))
        return ERRAND_OVER;
    moving->left -= count;
    return moving->left == 0 ? ERRAND_OVER : count > 0 ? ERRAND_MOVED : ERRAND_WAITS;
}

static bool open_moving(struct moving *moving, const struct exchange *exchange)
{
    size_t pieces = 0;
    for (size_t i = 0; i < exchange->count; i++)
        pieces += pieces_of(&exchange->messages[i]);
    moving->errand.go = go_moving;
    moving->errand.call = "MPI_Testsome";
    moving->exchange = exchange;
    moving->requests = calloc(pieces, sizeof(MPI_Request));
    moving->statuses = calloc(pieces, sizeof(MPI_Status));
    moving->done = calloc(pieces, sizeof *moving->done);
    moving->of = calloc(pieces, sizeof *moving->of);
    moving->bytes = calloc(pieces, sizeof *moving->bytes);
    return moving->requests && moving->statuses && moving->done && moving->of && moving->bytes;
}

static void close_moving(struct moving *moving)
{
    free(moving->requests);
    free(moving->statuses);
    free(moving->done);
    free(moving->of);
    free(moving->bytes);
}

// Waits without a limit; if nothing else ends the exchange, an abort does.
static bool move(struct moving *moving, struct error *error)
{
    const char *call;
    if (!mpi_thread_give(&moving->errand, error)) {
        close_moving(moving);
        return false;
    }
    mpi_thread_await(&moving->errand, UINT64_MAX, &call);
    *error = moving->errand.error;
    close_moving(moving);
    return error->kind == ERROR_NONE;
}

static void do_exchange(struct queue *queue, const void *arguments)
{
    struct moving moving = { .exchange = NULL };
    struct error error = { 0 };
    if (!open_moving(&moving, arguments)) {
        close_moving(&moving);
        queue_fail(queue, "no memory for the messages of an exchange");
    } else if (!move(&moving, &error)) {
        queue_fail(queue, error.text);
    }
}

static void exchange(struct communicator *communicator, struct queue *queue, const struct message_end *messages,
                     size_t count)
{
    const size_t bytes = sizeof(struct exchange) + count * sizeof *messages;
    struct exchange *exchange = malloc(bytes);
    if (!exchange) {
        queue_fail(queue, "no memory for an exchange");
        return;
    }
    *exchange = (struct exchange){ communicator->own, count };
    memcpy(exchange->messages, messages, count * sizeof *messages);
    queue->device->functions->call(queue, do_exchange, exchange, bytes);
    free(exchange);
}

const struct communicator_functions mpi_communicators = {
    .communication = communication, .make_name = make_name, .open = open_end, .close = close_end,
    .is_ready = is_ready, .exchange = exchange, .abort = abort_end,
};
