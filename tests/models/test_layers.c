#include "models/layer.h"

#include <stdio.h>

#include "device/maker.h"
#include "models/router.h"
#include "tests/device/kernel_rig.h"
#include "tests/models/slow_gradients.h"

static const struct expert_shape
    mixtral = { .router = { .kind = ROUTER_MIXTRAL, .experts = 5, .top = 2 }, .inner = 7, .capacity = 1,
                .auxiliary = 0.3f, .z = 0.1f },
    mixtral_swiglu = { .router = { .kind = ROUTER_MIXTRAL, .experts = 4, .top = 3 }, .inner = 6, .is_swiglu = true,
                       .auxiliary = 0.3f },
    one_taken = { .router = { .kind = ROUTER_SWITCH, .experts = 3, .top = 1 }, .inner = 9, .shared = 5,
                  .capacity = 1.25, .auxiliary = 0.5f },
    gshard = { .router = { .kind = ROUTER_GSHARD, .experts = 4, .top = 2 }, .inner = 5, .capacity = 1.5,
               .auxiliary = 0.5f, .z = 0.2f },
    deepseek = { .router = { .kind = ROUTER_DEEPSEEK, .experts = 8, .top = 3, .groups = 4, .best_groups = 2,
                             .scale = 2.5f }, .inner = 6, .auxiliary = 0.3f, .z = 0.1f },
    deepseek_shared = { .router = { .kind = ROUTER_DEEPSEEK, .experts = 6, .top = 2, .groups = 1, .best_groups = 1,
                                    .scale = 1 }, .inner = 4, .shared = 8, .is_swiglu = true, .capacity = 1,
                        .auxiliary = 0.3f };

static struct kind_row {
    const char *name;
    const struct layer_kind *kind;
    float dropout;
    size_t out;  // 0: as wide as the input
    bool tied;
    size_t padding;
    struct attention_pattern pattern;
    const struct expert_shape *experts;
} kind_rows[] = {
    { "embedding", &layer_embedding, 0, 0, false, 0, { 0 }, NULL },
    { "embedding with dropout", &layer_embedding, 0.3f, 0, false, 0, { 0 }, NULL },
    { "attention", &layer_attention, 0, 0, false, 0, { 0 }, NULL },
    { "attention with dropout", &layer_attention, 0.3f, 0, false, 0, { 0 }, NULL },
    { "mlp", &layer_mlp, 0, 0, false, 0, { 0 }, NULL },
    { "mlp with dropout", &layer_mlp, 0.3f, 0, false, 0, { 0 }, NULL },
    { "head", &layer_head, 0, 0, false, 0, { 0 }, NULL },
    { "linear", &layer_linear, 0, 7, false, 0, { 0 }, NULL },
    { "relu", &layer_relu, 0, 0, false, 0, { 0 }, NULL },
    { "tied head", &layer_head, 0, 0, true, 0, { 0 }, NULL },
    { "padded embedding", &layer_embedding, 0, 0, false, 6, { 0 }, NULL },
    { "padded head", &layer_head, 0, 0, false, 6, { 0 }, NULL },  // 17 words: rows of logits have a gap, too
    { "padded tied head", &layer_head, 0, 0, true, 5, { 0 }, NULL },
    { "attention with a window", &layer_attention, 0.3f, 0, false, 0, { .window = 2 }, NULL },
    { "attention with a longer window", &layer_attention, 0, 0, false, 0, { .window = 21 }, NULL },
    { "attention with global tokens", &layer_attention, 0, 0, false, 0, { .window = 3, .global = 2 }, NULL },
    { "attention with strides", &layer_attention, 0, 0, false, 0, { .window = 5, .stride = 7, .block = 2 }, NULL },
    { "attention with a whole pattern", &layer_attention, 0, 0, false, 0,
      { .window = 9, .global = 5, .stride = 16, .block = 3 }, NULL },
    { "experts: mixtral", &layer_experts, 0, 0, false, 0, { 0 }, &mixtral },
    { "experts: mixtral with dropout", &layer_experts, 0.3f, 0, false, 0, { 0 }, &mixtral },
    { "experts: mixtral, dropless, swiglu", &layer_experts, 0, 0, false, 0, { 0 }, &mixtral_swiglu },
    { "experts: switch", &layer_experts, 0, 0, false, 0, { 0 }, &one_taken },
    { "experts: gshard", &layer_experts, 0, 0, false, 0, { 0 }, &gshard },
    { "experts: deepseek", &layer_experts, 0, 0, false, 0, { 0 }, &deepseek },
    { "experts: deepseek, shared", &layer_experts, 0.3f, 0, false, 0, { 0 }, &deepseek_shared },
};
enum { KINDS = sizeof kind_rows / sizeof kind_rows[0] };

static const struct kind_row *row_now;  // the row that the rig's check is about

static struct layer layer_of(const struct rig *rig, const struct kind_row *row, uint64_t trial)
{
    struct error error = { 0 };
    struct layer layer = { .name = "it", .kind = row->kind, .index = 3 };
    layer.shape = (struct layer_shape){
        // From trial 3 on every tensor is larger than the 256 bytes it is rounded to.
        .batch = 1 + trial % 2, .sequence = trial < 3 ? 3 + trial : 80 - trial, .in = 12,
        .out = row->out ? row->out : 12, .heads = 1 + trial % 3,
        .pattern = row->pattern, .vocabulary = 11, .padding = row->padding, .branches = 4, .dropout = row->dropout,
        .precision = device_precision(rig->device), .tied = row->tied,
    };
    if (row->experts)
        layer.shape.experts = *row->experts;
    assert_good(layer_ask(&layer, rig->device, &error), error);
    return layer;
}

