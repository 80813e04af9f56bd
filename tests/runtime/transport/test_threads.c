#include "runtime/transport/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "tests/test.h"

static const uint64_t second_ns = 1000000000;

// Two ranks, and channel 0 from rank 0 to rank 1, channel 1 back.
static const struct channel two_channels[] = { { 0, 1, 64, 8 }, { 1, 0, 64, 8 } };

struct pair {
    struct threads *threads;
    struct transport *ends[2];
};

static struct pair pair_open(const struct threads_settings *settings)
{
    struct error error = { 0 };
    struct pair pair = { .threads = threads_create(2, two_channels, 2, settings, &error) };
    assert_good(pair.threads, error);
    threads_begin(pair.threads);
    for (uint32_t rank = 0; rank < 2; rank++)
        pair.ends[rank] = threads_transport(pair.threads, rank);
    return pair;
}

static struct ticket send(struct pair *pair, const char *data, uint32_t micro_batch)
{
    struct error error = { 0 };
    struct ticket ticket;
    assert_good(pair->ends[0]->functions->post_send(pair->ends[0], 0, data, 8,
                                                    (struct message_header){ .micro_batch = micro_batch }, NULL, &ticket,
                                                    &error),
                error);
    return ticket;
}

static struct ticket receive(struct pair *pair, char *data, uint32_t micro_batch)
{
    struct error error = { 0 };
    struct ticket ticket;
    assert_good(pair->ends[1]->functions->post_receive(pair->ends[1], 0, data, 8,
                                                       (struct message_header){ .micro_batch = micro_batch }, NULL, &ticket,
                                                       &error),
                error);
    return ticket;
}

static bool is_done(struct pair *pair, uint32_t rank, struct ticket *ticket)
{
    struct error error = { 0 };
    if (ticket->active)
        assert_good(pair->ends[rank]->functions->test(pair->ends[rank], ticket, &error), error);
    return ticket->done;
}

// --- handing over ---------------------------------------------------------------

static void a_message_arrives_whichever_end_is_posted_first(void **state)
{
    (void)state;
    for (int sender_first = 0; sender_first < 2; sender_first++) {
        struct pair pair = pair_open(&(struct threads_settings){ 0 });
        char there[8] = "";
        struct ticket in, out;
        if (sender_first) {
            out = send(&pair, "forward", 3);
            in = receive(&pair, there, 3);
        } else {
            in = receive(&pair, there, 3);
            out = send(&pair, "forward", 3);
        }
        assert_true(is_done(&pair, 0, &out));
        assert_true(is_done(&pair, 1, &in));
        assert_string_equal(there, "forward");
        assert_int_equal(in.header.micro_batch, 3);
        threads_free(pair.threads);
    }
}

static void without_capacity_a_send_ends_with_its_receive(void **state)
{
    (void)state;
    struct pair pair = pair_open(&(struct threads_settings){ 0 });
    char there[8];
    struct ticket out = send(&pair, "forward", 0);
    assert_false(is_done(&pair, 0, &out));
    struct ticket in = receive(&pair, there, 0);
    assert_true(is_done(&pair, 0, &out));
    assert_true(is_done(&pair, 1, &in));
    threads_free(pair.threads);
}

static void with_capacity_that_many_sends_end_before_their_receives(void **state)
{
    (void)state;
    struct pair pair = pair_open(&(struct threads_settings){ .capacity = 2 });
    char there[3][8], borrowed[8] = "first";
    struct ticket out[3] = { send(&pair, borrowed, 0), send(&pair, "second\0", 1), send(&pair, "third\0\0", 2) };
    assert_true(is_done(&pair, 0, &out[0]));
    assert_true(is_done(&pair, 0, &out[1]));
    assert_false(is_done(&pair, 0, &out[2]));
    strcpy(borrowed, "reused");  // a send that is done has given its buffer back
    struct ticket in[3];
    for (uint32_t i = 0; i < 3; i++)
        in[i] = receive(&pair, there[i], i);
    assert_true(is_done(&pair, 0, &out[2]));
    for (uint32_t i = 0; i < 3; i++)
        assert_true(is_done(&pair, 1, &in[i]));
    assert_string_equal(there[0], "first");
    assert_string_equal(there[1], "second");
    assert_string_equal(there[2], "third");
    threads_free(pair.threads);
}

