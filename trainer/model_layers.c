#include "trainer/model_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/random.h"
#include "models/shards.h"
#include "runtime/ranks/weight_plan.h"
#include "trainer/data/click_data.h"
#include "trainer/host_tables.h"
#include "trainer/layer_binding.h"
#include "trainer/routing_record.h"

// The members that this layer stands for, and how many samples each has room for.
static uint32_t members_of(const struct layer_binding *binding)
{
    return binding->all && layer_owns_rows(&binding->layer) ? binding->shard_count : 1;
}

static size_t slots_of(const struct layer_binding *binding)
{
    return members_of(binding) * binding->layer.shape.batch;
}

static struct sample_share share_of(const struct layer_binding *binding, uint32_t member)
{
    return layer_samples(members_of(binding) > 1 ? &binding->all[member] : &binding->layer);
}

// Numbers of one picture.
static size_t picture_numbers(const struct layer_binding *binding)
{
    return binding->layer.shape.sequence * binding->layer.shape.out;
}

static uint64_t batch_bytes(const struct layer_binding *binding)
{
    if (binding->pixels)
        return round_to_256(slots_of(binding) * picture_numbers(binding) * sizeof(float));
    if (binding->clicks)
        return members_of(binding) * click_batch_bytes(&binding->layer);
    return binding->tokens ? round_to_256(slots_of(binding) * binding->sequence * sizeof(int32_t)) : 0;
}

// Picks the layer's own samples from those of the whole micro-batch, `bytes` each. Slots of a member with fewer samples
// than others repeat its last one.
static void *own_samples(const struct layer_binding *binding, const struct weir_pass *pass, void *samples, size_t bytes)
{
    if (!binding->own)
        return samples;
    char *own = (char *)binding->own + pass->copy * slots_of(binding) * bytes, *slot = own;
    for (uint32_t m = 0; m < members_of(binding); m++) {
        const struct sample_share share = share_of(binding, m);
        for (size_t i = 0; i < binding->layer.shape.batch; i++, slot += bytes)
            memcpy(slot, (char *)samples + (share.first + (i < share.count ? i : share.count - 1)) * bytes, bytes);
    }
    return own;
}

// Slots that repeat a sample have no targets.
static void forget_repeated(const struct layer_binding *binding, int32_t *own, size_t length)
{
    for (uint32_t m = 0; m < members_of(binding); m++)
        for (size_t i = share_of(binding, m).count; i < binding->layer.shape.batch; i++)
            for (size_t t = 0; t < length; t++)
                own[(m * binding->layer.shape.batch + i) * length + t] = NO_TARGET;
}

// A copy's part of the tokens or targets; NULL if there are none.
static int32_t *of_copy(const struct layer_binding *binding, int32_t *all, uint32_t copy)
{
    return all ? all + copy * binding->rows * binding->sequence : NULL;
}

static uint64_t random_of(const struct layer_binding *binding, const struct weir_pass *pass)
{
    uint64_t state = binding->settings.seed;
    state = random_next(&state) ^ pass->step;
    return random_next(&state) ^ pass->micro_batch;
}

static void draw(const struct layer_binding *binding, const struct weir_pass *pass, int32_t *tokens, int32_t *targets)
{
    uint64_t state = random_of(binding, pass);
    for (size_t i = 0; i < binding->rows * binding->sequence; i++) {
        tokens[i] = (int32_t)random_below(&state, binding->classes);
        targets[i] = (int32_t)random_below(&state, binding->classes);
    }
}

static void draw_pixels(const struct layer_binding *binding, const struct weir_pass *pass, float *pixels)
{
    uint64_t state = random_of(binding, pass);
    for (size_t i = 0; i < binding->rows * picture_numbers(binding); i++)
        pixels[i] = (float)random_below(&state, 256) / 255;
}

// Moves the numbers at the part's positions of each row together, row after row. Returns how many a row has.
static size_t take_part(const struct layer_binding *binding, const struct weir_pass *pass, int32_t *numbers)
{
    const uint32_t splits = pass->splits > 1 ? pass->splits : 1;
    const size_t length = binding->sequence / splits, first = pass->split * length;
    for (size_t row = 0; splits > 1 && row < binding->rows; row++)
        memmove(numbers + row * length, numbers + row * binding->sequence + first, length * sizeof *numbers);
    return length;
}

