// What a stage loads at least in Piper's model, from sums over downsets: quickly enough to
// be asked of every stage, so that few need their price (tps.h).
//
// Memory is counted by a price on bytes: whatever nu is,
//
//     sum of min over ways (time + nu saved)  +  nu / y (sum of min fixed - memory)
//
// is no more than the time of ways whose y saved + fixed bytes fit. It is asked for a few
// nu, spread over those at which some layer would change its way.
#ifndef PARTITIONER_OBJECTIVES_TPS_FLOOR_H
#define PARTITIONER_OBJECTIVES_TPS_FLOOR_H

#include "partitioner/objectives/tps.h"

struct tps_floors;
struct tps_floors *tps_floors_create(const struct cut_view *view, const struct tps_prices *prices, struct error *error);
void tps_floors_free(struct tps_floors *floors);

// With nothing in flight memory is left out. INFINITY where the stage cannot fit, unless it
// has been seen before that the stage loads `enough`: no more is asked then.
double tps_floor(const struct tps_floors *floors, const struct tps_stage *stage, double enough);

// Whether it could fit by any degree; where not, no larger stage does.
bool tps_can_fit(const struct tps_floors *floors, struct tps_stage stage);

#endif
