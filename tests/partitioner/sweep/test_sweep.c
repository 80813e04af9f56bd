#include "partitioner/plan_search.h"
#include "partitioner/sweep/sweep.h"

#include "schedules/generators/generate.h"
#include "tests/document.h"
#include "tests/partitioner/small.h"

// --- the judgement ------------------------------------------------------------------------

// Few times and sizes, so that there are ties of every kind.
static struct sweep random_rows(uint64_t *seed, struct sweep_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct sweep_row){ .schedule = "1f1b", .ranks = 4, .chunks = 1,
                                      .micro_batches = 4 + 4 * (uint32_t)random_below(seed, 3),
                                      .class = (enum sweep_class)random_below(seed, 2),
                                      .found = { .outcome = (enum sweep_outcome)(random_below(seed, 4) ? 0 : 1),
                                                 .lacks_bytes = 256 } };
        if (rows[i].found.outcome == SWEEP_PLANNED) {
            rows[i].found.iteration_ns = rows[i].micro_batches * (1 + random_below(seed, 5)) + random_below(seed, 2);
            rows[i].found.peak_bytes = 1 + random_below(seed, 6);
        }
    }
    return (struct sweep){ .rows = rows, .count = count };
}

static double time_of(const struct sweep_row *row)
{
    return (double)row->found.iteration_ns / row->micro_batches;
}

// The definitions, one row after the other.
static void rows_are_judged_by_time_per_micro_batch_and_bytes(void **state)
{
    (void)state;
    uint64_t seed = 51;
    for (uint64_t trial = 0; trial < test_trials(500, 5000); trial++) {
        enum { MOST = 20 };
        struct sweep_row rows[MOST];
        const size_t count = 1 + random_below(&seed, MOST);
        struct sweep sweep = random_rows(&seed, rows, count);
        sweep_judge(&sweep);
        for (size_t i = 0; i < count; i++) {
            bool front = rows[i].found.outcome == SWEEP_PLANNED, best = front, best_of_m = front;
            for (size_t k = 0; k < count; k++) {
                const struct sweep_row *a = &rows[k], *b = &rows[i];
                if (k == i || a->found.outcome != SWEEP_PLANNED || b->found.outcome != SWEEP_PLANNED
                    || a->class != b->class)
                    continue;
                const double sooner = time_of(b) - time_of(a);
                const bool same_bytes = a->found.peak_bytes == b->found.peak_bytes;
                const bool wins =
                    sooner > 0 || (sooner == 0 && (a->found.peak_bytes < b->found.peak_bytes || (same_bytes && k < i)));
                best &= !wins;
                best_of_m &= !(wins && a->micro_batches == b->micro_batches);
                front &= !(wins && a->found.peak_bytes <= b->found.peak_bytes);
            }
            if (rows[i].is_on_front != front || rows[i].is_best != best || rows[i].is_best_of_m != best_of_m)
                fail_msg("trial %d: row %d of %d: front %d, best %d, best of m %d, but it should be %d, %d, %d", (int)trial,
                         (int)i, (int)count, rows[i].is_on_front, rows[i].is_best, rows[i].is_best_of_m, front, best,
                         best_of_m);
            assert_true(rows[i].reason[0] != '\0');
        }
    }
}

static void a_reason_names_what_is_better_and_by_how_much(void **state)
{
    (void)state;
    struct sweep_row rows[] = {
        { .schedule = "gpipe", .ranks = 4, .chunks = 1, .micro_batches = 8,
          .found = { .iteration_ns = 1000, .peak_bytes = 4096, .bubble = 0.25 } },
        { .schedule = "zb-v", .ranks = 4, .chunks = 2, .micro_batches = 8,
          .found = { .iteration_ns = 750, .peak_bytes = 2048 } },
        { .schedule = "1f1b", .ranks = 4, .chunks = 1, .micro_batches = 16,
          .found = { .iteration_ns = 1650, .peak_bytes = 1024 } },
        { .schedule = "zb-h1", .ranks = 2, .chunks = 1, .micro_batches = 8,
          .found = { .iteration_ns = 750, .peak_bytes = 2048, .bubble = 0.125 } },
        { .schedule = "dualpipe", .ranks = 4, .chunks = 1, .micro_batches = 8,
          .found = { .outcome = SWEEP_DOES_NOT_FIT, .rank = 3, .lacks_bytes = 3072 } },
    };
    struct sweep sweep = { .rows = rows, .count = sizeof rows / sizeof rows[0] };
    sweep_judge(&sweep);
    assert_string_equal(rows[0].reason, "bubble 25.0 %; zb-v, v 2: 25.0 % less time in 2.00 KiB less");
    assert_string_equal(rows[1].reason, "the least time per micro-batch");
    assert_string_equal(rows[2].reason, "10.0 % slower than zb-v, v 2, m 8, in 1.00 KiB less");
    assert_string_equal(rows[3].reason, "bubble 12.5 %; zb-v, v 2, p 4: as quick in the same memory");
    assert_string_equal(rows[4].reason, "does not fit: rank 3 lacks 3.00 KiB");
    assert_ptr_equal(sweep_best(&sweep), &rows[1]);
}

