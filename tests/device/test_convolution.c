// Convolutions against plain sums in double, in fp32 and in 16 bits.
#include "device/picture_kernels.h"

#include "tests/device/kernel_rig.h"

static size_t in_count(const struct convolution *c)
{
    return c->batch * c->height * c->width * c->in;
}

static size_t out_count(const struct convolution *c)
{
    return c->batch * convolution_height(c) * convolution_width(c) * c->out;
}

static size_t weight_count(const struct convolution *c)
{
    return c->window.height * c->window.width * c->in / c->groups * c->out;
}

// --- the slow twin ---------------------------------------------------------------------------

// One product of a convolution: out[o] has in[i] weights[w] as a summand.
struct term {
    size_t in, weight, out;
};
typedef void term_function(void *all, struct term term);

// The input's pixel under a pixel of the window, along one axis. False in the padding.
static bool covered(size_t place, size_t stride, size_t in_window, size_t padding, size_t size, size_t *at)
{
    const size_t padded = place * stride + in_window;
    *at = padded - padding;
    return padded >= padding && *at < size;
}

static void each_term_at(const struct convolution *c, const size_t at[3], size_t o, term_function *call, void *all)
{
    const struct window *w = &c->window;
    const size_t channels = c->in / c->groups, group = o / (c->out / c->groups);
    const size_t out = ((at[0] * convolution_height(c) + at[1]) * convolution_width(c) + at[2]) * c->out + o;
    size_t y, x;
    for (size_t ky = 0; ky < w->height; ky++)
        for (size_t kx = 0; kx < w->width; kx++)
            if (covered(at[1], w->stride_height, ky, w->padding_height, c->height, &y)
                && covered(at[2], w->stride_width, kx, w->padding_width, c->width, &x))
                for (size_t i = 0; i < channels; i++)
                    call(all, (struct term){
                                  .in = ((at[0] * c->height + y) * c->width + x) * c->in + group * channels + i,
                                  .weight = ((ky * w->width + kx) * channels + i) * c->out + o,
                                  .out = out });
}

static void each_term(const struct convolution *c, term_function *call, void *all)
{
    size_t at[3];
    for (at[0] = 0; at[0] < c->batch; at[0]++)
        for (at[1] = 0; at[1] < convolution_height(c); at[1]++)
            for (at[2] = 0; at[2] < convolution_width(c); at[2]++)
                for (size_t o = 0; o < c->out; o++)
                    each_term_at(c, at, o, call, all);
}

// Tensors of a convolution, and sums in double.
struct slow {
    const float *in, *weights, *out_gradient;
    double *out, *in_gradient, *weights_gradient;
};

static void add_term(void *all, struct term term)
{
    const struct slow *slow = all;
    slow->out[term.out] += (double)slow->in[term.in] * (double)slow->weights[term.weight];
    slow->in_gradient[term.in] += (double)slow->out_gradient[term.out] * (double)slow->weights[term.weight];
    slow->weights_gradient[term.weight] += (double)slow->out_gradient[term.out] * (double)slow->in[term.in];
}

// --- the kernels -------------------------------------------------------------------------------

// Buffers of the rig, which have guards behind them. The workspaces are as large as was asked, and no larger.
struct tensors {
    float *in, *weights, *bias, *out_gradient;
    float *out, *in_gradient, *weights_gradient, *weights_before;
};

static float *workspace_of(struct rig *rig, uint64_t bytes)
{
    return rig_buffer(rig, (size_t)(bytes + sizeof(float) - 1) / sizeof(float), false);
}

static struct convolution_bytes asked(struct rig *rig, const struct convolution *c)
{
    struct error error = { 0 };
    struct convolution_bytes bytes, again;
    assert_good(convolution_bytes(rig->device, c, &bytes, &error), error);
    assert_good(convolution_bytes(rig->device, c, &again, &error), error);
    assert_memory_equal(&bytes, &again, sizeof bytes);
    return bytes;
}

static struct tensors tensors_of(struct rig *rig, const struct convolution *c, bool has_bias)
{
    struct tensors x = {
        .in = rig_numbers(rig, in_count(c), 1),
        .weights = rig_numbers(rig, weight_count(c), 1),
        .bias = has_bias ? rig_numbers(rig, c->out, 1) : NULL,
        .out_gradient = rig_numbers(rig, out_count(c), 1),
        .out = rig_output(rig, out_count(c)),
        .in_gradient = rig_output(rig, in_count(c)),
    };
    x.weights_gradient = rig_sums(rig, weight_count(c), &x.weights_before);
    return x;
}

