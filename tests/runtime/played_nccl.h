// Does what the tapes of all ranks say (recording_device.h), as streams and NCCL would:
//
//     a stream      does its calls in order; a wait stands until the call it is for is done
//     a connection  is how streams reach the GPU: what takes the same one begins in the order in which it was
//                   given, even on different streams (CUDA_DEVICE_MAX_CONNECTIONS)
//     an exchange   stands at its stream's head until all of its messages have met theirs; a thread of NCCL's
//                   launches it some time between its call and the end's being ready again
//     launch order  if it is kept (NCCL_LAUNCH_ORDER_IMPLICIT=1), an exchange begins when all that were launched before
//                   it on this device have begun, and two that are launched at a time are an error (NCCL's
//                   NCCL_LAUNCH_RACE_FATAL)
//     messages      pair by their order alone: what a rank sends to another first on a communicator is what
//                   that one first receives from it there, whatever either was meant for
//     a host        asks for nothing behind a fence before that is reached
//
// Which stream is next is drawn by lot: what comes out must not depend on it. Times do
// not either: a call begins when all that it waits for is done, work takes what it says,
// and messages take no time.
#ifndef TESTS_RUNTIME_PLAYED_NCCL_H
#define TESTS_RUNTIME_PLAYED_NCCL_H

#include "tests/runtime/recording_device.h"

enum { MOST_CONNECTIONS = 32, FAULT_SIZE = 300 };

struct played_rules {
    uint32_t connections;  // of each device: 8 where nothing is set
    bool launch_order;
};
// What the GPU part sets (device/cuda/cuda_environment.c).
static const struct played_rules shipped_rules = { .connections = MOST_CONNECTIONS };

// Calls of a rank that begin one after the other.
struct line {
    size_t *calls, count, next;
    uint64_t begun_ns;  // when the one before the next did
};

struct player {
    struct tape *tapes;
    uint32_t ranks;
    uint64_t seed;
    struct played_rules rules;
    struct line (*lines)[MOST_CONNECTIONS + 1];  // by rank: its connections, and behind them its launches
    size_t (*heads)[MOST_STREAMS];  // by rank: the next call of each stream
    size_t *hosts;                  // by rank: the first fence that is not reached
    uint64_t *host_ns;
    uint64_t messages;
    char fault[FAULT_SIZE];
};

static inline size_t next_on_stream(const struct tape *tape, size_t at, uint32_t stream)
{
    while (at < tape->count && tape->calls[at].stream != stream)
        at++;
    return at;
}

static inline size_t next_fence(const struct tape *tape, size_t at)
{
    while (at < tape->count && tape->calls[at].kind != CALL_FENCE)
        at++;
    return at;
}

// --- in which order calls begin -----------------------------------------------------------

struct placed {
    size_t at, call;
};

static inline int compare_placed(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;
    return a->at != b->at ? (a->at < b->at ? -1 : 1) : (a->call > b->call) - (a->call < b->call);
}

// Where among the calls an exchange is launched, and the wait behind it given: before its end is ready, and before
// the host waits for anything.
static inline size_t launched_at(struct player *player, const struct tape *tape, size_t exchange)
{
    const size_t fence = next_fence(tape, exchange), ready = tape->calls[exchange].ready_at;
    const size_t until = ready > 0 && ready < fence ? ready : fence;
    return exchange + (size_t)random_below(&player->seed, until - exchange);
}

static inline void line_add(struct line *line, size_t room, size_t call)
{
    if (!line->calls)
        line->calls = malloc(room * sizeof line->calls[0]);
    assert_non_null(line->calls);
    line->calls[line->count++] = call;
}

static inline bool is_given_to_the_device(const struct call *call)
{
    return call->kind != CALL_FENCE;
}

static inline void open_lines(struct player *player, uint32_t rank)
{
    const struct tape *tape = &player->tapes[rank];
    struct placed *placed = malloc((tape->count + 1) * sizeof *placed);
    assert_non_null(placed);
    for (size_t i = 0; i < tape->count; i++) {
        placed[i] = (struct placed){ i, i };
        if (tape->calls[i].kind == CALL_EXCHANGE)
            placed[i].at = launched_at(player, tape, i);
        else if (i > 0 && tape->calls[i].of == (long)i - 1 && tape->calls[i - 1].kind == CALL_EXCHANGE)
            placed[i].at = placed[i - 1].at;
    }
    qsort(placed, tape->count, sizeof *placed, compare_placed);
    for (size_t i = 0; i < tape->count; i++) {
        const struct call *call = &tape->calls[placed[i].call];
        if (is_given_to_the_device(call))
            line_add(&player->lines[rank][call->stream % player->rules.connections], tape->count, placed[i].call);
        if (call->kind == CALL_EXCHANGE && player->rules.launch_order)
            line_add(&player->lines[rank][MOST_CONNECTIONS], tape->count, placed[i].call);
    }
    free(placed);
}

