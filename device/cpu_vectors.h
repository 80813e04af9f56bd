// Private: all kernels of the cpu maker, for the instruction set that the file
// including this is compiled for. That file defines CPU_KERNELS, the name of the
// table.
#include "device/cpu.h"
#include "device/cpu_attention.h"
#include "device/cpu_eight_bits.h"
#include "device/cpu_elementwise.h"
#include "device/cpu_optimizer.h"
#include "device/cpu_rows.h"
#include "device/cpu_signs.h"
#include "device/cpu_tensor_optimizers.h"

const struct kernel_functions CPU_KERNELS = {
    .matmul = cpu_matmul,
    .fill = cpu_fill,
    .fill_normal = cpu_fill_normal,
    .add = cpu_add,
    .scale = cpu_scale,
    .add_floats = cpu_add_floats,
    .widen = cpu_widen,
    .narrow = cpu_narrow,
    .dropout = cpu_dropout,
    .relu = cpu_relu,
    .relu_backward = cpu_relu_backward,
    .add_branch = cpu_add_branch,
    .sum_columns = cpu_sum_columns,
    .gelu = cpu_gelu,
    .gelu_backward = cpu_gelu_backward,
    .softmax = cpu_softmax,
    .layer_norm = cpu_layer_norm,
    .layer_norm_again = cpu_layer_norm_again,
    .layer_norm_backward_input = cpu_layer_norm_backward_input,
    .layer_norm_backward_weight = cpu_layer_norm_backward_weight,
    .embedding = cpu_embedding,
    .embedding_backward = cpu_embedding_backward,
    .attention = cpu_attention,
    .attention_backward = cpu_attention_backward,
    .cross_entropy = cpu_cross_entropy,
    .cross_entropy_both = cpu_cross_entropy_both,
    .cross_entropy_part = cpu_cross_entropy_part,
    .cross_entropy_join = cpu_cross_entropy_join,
    .cross_entropy_backward = cpu_cross_entropy_backward,
    .adamw = cpu_adamw,
    .sgd = cpu_sgd,
    .lars = cpu_lars,
    .lamb = cpu_lamb,
    .adafactor = cpu_adafactor,
    .adam8bit = cpu_adam8bit,
    .add_where = cpu_add_where,
    .take_signs = cpu_take_signs,
    .add_signs = cpu_add_signs,
    .norm = cpu_norm,
    .clip = cpu_clip,
};
