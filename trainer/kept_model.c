#include "trainer/kept_model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/run_folder.h"
#include "trainer/given_weights.h"
#include "trainer/model_spec.h"

// Translates the names in a manifest into enums.
static bool read_form(const struct manifest *manifest, struct lasting_form *form, struct error *error)
{
    const enum precision precisions[] = { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16 };
    for (size_t i = 0; i < sizeof precisions / sizeof precisions[0]; i++)
        for (size_t o = 0; optimizer_names[o]; o++)
            if (strcmp(manifest->precision, precision_name(precisions[i])) == 0
                && strcmp(manifest->optimizer, optimizer_names[o]) == 0) {
                *form = (struct lasting_form){ precisions[i], (enum optimizer_kind)o };
                return true;
            }
    return error_set(error, "the checkpoint is in %s by optimizer %s, which this does not know", manifest->precision,
                     manifest->optimizer);
}

static bool load_layer(const struct kept_model *kept, const struct lasting_model *lasting, size_t l,
                       struct error *error)
{
    const struct lasting_layer *layer = &lasting->layers[l];
    kept->weights[l] = malloc(lasting_part_bytes(&lasting->form, layer, 0) + 1);
    if (layer->state_numbers > 0)
        kept->states[l] = malloc(lasting_part_bytes(&lasting->form, layer, LASTING_STATE));
    if (!kept->weights[l] || (layer->state_numbers > 0 && !kept->states[l]))
        return error_no_memory(error, "the weights of a layer");
    void *const parts[LASTING_PARTS] = { [0] = kept->weights[l], [LASTING_STATE] = kept->states[l] };
    return layer_file_load(kept->path, &lasting->form, layer, &kept->manifest->layers[l].written, parts, error);
}

static bool load_layers(struct kept_model *kept, const struct lasting_model *lasting, struct error *error)
{
    kept->weights = calloc(lasting->layer_count + 1, sizeof *kept->weights);
    kept->states = calloc(lasting->layer_count + 1, sizeof *kept->states);
    bool good = (kept->weights && kept->states) || error_no_memory(error, "a model");
    for (size_t l = 0; good && l < lasting->layer_count; l++)
        good = load_layer(kept, lasting, l, error);
    return good;
}

static bool load_manifest(struct kept_model *kept, const char *path, struct error *error)
{
    char file[PATH_MAX];
    size_t length;
    kept->path = strdup(path);
    char *text = kept->path ? run_folder_manifest(path, &length, file, error) : NULL;
    kept->manifest = text ? manifest_read(text, length, file, error) : NULL;
    free(text);
    return kept->manifest || error_no_memory(error, path);
}

// Sets *is_of_another if the checkpoint is of another model; then no other checkpoint of the run would help.
static bool load(struct kept_model *kept, const char *path, const char *spec, bool *is_of_another, struct error *error)
{
    struct lasting_form form = { 0 };
    *kept = (struct kept_model){ 0 };
    *is_of_another = false;
    bool good = load_manifest(kept, path, error) && read_form(kept->manifest, &form, error);
    kept->model = good ? model_from_spec(spec, form.precision, error) : NULL;
    struct lasting_model *lasting = kept->model ? lasting_model_create(kept->model, form.optimizer, error) : NULL;
    *is_of_another = good && (!lasting || ((!lasting_model_matches(lasting, kept->manifest, error)
                                            || !lasting_is_computed_alike(kept->manifest, kept->model, error))
                                           && !error_name(error, "%.200s", path)));
    good = good && !*is_of_another && load_layers(kept, lasting, error);
    lasting_model_free(lasting);
    if (!good)
        kept_model_clear(kept);
    return good;
}

