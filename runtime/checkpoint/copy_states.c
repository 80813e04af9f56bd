#include "runtime/checkpoint/copy_states.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct lasting_form copy_state_form = { PRECISION_FP32, OPTIMIZER_SGD };

static uint32_t copies_of(const struct pipeline *pipeline, uint32_t stage)
{
    return session_copies(pipeline->session, stage);
}

static void add(struct copy_states *states, const struct pipeline *pipeline, uint32_t stage, uint32_t copy)
{
    const uint64_t kept = optimizer_copies(pipeline->plan->storage.optimizer) * sizeof(float);
    struct copy_state *state = &states->at[states->count++];
    *state = (struct copy_state){ stage, copy, .tensor = { .name = "error", .rows = 1 } };
    state->tensor.columns = pipeline->stages[stage].bytes.optimizer / kept;
    snprintf(state->name, sizeof state->name, "stage%u.copy%u", stage, copy);
}

bool copy_states_open(struct copy_states *states, const struct pipeline *pipeline, struct error *error)
{
    const uint32_t stages = (uint32_t)pipeline->plan->stage_count;
    size_t most = 0;
    *states = (struct copy_states){ 0 };
    if (!optimizer_compresses(pipeline->plan->storage.optimizer))
        return true;
    for (uint32_t s = 0; s < stages; s++)
        most += copies_of(pipeline, s);
    states->at = calloc(most + 1, sizeof *states->at);
    for (uint32_t s = 0; states->at && s < stages; s++)
        for (uint32_t c = 0; copies_of(pipeline, s) > 1 && c < copies_of(pipeline, s); c++)
            add(states, pipeline, s, c);
    return states->at || error_no_memory(error, "what the copies of stages keep");
}

void copy_states_close(struct copy_states *states)
{
    free(states->at);
    *states = (struct copy_states){ 0 };
}

bool copy_states_match(const struct copy_states *states, const struct manifest *was, const struct manifest *now)
{
    if (was->copy_count != states->count || strcmp(was->plan.hash, now->plan.hash) != 0)
        return false;
    for (size_t i = 0; i < states->count; i++)
        if (strcmp(was->copies[i].name, states->at[i].name) != 0)
            return false;
    return true;
}

struct lasting_layer copy_state_layer(const struct copy_state *state)
{
    return (struct lasting_layer){ .name = state->name, .tensors = &state->tensor, .tensor_count = 1,
                                   .numbers = state->tensor.columns };
}

// After the moments.
static struct state_span span_of(const struct copy_state *state, const struct pipeline *pipeline)
{
    const uint64_t kept = optimizer_copies(pipeline->plan->storage.optimizer);
    return (struct state_span){ .stage = state->stage, .part = (uint32_t)kept, .count = state->tensor.columns };
}

bool copy_state_is_here(const struct copy_state *state, const struct pipeline *pipeline)
{
    return session_has(pipeline->session, state->stage, state->copy);
}

static bool read_state(const struct copy_state *state, const struct pipeline *pipeline, void *host, struct error *error)
{
    const struct state_span span = span_of(state, pipeline);
    return session_read_state(pipeline->session, &span, state->copy, host, error);
}

bool copy_state_write(const struct copy_state *state, const struct pipeline *pipeline, const void *host,
                      struct error *error)
{
    const struct state_span span = span_of(state, pipeline);
    return session_write_copy(pipeline->session, &span, state->copy, host, error);
}

// --- files ----------------------------------------------------------------------------------

bool copy_files_open(struct copy_files *files, const struct pipeline *pipeline, struct error *error)
{
    *files = (struct copy_files){ 0 };
    if (!copy_states_open(&files->states, pipeline, error))
        return false;
    files->kept = calloc(files->states.count + 1, sizeof *files->kept);
    files->files = calloc(files->states.count + 1, sizeof *files->files);
    bool good = files->kept && files->files;
    for (size_t c = 0; good && c < files->states.count; c++) {
        struct copy_state *state = &files->states.at[c];
        files->files[c].name = state->name;
        if (copy_state_is_here(state, pipeline))
            good = (files->kept[c] = calloc(state->tensor.columns + 1, sizeof(float))) != NULL;
    }
    return good || error_no_memory(error, "a copy of what checkpoints keep");
}

void copy_files_close(struct copy_files *files)
{
    for (size_t c = 0; files->kept && c < files->states.count; c++)
        free(files->kept[c]);
    free(files->kept);
    free(files->files);
    copy_states_close(&files->states);
}

bool copy_files_read(struct copy_files *files, const struct pipeline *pipeline, struct error *error)
{
    bool good = true;
    for (size_t c = 0; good && c < files->states.count; c++) {
        files->files[c].written = (struct layer_written){ 0 };
        good = !files->kept[c] || read_state(&files->states.at[c], pipeline, files->kept[c], error);
    }
    return good;
}

bool copy_files_save(struct copy_files *files, const char *folder, uint64_t step, struct error *error)
{
    bool good = true;
    for (size_t c = 0; good && c < files->states.count; c++) {
        const struct lasting_layer file = copy_state_layer(&files->states.at[c]);
        void *const parts[LASTING_PARTS] = { files->kept[c] };
        good = !parts[0] || layer_file_save(folder, &copy_state_form, &file, step, parts, &files->files[c].written,
                                            error);
    }
    return good;
}
