// The numbers of the samples, such as counts of visits: output = log(max(number, 0) + 1).
#include "models/layer_kind.h"

static void numbers_forward(const struct layer *layer, const struct layer_pass *pass)
{
    kernel_log_counts(pass->base.queue, pass->base.output, (const struct values *)pass->numbers,
                      layer_elements(layer));
}

const struct layer_kind layer_numbers = {
    .name = "numbers",
    .data = DATA_NUMBERS,
    .sizes = plain_sizes,
    .forward = { { numbers_forward, NULL } },
};
