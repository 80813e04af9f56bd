#include "runtime/updates/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"

enum { COUNT = 257 };  // no multiple of any vector

struct bench {
    struct device *device;
    struct queue *queue;
    float weights[COUNT], gradients[COUNT];
};

// The cpu's memory is ours, and its numbers are floats.
static struct values *values(const float *floats)
{
    return (struct values *)(uintptr_t)floats;
}

static struct bench bench_open(uint64_t seed)
{
    struct error error = { 0 };
    struct bench bench = { .device = device_open("cpu", &error) };
    assert_good(bench.device, error);
    bench.queue = queue_create(bench.device, &error);
    assert_good(bench.queue, error);
    for (size_t i = 0; i < COUNT; i++) {
        bench.weights[i] = (float)random_unit(&seed) - 0.5f;
        bench.gradients[i] = (float)random_unit(&seed) - 0.5f;
    }
    return bench;
}

static void bench_close(struct bench *bench)
{
    struct error error = { 0 };
    assert_good(queue_wait(bench->queue, &error), error);
    queue_free(bench->queue);
    device_close(bench->device);
}

static struct optimizer optimizer_of(enum optimizer_kind kind)
{
    struct optimizer optimizer = optimizer_default(kind);
    optimizer.rate = 0.1f;
    optimizer.decay = 0.01f;
    return optimizer;
}

// A matrix and a vector, and gaps behind both.
static const struct weir_tensor tensors[] = { { "matrix", 3, 10, 0 }, { "vector", 0, 120, 128 } };

static void a_stage_at_once_equals_its_layers_one_by_one(void **state)
{
    (void)state;
    for (enum optimizer_kind kind = OPTIMIZER_SGD; kind <= OPTIMIZER_LARS; kind++) {
        struct bench bench = bench_open(kind);
        const struct optimizer optimizer = optimizer_of(kind);
        const struct stage_part in_whole[] = { { .end = 100 },
                                               { .first = 100, .end = COUNT, .tensors = tensors, .tensor_count = 2 } };
        const struct stage_part in_second = { .end = COUNT - 100, .tensors = tensors, .tensor_count = 2 };
        float whole[COUNT], parts[COUNT], whole_state[2 * COUNT] = { 0 }, first_state[2 * 100] = { 0 },
                            second_state[2 * (COUNT - 100)] = { 0 };
        memcpy(whole, bench.weights, sizeof whole);
        memcpy(parts, bench.weights, sizeof parts);
        const struct exempt exempt[] = { { 10, 20 }, { 100, 130 } };
        const struct exempt first[] = { { 10, 20 } }, second[] = { { 0, 30 } };
        for (uint64_t update = 1; update <= 3; update++) {
            optimizer_update(&optimizer, update, bench.queue,
                             &(struct optimizer_buffers){
                                 .next = values(whole), .weights = values(whole), .gradients = bench.gradients,
                                 .state = whole_state, .count = COUNT, .exempt = exempt, .exempt_count = 2,
                                 .parts = in_whole, .part_count = 2
                             });
            optimizer_update(&optimizer, update, bench.queue,
                             &(struct optimizer_buffers){
                                 .next = values(parts), .weights = values(parts), .gradients = bench.gradients,
                                 .state = first_state, .count = 100, .exempt = first, .exempt_count = 1
                             });
            optimizer_update(&optimizer, update, bench.queue,
                             &(struct optimizer_buffers){
                                 .next = values(parts + 100), .weights = values(parts + 100),
                                 .gradients = bench.gradients + 100, .state = second_state, .count = COUNT - 100,
                                 .exempt = second, .exempt_count = 1, .parts = &in_second, .part_count = 1
                             });
        }
        assert_memory_equal(whole, parts, sizeof whole);
        assert_memory_not_equal(whole, bench.weights, sizeof whole);
        bench_close(&bench);
    }
}

