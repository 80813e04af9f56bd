#include "models/shards.h"

#include <stdio.h>

#include "tests/models/slow_gradients.h"
#include "tests/test.h"

enum { MOST = 4 };

// A layer whole, and all its shards with memory of their own.
struct piece {
    struct layer layer;
    size_t first, numbers;  // of the layer's input and output, those that it has
    struct layer_sizes sizes;
    unsigned char *parameters;
    float *gradients;
    struct values *output, *input_gradient;
    void *saved, *held, *workspace;
    float loss;
};

struct stand {
    struct device *device;
    struct queue *queue;
    struct piece whole, shards[MOST];
    struct layer layers[MOST];
    struct layer_pass passes[MOST];
    size_t count, numbers, number_bytes;
    struct values *input, *output_gradient;
    int32_t *words;  // tokens, and targets
    double *input_numbers, *gradient_numbers;
};

static const struct row {
    const char *name, *device;
    const struct layer_kind *kind;
    size_t shards;
    float dropout;
    double tolerance;
    size_t vocabulary, padding;  // of embedding and head
    bool shares_rows;
    struct attention_pattern pattern;
} rows[] = {
    { "attention in 1", "cpu", &layer_attention, 1, 0, 2e-5, 0, 0, false, { 0 } },
    { "attention in 2", "cpu", &layer_attention, 2, 0, 2e-5, 0, 0, false, { 0 } },
    { "attention in 3 with dropout", "cpu", &layer_attention, 3, 0.3f, 2e-5, 0, 0, false, { 0 } },
    { "attention in 2 of bfloat16", "cpu:bf16", &layer_attention, 2, 0, 2e-2, 0, 0, false, { 0 } },
    { "attention in 2 on a queue that runs ahead", "cpu:queued", &layer_attention, 2, 0, 2e-5, 0, 0, false, { 0 } },
    { "mlp in 2", "cpu", &layer_mlp, 2, 0, 2e-5, 0, 0, false, { 0 } },
    { "mlp in 4 with dropout", "cpu", &layer_mlp, 4, 0.3f, 2e-5, 0, 0, false, { 0 } },
    { "mlp in 3 of bfloat16", "cpu:bf16", &layer_mlp, 3, 0, 2e-2, 0, 0, false, { 0 } },
    { "embedding in 2 with dropout", "cpu", &layer_embedding, 2, 0.3f, 2e-5, 12, 0, false, { 0 } },
    { "embedding in 3, padded", "cpu", &layer_embedding, 3, 0, 2e-5, 13, 2, false, { 0 } },
    { "embedding in 4 of bfloat16", "cpu:bf16", &layer_embedding, 4, 0, 2e-2, 12, 0, false, { 0 } },
    { "head in 2", "cpu", &layer_head, 2, 0, 2e-5, 22, 0, false, { 0 } },
    { "head in 3, padded", "cpu:queued", &layer_head, 3, 0, 2e-5, 22, 2, false, { 0 } },
    { "head in 4 of bfloat16", "cpu:bf16", &layer_head, 4, 0, 2e-2, 12, 0, false, { 0 } },
    { "attention in 2 that share rows", "cpu", &layer_attention, 2, 0, 2e-5, 0, 0, true, { 0 } },
    { "attention in 3 that share rows, with dropout", "cpu:queued", &layer_attention, 3, 0.3f,
      2e-5, 0, 0, true, { 0 } },
    { "attention in 2 of bfloat16 that share rows", "cpu:bf16", &layer_attention, 2, 0, 2e-2, 0, 0, true, { 0 } },
    { "mlp in 2 that share rows", "cpu:queued", &layer_mlp, 2, 0, 2e-5, 0, 0, true, { 0 } },
    { "mlp in 4 that share rows, with dropout", "cpu", &layer_mlp, 4, 0.3f, 2e-5, 0, 0, true, { 0 } },
    { "embedding in 2 that share rows, with dropout", "cpu", &layer_embedding, 2, 0.3f, 2e-5, 12, 0, true, { 0 } },
    { "embedding in 3 that share rows, padded", "cpu", &layer_embedding, 3, 0, 2e-5, 13, 2, true, { 0 } },
    { "embedding in 2 that share rows, all words in each", "cpu", &layer_embedding, 2, 0.3f, 2e-5, 13, 0, true, { 0 } },
    { "head in 2 that share rows, all words in each", "cpu", &layer_head, 2, 0, 2e-5, 21, 2, true, { 0 } },
    { "head in 2 that share rows", "cpu", &layer_head, 2, 0, 2e-5, 22, 0, true, { 0 } },
    { "head in 3 that share rows, padded", "cpu:queued", &layer_head, 3, 0, 2e-5, 22, 2, true, { 0 } },
    { "head in 4 of bfloat16 that share rows", "cpu:bf16", &layer_head, 4, 0, 2e-2, 12, 0, true, { 0 } },
    { "attention in 2 with a pattern", "cpu", &layer_attention, 2, 0.3f, 2e-5, 0, 0, false,
      { .window = 3, .stride = 4, .block = 1 } },
    { "attention in 3 that share rows, with a pattern", "cpu:queued", &layer_attention, 3, 0, 2e-5, 0, 0, true,
      { .window = 2, .global = 1 } },
};