static void unlimited_capacity_holds_all_messages_of_a_pass(void **state)
{
    (void)state;
    struct pair pair = pair_open(&(struct threads_settings){ .capacity = TRANSPORT_UNLIMITED });
    char there[8];
    for (uint32_t i = 0; i < 8; i++) {
        struct ticket out = send(&pair, "forward", i);
        assert_true(is_done(&pair, 0, &out));
    }
    for (uint32_t i = 0; i < 8; i++) {
        struct ticket in = receive(&pair, there, i);
        assert_true(is_done(&pair, 1, &in));
    }
    threads_free(pair.threads);
}

// No send of it is done before its receive is posted, whatever the capacity.
static void a_message_in_pieces_comes_to_as_many_places(void **state)
{
    (void)state;
    for (uint32_t capacity = 0; capacity < 3; capacity++) {
        struct pair pair = pair_open(&(struct threads_settings){ .capacity = capacity });
        struct transport *from = pair.ends[0], *to = pair.ends[1];
        struct error error = { 0 };
        char data[] = "forward", there[] = ".......", whole[8] = "";
        const struct message_piece sent[] = { { data + 5, 2 }, { data, 3 } };
        const struct message_piece taken[] = { { there, 2 }, { there + 4, 3 } };
        struct ticket out, in, before = send(&pair, "before\0", 0), got = receive(&pair, whole, 0);
        assert_good(from->functions->post_pieces(from, 0, true, sent, 2, (struct message_header){ .micro_batch = 1 },
                                                 NULL, &out, &error), error);
        assert_false(is_done(&pair, 0, &out));
        assert_good(to->functions->post_pieces(to, 0, false, taken, 2, (struct message_header){ .micro_batch = 1 },
                                               NULL, &in, &error), error);
        assert_true(is_done(&pair, 0, &before) && is_done(&pair, 1, &got));
        assert_true(is_done(&pair, 0, &out) && is_done(&pair, 1, &in));
        assert_string_equal(whole, "before");
        assert_string_equal(there, "rd..for");
        assert_good(to->functions->post_pieces(to, 0, false, taken, 1, (struct message_header){ 0 }, NULL, &in, &error),
                    error);
        assert_good(from->functions->post_pieces(from, 0, true, sent, 2, (struct message_header){ 0 }, NULL, &out,
                                                 &error), error);
        assert_false(to->functions->test(to, &in, &error));
        assert_error(error, "rank 1: a message of step 0, micro-batch 0, weight version 0 and 5 bytes came where step "
                            "0, micro-batch 0, version 0 and 2 bytes were expected");
        threads_free(pair.threads);
    }
}

static void a_cancelled_receive_takes_no_message(void **state)
{
    (void)state;
    struct pair pair = pair_open(&(struct threads_settings){ 0 });
    char cancelled[8] = "", there[8] = "";
    struct ticket gone = receive(&pair, cancelled, 0);
    pair.ends[1]->functions->cancel(pair.ends[1], &gone);
    assert_false(gone.active);
    struct ticket in = receive(&pair, there, 0), out = send(&pair, "forward", 0);
    assert_true(is_done(&pair, 1, &in));
    assert_true(is_done(&pair, 0, &out));
    assert_string_equal(cancelled, "");
    assert_string_equal(there, "forward");
    threads_free(pair.threads);
}

