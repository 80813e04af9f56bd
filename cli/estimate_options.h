// How layers are estimated, as commands are told that do so: --sequence, --dtype, --attention, .. A child of a command's
// own arguments.
#ifndef CLI_ESTIMATE_OPTIONS_H
#define CLI_ESTIMATE_OPTIONS_H

#include <argp.h>

#include "profiler/estimate/estimate.h"

// Its input is a struct estimate_request.
extern const struct argp estimate_argp;

// In front of why something cannot be estimated: of what the device lacks its file, where it has one; of all else the
// model's config.json, and the device's file, too.
void estimate_name_files(const char *config, const char *device_file, const struct rated_device *device,
                         struct error *error);

#endif
