#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/stages/chain_parts.h"
#include "runtime/stages/layer_state.h"
#include "runtime/stages/layer_table.h"

static bool note_tied(const struct weir_layer *layers, size_t layer_count, struct profile *profile, struct error *error)
{
    profile->tied = calloc(layer_count + 1, sizeof profile->tied[0]);
    profile->one_owner = calloc(layer_count + 1, sizeof profile->one_owner[0]);
    if (!profile->tied || !profile->one_owner)
        return error_no_memory(error, "the tied layers of a profile");
    for (uint32_t l = 0; l < layer_count; l++)
        if (layers[l].tied)
            profile->tied[profile->tied_count++] = (struct edge){ (uint32_t)(layers[l].tied - layers), l };
    memcpy(profile->one_owner, profile->tied, profile->tied_count * sizeof profile->one_owner[0]);
    for (size_t i = 0; i < profile->tied_count; i++)  // in a plan's own order the owner may come later
        if (profile->tied[i].from > profile->tied[i].to)
            profile->tied[i] = (struct edge){ profile->tied[i].to, profile->tied[i].from };
    qsort(profile->tied, profile->tied_count, sizeof profile->tied[0], edges_compare);
    qsort(profile->one_owner, profile->tied_count, sizeof profile->one_owner[0], edges_compare);
    profile->one_owner_count = profile->tied_count;
    return true;
}

bool chain_note_layers(const struct weir_layer *layers, size_t layer_count, struct profile *profile,
                       struct error *error)
{
    return layers_note_inputs(layers, layer_count, profile, error) && note_tied(layers, layer_count, profile, error);
}

// --- places --------------------------------------------------------------------------

// Finds the copies that the stage needs, each once.
bool chain_find_copies(struct chain *chain, const struct weir_layer *layers, const struct profile *profile,
                       struct error *error)
{
    chain->copies = calloc(profile->one_owner_count + 1, sizeof chain->copies[0]);
    if (!chain->copies)
        return error_no_memory(error, "a stage");
    for (size_t i = 0; i < profile->one_owner_count; i++)
        if (stage_brings_copy(profile, chain->first, chain->end, i))
            chain->copies[chain->copy_count++].layer = &layers[profile->one_owner[i].from];
    return true;
}

void chain_find_tied(struct chain *chain)
{
    for (size_t i = 0; i < chain_length(chain); i++) {
        struct placed *link = &chain->links[i];
        for (size_t k = 0; k < chain_length(chain); k++)
            if (chain->links[k].layer == link->layer->tied)
                link->tied = &chain->links[k].home;
        for (size_t k = 0; k < chain->copy_count; k++)
            if (chain->copies[k].layer == link->layer->tied)
                link->tied = &chain->copies[k];
    }
}

bool chain_check_together(const struct chain *chain, const struct storage *storage, struct error *error)
{
    for (size_t i = 0; i < chain_length(chain) && chain->copy_count > 0 && !storage->tied_apart; i++) {
        const struct weir_layer *layer = chain->links[i].layer;
        if (layer->tied == chain->copies[0].layer)
            return error_set(error, "layer %s is tied to layer %s, which is on another stage: plan with them tied"
                             " apart, or together", layer->name, layer->tied->name);
    }
    return true;
}

// If replicas have shares of the parameters, there is room for those of one layer at a time.
bool chain_check_shared(const struct chain *chain, struct error *error)
{
    const struct stage_bytes *bytes = &chain->stage.bytes;
    for (size_t i = 0; i < chain_length(chain) && (bytes->room_weights > 0 || bytes->room_gradients > 0); i++) {
        const struct weir_layer *layer = chain->links[i].layer;
        if (layer->tied)
            return error_set(error, "layer %s reads the parameters of layer %s, and replicas share gradients or weights"
                             " layer by layer: share the optimizer's state alone", layer->name, layer->tied->name);
    }
    return true;
}

