#include "partitioner/tables/table_search.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/random.h"

// --- life -----------------------------------------------------------------------------------

static int compare_ranks(const void *a, const void *b)
{
    const struct ranked_table *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    return (x->table > y->table) - (x->table < y->table);
}

// What a width takes on a level, without latency; in fixed point, since it is asked for each piece and member.
static uint64_t width_ps(const struct table_search *search, uint32_t level, uint64_t width_bytes)
{
    const unsigned __int128 ps = (unsigned __int128)width_bytes * search->link_ps_per_mib[level] >> 20;
    return ps > UINT64_MAX ? UINT64_MAX : (uint64_t)ps;
}

static void prepare(struct table_search *search)
{
    const struct placement_problem *problem = search->problem;
    for (uint32_t l = 0; l < problem->level_count; l++)
        search->link_ps_per_mib[l] =
            placement_level_ps(problem, l, 1 << 20, 0) - placement_level_ps(problem, l, 1, 0);
    for (uint32_t t = 0; t < problem->tables; t++)
        search->by_reads[t] = (struct ranked_table){ placement_way(problem, t, 0)->read_ps, t };
    qsort(search->by_reads, problem->tables, sizeof search->by_reads[0], compare_ranks);
}

bool table_search_open(struct table_search *search, const struct placement_problem *problem, uint64_t budget,
                       struct error *error)
{
    *search = (struct table_search){ .problem = problem, .budget = budget, .best_ps = PLACEMENT_NONE,
                                     .pinned = UINT32_MAX };
    struct arrays *arrays = &search->arrays;
    search->ranking = arrays_add(arrays, problem->tables, sizeof search->ranking[0]);
    search->by_reads = arrays_add(arrays, problem->tables, sizeof search->by_reads[0]);
    search->link_ps_per_mib = arrays_add(arrays, problem->level_count + 1, sizeof search->link_ps_per_mib[0]);
    search->ways = arrays_add(arrays, problem->tables, sizeof search->ways[0]);
    search->best = table_placement_create(problem, arrays);
    search->trial = table_placement_create(problem, arrays);
    search->kept = table_placement_create(problem, arrays);
    search->loads = placement_loads_create(problem, arrays);
    if (arrays->failed) {
        table_search_close(search);
        return error_no_memory(error, "a search for tables' places");
    }
    prepare(search);
    return true;
}

void table_search_close(struct table_search *search)
{
    arrays_clear(&search->arrays);
    *search = (struct table_search){ 0 };
}

static void spend(struct table_search *search, uint64_t work)
{
    search->budget = search->budget > work ? search->budget - work : 0;
}

static void keep_best(struct table_search *search, const struct table_placement *placement, uint64_t ps)
{
    if (ps >= search->best_ps)
        return;
    search->best_ps = ps;
    table_placement_copy(search->problem, &search->best, placement);
}

void table_search_offer(struct table_search *search, const struct table_placement *placement)
{
    placement_sum(search->problem, placement, &search->loads);
    if (!placement_has_room(search->problem, &search->loads))
        return;
    const struct placement_cost cost = placement_cost(search->problem, &search->loads);
    keep_best(search, placement, placement_total_ps(&cost));
}

// --- longest first --------------------------------------------------------------------------

enum order { BY_READS, BY_READS_AND_LINK, BY_BYTES, ORDERS };

// What the members have at least to do, whatever is placed where: an even share, or the largest piece.
struct floors {
    uint64_t read_ps, link_ps;
};

// The time of the links that a member shares, for a width more on it.
static uint64_t links_ps(const struct table_search *search, uint32_t member, uint64_t width_bytes)
{
    const struct placement_problem *problem = search->problem;
    uint64_t most = 0;
    for (uint32_t l = 0; l < problem->level_count; l++) {
        const uint32_t unit = member / problem->levels[l].unit_size;
        const uint64_t ps = width_ps(search, l, search->loads.width_bytes[l * problem->members + unit] + width_bytes);
        most = max_u64(most, ps);
    }
    return most;
}

static uint64_t key_of(const struct table_search *search, const struct table_way *way, enum order order)
{
    if (order == BY_BYTES)
        return way->bytes;
    uint64_t link = 0;
    for (uint32_t l = 0; l < search->problem->level_count && order == BY_READS_AND_LINK; l++)
        link = max_u64(link, width_ps(search, l, way->width_bytes));
    return add_clamped(way->read_ps, link);
}

