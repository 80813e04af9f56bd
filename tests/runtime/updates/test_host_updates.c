// Updates in the host's memory against the same on the device, to the bit.
#include "runtime/updates/host_updates.h"

#include <string.h>

#include "device/maker.h"
#include "tests/test.h"

enum { COUNT = 256, UPDATES = 3 };

static const struct slots one_slot = { .versions = 1 };

// A slab of a stage of COUNT weights of 4 or 2 bytes.
static struct slab open_slab(struct device *device, enum optimizer_kind kind, bool on_host)
{
    struct error error = { 0 };
    const uint64_t weights = COUNT * precision_bytes(device_precision(device));
    const uint64_t state = 4 * COUNT * optimizer_copies(kind);
    struct stage_bytes bytes = { .weights = weights, .version = weights, .gradients = 4 * COUNT, .optimizer = state };
    if (on_host) {
        bytes.host = (struct host_states){ .weights = weights, .gradients = 4 * COUNT, .optimizer = state };
        bytes.optimizer = 0;
    }
    struct slab slab;
    assert_good(slab_open(&slab, device, &bytes, &one_slot, 1, &error), error);
    return slab;
}

// What a stage's weights are after some updates.
static void make_updates(struct device *device, const struct optimizer *optimizer, bool on_host, void *weights)
{
    struct error error = { 0 };
    struct slab slab = open_slab(device, optimizer->kind, on_host);
    struct slab_stage *stage = &slab.stages[0];
    struct queue *queue = queue_create(device, &error);
    struct host_updates updates;
    assert_good(queue && host_updates_open(&updates, queue, &slab, optimizer, &error), error);
    assert_int_equal(updates.queue != NULL, on_host);
    const struct exempt exempt = { 100, 140 };
    const struct optimizer_buffers buffers = {
        .next = row_at(&stage->weights, 0), .weights = row_at(&stage->weights, 0), .gradients = stage->gradients,
        .state = stage->optimizer, .count = COUNT, .exempt = &exempt, .exempt_count = 1,
    };
    queue_zero(queue, on_host ? stage->on_host.optimizer : stage->optimizer,
               4 * COUNT * optimizer_copies(optimizer->kind));
    kernel_fill_normal(queue, buffers.next, 1, 7, 0, COUNT);
    if (on_host)
        host_updates_begin(&updates, queue, optimizer, stage, buffers.next, COUNT);
    else
        optimizer_begin(optimizer, queue, buffers.next, stage->optimizer, COUNT);
    for (uint64_t update = 1; update <= UPDATES; update++) {
        kernel_widen(queue, stage->gradients, buffers.next, COUNT);
        kernel_scale(queue, stage->gradients, stage->gradients, 0.1f * (float)update, COUNT);
        if (on_host)
            host_updates_make(&updates, queue, optimizer, update, stage, &buffers);
        else
            optimizer_update(optimizer, update, queue, &buffers);
        queue_zero(queue, stage->gradients, 4 * COUNT);
    }
    queue_download(queue, weights, buffers.next, stage->bytes.weights);
    assert_good(queue_wait(queue, &error), error);
    queue_free(queue);
    host_updates_close(&updates);
    slab_close(&slab);
}

static void they_are_those_of_the_device(void **state)
{
    (void)state;
    static const char *const names[] = { "cpu", "cpu:queued", "cpu:baseline,queued", "cpu:bf16,queued",
                                         "cpu:fp16,queued" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct error error = { 0 };
        struct device *device = device_open(names[i], &error);
        assert_good(device, error);
        for (enum optimizer_kind kind = OPTIMIZER_SGD; optimizer_names[kind]; kind++) {
            struct optimizer optimizer = optimizer_default(kind);
            char here[4 * COUNT] = { 0 }, there[4 * COUNT] = { 0 };
            if (optimizer_keeps_blocks(kind) || optimizer_is_master(kind) != (device_precision(device) != PRECISION_FP32))
                continue;
            optimizer.decay = 0.1f;
            optimizer.rate = 0.05f;
            make_updates(device, &optimizer, false, here);
            make_updates(device, &optimizer, true, there);
            if (memcmp(here, there, sizeof here) != 0)
                fail_msg("%s, %s: the host's update is another", names[i], optimizer_names[kind]);
        }
        device_close(device);
    }
}

static bool no_good(void *self, const struct layer_update *update, struct error *error)
{
    (void)self;
    return error_set(error, "layer %u is no good", update->layer);
}

// Whatever goes wrong on the host has gone wrong in the rank's queue.
static void a_failure_of_the_host_is_the_queues(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu:queued", &error);
    assert_good(device, error);
    const struct optimizer optimizer = { .kind = OPTIMIZER_SGD, .own = no_good };
    struct slab slab = open_slab(device, OPTIMIZER_SGD, true);
    struct queue *queue = queue_create(device, &error);
    struct host_updates updates;
    assert_good(queue && host_updates_open(&updates, queue, &slab, &optimizer, &error), error);
    const struct stage_part part = { .layer = 5, .first = 0, .end = COUNT };
    host_updates_make(&updates, queue, &optimizer, 1, &slab.stages[0],
                      &(struct optimizer_buffers){ .next = row_at(&slab.stages[0].weights, 0), .count = COUNT,
                                                   .gradients = slab.stages[0].gradients, .parts = &part,
                                                   .part_count = 1 });
    assert_false(queue_wait(queue, &error));
    assert_error(error, "layer 5 is no good");
    queue_free(queue);
    host_updates_close(&updates);
    slab_close(&slab);
    device_close(device);
}

static void *a_stream(struct queue *queue)
{
    return queue;
}

static void an_own_update_on_a_gpu_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct device_functions playing = *device->functions;
    const struct device_functions *functions = device->functions;
    playing.stream = a_stream;
    struct slab slab = open_slab(device, OPTIMIZER_SGD, true);
    struct queue *queue = queue_create(device, &error);
    struct host_updates updates;
    device->functions = &playing;
    assert_false(host_updates_open(&updates, queue, &slab,
                                   &(struct optimizer){ .kind = OPTIMIZER_SGD, .own = no_good }, &error));
    assert_error(error, "the optimizer is on the host, and an update of one's own is made on the GPU: plan with the"
                        " optimizer on the device");
    device->functions = functions;
    queue_free(queue);
    host_updates_close(&updates);
    slab_close(&slab);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_those_of_the_device),
        cmocka_unit_test(a_failure_of_the_host_is_the_queues),
        cmocka_unit_test(an_own_update_on_a_gpu_is_refused),
    };
    return cmocka_run_group_tests_name("host_updates", tests, NULL, NULL);
}
