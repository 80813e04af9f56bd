#include "partitioner/layouts/layout_moves.h"

#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "partitioner/cost/variant.h"

struct annealing {
    struct layout_search *search;
    const struct search_request *request;
    struct layout_model *model;
    struct layout now, trial, best;  // each with room for `room` stages, and all devices that may be used
    uint32_t layers, room, devices;
    bool has_unlike;                 // there are devices that it makes a difference to exchange
    uint64_t most;                   // work that a run of annealing may take if layouts are few
    uint64_t seed;
};

// --- layouts with room ------------------------------------------------------------------

static bool make_room(const struct annealing *annealing, struct layout *layout)
{
    const size_t room = annealing->room;
    layout->replicas = calloc(room + 1, sizeof layout->replicas[0]);
    layout->variants = calloc(room + 1, sizeof layout->variants[0]);
    layout->cuts = calloc(room + 2, sizeof layout->cuts[0]);
    layout->devices = calloc((size_t)annealing->devices + 1, sizeof layout->devices[0]);
    return layout->replicas && layout->variants && layout->cuts && layout->devices;
}

static void copy(const struct annealing *annealing, struct layout *to, const struct layout *from)
{
    to->stages = from->stages;
    to->ranks = from->ranks;
    to->device_count = from->device_count;
    to->spare_count = from->spare_count;
    to->estimate_ns = from->estimate_ns;
    memcpy(to->replicas, from->replicas, from->stages * sizeof to->replicas[0]);
    memcpy(to->variants, from->variants, from->stages * sizeof to->variants[0]);
    memcpy(to->cuts, from->cuts, ((size_t)from->stages + 1) * sizeof to->cuts[0]);
    memcpy(to->devices, from->devices, annealing->devices * sizeof to->devices[0]);
}

// Inserts a stage in front of stage s, with layers from where that begins up to `cut`.
static void insert(struct layout *layout, uint32_t s, uint32_t ranks, uint32_t cut)
{
    const uint32_t behind = layout->stages - s;
    memmove(&layout->replicas[s + 1], &layout->replicas[s], behind * sizeof layout->replicas[0]);
    memmove(&layout->variants[s + 1], &layout->variants[s], behind * sizeof layout->variants[0]);
    memmove(&layout->cuts[s + 2], &layout->cuts[s + 1], behind * sizeof layout->cuts[0]);
    layout->replicas[s] = ranks;
    layout->cuts[s + 1] = cut;
    layout->stages++;
}

// Takes out a stage. Its layers go to the stage behind it or, for the last one, to the stage before.
static void take_out(struct layout *layout, uint32_t s)
{
    const uint32_t behind = --layout->stages - s, cut = behind > 0 ? s + 1 : s;
    memmove(&layout->replicas[s], &layout->replicas[s + 1], behind * sizeof layout->replicas[0]);
    memmove(&layout->variants[s], &layout->variants[s + 1], behind * sizeof layout->variants[0]);
    memmove(&layout->cuts[cut], &layout->cuts[cut + 1], (layout->stages + 1 - cut) * sizeof layout->cuts[0]);
}

static uint32_t group_of(const struct annealing *annealing, const char *variant)
{
    return variant_devices(annealing->request->profile, variant);
}

static uint32_t any_of(struct annealing *annealing, uint32_t count)
{
    return (uint32_t)random_below(&annealing->seed, count);
}

// --- moves ------------------------------------------------------------------------------

// The place to cut that is so many places away; 0 if there is none.
static uint32_t moved(const struct annealing *annealing, uint32_t cut, int places)
{
    const bool *can_cut = layout_can_cut(annealing->model);
    const int step = places < 0 ? -1 : 1;
    int64_t place = cut;
    for (int left = places * step; left > 0; left--) {
        do
            place += step;
        while (place > 0 && place < annealing->layers && !can_cut[place]);
        if (place <= 0 || place >= annealing->layers)
            return 0;
    }
    return (uint32_t)place;
}

static bool has_cuts(const struct annealing *annealing, const struct layout *layout)
{
    bool has = true;
    for (uint32_t s = 0; s < layout->stages; s++)
        has &= layout->cuts[s] < layout->cuts[s + 1] && layout_can_cut(annealing->model)[layout->cuts[s]];
    return has;
}

