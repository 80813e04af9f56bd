// The end of a model that says yes or no: the cross-entropy of its input, a logit per sample, against the labels.
//
// F saves the gradient of the logits, which I hands on. In an evaluation there is none.
#include "models/layer_kind.h"

// Workspace of F: the loss of each row, and the loss.
struct work {
    float *rows, *loss;
};

static struct work work_of(const struct layer *layer, struct walk *walk)
{
    struct work work = { .rows = walk_floats(walk, layer_rows(layer)) };
    work.loss = walk_floats(walk, 1);
    return work;
}

static struct kind_sizes binary_cross_entropy_sizes(const struct layer *layer)
{
    struct walk work = { 0 };
    work_of(layer, &work);
    return (struct kind_sizes){
        .saved_bytes = layer_bytes(layer, layer_rows(layer)),
        .input = INPUT_NEVER,
        .forward_workspace_bytes = work.bytes,
    };
}

static void binary_cross_entropy_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct work work = work_of(layer, &(struct walk){ pass->base.workspace, 0 });
    const struct binary_cross_entropy loss = { .logits = pass->base.input, .targets = pass->targets,
                                               .rows = layer_rows(layer), .scale = pass->loss_weight };
    kernel_binary_cross_entropy(pass->base.queue, &loss, work.loss, work.rows,
                                pass->keeps_logits ? NULL : pass->base.saved);
}

static float *binary_cross_entropy_loss(const struct layer *layer, const struct layer_pass *pass)
{
    return work_of(layer, &(struct walk){ pass->base.workspace, 0 }).loss;
}

static void binary_cross_entropy_backward(const struct layer *layer, const struct layer_pass *pass)
{
    queue_copy(pass->base.queue, pass->base.input_gradient, pass->base.saved,
               binary_cross_entropy_sizes(layer).saved_bytes);
}

const struct layer_kind layer_binary_cross_entropy = {
    .name = "bce-loss",
    .data = DATA_TARGETS,
    .sizes = binary_cross_entropy_sizes,
    .forward = { { binary_cross_entropy_forward, NULL } },
    .backward_input = { { binary_cross_entropy_backward, NULL } },
    .loss = binary_cross_entropy_loss,
};
