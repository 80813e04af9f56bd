// The explanation document: docs/formats/explanation.md.
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "partitioner/explain/explain.h"

#define EXPLANATION_VERSION 1
#define MOST_RANKS 65536
#define MOST_ROWS 100000

// --- writing -------------------------------------------------------------------------

static void write_load(struct json_writer *writer, const char *key, uint32_t rank, const char *name,
                       const struct rank_load *load)
{
    json_begin_object(writer, key, JSON_LINES);
    json_put_u64(writer, "rank", rank);
    json_put_string(writer, "name", name);
    json_put_u64(writer, "busy_ns", load->busy_ns);
    json_put_u64(writer, "recompute_ns", load->recompute_ns);
    json_put_u64(writer, "first_ns", load->first_ns);
    json_put_u64(writer, "last_ns", load->last_ns);
    json_put_u64(writer, "peak_bytes", load->peak_bytes);
    json_put_u64(writer, "capacity_bytes", load->capacity_bytes);
    json_close(writer);
}

static void write_path(struct json_writer *writer, const struct plan_path *path)
{
    json_begin_object(writer, "critical_path", JSON_LINES);
    json_put_u64(writer, "micro_batches", path->micro_batches);
    json_put_u64(writer, "run_ns", path->run_ns);
    json_begin_array(writer, "stages", JSON_LINES);
    for (size_t s = 0; s < path->stage_count; s++) {
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_u64(writer, "stage", s);
        json_put_u64(writer, "actions", path->stages[s].actions);
        json_put_u64(writer, "compute_ns", path->stages[s].compute_ns);
        json_put_u64(writer, "recompute_ns", path->stages[s].recompute_ns);
        json_close(writer);
    }
    json_close(writer);
    json_begin_array(writer, "links", path->link_count ? JSON_LINES : JSON_INLINE);
    for (size_t i = 0; i < path->link_count; i++) {
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_u64(writer, "from", path->links[i].from);
        json_put_u64(writer, "to", path->links[i].to);
        json_put_u64(writer, "messages", path->links[i].messages);
        json_put_u64(writer, "ns", path->links[i].ns);
        json_close(writer);
    }
    json_close(writer);
    json_put_u64(writer, "waiting_ns", path->waiting_ns);
    json_close(writer);
}

static void write_neighbour(struct json_writer *writer, const struct neighbour *neighbour)
{
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_string(writer, "kind", neighbour_kind_names[neighbour->kind]);
    json_put_u64(writer, "stage", neighbour->stage);
    json_put_string(writer, "layer", neighbour->layer);
    json_put_string(writer, "outcome", neighbour_outcome_names[neighbour->outcome]);
    json_put_u64(writer, "iteration_ns", neighbour->iteration_ns);
    json_put_u64(writer, "rank", neighbour->rank);
    json_put_u64(writer, "lacks_bytes", neighbour->lacks_bytes);
    json_close(writer);
}

static void put_row(struct json_writer *writer, const struct sweep_row *row)
{
    json_put_string(writer, "outcome", sweep_outcome_names[row->outcome]);
    json_put_string(writer, "schedule", row->schedule);
    json_put_u64(writer, "ranks", row->ranks);
    json_put_u64(writer, "chunks", row->chunks);
    json_put_u64(writer, "micro_batches", row->micro_batches);
    json_put_u64(writer, "iteration_ns", row->iteration_ns);
    json_put_u64(writer, "micro_batch_ns", row->micro_batch_ns);
    json_put_u64(writer, "lower_bound_ns", row->lower_bound_ns);
    json_put_bool(writer, "proved", row->proved);
    json_put_u64(writer, "peak_bytes", row->peak_bytes);
    json_put_u64(writer, "rank", row->rank);
    json_put_u64(writer, "lacks_bytes", row->lacks_bytes);
}

static void write_change(struct json_writer *writer, const struct what_if *change)
{
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_string(writer, "kind", what_if_kind_names[change->kind]);
    json_put_u64(writer, "at", change->at);
    json_put_u64(writer, "more_bytes", change->more_bytes);
    json_put_string(writer, "change", change->change);
    json_put_string(writer, "option", change->option);
    put_row(writer, &change->row);
    json_put_fraction(writer, "gain", change->gain);
    json_put_fraction(writer, "least_gain", change->least_gain);
    json_put_fraction(writer, "most_gain", change->most_gain);
    json_close(writer);
}

