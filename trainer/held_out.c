#include "trainer/held_out.h"

#include <math.h>

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

bool held_out_bits(const struct held_out *held, double *bits, struct error *error)
{
    const size_t rows = held->model->sizes.micro_batch, length = held->model->sizes.sequence;
    const size_t count = text_data_held_batches(held->text, rows, length);
    double nats = 0;
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        float loss = 0;
        if (!twin_loss(held->twin, 0, (uint32_t)i, &loss, error))
            return false;
        // A last batch that is not full repeats windows; it would count them twice.
        if (text_data_held_rows(held->text, i, rows, length) == rows) {
            nats += loss;
            taken++;
        }
    }
    if (taken == 0)
        return error_set(error, "the held-out text is shorter than one micro-batch (%zu bytes)", rows * length);
    *bits = nats / (double)taken / log(2);
    return true;
}
