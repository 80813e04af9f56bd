#include "partitioner/layouts/crewing_parts.h"
#include "partitioner/layouts/path_around.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/cost/holding_cost.h"

enum { MANY_DEVICES = 256 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// --- what is known beforehand -----------------------------------------------------------

// About what a stage needs besides: a segment of two layers, and messages on their way.
static uint64_t likely_workspace(const struct many *many)
{
    const struct profile_layer *layers = many->request->profile->layers;
    uint64_t most = 0, output = 0;
    for (uint32_t l = 0; l < many->layers; l++) {
        const uint64_t bytes = layers[l].saved_bytes + layers[l].output_bytes + layers[l].backward_workspace_bytes;
        most = larger(most, bytes);
        output = larger(output, layers[l].output_bytes);
    }
    most = 2 * most + 4 * output;
    return most < many->memory / 2 ? most : many->memory / 2;
}

bool crewings_create(struct crewings *crewings, struct many *many, struct error *error)
{
    const struct cluster *cluster = many->request->cluster;
    const size_t row = (size_t)many->layers + 1;
    crewings->many = many;
    crewings->seed = 1;
    crewings->turns = crewings->order == CREW_1F1B && many->devices >= MANY_DEVICES
                   && many->request->micro_batches > 2 * many->devices;
    crewings->room = many->devices < many->layers ? many->devices : many->layers;
    crewings->clock = crew_clock_create(crewings->room, many->request->micro_batches, error);
    crewings->crew = calloc(crewings->room, sizeof crewings->crew[0]);
    crewings->way = calloc((cluster->level_count + 1) * row, sizeof crewings->way[0]);
    crewings->variants = calloc(crewings->room, sizeof crewings->variants[0]);
    crewings->near_until = calloc((cluster->level_count + 1) * many->devices, sizeof crewings->near_until[0]);
    crewings->behind = calloc((size_t)many->devices + 1, sizeof crewings->behind[0]);
    if (crewings->order != CREW_FORWARD_ONLY)
        crewings->memory = arrangement_memory_create(many->request, error);
    crewings->capacity = many->memory - likely_workspace(many);
    if (!crewings->clock || error->kind != ERROR_NONE)
        return false;
    if (!crewings->behind || !crewings->near_until || !crewings->crew || !crewings->way || !crewings->variants)
        return error_no_memory(error, "the arrangements of a plan");
    for (size_t i = 0; i < cluster->level_count; i++)
        for (uint32_t l = 1; l < many->layers; l++)
            crewings->way[i * row + l] = transfer_ns(many->of[0]->cut[l], cluster->levels[i].bytes_per_second,
                                                     cluster->levels[i].latency_ns);
    return true;
}

void crewings_clear(struct crewings *crewings)
{
    crew_clock_free(crewings->clock);
    arrangement_memory_free(crewings->memory);
    free(crewings->crew);
    free(crewings->way);
    free(crewings->near_until);
    free(crewings->behind);
    free(crewings->variants);
}

void crewings_sit(struct crewings *crewings, const uint32_t *devices, uint32_t ranks)
{
    const struct cluster_device *of = crewings->many->request->cluster->devices;
    crewings->devices = devices;
    crewings->ranks = ranks;
    crewings->knows_behind = false;
    crewings->speed = of[devices[0]].speed_permille;
    for (uint32_t i = 1; i < ranks; i++)
        if (of[devices[i]].speed_permille != of[devices[0]].speed_permille)
            crewings->speed = 0;
    const struct intervals *layers = crewings->many->of[0];
    const uint64_t all_ns = interval_forward_ns(layers, 0, crewings->many->layers)
                          + interval_backward_ns(layers, 0, crewings->many->layers);
    crewings->rate_ns = all_ns / ranks * 1000 / crewings->many->speed;
    for (size_t level = 0; level < crewings->many->request->cluster->level_count; level++) {
        uint32_t *until = &crewings->near_until[level * crewings->many->devices];
        for (uint32_t i = ranks; i-- > 0;) {
            const bool goes_on = i + 1 < ranks && cluster_level_between(crewings->many->request->cluster, devices[i],
                                                                        devices[i + 1]) <= level;
            until[i] = goes_on ? until[i + 1] : i + 1;
        }
    }
}

static uint64_t speed_of(const struct crewings *crewings, uint32_t seat, uint32_t ranks)
{
    const struct cluster_device *devices = crewings->many->request->cluster->devices;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = seat; crewings->speed == 0 && i < seat + ranks; i++) {
        const uint64_t speed = devices[crewings->devices[i]].speed_permille;
        least = speed < least ? speed : least;
    }
    return crewings->speed > 0 ? crewings->speed : least;
}

