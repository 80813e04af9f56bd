#include "runtime/chain_parts.h"

#include <assert.h>
#include <stdlib.h>

#include "common/number.h"

struct profile *chain_profile(const struct weir_layer *layers, size_t layer_count, const char *dtype,
                              struct error *error)
{
    struct profile *profile = profile_create("", dtype, 1, layer_count, error);
    for (size_t l = 0; profile && l < layer_count; l++) {
        const struct weir_layer *from = &layers[l];
        struct profile_layer *to = &profile->layers[l];
        to->parameter_bytes = from->parameter_bytes;
        to->output_bytes = from->output_bytes;
        to->saved_bytes = from->saved_bytes;
        to->carried_bytes = from->carried_bytes;
        to->input_kept = (enum input_kept)from->input_kept;
        to->held_for_weight_bytes = from->held_for_weight_bytes;
        to->workspace_bytes = from->workspace_bytes;
        to->backward_workspace_bytes = from->backward_workspace_bytes;
        if (!from->backward)
            to->backward_workspace_bytes =
                round_to_256(to->backward_workspace_bytes) + round_to_256(from->held_for_weight_bytes);
    }
    return profile;
}

// --- laying out ------------------------------------------------------------------

static uint64_t output_bytes(const struct placed *link)
{
    return round_to_256(link->layer->output_bytes);
}

static const struct rerun *find_rerun(const struct chain *chain, uint32_t layer)
{
    for (size_t i = 0; i < chain->rerun_count; i++)
        if (chain->reruns[i].segment.first <= layer && layer < chain->reruns[i].segment.end)
            return &chain->reruns[i];
    return NULL;
}

static enum output_place place_of(const struct chain *chain, size_t i)
{
    if (i + 1 == chain_length(chain))
        return OUTPUT_LEAVES;
    const struct placed *maker = &chain->links[i], *reader = &chain->links[i + 1];
    const bool needed = reader->layer->input_kept != WEIR_INPUT_KEPT_NONE;
    if (reader->rerun && reader->rerun == maker->rerun)
        return needed ? OUTPUT_HELD : OUTPUT_RERUN;
    return reader->rerun || needed ? OUTPUT_KEPT : OUTPUT_PASSES;
}

// A segment's data: what its layers save and hand on, but for its last output,
// which nobody needs again.
static void lay_out_rerun(struct chain *chain, struct rerun *rerun)
{
    for (uint32_t l = rerun->segment.first; l < rerun->segment.end; l++) {
        struct placed *link = &chain->links[l - chain->first];
        link->rerun_saved = chain_take(&rerun->data, link->layer->saved_bytes);
        if (l + 1 < rerun->segment.end)
            link->rerun_output = chain_take(&rerun->data, link->layer->output_bytes);
    }
    rerun->weights = chain_take(&rerun->data, chain_segment_weights(chain, &rerun->segment));
}

// Of bytes of a whole micro-batch, those of a part (stage_bytes_of_split()). What lies behind so many begins there: then
// each has its share, rounded down to 256, and all together take no more than is planned.
static uint64_t of_part(const struct chain *chain, uint64_t bytes)
{
    return chain->splits > 1 ? round_to_256(bytes / chain->splits + (bytes % chain->splits > 0)) : bytes;
}

static uint64_t carried_bytes(const struct chain *chain, const struct placed *link)
{
    return chain->splits > 1 ? round_to_256(link->layer->carried_bytes) : 0;
}

static void place_parts(struct chain *chain)
{
    for (size_t i = 0; i < chain_length(chain); i++) {
        struct placed *link = &chain->links[i];
        link->saved = of_part(chain, link->saved);
        link->held = of_part(chain, link->held);
        link->output = of_part(chain, link->output);
    }
}

