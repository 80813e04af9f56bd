#include "partitioner/infeasible.h"

#include <stdlib.h>

#include "common/number.h"

// Above this many edges (stage, first, end) what each lacks is only bounded.
#define MOST_EDGES ((size_t)8 << 20)
#define MOST_ROUNDS 300
#define MOST_LABELS 4000

// Units of work that saying why may take, a second or two, and each trial of what would help.
#define MOST_WORK 4000000
#define MOST_TRIAL_WORK 200000

// What every edge lacks, bounded from below at first, worked out exactly for those
// on the path that lacks least, until that path is exact.
struct lacks {
    struct problem *problem;
    uint64_t *bytes;  // [(stage * (layers + 1) + first) * (layers + 1) + end]
    bool *exact;
    uint64_t *most;   // of the first s stages up to layer l, least over all ways: [s * (layers + 1) + l]
    uint32_t *from;   // the cut before
    uint64_t limit;   // of the problem's work
};

// A bound is good enough for who waits no longer.
static bool is_enough(const struct lacks *lacks)
{
    return lacks->problem->work > lacks->limit || problem_is_interrupted(lacks->problem);
}

static size_t edge_of(const struct lacks *lacks, uint32_t s, uint32_t first, uint32_t end)
{
    const size_t row = (size_t)lacks->problem->layers + 1;
    return (s * row + first) * row + end;
}

static bool may_end(const struct problem *problem, uint32_t s, uint32_t end)
{
    return problem->can_cut[end] && (end == problem->layers) == (s + 1 == problem->ranks);
}

static uint64_t over(uint64_t bytes, uint64_t capacity)
{
    return bytes > capacity ? bytes - capacity : 0;
}

static uint64_t capacity_of(const struct problem *problem, uint32_t s)
{
    return problem->request->cluster->devices[s].memory_bytes;
}

// Weights, buffers and the workspace without segments: no recomputation avoids them.
static void bound_edges(struct lacks *lacks)
{
    struct problem *problem = lacks->problem;
    for (uint32_t first = 0; first < problem->layers; first++) {
        for (uint32_t end = first + 1; end <= problem->layers; end++) {
            struct stage_bytes bytes = interval_bytes(problem->intervals, first, end);
            bytes.kept = bytes.kept_through = bytes.held = 0;
            bytes.input_life = INPUT_UNTIL_F;
            for (uint32_t s = 0; s < problem->ranks; s++)
                lacks->bytes[edge_of(lacks, s, first, end)] =
                    over(stage_memory_of(&bytes, &problem->slots[s]).peak_bytes, capacity_of(problem, s));
        }
    }
}

static bool fits(struct problem *problem, uint32_t s, uint32_t first, uint32_t end, uint64_t capacity, bool *result,
                 bool *certain, struct error *error)
{
    struct recompute_list list;
    if (!recompute_search(problem->intervals, first, end, &problem->slots[s], capacity, RECOMPUTE_LEAST, MOST_LABELS,
                          &problem->work, &list, error))
        return false;
    *result = list.count > 0;
    *certain = list.count > 0 || list.complete;
    recompute_list_clear(&list);
    return true;
}

// The least memory in which the edge fits, by halving: sizes are multiples of 256.
static bool work_out(struct lacks *lacks, uint32_t s, uint32_t first, uint32_t end, struct error *error)
{
    struct problem *problem = lacks->problem;
    const size_t edge = edge_of(lacks, s, first, end);
    const uint64_t capacity = capacity_of(problem, s);
    struct stage_bytes bytes = interval_bytes(problem->intervals, first, end);
    uint64_t low = lacks->bytes[edge];  // lacks at least so much; without recomputation at most `high`
    uint64_t high = over(stage_memory_of(&bytes, &problem->slots[s]).peak_bytes, capacity);
    bool certain = true;
    while (low < high && certain && !is_enough(lacks)) {
        const uint64_t middle = low + (high - low) / 2;
        bool enough;
        if (!fits(problem, s, first, end, add_clamped(capacity, middle), &enough, &certain, error))
            return false;
        if (enough)
            high = middle;
        else if (certain)
            low = middle + 1;
    }
    lacks->bytes[edge] = low;
    lacks->exact[edge] = low >= high || !certain;
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
                const uint64_t own = lacks->bytes[edge_of(lacks, s, first, end)];
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
        const size_t edge = edge_of(lacks, s, first, end);
        if (lacks->bytes[edge] >= worst.lacks_bytes)
            worst = (struct shortage){ s, first, end, capacity_of(problem, s) + lacks->bytes[edge],
                                       lacks->bytes[edge], lacks->exact[edge] };
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
        }
        end = first;
    }
    return true;
}