static void another_micro_batch_than_expected_stops_the_run(void **state)
{
    (void)state;
    struct pair pair = pair_open(&(struct threads_settings){ 0 });
    struct error error = { 0 };
    char there[8];
    struct ticket in = receive(&pair, there, 4), out = send(&pair, "forward", 5);
    assert_true(is_done(&pair, 0, &out));
    assert_false(pair.ends[1]->functions->test(pair.ends[1], &in, &error));
    assert_error(error, "rank 1: a message of step 0, micro-batch 5, weight version 0 and 8 bytes came where step 0, "
                        "micro-batch 4, version 0 and 8 bytes were expected");
    assert_int_equal(error.kind, ERROR_MACHINE);
    threads_free(pair.threads);
}

// --- time ---------------------------------------------------------------------------

static void a_message_is_not_seen_before_its_latency_and_bytes(void **state)
{
    (void)state;
    struct error error = { 0 };
    // 8 bytes at 8,000 bytes per second: 1 ms on the link, and 2 ms of latency.
    struct link link = { 2000000, 8000 };
    uint32_t link_of[4] = { 0, 0, 0, 0 };
    const struct network network = { 2, 1, &link, link_of };
    struct pair pair = pair_open(&(struct threads_settings){ .network = &network });
    char there[2][8];
    struct ticket in[2] = { receive(&pair, there[0], 0), receive(&pair, there[1], 1) };
    const uint64_t start_ns = clock_now_ns();
    send(&pair, "first\0\0", 0);
    send(&pair, "second\0", 1);
    for (int i = 0; i < 2; i++)
        while (!is_done(&pair, 1, &in[i]))
            assert_good(pair.ends[1]->functions->wait(pair.ends[1], start_ns + 60 * second_ns, &error), error);
    assert_true(in[0].done_ns >= start_ns + 3000000);
    assert_true(in[1].done_ns >= in[0].done_ns + 1000000);  // the link was taken for 1 ms
    assert_true(clock_now_ns() >= in[1].done_ns);
    assert_string_equal(there[1], "second");
    threads_free(pair.threads);
}

static void a_wait_ends_at_its_deadline(void **state)
{
    (void)state;
    struct pair pair = pair_open(&(struct threads_settings){ 0 });
    struct error error = { 0 };
    char there[8];
    struct ticket in = receive(&pair, there, 0);
    const uint64_t deadline_ns = clock_now_ns() + 2000000;
    assert_good(pair.ends[1]->functions->wait(pair.ends[1], deadline_ns, &error), error);
    assert_true(clock_now_ns() >= deadline_ns);
    assert_false(is_done(&pair, 1, &in));
    threads_free(pair.threads);
}

// --- standing still --------------------------------------------------------------------

struct waiter {
    struct transport *transport;
    struct error error;
    bool good;
};

static void *wait_for_ever(void *argument)
{
    struct waiter *waiter = argument;
    waiter->good = true;
    while (waiter->good)
        waiter->good = waiter->transport->functions->wait(waiter->transport, UINT64_MAX, &waiter->error);
    return NULL;
}

static void explain(void *self, struct error *error)
{
    error_set_kind(error, ERROR_MACHINE, "%s", (const char *)self);
}

static void when_all_wait_and_nothing_is_under_way_all_are_told(void **state)
{
    (void)state;
    struct threads_settings settings = { .explain = explain, .self = "rank 0 and rank 1 wait for each other" };
    struct pair pair = pair_open(&settings);
    char there[8];
    struct ticket in = receive(&pair, there, 0);
    struct waiter waiters[2] = { { .transport = pair.ends[0] }, { .transport = pair.ends[1] } };
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, wait_for_ever, &waiters[1]), 0);
    wait_for_ever(&waiters[0]);
    pthread_join(other, NULL);
    for (int rank = 0; rank < 2; rank++)
        assert_error(waiters[rank].error, "rank 0 and rank 1 wait for each other");
    assert_true(in.active);
    threads_free(pair.threads);
}

static void a_rank_that_has_left_sends_nothing_more(void **state)
{
    (void)state;
    struct pair pair = pair_open(&(struct threads_settings){ 0 });
    char there[8];
    receive(&pair, there, 0);
    threads_leave(pair.threads, 0);
    struct waiter waiter = { .transport = pair.ends[1] };
    wait_for_ever(&waiter);
    assert_error(waiter.error, "every rank waits and no message is under way");
    assert_int_equal(waiter.error.kind, ERROR_MACHINE);
    threads_free(pair.threads);
}

