// The plan of tables as a table for people and as a document.
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "common/shown.h"
#include "partitioner/plan/plan_words.h"
#include "partitioner/tables/table_plan.h"

static const char *ps_format(uint64_t ps, char *buffer)
{
    return time_format(placement_ns(ps), buffer);
}

static const struct table_way *way_of(const struct table_plan *plan, uint32_t t)
{
    return placement_way(&plan->problem, t, plan->placement.way[t]);
}

static const uint32_t *members_of(const struct table_plan *plan, uint32_t t)
{
    return &plan->placement.member[(size_t)t * plan->problem.members];
}

// The word of a table in the places that profiles measure and plans run (models/table_places.h).
static void add_place(const struct table_plan *plan, uint32_t t, struct text *text)
{
    const struct table_way *way = way_of(plan, t);
    const bool is_cut = way->kind == TABLE_ROWS || way->kind == TABLE_COLUMNS;
    const bool has_members = way->parts == 1 || (is_cut && way->parts < plan->problem.members);
    const char *word = way->kind == TABLE_COPIED ? "all" : is_cut ? table_kind_names[way->kind] : "";
    text_add(text, "%s%s", t > 0 ? "/" : "", word);
    for (uint32_t j = 0; has_members && way->kind != TABLE_COPIED && j < way->parts; j++)
        text_add(text, "%s%u", j > 0 ? "+" : "", members_of(plan, t)[j]);
    text_add(text, "%s", way->kind == TABLE_HOST ? "@host" : "");
}

// Units of a whole row: of as many columns as all widths are multiples of.
static uint64_t units_of(const struct table_plan *plan)
{
    const uint64_t columns = plan->problem.set->columns;
    uint64_t unit = columns;
    for (uint32_t t = 0; t < plan->problem.tables; t++)
        if (way_of(plan, t)->kind == TABLE_COLUMNS)
            unit = greatest_common(unit, columns / way_of(plan, t)->parts);
    return columns / unit;
}

uint64_t table_plan_room(const struct table_plan *plan)
{
    uint64_t most = 0;
    for (uint32_t member = 0; member < plan->problem.members; member++) {
        uint64_t rows = 0;
        for (uint32_t t = 0; t < plan->problem.tables; t++)
            if (way_of(plan, t)->kind == TABLE_HOST && members_of(plan, t)[0] == member)
                rows += placement_host_rows(&plan->problem, t);
        most = max_u64(most, rows);
    }
    return most * units_of(plan);
}

void table_plan_words(const struct table_plan *plan, struct text *text)
{
    const uint64_t room = table_plan_room(plan);
    for (uint32_t t = 0; t < plan->problem.tables; t++)
        add_place(plan, t, text);
    if (room > 0)
        text_add(text, ":host%llu", (unsigned long long)room);
}

// --- for people -----------------------------------------------------------------------------------

static void print_members(const struct table_plan *plan, uint32_t t, struct text *text)
{
    const struct table_way *way = way_of(plan, t);
    if (way->parts == plan->problem.members && way->parts > 1) {
        text_add(text, "all");
        return;
    }
    for (uint32_t j = 0; j < way->parts; j++)
        text_add(text, "%s%u", j > 0 ? "," : "", members_of(plan, t)[j]);
}

static void print_tables(const struct table_plan *plan, struct text *text)
{
    const struct table_set *set = plan->problem.set;
    char size[NUMBER_SIZE], time[NUMBER_SIZE], kind[32];
    size_t width = strlen("table");
    for (uint32_t t = 0; t < plan->problem.tables; t++)
        width = shown_width(set->tables[t].name) > width ? shown_width(set->tables[t].name) : width;
    width = width < 30 ? width : 30;
    text_add(text, "%-*s %13s %10s %9s  %-10s %10s  %s\n", (int)width, "table", "rows", "bytes", "reads", "way",
             "each takes", "members");
    for (uint32_t t = 0; t < plan->problem.tables; t++) {
        const struct table *table = &set->tables[t];
        const struct table_way *way = way_of(plan, t);
        snprintf(kind, sizeof kind, "%s", table_kind_names[way->kind]);
        if (way->kind == TABLE_ROWS || way->kind == TABLE_COLUMNS)
            snprintf(kind, sizeof kind, "%s %u", table_kind_names[way->kind], way->parts);
        shown_add_cell(text, table->name, width, width);
        text_add(text, " %13llu %10s %5llu.%03llu  %-10s %10s  ", (unsigned long long)table->rows,
                 bytes_format(table->rows * set->columns * set->number_bytes, size),
                 (unsigned long long)table->reads_milli / 1000, (unsigned long long)table->reads_milli % 1000, kind,
                 ps_format(way->read_ps, time));
        print_members(plan, t, text);
        text_add(text, "\n");
    }
}

