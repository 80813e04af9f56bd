// Writes the explanation document: docs/formats/explanation.md.
#include "common/json.h"
#include "partitioner/experts/expert_words.h"
#include "partitioner/explain/explain.h"

static void write_load(struct json_writer *writer, const char *key, const struct balance *balance, uint32_t rank)
{
    const struct rank_load *load = &balance->of[rank];
    struct text name = { 0 };
    balance_name_rank(balance, rank, &name);
    writer->text->failed |= name.failed;
    json_begin_object(writer, key, JSON_LINES);
    json_put_u64(writer, "rank", rank);
    json_put_string(writer, "name", name.failed ? "" : name.data);
    text_clear(&name);
    json_put_u64(writer, "busy_ns", load->busy_ns);
    json_put_u64(writer, "recompute_ns", load->recompute_ns);
    json_put_u64(writer, "first_ns", load->first_ns);
    json_put_u64(writer, "last_ns", load->last_ns);
    json_put_u64(writer, "peak_bytes", load->peak_bytes);
    json_put_u64(writer, "capacity_bytes", load->capacity_bytes);
    json_close(writer);
}

static void write_path(struct json_writer *writer, const struct explanation *explanation)
{
    const struct plan_path *path = &explanation->path;
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
        if (explanation->within_ns[s] > 0)
            json_put_u64(writer, "exchange_ns", explanation->within_ns[s]);
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
    if (path->exchanging_ns > 0)
        json_put_u64(writer, "exchanging_ns", path->exchanging_ns);
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
    json_put_string(writer, "outcome", sweep_outcome_names[row->found.outcome]);
    json_put_string(writer, "schedule", row->schedule);
    json_put_u64(writer, "ranks", row->ranks);
    json_put_u64(writer, "chunks", row->chunks);
    json_put_u64(writer, "micro_batches", row->micro_batches);
    json_put_u64(writer, "iteration_ns", row->found.iteration_ns);
    json_put_u64(writer, "micro_batch_ns", row->found.micro_batch_ns);
    json_put_u64(writer, "lower_bound_ns", row->found.lower_bound_ns);
    json_put_bool(writer, "proved", row->found.proved);
    json_put_u64(writer, "peak_bytes", row->found.peak_bytes);
    json_put_u64(writer, "rank", row->found.rank);
    json_put_u64(writer, "lacks_bytes", row->found.lacks_bytes);
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
    const struct plan *plan = explanation->plan;
    json_put_format(writer, "weir.explanation");
    json_begin_object(writer, "profile", JSON_INLINE);
    json_put_string(writer, "model", plan->model);
    json_put_string(writer, "hash", plan->profile_hash);
    json_close(writer);
    json_begin_object(writer, "schedule", JSON_INLINE);
    json_put_string(writer, "name", plan->schedule);
    json_put_u64(writer, "ranks", plan->ranks);
    json_put_u64(writer, "chunks", plan->chunks);
    json_put_u64(writer, "micro_batches", plan->micro_batches);
    json_close(writer);
    json_put_u64(writer, "iteration_ns", plan->iteration_ns);
    json_put_u64(writer, "lower_bound_ns", explanation->bound_ns);
    json_put_u64(writer, "budget", explanation->budget);
    json_begin_object(writer, "unchanged", JSON_LINES);
    put_row(writer, &explanation->unchanged);
    json_close(writer);
    json_put_bool(writer, "is_beaten", explanation->is_beaten);
}

static void write_experts(struct json_writer *writer, const struct uneven_experts *experts)
{
    json_begin_object(writer, "experts", JSON_INLINE);
    json_put_string(writer, "name", experts->name);
    json_put_u64(writer, "stage", experts->stage);
    json_put_u64(writer, "slowest_milli", experts->slowest_milli);
    json_put_u64(writer, "dropped_ppm", experts->dropped_ppm);
    if (experts->count > 0) {
        json_put_u64(writer, "busiest", experts->busiest);
        json_put_u64(writer, "busiest_milli", experts->busiest_milli);
        json_begin_array(writer, "copied", JSON_INLINE);
        for (uint32_t e = 0; e < experts->count; e++)
            if (expert_words_copy(experts->variant, experts->number, e))
                json_put_u64(writer, NULL, e);
        json_close(writer);
    }
    json_close(writer);
}

static void write_facts(struct json_writer *writer, const struct explanation *explanation)
{
    const struct balance *balance = &explanation->balance;
    json_begin_object(writer, "binding", JSON_INLINE);
    json_put_string(writer, "kind", binding_names[explanation->binding]);
    json_put_string(writer, "name", explanation->binding_name);
    json_put_fraction(writer, "lead", explanation->lead);
    json_close(writer);
    write_load(writer, "busiest", balance, balance->busiest);
    json_put_u64(writer, "mean_busy_ns", balance_mean_busy_ns(balance));
    json_put_u64(writer, "next_busy_ns", balance_next_busy_ns(balance));
    write_load(writer, "tightest", balance, balance->tightest);
    write_path(writer, explanation);
    json_begin_object(writer, "largest_layer", JSON_INLINE);
    json_put_string(writer, "name", explanation->layer.name);
    json_put_u64(writer, "stage", explanation->layer.stage);
    json_put_u64(writer, "ns", explanation->layer.ns);
    json_put_fraction(writer, "share", explanation->layer.share);
    json_close(writer);
    if (explanation->experts.slowest_milli == 0)
        return;
    write_experts(writer, &explanation->experts);
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
    json_close(&writer);
}
