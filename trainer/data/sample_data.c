#include "trainer/data/sample_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/number.h"
#include "common/random.h"
#include "common/text.h"

const char *const sample_types[] = { [SAMPLE_U8] = "u8", [SAMPLE_U16] = "u16", NULL };

static uint64_t type_bytes(enum sample_type type)
{
    return type == SAMPLE_U16 ? 2 : 1;
}

uint64_t sample_field_numbers(const struct sample_field *field)
{
    uint64_t numbers = 1;
    for (size_t i = 0; i < SAMPLE_SIZES && field->sizes[i] > 0; i++)
        if (__builtin_mul_overflow(numbers, field->sizes[i], &numbers))
            return 0;
    return numbers;
}

static uint64_t sample_bytes(const struct sample_field *field)
{
    return sample_field_numbers(field) * type_bytes(field->type);
}

// --- the document ------------------------------------------------------------------------

bool sample_data_is(const char *path)
{
    char begin[256] = "";
    FILE *file = fopen(path, "rb");
    const size_t length = file ? fread(begin, 1, sizeof begin - 1, file) : 0;
    if (file)
        fclose(file);
    const char *format = length > 0 && begin[0] == '{' ? strstr(begin, "\"format\"") : NULL;
    return format && strstr(format, "\"weir.data\"");
}

// The path of the numbers of a document; free() it.
static char *numbers_path(const char *path, struct error *error)
{
    struct text text = { 0 };
    text_add(&text, "%s.numbers", path);
    return text_take(&text, error);
}

static void read_sizes(struct json *object, struct sample_field *field)
{
    struct json list = json_array(object, "sizes"), item;
    size_t count = 0;
    while (json_next(&list, &item)) {
        if (count == SAMPLE_SIZES) {
            json_refuse(&list, "a sample has at most %d sizes", SAMPLE_SIZES);
            return;
        }
        field->sizes[count++] = (size_t)json_item_u64(&item, 1, UINT32_MAX);
    }
}

static void read_fields(struct json *root, struct sample_data *data)
{
    struct json list = json_array(root, "fields"), object;
    uint64_t end = 0, samples = data->train + data->held;
    while (json_next(&list, &object)) {
        if (data->field_count == SAMPLE_FIELDS) {
            json_refuse(&list, "has more than %d fields", SAMPLE_FIELDS);
            return;
        }
        struct sample_field *field = &data->fields[data->field_count++];
        json_string_into(&object, "name", field->name, sizeof field->name);
        field->type = (enum sample_type)json_choice(&object, "type", sample_types);
        read_sizes(&object, field);
        field->classes = json_has(&object, "classes") ? json_u64(&object, "classes", 1, 65536) : 0;
        field->first_byte = end;
        json_end(&object);
        uint64_t bytes;
        if (__builtin_mul_overflow(sample_bytes(field), samples, &bytes) || sample_field_numbers(field) == 0
            || __builtin_add_overflow(end, bytes, &end) || end > JSON_MAX) {
            json_refuse(&object, "its numbers are too many to count");
            return;
        }
    }
    if (end != data->bytes)
        json_refuse(root, "bytes is %llu, and the fields have %llu", (unsigned long long)data->bytes,
                    (unsigned long long)end);
}

static void check_click_bytes(const struct json *root, const struct sample_data *data)
{
    struct click_layout layout;
    if (!click_layout_find(&data->clicks, data->train + data->held, &layout))
        json_refuse(root, "its numbers are too many to count");
    else if (layout.bytes != data->bytes)
        json_refuse(root, "bytes is %llu, and the clicks have %llu", (unsigned long long)data->bytes,
                    (unsigned long long)layout.bytes);
}