static void lay_out(struct chain *chain)
{
    uint64_t kept = 0, kept_through = 0, held = 0, carried = 0;
    const uint64_t parameters = chain_lay_out_weights(chain);
    chain_lay_out_window(chain);
    for (size_t i = 0; i < chain_length(chain); i++) {
        struct placed *link = &chain->links[i];
        link->place = place_of(chain, i);
        link->held = chain_take(&held, link->layer->held_for_weight_bytes);
        if (!link->rerun)
            link->saved = chain_take(&kept, round_to_256(link->layer->saved_bytes) - carried_bytes(chain, link));
        link->carried = chain_take(&carried, carried_bytes(chain, link));
        if (link->place == OUTPUT_KEPT)
            link->output = chain_take(&kept_through, link->layer->output_bytes);
        if (link->place == OUTPUT_HELD)
            link->output = chain_take(&held, link->layer->output_bytes);
    }
    uint64_t again = 0;
    for (size_t i = 0; i < chain->rerun_count; i++) {
        lay_out_rerun(chain, &chain->reruns[i]);
        const struct placed *last = &chain->links[chain->reruns[i].segment.end - 1 - chain->first];
        chain->reruns[i].again = chain_take(&again, chain->reruns[i].data + output_bytes(last));
    }
    place_parts(chain);
    const struct stage_bytes bytes = stage_bytes_of_split(chain->stage.bytes, chain->splits);
    assert(parameters == (bytes.streams ? bytes.host.weights : bytes.weights) && of_part(chain, kept) == bytes.kept
           && of_part(chain, kept_through) == bytes.kept_through && of_part(chain, held) == bytes.held
           && of_part(chain, again) == bytes.again && (chain->splits == 1 || carried == bytes.carried));
    (void)bytes, (void)parameters, (void)again;
}

// --- the workspace -----------------------------------------------------------------
//
// What is alive at a layer lies at both ends of the workspace, and scratch between:
//
//     | x or dy of one layer | scratch -->          | y or dx |
//     |                       dx of the next layer | dy       |   ends alternate
//
// While a segment runs backward its data lies at one end and moves that end in.
// The gradient that comes in lies at an end, and the one that goes out must lie at
// an end of the whole again; as ends alternate, it depends on the number of layers
// at which end the data must lie: opposite to the incoming gradient for an even
// number,
//
//     | data | dx <-- scratch --> | dy |
//
// and beside it for an odd one, where the incoming gradient's place stays unused
// after the first layer (the segment's last output, counted in the transient bytes
// but not needed here, is as large).
//
//     | dx <-- scratch --> | data | dy |

// Addresses are counted as numbers: a place of no bytes may have none.

struct ends {
    uintptr_t low, high;  // what is free
};

static void *take_end(struct ends *ends, bool at_high, uint64_t bytes)
{
    assert(bytes <= ends->high - ends->low);
    if (at_high)
        ends->high -= bytes;
    else
        ends->low += bytes;
    return (void *)(at_high ? ends->high : ends->low - bytes);
}

static void *scratch_of(struct ends ends)
{
    return (void *)ends.low;
}

static struct ends workspace_of(const struct stage_pass *pass)
{
    const uintptr_t low = (uintptr_t)pass->workspace;
    return (struct ends){ low, low + pass->workspace_bytes };
}

// --- calls -------------------------------------------------------------------------

bool chain_call_layer(const struct weir_layer *layer, layer_function function, const struct weir_pass *pass,
                      struct error *error)
{
    struct weir_error trouble = { 0 };
    if (function(layer->self, pass, &trouble))
        return true;
    const bool known = trouble.code >= ERROR_ANSWER && trouble.code <= ERROR_MACHINE;
    return error_set_kind(error, known ? (enum error_kind)trouble.code : ERROR_MACHINE, "layer %s: %s", layer->name,
                          trouble.text[0] ? trouble.text : "failed without a reason");
}

static bool call(const struct placed *link, layer_function function, const struct weir_pass *pass, struct error *error)
{
    return chain_call_layer(link->layer, function, pass, error);
}

static struct weir_pass pass_of(const struct placed *link, const struct stage_pass *pass)
{
    const bool has_window = pass->window_weights;
    const struct home *place = has_window ? &link->window : &link->home;
    void *gradients = has_window ? pass->window_gradients : pass->gradients;
    return (struct weir_pass){
        .queue = pass->queue,
        .step = pass->step,
        .micro_batch = pass->micro_batch,
        .split = pass->split,
        .splits = pass->splits,
        .carried = pass->carried ? chain_offset(pass->carried, link->carried) : NULL,
        .carried_gradient = pass->carried_gradient ? chain_offset(pass->carried_gradient, link->carried) : NULL,
        .parameters = chain_offset(has_window ? pass->window_weights : pass->weights, place->parameters),
        .gradients = gradients ? chain_offset(gradients, place->gradients) : NULL,
        .tied_parameters = link->tied ? chain_offset(pass->weights, link->tied->parameters) : NULL,
        .tied_gradients = link->tied && pass->gradients ? chain_offset(pass->gradients, link->tied->gradients) : NULL,
        .loss = pass->loss,
        .copy = pass->copy,
    };
}

