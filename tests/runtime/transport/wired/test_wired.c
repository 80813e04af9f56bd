// The transport over communicators, on a device whose communicators promise no more
// than NCCL: in order, without tags, sends that wait for their receive. Every rank is a
// thread that goes through its list as an interpreter does.
#include "runtime/transport/wired/wired.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>

#include "common/clock.h"
#include "runtime/groups/thread_group.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/test.h"

enum { NUMBERS = 24, MOST_RANKS = 16 };  // of a message
static const uint64_t second_ns = 1000000000;

// Ranks on one device.
struct world {
    struct schedule *schedule;
    struct placement *placement;
    const struct ties *ties;  // or NULL
    struct device *device;
    struct thread_group *group;
    bool one_for_all, waits_at_once;
    uint64_t seed;
    void *(*does)(void *rank);
};

struct rank {
    struct world *world;
    uint32_t number;
    pthread_t thread;
    struct process_group group;
    struct wired *wired;
    struct queue *queue;
    uint64_t seed;
    struct error error;
};

static struct schedule *lowered_of(struct schedule *order)
{
    struct error error = { 0 };
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    schedule_free(order);
    return lowered;
}

// Takes the schedule.
static struct world *world_of(struct schedule *lowered, void *(*does)(void *rank))
{
    struct error error = { 0 };
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    *world = (struct world){ .schedule = lowered, .does = does, .placement = placement_read(lowered, &error),
                             .device = device_open("cpu:queued", &error),
                             .group = thread_group_create(lowered->ranks, 0, &error) };
    assert_good(world->placement && world->device && world->group, error);
    return world;
}

static void world_free(struct world *world)
{
    thread_group_free(world->group);
    device_close(world->device);
    placement_free(world->placement);
    schedule_free(world->schedule);
    free(world);
}

static struct wired_settings settings_of(struct rank *rank)
{
    struct world *world = rank->world;
    rank->group = thread_group_member(world->group, rank->number);
    return (struct wired_settings){
        .schedule = world->schedule, .placement = world->placement, .ties = world->ties, .device = world->device,
        .group = &rank->group, .one_for_all = world->one_for_all, .deadline_ns = 60 * second_ns,
    };
}

static bool open_rank(struct rank *rank)
{
    const struct wired_settings settings = settings_of(rank);
    return (rank->queue = queue_create(rank->world->device, &rank->error))
        && (rank->wired = wired_create(&settings, &rank->error));
}

static void close_rank(struct rank *rank)
{
    wired_free(rank->wired);
    queue_free(rank->queue);
}

// All ranks do what the world does; false with the error of the first that failed.
static bool run(struct world *world, struct error *error)
{
    struct rank ranks[MOST_RANKS];
    assert_true(world->schedule->ranks <= MOST_RANKS);
    for (uint32_t r = 0; r < world->schedule->ranks; r++) {
        ranks[r] = (struct rank){ .world = world, .number = r, .seed = world->seed * 100 + r };
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, world->does, &ranks[r]), 0);
    }
    bool good = true;
    for (uint32_t r = 0; r < world->schedule->ranks; r++) {
        pthread_join(ranks[r].thread, NULL);
        if (good && ranks[r].error.kind != ERROR_NONE)
            good = error_set_kind(error, ranks[r].error.kind, "%s", ranks[r].error.text);
    }
    return good;
}

// --- messages ----------------------------------------------------------------------------

// A SEND or RECV under way in a pass.
struct letter {
    struct ticket ticket;
    struct event *after;
    float *data;
    struct message_piece pieces[2];
    bool is_posted;
};

static bool is_receive(struct action action)
{
    return action.kind == ACTION_RECV_F || action.kind == ACTION_RECV_B;
}

static bool is_send(struct action action)
{
    return action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B;
}

// What a message says: its pass, its channel, its micro-batch and split.
static float number_of(const struct schedule *schedule, uint32_t pass, struct action action, size_t i)
{
    return (float)(pass * 100000 + channel_of(schedule, action) * 1000 + action.micro_batch * 16 + action.split)
         + (float)i / 64;
}

