#include "runtime/checkpoint/resume.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "runtime/checkpoint/copy_states.h"
#include "runtime/checkpoint/run_folder.h"
#include "runtime/groups/agreement.h"

static void say(const struct resume_request *request, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(const struct resume_request *request, const char *format, ...)
{
    char sentence[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (group_is_first(request->group))
        request->say(request->self, sentence);
}

// --- the same manifest on all ranks --------------------------------------------------------

// Which checkpoints exist, as rank 0 sees them.
static bool share_steps(const struct resume_request *request, uint64_t **steps, size_t *count, struct error *error)
{
    const struct process_group *group = request->group;
    uint64_t number = 0;
    *steps = group_is_first(group) ? run_folder_steps(request->folder, count, error) : NULL;
    if (!ranks_all_good(group, !group_is_first(group) || *steps, error))
        return false;
    number = group_is_first(group) ? *count : 0;
    if (!group_broadcast(group, 0, &number, sizeof number, error))
        return false;
    *count = number;
    if (!group_is_first(group))
        *steps = calloc(*count + 1, sizeof **steps);
    if (!ranks_all_good(group, *steps || error_no_memory(error, "the checkpoints of a run"), error))
        return false;
    return number == 0 || group_broadcast(group, 0, *steps, number * sizeof **steps, error);
}

// A file that could not be read for lack of memory is not damaged. False with that error.
static bool has_memory(const struct error *damaged, struct error *error)
{
    return !damaged->lacks_memory || error_hand_on(error, damaged);
}

// Rank 0 sends the text of the manifest, and each rank parses it. NULL with the fault if it is damaged; false if
// ranks failed.
static bool share_manifest(const struct resume_request *request, const char *checkpoint, struct manifest **manifest,
                           struct error *damaged, struct error *error)
{
    const struct process_group *group = request->group;
    char path[PATH_MAX];
    size_t length = 0;
    char *text = group_is_first(group) ? run_folder_manifest(checkpoint, &length, path, damaged) : NULL;
    *manifest = text ? manifest_read(text, length, path, damaged) : NULL;
    uint64_t bytes = *manifest ? length : 0;
    bool good = ranks_all_good(group, has_memory(damaged, error), error)
             && group_broadcast(group, 0, &bytes, sizeof bytes, error);
    if (good && group && bytes > 0) {
        if (!group_is_first(group))
            text = malloc(bytes);
        good = ranks_all_good(group, text || error_no_memory(error, "a checkpoint"), error)
            && group->broadcast(group->self, 0, text, bytes, error);
        if (good && !group_is_first(group))
            *manifest = manifest_read(text, bytes, checkpoint, error);
        good = good && ranks_all_good(group, *manifest != NULL, error);
    }
    free(text);
    return good;
}

static bool is_of_this_run(const struct resume_request *request, const struct manifest *was, const char *checkpoint,
                           struct error *error)
{
    return (request->rules->belongs(was, request->run, error)
            && lasting_model_matches(request->lasting, was, error))
        || error_name(error, "%.200s", checkpoint);
}

// --- putting it in place -----------------------------------------------------------------------

// A file that cannot be used sets `damaged`; anything else is an error.
static bool load_layer(const struct resume_request *request, const struct manifest *manifest, const char *checkpoint,
                       uint32_t layer, struct error *damaged, struct error *error)
{
    const struct lasting_model *lasting = request->lasting;
    struct lasting_state state;
    if (!lasting_state_create(&state, lasting, layer, "a layer of a checkpoint", error))
        return false;
    bool good = layer_file_load(checkpoint, &lasting->form, &lasting->layers[layer], &manifest->layers[layer].written,
                                state.parts, damaged);
    if (!has_memory(damaged, error))
        good = false;
    for (uint32_t part = 0; good && part < lasting_parts(&lasting->form); part++)
        good = pipeline_write_part(request->pipeline, layer, part, state.parts[part], error);
    if (good && state.parts[LASTING_STATE])
        good = pipeline_write_part(request->pipeline, layer, LAYER_STATE, state.parts[LASTING_STATE], error);
    lasting_state_clear(&state);
    return good;
}

// Every rank loads what it has. False on all ranks, with either of the two.
static bool load_layers(const struct resume_request *request, const struct manifest *manifest, const char *checkpoint,
                        struct error *damaged, struct error *error)
{
    bool good = true;
    for (uint32_t l = 0; good && l < request->lasting->layer_count; l++)
        if (pipeline_has_any(request->pipeline, l))
            good = load_layer(request, manifest, checkpoint, l, damaged, error);
    return ranks_all_good(request->group, error->kind == ERROR_NONE, error)
        && ranks_all_good(request->group, damaged->kind == ERROR_NONE, damaged);
}

// Without a file it writes zeros: a newer checkpoint may have been tried before, and rejected.
static bool load_copy(const struct resume_request *request, const struct manifest_layer *from, const char *checkpoint,
                      const struct copy_state *state, struct error *damaged, struct error *error)
{
    const struct lasting_layer file = copy_state_layer(state);
    float *numbers = calloc(state->tensor.columns + 1, sizeof *numbers);
    void *const parts[LASTING_PARTS] = { numbers };
    bool good = numbers || error_no_memory(error, "a layer of a checkpoint");
    good = good && (!from || layer_file_load(checkpoint, &copy_state_form, &file, &from->written, parts, damaged));
    if (!has_memory(damaged, error))
        good = false;
    good = good && copy_state_write(state, request->pipeline, numbers, error);
    free(numbers);
    return good;
}

// Loads what copies keep for themselves, if the plan is the same; `has_copies` says whether it is.
static bool load_copies(const struct resume_request *request, const struct manifest *manifest, const char *checkpoint,
                        bool *has_copies, struct error *damaged, struct error *error)
{
    struct copy_states states;
    bool good = copy_states_open(&states, request->pipeline, error);
    *has_copies = good && copy_states_match(&states, manifest, request->run);
    for (size_t c = 0; good && c < states.count; c++)
        if (copy_state_is_here(&states.at[c], request->pipeline))
            good = load_copy(request, *has_copies ? &manifest->copies[c] : NULL, checkpoint, &states.at[c], damaged,
                             error);
    copy_states_close(&states);
    return ranks_all_good(request->group, error->kind == ERROR_NONE, error)
        && ranks_all_good(request->group, damaged->kind == ERROR_NONE, damaged);
}

// Reports a stage of the plan whose layers come from stages that have made different numbers of updates
// (pipeline_go_on()).
static void say_merged(const struct resume_request *request, const struct manifest *manifest)
{
    const struct plan *plan = request->pipeline->plan;
    for (size_t s = 0; s < plan->stage_count; s++) {
        uint64_t least = UINT64_MAX, most = 0;
        for (uint32_t l = plan->stages[s].first; l < plan->stages[s].end; l++) {
            const uint64_t updates = manifest->layers[l].updates;
            least = updates < least ? updates : least;
            most = updates > most ? updates : most;
        }
        if (least < most)
            say(request, "stage %zu has layers that have seen %llu updates, and such that have seen %llu: an optimizer"
                " that goes by their number takes it for %llu in all of them", s, (unsigned long long)least,
                (unsigned long long)most, (unsigned long long)most);
    }
}

// Continues with the ended run's loss scale. How long until it doubles is this run's own setting.
static bool read_scaling(const struct resume_request *request, const struct manifest *manifest,
                         struct loss_scaling *scaling, struct error *error)
{
    *scaling = *session_scaling(request->pipeline->session);
    if (scaling->scale <= 0)
        return true;
    const struct loss_scaling wish = { .scale = strtof(manifest->loss_scale.scale, NULL),
                                       .interval = scaling->interval };
    if (!loss_scaling_open(scaling, &wish, PRECISION_FP16, error))
        return error_at(error, "loss_scale");
    scaling->made = (uint32_t)min_u64(manifest->loss_scale.made, scaling->interval - 1);
    scaling->skipped = manifest->loss_scale.skipped;
    return true;
}

static bool go_on(const struct resume_request *request, const struct manifest *manifest, struct error *error)
{
    struct loss_scaling scaling;
    if (!read_scaling(request, manifest, &scaling, error))
        return false;
    uint64_t *updates = calloc(manifest->layer_count + 1, sizeof *updates);
    if (!updates)
        return error_no_memory(error, "a checkpoint");
    for (size_t l = 0; l < manifest->layer_count; l++)
        updates[l] = manifest->layers[l].updates;
    const bool good = pipeline_go_on(request->pipeline, manifest->passes, updates, &scaling, error);
    free(updates);
    return good;
}

// True also if the checkpoint is damaged, which is reported; then there is no manifest.
static bool try_checkpoint(const struct resume_request *request, uint64_t step, struct manifest **found,
                           struct error *error)
{
    char checkpoint[PATH_MAX];
    struct error damaged = { 0 }, trouble = { 0 };
    struct manifest *manifest = NULL;
    bool has_copies = false;
    bool good = run_folder_path(request->folder, step, checkpoint, error)
             && share_manifest(request, checkpoint, &manifest, &damaged, error)
             && (!manifest || is_of_this_run(request, manifest, checkpoint, error));
    if (good && manifest && load_layers(request, manifest, checkpoint, &damaged, &trouble)
        && load_copies(request, manifest, checkpoint, &has_copies, &damaged, &trouble)) {
        if (request->run->steps > 0)
            say(request, "goes on from %.300s, step %llu of %llu", checkpoint, (unsigned long long)manifest->step,
                (unsigned long long)request->run->steps);
        else
            say(request, "goes on from %.300s, step %llu", checkpoint, (unsigned long long)manifest->step);
        if (group_is_first(request->group))
            request->rules->say_changes(manifest, request->run, request->say, request->self);
        say_merged(request, manifest);
        if (manifest->copy_count > 0 && !has_copies)
            say(request, "what compression had left of each replica's momentum is the old plan's, and begins at zero");
        *found = manifest;
        return go_on(request, manifest, error);
    }
    manifest_free(manifest);
    if (good && trouble.kind != ERROR_NONE)
        good = error_hand_on(error, &trouble);
    if (good)
        say(request, "%s; it is left out", damaged.text);
    return good;
}

bool resume_run(const struct resume_request *request, struct manifest **found, struct error *error)
{
    uint64_t *steps;
    size_t count = 0;
    *found = NULL;
    bool good = share_steps(request, &steps, &count, error);
    for (size_t i = 0; good && !*found && i < count; i++)
        good = try_checkpoint(request, steps[i], found, error);
    free(steps);
    if (good && count > 0 && !*found)
        return error_named(error, "%.300s: none of its %zu checkpoints is whole: remove them to begin anew",
                           request->folder, count);
    if (good && count == 0)
        say(request, "%.300s has no checkpoint yet: the run begins with its first step", request->folder);
    return good;
}
