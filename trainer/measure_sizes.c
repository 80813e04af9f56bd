#include "trainer/measure_sizes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/layer.h"
#include "trainer/model_spec.h"

enum { SMALLEST, BETWEEN, LARGEST };
enum { NOTE_SIZE = 120 };

static struct profile *measure_at(const char *spec, const struct model *like, size_t micro_batch, struct device *device,
                                  const struct measure_options *options, struct error *error)
{
    struct model_sizes sizes = like->sizes;
    sizes.micro_batch = micro_batch;
    if (like->family != FAMILY_TEXT)
        sizes.sequence = 0;  // it follows from the pixels, or is 1
    struct model *model = model_create(like->name, &sizes, error);
    struct profile *profile = model ? measure_made_model(spec, model, device, NULL, options, NULL, error) : NULL;
    model_free(model);
    return profile;
}

// The time of a micro-batch of `size` on the line through two others.
static uint64_t on_line(uint64_t small_ns, uint64_t large_ns, const uint32_t sizes[MEASURED_SIZES], size_t size)
{
    const double part = sizes[LARGEST] > sizes[SMALLEST]
                            ? (double)(size - sizes[SMALLEST]) / (double)(sizes[LARGEST] - sizes[SMALLEST]) : 0;
    return (uint64_t)llround((double)small_ns + part * ((double)large_ns - (double)small_ns));
}

static void put_layer(struct profile_layer *to, const struct profile_layer *small, const struct profile_layer *large,
                      const uint32_t sizes[MEASURED_SIZES], size_t size)
{
    to->forward_ns = on_line(small->forward_ns, large->forward_ns, sizes, size);
    to->backward_input_ns = on_line(small->backward_input_ns, large->backward_input_ns, sizes, size);
    to->backward_weight_ns = on_line(small->backward_weight_ns, large->backward_weight_ns, sizes, size);
    to->backward_ns = on_line(small->backward_ns, large->backward_ns, sizes, size);
    to->recompute_ns = on_line(small->recompute_ns, large->recompute_ns, sizes, size);
    for (size_t phase = 0; phase < PHASES; phase++)
        to->spread[phase] = (struct spread){
            on_line(small->spread[phase].min_ns, large->spread[phase].min_ns, sizes, size),
            on_line(small->spread[phase].median_ns, large->spread[phase].median_ns, sizes, size),
            on_line(small->spread[phase].p95_ns, large->spread[phase].p95_ns, sizes, size),
        };
}

// Puts what lies on the lines into a profile of that size, whose bytes stay. They are those of the layers.
static void put_lines(struct profile *to, struct profile *const measured[MEASURED_SIZES],
                      const uint32_t sizes[MEASURED_SIZES], size_t size)
{
    to->source.sum_ns = 0;
    for (size_t l = 0; l < to->layer_count; l++) {
        put_layer(&to->layers[l], &measured[SMALLEST]->layers[l], &measured[LARGEST]->layers[l], sizes, size);
        to->source.sum_ns += to->layers[l].forward_ns + to->layers[l].backward_ns;
    }
    to->source.whole_ns = on_line(measured[SMALLEST]->source.whole_ns, measured[LARGEST]->source.whole_ns, sizes, size);
}

static double miss_of(double line, double measured)
{
    return measured > 0 ? 100 * (line / measured - 1) : 0;
}

static uint64_t time_of(const struct profile_layer *layer)
{
    return layer->forward_ns + layer->backward_ns;
}

static void say_miss(struct profile *const measured[MEASURED_SIZES], const uint32_t sizes[MEASURED_SIZES],
                     struct text *said)
{
    const struct profile *between = measured[BETWEEN];
    double line = 0, all = 0, worst = 0;
    size_t worst_layer = 0;
    for (size_t l = 0; l < between->layer_count; l++)
        all += (double)time_of(&between->layers[l]);
    for (size_t l = 0; l < between->layer_count; l++) {
        const double took = (double)time_of(&between->layers[l]);
        const double own = (double)on_line(time_of(&measured[SMALLEST]->layers[l]),
                                           time_of(&measured[LARGEST]->layers[l]), sizes, sizes[BETWEEN]);
        line += own;
        if (took >= all / 100 && fabs(miss_of(own, took)) > fabs(worst)) {
            worst = miss_of(own, took);
            worst_layer = l;
        }
    }
    text_add(said, "\nTimes lie on lines through micro-batches of %u and %u. Those of %u, which was measured, too, are missed"
             " by %+.1f %% in all, and by %+.1f %% at worst (layer %s).\n", sizes[SMALLEST], sizes[LARGEST],
             sizes[BETWEEN], miss_of(line, all), worst, between->layers[worst_layer].name);
}

static void say_norms(const struct model *model, struct text *said)
{
    size_t norms = 0;
    for (size_t l = 0; l < model->layer_count; l++)
        norms += layer_sizes(&model->layers[l]).state_bytes > 0;
    if (norms > 0)
        text_add(said, "With another micro-batch it is another model: %zu layer%s the mean and variance of each"
                 " micro-batch (batch norm).\n", norms, norms == 1 ? " uses" : "s use");
}

struct profile *measure_sizes(const char *spec, struct device *device, const struct measure_options *options,
                              const uint32_t sizes[MEASURED_SIZES], struct text *said, struct error *error)
{
    struct profile *measured[MEASURED_SIZES] = { NULL }, *profile = NULL;
    struct model *model = model_from_spec(spec, device_precision(device), error);
    const size_t size = model ? model->sizes.micro_batch : 0;
    bool good = model
        && ((size >= sizes[SMALLEST] && size <= sizes[LARGEST])
            || error_set(error, "a micro-batch of %zu is outside the sizes %u to %u, between which lines hold: name it in"
                         " the model, as %s,micro_batch=%u", size, sizes[SMALLEST], sizes[LARGEST], model->name,
                         sizes[BETWEEN]));
    for (size_t i = 0; good && i < MEASURED_SIZES; i++) {
        measured[i] = measure_at(spec, model, sizes[i], device, options, error);
        good = measured[i] != NULL;
    }
    if (good)
        profile = measure_at(spec, model, size, device, options, error);
    if (profile) {
        put_lines(profile, measured, sizes, size);
        say_miss(measured, sizes, said);
        say_norms(model, said);
        char note[NOTE_SIZE];
        snprintf(note, sizeof note, "Times lie on lines through micro-batches of %u and %u.", sizes[SMALLEST],
                 sizes[LARGEST]);
        good = profile_add_note(profile, note, error);
    }
    for (size_t i = 0; i < MEASURED_SIZES; i++)
        profile_free(measured[i]);
    if (profile && !good) {
        profile_free(profile);
        profile = NULL;
    }
    model_free(model);
    return profile;
}