// Until it has come, as the host of a rank waits for its own.
static bool await_ticket(struct rank *rank, struct ticket *ticket)
{
    struct transport *transport = wired_transport(rank->wired);
    const uint64_t deadline_ns = clock_now_ns() + 60 * second_ns;
    while (ticket->active) {
        if (!transport->functions->test(transport, ticket, &rank->error))
            return false;
        if (ticket->active && !transport->functions->wait(transport, deadline_ns, &rank->error))
            return false;
        if (clock_now_ns() > deadline_ns)
            return error_set_kind(&rank->error, ERROR_MACHINE, "rank %u: a ticket was not issued", rank->number);
    }
    while (!event_done(ticket->event)) {
        if (!transport->functions->check(transport, &rank->error))
            return false;
        if (clock_now_ns() > deadline_ns)
            return error_set_kind(&rank->error, ERROR_MACHINE, "rank %u: a message did not come", rank->number);
        nanosleep(&(struct timespec){ .tv_nsec = 10000 }, NULL);
    }
    return transport->functions->check(transport, &rank->error);  // an event comes also of what was aborted
}

// Every third micro-batch goes in two pieces, and every sixth in none.
static bool is_in_pieces(struct action action)
{
    return action.micro_batch % 3 == 1;
}

static bool is_empty(struct action action)
{
    return action.micro_batch % 6 == 4;
}

static bool post_pieces(struct rank *rank, struct letter *letter, struct action action, struct event *after)
{
    enum { FIRST = 5 };
    struct transport *transport = wired_transport(rank->wired);
    letter->pieces[0] = (struct message_piece){ letter->data + FIRST, (NUMBERS - FIRST) * sizeof(float) };
    letter->pieces[1] = (struct message_piece){ letter->data, FIRST * sizeof(float) };
    return transport->functions->post_pieces(transport, channel_of(rank->world->schedule, action), is_send(action),
                                             letter->pieces, is_empty(action) ? 0 : 2, (struct message_header){ 0 },
                                             after, &letter->ticket, &rank->error);
}

static bool post_receive(struct rank *rank, struct letter *letter, struct action action)
{
    struct transport *transport = wired_transport(rank->wired);
    letter->is_posted = true;
    if (is_in_pieces(action))
        return post_pieces(rank, letter, action, NULL);
    return transport->functions->post_receive(transport, channel_of(rank->world->schedule, action), letter->data,
                                              NUMBERS * sizeof(float), (struct message_header){ 0 }, NULL,
                                              &letter->ticket, &rank->error);
}

// The numbers are written by the rank's own queue, which the message has to wait for.
static bool post_send(struct rank *rank, struct letter *letter, struct action action, uint32_t pass)
{
    const struct schedule *schedule = rank->world->schedule;
    struct transport *transport = wired_transport(rank->wired);
    float numbers[NUMBERS];
    for (size_t i = 0; i < NUMBERS; i++)
        numbers[i] = number_of(schedule, pass, action, i);
    queue_upload(rank->queue, letter->data, numbers, sizeof numbers);
    event_record(letter->after, rank->queue);
    letter->is_posted = true;
    if (is_in_pieces(action))
        return post_pieces(rank, letter, action, letter->after);
    return transport->functions->post_send(transport, channel_of(schedule, action), letter->data, sizeof numbers,
                                           (struct message_header){ 0 }, letter->after, &letter->ticket,
                                           &rank->error);
}

// Some of the receives that come next, of any channel: as an interpreter posts what it has slots for.
static bool post_ahead(struct rank *rank, struct letter *letters, size_t from)
{
    const struct action_list *list = &rank->world->schedule->lists[rank->number];
    bool held_back[64] = { false };  // a channel's own order must stay
    size_t ahead = random_below(&rank->seed, 6);
    for (size_t i = from; i < list->count && ahead > 0; i++) {
        const uint32_t channel = is_receive(list->at[i]) ? channel_of(rank->world->schedule, list->at[i]) % 64 : 0;
        if (!is_receive(list->at[i]) || letters[i].is_posted || held_back[channel])
            continue;
        held_back[channel] = random_below(&rank->seed, 3) == 0;
        ahead -= !held_back[channel];
        if (!held_back[channel] && !post_receive(rank, &letters[i], list->at[i]))
            return false;
    }
    return true;
}

static bool came_right(struct rank *rank, const struct letter *letter, struct action action, uint32_t pass)
{
    for (size_t i = 0; i < NUMBERS && !is_empty(action); i++)
        if (letter->data[i] != number_of(rank->world->schedule, pass, action, i)) {
            char name[ACTION_SIZE];
            return error_set(&rank->error, "rank %u: %s was given %g where %g was sent", rank->number,
                             action_format(action, name), (double)letter->data[i],
                             (double)number_of(rank->world->schedule, pass, action, i));
        }
    return true;
}

