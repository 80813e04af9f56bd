#include "partitioner/layouts/layout_memory.h"

#include <stdlib.h>

#include "common/number.h"
#include "partitioner/search/recompute_prices.h"
#include "partitioner/search/search_request.h"

struct layout_memory {
    struct intervals *intervals;
    struct recompute_prices *prices;
    uint64_t *outputs;  // running totals; layers + 1
};

// With a window, or with states on the host, a device holds less of a stage than its sums.
static bool is_known(const struct search_request *request)
{
    const struct storage *storage = &request->storage;
    return !request->layout.variants && !request->free.variants && storage->window == 0 && !storage_uses_host(storage);
}

static uint64_t largest_memory(const struct cluster *cluster)
{
    uint64_t most = 0;
    for (size_t i = 0; i < cluster->device_count; i++)
        most = cluster->devices[i].memory_bytes > most ? cluster->devices[i].memory_bytes : most;
    return most;
}

// The bytes of the layers without an input, a workspace, or a layer that is gathered whole.
static uint64_t fixed_bytes(const struct layout_memory *memory, uint32_t first, uint32_t end, uint32_t ranks)
{
    const struct intervals *intervals = memory->intervals;
    const struct interval_sums *from = &intervals->before[first], *to = &intervals->before[end];
    const struct stage_states states = { .layers = end - first, .weights = to->weights - from->weights,
                                         .optimizer = to->optimizer - from->optimizer,
                                         .gradients = interval_gradients(intervals, first, end, ranks),
                                         .state = to->state - from->state };
    struct stage_bytes bytes;
    storage_put_bytes(&intervals->storage, ranks, &states, &bytes);
    return add_clamped(add_clamped(bytes.weights, bytes.state), add_clamped(bytes.gradients, bytes.optimizer));
}

// At most what a micro-batch keeps in the layers if nothing is recomputed. With splits, this includes what
// parts share, its gradient, and that of one more micro-batch, of which some part is there.
static uint64_t kept_bytes(const struct layout_memory *memory, uint32_t first, uint32_t end)
{
    const struct interval_sums *before = memory->intervals->before;
    const uint64_t kept = before[end].kept - before[first].kept;
    const uint64_t shared_by_parts = before[end].shared_by_parts - before[first].shared_by_parts;
    return add_clamped(kept + 2 * shared_by_parts, memory->outputs[end] - memory->outputs[first]);
}

static bool surely_fits(const struct layout_memory *memory, const struct search_request *request, uint64_t capacity)
{
    const uint32_t layers = memory->intervals->layers, m = request->micro_batches;
    const uint64_t slots = search_generator(request)->keeps_all || m < request->ranks ? m : request->ranks;
    const uint64_t statistics = multiply_clamped(2 * ((uint64_t)m + request->ranks),
                                                 memory->intervals->before[layers].statistics);
    const uint64_t kept = multiply_clamped(slots, kept_bytes(memory, 0, layers));
    return add_clamped(fixed_bytes(memory, 0, layers, 1), add_clamped(kept, statistics)) <= capacity;
}

static bool fill(struct layout_memory *memory, const struct search_request *request, struct error *error)
{
    const uint32_t layers = (uint32_t)request->profile->layer_count;
    memory->intervals = intervals_create(request->profile, &request->storage, error);
    memory->outputs = calloc((size_t)layers + 1, sizeof memory->outputs[0]);
    if (!memory->intervals)
        return false;
    if (!memory->outputs)
        return error_no_memory(error, "the bounds of a plan");
    for (uint32_t l = 0; l < layers; l++)
        memory->outputs[l + 1] = add_clamped(memory->outputs[l], memory->intervals->memory[l].output);
    return true;
}

struct layout_memory *layout_memory_create(const struct search_request *request, struct error *error)
{
    const uint64_t capacity = largest_memory(request->cluster);
    struct layout_memory *memory = is_known(request) ? calloc(1, sizeof *memory) : NULL;
    if (!memory) {
        if (is_known(request))
            error_no_memory(error, "the bounds of a plan");
        return NULL;
    }
    if (fill(memory, request, error) && !surely_fits(memory, request, capacity)) {
        memory->prices = recompute_prices_create(memory->intervals, 0, memory->intervals->layers, capacity,
                                                 RECOMPUTE_SHARP, error);
        if (memory->prices) {
            recompute_prices_from(memory->prices, 0, memory->intervals->layers);
            return memory;
        }
    }
    layout_memory_free(memory);
    return NULL;
}

void layout_memory_free(struct layout_memory *memory)
{
    if (!memory)
        return;
    free(memory->prices);
    intervals_free(memory->intervals);
    free(memory->outputs);
    free(memory);
}

// The bytes of a slot for which the way through the layers is priced, but which the layers need not have: what they
// read from before the first of them. If the backward of the first layer needs its input, that is there as long as
// what is kept: for this layer or, if it is recomputed, for that.
static uint64_t may_lack(const struct intervals *intervals, uint32_t first)
{
    const uint32_t source = intervals->source_at[first];
    return source < intervals->source_at[first + 1] && interval_reads_until(intervals, first) > INPUT_UNTIL_F
             ? 0
             : intervals->cut[first];
}

uint64_t layout_memory_least(const struct layout_memory *memory, uint32_t first, uint32_t end, uint32_t ranks,
                                  uint64_t ahead, uint64_t capacity)
{
    if (!memory || end <= first)
        return 0;
    const uint64_t fixed = fixed_bytes(memory, first, end, ranks);
    if (fixed > capacity)
        return UINT64_MAX;
    const uint64_t room = (capacity - fixed) / ahead;
    if (kept_bytes(memory, first, end) <= room)
        return 0;
    return recompute_prices_between(memory->prices, first, end, add_clamped(room, may_lack(memory->intervals, first)));
}
