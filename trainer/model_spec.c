#include "trainer/model_spec.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/text.h"
#include "device/device_names.h"

enum { NAME_SIZE = 64 };

// Copies the word up to one of `ends` into `word`; returns where it ended.
static const char *take_word(const char *text, const char *ends, char word[NAME_SIZE])
{
    const size_t length = strcspn(text, ends);
    const size_t kept = length < NAME_SIZE ? length : NAME_SIZE - 1;
    memcpy(word, text, kept);
    word[kept] = '\0';
    return text + length;
}

// Refuses a size that is given twice, since it would be unclear which one is meant.
static bool take_note(const char *key, unsigned bit, unsigned *given, struct error *error)
{
    if (*given & bit)
        return error_set(error, "%s is given twice", key);
    *given |= bit;
    return true;
}

static bool set_fraction(const char *key, const char *value, float *fraction, struct error *error)
{
    char *end;
    *fraction = strtof(value, &end);
    if (end == value || *end || !(*fraction >= 0 && *fraction < 1))
        return error_set(error, "%s: \"%s\" is not a fraction from 0 to below 1", key, value);
    return true;
}

static bool set_stem(const char *value, enum stem *stem, struct error *error)
{
    static const char *const names[] = { [STEM_LARGE] = "7x7s2", [STEM_SMALL] = "3x3", [STEM_SMALL_HALVING] = "3x3s2" };
    for (int i = STEM_LARGE; i <= STEM_SMALL_HALVING; i++)
        if (strcmp(value, names[i]) == 0) {
            *stem = (enum stem)i;
            return true;
        }
    return error_set(error, "stem: \"%s\" is none of 7x7s2, 3x3 and 3x3s2", value);
}

static bool set_fused(const char *value, bool *unfused, struct error *error)
{
    *unfused = strcmp(value, "no") == 0;
    return *unfused || strcmp(value, "yes") == 0 || error_set(error, "fused: \"%s\" is neither yes nor no", value);
}

static bool takes_no_value(const char *key, const char *value, struct error *error)
{
    return !value[0] || error_set(error, "%s: takes no value", key);
}

static bool set_size(struct model_sizes *sizes, const char *key, const char *value, unsigned *given,
                     struct error *error)
{
    const struct {
        const char *name;
        size_t *size;
    } known[] = {
        { "micro_batch", &sizes->micro_batch }, { "sequence", &sizes->sequence }, { "width", &sizes->width },
        { "blocks", &sizes->blocks },           { "heads", &sizes->heads },       { "pixels", &sizes->pixels },
        { "channels", &sizes->channels },       { "classes", &sizes->classes },
    };
    if (strcmp(key, "tied") == 0 || strcmp(key, "untied") == 0) {
        sizes->tying = key[0] == 't' ? TYING_TIED : TYING_UNTIED;
        return take_note("tied or untied", 1u << 30, given, error) && takes_no_value(key, value, error);
    }
    if (strcmp(key, "padded") == 0) {
        sizes->padded = true;
        return take_note(key, 1u << 29, given, error) && takes_no_value(key, value, error);
    }
    if (strcmp(key, "dropout") == 0) {
        sizes->has_dropout = true;
        return take_note(key, 1u << 31, given, error) && set_fraction(key, value, &sizes->dropout, error);
    }
    if (strcmp(key, "smoothing") == 0)
        return take_note(key, 1u << 28, given, error) && set_fraction(key, value, &sizes->smoothing, error);
    if (strcmp(key, "stem") == 0)
        return take_note(key, 1u << 27, given, error) && set_stem(value, &sizes->stem, error);
    if (strcmp(key, "fused") == 0)
        return take_note(key, 1u << 26, given, error) && set_fused(value, &sizes->unfused, error);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t count;
        if (strcmp(key, known[i].name) != 0)
            continue;
        if (!take_note(key, 1u << i, given, error) || !count_parse(value, key, 1, 1 << 20, &count, error))
            return false;
        *known[i].size = (size_t)count;
        return true;
    }
    return error_set(error, "\"%s\" is no size of a model (micro_batch, sequence, width, blocks, heads, dropout, tied,"
                     " untied, padded; of pictures: pixels, channels, classes, smoothing, stem, fused)", key);
}

char *model_spec_named(const char *name, bool padded, struct error *error)
{
    struct text spec = { 0 };
    text_add(&spec, "%s%s", name, padded ? ",padded" : "");
    return text_take(&spec, error);
}

enum precision plan_precision(const struct plan *plan, const char *devices)
{
    if (!optimizer_is_master(plan->storage.optimizer))
        return PRECISION_FP32;
    return devices && device_names_have(devices, "fp16") ? PRECISION_FP16 : PRECISION_BF16;
}

struct model *model_from_spec(const char *spec, enum precision precision, struct error *error)
{
    char name[NAME_SIZE], key[NAME_SIZE], value[NAME_SIZE];
    struct model_sizes sizes = { .precision = precision };
    unsigned given = 0;
    const char *rest = take_word(spec, ",", name);
    bool good = true;
    while (good && *rest == ',') {
        rest = take_word(rest + 1, "=,", key);
        value[0] = '\0';
        if (*rest == '=')
            rest = take_word(rest + 1, ",", value);
        good = set_size(&sizes, key, value, &given, error);
    }
    struct model *model = good ? model_create(name, &sizes, error) : NULL;
    if (!model)
        error_at(error, "model \"%s\"", spec);
    return model;
}
