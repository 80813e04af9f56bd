// Every kind of layer of pictures and of clicks against its forward in double, and against differences of that. F, B, I
// and W get what each may read, in memory of exactly the sizes that the layer says.
#include <stdio.h>

#include "common/number.h"
#include "common/random.h"
#include "tests/models/slow_pictures.h"
#include "tests/test.h"

enum { GUARD = 256 };

static const struct kind_row {
    const char *name;
    const struct layer_kind *kind;
    uint32_t inputs;
    bool has_relu, is_short;  // is_short: the last pictures do not count
    float dropout, smoothing;
} rows[] = {
    { "convolution", &layer_convolution, 1, false, false, 0, 0 },
    { "max-pool", &layer_max_pool, 1, false, false, 0, 0 },
    { "average-pool", &layer_average_pool, 1, false, false, 0, 0 },
    { "batch norm", &layer_batch_norm, 1, false, false, 0, 0 },
    { "batch norm, relu", &layer_batch_norm, 1, true, false, 0, 0 },
    { "batch norm, sum, relu", &layer_batch_norm, 2, true, false, 0, 0 },
    { "batch norm, fewer pictures", &layer_batch_norm, 2, true, true, 0, 0 },
    { "concat", &layer_concat, 3, false, false, 0, 0 },
    { "upsample", &layer_upsample, 1, false, false, 0, 0 },
    { "dropout", &layer_dropout, 1, false, false, 0.4f, 0 },
    { "cross-entropy", &layer_cross_entropy, 1, false, false, 0, 0 },
    { "cross-entropy, smoothed, two", &layer_cross_entropy, 2, false, true, 0, 0.1f },
    { "numbers", &layer_numbers, 0, false, false, 0, 0 },
    { "tables", &layer_tables, 0, false, false, 0, 0 },
    { "exchange", &layer_exchange, 1, false, false, 0, 0 },
    { "interaction", &layer_interaction, 1, false, false, 0, 0 },
    { "interaction with a bottom", &layer_interaction, 2, false, false, 0, 0 },
    { "first cross", &layer_cross, 2, false, false, 0, 0 },
    { "cross", &layer_cross, 3, false, false, 0, 0 },
    { "linear", &layer_linear, 1, false, false, 0, 0 },
    { "row-sum", &layer_row_sum, 3, false, false, 0, 0 },
    { "bce-loss", &layer_binary_cross_entropy, 1, false, false, 0, 0 },
    { "bce-loss, fewer samples", &layer_binary_cross_entropy, 1, false, true, 0, 0 },
};
enum { ROWS = sizeof rows / sizeof rows[0], CLICKS = 12 };  // so many rows come before those of clicks

static size_t draw(uint64_t *seed, size_t least, size_t most)
{
    return least + random_below(seed, most - least + 1);
}

static void choose_window(struct layer *layer, bool is_pool, uint64_t *seed)
{
    struct picture_shape *picture = &layer->shape.picture;
    struct window *window = &picture->window;
    *window = (struct window){ .height = draw(seed, 1, min_u64(picture->height, 4)),
                               .width = draw(seed, 1, min_u64(picture->width, 5)),
                               .stride_height = draw(seed, 1, 3), .stride_width = draw(seed, 1, 2) };
    window->padding_height = draw(seed, 0, is_pool ? window->height / 2 : window->height - 1);
    window->padding_width = draw(seed, 0, is_pool ? window->width / 2 : window->width - 1);
    layer->shape.sequence =
        window_places(picture->height, window->height, window->stride_height, window->padding_height)
        * window_places(picture->width, window->width, window->stride_width, window->padding_width);
}

static void choose_tables(struct layer *layer, uint64_t *seed)
{
    struct table_shape *tables = &layer->shape.tables;
    *tables = (struct table_shape){ .slots = draw(seed, 1, 4), .columns = draw(seed, 1, 20), .most = draw(seed, 1, 3),
                                    .is_mean = random_below(seed, 2), .has_weights = random_below(seed, 2) };
    for (size_t slot = 0; slot < tables->slots; slot++)
        tables->rows[slot] = (uint32_t)draw(seed, 1, 6);
    layer->shape.in = layer->shape.out = tables->slots * tables->columns;
}

static void choose_vectors(struct layer *layer, uint64_t *seed)
{
    const size_t columns = draw(seed, 1, 20), count = draw(seed, 2, 6), last = layer->input_count - 1;
    layer->shape.tables.columns = layer->input_widths[0] = columns;
    layer->shape.in = layer->input_widths[last] = count * columns;
    layer->shape.out = interaction_width(count, columns, last > 0);
}

