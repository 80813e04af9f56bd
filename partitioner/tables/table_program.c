#include "partitioner/tables/table_program.h"

#include "common/number.h"

// The largest number in a program.
#define MOST_FACTOR ((uint64_t)1 << 53)

static uint64_t largest_speed(const struct placement_problem *problem)
{
    uint64_t largest = 1;
    for (uint32_t i = 0; i < problem->members; i++)
        largest = max_u64(largest, problem->cluster->devices[i].speed_permille);
    return largest;
}

uint64_t placement_quickest_ps(const struct placement_problem *problem, uint64_t read_ps)
{
    return (uint64_t)((unsigned __int128)read_ps * 1000 / largest_speed(problem));
}

bool placement_part_admits(const struct placement_problem *problem, const struct placement_part *part, uint32_t table,
                           uint32_t way)
{
    const struct table_way *w = placement_way(problem, table, way);
    return (part->allowed[table] >> way & 1) && (problem->level_count == 0 || w->width_bytes <= part->width_most[0])
        && placement_quickest_ps(problem, w->read_ps) <= part->read_most;
}

// --- grains -----------------------------------------------------------------------------------

// What proves a bound must fit into 128 bits, and so must the price of a broken row. Each time is rounded down, except
// for what the slowest member and the slowest link take, which are rounded up: all rows still hold.
static void choose_grain(struct table_program *program, uint64_t limit_ps)
{
    program->grain_ps = (limit_ps >> 26) + 1;
    program->limit = limit_ps / program->grain_ps + 2;
}

static uint64_t grains(const struct table_program *program, uint64_t ps)
{
    return ps / program->grain_ps;
}

uint64_t table_program_bound(const struct table_program *program, const double *duals)
{
    const int64_t proved = linear_proved_bound(&program->model, duals);
    const uint64_t rounded = program->grain_ps > 1 ? 2 : 0;  // of reads and link, each less than one
    if (proved <= 0 || (uint64_t)proved + grains(program, program->part->read_least) <= rounded)
        return 0;
    return ((uint64_t)proved + grains(program, program->part->read_least) - rounded) * program->grain_ps;
}

// --- columns and terms ------------------------------------------------------------------------

static void add_table(struct table_program *program, uint32_t t)
{
    const struct placement_problem *problem = program->problem;
    for (uint32_t w = 0; w < TABLE_MOST_WAYS; w++) {
        uint32_t *column = &program->column[(size_t)t * TABLE_MOST_WAYS + w];
        uint32_t *piece = &program->piece[(size_t)t * TABLE_MOST_WAYS + w];
        *column = *piece = UINT32_MAX;
        if (w >= problem->way_count[t] || !placement_part_admits(problem, program->part, t, w))
            continue;
        *column = linear_add_column(&program->model, (struct linear_column){ 0, 1, true, 1 });
        program->table_of[*column] = t;
        const uint32_t parts = placement_way(problem, t, w)->parts;
        if (program->anchor == UINT32_MAX || t == program->anchor || parts == problem->members)
            continue;
        const int64_t most = min_u32(parts, program->class_size[0]);
        *piece = linear_add_column(&program->model, (struct linear_column){ 0, most, true, 1 });
        program->table_of[*piece] = t;
    }
}

static void add_columns(struct table_program *program)
{
    const struct placement_problem *problem = program->problem;
    const struct placement_part *part = program->part;
    struct linear_model *model = &program->model;
    const int64_t limit = (int64_t)program->limit;
    const double unit = (double)limit / 1e6 > 1 ? (double)limit / 1e6 : 1;
    const int64_t reads = (int64_t)(grains(program, part->read_most) + 1 - grains(program, part->read_least));
    program->read = linear_add_column(model, (struct linear_column){ 1, reads, false, unit });
    program->link = linear_add_column(model, (struct linear_column){ 1, limit, false, unit });
    program->copied = linear_add_column(model, (struct linear_column){ 0, 1, true, 1 });
    program->broken = linear_add_column(model, (struct linear_column){ 4096 * limit, 1, false, 1 });
    for (uint32_t l = 0; l < problem->level_count; l++) {
        const int64_t range = (int64_t)(part->width_most[l] - part->width_least[l]);
        const uint32_t column = linear_add_column(model, (struct linear_column){ 0, range, false, 1 });
        program->width = l == 0 ? column : program->width;
    }
    for (uint32_t column = 0; column < model->column_count; column++)
        program->table_of[column] = UINT32_MAX;
    for (uint32_t t = 0; t < problem->tables; t++)
        add_table(program, t);
}