static void convolve(struct rig *rig, const struct convolution *c, const struct tensors *x)
{
    const struct convolution_bytes bytes = asked(rig, c);
    struct queue *queue = rig->queue;
    kernel_convolution(queue, c, rig_values(rig, x->out), rig_values(rig, x->in), rig_values(rig, x->weights),
                       rig_values(rig, x->bias), workspace_of(rig, bytes.forward));
    kernel_convolution_input(queue, c, rig_values(rig, x->in_gradient), rig_values(rig, x->out_gradient),
                             rig_values(rig, x->weights), workspace_of(rig, bytes.input));
    kernel_convolution_weight(queue, c, x->weights_gradient, rig_values(rig, x->out_gradient),
                              rig_values(rig, x->in), workspace_of(rig, bytes.weight));
    rig_settle(rig);
}

static double *zeros(size_t count)
{
    double *made = calloc(count, sizeof *made);
    assert_non_null(made);
    return made;
}

static void compare(const struct convolution *c, const struct tensors *x)
{
    struct slow slow = { x->in, x->weights, x->out_gradient, zeros(out_count(c)), zeros(in_count(c)),
                         zeros(weight_count(c)) };
    each_term(c, add_term, &slow);
    for (size_t i = 0; i < out_count(c); i++)
        rig_value_close_to(x->out[i], slow.out[i] + (x->bias ? (double)x->bias[i % c->out] : 0), 3e-5, "out", i);
    for (size_t i = 0; i < in_count(c); i++)
        rig_value_close_to(x->in_gradient[i], slow.in_gradient[i], 3e-5, "the input's gradient", i);
    for (size_t i = 0; i < weight_count(c); i++)
        rig_close_to(x->weights_gradient[i], slow.weights_gradient[i] + (double)x->weights_before[i], 3e-5,
                     "the weights' gradient", i);
    free(slow.out);
    free(slow.in_gradient);
    free(slow.weights_gradient);
}

// --- any shape ---------------------------------------------------------------------------------

static size_t one_of(struct rig *rig, const size_t *choices, size_t count)
{
    return choices[random_below(&rig->seed, count)];
}
#define ONE_OF(rig, ...) \
    one_of(rig, (const size_t[]){ __VA_ARGS__ }, sizeof((const size_t[]){ __VA_ARGS__ }) / sizeof(size_t))

static struct window random_window(struct rig *rig)
{
    static const size_t sizes[][2] = { { 1, 1 }, { 3, 3 }, { 1, 7 }, { 7, 1 }, { 5, 5 }, { 7, 7 }, { 11, 11 } };
    const size_t *size = sizes[random_below(&rig->seed, sizeof sizes / sizeof sizes[0])];
    const size_t stride = ONE_OF(rig, 1, 2, 4);
    const bool is_padded = random_below(&rig->seed, 3) > 0;
    return (struct window){
        .height = size[0], .width = size[1], .stride_height = stride,
        .stride_width = random_below(&rig->seed, 4) ? stride : ONE_OF(rig, 1, 2, 4),
        .padding_height = is_padded ? random_below(&rig->seed, size[0] / 2 + 2) : 0,
        .padding_width = is_padded ? random_below(&rig->seed, size[1] / 2 + 2) : 0,
    };
}

static size_t random_side(struct rig *rig, size_t window, size_t padding)
{
    const size_t least = window > 2 * padding ? window - 2 * padding : 1;
    return least + random_below(&rig->seed, 14);
}

// About a third has groups, of which some have a channel each.
static void draw_channels(struct rig *rig, struct convolution *c)
{
    c->groups = random_below(&rig->seed, 3) ? 1 : ONE_OF(rig, 2, 3, 4, 16, 20);
    const bool is_depthwise = c->groups > 1 && random_below(&rig->seed, 2);
    c->in = is_depthwise || c->groups > 4 ? c->groups : c->groups * ONE_OF(rig, 1, 3, 4, 8, 16, 33);
    c->out = is_depthwise || c->groups > 4 ? c->in * ONE_OF(rig, 1, 2) : c->groups * ONE_OF(rig, 1, 3, 8, 16, 20);
}