static bool move_cuts(struct annealing *annealing, struct layout *trial)
{
    if (trial->stages < 2)
        return false;
    const uint32_t from = 1 + any_of(annealing, trial->stages - 1);
    uint32_t to = from + 1;
    int places = any_of(annealing, 3) == 0 ? 2 : 1;
    if (any_of(annealing, 2))
        to = from + 1 + any_of(annealing, trial->stages - from);
    if (any_of(annealing, 2))
        places = -places;
    for (uint32_t c = from; c < to; c++) {
        trial->cuts[c] = moved(annealing, trial->cuts[c], places);
        if (trial->cuts[c] == 0)
            return false;
    }
    return trial->cuts[from] > trial->cuts[from - 1] && trial->cuts[to - 1] < trial->cuts[to];
}

// Gives `ranks` ranks of stage s to stage t, with about as many layers as they have. Devices stay where they are, so
// the devices of stages between the two change a little, too.
static bool give_ranks(struct annealing *annealing, struct layout *trial, uint32_t s, uint32_t t, uint32_t ranks)
{
    uint32_t *replicas = trial->replicas;
    const uint32_t layers = ranks * (trial->cuts[s + 1] - trial->cuts[s]) / replicas[s];
    if (s == t || replicas[t] + ranks > annealing->request->micro_batches
        || group_of(annealing, trial->variants[s]) != group_of(annealing, trial->variants[t]))
        return false;
    replicas[s] -= ranks;
    replicas[t] += ranks;
    for (uint32_t c = 1 + (s < t ? s : t); replicas[s] > 0 && c <= (s < t ? t : s); c++)
        trial->cuts[c] = moved(annealing, trial->cuts[c], s < t ? -(int)layers : (int)layers);
    if (replicas[s] == 0)
        take_out(trial, s);
    return true;
}

static bool move_ranks(struct annealing *annealing, struct layout *trial)
{
    const uint32_t s = any_of(annealing, trial->stages), t = any_of(annealing, trial->stages);
    uint32_t *replicas = trial->replicas;
    switch (any_of(annealing, 4)) {
    case 0:
        return give_ranks(annealing, trial, s, t, any_of(annealing, 2) ? 1 : 1 + any_of(annealing, replicas[s]));
    case 1:
        if (replicas[s] < 2 || trial->stages >= annealing->room)
            return false;
        const uint32_t ranks = 1 + any_of(annealing, replicas[s] - 1);
        insert(trial, s, ranks, trial->cuts[s] + ranks * (trial->cuts[s + 1] - trial->cuts[s]) / replicas[s]);
        replicas[s + 1] -= replicas[s];
        return true;
    case 2:
        if (s + 1 >= trial->stages || trial->variants[s] != trial->variants[s + 1]
            || replicas[s] + replicas[s + 1] > annealing->request->micro_batches)
            return false;
        replicas[s + 1] += replicas[s];
        take_out(trial, s);
        return true;
    default:
        return replicas[s] > replicas[t] && give_ranks(annealing, trial, s, t, replicas[s] - replicas[t]);
    }
}

// Gives a stage another variant on the same devices.
static bool give_variant(const struct annealing *annealing, struct layout *trial, uint32_t s, size_t v)
{
    const struct layout_names *names = annealing->search->names;
    const uint32_t devices = trial->replicas[s] * group_of(annealing, trial->variants[s]);
    const uint32_t ranks = devices / names->devices[v];
    if (names->names[v] == trial->variants[s] || devices % names->devices[v] != 0
        || ranks > annealing->request->micro_batches
        || (ranks != trial->replicas[s] && !annealing->request->free.replicas))
        return false;
    trial->variants[s] = names->names[v];
    trial->ranks += ranks - trial->replicas[s];
    trial->replicas[s] = ranks;
    return true;
}

// Changes the variant of a stage, or of all stages if it would not go with those beside it.
static bool change_variant(struct annealing *annealing, struct layout *trial)
{
    const struct layout_names *names = annealing->search->names;
    const struct profile *profile = annealing->request->profile;
    const uint32_t s = any_of(annealing, trial->stages), v = any_of(annealing, (uint32_t)names->count);
    const bool meets = (s == 0 || variants_meet(profile, trial->variants[s - 1], names->names[v]))
                    && (s + 1 == trial->stages || variants_meet(profile, names->names[v], trial->variants[s + 1]));
    bool good = give_variant(annealing, trial, s, v);
    for (uint32_t other = 0; good && !meets && other < trial->stages; other++)
        good = trial->variants[other] == names->names[v] || give_variant(annealing, trial, other, v);
    return good;
}

