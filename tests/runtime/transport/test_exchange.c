// Messages from a rank to itself: each member gets of a part what its index says, and the rest is its own.
#include "runtime/transport/exchange.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "runtime/shards/member_messages.h"
#include "runtime/transport/threads.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/test.h"

enum { MOST_MEMBERS = 4, MICRO_BATCHES = 3, FORWARDS = 0, GRADIENTS = 1, CHANNELS = 4 };

static const uint64_t minute_ns = 60u * (uint64_t)1000000000;

// A rank with a stage in three segments, as so many members on one device. Two messages go each way.
struct world {
    struct schedule *lowered;
    struct device *device;
    struct queue *queue;
    uint32_t members;
    uint64_t bytes;
    struct threads *others[MOST_MEMBERS];  // there is no other rank, and nothing is sent there
    struct member_messages *messages;
    struct member_end *member_ends[MOST_MEMBERS];
    struct exchange *ends[MOST_MEMBERS];
};

static struct schedule *three_segments(void)
{
    struct error error = { 0 };
    const struct generate_request request = { .ranks = 1, .micro_batches = MICRO_BATCHES, .into = { .segments = 3 } };
    struct schedule *order = schedule_generate_as("gpipe", &request, &error);
    assert_good(order, error);
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    schedule_free(order);
    return lowered;
}

static struct world world_open_until(const char *device, uint32_t members, uint64_t bytes,
                                     const struct exchange_part *parts, size_t part_count, uint64_t deadline_ns)
{
    struct error error = { 0 };
    struct world world = { .lowered = three_segments(), .device = device_open(device, &error), .members = members,
                           .bytes = bytes };
    assert_good(world.device, error);
    world.queue = queue_create(world.device, &error);
    assert_good(world.queue, error);
    const struct member_messages_settings settings = { .schedule = world.lowered, .members = members,
                                                       .device = world.device, .parts = parts,
                                                       .part_count = part_count };
    world.messages = member_messages_create(&settings, &error);
    assert_good(world.messages, error);
    for (uint32_t member = 0; member < members; member++) {
        const struct channel none[CHANNELS] = { { 0 } };
        const struct threads_settings apart = { .device = world.device };
        world.others[member] = threads_create(1, none, CHANNELS, &apart, &error);
        assert_good(world.others[member], error);
        threads_begin(world.others[member]);
        struct exchange_settings end = { .schedule = world.lowered, .device = world.device,
                                         .others = threads_transport(world.others[member], 0),
                                         .deadline_ns = deadline_ns };
        world.member_ends[member] = member_end_open(world.messages, member, &end, &error);
        assert_good(world.member_ends[member], error);
        world.ends[member] = exchange_create(&end, &error);
        assert_good(world.ends[member], error);
    }
    return world;
}

static struct world world_open(const char *device, uint32_t members, uint64_t bytes, const struct exchange_part *parts,
                               size_t part_count)
{
    return world_open_until(device, members, bytes, parts, part_count, 0);
}

static void world_close(struct world *world)
{
    for (uint32_t member = 0; member < world->members; member++) {
        exchange_free(world->ends[member]);
        member_end_close(world->member_ends[member]);
    }
    member_messages_free(world->messages);
    for (uint32_t member = 0; member < world->members; member++)
        threads_free(world->others[member]);
    queue_free(world->queue);
    device_close(world->device);
    schedule_free(world->lowered);
}

static struct transport *end_of(const struct world *world, uint32_t member)
{
    return exchange_transport(world->ends[member]);
}

static bool send(const struct world *world, uint32_t member, uint32_t channel, const uint8_t *data,
                 uint32_t micro_batch, struct ticket *ticket, struct error *error)
{
    struct transport *end = end_of(world, member);
    return end->functions->post_send(end, channel, data, world->bytes,
                                     (struct message_header){ .micro_batch = micro_batch }, NULL, ticket, error);
}

static bool receive(const struct world *world, uint32_t member, uint32_t channel, uint8_t *data, uint32_t micro_batch,
                    struct ticket *ticket, struct error *error)
{
    struct transport *end = end_of(world, member);
    return end->functions->post_receive(end, channel, data, world->bytes,
                                        (struct message_header){ .micro_batch = micro_batch }, NULL, ticket, error);
}

static void finish(const struct world *world, uint32_t member, struct ticket *ticket)
{
    struct transport *end = end_of(world, member);
    struct error error = { 0 };
    const uint64_t deadline = clock_now_ns() + minute_ns;
    while (!ticket->done) {
        assert_good(end->functions->test(end, ticket, &error), error);
        if (!ticket->done)
            assert_good(end->functions->wait(end, deadline, &error), error);
    }
    if (ticket->event)
        queue_wait_event(world->queue, ticket->event);
    assert_good(queue_wait(world->queue, &error), error);
}

