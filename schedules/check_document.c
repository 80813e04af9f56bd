// The check document: docs/formats/check.md.
#include <string.h>

#include "common/json.h"
#include "schedules/check.h"

static void write_fault(struct json_writer *writer, const char *key, const struct check_fault *fault)
{
    char buffer[ACTION_SIZE];
    json_begin_object(writer, key, JSON_INLINE);
    json_put_u64(writer, "rank", fault->rank);
    if (fault->position == SIZE_MAX)
        json_put_null(writer, "position");
    else
        json_put_u64(writer, "position", fault->position);
    json_put_string(writer, "action", action_format(fault->action, buffer));
    json_put_string(writer, "reason", fault->reason);
    json_close(writer);
}

// Writes how many pairs of ranks could use one communicator.
static void write_sharing(struct json_writer *writer, const struct check_sharing *sharing)
{
    if (!sharing->is_known) {
        json_put_null(writer, "communicators");
        return;
    }
    json_begin_object(writer, "communicators", JSON_LINES);
    json_put_u64(writer, "pairs", sharing->pairs);
    json_put_u64(writer, "can_share", sharing->can);
    if (sharing->can < sharing->pairs)
        write_fault(writer, "first_fault", &sharing->first_fault);
    else
        json_put_null(writer, "first_fault");
    json_close(writer);
}

static void write_memory(struct json_writer *writer, const struct check_memory *memory)
{
    if (!memory->is_known) {
        json_put_null(writer, "memory");
        return;
    }
    json_begin_object(writer, "memory", JSON_INLINE);
    json_put_u64(writer, "rank", memory->rank);
    json_put_u64(writer, "live_peak_bytes", memory->peak_bytes);
    json_put_u64(writer, "limit_bytes", memory->limit_bytes);
    json_close(writer);
}

// Writes one line per waiting rank.
static void write_cycle(struct json_writer *writer, const char *cycle)
{
    json_begin_array(writer, "cycle", JSON_LINES);
    while (cycle && *cycle) {
        const char *end = strstr(cycle, "; ");
        const size_t length = end ? (size_t)(end - cycle) : strlen(cycle);
        struct text line = { 0 };
        text_add_bytes(&line, cycle, length);
        json_put_string(writer, NULL, line.data ? line.data : "");
        writer->text->failed |= line.failed;
        text_clear(&line);
        cycle = end ? end + 2 : NULL;
    }
    json_close(writer);
}

void check_result_write(const struct check_result *result, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.check");
    json_put_bool(&writer, "ok", result->ok);
    if (result->capacity == CHECK_NEVER)
        json_put_null(&writer, "capacity");
    else
        json_put_u64(&writer, "capacity", result->capacity);
    json_put_bool(&writer, "grouped", result->grouped);
    write_sharing(&writer, &result->sharing);
    write_memory(&writer, &result->memory);
    json_begin_array(&writer, "faults", JSON_LINES);
    for (size_t i = 0; i < result->fault_count; i++)
        write_fault(&writer, NULL, &result->faults[i]);
    json_close(&writer);
    write_cycle(&writer, result->cycle.data);
    json_close(&writer);
}
