#include "profiler/estimate_variants.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 64 };

// --- names --------------------------------------------------------------------

static void add_word(char name[NAME_SIZE], const char *kind, uint32_t degree, const char *mark)
{
    const size_t length = strlen(name);
    if (degree > 1)
        snprintf(name + length, NAME_SIZE - length, "%s%s%" PRIu32 "%s", length ? "+" : "", kind, degree, mark);
}

static void name_variant(const struct estimate_variant *variant, char name[NAME_SIZE])
{
    name[0] = '\0';
    add_word(name, "tensor", variant->tensor, variant->sequence_parallel ? "sp" : "");
    add_word(name, "context", variant->context, "");
    add_word(name, "expert", variant->expert, "");
}

// Reads one word, such as tensor4sp. A degree of its kind must not be there yet.
static bool read_word(const char *word, size_t length, struct estimate_variant *variant)
{
    static const char *const kinds[] = { "tensor", "context", "expert", "" };
    uint32_t *const degrees[] = { &variant->tensor, &variant->context, &variant->expert, &variant->tensor };
    uint64_t degree = 0;
    size_t kind = 0, i;
    while (strncmp(word, kinds[kind], strlen(kinds[kind])) != 0)
        kind++;
    for (i = strlen(kinds[kind]);
         i < length && word[i] >= '0' && word[i] <= '9' && degree <= PROFILE_MOST_DEVICES; i++)
        degree = 10 * degree + (uint64_t)(word[i] - '0');
    const bool has_mark = kind == 0 && length - i == 2 && strncmp(word + i, "sp", 2) == 0;
    if (degree < 2 || degree > PROFILE_MOST_DEVICES || *degrees[kind] > 1 || !(has_mark || i == length))
        return false;
    *degrees[kind] = (uint32_t)degree;
    variant->sequence_parallel |= has_mark;
    return true;
}

static bool read_variant(const char *words, size_t length, struct estimate_variant *variant, struct error *error)
{
    *variant = (struct estimate_variant){ 1, 1, 1, false };
    for (size_t offset = 0;;) {
        const size_t rest = length - offset, next = strcspn(words + offset, "+"), word = next < rest ? next : rest;
        if (!read_word(words + offset, word, variant))
            return error_set(error, "\"%.*s\" is none of 2, tensor2, tensor2sp, context2, expert2, .., nor several of"
                             " these with + between them, each kind once", length < 40 ? (int)length : 40, words);
        if (word == rest)
            return true;
        offset += word + 1;
    }
}

bool estimate_variants_read(const char *words, struct estimate_variants *variants, struct error *error)
{
    *variants = (struct estimate_variants){ .all = strcmp(words, "all") == 0 };
    for (const char *word = words; !variants->all; word++) {
        const size_t length = strcspn(word, ",");
        if (variants->count == ESTIMATE_MOST_VARIANTS)
            return error_set(error, "more than %d, which is as many as a plan chooses among", ESTIMATE_MOST_VARIANTS);
        if (!read_variant(word, length, &variants->at[variants->count++], error))
            return false;
        word += length;
        if (!*word)
            break;
    }
    return true;
}

// --- what they cost -------------------------------------------------------------

// The estimate with the group's degrees instead of the layers' own. The devices of an expert degree hold each other's
// data.
static bool estimate_split(const struct estimate *whole, const struct estimate_variant *variant, struct estimate *split,
                           struct error *error)
{
    struct estimate_request request = whole->request;
    if (request.micro_batch % variant->expert != 0)
        return error_set(error,
                         "the expert degree of %" PRIu32 " does not divide the sequences of a micro-batch (%" PRIu64
                         "), which the devices share outside their experts", variant->expert, request.micro_batch);
    request.tensor = variant->tensor;
    request.sequence_parallel = variant->sequence_parallel;
    request.context *= variant->context;
    request.expert *= variant->expert;
    request.data *= variant->expert;
    request.micro_batch /= variant->expert;
    return estimate_model(&whole->model, &whole->device, &request, split, error);
}

