#include "partitioner/tables/table_profile.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "profiler/table_reads.h"

static bool is_placed(const struct table_profile_request *request, const char *layer)
{
    return !request->layer || strcmp(request->layer, layer) == 0;
}

static bool layer_is_placed(const struct table_profile_request *request, const struct profile_layer *layer)
{
    const struct profile_reads *reads = request->profile->reads;
    bool has_tables = false;
    for (size_t t = 0; t < reads->table_count; t++)
        has_tables |= strcmp(reads->tables[t].layer, layer->name) == 0;
    return has_tables && is_placed(request, layer->name);
}

// --- what is refused -----------------------------------------------------------------------

static bool has_one_width(const struct table_profile_request *request, struct error *error)
{
    const struct profile_reads *reads = request->profile->reads;
    const struct table_reads *first = NULL;
    for (size_t t = 0; t < reads->table_count; t++) {
        const struct table_reads *table = &reads->tables[t];
        if (!is_placed(request, table->layer))
            continue;
        if (first && table->columns != first->columns)
            return error_set(error, "layer %.60s has tables of %llu columns, and layer %.60s of %llu: name the layer"
                             " whose tables are placed", first->layer, (unsigned long long)first->columns, table->layer,
                             (unsigned long long)table->columns);
        first = first ? first : table;
    }
    return first || error_set(error, "the profile has no reads of tables of a layer %.60s", request->layer);
}

static bool is_possible(const struct table_profile_request *request, struct error *error)
{
    const struct profile *profile = request->profile;
    if (!profile->reads)
        return error_set(error, "the profile does not have what is read of tables: profile the model on data (weir"
                         " profile)");
    if (profile->micro_batch > TABLES_MOST_BATCH)
        return error_set(error, "micro-batches of %llu samples are more than the %d that tables are placed for",
                         (unsigned long long)profile->micro_batch, TABLES_MOST_BATCH);
    if (request->micro_batches > profile->reads->batches)
        return error_set(error, "an iteration of %llu micro-batches is longer than the %llu whose reads were counted:"
                         " count as many in the profile", (unsigned long long)request->micro_batches,
                         (unsigned long long)profile->reads->batches);
    return has_one_width(request, error);
}

// --- what is dense --------------------------------------------------------------------------

// Floats of optimizer state for each parameter.
static uint64_t dense_states(enum table_optimizer optimizer)
{
    return optimizer == TABLE_SGD ? 0 : optimizer == TABLE_ADAM_ROWS ? 2 : 1;
}

// On each member: weights, gradients and states of the other layers, and of its share of a micro-batch what they keep
// and hand on, and the largest workspace.
static uint64_t dense_bytes(const struct table_profile_request *request, uint64_t number_bytes)
{
    const struct profile *profile = request->profile;
    uint64_t weights = 0, activations = 0, workspace = 0;
    for (size_t l = 0; l < profile->layer_count; l++) {
        const struct profile_layer *layer = &profile->layers[l];
        workspace = max_u64(workspace, max_u64(layer->workspace_bytes, layer->backward_workspace_bytes));
        if (layer_is_placed(request, layer))
            continue;
        const uint64_t floats = multiply_clamped(layer->parameter_bytes / number_bytes, sizeof(float));
        weights = add_clamped(weights, layer->parameter_bytes);
        weights = add_clamped(weights, multiply_clamped(floats, 1 + dense_states(request->optimizer)));
        activations = add_clamped(activations, add_clamped(layer->output_bytes, profile_kept_bytes(layer)));
    }
    const uint64_t shared = add_clamped(activations, workspace), members = request->members;
    return min_u64(add_clamped(weights, shared / members + (shared % members > 0)), JSON_MAX);
}

// --- the tables -------------------------------------------------------------------------------

static char *name_of(const struct table_reads *table, bool has_layers)
{
    struct text text = { 0 };
    struct error none = { 0 };
    text_add(&text, "%s%s%s", has_layers ? table->layer : "", has_layers ? "." : "", table->name);
    return text_take(&text, &none);
}

static bool put_tables(const struct table_profile_request *request, struct table_set *set, struct error *error)
{
    const struct profile_reads *reads = request->profile->reads;
    bool has_layers = false;
    set->tables = calloc(reads->table_count + 1, sizeof set->tables[0]);
    for (size_t t = 0; t < reads->table_count; t++)
        has_layers |= is_placed(request, reads->tables[t].layer)
                   && strcmp(reads->tables[t].layer, request->layer ? request->layer : reads->tables[0].layer) != 0;
    for (size_t t = 0; set->tables && t < reads->table_count; t++) {
        const struct table_reads *from = &reads->tables[t];
        if (!is_placed(request, from->layer))
            continue;
        struct table *table = &set->tables[set->table_count++];
        *table = (struct table){ .name = name_of(from, has_layers), .rows = from->rows,
                                 .reads_milli = from->reads_milli, .reads_p95_milli = from->reads_p95_milli };
        const uint64_t ids = multiply_clamped(set->micro_batches, table_ids(set, table));
        table->unique = min_u64(reads_unique(from, set->micro_batches), ids);  // thousandths are rounded
        if (!table->name)
            return error_no_memory(error, "tables");
        set->columns = from->columns;
    }
    return set->tables || error_no_memory(error, "tables");
}

// Bytes of the rows that a forward reads, over its time.
static bool put_rate(const struct table_profile_request *request, struct table_set *set, struct error *error)
{
    const struct profile *profile = request->profile;
    uint64_t ids = 0, ns = 0;
    for (size_t t = 0; t < set->table_count; t++)
        ids = add_clamped(ids, table_ids(set, &set->tables[t]));
    for (size_t l = 0; l < profile->layer_count; l++)
        ns += layer_is_placed(request, &profile->layers[l]) ? profile->layers[l].forward_ns : 0;
    if (ns == 0)
        return error_set(error, "the forward of the tables takes no time in the profile, so there is no rate of reads:"
                         " measure it, or state rates in a tables document");
    const unsigned __int128 rate = (unsigned __int128)ids * set->columns * set->number_bytes * 1000000000u / ns;
    set->rates[0].bytes_per_second = rate > JSON_MAX ? JSON_MAX : max_u64((uint64_t)rate, 1000000);
    set->rate_count = 1;
    return true;
}

struct table_set *table_set_of_profile(const struct table_profile_request *request, struct error *error)
{
    const struct profile *profile = request->profile;
    if (!is_possible(request, error))
        return NULL;
    struct table_set *set = calloc(1, sizeof *set);
    bool good = set || error_no_memory(error, "tables");
    if (good) {
        set->model = strdup(profile->model);
        set->number_bytes = profile_dtype_bytes(profile->dtype);
        set->batch = profile->micro_batch;
        set->micro_batches = request->micro_batches;
        set->dense_bytes = dense_bytes(request, set->number_bytes);
        good = (set->model || error_no_memory(error, "tables")) && put_tables(request, set, error)
            && put_rate(request, set, error);
    }
    if (good)
        return set;
    table_set_free(set);
    return NULL;
}
