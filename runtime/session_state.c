#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session.h"
#include "runtime/updates/shares.h"

uint32_t session_copies(const struct session *session, uint32_t stage)
{
    return placement_copies(session->placement, stage);
}

bool session_has(const struct session *session, uint32_t stage, uint32_t copy)
{
    return session_is_here(session, placement_rank(session->placement, stage, copy));
}

uint32_t session_rank_of(const struct session *session, uint32_t stage, uint32_t copy)
{
    return placement_rank(session->placement, stage, copy);
}

bool session_is_shared(const struct session *session, uint32_t stage, uint32_t part)
{
    if (part == LAYER_STATE)
        return false;
    const enum shard shared = part > 0 ? SHARD_OPTIMIZER : SHARD_WEIGHTS;
    return session->stages[stage].shard >= shared && session_copies(session, stage) > 1;
}

// Bytes of one number of a part; and how many weights a stage has.
static uint64_t number_bytes(const struct session *session, uint32_t part)
{
    const bool is_block = part != LAYER_STATE && optimizer_keeps_blocks(session->settings.optimizer.kind);
    return part == 0 ? precision_bytes(device_precision(session->device)) : is_block ? 1 : sizeof(float);
}

static uint64_t number_count(const struct session *session, uint32_t stage)
{
    const struct stage_bytes *bytes = &session->stages[stage].bytes;
    return (bytes->all_weights > 0 ? bytes->all_weights : bytes->weights) / number_bytes(session, 0);
}

// The pieces of a span that one copy has.
static struct share_pieces shared_pieces(const struct session *session, const struct state_span *span, uint32_t copy)
{
    const struct stage *stage = &session->stages[span->stage];
    const uint64_t count = number_count(session, span->stage);
    const struct share share = share_range(stage, count, copy, session_copies(session, span->stage));
    const bool is_block = span->part > 0 && optimizer_keeps_blocks(session->settings.optimizer.kind);
    return is_block && span->count > 0 ? share_block_pieces(&share, stage, span->first)
                                       : share_pieces(&share, span->first, span->count);
}

static struct share_pieces pieces_of(const struct session *session, const struct state_span *span, uint32_t copy)
{
    return session_is_shared(session, span->stage, span->part)
               ? shared_pieces(session, span, copy)
               : (struct share_pieces){ { { span->first, span->count, span->first } }, span->count > 0 };
}

static void *find_piece(const struct session *session, const struct state_span *span, const struct share_piece *piece,
                        uint32_t rank)
{
    char *state = interpreter_state(session->workers[rank].interpreter, span->stage, span->part);
    return state + piece->at * number_bytes(session, span->part);
}

static bool read_piece(const struct session *session, const struct state_span *span, const struct share_piece *piece,
                       uint32_t rank, void *host, struct error *error)
{
    struct queue *queue = session->workers[rank].queue;
    queue_download(queue, host, find_piece(session, span, piece, rank),
                   piece->count * number_bytes(session, span->part));
    return queue_wait(queue, error);
}

// Gathers from each copy what it has. In a process group all processes get it, since there is only broadcast.
static bool read_shared(struct session *session, const struct state_span *span, char *host, struct error *error)
{
    const uint64_t size = number_bytes(session, span->part);
    bool good = true;
    memset(host, 0, span->count * size);  // no copy has the bytes behind the last number of a block
    for (uint32_t copy = 0; good && copy < session_copies(session, span->stage); copy++) {
        const uint32_t rank = placement_rank(session->placement, span->stage, copy);
        const struct share_pieces pieces = pieces_of(session, span, copy);
        for (size_t i = 0; good && i < pieces.count; i++) {
            char *to = host + (pieces.at[i].first - span->first) * size;
            good = (!session_is_here(session, rank) || read_piece(session, span, &pieces.at[i], rank, to, error))
                && group_broadcast(session->settings.group, rank, to, pieces.at[i].count * size, error);
        }
    }
    return good;
}

