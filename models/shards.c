#include "models/shards.h"

#include <assert.h>
#include <string.h>

#include "models/layer_kind.h"

static bool has_words(const struct layer *layer)
{
    return layer->kind == &layer_embedding || layer->kind == &layer_head;
}

bool layer_can_be_split(const struct layer *layer, size_t shards)
{
    const size_t words = layer_words(layer);
    return layer->kind->forward_part
        && (!has_words(layer) || (words % shards == 0 && layer->shape.padding < words / shards));
}

static bool is_even(const struct layer *layer, const char *what, size_t whole, size_t shards, struct error *error)
{
    return whole % shards == 0
        || error_set(error, "layer %s: %zu %s cannot be shared by %zu shards", layer->name, whole, what, shards);
}

bool layer_shard(const struct layer *whole, size_t shards, size_t shard, struct layer *layer, struct error *error)
{
    assert(layer_can_be_split(whole, shards) && shard < shards && !whole->has_asked);
    if (shards > SHARDS_MOST)
        return error_set(error, "layer %s: %zu shards are more than %d", whole->name, shards, SHARDS_MOST);
    if (!has_words(whole)
        && !(whole->kind == &layer_attention ? is_even(whole, "heads", whole->shape.heads, shards, error)
                                             : is_even(whole, "inner columns", 4 * whole->shape.out, shards, error)))
        return false;
    *layer = *whole;
    layer->shape.shards = shards;
    layer->shape.shard = shard;
    return true;
}

bool model_shard(struct model *model, size_t shards, size_t shard, struct error *error)
{
    bool good = true;
    for (size_t l = 0; good && l < model->layer_count; l++) {
        const struct layer whole = model->layers[l];
        good = !layer_can_be_split(&whole, shards) || layer_shard(&whole, shards, shard, &model->layers[l], error);
    }
    return good;
}

// --- in one place ----------------------------------------------------------------------

static void sum_parts(const struct layer *layer, struct queue *queue, const struct shard_part *parts, size_t count)
{
    const struct shard_part sum = parts[0];
    const size_t size = sum.are_floats ? sizeof(float) : precision_bytes(layer->shape.precision);
    for (size_t s = 1; s < count; s++)
        if (sum.are_floats)
            kernel_add_floats(queue, sum.numbers, sum.numbers, parts[s].numbers, sum.count);
        else
            kernel_add(queue, sum.numbers, sum.numbers, parts[s].numbers, sum.count);
    for (size_t s = 1; s < count; s++)
        queue_copy(queue, parts[s].numbers, sum.numbers, sum.count * size);
}

// This pass's parts of sequences.
static void parts_of(const struct layer *shards, const struct layer_pass *passes, size_t count,
                     struct layer parts[SHARDS_MOST])
{
    for (size_t s = 0; s < count; s++)
        parts[s] = layer_part(&shards[s], passes[s].split, passes[s].splits);
}

void shards_forward(const struct layer *shards, const struct layer_pass *passes, size_t count)
{
    struct shard_part sums[SHARDS_MOST] = { { NULL, 0, false } };
    struct layer parts[SHARDS_MOST] = { { .kind = NULL } };
    const struct layer_kind *kind = shards[0].kind;
    parts_of(shards, passes, count, parts);
    for (size_t s = 0; s < count; s++) {
        kind->forward(&parts[s], &passes[s]);
        sums[s] = kind->forward_part(&parts[s], &passes[s]);
    }
    sum_parts(&parts[0], passes[0].queue, sums, count);
    for (size_t s = 0; s < count; s++)
        kind->forward_end(&parts[s], &passes[s]);
}

static void backward_input(const struct layer *parts, const struct layer_pass *inner, size_t count)
{
    struct shard_part sums[SHARDS_MOST] = { { NULL, 0, false } };
    const struct layer_kind *kind = parts[0].kind;
    for (size_t s = 0; s < count; s++) {
        kind->backward_input(&parts[s], &inner[s]);
        if (kind->input_part)
            sums[s] = kind->input_part(&parts[s], &inner[s]);
    }
    if (!kind->input_part)
        return;
    sum_parts(&parts[0], inner[0].queue, sums, count);
    for (size_t s = 0; s < count; s++)
        kind->backward_input_end(&parts[s], &inner[s]);
}

void shards_backward(const struct layer *shards, const struct layer_pass *passes, size_t count)
{
    struct layer_pass inner[SHARDS_MOST] = { { 0 } };
    struct layer parts[SHARDS_MOST] = { { .kind = NULL } };
    parts_of(shards, passes, count, parts);
    for (size_t s = 0; s < count; s++)
        inner[s] = layer_pass_of_backward(&shards[s], &passes[s]);
    backward_input(parts, inner, count);
    for (size_t s = 0; s < count; s++)
        parts[s].kind->backward_weight(&parts[s], &inner[s]);
}

void shards_backward_input(const struct layer *shards, const struct layer_pass *passes, size_t count)
{
    struct layer_pass inner[SHARDS_MOST] = { { 0 } };
    struct layer parts[SHARDS_MOST] = { { .kind = NULL } };
    parts_of(shards, passes, count, parts);
    for (size_t s = 0; s < count; s++)
        inner[s] = layer_pass_of_input(&shards[s], &passes[s]);
    backward_input(parts, inner, count);
}

// --- parameters -------------------------------------------------------------------------

// What is split lies together, in every kind; a tied head has nothing of its own.
void shard_own_range(const struct layer *shard, uint64_t *first, uint64_t *end)
{
    struct tensor tensors[LAYER_TENSORS];
    const size_t count = layer_tensors(shard, tensors);
    size_t from = 0;
    while (from < count && tensors[from].split == SPLIT_NONE)
        from++;
    size_t to = from;
    while (to < count && tensors[to].split != SPLIT_NONE)
        to++;
    const uint64_t all = layer_sizes(shard).parameter_bytes / precision_bytes(shard->shape.precision);
    *first = from < count ? tensors[from].offset : all;
    *end = to < count ? tensors[to].offset : all;
    for (; to < count; to++)
        assert(tensors[to].split == SPLIT_NONE);
}

static void copy_between(const struct layer *shard, size_t bytes, char *own, char *whole, bool is_cut)
{
    struct layer entire = *shard;
    struct tensor tensors[LAYER_TENSORS], of_whole[LAYER_TENSORS];
    struct tensor_run run;
    entire.shape.shards = entire.shape.shard = 0;
    const size_t count = layer_tensors(shard, tensors);
    layer_tensors(&entire, of_whole);
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; tensor_run(shard, &tensors[t], i, &run); i++) {
            char *a = own + (tensors[t].offset + run.own) * bytes;
            char *b = whole + (of_whole[t].offset + run.whole) * bytes;
            memcpy(is_cut ? a : b, is_cut ? b : a, run.count * bytes);
        }
}

void shard_cut(const struct layer *shard, size_t bytes, void *own, const void *whole)
{
    copy_between(shard, bytes, own, (char *)(uintptr_t)whole, true);
}

void shard_join(const struct layer *shard, size_t bytes, const void *own, void *whole)
{
    copy_between(shard, bytes, (char *)(uintptr_t)own, whole, false);
}
