#include "common/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json.h"
#include "common/output.h"

// A longer header is refused, as in other implementations: it would have millions of tensors.
enum { LENGTH_BYTES = 8, MOST_HEADER = 100000000, WIDEST = 8 };

static const char METADATA[] = "__metadata__";

static const char *const type_names[] = {
    [SAFE_BOOL] = "BOOL", [SAFE_U8] = "U8",     [SAFE_I8] = "I8",   [SAFE_F8_E4M3] = "F8_E4M3",
        [SAFE_F8_E5M2] = "F8_E5M2",
    [SAFE_I16] = "I16",   [SAFE_U16] = "U16",   [SAFE_F16] = "F16", [SAFE_BF16] = "BF16",       [SAFE_I32] = "I32",
    [SAFE_U32] = "U32",   [SAFE_F32] = "F32",   [SAFE_I64] = "I64", [SAFE_U64] = "U64",         [SAFE_F64] = "F64",
    [SAFE_F64 + 1] = NULL,
};

static const uint8_t type_bytes[] = {
    [SAFE_BOOL] = 1, [SAFE_U8] = 1,  [SAFE_I8] = 1,  [SAFE_F8_E4M3] = 1, [SAFE_F8_E5M2] = 1,
    [SAFE_I16] = 2,  [SAFE_U16] = 2, [SAFE_F16] = 2, [SAFE_BF16] = 2,    [SAFE_I32] = 4,
    [SAFE_U32] = 4,  [SAFE_F32] = 4, [SAFE_I64] = 8, [SAFE_U64] = 8,     [SAFE_F64] = 8,
};

const char *safe_type_name(enum safe_type type)
{
    return type_names[type];
}

uint32_t safe_type_bytes(enum safe_type type)
{
    return type_bytes[type];
}

bool safe_tensor_bytes(const struct safe_tensor *tensor, uint64_t *bytes)
{
    bool fits = true;
    *bytes = type_bytes[tensor->type];
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        if (tensor->shape[i] == 0) {
            *bytes = 0;
            return true;  // independently of the other dimensions
        }
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        fits = fits && !__builtin_mul_overflow(*bytes, tensor->shape[i], bytes);
    return fits;
}

// --- writing ---------------------------------------------------------------------

static void put_tensor(struct json_writer *json, const struct safe_tensor *tensor)
{
    json_begin_object(json, tensor->name, JSON_INLINE);
    json_put_string(json, "dtype", safe_type_name(tensor->type));
    json_begin_array(json, "shape", JSON_INLINE);
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        json_put_u64(json, NULL, tensor->shape[i]);
    json_close(json);
    json_begin_array(json, "data_offsets", JSON_INLINE);
    json_put_u64(json, NULL, tensor->first);
    json_put_u64(json, NULL, tensor->end);
    json_close(json);
    json_close(json);
}

static void put_notes(struct json_writer *json, const struct safe_note *notes, size_t count)
{
    if (count == 0)
        return;
    json_begin_object(json, METADATA, JSON_INLINE);
    for (size_t i = 0; i < count; i++)
        json_put_string(json, notes[i].key, notes[i].value);
    json_close(json);
}

// Handles all tensors, width by width, which is the order of their data. Sets their offsets, writes their
// descriptions, and adds their bytes to `parts`, which gets as many entries as there are tensors.
static void put_all(struct json_writer *json, struct safe_tensor *tensors, size_t count, struct output_part *parts)
{
    uint64_t used = 0;
    for (uint32_t width = WIDEST; width > 0; width /= 2)
        for (size_t i = 0; i < count; i++) {
            struct safe_tensor *tensor = &tensors[i];
            uint64_t bytes;
            if (safe_type_bytes(tensor->type) != width)
                continue;
            const bool fits = safe_tensor_bytes(tensor, &bytes);
            assert(fits);
            (void)fits;
            tensor->first = used;
            tensor->end = used += bytes;
            put_tensor(json, tensor);
            *parts++ = (struct output_part){ tensor->data, bytes };
        }
}

// Puts the length before the header, and spaces after it, so that data begins at a multiple of its width.
static void frame(struct text *header, const struct text *json)
{
    const uint64_t padded = (json->length + WIDEST - 1) / WIDEST * WIDEST;
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        text_add_bytes(header, &(char){ (char)(padded >> 8 * i) }, 1);
    text_add_bytes(header, json->data, json->length);
    text_add_repeated(header, " ", padded - json->length);
}

static bool hash_parts(const struct output_part *parts, size_t count, struct safe_written *written,
                       struct error *error)
{
    struct hash *hash = hash_create();
    if (!hash)
        return error_no_memory(error, "a checksum");
    written->bytes = 0;
    for (size_t i = 0; i < count; i++) {
        hash_add(hash, parts[i].at, parts[i].length);
        written->bytes += parts[i].length;
    }
    hash_finish(hash, written->hash);
    return true;
}

