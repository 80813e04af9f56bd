// All optimizers, a row each: what one keeps for each parameter, its formula, and what it runs with. Plans count by
// these rows and runs update by them.
//
// The formulas are in docs/memory.md, and in runtime/updates/optimizer.c as kernels. The papers:
//
//     sgd, momentum   Polyak 1964
//     adam            Kingma and Ba 2015 (arXiv 1412.6980)
//     adamw           Loshchilov and Hutter 2019 (1711.05101)
//     adagrad         Duchi et al. 2011 (JMLR 12): the sum of all squares of the gradient
//     adagrad-rows    the same; tables by FBGEMM's exact row-wise Adagrad (TorchRec's RowWiseAdagrad)
//     adam-rows       adam; tables by torch.optim.SparseAdam
//     lars            You et al. 2017 (1708.03888)
//     lamb            You et al. 2020 (1904.00962)
//     adafactor       Shazeer and Stern 2018 (1804.04235), without a first moment: a row and a column of fp32 for each
//                     matrix, and vectors whole
//     adam8bit        Dettmers et al. 2022 (2110.02861): two moments of a byte, an fp32 scale for each block of 2048
//     adam1bit        Tang et al. 2021 (2102.02888): as adam, and the error of the signs that replicas send
//     *-master        Micikevicius et al. 2018 (1710.03740): fp32 beside 16-bit weights, with gradients summed in fp32
//
// To add one: a row and its name for the help here, its formula in runtime/updates/optimizer.c, and its line in the
// checker, which counts by itself (partitioner/evaluate/evaluate_storage.c).
#ifndef PARTITIONER_PLAN_OPTIMIZERS_H
#define PARTITIONER_PLAN_OPTIMIZERS_H

#include <stdbool.h>
#include <stdint.h>

// Constants of two optimizers: adam8bit keeps one scale for OPTIMIZER_8BIT_BLOCK numbers. With adam1bit the signs of
// OPTIMIZER_SIGN_BLOCK numbers are sent with one scale, in OPTIMIZER_SIGN_BYTES bytes.
enum { OPTIMIZER_8BIT_BLOCK = 2048, OPTIMIZER_SIGN_BLOCK = 1024, OPTIMIZER_SIGN_BYTES = 4 + OPTIMIZER_SIGN_BLOCK / 8 };

// The unit that an optimizer updates by itself: each parameter, a block of a layer (OPTIMIZER_8BIT_BLOCK numbers,
// counted from the layer's first), or a whole tensor. No replica's share cuts through a unit.
enum optimizer_unit { UPDATES_PARAMETERS, UPDATES_BLOCKS, UPDATES_TENSORS };

enum optimizer_formula {
    FORMULA_SGD,        // with momentum, if it keeps a moment
    FORMULA_ADAM,
    FORMULA_ADAGRAD,
    FORMULA_LARS,
    FORMULA_LAMB,
    FORMULA_ADAFACTOR,
    FORMULA_ADAM_8BIT,
};