static bool is_held(const struct layer_binding *binding, const struct weir_pass *pass)
{
    return binding->settings.batches == BATCHES_HELD || (binding->settings.course && !pass->is_training);
}

static struct sample_range evaluated(const struct sample_course *course)
{
    return course->evaluated.count > 0 ? course->evaluated : sample_data_held(course->data);
}

// The number of a micro-batch's first sample among those that are evaluated.
static uint64_t first_evaluated(const struct layer_binding *binding, const struct weir_pass *pass)
{
    return pass->step * binding->settings.course->evaluation_samples + (uint64_t)pass->micro_batch * binding->rows;
}

static struct sample_place evaluated_place(const struct sample_course *course, uint64_t number)
{
    const struct sample_range range = evaluated(course);
    return (struct sample_place){ range.first + number % range.count, 0 };
}

// The sample in a row of the micro-batch, of which `real` count. Rows behind these repeat the last one.
static struct sample_place sample_of(const struct layer_binding *binding, const struct weir_pass *pass, size_t row,
                                     size_t real)
{
    const struct batch_settings *settings = &binding->settings;
    const struct sample_course *course = settings->course;
    const size_t counted = row < real ? row : real > 0 ? real - 1 : 0;
    return is_held(binding, pass)
               ? evaluated_place(course, first_evaluated(binding, pass) + counted)
               : sample_data_place(course->data, settings->seed, pass->step * course->pass_samples + course->offset
                                                                     + (uint64_t)pass->micro_batch * binding->rows
                                                                     + counted);
}

size_t binding_samples(const struct layer_binding *binding, const struct weir_pass *pass)
{
    const struct batch_settings *settings = &binding->settings;
    const uint64_t before = (uint64_t)pass->micro_batch * binding->rows;
    if (is_held(binding, pass) && settings->course) {
        const uint64_t all = evaluated(settings->course).count, first = first_evaluated(binding, pass);
        return first < all ? (size_t)min_u64(all - first, binding->rows) : 0;
    }
    if (settings->batches == BATCHES_HELD)
        return text_data_held_rows(settings->text, pass->micro_batch, binding->rows, binding->sequence);
    return settings->batch > 0 ? (size_t)min_u64(settings->batch - before, binding->rows) : binding->rows;
}

// Rows after the last one that counts repeat it. A NaN in one of them therefore means a NaN in a row that counts.
static void leave_out(const struct layer_binding *binding, size_t real, int32_t *tokens, int32_t *targets)
{
    const size_t length = binding->sequence;
    for (size_t row = real; row < binding->rows; row++) {
        if (real > 0)
            memcpy(tokens + row * length, tokens + (real - 1) * length, length * sizeof *tokens);
        for (size_t i = 0; i < length; i++)
            targets[row * length + i] = NO_TARGET;
    }
}

// How pictures are changed here; NULL: not at all.
static const struct augmentation *augmentation_of(const struct layer_binding *binding, const struct weir_pass *pass)
{
    return is_held(binding, pass) ? NULL : &binding->settings.course->augmentation;
}

static void fetch_labels(const struct layer_binding *binding, const struct weir_pass *pass, int32_t *targets)
{
    const struct batch_settings *settings = &binding->settings;
    const size_t real = binding_samples(binding, pass);
    for (size_t row = 0; row < real; row++)
        sample_data_targets(settings->course->data, sample_of(binding, pass, row, real), settings->seed,
                            augmentation_of(binding, pass), targets + row * binding->sequence);
}