// --- one layer with exactly the memory it says it needs -----------------------------

struct stand {
    struct layer layer;
    struct layer_sizes sizes;
    struct tensor tensors[LAYER_TENSORS];
    size_t tensor_count, in_count, out_count;
    struct layer_pass pass;
    float *parameters, *input, *output, *output_gradient, *input_gradient, *gradients;
    float *tied, *tied_gradients;  // of a tied head: the words of another layer
    size_t tied_count;
    float loss;
};

static void *exactly(struct rig *rig, uint64_t bytes)
{
    assert_int_equal(bytes % 256, 0);
    return rig_buffer(rig, bytes / sizeof(float), false);
}

// Numbers of the device's precision; what follows them up to a multiple of 256 bytes stays poisoned.
static float *numbers_in(struct rig *rig, size_t count)
{
    const size_t size = precision_bytes(device_precision(rig->device));
    float *data = rig_buffer(rig, (count * size + 255) / 256 * 256 / size, false);
    for (size_t i = 0; i < count; i++)
        data[i] = rig_round((float)random_unit(&rig->seed) - 0.5f);
    return data;
}

static struct stand stand_up(struct rig *rig, const struct layer *layer)
{
    struct stand s = { .layer = *layer, .sizes = layer_sizes(layer) };
    const size_t rows = layer->shape.batch * layer->shape.sequence;
    const bool is_first = layer->kind == &layer_embedding, is_last = layer->kind == &layer_head;
    s.in_count = is_first ? 0 : rows * layer->shape.in;
    s.out_count = is_last ? 0 : rows * layer->shape.out;
    s.tensor_count = layer_tensors(layer, s.tensors);
    s.parameters = rig_buffer(rig, s.sizes.gradient_bytes / sizeof(float), false);
    for (size_t t = 0; t < s.tensor_count; t++)
        for (size_t i = 0; i < s.tensors[t].rows * s.tensors[t].columns; i++)
            s.parameters[s.tensors[t].offset + i] = rig_round((float)random_unit(&rig->seed) - 0.5f);
    s.input = numbers_in(rig, s.in_count);
    s.output_gradient = numbers_in(rig, s.out_count);
    s.pass = (struct layer_pass){
        .base = { .queue = rig->queue, .step = 6, .micro_batch = 7, .share = 0.5f,
                  .parameters = rig_values(rig, s.parameters),
                  .input = is_first ? NULL : rig_values(rig, s.input),
                  .saved = exactly(rig, s.sizes.saved_bytes) },
        .seed = 5, .training = true,
        .tokens = rig_tokens(rig, rows, layer->shape.vocabulary),
        .targets = rig_tokens(rig, rows, layer->shape.vocabulary), .loss_weight = 0.25f,
    };
    s.tied_count = layer->shape.tied ? (layer->shape.vocabulary + layer->shape.padding) * layer->shape.in : 0;
    s.tied = numbers_in(rig, s.tied_count);
    s.pass.base.tied_parameters = rig_values(rig, s.tied);
    return s;
}

static void run_forward(struct rig *rig, struct stand *s)
{
    s->output = s->sizes.output_bytes ? rig_output(rig, s->out_count) : NULL;
    s->pass.base.output = rig_values(rig, s->output);
    s->pass.base.workspace = exactly(rig, s->sizes.workspace_bytes);
    s->pass.base.loss = &s->loss;
    s->pass.base.auxiliary_loss = &s->loss;
    s->pass.base.statistics = exactly(rig, s->sizes.statistics_bytes);
    layer_forward(&s->layer, &s->pass);
    s->pass.base.auxiliary_loss = NULL;
    s->pass.tokens = s->pass.targets = NULL;  // the forward keeps what the backward needs
    s->pass.base.loss = NULL;
}

// Gradients start at numbers, so that adding shows; gaps between tensors stay theirs.
static float *gradient_buffer(struct rig *rig, const struct stand *s)
{
    float *gradients = rig_output(rig, s->sizes.gradient_bytes / sizeof(float));
    for (size_t i = 0; i < s->sizes.gradient_bytes / sizeof(float); i++)
        gradients[i] = (float)(i % 5);
    return gradients;
}

static float *tied_gradient_buffer(struct rig *rig, const struct stand *s)
{
    float *gradients = rig_output(rig, s->tied_count);
    for (size_t i = 0; i < s->tied_count; i++)
        gradients[i] = (float)(i % 5);
    return gradients;
}

static void run_backward(struct rig *rig, struct stand *s)
{
    struct layer_pass pass = s->pass;
    pass.base.tied_gradients = s->tied_gradients = tied_gradient_buffer(rig, s);
    s->input_gradient = s->in_count ? rig_output(rig, s->in_count) : NULL;
    s->gradients = gradient_buffer(rig, s);
    pass.base.output_gradient = s->out_count ? rig_values(rig, s->output_gradient) : NULL;
    pass.base.input_gradient = rig_values(rig, s->input_gradient);
    pass.base.gradients = s->gradients;
    pass.base.workspace = exactly(rig, s->sizes.backward_workspace_bytes);
    if (s->sizes.input == INPUT_NEVER)
        pass.base.input = NULL;
    layer_backward(&s->layer, &pass);
}

// --- gradients ------------------------------------------------------------------------

struct numeric {
    struct slow_layer slow;
    double *tensors[LAYER_TENSORS], *input, *tied;
    struct slow_gradients exact;
};

