// The second half of a block, whose MLP is one of experts for each token:
//
//     normed = norm(input)
//     output = input + dropout(shared(normed) + the sum over the token's choices of gate * expert(normed))
//
//     gelu      expert(x) = gelu(x UP + bias) DOWN + bias
//     swiglu    expert(x) = (silu(x LEFT) * (x RIGHT)) DOWN,   UP = LEFT | RIGHT side by side
//
// The router (router.h) chooses. Rows are sorted by expert, go through both products in groups, and are added up again
// in the order of the choices. The shared expert, if there is one, takes every token. Tensors of experts are one behind
// the other: [experts][width][inner].
//
// The wide rows before the activation are saved, and what the experts give, from which the gates get their gradient. No
// pass knows how many rows an expert has. Sizes are those of the most that there can be.
//
// Members that own rows have some of the experts each (expert_places.h). Rows then go to the members of their experts
// and back, twice in F and twice in I. Those of copied experts stay, and come first:
//
//     F    choose .. gather counts .. slots, rows sorted -> experts' products -> added up
//     I                             gradients sorted -> back through the products -> added up
//
// What experts have received in F and I stays for W, which exchanges nothing.
#include <math.h>

#include "common/expert_rules.h"
#include "models/expert_places.h"
#include "models/router.h"

// Tensors; then those of the experts, and of the shared one. Members have the shared one first, then copied experts,
// and then their own, since what they alone have comes last.
enum { GAIN, OFFSET, ROUTER, EXPERTS };

static bool has_places(const struct layer *layer)
{
    return layer->shape.experts.have_places;
}

// Numbers of the tensors of one MLP: those without biases follow each other.
struct mlp_tensors {
    size_t up, up_bias, down, down_bias;
};

static bool has_biases(const struct layer *layer)
{
    return !layer->shape.experts.is_swiglu;
}

static struct mlp_tensors mlp_tensors_from(const struct layer *layer, size_t first)
{
    return has_biases(layer) ? (struct mlp_tensors){ first, first + 1, first + 2, first + 3 }
                             : (struct mlp_tensors){ .up = first, .down = first + 1 };
}

static size_t mlp_tensor_count(const struct layer *layer)
{
    return has_biases(layer) ? 4 : 2;
}

static struct mlp_tensors shared_tensors(const struct layer *layer)
{
    return mlp_tensors_from(layer, EXPERTS + (has_places(layer) ? 0 : mlp_tensor_count(layer)));
}

static size_t copied_tensors(const struct layer *layer)
{
    return EXPERTS + (has_places(layer) && layer->shape.experts.shared > 0 ? mlp_tensor_count(layer) : 0);
}

static size_t own_tensors(const struct layer *layer)
{
    return copied_tensors(layer) + (layer_copied_experts(layer) > 0 ? mlp_tensor_count(layer) : 0);
}

// Experts whose tensors are together: those that are copied, or a member's own.
struct expert_group {
    struct mlp_tensors tensors;
    size_t first, count;  // among all experts that the member computes
};
enum { EXPERT_GROUPS = 2 };

static size_t expert_groups(const struct layer *layer, struct expert_group groups[EXPERT_GROUPS])
{
    const size_t copies = layer_copied_experts(layer), own = layer_own_experts(layer) - copies;
    size_t count = 0;
    if (copies > 0)
        groups[count++] = (struct expert_group){ mlp_tensors_from(layer, copied_tensors(layer)), 0, copies };
    if (own > 0)
        groups[count++] = (struct expert_group){ mlp_tensors_from(layer, own_tensors(layer)), copies, own };
    return count;
}

static size_t up_width(const struct layer *layer, size_t inner)
{
    return layer->shape.experts.is_swiglu ? 2 * inner : inner;
}

