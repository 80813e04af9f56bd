#include "runtime/checkpoint/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

bool manifest_note_plan(struct manifest *manifest, const struct plan *plan, enum precision precision,
                        uint32_t flush_every, struct error *error)
{
    manifest->model = plan->model;
    snprintf(manifest->precision, sizeof manifest->precision, "%s", precision_name(precision));
    snprintf(manifest->optimizer, sizeof manifest->optimizer, "%s", optimizer_names[plan->storage.optimizer]);
    snprintf(manifest->plan.schedule, sizeof manifest->plan.schedule, "%s", plan->schedule);
    snprintf(manifest->plan.weights, sizeof manifest->plan.weights, "%s", weights_names[plan->weights]);
    manifest->plan.ranks = plan->ranks;
    manifest->plan.stages = plan->stage_count;
    manifest->plan.micro_batches = plan->micro_batches;
    manifest->plan.flush_every = flush_every;
    return plan_hash(plan, manifest->plan.hash, error);
}

static void write_plan(const struct manifest *manifest, struct json_writer *json)
{
    json_begin_object(json, "plan", JSON_LINES);
    json_put_string(json, "hash", manifest->plan.hash);
    json_put_string(json, "schedule", manifest->plan.schedule);
    json_put_string(json, "weights", manifest->plan.weights);
    json_put_u64(json, "ranks", manifest->plan.ranks);
    json_put_u64(json, "stages", manifest->plan.stages);
    json_put_u64(json, "micro_batches", manifest->plan.micro_batches);
    json_put_u64(json, "flush_every", manifest->plan.flush_every);
    json_close(json);
}

static void write_file(struct json_writer *json, const char *key, const struct safe_written *written)
{
    json_begin_object(json, key, JSON_INLINE);
    json_put_u64(json, "bytes", written->bytes);
    json_put_string(json, "hash", written->hash);
    json_close(json);
}

static void write_layers(const struct manifest *manifest, struct json_writer *json)
{
    json_begin_array(json, "layers", JSON_LINES);
    for (size_t l = 0; l < manifest->layer_count; l++) {
        const struct manifest_layer *layer = &manifest->layers[l];
        json_begin_object(json, NULL, JSON_LINES);
        json_put_string(json, "name", layer->name);
        json_put_u64(json, "updates", layer->updates);
        if (layer->written.weights.bytes > 0)
            write_file(json, "weights", &layer->written.weights);
        if (layer->written.optimizer.bytes > 0)
            write_file(json, "optimizer", &layer->written.optimizer);
        json_close(json);
    }
    json_close(json);
}

static void write_copies(const struct manifest *manifest, struct json_writer *json)
{
    if (manifest->copy_count == 0)
        return;
    json_begin_array(json, "copies", JSON_LINES);
    for (size_t c = 0; c < manifest->copy_count; c++) {
        json_begin_object(json, NULL, JSON_LINES);
        json_put_string(json, "name", manifest->copies[c].name);
        write_file(json, "error", &manifest->copies[c].written.weights);
        json_close(json);
    }
    json_close(json);
}

static void write_loss_scale(const struct manifest *manifest, struct json_writer *json)
{
    if (!manifest->loss_scale.scale[0])
        return;
    json_begin_object(json, "loss_scale", JSON_INLINE);
    json_put_string(json, "scale", manifest->loss_scale.scale);
    json_put_u64(json, "interval", manifest->loss_scale.interval);
    json_put_u64(json, "made", manifest->loss_scale.made);
    json_put_u64(json, "skipped", manifest->loss_scale.skipped);
    json_close(json);
}

static void write_with(const struct manifest *manifest, const char *hash, struct text *text)
{
    struct json_writer json = json_writer(text);
    json_begin_object(&json, NULL, JSON_LINES);
    json_put_format(&json, "weir.checkpoint");
    json_put_string(&json, "model", manifest->model);
    json_put_string(&json, "precision", manifest->precision);
    json_put_string(&json, "optimizer", manifest->optimizer);
    json_put_string(&json, "rate", manifest->rate);
    if (manifest->clip[0])
        json_put_string(&json, "clip", manifest->clip);
    if (manifest->augment[0])
        json_put_string(&json, "augment", manifest->augment);
    if (manifest->batch > 0)
        json_put_u64(&json, "batch", manifest->batch);
    write_loss_scale(manifest, &json);
    if (manifest->freeze_step > 0)
        json_put_u64(&json, "freeze_step", manifest->freeze_step);
    json_put_u64(&json, "seed", manifest->seed);
    json_begin_object(&json, "data", JSON_INLINE);
    json_put_string(&json, "hash", manifest->data_hash);
    json_put_u64(&json, "tokens", manifest->data_tokens);
    json_close(&json);
    write_plan(manifest, &json);
    json_put_u64(&json, "steps", manifest->steps);
    json_put_u64(&json, "step", manifest->step);
    json_put_u64(&json, "passes", manifest->passes);
    if (manifest->samples > 0)
        json_put_u64(&json, "samples", manifest->samples);
    json_put_fraction(&json, "loss", manifest->loss);
    if (manifest->has_held)
        json_put_fraction(&json, "held_loss", manifest->held_loss);
    if (manifest->words)
        json_put_string(&json, "words", manifest->words);
    write_layers(manifest, &json);
    write_copies(manifest, &json);
    json_put_string(&json, "hash", hash);
    json_close(&json);
}

