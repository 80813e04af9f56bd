// The end of a model of pictures: the cross-entropy of its input, a row of scores per target, against the labels, which
// may be smoothed. A second input has the scores of a second classifier (Inception), whose loss counts less. It does
// not count in an evaluation.
//
// F saves the gradients of the scores; I hands them on. Scores that are kept have no gradient.
#include "models/layer_kind.h"

static const float auxiliary_share = 0.4f;  // as torchvision's training has it

// Workspace of F: the loss of each row, and the losses of both classifiers.
struct work {
    float *rows, *loss[2];
};

static struct work work_of(const struct layer *layer, struct walk *walk)
{
    struct work work = { .rows = walk_floats(walk, layer_rows(layer)) };
    work.loss[0] = walk_floats(walk, 1);
    work.loss[1] = walk_floats(walk, 1);
    return work;
}

static uint64_t scores_bytes(const struct layer *layer)
{
    return layer_bytes(layer, layer_rows(layer) * layer->shape.in);
}

static struct values *gradient_of(const struct layer *layer, const struct layer_pass *pass, uint32_t input)
{
    return values_at(pass->base.saved, layer->shape.precision,
                     input * scores_bytes(layer) / precision_bytes(layer->shape.precision));
}

static struct kind_sizes cross_entropy_sizes(const struct layer *layer)
{
    struct walk work = { 0 };
    work_of(layer, &work);
    return (struct kind_sizes){
        .saved_bytes = layer->input_count * scores_bytes(layer),
        .input = INPUT_NEVER,
        .forward_workspace_bytes = work.bytes,
    };
}

static void cross_entropy_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct work work = work_of(layer, &(struct walk){ pass->base.workspace, 0 });
    const uint32_t classifiers = pass->keeps_logits ? 1 : layer->input_count;
    for (uint32_t i = 0; i < classifiers; i++) {
        const struct cross_entropy loss = {
            .logits = pass->base.inputs[i], .targets = pass->targets, .rows = layer_rows(layer),
            .columns = layer->shape.in, .scale = i > 0 ? auxiliary_share * pass->loss_weight : pass->loss_weight,
            .smoothing = layer->shape.picture.smoothing,
        };
        if (pass->keeps_logits)
            kernel_cross_entropy(pass->base.queue, &loss, work.loss[i], work.rows);
        else
            kernel_cross_entropy_both(pass->base.queue, &loss, work.loss[i], work.rows, gradient_of(layer, pass, i),
                                      loss.scale * layer_loss_scale(pass));
    }
    if (classifiers > 1)
        kernel_add_floats(pass->base.queue, work.loss[0], work.loss[0], work.loss[1], 1);
}

static float *cross_entropy_loss(const struct layer *layer, const struct layer_pass *pass)
{
    return work_of(layer, &(struct walk){ pass->base.workspace, 0 }).loss[0];
}

static void cross_entropy_backward(const struct layer *layer, const struct layer_pass *pass)
{
    for (uint32_t i = 0; i < layer->input_count; i++)
        queue_copy(pass->base.queue, pass->base.input_gradients[i], gradient_of(layer, pass, i), scores_bytes(layer));
}

const struct layer_kind layer_cross_entropy = {
    .name = "cross-entropy",
    .data = DATA_TARGETS,
    .sizes = cross_entropy_sizes,
    .forward = { { cross_entropy_forward, NULL } },
    .backward_input = { { cross_entropy_backward, NULL } },
    .loss = cross_entropy_loss,
};
