#include "partitioner/tables/table_placement.h"

#include <string.h>

#include "common/number.h"

const char *const table_optimizer_names[] = { "sgd", "adagrad", "adagrad-rows", "adam-rows", NULL };
const char *const table_kind_names[] = { "whole", "rows", "columns", "copied", "host", NULL };

// --- times --------------------------------------------------------------------------------

static uint64_t clamp(unsigned __int128 number)
{
    return number > UINT64_MAX ? UINT64_MAX : (uint64_t)number;
}

static uint64_t divide_up(uint64_t number, uint64_t by)
{
    return number / by + (number % by > 0);
}

// The time in ps of bytes on a link; a rate of 0 costs nothing.
static uint64_t bytes_ps(unsigned __int128 bytes, uint64_t bytes_per_second)
{
    if (bytes_per_second == 0)
        return 0;
    if (bytes > UINT64_MAX)
        return UINT64_MAX;
    return clamp((bytes * 1000000000000u + bytes_per_second - 1) / bytes_per_second);
}

uint64_t placement_member_ps(const struct placement_problem *problem, uint32_t member, uint64_t read_ps)
{
    const uint64_t speed = problem->cluster->devices[member].speed_permille;
    return speed == 1000 ? read_ps : clamp(((unsigned __int128)read_ps * 1000 + speed - 1) / speed);
}

uint64_t placement_level_ps(const struct placement_problem *problem, uint32_t level, uint64_t width_bytes,
                            uint64_t gathered_bytes)
{
    const struct placement_level *links = &problem->levels[level];
    if (links->peers == 0)
        return 0;
    uint64_t ps = 0;
    if (width_bytes > 0) {
        const unsigned __int128 bytes = (unsigned __int128)problem->share * links->peers * width_bytes;
        ps = multiply_clamped(2 * problem->set->micro_batches,
                              add_clamped(links->latency_ps, bytes_ps(bytes, links->bytes_per_second)));
    }
    if (gathered_bytes > 0) {
        const unsigned __int128 bytes = (unsigned __int128)gathered_bytes * links->unit_size * links->peers;
        ps = add_clamped(ps, add_clamped(links->latency_ps, bytes_ps(bytes, links->bytes_per_second)));
    }
    return ps;
}

uint64_t placement_host_ps(const struct placement_problem *problem, uint64_t moved_bytes)
{
    return moved_bytes > 0 ? bytes_ps(moved_bytes, problem->cluster->host_bytes_per_second) : 0;
}

// --- ways ---------------------------------------------------------------------------------

static uint64_t state_bytes(enum table_optimizer optimizer, uint64_t width_bytes)
{
    switch (optimizer) {
    case TABLE_SGD: return 0;
    case TABLE_ADAGRAD: return width_bytes;
    case TABLE_ADAGRAD_ROWS: return 4;
    case TABLE_ADAM_ROWS: return 2 * width_bytes;
    }
    return 0;
}

enum { ROW_NUMBER_BYTES = 4 };  // of a row in a list of gradients

// A piece: its rows, of how many bytes, and what it reads.
struct piece {
    uint64_t rows, width_bytes;
    uint64_t ids;      // of a micro-batch
    uint64_t unique;   // of an iteration
    uint64_t touched;  // rows for whose gradients there is room
};

static uint64_t time_of(const struct placement_problem *problem, const struct piece *piece)
{
    const struct table_set *set = problem->set;
    const uint64_t table_bytes = piece->rows * piece->width_bytes;
    const uint64_t forward = table_read_ps(set, table_bytes, piece->ids, piece->width_bytes);
    const uint64_t update = table_read_ps(set, table_bytes, 2 * piece->unique,
                                          piece->width_bytes + state_bytes(problem->optimizer, piece->width_bytes));
    return add_clamped(multiply_clamped(set->micro_batches, forward), update);
}

static uint64_t memory_of(const struct placement_problem *problem, const struct piece *piece)
{
    const uint64_t tables = round_to_256(piece->rows * piece->width_bytes)
                          + round_to_256(piece->rows * state_bytes(problem->optimizer, piece->width_bytes));
    return add_clamped(tables, round_to_256(multiply_clamped(piece->touched, piece->width_bytes + ROW_NUMBER_BYTES)));
}

