#include "partitioner/plan/collectives.h"

#include <stdlib.h>
#include <string.h>

#include "schedules/board.h"
#include "schedules/check.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/random_order.h"
#include "tests/test.h"

// "F 0,1 | B 0,1 | F 2,- | B 2,-": the micro-batch of each copy in each collective of a stage.
static void write_collectives(const struct collectives *collectives, const struct schedule *schedule,
                              const struct placement *placement, uint32_t stage, struct text *text)
{
    const struct stage_collectives *all = &collectives->stages[stage];
    char name[ACTION_SIZE];
    for (size_t m = 0; m < all->count; m++) {
        action_format((struct action){ .kind = all->at[m].action.kind, .micro_batch = 0 }, name);
        text_add(text, "%s%c ", m > 0 ? " | " : "", name[1]);
        for (uint32_t copy = 0; copy < placement_copies(placement, stage); copy++) {
            const uint32_t rank = placement_rank(placement, stage, copy);
            const struct action_list *list = &schedule->lists[rank];
            size_t at = 0;
            while (at < list->count && (list->at[at].stage != stage || collectives->ranks[rank].of[at] != m))
                at++;
            assert_int_equal(at < list->count, all->at[m].present[copy]);
            if (at < list->count)
                text_add(text, "%s%u", copy > 0 ? "," : "", list->at[at].micro_batch);
            else
                text_add(text, "%s-", copy > 0 ? "," : "");
        }
    }
}

static struct schedule *lowered_of(const char *name, const uint32_t *replicas, uint32_t stages, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct generate_request request = { .chunks = 1, .micro_batches = micro_batches, .replicas = replicas,
                                        .stages = stages };
    for (uint32_t s = 0; s < stages; s++)
        request.ranks += replicas[s];
    struct schedule *order = schedule_generate_as(name, &request, &error);
    assert_good(order, error);
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    schedule_free(order);
    return lowered;
}

struct drawing_row {
    const char *name, *schedule;
    uint32_t replicas[2], micro_batches;
    enum shard shard;
    const char *collectives;  // of stage 0
};

static struct drawing_row drawing_rows[] = {
    { "all meet for F and B", "1f1b", { 2, 1 }, 4, SHARD_WEIGHTS, "F 0,1 | F 2,3 | B 0,1 | B 2,3" },
    { "for gradients alone", "1f1b", { 2, 1 }, 4, SHARD_GRADIENTS, "B 0,1 | B 2,3" },
    { "one is absent", "1f1b", { 2, 1 }, 3, SHARD_WEIGHTS, "F 0,1 | F 2,- | B 0,1 | B 2,-" },
    { "nobody meets who shares the optimizer's state", "1f1b", { 2, 1 }, 4, SHARD_OPTIMIZER, "" },
    { "but for updates without a flush", "pipedream", { 2, 1 }, 4, SHARD_OPTIMIZER, "R 0,0 | S 0,0 | R 1,1 | S 1,1" },
};

static void are_these(void **state)
{
    const struct drawing_row *row = *state;
    struct error error = { 0 };
    struct schedule *lowered = lowered_of(row->schedule, row->replicas, 2, row->micro_batches);
    struct placement *placement = placement_read(lowered, &error);
    struct collectives collectives;
    struct text text = { 0 };
    assert_good(placement && collectives_open(&collectives, lowered, placement, row->shard, &error), error);
    write_collectives(&collectives, lowered, placement, 0, &text);
    assert_string_equal(text.data ? text.data : "", row->collectives);
    assert_int_equal(collectives.stages[1].count, 0);
    text_clear(&text);
    collectives_close(&collectives);
    placement_free(placement);
    schedule_free(lowered);
}

// --- a twin that goes through all that must wait for something --------------------------------

// Events that are ordered by a list, and those that happen at once: a collective is one for all of its copies. Whether
// the order has a cycle is found by taking away what nothing comes before.
struct graph {
    size_t events, edge_count;
    size_t (*edges)[2];
};

static size_t place_in(const struct schedule *schedule, uint32_t rank, size_t position)
{
    size_t place = position;
    for (uint32_t r = 0; r < rank; r++)
        place += schedule->lists[r].count;
    return place;
}

static void add_edge(struct graph *graph, size_t before, size_t after)
{
    void *edges = realloc(graph->edges, (graph->edge_count + 1) * sizeof graph->edges[0]);
    assert_non_null(edges);
    graph->edges = edges;
    graph->edges[graph->edge_count][0] = before;
    graph->edges[graph->edge_count++][1] = after;
}

