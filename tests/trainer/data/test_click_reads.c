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

static struct click_reads twin(const struct random_clicks *clicks, const struct sample_data *data, size_t slot,
                               uint64_t seed, uint64_t batch, uint64_t batches)
{
    uint64_t reads[50] = { 0 }, unique[50] = { 0 }, all_reads = 0, all_unique = 0, most = 0;
    for (uint64_t b = 0; b < batches; b++) {
        bool met[IDS] = { false };
        for (uint64_t i = b * batch; i < (b + 1) * batch; i++) {
            const struct random_click click = random_click(clicks, sample_data_place(data, seed, i).sample);
            for (uint32_t k = slot > 0 ? click.ends[slot - 1] : 0; k < click.ends[slot]; k++) {
                reads[b]++;
                unique[b] += !met[click.ids[k]];
                met[click.ids[k]] = true;
            }
        }
        all_reads += reads[b];
        all_unique += unique[b];
        most = unique[b] > most ? unique[b] : most;
    }
    return (struct click_reads){ (2000 * all_reads + batch * batches) / (2 * batch * batches),
                                 (2000 * twin_p95(reads, batches) + batch) / (2 * batch),
                                 (all_unique + batches - 1) / batches, twin_p95(unique, batches), most };
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
        assert_good(click_reads_count(&data, &(struct click_batches){ trial, batch, batches }, reads, &error), error);
        for (size_t s = 0; s < clicks.slots; s++) {
            const struct click_reads expected = twin(&clicks, &data, s, trial, batch, batches);
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
    assert_good(click_reads_count(&data, &batches, reads, &error), error);
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