static void a_rank_that_fails_ends_all_with_the_first_error(void **state)
{
    (void)state;
    struct pair pair = pair_open(&(struct threads_settings){ 0 });
    struct error first = { 0 }, second = { 0 }, seen = { 0 };
    char there[8];
    error_set_kind(&first, ERROR_INPUT, "rank 0: no data");
    error_set(&second, "rank 1: also no data");
    struct ticket in = receive(&pair, there, 0);
    assert_good(pair.ends[1]->functions->check(pair.ends[1], &seen), seen);
    pair.ends[0]->functions->abandon(pair.ends[0], &first);
    pair.ends[1]->functions->abandon(pair.ends[1], &second);
    assert_false(pair.ends[0]->functions->check(pair.ends[0], &(struct error){ 0 }));
    assert_false(pair.ends[1]->functions->test(pair.ends[1], &in, &seen));
    assert_error(seen, "rank 0: no data");
    assert_int_equal(seen.kind, ERROR_INPUT);
    struct waiter waiter = { .transport = pair.ends[0] };
    wait_for_ever(&waiter);
    assert_error(waiter.error, "rank 0: no data");
    threads_free(pair.threads);
}

// --- many ranks at once --------------------------------------------------------------------

// A ring of ranks, each sending numbered messages of its own to the next with two
// buffers, and looking at what it gets.
enum { RING = 4, ROUNDS = 60, WORDS = 32 };

struct member {
    struct transport *transport;
    uint64_t seed;
    uint32_t wrong;
    struct error error;
};

static bool finish(struct transport *transport, struct ticket *ticket, struct error *error)
{
    while (ticket->active) {
        if (!transport->functions->test(transport, ticket, error))
            return false;
        if (ticket->active && !transport->functions->wait(transport, UINT64_MAX, error))
            return false;
    }
    return true;
}

static uint64_t word(uint32_t rank, uint32_t round, uint32_t i)
{
    return (uint64_t)rank << 40 | (uint64_t)round << 20 | i;
}

static bool run_member(struct member *member)
{
    struct transport *transport = member->transport;
    const uint32_t rank = transport->rank, before = (rank + RING - 1) % RING;
    uint64_t out[2][WORDS], in[WORDS];
    struct ticket sends[2] = { { 0 }, { 0 } }, receive_ticket;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const struct message_header header = { .micro_batch = round };
        if (!transport->functions->post_receive(transport, before, in, sizeof in, header, NULL, &receive_ticket,
                                                &member->error)
            || !finish(transport, &sends[round % 2], &member->error))
            return false;
        for (uint32_t i = 0; i < WORDS; i++)
            out[round % 2][i] = word(rank, round, i);
        for (uint64_t yields = random_below(&member->seed, 4); yields > 0; yields--)
            sched_yield();
        if (!transport->functions->post_send(transport, rank, out[round % 2], sizeof out[0], header, NULL,
                                             &sends[round % 2], &member->error)
            || !finish(transport, &receive_ticket, &member->error))
            return false;
        for (uint32_t i = 0; i < WORDS; i++)
            member->wrong += in[i] != word(before, round, i);
    }
    return finish(transport, &sends[0], &member->error) && finish(transport, &sends[1], &member->error);
}

static void *run_thread(void *member)
{
    run_member(member);
    return NULL;
}

