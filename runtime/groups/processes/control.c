#include "runtime/groups/processes/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/number.h"
#include "common/utf8.h"
#include "runtime/groups/processes/frames.h"
#include "runtime/groups/processes/joining.h"

enum { BEAT_MS = 500 };
static const uint64_t second_ns = 1000000000;

struct part {  // what a rank contributes
    unsigned char *data;  // NULL until it has come
    uint64_t bytes;
};

// An exchange under way. Rank 0 collects the parts, the others wait for all of it.
struct exchange {
    uint64_t number;      // of the current exchange, or the next
    struct part *parts;   // rank 0: by rank
    uint32_t count;       // of the parts that are there
    struct part all;      // on other ranks: all parts, one after the other
};

struct control {
    struct launch launch;
    struct control_settings settings;
    struct peer *peers;  // by rank; rank 0 has all others, the others have rank 0
    pthread_t thread;
    bool has_thread;
    int wake;  // an eventfd: the thread must end, or look at which rank has come
    _Atomic bool is_ending;

    pthread_mutex_t sending;  // around every write to a socket, so that frames stay whole, and every change of one
    pthread_mutex_t lock;     // guards what follows
    pthread_cond_t changed;
    struct exchange exchange;
    struct error failure;
    _Atomic bool has_failed;
    _Atomic uint64_t *lines;  // by rank
};

static bool is_first(const struct control *control)
{
    return control->launch.rank == 0;
}

// Called under `sending`.
static void send_locked(struct control *control, uint32_t rank, struct frame frame, const void *data)
{
    frame.from = control->launch.rank;
    if (control->peers[rank].socket >= 0)
        // A broken connection is noticed by the thread that reads it
        frame_write(control->peers[rank].socket, frame, data);
}

static void send_to(struct control *control, uint32_t rank, struct frame frame, const void *data)
{
    pthread_mutex_lock(&control->sending);
    send_locked(control, rank, frame, data);
    pthread_mutex_unlock(&control->sending);
}

// From rank 0 to every rank but one (rank 0 itself: to all). Nothing else is sent in between: a rank that ends as
// soon as it has this must not be reported to others before they have it too.
static void send_to_all_but(struct control *control, uint32_t but, struct frame frame, const void *data)
{
    pthread_mutex_lock(&control->sending);
    for (uint32_t rank = 1; is_first(control) && rank < control->launch.ranks; rank++)
        if (rank != but)
            send_locked(control, rank, frame, data);
    pthread_mutex_unlock(&control->sending);
}

// --- failures ---------------------------------------------------------------------------

// Keeps the first failure, and passes it on to every rank except the one that reported it.
static void fail(struct control *control, uint32_t reporter, const struct error *reason)
{
    pthread_mutex_lock(&control->lock);
    const bool is_news = control->failure.kind == ERROR_NONE;
    if (is_news)
        control->failure = *reason;
    atomic_store(&control->has_failed, true);
    pthread_cond_broadcast(&control->changed);
    pthread_mutex_unlock(&control->lock);
    const struct frame frame = { .kind = FRAME_FAIL, .bytes = sizeof *reason };
    if (is_news && is_first(control))
        send_to_all_but(control, reporter, frame, reason);
    else if (is_news && reporter == control->launch.rank)
        send_to(control, 0, frame, reason);
}

static void fail_of_peer(struct control *control, uint32_t rank, const char *how)
{
    const struct peer *peer = &control->peers[rank];
    struct error reason = { 0 };
    error_set_kind(&reason, ERROR_MACHINE, "rank %u (process %u on %s) %s", rank, peer->process, peer->host, how);
    fail(control, rank, &reason);
}

static bool is_well(void *self, struct error *error)
{
    struct control *control = self;
    if (!atomic_load(&control->has_failed))
        return !control->peers[0].left
            || error_set_kind(error, ERROR_MACHINE, "rank %u: rank 0 has ended before this rank had",
                              control->launch.rank);
    pthread_mutex_lock(&control->lock);
    const struct error failure = control->failure;
    pthread_mutex_unlock(&control->lock);
    return error_hand_on(error, &failure);
}

static void abandon(void *self, const struct error *reason)
{
    struct control *control = self;
    fail(control, control->launch.rank, reason);
}

// --- lines ------------------------------------------------------------------------------

