#include "runtime/transport/channels.h"

#include <assert.h>
#include <stdlib.h>

#include "schedules/board.h"

uint32_t channel_count(const struct schedule *schedule)
{
    return schedule->route_count * (schedule->stages - 1) * 2;
}

// The lower stage of the edge that a SEND or RECV uses.
static uint32_t edge_of(struct action action)
{
    switch (action.kind) {
    case ACTION_SEND_F:
    case ACTION_RECV_B:
        return action.stage;
    default:
        assert(action.kind == ACTION_RECV_F || action.kind == ACTION_SEND_B);
        assert(action.stage > 0);
        return action.stage - 1u;
    }
}

static bool is_gradient(struct action action)
{
    return action.kind == ACTION_SEND_B || action.kind == ACTION_RECV_B;
}

uint32_t channel_of(const struct schedule *schedule, struct action action)
{
    const uint32_t route = schedule->route_of[action.micro_batch];
    return (route * (schedule->stages - 1) + edge_of(action)) * 2 + is_gradient(action);
}

uint32_t channel_peer(const struct schedule *schedule, struct action action)
{
    const uint32_t edge = edge_of(action);
    const uint32_t peer = action.stage == edge ? edge + 1 : edge;
    return schedule_rank(schedule, peer, action.micro_batch);
}

uint32_t channel_source(struct action action)
{
    return edge_of(action) + is_gradient(action);
}

struct channel_ends channel_ends(const struct schedule *schedule, uint32_t channel)
{
    const uint32_t boundaries = schedule->stages - 1, edge = channel / 2 % boundaries, back = channel % 2;
    const uint32_t *ranks = &schedule->routes[(size_t)(channel / 2 / boundaries) * schedule->stages];
    return (struct channel_ends){ .from = ranks[edge + back], .to = ranks[edge + 1 - back] };
}

struct channel *channels_create(const struct schedule *lowered, const struct stage *stages, struct error *error)
{
    const uint32_t count = channel_count(lowered);
    struct channel *channels = calloc(count + 1, sizeof *channels);
    if (!channels) {
        error_no_memory(error, "the channels of a schedule");
        return NULL;
    }
    for (uint32_t c = 0; c < count; c++) {
        const struct channel_ends ends = channel_ends(lowered, c);
        channels[c].from = ends.from;
        channels[c].to = ends.to;
        channels[c].bytes = largest_part(stages[c / 2 % (lowered->stages - 1)].bytes.output, lowered->splits);
    }
    for (uint32_t rank = 0; rank < lowered->ranks; rank++) {
        const struct action_list *list = &lowered->lists[rank];
        for (size_t i = 0; i < list->count; i++)
            if (is_send(list->at[i]))
                channels[channel_of(lowered, list->at[i])].messages++;
    }
    return channels;
}
