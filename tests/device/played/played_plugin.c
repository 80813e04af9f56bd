// Plays a plug-in: the build makes weir-cuda.so of it in several folders, sound and not,
// so that finding, opening and refusing can be tested where there is no CUDA.
#include <string.h>

#include "device/maker.h"
#include "device/plugin.h"

#ifndef PLAYED_VERSION
#define PLAYED_VERSION WEIR_VERSION
#endif
#ifndef PLAYED_BOUNDARY
#define PLAYED_BOUNDARY WEIR_BOUNDARY
#endif

#ifdef PLAYED_STRANGER

int stranger(void);

int stranger(void)
{
    return 7;
}

#else

// A plug-in has common/ and device/ for itself; this one needs no more of them than one line of text.
static bool played_open(struct device *device, const char *detail, struct error *error)
{
    (void)device;
    error->kind = ERROR_MACHINE;
    strcpy(error->text, "the played plug-in has no GPU ");
    strncat(error->text, detail, 100);
    return false;
}

static const struct device_functions played_functions = { .open = played_open };
static const struct plugin played = { .version = PLAYED_VERSION, .boundary = PLAYED_BOUNDARY,
                                     .device = &played_functions };

const struct plugin *weir_cuda_plugin(void);

const struct plugin *weir_cuda_plugin(void)
{
    return &played;
}

#endif