// The numbers of clicks are a row for each sample.
static void choose_clicks(struct layer *layer, uint64_t *seed)
{
    layer->shape.sequence = layer->shape.picture.height = layer->shape.picture.width = 1;
    if (layer->kind == &layer_tables)
        choose_tables(layer, seed);
    else if (layer->kind == &layer_interaction)
        choose_vectors(layer, seed);
    else if (layer->kind == &layer_linear)
        layer->shape.out = draw(seed, 1, 12);
    for (uint32_t i = 0; layer->kind == &layer_row_sum && i < layer->input_count; i++)
        layer->input_widths[i] = draw(seed, 1, 40);
    if (layer->kind == &layer_row_sum)
        layer->shape.out = 1;
    layer->shape.unbiased = random_below(seed, 2);
    if (layer->kind == &layer_binary_cross_entropy) {
        layer->shape.in = layer->input_widths[0] = 1;
        layer->shape.out = 0;
    }
}

static struct layer layer_of(const struct kind_row *row, uint64_t *seed)
{
    struct layer layer = { .name = "it", .kind = row->kind, .index = 3, .input_count = row->inputs };
    const size_t height = draw(seed, 1, 8), width = draw(seed, 1, 8), channels = draw(seed, 1, 20);
    layer.shape = (struct layer_shape){
        .batch = draw(seed, row->is_short ? 2 : 1, 4), .sequence = height * width, .in = channels, .out = channels,
        .dropout = row->dropout, .precision = PRECISION_FP32,
        .picture = { .height = height, .width = width, .groups = 1, .has_relu = row->has_relu, .factor = 2,
                     .smoothing = row->smoothing },
    };
    for (uint32_t i = 0; i < row->inputs; i++)
        layer.input_widths[i] = channels;
    if (row->kind == &layer_convolution) {
        layer.shape.picture.groups = draw(seed, 1, 3);
        layer.shape.in = layer.input_widths[0] = layer.shape.picture.groups * draw(seed, 1, 6);
        layer.shape.out = layer.shape.picture.groups * draw(seed, 1, 6);
        layer.shape.picture.has_bias = random_below(seed, 2);
        choose_window(&layer, false, seed);
    } else if (row->kind == &layer_max_pool || row->kind == &layer_average_pool) {
        choose_window(&layer, true, seed);
    } else if (row->kind == &layer_concat) {
        layer.shape.out = 0;
        for (uint32_t i = 0; i < row->inputs; i++)
            layer.shape.out += layer.input_widths[i] = draw(seed, 1, 9);
        layer.shape.in = layer.shape.out;
    } else if (row->kind == &layer_upsample) {
        layer.shape.picture.factor = draw(seed, 1, 3);
        layer.shape.sequence *= layer.shape.picture.factor * layer.shape.picture.factor;
    } else if (row->kind == &layer_cross_entropy) {
        layer.shape.sequence = draw(seed, 1, 2);
        layer.shape.picture.height = layer.shape.sequence;
        layer.shape.picture.width = 1;
        layer.shape.in = layer.input_widths[0] = layer.input_widths[1] = draw(seed, 2, 12);
        layer.shape.out = 0;
    } else if (row - rows >= CLICKS) {
        choose_clicks(&layer, seed);
    }
    return layer;
}

// --- a layer with its memory -------------------------------------------------------------

struct piece {
    unsigned char *at;
    uint64_t bytes;
};

struct stand {
    struct layer layer;
    struct layer_sizes sizes;
    struct tensor tensors[LAYER_TENSORS];
    size_t tensor_count, inputs[LAYER_INPUTS], outputs;  // numbers of each
    struct piece pieces[40];
    size_t piece_count;
    struct layer_pass pass;
    void *workspace, *backward_workspace;
    float *output_gradient;
    int32_t *targets;
    float loss;
};

// Poisoned with NaN, with a guard behind it.
static void *place(struct stand *s, uint64_t bytes)
{
    struct piece *piece = &s->pieces[s->piece_count++];
    assert_true(s->piece_count <= sizeof s->pieces / sizeof s->pieces[0]);
    *piece = (struct piece){ malloc(bytes + GUARD), bytes };
    assert_non_null(piece->at);
    memset(piece->at, 0xff, bytes);
    memset(piece->at + bytes, 0x5a, GUARD);
    return piece->at;
}

