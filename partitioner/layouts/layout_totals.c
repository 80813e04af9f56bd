#include "partitioner/layouts/layout_totals.h"

#include "common/number.h"

bool totals_create(struct totals *totals, size_t layers, struct arrays *arrays)
{
    totals->forward = arrays_add(arrays, layers + 1, sizeof totals->forward[0]);
    totals->backward = arrays_add(arrays, layers + 1, sizeof totals->backward[0]);
    totals->weights = arrays_add(arrays, layers + 1, sizeof totals->weights[0]);
    totals->through = arrays_add(arrays, layers + 1, sizeof totals->through[0]);
    return !arrays->failed;
}

bool totals_fill(const struct profile *profile, const struct storage *storage, bool has_backward, bool is_whole,
                 struct totals *totals, struct arrays *arrays)
{
    const size_t layers = profile->layer_count;
    if (!totals_create(totals, layers, arrays))
        return false;
    for (size_t l = 0; l < layers; l++) {
        const struct profile_layer *layer = &profile->layers[l];
        const uint64_t split = layer->backward_input_ns + layer->backward_weight_ns;
        const uint64_t back = is_whole || layer->backward_ns < split ? layer->backward_ns : split;
        const bool is_list = storage_list_room(storage, profile, (uint32_t)l, 1) > 0;
        totals->forward[l + 1] = totals->forward[l] + layer->forward_ns;
        totals->backward[l + 1] = totals->backward[l] + (has_backward ? back : 0);
        const uint64_t part = layer->backward_input_ns < back ? layer->backward_input_ns : back;
        totals->through[l + 1] =
            totals->through[l] + layer->forward_ns + (has_backward ? is_whole ? back : part : 0);
        totals->weights[l + 1] = totals->weights[l] + (is_list ? 0 : round_to_256(layer->parameter_bytes));
    }
    return true;
}

void totals_lower(const uint64_t *sums, uint64_t *least, size_t layers, bool is_first)
{
    uint64_t before = 0;
    for (size_t l = 0; l < layers; l++) {
        const uint64_t was = least[l + 1] - before, now = sums[l + 1] - sums[l];
        before = least[l + 1];
        least[l + 1] = least[l] + (is_first || now < was ? now : was);
    }
}
