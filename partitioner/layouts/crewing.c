// Moves of a crewing, by simulated annealing from the best of the seeds:
//
//     a cut moves, or several in a row do alike                 | a b c | d e |  ->  | a b | c d e |
//     a rank goes from one stage to another, a stage is parted,
//     two become one, two exchange their ranks                  all is cut anew
//
// Cutting anew (crewing_parts.c): the least T for which every stage, taking as many layers
// as it can, has its own paths within T (as in arrangement_floor.c; and of r ranks the last
// begins when so many micro-batches have come through the stages before).
#include "partitioner/layouts/crewing.h"

#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "partitioner/layouts/crewing_parts.h"

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

// False where no cuts keep its paths within the limit.
static bool move_ranks(struct crewings *crewings, struct crewing *crewing, uint64_t limit_ns)
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
    return crewing_cut(crewings, crewing, limit_ns);
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
        const uint64_t worse = (uint64_t)((double)now->ns * heat * left * left) + 1;
        crewings->work++;
        copy(trial, now);
        if (random_below(&crewings->seed, 2)) {
            if (!move_cuts(crewings, trial))
                continue;
            trial->ns = crewing_time(crewings, trial);
        } else if (!move_ranks(crewings, trial, now->ns + worse)) {
            continue;
        }
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
    uint64_t limit_ns = 2 * crewings->many->choosing->bound_ns + 1;
    if (from->stages > crewings->room)
        return false;
    crewings_sit(crewings, from->devices, from->ranks);
    best->stages = from->stages;
    memcpy(best->replicas, from->replicas, from->stages * sizeof best->replicas[0]);
    for (int tries = 0; !crewing_cut(crewings, best, limit_ns); tries++) {
        if (tries == 12)
            return false;
        limit_ns *= 2;
    }
    return true;
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

static void sort(struct arrangements *found)
{
    if (found->count > 0)
        qsort(found->at, found->count, sizeof found->at[0], compare);
}

static void copy_from(struct crewings *crewings, struct crewing *best, const struct arrangement *from)
{
    crewings_sit(crewings, from->devices, from->ranks);
    best->stages = from->stages;
    best->ns = from->estimate_ns;
    memcpy(best->replicas, from->replicas, from->stages * sizeof best->replicas[0]);
    memcpy(best->cuts, from->cuts, ((size_t)from->stages + 1) * sizeof best->cuts[0]);
}

// All that were reached: which of them goes on best, their paths do not say.
static bool note_all(struct crewings *crewings, const struct crew_reach *reach, struct crewing *best,
                     struct arrangements *found, struct error *error)
{
    bool good = true;
    for (uint32_t i = 0; good && i < crew_reach_count(reach); i++) {
        if (!crew_reach_read(reach, i, best))
            continue;
        best->ns = crewing_time(crewings, best);
        good = note(crewings, best, found, error);
    }
    return good;
}

// As many stages behind each seat as the best has.
static void expect_best(struct crewings *crewings, const struct arrangements *found, struct crewing *best)
{
    const struct arrangement *quickest = &found->at[0];
    for (size_t i = 1; i < found->count; i++)
        quickest = found->at[i].estimate_ns < quickest->estimate_ns ? &found->at[i] : quickest;
    best->stages = quickest->stages;
    memcpy(best->replicas, quickest->replicas, best->stages * sizeof best->replicas[0]);
    crewings_expect(crewings, best);
}