static void *take(const struct stand *s, uint64_t bytes)
{
    struct error error = { 0 };
    void *memory = device_allocate(s->device, bytes + 256, &error);
    assert_good(memory, error);
    memset(memory, 0xff, bytes);  // NaN
    return memory;
}

static void piece_open(const struct stand *s, struct piece *piece)
{
    struct error error = { 0 };
    assert_good(layer_ask(&piece->layer, s->device, &error), error);
    piece->sizes = layer_sizes(&piece->layer);
    piece->parameters = take(s, piece->sizes.parameter_bytes);
    piece->gradients = take(s, piece->sizes.gradient_bytes);
    memset(piece->gradients, 0, piece->sizes.gradient_bytes);
    piece->output = take(s, piece->sizes.output_bytes);
    piece->numbers = s->numbers / (piece->layer.shape.shares_rows ? s->count : 1);
    piece->first = piece->layer.shape.shares_rows ? piece->layer.shape.shard * piece->numbers : 0;
    piece->input_gradient = take(s, piece->numbers * s->number_bytes);
    piece->saved = take(s, piece->sizes.saved_bytes);
    piece->held = take(s, piece->sizes.held_for_weight_bytes);
    const uint64_t forward = piece->sizes.workspace_bytes, backward = piece->sizes.backward_workspace_bytes;
    piece->workspace = take(s, forward > backward ? forward : backward);
}

static void piece_close(const struct stand *s, struct piece *piece)
{
    void *all[] = { piece->parameters, piece->gradients, piece->output, piece->input_gradient, piece->saved,
                    piece->held, piece->workspace };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_release(s->device, all[i]);
}

static double number_of(const struct stand *s, const void *values, size_t i)
{
    float number;
    kernel_widen(s->queue, &number, values_at(values, device_precision(s->device), i), 1);
    struct error error = { 0 };
    assert_good(queue_wait(s->queue, &error), error);
    return (double)number;
}

static double *numbers_of(const struct stand *s, const void *values, size_t count)
{
    double *numbers = slow_zeros(count + 1);
    for (size_t i = 0; i < count; i++)
        numbers[i] = number_of(s, values, i);
    return numbers;
}

static struct layer whole_of(const struct row *row, enum precision precision)
{
    return (struct layer){ .name = "it", .kind = row->kind, .index = 3,
                           .shape = { .batch = 2, .sequence = row->shares_rows ? 8 * row->shards : 5, .in = 24, .out = 24, .heads = 6, .branches = 4,
                                      .pattern = row->pattern, .vocabulary = row->vocabulary, .padding = row->padding,
                                      .dropout = row->dropout, .precision = precision } };
}

