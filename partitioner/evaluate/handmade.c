#include "partitioner/evaluate/handmade.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/search/search_request.h"

#define MOST_COUNT (1 << 20)

// --- the head ---------------------------------------------------------------------------

static void read_schedule(struct json *root, struct handmade *handmade)
{
    struct json place = json_object(root, "schedule");
    json_string_into(&place, "name", handmade->schedule, sizeof handmade->schedule);
    if (json_has(&place, "weights"))
        json_string(&place, "weights");
    if (json_has(&place, "ranks"))
        handmade->ranks = (uint32_t)json_u64(&place, "ranks", 1, ASKED_MOST_RANKS);
    if (json_has(&place, "chunks"))
        handmade->chunks = (uint32_t)json_u64(&place, "chunks", 1, ASKED_MOST_CHUNKS);
    if (json_has(&place, "micro_batches"))
        handmade->micro_batches = (uint32_t)json_u64(&place, "micro_batches", 1, ASKED_MOST_MICRO_BATCHES);
    json_end(&place);
}

static bool read_head(struct handmade *handmade, struct error *error)
{
    struct json root = json_root(handmade->document);
    if (json_has(&root, "format"))
        json_format(&root, "weir.plan");
    if (json_has(&root, "schedule"))
        read_schedule(&root, handmade);
    if (json_has(&root, "optimizer")) {
        handmade->has_storage = true;
        storage_read(&root, &handmade->storage);
    }
    if (json_has(&root, "cluster")) {
        struct json place = json_object(&root, "cluster");
        handmade->cluster = json_ok(handmade->document, error) ? cluster_read_part(&place, error) : NULL;
        if (!handmade->cluster)
            return false;
    }
    if (json_has(&root, "order"))
        json_refuse_key(&root, "order", "a plan made by hand has its layers in the order of the profile");
    static const char *const others[] = { "profile", "stages", "predicted", "certificate", "notes" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        json_has(&root, others[i]);
    json_end(&root);
    return json_ok(handmade->document, error);
}

// A whole plan says everything, and is read as a plan.
static void take_whole(struct handmade *handmade, struct plan *whole)
{
    handmade->whole = whole;
    snprintf(handmade->schedule, sizeof handmade->schedule, "%s", whole->schedule);
    handmade->ranks = whole->ranks;
    handmade->chunks = whole->chunks;
    handmade->micro_batches = whole->micro_batches;
    handmade->has_storage = true;
    handmade->storage = whole->storage;
    handmade->cluster = whole->cluster;
}

struct handmade *handmade_read(const char *text, size_t length, const char *name, struct error *error)
{
    struct handmade *handmade = calloc(1, sizeof *handmade);
    if (!handmade)
        return error_null(error_no_memory(error, "a plan"));
    handmade->document = json_parse(text, length, name, error);
    struct error why = { 0 };
    struct plan *whole = handmade->document ? plan_read(text, length, name, &why) : NULL;
    bool good = handmade->document && (whole || why.kind != ERROR_MACHINE || error_no_memory(error, "a plan"));
    if (whole)
        take_whole(handmade, whole);
    else
        good = good && read_head(handmade, error);
    if (good)
        return handmade;
    handmade_free(handmade);
    return NULL;
}

struct handmade *handmade_load(const char *path, struct error *error)
{
    size_t length;
    char *text = text_load(path, &length, error);
    struct handmade *handmade = text ? handmade_read(text, length, path, error) : NULL;
    free(text);
    return handmade;
}

void handmade_free(struct handmade *handmade)
{
    if (!handmade)
        return;
    if (!handmade->whole)
        cluster_free(handmade->cluster);
    plan_free(handmade->whole);
    json_free(handmade->document);
    free(handmade);
}

// --- layers -----------------------------------------------------------------------------

struct making {
    const struct search_request *request;
    const struct profile *profile;
    struct plan *plan;
    uint32_t next;      // the first layer that is on no stage yet
    bool has_devices;   // whether stage 0 names its devices
};

// Says what is wrong with this layer. The stages before `stage`, and [first, next) of it, hold the layers up to
// `next`.
static void refuse_layer(const struct making *making, size_t stage, uint32_t first, struct json *item, const char *name)
{
    const struct profile *profile = making->profile;
    const uint32_t found = profile_find_layer(profile, name);
    if (found == profile->layer_count)
        json_refuse(item, "the profile has no layer \"%.60s\"", name);
    else if (found >= first && found < making->next)
        json_refuse(item, "layer \"%.60s\" is on this stage already", name);
    else if (found < making->next) {
        size_t other = 0;
        while (other < stage && found >= making->plan->stages[other].end)
            other++;
        json_refuse(item, "layer \"%.60s\" is on stage %zu already", name, other);
    } else
        json_refuse(item, "layer \"%.60s\" comes after \"%.60s\" in the profile, which is on no stage yet", name,
                    profile->layers[making->next].name);
}

static void read_names(struct making *making, size_t stage, struct json *names)
{
    const uint32_t first = making->next;
    struct json item;
    while (json_next(names, &item)) {
        const char *name = json_item_string(&item);
        const bool is_next = making->next < making->profile->layer_count
                          && strcmp(making->profile->layers[making->next].name, name) == 0;
        if (is_next)
            making->next++;
        else
            refuse_layer(making, stage, first, &item, name);
    }
}

static void take_count(struct making *making, struct json *place)
{
    const uint64_t count = json_item_u64(place, 0, MOST_COUNT), left = making->profile->layer_count - making->next;
    if (count > left)
        json_refuse(place, "%llu layers, but only %llu are left of the profile's %zu", (unsigned long long)count,
                    (unsigned long long)left, making->profile->layer_count);
    else
        making->next += (uint32_t)count;
}

// --- recomputation ----------------------------------------------------------------------

// Reads segments, each the names of its layers; or how many layers at the front of the stage are run again, each as
// a segment of its own.
static bool read_recompute(struct json *place, struct plan_stage *stage, struct error *error)
{
    if (json_kind(place) == JSON_ARRAY)
        return plan_read_segments(place, stage) ? json_ok(place->document, error)
                                                : error_no_memory(error, "a stage of a plan");
    const uint32_t layers = stage->end - stage->first, count = (uint32_t)json_item_u64(place, 0, MOST_COUNT);
    if (count > layers)
        json_refuse(place, "%u layers are to be run again, but the stage has %u", count, layers);
    if (!json_ok(place->document, error))
        return false;
    free(stage->recompute);
    stage->recompute = calloc(count + 1, sizeof stage->recompute[0]);
    stage->recompute_count = stage->recompute ? count : 0;
    for (uint32_t i = 0; i < stage->recompute_count; i++)
        stage->recompute[i] = (struct segment){ stage->first + i, stage->first + i + 1 };
    return stage->recompute || error_no_memory(error, "a stage of a plan");
}

// --- devices ----------------------------------------------------------------------------

// Reads [0, 1], or [[0], [1]] as plans are written.
static bool read_devices(struct making *making, size_t stage, struct json *place, struct error *error)
{
    const size_t most = making->request->cluster->device_count;
    uint32_t *devices = calloc(most + 1, sizeof devices[0]);
    struct json item, inner;
    size_t count = 0;
    if (!devices)
        return error_no_memory(error, "a plan");
    if (json_kind(place) == JSON_ARRAY && json_count(place) == 0)
        json_refuse(place, "is empty, but a stage is on some device");
    while (json_next(place, &item)) {
        const bool is_group = json_kind(&item) == JSON_ARRAY;
        if (is_group && json_count(&item) != 1)
            json_refuse(&item, "holds %zu devices; a group has one", json_count(&item));
        if (is_group && !json_next(&item, &inner))
            continue;
        struct json *number = is_group ? &inner : &item;
        const uint64_t device = json_item_u64(number, 0, MOST_COUNT);
        if (device >= most)
            json_refuse(number, "device %llu is not in the cluster (0 to %zu)", (unsigned long long)device, most - 1);
        else if (count < most)
            devices[count++] = (uint32_t)device;
        else
            json_refuse(place, "holds more devices than the cluster");
    }
    const bool good = json_ok(place->document, error) && plan_set_devices(making->plan, stage, devices, count, error);
    free(devices);
    return good;
}

// The schedule says which ranks hold which stages. Rank r is device r, or the device that the request names for it.
static bool give_devices(struct making *making, struct error *error)
{
    const struct search_request *request = making->request;
    const size_t stages = making->plan->stage_count;
    if (request->layout.replicas && request->layout.stages != stages)
        return error_named(error, "--replicas: has %u numbers, but there are %zu stages", request->layout.stages,
                           stages);
    struct schedule *order = search_order(request, request->micro_batches, error);
    if (order && order->stages != stages)
        error_set(error, "there are %zu stages, but %s has %u on %u ranks", stages, request->schedule, order->stages,
                  request->ranks);
    struct placement *placement = order && order->stages == stages ? placement_read(order, error) : NULL;
    bool good = placement != NULL;
    for (uint32_t c = 0; good && request->layout.devices && c < placement->copy_at[placement->stages]; c++)
        placement->copies[c] = request->layout.devices[placement->copies[c]];
    for (uint32_t s = 0; good && s < placement->stages; s++)
        good = plan_set_devices(making->plan, s, &placement->copies[placement->copy_at[s]],
                                placement_copies(placement, s), error);
    placement_free(placement);
    schedule_free(order);
    return good;
}

// --- the whole --------------------------------------------------------------------------

// Refuses stages that leave layers out: none is dropped in silence.
static bool all_layers_are_placed(const struct making *making, struct error *error)
{
    const struct profile *profile = making->profile;
    const size_t left = profile->layer_count - making->next;
    if (left == 0)
        return true;
    return error_set(error, "%zu of the profile's %zu layers %s on no stage, \"%.60s\" %s", left,
                     profile->layer_count, left == 1 ? "is" : "are", profile->layers[making->next].name,
                     left == 1 ? "alone" : "first");
}

// A plan may only cut where the profile allows it.
static bool cuts_are_allowed(const struct making *making, struct error *error)
{
    const struct profile *profile = making->profile;
    for (size_t s = 0; s + 1 < making->plan->stage_count; s++) {
        const uint32_t end = making->plan->stages[s].end;
        if (end > 0 && end < profile->layer_count && !profile_can_cut_after(profile, end - 1))
            return error_set(error, "stage %zu ends after layer \"%.60s\", where the profile forbids a cut"
                             " (no_cut_after)", s, profile->layers[end - 1].name);
        for (size_t i = 0; i < profile->tied_count && !making->request->storage.tied_apart; i++)
            if (profile->tied[i].from < end && end <= profile->tied[i].to)
                return error_set(error,
                                 "stage %zu ends between the layers \"%.60s\" and \"%.60s\", which are tied: without"
                                 " --tied apart they must be on one stage",
                                 s, profile->layers[profile->tied[i].from].name,
                                 profile->layers[profile->tied[i].to].name);
    }
    return true;
}

static bool begin(struct making *making, size_t stages, const struct search_request *request, struct error *error)
{
    *making = (struct making){ .request = request, .profile = request->profile };
    if (!search_check(request, error))
        return false;
    making->plan = search_begin_plan(request, stages, error);
    if (making->plan && !making->plan->chunks)
        making->plan->chunks = search_generator(request)->usual_chunks;
    return making->plan != NULL;
}

static struct plan *end(struct making *making, bool good, struct error *error)
{
    good = good && cuts_are_allowed(making, error) && (making->has_devices || give_devices(making, error))
        && plan_price(making->plan, making->profile, error) && plan_take_pins(making->plan, making->request, error);
    if (good)
        return making->plan;
    plan_free(making->plan);
    return NULL;
}

// Reads the names of the stage's layers, or how many there are; and which of them are run again (NULL: none).
static bool read_decision(struct making *making, size_t s, struct json *layers, struct json *recompute,
                          struct error *error)
{
    const uint32_t first = making->next;
    if (json_kind(layers) == JSON_ARRAY)
        read_names(making, s, layers);
    else
        take_count(making, layers);
    return json_ok(layers->document, error)
        && plan_set_stage(making->plan, s, making->profile, (struct segment){ first, making->next }, 0, NULL, 0, error)
        && (!recompute || read_recompute(recompute, &making->plan->stages[s], error));
}

// The numbers are compared later.
static bool read_stage(struct making *making, size_t s, const struct json *object, struct error *error)
{
    static const char *const known[] = { "stage", "first", "end", "layers", "costs", "memory", "recompute", "devices" };
    struct json place = *object, layers, recompute, devices;
    json_item_object(&place);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        json_has(&place, known[i]);
    if (json_has(&place, "variant") && !json_null(&place, "variant"))
        json_refuse_key(&place, "variant", "is not null; a plan made by hand has no variants");
    json_end(&place);
    if (!json_find(object, "layers", &layers))
        json_refuse_key(object, "layers", "is missing: the names of the stage's layers, or how many there are");
    const bool has_devices = json_find(object, "devices", &devices);
    if (s == 0)
        making->has_devices = has_devices;
    else if (making->has_devices != has_devices)
        json_refuse(object, "%s devices of its own, unlike stage 0", has_devices ? "has" : "has no");
    return json_ok(object->document, error)
        && read_decision(making, s, &layers, json_find(object, "recompute", &recompute) ? &recompute : NULL, error)
        && (!has_devices || read_devices(making, s, &devices, error));
}

static bool read_stages(struct making *making, struct json *stages, struct error *error)
{
    struct json item;
    for (size_t s = 0; json_next(stages, &item); s++)
        if (!read_stage(making, s, &item, error))
            return false;
    return all_layers_are_placed(making, error) || error_at(error, "stages");
}

// How many stages the document has; 0 with an error.
static size_t count_stages(struct json *stages, struct error *error)
{
    const size_t count = json_count(stages);
    if (stages->node && (count == 0 || count > MOST_COUNT))
        json_refuse(stages, "holds %zu stages", count);
    return json_ok(stages->document, error) ? count : 0;
}

struct plan *handmade_plan(struct handmade *handmade, const struct search_request *request, struct error *error)
{
    if (handmade->whole)
        return plan_reprice(handmade->whole, request, error);
    struct json root = json_root(handmade->document), stages = json_array(&root, "stages");
    const size_t count = count_stages(&stages, error);
    struct making making;
    if (count == 0 || !begin(&making, count, request, error))
        return NULL;
    return end(&making, read_stages(&making, &stages, error), error);
}

struct plan *handmade_stages(struct handmade *handmade, const struct profile *profile, const struct cluster *cluster,
                             struct error *error)
{
    const struct search_request request = { .profile = profile, .cluster = cluster };
    struct json root = json_root(handmade->document), stages = json_array(&root, "stages");
    const size_t count = count_stages(&stages, error);
    struct making making = { .request = &request, .profile = profile };
    making.plan = count > 0 ? plan_create(count, error) : NULL;
    if (making.plan && read_stages(&making, &stages, error))
        return making.plan;
    plan_free(making.plan);
    return NULL;
}

// --- counts -----------------------------------------------------------------------------

struct json_document *handmade_counts(const char *text, const char *name, struct error *error)
{
    struct text whole = { 0 };
    text_add(&whole, text[strspn(text, " ")] == '[' ? "%s" : "[%s]", text);
    struct json_document *document = NULL;
    if (whole.failed)
        error_no_memory(error, name);
    else
        document = json_parse(whole.data, whole.length, name, error);
    text_clear(&whole);
    return document;
}

static bool read_counts(struct making *making, struct json *cuts, struct json *recompute, struct error *error)
{
    struct json layers, again;
    for (size_t s = 0; json_next(cuts, &layers); s++)
        if (!read_decision(making, s, &layers, recompute && json_next(recompute, &again) ? &again : NULL, error))
            return false;
    return all_layers_are_placed(making, error) || error_name(error, "--cuts");
}

static struct plan *make_counted(struct json_document *cuts, struct json_document *recompute,
                                 const struct search_request *request, struct error *error)
{
    struct json stages = json_root(cuts), again = { 0 };
    json_item_array(&stages);
    const size_t count = json_count(&stages);
    if (count == 0)
        json_refuse(&stages, "how many layers each stage has, such as [9,9,9,10]");
    if (recompute) {
        again = json_root(recompute);
        json_item_array(&again);
        if (json_count(&again) != count)
            json_refuse(&again, "has %zu numbers, but there are %zu stages", json_count(&again), count);
    }
    struct making making;
    if (!json_ok(cuts, error) || (recompute && !json_ok(recompute, error)) || !begin(&making, count, request, error))
        return NULL;
    return end(&making, read_counts(&making, &stages, recompute ? &again : NULL, error), error);
}

struct plan *handmade_count(const char *cuts, const char *recompute, const struct search_request *request,
                            struct error *error)
{
    struct json_document *stages = handmade_counts(cuts, "--cuts", error), *again = NULL;
    if (stages && recompute)
        again = handmade_counts(recompute, "--recompute", error);
    struct plan *plan = stages && (!recompute || again) ? make_counted(stages, again, request, error) : NULL;
    json_free(again);
    json_free(stages);
    return plan;
}