static void nothing_is_lost_swapped_or_torn_between_busy_ranks(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(30, 1000); trial++) {
        struct error error = { 0 };
        struct channel channels[RING];
        for (uint32_t c = 0; c < RING; c++)
            channels[c] = (struct channel){ c, (c + 1) % RING, WORDS * sizeof(uint64_t), ROUNDS };
        struct threads *threads =
            threads_create(RING, channels, RING, &(struct threads_settings){ .capacity = (uint32_t)(trial % 3) },
                           &error);
        assert_good(threads, error);
        threads_begin(threads);
        struct member members[RING];
        pthread_t ids[RING];
        for (uint32_t rank = 0; rank < RING; rank++) {
            members[rank] = (struct member){ threads_transport(threads, rank), trial * RING + rank, 0, { 0 } };
            assert_int_equal(pthread_create(&ids[rank], NULL, run_thread, &members[rank]), 0);
        }
        for (uint32_t rank = 0; rank < RING; rank++)
            pthread_join(ids[rank], NULL);
        for (uint32_t rank = 0; rank < RING; rank++)
            if (members[rank].wrong > 0 || members[rank].error.kind != ERROR_NONE)
                fail_msg("trial %d: rank %u: %u wrong words; %s", (int)trial, rank, members[rank].wrong,
                         members[rank].error.text);
        threads_free(threads);
    }
}

// --- adding up ----------------------------------------------------------------------

enum { COPIES = 3, ELEMENTS = 1000 };

// Stage 0 on ranks 2, 0 and 1, in this order.
struct trio {
    struct schedule *schedule;
    struct placement *placement;
    struct threads *threads;
};

static struct trio trio_open(void)
{
    struct error error = { 0 };
    struct trio trio = { .schedule = schedule_create("trio", WEIGHTS_FLUSH, COPIES, 1, 1, &error) };
    assert_good(trio.schedule, error);
    const uint32_t routes[COPIES] = { 2, 0, 1 };
    free(trio.schedule->routes);
    trio.schedule->routes = malloc(sizeof routes);
    assert_non_null(trio.schedule->routes);
    memcpy(trio.schedule->routes, routes, sizeof routes);
    trio.schedule->route_count = COPIES;
    trio.placement = placement_read(trio.schedule, &error);
    assert_good(trio.placement, error);
    const struct threads_settings settings = { .placement = trio.placement };
    trio.threads = threads_create(COPIES, two_channels, 0, &settings, &error);
    assert_good(trio.threads, error);
    threads_begin(trio.threads);
    return trio;
}

static void trio_close(struct trio *trio)
{
    threads_free(trio->threads);
    placement_free(trio->placement);
    schedule_free(trio->schedule);
}

struct adder {
    struct transport *transport;
    enum reduction_kind kind;
    float gradients[ELEMENTS];
    uint64_t seed;
    struct error error;
};

static bool add_once(struct adder *adder, uint64_t update)
{
    const struct reduction reduction = { .kind = adder->kind, .numbers = adder->gradients,
                                         .number_bytes = sizeof(float), .count = ELEMENTS,
                                         .contributed = adder->transport->rank != 1, .samples = update % 2 };
    struct ticket ticket;
    for (uint64_t yields = random_below(&adder->seed, 4); yields > 0; yields--)
        sched_yield();
    return adder->transport->functions->post_reduction(adder->transport, &reduction,
                                                       (struct message_header){ .version = update }, NULL, &ticket,
                                                       &adder->error)
        && finish(adder->transport, &ticket, &adder->error);
}

static void *add_thrice(void *itself)
{
    struct adder *adder = itself;
    for (uint64_t update = 0; update < 3; update++)
        if (!add_once(adder, update))
            return NULL;
    return NULL;
}

// Numbers of very different sizes, so that another order gives other bits.
static void fill(struct adder *adders, uint64_t *seed)
{
    for (uint32_t rank = 0; rank < COPIES; rank++)
        for (uint32_t i = 0; i < ELEMENTS; i++)
            adders[rank].gradients[i] =
                ((float)random_below(seed, 2000) - 1000) / (float)(1 + random_below(seed, 3000000));
}

