// Plans of attention are a process's: who makes them, with which handle, on which stream they run, how many threads
// have one at a time, and when they are gone. GPU and cuDNN are played, as far as device/cuda/attention_plans.c calls
// them.
#include "device/cuda/attention_plans.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "device/cuda/cudnn_attention.h"
#include "tests/test.h"

static const struct attention shape = { .batch = 2, .sequence = 128, .heads = 3, .size = 64 };
static const struct attention other_shape = { .batch = 2, .sequence = 256, .heads = 3, .size = 64 };
static const bool both[ATTENTION_DIRECTIONS] = { true, true };

// --- what is played ------------------------------------------------------------------------

struct cudnnContext {
    cudaStream_t stream;
    atomic_int users;  // threads that call something with it at the moment
};

static struct played {
    atomic_int handles, plans;         // that there are
    atomic_int made, graphs;           // so far; and graphs that are not cleared
    atomic_int overlaps;               // calls with a handle that another thread was in
    atomic_int on_others;              // runs with a handle that the plan was not made with
    atomic_int in_threads;             // plans that were made beside the thread that asked
    cudnnStatus_t status, on_backward; // of making a plan
    bool lacks_threads;
    pthread_t asker;
} played;

static void enter(cudnnHandle_t handle)
{
    played.overlaps += atomic_fetch_add(&handle->users, 1) > 0;
}

static void leave(cudnnHandle_t handle)
{
    atomic_fetch_sub(&handle->users, 1);
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = calloc(1, sizeof **handle);
    played.handles++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    played.handles--;
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    enter(handle);
    handle->stream = stream;
    leave(handle);
    return CUDNN_STATUS_SUCCESS;
}

void cudnn_attention_forward(struct cudnn_graph *graph, const struct attention *attention, enum precision precision)
{
    (void)attention, (void)precision;
    *graph = (struct cudnn_graph){ .made_count = 1 };
    played.graphs++;
}

void cudnn_attention_backward(struct cudnn_graph *graph, const struct attention *attention, enum precision precision)
{
    (void)attention, (void)precision;
    *graph = (struct cudnn_graph){ .made_count = 2 };
    played.graphs++;
}

void cudnn_graph_clear(struct cudnn_graph *graph)
{
    *graph = (struct cudnn_graph){ 0 };
    played.graphs--;
}

// The plan's descriptor is the handle that it was made with.
cudnnStatus_t cudnn_plan_make(struct cudnn_plan *plan, struct cudnn_graph *graph, cudnnHandle_t handle,
                              cudnnBackendDescriptor_t chip, struct error *error)
{
    (void)chip;
    enter(handle);
    const bool is_backward = graph->made_count == 2;
    const cudnnStatus_t status = is_backward && played.on_backward ? played.on_backward : played.status;
    played.made++;
    played.in_threads += !pthread_equal(pthread_self(), played.asker);
    *plan = (struct cudnn_plan){ 0 };
    if (status == CUDNN_STATUS_SUCCESS) {
        *plan = (struct cudnn_plan){ (cudnnBackendDescriptor_t)handle, is_backward ? 2000 : 1000 };
        played.plans++;
    } else {
        error_set_kind(error, ERROR_MACHINE, "cuDNN will not");
    }
    leave(handle);
    return status;
}

void cudnn_plan_clear(struct cudnn_plan *plan)
{
    if (plan->plan)
        played.plans--;
    *plan = (struct cudnn_plan){ 0 };
}

// The workspace stands for the stream that it belongs to.
cudnnStatus_t cudnn_plan_run(const struct cudnn_plan *plan, cudnnHandle_t handle, const int64_t *ids, void **addresses,
                             size_t count, void *workspace)
{
    (void)ids, (void)addresses, (void)count;
    enter(handle);
    played.on_others += plan->plan != (cudnnBackendDescriptor_t)handle;
    const bool is_its_stream = (void *)handle->stream == workspace;
    leave(handle);
    return is_its_stream ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    (void)status;
    return "played";
}

