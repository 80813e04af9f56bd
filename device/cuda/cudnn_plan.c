// From a graph of operations to a plan: cuDNN suggests engines, and each is tried.
#include "device/cuda/cudnn_graph.h"

enum { MOST_SUGGESTIONS = 64 };  // of a convolution, of which dozens round to TF32

static cudnnStatus_t set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    return cudnnBackendSetAttribute(descriptor, name, type, count, values);
}

// Why there is no plan: cuDNN has none, which is noted for each suggestion, until another error occurs.
struct reason {
    cudnnStatus_t status;
    struct error error;
};

static bool may_go_on(const struct reason *reason)
{
    return reason->status == CUDNN_STATUS_SUCCESS || cudnn_has_none(reason->status);
}

static bool good(cudnnStatus_t status, const char *what, struct reason *reason)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return true;
    char more[200] = "";
    cudnnGetLastErrorString(more, sizeof more);
    if (!may_go_on(reason))
        return false;
    *reason = (struct reason){ .status = status };
    return error_set_kind(&reason->error, ERROR_MACHINE, "cuDNN refused %s: %s (%s)", what,
                          cudnnGetErrorString(status), more);
}

static void destroy(cudnnBackendDescriptor_t descriptor)
{
    if (descriptor)
        cudnnBackendDestroyDescriptor(descriptor);
}

// Makes one graph of all operations.
static bool make_whole(const struct cudnn_graph *graph, cudnnHandle_t handle, cudnnBackendDescriptor_t *whole,
                       struct reason *reason)
{
    *whole = NULL;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, whole);
    if (status == CUDNN_STATUS_SUCCESS)
        status = set(*whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                     (int64_t)graph->operation_count, graph->operations);
    if (status == CUDNN_STATUS_SUCCESS && handle)
        status = set(*whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(*whole);
    return good(status, "a graph of operations", reason);
}

// --- suggestions -----------------------------------------------------------------------------

struct suggestions {
    cudnnBackendDescriptor_t configurations[MOST_SUGGESTIONS];
    int64_t count;
};

static void suggestions_clear(struct suggestions *suggestions)
{
    for (size_t i = 0; i < MOST_SUGGESTIONS; i++)
        destroy(suggestions->configurations[i]);
    *suggestions = (struct suggestions){ 0 };
}

static cudnnStatus_t read_suggestions(cudnnBackendDescriptor_t heuristic, struct suggestions *suggestions)
{
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    for (size_t i = 0; status == CUDNN_STATUS_SUCCESS && i < MOST_SUGGESTIONS; i++)
        status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &suggestions->configurations[i]);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          MOST_SUGGESTIONS, &suggestions->count, suggestions->configurations);
    if (suggestions->count > MOST_SUGGESTIONS)
        suggestions->count = MOST_SUGGESTIONS;
    return status;
}

static bool suggest(cudnnBackendDescriptor_t whole, cudnnBackendHeurMode_t mode, cudnnBackendDescriptor_t chip,
                    struct suggestions *suggestions, struct reason *reason)
{
    cudnnBackendDescriptor_t heuristic = NULL;
    *suggestions = (struct suggestions){ 0 };
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristic);
    if (status == CUDNN_STATUS_SUCCESS)
        status = set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &whole);
    if (status == CUDNN_STATUS_SUCCESS)
        status = set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (status == CUDNN_STATUS_SUCCESS && chip)
        status = set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &chip);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(heuristic);
    if (status == CUDNN_STATUS_SUCCESS)
        status = read_suggestions(heuristic, suggestions);
    destroy(heuristic);
    return good(status, "to suggest an engine", reason);
}

// Refuses an engine that is marked as giving results that differ from run to run, or with another note that the graph
// refuses.
static cudnnStatus_t ask_for_notes(cudnnBackendDescriptor_t configuration, uint32_t refused_notes)
{
    const uint32_t refused = refused_notes | 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendDescriptor_t engine = NULL;
    int64_t engines = 0, count = 0;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                          &engines, &engine);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes);
    for (int64_t i = 0; status == CUDNN_STATUS_SUCCESS && i < count; i++)
        if (refused >> notes[i] & 1)
            status = CUDNN_STATUS_NOT_SUPPORTED;
    destroy(engine);
    return status;
}

// --- plans -------------------------------------------------------------------------------------

static cudnnStatus_t build(struct cudnn_plan *plan, cudnnBackendDescriptor_t configuration, cudnnHandle_t handle,
                           cudnnBackendDescriptor_t chip)
{
    int64_t count = 0;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan->plan);
    if (status == CUDNN_STATUS_SUCCESS)
        status = set(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                     &configuration);
    if (status == CUDNN_STATUS_SUCCESS && handle)
        status = set(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    if (status == CUDNN_STATUS_SUCCESS && chip)
        status = set(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &chip);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(plan->plan);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                          &count, &plan->workspace_bytes);
    return status;
}

void cudnn_plan_clear(struct cudnn_plan *plan)
{
    destroy(plan->plan);
    *plan = (struct cudnn_plan){ 0 };
}

// Tries the suggestions in their order, skipping those that cuDNN refuses. If one fails for another reason, such as
// lack of memory, the search ends: the next one would give other bits, in this process alone.
static bool build_one_of(struct cudnn_plan *plan, const struct suggestions *suggestions, uint32_t refused_notes,
                         cudnnHandle_t handle, cudnnBackendDescriptor_t chip, struct reason *reason)
{
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    for (int64_t i = 0; i < suggestions->count && cudnn_has_none(status); i++) {
        status = ask_for_notes(suggestions->configurations[i], refused_notes);
        if (status == CUDNN_STATUS_SUCCESS)
            status = build(plan, suggestions->configurations[i], handle, chip);
        if (status == CUDNN_STATUS_SUCCESS)
            return true;
        cudnn_plan_clear(plan);
    }
    return good(status, "the plans that repeat their bits", reason);
}

cudnnStatus_t cudnn_plan_make(struct cudnn_plan *plan, struct cudnn_graph *graph, cudnnHandle_t handle,
                              cudnnBackendDescriptor_t chip, struct error *error)
{
    static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK };
    struct reason reason = { .status = graph->status };
    *plan = (struct cudnn_plan){ 0 };
    if (!cudnn_graph_is_good(graph, error))
        return graph->status;
    cudnnBackendDescriptor_t whole = NULL;
    bool made = false;
    if (make_whole(graph, handle, &whole, &reason))
        for (size_t i = 0; !made && may_go_on(&reason) && i < sizeof modes / sizeof modes[0]; i++) {
            struct suggestions suggestions;
            made = suggest(whole, modes[i], chip, &suggestions, &reason)
                && build_one_of(plan, &suggestions, graph->refused_notes, handle, chip, &reason);
            suggestions_clear(&suggestions);
        }
    destroy(whole);
    if (made)
        return CUDNN_STATUS_SUCCESS;
    error_set_kind(error, reason.error.kind, "%s", reason.error.text);
    return reason.status;
}

cudnnStatus_t cudnn_plan_run(const struct cudnn_plan *plan, cudnnHandle_t handle, const int64_t *ids, void **addresses,
                             size_t count, void *workspace)
{
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, (int64_t)count, ids);
    if (status == CUDNN_STATUS_SUCCESS)
        status = set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, (int64_t)count, addresses);
    if (status == CUDNN_STATUS_SUCCESS)
        status = set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendExecute(handle, plan->plan, pack);
    destroy(pack);
    return status;
}
