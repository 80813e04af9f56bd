// What batches read is what counting without sorting says.
#include "trainer/data/click_reads.h"

#include "tests/document.h"
#include "tests/trainer/clicks.h"

enum { IDS = 23 };

// The least of the counts that at least 95 % of them do not exceed.
static uint64_t twin_p95(const uint64_t *counts, uint64_t batches)
{
    for (uint64_t least = 0;; least++) {
        uint64_t within = 0;
        for (uint64_t b = 0; b < batches; b++)
            within += counts[b] <= least;
        if (within * 100 >= batches * 95)
            return least;
    }
}

// Ids are their own rows below `rows`, and drawn by a generator that begins with them above.
static uint32_t twin_row(uint32_t rows, uint32_t id)
{
    uint64_t state = id;
    return rows == 0 || id < rows ? id : (uint32_t)random_below(&state, rows);
}

// Different rows of a run of batches, by a table of all rows.
static uint64_t twin_unique(const struct random_clicks *clicks, const struct sample_data *data, size_t slot,
                            uint32_t rows, const struct click_batches *run, uint64_t first, uint64_t *reads)
{
    bool met[IDS] = { false };
    uint64_t unique = 0;
    *reads = 0;
    for (uint64_t i = first * run->samples; i < (first + run->count) * run->samples; i++) {
        const struct random_click click = random_click(clicks, sample_data_place(data, run->seed, i).sample);
        for (uint32_t k = slot > 0 ? click.ends[slot - 1] : 0; k < click.ends[slot]; k++) {
            const uint32_t row = twin_row(rows, click.ids[k]);
            ++*reads;
            unique += !met[row];
            met[row] = true;
        }
    }
    return unique;
}

static struct click_reads twin(const struct random_clicks *clicks, const struct sample_data *data, size_t slot,
                               uint32_t rows, const struct click_batches *batches)
{
    const uint64_t batch = batches->samples, count = batches->count;
    uint64_t reads[50] = { 0 }, unique[50] = { 0 }, all_reads = 0, most = 0, some;
    struct click_reads found = { 0 };
    for (uint64_t b = 0; b < count; b++) {
        unique[b] = twin_unique(clicks, data, slot, rows, &(struct click_batches){ batches->seed, batch, 1 }, b,
                                &reads[b]);
        all_reads += reads[b];
        most = unique[b] > most ? unique[b] : most;
    }
    found.reads_milli = (2000 * all_reads + batch * count) / (2 * batch * count);
    found.reads_p95_milli = (2000 * twin_p95(reads, count) + batch) / (2 * batch);
    for (uint64_t length = 1, k = 0; length <= count; length *= 2, k++) {
        uint64_t sum = 0;
        for (uint64_t run = 0; run < count / length; run++)
            sum += twin_unique(clicks, data, slot, rows, &(struct click_batches){ batches->seed, batch, length },
                               run * length, &some);
        found.unique[k] = (sum + count / length - 1) / (count / length);
        if (k > 0 && found.unique[k] < found.unique[k - 1])
            found.unique[k] = found.unique[k - 1];
    }
    found.unique_p95 = twin_p95(unique, count);
    found.unique_most = most;
    return found;
}

// How many numbers of `unique` there are: one more than so many batches can be halved.
static size_t runs_of(uint64_t batches)
{
    size_t runs = 0;
    for (; runs < CLICK_RUNS && batches > 0; batches /= 2)
        runs++;
    return runs;
}

static void reads_are_counted(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(40, 400); trial++) {
        uint64_t seed = trial;
        const struct random_clicks clicks = { trial, 1 + random_below(&seed, 90), 2, 1 + random_below(&seed, 4), 1, IDS,
                                              (uint32_t)(1 + random_below(&seed, 4)) };
        const uint64_t batch = 1 + random_below(&seed, 40), batches = 1 + random_below(&seed, 50);
        struct sample_data data;
        struct click_reads reads[CLICKS_MOST_SLOTS];
        struct error error = { 0 };
        random_clicks_load(&clicks, &data);
        uint32_t rows[CLICKS_MOST_SLOTS];
        for (size_t s = 0; s < CLICKS_MOST_SLOTS; s++)
            rows[s] = trial % 3 == 0 ? 0 : (uint32_t)(1 + random_below(&seed, IDS));
        const struct click_batches all = { trial, batch, batches };
        assert_good(click_reads_count(&data, &all, trial % 3 == 0 ? NULL : rows, reads, &error), error);
        assert_int_equal(reads[0].unique[runs_of(batches)], 0);
        for (size_t s = 0; s < clicks.slots; s++) {
            const struct click_reads expected = twin(&clicks, &data, s, rows[s], &all);
            if (memcmp(&expected, &reads[s], sizeof expected) != 0)
                fail_msg("trial %llu: slot %zu is counted wrongly", (unsigned long long)trial, s);
        }
        sample_data_clear(&data);
    }
}

static void the_page_shows_the_document(void **state)
{
    (void)state;
    const struct random_clicks clicks = { 3, 20, 2, 2, 1, IDS, 2 };
    const struct click_batches batches = { 1, 8, 3 };
    struct sample_data data;
    struct click_reads reads[CLICKS_MOST_SLOTS];
    struct error error = { 0 };
    struct text text = { 0 };
    random_clicks_load(&clicks, &data);
    assert_good(click_reads_count(&data, &batches, NULL, reads, &error), error);
    click_reads_put(&data, &batches, reads, &text);
    assert_shown_as_written("docs/formats/reads.md", text.data);
    text_clear(&text);
    sample_data_clear(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_are_counted),
        cmocka_unit_test(the_page_shows_the_document),
    };
    return cmocka_run_group_tests(tests, clicks_make_folder, clicks_remove_folder);
}
