// Experts that are split over members with rows of their own (models/expert_places.h). Members compute what one layer
// with all experts computes of a micro-batch. Outputs, gradients of inputs and those of each expert are alike to the
// bit, wherever experts are, if none is copied. The gradients of router, norm, shared expert and copied experts are
// parts of a sum.
//
// That holds as far as oneDNN's sgemm gives a row of a product the same bits among any number of rows. With AVX-512 it
// has another kernel for fewer than 16 rows, and with AVX2 for the last rows of many numbers. In multiples of 24 all
// rows have the same bits by each instruction set, so a sample here has 24 tokens.
#include "models/expert_places.h"

#include <math.h>
#include <string.h>

#include "common/random.h"
#include "device/expert_kernels.h"
#include "models/router.h"
#include "models/shards.h"
#include "tests/test.h"

enum { SEQUENCE = 24, WIDTH = 16, INNER = 24, EXPERTS = 8, MOST = 4 };

static const struct case_row {
    enum router_kind router;
    size_t top, shared, batch, counted;  // samples, and how many of them count
    double capacity;
    bool is_swiglu;
    float dropout;
    const char *device;
} cases[] = {
    { ROUTER_MIXTRAL, 2, 0, 8, 8, 1.25, false, 0, "cpu" },
    { ROUTER_MIXTRAL, 3, INNER, 7, 7, 0, true, 0.2f, "cpu" },
    { ROUTER_SWITCH, 1, 0, 8, 5, 1, false, 0, "cpu:queued" },
    { ROUTER_GSHARD, 2, INNER, 7, 6, 0.5, true, 0.1f, "cpu" },
    { ROUTER_DEEPSEEK, 4, INNER, 9, 2, 1.25, false, 0, "cpu:queued" },
    { ROUTER_DEEPSEEK, 2, 0, 8, 8, 0, true, 0, "cpu" },
};
enum { CASES = sizeof cases / sizeof cases[0] };

static struct layer layer_for(const struct case_row *row)
{
    return (struct layer){
        .name = "it", .kind = &layer_experts, .index = 3, .input_count = 1, .input_widths = { WIDTH },
        .shape = { .batch = row->batch, .sequence = SEQUENCE, .in = WIDTH, .out = WIDTH, .branches = 4,
                   .dropout = row->dropout,
                   .experts = { .router = { row->router, EXPERTS, row->top, 4, 2, 2.5f }, .inner = INNER,
                                .shared = row->shared, .is_swiglu = row->is_swiglu, .capacity = row->capacity,
                                .auxiliary = 0.5f, .z = 0.1f, .speed = 0.01f } },
    };
}

