// Members with rows of their own (models/shards.h): each computes its share of the samples of a micro-batch with whole
// weights. Their outputs side by side, the sums of their gradients, and the sum of their losses are those of the whole
// layer. A member with fewer samples than others has a slot that repeats its last sample, and does not count.
#include "models/shards.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"

enum { BATCH = 5, SEQUENCE = 4, WIDTH = 24, WORDS = 12, MOST = 4 };

static const struct case_row {
    const struct layer_kind *kind;
    float dropout;
    const char *device;
} cases[] = {
    { &layer_attention, 0, "cpu" },        { &layer_attention, 0.3f, "cpu:queued" }, { &layer_mlp, 0.3f, "cpu" },
    { &layer_linear, 0, "cpu" },           { &layer_relu, 0, "cpu" },                { &layer_dropout, 0.4f, "cpu" },
    { &layer_embedding, 0.3f, "cpu" },     { &layer_head, 0, "cpu" },                { &layer_head, 0, "cpu:queued" },
};

// A layer with memory of its own.
struct piece {
    struct layer layer;
    struct layer_sizes sizes;
    size_t numbers;  // of its input and output
    float *parameters, *gradients, *input, *output, *input_gradient, *output_gradient;
    void *saved, *held, *workspace;
    int32_t *words;
    float loss;
};

struct stand {
    struct device *device;
    struct queue *queue;
    const struct case_row *row;
    struct piece whole, members[MOST];
    size_t count;
};

static void *memory_of(const struct stand *s, uint64_t bytes)
{
    struct error error = { 0 };
    void *memory = device_allocate(s->device, bytes + 256, &error);
    assert_good(memory, error);
    memset(memory, 0, bytes + 256);
    return memory;
}

static void piece_open(const struct stand *s, struct piece *piece)
{
    struct error error = { 0 };
    assert_good(layer_ask(&piece->layer, s->device, &error), error);
    const struct layer_sizes sizes = piece->sizes = layer_sizes(&piece->layer);
    piece->numbers = piece->layer.shape.batch * SEQUENCE * WIDTH;
    piece->parameters = memory_of(s, sizes.parameter_bytes);
    piece->gradients = memory_of(s, sizes.gradient_bytes);
    piece->input = memory_of(s, piece->numbers * sizeof(float));
    piece->output = memory_of(s, piece->numbers * sizeof(float));
    piece->input_gradient = memory_of(s, piece->numbers * sizeof(float));
    piece->output_gradient = memory_of(s, piece->numbers * sizeof(float));
    piece->words = memory_of(s, piece->numbers * sizeof(int32_t));
    piece->saved = memory_of(s, sizes.saved_bytes);
    piece->held = memory_of(s, sizes.held_for_weight_bytes);
    piece->workspace = memory_of(s, sizes.workspace_bytes + sizes.backward_workspace_bytes);
}

static void piece_close(const struct stand *s, struct piece *piece)
{
    void *all[] = { piece->parameters, piece->gradients, piece->input, piece->output, piece->input_gradient,
                    piece->output_gradient, piece->words, piece->saved, piece->held, piece->workspace };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_release(s->device, all[i]);
}

static void settle(const struct stand *s)
{
    struct error error = { 0 };
    assert_good(queue_wait(s->queue, &error), error);
}

// The slot of a member for each of its samples, and for those that are repeated.
static void give_samples(const struct stand *s, struct piece *piece)
{
    enum { NUMBERS = SEQUENCE * WIDTH };
    const struct sample_share share = layer_samples(&piece->layer);
    const bool is_head = s->row->kind == &layer_head;
    for (size_t slot = 0; slot < piece->layer.shape.batch; slot++) {
        const bool counts = slot < share.count;
        const size_t sample = share.first + (counts ? slot : share.count - 1);
        memcpy(piece->input + slot * NUMBERS, s->whole.input + sample * NUMBERS, NUMBERS * sizeof(float));
        if (counts)
            memcpy(piece->output_gradient + slot * NUMBERS, s->whole.output_gradient + sample * NUMBERS,
                   NUMBERS * sizeof(float));
        for (size_t i = 0; i < SEQUENCE; i++)
            piece->words[slot * SEQUENCE + i] =
                counts || !is_head ? (int32_t)((7 * (sample * SEQUENCE + i) + 1) % WORDS) : NO_TARGET;
    }
}

