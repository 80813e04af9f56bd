// The rows of a layer of tables, which is one matrix of floats (touched_rows and row_columns in weir_layer.h).
#ifndef RUNTIME_STAGES_LAYER_TABLE_H
#define RUNTIME_STAGES_LAYER_TABLE_H

#include "common/public/weir_layer.h"

struct layer_table {
    uint64_t rows, columns;  // 0: the layer is no table
};

static inline struct layer_table layer_table_of(const struct weir_layer *layer)
{
    struct layer_table table = { 0 };
    if (layer->touched_rows > 0 && layer->row_columns > 0)
        return (struct layer_table){ layer->parameter_bytes / sizeof(float) / layer->row_columns, layer->row_columns };
    for (size_t t = 0; layer->touched_rows > 0 && t < layer->tensor_count; t++)
        table.rows += layer->tensors[t].rows > 0 ? layer->tensors[t].rows : 1;
    if (layer->touched_rows > 0)
        table.columns = layer->tensors[0].columns;
    return table;
}

#endif
