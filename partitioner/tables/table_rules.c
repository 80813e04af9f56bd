#include "partitioner/tables/table_rules.h"

#include <stdlib.h>

#include "common/number.h"

const char *const table_rule_names[] = { "all rows", "slot % members", "longest first", "torchrec", NULL };

static uint32_t *members_of(const struct placement_problem *problem, const struct table_placement *placement,
                            uint32_t t)
{
    return &placement->member[(size_t)t * problem->members];
}

// Gives a table a way, which it may not have.
static bool set_way(const struct placement_problem *problem, struct table_placement *placement, uint32_t t,
                    enum table_kind kind, uint32_t parts, struct error *error)
{
    placement->way[t] = placement_find_way(problem, t, kind, parts);
    return placement->way[t] < problem->way_count[t]
        || error_set_kind(error, ERROR_ANSWER, parts == 1 ? "table \"%s\" fits on no member whole"
                          : "a part of table \"%s\" does not fit on %u members", problem->set->tables[t].name, parts);
}

// --- all rows, and slot % members -------------------------------------------------------------

static bool place_rows(const struct placement_problem *problem, struct table_placement *placement, struct error *error)
{
    for (uint32_t t = 0; t < problem->tables; t++) {
        uint32_t parts = 1;
        while (2 * parts <= problem->set->tables[t].rows && 2 * parts <= problem->members)
            parts *= 2;
        parts = problem->members <= problem->set->tables[t].rows ? problem->members : parts;
        if (!set_way(problem, placement, t, parts > 1 ? TABLE_ROWS : TABLE_WHOLE, parts, error))
            return false;
        for (uint32_t j = 0; j < parts; j++)
            members_of(problem, placement, t)[j] = j;
    }
    return true;
}

static bool place_slots(const struct placement_problem *problem, struct table_placement *placement,
                        struct error *error)
{
    for (uint32_t t = 0; t < problem->tables; t++) {
        if (!set_way(problem, placement, t, TABLE_WHOLE, 1, error))
            return false;
        members_of(problem, placement, t)[0] = t % problem->members;
    }
    return true;
}

// --- longest first ----------------------------------------------------------------------------

struct shard {
    uint64_t score, bytes;
    uint32_t table, part;
};