// The slowest level between any two of these seats: whoever is not near both of two neighbours is near neither.
static size_t level_of(const struct crewings *crewings, uint32_t seat, uint32_t end)
{
    size_t level = 0;
    end = end < crewings->ranks ? end : crewings->ranks;
    while (level + 1 < crewings->many->request->cluster->level_count
           && crewings->near_until[level * crewings->many->devices + seat] < end)
        level++;
    return level;
}

static uint64_t reduce_of(const struct crewings *crewings, uint32_t seat, uint32_t ranks, uint64_t weights)
{
    const struct search_request *request = crewings->many->request;
    const struct cluster_level *level = &request->cluster->levels[level_of(crewings, seat, seat + ranks)];
    return request->cluster->level_count == 0 ? 0
        : holding_reduce_ns(&request->holding, ranks, weights,
                            (struct link){ level->latency_ns, level->bytes_per_second });
}

static uint32_t room_of(const struct crewings *crewings, uint32_t left, uint32_t ranks)
{
    const uint32_t m = crewings->many->request->micro_batches, own = (m + ranks - 1) / ranks;
    const uint32_t ahead = (left + ranks - 1) / ranks;
    return (crewings->order == CREW_1F1B && ahead < own ? ahead : own) * ranks;
}

// B, and about what must be run again so that it fits; much where it cannot.
static uint64_t backward_of(const struct crewings *crewings, uint32_t first, uint32_t end, uint32_t left, uint32_t ranks,
                            uint64_t speed)
{
    const struct intervals *of = crewings->many->of[0];
    const uint64_t backward = interval_backward_ns(of, first, end);
    const uint64_t again = arrangement_memory_least(crewings->memory, first, end, ranks,
                                                    room_of(crewings, left, ranks) / ranks, crewings->capacity);
    return stage_scaled_ns(again == UINT64_MAX ? 1000 * (backward + 1) : backward + again, speed);
}

static struct crew_stage stage_of(const struct crewings *crewings, uint32_t first, uint32_t end, uint32_t seat,
                                  uint32_t ranks, uint64_t speed, uint32_t ranks_behind)
{
    const struct intervals *of = crewings->many->of[0];
    const struct cluster *cluster = crewings->many->request->cluster;
    const bool has_backward = crewings->order != CREW_FORWARD_ONLY;
    const size_t level = level_of(crewings, seat, seat + ranks + ranks_behind);
    const uint64_t latency = cluster->level_count ? cluster->levels[level].latency_ns : 0;
    const uint64_t way = crewings->way[level * ((size_t)crewings->many->layers + 1) + end];
    return (struct crew_stage){
        .ranks = ranks,
        .forward_ns = stage_scaled_ns(interval_forward_ns(of, first, end), speed),
        .backward_ns = has_backward ? backward_of(crewings, first, end, crewings->ranks - seat, ranks, speed) : 0,
        .reduce_ns = has_backward ? reduce_of(crewings, seat, ranks, of->weights[end] - of->weights[first]) : 0,
        .busy_ns = way > latency ? way - latency : 0,
        .latency_ns = way > latency ? latency : way,
    };
}

uint64_t crewing_time(struct crewings *crewings, const struct crewing *crewing)
{
    uint32_t seat = 0;
    for (uint32_t s = 0; s < crewing->stages; s++) {
        const uint32_t ranks = crewing->replicas[s], behind = s + 1 < crewing->stages ? crewing->replicas[s + 1] : 0;
        crewings->crew[s] = stage_of(crewings, crewing->cuts[s], crewing->cuts[s + 1], seat, ranks,
                                     speed_of(crewings, seat, ranks), behind);
        seat += ranks;
    }
    crewings->work += 1 + (uint64_t)crewings->many->request->micro_batches * crewing->stages / 128;
    return crew_time(crewings->clock, crewings->order, crewings->crew, crewing->stages);
}

// --- paths ------------------------------------------------------------------------------

uint32_t crew_between(uint32_t micro_batches, uint32_t ranks)
{
    return (micro_batches % ranks ? micro_batches % ranks : ranks) - 1;
}

struct crew_next crew_next_of(const struct crewings *crewings, const struct crew_front *front, uint32_t ranks)
{
    const uint32_t like_it = (front->left - ranks + ranks - 1) / ranks;
    return (struct crew_next){ .ranks = ranks,
                               .behind = crewings->knows_behind ? crewings->behind[front->seat + ranks] : like_it,
                               .speed = speed_of(crewings, front->seat, ranks) };
}

struct crew_stage crew_stage_of(const struct crewings *crewings, const struct crew_front *front,
                                const struct crew_next *next, uint32_t end)
{
    return stage_of(crewings, front->first, end, front->seat, next->ranks, next->speed,
                    end < crewings->many->layers ? next->ranks : 0);
}

