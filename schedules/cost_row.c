#include "schedules/cost_row.h"

// In the order in which they are written.
static const struct column {
    const char *key;
    size_t offset;
    bool is_newer;  // came with version 2
} columns[] = {
    { "forward_ns", offsetof(struct cost_row, forward_ns), false },
    { "backward_ns", offsetof(struct cost_row, backward_ns), false },
    { "backward_input_ns", offsetof(struct cost_row, backward_input_ns), false },
    { "backward_weight_ns", offsetof(struct cost_row, backward_weight_ns), false },
    { "recompute_ns", offsetof(struct cost_row, recompute_ns), false },
    { "step_ns", offsetof(struct cost_row, step_ns), false },
    { "overlapped_ns", offsetof(struct cost_row, overlapped_ns), true },
    { "reduce_ns", offsetof(struct cost_row, reduce_ns), true },
    { "output_bytes", offsetof(struct cost_row, output_bytes), false },
    { "kept_forward_bytes", offsetof(struct cost_row, kept_forward_bytes), false },
    { "kept_weight_bytes", offsetof(struct cost_row, kept_weight_bytes), false },
    { "transient_bytes", offsetof(struct cost_row, transient_bytes), false },
    { "fixed_bytes", offsetof(struct cost_row, fixed_bytes), false },
    { "version_bytes", offsetof(struct cost_row, version_bytes), false },
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static uint64_t value_of(const struct cost_row *row, const struct column *column)
{
    return *(const uint64_t *)((const char *)row + column->offset);
}

void cost_row_read(struct json *object, unsigned version, struct cost_row *row)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        uint64_t *to = (uint64_t *)((char *)row + columns[i].offset);
        if (!columns[i].is_newer || (version > 1 && json_has(object, columns[i].key)))
            *to = json_u64(object, columns[i].key, 0, JSON_MAX);
    }
}

void cost_row_read_short(struct json *object, struct cost_row *row)
{
    row->forward_ns = json_u64(object, "forward_ns", 0, JSON_MAX);
    row->backward_input_ns = json_u64(object, "backward_input_ns", 0, JSON_MAX);
    row->backward_weight_ns = json_u64(object, "backward_weight_ns", 0, JSON_MAX);
    row->backward_ns = row->backward_input_ns + row->backward_weight_ns;
    if (row->backward_ns > JSON_MAX)  // which no document that is made of it could hold
        json_refuse_key(object, "backward_weight_ns", "backward_input_ns and backward_weight_ns add up to more than "
                        "2^53 - 1 ns, 104 days");
    for (size_t i = 0; i < COLUMNS; i++) {
        if (json_has(object, columns[i].key))
            *(uint64_t *)((char *)row + columns[i].offset) = json_u64(object, columns[i].key, 0, JSON_MAX);
    }
}

void cost_row_write(const struct cost_row *row, struct json_writer *writer, const char *key)
{
    json_begin_object(writer, key, JSON_LINES);
    for (size_t i = 0; i < COLUMNS; i++) {
        const uint64_t value = value_of(row, &columns[i]);
        if (value || !columns[i].is_newer)
            json_put_u64(writer, columns[i].key, value);
    }
    json_close(writer);
}

unsigned cost_row_version(const struct cost_row *row)
{
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].is_newer && value_of(row, &columns[i]))
            return 2;
    return 1;
}
