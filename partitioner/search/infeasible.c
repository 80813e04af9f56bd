#include "partitioner/search/infeasible.h"

#include <stdlib.h>

#include "common/number.h"

// Above this many edges (stage, first, end) what each lacks is only bounded.
#define MOST_EDGES ((size_t)8 << 20)
// Edges of so few layers are worked out beforehand.
#define SHORT 8

// What every edge needs, bounded from below at first, worked out exactly for those on
// the path that lacks least, until that path is exact. Weights, buffers and messages
// are fixed; what is kept and the workspace depend on what is recomputed, and are at
// least what any part of the edge's layers takes: what is worked out for one edge is
// a bound for all that hold it.
struct lacks {
    struct problem *problem;
    uint64_t *fixed;   // [(stage * (layers + 1) + first) * (layers + 1) + end]
    uint64_t *chosen;  // what is kept, input included, and the workspace, or less
    uint64_t *inner;   // the same without the input
    bool *exact;
    uint64_t *most;    // lacking in the first s stages up to layer l, least over all ways: [s * (layers + 1) + l]
    uint32_t *from;    // the cut before
    bool certain;      // whether all that was worked out is
    uint64_t labels, most_labels;
};

static size_t edge_of(const struct lacks *lacks, uint32_t s, uint32_t first, uint32_t end)
{
    const size_t row = (size_t)lacks->problem->layers + 1;
    return (s * row + first) * row + end;
}

static bool may_end(const struct problem *problem, uint32_t s, uint32_t end)
{
    return problem_may_begin(problem, s + 1, end);
}

static uint64_t over(uint64_t bytes, uint64_t capacity)
{
    return bytes > capacity ? bytes - capacity : 0;
}

static uint64_t capacity_of(const struct problem *problem, uint32_t s)
{
    return search_device(problem->request, s)->memory_bytes;
}

static uint64_t lacking(const struct lacks *lacks, uint32_t s, uint32_t first, uint32_t end)
{
    const size_t edge = edge_of(lacks, s, first, end);
    return over(add_clamped(lacks->fixed[edge], lacks->chosen[edge]), capacity_of(lacks->problem, s));
}

static void bound_edges(struct lacks *lacks)
{
    struct problem *problem = lacks->problem;
    for (uint32_t first = 0; first < problem->layers; first++) {
        for (uint32_t end = first + 1; end <= problem->layers; end++) {
            struct stage_bytes bytes = interval_bytes(problem->intervals, first, end);
            const uint64_t workspace = bytes.transient;
            bytes.kept = bytes.kept_through = bytes.held = bytes.transient = 0;
            bytes.input_life = INPUT_UNTIL_F;
            for (uint32_t s = 0; s < problem->ranks; s++) {
                struct slots slots = problem->slots[s];
                slots.input[INPUT_UNTIL_F] = 0;
                lacks->fixed[edge_of(lacks, s, first, end)] = stage_memory_of(&bytes, &slots).peak_bytes;
                lacks->chosen[edge_of(lacks, s, first, end)] = lacks->inner[edge_of(lacks, s, first, end)] = workspace;
            }
        }
    }
}

static void raise_to(uint64_t *least, uint64_t value)
{
    *least = value > *least ? value : *least;
}

static bool ask(struct lacks *lacks, uint32_t s, uint32_t first, uint32_t end, bool input, uint64_t *chosen,
                bool *complete, struct error *error)
{
    struct problem *problem = lacks->problem;
    if (!recompute_least_bytes(problem->intervals, first, end, &problem->slots[s], input, chosen, complete,
                               &lacks->labels, error))
        return false;
    *chosen = over(*chosen, lacks->fixed[edge_of(lacks, s, first, end)]);
    return true;
}

// What it takes without its input, every edge that holds it takes too.
static bool work_out(struct lacks *lacks, uint32_t s, uint32_t first, uint32_t end, struct error *error)
{
    const size_t edge = edge_of(lacks, s, first, end);
    uint64_t chosen, inner;
    bool complete, inner_complete;
    if (!ask(lacks, s, first, end, true, &chosen, &complete, error)
        || !ask(lacks, s, first, end, false, &inner, &inner_complete, error))
        return false;
    lacks->chosen[edge] = chosen;
    lacks->exact[edge] = true;
    lacks->certain &= complete;
    if (inner_complete)
        raise_to(&lacks->inner[edge], inner);
    return true;
}