// Lists of rows, by storage_list_room().
bool chain_find_lists(struct chain *chain, const struct profile *profile, const struct storage *storage,
                      uint32_t replicas, struct error *error)
{
    struct home **to = chain->homes = calloc(chain_length(chain) + chain->copy_count + 1, sizeof(struct home *));
    if (!to)
        return error_no_memory(error, "a stage");
    chain->replicas = replicas;
    for (size_t i = 0; i < chain_length(chain); i++) {
        struct placed *link = &chain->links[i];
        const uint32_t l = chain->first + (uint32_t)i;
        link->home.layer = link->layer;
        link->home.room = storage_list_room(storage, profile, l, replicas);
        link->home.sent_room = storage_sent_room(storage, profile, l, replicas);
        if (link->layer->touched_rows > 0 && optimizer_rows[storage->optimizer].is_lazy && link->home.room == 0)
            return error_set(error, "layer %s: %s needs a list of the rows to update, and this plan has none: plan with"
                             " adagrad-rows", link->layer->name, optimizer_names[storage->optimizer]);
        if (link->layer->touched_rows == 0)
            *to++ = &link->home;
    }
    for (size_t i = 0; i < chain->copy_count; i++)
        *to++ = &chain->copies[i];
    for (int is_listed = 0; is_listed < 2; is_listed++)
        for (size_t i = 0; i < chain_length(chain); i++)
            if (chain->links[i].layer->touched_rows > 0 && (chain->links[i].home.room > 0) == is_listed)
                *to++ = &chain->links[i].home;
    return true;
}

static size_t home_count(const struct chain *chain)
{
    return chain_length(chain) + chain->copy_count;
}

static uint64_t list_bytes(const struct chain *chain, const struct home *home)
{
    const struct layer_table table = layer_table_of(home->layer);
    const uint64_t sent = home->sent_room > 0
                              ? chain->replicas * row_list_bytes_without_places(home->sent_room, table.columns) : 0;
    return home->room > 0 ? row_list_bytes(home->room, table.rows, table.columns) + sent : 0;
}

// Lists of rows are behind all other gradients, which have a float for each weight in the order of the weights.
uint64_t chain_lay_out_weights(struct chain *chain)
{
    uint64_t used = 0, gradients = 0;
    for (size_t i = 0; i < home_count(chain); i++) {
        struct home *home = chain->homes[i];
        home->parameters = chain_take(&used, home->layer->parameter_bytes);
        chain->stage.version_bytes = home->room > 0 ? chain->stage.version_bytes : used;
        home->gradients = home->room > 0 ? gradients : home->parameters / chain->number_bytes * sizeof(float);
        gradients = home->room > 0 ? gradients + list_bytes(chain, home) : used / chain->number_bytes * sizeof(float);
        chain->stage.list_bytes += list_bytes(chain, home);
    }
    assert(chain->stage.list_bytes == 0 || gradients == chain->stage.bytes.gradients);
    return used;
}

// Bytes that no layer writes are zero.
static bool initialize_share(const struct chain *chain, const struct home *home, struct queue *queue,
                             const struct first_share *to, struct error *error)
{
    const uint64_t bytes = round_to_256(home->layer->parameter_bytes), share = to->first * chain->number_bytes;
    const uint64_t from = max_u64(home->parameters, share);
    const uint64_t until = min_u64(home->parameters + bytes, to->end * chain->number_bytes);
    if (from >= until)
        return true;
    queue_zero(queue, to->room, bytes);
    if (!layer_parameters_begin(home->layer, queue, to->room, error))
        return false;
    queue_copy(queue, chain_offset(to->weights, from - share), chain_offset(to->room, from - home->parameters),
               until - from);
    return true;
}

// A copy starts with the same bits as its original, since a layer writes the same first parameters each time.
bool chain_initialize(void *self, struct queue *queue, void *weights, struct error *error)
{
    const struct chain *chain = self;
    bool good = true;
    for (size_t i = 0; good && i < home_count(chain); i++) {
        const struct home *home = chain->homes[i];
        good = layer_parameters_begin(home->layer, queue, chain_offset(weights, home->parameters), error);
    }
    return good;
}

bool chain_initialize_share(void *self, struct queue *queue, const struct first_share *to, struct error *error)
{
    const struct chain *chain = self;
    bool good = true;
    for (size_t i = 0; good && i < home_count(chain); i++)
        good = initialize_share(chain, chain->homes[i], queue, to, error);
    return good;
}

// --- weights that other stages have as well, and undecayed weights --------------------

static bool is_copied_elsewhere(const struct chain *chain, const struct profile *profile, uint32_t layer)
{
    for (size_t i = 0; i < profile->one_owner_count; i++)
        if (profile->one_owner[i].from == layer
            && (profile->one_owner[i].to < chain->first || profile->one_owner[i].to >= chain->end))
            return true;
    return false;
}

static struct shared shared_as(const struct chain *chain, const struct home *home, uint32_t layer)
{
    const uint64_t first = home->parameters / chain->number_bytes;
    return (struct shared){ layer, first, first + round_to_256(home->layer->parameter_bytes) / chain->number_bytes };
}

