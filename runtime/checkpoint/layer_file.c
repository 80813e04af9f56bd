#include "runtime/checkpoint/layer_file.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arrays.h"
#include "common/number.h"
#include "common/path.h"

static const char SUFFIX[] = ".safetensors", OPTIMIZER[] = ".optimizer";
static const char HASH_NOTE[] = "xxh3-128 of ";  // a note for each tensor, so that damage can be located

uint32_t lasting_parts(const struct lasting_form *form)
{
    const uint64_t parts = 1 + optimizer_parts(form->optimizer);
    assert(parts <= LASTING_STATE);
    return (uint32_t)parts;
}

static enum safe_type type_of(const struct lasting_form *form, uint32_t part)
{
    static const enum safe_type types[] = { [PRECISION_FP32] = SAFE_F32, [PRECISION_BF16] = SAFE_BF16,
                                            [PRECISION_FP16] = SAFE_F16 };
    return part == 0 ? types[form->precision] : SAFE_F32;  // also for LASTING_STATE
}

// The layer's number of weights, with its bytes rounded up.
static uint64_t rounded_numbers(const struct lasting_layer *layer)
{
    return round_to_256(layer->numbers * sizeof(float)) / sizeof(float);
}

static uint64_t block_bytes(const struct lasting_form *form, const struct lasting_layer *layer)
{
    uint64_t floats = 0;
    if (optimizer_rows[form->optimizer].keeps_rows && !layer->is_table)
        return round_to_256(layer->numbers * sizeof(float));
    for (size_t t = 0; optimizer_rows[form->optimizer].keeps_rows && t < layer->tensor_count; t++)
        floats += layer->tensors[t].rows > 1 ? layer->tensors[t].rows : 1;
    if (optimizer_rows[form->optimizer].keeps_rows)
        return round_to_256(floats * sizeof(float));
    if (optimizer_rows[form->optimizer].codes > 0)
        return round_to_256(optimizer_block_bytes(rounded_numbers(layer)));
    for (size_t t = 0; t < layer->tensor_count; t++)
        floats += optimizer_factored((struct shape){ layer->tensors[t].rows > 1 ? layer->tensors[t].rows : 1,
                                                     layer->tensors[t].columns });
    return round_to_256(floats * sizeof(float));
}

uint64_t lasting_part_bytes(const struct lasting_form *form, const struct lasting_layer *layer, uint32_t part)
{
    if (part == LASTING_STATE)
        return layer->state_numbers * sizeof(float);
    if (part > 0 && optimizer_keeps_blocks(form->optimizer))
        return block_bytes(form, layer);
    return layer->numbers * safe_type_bytes(type_of(form, part));
}

bool layer_file_has_name(const struct lasting_layer *layer, struct error *error)
{
    const char *name = layer->name;
    if (*name != '\0' && *name != '.' && !strchr(name, '/') && !path_ends_with(name, OPTIMIZER)
        && strlen(name) + strlen(OPTIMIZER) + strlen(SUFFIX) <= NAME_MAX)
        return true;
    return error_set(error,
                     "layer \"%.80s\" is kept in a file of its name, which no file can have: give it another one",
                     name);
}

// One of a layer's two files: which of its parts it has.
struct layer_half {
    const char *middle;  // of its name
    uint32_t first, end;
};

static struct layer_half weights_half(void)
{
    return (struct layer_half){ "", 0, 1 };
}

static struct layer_half optimizer_half(const struct lasting_form *form)
{
    return (struct layer_half){ OPTIMIZER, 1, lasting_parts(form) };
}

static bool path_of(const char *folder, const struct lasting_layer *layer, const struct layer_half *half,
                    char path[PATH_MAX], struct error *error)
{
    char name[NAME_MAX + 1];
    if (!layer_file_has_name(layer, error))
        return false;
    snprintf(name, sizeof name, "%s%s%s", layer->name, half->middle, SUFFIX);
    return path_join(folder, name, path, error);
}

// --- a layer as tensors ------------------------------------------------------------------

// The tensors of a file with their names and notes, all of them in `arrays`.
struct described {
    struct safe_tensor *tensors;  // those of the first part, then those of the second, ..
    struct place {
        uint32_t part;
        uint64_t first_byte;
    } *places;                // one per tensor
    struct safe_note *notes;  // one per tensor
    size_t count;
    struct arrays arrays;
};

