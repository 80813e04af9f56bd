// What cut_problem.c puts a problem together from.
#ifndef PARTITIONER_CUTS_CUT_PARTS_H
#define PARTITIONER_CUTS_CUT_PARTS_H

#include "partitioner/cuts/cut_problem.h"

// What the schedule says (cut_schedule.c), of its own actions and of the links found since.
bool cut_schedule_create(struct cut_problem *problem, struct error *error);
bool cut_schedule_read_pattern(struct cut_problem *problem, struct error *error);
void cut_schedule_clear(struct cut_schedule *schedule);

// Devices and links (cut_devices.c).
bool cut_devices_create(struct cut_problem *problem, struct error *error);
void cut_devices_clear(struct cut_devices *devices);
const char *cut_variant(const struct cut_problem *problem, uint32_t stage);  // NULL for none

// What layers take (stage_view.c).
bool stage_views_create(struct cut_problem *problem, struct error *error);
void stage_views_free(struct cut_problem *problem);

#endif