static struct layer_pass pass_of(const struct stand *s, struct piece *piece)
{
    const enum precision precision = device_precision(s->device);
    return (struct layer_pass){
        .base = { .queue = s->queue, .step = 6, .micro_batch = 7, .parameters = piece->parameters,
                  .gradients = piece->gradients, .input = values_at(s->input, precision, piece->first),
                  .input_gradient = piece->input_gradient, .output = piece->output,
                  .output_gradient = values_at(s->output_gradient, precision, piece->first), .saved = piece->saved,
                  .held = piece->held, .workspace = piece->workspace,
                  .loss = piece->layer.kind == &layer_head ? &piece->loss : NULL },
        .seed = 5, .training = true, .tokens = s->words, .targets = s->words, .loss_weight = 0.1f,
    };
}

// With a layer like this one.
static void stand_up_of(struct stand *s, const struct row *row, const struct layer *like)
{
    struct error error = { 0 };
    *s = (struct stand){ .device = device_open(row->device, &error), .count = row->shards };
    assert_good(s->device, error);
    s->queue = queue_create(s->device, &error);
    assert_good(s->queue, error);
    s->number_bytes = precision_bytes(device_precision(s->device));
    const struct layer whole = like ? *like : whole_of(row, device_precision(s->device));
    const struct sharding sharding = { .shards = s->count, .shares_rows = row->shares_rows };
    s->whole.layer = whole;
    s->numbers = whole.shape.batch * whole.shape.sequence * whole.shape.out;
    s->input = take(s, s->numbers * s->number_bytes);
    s->output_gradient = take(s, s->numbers * s->number_bytes);
    kernel_fill_normal(s->queue, s->input, 0.7f, 1, 0, s->numbers);
    kernel_fill_normal(s->queue, s->output_gradient, 0.7f, 2, 0, s->numbers);
    s->words = take(s, s->numbers * sizeof(int32_t));
    for (size_t i = 0; i < whole.shape.batch * whole.shape.sequence; i++)
        s->words[i] = (int32_t)(whole.shape.vocabulary > 0 ? (7 * i + 1) % whole.shape.vocabulary : 0);
    piece_open(s, &s->whole);
    kernel_fill_normal(s->queue, (struct values *)s->whole.parameters, 0.3f, 3, 0,
                       s->whole.sizes.parameter_bytes / s->number_bytes);
    assert_good(queue_wait(s->queue, &error), error);
    for (size_t i = 0; i < s->count; i++) {
        assert_good(layer_shard(&whole, sharding, i, &s->shards[i].layer, &error), error);
        piece_open(s, &s->shards[i]);
        shard_cut(&s->shards[i].layer, s->number_bytes, s->shards[i].parameters, s->whole.parameters);
        s->layers[i] = s->shards[i].layer;
        s->passes[i] = pass_of(s, &s->shards[i]);
    }
    s->input_numbers = numbers_of(s, s->input, s->numbers);
    s->gradient_numbers = numbers_of(s, s->output_gradient, s->numbers);
}

static void stand_up(struct stand *s, const struct row *row)
{
    stand_up_of(s, row, NULL);
}

static void sit_down(struct stand *s)
{
    for (size_t i = 0; i < s->count; i++)
        piece_close(s, &s->shards[i]);
    piece_close(s, &s->whole);
    device_release(s->device, s->input);
    device_release(s->device, s->output_gradient);
    device_release(s->device, s->words);
    free(s->input_numbers);
    free(s->gradient_numbers);
    queue_free(s->queue);
    device_close(s->device);
}

static void settle(const struct stand *s)
{
    struct error error = { 0 };
    assert_good(queue_wait(s->queue, &error), error);
}

