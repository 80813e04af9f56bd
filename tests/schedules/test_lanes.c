#include "schedules/pictures/lanes.h"

#include "schedules/pictures/palette.h"
#include "tests/test.h"

static void add(struct timeline *timeline, uint32_t rank, unsigned stage, unsigned kind, uint64_t start, uint64_t end)
{
    assert_true(timeline_add(timeline, (struct span){ rank, { .stage = (uint16_t)stage, .kind = (uint8_t)kind }, start,
                                                      end, 0 }));
}

static struct lanes lanes_of(const struct timeline *timeline)
{
    struct lanes lanes;
    assert_true(lanes_create(&lanes, timeline));
    return lanes;
}

static void two_at_a_time_have_a_row_each(void **state)
{
    (void)state;
    struct timeline timeline = { 0 };
    add(&timeline, 1, 0, ACTION_F, 0, 10);
    add(&timeline, 0, 0, ACTION_F, 0, 10);
    add(&timeline, 0, 1, ACTION_B, 0, 10);     // together with it
    add(&timeline, 0, 0, ACTION_STEP, 10, 10);  // no length: in nobody's way
    add(&timeline, 0, 0, ACTION_F, 10, 20);
    add(&timeline, 0, 1, ACTION_B, 15, 30);
    add(&timeline, 0, 0, ACTION_W, 20, 40);
    struct lanes lanes = lanes_of(&timeline);
    static const unsigned want[][3] = {  // row, of rows, chunk
        { 0, 2, 0 }, { 1, 2, 1 }, { 0, 1, 0 }, { 0, 2, 0 }, { 1, 2, 1 }, { 0, 2, 0 }, { 0, 1, 0 },
    };
    for (size_t i = 0; i < timeline.span_count; i++) {
        assert_int_equal(lanes.boxes[i].row, want[i][0]);
        assert_int_equal(lanes.boxes[i].rows, want[i][1]);
        assert_int_equal(lanes.boxes[i].chunk, want[i][2]);
    }
    assert_int_equal(lanes.first[1], 6);
    assert_int_equal(lanes.chunks, 2);
    assert_int_equal(lanes_shade(&lanes, &lanes.boxes[1]), SHADES - 1);
    assert_int_equal(lanes_busy_ns(&lanes, 0), 40);
    lanes_clear(&lanes);
    timeline_clear(&timeline);
}

static void what_goes_to_the_host_is_below_what_is_computed(void **state)
{
    (void)state;
    struct timeline timeline = { .ranks = 1 };
    add(&timeline, 0, 0, ACTION_EVICT, 0, 15);
    add(&timeline, 0, 0, ACTION_F, 0, 10);
    add(&timeline, 0, 0, ACTION_F, 10, 20);
    add(&timeline, 0, 0, ACTION_PREFETCH, 15, 18);
    add(&timeline, 0, 0, ACTION_F, 20, 30);       // with nothing beside it
    add(&timeline, 0, 0, ACTION_PREFETCH, 30, 40);  // by itself
    struct lanes lanes = lanes_of(&timeline);
    static const unsigned want[][2] = { { 1, 2 }, { 0, 2 }, { 0, 2 }, { 1, 2 }, { 0, 1 }, { 0, 1 } };
    for (size_t i = 0; i < timeline.span_count; i++) {
        assert_int_equal(lanes.boxes[i].row, want[i][0]);
        assert_int_equal(lanes.boxes[i].rows, want[i][1]);
    }
    assert_int_equal(lanes_busy_ns(&lanes, 0), 30);
    lanes_clear(&lanes);
    timeline_clear(&timeline);
}