// The table cut into so many parts, by rows and by columns.
static struct piece piece_of(const struct placement_problem *problem, uint32_t t, uint32_t rows_by, uint32_t columns_by)
{
    const struct table_set *set = problem->set;
    const struct table *table = &set->tables[t];
    struct piece piece = {
        .rows = divide_up(table->rows, rows_by),
        .width_bytes = set->columns / columns_by * set->number_bytes,
        .ids = divide_up(table_ids(set, table), rows_by),
        .unique = divide_up(table->unique, rows_by),
    };
    const uint64_t ids = multiply_clamped(set->micro_batches, table_ids_p95(set, table));
    piece.touched = min_u64(piece.rows, max_u64(divide_up(ids, rows_by), piece.unique));
    return piece;
}

static struct table_way way_of_pieces(const struct placement_problem *problem, enum table_kind kind, uint32_t parts,
                                      const struct piece *piece)
{
    const uint64_t sent = round_to_256(problem->set->batch * piece->width_bytes);
    return (struct table_way){
        .kind = kind,
        .parts = parts,
        .read_ps = time_of(problem, piece),
        .bytes = add_clamped(memory_of(problem, piece), sent),
        .width_bytes = piece->width_bytes,
        .received_bytes = parts * round_to_256(problem->share * piece->width_bytes),
    };
}

// Each member reads its own samples' rows, and updates all rows.
static struct table_way copied_way(const struct placement_problem *problem, uint32_t t)
{
    struct piece piece = piece_of(problem, t, 1, 1);
    const uint64_t micro_batches = problem->set->micro_batches;
    piece.ids = divide_up(piece.ids, problem->members);
    const uint64_t sent_rows = min_u64(piece.unique, multiply_clamped(micro_batches, piece.ids));
    return (struct table_way){
        .kind = TABLE_COPIED,
        .parts = problem->members,
        .read_ps = time_of(problem, &piece),
        .bytes = memory_of(problem, &piece),
        .received_bytes = round_to_256(problem->share * piece.width_bytes),
        .gathered_bytes = problem->members > 1 ? sent_rows * (piece.width_bytes + ROW_NUMBER_BYTES) : 0,
    };
}

uint64_t placement_host_rows(const struct placement_problem *problem, uint32_t table)
{
    return min_u64(problem->set->tables[table].rows, 2 * problem->set->tables[table].unique);
}

static struct table_way host_way(const struct placement_problem *problem, uint32_t t)
{
    struct piece piece = piece_of(problem, t, 1, 1);
    const uint64_t row_bytes = piece.width_bytes + state_bytes(problem->optimizer, piece.width_bytes);
    const uint64_t held = piece.rows * row_bytes;
    piece.rows = placement_host_rows(problem, t);
    struct table_way way = way_of_pieces(problem, TABLE_HOST, 1, &piece);
    way.moved_bytes = 2 * piece.unique * row_bytes;
    way.held_bytes = held;
    return way;
}

// What a member has for tables: without what is dense, and what every placement receives.
static uint64_t room_of(const struct placement_problem *problem, uint32_t member)
{
    const uint64_t bytes = problem->cluster->devices[member].memory_bytes;
    return bytes > problem->set->dense_bytes ? bytes - problem->set->dense_bytes : 0;
}

// The most that anything here may add up to for a table, in bytes: with 4,096 tables, sums stay within 64 bits.
#define MOST_BYTES ((uint64_t)1 << 50)

static bool fits_somewhere(const struct placement_problem *problem, const struct table_way *way)
{
    if (add_clamped(way->bytes, way->received_bytes) > MOST_BYTES || way->gathered_bytes > MOST_BYTES
        || way->moved_bytes > MOST_BYTES)
        return false;
    uint32_t members = 0;
    for (uint32_t i = 0; i < problem->members; i++)
        members += add_clamped(way->bytes, way->received_bytes) <= room_of(problem, i);
    return members >= way->parts && way->held_bytes <= problem->cluster->host_memory_bytes;
}

static void add_way(struct placement_problem *problem, uint32_t t, struct table_way way)
{
    if (fits_somewhere(problem, &way))
        problem->ways[(size_t)t * TABLE_MOST_WAYS + problem->way_count[t]++] = way;
}

