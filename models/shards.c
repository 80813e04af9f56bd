#include "models/shards.h"

#include <assert.h>
#include <string.h>

#include "common/expert_rules.h"
#include "models/expert_places.h"
#include "models/router.h"
#include "models/table_places.h"

static bool has_words(const struct layer *layer)
{
    return layer->kind->data != DATA_NONE;
}

bool layer_can_be_split(const struct layer *layer, struct sharding sharding)
{
    if (sharding.room > 0 && !sharding.owns_rows)
        return layer->kind->data == DATA_IDS;
    if (sharding.owns_rows)
        return !layer->kind->fold || layer_chooses_experts(layer);
    if (layer_is_of_experts(layer) && sharding.shares_rows)
        return false;
    return kind_can_be_split(layer->kind)
        && (!has_words(layer) || sharding.shares_rows || layer_can_split_words(layer, sharding.shards));
}

static bool is_even(const struct layer *layer, size_t shards, struct error *error)
{
    const struct layer_kind *kind = layer->kind;
    return !kind->shared || kind->shared_count(layer) % shards == 0
        || error_set(error, "layer %s: %zu %s cannot be shared by %zu shards", layer->name, kind->shared_count(layer),
                     kind->shared, shards);
}

static bool has_places(const struct layer *layer, struct sharding sharding)
{
    return (layer->kind->data == DATA_IDS || layer_has_experts(layer)) && sharding.places;
}

static bool exchanges_vectors(const struct layer *layer)
{
    return layer->kind == &layer_exchange;
}

bool layer_weights_are_split(const struct layer *layer, struct sharding sharding)
{
    return (sharding.shards > 1 || sharding.room > 0) && layer_can_be_split(layer, sharding)
        && (!sharding.owns_rows || has_places(layer, sharding));
}

uint64_t layer_exchanged_bytes(const struct layer *shard)
{
    const bool exchanges = exchanges_vectors(shard) || !shard->shape.tables.has_exchange;
    const struct expert_shape *experts = &shard->shape.experts;
    if (shard->kind == &layer_router)
        return 0;
    if (experts->have_places) {
        const double pairs = expert_sent_pairs((double)router_slots(shard), (double)experts->router.experts,
                                               (double)experts->copies);
        return round_to_256((uint64_t)expert_sent_bytes(pairs, (double)shard->shape.out,
                                                        precision_bytes(shard->shape.precision)));
    }
    return shard->shape.tables.places.are_given && exchanges ? placed_input_bytes(shard) : 0;
}

// A room for the rows of experts is less than they may take, and no less than an even share.
static bool expert_rows_fit(const struct layer *layer, struct error *error)
{
    const struct expert_shape *experts = &layer->shape.experts;
    const size_t choices = layer->shape.whole_batch * layer->shape.sequence * experts->router.top;
    const size_t even = (choices + layer->shape.members - 1) / layer->shape.members, most = router_most_rows(layer);
    if (experts->most_rows > 0 && experts->is_cut)
        return error_set(error, "layer %s: a layer of experts that is cut has room for all rows that there can be:"
                         " leave out --most-rows, or exchange", layer->name);
    return experts->most_rows == 0 || (experts->most_rows >= even && experts->most_rows < most)
        || error_set(error, "layer %s: room for %zu rows of experts on each device is not between an even share, %zu,"
                     " and the most that there can be, %zu: give --most-rows a number between these", layer->name,
                     experts->most_rows, even, most);
}

static bool own_rows(const struct layer *whole, struct sharding sharding, size_t member, struct layer *layer,
                     struct error *error)
{
    const size_t batch = whole->shape.batch, members = sharding.shards;
    if (batch < members)
        return error_set(error, "layer %s: %zu devices cannot share micro-batches of %zu: take larger ones",
                         whole->name, members, batch);
    *layer = *whole;
    layer->shape.whole_batch = batch;
    layer->shape.batch = (batch + members - 1) / members;
    layer->shape.members = members;
    layer->shape.member = member;
    if (layer_is_of_experts(whole))
        return sharding.places
            ? expert_places_read(sharding.places, members, whole->name, &layer->shape.experts, error)
                && expert_rows_fit(layer, error)
            : error_set(error, "layer %s: say where its experts are on %zu devices: add --experts blocks", whole->name,
                        members);
    if (!has_places(whole, sharding) && !(exchanges_vectors(whole) && sharding.places))
        return true;
    if (!table_places_read(sharding.places, sharding.shards, whole->name, &layer->shape.tables, error))
        return false;
    if (sharding.room == 0 || exchanges_vectors(whole))
        layer->shape.tables.room = 0;
    return true;
}

