#include "runtime/stages/chain_parts.h"

#include <math.h>
#include <string.h>

#include "tests/test.h"

// Toy layers on rows of floats, of every kind of need. Values pass through
// functions simple enough to check, and every backward uses all it may.
//
//     linear   y = p x           needs its input for W; holds dy
//     curve    y = sin(x)        keeps cos(x); no parameters
//     product  y = p x x         needs its input for I and W; holds dy and x dy
//     loss     sum of x x / 2    needs its input for I; hands on nothing
enum { MOST = 9, WIDEST = 60 };

enum toy_kind { LINEAR, CURVE, PRODUCT, LOSS };

struct toy {
    enum toy_kind kind;
    size_t in, out;
    float seed;
};

static float *floats(const void *p)
{
    return (float *)(uintptr_t)p;
}

static void poison(void *p, size_t bytes)
{
    memset(p, 0xff, bytes);  // NaN
}

static bool toy_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct toy *toy = self;
    const float *x = pass->input, *p = pass->parameters;
    float *y = pass->output, *saved = pass->saved;
    poison(pass->workspace, 4 * toy->in);
    float loss = 0;
    for (size_t j = 0; j < toy->out; j++)
        y[j] = 0;
    for (size_t i = 0; i < toy->in; i++) {
        if (toy->kind == LINEAR)
            for (size_t j = 0; j < toy->out; j++)
                y[j] += p[i * toy->out + j] * x[i];
        else if (toy->kind == CURVE)
            y[i] = sinf(x[i]), saved[i] = cosf(x[i]);
        else if (toy->kind == PRODUCT)
            y[i] = p[i] * x[i] * x[i];
        else
            loss += x[i] * x[i] / 2;
    }
    if (toy->kind == LOSS && pass->loss)
        *pass->loss = loss;
    return true;
}

static bool toy_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct toy *toy = self;
    const float *x = pass->input, *p = pass->parameters, *saved = pass->saved, *dy = pass->output_gradient;
    float *dx = pass->input_gradient, *held = pass->held;
    poison(pass->workspace, 4 * toy->in);
    for (size_t i = 0; i < toy->in; i++) {
        float d = 0;
        if (toy->kind == LINEAR)
            for (size_t j = 0; j < toy->out; j++)
                d += p[i * toy->out + j] * dy[j];
        else if (toy->kind == CURVE)
            d = saved[i] * dy[i];
        else if (toy->kind == PRODUCT)
            d = 2 * p[i] * x[i] * dy[i], held[toy->out + i] = x[i] * dy[i];
        else
            d = x[i];
        if (dx)
            dx[i] = d;
    }
    return true;
}

static bool toy_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct toy *toy = self;
    const float *x = pass->input, *held = pass->held;
    float *dp = pass->gradients;
    poison(pass->workspace, 4 * toy->in);
    for (size_t i = 0; i < toy->in; i++) {
        if (toy->kind == LINEAR)
            for (size_t j = 0; j < toy->out; j++)
                dp[i * toy->out + j] += x[i] * held[j];
        else if (toy->kind == PRODUCT)
            dp[i] += x[i] * held[toy->out + i];
    }
    return true;
}

// What a fused backward is allowed: no `held`.
static bool toy_backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct toy *toy = self;
    float held[2 * WIDEST];
    if (toy->out)
        memcpy(held, pass->output_gradient, toy->out * 4);
    struct weir_pass own = *pass;
    own.held = held;
    return toy_backward_input(self, &own, error) && toy_backward_weight(self, &own, error);
}

static bool toy_initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)queue;
    (void)error;
    const struct toy *toy = self;
    const size_t count = toy->kind == LINEAR ? toy->in * toy->out : toy->kind == PRODUCT ? toy->in : 0;
    for (size_t i = 0; i < count; i++)
        floats(parameters)[i] = 0.3f * sinf(toy->seed + (float)i);
    return true;
}

