// The simulation document: docs/formats/simulation.md.
#include "common/json.h"
#include "schedules/simulate.h"

static void write_bubble(struct json_writer *writer, const struct bubble *bubble)
{
    json_begin_object(writer, "bubble", JSON_INLINE);
    json_put_fraction(writer, "makespan", bubble->makespan);
    json_put_fraction(writer, "overhead", bubble->overhead);
    json_put_fraction(writer, "span", bubble->span);
    json_put_fraction(writer, "zb_rate", bubble->zb_rate);
    json_close(writer);
}

static void write_critical_path(struct json_writer *writer, const struct critical_path *path)
{
    json_begin_object(writer, "critical_path", JSON_LINES);
    json_put_u64(writer, "compute_ns", path->compute_ns);
    json_put_u64(writer, "recompute_ns", path->recompute_ns);
    json_put_u64(writer, "latency_ns", path->latency_ns);
    json_put_u64(writer, "transfer_ns", path->transfer_ns);
    json_put_u64(writer, "order_ns", path->order_ns);
    json_close(writer);
}

static void write_ranks(struct json_writer *writer, const struct simulation *simulation)
{
    json_begin_array(writer, "per_rank", JSON_LINES);
    for (uint32_t rank = 0; rank < simulation->ranks; rank++) {
        const struct rank_result *result = &simulation->per_rank[rank];
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_u64(writer, "rank", rank);
        json_put_u64(writer, "first_ns", result->first_ns);
        json_put_u64(writer, "last_ns", result->last_ns);
        json_put_u64(writer, "busy_ns", result->busy_ns);
        json_put_u64(writer, "live_peak_bytes", result->live_peak_bytes);
        json_put_u64(writer, "peak_in_flight", result->peak_in_flight);
        json_close(writer);
    }
    json_close(writer);
}

void simulation_write(const struct simulation *simulation, const struct schedule *schedule, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_string(&writer, "format", "weir.simulation");
    json_put_u64(&writer, "version", 1);
    json_put_string(&writer, "schedule", schedule->name);
    json_put_u64(&writer, "ranks", schedule->ranks);
    json_put_u64(&writer, "stages", schedule->stages);
    json_put_u64(&writer, "micro_batches", schedule->micro_batches);
    json_put_string(&writer, "weights", weights_names[schedule->weights]);
    json_put_u64(&writer, "iteration_ns", simulation->iteration_ns);
    json_put_u64(&writer, "max_span_ns", simulation->max_span_ns);
    write_bubble(&writer, &simulation->bubble);
    write_critical_path(&writer, &simulation->critical_path);
    write_ranks(&writer, simulation);
    json_close(&writer);
}