// A layer with memory of its own.
struct piece {
    struct layer layer;
    struct layer_sizes sizes;
    float *parameters, *gradients, *input, *output, *input_gradient, *output_gradient, *state, *statistics;
    void *saved, *held, *workspace;
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

static void settle(const struct stand *s)
{
    struct error error = { 0 };
    assert_good(queue_wait(s->queue, &error), error);
}

static size_t numbers_of(const struct piece *piece)
{
    return piece->layer.shape.batch * SEQUENCE * WIDTH;
}

static void piece_open(const struct stand *s, struct piece *piece)
{
    const struct layer_sizes sizes = piece->sizes = layer_sizes(&piece->layer);
    piece->parameters = memory_of(s, sizes.parameter_bytes);
    piece->gradients = memory_of(s, sizes.gradient_bytes);
    piece->input = memory_of(s, sizes.output_bytes);
    piece->output = memory_of(s, sizes.output_bytes);
    piece->input_gradient = memory_of(s, sizes.output_bytes);
    piece->output_gradient = memory_of(s, sizes.output_bytes);
    piece->saved = memory_of(s, sizes.saved_bytes);
    piece->held = memory_of(s, sizes.held_for_weight_bytes);
    piece->state = memory_of(s, sizes.state_bytes);
    piece->statistics = memory_of(s, sizes.statistics_bytes);
    piece->workspace = memory_of(s, sizes.workspace_bytes + sizes.backward_workspace_bytes);
    layer_initialize(&piece->layer, s->queue, piece->parameters, 11);
    layer_initialize_state(&piece->layer, s->queue, piece->state);
}

static void piece_close(const struct stand *s, struct piece *piece)
{
    void *all[] = { piece->parameters, piece->gradients, piece->input, piece->output, piece->input_gradient,
                    piece->output_gradient, piece->saved, piece->held, piece->state, piece->statistics,
                    piece->workspace };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_release(s->device, all[i]);
}

// The samples of a member. Slots behind them repeat the last one, whose gradient is 0.
static void give_samples(const struct stand *s, struct piece *piece)
{
    enum { NUMBERS = SEQUENCE * WIDTH };
    const struct sample_share share = layer_samples(&piece->layer);
    for (size_t slot = 0; slot < piece->layer.shape.batch; slot++) {
        const bool is_own = slot < share.count;
        const size_t sample = share.first + (is_own ? slot : share.count - 1);
        memcpy(piece->input + slot * NUMBERS, s->whole.input + sample * NUMBERS, NUMBERS * sizeof(float));
        if (is_own)
            memcpy(piece->output_gradient + slot * NUMBERS, s->whole.output_gradient + sample * NUMBERS,
                   NUMBERS * sizeof(float));
    }
}

static struct layer_pass pass_of(const struct stand *s, struct piece *piece)
{
    return (struct layer_pass){
        .base = { .queue = s->queue, .step = 6, .micro_batch = 7, .parameters = piece->parameters,
                  .gradients = piece->gradients, .input = piece->input, .input_gradient = piece->input_gradient,
                  .output = piece->output, .output_gradient = piece->output_gradient, .saved = piece->saved,
                  .held = piece->held, .workspace = piece->workspace, .samples = s->row->counted,
                  .state = piece->state, .statistics = piece->statistics, .auxiliary_loss = &piece->loss,
                  .share = 0.25f },
        .seed = 5, .training = true, .whole_samples = s->row->counted,
    };
}

static void stand_up(struct stand *s, const struct case_row *row, const char *words, size_t members, uint64_t seed)
{
    struct error error = { 0 };
    *s = (struct stand){ .row = row, .count = members, .device = device_open(row->device, &error) };
    assert_good(s->device, error);
    s->queue = queue_create(s->device, &error);
    assert_good(s->queue, error);
    s->whole.layer = layer_for(row);
    piece_open(s, &s->whole);
    const size_t numbers = numbers_of(&s->whole), counted = row->counted * SEQUENCE * WIDTH;
    kernel_fill_normal(s->queue, (struct values *)(void *)s->whole.input, 0.7f, seed, 0, numbers);
    kernel_fill_normal(s->queue, (struct values *)(void *)s->whole.output_gradient, 0.7f, seed + 1, 0, counted);
    settle(s);
    for (size_t m = 0; m < members; m++) {
        const struct sharding sharding = { .shards = members, .owns_rows = true, .places = words };
        assert_good(layer_shard(&s->whole.layer, sharding, m, &s->members[m].layer, &error), error);
        piece_open(s, &s->members[m]);
        settle(s);
        give_samples(s, &s->members[m]);
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

// With B at once, or as I and then W.
static void compute(struct stand *s, bool at_once)
{
    struct layer layers[MOST];
    struct layer_pass passes[MOST];
    const struct layer_pass pass = pass_of(s, &s->whole);
    layer_forward(&s->whole.layer, &pass);
    layer_backward(&s->whole.layer, &pass);
    for (size_t m = 0; m < s->count; m++) {
        layers[m] = s->members[m].layer;
        passes[m] = pass_of(s, &s->members[m]);
    }
    shards_forward(layers, passes, s->count);
    if (at_once) {
        shards_backward(layers, passes, s->count);
    } else {
        shards_backward_input(layers, passes, s->count);
        settle(s);
        for (size_t m = 0; m < s->count; m++)  // W reads what is held, and nothing that F has saved
            memset(s->members[m].saved, 0xff, s->members[m].sizes.saved_bytes);
        shards_backward_weight(layers, passes, s->count);
    }
    settle(s);
}

// --- what must hold ------------------------------------------------------------------

static bool is_of_experts(const struct layer *whole, size_t tensor)
{
    const size_t own = whole->shape.experts.is_swiglu ? 2 : 4;
    return tensor >= 3 && tensor < 3 + own;
}

static void parameters_are_those_of_the_whole_layer(const struct stand *s)
{
    float *joined = calloc(1, s->whole.sizes.parameter_bytes), *part = calloc(1, s->members[0].sizes.parameter_bytes);
    assert_true(joined && part);
    for (size_t m = 0; m < s->count; m++) {
        const struct piece *member = &s->members[m];
        shard_join(&member->layer, sizeof(float), member->parameters, joined);
        memset(part, 0, member->sizes.parameter_bytes);
        shard_cut(&member->layer, sizeof(float), part, s->whole.parameters);
        assert_int_equal(member->sizes.parameter_bytes, s->members[0].sizes.parameter_bytes);
        assert_int_equal(member->sizes.saved_bytes, s->members[0].sizes.saved_bytes);
        assert_memory_equal(part, member->parameters, member->sizes.parameter_bytes);
    }
    assert_memory_equal(joined, s->whole.parameters, s->whole.sizes.parameter_bytes);
    free(joined);
    free(part);
}

static void near(const char *what, const float *got, const float *want, size_t count)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        off += pow((double)got[i] - (double)want[i], 2);
        size += pow((double)want[i], 2);
    }
    if (!(sqrt(off) <= 2e-6 * sqrt(size)))
        fail_msg("%s is off by %g, and %g long", what, sqrt(off), sqrt(size));
}

// Members alone have the gradients of their experts. Those of other tensors are parts of a sum.
static void gradients_make_up_those_of_the_whole_layer(const struct stand *s)
{
    struct tensor tensors[LAYER_TENSORS];
    float *sum = calloc(1, s->whole.sizes.gradient_bytes), *one = calloc(1, s->whole.sizes.gradient_bytes);
    const size_t all = s->whole.sizes.gradient_bytes / sizeof(float);
    assert_true(sum && one);
    for (size_t m = 0; m < s->count; m++) {
        memset(one, 0, s->whole.sizes.gradient_bytes);
        shard_join(&s->members[m].layer, sizeof(float), s->members[m].gradients, one);
        for (size_t i = 0; i < all; i++)
            sum[i] += one[i];
    }
    const size_t count = layer_tensors(&s->whole.layer, tensors);
    for (size_t t = 0; t < count; t++) {
        const size_t first = tensors[t].offset, numbers = tensors[t].rows * tensors[t].columns;
        const size_t each = numbers / EXPERTS;
        for (size_t e = 0; is_of_experts(&s->whole.layer, t) && e < EXPERTS; e++) {
            const float *got = sum + first + e * each, *want = s->whole.gradients + first + e * each;
            if (s->members[0].layer.shape.experts.owners[e] == ROW_COPIED)
                near(tensors[t].name, got, want, each);
            else
                assert_memory_equal(got, want, each * sizeof(float));
        }
        if (!is_of_experts(&s->whole.layer, t))
            near(tensors[t].name, sum + first, s->whole.gradients + first, numbers);
    }
    free(sum);
    free(one);
}

// A product of fewer rows may add up in another order, and a copied expert has fewer.
static void must_agree(const struct stand *s, const char *what, const float *got, const float *want, size_t count)
{
    if (s->members[0].layer.shape.experts.copies > 0)
        near(what, got, want, count);
    else
        assert_memory_equal(got, want, count * sizeof *got);
}

static void samples_are_those_of_the_whole_layer(const struct stand *s)
{
    enum { NUMBERS = SEQUENCE * WIDTH };
    const size_t experts = routing_statistics(EXPERTS);
    for (size_t m = 0; m < s->count; m++) {
        const struct piece *member = &s->members[m];
        const struct sample_share share = layer_samples(&member->layer);
        const size_t counted = s->row->counted > share.first ? s->row->counted - share.first : 0;
        const size_t numbers = (counted < share.count ? counted : share.count) * NUMBERS;
        must_agree(s, "output", member->output, s->whole.output + share.first * NUMBERS, numbers);
        must_agree(s, "gradient", member->input_gradient, s->whole.input_gradient + share.first * NUMBERS, numbers);
        assert_memory_equal(member->statistics, s->members[0].statistics, experts * sizeof(float));
        assert_memory_equal(member->statistics, s->whole.statistics, (EXPERTS + 1) * sizeof(float));
        near("losses", member->statistics + EXPERTS + 1, s->whole.statistics + EXPERTS + 1, 2);
        near("loss", &member->loss, &s->whole.loss, 1);
    }
}

static void members_compute_what_one_layer_computes(void **state)
{
    (void)state;
    static const char *const words[] = { "blocks", "dealt", NULL };
    for (uint64_t trial = 0; trial < 60; trial++) {
        uint64_t seed = trial;
        const size_t members = 2 + trial % (MOST - 1);
        char list[2 * EXPERTS + 1];
        for (size_t e = 0; e < EXPERTS; e++) {  // any places; each member has one expert at least
            const uint64_t member = e < members ? members - 1 - e : random_below(&seed, members);
            list[2 * e] = (char)('0' + member);
            list[2 * e + 1] = e + 1 < EXPERTS ? '+' : '\0';
        }
        const size_t copies = trial % 8 < 4 ? 0 : 1 + random_below(&seed, EXPERTS);
        for (size_t e = 0; e < EXPERTS; e++)
            if (random_below(&seed, EXPERTS) < copies)
                list[2 * e] = '*';
        struct stand s;
        stand_up(&s, &cases[trial % CASES], trial % 4 < 2 ? words[trial % 4] : list, members, 2 * trial);
        parameters_are_those_of_the_whole_layer(&s);
        compute(&s, trial / 2 % 2);
        samples_are_those_of_the_whole_layer(&s);
        gradients_make_up_those_of_the_whole_layer(&s);
        sit_down(&s);
    }
}

// --- places in words -----------------------------------------------------------------

static void places_are_words(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        size_t number, members;
        uint8_t owners[5];
    } rows[] = {
        { "blocks", 1, 2, { 0, 0, 0, 1, 1 } },
        { "dealt", 0, 3, { 0, 1, 2, 0, 1 } },
        { "1+0+1+0+2", 4, 3, { 1, 0, 1, 0, 2 } },
        { "blocks/1+0+0+0+0", 1, 2, { 1, 0, 0, 0, 0 } },
        { "blocks/1+0+0+0+0", 0, 2, { 0, 0, 0, 1, 1 } },
        { "blocks/dealt:90", 1, 3, { 0, 1, 2, 0, 1 } },
        { "1+*+0+*+0", 0, 2, { 1, ROW_COPIED, 0, ROW_COPIED, 0 } },
        { "*+*+*+*+*/blocks", 0, 9, { ROW_COPIED, ROW_COPIED, ROW_COPIED, ROW_COPIED, ROW_COPIED } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct expert_shape shape = { .router = { .experts = 5, .top = 1 }, .number = rows[i].number };
        assert_good(expert_places_read(rows[i].words, rows[i].members, "it", &shape, &error), error);
        assert_memory_equal(shape.owners, rows[i].owners, 5);
        assert_true(shape.have_places);
        assert_int_equal(shape.most_rows, strchr(rows[i].words, ':') ? 90 : 0);
    }
}

static void wrong_places_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words, *sentence;
        size_t members, number;
    } rows[] = {
        { "block", "layer it: 5 experts cannot be placed by \"block\" on 2 devices: say blocks, dealt, or the device of"
          " each expert, as in 0+1+*+0, and * for all of them", 2, 0 },
        { "0+1+0+1+**", "layer it: 5 experts cannot be placed by \"0+1+0+1+**\" on 2 devices: say blocks, dealt, or the"
          " device of each expert, as in 0+1+*+0, and * for all of them", 2, 0 },
        { "0+1+0+1", "layer it: 5 experts cannot be placed by \"0+1+0+1\" on 2 devices: say blocks, dealt, or the"
          " device of each expert, as in 0+1+*+0, and * for all of them", 2, 0 },
        { "0+1+0+1+2", "layer it: 5 experts cannot be placed by \"0+1+0+1+2\" on 2 devices: say blocks, dealt, or the"
          " device of each expert, as in 0+1+*+0, and * for all of them", 2, 0 },
        { "0+0+0+0+0", "layer it: device 1 of 2 has none of the 5 experts: give it one, or take fewer devices", 2, 0 },
        { "blocks/dealt", "layer it: its experts have no places: name them for each layer of experts, or once for all",
          2, 2 },
        { "dealt", "layer it: device 5 of 6 has none of the 5 experts: give it one, or take fewer devices", 6, 0 },
        { "dealt:", "layer it: \"\" is no number of rows", 2, 0 },
        { "dealt:12+1", "layer it: \"12+1\" is no number of rows", 2, 0 },
        { "blocks", "layer it: experts have places on 64 devices at most, not on 65", 65, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct expert_shape shape = { .router = { .experts = 5, .top = 1 }, .number = rows[i].number };
        assert_false(expert_places_read(rows[i].words, rows[i].members, "it", &shape, &error));
        assert_string_equal(error.text, rows[i].sentence);
    }
}

