#include "runtime/ranks/slab.h"

#include "runtime/ranks/weight_ring.h"
#include "tests/test.h"

// The sanitizers end a program that asks for too much, unless told otherwise.
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static const struct stage_bytes two_stages[] = {
    { .weights = 1024, .gradients = 1024, .optimizer = 2048, .version = 1024, .input = 256,
      .input_life = INPUT_UNTIL_I, .output = 512, .kept = 768, .kept_through = 256, .held = 512, .transient = 1280 },
    { .weights = 256, .gradients = 256, .version = 256, .input = 512, .input_life = INPUT_UNTIL_W, .kept = 256,
      .transient = 256 },
};

static const struct slots two_slots[] = {
    { .input = { 1, 3, 4 }, .kept = 3, .kept_through = 4, .held = 1, .output = 2, .output_gradient = 1,
      .input_gradient = 2, .versions = 3 },
    { .input = { 1, 1, 2 }, .kept = 1, .kept_through = 2, .versions = 1 },
};

static struct device *open_device(void)
{
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    return device;
}

static void a_slab_of_one_stage_is_the_plans_peak(void **state)
{
    (void)state;
    for (size_t s = 0; s < 2; s++)
        assert_int_equal(slab_bytes(&two_stages[s], &two_slots[s], 1),
                         stage_memory_of(&two_stages[s], &two_slots[s]).peak_bytes);
}

// And what is on the host, apart: each with a place of its own.
static void what_the_host_updates_is_there(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_device();
    struct stage_bytes bytes = two_stages[0];
    bytes.host = (struct host_states){ .weights = 1024, .gradients = 1024, .optimizer = 2048 };
    bytes.optimizer = 0;
    struct slab slab;
    assert_good(slab_open(&slab, device, &bytes, two_slots, 1, &error), error);
    assert_int_equal(slab.bytes, stage_memory_of(&bytes, two_slots).peak_bytes);
    assert_int_equal(slab.host_bytes, stage_memory_of(&bytes, two_slots).host_bytes);
    assert_int_equal(device_memory(device).host_bytes, 4096);
    assert_int_equal(device_memory(device).current_bytes, slab.bytes);
    const struct slab_states *host = &slab.stages[0].on_host;
    assert_ptr_equal(host->gradients, (char *)host->weights + 1024);
    assert_ptr_equal(host->optimizer, (char *)host->gradients + 1024);
    assert_null(slab.stages[0].optimizer);
    slab_close(&slab);
    assert_int_equal(device_memory(device).host_bytes, 0);
    device_close(device);
}

static void what_is_away_has_its_slots_on_the_host(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = open_device();
    struct slots slots[] = { two_slots[0], two_slots[1] };
    slots[0].away = 4;
    slots[1].away = 1;
    struct slab slab;
    assert_good(slab_open(&slab, device, two_stages, slots, 2, &error), error);
    uint64_t planned = 0;
    for (size_t s = 0; s < 2; s++)
        planned += stage_memory_of(&two_stages[s], &slots[s]).host_bytes;
    assert_true(planned >= 4 * 768);
    assert_int_equal(slab.host_bytes, planned);
    assert_int_equal(device_memory(device).host_bytes, planned);
    const struct slab_row *kept = &slab.stages[0].rows[SLAB_KEPT], *away = &slab.stages[0].rows[SLAB_AWAY];
    assert_int_equal(kept->count, 3);
    assert_int_equal(away->count, 4);
    assert_ptr_equal(row_at(away, 2), (char *)row_at(away, 0) + 2 * 768);
    assert_ptr_equal(row_at(kept, 2), (char *)row_at(kept, 0) + 2 * 768);
    slab_close(&slab);
    device_close(device);
}

// What may be waited for is taken in turns, what is not as low as can be.
static void the_slot_that_is_free_longest_comes_first_where_that_is_asked(void **state)
{
    (void)state;
    for (int oldest_first = 0; oldest_first < 2; oldest_first++) {
        struct error error = { 0 };
        struct device *device = open_device();
        struct slots slots = two_slots[0];
        slots.away = (uint32_t)oldest_first;
        struct slab slab;
        assert_good(slab_open(&slab, device, two_stages, &slots, 1, &error), error);
        struct slab_row *kept = &slab.stages[0].rows[SLAB_KEPT];
        assert_int_equal(row_take(kept), 0);
        row_give(kept, 0, NULL);
        assert_int_equal(row_take(kept), oldest_first ? 1 : 0);
        assert_int_equal(row_take(kept), oldest_first ? 2 : 1);
        assert_int_equal(row_take(kept), oldest_first ? 0 : 2);
        assert_true(row_take(kept) == NO_SLOT);
        row_give(kept, 2, NULL);
        row_give(kept, 0, NULL);
        assert_int_equal(row_take(kept), oldest_first ? 2 : 0);
        slab_close(&slab);
        device_close(device);
    }
}