static void copies_add_up_in_their_order_the_same_bits_everywhere(void **state)
{
    (void)state;
    static struct adder adders[COPIES];
    float expected[ELEMENTS];
    uint64_t seed = 1;
    for (uint64_t trial = 0; trial < test_trials(50, 2000); trial++) {
        struct trio trio = trio_open();
        fill(adders, &seed);
        for (uint32_t i = 0; i < ELEMENTS; i++) {
            float sum = adders[2].gradients[i] + adders[0].gradients[i] + adders[1].gradients[i];
            sum = (sum + sum + sum) / 2;  // two of them bring something
            expected[i] = sum + sum + sum;
        }
        pthread_t ids[COPIES];
        for (uint32_t rank = 0; rank < COPIES; rank++) {
            adders[rank].transport = threads_transport(trio.threads, rank);
            adders[rank].seed = trial * COPIES + rank;
            adders[rank].error = (struct error){ 0 };
            assert_int_equal(pthread_create(&ids[rank], NULL, add_thrice, &adders[rank]), 0);
        }
        for (uint32_t rank = 0; rank < COPIES; rank++)
            pthread_join(ids[rank], NULL);
        for (uint32_t rank = 0; rank < COPIES; rank++) {
            if (adders[rank].error.kind != ERROR_NONE)
                fail_msg("trial %d: rank %u: %s", (int)trial, rank, adders[rank].error.text);
            if (memcmp(adders[rank].gradients, expected, sizeof expected) != 0)
                fail_msg("trial %d: rank %u has other sums", (int)trial, rank);
        }
        trio_close(&trio);
    }
}

// Stage 0 is on ranks 2, 0 and 1: copy c of it owns elements 333 c and more.
static void *do_once(void *itself)
{
    struct adder *adder = itself;
    add_once(adder, 0);
    return NULL;
}

static void run_once(struct adder *adders, enum reduction_kind kind)
{
    struct trio trio = trio_open();
    pthread_t ids[COPIES];
    for (uint32_t rank = 0; rank < COPIES; rank++) {
        adders[rank].kind = kind;
        adders[rank].transport = threads_transport(trio.threads, rank);
        adders[rank].error = (struct error){ 0 };
        assert_int_equal(pthread_create(&ids[rank], NULL, do_once, &adders[rank]), 0);
    }
    for (uint32_t rank = 0; rank < COPIES; rank++) {
        pthread_join(ids[rank], NULL);
        assert_good(adders[rank].error.kind == ERROR_NONE, adders[rank].error);
    }
    trio_close(&trio);
}

static void a_copy_adds_up_its_share_alone_and_gathers_those_of_others(void **state)
{
    (void)state;
    static const uint32_t owner_of_copy[COPIES] = { 2, 0, 1 };
    static struct adder adders[COPIES];
    float sums[ELEMENTS];
    uint64_t seed = 7;
    for (uint64_t trial = 0; trial < test_trials(20, 500); trial++) {
        fill(adders, &seed);
        for (uint32_t i = 0; i < ELEMENTS; i++)
            sums[i] = adders[2].gradients[i] + adders[0].gradients[i] + adders[1].gradients[i];
        run_once(adders, REDUCTION_SHARES);
        for (uint32_t copy = 0; copy < COPIES; copy++) {
            const uint64_t first = share_first(ELEMENTS, copy, COPIES), end = share_first(ELEMENTS, copy + 1, COPIES);
            float *own = adders[owner_of_copy[copy]].gradients;
            assert_memory_equal(own + first, sums + first, (end - first) * sizeof *own);
            memset(own, 0, first * sizeof *own);
            memset(own + end, 0, (ELEMENTS - end) * sizeof *own);
        }
        run_once(adders, REDUCTION_GATHER);
        for (uint32_t rank = 0; rank < COPIES; rank++)
            assert_memory_equal(adders[rank].gradients, sums, sizeof sums);
    }
}

// Copies that have their own share alone, of which some elements are gathered in rooms, or added to from there; one of
// them has no room.
struct sharer {
    struct transport *transport;
    enum reduction_kind kind;
    uint64_t first, count;
    float own[ELEMENTS], room[ELEMENTS];
    bool is_absent;
    const bool *brings;
    struct error error;
};