static void beat(struct control *control)
{
    if (!is_first(control)) {
        const uint64_t line = atomic_load(&control->lines[control->launch.rank]);
        send_to(control, 0, (struct frame){ .kind = FRAME_LINE, .bytes = sizeof line }, &line);
        return;
    }
    const uint64_t bytes = control->launch.ranks * sizeof(uint64_t);
    uint64_t *lines = malloc(bytes);
    if (!lines)
        return;  // the next beat may have memory
    for (uint32_t rank = 0; rank < control->launch.ranks; rank++)
        lines[rank] = atomic_load(&control->lines[rank]);
    send_to_all_but(control, 0, (struct frame){ .kind = FRAME_LINES, .bytes = bytes }, lines);
    free(lines);
}

static void take_lines(struct control *control, const uint64_t *lines)
{
    for (uint32_t rank = 0; rank < control->launch.ranks; rank++)
        if (rank != control->launch.rank)
            atomic_store(&control->lines[rank], lines[rank]);
}

// --- exchanges ----------------------------------------------------------------------------

// What a rank contributes, on rank 0, under the lock. False if the rank is at another exchange.
static bool bring(struct control *control, uint32_t rank, uint64_t number, const void *data, uint64_t bytes)
{
    struct exchange *exchange = &control->exchange;
    struct part *part = &exchange->parts[rank];
    if (number != exchange->number || part->data || !(part->data = malloc(bytes + 1)))
        return false;
    part->bytes = bytes;
    if (bytes > 0)
        memcpy(part->data, data, bytes);
    exchange->count++;
    pthread_cond_broadcast(&control->changed);
    return true;
}

// The current exchange is over.
static void next_exchange(struct control *control)
{
    struct exchange *exchange = &control->exchange;
    for (uint32_t rank = 0; rank < control->launch.ranks; rank++) {
        free(exchange->parts[rank].data);
        exchange->parts[rank] = (struct part){ 0 };
    }
    free(exchange->all.data);
    *exchange = (struct exchange){ .number = exchange->number + 1, .parts = exchange->parts };
}

static bool is_over(const struct control *control)
{
    return is_first(control) ? control->exchange.count == control->launch.ranks : control->exchange.all.data != NULL;
}

static bool nobody_contributed(const struct control *control, struct error *error)
{
    uint32_t missing = 0;
    while (is_first(control) && missing + 1 < control->launch.ranks && control->exchange.parts[missing].data)
        missing++;
    char limit[NUMBER_SIZE];
    return error_set_kind(error, ERROR_MACHINE, "rank %u: rank %u has not come to where all ranks meet within %s",
                          control->launch.rank, missing, time_format(control->settings.deadline_ns, limit));
}

// A rank that has said goodbye contributes nothing any more.
static bool somebody_left(const struct control *control, struct error *error)
{
    for (uint32_t rank = 0; rank < control->launch.ranks; rank++)
        if (control->peers[rank].left && !(is_first(control) && control->exchange.parts[rank].data))
            return error_set_kind(error, ERROR_MACHINE, "rank %u: rank %u has ended, and all ranks were to meet",
                                  control->launch.rank, rank);
    return true;
}

// Waits until the exchange is over, under the lock.
static bool await_exchange(struct control *control, struct error *error)
{
    const uint64_t deadline_ns = add_clamped(clock_now_ns(), control->settings.deadline_ns);
    while (!is_over(control) && control->failure.kind == ERROR_NONE) {
        if (!somebody_left(control, error))
            return false;
        clock_wait(&control->changed, &control->lock, deadline_ns);
        if (!is_over(control) && clock_now_ns() >= deadline_ns)
            return nobody_contributed(control, error);
    }
    return is_over(control) || error_hand_on(error, &control->failure);
}

static bool wrong_bytes(const struct control *control, uint64_t expected, uint64_t came, struct error *error)
{
    return error_set_kind(
        error, ERROR_MACHINE,
        "rank %u expects %llu bytes where all ranks meet, and gets %llu: ranks do other things, or not in one order",
        control->launch.rank, (unsigned long long)expected, (unsigned long long)came);
}

// Joins all parts, one after the other, under the lock.
static bool join_parts(const struct control *control, void *all, uint64_t whole, struct error *error)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < control->launch.ranks; rank++)
        bytes += control->exchange.parts[rank].bytes;
    if (bytes != whole)
        return wrong_bytes(control, whole, bytes, error);
    for (uint32_t rank = 0; rank < control->launch.ranks; rank++) {
        const struct part *part = &control->exchange.parts[rank];
        if (part->bytes > 0)
            memcpy(all, part->data, part->bytes);
        all = (char *)all + part->bytes;
    }
    return true;
}