static struct weir_layer layer_of(struct toy *toy, bool fused)
{
    struct weir_layer layer = {
        .name = "toy",
        .kind = "toy",
        .output_bytes = 4 * toy->out,
        .workspace_bytes = 4 * toy->in,
        .backward_workspace_bytes = 4 * toy->in,
        .self = toy,
        .forward = toy_forward,
        .backward_input = toy_backward_input,
        .backward_weight = toy_backward_weight,
        .backward = fused ? toy_backward : NULL,
        .initialize = toy_initialize,
    };
    if (toy->kind == LINEAR) {
        layer.parameter_bytes = 4 * toy->in * toy->out;
        layer.input_kept = WEIR_INPUT_KEPT_WEIGHT;
        layer.held_for_weight_bytes = 4 * toy->out;
    } else if (toy->kind == CURVE) {
        layer.saved_bytes = 4 * toy->in;
    } else {
        layer.input_kept = WEIR_INPUT_KEPT_BOTH;
        layer.parameter_bytes = toy->kind == PRODUCT ? 4 * toy->in : 0;
        layer.held_for_weight_bytes = toy->kind == PRODUCT ? 8 * toy->in : 0;
    }
    return layer;
}

struct model {
    size_t count;
    struct toy toys[MOST];
    struct weir_layer layers[MOST];
};

static void random_model(uint64_t *seed, struct model *model)
{
    model->count = 2 + random_below(seed, MOST - 1);
    size_t width = 1 + random_below(seed, WIDEST);
    for (size_t l = 0; l < model->count; l++) {
        const bool last = l + 1 == model->count;
        struct toy *toy = &model->toys[l];
        *toy = (struct toy){ last ? LOSS : (enum toy_kind)random_below(seed, 3), width, width, (float)l };
        if (toy->kind == LINEAR)
            toy->out = 1 + random_below(seed, WIDEST);
        if (last)
            toy->out = 0;
        width = toy->out;
        model->layers[l] = layer_of(toy, random_below(seed, 2));
    }
}

static size_t random_segments(uint64_t *seed, uint32_t first, uint32_t end, struct segment *segments)
{
    size_t count = 0;
    for (uint32_t l = first; l < end;) {
        const uint32_t length = (uint32_t)(1 + random_below(seed, end - l));
        if (random_below(seed, 3)) {
            segments[count++] = (struct segment){ l, l + length };
            l += length;
        } else {
            l++;
        }
    }
    return count;
}

// A place with a guard behind it, all NaN at first.
enum { GUARD = 256 };
struct place {
    unsigned char *at;
    uint64_t bytes;
};

static struct place place(uint64_t bytes)
{
    struct place made = { malloc(bytes + GUARD), bytes };
    assert_non_null(made.at);
    poison(made.at, bytes);
    memset(made.at + bytes, 0x5a, GUARD);
    return made;
}

static void leave(struct place place, uint64_t trial, const char *what)
{
    for (size_t i = 0; i < GUARD; i++)
        if (place.at[place.bytes + i] != 0x5a)
            fail_msg("trial %llu: wrote behind %s", (unsigned long long)trial, what);
    free(place.at);
}

// The plain twin: every layer with memory of its own, nothing ever dropped.
struct plain {
    float y[MOST][WIDEST], saved[MOST][WIDEST], held[2 * WIDEST], work[WIDEST], dx[MOST + 1][WIDEST];
    float weights[MOST * (WIDEST * WIDEST + 64)], gradients[MOST * (WIDEST * WIDEST + 64)];
    float loss;
};

static size_t plain_offset(size_t layer)
{
    return layer * (WIDEST * WIDEST + 64);
}

static void run_plain(const struct model *model, const float *input, struct plain *plain)
{
    for (size_t l = 0; l < model->count; l++) {
        const struct weir_layer *layer = &model->layers[l];
        layer->initialize(layer->self, NULL, plain->weights + plain_offset(l), NULL);
        const struct weir_pass pass = { .parameters = plain->weights + plain_offset(l),
                                        .input = l ? plain->y[l - 1] : input, .output = plain->y[l],
                                        .saved = plain->saved[l], .workspace = plain->work, .loss = &plain->loss };
        layer->forward(layer->self, &pass, NULL);
    }
    for (size_t l = model->count; l-- > 0;) {
        const struct weir_layer *layer = &model->layers[l];
        memcpy(plain->held, plain->dx[l + 1], layer->output_bytes);
        const struct weir_pass pass = { .parameters = plain->weights + plain_offset(l),
                                        .gradients = plain->gradients + plain_offset(l),
                                        .input = l ? plain->y[l - 1] : input, .saved = plain->saved[l],
                                        .held = plain->held, .output_gradient = plain->dx[l + 1],
                                        .input_gradient = l ? plain->dx[l] : NULL, .workspace = plain->work };
        layer->backward_input(layer->self, &pass, NULL);
        layer->backward_weight(layer->self, &pass, NULL);
    }
}