static struct numeric numeric_of(struct rig *rig, const struct stand *s)
{
    struct numeric n = { .slow = { .layer = &s->layer, .tokens = s->pass.tokens, .targets = s->pass.targets,
                                   .loss_scale = 0.25 } };
    for (size_t t = 0; t < s->tensor_count; t++) {
        const size_t count = s->tensors[t].rows * s->tensors[t].columns;
        n.tensors[t] = slow_zeros(count);
        for (size_t i = 0; i < count; i++)
            n.tensors[t][i] = (double)s->parameters[s->tensors[t].offset + i];
    }
    n.input = slow_zeros(s->in_count + 1);
    for (size_t i = 0; i < s->in_count; i++)
        n.input[i] = (double)s->input[i];
    n.slow.tied = n.tied = slow_zeros(s->tied_count + 1);
    for (size_t i = 0; i < s->tied_count; i++)
        n.tied[i] = (double)s->tied[i];
    double *kept = slow_zeros(s->out_count + 1), *weighting = slow_zeros(s->out_count + 1);
    float *ones = rig_buffer(rig, s->out_count, false);
    kernel_fill(rig->queue, rig_values(rig, ones), 1, s->out_count);
    const struct dropout dropout = { .probability = s->layer.shape.dropout,
                                     .key = dropout_key(5, 6, 7, s->layer.index) };
    kernel_dropout(rig->queue, rig_values(rig, ones), rig_values(rig, ones), s->out_count, dropout);
    rig_settle(rig);
    for (size_t i = 0; i < s->out_count; i++)
        kept[i] = (double)ones[i], weighting[i] = (double)s->output_gradient[i];
    n.slow.kept = kept, n.slow.weighting = weighting;
    n.slow.output = slow_zeros(s->out_count + 1);
    n.slow.share = 0.5;
    n.exact = (struct slow_gradients){ .input = slow_zeros(s->in_count + 1), .tied = slow_zeros(s->tied_count + 1) };
    for (size_t t = 0; t < s->tensor_count; t++)
        n.exact.tensors[t] = slow_zeros(s->tensors[t].rows * s->tensors[t].columns);
    return n;
}

// The experts that the forward has chosen are those of the twin, too.
static void take_choices(struct numeric *n, const struct stand *s)
{
    struct walk walk = { s->pass.base.saved, 0 };
    walk_floats(&walk, layer_rows(&s->layer));
    walk_floats(&walk, layer_rows(&s->layer));
    struct routing routing = router_kept(&s->layer, &s->pass, &walk);
    router_saved(&s->layer, &routing, &walk);
    n->slow.choices = routing.choices;
}

static void numeric_free(struct numeric *n)
{
    for (size_t t = 0; t < LAYER_TENSORS; t++) {
        free(n->tensors[t]);
        free(n->exact.tensors[t]);
    }
    free(n->exact.input);
    free(n->exact.tied);
    free(n->input);
    free(n->tied);
    free((void *)n->slow.kept);
    free((void *)n->slow.weighting);
    free(n->slow.output);
}

// The central difference at one number, which the chain rule in double also gives.
static double slope_at(struct numeric *n, double *x, double exact)
{
    const double h = 1e-5, before = *x;
    *x = before + h;
    const double above = slow_forward(&n->slow, n->tensors, n->input);
    *x = before - h;
    const double below = slow_forward(&n->slow, n->tensors, n->input);
    *x = before;
    const double slope = (above - below) / (2 * h);
    if (!(fabs(slope - exact) <= 1e-7 * (1 + fabs(slope))))
        fail_msg("the finite difference is %.12g and the chain rule says %.12g", slope, exact);
    return slope;
}

// Numbers of a tensor against what they should be. Of bfloat16 the tensor as a whole must
// be near: what is rounded on the way in may be larger than what comes out.
struct nearness {
    const char *what;
    double error, size;
};

static void expect_near(struct nearness *near, float got, double want, double tolerance, size_t index)
{
    if (rig_precision_error <= 0)
        rig_close_to(got, want, tolerance, near->what, index);
    near->error += ((double)got - want) * ((double)got - want);
    near->size += want * want;
}

static void expect_near_at_all(const struct nearness *near)
{
    if (rig_precision_error > 0 && !(sqrt(near->error) <= rig_precision_error * sqrt(near->size)))
        fail_msg("%s is off by %g, and %g long", near->what, sqrt(near->error), sqrt(near->size));
}

// The gradients of padding are what they were, to the bit.
static void expect_no_gradient_of_padding(const struct stand *s)
{
    for (size_t t = 0; t < s->tensor_count; t++) {
        const struct tensor *tensor = &s->tensors[t];
        for (size_t i = 0; i < tensor->rows * tensor->columns; i++)
            if (i / tensor->columns >= tensor->rows - tensor->padding_rows
                || i % tensor->columns >= tensor->columns - tensor->padding_columns)
                assert_true(s->gradients[tensor->offset + i] == (float)((tensor->offset + i) % 5));
    }
    for (size_t i = s->layer.shape.vocabulary * s->layer.shape.in; i < s->tied_count; i++)
        assert_true(s->tied_gradients[i] == (float)(i % 5));
}

