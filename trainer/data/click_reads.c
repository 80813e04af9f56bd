#include "trainer/data/click_reads.h"

#include <stdlib.h>

#include "common/arrays.h"

struct counts {
    uint64_t *reads, *unique;  // of each batch
};

static int compare_ids(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int compare_counts(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// Collects the ids of one slot in one batch. Returns how many they are.
static uint64_t ids_of(const struct sample_data *data, size_t slot, uint64_t seed, uint64_t first, uint64_t batch,
                       uint32_t *ids)
{
    uint64_t count = 0;
    for (uint64_t i = first; i < first + batch; i++) {
        struct click_sample sample;
        click_data_at(data, sample_data_place(data, seed, i), &sample);
        for (uint32_t k = slot > 0 ? sample.ends[slot - 1] : 0; k < sample.ends[slot]; k++)
            ids[count++] = sample.ids[k];
    }
    return count;
}

static uint64_t different(uint32_t *ids, uint64_t count)
{
    uint64_t unique = 0;
    qsort(ids, count, sizeof *ids, compare_ids);
    for (uint64_t i = 0; i < count; i++)
        unique += i == 0 || ids[i] != ids[i - 1];
    return unique;
}

// The least count that at least 95 % of the batches do not exceed.
static uint64_t p95(uint64_t *counts, uint64_t batches)
{
    qsort(counts, batches, sizeof *counts, compare_counts);
    return counts[(batches * 95 + 99) / 100 - 1];
}

static uint64_t milli(uint64_t reads, uint64_t samples)
{
    return (uint64_t)((double)reads / (double)samples * 1000 + 0.5);
}

static struct click_reads reads_of(const struct counts *counts, uint64_t batch, uint64_t batches)
{
    uint64_t reads = 0, unique = 0;
    for (uint64_t b = 0; b < batches; b++) {
        reads += counts->reads[b];
        unique += counts->unique[b];
    }
    const uint64_t reads_p95 = p95(counts->reads, batches), unique_p95 = p95(counts->unique, batches);
    return (struct click_reads){
        .reads_milli = milli(reads, batch * batches),
        .reads_p95_milli = milli(reads_p95, batch),
        .unique = (unique + batches - 1) / batches,
        .unique_p95 = unique_p95,
        .unique_most = counts->unique[batches - 1],
    };
}

bool click_reads_count(const struct sample_data *data, const struct click_batches *batches, struct click_reads *slots,
                       struct error *error)
{
    const uint64_t batch = batches->samples;
    uint64_t most = 1;
    for (size_t s = 0; s < click_data_slots(data); s++)
        most = click_data_most(data, s) > most ? click_data_most(data, s) : most;
    struct arrays arrays = { 0 };
    const struct counts counts = { arrays_add(&arrays, batches->count, sizeof *counts.reads),
                                   arrays_add(&arrays, batches->count, sizeof *counts.unique) };
    uint32_t *ids = most <= SIZE_MAX / batch ? arrays_add(&arrays, batch * most, sizeof *ids) : NULL;
    const bool good = ids && !arrays.failed;
    for (size_t s = 0; good && s < click_data_slots(data); s++) {
        for (uint64_t b = 0; b < batches->count; b++) {
            counts.reads[b] = ids_of(data, s, batches->seed, b * batch, batch, ids);
            counts.unique[b] = different(ids, counts.reads[b]);
        }
        slots[s] = reads_of(&counts, batch, batches->count);
    }
    arrays_clear(&arrays);
    return good || error_no_memory(error, "the ids of a batch");
}

void click_reads_put(const struct sample_data *data, const struct click_batches *batches,
                     const struct click_reads *slots, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.reads");
    json_put_string(&writer, "data", data->hash);
    json_put_u64(&writer, "seed", batches->seed);
    json_put_u64(&writer, "batch", batches->samples);
    json_put_u64(&writer, "batches", batches->count);
    json_begin_array(&writer, "slots", JSON_LINES);
    for (size_t s = 0; s < click_data_slots(data); s++) {
        json_begin_object(&writer, NULL, JSON_INLINE);
        json_put_string(&writer, "name", click_data_slot_name(data, s));
        json_put_u64(&writer, "ids", click_data_ids(data, s));
        json_put_u64(&writer, "reads_milli", slots[s].reads_milli);
        json_put_u64(&writer, "reads_p95_milli", slots[s].reads_p95_milli);
        json_put_u64(&writer, "unique", slots[s].unique);
        json_put_u64(&writer, "unique_p95", slots[s].unique_p95);
        json_put_u64(&writer, "unique_most", slots[s].unique_most);
        json_close(&writer);
    }
    json_close(&writer);
    json_close(&writer);
}