// The tokens of an embedding, or the targets of a head, go to the device in the order of the queue. They arrive after
// the previous forward, which may still have to read its own.
static void fetch(const struct layer_binding *binding, const struct weir_pass *pass)
{
    const struct batch_settings *settings = &binding->settings;
    int32_t *tokens = of_copy(binding, binding->tokens, pass->copy);
    int32_t *targets = of_copy(binding, binding->targets, pass->copy);
    if (settings->course)
        fetch_labels(binding, pass, targets);
    else if (settings->batches == BATCHES_RANDOM)
        draw(binding, pass, tokens, targets);
    else if (settings->batches == BATCHES_TRAIN)
        text_data_micro_batch(settings->text, settings->seed, pass->step, pass->micro_batch, binding->rows,
                              binding->sequence, tokens, targets);
    else
        text_data_held_batch(settings->text, pass->micro_batch, binding->rows, binding->sequence, tokens, targets);
    leave_out(binding, binding_samples(binding, pass), tokens, targets);
    const bool are_targets = layer_data(&binding->layer) == DATA_TARGETS;
    int32_t *needed = are_targets ? targets : tokens;
    const size_t length = take_part(binding, pass, needed);
    needed = own_samples(binding, pass, needed, length * sizeof *needed);
    if (are_targets)
        forget_repeated(binding, needed, length);
    queue_upload(pass->queue, (char *)pass->workspace + binding->batch_at, needed,
                 slots_of(binding) * length * sizeof *needed);
}

// The pixels of a micro-batch, from 0 to 1. Pictures behind the last one that counts repeat it. A member that owns rows
// reads those of its own only.
static void fetch_pixels(const struct layer_binding *binding, const struct weir_pass *pass)
{
    const struct batch_settings *settings = &binding->settings;
    const size_t one = picture_numbers(binding), real = binding_samples(binding, pass);
    const bool reads_own = settings->course && members_of(binding) == 1;
    const struct sample_share share = reads_own ? share_of(binding, 0) : (struct sample_share){ 0, binding->rows };
    float *pixels = binding->pixels + pass->copy * binding->rows * one;
    if (!settings->course)
        draw_pixels(binding, pass, pixels);
    for (size_t row = share.first; row < share.first + share.count; row++) {
        if (settings->course)
            sample_data_pixels(settings->course->data, sample_of(binding, pass, row, real), settings->seed,
                               augmentation_of(binding, pass), pixels + row * one);
        else if (row >= real)
            memcpy(pixels + row * one, pixels + (row - 1) * one, one * sizeof *pixels);
    }
    pixels = own_samples(binding, pass, pixels, one * sizeof *pixels);
    queue_upload(pass->queue, (char *)pass->workspace + binding->batch_at, pixels,
                 slots_of(binding) * one * sizeof *pixels);
}

size_t binding_samples_of(const struct layer *layer, size_t samples)
{
    const struct sample_share share = layer_samples(layer);
    return samples > share.first ? min_u64(samples - share.first, share.count) : 0;
}

// Random samples, drawn one after the other.
struct drawing {
    uint64_t seed;
    size_t drawn;
};

static struct click_lists draw_sample(const struct layer_binding *binding, const struct layer *layer,
                                      const struct weir_pass *pass, struct click_batch *batch, struct drawing *drawing,
                                      size_t row)
{
    struct click_lists sample = { 0 };
    if (drawing->drawn == 0 || drawing->drawn > row)
        *drawing = (struct drawing){ .seed = random_of(binding, pass) };
    for (; drawing->drawn <= row; drawing->drawn++)
        sample = click_batch_draw(layer, batch, &drawing->seed);
    return sample;
}

static struct click_lists click_of(const struct layer_binding *binding, struct sample_place place)
{
    struct click_sample sample;
    click_data_at(binding->settings.course->data, place, &sample);
    return (struct click_lists){ sample.numbers, sample.ids, sample.ends, sample.weights };
}

static struct click_lists sample_lists(const struct layer_binding *binding, const struct layer *layer,
                                       const struct weir_pass *pass, struct click_batch *batch,
                                       struct drawing *drawing, size_t row, size_t real)
{
    return binding->settings.course ? click_of(binding, sample_of(binding, pass, row, real))
                                    : draw_sample(binding, layer, pass, batch, drawing, row);
}

