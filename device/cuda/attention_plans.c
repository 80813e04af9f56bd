#include "device/cuda/attention_plans.h"

#include <pthread.h>
#include <stdlib.h>

#include "device/cuda/cudnn_attention.h"

struct attention_plan {
    struct attention_plan *next;
    int ordinal;
    enum precision precision;
    struct attention shape;
    bool is_backward;
    bool is_there;  // false: cuDNN has none
    unsigned takers;
    cudnnHandle_t handle;
    struct cudnn_plan plan;
    pthread_mutex_t running;
};

// All plans of the process. The lock is held while plans are made, so that others that ask for the same plan find it.
static struct {
    pthread_mutex_t lock;
    struct attention_plan *first;
} plans = { .lock = PTHREAD_MUTEX_INITIALIZER };

// --- one plan --------------------------------------------------------------------------------

static bool same_shape(const struct attention *a, const struct attention *b)
{
    return a->batch == b->batch && a->sequence == b->sequence && a->heads == b->heads && a->size == b->size;
}

static struct attention_plan *find(int ordinal, enum precision precision, const struct attention *shape,
                                   bool is_backward)
{
    struct attention_plan *plan = plans.first;
    while (plan && (plan->ordinal != ordinal || plan->precision != precision || plan->is_backward != is_backward
                    || !same_shape(&plan->shape, shape)))
        plan = plan->next;
    return plan;
}

static void close_handle(struct attention_plan *plan)
{
    if (plan->handle)
        cudnnDestroy(plan->handle);
    plan->handle = NULL;
}

static void free_plan(struct attention_plan *plan)
{
    cudnn_plan_clear(&plan->plan);
    close_handle(plan);
    pthread_mutex_destroy(&plan->running);
    free(plan);
}

// A new plan with a handle, still to be made.
static struct attention_plan *open_plan(const struct device *device, const struct attention *shape, bool is_backward,
                                        struct error *error)
{
    struct attention_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return error_null(error_no_memory(error, "attention"));
    *plan = (struct attention_plan){ .ordinal = cuda_device_of(device)->ordinal, .precision = device->precision,
                                     .shape = *shape, .is_backward = is_backward,
                                     .running = PTHREAD_MUTEX_INITIALIZER };
    const cudnnStatus_t status = cudnnCreate(&plan->handle);
    if (status == CUDNN_STATUS_SUCCESS)
        return plan;
    error_set_kind(error, ERROR_MACHINE, "opening cuDNN failed: %s", cudnnGetErrorString(status));
    plan->handle = NULL;
    free_plan(plan);
    return NULL;
}

// --- making -----------------------------------------------------------------------------------

struct making {
    const struct device *device;
    struct attention_plan *plan;  // NULL: there is nothing to make
    struct error error;
    bool is_good;
};

static void make(struct making *making)
{
    struct attention_plan *plan = making->plan;
    struct cudnn_graph graph = { 0 };
    if (plan->is_backward)
        cudnn_attention_backward(&graph, &plan->shape, plan->precision);
    else
        cudnn_attention_forward(&graph, &plan->shape, plan->precision);
    const cudnnStatus_t status = cudnn_plan_make(&plan->plan, &graph, plan->handle, NULL, &making->error);
    cudnn_graph_clear(&graph);
    plan->is_there = status == CUDNN_STATUS_SUCCESS;
    making->is_good = plan->is_there || cudnn_has_none(status);
    if (!plan->is_there)
        close_handle(plan);
}

static void *make_in_thread(void *making)
{
    cuda_enter(((struct making *)making)->device);
    make(making);
    return NULL;
}

// Makes both. The backward's plan is made by a second thread, if one can be started.
static void make_both(struct making makings[ATTENTION_DIRECTIONS])
{
    struct making *second = &makings[ATTENTION_BACKWARD];
    pthread_t thread;
    const bool are_two = makings[ATTENTION_FORWARD].plan && second->plan
                      && pthread_create(&thread, NULL, make_in_thread, second) == 0;
    for (size_t i = 0; i < ATTENTION_DIRECTIONS; i++)
        if (makings[i].plan && (&makings[i] != second || !are_two))
            make(&makings[i]);
    if (are_two)
        pthread_join(thread, NULL);
}

// Makes the plans that do not exist yet. A plan that could not be made is dropped.
static bool make_missing(const struct device *device, const struct attention *shape,
                         const bool is_wanted[ATTENTION_DIRECTIONS], struct error *error)
{
    struct making makings[ATTENTION_DIRECTIONS] = { { .device = device }, { .device = device } };
    bool good = true;
    for (size_t i = 0; good && i < ATTENTION_DIRECTIONS; i++)
        if (is_wanted[i] && !find(cuda_device_of(device)->ordinal, device->precision, shape, i == ATTENTION_BACKWARD))
            good = (makings[i].plan = open_plan(device, shape, i == ATTENTION_BACKWARD, error));
    if (good)
        make_both(makings);
    for (size_t i = 0; i < ATTENTION_DIRECTIONS; i++) {
        struct attention_plan *plan = makings[i].plan;
        if (!plan)
            continue;
        if (good && !makings[i].is_good)
            good = error_set_kind(error, ERROR_MACHINE, "%s", makings[i].error.text);
        if (!makings[i].is_good) {
            free_plan(plan);
            continue;
        }
        plan->next = plans.first;
        plans.first = plan;
    }
    return good;
}

// --- taking and giving back --------------------------------------------------------------------

static void drop_unused(void)
{
    for (struct attention_plan **link = &plans.first; *link;) {
        struct attention_plan *plan = *link;
        if (plan->takers > 0) {
            link = &plan->next;
            continue;
        }
        *link = plan->next;
        free_plan(plan);
    }
}

bool attention_plans_take(struct device *device, const struct attention *shape,
                          const bool is_wanted[ATTENTION_DIRECTIONS],
                          struct attention_plan *taken[ATTENTION_DIRECTIONS], struct error *error)
{
    pthread_mutex_lock(&plans.lock);
    const bool good = make_missing(device, shape, is_wanted, error);
    for (size_t i = 0; i < ATTENTION_DIRECTIONS; i++) {
        taken[i] = good && is_wanted[i] ? find(cuda_device_of(device)->ordinal, device->precision, shape,
                                               i == ATTENTION_BACKWARD)
                                        : NULL;
        if (taken[i])
            taken[i]->takers++;
    }
    drop_unused();  // also a plan that was made beside one that could not be
    pthread_mutex_unlock(&plans.lock);
    return good;
}

void attention_plan_give(struct attention_plan *plan)
{
    if (!plan)
        return;
    pthread_mutex_lock(&plans.lock);
    plan->takers--;
    drop_unused();
    pthread_mutex_unlock(&plans.lock);
}

// --- a plan that is there -----------------------------------------------------------------------

bool attention_plan_is_there(const struct attention_plan *plan)
{
    return plan->is_there;
}

uint64_t attention_plan_bytes(const struct attention_plan *plan)
{
    return (uint64_t)plan->plan.workspace_bytes;
}

cudnnStatus_t attention_plan_run(struct attention_plan *plan, cudaStream_t stream, const int64_t *ids,
                                 void **addresses, size_t count, void *workspace)
{
    pthread_mutex_lock(&plan->running);
    cudnnStatus_t status = cudnnSetStream(plan->handle, stream);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnn_plan_run(&plan->plan, plan->handle, ids, addresses, count, workspace);
    pthread_mutex_unlock(&plan->running);
    return status;
}