// If the host updates weights, it has a second copy of those that this copy of the stage updates.
static void write_second(const struct session *session, const struct state_span *span, const struct share_piece *piece,
                         uint32_t copy, const char *host)
{
    const struct worker *worker = &session->workers[placement_rank(session->placement, span->stage, copy)];
    char *second = interpreter_host_weights(worker->interpreter, span->stage);
    const struct share_pieces shared = shared_pieces(session, span, copy);
    const bool has_share = session_is_shared(session, span->stage, 1) && !session->stages[span->stage].bytes.streams;
    const struct share_piece *what = has_share ? shared.at : piece;
    const uint64_t size = number_bytes(session, 0);
    if (second && (!has_share || shared.count > 0))
        queue_upload(worker->queue, second + what->at * size, host + (what->first - span->first) * size,
                     what->count * size);
}

static void write_piece(const struct session *session, const struct state_span *span, const struct share_piece *piece,
                        uint32_t copy, const char *host)
{
    const uint32_t rank = placement_rank(session->placement, span->stage, copy);
    const uint64_t size = number_bytes(session, span->part);
    queue_upload(session->workers[rank].queue, find_piece(session, span, piece, rank),
                 host + (piece->first - span->first) * size, piece->count * size);
    if (span->part == 0)
        write_second(session, span, piece, copy, host);
}

bool session_read_state(struct session *session, const struct state_span *span, uint32_t copy, void *host,
                        struct error *error)
{
    const struct share_pieces pieces = pieces_of(session, span, copy);
    if (!session_is_shared(session, span->stage, span->part))
        return read_piece(session, span, pieces.at, placement_rank(session->placement, span->stage, copy), host, error);
    char *room = host ? NULL : malloc(span->count * number_bytes(session, span->part) + 1);
    const bool good = host || room ? read_shared(session, span, host ? host : room, error)
                                   : error_no_memory(error, "what replicas share");
    free(room);
    return good;
}

bool session_write_copy(struct session *session, const struct state_span *span, uint32_t copy, const void *host,
                        struct error *error)
{
    const uint32_t rank = placement_rank(session->placement, span->stage, copy);
    const struct share_pieces pieces = pieces_of(session, span, copy);
    if (!session_is_here(session, rank) || pieces.count == 0)
        return true;
    for (size_t i = 0; i < pieces.count; i++)
        write_piece(session, span, &pieces.at[i], copy, host);
    return queue_wait(session->workers[rank].queue, error);
}

bool session_write_state(struct session *session, const struct state_span *span, const void *host,
                         struct error *error)
{
    bool good = true;
    for (uint32_t copy = 0; good && copy < session_copies(session, span->stage); copy++)
        good = session_write_copy(session, span, copy, host, error);
    return good;
}

uint64_t session_steps(const struct session *session)
{
    return session->steps;
}

// All copies of a stage make the same number of updates.
uint64_t session_updates(const struct session *session, uint32_t stage)
{
    const uint32_t in_step = session->weight_plan.updates[session->placement->copy_at[stage]];
    return session->updates_before[stage] + (session->steps - session->first_step) * in_step
         - session_scaling(session)->skipped;
}

const struct loss_scaling *session_scaling(const struct session *session)
{
    return interpreter_scaling(session_any_interpreter(session));
}

void session_go_on(struct session *session, uint64_t steps, const uint64_t *updates,
                   const struct loss_scaling *scaling)
{
    assert(session->steps == session->first_step);
    session->steps = session->first_step = steps;
    for (uint32_t rank = 0; rank < session->schedule->ranks; rank++)
        if (session_is_here(session, rank))
            interpreter_set_scaling(session->workers[rank].interpreter, scaling);
    for (uint32_t s = 0; s < session->schedule->stages; s++)
        session->updates_before[s] = updates[s] + scaling->skipped;
}

bool session_tell(const struct session *session, uint32_t stage, uint32_t copy, void *data, uint64_t bytes,
                  struct error *error)
{
    const uint32_t rank = placement_rank(session->placement, stage, copy);
    return group_broadcast(session->settings.group, rank, data, bytes, error);
}

bool session_read_and_tell(struct session *session, const struct state_span *span, uint32_t copy, void *host,
                           struct error *error)
{
    const uint32_t rank = placement_rank(session->placement, span->stage, copy);
    const struct share_pieces pieces = pieces_of(session, span, copy);
    if (session_is_shared(session, span->stage, span->part))
        return read_shared(session, span, host, error);
    return (!session_is_here(session, rank) || read_piece(session, span, pieces.at, rank, host, error))
        && session_tell(session, span->stage, copy, host, span->count * number_bytes(session, span->part), error);
}
