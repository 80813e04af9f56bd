// What is said when a run has failed, so that its end can be understood: who waited for
// whom, the last actions of each rank of this process, and all of them as a trace.
#ifndef CLI_LAST_ACTIONS_H
#define CLI_LAST_ACTIONS_H

#include "runtime/run.h"

// On stderr; the trace goes into `folder`, as failed.trace.json or, of one process among
// several, failed.rank2.trace.json. NULL: it is not written.
void last_actions_say(const struct session *session, const struct process_group *group, const char *folder);

#endif
