// Moves of a crewing, by simulated annealing from the best of the seeds:
//
//     a cut moves, or several in a row do alike                 | a b c | d e |  ->  | a b | c d e |
//     a rank goes from one stage to another, a stage is parted,
//     two become one, two exchange their ranks                  all is cut anew
//
// Cutting anew: the least T for which every stage, taking as many layers as it can, has
// its own paths within T (as in arrangement_floor.c; and of r ranks the last begins when
// so many micro-batches have come through the stages before).
#include "partitioner/arrangement/crewing.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/random.h"
#include "partitioner/arrangement/crew_time.h"
#include "partitioner/holding_cost.h"
#include "partitioner/search/search_request.h"
#include "partitioner/variant.h"

struct crewing {
    uint32_t stages;
    uint32_t *replicas, *cuts;
    uint64_t ns;
};

struct crewings {
    struct many *many;
    struct crew_clock *clock;
    enum crew_order order;
    struct crew_stage *crew;
    uint32_t room;          // stages
    const uint32_t *devices;  // of each rank
    uint32_t ranks;
    uint64_t *way, *latency;  // of a message over a cut, on the slowest level; layers + 1
    const char **variants;  // none, of each stage
    uint64_t seed, work;
};

static const struct { const char *name; enum crew_order order; } known[] = {
    { "1f1b", CREW_1F1B }, { "gpipe", CREW_GPIPE }, { "forward-only", CREW_FORWARD_ONLY }
};

static bool order_of(const char *schedule, enum crew_order *order)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        *order = known[i].order;
        if (strcmp(schedule, known[i].name) == 0)
            return true;
    }
    return false;
}

bool crewings_are_known(const struct many *many)
{
    enum crew_order order;
    return many->request->free.replicas && many->choosing->names->count == 1
        && order_of(many->request->schedule, &order);
}

// --- a crewing's time -----------------------------------------------------------------------

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t speed_of(const struct crewings *crewings, uint32_t seat, uint32_t ranks)
{
    const struct cluster_device *devices = crewings->many->request->cluster->devices;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = seat; i < seat + ranks; i++) {
        const uint64_t speed = devices[crewings->devices[i]].speed_permille;
        least = speed < least ? speed : least;
    }
    return least;
}

static struct crew_stage stage_of(const struct crewings *crewings, uint32_t first, uint32_t end, uint32_t ranks,
                                  uint64_t speed)
{
    const struct intervals *of = crewings->many->of[0];
    const bool has_backward = crewings->order != CREW_FORWARD_ONLY;
    return (struct crew_stage){
        .ranks = ranks,
        .forward_ns = stage_scaled_ns(interval_forward_ns(of, first, end), speed),
        .backward_ns = has_backward ? stage_scaled_ns(interval_backward_ns(of, first, end), speed) : 0,
        .reduce_ns = has_backward ? many_reduce_ns(crewings->many, of->weights[end] - of->weights[first], ranks) : 0,
        .busy_ns = crewings->way[end] - crewings->latency[end],
        .latency_ns = crewings->latency[end],
    };
}

static uint64_t time_of(struct crewings *crewings, const struct crewing *crewing)
{
    uint32_t seat = 0;
    for (uint32_t s = 0; s < crewing->stages; s++) {
        const uint32_t ranks = crewing->replicas[s];
        crewings->crew[s] =
            stage_of(crewings, crewing->cuts[s], crewing->cuts[s + 1], ranks, speed_of(crewings, seat, ranks));
        seat += ranks;
    }
    crewings->work += 1 + (uint64_t)crewings->many->request->micro_batches * crewing->stages / 128;
    return crew_time(crewings->clock, crewings->order, crewings->crew, crewing->stages);
}

// --- cutting anew -------------------------------------------------------------------------

// What is known where a stage begins.
struct front {
    uint64_t forward, backward;  // what a micro-batch took until here, and takes from here on back
    uint32_t left;               // ranks from here on
};

