// Reads the plan document: docs/formats/plan.md.
//
// Refuses what can be seen to be wrong from the document alone. evaluate.h checks whether its numbers are those of a
// profile.
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "partitioner/plan/plan_words.h"
#include "profiler/import.h"
#include "schedules/cost_row.h"
#include "schedules/generators/given_order.h"

// A plan while it is being read. The document remembers errors (common/json.h), so that reading goes straight
// through; a lack of memory is remembered here.
struct reading {
    struct json_document *document;
    struct plan *plan;
    bool lacks_memory;
};

static bool is_good(const struct reading *reading)
{
    return !reading->lacks_memory && json_ok(reading->document, &(struct error){ 0 });
}

static void *room_for(struct reading *reading, size_t count, size_t size)
{
    void *room = calloc(count + 1, size);
    reading->lacks_memory |= !room;
    return room;
}

static char *copy_of(struct reading *reading, const char *string)
{
    char *copy = strdup(string);
    reading->lacks_memory |= !copy;
    return copy;
}

static void read_memory(const struct reading *reading, struct json *object, struct stage_memory *memory)
{
    struct json place = json_object(object, "memory");
    for (size_t i = 0; i < plan_memory_field_count(reading->plan); i++) {
        const struct plan_field *field = &plan_memory_fields[i];
        *(uint64_t *)((char *)memory + field->offset) = json_u64(&place, field->key, 0, JSON_MAX);
    }
    json_end(&place);
}

static void read_layers(struct reading *reading, struct json *object, uint32_t end, struct plan_stage *stage)
{
    struct json names = json_array(object, "layers"), name;
    const size_t count = json_count(&names);
    if (names.node && count != end - stage->first)
        json_refuse(&names, "holds %zu names, but the stage is layers %u to %u", count, stage->first, end);
    if (!is_good(reading))
        return;
    stage->layers = room_for(reading, count, sizeof stage->layers[0]);
    stage->end = end;
    for (size_t i = 0; stage->layers && json_next(&names, &name); i++)
        stage->layers[i] = copy_of(reading, json_item_string(&name));
}

// Names of the stage's own layers.
static void read_pinned(struct reading *reading, struct json *object, struct plan_stage *stage)
{
    const uint32_t layers = stage->end - stage->first;
    struct json item;
    if (!is_good(reading) || !json_has(object, "pinned"))
        return;
    struct json names = json_array(object, "pinned");
    if (names.node && json_count(&names) == 0)
        json_refuse(&names, "is empty; leave it out");
    stage->pinned = room_for(reading, layers, sizeof stage->pinned[0]);
    while (stage->pinned && json_next(&names, &item)) {
        const char *name = json_item_string(&item);
        uint32_t i = 0;
        while (i < layers && strcmp(stage->layers[i], name) != 0)
            i++;
        if (i == layers)
            json_refuse(&item, "\"%.60s\" is no layer of the stage", name);
        else
            stage->pinned[i] = true;
    }
}

// The devices of one replica. All replicas of a stage have as many.
static void read_group(struct reading *reading, struct json *group, struct plan_stage *stage)
{
    struct json device;
    json_item_array(group);
    const size_t count = json_count(group), before = plan_stage_seats(stage);
    if (group->node && (count == 0 || (before > 0 && count != stage->group)))
        json_refuse(group, "holds %zu devices, but each replica of a stage is on as many as the first", count);
    uint32_t *devices = is_good(reading) ? realloc(stage->devices, (before + count) * sizeof devices[0]) : NULL;
    reading->lacks_memory |= is_good(reading) && !devices;
    if (!devices)
        return;
    stage->devices = devices;
    for (size_t i = before; json_next(group, &device); i++) {
        const uint64_t number = json_item_u64(&device, 0, JSON_MAX);
        if (number >= reading->plan->cluster->device_count)
            json_refuse(&device, "device %llu is not in the cluster (0 to %zu)", (unsigned long long)number,
                        reading->plan->cluster->device_count - 1);
        devices[i] = (uint32_t)number;
    }
    stage->group = (uint32_t)count;
    stage->device_count++;
}

static void read_devices(struct reading *reading, struct json *object, struct plan_stage *stage)
{
    struct json replicas = json_array(object, "devices"), group;
    if (replicas.node && json_count(&replicas) == 0)
        json_refuse(&replicas, "is empty, but a stage is on some device");
    while (is_good(reading) && json_next(&replicas, &group))
        read_group(reading, &group, stage);
}

static void read_variant(struct reading *reading, struct json *object, struct plan_stage *stage)
{
    if (!json_has(object, "variant") || json_null(object, "variant"))
        return;
    stage->variant = copy_of(reading, json_string(object, "variant"));
}

