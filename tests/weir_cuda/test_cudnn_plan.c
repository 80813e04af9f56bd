// Which of cuDNN's suggestions becomes the plan: the first that repeats its bits and is not refused, and none where
// something else goes wrong. cuDNN's backend is played as far as device/cuda/cudnn_plan.c calls it.
#include "device/cuda/cudnn_graph.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

// --- what is played ------------------------------------------------------------------------

// An engine that is suggested, and what becomes of it.
struct engine {
    cudnnStatus_t notes, plan;  // of asking for its notes, and of making a plan of it
    bool differs;               // from run to run, by its notes
    bool transforms;            // by Fourier, by its notes
};

enum { MODES = 2, MOST_ENGINES = 3 };

struct suggested {
    cudnnStatus_t status;  // of asking for suggestions
    size_t count;
    struct engine engines[MOST_ENGINES];
};

static struct suggested suggested[MODES];  // in mode A, and to fall back to
static int descriptors;
static size_t plans_tried;

struct descriptor {
    cudnnBackendDescriptorType_t type;
    size_t mode;
    const struct engine *engine;
};

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *made)
{
    struct descriptor *descriptor = calloc(1, sizeof *descriptor);
    descriptor->type = type;
    descriptors++;
    *made = descriptor;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    descriptors--;
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    struct descriptor *of = descriptor;
    (void)type, (void)count;
    if (name == CUDNN_ATTR_ENGINEHEUR_MODE)
        of->mode = *(const cudnnBackendHeurMode_t *)values == CUDNN_HEUR_MODE_A ? 0 : 1;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
        of->engine = (*(struct descriptor *const *)values)->engine;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    const struct descriptor *of = descriptor;
    if (of->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        return suggested[of->mode].status;
    if (of->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        return CUDNN_STATUS_SUCCESS;
    plans_tried++;
    return of->engine->plan;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *values)
{
    const struct descriptor *of = descriptor;
    (void)type, (void)room;
    switch ((int)name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        *count = (int64_t)suggested[of->mode].count;
        for (size_t i = 0; i < suggested[of->mode].count; i++)
            (*(struct descriptor **)(void *)((char *)values + i * sizeof(void *)))->engine
                = &suggested[of->mode].engines[i];
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        (*(struct descriptor **)values)->engine = of->engine;
        *count = 1;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        *count = of->engine->differs || of->engine->transforms;
        *(cudnnBackendNumericalNote_t *)values = of->engine->differs ? CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC
                                                                     : CUDNN_NUMERICAL_NOTE_FFT;
        return of->engine->notes;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        // Which engine it is of, from 1; those to fall back to from 11.
        *(int64_t *)values = of->engine >= suggested[1].engines && of->engine < suggested[1].engines + MOST_ENGINES
                                 ? 11 + (of->engine - suggested[1].engines)
                                 : 1 + (of->engine - suggested[0].engines);
        return CUDNN_STATUS_SUCCESS;
    default:
        return CUDNN_STATUS_BAD_PARAM;
    }
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_ALLOC_FAILED ? "no memory" : "refused";
}

void cudnnGetLastErrorString(char *text, size_t room)
{
    snprintf(text, room, "played");
}

// --- tests -----------------------------------------------------------------------------------

#define FINE { CUDNN_STATUS_SUCCESS, CUDNN_STATUS_SUCCESS, false, false }
#define DIFFERING { CUDNN_STATUS_SUCCESS, CUDNN_STATUS_SUCCESS, true, false }
#define TRANSFORMING { CUDNN_STATUS_SUCCESS, CUDNN_STATUS_SUCCESS, false, true }
#define REFUSED { CUDNN_STATUS_SUCCESS, CUDNN_STATUS_NOT_SUPPORTED, false, false }
#define WITHOUT_MEMORY { CUDNN_STATUS_SUCCESS, CUDNN_STATUS_ALLOC_FAILED, false, false }
#define WITHOUT_NOTES { CUDNN_STATUS_ALLOC_FAILED, CUDNN_STATUS_SUCCESS, false, false }

static struct plan_row {
    const char *name;
    struct suggested suggested[MODES];
    cudnnStatus_t status;
    int64_t taken;  // which engine
    size_t tried;
    const char *sentence;
} plan_rows[] = {
    { "the first that is suggested becomes the plan", { { 0, 2, { FINE, FINE } } }, CUDNN_STATUS_SUCCESS, 1, 1, "" },
    { "one whose bits differ from run to run is passed over", { { 0, 2, { DIFFERING, FINE } } }, CUDNN_STATUS_SUCCESS,
      2, 1, "" },
    { "one that is refused is passed over", { { 0, 3, { REFUSED, DIFFERING, FINE } } }, CUDNN_STATUS_SUCCESS, 3, 2,
      "" },
    { "where all are there are others to fall back to", { { 0, 1, { REFUSED } }, { 0, 2, { REFUSED, FINE } } },
      CUDNN_STATUS_SUCCESS, 12, 3, "" },
    { "also where there are none", { { CUDNN_STATUS_NOT_SUPPORTED, 0, { FINE } }, { 0, 1, { FINE } } },
      CUDNN_STATUS_SUCCESS, 11, 1, "" },
    { "where these are refused, too, cuDNN has none", { { 0, 1, { REFUSED } }, { 0, 1, { REFUSED } } },
      CUDNN_STATUS_NOT_SUPPORTED, 0, 2, "cuDNN refused the plans that repeat their bits: refused (played)" },
    { "for want of memory no other is taken", { { 0, 2, { WITHOUT_MEMORY, FINE } }, { 0, 1, { FINE } } },
      CUDNN_STATUS_ALLOC_FAILED, 0, 1, "cuDNN refused the plans that repeat their bits: no memory (played)" },
    { "nor for want of its notes", { { 0, 2, { WITHOUT_NOTES, FINE } }, { 0, 1, { FINE } } },
      CUDNN_STATUS_ALLOC_FAILED, 0, 0, "cuDNN refused the plans that repeat their bits: no memory (played)" },
    { "nor for want of suggestions", { { CUDNN_STATUS_ALLOC_FAILED, 0, { FINE } }, { 0, 1, { FINE } } },
      CUDNN_STATUS_ALLOC_FAILED, 0, 0, "cuDNN refused to suggest an engine: no memory (played)" },
    { "that is what is told, not that others were refused before",
      { { 0, 1, { REFUSED } }, { 0, 2, { WITHOUT_MEMORY, FINE } } }, CUDNN_STATUS_ALLOC_FAILED, 0, 2,
      "cuDNN refused the plans that repeat their bits: no memory (played)" },
};

static void is_how_a_plan_is_found(void **state)
{
    const struct plan_row *row = *state;
    struct cudnn_graph graph = { 0 };
    struct cudnn_plan plan;
    struct error error = { 0 };
    memcpy(suggested, row->suggested, sizeof suggested);
    plans_tried = 0;
    assert_int_equal(cudnn_plan_make(&plan, &graph, NULL, NULL, &error), row->status);
    assert_int_equal(plan.workspace_bytes, row->taken);
    assert_int_equal(plans_tried, row->tried);
    assert_error(error, row->sentence);
    assert_int_equal(descriptors, plan.plan ? 1 : 0);
    cudnn_plan_clear(&plan);
    assert_int_equal(descriptors, 0);
}

// The first engine has a note, and the bits of the second one differ from run to run.
static void a_note_that_the_graph_refuses_is_passed_over(void **state)
{
    (void)state;
    static const struct suggested all[MODES] = { { 0, 3, { TRANSFORMING, DIFFERING, FINE } } };
    memcpy(suggested, all, sizeof suggested);
    for (uint32_t refused = 0; refused < 2; refused++) {
        struct cudnn_graph graph = { .refused_notes = refused << CUDNN_NUMERICAL_NOTE_FFT };
        struct cudnn_plan plan;
        struct error error = { 0 };
        assert_int_equal(cudnn_plan_make(&plan, &graph, NULL, NULL, &error), CUDNN_STATUS_SUCCESS);
        assert_int_equal(plan.workspace_bytes, refused ? 3 : 1);
        cudnn_plan_clear(&plan);
    }
    assert_int_equal(descriptors, 0);
}

int main(void)
{
    struct CMUnitTest tests[sizeof plan_rows / sizeof plan_rows[0] + 1]
        = { cmocka_unit_test(a_note_that_the_graph_refuses_is_passed_over) };
    for (size_t i = 0; i < sizeof plan_rows / sizeof plan_rows[0]; i++)
        tests[i + 1] = (struct CMUnitTest)TEST_ROW(is_how_a_plan_is_found, &plan_rows[i]);
    return cmocka_run_group_tests_name("cudnn_plan", tests, NULL, NULL);
}