static void add_mlp(const struct layer *layer, const char *const names[4], size_t experts, size_t inner,
                    struct tensor *tensors, size_t *count)
{
    const size_t width = layer->shape.out, wide = up_width(layer, inner);
    const float end = 0.02f / sqrtf((float)layer->shape.branches);
    if (experts == 0)
        return;
    tensor_add(tensors, count, (struct tensor){ .name = names[0], .rows = experts * width, .columns = wide,
                                                .start = START_NORMAL, .deviation = 0.02f, .decays = true });
    if (has_biases(layer))
        tensor_add(tensors, count, (struct tensor){ .name = names[1], .rows = experts, .columns = wide });
    tensor_add(tensors, count, (struct tensor){ .name = names[2], .rows = experts * inner, .columns = width,
                                                .start = START_NORMAL, .deviation = end, .decays = true });
    if (has_biases(layer))
        tensor_add(tensors, count, (struct tensor){ .name = names[3], .rows = experts, .columns = width });
}

// Tensors of members have their numbers in the whole layer, and those of experts are split.
static void number_tensors(const struct layer *layer, struct tensor *tensors, size_t count)
{
    const size_t copied = copied_tensors(layer), own = own_tensors(layer), each = mlp_tensor_count(layer);
    for (size_t i = 0; i < count; i++) {
        const size_t behind = i < copied ? 0 : i < own ? i - copied : i - own;
        tensors[i].number = i < EXPERTS ? i : i < copied ? i + each : EXPERTS + behind;
        tensors[i].split = i < copied ? SPLIT_NONE : i < own ? SPLIT_COPIES : SPLIT_EXPERTS;
    }
}

static void experts_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    static const char *const own[] = { "up.weight", "up.bias", "down.weight", "down.bias" };
    static const char *const copied[] = { "copied.up.weight", "copied.up.bias", "copied.down.weight",
                                          "copied.down.bias" };
    static const char *const shared[] = { "shared.up.weight", "shared.up.bias", "shared.down.weight",
                                          "shared.down.bias" };
    const struct expert_shape *shape = &layer->shape.experts;
    const size_t width = layer->shape.out;
    tensor_add(tensors, count, (struct tensor){ .name = "norm.gain", .rows = 1, .columns = width, .start = START_ONE });
    tensor_add(tensors, count, (struct tensor){ .name = "norm.offset", .rows = 1, .columns = width });
    router_tensor(layer, tensors, count);
    if (has_places(layer) && shape->shared > 0)
        add_mlp(layer, shared, 1, shape->shared, tensors, count);
    add_mlp(layer, copied, layer_copied_experts(layer), shape->inner, tensors, count);
    add_mlp(layer, own, layer_own_experts(layer) - layer_copied_experts(layer), shape->inner, tensors, count);
    if (!has_places(layer) && shape->shared > 0)
        add_mlp(layer, shared, 1, shape->shared, tensors, count);
    if (has_places(layer))
        number_tensors(layer, tensors, *count);
}

// --- memory ----------------------------------------------------------------------

// What W needs of what F saved.
struct kept {
    float *mean, *rstd;
    struct routing routing;
    int32_t *taken;  // ends of the rows that this layer's experts take
};

static struct kept experts_kept(const struct layer *layer, const struct layer_pass *pass, struct walk *walk)
{
    struct kept kept;
    kept.mean = walk_floats(walk, layer_rows(layer));
    kept.rstd = walk_floats(walk, layer_rows(layer));
    kept.routing = router_kept(layer, pass, walk);
    kept.taken = kept.routing.ends;
    if (has_places(layer))
        kept.taken = walk_bytes(walk, layer->shape.experts.most * sizeof(int32_t));
    return kept;
}

// The rows that a member's experts take. Without places there are none, since experts take what is sorted.
static struct values *taken_rows(const struct layer *layer, struct walk *walk)
{
    return has_places(layer) ? walk_values(walk, layer, router_taken(layer) * layer->shape.out) : NULL;
}