static bool find(const struct schedule *schedule, struct action action, uint32_t *rank, size_t *position)
{
    for (*rank = 0; *rank < schedule->ranks; (*rank)++) {
        const struct action_list *list = &schedule->lists[*rank];
        for (*position = 0; *position < list->count; (*position)++) {
            const struct action at = list->at[*position];
            if (at.kind == action.kind && at.stage == action.stage && at.micro_batch == action.micro_batch
                && at.split == action.split)
                return true;
        }
    }
    return false;
}

// The event of each action: its own, or its collective's, which are numbered behind all actions.
static size_t event_at(const struct schedule *schedule, const struct collectives *collectives, uint32_t rank,
                       size_t position)
{
    const uint32_t stage = schedule->lists[rank].at[position].stage, number = collectives->ranks[rank].of[position];
    size_t event = place_in(schedule, schedule->ranks, 0);
    if (number == NO_COLLECTIVE)
        return place_in(schedule, rank, position);
    for (uint32_t s = 0; s < stage; s++)
        event += collectives->stages[s].count;
    return event + number;
}

static size_t event_of_absence(const struct schedule *schedule, const struct collectives *collectives,
                               const struct absence *absence)
{
    size_t event = place_in(schedule, schedule->ranks, 0);
    for (uint32_t s = 0; s < absence->stage; s++)
        event += collectives->stages[s].count;
    return event + absence->collective;
}

static bool goes_back(struct action action)
{
    return action.kind == ACTION_B || action.kind == ACTION_I || action.kind == ACTION_SEND_B;
}

// What a computation needs of other ranks: the SEND of what it reads, and that the RECV of what its stage has sent
// last but one that way was reached, which is to say all in front of it.
static void add_needs(struct graph *graph, const struct schedule *schedule, const struct collectives *collectives,
                      uint32_t rank, size_t position)
{
    const struct action_list *list = &schedule->lists[rank];
    const struct action action = list->at[position];
    const bool back = goes_back(action);
    struct action need = action;
    uint32_t from;
    size_t at, last = position, sent = 0;
    if (action.kind != ACTION_F && action.kind != ACTION_B && action.kind != ACTION_I)
        return;
    need.kind = back ? ACTION_SEND_B : ACTION_SEND_F;
    need.stage = (uint16_t)(back ? action.stage + 1 : action.stage - 1);
    if ((back || action.stage > 0) && find(schedule, need, &from, &at))
        add_edge(graph, place_in(schedule, from, at), event_at(schedule, collectives, rank, position));
    while (last-- > 0)
        if (is_send(list->at[last]) && list->at[last].stage == action.stage && goes_back(list->at[last]) == back
            && ++sent == 2)
            break;
    if (last == SIZE_MAX)
        return;
    need = list->at[last];
    need.kind = back ? ACTION_RECV_B : ACTION_RECV_F;
    need.stage = (uint16_t)(back ? action.stage - 1 : action.stage + 1);
    assert_true(find(schedule, need, &from, &at));
    add_edge(graph, place_in(schedule, from, at), event_at(schedule, collectives, rank, position));
}

static bool has_no_cycle(const struct schedule *schedule, const struct collectives *collectives)
{
    struct graph graph = { .events = place_in(schedule, schedule->ranks, 0) };
    for (uint32_t s = 0; s < schedule->stages; s++)
        graph.events += collectives->stages[s].count;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct rank_collectives *own = &collectives->ranks[rank];
        size_t last = SIZE_MAX, absent = 0;
        for (size_t i = 0; i <= schedule->lists[rank].count; i++) {
            for (; absent < own->absence_count && own->absences[absent].position == i; absent++) {
                const size_t event = event_of_absence(schedule, collectives, &own->absences[absent]);
                if (last != SIZE_MAX)
                    add_edge(&graph, last, event);
                last = event;
            }
            if (i == schedule->lists[rank].count)
                break;
            const size_t event = event_at(schedule, collectives, rank, i);
            if (last != SIZE_MAX)
                add_edge(&graph, last, event);
            last = event;
            add_needs(&graph, schedule, collectives, rank, i);
        }
        assert_int_equal(absent, own->absence_count);
    }
    size_t *before = calloc(graph.events + 1, sizeof *before), left = graph.events;
    bool *gone = calloc(graph.events + 1, sizeof *gone), moves = true;
    assert_true(before && gone);
    for (size_t e = 0; e < graph.edge_count; e++)
        before[graph.edges[e][1]]++;
    while (moves) {
        moves = false;
        for (size_t event = 0; event < graph.events; event++) {
            if (gone[event] || before[event] > 0)
                continue;
            gone[event] = moves = true;
            left--;
            for (size_t e = 0; e < graph.edge_count; e++)
                before[graph.edges[e][1]] -= graph.edges[e][0] == event;
        }
    }
    free(before);
    free(gone);
    free(graph.edges);
    return left == 0;
}