// Of so many numbers, as a whole: what is rounded on the way may be larger than what comes out.
static void expect_near(const char *what, const double *got, const double *want, size_t count, double tolerance)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        off += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
    }
    if (!(sqrt(off) <= tolerance * sqrt(size)))
        fail_msg("%s is off by %g, and %g long", what, sqrt(off), sqrt(size));
}

static double *kept_of(const struct stand *s)
{
    const struct dropout dropout = { .probability = s->whole.layer.shape.dropout, .key = dropout_key(5, 6, 7, 3) };
    struct values *ones = take(s, s->numbers * s->number_bytes);
    kernel_fill(s->queue, ones, 1, s->numbers);
    kernel_dropout(s->queue, ones, ones, s->numbers, dropout);
    double *kept = numbers_of(s, ones, s->numbers);
    device_release(s->device, ones);
    return kept;
}

// What the shards have of the gradients, in the whole layer's places; those that all have alike, bit for bit.
static float *joined_gradients(const struct stand *s)
{
    float *joined = calloc(1, s->whole.sizes.gradient_bytes);
    assert_non_null(joined);
    for (size_t i = 0; i < s->count; i++)
        shard_join(&s->layers[i], sizeof(float), s->shards[i].gradients, joined);
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(&s->layers[0], tensors);
    for (size_t t = 0; t < count; t++)
        for (size_t i = 1; tensors[t].split == SPLIT_NONE && i < s->count; i++)
            assert_memory_equal(s->shards[i].gradients + tensors[t].offset,
                                s->shards[0].gradients + tensors[t].offset,
                                tensors[t].rows * tensors[t].columns * sizeof(float));
    return joined;
}

static void compare_with_double(const struct stand *s, const struct row *row)
{
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(&s->whole.layer, tensors);
    double *parameters[LAYER_TENSORS] = { NULL };
    struct slow_gradients exact = { .input = slow_zeros(s->numbers) };
    for (size_t t = 0; t < count; t++) {
        const size_t numbers = tensors[t].rows * tensors[t].columns;
        parameters[t] = numbers_of(s, values_at((void *)s->whole.parameters, device_precision(s->device),
                                                tensors[t].offset), numbers);
        exact.tensors[t] = slow_zeros(numbers);
    }
    double *kept = kept_of(s);
    const struct slow_layer slow = { .layer = &s->whole.layer, .kept = kept, .weighting = s->gradient_numbers,
                                     .output = slow_zeros(s->numbers) };
    slow_forward(&slow, parameters, s->input_numbers);
    slow_backward(&slow, parameters, s->input_numbers, &exact);
    float *gradients = joined_gradients(s);
    for (size_t i = 0; i < s->count; i++) {
        const struct piece *shard = &s->shards[i];
        double *output = numbers_of(s, shard->output, shard->numbers);
        double *gradient = numbers_of(s, shard->input_gradient, shard->numbers);
        expect_near("output", output, slow.output + shard->first, shard->numbers, row->tolerance);
        expect_near("input's gradient", gradient, exact.input + shard->first, shard->numbers, row->tolerance);
        free(output);
        free(gradient);
    }
    for (size_t t = 0; t < count; t++) {
        const size_t numbers = tensors[t].rows * tensors[t].columns;
        double *got = slow_zeros(numbers);
        for (size_t i = 0; i < numbers; i++)
            got[i] = (double)gradients[tensors[t].offset + i];
        expect_near(tensors[t].name, got, exact.tensors[t], numbers, row->tolerance);
        free(got);
        free(parameters[t]);
        free(exact.tensors[t]);
    }
    free(gradients);
    free(kept);
    free(slow.output);
    free(exact.input);
}

