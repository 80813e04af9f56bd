#include "device/cuda/cudnn_versions.h"

#include <float.h>
#include <math.h>

enum { VERSION_9_10_2 = 91002, VERSION_9_10 = 91000, VERSION_9_16 = 91600 };

bool cudnn_is_sound(size_t version, struct error *error)
{
    if (version < VERSION_9_10 || version >= VERSION_9_10_2)
        return true;
    return error_set_kind(error, ERROR_MACHINE,
                          "cuDNN %zu.%zu.%zu, which is installed here, has a backward of attention that is known to be"
                          " wrong: install cuDNN 9.16 or later (pip's nvidia-cudnn-cu13 is one)",
                          version / 10000, version / 100 % 100, version % 100);
}

bool cudnn_attends(size_t version, const struct attention *shape, bool is_backward)
{
    enum { TILE = 128 };
    if (shape->size % 8 != 0 || shape->sequence <= 1 || attention_is_part(shape) || !attention_is_plain(shape))
        return false;
    return !is_backward || version >= VERSION_9_16 || shape->sequence % TILE == 0;
}

// Older versions need the lowest finite float.
float cudnn_masked(size_t version)
{
    return version >= VERSION_9_10 ? -INFINITY : -FLT_MAX;
}