// 48 tokens with 2 choices each: an even share of 3 members is 32, and 3 experts take 96 at most.
static void room_for_rows_is_between_an_even_share_and_all(void **state)
{
    (void)state;
    static const struct {
        const char *words, *sentence;
        double capacity;
    } rows[] = {
        { "blocks:128", NULL, 0 },
        { "blocks:383", NULL, 0 },
        { "blocks:127", "layer it: room for 127 rows of experts on each device is not between an even share, 128, and the"
          " most that there can be, 384: give --most-rows a number between these", 0 },
        { "blocks:384", "layer it: room for 384 rows of experts on each device is not between an even share, 128, and the"
          " most that there can be, 384: give --most-rows a number between these", 0 },
        { "blocks:160", "layer it: a capacity limits the rows of its experts already: leave out --most-rows, or say"
          " capacity=dropless", 1.25 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct layer whole = layer_for(&(struct case_row){ .router = ROUTER_MIXTRAL, .top = 2, .batch = 8,
                                                                 .capacity = rows[i].capacity });
        const struct sharding sharding = { .shards = 3, .owns_rows = true, .places = rows[i].words };
        struct error error = { 0 };
        struct layer shard;
        assert_true(layer_shard(&whole, sharding, 1, &shard, &error) == !rows[i].sentence);
        if (rows[i].sentence)
            assert_string_equal(error.text, rows[i].sentence);
    }
}

// The most rows that any choices of two experts each give to a member: of one of its own tokens, and of one or two that
// are elsewhere. Experts take rows in the order of the tokens, up to their capacity.
static uint64_t most_of_all_choices(const struct expert_shape *shape, size_t tokens, size_t own_tokens,
                                    uint64_t capacity)
{
    enum { OF_FIVE = 10 };
    static const uint8_t chosen[OF_FIVE][2] = { { 0, 1 }, { 0, 2 }, { 0, 3 }, { 0, 4 }, { 1, 2 },
                                                { 1, 3 }, { 1, 4 }, { 2, 3 }, { 2, 4 }, { 3, 4 } };
    uint64_t most = 0, all = 1;
    for (size_t t = 0; t < tokens; t++)
        all *= OF_FIVE;
    for (uint64_t choice = 0; choice < all; choice++) {
        uint64_t counts[5] = { 0 }, rows = 0, left = choice;
        for (size_t t = 0; t < tokens; t++, left /= OF_FIVE)
            for (int k = 0; k < 2; k++) {
                const uint8_t expert = chosen[left % OF_FIVE][k], owner = shape->owners[expert];
                const bool has_room = capacity == 0 || counts[expert] < capacity;
                counts[expert]++;
                rows += has_room && (owner == 0 || (owner == ROW_COPIED && t < own_tokens));
            }
        most = rows > most ? rows : most;
    }
    return most;
}

static void members_have_room_for_the_rows_of_any_choices(void **state)
{
    (void)state;
    // The first of two members has most experts, and a token more than the other if these are uneven.
    static const char *const words[] = { "0+*+1+0+1", "*+0+0+*+1", "*+*+*+*+*", "*+*+0+0+0", "0+1+0+1+0" };
    static const double capacities[] = { 0, 0.5, 1, 1.25 };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (size_t c = 0; c < sizeof capacities / sizeof capacities[0]; c++)
            for (size_t batch = 2; batch <= 4; batch++) {
                const struct sharding sharding = { .shards = 2, .owns_rows = true, .places = words[i] };
                const struct layer whole = {
                    .name = "it", .kind = &layer_experts,
                    .shape = { .batch = batch, .sequence = 1, .in = WIDTH, .out = WIDTH, .branches = 1,
                               .experts = { .router = { ROUTER_MIXTRAL, 5, 2, 1, 1, 1 }, .inner = INNER,
                                            .capacity = capacities[c] } },
                };
                struct error error = { 0 };
                struct layer shard;
                assert_good(layer_shard(&whole, sharding, 0, &shard, &error), error);
                const uint64_t most = most_of_all_choices(&shard.shape.experts, batch, shard.shape.batch,
                                                          router_capacity(&shard, batch));
                assert_true(router_most_rows(&shard) >= most);
                assert_true(capacities[c] > 0 || router_most_rows(&shard) == most);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_compute_what_one_layer_computes),
        cmocka_unit_test(places_are_words),
        cmocka_unit_test(wrong_places_are_refused),
        cmocka_unit_test(room_for_rows_is_between_an_even_share_and_all),
        cmocka_unit_test(members_have_room_for_the_rows_of_any_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