// Each copy comes to every collective of its stage once, in their order.
static void check_orders(const struct schedule *schedule, const struct collectives *collectives,
                         const struct placement *placement)
{
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        for (uint32_t copy = 0; copy < placement_copies(placement, stage); copy++) {
            const uint32_t rank = placement_rank(placement, stage, copy);
            const struct rank_collectives *own = &collectives->ranks[rank];
            size_t next = 0, absent = 0;
            for (size_t i = 0; i <= schedule->lists[rank].count; i++) {
                for (; absent < own->absence_count && own->absences[absent].position == i; absent++)
                    if (own->absences[absent].stage == stage)
                        assert_int_equal(own->absences[absent].collective, next++);
                if (i < schedule->lists[rank].count && schedule->lists[rank].at[i].stage == stage
                    && own->of[i] != NO_COLLECTIVE)
                    assert_int_equal(own->of[i], next++);
            }
            assert_int_equal(next, collectives->stages[stage].count);
        }
}

static void what_is_accepted_comes_to_its_end(void **state)
{
    (void)state;
    size_t accepted = 0, standing = 0, apart = 0, absent = 0;
    for (uint64_t trial = 0; trial < test_all_trials(800, 20000); trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct traits traits = random_traits(&seed);
        traits.splits = 0;
        traits.routes = 2 + trial % 2;
        size_t pairs;
        struct schedule *order = random_order(&seed, &traits);
        struct schedule *lowered = random_lower(&seed, order, &traits, &pairs);
        struct placement *placement = placement_read(lowered, &error);
        struct collectives collectives;
        assert_good(placement, error);
        const enum shard shard = random_below(&seed, 2) ? SHARD_GRADIENTS : SHARD_WEIGHTS;
        const bool good = collectives_open(&collectives, lowered, placement, shard, &error);
        if (good) {
            check_orders(lowered, &collectives, placement);
            if (!has_no_cycle(lowered, &collectives))
                fail_msg("trial %llu is accepted and stands still", (unsigned long long)trial);
            accepted += lowered->route_count > 1;
        } else {
            assert_int_equal(error.kind, ERROR_ANSWER);
            standing += strstr(error.text, "for ever") != NULL;
            apart += strstr(error.text, "in different orders") != NULL;
        }
        for (uint32_t rank = 0; good && rank < lowered->ranks; rank++)
            absent += collectives.ranks[rank].absence_count;
        collectives_close(&collectives);
        placement_free(placement);
        schedule_free(lowered);
        schedule_free(order);
    }
    print_message("# %zu accepted with several routes and %zu absences; %zu stand still, %zu have different orders\n", accepted,
                  absent, standing, apart);
    assert_true(accepted > 10 && standing > 0 && apart > 0 && absent > 0);
}

// Each of these goes well by its messages alone. Two slots are for what stage 1 sends back, whoever gets it: 1B3 waits
// until its 1SEND_B0 is received, also when 1SEND_B1 has been. Of who shares gradients 0B2 and 0B3 are a collective.
//
//     rank 0   0F0  0F2  0B2 0B0              0B2 waits for 0B3, that for 1B3, and that for 0RECV_B0, behind 0B2
//     rank 1   0F1  0F3  0B3 0B1
//     rank 2   1F2 1B2  1F0 1B0  1F1 1B1  1F3 1B3
struct slot_row {
    const char *name, *lists[3];
    bool stands;
};

static struct slot_row slot_rows[] = {
    { "a third message waits for the first", {
        "0F0 0SEND_F0 0F2 0SEND_F2 0RECV_B2 0B2 0RECV_B0 0B0 0REDUCE 0STEP",
        "0F1 0SEND_F1 0F3 0SEND_F3 0RECV_B1 0RECV_B3 0B3 0B1 0REDUCE 0STEP",
        "1RECV_F0 1RECV_F2 1F2 1B2 1SEND_B2 1F0 1B0 1SEND_B0 1RECV_F1 1RECV_F3 1F1 1B1 1SEND_B1 1F3 1B3 1SEND_B3"
        " 1STEP" }, .stands = true },
    { "which is there early enough", {
        "0F0 0SEND_F0 0F2 0SEND_F2 0RECV_B2 0RECV_B0 0B2 0B0 0REDUCE 0STEP",
        "0F1 0SEND_F1 0F3 0SEND_F3 0RECV_B1 0RECV_B3 0B3 0B1 0REDUCE 0STEP",
        "1RECV_F0 1RECV_F2 1F2 1B2 1SEND_B2 1F0 1B0 1SEND_B0 1RECV_F1 1RECV_F3 1F1 1B1 1SEND_B1 1F3 1B3 1SEND_B3"
        " 1STEP" }, .stands = false },
};