// Orders the tables; copied ones come first, since nothing is chosen for them.
static struct floors rank(struct table_search *search, const uint32_t *ways, enum order order)
{
    const struct placement_problem *problem = search->problem;
    uint64_t reads = 0, width = 0, largest = 0;
    for (uint32_t t = 0; t < problem->tables; t++) {
        const struct table_way *way = placement_way(problem, t, ways[t]);
        const uint64_t key = way->kind == TABLE_COPIED ? UINT64_MAX : key_of(search, way, order);
        search->ranking[t] = (struct ranked_table){ key, t };
        reads += way->parts * way->read_ps;
        width += way->parts * way->width_bytes;
        largest = max_u64(largest, way->read_ps);
    }
    qsort(search->ranking, problem->tables, sizeof search->ranking[0], compare_ranks);
    struct floors floors = { max_u64(largest, reads / problem->members), 0 };
    for (uint32_t l = 0; l < problem->level_count; l++)
        floors.link_ps = max_u64(floors.link_ps, width_ps(search, l, width / problem->levels[l].units));
    return floors;
}

static bool has_room(const struct table_search *search, const struct table_way *way, uint32_t member)
{
    const struct placement_problem *problem = search->problem;
    const struct placement_loads *loads = &search->loads;
    return placement_member_bytes(problem, loads, member) + way->bytes
               <= problem->cluster->devices[member].memory_bytes
        && loads->held_bytes[problem->machine_of[member]] + way->held_bytes <= problem->cluster->host_memory_bytes;
}

static bool holds_piece(const uint32_t *members, uint32_t pieces, uint32_t member)
{
    for (uint32_t j = 0; j < pieces; j++)
        if (members[j] == member)
            return true;
    return false;
}

// The member for a piece, on which cost grows least; `members` if there is none with room.
static uint32_t choose_member(const struct table_search *search, const struct table_way *way,
                              const uint32_t *held, uint32_t pieces, const struct floors *floors, enum order order)
{
    const struct placement_problem *problem = search->problem;
    uint32_t best = problem->members;
    uint64_t best_first = UINT64_MAX, best_second = UINT64_MAX;
    for (uint32_t i = 0; i < problem->members; i++) {
        if (!has_room(search, way, i) || holds_piece(held, pieces, i))
            continue;
        const uint64_t read = placement_member_ps(problem, i, search->loads.read_ps[i] + way->read_ps);
        const uint64_t link = way->width_bytes > 0 ? links_ps(search, i, way->width_bytes) : 0;
        uint64_t first = add_clamped(max_u64(read, floors->read_ps), max_u64(link, floors->link_ps));
        uint64_t second = add_clamped(read, link);
        if (order == BY_READS) {
            first = read;
            second = link;
        }
        if (first < best_first || (first == best_first && second < best_second)) {
            best = i;
            best_first = first;
            best_second = second;
        }
    }
    return best;
}

static bool place_table(struct table_search *search, uint32_t t, const struct floors *floors, enum order order)
{
    const struct placement_problem *problem = search->problem;
    const struct table_way *way = placement_way(problem, t, search->trial.way[t]);
    uint32_t *members = &search->trial.member[(size_t)t * problem->members];
    for (uint32_t j = 0; j < way->parts; j++) {
        if (way->kind == TABLE_COPIED)
            members[j] = has_room(search, way, j) ? j : problem->members;
        else
            members[j] = choose_member(search, way, members, j, floors, order);
        if (members[j] == problem->members)
            return false;
        placement_add_piece(problem, &search->loads, way, members[j]);
    }
    spend(search, (uint64_t)way->parts * problem->members + 1);
    return true;
}

// The cost of these ways, placed longest first in an order, in `trial`; PLACEMENT_NONE if they do not fit.
static uint64_t place(struct table_search *search, const uint32_t *ways, enum order order)
{
    const struct placement_problem *problem = search->problem;
    memcpy(search->trial.way, ways, problem->tables * sizeof ways[0]);
    placement_loads_reset(&search->loads, problem);
    for (uint32_t t = 0; t < problem->tables; t++)
        placement_add_table(&search->loads, placement_way(problem, t, ways[t]));
    const struct floors floors = rank(search, ways, order);
    spend(search, problem->tables);
    for (uint32_t rank = 0; rank < problem->tables; rank++)
        if (!place_table(search, search->ranking[rank].table, &floors, order))
            return PLACEMENT_NONE;
    if (!placement_has_room(problem, &search->loads))
        return PLACEMENT_NONE;
    const struct placement_cost cost = placement_cost(problem, &search->loads);
    return placement_total_ps(&cost);
}

// The best of all orders, in `kept` if it is better than `limit_ps`.
static uint64_t place_in_all_orders(struct table_search *search, const uint32_t *ways, uint64_t limit_ps)
{
    for (enum order order = 0; order < ORDERS; order++) {
        const uint64_t ps = place(search, ways, order);
        if (ps < limit_ps) {
            limit_ps = ps;
            table_placement_copy(search->problem, &search->kept, &search->trial);
        }
    }
    return limit_ps;
}

