#include "partitioner/orders/order_graph.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/holding.h"

#define NONE UINT32_MAX
#define SEVERAL (UINT32_MAX - 1)

// The graph of layers while blocks are made. A block is known by its first layer.
struct glue {
    const struct profile *profile;
    const struct edge *edges;
    size_t edge_count;
    uint32_t layers;
    uint32_t *block_of;
    bool *is_after, *is_before;  // room of closing: per layer
};

static bool takes_no_time(const struct profile_layer *layer)
{
    return layer->forward_ns == 0 && layer->backward_ns == 0 && layer->backward_input_ns == 0
        && layer->backward_weight_ns == 0 && layer->parameter_bytes == 0;
}

static void join(struct glue *glue, uint32_t a, uint32_t b)
{
    const uint32_t from = glue->block_of[a] > glue->block_of[b] ? glue->block_of[a] : glue->block_of[b];
    const uint32_t to = glue->block_of[a] > glue->block_of[b] ? glue->block_of[b] : glue->block_of[a];
    for (uint32_t l = 0; l < glue->layers; l++)
        if (glue->block_of[l] == from)
            glue->block_of[l] = to;
}

// --- what must be on one stage ----------------------------------------------------------

// Blocks that data goes through on its way from `block` to itself are part of it: marks
// all that comes after the block and all that it comes after, block by block.
static void mark(struct glue *glue, uint32_t block, bool *marked, bool forwards)
{
    memset(marked, 0, glue->layers * sizeof marked[0]);
    marked[block] = true;  // of each block its first layer stands for all
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < glue->edge_count; i++) {
            const size_t e = forwards ? i : glue->edge_count - 1 - i;
            const uint32_t from = glue->block_of[glue->edges[e].from], to = glue->block_of[glue->edges[e].to];
            const uint32_t here = forwards ? from : to, there = forwards ? to : from;
            more |= marked[here] && !marked[there];
            marked[there] |= marked[here];
        }
    }
}

static bool close_block(struct glue *glue, uint32_t block)
{
    bool grew = false;
    mark(glue, block, glue->is_after, true);
    mark(glue, block, glue->is_before, false);
    for (uint32_t l = 0; l < glue->layers; l++) {
        if (glue->block_of[l] == l && l != block && glue->is_after[l] && glue->is_before[l]) {
            join(glue, l, block);
            grew = true;
        }
    }
    return grew;
}

static void glue_pairs(struct glue *glue, bool tied_apart)
{
    const struct profile *profile = glue->profile;
    for (size_t i = 0; !tied_apart && i < profile->tied_count; i++)
        join(glue, profile->tied[i].from, profile->tied[i].to);
    for (size_t i = 0; i < profile->no_cut_count; i++)
        if (profile->no_cut_after[i] + 1 < glue->layers)
            join(glue, profile->no_cut_after[i], profile->no_cut_after[i] + 1);
    // Only blocks of several layers can close a circle, and each that does begins anew.
    uint32_t closed = NONE;
    for (uint32_t l = 0; l < glue->layers; l++) {
        const uint32_t block = glue->block_of[l];
        if (block == l || block == closed)
            continue;
        closed = block;
        if (close_block(glue, block)) {
            closed = NONE;
            l = 0;
        }
    }
}

// --- what may be on one stage -------------------------------------------------------------

static void note(uint32_t *only, uint32_t block)
{
    *only = *only == NONE || *only == block ? block : SEVERAL;
}

// A block without time, and who it talks to.
struct idle {
    uint32_t reads, read_by;          // the only block, NONE or SEVERAL
    uint64_t in_bytes, out_bytes;     // what it reads; what it hands on
    uint64_t alone_bytes;             // of what it reads: what nobody else outside the block it is from reads
    uint64_t in_bytes_elsewhere;      // of what it reads: what the only block that reads it does not read itself
};

static bool is_read_by(const struct glue *glue, uint32_t layer, uint32_t block)
{
    for (size_t e = 0; e < glue->edge_count; e++)
        if (glue->edges[e].from == layer && glue->block_of[glue->edges[e].to] == block)
            return true;
    return false;
}

static bool is_read_by_others(const struct glue *glue, uint32_t layer, uint32_t block)
{
    for (size_t e = 0; e < glue->edge_count; e++) {
        const uint32_t reader = glue->block_of[glue->edges[e].to];
        if (glue->edges[e].from == layer && reader != block && reader != glue->block_of[layer])
            return true;
    }
    return false;
}