// 2, 4, 8, .., and all members.
static uint32_t next_parts(uint32_t parts, uint32_t members)
{
    return 2 * parts < members ? 2 * parts : parts < members ? members : members + 1;
}

static void add_ways(struct placement_problem *problem, uint32_t t)
{
    const struct table_set *set = problem->set;
    const uint32_t members = problem->members;
    struct piece piece = piece_of(problem, t, 1, 1);
    add_way(problem, t, way_of_pieces(problem, TABLE_WHOLE, 1, &piece));
    for (uint32_t parts = 2; parts <= members && members > 1; parts = next_parts(parts, members)) {
        piece = piece_of(problem, t, parts, 1);
        if (parts <= set->tables[t].rows)
            add_way(problem, t, way_of_pieces(problem, TABLE_ROWS, parts, &piece));
        piece = piece_of(problem, t, 1, parts);
        if (set->columns % parts == 0 && problem->optimizer != TABLE_ADAGRAD_ROWS)
            add_way(problem, t, way_of_pieces(problem, TABLE_COLUMNS, parts, &piece));
    }
    if (members > 1)
        add_way(problem, t, copied_way(problem, t));
    if (problem->cluster->has_host)
        add_way(problem, t, host_way(problem, t));
}

static void find_levels(struct placement_problem *problem)
{
    const struct cluster *cluster = problem->cluster;
    uint32_t unit_size = 1;
    problem->level_count = (uint32_t)cluster->level_count;
    for (uint32_t l = 0; l < problem->level_count; l++) {
        const struct cluster_level *level = &cluster->levels[l];
        problem->levels[l] = (struct placement_level){
            .units = problem->members / unit_size,
            .unit_size = unit_size,
            .peers = (uint32_t)(level->size - 1) * unit_size,
            .latency_ps = multiply_clamped(level->latency_ns, 1000),
            .bytes_per_second = level->bytes_per_second,
        };
        unit_size *= (uint32_t)level->size;
    }
}

static void find_machines(struct placement_problem *problem)
{
    problem->machines = 1;
    for (uint32_t i = 0; i < problem->members && problem->level_count > 0; i++) {
        problem->machine_of[i] = (uint32_t)cluster_group(problem->cluster, 0, i);
        problem->machines = max_u32(problem->machines, problem->machine_of[i] + 1);
    }
}

static bool have_ways(const struct placement_problem *problem, struct error *error)
{
    char size[NUMBER_SIZE];
    for (uint32_t t = 0; t < problem->tables; t++) {
        const struct table *table = &problem->set->tables[t];
        if (problem->way_count[t] == 0)
            return error_set_kind(error, ERROR_ANSWER, "table \"%s\" of %s fits in no way: not even a piece of it fits"
                                  " beside what is dense and what a micro-batch sends and receives", table->name,
                                  bytes_format(table->rows * problem->set->columns * problem->set->number_bytes, size));
    }
    return true;
}

// Sums of times on a member stay within what documents can hold.
static bool are_times_small(const struct placement_problem *problem, struct error *error)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < problem->tables; t++) {
        uint64_t most = 0;
        for (uint32_t w = 0; w < problem->way_count[t]; w++)
            most = max_u64(most, placement_way(problem, t, w)->read_ps);
        sum = add_clamped(sum, most);
    }
    return sum <= (uint64_t)1 << 52
        || error_set(error, "the reads of an iteration would take a device more than an hour");
}

bool placement_open(struct placement_problem *problem, const struct table_set *set, const struct cluster *cluster,
                    enum table_optimizer optimizer, struct error *error)
{
    *problem = (struct placement_problem){ .set = set, .cluster = cluster, .optimizer = optimizer };
    if (cluster->device_count > PLACEMENT_MOST_MEMBERS)
        return error_set(error, "tables are placed on at most %d devices, and the cluster has %zu",
                         PLACEMENT_MOST_MEMBERS, cluster->device_count);
    problem->tables = (uint32_t)set->table_count;
    problem->members = (uint32_t)cluster->device_count;
    problem->share = divide_up(set->batch, problem->members);
    problem->machine_of = arrays_add(&problem->arrays, problem->members, sizeof problem->machine_of[0]);
    problem->way_count = arrays_add(&problem->arrays, problem->tables, sizeof problem->way_count[0]);
    problem->ways = arrays_add(&problem->arrays, problem->tables, TABLE_MOST_WAYS * sizeof problem->ways[0]);
    if (problem->arrays.failed) {
        placement_close(problem);
        return error_no_memory(error, "a placement of tables");
    }
    find_levels(problem);
    find_machines(problem);
    for (uint32_t t = 0; t < problem->tables; t++)
        add_ways(problem, t);
    if (have_ways(problem, error) && are_times_small(problem, error))
        return true;
    placement_close(problem);
    return false;
}

