// Crewings made stage by stage, such that no path is longer than a limit: by how many ranks
// are used, and by how many of them the last stage, the few that cover most layers.
//
//     reached[u][r]     | ... | r ranks |  ->  layers covered by stages on u ranks
//
// Where paths that turn are looked at, by how many micro-batches the stages in front are at
// least ahead of the ranks from them on, instead of by r: those behind may not be more.
//
// Each knows its own stages, and so what they leave the next one to wait for. That what
// covers less may come further is forgotten: a crewing that is found keeps its paths short,
// but none need be found where there are some.
#include <stdlib.h>
#include <string.h>

#include "partitioner/layouts/crewing_parts.h"

enum { MOST_SIZES = 36, FEW_SIZES = 24, MOST_KEPT = 8, MOST_STEPS = 400000, MOST_STEPS_OF_TURNS = 1600000 };

struct reached {
    struct crew_front front;
    uint64_t wait[MOST_SIZES], wait_back[MOST_SIZES];  // of a next stage of so many ranks
    double to_do;                                      // see to_do_of()
    uint32_t size, spare;                              // of its last stage; and the least of all its stages
    uint32_t from_row, from;                           // the one that it goes on from
};

struct crew_reach {
    struct crewings *crewings;
    uint32_t sizes[MOST_SIZES], size_count;  // how many ranks stages have
    uint32_t between[MOST_SIZES];            // crew_between() of these
    uint32_t kept;                           // of each u and r
    struct reached *at;                      // [(used * size_count + row) * kept + i]
    uint32_t *count;                         // [used * size_count + row]
};

// All small numbers of ranks; where turns are not looked at, then in steps that grow.
static void choose_sizes(struct crew_reach *reach, uint32_t most)
{
    const bool turns = reach->crewings->turns;
    const uint32_t count = turns ? MOST_SIZES : FEW_SIZES;
    for (uint32_t ranks = 1; ranks <= most && reach->size_count < count;
         ranks += turns ? 1 : 1 + ranks / 10 + ranks / 16) {
        reach->between[reach->size_count] = crew_between(reach->crewings->many->request->micro_batches, ranks);
        reach->sizes[reach->size_count++] = ranks;
    }
}

struct crew_reach *crew_reach_create(struct crewings *crewings, struct error *error)
{
    struct crew_reach *reach = calloc(1, sizeof *reach);
    const struct many *many = crewings->many;
    const uint32_t devices = many->devices, m = many->request->micro_batches;
    if (reach) {
        reach->crewings = crewings;
        choose_sizes(reach, devices < m ? devices : m);
        const uint64_t steps = (uint64_t)devices * reach->size_count * reach->size_count;
        const uint64_t kept = (crewings->turns ? MOST_STEPS_OF_TURNS : MOST_STEPS) / steps;
        reach->kept = kept < 1 ? 1 : kept < MOST_KEPT ? (uint32_t)kept : MOST_KEPT;
        const size_t places = ((size_t)devices + 1) * reach->size_count;
        reach->at = calloc(places * reach->kept, sizeof reach->at[0]);
        reach->count = calloc(places, sizeof reach->count[0]);
    }
    if (reach && reach->at && reach->count)
        return reach;
    crew_reach_free(reach);
    error_no_memory(error, "the arrangements of a plan");
    return NULL;
}