static bool go_through(struct rank *rank, struct letter *letters, uint32_t pass)
{
    const struct action_list *list = &rank->world->schedule->lists[rank->number];
    for (size_t i = 0; i < list->count; i++)
        letters[i].is_posted = false;
    for (size_t i = 0; i < list->count; i++) {
        struct letter *letter = &letters[i];
        if (is_send(list->at[i]) && !post_send(rank, letter, list->at[i], pass))
            return false;
        if (!is_receive(list->at[i]))
            continue;
        if ((!letter->is_posted && !post_receive(rank, letter, list->at[i])) || !post_ahead(rank, letters, i)
            || (rank->world->waits_at_once && !await_ticket(rank, &letter->ticket)))
            return false;
    }
    for (size_t i = 0; i < list->count; i++)
        if (letters[i].is_posted
            && (!await_ticket(rank, &letters[i].ticket)
                || (is_receive(list->at[i]) && !came_right(rank, &letters[i], list->at[i], pass))))
            return false;
    return true;
}

static void *pass_messages(void *argument)
{
    struct rank *rank = argument;
    const size_t count = rank->world->schedule->lists[rank->number].count;
    struct letter *letters = calloc(count + 1, sizeof *letters);
    float *data = device_allocate(rank->world->device, (count + 1) * NUMBERS * sizeof *data, &rank->error);
    for (size_t i = 0; i < count; i++) {
        letters[i].data = data + i * NUMBERS;
        letters[i].after = event_create(rank->world->device, &rank->error);
    }
    const bool is_open = open_rank(rank);
    for (uint32_t pass = 0; is_open && pass < 2 && rank->error.kind == ERROR_NONE; pass++)
        if (!go_through(rank, letters, pass)) {
            struct transport *transport = wired_transport(rank->wired);
            transport->functions->abandon(transport, &rank->error);
        }
    close_rank(rank);
    for (size_t i = 0; i < count; i++)
        event_free(letters[i].after);
    device_release(rank->world->device, data);
    free(letters);
    return NULL;
}

static void pass_all_messages(struct schedule *lowered, uint64_t seed, const char *name)
{
    struct world *world = world_of(lowered, pass_messages);
    for (int way = 0; way < 4; way++) {
        struct error error = { 0 };
        world->seed = seed * 4 + (uint64_t)way;
        world->one_for_all = way & 1;
        world->waits_at_once = way & 2;
        thread_group_free(world->group);  // which may have failed
        world->group = thread_group_create(lowered->ranks, 0, &error);
        assert_good(world->group, error);
        // One communicator serves only where the orders of all pairs are alike: that is refused by its reason.
        if (!run(world, &error)
            && !(world->one_for_all && strstr(error.text, "would take some for others")))
            fail_msg("%s, way %d: %s", name, way, error.text);
    }
    world_free(world);
}

static void every_message_of_every_schedule_is_the_one_expected(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (const struct generator *generator = generators; generator->name; generator++) {
        for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
            struct error error = { 0 };
            char name[100];
            struct schedule *order = schedule_generate(generator->name, ranks, 0, 2 * ranks, &error);
            snprintf(name, sizeof name, "%s of %u ranks", generator->name, ranks);
            if (order)
                pass_all_messages(lowered_of(order), seed++, name);
        }
    }
    assert_true(seed > 20);
}

// --- wiring -------------------------------------------------------------------------------

static void channels_share_a_wire_only_where_their_orders_are_alike(void **state)
{
    (void)state;
    struct error error = { 0 };
    // zb-v: stages 0 and 3 on rank 0; 1 and 2 on rank 1, which hands on to itself.
    struct schedule *schedule = lowered_of(schedule_generate("zb-v", 2, 0, 4, &error));
    struct placement *placement = placement_read(schedule, &error);
    struct wiring wiring;
    struct text text = { 0 };
    assert_good(wiring_open(&wiring, schedule, placement, NULL, false, &error), error);
    wiring_say(&wiring, &text);
    assert_non_null(strstr(text.data, "communicators for messages"));
    for (uint32_t channel = 0; channel < channel_count(schedule); channel++) {
        const struct channel_ends ends = channel_ends(schedule, channel);
        const uint32_t wire = wiring.wire_of_channel[channel];
        assert_true((wire == NO_WIRE) == (ends.from == ends.to));
        if (wire != NO_WIRE)
            assert_true(wiring.wires[wire].ranks[0] == ends.from && wiring.wires[wire].ranks[1] == ends.to);
    }
    text_clear(&text);
    wiring_close(&wiring);
    placement_free(placement);
    schedule_free(schedule);
}

