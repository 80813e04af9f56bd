// The options for a run of weeks, of weir sweep --config: --mtbf and those that go with it. An argp child.
#ifndef CLI_WEEKS_OPTIONS_H
#define CLI_WEEKS_OPTIONS_H

#include <argp.h>

#include "partitioner/sweep/stated_weeks.h"

extern const struct argp weeks_argp;  // its input is a struct weeks_request

// What is asked for; NULL if it is nothing. With a usage error if --mtbf or --checkpoint-rate is missing.
const struct weeks_request *weeks_asked(const struct weeks_request *request, struct argp_state *state);

#endif