static bool exchange_devices(struct annealing *annealing, struct layout *trial)
{
    const struct cluster *cluster = annealing->request->cluster;
    const uint32_t i = any_of(annealing, trial->device_count), j = any_of(annealing, annealing->devices);
    const uint32_t a = trial->devices[i], b = trial->devices[j];
    if (a == b || (cluster->devices[a].speed_permille == cluster->devices[b].speed_permille
                   && cluster->devices[a].memory_bytes == cluster->devices[b].memory_bytes
                   && (cluster->level_count < 2 || cluster_level_between(cluster, a, b) == 0)))
        return false;
    trial->devices[i] = b;
    trial->devices[j] = a;
    return true;
}

// Moves the first few of `count` devices behind the others.
static void rotate(uint32_t *devices, uint32_t first, uint32_t count)
{
    for (uint32_t done = 0; done < first; done++) {
        const uint32_t device = devices[0];
        memmove(devices, devices + 1, (count - 1) * sizeof devices[0]);
        devices[count - 1] = device;
    }
}

// Leaves out a rank of some stage, or gives a device that was left out to one.
static bool leave_out(struct annealing *annealing, struct layout *trial)
{
    const uint32_t s = any_of(annealing, trial->stages), group = group_of(annealing, trial->variants[s]);
    uint32_t end = 0;
    for (uint32_t t = 0; t <= s; t++)
        end += trial->replicas[t] * group_of(annealing, trial->variants[t]);
    if (any_of(annealing, 2)) {
        if (trial->device_count + group > annealing->request->ranks || !annealing->request->free.replicas
            || trial->replicas[s] >= annealing->request->micro_batches)
            return false;
        if (annealing->request->free.devices)
            rotate(trial->devices + end, trial->device_count - end, trial->device_count - end + group);
        trial->replicas[s]++;
        trial->ranks++;
        trial->device_count += group;
        trial->spare_count -= group;
        return true;
    }
    if (trial->ranks < 2)
        return false;
    if (annealing->request->free.devices)
        rotate(trial->devices + end - group, group, annealing->devices - (end - group));
    trial->ranks--;
    trial->device_count -= group;
    trial->spare_count += group;
    if (--trial->replicas[s] == 0)
        take_out(trial, s);
    return true;
}

// Makes any move but one of cuts alone. False if it came to nothing.
static bool move_layout(struct annealing *annealing, struct layout *trial)
{
    const struct search_freedom may = annealing->request->free;
    switch (any_of(annealing, 4)) {
    case 0:
        if (may.devices && annealing->has_unlike)
            return exchange_devices(annealing, trial);
        break;
    case 1:
        if (may.fewer)
            return leave_out(annealing, trial);
        break;
    case 2:
        if (may.variants)
            return change_variant(annealing, trial);
        break;
    }
    return may.replicas && move_ranks(annealing, trial);
}

// Anneals with up to `work` units of work. At first a move may be worse by the fraction `heat`.
static void anneal(struct annealing *annealing, double heat, uint64_t work)
{
    struct search_context *context = &annealing->search->context;
    const uint64_t since = context->work;
    struct layout *now = &annealing->now, *trial = &annealing->trial;
    copy(annealing, now, &annealing->best);
    while (context->work - since < work && !layout_search_is_over(annealing->search)) {
        const double left = 1 - (double)(context->work - since) / (double)work;
        const uint64_t worse = (uint64_t)((double)now->estimate_ns * heat * left * left) + 1;
        context->work++;
        copy(annealing, trial, now);
        const bool moves_cuts = any_of(annealing, 2), stays = moves_cuts || any_of(annealing, 2);
        if (!(moves_cuts ? move_cuts(annealing, trial) : move_layout(annealing, trial))
            || !layout_ties_hold(trial, annealing->request->profile))
            continue;
        if (stays && !(has_cuts(annealing, trial)
                       && layout_time_within(annealing->model, trial, now->estimate_ns + worse, &context->work)))
            continue;
        if (!stays && !layout_cut(annealing->model, trial, now->estimate_ns + worse, &context->work))
            continue;
        if (trial->estimate_ns <= now->estimate_ns
            || trial->estimate_ns - now->estimate_ns < random_below(&annealing->seed, worse)) {
            copy(annealing, now, trial);
            if (now->estimate_ns < annealing->best.estimate_ns)
                copy(annealing, &annealing->best, now);
        }
    }
}

// --- beginnings ---------------------------------------------------------------------------

// Devices by speed, fastest or slowest first, or by memory, largest first; otherwise as they are given.
enum sequence { AS_GIVEN, FASTEST_FIRST, SLOWEST_FIRST, LARGEST_FIRST };

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

