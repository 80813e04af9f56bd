#include "models/layer.h"

#include <assert.h>

#include "common/number.h"
#include "common/random.h"
#include "models/expert_places.h"

const char *layer_kind_name(const struct layer *layer)
{
    return layer->kind->name;
}

enum layer_data layer_data(const struct layer *layer)
{
    return layer->kind->data;
}

struct sample_share layer_samples(const struct layer *layer)
{
    const struct layer_shape *shape = &layer->shape;
    if (!layer_owns_rows(layer))
        return (struct sample_share){ 0, shape->batch };
    const size_t first = shape->whole_batch * shape->member / shape->members;
    return (struct sample_share){ first, shape->whole_batch * (shape->member + 1) / shape->members - first };
}

bool layer_ask(struct layer *layer, struct device *device, struct error *error)
{
    return !layer->kind->ask || layer->kind->ask(layer, device, error);
}

// Every tensor begins at a multiple of 256 bytes, and so does its gradient, whose numbers are as large or larger.
static uint64_t tensor_end(const struct layer *layer, const struct tensor *tensor)
{
    const uint64_t bytes = layer_bytes(layer, tensor->rows * tensor->columns);
    return tensor->offset + bytes / precision_bytes(layer->shape.precision);
}

static bool has_weight_pass(const struct layer *layer)
{
    return layer->kind->backward_weight[0].run != NULL;
}

static uint64_t held_in_both(const struct kind_sizes *kind)
{
    return kind->held_bytes - kind->copied_bytes;
}

static uint64_t own_numbers(const struct layer *layer)
{
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(layer, tensors);
    return count > 0 ? tensor_end(layer, &tensors[count - 1]) : 0;
}

// Numbers of the parameters. If members have tables or experts of their own, all of them have as many as the one with
// most.
static uint64_t numbers_of(const struct layer *layer)
{
    struct layer other = *layer;
    uint64_t most = own_numbers(layer);
    for (size_t m = 0; layer_has_places(layer) && m < layer->shape.members; m++) {
        other.shape.member = m;
        most = max_u64(most, own_numbers(&other));
    }
    return most;
}

struct layer_sizes layer_sizes(const struct layer *layer)
{
    const struct kind_sizes kind = layer->kind->sizes(layer);
    struct layer_sizes sizes = {
        .output_bytes = kind.output_bytes,
        .saved_bytes = kind.saved_bytes,
        .shared_by_parts_bytes = kind.shared_by_parts_bytes,
        .input = kind.input,
        .workspace_bytes = kind.forward_workspace_bytes,
        .backward_workspace_bytes
        = held_in_both(&kind) + max_u64(kind.input_workspace_bytes, kind.weight_workspace_bytes),
        .state_bytes = kind.state_bytes,
        .statistics_bytes = kind.statistics_bytes,
        .trains_by_state = kind.trains_by_state,
        .has_auxiliary_loss = kind.has_auxiliary_loss,
        .touched_rows = kind.touched_rows,
        .row_columns = kind.row_columns,
        .summed_rows = kind.summed_rows,
        .flops = kind.flops,
    };
    if (has_weight_pass(layer))
        sizes.held_for_weight_bytes = kind.output_bytes + kind.held_bytes;
    sizes.parameter_bytes = layer_bytes(layer, numbers_of(layer));
    sizes.gradient_bytes = sizes.parameter_bytes / precision_bytes(layer->shape.precision) * sizeof(float);
    return sizes;
}

// --- parts -----------------------------------------------------------------------

struct layer layer_part(const struct layer *layer, uint32_t split, uint32_t splits)
{
    struct layer part = *layer;
    if (splits <= 1)
        return part;
    part.shape.sequence = layer->shape.sequence / splits;
    part.shape.whole = layer->shape.sequence;
    part.shape.first = split * part.shape.sequence;
    return part;
}

static bool has_room(uint64_t whole, uint32_t splits, uint64_t part)
{
    return part <= whole / splits / 256 * 256;
}

bool layer_can_share_rows(const struct layer *layer, size_t shards)
{
    const size_t rows = layer_rows(layer) / shards;
    return layer_rows(layer) % shards == 0
        && rows * layer->shape.in * precision_bytes(layer->shape.precision) % 256 == 0;
}

static bool parts_have_room(const struct layer *layer, uint32_t splits)
{
    const struct layer part = layer_part(layer, 0, splits);
    const struct layer_sizes whole = layer_sizes(layer), part_sizes = layer_sizes(&part);
    if (layer_shares_rows(layer) && !layer_can_share_rows(&part, layer->shape.shards))
        return false;
    return has_room(whole.output_bytes, splits, part_sizes.output_bytes)
        && has_room(whole.saved_bytes - whole.shared_by_parts_bytes, splits, part_sizes.saved_bytes)
        && has_room(whole.held_for_weight_bytes, splits, part_sizes.held_for_weight_bytes);
}

