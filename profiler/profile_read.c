// Reads the profile document. The range of a single number is checked where the number is read. What concerns several
// layers (repeated names, sums) is checked at the end.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/ascending.h"
#include "common/json.h"
#include "common/text.h"
#include "profiler/estimate/estimated.h"
#include "profiler/expert_routing.h"
#include "profiler/import.h"
#include "profiler/profile.h"
#include "profiler/profile_transfers.h"
#include "profiler/profile_words.h"
#include "profiler/table_reads.h"

// The state of the reader. A lack of memory is remembered, and reported once at the end.
struct reader {
    struct profile *profile;
    bool no_memory;
};

// An array of at least one item, so that NULL always means that memory ran out.
static void *zeroed(struct reader *reader, size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        reader->no_memory = true;
    return memory;
}

static char *read_text(struct reader *reader, struct json *object, const char *key)
{
    char *copy = strdup(json_string(object, key));
    if (!copy)
        reader->no_memory = true;
    return copy;
}

static char *read_name(struct reader *reader, struct json *object, const char *key)
{
    if (*json_string(object, key) == '\0')
        json_refuse_key(object, key, "is empty");
    return read_text(reader, object, key);
}

static void read_source(struct reader *reader, struct json *root)
{
    struct profile_source *source = &reader->profile->source;
    struct json object = json_object(root, "source");
    source->how = (enum profile_how)json_choice(&object, "how", profile_how_words);
    source->device = read_text(reader, &object, "device");
    source->clock = read_text(reader, &object, "clock");
    source->repeats = json_u64(&object, "repeats", 0, JSON_MAX);
    source->sum_ns = json_u64(&object, "sum_ns", 0, JSON_MAX);
    source->whole_ns = json_u64(&object, "whole_ns", 0, JSON_MAX);
    source->backward_split_measured = json_choice(&object, "backward_split", split_words) == 1;
    json_end(&object);
}

static void read_numbers(struct reader *reader, struct json *object, struct profile_layer *layer)
{
    layer->forward_ns = json_u64(object, "forward_ns", 0, JSON_MAX);
    layer->backward_input_ns = json_u64(object, "backward_input_ns", 0, JSON_MAX);
    layer->backward_weight_ns = json_u64(object, "backward_weight_ns", 0, JSON_MAX);
    layer->has_backward = json_has(object, "backward_ns");
    layer->backward_ns = layer->has_backward ? json_u64(object, "backward_ns", 0, JSON_MAX)
                                             : layer->backward_input_ns + layer->backward_weight_ns;
    layer->has_recompute = json_has(object, "recompute_ns");
    if (layer->has_recompute)
        layer->recompute_ns = json_u64(object, "recompute_ns", 0, JSON_MAX);
    layer->parameter_bytes = json_u64(object, "parameter_bytes", 0, JSON_MAX);
    if (json_has(object, "states_elsewhere_bytes"))
        layer->states_elsewhere_bytes = json_u64(object, "states_elsewhere_bytes", 0, layer->parameter_bytes);
    layer->output_bytes = json_u64(object, "output_bytes", 0, JSON_MAX);
    layer->saved_bytes = json_u64(object, "saved_bytes", 0, JSON_MAX);
    if (json_has(object, "shared_by_parts_bytes"))
        layer->shared_by_parts_bytes = json_u64(object, "shared_by_parts_bytes", 0, layer->saved_bytes);
    layer->input_kept = (enum input_kept)json_choice(object, "input_kept", input_kept_words);
    layer->held_for_weight_bytes = json_u64(object, "held_for_weight_bytes", 0, JSON_MAX);
    layer->workspace_bytes = json_u64(object, "workspace_bytes", 0, JSON_MAX);
    layer->backward_workspace_bytes = json_u64(object, "backward_workspace_bytes", 0, JSON_MAX);
    if (json_has(object, "state_bytes"))
        layer->state_bytes = json_u64(object, "state_bytes", 0, JSON_MAX);
    if (json_has(object, "statistics_bytes"))
        layer->statistics_bytes = json_u64(object, "statistics_bytes", 0, JSON_MAX);
    layer->flops = json_u64(object, "flops", 0, JSON_MAX);
    if (!profile_transfers_read(object, layer))
        reader->no_memory = true;
}

