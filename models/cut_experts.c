// A layer of experts that is cut where its members exchange rows: three layers, which together compute what the one of
// experts.c does, to the bit.
//
//     router     normed = norm(input), choices, what the shared expert gives, rows packed by expert
//     products   the experts' products
//     combine    output = input + dropout(shared + the sum over the token's choices of gate * row)
//
// Each reads the one before it and nothing else. So what a later one needs is carried along, by outputs and by their
// gradients alike:
//
//     | input | shared | rows ............ | routing | counts |
//                        are exchanged                of all members
//
// Between two stages of one rank the runtime exchanges the rows as a message (is_message in layer.h), as many as the
// counts say. Products and combine then find what their member has received. On one stage they take the exchange
// themselves: at the begin of F, and at the end of I.
#include "models/expert_parts.h"

static bool is_message(const struct layer *layer)
{
    return layer->shape.experts.is_message;
}

// Whether the layer itself exchanges rows.
static bool exchanges(const struct layer *layer)
{
    return layer_has_places(layer) && !is_message(layer);
}

// --- what is carried -----------------------------------------------------------------

struct carried {
    struct values *input, *shared, *rows;
    struct routing routing;  // as far as it is kept for W. Gradients have those of the gates
    int32_t *taken, *counts;
    uint64_t rows_at, routing_at, counts_at, bytes;
};

static size_t room_of(const struct layer *layer)
{
    return max_u64(router_slots(layer), router_taken(layer));
}

static struct carried carried_in(const struct layer *layer, const struct layer_pass *pass, const void *memory)
{
    const struct expert_shape *shape = &layer->shape.experts;
    const size_t rows = layer_rows(layer), width = layer->shape.out;
    struct walk walk = { memory, 0 };
    struct carried carried = { .input = walk_values(&walk, layer, rows * width) };
    carried.shared = shape->shared > 0 ? walk_values(&walk, layer, rows * width) : NULL;
    carried.rows_at = walk.bytes;
    carried.rows = walk_values(&walk, layer, room_of(layer) * width);
    carried.routing_at = walk.bytes;
    carried.routing = router_kept(layer, pass, &walk);
    carried.taken = carried.routing.ends;
    if (layer_has_places(layer))
        carried.taken = walk_bytes(&walk, shape->most * sizeof(int32_t));
    carried.counts_at = walk.bytes;
    if (layer_has_places(layer))
        carried.counts = walk_bytes(&walk, layer->shape.members * shape->router.experts * sizeof(int32_t));
    carried.bytes = walk.bytes;
    return carried;
}

static uint64_t carried_bytes(const struct layer *layer)
{
    return carried_in(layer, NULL, NULL).bytes;
}

struct carried_rows layer_carried_rows(const struct layer *layer)
{
    const struct carried carried = carried_in(layer, NULL, NULL);
    return (struct carried_rows){ carried.rows_at, carried.routing_at - carried.rows_at, carried.counts_at,
                                  layer->shape.out * precision_bytes(layer->shape.precision), router_taken(layer) };
}

// All that is carried but the rows.
static void carry(const struct layer *layer, const struct layer_pass *pass, void *to, const void *from)
{
    const struct carried carried = carried_in(layer, NULL, NULL);
    queue_copy(pass->base.queue, to, from, carried.rows_at);
    queue_copy(pass->base.queue, (char *)to + carried.routing_at, (const char *)from + carried.routing_at,
               carried.bytes - carried.routing_at);
}

static struct shard_part rows_between(const struct layer *layer, const struct layer_pass *pass, struct values *from,
                                      struct values *to, bool is_back)
{
    const struct carried in = carried_in(layer, pass, pass->base.input);
    if (!exchanges(layer))
        return (struct shard_part){ 0 };
    return experts_rows(layer, pass, &(struct expert_rows){ in.counts, in.taken, from, to, is_back });
}

// --- router ----------------------------------------------------------------------------

static void router_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    experts_add_router(layer, tensors, count);
    experts_add_shared(layer, tensors, count);
    for (size_t i = 0; i < *count; i++)
        tensors[i].number = i;
}

struct router_saved {
    float *mean, *rstd;
    struct routing routing;
    struct values *shared;
};