// A member's samples. Samples behind the last one that counts have no numbers and no ids, so that they name no rows.
// Nor have the slots that a member with fewer samples than others has left.
static void add_samples(const struct layer_binding *binding, const struct layer *layer, const struct layer *member,
                        const struct weir_pass *pass, struct click_batch *batch, struct drawing *drawing)
{
    const struct sample_share share = layer_samples(member);
    const size_t real = binding_samples(binding, pass), own = binding_samples_of(member, real);
    for (size_t i = 0; i < own; i++) {
        const struct click_lists sample = sample_lists(binding, layer, pass, batch, drawing, share.first + i, real);
        click_batch_add(layer, batch, &sample);
    }
    for (size_t i = own; i < layer->shape.batch; i++)
        click_batch_add(layer, batch, NULL);
}

void binding_gather_clicks(const struct layer_binding *binding, const struct layer *layer, const struct weir_pass *pass,
                           struct click_batch *batch)
{
    struct layer member = *layer;
    struct drawing drawing = { 0 };
    click_batch_begin(layer, batch);
    batch->slots = layer->shape.tables.room > 0 ? binding->slots : NULL;
    for (size_t m = 0; layer->shape.tables.places.are_given && m < layer->shape.members; m++) {
        member.shape.member = m;
        add_samples(binding, layer, &member, pass, batch, &drawing);
    }
    add_samples(binding, layer, layer, pass, batch, &drawing);
}

void binding_fetch_clicks(const struct layer_binding *binding, uint32_t member, struct layer_pass *pass)
{
    const struct layer *layer = members_of(binding) > 1 ? &binding->all[member] : &binding->layer;
    struct click_batch *batch = &binding->clicks[pass->base.copy];
    const uint64_t at = binding->batch_at + member * click_batch_bytes(layer);
    binding_gather_clicks(binding, layer, &pass->base, batch);
    click_batch_upload(layer, batch, pass->base.workspace ? (char *)pass->base.workspace + at : NULL, pass);
}

struct layer_pass binding_pass_of(const struct layer_binding *binding, const struct weir_pass *pass)
{
    const struct batch_settings *settings = &binding->settings;
    const bool held = is_held(binding, pass);
    const uint64_t update = settings->batch > 0 ? settings->batch : (uint64_t)binding->rows * settings->samples;
    const uint64_t rows = held ? binding->rows : update;
    const double samples = (double)rows * (double)binding->sequence;
    struct layer_pass layer_pass = {
        .base = *pass,
        .seed = settings->seed,
        .training = !held,
        .keeps_logits = held,
        .loss_weight = (float)(1 / samples),
        .sum = binding->sums ? &binding->sums[pass->copy].sum : NULL,
    };
    layer_pass.lacked_rows = settings->lacked_rows;
    layer_pass.whole_samples = binding_samples(binding, pass);
    layer_pass.base.samples = binding_samples_of(&binding->layer, layer_pass.whole_samples);
    return layer_pass;
}

static size_t copies_of(const struct batch_settings *settings)
{
    return settings->copies > 0 ? settings->copies : 1;
}

static void add_up(void *self, struct queue *queue, const struct shard_part *part)
{
    static const enum shard_meet meets[] = {
        [SHARD_ALL_REDUCE] = MEET_ALL_REDUCE,
        [SHARD_REDUCE_SCATTER] = MEET_REDUCE_SCATTER,
        [SHARD_ALL_GATHER] = MEET_ALL_GATHER,
        [SHARD_ALL_TO_ALL] = MEET_ALL_TO_ALL,
        [SHARD_ROWS] = MEET_ROWS,
    };
    const struct summing *summing = self;
    const struct shard_numbers numbers = { part->numbers, part->count, part->are_floats, meets[part->exchange],
                                           part->received, part->rows };
    shard_group_meet(summing->group, &summing->at, queue, &numbers);
}

// If the group of a shard has failed, the shard ends here, not later when its queue is waited for.
static bool is_well(const struct layer_binding *binding, struct weir_error *trouble)
{
    return !binding->sums || shard_group_lets_on(binding->sums[0].group, trouble);
}