static struct spread read_phase(struct json *object, const char *key)
{
    uint64_t values[3] = { 0 };
    size_t count = 0;
    struct json list = json_array(object, key), item;
    while (json_next(&list, &item)) {
        const uint64_t value = json_item_u64(&item, 0, JSON_MAX);
        if (count < 3)
            values[count] = value;
        count++;
    }
    if (count != 3)
        json_refuse(&list, "is not [min, median, p95]");
    else if (values[0] > values[1] || values[1] > values[2])
        json_refuse(&list, "does not rise from min over median to p95");
    return (struct spread){ values[0], values[1], values[2] };
}

static void read_spread(struct json *object, struct profile_layer *layer)
{
    if (!json_has(object, "spread"))
        return;
    struct json spread = json_object(object, "spread");
    for (size_t i = 0; i < PHASES; i++) {
        layer->has_spread[i] = json_has(&spread, phase_words[i]);
        if (layer->has_spread[i])
            layer->spread[i] = read_phase(&spread, phase_words[i]);
    }
    json_end(&spread);
}

static struct shape read_shape(struct json *pair)
{
    enum { LONGEST = INT32_MAX };
    uint64_t sides[2] = { 0 };
    struct json item;
    json_item_array(pair);
    if (json_count(pair) != 2)
        json_refuse(pair, "is not [rows, columns]");
    for (size_t i = 0; i < 2 && json_next(pair, &item); i++)
        sides[i] = json_item_u64(&item, 1, LONGEST);
    return (struct shape){ sides[0], sides[1] };
}

static void read_shapes(struct reader *reader, struct json *object, struct profile_layer *layer)
{
    if (!json_has(object, "shapes"))
        return;
    struct json list = json_array(object, "shapes"), item;
    const size_t count = json_count(&list);
    layer->shapes = zeroed(reader, count, sizeof layer->shapes[0]);
    while (layer->shapes && layer->shape_count < count && json_next(&list, &item))
        layer->shapes[layer->shape_count++] = read_shape(&item);
}

// Every shape must be whole rows, of which lists of rows consist.
static void read_touched_rows(struct json *object, const struct profile *profile, struct profile_layer *layer)
{
    if (!json_has(object, "touched_rows"))
        return;
    layer->touched_rows = json_u64(object, "touched_rows", 1, UINT32_MAX);
    layer->row_bytes = json_u64(object, "row_bytes", 1, UINT32_MAX);
    if (json_has(object, "summed_rows"))
        layer->summed_rows = json_u64(object, "summed_rows", 1, UINT32_MAX);
    if (layer->shape_count == 0)
        json_refuse_key(object, "touched_rows", "is of \"shapes\", which are missing");
    for (size_t i = 0; i < layer->shape_count && layer->row_bytes > 0; i++)
        if (layer->shapes[i].rows * layer->shapes[i].columns * profile_dtype_bytes(profile->dtype) % layer->row_bytes)
            json_refuse_key(object, "row_bytes", "is %" PRIu64 ", of which shapes[%zu] has no whole number",
                            layer->row_bytes, i);
}

static void read_shares_output(struct json *object, struct profile_variant *variant)
{
    if (!json_has(object, "shares_output"))
        return;
    variant->shares_output = json_bool(object, "shares_output");
    if (variant->shares_output && variant->devices < 2)
        json_refuse_key(object, "shares_output", "is true of a variant on one device");
}

static void read_update(struct json *object, struct profile_variant *variant)
{
    if (json_has(object, "update_ns"))
        variant->update_ns = json_u64(object, "update_ns", 1, JSON_MAX);
}

static void read_experts(struct json *object, struct profile_variant *variant)
{
    if (!json_has(object, "slowest_milli"))
        return;
    variant->slowest_milli = json_u64(object, "slowest_milli", 1, UINT32_MAX);
    variant->dropped_ppm = json_u64(object, "dropped_ppm", 0, 1000000);
}