bool safetensors_save(const char *path, struct safe_tensor *tensors, size_t count, const struct safe_note *notes,
                      size_t note_count, struct safe_written *written, struct error *error)
{
    struct text text = { 0 }, header = { 0 };
    struct json_writer json = json_writer(&text);
    struct output_part *parts = calloc(count + 1, sizeof *parts);
    if (!parts)
        return error_no_memory(error, path);
    json_begin_object(&json, NULL, JSON_INLINE);
    put_notes(&json, notes, note_count);
    put_all(&json, tensors, count, parts + 1);
    json_close(&json);
    bool good = text_ok(&text, path, error);
    if (good)
        frame(&header, &text);
    good = good && text_ok(&header, path, error);
    parts[0] = (struct output_part){ header.data, header.length };
    good = good && hash_parts(parts, count + 1, written, error) && output_replace(path, parts, count + 1, error);
    text_clear(&text);
    text_clear(&header);
    free(parts);
    return good;
}

// --- reading a header ----------------------------------------------------------------

static void read_shape(struct json *place, struct safe_tensor *tensor)
{
    struct json shape = json_array(place, "shape"), item;
    if (json_count(&shape) > SAFE_DIMENSIONS) {
        json_refuse(&shape, "has %zu dimensions, more than %d", json_count(&shape), SAFE_DIMENSIONS);
        return;
    }
    while (json_next(&shape, &item))
        tensor->shape[tensor->dimensions++] = json_item_u64(&item, 0, JSON_MAX);
}

static void read_offsets(struct json *place, struct safe_tensor *tensor, uint64_t data_bytes)
{
    struct json offsets = json_array(place, "data_offsets"), item;
    uint64_t range[2] = { 0 };
    if (json_count(&offsets) != 2)
        json_refuse(&offsets, "are %zu numbers, not 2", json_count(&offsets));
    for (size_t i = 0; i < 2 && json_next(&offsets, &item); i++)
        range[i] = json_item_u64(&item, 0, data_bytes);
    tensor->first = range[0];
    tensor->end = range[1];
    uint64_t bytes;
    if (range[1] < range[0])
        json_refuse(&offsets, "end at %llu, before they begin at %llu", (unsigned long long)range[1],
                    (unsigned long long)range[0]);
    else if (!safe_tensor_bytes(tensor, &bytes) || bytes != range[1] - range[0])
        json_refuse(&offsets, "are of %llu bytes, and its shape and dtype of another number",
                    (unsigned long long)(range[1] - range[0]));
}

static void read_tensor(struct json *place, struct safe_tensor *tensor, uint64_t data_bytes)
{
    *tensor = (struct safe_tensor){ .name = place->key };
    json_item_object(place);
    tensor->type = (enum safe_type)json_choice(place, "dtype", type_names);
    read_shape(place, tensor);
    read_offsets(place, tensor, data_bytes);
    json_end(place);
}

static bool read_notes(struct json *place, struct safe_header *header, struct error *error)
{
    struct json value;
    json_item_object(place);
    header->notes = calloc(json_count(place) + 1, sizeof *header->notes);
    if (!header->notes)
        return error_no_memory(error, "a safetensors header");
    while (json_next_key(place, &value)) {
        const char *text = json_item_string(&value);
        header->notes[header->note_count++] = (struct safe_note){ value.key, text };
    }
    return true;
}