// Stages that keep their paths within limits from the least on that lets there be some: where they go on best is not
// where they seem to be best. The least is seldom far above the bound, where steps towards it begin.
static bool note_reached(struct crewings *crewings, const struct arrangement *first, struct crewing *best,
                         struct arrangements *found, struct error *error)
{
    enum { PART = 64, STEPS = 8, MORE = 6, STEPS_OF_TURNS = 10, MORE_OF_TURNS = 2 };
    const bool turns = crewings->turns;
    const int steps = turns ? STEPS_OF_TURNS : STEPS, more = turns ? MORE_OF_TURNS : MORE;
    struct crew_reach *reach = NULL;
    crewings_sit(crewings, first->devices, first->ranks);
    reach = crew_reach_create(crewings, error);
    bool good = reach != NULL;
    uint64_t low = crewings->many->choosing->bound_ns, high = 0, stride = low / PART + 1;
    for (int i = 0; good && i < steps + more && !choosing_must_stop(crewings->many->choosing); i++) {
        uint64_t limit_ns = high > 0 ? low + (high - low) / 2 : low + stride;
        if (i >= steps && high > 0)
            limit_ns = high + high / 1000;
        const bool reaches = crew_reach_within(reach, limit_ns);
        good = !reaches || note_all(crewings, reach, best, found, error);
        if (good && turns && found->count > 0)
            expect_best(crewings, found, best);
        if (turns && reaches && high == 0)
            low = crewings->many->choosing->bound_ns;
        if (reaches || (i >= steps && high > 0))
            high = limit_ns;
        else
            low = limit_ns;
        stride *= 2;
    }
    crew_reach_free(reach);
    return good;
}

// A short way from each seed that is not far behind.
static bool note_seeds(struct crewings *crewings, struct annealing *annealing, uint64_t work,
                       struct arrangements *found, struct error *error)
{
    enum { MOST_STARTS = 8 };
    const struct arrangements *seeds = &crewings->many->seeds;
    bool good = true;
    sort(found);
    const uint64_t best_ns = found->count > 0 ? found->at[0].estimate_ns : UINT64_MAX / 2;
    for (size_t i = 0; good && i < seeds->count && i < MOST_STARTS; i++) {
        if (!start(crewings, &annealing->best, &seeds->at[i]) || annealing->best.ns - best_ns / 4 > best_ns)
            continue;
        anneal(crewings, annealing, 0.05, work);
        good = note(crewings, &annealing->best, found, error);
    }
    return good;
}

// Then long ones from the best, unless ranks are so many that they find nothing more.
static bool note_best(struct crewings *crewings, struct annealing *annealing, uint64_t work,
                      struct arrangements *found, struct error *error)
{
    enum { MOST_STARTS = 3 };
    const double heat = crewings->speed > 0 ? 0.01 : 0.005;  // unlike devices part good crewings by more
    bool good = true;
    sort(found);
    for (size_t i = 0; good && !crewings->turns && i < found->count && i < MOST_STARTS; i++) {
        copy_from(crewings, &annealing->best, &found->at[i]);
        anneal(crewings, annealing, heat, work);
        good = note(crewings, &annealing->best, found, error);
    }
    sort(found);
    return good;
}

static bool find(struct crewings *crewings, struct arrangements *found, struct error *error)
{
    enum { SHORT_PART = 40, LONG_PART = 4 };
    const struct arrangements *seeds = &crewings->many->seeds;
    const struct choosing *choosing = crewings->many->choosing;
    struct annealing annealing = { { 0 }, { 0 }, { 0 } };
    bool good = (make_room(crewings, &annealing.now) && make_room(crewings, &annealing.trial)
                 && make_room(crewings, &annealing.best)) || error_no_memory(error, "the arrangements of a plan");
    good = good && (seeds->count == 0 || note_reached(crewings, &seeds->at[0], &annealing.best, found, error));
    const uint64_t spent = choosing->work + crewings->work;
    const uint64_t rest = choosing->budget > spent ? choosing->budget - spent : 0;
    good = good && note_seeds(crewings, &annealing, rest / SHORT_PART, found, error)
        && note_best(crewings, &annealing, rest / LONG_PART, found, error);
    clear(&annealing.now);
    clear(&annealing.trial);
    clear(&annealing.best);
    return good;
}

bool crewings_find(struct many *many, struct arrangements *found, struct error *error)
{
    struct crewings crewings = { 0 };
    order_of(many->request->schedule, &crewings.order);
    const bool good = crewings_create(&crewings, many, error) && find(&crewings, found, error);
    many->choosing->work += crewings.work;
    crewings_clear(&crewings);
    return good;
}
