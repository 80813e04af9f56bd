// Good arrangements where there are too many to list: seeds, then small moves from the
// best of them.
//
//     moves      a rank from one stage to another        3 1 2  ->  2 2 2
//                a stage in two, two stages in one       4 2    ->  2 2 2
//                another variant of a stage
//                two devices that are unlike, or a device that was not used
//                a rank less
#include <stdlib.h>
#include <string.h>

#include "partitioner/layouts/arrangement_many.h"
#include "partitioner/layouts/crewing.h"
#include "partitioner/search/search_request.h"
#include "partitioner/cost/variant.h"
#include "schedules/generators/generate.h"

// Searches of seeds and of moves, as parts of the budget.
enum { SEED_PART = 24, MOVE_PART = 48, MOST_SEEDS = 8, MOST_SEED_STEPS = 50000000 };

bool many_knows(const struct arrangements *among, const struct arrangement *arrangement)
{
    for (size_t i = 0; i < among->count; i++) {
        const struct arrangement *other = &among->at[i];
        if (other->stages == arrangement->stages && other->device_count == arrangement->device_count
            && (!other->replicas
                || memcmp(other->replicas, arrangement->replicas, other->stages * sizeof other->replicas[0]) == 0)
            && memcmp(other->variants, arrangement->variants, other->stages * sizeof other->variants[0]) == 0
            && memcmp(other->devices, arrangement->devices, other->device_count * sizeof other->devices[0]) == 0)
            return true;
    }
    return false;
}

bool many_look_at(const struct many *many, struct arrangement *arrangement, struct error *error)
{
    enum { MOST_STEPS = 4000000 };
    const uint64_t steps = (uint64_t)arrangement->stages * many->layers * many->layers;
    return steps > MOST_STEPS || arrangement_bound(many->choosing->bounds, arrangement, error);
}

// --- searching ------------------------------------------------------------------------

static bool try_one(struct many *many, struct arrangement *arrangement, unsigned part, struct error *error)
{
    struct choosing *choosing = many->choosing;
    const uint64_t rest = choosing->budget > choosing->work ? choosing->budget - choosing->work : 1;
    const uint64_t budget = choosing->budget / part;
    return choosing_search(choosing, arrangement, budget < rest ? budget : rest, error);
}

// What it takes about, or at least.
static uint64_t guess_ns(const struct arrangement *arrangement)
{
    return arrangement->bound_ns > 0 ? arrangement->bound_ns : arrangement->estimate_ns;
}

// Those with cuts first.
static int compare(const void *left, const void *right)
{
    const struct arrangement *a = left, *b = right;
    if ((a->cuts != NULL) != (b->cuts != NULL))
        return a->cuts ? -1 : 1;
    return guess_ns(a) < guess_ns(b) ? -1 : guess_ns(a) > guess_ns(b);
}

// Adds the best crewings to the seeds.
static bool add_crewings(struct many *many, struct error *error)
{
    enum { MOST = 3 };
    struct arrangements found = { 0 };
    bool good = many_make_even_seeds(many, error) && crewings_find(many, &found, error);
    many->timed_ns = found.count > 0 ? found.at[0].estimate_ns : 0;
    for (size_t i = 0; good && i < found.count && i < MOST; i++) {
        struct arrangement *now = &found.at[i];
        good = many_look_at(many, now, error) && arrangement_add(&many->seeds, now, error);
    }
    arrangements_clear(&found);
    return good;
}

// Whether plans of crewings take what the best was timed to, so that nothing must be recomputed: then the others, and
// the other seeds, where they began, are no better. Where devices are in servers the time is a little off.
static bool is_as_timed(const struct many *many)
{
    const uint64_t best_ns = many->choosing->best_ns;
    return best_ns - best_ns / 1000 <= many->timed_ns;
}

// Those with cuts, or the others, as far as it is worth while.
static bool try_some(struct many *many, bool with_cuts, struct error *error)
{
    qsort(many->seeds.at, many->seeds.count, sizeof many->seeds.at[0], compare);
    for (size_t i = 0; i < many->seeds.count; i++) {
        struct arrangement *seed = &many->seeds.at[i];
        const uint64_t before = many->choosing->best_ns;
        if ((seed->cuts != NULL) != with_cuts)
            continue;
        if (!choosing_may_try(many->choosing, many->tried->count) || (i >= MOST_SEEDS && before != UINT64_MAX))
            break;
        if (!try_one(many, seed, SEED_PART, error) || !arrangement_add(many->tried, seed, error))
            return false;
        if (many->choosing->best_ns < before)
            many->best = many->tried->count - 1;
        if (with_cuts && is_as_timed(many))
            break;
    }
    return true;
}