void crew_reach_free(struct crew_reach *reach)
{
    if (!reach)
        return;
    free(reach->at);
    free(reach->count);
    free(reach);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct reached *reached_of(const struct crew_reach *reach, uint32_t used, uint32_t row)
{
    return &reach->at[((size_t)used * reach->size_count + row) * reach->kept];
}

static uint32_t row_of(const struct crew_reach *reach, const struct reached *now)
{
    if (now->front.left == 0 || !reach->crewings->turns)
        return now->size;
    return now->spare < reach->size_count ? now->spare : reach->size_count - 1;
}

// How long ranks behind it have to be busy, less what all paths lose that turn.
static double to_do_of(const struct crewings *crewings, const struct crew_front *front)
{
    const struct many *many = crewings->many;
    const uint64_t rest = interval_forward_ns(many->of[0], front->first, many->layers)
                        + interval_backward_ns(many->of[0], front->first, many->layers);
    double least = 0;
    for (uint32_t i = 0; i < front->turn_count; i++) {
        const double turn = (double)front->turns[i].around + (double)front->turns[i].room * crewings->rate_ns;
        least = i == 0 || turn < least ? turn : least;
    }
    return front->left == 0 ? -2 * least : (double)rest * many->request->micro_batches / front->left - 2 * least;
}

static bool is_better(const struct reached *a, const struct reached *b)
{
    if (a->to_do != b->to_do)
        return a->to_do < b->to_do;
    if (a->front.first != b->front.first)
        return a->front.first > b->front.first;
    return a->front.forward + a->front.backward < b->front.forward + b->front.backward;
}

// Keeps it among the best of its like.
static void note(struct crew_reach *reach, const struct reached *now)
{
    const uint32_t used = now->front.seat, row = row_of(reach, now);
    struct reached *at = reached_of(reach, used, row);
    uint32_t *count = &reach->count[used * reach->size_count + row], place = *count;
    while (place > 0 && is_better(now, &at[place - 1]))
        place--;
    if (place == reach->kept)
        return;
    *count += *count < reach->kept;
    memmove(&at[place + 1], &at[place], (*count - 1 - place) * sizeof at[0]);
    at[place] = *now;
}

// A stage of so many ranks behind it, as far as it reaches; whether that is of use.
static uint32_t step(struct crew_reach *reach, const struct reached *from, uint32_t size, uint64_t limit_ns,
                     uint32_t hint, struct reached *now)
{
    const struct crewings *crewings = reach->crewings;
    const bool is_last = reach->sizes[size] == from->front.left;
    const uint32_t layers = crewings->many->layers, most = is_last ? layers : layers - 1;
    struct crew_next next = crew_next_of(crewings, &from->front, reach->sizes[size]);
    next.wait = from->wait[size];
    next.wait_back = from->wait_back[size];
    const uint32_t end = crew_furthest(crewings, &from->front, &next, limit_ns, hint, most);
    if (end <= from->front.first || (end < layers && is_last))
        return end;
    const struct crew_stage stage = crew_stage_of(crewings, &from->front, &next, end);
    now->front = from->front;
    crew_go_on(crewings, &now->front, &stage, end);
    const uint32_t spare = now->front.room - from->front.left;
    now->spare = from->front.stages > 0 && from->spare < spare ? from->spare : spare;
    now->size = size;
    if (crewings->turns)
        now->to_do = to_do_of(crewings, &now->front);
    for (uint32_t i = 0; i < reach->size_count; i++) {
        const uint64_t turns = reach->between[i] / stage.ranks;
        now->wait[i] = larger(from->wait[i], turns * stage.forward_ns);
        now->wait_back[i] = larger(from->wait_back[i], turns * stage.backward_ns);
    }
    return end;
}

// Stages that are further ahead of those behind them than the ones in front are, make paths longer that turn at both:
// wherever these are long enough to turn.
static bool is_worse_place(const struct crew_reach *reach, const struct reached *from, uint32_t ranks)
{
    const uint32_t left = from->front.left, ahead = (left + ranks - 1) / ranks * ranks - left;
    return reach->crewings->turns && from->front.stages > 0 && ahead > from->spare;
}

static void step_from(struct crew_reach *reach, const struct reached *from, uint32_t row, uint32_t place,
                      uint64_t limit_ns)
{
    uint32_t hint = 0;
    for (uint32_t size = 0; size < reach->size_count && reach->sizes[size] <= from->front.left; size++) {
        struct reached now = { .from_row = row, .from = place };
        if (is_worse_place(reach, from, reach->sizes[size]))
            continue;
        hint = step(reach, from, size, limit_ns, hint, &now);
        if (now.front.first > from->front.first)
            note(reach, &now);
    }
}

bool crew_reach_within(struct crew_reach *reach, uint64_t limit_ns)
{
    const struct crewings *crewings = reach->crewings;
    const struct reached begin = { .front.left = crewings->ranks };
    memset(reach->count, 0, ((size_t)crewings->ranks + 1) * reach->size_count * sizeof reach->count[0]);
    step_from(reach, &begin, 0, 0, limit_ns);
    for (uint32_t used = 1; used < crewings->ranks; used++)
        for (uint32_t row = 0; row < reach->size_count; row++)
            for (uint32_t i = 0; i < reach->count[used * reach->size_count + row]; i++)
                step_from(reach, reached_of(reach, used, row) + i, row, i, limit_ns);
    const uint64_t steps = (uint64_t)crewings->ranks * reach->size_count * reach->size_count * reach->kept;
    reach->crewings->work += steps / (crewings->turns ? 32 : 8);  // with turns, most stages are left out
    for (uint32_t size = 0; size < reach->size_count; size++)
        if (reach->count[crewings->ranks * reach->size_count + size] > 0)
            return true;
    return false;
}

uint32_t crew_reach_count(const struct crew_reach *reach)
{
    return reach->size_count * reach->kept;
}

bool crew_reach_read(const struct crew_reach *reach, uint32_t which, struct crewing *to)
{
    uint32_t used = reach->crewings->ranks;
    const uint32_t row = which / reach->kept, place = which % reach->kept;
    const struct reached *at = reached_of(reach, used, row) + place;
    if (place >= reach->count[used * reach->size_count + row] || at->front.stages > reach->crewings->room)
        return false;
    to->stages = at->front.stages;
    for (uint32_t s = to->stages; s-- > 0;) {
        to->replicas[s] = reach->sizes[at->size];
        to->cuts[s + 1] = at->front.first;
        used -= reach->sizes[at->size];
        at = reached_of(reach, used, at->from_row) + at->from;
    }
    to->cuts[0] = 0;
    return true;
}
