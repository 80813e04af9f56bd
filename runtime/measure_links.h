// The links between the ranks of a process group, measured by messages there and back between
// their devices (device/communicator.h), each rank with the next, while the others are
// idle:
//
//     rank a's queue    [send recv] mark [send recv] [send recv] mark
//     rank b's queue    [recv send] mark [recv send] [recv send] mark
//                        untimed: from here on the hosts are ahead of their devices
//
// and by messages one after the other, each way and both ways at once (profiler/links.h).
//
// The marks are events of the queue, so that what is timed is what a message takes, and
// not how fast a host asks for it or looks.
#ifndef RUNTIME_MEASURE_LINKS_H
#define RUNTIME_MEASURE_LINKS_H

#include "device/device.h"
#include "profiler/links.h"
#include "profiler/measure.h"
#include "runtime/process_group.h"

struct link_settings {
    const struct measure_options *options;  // of each size: the repeats; by link: the progress
    const uint64_t *sizes;                  // NULL: link_usual_sizes
    size_t size_count;
    uint64_t deadline_ns;  // of a link's coming up, and of each message there and back; 0: one minute
    uint64_t abort_ns;     // that ending what is under way may take; 0: five seconds
};

// All ranks at a time; all get all costs, of each rank with the next (one fewer than there are ranks). Who fails has
// abandoned the group. *is_stuck: the device could not be brought to an end, and is not to be closed.
bool measure_links(struct device *device, const struct process_group *group, const struct link_settings *settings,
                   struct link_cost *to_next, bool *is_stuck, struct error *error);

#endif
