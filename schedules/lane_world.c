#include "schedules/lane_world.h"

#include <stdlib.h>

#include "schedules/check.h"
#include "schedules/lane_world_state.h"
#include "schedules/lower.h"
#include "schedules/standstill.h"

// --- what is on which lane ---------------------------------------------------------

static bool is_left_out(const struct lane_world *world, struct action action)
{
    return action.kind == ACTION_VALIDATE || (world->rules.use == LANES_FREE && is_message(action) && !is_send(action));
}

static unsigned lane_of(const struct lane_world *world, struct action action)
{
    if (is_move(action))
        return MOVES_LANE;
    return world->rules.use == LANES_ONE && is_message(action);
}

static size_t parcel_of_move(const struct lane_world *world, size_t unit, bool is_prefetch)
{
    return 2 * (unit_count(world->lowered) + unit) + is_prefetch;
}

static void add_move(const struct lane_world *world, struct item *item)
{
    const struct action action = *item->group;
    item->kind = ITEM_MOVE;
    item->channel = move_channel(&world->record.tariff, world->lowered, action);
    item->parcel = parcel_of_move(world, unit_of(world->lowered, action), action.kind == ACTION_PREFETCH);
}

static void add_message(struct lane_world *world, struct item *item)
{
    const struct schedule *schedule = world->lowered;
    const struct action action = *item->group, other_end = action_mirror(action);
    const bool back = action.kind == ACTION_SEND_B || action.kind == ACTION_RECV_B;
    const uint32_t boundary = action.stage < other_end.stage ? action.stage : other_end.stage;
    item->kind = is_send(action) ? ITEM_SEND : ITEM_RECV;
    item->peer = schedule_rank(schedule, other_end.stage, other_end.micro_batch);
    item->channel = channel_number(schedule, action, boundary, back);
    item->queue = channel_of(schedule, action);
    item->parcel = message_number(schedule, action);
}

// The parcel of the message that a computation uses, which has the number of the message's RECV.
static size_t parcel_for(const struct schedule *schedule, struct action action)
{
    action.kind = is_backward(action) ? ACTION_RECV_B : ACTION_RECV_F;
    return message_number(schedule, action);
}

static void add_needs(struct lane_world *world, struct action action, size_t *needs)
{
    const struct awaited_moves awaited = record_awaits(&world->record, action);
    if (needs_message(world->lowered, action))
        world->needs[(*needs)++] = parcel_for(world->lowered, action);
    if (awaited.evicted != NO_MOVE)
        world->needs[(*needs)++] = parcel_of_move(world, awaited.evicted, false);
    if (has_unit(action) && waits_for_prefetch(action, world->record.walk.board.units[unit_of(world->lowered, action)]))
        world->needs[(*needs)++] = parcel_of_move(world, unit_of(world->lowered, action), true);
}

static void add_compute(struct lane_world *world, struct item *item, size_t *needs)
{
    item->kind = item->group->kind == ACTION_REDUCE ? ITEM_REDUCE : ITEM_COMPUTE;
    item->need = *needs;
    for (uint32_t i = 0; i < item->size; i++)
        add_needs(world, item->group[i], needs);
    item->needs = (uint32_t)(*needs - item->need);
    item->duration = world->duration_count;
    world->durations[world->duration_count++] =
        group_ns(&world->record.tariff, &world->record.walk.board, item->group, item->size);
}

static void fill_rank(struct lane_world *world, uint32_t rank, size_t *needs)
{
    const struct action_list *list = &world->lowered->lists[rank];
    const struct action *end = list_end(list);
    struct lane *lane = world->ranks[rank];
    size_t size;
    for (const struct action *group = list->at; group < end; group += size) {
        size = group_size(group, end);
        if (is_left_out(world, *group))
            continue;
        const unsigned number = lane_of(world, *group);
        struct item *item = lane[number].end++;
        *item = (struct item){ .group = group, .size = (uint32_t)size };
        item->after = number > 0 ? (size_t)(lane[0].end - lane[0].begin) : 0;
        if (is_move(*group))
            add_move(world, item);
        else if (is_message(*group))
            add_message(world, item);
        else
            add_compute(world, item, needs);
        if (item->kind == ITEM_RECV)
            world->parcels[item->parcel].receive = item;
    }
}

static void fill_lanes(struct lane_world *world)
{
    size_t needs = 0;
    struct item *next = world->items;
    for (uint32_t rank = 0; rank < world->lowered->ranks; rank++) {
        const struct action_list *list = &world->lowered->lists[rank];
        struct lane *lane = world->ranks[rank];
        for (unsigned i = 0; i < LANES; i++) {
            lane[i].begin = lane[i].end = next;
            for (const struct action *action = list->at; action < list_end(list); action++)
                next += lane_of(world, *action) == i;
        }
        fill_rank(world, rank, &needs);
    }
}

// --- creating ------------------------------------------------------------------------

static bool allocate(struct lane_world *world, struct error *error)
{
    const struct schedule *schedule = world->lowered;
    world->item_count = schedule_action_count(schedule);
    const size_t count = world->item_count + 1;
    world->items = arrays_add(&world->arrays, count, sizeof *world->items);
    world->needs = arrays_add(&world->arrays, 3 * count, sizeof *world->needs);  // one message and two moves at most
    world->durations = arrays_add(&world->arrays, count, sizeof *world->durations);
    world->ranks = arrays_add(&world->arrays, schedule->ranks, sizeof *world->ranks);
    world->parcel_count = (schedule->moves ? 4 : 2) * unit_count(schedule);
    world->parcels = arrays_add(&world->arrays, world->parcel_count, sizeof *world->parcels);
    world->under_way = arrays_add(&world->arrays, channels_of(schedule), sizeof *world->under_way);
    world->waiting = arrays_add(&world->arrays, schedule->stages, sizeof *world->waiting);
    world->link_free_ns =
        arrays_add(&world->arrays, tariff_links(&world->record.tariff) + 1, sizeof *world->link_free_ns);
    return !world->arrays.failed || error_no_memory(error, "the lanes of a schedule");
}