static uint8_t byte_of(uint32_t member, uint32_t channel, uint32_t micro_batch, uint64_t at)
{
    return (uint8_t)(member * 59 + channel * 101 + micro_batch * 17 + at * 3 + at / 256);
}

// What a member gets at a place: a share of a part comes from the member whose share it is.
static uint8_t wanted(const struct world *world, const struct exchange_part *parts, size_t part_count, uint32_t member,
                      uint32_t channel, uint32_t micro_batch, uint64_t at)
{
    for (size_t i = 0; i < part_count; i++)
        if (parts[i].boundary == channel / 2 && at >= parts[i].first
            && at < parts[i].first + world->members * parts[i].share) {
            const uint64_t within = at - parts[i].first, from = within / parts[i].share;
            return byte_of((uint32_t)from, channel, micro_batch,
                           parts[i].first + member * parts[i].share + within % parts[i].share);
        }
    return byte_of(member, channel, micro_batch, at);
}

// All members post all messages of a channel, in orders of their own, before anybody looks.
static void pass_all(const char *device, uint64_t seed)
{
    enum { MOST_BYTES = 2000 };
    struct exchange_part parts[6];
    size_t part_count = 0;
    uint64_t bytes = 1;
    const uint32_t members = 1 + (uint32_t)random_below(&seed, MOST_MEMBERS);
    for (uint32_t boundary = 0; boundary < 2; boundary++) {
        uint64_t end = 0;
        for (size_t i = random_below(&seed, 4); members > 1 && i > 0; i--) {
            end += random_below(&seed, 2) * random_below(&seed, 60);
            parts[part_count] =
                (struct exchange_part){ .boundary = boundary, .first = end, .share = 1 + random_below(&seed, 80) };
            end += members * parts[part_count++].share;
        }
        bytes = max_u64(bytes, end);
    }
    bytes += random_below(&seed, 50);
    struct world world = world_open(device, members, bytes, parts, part_count);
    static uint8_t sent[MOST_MEMBERS][CHANNELS][MICRO_BATCHES][MOST_BYTES];
    static uint8_t got[MOST_MEMBERS][CHANNELS][MICRO_BATCHES][MOST_BYTES];
    struct ticket sends[MOST_MEMBERS][CHANNELS][MICRO_BATCHES] = { 0 };
    struct ticket receives[MOST_MEMBERS][CHANNELS][MICRO_BATCHES] = { 0 };
    assert_true(bytes <= MOST_BYTES);
    uint32_t posted[MOST_MEMBERS][CHANNELS][2] = { 0 };  // receives, sends
    memset(got, 0, sizeof got);
    for (uint32_t left = members * CHANNELS * 2 * MICRO_BATCHES; left > 0;) {
        const uint32_t member = (uint32_t)random_below(&seed, members);
        const uint32_t channel = (uint32_t)random_below(&seed, CHANNELS);
        const bool sends_now = random_below(&seed, 2);
        const uint32_t micro_batch = posted[member][channel][sends_now];
        struct error error = { 0 };
        if (micro_batch == MICRO_BATCHES)
            continue;
        for (uint64_t at = 0; sends_now && at < bytes; at++)
            sent[member][channel][micro_batch][at] = byte_of(member, channel, micro_batch, at);
        assert_good(sends_now ? send(&world, member, channel, sent[member][channel][micro_batch], micro_batch,
                                     &sends[member][channel][micro_batch], &error)
                              : receive(&world, member, channel, got[member][channel][micro_batch], micro_batch,
                                        &receives[member][channel][micro_batch], &error),
                    error);
        posted[member][channel][sends_now]++;
        left--;
    }
    for (uint32_t member = 0; member < members; member++)
        for (uint32_t channel = 0; channel < CHANNELS; channel++)
            for (uint32_t k = 0; k < MICRO_BATCHES; k++) {
                finish(&world, member, &sends[member][channel][k]);
                finish(&world, member, &receives[member][channel][k]);
                for (uint64_t at = 0; at < bytes; at++)
                    assert_int_equal(got[member][channel][k][at],
                                     wanted(&world, parts, part_count, member, channel, k, at));
            }
    world_close(&world);
}

// --- rows of experts -----------------------------------------------------------------------

enum { MOST_EXPERTS = 6, MOST_RUN = 3, ROW = 5 };

