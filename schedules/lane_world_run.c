#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/number.h"
#include "schedules/lane_world_state.h"

// --- events --------------------------------------------------------------------------

static void wake(struct lane_world *world, uint32_t rank, uint64_t time_ns)
{
    struct rank_heap *events = &world->events;
    if (array_reserve(&events->at, &world->event_capacity, events->count + 1, sizeof events->at[0]))
        rank_heap_push(events, rank, time_ns);
    else
        world->no_memory = true;
}

// --- how items begin -----------------------------------------------------------------

static struct lane *messages_of(struct lane_world *world, uint32_t rank)
{
    return &world->ranks[rank][world->rules.use == LANES_ONE];
}

// If a RECV is next, wakes the rank at its other end at the time when this rank will have reached the RECV. If
// computations must begin before the RECV, those announce it when they begin.
static void announce(struct lane_world *world, uint32_t rank, uint64_t now_ns)
{
    const struct lane *computes = world->ranks[rank], *messages = messages_of(world, rank);
    const struct item *next = messages->at;
    const size_t begun = (size_t)(computes->at - computes->begin);
    if (next == messages->end || next->kind != ITEM_RECV || next->after > begun)
        return;
    const uint64_t free_ns = max_u64(messages->free_ns, next->after == begun ? computes->free_ns : 0);
    wake(world, next->peer, max_u64(free_ns, now_ns));
}

// The lane's current item occupies the lane until `end_ns`. Then the rank may continue.
static void take_lane(struct lane_world *world, uint32_t rank, struct lane *lane, uint64_t start_ns, uint64_t end_ns)
{
    lane->at->start_ns = start_ns;
    lane->at->end_ns = lane->free_ns = end_ns;
    lane->at++;
    wake(world, rank, end_ns);
    announce(world, rank, start_ns);
}

static bool begin_compute(struct lane_world *world, uint32_t rank, struct lane *lane, uint64_t now_ns)
{
    const struct item *item = lane->at;
    for (uint32_t i = 0; i < item->needs; i++) {
        if (world->parcels[world->needs[item->need + i]].received_ns > now_ns)
            return false;
    }
    take_lane(world, rank, lane, now_ns, now_ns + world->now_durations[item->duration]);
    return true;
}

// The last copy to reach a REDUCE begins it for all.
static bool begin_reduce(struct lane_world *world, struct lane *lane, uint64_t now_ns)
{
    const struct copies *copies = &world->record.walk.board.copies;
    const uint32_t stage = lane->at->group->stage;
    const uint32_t first = copies->first[stage], end = copies->first[stage + 1];
    if (lane->at->reached_ns != NEVER)
        return false;
    lane->at->reached_ns = now_ns;
    if (++world->waiting[stage] < end - first)
        return false;
    uint64_t longest_ns = 0;
    for (uint32_t copy = first; copy < end; copy++) {
        const struct lane *lane_of_copy = world->ranks[copies->ranks[copy]];
        longest_ns = max_u64(longest_ns, world->now_durations[lane_of_copy->at->duration]);
    }
    world->waiting[stage] = 0;
    for (uint32_t copy = first; copy < end; copy++)
        take_lane(world, copies->ranks[copy], world->ranks[copies->ranks[copy]], now_ns, now_ns + longest_ns);
    return true;
}

// Whether the lane's current item, a message or move, may begin as far as its own rank is concerned.
static bool is_reached(const struct lane_world *world, uint32_t rank, const struct lane *lane, uint64_t now_ns)
{
    const struct lane *computes = &world->ranks[rank][0];
    const size_t begun = (size_t)(computes->at - computes->begin), running = computes->free_ns > now_ns;
    return lane->at < lane->end && lane->free_ns <= now_ns && lane->at->after + running <= begun;
}

// Actions that wait for the move wait for its end.
static void begin_move(struct lane_world *world, uint32_t rank, struct lane *lane, uint64_t now_ns)
{
    const struct item *item = lane->at;
    const uint64_t end_ns = now_ns + world->record.tariff.channels[item->channel].occupied_ns;
    world->parcels[item->parcel].received_ns = end_ns;
    take_lane(world, rank, lane, now_ns, end_ns);
}