// --- moves of pieces ------------------------------------------------------------------------

// A piece, on the member it is on now.
struct spot {
    uint32_t table, piece;
};

static uint32_t *member_of(const struct table_search *search, struct spot spot)
{
    return &search->kept.member[(size_t)spot.table * search->problem->members + spot.piece];
}

static const struct table_way *way_of(const struct table_search *search, uint32_t t)
{
    return placement_way(search->problem, t, search->kept.way[t]);
}

static bool may_be_on(const struct table_search *search, struct spot spot, uint32_t member)
{
    return !holds_piece(&search->kept.member[(size_t)spot.table * search->problem->members],
                        way_of(search, spot.table)->parts, member);
}

static void shift(struct table_search *search, struct spot spot, uint32_t member)
{
    const struct table_way *way = way_of(search, spot.table);
    placement_drop_piece(search->problem, &search->loads, way, *member_of(search, spot));
    placement_add_piece(search->problem, &search->loads, way, member);
    *member_of(search, spot) = member;
}

// How good a placement is: its cost, and where that is the same, how even its reads are.
struct worth {
    uint64_t ps;
    unsigned __int128 squares;  // of the members' reads
};

static struct worth worth_of(const struct table_search *search)
{
    const struct placement_problem *problem = search->problem;
    const struct placement_cost cost = placement_cost(problem, &search->loads);
    struct worth worth = { placement_total_ps(&cost), 0 };
    for (uint32_t i = 0; i < problem->members; i++) {
        const uint64_t ps = placement_member_ps(problem, i, search->loads.read_ps[i]);
        worth.squares += (unsigned __int128)ps * ps;
    }
    return worth;
}

static bool is_better(struct table_search *search, struct worth *worth)
{
    spend(search, search->problem->members);
    if (!placement_has_room(search->problem, &search->loads))
        return false;
    const struct worth now = worth_of(search);
    if (now.ps > worth->ps || (now.ps == worth->ps && now.squares >= worth->squares))
        return false;
    *worth = now;
    return true;
}

static bool try_move(struct table_search *search, struct spot spot, struct worth *worth)
{
    const uint32_t from = *member_of(search, spot);
    for (uint32_t to = 0; to < search->problem->members; to++) {
        if (!may_be_on(search, spot, to))
            continue;
        shift(search, spot, to);
        if (is_better(search, worth))
            return true;
        shift(search, spot, from);
    }
    return false;
}

static bool try_swap(struct table_search *search, struct spot spot, struct spot other, struct worth *worth)
{
    const uint32_t a = *member_of(search, spot), b = *member_of(search, other);
    if (a == b || spot.table == other.table || !may_be_on(search, spot, b) || !may_be_on(search, other, a))
        return false;
    shift(search, spot, b);
    shift(search, other, a);
    if (is_better(search, worth))
        return true;
    shift(search, spot, a);
    shift(search, other, b);
    return false;
}

static bool try_swaps(struct table_search *search, struct spot spot, struct worth *worth)
{
    for (uint32_t t = 0; t < search->problem->tables && search->budget > 0; t++) {
        const struct table_way *way = way_of(search, t);
        for (uint32_t j = 0; way->kind != TABLE_COPIED && j < way->parts; j++)
            if (try_swap(search, spot, (struct spot){ t, j }, worth))
                return true;
    }
    return false;
}

static bool improve_once(struct table_search *search, struct worth *worth)
{
    bool is_improved = false;
    for (uint32_t t = 0; t < search->problem->tables && search->budget > 0; t++) {
        const struct table_way *way = way_of(search, t);
        for (uint32_t j = 0; way->kind != TABLE_COPIED && j < way->parts; j++)
            is_improved |= try_move(search, (struct spot){ t, j }, worth)
                        || try_swaps(search, (struct spot){ t, j }, worth);
    }
    return is_improved;
}

// Moves pieces of `kept` while that helps.
static uint64_t improve(struct table_search *search)
{
    placement_sum(search->problem, &search->kept, &search->loads);
    struct worth worth = worth_of(search);
    while (search->budget > 0 && improve_once(search, &worth))
        continue;
    return worth.ps;
}

// --- changes of ways ------------------------------------------------------------------------

// Tries all other ways of a table; `ways` gets the first that makes the cost less.
static bool change_way(struct table_search *search, uint32_t *ways, uint32_t t, uint64_t *ps)
{
    const uint32_t before = ways[t];
    for (uint32_t w = 0; w < search->problem->way_count[t] && t != search->pinned && search->budget > 0; w++) {
        if (w == before)
            continue;
        ways[t] = w;
        const uint64_t found = place_in_all_orders(search, ways, *ps);
        if (found < *ps) {
            *ps = found;
            return true;
        }
    }
    ways[t] = before;
    return false;
}

