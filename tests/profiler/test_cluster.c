#include "profiler/cluster.h"

#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "tests/document.h"
#include "tests/test.h"

static struct cluster *load(const char *text)
{
    struct error error = { 0 };
    struct cluster *cluster = cluster_load(text, &error);
    assert_good(cluster, error);
    return cluster;
}

static void the_example_of_the_page_is_read_and_written_byte_for_byte(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *text = test_document("docs/formats/cluster.md");
    struct cluster *cluster = cluster_read(text, strlen(text), "c.json", &error);
    assert_good(cluster, error);
    assert_int_equal(cluster->device_count, 4);
    assert_string_equal(cluster->devices[2].name, "right.0");
    assert_int_equal(cluster->devices[2].speed_permille, 640);
    assert_int_equal(cluster->levels[1].latency_ns, 8000);
    assert_true(cluster->has_host);

    struct text again = { 0 };
    cluster_write(cluster, &again);
    assert_string_equal(again.data, text);
    text_clear(&again);
    cluster_free(cluster);
    free(text);
}

static void a_cluster_can_be_a_part_of_another_document(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct cluster *cluster = load("2 nodes x 2 devices, 1GiB, 10GB/s 1us, 1GB/s 2us");
    struct text text = { 0 };
    struct json_writer writer = json_writer(&text);
    json_begin_object(&writer, NULL, JSON_LINES);
    cluster_write_part(cluster, &writer, "cluster");
    json_close(&writer);

    struct json_document *document = json_parse(text.data, text.length, "plan.json", &error);
    assert_good(document, error);
    struct json root = json_root(document), place = json_object(&root, "cluster");
    struct cluster *again = cluster_read_part(&place, &error);
    assert_good(again, error);
    assert_string_equal(again->devices[3].name, cluster->devices[3].name);
    json_free(document);

    char *digit = strstr(text.data, "\"size\": 2");
    digit[8] = '3';
    document = json_parse(text.data, text.length, "plan.json", &error);
    root = json_root(document);
    place = json_object(&root, "cluster");
    assert_null(cluster_read_part(&place, &error));
    assert_error(error, "plan.json: cluster.levels: hold 6 devices, but 4 are listed");
    json_free(document);
    text_clear(&text);
    cluster_free(cluster);
    cluster_free(again);
}

// --- the synopsis -----------------------------------------------------------------

static struct good_row {
    const char *name, *synopsis;
    size_t devices, levels;
    uint64_t memory_bytes;
    struct cluster_level inner, outer;
    const char *last;
} good_rows[] = {
    { "synopsis: nodes of devices", "2 nodes x 8 devices, 80GiB, 300GB/s 3us, 25GB/s 8us", 16, 2, 85899345920,
      { 8, 3000, 300000000000 }, { 2, 8000, 25000000000 }, "node1.device7" },
    { "synopsis: one group", "4 devices, 16GiB, 12GB/s 5us", 4, 1, 17179869184,
      { 4, 5000, 12000000000 }, { 4, 5000, 12000000000 }, "device3" },
    { "synopsis: spaces everywhere", "  2  nodes  x  8  devices ,80 GiB,  300 GB/s 3 us , 25 GB/s 8 us ", 16, 2,
      85899345920, { 8, 3000, 300000000000 }, { 2, 8000, 25000000000 }, "node1.device7" },
    { "synopsis: no spaces where none are needed", "2nodes x 8 devices,80GiB,300GB/s 3us,25GB/s8us", 16, 2, 85899345920,
      { 8, 3000, 300000000000 }, { 2, 8000, 25000000000 }, "node1.device7" },
    { "synopsis: the latency first", "4 devices, 16GiB, 5us 12GB/s", 4, 1, 17179869184,
      { 4, 5000, 12000000000 }, { 4, 5000, 12000000000 }, "device3" },
    { "synopsis: one device needs no link", "1 device, 8GiB", 1, 0, 8589934592, { 0, 0, 0 }, { 0, 0, 0 }, "device0" },
    { "synopsis: three levels", "2 racks x 2 nodes x 2 gpus, 1.5GiB, 3GB/s 1us, 2GB/s 2us, 1GB/s 3us", 8, 3, 1610612736,
      { 2, 1000, 3000000000 }, { 2, 3000, 1000000000 }, "rack1.node1.gpu1" },
    { "synopsis: without nouns", "2x2, 1GiB, 3GB/s 1us, 2GB/s 2us", 4, 2, 1073741824,
      { 2, 1000, 3000000000 }, { 2, 2000, 2000000000 }, "group1.device1" },
};