// Calls for each way of a table in the part.
#define EACH_WAY(program, t, w, way)                                                                            \
    for (uint32_t w = 0; w < (program)->problem->way_count[t]; w++)                                             \
        for (const struct table_way *way = (program)->column[(size_t)(t)*TABLE_MOST_WAYS + w] == UINT32_MAX     \
                 ? NULL : placement_way((program)->problem, t, w); way; way = NULL)

static void add_way_term(struct table_program *program, uint32_t t, uint32_t w, uint64_t factor, int sign)
{
    program->model.failed |= factor > MOST_FACTOR;
    if (factor > 0 && factor <= MOST_FACTOR)
        linear_append_term(&program->model, program->column[(size_t)t * TABLE_MOST_WAYS + w], sign * (int64_t)factor);
}

// The most by which an answer can break the row that was begun last, if each table has one way.
static __int128 most_broken(const struct table_program *program, const struct linear_row *row)
{
    const struct linear_model *model = &program->model;
    const int64_t harm = row->sense == LINEAR_AT_MOST ? 1 : -1;
    __int128 most = -(__int128)harm * row->bound;
    uint64_t largest = 0;  // of the ways of one table, whose columns stand together
    for (size_t i = row->first; i < row->end; i++) {
        const struct linear_term *term = &model->terms[i];
        const uint64_t factor = term->factor * harm > 0 ? (uint64_t)(term->factor * harm) : 0;
        const uint64_t harmful = multiply_clamped(factor, (uint64_t)model->columns[term->column].upper);
        if (program->table_of[term->column] == UINT32_MAX) {
            most += harmful;
            continue;
        }
        largest = max_u64(largest, harmful);
        const bool is_last = i + 1 == row->end
                          || program->table_of[model->terms[i + 1].column] != program->table_of[term->column];
        most += is_last ? largest : 0;
        largest = is_last ? 0 : largest;
    }
    return most;
}

// Ends a row: it can be broken at a price. A row that no answer breaks is left out.
static void end_row(struct table_program *program)
{
    struct linear_model *model = &program->model;
    if (model->failed)
        return;
    const struct linear_row *row = &model->rows[model->row_count - 1];
    const __int128 most = most_broken(program, row);
    if (most <= 0) {
        model->term_count = row->first;
        model->row_count--;
        return;
    }
    model->failed |= most > (__int128)MOST_FACTOR;
    linear_append_term(model, program->broken, row->sense == LINEAR_AT_MOST ? -(int64_t)most : (int64_t)most);
}

static void add_choices(struct table_program *program)
{
    for (uint32_t t = 0; t < program->problem->tables; t++) {
        linear_begin_row(&program->model, LINEAR_EQUAL, 1);
        EACH_WAY(program, t, w, way)
            add_way_term(program, t, w, 1, 1);
    }
}

// --- classes ------------------------------------------------------------------------------------

static bool are_alike(const struct placement_problem *problem)
{
    const struct cluster_device *devices = problem->cluster->devices;
    bool alike = true;
    for (uint32_t i = 1; i < problem->members; i++)
        alike = alike && devices[i].memory_bytes == devices[0].memory_bytes
             && devices[i].speed_permille == devices[0].speed_permille;
    return alike;
}