bool sample_data_read(struct json_document *document, struct sample_data *data, struct error *error)
{
    *data = (struct sample_data){ 0 };
    struct json root = json_root(document);
    json_format(&root, "weir.data");
    json_string_into(&root, "kind", data->kind, sizeof data->kind);
    json_string_into(&root, "licence", data->licence, sizeof data->licence);
    data->train = json_u64(&root, "train", 1, JSON_MAX / 2);
    data->held = json_u64(&root, "held", 0, JSON_MAX / 2);
    if (json_has(&root, "slots"))
        click_fields_read(&root, &data->clicks);
    data->bytes = json_u64(&root, "bytes", 1, JSON_MAX);
    json_string_into(&root, "hash", data->hash, sizeof data->hash);
    if (data->clicks.slot_count == 0)
        read_fields(&root, data);
    else
        check_click_bytes(&root, data);
    json_end(&root);
    return json_ok(document, error);
}

static void put_field(const struct sample_field *field, struct json_writer *writer)
{
    json_begin_object(writer, NULL, JSON_INLINE);
    json_put_string(writer, "name", field->name);
    json_put_string(writer, "type", sample_types[field->type]);
    json_begin_array(writer, "sizes", JSON_INLINE);
    for (size_t k = 0; k < SAMPLE_SIZES && field->sizes[k] > 0; k++)
        json_put_u64(writer, NULL, field->sizes[k]);
    json_close(writer);
    if (field->classes > 0)
        json_put_u64(writer, "classes", field->classes);
    json_close(writer);
}

static void put_fields(const struct sample_data *data, struct json_writer *writer)
{
    json_begin_array(writer, "fields", JSON_LINES);
    for (size_t i = 0; i < data->field_count; i++)
        put_field(&data->fields[i], writer);
    json_close(writer);
}

void sample_data_put(const struct sample_data *data, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.data");
    json_put_string(&writer, "kind", data->kind);
    json_put_string(&writer, "licence", data->licence);
    json_put_u64(&writer, "train", data->train);
    json_put_u64(&writer, "held", data->held);
    if (data->clicks.slot_count > 0)
        click_fields_put(&data->clicks, &writer);
    else
        put_fields(data, &writer);
    json_put_u64(&writer, "bytes", data->bytes);
    json_put_string(&writer, "hash", data->hash);
    json_close(&writer);
}

static bool write_document(const struct sample_data *data, const char *path, struct error *error)
{
    struct text text = { 0 };
    sample_data_put(data, &text);
    const bool good = text_ok(&text, "a document of data", error) && text_save(&text, path, error);
    text_clear(&text);
    return good;
}

bool sample_data_save(struct sample_data *data, const struct output_part *parts, size_t count, const char *path,
                      struct error *error)
{
    struct hash *hash = hash_create();
    char *numbers = numbers_path(path, error);
    bool good = numbers && (hash || error_no_memory(error, "a hash of data"));
    data->bytes = 0;
    for (size_t i = 0; good && i < count; i++) {
        hash_add(hash, parts[i].at, parts[i].length);
        data->bytes += parts[i].length;
    }
    if (good) {
        hash_finish(hash, data->hash);
        good = output_save_parts(numbers, parts, count, error) && write_document(data, path, error);
    } else {
        hash_free(hash);
    }
    free(numbers);
    return good;
}

// --- the numbers ---------------------------------------------------------------------------

static bool map_numbers(const char *path, struct sample_data *data, struct error *error)
{
    struct stat about;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &about) != 0) {
        error_named(error, "%s: cannot be read: %s: it belongs beside its document", path, strerror(errno));
        if (file >= 0)
            close(file);
        return false;
    }
    const bool is_whole = about.st_size >= 0 && (uint64_t)about.st_size == data->bytes;
    void *numbers = is_whole ? mmap(NULL, data->bytes, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    const int why = errno;
    close(file);
    if (!is_whole)
        return error_named(error, "%s: has %lld bytes, and its document says %llu: make both again (weir data)", path,
                           (long long)about.st_size, (unsigned long long)data->bytes);
    if (numbers == MAP_FAILED)
        return error_set_kind(error, ERROR_MACHINE, "%s: cannot be mapped: %s", path, strerror(why));
    data->numbers = numbers;
    return true;
}

