#include "tests/models/sequential.h"

#include <assert.h>
#include <stdlib.h>

#include "common/number.h"
#include "models/layer_kind.h"

// The data of one layer; offsets are into flat buffers of all layers.
struct station {
    struct layer layer;  // it has asked the device
    uint64_t first;  // of its parameters: gradient and optimizer state of number i are float i
    void *saved;
    void *output;
    void *gradient;     // of the output
    bool has_gradient;  // a layer that reads the output has written it
};

struct sequential {
    struct device *device;
    struct queue *queue;
    const struct model *model;
    uint32_t micro_batches;
    uint64_t seed;
    uint64_t updates;  // done so far
    void *memory;
    struct values *weights;                      // all layers' parameters
    float *gradients, *first, *second, *master;  // one float per parameter each; `master` only for 16 bits, else NULL
    void *part;  // a gradient that is then added to that of other readers
    uint64_t part_bytes;
    void *workspace;
    int32_t *tokens, *targets;
    struct station stations[];
};

uint64_t model_gradient_bytes(const struct model *model)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        sum += layer_sizes(&model->layers[i]).gradient_bytes;
    return sum;
}

size_t model_tokens(const struct model *model)
{
    return model->sizes.micro_batch * model->sizes.sequence;
}

// Lays everything out from `base`; for NULL it only counts bytes.
static uint64_t lay_out(struct sequential *s, void *base)
{
    const struct model *model = s->model;
    const uint64_t floats = model_gradient_bytes(model);
    struct walk walk = { base, 0 };
    uint64_t first = 0, output = 0, workspace = 0;
    s->weights = walk_bytes(&walk, model_parameter_bytes(model));
    s->gradients = walk_bytes(&walk, floats);
    s->first = walk_bytes(&walk, floats);
    s->second = walk_bytes(&walk, floats);
    s->master = model->sizes.precision == PRECISION_FP32 ? NULL : walk_bytes(&walk, floats);
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct layer_sizes sizes = layer_sizes(&s->stations[i].layer);
        s->stations[i].first = first;
        s->stations[i].saved = walk_bytes(&walk, sizes.saved_bytes);
        s->stations[i].output = walk_bytes(&walk, sizes.output_bytes);
        s->stations[i].gradient = walk_bytes(&walk, sizes.output_bytes);
        first += sizes.gradient_bytes / sizeof(float);
        output = max_u64(output, sizes.output_bytes);
        workspace = max_u64(workspace, max_u64(sizes.workspace_bytes, sizes.backward_workspace_bytes));
    }
    s->part_bytes = output;
    s->part = walk_bytes(&walk, LAYER_INPUTS * output);
    s->workspace = walk_bytes(&walk, workspace);
    s->tokens = walk_bytes(&walk, model_tokens(model) * sizeof(int32_t));
    s->targets = walk_bytes(&walk, model_tokens(model) * sizeof(int32_t));
    return walk.bytes;
}

static struct values *parameters_of(const struct sequential *s, size_t layer)
{
    return values_at(s->weights, s->model->sizes.precision, s->stations[layer].first);
}

static void initialize(struct sequential *s)
{
    const uint64_t floats = model_gradient_bytes(s->model);
    queue_zero(s->queue, s->first, floats);
    queue_zero(s->queue, s->second, floats);
    for (size_t i = 0; i < s->model->layer_count; i++)
        layer_initialize(&s->model->layers[i], s->queue, parameters_of(s, i), s->seed);
    if (s->master)
        kernel_widen(s->queue, s->master, s->weights, floats / sizeof(float));
}

static bool ask(struct sequential *s, struct error *error)
{
    bool good = true;
    for (size_t i = 0; good && i < s->model->layer_count; i++) {
        s->stations[i].layer = s->model->layers[i];
        good = layer_ask(&s->stations[i].layer, s->device, error);
    }
    return good;
}

struct sequential *sequential_create(struct device *device, const struct model *model, uint32_t micro_batches,
                                     uint64_t seed, struct error *error)
{
    struct sequential *s = calloc(1, sizeof *s + model->layer_count * sizeof(struct station));
    assert(model->family == FAMILY_TEXT);
    if (!s) {
        error_no_memory(error, "a sequential run");
        return NULL;
    }
    s->device = device;
    s->model = model;
    s->micro_batches = micro_batches;
    s->seed = seed;
    s->queue = queue_create(device, error);
    s->memory = s->queue && ask(s, error) ? device_allocate(device, lay_out(s, NULL), error) : NULL;
    if (!s->memory) {
        sequential_free(s);
        return NULL;
    }
    lay_out(s, s->memory);
    initialize(s);
    return s;
}

void sequential_free(struct sequential *s)
{
    if (!s)
        return;
    queue_free(s->queue);  // first: this waits until the queue no longer uses the memory
    device_release(s->device, s->memory);
    free(s);
}

// The pass of layer `i` in either direction; the backward adds the gradients to it.
static struct layer_pass pass_of(const struct sequential *s, size_t i, uint32_t micro_batch, float loss_weight)
{
    const struct layer *layer = &s->stations[i].layer;
    struct layer_pass pass = {
        .base = {
            .queue = s->queue,
            .step = s->updates,
            .micro_batch = micro_batch,
            .share = 1.0f / (float)s->micro_batches,
            .parameters = parameters_of(s, i),
            .gradients = s->gradients + s->stations[i].first,
            .tied_parameters = s->weights,  // the embedding's, which come first
            .tied_gradients = s->gradients,
            .output = s->stations[i].output,
            .saved = s->stations[i].saved,
            .workspace = s->workspace,
        },
        .seed = s->seed,
        .tokens = s->tokens,
        .targets = s->targets,
        .loss_weight = loss_weight,
    };
    for (uint32_t k = 0; k < layer->input_count; k++)
        pass.base.inputs[k] = s->stations[layer->inputs[k]].output;
    return pass;
}