void layout_order_devices(const struct search_request *request, unsigned sequence, uint32_t *devices)
{
    const bool is_free = request->free.devices;
    const uint32_t count = is_free ? (uint32_t)request->cluster->device_count : request->ranks;
    const struct cluster_device *known = request->cluster->devices;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t device = request->layout.devices && !is_free ? request->layout.devices[i] : i;
        uint32_t place = i;
        for (; place > 0 && is_before(&known[device], &known[devices[place - 1]], (enum sequence)sequence); place--)
            devices[place] = devices[place - 1];
        devices[place] = device;
    }
}

// Adds the layout or, if it is known with worse cuts, only its cuts.
static bool note(struct annealing *annealing, struct layouts *found, struct error *error)
{
    const struct layout *best = &annealing->best;
    for (size_t i = 0; i < found->count; i++) {
        struct layout *other = &found->at[i];
        if (!layout_is_same(other, best))
            continue;
        if (best->estimate_ns < other->estimate_ns) {
            memcpy(other->cuts, best->cuts, ((size_t)best->stages + 1) * sizeof best->cuts[0]);
            other->estimate_ns = best->estimate_ns;
        }
        return true;
    }
    return layout_add(found, best, error);
}

static int compare(const void *left, const void *right)
{
    const struct layout *a = left, *b = right;
    return a->estimate_ns < b->estimate_ns ? -1 : a->estimate_ns > b->estimate_ns;
}

// Lays the same number of ranks on each of so many stages, as far as possible; or the ranks that are given.
static bool lay_even(const struct annealing *annealing, uint32_t stages, size_t v, struct layout *to)
{
    const struct search_request *request = annealing->request;
    const struct layout_names *names = annealing->search->names;
    const uint32_t ranks = request->ranks / names->devices[v];
    const bool is_given = request->layout.replicas && !request->free.replicas;
    to->stages = is_given || request->layout.variants ? request->layout.stages : stages;
    to->ranks = to->device_count = 0;
    if (to->stages > annealing->room)
        return false;
    for (uint32_t s = 0; s < to->stages; s++) {
        to->replicas[s] = is_given ? request->layout.replicas[s] : request->layout.variants ? 1
            : ranks / stages + (s < ranks % stages);
        to->variants[s] = request->layout.variants ? request->layout.variants[s] : names->names[v];
        to->ranks += to->replicas[s];
        to->device_count += to->replicas[s] * group_of(annealing, to->variants[s]);
        if (to->replicas[s] == 0 || to->replicas[s] > request->micro_batches)
            return false;
    }
    to->spare_count = annealing->devices - to->device_count;
    return to->device_count == request->ranks || request->free.fewer;
}

// Cuts the layout, with a limit that grows from twice the bound on until it is enough.
static bool begin_with(struct annealing *annealing)
{
    uint64_t limit_ns = 2 * annealing->search->bound_ns + 1000;
    for (int tries = 0; tries < 40; tries++, limit_ns *= 2)
        if (layout_cut(annealing->model, &annealing->best, limit_ns, &annealing->search->context.work))
            return true;
    return false;
}

// Notes even layouts of every number of stages, in growing steps.
static bool note_even(struct annealing *annealing, size_t v, struct layouts *found, struct error *error)
{
    const struct search_request *request = annealing->request;
    uint32_t stages = request->free.replicas ? 1 : request->ranks / annealing->search->names->devices[v];
    for (; stages > 0 && stages <= annealing->room; stages += 1 + stages / 16) {
        if (lay_even(annealing, stages, v, &annealing->best) && begin_with(annealing)
            && !note(annealing, found, error))
            return false;
        if (found->count > 0 && layout_search_is_over(annealing->search))
            return true;
    }
    return true;
}

// Lays stages in tiers. The stages of each further tier have twice the ranks, and all tiers have about as many of the
// ranks.
static bool lay_tiers(const struct annealing *annealing, uint32_t base, uint32_t tiers, size_t v, struct layout *to)
{
    const struct search_request *request = annealing->request;
    const struct layout_names *names = annealing->search->names;
    const uint32_t ranks = request->ranks / names->devices[v];
    uint32_t left = ranks;
    to->stages = 0;
    for (uint32_t tier = 0; tier < tiers; tier++) {
        const uint32_t each = base << tier, behind = ranks * (tiers - 1 - tier) / tiers;
        for (; left >= each + behind; left -= each) {
            if (to->stages == annealing->room || each > request->micro_batches)
                return false;
            to->replicas[to->stages] = each;
            to->variants[to->stages++] = names->names[v];
        }
    }
    if (to->stages == 0 || to->replicas[to->stages - 1] + left > request->micro_batches)
        return false;
    to->replicas[to->stages - 1] += left;
    to->ranks = ranks;
    to->device_count = ranks * names->devices[v];
    to->spare_count = annealing->devices - to->device_count;
    return to->device_count == request->ranks || request->free.fewer;
}

