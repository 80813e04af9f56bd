// The sweep document: docs/formats/sweep.md.
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "partitioner/plan/holding_document.h"
#include "partitioner/sweep/sweep.h"

enum { SWEEP_NEWEST_VERSION = 3, SINCE_HOLDINGS = 2, SINCE_ONLY_SIMULATED = 3 };
#define MOST_RANKS 65536
#define MOST_ROWS 10000

// --- writing -------------------------------------------------------------------

static void write_row(struct json_writer *writer, const struct sweep_row *row)
{
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_string(writer, "schedule", row->schedule);
    json_put_string(writer, "weights", weights_names[row->weights]);
    json_put_string(writer, "class", sweep_class_names[row->class]);
    json_put_u64(writer, "ranks", row->ranks);
    json_put_u64(writer, "chunks", row->chunks);
    json_put_u64(writer, "micro_batches", row->micro_batches);
    json_put_string(writer, "outcome", sweep_outcome_names[row->outcome]);
    json_put_u64(writer, "iteration_ns", row->iteration_ns);
    json_put_u64(writer, "micro_batch_ns", row->micro_batch_ns);
    json_put_u64(writer, "lower_bound_ns", row->lower_bound_ns);
    json_put_u64(writer, "peak_bytes", row->peak_bytes);
    json_put_u64(writer, "rank", row->rank);
    json_put_u64(writer, "lacks_bytes", row->lacks_bytes);
    json_put_fraction(writer, "bubble", row->bubble);
    json_put_bool(writer, "proved", row->proved);
    json_put_bool(writer, "front", row->is_on_front);
    json_put_bool(writer, "best", row->is_best);
    json_put_bool(writer, "best_of_micro_batches", row->is_best_of_m);
    if (row->only_simulated)
        json_put_bool(writer, "only_simulated", true);
    json_put_string(writer, "reason", row->reason);
    json_close(writer);
}

// The first that knows all there is to say.
static unsigned version_of(const struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->count; i++)
        if (sweep->rows[i].only_simulated)
            return SINCE_ONLY_SIMULATED;
    return holding_is_old(&sweep->holding) ? 1 : SINCE_HOLDINGS;
}

void sweep_write(const struct sweep *sweep, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_string(&writer, "format", "weir.sweep");
    json_put_u64(&writer, "version", version_of(sweep));
    json_begin_object(&writer, "profile", JSON_INLINE);
    json_put_string(&writer, "model", sweep->model);
    json_put_string(&writer, "hash", sweep->profile_hash);
    json_close(&writer);
    cluster_write_part(sweep->cluster, &writer, "cluster");
    holding_write(&sweep->holding, &writer);
    json_put_u64(&writer, "budget", sweep->budget);
    json_begin_array(&writer, "rows", JSON_LINES);
    for (size_t i = 0; i < sweep->count; i++)
        write_row(&writer, &sweep->rows[i]);
    json_close(&writer);
    json_put_string(&writer, "stopped", sweep->stopped);
    if (sweep->notes)
        json_put_string(&writer, "notes", sweep->notes);
    json_close(&writer);
}

// --- reading -------------------------------------------------------------------

// A row says nothing that its outcome denies.
static void check_row(struct json *object, const struct sweep_row *row)
{
    const bool planned = row->outcome == SWEEP_PLANNED;
    if (!planned && (row->iteration_ns || row->micro_batch_ns || row->peak_bytes || row->proved))
        json_refuse_key(object, "outcome", "is \"%s\", but there is a plan", sweep_outcome_names[row->outcome]);
    else if (!planned && (row->is_on_front || row->is_best || row->is_best_of_m))
        json_refuse_key(object, "outcome", "is \"%s\", but the row is among the best",
                        sweep_outcome_names[row->outcome]);
    else if (row->lower_bound_ns > row->iteration_ns)
        json_refuse_key(object, "lower_bound_ns", "is %llu, above the iteration, %llu",
                        (unsigned long long)row->lower_bound_ns, (unsigned long long)row->iteration_ns);
    else if (row->is_best && !row->is_on_front)
        json_refuse_key(object, "best", "is true, but the row is not on the front");
}

// Documents before the third version have it of no row.
static bool read_only_simulated(struct json *object, unsigned version, const char *schedule)
{
    if (version < SINCE_ONLY_SIMULATED)
        return sweep_only_simulates(schedule);
    return json_has(object, "only_simulated") && json_bool(object, "only_simulated");
}

