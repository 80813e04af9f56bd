// The search of dnn-partitioning's model (max_load.h): the least largest load for each
// downset and each number of accelerators and CPUs that hold it, in order of size.
//
//     {}         inner            outer         all
//      |- a, c ----|---- a stage ----|------------|       best[outer][a + 1][c] or [a][c + 1]
//
// What a stage transfers is found from its two ends: all that leaves `outer`, but for what
// passes by from `inner`, and what it reads of `inner`. States that cannot be part of a
// plan below the limit are left out: what is not in them is more than the machines that
// are left can take below it. The limit begins near the least that even spreading takes
// and grows until there is a plan; a search below a limit is exhaustive, so that plan is
// the best.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/json.h"
#include "common/number.h"
#include "partitioner/objectives/max_load.h"

// How a state is reached best.
struct from {
    uint32_t downset;
    uint32_t on_cpu;
};

// A tensor that leaves the inner end of a stage, and those who may read it there.
struct passing {
    uint64_t cost_ns;
    const uint64_t *readers;
};

struct search {
    struct cut_view view;
    uint64_t *cost_ns;       // of each layer's tensor where it crosses; 0 where no other node reads it
    uint64_t *readers;       // of each layer, the nodes that read it: a row of bits
    uint64_t *cut_ns;        // of each downset: what leaves it
    uint64_t *work, *host_work, *not_on_host, *bytes;  // of each downset
    double host_ratio;       // the least a CPU takes for a ns of an accelerator
    uint64_t largest_ns;     // the least that some layer takes
    size_t states;           // of a downset: accelerators and CPUs used
    uint64_t *best;
    struct from *from;
    double *capacity;        // of each state: the work the machines left can take below the limit
    struct passing *passing;
    size_t passing_count;
    struct downset_walk walk;
    uint64_t limit;
    double bound;            // nothing is below, whatever the order
    bool is_ended;
};

static void search_clear(struct search *search)
{
    cut_view_clear(&search->view);
    downset_walk_clear(&search->walk);
    free(search->cost_ns);
    free(search->readers);
    free(search->cut_ns);
    free(search->work);
    free(search->host_work);
    free(search->not_on_host);
    free(search->bytes);
    free(search->best);
    free(search->from);
    free(search->capacity);
    free(search->passing);
}

// --- what layers and downsets cost ----------------------------------------------------

static bool add_edge(struct search *search, struct edge edge, struct error *error)
{
    const struct cut_view *view = &search->view;
    const struct profile *profile = view->request->profile;
    const uint32_t reader = view->node_of[edge.to];
    if (view->node_of[edge.from] == reader)
        return true;
    search->readers[edge.from * view->downsets->words + reader / 64] |= (uint64_t)1 << (reader % 64);
    search->cost_ns[edge.from] = max_load_crossings(profile)
        * transfer_ns(profile->layers[edge.from].output_bytes, view->machines.bytes_per_second,
                      view->machines.latency_ns);
    return search->cost_ns[edge.from] <= JSON_MAX
        || error_set(error, "layer \"%s\" hands on more than can be sent in 2^53 ns", profile->layers[edge.from].name);
}

static bool fill_costs(struct search *search, struct error *error)
{
    const struct cut_view *view = &search->view;
    const size_t layers = view->request->profile->layer_count, words = view->downsets->words;
    search->cost_ns = calloc(layers + 1, sizeof search->cost_ns[0]);
    search->readers = calloc(layers * words + 1, sizeof search->readers[0]);
    search->passing = calloc(layers + 1, sizeof search->passing[0]);
    if (!search->cost_ns || !search->readers || !search->passing)
        return error_no_memory(error, "the transfers of a graph");
    size_t edge_count;
    struct edge *edges = downsets_edges(view->request->profile, &edge_count, error);
    bool good = edges != NULL;
    for (size_t e = 0; good && e < edge_count; e++)
        good = add_edge(search, edges[e], error);
    free(edges);
    return good;
}