// Parts of three rates, one after the other, beside each as a stage of its own.
static void each_part_has_its_own_rate(void **state)
{
    (void)state;
    static const struct stage_part parts[] = { { .end = 60, .rate_factor = 0.5f },
                                               { .first = 60, .end = 60, .rate_factor = 3 },
                                               { .first = 60, .end = 100, .rate_factor = 0.5f },
                                               { .first = 100, .end = 190 },
                                               { .first = 190, .end = COUNT, .rate_factor = 2 } };
    for (enum optimizer_kind kind = OPTIMIZER_SGD; kind <= OPTIMIZER_LARS; kind++) {
        struct bench bench = bench_open(kind);
        float whole[COUNT], alone[COUNT], whole_state[2 * COUNT] = { 0 };
        memcpy(alone, bench.weights, sizeof alone);
        optimizer_update(&(struct optimizer){ .kind = kind, .rate = 0.5f, .momentum = 0.5f, .decay = 0.25f,
                                              .beta1 = 0.5f, .beta2 = 0.75f, .epsilon = 1e-6f, .trust = 0.5f },
                         1, bench.queue,
                         &(struct optimizer_buffers){ .next = values(whole), .weights = values(bench.weights),
                                                      .gradients = bench.gradients, .state = whole_state,
                                                      .count = COUNT, .parts = parts, .part_count = 5 });
        for (size_t i = 0; i < 5; i++) {
            const struct optimizer own = { .kind = kind, .momentum = 0.5f, .decay = 0.25f, .beta1 = 0.5f,
                                           .rate = parts[i].rate_factor > 0 ? 0.5f * parts[i].rate_factor : 0.5f,
                                           .beta2 = 0.75f, .epsilon = 1e-6f, .trust = 0.5f };
            float state_of[2 * COUNT] = { 0 }, *numbers = alone + parts[i].first;
            optimizer_update(&own, 1, bench.queue,
                             &(struct optimizer_buffers){ .next = values(numbers), .weights = values(numbers),
                                                          .gradients = bench.gradients + parts[i].first,
                                                          .state = state_of, .count = parts[i].end - parts[i].first });
        }
        assert_memory_equal(whole, alone, sizeof whole);
        bench_close(&bench);
    }
}

static void what_is_frozen_keeps_its_bits(void **state)
{
    (void)state;
    static const struct stage_part parts[] = { { .end = 60 }, { .first = 60, .end = 190, .is_frozen = true },
                                               { .first = 190, .end = COUNT } };
    for (enum optimizer_kind kind = OPTIMIZER_SGD; kind <= OPTIMIZER_LARS; kind++) {
        struct bench bench = bench_open(kind);
        const struct optimizer optimizer = optimizer_of(kind);
        float next[COUNT] = { 0 }, moments[2 * COUNT] = { 0 };
        const float zeroes[130] = { 0 };
        optimizer_update(&optimizer, 1, bench.queue,
                         &(struct optimizer_buffers){ .next = values(next), .weights = values(bench.weights),
                                                      .gradients = bench.gradients, .state = moments, .count = COUNT,
                                                      .parts = parts, .part_count = 3 });
        for (size_t i = 0; i < COUNT; i++)
            assert_true((next[i] == bench.weights[i]) == (i >= 60 && i < 190));
        assert_memory_equal(moments + 60, zeroes, sizeof zeroes);
        assert_memory_equal(moments + COUNT + 60, zeroes, sizeof zeroes);
        bench_close(&bench);
    }
}

static void the_next_version_may_be_written_elsewhere(void **state)
{
    (void)state;
    for (enum optimizer_kind kind = OPTIMIZER_SGD; kind <= OPTIMIZER_LARS; kind++) {
        struct bench bench = bench_open(kind);
        const struct optimizer optimizer = optimizer_of(kind);
        float here[COUNT], there[COUNT], before[COUNT], state_here[2 * COUNT] = { 0 }, state_there[2 * COUNT] = { 0 };
        memcpy(here, bench.weights, sizeof here);
        memcpy(before, bench.weights, sizeof before);
        optimizer_update(&optimizer, 1, bench.queue,
                         &(struct optimizer_buffers){
                             .next = values(here), .weights = values(here), .gradients = bench.gradients,
                             .state = state_here, .count = COUNT
                         });
        optimizer_update(&optimizer, 1, bench.queue,
                         &(struct optimizer_buffers){
                             .next = values(there), .weights = values(bench.weights), .gradients = bench.gradients,
                             .state = state_there, .count = COUNT
                         });
        assert_memory_equal(here, there, sizeof here);
        assert_memory_equal(bench.weights, before, sizeof before);
        bench_close(&bench);
    }
}

