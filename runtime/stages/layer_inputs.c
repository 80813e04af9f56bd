#include "runtime/stages/layer_inputs.h"

#include <stdlib.h>

#include "common/number.h"

void layers_find_backwards(const struct weir_layer *layers, size_t layer_count, bool *has_backward)
{
    for (size_t l = 0; l < layer_count; l++)
        has_backward[l] = l + 1 == layer_count;
    for (size_t l = layer_count; l-- > 0;)
        for (size_t i = 0; layer_gives_gradients(layers, has_backward, l) && i < layer_input_count(layers, l); i++)
            has_backward[layer_input(layers, l, i)] = true;
}

// Whether several layers give gradients of the output.
static bool is_forked(const struct weir_layer *layers, size_t layer_count, const bool *has_backward, size_t layer)
{
    size_t readers = 0;
    for (size_t l = layer + 1; readers < 2 && l < layer_count; l++)
        readers += layer_reads(layers, l, layer) && layer_gives_gradients(layers, has_backward, l);
    return readers > 1;
}

uint64_t layer_backward_room(const struct weir_layer *layers, size_t layer_count, const bool *has_backward,
                             size_t layer)
{
    const struct weir_layer *asked = &layers[layer];
    uint64_t bytes = has_backward[layer] ? asked->backward_workspace_bytes : 0;
    if (has_backward[layer] && !asked->backward)
        bytes = round_to_256(bytes) + round_to_256(asked->held_for_weight_bytes);
    const bool gives = layer_gives_gradients(layers, has_backward, layer);
    for (size_t i = 0; gives && i < layer_input_count(layers, layer); i++) {
        const size_t from = layer_input(layers, layer, i);
        if (is_forked(layers, layer_count, has_backward, from))
            bytes = round_to_256(bytes) + round_to_256(layers[from].output_bytes);
    }
    return bytes;
}

uint64_t layer_planned_room(const struct weir_layer *layers, const bool *has_backward, size_t layer, uint64_t room)
{
    for (size_t i = 0; i < layer_input_count(layers, layer); i++) {
        const size_t from = layer_input(layers, layer, i);
        if (!has_backward[from])
            room -= min_u64(room, round_to_256(layers[from].output_bytes));
    }
    return room;
}

// This also holds for an input of which another reader gives a gradient.
static bool note_no_cuts(const struct weir_layer *layers, size_t layer_count, struct profile *profile,
                         struct error *error)
{
    bool *has_backward = calloc(layer_count + 1, sizeof *has_backward), *is_whole = calloc(layer_count + 1, 1);
    uint32_t *no_cut_after = calloc(layer_count + 1, sizeof *no_cut_after);
    if (!has_backward || !is_whole || !no_cut_after) {
        free(has_backward);
        free(is_whole);
        free(no_cut_after);
        return error_no_memory(error, "the cuts of a profile");
    }
    layers_find_backwards(layers, layer_count, has_backward);
    for (size_t l = 0; l < layer_count; l++)
        for (size_t i = 0; !layer_gives_gradients(layers, has_backward, l) && i < layer_input_count(layers, l); i++)
            for (size_t cut = layer_input(layers, l, i); cut < l; cut++)
                is_whole[cut] = true;
    free(profile->no_cut_after);
    profile->no_cut_after = no_cut_after;
    profile->no_cut_count = 0;
    for (uint32_t l = 0; l < layer_count; l++)
        if (is_whole[l])
            no_cut_after[profile->no_cut_count++] = l;
    free(has_backward);
    free(is_whole);
    return true;
}

bool layers_note_inputs(const struct weir_layer *layers, size_t layer_count, struct profile *profile,
                        struct error *error)
{
    size_t count = 0;
    if (!note_no_cuts(layers, layer_count, profile, error))
        return false;
    profile->is_chain = true;
    for (size_t l = 0; l < layer_count; l++) {
        count += layer_input_count(layers, l);
        profile->is_chain &= layer_input_count(layers, l) == (l > 0) && (l == 0 || layer_input(layers, l, 0) + 1 == l);
    }
    if (profile->is_chain)
        return true;
    profile->edges = calloc(count + 1, sizeof profile->edges[0]);
    if (!profile->edges)
        return error_no_memory(error, "the edges of a profile");
    for (size_t l = 0; l < layer_count; l++)
        for (size_t i = 0; i < layer_input_count(layers, l); i++)
            profile->edges[profile->edge_count++] = (struct edge){ (uint32_t)layer_input(layers, l, i), (uint32_t)l };
    qsort(profile->edges, profile->edge_count, sizeof profile->edges[0], edges_compare);
    return true;
}

struct weir_layer *layers_copy(const struct weir_layer *layers, const uint32_t *order, size_t layer_count,
                               struct error *error)
{
    size_t inputs = 0;
    for (size_t l = 0; l < layer_count; l++)
        inputs += layer_input_count(layers, l);
    struct weir_layer *copies = calloc(1, layer_count * sizeof *copies + inputs * sizeof copies->inputs[0]);
    size_t *place = calloc(layer_count + 1, sizeof *place);
    if (!copies || !place) {
        free(copies);
        free(place);
        return error_null(error_no_memory(error, "the layers of a model"));
    }
    for (size_t p = 0; p < layer_count; p++)
        place[order ? order[p] : p] = p;
    const struct weir_layer **input = (const struct weir_layer **)(copies + layer_count);
    for (size_t p = 0; p < layer_count; p++) {
        const size_t l = order ? order[p] : p;
        copies[p] = layers[l];
        copies[p].tied = layers[l].tied ? &copies[place[layers[l].tied - layers]] : NULL;
        copies[p].inputs = input;
        copies[p].input_count = layer_input_count(layers, l);
        for (size_t i = 0; i < copies[p].input_count; i++)
            *input++ = &copies[place[layer_input(layers, l, i)]];
    }
    free(place);
    return copies;
}