// --- forward -------------------------------------------------------------------------

// A stage without layers hands on what it gets.
static void hand_on(const struct stage_pass *pass, void *to, const void *from, uint64_t bytes)
{
    if (bytes > 0)
        queue_copy(pass->queue, to, from, bytes);
}

static bool chain_forward(void *self, const struct stage_pass *pass, struct error *error)
{
    const struct chain *chain = self;
    if (chain_length(chain) == 0)
        hand_on(pass, pass->output, pass->input, of_part(chain, chain->stage.bytes.output));
    const void *input = pass->input;
    bool input_at_high = false;
    uint64_t input_bytes = 0;  // of the workspace
    for (size_t i = 0; i < chain_length(chain); i++) {
        const struct placed *link = &chain->links[i];
        struct ends ends = workspace_of(pass);
        take_end(&ends, input_at_high, input_bytes);
        struct weir_pass own = pass_of(link, pass);
        own.input = input;

        uint64_t passing = 0;
        if (link->place == OUTPUT_KEPT) {
            own.output = chain_offset(pass->kept_through, link->output);
        } else if (link->place == OUTPUT_LEAVES && pass->output) {
            own.output = pass->output;
        } else {
            passing = output_bytes(link);
            own.output = take_end(&ends, !input_at_high, passing);
        }
        own.saved = link->rerun ? take_end(&ends, false, round_to_256(link->layer->saved_bytes))
                                  : chain_offset(pass->kept, link->saved);
        own.workspace = scratch_of(ends);
        chain_fetch_weights(link, pass);
        if (!call(link, link->layer->forward, &own, error))
            return false;
        input = own.output;
        input_at_high = !input_at_high;
        input_bytes = passing;
    }
    return true;
}

// --- backward ------------------------------------------------------------------------

// Full, or of the input alone with what W needs left in `held`; or none, but what it needs is made again for it.
enum backward { BACKWARD_FULL, BACKWARD_INPUT, BACKWARD_LATER };

// A backward on its way from the last layer to the first.
struct descent {
    const struct chain *chain;
    const struct stage_pass *pass;
    enum backward kind;
    struct ends whole;        // of the workspace, less a segment's data
    void *data;               // of the segment, or NULL
    const void *gradient;     // of the output of the layer at hand
    bool in_workspace;        // whether it lies there, at which end, and how large it is
    bool at_high;
    uint64_t gradient_bytes;
};

// Of the data of a segment that is run again; a part's in its slot, where that has one.
static void *data_at(const struct descent *descent, const struct rerun *rerun, uint64_t offset)
{
    const struct stage_pass *pass = descent->pass;
    return pass->again ? chain_offset(pass->again, of_part(descent->chain, rerun->again + offset))
                       : chain_offset(descent->data, offset);
}

static const void *input_of(const struct descent *descent, size_t i)
{
    const struct chain *chain = descent->chain;
    if (i == 0)
        return descent->pass->input;
    const struct placed *maker = &chain->links[i - 1];
    switch (maker->place) {
    case OUTPUT_KEPT:
        return chain_offset(descent->pass->kept_through, maker->output);
    case OUTPUT_HELD:
        return descent->kind == BACKWARD_INPUT ? chain_offset(descent->pass->held, maker->output)
                                               : data_at(descent, maker->rerun, maker->rerun_output);
    case OUTPUT_RERUN:
        return data_at(descent, maker->rerun, maker->rerun_output);
    default:
        return NULL;  // no backward asked for it
    }
}

// A layer's pass, with its parameters brought to where it finds them.
static struct weir_pass begin_pass(const struct descent *descent, const struct placed *link)
{
    struct weir_pass own = pass_of(link, descent->pass);
    if (descent->chain->window > 0 && link->rerun)
        own.parameters = chain_segment_parameters(descent->chain, link, descent->data);
    else
        chain_fetch_weights(link, descent->pass);
    return own;
}