static void read_row(struct json *object, unsigned version, struct sweep_row *row)
{
    json_item_object(object);
    json_string_into(object, "schedule", row->schedule, sizeof row->schedule);
    row->weights = (enum weights)json_choice(object, "weights", weights_names);
    row->class = (enum sweep_class)json_choice(object, "class", sweep_class_names);
    row->ranks = (uint32_t)json_u64(object, "ranks", 1, MOST_RANKS);
    row->chunks = (uint32_t)json_u64(object, "chunks", 1, MOST_RANKS);
    row->micro_batches = (uint32_t)json_u64(object, "micro_batches", 1, UINT32_MAX);
    row->outcome = (enum sweep_outcome)json_choice(object, "outcome", sweep_outcome_names);
    row->iteration_ns = json_u64(object, "iteration_ns", 0, JSON_MAX);
    row->micro_batch_ns = json_u64(object, "micro_batch_ns", 0, JSON_MAX);
    row->lower_bound_ns = json_u64(object, "lower_bound_ns", 0, JSON_MAX);
    row->peak_bytes = json_u64(object, "peak_bytes", 0, JSON_MAX);
    row->rank = (uint32_t)json_u64(object, "rank", 0, MOST_RANKS);
    row->lacks_bytes = json_u64(object, "lacks_bytes", 0, JSON_MAX);
    row->bubble = json_fraction(object, "bubble");
    row->proved = json_bool(object, "proved");
    row->is_on_front = json_bool(object, "front");
    row->is_best = json_bool(object, "best");
    row->is_best_of_m = json_bool(object, "best_of_micro_batches");
    row->only_simulated = read_only_simulated(object, version, row->schedule);
    json_string_into(object, "reason", row->reason, sizeof row->reason);
    check_row(object, row);
    json_end(object);
}

static bool read_rows(struct json *root, unsigned version, struct sweep *sweep, struct error *error)
{
    struct json rows = json_array(root, "rows"), item;
    if (rows.node && json_count(&rows) > MOST_ROWS)
        json_refuse(&rows, "holds %zu rows, more than %d", json_count(&rows), MOST_ROWS);
    if (!json_ok(root->document, error))
        return false;
    sweep->rows = calloc(json_count(&rows) + 1, sizeof sweep->rows[0]);
    if (!sweep->rows)
        return error_no_memory(error, "a sweep");
    while (json_next(&rows, &item))
        read_row(&item, version, &sweep->rows[sweep->count++]);
    return json_ok(root->document, error);
}

static bool read_head(struct json *root, unsigned *version, struct sweep *sweep, struct error *error)
{
    *version = (unsigned)json_format(root, "weir.sweep", SWEEP_NEWEST_VERSION);
    struct json profile = json_object(root, "profile");
    sweep->model = strdup(json_string(&profile, "model"));
    if (!sweep->model)
        return error_no_memory(error, "a sweep");
    json_string_into(&profile, "hash", sweep->profile_hash, sizeof sweep->profile_hash);
    json_end(&profile);
    struct json cluster = json_object(root, "cluster");
    if (!json_ok(root->document, error))
        return false;
    sweep->cluster = cluster_read_part(&cluster, error);
    if (!sweep->cluster)
        return false;
    json_end(&cluster);
    holding_read(root, *version, SINCE_HOLDINGS, &sweep->holding);
    sweep->budget = json_u64(root, "budget", 1, JSON_MAX);
    return json_ok(root->document, error);
}

static bool read_sweep(struct json_document *document, struct sweep *sweep, struct error *error)
{
    struct json root = json_root(document);
    unsigned version = 0;
    if (!read_head(&root, &version, sweep, error) || !read_rows(&root, version, sweep, error))
        return false;
    json_string_into(&root, "stopped", sweep->stopped, sizeof sweep->stopped);
    if (json_has(&root, "notes")) {
        sweep->notes = strdup(json_string(&root, "notes"));
        if (!sweep->notes)
            return error_no_memory(error, "the notes of a sweep");
    }
    json_end(&root);
    return json_ok(document, error);
}

struct sweep *sweep_read(const char *text, size_t length, const char *name, struct error *error)
{
    struct json_document *document = json_parse(text, length, name, error);
    struct sweep *sweep = document ? calloc(1, sizeof *sweep) : NULL;
    if (document && !sweep)
        error_no_memory(error, "a sweep");
    if (sweep && !read_sweep(document, sweep, error)) {
        sweep_free(sweep);
        sweep = NULL;
    }
    json_free(document);
    return sweep;
}