// The bytes enter their link once it is free. Returns when the link is free again.
static uint64_t enter_link(struct lane_world *world, const struct item *item, uint64_t now_ns)
{
    const struct channel *channel = &world->record.tariff.channels[item->channel];
    struct parcel *parcel = &world->parcels[item->parcel];
    parcel->arrives_ns = channel_send(channel, world->link_free_ns, now_ns);
    parcel->starts_ns = parcel->arrives_ns - channel->latency_ns - channel->occupied_ns;
    return parcel->arrives_ns - channel->latency_ns;
}

// Both ends begin if the other end has been reached, too.
static bool begin_rendezvous(struct lane_world *world, uint32_t rank, struct lane *lane, uint64_t now_ns)
{
    const struct item *item = lane->at;
    struct lane *other = messages_of(world, item->peer);
    if (!is_reached(world, item->peer, other, now_ns) || other->at->kind != ITEM_RECV
        || other->at->parcel != item->parcel)
        return false;
    struct parcel *parcel = &world->parcels[item->parcel];
    const uint64_t free_ns = enter_link(world, item, now_ns);
    parcel->received_ns = parcel->arrives_ns;
    if (other->at->reached_ns == NEVER)
        other->at->reached_ns = now_ns;
    take_lane(world, item->peer, other, parcel->starts_ns, parcel->arrives_ns);
    take_lane(world, rank, lane, parcel->starts_ns, free_ns);
    return true;
}

static bool begin_send(struct lane_world *world, uint32_t rank, struct lane *lane, uint64_t now_ns)
{
    const struct item *item = lane->at;
    const bool free = world->rules.use == LANES_FREE;
    if (!free && world->rules.capacity == 0)
        return begin_rendezvous(world, rank, lane, now_ns);
    if (!free && world->under_way[item->queue] >= world->rules.capacity)
        return false;
    const uint64_t free_ns = enter_link(world, item, now_ns);
    struct parcel *parcel = &world->parcels[item->parcel];
    if (free)
        parcel->received_ns = parcel->arrives_ns;
    else
        world->under_way[item->queue]++;
    wake(world, item->peer, parcel->arrives_ns);
    take_lane(world, rank, lane, parcel->starts_ns, free ? now_ns : free_ns);
    return true;
}

// A rendezvous is begun by its SEND. With buffers, a message under way only has to arrive.
static bool begin_receive(struct lane_world *world, uint32_t rank, struct lane *lane, uint64_t now_ns)
{
    const struct item *item = lane->at;
    struct parcel *parcel = &world->parcels[item->parcel];
    if (world->rules.capacity == 0 || parcel->arrives_ns > now_ns)
        return false;
    parcel->received_ns = now_ns;
    world->under_way[item->queue]--;
    wake(world, item->peer, now_ns);
    take_lane(world, rank, lane, parcel->starts_ns, now_ns);
    return true;
}

// --- messages in groups ---------------------------------------------------------------

// The end of the consecutive messages that begin with the lane's current one.
static struct item *end_of_group(const struct lane *lane)
{
    struct item *end = lane->at + 1;
    while (end < lane->end && end->kind >= ITEM_SEND && end->group == end[-1].group + 1)
        end++;
    return end;
}

static void open_group(struct lane_world *world, struct lane *lane, uint64_t now_ns)
{
    const struct item *end = end_of_group(lane);
    for (struct item *item = lane->at; item < end; item++) {
        item->reached_ns = now_ns;
        lane->pending++;
        if (item->kind == ITEM_RECV)
            wake(world, item->peer, now_ns);
    }
    lane->group_ns = now_ns;
}

// Begins one message of a lane's group. The last one frees the lane when all of them have ended.
static void begin_member(struct lane_world *world, uint32_t rank, struct item *item, uint64_t start_ns, uint64_t end_ns)
{
    struct lane *lane = messages_of(world, rank);
    item->start_ns = start_ns;
    item->end_ns = end_ns;
    item->begun = true;
    lane->group_ns = max_u64(lane->group_ns, end_ns);
    wake(world, rank, end_ns);
    if (--lane->pending > 0)
        return;
    lane->at = end_of_group(lane);
    lane->free_ns = lane->group_ns;
    wake(world, rank, lane->free_ns);
}

