// Checks gradients against finite differences of what forward computes. This is done for eighths of the numbers, one
// after the other:
//
//     (loss(x + h v) - loss(x - h v)) / 2 h    against    gradient . v
//
// Here v consists of +1 and -1, with the signs of the gradient. For the model's last layer, loss is its loss times
// the part of it that gradients are of. For any other layer it is the sum of its output, number by number times a
// given gradient, plus its auxiliary loss, if it has one, times that part. Both sides must agree to 2 % (plus
// rounding) for one of two h: 2^-7 and 2^-11 of the numbers' root mean square.
#ifndef RUNTIME_GUARD_DIFFERENCES_H
#define RUNTIME_GUARD_DIFFERENCES_H

#include "runtime/guard/guarded_call.h"

struct differing {
    struct guarded_call *forward;  // its results are kept
    const float *output_gradient;  // NULL: the layer computes the loss
    size_t output_count;           // how many numbers both have
    double loss_share;
    bool has_auxiliary_loss;
};

// Compares `gradient` with the differences. It is the gradient of the first `count` numbers of `place`, an input of
// forward. If they differ, the code is 1 and the sentence begins with `name`, the function that has computed the
// gradient.
bool differences_agree(const struct differing *differing, enum place place, const float *gradient, size_t count,
                       const char *name, struct error *error);

#endif
