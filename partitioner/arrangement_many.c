// Good arrangements where there are too many to list: first those in which no stage is
// busy for longer than T, for several T, with the least fill; then small moves from the
// best of them.
//
// A dynamic program over layers and devices finds, for a T, the least sum of what one
// micro-batch takes in all stages:
//
//     fill[k][l]     of the first l layers on k devices     a stage of layers [first, end) has
//                                                           the fewest ranks that keep it below T
//
// What a stage must recompute is taken for as large a part of it as what it lacks is of
// what it keeps.
//
//     moves      a rank from one stage to another        3 1 2  ->  2 2 2
//                a stage in two, two stages in one       4 2    ->  2 2 2
//                another variant of a stage
//                two devices that are unlike, or a device that was not used
//                a rank less
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/arrangement_search.h"
#include "partitioner/search_problem.h"
#include "partitioner/variant.h"
#include "schedules/generators/generate.h"

// Searches of seeds and of moves, as parts of the budget; how many values of T.
enum { SEED_PART = 24, MOVE_PART = 48, MOST_SEEDS = 8, STEPS = 14 };

struct many {
    struct choosing *choosing;
    const struct search_request *request;
    struct arrangements *tried;
    struct arrangements seeds;
    struct intervals *of[ARRANGEMENT_MOST_VARIANTS + 1];  // of each variant
    struct profile *views[ARRANGEMENT_MOST_VARIANTS + 1];
    bool *can_cut;
    bool takes_replicas, flushes;
    uint32_t layers, devices;
    uint64_t memory, speed;   // of a device; of unlike ones the least memory and the average speed
    uint64_t *fill;           // [devices used * (layers + 1) + layer]
    uint32_t *from;           // first layer of the last stage; as fill
    uint32_t *ranks;          // and its ranks
    uint8_t *variant;
};

// --- seeds ----------------------------------------------------------------------------

// What copies that stand beside each other take to add up their gradients.
static uint64_t reduce_of(const struct many *many, uint64_t weights, uint32_t copies)
{
    const struct cluster *cluster = many->request->cluster;
    size_t level = 0, span = cluster->level_count ? cluster->levels[0].size : 1;
    while (level + 1 < cluster->level_count && span < copies)
        span *= cluster->levels[++level].size;
    const uint64_t bytes = holding_reduced_bytes(&many->request->holding, copies, weights);
    return copies < 2 || cluster->level_count == 0 ? 0
        : transfer_ns(multiply_clamped(copies - 1, bytes), cluster->levels[level].bytes_per_second,
                      cluster->levels[level].latency_ns);
}

// How long a stage is busy, for itself and per iteration; 0 where it cannot fit.
static uint64_t load_of(const struct many *many, size_t v, uint32_t first, uint32_t end, uint32_t ranks, uint32_t left)
{
    const struct intervals *of = many->of[v];
    const uint32_t own = (many->request->micro_batches + ranks - 1) / ranks;
    const uint64_t forward = interval_forward_ns(of, first, end), backward = interval_backward_ns(of, first, end);
    const struct stage_states states = interval_states(of, first, end);
    const struct held_bytes held = holding_bytes(&of->holding, ranks, &states);
    const uint64_t fixed = add_clamped(held.weights, add_clamped(held.gradients, held.optimizer));
    uint64_t ahead = (left + ranks - 1) / ranks;
    ahead = ahead < own && strcmp(many->request->schedule, "gpipe") != 0 ? ahead : own;
    const uint64_t kept = multiply_clamped(ahead, of->saved[end] - of->saved[first] + of->cut[first]);
    uint64_t again = 0;
    if (fixed > many->memory)
        return 0;
    const uint64_t reduce = reduce_of(many, of->weights[end] - of->weights[first], ranks);
    if (kept > many->memory - fixed) {
        const uint64_t lacks = kept - (many->memory - fixed);
        again = lacks >= kept ? 2 * forward : (uint64_t)((unsigned __int128)forward * lacks / kept);
    }
    return own * (forward + backward + again) * 1000 / many->speed + (many->flushes ? reduce : own * reduce);
}

static uint64_t way_of(const struct many *many, uint32_t cut)
{
    const struct cluster_level *level = &many->request->cluster->levels[0];
    return many->request->cluster->level_count == 0 ? 0
        : transfer_ns(many->of[0]->cut[cut], level->bytes_per_second, level->latency_ns);
}