static inline bool is_next(const struct line *line, size_t call)
{
    return line->next < line->count && line->calls[line->next] == call;
}

static inline bool may_begin(const struct player *player, uint32_t rank, size_t at)
{
    const struct call *call = &player->tapes[rank].calls[at];
    return call->is_under_way || !is_given_to_the_device(call)
        || (is_next(&player->lines[rank][call->stream % player->rules.connections], at)
            && (call->kind != CALL_EXCHANGE || !player->rules.launch_order
                || is_next(&player->lines[rank][MOST_CONNECTIONS], at)));
}

static inline void line_begin(struct line *line, struct call *call)
{
    if (call->start_ns < line->begun_ns)
        call->start_ns = line->begun_ns;
    line->begun_ns = call->start_ns;
    line->next++;
}

static inline void begin(struct player *player, uint32_t rank, struct call *call)
{
    struct line *lines = player->lines[rank];
    call->is_under_way = true;
    if (!is_given_to_the_device(call))
        return;
    line_begin(&lines[call->stream % player->rules.connections], call);
    if (call->kind == CALL_EXCHANGE && player->rules.launch_order)
        line_begin(&lines[MOST_CONNECTIONS], call);
}

// Two exchanges of a device that are launched at a time.
static inline bool launches_race(const struct tape *tape)
{
    for (size_t i = 0; i < tape->count; i++)
        for (size_t j = i + 1; tape->calls[i].kind == CALL_EXCHANGE && j < tape->calls[i].ready_at; j++)
            if (tape->calls[j].kind == CALL_EXCHANGE)
                return true;
    return false;
}

// --- playing ---------------------------------------------------------------------------------

static inline void player_open(struct player *player, struct tape *tapes, uint32_t ranks, uint64_t seed,
                               struct played_rules rules)
{
    *player = (struct player){ .tapes = tapes, .ranks = ranks, .seed = seed, .rules = rules,
                               .lines = calloc(ranks, sizeof *player->lines),
                               .heads = calloc(ranks, sizeof *player->heads),
                               .hosts = calloc(ranks, sizeof *player->hosts),
                               .host_ns = calloc(ranks, sizeof *player->host_ns) };
    assert_true(player->lines && player->heads && player->hosts && player->host_ns);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        open_lines(player, rank);
        if (rules.launch_order && launches_race(&tapes[rank]))
            snprintf(player->fault, sizeof player->fault, "rank %u: host threads racing to launch NCCL on same device",
                     rank);
        for (uint32_t stream = 0; stream < tapes[rank].streams; stream++)
            player->heads[rank][stream] = next_on_stream(&tapes[rank], 0, stream);
        player->hosts[rank] = next_fence(&tapes[rank], 0);
    }
}

static inline void player_close(struct player *player)
{
    for (uint32_t rank = 0; rank < player->ranks; rank++)
        for (uint32_t i = 0; i <= MOST_CONNECTIONS; i++)
            free(player->lines[rank][i].calls);
    free(player->lines);
    free(player->heads);
    free(player->hosts);
    free(player->host_ns);
}