static void exempt_elements_do_not_decay(void **state)
{
    (void)state;
    struct bench bench = bench_open(7);
    const struct optimizer optimizer = { .kind = OPTIMIZER_SGD, .rate = 1.0f, .decay = 0.5f };
    float gradients[COUNT] = { 0 }, next[COUNT];
    const struct exempt exempt[] = { { 0, 1 }, { 3, 5 } };
    optimizer_update(&optimizer, 1, bench.queue,
                     &(struct optimizer_buffers){
                         .next = values(next), .weights = values(bench.weights), .gradients = gradients,
                         .count = COUNT, .exempt = exempt, .exempt_count = 2
                     });
    for (size_t i = 0; i < COUNT; i++) {
        const bool decays = i != 0 && i != 3 && i != 4;
        assert_true(next[i] == (decays ? 0.5f * bench.weights[i] : bench.weights[i]));
    }
    bench_close(&bench);
}

// By LARS at no momentum a tensor's step is `trust` of its norm, whatever its gradients are; what is exempt takes a
// plain one, and what is in no tensor none.
static void a_tensor_is_scaled_by_its_own_norm(void **state)
{
    (void)state;
    struct bench bench = bench_open(8);
    const struct optimizer optimizer = { .kind = OPTIMIZER_LARS, .rate = 1.0f, .trust = 0.25f };
    const struct stage_part part = { .first = 7, .end = COUNT, .tensors = tensors, .tensor_count = 2 };
    const struct exempt exempt = { 7 + 32, 7 + 32 + 120 };
    float next[COUNT], state_of[COUNT] = { 0 };
    double step = 0, norm = 0;
    memcpy(next, bench.weights, sizeof next);
    optimizer_update(&optimizer, 1, bench.queue,
                     &(struct optimizer_buffers){
                         .next = values(next), .weights = values(bench.weights), .gradients = bench.gradients,
                         .state = state_of, .count = COUNT, .exempt = &exempt, .exempt_count = 1, .parts = &part,
                         .part_count = 1
                     });
    for (size_t i = 0; i < COUNT; i++) {
        const bool in_matrix = i >= 7 && i < 37, in_vector = i >= 39 && i < 159;
        if (in_matrix) {
            step += pow((double)next[i] - (double)bench.weights[i], 2);
            norm += pow((double)bench.weights[i], 2);
        } else {
            assert_true(next[i] == bench.weights[i] - (in_vector ? bench.gradients[i] : 0));
        }
    }
    assert_true(fabs(sqrt(step) - 0.25 * sqrt(norm)) < 1e-6);
    bench_close(&bench);
}

// Three updates of PyTorch 2.15, on these weights, with these gradients, rate 0.1 and decay 0.05.
static const struct {
    const char *name;
    struct optimizer optimizer;
    float weights[6];
} pytorch[] = {
    { "SGD", { .kind = OPTIMIZER_SGD },
      { -0.751430273f, 0.504787385f, -0.454725921f, 0.800807714f, -0.29620558f, 0.960012019f } },
    { "SGD, momentum=0.9", { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f },
      { -0.722888947f, 0.543284953f, -0.500760913f, 0.874866426f, -0.306679368f, 0.959494531f } },
    { "SGD, momentum=0.9, nesterov=True", { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .is_nesterov = true },
      { -0.72763586f, 0.54339838f, -0.454689592f, 0.912007749f, -0.347330302f, 0.923703969f } },
    { "Adam", { .kind = OPTIMIZER_ADAM, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f },
      { -0.666981041f, 0.472021043f, -0.588175535f, 0.915869474f, -0.235288769f, 0.896654308f } },
    { "AdamW", { .kind = OPTIMIZER_ADAMW, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f },
      { -0.674028695f, 0.57406795f, -0.594032586f, 0.919689655f, -0.236493513f, 0.90878427f } },
    { "Adagrad", { .kind = OPTIMIZER_ADAGRAD, .epsilon = 1e-10f },
      { -0.719179451f, 0.435898006f, -0.473238051f, 0.835871398f, -0.258622438f, 0.90564847f } },
};