static struct idle look_at(const struct glue *glue, uint32_t block)
{
    struct idle idle = { .reads = NONE, .read_by = NONE };
    for (size_t e = 0; e < glue->edge_count; e++) {
        const uint32_t from = glue->block_of[glue->edges[e].from], to = glue->block_of[glue->edges[e].to];
        if (from == block && to != block)
            note(&idle.read_by, to);
        if (to == block && from != block)
            note(&idle.reads, from);
    }
    for (uint32_t l = 0; l < glue->layers; l++) {
        const uint64_t bytes = round_to_256(glue->profile->layers[l].output_bytes);
        const uint32_t own = glue->block_of[l];
        if (own == block && is_read_by_others(glue, l, block))
            idle.out_bytes += bytes;
        if (own == block || !is_read_by(glue, l, block))
            continue;
        idle.in_bytes += bytes;
        idle.alone_bytes += is_read_by_others(glue, l, block) ? 0 : bytes;
        idle.in_bytes_elsewhere += idle.read_by < SEVERAL && is_read_by(glue, l, idle.read_by) ? 0 : bytes;
    }
    return idle;
}

// Where a block without time is put, or NONE.
static uint32_t partner_of(const struct idle *idle)
{
    const bool one_source = idle->reads < SEVERAL, one_reader = idle->read_by < SEVERAL;
    if (one_source && (idle->read_by == NONE || idle->out_bytes <= idle->alone_bytes))
        return idle->reads;
    if (one_reader && (idle->reads == NONE || idle->in_bytes_elsewhere <= idle->out_bytes))
        return idle->read_by;
    return NONE;
}

// `first`: the block that is put to the first stage, or NONE.
static void reduce(struct glue *glue, uint32_t *first)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t l = 0; l < glue->layers; l++) {
            bool idle_block = glue->block_of[l] == l && l != *first;
            for (uint32_t other = l; idle_block && other < glue->layers; other++)
                idle_block = glue->block_of[other] != l || takes_no_time(&glue->profile->layers[other]);
            if (!idle_block)
                continue;
            const struct idle idle = look_at(glue, l);
            uint32_t partner = partner_of(&idle);
            if (partner == NONE && idle.reads == NONE && idle.out_bytes == 0) {
                partner = *first;
                *first = *first == NONE || l < *first ? l : *first;
            }
            if (partner != NONE)
                join(glue, l, partner);
            if (partner != NONE && *first != NONE)
                *first = glue->block_of[*first];
            more |= partner != NONE;
        }
    }
}

// --- blocks ---------------------------------------------------------------------------------

// Numbers blocks from 0 in order of their first layers.
static void number_blocks(struct order_graph *graph, uint32_t layers, uint32_t *first)
{
    uint32_t *block_of = graph->block_of;
    for (uint32_t l = 0; l < layers; l++) {
        const bool is_new = block_of[l] == l;
        const uint32_t number = is_new ? graph->block_count++ : block_of[block_of[l]];
        if (is_new && *first == l)
            *first = number;
        block_of[l] = number;
    }
}

static bool reads_anything(const struct edge *edges, size_t count, uint32_t block)
{
    for (size_t e = 0; e < count; e++)
        if (edges[e].to == block)
            return true;
    return false;
}

// Edges between blocks; and from what is put to the first stage to all that reads nothing.
static bool link_blocks(struct order_graph *graph, const struct glue *glue, uint32_t first, struct error *error)
{
    graph->edges = calloc(glue->edge_count + graph->block_count + 1, sizeof graph->edges[0]);
    if (!graph->edges)
        return error_no_memory(error, "the blocks of a model");
    for (size_t e = 0; e < glue->edge_count; e++) {
        const struct edge edge = { graph->block_of[glue->edges[e].from], graph->block_of[glue->edges[e].to] };
        if (edge.from != edge.to)
            graph->edges[graph->edge_count++] = edge;
    }
    const size_t own = graph->edge_count;
    for (uint32_t block = 0; first != NONE && block < graph->block_count; block++)
        if (block != first && !reads_anything(graph->edges, own, block))
            graph->edges[graph->edge_count++] = (struct edge){ first, block };
    return true;
}

static bool make_blocks(struct order_graph *graph, struct glue *glue, bool tied_apart, struct error *error)
{
    uint32_t first = NONE;
    for (uint32_t l = 0; l < glue->layers; l++)
        glue->block_of[l] = l;
    glue_pairs(glue, tied_apart);
    if (graph->is_reduced)
        reduce(glue, &first);
    number_blocks(graph, glue->layers, &first);
    return link_blocks(graph, glue, first, error);
}