static void *share_once(void *itself)
{
    struct sharer *sharer = itself;
    struct ticket ticket;
    const struct reduction reduction = { .kind = sharer->kind, .numbers = sharer->is_absent ? NULL : sharer->room,
                                         .number_bytes = sizeof(float), .count = sharer->count, .own = sharer->own,
                                         .first = sharer->first, .whole = ELEMENTS, .brings = sharer->brings };
    struct transport *transport = sharer->transport;
    if (transport->functions->post_reduction(transport, &reduction, (struct message_header){ 0 }, NULL, &ticket,
                                             &sharer->error))
        finish(transport, &ticket, &sharer->error);
    return NULL;
}

static void share_all(struct sharer *sharers, enum reduction_kind kind)
{
    struct trio trio = trio_open();
    pthread_t ids[COPIES];
    for (uint32_t rank = 0; rank < COPIES; rank++) {
        sharers[rank].kind = kind;
        sharers[rank].transport = threads_transport(trio.threads, rank);
        sharers[rank].error = (struct error){ 0 };
        assert_int_equal(pthread_create(&ids[rank], NULL, share_once, &sharers[rank]), 0);
    }
    for (uint32_t rank = 0; rank < COPIES; rank++) {
        pthread_join(ids[rank], NULL);
        assert_good(sharers[rank].error.kind == ERROR_NONE, sharers[rank].error);
    }
    trio_close(&trio);
}

static void elements_of_shares_are_gathered_in_rooms_and_added_to_from_there(void **state)
{
    (void)state;
    static const uint32_t owner_of_copy[COPIES] = { 2, 0, 1 };
    static struct sharer sharers[COPIES];
    uint64_t seed = 8;
    for (uint64_t trial = 0; trial < test_trials(50, 1000); trial++) {
        float whole[ELEMENTS];
        bool brings[COPIES];
        const uint64_t first = random_below(&seed, ELEMENTS), count = 1 + random_below(&seed, ELEMENTS - first);
        const uint32_t absent = (uint32_t)random_below(&seed, COPIES + 1);
        for (uint32_t i = 0; i < ELEMENTS; i++)
            whole[i] = (float)random_below(&seed, 1000000) / 997.0f;
        for (uint32_t copy = 0; copy < COPIES; copy++) {
            struct sharer *sharer = &sharers[owner_of_copy[copy]];
            const uint64_t own = share_first(ELEMENTS, copy, COPIES), end = share_first(ELEMENTS, copy + 1, COPIES);
            memcpy(sharer->own, whole + own, (end - own) * sizeof whole[0]);
            memset(sharer->room, 0, sizeof sharer->room);
            brings[copy] = copy != absent;
            sharer->is_absent = copy == absent;
            sharer->brings = brings;
            sharer->first = first;
            sharer->count = count;
        }
        share_all(sharers, REDUCTION_GATHER);
        for (uint32_t copy = 0; copy < COPIES; copy++) {
            const struct sharer *sharer = &sharers[owner_of_copy[copy]];
            assert_true(sharer->is_absent || memcmp(sharer->room, whole + first, count * sizeof whole[0]) == 0);
        }
        for (uint32_t copy = 0; copy < COPIES; copy++) {
            struct sharer *sharer = &sharers[owner_of_copy[copy]];
            for (uint64_t i = 0; i < count && !sharer->is_absent; i++)
                whole[first + i] += sharer->room[i] = (float)random_below(&seed, 1000000) / 991.0f;
        }
        share_all(sharers, REDUCTION_ONTO);
        for (uint32_t copy = 0; copy < COPIES; copy++) {
            const uint64_t own = share_first(ELEMENTS, copy, COPIES), end = share_first(ELEMENTS, copy + 1, COPIES);
            assert_memory_equal(sharers[owner_of_copy[copy]].own, whole + own, (end - own) * sizeof whole[0]);
        }
    }
}