uint32_t layer_most_splits(const struct layer *layer)
{
    enum { MOST = 128 };
    const bool is_whole = layer->shape.picture.height > 0 || layer->kind->takes_whole_sequences;
    const size_t sequence = is_whole ? 1 : layer->shape.sequence;
    for (uint32_t splits = sequence < MOST ? (uint32_t)sequence : MOST; splits > 1; splits--) {
        bool have_room = sequence % splits == 0;
        for (uint32_t fewer = 2; have_room && fewer <= splits; fewer++)
            have_room = splits % fewer != 0 || parts_have_room(layer, fewer);
        if (have_room)
            return splits;
    }
    return 1;
}

// --- passes ----------------------------------------------------------------------

static struct layer part_of(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_part(layer, pass->base.split, pass->base.splits);
}

// The rows of this member, as if all others sent and took as many.
static void keep_rows(const struct layer *layer, struct queue *queue, const struct shard_part *part)
{
    const uint64_t bytes = part->count * precision_bytes(layer->shape.precision);
    struct error reason = { 0 };
    struct row_walk walk;
    struct row_run run;
    if (!row_walk_begin(&walk, queue, &part->rows, &reason)) {
        queue_fail(queue, reason.text);
        return;
    }
    row_walk_end(&walk, queue, &part->rows, part->received, part->count);
    while (row_walk_next(&walk, &run)) {
        char *to = (char *)part->received + run.to_row * bytes;
        if (run.to == layer->shape.member && run.from == layer->shape.member)
            queue_copy(queue, to, (char *)part->numbers + run.from_row * bytes, run.count * bytes);
        else if (run.to == layer->shape.member)
            queue_zero(queue, to, run.count * bytes);
    }
}

// And what others have counted.
static void repeat_own(const struct layer *layer, struct queue *queue, const struct shard_part *part)
{
    const uint64_t members = layer->shape.members, bytes = part->count / members * sizeof(float);
    char *all = part->numbers;
    for (size_t m = 0; m < members; m++)
        if (m != layer->shape.member)
            queue_copy(queue, all + m * bytes, all + layer->shape.member * bytes, bytes);
}

// Measured alone, a shard goes on with its own part of a sum, and with what it would send to others.
static void exchange(const struct layer *layer, const struct layer_pass *pass, const struct shard_part *part)
{
    struct queue *queue = pass->base.queue;
    if (part->count == 0)
        return;
    if (pass->sum)
        pass->sum->add(pass->sum->self, queue, part);
    else if (part->exchange == SHARD_ALL_TO_ALL)
        queue_copy(queue, part->received, part->numbers, part->count * sizeof(float));
    else if (part->exchange == SHARD_ROWS)
        keep_rows(layer, queue, part);
    else if (part->exchange == SHARD_ALL_GATHER && layer->shape.experts.have_places)
        repeat_own(layer, queue, part);
}

static void run(const struct layer *part, const struct layer_pass *pass, const struct kind_step steps[KIND_STEPS])
{
    for (size_t i = 0; i < KIND_STEPS && steps[i].run; i++) {
        steps[i].run(part, pass);
        if (!steps[i].part || !layer_exchanges(part))
            continue;
        const struct shard_part shard_part = steps[i].part(part, pass);
        exchange(part, pass, &shard_part);
    }
}

struct shard_part layer_loss_part(const struct layer *layer, const struct layer_pass *pass)
{
    return (struct shard_part){ .numbers = layer->kind->loss(layer, pass), .count = 1, .are_floats = true };
}

void layer_hand_loss_on(const struct layer *layer, const struct layer_pass *pass)
{
    if (layer->kind->loss && pass->base.loss)
        queue_download(pass->base.queue, pass->base.loss, layer->kind->loss(layer, pass), sizeof(float));
}

void layer_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer part = part_of(layer, pass);
    run(&part, pass, part.kind->forward);
    if (part.kind->loss && pass->base.loss && layer_owns_rows(&part) && pass->sum) {
        const struct shard_part loss = layer_loss_part(&part, pass);
        pass->sum->add(pass->sum->self, pass->base.queue, &loss);
    }
    layer_hand_loss_on(&part, pass);
}

struct layer_pass layer_pass_of_backward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer part = part_of(layer, pass);
    const struct kind_sizes sizes = part.kind->sizes(&part);
    struct layer_pass inner = *pass;
    inner.is_both = true;
    inner.base.held = pass->base.workspace;
    if (pass->base.workspace)
        inner.base.workspace = (char *)pass->base.workspace + held_in_both(&sizes);
    return inner;
}