static bool make_room(const struct layer *whole, size_t room, struct layer *layer, struct error *error)
{
    size_t rows = 0;
    for (size_t slot = 0; slot < whole->shape.tables.slots; slot++)
        rows += whole->shape.tables.rows[slot];
    if (rows > INT32_MAX)
        return error_set(error, "layer %s: its tables have %zu rows, and 2,147,483,647 are possible on one host: share"
                         " them between devices, as by weir profile --rows 2 --tables rows:host%zu", whole->name, rows,
                         room);
    if (room >= rows || room > INT32_MAX)
        return error_set(error, "layer %s: room for %zu rows on the device is as much as its tables have (%zu): leave"
                         " them on the device", whole->name, room, rows);
    *layer = *whole;
    layer->shape.tables.room = room;
    return true;
}

size_t layer_own_work(const struct layer *whole, struct sharding sharding, size_t member)
{
    struct layer shard;
    struct error error = { 0 };
    size_t numbers = 0;
    if (!has_places(whole, sharding) || !own_rows(whole, sharding, member, &shard, &error))
        return 0;
    if (shard.shape.experts.have_places)
        return layer_own_experts(&shard);
    for (size_t slot = 0; slot < whole->shape.tables.slots; slot++) {
        struct table_part part;
        if (table_part(&shard.shape, slot, member, &part))
            numbers += part.columns * (part.is_copy ? 1 : sharding.shards);
    }
    return numbers;
}

bool layer_shard(const struct layer *whole, struct sharding sharding, size_t shard, struct layer *layer,
                 struct error *error)
{
    const size_t shards = sharding.shards;
    assert(layer_can_be_split(whole, sharding) && shard < shards && !whole->has_asked);
    if (shards > SHARDS_MOST)
        return error_set(error, "layer %s: %zu shards are more than %d", whole->name, shards, SHARDS_MOST);
    if (sharding.room > 0 && !sharding.owns_rows)
        return make_room(whole, sharding.room, layer, error);
    if (sharding.owns_rows)
        return own_rows(whole, sharding, shard, layer, error);
    if (!is_even(whole, shards, error))
        return false;
    if (sharding.shares_rows && !layer_can_share_rows(whole, shards))
        return error_set(error,
                         "layer %s: %zu rows of %zu numbers cannot be shared by %zu shards as tensors of a multiple"
                         " of 256 bytes",
                         whole->name, layer_rows(whole), whole->shape.in, shards);
    *layer = *whole;
    layer->shape.shards = shards;
    layer->shape.shard = shard;
    layer->shape.shares_rows = sharding.shares_rows && shards > 1;
    return true;
}

bool model_shard(struct model *model, struct sharding sharding, size_t shard, struct error *error)
{
    bool good = true;
    for (size_t l = 0; good && l < model->layer_count; l++) {
        const struct layer whole = model->layers[l];
        good = !layer_can_be_split(&whole, sharding)
            || layer_shard(&whole, sharding, shard, &model->layers[l], error);
    }
    return good;
}

bool model_can_share_rows(const struct model *model, size_t shards)
{
    bool can = true;
    for (size_t l = 0; can && l < model->layer_count; l++)
        can = layer_can_be_split(&model->layers[l], (struct sharding){ .shards = shards, .shares_rows = true })
           && layer_can_share_rows(&model->layers[l], shards);
    return can;
}

bool model_can_own_rows(const struct model *model, struct sharding sharding, struct error *error)
{
    for (size_t l = 0; l < model->layer_count; l++) {
        const struct layer *layer = &model->layers[l];
        struct layer share;
        if (!layer_can_be_split(layer, sharding))
            return error_set(error, "layer %s keeps statistics of the rows that it sees, which members with rows of"
                             " their own would each have of their share: leave out --rows", layer->name);
        if (!layer_shard(layer, sharding, 0, &share, error))
            return false;
    }
    return true;
}

// --- in one place ----------------------------------------------------------------------

static uint64_t part_number_bytes(const struct layer *layer, const struct shard_part *part)
{
    return part->are_floats ? sizeof(float) : precision_bytes(layer->shape.precision);
}

// The address of a part's number `number`.
static void *number_at(const struct layer *layer, const struct shard_part *part, size_t number)
{
    return (char *)part->numbers + number * part_number_bytes(layer, part);
}

