#include "trainer/verify.h"

#include "trainer/split_layers.h"

static bool session_of(const struct plan *plan, const struct run_place *place, const struct verify_settings *given,
                       struct session_settings *to, struct error *error)
{
    *to = run_place_session(place, optimizer_default(plan->storage.optimizer));
    to->scaling = given->scaling;
    to->optimizer.decay = 0.1f;
    to->optimizer.clip = given->clip;
    return optimizer_freeze(&to->optimizer, given->freeze_step, given->steps, error);
}

static bool turn(void *self, struct pipeline *pipeline, struct error *error)
{
    return split_layers_turn(self, pipeline, error);
}

// Verifies with batches drawn by `batches`. Layers and device of `what` are filled in here.
static bool verify_model(struct verify_layers what, const struct model *model, const struct run_place *place,
                         const struct batch_settings *batches, struct verification *result, struct error *error)
{
    struct device *device = device_open(place->device, error);
    struct split_layers *ours = device ? split_layers_create(what.plan, model, device, batches, place, error) : NULL;
    struct model_layers *theirs = ours ? split_layers_of_twin(ours, model, device, batches, error) : NULL;
    if (theirs) {
        what.ours = split_layers_first(ours);
        what.members = ours->layers;
        what.shards = split_layers_joining(ours);
        what.before_step = turn;
        what.self = ours;
        what.theirs = theirs->layers;
        what.layer_count = theirs->layer_count;
        what.device = device;
    }
    const bool good = theirs && split_layers_settle(ours, &what.settings, error) && verify_layers(&what, result, error);
    if (!device || !device_is_stuck(device))  // a thread that is stuck on the device may still use them
        split_layers_free(ours);
    model_layers_free(theirs);
    device_close(device);
    return good;
}

bool verify_schedule(const struct schedule *schedule, const struct plan *plan, const struct model *model,
                     const struct run_place *place, const struct verify_settings *settings,
                     struct verification *result, struct error *error)
{
    struct batch_settings batches = batch_settings_for(schedule, settings->seed);
    struct verify_layers what = { .plan = plan, .schedule = schedule, .steps = settings->steps };
    return session_of(plan, place, settings, &what.settings, error)
        && batch_settings_take(&batches, model, settings->batch, schedule->weights == WEIGHTS_FLUSH, error)
        && verify_model(what, model, place, &batches, result, error);
}

bool verify_plan(const struct plan *plan, const struct model *model, const struct run_place *place,
                 const struct verify_settings *settings, struct verification *result, struct error *error)
{
    const uint32_t runs = plan->weights == WEIGHTS_FLUSH ? 1 : settings->steps;
    struct verify_layers what = { .plan = plan, .steps = settings->steps };
    struct batch_settings batches;
    return session_of(plan, place, settings, &what.settings, error)
        && batch_settings_of(plan, runs, settings->seed, &batches, error)
        && batch_settings_take(&batches, model, settings->batch, plan->weights == WEIGHTS_FLUSH, error)
        && verify_model(what, model, place, &batches, result, error);
}