void placement_close(struct placement_problem *problem)
{
    arrays_clear(&problem->arrays);
    *problem = (struct placement_problem){ 0 };
}

uint32_t placement_find_way(const struct placement_problem *problem, uint32_t table, enum table_kind kind,
                            uint32_t parts)
{
    uint32_t w = 0;
    while (w < problem->way_count[table] && (placement_way(problem, table, w)->kind != kind
                                             || placement_way(problem, table, w)->parts != parts))
        w++;
    return w;
}

// --- placements ---------------------------------------------------------------------------

struct table_placement table_placement_create(const struct placement_problem *problem, struct arrays *arrays)
{
    return (struct table_placement){
        .way = arrays_add(arrays, problem->tables, sizeof(uint32_t)),
        .member = arrays_add(arrays, (size_t)problem->tables * problem->members, sizeof(uint32_t)),
    };
}

void table_placement_copy(const struct placement_problem *problem, struct table_placement *to,
                          const struct table_placement *from)
{
    memcpy(to->way, from->way, problem->tables * sizeof to->way[0]);
    memcpy(to->member, from->member, (size_t)problem->tables * problem->members * sizeof to->member[0]);
}

// --- loads --------------------------------------------------------------------------------

// The numbers of all its arrays, which are one block.
static size_t count_loads(const struct placement_problem *problem)
{
    return (size_t)problem->members * (problem->level_count + 3) + 2 * problem->machines;
}

struct placement_loads placement_loads_create(const struct placement_problem *problem, struct arrays *arrays)
{
    const size_t members = problem->members;
    struct placement_loads loads = { .read_ps = arrays_add(arrays, count_loads(problem), sizeof loads.read_ps[0]) };
    if (!loads.read_ps)
        return loads;
    loads.bytes = loads.read_ps + members;
    loads.width_bytes = loads.bytes + members;
    loads.moved_bytes = loads.width_bytes + members * (problem->level_count + 1);
    loads.held_bytes = loads.moved_bytes + problem->machines;
    return loads;
}

void placement_loads_reset(struct placement_loads *loads, const struct placement_problem *problem)
{
    memset(loads->read_ps, 0, count_loads(problem) * sizeof loads->read_ps[0]);
    loads->received_bytes = loads->gathered_bytes = 0;
}

// Sums are taken modulo 2^64, so that a piece can be dropped again; the reader's limits keep them far below that.
static void change(const struct placement_problem *problem, struct placement_loads *loads, const struct table_way *way,
                   uint32_t member, uint64_t sign)
{
    loads->read_ps[member] += sign * way->read_ps;
    loads->bytes[member] += sign * way->bytes;
    for (uint32_t l = 0; l < problem->level_count; l++)
        loads->width_bytes[l * problem->members + member / problem->levels[l].unit_size] += sign * way->width_bytes;
    loads->moved_bytes[problem->machine_of[member]] += sign * way->moved_bytes;
    loads->held_bytes[problem->machine_of[member]] += sign * way->held_bytes;
}

void placement_add_piece(const struct placement_problem *problem, struct placement_loads *loads,
                         const struct table_way *way, uint32_t member)
{
    change(problem, loads, way, member, 1);
}

void placement_drop_piece(const struct placement_problem *problem, struct placement_loads *loads,
                          const struct table_way *way, uint32_t member)
{
    change(problem, loads, way, member, UINT64_MAX);
}

void placement_add_table(struct placement_loads *loads, const struct table_way *way)
{
    loads->received_bytes += way->received_bytes;
    loads->gathered_bytes += way->gathered_bytes;
}

