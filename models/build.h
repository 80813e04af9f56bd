// Private: how the models are made, layer by layer.
#ifndef MODELS_BUILD_H
#define MODELS_BUILD_H

#include "models/model.h"

// A model that is being made. After a failure more layers change nothing.
struct building {
    struct model *model;
    size_t room;         // for so many layers
    struct error *error;
    bool has_failed;
    struct layer spare;  // what is written to after a failure
};

// Adds a layer that reads nothing yet. It is there until the next one is added.
struct layer *build_layer(struct building *building, const struct layer_kind *kind, const char *name);

// Makes the layer read this one, too, whose output is so wide.
void build_input(struct building *building, struct layer *layer, uint32_t from, size_t width);

// Writes a layer's name, and returns it.
const char *build_name(char name[LAYER_NAME_SIZE], const char *format, ...) __attribute__((format(printf, 2, 3)));

// The models of a family, by name.
void build_text_model(struct building *building);
void build_picture_model(struct building *building);
void build_click_model(struct building *building);

#endif