// The loop of the stage and the one before it (arrangement_pairs.c), from the first micro-batch's way to the last one's.
static uint64_t loop_of(const struct crewings *crewings, const struct crew_front *front, const struct crew_stage *stage,
                        uint32_t room, uint64_t round, uint64_t way)
{
    const uint32_t m = crewings->many->request->micro_batches;
    if (front->room == 0 || front->room >= m || front->room + stage->ranks <= room)
        return 0;
    const uint32_t turn = front->room - room + stage->ranks;
    const uint32_t loops = (m - 1 - front->room) / turn, rest = (m - 1 - front->room) % turn;
    const uint64_t own = stage->forward_ns + stage->backward_ns;
    const uint64_t both = front->before.forward_ns + front->before.backward_ns + own + 2 * way;
    return front->forward + front->backward + 2 * round + both - own + loops * both + rest / stage->ranks * own;
}

static struct crew_turn turn_of(const struct crew_front *front, const struct crew_stage *stage, uint32_t room)
{
    const uint64_t reduce = stage->reduce_ns > front->backward ? stage->reduce_ns - front->backward : 0;
    return (struct crew_turn){ front->forward + front->backward, larger(front->tail, reduce), room };
}

// Around with an early micro-batch until some stage, from there in again with one that it then begins with; loops
// between a stage and this one, or work of this one alone; and around with a late one from where it wants one that is
// done. Where ranks go into those behind a stage worse than elsewhere, others begin less ahead of the first. What a
// whole number of loops leaves over is as long as if it were part of one: some other stage's work fills it about.
static uint64_t turns_of(const struct crewings *crewings, const struct crew_front *front,
                         const struct crew_stage *stage, uint32_t room, uint64_t round)
{
    enum { MOST = sizeof front->turns / sizeof front->turns[0] };
    struct crew_turn turns[MOST + 1];
    const double m = crewings->many->request->micro_batches;
    const struct crew_turn own = turn_of(front, stage, room);
    double longest = 0;
    if (!crewings->turns || room >= m)
        return 0;
    memcpy(turns, front->turns, sizeof front->turns);
    turns[front->turn_count] = own;
    for (uint32_t i = 0; i <= front->turn_count; i++) {
        const double turn = (double)turns[i].room + stage->ranks - room;
        const double rate = (double)(own.around + stage->forward_ns + stage->backward_ns - turns[i].around) / turn;
        uint32_t best = 0;
        for (uint32_t k = 1; k <= front->turn_count; k++)
            if (turns[k].around + rate * turns[k].room < turns[best].around + rate * turns[best].room)
                best = k;
        const double times = m - 1 + turns[i].room - 2.0 * turns[best].room;
        const double path = turns[i].around - 2.0 * turns[best].around + turns[best].tail + times * rate;
        if (times >= turn && path > longest)
            longest = path;
    }
    return longest > 0 ? 2 * (own.around + round) + (uint64_t)longest : 0;
}

static uint64_t path_of(const struct crewings *crewings, const struct crew_front *front, const struct crew_next *next,
                        const struct crew_stage *stage, uint32_t end)
{
    const struct many *many = crewings->many;
    const struct intervals *of = many->of[0];
    const uint32_t m = many->request->micro_batches, room = room_of(crewings, front->left, stage->ranks);
    const uint64_t own = (m + stage->ranks - 1) / stage->ranks, f = stage->forward_ns, b = stage->backward_ns;
    if (crewings->order == CREW_FORWARD_ONLY)
        return front->forward + next->wait + own * f;
    const uint64_t rest = interval_forward_ns(of, end, many->layers) + interval_backward_ns(of, end, many->layers);
    const uint64_t ways = 2 * (stage->busy_ns + stage->latency_ns) * next->behind;
    const uint64_t round = f + b + ways + rest * 1000 / many->speed;
    const uint64_t inner = larger(own * (f + b), path_around(round, own, room / stage->ranks, f, b));
    const uint64_t out = front->backward + larger(larger(next->wait, next->wait_back), front->tail);
    uint64_t path = front->forward + inner + larger(out, next->wait + stage->reduce_ns);
    path = larger(path, turns_of(crewings, front, stage, room, round));
    return larger(path, loop_of(crewings, front, stage, room, round,
                                front->before.busy_ns + front->before.latency_ns));
}

static bool is_within(const struct crewings *crewings, const struct crew_front *front, const struct crew_next *next,
                      uint32_t end, uint64_t limit_ns)
{
    const struct crew_stage stage = crew_stage_of(crewings, front, next, end);
    return path_of(crewings, front, next, &stage, end) <= limit_ns;
}

