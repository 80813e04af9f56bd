// The comparison document: docs/formats/comparison.md.
#include "common/json.h"
#include "schedules/compare/comparison.h"

static void write_side(struct json_writer *writer, const char *key, const struct simulation *simulation,
                       uint64_t iteration_ns)
{
    json_begin_object(writer, key, JSON_LINES);
    json_put_u64(writer, "iteration_ns", iteration_ns);
    bubble_write(&simulation->bubble, writer);
    json_close(writer);
}

static void write_ranks(struct json_writer *writer, const struct comparison *comparison)
{
    json_begin_array(writer, "per_rank", JSON_LINES);
    for (uint32_t rank = 0; rank < comparison->run->simulation.ranks; rank++) {
        const struct rank_result *result = &comparison->run->simulation.per_rank[rank];
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_u64(writer, "rank", rank);
        json_put_u64(writer, "predicted_busy_ns", comparison->predicted.per_rank[rank].busy_ns);
        json_put_u64(writer, "measured_busy_ns", result->busy_ns);
        json_put_u64(writer, "predicted_peak_bytes", comparison->predicted_peaks[rank]);
        if (result->live_peak_bytes > 0)
            json_put_u64(writer, "measured_peak_bytes", result->live_peak_bytes);
        json_close(writer);
    }
    json_close(writer);
}

static void write_rows(struct json_writer *writer, const struct deviation *deviation)
{
    json_begin_array(writer, "actions", JSON_LINES);
    for (size_t i = 0; i < deviation->row_count; i++) {
        const struct deviation_row *row = &deviation->rows[i];
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_u64(writer, "stage", row->stage);
        json_put_string(writer, "kind", deviation_kind(row->kind));
        json_put_u64(writer, "count", row->count);
        json_put_u64(writer, "predicted_ns", row->planned_ns);
        json_put_u64(writer, "measured_ns", row->measured_ns);
        json_close(writer);
    }
    json_close(writer);
}

static void write_causes(struct json_writer *writer, const struct deviation *deviation)
{
    json_begin_array(writer, "causes", JSON_LINES);
    for (size_t i = 0; i < deviation->cause_count; i++) {
        const struct deviation_cause *cause = &deviation->causes[i];
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_string(writer, "cause", cause_name(cause->kind));
        const bool is_exchange = cause->kind == CAUSE_EXCHANGE || cause->kind == CAUSE_WITHIN;
        if (cause->kind == CAUSE_STAGE || is_exchange)
            json_put_u64(writer, "stage", cause->stage);
        if (is_exchange)
            json_put_bool(writer, "within", cause->kind == CAUSE_WITHIN);
        if (cause->kind == CAUSE_LINK) {
            json_put_u64(writer, "from", cause->from);
            json_put_u64(writer, "to", cause->to);
        }
        if (cause->kind == CAUSE_LINK || is_exchange || cause->kind == CAUSE_GAPS) {
            json_put_u64(writer, "predicted_ns", cause->planned_ns);
            json_put_u64(writer, "measured_ns", cause->measured_ns);
        }
        json_put_u64(writer, "iteration_ns", deviation->planned_ns + (uint64_t)cause->explains_ns);
        json_close(writer);
    }
    json_close(writer);
}

static void write_experts(struct json_writer *writer, const struct comparison *comparison)
{
    if (comparison->expert_count == 0)
        return;
    json_begin_array(writer, "experts", JSON_LINES);
    for (size_t i = 0; i < comparison->expert_count; i++) {
        const struct expert_usage *row = &comparison->experts[i];
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_string(writer, "layer", row->layer);
        json_put_u64(writer, "batches", row->batches);
        if (row->is_planned)
            json_put_u64(writer, "predicted_slowest_milli", row->planned_slowest_milli);
        if (row->slowest_milli > 0)
            json_put_u64(writer, "measured_slowest_milli", row->slowest_milli);
        if (row->is_planned)
            json_put_u64(writer, "predicted_dropped_ppm", row->planned_dropped_ppm);
        json_put_u64(writer, "measured_dropped_ppm", row->dropped_ppm);
        json_close(writer);
    }
    json_close(writer);
}

void comparison_write(const struct comparison *comparison, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.comparison");
    json_put_string(&writer, "schedule", comparison->schedule->name);
    write_side(&writer, "predicted", &comparison->predicted, comparison->deviation.planned_ns);
    write_side(&writer, "measured", &comparison->run->simulation, comparison->deviation.measured_ns);
    write_ranks(&writer, comparison);
    write_rows(&writer, &comparison->deviation);
    write_experts(&writer, comparison);
    write_causes(&writer, &comparison->deviation);
    json_put_u64(&writer, "together_ns", comparison->deviation.together_ns);
    json_close(&writer);
}
