#include "trainer/given_weights.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/arrays.h"
#include "common/json.h"
#include "common/path.h"
#include "device/half.h"

static const char ONE_FILE[] = "model.safetensors", INDEX[] = "model.safetensors.index.json",
                  MANIFEST[] = "manifest.json", CONFIG[] = "config.json", PREFIX[] = "transformer.",
                  HEAD_WORDS[] = "lm_head.weight";

struct reading {
    const char *path;
    const struct model *model;
    const struct lasting_model *lasting;
    const bool *wanted;  // NULL: all
    struct given_weights given;
    bool *found;         // by tensor, as lasting->tensors has them
    float *head_words;   // if a file has them; else NULL
    uint64_t head_count;
};

static bool wants(const struct reading *reading, size_t layer)
{
    return !reading->wanted || reading->wanted[layer];
}

// --- which tensor it is ---------------------------------------------------------------------

struct place {
    size_t layer;
    const struct lasting_tensor *tensor;  // NULL: no tensor of the model
    bool is_state;
};

// The tensors of a layer, those of its state last.
static const struct lasting_tensor *tensor_at(const struct lasting_layer *layer, size_t index)
{
    return index < layer->tensor_count ? &layer->tensors[index] : &layer->states[index - layer->tensor_count];
}

static size_t tensor_count(const struct lasting_layer *layer)
{
    return layer->tensor_count + layer->state_count;
}

static bool is_called(const struct lasting_layer *layer, const struct lasting_tensor *tensor, const char *name)
{
    const size_t length = strlen(layer->name), prefix = strlen(PREFIX);
    const char *known_as = tensor->known_as;
    if (known_as && (strcmp(known_as, name) == 0
                     || (strncmp(known_as, PREFIX, prefix) == 0 && strcmp(known_as + prefix, name) == 0)))
        return true;
    return strncmp(layer->name, name, length) == 0 && name[length] == '.'
        && strcmp(name + length + 1, tensor->name) == 0;
}

static struct place find(const struct lasting_model *lasting, const char *name)
{
    for (size_t l = 0; l < lasting->layer_count; l++)
        for (size_t t = 0; t < tensor_count(&lasting->layers[l]); t++) {
            const struct lasting_tensor *tensor = tensor_at(&lasting->layers[l], t);
            if (is_called(&lasting->layers[l], tensor, name))
                return (struct place){ l, tensor, t >= lasting->layers[l].tensor_count };
        }
    return (struct place){ 0, NULL, false };
}

static bool is_mask(const char *name)
{
    return path_ends_with(name, ".attn.bias") || path_ends_with(name, ".attn.masked_bias");
}

static bool is_positions(const struct lasting_tensor *tensor)
{
    return strcmp(tensor->name, "positions") == 0;
}

static bool has_shape(const struct safe_tensor *found, const struct lasting_tensor *tensor, struct error *error)
{
    const bool is_matrix = found->dimensions == 2;
    const uint64_t rows = is_matrix ? found->shape[0] : 1;
    const uint64_t columns = found->dimensions == 0 ? 0 : found->shape[found->dimensions - 1];
    if (found->dimensions >= 1 && found->dimensions <= 2 && columns == tensor->columns
        && (rows == tensor->rows || (is_positions(tensor) && rows > tensor->rows)))
        return true;
    return error_set(error, "tensor %.100s is of %llu x %llu numbers in %u dimensions, and the model's of %llu x %llu:"
                     " name the model with the sizes that these weights have", found->name, (unsigned long long)rows,
                     (unsigned long long)columns, found->dimensions, (unsigned long long)tensor->rows,
                     (unsigned long long)tensor->columns);
}

// --- numbers ----------------------------------------------------------------------------------

static bool to_floats(const struct safe_tensor *tensor, const void *data, uint64_t count, float *to,
                      struct error *error)
{
    const uint16_t *halves = data;
    if (tensor->type == SAFE_F32)
        memcpy(to, data, count * sizeof *to);
    else if (tensor->type == SAFE_BF16)
        for (uint64_t i = 0; i < count; i++)
            to[i] = half_widen_bf16(halves[i]);
    else if (tensor->type == SAFE_F16)
        for (uint64_t i = 0; i < count; i++)
            to[i] = half_widen_fp16(halves[i]);
    else
        return error_set(error, "tensor %.100s is of %s, and weights are of F32, BF16 or F16", tensor->name,
                         safe_type_name(tensor->type));
    return true;
}