static struct convolution random_convolution(struct rig *rig)
{
    struct convolution c = { .batch = 1 + random_below(&rig->seed, 5), .window = random_window(rig) };
    c.height = random_side(rig, c.window.height, c.window.padding_height);
    c.width = random_side(rig, c.window.width, c.window.padding_width);
    draw_channels(rig, &c);
    return c;
}

static void check_any(struct rig *rig, uint64_t trial)
{
    (void)trial;
    const struct convolution c = random_convolution(rig);
    const struct tensors x = tensors_of(rig, &c, random_below(&rig->seed, 2));
    convolve(rig, &c, &x);
    compare(&c, &x);
}

static void convolutions_of_any_shape_equal_the_plain_sums(void **state)
{
    (void)state;
    rig_try_everywhere(check_any, test_trials(24, 1000));
}

// Shapes of networks, on either side of the number of pixels at which the order of the weights changes.
static void check_known(struct rig *rig, uint64_t trial)
{
    static const struct convolution shapes[] = {
        { 1, 8, 8, 96, 64, 1, { 3, 3, 1, 1, 1, 1 } },   // 64 pixels
        { 1, 5, 13, 96, 64, 1, { 3, 3, 1, 1, 1, 1 } },  // 65
        { 2, 40, 40, 3, 64, 1, { 7, 7, 2, 2, 3, 3 } },
        { 3, 9, 9, 64, 128, 1, { 1, 1, 2, 2, 0, 0 } },
        { 2, 7, 7, 130, 70, 1, { 1, 1, 1, 1, 0, 0 } },
        { 2, 28, 28, 1, 16, 1, { 3, 3, 1, 1, 1, 1 } },
        { 2, 12, 12, 96, 96, 96, { 3, 3, 1, 1, 1, 1 } },
    };
    const struct convolution *c = &shapes[trial % (sizeof shapes / sizeof shapes[0])];
    const struct tensors x = tensors_of(rig, c, trial % 2);
    convolve(rig, c, &x);
    compare(c, &x);
}

static void convolutions_of_networks_equal_the_plain_sums(void **state)
{
    (void)state;
    rig_try_everywhere(check_known, 7);
}

// --- NaN ------------------------------------------------------------------------------------------

struct reach {
    size_t in;
    bool *outs;
};

static void note_reach(void *all, struct term term)
{
    const struct reach *reach = all;
    reach->outs[term.out] = reach->outs[term.out] || term.in == reach->in;
}

static void check_nan(struct rig *rig, uint64_t trial)
{
    (void)trial;
    const struct convolution c = random_convolution(rig);
    const struct tensors x = tensors_of(rig, &c, false);
    const struct reach reach = { random_below(&rig->seed, in_count(&c)), calloc(out_count(&c), sizeof(bool)) };
    assert_non_null(reach.outs);
    x.in[reach.in] = NAN;
    each_term(&c, note_reach, (void *)(uintptr_t)&reach);
    convolve(rig, &c, &x);
    for (size_t i = 0; i < out_count(&c); i++)
        if ((bool)isnan(x.out[i]) != reach.outs[i])
            fail_msg("out[%zu] is %g, and the NaN %s it", i, (double)x.out[i], reach.outs[i] ? "reaches" : "is not in");
    free(reach.outs);
}

static void a_nan_reaches_the_windows_that_cover_it_and_no_others(void **state)
{
    (void)state;
    rig_try_everywhere(check_nan, test_trials(12, 400));
}

// --- several queues, and recordings -----------------------------------------------------------

enum { QUEUES = 4, ROUNDS = 6 };

static const struct convolution shared = { 2, 14, 14, 24, 40, 1, { 3, 3, 1, 1, 1, 1 } };

// What each queue has of its own: outputs and workspaces.
struct worker {
    struct queue *queue;
    void *out, *in_gradient, *weights_gradient, *workspaces[3];
};

static void *allocated(struct device *device, uint64_t bytes)
{
    struct error error = { 0 };
    void *memory = device_allocate(device, bytes, &error);
    assert_good(memory, error);
    memset(memory, 0x7f, bytes);
    return memory;
}

static float *drawn(struct device *device, size_t count, uint64_t seed)
{
    float *numbers = allocated(device, count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)(2 * random_unit(&seed) - 1);
    return numbers;
}

