// The simulation document: docs/formats/simulation.md.
#include "common/json.h"
#include "schedules/simulation_extras.h"

bool simulation_fits_document(const struct simulation *simulation, struct error *error)
{
    if (simulation->iteration_ns > JSON_MAX)
        return error_set(error, "an iteration takes more than 2^53 - 1 ns, 104 days: its costs or the cluster's latency"
                                " are too high");
    for (uint32_t rank = 0; rank < simulation->ranks; rank++)
        if (simulation->per_rank[rank].live_peak_bytes > JSON_MAX)
            return error_set(error, "rank %u would hold more than 2^53 - 1 bytes: what its stages keep is too much",
                             rank);
    return true;
}

void bubble_write(const struct bubble *bubble, struct json_writer *writer)
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

static void write_lanes(struct json_writer *writer, const struct lane_world_result *lanes, const char *receives)
{
    static const char *const uses[] = { [LANES_FREE] = "free", [LANES_ONE] = "one_lane", [LANES_NONE] = "no_overlap" };
    json_begin_object(writer, "lanes", JSON_LINES);
    json_put_string(writer, "messages", uses[lanes->rules.use]);
    json_put_string(writer, "receives", receives);
    json_put_u64(writer, "capacity", lanes->rules.capacity);
    json_put_bool(writer, "grouped", lanes->rules.grouped);
    json_put_u64(writer, "iteration_ns", lanes->iteration_ns);
    json_put_fraction(writer, "price", lane_world_price(lanes));
    json_begin_array(writer, "per_rank", JSON_LINES);
    for (uint32_t rank = 0; rank < lanes->ranks; rank++) {
        const struct lane_world_rank *result = &lanes->per_rank[rank];
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_u64(writer, "rank", rank);
        json_put_u64(writer, "first_ns", result->first_ns);
        json_put_u64(writer, "last_ns", result->last_ns);
        json_put_u64(writer, "busy_ns", result->busy_ns);
        json_put_u64(writer, "held_ns", result->held_ns);
        json_close(writer);
    }
    json_close(writer);
    json_close(writer);
}

static void write_noise(struct json_writer *writer, const struct noise_result *noise)
{
    json_begin_object(writer, "noise", JSON_LINES);
    json_put_u64(writer, "ppm", noise->request.ppm);
    json_put_u64(writer, "trials", noise->request.trials);
    json_put_u64(writer, "seed", noise->request.seed);
    json_put_u64(writer, "planned_ns", noise->planned_ns);
    json_put_u64(writer, "min_ns", noise->min_ns);
    json_put_u64(writer, "median_ns", noise->median_ns);
    json_put_u64(writer, "mean_ns", noise->mean_ns);
    json_put_u64(writer, "p95_ns", noise->p95_ns);
    json_put_u64(writer, "max_ns", noise->max_ns);
    json_close(writer);
}

void simulation_write(const struct simulation *simulation, const struct schedule *schedule, struct text *text)
{
    simulation_write_with(simulation, schedule, &(struct simulation_extras){ .lanes = NULL }, text);
}

void simulation_write_with(const struct simulation *simulation, const struct schedule *schedule,
                           const struct simulation_extras *extras, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.simulation");
    json_put_string(&writer, "schedule", schedule->name);
    json_put_u64(&writer, "ranks", schedule->ranks);
    json_put_u64(&writer, "stages", schedule->stages);
    json_put_u64(&writer, "micro_batches", schedule->micro_batches);
    json_put_string(&writer, "weights", weights_names[schedule->weights]);
    json_put_u64(&writer, "iteration_ns", simulation->iteration_ns);
    json_put_u64(&writer, "max_span_ns", simulation->max_span_ns);
    bubble_write(&simulation->bubble, &writer);
    write_critical_path(&writer, &simulation->critical_path);
    write_ranks(&writer, simulation);
    if (extras->lanes)
        write_lanes(&writer, extras->lanes, extras->receives);
    if (extras->noise)
        write_noise(&writer, extras->noise);
    json_close(&writer);
}