uint32_t crew_furthest(const struct crewings *crewings, const struct crew_front *front, const struct crew_next *next,
                       uint64_t limit_ns, uint32_t hint, uint32_t most)
{
    if (most == crewings->many->layers && is_within(crewings, front, next, most, limit_ns))
        return most;
    uint32_t low = front->first, high = most + 1, at = hint;
    for (uint32_t stride = 1; high - low > 1; stride *= 2) {
        if (at <= low || at >= high)
            at = low + (high - low) / 2;
        if (is_within(crewings, front, next, at, limit_ns)) {
            low = at;
            at += stride;
        } else {
            high = at;
            at = at > stride ? at - stride : 0;
        }
    }
    while (low > front->first && !crewings->many->can_cut[low])
        low--;
    return low;
}

// The stage before comes first, the others by what a path gains by turning there: what it need not go around before,
// for what others are busy then.
static void add_turn(const struct crewings *crewings, struct crew_front *front, const struct crew_turn *now)
{
    enum { MOST = sizeof front->turns / sizeof front->turns[0] };
    if (now->room >= crewings->many->request->micro_batches)
        return;
    if (front->turn_count > 0) {
        const struct crew_turn before = front->turns[0];
        uint32_t at = front->turn_count;
        while (at > 1 && before.around + before.room * crewings->rate_ns
                             < front->turns[at - 1].around + front->turns[at - 1].room * crewings->rate_ns)
            at--;
        front->turn_count -= front->turn_count == MOST;
        for (uint32_t i = front->turn_count; at < MOST && i > at; i--)
            front->turns[i] = front->turns[i - 1];
        if (at < MOST)
            front->turns[at] = before;
    }
    front->turns[0] = *now;
    front->turn_count++;
}

void crew_go_on(const struct crewings *crewings, struct crew_front *front, const struct crew_stage *stage, uint32_t end)
{
    const uint64_t way = stage->busy_ns + stage->latency_ns;
    if (stage->reduce_ns > front->backward)
        front->tail = larger(front->tail, stage->reduce_ns - front->backward);
    front->room = room_of(crewings, front->left, stage->ranks);
    const struct crew_turn turn = turn_of(front, stage, front->room);
    add_turn(crewings, front, &turn);
    front->forward += stage->forward_ns + way;
    front->backward += stage->backward_ns + way;
    front->before = *stage;
    front->left -= stage->ranks;
    front->seat += stage->ranks;
    front->first = end;
    front->stages++;
}

void crewings_expect(struct crewings *crewings, const struct crewing *crewing)
{
    uint32_t seat = crewings->ranks, behind = 0;
    for (uint32_t s = crewing->stages; s-- > 0; behind++)
        for (uint32_t i = 0; i < crewing->replicas[s]; i++)
            crewings->behind[seat--] = behind;
    crewings->knows_behind = true;
}

// --- cutting ------------------------------------------------------------------------------

// How long the last of so many ranks waits for its first micro-batch because the stages before do others first.
static void wait_for(const struct crewings *crewings, uint32_t stages, struct crew_next *next)
{
    const uint32_t between = crew_between(crewings->many->request->micro_batches, next->ranks);
    for (uint32_t t = 0; t < stages; t++) {
        const struct crew_stage *before = &crewings->crew[t];
        const uint64_t turns = between / before->ranks;
        next->wait = larger(next->wait, turns * before->forward_ns);
        next->wait_back = larger(next->wait_back, turns * before->backward_ns);
    }
}

// As many layers as stay within the limit; whether one stage after the other reaches the end.
static bool cut_within(struct crewings *crewings, struct crewing *crewing, uint64_t limit_ns)
{
    struct crew_front front = { .left = crewings->ranks };
    crewing->cuts[0] = 0;
    for (uint32_t s = 0; s < crewing->stages; s++) {
        const uint32_t behind = crewing->stages - 1 - s;
        struct crew_next next = crew_next_of(crewings, &front, crewing->replicas[s]);
        next.behind = behind;
        wait_for(crewings, s, &next);
        const uint32_t hint = front.first + (crewings->many->layers - front.first) * next.ranks / front.left;
        const uint32_t end =
            crew_furthest(crewings, &front, &next, limit_ns, hint, crewings->many->layers - behind);
        if (end <= front.first || (behind == 0 && end < crewings->many->layers))
            return false;
        crewing->cuts[s + 1] = end;
        crewings->crew[s] = crew_stage_of(crewings, &front, &next, end);
        crew_go_on(crewings, &front, &crewings->crew[s], end);
    }
    return true;
}

bool crewing_cut(struct crewings *crewings, struct crewing *crewing, uint64_t limit_ns)
{
    uint64_t low = crewings->many->choosing->bound_ns, high = limit_ns;
    crewings->work += crewing->stages / 4;
    if (!cut_within(crewings, crewing, high))
        return false;
    crewings->work += crewing->stages;
    while (high > low && high - low > low / 512 + 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (cut_within(crewings, crewing, middle))
            high = middle;
        else
            low = middle;
    }
    if (!cut_within(crewings, crewing, high))
        return false;
    crewing->ns = crewing_time(crewings, crewing);
    return true;
}
