// Which levels measured links make, and that the document can be read again.
#include "profiler/cluster_measured.h"

#include <string.h>

#include "tests/test.h"

enum { MOST_RANKS = 6 };

// Machines by rank, a letter each; costs in microseconds and GB/s.
static struct measured_row {
    const char *name, *hosts;
    struct link_cost to_next[MOST_RANKS];
    size_t level_count;
    struct cluster_level levels[2];
    const char *third;  // the name of the third device
} rows[] = {
    { "links: one machine has one level, as its slowest link",
      "AAA", { { 3000, 90000000000, 10 }, { 4000, 50000000000, 20 } },
      1, { { 3, 4000, 50000000000 } }, "A.2" },
    { "links: two machines have a level inside and one between",
      "AABB", { { 3000, 90000000000, 0 }, { 9000, 10000000000, 0 }, { 3000, 80000000000, 0 } },
      2, { { 2, 3000, 80000000000 }, { 2, 9000, 10000000000 } }, "B.0" },
    { "links: a rank on each machine has one level",
      "ABC", { { 3000, 90000000000, 0 }, { 9000, 10000000000, 0 } },
      1, { { 3, 9000, 10000000000 } }, "C.0" },
    { "links: machines with unlike numbers of ranks have one level",
      "AAB", { { 3000, 90000000000, 0 }, { 9000, 10000000000, 0 } },
      1, { { 3, 9000, 10000000000 } }, "B.0" },
    { "links: ranks that are not in a row have one level",
      "ABAB", { { 3000, 90000000000, 0 }, { 9000, 10000000000, 0 }, { 3000, 80000000000, 0 } },
      1, { { 4, 9000, 10000000000 } }, "A.1" },
    { "links: machines of unlike order have one level",
      "AABBBA", { { 3, 900, 0 }, { 9, 100, 0 }, { 3, 800, 0 }, { 3, 800, 0 }, { 3, 800, 0 } },
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

static void a_link_that_is_no_line_is_told(void **state)
{
    (void)state;
    const struct measured_row row = { .hosts = "AAB", .to_next = { { 3000, 90000000000, 17 }, { 9000, 10000000000, 614 } } };
    struct station stations[MOST_RANKS];
    const struct links_measured links = links_of(&row, stations);
    struct text text = { 0 };
    links_print(&links, &text);
    assert_string_equal(text.data,
                        "ranks        link                 latency          rate     worst\n"
                        "   0 - 1     in a machine         3.00 us     90.0 GB/s     1.7 %\n"
                        "   1 - 2     between machines     9.00 us     10.0 GB/s    61.4 %  latency and rate do not tell this link\n"
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
    tests[ROWS] = (struct CMUnitTest)cmocka_unit_test(a_link_that_is_no_line_is_told);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