struct experts_saved {
    struct kept kept;  // comes first
    struct values *received;
    int32_t *counts;   // of members: the rows that each sends to each expert
    struct values *wide, *given, *shared;
};

static struct experts_saved experts_saved(const struct layer *layer, const struct layer_pass *pass, struct walk *walk)
{
    const struct expert_shape *shape = &layer->shape.experts;
    struct experts_saved saved = { .kept = experts_kept(layer, pass, walk) };
    saved.received = taken_rows(layer, walk);
    if (has_places(layer))
        saved.counts = walk_bytes(walk, layer->shape.members * shape->router.experts * sizeof(int32_t));
    router_saved(layer, &saved.kept.routing, walk);
    saved.wide = walk_values(walk, layer, router_taken(layer) * up_width(layer, shape->inner));
    saved.given = walk_values(walk, layer, router_slots(layer) * layer->shape.out);
    saved.shared = shape->shared > 0 ? walk_values(walk, layer, layer_rows(layer) * up_width(layer, shape->shared))
                                     : NULL;
    return saved;
}

// For W: the inputs and output gradients of the products. `bent` is the output of an activation.
struct experts_held {
    struct values *bent, *wide_gradient, *shared_bent, *shared_gradient, *logits_gradient, *normed_gradient;
    struct values *received_gradient;
    struct kept kept;         // copies come last
    struct values *received;
};

static struct experts_held experts_held(const struct layer *layer, const struct layer_pass *pass, struct walk *walk)
{
    const struct expert_shape *shape = &layer->shape.experts;
    const size_t rows = layer_rows(layer), taken = router_taken(layer), shared = shape->shared;
    struct experts_held held = { 0 };
    held.bent = walk_values(walk, layer, taken * shape->inner);
    held.wide_gradient = walk_values(walk, layer, taken * up_width(layer, shape->inner));
    held.shared_bent = shared > 0 ? walk_values(walk, layer, rows * shared) : NULL;
    held.shared_gradient = shared > 0 ? walk_values(walk, layer, rows * up_width(layer, shared)) : NULL;
    held.logits_gradient = walk_values(walk, layer, rows * shape->router.experts);
    held.normed_gradient = walk_values(walk, layer, rows * layer->shape.out);
    held.received_gradient = taken_rows(layer, walk);
    held.kept = experts_kept(layer, pass, walk);
    held.received = taken_rows(layer, walk);
    return held;
}

// Rows of all tokens and of all slots. The forward also has what is between the products, and the loss of the router.
// I has the gradients of the gates. Members have what their experts give, and blocks of what all have counted.
struct experts_work {
    struct values *rows, *slots, *bent, *shared, *given;
    float *loss, *gates;
    void *blocks;
};

static uint64_t blocks_bytes(const struct layer *layer)
{
    return layer->shape.members * routing_block_bytes(layer->shape.experts.router.experts);
}

static struct experts_work forward_work(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), slots = router_slots(layer), width = layer->shape.out;
    struct experts_work work = { .rows = walk_values(walk, layer, rows * width) };
    work.slots = walk_values(walk, layer, slots * width);
    work.bent = walk_values(walk, layer, router_taken(layer) * layer->shape.experts.inner);
    work.shared = walk_values(walk, layer, rows * layer->shape.experts.shared);
    work.loss = walk_floats(walk, 1);
    work.given = taken_rows(layer, walk);
    if (has_places(layer))
        work.blocks = walk_bytes(walk, blocks_bytes(layer));
    return work;
}

static struct experts_work backward_work(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out;
    struct experts_work work = { .rows = walk_values(walk, layer, rows * width) };
    work.slots = walk_values(walk, layer, router_slots(layer) * width);
    work.gates = walk_floats(walk, rows * layer->shape.experts.router.top);
    work.given = taken_rows(layer, walk);
    return work;
}

static uint64_t kept_bytes(const struct layer *layer)
{
    struct walk walk = { 0 };
    experts_kept(layer, NULL, &walk);
    return walk.bytes;
}

