#include "trainer/measure_model.h"

#include <stdlib.h>

#include "common/text.h"
#include "runtime/stages/chain.h"
#include "runtime/stages/measure_chain.h"
#include "trainer/model_layers.h"
#include "trainer/model_reads.h"
#include "trainer/model_routing.h"
#include "trainer/model_spec.h"

// "cpu: the processor's own name".
static char *device_label(const struct device *device, struct error *error)
{
    struct text label = { 0 };
    text_add(&label, "%s: %s", device_name(device), device_description(device));
    return text_take(&label, error);
}

static struct profile *measure(const struct measured *what, const struct measure_labels *labels,
                               const struct measure_options *options, struct measurement **measurement,
                               struct error *error)
{
    struct measurement *measured = measure_layers(what, options, error);
    struct profile *profile = measured ? measurement_profile(measured, what, labels, error) : NULL;
    if (profile && measurement)
        *measurement = measured;
    else
        measurement_free(measured);
    return profile;
}

struct profile *measure_made_model(const char *spec, const struct model *model, struct device *device,
                                   const struct sample_data *data, const struct measure_options *options,
                                   struct measurement **measurement, struct error *error)
{
    const struct sample_course course = { .data = data, .pass_samples = model->sizes.micro_batch };
    const struct batch_settings settings = { .batches = data ? BATCHES_TRAIN : BATCHES_RANDOM, .seed = MEASURE_SEED,
                                             .samples = 1, .course = data ? &course : NULL };
    struct model_layers *layers = model_layers_create(model, device, &settings, error);
    struct measured_chain *chain =
        layers ? measured_chain_create(layers->layers, layers->layer_count, device, error) : NULL;
    char *label = chain ? device_label(device, error) : NULL;
    struct profile *profile = NULL;
    if (label) {
        const struct measure_labels labels = {
            .model = spec, .dtype = precision_name(device_precision(device)), .device = label,
            .micro_batch = model->sizes.micro_batch,
        };
        profile = measure(measured_chain_callbacks(chain), &labels, options, measurement, error);
        if (profile && !(chain_note_layers(layers->layers, layers->layer_count, profile, error)
                         && profile_rehash(profile, error))) {
            profile_free(profile);
            profile = NULL;
        }
    }
    free(label);
    measured_chain_free(chain);
    model_layers_free(layers);
    return profile;
}

struct profile *measure_model(const char *spec, struct device *device, const struct measure_options *options,
                              struct measurement **measurement, struct error *error)
{
    struct model *model = model_from_spec(spec, device_precision(device), error);
    struct profile *profile = model ? measure_made_model(spec, model, device, NULL, options, measurement, error) : NULL;
    model_free(model);
    return profile;
}

struct profile *measure_reads(const char *spec, struct device *device, const struct sample_data *data,
                              uint64_t batches, const struct measure_options *options,
                              struct measurement **measurement, struct error *error)
{
    struct model *model = model_from_spec(spec, device_precision(device), error);
    struct profile_reads *reads = model && model_reads_fit(data, model, error)
                                    ? model_reads_count(data, model, MEASURE_SEED, batches, error) : NULL;
    struct profile *profile = reads ? measure_made_model(spec, model, device, data, options, measurement, error) : NULL;
    model_free(model);
    if (!profile) {
        reads_free(reads);
        return NULL;
    }
    profile->reads = reads;
    if (profile_rehash(profile, error))
        return profile;
    profile_free(profile);
    return NULL;
}

struct profile *measure_routing(const char *spec, struct device *device, const struct text_data *text,
                                const struct kept_model *kept, uint64_t batches, const struct measure_options *options,
                                struct measurement **measurement, struct error *error)
{
    struct model *model = model_from_spec(spec, device_precision(device), error);
    const struct model_routing_request request = { .model = model, .device = device, .text = text, .kept = kept,
                                                   .seed = MEASURE_SEED, .batches = batches };
    struct profile_routing *routing = model && model_routing_fits(text, model, error)
                                        ? model_routing_count(&request, error) : NULL;
    struct profile *profile = routing ? measure_made_model(spec, model, device, NULL, options, measurement, error)
                                      : NULL;
    model_free(model);
    if (!profile) {
        routing_free(routing);
        return NULL;
    }
    profile->routing = routing;
    if (profile_rehash(profile, error))
        return profile;
    profile_free(profile);
    return NULL;
}
