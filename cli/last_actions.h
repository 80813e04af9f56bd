// Output about a failed run, to understand why it ended: which ranks waited for which, and the last actions of each
// rank of this process. All of these actions are also written as a trace.
#ifndef CLI_LAST_ACTIONS_H
#define CLI_LAST_ACTIONS_H

#include "runtime/run.h"

// Prints to stderr. The trace goes into `folder` as failed.trace.json, or, with several processes, for example as
// failed.rank2.trace.json. NULL: no trace is written.
void last_actions_say(const struct session *session, const struct process_group *group, const char *folder);

#endif
