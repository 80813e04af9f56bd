// All layouts, one after the other: stage by stage a variant and a number of ranks, then rank by rank a device.
//
// Devices that can be exchanged without changing anything are one class, and the first of each class is taken. Two
// devices are of a class if they are alike, neither is used yet, and the same holds for everything around them:
//
//     2 nodes x 2 devices     0 1 | 2 3       rank 0 can be 0 (like 1, 2, 3); then
//                             ^               rank 1 can be 1, or 2 (like 3)
#include <stdlib.h>

#include "partitioner/cost/variant.h"
#include "partitioner/layouts/layout.h"
#include "partitioner/search/search_request.h"

enum { MOST_DEVICES = 64 };  // with more devices, classes are not worked out

struct listing {
    const struct search_request *request;
    const struct layout_names *names;
    size_t most;
    struct layouts *to;
    struct layout now;
    uint32_t most_stages;
    bool used[MOST_DEVICES];
    size_t levels;
    struct error *error;
};

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

// Whether the groups of this level that begin with devices a and b (level 0: devices) can be exchanged, with their
// contents in some order.
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

// Whether an unused device before this one is of the same class.
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
        layout_add(listing->to, &listing->now, listing->error);
}

// A seat is a place for a device in a layout. The seats of one stage are filled with ascending devices if links
// cannot tell these apart.
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
    struct layout *now = &listing->now;
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

// Whether a layout may use just so many devices.
static bool is_enough(const struct listing *listing, uint32_t devices)
{
    return devices == listing->request->ranks || (listing->request->free.fewer && devices > 0);
}

static void choose_stages(struct listing *listing)
{
    struct layout *now = &listing->now;
    const struct search_request *request = listing->request;
    const bool is_given = (request->layout.replicas && !request->free.replicas) || request->layout.variants;
    if (is_enough(listing, now->device_count) && (!is_given || now->stages == request->layout.stages)
        && layout_ties_hold(now, request->profile))
        list_devices(listing);
    if (now->stages == listing->most_stages || (is_given && now->stages == request->layout.stages) || is_full(listing))
        return;
    const uint32_t s = now->stages++, devices = now->device_count, ranks = now->ranks;
    for (size_t v = 0; v < listing->names->count; v++) {
        const char *name = request->layout.variants ? request->layout.variants[s] : listing->names->names[v];
        const uint32_t group = variant_devices(request->profile, name);
        if (s > 0 && !variants_meet(request->profile, now->variants[s - 1], name))
            continue;
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

// For a schedule with its own way to lay stages on ranks: all stages take the same variant.
static void choose_ranks(struct listing *listing)
{
    struct layout *now = &listing->now;
    uint32_t *replicas = now->replicas;
    now->replicas = NULL;
    for (uint32_t ranks = 1; ranks <= listing->request->ranks; ranks++) {
        for (size_t v = 0; v < listing->names->count; v++) {
            struct error why_not = { 0 };
            now->ranks = ranks;
            now->device_count = ranks * listing->names->devices[v];
            if (now->device_count > listing->request->ranks || !is_enough(listing, now->device_count))
                continue;
            const struct search_request request = layout_request(listing->request, now);
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

bool layouts_list(const struct search_request *request, const struct layout_names *names, size_t most,
                       struct layouts *layouts, struct error *error)
{
    struct listing listing = { .request = request, .names = names, .most = most, .to = layouts,
                               .levels = request->cluster->level_count, .most_stages = count_stages(request),
                               .error = error };
    const size_t room = listing.most_stages + 1;
    listing.now.replicas = calloc(room, sizeof listing.now.replicas[0]);
    listing.now.variants = calloc(room, sizeof listing.now.variants[0]);
    listing.now.devices = calloc((size_t)request->ranks + 1, sizeof listing.now.devices[0]);
    layouts->complete = true;
    if (!listing.now.replicas || !listing.now.variants || !listing.now.devices)
        error_no_memory(error, "the layouts of a plan");
    else if (search_generator(request)->takes_replicas)
        choose_stages(&listing);
    else
        choose_ranks(&listing);
    layout_clear(&listing.now);
    return error->kind == ERROR_NONE;
}
