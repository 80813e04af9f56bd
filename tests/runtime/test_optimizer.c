#include "runtime/optimizer.h"

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

static void a_stage_at_once_equals_its_layers_one_by_one(void **state)
{
    (void)state;
    for (enum optimizer_kind kind = OPTIMIZER_SGD; kind <= OPTIMIZER_ADAMW; kind++) {
        struct bench bench = bench_open(kind);
        const struct optimizer optimizer = optimizer_of(kind);
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
                                 .state = whole_state, .count = COUNT, .exempt = exempt, .exempt_count = 2
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
                                 .exempt = second, .exempt_count = 1
                             });
        }
        assert_memory_equal(whole, parts, sizeof whole);
        assert_memory_not_equal(whole, bench.weights, sizeof whole);
        bench_close(&bench);
    }
}

static void the_next_version_may_be_written_elsewhere(void **state)
{
    (void)state;
    for (enum optimizer_kind kind = OPTIMIZER_SGD; kind <= OPTIMIZER_ADAMW; kind++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_at_once_equals_its_layers_one_by_one),
        cmocka_unit_test(the_next_version_may_be_written_elsewhere),
        cmocka_unit_test(exempt_elements_do_not_decay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
