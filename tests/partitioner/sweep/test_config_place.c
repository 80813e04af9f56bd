#include "partitioner/sweep/config_place.h"

#include <string.h>

#include "partitioner/sweep/config_sweep.h"
#include "tests/test.h"

// Levels that are slower the further out they are.
static const struct rated_device device = {
    .levels = { { 4, 1000, 100000000000, 900, 1000 },
                { 3, 2000, 50000000000, 900, 500 },
                { 64, 3000, 50000000000, 900, 100 } },
    .level_count = 3,
};

static struct config_request on_devices(uint32_t devices)
{
    return (struct config_request){ .device = &device, .devices = devices };
}

// --- the slow twin: every device by its number ------------------------------------------------------------------

static uint64_t number_of(const struct config_row *row, uint64_t pipeline, uint64_t rank, uint64_t member)
{
    const uint64_t stage = (uint64_t)row->tensor * row->context;
    return row->placement == PLACEMENT_DATA_INSIDE ? (rank * row->data + pipeline) * stage + member
                                                   : (pipeline * row->ranks + rank) * stage + member;
}

static size_t level_of(uint64_t a, uint64_t b)
{
    uint64_t reach = device.levels[0].size;
    size_t level = 0;
    for (; level + 1 < device.level_count && a / reach != b / reach; level++)
        reach *= device.levels[level + 1].size;
    return level;
}

// The outermost level that two ranks' devices cross in any of the pipelines.
static size_t crossed(const struct config_row *row, uint64_t a, uint64_t b)
{
    size_t most = 0;
    for (uint64_t d = 0; d < row->data; d++)
        for (uint64_t i = 0; i < (uint64_t)row->tensor * row->context; i++) {
            const size_t level = level_of(number_of(row, d, a, i), number_of(row, d, b, i));
            most = level > most ? level : most;
        }
    return most;
}

static uint64_t rate_of(size_t level)
{
    return device.levels[level].bytes_per_second / 1000 * device.levels[level].message_permille;
}

static struct config_row random_row(uint64_t *seed, bool by_node)
{
    static const uint32_t powers[] = { 1, 2, 4, 8 };
    struct config_row row = { .context = 1, .placement = (enum config_placement)random_below(seed, PLACEMENTS) };
    if (by_node) {  // which fill groups of 4 and of 12 evenly
        row.tensor = powers[random_below(seed, 3)];
        row.data = 3 * powers[random_below(seed, 4)];
        row.ranks = powers[random_below(seed, 4)];
    } else {
        row.tensor = 1 + (uint32_t)random_below(seed, 4);
        row.context = 1 + (uint32_t)random_below(seed, 2);
        row.data = 1 + (uint32_t)random_below(seed, 6);
        row.ranks = 1 + (uint32_t)random_below(seed, 9);
    }
    return row;
}

// No two ranks of the cluster talk over a quicker level than those that are furthest apart of all pipelines.
static void no_message_is_quicker_than_between_devices(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int trial = 0; trial < 2000; trial++) {
        struct error error = { 0 };
        const struct config_row row = random_row(&seed, trial % 2);
        const struct config_request request = on_devices(row.tensor * row.context * row.data * row.ranks);
        const struct config_hops hops = config_hops(&request, &row);
        struct cluster *cluster = config_cluster(&request, &row, 1000, &error);
        assert_good(cluster, error);
        for (uint32_t a = 0; a < row.ranks; a++)
            for (uint32_t b = a + 1; b < row.ranks; b++) {
                const struct cluster_level *level = &cluster->levels[cluster_level_between(cluster, a, b)];
                const size_t exact = crossed(&row, a, b);
                if (level->latency_ns < device.levels[exact].latency_ns || level->bytes_per_second > rate_of(exact))
                    fail_msg("trial %d: ranks %u and %u cross level %zu, and the cluster has less", trial, a, b, exact);
                if (b == a + 1)
                    assert_int_equal(level->latency_ns, config_hop(&hops, a)->latency_ns);
            }
        cluster_free(cluster);
    }
}