static void write_head(struct json_writer *writer, const struct explanation *explanation)
{
    json_put_string(writer, "format", "weir.explanation");
    json_put_u64(writer, "version", EXPLANATION_VERSION);
    json_begin_object(writer, "profile", JSON_INLINE);
    json_put_string(writer, "model", explanation->model);
    json_put_string(writer, "hash", explanation->profile_hash);
    json_close(writer);
    json_begin_object(writer, "schedule", JSON_INLINE);
    json_put_string(writer, "name", explanation->schedule);
    json_put_u64(writer, "ranks", explanation->ranks);
    json_put_u64(writer, "chunks", explanation->chunks);
    json_put_u64(writer, "micro_batches", explanation->micro_batches);
    json_close(writer);
    json_put_u64(writer, "iteration_ns", explanation->iteration_ns);
    json_put_u64(writer, "lower_bound_ns", explanation->lower_bound_ns);
    json_put_u64(writer, "budget", explanation->budget);
    json_begin_object(writer, "unchanged", JSON_LINES);
    put_row(writer, &explanation->unchanged);
    json_close(writer);
    json_put_bool(writer, "is_beaten", explanation->is_beaten);
}

static void write_facts(struct json_writer *writer, const struct explanation *explanation)
{
    json_begin_object(writer, "binding", JSON_INLINE);
    json_put_string(writer, "kind", binding_names[explanation->binding]);
    json_put_string(writer, "name", explanation->binding_name);
    json_put_fraction(writer, "lead", explanation->lead);
    json_close(writer);
    write_load(writer, "busiest", explanation->busiest_rank, explanation->busiest_name, &explanation->busiest);
    json_put_u64(writer, "mean_busy_ns", explanation->mean_busy_ns);
    json_put_u64(writer, "next_busy_ns", explanation->next_busy_ns);
    write_load(writer, "tightest", explanation->tightest_rank, explanation->tightest_name, &explanation->tightest);
    write_path(writer, &explanation->path);
    json_begin_object(writer, "largest_layer", JSON_INLINE);
    json_put_string(writer, "name", explanation->layer.name);
    json_put_u64(writer, "stage", explanation->layer.stage);
    json_put_u64(writer, "ns", explanation->layer.ns);
    json_put_fraction(writer, "share", explanation->layer.share);
    json_close(writer);
}

void explanation_write(const struct explanation *explanation, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    write_head(&writer, explanation);
    write_facts(&writer, explanation);
    json_begin_array(&writer, "neighbours", explanation->neighbour_count ? JSON_LINES : JSON_INLINE);
    for (size_t i = 0; i < explanation->neighbour_count; i++)
        write_neighbour(&writer, &explanation->neighbours[i]);
    json_close(&writer);
    json_begin_array(&writer, "changes", explanation->change_count ? JSON_LINES : JSON_INLINE);
    for (size_t i = 0; i < explanation->change_count; i++)
        write_change(&writer, &explanation->changes[i]);
    json_close(&writer);
    json_put_string(&writer, "stopped", explanation->stopped);
    if (explanation->notes)
        json_put_string(&writer, "notes", explanation->notes);
    json_close(&writer);
}

// --- reading -------------------------------------------------------------------------

static uint32_t read_count(struct json *object, const char *key, uint64_t least, uint64_t most)
{
    return (uint32_t)json_u64(object, key, least, most);
}

static uint64_t read_number(struct json *object, const char *key)
{
    return json_u64(object, key, 0, JSON_MAX);
}

static void read_load(struct json *parent, const char *key, uint32_t *rank, char name[80], struct rank_load *load)
{
    struct json object = json_object(parent, key);
    *rank = read_count(&object, "rank", 0, MOST_RANKS);
    json_string_into(&object, "name", name, 80);
    load->busy_ns = read_number(&object, "busy_ns");
    load->recompute_ns = read_number(&object, "recompute_ns");
    load->first_ns = read_number(&object, "first_ns");
    load->last_ns = read_number(&object, "last_ns");
    load->peak_bytes = read_number(&object, "peak_bytes");
    load->capacity_bytes = read_number(&object, "capacity_bytes");
    json_end(&object);
}

// Room for the items of an array; `*items` is freed with the explanation.
static bool read_array(struct json *object, const char *key, struct json *array, size_t size, void **items,
                       struct error *error)
{
    *array = json_array(object, key);
    if (array->node && json_count(array) > MOST_ROWS)
        json_refuse(array, "holds %zu rows, more than %d", json_count(array), MOST_ROWS);
    if (!json_ok(object->document, error))
        return false;
    *items = calloc(json_count(array) + 1, size);
    return *items || error_no_memory(error, "an explanation");
}

