// Which levels measured links make, and that the document can be read again.
#include "profiler/cluster_measured.h"

#include <string.h>

#include "tests/test.h"

enum { MOST_RANKS = 6 };

// Machines by rank, a letter each; costs in microseconds and GB/s.
#define COST(latency, rate) { .latency_ns = (latency), .bytes_per_second = (rate) }
static struct measured_row {
    const char *name, *hosts;
    struct link_cost to_next[MOST_RANKS];
    size_t level_count;
    struct cluster_level levels[2];
    const char *third;  // the name of the third device
} rows[] = {
    { "links: one machine has one level, as its slowest link",
      "AAA", { COST(3000, 90000000000), COST(4000, 50000000000) },
      1, { { 3, 4000, 50000000000 } }, "A.2" },
    { "links: two machines have a level inside and one between",
      "AABB", { COST(3000, 90000000000), COST(9000, 10000000000), COST(3000, 80000000000) },
      2, { { 2, 3000, 80000000000 }, { 2, 9000, 10000000000 } }, "B.0" },
    { "links: a rank on each machine has one level",
      "ABC", { COST(3000, 90000000000), COST(9000, 10000000000) },
      1, { { 3, 9000, 10000000000 } }, "C.0" },
    { "links: machines with unlike numbers of ranks have one level",
      "AAB", { COST(3000, 90000000000), COST(9000, 10000000000) },
      1, { { 3, 9000, 10000000000 } }, "B.0" },
    { "links: ranks that are not in a row have one level",
      "ABAB", { COST(3000, 90000000000), COST(9000, 10000000000), COST(3000, 80000000000) },
      1, { { 4, 9000, 10000000000 } }, "A.1" },
    { "links: machines of unlike order have one level",
      "AABBBA", { COST(3, 900), COST(9, 100), COST(3, 800), COST(3, 800), COST(3, 800) },
      1, { { 6, 9, 100 } }, "B.0" },
};

static struct links_measured links_of(const struct measured_row *row, struct station *stations)
{
    const size_t ranks = strlen(row->hosts);
    for (size_t rank = 0; rank < ranks; rank++)
        stations[rank] = (struct station){ .host = { row->hosts[rank] }, .memory_bytes = 1000 + rank };
    return (struct links_measured){ .stations = stations, .to_next = row->to_next, .ranks = ranks };
}

static void links_make_levels(void **state)
{
    const struct measured_row *row = *state;
    struct station stations[MOST_RANKS];
    const struct links_measured links = links_of(row, stations);
    struct error error = { 0 };
    struct cluster *measured = cluster_measured(&links, "Measured.", &error);
    assert_good(measured, error);
    struct text text = { 0 };
    cluster_write(measured, &text);
    cluster_free(measured);
    struct cluster *cluster = cluster_read(text.data, text.length, "measured", &error);
    assert_good(cluster, error);
    assert_int_equal(cluster->level_count, row->level_count);
    for (size_t level = 0; level < row->level_count; level++) {
        assert_int_equal(cluster->levels[level].size, row->levels[level].size);
        assert_int_equal(cluster->levels[level].latency_ns, row->levels[level].latency_ns);
        assert_int_equal(cluster->levels[level].bytes_per_second, row->levels[level].bytes_per_second);
    }
    assert_int_equal(cluster->device_count, links.ranks);
    assert_string_equal(cluster->devices[2].name, row->third);
    assert_int_equal(cluster->devices[2].memory_bytes, 1002);
    assert_string_equal(cluster->notes, "Measured.");
    cluster_free(cluster);
    text_clear(&text);
}

static struct link_cost alike(uint64_t latency_ns, uint64_t bytes_per_second)
{
    return (struct link_cost){ .latency_ns = latency_ns, .bytes_per_second = bytes_per_second,
                               .there_bytes_per_second = bytes_per_second, .back_bytes_per_second = bytes_per_second,
                               .both_bytes_per_second = bytes_per_second, .worst_permille = 17 };
}

static void a_link_that_is_no_line_or_is_shared_is_told(void **state)
{
    (void)state;
    struct measured_row row = { .hosts = "AAB", .to_next = { alike(3000, 90000000000), alike(9000, 10000000000) } };
    struct link_cost *poor = &row.to_next[1];
    poor->there_bytes_per_second = 12000000000;
    poor->both_bytes_per_second = 6000000000;
    poor->worst_permille = 614;
    poor->worst_bytes = 16384;
    poor->worst_ns = 6590;
    poor->least_good_bytes = 262144;
    struct station stations[MOST_RANKS];
    const struct links_measured links = links_of(&row, stations);
    struct text text = { 0 };
    links_print(&links, &text);
    assert_string_equal(text.data,
        "ranks        link                 latency        rate        back        both      worst\n"
        "   0 - 1     in a machine         3.00 us   90.0 GB/s   90.0 GB/s   90.0 GB/s      1.7 %\n"
        "   1 - 2     between machines     9.00 us   12.0 GB/s   10.0 GB/s   6.00 GB/s     61.4 %\n"
        "\n"
        "Ranks 1 - 2 are no line: 16.0 KiB take 6.59 us, and 10.6 us by latency and rate, which are within 25 % from "
        "256 KiB on.\n"
        "\n"
        "Ranks 1 - 2 share their link: where messages pass both ways at once, each way has 60 % of the rate that plans "
        "reckon with.\n"
        "\n"
        "Level 0, groups of 3: as ranks 1 - 2, the slowest of its links.\n"
        "The machines have unlike numbers of ranks, or not in a row: the slowest link stands for all.\n");
    text_clear(&text);
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[ROWS + 1];
    for (size_t i = 0; i < ROWS; i++)
        tests[i] = (struct CMUnitTest){ rows[i].name, links_make_levels, NULL, NULL, &rows[i] };
    tests[ROWS] = (struct CMUnitTest)cmocka_unit_test(a_link_that_is_no_line_or_is_shared_is_told);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