static bool try_seeds(struct many *many, struct error *error)
{
    if (crewings_are_known(many)) {
        if (!add_crewings(many, error) || !try_some(many, true, error))
            return false;
        if (is_as_timed(many))
            return true;
    }
    // A dynamic program over layers and devices: of a thousand layers on hundreds of devices it takes half a minute.
    const bool is_long = (uint64_t)many->layers * many->layers * many->devices > MOST_SEED_STEPS;
    if (many->choosing->best && choosing_must_stop(many->choosing))
        return true;
    if (is_long && many->seeds.count > 0)
        return many->choosing->best || try_some(many, false, error);
    return many_make_seeds(many, error) && try_some(many, false, error);
}

// --- moves ------------------------------------------------------------------------------

struct move {
    struct arrangement to;
    uint32_t room;  // stages and devices
};

static bool begin_move(struct move *move, const struct arrangement *from)
{
    if (from->replicas)
        memcpy(move->to.replicas, from->replicas, from->stages * sizeof from->replicas[0]);
    memcpy(move->to.variants, from->variants, from->stages * sizeof from->variants[0]);
    memcpy(move->to.devices, from->devices, from->device_count * sizeof from->devices[0]);
    move->to.stages = from->stages;
    move->to.ranks = from->ranks;
    move->to.device_count = from->device_count;
    return true;
}

// Takes a move if it is new and better; whether it was.
static bool take(struct many *many, struct move *move, struct arrangement *now, bool *failed, struct error *error)
{
    const uint64_t before = many->choosing->best_ns;
    if (many_knows(many->tried, &move->to) || choosing_must_stop(many->choosing))
        return false;
    move->to.bound_ns = move->to.estimate_ns = move->to.visits = 0;
    if (!many_look_at(many, &move->to, error)) {
        *failed = true;
        return false;
    }
    if (move->to.bound_ns >= before || move->to.estimate_ns / 5 * 4 > before)
        return false;
    if (!arrangement_add(many->tried, &move->to, error) || !try_one(many, &move->to, MOVE_PART, error)) {
        *failed = true;
        return false;
    }
    if (many->choosing->best_ns >= before)
        return false;
    const struct arrangement taken = *now;
    *now = move->to;
    move->to = taken;
    return true;
}

static uint32_t group_of(const struct many *many, const char *variant)
{
    return variant_devices(many->request->profile, variant);
}

// The devices of stages before s.
static uint32_t seat_of(const struct many *many, const struct arrangement *of, uint32_t s)
{
    uint32_t seat = 0;
    for (uint32_t i = 0; i < s; i++)
        seat += of->replicas[i] * group_of(many, of->variants[i]);
    return seat;
}

// A rank of stage s for stage t.
static bool shift(struct many *many, struct move *move, const struct arrangement *now, uint32_t s, uint32_t t)
{
    if (s == t || now->replicas[s] < 2 || group_of(many, now->variants[s]) != group_of(many, now->variants[t])
        || now->replicas[t] >= many->request->micro_batches)
        return false;
    begin_move(move, now);
    move->to.replicas[s]--;
    move->to.replicas[t]++;
    return true;
}

// Stages s and s + 1 in one.
static bool merge(struct many *many, struct move *move, const struct arrangement *now, uint32_t s)
{
    if (s + 1 >= now->stages || now->variants[s] != now->variants[s + 1]
        || now->replicas[s] + now->replicas[s + 1] > many->request->micro_batches)
        return false;
    begin_move(move, now);
    move->to.replicas[s] += move->to.replicas[s + 1];
    move->to.stages--;
    for (uint32_t i = s + 1; i < move->to.stages; i++) {
        move->to.replicas[i] = now->replicas[i + 1];
        move->to.variants[i] = now->variants[i + 1];
    }
    return true;
}