static void exchanges_are_in_lanes_behind_those_of_ranks(void **state)
{
    (void)state;
    struct timeline timeline = { .ranks = 3 };
    add(&timeline, 2, 0, ACTION_F, 0, 10);
    static const struct message messages[] = {
        { { .kind = ACTION_SEND_F }, 2, 2, 30, 35 },
        { { .kind = ACTION_SEND_F }, 2, 1, 10, 20 },  // to another rank
        { { .kind = ACTION_SEND_F }, 2, 2, 10, 20 },
        { { .kind = ACTION_SEND_B }, 2, 2, 12, 27 },  // once the one before has ended
        { { .kind = ACTION_SEND_F }, 0, 0, 10, 20 },
        { { .kind = ACTION_SEND_F }, 1, 1, 10, 10 },  // takes no time
    };
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++)
        assert_true(timeline_add_message(&timeline, messages[i]));
    struct lanes lanes = lanes_of(&timeline);
    static const uint64_t want[][3] = { { 0, 10, 20 }, { 2, 10, 20 }, { 2, 20, 27 }, { 2, 30, 35 } };  // rank, from, to
    assert_int_equal(lanes.count, 5);
    assert_int_equal(lanes_of_exchanges(&lanes, 0), 3);
    assert_int_equal(lanes_of_exchanges(&lanes, 1), NO_LANE);
    assert_int_equal(lanes_of_exchanges(&lanes, 2), 4);
    assert_int_equal(lanes.first[3], timeline.span_count);
    assert_int_equal(lanes.first[5] - lanes.first[3], 4);
    for (size_t i = 0; i < 4; i++) {
        const struct span *span = lanes.boxes[lanes.first[3] + i].span;
        assert_int_equal(span->rank, want[i][0]);
        assert_int_equal(span->start_ns, want[i][1]);
        assert_int_equal(span->end_ns, want[i][2]);
    }
    assert_int_equal(lanes.boxes[lanes.first[4] + 1].span - lanes.exchanges, 3);  // the number of its message
    lanes_clear(&lanes);
    timeline_clear(&timeline);
}

// Slow and obviously right: a rank is busy in a moment in which one of its actions runs.
static uint64_t slow_busy_ns(const struct timeline *timeline, uint32_t rank, uint64_t until)
{
    uint64_t busy = 0;
    for (uint64_t now = 0; now < until; now++) {
        bool here = false;
        for (size_t i = 0; i < timeline->span_count; i++) {
            const struct span *span = &timeline->spans[i];
            here |= span->rank == rank && span->action.kind <= ACTION_R && span->start_ns <= now && now < span->end_ns;
        }
        busy += here;
    }
    return busy;
}

// Whatever comes: rows are within bounds, and what shares a row of so many does not overlap.
static void random_spans_never_cover_each_other(void **state)
{
    (void)state;
    enum { UNTIL = 60, MOST = 12 };
    const uint64_t trials = test_trials(300, 20000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct timeline timeline = { .ranks = 2 };
        for (uint64_t i = 0, count = random_below(&seed, MOST); i < count; i++) {
            static const unsigned kinds[] = { ACTION_B, ACTION_STEP, ACTION_EVICT };
            const uint64_t start = random_below(&seed, UNTIL - 20), kind = kinds[random_below(&seed, 3)];
            add(&timeline, (uint32_t)random_below(&seed, 2), (unsigned)random_below(&seed, 3), (unsigned)kind, start,
                start + random_below(&seed, 7));
        }
        struct lanes lanes = lanes_of(&timeline);
        for (uint32_t rank = 0; rank < 2; rank++) {
            if (lanes_busy_ns(&lanes, rank) != slow_busy_ns(&timeline, rank, UNTIL))
                fail_msg("trial %llu: rank %u", (unsigned long long)trial, rank);
            for (size_t i = lanes.first[rank]; i < lanes.first[rank + 1]; i++) {
                const struct lane_box *a = &lanes.boxes[i];
                assert_true(a->row < a->rows && a->span->rank == rank);
                for (size_t j = lanes.first[rank]; j < i; j++) {
                    const struct lane_box *b = &lanes.boxes[j];
                    if (b->span->end_ns > a->span->start_ns && a->span->end_ns > a->span->start_ns
                        && (a->row == b->row || a->rows != b->rows) && a->rows < MOST_JOINED)
                        fail_msg("trial %llu: boxes %zu and %zu", (unsigned long long)trial, j, i);
                }
            }
        }
        lanes_clear(&lanes);
        timeline_clear(&timeline);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_at_a_time_have_a_row_each),
        cmocka_unit_test(what_goes_to_the_host_is_below_what_is_computed),
        cmocka_unit_test(exchanges_are_in_lanes_behind_those_of_ranks),
        cmocka_unit_test(random_spans_never_cover_each_other),
    };
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