static void stand_down(struct stand *s)
{
    for (size_t i = 0; i < s->piece_count; i++) {
        for (int k = 0; k < GUARD; k++)
            assert_int_equal(s->pieces[i].at[s->pieces[i].bytes + (size_t)k], 0x5a);
        free(s->pieces[i].at);
    }
}

static float *drawn(struct stand *s, uint64_t *seed, size_t count, uint64_t bytes)
{
    float *numbers = place(s, bytes);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)(4 * random_unit(seed) - 2);
    return numbers;
}

// From none to all of the ids that there is room for.
static void draw_ids(struct stand *s, uint64_t *seed)
{
    const struct table_shape *tables = &s->layer.shape.tables;
    int32_t *ids = place(s, 4 * layer_most_ids(&s->layer)), end = 0;
    int32_t *ends = place(s, 4 * s->layer.shape.batch * tables->slots);
    for (size_t bag = 0; bag < s->layer.shape.batch * tables->slots; bag++) {
        const size_t slot = bag % tables->slots;
        size_t first = 0;
        for (size_t k = 0; k < slot; k++)
            first += tables->rows[k];
        for (uint64_t left = random_below(seed, tables->most + 1); left > 0; left--)
            ids[end++] = (int32_t)(first + random_below(seed, tables->rows[slot]));
        ends[bag] = end;
    }
    s->pass.ids = (struct id_lists){ ids, ends, tables->has_weights
        ? drawn(s, seed, layer_most_ids(&s->layer), 4 * layer_most_ids(&s->layer)) : NULL };
}

static void stand_up(struct stand *s, const struct kind_row *row, struct device *device, struct queue *queue,
                     uint64_t *seed)
{
    struct error error = { 0 };
    *s = (struct stand){ .layer = layer_of(row, seed) };
    struct layer *layer = &s->layer;
    assert_good(layer_ask(layer, device, &error), error);
    s->sizes = layer_sizes(layer);
    s->tensor_count = layer_tensors(layer, s->tensors);
    s->outputs = layer->shape.batch * layer->shape.sequence * layer->shape.out;
    s->pass = (struct layer_pass){ .base = { .queue = queue, .micro_batch = 2, .step = 5, .loss = &s->loss,
                                             .samples = layer->shape.batch - row->is_short },
                                   .seed = 9, .training = true, .loss_weight = 0.25f };
    for (uint32_t i = 0; i < layer->input_count; i++) {
        s->inputs[i] = layer->shape.batch * layer->shape.picture.height * layer->shape.picture.width
                     * layer->input_widths[i];
        s->pass.base.inputs[i] = drawn(s, seed, s->inputs[i], round_to_256(4 * s->inputs[i]));
    }
    float *parameters = place(s, s->sizes.parameter_bytes);
    memset(parameters, 0, s->sizes.parameter_bytes);
    for (size_t t = 0; t < s->tensor_count; t++)
        for (size_t i = 0; i < s->tensors[t].rows * s->tensors[t].columns; i++)
            parameters[s->tensors[t].offset + i] = (float)(2 * random_unit(seed) - 1);
    s->pass.base.parameters = parameters;
    s->pass.base.output = place(s, s->sizes.output_bytes);
    s->pass.base.saved = place(s, s->sizes.saved_bytes);
    s->pass.base.statistics = place(s, s->sizes.statistics_bytes);
    s->workspace = place(s, s->sizes.workspace_bytes);
    s->backward_workspace = place(s, s->sizes.backward_workspace_bytes);
    s->output_gradient = drawn(s, seed, s->outputs, s->sizes.output_bytes);
    s->targets = place(s, 4 * layer->shape.batch * layer->shape.sequence);
    for (size_t i = 0; i < layer->shape.batch * layer->shape.sequence; i++)
        s->targets[i] = i / layer->shape.sequence >= s->pass.base.samples
                            ? NO_TARGET : (int32_t)random_below(seed, layer->shape.in > 1 ? layer->shape.in : 2);
    s->pass.targets = s->targets;
    if (layer->kind == &layer_tables)
        draw_ids(s, seed);
    s->pass.numbers = layer->kind == &layer_numbers ? drawn(s, seed, s->outputs, 4 * s->outputs) : NULL;
}

struct results {
    float *inputs[LAYER_INPUTS], *gradients;
};