void placement_sum(const struct placement_problem *problem, const struct table_placement *placement,
                   struct placement_loads *loads)
{
    placement_loads_reset(loads, problem);
    for (uint32_t t = 0; t < problem->tables; t++) {
        const struct table_way *way = placement_way(problem, t, placement->way[t]);
        placement_add_table(loads, way);
        for (uint32_t j = 0; j < way->parts; j++)
            placement_add_piece(problem, loads, way, placement->member[(size_t)t * problem->members + j]);
    }
}

// --- cost ---------------------------------------------------------------------------------

static void find_slowest_link(const struct placement_problem *problem, const struct placement_loads *loads,
                              struct placement_cost *cost)
{
    for (uint32_t l = 0; l < problem->level_count; l++) {
        const uint64_t *widths = &loads->width_bytes[l * problem->members];
        uint32_t busiest = 0;
        for (uint32_t unit = 1; unit < problem->levels[l].units; unit++)
            busiest = widths[unit] > widths[busiest] ? unit : busiest;
        const uint64_t ps = placement_level_ps(problem, l, widths[busiest], loads->gathered_bytes);
        if (ps > cost->link_ps) {
            cost->link_ps = ps;
            cost->link = LINK_LEVEL;
            cost->level = l;
            cost->unit = busiest;
        }
    }
    for (uint32_t machine = 0; machine < problem->machines; machine++) {
        const uint64_t ps = placement_host_ps(problem, loads->moved_bytes[machine]);
        if (ps > cost->link_ps) {
            cost->link_ps = ps;
            cost->link = LINK_HOST;
            cost->unit = machine;
        }
    }
}

struct placement_cost placement_cost(const struct placement_problem *problem, const struct placement_loads *loads)
{
    struct placement_cost cost = { 0 };
    for (uint32_t i = 0; i < problem->members; i++) {
        const uint64_t ps = placement_member_ps(problem, i, loads->read_ps[i]);
        if (ps > cost.read_ps) {
            cost.read_ps = ps;
            cost.slowest = i;
        }
    }
    find_slowest_link(problem, loads, &cost);
    return cost;
}

uint64_t placement_total_ps(const struct placement_cost *cost)
{
    return add_clamped(cost->read_ps, cost->link_ps);
}

uint64_t placement_member_bytes(const struct placement_problem *problem, const struct placement_loads *loads,
                                uint32_t member)
{
    return add_clamped(problem->set->dense_bytes, loads->bytes[member] + loads->received_bytes);
}

// The first member whose memory is too small; `members` if there is none.
static uint32_t overfull_member(const struct placement_problem *problem, const struct placement_loads *loads)
{
    uint32_t i = 0;
    while (i < problem->members
           && placement_member_bytes(problem, loads, i) <= problem->cluster->devices[i].memory_bytes)
        i++;
    return i;
}

static uint32_t overfull_machine(const struct placement_problem *problem, const struct placement_loads *loads)
{
    uint32_t m = 0;
    while (m < problem->machines && loads->held_bytes[m] <= problem->cluster->host_memory_bytes)
        m++;
    return m;
}

bool placement_has_room(const struct placement_problem *problem, const struct placement_loads *loads)
{
    return overfull_member(problem, loads) == problem->members && overfull_machine(problem, loads) == problem->machines;
}

bool placement_fits(const struct placement_problem *problem, const struct placement_loads *loads, struct error *error)
{
    char has[NUMBER_SIZE], holds[NUMBER_SIZE];
    const uint32_t member = overfull_member(problem, loads), machine = overfull_machine(problem, loads);
    if (member < problem->members)
        return error_set_kind(error, ERROR_ANSWER, "member %u would hold %s and has %s", member,
                              bytes_format(placement_member_bytes(problem, loads, member), holds),
                              bytes_format(problem->cluster->devices[member].memory_bytes, has));
    if (machine < problem->machines)
        return error_set_kind(error, ERROR_ANSWER, "the host of machine %u would hold %s and has %s", machine,
                              bytes_format(loads->held_bytes[machine], holds),
                              bytes_format(problem->cluster->host_memory_bytes, has));
    return true;
}