static bool split(struct move *move, const struct arrangement *now, uint32_t s, uint32_t layers)
{
    if (now->replicas[s] < 2 || now->stages + 1 > layers)
        return false;
    begin_move(move, now);
    move->to.stages++;
    for (uint32_t i = s + 1; i < move->to.stages; i++) {
        move->to.replicas[i] = now->replicas[i - 1];
        move->to.variants[i] = now->variants[i - 1];
    }
    move->to.replicas[s + 1] = now->replicas[s] / 2;
    move->to.replicas[s] -= move->to.replicas[s + 1];
    return true;
}

// Another variant on the same devices.
static bool change(struct many *many, struct move *move, const struct arrangement *now, uint32_t s, size_t v)
{
    const struct arrangement_names *names = many->choosing->names;
    const uint32_t devices = now->replicas[s] * group_of(many, now->variants[s]);
    if (names->names[v] == now->variants[s] || devices % names->devices[v] != 0)
        return false;
    const uint32_t ranks = devices / names->devices[v];
    if (ranks > many->request->micro_batches || (ranks != now->replicas[s] && !many->request->free.replicas))
        return false;
    begin_move(move, now);
    move->to.variants[s] = names->names[v];
    move->to.ranks = now->ranks - now->replicas[s] + ranks;
    move->to.replicas[s] = ranks;
    return true;
}

static bool drop(struct many *many, struct move *move, const struct arrangement *now, uint32_t s)
{
    const uint32_t group = group_of(many, now->variants[s]), end = seat_of(many, now, s + 1);
    if (now->replicas[s] < 2 || !many->request->free.fewer)
        return false;
    begin_move(move, now);
    memmove(move->to.devices + end - group, move->to.devices + end,
            (now->device_count - end) * sizeof move->to.devices[0]);
    move->to.replicas[s]--;
    move->to.ranks--;
    move->to.device_count -= group;
    return true;
}

static bool is_alike(const struct many *many, uint32_t a, uint32_t b)
{
    const struct cluster *cluster = many->request->cluster;
    return cluster->devices[a].speed_permille == cluster->devices[b].speed_permille
        && cluster->devices[a].memory_bytes == cluster->devices[b].memory_bytes
        && (cluster->level_count < 2 || cluster_level_between(cluster, a, b) == 0);
}

// Exchanges the device of a seat with another one, used or not.
static bool swap(struct many *many, struct move *move, const struct arrangement *now, uint32_t seat, uint32_t device)
{
    if (!many->request->free.devices || is_alike(many, now->devices[seat], device))
        return false;
    begin_move(move, now);
    for (uint32_t i = 0; i < now->device_count; i++)
        if (now->devices[i] == device)
            move->to.devices[i] = now->devices[seat];
    move->to.devices[seat] = device;
    return true;
}

static bool move_ranks(struct many *many, struct move *move, struct arrangement *now, bool *failed, struct error *error)
{
    bool helped = false;
    for (uint32_t s = 0; s < now->stages; s++) {
        helped |= merge(many, move, now, s) && take(many, move, now, failed, error);
        helped |= s < now->stages && split(move, now, s, many->layers) && take(many, move, now, failed, error);
        for (uint32_t t = 0; s < now->stages && t < now->stages && !*failed; t++)
            helped |= shift(many, move, now, s, t) && take(many, move, now, failed, error);
    }
    return helped;
}

static bool move_once(struct many *many, struct move *move, struct arrangement *now, bool *failed, struct error *error)
{
    bool helped = many->request->free.replicas && move_ranks(many, move, now, failed, error);
    for (uint32_t s = 0; many->takes_replicas && s < now->stages && !*failed; s++) {
        for (size_t v = 0; v < many->choosing->names->count && !*failed; v++)
            helped |= change(many, move, now, s, v) && take(many, move, now, failed, error);
        helped |= drop(many, move, now, s) && take(many, move, now, failed, error);
    }
    for (uint32_t seat = 0; seat < now->device_count && !*failed; seat++)
        for (uint32_t device = 0; device < many->request->cluster->device_count && !*failed; device++)
            helped |= swap(many, move, now, seat, device) && take(many, move, now, failed, error);
    return helped && !*failed && !choosing_must_stop(many->choosing);
}