static char *join(struct arrays *arrays, const char *a, const char *b, const char *c)
{
    struct text text = { 0 };
    struct error none = { 0 };
    text_add(&text, "%s%s%s", a, b, c);
    return arrays_keep(arrays, text_take(&text, &none));
}

// Takes over the name, which is NULL after an error.
static void add_tensor(struct described *all, char *name, struct place place, enum safe_type type, uint64_t rows,
                       uint64_t columns)
{
    struct safe_tensor *to = &all->tensors[all->count];
    *to = (struct safe_tensor){ .name = name, .type = type, .dimensions = 1, .shape = { columns } };
    if (rows > 1) {
        to->dimensions = 2;
        to->shape[0] = rows;
        to->shape[1] = columns;
    }
    all->places[all->count] = place;
    all->notes[all->count++] = (struct safe_note){ .key = name ? join(&all->arrays, HASH_NOTE, name, "") : NULL };
}

static char *name_tensor(struct described *all, const struct lasting_layer *layer, const struct lasting_tensor *tensor,
                         const char *kept)
{
    char *name = tensor->known_as ? join(&all->arrays, tensor->known_as, "", "")
                                  : join(&all->arrays, layer->name, ".", tensor->name);
    return name && kept ? join(&all->arrays, name, ".", kept) : name;
}

static void describe_part(struct described *all, const struct lasting_form *form, const struct lasting_layer *layer,
                          uint32_t part)
{
    const bool is_state = part == LASTING_STATE;
    const char *kept = part > 0 && !is_state ? optimizer_copy_name(form->optimizer, part - 1) : NULL;
    const enum safe_type type = type_of(form, part);
    for (size_t t = 0; t < (is_state ? layer->state_count : layer->tensor_count); t++) {
        const struct lasting_tensor *from = is_state ? &layer->states[t] : &layer->tensors[t];
        const struct place place = { part, from->first * safe_type_bytes(type) };
        add_tensor(all, name_tensor(all, layer, from, kept), place, type, from->rows, from->columns);
    }
}

// The block of adafactor, as in optimizer.h.
static void describe_factors(struct described *all, const struct lasting_layer *layer)
{
    struct place place = { .part = 1 };
    for (size_t t = 0; t < layer->tensor_count; t++) {
        const struct lasting_tensor *from = &layer->tensors[t];
        const uint64_t rows = from->rows > 1 ? from->rows : 1;
        if (rows > 1 && from->columns > 1) {
            add_tensor(all, name_tensor(all, layer, from, "row_moment"), place, SAFE_F32, 1, rows);
            place.first_byte += rows * sizeof(float);
            add_tensor(all, name_tensor(all, layer, from, "column_moment"), place, SAFE_F32, 1, from->columns);
            place.first_byte += from->columns * sizeof(float);
        } else {
            add_tensor(all, name_tensor(all, layer, from, "second_moment"), place, SAFE_F32, 1, rows * from->columns);
            place.first_byte += rows * from->columns * sizeof(float);
        }
    }
}

// The block of adagrad-rows: a sum of each row of tables; of other layers, of each number where its weight is.
static void describe_sums(struct described *all, const struct lasting_layer *layer)
{
    struct place place = { .part = 1 };
    for (size_t t = 0; t < layer->tensor_count; t++) {
        const struct lasting_tensor *from = &layer->tensors[t];
        const uint64_t rows = from->rows > 1 ? from->rows : 1;
        if (!layer->is_table)
            place.first_byte = from->first * sizeof(float);
        add_tensor(all, name_tensor(all, layer, from, "sum"), place, SAFE_F32, layer->is_table ? 1 : rows,
                   layer->is_table ? rows : from->columns);
        place.first_byte += rows * sizeof(float);
    }
}

// The block of adam8bit, for the whole layer.
static void describe_codes(struct described *all, const struct lasting_layer *layer)
{
    static const char *const names[] = { "first_scales", "second_scales", "first_codes", "second_codes" };
    struct place place = { .part = 1 };
    for (int i = 0; i < 4; i++) {
        const enum safe_type type = i < 2 ? SAFE_F32 : SAFE_U8;
        const uint64_t count = i < 2 ? optimizer_block_count(rounded_numbers(layer)) : rounded_numbers(layer);
        add_tensor(all, join(&all->arrays, layer->name, ".", names[i]), place, type, 1, count);
        place.first_byte += count * safe_type_bytes(type);
    }
}