static int by_place(const void *a, const void *b)
{
    const struct safe_tensor *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

// Each tensor begins where the one before it ends, and the last one ends with the file.
static bool has_no_gaps(const struct safe_header *header, uint64_t data_bytes, const char *name, struct error *error)
{
    uint64_t end = 0;
    for (size_t i = 0; i < header->count; i++) {
        const struct safe_tensor *tensor = &header->tensors[i];
        if (tensor->first != end)
            return error_named(error, "%s: %.200s: its data begins at %llu, and what stands before it ends at %llu: %s",
                               name, tensor->name, (unsigned long long)tensor->first, (unsigned long long)end,
                               tensor->first < end ? "they overlap" : "there is a hole");
        end = tensor->end;
    }
    return end == data_bytes
        || error_named(error, "%s: its tensors end at byte %llu of the data, and the file has %llu bytes of it", name,
                       (unsigned long long)end, (unsigned long long)data_bytes);
}

static bool read_all(struct safe_header *header, uint64_t data_bytes, struct error *error)
{
    struct json root = json_root(header->document), value;
    header->tensors = calloc(json_count(&root) + 1, sizeof *header->tensors);
    if (!header->tensors)
        return error_no_memory(error, "a safetensors header");
    while (json_next_key(&root, &value)) {
        if (strcmp(value.key, METADATA) != 0)
            read_tensor(&value, &header->tensors[header->count++], data_bytes);
        else if (!read_notes(&value, header, error))
            return false;
    }
    return json_ok(header->document, error);
}

bool safe_header_read(const char *json, size_t length, uint64_t data_bytes, const char *name,
                      struct safe_header *header, struct error *error)
{
    *header = (struct safe_header){ .document = json_parse(json, length, name, error) };
    bool good = header->document && read_all(header, data_bytes, error);
    if (good) {
        qsort(header->tensors, header->count, sizeof *header->tensors, by_place);
        good = has_no_gaps(header, data_bytes, name, error);
    }
    if (!good)
        safe_header_clear(header);
    return good;
}

void safe_header_clear(struct safe_header *header)
{
    free(header->tensors);
    free(header->notes);
    json_free(header->document);
    *header = (struct safe_header){ 0 };
}

const char *safe_header_note(const struct safe_header *header, const char *key)
{
    for (size_t i = 0; i < header->note_count; i++)
        if (strcmp(header->notes[i].key, key) == 0)
            return header->notes[i].value;
    return NULL;
}

// --- reading a file ------------------------------------------------------------------

struct safe_file {
    char *path;
    int file;
    uint64_t bytes, data_at;
    struct safe_header header;
    size_t next;
    struct hash *hash;
};

static bool read_bytes(struct safe_file *file, void *to, uint64_t bytes, struct error *error)
{
    char *next = to;
    for (uint64_t left = bytes; left > 0;) {
        const ssize_t got = read(file->file, next, left);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set_kind(error, ERROR_MACHINE, "%s: cannot be read: %s", file->path, strerror(errno));
        if (got == 0)
            return error_named(error, "%s: has become shorter while it was read", file->path);
        next += got;
        left -= (uint64_t)got;
    }
    hash_add(file->hash, to, bytes);
    return true;
}

static bool read_length(struct safe_file *file, uint64_t *length, struct error *error)
{
    unsigned char bytes[LENGTH_BYTES];
    *length = 0;
    if (file->bytes < LENGTH_BYTES)
        return error_named(error, "%s: has %llu bytes, and the length of a safetensors header alone takes %d",
                           file->path, (unsigned long long)file->bytes, LENGTH_BYTES);
    if (!read_bytes(file, bytes, sizeof bytes, error))
        return false;
    for (unsigned i = LENGTH_BYTES; i-- > 0;)
        *length = *length << 8 | bytes[i];
    if (*length > MOST_HEADER)
        return error_named(error, "%s: its header of %llu bytes is longer than %d", file->path,
                           (unsigned long long)*length, MOST_HEADER);
    return *length <= file->bytes - LENGTH_BYTES
        || error_named(error, "%s: its header of %llu bytes ends behind the file's %llu", file->path,
                       (unsigned long long)*length, (unsigned long long)file->bytes);
}

static bool read_header(struct safe_file *file, struct error *error)
{
    uint64_t length;
    if (!read_length(file, &length, error))
        return false;
    file->data_at = LENGTH_BYTES + length;
    char *json = malloc(length + 1);
    if (!json)
        return error_no_memory(error, file->path);
    const bool good = read_bytes(file, json, length, error)
        && safe_header_read(json, length, file->bytes - file->data_at, file->path, &file->header, error);
    free(json);
    return good;
}

// A pipe is refused, since opening it would block.
static bool open_file(struct safe_file *file, struct error *error)
{
    struct stat about;
    file->file = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file->file < 0 || fstat(file->file, &about) != 0)
        return error_named(error, "%s: cannot be read: %s", file->path, strerror(errno));
    file->bytes = (uint64_t)about.st_size;
    return S_ISREG(about.st_mode) || error_named(error, "%s: is not a regular file", file->path);
}

struct safe_file *safe_file_open(const char *path, struct error *error)
{
    struct safe_file *file = calloc(1, sizeof *file);
    if (!file)
        return error_null(error_no_memory(error, path));
    file->file = -1;
    file->path = strdup(path);
    file->hash = hash_create();
    const bool has_memory = (file->path && file->hash) || error_no_memory(error, path);
    if (!has_memory || !open_file(file, error) || !read_header(file, error)) {
        safe_file_close(file);
        return NULL;
    }
    return file;
}

void safe_file_close(struct safe_file *file)
{
    if (!file)
        return;
    safe_header_clear(&file->header);
    hash_free(file->hash);
    if (file->file >= 0)
        close(file->file);
    free(file->path);
    free(file);
}

const struct safe_header *safe_file_header(const struct safe_file *file)
{
    return &file->header;
}

uint64_t safe_file_bytes(const struct safe_file *file)
{
    return file->bytes;
}

uint64_t safe_file_data_at(const struct safe_file *file)
{
    return file->data_at;
}

bool safe_file_next(struct safe_file *file, void *to, struct error *error)
{
    assert(file->next < file->header.count);
    const struct safe_tensor *tensor = &file->header.tensors[file->next++];
    return read_bytes(file, to, tensor->end - tensor->first, error);
}

void safe_file_hash(struct safe_file *file, char digits[HASH_SIZE])
{
    assert(file->next == file->header.count && file->hash);
    hash_finish(file->hash, digits);
    file->hash = NULL;
}
