#include "trainer/model_reads.h"

#include <string.h>

#include "trainer/data/click_reads.h"

static bool has_tables(const struct layer *layer)
{
    return layer_data(layer) == DATA_IDS;
}

static size_t count_tables(const struct model *model)
{
    size_t count = 0;
    for (size_t l = 0; l < model->layer_count; l++)
        count += has_tables(&model->layers[l]) ? model->layers[l].shape.tables.slots : 0;
    return count;
}

bool model_reads_fit(const struct sample_data *data, const struct model *model, struct error *error)
{
    if (count_tables(model) == 0)
        return error_set(error, "model %s has no tables, whose reads would be counted", model->name);
    return sample_data_fits(data, model, error);
}

static bool put_table(const struct sample_data *data, const struct layer *layer, size_t slot,
                      const struct click_reads *reads, struct table_reads *to)
{
    *to = (struct table_reads){ .layer = strdup(layer->name), .name = strdup(click_data_slot_name(data, slot)),
                                .rows = layer->shape.tables.rows[slot], .columns = layer->shape.tables.columns,
                                .reads_milli = reads->reads_milli, .reads_p95_milli = reads->reads_p95_milli,
                                .unique_p95 = reads->unique_p95 };
    _Static_assert(sizeof to->unique == sizeof reads->unique, "runs of both are as many");
    memcpy(to->unique, reads->unique, sizeof to->unique);
    return to->layer && to->name;
}

// Tables of a slot in several layers may have other rows, to which its ids are hashed.
static bool put_layer(const struct sample_data *data, const struct layer *layer, const struct click_batches *batches,
                      struct table_reads *to, struct error *error)
{
    struct click_reads reads[LAYER_TABLES];
    bool good = click_reads_count(data, batches, layer->shape.tables.rows, reads, error);
    for (size_t slot = 0; good && slot < layer->shape.tables.slots; slot++)
        good = put_table(data, layer, slot, &reads[slot], &to[slot]) || error_no_memory(error, "the reads of tables");
    return good;
}

struct profile_reads *model_reads_count(const struct sample_data *data, const struct model *model, uint64_t seed,
                                        uint64_t batches, struct error *error)
{
    const struct click_batches first = { seed, model->sizes.micro_batch, batches };
    struct profile_reads *reads = reads_create(count_tables(model));
    bool good = reads || error_no_memory(error, "the reads of tables");
    size_t table = 0;
    if (good) {
        memcpy(reads->data, data->hash, sizeof reads->data);
        reads->seed = seed;
        reads->batches = batches;
    }
    for (size_t l = 0; good && l < model->layer_count; l++) {
        const struct layer *layer = &model->layers[l];
        if (!has_tables(layer))
            continue;
        good = put_layer(data, layer, &first, &reads->tables[table], error);
        table += layer->shape.tables.slots;
    }
    if (good)
        return reads;
    reads_free(reads);
    return NULL;
}