static void reach(struct many *many, uint32_t used, uint32_t first, uint32_t end, size_t v, uint32_t ranks)
{
    const size_t row = (size_t)many->layers + 1;
    const uint32_t to = used + ranks * many->choosing->names->devices[v];
    const uint64_t round = interval_forward_ns(many->of[v], first, end) + interval_backward_ns(many->of[v], first, end)
        + 2 * way_of(many, end);
    const uint64_t fill = many->fill[used * row + first] + round;
    if (to > many->devices || fill >= many->fill[to * row + end])
        return;
    many->fill[to * row + end] = fill;
    many->from[to * row + end] = first;
    many->ranks[to * row + end] = ranks;
    many->variant[to * row + end] = (uint8_t)v;
}

// Stages that end at `end`, from the shortest on, until one is too long for all devices.
static void reach_end(struct many *many, uint32_t end, size_t v, uint64_t limit_ns)
{
    const size_t row = (size_t)many->layers + 1;
    const uint32_t group = many->choosing->names->devices[v];
    const bool only_one = !many->request->free.replicas;
    for (uint32_t first = end; first-- > 0;) {
        uint32_t least = 1;
        const uint32_t most = only_one ? 1 : many->devices / group;
        while (least <= most && load_of(many, v, first, end, least, 1) > limit_ns)
            least++;
        if (least > most)
            return;
        for (uint32_t used = 0; used + group <= many->devices && many->can_cut[first]; used++) {
            if (many->fill[used * row + first] == UINT64_MAX)
                continue;
            for (uint32_t ranks = least; ranks <= most && ranks <= least + 1; ranks++) {
                const uint64_t load = load_of(many, v, first, end, ranks, many->devices - used);
                if (load > 0 && load <= limit_ns) {
                    reach(many, used, first, end, v, ranks);
                    break;
                }
            }
        }
    }
}

// Reads the arrangement of the first `layer` layers on `used` devices backwards.
static bool read_stages(const struct many *many, uint32_t used, struct arrangement *to)
{
    const size_t row = (size_t)many->layers + 1;
    uint32_t stages = 0, layer = many->layers;
    for (uint32_t k = used; layer > 0; stages++) {
        const size_t cell = k * row + layer;
        to->replicas[stages] = many->ranks[cell];
        to->variants[stages] = many->choosing->names->names[many->variant[cell]];
        to->ranks += many->ranks[cell];
        k -= many->ranks[cell] * many->choosing->names->devices[many->variant[cell]];
        layer = many->from[cell];
    }
    for (uint32_t s = 0; s < stages / 2; s++) {
        const uint32_t replicas = to->replicas[s];
        const char *variant = to->variants[s];
        to->replicas[s] = to->replicas[stages - 1 - s];
        to->variants[s] = to->variants[stages - 1 - s];
        to->replicas[stages - 1 - s] = replicas;
        to->variants[stages - 1 - s] = variant;
    }
    to->stages = stages;
    to->device_count = used;
    return stages > 0;
}

// Where all devices must be used, those left over go to the stages with the fewest, in turns.
static void use_all(const struct many *many, struct arrangement *to)
{
    while (!many->request->free.fewer && to->device_count < many->devices) {
        uint32_t least = UINT32_MAX, at = 0;
        for (uint32_t s = 0; s < to->stages; s++) {
            const uint32_t group = variant_devices(many->request->profile, to->variants[s]);
            if (to->replicas[s] < least && to->device_count + group <= many->devices) {
                least = to->replicas[s];
                at = s;
            }
        }
        if (least == UINT32_MAX || !many->request->free.replicas)
            return;
        to->replicas[at]++;
        to->ranks++;
        to->device_count += variant_devices(many->request->profile, to->variants[at]);
    }
}

static bool is_known(const struct arrangements *among, const struct arrangement *arrangement)
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

// Devices by speed, fastest or slowest first, or by memory, largest first; otherwise in order.
enum sequence { IN_ORDER, FASTEST_FIRST, SLOWEST_FIRST, LARGEST_FIRST, SEQUENCES };