static void read_rows_of_variant(struct reader *reader, struct json *object, struct profile_layer *layer)
{
    if (!json_has(object, "touched_rows"))
        return;
    read_shapes(reader, object, layer);
    read_touched_rows(object, reader->profile, layer);
}

static void read_variants(struct reader *reader, struct json *object, struct profile_layer *layer)
{
    if (!json_has(object, "variants"))
        return;
    struct json list = json_array(object, "variants"), item;
    const size_t count = json_count(&list);
    layer->variants = zeroed(reader, count, sizeof layer->variants[0]);
    while (layer->variants && layer->variant_count < count && json_next(&list, &item)) {
        struct profile_variant *variant = &layer->variants[layer->variant_count++];
        json_item_object(&item);
        variant->layer.name = read_name(reader, &item, "name");
        read_numbers(reader, &item, &variant->layer);
        read_rows_of_variant(reader, &item, &variant->layer);
        variant->communication_ns = json_u64(&item, "communication_ns", 0, JSON_MAX);
        variant->devices = 1;
        if (json_has(&item, "devices"))
            variant->devices = (uint32_t)json_u64(&item, "devices", 1, PROFILE_MOST_DEVICES);
        read_shares_output(&item, variant);
        read_update(&item, variant);
        read_experts(&item, variant);
        json_end(&item);
    }
}

static void read_layers(struct reader *reader, struct json *root)
{
    struct profile *profile = reader->profile;
    struct json list = json_array(root, "layers"), item;
    const size_t count = json_count(&list);
    if (count == 0 || count > PROFILE_MOST_LAYERS) {
        json_refuse(&list, "holds %zu layers (1 to %d)", count, PROFILE_MOST_LAYERS);
        return;
    }
    profile->layers = zeroed(reader, count, sizeof profile->layers[0]);
    while (profile->layers && profile->layer_count < count && json_next(&list, &item)) {
        struct profile_layer *layer = &profile->layers[profile->layer_count++];
        json_item_object(&item);
        layer->name = read_name(reader, &item, "name");
        layer->kind = read_text(reader, &item, "kind");
        read_numbers(reader, &item, layer);
        read_shapes(reader, &item, layer);
        read_touched_rows(&item, profile, layer);
        read_spread(&item, layer);
        read_variants(reader, &item, layer);
        json_end(&item);
    }
}

static struct edge read_pair(const struct profile *profile, struct json *pair)
{
    uint32_t ends[2] = { 0 };
    struct json item;
    json_item_array(pair);
    if (json_count(pair) != 2) {
        json_refuse(pair, "is not a pair of layers");
        return (struct edge){ 0, 0 };
    }
    for (size_t i = 0; i < 2 && json_next(pair, &item); i++)
        ends[i] = (uint32_t)json_item_u64(&item, 0, profile->layer_count - 1);
    if (ends[0] >= ends[1])
        json_refuse(pair, "[%u, %u] does not go from a layer to a later one", ends[0], ends[1]);
    return (struct edge){ ends[0], ends[1] };
}

// Reads pairs of layers, which may be in any order, and sorts them. None may occur twice.
static struct edge *read_pairs(struct reader *reader, struct json *root, const char *key, size_t *count)
{
    struct json list = json_array(root, key), item;
    const size_t most = json_count(&list);
    struct edge *pairs = zeroed(reader, most, sizeof pairs[0]);
    while (pairs && *count < most && json_next(&list, &item))
        pairs[(*count)++] = read_pair(reader->profile, &item);
    if (!pairs)
        return NULL;

    qsort(pairs, *count, sizeof pairs[0], edges_compare);
    for (size_t i = 1; i < *count; i++)
        if (edges_compare(&pairs[i - 1], &pairs[i]) == 0)
            json_refuse(&list, "[%u, %u] is there twice", pairs[i].from, pairs[i].to);
    return pairs;
}

// A list of edges that only says "each layer feeds the next" is written as no list. A chain thus has one canonical
// form.
static void recognise_chain(struct profile *profile)
{
    profile->is_chain = profile->edge_count + 1 == profile->layer_count;
    for (uint32_t i = 0; i < profile->edge_count && profile->is_chain; i++)
        profile->is_chain = profile->edges[i].from == i && profile->edges[i].to == i + 1;
    if (profile->is_chain)
        profile->edge_count = 0;
}