bool cuda_enter(const struct device *device)
{
    (void)device;
    return true;
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*begin)(void *),
                   void *restrict argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *found = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&real, &found, sizeof real);
    return played.lacks_threads ? EAGAIN : real(thread, attributes, begin, argument);
}

// --- devices -------------------------------------------------------------------------------------

struct gpu {
    struct cuda_device own;
    struct device device;
    struct attention_plan *plans[ATTENTION_DIRECTIONS];
};

static int set_up(void **state)
{
    (void)state;
    played = (struct played){ .asker = pthread_self() };
    return 0;
}

static struct device *device_of(struct gpu *gpu, int ordinal, enum precision precision)
{
    *gpu = (struct gpu){ .own = { .ordinal = ordinal }, .device = { .precision = precision } };
    gpu->device.own = &gpu->own;
    return &gpu->device;
}

static void take(struct gpu *gpu, int ordinal, enum precision precision, const struct attention *of)
{
    struct error error = { 0 };
    assert_good(attention_plans_take(device_of(gpu, ordinal, precision), of, both, gpu->plans, &error), error);
}

static void give(struct gpu *gpu)
{
    for (size_t i = 0; i < ATTENTION_DIRECTIONS; i++)
        attention_plan_give(gpu->plans[i]);
}

static void assert_nothing_left(void)
{
    assert_int_equal(played.handles, 0);
    assert_int_equal(played.plans, 0);
    assert_int_equal(played.graphs, 0);
    assert_int_equal(played.overlaps, 0);
    assert_int_equal(played.on_others, 0);
}

// --- tests -----------------------------------------------------------------------------------------

static void devices_of_a_gpu_share_plans(void **state)
{
    (void)state;
    struct gpu first, second;
    take(&first, 0, PRECISION_BF16, &shape);
    take(&second, 0, PRECISION_BF16, &shape);
    assert_int_equal(played.made, 2);
    assert_int_equal(played.handles, 2);
    assert_memory_equal(first.plans, second.plans, sizeof first.plans);
    assert_true(attention_plan_is_there(first.plans[ATTENTION_FORWARD]));
    assert_int_equal(attention_plan_bytes(first.plans[ATTENTION_FORWARD]), 1000);
    assert_int_equal(attention_plan_bytes(first.plans[ATTENTION_BACKWARD]), 2000);
    give(&first);
    assert_int_equal(played.plans, 2);  // the other has them still
    give(&second);
    assert_nothing_left();
}

static void what_differs_has_plans_of_its_own(void **state)
{
    (void)state;
    struct gpu gpus[4];
    take(&gpus[0], 0, PRECISION_BF16, &shape);
    take(&gpus[1], 1, PRECISION_BF16, &shape);
    take(&gpus[2], 0, PRECISION_FP16, &shape);
    take(&gpus[3], 0, PRECISION_BF16, &other_shape);
    assert_int_equal(played.made, 8);
    for (size_t i = 0; i < 4; i++)
        give(&gpus[i]);
    assert_nothing_left();
}

static void both_directions_are_made_side_by_side(void **state)
{
    (void)state;
    struct gpu gpu;
    take(&gpu, 0, PRECISION_BF16, &shape);
    assert_int_equal(played.in_threads, 1);
    give(&gpu);
    assert_nothing_left();
}

static void without_a_thread_to_be_had_they_are_made_in_turn(void **state)
{
    (void)state;
    struct gpu gpu;
    played.lacks_threads = true;
    take(&gpu, 0, PRECISION_BF16, &shape);
    assert_int_equal(played.made, 2);
    assert_int_equal(played.in_threads, 0);
    give(&gpu);
    assert_nothing_left();
}