// ROW(KIND, name, fields of struct optimizer_row). Documents name optimizers, so that the order here is free.
#define OPTIMIZERS(ROW)                                                                                            \
    ROW(SGD, "sgd", .formula = FORMULA_SGD, .master = OPTIMIZER_SGD_MASTER, .is_by_rows = true)                    \
    ROW(MOMENTUM, "momentum", .formula = FORMULA_SGD, .moments = 1, .master = OPTIMIZER_MOMENTUM_MASTER)           \
    ROW(ADAMW, "adamw", .formula = FORMULA_ADAM, .moments = 2)                                                     \
    ROW(ADAM, "adam", .formula = FORMULA_ADAM, .moments = 2, .is_coupled = true)                                   \
    ROW(LAMB, "lamb", .formula = FORMULA_LAMB, .moments = 2, .unit = UPDATES_TENSORS, .epsilon = 1e-6f)            \
    ROW(LARS, "lars", .formula = FORMULA_LARS, .moments = 1, .unit = UPDATES_TENSORS)                              \
    ROW(ADAFACTOR, "adafactor", .formula = FORMULA_ADAFACTOR, .is_factored = true, .unit = UPDATES_TENSORS)        \
    ROW(ADAM_8BIT, "adam8bit", .formula = FORMULA_ADAM_8BIT, .codes = 2, .unit = UPDATES_BLOCKS)                   \
    ROW(ADAM_1BIT, "adam1bit", .formula = FORMULA_ADAM, .moments = 2, .unit = UPDATES_TENSORS, .compresses = true) \
    ROW(ADAGRAD, "adagrad", .formula = FORMULA_ADAGRAD, .moments = 1, .is_coupled = true, .epsilon = 1e-10f,       \
        .is_by_rows = true)                                                                                        \
    ROW(ADAGRAD_ROWS, "adagrad-rows", .formula = FORMULA_ADAGRAD, .is_coupled = true, .epsilon = 1e-10f,           \
        .is_by_rows = true, .keeps_rows = true, .unit = UPDATES_TENSORS)                                           \
    ROW(ADAM_ROWS, "adam-rows", .formula = FORMULA_ADAM, .moments = 2, .is_coupled = true, .is_by_rows = true,     \
        .is_lazy = true, .unit = UPDATES_TENSORS)                                                                  \
    ROW(SGD_MASTER, "sgd-master", .formula = FORMULA_SGD, .is_master = true)                                       \
    ROW(MOMENTUM_MASTER, "momentum-master", .formula = FORMULA_SGD, .moments = 1, .is_master = true)               \
    ROW(ADAMW_MASTER, "adamw-master", .formula = FORMULA_ADAM, .moments = 2, .is_master = true)

// The same for the help of commands, the usual one first, and families in short.
#define OPTIMIZERS_SAID \
    "adamw (usual), adam, adagrad, sgd, momentum, lars, lamb, adafactor, adam8bit, adam1bit, ..-master, ..-rows"

#define OPTIMIZER_KIND(kind, ...) OPTIMIZER_##kind,
enum optimizer_kind { OPTIMIZERS(OPTIMIZER_KIND) };

struct optimizer_row {
    enum optimizer_formula formula;
    uint32_t moments;            // numbers kept for each parameter: in its own type, or with is_master in fp32
    uint32_t codes;              // numbers of a byte, each block of which has an fp32 scale
    bool is_factored;            // its state follows from the shapes of the parameters
    bool is_master;              // for 16-bit weights: a copy of them, gradients and moments, all in fp32
    bool compresses;             // replicas send a compressed momentum, not gradients, and keep what that leaves out
    bool is_coupled;             // weight decay is added to the gradient
    bool is_by_rows;             // without a gradient, and without decay, weights and state stay as they are
    bool keeps_rows;             // its state is a number of each parameter, but of tables one of each row
    bool is_lazy;                // of tables it updates only rows with a gradient, and so needs lists of rows
    enum optimizer_unit unit;
    enum optimizer_kind master;  // its counterpart with fp32 copies; OPTIMIZER_SGD: none (optimizer_master)
    float epsilon;               // usual; 0: 1e-8
};
extern const struct optimizer_row optimizer_rows[];  // by kind
extern const char *const optimizer_names[];          // by kind: "sgd", "momentum", "adamw", ..., NULL

// The optimizer that plans are made for if none is named, the same in commands, Python and weir.h.
#define OPTIMIZER_USUAL OPTIMIZER_ADAMW

// Its own -master optimizer; adamw-master for optimizers that have none.
static inline enum optimizer_kind optimizer_master(enum optimizer_kind kind)
{
    const enum optimizer_kind master = optimizer_rows[kind].master;
    return master != OPTIMIZER_SGD ? master : OPTIMIZER_ADAMW_MASTER;
}

// Whether it is an optimizer for 16-bit weights, which keeps them in fp32 too.
static inline bool optimizer_is_master(enum optimizer_kind kind)
{
    return optimizer_rows[kind].is_master;
}

// Whether replicas send each other their next momentum in a compressed form instead of gradients. Each replica then has
// an error for every parameter: what that form has left out so far (error feedback).
static inline bool optimizer_compresses(enum optimizer_kind kind)
{
    return optimizer_rows[kind].compresses;
}

static inline enum optimizer_unit optimizer_unit(enum optimizer_kind kind)
{
    return optimizer_rows[kind].unit;
}

static inline bool optimizer_is_by_parameter(enum optimizer_kind kind)
{
    return optimizer_unit(kind) == UPDATES_PARAMETERS;
}

#endif
