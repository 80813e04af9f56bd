// Makes a profile from a measurement.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/measure.h"

// Times in place are used, since in training, too, a layer's neighbours will have used the caches. Alone, a small
// layer looks up to twice as fast as it will ever be. The median is used, since disturbances can only lengthen a
// sample, and a mean would include them. The thread's CPU time is used if the thread does the work. On a machine with
// other users, wall time includes their work as well. The decision page has the numbers.
// use, wall time holds their work as well. The decision page has the numbers.
static void fill_times(struct profile_layer *layer, const struct layer_times *times, enum measure_clock clock)
{
    for (size_t phase = 0; phase < PHASES; phase++) {
        layer->spread[phase] = times->in_place[phase][clock];
        layer->has_spread[phase] = true;
    }
    layer->forward_ns = layer->spread[PHASE_FORWARD].median_ns;
    layer->backward_input_ns = layer->spread[PHASE_BACKWARD_INPUT].median_ns;
    layer->backward_weight_ns = layer->spread[PHASE_BACKWARD_WEIGHT].median_ns;
    layer->backward_ns = layer->spread[PHASE_BACKWARD].median_ns;
    layer->has_backward = true;
    layer->recompute_ns = layer->spread[PHASE_RECOMPUTE].median_ns;
    layer->has_recompute = true;
}

static bool replace(char **text, const char *with)
{
    free(*text);
    *text = strdup(with);
    return *text != NULL;
}

static bool fill_source(struct profile *profile, const struct measurement *measurement, const char *device)
{
    struct profile_source *source = &profile->source;
    source->how = PROFILE_MEASURED;
    source->repeats = measurement->repeats;
    source->whole_ns = measurement->whole[measurement->clock].median_ns;
    source->backward_split_measured = true;
    for (size_t i = 0; i < profile->layer_count; i++)
        source->sum_ns += profile->layers[i].forward_ns + profile->layers[i].backward_ns;
    return replace(&source->device, device)
           && replace(&source->clock,
                      measurement->clock == MEASURE_THREAD_CPU ? "thread CPU, in place" : "wall, in place");
}

static bool fill_notes(struct profile *profile, const struct measurement *measurement, const struct measured *what,
                       struct error *error)
{
    struct text notes = { 0 };
    if (what->note)
        what->note(what->self, &notes);
    if (!measurement->settled)
        text_add(&notes, "%sThe times had not settled within 5 %% after %" PRIu64 " warm-ups.",
                 notes.length > 0 ? " " : "", measurement->warm_ups);
    if (notes.length == 0)
        return true;
    profile->notes = text_take(&notes, error);
    return profile->notes != NULL;
}

static bool fill_profile(struct profile *profile, const struct measurement *measurement, const struct measured *what,
                         const char *device, struct error *error)
{
    for (size_t i = 0; i < profile->layer_count; i++) {
        if (!what->describe(what->self, i, &profile->layers[i], error))
            return error_at(error, "layer %zu", i);
        fill_times(&profile->layers[i], &measurement->layers[i], measurement->clock);
    }
    profile->sequences = what->has_sequences ? SEQUENCES_SOME : SEQUENCES_NONE;
    if (!fill_source(profile, measurement, device))
        return error_no_memory(error, "the source of a profile");
    return fill_notes(profile, measurement, what, error) && profile_rehash(profile, error);
}

struct profile *measurement_profile(const struct measurement *measurement, const struct measured *what,
                                    const struct measure_labels *labels, struct error *error)
{
    struct profile *profile =
        profile_create(labels->model, labels->dtype, labels->micro_batch, measurement->layer_count, error);
    if (!profile || fill_profile(profile, measurement, what, labels->device, error))
        return profile;
    profile_free(profile);
    return NULL;
}