// --- sweeps ---------------------------------------------------------------------------------

struct given {
    struct profile *profile;
    struct cluster *cluster;
    struct sweep_request request;
};

static struct given make(uint32_t layers, uint64_t memory_bytes)
{
    struct error error = { 0 };
    uint64_t seed = 52;
    struct given given = { .profile = small_random_chain(&seed, layers, 1000) };
    given.profile->sequences = SEQUENCES_SOME;
    given.cluster = cluster_uniform(4, memory_bytes, 50, 1000000000000, &error);
    assert_good(given.cluster, error);
    given.request = (struct sweep_request){ .profile = given.profile, .cluster = given.cluster,
                                            .storage.optimizer = OPTIMIZER_SGD, .budget = 2000, .threads = 1 };
    return given;
}

static void clear(struct given *given)
{
    profile_free(given->profile);
    cluster_free(given->cluster);
}

static char *document_of(const struct sweep *sweep)
{
    struct error error = { 0 };
    struct text text = { 0 };
    sweep_write(sweep, &text);
    return text_take(&text, &error);
}

static void threads_change_nothing_but_the_time(void **state)
{
    (void)state;
    struct given given = make(10, 60 * 256);
    const uint32_t micro_batches[] = { 4, 8 };
    given.request.micro_batches = (struct sweep_list){ micro_batches, 2 };
    char *first = NULL;
    for (unsigned threads = 1; threads <= 4; threads++) {
        struct error error = { 0 };
        given.request.threads = threads;
        struct sweep *sweep = sweep_run(&given.request, &error);
        assert_good(sweep, error);
        char *document = document_of(sweep);
        if (first)
            assert_string_equal(document, first);
        else
            first = strdup(document);
        free(document);
        sweep_free(sweep);
    }
    free(first);
    clear(&given);
}

// Every row is what a search of its own says.
static void check_row(const struct given *given, const struct sweep_row *row)
{
    struct error error = { 0 };
    const struct search_request search = { .profile = given->profile, .cluster = given->cluster,
                                           .schedule = row->schedule, .ranks = row->ranks, .chunks = row->chunks,
                                           .micro_batches = row->micro_batches, .storage.optimizer = OPTIMIZER_SGD,
                                           .limits.budget = given->request.budget };
    struct plan *plan = plan_search(&search, &error);
    if ((plan != NULL) != (row->found.outcome == SWEEP_PLANNED))
        fail_msg("%s, m %u: %s", row->schedule, row->micro_batches, error.text);
    if (plan) {
        assert_int_equal(row->found.iteration_ns, plan->iteration_ns);
        assert_int_equal(row->found.lower_bound_ns, plan->certificate.lower_bound_ns);
        assert_true(row->found.peak_bytes <= given->cluster->devices[0].memory_bytes);
    } else if (row->found.outcome == SWEEP_DOES_NOT_FIT || row->found.outcome == SWEEP_NONE_FOUND) {
        assert_int_equal(error.kind, ERROR_ANSWER);
        assert_true(row->found.lacks_bytes > 0);
    } else {
        assert_string_equal(row->reason, error.text);
    }
    plan_free(plan);
}