static bool exchange_on_first(struct control *control, const void *sent, uint64_t bytes, void *all, uint64_t whole,
                              struct error *error)
{
    pthread_mutex_lock(&control->lock);
    const uint64_t number = control->exchange.number;
    bool good = bring(control, 0, number, sent, bytes) || error_no_memory(error, "what ranks exchange");
    good = good && await_exchange(control, error) && join_parts(control, all, whole, error);
    if (good)
        next_exchange(control);
    pthread_mutex_unlock(&control->lock);
    if (good)
        send_to_all_but(control, 0, (struct frame){ .kind = FRAME_ALL, .number = number, .bytes = whole }, all);
    return good;
}

static bool exchange_elsewhere(struct control *control, const void *sent, uint64_t bytes, void *all, uint64_t whole,
                               struct error *error)
{
    send_to(control, 0, (struct frame){ .kind = FRAME_BRING, .number = control->exchange.number, .bytes = bytes },
            sent);
    pthread_mutex_lock(&control->lock);
    bool good = await_exchange(control, error);
    const struct part *came = &control->exchange.all;
    if (good && came->bytes != whole)
        good = wrong_bytes(control, whole, came->bytes, error);
    if (good && whole > 0)
        memcpy(all, came->data, whole);
    if (good)
        next_exchange(control);
    pthread_mutex_unlock(&control->lock);
    return good;
}

// Exchanges this rank's bytes for those of all; both may be at the same address. A rank that gives up tells the
// others why, as they may be working.
static bool exchange(struct control *control, const void *sent, uint64_t bytes, void *all, uint64_t whole,
                     struct error *error)
{
    const bool good = is_first(control) ? exchange_on_first(control, sent, bytes, all, whole, error)
                                        : exchange_elsewhere(control, sent, bytes, all, whole, error);
    if (!good)
        abandon(control, error);
    return good;
}

static bool all_gather(void *self, const void *sent, uint64_t bytes, void *all, struct error *error)
{
    struct control *control = self;
    return exchange(control, sent, bytes, all, control->launch.ranks * bytes, error);
}

static bool broadcast(void *self, uint32_t from, void *data, uint64_t bytes, struct error *error)
{
    struct control *control = self;
    return exchange(control, data, control->launch.rank == from ? bytes : 0, data, bytes, error);
}

static bool take_contribution(struct control *control, const struct frame *frame, const void *data)
{
    pthread_mutex_lock(&control->lock);
    const bool good = is_first(control) && bring(control, frame->from, frame->number, data, frame->bytes);
    pthread_mutex_unlock(&control->lock);
    return good;
}

// Takes over the data.
static bool take_all(struct control *control, const struct frame *frame, unsigned char *data)
{
    pthread_mutex_lock(&control->lock);
    const bool good = frame->number == control->exchange.number && !control->exchange.all.data;
    if (good) {
        control->exchange.all = (struct part){ data, frame->bytes };
        pthread_cond_broadcast(&control->changed);
    }
    pthread_mutex_unlock(&control->lock);
    return good;
}

// --- the thread -----------------------------------------------------------------------------

static void take_failure(struct control *control, const struct frame *frame, const void *data)
{
    struct error reason;
    memcpy(&reason, data, sizeof reason);
    utf8_make_printable(reason.text, sizeof reason.text);
    if (reason.kind != ERROR_ANSWER && reason.kind != ERROR_INPUT)
        reason.kind = ERROR_MACHINE;
    fail(control, frame->from, &reason);
}

// Handles a frame that is possible (frame_is_possible()). False if it comes at the wrong time.
static bool take_frame(struct control *control, const struct frame *frame, unsigned char **data)
{
    uint64_t line;
    switch (frame->kind) {
    case FRAME_BRING:
        return take_contribution(control, frame, *data);
    case FRAME_ALL:
        if (!take_all(control, frame, *data))
            return false;
        *data = NULL;  // it belongs to the exchange
        return true;
    case FRAME_LINE:
        memcpy(&line, *data, sizeof line);
        atomic_store(&control->lines[frame->from], line);
        return true;
    case FRAME_LINES:
        take_lines(control, (const uint64_t *)*data);
        return true;
    case FRAME_FAIL:
        take_failure(control, frame, *data);
        return true;
    case FRAME_GOODBYE:
        pthread_mutex_lock(&control->lock);
        control->peers[frame->from].left = true;
        pthread_cond_broadcast(&control->changed);
        pthread_mutex_unlock(&control->lock);
        return true;
    default:
        return false;
    }
}