static bool read_path(struct json *root, struct plan_path *path, struct error *error)
{
    struct json object = json_object(root, "critical_path"), array, item;
    path->micro_batches = read_count(&object, "micro_batches", 1, UINT32_MAX);
    path->run_ns = read_number(&object, "run_ns");
    if (!read_array(&object, "stages", &array, sizeof path->stages[0], (void **)&path->stages, error))
        return false;
    while (json_next(&array, &item)) {
        json_item_object(&item);
        struct path_stage *stage = &path->stages[path->stage_count];
        if (json_u64(&item, "stage", 0, MOST_ROWS) != path->stage_count)
            json_refuse_key(&item, "stage", "is not %zu, the next", path->stage_count);
        path->stage_count++;
        stage->actions = read_count(&item, "actions", 0, UINT32_MAX);
        stage->compute_ns = read_number(&item, "compute_ns");
        stage->recompute_ns = read_number(&item, "recompute_ns");
        json_end(&item);
    }
    if (!read_array(&object, "links", &array, sizeof path->links[0], (void **)&path->links, error))
        return false;
    while (json_next(&array, &item)) {
        json_item_object(&item);
        struct path_link *link = &path->links[path->link_count++];
        link->from = read_count(&item, "from", 0, MOST_RANKS);
        link->to = read_count(&item, "to", 0, MOST_RANKS);
        link->messages = read_count(&item, "messages", 0, UINT32_MAX);
        link->ns = read_number(&item, "ns");
        json_end(&item);
    }
    path->waiting_ns = read_number(&object, "waiting_ns");
    json_end(&object);
    return json_ok(root->document, error);
}

static void read_row(struct json *object, struct sweep_row *row)
{
    row->outcome = (enum sweep_outcome)json_choice(object, "outcome", sweep_outcome_names);
    json_string_into(object, "schedule", row->schedule, sizeof row->schedule);
    row->ranks = read_count(object, "ranks", 1, MOST_RANKS);
    row->chunks = read_count(object, "chunks", 1, MOST_RANKS);
    row->micro_batches = read_count(object, "micro_batches", 1, UINT32_MAX);
    row->iteration_ns = read_number(object, "iteration_ns");
    row->micro_batch_ns = read_number(object, "micro_batch_ns");
    row->lower_bound_ns = read_number(object, "lower_bound_ns");
    row->proved = json_bool(object, "proved");
    row->peak_bytes = read_number(object, "peak_bytes");
    row->rank = read_count(object, "rank", 0, MOST_RANKS);
    row->lacks_bytes = read_number(object, "lacks_bytes");
    if (row->lower_bound_ns > row->iteration_ns)
        json_refuse_key(object, "lower_bound_ns", "is %llu, above the iteration, %llu",
                        (unsigned long long)row->lower_bound_ns, (unsigned long long)row->iteration_ns);
}

static bool read_neighbours(struct json *root, struct explanation *explanation, struct error *error)
{
    struct json array, item;
    if (!read_array(root, "neighbours", &array, sizeof explanation->neighbours[0], (void **)&explanation->neighbours,
                    error))
        return false;
    while (json_next(&array, &item)) {
        json_item_object(&item);
        struct neighbour *neighbour = &explanation->neighbours[explanation->neighbour_count++];
        neighbour->kind = (enum neighbour_kind)json_choice(&item, "kind", neighbour_kind_names);
        neighbour->stage = read_count(&item, "stage", 0, MOST_ROWS);
        json_string_into(&item, "layer", neighbour->layer, sizeof neighbour->layer);
        neighbour->outcome = (enum neighbour_outcome)json_choice(&item, "outcome", neighbour_outcome_names);
        neighbour->iteration_ns = read_number(&item, "iteration_ns");
        neighbour->rank = read_count(&item, "rank", 0, MOST_RANKS);
        neighbour->lacks_bytes = read_number(&item, "lacks_bytes");
        json_end(&item);
    }
    return json_ok(root->document, error);
}