static void every_schedule_that_trains_has_a_row_that_a_search_would_give(void **state)
{
    (void)state;
    struct given given = make(10, 60 * 256);
    const uint32_t micro_batches[] = { 3, 8 };
    given.request.micro_batches = (struct sweep_list){ micro_batches, 2 };
    struct error error = { 0 };
    struct sweep *sweep = sweep_run(&given.request, &error);
    assert_good(sweep, error);
    size_t counts[5] = { 0 }, searched = 0, at = 0;
    for (const struct generator *generator = generators; generator->name; generator++) {
        const size_t before = at;
        for (; at < sweep->count && strcmp(sweep->rows[at].schedule, generator->name) == 0; at++) {
            check_row(&given, &sweep->rows[at]);
            counts[sweep->rows[at].found.outcome]++;
        }
        assert_true((at > before) == (strcmp(generator->name, "forward-only") != 0));
    }
    for (; at < sweep->count; at++) {
        const struct sweep_row *row = &sweep->rows[at];
        assert_string_equal(row->schedule, "search");
        assert_true(row->found.outcome == SWEEP_PLANNED
                        ? row->found.peak_bytes <= 60 * 256 && row->found.iteration_ns > 0
                        : row->reason[0] && row->found.iteration_ns == 0);
        searched++;
    }
    assert_int_equal(searched, 4);  // one way and on a V
    print_message("# %d planned, %d do not fit, of %d none was found, %d refused\n", (int)counts[SWEEP_PLANNED],
                  (int)counts[SWEEP_DOES_NOT_FIT], (int)counts[SWEEP_NONE_FOUND], (int)counts[SWEEP_REFUSED]);
    assert_true(counts[SWEEP_PLANNED] > 5 && counts[SWEEP_DOES_NOT_FIT] > 2 && counts[SWEEP_NONE_FOUND] > 0
                && counts[SWEEP_REFUSED] > 2);
    sweep_free(sweep);
    clear(&given);
}

// Of a model whose profile does not say that it has sequences, nothing that cuts them is offered; asked for, it is refused.
static void sequences_are_cut_only_where_there_are_any(void **state)
{
    (void)state;
    static const enum profile_sequences said[] = { SEQUENCES_NONE, SEQUENCES_UNSAID, SEQUENCES_SOME };
    static const char *const seq1f1b[] = { "seq1f1b" };
    for (size_t i = 0; i < 3; i++) {
        struct error error = { 0 };
        struct given given = make(5, 1 << 30);
        const uint32_t micro_batches[] = { 4 };
        given.request.micro_batches = (struct sweep_list){ micro_batches, 1 };
        given.profile->sequences = said[i];
        for (size_t l = 0; l < 5; l++)
            given.profile->layers[l].shared_by_parts_bytes = 0;
        for (int is_named = 0; is_named < 2; is_named++) {
            given.request.schedules = is_named ? seq1f1b : NULL;
            given.request.schedule_count = (size_t)is_named;
            struct sweep *sweep = sweep_run(&given.request, &error);
            assert_good(sweep, error);
            const struct sweep_row *row = NULL;
            for (size_t r = 0; r < sweep->count; r++)
                row = strcmp(sweep->rows[r].schedule, "seq1f1b") == 0 ? &sweep->rows[r] : row;
            if (!is_named)
                assert_int_equal(row != NULL, said[i] == SEQUENCES_SOME);
            else if (said[i] == SEQUENCES_SOME)
                assert_int_equal(row->found.outcome, SWEEP_PLANNED);
            else
                assert_string_equal(row->reason, "seq1f1b passes each sequence through the stages in parts, and the profile"
                                                 " does not say that there are any (\"sequences\": true in it does)");
            sweep_free(sweep);
        }
        clear(&given);
    }
}

// In the memory there is, and with links that hardly count.
static void a_searched_order_is_no_slower_than_the_schedule_whose_cuts_it_has(void **state)
{
    (void)state;
    struct given given = make(10, 1 << 30);
    const char *const schedules[] = { "zb-h1", "zb-v", "search" };
    const uint32_t micro_batches[] = { 6, 8 }, chunks[] = { 1, 2, 3 };
    given.request.schedules = schedules;
    given.request.schedule_count = 3;
    given.request.micro_batches = (struct sweep_list){ micro_batches, 2 };
    given.request.chunks = (struct sweep_list){ chunks, 3 };
    struct error error = { 0 };
    struct sweep *sweep = sweep_run(&given.request, &error);
    assert_good(sweep, error);
    assert_int_equal(sweep->count, 18);
    const struct sweep_row *rows = sweep->rows;
    for (size_t i = 0; i < 2; i++) {  // rows of a schedule: v 1, v 2, v 3
        const struct sweep_row *one_way = &rows[i], *on_a_v = &rows[6 + 2 + i];
        assert_int_equal(one_way->found.outcome, SWEEP_PLANNED);
        assert_int_equal(on_a_v->found.outcome, SWEEP_PLANNED);
        assert_int_equal(rows[12 + i].found.outcome, SWEEP_PLANNED);
        assert_true(rows[12 + i].found.iteration_ns <= one_way->found.iteration_ns);
        assert_true(rows[14 + i].found.iteration_ns <= on_a_v->found.iteration_ns);
        assert_int_equal(rows[16 + i].found.outcome, SWEEP_REFUSED);
        assert_string_equal(rows[16 + i].reason, "an order is searched for 1 or 2 stages per rank, not 3");
        for (size_t v = 0; v < 2; v++) {  // plans of the orders themselves, which can be run
            const struct sweep_row *found = &rows[12 + 2 * v + i];
            assert_true(found->plan && found->plan->given && !found->only_simulated);
            assert_int_equal(found->plan->iteration_ns, found->found.iteration_ns);
        }
    }
    assert_non_null(sweep_best_plan(sweep)->plan);
    sweep_free(sweep);
    clear(&given);
}