static void describe_block(struct described *all, const struct lasting_form *form, const struct lasting_layer *layer)
{
    const struct optimizer_row *row = &optimizer_rows[form->optimizer];
    if (row->keeps_rows)
        describe_sums(all, layer);
    else if (row->is_factored)
        describe_factors(all, layer);
    else
        describe_codes(all, layer);
}

static bool describe(struct described *all, const struct lasting_form *form, const struct lasting_layer *layer,
                     const struct layer_half *half, struct error *error)
{
    const size_t most = 4 + (half->end - half->first + 1) * layer->tensor_count + layer->state_count;
    const bool is_block = half->first > 0 && optimizer_keeps_blocks(form->optimizer);
    *all = (struct described){ 0 };
    all->tensors = arrays_add(&all->arrays, most, sizeof *all->tensors);
    all->places = arrays_add(&all->arrays, most, sizeof *all->places);
    all->notes = arrays_add(&all->arrays, most + 1, sizeof *all->notes);
    for (uint32_t part = half->first; !all->arrays.failed && !is_block && part < half->end; part++)
        describe_part(all, form, layer, part);
    if (!all->arrays.failed && half->first == 0)
        describe_part(all, form, layer, LASTING_STATE);
    if (!all->arrays.failed && is_block && layer->tensor_count > 0)
        describe_block(all, form, layer);
    if (!all->arrays.failed)
        return true;
    arrays_clear(&all->arrays);
    return error_no_memory(error, "a layer of a checkpoint");
}

// --- saving --------------------------------------------------------------------------------

static bool save(const char *folder, const struct lasting_form *form, const struct lasting_layer *layer,
                 const struct layer_half *half, uint64_t step, void *const parts[LASTING_PARTS],
                 struct safe_written *written, struct error *error)
{
    char path[PATH_MAX], number[24];
    struct described all;
    *written = (struct safe_written){ 0 };
    if (!path_of(folder, layer, half, path, error) || !describe(&all, form, layer, half, error))
        return false;
    if (all.count == 0) {
        arrays_clear(&all.arrays);
        return true;
    }
    char (*hashes)[HASH_SIZE] = arrays_add(&all.arrays, all.count, sizeof *hashes);
    bool good = hashes || error_no_memory(error, path);
    for (size_t i = 0; good && i < all.count; i++) {
        struct safe_tensor *tensor = &all.tensors[i];
        uint64_t bytes;
        tensor->data = (char *)parts[all.places[i].part] + all.places[i].first_byte;
        good = safe_tensor_bytes(tensor, &bytes) || error_set(error, "%s: is too large", tensor->name);
        if (good)
            hash_bytes(tensor->data, bytes, hashes[i]);
        all.notes[i].value = hashes[i];
    }
    snprintf(number, sizeof number, "%llu", (unsigned long long)step);
    all.notes[all.count] = (struct safe_note){ "step", number };
    good = good && safetensors_save(path, all.tensors, all.count, all.notes, all.count + 1, written, error);
    arrays_clear(&all.arrays);
    return good;
}

bool layer_file_save(const char *folder, const struct lasting_form *form, const struct lasting_layer *layer,
                     uint64_t step, void *const parts[LASTING_PARTS], struct layer_written *written,
                     struct error *error)
{
    const struct layer_half weights = weights_half(), optimizer = optimizer_half(form);
    written->optimizer = (struct safe_written){ 0 };
    return save(folder, form, layer, &weights, step, parts, &written->weights, error)
        && (optimizer.first == optimizer.end
            || save(folder, form, layer, &optimizer, step, parts, &written->optimizer, error));
}

// --- loading -------------------------------------------------------------------------------

// The described tensor of that name; NULL if there is none, or if the found one differs from it.
static const struct safe_tensor *expect(const struct described *all, const struct safe_tensor *found)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct safe_tensor *want = &all->tensors[i];
        if (strcmp(want->name, found->name) == 0)
            return want->type == found->type && want->dimensions == found->dimensions
                        && memcmp(want->shape, found->shape, sizeof want->shape) == 0 ? want : NULL;
    }
    return NULL;
}

