// Dynamic loss scaling, for gradients in fp16 (Micikevicius et al. 2018, arXiv 1710.03740), by the rule of PyTorch's
// GradScaler. The gradient of the loss is multiplied by S, so that small gradients are not lost below 6e-8. Gradients
// are divided by S before anything else uses them. S is a power of two, so neither loses a bit.
//
//     step          1       2       3     ...   2002    2003
//     S         65536   32768   32768           32768   65536
//     norm        inf     9.1     8.7     ...     6.0     5.9
//                skipped    1       2   ...      2000
//
// If a gradient of any layer on any stage is not finite, no stage makes its step, and S is halved. After `interval`
// consecutive steps that were made, S is doubled. All ranks have the norm of all gradients (clipping.h), and so
// decide alike.
#ifndef RUNTIME_UPDATES_LOSS_SCALING_H
#define RUNTIME_UPDATES_LOSS_SCALING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "device/device.h"

struct loss_scaling {
    float scale;        // S of the next step; 0: nothing is scaled
    uint32_t interval;  // steps until it is doubled
    uint32_t made;      // steps made since it changed, or since one was skipped
    uint64_t skipped;   // steps skipped in the whole run
};

// What a run begins with on a device of this precision. For fp16 it is `wish`, in which 0 stands for the usual S of
// 65536 and the usual interval of 2000. For other precisions it is empty. Fails if they have a wish, or if S is not a
// power of two from 2^-24 to 2^40, a range that it never leaves.
bool loss_scaling_open(struct loss_scaling *scaling, const struct loss_scaling *wish, enum precision precision,
                       struct error *error);

// Decides by the norm of all gradients whether the step is made, and then prepares `scaling` for the next one.
bool loss_scaling_judge(struct loss_scaling *scaling, double norm);

#endif