// Opens the group that the lane has reached, or begins the first message of the open group whose other end is also
// in an open group.
static bool begin_grouped(struct lane_world *world, uint32_t rank, struct lane *lane, uint64_t now_ns)
{
    if (lane->pending == 0) {
        if (!is_reached(world, rank, lane, now_ns))
            return false;
        open_group(world, lane, now_ns);
        return true;
    }
    const struct item *end = end_of_group(lane);
    for (struct item *item = lane->at; item < end; item++) {
        struct parcel *parcel = &world->parcels[item->parcel];
        if (item->kind != ITEM_SEND || item->begun || parcel->receive->reached_ns == NEVER)
            continue;
        const uint64_t free_ns = enter_link(world, item, now_ns);
        parcel->received_ns = parcel->arrives_ns;
        begin_member(world, item->peer, parcel->receive, parcel->starts_ns, parcel->arrives_ns);
        begin_member(world, rank, item, parcel->starts_ns, free_ns);
        return true;
    }
    return false;
}

// Begins the current item of a lane if it may begin now; returns whether it did.
static bool begin(struct lane_world *world, uint32_t rank, struct lane *lane, uint64_t now_ns)
{
    if (lane->at == lane->end || lane->free_ns > now_ns)
        return false;
    if (lane->at->kind == ITEM_COMPUTE)
        return begin_compute(world, rank, lane, now_ns);
    if (lane->at->kind == ITEM_REDUCE)
        return begin_reduce(world, lane, now_ns);
    if (lane->at->kind == ITEM_MOVE && !is_reached(world, rank, lane, now_ns))
        return false;
    if (lane->at->kind == ITEM_MOVE) {
        begin_move(world, rank, lane, now_ns);
        return true;
    }
    if (world->rules.grouped && world->rules.use != LANES_FREE)
        return begin_grouped(world, rank, lane, now_ns);
    if (!is_reached(world, rank, lane, now_ns))
        return false;
    if (lane->at->reached_ns == NEVER)
        lane->at->reached_ns = now_ns;
    return lane->at->kind == ITEM_SEND ? begin_send(world, rank, lane, now_ns)
                                       : begin_receive(world, rank, lane, now_ns);
}

static void reset(struct lane_world *world, const uint64_t *durations)
{
    const struct schedule *schedule = world->lowered;
    world->now_durations = durations ? durations : world->durations;
    world->events.count = 0;
    for (size_t i = 0; i < world->parcel_count; i++)
        world->parcels[i] = (struct parcel){ world->parcels[i].receive, 0, NEVER, NEVER };
    memset(world->under_way, 0, channels_of(schedule) * sizeof *world->under_way);
    memset(world->waiting, 0, schedule->stages * sizeof *world->waiting);
    memset(world->link_free_ns, 0, tariff_links(&world->record.tariff) * sizeof *world->link_free_ns);
    for (size_t i = 0; i < world->item_count; i++) {
        world->items[i].reached_ns = NEVER;
        world->items[i].begun = false;
    }
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        for (unsigned i = 0; i < LANES; i++) {
            world->ranks[rank][i].at = world->ranks[rank][i].begin;
            world->ranks[rank][i].free_ns = 0;
            world->ranks[rank][i].pending = 0;
        }
        wake(world, rank, 0);
    }
}

bool lane_world_run(struct lane_world *world, const uint64_t *durations, uint64_t *iteration_ns, struct error *error)
{
    *iteration_ns = 0;
    world->no_memory = false;
    reset(world, durations);
    while (world->events.count > 0 && !world->no_memory) {
        const struct rank_moment event = rank_heap_pop(&world->events);
        struct lane *lane = world->ranks[event.rank];
        bool any = false;
        for (unsigned i = 0; i < LANES && !any; i++)
            any = begin(world, event.rank, &lane[i], event.time_ns);
        if (any)
            wake(world, event.rank, event.time_ns);
    }
    if (world->no_memory)
        return error_no_memory(error, "a simulated run");
    for (uint32_t rank = 0; rank < world->lowered->ranks; rank++) {
        const struct lane *lane = world->ranks[rank];
        for (unsigned i = 0; i < LANES; i++)
            assert(lane[i].at == lane[i].end);  // guaranteed by check.h
        *iteration_ns = max_u64(*iteration_ns, lane[0].free_ns);
    }
    return true;
}