// Words are compared with the layer itself: what words compute in double is test_layers' to say.
static void compare_with_whole(const struct stand *s, const struct row *row, struct piece *whole)
{
    const bool is_head = row->kind == &layer_head;
    const size_t numbers = whole->sizes.gradient_bytes / sizeof(float);
    const struct layer_pass pass = pass_of(s, whole);
    layer_forward(&whole->layer, &pass);
    layer_backward(&whole->layer, &pass);
    settle(s);
    double *want = numbers_of(s, is_head ? whole->input_gradient : whole->output, s->numbers);
    for (size_t i = 0; i < s->count; i++) {
        const struct piece *shard = &s->shards[i];
        double *got = numbers_of(s, is_head ? shard->input_gradient : shard->output, shard->numbers);
        expect_near(is_head ? "input's gradient" : "output", got, want + shard->first, shard->numbers, row->tolerance);
        free(got);
    }
    free(want);
    if (is_head)
        expect_near("loss", &(double){ (double)s->shards[0].loss }, &(double){ (double)whole->loss }, 1, row->tolerance);
    float *joined = joined_gradients(s);
    double *got = slow_zeros(numbers), *gradient = slow_zeros(numbers);
    for (size_t i = 0; i < numbers; i++) {
        got[i] = (double)joined[i];
        gradient[i] = (double)whole->gradients[i];
    }
    expect_near("gradients", got, gradient, numbers, row->tolerance);
    free(got);
    free(gradient);
    free(joined);
}

static void all_shards_together_compute_the_layer(void **state)
{
    const struct row *row = *state;
    struct stand s;
    stand_up(&s, row);
    shards_forward(s.layers, s.passes, s.count);
    shards_backward(s.layers, s.passes, s.count);
    settle(&s);
    if (row->vocabulary > 0)
        compare_with_whole(&s, row, &s.whole);
    else
        compare_with_double(&s, row);
    sit_down(&s);
}

static void b_of_shards_is_i_and_then_w(void **state)
{
    struct stand s;
    stand_up(&s, *state);
    shards_forward(s.layers, s.passes, s.count);
    shards_backward(s.layers, s.passes, s.count);
    settle(&s);
    struct stand halves;
    stand_up(&halves, *state);
    shards_forward(halves.layers, halves.passes, halves.count);
    shards_backward_input(halves.layers, halves.passes, halves.count);
    shards_backward_weight(halves.layers, halves.passes, halves.count);
    settle(&halves);
    for (size_t i = 0; i < s.count; i++) {
        assert_memory_equal(s.shards[i].gradients, halves.shards[i].gradients, s.shards[i].sizes.gradient_bytes);
        if (s.layers[i].kind != &layer_embedding)
            assert_memory_equal(s.shards[i].input_gradient, halves.shards[i].input_gradient,
                                s.shards[i].numbers * s.number_bytes);
    }
    sit_down(&s);
    sit_down(&halves);
}

static void a_single_shard_is_the_layer_bit_for_bit(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct stand s;
        struct row row = rows[r];
        row.shards = 1;
        row.shares_rows = false;
        stand_up(&s, &row);
        const struct layer_pass pass = pass_of(&s, &s.whole);
        layer_forward(&s.whole.layer, &pass);
        layer_backward(&s.whole.layer, &pass);
        shards_forward(s.layers, s.passes, 1);
        shards_backward(s.layers, s.passes, 1);
        settle(&s);
        if (row.kind != &layer_head)
            assert_memory_equal(s.whole.output, s.shards[0].output, s.numbers * s.number_bytes);
        assert_memory_equal(s.whole.gradients, s.shards[0].gradients, s.whole.sizes.gradient_bytes);
        sit_down(&s);
    }
}

