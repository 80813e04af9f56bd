#include "runtime/stages/sound_layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/stages/layer_inputs.h"
#include "runtime/stages/layer_table.h"

static bool has_sound_ranges(const struct weir_layer *layer, struct error *error)
{
    uint64_t from = 0;
    for (size_t i = 0; i < layer->undecayed_count; i++) {
        const struct weir_range range = layer->undecayed[i];
        if (range.first < from || range.end < range.first || range.end > layer->parameter_bytes
            || range.first % sizeof(float) != 0 || range.end % sizeof(float) != 0)
            return error_set(error, "undecayed[%zu] is no range of whole parameters behind the one before", i);
        from = range.end;
    }
    return true;
}

static bool is_sound_tensor(const struct weir_layer *layer, size_t t)
{
    const struct weir_tensor *tensor = &layer->tensors[t];
    const uint64_t rows = tensor->rows > 0 ? tensor->rows : 1, most = layer->parameter_bytes / sizeof(float);
    const uint64_t first = tensor->first_byte / sizeof(float);
    const struct weir_tensor *before = t > 0 ? tensor - 1 : NULL;
    return tensor->name && tensor->name[0] && tensor->columns > 0 && tensor->first_byte % sizeof(float) == 0
        && first <= most && tensor->columns <= (most - first) / rows
        && (!before || tensor->first_byte / sizeof(float) >= before->first_byte / sizeof(float)
                           + (before->rows > 0 ? before->rows : 1) * before->columns);
}

static bool has_sound_tensors(const struct weir_layer *layer, struct error *error)
{
    for (size_t t = 0; layer->tensors && t < layer->tensor_count; t++) {
        if (!is_sound_tensor(layer, t))
            return error_set(error, "tensors[%zu] has no name, or is no part of the parameters behind the one before",
                             t);
        for (size_t k = 0; k < t; k++)
            if (strcmp(layer->tensors[k].name, layer->tensors[t].name) == 0)
                return error_set(error, "tensors[%zu] has the name of another one: %.60s", t, layer->tensors[t].name);
    }
    return true;
}

// The same rules for the names of a layer's state, which share a file with those of its parameters.
static bool has_sound_states(const struct weir_layer *layer, struct error *error)
{
    const struct weir_layer state = { .tensors = layer->states, .tensor_count = layer->state_count,
                                      .parameter_bytes = layer->state_bytes };
    if (!layer->states)
        return true;
    for (size_t s = 0; s < layer->state_count; s++) {
        if (!is_sound_tensor(&state, s))
            return error_set(error, "states[%zu] has no name, or is no part of the state behind the one before", s);
        for (size_t k = 0; k < s; k++)
            if (strcmp(layer->states[k].name, layer->states[s].name) == 0)
                return error_set(error, "states[%zu] has the name of another one: %.60s", s, layer->states[s].name);
        for (size_t t = 0; layer->tensors && t < layer->tensor_count; t++)
            if (strcmp(layer->tensors[t].name, layer->states[s].name) == 0)
                return error_set(error, "states[%zu] has the name of tensors[%zu]: %.60s", s, t,
                                 layer->states[s].name);
    }
    return true;
}

static bool has_sound_state(const struct weir_layer *layer, struct error *error)
{
    if (layer->state_bytes == 0 && (layer->statistics_bytes > 0 || layer->fold || layer->states))
        return error_set(error, "state_bytes: is 0, and the layer has statistics, a fold or names of a state");
    if (layer->state_bytes % sizeof(float) != 0 || layer->statistics_bytes % sizeof(float) != 0)
        return error_set(error, "state_bytes, statistics_bytes: %llu and %llu are not both whole numbers of floats",
                         (unsigned long long)layer->state_bytes, (unsigned long long)layer->statistics_bytes);
    if (layer->state_bytes > 0 && !layer->fold)
        return error_set(error, "fold: is NULL, and the layer has a state, which nothing else may change");
    if (layer->fold_reads_parameters && (layer->state_bytes == 0 || layer->parameter_bytes == 0))
        return error_set(error, "fold_reads_parameters: the layer has no state, or no parameters of its own");
    if (layer->state_bytes > 0 && layer->most_splits > 1)
        return error_set(error, "most_splits: a layer with a state takes whole sequences");
    return has_sound_states(layer, error);
}