// Counts of a message, and where each row is with the member that has its token, and with the one that has its expert:
// by member, expert and number.
struct routed {
    uint32_t members, experts;
    int32_t counts[MOST_MEMBERS * MOST_EXPERTS];
    uint32_t given[MOST_MEMBERS][MOST_EXPERTS][MOST_RUN], taken[MOST_MEMBERS][MOST_EXPERTS][MOST_RUN];
    uint32_t most;
};

// Copied experts come first, and take the rows of their own member alone.
static void place_rows(struct routed *routed, const uint8_t *owners)
{
    for (uint32_t m = 0; m < routed->members; m++) {
        uint32_t given = 0, taken = 0;
        for (uint32_t e = 0; e < routed->experts; e++)
            for (int32_t k = 0; k < routed->counts[m * routed->experts + e]; k++)
                routed->given[m][e][k] = given++;
        for (uint32_t e = 0; e < routed->experts; e++)
            for (int32_t k = 0; owners[e] == ROW_COPIED && k < routed->counts[m * routed->experts + e]; k++)
                routed->taken[m][e][k] = taken++;
        for (uint32_t e = 0; e < routed->experts; e++)
            for (uint32_t from = 0; owners[e] == m && from < routed->members; from++)
                for (int32_t k = 0; k < routed->counts[from * routed->experts + e]; k++)
                    routed->taken[from][e][k] = taken++;
        routed->most = (uint32_t)max_u64(routed->most, max_u64(given, taken));
    }
}

static struct routed routed_draw(uint32_t members, uint32_t experts, const uint8_t *owners, uint64_t *seed)
{
    struct routed routed = { .members = members, .experts = experts };
    for (uint32_t i = 0; i < members * experts; i++)
        routed.counts[i] = (int32_t)random_below(seed, MOST_RUN + 1);
    place_rows(&routed, owners);
    return routed;
}

static uint8_t row_byte(uint32_t member, uint32_t expert, uint32_t number, uint32_t micro_batch, uint32_t at)
{
    return (uint8_t)(1 + member * 43 + expert * 17 + number * 7 + micro_batch * 91 + at);
}

// Writes the rows that a member has in front of an exchange, or compares those that it has behind it.
static void visit_rows(const struct routed *routed, const struct exchange_part *part, uint32_t member, bool at_experts,
                       uint32_t micro_batch, uint8_t *message, bool writes)
{
    for (uint32_t m = 0; m < routed->members; m++)
        for (uint32_t e = 0; e < routed->experts; e++) {
            const uint32_t expert_at = part->rows.owners[e] == ROW_COPIED ? m : part->rows.owners[e];
            const uint32_t here = at_experts ? expert_at : m;
            for (int32_t k = 0; here == member && k < routed->counts[m * routed->experts + e]; k++) {
                const uint32_t row = at_experts ? routed->taken[m][e][k] : routed->given[m][e][k];
                for (uint32_t at = 0; at < ROW; at++) {
                    uint8_t *byte = message + part->first + row * ROW + at;
                    const uint8_t want = row_byte(m, e, (uint32_t)k, micro_batch, at);
                    if (writes)
                        *byte = want;
                    if (*byte != want)
                        fail_msg("row %u of member %u for expert %u: byte %u is %u, not %u", (unsigned)k, m, e, at,
                                 *byte, want);
                }
            }
        }
}

