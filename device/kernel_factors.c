#include <assert.h>
#include <math.h>

#include "device/kernels.h"

struct adamw_factors adamw_factors(const struct adamw *adamw)
{
    const double update = (double)adamw->update, seen = adamw->frozen > 0 ? (double)adamw->frozen : update;
    const double second = sqrt(1 - pow((double)adamw->beta2, seen));
    assert(adamw->update > 0);
    return (struct adamw_factors){
        .shrink = adamw->is_coupled ? 1 : 1 - adamw->rate * adamw->decay,
        .step = (float)((double)adamw->rate * (adamw->is_lazy ? second : 1) / (1 - pow((double)adamw->beta1, update))),
        .second_factor = adamw->is_lazy ? 1 : (float)(1 / second),
        .coupled = adamw->is_coupled ? adamw->decay : 0,
    };
}

struct lamb_factors lamb_factors(const struct lamb *lamb)
{
    const double update = (double)lamb->update;
    assert(lamb->update > 0);
    return (struct lamb_factors){
        .rate = lamb->rate,
        .first = (float)(1 / (1 - pow((double)lamb->beta1, update))),
        .second = (float)(1 / sqrt(1 - pow((double)lamb->beta2, update))),
    };
}

struct adafactor_factors adafactor_factors(const struct adafactor *adafactor)
{
    const double update = (double)adafactor->update, rate = (double)adafactor->rate;
    assert(adafactor->update > 0);
    return (struct adafactor_factors){
        .rate = (float)fmin(rate, 1 / sqrt(update)),
        .beta = (float)pow(update, -0.8),
        .shrink = 1 - adafactor->rate * adafactor->decay,
    };
}