// What W needs of F: the first tensors of what is saved, and the last of what is held.
static uint64_t copied_bytes(const struct layer *layer)
{
    struct walk walk = { NULL, kept_bytes(layer) };
    taken_rows(layer, &walk);
    return walk.bytes;
}

static uint64_t matrices_of(const struct layer *layer, size_t inner)
{
    return (uint64_t)expert_matrices((double)layer->shape.out, (double)inner, layer->shape.experts.is_swiglu);
}

static uint64_t flops_of(const struct layer *layer)
{
    const struct expert_shape *shape = &layer->shape.experts;
    const uint64_t rows = layer_rows(layer), width = layer->shape.out, slots = router_taken(layer);
    return 2 * rows * width * shape->router.experts
         + 2 * slots * matrices_of(layer, shape->inner) + 2 * rows * matrices_of(layer, shape->shared);
}

static struct kind_sizes experts_sizes(const struct layer *layer)
{
    struct walk saved = { 0 }, held = { 0 }, forward = { 0 }, backward = { 0 };
    experts_saved(layer, NULL, &saved);
    experts_held(layer, NULL, &held);
    forward_work(layer, &forward);
    backward_work(layer, &backward);
    struct kind_sizes sizes = {
        .output_bytes = layer_bytes(layer, layer_elements(layer)),
        .saved_bytes = saved.bytes,
        .input = INPUT_FOR_BOTH,
        .held_bytes = held.bytes,
        .copied_bytes = copied_bytes(layer),
        .forward_workspace_bytes = forward.bytes,
        .input_workspace_bytes = backward.bytes,
        .weight_workspace_bytes = backward.bytes,
        .flops = flops_of(layer),
    };
    router_state_sizes(layer, &sizes);
    return sizes;
}

static struct experts_saved saved_of(const struct layer *layer, const struct layer_pass *pass)
{
    return experts_saved(layer, pass, &(struct walk){ pass->base.saved, 0 });
}

static struct experts_held held_of(const struct layer *layer, const struct layer_pass *pass)
{
    struct experts_held held = experts_held(layer, pass, &(struct walk){ pass->base.held, 0 });
    if (pass->is_both) {
        held.kept = saved_of(layer, pass).kept;
        held.received = saved_of(layer, pass).received;
    }
    return held;
}

// --- passes ----------------------------------------------------------------------

static struct layer_norm experts_norm(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    return (struct layer_norm){
        .in = pass->base.input, .gain = weights.at[GAIN], .offset = weights.at[OFFSET],
        .rows = layer_rows(layer), .columns = layer->shape.out,
    };
}

// The activation of the experts' rows. Without what is kept it is that of the shared expert's.
static struct activation activation_of(const struct layer *layer, const struct kept *kept)
{
    const struct expert_shape *shape = &layer->shape.experts;
    return kept ? (struct activation){ shape->is_swiglu, router_taken(layer), shape->inner,
                                       kept->taken + layer_own_experts(layer) - 1 }
                : (struct activation){ shape->is_swiglu, layer_rows(layer), shape->shared, NULL };
}

// The products of an expert.
enum product { PRODUCT_UP, PRODUCT_DOWN };

static size_t matrix_of(const struct mlp_tensors *tensors, enum product product)
{
    return product == PRODUCT_UP ? tensors->up : tensors->down;
}

static size_t bias_of(const struct mlp_tensors *tensors, enum product product)
{
    return product == PRODUCT_UP ? tensors->up_bias : tensors->down_bias;
}