static void check_gradients(struct rig *rig, uint64_t trial)
{
    const struct layer layer = layer_of(rig, row_now, trial);
    struct stand s = stand_up(rig, &layer);
    struct numeric n = numeric_of(rig, &s);
    run_forward(rig, &s);
    run_backward(rig, &s);
    rig_settle(rig);
    if (layer.kind == &layer_experts)
        take_choices(&n, &s);
    slow_backward(&n.slow, n.tensors, n.input, &n.exact);
    const double value = slow_forward(&n.slow, n.tensors, n.input);
    if (s.out_count == 0)
        rig_value_close_to(s.loss, value, 1e-5, "loss", 0);
    struct nearness near = { "output", 0, 0 };
    for (size_t i = 0; i < s.out_count; i++)
        expect_near(&near, s.output[i], n.slow.output[i], 2e-5, i);
    expect_near_at_all(&near);
    // Every element of small layers; of large ones about fifty in each tensor.
    const size_t step = trial < 3 ? 0 : 50;
    near = (struct nearness){ "input's gradient", 0, 0 };
    for (size_t i = 0; i < s.in_count; i += 1 + (step ? s.in_count / step : 0))
        expect_near(&near, s.input_gradient[i], slope_at(&n, &n.input[i], n.exact.input[i]), 1e-4, i);
    expect_near_at_all(&near);
    for (size_t t = 0; t < s.tensor_count; t++) {
        near = (struct nearness){ s.tensors[t].name, 0, 0 };
        for (size_t i = 0, count = s.tensors[t].rows * s.tensors[t].columns; i < count;
             i += 1 + (step ? count / step : 0)) {
            const size_t at = s.tensors[t].offset + i;
            const double slope = slope_at(&n, &n.tensors[t][i], n.exact.tensors[t][i]);
            expect_near(&near, s.gradients[at] - (float)(at % 5), slope, 1e-4, i);
        }
        expect_near_at_all(&near);
    }
    near = (struct nearness){ "tied words", 0, 0 };
    for (size_t i = 0; i < s.tied_count; i++)
        expect_near(&near, s.tied_gradients[i] - (float)(i % 5), slope_at(&n, &n.tied[i], n.exact.tied[i]), 1e-4, i);
    expect_near_at_all(&near);
    expect_no_gradient_of_padding(&s);
    numeric_free(&n);
}

static void gradients_equal_finite_differences_in_double(void **state)
{
    row_now = *state;
    rig_try("cpu", check_gradients, 4);
    rig_try("cpu:bf16", check_gradients, 4);
    rig_try("cpu:fp16", check_gradients, 4);
}

// --- B is I and then W -----------------------------------------------------------------

static void ruin(struct rig *rig, const void *memory, uint64_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        ((float *)(uintptr_t)memory)[i] = rig->poison;
}

// I and W as far apart as a schedule may put them: all that W must not read is ruined between.
static void run_halves(struct rig *rig, struct stand *s, bool gradient_in_place)
{
    struct layer_pass pass = s->pass;
    pass.base.held = exactly(rig, s->sizes.held_for_weight_bytes);
    void *gradient = exactly(rig, s->sizes.output_bytes);
    const uint64_t bytes = s->out_count * precision_bytes(device_precision(rig->device));
    memcpy(gradient, rig_values(rig, s->output_gradient), bytes);
    pass.base.output_gradient = s->out_count ? gradient : NULL;
    if (gradient_in_place && s->out_count && s->sizes.held_for_weight_bytes) {
        memcpy(pass.base.held, gradient, bytes);
        pass.base.output_gradient = pass.base.held;
    }
    s->input_gradient = s->in_count ? rig_output(rig, s->in_count) : NULL;
    pass.base.input_gradient = rig_values(rig, s->input_gradient);
    pass.base.workspace = exactly(rig, s->sizes.backward_workspace_bytes);
    if (s->sizes.input != INPUT_FOR_BOTH)
        pass.base.input = NULL;
    layer_backward_input(&s->layer, &pass);

    ruin(rig, s->pass.base.saved, s->sizes.saved_bytes);
    ruin(rig, gradient, s->sizes.output_bytes);
    ruin(rig, pass.base.workspace, s->sizes.backward_workspace_bytes);
    pass.base.saved = NULL, pass.base.output_gradient = NULL, pass.base.input_gradient = NULL;
    pass.base.input = s->sizes.input == INPUT_NEVER ? NULL : s->pass.base.input;
    pass.base.gradients = s->gradients = gradient_buffer(rig, s);
    pass.base.tied_gradients = s->tied_gradients = tied_gradient_buffer(rig, s);
    layer_backward_weight(&s->layer, &pass);
}

static void check_halves(struct rig *rig, uint64_t trial)
{
    const struct layer layer = layer_of(rig, row_now, trial);
    struct stand s = stand_up(rig, &layer);
    run_forward(rig, &s);
    run_backward(rig, &s);
    const struct stand whole = s;
    run_halves(rig, &s, trial % 2);
    rig_settle(rig);
    if (s.in_count)
        assert_memory_equal(s.input_gradient, whole.input_gradient, s.in_count * sizeof(float));
    if (s.sizes.parameter_bytes)
        assert_memory_equal(s.gradients, whole.gradients, s.sizes.gradient_bytes);
    if (s.tied_count)
        assert_memory_equal(s.tied_gradients, whole.tied_gradients, s.tied_count * sizeof(float));
}

static void b_is_i_and_then_w_bit_for_bit(void **state)
{
    row_now = *state;
    rig_try_everywhere(check_halves, 6);
}

// --- parts of sequences ----------------------------------------------------------------

static float *slow_floats(size_t count)
{
    float *floats = calloc(count + 1, sizeof *floats);
    assert_non_null(floats);
    return floats;
}

enum { PARTS = 3 };

