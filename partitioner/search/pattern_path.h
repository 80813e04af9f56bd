// The longest path through a pattern's actions, written down: how often it takes what of each
// stage. Of any other durations these counts give the length of the same path, and so a bound.
//
//     F_0(0) F_0(1) --c--> F_1(1) B_1(0) F_1(2) B_1(1) --c--> B_0(1)      F of stage 0: 2, of stage 1: 2
//                                                                        B of stage 0: 1, of stage 1: 2
//                                                                        there: 1, back: 1
#ifndef PARTITIONER_SEARCH_PATTERN_PATH_H
#define PARTITIONER_SEARCH_PATTERN_PATH_H

#include "partitioner/search/pattern.h"

// What a path counts of each stage.
enum { PATH_FORWARD, PATH_BACKWARD, PATH_THERE, PATH_BACK, PATH_PARTS };

struct path_room;
struct path_room *path_room_create(const struct pattern *pattern, struct error *error);
void path_room_free(struct path_room *room);

// The parts of a stage that counts are of; latencies are no part of them.
static inline void path_parts(const struct pattern_stage *stage, uint64_t parts[PATH_PARTS])
{
    parts[PATH_FORWARD] = stage->forward_ns;
    parts[PATH_BACKWARD] = stage->backward_ns;
    parts[PATH_THERE] = stage->forward_busy_ns;
    parts[PATH_BACK] = stage->backward_busy_ns;
}

// The time of all stages, as pattern_time(); counts[s * PATH_PARTS + part] of the path that takes
// it, and the sum of the latencies on it. 0 for an order that is not of this kind.
uint64_t path_longest(const struct pattern *pattern, struct path_room *room, const struct pattern_stage *stages,
                      uint32_t *counts, uint64_t *latency_ns);

#endif