// The rows of the experts through one product, whose `m`, matrices and biases are set here.
static void multiply_groups(const struct layer *layer, const struct layer_pass *pass, const struct kept *kept,
                            enum product product, struct matmul rows)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    struct expert_group groups[EXPERT_GROUPS];
    const size_t count = expert_groups(layer, groups);
    rows.m = router_taken(layer);
    for (size_t g = 0; g < count; g++) {
        const struct mlp_tensors *tensors = &groups[g].tensors;
        rows.b = weights.at[matrix_of(tensors, product)];
        rows.bias = has_biases(layer) && !rows.transpose_b ? weights.at[bias_of(tensors, product)] : NULL;
        kernel_grouped_matmul(pass->base.queue, &rows, kept->taken, groups[g].first, groups[g].count);
    }
}

// --- exchanges --------------------------------------------------------------------

static struct routing_members members_of(const struct layer *layer, const struct experts_saved *saved, void *blocks)
{
    struct routing_members members = {
        .members = (uint32_t)layer->shape.members, .member = (uint32_t)layer->shape.member, .blocks = blocks,
        .kept = saved->counts, .taken = saved->kept.taken,
    };
    for (size_t i = 0; i < layer_own_experts(layer); i++) {
        const size_t expert = layer_own_expert(layer, i);
        uint64_t *bits = i < layer_copied_experts(layer) ? members.copied : members.own;
        bits[expert / 64] |= (uint64_t)1 << expert % 64;
    }
    return members;
}

// Rows to the members of their experts, or back.
static struct shard_part rows_to_exchange(const struct layer *layer, const struct layer_pass *pass, struct values *from,
                                          struct values *to, bool is_back)
{
    const struct expert_shape *shape = &layer->shape.experts;
    if (!has_places(layer))
        return (struct shard_part){ 0 };
    return (struct shard_part){
        .numbers = from, .count = layer->shape.out, .exchange = SHARD_ROWS, .received = to,
        .rows = { .kept = saved_of(layer, pass).counts, .owners = shape->owners, .is_back = is_back,
                  .experts = (uint32_t)shape->router.experts, .members = (uint32_t)layer->shape.members,
                  .room = router_taken(layer), .member = (uint32_t)layer->shape.member,
                  .ends = saved_of(layer, pass).kept.taken, .lacked = pass->lacked_rows },
    };
}

// The products of the shared expert, whose output overwrites the normed rows.
static const struct values *shared_forward(const struct layer *layer, const struct layer_pass *pass,
                                           const struct experts_saved *saved, const struct experts_work *work)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer->shape.experts.shared;
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct mlp_tensors own = shared_tensors(layer);
    const struct activation activation = activation_of(layer, NULL);
    if (inner == 0)
        return NULL;
    project(pass->base.queue, saved->shared, work->rows, weights.at[own.up],
            has_biases(layer) ? weights.at[own.up_bias] : NULL, rows, width, up_width(layer, inner));
    kernel_activate(pass->base.queue, &activation, work->shared, saved->shared);
    project(pass->base.queue, work->rows, work->shared, weights.at[own.down],
            has_biases(layer) ? weights.at[own.down_bias] : NULL, rows, inner, width);
    return work->rows;
}

static struct experts_work forward_work_of(const struct layer *layer, const struct layer_pass *pass)
{
    return forward_work(layer, &(struct walk){ pass->base.workspace, 0 });
}

static void experts_choose(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer_norm norm = experts_norm(layer, pass);
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_work work = forward_work_of(layer, pass);
    kernel_layer_norm(pass->base.queue, &norm, work.rows, saved.kept.mean, saved.kept.rstd);
    router_forward(layer, pass, &saved.kept.routing, weights.at[ROUTER], work.rows, work.blocks, work.loss);
}

static struct shard_part gathered_counts(const struct layer *layer, const struct layer_pass *pass)
{
    if (!has_places(layer))
        return (struct shard_part){ 0 };
    return (struct shard_part){ .numbers = forward_work_of(layer, pass).blocks, .are_floats = true,
                                .count = blocks_bytes(layer) / sizeof(float), .exchange = SHARD_ALL_GATHER };
}

