#include <poll.h>

#include "common/clock.h"
#include "runtime/transport/wired/wired_engine.h"

enum { BROKEN_SECONDS = 3 };

// Keeps the first failure, wherever it was. Returns false.
bool wired_fail(struct wired *wired, const struct error *reason, struct error *error)
{
    if (!wired->failed)
        wired->error = *reason;
    wired->failed = true;
    return error_hand_on(error, &wired->error);
}

// That another rank is gone says more than that the wire to it broke. It may be known a little later: each rank
// notices a silent rank at its own heartbeat.
bool wired_broke(struct wired *wired, const struct error *reason, struct error *error)
{
    struct error first = { 0 };
    const uint64_t until_ns = clock_now_ns() + BROKEN_SECONDS * (uint64_t)1000000000;
    while (wired->settings.group->is_well(wired->settings.group->self, &first) && clock_now_ns() < until_ns)
        poll(NULL, 0, 1);
    return wired_fail(wired, first.kind != ERROR_NONE ? &first : reason, error);
}

bool lane_is_ready(struct wired *wired, struct lane_end *end, bool *ready, struct error *error)
{
    struct error reason = { 0 };
    return (communicator_is_ready(end->communicator, ready, &reason) && queue_report(end->queue, &reason))
        || wired_broke(wired, &reason, error);
}
