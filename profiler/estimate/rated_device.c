#include "profiler/estimate/rated_device.h"

#include <stdlib.h>
#include <string.h>

#include "common/alike.h"
#include "common/json.h"

enum { MOST_PERMILLE = 1000, MOST_SPREAD = 1 << 20 };

// --- reading -----------------------------------------------------------------

static uint64_t permille(struct json *object, const char *key)
{
    return json_u64(object, key, 1, MOST_PERMILLE);
}

static void read_products(struct json *root, struct rated_device *device)
{
    struct json list = json_array(root, "products"), item;
    if (json_count(&list) == 0 || json_count(&list) > RATED_MOST_PRODUCTS)
        json_refuse(&list, "holds %zu types (1 to %d)", json_count(&list), RATED_MOST_PRODUCTS);
    while (device->product_count < RATED_MOST_PRODUCTS && json_next(&list, &item)) {
        json_item_object(&item);
        struct rated_product product = { .gigaflops = json_u64(&item, "gigaflops", 1, JSON_MAX) };
        json_string_into(&item, "dtype", product.dtype, sizeof product.dtype);
        product.permille = permille(&item, "permille");
        product.wave_permille = json_u64(&item, "wave_permille", 0, MOST_PERMILLE);
        product.kernel_ns = json_u64(&item, "kernel_ns", 0, JSON_MAX);
        if (rated_device_product(device, product.dtype))
            json_refuse_key(&item, "dtype", "\"%s\" is there twice", product.dtype);
        json_end(&item);
        device->products[device->product_count++] = product;
    }
}

static void read_levels(struct json *root, struct rated_device *device)
{
    struct json list = json_array(root, "levels"), item;
    if (json_count(&list) == 0 || json_count(&list) > RATED_MOST_LEVELS)
        json_refuse(&list, "holds %zu levels (1 to %d)", json_count(&list), RATED_MOST_LEVELS);
    while (device->level_count < RATED_MOST_LEVELS && json_next(&list, &item)) {
        json_item_object(&item);
        struct rated_level *level = &device->levels[device->level_count++];
        level->size = json_u64(&item, "size", 1, MOST_SPREAD);
        level->latency_ns = json_u64(&item, "latency_ns", 0, JSON_MAX);
        level->bytes_per_second = json_u64(&item, "bytes_per_second", 1, JSON_MAX);
        level->permille = permille(&item, "permille");
        level->message_permille = permille(&item, "message_permille");
        json_end(&item);
    }
}

// A kernel that the document does not have is one that the device does not have.
static struct rated_attention read_attention(struct json *root, const char *key)
{
    if (!json_has(root, key))
        return (struct rated_attention){ 0 };
    struct json attention = json_object(root, key);
    const struct rated_attention read = {
        .forward_permille = permille(&attention, "forward_permille"),
        .backward_permille = permille(&attention, "backward_permille"),
    };
    json_end(&attention);
    return read;
}

bool rated_device_read(const char *text, size_t length, const char *name, struct rated_device *device,
                       struct error *error)
{
    struct json_document *document = json_parse(text, length, name, error);
    if (!document)
        return false;
    struct json root = json_root(document);
    *device = (struct rated_device){ 0 };
    json_format(&root, "weir.device");
    json_string_into(&root, "name", device->name, sizeof device->name);
    device->memory_bytes = json_u64(&root, "memory_bytes", 1, JSON_MAX);
    device->reserved_bytes = json_u64(&root, "reserved_bytes", 0, JSON_MAX);
    device->memory_bytes_per_second = json_u64(&root, "memory_bytes_per_second", 1, JSON_MAX);
    device->memory_permille = permille(&root, "memory_permille");
    device->multiprocessors = json_u64(&root, "multiprocessors", 1, MOST_SPREAD);
    device->kernel_ns = json_u64(&root, "kernel_ns", 0, JSON_MAX);
    device->host_ns = json_u64(&root, "host_ns", 0, JSON_MAX);
    device->sustained_permille = permille(&root, "sustained_permille");
    read_products(&root, device);
    device->fused = read_attention(&root, "fused_attention");
    device->flash = read_attention(&root, "flash_attention");
    read_levels(&root, device);
    if (json_has(&root, "notes"))
        json_string(&root, "notes");
    json_end(&root);
    const bool good = json_ok(document, error);
    json_free(document);
    return good;
}

// --- built-in ones -------------------------------------------------------------

static bool read_built_in(size_t index, struct rated_device *device, struct error *error)
{
    const char *text = rated_device_documents[index];
    return rated_device_read(text, strlen(text), "a built-in device", device, error);
}