// --- reductions -----------------------------------------------------------------------------

enum { SUMMED = 1000 };

static float brought_by(uint32_t rank, uint64_t round, size_t i)
{
    uint64_t state = (round << 40) + ((uint64_t)rank << 32) + i;
    return (float)random_below(&state, 2000000) / 997.0f - 1000.0f;
}

static float sum_of(uint32_t adders, uint64_t round, size_t i)
{
    float sum = brought_by(0, round, i);
    for (uint32_t copy = 1; copy < adders; copy++)
        sum += brought_by(copy, round, i);
    return sum;
}

// What stands in element i of a copy when it is done; of others' shares nothing is said.
static bool is_right(const struct rank *rank, enum reduction_kind kind, uint64_t count, uint64_t round, size_t i,
                     float found)
{
    const uint32_t ranks = rank->world->schedule->ranks;
    const uint32_t adders = rank->world->ties ? rank->world->ties->at->adders : ranks;
    uint32_t owner = 0;
    if (i >= count)
        return found == brought_by(rank->number, round, i);
    while (i >= share_first(count, owner + 1, ranks))
        owner++;
    if (kind == REDUCTION_GATHER)
        return found == brought_by(owner, round, i);
    return (kind == REDUCTION_SHARES && owner != rank->number) || found == sum_of(adders, round, i);
}

// Elements that are gathered from shares, or added to them, in a room; the copy `absent` has none.
struct sharing {
    enum reduction_kind kind;
    uint64_t first, count;
    uint32_t absent;
};

static struct sharing sharing_of(uint32_t ranks, uint64_t round)
{
    uint64_t seed = round;
    struct sharing sharing = { .kind = round % 2 ? REDUCTION_ONTO : REDUCTION_GATHER,
                               .first = random_below(&seed, SUMMED) };
    sharing.count = 1 + random_below(&seed, SUMMED - sharing.first);
    sharing.absent = (uint32_t)random_below(&seed, ranks + 1);
    return sharing;
}

// What a share begins with.
static float share_at(uint64_t round, uint64_t i)
{
    return brought_by(100, round, i);
}

static float onto_share(const struct sharing *sharing, uint32_t ranks, uint64_t round, uint64_t i)
{
    float sum = share_at(round, i);
    for (uint32_t copy = 0; copy < ranks; copy++)
        if (copy != sharing->absent && i >= sharing->first && i < sharing->first + sharing->count)
            sum += brought_by(copy, round, i);
    return sum;
}

static void check_shared(struct rank *rank, const struct sharing *sharing, uint64_t round, const float *own,
                         const float *room)
{
    const uint32_t ranks = rank->world->schedule->ranks;
    const uint64_t first = share_first(SUMMED, rank->number, ranks), end = share_first(SUMMED, rank->number + 1, ranks);
    for (uint64_t i = 0; sharing->kind == REDUCTION_GATHER && rank->number != sharing->absent && i < sharing->count; i++)
        if (room[i] != share_at(round, sharing->first + i))
            error_set(&rank->error, "rank %u, round %u: element %u is not gathered", rank->number, (unsigned)round,
                      (unsigned)i);
    for (uint64_t i = first; sharing->kind == REDUCTION_ONTO && i < end; i++)
        if (own[i - first] != onto_share(sharing, ranks, round, i))
            error_set(&rank->error, "rank %u, round %u: element %u of the share is wrong", rank->number,
                      (unsigned)round, (unsigned)i);
}