static bool has_variant(const struct profile_layer *layer, const char *name)
{
    for (size_t i = 0; i < layer->variant_count; i++)
        if (strcmp(layer->variants[i].layer.name, name) == 0)
            return true;
    return false;
}

static bool add_to_layer(const struct estimate *split, const struct estimate_variant *degrees, const char *name,
                         enum layer_part part, struct profile_layer *layer)
{
    struct profile_variant *variants = realloc(layer->variants, (layer->variant_count + 1) * sizeof variants[0]);
    if (!variants)
        return false;
    layer->variants = variants;
    struct profile_variant *variant = &variants[layer->variant_count++];
    *variant = (struct profile_variant){
        .devices = degrees->tensor * degrees->context * degrees->expert,
        .shares_output = degrees->sequence_parallel || degrees->context > 1 || degrees->expert > 1,
    };
    estimate_numbers(split, part, &variant->layer);
    variant->layer.name = strdup(name);
    return variant->layer.name;
}

// Adds a variant. One that exists already stays as it is.
static bool add_variant(const struct estimate *whole, const struct estimate_variant *variant, struct estimate *split,
                        struct profile *profile, struct error *error)
{
    char name[NAME_SIZE];
    name_variant(variant, name);
    const uint64_t devices = (uint64_t)variant->tensor * variant->context * variant->expert;
    if (has_variant(&profile->layers[0], name))
        return true;
    if (profile->layers[0].variant_count == ESTIMATE_MOST_VARIANTS)
        return error_set(error, "more than %d variants, which is as many as a plan chooses among",
                         ESTIMATE_MOST_VARIANTS);
    if (devices > PROFILE_MOST_DEVICES)
        return error_set(error, "%s is of %" PRIu64 " devices, of %d at most", name, devices, PROFILE_MOST_DEVICES);
    if (!estimate_split(whole, variant, split, error))
        return false;
    for (size_t i = 0; i < profile->layer_count; i++)
        if (!add_to_layer(split, variant, name, estimate_part(&whole->model, i), &profile->layers[i]))
            return error_no_memory(error, "a variant");
    return true;
}

// Adds it a second time with sequence parallelism if the estimate's own layers have that.
static bool add_both(const struct estimate *whole, struct estimate_variant variant, struct estimate *split,
                     struct profile *profile, struct error *error)
{
    if (!add_variant(whole, &variant, split, profile, error))
        return false;
    if (variant.tensor == 1 || !whole->request.sequence_parallel)
        return true;
    variant.sequence_parallel = true;
    return add_variant(whole, &variant, split, profile, error);
}

// Degrees that do not divide the model are left out.
static bool add_all(const struct estimate *whole, struct estimate *split, struct profile *profile, struct error *error)
{
    for (uint32_t degree = 2; degree <= 8 && degree <= whole->device.levels[0].size; degree *= 2) {
        const struct estimate_variant kinds[] = { { degree, 1, 1, false }, { 1, degree, 1, false },
                                                  { 1, 1, degree, false } };
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            struct error why = { 0 };
            if (!add_both(whole, kinds[i], split, profile, &why) && why.kind != ERROR_INPUT)
                return error_hand_on(error, &why);
        }
    }
    return true;
}

static bool is_on_one_device(const struct estimate *estimate, struct error *error)
{
    const struct estimate_request *request = &estimate->request;
    const char *kind = request->tensor > 1 ? "tensor" : request->context > 1 ? "context" : NULL;
    return !kind || error_set(error, "variants are of layers on one device each: the %s degree must be 1", kind);
}

bool estimate_add_variants(const struct estimate *estimate, const struct estimate_variants *variants,
                           struct profile *profile, struct error *error)
{
    if (variants->count == 0 && !variants->all)
        return true;
    struct estimate *split = is_on_one_device(estimate, error) ? malloc(sizeof *split) : NULL;
    if (!split)
        return error->kind != ERROR_NONE ? false : error_no_memory(error, "an estimate");
    bool good = !variants->all || add_all(estimate, split, profile, error);
    for (size_t i = 0; good && i < variants->count; i++)
        good = add_both(estimate, variants->at[i], split, profile, error);
    free(split);
    return good && profile_rehash(profile, error);
}
