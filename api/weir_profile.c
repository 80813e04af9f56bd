#include <stdlib.h>
#include <string.h>

#include "api/weir_handles.h"
#include "api/weir_options.h"
#include "profiler/lint.h"
#include "profiler/report.h"
#include "runtime/guard/check_layers.h"
#include "runtime/stages/chain.h"
#include "runtime/stages/measure_chain.h"
#include "runtime/stages/sound_layers.h"

// --- layers ------------------------------------------------------------------------

bool weir_layers_check(const struct weir_layer *layers, size_t count, const struct weir_check_layers_options *options,
                       struct weir_error *error)
{
    struct weir_check_layers_options chosen;
    if (!given_check_layers_options(options, &chosen, error))
        return false;
    const struct layer_checking checking = { chosen.loss_share, chosen.other_numbers, chosen.other_gradients,
                                             chosen.unread_state };
    struct error reason = { 0 };
    return layers_check(layers, count, &checking, &reason) || tell(error, &reason);
}

// --- profiles ----------------------------------------------------------------------

static struct profile *measure(struct measured_chain *chain, const struct weir_layer *layers, size_t count,
                               const struct weir_profile_options *options, struct device *device, struct error *error)
{
    struct measure_options how = measure_usual_options();
    if (options->repeats > 0)
        how.repeats = options->repeats;
    const struct measure_labels labels = {
        .model = options->model ? options->model : "layers",
        .dtype = "fp32",
        .device = device_description(device),
        .micro_batch = options->micro_batch > 0 ? options->micro_batch : 1,
    };
    const struct measured *what = measured_chain_callbacks(chain);
    struct measurement *measurement = measure_layers(what, &how, error);
    struct profile *profile = measurement ? measurement_profile(measurement, what, &labels, error) : NULL;
    measurement_free(measurement);
    if (profile && !(chain_note_layers(layers, count, profile, error) && profile_rehash(profile, error))) {
        profile_free(profile);
        return NULL;
    }
    return profile;
}

struct weir_profile *weir_profile_layers(const struct weir_layer *layers, size_t count,
                                         const struct weir_profile_options *options, struct weir_error *error)
{
    struct weir_profile_options chosen;
    if (!given_profile_options(options, &chosen, error))
        return NULL;
    struct error reason = { 0 };
    struct profile *profile = NULL;
    struct device *device = layers_are_sound(layers, count, &reason) ? device_open("cpu", &reason) : NULL;
    struct measured_chain *chain = NULL;
    if (chosen.repeats > 0 && chosen.repeats < 20)
        error_set(&reason, "repeats: %llu samples say little; take 20 or more", (unsigned long long)chosen.repeats);
    else if (device)
        chain = measured_chain_create(layers, count, device, &reason);
    if (chain)
        profile = measure(chain, layers, count, &chosen, device, &reason);
    measured_chain_free(chain);
    device_close(device);
    return wrap_profile(profile, &reason, error);
}

struct weir_profile *weir_profile_load(const char *path, struct weir_error *error)
{
    struct error reason = { 0 };
    struct profile *profile = profile_load(path, &reason);
    return wrap_profile(profile, &reason, error);
}

struct weir_profile *weir_profile_read(const char *text, size_t length, const char *name, struct weir_error *error)
{
    struct error reason = { 0 };
    struct profile *profile = profile_read(text, length, document_name(name), &reason);
    return wrap_profile(profile, &reason, error);
}

bool weir_profile_save(const struct weir_profile *profile, const char *path, struct weir_error *error)
{
    if (!is_there(profile, "profile", error))
        return false;
    struct text text = { 0 };
    profile_write(profile->profile, &text);
    return save_text(&text, path, error);
}

char *weir_profile_document(const struct weir_profile *profile, struct weir_error *error)
{
    if (!is_there(profile, "profile", error))
        return NULL;
    struct text text = { 0 };
    profile_write(profile->profile, &text);
    return hand_text(&text, error);
}

char *weir_profile_text(const struct weir_profile *profile, struct weir_error *error)
{
    if (!is_there(profile, "profile", error))
        return NULL;
    struct text text = { 0 };
    profile_print(profile->profile, &text);
    return hand_text(&text, error);
}

char *weir_profile_lint(const struct weir_profile *profile, struct weir_error *error)
{
    if (!is_there(profile, "profile", error))
        return NULL;
    struct text text = { 0 };
    profile_lint(profile->profile, profile->profile->model, &text);
    return hand_text(&text, error);
}

void weir_profile_free(struct weir_profile *profile)
{
    if (profile)
        profile_free(profile->profile);
    free(profile);
}
