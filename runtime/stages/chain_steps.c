// Which layers a stage calls in each of its actions, with which tensors, and what it copies and adds up between the
// calls.
#include <stdlib.h>

#include "runtime/stages/chain_parts.h"

// Where recomputed tensors go: into the workspace; into the slot of an R, written by the R or by a backward without
// one; or already put there by an R.
enum recomputed { RECOMPUTED_HERE, RECOMPUTED_IN_SLOT, RECOMPUTED_BY_R };

// An action while its program is being written. The arrays are by layer of the model, [0, end).
struct writer {
    const struct chain *chain;
    struct program *program;
    bool is_split;           // I and W are separate: what W needs is left in `held`
    enum recomputed recomputed;
    struct spot *output;     // where forward has put each layer's output
    struct spot *saved;      // saved tensors of a recomputed segment
    struct spot *weights;    // its weights
    struct spot *gradient;   // the gradient of each layer's output, as far as it is added up; AT_NOTHING before
};

static const struct placed *link_of(const struct writer *writer, uint32_t layer)
{
    return &writer->chain->links[layer - writer->chain->first];
}

// Bytes of the output for one part of a sequence.
static uint64_t output_bytes(const struct writer *writer, size_t layer)
{
    return writer->chain->layers[layer].output_bytes / writer->chain->splits;
}

// Whether the message over the cut in front of layer `cut` includes the layer's output.
static bool crosses(const struct chain *chain, uint32_t layer, uint32_t cut)
{
    return layer < cut && chain->last_reader[layer] >= cut;
}

// The place of a layer's output in that message. Outputs are in the order of the layers.
static struct spot in_message(const struct chain *chain, enum spot_base base, uint32_t layer, uint32_t cut)
{
    uint64_t offset = 0;
    for (uint32_t l = 0; l < layer; l++)
        if (crosses(chain, l, cut))
            offset += round_to_256(chain->layers[l].output_bytes);
    return (struct spot){ base, chain_part(chain, offset) };
}

// Places in the message that arrives and in the one that is sent, or in those of the gradients.
static struct spot coming(const struct writer *writer, enum spot_base base, uint32_t layer)
{
    return in_message(writer->chain, base, layer, writer->chain->first);
}

static struct spot going(const struct writer *writer, enum spot_base base, uint32_t layer)
{
    return in_message(writer->chain, base, layer, writer->chain->end);
}

static bool goes_on(const struct writer *writer, uint32_t layer)
{
    return crosses(writer->chain, layer, writer->chain->end);
}

// Whether a layer of the stage reads it.
static bool is_read_here(const struct writer *writer, uint32_t layer)
{
    for (uint32_t l = writer->chain->first; l < writer->chain->end; l++)
        if (layer_reads(writer->chain->layers, l, layer))
            return true;
    return false;
}

// A call with its parameters and gradients: where they are, or where they will be when the call is made.
static struct step call_of(const struct writer *writer, const struct placed *link, layer_function function)
{
    struct step call = { .kind = STEP_CALL, .link = link, .function = function };
    call.spots[SPOT_PARAMETERS] = writer->chain->weights_from == ORIGIN_HERE
                                      ? (struct spot){ AT_WEIGHTS, link->home.parameters }
                                      : (struct spot){ AT_WINDOW_WEIGHTS, link->window.parameters };
    call.spots[SPOT_GRADIENTS] = writer->chain->gradients_from == ORIGIN_HERE
                                     ? (struct spot){ AT_GRADIENTS, link->home.gradients }
                                     : (struct spot){ AT_WINDOW_GRADIENTS, link->window.gradients };
    return call;
}

// A layer's parameters as a range of elements of the stage's weights.
struct elements {
    uint64_t first, count;
};

static struct elements elements_of(const struct writer *writer, const struct placed *link)
{
    const uint64_t number_bytes = writer->chain->number_bytes;
    return (struct elements){ link->home.parameters / number_bytes,
                              round_to_256(link->layer->parameter_bytes) / number_bytes };
}

static void write_fetch_weights(const struct writer *writer, const struct step *call)
{
    const struct elements all = elements_of(writer, call->link);
    if (writer->chain->weights_from == ORIGIN_HOST)
        program_bring(writer->program, call->spots[SPOT_PARAMETERS],
                      (struct spot){ AT_WEIGHTS, call->link->home.parameters },
                      round_to_256(call->link->layer->parameter_bytes));
    if (writer->chain->weights_from == ORIGIN_REPLICAS)
        program_gather(writer->program, call->spots[SPOT_PARAMETERS], all.first, all.count);
}

