#include "schedules/cost_row.h"

// In the order of writing. An optional one may be missing, and is written if it is not 0.
#define COLUMN(name) { #name, offsetof(struct cost_row, name), false }
#define OPTIONAL(name) { #name, offsetof(struct cost_row, name), true }
static const struct column {
    const char *key;
    size_t offset;
    bool is_optional;
} columns[] = {
    COLUMN(forward_ns),
    COLUMN(backward_ns),
    COLUMN(backward_input_ns),
    COLUMN(backward_weight_ns),
    COLUMN(recompute_ns),
    COLUMN(step_ns),
    OPTIONAL(overlapped_ns),
    OPTIONAL(reduce_ns),
    OPTIONAL(move_ns),
    OPTIONAL(exchange_ns),
    COLUMN(output_bytes),
    COLUMN(kept_forward_bytes),
    COLUMN(kept_weight_bytes),
    OPTIONAL(moved_bytes),
    OPTIONAL(again_bytes),
    COLUMN(transient_bytes),
    COLUMN(fixed_bytes),
    COLUMN(version_bytes),
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static uint64_t value_of(const struct cost_row *row, const struct column *column)
{
    return *(const uint64_t *)((const char *)row + column->offset);
}

void cost_row_read(struct json *object, struct cost_row *row)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        uint64_t *to = (uint64_t *)((char *)row + columns[i].offset);
        if (!columns[i].is_optional || json_has(object, columns[i].key))
            *to = json_u64(object, columns[i].key, 0, JSON_MAX);
    }
}

void cost_row_read_short(struct json *object, struct cost_row *row)
{
    row->forward_ns = json_u64(object, "forward_ns", 0, JSON_MAX);
    row->backward_input_ns = json_u64(object, "backward_input_ns", 0, JSON_MAX);
    row->backward_weight_ns = json_u64(object, "backward_weight_ns", 0, JSON_MAX);
    row->backward_ns = row->backward_input_ns + row->backward_weight_ns;
    if (row->backward_ns > JSON_MAX)  // no document made from it could hold that
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
        if (value || !columns[i].is_optional)
            json_put_u64(writer, columns[i].key, value);
    }
    json_close(writer);
}
