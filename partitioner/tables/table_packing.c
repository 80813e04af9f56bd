#include "partitioner/tables/table_packing.h"

#include "common/number.h"

// A table that is decided, or every member's.
struct decided {
    const struct table_way *way;
    double largest;  // part of a member that its piece fills
};

struct packer {
    const struct placement_problem *problem;
    const struct placement_part *part;
    uint64_t limit_ps, steps;
    struct placement_loads loads;
    struct decided *tables;
    uint32_t count;
};

// --- what is decided ------------------------------------------------------------------------------

// The only way of a table that is left; NULL if there are more.
static const struct table_way *only_way(const struct packer *packer, uint32_t t)
{
    const struct table_way *only = NULL;
    for (uint32_t w = 0; w < packer->problem->way_count[t]; w++) {
        if (!placement_part_admits(packer->problem, packer->part, t, w))
            continue;
        if (only)
            return NULL;
        only = placement_way(packer->problem, t, w);
    }
    return only;
}

// What a table takes of every member in each of its ways: zeros, unless all its ways are on all members.
static struct table_way least_everywhere(const struct packer *packer, uint32_t t)
{
    const uint64_t most = UINT64_MAX;
    struct table_way least = { .read_ps = most, .bytes = most, .width_bytes = most, .received_bytes = most,
                               .moved_bytes = most, .held_bytes = most };
    for (uint32_t w = 0; w < packer->problem->way_count[t]; w++) {
        if (!placement_part_admits(packer->problem, packer->part, t, w))
            continue;
        const struct table_way *way = placement_way(packer->problem, t, w);
        const bool is_everywhere = way->parts == packer->problem->members;
        least.read_ps = min_u64(least.read_ps, is_everywhere ? way->read_ps : 0);
        least.bytes = min_u64(least.bytes, is_everywhere ? way->bytes : 0);
        least.width_bytes = min_u64(least.width_bytes, is_everywhere ? way->width_bytes : 0);
        least.moved_bytes = min_u64(least.moved_bytes, is_everywhere ? way->moved_bytes : 0);
        least.held_bytes = min_u64(least.held_bytes, is_everywhere ? way->held_bytes : 0);
        least.received_bytes = min_u64(least.received_bytes, way->received_bytes);
    }
    return least;
}

static double share_of(uint64_t number, uint64_t capacity)
{
    return capacity > 0 ? (double)number / (double)capacity : number > 0;
}

static void add_decided(struct packer *packer, const struct table_way *way)
{
    const struct placement_part *part = packer->part;
    const struct placement_problem *problem = packer->problem;
    double largest = share_of(way->bytes, problem->cluster->devices[0].memory_bytes);
    const double reads = share_of(way->read_ps, part->read_most);
    const double width = problem->level_count > 0 ? share_of(way->width_bytes, part->width_most[0]) : 0;
    largest = reads > largest ? reads : largest;
    largest = width > largest ? width : largest;
    uint32_t place = packer->count++;
    for (; place > 0 && packer->tables[place - 1].largest < largest; place--)
        packer->tables[place] = packer->tables[place - 1];
    packer->tables[place] = (struct decided){ way, largest };
}

static void gather(struct packer *packer)
{
    const struct placement_problem *problem = packer->problem;
    placement_loads_reset(&packer->loads, problem);
    for (uint32_t t = 0; t < problem->tables; t++) {
        const struct table_way *only = only_way(packer, t), least = least_everywhere(packer, t);
        if (only && only->parts < problem->members) {
            add_decided(packer, only);
            packer->loads.received_bytes += only->received_bytes;
            continue;
        }
        packer->loads.received_bytes += least.received_bytes;
        for (uint32_t i = 0; i < problem->members; i++)
            placement_add_piece(problem, &packer->loads, &least, i);
    }
}

// --- placing --------------------------------------------------------------------------------------