static uint64_t around(uint64_t round, uint64_t own, uint64_t ahead, uint64_t f, uint64_t b)
{
    const uint64_t once = round + larger((own - ahead) * f + (own - 1) * b, (own - 1) * f + (own - ahead) * b);
    if (own == ahead)
        return once;
    const uint64_t most = (own - 1) / ahead + 1, twice = 2 * round + (own - 1 - ahead) * (f + b);
    return larger(larger(once, twice), most * round + (own - 1 - (most - 1) * ahead) * (f + b));
}

// How long the last of so many ranks waits for its first micro-batch because the stages before do others first.
static uint64_t wait_of(const struct crew_stage *before, uint32_t count, uint32_t ranks, bool is_back)
{
    uint64_t most = 0;
    for (uint32_t t = 0; t < count; t++)
        most = larger(most, (ranks - 1) / before[t].ranks * (is_back ? before[t].backward_ns : before[t].forward_ns));
    return most;
}

static uint64_t path_of(const struct crewings *crewings, const struct crewing *crewing, uint32_t s,
                        const struct front *front, const struct crew_stage *stage, uint32_t end)
{
    const struct intervals *of = crewings->many->of[0];
    const uint32_t layers = crewings->many->layers, m = crewings->many->request->micro_batches;
    const uint64_t own = (m + stage->ranks - 1) / stage->ranks, f = stage->forward_ns, b = stage->backward_ns;
    const uint64_t most = (front->left + stage->ranks - 1) / stage->ranks;
    const uint64_t ahead = most < own && crewings->order == CREW_1F1B ? most : own;
    uint64_t inner = own * (f + b), wait = 0, wait_back = 0;
    if (s > 0) {
        const uint32_t ranks = m % stage->ranks ? m % stage->ranks : stage->ranks;
        wait = wait_of(crewings->crew, s, ranks, false);
        wait_back = wait_of(crewings->crew, s, ranks, true);
    }
    if (crewings->order == CREW_FORWARD_ONLY)
        return front->forward + wait + inner;
    const uint64_t rest = interval_forward_ns(of, end, layers) + interval_backward_ns(of, end, layers);
    const uint64_t ways = 2 * crewings->way[end] * (crewing->stages - 1 - s);
    const uint64_t round = f + b + ways + rest * 1000 / crewings->many->speed;
    inner = larger(inner, around(round, own, ahead, f, b));
    return front->forward + inner + larger(front->backward + larger(wait, wait_back), wait + stage->reduce_ns);
}

// As many layers as stay within the limit; whether one stage after the other reaches the end.
static bool cut_within(struct crewings *crewings, struct crewing *crewing, uint64_t limit_ns)
{
    const struct many *many = crewings->many;
    struct front front = { .left = crewings->ranks };
    uint32_t seat = 0;
    crewing->cuts[0] = 0;
    for (uint32_t s = 0; s < crewing->stages; s++) {
        const uint32_t ranks = crewing->replicas[s], first = crewing->cuts[s], behind = crewing->stages - 1 - s;
        const uint64_t speed = speed_of(crewings, seat, ranks);
        uint32_t low = first, high = many->layers + 1 - behind;
        while (high - low > 1) {
            const uint32_t middle = low + (high - low) / 2;
            const struct crew_stage stage = stage_of(crewings, first, middle, ranks, speed);
            if (path_of(crewings, crewing, s, &front, &stage, middle) <= limit_ns)
                low = middle;
            else
                high = middle;
        }
        while (low > first && !many->can_cut[low])
            low--;
        if (low <= first || (behind == 0 && low < many->layers))
            return false;
        crewing->cuts[s + 1] = low;
        crewings->crew[s] = stage_of(crewings, first, low, ranks, speed);
        front.forward += crewings->crew[s].forward_ns + crewings->way[low];
        front.backward += crewings->crew[s].backward_ns + crewings->way[low];
        front.left -= ranks;
        seat += ranks;
    }
    return true;
}

