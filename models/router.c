#include "models/router.h"

#include "common/expert_rules.h"

static const struct router *router_of(const struct layer *layer)
{
    return &layer->shape.experts.router;
}

static bool has_bias(const struct layer *layer)
{
    return router_of(layer)->kind == ROUTER_DEEPSEEK;
}

size_t router_capacity(const struct layer *layer, size_t tokens)
{
    const struct router *router = router_of(layer);
    return expert_capacity(tokens * router->top, router->experts, layer->shape.experts.capacity);
}

// Rows of a micro-batch, of all members.
static size_t whole_rows(const struct layer *layer)
{
    return (layer_has_places(layer) ? layer->shape.whole_batch : layer->shape.batch) * layer->shape.sequence;
}

size_t router_slots(const struct layer *layer)
{
    const struct router *router = router_of(layer);
    return routing_most(layer_rows(layer), router->experts, router->top, router_capacity(layer, whole_rows(layer)));
}

size_t router_most_rows(const struct layer *layer)
{
    const struct router *router = router_of(layer);
    const size_t rows = whole_rows(layer), own_rows = layer_rows(layer), top = router->top;
    const size_t capacity = router_capacity(layer, rows), most = layer->shape.experts.most;
    const size_t copies = layer->shape.experts.copies, others = most - copies;
    const size_t of_others = routing_most(rows, others, min_u64(others, top), capacity);
    const size_t of_copies = routing_most(own_rows, copies, min_u64(copies, top), capacity);
    // A token of this member takes `top` of both together.
    return min_u64(of_others + of_copies, own_rows * min_u64(most, top) + (rows - own_rows) * min_u64(others, top));
}

size_t router_taken(const struct layer *layer)
{
    const size_t most = layer->shape.experts.most_rows;
    if (!layer_has_places(layer))
        return router_slots(layer);
    return most > 0 ? most : router_most_rows(layer);
}

// Samples that count, of all members and of this one. Rows of others are not routed.
struct counted_samples {
    size_t all, own;
};

static struct counted_samples samples_of(const struct layer *layer, const struct layer_pass *pass)
{
    const struct sample_share share = layer_samples(layer);
    const size_t batch = layer_has_places(layer) ? layer->shape.whole_batch : layer->shape.batch;
    const uint64_t given = !pass ? 0 : layer_has_places(layer) ? pass->whole_samples : pass->base.samples;
    const size_t all = given > 0 && given < batch ? (size_t)given : batch;
    const size_t behind = all > share.first ? all - share.first : 0;
    return (struct counted_samples){ all, behind < share.count ? behind : share.count };
}

struct routing router_kept(const struct layer *layer, const struct layer_pass *pass, struct walk *walk)
{
    const struct router *router = router_of(layer);
    const size_t rows = layer_rows(layer), pairs = rows * router->top, sequence = layer->shape.sequence;
    const struct counted_samples samples = samples_of(layer, pass);
    struct routing routing = {
        .router = *router, .rows = rows, .counted = samples.own * sequence,
        .elsewhere = (samples.all - samples.own) * sequence, .capacity = router_capacity(layer, samples.all * sequence),
        .most = router_slots(layer), .auxiliary = layer->shape.experts.auxiliary, .z = layer->shape.experts.z,
    };
    routing.pairs = walk_bytes(walk, routing.most * sizeof(int32_t));
    routing.slots = walk_bytes(walk, pairs * sizeof(int32_t));
    routing.ends = walk_bytes(walk, router->experts * sizeof(int32_t));
    routing.gates = walk_floats(walk, pairs);
    return routing;
}

void router_saved(const struct layer *layer, struct routing *routing, struct walk *walk)
{
    const size_t rows = routing->rows;
    routing->logits = walk_floats(walk, rows * routing->router.experts);
    routing->choices = walk_bytes(walk, rows * routing->router.top * sizeof(int32_t));
    routing->shares = walk_floats(walk, routing->router.experts);
    routing->log_sums = walk_floats(walk, rows);
    routing->scores = has_bias(layer) ? walk_floats(walk, rows) : NULL;
}

void router_tensor(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    tensor_add(tensors, count, (struct tensor){ .name = "router.weight", .rows = layer->shape.in,
                                                .columns = router_of(layer)->experts,
                                                .start = START_NORMAL, .deviation = 0.02f, .decays = true });
}

// --- passes ----------------------------------------------------------------------