// A segment is named by its layers. They must follow each other, and the segment before.
static void read_segment(struct json *names, const struct plan_stage *stage, uint32_t from, struct segment *segment)
{
    struct json name;
    json_item_array(names);
    *segment = (struct segment){ from, from };
    if (names->node && json_count(names) == 0)
        json_refuse(names, "is empty");
    while (json_next(names, &name)) {
        const char *wanted = json_item_string(&name);
        uint32_t layer = segment->end;
        while (segment->first == segment->end && layer < stage->end
               && strcmp(stage->layers[layer - stage->first], wanted) != 0)
            layer++;
        if (layer >= stage->end || strcmp(stage->layers[layer - stage->first], wanted) != 0) {
            json_refuse(&name, "layer \"%.60s\" does not follow what is named before it in this stage", wanted);
            return;
        }
        if (segment->first == segment->end)
            segment->first = layer;
        segment->end = layer + 1;
    }
}

bool plan_read_segments(struct json *segments, struct plan_stage *stage)
{
    struct json names;
    free(stage->recompute);
    stage->recompute = calloc(json_count(segments) + 1, sizeof stage->recompute[0]);
    stage->recompute_count = 0;
    for (uint32_t from = stage->first; stage->recompute && json_next(segments, &names);) {
        struct segment *segment = &stage->recompute[stage->recompute_count++];
        read_segment(&names, stage, from, segment);
        from = segment->end;
    }
    return stage->recompute != NULL;
}

// The memory of the stage's device that has least.
static uint64_t least_memory(const struct plan *plan, const struct plan_stage *stage)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < plan_stage_seats(stage); i++) {
        const uint64_t bytes = plan->cluster->devices[stage->devices[i]].memory_bytes;
        least = bytes < least ? bytes : least;
    }
    return least;
}

// Checks that the bytes of a stage agree with each other and with its devices.
static void check_memory(struct json *object, const struct plan *plan, const struct plan_stage *stage)
{
    const struct stage_memory *memory = &stage->memory;
    const uint64_t fixed =
        add_clamped(memory->weights_bytes, add_clamped(memory->gradients_bytes, memory->optimizer_bytes));
    const uint64_t moving = add_clamped(add_clamped(memory->versions_bytes, memory->kept_bytes),
                                        add_clamped(memory->transient_bytes, memory->buffers_bytes));
    const uint64_t device = least_memory(plan, stage);
    if (stage->costs.fixed_bytes != fixed)
        json_refuse_key(object, "costs", "fixed_bytes is %llu, but weights, gradients and optimizer take %llu",
                        (unsigned long long)stage->costs.fixed_bytes, (unsigned long long)fixed);
    else if (memory->peak_bytes != add_clamped(fixed, moving))
        json_refuse_key(object, "memory", "peak_bytes is %llu, but its parts add up to %llu",
                        (unsigned long long)memory->peak_bytes, (unsigned long long)add_clamped(fixed, moving));
    else if (memory->capacity_bytes != device)
        json_refuse_key(object, "memory", "capacity_bytes is %llu, but device %u has %llu",
                        (unsigned long long)memory->capacity_bytes, stage->devices[0], (unsigned long long)device);
}

static void read_stage(struct reading *reading, struct json *object, size_t number)
{
    struct plan *plan = reading->plan;
    struct plan_stage *stage = &plan->stages[number];
    json_item_object(object);
    const uint64_t said = json_u64(object, "stage", 0, JSON_MAX);
    if (said != number)
        json_refuse_key(object, "stage", "is %llu, but stages stand in order, and this is number %zu",
                        (unsigned long long)said, number);
    const uint32_t first = number > 0 ? plan->stages[number - 1].end : 0;
    stage->first = stage->end = (uint32_t)json_u64(object, "first", 0, PROFILE_MOST_LAYERS);
    if (stage->first != first)
        json_refuse_key(object, "first", "is %u, but the stage before ends at layer %u", stage->first, first);
    const uint32_t end = (uint32_t)json_u64(object, "end", 0, PROFILE_MOST_LAYERS);
    if (end < stage->first)
        json_refuse_key(object, "end", "is %u, before the first layer, %u", end, stage->first);
    read_layers(reading, object, end, stage);
    read_pinned(reading, object, stage);
    read_devices(reading, object, stage);
    read_variant(reading, object, stage);
    struct json segments = json_array(object, "recompute");
    if (is_good(reading))
        reading->lacks_memory |= !plan_read_segments(&segments, stage);
    if (!is_good(reading))
        return;
    struct json costs = json_object(object, "costs");
    cost_row_read(&costs, &stage->costs);
    json_end(&costs);
    read_memory(reading, object, &stage->memory);
    check_memory(object, plan, stage);
    json_end(object);
}

