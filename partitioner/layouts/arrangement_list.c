// All arrangements, one after the other: stage by stage a variant and a number of ranks,
// then rank by rank a device.
//
// Devices that can be exchanged without changing anything are one class, and the first
// of each class is taken. Two are, when they are alike, not yet used, and so is all
// around them:
//
//     2 nodes x 2 devices     0 1 | 2 3       rank 0 can be 0 (like 1, 2, 3); then
//                             ^               rank 1 can be 1, or 2 (like 3)
#include <stdlib.h>
#include <string.h>

#include "partitioner/layouts/arrangement.h"
#include "partitioner/search/search_request.h"
#include "partitioner/cost/variant.h"
#include "schedules/generators/generate.h"

enum { MOST_DEVICES = 64 };  // whose classes are worked out

struct listing {
    const struct search_request *request;
    const struct generator *generator;
    const struct arrangement_names *names;
    size_t most;
    struct arrangements *to;
    struct arrangement now;
    uint32_t most_stages;
    bool used[MOST_DEVICES];
    size_t levels;
    struct error *error;
};

// --- arrangements ---------------------------------------------------------------------

void arrangement_clear(struct arrangement *arrangement)
{
    free(arrangement->cuts);
    free(arrangement->replicas);
    free(arrangement->variants);
    free(arrangement->devices);
    *arrangement = (struct arrangement){ 0 };
}

void arrangements_clear(struct arrangements *arrangements)
{
    for (size_t i = 0; i < arrangements->count; i++)
        arrangement_clear(&arrangements->at[i]);
    free(arrangements->at);
    *arrangements = (struct arrangements){ 0 };
}

static void *copy_of(const void *from, size_t count, size_t size)
{
    void *copy = malloc(count * size + 1);
    if (copy)
        memcpy(copy, from, count * size);
    return copy;
}

static bool grow(struct arrangements *arrangements)
{
    if (arrangements->count < arrangements->capacity)
        return true;
    const size_t capacity = arrangements->capacity ? 2 * arrangements->capacity : 16;
    struct arrangement *at = realloc(arrangements->at, capacity * sizeof at[0]);
    if (!at)
        return false;
    arrangements->at = at;
    arrangements->capacity = capacity;
    return true;
}

bool arrangement_add(struct arrangements *arrangements, const struct arrangement *arrangement, struct error *error)
{
    struct arrangement copy = *arrangement;
    copy.devices = copy_of(arrangement->devices, arrangement->device_count, sizeof copy.devices[0]);
    if (arrangement->replicas)
        copy.replicas = copy_of(arrangement->replicas, arrangement->stages, sizeof copy.replicas[0]);
    if (arrangement->variants)
        copy.variants = copy_of(arrangement->variants, arrangement->stages, sizeof copy.variants[0]);
    if (arrangement->cuts)
        copy.cuts = copy_of(arrangement->cuts, (size_t)arrangement->stages + 1, sizeof copy.cuts[0]);
    if (!copy.devices || (arrangement->cuts && !copy.cuts) || (arrangement->replicas && !copy.replicas)
        || (arrangement->variants && !copy.variants)
        || !grow(arrangements)) {
        arrangement_clear(&copy);
        return error_no_memory(error, "the arrangements of a plan");
    }
    arrangements->at[arrangements->count++] = copy;
    return true;
}

struct search_request arrangement_request(const struct search_request *request, const struct arrangement *arrangement)
{
    struct search_request of = *request;
    bool has_replicas = false, has_variants = false;
    for (uint32_t s = 0; arrangement->replicas && s < arrangement->stages; s++)
        has_replicas |= arrangement->replicas[s] > 1;
    for (uint32_t s = 0; arrangement->variants && s < arrangement->stages; s++)
        has_variants |= arrangement->variants[s] != NULL;
    of.free = (struct search_freedom){ 0 };
    of.ranks = arrangement->ranks;
    of.layout.replicas = has_replicas ? arrangement->replicas : NULL;
    of.layout.stages = has_replicas || has_variants ? arrangement->stages : 0;
    of.layout.variants = has_variants ? arrangement->variants : NULL;
    of.layout.devices = arrangement->devices;
    of.layout.begin = has_replicas || has_variants ? arrangement->cuts : NULL;
    return of;
}