static void share_elements(struct rank *rank, struct transport *transport, struct event *after, float *own, float *room,
                           uint64_t round)
{
    const uint32_t ranks = rank->world->schedule->ranks;
    const struct sharing sharing = sharing_of(ranks, round);
    const bool is_absent = rank->number == sharing.absent;
    bool brings[8];
    float numbers[SUMMED];
    struct ticket ticket = { 0 };
    for (uint32_t copy = 0; copy < ranks; copy++)
        brings[copy] = copy != sharing.absent;
    for (uint64_t i = 0; i < SUMMED; i++)
        numbers[i] = share_at(round, share_first(SUMMED, rank->number, ranks) + i);
    queue_upload(rank->queue, own, numbers, sizeof numbers);
    for (uint64_t i = 0; i < SUMMED; i++)
        numbers[i] = brought_by(rank->number, round, sharing.first + i);
    queue_upload(rank->queue, room, numbers, sizeof numbers);
    event_record(after, rank->queue);
    const struct reduction reduction = { .kind = sharing.kind, .numbers = is_absent ? NULL : room,
                                         .number_bytes = sizeof *own, .count = sharing.count, .own = own,
                                         .first = sharing.first, .whole = SUMMED, .brings = brings };
    if (transport->functions->post_reduction(transport, &reduction, (struct message_header){ 0 }, after, &ticket,
                                             &rank->error)
        && await_ticket(rank, &ticket))
        check_shared(rank, &sharing, round, own, room);
}

// One stage on all ranks, each of which has a share, in many small pieces.
static void *share_out(void *argument)
{
    struct rank *rank = argument;
    struct world *world = rank->world;
    struct wired_settings settings = settings_of(rank);
    struct event *after = event_create(world->device, &rank->error);
    float *own = device_allocate(world->device, SUMMED * sizeof *own, &rank->error);
    float *room = device_allocate(world->device, SUMMED * sizeof *room, &rank->error);
    settings.room_bytes = 400;
    rank->queue = queue_create(world->device, &rank->error);
    rank->wired = wired_create(&settings, &rank->error);
    struct transport *transport = rank->wired ? wired_transport(rank->wired) : NULL;
    for (uint64_t round = 0; transport && rank->error.kind == ERROR_NONE && round < 40; round++)
        share_elements(rank, transport, after, own, room, round);
    close_rank(rank);
    event_free(after);
    device_release(world->device, own);
    device_release(world->device, room);
    return NULL;
}

// One stage, or a tie, on all ranks; counts that do not divide by them, in many small pieces.
static void *add_up(void *argument)
{
    struct rank *rank = argument;
    struct world *world = rank->world;
    struct wired_settings settings = settings_of(rank);
    struct event *after = event_create(world->device, &rank->error);
    float *gradients = device_allocate(world->device, SUMMED * sizeof *gradients, &rank->error);
    settings.room_bytes = 400;
    rank->queue = queue_create(world->device, &rank->error);
    rank->wired = wired_create(&settings, &rank->error);
    struct transport *transport = rank->wired ? wired_transport(rank->wired) : NULL;
    for (uint64_t round = 0; transport && rank->error.kind == ERROR_NONE && round < 18; round++) {
        const uint64_t counts[] = { SUMMED, 1, 0, 2, 997, 64 }, count = counts[round % 6];
        const enum reduction_kind kind = world->ties ? REDUCTION_WHOLE : (enum reduction_kind)(round / 6);
        float own[SUMMED];
        struct ticket ticket = { 0 };
        for (size_t i = 0; i < SUMMED; i++)
            own[i] = brought_by(rank->number, round, i);
        queue_upload(rank->queue, gradients, own, sizeof own);
        event_record(after, rank->queue);
        const struct reduction reduction = { .kind = kind, .group = world->ties ? world->schedule->stages : 0,
                                             .numbers = gradients, .number_bytes = sizeof *gradients, .count = count };
        if (!transport->functions->post_reduction(transport, &reduction, (struct message_header){ 0 }, after, &ticket,
                                                  &rank->error)
            || !await_ticket(rank, &ticket))
            break;
        for (size_t i = 0; i < SUMMED; i++)
            if (!is_right(rank, kind, count, round, i, gradients[i]))
                error_set(&rank->error, "rank %u, round %u: element %zu is %g", rank->number, (unsigned)round, i,
                          (double)gradients[i]);
    }
    close_rank(rank);
    event_free(after);
    device_release(world->device, gradients);
    return NULL;
}

static void on_all_ranks(void *(*does)(void *argument))
{
    for (uint32_t replicas = 2; replicas <= 5; replicas++) {
        struct error error = { 0 };
        const struct generate_request request = { .ranks = replicas, .micro_batches = 2 * replicas, .chunks = 1,
                                                  .replicas = &replicas, .stages = 1 };
        struct schedule *order = schedule_generate_as("1f1b", &request, &error);
        assert_good(order, error);
        struct world *world = world_of(lowered_of(order), does);
        assert_good(run(world, &error), error);
        world_free(world);
    }
}

