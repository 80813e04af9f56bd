// Private: reads the structs of options of weir.h, whose first field is the size that the caller's program knows
// (docs/decisions/093-options-with-a-size.md).
#ifndef API_WEIR_OPTIONS_H
#define API_WEIR_OPTIONS_H

#include <stddef.h>

#include "api/weir.h"

// Every struct of options, with its last field in 0.1.0. A new field comes last. The fields before it leave no padding
// at the struct's end, in which it would be taken for given by programs that do not know it (tests/cli/exports.sh).
#define WEIR_ALL_OPTIONS(X)     \
    X(check_layers, loss_share) \
    X(profile, repeats)         \
    X(estimate, gradient_bytes) \
    X(partition, watch)         \
    X(export, base)             \
    X(explain, watch)           \
    X(sweep, watch)             \
    X(config_sweep, watch)      \
    X(weeks, spares)            \
    X(judge, memory_bytes)      \
    X(generate, replicas)       \
    X(csv, dialect)             \
    X(price, cluster)           \
    X(check, price)             \
    X(search, watch)            \
    X(draw, font)               \
    X(compare, iteration)       \
    X(checkpoint, self)         \
    X(runtime, checkpoints)     \
    X(train, self)              \
    X(evaluate, predictions)

// A struct of options as this library knows it, and its least size: that of 0.1.0.
struct options_kind {
    const char *name;  // "weir_partition_options"
    size_t size, least;
};

// Copies the caller's options into `chosen`, which is a whole struct of this kind. What the caller does not know, or
// everything if `given` is NULL, becomes zero, which is the default. A size is refused if the caller forgot it, if no
// struct of this kind has it, or if a byte beyond this library's struct is not zero.
bool given_options(const void *given, const struct options_kind *kind, void *chosen, struct weir_error *error);

// The same for each of them: given_partition_options(given, &chosen, &error).
#define READ_OPTIONS(NAME, LAST)                                                                                 \
    static inline bool given_##NAME##_options(const struct weir_##NAME##_options *given,                         \
                                              struct weir_##NAME##_options *chosen, struct weir_error *error)    \
    {                                                                                                            \
        const struct options_kind kind = { "weir_" #NAME "_options", sizeof *chosen,                             \
                                           offsetof(struct weir_##NAME##_options, LAST) + sizeof chosen->LAST }; \
        return given_options(given, &kind, chosen, error);                                                       \
    }
WEIR_ALL_OPTIONS(READ_OPTIONS)
#undef READ_OPTIONS

#endif
