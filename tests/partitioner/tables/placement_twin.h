// Small random tables and clusters, all ways to place them, and the slow twin that prices one: every message between
// two members, byte by byte, and every piece by itself.
#ifndef TESTS_PARTITIONER_TABLES_PLACEMENT_TWIN_H
#define TESTS_PARTITIONER_TABLES_PLACEMENT_TWIN_H

#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "partitioner/tables/table_placement.h"

#define TWIN_NEVER UINT64_MAX

enum { TWIN_TABLES = 4, TWIN_MEMBERS = 4, TWIN_CHOICES = 40 };

struct twin_choice {
    enum table_kind kind;
    uint32_t parts, members[TWIN_MEMBERS];
};

struct twin {
    struct table_set set;
    struct table tables[TWIN_TABLES];
    struct cluster cluster;
    struct cluster_device devices[TWIN_MEMBERS];
    struct cluster_level levels[2];
    enum table_optimizer optimizer;
};

// --- the price ------------------------------------------------------------------------------------

static inline uint64_t twin_up(unsigned __int128 a, unsigned __int128 b)
{
    return (uint64_t)((a + b - 1) / b);
}

static inline uint64_t twin_256(uint64_t bytes)
{
    return twin_up(bytes, 256) * 256;
}

static inline uint64_t twin_read(const struct twin *twin, uint64_t table_bytes, uint64_t rows, uint64_t width)
{
    const struct table_rate *rate = &twin->set.rates[0];
    for (size_t r = 1; r < twin->set.rate_count; r++)
        if (table_bytes > twin->set.rates[r].above_bytes)
            rate = &twin->set.rates[r];
    return rate->fixed_ps + rows * rate->row_ps + twin_up((unsigned __int128)rows * width * 1000000000000u,
                                                          rate->bytes_per_second);
}

static inline uint64_t twin_state(const struct twin *twin, uint64_t width)
{
    return twin->optimizer == TABLE_ADAGRAD ? width : twin->optimizer == TABLE_ADAGRAD_ROWS ? 4
         : twin->optimizer == TABLE_ADAM_ROWS ? 2 * width : 0;
}

// Sums while a placement is priced.
struct twin_sums {
    uint64_t read[TWIN_MEMBERS], bytes[TWIN_MEMBERS], held[TWIN_MEMBERS], moved[TWIN_MEMBERS];  // the last by machine
    uint64_t forward[TWIN_MEMBERS][TWIN_MEMBERS], gather[TWIN_MEMBERS][TWIN_MEMBERS];
};

static inline uint32_t twin_machine(const struct twin *twin, uint32_t member)
{
    return twin->cluster.level_count ? member / (uint32_t)twin->levels[0].size : 0;
}

static inline void twin_add_piece(const struct twin *twin, const struct table *table, const struct twin_choice *choice,
                                  uint32_t member, struct twin_sums *sums)
{
    const uint32_t p = (uint32_t)twin->cluster.device_count;
    const uint64_t m = twin->set.micro_batches, share = twin_up(twin->set.batch, p);
    const uint64_t by_rows = choice->kind == TABLE_ROWS ? choice->parts : 1;
    const uint64_t width = twin->set.columns * twin->set.number_bytes
                         / (choice->kind == TABLE_COLUMNS ? choice->parts : 1);
    const uint64_t all_ids = twin_up(twin->set.batch * table->reads_milli, 1000);
    const uint64_t all_p95 = twin_up(twin->set.batch * table->reads_p95_milli, 1000);
    const uint64_t unique = twin_up(table->unique, by_rows), state = twin_state(twin, width);
    uint64_t rows = twin_up(table->rows, by_rows), ids = twin_up(all_ids, by_rows);
    uint64_t touched = twin_up(m * all_p95, by_rows);
    touched = touched > unique ? touched : unique;
    touched = touched < rows ? touched : rows;
    if (choice->kind == TABLE_COPIED)
        ids = twin_up(all_ids, p);
    if (choice->kind == TABLE_HOST) {
        sums->held[twin_machine(twin, member)] += rows * (width + state);
        sums->moved[twin_machine(twin, member)] += 2 * unique * (width + state);
        rows = rows < 2 * unique ? rows : 2 * unique;
    }
    sums->read[member] += m * twin_read(twin, rows * width, ids, width)
                        + twin_read(twin, rows * width, 2 * unique, width + state);
    sums->bytes[member] += twin_256(rows * width) + twin_256(rows * state) + twin_256(touched * (width + 4));
    if (choice->kind == TABLE_COPIED) {
        sums->bytes[member] += twin_256(share * width);
        const uint64_t sent = unique < m * ids ? unique : m * ids;
        for (uint32_t j = 0; j < p; j++)
            sums->gather[member][j] += j == member ? 0 : sent * (width + 4);
        return;
    }
    sums->bytes[member] += twin_256(twin->set.batch * width);
    for (uint32_t j = 0; j < p; j++) {
        sums->bytes[j] += twin_256(share * width);
        sums->forward[member][j] += j == member ? 0 : share * width;
    }
}