// Sums into the first part, then copies the sum to the others: all of it, or only the share that is wanted there.
static void sum_parts(const struct layer *layer, struct queue *queue, const struct shard_part *parts, size_t count)
{
    const struct shard_part sum = parts[0];
    for (size_t s = 1; s < count; s++)
        if (sum.are_floats)
            kernel_add_floats(queue, sum.numbers, sum.numbers, parts[s].numbers, sum.count);
        else
            kernel_add(queue, sum.numbers, sum.numbers, parts[s].numbers, sum.count);
    const bool is_scattered = sum.exchange == SHARD_REDUCE_SCATTER;
    const size_t share = is_scattered ? sum.count / count : sum.count;
    for (size_t s = 1; s < count; s++) {
        const size_t first = is_scattered ? s * share : 0;
        queue_copy(queue, number_at(layer, &parts[s], first), number_at(layer, &sum, first),
                   share * part_number_bytes(layer, &sum));
    }
}

static void gather_parts(const struct layer *layer, struct queue *queue, const struct shard_part *parts, size_t count)
{
    const size_t share = parts[0].count / count;
    for (size_t from = 0; from < count; from++)
        for (size_t to = 0; to < count; to++)
            if (to != from)
                queue_copy(queue, number_at(layer, &parts[to], from * share),
                           number_at(layer, &parts[from], from * share), share * part_number_bytes(layer, &parts[to]));
}

static void exchange_parts(const struct layer *layer, struct queue *queue, const struct shard_part *parts, size_t count)
{
    const size_t share = parts[0].count / count, bytes = share * part_number_bytes(layer, &parts[0]);
    for (size_t to = 0; to < count; to++)
        for (size_t from = 0; from < count; from++)
            queue_copy(queue, (char *)parts[to].received + from * bytes, number_at(layer, &parts[from], to * share),
                       bytes);
}

static void move_rows(const struct layer *layer, struct queue *queue, const struct shard_part *parts, size_t count)
{
    const uint64_t bytes = parts[0].count * precision_bytes(layer->shape.precision);
    struct error reason = { 0 };
    struct row_walk walk;
    struct row_run run;
    if (!row_walk_begin(&walk, queue, &parts[0].rows, &reason)) {
        queue_fail(queue, reason.text);
        return;
    }
    for (size_t s = 0; s < count; s++)
        row_walk_end(&walk, queue, &parts[s].rows, parts[s].received, parts[s].count);
    while (row_walk_next(&walk, &run))
        queue_copy(queue, (char *)parts[run.to].received + run.to_row * bytes,
                   (char *)parts[run.from].numbers + run.from_row * bytes, run.count * bytes);
}

static void meet(const struct layer *layer, struct queue *queue, const struct shard_part *parts, size_t count)
{
    if (parts[0].exchange == SHARD_ROWS)
        move_rows(layer, queue, parts, count);
    else if (parts[0].exchange == SHARD_ALL_TO_ALL)
        exchange_parts(layer, queue, parts, count);
    else if (parts[0].exchange == SHARD_ALL_GATHER)
        gather_parts(layer, queue, parts, count);
    else
        sum_parts(layer, queue, parts, count);
}

// The layers of this pass's parts of sequences.
static void parts_of(const struct layer *shards, const struct layer_pass *passes, size_t count,
                     struct layer parts[SHARDS_MOST])
{
    for (size_t s = 0; s < count; s++)
        parts[s] = layer_part(&shards[s], passes[s].base.split, passes[s].base.splits);
}

static void run_together(const struct layer *parts, const struct layer_pass *passes, size_t count,
                         const struct kind_step steps[KIND_STEPS])
{
    struct shard_part pieces[SHARDS_MOST] = { { .count = 0 } };
    const bool exchanges = layer_exchanges(&parts[0]);
    for (size_t i = 0; i < KIND_STEPS && steps[i].run; i++) {
        for (size_t s = 0; s < count; s++) {
            steps[i].run(&parts[s], &passes[s]);
            pieces[s] = exchanges && steps[i].part ? steps[i].part(&parts[s], &passes[s]) : (struct shard_part){ 0 };
        }
        if (pieces[0].count > 0)
            meet(&parts[0], passes[0].base.queue, pieces, count);
    }
}

static void sum_losses(const struct layer *parts, const struct layer_pass *passes, size_t count)
{
    struct shard_part pieces[SHARDS_MOST] = { { .count = 0 } };
    for (size_t s = 0; s < count; s++)
        pieces[s] = layer_loss_part(&parts[s], &passes[s]);
    sum_parts(&parts[0], passes[0].base.queue, pieces, count);
}

void shards_forward(const struct layer *shards, const struct layer_pass *passes, size_t count)
{
    struct layer parts[SHARDS_MOST] = { { .kind = NULL } };
    parts_of(shards, passes, count, parts);
    run_together(parts, passes, count, shards[0].kind->forward);
    if (shards[0].kind->loss && passes[0].base.loss && layer_owns_rows(&parts[0]))
        sum_losses(parts, passes, count);
    for (size_t s = 0; s < count; s++)
        layer_hand_loss_on(&parts[s], &passes[s]);
}