static int by_key(const void *a, const void *b)
{
    const struct shared *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

// The key is the number of the layer that owns the parameters.
bool chain_collect_shared(struct chain *chain, const struct weir_layer *layers, const struct profile *profile,
                          struct error *error)
{
    struct shared *to = chain->shared = calloc(chain->copy_count + chain_length(chain) + 1, sizeof *to);
    if (!to)
        return error_no_memory(error, "a stage");
    for (size_t i = 0; i < chain->copy_count; i++)
        *to++ = shared_as(chain, &chain->copies[i], (uint32_t)(chain->copies[i].layer - layers));
    for (uint32_t l = chain->first; l < chain->end; l++)
        if (is_copied_elsewhere(chain, profile, l))
            *to++ = shared_as(chain, &chain->links[l - chain->first].home, l);
    chain->stage.shared = chain->shared;
    chain->stage.shared_count = (size_t)(to - chain->shared);
    qsort(chain->shared, chain->stage.shared_count, sizeof chain->shared[0], by_key);
    return true;
}

// The undecayed parameters of a layer or a copy, as elements of the stage's weights.
static struct exempt *add_exempt(const struct chain *chain, const struct home *home, struct exempt *to)
{
    for (size_t r = 0; r < home->layer->undecayed_count; r++) {
        const struct weir_range range = home->layer->undecayed[r];
        *to++ = (struct exempt){ (home->parameters + range.first) / chain->number_bytes,
                                 (home->parameters + range.end) / chain->number_bytes };
    }
    return to;
}

bool chain_collect_exempt(struct chain *chain, struct error *error)
{
    size_t count = 0;
    for (size_t i = 0; i < home_count(chain); i++)
        count += chain->homes[i]->layer->undecayed_count;
    struct exempt *to = chain->exempt = calloc(count + 1, sizeof *to);
    if (!to)
        return error_no_memory(error, "a stage");
    for (size_t i = 0; i < home_count(chain); i++)
        to = add_exempt(chain, chain->homes[i], to);
    chain->stage.exempt = chain->exempt;
    chain->stage.exempt_count = count;
    return true;
}

static struct stage_part part_of(const struct chain *chain, const struct home *home, const struct weir_layer *layers)
{
    const uint64_t first = home->parameters / chain->number_bytes;
    const struct layer_table table = layer_table_of(home->layer);
    return (struct stage_part){ .layer = (uint32_t)(home->layer - layers), .first = first,
                                .rows = table.rows, .columns = table.columns, .room = home->room,
                                .sent_room = home->sent_room,
                                .list = home->room > 0 ? home->gradients / sizeof(float) : 0,
                                .summed = home->room > 0 ? home->layer->summed_rows : 0,
                                .end = first + round_to_256(home->layer->parameter_bytes) / chain->number_bytes,
                                .numbers = home->layer->parameter_bytes / chain->number_bytes,
                                .is_frozen = home->layer->is_frozen, .rate_factor = home->layer->rate_factor,
                                .tensors = home->layer->tensors,
                                .tensor_count = home->layer->tensors ? home->layer->tensor_count : 0 };
}

bool chain_collect_parts(struct chain *chain, const struct weir_layer *layers, const struct profile *profile,
                         const struct storage *storage, struct error *error)
{
    struct stage_part *to = chain->parts = calloc(chain->copy_count + chain_length(chain) + 1, sizeof *to);
    if (!to)
        return error_no_memory(error, "a stage");
    uint64_t undo = chain->stage.version_bytes;
    for (size_t i = 0; i < home_count(chain); i++) {
        const struct home *home = chain->homes[i];
        *to = part_of(chain, home, layers);
        to->undo = undo;
        undo += home->room > 0 ? stage_part_undo_bytes(to) : 0;
        to++->is_copy = home >= chain->copies && home < chain->copies + chain->copy_count;
    }
    uint64_t state = 0;
    for (struct stage_part *part = chain->parts; part < to; part++) {
        part->state = state;
        part->state_end = state += storage_state_bytes(storage, profile, part->layer);
    }
    assert(!storage_is_plain(storage) || state == chain->stage.bytes.optimizer);
    chain->stage.parts = chain->parts;
    chain->stage.part_count = (size_t)(to - chain->parts);
    return true;
}

bool chain_find_parameters(const struct chain *chain, const struct weir_layer *layer, uint64_t *offset)
{
    const struct home *home = NULL;
    for (size_t i = 0; i < chain_length(chain) && !home; i++)
        home = chain->links[i].layer == layer ? &chain->links[i].home : NULL;
    for (size_t i = 0; i < chain->copy_count && !home; i++)
        home = chain->copies[i].layer == layer ? &chain->copies[i] : NULL;
    *offset = home ? home->parameters : 0;
    return home != NULL;
}
