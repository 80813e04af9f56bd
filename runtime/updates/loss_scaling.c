#include "runtime/updates/loss_scaling.h"

#include <math.h>

static const float usual = 65536, least = 0x1p-24f, most = 0x1p40f;
enum { USUAL_INTERVAL = 2000 };

static bool is_power_of_two(float scale)
{
    int exponent;
    return isfinite(scale) && frexpf(scale, &exponent) == 0.5f;
}

bool loss_scaling_open(struct loss_scaling *scaling, const struct loss_scaling *wish, enum precision precision,
                       struct error *error)
{
    *scaling = (struct loss_scaling){ 0 };
    const bool is_wished = wish->scale != 0 || wish->interval != 0;
    if (precision != PRECISION_FP16)
        return !is_wished
            || error_set(error, "the loss is scaled for gradients in fp16, and the device computes in %s: leave the"
                         " scale out, or name a device such as cpu:fp16", precision_name(precision));
    *scaling = *wish;
    scaling->scale = wish->scale != 0 ? wish->scale : usual;
    scaling->interval = wish->interval > 0 ? wish->interval : USUAL_INTERVAL;
    return (is_power_of_two(scaling->scale) && scaling->scale >= least && scaling->scale <= most)
        || error_set(error, "the loss cannot be scaled by %g: gradients are divided by it again without losing a bit,"
                     " so that it is a power of two, from 2^-24 to 2^40", (double)scaling->scale);
}

bool loss_scaling_judge(struct loss_scaling *scaling, double norm)
{
    if (!isfinite(norm)) {
        scaling->scale = scaling->scale > least ? scaling->scale / 2 : least;
        scaling->made = 0;
        scaling->skipped++;
        return false;
    }
    if (++scaling->made == scaling->interval) {
        scaling->scale = scaling->scale < most ? scaling->scale * 2 : most;
        scaling->made = 0;
    }
    return true;
}