// Products are of the same rows in the same order, and what is between them is of each row by itself.
static void sharing_rows_changes_the_bits_of_norm_gradients_alone(void **state)
{
    const struct row *row = *state;
    struct row twin_row = *row;
    struct stand s, twin;
    if (row->vocabulary > 0 && (row->vocabulary + row->padding) % row->shards != 0)
        return;  // there are no shards of the other kind
    twin_row.shares_rows = false;
    stand_up(&s, row);
    struct layer whole = s.whole.layer;
    whole.has_asked = false;
    stand_up_of(&twin, &twin_row, &whole);
    for (struct stand *of = &s; of; of = of == &s ? &twin : NULL) {
        shards_forward(of->layers, of->passes, of->count);
        shards_backward(of->layers, of->passes, of->count);
        settle(of);
    }
    for (size_t i = 0; i < s.count; i++) {
        const struct piece *own = &s.shards[i], *all = &twin.shards[i];
        const size_t at = own->first * s.number_bytes, bytes = own->numbers * s.number_bytes;
        if (row->kind != &layer_head)
            assert_memory_equal(own->output, (char *)all->output + at, bytes);
        if (row->kind != &layer_embedding)
            assert_memory_equal(own->input_gradient, (char *)all->input_gradient + at, bytes);
        struct tensor tensors[LAYER_TENSORS];
        const size_t count = layer_tensors(&own->layer, tensors);
        for (size_t t = 0; t < count; t++)
            if (strncmp(tensors[t].name, "norm.", 5) != 0)
                assert_memory_equal(own->gradients + tensors[t].offset, all->gradients + tensors[t].offset,
                                    tensors[t].rows * tensors[t].columns * sizeof(float));
    }
    assert_true(row->kind != &layer_head || s.shards[0].loss == twin.shards[0].loss);
    sit_down(&s);
    sit_down(&twin);
}

static void shards_begin_as_what_is_cut_from_the_layer(void **state)
{
    struct stand s;
    stand_up(&s, *state);
    layer_initialize(&s.whole.layer, s.queue, s.whole.parameters, 11);
    settle(&s);
    unsigned char *back = calloc(1, s.whole.sizes.parameter_bytes);
    assert_non_null(back);
    for (size_t i = 0; i < s.count; i++) {
        const uint64_t bytes = s.shards[i].sizes.parameter_bytes;
        unsigned char *cut = calloc(1, bytes);
        assert_non_null(cut);
        layer_initialize(&s.layers[i], s.queue, s.shards[i].parameters, 11);
        settle(&s);
        shard_cut(&s.layers[i], s.number_bytes, cut, s.whole.parameters);
        assert_memory_equal(s.shards[i].parameters, cut, bytes);
        shard_join(&s.layers[i], s.number_bytes, cut, back);
        free(cut);
    }
    assert_memory_equal(back, s.whole.parameters, s.whole.sizes.parameter_bytes);
    free(back);
    sit_down(&s);
}

// As norms are taken of: all that the first shard has, and of the others what is their own.
static void every_parameter_is_counted_once(void **state)
{
    struct stand s;
    const struct row *row = *state;
    stand_up(&s, row);
    double squares = 0, whole = 0;
    for (size_t i = 0; i < s.count; i++) {
        uint64_t first = 0, end = s.shards[i].sizes.parameter_bytes / s.number_bytes;
        memset(s.shards[i].parameters, 0, s.shards[i].sizes.parameter_bytes);
        shard_cut(&s.layers[i], s.number_bytes, s.shards[i].parameters, s.whole.parameters);
        if (i > 0)
            shard_own_range(&s.layers[i], &first, &end);
        for (uint64_t n = first; n < end; n++)
            squares += pow(number_of(&s, s.shards[i].parameters, n), 2);
    }
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(&s.whole.layer, tensors);
    for (size_t t = 0; t < count; t++)
        for (size_t n = 0; n < tensors[t].rows * tensors[t].columns; n++)
            whole += pow(number_of(&s, s.whole.parameters, tensors[t].offset + n), 2);
    assert_true(whole > 0 && fabs(squares - whole) <= 1e-9 * whole);
    sit_down(&s);
}