// The decided table whose pieces read longest is the anchor.
static void choose_anchor(struct table_program *program)
{
    const struct placement_problem *problem = program->problem;
    uint64_t longest = 0;
    program->anchor = UINT32_MAX;
    program->class_size[0] = problem->members;
    program->class_size[1] = 0;
    for (uint32_t t = 0; t < problem->tables && are_alike(problem); t++) {
        const struct table_way *only = NULL;
        uint32_t ways = 0;
        for (uint32_t w = 0; w < problem->way_count[t]; w++) {
            if (!placement_part_admits(problem, program->part, t, w))
                continue;
            only = placement_way(problem, t, w);
            ways++;
        }
        if (ways != 1 || only->parts == problem->members || only->read_ps <= longest)
            continue;
        longest = only->read_ps;
        program->anchor = t;
        program->class_size[0] = only->parts;
        program->class_size[1] = problem->members - only->parts;
    }
}

// A number of each piece of a way, and one of each member if the table has that way, added up over a class.
static void add_class_terms(struct table_program *program, uint32_t class, uint32_t t, uint32_t w, uint64_t factor,
                            uint64_t of_member, int sign)
{
    const struct table_way *way = placement_way(program->problem, t, w);
    const uint32_t piece = program->piece[(size_t)t * TABLE_MOST_WAYS + w];
    uint64_t of_way = program->class_size[class] * of_member;
    if (way->parts == program->problem->members)
        of_way += program->class_size[class] * factor;
    else if (piece == UINT32_MAX)  // all its pieces are in the first class
        of_way += class == 0 ? way->parts * factor : 0;
    else if (class == 1)
        of_way += way->parts * factor;
    add_way_term(program, t, w, of_way, sign);
    if (piece == UINT32_MAX || factor == 0)
        return;
    program->model.failed |= factor > MOST_FACTOR;
    linear_append_term(&program->model, piece, class == 0 ? sign * (int64_t)factor : -sign * (int64_t)factor);
}

// A way has at most one piece on each member of a class.
static void add_class_limits(struct table_program *program)
{
    for (uint32_t t = 0; t < program->problem->tables; t++)
        EACH_WAY(program, t, w, way) {
            const uint32_t piece = program->piece[(size_t)t * TABLE_MOST_WAYS + w];
            if (piece == UINT32_MAX)
                continue;
            linear_begin_row(&program->model, LINEAR_AT_LEAST, 0);
            add_way_term(program, t, w, min_u32(way->parts, program->class_size[0]), 1);
            linear_append_term(&program->model, piece, -1);
            if (way->parts <= program->class_size[1])
                continue;
            linear_begin_row(&program->model, LINEAR_AT_LEAST, 0);
            add_way_term(program, t, w, way->parts - program->class_size[1], -1);
            linear_append_term(&program->model, piece, 1);
        }
}

// --- reads ------------------------------------------------------------------------------------

// speeds x R >= all reads of a class, in the smallest whole numbers.
static void add_mean_read(struct table_program *program, uint32_t class)
{
    const struct placement_problem *problem = program->problem;
    const struct cluster_device *devices = problem->cluster->devices;
    uint64_t common = 1000, speeds = 0;
    for (uint32_t i = 0; i < problem->members; i++)
        common = greatest_common(common, devices[i].speed_permille);
    for (uint32_t i = 0; i < program->class_size[class]; i++)  // one class, or all devices are alike
        speeds += devices[i].speed_permille / common;
    const uint64_t known = speeds * grains(program, program->part->read_least);
    program->model.failed |= known > MOST_FACTOR;
    linear_begin_row(&program->model, LINEAR_AT_LEAST, -(int64_t)min_u64(known, MOST_FACTOR));
    linear_append_term(&program->model, program->read, (int64_t)speeds);
    for (uint32_t t = 0; t < problem->tables; t++)
        EACH_WAY(program, t, w, way)
            add_class_terms(program, class, t, w, 1000 / common * grains(program, way->read_ps), 0, -1);
    end_row(program);
}

// The member with a piece of this table reads it, and the pieces that every member has.
static void add_piece_read(struct table_program *program, uint32_t table)
{
    const struct placement_problem *problem = program->problem;
    linear_begin_row(&program->model, LINEAR_AT_LEAST, -(int64_t)grains(program, program->part->read_least));
    linear_append_term(&program->model, program->read, 1);
    for (uint32_t t = 0; t < problem->tables; t++)
        EACH_WAY(program, t, w, way)
            if (t == table || way->parts == problem->members)
                add_way_term(program, t, w, grains(program, placement_quickest_ps(problem, way->read_ps)), -1);
    end_row(program);
}