// If replicas share gradients, only what this call adds is here, so it starts from zeroes.
static void write_fetch_gradients(const struct writer *writer, const struct step *call)
{
    const uint64_t bytes = chain_gradient_bytes(writer->chain, call->link);
    if (writer->chain->gradients_from == ORIGIN_HOST)
        program_bring(writer->program, call->spots[SPOT_GRADIENTS],
                      (struct spot){ AT_GRADIENTS, call->link->home.gradients }, bytes);
    if (writer->chain->gradients_from == ORIGIN_REPLICAS)
        program_zero(writer->program, call->spots[SPOT_GRADIENTS], bytes);
}

static void write_return_gradients(const struct writer *writer, const struct step *call)
{
    const struct elements all = elements_of(writer, call->link);
    if (writer->chain->gradients_from == ORIGIN_HOST)
        program_bring(writer->program, (struct spot){ AT_GRADIENTS, call->link->home.gradients },
                      call->spots[SPOT_GRADIENTS], chain_gradient_bytes(writer->chain, call->link));
    if (writer->chain->gradients_from == ORIGIN_REPLICAS)
        program_share(writer->program, call->spots[SPOT_GRADIENTS], all.first, all.count);
}

static struct spot scratch(const struct writer *writer, uint64_t bytes)
{
    return program_item(writer->program, bytes, true);
}

// The model's first layer may be given the input of its stage.
static bool is_first(const struct placed *link, const struct writer *writer)
{
    return link->layer == writer->chain->layers;
}

// --- forward -------------------------------------------------------------------------

static struct spot forward_output(const struct writer *writer, uint32_t layer)
{
    const struct placed *link = link_of(writer, layer);
    if (link->is_through)
        return (struct spot){ AT_THROUGH, link->through };
    if (goes_on(writer, layer))
        return going(writer, AT_OUTPUT, layer);
    return program_item(writer->program, link->layer->output_bytes, false);
}

static void write_layer_forward(struct writer *writer, uint32_t layer)
{
    const struct placed *link = link_of(writer, layer);
    struct step call = call_of(writer, link, link->layer->forward);
    for (size_t i = 0; i < layer_input_count(writer->chain->layers, layer); i++)
        call.spots[SPOT_INPUTS + i] = writer->output[layer_input(writer->chain->layers, layer, i)];
    if (is_first(link, writer))
        call.spots[SPOT_INPUTS] = (struct spot){ AT_INPUT, 0 };
    if (layer_input_count(writer->chain->layers, layer) > 0)
        call.bytes = output_bytes(writer, layer_input(writer->chain->layers, layer, 0));
    writer->output[layer] = call.spots[SPOT_OUTPUT] = forward_output(writer, layer);
    call.spots[SPOT_SAVED] = link->segment ? scratch(writer, layer_kept_bytes(link->layer))
                                           : (struct spot){ AT_KEPT, link->saved };
    call.spots[SPOT_WORKSPACE] = scratch(writer, link->layer->workspace_bytes);
    write_fetch_weights(writer, &call);
    program_step(writer->program, &call);
    if (link->is_through && goes_on(writer, layer))
        program_copy(writer->program, going(writer, AT_OUTPUT, layer), writer->output[layer],
                     output_bytes(writer, layer));
}

static void write_forward(struct writer *writer)
{
    const struct chain *chain = writer->chain;
    for (uint32_t l = 0; l < chain->first; l++) {
        writer->output[l] = coming(writer, AT_INPUT, l);
        if (goes_on(writer, l))
            program_copy(writer->program, going(writer, AT_OUTPUT, l), writer->output[l], output_bytes(writer, l));
    }
    for (uint32_t l = chain->first; l < chain->end; l++)
        write_layer_forward(writer, l);
}

// --- what a backward reads -------------------------------------------------------------

static bool is_same_segment(const struct placed *reader, uint32_t from)
{
    return reader->segment && from >= reader->segment->first;
}

static struct spot kept_input(const struct writer *writer, const struct placed *reader, uint32_t from)
{
    if (from < writer->chain->first)
        return coming(writer, AT_INPUT, from);
    const struct placed *maker = link_of(writer, from);
    if (!is_same_segment(reader, from))
        return (struct spot){ AT_THROUGH, maker->through };
    return writer->is_split && maker->is_held ? (struct spot){ AT_HELD, maker->held_output } : writer->output[from];
}

