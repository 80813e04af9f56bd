#include "models/build.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/layer_kind.h"

const char *build_name(char name[LAYER_NAME_SIZE], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, LAYER_NAME_SIZE, format, arguments);
    va_end(arguments);
    return name;
}

struct layer *build_layer(struct building *building, const struct layer_kind *kind, const char *name)
{
    enum { MORE = 64 };
    const size_t count = building->model->layer_count;
    if (!building->has_failed && count == building->room) {
        const size_t room = building->room + MORE;
        struct model *larger = realloc(building->model, sizeof *larger + room * sizeof(struct layer));
        building->has_failed = !larger;
        building->model = larger ? larger : building->model;
        building->room = larger ? room : building->room;
        if (!larger)
            error_no_memory(building->error, "a model");
    }
    struct layer *layer = building->has_failed ? &building->spare : &building->model->layers[count];
    *layer = (struct layer){ .kind = kind, .index = (uint32_t)count };
    snprintf(layer->name, sizeof layer->name, "%s", name);
    building->model->layer_count += !building->has_failed;
    return layer;
}

void build_input(struct building *building, struct layer *layer, uint32_t from, size_t width)
{
    assert(layer->input_count < LAYER_INPUTS);
    layer->inputs[layer->input_count] = from;
    layer->input_widths[layer->input_count++] = width;
    const enum layer_data data = building->has_failed ? DATA_NONE : building->model->layers[from].kind->data;
    const bool is_constant = data == DATA_PIXELS || data == DATA_NUMBERS;
    layer->has_constant_inputs = is_constant && (layer->input_count == 1 || layer->has_constant_inputs);
}