static void spread(struct lacks *lacks, uint32_t s, uint32_t first, uint32_t end)
{
    const uint64_t inner = lacks->inner[edge_of(lacks, s, first, end)];
    for (uint32_t a = 0; a <= first; a++) {
        for (uint32_t b = end; b <= lacks->problem->layers; b++) {
            raise_to(&lacks->inner[edge_of(lacks, s, a, b)], inner);
            raise_to(&lacks->chosen[edge_of(lacks, s, a, b)], inner);
        }
    }
}

// Short edges cost little, and are a part of many.
static bool work_out_short(struct lacks *lacks, struct error *error)
{
    const struct problem *problem = lacks->problem;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        for (uint32_t length = 1; length <= problem->layers; length++) {
            for (uint32_t first = 0; first + length <= problem->layers; first++) {
                const uint32_t end = first + length;
                if (length <= SHORT && lacks->labels < lacks->most_labels / 2 && !work_out(lacks, s, first, end, error))
                    return false;
                if (length == 1)
                    continue;
                const size_t edge = edge_of(lacks, s, first, end);
                raise_to(&lacks->inner[edge], lacks->inner[edge_of(lacks, s, first, end - 1)]);
                raise_to(&lacks->inner[edge], lacks->inner[edge_of(lacks, s, first + 1, end)]);
                raise_to(&lacks->chosen[edge], lacks->inner[edge]);
            }
        }
    }
    return true;
}

static void find_path(struct lacks *lacks)
{
    const struct problem *problem = lacks->problem;
    const size_t row = (size_t)problem->layers + 1;
    for (size_t i = 0; i < (problem->ranks + 1) * row; i++)
        lacks->most[i] = UINT64_MAX;
    lacks->most[0] = 0;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        for (uint32_t first = s; first < problem->layers; first++) {
            const uint64_t so_far = lacks->most[s * row + first];
            for (uint32_t end = first + 1; so_far != UINT64_MAX && end <= problem->layers; end++) {
                if (!may_end(problem, s, end))
                    continue;
                const uint64_t own = lacking(lacks, s, first, end);
                const uint64_t most = own > so_far ? own : so_far;
                if (most < lacks->most[(s + 1) * row + end]) {
                    lacks->most[(s + 1) * row + end] = most;
                    lacks->from[(s + 1) * row + end] = first;
                }
            }
        }
    }
}

// The stage of the path that lacks most.
static struct shortage worst_of_path(const struct lacks *lacks)
{
    const struct problem *problem = lacks->problem;
    const size_t row = (size_t)problem->layers + 1;
    struct shortage worst = { 0 };
    uint32_t end = problem->layers;
    for (uint32_t s = problem->ranks; s-- > 0;) {
        const uint32_t first = lacks->from[(s + 1) * row + end];
        const uint64_t own = lacking(lacks, s, first, end);
        if (own >= worst.lacks_bytes)
            worst = (struct shortage){ s, first, end, capacity_of(problem, s) + own, own, false, false };
        end = first;
    }
    return worst;
}

// Whether every stage of the path is worked out; works out the first that is not.
static bool refine_path(struct lacks *lacks, bool *done, struct error *error)
{
    const struct problem *problem = lacks->problem;
    const size_t row = (size_t)problem->layers + 1;
    uint32_t end = problem->layers;
    *done = true;
    for (uint32_t s = problem->ranks; s-- > 0;) {
        const uint32_t first = lacks->from[(s + 1) * row + end];
        if (!lacks->exact[edge_of(lacks, s, first, end)]) {
            *done = false;
            if (!work_out(lacks, s, first, end, error))
                return false;
            spread(lacks, s, first, end);
        }
        end = first;
    }
    return true;
}

static void read_cuts(const struct lacks *lacks, uint32_t *cuts)
{
    const struct problem *problem = lacks->problem;
    cuts[problem->ranks] = problem->layers;
    for (uint32_t s = problem->ranks; s-- > 0;)
        cuts[s] = lacks->from[(s + 1) * ((size_t)problem->layers + 1) + cuts[s + 1]];
}