static uint64_t number_of(const struct sample_field *field, const unsigned char *at, uint64_t i)
{
    return field->type == SAMPLE_U16 ? (uint64_t)at[2 * i] | (uint64_t)at[2 * i + 1] << 8 : at[i];
}

// What is read later is right: the bytes are those that were hashed, and labels are below their classes.
static bool check_numbers(const struct sample_data *data, const char *path, struct error *error)
{
    char digits[HASH_SIZE];
    hash_bytes(data->numbers, data->bytes, digits);
    if (strcmp(digits, data->hash) != 0)
        return error_named(error, "%s: its hash is %.16s, and its document says %.16s: make both again (weir data)", path,
                           digits, data->hash);
    for (size_t f = 0; f < data->field_count; f++) {
        const struct sample_field *field = &data->fields[f];
        const unsigned char *numbers = data->numbers + field->first_byte;
        const uint64_t count = field->classes > 0 ? (data->train + data->held) * sample_field_numbers(field) : 0;
        for (uint64_t i = 0; i < count; i++)
            if (number_of(field, numbers, i) >= field->classes)
                return error_named(error, "%s: number %llu of field %s is %llu, and its document says that all are below"
                                   " %llu", path, (unsigned long long)i, field->name,
                                   (unsigned long long)number_of(field, numbers, i),
                                   (unsigned long long)field->classes);
    }
    return data->clicks.slot_count == 0
        || click_fields_check(&data->clicks, data->train + data->held, data->numbers, path, error);
}

bool sample_data_load(const char *path, struct sample_data *data, struct error *error)
{
    *data = (struct sample_data){ 0 };
    struct json_document *document = json_load(path, error);
    const bool is_read = document && sample_data_read(document, data, error);
    json_free(document);
    char *numbers = is_read ? numbers_path(path, error) : NULL;
    const bool good = numbers && map_numbers(numbers, data, error) && check_numbers(data, numbers, error);
    free(numbers);
    if (!good)
        sample_data_clear(data);
    return good;
}

void sample_data_clear(struct sample_data *data)
{
    if (data->numbers)
        munmap((void *)(uintptr_t)data->numbers, data->bytes);
    *data = (struct sample_data){ 0 };
}

// --- what a model wants ------------------------------------------------------------------

static void sizes_format(const size_t sizes[SAMPLE_SIZES], char text[64])
{
    size_t end = (size_t)snprintf(text, 64, sizes[0] > 0 ? "%zu" : "one number", sizes[0]);
    for (size_t i = 1; i < SAMPLE_SIZES && sizes[0] > 0 && sizes[i] > 0; i++)
        end += (size_t)snprintf(text + end, 64 - end, " x %zu", sizes[i]);
}

static bool field_fits(const struct sample_data *data, size_t f, const struct model_field *wanted,
                       const char *model, struct error *error)
{
    const struct sample_field *field = &data->fields[f];
    if (f >= data->field_count || strcmp(field->name, wanted->name) != 0)
        return error_set(error, "model %s wants \"%s\" as field %zu of its data, and the %s data have %s%s%s there",
                         model, wanted->name, f + 1, data->kind, f < data->field_count ? "\"" : "",
                         f < data->field_count ? field->name : "nothing", f < data->field_count ? "\"" : "");
    for (size_t i = 0; i < SAMPLE_SIZES; i++)
        if (field->sizes[i] != wanted->sizes[i]) {
            char ours[64], theirs[64];
            sizes_format(wanted->sizes, ours);
            sizes_format(field->sizes, theirs);
            return error_set(error, "model %s wants %s of %s for each sample, and the %s data have %s: give the model"
                             " other sizes (weir model --help)", model, wanted->name, ours, data->kind, theirs);
        }
    if (wanted->classes > 0 && (field->classes == 0 || field->classes > wanted->classes))
        return error_set(error, "model %s tells %zu classes apart, and the %s data have %llu: give the model classes=%llu",
                         model, wanted->classes, data->kind, (unsigned long long)field->classes,
                         (unsigned long long)field->classes);
    return true;
}