// One sum after the other; `value` has room for all layers.
static bool fill_sums(struct search *search, uint64_t *value, struct error *error)
{
    const struct profile *profile = search->view.request->profile;
    const struct cut_view *view = &search->view;
    const size_t layers = profile->layer_count;
    for (size_t i = 0; i < layers; i++)
        value[i] = profile->layers[i].forward_ns + profile->layers[i].backward_ns;
    search->work = cut_view_sum(view, value, error);
    for (size_t i = 0; i < layers; i++)
        value[i] = profile->layers[i].parameter_bytes + profile->layers[i].saved_bytes;
    search->bytes = cut_view_sum(view, value, error);
    for (size_t i = 0; i < layers; i++) {
        const struct profile_layer *way = max_load_on_cpu(&profile->layers[i]);
        value[i] = way ? way->forward_ns + way->backward_ns : 0;
    }
    search->host_work = cut_view_sum(view, value, error);
    for (size_t i = 0; i < layers; i++)
        value[i] = max_load_on_cpu(&profile->layers[i]) == NULL;
    search->not_on_host = cut_view_sum(view, value, error);
    return search->work && search->bytes && search->host_work && search->not_on_host;
}

static bool is_held(const struct search *search, size_t downset, const uint64_t *row)
{
    const uint64_t *set = downsets_set(search->view.downsets, downset);
    for (size_t w = 0; w < search->view.downsets->words; w++)
        if (row[w] & ~set[w])
            return false;
    return true;
}

// What leaves each downset. The tensors are taken one by one, so that one that nobody
// outside reads costs no more than a look.
static bool fill_cuts(struct search *search, struct error *error)
{
    const struct cut_view *view = &search->view;
    const struct downsets *downsets = view->downsets;
    search->cut_ns = calloc(downsets->count, sizeof search->cut_ns[0]);
    if (!search->cut_ns)
        return error_no_memory(error, "the transfers of a graph");
    for (uint32_t i = 0; i < view->request->profile->layer_count; i++)
        for (size_t d = 1; search->cost_ns[i] > 0 && d < downsets->count; d++)
            if (cut_view_holds(view, d, i) && !is_held(search, d, search->readers + i * downsets->words))
                search->cut_ns[d] += search->cost_ns[i];
    return true;
}

static void fill_ratio(struct search *search)
{
    const struct profile *profile = search->view.request->profile;
    search->host_ratio = INFINITY;
    for (size_t i = 0; i < profile->layer_count && search->view.machines.cpus > 0; i++) {
        const struct profile_layer *layer = &profile->layers[i], *way = max_load_on_cpu(layer);
        const uint64_t work = layer->forward_ns + layer->backward_ns;
        const uint64_t host = way ? way->forward_ns + way->backward_ns : UINT64_MAX;
        if (way && work > 0 && (double)host / (double)work < search->host_ratio)
            search->host_ratio = (double)host / (double)work;
        const uint64_t least = work < host ? work : host;
        search->largest_ns = least > search->largest_ns ? least : search->largest_ns;
    }
    for (size_t i = 0; i < profile->layer_count && search->view.machines.cpus == 0; i++) {
        const uint64_t work = profile->layers[i].forward_ns + profile->layers[i].backward_ns;
        search->largest_ns = work > search->largest_ns ? work : search->largest_ns;
    }
}

static bool fill_table(struct search *search, struct error *error)
{
    const struct cut_machines *machines = &search->view.machines;
    const size_t count = search->view.downsets->count;
    search->states = ((size_t)machines->accelerators + 1) * ((size_t)machines->cpus + 1);
    if (search->states > CUT_MOST_BYTES / 16 / count)
        return error_set(error,
                         "%zu ways to cut the graph for each of %u accelerators and %u CPUs take more than 1 GiB",
                         count, machines->accelerators, machines->cpus);
    search->best = malloc(count * search->states * sizeof search->best[0]);
    search->from = malloc(count * search->states * sizeof search->from[0]);
    search->capacity = malloc(search->states * sizeof search->capacity[0]);
    if (!search->best || !search->from || !search->capacity)
        return error_no_memory(error, "a table of stages");
    return downset_walk_create(&search->walk, search->view.downsets, error);
}

