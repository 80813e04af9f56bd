// What replicas bring together of a stage by 1-bit Adam, computed plainly: the sequential twin's side of signs.h.
//
// All copies are here, one behind the other: the gradients that each has added up, its signs, and the errors that these
// have left. A stage is flat, layer behind layer, since its blocks go through all of them.
#ifndef RUNTIME_TWIN_TWIN_SIGNS_H
#define RUNTIME_TWIN_TWIN_SIGNS_H

#include "device/kernels.h"

struct twin_signs {
    struct device *device;
    struct queue *queue;
    uint32_t copies;
    uint64_t count;       // of numbers of the stage
    float *gradients;     // by copy
    float *errors;        // by copy
    float *momentum, *seconds;
    struct sign_block *signs;  // by copy
};

// Zeroed. False with an error where memory is missing; close in either case.
bool twin_signs_open(struct twin_signs *signs, struct device *device, struct queue *queue, uint32_t copies,
                     uint64_t count, struct error *error);
void twin_signs_close(struct twin_signs *signs);

// From momentum and gradients of all copies to the next momentum.
void twin_signs_meet(const struct twin_signs *signs, float beta1);

#endif