static void print_members_table(const struct table_plan *plan, struct text *text)
{
    const struct placement_problem *problem = &plan->problem;
    char reads[NUMBER_SIZE], holds[NUMBER_SIZE], has[NUMBER_SIZE], sends[NUMBER_SIZE];
    text_add(text, "\n%6s %10s %10s %10s  %s\n", "member", "reads", "memory", "of", "sends a sample");
    for (uint32_t i = 0; i < problem->members; i++)
        text_add(text, "%6u %10s %10s %10s  %s\n", i,
                 ps_format(placement_member_ps(problem, i, plan->loads.read_ps[i]), reads),
                 bytes_format(placement_member_bytes(problem, &plan->loads, i), holds),
                 bytes_format(problem->cluster->devices[i].memory_bytes, has),
                 bytes_format(problem->level_count > 0 ? plan->loads.width_bytes[i] : 0, sends));
}

static void print_value(const struct table_plan *plan, struct text *text)
{
    const struct certificate *certificate = &plan->certificate;
    char whole[NUMBER_SIZE], reads[NUMBER_SIZE], link[NUMBER_SIZE], bound[NUMBER_SIZE];
    text_add(text, "\nThe tables of an iteration take %s: %s for the slowest member's reads, and %s for the slowest"
             " link.\n", time_format(certificate->value_ns, whole), ps_format(plan->cost.read_ps, reads),
             ps_format(plan->cost.link_ps, link));
    if (certificate->proved)
        text_add(text, "It is proved that no placement takes less");
    else
        text_add(text, "No placement takes less than %s: the gap is %.2f %%",
                 time_format(certificate->lower_bound_ns, bound), 100 * certificate->gap);
    if (plan->programs > 0) {
        text_add(text, ", by the duals of ");
        text_add_count(text, plan->programs, "program", "programs");
    }
    text_add(text, ".");
    if (certificate->stopped[0]) {
        text_add(text, " The bound ended there: ");
        shown_add(text, "%s", certificate->stopped);
        text_add(text, ".");
    }
    text_add(text, "\n");
}

static void print_rules(const struct table_plan *plan, struct text *text)
{
    char time[NUMBER_SIZE];
    const double value = (double)placement_total_ps(&plan->cost);
    text_add(text, "\n%-15s %10s  %s\n", "by rule", "takes", "of this placement");
    for (enum table_rule rule = 0; rule < TABLE_RULES; rule++) {
        const struct table_rule_cost *cost = &plan->rules[rule];
        const uint64_t total = placement_total_ps(&cost->cost);
        text_add(text, "%-15s ", table_rule_names[rule]);
        if (cost->fits) {
            text_add(text, "%10s  %.2f\n", ps_format(total, time), value > 0 ? (double)total / value : 1);
        } else {
            text_add(text, "%10s  ", "-");
            shown_add(text, "%s", cost->why);
            text_add(text, "\n");
        }
    }
}

static void print_link(const struct table_plan *plan, struct text *text)
{
    const struct placement_cost *cost = &plan->cost;
    const struct placement_problem *problem = &plan->problem;
    char time[NUMBER_SIZE];
    ps_format(cost->link_ps, time);
    if (cost->link == LINK_HOST)
        text_add(text, "The host of machine %u is the slowest link, with %s.\n", cost->unit, time);
    else if (cost->link == LINK_LEVEL && problem->levels[cost->level].unit_size > 1)
        text_add(text, "The links of level %u are the slowest, with %s: the devices %u to %u send most.\n",
                 cost->level, time, cost->unit * problem->levels[cost->level].unit_size,
                 (cost->unit + 1) * problem->levels[cost->level].unit_size - 1);
    else if (cost->link == LINK_LEVEL)
        text_add(text, "The links of level %u are the slowest, with %s: member %u sends most.\n", cost->level, time,
                 cost->unit);
}

static void print_split(const struct table_plan *plan, const struct table_split *split, struct text *text)
{
    const double value = (double)placement_total_ps(&plan->cost);
    char time[NUMBER_SIZE];
    text_add(text, "  %s over %u members: ", table_kind_names[split->kind], split->parts);
    if (split->ps == UINT64_MAX) {
        text_add(text, "does not fit\n");
        return;
    }
    const double more = value > 0 ? 100 * ((double)split->ps - value) / value : 0;
    text_add(text, "%s, ", ps_format(split->ps, time));
    if (more > -0.005 && more < 0.005)
        text_add(text, "as long\n");
    else
        text_add(text, "%.2f %% %s\n", more < 0 ? -more : more, more < 0 ? "less" : "more");
}

static void print_why(const struct table_plan *plan, struct text *text)
{
    const struct table_way *way = way_of(plan, plan->binding);
    char time[NUMBER_SIZE];
    text_add(text, "\nMember %u reads longest. Of its tables, ", plan->cost.slowest);
    shown_add(text, "%s", plan->problem.set->tables[plan->binding].name);
    text_add(text, " takes it %s.\n", ps_format(way->read_ps, time));
    print_link(plan, text);
    if (plan->split_count > 0) {
        text_add(text, "With all others placed anew, ");
        shown_add(text, "%s", plan->problem.set->tables[plan->binding].name);
        text_add(text, " by\n");
    }
    for (uint32_t i = 0; i < plan->split_count; i++)
        print_split(plan, &plan->splits[i], text);
}

