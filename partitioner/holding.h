// How a plan holds the states of a model: gradients, and what its optimizer keeps.
#ifndef PARTITIONER_HOLDING_H
#define PARTITIONER_HOLDING_H

// Optimizers, as far as memory goes: bytes of state per byte of fp32 parameter.
enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_MOMENTUM, OPTIMIZER_ADAMW };  // 0, 1, 2 copies
extern const char *const optimizer_names[];  // "sgd", "momentum", "adamw", NULL

// Of all stages alike.
struct holding {
    enum optimizer_kind optimizer;
};

#endif
