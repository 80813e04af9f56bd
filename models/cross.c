// The cross of DCN v2. It reads the first cross's input and what two linear layers have made of its own input, which
// is a third one, except that of the first cross:
//
//     output = first * y + own
#include "models/layer_kind.h"

enum { FIRST, Y, OWN };

static struct kind_sizes cross_sizes(const struct layer *layer)
{
    struct kind_sizes sizes = plain_sizes(layer);
    sizes.input = INPUT_FOR_BOTH;
    return sizes;
}

static bool is_first(const struct layer *layer)
{
    return layer->input_count <= OWN;
}

static void cross_forward(const struct layer *layer, const struct layer_pass *pass)
{
    kernel_cross(pass->base.queue, pass->base.output, pass->base.inputs[FIRST], pass->base.inputs[Y],
                 pass->base.inputs[is_first(layer) ? FIRST : OWN], layer_elements(layer));
}

static void cross_backward(const struct layer *layer, const struct layer_pass *pass)
{
    kernel_cross_backward(pass->base.queue, pass->base.input_gradients[FIRST], pass->base.input_gradients[Y],
                          is_first(layer) ? NULL : pass->base.input_gradients[OWN], pass->base.output_gradient,
                          pass->base.inputs[FIRST], pass->base.inputs[Y], layer_elements(layer));
}

const struct layer_kind layer_cross = {
    .name = "cross",
    .sizes = cross_sizes,
    .forward = { { cross_forward, NULL } },
    .backward_input = { { cross_backward, NULL } },
};
