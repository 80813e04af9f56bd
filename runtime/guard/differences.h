// Gradients, held against differences of what forward computes, an eighth after the other:
//
//     (loss(x + h v) - loss(x - h v)) / 2 h    against    gradient . v
//
// where v is of +-1, as the gradient's signs say, and loss is the model's, times what part of it gradients are of; or
// of a layer within the model the sum of its output, number by number times a given gradient. Both must agree to 2 %
// (and what rounding makes of it) with one of two h, 2^-7 and 2^-11 of the numbers' root mean square.
#ifndef RUNTIME_GUARD_DIFFERENCES_H
#define RUNTIME_GUARD_DIFFERENCES_H

#include "runtime/guard/guarded_call.h"

struct differing {
    struct guarded_call *forward;  // whose results are kept
    const float *output_gradient;  // NULL: the layer computes the loss
    size_t output_count;           // numbers of both
    double loss_share;
};

// `gradient` is that of the first `count` numbers of a place that forward is given. Code 1 where they differ: the
// sentence begins with `name`, the function that has computed it.
bool differences_agree(const struct differing *differing, enum place place, const float *gradient, size_t count,
                       const char *name, struct error *error);

#endif