static bool read_changes(struct json *root, struct explanation *explanation, struct error *error)
{
    struct json array, item;
    if (!read_array(root, "changes", &array, sizeof explanation->changes[0], (void **)&explanation->changes, error))
        return false;
    while (json_next(&array, &item)) {
        json_item_object(&item);
        struct what_if *change = &explanation->changes[explanation->change_count++];
        change->kind = (enum what_if_kind)json_choice(&item, "kind", what_if_kind_names);
        change->at = read_count(&item, "at", 0, MOST_RANKS);
        change->more_bytes = read_number(&item, "more_bytes");
        json_string_into(&item, "change", change->change, sizeof change->change);
        json_string_into(&item, "option", change->option, sizeof change->option);
        read_row(&item, &change->row);
        change->gain = json_fraction(&item, "gain");
        change->least_gain = json_fraction(&item, "least_gain");
        change->most_gain = json_fraction(&item, "most_gain");
        json_end(&item);
    }
    return json_ok(root->document, error);
}

static bool read_head(struct json *root, struct explanation *explanation, struct error *error)
{
    json_format(root, "weir.explanation", EXPLANATION_VERSION);
    struct json profile = json_object(root, "profile"), schedule, unchanged;
    explanation->model = strdup(json_string(&profile, "model"));
    if (!explanation->model)
        return error_no_memory(error, "an explanation");
    json_string_into(&profile, "hash", explanation->profile_hash, sizeof explanation->profile_hash);
    json_end(&profile);
    schedule = json_object(root, "schedule");
    json_string_into(&schedule, "name", explanation->schedule, sizeof explanation->schedule);
    explanation->ranks = read_count(&schedule, "ranks", 1, MOST_RANKS);
    explanation->chunks = read_count(&schedule, "chunks", 1, MOST_RANKS);
    explanation->micro_batches = read_count(&schedule, "micro_batches", 1, UINT32_MAX);
    json_end(&schedule);
    explanation->iteration_ns = read_number(root, "iteration_ns");
    explanation->lower_bound_ns = read_number(root, "lower_bound_ns");
    explanation->budget = json_u64(root, "budget", 1, JSON_MAX);
    unchanged = json_object(root, "unchanged");
    read_row(&unchanged, &explanation->unchanged);
    json_end(&unchanged);
    explanation->is_beaten = json_bool(root, "is_beaten");
    return json_ok(root->document, error);
}

static bool read_facts(struct json *root, struct explanation *explanation, struct error *error)
{
    struct json binding = json_object(root, "binding");
    explanation->binding = (enum binding)json_choice(&binding, "kind", binding_names);
    json_string_into(&binding, "name", explanation->binding_name, sizeof explanation->binding_name);
    explanation->lead = json_fraction(&binding, "lead");
    json_end(&binding);
    read_load(root, "busiest", &explanation->busiest_rank, explanation->busiest_name, &explanation->busiest);
    explanation->mean_busy_ns = read_number(root, "mean_busy_ns");
    explanation->next_busy_ns = read_number(root, "next_busy_ns");
    read_load(root, "tightest", &explanation->tightest_rank, explanation->tightest_name, &explanation->tightest);
    if (!read_path(root, &explanation->path, error))
        return false;
    struct json layer = json_object(root, "largest_layer");
    json_string_into(&layer, "name", explanation->layer.name, sizeof explanation->layer.name);
    explanation->layer.stage = read_count(&layer, "stage", 0, MOST_ROWS);
    explanation->layer.ns = read_number(&layer, "ns");
    explanation->layer.share = json_fraction(&layer, "share");
    json_end(&layer);
    return json_ok(root->document, error);
}

static bool read_explanation(struct json_document *document, struct explanation *explanation, struct error *error)
{
    struct json root = json_root(document);
    if (!read_head(&root, explanation, error) || !read_facts(&root, explanation, error)
        || !read_neighbours(&root, explanation, error) || !read_changes(&root, explanation, error))
        return false;
    json_string_into(&root, "stopped", explanation->stopped, sizeof explanation->stopped);
    if (json_has(&root, "notes")) {
        explanation->notes = strdup(json_string(&root, "notes"));
        if (!explanation->notes)
            return error_no_memory(error, "the notes of an explanation");
    }
    json_end(&root);
    return json_ok(document, error);
}

struct explanation *explanation_read(const char *text, size_t length, const char *name, struct error *error)
{
    struct json_document *document = json_parse(text, length, name, error);
    struct explanation *explanation = document ? calloc(1, sizeof *explanation) : NULL;
    if (document && !explanation)
        error_no_memory(error, "an explanation");
    if (explanation && !read_explanation(document, explanation, error)) {
        explanation_free(explanation);
        explanation = NULL;
    }
    json_free(document);
    return explanation;
}