// Reads from a rank. False, with errno, if that fails or is no valid frame.
static bool take_next(struct control *control, uint32_t rank, bool *is_open)
{
    const int socket = control->peers[rank].socket;
    struct frame frame;
    unsigned char *data = NULL;
    *is_open = socket_read(socket, &frame, sizeof frame);
    const bool good = *is_open && frame.from == rank
                   && frame_is_possible(&frame, is_first(control), control->launch.ranks)
                   && (data = frame_read_data(socket, frame.bytes)) && take_frame(control, &frame, &data);
    free(data);
    return good;
}

// A rank's socket has something to read.
static void listen_to(struct control *control, uint32_t rank)
{
    struct peer *peer = &control->peers[rank];
    bool is_open;
    errno = 0;
    const bool good = take_next(control, rank, &is_open);
    const bool stalled = !good && (errno == EAGAIN || errno == EWOULDBLOCK);
    peer->heard_ns = clock_now_ns();
    if (good && !peer->left)
        return;
    if (!peer->left)
        fail_of_peer(control, rank, stalled ? "went silent within a message: it was stopped, or its machine is gone"
                                  : is_open ? "sent what nobody understands: its connection is lost"
                                            : "ended without a word: it was killed, or it crashed");
    pthread_mutex_lock(&control->sending);
    close(peer->socket);
    peer->socket = -1;
    pthread_mutex_unlock(&control->sending);
}

// A rank that was stopped keeps its connection, and sends nothing.
static void judge_silence(struct control *control, const struct pollfd *watched)
{
    const uint64_t now = clock_now_ns();
    for (uint32_t rank = 0; rank < control->launch.ranks; rank++) {
        const struct peer *peer = &control->peers[rank];
        if (watched[rank].fd >= 0 && now - peer->heard_ns > control->settings.silence_ns
            && !atomic_load(&control->has_failed)) {
            char how[100], limit[NUMBER_SIZE];
            snprintf(how, sizeof how, "has said nothing for %s: it was stopped, or its machine is gone",
                     time_format(control->settings.silence_ns, limit));
            fail_of_peer(control, rank, how);
        }
    }
}

// Which ranks are there now: others come while ranks join.
static void look_at_peers(struct control *control, struct pollfd *watched)
{
    const uint32_t ranks = control->launch.ranks;
    pthread_mutex_lock(&control->sending);
    for (uint32_t rank = 0; rank < ranks; rank++)
        watched[rank] = (struct pollfd){ .fd = control->peers[rank].socket, .events = POLLIN };
    pthread_mutex_unlock(&control->sending);
    watched[ranks] = (struct pollfd){ .fd = control->wake, .events = POLLIN };
}