struct layer_pass binding_forward_pass_of(const struct layer_binding *binding, const struct weir_pass *pass)
{
    struct layer_pass layer_pass = binding_pass_of(binding, pass);
    const void *fetched = (char *)pass->workspace + binding->batch_at;
    if (binding->pixels) {
        fetch_pixels(binding, pass);
        layer_pass.pixels = fetched;
    } else if (binding->clicks && members_of(binding) == 1) {
        binding_fetch_clicks(binding, 0, &layer_pass);
    } else if (binding->tokens) {
        fetch(binding, pass);
        layer_pass.tokens = layer_pass.targets = fetched;
    }
    return layer_pass;
}

static bool forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct layer_binding *binding = self;
    const struct layer_pass layer_pass = binding_forward_pass_of(binding, pass);
    layer_forward(&binding->layer, &layer_pass);
    return is_well(binding, error);
}

// Reads tables on the host, and sends their vectors.
static bool forward_on_host(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct layer_binding *binding = self;
    struct click_batch *batch = &binding->clicks[pass->copy];
    struct error reason = { 0 };
    binding_gather_clicks(binding, &binding->layer, pass, batch);
    if (host_tables_look_up(binding->host, binding->layer.index, batch, pass->queue, pass->output, &reason))
        return true;
    error->code = (int)reason.kind;
    snprintf(error->text, sizeof error->text, "%s", reason.text);
    return false;
}

static bool backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct layer_binding *binding = self;
    const struct layer_pass layer_pass = binding_pass_of(binding, pass);
    layer_backward(&binding->layer, &layer_pass);
    return is_well(binding, error);
}

static bool backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct layer_binding *binding = self;
    const struct layer_pass layer_pass = binding_pass_of(binding, pass);
    layer_backward_input(&binding->layer, &layer_pass);
    return is_well(binding, error);
}

static bool backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct layer_binding *binding = self;
    const struct layer_pass layer_pass = binding_pass_of(binding, pass);
    layer_backward_weight(&binding->layer, &layer_pass);
    return is_well(binding, error);
}

static bool initialize_state(void *self, void *queue, void *state, struct weir_error *error)
{
    (void)error;
    const struct layer_binding *binding = self;
    layer_initialize_state(&binding->layer, queue, state);
    return true;
}

static bool fold(void *self, const struct weir_fold *fold, struct weir_error *error)
{
    (void)error;
    const struct layer_binding *binding = self;
    layer_fold(&binding->layer, fold);
    routing_record_fold(binding->settings.routing, &binding->layer, fold);
    return true;
}

static bool initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)error;
    const struct layer_binding *binding = self;
    layer_initialize(&binding->layer, queue, parameters, binding->settings.seed);
    return true;
}

// --- layers ------------------------------------------------------------------------------

static size_t find_undecayed(struct layer_binding *binding)
{
    struct tensor tensors[LAYER_TENSORS];
    const uint64_t size = precision_bytes(binding->layer.shape.precision);
    const uint64_t bytes = layer_sizes(&binding->layer).parameter_bytes;
    size_t found = 0;
    for (uint32_t s = 0; s == 0 || s < binding->shard_count; s++) {
        const size_t count = layer_tensors(binding->all ? &binding->all[s] : &binding->layer, tensors);
        for (size_t i = 0; i < count; i++) {
            const uint64_t first = s * bytes + tensors[i].offset * size;
            if (!tensors[i].decays)
                binding->undecayed[found++] =
                    (struct weir_range){ first, first + tensors[i].rows * tensors[i].columns * size };
        }
    }
    return found;
}

// Leaves out rows of padding, which no token names, as checkpoints do.
static size_t find_tensors(struct layer_binding *binding)
{
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(&binding->layer, tensors);
    const uint64_t size = precision_bytes(binding->layer.shape.precision);
    for (size_t i = 0; i < count; i++)
        binding->tensors[i] = (struct weir_tensor){
            .name = tensors[i].name, .rows = tensors[i].rows - tensors[i].padding_rows,
            .columns = tensors[i].columns, .first_byte = tensors[i].offset * size,
        };
    return count;
}