static bool is_before(const struct cluster_device *a, const struct cluster_device *b, enum sequence sequence)
{
    switch (sequence) {
    case FASTEST_FIRST:
        return a->speed_permille > b->speed_permille;
    case SLOWEST_FIRST:
        return a->speed_permille < b->speed_permille;
    case LARGEST_FIRST:
        return a->memory_bytes > b->memory_bytes;
    default:
        return false;
    }
}

// All devices of the cluster in this order, stably.
static void put_in_order(const struct many *many, enum sequence sequence, uint32_t *devices)
{
    const struct cluster *cluster = many->request->cluster;
    for (uint32_t i = 0; i < cluster->device_count; i++) {
        uint32_t at = i;
        for (; at > 0 && is_before(&cluster->devices[i], &cluster->devices[devices[at - 1]], sequence); at--)
            devices[at] = devices[at - 1];
        devices[at] = i;
    }
}

// What is known of an arrangement before it is searched, where that is quickly worked out.
static bool look_at(const struct many *many, struct arrangement *arrangement, struct error *error)
{
    enum { MOST_STEPS = 4000000 };
    const uint64_t steps = (uint64_t)arrangement->stages * many->layers * many->layers;
    return steps > MOST_STEPS || arrangement_bound(many->choosing->bounds, arrangement, error);
}

static bool add_seed(struct many *many, struct arrangement *seed, uint64_t estimate_ns, struct error *error)
{
    const uint32_t *given = many->request->devices;
    uint32_t *devices = calloc(many->request->cluster->device_count + 1, sizeof devices[0]);
    bool good = devices || error_no_memory(error, "the arrangements of a plan");
    for (int sequence = 0; good && sequence < (many->request->free.devices ? SEQUENCES : 1); sequence++) {
        put_in_order(many, (enum sequence)sequence, devices);
        seed->devices = devices;
        seed->estimate_ns = estimate_ns;
        if (given && !many->request->free.devices)
            memcpy(devices, given, seed->device_count * sizeof devices[0]);
        good = is_known(&many->seeds, seed)
            || (look_at(many, seed, error) && arrangement_add(&many->seeds, seed, error));
    }
    seed->devices = NULL;
    free(devices);
    return good;
}

static bool seed_below(struct many *many, uint64_t limit_ns, struct error *error)
{
    const size_t row = (size_t)many->layers + 1, cells = ((size_t)many->devices + 1) * row;
    for (size_t i = 0; i < cells; i++)
        many->fill[i] = UINT64_MAX;
    many->fill[0] = 0;
    for (uint32_t end = 1; end <= many->layers; end++)
        for (size_t v = 0; many->can_cut[end] && v < many->choosing->names->count; v++)
            reach_end(many, end, v, limit_ns);
    uint32_t used = 0;
    const bool must_use_all = !many->request->free.fewer && !many->request->free.replicas;
    for (uint32_t k = must_use_all ? many->devices : 1; k <= many->devices; k++)
        if (many->fill[k * row + many->layers] != UINT64_MAX
            && (used == 0 || many->fill[k * row + many->layers] < many->fill[used * row + many->layers]))
            used = k;
    if (used == 0)
        return true;
    struct arrangement seed = { 0 };
    seed.replicas = calloc((size_t)many->devices + 1, sizeof seed.replicas[0]);
    seed.variants = calloc((size_t)many->devices + 1, sizeof seed.variants[0]);
    bool good = (seed.replicas && seed.variants) || error_no_memory(error, "the arrangements of a plan");
    if (good && read_stages(many, used, &seed)) {
        use_all(many, &seed);
        const bool is_whole = many->request->free.fewer || seed.device_count == many->devices;
        good = !is_whole || add_seed(many, &seed, limit_ns + many->fill[used * row + many->layers], error);
    }
    free(seed.replicas);
    free(seed.variants);
    return good;
}

static uint64_t slowest_iteration(const struct many *many)
{
    return (interval_forward_ns(many->of[0], 0, many->layers) + interval_backward_ns(many->of[0], 0, many->layers))
        * many->request->micro_batches / many->speed * 1000;
}

