#include "trainer/model_lasting.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "trainer/model_spec.h"

// Rows of padding, which no token names, are zeros and not stored. In `names` each tensor has a place for the name
// that transformers gives it; NULL: there are no such names.
static size_t describe(const struct layer *layer, struct lasting_tensor *to, char (*names)[HUGGING_FACE_NAME])
{
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(layer, tensors);
    for (size_t t = 0; t < count; t++) {
        const struct tensor *from = &tensors[t];
        to[t] = (struct lasting_tensor){ .name = from->name, .rows = from->rows - from->padding_rows,
                                         .columns = from->columns, .first = from->offset };
        if (names) {
            hugging_face_name(layer, from, names[t]);
            to[t].known_as = names[t];
        }
    }
    return count;
}

static size_t describe_states(const struct layer *layer, struct lasting_tensor *to)
{
    struct weir_tensor states[LAYER_TENSORS];
    const size_t count = layer_states(layer, states);
    for (size_t s = 0; s < count; s++)
        to[s] = (struct lasting_tensor){ .name = states[s].name, .rows = 1, .columns = states[s].columns,
                                         .first = states[s].first_byte / sizeof(float) };
    return count;
}

// Writes which file has which tensor, for readers of a model in several files.
static void put_index(const struct lasting_model *lasting, struct text *text)
{
    struct json_writer json = json_writer(text);
    uint64_t bytes = 0;
    json_begin_object(&json, NULL, JSON_LINES);
    json_begin_object(&json, "weight_map", JSON_LINES);
    for (size_t l = 0; l < lasting->layer_count; l++)
        for (size_t t = 0; t < lasting->layers[l].tensor_count; t++) {
            const struct lasting_tensor *tensor = &lasting->layers[l].tensors[t];
            char file[PATH_MAX];
            snprintf(file, sizeof file, "%s.safetensors", lasting->layers[l].name);
            json_put_string(&json, tensor->known_as, file);
            bytes += tensor->rows * tensor->columns * precision_bytes(lasting->form.precision);
        }
    json_close(&json);
    json_begin_object(&json, "metadata", JSON_INLINE);
    json_put_u64(&json, "total_size", bytes);
    json_close(&json);
    json_close(&json);
}

static bool put_files(struct lasting_model *lasting, const struct model *model, struct error *error)
{
    struct run_file *files = lasting->files;
    files[0].name = "config.json";
    files[1].name = "model.safetensors.index.json";
    lasting->file_count = 2;
    hugging_face_config(model, &files[0].text);
    put_index(lasting, &files[1].text);
    return text_ok(&files[0].text, files[0].name, error) && text_ok(&files[1].text, files[1].name, error);
}

struct lasting_model *lasting_model_create(const struct model *model, enum optimizer_kind optimizer,
                                           struct error *error)
{
    const bool has_names = hugging_face_has(model);
    char (*names)[HUGGING_FACE_NAME] = NULL;
    struct lasting_model *lasting = calloc(1, sizeof *lasting);
    if (lasting) {
        lasting->form = (struct lasting_form){ model->sizes.precision, optimizer };
        lasting->layers = calloc(model->layer_count, sizeof lasting->layers[0]);
        lasting->tensors = calloc(2 * model->layer_count * LAYER_TENSORS, sizeof lasting->tensors[0]);
        names = lasting->names = has_names ? calloc(model->layer_count * LAYER_TENSORS, sizeof *names) : NULL;
    }
    if (!lasting || !lasting->layers || !lasting->tensors || (has_names && !names)) {
        lasting_model_free(lasting);
        return error_null(error_no_memory(error, "a model's tensors"));
    }
    struct lasting_tensor *tensors = lasting->tensors;
    lasting->layer_count = model->layer_count;
    for (size_t l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layers[l];
        lasting->layers[l] = (struct lasting_layer){
            .name = layer->name,
            .tensors = tensors,
            .tensor_count = describe(layer, tensors, has_names ? names + (tensors - lasting->tensors) : NULL),
            .numbers = layer_sizes(layer).parameter_bytes / precision_bytes(model->sizes.precision),
            .is_table = layer_sizes(layer).touched_rows > 0,
            .state_numbers = layer_sizes(layer).state_bytes / sizeof(float),
        };
        tensors += lasting->layers[l].tensor_count;
        lasting->layers[l].states = tensors;
        lasting->layers[l].state_count = describe_states(layer, tensors);
        tensors += lasting->layers[l].state_count;
    }
    if (!has_names || put_files(lasting, model, error))
        return lasting;
    lasting_model_free(lasting);
    return NULL;
}

bool lasting_is_computed_alike(const struct manifest *manifest, const struct model *model, struct error *error)
{
    struct error unknown = { 0 };
    struct model *kept = model_from_spec(manifest->model, model->sizes.precision, &unknown);
    const struct layer *differs = kept ? model_differs(kept, model) : NULL;
    if (differs)
        error_set(error, "the checkpoint is of the model \"%.150s\", whose layer %s computes something else than that"
                  " of the model named here: name it with the checkpoint's sizes", manifest->model, differs->name);
    model_free(kept);
    return !differs && (!unknown.lacks_memory || error_hand_on(error, &unknown));
}
