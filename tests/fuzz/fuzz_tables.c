// Whatever the bytes, reading a tables document ends in tables that can be placed or refused, or in one sentence with
// the file in front.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/tables/table_search.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void place(const struct table_set *set)
{
    struct error error = { 0 };
    struct placement_problem problem;
    struct table_search search = { 0 };
    struct cluster *cluster = cluster_uniform(3, (uint64_t)1 << 40, 10, 1000000000, &error);
    if (!cluster)
        abort();
    if (!placement_open(&problem, set, cluster, TABLE_ADAGRAD, &error)) {
        if (error.kind == ERROR_NONE)
            abort();
    } else {
        if (!table_search_open(&search, &problem, 10000, &error))
            abort();
        table_search_begin(&search);
        table_search_close(&search);
        placement_close(&problem);
    }
    cluster_free(cluster);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct table_set *set = table_set_read((const char *)data, size, "fuzz.json", &error);
    if ((set != NULL) == (error.kind != ERROR_NONE))
        abort();
    if (!set && error.kind == ERROR_INPUT && strncmp(error.text, "fuzz.json:", 10) != 0)
        abort();
    if (set)
        place(set);
    table_set_free(set);
    return 0;
}