// --- downsets -------------------------------------------------------------------------------

static uint64_t part_of(const struct order_graph *graph, const struct holding *holding, uint32_t l,
                        enum order_sum sum)
{
    const struct profile_layer *layer = &graph->profile->layers[l];
    const uint64_t saved = round_to_256(layer->saved_bytes);
    const uint64_t parts[SUM_PRICES] = {
        [SUM_FORWARD] = layer->forward_ns,
        [SUM_BACKWARD] = layer->backward_ns,
        [SUM_BACKWARD_INPUT] = layer->backward_input_ns,
        [SUM_BACKWARD_WEIGHT] = layer->backward_weight_ns,
        [SUM_WEIGHTS] = round_to_256(layer->parameter_bytes),
        [SUM_OPTIMIZER] = holding ? holding_state_bytes(holding, graph->profile, l) : 0,
        [SUM_SAVED] = saved,
    };
    if (sum < SUM_PRICES)
        return parts[sum];
    const double price = graph->price[sum - SUM_PRICES] * (double)saved;
    const uint64_t again = profile_recompute_ns(layer);
    return price < (double)again ? (uint64_t)price : again;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

// What a byte that recomputing a layer saves costs in its time: of as many layers below each as above the last.
static bool set_prices(struct order_graph *graph, struct error *error)
{
    const struct profile *profile = graph->profile;
    double *costs = malloc((profile->layer_count + 1) * sizeof costs[0]);
    size_t count = 0;
    if (!costs)
        return error_no_memory(error, "the prices of a model");
    for (size_t l = 0; l < profile->layer_count; l++)
        if (profile_recompute_ns(&profile->layers[l]) > 0 && profile->layers[l].saved_bytes > 0)
            costs[count++] = (double)profile_recompute_ns(&profile->layers[l]) / (double)profile->layers[l].saved_bytes;
    qsort(costs, count, sizeof costs[0], by_size);
    for (size_t k = 0; k < ORDER_PRICES; k++)
        graph->price[k] = count > 0 ? costs[(2 * k + 1) * count / (2 * ORDER_PRICES)] : 0;
    free(costs);
    return true;
}

static bool sum_downsets(struct order_graph *graph, const struct holding *holding, struct error *error)
{
    const uint32_t layers = (uint32_t)graph->profile->layer_count;
    uint64_t *of_block = malloc((graph->block_count + (size_t)1) * sizeof of_block[0]);
    bool good = (of_block || error_no_memory(error, "the blocks of a model")) && set_prices(graph, error);
    for (unsigned sum = 0; good && sum < ORDER_SUMS; sum++) {
        memset(of_block, 0, graph->block_count * sizeof of_block[0]);
        for (uint32_t l = 0; l < layers; l++)
            of_block[graph->block_of[l]] += part_of(graph, holding, l, (enum order_sum)sum);
        graph->sums[sum] = downsets_sum(graph->downsets, of_block, error);
        good = graph->sums[sum] != NULL;
    }
    free(of_block);
    return good;
}

// For each layer the blocks of those with time that it needs, or, `forwards`, that need it, itself included.
static uint64_t *layers_needed(const struct order_graph *graph, const struct glue *glue, bool forwards)
{
    const size_t words = graph->downsets->words;
    uint64_t *needed = calloc((size_t)glue->layers * words + 1, sizeof needed[0]);
    for (uint32_t l = 0; needed && l < glue->layers; l++)
        if (!takes_no_time(&glue->profile->layers[l]))
            needed[l * words + graph->block_of[l] / 64] |= (uint64_t)1 << graph->block_of[l] % 64;
    for (size_t i = 0; needed && i < glue->edge_count; i++) {
        const struct edge edge = glue->edges[forwards ? glue->edge_count - 1 - i : i];
        const uint32_t from = forwards ? edge.to : edge.from, to = forwards ? edge.from : edge.to;
        for (size_t w = 0; w < words; w++)
            needed[to * words + w] |= needed[from * words + w];
    }
    return needed;
}

// How many layers a downset can have had before the graph was reduced, and how many behind it.
static void count_most(struct order_graph *graph, uint32_t layers, const uint64_t *before, const uint64_t *behind)
{
    const size_t words = graph->downsets->words;
    for (size_t d = 0; d < graph->downset_count; d++) {
        const uint64_t *set = downsets_set(graph->downsets, d);
        for (uint32_t l = 0; l < layers; l++) {
            bool apart = true;
            for (size_t w = 0; w < words; w++)
                apart &= (behind[l * words + w] & set[w]) == 0;
            graph->most_out[d] += apart;
            graph->most_in[d] += downsets_within(&before[l * words], set, words);
        }
    }
}

static bool find_most(struct order_graph *graph, const struct glue *glue, struct error *error)
{
    uint64_t *before = layers_needed(graph, glue, false), *behind = layers_needed(graph, glue, true);
    graph->most_in = calloc(graph->downset_count, sizeof graph->most_in[0]);
    graph->most_out = calloc(graph->downset_count, sizeof graph->most_out[0]);
    const bool good = before && behind && graph->most_in && graph->most_out;
    if (good)
        count_most(graph, glue->layers, before, behind);
    free(before);
    free(behind);
    return good || error_no_memory(error, "the downsets of a model");
}

// Of each downset the outputs that somebody behind it reads, each once: edges are
// sorted by (from, to).
static uint64_t cut_bytes(const struct order_graph *graph, const struct glue *glue, uint32_t downset)
{
    uint64_t bytes = 0;
    uint32_t counted = NONE;
    for (size_t e = 0; e < glue->edge_count; e++) {
        const struct edge edge = glue->edges[e];
        if (edge.from == counted || downsets_holds(graph->downsets, downset, graph->block_of[edge.to])
            || !downsets_holds(graph->downsets, downset, graph->block_of[edge.from]))
            continue;
        bytes = add_clamped(bytes, round_to_256(glue->profile->layers[edge.from].output_bytes));
        counted = edge.from;
    }
    return bytes;
}

static bool find_downsets(struct order_graph *graph, const struct glue *glue,
                          const struct order_graph_request *request, bool *too_many, struct error *error)
{
    const struct downset_graph blocks = { graph->block_count, graph->edges, graph->edge_count };
    struct error reason = { 0 };
    graph->downsets = downsets_create(&blocks, request->most_downsets, &reason);
    *too_many = !graph->downsets && reason.kind != ERROR_MACHINE;
    if (!graph->downsets) {
        if (!*too_many)
            *error = reason;
        return false;
    }
    graph->downset_count = graph->downsets->count;
    graph->cut = calloc(graph->downset_count, sizeof graph->cut[0]);
    if (!graph->cut)
        return error_no_memory(error, "the downsets of a model");
    for (uint32_t d = 0; d < graph->downsets->count; d++)
        graph->cut[d] = cut_bytes(graph, glue, d);
    return sum_downsets(graph, request->holding, error) && (!graph->is_reduced || find_most(graph, glue, error));
}

struct order_graph *order_graph_create(const struct order_graph_request *request, bool *too_many, struct error *error)
{
    const struct profile *profile = request->profile;
    struct glue glue = { .profile = profile, .layers = (uint32_t)profile->layer_count };
    struct order_graph *graph = calloc(1, sizeof *graph);
    struct edge *edges = downsets_edges(profile, &glue.edge_count, error);
    glue.edges = edges;
    glue.is_after = calloc(glue.layers, sizeof glue.is_after[0]);
    glue.is_before = calloc(glue.layers, sizeof glue.is_before[0]);
    glue.block_of = calloc(glue.layers, sizeof glue.block_of[0]);
    *too_many = false;
    bool good = edges != NULL;
    if (good && (!graph || !glue.is_after || !glue.is_before || !glue.block_of))
        good = error_no_memory(error, "the blocks of a model");
    if (good) {
        graph->profile = profile;
        graph->is_reduced = request->reduce;
        graph->block_of = glue.block_of;
        good = make_blocks(graph, &glue, request->tied_apart, error)
            && find_downsets(graph, &glue, request, too_many, error);
    } else {
        free(glue.block_of);
    }
    free(edges);
    free(glue.is_after);
    free(glue.is_before);
    if (good)
        return graph;
    order_graph_free(graph);
    return NULL;
}

void order_graph_free(struct order_graph *graph)
{
    if (!graph)
        return;
    downsets_free(graph->downsets);
    for (unsigned sum = 0; sum < ORDER_SUMS; sum++) {
        free(graph->sums[sum]);
        free(graph->most[sum]);
    }
    free(graph->most_in);
    free(graph->most_out);
    free(graph->cut);
    free(graph->edges);
    free(graph->block_of);
    free(graph);
}

// --- groups of downsets ------------------------------------------------------------------------

static uint64_t work_of(const struct order_graph *graph, size_t downset)
{
    return graph->sums[SUM_FORWARD][downset] + graph->sums[SUM_BACKWARD][downset];
}

// The group of each downset: 0 and the last are the first and the last alone, and those in
// between that are empty are left out.
static uint32_t number_groups(const struct order_graph *graph, uint32_t groups, uint32_t *group_of, uint32_t *number)
{
    const size_t last = graph->downset_count - 1;
    const uint64_t all = work_of(graph, last);
    const uint32_t middle = groups - 2;
    for (size_t d = 0; d <= last; d++) {
        const uint64_t place = all ? (uint64_t)((unsigned __int128)work_of(graph, d) * middle / all) : 0;
        group_of[d] = d == 0 ? 0 : d == last ? groups - 1 : 1 + (uint32_t)(place < middle ? place : middle - 1);
        number[group_of[d]] = 1;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < groups; i++)
        if (number[i])
            number[i] = count++;
    for (size_t d = 0; d <= last; d++)
        group_of[d] = number[group_of[d]];
    return count;
}

static void gather(struct order_graph *graph, const uint32_t *group_of, uint64_t *least, uint64_t *most,
                   const uint64_t *values, uint32_t groups)
{
    for (uint32_t i = 0; i < groups; i++)
        least[i] = UINT64_MAX;
    for (size_t d = 0; d < graph->downset_count; d++) {
        const uint32_t group = group_of[d];
        least[group] = values[d] < least[group] ? values[d] : least[group];
        if (most)
            most[group] = values[d] > most[group] ? values[d] : most[group];
    }
}

static bool gather_most(const struct order_graph *graph, uint32_t **values, const uint32_t *group_of, uint32_t groups)
{
    uint32_t *most = calloc(groups, sizeof most[0]);
    for (size_t d = 0; most && d < graph->downset_count; d++)
        most[group_of[d]] = (*values)[d] > most[group_of[d]] ? (*values)[d] : most[group_of[d]];
    free(*values);
    *values = most;
    return most != NULL;
}

static bool gather_all(struct order_graph *graph, const uint32_t *group_of, uint32_t groups)
{
    for (unsigned sum = 0; sum < ORDER_SUMS; sum++) {
        uint64_t *least = calloc(groups, sizeof least[0]);
        graph->most[sum] = calloc(groups, sizeof graph->most[sum][0]);
        if (least && graph->most[sum])
            gather(graph, group_of, least, graph->most[sum], graph->sums[sum], groups);
        free(graph->sums[sum]);
        graph->sums[sum] = least;
        if (!least || !graph->most[sum])
            return false;
    }
    uint64_t *cut = calloc(groups, sizeof cut[0]);
    if (cut)
        gather(graph, group_of, cut, NULL, graph->cut, groups);
    free(graph->cut);
    graph->cut = cut;
    return cut != NULL && (!graph->most_in || (gather_most(graph, &graph->most_in, group_of, groups)
                           && gather_most(graph, &graph->most_out, group_of, groups)));
}

bool order_graph_coarsen(struct order_graph *graph, uint32_t groups, struct error *error)
{
    uint32_t *group_of = calloc(graph->downset_count, sizeof group_of[0]);
    uint32_t *number = calloc(groups, sizeof number[0]);
    bool good = group_of && number;
    if (good) {
        const uint32_t count = number_groups(graph, groups, group_of, number);
        good = gather_all(graph, group_of, count);
        graph->downset_count = count;
        graph->is_reduced = true;  // stages may be empty
        downsets_free(graph->downsets);
        graph->downsets = NULL;
    }
    free(group_of);
    free(number);
    return good || error_no_memory(error, "the downsets of a model");
}

// --- asking ---------------------------------------------------------------------------------

uint32_t order_graph_layers(const struct order_graph *graph, uint32_t from, uint32_t to, uint32_t *layers)
{
    uint32_t count = 0;
    for (uint32_t l = 0; l < graph->profile->layer_count; l++)
        if (downsets_holds(graph->downsets, to, graph->block_of[l])
            && !downsets_holds(graph->downsets, from, graph->block_of[l]))
            layers[count++] = l;
    return count;
}

void order_graph_together(const struct order_graph *graph, uint32_t *order)
{
    // Up from the empty set, always by the first of the links: block by block.
    uint32_t *at = order;
    uint32_t downset = 0;
    const struct downsets *downsets = graph->downsets;
    while (downset + 1 < downsets->count) {
        const uint32_t next = downsets->above[downsets->above_at[downset]].downset;
        at += order_graph_layers(graph, downset, next, at);
        downset = next;
    }
}
