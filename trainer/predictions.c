#include "trainer/predictions.h"

#include <stdlib.h>

#include "common/number.h"
#include "device/half.h"
#include "runtime/groups/agreement.h"
#include "runtime/pipeline_shards.h"
#include "trainer/host_tables.h"

struct sample_range predictions_range(const struct predictions *predictions)
{
    return predictions->range.count > 0 ? predictions->range : sample_data_held(predictions->data);
}

uint64_t predictions_samples(const struct predictions *predictions)
{
    return (uint64_t)predictions->micro_batches * predictions->model->sizes.micro_batch;
}

uint64_t predictions_count(const struct predictions *predictions, uint64_t evaluation)
{
    const uint64_t samples = predictions_samples(predictions);
    return min_u64(predictions_range(predictions).count - evaluation * samples, samples);
}

static uint64_t output_numbers(const struct predictions *predictions)
{
    return predictions->micro_batches * predictions->output_bytes
         / precision_bytes(predictions->model->sizes.precision);
}

bool predictions_open(struct predictions *predictions, uint32_t most, struct error *error)
{
    const struct model *model = predictions->model;
    const struct layer *last = &model->layers[model->layer_count - 1];
    const uint64_t rows = model->sizes.micro_batch, all = (predictions_range(predictions).count + rows - 1) / rows;
    predictions->evaluations = (all + most - 1) / most;
    predictions->micro_batches = (uint32_t)((all + predictions->evaluations - 1) / predictions->evaluations);
    predictions->output_bytes = layer_sizes(&model->layers[last->inputs[0]]).output_bytes;
    predictions->losses = calloc(predictions->micro_batches, sizeof predictions->losses[0]);
    predictions->outputs = malloc(predictions->micro_batches * predictions->output_bytes);
    predictions->numbers = malloc(output_numbers(predictions) * sizeof predictions->numbers[0]);
    return (predictions->losses && predictions->outputs && predictions->numbers)
        || error_no_memory(error, "what is predicted of samples");
}

void predictions_close(struct predictions *predictions)
{
    evaluation_free(predictions->evaluation);
    model_layers_free(predictions->whole);
    free(predictions->losses);
    free(predictions->outputs);
    free(predictions->numbers);
    *predictions = (struct predictions){ 0 };
}

// Whether the first process has all parts of a layer.
static bool are_of_first(const struct pipeline *pipeline, uint32_t layer)
{
    const struct rank_grid *grid = pipeline->shards->grid;
    const uint32_t rank = pipeline_rank_of(pipeline, layer, 0);
    bool all = rank == 0;
    for (uint32_t m = 0; m < grid->members; m++)
        all &= rank_grid_place(grid, rank, m) == rank_grid_place(grid, 0, 0);
    return all;
}

// Whether tables on the host are read there. The first rank computes, so that it has to have them; if it has not, it is
// sent them whole.
static bool looks_up(const struct predictions *predictions)
{
    bool all = predictions->host != NULL;
    for (uint32_t l = 0; predictions->host && l < predictions->model->layer_count; l++)
        if (host_tables_has(predictions->host, l))
            all &= are_of_first(predictions->pipeline, l);
    return all;
}

// Layers that are split do not run without the other members, which have no part in an evaluation.
static bool make_whole(struct predictions *predictions, struct error *error)
{
    const struct batch_settings batches = { .batches = BATCHES_HELD, .course = &predictions->course, .samples = 1 };
    if (!predictions->pipeline->shards || predictions->whole)
        return true;
    predictions->course = (struct sample_course){ .data = predictions->data, .evaluated = predictions->range,
                                                  .evaluation_samples = predictions_samples(predictions) };
    const struct splitting splitting = { .host = predictions->host, .looks_up = looks_up(predictions) };
    predictions->whole = model_layers_create_split(predictions->model, predictions->device, &batches, &splitting,
                                                   error);
    return ranks_all_good(predictions->settings->group, predictions->whole != NULL, error);
}

// On one processor, layer by layer, if the pipeline's memory has no room for an evaluation.
static bool run_alone(struct predictions *predictions, uint64_t number, const struct forward_results *into,
                      struct error *error)
{
    if (!make_whole(predictions, error)
        || (predictions->host && !host_tables_take_back(predictions->host, predictions->pipeline, error)))
        return false;
    const struct forward_request request = { .pipeline = predictions->pipeline, .device = predictions->device,
                                             .group = predictions->settings->group,
                                             .micro_batches = predictions->micro_batches,
                                             .layers = predictions->whole ? predictions->whole->layers : NULL };
    struct forward *forward = forward_open(&request, error);
    const bool good = forward && forward_losses(forward, number, into, error);
    forward_close(forward);
    return good;
}

static bool run_by_twin(struct predictions *predictions, uint64_t number, struct error *error)
{
    const size_t last = predictions->model->layers[predictions->model->layer_count - 1].inputs[0];
    bool good = true;
    for (uint32_t m = 0; good && m < predictions->micro_batches; m++)
        good = twin_loss(predictions->twin, number, m, &predictions->losses[m], error)
            && twin_read_output(predictions->twin, last, predictions->outputs + m * predictions->output_bytes, error);
    return good;
}

static bool run_somewhere(struct predictions *predictions, uint64_t evaluation, struct error *error)
{
    const struct forward_results into = { .losses = predictions->losses, .predictions = predictions->outputs };
    const struct pipeline *pipeline = predictions->pipeline;
    bool fits;
    if (predictions->twin)
        return run_by_twin(predictions, evaluation, error);
    if (pipeline->shards)
        return run_alone(predictions, evaluation, &into, error);
    if (!predictions->evaluation) {
        if (!evaluation_fits(pipeline, predictions->micro_batches, &fits, error))
            return false;
        if (!fits)
            return run_alone(predictions, evaluation, &into, error);
        predictions->evaluation = evaluation_open(pipeline, predictions->micro_batches, predictions->device,
                                                  predictions->settings, error);
    }
    return predictions->evaluation && evaluation_run(predictions->evaluation, evaluation, &into, error);
}

bool predictions_run(struct predictions *predictions, uint64_t evaluation, struct error *error)
{
    const enum precision precision = predictions->model->sizes.precision;
    if (!run_somewhere(predictions, evaluation, error))
        return false;
    for (uint64_t i = 0; i < output_numbers(predictions); i++)
        predictions->numbers[i] = number_of(predictions->outputs, precision, i);
    return true;
}

const float *predictions_at(const struct predictions *predictions, uint64_t sample)
{
    const struct model_sizes *sizes = &predictions->model->sizes;
    const uint64_t width = predictions->model->family == FAMILY_CLICKS ? 1 : sizes->sequence * sizes->classes;
    const float *batch = predictions->numbers + sample / sizes->micro_batch * output_numbers(predictions)
                                                / predictions->micro_batches;
    return batch + sample % sizes->micro_batch * width;
}

double predictions_nats(const struct predictions *predictions)
{
    double nats = 0;
    for (uint32_t m = 0; m < predictions->micro_batches; m++)
        nats += predictions->losses[m];
    return nats * (double)predictions->model->sizes.micro_batch;
}