static void a_synopsis_is_a_cluster(void **state)
{
    const struct good_row *row = *state;
    struct cluster *cluster = load(row->synopsis);
    assert_int_equal(cluster->device_count, row->devices);
    assert_int_equal(cluster->level_count, row->levels);
    for (size_t i = 0; i < row->devices; i++) {
        assert_int_equal(cluster->devices[i].memory_bytes, row->memory_bytes);
        assert_int_equal(cluster->devices[i].speed_permille, 1000);
    }
    if (row->levels > 0) {
        assert_memory_equal(&cluster->levels[0], &row->inner, sizeof row->inner);
        assert_memory_equal(&cluster->levels[row->levels - 1], &row->outer, sizeof row->outer);
    }
    assert_string_equal(cluster->devices[row->devices - 1].name, row->last);

    // Its document says the same.
    struct error error = { 0 };
    struct text text = { 0 };
    cluster_write(cluster, &text);
    struct cluster *again = cluster_read(text.data, text.length, "c.json", &error);
    assert_good(again, error);
    assert_int_equal(again->device_count, row->devices);
    text_clear(&text);
    cluster_free(again);
    cluster_free(cluster);
}

static void a_synopsis_may_name_a_host(void **state)
{
    (void)state;
    struct cluster *cluster = load("4 devices, 16GiB, 12GB/s 5us, host 64GiB 10GB/s");
    assert_true(cluster->has_host);
    assert_int_equal(cluster->host_memory_bytes, 68719476736);
    assert_int_equal(cluster->host_bytes_per_second, 10000000000);
    cluster_free(cluster);
}

static struct bad_row {
    const char *name, *synopsis, *sentence;
} bad_rows[] = {
    { "refused: no memory", "4 devices",
      "cluster \"4 devices\": does not say a device's memory; write it as "
      "\"2 nodes x 8 devices, 80GiB, 300GB/s 3us, 25GB/s 8us\"" },
    { "refused: no link", "4 devices, 16GiB",
      "cluster \"4 devices, 16GiB\": does not say how fast the links between devices are; write it as "
      "\"2 nodes x 8 devices, 80GiB, 300GB/s 3us, 25GB/s 8us\"" },
    { "refused: no outer link", "2 nodes x 4 devices, 16GiB, 12GB/s 5us",
      "cluster \"2 nodes x 4 devices, 16GiB, 12GB/s 5us\": does not say how fast the links between nodes are; "
      "write it as "
      "\"2 nodes x 8 devices, 80GiB, 300GB/s 3us, 25GB/s 8us\"" },
    { "refused: a link too many", "4 devices, 1GiB, 1GB/s 5us, 1GB/s 5us",
      "cluster \"4 devices, 1GiB, 1GB/s 5us, 1GB/s 5us\": \"1GB/s 5us\" is a link too many: there is one per group" },
    { "refused: a link without latency", "4 devices, 1GiB, 1GB/s",
      "cluster \"4 devices, 1GiB, 1GB/s\": \"1GB/s\" is not a link's rate and latency; write it as \"300GB/s 3us\"" },
    { "refused: a link without rate", "4 devices, 1GiB, 3us 5us",
      "cluster \"4 devices, 1GiB, 3us 5us\": \"3us 5us\" is not a link's rate and latency; write it as \"300GB/s "
      "3us\"" },
    { "refused: a rate of nothing", "4 devices, 1GiB, 0GB/s 5us",
      "cluster \"4 devices, 1GiB, 0GB/s 5us\": \"0GB/s 5us\": a link needs a rate above 0" },
    { "refused: no devices at all", "0 devices, 1GiB, 1GB/s 5us",
      "cluster \"0 devices, 1GiB, 1GB/s 5us\": a group: 0 is not from 1 to 65536" },
    { "refused: too many devices", "60000 nodes x 8 devices, 1GiB, 1GB/s 5us",
      "cluster \"60000 nodes x 8 devices, 1GiB, 1GB/s 5us\": has more than 65536 devices" },
    { "refused: a noun first", "four devices, 1GiB",
      "cluster \"four devices, 1GiB\": a group begins with its number at \"four devices\"; write it as "
      "\"2 nodes x 8 devices, 80GiB, 300GB/s 3us, 25GB/s 8us\"" },
    { "refused: no x between groups", "2 nodes 8 devices, 1GiB",
      "cluster \"2 nodes 8 devices, 1GiB\": expected \" x \" between groups at \"8 devices\"; write it as "
      "\"2 nodes x 8 devices, 80GiB, 300GB/s 3us, 25GB/s 8us\"" },
    { "refused: neither a file nor a line", "8xA100",
      "\"8xA100\" is neither a cluster's file nor a line such as \"2 devices, 16GiB, 12GB/s 5us\"" },
    { "refused: something behind the host", "1 device, 1GiB, host 1GiB 1GB/s, 1GB/s 1us",
      "cluster \"1 device, 1GiB, host 1GiB 1GB/s, 1GB/s 1us\": \"1GB/s 1us\" stands behind the host, which comes "
      "last" },
};