// Messages of three segments carry rows to the experts and back. All members post them before anybody looks.
static void pass_rows(const char *device, uint64_t seed)
{
    enum { MOST_ROWS = MOST_MEMBERS * MOST_EXPERTS * MOST_RUN, MOST_BYTES = 64 + MOST_ROWS * ROW + 4 * MOST_ROWS };
    const uint32_t members = 2 + (uint32_t)random_below(&seed, MOST_MEMBERS - 1);
    const uint32_t experts = 1 + (uint32_t)random_below(&seed, MOST_EXPERTS);
    struct exchange_part parts[2] = { { .boundary = 0 }, { .boundary = 1 } };
    for (uint32_t i = 0; i < 2; i++) {
        parts[i].first = random_below(&seed, 20);
        parts[i].share = MOST_ROWS * ROW;
        parts[i].rows = (struct exchange_rows){ .experts = experts, .counts_at = round_to_256(parts[i].first
                                                + parts[i].share), .row_bytes = ROW, .room = MOST_ROWS,
                                                .is_back = i == 1 };
        for (uint32_t e = 0; e < experts; e++) {
            const uint32_t owner = (uint32_t)random_below(&seed, members + 1);
            parts[i].rows.owners[e] = owner == members ? ROW_COPIED : (uint8_t)owner;
        }
    }
    const uint64_t bytes = parts[0].rows.counts_at + parts[1].rows.counts_at + 4 * MOST_ROWS + 9;
    struct world world = world_open(device, members, bytes, parts, 2);
    static uint8_t sent[MOST_MEMBERS][CHANNELS][MICRO_BATCHES][4096], got[MOST_MEMBERS][CHANNELS][MICRO_BATCHES][4096];
    static struct ticket sends[MOST_MEMBERS][CHANNELS][MICRO_BATCHES], receives[MOST_MEMBERS][CHANNELS][MICRO_BATCHES];
    struct routed routed[CHANNELS][MICRO_BATCHES];
    assert_true(bytes <= 4096 && MOST_BYTES <= 4096);
    memset(sends, 0, sizeof sends);
    memset(receives, 0, sizeof receives);
    for (uint32_t channel = 0; channel < CHANNELS; channel++)
        for (uint32_t k = 0; k < MICRO_BATCHES; k++) {
            const struct exchange_part *part = &parts[channel / 2];
            routed[channel][k] = routed_draw(members, experts, part->rows.owners, &seed);
            for (uint32_t m = 0; m < members; m++) {
                memset(sent[m][channel][k], (int)(m + 100 + channel), bytes);
                memset(got[m][channel][k], 0, bytes);
                memcpy(sent[m][channel][k] + part->rows.counts_at, routed[channel][k].counts,
                       members * experts * sizeof(int32_t));
                visit_rows(&routed[channel][k], part, m, part->rows.is_back == (channel % 2 == 0), k,
                           sent[m][channel][k], true);
            }
        }
    // A member has an order of its own between channels, and between the ends of one.
    uint32_t posted[MOST_MEMBERS][CHANNELS][2] = { 0 };
    for (uint32_t left = members * CHANNELS * 2 * MICRO_BATCHES; left > 0;) {
        const uint32_t m = (uint32_t)random_below(&seed, members), channel = (uint32_t)random_below(&seed, CHANNELS);
        const bool sends_now = random_below(&seed, 2);
        const uint32_t k = posted[m][channel][sends_now];
        struct error error = { 0 };
        if (k == MICRO_BATCHES)
            continue;
        assert_good(sends_now ? send(&world, m, channel, sent[m][channel][k], k, &sends[m][channel][k], &error)
                              : receive(&world, m, channel, got[m][channel][k], k, &receives[m][channel][k], &error),
                    error);
        posted[m][channel][sends_now]++;
        left--;
    }
    for (uint32_t m = 0; m < members; m++)
        for (uint32_t channel = 0; channel < CHANNELS; channel++)
            for (uint32_t k = 0; k < MICRO_BATCHES; k++) {
                const struct exchange_part *part = &parts[channel / 2];
                finish(&world, m, &sends[m][channel][k]);
                finish(&world, m, &receives[m][channel][k]);
                visit_rows(&routed[channel][k], part, m, part->rows.is_back != (channel % 2 == 0), k,
                           got[m][channel][k], false);
                assert_memory_equal(got[m][channel][k], sent[m][channel][k], part->first);
                assert_memory_equal(got[m][channel][k] + part->first + part->share,
                                    sent[m][channel][k] + part->first + part->share,
                                    bytes - part->first - part->share);
            }
    world_close(&world);
}

static void rows_come_to_their_experts_and_back(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(10, 1000); trial++) {
        pass_rows("cpu", trial);
        pass_rows("cpu:queued", trial);
    }
}

// Members with room for fewer rows than there are end the run.
static void rows_without_room_are_refused(void **state)
{
    (void)state;
    const struct exchange_part part = { .share = 2 * ROW, .rows = { .experts = 1, .counts_at = 256, .row_bytes = ROW,
                                                                    .room = 2 } };
    struct error error = { 0 };
    struct world world = world_open("cpu", 2, 300, &part, 1);
    const int32_t counts[2] = { 1, 2 };
    static uint8_t from[300], to[300];
    struct ticket out = { 0 }, in = { 0 };
    memcpy(from + 256, counts, sizeof counts);
    assert_good(send(&world, 0, FORWARDS, from, 0, &out, &error), error);
    assert_false(receive(&world, 0, FORWARDS, to, 0, &in, &error));
    assert_error(error, "the experts of device 0 of its group take 3 rows of a micro-batch, and there is room for 2:"
                        " plan with a larger --most-rows, or without it");
    world_close(&world);
}