// Whether what is on a member and its units is still within the part.
static bool is_within(const struct packer *packer, uint32_t member)
{
    const struct placement_problem *problem = packer->problem;
    const struct placement_loads *loads = &packer->loads;
    const uint64_t reads = placement_member_ps(problem, member, loads->read_ps[member]);
    if (reads > packer->part->read_most
        || placement_member_bytes(problem, loads, member) > problem->cluster->devices[member].memory_bytes
        || loads->held_bytes[problem->machine_of[member]] > problem->cluster->host_memory_bytes)
        return false;
    for (uint32_t l = 0; l < problem->level_count; l++)
        if (loads->width_bytes[l * problem->members + member / problem->levels[l].unit_size]
            > packer->part->width_most[l])
            return false;
    return true;
}

// Whether two members can change places: their devices, what they hold, and what all their units hold are the same.
static bool are_alike(const struct packer *packer, uint32_t a, uint32_t b)
{
    const struct placement_problem *problem = packer->problem;
    const struct placement_loads *loads = &packer->loads;
    const struct cluster_device *devices = problem->cluster->devices;
    if (devices[a].memory_bytes != devices[b].memory_bytes || devices[a].speed_permille != devices[b].speed_permille
        || loads->read_ps[a] != loads->read_ps[b] || loads->bytes[a] != loads->bytes[b]
        || problem->machine_of[a] != problem->machine_of[b])
        return false;
    for (uint32_t l = 0; l < problem->level_count; l++) {
        const uint32_t size = problem->levels[l].unit_size;
        if (l == 0 ? loads->width_bytes[a] != loads->width_bytes[b] : a / size != b / size)
            return false;
    }
    return true;
}

static bool costs_less(const struct packer *packer)
{
    const struct placement_cost cost = placement_cost(packer->problem, &packer->loads);
    return placement_total_ps(&cost) < packer->limit_ps;
}

// Places piece number `piece` of the table, on members from `first` on, and all that comes after it. A member that is
// like one that was tried and lies before it, and holds no piece of the table, is not tried.
static bool place(struct packer *packer, uint32_t number, uint32_t piece, uint32_t first)
{
    const struct placement_problem *problem = packer->problem;
    if (number == packer->count)
        return true;
    const struct table_way *way = packer->tables[number].way;
    if (piece == way->parts)
        return place(packer, number + 1, 0, 0);
    for (uint32_t i = first; i + way->parts - piece <= problem->members && packer->steps > 0; i++) {
        bool is_tried = false;
        for (uint32_t before = first; before < i && !is_tried; before++)
            is_tried = are_alike(packer, before, i);
        if (is_tried)
            continue;
        packer->steps--;
        placement_add_piece(problem, &packer->loads, way, i);
        if (is_within(packer, i) && costs_less(packer) && place(packer, number, piece + 1, i + 1))
            return true;
        placement_drop_piece(problem, &packer->loads, way, i);
    }
    return false;
}

enum packing table_packing_try(const struct placement_problem *problem, const struct placement_part *part,
                               uint64_t limit_ps, uint64_t most_steps, struct error *error)
{
    struct packer packer = { .problem = problem, .part = part, .limit_ps = limit_ps, .steps = most_steps };
    struct arrays arrays = { 0 };
    packer.tables = arrays_add(&arrays, problem->tables, sizeof packer.tables[0]);
    packer.loads = placement_loads_create(problem, &arrays);
    if (arrays.failed) {
        arrays_clear(&arrays);
        error_no_memory(error, "a bound on tables' places");
        return PACKING_UNKNOWN;
    }
    gather(&packer);
    bool fits = costs_less(&packer);
    for (uint32_t i = 0; i < problem->members; i++)
        fits = fits && is_within(&packer, i);
    fits = fits && place(&packer, 0, 0, 0);
    const enum packing packing = fits ? PACKING_FITS : packer.steps == 0 ? PACKING_UNKNOWN : PACKING_NONE;
    arrays_clear(&arrays);
    return packing;
}
