#include "trainer/model_spec.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/text.h"
#include "device/device_names.h"

enum { NAME_SIZE = 64, VALUE_SIZE = 2048 };

// Copies the word up to one of `ends` into `word`, of `size` bytes; returns where it ended.
static const char *take_word(const char *text, const char *ends, char *word, size_t size)
{
    const size_t length = strcspn(text, ends);
    const size_t kept = length < size ? length : size - 1;
    memcpy(word, text, kept);
    word[kept] = '\0';
    return text + length;
}

// Refuses a size that is given twice, since it would be unclear which one is meant.
static bool take_note(const char *key, uint64_t bit, uint64_t *given, struct error *error)
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

// "512/256": numbers from 1 to `most`, so many of them at most.
static bool set_list(const char *key, const char *value, uint64_t most, size_t room, size_t *list, size_t *count,
                     struct error *error)
{
    const char *rest = value;
    char word[NAME_SIZE];
    for (*count = 0; *count < room; rest++) {
        uint64_t number;
        rest = take_word(rest, "/", word, sizeof word);
        if (!count_parse(word, key, 1, most, &number, error))
            return false;
        list[(*count)++] = (size_t)number;
        if (*rest == '\0')
            return true;
    }
    return error_set(error, "%s: more than %zu numbers", key, room);
}

// "64/8": of every 64 tokens the last 8.
static bool set_stride(const char *value, struct attention_pattern *pattern, struct error *error)
{
    size_t numbers[2], count;
    if (!set_list("stride", value, 1 << 20, 2, numbers, &count, error))
        return false;
    if (count != 2)
        return error_set(error, "stride: \"%s\" does not say how many of the last tokens are seen: give both, as 64/8",
                         value);
    pattern->stride = numbers[0];
    pattern->block = numbers[1];
    return true;
}

static bool set_rows(const char *value, struct click_sizes *clicks, struct error *error)
{
    size_t rows[LAYER_TABLES];
    const bool good = set_list("rows", value, INT32_MAX, LAYER_TABLES, rows, &clicks->row_count, error);
    for (size_t i = 0; good && i < clicks->row_count; i++)
        clicks->rows[i] = (uint32_t)rows[i];
    return good;
}

static bool set_widths(const char *key, const char *value, size_t widths[CLICK_LAYERS], struct error *error)
{
    size_t count;
    return set_list(key, value, 1 << 20, CLICK_LAYERS - 1, widths, &count, error);
}

// Widths of an MLP of a model of clicks, or of a GPT how many experts a token takes.
static bool set_top(const char *value, struct model_sizes *sizes, struct error *error)
{
    const bool good = set_widths("top", value, sizes->clicks.top, error);
    sizes->experts.top = good ? sizes->clicks.top[0] : 0;
    return good;
}

static bool takes_no_value(const char *key, const char *value, struct error *error)
{
    return !value[0] || error_set(error, "%s: takes no value", key);
}

static bool number_parse(const char *value, double *number)
{
    char *end;
    *number = strtod(value, &end);
    return end != value && !*end && *number >= 0 && *number <= 1e6;
}

static bool set_float(const char *key, const char *value, float *number, struct error *error)
{
    double wide;
    const bool good = number_parse(value, &wide);
    *number = good ? (float)wide : 0;
    return good || error_set(error, "%s: \"%s\" is not a number from 0 to a million", key, value);
}

static bool set_positive(const char *key, const char *value, float *number, struct error *error)
{
    return set_float(key, value, number, error)
        && (*number > 0 || error_set(error, "%s: \"%s\" is not above 0", key, value));
}

static bool set_router(const char *value, struct expert_sizes *experts, struct error *error)
{
    for (int i = ROUTER_SWITCH; i <= ROUTER_DEEPSEEK; i++)
        if (strcmp(value, router_name((enum router_kind)i)) == 0) {
            experts->router = (enum router_kind)i;
            experts->has_router = true;
            return true;
        }
    return error_set(error, "router: \"%s\" is none of switch, gshard, mixtral and deepseek", value);
}

static bool set_capacity(const char *value, struct expert_sizes *experts, struct error *error)
{
    experts->has_capacity = true;
    return strcmp(value, "dropless") == 0 || number_parse(value, &experts->capacity)
        || error_set(error, "capacity: \"%s\" is neither dropless nor a number from 0 to a million", value);
}

// "8/4": of 8 groups the best 4.
static bool set_groups(const char *value, struct expert_sizes *experts, struct error *error)
{
    size_t numbers[2], count;
    if (!set_list("groups", value, ROUTER_EXPERTS, 2, numbers, &count, error))
        return false;
    if (count != 2)
        return error_set(error, "groups: \"%s\" does not say how many of the groups are taken from: give both, as 8/4",
                         value);
    experts->groups = numbers[0];
    experts->best_groups = numbers[1];
    return true;
}

static bool set_expert_count(const char *key, const char *value, size_t *size, struct error *error)
{
    uint64_t count;
    const bool good = count_parse(value, key, 1, 1 << 20, &count, error);
    *size = good ? (size_t)count : 0;
    return good;
}