// Counts that name more rows than the message has are those of no router.
static void rows_that_the_message_does_not_hold_are_refused(void **state)
{
    (void)state;
    const struct exchange_part part = { .share = 2 * ROW, .rows = { .experts = 1, .counts_at = 256, .row_bytes = ROW,
                                                                    .room = 3 } };
    struct error error = { 0 };
    struct world world = world_open("cpu", 2, 300, &part, 1);
    const int32_t counts[2] = { 1, 2 };
    static uint8_t from[300], to[300];
    struct ticket out = { 0 }, in = { 0 };
    memcpy(from + 256, counts, sizeof counts);
    assert_good(send(&world, 0, FORWARDS, from, 0, &out, &error), error);
    assert_false(receive(&world, 0, FORWARDS, to, 0, &in, &error));
    assert_error(error, "rank 0: a message has more than the 2 rows of tokens that it has room for");
    world_close(&world);
}

static void wait_for_release(struct queue *queue, const void *arguments)
{
    (void)queue;
    atomic_bool *const *released = arguments;
    while (!atomic_load(*released))
        sched_yield();
}

static void rows_that_are_not_made_in_time_end_the_run(void **state)
{
    (void)state;
    const struct exchange_part part = { .share = 2 * ROW, .rows = { .experts = 1, .counts_at = 256, .row_bytes = ROW,
                                                                    .room = 2 } };
    struct world world = world_open_until("cpu:queued", 2, 300, &part, 1, 5000000);
    struct transport *end = end_of(&world, 0);
    static uint8_t from[300], to[300];
    static atomic_bool released;
    atomic_bool *const at = &released;
    struct error error = { 0 };
    struct ticket out = { 0 }, in = { 0 };
    struct event *made = event_create(world.device, &error);
    assert_good(made, error);
    atomic_store(&released, false);
    queue_call(world.queue, wait_for_release, &at, sizeof at);
    event_record(made, world.queue);
    assert_good(receive(&world, 0, FORWARDS, to, 0, &in, &error), error);
    assert_false(end->functions->post_send(end, FORWARDS, from, world.bytes, (struct message_header){ 0 }, made, &out,
                                           &error));
    assert_error(error, "rank 0: the rows of micro-batch 0 are not there after 5.00 ms");
    end->functions->cancel(end, &in);
    end->functions->cancel(end, &out);
    atomic_store(&released, true);
    exchange_free(world.ends[0]);  // whose queues wait for the event
    world.ends[0] = NULL;
    assert_true(queue_wait(world.queue, &error));
    event_free(made);
    world_close(&world);
}

static void every_byte_comes_to_its_member(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(30, 1000); trial++) {
        pass_all("cpu", trial);
        pass_all("cpu:queued", trial);
    }
}

static void another_micro_batch_than_expected_is_named(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct world world = world_open("cpu", 1, 4, NULL, 0);
    const uint8_t from[4] = { 1, 2, 3, 4 };
    uint8_t to[4];
    struct ticket out = { 0 }, in = { 0 };
    assert_good(send(&world, 0, FORWARDS, from, 2, &out, &error), error);
    assert_false(receive(&world, 0, FORWARDS, to, 1, &in, &error));
    assert_error(error, "rank 0: micro-batch 2 of step 0 came to itself where micro-batch 1 of step 0 was expected");
    world_close(&world);
}

// A run that ends early gives its posts back, and the channel's next pair is a pair of its own.
static void what_is_cancelled_is_not_waited_for(void **state)
{
    (void)state;
    const struct exchange_part part = { .first = 0, .share = 2 };
    struct error error = { 0 };
    struct world world = world_open("cpu", 2, 4, &part, 1);
    uint8_t bytes[2][4] = { { 0 } };
    struct ticket in = { 0 };
    assert_good(receive(&world, 0, GRADIENTS, bytes[0], 0, &in, &error), error);
    struct transport *end = end_of(&world, 0);
    assert_good(end->functions->test(end, &in, &error), error);
    assert_false(in.done);
    end->functions->cancel(end, &in);
    assert_false(in.active);
    struct ticket out = { 0 };
    assert_good(send(&world, 0, GRADIENTS, bytes[1], 0, &out, &error), error);  // finds nobody
    assert_good(end->functions->test(end, &out, &error), error);
    assert_false(out.done);
    end->functions->cancel(end, &out);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_comes_to_its_member),
        cmocka_unit_test(rows_come_to_their_experts_and_back),
        cmocka_unit_test(rows_without_room_are_refused),
        cmocka_unit_test(rows_that_the_message_does_not_hold_are_refused),
        cmocka_unit_test(rows_that_are_not_made_in_time_end_the_run),
        cmocka_unit_test(another_micro_batch_than_expected_is_named),
        cmocka_unit_test(what_is_cancelled_is_not_waited_for),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