// Stages of as many ranks each: from one stage of all to a stage for each device.
static bool seed_even(struct many *many, struct error *error)
{
    struct arrangement seed = { .device_count = many->devices, .ranks = many->devices };
    seed.replicas = calloc((size_t)many->devices + 1, sizeof seed.replicas[0]);
    seed.variants = calloc((size_t)many->devices + 1, sizeof seed.variants[0]);
    bool good = (seed.replicas && seed.variants) || error_no_memory(error, "the arrangements of a plan");
    for (uint32_t ranks = 1; good && many->request->free.replicas && ranks <= many->devices; ranks++) {
        seed.stages = many->devices / ranks;
        if (many->devices % ranks != 0 || seed.stages > many->layers || ranks > many->request->micro_batches)
            continue;
        for (uint32_t s = 0; s < seed.stages; s++)
            seed.replicas[s] = ranks;
        good = add_seed(many, &seed, slowest_iteration(many) / many->devices, error);
    }
    free(seed.replicas);
    free(seed.variants);
    return good;
}

// A schedule with its own way to lay stages on ranks: one arrangement for each sequence of devices.
static bool seed_own(struct many *many, struct error *error)
{
    struct arrangement seed = { .ranks = many->devices, .device_count = many->devices };
    struct schedule *order = search_order(many->request, many->request->micro_batches, error);
    bool good = order != NULL;
    if (good) {
        seed.stages = order->stages;
        seed.variants = calloc(seed.stages, sizeof seed.variants[0]);
        good = seed.variants ? add_seed(many, &seed, 0, error) : error_no_memory(error, "the arrangements of a plan");
    }
    schedule_free(order);
    free(seed.variants);
    return good;
}

// From the shortest T on that there can be, in steps that grow.
static bool make_seeds(struct many *many, struct error *error)
{
    if (!many->takes_replicas)
        return seed_own(many, error);
    if (!seed_even(many, error))
        return false;
    uint64_t limit_ns = many->choosing->bound_ns;
    const uint64_t most = 2 * slowest_iteration(many) + 1;
    if (limit_ns == 0)
        limit_ns = slowest_iteration(many) / many->devices;
    limit_ns += limit_ns / 200 + 1;
    for (int found = 0; found < STEPS && limit_ns < most;) {
        const size_t before = many->seeds.count;
        if (!seed_below(many, limit_ns, error))
            return false;
        found += many->seeds.count > before || before > 0;
        limit_ns += limit_ns / (found < 4 ? 50 : 12) + 1;
    }
    return true;
}

// --- searching ------------------------------------------------------------------------

static bool try_one(struct many *many, struct arrangement *arrangement, unsigned part, struct error *error)
{
    struct choosing *choosing = many->choosing;
    const uint64_t rest = choosing->budget > choosing->work ? choosing->budget - choosing->work : 1;
    const uint64_t budget = choosing->budget / part;
    return choosing_search(choosing, arrangement, budget < rest ? budget : rest, error);
}

static int compare(const void *left, const void *right)
{
    const struct arrangement *a = left, *b = right;
    return a->estimate_ns < b->estimate_ns ? -1 : a->estimate_ns > b->estimate_ns;
}

// The best of the seeds; SIZE_MAX if none has a plan.
static bool try_seeds(struct many *many, size_t *best, struct error *error)
{
    *best = SIZE_MAX;
    qsort(many->seeds.at, many->seeds.count, sizeof many->seeds.at[0], compare);
    for (size_t i = 0; i < many->seeds.count; i++) {
        const uint64_t before = many->choosing->best_ns;
        if (choosing_must_stop(many->choosing) || (i >= MOST_SEEDS && before != UINT64_MAX))
            break;
        if (!try_one(many, &many->seeds.at[i], SEED_PART, error)
            || !arrangement_add(many->tried, &many->seeds.at[i], error))
            return false;
        if (many->choosing->best_ns < before)
            *best = i;
    }
    return true;
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
    if (is_known(many->tried, &move->to) || choosing_must_stop(many->choosing))
        return false;
    move->to.bound_ns = move->to.estimate_ns = move->to.visits = 0;
    if (!look_at(many, &move->to, error)) {
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
                         .takes_replicas = generator_find(choosing->request->schedule, error)->takes_replicas };
    many.flushes = generator_find(choosing->request->schedule, error)->weights == WEIGHTS_FLUSH;
    size_t best = SIZE_MAX;
    const bool good = prepare(&many, error) && make_seeds(&many, error) && try_seeds(&many, &best, error)
                   && (best == SIZE_MAX || improve(&many, &many.seeds.at[best], error));
    clear(&many);
    return good;
}
