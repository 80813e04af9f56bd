#include "runtime/whereabouts.h"

#include <stdlib.h>

#include "runtime/channels.h"
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

bool whereabouts_open(struct whereabouts *whereabouts, const struct schedule *lowered,
                      const struct placement *placement, const struct ties *ties,
                      const struct process_group *group, struct error *error)
{
    _Atomic uint64_t *board = group ? group->board : NULL;
    *whereabouts = (struct whereabouts){ .schedule = lowered, .placement = placement, .ties = ties,
                                         .at = group ? group->board_at : NULL, .is_borrowed = board != NULL };
    whereabouts->lines = board ? board : malloc(lowered->ranks * sizeof *whereabouts->lines);
    if (!whereabouts->lines)
        return error_no_memory(error, "the whereabouts of ranks");
    for (uint32_t rank = 0; !board && rank < lowered->ranks; rank++)
        atomic_init(&whereabouts->lines[rank], 0);
    return true;
}

void whereabouts_close(struct whereabouts *whereabouts)
{
    if (!whereabouts->is_borrowed)
        free((void *)whereabouts->lines);
    whereabouts->lines = NULL;
}

static _Atomic uint64_t *line_at(const struct whereabouts *whereabouts, uint32_t rank)
{
    return &whereabouts->lines[whereabouts->at ? whereabouts->at[rank] : rank];
}

void whereabouts_idle(struct whereabouts *whereabouts, uint32_t rank)
{
    atomic_store(line_at(whereabouts, rank), line_of(LINE_IDLE, (struct action){ 0 }));
}

void whereabouts_act(struct whereabouts *whereabouts, uint32_t rank, struct action action)
{
    atomic_store(line_at(whereabouts, rank), line_of(LINE_ACTS, action));
}

void whereabouts_wait(struct whereabouts *whereabouts, uint32_t rank, struct action action)
{
    atomic_store(line_at(whereabouts, rank), line_of(LINE_WAITS, action));
}

uint64_t whereabouts_line(const struct whereabouts *whereabouts, uint32_t rank)
{
    return atomic_load(line_at(whereabouts, rank));
}

bool whereabouts_line_waits(uint64_t line)
{
    return state_of(line) == LINE_WAITS;
}

const char *whereabouts_line_action(uint64_t line, char name[ACTION_SIZE])
{
    name[0] = '\0';
    return state_of(line) == LINE_IDLE ? name : action_format(action_of(line), name);
}

// One that waits does so for copies of its stage, with which it shares gradients or weights.
static bool is_computing(struct action action)
{
    return action.kind < ACTION_SEND_F;
}

static void add_waiting(struct text *text, uint32_t rank, struct action action, uint32_t peer)
{
    const bool sends = action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B;
    char name[ACTION_SIZE];
    text_add(text, "%srank %u waits at %s ", text->length > 0 ? "; " : "", rank, action_format(action, name));
    if (action.kind == ACTION_REDUCE)
        text_add(text, "for %s of rank %u", name, peer);
    else if (action.kind == ACTION_STEP)
        text_add(text, "for the STEP of rank %u", peer);
    else if (is_computing(action))
        text_add(text, "for rank %u, which has some of what stage %u shares", peer, (unsigned)action.stage);
    else
        text_add(text, "%s rank %u", sends ? "to" : "from", peer);
}

// The first rank that shares the stage's weights and has not come to a STEP.
static uint32_t tied_peer(const struct whereabouts *whereabouts, const uint64_t *lines, uint32_t rank)
{
    const uint32_t stage = action_of(lines[rank]).stage;
    for (uint32_t t = 0; whereabouts->ties && t < whereabouts->ties->count; t++) {
        const struct tie *tie = &whereabouts->ties->at[t];
        for (uint32_t i = 0; tie_has(tie, stage) && i < tie->rank_count; i++) {
            const uint64_t line = lines[tie->ranks[i]];
            if (state_of(line) != LINE_WAITS || action_of(line).kind != ACTION_STEP)
                return tie->ranks[i];
        }
    }
    return rank;
}

// The first copy of the stage that has not come to the same action; itself when all have.
static uint32_t late_copy(const struct whereabouts *whereabouts, const uint64_t *lines, uint32_t rank)
{
    const uint32_t stage = action_of(lines[rank]).stage;
    for (uint32_t copy = 0; copy < placement_copies(whereabouts->placement, stage); copy++) {
        const uint32_t other = placement_rank(whereabouts->placement, stage, copy);
        const struct action its = action_of(lines[other]);
        const bool has_met = is_computing(its) && state_of(lines[other]) == LINE_WAITS && its.stage == stage;
        if (lines[other] != lines[rank] && !(is_computing(action_of(lines[rank])) && has_met))
            return other;
    }
    return rank;
}

// Whom a rank waits for: the other end of its message, or the first copy that has
// not come to its REDUCE or STEP (itself when all have).
static uint32_t peer_of(const struct whereabouts *whereabouts, const uint64_t *lines, uint32_t rank)
{
    const struct action action = action_of(lines[rank]);
    const uint32_t tied = action.kind == ACTION_STEP ? tied_peer(whereabouts, lines, rank) : rank;
    if (is_message(action))
        return channel_peer(whereabouts->schedule, action);
    return tied != rank ? tied : late_copy(whereabouts, lines, rank);
}

// The sentence from one look at all lines: each chain of who waits for whom is
// followed from its lowest rank, so that a cycle stands together.
static void write_lines(const struct whereabouts *whereabouts, const uint64_t *lines, bool *said, struct text *text)
{
    const uint32_t ranks = whereabouts->schedule->ranks;
    for (uint32_t first = 0; first < ranks; first++) {
        uint32_t rank = first;
        while (state_of(lines[rank]) == LINE_WAITS && !said[rank]) {
            const uint32_t peer = peer_of(whereabouts, lines, rank);
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

void whereabouts_write(const struct whereabouts *whereabouts, struct text *text)
{
    const uint32_t ranks = whereabouts->schedule->ranks;
    uint64_t *lines = malloc(ranks * sizeof *lines);
    bool *said = calloc(ranks, sizeof *said);
    const bool has_memory = lines && said;
    for (uint32_t rank = 0; has_memory && rank < ranks; rank++)
        lines[rank] = atomic_load(line_at(whereabouts, rank));
    if (has_memory)
        write_lines(whereabouts, lines, said, text);
    else
        text->failed = true;
    free(lines);
    free(said);
}

bool whereabouts_report(const struct whereabouts *whereabouts, struct error *error)
{
    struct text text = { 0 };
    whereabouts_write(whereabouts, &text);
    if (text.failed || text.length == 0)
        error_set_kind(error, ERROR_MACHINE, "a rank waited too long (no memory to say for what)");
    else
        error_set_kind(error, ERROR_MACHINE, "%s", text.data);
    text_clear(&text);
    return false;
}