// Tries the newest checkpoint first. Says why a checkpoint is skipped, except the last one, whose reason is the
// error.
static bool load_newest(const char *folder, const char *spec, void (*say)(const char *sentence),
                        struct kept_model *kept, struct error *error)
{
    size_t count = 0;
    uint64_t *steps = run_folder_steps(folder, &count, error);
    bool good = false, ends = !steps;
    for (size_t i = 0; !good && !ends && i < count; i++) {
        char path[PATH_MAX], sentence[sizeof error->text + 20];
        struct error trouble = { 0 };
        good = run_folder_path(folder, steps[i], path, &trouble) && load(kept, path, spec, &ends, &trouble);
        if (!good && (ends || i + 1 == count)) {
            error_hand_on(error, &trouble);
        } else if (!good) {
            snprintf(sentence, sizeof sentence, "%s; it is left out", trouble.text);
            say(sentence);
        }
    }
    free(steps);
    return good || error_named(error, "%.300s: has no checkpoint (weir train --checkpoints makes them)", folder);
}

static bool load_given(struct kept_model *kept, const char *path, const char *spec, struct error *error)
{
    *kept = (struct kept_model){ .path = strdup(path), .model = model_from_spec(spec, PRECISION_FP32, error) };
    struct lasting_model *lasting = kept->model ? lasting_model_create(kept->model, OPTIMIZER_SGD, error) : NULL;
    struct given_weights given = { 0 };
    bool good = lasting && (kept->path || error_no_memory(error, path))
        && given_weights_load(path, kept->model, lasting, NULL, &given, error);
    kept->weights = good ? calloc(kept->model->layer_count + 1, sizeof *kept->weights) : NULL;
    good = good && (kept->weights || error_no_memory(error, "a model"));
    for (size_t l = 0; good && l < kept->model->layer_count; l++) {
        kept->weights[l] = given.numbers[l];
        given.numbers[l] = NULL;
    }
    if (good) {
        kept->states = given.states;
        given.states = NULL;
    }
    given_weights_clear(&given);
    lasting_model_free(lasting);
    if (!good)
        kept_model_clear(kept);
    return good;
}

bool kept_model_load(const char *folder, const char *spec, void (*say)(const char *sentence), struct kept_model *kept,
                     struct error *error)
{
    struct error none = { 0 };
    char file[PATH_MAX];
    size_t length;
    bool is_of_another;
    char *text = run_folder_manifest(folder, &length, file, &none);
    free(text);
    if (!text && given_weights_are_there(folder))
        return load_given(kept, folder, spec, error);
    return text ? load(kept, folder, spec, &is_of_another, error) : load_newest(folder, spec, say, kept, error);
}

void kept_model_clear(struct kept_model *kept)
{
    for (size_t l = 0; kept->weights && l < kept->model->layer_count; l++)
        free(kept->weights[l]);
    for (size_t l = 0; kept->states && l < kept->model->layer_count; l++)
        free(kept->states[l]);
    free(kept->weights);
    free(kept->states);
    model_free(kept->model);
    manifest_free(kept->manifest);
    free(kept->path);
    *kept = (struct kept_model){ 0 };
}

void kept_model_put(const struct kept_model *kept, struct twin *twin)
{
    for (size_t l = 0; l < kept->model->layer_count; l++) {
        twin_put_parameters(twin, l, kept->weights[l]);
        if (kept->states && kept->states[l])
            twin_put_state(twin, l, kept->states[l]);
    }
}

bool kept_model_put_into(const struct kept_model *kept, const struct pipeline *pipeline, struct error *error)
{
    bool good = true;
    for (uint32_t l = 0; good && l < kept->model->layer_count; l++)
        good = !pipeline_has_any(pipeline, l)
            || (pipeline_write_part(pipeline, l, 0, kept->weights[l], error)
                && (!kept->states || !kept->states[l]
                    || pipeline_write_part(pipeline, l, LAYER_STATE, kept->states[l], error)));
    return good;
}

bool kept_model_hash(const struct kept_model *kept, char digits[HASH_SIZE], struct error *error)
{
    struct hash *hash = hash_create();
    if (!hash)
        return error_no_memory(error, "a hash of weights");
    for (size_t l = 0; l < kept->model->layer_count; l++) {
        const struct layer_sizes sizes = layer_sizes(&kept->model->layers[l]);
        hash_add(hash, kept->weights[l], sizes.parameter_bytes);
        if (kept->states && kept->states[l])
            hash_add(hash, kept->states[l], sizes.state_bytes);
    }
    hash_finish(hash, digits);
    return true;
}
