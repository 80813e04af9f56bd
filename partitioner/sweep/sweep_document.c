// Writes the sweep document: docs/formats/sweep.md.
#include "common/json.h"
#include "partitioner/sweep/sweep.h"

static void write_row(struct json_writer *writer, const struct sweep_row *row)
{
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_string(writer, "schedule", row->schedule);
    json_put_string(writer, "weights", weights_names[row->weights]);
    json_put_string(writer, "class", sweep_class_names[row->class]);
    json_put_u64(writer, "ranks", row->ranks);
    json_put_u64(writer, "chunks", row->chunks);
    json_put_u64(writer, "micro_batches", row->micro_batches);
    json_put_string(writer, "outcome", sweep_outcome_names[row->found.outcome]);
    json_put_u64(writer, "iteration_ns", row->found.iteration_ns);
    json_put_u64(writer, "micro_batch_ns", row->found.micro_batch_ns);
    json_put_u64(writer, "lower_bound_ns", row->found.lower_bound_ns);
    json_put_u64(writer, "peak_bytes", row->found.peak_bytes);
    json_put_u64(writer, "rank", row->found.rank);
    json_put_u64(writer, "lacks_bytes", row->found.lacks_bytes);
    json_put_fraction(writer, "bubble", row->found.bubble);
    json_put_bool(writer, "proved", row->found.proved);
    json_put_bool(writer, "front", row->is_on_front);
    json_put_bool(writer, "best", row->is_best);
    json_put_bool(writer, "best_of_micro_batches", row->is_best_of_m);
    if (row->only_simulated)
        json_put_bool(writer, "only_simulated", true);
    json_put_string(writer, "reason", row->reason);
    json_close(writer);
}

void sweep_write(const struct sweep *sweep, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.sweep");
    json_begin_object(&writer, "profile", JSON_INLINE);
    json_put_string(&writer, "model", sweep->model);
    json_put_string(&writer, "hash", sweep->profile_hash);
    json_close(&writer);
    cluster_write_part(sweep->cluster, &writer, "cluster");
    storage_write(&sweep->storage, &writer);
    json_put_u64(&writer, "budget", sweep->budget);
    json_begin_array(&writer, "rows", JSON_LINES);
    for (size_t i = 0; i < sweep->count; i++)
        write_row(&writer, &sweep->rows[i]);
    json_close(&writer);
    json_put_string(&writer, "stopped", sweep->stopped);
    json_close(&writer);
}