static struct layer_pass pass_of(const struct stand *s, struct piece *piece)
{
    return (struct layer_pass){
        .base = { .queue = s->queue, .step = 6, .micro_batch = 7, .parameters = piece->parameters,
                  .gradients = piece->gradients, .input = piece->input, .input_gradient = piece->input_gradient,
                  .output = piece->output, .output_gradient = piece->output_gradient, .saved = piece->saved,
                  .held = piece->held, .workspace = piece->workspace, .samples = layer_samples(&piece->layer).count,
                  .loss = piece->layer.kind == &layer_head ? &piece->loss : NULL },
        .seed = 5, .training = true, .tokens = piece->words, .targets = piece->words, .loss_weight = 0.1f,
    };
}

static void stand_up(struct stand *s, const struct case_row *row, size_t members)
{
    struct error error = { 0 };
    *s = (struct stand){ .row = row, .count = members, .device = device_open(row->device, &error) };
    assert_good(s->device, error);
    s->queue = queue_create(s->device, &error);
    assert_good(s->queue, error);
    s->whole.layer = (struct layer){ .name = "it", .kind = row->kind, .index = 3, .input_count = 1,
                                     .input_widths = { WIDTH },
                                     .shape = { .batch = BATCH, .sequence = SEQUENCE, .in = WIDTH, .out = WIDTH,
                                                .heads = 6, .branches = 4, .vocabulary = WORDS,
                                                .dropout = row->dropout } };
    const struct layer whole = s->whole.layer;
    piece_open(s, &s->whole);
    kernel_fill_normal(s->queue, (struct values *)(void *)s->whole.input, 0.7f, 1, 0, s->whole.numbers);
    kernel_fill_normal(s->queue, (struct values *)(void *)s->whole.output_gradient, 0.7f, 2, 0, s->whole.numbers);
    layer_initialize(&s->whole.layer, s->queue, s->whole.parameters, 11);
    settle(s);
    give_samples(s, &s->whole);
    for (size_t m = 0; m < members; m++) {
        struct piece *member = &s->members[m];
        assert_good(layer_shard(&whole, (struct sharding){ .shards = members, .owns_rows = true }, m, &member->layer,
                                &error), error);
        piece_open(s, member);
        layer_initialize(&member->layer, s->queue, member->parameters, 11);
        settle(s);
        assert_memory_equal(member->parameters, s->whole.parameters, s->whole.sizes.parameter_bytes);
        give_samples(s, member);
    }
}

static void sit_down(struct stand *s)
{
    for (size_t m = 0; m < s->count; m++)
        piece_close(s, &s->members[m]);
    piece_close(s, &s->whole);
    queue_free(s->queue);
    device_close(s->device);
}

static void expect_near(const char *what, const float *got, const float *want, size_t count)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        off += pow((double)got[i] - (double)want[i], 2);
        size += pow((double)want[i], 2);
    }
    if (!(sqrt(off) <= 2e-6 * sqrt(size)))
        fail_msg("%s is off by %g, and %g long", what, sqrt(off), sqrt(size));
}

static void compare_samples(const struct stand *s)
{
    enum { NUMBERS = SEQUENCE * WIDTH };
    for (size_t m = 0; m < s->count; m++) {
        const struct piece *member = &s->members[m];
        const struct sample_share share = layer_samples(&member->layer);
        const size_t numbers = share.count * NUMBERS, first = share.first * NUMBERS;
        if (s->row->kind != &layer_head)
            expect_near("output", member->output, s->whole.output + first, numbers);
        if (s->row->kind != &layer_embedding)
            expect_near("input's gradient", member->input_gradient, s->whole.input_gradient + first, numbers);
    }
}