// Whether there is a limit within which it can be cut. Times it.
static bool cut_anew(struct crewings *crewings, struct crewing *crewing)
{
    uint64_t low = crewings->many->choosing->bound_ns, high = 2 * low + 1;
    for (int tries = 0; !cut_within(crewings, crewing, high); tries++) {
        if (tries == 12)
            return false;
        low = high;
        high *= 2;
    }
    while (high - low > low / 512 + 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (cut_within(crewings, crewing, middle))
            high = middle;
        else
            low = middle;
    }
    crewings->work += crewing->stages;
    if (!cut_within(crewings, crewing, high))
        return false;
    crewing->ns = time_of(crewings, crewing);
    return true;
}

// --- moves ----------------------------------------------------------------------------------

static void copy(struct crewing *to, const struct crewing *from)
{
    to->stages = from->stages;
    to->ns = from->ns;
    memcpy(to->replicas, from->replicas, from->stages * sizeof to->replicas[0]);
    memcpy(to->cuts, from->cuts, ((size_t)from->stages + 1) * sizeof to->cuts[0]);
}

// The next place to cut, so many places away; 0 where there is none.
static uint32_t moved(const struct many *many, uint32_t cut, int places)
{
    const int step = places < 0 ? -1 : 1;
    int64_t at = cut;
    for (int left = places * step; left > 0; left--) {
        do
            at += step;
        while (at > 0 && at < many->layers && !many->can_cut[at]);
        if (at <= 0 || at >= many->layers)
            return 0;
    }
    return (uint32_t)at;
}

static bool move_cuts(struct crewings *crewings, struct crewing *crewing)
{
    if (crewing->stages < 2)
        return false;
    const uint32_t from = 1 + (uint32_t)random_below(&crewings->seed, crewing->stages - 1);
    uint32_t to = from + 1;
    int places = random_below(&crewings->seed, 3) == 0 ? 2 : 1;
    if (random_below(&crewings->seed, 2))
        to = from + 1 + (uint32_t)random_below(&crewings->seed, crewing->stages - from);
    if (random_below(&crewings->seed, 2))
        places = -places;
    for (uint32_t c = from; c < to; c++) {
        crewing->cuts[c] = moved(crewings->many, crewing->cuts[c], places);
        if (crewing->cuts[c] == 0)
            return false;
    }
    return crewing->cuts[from] > crewing->cuts[from - 1] && crewing->cuts[to - 1] < crewing->cuts[to];
}

static void insert(struct crewing *crewing, uint32_t s, uint32_t ranks)
{
    memmove(&crewing->replicas[s + 1], &crewing->replicas[s], (crewing->stages - s) * sizeof crewing->replicas[0]);
    crewing->replicas[s] = ranks;
    crewing->stages++;
}

static void take_out(struct crewing *crewing, uint32_t s)
{
    crewing->stages--;
    memmove(&crewing->replicas[s], &crewing->replicas[s + 1], (crewing->stages - s) * sizeof crewing->replicas[0]);
}

static bool move_ranks(struct crewings *crewings, struct crewing *crewing)
{
    const uint32_t s = (uint32_t)random_below(&crewings->seed, crewing->stages);
    const uint32_t t = (uint32_t)random_below(&crewings->seed, crewing->stages);
    const uint32_t m = crewings->many->request->micro_batches;
    switch (random_below(&crewings->seed, 4)) {
    case 0:
        if (s == t || crewing->replicas[t] >= m)
            return false;
        crewing->replicas[t]++;
        if (--crewing->replicas[s] == 0)
            take_out(crewing, s);
        break;
    case 1:
        if (crewing->replicas[s] < 2 || crewing->stages >= crewings->room)
            return false;
        insert(crewing, s, 1 + (uint32_t)random_below(&crewings->seed, crewing->replicas[s] - 1));
        crewing->replicas[s + 1] -= crewing->replicas[s];
        break;
    case 2:
        if (s + 1 >= crewing->stages || crewing->replicas[s] + crewing->replicas[s + 1] > m)
            return false;
        crewing->replicas[s + 1] += crewing->replicas[s];
        take_out(crewing, s);
        break;
    default:
        if (crewing->replicas[s] == crewing->replicas[t])
            return false;
        const uint32_t ranks = crewing->replicas[s];
        crewing->replicas[s] = crewing->replicas[t];
        crewing->replicas[t] = ranks;
    }
    return cut_anew(crewings, crewing);
}

