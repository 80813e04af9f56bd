#include "schedules/cost_row.h"

// In the order in which they are written.
static const struct column {
    const char *key;
    size_t offset;
    unsigned since;  // the version of documents that it came with
} columns[] = {
    { "forward_ns", offsetof(struct cost_row, forward_ns), 1 },
    { "backward_ns", offsetof(struct cost_row, backward_ns), 1 },
    { "backward_input_ns", offsetof(struct cost_row, backward_input_ns), 1 },
    { "backward_weight_ns", offsetof(struct cost_row, backward_weight_ns), 1 },
    { "recompute_ns", offsetof(struct cost_row, recompute_ns), 1 },
    { "step_ns", offsetof(struct cost_row, step_ns), 1 },
    { "overlapped_ns", offsetof(struct cost_row, overlapped_ns), 2 },
    { "reduce_ns", offsetof(struct cost_row, reduce_ns), 2 },
    { "move_ns", offsetof(struct cost_row, move_ns), 4 },
    { "output_bytes", offsetof(struct cost_row, output_bytes), 1 },
    { "kept_forward_bytes", offsetof(struct cost_row, kept_forward_bytes), 1 },
    { "kept_weight_bytes", offsetof(struct cost_row, kept_weight_bytes), 1 },
    { "moved_bytes", offsetof(struct cost_row, moved_bytes), 4 },
    { "again_bytes", offsetof(struct cost_row, again_bytes), 3 },
    { "transient_bytes", offsetof(struct cost_row, transient_bytes), 1 },
    { "fixed_bytes", offsetof(struct cost_row, fixed_bytes), 1 },
    { "version_bytes", offsetof(struct cost_row, version_bytes), 1 },
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
        if (columns[i].since == 1 || (version >= columns[i].since && json_has(object, columns[i].key)))
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
        if (value || columns[i].since == 1)
            json_put_u64(writer, columns[i].key, value);
    }
    json_close(writer);
}

unsigned cost_row_version(const struct cost_row *row)
{
    unsigned version = 1;
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].since > version && value_of(row, &columns[i]))
            version = columns[i].since;
    return version;
}
