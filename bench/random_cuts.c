#include "bench/random_cuts.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/random.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/search/recompute.h"
#include "partitioner/search/search_request.h"
#include "schedules/lower.h"

#define MOST_LABELS 20000  // of one search for the quickest recomputation

enum { MOST_STAGES = 64, PATIENCE = 2000, MOST_KICKS = 30, MOVES_PER_LOOK = 64, WIDTH = 6, PRECISION = 2000 };

// Layers [first, end) on a stage.
struct priced {
    bool fits;
    struct cost_row row;
};

struct cuts {
    uint32_t at[MOST_STAGES + 1];
    uint64_t time_ns;  // UINT64_MAX: they do not fit
};

struct random_cuts {
    const struct search_request *request;
    uint32_t layers, stages;
    struct intervals *intervals;
    struct slots *slots;
    struct simulator *simulator;
    struct priced **priced;  // [(stage * layers + first) * (layers + 1) + end]; NULL: not computed yet
    uint64_t memory_bytes;   // for which these are priced
    struct cuts first, best;
    uint64_t seed;
    bool failed;             // no memory
};

// --- making it ------------------------------------------------------------------------------

static size_t cells_of(const struct random_cuts *random)
{
    return (size_t)random->stages * random->layers * (random->layers + 1);
}

static struct network *network_of(const struct search_request *request, struct error *error)
{
    uint32_t devices[MOST_STAGES];
    for (uint32_t r = 0; r < request->ranks; r++)
        devices[r] = r;
    return cluster_network(request->cluster, devices, request->ranks, error);
}

static struct simulator *make_simulator(const struct search_request *request, struct error *error)
{
    struct network *network = network_of(request, error);
    struct schedule *order =
        network ? schedule_generate(request->schedule, request->ranks, 1, request->micro_batches, error) : NULL;
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    struct simulator *simulator = lowered ? simulator_create(lowered, network, error) : NULL;
    schedule_free(lowered);
    schedule_free(order);
    network_free(network);
    return simulator;
}

struct random_cuts *random_cuts_create(const struct search_request *request, struct error *error)
{
    struct random_cuts *random = calloc(1, sizeof *random);
    if (!random || request->ranks > MOST_STAGES) {
        free(random);
        return error_null(error_set(error, "random cuts are for %u stages at most", (unsigned)MOST_STAGES));
    }
    random->request = request;
    random->layers = (uint32_t)request->profile->layer_count;
    random->stages = request->ranks;
    random->seed = 1;
    random->first.time_ns = random->best.time_ns = UINT64_MAX;
    random->priced = calloc(cells_of(random), sizeof random->priced[0]);
    random->intervals = intervals_create(request->profile, &request->storage, error);
    random->slots = search_slots(request, error);
    random->simulator = make_simulator(request, error);
    if (random->priced && random->intervals && random->slots && random->simulator)
        return random;
    error_no_memory(error, "random cuts");
    random_cuts_free(random);
    return NULL;
}

static void forget_prices(struct random_cuts *random)
{
    for (size_t i = 0; random->priced && i < cells_of(random); i++) {
        free(random->priced[i]);
        random->priced[i] = NULL;
    }
}

void random_cuts_free(struct random_cuts *random)
{
    if (!random)
        return;
    forget_prices(random);
    free(random->priced);
    simulator_free(random->simulator);
    free(random->slots);
    intervals_free(random->intervals);
    free(random);
}

// --- prices ---------------------------------------------------------------------------------

static bool price(struct random_cuts *random, uint32_t stage, uint32_t first, uint32_t end, struct priced *priced)
{
    const struct search_request *request = random->request;
    const struct stage_place place = { .speed_permille = 1000, .replicas = 1 };
    struct recompute_list list;
    struct error error = { 0 };
    uint64_t work = 0;
    if (!recompute_search(random->intervals, first, end, &random->slots[stage], random->memory_bytes, RECOMPUTE_LEAST,
                          MOST_LABELS, &work, &list, &error))
        return false;
    priced->fits = list.count > 0;
    if (priced->fits)
        priced->row = stage_cost_at(request->profile, first, end, list.at[0].segments, list.at[0].count,
                                    &request->storage, &place);
    recompute_list_clear(&list);
    return true;
}