struct lane_world *lane_world_create(const struct schedule *schedule, const struct cost_row *costs,
                                     const struct network *network, const struct lane_rules *rules,
                                     struct error *error)
{
    struct lane_world *world = calloc(1, sizeof *world);
    costs = costs ? costs : schedule->costs;
    const struct check_request request = { .capacity = rules->capacity, .grouped = rules->grouped };
    bool good = world != NULL || error_no_memory(error, "the lanes of a schedule");
    good = good && (costs || error_set(error, "schedule %s has no costs to simulate with", schedule->name));
    good = good && (!schedule->exchanges || rules->use == LANES_FREE
                    || error_set(error, "schedule %s has messages from a rank to itself, which no lane holds up: they "
                                 "are simulated without lanes", schedule->name));
    if (good) {
        world->rules = *rules;
        world->lowered = (schedule->lowered ? schedule_copy : schedule_lower)(schedule, error);
    }
    good = good && world->lowered && (rules->use == LANES_FREE || schedule_runs(world->lowered, &request, NULL, error))
        && record_create(&world->record, world->lowered, costs, network, error) && allocate(world, error);
    if (good) {
        fill_lanes(world);
        return world;
    }
    lane_world_free(world);
    return NULL;
}

void lane_world_free(struct lane_world *world)
{
    if (!world)
        return;
    record_clear(&world->record);
    schedule_free(world->lowered);
    arrays_clear(&world->arrays);
    free(world->events.at);
    free(world);
}

const uint64_t *lane_world_durations(const struct lane_world *world, size_t *count)
{
    *count = world->duration_count;
    return world->durations;
}

// --- results -------------------------------------------------------------------------

static void count_item(const struct lane_world *world, const struct item *item, struct lane_world_rank *result)
{
    if (item->kind == ITEM_MOVE)
        return;
    if (is_message(*item->group)) {
        result->held_ns += world->rules.use == LANES_FREE || item->start_ns < item->reached_ns ? 0
                         : item->start_ns - item->reached_ns;
        return;
    }
    result->first_ns = item->start_ns < result->first_ns ? item->start_ns : result->first_ns;
    result->last_ns = item->end_ns > result->last_ns ? item->end_ns : result->last_ns;
    result->busy_ns += is_compute(*item->group) ? item->end_ns - item->start_ns : 0;
}

static struct lane_world_rank rank_of(const struct lane_world *world, uint32_t rank)
{
    struct lane_world_rank result = { .first_ns = NEVER };
    for (unsigned i = 0; i < LANES; i++) {
        const struct lane *lane = &world->ranks[rank][i];
        for (const struct item *item = lane->begin; item < lane->end; item++)
            count_item(world, item, &result);
    }
    result.first_ns = result.first_ns == NEVER ? 0 : result.first_ns;
    return result;
}

static bool draw(const struct lane_world *world, uint32_t rank, const struct item *item, struct timeline *timeline)
{
    bool good = true;
    if (item->kind == ITEM_SEND) {
        const struct parcel *parcel = &world->parcels[item->parcel];
        return timeline_add_message(timeline, (struct message){ *item->group, rank, item->peer, parcel->starts_ns,
                                                                     parcel->arrives_ns });
    }
    for (uint32_t i = 0; good && item->kind != ITEM_RECV && i < item->size; i++) {
        good = timeline_add(timeline, (struct span){
            .rank = rank, .action = item->group[i], .start_ns = item->start_ns, .end_ns = item->end_ns,
            .recompute_ns = record_recompute_ns(&world->record, item->group[i]) });
    }
    return good;
}

static bool draw_rank(const struct lane_world *world, uint32_t rank, struct timeline *timeline)
{
    bool good = true;
    for (unsigned i = 0; i < LANES; i++) {
        const struct lane *lane = &world->ranks[rank][i];
        for (const struct item *item = lane->begin; good && item < lane->end; item++)
            good = draw(world, rank, item, timeline);
    }
    return good;
}

bool lane_world_result(const struct lane_world *world, struct lane_world_result *result, struct timeline *timeline,
                  struct error *error)
{
    bool good = true;
    *result = (struct lane_world_result){ .rules = world->rules,
                                     .usual_ns = world->record.iteration_ns, .ranks = world->lowered->ranks };
    result->per_rank = calloc(result->ranks, sizeof *result->per_rank);
    if (!result->per_rank)
        return error_no_memory(error, "the results of a simulation");
    for (uint32_t rank = 0; rank < result->ranks; rank++) {
        result->per_rank[rank] = rank_of(world, rank);
        if (result->per_rank[rank].last_ns > result->iteration_ns)
            result->iteration_ns = result->per_rank[rank].last_ns;
        good = good && (!timeline || draw_rank(world, rank, timeline));
    }
    if (timeline)
        timeline->ranks = result->ranks;
    if (!good)
        lane_world_result_clear(result);
    return good || error_no_memory(error, "a timeline");
}

void lane_world_result_clear(struct lane_world_result *result)
{
    free(result->per_rank);
    *result = (struct lane_world_result){ .iteration_ns = 0 };
}
