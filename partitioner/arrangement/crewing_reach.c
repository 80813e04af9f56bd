// Crewings made stage by stage, such that no path is longer than a limit: by how many ranks
// are used, and by how many of them the last stage, the few that cover most layers.
//
//     reached[u][r]     | ... | r ranks |  ->  layers covered by stages on u ranks
//
// Each knows its own stages, and so what they leave the next one to wait for. That what
// covers less may come further is forgotten: a crewing that is found keeps its paths short,
// but none need be found where there are some.
#include <stdlib.h>
#include <string.h>
#include <string.h>

#include "partitioner/arrangement/crewing_parts.h"

enum { MOST_SIZES = 24, MOST_KEPT = 8, MOST_STEPS = 400000 };

struct reached {
    struct crew_front front;
    uint64_t wait[MOST_SIZES], wait_back[MOST_SIZES];  // of a next stage of so many ranks
    uint32_t from_size, from;                          // the one that it goes on from
};

struct crew_reach {
    struct crewings *crewings;
    uint32_t sizes[MOST_SIZES], size_count;  // how many ranks stages have
    uint32_t between[MOST_SIZES];            // crew_between() of these
    uint32_t kept;                           // of each u and r
    struct reached *at;                      // [(used * size_count + size) * kept + i]
    uint32_t *count;                         // [used * size_count + size]
};

// All small numbers of ranks, then in steps that grow.
static void choose_sizes(struct crew_reach *reach, uint32_t most)
{
    for (uint32_t ranks = 1; ranks <= most && reach->size_count < MOST_SIZES; ranks += 1 + ranks / 10 + ranks / 16) {
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
        const uint64_t kept = MOST_STEPS / steps;
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

static struct reached *reached_of(const struct crew_reach *reach, uint32_t used, uint32_t size)
{
    return &reach->at[((size_t)used * reach->size_count + size) * reach->kept];
}

static bool is_better(const struct reached *a, const struct reached *b)
{
    if (a->front.first != b->front.first)
        return a->front.first > b->front.first;
    return a->front.forward + a->front.backward < b->front.forward + b->front.backward;
}

// Keeps it among the best of its like.
static void note(struct crew_reach *reach, uint32_t used, uint32_t size, const struct reached *now)
{
    struct reached *at = reached_of(reach, used, size);
    uint32_t *count = &reach->count[used * reach->size_count + size], place = *count;
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
    for (uint32_t i = 0; i < reach->size_count; i++) {
        const uint64_t turns = reach->between[i] / stage.ranks;
        now->wait[i] = larger(from->wait[i], turns * stage.forward_ns);
        now->wait_back[i] = larger(from->wait_back[i], turns * stage.backward_ns);
    }
    return end;
}

static void step_from(struct crew_reach *reach, const struct reached *from, uint32_t size_before, uint32_t place,
                      uint64_t limit_ns)
{
    uint32_t hint = 0;
    for (uint32_t size = 0; size < reach->size_count && reach->sizes[size] <= from->front.left; size++) {
        struct reached now = { .from_size = size_before, .from = place };
        hint = step(reach, from, size, limit_ns, hint, &now);
        if (now.front.first > from->front.first)
            note(reach, now.front.seat, size, &now);
    }
}

bool crew_reach_within(struct crew_reach *reach, uint64_t limit_ns)
{
    const struct crewings *crewings = reach->crewings;
    const struct reached begin = { .front.left = crewings->ranks };
    memset(reach->count, 0, ((size_t)crewings->ranks + 1) * reach->size_count * sizeof reach->count[0]);
    step_from(reach, &begin, 0, 0, limit_ns);
    for (uint32_t used = 1; used < crewings->ranks; used++)
        for (uint32_t size = 0; size < reach->size_count; size++)
            for (uint32_t i = 0; i < reach->count[used * reach->size_count + size]; i++)
                step_from(reach, reached_of(reach, used, size) + i, size, i, limit_ns);
    reach->crewings->work += (uint64_t)crewings->ranks * reach->size_count * reach->size_count * reach->kept / 8;
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
    uint32_t used = reach->crewings->ranks, size = which / reach->kept, place = which % reach->kept;
    const struct reached *at = reached_of(reach, used, size) + place;
    if (place >= reach->count[used * reach->size_count + size] || at->front.stages > reach->crewings->room)
        return false;
    to->stages = at->front.stages;
    for (uint32_t s = to->stages; s-- > 0;) {
        to->replicas[s] = reach->sizes[size];
        to->cuts[s + 1] = at->front.first;
        used -= reach->sizes[size];
        size = at->from_size;
        place = at->from;
        at = reached_of(reach, used, size) + place;
    }
    to->cuts[0] = 0;
    return true;
}