// The busiest way in or out of a unit at a level, in bytes.
static inline uint64_t twin_busiest(const struct twin *twin, size_t level, uint64_t sent[TWIN_MEMBERS][TWIN_MEMBERS])
{
    const uint32_t p = (uint32_t)twin->cluster.device_count;
    const uint32_t size = level == 0 ? 1 : (uint32_t)twin->levels[0].size;
    uint64_t most = 0;
    for (uint32_t unit = 0; unit < p / size; unit++) {
        uint64_t out = 0, into = 0;
        for (uint32_t i = 0; i < p; i++)
            for (uint32_t j = 0; j < p; j++) {
                if (i == j || cluster_level_between(&twin->cluster, i, j) != level)
                    continue;
                out += i / size == unit ? sent[i][j] : 0;
                into += j / size == unit ? sent[i][j] : 0;
            }
        most = out > most ? out : most;
        most = into > most ? into : most;
    }
    return most;
}

static inline uint64_t twin_message(const struct cluster_level *level, uint64_t bytes)
{
    return bytes == 0 ? 0 : 1000 * level->latency_ns + twin_up((unsigned __int128)bytes * 1000000000000u,
                                                               level->bytes_per_second);
}

// The cost in ps; TWIN_NEVER if it does not fit.
static inline uint64_t twin_price(const struct twin *twin, const struct twin_choice *choices)
{
    struct twin_sums sums = { 0 };
    const uint32_t p = (uint32_t)twin->cluster.device_count;
    uint64_t read = 0, link = 0;
    for (size_t t = 0; t < twin->set.table_count; t++)
        for (uint32_t j = 0; j < choices[t].parts; j++)
            twin_add_piece(twin, &twin->tables[t], &choices[t], choices[t].members[j], &sums);
    for (uint32_t i = 0; i < p; i++) {
        if (sums.bytes[i] + twin->set.dense_bytes > twin->devices[i].memory_bytes
            || sums.held[i] > twin->cluster.host_memory_bytes)
            return TWIN_NEVER;
        const uint64_t time = twin_up((unsigned __int128)sums.read[i] * 1000, twin->devices[i].speed_permille);
        read = time > read ? time : read;
        const uint64_t host = sums.moved[i] == 0 ? 0 : twin_up((unsigned __int128)sums.moved[i] * 1000000000000u,
                                                               twin->cluster.host_bytes_per_second);
        link = host > link ? host : link;
    }
    for (size_t l = 0; l < twin->cluster.level_count; l++) {
        const uint64_t exchange = twin_message(&twin->levels[l], twin_busiest(twin, l, sums.forward));
        const uint64_t time = 2 * twin->set.micro_batches * exchange
                            + twin_message(&twin->levels[l], twin_busiest(twin, l, sums.gather));
        link = time > link ? time : link;
    }
    return read + link;
}

// --- all ways of a table ----------------------------------------------------------------------------

static inline uint32_t twin_add_split(uint32_t p, enum table_kind kind, uint32_t parts, struct twin_choice *choices,
                                      uint32_t count)
{
    for (uint32_t set = 0; set < 1u << p; set++) {
        if ((uint32_t)__builtin_popcount(set) != parts)
            continue;
        struct twin_choice *choice = &choices[count++];
        *choice = (struct twin_choice){ .kind = kind };
        for (uint32_t i = 0; i < p; i++)
            if (set >> i & 1)
                choice->members[choice->parts++] = i;
    }
    return count;
}

static inline uint32_t twin_choices(const struct twin *twin, size_t t, struct twin_choice *choices)
{
    const uint32_t p = (uint32_t)twin->cluster.device_count;
    uint32_t count = twin_add_split(p, TABLE_WHOLE, 1, choices, 0);
    for (uint32_t parts = 2; parts <= p; parts++) {
        if (parts == 3 && p > 3)
            continue;
        if (twin->tables[t].rows >= parts)
            count = twin_add_split(p, TABLE_ROWS, parts, choices, count);
        if (twin->set.columns % parts == 0 && twin->optimizer != TABLE_ADAGRAD_ROWS)
            count = twin_add_split(p, TABLE_COLUMNS, parts, choices, count);
    }
    if (p > 1)
        count = twin_add_split(p, TABLE_COPIED, p, choices, count);
    return twin->cluster.has_host ? twin_add_split(p, TABLE_HOST, 1, choices, count) : count;
}