void rated_device_names(struct text *text)
{
    for (size_t i = 0; rated_device_documents[i]; i++) {
        struct rated_device device;
        struct error error = { 0 };
        if (read_built_in(i, &device, &error))
            text_add(text, "%s%s", i > 0 ? ", " : "", device.name);
    }
}

const char *rated_device_named(const char *name)
{
    return strcmp(name, "h100") == 0 ? "h100-sxm" : name;
}

static bool find_built_in(const char *name, struct rated_device *device, struct error *error)
{
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    for (size_t i = 0; rated_device_documents[i]; i++) {
        if (!read_built_in(i, device, error))
            return false;
        if (strcmp(device->name, name) == 0)
            return true;
        alike_try(&alike, name, device->name);
    }
    struct text names = { 0 };
    rated_device_names(&names);
    error_set(error, "\"%s\" is none of the built-in devices (%s), nor a file, which has a \".\" or a \"/\" in its"
                     " name%s", name, names.data ? names.data : "", alike_said(&alike, said));
    text_clear(&names);
    return false;
}

bool rated_device_load(const char *name, struct rated_device *device, struct error *error)
{
    if (strcmp(name, "-") != 0 && !strpbrk(name, "./"))
        return find_built_in(rated_device_named(name), device, error);
    size_t length;
    char *text = text_load(name, &length, error);
    const bool good = text && rated_device_read(text, length, name, device, error);
    free(text);
    return good;
}

const struct rated_product *rated_device_product(const struct rated_device *device, const char *dtype)
{
    for (size_t i = 0; i < device->product_count; i++)
        if (strcmp(device->products[i].dtype, dtype) == 0)
            return &device->products[i];
    return NULL;
}

double rated_message_rate(const struct rated_level *level)
{
    return (double)level->bytes_per_second * (double)level->message_permille / MOST_PERMILLE;
}

// --- writing -----------------------------------------------------------------

static void write_products(const struct rated_device *device, struct json_writer *writer)
{
    json_begin_array(writer, "products", JSON_LINES);
    for (size_t i = 0; i < device->product_count; i++) {
        const struct rated_product *product = &device->products[i];
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_string(writer, "dtype", product->dtype);
        json_put_u64(writer, "gigaflops", product->gigaflops);
        json_put_u64(writer, "permille", product->permille);
        json_put_u64(writer, "wave_permille", product->wave_permille);
        json_put_u64(writer, "kernel_ns", product->kernel_ns);
        json_close(writer);
    }
    json_close(writer);
}

static void write_attention(const struct rated_attention *attention, const char *key, struct json_writer *writer)
{
    if (!attention->forward_permille)
        return;
    json_begin_object(writer, key, JSON_INLINE);
    json_put_u64(writer, "forward_permille", attention->forward_permille);
    json_put_u64(writer, "backward_permille", attention->backward_permille);
    json_close(writer);
}

static void write_levels(const struct rated_device *device, struct json_writer *writer)
{
    json_begin_array(writer, "levels", JSON_LINES);
    for (size_t i = 0; i < device->level_count; i++) {
        const struct rated_level *level = &device->levels[i];
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_u64(writer, "size", level->size);
        json_put_u64(writer, "latency_ns", level->latency_ns);
        json_put_u64(writer, "bytes_per_second", level->bytes_per_second);
        json_put_u64(writer, "permille", level->permille);
        json_put_u64(writer, "message_permille", level->message_permille);
        json_close(writer);
    }
    json_close(writer);
}

void rated_device_write(const struct rated_device *device, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.device");
    json_put_string(&writer, "name", device->name);
    json_put_u64(&writer, "memory_bytes", device->memory_bytes);
    json_put_u64(&writer, "reserved_bytes", device->reserved_bytes);
    json_put_u64(&writer, "memory_bytes_per_second", device->memory_bytes_per_second);
    json_put_u64(&writer, "memory_permille", device->memory_permille);
    json_put_u64(&writer, "multiprocessors", device->multiprocessors);
    json_put_u64(&writer, "kernel_ns", device->kernel_ns);
    json_put_u64(&writer, "host_ns", device->host_ns);
    json_put_u64(&writer, "sustained_permille", device->sustained_permille);
    write_products(device, &writer);
    write_attention(&device->fused, "fused_attention", &writer);
    write_attention(&device->flash, "flash_attention", &writer);
    write_levels(device, &writer);
    json_close(&writer);
}