static struct weir_layer layer_of(struct layer_binding *binding)
{
    const struct layer_sizes sizes = layer_sizes(&binding->layer);
    static const enum weir_input_kept kept[] = {
        [INPUT_NEVER] = WEIR_INPUT_KEPT_NONE,
        [INPUT_FOR_WEIGHT] = WEIR_INPUT_KEPT_WEIGHT,
        [INPUT_FOR_BOTH] = WEIR_INPUT_KEPT_BOTH,
    };
    struct weir_layer layer = {
        .name = binding->layer.name,
        .kind = layer_kind_name(&binding->layer),
        .parameter_bytes = sizes.parameter_bytes,
        .output_bytes = sizes.output_bytes,
        .saved_bytes = sizes.saved_bytes,
        .most_splits = layer_most_splits(&binding->layer),
        .shared_by_parts_bytes = sizes.shared_by_parts_bytes,
        .input_kept = kept[sizes.input],
        .held_for_weight_bytes = sizes.held_for_weight_bytes,
        .workspace_bytes = binding->batch_at + batch_bytes(binding),
        .backward_workspace_bytes = sizes.backward_workspace_bytes,
        .flops = sizes.flops,
        .touched_rows = sizes.touched_rows,
        .row_columns = sizes.row_columns,
        .summed_rows = sizes.summed_rows,
        .undecayed = binding->undecayed,
        .undecayed_count = find_undecayed(binding),
        .tensors = binding->tensors,
        .tensor_count = find_tensors(binding),
        .self = binding,
        .forward = forward,
        .backward_input = backward_input,
        .backward_weight = backward_weight,
        .backward = backward,
        .initialize = initialize,
    };
    layer.has_constant_inputs = binding->layer.has_constant_inputs;
    layer.has_auxiliary_loss = sizes.has_auxiliary_loss;
    if (sizes.state_bytes > 0) {
        layer.state_bytes = sizes.state_bytes;
        layer.statistics_bytes = sizes.statistics_bytes;
        layer.states = binding->states;
        layer.state_count = layer_states(&binding->layer, binding->states);
        layer.initialize_state = initialize_state;
        layer.fold = fold;
        if (sizes.trains_by_state)
            layer.state_reader = WEIR_STATE_READ_BY_TRAINING;
    }
    if (binding->all)
        binding_join_shards(binding, &layer);
    if (binding->host) {
        layer.parameter_bytes = 0;
        layer.tensors = NULL;
        layer.tensor_count = layer.undecayed_count = 0;
        layer.forward = forward_on_host;
    }
    return layer;
}

static bool open_sums(struct layer_binding *binding, const struct splitting *splitting, struct error *error)
{
    const uint32_t copies = (uint32_t)copies_of(&binding->settings);
    binding->sums = calloc(copies, sizeof binding->sums[0]);
    for (uint32_t copy = 0; binding->sums && copy < copies; copy++) {
        struct summing *summing = &binding->sums[copy];
        *summing = (struct summing){ .sum = { summing, add_up }, .group = splitting->group,
                                     .at = { binding->layer.index * copies + copy,
                                             splitting->shards[binding->layer.index], splitting->shard } };
    }
    return binding->sums || error_no_memory(error, "the layers of a model");
}

static uint32_t shards_of(const struct splitting *splitting, size_t layer)
{
    return splitting->shards ? splitting->shards[layer] : 0;
}

static bool split(struct layer_binding *binding, const struct model *model, struct device *device,
                  const struct splitting *splitting, struct error *error)
{
    const struct layer *whole = &model->layers[binding->layer.index];
    const uint32_t shards = shards_of(splitting, whole->index);
    struct sharding sharding = splitting->how;
    sharding.shards = shards;
    sharding.room = splitting->rooms ? splitting->rooms[whole->index] : 0;
    if (splitting->looks_up && host_tables_has(splitting->host, whole->index))
        binding->host = splitting->host;
    if (sharding.room > 0)
        binding->slots = host_tables_slots(splitting->host, whole->index, splitting->shard);
    if (sharding.room > 0 && !sharding.owns_rows)
        return layer_shard(whole, (struct sharding){ .shards = 1, .room = sharding.room }, 0, &binding->layer, error);
    if (shards <= 1 || shards <= splitting->shard || !layer_can_be_split(whole, sharding))
        return true;
    if (!splitting->group)
        return binding_open_shards(binding, model, device, sharding, error);
    if (!layer_shard(whole, sharding, splitting->shard, &binding->layer, error))
        return false;
    binding->layer.shape.tables.is_message = binding->layer.shape.experts.is_message
        = splitting->messages && splitting->messages[whole->index];
    return open_sums(binding, splitting, error);
}