// The least cost of all placements.
static inline uint64_t twin_least(const struct twin *twin)
{
    struct twin_choice lists[TWIN_TABLES][TWIN_CHOICES], choices[TWIN_TABLES];
    uint32_t counts[TWIN_TABLES], chosen[TWIN_TABLES] = { 0 };
    const size_t tables = twin->set.table_count;
    for (size_t t = 0; t < tables; t++)
        counts[t] = twin_choices(twin, t, lists[t]);
    uint64_t least = TWIN_NEVER;
    for (;;) {
        for (size_t t = 0; t < tables; t++)
            choices[t] = lists[t][chosen[t]];
        const uint64_t price = twin_price(twin, choices);
        least = price < least ? price : least;
        size_t t = 0;
        while (t < tables && ++chosen[t] == counts[t])
            chosen[t++] = 0;
        if (t == tables)
            return least;
    }
}

// --- random ones ------------------------------------------------------------------------------------

static inline void twin_make_cluster(uint64_t *seed, struct twin *twin)
{
    const bool is_tight = random_below(seed, 2), are_alike = random_below(seed, 3) > 0;
    const uint64_t members[] = { 1, 2, 2, 3, 4, 4 };
    struct cluster *cluster = &twin->cluster;
    cluster->devices = twin->devices;
    cluster->levels = twin->levels;
    cluster->device_count = members[random_below(seed, 6)];
    cluster->level_count = cluster->device_count == 4 && random_below(seed, 2) ? 2 : 1;
    for (size_t l = 0; l < cluster->level_count; l++)
        twin->levels[l] = (struct cluster_level){
            .size = cluster->level_count == 2 ? 2 : cluster->device_count,
            .latency_ns = random_below(seed, 20),
            .bytes_per_second = 1000000000 * (1 + random_below(seed, 40)),
        };
    const uint64_t memory = is_tight ? 3000 + random_below(seed, 20000) : 1 << 20;
    for (size_t i = 0; i < cluster->device_count; i++)
        twin->devices[i] = (struct cluster_device){
            .memory_bytes = memory + (are_alike ? 0 : random_below(seed, 4000)),
            .speed_permille = are_alike ? 1000 : 500 * (1 + random_below(seed, 3)),
        };
    cluster->has_host = random_below(seed, 3) == 0;
    cluster->host_memory_bytes = cluster->has_host ? 2000 + random_below(seed, 20000) : 0;
    cluster->host_bytes_per_second = cluster->has_host ? 1000000000 * (1 + random_below(seed, 20)) : 0;
}

static inline void twin_make(uint64_t *seed, struct twin *twin)
{
    static char name[] = "t";
    *twin = (struct twin){ 0 };
    twin_make_cluster(seed, twin);
    struct table_set *set = &twin->set;
    set->columns = (uint64_t)1 << random_below(seed, 4);
    set->number_bytes = 4;
    set->batch = 1 + random_below(seed, 40);
    set->micro_batches = 1 + random_below(seed, 3);
    set->dense_bytes = random_below(seed, 500);
    set->rate_count = 1 + random_below(seed, 2);
    for (size_t r = 0; r < set->rate_count; r++)
        set->rates[r] = (struct table_rate){ r * 1000, random_below(seed, 20000), random_below(seed, 2000),
                                             1000000000 * (1 + random_below(seed, 50)) };
    set->tables = twin->tables;
    set->table_count = 1 + random_below(seed, twin->cluster.device_count > 2 ? TWIN_TABLES - 1 : TWIN_TABLES);
    for (size_t t = 0; t < set->table_count; t++) {
        struct table *table = &twin->tables[t];
        *table = (struct table){ .name = name, .rows = 1 + random_below(seed, random_below(seed, 2) ? 10 : 300),
                                 .reads_milli = random_below(seed, 9000) };
        table->reads_p95_milli = table->reads_milli + random_below(seed, 2000);
        const uint64_t ids = set->micro_batches * ((set->batch * table->reads_milli + 999) / 1000);
        table->unique = random_below(seed, (ids < table->rows ? ids : table->rows) + 1);
    }
    twin->optimizer = (enum table_optimizer)random_below(seed, 4);
}

// Makes everything take a thousand times as long.
static inline void twin_slow_down(struct twin *twin)
{
    for (size_t r = 0; r < twin->set.rate_count; r++) {
        twin->set.rates[r].fixed_ps *= 1000;
        twin->set.rates[r].row_ps *= 1000;
        twin->set.rates[r].bytes_per_second /= 1000;
    }
    for (size_t l = 0; l < twin->cluster.level_count; l++) {
        twin->levels[l].latency_ns *= 1000;
        twin->levels[l].bytes_per_second /= 1000;
    }
    twin->cluster.host_bytes_per_second /= 1000;
}

#endif
