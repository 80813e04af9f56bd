// The parts from which cut_problem.c puts a problem together. Each `create` returns false with an error.
#ifndef PARTITIONER_CUTS_CUT_PARTS_H
#define PARTITIONER_CUTS_CUT_PARTS_H

#include "partitioner/cuts/cut_problem.h"

// Facts of the schedule (cut_schedule.c). The first function reads its own actions. The second also needs the links,
// and is called after cut_devices_create().
bool cut_schedule_create(struct cut_problem *problem, struct error *error);
bool cut_schedule_read_pattern(struct cut_problem *problem, struct error *error);
void cut_schedule_clear(struct cut_schedule *schedule);

// The devices of the ranks, and the links between them (cut_devices.c).
bool cut_devices_create(struct cut_problem *problem, struct error *error);
const char *cut_variant(const struct cut_problem *problem, uint32_t stage);  // NULL: none

// The costs of layers as stages (stage_view.c).
bool stage_views_create(struct cut_problem *problem, struct error *error);
void stage_views_free(struct cut_problem *problem);

#endif
