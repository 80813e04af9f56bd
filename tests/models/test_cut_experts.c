// A layer of experts that is cut into three (models/cut_experts.c) computes what the one layer does, to the bit. It
// does so on one device and on members, with B at once and as I and W. Rows are exchanged by layers, or by the test.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/shards.h"
#include "tests/test.h"

enum { SEQUENCE = 24, WIDTH = 16, INNER = 24, EXPERTS = 8, MOST = 4, CUT = 3, LAYERS = CUT + 1 };

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
    { ROUTER_DEEPSEEK, 4, INNER, 9, 2, 1.25, false, 0.3f, "cpu:queued" },
    { ROUTER_DEEPSEEK, 2, 0, 8, 8, 0, true, 0, "cpu:bf16" },
};
enum { CASES = sizeof cases / sizeof cases[0] };

// A layer of a member, with memory of its own. Layer 0 is the whole one, and 1 to 3 are its parts.
struct piece {
    struct layer layer;
    struct layer_sizes sizes;
    char *parameters, *saved, *held, *workspace;
    float *gradients, *state, *statistics;
    char *output, *output_gradient;  // of the layer; the input and its gradient are those of the one before it
    float loss;
};

struct stand {
    struct device *device;
    struct queue *queue;
    const struct case_row *row;
    size_t members;
    struct piece pieces[LAYERS][MOST];
    char *input[MOST], *input_gradient[LAYERS][MOST];
    bool is_message;
};

static void *memory_of(const struct stand *s, uint64_t bytes)
{
    struct error error = { 0 };
    void *memory = device_allocate(s->device, bytes + 256, &error);
    assert_good(memory, error);
    memset(memory, 0xa5, bytes + 256);  // whatever is not written is not read
    return memory;
}

static void settle(const struct stand *s)
{
    struct error error = { 0 };
    assert_good(queue_wait(s->queue, &error), error);
}

static struct layer layer_for(const struct stand *s, size_t number)
{
    static const struct layer_kind *const kinds[LAYERS] = { &layer_experts, &layer_router, &layer_products,
                                                            &layer_combine };
    const struct case_row *row = s->row;
    return (struct layer){
        .name = "it", .kind = kinds[number], .index = 3, .input_count = 1, .input_widths = { WIDTH },
        .shape = { .batch = row->batch, .sequence = SEQUENCE, .in = WIDTH, .out = WIDTH, .branches = 4,
                   .dropout = row->dropout, .precision = device_precision(s->device),
                   .experts = { .router = { row->router, EXPERTS, row->top, 4, 2, 2.5f }, .inner = INNER,
                                .shared = row->shared, .is_swiglu = row->is_swiglu, .capacity = row->capacity,
                                .auxiliary = 0.5f, .z = 0.1f, .speed = 0.01f, .is_cut = number > 0 } },
    };
}

static void piece_open(const struct stand *s, struct piece *piece)
{
    const struct layer_sizes sizes = piece->sizes = layer_sizes(&piece->layer);
    piece->parameters = memory_of(s, sizes.parameter_bytes);
    piece->gradients = memory_of(s, sizes.gradient_bytes);
    piece->saved = memory_of(s, sizes.saved_bytes);
    piece->held = memory_of(s, sizes.held_for_weight_bytes);
    piece->state = memory_of(s, sizes.state_bytes);
    piece->statistics = memory_of(s, sizes.statistics_bytes);
    piece->workspace = memory_of(s, sizes.workspace_bytes + sizes.backward_workspace_bytes);
    piece->output = memory_of(s, sizes.output_bytes);
    piece->output_gradient = memory_of(s, sizes.output_bytes);
    memset(piece->gradients, 0, sizes.gradient_bytes);
    layer_initialize(&piece->layer, s->queue, piece->parameters, 11);
    if (sizes.state_bytes > 0)
        layer_initialize_state(&piece->layer, s->queue, piece->state);
    settle(s);
}

static void piece_close(const struct stand *s, struct piece *piece)
{
    void *all[] = { piece->parameters, piece->gradients, piece->saved, piece->held, piece->state, piece->statistics,
                    piece->workspace, piece->output, piece->output_gradient };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_release(s->device, all[i]);
}

// The part that has the tensor of this name, and where it is there. Biases and gains are drawn, too.
static struct piece *part_with(struct stand *s, size_t member, const char *name, struct tensor *found)
{
    struct tensor tensors[LAYER_TENSORS];
    for (size_t l = 1; l < LAYERS; l++) {
        const size_t count = layer_tensors(&s->pieces[l][member].layer, tensors);
        for (size_t t = 0; t < count; t++)
            if (strcmp(tensors[t].name, name) == 0) {
                *found = tensors[t];
                return &s->pieces[l][member];
            }
    }
    fail_msg("no part has %s", name);
    return NULL;
}

