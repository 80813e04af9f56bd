#include "partitioner/sweep/config_place.h"

#include "partitioner/sweep/config_sweep.h"
#include "schedules/generators/generate.h"

const char *const config_placement_names[] = { "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", NULL };
const char *const config_placement_ends[] = { "dp-pp", "pp-dp" };

static uint64_t stage_devices(const struct config_row *row)
{
    return (uint64_t)row->tensor * row->context;
}

// The distance between a rank's devices and those of the next rank, and between a pipeline's devices and those of the
// next.
static uint64_t rank_stride(const struct config_row *row)
{
    return stage_devices(row) * (row->placement == PLACEMENT_DATA_INSIDE ? row->data : 1);
}

static uint64_t pipeline_stride(const struct config_row *row)
{
    return stage_devices(row) * (row->placement == PLACEMENT_PIPELINE_INSIDE ? row->ranks : 1);
}

// Whether all groups of `ranks` consecutive ranks are within one group of `reach` devices, in every pipeline.
static bool are_within(const struct config_row *row, uint64_t ranks, uint64_t reach)
{
    for (uint64_t d = 0; d < row->data; d++)
        for (uint64_t s = 0; s < row->ranks; s += ranks) {
            const uint64_t first = d * pipeline_stride(row) + s * rank_stride(row);
            const uint64_t last = first + (ranks - 1) * rank_stride(row) + stage_devices(row) - 1;
            if (first / reach != last / reach)
                return false;
        }
    return true;
}

// The largest number of consecutive ranks that are always within `reach` devices. It is a multiple of `inside`.
static uint32_t most_within(const struct config_row *row, uint32_t inside, uint64_t reach)
{
    for (uint32_t ranks = row->ranks; ranks > inside; ranks--)
        if (row->ranks % ranks == 0 && ranks % inside == 0 && (ranks - 1) * rank_stride(row) < reach
            && are_within(row, ranks, reach))
            return ranks;
    return inside;
}

struct config_hops config_hops(const struct config_request *request, const struct config_row *row)
{
    const struct rated_device *device = request->device;
    struct config_hops hops = { 0 };
    uint32_t inside = 1;
    uint64_t reach = 1;
    for (size_t i = 0; i < device->level_count && (inside < row->ranks || !hops.count); i++) {
        reach *= device->levels[i].size;
        const bool is_last = i + 1 == device->level_count;
        const uint32_t ranks = is_last ? row->ranks : most_within(row, inside, reach);
        if (ranks == inside && !(is_last && !hops.count))
            continue;
        hops.at[hops.count].ranks = inside = ranks;
        hops.at[hops.count++].level = &device->levels[i];
    }
    return hops;
}

const struct rated_level *config_hop(const struct config_hops *hops, uint32_t rank)
{
    size_t i = 0;
    while (i + 1 < hops->count && rank / hops->at[i].ranks != (rank + 1) / hops->at[i].ranks)
        i++;
    return hops->at[i].level;
}

// The slow devices are the last ones of those that have work.
static uint64_t first_slow(const struct config_request *request, const struct config_row *row)
{
    const uint64_t present = request->devices - request->without;
    const uint64_t used = stage_devices(row) * row->ranks * row->data;
    const uint64_t idle = present > used ? present - used : 0;
    return request->slow > idle ? used - (request->slow - idle) : used;
}

uint64_t config_permille(const struct config_request *request, const struct config_row *row, uint32_t rank)
{
    const uint64_t last_pipeline = (row->data - 1) * pipeline_stride(row);
    const uint64_t last = last_pipeline + rank * rank_stride(row) + stage_devices(row) - 1;
    return last >= first_slow(request, row) ? request->slow_permille : 1000;
}

uint32_t config_copies(const struct config_row *row)
{
    return row->ranks > 1 && row->generator && row->generator->copies ? row->generator->copies : 1;
}

static uint64_t rate_of(const struct rated_level *level)
{
    return (uint64_t)rated_message_rate(level);
}

static bool is_no_slower(const struct rated_level *a, const struct rated_level *b)
{
    return a->latency_ns <= b->latency_ns && rate_of(a) >= rate_of(b);
}

// Two ranks communicate over the outermost level of the hops between them. This is the slowest level if outer levels
// are slower than inner ones.
bool config_hops_no_slower(const struct config_request *request, const struct config_hops *a,
                           const struct config_hops *b, uint32_t ranks)
{
    const struct rated_device *device = request->device;
    for (size_t i = 0; i + 1 < device->level_count; i++)
        if (!is_no_slower(&device->levels[i], &device->levels[i + 1]))
            return false;
    for (uint32_t rank = 0; rank + 1 < ranks; rank++)
        if (!is_no_slower(config_hop(a, rank), config_hop(b, rank)))
            return false;
    return true;
}

struct cluster *config_cluster(const struct config_request *request, const struct config_row *row,
                               uint64_t memory_bytes, struct error *error)
{
    static const char *const nouns[] = { "device", "group", "group", "group" };
    const struct config_hops hops = config_hops(request, row);
    struct cluster *cluster = cluster_create(row->ranks, hops.count);
    if (!cluster)
        return error_null(error_no_memory(error, "a cluster"));
    for (uint32_t i = 0; i < row->ranks; i++)
        cluster->devices[i] = (struct cluster_device){ NULL, memory_bytes, config_permille(request, row, i) };
    for (size_t i = 0; i < hops.count; i++)
        cluster->levels[i] = (struct cluster_level){ hops.at[i].ranks / (i ? hops.at[i - 1].ranks : 1),
                                                     hops.at[i].level->latency_ns, rate_of(hops.at[i].level) };
    if (cluster_name_devices(cluster, nouns, error))
        return cluster;
    cluster_free(cluster);
    return NULL;
}

// --- for people ---------------------------------------------------------------

// The innermost level whose groups hold each group of `span` devices. Returns the size of its groups.
static uint64_t group_of(const struct config_request *request, uint64_t span)
{
    const struct rated_device *device = request->device;
    uint64_t reach = 1;
    for (size_t i = 0; i < device->level_count; i++) {
        reach *= device->levels[i].size;
        if (reach >= request->devices)
            return request->devices;
        if (reach % span == 0)
            break;
    }
    return reach;
}

static void say_level(const struct config_request *request, const char *what, uint32_t degree, uint64_t stride,
                      struct text *text)
{
    if (degree > 1)
        text_add(text, "%s%s within %llu", text->length ? ", " : "", what,
                 (unsigned long long)group_of(request, degree * stride));
}

void config_say_levels(const struct config_request *request, const struct config_row *row, struct text *text)
{
    struct text said = { 0 };
    say_level(request, "tensor", row->tensor, 1, &said);
    say_level(request, "context", row->context, row->tensor, &said);
    say_level(request, "experts", row->expert, 1, &said);
    if (row->placement == PLACEMENT_PIPELINE_INSIDE)
        say_level(request, "pipeline", row->ranks, rank_stride(row), &said);
    say_level(request, "data", row->data, pipeline_stride(row), &said);
    if (row->placement == PLACEMENT_DATA_INSIDE)
        say_level(request, "pipeline", row->ranks, rank_stride(row), &said);
    text_add(text, "%s", said.length ? said.data : "one device");
    text->failed |= said.failed;
    text_clear(&said);
}
