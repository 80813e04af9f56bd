// The options that say how layers are estimated: --sequence, --dtype, --attention, ... An argp child of the arguments
// of commands that estimate.
#ifndef CLI_ESTIMATE_OPTIONS_H
#define CLI_ESTIMATE_OPTIONS_H

#include <argp.h>

#include "profiler/estimate/estimate.h"

// Its input is a struct estimate_request.
extern const struct argp estimate_argp;

// Prefixes the reason why something cannot be estimated with the file that it is about. For what a device lacks, whose
// sentence names the device, this is the device's file, if it has one. Otherwise it is the model's config.json, and the
// device's file if there is one.
void estimate_name_files(const char *config, const char *device_file, struct error *error);

// Reads the model's config.json and the device. Says on stderr what the user should know of them: what was left out of
// the model (transformer_load_noting()), and which device a short name stands for.
bool estimate_load(const char *config, const char *name, struct transformer *model, struct rated_device *device,
                   struct error *error);

#endif