static void give_numbers(const struct stand *s, void *to, size_t count, uint64_t key)
{
    kernel_fill_normal(s->queue, to, 1, key, 0, count);
    settle(s);
}

static void share_parameters(struct stand *s, size_t member)
{
    const size_t each = precision_bytes(device_precision(s->device));
    struct piece *whole = &s->pieces[0][member];
    struct tensor tensors[LAYER_TENSORS], there;
    const size_t count = layer_tensors(&whole->layer, tensors);
    size_t all = 0;
    for (size_t t = 0; t < count; t++) {
        const size_t numbers = tensors[t].rows * tensors[t].columns;
        const struct piece *part = part_with(s, member, tensors[t].name, &there);
        assert_int_equal(there.rows * there.columns, numbers);
        assert_int_equal(there.split, tensors[t].split);
        if (tensors[t].start != START_NORMAL && tensors[t].split == SPLIT_NONE)
            give_numbers(s, whole->parameters + tensors[t].offset * each, numbers, 50 + t);
        memcpy(part->parameters + there.offset * each, whole->parameters + tensors[t].offset * each, numbers * each);
        all += numbers;
    }
    for (size_t l = 1; l < LAYERS; l++)
        all -= layer_parameter_count(&s->pieces[l][member].layer);
    assert_int_equal(all, 0);
}

static void stand_up(struct stand *s, const struct case_row *row, const char *words, size_t members)
{
    struct error error = { 0 };
    *s = (struct stand){ .row = row, .members = members, .device = device_open(row->device, &error) };
    assert_good(s->device, error);
    s->queue = queue_create(s->device, &error);
    assert_good(s->queue, error);
    for (size_t m = 0; m < members; m++) {
        for (size_t l = 0; l < LAYERS; l++) {
            const struct layer whole = layer_for(s, l);
            const struct sharding sharding = { .shards = members, .owns_rows = true, .places = words };
            s->pieces[l][m].layer = whole;
            if (members > 1)
                assert_good(layer_shard(&whole, sharding, m, &s->pieces[l][m].layer, &error), error);
            piece_open(s, &s->pieces[l][m]);
        }
        const size_t numbers = s->pieces[0][m].layer.shape.batch * SEQUENCE * WIDTH;
        const uint64_t bytes = s->pieces[0][m].sizes.output_bytes;
        s->input[m] = memory_of(s, bytes);
        give_numbers(s, s->input[m], numbers, 7 * m);
        give_numbers(s, s->pieces[0][m].output_gradient, numbers, 3 + 7 * m);
        memcpy(s->pieces[CUT][m].output_gradient, s->pieces[0][m].output_gradient, bytes);
        s->input_gradient[0][m] = memory_of(s, bytes);
        s->input_gradient[1][m] = memory_of(s, bytes);
        share_parameters(s, m);
    }
}

static void sit_down(struct stand *s)
{
    for (size_t m = 0; m < s->members; m++) {
        for (size_t l = 0; l < LAYERS; l++)
            piece_close(s, &s->pieces[l][m]);
        device_release(s->device, s->input[m]);
        device_release(s->device, s->input_gradient[0][m]);
        device_release(s->device, s->input_gradient[1][m]);
    }
    queue_free(s->queue);
    device_close(s->device);
}

static void passes_of(struct stand *s, size_t number, struct layer layers[MOST], struct layer_pass passes[MOST])
{
    for (size_t m = 0; m < s->members; m++) {
        struct piece *piece = &s->pieces[number][m], *before = number > 1 ? &s->pieces[number - 1][m] : NULL;
        layers[m] = piece->layer;
        layers[m].shape.experts.is_message = s->is_message && number > 1;
        passes[m] = (struct layer_pass){
            .base = { .queue = s->queue, .step = 6, .micro_batch = 7, .parameters = piece->parameters,
                      .gradients = piece->gradients, .input = before ? before->output : s->input[m],
                      .input_gradient = before ? before->output_gradient : s->input_gradient[number][m],
                      .output = piece->output, .output_gradient = piece->output_gradient, .saved = piece->saved,
                      .held = piece->held, .workspace = piece->workspace, .samples = s->row->counted,
                      .state = piece->state, .statistics = piece->statistics, .auxiliary_loss = &piece->loss,
                      .share = 0.25f },
            .seed = 5, .training = true, .whole_samples = s->row->counted,
        };
    }
}

