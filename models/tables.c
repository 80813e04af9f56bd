// Tables of the vectors of ids, one for each slot:
//
//     output   [sample][slot][column]   the sum, or the mean, of the rows that the slot's ids name; 0 without ids
//
// All tables are one matrix, one behind the other. The first value of a row comes from the seed, the table and the row
// alone. The backward reads no rows. Tables do not decay, since rows that no id names are to stay as they are. Members
// that own rows and have all tables add up whole gradients, and a device alone whose tables are on the host has them.
// All others can have lists of rows.
//
// Members that own rows may have parts of the tables (table_places.h). They then look up vectors for each other. Tables
// that all of them have are in their lists throughout.
#include "common/random.h"
#include "models/table_places.h"

#define TEN(n) "table" #n "0", "table" #n "1", "table" #n "2", "table" #n "3", "table" #n "4", "table" #n "5", \
               "table" #n "6", "table" #n "7", "table" #n "8", "table" #n "9"
static const char *const names[] = {
    TEN(), TEN(1), TEN(2), TEN(3), TEN(4), TEN(5), TEN(6), TEN(7), TEN(8), TEN(9), TEN(10),
    TEN(11), TEN(12),
};
_Static_assert(sizeof names / sizeof names[0] >= LAYER_TABLES, "a name for each table");

static const float first_deviation = 0.01f;

size_t layer_row_columns(const struct layer *layer)
{
    return layer->shape.tables.places.are_given ? layer->shape.tables.places.unit : layer->shape.tables.columns;
}

static void tables_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const struct table_shape *tables = &layer->shape.tables;
    if (tables->places.are_given)
        placed_tensors(layer, names, tensors, count);
    for (size_t slot = 0; slot < tables->slots && !tables->places.are_given && tables->room == 0; slot++)
        tensor_add(tensors, count, (struct tensor){ .name = names[slot], .rows = tables->rows[slot],
                                                    .columns = tables->columns, .adjoins = slot > 0 });
    for (size_t i = 0; i < *count; i++) {
        tensors[i].start = START_NORMAL;
        tensors[i].deviation = first_deviation;
    }
    if (tables->room > 0)  // whose rows are written before they are read
        tensor_add(tensors, count, (struct tensor){ .name = "rows", .rows = tables->room, .adjoins = *count > 0,
                                                    .columns = layer_row_columns(layer) });
}

size_t layer_bags(const struct layer *layer)
{
    return layer->shape.tables.places.are_given ? placed_bags(layer)
                                                : layer->shape.batch * layer->shape.tables.slots;
}

size_t layer_most_ids(const struct layer *layer)
{
    return layer_bags(layer) * layer->shape.tables.most;
}

bool layer_weighs_ids(const struct layer *layer)
{
    const struct table_shape *tables = &layer->shape.tables;
    return tables->places.are_given ? tables->places.weighs : tables->has_weights;
}

uint32_t layer_table_row(uint32_t rows, uint32_t id)
{
    uint64_t seed = id;
    return id < rows ? id : (uint32_t)random_below(&seed, rows);
}

// What W needs of the pass: a copy of the ids.
struct kept {
    int32_t *rows, *ends;
    float *weights;
};

static struct kept kept_of(const struct layer *layer, struct walk *walk)
{
    struct kept kept = { .rows = walk_bytes(walk, layer_most_ids(layer) * sizeof(int32_t)) };
    kept.ends = walk_bytes(walk, layer_bags(layer) * sizeof(int32_t));
    kept.weights = layer_weighs_ids(layer) ? walk_floats(walk, layer_most_ids(layer)) : NULL;
    return kept;
}

// Members have parts of tables, and a layer behind them exchanges vectors; or the tables do so themselves.
static bool is_apart(const struct layer *layer)
{
    return layer->shape.tables.places.are_given && layer->shape.tables.has_exchange;
}

static bool exchanges(const struct layer *layer)
{
    return layer->shape.tables.places.are_given && !layer->shape.tables.has_exchange;
}

static size_t touched_rows(const struct layer *layer)
{
    const struct table_shape *tables = &layer->shape.tables;
    if (tables->places.are_given)
        return placed_touched_rows(layer);
    return !layer_owns_rows(layer) && tables->room == 0 ? layer->shape.batch * tables->most : 0;
}