bool arrangement_names_read(const struct search_request *request, struct arrangement_names *names, struct error *error)
{
    *names = (struct arrangement_names){ .count = 1, .devices = { 1 } };
    if (request->free.variants)
        names->count += variant_names(request->profile, names->names + 1, ARRANGEMENT_MOST_VARIANTS);
    for (size_t i = 1; i < names->count; i++) {
        struct profile *of = variant_of(request->profile, names->names[i], error);
        if (!of)
            return false;
        variant_free(of);
        names->devices[i] = variant_devices(request->profile, names->names[i]);
    }
    return true;
}

// --- devices that are alike -------------------------------------------------------------

static size_t span_of(const struct cluster *cluster, size_t level)
{
    size_t span = 1;
    for (size_t i = 0; i < level; i++)
        span *= cluster->levels[i].size;
    return span;
}

static bool is_same_device(const struct listing *listing, size_t a, size_t b)
{
    const struct cluster_device *devices = listing->request->cluster->devices;
    return !listing->used[a] && !listing->used[b] && devices[a].speed_permille == devices[b].speed_permille
        && devices[a].memory_bytes == devices[b].memory_bytes;
}

// Whether the groups of this level that begin with devices a and b (level 0: devices) can
// be exchanged, with all that is in them in some order.
static bool is_same_group(const struct listing *listing, size_t level, size_t a, size_t b)
{
    if (a == b)
        return true;
    if (level == 0)
        return is_same_device(listing, a, b);
    const size_t step = span_of(listing->request->cluster, level - 1);
    const size_t count = listing->request->cluster->levels[level - 1].size;
    bool taken[MOST_DEVICES] = { false };
    for (size_t i = 0; i < count; i++) {
        size_t j = 0;
        while (j < count && (taken[j] || !is_same_group(listing, level - 1, a + i * step, b + j * step)))
            j++;
        if (j == count)
            return false;
        taken[j] = true;
    }
    return true;
}

// Whether devices a and b can be exchanged with their groups of this level around them.
static bool is_same_place(const struct listing *listing, size_t level, size_t a, size_t b)
{
    if (level == 0)
        return a == b || is_same_device(listing, a, b);
    const struct cluster *cluster = listing->request->cluster;
    const size_t span = span_of(cluster, level), step = span_of(cluster, level - 1);
    const size_t count = cluster->levels[level - 1].size, from_a = a / span * span, from_b = b / span * span;
    const size_t own_a = a / step * step, own_b = b / step * step;
    if (!is_same_place(listing, level - 1, a, b))
        return false;
    bool taken[MOST_DEVICES] = { false };
    for (size_t i = 0; i < count; i++) {
        size_t j = 0;
        if (from_a + i * step == own_a)
            continue;
        while (j < count && (taken[j] || from_b + j * step == own_b
                             || !is_same_group(listing, level - 1, from_a + i * step, from_b + j * step)))
            j++;
        if (j == count)
            return false;
        taken[j] = true;
    }
    return true;
}

// Whether a device before this one is of the same class.
static bool is_repeated(const struct listing *listing, size_t device)
{
    for (size_t other = 0; other < device; other++)
        if (!listing->used[other] && is_same_place(listing, listing->levels, other, device))
            return true;
    return false;
}

// --- the list -----------------------------------------------------------------------------

static bool is_full(struct listing *listing)
{
    if (listing->to->count >= listing->most)
        listing->to->complete = false;
    return !listing->to->complete || listing->error->kind != ERROR_NONE;
}

static void note(struct listing *listing)
{
    if (!is_full(listing))
        arrangement_add(listing->to, &listing->now, listing->error);
}

// Seats of one stage are filled with ascending devices where links cannot tell them apart.
static size_t first_choice(const struct listing *listing, uint32_t seat, const uint32_t *stage_of)
{
    const bool ascending = listing->levels == 1 && listing->now.replicas && seat > 0
        && stage_of[seat] == stage_of[seat - 1];
    return ascending ? listing->now.devices[seat - 1] + 1 : 0;
}

static void choose_devices(struct listing *listing, uint32_t seat, const uint32_t *stage_of)
{
    if (seat == listing->now.device_count) {
        note(listing);
        return;
    }
    for (size_t d = first_choice(listing, seat, stage_of);
         d < listing->request->cluster->device_count && !is_full(listing); d++) {
        if (listing->used[d] || is_repeated(listing, d))
            continue;
        listing->now.devices[seat] = (uint32_t)d;
        listing->used[d] = true;
        choose_devices(listing, seat + 1, stage_of);
        listing->used[d] = false;
    }
}

