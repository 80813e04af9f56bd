#include "runtime/checkpoint/lasting.h"

#include <stdlib.h>
#include <string.h>

void lasting_model_free(struct lasting_model *lasting)
{
    if (!lasting)
        return;
    free(lasting->layers);
    free(lasting->tensors);
    free(lasting->names);
    for (size_t i = 0; i < lasting->file_count; i++)
        text_clear(&lasting->files[i].text);
    free(lasting);
}

bool lasting_model_matches(const struct lasting_model *lasting, const struct manifest *manifest, struct error *error)
{
    const char *precision = precision_name(lasting->form.precision);
    const char *optimizer = optimizer_names[lasting->form.optimizer];
    if (strcmp(manifest->precision, precision) != 0)
        return error_set(error, "the checkpoint is of a run in %s, and this one is in %s", manifest->precision,
                         precision);
    if (strcmp(manifest->optimizer, optimizer) != 0)
        return error_set(error, "the checkpoint is of a run with the optimizer %s, and this one has %s",
                         manifest->optimizer, optimizer);
    if (manifest->layer_count != lasting->layer_count)
        return error_set(error, "the checkpoint has %zu layers, and the model has %zu", manifest->layer_count,
                         lasting->layer_count);
    for (size_t l = 0; l < lasting->layer_count; l++)
        if (strcmp(manifest->layers[l].name, lasting->layers[l].name) != 0)
            return error_set(error, "the checkpoint's layer %zu is %.100s, and the model's is %s", l,
                             manifest->layers[l].name, lasting->layers[l].name);
    return true;
}

static bool has_part(const struct lasting_model *lasting, size_t layer, uint32_t part)
{
    return part == LASTING_STATE ? lasting->layers[layer].state_numbers > 0 : part < lasting_parts(&lasting->form);
}

bool lasting_state_create(struct lasting_state *state, const struct lasting_model *lasting, size_t layer,
                          const char *what, struct error *error)
{
    *state = (struct lasting_state){ 0 };
    for (uint32_t part = 0; part < LASTING_PARTS; part++) {
        if (!has_part(lasting, layer, part))
            continue;
        const uint64_t bytes = lasting_part_bytes(&lasting->form, &lasting->layers[layer], part) + 1;
        state->parts[part] = malloc(bytes);  // memory even for a layer without parameters
        if (!state->parts[part]) {
            lasting_state_clear(state);
            return error_no_memory(error, what);
        }
        memset(state->parts[part], 0, bytes);  // now, or the first copy would wait for the pages
    }
    return true;
}

void lasting_state_clear(struct lasting_state *state)
{
    for (uint32_t part = 0; part < LASTING_PARTS; part++)
        free(state->parts[part]);
    *state = (struct lasting_state){ 0 };
}