// The same of torch.optim.Adafactor: a vector, and a matrix of two rows.
static void adafactor_is_that_of_pytorch(void **state)
{
    static const float want[2][6] = {
        { -0.741182089f, 0.505827367f, -0.433691829f, 0.81595695f, -0.279234141f, 0.909913003f },
        { -0.75868696f, 0.500492156f, -0.460721195f, 0.826347291f, -0.269623011f, 0.954488039f },
    };
    static const struct weir_tensor matrix = { "matrix", 2, 3, 0 };
    (void)state;
    struct bench bench = bench_open(10);
    for (size_t n = 0; n < 2; n++) {
        const struct optimizer optimizer = { .kind = OPTIMIZER_ADAFACTOR, .rate = 0.1f, .decay = 0.05f };
        const struct stage_part part = { .end = 6, .tensors = &matrix, .tensor_count = n };
        float weights[6], gradients[6], state_of[6] = { 0 };
        for (int k = 0; k < 6; k++)
            weights[k] = (float)((5 * k + 1) % 9 - 4) / 4;
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < 6; k++)
                gradients[k] = (float)((7 * i + 3 * k + 2) % 11 - 5) / 8;
            optimizer_update(&optimizer, (uint64_t)i + 1, bench.queue,
                             &(struct optimizer_buffers){ .next = values(weights), .weights = values(weights),
                                                          .gradients = gradients, .state = state_of, .count = 6,
                                                          .parts = &part, .part_count = 1 });
        }
        for (int k = 0; k < 6; k++)
            if (!(fabsf(weights[k] - want[n][k]) <= 1e-6f))
                fail_msg("weight %d is %.9g, and PyTorch has %.9g", k, (double)weights[k], (double)want[n][k]);
    }
    bench_close(&bench);
}

// Beside AdamW with moments in full, what is exempt in the midst of a block included.
static void adam_in_8_bits_is_near_adamw(void **state)
{
    (void)state;
    struct bench bench = bench_open(11);
    const struct exempt exempt = { 20, 90 };
    const struct stage_part part = { .end = COUNT };
    float near[COUNT], full[COUNT], moments[2 * COUNT] = { 0 }, block[2 + (2 * COUNT + 3) / 4 + 1] = { 0 };
    struct optimizer optimizer = optimizer_default(OPTIMIZER_ADAM_8BIT);
    optimizer.decay = 0.1f;
    memcpy(near, bench.weights, sizeof near);
    memcpy(full, bench.weights, sizeof full);
    for (uint64_t update = 1; update <= 8; update++) {
        struct optimizer_buffers buffers = { .next = values(near), .weights = values(near), .state = block,
                                             .gradients = bench.gradients, .count = COUNT, .exempt = &exempt,
                                             .exempt_count = 1, .parts = &part, .part_count = 1 };
        optimizer.kind = OPTIMIZER_ADAM_8BIT;
        optimizer_update(&optimizer, update, bench.queue, &buffers);
        optimizer.kind = OPTIMIZER_ADAMW;
        buffers.next = values(full), buffers.weights = values(full), buffers.state = moments;
        optimizer_update(&optimizer, update, bench.queue, &buffers);
    }
    double far = 0;
    for (size_t i = 0; i < COUNT; i++)
        far = fmax(far, fabs((double)near[i] - (double)full[i]));
    assert_true(far > 0 && far < 8e-4);  // of 8 steps of 0.001 each
    bench_close(&bench);
}