// One stage of a random model against the twin, to the bit.
static void run_stage(uint64_t trial, struct queue *queue, const struct model *model, const float *input,
                      const struct plain *plain, uint64_t *seed)
{
    const uint32_t first = (uint32_t)random_below(seed, model->count);
    const uint32_t end = first + 1 + (uint32_t)random_below(seed, model->count - first);
    const bool is_last = end == model->count, split = random_below(seed, 2);
    const bool apart = random_below(seed, 2), by_itself = random_below(seed, 2);  // what is run again, and by an R
    struct segment segments[MOST];
    const size_t segment_count = random_segments(seed, first, end, segments);

    struct error error = { 0 };
    struct chain *chain = chain_create(model->layers, model->count, first, end, segments, segment_count, 1,
                                       &(struct storage){ .optimizer = OPTIMIZER_SGD }, 1, &error);
    assert_good(chain, error);
    const struct stage *stage = chain_stage(chain);
    const struct stage_bytes *bytes = &stage->bytes;
    struct place weights = place(bytes->weights), gradients = place(bytes->gradients), kept = place(bytes->kept),
                 through = place(bytes->kept_through), held = place(bytes->held), output = place(bytes->output),
                 dx = place(bytes->input), again = place(bytes->again),
                 workspace = place(apart ? bytes->transient_with_recompute : bytes->transient);
    memset(gradients.at, 0, bytes->gradients);

    float loss = -1;
    struct stopwatch reruns = { 0 };
    struct stage_pass pass = {
        .base = { .queue = queue, .parameters = weights.at, .gradients = gradients.at,
                  .input = first ? plain->y[first - 1] : input, .input_gradient = first ? dx.at : NULL,
                  .output = is_last ? NULL : output.at, .output_gradient = is_last ? NULL : plain->dx[end],
                  .saved = kept.at, .held = split ? held.at : NULL, .workspace = workspace.at, .loss = &loss },
        .kept_through = through.at, .recomputed = apart && bytes->again > 0 ? again.at : NULL,
        .workspace_bytes = workspace.bytes, .reruns = &reruns,
    };
    assert_good(stage->functions->initialize(stage->self, queue, weights.at, &error), error);
    assert_good(stage->functions->forward(stage->self, &pass, &error), error);
    if (is_last && loss != plain->loss)
        fail_msg("trial %llu: loss %g, not %g", (unsigned long long)trial, loss, plain->loss);
    if (!is_last)
        assert_memory_equal(output.at, plain->y[end - 1], model->layers[end - 1].output_bytes);

    poison(workspace.at, workspace.bytes);  // nothing may live there between F and B
    if (by_itself && pass.recomputed) {
        assert_good(stage->functions->recompute(stage->self, &pass, &error), error);
        poison(workspace.at, workspace.bytes);
        pass.was_recomputed = true;
    }
    if (split) {
        assert_good(stage->functions->backward_input(stage->self, &pass, &error), error);
        poison(workspace.at, workspace.bytes);
        poison(again.at, again.bytes);
        poison(kept.at, bytes->kept);  // and W may use only what it is left
        assert_good(stage->functions->backward_weight(stage->self, &pass, &error), error);
    } else {
        assert_good(stage->functions->backward(stage->self, &pass, &error), error);
    }

    assert_int_equal(reruns.count, 2 * segment_count);  // once each, and timed
    stopwatch_close(&reruns);
    if (first && memcmp(dx.at, plain->dx[first], model->layers[first - 1].output_bytes) != 0)
        fail_msg("trial %llu: another input gradient", (unsigned long long)trial);
    for (uint32_t l = first; l < end; l++) {
        uint64_t offset;
        assert_true(chain_find_parameters(chain, &model->layers[l], &offset));
        if (memcmp(gradients.at + offset, plain->gradients + plain_offset(l), model->layers[l].parameter_bytes) != 0)
            fail_msg("trial %llu: other gradients of layer %u", (unsigned long long)trial, l);
    }
    leave(weights, trial, "weights"), leave(gradients, trial, "gradients"), leave(kept, trial, "kept");
    leave(through, trial, "kept_through"), leave(held, trial, "held"), leave(output, trial, "output");
    leave(dx, trial, "the input's gradient"), leave(workspace, trial, "the workspace");
    leave(again, trial, "what is run again");
    chain_free(chain);
}