// The hash of the document with no digits at the place of its hash.
static void hash_of(const struct manifest *manifest, char digits[HASH_SIZE], struct text *text)
{
    struct text plain = { 0 };
    write_with(manifest, "", &plain);
    if (plain.failed)
        text->failed = true;
    else
        hash_bytes(plain.data, plain.length, digits);
    text_clear(&plain);
}

void manifest_write(const struct manifest *manifest, struct text *text)
{
    char digits[HASH_SIZE] = "";
    hash_of(manifest, digits, text);
    write_with(manifest, digits, text);
}

// --- reading -----------------------------------------------------------------------------

static void read_loss_scale(struct json *root, struct manifest *manifest)
{
    if (!json_has(root, "loss_scale"))
        return;
    struct json place = json_object(root, "loss_scale");
    json_string_into(&place, "scale", manifest->loss_scale.scale, MANIFEST_WORD);
    manifest->loss_scale.interval = json_u64(&place, "interval", 1, UINT32_MAX);
    manifest->loss_scale.made = json_u64(&place, "made", 0, UINT32_MAX);
    manifest->loss_scale.skipped = json_u64(&place, "skipped", 0, JSON_MAX);
    json_end(&place);
}

static bool read_words(struct json *root, struct manifest *manifest, struct error *error)
{
    if (!json_has(root, "words"))
        return true;
    const char *words = json_string(root, "words");
    const size_t bytes = strlen(words);
    if (bytes == 0 || bytes > MANIFEST_MOST_WORDS)
        json_refuse_key(root, "words", "has %zu bytes; it must have from 1 to %d", bytes, MANIFEST_MOST_WORDS);
    manifest->words = strdup(words);
    return manifest->words || error_no_memory(error, "a checkpoint");
}

static void read_data(struct json *root, struct manifest *manifest)
{
    struct json data = json_object(root, "data");
    json_string_into(&data, "hash", manifest->data_hash, HASH_SIZE);
    manifest->data_tokens = json_u64(&data, "tokens", 0, JSON_MAX);
    json_end(&data);
}

static void read_plan(struct json *root, struct manifest *manifest)
{
    struct json plan = json_object(root, "plan");
    json_string_into(&plan, "hash", manifest->plan.hash, HASH_SIZE);
    json_string_into(&plan, "schedule", manifest->plan.schedule, MANIFEST_WORD);
    json_string_into(&plan, "weights", manifest->plan.weights, MANIFEST_WORD);
    manifest->plan.ranks = json_u64(&plan, "ranks", 1, JSON_MAX);
    manifest->plan.stages = json_u64(&plan, "stages", 1, JSON_MAX);
    manifest->plan.micro_batches = json_u64(&plan, "micro_batches", 1, JSON_MAX);
    manifest->plan.flush_every = json_u64(&plan, "flush_every", 1, JSON_MAX);
    json_end(&plan);
}

static void read_file(struct json *layer, const char *key, struct safe_written *written)
{
    struct json file = json_object(layer, key);
    written->bytes = json_u64(&file, "bytes", 1, JSON_MAX);
    json_string_into(&file, "hash", written->hash, HASH_SIZE);
    json_end(&file);
}

static bool read_layers(struct json *root, struct manifest *manifest, struct error *error)
{
    struct json layers = json_array(root, "layers"), layer;
    manifest->layers = calloc(json_count(&layers) + 1, sizeof *manifest->layers);
    bool good = manifest->layers || error_no_memory(error, "a checkpoint");
    while (good && json_next(&layers, &layer)) {
        struct manifest_layer *to = &manifest->layers[manifest->layer_count++];
        to->name = strdup(json_string(&layer, "name"));
        to->updates = json_u64(&layer, "updates", 0, JSON_MAX);
        if (json_has(&layer, "weights"))
            read_file(&layer, "weights", &to->written.weights);
        if (json_has(&layer, "optimizer"))
            read_file(&layer, "optimizer", &to->written.optimizer);
        json_end(&layer);
        good = to->name || error_no_memory(error, "a checkpoint");
    }
    return good;
}