static void experts_sort(const struct layer *layer, const struct layer_pass *pass)
{
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_work work = forward_work_of(layer, pass);
    const struct routing_members members = members_of(layer, &saved, work.blocks);
    router_join(layer, pass, &saved.kept.routing, &members, work.loss);
    kernel_permute(pass->base.queue, &saved.kept.routing, work.slots, work.rows, layer->shape.out, false);
}

static struct shard_part rows_to_experts(const struct layer *layer, const struct layer_pass *pass)
{
    return rows_to_exchange(layer, pass, forward_work_of(layer, pass).slots, saved_of(layer, pass).received, false);
}

static void experts_multiply(const struct layer *layer, const struct layer_pass *pass)
{
    const size_t width = layer->shape.out, inner = layer->shape.experts.inner;
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_work work = forward_work_of(layer, pass);
    const struct activation activation = activation_of(layer, &saved.kept);
    struct matmul up = { .n = up_width(layer, inner), .k = width, .a = has_places(layer) ? saved.received : work.slots,
                         .c = saved.wide };
    if (has_biases(layer))
        up.c = work.bent, up.before_gelu = saved.wide;
    multiply_groups(layer, pass, &saved.kept, PRODUCT_UP, up);
    if (!has_biases(layer))
        kernel_activate(pass->base.queue, &activation, work.bent, saved.wide);
    multiply_groups(layer, pass, &saved.kept, PRODUCT_DOWN, (struct matmul){
        .n = width, .k = inner, .a = work.bent, .c = has_places(layer) ? work.given : saved.given,
    });
}

static struct shard_part rows_from_experts(const struct layer *layer, const struct layer_pass *pass)
{
    return rows_to_exchange(layer, pass, forward_work_of(layer, pass).given, saved_of(layer, pass).given, true);
}

static void experts_add_up(const struct layer *layer, const struct layer_pass *pass)
{
    const size_t width = layer->shape.out;
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_work work = forward_work_of(layer, pass);
    const struct values *shared = shared_forward(layer, pass, &saved, &work);
    kernel_combine(pass->base.queue, &saved.kept.routing, work.rows, saved.given, shared, width, true);
    kernel_add_branch(pass->base.queue, pass->base.output, pass->base.input, work.rows, NULL, layer_rows(layer), width,
                      dropout_of(layer, pass));
}

// Through the second product of the shared expert, and its activation.
static void shared_backward(const struct layer *layer, const struct layer_pass *pass, const struct experts_held *held,
                            const struct values *gradient)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer->shape.experts.shared;
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct activation activation = activation_of(layer, NULL);
    if (inner == 0)
        return;
    project_back(pass->base.queue, held->shared_bent, gradient, weights.at[shared_tensors(layer).down], rows, inner,
                 width);
    kernel_activate_backward(pass->base.queue, &activation, held->shared_gradient, held->shared_bent,
                             held->shared_bent, saved_of(layer, pass).shared);
}

// And through the first one. `place` is for all rows.
static void shared_backward_end(const struct layer *layer, const struct layer_pass *pass,
                                const struct experts_held *held, struct values *place)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer->shape.experts.shared;
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    if (inner == 0)
        return;
    project_back(pass->base.queue, place, held->shared_gradient, weights.at[shared_tensors(layer).up], rows, width,
                 up_width(layer, inner));
    kernel_add(pass->base.queue, held->normed_gradient, held->normed_gradient, place, rows * width);
}

static struct experts_work backward_work_of(const struct layer *layer, const struct layer_pass *pass)
{
    return backward_work(layer, &(struct walk){ pass->base.workspace, 0 });
}

static void experts_sort_back(const struct layer *layer, const struct layer_pass *pass)
{
    const size_t width = layer->shape.out;
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_work work = backward_work_of(layer, pass);
    const struct values *gradient = gradient_behind_dropout(layer, pass, work.rows);
    kernel_gate_gradients(pass->base.queue, &saved.kept.routing, work.gates, gradient, saved.given, width);
    kernel_permute(pass->base.queue, &saved.kept.routing, work.slots, gradient, width, true);
}