static void sums_and_shares_have_the_bits_of_a_loop_over_the_copies(void **state)
{
    (void)state;
    on_all_ranks(add_up);
}

static void elements_of_shares_are_gathered_in_rooms_and_added_to_from_there(void **state)
{
    (void)state;
    on_all_ranks(share_out);
}

static void sums_of_a_tie_are_of_those_who_bring_something_and_go_to_all(void **state)
{
    (void)state;
    uint32_t all[] = { 0, 1, 2, 3, 4 };
    for (uint32_t ranks = 2; ranks <= 5; ranks++) {
        for (uint32_t adders = 2; adders <= ranks; adders++) {
            struct error error = { 0 };
            struct tie tie = { .ranks = all, .rank_count = ranks, .adders = adders };
            const struct ties ties = { &tie, 1, false };
            struct world *world = world_of(lowered_of(schedule_generate("1f1b", ranks, 0, ranks, &error)), add_up);
            world->ties = &ties;
            assert_good(run(world, &error), error);
            world_free(world);
        }
    }
}

// --- failures ---------------------------------------------------------------------------------

// Rank 1 gives up; the others have a receive under way that will never come.
static void *wait_for_who_gives_up(void *argument)
{
    struct rank *rank = argument;
    struct world *world = rank->world;
    float *data = device_allocate(world->device, NUMBERS * sizeof *data, &rank->error);
    struct letter letter = { .data = data };
    const struct action_list *list = &world->schedule->lists[rank->number];
    if (open_rank(rank)) {
        struct transport *transport = wired_transport(rank->wired);
        struct error reason = { 0 };
        error_set_kind(&reason, ERROR_MACHINE, "rank 1: 1F0: it broke");
        size_t i = 0;
        while (i < list->count && !is_receive(list->at[i]))
            i++;
        if (rank->number == 1)
            transport->functions->abandon(transport, &reason);
        else if (i < list->count && post_receive(rank, &letter, list->at[i]))
            await_ticket(rank, &letter.ticket);
        if (rank->number != 1) {
            transport->functions->cancel(transport, &letter.ticket);
            transport->functions->abandon(transport, &rank->error);
        }
    }
    close_rank(rank);
    device_release(world->device, data);
    return NULL;
}

static void who_waits_learns_that_another_gave_up(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct world *world = world_of(lowered_of(schedule_generate("1f1b", 3, 0, 4, &error)), wait_for_who_gives_up);
    assert_false(run(world, &error));
    assert_error(error, "rank 1: 1F0: it broke");
    assert_int_equal(error.kind, ERROR_MACHINE);
    world_free(world);
}

// Comes to say what wires are called, and opens none. What the first of rank 0's is called.
static struct communicator_name say_names_only(const struct wired_settings *settings)
{
    enum { MOST_NAMES = 8 };
    struct communicator_name own[MOST_NAMES] = { 0 }, all[MOST_RANKS * MOST_NAMES];
    struct wiring wiring;
    struct error error = { 0 };
    assert_good(wiring_open(&wiring, settings->schedule, settings->placement, NULL, false, &error), error);
    uint32_t makes[MOST_RANKS] = { 0 }, most = 0;
    for (uint32_t i = 0; i < wiring.count; i++) {
        const uint32_t maker = wiring.wires[i].ranks[0];
        most = ++makes[maker] > most ? makes[maker] : most;
    }
    assert_true(most <= MOST_NAMES);
    settings->group->all_gather(settings->group->self, own, most * sizeof own[0], all, &error);
    wiring_close(&wiring);
    return all[0];
}

static void *miss_a_rank(void *argument)
{
    struct rank *rank = argument;
    struct wired_settings settings = settings_of(rank);
    settings.deadline_ns = second_ns / 5;
    if (rank->number == 2) {
        say_names_only(&settings);
        return NULL;
    }
    rank->wired = wired_create(&settings, &rank->error);
    wired_free(rank->wired);
    return NULL;
}