static void list_devices(struct listing *listing)
{
    struct arrangement *now = &listing->now;
    if (!listing->request->free.devices) {
        for (uint32_t i = 0; i < now->device_count; i++)
            now->devices[i] = listing->request->layout.devices ? listing->request->layout.devices[i] : i;
        note(listing);
        return;
    }
    if (listing->request->cluster->device_count > MOST_DEVICES) {
        listing->to->complete = false;
        return;
    }
    uint32_t stage_of[MOST_DEVICES], seat = 0;
    for (uint32_t s = 0; now->replicas && s < now->stages; s++)
        for (uint32_t i = 0; i < now->replicas[s] * variant_devices(listing->request->profile, now->variants[s]); i++)
            stage_of[seat++] = s;
    choose_devices(listing, 0, stage_of);
}

// Whether so many devices may be all that are used.
static bool is_enough(const struct listing *listing, uint32_t devices)
{
    return devices == listing->request->ranks || (listing->request->free.fewer && devices > 0);
}

static void choose_stages(struct listing *listing)
{
    struct arrangement *now = &listing->now;
    const struct search_request *request = listing->request;
    const bool is_given = (request->layout.replicas && !request->free.replicas) || request->layout.variants;
    if (is_enough(listing, now->device_count) && (!is_given || now->stages == request->layout.stages))
        list_devices(listing);
    if (now->stages == listing->most_stages || (is_given && now->stages == request->layout.stages) || is_full(listing))
        return;
    const uint32_t s = now->stages++, devices = now->device_count, ranks = now->ranks;
    for (size_t v = 0; v < listing->names->count; v++) {
        const char *name = request->layout.variants ? request->layout.variants[s] : listing->names->names[v];
        const uint32_t group = variant_devices(request->profile, name);
        const uint32_t least = is_given && request->layout.replicas ? request->layout.replicas[s] : 1;
        const uint32_t most = is_given || !request->free.replicas ? least : request->micro_batches;
        for (uint32_t r = least; r <= most && devices + (uint64_t)r * group <= request->ranks; r++) {
            now->replicas[s] = r;
            now->variants[s] = name;
            now->ranks = ranks + r;
            now->device_count = devices + r * group;
            choose_stages(listing);
        }
    }
    now->stages = s;
    now->ranks = ranks;
    now->device_count = devices;
}

// A schedule with its own way to lay stages on ranks: all stages take the same variant.
static void choose_ranks(struct listing *listing)
{
    struct arrangement *now = &listing->now;
    uint32_t *replicas = now->replicas;
    now->replicas = NULL;
    for (uint32_t ranks = 1; ranks <= listing->request->ranks; ranks++) {
        for (size_t v = 0; v < listing->names->count; v++) {
            struct error why_not = { 0 };
            now->ranks = ranks;
            now->device_count = ranks * listing->names->devices[v];
            if (now->device_count > listing->request->ranks || !is_enough(listing, now->device_count))
                continue;
            const struct search_request request = arrangement_request(listing->request, now);
            struct schedule *order = search_order(&request, request.micro_batches, &why_not);
            const uint32_t stages = order ? order->stages : 0;
            schedule_free(order);
            if (stages == 0 || stages > listing->most_stages)
                continue;
            for (uint32_t s = 0; s < stages; s++)
                now->variants[s] = listing->names->names[v];
            now->stages = stages;
            list_devices(listing);
            now->stages = 0;
        }
    }
    now->replicas = replicas;
}

static uint32_t count_stages(const struct search_request *request)
{
    uint32_t count = 1;
    for (size_t l = 0; l + 1 < request->profile->layer_count; l++)
        count += profile_can_cut_after(request->profile, l);
    return count;
}

bool arrangements_list(const struct search_request *request, const struct arrangement_names *names, size_t most,
                       struct arrangements *arrangements, struct error *error)
{
    struct listing listing = { .request = request, .names = names, .most = most, .to = arrangements,
                               .generator = generator_find(request->schedule, error),
                               .levels = request->cluster->level_count, .most_stages = count_stages(request),
                               .error = error };
    const size_t room = listing.most_stages + 1;
    listing.now.replicas = calloc(room, sizeof listing.now.replicas[0]);
    listing.now.variants = calloc(room, sizeof listing.now.variants[0]);
    listing.now.devices = calloc((size_t)request->ranks + 1, sizeof listing.now.devices[0]);
    arrangements->complete = true;
    if (!listing.now.replicas || !listing.now.variants || !listing.now.devices)
        error_no_memory(error, "the arrangements of a plan");
    else if (listing.generator && listing.generator->takes_replicas)
        choose_stages(&listing);
    else if (listing.generator)
        choose_ranks(&listing);
    arrangement_clear(&listing.now);
    return error->kind == ERROR_NONE;
}