// No time anywhere, and no bytes either unless one machine holds them all anyway; and
// bound to no other layer than by its edges.
static bool *find_free(const struct bottleneck_request *request, struct error *error)
{
    const struct profile *profile = request->profile;
    struct cut_machines machines;
    if (!cut_machines_find(&machines, request, error))
        return NULL;
    bool *is_free = calloc(profile->layer_count, sizeof is_free[0]);
    if (!is_free)
        error_no_memory(error, "the layers of a graph");
    uint64_t bytes = 0;
    for (size_t i = 0; i < profile->layer_count; i++)
        bytes += profile->layers[i].parameter_bytes + profile->layers[i].saved_bytes;
    for (size_t i = 0; is_free && i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i], *way = max_load_on_cpu(layer);
        is_free[i] = layer->forward_ns + layer->backward_ns == 0
                  && (machines.cpus == 0 || (way && way->forward_ns + way->backward_ns == 0))
                  && (bytes <= machines.memory_bytes || layer->parameter_bytes + layer->saved_bytes == 0);
    }
    for (size_t i = 0; is_free && i < profile->tied_count; i++)
        is_free[profile->tied[i].from] = is_free[profile->tied[i].to] = false;
    for (size_t i = 0; is_free && i < profile->no_cut_count; i++)
        if (profile->no_cut_after[i] + 1 < profile->layer_count)
            is_free[profile->no_cut_after[i]] = is_free[profile->no_cut_after[i] + 1] = false;
    return is_free;
}

static bool search_create(struct search *search, const struct bottleneck_request *request, struct error *error)
{
    bool *is_free = find_free(request, error);
    const bool has_view = is_free && cut_view_create(&search->view, request, is_free, error);
    free(is_free);
    if (!has_view || !fill_costs(search, error))
        return false;
    uint64_t *value = calloc(request->profile->layer_count + 1, sizeof value[0]);
    const bool good = (value || error_no_memory(error, "the sums of a graph")) && fill_sums(search, value, error);
    free(value);
    fill_ratio(search);
    return good && fill_cuts(search, error) && fill_table(search, error);
}

// --- one run below a limit ------------------------------------------------------------

static size_t state_of(const struct search *search, uint32_t accelerators, uint32_t cpus)
{
    return accelerators * ((size_t)search->view.machines.cpus + 1) + cpus;
}

static void begin(struct search *search)
{
    const struct cut_machines *machines = &search->view.machines;
    for (size_t i = 0; i < search->view.downsets->count * search->states; i++)
        search->best[i] = UINT64_MAX;
    search->best[0] = 0;
    for (uint32_t a = 0; a <= machines->accelerators; a++)
        for (uint32_t c = 0; c <= machines->cpus; c++) {
            const double left = (double)(machines->accelerators - a)
                              + (machines->cpus > c ? (machines->cpus - c) / search->host_ratio : 0);
            // A little more, since this is rounded.
            search->capacity[state_of(search, a, c)] = (double)search->limit * left * (1 + 0x1p-40) + 1;
        }
}

static bool is_hopeful(const struct search *search, size_t downset, size_t state)
{
    const size_t all = search->view.downsets->count - 1;
    return (double)(search->work[all] - search->work[downset]) <= search->capacity[state];
}

static void list_passing(struct search *search, uint32_t inner)
{
    const struct cut_view *view = &search->view;
    search->passing_count = 0;
    for (uint32_t i = 0; i < view->request->profile->layer_count; i++) {
        const uint64_t *readers = search->readers + i * view->downsets->words;
        if (search->cost_ns[i] > 0 && cut_view_holds(view, inner, i) && !is_held(search, inner, readers))
            search->passing[search->passing_count++] = (struct passing){ search->cost_ns[i], readers };
    }
}

// What the stage between sends and is sent.
static uint64_t transfers(const struct search *search, uint32_t inner, uint32_t outer)
{
    const struct downsets *downsets = search->view.downsets;
    const uint64_t *before = downsets_set(downsets, inner), *after = downsets_set(downsets, outer);
    uint64_t sum = search->cut_ns[outer];
    for (size_t p = 0; p < search->passing_count; p++) {
        uint64_t inside = 0, beyond = 0;
        for (size_t w = 0; w < downsets->words; w++) {
            inside |= search->passing[p].readers[w] & after[w] & ~before[w];
            beyond |= search->passing[p].readers[w] & ~after[w];
        }
        sum += inside ? search->passing[p].cost_ns : 0;
        sum -= beyond ? search->passing[p].cost_ns : 0;
    }
    return sum;
}