static void any_range_with_any_segments_equals_plain_layers(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct queue *queue = queue_create(device, &error);
    assert_good(queue, error);
    struct plain *plain = malloc(sizeof *plain);
    for (uint64_t trial = 0; trial < test_trials(3000, 100000); trial++) {
        uint64_t seed = trial;
        struct model model;
        random_model(&seed, &model);
        float input[WIDEST];
        for (size_t i = 0; i < WIDEST; i++)
            input[i] = (float)random_unit(&seed) - 0.5f;
        memset(plain->gradients, 0, sizeof plain->gradients);
        run_plain(&model, input, plain);
        run_stage(trial, queue, &model, input, plain, &seed);
    }
    free(plain);
    queue_free(queue);
    device_close(device);
}

static bool refuse(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)pass;
    error->code = 3;
    strcpy(error->text, "the disk is full");
    return false;
}

static void a_layers_trouble_is_told_with_its_name(void **state)
{
    (void)state;
    struct weir_layer layer = { .name = "block0.mlp", .kind = "mlp", .forward = refuse };
    struct error error = { 0 };
    struct chain *chain =
        chain_create(&layer, 1, 0, 1, NULL, 0, 1, &(struct storage){ .optimizer = OPTIMIZER_SGD }, 1, &error);
    assert_good(chain, error);
    const struct stage *stage = chain_stage(chain);
    assert_false(stage->functions->forward(stage->self, &(struct stage_pass){ 0 }, &error));
    assert_error(error, "layer block0.mlp: the disk is full");
    assert_int_equal(error.kind, ERROR_MACHINE);
    chain_free(chain);
}

static void layers_that_take_whole_sequences_are_named(void **state)
{
    (void)state;
    static const struct {
        uint32_t most_splits, splits;
        const char *sentence;
    } rows[] = {
        { 0, 2, "layer b takes whole sequences, and the schedule passes each through in 2 splits: take another schedule,"
                " or a layer of longer sequences that can be split" },
        { 6, 4, "layer b takes sequences in numbers of splits that divide 6, and the schedule passes each through in 4:"
                " take one with such a number" },
        { 6, 3, NULL },
        { 0, 1, NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct weir_layer layers[] = { { .name = "a", .most_splits = 12 },
                                             { .name = "b", .most_splits = rows[i].most_splits } };
        struct error error = { 0 };
        struct chain *chain = chain_create(layers, 2, 0, 2, NULL, 0, rows[i].splits,
                                           &(struct storage){ .optimizer = OPTIMIZER_SGD }, 1, &error);
        assert_true(!chain == (rows[i].sentence != NULL));
        if (!chain)
            assert_error(error, rows[i].sentence);
        chain_free(chain);
    }
}

// Odd sizes, of which each layer has its share, rounded down to 256, and no other has any of it.
static void parts_of_odd_sizes_lie_apart_in_what_is_planned(void **state)
{
    (void)state;
    struct error error = { 0 };
    for (uint64_t trial = 0; trial < test_trials(300, 3000); trial++) {
        uint64_t seed = trial;
        struct weir_layer layers[4] = { { 0 } };
        const uint32_t splits = 2 + (uint32_t)random_below(&seed, 4);
        for (size_t l = 0; l < 4; l++) {
            layers[l] = (struct weir_layer){ .name = "a", .most_splits = splits,
                                             .saved_bytes = random_below(&seed, 4000),
                                             .held_for_weight_bytes = random_below(&seed, 4000) };
            layers[l].shared_by_parts_bytes = random_below(&seed, layers[l].saved_bytes + 1);
        }
        struct chain *chain =
            chain_create(layers, 4, 0, 4, NULL, 0, splits, &(struct storage){ .optimizer = OPTIMIZER_SGD }, 1, &error);
        assert_good(chain, error);
        const struct stage_bytes part = stage_bytes_of_split(chain_stage(chain)->bytes, splits);
        for (size_t l = 0; l < 4; l++) {
            const struct placed *link = &chain->links[l];
            const uint64_t saved = round_to_256(layers[l].saved_bytes) - round_to_256(layers[l].shared_by_parts_bytes);
            const uint64_t kept_end = l < 3 ? link[1].saved : part.kept;
            const uint64_t held_end = l < 3 ? link[1].held : part.held;
            assert_true(link->saved % 256 == 0 && link->held % 256 == 0);
            assert_true(link->saved + saved / splits / 256 * 256 <= kept_end);
            assert_true(link->held + layers[l].held_for_weight_bytes / splits / 256 * 256 <= held_end);
        }
        chain_free(chain);
    }
}

static void undecayed_parameters_are_told_by_their_place_in_the_stage(void **state)
{
    (void)state;
    const struct weir_range bias = { 80, 120 }, norms[] = { { 0, 40 }, { 200, 240 } };
    const struct weir_layer layers[] = {
        { .name = "a", .parameter_bytes = 1000 },
        { .name = "b", .parameter_bytes = 120, .undecayed = &bias, .undecayed_count = 1 },
        { .name = "c", .parameter_bytes = 300, .undecayed = norms, .undecayed_count = 2 },
    };
    struct error error = { 0 };
    struct chain *chain =
        chain_create(layers, 3, 1, 3, NULL, 0, 1, &(struct storage){ .optimizer = OPTIMIZER_SGD }, 1, &error);
    assert_good(chain, error);
    const struct stage *stage = chain_stage(chain);
    assert_int_equal(stage->exempt_count, 3);
    const struct exempt want[] = { { 20, 30 }, { 64, 74 }, { 114, 124 } };  // c begins at byte 256
    assert_memory_equal(stage->exempt, want, sizeof want);
    chain_free(chain);
}

static bool write_name(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)queue, (void)error;
    *(char *)parameters = *(const char *)self;
    return true;
}