static void put_inputs(const struct writer *writer, const struct placed *link, struct step *call)
{
    const struct weir_layer *layers = writer->chain->layers;
    const size_t layer = (size_t)(link->layer - layers);
    for (size_t i = 0; i < layer_input_count(layers, layer); i++)
        call->spots[SPOT_INPUTS + i] = kept_input(writer, link, (uint32_t)layer_input(layers, layer, i));
    if (is_first(link, writer))
        call->spots[SPOT_INPUTS] = (struct spot){ AT_INPUT, 0 };
}

static void put_needed_inputs(const struct writer *writer, const struct placed *link, struct step *call)
{
    if (link->layer->input_kept != WEIR_INPUT_KEPT_NONE)
        put_inputs(writer, link, call);
}

// --- segments ------------------------------------------------------------------------

static bool is_held(const struct writer *writer, const struct placed *link)
{
    return writer->is_split && link->is_held;
}

static struct spot recomputed_output(const struct writer *writer, const struct placed *link)
{
    if (is_held(writer, link))
        return (struct spot){ AT_HELD, link->held_output };
    return writer->recomputed == RECOMPUTED_HERE ? scratch(writer, link->layer->output_bytes)
                                                 : (struct spot){ AT_RECOMPUTED, link->recomputed_output };
}

static struct spot recomputed_saved(const struct writer *writer, const struct placed *link)
{
    return writer->recomputed == RECOMPUTED_HERE ? scratch(writer, layer_kept_bytes(link->layer))
                                                 : (struct spot){ AT_RECOMPUTED, link->recomputed_saved };
}

// Weights that are fetched for a segment stay for its backward.
static struct spot recomputed_weights(const struct writer *writer, const struct step *call)
{
    const struct placed *link = call->link;
    if (writer->chain->weights_from == ORIGIN_HERE)
        return call->spots[SPOT_PARAMETERS];
    return writer->recomputed == RECOMPUTED_HERE ? scratch(writer, link->layer->parameter_bytes)
                                                 : (struct spot){ AT_RECOMPUTED, link->recomputed_weights };
}

static void place_recomputed(struct writer *writer, uint32_t layer)
{
    const struct placed *link = link_of(writer, layer);
    const struct step call = call_of(writer, link, link->layer->forward);
    writer->output[layer] = recomputed_output(writer, link);
    writer->saved[layer] = recomputed_saved(writer, link);
    writer->weights[layer] = recomputed_weights(writer, &call);
}

static void write_recomputed_layer(struct writer *writer, uint32_t layer)
{
    const struct placed *link = link_of(writer, layer);
    struct step call = call_of(writer, link, link->layer->forward);
    call.is_rerun = true;
    put_inputs(writer, link, &call);
    place_recomputed(writer, layer);
    call.spots[SPOT_PARAMETERS] = writer->weights[layer];
    call.spots[SPOT_OUTPUT] = writer->output[layer];
    call.spots[SPOT_SAVED] = writer->saved[layer];
    call.spots[SPOT_WORKSPACE] = scratch(writer, link->layer->workspace_bytes);
    write_fetch_weights(writer, &call);
    program_step(writer->program, &call);
}

static void write_recomputed_segment(struct writer *writer, const struct segment *segment)
{
    program_mark(writer->program);
    for (uint32_t l = segment->first; l < segment->end; l++)
        write_recomputed_layer(writer, l);
    program_mark(writer->program);
}

// An R has recomputed the segment. What a W needs of it is held from here on.
static void take_over_segment(struct writer *writer, const struct segment *segment)
{
    for (uint32_t l = segment->first; l < segment->end; l++) {
        const struct placed *link = link_of(writer, l);
        place_recomputed(writer, l);
        if (is_held(writer, link))
            program_copy(writer->program, writer->output[l], (struct spot){ AT_RECOMPUTED, link->recomputed_output },
                         output_bytes(writer, l));
    }
}

static void write_segment(struct writer *writer, const struct segment *segment)
{
    if (writer->recomputed == RECOMPUTED_BY_R)
        take_over_segment(writer, segment);
    else
        write_recomputed_segment(writer, segment);
}