static void tied_layers_are_apart_in_rows_that_flush(void **state)
{
    (void)state;
    struct given given = make(10, 1 << 30);
    const char *const schedules[] = { "1f1b", "pipedream" };
    const uint32_t micro_batches[] = { 4 };
    given.request.schedules = schedules;
    given.request.schedule_count = 2;
    given.request.micro_batches = (struct sweep_list){ micro_batches, 1 };
    given.request.storage.tied_apart = true;
    given.profile->tied = malloc(sizeof given.profile->tied[0]);
    assert_non_null(given.profile->tied);
    given.profile->tied[0] = (struct edge){ 1, 2 };
    given.profile->tied_count = 1;
    struct error error = { 0 };
    struct sweep *sweep = sweep_run(&given.request, &error);
    assert_good(sweep, error);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sweep->rows[i].found.outcome, SWEEP_PLANNED);
        assert_int_equal(sweep->rows[i].plan->storage.tied_apart, i == 0);
    }
    sweep_free(sweep);
    clear(&given);
}

struct stop {
    volatile sig_atomic_t interrupted;
    size_t after, last, all;
};

static void stop_after(void *self, size_t done, size_t all)
{
    struct stop *stop = self;
    stop->last = done;
    stop->all = all;
    if (done == stop->after)
        stop->interrupted = 1;
}

static void what_was_planned_before_an_interrupt_is_kept(void **state)
{
    (void)state;
    struct given given = make(10, 1 << 30);
    const char *const schedules[] = { "1f1b", "zb-h1", "gpipe" };
    struct stop stop = { .after = 2 };
    given.request.schedules = schedules;
    given.request.schedule_count = 3;
    given.request.interrupted = &stop.interrupted;
    given.request.progress = stop_after;
    given.request.self = &stop;
    struct error error = { 0 };
    struct sweep *sweep = sweep_run(&given.request, &error);
    assert_good(sweep, error);
    assert_int_equal(sweep->count, 12);  // m is 4, 8, 16 and 32
    assert_int_equal(stop.all, 12);
    assert_int_equal(stop.last, 2);
    for (size_t i = 0; i < sweep->count; i++) {
        assert_int_equal(sweep->rows[i].found.outcome, i < 2 ? SWEEP_PLANNED : SWEEP_NOT_TRIED);
        assert_int_equal(sweep->rows[i].micro_batches, 4u << i % 4);
    }
    assert_string_equal(sweep->rows[2].reason, "not tried: interrupted");
    assert_string_equal(sweep->stopped, "interrupted");
    sweep_free(sweep);
    clear(&given);
}

static void an_unknown_schedule_ends_a_sweep_before_it_begins(void **state)
{
    (void)state;
    struct given given = make(10, 1 << 30);
    const char *const schedules[] = { "1f1b", "zigzag" };
    given.request.schedules = schedules;
    given.request.schedule_count = 2;
    struct error error = { 0 };
    assert_null(sweep_run(&given.request, &error));
    assert_non_null(strstr(error.text, "there is no schedule named \"zigzag\" (there are gpipe, 1f1b, "));
    clear(&given);
}

// --- the document -----------------------------------------------------------------------------

static void the_page_shows_what_is_written(void **state)
{
    (void)state;
    struct sweep_row row = { .schedule = "1f1b", .reason = "the least time per micro-batch" };
    struct cluster *cluster = cluster_uniform(2, 1 << 20, 10, 1000, &(struct error){ 0 });
    struct sweep sweep = { .model = "m", .cluster = cluster, .rows = &row, .count = 1 };
    char *plain = document_of(&sweep);
    assert_shown_as_written("docs/formats/sweep.md", plain);
    row.only_simulated = true;
    char *simulated = document_of(&sweep);
    assert_null(strstr(plain, "\"only_simulated\""));
    assert_non_null(strstr(simulated, "\"only_simulated\": true"));
    free(simulated);
    free(plain);
    cluster_free(cluster);
}