// --- links ------------------------------------------------------------------------------------

static void add_mean_width(struct table_program *program, uint32_t level)
{
    const struct placement_problem *problem = program->problem;
    const uint64_t units = problem->levels[level].units;
    linear_begin_row(&program->model, LINEAR_AT_LEAST, -(int64_t)(units * program->part->width_least[level]));
    linear_append_term(&program->model, program->width + level, (int64_t)units);
    for (uint32_t t = 0; t < problem->tables; t++)
        EACH_WAY(program, t, w, way)
            add_way_term(program, t, w, way->parts * way->width_bytes, -1);
    end_row(program);
}

static void add_class_width(struct table_program *program, uint32_t class)
{
    const uint64_t members = program->class_size[class];
    linear_begin_row(&program->model, LINEAR_AT_LEAST, -(int64_t)(members * program->part->width_least[0]));
    linear_append_term(&program->model, program->width, (int64_t)members);
    for (uint32_t t = 0; t < program->problem->tables; t++)
        EACH_WAY(program, t, w, way)
            add_class_terms(program, class, t, w, way->width_bytes, 0, -1);
    end_row(program);
}

// The unit with a piece of this table sends it, and the pieces of its members that every member has.
static void add_piece_width(struct table_program *program, uint32_t level, uint32_t table)
{
    const struct placement_problem *problem = program->problem;
    const uint64_t unit_size = problem->levels[level].unit_size;
    linear_begin_row(&program->model, LINEAR_AT_LEAST, -(int64_t)program->part->width_least[level]);
    linear_append_term(&program->model, program->width + level, 1);
    for (uint32_t t = 0; t < problem->tables; t++)
        EACH_WAY(program, t, w, way)
            if (way->parts == problem->members)
                add_way_term(program, t, w, unit_size * way->width_bytes, -1);
            else if (t == table)
                add_way_term(program, t, w, way->width_bytes, -1);
    end_row(program);
}

// What `bytes` take on a link, rounded down: in parts of a grain, of which a grain has SCALE.
enum { SCALE = 1024 };

static uint64_t scaled(const struct table_program *program, unsigned __int128 bytes, uint64_t bytes_per_second)
{
    if (bytes_per_second == 0)
        return 0;
    if (bytes > UINT64_MAX)
        return MOST_FACTOR + 1;
    const unsigned __int128 ps = bytes * 1000000000000u * SCALE / bytes_per_second;
    return ps / program->grain_ps > MOST_FACTOR ? MOST_FACTOR + 1 : (uint64_t)(ps / program->grain_ps);
}

// X >= 2 m (latency + share x peers x V / rate) + gather. Something is exchanged in every placement, except if all
// tables are copied, which the search tries by itself.
static void add_level(struct table_program *program, uint32_t l)
{
    const struct placement_problem *problem = program->problem;
    const struct placement_level *links = &problem->levels[l];
    struct linear_model *model = &program->model;
    if (links->peers == 0)
        return;
    const uint64_t messages = 2 * problem->set->micro_batches;
    const uint64_t rate = scaled(program, (unsigned __int128)messages * problem->share * links->peers,
                                 links->bytes_per_second);
    const uint64_t known = multiply_clamped(SCALE, grains(program, multiply_clamped(messages, links->latency_ps)));
    const uint64_t least = multiply_clamped(rate, program->part->width_least[l]);
    if (rate > MOST_FACTOR || add_clamped(known, least) > MOST_FACTOR)
        return;  // weaker, and true
    linear_begin_row(model, LINEAR_AT_LEAST, (int64_t)(known + least));
    linear_append_term(model, program->link, SCALE);
    linear_append_term(model, program->width + l, -(int64_t)rate);
    linear_append_term(model, program->copied,
                       -(int64_t)min_u64(multiply_clamped(SCALE, grains(program, links->latency_ps)), MOST_FACTOR));
    for (uint32_t t = 0; t < problem->tables; t++)
        EACH_WAY(program, t, w, way) {
            const unsigned __int128 sent = (unsigned __int128)way->gathered_bytes * links->unit_size * links->peers;
            add_way_term(program, t, w, scaled(program, sent, links->bytes_per_second), -1);
        }
    end_row(program);
}