// Up to its freeze step adamw to the bit; from then on, of gradients that are all here, by the formula. What has had no
// gradient by then has no second moment, and stays but for its decay.
static void adam_in_1_bit_freezes_its_second_moment(void **state)
{
    enum { FREEZE = 3, UPDATES = 7, NEVER = 40 };
    (void)state;
    struct bench bench = bench_open(12);
    struct optimizer optimizer = optimizer_default(OPTIMIZER_ADAM_1BIT), plain = optimizer_default(OPTIMIZER_ADAMW);
    float weights[COUNT], twins[COUNT], kept[3 * COUNT] = { 0 }, moments[2 * COUNT] = { 0 };
    double want[COUNT], first[COUNT], second[COUNT];
    optimizer.freeze_step = FREEZE;
    optimizer.decay = plain.decay = 0.1f;
    memcpy(weights, bench.weights, sizeof weights);
    memcpy(twins, bench.weights, sizeof twins);
    for (uint64_t update = 1; update <= UPDATES; update++) {
        for (size_t i = 0; i < COUNT; i++)
            bench.gradients[i] = update <= FREEZE && i < NEVER ? 0 : bench.gradients[(i + 1) % COUNT];
        struct optimizer_buffers buffers = { .next = values(weights), .weights = values(weights), .state = kept,
                                             .gradients = bench.gradients, .count = COUNT };
        optimizer_update(&optimizer, update, bench.queue, &buffers);
        for (size_t i = 0; update > FREEZE && i < COUNT; i++) {
            const double near_second = second[i] / (1 - pow((double)0.999f, FREEZE));
            first[i] = i < NEVER ? 0 : (double)0.9f * first[i] + (double)0.1f * (double)bench.gradients[i];
            want[i] -= 0.001 * (first[i] / (1 - pow((double)0.9f, (double)update)) / (sqrt(near_second) + 1e-8)
                                + 0.1 * want[i]);
            if (!(fabs((double)weights[i] - want[i]) <= 1e-6))
                fail_msg("weight %zu is %.9g, should be %.9g", i, (double)weights[i], want[i]);
        }
        if (update > FREEZE)
            continue;
        buffers.next = values(twins), buffers.weights = values(twins), buffers.state = moments;
        optimizer_update(&plain, update, bench.queue, &buffers);
        assert_memory_equal(weights, twins, sizeof weights);
        for (size_t i = 0; i < COUNT; i++)
            want[i] = (double)weights[i], first[i] = (double)kept[i], second[i] = (double)kept[COUNT + i];
    }
    assert_memory_equal(kept + COUNT, moments + COUNT, COUNT * sizeof(float));
    bench_close(&bench);
}

static void a_freeze_step_is_a_fifth_of_the_steps(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct optimizer optimizer = optimizer_default(OPTIMIZER_ADAM_1BIT), plain = optimizer_default(OPTIMIZER_ADAMW);
    assert_true(optimizer_freeze(&optimizer, 0, 2, &error) && optimizer.freeze_step == 1);
    assert_true(optimizer_freeze(&optimizer, 0, 104, &error) && optimizer.freeze_step == 20);
    assert_true(optimizer_freeze(&optimizer, 7, 104, &error) && optimizer.freeze_step == 7);
    assert_true(optimizer_freeze(&plain, 0, 104, &error) && !optimizer_is_frozen(&plain, 1000));
    assert_false(optimizer_freeze(&plain, 7, 104, &error));
    assert_error(error, "a freeze step is adam1bit's, and the plan's optimizer is adamw; leave it out");
}

static void updates_are_those_of_pytorch(void **state)
{
    (void)state;
    struct bench bench = bench_open(9);
    for (size_t n = 0; n < sizeof pytorch / sizeof pytorch[0]; n++) {
        struct optimizer optimizer = pytorch[n].optimizer;
        float weights[6], gradients[6], state_of[12] = { 0 };
        optimizer.rate = 0.1f;
        optimizer.decay = 0.05f;
        for (int k = 0; k < 6; k++)
            weights[k] = (float)((5 * k + 1) % 9 - 4) / 4;
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < 6; k++)
                gradients[k] = (float)((7 * i + 3 * k + 2) % 11 - 5) / 8;
            optimizer_update(&optimizer, (uint64_t)i + 1, bench.queue,
                             &(struct optimizer_buffers){ .next = values(weights), .weights = values(weights),
                                                          .gradients = gradients, .state = state_of, .count = 6 });
        }
        for (int k = 0; k < 6; k++)
            if (!(fabsf(weights[k] - pytorch[n].weights[k]) <= 1e-6f))
                fail_msg("%s: weight %d is %.9g, and PyTorch has %.9g", pytorch[n].name, k, (double)weights[k],
                         (double)pytorch[n].weights[k]);
    }
    bench_close(&bench);
}