static struct router_saved router_saved_in(const struct layer *layer, const struct layer_pass *pass, struct walk *walk)
{
    const struct expert_shape *shape = &layer->shape.experts;
    struct router_saved saved = { .mean = walk_floats(walk, layer_rows(layer)) };
    saved.rstd = walk_floats(walk, layer_rows(layer));
    saved.routing = router_kept(layer, pass, walk);
    router_saved(layer, &saved.routing, walk);
    if (shape->shared > 0)
        saved.shared = walk_values(walk, layer, layer_rows(layer) * experts_up_width(layer, shape->shared));
    return saved;
}

struct router_held {
    struct values *shared_bent, *shared_gradient, *logits_gradient, *normed_gradient;
    float *mean, *rstd;  // copies, which come last
};

static uint64_t means_bytes(const struct layer *layer)
{
    return 2 * round_to_256(layer_rows(layer) * sizeof(float));
}

static struct router_held router_held_in(const struct layer *layer, struct walk *walk)
{
    const struct expert_shape *shape = &layer->shape.experts;
    const size_t rows = layer_rows(layer), shared = shape->shared;
    struct router_held held = { 0 };
    held.shared_bent = shared > 0 ? walk_values(walk, layer, rows * shared) : NULL;
    held.shared_gradient = shared > 0 ? walk_values(walk, layer, rows * experts_up_width(layer, shared)) : NULL;
    held.logits_gradient = walk_values(walk, layer, rows * shape->router.experts);
    held.normed_gradient = walk_values(walk, layer, rows * layer->shape.out);
    held.mean = walk_floats(walk, rows);
    held.rstd = walk_floats(walk, rows);
    return held;
}

struct router_work {
    struct values *rows, *shared;
    float *loss;
    void *blocks;
};

static struct router_work router_work_in(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), shared = layer->shape.experts.shared;
    struct router_work work = { .rows = walk_values(walk, layer, rows * layer->shape.out) };
    work.shared = shared > 0 ? walk_values(walk, layer, rows * shared) : NULL;
    work.loss = walk_floats(walk, 1);
    if (layer_has_places(layer))
        work.blocks = walk_bytes(walk, experts_blocks_bytes(layer));
    return work;
}

static struct kind_sizes router_sizes(const struct layer *layer)
{
    struct walk saved = { 0 }, held = { 0 }, work = { 0 };
    router_saved_in(layer, NULL, &saved);
    router_held_in(layer, &held);
    router_work_in(layer, &work);
    const uint64_t rows_bytes = layer_bytes(layer, layer_rows(layer) * layer->shape.out);
    struct kind_sizes sizes = {
        .output_bytes = carried_bytes(layer), .saved_bytes = saved.bytes, .input = INPUT_FOR_BOTH,
        .held_bytes = held.bytes, .copied_bytes = means_bytes(layer), .forward_workspace_bytes = work.bytes,
        .input_workspace_bytes = rows_bytes, .weight_workspace_bytes = rows_bytes,
        .flops = experts_flops_beside(layer),
    };
    router_state_sizes(layer, &sizes);
    return sizes;
}

static struct router_saved router_saved_of(const struct layer *layer, const struct layer_pass *pass)
{
    return router_saved_in(layer, pass, &(struct walk){ pass->base.saved, 0 });
}

static struct router_held router_held_of(const struct layer *layer, const struct layer_pass *pass)
{
    struct router_held held = router_held_in(layer, &(struct walk){ pass->base.held, 0 });
    if (pass->is_both) {
        held.mean = router_saved_of(layer, pass).mean;
        held.rstd = router_saved_of(layer, pass).rstd;
    }
    return held;
}

static struct router_work router_work_of(const struct layer *layer, const struct layer_pass *pass)
{
    return router_work_in(layer, &(struct walk){ pass->base.workspace, 0 });
}

static void router_choose_own(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct router_saved saved = router_saved_of(layer, pass);
    const struct router_work work = router_work_of(layer, pass);
    norm_forward(layer, pass);
    router_forward(layer, pass, &saved.routing, weights.at[EXPERTS_ROUTER], work.rows, work.blocks, work.loss);
}

static struct shard_part router_gather(const struct layer *layer, const struct layer_pass *pass)
{
    return experts_gathered_counts(layer, router_work_of(layer, pass).blocks);
}