static void forward(struct sequential *s, const int32_t *tokens, const int32_t *targets, uint32_t micro_batch,
                    bool training, float loss_weight, float *loss)
{
    const uint64_t bytes = model_tokens(s->model) * sizeof(int32_t);
    queue_upload(s->queue, s->tokens, tokens + micro_batch * model_tokens(s->model), bytes);
    queue_upload(s->queue, s->targets, targets + micro_batch * model_tokens(s->model), bytes);
    for (size_t i = 0; i < s->model->layer_count; i++) {
        struct layer_pass pass = pass_of(s, i, micro_batch, loss_weight);
        pass.training = training;
        pass.keeps_logits = !training;
        pass.base.loss = loss;
        layer_forward(&s->stations[i].layer, &pass);
    }
}

static void *part_of(const struct sequential *s, uint32_t input)
{
    return (char *)s->part + input * s->part_bytes;
}

// Each gradient goes to its place. If a later layer has written one there already, it goes beside it.
static void put_input_gradients(const struct sequential *s, size_t i, struct layer_pass *pass)
{
    const struct layer *layer = &s->stations[i].layer;
    for (uint32_t k = 0; k < layer->input_count; k++) {
        const struct station *from = &s->stations[layer->inputs[k]];
        pass->base.input_gradients[k] = from->has_gradient ? part_of(s, k) : from->gradient;
    }
}

static void add_input_gradients(struct sequential *s, size_t i)
{
    const struct layer *layer = &s->stations[i].layer;
    for (uint32_t k = 0; k < layer->input_count; k++) {
        struct station *from = &s->stations[layer->inputs[k]];
        if (from->has_gradient)
            kernel_add(s->queue, from->gradient, from->gradient, part_of(s, k), layer_elements(&from->layer));
        from->has_gradient = true;
    }
}

static void backward(struct sequential *s, uint32_t micro_batch, float loss_weight)
{
    for (size_t i = 0; i < s->model->layer_count; i++)
        s->stations[i].has_gradient = false;
    for (size_t i = s->model->layer_count; i-- > 0;) {
        struct layer_pass pass = pass_of(s, i, micro_batch, loss_weight);
        pass.training = true;
        pass.base.output_gradient = s->stations[i].gradient;
        put_input_gradients(s, i, &pass);
        layer_backward(&s->stations[i].layer, &pass);
        add_input_gradients(s, i);
    }
}

// Tensor by tensor, since only matrices decay.
static void update_layer(struct sequential *s, size_t i, const struct sequential_update *update)
{
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(&s->model->layers[i], tensors);
    for (size_t t = 0; t < count; t++) {
        const uint64_t offset = s->stations[i].first + tensors[t].offset;
        struct values *weights = values_at(s->weights, s->model->sizes.precision, offset);
        const struct optimizer_span span = {
            .next = weights,
            .weights = weights,
            .master = s->master ? s->master + offset : NULL,
            .gradients = s->gradients + offset,
            .first = s->first + offset,
            .second = s->second + offset,
            .count = tensors[t].rows * tensors[t].columns,
        };
        struct adamw adamw = update->adamw;
        struct sgd sgd = update->sgd;
        adamw.update = s->updates + 1;
        adamw.decay = tensors[t].decays ? adamw.decay : 0;
        sgd.decay = tensors[t].decays ? sgd.decay : 0;
        if (update->is_sgd)
            kernel_sgd(s->queue, &sgd, &span);
        else
            kernel_adamw(s->queue, &adamw, &span);
    }
}

bool sequential_step(struct sequential *s, const int32_t *tokens, const int32_t *targets,
                     const struct sequential_update *update, double *loss, struct error *error)
{
    const float loss_weight = (float)(1.0 / ((double)s->micro_batches * (double)model_tokens(s->model)));
    *loss = 0;
    queue_zero(s->queue, s->gradients, model_gradient_bytes(s->model));
    for (uint32_t micro_batch = 0; micro_batch < s->micro_batches; micro_batch++) {
        float part = 0;
        forward(s, tokens, targets, micro_batch, true, loss_weight, &part);
        backward(s, micro_batch, loss_weight);
        if (!queue_wait(s->queue, error))
            return false;
        *loss += (double)part;
    }
    for (size_t i = 0; i < s->model->layer_count; i++)
        update_layer(s, i, update);
    s->updates++;
    return queue_wait(s->queue, error);
}

bool sequential_evaluate(struct sequential *s, const int32_t *tokens, const int32_t *targets, uint32_t micro_batches,
                         double *loss, struct error *error)
{
    const float loss_weight = (float)(1.0 / ((double)micro_batches * (double)model_tokens(s->model)));
    *loss = 0;
    for (uint32_t micro_batch = 0; micro_batch < micro_batches; micro_batch++) {
        float part = 0;
        forward(s, tokens, targets, micro_batch, false, loss_weight, &part);
        if (!queue_wait(s->queue, error))
            return false;
        *loss += (double)part;
    }
    return true;
}

const void *sequential_parameters(const struct sequential *s, size_t layer)
{
    return parameters_of(s, layer);
}

const float *sequential_gradients(const struct sequential *s, size_t layer)
{
    return s->gradients + s->stations[layer].first;
}