static bool find_shortage(struct lacks *lacks, struct shortage *shortage, uint32_t *cuts, struct error *error)
{
    bound_edges(lacks);
    if (!work_out_short(lacks, error))
        return false;
    bool done = false;
    while (!done && lacks->labels < lacks->most_labels) {
        find_path(lacks);
        if (!refine_path(lacks, &done, error))
            return false;
    }
    find_path(lacks);
    *shortage = worst_of_path(lacks);
    shortage->certain = lacks->certain;
    shortage->exact = done && lacks->certain;
    if (cuts)
        read_cuts(lacks, cuts);
    return true;
}

bool infeasible_shortage(struct problem *problem, uint64_t most_labels, struct shortage *shortage, uint32_t *cuts,
                         struct error *error)
{
    const size_t row = (size_t)problem->layers + 1, edges = row * row * problem->ranks;
    if (edges > MOST_EDGES)
        return error_set_kind(error, ERROR_ANSWER, "no plan was found; the model is too large to say what is missing");
    struct lacks lacks = { .problem = problem, .certain = true, .most_labels = most_labels };
    lacks.fixed = calloc(edges, sizeof lacks.fixed[0]);
    lacks.chosen = calloc(edges, sizeof lacks.chosen[0]);
    lacks.inner = calloc(edges, sizeof lacks.inner[0]);
    lacks.exact = calloc(edges, sizeof lacks.exact[0]);
    lacks.most = calloc(row * (problem->ranks + 1), sizeof lacks.most[0]);
    lacks.from = calloc(row * (problem->ranks + 1), sizeof lacks.from[0]);
    bool good = lacks.fixed && lacks.chosen && lacks.inner && lacks.exact && lacks.most && lacks.from;
    if (!good)
        error_no_memory(error, "a search");
    good = good && find_shortage(&lacks, shortage, cuts, error);
    free(lacks.fixed);
    free(lacks.chosen);
    free(lacks.inner);
    free(lacks.exact);
    free(lacks.most);
    free(lacks.from);
    return good;
}

// --- what is said -------------------------------------------------------------------

// "; no cut helps: layer fc6 alone needs at least 1.53 GiB, and its device has 1.00 GiB".
void infeasible_add_layer(const struct search_request *request, const struct lone_layer *layer, struct text *text)
{
    char needs[NUMBER_SIZE], has[NUMBER_SIZE];
    if (layer->lacks_bytes == 0)
        return;
    const uint64_t capacity = search_device(request, layer->rank)->memory_bytes;
    text_add(text, "; no cut helps: layer %.60s alone needs at least %s, and its device has %s",
             request->profile->layers[layer->layer].name, bytes_format(layer->needs_bytes, needs),
             bytes_format(capacity, has));
}

void infeasible_explain(struct problem *problem, const struct shortage *shortage, struct error *error)
{
    const struct profile *profile = problem->request->profile;
    const struct cluster_device *device = search_device(problem->request, shortage->stage);
    char needs[NUMBER_SIZE], has[NUMBER_SIZE], lacks[NUMBER_SIZE];
    bytes_format(shortage->needs_bytes, needs);
    bytes_format(device->memory_bytes, has);
    bytes_format(shortage->lacks_bytes, lacks);
    struct lone_layer layer;
    struct text alone = { 0 };
    if (!lone_layer_find(problem->request, &layer, error))
        return;
    infeasible_add_layer(problem->request, &layer, &alone);
    error_set_kind(error, ERROR_ANSWER,
                   "no plan fits: even in the one that lacks least, stage %u (%.60s to %.60s) needs %s %s with"
                   " recomputation and %.40s has %s, %s%s too little%s",
                   shortage->stage, profile->layers[shortage->first].name, profile->layers[shortage->end - 1].name,
                   shortage->certain ? "at least" : "about", needs, device->name, has,
                   shortage->exact ? "" : "at least ", lacks, alone.data && !alone.failed ? alone.data : "");
    text_clear(&alone);
}