static struct worker worker_open(struct device *device)
{
    struct error error = { 0 };
    struct convolution_bytes bytes;
    assert_good(convolution_bytes(device, &shared, &bytes, &error), error);
    struct worker worker = {
        .queue = queue_create(device, &error),
        .out = allocated(device, out_count(&shared) * sizeof(float)),
        .in_gradient = allocated(device, in_count(&shared) * sizeof(float)),
        .weights_gradient = allocated(device, weight_count(&shared) * sizeof(float)),
        .workspaces = { allocated(device, bytes.forward), allocated(device, bytes.input),
                        allocated(device, bytes.weight) },
    };
    assert_good(worker.queue, error);
    return worker;
}

static void worker_close(struct device *device, struct worker *worker)
{
    queue_free(worker->queue);
    device_release(device, worker->out);
    device_release(device, worker->in_gradient);
    device_release(device, worker->weights_gradient);
    for (size_t i = 0; i < 3; i++)
        device_release(device, worker->workspaces[i]);
}

static void work(const struct worker *worker, float *in, float *weights, float *out_gradient)
{
    struct values *x = (struct values *)in, *w = (struct values *)weights, *dy = (struct values *)out_gradient;
    kernel_convolution(worker->queue, &shared, worker->out, x, w, NULL, worker->workspaces[0]);
    kernel_convolution_input(worker->queue, &shared, worker->in_gradient, dy, w, worker->workspaces[1]);
    queue_zero(worker->queue, worker->weights_gradient, weight_count(&shared) * sizeof(float));
    kernel_convolution_weight(worker->queue, &shared, worker->weights_gradient, dy, x, worker->workspaces[2]);
}

static void same_results(const struct worker *a, const struct worker *b)
{
    assert_memory_equal(a->out, b->out, out_count(&shared) * sizeof(float));
    assert_memory_equal(a->in_gradient, b->in_gradient, in_count(&shared) * sizeof(float));
    assert_memory_equal(a->weights_gradient, b->weights_gradient, weight_count(&shared) * sizeof(float));
}

struct scene {
    struct device *device;
    float *in, *weights, *out_gradient;
};

static struct scene scene_open(const char *name)
{
    struct error error = { 0 };
    struct device *device = device_open(name, &error);
    assert_good(device, error);
    return (struct scene){ device, drawn(device, in_count(&shared), 1), drawn(device, weight_count(&shared), 2),
                           drawn(device, out_count(&shared), 3) };
}

static void scene_close(struct scene *scene)
{
    device_release(scene->device, scene->in);
    device_release(scene->device, scene->weights);
    device_release(scene->device, scene->out_gradient);
    device_close(scene->device);
}

static void queues_at_the_same_time_give_the_same_bits(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct scene plain = scene_open("cpu"), ahead = scene_open("cpu:queued");
    struct worker right = worker_open(plain.device), workers[QUEUES];
    work(&right, plain.in, plain.weights, plain.out_gradient);
    for (size_t i = 0; i < QUEUES; i++)
        workers[i] = worker_open(ahead.device);
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < QUEUES; i++)
            work(&workers[i], ahead.in, ahead.weights, ahead.out_gradient);
    for (size_t i = 0; i < QUEUES; i++) {
        assert_good(queue_wait(workers[i].queue, &error), error);
        same_results(&workers[i], &right);
        worker_close(ahead.device, &workers[i]);
    }
    worker_close(plain.device, &right);
    scene_close(&ahead);
    scene_close(&plain);
}

static void recorded_convolutions_are_replayed_with_the_same_bits(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct scene plain = scene_open("cpu"), records = scene_open("cpu:queued,graphs");
    struct worker right = worker_open(plain.device), worker = worker_open(records.device);
    struct recorded *recorded = recorded_create(records.device, &error);
    assert_good(recorded, error);
    work(&right, plain.in, plain.weights, plain.out_gradient);
    bool is_replayed = false;
    for (size_t round = 0; round < 4; round++) {
        queue_record_begin(worker.queue, recorded);
        work(&worker, records.in, records.weights, records.out_gradient);
        is_replayed = queue_record_end(worker.queue);
        assert_good(queue_wait(worker.queue, &error), error);
        same_results(&worker, &right);
        recorded_prepare(recorded, worker.queue);
    }
    assert_true(is_replayed);
    worker_close(records.device, &worker);
    recorded_free(recorded);
    worker_close(plain.device, &right);
    scene_close(&records);
    scene_close(&plain);
}