static void router_pack(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const struct router_saved saved = router_saved_of(layer, pass);
    const struct router_work work = router_work_of(layer, pass);
    const struct carried out = carried_in(layer, pass, pass->base.output);
    const struct routing_members members = experts_members(layer, work.blocks, out.counts, out.taken);
    const struct shared_expert shared = { .first = EXPERTS_REST, .wide = saved.shared, .bent = work.shared };
    router_join(layer, pass, &saved.routing, &members, work.loss);
    kernel_permute(queue, &saved.routing, out.rows, work.rows, layer->shape.out, false);
    queue_copy(queue, out.input, pass->base.input, layer_bytes(layer, layer_elements(layer)));
    struct walk kept = { 0 };
    router_kept(layer, NULL, &kept);
    queue_copy(queue, (char *)pass->base.output + out.routing_at, saved.routing.pairs, kept.bytes);
    experts_share(layer, pass, &shared, out.shared, work.rows);
}

static struct shared_expert shared_back(const struct layer *layer, const struct layer_pass *pass)
{
    const struct router_held held = router_held_of(layer, pass);
    return (struct shared_expert){ .first = EXPERTS_REST, .wide = router_saved_of(layer, pass).shared,
                                   .kept_bent = held.shared_bent, .gradient = held.shared_gradient };
}

static void router_back(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    struct values *place = pass->base.workspace;
    const struct layer_norm norm = layer_norm_of(layer, pass);
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct router_saved saved = router_saved_of(layer, pass);
    const struct router_held held = router_held_of(layer, pass);
    const struct carried gradient = carried_in(layer, pass, pass->base.output_gradient);
    const struct shared_expert shared = shared_back(layer, pass);
    experts_share_back(layer, pass, &shared, gradient.shared);
    router_backward_input(layer, pass, &saved.routing, weights.at[EXPERTS_ROUTER], gradient.routing.gates,
                          held.logits_gradient, held.normed_gradient);
    experts_share_back_end(layer, pass, &shared, held.normed_gradient, place);
    kernel_combine(queue, &saved.routing, held.normed_gradient, gradient.rows, held.normed_gradient, layer->shape.out,
                   false);
    kernel_layer_norm_backward_input(queue, &norm, pass->base.input_gradient, held.normed_gradient, gradient.input,
                                     saved.mean, saved.rstd);
    if (!pass->is_both)
        queue_copy(queue, held.mean, saved.mean, means_bytes(layer));
}

static void router_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    struct values *normed = pass->base.workspace;
    const struct gradients to = layer_gradients(layer, pass->base.gradients);
    const struct router_held held = router_held_of(layer, pass);
    const struct carried gradient = carried_in(layer, pass, pass->base.output_gradient);
    const struct shared_expert shared = shared_back(layer, pass);
    experts_share_gradients(layer, pass, shared.first, EXPERTS_DOWN, shared.kept_bent, gradient.shared);
    norm_again(layer, pass, held.mean, held.rstd);
    experts_share_gradients(layer, pass, shared.first, EXPERTS_UP, normed, shared.gradient);
    project_weight(queue, to.at[EXPERTS_ROUTER], normed, held.logits_gradient, layer_rows(layer), layer->shape.out,
                   layer->shape.experts.router.experts);
    norm_backward_weight(layer, pass, held.normed_gradient, held.mean, held.rstd);
}

static struct layer_choices router_choices(const struct layer *layer, const void *saved)
{
    const struct router_saved all = router_saved_in(layer, NULL, &(struct walk){ saved, 0 });
    return (struct layer_choices){ all.routing.choices, layer_rows(layer) * layer->shape.experts.router.top };
}

const struct layer_kind layer_router = {
    .name = "router",
    .takes_whole_sequences = true,
    .tensors = router_tensors,
    .sizes = router_sizes,
    .forward = { { router_choose_own, router_gather }, { router_pack, NULL } },
    .backward_input = { { router_back, NULL } },
    .backward_weight = { { router_backward_weight, NULL } },
    .initialize_state = router_initialize_state,
    .fold = router_fold,
    .states = router_states,
    .choices = router_choices,
};

// --- products ----------------------------------------------------------------------------

static void products_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    experts_add_own(layer, tensors, count);
    if (layer_has_places(layer))
        experts_number(layer, tensors, *count, 0, 0);
}

// Rows that the layer itself has received. Those of a message are in the input.
struct products_saved {
    struct values *received, *wide;
};

static struct products_saved products_saved_in(const struct layer *layer, struct walk *walk)
{
    const size_t taken = router_taken(layer);
    struct products_saved saved = { 0 };
    saved.received = layer_has_places(layer) ? walk_values(walk, layer, taken * layer->shape.out) : NULL;
    saved.wide = walk_values(walk, layer, taken * experts_up_width(layer, layer->shape.experts.inner));
    return saved;
}