static bool clicks_fit(const struct sample_data *data, const struct model *model, struct error *error)
{
    const struct click_fields *clicks = &data->clicks;
    const struct click_sizes *sizes = &model->sizes.clicks;
    if (clicks->slot_count == 0)
        return error_set(error, "model %s is of clicks, and the %s data are none", model->name, data->kind);
    if (sizes->numbers != clicks->number_count || sizes->slots != clicks->slot_count)
        return error_set(error, "model %s has %zu numbers and %zu slots, and the %s data have %zu and %zu: give the model"
                         " numbers=%zu,slots=%zu", model->name, sizes->numbers, sizes->slots, data->kind,
                         clicks->number_count, clicks->slot_count, clicks->number_count, clicks->slot_count);
    for (size_t slot = 0; slot < clicks->slot_count; slot++)
        if (clicks->slots[slot].most > sizes->ids)
            return error_set(error, "model %s has room for %zu ids in a slot, and slot %s of the %s data has up to %llu:"
                             " give the model ids=%llu", model->name, sizes->ids, clicks->slots[slot].name, data->kind,
                             (unsigned long long)clicks->slots[slot].most,
                             (unsigned long long)clicks->slots[slot].most);
    return true;
}

bool sample_data_fits(const struct sample_data *data, const struct model *model, struct error *error)
{
    struct model_field fields[MODEL_FIELDS];
    if (model->family == FAMILY_TEXT)
        return error_set(error, "model %s is of texts, and the %s data are no text", model->name, data->kind);
    if (model->family == FAMILY_CLICKS)
        return clicks_fit(data, model, error);
    if (data->clicks.slot_count > 0)
        return error_set(error, "model %s is of pictures, and the %s data are clicks", model->name, data->kind);
    const size_t count = model_fields(model, fields);
    for (size_t f = 0; f < count; f++)
        if (!field_fits(data, f, &fields[f], model->name, error))
            return false;
    return true;
}

// --- which sample --------------------------------------------------------------------------

static uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t state = a;
    state = random_next(&state) ^ b;
    return random_next(&state);
}

// One step of a Feistel network over numbers of twice `bits` bits, which is a permutation whatever is mixed in.
static uint64_t permuted(uint64_t number, unsigned bits, uint64_t key)
{
    enum { ROUNDS = 4 };
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint64_t left = number >> bits, right = number & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const uint64_t next = left ^ (mixed(key + round, right) & mask);
        left = right;
        right = next;
    }
    return left << bits | right;
}

// A permutation of all samples, a number at a time: numbers behind the last sample go on through the network.
struct sample_place sample_data_place(const struct sample_data *data, uint64_t seed, uint64_t consumed)
{
    const uint64_t epoch = consumed / data->train, key = mixed(mixed(seed, 0x65706f6368), epoch);
    unsigned bits = 1;
    while ((uint64_t)1 << (2 * bits) < data->train)
        bits++;
    uint64_t sample = consumed % data->train;
    do
        sample = permuted(sample, bits, key);
    while (sample >= data->train);
    return (struct sample_place){ sample, epoch };
}

struct sample_range sample_data_held(const struct sample_data *data)
{
    return (struct sample_range){ data->train, data->held };
}

struct sample_place sample_data_held_place(const struct sample_data *data, uint64_t number)
{
    return (struct sample_place){ data->train + number % data->held, 0 };
}

// --- pictures --------------------------------------------------------------------------------

bool augmentation_parse(const char *words, struct augmentation *augmentation, struct error *error)
{
    *augmentation = (struct augmentation){ 0 };
    for (const char *word = words; *word; word += strcspn(word, ",") + (word[strcspn(word, ",")] == ',')) {
        const size_t length = strcspn(word, ",");
        uint64_t pixels;
        char number[16] = "";
        if (length == 5 && strncmp(word, "flips", 5) == 0) {
            augmentation->flips = true;
        } else if (length > 6 && length < 6 + sizeof number && strncmp(word, "shift:", 6) == 0) {
            snprintf(number, sizeof number, "%.*s", (int)(length - 6), word + 6);
            if (!count_parse(number, "shift", 1, 64, &pixels, error))
                return false;
            augmentation->shift = (uint32_t)pixels;
        } else if (length != 4 || strncmp(word, "none", 4) != 0) {
            return error_set(error, "\"%.*s\" is none of flips, shift:PIXELS and none", (int)min_u64(length, 40), word);
        }
    }
    return true;
}