static void wake(struct control *control)
{
    const uint64_t one = 1;
    while (write(control->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;  // a counter that is full wakes the thread, too
}

static void *watch(void *argument)
{
    struct control *control = argument;
    const uint32_t ranks = control->launch.ranks;
    struct pollfd *watched = calloc(ranks + 1u, sizeof *watched);
    uint64_t last_beat_ns = 0, wakes;
    struct error no_memory = { 0 };
    if (!watched) {
        error_no_memory(&no_memory, "watching other ranks");
        fail(control, control->launch.rank, &no_memory);
        return NULL;
    }
    while (!atomic_load(&control->is_ending)) {
        look_at_peers(control, watched);
        poll(watched, ranks + 1, BEAT_MS);
        if (watched[ranks].revents && read(control->wake, &wakes, sizeof wakes) > 0)
            continue;
        for (uint32_t rank = 0; rank < ranks; rank++)
            if (watched[rank].revents)
                listen_to(control, rank);
        if (clock_now_ns() - last_beat_ns >= BEAT_MS * (uint64_t)1000000) {
            look_at_peers(control, watched);  // without the sockets that were just closed
            judge_silence(control, watched);
            beat(control);
            last_beat_ns = clock_now_ns();
        }
    }
    free(watched);
    return NULL;
}

// --- making and freeing ------------------------------------------------------------------------

static bool open_locks(struct control *control)
{
    pthread_mutex_init(&control->sending, NULL);
    pthread_mutex_init(&control->lock, NULL);
    pthread_cond_init(&control->changed, NULL);
    control->wake = eventfd(0, EFD_CLOEXEC);
    return control->wake >= 0;
}

static struct control *create(const struct launch *launch, const struct control_settings *settings,
                              struct error *error)
{
    struct control *control = calloc(1, sizeof *control);
    if (!control)
        return error_null(error_no_memory(error, "the connection between ranks"));
    control->launch = *launch;
    control->settings = *settings;
    control->settings.deadline_ns = settings->deadline_ns ? settings->deadline_ns : 300 * second_ns;
    control->settings.silence_ns = settings->silence_ns ? settings->silence_ns : 30 * second_ns;
    control->settings.patience_ns = settings->patience_ns ? settings->patience_ns : 10 * second_ns;
    control->settings.telling_ns = settings->telling_ns ? settings->telling_ns : 10 * second_ns;
    control->peers = calloc(launch->ranks, sizeof *control->peers);
    control->lines = calloc(launch->ranks, sizeof *control->lines);
    control->exchange.parts = calloc(launch->ranks, sizeof *control->exchange.parts);
    for (uint32_t rank = 0; control->peers && rank < launch->ranks; rank++)
        control->peers[rank].socket = -1;
    if (!open_locks(control) || !control->peers || !control->lines || !control->exchange.parts) {
        error_no_memory(error, "the connection between ranks");
        control_close(control);
        return NULL;
    }
    return control;
}

// A rank has come, and is watched from now on.
static void admit(void *self, uint32_t rank, const struct peer *peer)
{
    struct control *control = self;
    const int flags = fcntl(peer->socket, F_GETFL);
    fcntl(peer->socket, F_SETFL, flags & ~O_NONBLOCK);
    pthread_mutex_lock(&control->sending);
    struct peer *entry = &control->peers[rank];
    entry->process = peer->process;
    memcpy(entry->host, peer->host, sizeof entry->host);
    entry->heard_ns = peer->heard_ns;
    entry->socket = peer->socket;
    pthread_mutex_unlock(&control->sending);
    wake(control);
}

// While ranks meet: whether no rank that has come has failed, or left.
static bool goes_on(void *self, struct error *error)
{
    struct control *control = self;
    pthread_mutex_lock(&control->lock);
    const bool good = control->failure.kind == ERROR_NONE ? somebody_left(control, error)
                    : error_hand_on(error, &control->failure);
    pthread_mutex_unlock(&control->lock);
    return good;
}

static bool meet_all(struct control *control, struct error *error)
{
    const uint64_t start_ns = clock_now_ns(), within_ns = control->launch.start_within_ns;
    const struct joining joining = {
        .launch = &control->launch, .settings = &control->settings, .start_ns = start_ns,
        .deadline_ns = add_clamped(start_ns, within_ns ? within_ns : control->settings.deadline_ns),
        .admit = admit, .goes_on = goes_on, .self = control,
    };
    if (control->launch.ranks == 1)
        return true;
    control->has_thread = pthread_create(&control->thread, NULL, watch, control) == 0;
    if (!control->has_thread)
        return error_set_kind(error, ERROR_MACHINE, "no thread could be started to watch other ranks");
    // When all ranks have come rank 0 refuses none any more; until then it may.
    if (join_ranks(&joining, error) && all_gather(control, NULL, 0, NULL, error))
        return true;
    abandon(control, error);  // the ranks that have come learn why there will be no run
    return false;
}

struct control *control_open(const struct launch *launch, const struct control_settings *settings,
                             struct error *error)
{
    struct control *control = create(launch, settings, error);
    if (control && !meet_all(control, error)) {
        control_close(control);
        return NULL;
    }
    return control;
}

void control_close(struct control *control)
{
    if (!control)
        return;
    const struct frame goodbye = { .kind = FRAME_GOODBYE };
    // The thread may be about to pass on a failure of which this rank learned before the others. What comes after a
    // goodbye is not read any more, so the thread ends first.
    atomic_store(&control->is_ending, true);
    if (control->has_thread) {
        wake(control);
        pthread_join(control->thread, NULL);
    }
    for (uint32_t rank = 0; control->peers && rank < control->launch.ranks; rank++)
        send_to(control, rank, goodbye, NULL);
    for (uint32_t rank = 0; control->peers && rank < control->launch.ranks; rank++)
        if (control->peers[rank].socket >= 0)
            close(control->peers[rank].socket);
    if (control->wake >= 0)
        close(control->wake);
    pthread_cond_destroy(&control->changed);
    pthread_mutex_destroy(&control->lock);
    pthread_mutex_destroy(&control->sending);
    if (control->exchange.parts)
        next_exchange(control);
    free(control->exchange.parts);
    free((void *)control->lines);
    free(control->peers);
    free(control);
}

// --- as a process group ---------------------------------------------------------------------------

struct process_group control_group(struct control *control)
{
    return (struct process_group){
        .self = control, .rank = control->launch.rank, .ranks = control->launch.ranks, .board = control->lines,
        .all_gather = all_gather, .broadcast = broadcast, .is_well = is_well, .abandon = abandon,
    };
}