static bool open_clicks(struct layer_binding *binding, size_t copies, struct error *error)
{
    binding->clicks = calloc(copies, sizeof binding->clicks[0]);
    bool good = binding->clicks || error_no_memory(error, "the layers of a model");
    for (size_t copy = 0; good && copy < copies; copy++)
        good = click_batch_create(&binding->layer, &binding->clicks[copy], error);
    return good;
}

static bool bind(struct layer_binding *binding, const struct model *model, size_t index, struct device *device,
                 const struct batch_settings *settings, const struct splitting *splitting, struct error *error)
{
    const struct layer *layer = &model->layers[index];
    const size_t classes[] = { [FAMILY_TEXT] = 256, [FAMILY_PICTURES] = model->sizes.classes, [FAMILY_CLICKS] = 2 };
    *binding = (struct layer_binding){ .layer = *layer, .settings = *settings, .rows = model->sizes.micro_batch,
                                       .sequence = model->sizes.sequence,
                                       .classes = classes[model->family] };
    binding->undecayed = calloc(LAYER_TENSORS * (shards_of(splitting, index) + 1u), sizeof binding->undecayed[0]);
    if (!binding->undecayed)
        return error_no_memory(error, "the layers of a model");
    if (!split(binding, model, device, splitting, error) || !layer_ask(&binding->layer, device, error))
        return false;
    binding->batch_at = layer_sizes(&binding->layer).workspace_bytes * (binding->all ? binding->shard_count : 1);
    if (layer_data(layer) == DATA_NONE)
        return true;
    const size_t copies = copies_of(settings), numbers = layer_data(layer) == DATA_PIXELS ? picture_numbers(binding)
                                                                                          : binding->sequence;
    if (layer_owns_rows(&binding->layer)) {
        binding->own = calloc(copies * slots_of(binding) * numbers, sizeof(int32_t));
        if (!binding->own)
            return error_no_memory(error, "the layers of a model");
    }
    if (layer_data(layer) == DATA_PIXELS) {
        binding->pixels = calloc(copies * binding->rows * numbers, sizeof binding->pixels[0]);
        return binding->pixels || error_no_memory(error, "the layers of a model");
    }
    if (layer_data(layer) == DATA_NUMBERS || layer_data(layer) == DATA_IDS)
        return open_clicks(binding, copies, error);
    binding->tokens = calloc(copies * binding->rows * binding->sequence, sizeof binding->tokens[0]);
    binding->targets = calloc(copies * binding->rows * binding->sequence, sizeof binding->targets[0]);
    return (binding->tokens && binding->targets) || error_no_memory(error, "the layers of a model");
}

struct batch_settings batch_settings_for(const struct schedule *schedule, uint64_t seed)
{
    return (struct batch_settings){ .batches = BATCHES_RANDOM, .seed = seed, .samples = schedule_samples(schedule),
                                    .copies = schedule->route_count };  // the most there can be
}

bool batch_settings_of(const struct plan *plan, uint32_t runs, uint64_t seed, struct batch_settings *settings,
                       struct error *error)
{
    struct schedule *schedule = plan_schedule(plan, plan->micro_batches * runs, false, error);
    if (!schedule)
        return false;
    *settings = batch_settings_for(schedule, seed);
    schedule_free(schedule);
    return true;
}

