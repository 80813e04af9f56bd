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
//
// Shards of a tensor-parallel group have all tokens, and an equal run of the experts each (expert slicing). Every shard
// routes all tokens, and multiplies the rows of its own experts. The others count as zeros: the group adds up each
// token's sum in F, and in I the gradients of gates and normed rows.
#include "models/expert_parts.h"

static bool is_shard(const struct layer *layer)
{
    return layer->shape.shards > 1;
}

// --- tensors -----------------------------------------------------------------------
//
// Those of the experts, and of the shared one, come behind those of the router. Members have the shared one first, then
// copied experts, and then their own, since what they alone have comes last.

static size_t shared_tensors(const struct layer *layer)
{
    return layer->shape.experts.shared > 0 ? experts_mlp_tensors(layer) : 0;
}

static size_t first_of_experts(const struct layer *layer)
{
    return EXPERTS_REST + (layer_has_places(layer) ? shared_tensors(layer) : 0);
}

static size_t first_of_shared(const struct layer *layer)
{
    return EXPERTS_REST + (layer_has_places(layer) ? 0 : experts_mlp_tensors(layer));
}

static void experts_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    experts_add_router(layer, tensors, count);
    if (layer_has_places(layer))
        experts_add_shared(layer, tensors, count);
    experts_add_own(layer, tensors, count);
    if (layer_has_places(layer))
        experts_number(layer, tensors, *count, first_of_experts(layer), EXPERTS_REST);
    else
        experts_add_shared(layer, tensors, count);
    for (size_t i = 0; is_shard(layer) && i < experts_mlp_tensors(layer); i++)
        tensors[EXPERTS_REST + i].split = SPLIT_ROWS;
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
    if (layer_has_places(layer))
        kept.taken = walk_bytes(walk, layer->shape.experts.most * sizeof(int32_t));
    return kept;
}

// The rows that a member's experts take. Without places there are none, since experts take what is sorted.
static struct values *taken_rows(const struct layer *layer, struct walk *walk)
{
    return layer_has_places(layer) ? walk_values(walk, layer, router_taken(layer) * layer->shape.out) : NULL;
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
    if (layer_has_places(layer))
        saved.counts = walk_bytes(walk, layer->shape.members * shape->router.experts * sizeof(int32_t));
    router_saved(layer, &saved.kept.routing, walk);
    saved.wide = walk_values(walk, layer, router_taken(layer) * experts_up_width(layer, shape->inner));
    saved.given = walk_values(walk, layer, router_slots(layer) * layer->shape.out);
    saved.shared = shape->shared > 0 ? walk_values(walk, layer, layer_rows(layer) * experts_up_width(layer, shape->shared))
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
    held.wide_gradient = walk_values(walk, layer, taken * experts_up_width(layer, shape->inner));
    held.shared_bent = shared > 0 ? walk_values(walk, layer, rows * shared) : NULL;
    held.shared_gradient = shared > 0 ? walk_values(walk, layer, rows * experts_up_width(layer, shared)) : NULL;
    held.logits_gradient = walk_values(walk, layer, rows * shape->router.experts);
    held.normed_gradient = walk_values(walk, layer, rows * layer->shape.out);
    held.received_gradient = taken_rows(layer, walk);
    held.kept = experts_kept(layer, pass, walk);
    held.received = taken_rows(layer, walk);
    return held;
}

// Rows of all tokens and of all slots. The forward also has what is between the products, and the loss of the router.
// I has the gradients of the gates. Members have what their experts give, and blocks of what all have counted. Shards
// have their part of a sum.
struct experts_work {
    struct values *rows, *slots, *bent, *shared, *given, *partial;
    float *loss, *gates;
    void *blocks;
};

static struct experts_work forward_work(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), slots = router_slots(layer), width = layer->shape.out;
    struct experts_work work = { .rows = walk_values(walk, layer, rows * width) };
    work.slots = walk_values(walk, layer, slots * width);
    work.bent = walk_values(walk, layer, router_taken(layer) * layer->shape.experts.inner);
    work.shared = walk_values(walk, layer, rows * layer->shape.experts.shared);
    work.loss = walk_floats(walk, 1);
    work.given = taken_rows(layer, walk);
    work.partial = is_shard(layer) ? walk_values(walk, layer, rows * width) : NULL;
    if (layer_has_places(layer))
        work.blocks = walk_bytes(walk, experts_blocks_bytes(layer));
    return work;
}

