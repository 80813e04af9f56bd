#include "runtime/ranks/rank_status.h"

#include <stdlib.h>

#include "runtime/transport/channels.h"
#include "schedules/board.h"

enum line_state { LINE_IDLE, LINE_ACTS, LINE_WAITS };

// state 4 bits | kind 4 bits | split 8 bits | stage 16 bits | micro-batch 32 bits
static uint64_t line_of(enum line_state state, struct action action)
{
    return (uint64_t)state << 60 | (uint64_t)action.kind << 56 | (uint64_t)action.split << 48
         | (uint64_t)action.stage << 32 | action.micro_batch;
}
_Static_assert(ACTION_KINDS <= 16, "a kind has 4 bits of a line");

static enum line_state state_of(uint64_t line)
{
    return (enum line_state)(line >> 60);
}

static struct action action_of(uint64_t line)
{
    return (struct action){ .stage = (uint16_t)(line >> 32), .kind = line >> 56 & 15, .split = line >> 48 & 127,
                            .micro_batch = (uint32_t)line };
}

bool rank_status_open(struct rank_status *status, const struct schedule *lowered,
                      const struct placement *placement, const struct ties *ties,
                      const struct process_group *group, struct error *error)
{
    _Atomic uint64_t *board = group ? group->board : NULL;
    *status = (struct rank_status){ .schedule = lowered, .placement = placement, .ties = ties,
                                         .at = group ? group->board_at : NULL, .is_borrowed = board != NULL };
    status->lines = board ? board : malloc(lowered->ranks * sizeof *status->lines);
    if (!status->lines)
        return error_no_memory(error, "the status of ranks");
    for (uint32_t rank = 0; !board && rank < lowered->ranks; rank++)
        atomic_init(&status->lines[rank], 0);
    return true;
}

void rank_status_close(struct rank_status *status)
{
    if (!status->is_borrowed)
        free((void *)status->lines);
    status->lines = NULL;
}

static _Atomic uint64_t *line_at(const struct rank_status *status, uint32_t rank)
{
    return &status->lines[status->at ? status->at[rank] : rank];
}

void rank_status_idle(struct rank_status *status, uint32_t rank)
{
    atomic_store(line_at(status, rank), line_of(LINE_IDLE, (struct action){ 0 }));
}

void rank_status_act(struct rank_status *status, uint32_t rank, struct action action)
{
    atomic_store(line_at(status, rank), line_of(LINE_ACTS, action));
}

void rank_status_wait(struct rank_status *status, uint32_t rank, struct action action)
{
    atomic_store(line_at(status, rank), line_of(LINE_WAITS, action));
}

uint64_t rank_status_line(const struct rank_status *status, uint32_t rank)
{
    return atomic_load(line_at(status, rank));
}

bool rank_status_line_waits(uint64_t line)
{
    return state_of(line) == LINE_WAITS;
}

const char *rank_status_line_action(uint64_t line, char name[ACTION_SIZE])
{
    name[0] = '\0';
    return state_of(line) == LINE_IDLE ? name : action_format(action_of(line), name);
}

// A computing action that waits does so for copies of its stage, with which it shares gradients or weights.
static void add_waiting(struct text *text, uint32_t rank, struct action action, uint32_t peer)
{
    char name[ACTION_SIZE];
    text_add(text, "%srank %u waits at %s ", text->length > 0 ? "; " : "", rank, action_format(action, name));
    if (action.kind == ACTION_REDUCE)
        text_add(text, "for %s of rank %u", name, peer);
    else if (action.kind == ACTION_STEP)
        text_add(text, "for the STEP of rank %u", peer);
    else if (is_compute(action))
        text_add(text, "for rank %u, which has some of what stage %u shares", peer, (unsigned)action.stage);
    else
        text_add(text, "%s rank %u", is_send(action) ? "to" : "from", peer);
}

// The first rank that shares the stage's weights and has not come to a STEP.
static uint32_t tied_peer(const struct rank_status *status, const uint64_t *lines, uint32_t rank)
{
    const uint32_t stage = action_of(lines[rank]).stage;
    for (uint32_t t = 0; status->ties && t < status->ties->count; t++) {
        const struct tie *tie = &status->ties->at[t];
        for (uint32_t i = 0; tie_has(tie, stage) && i < tie->rank_count; i++) {
            const uint64_t line = lines[tie->ranks[i]];
            if (state_of(line) != LINE_WAITS || action_of(line).kind != ACTION_STEP)
                return tie->ranks[i];
        }
    }
    return rank;
}

// The first copy of the stage that has not come to the same action; the rank itself if all have.
static uint32_t late_copy(const struct rank_status *status, const uint64_t *lines, uint32_t rank)
{
    const uint32_t stage = action_of(lines[rank]).stage;
    for (uint32_t copy = 0; copy < placement_copies(status->placement, stage); copy++) {
        const uint32_t other = placement_rank(status->placement, stage, copy);
        const struct action its = action_of(lines[other]);
        const bool has_met = is_compute(its) && state_of(lines[other]) == LINE_WAITS && its.stage == stage;
        if (lines[other] != lines[rank] && !(is_compute(action_of(lines[rank])) && has_met))
            return other;
    }
    return rank;
}

// The rank that a rank waits for: the other end of its message, or the first copy that has not come to its REDUCE or
// STEP (itself if all have).
static uint32_t peer_of(const struct rank_status *status, const uint64_t *lines, uint32_t rank)
{
    const struct action action = action_of(lines[rank]);
    const uint32_t tied = action.kind == ACTION_STEP ? tied_peer(status, lines, rank) : rank;
    if (is_message(action))
        return channel_peer(status->schedule, action);
    return tied != rank ? tied : late_copy(status, lines, rank);
}

// Writes the sentence from one snapshot of all lines. Each chain of ranks that wait for each other is followed from
// its lowest rank, so that a cycle is named in one piece.
static void write_lines(const struct rank_status *status, const uint64_t *lines, bool *said, struct text *text)
{
    const uint32_t ranks = status->schedule->ranks;
    for (uint32_t first = 0; first < ranks; first++) {
        uint32_t rank = first;
        while (state_of(lines[rank]) == LINE_WAITS && !said[rank]) {
            const uint32_t peer = peer_of(status, lines, rank);
            add_waiting(text, rank, action_of(lines[rank]), peer);
            said[rank] = true;
            rank = peer;
        }
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        char name[ACTION_SIZE];
        if (state_of(lines[rank]) == LINE_ACTS)
            text_add(text, "%srank %u is at %s", text->length > 0 ? "; " : "", rank,
                     action_format(action_of(lines[rank]), name));
    }
}

void rank_status_write(const struct rank_status *status, struct text *text)
{
    const uint32_t ranks = status->schedule->ranks;
    uint64_t *lines = malloc(ranks * sizeof *lines);
    bool *said = calloc(ranks, sizeof *said);
    const bool has_memory = lines && said;
    for (uint32_t rank = 0; has_memory && rank < ranks; rank++)
        lines[rank] = atomic_load(line_at(status, rank));
    if (has_memory)
        write_lines(status, lines, said, text);
    else
        text->failed = true;
    free(lines);
    free(said);
}

bool rank_status_report(const struct rank_status *status, struct error *error)
{
    struct text text = { 0 };
    rank_status_write(status, &text);
    if (text.failed || text.length == 0)
        error_set_kind(error, ERROR_MACHINE, "a rank waited too long (no memory to say for what)");
    else
        error_set_kind(error, ERROR_MACHINE, "%s", text.data);
    text_clear(&text);
    return false;
}