// Where pipelines fill groups of devices evenly, the cluster has the very levels.
static void even_groups_have_their_own_levels(void **state)
{
    (void)state;
    const struct config_row inside = { .tensor = 2, .context = 1, .data = 3, .ranks = 6,
                                       .placement = PLACEMENT_PIPELINE_INSIDE };
    const struct config_row outside = { .tensor = 2, .context = 1, .data = 2, .ranks = 6,
                                        .placement = PLACEMENT_DATA_INSIDE };
    const struct config_row *const rows[] = { &inside, &outside };
    for (int i = 0; i < 2; i++) {
        const struct config_request request = on_devices(2 * rows[i]->data * rows[i]->ranks);
        const struct config_hops hops = config_hops(&request, rows[i]);
        for (uint32_t rank = 0; rank + 1 < rows[i]->ranks; rank++)
            assert_ptr_equal(config_hop(&hops, rank), &device.levels[crossed(rows[i], rank, rank + 1)]);
    }
    // Two devices each: pairs of ranks in a node, three nodes in a pod; with two pipelines a rank fills a node.
    assert_int_equal(config_hops(&(struct config_request){ .device = &device }, &inside).count, 2);
    assert_int_equal(config_hops(&(struct config_request){ .device = &device }, &outside).at[0].ranks, 3);
}

static void one_is_no_slower_where_no_hop_is(void **state)
{
    (void)state;
    uint64_t seed = 9;
    size_t found = 0;
    for (int trial = 0; trial < 500; trial++) {
        struct config_row a = random_row(&seed, trial % 2), b = a;
        const struct config_request request = on_devices(a.tensor * a.context * a.data * a.ranks);
        b.placement = !a.placement;
        const struct config_hops of[] = { config_hops(&request, &a), config_hops(&request, &b) };
        struct error error = { 0 };
        struct cluster *first = config_cluster(&request, &a, 1, &error), *second = config_cluster(&request, &b, 1, &error);
        bool is = true;
        for (uint32_t x = 0; x < a.ranks; x++)
            for (uint32_t y = x + 1; y < a.ranks; y++)
                is &= first->levels[cluster_level_between(first, x, y)].latency_ns
                      <= second->levels[cluster_level_between(second, x, y)].latency_ns;
        assert_int_equal(config_hops_no_slower(&request, &of[0], &of[1], a.ranks), is);
        found += !is;
        cluster_free(first);
        cluster_free(second);
    }
    assert_true(found > 50);
}

// Those that are numbered last of all that have work, but for as many as have none.
static void a_rank_is_as_slow_as_its_slowest_device(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int trial = 0; trial < 2000; trial++) {
        const struct config_row row = random_row(&seed, trial % 2);
        const uint32_t used = row.tensor * row.context * row.data * row.ranks;
        struct config_request request = on_devices(used + (uint32_t)random_below(&seed, 5));
        request.slow = (uint32_t)random_below(&seed, request.devices);
        request.slow_permille = 700;
        const uint32_t idle = request.devices - used, slow = request.slow > idle ? request.slow - idle : 0;
        for (uint32_t rank = 0; rank < row.ranks; rank++) {
            bool is_slow = false;
            for (uint64_t d = 0; d < row.data; d++)
                for (uint64_t i = 0; i < (uint64_t)row.tensor * row.context; i++)
                    is_slow |= number_of(&row, d, rank, i) >= used - slow;
            if (config_permille(&request, &row, rank) != (is_slow ? 700 : 1000))
                fail_msg("trial %d: rank %u", trial, rank);
        }
    }
}

static void says(const struct config_row *row, const char *sentence)
{
    struct text text = { 0 };
    const struct config_request request = on_devices(row->tensor * row->context * row->data * row->ranks);
    config_say_levels(&request, row, &text);
    assert_string_equal(text.data, sentence);
    text_clear(&text);
}

static void it_says_what_lies_where(void **state)
{
    (void)state;
    says(&(struct config_row){ .tensor = 2, .context = 2, .expert = 1, .data = 3, .ranks = 16 },
         "tensor within 4, context within 4, data within 12, pipeline within 192");
    says(&(struct config_row){ .tensor = 2, .context = 1, .expert = 2, .data = 3, .ranks = 6,
                               .placement = PLACEMENT_PIPELINE_INSIDE },
         "tensor within 4, experts within 4, pipeline within 12, data within 36");
    says(&(struct config_row){ .tensor = 1, .context = 1, .expert = 1, .data = 1, .ranks = 1 }, "one device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_message_is_quicker_than_between_devices),
        cmocka_unit_test(even_groups_have_their_own_levels),
        cmocka_unit_test(one_is_no_slower_where_no_hop_is),
        cmocka_unit_test(a_rank_is_as_slow_as_its_slowest_device),
        cmocka_unit_test(it_says_what_lies_where),
    };
    return cmocka_run_group_tests_name("config_place", tests, NULL, NULL);
}