typedef struct layer_pass inner_pass(const struct layer *layer, const struct layer_pass *pass);

// Runs I, W or both. As for one layer (layer.c): without a gradient to hand on and without anything for W, I has
// nothing to do.
static void run_backward(const struct layer *shards, const struct layer_pass *passes, size_t count, inner_pass *pass_of,
                         bool has_input, bool has_weight)
{
    struct layer_pass inner[SHARDS_MOST] = { { .seed = 0 } };
    struct layer parts[SHARDS_MOST] = { { .kind = NULL } };
    parts_of(shards, passes, count, parts);
    for (size_t s = 0; s < count; s++)
        inner[s] = pass_of(&shards[s], &passes[s]);
    if (has_input && (!parts[0].has_constant_inputs || parts[0].kind->sizes(&parts[0]).held_bytes > 0))
        run_together(parts, inner, count, parts[0].kind->backward_input);
    if (has_weight)
        run_together(parts, inner, count, parts[0].kind->backward_weight);
}

void shards_backward(const struct layer *shards, const struct layer_pass *passes, size_t count)
{
    run_backward(shards, passes, count, layer_pass_of_backward, true, true);
}

void shards_backward_input(const struct layer *shards, const struct layer_pass *passes, size_t count)
{
    run_backward(shards, passes, count, layer_pass_of_input, true, false);
}

void shards_backward_weight(const struct layer *shards, const struct layer_pass *passes, size_t count)
{
    run_backward(shards, passes, count, layer_pass_of_weight, false, true);
}

// --- parameters -------------------------------------------------------------------------

static bool is_common(const struct tensor *tensor)
{
    return tensor->split == SPLIT_NONE || tensor->split == SPLIT_COPIES;
}

// In every kind the tensors that are split are adjacent. A tied head has none of its own.
void shard_own_range(const struct layer *shard, uint64_t *first, uint64_t *end)
{
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(shard, tensors);
    const uint64_t all = layer_sizes(shard).parameter_bytes / precision_bytes(shard->shape.precision);
    if (shard->shape.tables.places.are_given) {
        *first = table_places_common(shard);
        *end = all;
        return;
    }
    size_t from = 0;
    while (from < count && is_common(&tensors[from]))
        from++;
    size_t to = from;
    while (to < count && !is_common(&tensors[to]))
        to++;
    *first = from < count ? tensors[from].offset : all;
    *end = to < count ? tensors[to].offset : all;
    for (; to < count; to++)
        assert(is_common(&tensors[to]));
}

// Copies numbers of so many bytes, one for every `each` parameters.
static void copy_between(const struct layer *shard, size_t bytes, size_t each, char *part, char *whole, bool is_cut)
{
    struct layer entire = *shard;
    struct tensor tensors[LAYER_TENSORS], of_whole[LAYER_TENSORS];
    struct tensor_run run;
    entire.shape.shards = entire.shape.shard = 0;
    entire.shape.shares_rows = entire.shape.tables.places.are_given = entire.shape.experts.have_places = false;
    const size_t count = layer_tensors(shard, tensors);
    layer_tensors(&entire, of_whole);
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; tensor_run(shard, &tensors[t], i, &run); i++) {
            char *a = part + (tensors[t].offset + run.own) / each * bytes;
            char *b = whole + (of_whole[tensors[t].number].offset + run.whole) / each * bytes;
            memcpy(is_cut ? a : b, is_cut ? b : a, run.count / each * bytes);
        }
}

void shard_cut(const struct layer *shard, size_t bytes, void *part, const void *whole)
{
    copy_between(shard, bytes, 1, part, (char *)(uintptr_t)whole, true);
}

void shard_cut_rows(const struct layer *shard, float *part, const float *whole)
{
    const size_t columns = shard->shape.tables.columns;
    assert(columns == shard->shape.tables.places.unit);
    copy_between(shard, sizeof(float), columns, (char *)part, (char *)(uintptr_t)whole, true);
}

void shard_join(const struct layer *shard, size_t bytes, const void *part, void *whole)
{
    copy_between(shard, bytes, 1, (char *)(uintptr_t)part, whole, false);
}

void shard_join_rows(const struct layer *shard, const float *part, float *whole)
{
    const size_t columns = shard->shape.tables.columns;
    assert(columns == shard->shape.tables.places.unit);
    copy_between(shard, sizeof(float), columns, (char *)(uintptr_t)part, (char *)whole, false);
}