// One member has all tables without a word.
static void print_places(const struct table_plan *plan, struct text *text)
{
    struct text places = { 0 };
    if (plan->problem.members == 1)
        return;
    table_plan_words(plan, &places);
    if (places.data)
        text_add(text, "\nIn the words of a profile's variant: rows%u:%s\n", plan->problem.members, places.data);
    text->failed |= places.failed;
    text_clear(&places);
}

void table_plan_print(const struct table_plan *plan, struct text *text)
{
    print_tables(plan, text);
    print_members_table(plan, text);
    print_value(plan, text);
    print_rules(plan, text);
    print_why(plan, text);
    print_places(plan, text);
}

// --- the document -----------------------------------------------------------------------------------

static void write_tables(const struct table_plan *plan, struct json_writer *writer)
{
    json_begin_array(writer, "tables", JSON_LINES);
    for (uint32_t t = 0; t < plan->problem.tables; t++) {
        const struct table_way *way = way_of(plan, t);
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_string(writer, "name", plan->problem.set->tables[t].name);
        json_put_string(writer, "way", table_kind_names[way->kind]);
        json_put_u64(writer, "read_ns", placement_ns(way->read_ps));
        json_begin_array(writer, "members", JSON_INLINE);
        for (uint32_t j = 0; j < way->parts; j++)
            json_put_u64(writer, NULL, members_of(plan, t)[j]);
        json_close(writer);
        json_close(writer);
    }
    json_close(writer);
}

static void write_members(const struct table_plan *plan, struct json_writer *writer)
{
    const struct placement_problem *problem = &plan->problem;
    json_begin_array(writer, "members", JSON_LINES);
    for (uint32_t i = 0; i < problem->members; i++) {
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_u64(writer, "read_ns", placement_ns(placement_member_ps(problem, i, plan->loads.read_ps[i])));
        json_put_u64(writer, "memory_bytes", placement_member_bytes(problem, &plan->loads, i));
        json_put_u64(writer, "capacity_bytes", problem->cluster->devices[i].memory_bytes);
        json_close(writer);
    }
    json_close(writer);
}

static void write_rules(const struct table_plan *plan, struct json_writer *writer)
{
    json_begin_array(writer, "rules", JSON_LINES);
    for (enum table_rule rule = 0; rule < TABLE_RULES; rule++) {
        const struct table_rule_cost *cost = &plan->rules[rule];
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_string(writer, "rule", table_rule_names[rule]);
        if (cost->fits)
            json_put_u64(writer, "value_ns", placement_ns(placement_total_ps(&cost->cost)));
        else
            json_put_string(writer, "does_not_fit", cost->why);
        json_close(writer);
    }
    json_close(writer);
}

static void write_splits(const struct table_plan *plan, struct json_writer *writer)
{
    json_begin_object(writer, "binding", JSON_LINES);
    json_put_u64(writer, "member", plan->cost.slowest);
    json_put_string(writer, "table", plan->problem.set->tables[plan->binding].name);
    json_begin_array(writer, "splits", JSON_LINES);
    for (uint32_t i = 0; i < plan->split_count; i++) {
        const struct table_split *split = &plan->splits[i];
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_string(writer, "way", table_kind_names[split->kind]);
        json_put_u64(writer, "parts", split->parts);
        if (split->ps < UINT64_MAX)
            json_put_u64(writer, "value_ns", placement_ns(split->ps));
        else
            json_put_null(writer, "value_ns");
        json_close(writer);
    }
    json_close(writer);
    json_close(writer);
}

static void write_places(const struct table_plan *plan, struct json_writer *writer, struct text *text)
{
    struct text places = { 0 };
    table_plan_words(plan, &places);
    if (places.data)
        json_put_string(writer, "places", places.data);
    text->failed |= places.failed;
    text_clear(&places);
}

void table_plan_write(const struct table_plan *plan, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.placement");
    json_put_string(&writer, "model", plan->problem.set->model);
    cluster_write_part(plan->problem.cluster, &writer, "cluster");
    json_put_string(&writer, "optimizer", table_optimizer_names[plan->problem.optimizer]);
    write_tables(plan, &writer);
    write_places(plan, &writer, text);
    write_members(plan, &writer);
    json_put_u64(&writer, "read_ns", placement_ns(plan->cost.read_ps));
    json_put_u64(&writer, "link_ns", placement_ns(plan->cost.link_ps));
    certificate_write(&writer, &plan->certificate);
    json_put_u64(&writer, "programs", plan->programs);
    write_rules(plan, &writer);
    write_splits(plan, &writer);
    json_close(&writer);
}