// --- a file ----------------------------------------------------------------------------------

static bool is_as_noted(struct safe_file *file, const struct safe_tensor *tensor, const void *data,
                        struct error *error)
{
    char found[HASH_SIZE];
    struct text key = { 0 };
    text_add(&key, "xxh3-128 of %s", tensor->name);
    const char *noted = key.failed ? NULL : safe_header_note(safe_file_header(file), key.data);
    text_clear(&key);
    if (!noted)
        return true;
    hash_bytes(data, tensor->end - tensor->first, found);
    return strcmp(noted, found) == 0
        || error_set(error, "is damaged: tensor %.100s has the checksum %s, and %.40s was written", tensor->name, found,
                     noted);
}

static bool keep_head_words(struct reading *reading, const struct safe_tensor *tensor, const void *data,
                            struct error *error)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        count *= tensor->shape[i];
    free(reading->head_words);
    reading->head_count = count;
    reading->head_words = malloc(count * sizeof *reading->head_words + 1);
    return reading->head_words ? to_floats(tensor, data, count, reading->head_words, error)
                               : error_no_memory(error, "a head's words");
}

static bool keep_tensor(struct reading *reading, const struct safe_tensor *tensor, const struct place *place,
                        const void *data, struct error *error)
{
    bool *found = &reading->found[place->tensor - reading->lasting->tensors];
    if (*found)
        return error_set(error, "tensor %.100s is there twice", tensor->name);
    *found = true;
    if (!has_shape(tensor, place->tensor, error))
        return false;
    const uint64_t count = place->tensor->rows * place->tensor->columns;
    float *const *to = place->is_state ? reading->given.states : reading->given.numbers;
    return !wants(reading, place->layer)
        || to_floats(tensor, data, count, to[place->layer] + place->tensor->first, error);
}

static bool take_tensor(struct reading *reading, struct safe_file *file, const struct safe_tensor *tensor,
                        struct error *error)
{
    const struct place place = find(reading->lasting, tensor->name);
    const bool is_head = !place.tensor && strcmp(tensor->name, HEAD_WORDS) == 0;
    if (!place.tensor && !is_head && !is_mask(tensor->name))
        return error_set(error, "tensor %.100s is none of the model", tensor->name);
    void *data = malloc(tensor->end - tensor->first + 1);
    bool good = data ? safe_file_next(file, data, error) && is_as_noted(file, tensor, data, error)
                     : error_no_memory(error, "a tensor");
    if (good && place.tensor)
        good = keep_tensor(reading, tensor, &place, data, error);
    else if (good && is_head)
        good = keep_head_words(reading, tensor, data, error);
    free(data);
    return good;
}

static bool take_file(struct reading *reading, const char *path, struct error *error)
{
    struct safe_file *file = safe_file_open(path, error);
    if (!file)
        return false;
    const struct safe_header *header = safe_file_header(file);
    bool good = true;
    for (size_t i = 0; good && i < header->count; i++)
        good = take_tensor(reading, file, &header->tensors[i], error);
    safe_file_close(file);
    return good || error_name(error, "%.300s", path);
}

// --- the files -------------------------------------------------------------------------------