static struct results results_of(struct stand *s)
{
    struct results results = { .gradients = place(s, s->sizes.gradient_bytes) };
    memset(results.gradients, 0, s->sizes.gradient_bytes);
    for (uint32_t i = 0; i < s->layer.input_count; i++)
        results.inputs[i] = place(s, round_to_256(4 * s->inputs[i]));
    return results;
}

static struct layer_pass backward_pass(const struct stand *s, const struct results *results)
{
    struct layer_pass pass = s->pass;
    pass.base.output = NULL;
    pass.base.workspace = s->backward_workspace;
    pass.base.output_gradient = s->outputs > 0 ? s->output_gradient : NULL;
    pass.base.gradients = results->gradients;
    for (uint32_t i = 0; i < s->layer.input_count; i++)
        pass.base.input_gradients[i] = results->inputs[i];
    return pass;
}

static void poison(void *memory, uint64_t bytes)
{
    if (bytes > 0)
        memset(memory, 0xff, bytes);
}

// I, and then W with what it may read.
static void run_halves(struct stand *s, const struct results *results)
{
    struct layer_pass pass = backward_pass(s, results);
    void *held = place(s, s->sizes.held_for_weight_bytes);
    pass.base.held = held;
    pass.base.gradients = NULL;
    layer_backward_input(&s->layer, &pass);
    if (s->sizes.held_for_weight_bytes == 0)
        return;
    poison(s->backward_workspace, s->sizes.backward_workspace_bytes);
    poison(s->pass.base.saved, s->sizes.saved_bytes);
    pass.base.gradients = results->gradients;
    pass.base.output_gradient = NULL;
    pass.base.saved = NULL;
    memset(pass.base.input_gradients, 0, sizeof pass.base.input_gradients);
    if (s->sizes.input == INPUT_NEVER)
        memset(pass.base.inputs, 0, sizeof pass.base.inputs);
    layer_backward_weight(&s->layer, &pass);
}

// --- what is right -------------------------------------------------------------------------

static double *doubles_of(const float *numbers, size_t count)
{
    double *doubles = calloc(count + 1, sizeof *doubles);
    assert_non_null(doubles);
    for (size_t i = 0; numbers && i < count; i++)
        doubles[i] = (double)numbers[i];
    return doubles;
}

static struct slow_picture slow_of(const struct stand *s)
{
    struct slow_picture slow = { .layer = &s->layer, .targets = s->targets, .loss_scale = 0.25,
                                 .counted = s->pass.base.samples, .output = doubles_of(NULL, s->outputs),
                                 .weighting = doubles_of(s->output_gradient, s->outputs),
                                 .ids = s->pass.ids, .numbers = s->pass.numbers };
    const float *parameters = s->pass.base.parameters;
    double *kept = doubles_of(NULL, s->outputs);
    for (size_t i = 0; i < s->outputs; i++)  // as the layer's own output shows
        kept[i] = ((const float *)s->pass.base.output)[i] == 0 ? 0 : 1 / (1 - (double)s->layer.shape.dropout);
    slow.kept = kept;
    for (uint32_t i = 0; i < s->layer.input_count; i++)
        slow.inputs[i] = doubles_of(s->pass.base.inputs[i], s->inputs[i]);
    for (size_t t = 0; t < s->tensor_count; t++)
        slow.tensors[t] = doubles_of(parameters + s->tensors[t].offset, s->tensors[t].rows * s->tensors[t].columns);
    return slow;
}

static void slow_free(struct slow_picture *slow)
{
    free(slow->output);
    free((void *)(uintptr_t)slow->weighting);
    free((void *)(uintptr_t)slow->kept);
    for (size_t i = 0; i < LAYER_INPUTS; i++)
        free(slow->inputs[i]);
    for (size_t t = 0; t < LAYER_TENSORS; t++)
        free(slow->tensors[t]);
}

static void expect_near(const char *what, const struct kind_row *row, uint64_t trial, size_t i, double got, double want)
{
    if (!(fabs(got - want) <= 2e-4 * (1 + fabs(want))))
        fail_msg("%s, trial %llu: %s %zu is %g, not %g", row->name, (unsigned long long)trial, what, i, got, want);
}

static double slope_at(struct slow_picture *slow, double *x)
{
    const double before = *x, step = 1e-6;
    *x = before + step;
    const double above = slow_picture_forward(slow);
    *x = before - step;
    const double below = slow_picture_forward(slow);
    *x = before;
    return (above - below) / (2 * step);
}