// --- annealing --------------------------------------------------------------------------------

struct annealing {
    struct crewing now, trial, best;
};

// Up to so much work; at first a move may be worse by that part.
static void anneal(struct crewings *crewings, struct annealing *annealing, double heat, uint64_t work)
{
    const uint64_t since = crewings->work;
    copy(&annealing->now, &annealing->best);
    while (crewings->work - since < work && !choosing_must_stop(crewings->many->choosing)) {
        struct crewing *now = &annealing->now, *trial = &annealing->trial;
        const double left = 1 - (double)(crewings->work - since) / (double)work;
        crewings->work++;
        copy(trial, now);
        if (random_below(&crewings->seed, 2)) {
            if (!move_cuts(crewings, trial))
                continue;
            trial->ns = time_of(crewings, trial);
        } else if (!move_ranks(crewings, trial)) {
            continue;
        }
        const uint64_t worse = (uint64_t)((double)now->ns * heat * left * left) + 1;
        if (trial->ns <= now->ns || trial->ns - now->ns < random_below(&crewings->seed, worse)) {
            copy(now, trial);
            if (now->ns < annealing->best.ns)
                copy(&annealing->best, now);
        }
    }
}

static bool make_room(struct crewings *crewings, struct crewing *crewing)
{
    crewing->replicas = calloc((size_t)crewings->room + 1, sizeof crewing->replicas[0]);
    crewing->cuts = calloc((size_t)crewings->room + 2, sizeof crewing->cuts[0]);
    return crewing->replicas && crewing->cuts;
}

static void clear(struct crewing *crewing)
{
    free(crewing->replicas);
    free(crewing->cuts);
}

// From stages with these ranks, and the best cuts for them.
static bool start(struct crewings *crewings, struct crewing *best, const struct arrangement *from)
{
    crewings->devices = from->devices;
    crewings->ranks = from->ranks;
    best->stages = from->stages;
    memcpy(best->replicas, from->replicas, from->stages * sizeof best->replicas[0]);
    return from->stages <= crewings->room && cut_anew(crewings, best);
}

// Adds it, or its cuts where its ranks are known with worse ones.
static bool note(struct crewings *crewings, const struct crewing *best, struct arrangements *found, struct error *error)
{
    for (size_t i = 0; i < found->count; i++) {
        struct arrangement *other = &found->at[i];
        if (other->stages != best->stages || other->ranks != crewings->ranks
            || memcmp(other->replicas, best->replicas, best->stages * sizeof best->replicas[0]) != 0
            || memcmp(other->devices, crewings->devices, crewings->ranks * sizeof other->devices[0]) != 0)
            continue;
        if (best->ns < other->estimate_ns) {
            memcpy(other->cuts, best->cuts, ((size_t)best->stages + 1) * sizeof best->cuts[0]);
            other->estimate_ns = best->ns;
        }
        return true;
    }
    const struct arrangement now = { .ranks = crewings->ranks, .device_count = crewings->ranks, .stages = best->stages,
                                     .replicas = best->replicas, .cuts = best->cuts, .variants = crewings->variants,
                                     .devices = (uint32_t *)crewings->devices, .estimate_ns = best->ns };
    return arrangement_add(found, &now, error);
}

static int compare(const void *left, const void *right)
{
    const struct arrangement *a = left, *b = right;
    return a->estimate_ns < b->estimate_ns ? -1 : a->estimate_ns > b->estimate_ns;
}

// From what the bound of all arrangements could not refuse.
static bool start_from_bound(struct crewings *crewings, struct crewing *best, const struct arrangement *first)
{
    const struct arrangement *reached = &crewings->many->choosing->reached;
    if (reached->stages == 0 || reached->stages > crewings->room)
        return false;
    crewings->devices = first->devices;
    crewings->ranks = reached->ranks;
    best->stages = reached->stages;
    memcpy(best->replicas, reached->replicas, best->stages * sizeof best->replicas[0]);
    memcpy(best->cuts, reached->cuts, ((size_t)best->stages + 1) * sizeof best->cuts[0]);
    best->ns = time_of(crewings, best);
    return true;
}