static bool note_tiers(struct annealing *annealing, size_t v, struct layouts *found, struct error *error)
{
    if (!annealing->request->free.replicas || annealing->request->layout.variants)
        return true;
    for (uint32_t tiers = 2; tiers <= 4; tiers++) {
        for (uint32_t base = 1; base <= annealing->request->ranks / tiers >> (tiers - 1); base += 1 + base / 16) {
            if (lay_tiers(annealing, base, tiers, v, &annealing->best) && begin_with(annealing)
                && !note(annealing, found, error))
                return false;
            if (layout_search_is_over(annealing->search))
                return true;
        }
    }
    return true;
}

// Notes layouts to begin with, on devices in several orders.
static bool note_beginnings(struct annealing *annealing, struct layouts *found, struct error *error)
{
    const struct search_request *request = annealing->request;
    const unsigned sequences = request->free.devices && annealing->has_unlike ? LAYOUT_SEQUENCES : 1;
    for (size_t v = 0; v < annealing->search->names->count; v++) {
        for (unsigned sequence = 0; sequence < sequences; sequence++) {
            layout_order_devices(request, sequence, annealing->best.devices);
            if (!note_even(annealing, v, found, error) || !note_tiers(annealing, v, found, error))
                return false;
        }
    }
    return true;
}

static void sort(struct layouts *found)
{
    if (found->count > 0)
        qsort(found->at, found->count, sizeof found->at[0], compare);
}

// Anneals from a layout. At first a move may cost `warmth` times the share that one rank is of all.
static bool go_from(struct annealing *annealing, struct layouts *found, size_t from, double warmth, uint64_t part,
                    struct error *error)
{
    if (from >= found->count)
        return true;
    const uint64_t work = annealing->search->context.budget / part;
    copy(annealing, &annealing->best, &found->at[from]);
    anneal(annealing, warmth / annealing->request->ranks, work < annealing->most ? work : annealing->most);
    return note(annealing, found, error);
}

// Anneals for a short time from the best beginnings, then for longer from the best of all.
static bool better(struct annealing *annealing, struct layouts *found, struct error *error)
{
    enum { SHORT_WAYS = 8, SHORT_PART = 80, LONG_PART = 6 };
    static const struct { size_t from; double warmth; } long_ways[] = { { 0, 1.6 }, { 1, 0.8 }, { 0, 0.4 } };
    bool good = true;
    sort(found);
    for (size_t i = 0; good && i < SHORT_WAYS; i++)
        good = go_from(annealing, found, i, 1.6, SHORT_PART, error);
    for (size_t i = 0; good && i < sizeof long_ways / sizeof long_ways[0]; i++) {
        sort(found);
        good = go_from(annealing, found, long_ways[i].from, long_ways[i].warmth, LONG_PART, error);
    }
    sort(found);
    return good;
}

static void see_devices(struct annealing *annealing)
{
    const struct cluster *cluster = annealing->request->cluster;
    annealing->has_unlike = cluster->level_count > 1;
    for (size_t i = 1; i < cluster->device_count; i++)
        annealing->has_unlike |= cluster->devices[i].speed_permille != cluster->devices[0].speed_permille
                              || cluster->devices[i].memory_bytes != cluster->devices[0].memory_bytes;
}

bool layouts_find(struct layout_search *search, size_t count, struct layouts *found, struct error *error)
{
    enum { WORK = 20 };  // for each cut of a layout
    const struct search_request *request = search->request;
    struct annealing annealing = { .search = search, .request = request, .seed = 1,
                                   .layers = (uint32_t)request->profile->layer_count };
    annealing.devices = request->free.devices ? (uint32_t)request->cluster->device_count : request->ranks;
    annealing.room = request->ranks < annealing.layers ? request->ranks : annealing.layers;
    annealing.most = WORK * count * annealing.layers;
    see_devices(&annealing);
    annealing.model = layout_model_create(request, search->names, error);
    bool good = annealing.model != NULL;
    if (good && !(make_room(&annealing, &annealing.now) && make_room(&annealing, &annealing.trial)
                  && make_room(&annealing, &annealing.best)))
        good = error_no_memory(error, "the layouts of a plan");
    good = good && note_beginnings(&annealing, found, error);
    sort(found);
    good = good && layout_search_early(search, found, error) && better(&annealing, found, error);
    layout_clear(&annealing.now);
    layout_clear(&annealing.trial);
    layout_clear(&annealing.best);
    layout_model_free(annealing.model);
    return good;
}
