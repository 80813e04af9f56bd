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

// These set what a word of a spec stands for, at `to`, by its value.
typedef bool size_setter(const char *key, const char *value, void *to, struct error *error);

// Refuses a size that is given twice, since it would be unclear which one is meant.
static bool take_note(const char *key, uint64_t bit, uint64_t *given, struct error *error)
{
    if (*given & bit)
        return error_set(error, "%s is given twice", key);
    *given |= bit;
    return true;
}

static bool takes_no_value(const char *key, const char *value, struct error *error)
{
    return !value[0] || error_set(error, "%s: takes no value", key);
}

static bool set_flag(const char *key, const char *value, void *to, struct error *error)
{
    *(bool *)to = true;
    return takes_no_value(key, value, error);
}

static bool take_count(const char *key, const char *value, uint64_t least, size_t *size, struct error *error)
{
    uint64_t count = 0;
    const bool good = count_parse(value, key, least, 1 << 20, &count, error);
    *size = (size_t)count;
    return good;
}

static bool set_count(const char *key, const char *value, void *to, struct error *error)
{
    return take_count(key, value, 1, to, error);
}

static bool set_count_or_none(const char *key, const char *value, void *to, struct error *error)
{
    return take_count(key, value, 0, to, error);
}

static bool set_fraction(const char *key, const char *value, void *to, struct error *error)
{
    float *fraction = to;
    char *end;
    *fraction = strtof(value, &end);
    if (end == value || *end || !(*fraction >= 0 && *fraction < 1))
        return error_set(error, "%s: \"%s\" is not a fraction from 0 to below 1", key, value);
    return true;
}

static bool set_stem(const char *key, const char *value, void *to, struct error *error)
{
    static const char *const names[] = { [STEM_LARGE] = "7x7s2", [STEM_SMALL] = "3x3", [STEM_SMALL_HALVING] = "3x3s2" };
    for (int i = STEM_LARGE; i <= STEM_SMALL_HALVING; i++)
        if (strcmp(value, names[i]) == 0) {
            *(enum stem *)to = (enum stem)i;
            return true;
        }
    return error_set(error, "%s: \"%s\" is none of 7x7s2, 3x3 and 3x3s2", key, value);
}

static bool set_fused(const char *key, const char *value, void *to, struct error *error)
{
    bool *unfused = to;
    *unfused = strcmp(value, "no") == 0;
    return *unfused || strcmp(value, "yes") == 0 || error_set(error, "%s: \"%s\" is neither yes nor no", key, value);
}