static int compare_shards(const void *a, const void *b)
{
    const struct shard *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

// The member with the least sum of scores that has room for a piece and holds none of its table.
static uint32_t least_member(const struct placement_problem *problem, const struct placement_loads *loads,
                             const struct table_way *way, const uint64_t *sums, const uint32_t *members,
                             uint32_t pieces)
{
    uint32_t best = problem->members;
    for (uint32_t i = 0; i < problem->members; i++) {
        bool is_free = placement_member_bytes(problem, loads, i) + way->bytes
                    <= problem->cluster->devices[i].memory_bytes;
        for (uint32_t j = 0; j < pieces; j++)
            is_free = is_free && members[j] != i;
        if (is_free && (best == problem->members || sums[i] < sums[best]))
            best = i;
    }
    return best;
}

// What placing by scores works with.
struct scored {
    struct shard *shards;
    uint64_t *sums;  // of each member
    struct placement_loads loads;
    struct arrays arrays;
};

static bool scored_open(struct scored *scored, const struct placement_problem *problem, struct error *error)
{
    *scored = (struct scored){ 0 };
    scored->shards = arrays_add(&scored->arrays, (size_t)problem->tables * problem->members, sizeof scored->shards[0]);
    scored->sums = arrays_add(&scored->arrays, problem->members, sizeof scored->sums[0]);
    scored->loads = placement_loads_create(problem, &scored->arrays);
    if (!scored->arrays.failed)
        return true;
    arrays_clear(&scored->arrays);
    return error_no_memory(error, "tables placed by a rule");
}

static bool place_shards(const struct placement_problem *problem, struct scored *scored, size_t count,
                         struct table_placement *placement, struct error *error)
{
    qsort(scored->shards, count, sizeof scored->shards[0], compare_shards);
    for (size_t i = 0; i < count; i++) {
        const struct shard *shard = &scored->shards[i];
        const struct table_way *way = placement_way(problem, shard->table, placement->way[shard->table]);
        uint32_t *members = members_of(problem, placement, shard->table);
        const uint32_t member = least_member(problem, &scored->loads, way, scored->sums, members, shard->part);
        if (member == problem->members)
            return error_set_kind(error, ERROR_ANSWER, "no member has room left for table \"%s\"",
                                  problem->set->tables[shard->table].name);
        members[shard->part] = member;
        placement_add_piece(problem, &scored->loads, way, member);
        scored->sums[member] = add_clamped(scored->sums[member], shard->score);
    }
    return true;
}

static bool place_longest_first(const struct placement_problem *problem, struct table_placement *placement,
                                struct error *error)
{
    struct scored scored;
    if (!scored_open(&scored, problem, error))
        return false;
    bool good = true;
    for (uint32_t t = 0; good && t < problem->tables; t++) {
        good = set_way(problem, placement, t, TABLE_WHOLE, 1, error);
        const struct table_way *way = placement_way(problem, t, good ? placement->way[t] : 0);
        scored.shards[t] = (struct shard){ way->read_ps, way->bytes, t, 0 };
        placement_add_table(&scored.loads, way);
    }
    good = good && place_shards(problem, &scored, problem->tables, placement, error);
    arrays_clear(&scored.arrays);
    return good;
}

// --- torchrec ---------------------------------------------------------------------------------

static bool is_uniform(const struct table_way *way)
{
    return way->kind == TABLE_ROWS || way->kind == TABLE_COPIED;
}

// The time of a piece by itself: its reads, and its messages on the slowest level.
static uint64_t score_of(const struct placement_problem *problem, const struct table_way *way)
{
    uint64_t link = 0;
    for (uint32_t l = 0; l < problem->level_count; l++)
        link = max_u64(link, placement_level_ps(problem, l, way->width_bytes, way->gathered_bytes));
    return add_clamped(way->read_ps, link);
}

// The options of each table, best first, and the one that a proposal has.
struct proposals {
    uint32_t *options;  // [table * TABLE_MOST_WAYS + position]: the number of a way
    uint32_t *count, *position;
};

static bool is_option(const struct placement_problem *problem, const struct table_way *way)
{
    return way->kind != TABLE_HOST && (way->kind != TABLE_ROWS || way->parts == problem->members);
}

static void list_options(const struct placement_problem *problem, const struct proposals *proposals)
{
    for (uint32_t t = 0; t < problem->tables; t++) {
        uint32_t *options = &proposals->options[(size_t)t * TABLE_MOST_WAYS];
        for (uint32_t w = 0; w < problem->way_count[t]; w++) {
            if (!is_option(problem, placement_way(problem, t, w)))
                continue;
            uint32_t place = proposals->count[t]++;
            const uint64_t score = score_of(problem, placement_way(problem, t, w));
            for (; place > 0 && score_of(problem, placement_way(problem, t, options[place - 1])) > score; place--)
                options[place] = options[place - 1];
            options[place] = w;
        }
    }
}

// False once every table has had its last option.
static bool propose_next(const struct placement_problem *problem, const struct proposals *proposals)
{
    uint32_t largest = problem->tables;
    uint64_t most = 0, most_in_all = 0;
    for (uint32_t t = 0; t < problem->tables; t++) {
        if (proposals->position[t] + 1 >= proposals->count[t])
            continue;
        const uint32_t w = proposals->options[(size_t)t * TABLE_MOST_WAYS + proposals->position[t]];
        const struct table_way *way = placement_way(problem, t, w);
        const uint64_t all = way->bytes * way->parts;
        if (way->bytes > most || (way->bytes == most && all > most_in_all)) {
            largest = t;
            most = way->bytes;
            most_in_all = all;
        }
    }
    if (largest < problem->tables)
        proposals->position[largest]++;
    return largest < problem->tables;
}

static void place_uniform(const struct placement_problem *problem, struct scored *scored, uint32_t t,
                          struct table_placement *placement)
{
    const struct table_way *way = placement_way(problem, t, placement->way[t]);
    for (uint32_t j = 0; j < way->parts; j++) {
        members_of(problem, placement, t)[j] = j;
        placement_add_piece(problem, &scored->loads, way, j);
        scored->sums[j] = add_clamped(scored->sums[j], score_of(problem, way));
    }
}

// Places a proposal. False if it does not fit; otherwise `rating` is its largest sum of scores.
static bool place_proposal(const struct placement_problem *problem, struct scored *scored,
                           struct table_placement *placement, uint64_t *rating, struct error *error)
{
    placement_loads_reset(&scored->loads, problem);
    for (uint32_t i = 0; i < problem->members; i++)
        scored->sums[i] = 0;
    size_t count = 0;
    for (uint32_t t = 0; t < problem->tables; t++) {
        const struct table_way *way = placement_way(problem, t, placement->way[t]);
        placement_add_table(&scored->loads, way);
        if (is_uniform(way))
            place_uniform(problem, scored, t, placement);
        for (uint32_t j = 0; !is_uniform(way) && j < way->parts; j++)
            scored->shards[count++] = (struct shard){ score_of(problem, way), way->bytes, t, j };
    }
    if (!place_shards(problem, scored, count, placement, error)
        || !placement_fits(problem, &scored->loads, error))
        return false;
    *rating = 0;
    for (uint32_t i = 0; i < problem->members; i++)
        *rating = max_u64(*rating, scored->sums[i]);
    return true;
}

static bool have_options(const struct placement_problem *problem, const struct proposals *proposals,
                         struct error *error)
{
    for (uint32_t t = 0; t < problem->tables; t++)
        if (proposals->count[t] == 0)
            return error_set_kind(error, ERROR_ANSWER, "table \"%s\" fits in none of its ways",
                                  problem->set->tables[t].name);
    return true;
}

static bool place_best_proposal(const struct placement_problem *problem, const struct proposals *proposals,
                                struct scored *scored, struct table_placement *trial, struct table_placement *best,
                                struct error *error)
{
    uint64_t least = UINT64_MAX, rating;
    do {
        struct error why = { 0 };
        for (uint32_t t = 0; t < problem->tables; t++)
            trial->way[t] = proposals->options[(size_t)t * TABLE_MOST_WAYS + proposals->position[t]];
        if (!place_proposal(problem, scored, trial, &rating, &why))
            continue;
        if (rating < least)
            table_placement_copy(problem, best, trial);
        least = rating < least ? rating : least;
    } while (propose_next(problem, proposals));
    return least < UINT64_MAX || error_set_kind(error, ERROR_ANSWER, "none of its proposals fits");
}

static bool place_torchrec(const struct placement_problem *problem, struct table_placement *placement,
                           struct error *error)
{
    struct scored scored;
    if (!scored_open(&scored, problem, error))
        return false;
    const struct proposals proposals = {
        .options = arrays_add(&scored.arrays, (size_t)problem->tables * TABLE_MOST_WAYS, sizeof(uint32_t)),
        .count = arrays_add(&scored.arrays, problem->tables, sizeof(uint32_t)),
        .position = arrays_add(&scored.arrays, problem->tables, sizeof(uint32_t)),
    };
    struct table_placement trial = table_placement_create(problem, &scored.arrays);
    bool good = !scored.arrays.failed || error_no_memory(error, "tables placed by a rule");
    if (good)
        list_options(problem, &proposals);
    good = good && have_options(problem, &proposals, error)
        && place_best_proposal(problem, &proposals, &scored, &trial, placement, error);
    arrays_clear(&scored.arrays);
    return good;
}

// --- all of them ------------------------------------------------------------------------------

bool table_rule_place(const struct placement_problem *problem, enum table_rule rule, struct table_placement *placement,
                      struct placement_cost *cost, struct error *error)
{
    static bool (*const rules[])(const struct placement_problem *, struct table_placement *, struct error *) = {
        place_rows, place_slots, place_longest_first, place_torchrec,
    };
    struct arrays arrays = { 0 };
    if (!rules[rule](problem, placement, error))
        return false;
    struct placement_loads loads = placement_loads_create(problem, &arrays);
    if (arrays.failed)
        return error_no_memory(error, "tables placed by a rule");
    placement_sum(problem, placement, &loads);
    const bool good = placement_fits(problem, &loads, error);
    *cost = placement_cost(problem, &loads);
    arrays_clear(&arrays);
    return good;
}