struct products_held {
    struct values *bent, *wide_gradient;
    struct values *received;  // a copy, which comes last
};

static struct products_held products_held_in(const struct layer *layer, struct walk *walk)
{
    const size_t taken = router_taken(layer), inner = layer->shape.experts.inner;
    struct products_held held = { .bent = walk_values(walk, layer, taken * inner) };
    held.wide_gradient = walk_values(walk, layer, taken * experts_up_width(layer, inner));
    held.received = layer_has_places(layer) ? walk_values(walk, layer, taken * layer->shape.out) : NULL;
    return held;
}

static uint64_t received_bytes(const struct layer *layer)
{
    return layer_has_places(layer) ? layer_bytes(layer, router_taken(layer) * layer->shape.out) : 0;
}

static struct kind_sizes products_sizes(const struct layer *layer)
{
    struct walk saved = { 0 }, held = { 0 };
    products_saved_in(layer, &saved);
    products_held_in(layer, &held);
    return (struct kind_sizes){
        .output_bytes = carried_bytes(layer), .saved_bytes = saved.bytes, .input = INPUT_FOR_BOTH,
        .held_bytes = held.bytes, .copied_bytes = received_bytes(layer),
        .forward_workspace_bytes = layer_bytes(layer, router_taken(layer) * layer->shape.experts.inner),
        .input_workspace_bytes = received_bytes(layer), .flops = experts_flops(layer),
    };
}

static struct products_saved products_saved_of(const struct layer *layer, const struct layer_pass *pass)
{
    return products_saved_in(layer, &(struct walk){ pass->base.saved, 0 });
}

// Rows as the experts have received them in F.
static struct values *received_rows(const struct layer *layer, const struct layer_pass *pass, struct values *own)
{
    return exchanges(layer) ? own : carried_in(layer, pass, pass->base.input).rows;
}

static struct products_held products_held_of(const struct layer *layer, const struct layer_pass *pass)
{
    struct products_held held = products_held_in(layer, &(struct walk){ pass->base.held, 0 });
    held.received = received_rows(layer, pass, pass->is_both ? products_saved_of(layer, pass).received
                                                              : held.received);
    return held;
}

static struct shard_part products_take(const struct layer *layer, const struct layer_pass *pass)
{
    return rows_between(layer, pass, carried_in(layer, pass, pass->base.input).rows,
                        products_saved_of(layer, pass).received, false);
}

static void products_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct products_saved saved = products_saved_of(layer, pass);
    carry(layer, pass, pass->base.output, pass->base.input);
    experts_multiply(layer, pass, &(struct expert_products){
        .taken = carried_in(layer, pass, pass->base.input).taken,
        .received = received_rows(layer, pass, saved.received), .wide = saved.wide, .bent = pass->base.workspace,
        .given = carried_in(layer, pass, pass->base.output).rows,
    });
}

// The place of the rows' gradient before it goes back.
static struct values *rows_gradient(const struct layer *layer, const struct layer_pass *pass)
{
    return exchanges(layer) ? pass->base.workspace : carried_in(layer, pass, pass->base.input_gradient).rows;
}

static void products_back(const struct layer *layer, const struct layer_pass *pass)
{
    const struct products_held held = products_held_of(layer, pass);
    carry(layer, pass, pass->base.input_gradient, pass->base.output_gradient);
    experts_multiply_back(layer, pass, &(struct expert_products_back){
        .taken = carried_in(layer, pass, pass->base.input).taken,
        .received_gradient = carried_in(layer, pass, pass->base.output_gradient).rows,
        .wide = products_saved_of(layer, pass).wide, .bent = held.bent, .wide_gradient = held.wide_gradient,
        .given = rows_gradient(layer, pass),
    });
    if (exchanges(layer) && !pass->is_both)
        queue_copy(pass->base.queue, held.received, products_saved_of(layer, pass).received, received_bytes(layer));
}

static struct shard_part products_give_back(const struct layer *layer, const struct layer_pass *pass)
{
    return rows_between(layer, pass, rows_gradient(layer, pass),
                        carried_in(layer, pass, pass->base.input_gradient).rows, true);
}