// NULL if there is no memory for it.
static const struct priced *ask(struct random_cuts *random, uint32_t stage, uint32_t first, uint32_t end)
{
    struct priced **priced = &random->priced[((size_t)stage * random->layers + first) * (random->layers + 1) + end];
    if (!*priced) {
        struct priced *made = calloc(1, sizeof *made);
        if (!made || !price(random, stage, first, end, made)) {
            free(made);
            random->failed = true;
            return NULL;
        }
        *priced = made;
    }
    return *priced;
}

static void time_cuts(struct random_cuts *random, struct cuts *cuts)
{
    struct cost_row rows[MOST_STAGES];
    cuts->time_ns = UINT64_MAX;
    for (uint32_t s = 0; s < random->stages; s++) {
        const struct priced *priced = ask(random, s, cuts->at[s], cuts->at[s + 1]);
        if (!priced || !priced->fits)
            return;
        rows[s] = priced->row;
    }
    cuts->time_ns = simulator_iteration_ns(random->simulator, rows);
}

// --- the least memory -----------------------------------------------------------------------

static bool can_cut(const struct random_cuts *random, uint32_t cut)
{
    return cut == 0 || cut == random->layers || profile_can_cut_after(random->request->profile, cut - 1);
}

// Where the stages up to some one may end, farthest end first, and where the last of these stages then begins.
struct reach {
    uint32_t end[WIDTH], first[WIDTH];
    unsigned count;
};

// A lower bound for any recomputation: kept activations are not counted.
static uint64_t bytes_at_least(const struct random_cuts *random, uint32_t stage, uint32_t first, uint32_t end)
{
    struct stage_bytes bytes = interval_bytes(random->intervals, first, end);
    bytes.kept = bytes.kept_through = bytes.held = bytes.input = 0;
    return stage_memory_of(&bytes, &random->slots[stage]).peak_bytes;
}

static bool fits(struct random_cuts *random, uint32_t stage, uint32_t first, uint32_t end)
{
    if (bytes_at_least(random, stage, first, end) > random->memory_bytes)
        return false;
    const struct priced *priced = ask(random, stage, first, end);
    return priced && priced->fits;
}