static inline bool same_name(const struct communicator_name *a, const struct communicator_name *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

// The message at the other end that a message meets: the first of the exchange that is under way there.
static inline struct call *partner_of(struct player *player, uint32_t rank, const struct call *call, size_t message,
                                      size_t *its)
{
    const struct message_end *mine = &call->ends[message];
    for (uint32_t other = 0; other < player->ranks; other++) {
        const struct tape *tape = &player->tapes[other];
        for (uint32_t stream = 0; other != rank && stream < tape->streams; stream++) {
            const size_t head = player->heads[other][stream];
            struct call *call_there = head < tape->count ? &tape->calls[head] : NULL;
            if (!call_there || call_there->kind != CALL_EXCHANGE || !call_there->is_under_way
                || !same_name(&call_there->name, &call->name) || call_there->own_end != mine->peer)
                continue;
            for (*its = 0; *its < call_there->end_count; ++*its)
                if (!call_there->end_is_done[*its] && call_there->ends[*its].peer == call->own_end
                    && call_there->ends[*its].is_send != mine->is_send)
                    return call_there;
        }
    }
    return NULL;
}

static inline void deliver(struct player *player, struct call *call, size_t message, struct call *other, size_t its)
{
    const struct message_end *mine = &call->ends[message], *theirs = &other->ends[its];
    const struct message_end *from = mine->is_send ? mine : theirs, *to = mine->is_send ? theirs : mine;
    if (from->bytes != to->bytes)
        snprintf(player->fault, sizeof player->fault, "on communicator %s %llu bytes are sent where %llu are received",
                 (const char *)call->name.bytes, (unsigned long long)from->bytes, (unsigned long long)to->bytes);
    else
        memcpy(to->data, from->data, to->bytes);
    const uint64_t met_ns = call->start_ns > other->start_ns ? call->start_ns : other->start_ns;
    call->done_ns = met_ns > call->done_ns ? met_ns : call->done_ns;
    other->done_ns = met_ns > other->done_ns ? met_ns : other->done_ns;
    call->end_is_done[message] = other->end_is_done[its] = true;
    player->messages++;
}

static inline bool is_first_of_its_kind(const struct call *call, size_t message)
{
    for (size_t i = 0; i < message; i++)
        if (!call->end_is_done[i] && call->ends[i].peer == call->ends[message].peer
            && call->ends[i].is_send == call->ends[message].is_send)
            return false;
    return true;
}

static inline bool exchange_moves(struct player *player, uint32_t rank, struct call *call, bool *moved)
{
    bool all = true;
    for (size_t i = 0; i < call->end_count; i++) {
        size_t its;
        struct call *other = !call->end_is_done[i] && is_first_of_its_kind(call, i)
                                 ? partner_of(player, rank, call, i, &its) : NULL;
        if (other)
            deliver(player, call, i, other, its);
        *moved |= other != NULL;
        all &= call->end_is_done[i];
    }
    return all;
}

// Does the call at the head of a stream, if it can be done now; whether anything moved.
static inline bool stream_moves(struct player *player, uint32_t rank, uint32_t stream)
{
    struct tape *tape = &player->tapes[rank];
    const size_t head = player->heads[rank][stream];
    if (head >= tape->count || head > player->hosts[rank])
        return false;
    struct call *call = &tape->calls[head];
    const struct call *for_it = call->of != NEVER ? &tape->calls[call->of] : NULL;
    if ((for_it && !for_it->is_done) || !may_begin(player, rank, head))
        return false;
    bool moved = false;
    if (!call->is_under_way) {
        if (call->start_ns < player->host_ns[rank])
            call->start_ns = player->host_ns[rank];
        if (for_it && call->start_ns < for_it->done_ns)
            call->start_ns = for_it->done_ns;
        begin(player, rank, call);
        moved = true;
        call->done_ns = call->start_ns + call->cost_ns;
    }
    if (call->kind == CALL_EXCHANGE && !exchange_moves(player, rank, call, &moved))
        return moved;
    if (call->kind == CALL_WORK)
        call->function(call->queue, call->arguments);
    if (call->kind == CALL_FENCE) {
        player->host_ns[rank] = call->done_ns > player->host_ns[rank] ? call->done_ns : player->host_ns[rank];
        player->hosts[rank] = next_fence(tape, head + 1);
    }
    call->is_done = true;
    const size_t next = player->heads[rank][stream] = next_on_stream(tape, head + 1, stream);
    if (next < tape->count)
        tape->calls[next].start_ns = call->done_ns;
    return true;
}

static inline void say_stuck(struct player *player)
{
    static const char *const names[] = { "work", "a record", "a wait", "an exchange", "a fence" };
    for (uint32_t rank = 0; rank < player->ranks && !player->fault[0]; rank++)
        for (uint32_t stream = 0; stream < player->tapes[rank].streams && !player->fault[0]; stream++) {
            const size_t head = player->heads[rank][stream];
            if (head < player->tapes[rank].count)
                snprintf(player->fault, sizeof player->fault, "rank %u, stream %u stands for ever at call %zu, %s", rank,
                         stream, head, names[player->tapes[rank].calls[head].kind]);
        }
}

// Until all is done, or nothing moves. False with the fault.
static inline bool player_run(struct player *player)
{
    for (bool moved = true; moved && !player->fault[0];) {
        moved = false;
        const uint32_t first = (uint32_t)random_below(&player->seed, player->ranks);
        for (uint32_t i = 0; i < player->ranks; i++) {
            const uint32_t rank = (first + i) % player->ranks, streams = player->tapes[rank].streams;
            const uint32_t from = (uint32_t)random_below(&player->seed, streams + 1);
            for (uint32_t j = 0; j < streams; j++)
                for (uint64_t calls = 1 + random_below(&player->seed, 6); calls > 0; calls--)
                    moved |= stream_moves(player, rank, (from + j) % streams);
        }
    }
    say_stuck(player);
    return !player->fault[0];
}

#endif
