#include "runtime/whereabouts.h"

#include <stdlib.h>

#include "runtime/channels.h"

enum line_state { LINE_IDLE, LINE_ACTS, LINE_WAITS };

// state 8 bits | kind 8 bits | stage 16 bits | micro-batch 32 bits
static uint64_t line_of(enum line_state state, struct action action)
{
    return (uint64_t)state << 56 | (uint64_t)action.kind << 48 | (uint64_t)action.stage << 32 | action.micro_batch;
}

static enum line_state state_of(uint64_t line)
{
    return (enum line_state)(line >> 56);
}

static struct action action_of(uint64_t line)
{
    return (struct action){ .stage = (uint16_t)(line >> 32), .kind = (uint8_t)(line >> 48),
                            .micro_batch = (uint32_t)line };
}

bool whereabouts_open(struct whereabouts *whereabouts, const struct schedule *lowered, struct error *error)
{
    whereabouts->schedule = lowered;
    whereabouts->lines = malloc(lowered->ranks * sizeof *whereabouts->lines);
    if (!whereabouts->lines)
        return error_no_memory(error, "the whereabouts of ranks");
    for (uint32_t rank = 0; rank < lowered->ranks; rank++)
        atomic_init(&whereabouts->lines[rank], 0);
    return true;
}

void whereabouts_close(struct whereabouts *whereabouts)
{
    free(whereabouts->lines);
    whereabouts->lines = NULL;
}

void whereabouts_idle(struct whereabouts *whereabouts, uint32_t rank)
{
    atomic_store(&whereabouts->lines[rank], line_of(LINE_IDLE, (struct action){ 0 }));
}

void whereabouts_act(struct whereabouts *whereabouts, uint32_t rank, struct action action)
{
    atomic_store(&whereabouts->lines[rank], line_of(LINE_ACTS, action));
}

void whereabouts_wait(struct whereabouts *whereabouts, uint32_t rank, struct action action)
{
    atomic_store(&whereabouts->lines[rank], line_of(LINE_WAITS, action));
}

static const char *name_of(uint8_t kind)
{
    switch (kind) {
    case ACTION_SEND_F:
        return "SEND_F";
    case ACTION_RECV_F:
        return "RECV_F";
    case ACTION_SEND_B:
        return "SEND_B";
    default:
        return "RECV_B";
    }
}

static void add_waiting(struct text *text, uint32_t rank, struct action action, uint32_t peer)
{
    const bool sends = action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B;
    text_add(text, "%srank %u waits at %s %u %s rank %u", text->length > 0 ? "; " : "", rank, name_of(action.kind),
             action.micro_batch, sends ? "to" : "from", peer);
}

// The sentence from one look at all lines: each chain of who waits for whom is
// followed from its lowest rank, so that a cycle stands together.
static void write_lines(const struct schedule *schedule, uint64_t *lines, struct text *text)
{
    for (uint32_t first = 0; first < schedule->ranks; first++) {
        uint32_t rank = first;
        while (state_of(lines[rank]) == LINE_WAITS) {
            const struct action action = action_of(lines[rank]);
            const uint32_t peer = channel_peer(schedule, action);
            add_waiting(text, rank, action, peer);
            lines[rank] = 0;
            rank = peer;
        }
    }
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        char name[ACTION_SIZE];
        if (state_of(lines[rank]) == LINE_ACTS)
            text_add(text, "%srank %u is at %s", text->length > 0 ? "; " : "", rank,
                     action_format(action_of(lines[rank]), name));
    }
}

bool whereabouts_report(const struct whereabouts *whereabouts, struct error *error)
{
    const uint32_t ranks = whereabouts->schedule->ranks;
    struct text text = { 0 };
    uint64_t *lines = malloc(ranks * sizeof *lines);
    for (uint32_t rank = 0; lines && rank < ranks; rank++)
        lines[rank] = atomic_load(&whereabouts->lines[rank]);
    if (lines)
        write_lines(whereabouts->schedule, lines, &text);
    if (!lines || text.failed || text.length == 0)
        error_set_kind(error, ERROR_MACHINE, "a rank waited too long (no memory to say for what)");
    else
        error_set_kind(error, ERROR_MACHINE, "%s", text.data);
    text_clear(&text);
    free(lines);
    return false;
}