// A part with exactly the memory it says it needs; of the whole's rows its own.
static struct stand part_up(struct rig *rig, const struct stand *whole, uint32_t split, void *shared_by_parts[2])
{
    struct stand s = *whole;
    s.layer = layer_part(&whole->layer, split, PARTS);
    s.sizes = layer_sizes(&s.layer);
    s.in_count /= PARTS, s.out_count /= PARTS;
    s.input = rig_buffer(rig, s.in_count, false);
    s.output = s.out_count ? rig_output(rig, s.out_count) : NULL;
    s.output_gradient = rig_buffer(rig, s.out_count, false);
    s.input_gradient = s.in_count ? rig_output(rig, s.in_count) : NULL;
    s.pass.base.split = split, s.pass.base.splits = PARTS;
    s.pass.base.saved = exactly(rig, s.sizes.saved_bytes);
    s.pass.base.shared_by_parts = shared_by_parts[0], s.pass.base.shared_by_parts_gradient = shared_by_parts[1];
    return s;
}

// Rows of the part, of so many numbers of `size` bytes, to their place among all, or from there.
static void move_rows(const struct layer *part, void *whole, void *own, size_t row, bool to_whole)
{
    const size_t bytes = part->shape.sequence * row;
    for (size_t i = 0; own && i < part->shape.batch; i++) {
        char *at = (char *)whole + (i * part->shape.whole + part->shape.first) * row, *mine = (char *)own + i * bytes;
        memcpy(to_whole ? at : mine, to_whole ? mine : at, bytes);
    }
}

static void run_part_forward(struct rig *rig, struct stand *s, const struct stand *whole, const int32_t *words)
{
    int32_t *tokens = (int32_t *)(void *)rig_buffer(rig, s->layer.shape.batch * s->layer.shape.sequence, false);
    move_rows(&s->layer, (void *)(uintptr_t)words, tokens, sizeof *words, false);
    move_rows(&s->layer, whole->input, s->input, whole->in_count ? s->layer.shape.in * sizeof(float) : 0, false);
    s->pass.tokens = s->pass.targets = tokens;
    s->pass.base.input = s->in_count ? rig_values(rig, s->input) : NULL;
    s->pass.base.output = rig_values(rig, s->output);
    s->pass.base.workspace = exactly(rig, s->sizes.workspace_bytes);
    s->pass.base.loss = &s->loss;
    layer_forward(&whole->layer, &s->pass);
}

static void run_part_backward(struct rig *rig, struct stand *s, const struct stand *whole)
{
    struct layer_pass pass = s->pass;
    move_rows(&s->layer, whole->output_gradient, s->output_gradient,
              whole->out_count ? s->layer.shape.out * sizeof(float) : 0, false);
    pass.base.tied_gradients = s->tied_gradients, pass.base.gradients = s->gradients;
    pass.base.output_gradient = s->out_count ? rig_values(rig, s->output_gradient) : NULL;
    pass.base.input_gradient = rig_values(rig, s->input_gradient);
    pass.base.workspace = exactly(rig, s->sizes.backward_workspace_bytes);
    if (s->sizes.input == INPUT_NEVER)
        pass.base.input = NULL;
    layer_backward(&whole->layer, &pass);
}

static void expect_all_near(const char *what, const float *got, const float *want, size_t count)
{
    struct nearness near = { what, 0, 0 };
    for (size_t i = 0; i < count; i++)
        expect_near(&near, got[i], (double)want[i], 1e-4, i);
    expect_near_at_all(&near);
}

// Forward in order, and backward in reverse.
static void check_parts(struct rig *rig, uint64_t trial)
{
    struct layer layer = layer_of(rig, row_now, trial);
    layer.shape.sequence = trial < 3 ? PARTS * (1 + trial) : 26 * PARTS;
    struct error error = { 0 };
    assert_good(layer_ask(&layer, rig->device, &error), error);
    struct stand whole = stand_up(rig, &layer), parts[PARTS], sum = whole;
    const int32_t *words = whole.pass.targets = whole.pass.tokens;
    run_forward(rig, &whole);
    run_backward(rig, &whole);
    void *shared_by_parts[] = { exactly(rig, whole.sizes.shared_by_parts_bytes),
                                exactly(rig, whole.sizes.shared_by_parts_bytes) };
    sum.gradients = gradient_buffer(rig, &whole), sum.tied_gradients = tied_gradient_buffer(rig, &whole);
    for (uint32_t p = 0; p < PARTS; p++) {
        parts[p] = part_up(rig, &sum, p, shared_by_parts);
        run_part_forward(rig, &parts[p], &whole, words);
    }
    for (uint32_t p = PARTS; p-- > 0;)
        run_part_backward(rig, &parts[p], &whole);
    rig_settle(rig);
    float loss = 0, *input = slow_floats(whole.in_count), *output = slow_floats(whole.out_count);
    for (uint32_t p = 0; p < PARTS; p++) {
        loss += parts[p].loss;
        move_rows(&parts[p].layer, input, parts[p].input_gradient, layer.shape.in * sizeof(float), true);
        move_rows(&parts[p].layer, output, parts[p].output, layer.shape.out * sizeof(float), true);
    }
    if (layer.kind == &layer_head)
        rig_value_close_to(loss, (double)whole.loss, 1e-5, "loss", 0);
    expect_all_near("output", output, whole.output, whole.out_count);
    expect_all_near("input's gradient", input, whole.input_gradient, whole.in_count);
    expect_all_near("gradients", sum.gradients, whole.gradients, whole.sizes.gradient_bytes / sizeof(float));
    expect_all_near("tied gradients", sum.tied_gradients, whole.tied_gradients, whole.tied_count);
    free(input);
    free(output);
}

static void parts_make_up_the_whole(void **state)
{
    row_now = *state;
    if (row_now->dropout > 0 || row_now->experts)
        return;  // each part drops its own; experts take no parts
    rig_try("cpu", check_parts, 4);
    rig_try("cpu:bf16", check_parts, 4);
    rig_try("cpu:fp16", check_parts, 4);
}