static void add_gather(struct table_program *program, uint32_t t)
{
    EACH_WAY(program, t, w, way)
        if (way->gathered_bytes > 0) {
            linear_begin_row(&program->model, LINEAR_AT_LEAST, 0);
            linear_append_term(&program->model, program->copied, 1);
            add_way_term(program, t, w, 1, -1);
        }
}

static void add_host(struct table_program *program)
{
    const struct placement_problem *problem = program->problem;
    struct linear_model *model = &program->model;
    if (!problem->cluster->has_host)
        return;
    linear_begin_row(model, LINEAR_AT_LEAST, 0);
    linear_append_term(model, program->link, (int64_t)SCALE * problem->machines);
    for (uint32_t t = 0; t < problem->tables; t++)
        EACH_WAY(program, t, w, way)
            add_way_term(program, t, w, scaled(program, way->moved_bytes, problem->cluster->host_bytes_per_second), -1);
    end_row(program);
    const uint64_t room = multiply_clamped(problem->machines, problem->cluster->host_memory_bytes);
    linear_begin_row(model, LINEAR_AT_MOST, (int64_t)min_u64(room, MOST_FACTOR));
    for (uint32_t t = 0; t < problem->tables && room <= MOST_FACTOR; t++)
        EACH_WAY(program, t, w, way)
            add_way_term(program, t, w, way->held_bytes, 1);
    end_row(program);
}

// --- memory, and pieces that share a member -----------------------------------------------------

static uint64_t least_received(const struct table_program *program)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < program->problem->tables; t++) {
        uint64_t least = UINT64_MAX;
        EACH_WAY(program, t, w, way)
            least = min_u64(least, way->received_bytes);
        sum = add_clamped(sum, least == UINT64_MAX ? 0 : least);
    }
    return sum;
}

static void add_memory(struct table_program *program, uint32_t class)
{
    const struct placement_problem *problem = program->problem;
    uint64_t room = 0;
    for (uint32_t i = 0; i < program->class_size[class]; i++) {
        const uint64_t bytes = problem->cluster->devices[i].memory_bytes;
        room = add_clamped(room, bytes > problem->set->dense_bytes ? bytes - problem->set->dense_bytes : 0);
    }
    if (room > MOST_FACTOR)
        return;
    linear_begin_row(&program->model, LINEAR_AT_MOST, (int64_t)room);
    for (uint32_t t = 0; t < problem->tables; t++)
        EACH_WAY(program, t, w, way)
            add_class_terms(program, class, t, w, way->bytes, way->received_bytes, 1);
    end_row(program);
}

enum piece_size { PIECE_BYTES, PIECE_READS, PIECE_WIDTH };

static uint64_t size_of(const struct table_way *way, enum piece_size size)
{
    return size == PIECE_BYTES ? way->bytes : size == PIECE_READS ? way->read_ps : way->width_bytes;
}

static uint64_t capacity_of(const struct table_program *program, enum piece_size size)
{
    const struct placement_problem *problem = program->problem;
    if (size == PIECE_WIDTH)
        return problem->level_count > 0 ? program->part->width_most[0] : UINT64_MAX / 2;
    if (size == PIECE_READS) {
        const unsigned __int128 work = (unsigned __int128)program->part->read_most * largest_speed(problem) / 1000;
        return work > UINT64_MAX / 2 ? UINT64_MAX / 2 : (uint64_t)work;
    }
    uint64_t largest = 0;
    for (uint32_t i = 0; i < problem->members; i++)
        largest = max_u64(largest, problem->cluster->devices[i].memory_bytes);
    const uint64_t taken = add_clamped(problem->set->dense_bytes, least_received(program));
    return largest > taken ? largest - taken : 0;
}

