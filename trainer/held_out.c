#include "trainer/held_out.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/groups/agreement.h"

bool held_out_open(struct held_out *held, const struct model *model, struct device *device,
                   const struct text_data *text, uint64_t seed, struct error *error)
{
    const struct batch_settings batches = { .batches = BATCHES_HELD, .text = text, .seed = seed, .samples = 1 };
    const struct twin_settings settings = { .optimizer = optimizer_default(OPTIMIZER_SGD) };
    *held = (struct held_out){ .model = model, .text = text };
    held->layers = model_layers_create(model, device, &batches, error);
    held->twin = held->layers ? twin_create(held->layers->layers, held->layers->layer_count, device, &settings, error)
                              : NULL;
    if (held->twin)
        return true;
    held_out_close(held);
    return false;
}

void held_out_close(struct held_out *held)
{
    twin_free(held->twin);
    model_layers_free(held->layers);
    *held = (struct held_out){ 0 };
}

static size_t batch_count(const struct model *model, const struct text_data *text)
{
    return text_data_held_batches(text, model->sizes.micro_batch, model->sizes.sequence);
}

static bool has_batches(const struct model *model, const struct text_data *text, struct error *error)
{
    return batch_count(model, text) > 0
        || error_set(error, "the held-out text is shorter than one sequence (%zu tokens)", model->sizes.sequence);
}

// Number of batches, in which a last batch that is not full counts by its share of real rows. Its loss is the sum
// over these rows, divided by the size of a full batch.
static double full_batches(const struct model *model, const struct text_data *text)
{
    const size_t rows = model->sizes.micro_batch, length = model->sizes.sequence, count = batch_count(model, text);
    double taken = 0;
    for (size_t i = 0; i < count; i++)
        taken += (double)text_data_held_rows(text, i, rows, length) / (double)rows;
    return taken;
}

bool held_out_bits(const struct held_out *held, double *bits, struct error *error)
{
    const size_t count = batch_count(held->model, held->text);
    double nats = 0;
    if (!has_batches(held->model, held->text, error))
        return false;
    for (size_t i = 0; i < count; i++) {
        float loss = 0;
        if (!twin_loss(held->twin, 0, (uint32_t)i, &loss, error))
            return false;
        nats += loss;
    }
    *bits = nats / full_batches(held->model, held->text) / log(2);
    return true;
}

// --- while a pipeline trains -----------------------------------------------------------

bool held_watch_open(struct held_watch *watch, const struct held_watch_request *request, struct error *error)
{
    const struct batch_settings batches = { .batches = BATCHES_HELD, .text = request->text, .seed = request->seed,
                                            .samples = 1 };
    const size_t count = batch_count(request->model, request->text);
    *watch = (struct held_watch){ .model = request->model, .text = request->text };
    watch->layers = has_batches(request->model, request->text, error)
                      ? model_layers_create(request->model, request->device, &batches, error) : NULL;
    watch->losses = calloc(count + 1, sizeof *watch->losses);
    const bool good = watch->layers && (watch->losses || error_no_memory(error, "the losses of held-out text"));
    if (ranks_all_good(request->group, good, error)) {
        const struct forward_request forward = { .pipeline = request->pipeline, .device = request->device,
                                                 .group = request->group, .micro_batches = (uint32_t)count,
                                                 .layers = watch->layers->layers };
        watch->forward = forward_open(&forward, error);
    }
    if (watch->forward)
        return true;
    held_watch_close(watch);
    return false;
}

void held_watch_close(struct held_watch *watch)
{
    forward_close(watch->forward);
    model_layers_free(watch->layers);
    free(watch->losses);
    *watch = (struct held_watch){ 0 };
}

bool held_watch_bits(const struct held_watch *watch, double *bits, struct error *error)
{
    const size_t count = batch_count(watch->model, watch->text);
    double nats = 0;
    if (!forward_losses(watch->forward, 0, &(struct forward_results){ .losses = watch->losses }, error))
        return false;
    for (size_t i = 0; i < count; i++)
        nats += watch->losses[i];
    *bits = nats / full_batches(watch->model, watch->text) / log(2);
    return true;
}