static void parts_find_room_in_their_share(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct rig rig = { .device = device_open("cpu", &error) };
    assert_good(rig.device, error);
    for (size_t i = 0; i < KINDS; i++) {
        struct layer layer = layer_of(&rig, &kind_rows[i], 1);  // 2 sequences
        layer.shape.out = layer.shape.in = 32;
        layer.shape.sequence = 5;
        if (layer.kind != &layer_linear && layer.kind != &layer_relu)  // which have no small tensors
            assert_int_equal(layer_most_splits(&layer), 1);
        layer.shape.sequence = 128;  // 4 parts of 64 rows: a float of each is 256 bytes
        if (layer.kind == &layer_experts) {
            assert_int_equal(layer_most_splits(&layer), 1);
            continue;
        }
        assert_true(layer_most_splits(&layer) >= 4);
        for (uint32_t splits = 2; splits <= 4; splits += 2) {
            const struct layer part = layer_part(&layer, 1, splits);
            const struct layer_sizes whole = layer_sizes(&layer), own = layer_sizes(&part);
            assert_true(own.saved_bytes <= (whole.saved_bytes - whole.shared_by_parts_bytes) / splits);
            assert_true(own.held_for_weight_bytes <= whole.held_for_weight_bytes / splits);
            assert_int_equal(own.parameter_bytes, whole.parameter_bytes);
        }
    }
    device_close(rig.device);
}

// --- workspace that a device's attention takes ------------------------------------------

static const struct attention_bytes odd = { 1001, 77777 };
static const struct kernel_functions *computing;  // the cpu's, behind those that are played
static float poison_now;

static bool tell_odd(struct device *device, const struct attention *attention, struct attention_bytes *bytes,
                     struct error *error)
{
    (void)device, (void)attention, (void)error;
    *bytes = odd;
    return true;
}

// Nobody else has been there, and nobody misses what was there.
static void use_up(void *workspace, uint64_t bytes)
{
    unsigned char *at = workspace, poison[sizeof poison_now];
    memcpy(poison, &poison_now, sizeof poison);
    for (uint64_t i = 0; i < bytes; i++)
        if (at[i] != poison[i % sizeof poison])
            fail_msg("byte %zu of %zu that attention works in is in use", (size_t)i, (size_t)bytes);
    memset(workspace, 0x5c, bytes);
}

static void attend_elsewhere(struct queue *queue, const struct attention *attention, struct values *out,
                             float *log_sums, const struct values *qkv, void *workspace)
{
    void *own = malloc(attention_workspace_bytes(attention));
    assert_non_null(own);
    use_up(workspace, odd.forward);
    computing->attention(queue, attention, out, log_sums, qkv, own);
    free(own);
}

static void attend_elsewhere_backward(struct queue *queue, const struct attention *attention,
                                      struct values *qkv_gradient, const struct values *out_gradient,
                                      const struct values *out, const float *log_sums, const struct values *qkv,
                                      void *workspace)
{
    void *own = malloc(attention_workspace_bytes(attention));
    assert_non_null(own);
    use_up(workspace, odd.backward);
    computing->attention_backward(queue, attention, qkv_gradient, out_gradient, out, log_sums, qkv, own);
    free(own);
}

// The same passes on a device whose attention takes odd numbers of bytes.
static void run_oddly(struct rig *rig, struct stand *s, bool in_halves)
{
    struct error error = { 0 };
    const struct device_functions *functions = rig->device->functions;
    struct device_functions telling = *functions;
    struct kernel_functions playing = *rig->device->kernels;
    computing = rig->device->kernels;
    poison_now = rig->poison;
    telling.attention_bytes = tell_odd;
    playing.attention = attend_elsewhere;
    playing.attention_backward = attend_elsewhere_backward;
    rig->device->functions = &telling;
    rig->device->kernels = &playing;
    assert_good(layer_ask(&s->layer, rig->device, &error), error);
    s->sizes = layer_sizes(&s->layer);
    run_forward(rig, s);
    if (in_halves)
        run_halves(rig, s, true);
    else
        run_backward(rig, s);
    rig->device->functions = functions;
    rig->device->kernels = computing;
}

static void check_odd_workspace(struct rig *rig, uint64_t trial)
{
    const struct layer layer = layer_of(rig, row_now, trial);
    const struct attention attention = { .batch = layer.shape.batch, .sequence = layer.shape.sequence,
                                         .heads = layer.shape.heads,
                                         .size = layer.shape.out / layer.shape.heads };
    const uint64_t own = attention_workspace_bytes(&attention);
    struct stand plain = stand_up(rig, &layer);
    run_forward(rig, &plain);
    run_backward(rig, &plain);
    struct stand s = plain;
    run_oddly(rig, &s, trial % 2);
    rig_settle(rig);
    assert_int_equal(s.sizes.workspace_bytes, plain.sizes.workspace_bytes - own + 1024);
    assert_int_equal(s.sizes.backward_workspace_bytes, plain.sizes.backward_workspace_bytes - own + 304 * 256);
    assert_memory_equal(s.output, plain.output, s.out_count * sizeof(float));
    assert_memory_equal(s.input_gradient, plain.input_gradient, s.in_count * sizeof(float));
    assert_memory_equal(s.gradients, plain.gradients, s.sizes.gradient_bytes);
}

static void attention_works_in_what_the_device_says_it_takes(void **state)
{
    row_now = *state;
    rig_try("cpu", check_odd_workspace, 4);
}

// --- the head's logits -------------------------------------------------------------------