// By three updates in PyTorch 2: of torch.optim.SparseAdam, and of TorchRec's RowWiseAdagrad (by its formula, in
// tensors). Row 3 has no gradient in the second update, and rows 0 and 2 never have one.
static const struct rows_row {
    const char *name;
    enum optimizer_kind kind;
    size_t kept;  // numbers of state
    float weights[12];
} by_rows[] = {
    { "SparseAdam", OPTIMIZER_ADAM_ROWS, 24,
      { -0.625f, 0.25f, -0.25f, 0.58530372f, 0.28341895f, -0.59256834f, 0.5f, 0.0f, -0.5f, 0.47048172f, -0.19357127f,
        -0.49064279f } },
    { "RowWiseAdagrad", OPTIMIZER_ADAGRAD_ROWS, 4,
      { -0.625f, 0.25f, -0.25f, 0.63839751f, 0.18273503f, -0.47500002f, 0.5f, 0.0f, -0.5f, 0.39535052f, -0.0990595f,
        -0.52224272f } },
};

static struct row_list listed(void *memory, int update)
{
    static const int rows[] = { 1, 3 };
    const struct row_list list = row_list_in(memory, 2, 4, 3);
    *list.count = update == 1 ? 1 : 2;
    for (uint32_t k = 0; k < *list.count; k++) {
        list.numbers[k] = rows[k];
        list.places[rows[k]] = (int32_t)k;
        for (int c = 0; c < 3; c++)
            list.sums[3 * k + (size_t)c] = (float)((rows[k] * 5 + c * 3 + update * 2) % 7 - 3) / 4;
    }
    return list;
}

static void updates_of_rows_are_those_of_pytorch(void **state)
{
    (void)state;
    struct bench bench = bench_open(9);
    for (size_t n = 0; n < sizeof by_rows / sizeof by_rows[0]; n++) {
        struct optimizer optimizer = optimizer_default(by_rows[n].kind);
        float weights[12], state_of[24] = { 0 };
        _Alignas(256) unsigned char memory[1024] = { 0 };
        optimizer.rate = 0.1f;
        for (int i = 0; i < 12; i++)
            weights[i] = (float)((i * 7) % 11 - 5) / 8;
        const struct stage_part part = { .end = 12, .rows = 4, .columns = 3, .room = 2 };
        assert_true(row_list_bytes(2, 4, 3) <= sizeof memory);
        for (int update = 0; update < 3; update++) {
            listed(memory, update);
            optimizer_update(&optimizer, (uint64_t)update + 1, bench.queue,
                             &(struct optimizer_buffers){ .next = values(weights), .weights = values(weights),
                                                          .gradients = (const float *)(const void *)memory,
                                                          .state = state_of, .count = 12, .parts = &part,
                                                          .part_count = 1 });
        }
        for (int i = 0; i < 12; i++)
            if (!(fabsf(weights[i] - by_rows[n].weights[i]) <= 1e-6f))
                fail_msg("%s: weight %d is %.9g, and PyTorch has %.9g", by_rows[n].name, i, (double)weights[i],
                         (double)by_rows[n].weights[i]);
        for (size_t i = by_rows[n].kept; i < 24; i++)
            assert_true(state_of[i] == 0);
    }
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_at_once_equals_its_layers_one_by_one),
        cmocka_unit_test(each_part_has_its_own_rate),
        cmocka_unit_test(what_is_frozen_keeps_its_bits),
        cmocka_unit_test(the_next_version_may_be_written_elsewhere),
        cmocka_unit_test(exempt_elements_do_not_decay),
        cmocka_unit_test(a_tensor_is_scaled_by_its_own_norm),
        cmocka_unit_test(updates_are_those_of_pytorch),
        cmocka_unit_test(updates_of_rows_are_those_of_pytorch),
        cmocka_unit_test(adafactor_is_that_of_pytorch),
        cmocka_unit_test(adam_in_8_bits_is_near_adamw),
        cmocka_unit_test(adam_in_1_bit_freezes_its_second_moment),
        cmocka_unit_test(a_freeze_step_is_a_fifth_of_the_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