// Sets a size of experts. False with is_known unset if it is none of them.
static bool set_expert_size(struct expert_sizes *experts, const char *key, const char *value, uint64_t *given,
                            bool *is_known, struct error *error)
{
    static const char *const words[] = { "experts", "inner", "shared", "router", "capacity", "aux", "z", "groups",
                                         "scale", "speed", "swiglu" };
    size_t *const counts[] = { &experts->experts, &experts->inner, &experts->shared };
    size_t word = 0;
    while (word < sizeof words / sizeof words[0] && strcmp(words[word], key) != 0)
        word++;
    *is_known = word < sizeof words / sizeof words[0];
    if (!*is_known || !take_note(key, (uint64_t)1 << (32 + word), given, error))
        return false;
    switch (word) {
    case 3: return set_router(value, experts, error);
    case 4: return set_capacity(value, experts, error);
    case 5: experts->has_auxiliary = true; return set_float(key, value, &experts->auxiliary, error);
    case 6: experts->has_z = true; return set_float(key, value, &experts->z, error);
    case 7: return set_groups(value, experts, error);
    case 8: return set_positive(key, value, &experts->scale, error);
    case 9: return set_positive(key, value, &experts->speed, error);
    case 10: experts->is_swiglu = true; return takes_no_value(key, value, error);
    default: return set_expert_count(key, value, counts[word], error);
    }
}

static bool set_size(struct model_sizes *sizes, const char *key, const char *value, uint64_t *given,
                     struct error *error)
{
    const struct {
        const char *name;
        size_t *size;
    } known[] = {
        { "micro_batch", &sizes->micro_batch }, { "sequence", &sizes->sequence }, { "width", &sizes->width },
        { "blocks", &sizes->blocks },           { "heads", &sizes->heads },       { "pixels", &sizes->pixels },
        { "channels", &sizes->channels },       { "classes", &sizes->classes },   { "slots", &sizes->clicks.slots },
        { "columns", &sizes->clicks.columns },  { "ids", &sizes->clicks.ids },    { "cross", &sizes->clicks.cross },
        { "rank", &sizes->clicks.rank },        { "window", &sizes->pattern.window },
        { "global", &sizes->pattern.global },
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
    if (strcmp(key, "stride") == 0)
        return take_note(key, 1u << 18, given, error) && set_stride(value, &sizes->pattern, error);
    if (strcmp(key, "fused") == 0)
        return take_note(key, 1u << 26, given, error) && set_fused(value, &sizes->unfused, error);
    if (strcmp(key, "numbers") == 0) {
        uint64_t count;
        sizes->clicks.has_numbers = true;
        if (!take_note(key, 1u << 25, given, error) || !count_parse(value, key, 0, 1 << 20, &count, error))
            return false;
        sizes->clicks.numbers = (size_t)count;
        return true;
    }
    if (strcmp(key, "rows") == 0)
        return take_note(key, 1u << 24, given, error) && set_rows(value, &sizes->clicks, error);
    if (strcmp(key, "bottom") == 0)
        return take_note(key, 1u << 23, given, error) && set_widths(key, value, sizes->clicks.bottom, error);
    if (strcmp(key, "top") == 0)
        return take_note(key, 1u << 22, given, error) && set_top(value, sizes, error);
    if (strcmp(key, "mean") == 0) {
        sizes->clicks.is_mean = true;
        return take_note(key, 1u << 21, given, error) && takes_no_value(key, value, error);
    }
    if (strcmp(key, "weighted") == 0) {
        sizes->clicks.is_weighted = true;
        return take_note(key, 1u << 20, given, error) && takes_no_value(key, value, error);
    }
    if (strcmp(key, "exchange") == 0) {
        sizes->has_exchange = true;
        return take_note(key, 1u << 19, given, error) && takes_no_value(key, value, error);
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint64_t count;
        if (strcmp(key, known[i].name) != 0)
            continue;
        if (!take_note(key, 1u << i, given, error) || !count_parse(value, key, 1, 1 << 20, &count, error))
            return false;
        *known[i].size = (size_t)count;
        return true;
    }
    bool is_known;
    const bool is_set = set_expert_size(&sizes->experts, key, value, given, &is_known, error);
    if (is_known)
        return is_set;
    return error_set(error, "\"%s\" is no size of a model (micro_batch, sequence, width, blocks, heads, window,"
                     " global, stride, dropout, tied, untied, padded; of experts: experts, top, router, capacity, aux,"
                     " z, inner, shared, swiglu, groups, scale, speed, exchange; of pictures: pixels, channels,"
                     " classes, smoothing, stem, fused; of clicks: numbers, slots, rows, columns, ids, bottom, top,"
                     " cross, rank, mean, weighted, exchange)", key);
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
    char name[NAME_SIZE], key[NAME_SIZE], value[VALUE_SIZE];
    struct model_sizes sizes = { .precision = precision };
    uint64_t given = 0;
    const char *rest = take_word(spec, ",", name, sizeof name);
    bool good = true;
    while (good && *rest == ',') {
        rest = take_word(rest + 1, "=,", key, sizeof key);
        value[0] = '\0';
        if (*rest == '=')
            rest = take_word(rest + 1, ",", value, sizeof value);
        good = (strlen(value) + 1 < sizeof value || error_set(error, "%s: its value is too long", key))
            && set_size(&sizes, key, value, &given, error);
    }
    struct model *model = good ? model_create(name, &sizes, error) : NULL;
    if (!model)
        error_at(error, "model \"%s\"", spec);
    return model;
}