// If the plan's order was given, the document has the order itself.
static void read_given(struct reading *reading, struct json *place)
{
    struct error why = { 0 };
    struct plan *plan = reading->plan;
    if (!json_has(place, "actions"))
        return;
    plan->given = schedule_read_order(place, &why);
    if (!plan->given && why.kind != ERROR_MACHINE)
        json_refuse(place, "%s", why.text);
    else if (plan->given && !given_order_check(plan->given, &why) && why.kind != ERROR_MACHINE)
        json_refuse_key(place, "actions", "%s", why.text);
    reading->lacks_memory |= why.kind == ERROR_MACHINE;
}

// The name must be that of a generator, or of an order that the document has. Weights and chunks must be those of
// its schedules.
static void read_schedule(struct reading *reading, struct json *root)
{
    struct plan *plan = reading->plan;
    struct json place = json_object(root, "schedule");
    json_string_into(&place, "name", plan->schedule, sizeof plan->schedule);
    plan->weights = (enum weights)json_choice(&place, "weights", weights_names);
    plan->ranks = (uint32_t)json_u64(&place, "ranks", 1, SCHEDULE_MOST_RANKS);
    plan->chunks = (uint32_t)json_u64(&place, "chunks", 1, SCHEDULE_MOST_RANKS);
    plan->micro_batches = (uint32_t)json_u64(&place, "micro_batches", 1, UINT32_MAX / 4);
    read_given(reading, &place);
    struct error why = { 0 };
    struct generator generator;
    if (!json_ok(root->document, &why) || !plan_generator(plan, &generator, &why))
        json_refuse_key(&place, "name", "%s", why.text);  // the first refusal wins
    else if (generator.weights != plan->weights)
        json_refuse_key(&place, "weights", "is \"%s\", but %s is a schedule of \"%s\"", weights_names[plan->weights],
                        plan->schedule, weights_names[generator.weights]);
    else if (plan->given && generator.usual_chunks != plan->chunks)
        json_refuse_key(&place, "chunks", "is %u, but %u stages on %u ranks are %u each", plan->chunks,
                        plan->given->stages, plan->ranks, generator.usual_chunks);
    json_end(&place);
}

// False, with an error, if the cluster cannot be read.
static bool read_head(struct reading *reading, struct json *root, struct error *error)
{
    struct plan *plan = reading->plan;
    struct json profile = json_object(root, "profile");
    plan->model = copy_of(reading, json_string(&profile, "model"));
    json_string_into(&profile, "hash", plan->profile_hash, sizeof plan->profile_hash);
    json_end(&profile);
    struct json cluster = json_object(root, "cluster");
    if (!is_good(reading))
        return true;
    plan->cluster = cluster_read_part(&cluster, error);
    if (!plan->cluster)
        return false;
    json_end(&cluster);
    read_schedule(reading, root);
    storage_read(root, &plan->storage);
    storage_meet_schedule(&plan->storage, plan->weights, plan->given, plan->micro_batches);
    if (json_has(root, "for"))
        plan->target = (enum plan_target)json_choice(root, "for", plan_target_names);
    return true;
}

static void read_predicted(struct json *root, struct plan *plan)
{
    struct json predicted = json_object(root, "predicted");
    plan->iteration_ns = json_u64(&predicted, "iteration_ns", 0, JSON_MAX);
    struct json bubble = json_object(&predicted, "bubble");
    plan->bubble.makespan = json_fraction(&bubble, "makespan");
    plan->bubble.overhead = json_fraction(&bubble, "overhead");
    plan->bubble.span = json_fraction(&bubble, "span");
    plan->bubble.zb_rate = json_fraction(&bubble, "zb_rate");
    json_end(&bubble);
    plan->bottleneck_stage = (uint32_t)json_u64(&predicted, "bottleneck_stage", 0, plan->stage_count - 1);
    json_end(&predicted);
}

void certificate_read(struct json *root, struct certificate *certificate)
{
    struct json place = json_object(root, "certificate");
    json_string_into(&place, "objective", certificate->objective, sizeof certificate->objective);
    certificate->value_ns = json_u64(&place, "value_ns", 0, JSON_MAX);
    certificate->lower_bound_ns = json_u64(&place, "lower_bound_ns", 0, JSON_MAX);
    certificate->gap = json_fraction(&place, "gap");
    certificate->proved = json_bool(&place, "proved");
    certificate->by = (enum certificate_by)json_choice(&place, "by", plan_by_names);
    json_string_into(&place, "stopped", certificate->stopped, sizeof certificate->stopped);
    certificate->is_claimed = true;
    char why[160];
    const char *denied = certificate_denied(certificate, why);
    if (denied)
        json_refuse_key(&place, denied, "%s", why);
    json_end(&place);
}

