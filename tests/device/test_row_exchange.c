// Rows on their way to experts and back (device/row_exchange.h), beside sorting: an expert gets its rows in the order
// of members, and each row comes back to where it was. Rows of copied experts stay, in front of the others.
#include "device/row_exchange.h"

#include <math.h>
#include <string.h>

#include "common/random.h"
#include "device/device.h"
#include "tests/test.h"

enum { MEMBERS = 5, EXPERTS = 9, MOST = 12, ROWS = MEMBERS * EXPERTS * MOST };

struct stand {
    struct queue *queue;
    int32_t kept[MEMBERS * EXPERTS];
    uint8_t owners[EXPERTS];
    struct row_exchange exchange;
    uint32_t sent[MEMBERS][ROWS], taken[MEMBERS][ROWS], back[MEMBERS][ROWS];
};

static uint32_t row_of(uint32_t member, uint32_t expert, uint32_t number)
{
    return (member * EXPERTS + expert) * MOST + number;
}

static void draw(struct stand *s, uint64_t trial)
{
    uint64_t seed = trial;
    const uint32_t members = 1 + (uint32_t)random_below(&seed, MEMBERS);
    const uint32_t experts = 1 + (uint32_t)random_below(&seed, EXPERTS);
    for (uint32_t e = 0; e < experts; e++)
        s->owners[e] = random_below(&seed, 4) == 0 ? ROW_COPIED : (uint8_t)random_below(&seed, members);
    for (uint32_t m = 0; m < members; m++) {
        uint32_t next = 0;
        for (uint32_t e = 0; e < experts; e++) {
            const uint32_t count = (uint32_t)random_below(&seed, trial % 3 ? MOST + 1 : 2);
            s->kept[m * experts + e] = (int32_t)count;
            for (uint32_t i = 0; i < count; i++)
                s->sent[m][next++] = row_of(m, e, i);
        }
    }
    s->exchange = (struct row_exchange){ .kept = s->kept, .owners = s->owners, .experts = experts, .members = members,
                                         .room = ROWS };
}

static void move(struct stand *s, uint32_t (*from)[ROWS], uint32_t (*to)[ROWS], bool is_back)
{
    struct error error = { 0 };
    struct row_walk walk;
    struct row_run run;
    s->exchange.is_back = is_back;
    memset(to, 0xff, sizeof s->taken);
    assert_good(row_walk_begin(&walk, s->queue, &s->exchange, &error), error);
    while (row_walk_next(&walk, &run))
        memcpy(&to[run.to][run.to_row], &from[run.from][run.from_row], run.count * sizeof(uint32_t));
}

static void experts_get_their_rows_in_the_order_of_members(void **state)
{
    (void)state;
    static struct stand s;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    s.queue = queue_create(device, &error);
    assert_good(s.queue, error);
    for (uint64_t trial = 0; trial < 300; trial++) {
        uint32_t next[MEMBERS] = { 0 };
        draw(&s, trial);
        const uint32_t members = s.exchange.members, experts = s.exchange.experts;
        move(&s, s.sent, s.taken, false);
        for (uint32_t e = 0; e < experts; e++)
            for (uint32_t m = 0; m < members && s.owners[e] == ROW_COPIED; m++)
                for (uint32_t i = 0; i < (uint32_t)s.kept[m * experts + e]; i++)
                    assert_int_equal(s.taken[m][next[m]++], row_of(m, e, i));
        for (uint32_t e = 0; e < experts; e++)
            for (uint32_t m = 0; m < members && s.owners[e] != ROW_COPIED; m++)
                for (uint32_t i = 0; i < (uint32_t)s.kept[m * experts + e]; i++)
                    assert_int_equal(s.taken[s.owners[e]][next[s.owners[e]]++], row_of(m, e, i));
        for (uint32_t m = 0; m < members; m++)
            assert_true(next[m] == ROWS || s.taken[m][next[m]] == UINT32_MAX);
        move(&s, s.taken, s.back, true);
        for (uint32_t m = 0; m < members; m++) {
            uint32_t own = 0;
            for (uint32_t e = 0; e < experts; e++)
                own += (uint32_t)s.kept[m * experts + e];
            assert_memory_equal(s.back[m], s.sent[m], own * sizeof(uint32_t));
            assert_true(s.back[m][own] == UINT32_MAX);
        }
    }
    queue_free(s.queue);
    device_close(device);
}

static void rows_without_room_are_refused(void **state)
{
    (void)state;
    static struct row_walk walk;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    const int32_t kept[] = { 3, 4, 5, 1, 0, 2 };
    const uint8_t owners[] = { 0, 1, 0 };
    struct row_exchange exchange = { .kept = kept, .owners = owners, .experts = 3, .members = 2, .room = 11 };
    assert_good(row_walk_begin(&walk, queue, &exchange, &error), error);
    exchange.owners = (const uint8_t[]){ ROW_COPIED, 0, 1 };  // 3 rows of its own tokens, and 4 of all
    exchange.room = 8;
    assert_good(row_walk_begin(&walk, queue, &exchange, &error), error);
    exchange.owners = owners;
    exchange.room = 10;
    assert_false(row_walk_begin(&walk, queue, &exchange, &error));
    assert_int_equal(error.kind, ERROR_MACHINE);
    assert_string_equal(error.text, "the experts of device 0 of its group take 11 rows of a micro-batch, and there is"
                        " room for 10: plan with a larger --most-rows, or without it");
    queue_free(queue);
    device_close(device);
}

// Two members, of which the first one's experts would take 11 rows, or 10 if the first of them is copied.
static void members_give_up_without_room(void **state)
{
    (void)state;
    enum { COLUMNS = 2, GIVEN = 12 };
    static struct row_walk walk;
    struct error error = { 0 };
    struct row_run run;
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    const int32_t kept[] = { 3, 4, 5, 1, 0, 2 };
    for (int trial = 0; trial < 4; trial++) {
        const bool is_back = trial % 2, is_copied = trial / 2;
        const uint8_t owners[] = { is_copied ? ROW_COPIED : 0, 1, 0 };
        const uint64_t rows = is_copied ? 10 : 11;
        uint64_t lacked = 0;
        int32_t ends[] = { 4, 11, 7 };
        float given[(GIVEN + 1) * COLUMNS] = { 0 };
        struct row_exchange exchange = { .kept = kept, .owners = owners, .experts = 3, .members = 2, .room = rows,
                                         .is_back = is_back, .ends = ends, .lacked = &lacked };
        assert_good(row_walk_begin(&walk, queue, &exchange, &error), error);
        assert_true(row_walk_next(&walk, &run));
        row_walk_end(&walk, queue, &exchange, given, COLUMNS);
        assert_true(lacked == 0 && ends[0] == 4 && ends[1] == 11 && given[0] == 0);
        exchange.room = rows - 1;
        assert_good(row_walk_begin(&walk, queue, &exchange, &error), error);
        assert_false(row_walk_next(&walk, &run));
        row_walk_end(&walk, queue, &exchange, given, COLUMNS);
        assert_good(queue_wait(queue, &error), error);
        assert_int_equal(lacked, rows);
        assert_true(ends[0] == 0 && ends[1] == 0 && ends[2] == 7);
        for (size_t i = 0; i < (GIVEN + 1) * COLUMNS; i++)
            assert_true(is_back && i < GIVEN * COLUMNS ? isnan(given[i]) : given[i] == 0);
    }
    queue_free(queue);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_get_their_rows_in_the_order_of_members),
        cmocka_unit_test(rows_without_room_are_refused),
        cmocka_unit_test(members_give_up_without_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