static struct experts_work backward_work(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out;
    struct experts_work work = { .rows = walk_values(walk, layer, rows * width) };
    work.slots = walk_values(walk, layer, router_slots(layer) * width);
    work.gates = walk_floats(walk, rows * layer->shape.experts.router.top);
    work.given = is_shard(layer) ? walk_values(walk, layer, router_slots(layer) * width) : taken_rows(layer, walk);
    work.partial = is_shard(layer) ? walk_values(walk, layer, rows * width) : NULL;
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
        .flops = experts_flops_beside(layer) + experts_flops(layer),
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

static struct experts_work forward_work_of(const struct layer *layer, const struct layer_pass *pass)
{
    return forward_work(layer, &(struct walk){ pass->base.workspace, 0 });
}

// Rows to the members of their experts, or back.
static struct shard_part rows_between(const struct layer *layer, const struct layer_pass *pass, struct values *from,
                                      struct values *to, bool is_back)
{
    const struct experts_saved saved = saved_of(layer, pass);
    return experts_rows(layer, pass, &(struct expert_rows){ saved.counts, saved.kept.taken, from, to, is_back });
}

static void experts_choose(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_work work = forward_work_of(layer, pass);
    norm_forward(layer, pass);
    router_forward(layer, pass, &saved.kept.routing, weights.at[EXPERTS_ROUTER], work.rows, work.blocks, work.loss);
}

static struct shard_part gathered_counts(const struct layer *layer, const struct layer_pass *pass)
{
    return experts_gathered_counts(layer, forward_work_of(layer, pass).blocks);
}

static void experts_sort(const struct layer *layer, const struct layer_pass *pass)
{
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_work work = forward_work_of(layer, pass);
    const struct routing_members members = experts_members(layer, work.blocks, saved.counts, saved.kept.taken);
    router_join(layer, pass, &saved.kept.routing, &members, work.loss);
    kernel_permute(pass->base.queue, &saved.kept.routing, work.slots, work.rows, layer->shape.out, false);
}

static struct shard_part rows_to_experts(const struct layer *layer, const struct layer_pass *pass)
{
    return rows_between(layer, pass, forward_work_of(layer, pass).slots, saved_of(layer, pass).received, false);
}

// Rows of other shards' experts are zeros.
static void clear_rows(const struct layer *layer, const struct layer_pass *pass, struct values *rows)
{
    if (is_shard(layer))
        queue_zero(pass->base.queue, rows, layer_bytes(layer, router_slots(layer) * layer->shape.out));
}

static void experts_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_work work = forward_work_of(layer, pass);
    clear_rows(layer, pass, saved.given);
    experts_multiply(layer, pass, &(struct expert_products){
        .first = first_of_experts(layer), .taken = saved.kept.taken,
        .received = layer_has_places(layer) ? saved.received : work.slots, .wide = saved.wide, .bent = work.bent,
        .given = layer_has_places(layer) ? work.given : saved.given,
    });
    if (is_shard(layer))  // a part of the sum
        kernel_combine(pass->base.queue, &saved.kept.routing, work.partial, saved.given, NULL, layer->shape.out, true);
}

static struct shard_part rows_from_experts(const struct layer *layer, const struct layer_pass *pass)
{
    if (is_shard(layer))
        return summed_rows(layer, forward_work_of(layer, pass).partial);
    return rows_between(layer, pass, forward_work_of(layer, pass).given, saved_of(layer, pass).given, true);
}

// What the shared expert gives overwrites the normed rows.
static void experts_add_up(const struct layer *layer, const struct layer_pass *pass)
{
    const size_t width = layer->shape.out;
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_work work = forward_work_of(layer, pass);
    const struct shared_expert shared = { .first = first_of_shared(layer), .wide = saved.shared, .bent = work.shared };
    const bool has_shared = layer->shape.experts.shared > 0;
    experts_share(layer, pass, &shared, work.rows, work.rows);
    if (!is_shard(layer))
        kernel_combine(pass->base.queue, &saved.kept.routing, work.rows, saved.given, has_shared ? work.rows : NULL,
                       width, true);
    else if (has_shared)
        kernel_add(pass->base.queue, work.rows, work.rows, work.partial, layer_elements(layer));
    else
        queue_copy(pass->base.queue, work.rows, work.partial, layer_bytes(layer, layer_elements(layer)));
    kernel_add_branch(pass->base.queue, pass->base.output, pass->base.input, work.rows, NULL, layer_rows(layer), width,
                      dropout_of(layer, pass));
}

static struct shared_expert shared_back(const struct layer *layer, const struct layer_pass *pass)
{
    const struct experts_held held = held_of(layer, pass);
    return (struct shared_expert){ .first = first_of_shared(layer), .wide = saved_of(layer, pass).shared,
                                   .kept_bent = held.shared_bent, .gradient = held.shared_gradient };
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
    if (is_shard(layer))
        return (struct shard_part){ .numbers = backward_work_of(layer, pass).gates, .are_floats = true,
                                    .count = layer_rows(layer) * layer->shape.experts.router.top };
    return rows_between(layer, pass, backward_work_of(layer, pass).slots, held_of(layer, pass).received_gradient,
                        false);
}

static void experts_back(const struct layer *layer, const struct layer_pass *pass)
{
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_held held = held_of(layer, pass);
    const struct experts_work work = backward_work_of(layer, pass);
    clear_rows(layer, pass, work.given);
    experts_multiply_back(layer, pass, &(struct expert_products_back){
        .first = first_of_experts(layer), .taken = saved.kept.taken,
        .received_gradient = layer_has_places(layer) ? held.received_gradient : work.slots, .wide = saved.wide,
        .bent = held.bent, .wide_gradient = held.wide_gradient, .given = work.given ? work.given : work.slots,
    });
    if (is_shard(layer))  // a part of the sum
        kernel_combine(pass->base.queue, &saved.kept.routing, work.partial, work.given, NULL, layer->shape.out, false);
}