static void stages_of_one_rank_share_the_larger_workspace(void **state)
{
    (void)state;
    const uint64_t first = stage_memory_of(&two_stages[0], &two_slots[0]).peak_bytes;
    const uint64_t second = stage_memory_of(&two_stages[1], &two_slots[1]).peak_bytes;
    assert_int_equal(slab_bytes(two_stages, two_slots, 2), first + second - 256);
}

// Every slot of every row, in one list of places to compare.
static size_t collect(const struct slab_stage *stage, unsigned char **places, uint64_t *bytes)
{
    size_t count = 0;
    for (int class = -1; class < SLAB_CLASSES; class++) {
        const struct slab_row *row = class < 0 ? &stage->weights : &stage->rows[class];
        for (uint32_t slot = 0; slot < row->count; slot++) {
            places[count] = row_at(row, slot);
            bytes[count++] = row->bytes;
        }
    }
    return count;
}

static void slots_are_aligned_and_apart_and_fill_one_allocation(void **state)
{
    (void)state;
    struct device *device = open_device();
    struct error error = { 0 };
    struct slab slab;
    assert_good(slab_open(&slab, device, two_stages, two_slots, 2, &error), error);
    assert_int_equal(device_memory(device).allocations, 1);
    assert_int_equal(device_memory(device).current_bytes, slab_bytes(two_stages, two_slots, 2));
    unsigned char *places[100];
    uint64_t bytes[100], sum = 1024 + 2048 + 256 + 1280;  // gradients, optimizer; gradients; workspace
    size_t count = collect(&slab.stages[0], places, bytes);
    count += collect(&slab.stages[1], places + count, bytes + count);
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == 0)
            continue;
        sum += bytes[i];
        assert_int_equal((uintptr_t)places[i] % 256, 0);
        assert_true(places[i] >= (unsigned char *)slab.memory);
        assert_true(places[i] + bytes[i] <= (unsigned char *)slab.memory + slab.bytes);
        for (size_t j = 0; j < i; j++)
            assert_true(bytes[j] == 0 || places[i] >= places[j] + bytes[j] || places[j] >= places[i] + bytes[i]);
    }
    assert_int_equal(sum, slab.bytes);
    slab_close(&slab);
    assert_int_equal(device_memory(device).current_bytes, 0);
    device_close(device);
}

static void the_lowest_free_slot_is_taken(void **state)
{
    (void)state;
    struct device *device = open_device();
    struct error error = { 0 };
    struct slab slab;
    assert_good(slab_open(&slab, device, two_stages, two_slots, 1, &error), error);
    struct slab_row *row = &slab.stages[0].rows[SLAB_KEPT];
    for (uint32_t slot = 0; slot < 3; slot++)
        assert_int_equal(row_take(row), slot);
    assert_int_equal(row_take(row), NO_SLOT);
    row_give(row, 2, NULL);
    row_give(row, 1, NULL);
    assert_int_equal(row_take(row), 1);
    assert_null(row_at(row, NO_SLOT));
    slab_close(&slab);
    device_close(device);
}

static void a_slab_that_does_not_fit_says_so(void **state)
{
    (void)state;
    struct device *device = open_device();
    struct error error = { 0 };
    struct stage_bytes bytes = two_stages[1];
    bytes.kept = (uint64_t)1 << 60;
    struct slab slab;
    assert_false(slab_open(&slab, device, &bytes, &two_slots[1], 1, &error));
    assert_int_equal(error.kind, ERROR_MACHINE);
    assert_int_equal(device_memory(device).current_bytes, 0);
    device_close(device);
}

