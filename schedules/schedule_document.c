// The schedule document: docs/formats/schedule.md.
//
// The reader refuses documents that say nothing definite. Whether the schedule in a document can run is another
// question, which check.h answers.
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "schedules/cost_row.h"
#include "schedules/schedule.h"

struct sizes {
    uint32_t ranks, stages, micro_batches, splits;
};

// --- reading -----------------------------------------------------------------

// Arrays must have the length that the document declares. This is checked before anything of that size is allocated,
// so a number alone never causes an allocation.
static void want_count(struct json *array, uint64_t want, const char *what)
{
    if (array->node && json_count(array) != want)
        json_refuse(array, "has %zu entries, not one for each of the %llu %s", json_count(array),
                    (unsigned long long)want, what);
}

static bool read_routes(struct json *root, struct schedule *schedule, struct error *error)
{
    struct json routes = json_array(root, "routes"), route, item;
    const size_t count = routes.node ? json_count(&routes) : 0;
    if (routes.node && (count == 0 || count > SCHEDULE_MOST_ROUTES))
        json_refuse(&routes, "has %zu routes, not 1 to %d", count, SCHEDULE_MOST_ROUTES);
    if (!json_ok(routes.document, error))
        return false;

    free(schedule->routes);
    schedule->routes = calloc(count * schedule->stages, sizeof *schedule->routes);
    if (!schedule->routes)
        return error_no_memory(error, "the routes of a schedule");
    schedule->route_count = (uint32_t)count;
    uint32_t *next_rank = schedule->routes;
    while (json_next(&routes, &route)) {
        json_item_array(&route);
        want_count(&route, schedule->stages, "stages");
        if (!json_ok(routes.document, error))
            return false;
        while (json_next(&route, &item))
            *next_rank++ = (uint32_t)json_item_u64(&item, 0, schedule->ranks - 1);
    }

    struct json route_of = json_array(root, "route_of");
    uint32_t *next_route = schedule->route_of;
    while (json_next(&route_of, &item))
        *next_route++ = (uint32_t)json_item_u64(&item, 0, count - 1);
    return json_ok(root->document, error);
}

static bool read_costs(struct json *root, struct schedule *schedule, struct error *error)
{
    if (!json_has(root, "costs"))
        return true;
    struct json costs = json_array(root, "costs"), row;
    want_count(&costs, schedule->stages, "stages");
    if (!json_ok(root->document, error))
        return false;
    schedule->costs = calloc(schedule->stages, sizeof *schedule->costs);
    if (!schedule->costs)
        return error_no_memory(error, "the costs of a schedule");
    for (struct cost_row *to = schedule->costs; json_next(&costs, &row); to++) {
        json_item_object(&row);
        cost_row_read(&row, to);
        json_end(&row);
    }
    return json_ok(root->document, error);
}

// Reads one rank's actions, separated by spaces.
static bool read_list(struct json *item, uint32_t rank, struct schedule *schedule, struct error *error)
{
    const char *rest = json_item_string(item);
    for (size_t count = 0;; count++) {
        rest += strspn(rest, " ");
        const size_t length = strcspn(rest, " ");
        struct error why = { 0 };
        struct action group[MOST_JOINED];
        if (length == 0)
            return true;
        const size_t size = group_parse(rest, length, group, &why);
        if (size == 0) {
            json_refuse(item, "action %zu: %s", count, why.text);
            return true;  // json_ok() reports it
        }
        for (size_t i = 0; i < size; i++) {
            if (!schedule_add(schedule, rank, group[i], error))
                return false;
        }
        rest += length;
    }
}

static bool read_actions(struct json *root, struct schedule *schedule, struct error *error)
{
    struct json lists = json_array(root, "actions"), item;
    for (uint32_t rank = 0; json_next(&lists, &item); rank++) {
        if (!read_list(&item, rank, schedule, error))
            return false;
    }
    return json_ok(root->document, error);
}

static bool read_notes(struct json *root, struct schedule *schedule, struct error *error)
{
    if (!json_has(root, "notes"))
        return true;
    schedule->notes = strdup(json_string(root, "notes"));
    return schedule->notes || error_no_memory(error, "the notes of a schedule");
}

static struct sizes read_sizes(struct json *root)
{
    const struct sizes sizes = {
        .ranks = (uint32_t)json_u64(root, "ranks", 1, SCHEDULE_MOST_RANKS),
        .stages = (uint32_t)json_u64(root, "stages", 1, UINT16_MAX),
        .micro_batches = (uint32_t)json_u64(root, "micro_batches", 1, UINT32_MAX - 1),
        .splits = json_has(root, "splits") ? (uint32_t)json_u64(root, "splits", 1, MOST_SPLITS) : 1,
    };
    struct json route_of = json_array(root, "route_of");
    want_count(&route_of, sizes.micro_batches, "micro-batches");
    struct json routes = json_array(root, "routes"), first;
    if (json_next(&routes, &first)) {
        json_item_array(&first);
        want_count(&first, sizes.stages, "stages");
    }
    struct json actions = json_array(root, "actions");
    want_count(&actions, sizes.ranks, "ranks");
    return sizes;
}