static void a_wrong_synopsis_is_told_what_is_missing(void **state)
{
    const struct bad_row *row = *state;
    struct error error = { 0 };
    assert_null(cluster_load(row->synopsis, &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
}

// --- the document ------------------------------------------------------------------

#define DEVICES                                                                                                        \
    "\"devices\": [{\"name\": \"a\", \"memory_bytes\": 1, \"speed_permille\": 1000}, "                                 \
    "{\"name\": \"b\", \"memory_bytes\": 1, \"speed_permille\": 1000}]"
#define LEVELS(size, rate) "\"levels\": [{\"size\": " size ", \"latency_ns\": 1, \"bytes_per_second\": " rate "}]"
#define DOCUMENT(devices, levels) "{\"format\": \"weir.cluster\", \"version\": 1, " devices ", " levels "}"

static struct bad_row bad_documents[] = {
    { "refused: a newer version", "{\"format\": \"weir.cluster\", \"version\": 2, " DEVICES ", " LEVELS("2", "1") "}",
      "c.json: version: is 2; this Weir reads version 1" },
    { "refused: levels that hold too few", DOCUMENT(DEVICES, LEVELS("1", "1")),
      "c.json: levels: hold 1 devices, but 2 are listed" },
    { "refused: levels that hold too many", DOCUMENT(DEVICES, LEVELS("3", "1")),
      "c.json: levels: hold 3 devices, but 2 are listed" },
    { "refused: a link without a rate", DOCUMENT(DEVICES, LEVELS("2", "0")),
      "c.json: levels[0].bytes_per_second: is 0; it must be at least 1" },
    { "refused: no devices", DOCUMENT("\"devices\": []", LEVELS("1", "1")),
      "c.json: devices: holds 0 devices (1 to 65536)" },
    { "refused: two devices of one name",
      DOCUMENT("\"devices\": [{\"name\": \"a\", \"memory_bytes\": 1, \"speed_permille\": 1000}, "
               "{\"name\": \"a\", \"memory_bytes\": 1, \"speed_permille\": 1000}]",
               LEVELS("2", "1")),
      "c.json: devices: devices 0 and 1 are both called a" },
    { "refused: a host that says too much",
      DOCUMENT(DEVICES, LEVELS("2", "1") ", \"host\": {\"memory_bytes\": 1, "
                                         "\"bytes_per_second\": 1, \"name\": \"h\"}"),
      "c.json: host: key \"name\" is not known" },
};

static void a_wrong_document_is_told_where(void **state)
{
    const struct bad_row *row = *state;
    struct error error = { 0 };
    assert_null(cluster_read(row->synopsis, strlen(row->synopsis), "c.json", &error));
    assert_error(error, row->sentence);
}

// --- topology -----------------------------------------------------------------------

static void devices_talk_over_the_innermost_level_that_holds_both(void **state)
{
    (void)state;
    struct cluster *cluster = load("2 racks x 2 nodes x 2 devices, 1GiB, 3GB/s 1us, 2GB/s 2us, 1GB/s 3us");
    static const char *levels[8] = {
        // from 0 1  2 3  4 5  6 7
        "0 0  1 1  2 2  2 2", "0 0  1 1  2 2  2 2", "1 1  0 0  2 2  2 2", "1 1  0 0  2 2  2 2",
        "2 2  2 2  0 0  1 1", "2 2  2 2  0 0  1 1", "2 2  2 2  1 1  0 0", "2 2  2 2  1 1  0 0",
    };
    for (size_t a = 0; a < 8; a++) {
        const char *row = levels[a];
        for (size_t b = 0; b < 8; b++, row++) {
            row += strspn(row, " ");
            assert_int_equal(cluster_level_between(cluster, a, b), *row - '0');
        }
    }
    assert_int_equal(cluster_group(cluster, 0, 5), 2);
    assert_int_equal(cluster_group(cluster, 1, 5), 1);
    assert_int_equal(cluster_group(cluster, 2, 5), 0);
    cluster_free(cluster);
}

static void a_uniform_cluster_has_one_level(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct cluster *cluster = cluster_uniform(3, 1024, 5000, 1000000, &error);
    assert_good(cluster, error);
    assert_int_equal(cluster->level_count, 1);
    assert_int_equal(cluster->levels[0].size, 3);
    assert_string_equal(cluster->devices[2].name, "device2");
    assert_int_equal(cluster_level_between(cluster, 0, 2), 0);
    cluster_free(cluster);
}

static void a_path_is_not_a_synopsis(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_null(cluster_load("no/such/cluster.json", &error));
    assert_non_null(strstr(error.text, "no/such/cluster.json"));
}

int main(void)
{
    enum {
        GOOD = sizeof good_rows / sizeof good_rows[0],
        BAD = sizeof bad_rows / sizeof bad_rows[0],
        DOCUMENTS = sizeof bad_documents / sizeof bad_documents[0]
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_page_is_read_and_written_byte_for_byte),
        cmocka_unit_test(a_cluster_can_be_a_part_of_another_document),
        cmocka_unit_test(a_synopsis_may_name_a_host),
        cmocka_unit_test(devices_talk_over_the_innermost_level_that_holds_both),
        cmocka_unit_test(a_uniform_cluster_has_one_level),
        cmocka_unit_test(a_path_is_not_a_synopsis),
    };
    struct CMUnitTest good[GOOD], bad[BAD], documents[DOCUMENTS];
    for (size_t i = 0; i < GOOD; i++)
        good[i] = (struct CMUnitTest)TEST_ROW(a_synopsis_is_a_cluster, &good_rows[i]);
    for (size_t i = 0; i < BAD; i++)
        bad[i] = (struct CMUnitTest)TEST_ROW(a_wrong_synopsis_is_told_what_is_missing, &bad_rows[i]);
    for (size_t i = 0; i < DOCUMENTS; i++)
        documents[i] = (struct CMUnitTest)TEST_ROW(a_wrong_document_is_told_where, &bad_documents[i]);
    return cmocka_run_group_tests_name("cluster", tests, NULL, NULL)
           + cmocka_run_group_tests_name("cluster: synopses", good, NULL, NULL)
           + cmocka_run_group_tests_name("cluster: wrong synopses", bad, NULL, NULL)
           + cmocka_run_group_tests_name("cluster: wrong documents", documents, NULL, NULL);
}
