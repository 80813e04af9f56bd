#include "trainer/data/click_reads.h"

#include <stdlib.h>
#include <string.h>

#include "common/arrays.h"
#include "common/ascending.h"
#include "common/number.h"
#include "models/layer.h"

// Different ids, sorted. Those of two runs of batches become those of both together:
//
//     batch        0   1   2   3   4   5
//     runs of 1    .   .   .   .   .   .     six
//     runs of 2    '---'   '---'   '---'     three
//     runs of 4    '-----------'             one
struct id_set {
    uint32_t *ids;
    uint64_t count;
};

struct counts {
    uint64_t *reads, *unique;  // of each batch
    struct id_set left[CLICK_RUNS];  // of each length of runs, the last one that waits for a second; or empty
    uint64_t sums[CLICK_RUNS], runs[CLICK_RUNS];
};

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

// Leaves the different ones.
static uint64_t different(uint32_t *ids, uint64_t count)
{
    uint64_t unique = 0;
    qsort(ids, count, sizeof *ids, ascending_u32s);
    for (uint64_t i = 0; i < count; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            ids[unique++] = ids[i];
    return unique;
}

static bool copy_set(const uint32_t *ids, uint64_t count, struct id_set *to)
{
    to->ids = malloc(count * sizeof *ids + 1);
    to->count = count;
    if (to->ids && count > 0)
        memcpy(to->ids, ids, count * sizeof *ids);
    return to->ids != NULL;
}

// Both are freed.
static bool merge(struct id_set *a, struct id_set *b, struct id_set *to)
{
    uint64_t i = 0, k = 0;
    *to = (struct id_set){ .ids = malloc((a->count + b->count) * sizeof *to->ids + 1) };
    while (to->ids && (i < a->count || k < b->count)) {
        const bool is_a = k == b->count || (i < a->count && a->ids[i] <= b->ids[k]);
        const uint32_t id = is_a ? a->ids[i] : b->ids[k];
        i += i < a->count && a->ids[i] == id;
        k += k < b->count && b->ids[k] == id;
        to->ids[to->count++] = id;
    }
    free(a->ids);
    free(b->ids);
    *a = *b = (struct id_set){ 0 };
    return to->ids != NULL;
}

// Notes the different ids of a batch, and of the runs that it ends.
static bool note_runs(struct counts *counts, const uint32_t *ids, uint64_t count)
{
    struct id_set set, both;
    size_t length = 0;
    bool good = copy_set(ids, count, &set);
    for (; good && length < CLICK_RUNS; length++) {
        counts->sums[length] += set.count;
        counts->runs[length]++;
        if (!counts->left[length].ids)
            break;
        good = merge(&counts->left[length], &set, &both);
        set = both;
    }
    if (good && length < CLICK_RUNS)
        counts->left[length] = set;
    else
        free(set.ids);
    return good;
}

static void forget_runs(struct counts *counts)
{
    for (size_t length = 0; length < CLICK_RUNS; length++) {
        free(counts->left[length].ids);
        counts->left[length] = (struct id_set){ 0 };
        counts->sums[length] = counts->runs[length] = 0;
    }
}

// The least count that at least 95 % of the batches do not exceed.
static uint64_t p95(uint64_t *counts, uint64_t batches)
{
    qsort(counts, batches, sizeof *counts, ascending_u64s);
    return counts[(batches * 95 + 99) / 100 - 1];
}

static uint64_t milli(uint64_t reads, uint64_t samples)
{
    return (uint64_t)((double)reads / (double)samples * 1000 + 0.5);
}

static struct click_reads reads_of(const struct counts *counts, uint64_t batch, uint64_t batches)
{
    uint64_t reads = 0;
    for (uint64_t b = 0; b < batches; b++)
        reads += counts->reads[b];
    const uint64_t reads_p95 = p95(counts->reads, batches), unique_p95 = p95(counts->unique, batches);
    struct click_reads found = {
        .reads_milli = milli(reads, batch * batches),
        .reads_p95_milli = milli(reads_p95, batch),
        .unique_p95 = unique_p95,
        .unique_most = counts->unique[batches - 1],
    };
    uint64_t before = 0;
    for (size_t length = 0; length < CLICK_RUNS && counts->runs[length] > 0; length++) {
        const uint64_t mean = (counts->sums[length] + counts->runs[length] - 1) / counts->runs[length];
        before = found.unique[length] = max_u64(mean, before);
    }
    return found;
}

static void hash_to_rows(uint32_t *ids, uint64_t count, uint32_t rows)
{
    for (uint64_t i = 0; i < count; i++)
        ids[i] = layer_table_row(rows, ids[i]);
}

bool click_reads_count(const struct sample_data *data, const struct click_batches *batches, const uint32_t *rows,
                       struct click_reads *slots, struct error *error)
{
    const uint64_t batch = batches->samples;
    uint64_t most = 1;
    for (size_t s = 0; s < click_data_slots(data); s++)
        most = click_data_most(data, s) > most ? click_data_most(data, s) : most;
    struct arrays arrays = { 0 };
    struct counts counts = { .reads = arrays_add(&arrays, batches->count, sizeof *counts.reads),
                             .unique = arrays_add(&arrays, batches->count, sizeof *counts.unique) };
    uint32_t *ids = most <= SIZE_MAX / batch ? arrays_add(&arrays, batch * most, sizeof *ids) : NULL;
    bool good = ids && !arrays.failed;
    for (size_t s = 0; good && s < click_data_slots(data); s++) {
        for (uint64_t b = 0; good && b < batches->count; b++) {
            counts.reads[b] = ids_of(data, s, batches->seed, b * batch, batch, ids);
            if (rows)
                hash_to_rows(ids, counts.reads[b], rows[s]);
            counts.unique[b] = different(ids, counts.reads[b]);
            good = note_runs(&counts, ids, counts.unique[b]);
        }
        slots[s] = reads_of(&counts, batch, batches->count);
        forget_runs(&counts);
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
        json_put_u64(&writer, "unique", slots[s].unique[0]);
        json_put_u64(&writer, "unique_p95", slots[s].unique_p95);
        json_put_u64(&writer, "unique_most", slots[s].unique_most);
        json_close(&writer);
    }
    json_close(&writer);
    json_close(&writer);
}
