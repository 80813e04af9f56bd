// A cost row as documents hold it: its columns by their names, in one order. The
// schedule document and the plan document share it.
#ifndef SCHEDULES_COST_ROW_H
#define SCHEDULES_COST_ROW_H

#include "common/json.h"
#include "schedules/schedule.h"

// Fills `row` from the keys of an object of a schedule document of this version. Columns that came with version 2
// (overlapped_ns, reduce_ns), 3 (again_bytes) or 4 (move_ns, moved_bytes) may be missing, and are asked for only there.
void cost_row_read(struct json *object, unsigned version, struct cost_row *row);

// The same of an object that people write: the times of F, I and W must be there; a B without one takes the sum of I
// and W, and what else is not there is 0.
void cost_row_read_short(struct json *object, struct cost_row *row);

// An object of the columns; those newer than version 1 are left out where they are 0.
void cost_row_write(const struct cost_row *row, struct json_writer *writer, const char *key);

// The first version of the schedule document that can hold the row.
unsigned cost_row_version(const struct cost_row *row);

#endif