// There must be as many devices, or groups of them, as ranks. Which of them holds which stage is decided by the
// schedule; plan_schedule() compares the two.
static void check_devices(struct reading *reading, struct json *stages)
{
    const struct plan *plan = reading->plan;
    bool *is_used = room_for(reading, plan->cluster->device_count, sizeof is_used[0]);
    size_t used = 0, groups = 0, seats = 0;
    for (size_t s = 0; is_used && s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        for (size_t i = 0; i < plan_stage_seats(stage); i++) {
            const bool is_new = !is_used[stage->devices[i]], is_first = i % plan_stage_group(stage) == 0;
            used += is_new;
            groups += is_new && is_first;
            seats += is_new && is_first ? plan_stage_group(stage) : 0;
            is_used[stage->devices[i]] = true;
        }
    }
    free(is_used);
    if (groups != plan->ranks || used != seats)
        json_refuse(stages, "are on %zu devices, but there are %u ranks", used, plan->ranks);
}

static void read_stages(struct reading *reading, struct json *root)
{
    struct plan *plan = reading->plan;
    struct json stages = json_array(root, "stages"), item;
    const size_t count = json_count(&stages);
    // Copies and replicas make fewer stages than ranks times chunks, never more.
    if (stages.node && (count == 0 || count > (uint64_t)plan->ranks * plan->chunks))
        json_refuse(&stages, "holds %zu stages, not 1 to ranks times chunks, %llu", count,
                    (unsigned long long)plan->ranks * plan->chunks);
    plan->stages = is_good(reading) ? room_for(reading, count, sizeof plan->stages[0]) : NULL;
    plan->stage_count = plan->stages ? count : 0;
    for (size_t i = 0; is_good(reading) && json_next(&stages, &item); i++)
        read_stage(reading, &item, i);
    if (is_good(reading))
        check_devices(reading, &stages);
}

// The order has every layer of the stages once. evaluate.h checks whether each layer comes after all it reads.
static void read_order(struct reading *reading, struct json *root)
{
    struct plan *plan = reading->plan;
    if (!is_good(reading) || !json_has(root, "order"))
        return;
    struct json order = json_array(root, "order"), item;
    const size_t count = json_count(&order), held = plan->stages[plan->stage_count - 1].end;
    if (order.node && (count == 0 || count != held))
        json_refuse(&order, "holds %zu layers, but the stages hold %zu", count, held);
    if (!is_good(reading))
        return;
    plan->order = room_for(reading, count, sizeof plan->order[0]);
    bool *seen = room_for(reading, count, sizeof seen[0]);
    for (size_t i = 0; is_good(reading) && json_next(&order, &item); i++) {
        plan->order[i] = (uint32_t)json_item_u64(&item, 0, count - 1);
        if (seen[plan->order[i]])
            json_refuse(&item, "layer %u is there twice", plan->order[i]);
        seen[plan->order[i]] = true;
    }
    free(seen);
}

static bool read_plan(struct reading *reading, struct error *error)
{
    struct json root = json_root(reading->document);
    json_format(&root, "weir.plan");
    if (is_good(reading) && !read_head(reading, &root, error))
        return false;
    if (is_good(reading))
        read_stages(reading, &root);
    read_order(reading, &root);
    if (is_good(reading)) {
        read_predicted(&root, reading->plan);
        certificate_read(&root, &reading->plan->certificate);
        if (json_has(&root, "notes"))
            reading->plan->notes = copy_of(reading, json_string(&root, "notes"));
        json_end(&root);
    }
    return reading->lacks_memory ? error_no_memory(error, "a plan") : json_ok(reading->document, error);
}

struct plan *plan_load(const char *path, struct error *error)
{
    size_t length;
    char *text = text_load(path, &length, error);
    if (!text)
        return NULL;
    struct plan *plan = plan_read(text, length, strcmp(path, "-") == 0 ? "standard input" : path, error);
    free(text);
    return plan;
}

struct plan *plan_read(const char *text, size_t length, const char *name, struct error *error)
{
    struct reading reading = { .document = json_parse(text, length, name, error) };
    if (reading.document && !(reading.plan = calloc(1, sizeof *reading.plan)))
        error_no_memory(error, "a plan");
    if (reading.plan && !read_plan(&reading, error)) {
        plan_free(reading.plan);
        reading.plan = NULL;
    }
    json_free(reading.document);
    if (!reading.plan)
        import_hint(text, length, name, error);
    return reading.plan;
}

struct plan *plan_copy(const struct plan *plan, struct error *error)
{
    struct text text = { 0 };
    plan_write(plan, &text);
    struct plan *copy = text_ok(&text, "a plan", error) ? plan_read(text.data, text.length, "the plan", error) : NULL;
    text_clear(&text);
    if (copy)
        copy->certificate.is_claimed = plan->certificate.is_claimed;
    return copy;
}