static void check_gradients(const struct stand *s, const struct results *results, const struct kind_row *row,
                            uint64_t trial, uint64_t *seed)
{
    enum { SOME = 12 };
    struct slow_picture slow = slow_of(s);
    const double loss = slow_picture_forward(&slow);
    for (size_t i = 0; i < s->outputs; i++)
        expect_near("output", row, trial, i, (double)((const float *)s->pass.base.output)[i], slow.output[i]);
    if (s->outputs == 0)
        expect_near("loss", row, trial, 0, (double)s->loss, loss);
    for (uint32_t k = 0; k < s->layer.input_count; k++)
        for (size_t n = 0; n < SOME; n++) {
            const size_t i = random_below(seed, s->inputs[k]);
            expect_near("input gradient", row, trial, i, (double)results->inputs[k][i], slope_at(&slow, &slow.inputs[k][i]));
        }
    for (size_t t = 0; t < s->tensor_count; t++)
        for (size_t n = 0; n < SOME; n++) {
            const size_t i = random_below(seed, s->tensors[t].rows * s->tensors[t].columns);
            expect_near(s->tensors[t].name, row, trial, i, (double)results->gradients[s->tensors[t].offset + i],
                        slope_at(&slow, &slow.tensors[t][i]));
        }
    slow_free(&slow);
}

static void run_trial(const struct kind_row *row, uint64_t trial, struct device *device, struct queue *queue)
{
    uint64_t seed = trial * 77 + 5;
    struct error error = { 0 };
    struct stand s;
    stand_up(&s, row, device, queue, &seed);
    s.pass.base.workspace = s.workspace;
    layer_forward(&s.layer, &s.pass);
    const struct results whole = results_of(&s), halves = results_of(&s);
    const struct layer_pass pass = backward_pass(&s, &whole);
    layer_backward(&s.layer, &pass);
    assert_good(queue_wait(queue, &error), error);
    check_gradients(&s, &whole, row, trial, &seed);
    run_halves(&s, &halves);
    assert_good(queue_wait(queue, &error), error);
    assert_memory_equal(whole.gradients, halves.gradients, s.sizes.gradient_bytes);
    for (uint32_t i = 0; i < s.layer.input_count; i++)
        assert_memory_equal(whole.inputs[i], halves.inputs[i], 4 * s.inputs[i]);
    stand_down(&s);
}

static void passes_are_those_of_loops_in_double(void **state)
{
    const struct kind_row *row = *state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    struct queue *queue = device ? queue_create(device, &error) : NULL;
    assert_good(queue, error);
    for (uint64_t trial = 0; trial < test_trials(40, 4000); trial++)
        run_trial(row, trial, device, queue);
    queue_free(queue);
    device_close(device);
}

// --- state -----------------------------------------------------------------------------------