void augmentation_format(const struct augmentation *augmentation, char word[AUGMENTATION_WORD])
{
    const char *flips = augmentation->flips ? "flips" : "";
    if (augmentation->shift > 0)
        snprintf(word, AUGMENTATION_WORD, "%s%sshift:%u", flips, augmentation->flips ? "," : "", augmentation->shift);
    else
        snprintf(word, AUGMENTATION_WORD, "%s", augmentation->flips ? flips : "none");
}

// Which way one picture is changed.
struct change {
    bool is_mirrored;
    int64_t down, right;
};

static struct change change_of(struct sample_place place, uint64_t seed, const struct augmentation *augmentation)
{
    struct change change = { 0 };
    if (!augmentation)
        return change;
    uint64_t state = mixed(mixed(mixed(seed, 0x70696374), place.epoch), place.sample);
    change.is_mirrored = random_below(&state, 2) == 1 && augmentation->flips;
    change.down = (int64_t)random_below(&state, 2 * augmentation->shift + 1) - augmentation->shift;
    change.right = (int64_t)random_below(&state, 2 * augmentation->shift + 1) - augmentation->shift;
    return change;
}

// The pixel that comes to (y, x), as its number in the picture; -1: none, it has come in from outside.
static int64_t pixel_from(const struct change *change, size_t height, size_t width, size_t y, size_t x)
{
    const int64_t row = (int64_t)y - change->down, column = (int64_t)x - change->right;
    if (row < 0 || row >= (int64_t)height || column < 0 || column >= (int64_t)width)
        return -1;
    return row * (int64_t)width + (change->is_mirrored ? (int64_t)width - 1 - column : column);
}

static const unsigned char *numbers_of(const struct sample_data *data, size_t field, uint64_t sample)
{
    return data->numbers + data->fields[field].first_byte + sample * sample_bytes(&data->fields[field]);
}

void sample_data_pixels(const struct sample_data *data, struct sample_place place, uint64_t seed,
                        const struct augmentation *augmentation, float *pixels)
{
    const struct sample_field *field = &data->fields[0];
    const size_t height = field->sizes[0], width = field->sizes[1], channels = field->sizes[2];
    const float highest = field->type == SAMPLE_U16 ? 65535 : 255;
    const unsigned char *from = numbers_of(data, 0, place.sample);
    const struct change change = change_of(place, seed, augmentation);
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++) {
            const int64_t pixel = pixel_from(&change, height, width, y, x);
            for (size_t c = 0; c < channels; c++)
                *pixels++ = pixel < 0 ? 0 : (float)number_of(field, from, (uint64_t)pixel * channels + c) / highest;
        }
}

static int32_t click_label(const struct sample_data *data, uint64_t sample)
{
    return data->numbers[data->bytes - data->train - data->held + sample];  // the last part of the file
}

void sample_data_targets(const struct sample_data *data, struct sample_place place, uint64_t seed,
                         const struct augmentation *augmentation, int32_t *targets)
{
    const struct sample_field *field = &data->fields[1];
    const size_t height = field->sizes[0], width = field->sizes[1];
    if (data->clicks.slot_count > 0) {
        *targets = click_label(data, place.sample);
        return;
    }
    const unsigned char *from = numbers_of(data, 1, place.sample);
    const struct change change = change_of(place, seed, augmentation);
    if (height == 0)
        *targets = (int32_t)number_of(field, from, 0);
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++) {
            const int64_t pixel = pixel_from(&change, height, width, y, x);
            *targets++ = pixel < 0 ? 0 : (int32_t)number_of(field, from, (uint64_t)pixel);
        }
}
