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

// Reads the model's config.json, and says on stderr what the user should know of it (transformer_load_noting()).
bool estimate_load_model(const char *config, struct transformer *model, struct error *error);

#endif