// The fold of several micro-batches is one pass over all of their rows.
static void running_statistics_are_those_of_all_pictures(void **state)
{
    (void)state;
    enum { BATCHES = 3, CHANNELS = 5, BATCH = 4, PIXELS = 6, ROWS_EACH = BATCH * PIXELS };
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    struct queue *queue = device ? queue_create(device, &error) : NULL;
    assert_good(queue, error);
    struct layer layer = { .name = "norm", .kind = &layer_batch_norm, .input_count = 1 };
    layer.shape = (struct layer_shape){ .batch = BATCH, .sequence = PIXELS, .in = CHANNELS, .out = CHANNELS,
                                        .picture = { .height = 2, .width = 3, .groups = 1 } };
    const struct layer_sizes sizes = layer_sizes(&layer);
    float input[BATCHES][ROWS_EACH * CHANNELS], output[1024], saved[1024], parameters[1024] = { 0 };
    float statistics[BATCHES][256], running[1024];
    const void *given[BATCHES];
    static const uint32_t numbers[BATCHES] = { 0, 1, 2 };
    static const size_t counted[BATCHES] = { 4, 4, 3 };
    uint64_t seed = 3;
    double sum[CHANNELS] = { 0 }, squares[CHANNELS] = { 0 }, rows_in_all = 0;
    assert_true(sizes.state_bytes <= sizeof running && sizes.statistics_bytes <= sizeof statistics[0]);
    layer_initialize(&layer, queue, parameters, 1);
    layer_initialize_state(&layer, queue, running);
    for (int b = 0; b < BATCHES; b++) {
        for (int i = 0; i < ROWS_EACH * CHANNELS; i++)
            input[b][i] = (float)(3 * random_unit(&seed) + i % CHANNELS);
        const struct layer_pass pass = { .base = { .queue = queue, .parameters = parameters, .input = input[b],
                                                   .output = output, .saved = saved, .statistics = statistics[b],
                                                   .samples = counted[b] }, .training = true };
        layer_forward(&layer, &pass);
        given[b] = statistics[b];
        for (size_t r = 0; r < counted[b] * PIXELS; r++, rows_in_all++)
            for (int c = 0; c < CHANNELS; c++)
                sum[c] += (double)input[b][r * CHANNELS + (size_t)c];
    }
    for (int b = 0; b < BATCHES; b++)
        for (size_t r = 0; r < counted[b] * PIXELS; r++)
            for (int c = 0; c < CHANNELS; c++)
                squares[c] += pow((double)input[b][r * CHANNELS + (size_t)c] - sum[c] / rows_in_all, 2);
    layer_fold(&layer, &(struct weir_fold){ .queue = queue, .state = running, .statistics = given,
                                            .micro_batches = numbers, .count = BATCHES });
    assert_good(queue_wait(queue, &error), error);
    struct weir_tensor states[LAYER_TENSORS];
    assert_int_equal(layer_states(&layer, states), 2);
    for (int c = 0; c < CHANNELS; c++) {
        const float mean = running[states[0].first_byte / 4 + (size_t)c];
        const float variance = running[states[1].first_byte / 4 + (size_t)c];
        assert_true(fabs((double)mean - 0.1 * sum[c] / rows_in_all) < 1e-6);
        assert_true(fabs((double)variance - 0.9 - 0.1 * squares[c] / (rows_in_all - 1)) < 1e-6);
    }
    // An evaluation computes with these.
    const struct layer_pass evaluated = { .base = { .queue = queue, .parameters = parameters, .input = input[0],
                                                    .output = output, .saved = saved, .state = running } };
    layer_forward(&layer, &evaluated);
    assert_good(queue_wait(queue, &error), error);
    for (int i = 0; i < ROWS_EACH * CHANNELS; i++) {
        const size_t c = (size_t)i % CHANNELS;
        const double mean = (double)running[c], variance = (double)running[states[1].first_byte / 4 + c];
        assert_true(fabs((double)output[i] - ((double)input[0][i] - mean) / sqrt(variance + 1e-5)) < 1e-5);
    }
    queue_free(queue);
    device_close(device);
}

// Nor does a row without a target have a loss.
static void an_evaluation_of_a_yes_or_no_has_no_gradient(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    struct queue *queue = device ? queue_create(device, &error) : NULL;
    assert_good(queue, error);
    struct layer layer = { .name = "it", .kind = &layer_binary_cross_entropy, .input_count = 1 };
    layer.shape = (struct layer_shape){ .batch = 4, .sequence = 1, .in = 1, .precision = PRECISION_FP32 };
    static float workspace[256], saved[64];
    const float logits[4] = { -16, 0, 0, 1 };
    const int32_t targets[4] = { 0, 1, NO_TARGET, 1 };
    float loss;
    const struct layer_pass pass = {
        .base = { .queue = queue, .input = logits, .saved = saved, .workspace = workspace, .loss = &loss },
        .targets = targets, .loss_weight = 1, .keeps_logits = true,
    };
    assert_true(layer_sizes(&layer).workspace_bytes <= sizeof workspace);
    layer_forward(&layer, &pass);
    assert_good(queue_wait(queue, &error), error);
    assert_true(fabs((double)loss - log1p(exp(-16.)) - log(2) - log1p(exp(-1.))) < 1e-6);
    for (size_t i = 0; i < 4; i++)
        assert_true(saved[i] == 0);
    queue_free(queue);
    device_close(device);
}

int main(void)
{
    struct CMUnitTest tests[ROWS + 2];
    for (size_t i = 0; i < ROWS; i++)
        tests[i] = (struct CMUnitTest){ rows[i].name, passes_are_those_of_loops_in_double, NULL, NULL,
                                        (void *)(uintptr_t)&rows[i] };
    tests[ROWS] = (struct CMUnitTest)cmocka_unit_test(running_statistics_are_those_of_all_pictures);
    tests[ROWS + 1] = (struct CMUnitTest)cmocka_unit_test(an_evaluation_of_a_yes_or_no_has_no_gradient);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
