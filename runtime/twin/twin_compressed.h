// The 1-bit Adam exchange of a stage's replicas, computed plainly: the sequential twin's counterpart of signs.h.
//
// The data of all copies are here, one behind the other: the gradients that each has added up, its signs, and the
// errors that these have left. The layers of a stage lie one behind the other without gaps, since blocks of signs go
// across layers.
#ifndef RUNTIME_TWIN_TWIN_COMPRESSED_H
#define RUNTIME_TWIN_TWIN_COMPRESSED_H

#include "device/kernels.h"

struct twin_compressed {
    struct device *device;
    struct queue *queue;
    uint32_t copies;
    uint64_t count;       // how many numbers the stage has
    float *gradients;     // by copy
    float *errors;        // by copy
    float *momentum, *seconds;
    struct sign_block *signs;  // by copy
};

// Allocates zeroed memory. False with the reason if memory is missing; close it in either case.
bool twin_compressed_open(struct twin_compressed *signs, struct device *device, struct queue *queue, uint32_t copies,
                     uint64_t count, struct error *error);
void twin_compressed_close(struct twin_compressed *signs);

// Computes the next momentum from the momentum and the gradients of all copies.
void twin_compressed_meet(const struct twin_compressed *signs, float beta1);

#endif