static void improve(struct search *search, uint32_t outer, size_t state, uint64_t value, struct from from)
{
    const size_t at = outer * search->states + state;
    if (value < search->best[at] && value < search->limit && is_hopeful(search, outer, state)) {
        search->best[at] = value;
        search->from[at] = from;
    }
}

static void try_stage(struct search *search, uint32_t inner, uint32_t outer)
{
    const struct cut_machines *machines = &search->view.machines;
    const uint64_t work = search->work[outer] - search->work[inner];
    const uint64_t host = search->host_work[outer] - search->host_work[inner];
    const bool may_host = search->not_on_host[outer] == search->not_on_host[inner] && host < search->limit;
    bool may_run = work < search->limit && search->bytes[outer] - search->bytes[inner] <= machines->memory_bytes;
    uint64_t load = UINT64_MAX;
    for (uint32_t a = 0; a <= machines->accelerators; a++)
        for (uint32_t c = 0; c <= machines->cpus; c++) {
            const size_t state = state_of(search, a, c);
            const uint64_t held = search->best[inner * search->states + state];
            if (held >= search->limit)
                continue;
            if (may_host && c < machines->cpus)
                improve(search, outer, state_of(search, a, c + 1), held > host ? held : host,
                        (struct from){ inner, 1 });
            if (!may_run || a == machines->accelerators || !is_hopeful(search, outer, state_of(search, a + 1, c)))
                continue;
            if (load == UINT64_MAX)
                load = work + transfers(search, inner, outer);
            may_run = load < search->limit;
            improve(search, outer, state_of(search, a + 1, c), held > load ? held : load, (struct from){ inner, 0 });
        }
}

static bool is_reached(const struct search *search, uint32_t downset)
{
    for (size_t state = 0; state < search->states; state++)
        if (search->best[downset * search->states + state] < search->limit)
            return true;
    return false;
}

static void run(struct search *search)
{
    const struct cut_view *view = &search->view;
    begin(search);
    for (uint32_t inner = 0; inner + 1 < view->downsets->count && !search->is_ended; inner++) {
        if (!view->may_cut[inner] || !is_reached(search, inner))
            continue;
        list_passing(search, inner);
        downset_walk_up(&search->walk, inner);
        uint32_t outer;
        while (downset_walk_next(&search->walk, &outer)) {
            if (search->work[outer] - search->work[inner] >= search->limit
                && (view->machines.cpus == 0 || search->host_work[outer] - search->host_work[inner] >= search->limit))
                downset_walk_prune(&search->walk);
            else if (view->may_cut[outer])
                try_stage(search, inner, outer);
        }
        search->is_ended = bottleneck_must_end(view->request, INFINITY, search->bound);
    }
}

// The state of all layers with the least value, of equal ones on the fewest machines;
// `states` where there is none.
static size_t find_end(const struct search *search)
{
    const struct cut_machines *machines = &search->view.machines;
    const uint64_t *best = search->best + (search->view.downsets->count - 1) * search->states;
    size_t found = search->states, fewest = 0;
    for (uint32_t a = 0; a <= machines->accelerators; a++)
        for (uint32_t c = 0; c <= machines->cpus; c++) {
            const size_t state = state_of(search, a, c);
            if (best[state] < search->limit
                && (found == search->states || best[state] < best[found]
                    || (best[state] == best[found] && a + c < fewest))) {
                found = state;
                fewest = a + c;
            }
        }
    return found;
}

// --- the answer -----------------------------------------------------------------------

static uint32_t count_stages(const struct search *search, size_t state)
{
    const size_t cpus = (size_t)search->view.machines.cpus + 1;
    return (uint32_t)(state / cpus + state % cpus);
}

static uint32_t variant_on_cpu(const struct profile_layer *layer)
{
    uint32_t variant = 0;
    while (variant < layer->variant_count && &layer->variants[variant].layer != max_load_on_cpu(layer))
        variant++;
    return variant + 1;
}

static void place_layers(const struct search *search, struct bottleneck_result *result, size_t state,
                         uint32_t *stage_of)
{
    uint32_t outer = (uint32_t)search->view.downsets->count - 1;
    for (size_t s = result->stage_count; s-- > 0;) {
        const struct from from = search->from[outer * search->states + state];
        for (uint32_t i = 0; i < result->layer_count; i++) {
            if (!cut_view_holds(&search->view, outer, i) || cut_view_holds(&search->view, from.downset, i))
                continue;
            stage_of[i] = (uint32_t)s;
            if (from.on_cpu)
                result->variant[i] = variant_on_cpu(&search->view.request->profile->layers[i]);
        }
        result->stages[s].on_cpu = from.on_cpu != 0;
        state -= from.on_cpu ? 1 : (size_t)search->view.machines.cpus + 1;
        outer = from.downset;
    }
}