static void compare_sums(const struct stand *s)
{
    const size_t count = s->whole.sizes.gradient_bytes / sizeof(float);
    float *sum = calloc(count + 1, sizeof *sum);
    assert_non_null(sum);
    for (size_t m = 0; m < s->count; m++)
        for (size_t i = 0; i < count; i++)
            sum[i] += s->members[m].gradients[i];
    expect_near("gradients", sum, s->whole.gradients, count);
    free(sum);
    for (size_t m = 0; s->row->kind == &layer_head && m < s->count; m++)
        expect_near("loss", &s->members[m].loss, &s->whole.loss, 1);
}

// With B at once, or as I and then W.
static void compute(const struct stand *s, bool at_once)
{
    struct layer layers[MOST];
    struct layer_pass passes[MOST];
    for (size_t m = 0; m < s->count; m++) {
        layers[m] = s->members[m].layer;
        passes[m] = pass_of(s, (struct piece *)(uintptr_t)&s->members[m]);
    }
    shards_forward(layers, passes, s->count);
    if (at_once) {
        shards_backward(layers, passes, s->count);
    } else {
        shards_backward_input(layers, passes, s->count);
        shards_backward_weight(layers, passes, s->count);
    }
    settle(s);
}

static void members_compute_their_samples(void **state)
{
    (void)state;
    for (size_t trial = 0; trial < 2 * 3 * sizeof cases / sizeof cases[0]; trial++) {
        struct stand s;
        stand_up(&s, &cases[trial / 6], 2 + trial % 3);
        const struct layer_pass pass = pass_of(&s, &s.whole);
        layer_forward(&s.whole.layer, &pass);
        layer_backward(&s.whole.layer, &pass);
        settle(&s);
        compute(&s, trial / 3 % 2);
        compare_samples(&s);
        compare_sums(&s);
        sit_down(&s);
    }
}

static void shares_differ_by_one_sample_at_most(void **state)
{
    (void)state;
    for (size_t batch = 1; batch < 40; batch++)
        for (size_t members = 1; members <= batch; members++) {
            const struct layer whole = { .name = "it", .kind = &layer_linear, .shape = { .batch = batch } };
            const struct sharding sharding = { .shards = members, .owns_rows = true };
            size_t next = 0;
            for (size_t m = 0; m < members; m++) {
                struct layer layer;
                struct error error = { 0 };
                assert_good(layer_shard(&whole, sharding, m, &layer, &error), error);
                const struct sample_share share = layer_samples(&layer);
                assert_int_equal(share.first, next);
                assert_in_range(share.count, batch / members, layer.shape.batch);
                next += share.count;
            }
            assert_int_equal(next, batch);
        }
}

static void what_has_no_rows_of_its_own_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct layer layer;
    const struct sharding sharding = { .shards = 3, .owns_rows = true };
    const struct layer linear = { .name = "it", .kind = &layer_linear, .shape = { .batch = 2 } };
    assert_false(layer_shard(&linear, sharding, 0, &layer, &error));
    assert_string_equal(error.text, "layer it: 3 devices cannot share micro-batches of 2: take larger ones");
    assert_false(layer_can_be_split(&(struct layer){ .kind = &layer_batch_norm }, sharding));
    error = (struct error){ 0 };
    struct model *model = model_create("resnet18", &(struct model_sizes){ 0 }, &error);
    assert_good(model, error);
    assert_false(model_can_own_rows(model, (struct sharding){ .shards = 2, .owns_rows = true }, &error));
    assert_string_equal(error.text, "layer norm1 keeps statistics of the rows that it sees, which members with rows of"
                        " their own would each have of their share: leave out --rows");
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_compute_their_samples),
        cmocka_unit_test(shares_differ_by_one_sample_at_most),
        cmocka_unit_test(what_has_no_rows_of_its_own_is_refused),
    };
    return cmocka_run_group_tests_name("own_rows", tests, NULL, NULL);
}
