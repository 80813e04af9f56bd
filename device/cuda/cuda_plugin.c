// The description of weir-cuda.so, which is all that it exports.
#include "device/plugin.h"

#include "device/cuda/cuda.h"

static const struct plugin plugin = {
    .version = WEIR_VERSION,
    .boundary = WEIR_BOUNDARY,
    .device = &cuda_functions,
};

const struct plugin *weir_cuda_plugin(void);

const struct plugin *weir_cuda_plugin(void)
{
    return &plugin;
}