static struct shard_part gradients_to_experts(const struct layer *layer, const struct layer_pass *pass)
{
    return rows_to_exchange(layer, pass, backward_work_of(layer, pass).slots, held_of(layer, pass).received_gradient,
                            false);
}

static void experts_multiply_back(const struct layer *layer, const struct layer_pass *pass)
{
    const size_t width = layer->shape.out, inner = layer->shape.experts.inner;
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_held held = held_of(layer, pass);
    const struct experts_work work = backward_work_of(layer, pass);
    const struct activation activation = activation_of(layer, &saved.kept);
    multiply_groups(layer, pass, &saved.kept, PRODUCT_DOWN, (struct matmul){
        .transpose_b = true, .n = inner, .k = width, .a = has_places(layer) ? held.received_gradient : work.slots,
        .c = held.bent,
    });
    kernel_activate_backward(pass->base.queue, &activation, held.wide_gradient, held.bent, held.bent, saved.wide);
    multiply_groups(layer, pass, &saved.kept, PRODUCT_UP, (struct matmul){
        .transpose_b = true, .n = width, .k = up_width(layer, inner), .a = held.wide_gradient,
        .c = has_places(layer) ? work.given : work.slots,
    });
}

static struct shard_part gradients_from_experts(const struct layer *layer, const struct layer_pass *pass)
{
    const struct experts_work work = backward_work_of(layer, pass);
    return rows_to_exchange(layer, pass, work.given, work.slots, true);
}

static void experts_add_up_back(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const struct layer_norm norm = experts_norm(layer, pass);
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_held held = held_of(layer, pass);
    const struct experts_work work = backward_work_of(layer, pass);
    const struct routing *routing = &saved.kept.routing;
    const bool has_dropout = dropout_of(layer, pass).probability > 0;
    shared_backward(layer, pass, &held, has_dropout ? work.rows : pass->base.output_gradient);
    router_backward_input(layer, pass, routing, weights.at[ROUTER], work.gates, held.logits_gradient,
                          held.normed_gradient);
    shared_backward_end(layer, pass, &held, work.rows);
    kernel_combine(queue, routing, held.normed_gradient, work.slots, held.normed_gradient, layer->shape.out, false);
    kernel_layer_norm_backward_input(queue, &norm, pass->base.input_gradient, held.normed_gradient,
                                     pass->base.output_gradient, saved.kept.mean, saved.kept.rstd);
    if (pass->is_both)
        return;
    queue_copy(queue, held.kept.mean, saved.kept.mean, kept_bytes(layer));
    if (has_places(layer))
        queue_copy(queue, held.received, saved.received, copied_bytes(layer) - kept_bytes(layer));
}

// The gradient of each expert's matrix, and of its bias.
static void add_groups(const struct layer *layer, const struct layer_pass *pass, const struct kept *kept,
                       enum product product, const struct values *in, const struct values *out_gradient,
                       size_t in_width, size_t out_width)
{
    const struct gradients to = layer_gradients(layer, pass->base.gradients);
    struct expert_group groups[EXPERT_GROUPS];
    const size_t count = expert_groups(layer, groups);
    for (size_t g = 0; g < count; g++) {
        const struct mlp_tensors *tensors = &groups[g].tensors;
        kernel_grouped_matmul(pass->base.queue, &(struct matmul){
            .m = in_width, .n = out_width, .k = router_taken(layer), .transpose_a = true, .a = in, .b = out_gradient,
            .sums = to.at[matrix_of(tensors, product)],
        }, kept->taken, groups[g].first, groups[g].count);
        if (has_biases(layer))
            kernel_grouped_sum_columns(pass->base.queue, to.at[bias_of(tensors, product)], out_gradient, kept->taken,
                                       groups[g].first, groups[g].count, out_width);
    }
}