static void hand_loss_on(const struct layer_pass *pass, const float *loss)
{
    if (pass->base.auxiliary_loss)
        queue_download(pass->base.queue, pass->base.auxiliary_loss, loss, sizeof *loss);
}

void router_forward(const struct layer *layer, const struct layer_pass *pass, const struct routing *routing,
                    const struct values *weight, const struct values *normed, void *blocks, float *loss)
{
    struct queue *queue = pass->base.queue;
    const size_t rows = routing->rows, experts = routing->router.experts;
    float *logits = (float *)(uintptr_t)routing->logits;
    struct routing own = *routing;
    own.bias = has_bias(layer) ? pass->base.state : NULL;
    queue_zero(queue, logits, rows * experts * sizeof *logits);
    kernel_matmul(queue, &(struct matmul){
        .m = rows, .n = experts, .k = layer->shape.in, .a = normed, .b = weight, .sums = logits,
    });
    if (layer_has_places(layer)) {
        kernel_route_own(queue, &own, (char *)blocks + layer->shape.member * routing_block_bytes(experts));
        return;
    }
    kernel_route(queue, &own, pass->base.statistics, loss);
    hand_loss_on(pass, loss);
}

void router_join(const struct layer *layer, const struct layer_pass *pass, const struct routing *routing,
                 const struct routing_members *members, float *loss)
{
    if (!layer_has_places(layer))
        return;
    kernel_route_all(pass->base.queue, routing, members, pass->base.statistics, loss);
    hand_loss_on(pass, loss);
}

void router_backward_input(const struct layer *layer, const struct layer_pass *pass, const struct routing *routing,
                           const struct values *weight, const float *gates_gradient, struct values *logits_gradient,
                           struct values *normed_gradient)
{
    struct queue *queue = pass->base.queue;
    kernel_route_backward(queue, routing, logits_gradient, gates_gradient, pass->base.share * layer_loss_scale(pass));
    project_back(queue, normed_gradient, logits_gradient, weight, routing->rows, layer->shape.in,
                 routing->router.experts);
}

// --- state ---------------------------------------------------------------------------

struct router_state {
    float *bias;  // of deepseek
    float *sums;
};

static struct router_state router_state(const struct layer *layer, struct walk *walk)
{
    const size_t experts = router_of(layer)->experts;
    struct router_state state = { 0 };
    state.bias = has_bias(layer) ? walk_floats(walk, experts) : NULL;
    state.sums = walk_floats(walk, routing_statistics(experts));
    return state;
}

static struct router_state state_in(const struct layer *layer, void *memory)
{
    return router_state(layer, &(struct walk){ memory, 0 });
}

void router_state_sizes(const struct layer *layer, struct kind_sizes *sizes)
{
    struct walk walk = { 0 };
    router_state(layer, &walk);
    sizes->state_bytes = walk.bytes;
    sizes->statistics_bytes = round_to_256(routing_statistics(router_of(layer)->experts) * sizeof(float));
    sizes->trains_by_state = has_bias(layer);
    sizes->has_auxiliary_loss = layer->shape.experts.auxiliary > 0 || layer->shape.experts.z > 0;
}

void router_initialize_state(const struct layer *layer, struct queue *queue, void *state)
{
    struct kind_sizes sizes = { 0 };
    router_state_sizes(layer, &sizes);
    queue_zero(queue, state, sizes.state_bytes);
}

void router_fold(const struct layer *layer, const struct weir_fold *fold)
{
    const size_t experts = router_of(layer)->experts, numbers = routing_statistics(experts);
    const struct router_state state = state_in(layer, fold->state);
    queue_copy(fold->queue, state.sums, fold->statistics[0], numbers * sizeof(float));
    for (uint32_t i = 1; i < fold->count; i++)
        kernel_add_floats(fold->queue, state.sums, state.sums, fold->statistics[i], numbers);
    if (state.bias)
        kernel_move_bias(fold->queue, state.bias, state.sums, experts, layer->shape.experts.speed);
}

// The sums as one tensor, which is the last (routing_sums()).
size_t router_states(const struct layer *layer, struct weir_tensor *states)
{
    const size_t experts = router_of(layer)->experts;
    size_t count = 0;
    uint64_t first = 0;
    if (has_bias(layer)) {
        states[count++] = (struct weir_tensor){ .name = "router.bias", .columns = experts };
        first = round_to_256(experts * sizeof(float));
    }
    states[count++] = (struct weir_tensor){ .name = "router.counts", .columns = routing_statistics(experts),
                                            .first_byte = first };
    return count;
}
