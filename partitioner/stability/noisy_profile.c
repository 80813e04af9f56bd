#include "partitioner/stability/noisy_profile.h"

#include <string.h>

#include "common/random.h"

size_t noisy_profile_spreads(const struct profile *profile)
{
    size_t count = 0;
    for (size_t l = 0; l < profile->layer_count; l++) {
        bool has = false;
        for (unsigned phase = 0; phase < PHASES; phase++)
            has |= profile->layers[l].has_spread[phase];
        count += has;
    }
    return count;
}

bool noisy_profile_create(struct noisy_profile *noisy, const struct profile *calm, struct noise_amount amount,
                          struct error *error)
{
    *noisy = (struct noisy_profile){ .calm = calm, .amount = amount };
    // The copy is made by writing the profile and reading it back.
    struct text text = { 0 };
    profile_write(calm, &text);
    if (text.failed)
        return error_no_memory(error, "a profile");
    noisy->profile = profile_read(text.data, text.length, "the profile", error);
    text_clear(&text);
    if (!noisy->profile)
        return false;
    // A plan that is made of a draw counts as a plan of the given profile.
    memcpy(noisy->profile->hash, calm->hash, sizeof calm->hash);
    return true;
}

void noisy_profile_clear(struct noisy_profile *noisy)
{
    profile_free(noisy->profile);
    *noisy = (struct noisy_profile){ .calm = NULL };
}

// A point on the straight line from (0, a) to (1, b).
static double between(double a, double b, double part)
{
    return a + (b - a) * part;
}

static uint64_t spread_ns(const struct spread *spread, uint64_t duration_ns, double draw)
{
    const double median = (double)spread->median_ns;
    double drawn;
    if (draw < 0.5)
        drawn = between((double)spread->min_ns, median, draw / 0.5);
    else
        drawn = between(median, (double)spread->p95_ns, (draw - 0.5) / 0.45);
    return median > 0 ? (uint64_t)((double)duration_ns * drawn / median + 0.5) : duration_ns;
}

static void draw_phase(const struct noisy_profile *noisy, const struct profile_layer *layer, enum phase phase,
                       uint64_t calm_ns, uint64_t draw, uint64_t *to_ns)
{
    const double part = (double)(draw >> 11) * 0x1p-53;
    *to_ns = noisy->amount.by_spread && layer->has_spread[phase] ? spread_ns(&layer->spread[phase], calm_ns, part)
                                                                 : noise_apply(calm_ns, noisy->amount.ppm, draw);
}

static void draw_layer(const struct noisy_profile *noisy, const struct profile_layer *calm, struct profile_layer *to,
                       uint64_t draw)
{
    draw_phase(noisy, calm, PHASE_FORWARD, calm->forward_ns, draw, &to->forward_ns);
    draw_phase(noisy, calm, PHASE_BACKWARD_INPUT, calm->backward_input_ns, draw, &to->backward_input_ns);
    draw_phase(noisy, calm, PHASE_BACKWARD_WEIGHT, calm->backward_weight_ns, draw, &to->backward_weight_ns);
    if (calm->has_recompute)
        draw_phase(noisy, calm, PHASE_RECOMPUTE, calm->recompute_ns, draw, &to->recompute_ns);
    if (calm->has_backward)
        draw_phase(noisy, calm, PHASE_BACKWARD, calm->backward_ns, draw, &to->backward_ns);
    else
        to->backward_ns = to->backward_input_ns + to->backward_weight_ns;
}

void noisy_profile_draw(struct noisy_profile *noisy, uint64_t seed, uint32_t number)
{
    uint64_t state = seed;
    state = random_next(&state) + number;
    state = random_next(&state);  // seeds or numbers that are neighbours have nothing in common
    for (size_t l = 0; l < noisy->calm->layer_count; l++) {
        const struct profile_layer *calm = &noisy->calm->layers[l];
        struct profile_layer *to = &noisy->profile->layers[l];
        const uint64_t draw = random_next(&state);
        draw_layer(noisy, calm, to, draw);
        for (size_t v = 0; v < calm->variant_count; v++)
            draw_layer(noisy, &calm->variants[v].layer, &to->variants[v].layer, draw);
    }
}
