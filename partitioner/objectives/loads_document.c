#include "partitioner/objectives/loads_document.h"

#include <stdlib.h>
#include <string.h>

#include "common/arrays.h"
#include "common/json.h"
#include "partitioner/evaluate/handmade.h"
#include "partitioner/objectives/bottleneck_plan.h"
#include "partitioner/plan/plan_words.h"

// --- writing ----------------------------------------------------------------------------

static void write_ways(struct json_writer *writer, const struct bottleneck_request *request,
                       const struct bottleneck_result *result, const struct bottleneck_stage *stage)
{
    json_begin_array(writer, "variants", JSON_INLINE);
    for (uint32_t position = stage->first; position < stage->end; position++) {
        const uint32_t variant = result->variant[result->order[position]];
        if (variant == 0)
            json_put_null(writer, NULL);
        else
            json_put_string(writer, NULL,
                            request->profile->layers[result->order[position]].variants[variant - 1].layer.name);
    }
    json_close(writer);
}

static void write_stage(struct json_writer *writer, const struct bottleneck_request *request,
                        const struct bottleneck_result *result, const struct bottleneck_stage *stage)
{
    json_begin_object(writer, NULL, JSON_LINES);
    json_begin_array(writer, "layers", JSON_INLINE);
    for (uint32_t position = stage->first; position < stage->end; position++)
        json_put_string(writer, NULL, request->profile->layers[result->order[position]].name);
    json_close(writer);
    write_ways(writer, request, result, stage);
    json_put_u64(writer, "replicas", stage->replicas);
    json_put_u64(writer, "devices", stage->group);
    json_put_bool(writer, "on_cpu", stage->on_cpu);
    json_put_u64(writer, "load_ns", (uint64_t)(stage->load_ns + 0.5));
    json_close(writer);
}

void loads_write(const struct bottleneck_request *request, const struct bottleneck_result *result, struct text *text)
{
    struct json_writer writer = json_writer(text);
    struct certificate certificate = { 0 };
    struct error too_large = { 0 };
    bottleneck_certificate(result, &certificate, &too_large);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.loads");
    json_begin_object(&writer, "profile", JSON_LINES);
    json_put_string(&writer, "model", request->profile->model);
    json_put_string(&writer, "hash", request->profile->hash);
    json_close(&writer);
    json_put_u64(&writer, "micro_batches", request->micro_batches);
    json_begin_array(&writer, "stages", JSON_LINES);
    for (size_t s = 0; s < result->stage_count; s++)
        write_stage(&writer, request, result, &result->stages[s]);
    json_close(&writer);
    certificate_write(&writer, &certificate);
    json_close(&writer);
}

// --- reading ------------------------------------------------------------------------------

struct reader {
    const struct profile *profile;
    struct bottleneck_result *result;
    uint32_t *stage_of;  // of each layer; UINT32_MAX: not met yet
    uint32_t *met;       // the layers of the current stage, in order
};

static size_t read_layers(struct reader *reader, struct json *object, uint32_t stage)
{
    struct json list = json_array(object, "layers"), item;
    size_t count = 0;
    while (json_next(&list, &item)) {
        const char *name = json_item_string(&item);
        const uint32_t layer = profile_find_layer(reader->profile, name);
        if (layer == reader->profile->layer_count) {
            json_refuse(&item, "the profile has no layer of this name");
        } else if (reader->stage_of[layer] != UINT32_MAX) {
            json_refuse(&item, "stands in stage %u already", reader->stage_of[layer]);
        } else {
            reader->stage_of[layer] = stage;
            reader->met[count++] = layer;
        }
    }
    return count;
}

static void read_ways(struct reader *reader, struct json *object, size_t layers)
{
    struct json list = json_array(object, "variants"), item;
    if (list.node && json_count(&list) != layers)
        json_refuse(&list, "holds %zu ways for %zu layers", json_count(&list), layers);
    for (size_t i = 0; i < layers && json_next(&list, &item); i++) {
        const struct profile_layer *layer = &reader->profile->layers[reader->met[i]];
        if (json_kind(&item) == JSON_NULL)
            continue;
        const char *name = json_item_string(&item);
        uint32_t v = 0;
        while (v < layer->variant_count && strcmp(layer->variants[v].layer.name, name) != 0)
            v++;
        if (v == layer->variant_count)
            json_refuse(&item, "layer \"%s\" has no variant of this name", layer->name);
        else
            reader->result->variant[reader->met[i]] = v + 1;
    }
}