bool batch_settings_take(struct batch_settings *settings, const struct model *model, uint64_t batch, bool flushes,
                         struct error *error)
{
    const uint64_t rows = model->sizes.micro_batch, needed = (batch + rows - 1) / rows;
    const unsigned long long samples = batch, whole = rows;
    if (batch > 0 && !flushes)
        return error_set(error, "a batch of %llu samples is for a schedule that flushes: others average whole"
                         " micro-batches from update to update; leave the batch out, or plan by such a schedule",
                         samples);
    if (needed > settings->samples)
        return error_set(error, "a batch of %llu samples is more than the plan's %u micro-batches of %llu have room"
                         " for: plan for %llu micro-batches", samples, settings->samples, whole,
                         (unsigned long long)needed);
    if (batch > 0 && needed < settings->samples)
        return error_set(error, "a batch of %llu samples leaves nothing for the last of the plan's %u micro-batches of"
                         " %llu: plan for %llu micro-batches", samples, settings->samples, whole,
                         (unsigned long long)needed);
    settings->batch = batch;
    return true;
}

// NULL stands for the layer before.
static void read_inputs(struct model_layers *made, size_t layer)
{
    struct layer_binding *binding = &made->bindings[layer];
    const struct layer *reader = &binding->layer;
    if (layer == 0 || (reader->input_count == 1 && reader->inputs[0] + 1 == layer))
        return;
    for (uint32_t i = 0; i < binding->layer.input_count; i++)
        binding->inputs[i] = &made->layers[binding->layer.inputs[i]];
    made->layers[layer].inputs = binding->inputs;
    made->layers[layer].input_count = binding->layer.input_count;
}

// Bf16 and fp16 have the same size, so a model in one may run on a device in the other here. (If they do not match,
// the plan is refused when a run starts.)
static bool are_alike(const struct model *model, struct device *device, struct error *error)
{
    const enum precision ours = model->sizes.precision, its = device_precision(device);
    return ours == its || precision_bytes(ours) != precision_bytes(its)
        || error_set(error, "the device computes in %s, and the model in %s: name devices of one precision",
                     precision_name(its), precision_name(ours));
}

struct model_layers *model_layers_create(const struct model *model, struct device *device,
                                         const struct batch_settings *settings, struct error *error)
{
    return model_layers_create_split(model, device, settings, &(struct splitting){ 0 }, error);
}

struct model_layers *model_layers_create_split(const struct model *model, struct device *device,
                                               const struct batch_settings *settings,
                                               const struct splitting *splitting, struct error *error)
{
    if (!are_alike(model, device, error))
        return NULL;
    struct model_layers *made = calloc(1, sizeof *made);
    if (made) {
        made->model = model;
        made->layer_count = model->layer_count;
        made->layers = calloc(model->layer_count, sizeof made->layers[0]);
        made->bindings = calloc(model->layer_count, sizeof made->bindings[0]);
    }
    bool good = (made && made->layers && made->bindings) || error_no_memory(error, "the layers of a model");
    for (size_t l = 0; good && l < model->layer_count; l++) {
        good = bind(&made->bindings[l], model, l, device, settings, splitting, error);
        if (good)
            made->layers[l] = layer_of(&made->bindings[l]);
        if (good && model->layers[l].shape.tied)
            made->layers[l].tied = &made->layers[0];
        if (good)
            read_inputs(made, l);
    }
    if (!good) {
        model_layers_free(made);
        return NULL;
    }
    return made;
}

void model_layers_free(struct model_layers *layers)
{
    if (!layers)
        return;
    for (size_t l = 0; layers->bindings && l < layers->layer_count; l++) {
        free(layers->bindings[l].tokens);
        free(layers->bindings[l].targets);
        free(layers->bindings[l].pixels);
        free(layers->bindings[l].own);
        for (size_t copy = 0; layers->bindings[l].clicks && copy < copies_of(&layers->bindings[l].settings); copy++)
            click_batch_free(&layers->bindings[l].clicks[copy]);
        free(layers->bindings[l].clicks);
        free(layers->bindings[l].undecayed);
        free(layers->bindings[l].all);
        free(layers->bindings[l].sums);
    }
    free(layers->bindings);
    free(layers->layers);
    free(layers);
}