static void write_recompute(struct writer *writer)
{
    const struct chain *chain = writer->chain;
    for (size_t i = 0; i < chain->segment_count; i++)
        write_recomputed_segment(writer, &chain->segments[i]);
}

// --- backward ------------------------------------------------------------------------

// Where the gradient of an output that a layer reads is added up.
static struct spot gradient_of(const struct writer *writer, uint32_t from)
{
    if (from < writer->chain->first)
        return coming(writer, AT_INPUT_GRADIENT, from);
    const struct placed *maker = link_of(writer, from);
    if (writer->is_split && maker->layer->held_for_weight_bytes > 0)
        return (struct spot){ AT_HELD, maker->held };
    return program_item(writer->program, maker->layer->output_bytes, false);
}

// Adds the call that writes the gradients of the inputs. The first reader to do so writes straight to where they are
// added up.
static void write_input_gradients(struct writer *writer, uint32_t layer, struct step *call)
{
    const struct weir_layer *layers = writer->chain->layers;
    const bool gives = layer_gives_gradients(layers, writer->chain->has_backward, layer);
    const size_t count = gives ? layer_input_count(layers, layer) : 0;
    if (is_first(call->link, writer))
        call->spots[SPOT_INPUT_GRADIENTS] = (struct spot){ AT_INPUT_GRADIENT, 0 };
    for (size_t i = 0; i < count; i++) {
        const uint32_t from = (uint32_t)layer_input(layers, layer, i);
        const bool is_sum = writer->gradient[from].base != AT_NOTHING;
        call->spots[SPOT_INPUT_GRADIENTS + i] = is_sum ? scratch(writer, layers[from].output_bytes)
                                                       : gradient_of(writer, from);
    }
    program_step(writer->program, call);
    for (size_t i = 0; i < count; i++) {
        const uint32_t from = (uint32_t)layer_input(layers, layer, i);
        const struct spot gradient = call->spots[SPOT_INPUT_GRADIENTS + i];
        struct spot *sum = &writer->gradient[from];
        if (sum->base != AT_NOTHING)
            program_add(writer->program, *sum, *sum, gradient, output_bytes(writer, from));
        else if (goes_on(writer, from))  // gradients from later stages are added first
            program_add(writer->program, gradient, going(writer, AT_OUTPUT_GRADIENT, from), gradient,
                        output_bytes(writer, from));
        *sum = sum->base != AT_NOTHING ? *sum : gradient;
    }
}

static struct spot output_gradient_of(const struct writer *writer, uint32_t layer)
{
    const struct spot sum = writer->gradient[layer];
    return sum.base == AT_NOTHING && goes_on(writer, layer) ? going(writer, AT_OUTPUT_GRADIENT, layer) : sum;
}

// Adds I, and, if W is not separate and there is no function for both, W after it.
static void write_two(struct writer *writer, uint32_t layer, struct step *input)
{
    const struct placed *link = input->link;
    const uint64_t held = link->layer->held_for_weight_bytes;
    const struct spot place = writer->is_split ? (struct spot){ AT_HELD, link->held } : scratch(writer, held);
    const struct spot gradient = input->spots[SPOT_OUTPUT_GRADIENT];
    const bool is_there = gradient.base == place.base && gradient.at == place.at;
    if (held > 0 && gradient.base != AT_NOTHING && !is_there) {
        program_copy(writer->program, place, gradient, output_bytes(writer, layer));
        input->spots[SPOT_OUTPUT_GRADIENT] = place;
    }
    input->function = link->layer->backward_input;
    input->spots[SPOT_HELD] = place;
    struct step weight = *input;
    write_input_gradients(writer, layer, input);
    weight.function = link->layer->backward_weight;
    if (!writer->is_split)
        program_step(writer->program, &weight);
}

static bool has_backward(const struct writer *writer, const struct segment *segment)
{
    bool has = false;
    for (uint32_t l = segment->first; l < segment->end; l++)
        has |= writer->chain->has_backward[l];
    return has;
}