// Runs a segment forward again, into its data.
static bool run_segment(const struct descent *descent, const struct segment *segment, struct ends scratch,
                        struct error *error)
{
    const struct chain *chain = descent->chain;
    chain_fetch_segment(chain, chain->links[segment->first - chain->first].rerun, descent->pass, descent->data);
    for (uint32_t l = segment->first; l < segment->end; l++) {
        const size_t i = l - chain->first;
        const struct placed *link = &chain->links[i];
        struct ends ends = scratch;
        struct weir_pass own = begin_pass(descent, link);
        own.loss = NULL;  // it was told in the first forward
        own.input = input_of(descent, i);
        own.saved = data_at(descent, link->rerun, link->rerun_saved);
        if (l + 1 == segment->end && descent->pass->again)
            own.output = data_at(descent, link->rerun, link->rerun->data);
        else if (l + 1 == segment->end)
            own.output = take_end(&ends, true, output_bytes(link));
        else
            own.output = (void *)(uintptr_t)input_of(descent, i + 1);
        own.workspace = scratch_of(ends);
        if (!call(link, link->layer->forward, &own, error))
            return false;
    }
    return true;
}

static bool run_again(const struct descent *descent, const struct segment *segment, struct ends scratch,
                      struct error *error)
{
    const struct stage_pass *pass = descent->pass;
    if (!pass->reruns)
        return run_segment(descent, segment, scratch, error);
    return stopwatch_mark(pass->reruns, pass->queue, error) && run_segment(descent, segment, scratch, error)
        && stopwatch_mark(pass->reruns, pass->queue, error);
}

// What W needs of a segment that an R has run again.
static void hold_outputs(const struct descent *descent, const struct segment *segment)
{
    const struct chain *chain = descent->chain;
    for (uint32_t l = segment->first; descent->kind == BACKWARD_INPUT && l < segment->end; l++) {
        const struct placed *link = &chain->links[l - chain->first];
        if (link->place == OUTPUT_HELD)
            hand_on(descent->pass, chain_offset(descent->pass->held, link->output),
                    data_at(descent, link->rerun, link->rerun_output), link->layer->output_bytes / chain->splits);
    }
}

// A segment whose data has a slot: an R has run it again, or it is run now.
static bool enter_apart(struct descent *descent, const struct rerun *rerun, struct error *error)
{
    struct ends scratch = descent->whole;
    descent->data = chain_offset(descent->pass->again, rerun->again);
    if (descent->in_workspace)
        take_end(&scratch, descent->at_high, descent->gradient_bytes);
    if (!descent->pass->was_recomputed)
        return run_again(descent, &rerun->segment, scratch, error);
    hold_outputs(descent, &rerun->segment);
    return true;
}

// Gives the segment's data a place (see the drawing) and re-runs the segment.
static bool enter_segment(struct descent *descent, const struct rerun *rerun, struct error *error)
{
    if (descent->pass->again)
        return enter_apart(descent, rerun, error);
    const bool odd = (rerun->segment.end - rerun->segment.first) % 2 == 1;
    struct ends ends = workspace_of(descent->pass);
    // With no gradient to stay clear of, the data lies low, and the gradients alternate so that the last lies high.
    if (!descent->in_workspace)
        descent->at_high = !odd;
    const bool data_at_high = descent->in_workspace && odd == descent->at_high;

    struct ends scratch = ends;
    if (descent->in_workspace)
        take_end(&scratch, descent->at_high, descent->gradient_bytes);
    descent->data = take_end(&scratch, data_at_high, rerun->data);
    if (descent->in_workspace && odd) {
        descent->whole = scratch;
    } else {
        take_end(&ends, data_at_high, rerun->data);
        descent->whole = ends;
    }
    return run_again(descent, &rerun->segment, scratch, error);
}

static bool run_backward(struct descent *descent, size_t i, struct weir_pass *own, struct ends ends,
                         struct error *error)
{
    const struct placed *link = &descent->chain->links[i];
    const struct weir_layer *layer = link->layer;
    const uint64_t held = layer->held_for_weight_bytes;
    if (descent->kind == BACKWARD_FULL && layer->backward) {
        own->workspace = scratch_of(ends);
        return call(link, layer->backward, own, error);
    }
    own->held = descent->kind == BACKWARD_INPUT ? chain_offset(descent->pass->held, link->held)
                                                : take_end(&ends, false, round_to_256(held));
    own->workspace = scratch_of(ends);
    if (held > 0 && own->output_gradient && own->output_gradient != own->held) {
        queue_copy(descent->pass->queue, own->held, own->output_gradient,
                   layer->output_bytes / descent->chain->splits);
        own->output_gradient = own->held;
    }
    if (!call(link, layer->backward_input, own, error))
        return false;
    return descent->kind == BACKWARD_INPUT || call(link, layer->backward_weight, own, error);
}