// The farthest end of a stage that begins at `first`, or `first` if there is none. Bisects, as if more layers always
// needed more memory.
static uint32_t find_end(struct random_cuts *random, uint32_t stage, uint32_t first)
{
    uint32_t good = first, bad = random->layers - (random->stages - 1 - stage) + 1;
    while (bad - good > 1) {
        const uint32_t middle = good + (bad - good) / 2;
        if (fits(random, stage, first, middle))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

static void add_end(struct reach *reach, uint32_t first, uint32_t end)
{
    unsigned place = 0;
    while (place < reach->count && reach->end[place] > end)
        place++;
    if (place == WIDTH || (place < reach->count && reach->end[place] == end))
        return;
    for (unsigned i = reach->count < WIDTH ? reach->count++ : WIDTH - 1; i > place; i--) {
        reach->end[i] = reach->end[i - 1];
        reach->first[i] = reach->first[i - 1];
    }
    reach->end[place] = end;
    reach->first[place] = first;
}

// Adds possible ends of a stage. The last stage needs all remaining layers.
static void add_ends(struct random_cuts *random, uint32_t stage, uint32_t first, struct reach *after)
{
    if (stage + 1 == random->stages) {
        if (fits(random, stage, first, random->layers))
            add_end(after, first, random->layers);
        return;
    }
    unsigned left = WIDTH;
    for (uint32_t end = find_end(random, stage, first); end > first && left > 0; end--) {
        if (!can_cut(random, end) || !fits(random, stage, first, end))
            continue;
        add_end(after, first, end);
        left--;
    }
}

// Finds cuts in which each stage takes as many layers as it can, or a few less. False if that is not enough.
static bool find_first_cuts(struct random_cuts *random, uint64_t memory_bytes)
{
    struct reach reach[MOST_STAGES + 1] = { { .count = 1 } };
    forget_prices(random);
    random->memory_bytes = memory_bytes;
    for (uint32_t s = 0; s < random->stages; s++)
        for (unsigned i = 0; i < reach[s].count; i++)
            add_ends(random, s, reach[s].end[i], &reach[s + 1]);
    if (reach[random->stages].count == 0)
        return false;
    uint32_t end = random->first.at[random->stages] = random->layers;
    for (uint32_t s = random->stages; s-- > 0;) {
        unsigned i = 0;
        while (reach[s + 1].end[i] != end)
            i++;
        end = random->first.at[s] = reach[s + 1].first[i];
    }
    random->best = random->first;
    return true;
}

bool random_cuts_least_bytes(struct random_cuts *random, uint64_t *bytes, struct error *error)
{
    uint64_t few = 0, enough = 1 << 20;
    while (!random->failed && enough < (uint64_t)1 << 60 && !find_first_cuts(random, enough)) {
        few = enough;
        enough *= 2;
    }
    while (!random->failed && enough - few > enough / PRECISION) {
        const uint64_t middle = few + (enough - few) / 2;
        if (find_first_cuts(random, middle))
            enough = middle;
        else
            few = middle;
    }
    *bytes = enough;
    return !random->failed || error_no_memory(error, "random cuts");
}

// --- moves ----------------------------------------------------------------------------------

static uint32_t draw(struct random_cuts *random, uint32_t below)
{
    return (uint32_t)random_below(&random->seed, below);
}

// Moves a cut some layers to the left or right, mostly few.
static bool shift(struct random_cuts *random, struct cuts *cuts)
{
    const uint32_t s = 1 + draw(random, random->stages - 1);
    const uint32_t distance = 1 + draw(random, 1u << draw(random, 6));
    const bool left = draw(random, 2) == 0;
    if (left ? cuts->at[s] < cuts->at[s - 1] + 1 + distance : cuts->at[s] + distance >= cuts->at[s + 1])
        return false;
    cuts->at[s] = left ? cuts->at[s] - distance : cuts->at[s] + distance;
    return can_cut(random, cuts->at[s]);
}

// Removes a cut and inserts one anywhere.
static bool leap(struct random_cuts *random, struct cuts *cuts)
{
    const uint32_t gone = 1 + draw(random, random->stages - 1), to = 1 + draw(random, random->layers - 1);
    memmove(&cuts->at[gone], &cuts->at[gone + 1], (random->stages - gone) * sizeof cuts->at[0]);
    uint32_t s = 1;
    while (cuts->at[s] < to)
        s++;
    if (cuts->at[s] == to || !can_cut(random, to))
        return false;
    memmove(&cuts->at[s + 1], &cuts->at[s], (random->stages - s) * sizeof cuts->at[0]);
    cuts->at[s] = to;
    return true;
}

// Makes a random move. False if it is not possible; otherwise its time is known.
static bool move(struct random_cuts *random, const struct cuts *from, struct cuts *to)
{
    *to = *from;
    const uint32_t kind = draw(random, 4);
    if (kind == 0 ? !leap(random, to) : !shift(random, to) || (kind == 1 && !shift(random, to)))
        return false;
    time_cuts(random, to);
    return true;
}

static void kick(struct random_cuts *random, struct cuts *now)
{
    *now = draw(random, 3) == 0 && random->first.time_ns < UINT64_MAX ? random->first : random->best;
    for (uint32_t left = 1 + draw(random, MOST_KICKS); left > 0; left--) {
        struct cuts to;
        if (move(random, now, &to) && to.time_ns < UINT64_MAX)
            *now = to;
    }
}

// Makes some moves from these cuts. `idle` counts moves since the last gain.
static void try_moves(struct random_cuts *random, struct cuts *now, uint32_t *idle)
{
    for (unsigned i = 0; i < MOVES_PER_LOOK && !random->failed; i++) {
        struct cuts to;
        ++*idle;
        if (!move(random, now, &to) || to.time_ns > now->time_ns)
            continue;
        *idle = to.time_ns < now->time_ns ? 0 : *idle;
        *now = to;
    }
    if (now->time_ns < random->best.time_ns)
        random->best = *now;
}

bool random_cuts_search(struct random_cuts *random, uint64_t memory_bytes, double seconds, uint64_t *iteration_ns,
                        struct error *error)
{
    const clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
    uint32_t idle = 0;
    forget_prices(random);
    random->memory_bytes = memory_bytes;
    time_cuts(random, &random->first);
    time_cuts(random, &random->best);
    if (random->best.time_ns > random->first.time_ns)
        random->best = random->first;
    struct cuts now = random->best;
    while (random->best.time_ns < UINT64_MAX && random->stages > 1 && !random->failed && clock() < end) {
        if (idle >= PATIENCE)
            kick(random, &now);
        idle = idle >= PATIENCE ? 0 : idle;
        try_moves(random, &now, &idle);
    }
    *iteration_ns = random->best.time_ns;
    return !random->failed || error_no_memory(error, "random cuts");
}