// Rows as the experts have received them. Without places they are sorted once more.
static const struct values *sorted_again(const struct layer *layer, const struct layer_pass *pass,
                                         const struct values *received, const struct values *rows, bool is_gated)
{
    const struct experts_work work = backward_work_of(layer, pass);
    const struct experts_held held = held_of(layer, pass);
    if (has_places(layer))
        return received;
    kernel_permute(pass->base.queue, &held.kept.routing, work.slots, rows, layer->shape.out, is_gated);
    return work.slots;
}

static void add_shared(const struct layer *layer, const struct layer_pass *pass, float *sums, float *bias,
                       const struct values *in, const struct values *out_gradient, size_t in_width, size_t out_width)
{
    project_weight(pass->base.queue, sums, in, out_gradient, layer_rows(layer), in_width, out_width);
    if (has_biases(layer))
        kernel_sum_columns(pass->base.queue, bias, out_gradient, layer_rows(layer), out_width);
}

static void experts_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const struct expert_shape *shape = &layer->shape.experts;
    const size_t rows = layer_rows(layer), width = layer->shape.out;
    const struct gradients to = layer_gradients(layer, pass->base.gradients);
    const struct layer_norm norm = experts_norm(layer, pass);
    const struct experts_held held = held_of(layer, pass);
    const struct experts_work work = backward_work_of(layer, pass);
    const struct mlp_tensors shared = shared_tensors(layer);
    const struct values *gradient = gradient_behind_dropout(layer, pass, work.rows);

    add_groups(layer, pass, &held.kept, PRODUCT_DOWN, held.bent,
               sorted_again(layer, pass, held.received_gradient, gradient, true), shape->inner, width);
    if (shape->shared > 0)
        add_shared(layer, pass, to.at[shared.down], to.at[shared.down_bias], held.shared_bent, gradient, shape->shared,
                   width);
    // The normed input overwrites the gradient after dropout, which is no longer needed.
    kernel_layer_norm_again(queue, &norm, work.rows, held.kept.mean, held.kept.rstd);
    add_groups(layer, pass, &held.kept, PRODUCT_UP, sorted_again(layer, pass, held.received, work.rows, false),
               held.wide_gradient, width, up_width(layer, shape->inner));
    if (shape->shared > 0)
        add_shared(layer, pass, to.at[shared.up], to.at[shared.up_bias], work.rows, held.shared_gradient, width,
                   up_width(layer, shape->shared));
    project_weight(queue, to.at[ROUTER], work.rows, held.logits_gradient, rows, width, shape->router.experts);
    kernel_layer_norm_backward_weight(queue, &norm, to.at[GAIN], to.at[OFFSET], held.normed_gradient, held.kept.mean,
                                      held.kept.rstd);
}

struct layer_choices layer_choices(const struct layer *layer, const void *saved)
{
    if (layer->kind != &layer_experts)
        return (struct layer_choices){ 0 };
    const struct experts_saved all = experts_saved(layer, NULL, &(struct walk){ saved, 0 });
    return (struct layer_choices){ all.kept.routing.choices, layer_rows(layer) * layer->shape.experts.router.top };
}

const struct layer_kind layer_experts = {
    .name = "experts",
    .takes_whole_sequences = true,
    .tensors = experts_tensors,
    .sizes = experts_sizes,
    .forward = { { experts_choose, gathered_counts },
                 { experts_sort, rows_to_experts },
                 { experts_multiply, rows_from_experts },
                 { experts_add_up, NULL } },
    .backward_input = { { experts_sort_back, gradients_to_experts },
                        { experts_multiply_back, gradients_from_experts },
                        { experts_add_up_back, NULL } },
    .backward_weight = { { experts_backward_weight, NULL } },
    .initialize_state = router_initialize_state,
    .fold = router_fold,
    .states = router_states,
};