// "512/256": numbers from 1 to `most`, so many of them at most.
static bool take_list(const char *key, const char *value, uint64_t most, size_t room, size_t *list, size_t *count,
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
static bool set_stride(const char *key, const char *value, void *to, struct error *error)
{
    struct attention_pattern *pattern = to;
    size_t numbers[2], count;
    if (!take_list(key, value, 1 << 20, 2, numbers, &count, error))
        return false;
    if (count != 2)
        return error_set(error, "%s: \"%s\" does not say how many of the last tokens are seen: give both, as 64/8", key,
                         value);
    pattern->stride = numbers[0];
    pattern->block = numbers[1];
    return true;
}

static bool set_rows(const char *key, const char *value, void *to, struct error *error)
{
    struct click_sizes *clicks = to;
    size_t rows[LAYER_TABLES];
    const bool good = take_list(key, value, INT32_MAX, LAYER_TABLES, rows, &clicks->row_count, error);
    for (size_t i = 0; good && i < clicks->row_count; i++)
        clicks->rows[i] = (uint32_t)rows[i];
    return good;
}

static bool set_widths(const char *key, const char *value, void *to, struct error *error)
{
    size_t count;
    return take_list(key, value, 1 << 20, CLICK_LAYERS - 1, to, &count, error);
}

// Widths of an MLP of a model of clicks, or of a GPT how many experts a token takes.
static bool set_top(const char *key, const char *value, void *to, struct error *error)
{
    struct model_sizes *sizes = to;
    const bool good = set_widths(key, value, sizes->clicks.top, error);
    sizes->experts.top = good ? sizes->clicks.top[0] : 0;
    return good;
}

static bool number_parse(const char *value, double *number)
{
    char *end;
    *number = strtod(value, &end);
    return end != value && !*end && *number >= 0 && *number <= 1e6;
}

static bool set_float(const char *key, const char *value, void *to, struct error *error)
{
    double wide;
    const bool good = number_parse(value, &wide);
    *(float *)to = good ? (float)wide : 0;
    return good || error_set(error, "%s: \"%s\" is not a number from 0 to a million", key, value);
}

static bool set_positive(const char *key, const char *value, void *to, struct error *error)
{
    return set_float(key, value, to, error)
        && (*(float *)to > 0 || error_set(error, "%s: \"%s\" is not above 0", key, value));
}

static bool set_router(const char *key, const char *value, void *to, struct error *error)
{
    for (int i = ROUTER_SWITCH; i <= ROUTER_DEEPSEEK; i++)
        if (strcmp(value, router_name((enum router_kind)i)) == 0) {
            *(enum router_kind *)to = (enum router_kind)i;
            return true;
        }
    return error_set(error, "%s: \"%s\" is none of switch, gshard, mixtral and deepseek", key, value);
}

static bool set_capacity(const char *key, const char *value, void *to, struct error *error)
{
    return strcmp(value, "dropless") == 0 || number_parse(value, to)
        || error_set(error, "%s: \"%s\" is neither dropless nor a number from 0 to a million", key, value);
}

// "8/4": of 8 groups the best 4.
static bool set_groups(const char *key, const char *value, void *to, struct error *error)
{
    struct expert_sizes *experts = to;
    size_t numbers[2], count;
    if (!take_list(key, value, ROUTER_EXPERTS, 2, numbers, &count, error))
        return false;
    if (count != 2)
        return error_set(error, "%s: \"%s\" does not say how many of the groups are taken from: give both, as 8/4", key,
                         value);
    experts->groups = numbers[0];
    experts->best_groups = numbers[1];
    return true;
}

static bool set_size(struct model_sizes *sizes, const char *key, const char *value, uint64_t *given,
                     struct error *error)
{
    struct expert_sizes *experts = &sizes->experts;
    struct click_sizes *clicks = &sizes->clicks;
    const struct {
        const char *name;
        size_setter *set;
        void *to;
        bool *has;  // set if it is given; or NULL
    } known[] = {
        { "micro_batch", set_count, &sizes->micro_batch, NULL },
        { "sequence", set_count, &sizes->sequence, NULL },
        { "width", set_count, &sizes->width, NULL },
        { "blocks", set_count, &sizes->blocks, NULL },
        { "heads", set_count, &sizes->heads, NULL },
        { "window", set_count, &sizes->pattern.window, NULL },
        { "global", set_count, &sizes->pattern.global, NULL },
        { "stride", set_stride, &sizes->pattern, NULL },
        { "dropout", set_fraction, &sizes->dropout, &sizes->has_dropout },
        { "padded", set_flag, &sizes->padded, NULL },
        { "exchange", set_flag, &sizes->has_exchange, NULL },
        { "experts", set_count, &experts->experts, NULL },
        { "top", set_top, sizes, NULL },
        { "router", set_router, &experts->router, &experts->has_router },
        { "capacity", set_capacity, &experts->capacity, &experts->has_capacity },
        { "aux", set_float, &experts->auxiliary, &experts->has_auxiliary },
        { "z", set_float, &experts->z, &experts->has_z },
        { "inner", set_count, &experts->inner, NULL },
        { "shared", set_count, &experts->shared, NULL },
        { "swiglu", set_flag, &experts->is_swiglu, NULL },
        { "groups", set_groups, experts, NULL },
        { "scale", set_positive, &experts->scale, NULL },
        { "speed", set_positive, &experts->speed, NULL },
        { "pixels", set_count, &sizes->pixels, NULL },
        { "channels", set_count, &sizes->channels, NULL },
        { "classes", set_count, &sizes->classes, NULL },
        { "smoothing", set_fraction, &sizes->smoothing, NULL },
        { "stem", set_stem, &sizes->stem, NULL },
        { "fused", set_fused, &sizes->unfused, NULL },
        { "numbers", set_count_or_none, &clicks->numbers, &clicks->has_numbers },
        { "slots", set_count, &clicks->slots, NULL },
        { "rows", set_rows, clicks, NULL },
        { "columns", set_count, &clicks->columns, NULL },
        { "ids", set_count, &clicks->ids, NULL },
        { "bottom", set_widths, clicks->bottom, NULL },
        { "cross", set_count, &clicks->cross, NULL },
        { "rank", set_count, &clicks->rank, NULL },
        { "mean", set_flag, &clicks->is_mean, NULL },
        { "weighted", set_flag, &clicks->is_weighted, NULL },
    };
    const size_t count = sizeof known / sizeof known[0];
    if (strcmp(key, "tied") == 0 || strcmp(key, "untied") == 0) {
        sizes->tying = key[0] == 't' ? TYING_TIED : TYING_UNTIED;
        return take_note("tied or untied", (uint64_t)1 << count, given, error) && takes_no_value(key, value, error);
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(key, known[i].name) != 0)
            continue;
        if (known[i].has)
            *known[i].has = true;
        return take_note(key, (uint64_t)1 << i, given, error) && known[i].set(key, value, known[i].to, error);
    }
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
