#include "partitioner/layouts/layout_totals.h"

#include <stdlib.h>

#include "common/number.h"

bool totals_fill(const struct profile *profile, bool has_backward, bool is_whole, struct totals *of)
{
    const size_t layers = profile->layer_count;
    of->forward = calloc(layers + 1, sizeof of->forward[0]);
    of->backward = calloc(layers + 1, sizeof of->backward[0]);
    of->weights = calloc(layers + 1, sizeof of->weights[0]);
    of->through = calloc(layers + 1, sizeof of->through[0]);
    if (!of->through || !of->forward || !of->backward || !of->weights)
        return false;
    for (size_t l = 0; l < layers; l++) {
        const struct profile_layer *layer = &profile->layers[l];
        const uint64_t split = layer->backward_input_ns + layer->backward_weight_ns;
        const uint64_t back = is_whole || layer->backward_ns < split ? layer->backward_ns : split;
        of->forward[l + 1] = of->forward[l] + layer->forward_ns;
        of->backward[l + 1] = of->backward[l] + (has_backward ? back : 0);
        const uint64_t part = layer->backward_input_ns < back ? layer->backward_input_ns : back;
        of->through[l + 1] =
            of->through[l] + layer->forward_ns + (has_backward ? is_whole ? back : part : 0);
        of->weights[l + 1] = of->weights[l] + round_to_256(layer->parameter_bytes);
    }
    return true;
}

void totals_lower(const uint64_t *own, uint64_t *least, size_t layers, bool is_first)
{
    uint64_t before = 0;
    for (size_t l = 0; l < layers; l++) {
        const uint64_t was = least[l + 1] - before, now = own[l + 1] - own[l];
        before = least[l + 1];
        least[l + 1] = least[l] + (is_first || now < was ? now : was);
    }
}

void totals_clear(struct totals *of)
{
    free(of->forward);
    free(of->backward);
    free(of->weights);
    free(of->through);
}