// Of two stages, the first on ranks 0 and 1, and four micro-batches.
static struct schedule *hand_made(const char *const lists[3])
{
    struct error error = { 0 };
    struct text text = { 0 };
    text_add(&text, "{\"format\": \"weir.schedule\", \"version\": 1, \"name\": \"by hand\", \"weights\": \"flush\","
             " \"ranks\": 3, \"stages\": 2, \"micro_batches\": 4, \"routes\": [[0, 2], [1, 2]],"
             " \"route_of\": [0, 1, 0, 1], \"actions\": [\"%s\", \"%s\", \"%s\"]}", lists[0], lists[1], lists[2]);
    struct schedule *lowered = schedule_read(text.data, text.length, "by hand", &error);
    assert_good(lowered, error);
    text_clear(&text);
    return lowered;
}

static void waits_for_ever(void **state)
{
    const struct slot_row *row = *state;
    struct error error = { 0 };
    struct schedule *lowered = hand_made(row->lists);
    struct placement *placement = placement_read(lowered, &error);
    struct collectives collectives;
    struct check_result check;
    assert_good(placement && schedule_check(lowered, 0, &check, &error), error);
    assert_true(check.ok);
    assert_int_equal(collectives_open(&collectives, lowered, placement, SHARD_GRADIENTS, &error), !row->stands);
    if (row->stands)
        assert_error(error, "replicas do together what they share states for, and by this schedule they would wait for"
                     " each other for ever: share less, or take another");
    assert_int_equal(has_no_cycle(lowered, &collectives), !row->stands);
    collectives_close(&collectives);
    check_result_clear(&check);
    placement_free(placement);
    schedule_free(lowered);
}

// Nearly whatever replicas there are: some begin with fewer forwards than others, and of some a neighbour with fewer
// replicas goes back before all of a collective's micro-batches have come.
static void replicas_of_generators_meet(void **state)
{
    (void)state;
    size_t met = 0, refused = 0;
    const char *const names[] = { "gpipe", "1f1b" };
    for (uint64_t trial = 0; trial < test_all_trials(300, 5000); trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        uint32_t replicas[4], stages = 1 + (uint32_t)random_below(&seed, 4);
        for (uint32_t s = 0; s < stages; s++)
            replicas[s] = 1 + (uint32_t)random_below(&seed, 4);
        struct schedule *lowered = lowered_of(names[trial % 2], replicas, stages, 4 + (uint32_t)random_below(&seed, 12));
        struct placement *placement = placement_read(lowered, &error);
        struct collectives collectives;
        assert_good(placement, error);
        const bool good = collectives_open(&collectives, lowered, placement,
                                           random_below(&seed, 2) ? SHARD_GRADIENTS : SHARD_WEIGHTS, &error);
        if (good) {
            check_orders(lowered, &collectives, placement);
            assert_true(has_no_cycle(lowered, &collectives));
        } else {
            assert_int_equal(error.kind, ERROR_ANSWER);
        }
        met += good;
        refused += !good;
        collectives_close(&collectives);
        placement_free(placement);
        schedule_free(lowered);
    }
    print_message("# %zu meet, %zu cannot\n", met, refused);
    assert_true(refused > 0 && met > 10 * refused);
}

#define COUNT(rows) (sizeof (rows) / sizeof (rows)[0])

int main(void)
{
    enum { SINGLE = 2 };
    struct CMUnitTest tests[SINGLE + COUNT(drawing_rows) + COUNT(slot_rows)] = {
        cmocka_unit_test(what_is_accepted_comes_to_its_end),
        cmocka_unit_test(replicas_of_generators_meet),
    };
    for (size_t i = 0; i < COUNT(drawing_rows); i++)
        tests[SINGLE + i] = (struct CMUnitTest)TEST_ROW(are_these, &drawing_rows[i]);
    for (size_t i = 0; i < COUNT(slot_rows); i++)
        tests[SINGLE + COUNT(drawing_rows) + i] = (struct CMUnitTest)TEST_ROW(waits_for_ever, &slot_rows[i]);
    return cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}