static bool has_sound_columns(const struct weir_layer *layer, struct error *error)
{
    const struct layer_table table = layer_table_of(layer);
    return layer->row_columns == 0 || (table.rows > 0 && layer->summed_rows <= table.rows)
        || error_set(error, "row_columns, summed_rows: %llu and %llu, of which the parameters have no such rows",
                     (unsigned long long)layer->row_columns, (unsigned long long)layer->summed_rows);
}

// Tables are one matrix, which does not decay.
static bool has_sound_rows(const struct weir_layer *layer, struct error *error)
{
    const bool is_of_tensors = layer->row_columns == 0;
    uint64_t bytes = 0, undecayed = 0;
    if (layer->touched_rows == 0)
        return true;
    for (size_t t = 0; layer->tensors && t < layer->tensor_count; t++) {
        const struct weir_tensor *tensor = &layer->tensors[t];
        if ((is_of_tensors && tensor->columns != layer->tensors[0].columns) || tensor->first_byte != bytes)
            return error_set(error, "touched_rows: tensor %s is not right behind the one before it with as many"
                             " columns", tensor->name);
        bytes += (tensor->rows > 0 ? tensor->rows : 1) * tensor->columns * sizeof(float);
    }
    for (size_t r = 0; r < layer->undecayed_count; r++)
        undecayed += layer->undecayed[r].end - layer->undecayed[r].first;
    if (bytes == 0 && is_of_tensors)
        return error_set(error, "touched_rows: needs tensors, whose rows they are");
    if (!has_sound_columns(layer, error))
        return false;
    return undecayed >= bytes
        || error_set(error, "touched_rows: rows without a gradient stay as they are, so that none may decay: name all"
                     " parameters in undecayed");
}

static bool is_sound(const struct weir_layer *layer, bool is_last, struct error *error)
{
    if (!layer->name || !layer->name[0] || !layer->kind)
        return error_set(error, "needs a name and a kind");
    if (!layer->forward || !layer->backward_input || !layer->backward_weight)
        return error_set(error, "needs forward, backward_input and backward_weight");
    if (layer->parameter_bytes % sizeof(float) != 0)
        return error_set(error, "parameter_bytes: %llu is no whole number of floats",
                         (unsigned long long)layer->parameter_bytes);
    if (is_last && layer->output_bytes > 0)
        return error_set(error, "output_bytes: the last layer computes the loss and hands nothing on");
    if (!is_last && layer->metric_count > 0)
        return error_set(error, "metric_count: only the last layer, which computes the loss, counts beside it");
    if (is_last && layer->has_auxiliary_loss)
        return error_set(error, "has_auxiliary_loss: the last layer computes the loss itself: add it to that");
    if (!is_last && layer->held_for_weight_bytes > 0 && layer->held_for_weight_bytes < layer->output_bytes)
        return error_set(error, "held_for_weight_bytes: %llu has no room for the output's gradient (%llu bytes)",
                         (unsigned long long)layer->held_for_weight_bytes, (unsigned long long)layer->output_bytes);
    if (layer->shared_by_parts_bytes > layer->saved_bytes)
        return error_set(error, "shared_by_parts_bytes: %llu is more than saved_bytes, %llu, of which it is a part",
                         (unsigned long long)layer->shared_by_parts_bytes, (unsigned long long)layer->saved_bytes);
    if (!isfinite(layer->rate_factor) || layer->rate_factor < 0)
        return error_set(error, "rate_factor: %g is no rate: needs a number above 0, or 0 for the run's own rate",
                         (double)layer->rate_factor);
    if (layer->tied && layer->tied->touched_rows > 0)
        return error_set(error, "tied: layer %s has touched_rows, and only it may read its parameters",
                         layer->tied->name);
    return has_sound_ranges(layer, error) && has_sound_tensors(layer, error) && has_sound_state(layer, error)
        && has_sound_rows(layer, error);
}