static void read_no_cuts(struct reader *reader, struct json *root)
{
    struct profile *profile = reader->profile;
    struct json list = json_array(root, "no_cut_after"), item;
    const size_t most = json_count(&list);
    profile->no_cut_after = zeroed(reader, most, sizeof profile->no_cut_after[0]);
    while (profile->no_cut_after && profile->no_cut_count < most && json_next(&list, &item))
        profile->no_cut_after[profile->no_cut_count++] = (uint32_t)json_item_u64(&item, 0, profile->layer_count - 1);
    if (!profile->no_cut_after)
        return;

    qsort(profile->no_cut_after, profile->no_cut_count, sizeof profile->no_cut_after[0], ascending_u32s);
    for (size_t i = 1; i < profile->no_cut_count; i++)
        if (profile->no_cut_after[i - 1] == profile->no_cut_after[i])
            json_refuse(&list, "layer %u is there twice", profile->no_cut_after[i]);
}

// An owner of parameters must be tied to the layer that reads them.
static void read_one_owner(struct reader *reader, struct json *root)
{
    struct profile *profile = reader->profile;
    profile->one_owner = read_pairs(reader, root, "one_owner", &profile->one_owner_count);
    for (size_t i = 0; profile->one_owner && i < profile->one_owner_count; i++)
        if (profile->layers[profile->one_owner[i].from].touched_rows > 0)
            json_refuse_key(root, "one_owner", "[%u, %u] is of a layer with touched_rows, whose parameters no other"
                            " layer reads", profile->one_owner[i].from, profile->one_owner[i].to);
    for (size_t i = 0; profile->one_owner && i < profile->one_owner_count; i++)
        if (profile->tied_count == 0
            || !bsearch(&profile->one_owner[i], profile->tied, profile->tied_count, sizeof profile->tied[0],
                        edges_compare))
            json_refuse_key(root, "one_owner", "[%u, %u] is not among the tied layers", profile->one_owner[i].from,
                            profile->one_owner[i].to);
}

static void read_links(struct reader *reader, struct json *root)
{
    struct profile *profile = reader->profile;
    if (profile->layer_count == 0)
        return;
    profile->is_chain = !json_has(root, "edges");
    if (!profile->is_chain) {
        profile->edges = read_pairs(reader, root, "edges", &profile->edge_count);
        recognise_chain(profile);
    }
    if (json_has(root, "tied"))
        profile->tied = read_pairs(reader, root, "tied", &profile->tied_count);
    if (json_has(root, "one_owner"))
        read_one_owner(reader, root);
    if (json_has(root, "no_cut_after"))
        read_no_cuts(reader, root);
}

static int compare_names(const void *a, const void *b)
{
    const struct profile_layer *const *left = a, *const *right = b;
    const int order = strcmp((*left)->name, (*right)->name);
    return order ? order : (*left > *right) - (*left < *right);
}

