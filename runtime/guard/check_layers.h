// Checks whether layers keep to the contract of struct weir_layer. Every function of every layer is run again and
// again, on buffers of exactly the sizes that the layer states. weir_layers_check() in weir.h lists what is checked.
#ifndef RUNTIME_GUARD_CHECK_LAYERS_H
#define RUNTIME_GUARD_CHECK_LAYERS_H

#include "common/error.h"
#include "common/public/weir_layer.h"

// The fields of struct weir_check_layers_options.
struct layer_checking {
    float loss_share;  // 0: the share that passes state
    bool other_numbers, other_gradients;
    bool unread_state;  // evaluations need not depend on the state
};

// Checks all layers. If one breaks the contract, the error is of kind ERROR_ANSWER and names layer, function and
// field.
bool layers_check(const struct weir_layer *layers, size_t count, const struct layer_checking *checking,
                  struct error *error);

#endif