static bool has_sound_inputs(const struct weir_layer *layers, size_t layer, struct error *error)
{
    const struct weir_layer *reader = &layers[layer];
    if (reader->inputs && reader->input_count > WEIR_MOST_INPUTS)
        return error_set(error, "input_count: %zu layers are more than %d: add some up in a layer of their own",
                         reader->input_count, WEIR_MOST_INPUTS);
    for (size_t i = 0; reader->inputs && i < reader->input_count; i++) {
        if (reader->inputs[i] < layers || reader->inputs[i] >= reader)
            return error_set(error, "inputs[%zu]: is no layer of this model before it", i);
        for (size_t k = 0; k < i; k++)
            if (reader->inputs[k] == reader->inputs[i])
                return error_set(error, "inputs[%zu]: layer %s is read already", i, reader->inputs[i]->name);
    }
    return true;
}

// Whether a later layer reads the output. Several layers may read it only if it is floats, since their gradients are
// added up.
static bool is_read(const struct weir_layer *layers, size_t count, size_t layer, struct error *error)
{
    size_t readers = 0;
    for (size_t l = layer + 1; l < count; l++)
        readers += layer_reads(layers, l, layer);
    if (readers == 0 && layer + 1 < count)
        return error_set(error, "no layer reads what it hands on");
    if (readers > 1 && layers[layer].output_bytes % sizeof(float) != 0)
        return error_set(error, "output_bytes: %llu is no whole number of floats, and several layers read it",
                         (unsigned long long)layers[layer].output_bytes);
    return true;
}

static bool is_name_taken(const struct weir_layer *layers, size_t layer)
{
    for (size_t l = 0; l < layer; l++)
        if (strcmp(layers[l].name, layers[layer].name) == 0)
            return true;
    return false;
}

// What only layers with constant inputs read has no gradient, and so nothing before it can be trained.
static bool is_trainable(const struct weir_layer *layer, struct error *error)
{
    const bool owner_trains = layer->tied && !layer->tied->is_frozen;
    if ((layer->parameter_bytes > 0 && !layer->is_frozen) || owner_trains)
        return error_set(error, "has parameters to train, and all layers that need its output say that no gradient of"
                         " it is wanted: freeze it (is_frozen), or take has_constant_inputs away there");
    return !layer->has_auxiliary_loss
        || error_set(error, "has an auxiliary loss to train by, and all layers that need its output say that no"
                     " gradient of it is wanted: take has_constant_inputs away there");
}

static bool are_trainable(const struct weir_layer *layers, size_t count, struct error *error)
{
    bool *has_backward = calloc(count, sizeof *has_backward);
    if (!has_backward)
        return error_no_memory(error, "the layers of a model");
    layers_find_backwards(layers, count, has_backward);
    bool good = true;
    for (size_t l = 0; good && l < count; l++)
        good = has_backward[l] || is_trainable(&layers[l], error)
            || error_at(error, "layer %zu (%s)", l, layers[l].name);
    free(has_backward);
    return good;
}

bool layers_are_sound(const struct weir_layer *layers, size_t count, struct error *error)
{
    if (!layers || count == 0)
        return error_set(error, "a model needs at least one layer");
    for (size_t l = 0; l < count; l++) {
        if (!is_sound(&layers[l], l + 1 == count, error))
            return error_at(error, "layer %zu (%s)", l, layers[l].name ? layers[l].name : "");
        if (layers[l].tied && (layers[l].tied < layers || layers[l].tied >= &layers[l]))
            return error_set(error, "layer %zu (%s): tied: is no layer of this model before it", l, layers[l].name);
        if (is_name_taken(layers, l))
            return error_set(error, "layer %zu (%s): another layer is called the same", l, layers[l].name);
        if (!has_sound_inputs(layers, l, error))
            return error_at(error, "layer %zu (%s)", l, layers[l].name);
    }
    for (size_t l = 0; l < count; l++)
        if (!is_read(layers, count, l, error))
            return error_at(error, "layer %zu (%s)", l, layers[l].name);
    return are_trainable(layers, count, error);
}