// Plans and checkpoints address layers by name.
static void check_names(struct reader *reader, struct json *root)
{
    const struct profile *profile = reader->profile;
    const struct profile_layer **sorted = zeroed(reader, profile->layer_count, sizeof sorted[0]);
    if (!sorted)
        return;
    for (size_t i = 0; i < profile->layer_count; i++)
        sorted[i] = &profile->layers[i];
    qsort(sorted, profile->layer_count, sizeof sorted[0], compare_names);
    for (size_t i = 1; i < profile->layer_count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            json_refuse_key(root, "layers", "layers %td and %td are both called %s", sorted[i - 1] - profile->layers,
                            sorted[i] - profile->layers, sorted[i]->name);
    free(sorted);
}

static void check_sums(const struct profile *profile, struct json *root)
{
    const char *what;
    const size_t layer = profile_overflow_at(profile, &what);
    if (layer < profile->layer_count)
        json_refuse_key(root, "layers", "the %s of layers 0 to %zu add up to more than 2^53 - 1", what, layer);
}

// What parts of a sequence would leave for a state is not known.
static void check_states(const struct profile *profile, struct json *root)
{
    for (size_t l = 0; profile->sequences == SEQUENCES_SOME && l < profile->layer_count; l++)
        if (profile->layers[l].state_bytes > 0)
            json_refuse_key(root, "sequences", "is true, and layers[%zu] has state_bytes, which take whole sequences: say"
                            " false", l);
}

static void check_reads(const struct profile *profile, struct json *root)
{
    for (size_t t = 0; profile->reads && t < profile->reads->table_count; t++)
        if (profile_find_layer(profile, profile->reads->tables[t].layer) == profile->layer_count)
            json_refuse_key(root, "reads", "tables[%zu].layer is \"%.60s\", and there is no layer of that name", t,
                            profile->reads->tables[t].layer);
}

static void check_routing(const struct profile *profile, struct json *root)
{
    for (size_t l = 0; profile->routing && l < profile->routing->layer_count; l++)
        if (profile_find_layer(profile, profile->routing->layers[l].layer) == profile->layer_count)
            json_refuse_key(root, "routing", "layers[%zu].layer is \"%.60s\", and there is no layer of that name", l,
                            profile->routing->layers[l].layer);
}

static void read_root(struct reader *reader, struct json *root)
{
    struct profile *profile = reader->profile;
    json_format(root, "weir.profile");
    profile->model = read_name(reader, root, "model");
    profile->micro_batch = json_u64(root, "micro_batch", 1, JSON_MAX);
    profile->dtype = read_text(reader, root, "dtype");
    if (profile->dtype && !profile_dtype_bytes(profile->dtype))
        json_refuse_key(root, "dtype", "is \"%.40s\", not one of " PROFILE_DTYPES, profile->dtype);
    if (json_has(root, "sequences"))
        profile->sequences = json_bool(root, "sequences") ? SEQUENCES_SOME : SEQUENCES_NONE;
    read_source(reader, root);
    if (json_has(root, "estimate")) {
        profile->estimated = estimated_read(root, "estimate");
        reader->no_memory |= !profile->estimated;
    }
    read_layers(reader, root);
    read_links(reader, root);
    if (json_has(root, "reads")) {
        profile->reads = reads_read(root);
        reader->no_memory |= !profile->reads;
    }
    if (json_has(root, "routing")) {
        profile->routing = routing_read(root);
        reader->no_memory |= !profile->routing;
    }
    if (json_has(root, "notes"))
        profile->notes = read_text(reader, root, "notes");
    json_end(root);
}

static bool read_whole(struct reader *reader, struct json_document *document, struct error *error)
{
    struct json root = json_root(document);
    reader->profile = zeroed(reader, 1, sizeof *reader->profile);
    if (reader->profile)
        read_root(reader, &root);
    if (reader->no_memory)
        return error_no_memory(error, "a profile");
    if (!json_ok(document, error))
        return false;
    check_names(reader, &root);
    check_sums(reader->profile, &root);
    check_states(reader->profile, &root);
    check_reads(reader->profile, &root);
    check_routing(reader->profile, &root);
    profile_transfers_check(reader->profile, &root);
    if (reader->no_memory)
        return error_no_memory(error, "the names of a profile");
    return json_ok(document, error) && profile_rehash(reader->profile, error);
}

// Takes ownership of the document.
static struct profile *read_document(struct json_document *document, struct error *error)
{
    if (!document)
        return NULL;
    struct reader reader = { 0 };
    const bool good = read_whole(&reader, document, error);
    json_free(document);
    if (good)
        return reader.profile;
    profile_free(reader.profile);
    return NULL;
}

struct profile *profile_load(const char *path, struct error *error)
{
    size_t length;
    char *text = text_load(path, &length, error);
    if (!text)
        return NULL;
    struct profile *profile = profile_read(text, length, strcmp(path, "-") == 0 ? "standard input" : path, error);
    free(text);
    return profile;
}

struct profile *profile_read(const char *text, size_t length, const char *name, struct error *error)
{
    struct profile *profile = read_document(json_parse(text, length, name, error), error);
    if (!profile)
        import_hint(text, length, name, error);
    return profile;
}