static void products_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const struct products_held held = products_held_of(layer, pass);
    const int32_t *taken = carried_in(layer, pass, pass->base.input).taken;
    const struct values *gradient = carried_in(layer, pass, pass->base.output_gradient).rows;
    experts_add_gradients(layer, pass, 0, taken, EXPERTS_DOWN, held.bent, gradient);
    experts_add_gradients(layer, pass, 0, taken, EXPERTS_UP, held.received, held.wide_gradient);
}

const struct layer_kind layer_products = {
    .name = "products",
    .takes_whole_sequences = true,
    .tensors = products_tensors,
    .sizes = products_sizes,
    .forward = { { do_nothing, products_take }, { products_forward, NULL } },
    .backward_input = { { products_back, products_give_back } },
    .backward_weight = { { products_backward_weight, NULL } },
};

// --- combine -------------------------------------------------------------------------------

// What the experts have given, if the layer itself has received it.
static uint64_t given_bytes(const struct layer *layer)
{
    return layer_has_places(layer) ? layer_bytes(layer, router_slots(layer) * layer->shape.out) : 0;
}

struct combine_back_work {
    struct values *rows, *slots;
};

static struct combine_back_work combine_back_work_in(const struct layer *layer, struct walk *walk)
{
    struct combine_back_work work = { .rows = walk_values(walk, layer, layer_elements(layer)) };
    work.slots = layer_has_places(layer) ? walk_values(walk, layer, router_slots(layer) * layer->shape.out) : NULL;
    return work;
}

static struct kind_sizes combine_sizes(const struct layer *layer)
{
    struct walk back = { 0 };
    combine_back_work_in(layer, &back);
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, layer_elements(layer)), .saved_bytes = given_bytes(layer),
        .input = INPUT_FOR_BOTH, .forward_workspace_bytes = layer_bytes(layer, layer_elements(layer)),
        .input_workspace_bytes = back.bytes,
    };
}

static struct values *given_rows(const struct layer *layer, const struct layer_pass *pass)
{
    return exchanges(layer) ? (struct values *)pass->base.saved : carried_in(layer, pass, pass->base.input).rows;
}

static struct shard_part combine_take(const struct layer *layer, const struct layer_pass *pass)
{
    return rows_between(layer, pass, carried_in(layer, pass, pass->base.input).rows, given_rows(layer, pass), true);
}

static void combine_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const size_t width = layer->shape.out;
    const struct carried in = carried_in(layer, pass, pass->base.input);
    struct values *sums = pass->base.workspace;
    kernel_combine(pass->base.queue, &in.routing, sums, given_rows(layer, pass), in.shared, width, true);
    kernel_add_branch(pass->base.queue, pass->base.output, in.input, sums, NULL, layer_rows(layer), width,
                      dropout_of(layer, pass));
}

static struct values *gradients_to_give(const struct layer *layer, const struct layer_pass *pass)
{
    return exchanges(layer) ? combine_back_work_in(layer, &(struct walk){ pass->base.workspace, 0 }).slots
                            : carried_in(layer, pass, pass->base.input_gradient).rows;
}

static void combine_back(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const uint64_t bytes = layer_bytes(layer, layer_elements(layer));
    const struct carried in = carried_in(layer, pass, pass->base.input);
    const struct carried to = carried_in(layer, pass, pass->base.input_gradient);
    const struct values *gradient = gradient_behind_dropout(layer, pass, pass->base.workspace);
    queue_copy(queue, to.input, pass->base.output_gradient, bytes);
    if (to.shared)
        queue_copy(queue, to.shared, gradient, bytes);
    queue_copy(queue, (char *)pass->base.input_gradient + to.routing_at, (const char *)pass->base.input + to.routing_at,
               to.bytes - to.routing_at);
    kernel_gate_gradients(queue, &in.routing, to.routing.gates, gradient, given_rows(layer, pass), layer->shape.out);
    kernel_permute(queue, &in.routing, gradients_to_give(layer, pass), gradient, layer->shape.out, true);
}

static struct shard_part combine_give_back(const struct layer *layer, const struct layer_pass *pass)
{
    return rows_between(layer, pass, gradients_to_give(layer, pass),
                        carried_in(layer, pass, pass->base.input_gradient).rows, false);
}

const struct layer_kind layer_combine = {
    .name = "combine",
    .takes_whole_sequences = true,
    .sizes = combine_sizes,
    .forward = { { do_nothing, combine_take }, { combine_forward, NULL } },
    .backward_input = { { combine_back, combine_give_back } },
};