static bool is_whole(const struct safe_header *header, const struct safe_tensor *tensor, const void *data,
                     uint64_t data_at, struct error *error)
{
    char found[HASH_SIZE];
    struct text key = { 0 };
    text_add(&key, "%s%s", HASH_NOTE, tensor->name);
    const char *noted = key.failed ? NULL : safe_header_note(header, key.data);
    text_clear(&key);
    hash_bytes(data, tensor->end - tensor->first, found);
    return (noted && strcmp(noted, found) == 0)
        || error_set(error, "is damaged: bytes %llu to %llu, %.100s, have the checksum %s, and %.40s was written",
                     (unsigned long long)(data_at + tensor->first), (unsigned long long)(data_at + tensor->end),
                     tensor->name, found, noted ? noted : "none");
}

// Reads the next tensor to its place.
static bool take_tensor(struct safe_file *file, const struct safe_tensor *tensor, const struct place *place,
                        void *const *parts, struct error *error)
{
    char *to = (char *)parts[place->part] + place->first_byte;
    return safe_file_next(file, to, error)
        && is_whole(safe_file_header(file), tensor, to, safe_file_data_at(file), error);
}

static bool take_all(struct safe_file *file, const struct described *all, const struct lasting_layer *layer,
                     void *const *parts, struct error *error)
{
    const struct safe_header *header = safe_file_header(file);
    if (header->count != all->count)
        return error_set(error, "has %zu tensors, and layer %s has %zu", header->count, layer->name, all->count);
    for (size_t i = 0; i < header->count; i++) {
        const struct safe_tensor *tensor = &header->tensors[i], *want = expect(all, tensor);
        if (!want)
            return error_set(error, "its tensor %.200s is none of layer %s as the model has it", tensor->name,
                             layer->name);
        if (!take_tensor(file, tensor, &all->places[want - all->tensors], parts, error))
            return false;
    }
    return true;
}

static bool is_as_written(struct safe_file *file, const struct safe_written *written, struct error *error)
{
    char found[HASH_SIZE];
    safe_file_hash(file, found);
    return strcmp(found, written->hash) == 0
        || error_set(error,
                     "is damaged: bytes 0 to %llu, its header, or the whole is another file: it has the checksum %s,"
                     " and %s was written", (unsigned long long)safe_file_data_at(file), found, written->hash);
}

static bool load(const char *path, const struct described *all, const struct lasting_layer *layer,
                 const struct safe_written *written, void *const *parts, struct error *error)
{
    struct safe_file *file = safe_file_open(path, error);
    if (!file)
        return false;
    const bool good = (safe_file_bytes(file) == written->bytes
                       || error_set(error, "is damaged: has %llu bytes, and %llu were written",
                                    (unsigned long long)safe_file_bytes(file), (unsigned long long)written->bytes))
                   && take_all(file, all, layer, parts, error) && is_as_written(file, written, error);
    safe_file_close(file);
    return good || error_name(error, "%s", path);
}

static bool load_half(const char *folder, const struct lasting_form *form, const struct lasting_layer *layer,
                      const struct layer_half *half, const struct safe_written *written, void *const *parts,
                      struct error *error)
{
    char path[PATH_MAX];
    struct described all;
    if (!path_of(folder, layer, half, path, error) || !describe(&all, form, layer, half, error))
        return false;
    for (uint32_t part = half->first; part < half->end; part++)
        if (lasting_part_bytes(form, layer, part) > 0)
            memset(parts[part], 0, lasting_part_bytes(form, layer, part));
    if (half->first == 0 && layer->state_numbers > 0)
        memset(parts[LASTING_STATE], 0, layer->state_numbers * sizeof(float));
    bool good = written->bytes > 0 ? load(path, &all, layer, written, parts, error) : all.count == 0;
    if (!good && written->bytes == 0)
        error_set(error, "%s: its manifest names no file with %s of layer %s", folder, half->first == 0 ? "the weights"
                  : "the optimizer state", layer->name);
    arrays_clear(&all.arrays);
    return good;
}

bool layer_file_load(const char *folder, const struct lasting_form *form, const struct lasting_layer *layer,
                     const struct layer_written *written, void *const parts[LASTING_PARTS], struct error *error)
{
    const struct layer_half weights = weights_half(), optimizer = optimizer_half(form);
    return load_half(folder, form, layer, &weights, &written->weights, parts, error)
        && (optimizer.first == optimizer.end || !parts[1]
            || load_half(folder, form, layer, &optimizer, &written->optimizer, parts, error));
}