static void a_peer_that_never_comes_is_not_waited_for_forever(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct world *world = world_of(lowered_of(schedule_generate("1f1b", 3, 0, 4, &error)), miss_a_rank);
    assert_false(run(world, &error));
    assert_non_null(strstr(error.text, "did not come up within 200 ms"));
    world_free(world);
}

// Rank 1 lets rank 0 greet it, cuts the wire, and says why only then.
static void *cut_the_first_wire(void *argument)
{
    struct rank *rank = argument;
    const struct wired_settings settings = settings_of(rank);
    if (rank->number == 0) {
        open_rank(rank);
        close_rank(rank);
        return NULL;
    }
    const struct communicator_name name = say_names_only(&settings);
    struct error reason = { 0 };
    struct communicator *end = communicator_open(rank->world->device, &name, 2, 1, &reason);
    usleep(100000);
    communicator_abort(end, 0);
    usleep(100000);
    error_set_kind(&reason, ERROR_MACHINE, "rank 1: 1F0: it broke");
    settings.group->abandon(settings.group->self, &reason);
    communicator_close(end);
    return NULL;
}

static void a_wire_that_breaks_at_the_start_is_not_the_reason(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct world *world = world_of(lowered_of(schedule_generate("1f1b", 2, 0, 4, &error)), cut_the_first_wire);
    assert_false(run(world, &error));
    assert_error(error, "rank 1: 1F0: it broke");
    world_free(world);
}

static void a_device_without_communicators_says_so(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    struct communicator_name name;
    assert_good(device, error);
    assert_false(communicator_make_name(device, &name, &error));
    assert_error(error, "device cpu has nothing that sends to other ranks (cuda has, by NCCL)");
    device_close(device);
}

// --- order --------------------------------------------------------------------------------------

// Each rank posts its receive first, which cannot come before what the rank sends behind it.
static void *receive_before_sending(void *argument)
{
    struct rank *rank = argument;
    struct world *world = rank->world;
    float *data = device_allocate(world->device, 2 * NUMBERS * sizeof *data, &rank->error);
    struct letter in = { .data = data }, out = { .data = data + NUMBERS };
    const struct action receive = { .stage = (uint16_t)rank->number,
                                    .kind = rank->number == 0 ? ACTION_RECV_B : ACTION_RECV_F };
    const struct action send = { .stage = (uint16_t)rank->number,
                                 .kind = rank->number == 0 ? ACTION_SEND_F : ACTION_SEND_B };
    out.after = event_create(world->device, &rank->error);
    if (open_rank(rank) && post_receive(rank, &in, receive)) {
        if (rank->number == 1)
            await_ticket(rank, &in.ticket);  // the gradient follows the activation
        post_send(rank, &out, send, 0);
        if (await_ticket(rank, &in.ticket) && await_ticket(rank, &out.ticket))
            came_right(rank, &in, rank->number == 0 ? (struct action){ .stage = 1, .kind = ACTION_SEND_B }
                                                    : (struct action){ .stage = 0, .kind = ACTION_SEND_F }, 0);
    }
    close_rank(rank);
    event_free(out.after);
    device_release(world->device, data);
    return NULL;
}

static void an_early_receive_does_not_hold_back_a_send(void **state)
{
    (void)state;
    for (int one_for_all = 0; one_for_all < 2; one_for_all++) {
        struct error error = { 0 };
        struct world *world = world_of(lowered_of(schedule_generate("1f1b", 2, 0, 1, &error)),
                                       receive_before_sending);
        world->one_for_all = one_for_all;  // then the list's order is kept: the receive waits for its turn
        assert_good(run(world, &error), error);
        world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_of_every_schedule_is_the_one_expected),
        cmocka_unit_test(channels_share_a_wire_only_where_their_orders_are_alike),
        cmocka_unit_test(sums_and_shares_have_the_bits_of_a_loop_over_the_copies),
        cmocka_unit_test(elements_of_shares_are_gathered_in_rooms_and_added_to_from_there),
        cmocka_unit_test(sums_of_a_tie_are_of_those_who_bring_something_and_go_to_all),
        cmocka_unit_test(who_waits_learns_that_another_gave_up),
        cmocka_unit_test(a_peer_that_never_comes_is_not_waited_for_forever),
        cmocka_unit_test(a_wire_that_breaks_at_the_start_is_not_the_reason),
        cmocka_unit_test(a_device_without_communicators_says_so),
        cmocka_unit_test(an_early_receive_does_not_hold_back_a_send),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
