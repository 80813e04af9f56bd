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
    double nats = 0, taken = 0;
    for (size_t i = 0; i < count; i++) {
        float loss = 0;
        if (!twin_loss(held->twin, 0, (uint32_t)i, &loss, error))
            return false;
        // Of a last batch that is not full, the loss is of what it has, over the size of a full one.
        nats += loss;
        taken += (double)text_data_held_rows(held->text, i, rows, length) / (double)rows;
    }
    if (count == 0)
        return error_set(error, "the held-out text is shorter than one sequence (%zu tokens)", length);
    *bits = nats / taken / log(2);
    return true;
}