// One layer's backward: chooses where its input gradient goes, and hands it on.
static bool descend(struct descent *descent, size_t i, struct error *error)
{
    const struct chain *chain = descent->chain;
    const struct placed *link = &chain->links[i];
    const uint32_t number = chain->first + (uint32_t)i;
    if (link->rerun && number + 1 == link->rerun->segment.end && !enter_segment(descent, link->rerun, error))
        return false;

    struct ends ends = descent->whole;
    const uintptr_t gradient = (uintptr_t)descent->gradient;
    if (descent->in_workspace && gradient >= ends.low && gradient < ends.high)
        take_end(&ends, descent->at_high, descent->gradient_bytes);

    struct weir_pass own = begin_pass(descent, link);
    own.input = input_of(descent, i);
    own.saved = link->rerun ? data_at(descent, link->rerun, link->rerun_saved)
                              : chain_offset(descent->pass->kept, link->saved);
    own.output_gradient = descent->gradient;
    const struct placed *below = i > 0 ? &chain->links[i - 1] : NULL;
    bool in_workspace = false;
    if (!below) {
        own.input_gradient = descent->pass->input_gradient;
    } else if (descent->kind == BACKWARD_INPUT && below->layer->held_for_weight_bytes > 0) {
        own.input_gradient = chain_offset(descent->pass->held, below->held);
    } else {
        own.input_gradient = take_end(&ends, !descent->at_high, output_bytes(below));
        in_workspace = true;
    }
    if (descent->kind == BACKWARD_FULL)
        chain_fetch_gradients(chain, link, descent->pass);
    if (!run_backward(descent, i, &own, ends, error))
        return false;
    if (descent->kind == BACKWARD_FULL)
        chain_return_gradients(chain, link, descent->pass);

    descent->gradient = own.input_gradient;
    descent->in_workspace = in_workspace;
    descent->at_high = !descent->at_high;
    descent->gradient_bytes = below ? output_bytes(below) : 0;
    if (link->rerun && number == link->rerun->segment.first) {
        descent->data = NULL;
        descent->whole = workspace_of(descent->pass);
    }
    return true;
}

static bool go_down(const struct chain *chain, const struct stage_pass *pass, enum backward kind,
                    struct error *error)
{
    struct descent descent = { .chain = chain, .pass = pass, .kind = kind, .whole = workspace_of(pass),
                               .gradient = pass->output_gradient };
    if (chain_length(chain) == 0)
        hand_on(pass, pass->input_gradient, pass->output_gradient, of_part(chain, chain->stage.bytes.output));
    for (size_t i = chain_length(chain); i-- > 0;)
        if (!descend(&descent, i, error))
            return false;
    return true;
}

static bool chain_backward(void *self, const struct stage_pass *pass, struct error *error)
{
    return go_down(self, pass, BACKWARD_FULL, error);
}

static bool chain_backward_input(void *self, const struct stage_pass *pass, struct error *error)
{
    return go_down(self, pass, BACKWARD_INPUT, error);
}

static bool chain_backward_weight(void *self, const struct stage_pass *pass, struct error *error)
{
    const struct chain *chain = self;
    const struct descent places = { .chain = chain, .pass = pass, .kind = BACKWARD_INPUT };
    for (size_t i = chain_length(chain); i-- > 0;) {
        const struct placed *link = &chain->links[i];
        struct weir_pass own = pass_of(link, pass);
        own.input = link->layer->input_kept == WEIR_INPUT_KEPT_NONE ? NULL : input_of(&places, i);
        own.held = chain_offset(pass->held, link->held);
        own.workspace = pass->workspace;
        chain_fetch_weights(link, pass);
        chain_fetch_gradients(chain, link, pass);
        if (!call(link, link->layer->backward_weight, &own, error))
            return false;
        chain_return_gradients(chain, link, pass);
    }
    return true;
}

// All segments forward again, each into its place.
static bool chain_recompute(void *self, const struct stage_pass *pass, struct error *error)
{
    const struct chain *chain = self;
    struct descent places = { .chain = chain, .pass = pass, .kind = BACKWARD_LATER, .whole = workspace_of(pass) };
    bool good = true;
    for (size_t i = 0; good && pass->again && i < chain->rerun_count; i++) {
        places.data = chain_offset(pass->again, chain->reruns[i].again);
        good = run_again(&places, &chain->reruns[i].segment, places.whole, error);
    }
    return good;
}