// The drawing of weight_ring.h: three slots, as on stage 0 of three.
static void an_update_writes_where_nobody_reads(void **state)
{
    (void)state;
    static const uint32_t users[] = { 1, 1, 1, 0, 0 };
    struct slab_row row = { .count = 3 };
    struct weight_ring ring;
    struct error error = { 0 };
    uint32_t next;
    assert_good(weight_ring_open(&ring, &row, false, &error), error);
    weight_ring_begin(&ring, users);
    for (uint32_t slot = 1; slot < 3; slot++) {
        assert_good(weight_ring_next(&ring, &next, &error), error);
        assert_int_equal(next, slot);
        weight_ring_advance(&ring, next);
    }
    assert_false(weight_ring_next(&ring, &next, &error));
    assert_error(error, "all 3 weight versions are held by micro-batches in flight; the schedule's slots were counted "
                        "for another order");
    weight_ring_drop(&ring, weight_ring_find(&ring, 0));
    error = (struct error){ 0 };
    assert_good(weight_ring_next(&ring, &next, &error), error);
    assert_int_equal(next, 0);
    weight_ring_advance(&ring, next);
    assert_int_equal(weight_ring_version(&ring, 0), 3);
    assert_int_equal(weight_ring_find(&ring, 1), 1);
    assert_int_equal(weight_ring_find(&ring, 0), NO_SLOT);
    // Nobody will use version 3: the next is written in its place.
    assert_good(weight_ring_next(&ring, &next, &error), error);
    assert_int_equal(next, 0);
    weight_ring_close(&ring);
}

// vertical: a version that nobody uses yet will be asked for later.
static void a_version_is_kept_for_users_to_come(void **state)
{
    (void)state;
    static const uint32_t users[] = { 0, 2, 0 };
    struct slab_row row = { .count = 2 };
    struct weight_ring ring;
    struct error error = { 0 };
    uint32_t next;
    assert_good(weight_ring_open(&ring, &row, false, &error), error);
    weight_ring_begin(&ring, users);
    assert_good(weight_ring_next(&ring, &next, &error), error);
    assert_int_equal(next, 0);
    weight_ring_advance(&ring, next);
    assert_good(weight_ring_next(&ring, &next, &error), error);
    assert_int_equal(next, 1);
    weight_ring_advance(&ring, next);
    assert_int_equal(weight_ring_find(&ring, 1), 0);
    weight_ring_close(&ring);
}

// In place: the newest version is in slot 0, and versions between it and one in use are kept for their rows.
static void an_update_in_place_moves_the_version_before_it(void **state)
{
    (void)state;
    static const uint32_t users[] = { 1, 0, 0, 0 };
    struct slab_row row = { .count = 3 };
    struct weight_ring ring;
    struct error error = { 0 };
    uint32_t next;
    assert_good(weight_ring_open(&ring, &row, true, &error), error);
    weight_ring_begin(&ring, users);
    for (uint32_t slot = 1; slot < 3; slot++) {
        assert_good(weight_ring_next(&ring, &next, &error), error);
        assert_int_equal(next, slot);
        weight_ring_advance(&ring, next);
        assert_int_equal(ring.newest, 0);
        assert_int_equal(weight_ring_version(&ring, 0), slot);
        assert_int_equal(weight_ring_version(&ring, slot), slot - 1);
    }
    assert_false(weight_ring_next(&ring, &next, &error));
    weight_ring_drop(&ring, weight_ring_find(&ring, 0));
    error = (struct error){ 0 };
    assert_good(weight_ring_next(&ring, &next, &error), error);
    assert_int_equal(next, 0);
    weight_ring_advance(&ring, next);
    assert_int_equal(weight_ring_version(&ring, 0), 3);
    weight_ring_close(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slab_of_one_stage_is_the_plans_peak),
        cmocka_unit_test(what_the_host_updates_is_there),
        cmocka_unit_test(what_is_away_has_its_slots_on_the_host),
        cmocka_unit_test(the_slot_that_is_free_longest_comes_first_where_that_is_asked),
        cmocka_unit_test(stages_of_one_rank_share_the_larger_workspace),
        cmocka_unit_test(slots_are_aligned_and_apart_and_fill_one_allocation),
        cmocka_unit_test(the_lowest_free_slot_is_taken),
        cmocka_unit_test(a_slab_that_does_not_fit_says_so),
        cmocka_unit_test(an_update_writes_where_nobody_reads),
        cmocka_unit_test(a_version_is_kept_for_users_to_come),
        cmocka_unit_test(an_update_in_place_moves_the_version_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