static struct kind_sizes tables_sizes(const struct layer *layer)
{
    struct walk kept = { 0 };
    kept_of(layer, &kept);
    const bool hands_on_parts = is_apart(layer);
    struct kind_sizes sizes = {
        .output_bytes = layer_bytes(layer, hands_on_parts ? placed_numbers(layer) : layer_elements(layer)),
        .saved_bytes = kept.bytes,
        .input = INPUT_NEVER,
        .held_bytes = kept.bytes,
        .copied_bytes = kept.bytes,
        .touched_rows = touched_rows(layer),
    };
    if (layer->shape.tables.places.are_given) {
        sizes.row_columns = layer->shape.tables.places.unit;
        sizes.summed_rows = table_places_common(layer) / sizes.row_columns;
    }
    if (exchanges(layer)) {
        sizes.held_bytes += placed_held_bytes(layer);
        sizes.forward_workspace_bytes = placed_forward_bytes(layer);
        sizes.input_workspace_bytes = placed_input_bytes(layer);
    }
    return sizes;
}

static struct bags bags_in(const struct layer *layer, const struct kept *kept)
{
    const struct table_shape *tables = &layer->shape.tables;
    struct bags bags = { .ids = kept->rows, .ends = kept->ends, .weights = kept->weights, .count = layer_bags(layer),
                         .most = layer_most_ids(layer), .columns = tables->columns, .is_mean = tables->is_mean };
    for (size_t slot = 0; slot < tables->slots && !tables->places.are_given; slot++)
        bags.rows += tables->rows[slot];
    if (tables->room > 0)
        bags.rows = tables->room;
    return tables->places.are_given ? placed_bags_of(layer, bags) : bags;
}

static void tables_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct kept kept = kept_of(layer, &(struct walk){ pass->base.saved, 0 });
    const struct bags bags = bags_in(layer, &kept);
    queue_copy(pass->base.queue, kept.rows, pass->ids.rows, bags.most * sizeof(int32_t));
    queue_copy(pass->base.queue, kept.ends, pass->ids.ends, bags.count * sizeof(int32_t));
    if (kept.weights)
        queue_copy(pass->base.queue, kept.weights, pass->ids.weights, bags.most * sizeof(float));
    if (exchanges(layer))
        placed_forward(layer, pass, &bags);
    else
        kernel_bag(pass->base.queue, &bags, pass->base.output, pass->base.parameters);
}

static struct shard_part vectors_to_exchange(const struct layer *layer, const struct layer_pass *pass)
{
    return exchanges(layer) ? placed_vectors(layer, pass) : (struct shard_part){ 0 };
}

static void assemble(const struct layer *layer, const struct layer_pass *pass)
{
    if (exchanges(layer))
        placed_assemble(layer, pass);
}

// Behind what other members have sent, if there are any.
static void *held_ids(const struct layer *layer, const struct layer_pass *pass)
{
    return (char *)pass->base.held + (exchanges(layer) ? placed_held_bytes(layer) : 0);
}

static void hold_ids(const struct layer *layer, const struct layer_pass *pass)
{
    if (!pass->is_both)
        queue_copy(pass->base.queue, held_ids(layer, pass), pass->base.saved, tables_sizes(layer).saved_bytes);
    if (exchanges(layer))
        placed_spread_gradient(layer, pass);
}

static struct shard_part gradients_to_exchange(const struct layer *layer, const struct layer_pass *pass)
{
    return exchanges(layer) ? placed_gradients(layer, pass) : (struct shard_part){ 0 };
}

static void tables_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    void *ids = pass->is_both ? pass->base.saved : held_ids(layer, pass);
    const struct kept kept = kept_of(layer, &(struct walk){ ids, 0 });
    struct bags bags = bags_in(layer, &kept);
    float *gradients = pass->base.gradients;
    if (pass->base.gradient_rows > 0) {
        if (layer->shape.tables.places.are_given)  // all members have as many rows as the one with most
            bags.rows = layer_sizes(layer).parameter_bytes / sizeof(float) / bags.columns;
        const struct row_list list = row_list_in(gradients, pass->base.gradient_rows, bags.rows, bags.columns);
        kernel_list_rows(pass->base.queue, &list, &bags);
        bags.places = list.places;
        gradients = list.sums;
    }
    kernel_bag_backward(pass->base.queue, &bags, gradients,
                        exchanges(layer) ? pass->base.held : pass->base.output_gradient);
}

const struct layer_kind layer_tables = {
    .name = "tables",
    .data = DATA_IDS,
    .tensors = tables_tensors,
    .sizes = tables_sizes,
    .forward = { { tables_forward, vectors_to_exchange }, { assemble, NULL } },
    .backward_input = { { hold_ids, gradients_to_exchange } },
    .backward_weight = { { tables_backward_weight, NULL } },
};
