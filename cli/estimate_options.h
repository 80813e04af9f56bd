// How layers are estimated, as commands are told that do so: --sequence, --dtype, --attention, .. A child of a command's
// own arguments.
#ifndef CLI_ESTIMATE_OPTIONS_H
#define CLI_ESTIMATE_OPTIONS_H

#include <argp.h>

#include "profiler/estimate/estimate.h"

// Its input is a struct estimate_request.
extern const struct argp estimate_argp;

#endif