static bool read_copies(struct json *root, struct manifest *manifest, struct error *error)
{
    if (!json_has(root, "copies"))
        return true;
    struct json copies = json_array(root, "copies"), copy;
    manifest->copies = calloc(json_count(&copies) + 1, sizeof *manifest->copies);
    bool good = manifest->copies || error_no_memory(error, "a checkpoint");
    while (good && json_next(&copies, &copy)) {
        struct manifest_layer *to = &manifest->copies[manifest->copy_count++];
        to->name = strdup(json_string(&copy, "name"));
        read_file(&copy, "error", &to->written.weights);
        json_end(&copy);
        good = to->name || error_no_memory(error, "a checkpoint");
    }
    return good;
}

static bool read_all(struct json *root, struct manifest *manifest, char hash[HASH_SIZE], struct error *error)
{
    json_format(root, "weir.checkpoint");
    manifest->model = strdup(json_string(root, "model"));
    if (!manifest->model)
        return error_no_memory(error, "a checkpoint");
    json_string_into(root, "precision", manifest->precision, MANIFEST_WORD);
    json_string_into(root, "optimizer", manifest->optimizer, MANIFEST_WORD);
    json_string_into(root, "rate", manifest->rate, MANIFEST_WORD);
    if (json_has(root, "clip"))
        json_string_into(root, "clip", manifest->clip, MANIFEST_WORD);
    if (json_has(root, "augment"))
        json_string_into(root, "augment", manifest->augment, MANIFEST_WORD);
    if (json_has(root, "batch"))
        manifest->batch = json_u64(root, "batch", 1, JSON_MAX);
    read_loss_scale(root, manifest);
    if (json_has(root, "freeze_step"))
        manifest->freeze_step = json_u64(root, "freeze_step", 1, JSON_MAX);
    manifest->seed = json_u64(root, "seed", 0, JSON_MAX);
    read_data(root, manifest);
    read_plan(root, manifest);
    manifest->steps = json_u64(root, "steps", 1, JSON_MAX);
    manifest->step = json_u64(root, "step", 1, manifest->steps ? manifest->steps : JSON_MAX);
    manifest->passes = json_u64(root, "passes", 1, manifest->step ? manifest->step : JSON_MAX);
    if (json_has(root, "samples"))
        manifest->samples = json_u64(root, "samples", 1, JSON_MAX);
    manifest->loss = json_fraction(root, "loss");
    manifest->has_held = json_has(root, "held_loss");
    if (manifest->has_held)
        manifest->held_loss = json_fraction(root, "held_loss");
    if (!read_words(root, manifest, error) || !read_layers(root, manifest, error)
        || !read_copies(root, manifest, error))
        return false;
    json_string_into(root, "hash", hash, HASH_SIZE);
    json_end(root);
    return true;
}

static bool is_whole(const struct manifest *manifest, const char *hash, const char *name, struct error *error)
{
    char found[HASH_SIZE] = "";
    struct text text = { 0 };
    hash_of(manifest, found, &text);
    return text_ok(&text, "a checkpoint", error)
        && (strcmp(hash, found) == 0
            || error_named(error, "%s: hash: is %s, and what stands before it has %s: it was changed, or is damaged",
                           name, hash, found));
}

struct manifest *manifest_read(const char *json, size_t length, const char *name, struct error *error)
{
    struct json_document *document = json_parse(json, length, name, error);
    struct manifest *manifest = document ? calloc(1, sizeof *manifest) : NULL;
    char hash[HASH_SIZE] = "";
    if (!manifest) {
        json_free(document);
        return error_null(error_no_memory(error, "a checkpoint"));
    }
    struct json root = json_root(document);
    const bool good = read_all(&root, manifest, hash, error) && json_ok(document, error)
        && is_whole(manifest, hash, name, error);
    json_free(document);
    if (good)
        return manifest;
    manifest_free(manifest);
    return NULL;
}

void manifest_free(struct manifest *manifest)
{
    if (!manifest)
        return;
    for (size_t l = 0; l < manifest->layer_count; l++)
        free(manifest->layers[l].name);
    for (size_t c = 0; c < manifest->copy_count; c++)
        free(manifest->copies[c].name);
    free(manifest->copies);
    free(manifest->layers);
    free(manifest->model);
    free(manifest->words);
    free(manifest);
}