// One table after the other, those that read most first, until none has a better way.
static uint64_t descend(struct table_search *search, uint32_t *ways)
{
    const uint32_t tables = search->problem->tables;
    uint64_t ps = place_in_all_orders(search, ways, PLACEMENT_NONE);
    for (uint32_t unchanged = 0, rank = 0; unchanged < tables && search->budget > 0; rank = (rank + 1) % tables)
        unchanged = change_way(search, ways, search->by_reads[rank].table, &ps) ? 0 : unchanged + 1;
    if (ps == PLACEMENT_NONE)
        return ps;
    // `kept` is the last placement that was better, which is that of these ways.
    ps = improve(search);
    keep_best(search, &search->kept, ps);
    return ps;
}

void table_search_descend(struct table_search *search, const uint32_t *ways)
{
    memcpy(search->ways, ways, search->problem->tables * sizeof ways[0]);
    descend(search, search->ways);
}

// --- starts ---------------------------------------------------------------------------------

// The way of which a table costs all members least, with pieces that read at most so long.
static uint32_t least_way(const struct table_search *search, uint32_t t, uint64_t most_read_ps)
{
    const struct placement_problem *problem = search->problem;
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t w = 0; w < problem->way_count[t]; w++) {
        const struct table_way *way = placement_way(problem, t, w);
        uint64_t ps = multiply_clamped(way->parts, way->read_ps), link = 0;
        for (uint32_t l = 0; l < problem->level_count; l++)
            link = max_u64(link, width_ps(search, l, way->parts * way->width_bytes) / problem->levels[l].unit_size);
        ps = add_clamped(ps, add_clamped(link, placement_host_ps(problem, way->moved_bytes)));
        if (way->read_ps > most_read_ps)  // better than nothing: the shortest
            ps = add_clamped(UINT64_MAX / 2, way->read_ps);
        if (ps < least) {
            least = ps;
            best = w;
        }
    }
    return best;
}

// The way with the smallest pieces, as for a lack of memory.
static uint32_t smallest_way(const struct placement_problem *problem, uint32_t t)
{
    uint32_t best = 0;
    for (uint32_t w = 1; w < problem->way_count[t]; w++)
        if (placement_way(problem, t, w)->bytes < placement_way(problem, t, best)->bytes)
            best = w;
    return best;
}

// All tables copied costs no exchange at all, which bounds (table_bound.h) leave to this start.
static void offer_copied(struct table_search *search)
{
    const struct placement_problem *problem = search->problem;
    for (uint32_t t = 0; t < problem->tables; t++) {
        search->ways[t] = placement_find_way(problem, t, TABLE_COPIED, problem->members);
        if (search->ways[t] == problem->way_count[t])
            return;
    }
    keep_best(search, &search->trial, place(search, search->ways, BY_READS));
}

void table_search_begin(struct table_search *search)
{
    enum { STARTS = 12 };
    const struct placement_problem *problem = search->problem;
    const uint64_t budget = search->budget;
    offer_copied(search);
    for (uint32_t t = 0; t < problem->tables; t++)
        search->ways[t] = smallest_way(problem, t);
    search->budget = budget / 8;
    descend(search, search->ways);
    uint64_t most_read_ps = 0;
    for (uint32_t t = 0; t < problem->tables; t++)
        most_read_ps = max_u64(most_read_ps, placement_way(problem, t, 0)->read_ps);
    for (uint32_t start = 0; start < STARTS; start++, most_read_ps = most_read_ps * 2 / 3) {
        for (uint32_t t = 0; t < problem->tables; t++)
            search->ways[t] = least_way(search, t, most_read_ps);
        search->budget = budget / (2 * STARTS);
        descend(search, search->ways);
    }
    search->budget = budget / 4;
}

void table_search_go_on(struct table_search *search, uint64_t bound_ps)
{
    const struct placement_problem *problem = search->problem;
    uint64_t seed = 1;
    while (search->budget > 0 && search->best_ps > bound_ps && search->best_ps != PLACEMENT_NONE) {
        memcpy(search->ways, search->best.way, problem->tables * sizeof search->ways[0]);
        for (uint64_t changes = 1 + random_below(&seed, 4); changes > 0; changes--) {
            const uint32_t t = (uint32_t)random_below(&seed, problem->tables);
            if (t != search->pinned)
                search->ways[t] = (uint32_t)random_below(&seed, problem->way_count[t]);
        }
        descend(search, search->ways);
        spend(search, 1);
    }
}