static void read_stage(struct reader *reader, struct json *object, uint32_t s)
{
    struct bottleneck_stage *stage = &reader->result->stages[s];
    json_item_object(object);
    read_ways(reader, object, read_layers(reader, object, s));
    stage->replicas = (uint32_t)json_u64(object, "replicas", 1, CLUSTER_MOST_DEVICES);
    stage->group = (uint32_t)json_u64(object, "devices", 1, CLUSTER_MOST_DEVICES);
    stage->on_cpu = json_bool(object, "on_cpu");
    json_u64(object, "load_ns", 0, JSON_MAX);  // its load is computed anew
    json_end(object);
}

static void read_rest(struct bottleneck_request *request, struct json *root)
{
    struct json profile = json_object(root, "profile");
    json_string(&profile, "model");
    json_string(&profile, "hash");
    json_end(&profile);
    const uint64_t micro_batches = json_u64(root, "micro_batches", 0, UINT32_MAX);
    if (!request->micro_batches)
        request->micro_batches = (uint32_t)micro_batches;
    struct json place = json_object(root, "certificate");
    const size_t objective = json_choice(&place, "objective", bottleneck_objectives);
    if (objective != (size_t)request->model)
        json_refuse_key(&place, "objective", "is of model %s, and %s was asked for", bottleneck_names[objective],
                        bottleneck_names[request->model]);
    struct certificate certificate;
    certificate_read(root, &certificate);
    json_end(root);
}

static void read_stages(struct reader *reader, struct json *root)
{
    struct json list = json_array(root, "stages"), item;
    for (uint32_t s = 0; s < reader->result->stage_count && json_next(&list, &item); s++)
        read_stage(reader, &item, s);
    for (size_t i = 0; i < reader->profile->layer_count; i++)
        if (reader->stage_of[i] == UINT32_MAX)
            json_refuse(&list, "layer \"%s\" is in no stage", reader->profile->layers[i].name);
}

static struct bottleneck_result *read_document(struct bottleneck_request *request, struct json_document *document,
                                               struct error *error)
{
    struct json root = json_root(document);
    json_format(&root, "weir.loads");
    struct json stages = json_array(&root, "stages");
    const size_t layers = request->profile->layer_count, count = json_count(&stages);
    if (stages.node && (count == 0 || count > layers))
        json_refuse(&stages, "holds %zu stages, for %zu layers", count, layers);
    if (!json_ok(document, error))
        return NULL;
    struct arrays arrays = { 0 };
    struct reader reader = { .profile = request->profile,
                             .result = bottleneck_create(request, count, error),
                             .stage_of = arrays_add(&arrays, layers, sizeof reader.stage_of[0]),
                             .met = arrays_add(&arrays, layers, sizeof reader.met[0]) };
    bool good = reader.result && !arrays.failed;
    if (good) {
        memset(reader.stage_of, 0xff, layers * sizeof reader.stage_of[0]);
        read_stages(&reader, &root);
        read_rest(request, &root);
        good = json_ok(document, error);
    } else {
        error_no_memory(error, "the stages of a plan");
    }
    if (good)
        bottleneck_place(reader.result, reader.stage_of);
    arrays_clear(&arrays);
    if (good)
        return reader.result;
    bottleneck_free(reader.result);
    return NULL;
}

// Reads a plan, or the part of one that was written by hand. The very same documents are priced by time elsewhere.
static struct bottleneck_result *read_plan(struct bottleneck_request *request, const char *text, size_t length,
                                           const char *name, struct error *error)
{
    struct handmade *handmade = handmade_read(text, length, name, error);
    struct plan *made = handmade && !handmade->whole
                          ? handmade_stages(handmade, request->profile, request->cluster, error) : NULL;
    const struct plan *plan = made ? made : handmade ? handmade->whole : NULL;
    struct bottleneck_result *result = plan ? bottleneck_of_plan(request, plan, error) : NULL;
    if (handmade && !result)
        error_name(error, "%s", name);
    if (result && !request->micro_batches)
        request->micro_batches = handmade->micro_batches;
    plan_free(made);
    handmade_free(handmade);
    return result;
}

struct bottleneck_result *loads_read(struct bottleneck_request *request, const char *text, size_t length,
                                     const char *name, struct error *error)
{
    struct json_document *document = json_parse(text, length, name, error);
    if (!document)
        return NULL;
    struct json root = json_root(document);
    const bool is_loads = json_has(&root, "format") && strcmp(json_string(&root, "format"), "weir.loads") == 0;
    struct bottleneck_result *result = is_loads ? read_document(request, document, error) : NULL;
    json_free(document);
    return is_loads ? result : read_plan(request, text, length, name, error);
}

struct bottleneck_result *loads_load(struct bottleneck_request *request, const char *path, struct error *error)
{
    size_t length;
    char *text = text_load(path, &length, error);
    if (!text)
        return NULL;
    struct bottleneck_result *result =
        loads_read(request, text, length, strcmp(path, "-") == 0 ? "standard input" : path, error);
    free(text);
    return result;
}
