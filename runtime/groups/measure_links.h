// Measures the links between the ranks of a process group. Each rank exchanges messages with the next one, there and
// back between their devices (device/communicator.h), while the other ranks are idle:
//
//     rank a's queue    [send recv] mark [send recv] [send recv] mark
//     rank b's queue    [recv send] mark [recv send] [recv send] mark
//                        untimed: from here on the hosts are ahead of their devices
//
// It also sends messages one after the other, in each direction and in both at once (profiler/links.h).
//
// The marks are events of the queue. So what is timed is the time of a message, and not how fast a host issues it or
// polls.
#ifndef RUNTIME_GROUPS_MEASURE_LINKS_H
#define RUNTIME_GROUPS_MEASURE_LINKS_H

#include "device/device.h"
#include "profiler/links.h"
#include "profiler/measure.h"
#include "runtime/groups/process_group.h"

struct link_settings {
    const struct measure_options *options;  // for each size: the repeats; for each link: the progress
    const uint64_t *sizes;                  // NULL: link_usual_sizes
    size_t size_count;
    uint64_t deadline_ns;  // for opening a link, and for each message there and back; 0: one minute
    uint64_t abort_ns;     // limit for ending what is under way; 0: five seconds
};

// A collective call. All ranks get the costs of all links, each between a rank and the next (one fewer than there are
// ranks). A rank that fails has abandoned the group. *is_stuck: the device could not be brought to an end, and must
// not be closed.
bool measure_links(struct device *device, const struct process_group *group, const struct link_settings *settings,
                   struct link_cost *to_next, bool *is_stuck, struct error *error);

#endif