static const struct stage_functions chain_functions = {
    .forward = chain_forward,
    .backward = chain_backward,
    .backward_input = chain_backward_input,
    .backward_weight = chain_backward_weight,
    .recompute = chain_recompute,
    .initialize = chain_initialize,
};

// --- life ----------------------------------------------------------------------------

// Gradients and states are counted by number, and a number of 16 bits has more bytes of
// those than it is rounded up to.
static bool check_numbers(const struct chain *chain, struct error *error)
{
    for (size_t i = 0; chain->number_bytes < sizeof(float) && i < chain_length(chain); i++) {
        const struct weir_layer *layer = chain->links[i].layer;
        if (layer->parameter_bytes % 256 != 0)
            return error_set(error, "layer %s: parameter_bytes: %llu is no multiple of 256, as 16-bit weights must be",
                             layer->name, (unsigned long long)layer->parameter_bytes);
    }
    return true;
}

// Whether the layers can be given so many parts of a sequence.
static bool check_splits(const struct chain *chain, struct error *error)
{
    for (size_t i = 0; chain->splits > 1 && i < chain_length(chain); i++) {
        const struct weir_layer *layer = chain->links[i].layer;
        if (layer->most_splits <= 1)
            return error_set(error, "layer %s takes whole sequences, and the schedule passes each through in %u splits: "
                             "take another schedule, or a layer of longer sequences that can be split", layer->name,
                             chain->splits);
        if (layer->most_splits % chain->splits != 0)
            return error_set(error, "layer %s takes sequences in numbers of splits that divide %u, and the schedule "
                             "passes each through in %u: take one with such a number", layer->name,
                             layer->most_splits, chain->splits);
    }
    return true;
}

// Sizes and places of all that the stage has.
static bool measure_stage(struct chain *chain, const struct weir_layer *layers, size_t layer_count,
                          const struct segment *recompute, const struct holding *holding, struct error *error)
{
    const char *dtype = chain->number_bytes < sizeof(float) ? "bf16" : "fp32";
    struct profile *profile = chain_profile(layers, layer_count, dtype, error);
    bool good = profile && chain_note_tied(layers, layer_count, profile, error)
             && chain_find_copies(chain, layers, profile, error) && chain_check_together(chain, holding, error);
    if (good) {
        chain->stage.bytes =
            stage_bytes_of(profile, chain->first, chain->end, recompute, chain->rerun_count, holding);
        chain->window = chain->stage.bytes.streams ? holding->window : 0;
        chain_find_tied(chain);
        lay_out(chain);
        good = chain_collect_shared(chain, layers, profile, error);
    }
    profile_free(profile);
    return good;
}

struct chain *chain_create(const struct weir_layer *layers, size_t layer_count, uint32_t first, uint32_t end,
                           const struct segment *recompute, size_t recompute_count, uint32_t splits,
                           const struct holding *holding, struct error *error)
{
    assert(first <= end && end <= layer_count);
    struct chain *chain = calloc(1, sizeof *chain + (end - first) * sizeof chain->links[0]);
    struct rerun *reruns = calloc(recompute_count + 1, sizeof *reruns);
    if (!chain || !reruns) {
        free(chain);
        free(reruns);
        error_no_memory(error, "a stage");
        return NULL;
    }
    chain->first = first;
    chain->end = end;
    chain->number_bytes = optimizer_is_master(holding->optimizer) ? 2 : sizeof(float);
    chain->splits = splits;
    chain->reruns = reruns;
    chain->rerun_count = recompute_count;
    for (size_t i = 0; i < recompute_count; i++)
        reruns[i].segment = recompute[i];
    for (uint32_t l = first; l < end; l++)
        chain->links[l - first] = (struct placed){ .layer = &layers[l], .rerun = find_rerun(chain, l) };
    chain->stage.functions = &chain_functions;
    chain->stage.warms_up = true;
    chain->stage.takes_splits = splits > 1;
    chain->stage.self = chain;
    if (!check_numbers(chain, error) || !check_splits(chain, error) || !measure_stage(chain, layers, layer_count, recompute, holding, error)
        || !chain_collect_exempt(chain, error) || !chain_collect_parts(chain, layers, error)) {
        chain_free(chain);
        return NULL;
    }
    return chain;
}

void chain_free(struct chain *chain)
{
    if (!chain)
        return;
    free(chain->reruns);
    free(chain->exempt);
    free(chain->shared);
    free(chain->parts);
    free(chain->copies);
    free(chain);
}

const struct stage *chain_stage(const struct chain *chain)
{
    return &chain->stage;
}