static void sort(struct arrangements *found)
{
    if (found->count > 0)
        qsort(found->at, found->count, sizeof found->at[0], compare);
}

static void copy_from(struct crewings *crewings, struct crewing *best, const struct arrangement *from)
{
    crewings->devices = from->devices;
    crewings->ranks = from->ranks;
    best->stages = from->stages;
    best->ns = from->estimate_ns;
    memcpy(best->replicas, from->replicas, from->stages * sizeof best->replicas[0]);
    memcpy(best->cuts, from->cuts, ((size_t)from->stages + 1) * sizeof best->cuts[0]);
}

// A short way from each seed, then long ones from the best.
static bool find(struct crewings *crewings, struct arrangements *found, struct error *error)
{
    enum { SHORT_PART = 40, LONG_PART = 6, MOST_STARTS = 8, LONG_STARTS = 3 };
    const struct arrangements *seeds = &crewings->many->seeds;
    const struct choosing *choosing = crewings->many->choosing;
    const uint64_t rest = choosing->budget > choosing->work ? choosing->budget - choosing->work : 0;
    struct annealing annealing = { { 0 }, { 0 }, { 0 } };
    bool good = (make_room(crewings, &annealing.now) && make_room(crewings, &annealing.trial)
                 && make_room(crewings, &annealing.best)) || error_no_memory(error, "the arrangements of a plan");
    if (good && seeds->count > 0 && start_from_bound(crewings, &annealing.best, &seeds->at[0])) {
        anneal(crewings, &annealing, 0.05, rest / SHORT_PART);
        good = note(crewings, &annealing.best, found, error);
    }
    for (size_t i = 0; good && i < seeds->count && i < MOST_STARTS; i++) {
        if (!start(crewings, &annealing.best, &seeds->at[i]))
            continue;
        anneal(crewings, &annealing, 0.05, rest / SHORT_PART);
        good = note(crewings, &annealing.best, found, error);
    }
    sort(found);
    for (size_t i = 0; good && i < found->count && i < LONG_STARTS; i++) {
        copy_from(crewings, &annealing.best, &found->at[i]);
        anneal(crewings, &annealing, 0.005, rest / LONG_PART);
        good = note(crewings, &annealing.best, found, error);
    }
    sort(found);
    clear(&annealing.now);
    clear(&annealing.trial);
    clear(&annealing.best);
    return good;
}

static void price_way(struct crewings *crewings, uint32_t cut)
{
    const struct cluster *cluster = crewings->many->request->cluster;
    for (size_t i = 0; i < cluster->level_count; i++) {
        const struct cluster_level *level = &cluster->levels[i];
        const uint64_t way = transfer_ns(crewings->many->of[0]->cut[cut], level->bytes_per_second, level->latency_ns);
        if (way >= crewings->way[cut]) {
            crewings->way[cut] = way;
            crewings->latency[cut] = level->latency_ns;
        }
    }
}

bool crewings_find(struct many *many, struct arrangements *found, struct error *error)
{
    struct crewings crewings = { .many = many, .seed = 1,
                                 .room = many->devices < many->layers ? many->devices : many->layers };
    order_of(many->request->schedule, &crewings.order);
    crewings.clock = crew_clock_create(crewings.room, many->request->micro_batches, error);
    crewings.crew = calloc(crewings.room, sizeof crewings.crew[0]);
    crewings.way = calloc((size_t)many->layers + 1, sizeof crewings.way[0]);
    crewings.latency = calloc((size_t)many->layers + 1, sizeof crewings.latency[0]);
    crewings.variants = calloc(crewings.room, sizeof crewings.variants[0]);
    bool good = crewings.clock && ((crewings.crew && crewings.way && crewings.latency && crewings.variants)
                                   || error_no_memory(error, "the arrangements of a plan"));
    for (uint32_t l = 1; good && l < many->layers; l++)
        price_way(&crewings, l);
    good = good && find(&crewings, found, error);
    many->choosing->work += crewings.work;
    crew_clock_free(crewings.clock);
    free(crewings.crew);
    free(crewings.way);
    free(crewings.latency);
    free(crewings.variants);
    return good;
}