// "d" and "e" read what "a" has, and "e" is on another stage than "a".
static void a_stage_apart_has_one_copy_of_what_its_layers_are_tied_to(void **state)
{
    (void)state;
    const struct weir_range bias = { 80, 120 };
    struct weir_layer layers[] = {
        { .name = "a", .parameter_bytes = 1000, .undecayed = &bias, .undecayed_count = 1 },
        { .name = "b", .parameter_bytes = 120 },
        { .name = "c", .parameter_bytes = 300 },
        { .name = "d", .parameter_bytes = 10, .undecayed = &bias, .undecayed_count = 1 },
        { .name = "e", .parameter_bytes = 20 },
    };
    struct error error = { 0 };
    const struct storage storage = { .optimizer = OPTIMIZER_ADAMW, .tied_apart = true };
    for (size_t l = 0; l < 5; l++) {
        layers[l].self = (void *)(uintptr_t)layers[l].name;
        layers[l].initialize = write_name;
    }
    layers[3].tied = layers[4].tied = &layers[0];
    struct chain *upper = chain_create(layers, 5, 2, 5, NULL, 0, 1, &storage, 1, &error);
    struct chain *lower = upper ? chain_create(layers, 5, 0, 2, NULL, 0, 1, &storage, 1, &error) : NULL;
    assert_good(lower, error);

    const struct stage *stage = chain_stage(upper);
    uint64_t offset;
    char weights[2048] = { 0 };
    assert_int_equal(stage->bytes.weights, 512 + 256 + 256 + 1024);
    assert_int_equal(stage->bytes.optimizer, 2 * stage->bytes.weights);
    assert_true(chain_find_parameters(upper, &layers[0], &offset));
    assert_int_equal(offset, 1024);
    assert_false(chain_find_parameters(upper, &layers[1], &offset));
    const struct exempt exempt[] = { { 128 + 20, 128 + 30 }, { 256 + 20, 256 + 30 } };
    assert_int_equal(stage->exempt_count, 2);
    assert_memory_equal(stage->exempt, exempt, sizeof exempt);
    assert_good(stage->functions->initialize(stage->self, NULL, weights, &error), error);
    const char first[] = { weights[0], weights[512], weights[768], weights[1024], '\0' };
    assert_string_equal(first, "cdea");

    assert_int_equal(stage->shared_count, 1);
    assert_int_equal(stage->shared[0].key, 0);
    assert_int_equal(stage->shared[0].first, 256);
    assert_int_equal(stage->shared[0].end, 512);
    assert_int_equal(chain_stage(lower)->shared_count, 1);
    assert_int_equal(chain_stage(lower)->shared[0].first, 0);
    assert_int_equal(chain_stage(lower)->shared[0].end, 256);
    chain_free(upper);
    chain_free(lower);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_range_with_any_segments_equals_plain_layers),
        cmocka_unit_test(a_layers_trouble_is_told_with_its_name),
        cmocka_unit_test(layers_that_take_whole_sequences_are_named),
        cmocka_unit_test(parts_of_odd_sizes_lie_apart_in_what_is_planned),
        cmocka_unit_test(undecayed_parameters_are_told_by_their_place_in_the_stage),
        cmocka_unit_test(a_stage_apart_has_one_copy_of_what_its_layers_are_tied_to),
    };
    return cmocka_run_group_tests_name("chain", tests, NULL, NULL);
}