// An I may also leave something for W. If it leaves nothing, and no gradient is wanted, there is nothing to do.
static void run_input(const struct layer *part, const struct layer_pass *pass)
{
    if (!part->has_constant_inputs || part->kind->sizes(part).held_bytes > 0)
        run(part, pass, part->kind->backward_input);
}

void layer_backward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer part = part_of(layer, pass);
    const struct layer_pass inner = layer_pass_of_backward(layer, pass);
    run_input(&part, &inner);
    run(&part, &inner, part.kind->backward_weight);
}

// The part of `held` that follows the output's gradient.
static void *held_behind_gradient(const struct layer_pass *pass, const struct kind_sizes *sizes)
{
    return pass->base.held ? (char *)pass->base.held + sizes->output_bytes : NULL;
}

struct layer_pass layer_pass_of_input(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer part = part_of(layer, pass);
    const struct kind_sizes sizes = part.kind->sizes(&part);
    struct layer_pass inner = *pass;
    inner.base.held = held_behind_gradient(pass, &sizes);
    if (has_weight_pass(&part) && sizes.output_bytes > 0 && pass->base.held != pass->base.output_gradient)
        queue_copy(pass->base.queue, pass->base.held, pass->base.output_gradient, sizes.output_bytes);
    return inner;
}

void layer_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer part = part_of(layer, pass);
    const struct layer_pass inner = layer_pass_of_input(layer, pass);
    run_input(&part, &inner);
}

struct layer_pass layer_pass_of_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer part = part_of(layer, pass);
    const struct kind_sizes sizes = part.kind->sizes(&part);
    struct layer_pass inner = *pass;
    inner.base.held = held_behind_gradient(pass, &sizes);
    inner.base.output_gradient = pass->base.held;
    return inner;
}

void layer_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer part = part_of(layer, pass);
    const struct layer_pass inner = layer_pass_of_weight(layer, pass);
    run(&part, &inner, part.kind->backward_weight);
}

// --- state -----------------------------------------------------------------------

void layer_initialize_state(const struct layer *layer, struct queue *queue, void *state)
{
    layer->kind->initialize_state(layer, queue, state);
}

void layer_fold(const struct layer *layer, const struct weir_fold *fold)
{
    layer->kind->fold(layer, fold);
}

struct layer_choices layer_choices(const struct layer *layer, const void *saved)
{
    return layer->kind->choices ? layer->kind->choices(layer, saved) : (struct layer_choices){ 0 };
}

size_t layer_states(const struct layer *layer, struct weir_tensor states[LAYER_TENSORS])
{
    return layer->kind->states ? layer->kind->states(layer, states) : 0;
}

// --- parameters ------------------------------------------------------------------

void tensor_add(struct tensor *tensors, size_t *count, struct tensor tensor)
{
    assert(*count < LAYER_TENSORS);
    tensors[(*count)++] = tensor;
}

size_t layer_tensors(const struct layer *layer, struct tensor tensors[LAYER_TENSORS])
{
    size_t count = 0;
    if (layer->kind->tensors)
        layer->kind->tensors(layer, tensors, &count);
    for (size_t i = 0; i < count && !layer_has_places(layer); i++)
        tensors[i].number = i;
    for (size_t i = 1; i < count; i++)
        tensors[i].offset = tensors[i].adjoins
                                ? tensors[i - 1].offset + tensors[i - 1].rows * tensors[i - 1].columns
                                : tensor_end(layer, &tensors[i - 1]);
    return count;
}

struct parameters layer_parameters(const struct layer *layer, const void *parameters)
{
    struct tensor tensors[LAYER_TENSORS];
    struct parameters found = { { NULL } };
    const size_t count = layer_tensors(layer, tensors);
    for (size_t i = 0; i < count; i++)
        found.at[i] = values_at(parameters, layer->shape.precision, tensors[i].offset);
    return found;
}

struct gradients layer_gradients(const struct layer *layer, void *gradients)
{
    struct tensor tensors[LAYER_TENSORS];
    struct gradients found = { { NULL } };
    const size_t count = layer_tensors(layer, tensors);
    for (size_t i = 0; i < count; i++)
        found.at[i] = (float *)gradients + tensors[i].offset;
    return found;
}

uint64_t layer_parameter_count(const struct layer *layer)
{
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(layer, tensors);
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (tensors[i].rows - tensors[i].padding_rows) * (tensors[i].columns - tensors[i].padding_columns);
    return sum;
}

static uint64_t tensor_key(uint64_t seed, uint32_t layer, size_t tensor)
{
    uint64_t key = seed;
    key = random_next(&key) ^ ((uint64_t)layer << 32 | tensor);
    return random_next(&key);
}

