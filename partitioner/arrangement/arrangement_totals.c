#include "partitioner/arrangement/arrangement_totals.h"

#include <stdlib.h>

#include "common/number.h"

typedef unsigned __int128 wide;

void totals_are_exact(struct totals *of)
{
    of->most_forward = of->forward;
    of->most_backward = of->backward;
    of->most_weights = of->weights;
}

bool totals_fill(const struct profile *profile, bool has_backward, bool is_whole, struct totals *of)
{
    const size_t layers = profile->layer_count;
    of->forward = calloc(layers + 1, sizeof of->forward[0]);
    of->backward = calloc(layers + 1, sizeof of->backward[0]);
    of->weights = calloc(layers + 1, sizeof of->weights[0]);
    of->through = calloc(layers + 1, sizeof of->through[0]);
    totals_are_exact(of);
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

static void clear_both(uint64_t *least, uint64_t *most)
{
    if (most != least)
        free(most);
    free(least);
}

void totals_clear(struct totals *of)
{
    clear_both(of->forward, of->most_forward);
    clear_both(of->backward, of->most_backward);
    clear_both(of->weights, of->most_weights);
    free(of->through);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct shares shares_of(const struct totals *of, uint32_t layers)
{
    struct shares shares = { .of_backward = 1000000, .of_both = 1000 };
    for (uint32_t l = 0; l < layers; l++) {
        const uint64_t f = of->forward[l + 1] - of->forward[l], b = of->backward[l + 1] - of->backward[l];
        if (b > 0)
            shares.of_backward = smaller(shares.of_backward, (uint64_t)((wide)f * 1000 / b));
        if (f + b > 0)
            shares.of_both = smaller(shares.of_both, (uint64_t)((wide)f * 1000 / (f + b)));
    }
    return shares;
}