// --- refusals ---------------------------------------------------------------------------------------

static struct refusal_row {
    const char *name;
    struct convolution shape;
    const char *sentence;
} refusal_rows[] = {
    { "a window must fit", { 1, 4, 9, 3, 8, 1, { 7, 7, 1, 1, 1, 1 } },
      "the window of a convolution, 7x7, is larger than its padded input, 6x11" },
    { "groups must divide the input's channels", { 1, 4, 4, 6, 8, 4, { 3, 3, 1, 1, 1, 1 } },
      "4 groups of a convolution do not divide its channels, 6 in and 8 out" },
    { "groups must divide the output's channels", { 1, 4, 4, 8, 6, 4, { 3, 3, 1, 1, 1, 1 } },
      "4 groups of a convolution do not divide its channels, 8 in and 6 out" },
    { "there must be a picture", { 0, 4, 4, 8, 8, 1, { 3, 3, 1, 1, 1, 1 } },
      "a convolution has a size, a number of groups or a stride of 0" },
    { "there must be a stride", { 1, 4, 4, 8, 8, 1, { 3, 3, 1, 0, 1, 1 } },
      "a convolution has a size, a number of groups or a stride of 0" },
    { "there must be channels", { 1, 4, 4, 0, 8, 1, { 1, 1, 1, 1, 0, 0 } },
      "a convolution has a size, a number of groups or a stride of 0" },
    { "there must be groups", { 1, 4, 4, 8, 8, 0, { 1, 1, 1, 1, 0, 0 } },
      "a convolution has a size, a number of groups or a stride of 0" },
};

static void fails_with(struct device *device, const struct convolution *shape, size_t pass, const char *sentence)
{
    struct error error = { 0 };
    struct queue *queue = queue_create(device, &error);
    assert_good(queue, error);
    if (pass == 0)
        kernel_convolution(queue, shape, NULL, NULL, NULL, NULL, NULL);
    else if (pass == 1)
        kernel_convolution_input(queue, shape, NULL, NULL, NULL, NULL);
    else
        kernel_convolution_weight(queue, shape, NULL, NULL, NULL, NULL);
    assert_false(queue_wait(queue, &error));
    assert_string_equal(error.text, sentence);
    queue_free(queue);
}

static void impossible_convolutions_are_refused(void **state)
{
    const struct refusal_row *row = *state;
    struct error error = { 0 };
    struct convolution_bytes bytes;
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    assert_false(convolution_bytes(device, &row->shape, &bytes, &error));
    assert_string_equal(error.text, row->sentence);
    for (size_t pass = 0; pass < 3; pass++)
        fails_with(device, &row->shape, pass, row->sentence);
    device_close(device);
}

static void a_caller_that_has_not_asked_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu:queued", &error);
    assert_good(device, error);
    for (size_t pass = 0; pass < 3; pass++)
        fails_with(device, &shared, pass,
                   "a convolution works in a workspace, and its caller has not asked how large a one");
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_any_shape_equal_the_plain_sums),
        cmocka_unit_test(convolutions_of_networks_equal_the_plain_sums),
        cmocka_unit_test(a_nan_reaches_the_windows_that_cover_it_and_no_others),
        cmocka_unit_test(queues_at_the_same_time_give_the_same_bits),
        cmocka_unit_test(recorded_convolutions_are_replayed_with_the_same_bits),
        TEST_ROW(impossible_convolutions_are_refused, &refusal_rows[0]),
        TEST_ROW(impossible_convolutions_are_refused, &refusal_rows[1]),
        TEST_ROW(impossible_convolutions_are_refused, &refusal_rows[2]),
        TEST_ROW(impossible_convolutions_are_refused, &refusal_rows[3]),
        TEST_ROW(impossible_convolutions_are_refused, &refusal_rows[4]),
        TEST_ROW(impossible_convolutions_are_refused, &refusal_rows[5]),
        TEST_ROW(impossible_convolutions_are_refused, &refusal_rows[6]),
        cmocka_unit_test(a_caller_that_has_not_asked_is_refused),
    };
    return cmocka_run_group_tests_name("convolution", tests, NULL, NULL);
}
