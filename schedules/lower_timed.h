// A third place for receives: when their message is made.
//
//     rank 0   0F0 0SEND_F0  0F1 0SEND_F1 ...
//     rank 1          1RECV_F0 1F0    2B7 ...     the RECV is posted with whatever runs then, or comes next
//
// Early receives (lower.h) hold up the sends behind them where messages share a lane
// (lane_world.h), late ones (lower_late.h) come to wait for each other. Here the
// order is simulated, and everything is put in the order in which it ends: a
// compute, then its SENDs, and in the same moment their RECVs at the ends of the
// peers' lists. So every SEND is beside its RECV in one order of everything: no
// rendezvous can stand still, one communicator is enough for a pair of ranks, and a
// lane comes to each message when it is about to be made.
#ifndef SCHEDULES_LOWER_TIMED_H
#define SCHEDULES_LOWER_TIMED_H

#include "schedules/network.h"
#include "schedules/schedule.h"

// A new, lowered schedule, for these costs (NULL: the order's own). `network` NULL:
// messages take no time. Fails as simulating does: on an order that cannot run,
// without costs.
struct schedule *schedule_lower_timed(const struct schedule *order, const struct cost_row *costs,
                                      const struct network *network, struct error *error);

#endif