static struct shard_part gradients_from_experts(const struct layer *layer, const struct layer_pass *pass)
{
    const struct experts_work work = backward_work_of(layer, pass);
    if (is_shard(layer))
        return summed_rows(layer, work.partial);
    return rows_between(layer, pass, work.given, work.slots, true);
}

static void experts_add_up_back(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const struct layer_norm norm = layer_norm_of(layer, pass);
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct experts_saved saved = saved_of(layer, pass);
    const struct experts_held held = held_of(layer, pass);
    const struct experts_work work = backward_work_of(layer, pass);
    const struct routing *routing = &saved.kept.routing;
    const struct shared_expert shared = shared_back(layer, pass);
    const bool has_dropout = dropout_of(layer, pass).probability > 0;
    experts_share_back(layer, pass, &shared, has_dropout ? work.rows : pass->base.output_gradient);
    router_backward_input(layer, pass, routing, weights.at[EXPERTS_ROUTER], work.gates, held.logits_gradient,
                          held.normed_gradient);
    experts_share_back_end(layer, pass, &shared, held.normed_gradient, work.rows);
    if (is_shard(layer))
        kernel_add(queue, held.normed_gradient, held.normed_gradient, work.partial, layer_elements(layer));
    else
        kernel_combine(queue, routing, held.normed_gradient, work.slots, held.normed_gradient, layer->shape.out, false);
    kernel_layer_norm_backward_input(queue, &norm, pass->base.input_gradient, held.normed_gradient,
                                     pass->base.output_gradient, saved.kept.mean, saved.kept.rstd);
    if (pass->is_both)
        return;
    queue_copy(queue, held.kept.mean, saved.kept.mean, kept_bytes(layer));
    if (layer_has_places(layer))
        queue_copy(queue, held.received, saved.received, copied_bytes(layer) - kept_bytes(layer));
}

// Rows as the experts have received them. Without places they are sorted once more.
static const struct values *sorted_again(const struct layer *layer, const struct layer_pass *pass,
                                         const struct values *received, const struct values *rows, bool is_gated)
{
    const struct experts_work work = backward_work_of(layer, pass);
    const struct experts_held held = held_of(layer, pass);
    if (layer_has_places(layer))
        return received;
    kernel_permute(pass->base.queue, &held.kept.routing, work.slots, rows, layer->shape.out, is_gated);
    return work.slots;
}

static void experts_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const size_t first = first_of_experts(layer);
    const struct gradients to = layer_gradients(layer, pass->base.gradients);
    const struct experts_held held = held_of(layer, pass);
    const struct experts_work work = backward_work_of(layer, pass);
    const struct shared_expert shared = shared_back(layer, pass);
    const struct values *gradient = gradient_behind_dropout(layer, pass, work.rows);

    experts_add_gradients(layer, pass, first, held.kept.taken, EXPERTS_DOWN, held.bent,
                          sorted_again(layer, pass, held.received_gradient, gradient, true));
    experts_share_gradients(layer, pass, shared.first, EXPERTS_DOWN, shared.kept_bent, gradient);
    // The normed input overwrites the gradient after dropout, which is no longer needed.
    norm_again(layer, pass, held.kept.mean, held.kept.rstd);
    experts_add_gradients(layer, pass, first, held.kept.taken, EXPERTS_UP,
                          sorted_again(layer, pass, held.received, work.rows, false), held.wide_gradient);
    experts_share_gradients(layer, pass, shared.first, EXPERTS_UP, work.rows, shared.gradient);
    project_weight(queue, to.at[EXPERTS_ROUTER], work.rows, held.logits_gradient, layer_rows(layer), layer->shape.out,
                   layer->shape.experts.router.experts);
    norm_backward_weight(layer, pass, held.normed_gradient, held.kept.mean, held.kept.rstd);
}

static struct layer_choices experts_choices(const struct layer *layer, const void *saved)
{
    const struct experts_saved all = experts_saved(layer, NULL, &(struct walk){ saved, 0 });
    return (struct layer_choices){ all.kept.routing.choices, layer_rows(layer) * layer->shape.experts.router.top };
}

static size_t experts_shared_count(const struct layer *layer)
{
    return layer->shape.experts.router.experts;
}

const struct layer_kind layer_experts = {
    .name = "experts",
    .shared = "experts",
    .shared_count = experts_shared_count,
    .takes_whole_sequences = true,
    .tensors = experts_tensors,
    .sizes = experts_sizes,
    .forward = { { experts_choose, gathered_counts },
                 { experts_sort, rows_to_experts },
                 { experts_forward, rows_from_experts },
                 { experts_add_up, NULL } },
    .backward_input = { { experts_sort_back, gradients_to_experts },
                        { experts_back, gradients_from_experts },
                        { experts_add_up_back, NULL } },
    .backward_weight = { { experts_backward_weight, NULL } },
    .initialize_state = router_initialize_state,
    .fold = router_fold,
    .states = router_states,
    .choices = experts_choices,
};