static bool find_shortage(struct lacks *lacks, struct shortage *shortage, struct error *error)
{
    bound_edges(lacks);
    bool done = false;
    for (int round = 0; round < MOST_ROUNDS && !done && !is_enough(lacks); round++) {
        find_path(lacks);
        if (!refine_path(lacks, &done, error))
            return false;
    }
    find_path(lacks);
    *shortage = worst_of_path(lacks);
    shortage->exact = done;
    return true;
}

static bool shortage_within(struct problem *problem, uint64_t most_work, struct shortage *shortage, struct error *error)
{
    const size_t row = (size_t)problem->layers + 1, edges = row * row * problem->ranks;
    if (edges > MOST_EDGES)
        return error_set_kind(error, ERROR_ANSWER, "no plan fits the devices' memory");
    struct lacks lacks = { .problem = problem, .limit = add_clamped(problem->work, most_work) };
    lacks.bytes = calloc(edges, sizeof lacks.bytes[0]);
    lacks.exact = calloc(edges, sizeof lacks.exact[0]);
    lacks.most = calloc(row * (problem->ranks + 1), sizeof lacks.most[0]);
    lacks.from = calloc(row * (problem->ranks + 1), sizeof lacks.from[0]);
    bool good = lacks.bytes && lacks.exact && lacks.most && lacks.from;
    if (!good)
        error_no_memory(error, "a search");
    good = good && find_shortage(&lacks, shortage, error);
    free(lacks.bytes);
    free(lacks.exact);
    free(lacks.most);
    free(lacks.from);
    return good;
}

bool infeasible_shortage(struct problem *problem, struct shortage *shortage, struct error *error)
{
    return shortage_within(problem, MOST_WORK, shortage, error);
}

// --- what would help ----------------------------------------------------------------

// Whether the request would have a plan with another schedule or number of ranks.
static bool would_fit(const struct problem *problem, const char *schedule, uint32_t ranks)
{
    struct search_request other = *problem->request;
    other.schedule = schedule;
    other.ranks = ranks;
    other.network = NULL;
    struct error quiet = { 0 };
    struct shortage shortage = { .lacks_bytes = 1 };
    struct problem *trial = problem_create(&other, &quiet);
    const bool fits_then = trial && shortage_within(trial, MOST_TRIAL_WORK, &shortage, &quiet) && shortage.exact
                        && shortage.lacks_bytes == 0;
    problem_free(trial);
    return fits_then;
}

static void add_schedules(const struct problem *problem, struct text *text)
{
    for (const struct generator *other = generators; other->name; other++)
        if (other != problem->generator && would_fit(problem, other->name, problem->ranks))
            text_add(text, ", --schedule %s", other->name);
}

static void add_ranks(const struct problem *problem, struct text *text)
{
    const size_t devices = problem->request->cluster->device_count;
    for (uint32_t ranks = problem->ranks + 1; ranks <= devices && ranks <= 2 * problem->ranks; ranks++) {
        if (would_fit(problem, problem->generator->name, ranks)) {
            text_add(text, ", --ranks %u", ranks);
            return;
        }
    }
    text_add(text, ", more devices");
}

static void say(struct problem *problem, const struct shortage *shortage, struct error *error)
{
    const struct profile *profile = problem->request->profile;
    const struct cluster_device *device = &problem->request->cluster->devices[shortage->stage];
    char needs[NUMBER_SIZE], has[NUMBER_SIZE], lacks[NUMBER_SIZE];
    bytes_format(shortage->needs_bytes, needs);
    bytes_format(device->memory_bytes, has);
    bytes_format(shortage->lacks_bytes, lacks);
    struct text help = { 0 };
    add_schedules(problem, &help);
    add_ranks(problem, &help);
    error_set_kind(error, ERROR_ANSWER,
                   "no plan fits: even in the one that lacks least, stage %u (%.60s to %.60s) needs at least %s with"
                   " recomputation and %.40s has %s, %s too little; what would help: %s%s more memory there%s, smaller"
                   " micro-batches",
                   shortage->stage, profile->layers[shortage->first].name, profile->layers[shortage->end - 1].name,
                   needs, device->name, has, lacks, shortage->exact ? "" : "at least ", lacks, help.failed ? "" : help.data);
    text_clear(&help);
}

void infeasible_explain(struct problem *problem, bool proved, struct error *error)
{
    if (!proved) {
        error_set_kind(error, ERROR_ANSWER, "no plan was found: %s; nothing is proved, a longer search may find one",
                       problem->stopped[0] ? problem->stopped : "a choice of what to recompute was too large to list");
        return;
    }
    struct shortage shortage;
    if (!infeasible_shortage(problem, &shortage, error))
        return;
    if (shortage.lacks_bytes > 0)
        say(problem, &shortage, error);
    else
        error_set_kind(error, ERROR_ANSWER, "no plan fits; how much is missing would take long to work out: what would"
                                            " help is more memory, more devices, or smaller micro-batches");
}