static void shards_share_the_work(void **state)
{
    const struct row *row = *state;
    struct stand s;
    stand_up(&s, *state);
    uint64_t flops = 0;
    const bool has_all = row->vocabulary > 0 && (row->vocabulary + row->padding) % s.count != 0;
    for (size_t i = 0; i < s.count; i++) {
        flops += s.shards[i].sizes.flops;
        assert_true(s.shards[i].sizes.output_bytes * (s.layers[i].shape.shares_rows ? s.count : 1)
                    == s.whole.sizes.output_bytes);
        assert_true(s.count == 1 || has_all
                    || s.shards[i].sizes.parameter_bytes < s.whole.sizes.parameter_bytes);
    }
    assert_true(flops == s.whole.sizes.flops * (has_all ? s.count : 1));
    sit_down(&s);
}

static void what_cannot_be_shared_evenly_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct layer layer;
    const struct layer attention = whole_of(&rows[0], PRECISION_FP32);
    assert_false(layer_shard(&attention, (struct sharding){ .shards = 4 }, 0, &layer, &error));
    assert_string_equal(error.text, "layer it: 6 heads cannot be shared by 4 shards");
    error = (struct error){ 0 };
    const struct layer mlp = whole_of(&rows[5], PRECISION_FP32);
    assert_false(layer_shard(&mlp, (struct sharding){ .shards = 5 }, 0, &layer, &error));
    assert_string_equal(error.text, "layer it: 96 inner columns cannot be shared by 5 shards");
    error = (struct error){ 0 };
    assert_false(layer_shard(&mlp, (struct sharding){ .shards = 96 }, 0, &layer, &error));
    assert_string_equal(error.text, "layer it: 96 shards are more than 64");
    error = (struct error){ 0 };
    assert_false(layer_shard(&mlp, (struct sharding){ .shards = 2, .shares_rows = true }, 0, &layer, &error));
    assert_string_equal(error.text, "layer it: 10 rows of 24 numbers cannot be shared by 2 shards as tensors of a multiple"
                        " of 256 bytes");
    assert_false(layer_can_be_split(&(struct layer){ .kind = &layer_linear }, (struct sharding){ .shards = 2 }));
    const struct sharding sequence_parallel = { .shards = 2, .shares_rows = true };
    assert_false(layer_can_be_split(&(struct layer){ .kind = &layer_linear }, sequence_parallel));
    struct layer head = { .kind = &layer_head, .shape = { .vocabulary = 13 } };
    assert_false(layer_can_be_split(&head, (struct sharding){ .shards = 2 }));
    assert_true(layer_can_be_split(&head, sequence_parallel));
    head.shape.padding = 3;
    assert_true(layer_can_be_split(&head, (struct sharding){ .shards = 4 }));
    assert_false(layer_can_be_split(&head, (struct sharding){ .shards = 8 }));  // the last would have two words, of padding
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0], EACH = 6 };
    static const struct {
        const char *name;
        CMUnitTestFunction function;
    } of_each[EACH] = {
        { "all shards together compute the layer", all_shards_together_compute_the_layer },
        { "B of shards is I and then W", b_of_shards_is_i_and_then_w },
        { "shards begin as what is cut from the layer", shards_begin_as_what_is_cut_from_the_layer },
        { "every parameter is counted once", every_parameter_is_counted_once },
        { "shards share the work", shards_share_the_work },
        { "sharing rows changes the bits of norm gradients alone",
          sharing_rows_changes_the_bits_of_norm_gradients_alone },
    };
    static char names[ROWS * EACH][120];
    struct CMUnitTest tests[ROWS * EACH + 2] = {
        [ROWS * EACH] = cmocka_unit_test(a_single_shard_is_the_layer_bit_for_bit),
        [ROWS * EACH + 1] = cmocka_unit_test(what_cannot_be_shared_evenly_is_refused),
    };
    for (size_t i = 0; i < ROWS * EACH; i++) {
        snprintf(names[i], sizeof names[i], "%s: %s", rows[i / EACH].name, of_each[i % EACH].name);
        tests[i] = (struct CMUnitTest){ names[i], of_each[i % EACH].function, NULL, NULL,
                                        (void *)(uintptr_t)&rows[i / EACH] };
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