// A forward that starts as another does, with its parameters and its input, but what it saves.
static void run_again(struct rig *rig, struct stand *s, const struct stand *first, bool keeps_logits,
                      float gradient_scale)
{
    *s = *first;
    s->pass.base.saved = exactly(rig, s->sizes.saved_bytes);
    s->pass.keeps_logits = keeps_logits;
    s->pass.base.loss_scale = gradient_scale;
    run_forward(rig, s);
    rig_settle(rig);
}

static float logit_of(const struct rig *rig, const struct stand *s, size_t row, size_t word)
{
    return number_of(layer_logits(&s->layer, s->pass.base.saved, row), device_precision(rig->device), word);
}

// Those that are kept make up the loss; over those that are not their gradient is written, by both scales.
static void check_logits(struct rig *rig, uint64_t trial)
{
    const struct layer layer = layer_of(rig, row_now, trial);
    const size_t rows = layer.shape.batch * layer.shape.sequence, words = layer.shape.vocabulary;
    struct stand s = stand_up(rig, &layer), kept, learned, scaled;
    const int32_t *targets = s.pass.targets;
    run_again(rig, &kept, &s, true, 0);
    run_again(rig, &learned, &s, false, 0);
    run_again(rig, &scaled, &s, false, 1024);
    double loss = 0;
    for (size_t row = 0; row < rows; row++) {
        double sum = 0;
        for (size_t w = 0; w < words; w++)
            sum += exp((double)logit_of(rig, &kept, row, w));
        loss += 0.25 * (log(sum) - (double)logit_of(rig, &kept, row, (size_t)targets[row]));
        for (size_t w = 0; w < words; w++) {
            const double share = exp((double)logit_of(rig, &kept, row, w)) / sum;
            const double gradient = 0.25 * (share - ((size_t)targets[row] == w));
            rig_value_close_to(logit_of(rig, &learned, row, w), gradient, 1e-5, "a logit's gradient", w);
            rig_value_close_to(logit_of(rig, &scaled, row, w) / 1024, gradient, 1e-5, "a scaled one", w);
        }
    }
    rig_close_to(kept.loss, loss, 1e-5, "the loss", 0);
    rig_close_to(learned.loss, loss, 1e-5, "the loss", 0);
    assert_true(scaled.loss == learned.loss);
}

static void a_head_keeps_its_logits_or_learns_from_them(void **state)
{
    row_now = *state;
    rig_try_everywhere(check_logits, 4);
}

// In fp32, where a power of two costs no bit, nor does it in what follows.
static void check_gradient_scale(struct rig *rig, uint64_t trial)
{
    const struct layer layer = layer_of(rig, row_now, trial);
    struct stand s = stand_up(rig, &layer), plain, scaled;
    run_again(rig, &plain, &s, false, 0);
    run_backward(rig, &plain);
    run_again(rig, &scaled, &s, false, 1024);
    scaled.pass.base.loss_scale = 0;  // which is the forward's to know
    run_backward(rig, &scaled);
    rig_settle(rig);
    for (size_t i = 0; i < s.in_count; i++)
        assert_true(scaled.input_gradient[i] == 1024 * plain.input_gradient[i]);
}

static void the_scale_of_gradients_is_the_forward_s(void **state)
{
    row_now = *state;
    rig_try("cpu", check_gradient_scale, 4);
}

// What is as large as the logits there is once; between I and W it is handed on.
static void the_backward_of_a_head_takes_no_second_room_for_logits(void **state)
{
    (void)state;
    struct layer head = { .name = "head", .kind = &layer_head };
    head.shape = (struct layer_shape){ .batch = 16, .sequence = 1024, .in = 768, .vocabulary = 50257,
                                       .precision = PRECISION_BF16 };
    const uint64_t rows = 16 * 1024, logits = rows * 50264 * 2;
    const struct layer_sizes sizes = layer_sizes(&head);
    assert_int_equal(sizes.saved_bytes, 2 * rows * 4 + logits);
    assert_int_equal(sizes.backward_workspace_bytes, 2 * rows * 768 * 2);
    assert_int_equal(sizes.held_for_weight_bytes, rows * 768 * 2 + sizes.saved_bytes);
}

// --- the rest -------------------------------------------------------------------------

static void check_evaluation(struct rig *rig, uint64_t trial)
{
    (void)trial;
    struct layer plain = layer_of(rig, &kind_rows[4], 1), dropping = layer_of(rig, &kind_rows[5], 1);
    struct stand s = stand_up(rig, &plain);
    run_forward(rig, &s);
    const float *expected = s.output;
    s.layer = dropping;
    s.pass.training = false;
    run_forward(rig, &s);
    assert_memory_equal(s.output, expected, s.out_count * sizeof(float));
    s.pass.training = true;
    run_forward(rig, &s);
    assert_memory_not_equal(s.output, expected, s.out_count * sizeof(float));
}

static void nothing_is_dropped_outside_training(void **state)
{
    (void)state;
    rig_try("cpu", check_evaluation, 1);
}

static double deviation_of(const float *numbers, size_t count)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)numbers[i] * (double)numbers[i];
    return sqrt(squares / (double)count);
}