static struct bottleneck_result *answer(const struct search *search, size_t state, struct error *error)
{
    const struct bottleneck_request *request = search->view.request;
    struct bottleneck_result *result = bottleneck_create(request, count_stages(search, state), error);
    uint32_t *stage_of = calloc(request->profile->layer_count + 1, sizeof stage_of[0]);
    if (result)
        result->variant = calloc(request->profile->layer_count + 1, sizeof result->variant[0]);
    bool good = result && ((stage_of && result->variant) || error_no_memory(error, "the stages of a plan"));
    if (good) {
        place_layers(search, result, state, stage_of);
        bottleneck_place(result, stage_of);
        good = max_load_value(request, result, error);
    }
    free(stage_of);
    if (!good) {
        bottleneck_free(result);
        return NULL;
    }
    result->downset_count = search->view.downsets->count;
    result->proved = search->view.has_all_downsets && !search->is_ended;
    result->lower_bound_ns = result->proved ? result->value_ns : search->bound;
    if (search->is_ended)
        snprintf(result->stopped, sizeof result->stopped, "%s", bottleneck_why_ended(request));
    else if (!result->proved)
        snprintf(result->stopped, sizeof result->stopped, "too many ways to cut the graph; its own order was cut");
    return result;
}

static bool refuse(const struct search *search, struct error *error)
{
    const struct profile *profile = search->view.request->profile;
    const struct cut_machines *machines = &search->view.machines;
    if (search->is_ended) {
        bottleneck_end_without(search->view.request, search->bound, error);
        return false;
    }
    char holds[NUMBER_SIZE], has[NUMBER_SIZE];
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        const uint64_t bytes = layer->parameter_bytes + layer->saved_bytes;
        if ((bytes > machines->memory_bytes || machines->accelerators == 0)
            && (machines->cpus == 0 || !max_load_on_cpu(layer)))
            return error_set_kind(error, ERROR_ANSWER, "layer \"%s\" alone holds %s; a machine has %s", layer->name,
                                  bytes_format(bytes, holds),
                                  bytes_format(machines->accelerators ? machines->memory_bytes : 0, has));
    }
    return error_set_kind(error, ERROR_ANSWER, "no cut into %u stages fits: the layers hold %s in all, a machine %s",
                          machines->accelerators + machines->cpus,
                          bytes_format(search->bytes[search->view.downsets->count - 1], holds),
                          bytes_format(machines->memory_bytes, has));
}

// What even spreading takes, and the largest layer.
static double least_load(const struct search *search)
{
    const struct cut_machines *machines = &search->view.machines;
    const double share = machines->accelerators + (machines->cpus ? machines->cpus / search->host_ratio : 0);
    const double spread = (double)search->work[search->view.downsets->count - 1] / share * (1 - 0x1p-40);
    return spread > (double)search->largest_ns ? spread : (double)search->largest_ns;
}

static struct bottleneck_result *plan(struct search *search, struct error *error)
{
    double slack = 0x1p-9;
    const double whole = search->bound = least_load(search);
    size_t state = search->states;
    for (bool is_last = false; !is_last && state == search->states && !search->is_ended; slack *= 4) {
        is_last = !(whole > 0) || slack > 64;
        search->limit = is_last ? UINT64_MAX : (uint64_t)(whole * (1 + slack)) + 1;
        run(search);
        state = find_end(search);
        if (state == search->states && !search->is_ended && search->view.has_all_downsets)
            search->bound = (double)search->limit;
    }
    if (state < search->states)
        return answer(search, state, error);
    refuse(search, error);
    return NULL;
}

struct bottleneck_result *max_load_search(const struct bottleneck_request *request, struct error *error)
{
    struct search search = { 0 };
    struct bottleneck_result *result = search_create(&search, request, error) ? plan(&search, error) : NULL;
    search_clear(&search);
    return result;
}