static bool make_room(const struct many *many, struct arrangement *of)
{
    const size_t room = (size_t)many->devices + many->layers + 2;
    of->replicas = many->takes_replicas ? calloc(room, sizeof of->replicas[0]) : NULL;
    of->variants = calloc(room, sizeof of->variants[0]);
    of->devices = calloc(room, sizeof of->devices[0]);
    return (of->replicas || !many->takes_replicas) && of->variants && of->devices;
}

static void clear_room(struct arrangement *of)
{
    free(of->replicas);
    free(of->variants);
    free(of->devices);
}

// Moves from a seed; then the best is searched with what is left.
static bool improve(struct many *many, const struct arrangement *seed, struct error *error)
{
    struct move move = { { 0 }, 0 }, now = { { 0 }, 0 };
    bool failed = !make_room(many, &move.to) || !make_room(many, &now.to);
    if (failed)
        error_no_memory(error, "the arrangements of a plan");
    if (!failed) {
        begin_move(&now, seed);
        while (!choosing_must_stop(many->choosing) && move_once(many, &move, &now.to, &failed, error))
            continue;
    }
    if (!failed && !choosing_must_stop(many->choosing))
        failed = !try_one(many, &now.to, 1, error);
    clear_room(&move.to);
    clear_room(&now.to);
    return !failed;
}

// Crewings were moved about already. Where so many actions take long to simulate, that must do.
static bool is_done(const struct many *many)
{
    enum { MOST_PLACES = 200000 };
    return crewings_are_known(many) && is_as_timed(many)
        && (uint64_t)many->devices * many->request->micro_batches > MOST_PLACES;
}

// --- the whole --------------------------------------------------------------------------

static bool see_devices(struct many *many, struct error *error)
{
    const struct cluster *cluster = many->request->cluster;
    uint64_t speeds = 0;
    many->memory = UINT64_MAX;
    for (size_t i = 0; i < cluster->device_count; i++) {
        speeds += cluster->devices[i].speed_permille;
        if (cluster->devices[i].memory_bytes < many->memory)
            many->memory = cluster->devices[i].memory_bytes;
    }
    many->speed = speeds / cluster->device_count;
    many->can_cut = search_cuts(many->request, 1, error);
    return many->can_cut != NULL;
}

static bool prepare(struct many *many, struct error *error)
{
    const struct arrangement_names *names = many->choosing->names;
    for (size_t v = 0; v < names->count; v++) {
        many->views[v] = variant_of(many->request->profile, names->names[v], error);
        many->of[v] = many->views[v] ? intervals_create(many->views[v], &many->request->holding, error) : NULL;
        if (!many->of[v])
            return false;
    }
    const size_t cells = ((size_t)many->devices + 1) * ((size_t)many->layers + 1);
    many->fill = calloc(cells, sizeof many->fill[0]);
    many->from = calloc(cells, sizeof many->from[0]);
    many->ranks = calloc(cells, sizeof many->ranks[0]);
    many->variant = calloc(cells, sizeof many->variant[0]);
    if (!many->fill || !many->from || !many->ranks || !many->variant)
        return error_no_memory(error, "the arrangements of a plan");
    return see_devices(many, error);
}

static void clear(struct many *many)
{
    for (size_t v = 0; v < sizeof many->of / sizeof many->of[0]; v++) {
        intervals_free(many->of[v]);
        variant_free(many->views[v]);
    }
    arrangements_clear(&many->seeds);
    free(many->can_cut);
    free(many->fill);
    free(many->from);
    free(many->ranks);
    free(many->variant);
}

bool choosing_many(struct choosing *choosing, struct arrangements *tried, struct error *error)
{
    struct many many = { .choosing = choosing, .request = choosing->request, .tried = tried,
                         .layers = (uint32_t)choosing->request->profile->layer_count,
                         .devices = choosing->request->ranks,
                         .is_gpipe = strcmp(choosing->request->schedule, "gpipe") == 0,
                         .takes_replicas = generator_find(choosing->request->schedule, error)->takes_replicas };
    many.best = SIZE_MAX;
    many.flushes = generator_find(choosing->request->schedule, error)->weights == WEIGHTS_FLUSH;
    const bool good = prepare(&many, error) && try_seeds(&many, error)
                   && (many.best == SIZE_MAX || is_done(&many) || improve(&many, &tried->at[many.best], error));
    clear(&many);
    return good;
}