// Whole rows that are adjacent are one span.
static bool piece_run(const struct tensor *tensor, size_t run, struct tensor_run *found)
{
    const struct tensor_piece *piece = &tensor->piece;
    const bool is_adjacent = piece->row_step == 1 && tensor->columns == piece->whole_columns;
    const size_t row = piece->first_row + run * piece->row_step;
    const size_t count = tensor->columns * (is_adjacent ? tensor->rows : 1);
    *found = (struct tensor_run){ .own = run * tensor->columns, .count = count, .drawn_count = count,
                                  .whole = row * piece->whole_columns + piece->first_column };
    found->drawn = found->whole;
    return run < (is_adjacent ? 1 : tensor->rows);
}

// All rows of one expert are one span. Copied experts come first among those of a member.
static bool expert_run(const struct layer *layer, const struct tensor *tensor, size_t run, struct tensor_run *found)
{
    const size_t copies = layer_copied_experts(layer), own = layer_own_experts(layer) - copies;
    const bool are_copies = tensor->split == SPLIT_COPIES;
    const size_t experts = are_copies ? copies : own;
    if (run >= experts)
        return false;
    const size_t count = tensor->rows / experts * tensor->columns;
    *found = (struct tensor_run){ .own = run * count, .count = count, .drawn_count = count };
    found->whole = found->drawn = layer_own_expert(layer, are_copies ? run : copies + run) * count;
    return true;
}

bool tensor_run(const struct layer *layer, const struct tensor *tensor, size_t run, struct tensor_run *found)
{
    if (tensor->split == SPLIT_PIECE)
        return piece_run(tensor, run, found);
    if (tensor->split == SPLIT_EXPERTS || tensor->split == SPLIT_COPIES)
        return expert_run(layer, tensor, run, found);

    const bool is_split = tensor->split != SPLIT_NONE && layer->shape.shards > 1;
    const size_t shards = is_split ? layer->shape.shards : 1, shard = is_split ? layer->shape.shard : 0;
    const size_t all = tensor->rows * tensor->columns;
    if (!is_split || tensor->split == SPLIT_ROWS) {
        *found = (struct tensor_run){ .whole = shard * all, .count = all, .drawn = shard * all,
                                      .drawn_count = all - tensor->padding_rows * tensor->columns };
        return run == 0;
    }
    const size_t length = tensor->columns / tensor->parts;
    *found = (struct tensor_run){ .own = run * length, .whole = (run * shards + shard) * length, .count = length };
    found->drawn = found->whole - run / tensor->parts * tensor->padding_of_whole;
    found->drawn_count = length - tensor->padding_columns;
    return run < tensor->rows * tensor->parts;
}

static void draw_shard(const struct layer *layer, const struct tensor *tensor, struct queue *queue,
                       struct values *place, uint64_t key)
{
    struct tensor_run run;
    for (size_t i = 0; tensor_run(layer, tensor, i, &run); i++)
        kernel_fill_normal(queue, values_at(place, layer->shape.precision, run.own), tensor->deviation, key, run.drawn,
                           run.drawn_count);
}

// Row by row if rows end in padding: the numbers are those of a tensor without padding.
static void draw_normal(const struct layer *layer, const struct tensor *tensor, struct queue *queue,
                        struct values *place, uint64_t key)
{
    const size_t rows = tensor->rows - tensor->padding_rows, columns = tensor->columns - tensor->padding_columns;
    const size_t runs = columns == tensor->columns ? 1 : rows, length = rows * columns / runs;
    for (size_t run = 0; run < runs; run++)
        kernel_fill_normal(queue, values_at(place, layer->shape.precision, run * tensor->columns), tensor->deviation,
                           key, run * length, length);
}

static void draw(const struct layer *layer, const struct tensor *tensor, struct queue *queue, struct values *place,
                 uint64_t key)
{
    if (layer_exchanges(layer) && tensor->split != SPLIT_NONE)
        draw_shard(layer, tensor, queue, place, key);
    else
        draw_normal(layer, tensor, queue, place, key);
}

void layer_initialize(const struct layer *layer, struct queue *queue, void *parameters, uint64_t seed)
{
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(layer, tensors);
    queue_zero(queue, parameters, layer_sizes(layer).parameter_bytes);
    for (size_t i = 0; i < count; i++) {
        struct values *place = values_at(parameters, layer->shape.precision, tensors[i].offset);
        if (tensors[i].start == START_ONE)
            kernel_fill(queue, place, 1, tensors[i].rows * tensors[i].columns);
        else if (tensors[i].start == START_NORMAL)
            draw(layer, &tensors[i], queue, place, tensor_key(seed, layer->index, tensors[i].number));
    }
}