struct schedule *schedule_read_order(struct json *root, struct error *error)
{
    const char *name = json_string(root, "name");
    const enum weights weights = (enum weights)json_choice(root, "weights", weights_names);
    const struct sizes sizes = read_sizes(root);
    if (strlen(name) >= sizeof((struct schedule *)0)->name)
        json_refuse_key(root, "name", "is longer than %zu bytes", sizeof((struct schedule *)0)->name - 1);
    if (!json_ok(root->document, error))
        return NULL;

    struct schedule *schedule =
        schedule_create(name, weights, sizes.ranks, sizes.stages, sizes.micro_batches, error);
    const bool exchanges = json_has(root, "exchanges") && json_bool(root, "exchanges");
    if (schedule)
        schedule->exchanges = exchanges;
    if (schedule && schedule_split(schedule, sizes.splits, error) && read_routes(root, schedule, error)
        && read_actions(root, schedule, error))
        return schedule;
    schedule_free(schedule);
    return NULL;
}

static struct schedule *read_document(struct json *root, struct error *error)
{
    json_format(root, "weir.schedule");
    struct schedule *schedule = schedule_read_order(root, error);
    if (!schedule)
        return NULL;
    bool good = read_costs(root, schedule, error) && read_notes(root, schedule, error);
    json_end(root);
    good = good && json_ok(root->document, error);
    if (!good) {
        schedule_free(schedule);
        return NULL;
    }
    return schedule;
}

struct schedule *schedule_read(const char *text, size_t length, const char *name, struct error *error)
{
    struct json_document *document = json_parse(text, length, name, error);
    if (!document)
        return NULL;
    struct json root = json_root(document);
    struct schedule *schedule = read_document(&root, error);
    json_free(document);
    return schedule;
}

// --- writing -----------------------------------------------------------------

static void write_head(struct json_writer *writer, const struct schedule *schedule)
{
    json_put_string(writer, "name", schedule->name);
    json_put_string(writer, "weights", weights_names[schedule->weights]);
    json_put_u64(writer, "ranks", schedule->ranks);
    json_put_u64(writer, "stages", schedule->stages);
    json_put_u64(writer, "micro_batches", schedule->micro_batches);
    if (schedule->splits > 1)
        json_put_u64(writer, "splits", schedule->splits);
    if (schedule->exchanges)
        json_put_bool(writer, "exchanges", true);
}

static void write_routes(struct json_writer *writer, const struct schedule *schedule)
{
    json_begin_array(writer, "routes", JSON_LINES);
    for (uint32_t route = 0; route < schedule->route_count; route++) {
        json_begin_array(writer, NULL, JSON_INLINE);
        for (uint32_t stage = 0; stage < schedule->stages; stage++)
            json_put_u64(writer, NULL, schedule->routes[(size_t)route * schedule->stages + stage]);
        json_close(writer);
    }
    json_close(writer);
    json_begin_array(writer, "route_of", JSON_INLINE);
    for (uint32_t micro_batch = 0; micro_batch < schedule->micro_batches; micro_batch++)
        json_put_u64(writer, NULL, schedule->route_of[micro_batch]);
    json_close(writer);
}

static void write_costs(struct json_writer *writer, const struct schedule *schedule)
{
    if (!schedule->costs)
        return;
    json_begin_array(writer, "costs", JSON_LINES);
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        cost_row_write(&schedule->costs[stage], writer, NULL);
    json_close(writer);
}

static void write_actions(struct json_writer *writer, const struct schedule *schedule)
{
    json_begin_array(writer, "actions", JSON_LINES);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        struct text line = { 0 };
        const struct action *group = schedule->lists[rank].at, *end = list_end(&schedule->lists[rank]);
        for (size_t size = 0; group < end; group += size) {
            if (size)
                text_add(&line, " ");
            size = group_size(group, end);
            group_write(group, size, &line);
        }
        writer->text->failed |= line.failed;
        json_put_string(writer, NULL, line.data ? line.data : "");
        text_clear(&line);
    }
    json_close(writer);
}

void schedule_write_order(const struct schedule *schedule, struct json_writer *writer)
{
    write_head(writer, schedule);
    write_routes(writer, schedule);
    write_actions(writer, schedule);
}

void schedule_write(const struct schedule *schedule, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.schedule");
    write_head(&writer, schedule);
    write_routes(&writer, schedule);
    write_costs(&writer, schedule);
    write_actions(&writer, schedule);
    if (schedule->notes)
        json_put_string(&writer, "notes", schedule->notes);
    json_close(&writer);
}