// The rows of what layer `number` reads, as a runtime would exchange them, by the definition of row_exchange.h. F's
// come from the outputs of the layer before it, and I's from its own input gradients.
static void exchange_in_front_of(struct stand *s, size_t number, bool is_forward)
{
    const struct layer *layer = &s->pieces[number][0].layer;
    const struct carried_rows rows = layer_carried_rows(&s->pieces[number - 1][0].layer);
    const bool is_back = (number == CUT) == is_forward;
    char *received[MOST];
    struct row_walk walk;
    struct row_run run;
    struct error error = { 0 };
    if (!s->is_message)
        return;
    settle(s);
    for (size_t m = 0; m < s->members; m++) {
        received[m] = malloc(rows.rows_bytes);
        assert_non_null(received[m]);
        memset(received[m], 0xa5, rows.rows_bytes);
    }
    const struct piece *before = s->pieces[number - 1];
    const char *first = is_forward ? before[0].output : before[0].output_gradient;
    const struct row_exchange how = {
        .kept = (const int32_t *)(const void *)(first + rows.counts_at), .owners = layer->shape.experts.owners,
        .experts = EXPERTS, .members = (uint32_t)s->members, .is_back = is_back, .room = rows.most,
    };
    assert_good(row_walk_begin(&walk, s->queue, &how, &error), error);
    while (row_walk_next(&walk, &run)) {
        const char *from = is_forward ? before[run.from].output : before[run.from].output_gradient;
        memcpy(received[run.to] + run.to_row * rows.row_bytes, from + rows.rows_at + run.from_row * rows.row_bytes,
               run.count * rows.row_bytes);
    }
    for (size_t m = 0; m < s->members; m++) {
        memcpy((is_forward ? before[m].output : before[m].output_gradient) + rows.rows_at, received[m],
               rows.rows_bytes);
        free(received[m]);
    }
}

static void run_backward(struct stand *s, size_t number, bool at_once)
{
    struct layer layers[MOST];
    struct layer_pass passes[MOST];
    passes_of(s, number, layers, passes);
    if (at_once) {
        shards_backward(layers, passes, s->members);
        return;
    }
    shards_backward_input(layers, passes, s->members);
    settle(s);
    for (size_t m = 0; m < s->members; m++)  // W reads what is held, and nothing that F has saved
        memset(s->pieces[number][m].saved, 0xff, s->pieces[number][m].sizes.saved_bytes);
    if (number < CUT)  // combine has no weights
        shards_backward_weight(layers, passes, s->members);
}

static void compute(struct stand *s, bool at_once)
{
    struct layer layers[MOST];
    struct layer_pass passes[MOST];
    for (size_t l = 0; l < LAYERS; l++) {
        if (l > 1)
            exchange_in_front_of(s, l, true);
        passes_of(s, l, layers, passes);
        shards_forward(layers, passes, s->members);
    }
    run_backward(s, 0, at_once);
    for (size_t l = CUT; l > 0; l--) {
        run_backward(s, l, at_once);
        if (l > 1)
            exchange_in_front_of(s, l, false);
    }
    settle(s);
}

static void parts_agree_with_the_whole(struct stand *s)
{
    const size_t each = precision_bytes(device_precision(s->device));
    struct tensor tensors[LAYER_TENSORS], there;
    for (size_t m = 0; m < s->members; m++) {
        const struct piece *whole = &s->pieces[0][m], *router = &s->pieces[1][m];
        const size_t bytes = whole->layer.shape.batch * SEQUENCE * WIDTH * each;
        assert_memory_equal(s->pieces[CUT][m].output, whole->output, bytes);
        assert_memory_equal(s->input_gradient[1][m], s->input_gradient[0][m], bytes);
        assert_memory_equal(router->statistics, whole->statistics, whole->sizes.statistics_bytes - 256);
        assert_memory_equal(&router->loss, &whole->loss, sizeof whole->loss);
        const size_t count = layer_tensors(&whole->layer, tensors);
        for (size_t t = 0; t < count; t++) {
            const struct piece *part = part_with(s, m, tensors[t].name, &there);
            assert_memory_equal(part->gradients + there.offset, whole->gradients + tensors[t].offset,
                                tensors[t].rows * tensors[t].columns * sizeof(float));
        }
    }
}

static void three_layers_compute_what_one_computes(void **state)
{
    (void)state;
    static const char *const words[] = { "blocks", "dealt", "0+1+1+0+1+0+0+1", "*+1+0+*+1+0+0+1" };
    for (size_t trial = 0; trial < 4 * CASES; trial++) {
        struct stand s;
        const size_t members = trial % 4 == 0 ? 1 : trial % 4 == 3 ? 2 : 2 + trial % 3;
        const char *places = words[members > 2 ? trial % 2 : trial % 4];
        stand_up(&s, &cases[trial / 4], places, members);
        s.is_message = members > 1 && trial % 2 == 1;
        compute(&s, trial / 2 % 2);
        parts_agree_with_the_whole(&s);
        sit_down(&s);
    }
}