// True for anything with that name, so that it is read or refused: a dangling link is not the same as a missing file.
static bool has_file(const char *folder, const char *name)
{
    struct stat about;
    char path[PATH_MAX];
    struct error none = { 0 };
    return path_join(folder, name, path, &none) && lstat(path, &about) == 0;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool given_weights_are_there(const char *path)
{
    return path_ends_with(path, ".safetensors") || has_file(path, ONE_FILE) || has_file(path, INDEX);
}

// Reads each file that the index names once.
static bool take_named(struct reading *reading, struct json *map, struct error *error)
{
    struct arrays kept = { 0 };
    const size_t most = json_count(map);
    const char **files = arrays_add(&kept, most + 1, sizeof *files);
    size_t count = 0;
    bool good = files || error_no_memory(error, "the files of a model");
    struct json item;
    while (good && json_next_key(map, &item)) {
        const char *name = json_item_string(&item);
        size_t i = 0;
        while (i < count && strcmp(files[i], name) != 0)
            i++;
        if (i < count)
            continue;
        files[count++] = name;
        char path[PATH_MAX];
        good = (!strchr(name, '/') && path_ends_with(name, ".safetensors")
                    ? path_join(reading->path, name, path, error) && take_file(reading, path, error)
                    : error_set(error, "%.300s/%s: %.100s is not a safetensors file beside it", reading->path, INDEX,
                                name));
    }
    arrays_clear(&kept);
    return good;
}

static bool take_index(struct reading *reading, struct error *error)
{
    char path[PATH_MAX];
    struct json_document *document = path_join(reading->path, INDEX, path, error) ? json_load(path, error) : NULL;
    if (!document)
        return false;
    struct json root = json_root(document), map = json_object(&root, "weight_map");
    const bool good = json_ok(document, error) && take_named(reading, &map, error) && json_ok(document, error);
    json_free(document);
    return good;
}

static bool take_layers(struct reading *reading, struct error *error)
{
    bool good = true;
    for (size_t l = 0; good && l < reading->lasting->layer_count; l++) {
        char name[PATH_MAX], path[PATH_MAX];
        if (tensor_count(&reading->lasting->layers[l]) == 0)
            continue;  // it has no file
        snprintf(name, sizeof name, "%s.safetensors", reading->lasting->layers[l].name);
        good = path_join(reading->path, name, path, error) && take_file(reading, path, error);
    }
    return good;
}

static bool take_files(struct reading *reading, struct error *error)
{
    const char *path = reading->path;
    char file[PATH_MAX];
    if (!is_folder(path))
        return take_file(reading, path, error);
    if (has_file(path, ONE_FILE))
        return path_join(path, ONE_FILE, file, error) && take_file(reading, file, error);
    if (has_file(path, INDEX))
        return take_index(reading, error);
    if (has_file(path, MANIFEST))
        return take_layers(reading, error);
    return error_named(error, "%.300s: has no weights: none of %s, %s and %s is there", path, ONE_FILE, INDEX,
                       MANIFEST);
}

// --- what is computed with them ------------------------------------------------------------------

// Sizes that config.json must match, and the values that transformers assumes if config.json lacks them. Shapes do
// not tell all of them.
static const struct number_key {
    const char *key, *ours;  // key of config.json, and its name in Weir's specs
    uint64_t usual;
} number_keys[] = {
    { "n_head", "heads", 12 },
    { "n_layer", "blocks", 12 },
    { "n_embd", "width", 768 },
    { "vocab_size", "words", 50257 },
};

static void compare_number(struct json *theirs, struct json *ours, const struct number_key *number)
{
    const uint64_t is = json_has(theirs, number->key) ? json_u64(theirs, number->key, 0, JSON_MAX) : number->usual;
    const uint64_t wanted = json_u64(ours, number->key, 0, JSON_MAX);
    if (is == wanted)
        return;
    if (json_has(theirs, number->key))
        json_refuse_key(theirs, number->key, "is %llu, and the model has %s=%llu: name the model with the sizes that"
                        " these weights have", (unsigned long long)is, number->ours, (unsigned long long)wanted);
    else
        json_refuse(theirs, "has no %s, which is %llu then, and the model has %s=%llu: name the model with the sizes"
                    " that these weights have", number->key, (unsigned long long)is, number->ours,
                    (unsigned long long)wanted);
}

static void compare_word(struct json *theirs, const char *key, const char *wanted, const char *same)
{
    const char *is = json_has(theirs, key) ? json_string(theirs, key) : wanted;
    if (strcmp(is, wanted) != 0 && strcmp(is, same) != 0)
        json_refuse_key(theirs, key, "is \"%.80s\", and the model computes by \"%s\": these weights are another"
                        " model's", is, wanted);
}

static void compare_flag(struct json *theirs, const char *key, bool wanted)
{
    if (json_has(theirs, key) && !json_null(theirs, key) && json_bool(theirs, key) != wanted)
        json_refuse_key(theirs, key, "is %s, and the model computes without that: these weights are another model's",
                        wanted ? "false" : "true");
}

static void compare(struct json *theirs, struct json *ours)
{
    compare_word(theirs, "model_type", "gpt2", "gpt2");
    for (size_t i = 0; i < sizeof number_keys / sizeof number_keys[0]; i++)
        compare_number(theirs, ours, &number_keys[i]);
    compare_word(theirs, "activation_function", "gelu_new", "gelu_pytorch_tanh");  // two names of one function
    compare_flag(theirs, "scale_attn_weights", true);
    compare_flag(theirs, "scale_attn_by_inverse_layer_idx", false);
    const double wanted = json_fraction(ours, "layer_norm_epsilon");
    const double is = json_has(theirs, "layer_norm_epsilon") ? json_fraction(theirs, "layer_norm_epsilon") : wanted;
    if (fabs(is - wanted) > 1e-12)
        json_refuse_key(theirs, "layer_norm_epsilon", "is %g, and the model computes by %g: these weights are another"
                        " model's", is, wanted);
}

// Compares config.json with the one that a checkpoint of the model would have (model_lasting.h). With a different
// number of heads, for example, the same weights would silently compute another function.
static bool is_configured_alike(const struct reading *reading, struct error *error)
{
    const struct lasting_model *lasting = reading->lasting;
    char path[PATH_MAX];
    if (reading->model->sizes.pattern.window > 0 && is_folder(reading->path) && has_file(reading->path, CONFIG))
        return error_named(error, "%.300s/%s: is of attention to all tokens, and the model has a window: name it"
                           " without one", reading->path, CONFIG);
    if (lasting->file_count == 0 || !is_folder(reading->path) || !has_file(reading->path, CONFIG))
        return true;
    const struct text *config = &lasting->files[0].text;
    struct json_document *ours = json_parse(config->data, config->length, CONFIG, error), *theirs = NULL;
    if (ours && path_join(reading->path, CONFIG, path, error))
        theirs = json_load(path, error);
    if (theirs) {
        struct json root = json_root(theirs), own_root = json_root(ours);
        compare(&root, &own_root);
    }
    const bool good = theirs && json_ok(theirs, error) && json_ok(ours, error);
    json_free(theirs);
    json_free(ours);
    return good;
}

static bool is_computed_alike(const struct reading *reading, struct error *error)
{
    char path[PATH_MAX];
    size_t length;
    if (!is_folder(reading->path) || !has_file(reading->path, MANIFEST))
        return true;
    char *text = run_folder_manifest(reading->path, &length, path, error);
    struct manifest *manifest = text ? manifest_read(text, length, path, error) : NULL;
    const bool good = manifest && (lasting_is_computed_alike(manifest, reading->model, error)
                                   || error_name(error, "%.300s", reading->path));
    manifest_free(manifest);
    free(text);
    return good;
}

// --- all of it ----------------------------------------------------------------------------------

static bool is_complete(const struct reading *reading, struct error *error)
{
    const struct lasting_model *lasting = reading->lasting;
    for (size_t l = 0; l < lasting->layer_count; l++)
        for (size_t t = 0; t < tensor_count(&lasting->layers[l]); t++) {
            const struct lasting_tensor *tensor = tensor_at(&lasting->layers[l], t);
            if (!reading->found[tensor - lasting->tensors])
                return error_named(error, "%.300s: has no tensor %s%s%s, which the model has", reading->path,
                                   tensor->known_as ? tensor->known_as : lasting->layers[l].name,
                                   tensor->known_as ? "" : ".", tensor->known_as ? "" : tensor->name);
        }
    return true;
}

// If the head's words are stored next to the embedding's, they must be the same; otherwise this is another model.
static bool is_tied(const struct reading *reading, struct error *error)
{
    const struct lasting_layer *embedding = &reading->lasting->layers[0];
    const struct lasting_tensor *words = &embedding->tensors[0];
    if (!reading->head_words || !wants(reading, 0))
        return true;
    return (reading->head_count == words->rows * words->columns
            && memcmp(reading->head_words, reading->given.numbers[0] + words->first,
                      reading->head_count * sizeof(float)) == 0)
        || error_named(error, "%.300s: %s is not what the embedding has: the head has words of its own, which this"
                       " model's has not", reading->path, HEAD_WORDS);
}

static bool prepare(struct reading *reading, struct error *error)
{
    const struct lasting_model *lasting = reading->lasting;
    struct given_weights *given = &reading->given;
    given->layer_count = lasting->layer_count;
    given->numbers = calloc(lasting->layer_count + 1, sizeof *given->numbers);
    given->states = calloc(lasting->layer_count + 1, sizeof *given->states);
    reading->found = calloc(2 * lasting->layer_count * LAYER_TENSORS + 1, sizeof *reading->found);
    bool good = given->numbers && given->states && reading->found;
    for (size_t l = 0; good && l < lasting->layer_count; l++) {
        const struct lasting_layer *layer = &lasting->layers[l];
        if (!wants(reading, l))
            continue;
        given->numbers[l] = calloc(layer->numbers + 1, sizeof(float));
        if (layer->state_numbers > 0)
            given->states[l] = calloc(layer->state_numbers, sizeof(float));
        good = given->numbers[l] && (layer->state_numbers == 0 || given->states[l]);
    }
    return good || error_no_memory(error, "the weights of a model");
}

bool given_weights_load(const char *path, const struct model *model, const struct lasting_model *lasting,
                        const bool *wanted, struct given_weights *given, struct error *error)
{
    struct reading reading = { .path = path, .model = model, .lasting = lasting, .wanted = wanted };
    const bool good = prepare(&reading, error) && is_computed_alike(&reading, error)
        && is_configured_alike(&reading, error) && take_files(&reading, error) && is_complete(&reading, error)
        && is_tied(&reading, error);
    free(reading.found);
    free(reading.head_words);
    if (!good)
        given_weights_clear(&reading.given);
    *given = reading.given;
    return good;
}

void given_weights_clear(struct given_weights *given)
{
    for (size_t l = 0; given->numbers && l < given->layer_count; l++)
        free(given->numbers[l]);
    for (size_t l = 0; given->states && l < given->layer_count; l++)
        free(given->states[l]);
    free(given->numbers);
    free(given->states);
    *given = (struct given_weights){ 0 };
}

// --- into a pipeline ---------------------------------------------------------------------------

// Writes the weights in the run's precision, and also the optimizer's fp32 copy if it has one.
static bool put_layer(const struct lasting_form *form, const struct pipeline *pipeline, uint32_t layer,
                      const float *numbers, uint64_t count, struct error *error)
{
    if (form->precision == PRECISION_FP32)
        return pipeline_write_part(pipeline, layer, 0, numbers, error);
    uint16_t *halves = malloc(count * sizeof *halves + 1);
    if (!halves)
        return error_no_memory(error, "the weights of a layer");
    for (uint64_t i = 0; i < count; i++)
        halves[i] = half_round(form->precision, numbers[i]);
    const bool good = pipeline_write_part(pipeline, layer, 0, halves, error)
        && (!optimizer_is_master(form->optimizer)
            || pipeline_write_part(pipeline, layer, lasting_parts(form) - 1, numbers, error));
    free(halves);
    return good;
}

static bool put_state(const struct pipeline *pipeline, uint32_t layer, const float *states, struct error *error)
{
    return !states || pipeline_write_part(pipeline, layer, LAYER_STATE, states, error);
}

bool given_weights_put(const char *path, const struct model *model, const struct lasting_model *lasting,
                       const struct pipeline *pipeline, struct error *error)
{
    struct given_weights given;
    bool *wanted = calloc(lasting->layer_count + 1, sizeof *wanted);
    if (!wanted)
        return error_no_memory(error, "the weights of a model");
    for (size_t l = 0; l < lasting->layer_count; l++)
        wanted[l] = pipeline_has_any(pipeline, (uint32_t)l);
    bool good = given_weights_load(path, model, lasting, wanted, &given, error);
    for (size_t l = 0; good && l < lasting->layer_count; l++)
        if (wanted[l])
            good = put_layer(&lasting->form, pipeline, (uint32_t)l, given.numbers[l], lasting->layers[l].numbers, error)
                && put_state(pipeline, (uint32_t)l, given.states[l], error);
    given_weights_clear(&given);
    free(wanted);
    return good;
}
