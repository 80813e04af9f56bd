// Dynamic loss scaling, for gradients in fp16 (Micikevicius et al. 2018, arXiv 1710.03740, by the rule of PyTorch's
// GradScaler): the gradient of the loss is multiplied by S, so that small ones are not lost below 6e-8, and gradients
// are divided by it before anything looks at them. S is a power of two: neither loses a bit.
//
//     step          1       2       3     ...   2002    2003
//     S         65536   32768   32768           32768   65536
//     norm        inf     9.1     8.7     ...     6.0     5.9
//                skipped    1       2   ...      2000
//
// Where a gradient of any layer on any stage is no finite number, no stage makes its step, and S is halved; after so
// many steps in a row that were made it is doubled. All ranks have the norm of all gradients (clipping.h) and so come to
// the same.
#ifndef RUNTIME_LOSS_SCALING_H
#define RUNTIME_LOSS_SCALING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "device/device.h"

struct loss_scaling {
    float scale;        // S of the next step; 0: nothing is scaled
    uint32_t interval;  // steps until it is doubled
    uint32_t made;      // as many have been made since it changed, or since one was skipped
    uint64_t skipped;   // steps, in all of the run
};

// What a run begins with on a device of this precision: of fp16 what is wished for, where 0 is the usual S of 65536 and
// the usual interval of 2000; nothing of the others. Refuses a wish of theirs, and an S that is no power of two between
// 2^-24 and 2^40, which it never leaves.
bool loss_scaling_open(struct loss_scaling *scaling, const struct loss_scaling *wish, enum precision precision,
                       struct error *error);

// By the norm of all gradients: whether the step is made. Then it is about the next one.
bool loss_scaling_judge(struct loss_scaling *scaling, double norm);

#endif
