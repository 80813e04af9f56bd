// The generators behind generate.h, and the few words they share.
#ifndef SCHEDULES_GENERATORS_H
#define SCHEDULES_GENERATORS_H

#include "schedules/generate.h"

struct schedule *generate_gpipe(const struct generate_request *request, struct error *error);
struct schedule *generate_1f1b(const struct generate_request *request, struct error *error);
struct schedule *generate_pipedream(const struct generate_request *request, struct error *error);

// An empty schedule with stage s on rank s; refuses any other number of chunks.
struct schedule *generate_one_stage_per_rank(const char *name, enum weights weights,
                                             const struct generate_request *request, struct error *error);

bool generate_add(struct schedule *schedule, uint32_t rank, enum action_kind kind, uint32_t stage,
                  uint32_t micro_batch, struct error *error);

// The schedule if all went well; otherwise frees it and returns NULL.
struct schedule *generate_done(struct schedule *schedule, bool good);

#endif