// A line per row, reasons in quotes; the table names what a plan asks of its layers.
static void what_is_suggested_can_be_run(void **state)
{
    (void)state;
    struct sweep_row rows[] = {
        { .schedule = SWEEP_ORDER_NAME, .ranks = 4, .chunks = 1, .micro_batches = 8, .only_simulated = true,
          .found = { .iteration_ns = 600, .peak_bytes = 2048, .micro_batch_ns = 75 } },
        { .schedule = "zb-v", .ranks = 4, .chunks = 2, .micro_batches = 8,
          .found = { .iteration_ns = 800, .peak_bytes = 2048, .micro_batch_ns = 100 } },
        { .schedule = "zb-h1", .ranks = 4, .chunks = 1, .micro_batches = 8,
          .found = { .iteration_ns = 800, .peak_bytes = 1024, .micro_batch_ns = 100 } },
        { .schedule = "pipedream", .class = SWEEP_ASYNCHRONOUS, .ranks = 4, .chunks = 1, .micro_batches = 8,
          .found = { .iteration_ns = 500, .peak_bytes = 1024, .micro_batch_ns = 63 } },
    };
    struct cluster cluster = { .device_count = 4 };
    struct sweep sweep = { .model = "m", .cluster = &cluster, .rows = rows, .count = sizeof rows / sizeof rows[0] };
    struct text table = { 0 };
    sweep_judge(&sweep);
    assert_ptr_equal(sweep_best(&sweep), &rows[0]);
    assert_ptr_equal(sweep_best_run(&sweep), &rows[2]);
    sweep_print(&sweep, &table);
    assert_non_null(strstr(table.data, "\n*mx " SWEEP_ORDER_NAME " "));
    assert_non_null(strstr(table.data, "\nx simulated, but not run: no plan was found for the order that was searched"
                                       " for.\n"
                                       "Best: schedule zb-h1, 4 ranks, 1 chunk, 8 micro-batches, 100 ns per micro-batch"
                                       " in 1.00 KiB.\n"
                                       "Quicker, but only simulated: an order searched for the cuts of zb-h1 and"
                                       " 8 micro-batches, 75 ns per micro-batch in 2.00 KiB.\n"));
    text_clear(&table);
    sweep.rows[2].found.outcome = sweep.rows[1].found.outcome = SWEEP_DOES_NOT_FIT;
    assert_null(sweep_best_run(&sweep));
}

static void rows_are_printed_for_people_and_programs(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct given given = make(10, 1 << 30);
    const char *const schedules[] = { "seq1f1b", "dualpipe" };
    const uint32_t micro_batches[] = { 4 };
    given.request.schedules = schedules;
    given.request.schedule_count = 2;
    given.request.micro_batches = (struct sweep_list){ micro_batches, 1 };
    struct sweep *sweep = sweep_run(&given.request, &error);
    assert_good(sweep, error);
    struct text table = { 0 }, lines = { 0 };
    sweep_print(sweep, &table);
    sweep_write_csv(sweep, &lines);
    assert_non_null(strstr(table.data, "of 2 requests 1 fit, 0 do not fit, 1 cannot be\n"));
    assert_null(strstr(table.data, "simulated, but not run"));
    assert_non_null(strstr(table.data, "Best: schedule seq1f1b, 4 ranks, 1 chunk, 4 micro-batches, "));
    assert_non_null(strstr(lines.data, "\nseq1f1b,flush,flushing,4,1,4,planned,"));
    assert_non_null(strstr(lines.data, "\ndualpipe,flush,flushing,4,1,4,refused,0,0,0,0,0,0,0.000000,0,0,0,0,0,\"dualpipe needs"
                                       " an even number of micro-batches, at least two for each rank: 8, not 4\"\n"));
    text_clear(&table);
    text_clear(&lines);
    sweep_free(sweep);
    clear(&given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_judged_by_time_per_micro_batch_and_bytes),
        cmocka_unit_test(a_reason_names_what_is_better_and_by_how_much),
        cmocka_unit_test(threads_change_nothing_but_the_time),
        cmocka_unit_test(every_schedule_that_trains_has_a_row_that_a_search_would_give),
        cmocka_unit_test(sequences_are_cut_only_where_there_are_any),
        cmocka_unit_test(a_searched_order_is_no_slower_than_the_schedule_whose_cuts_it_has),
        cmocka_unit_test(tied_layers_are_apart_in_rows_that_flush),
        cmocka_unit_test(what_was_planned_before_an_interrupt_is_kept),
        cmocka_unit_test(an_unknown_schedule_ends_a_sweep_before_it_begins),
        cmocka_unit_test(what_is_suggested_can_be_run),
        cmocka_unit_test(rows_are_printed_for_people_and_programs),
        cmocka_unit_test(the_page_shows_what_is_written),
    };
    return cmocka_run_group_tests_name("sweep", tests, NULL, NULL);
}