// --- shards of a tensor-parallel group ---------------------------------------------------------

static void near(const struct stand *s, const char *what, const void *got, const void *want, size_t count, bool floats)
{
    const bool is_half = device_precision(s->device) != PRECISION_FP32;
    double off = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        const bool is_wide = floats || !is_half;
        float a = ((const float *)got)[is_wide ? i : 0], b = ((const float *)want)[is_wide ? i : 0];
        if (!is_wide) {
            kernel_widen(s->queue, &a, values_at(got, device_precision(s->device), i), 1);
            kernel_widen(s->queue, &b, values_at(want, device_precision(s->device), i), 1);
            settle(s);
        }
        off += pow((double)a - (double)b, 2);
        size += pow((double)b, 2);
    }
    if (!(sqrt(off) <= (is_half ? 2e-2 : 2e-6) * sqrt(size)))
        fail_msg("%s is off by %g, and %g long", what, sqrt(off), sqrt(size));
}

// Each shard has all tokens and some of the experts. Their choices are the same bits, and their sums are added up.
static void shards_of_a_group_compute_what_one_layer_computes(void **state)
{
    (void)state;
    for (size_t trial = 0; trial < 2 * CASES; trial++) {
        struct stand s;
        struct error error = { 0 };
        const size_t count = trial % 2 == 0 ? 2 : 4;
        struct piece shards[MOST];
        struct layer layers[MOST], whole_layer[MOST];
        struct layer_pass passes[MOST], whole_pass[MOST];
        char *input_gradients[MOST];
        stand_up(&s, &cases[trial / 2], NULL, 1);
        struct piece *whole = &s.pieces[0][0];
        const size_t each = precision_bytes(device_precision(s.device)), all = whole->sizes.gradient_bytes / 4;
        passes_of(&s, 0, whole_layer, whole_pass);
        for (size_t m = 0; m < count; m++) {
            const struct layer layer = layer_for(&s, 0);
            const struct sharding sharding = { .shards = count };
            assert_good(layer_shard(&layer, sharding, m, &shards[m].layer, &error), error);
            piece_open(&s, &shards[m]);
            shard_cut(&shards[m].layer, each, shards[m].parameters, whole->parameters);
            input_gradients[m] = memory_of(&s, whole->sizes.output_bytes);
            layers[m] = shards[m].layer;
            passes[m] = whole_pass[0];
            struct weir_pass *base = &passes[m].base;
            base->parameters = shards[m].parameters, base->gradients = shards[m].gradients;
            base->saved = shards[m].saved, base->held = shards[m].held, base->workspace = shards[m].workspace;
            base->output = shards[m].output, base->input_gradient = input_gradients[m];
            base->state = shards[m].state, base->statistics = shards[m].statistics;
            base->auxiliary_loss = &shards[m].loss;
        }
        layer_forward(&whole_layer[0], &whole_pass[0]);
        shards_forward(layers, passes, count);
        layer_backward(&whole_layer[0], &whole_pass[0]);
        if (trial % 3 == 0) {
            shards_backward(layers, passes, count);
        } else {
            shards_backward_input(layers, passes, count);
            shards_backward_weight(layers, passes, count);
        }
        settle(&s);
        float *joined = calloc(all, sizeof *joined);
        assert_non_null(joined);
        const size_t numbers = s.row->batch * SEQUENCE * WIDTH;
        for (size_t m = 0; m < count; m++) {
            near(&s, "output", shards[m].output, whole->output, numbers, false);
            near(&s, "gradient", input_gradients[m], s.input_gradient[0][0], numbers, false);
            assert_memory_equal(shards[m].statistics, whole->statistics, whole->sizes.statistics_bytes - 256);
            assert_memory_equal(&shards[m].loss, &whole->loss, sizeof whole->loss);
            assert_memory_equal(shards[m].output, shards[0].output, numbers * each);
            assert_true(layer_sizes(&layers[m]).parameter_bytes < whole->sizes.parameter_bytes);
            shard_join(&layers[m], sizeof(float), shards[m].gradients, joined);
        }
        struct tensor tensors[LAYER_TENSORS];
        const size_t tensor_count = layer_tensors(&whole->layer, tensors);
        for (size_t t = 0; t < tensor_count; t++)
            near(&s, tensors[t].name, joined + tensors[t].offset, whole->gradients + tensors[t].offset,
                 tensors[t].rows * tensors[t].columns, true);
        free(joined);
        for (size_t m = 0; m < count; m++) {
            piece_close(&s, &shards[m]);
            device_release(s.device, input_gradients[m]);
        }
        sit_down(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(three_layers_compute_what_one_computes),
                                        cmocka_unit_test(shards_of_a_group_compute_what_one_layer_computes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