// Whether every member has a piece of the table, whatever its way.
static bool is_everywhere(const struct table_program *program, uint32_t t)
{
    bool is_everywhere = true;
    EACH_WAY(program, t, w, way)
        is_everywhere = is_everywhere && way->parts == program->problem->members;
    return is_everywhere;
}

// What tables that are everywhere, and in the first class the anchor, leave of a member.
static uint64_t capacity_left(const struct table_program *program, uint32_t class, enum piece_size size)
{
    uint64_t left = capacity_of(program, size);
    for (uint32_t t = 0; t < program->problem->tables; t++) {
        uint64_t least = UINT64_MAX;
        if (!is_everywhere(program, t) && (t != program->anchor || class == 1))
            continue;
        EACH_WAY(program, t, w, way)
            least = min_u64(least, size_of(way, size));
        left = left > least ? left - least : 0;
    }
    return left;
}

// Pieces of more than a q + 1-th of a member: at most q share it, and larger ones count more.
static void add_sharing(struct table_program *program, uint32_t class, enum piece_size size, uint64_t q)
{
    const uint64_t capacity = capacity_left(program, class, size);
    linear_begin_row(&program->model, LINEAR_AT_MOST, (int64_t)(q * program->class_size[class]));
    for (uint32_t t = 0; t < program->problem->tables; t++) {
        if (is_everywhere(program, t) || t == program->anchor)
            continue;
        EACH_WAY(program, t, w, way) {
            const unsigned __int128 parts = (unsigned __int128)(q + 1) * size_of(way, size) / (capacity + 1);
            add_class_terms(program, class, t, w, parts > 1000 ? 1000 : (uint64_t)parts, 0, 1);
        }
    }
    end_row(program);
}

static void add_sharings(struct table_program *program, uint32_t class)
{
    enum { FEW_TABLES = 128, MOST_SHARING = 8, MOST_SHARING_OF_MANY = 2 };
    const uint64_t most = program->problem->tables <= FEW_TABLES ? MOST_SHARING : MOST_SHARING_OF_MANY;
    for (enum piece_size size = PIECE_BYTES; size <= PIECE_WIDTH; size++)
        for (uint64_t q = 1; q <= most; q++)
            add_sharing(program, class, size, q);
}

// --- the program ------------------------------------------------------------------------------

bool table_program_open(struct table_program *program, const struct placement_problem *problem,
                        const struct placement_part *part, uint64_t limit_ps, bool *fits, struct error *error)
{
    *program = (struct table_program){ .problem = problem, .part = part };
    choose_grain(program, limit_ps);
    choose_anchor(program);
    const size_t ways = (size_t)problem->tables * TABLE_MOST_WAYS, others = 4 + CLUSTER_MOST_LEVELS;
    program->column = arrays_add(&program->arrays, ways, sizeof program->column[0]);
    program->piece = arrays_add(&program->arrays, ways, sizeof program->piece[0]);
    program->table_of = arrays_add(&program->arrays, 2 * ways + others, sizeof program->table_of[0]);
    if (program->arrays.failed)
        return error_no_memory(error, "a bound on tables' places");
    add_columns(program);
    if (program->model.failed)
        return error_no_memory(error, "a bound on tables' places");
    add_choices(program);
    add_class_limits(program);
    for (uint32_t class = 0; class < 2 && program->class_size[class] > 0; class++) {
        add_mean_read(program, class);
        add_memory(program, class);
        add_sharings(program, class);
        if (problem->level_count > 0)
            add_class_width(program, class);
    }
    for (uint32_t t = 0; t < problem->tables; t++) {
        add_piece_read(program, t);
        for (uint32_t l = 0; l < problem->level_count; l++)
            add_piece_width(program, l, t);
        add_gather(program, t);
    }
    for (uint32_t l = 0; l < problem->level_count; l++) {
        if (l > 0)
            add_mean_width(program, l);
        add_level(program, l);
    }
    add_host(program);
    *fits = !program->model.failed;
    return true;
}

void table_program_close(struct table_program *program)
{
    linear_clear(&program->model);
    arrays_clear(&program->arrays);
    *program = (struct table_program){ 0 };
}