static void only_what_is_wanted_is_made(void **state)
{
    (void)state;
    static const bool forward_only[ATTENTION_DIRECTIONS] = { true, false };
    struct gpu gpu, more;
    struct error error = { 0 };
    assert_good(attention_plans_take(device_of(&gpu, 0, PRECISION_BF16), &shape, forward_only, gpu.plans, &error),
                error);
    assert_int_equal(played.made, 1);
    assert_null(gpu.plans[ATTENTION_BACKWARD]);
    take(&more, 0, PRECISION_BF16, &shape);
    assert_int_equal(played.made, 2);
    give(&gpu);
    give(&more);
    assert_nothing_left();
}

static void that_cudnn_has_none_is_remembered_without_a_handle(void **state)
{
    (void)state;
    struct gpu gpu, again;
    played.on_backward = CUDNN_STATUS_NOT_SUPPORTED;
    take(&gpu, 0, PRECISION_BF16, &shape);
    take(&again, 0, PRECISION_BF16, &shape);
    assert_int_equal(played.made, 2);
    assert_int_equal(played.handles, 1);
    assert_true(attention_plan_is_there(gpu.plans[ATTENTION_FORWARD]));
    assert_false(attention_plan_is_there(gpu.plans[ATTENTION_BACKWARD]));
    give(&gpu);
    give(&again);
    assert_nothing_left();
}

static void a_plan_that_could_not_be_made_is_forgotten(void **state)
{
    (void)state;
    struct gpu gpu;
    struct error error = { 0 };
    played.on_backward = CUDNN_STATUS_INTERNAL_ERROR;
    assert_false(attention_plans_take(device_of(&gpu, 0, PRECISION_BF16), &shape, both, gpu.plans, &error));
    assert_error(error, "cuDNN will not");
    assert_int_equal(error.kind, ERROR_MACHINE);
    assert_null(gpu.plans[ATTENTION_FORWARD]);
    assert_nothing_left();  // nor is the other kept, which nobody has
    played.on_backward = CUDNN_STATUS_SUCCESS;
    take(&gpu, 0, PRECISION_BF16, &shape);
    assert_int_equal(played.made, 4);
    give(&gpu);
    assert_nothing_left();
}

// --- many threads ------------------------------------------------------------------------------------

enum { THREADS = 4, RUNS = 200 };

// Takes, runs on a stream of its own, gives back, again and again.
static void *attend(void *failures)
{
    for (int i = 0; i < RUNS; i++) {
        struct gpu gpu;
        struct error error = { 0 };
        char stream;
        if (!attention_plans_take(device_of(&gpu, 0, PRECISION_BF16), i % 3 ? &shape : &other_shape, both, gpu.plans,
                                  &error)) {
            ++*(atomic_int *)failures;
            return NULL;
        }
        for (size_t d = 0; d < ATTENTION_DIRECTIONS; d++)
            *(atomic_int *)failures += attention_plan_run(gpu.plans[d], (cudaStream_t)(void *)&stream, NULL, NULL, 0,
                                                          &stream) != CUDNN_STATUS_SUCCESS;
        give(&gpu);
    }
    return NULL;
}

static void a_plan_runs_for_one_thread_at_a_time_on_that_one_s_stream(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    atomic_int failures = 0;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, attend, &failures), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failures, 0);
    assert_nothing_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(devices_of_a_gpu_share_plans, set_up),
        cmocka_unit_test_setup(what_differs_has_plans_of_its_own, set_up),
        cmocka_unit_test_setup(both_directions_are_made_side_by_side, set_up),
        cmocka_unit_test_setup(without_a_thread_to_be_had_they_are_made_in_turn, set_up),
        cmocka_unit_test_setup(only_what_is_wanted_is_made, set_up),
        cmocka_unit_test_setup(that_cudnn_has_none_is_remembered_without_a_handle, set_up),
        cmocka_unit_test_setup(a_plan_that_could_not_be_made_is_forgotten, set_up),
        cmocka_unit_test_setup(a_plan_runs_for_one_thread_at_a_time_on_that_one_s_stream, set_up),
    };
    return cmocka_run_group_tests_name("attention_plans", tests, NULL, NULL);
}
