// Arrangements to begin with: those in which no stage is busy for longer than T, for
// several T, with the least fill.
//
// A dynamic program over layers and devices finds, for a T, the least sum of what one
// micro-batch takes in all stages:
//
//     fill[k][l]     of the first l layers on k devices     a stage of layers [first, end) has
//                                                           the fewest ranks that keep it below T
//
// What a stage must recompute is taken for as large a part of it as what it lacks is of
// what it keeps.
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/layouts/arrangement_many.h"
#include "partitioner/search/search_request.h"
#include "partitioner/cost/variant.h"

// How many values of T; where crewings were tried before (they need a flush), fewer are worth while.
enum { STEPS = 7, STEPS_ALONE = 14 };

uint64_t many_reduce_ns(const struct many *many, uint64_t weights, uint32_t copies)
{
    const struct cluster *cluster = many->request->cluster;
    size_t level = 0, span = cluster->level_count ? cluster->levels[0].size : 1;
    while (level + 1 < cluster->level_count && span < copies)
        span *= cluster->levels[++level].size;
    return cluster->level_count == 0 ? 0
        : holding_reduce_ns(&many->request->holding, copies, weights,
                            (struct link){ cluster->levels[level].latency_ns,
                                           cluster->levels[level].bytes_per_second });
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
    ahead = ahead < own && !many->is_gpipe ? ahead : own;
    const uint64_t kept = multiply_clamped(ahead, of->kept[end] - of->kept[first] + of->cut[first]);
    uint64_t again = 0;
    if (fixed > many->memory)
        return 0;
    const uint64_t reduce = many_reduce_ns(many, of->weights[end] - of->weights[first], ranks);
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

static bool add_seed(struct many *many, struct arrangement *seed, uint64_t estimate_ns, struct error *error)
{
    const uint32_t *given = many->request->layout.devices;
    uint32_t *devices = calloc(many->request->cluster->device_count + 1, sizeof devices[0]);
    bool good = devices || error_no_memory(error, "the arrangements of a plan");
    for (int sequence = 0; good && sequence < (many->request->free.devices ? SEQUENCES : 1); sequence++) {
        put_in_order(many, (enum sequence)sequence, devices);
        seed->devices = devices;
        seed->estimate_ns = estimate_ns;
        if (given && !many->request->free.devices)
            memcpy(devices, given, seed->device_count * sizeof devices[0]);
        good = many_knows(&many->seeds, seed)
            || (many_look_at(many, seed, error) && arrangement_add(&many->seeds, seed, error));
    }
    seed->devices = NULL;
    free(devices);
    return good;
}

// Whether the search is ended and there is something to begin with.
static bool is_enough(const struct many *many)
{
    return many->seeds.count > 0 && choosing_must_stop(many->choosing);
}

static bool seed_below(struct many *many, uint64_t limit_ns, struct error *error)
{
    const size_t row = (size_t)many->layers + 1, cells = ((size_t)many->devices + 1) * row;
    for (size_t i = 0; i < cells; i++)
        many->fill[i] = UINT64_MAX;
    many->fill[0] = 0;
    for (uint32_t end = 1; end <= many->layers && !is_enough(many); end++)
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

// From one stage of all to a stage for each device.
bool many_make_even_seeds(struct many *many, struct error *error)
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

// Two stages, the first on more of the devices: what schedules without a flush often want,
// whose gradients are added up for each update.
static bool seed_pairs(struct many *many, struct error *error)
{
    uint32_t replicas[2];
    const char *variants[2] = { NULL, NULL };
    struct arrangement seed = { .replicas = replicas, .variants = variants, .stages = 2, .ranks = many->devices,
                                .device_count = many->devices };
    bool good = true;
    for (uint32_t ranks = many->devices - 1; good && ranks > many->devices / 2 && many->layers > 1; ranks--) {
        replicas[0] = ranks;
        replicas[1] = many->devices - ranks;
        good = ranks > many->request->micro_batches
            || add_seed(many, &seed, slowest_iteration(many) / many->devices, error);
    }
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
bool many_make_seeds(struct many *many, struct error *error)
{
    if (!many->takes_replicas)
        return seed_own(many, error);
    if (!many_make_even_seeds(many, error) || (!many->flushes && many->request->free.replicas && !seed_pairs(many, error)))
        return false;
    uint64_t limit_ns = many->choosing->bound_ns;
    const uint64_t most = 2 * slowest_iteration(many) + 1;
    if (limit_ns == 0)
        limit_ns = slowest_iteration(many) / many->devices;
    limit_ns += limit_ns / 200 + 1;
    const int steps = many->flushes ? STEPS : STEPS_ALONE;
    for (int found = 0; found < steps && limit_ns < most && !is_enough(many);) {
        const size_t before = many->seeds.count;
        if (!seed_below(many, limit_ns, error))
            return false;
        found += many->seeds.count > before || before > 0;
        limit_ns += limit_ns / (found < 4 ? 50 : 12) + 1;
    }
    return true;
}
