// A cost row in documents: its columns by name, in a fixed order. The schedule document and the plan document share
// it.
#ifndef SCHEDULES_COST_ROW_H
#define SCHEDULES_COST_ROW_H

#include "common/json.h"
#include "schedules/schedule.h"

// Fills `row` from the keys of an object. The optional ones are overlapped_ns, reduce_ns, move_ns, moved_bytes and
// again_bytes.
void cost_row_read(struct json *object, struct cost_row *row);

// The same for an object that people write. The times of F, I and W are required. B takes the sum of I and W if it
// is not given; other missing columns are 0.
void cost_row_read_short(struct json *object, struct cost_row *row);

// Writes an object of the columns. An optional one is left out if it is 0.
void cost_row_write(const struct cost_row *row, struct json_writer *writer, const char *key);

#endif
