// Writes the plan document: docs/formats/plan.md.
#include "common/json.h"
#include "partitioner/plan/plan_words.h"
#include "schedules/cost_row.h"

static void write_names(struct json_writer *writer, const char *key, char *const *names, size_t count)
{
    json_begin_array(writer, key, JSON_INLINE);
    for (size_t i = 0; i < count; i++)
        json_put_string(writer, NULL, names[i]);
    json_close(writer);
}

static void write_pinned(struct json_writer *writer, const struct plan_stage *stage)
{
    if (!stage->pinned)
        return;
    json_begin_array(writer, "pinned", JSON_INLINE);
    for (uint32_t i = 0; i < stage->end - stage->first; i++)
        if (stage->pinned[i])
            json_put_string(writer, NULL, stage->layers[i]);
    json_close(writer);
}

static void write_devices(struct json_writer *writer, const struct plan_stage *stage)
{
    json_begin_array(writer, "devices", JSON_INLINE);
    for (size_t i = 0; i < stage->device_count; i++) {
        json_begin_array(writer, NULL, JSON_INLINE);
        for (size_t j = 0; j < plan_stage_group(stage); j++)
            json_put_u64(writer, NULL, stage->devices[i * plan_stage_group(stage) + j]);
        json_close(writer);
    }
    json_close(writer);
}

static void write_stage(struct json_writer *writer, const struct plan *plan, size_t number)
{
    const struct plan_stage *stage = &plan->stages[number];
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_u64(writer, "stage", number);
    json_put_u64(writer, "first", stage->first);
    json_put_u64(writer, "end", stage->end);
    write_names(writer, "layers", stage->layers, stage->end - stage->first);
    write_pinned(writer, stage);
    write_devices(writer, stage);
    if (stage->variant)
        json_put_string(writer, "variant", stage->variant);
    else
        json_put_null(writer, "variant");
    json_begin_array(writer, "recompute", stage->recompute_count ? JSON_LINES : JSON_INLINE);
    for (size_t i = 0; i < stage->recompute_count; i++) {
        const struct segment segment = stage->recompute[i];
        write_names(writer, NULL, stage->layers + (segment.first - stage->first), segment.end - segment.first);
    }
    json_close(writer);
    cost_row_write(&stage->costs, writer, "costs");
    json_begin_object(writer, "memory", JSON_LINES);
    for (size_t i = 0; i < plan_memory_field_count(plan); i++) {
        const struct plan_field *field = &plan_memory_fields[i];
        json_put_u64(writer, field->key, *(const uint64_t *)((const char *)&stage->memory + field->offset));
    }
    json_close(writer);
    json_close(writer);
}

static void write_predicted(struct json_writer *writer, const struct plan *plan)
{
    json_begin_object(writer, "predicted", JSON_LINES);
    json_put_u64(writer, "iteration_ns", plan->iteration_ns);
    bubble_write(&plan->bubble, writer);
    json_put_u64(writer, "bottleneck_stage", plan->bottleneck_stage);
    json_close(writer);
}

void certificate_write(struct json_writer *writer, const struct certificate *certificate)
{
    json_begin_object(writer, "certificate", JSON_LINES);
    json_put_string(writer, "objective", certificate->objective);
    json_put_u64(writer, "value_ns", certificate->value_ns);
    json_put_u64(writer, "lower_bound_ns", certificate->lower_bound_ns);
    json_put_fraction(writer, "gap", certificate->gap);
    json_put_bool(writer, "proved", certificate->proved);
    json_put_string(writer, "by", plan_by_names[certificate->by]);
    json_put_string(writer, "stopped", certificate->stopped);
    json_close(writer);
}

// Writes the whole order if no generator makes it.
static void write_schedule(struct json_writer *writer, const struct plan *plan)
{
    json_begin_object(writer, "schedule", plan->given ? JSON_LINES : JSON_INLINE);
    if (plan->given) {
        schedule_write_order(plan->given, writer);
        json_put_u64(writer, "chunks", plan->chunks);
    } else {
        json_put_string(writer, "name", plan->schedule);
        json_put_string(writer, "weights", weights_names[plan->weights]);
        json_put_u64(writer, "ranks", plan->ranks);
        json_put_u64(writer, "chunks", plan->chunks);
        json_put_u64(writer, "micro_batches", plan->micro_batches);
    }
    json_close(writer);
}

static void write_head(struct json_writer *writer, const struct plan *plan)
{
    json_put_format(writer, "weir.plan");
    json_begin_object(writer, "profile", JSON_INLINE);
    json_put_string(writer, "model", plan->model);
    json_put_string(writer, "hash", plan->profile_hash);
    json_close(writer);
    cluster_write_part(plan->cluster, writer, "cluster");
    write_schedule(writer, plan);
    storage_write(&plan->storage, writer);
    if (plan->target != TARGET_ANY)
        json_put_string(writer, "for", plan_target_names[plan->target]);
}

static void write_order(struct json_writer *writer, const struct plan *plan)
{
    if (!plan->order)
        return;
    json_begin_array(writer, "order", JSON_INLINE);
    for (uint32_t i = 0; i < plan->stages[plan->stage_count - 1].end; i++)
        json_put_u64(writer, NULL, plan->order[i]);
    json_close(writer);
}

void plan_write(const struct plan *plan, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    write_head(&writer, plan);
    write_order(&writer, plan);
    json_begin_array(&writer, "stages", JSON_LINES);
    for (size_t i = 0; i < plan->stage_count; i++)
        write_stage(&writer, plan, i);
    json_close(&writer);
    write_predicted(&writer, plan);
    certificate_write(&writer, &plan->certificate);
    if (plan->notes)
        json_put_string(&writer, "notes", plan->notes);
    json_close(&writer);
}

bool plan_hash(const struct plan *plan, char digits[HASH_SIZE], struct error *error)
{
    struct text text = { 0 };
    plan_write(plan, &text);
    const bool good = text_ok(&text, "a plan", error);
    if (good)
        hash_bytes(text.data, text.length, digits);
    text_clear(&text);
    return good;
}