static struct ticket post_part(struct trio *trio, uint32_t rank, float *gradients, uint64_t update)
{
    struct error error = { 0 };
    struct ticket ticket;
    struct transport *transport = threads_transport(trio->threads, rank);
    const struct reduction reduction = { .numbers = gradients, .number_bytes = sizeof(float), .count = 4 };
    const struct message_header header = { .version = update };
    assert_good(transport->functions->post_reduction(transport, &reduction, header, NULL, &ticket, &error), error);
    return ticket;
}

static void a_part_that_is_taken_back_is_not_added(void **state)
{
    (void)state;
    struct trio trio = trio_open();
    float gradients[COPIES][4] = { { 1, 1, 1, 1 }, { 2, 2, 2, 2 }, { 3, 3, 3, 3 } }, other[4] = { 50, 50, 50, 50 };
    struct transport *first = threads_transport(trio.threads, 0);
    struct ticket gone = post_part(&trio, 0, other, 0);
    first->functions->cancel(first, &gone);
    struct ticket tickets[COPIES];
    for (uint32_t rank = 0; rank < COPIES; rank++)
        tickets[rank] = post_part(&trio, rank, gradients[rank], 0);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t rank = 0; rank < COPIES; rank++) {
            struct error error = { 0 };
            struct transport *transport = threads_transport(trio.threads, rank);
            if (tickets[rank].active)
                assert_good(transport->functions->test(transport, &tickets[rank], &error), error);
        }
    }
    for (uint32_t rank = 0; rank < COPIES; rank++) {
        assert_true(tickets[rank].done);
        assert_true(gradients[rank][3] == 6);
    }
    assert_true(other[0] == 50);
    trio_close(&trio);
}

static void parts_of_different_updates_stop_the_run(void **state)
{
    (void)state;
    struct trio trio = trio_open();
    float gradients[4] = { 0 };
    struct ticket tickets[COPIES];
    for (uint32_t rank = 0; rank < COPIES; rank++)
        tickets[rank] = post_part(&trio, rank, gradients, rank == 1 ? 8 : 7);
    struct error error = { 0 };
    struct transport *transport = threads_transport(trio.threads, 0);
    assert_false(transport->functions->test(transport, &tickets[0], &error));
    assert_error(error, "stage 0: rank 2 brings 16 bytes of gradients for update 7 of step 0 to be added up, rank 1 "
                        "16 bytes for update 8 of step 0");
    assert_int_equal(error.kind, ERROR_MACHINE);
    for (uint32_t rank = 0; rank < COPIES; rank++) {
        transport = threads_transport(trio.threads, rank);
        transport->functions->cancel(transport, &tickets[rank]);
    }
    trio_close(&trio);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_arrives_whichever_end_is_posted_first),
        cmocka_unit_test(without_capacity_a_send_ends_with_its_receive),
        cmocka_unit_test(with_capacity_that_many_sends_end_before_their_receives),
        cmocka_unit_test(unlimited_capacity_holds_all_messages_of_a_pass),
        cmocka_unit_test(a_message_in_pieces_comes_to_as_many_places),
        cmocka_unit_test(a_cancelled_receive_takes_no_message),
        cmocka_unit_test(another_micro_batch_than_expected_stops_the_run),
        cmocka_unit_test(a_message_is_not_seen_before_its_latency_and_bytes),
        cmocka_unit_test(a_wait_ends_at_its_deadline),
        cmocka_unit_test(when_all_wait_and_nothing_is_under_way_all_are_told),
        cmocka_unit_test(a_rank_that_has_left_sends_nothing_more),
        cmocka_unit_test(a_rank_that_fails_ends_all_with_the_first_error),
        cmocka_unit_test(nothing_is_lost_swapped_or_torn_between_busy_ranks),
        cmocka_unit_test(copies_add_up_in_their_order_the_same_bits_everywhere),
        cmocka_unit_test(a_copy_adds_up_its_share_alone_and_gathers_those_of_others),
        cmocka_unit_test(elements_of_shares_are_gathered_in_rooms_and_added_to_from_there),
        cmocka_unit_test(a_part_that_is_taken_back_is_not_added),
        cmocka_unit_test(parts_of_different_updates_stop_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