static void check_start(struct rig *rig, uint64_t trial)
{
    struct layer layer = layer_of(rig, row_now, 2);
    layer.shape.in = layer.shape.out = 96;
    layer.shape.vocabulary = 300;
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(&layer, tensors);
    const uint64_t bytes = layer_sizes(&layer).parameter_bytes;
    float *parameters = rig_output(rig, bytes / sizeof(float)), *other = rig_output(rig, bytes / sizeof(float));
    layer_initialize(&layer, rig->queue, parameters, trial);
    layer.index++;
    layer_initialize(&layer, rig->queue, other, trial);
    size_t next = 0;
    for (size_t t = 0; t < count; t++) {
        const size_t first = tensors[t].offset;
        const size_t end = first + tensors[t].rows * tensors[t].columns;
        for (; next < first; next++)
            assert_true(parameters[next] == 0);
        if (tensors[t].start == START_NORMAL) {
            const double got = deviation_of(parameters + first, end - first) / (double)tensors[t].deviation;
            assert_true(fabs(got - 1) < 0.1);
            assert_memory_not_equal(parameters + first, other + first, 64);
        }
        for (size_t i = first; i < end && tensors[t].start != START_NORMAL; i++)
            assert_true(parameters[i] == (tensors[t].start == START_ONE));
        assert_int_equal(tensors[t].decays, tensors[t].rows > 1 && !strstr(tensors[t].name, "bias"));
        next = end;
    }
    for (; next < bytes / sizeof(float); next++)
        assert_true(parameters[next] == 0);
}

static void parameters_start_by_seed_and_index_with_zeros_in_the_gaps(void **state)
{
    row_now = *state;
    rig_try("cpu", check_start, 2);
}

static void half_blocks_keep_what_they_say(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct rig rig = { .device = device_open("cpu", &error) };
    assert_good(rig.device, error);
    struct layer layer = layer_of(&rig, &kind_rows[4], 2);  // 1 x 5 rows of 12
    const struct layer_sizes sizes = layer_sizes(&layer);
    // Two norms' numbers and the wide tensor: 5 x 4 x 12 floats = 960 bytes.
    assert_int_equal(sizes.saved_bytes, 256 + 256 + 1024);
    assert_int_equal(sizes.output_bytes, 256);
    // The output's gradient, the norms' numbers, two wide tensors, one as wide as the input.
    assert_int_equal(sizes.held_for_weight_bytes, 256 + 256 + 256 + 2 * 1024 + 256);
    assert_int_equal(sizes.input, INPUT_FOR_BOTH);
    assert_int_equal(sizes.flops, 16 * 5 * 12 * 12);
    assert_string_equal(layer_kind_name(&layer), "mlp");
    // Of bfloat16 the norms' numbers stay floats, the wide tensors are half as large, and
    // parameters take two bytes where their gradients take four.
    layer.shape.precision = PRECISION_BF16;
    assert_int_equal(layer_sizes(&layer).saved_bytes, 256 + 256 + 512);
    assert_int_equal(layer_sizes(&layer).gradient_bytes, 2 * layer_sizes(&layer).parameter_bytes);
    const struct layer relu = layer_of(&rig, &kind_rows[8], 2);
    assert_int_equal(layer_sizes(&relu).saved_bytes, 256);
    assert_int_equal(layer_sizes(&relu).held_for_weight_bytes, 0);
    device_close(rig.device);
}

int main(void)
{
    struct CMUnitTest tests[4 * KINDS + 10];
    char names[4 * KINDS + 6][64];
    size_t count = 0;
    for (size_t i = 0; i < KINDS; i++) {
        snprintf(names[count], sizeof names[0], "%s: gradients equal finite differences", kind_rows[i].name);
        tests[count] = (struct CMUnitTest){ .name = names[count], .initial_state = &kind_rows[i],
                                            .test_func = gradients_equal_finite_differences_in_double };
        count++;
        snprintf(names[count], sizeof names[0], "%s: B is I and then W, bit for bit", kind_rows[i].name);
        tests[count] = (struct CMUnitTest){ .name = names[count], .initial_state = &kind_rows[i],
                                            .test_func = b_is_i_and_then_w_bit_for_bit };
        count++;
        snprintf(names[count], sizeof names[0], "%s: parts make up the whole", kind_rows[i].name);
        tests[count] = (struct CMUnitTest){ .name = names[count], .initial_state = &kind_rows[i],
                                            .test_func = parts_make_up_the_whole };
        count++;
        snprintf(names[count], sizeof names[0], "%s: parameters start by seed and index", kind_rows[i].name);
        tests[count] = (struct CMUnitTest){ .name = names[count], .initial_state = &kind_rows[i],
                                            .test_func = parameters_start_by_seed_and_index_with_zeros_in_the_gaps };
        count++;
    }
    for (size_t i = 2; i < 4; i++) {
        snprintf(names[count], sizeof names[0], "%s works in what the device says it takes", kind_rows[i].name);
        tests[count] = (struct CMUnitTest){ .name = names[count], .initial_state = &kind_rows[i],
                                            .test_func = attention_works_in_what_the_device_says_it_takes };
        count++;
    }
    static const size_t heads[] = { 6, 12 };  // untied and tied, the latter with padding
    for (size_t i = 0; i < 2; i++) {
        struct kind_row *row = &kind_rows[heads[i]];
        snprintf(names[count], sizeof names[0], "%s: logits are kept or learnt from", row->name);
        tests[count] = (struct CMUnitTest){ .name = names[count], .initial_state = row,
                                            .test_func = a_head_keeps_its_logits_or_learns_from_them };
        count++;
        snprintf(names[count], sizeof names[0], "%s: the scale of gradients is the forward's", row->name);
        tests[count] = (struct CMUnitTest){ .name = names[count], .initial_state = row,
                                            .test_func = the_scale_of_gradients_is_the_forward_s };
        count++;
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(the_backward_of_a_head_takes_no_second_room_for_logits);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(parts_find_room_in_their_share);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(nothing_is_dropped_outside_training);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(half_blocks_keep_what_they_say);
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