static void write_layer_backward(struct writer *writer, uint32_t layer)
{
    const struct placed *link = link_of(writer, layer);
    if (link->segment && layer + 1 == link->segment->end && has_backward(writer, link->segment))
        write_segment(writer, link->segment);
    if (!writer->chain->has_backward[layer])
        return;
    struct step call = call_of(writer, link, link->layer->backward);
    if (link->segment)
        call.spots[SPOT_PARAMETERS] = writer->weights[layer];
    put_needed_inputs(writer, link, &call);
    call.spots[SPOT_SAVED] = link->segment ? writer->saved[layer] : (struct spot){ AT_KEPT, link->saved };
    call.spots[SPOT_OUTPUT_GRADIENT] = output_gradient_of(writer, layer);
    call.spots[SPOT_WORKSPACE] = scratch(writer, link->layer->backward_workspace_bytes);
    if (!link->segment)
        write_fetch_weights(writer, &call);
    if (!writer->is_split)
        write_fetch_gradients(writer, &call);
    if (!writer->is_split && link->layer->backward)
        write_input_gradients(writer, layer, &call);
    else
        write_two(writer, layer, &call);
    if (!writer->is_split)
        write_return_gradients(writer, &call);
}

static void write_backward(struct writer *writer)
{
    const struct chain *chain = writer->chain;
    for (uint32_t l = 0; l < chain->first; l++)
        if (goes_on(writer, l) && !is_read_here(writer, l))
            program_copy(writer->program, coming(writer, AT_INPUT_GRADIENT, l), going(writer, AT_OUTPUT_GRADIENT, l),
                         output_bytes(writer, l));
    for (uint32_t l = chain->end; l-- > chain->first;)
        write_layer_backward(writer, l);
}

static void write_backward_weight(struct writer *writer)
{
    const struct chain *chain = writer->chain;
    for (uint32_t l = chain->end; l-- > chain->first;) {
        const struct placed *link = link_of(writer, l);
        struct step call = call_of(writer, link, link->layer->backward_weight);
        if (!chain->has_backward[l])
            continue;
        put_needed_inputs(writer, link, &call);
        call.spots[SPOT_HELD] = (struct spot){ AT_HELD, link->held };
        call.spots[SPOT_WORKSPACE] = scratch(writer, link->layer->backward_workspace_bytes);
        write_fetch_weights(writer, &call);
        write_fetch_gradients(writer, &call);
        program_step(writer->program, &call);
        write_return_gradients(writer, &call);
    }
}

bool chain_write_steps(struct chain *chain, size_t layer_count, struct error *error)
{
    const uint64_t whole = chain->stage.bytes.transient, rest = chain->stage.bytes.transient_with_recompute;
    const struct {
        struct program *program;
        void (*write)(struct writer *writer);
        bool is_split;
        enum recomputed recomputed;
        uint64_t workspace;
    } rows[] = {
        { &chain->forward, write_forward, false, RECOMPUTED_HERE, whole },
        { &chain->backward, write_backward, false, RECOMPUTED_HERE, whole },
        { &chain->backward_input, write_backward, true, RECOMPUTED_HERE, whole },
        { &chain->backward_weight, write_backward_weight, true, RECOMPUTED_HERE, rest },
        { &chain->forward_with_slot, write_forward, false, RECOMPUTED_HERE, rest },
        { &chain->recompute, write_recompute, false, RECOMPUTED_IN_SLOT, rest },
        { &chain->backward_with_slot, write_backward, false, RECOMPUTED_IN_SLOT, rest },
        { &chain->backward_after_r, write_backward, false, RECOMPUTED_BY_R, rest },
        { &chain->input_with_slot, write_backward, true, RECOMPUTED_IN_SLOT, rest },
        { &chain->input_after_r, write_backward, true, RECOMPUTED_BY_R, rest },
    };
    enum { LISTS = 4 };
    struct spot *spots = calloc(LISTS * layer_count, sizeof *spots);
    bool good = spots || error_no_memory(error, "a stage");
    for (size_t i = 0; good && i < sizeof rows / sizeof rows[0]; i++) {
        struct writer writer = { .chain = chain, .program = rows[i].program, .is_split = rows[i].is_split,
                                 .recomputed = rows[i].recomputed, .output = spots, .saved = spots + layer_count,
                                 .weights = spots + 2 * layer_count, .gradient = spots + 3 * layer_count };
        for (size_t k = 0; k < LISTS * layer_count; k++)
            spots[k] = (struct spot){ AT_NOTHING, 0 };
        rows[i].write(&writer);
        if (chain->stage.bytes.comes_ahead)
            program_bring_ahead(rows[i].program);
        good = program_place(rows[i].program, rows[i].workspace, error);
    }
    free(spots);
    return good;
}
