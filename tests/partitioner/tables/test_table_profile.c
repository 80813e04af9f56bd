// The tables of a profile are those that its numbers say, copied by hand into a tables document.
#include "partitioner/tables/table_profile.h"

#include <stdio.h>
#include <string.h>

#include "common/number.h"
#include "profiler/table_reads.h"
#include "tests/test.h"

enum { MOST_LAYERS = 5 };

// A random profile: layer 0 and maybe layer 1 have tables, the others are dense.
struct drawn {
    struct profile *profile;
    size_t in_first, in_second;  // tables
};

static struct drawn draw(uint64_t *seed)
{
    static const char *const names[MOST_LAYERS] = { "tables", "wide", "linear", "relu", "loss" };
    static const char *const types[] = { "fp32", "bf16" };
    struct error error = { 0 };
    struct drawn drawn = { .in_first = 1 + random_below(seed, 3), .in_second = random_below(seed, 4) };
    struct profile *profile = drawn.profile =
        profile_create("made", types[random_below(seed, 2)], 1 + random_below(seed, 5000), MOST_LAYERS, &error);
    assert_good(profile, error);
    for (size_t l = 0; l < MOST_LAYERS; l++)
        profile->layers[l] = (struct profile_layer){
            .name = strdup(names[l]), .kind = strdup("made"), .forward_ns = 1 + random_below(seed, 1000000),
            .parameter_bytes = 256 * random_below(seed, 1000), .output_bytes = 256 * random_below(seed, 1000),
            .saved_bytes = 256 * random_below(seed, 1000), .workspace_bytes = 256 * random_below(seed, 1000),
            .backward_workspace_bytes = 256 * random_below(seed, 1000) };
    struct profile_reads *reads = profile->reads = reads_create(drawn.in_first + drawn.in_second);
    assert_non_null(reads);
    reads->batches = 1 + random_below(seed, 40);
    const uint64_t columns = 1 + random_below(seed, 64);
    for (size_t t = 0; t < reads->table_count; t++) {
        struct table_reads *table = &reads->tables[t];
        char name[8];
        snprintf(name, sizeof name, "s%zu", t);
        *table = (struct table_reads){ .layer = strdup(t < drawn.in_first ? "tables" : "wide"), .name = strdup(name),
                                       .rows = 1 + random_below(seed, 100000), .columns = columns,
                                       .reads_milli = random_below(seed, 5000) };
        table->reads_p95_milli = table->reads_milli + random_below(seed, 1000);
        uint64_t unique = 0;
        for (size_t run = 0; run < reads_run_count(reads->batches); run++)
            unique = table->unique[run] = unique + random_below(seed, table->rows - unique + 1);
    }
    return drawn;
}

// The twin, in doubles and by the formulas of docs/formats/tables.md.
static void check(const struct drawn *drawn, const struct table_profile_request *request, const struct table_set *set)
{
    const struct profile *profile = drawn->profile;
    const double number = strcmp(profile->dtype, "fp32") == 0 ? 4 : 2;
    const double states[] = { [TABLE_SGD] = 0, [TABLE_ADAGRAD] = 1, [TABLE_ADAGRAD_ROWS] = 1, [TABLE_ADAM_ROWS] = 2 };
    const bool has_first = !request->layer || strcmp(request->layer, "tables") == 0;
    const bool has_second = drawn->in_second > 0 && (!request->layer || strcmp(request->layer, "wide") == 0);
    double weights = 0, kept = 0, workspace = 0, bytes = 0, ns = 0;
    for (size_t l = 0; l < MOST_LAYERS; l++) {
        const struct profile_layer *layer = &profile->layers[l];
        const uint64_t larger = max_u64(layer->workspace_bytes, layer->backward_workspace_bytes);
        workspace = (double)larger > workspace ? (double)larger : workspace;
        if ((l == 0 && has_first) || (l == 1 && has_second)) {
            ns += (double)layer->forward_ns;
            continue;
        }
        weights += (double)layer->parameter_bytes * (1 + 4 / number * (1 + states[request->optimizer]));
        kept += (double)(layer->output_bytes + layer->saved_bytes);
    }
    const double dense = weights + (kept + workspace) / request->members;
    assert_true((double)set->dense_bytes >= dense - 0.5 && (double)set->dense_bytes < dense + 1);
    assert_true(set->batch == profile->micro_batch && set->micro_batches == request->micro_batches);
    assert_true((double)set->number_bytes == number && set->columns == profile->reads->tables[0].columns);
    size_t at = 0;
    for (size_t t = 0; t < profile->reads->table_count; t++) {
        const struct table_reads *from = &profile->reads->tables[t];
        if (t < drawn->in_first ? !has_first : !has_second)
            continue;
        const struct table *table = &set->tables[at++];
        char name[32];
        snprintf(name, sizeof name, "%s%ss%zu", has_first && has_second ? from->layer : "",
                 has_first && has_second ? "." : "", t);
        assert_string_equal(table->name, name);
        assert_true(table->rows == from->rows && table->reads_milli == from->reads_milli
                    && table->reads_p95_milli == from->reads_p95_milli);
        const uint64_t ids = (from->reads_milli * profile->micro_batch + 999) / 1000;
        assert_int_equal(table->unique, min_u64(reads_unique(from, request->micro_batches),
                                                ids * request->micro_batches));
        bytes += (double)ids * (double)from->columns * number;
    }
    assert_int_equal(set->table_count, at);
    const double rate = bytes / (ns * 1e-9), got = (double)set->rates[0].bytes_per_second;
    assert_true(set->rate_count == 1 && set->rates[0].fixed_ps == 0 && set->rates[0].row_ps == 0);
    assert_true(rate < 1e6 ? got == 1e6 : got > rate * (1 - 1e-9) - 1 && got < rate * (1 + 1e-9) + 1);
}

static void numbers_are_those_of_the_profile(void **state)
{
    (void)state;
    static const char *const layers[] = { NULL, "tables", "wide" };
    for (uint64_t trial = 0; trial < test_trials(300, 3000); trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        const struct drawn drawn = draw(&seed);
        const struct table_profile_request request = {
            .profile = drawn.profile, .layer = layers[random_below(&seed, drawn.in_second > 0 ? 3 : 2)],
            .micro_batches = 1 + random_below(&seed, drawn.profile->reads->batches),
            .optimizer = (enum table_optimizer)random_below(&seed, 4), .members = 1 + (uint32_t)random_below(&seed, 9),
        };
        struct table_set *set = table_set_of_profile(&request, &error);
        assert_good(set, error);
        check(&drawn, &request, set);
        table_set_free(set);
        profile_free(drawn.profile);
    }
}

static void what_cannot_be_placed_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *layer, *sentence;
        uint64_t micro_batches;
    } cases[] = {
        { NULL, "layer tables has tables of 4 columns, and layer wide of 1: name the layer whose tables are placed",
          1 },
        { "loss", "the profile has no reads of tables of a layer loss", 1 },
        { "tables", "an iteration of 3 micro-batches is longer than the 2 whose reads were counted: count as many in"
                    " the profile", 3 },
        { "wide", "the forward of the tables takes no time in the profile, so there is no rate of reads: measure it, or"
                  " state rates in a tables document", 1 },
    };
    uint64_t seed = 1;
    struct drawn drawn = draw(&seed);
    while (drawn.in_second == 0 || drawn.profile->reads->batches < 2) {
        profile_free(drawn.profile);
        drawn = draw(&seed);
    }
    struct profile_reads *reads = drawn.profile->reads;
    reads->batches = 2;
    for (size_t t = 0; t < reads->table_count; t++)
        reads->tables[t].columns = t < drawn.in_first ? 4 : 1;
    drawn.profile->layers[1].forward_ns = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = { 0 };
        const struct table_profile_request request = { .profile = drawn.profile, .layer = cases[i].layer,
                                                       .micro_batches = cases[i].micro_batches, .members = 2 };
        assert_null(table_set_of_profile(&request, &error));
        assert_error(error, cases[i].sentence);
    }
    struct error error = { 0 };
    drawn.profile->reads = NULL;
    const struct table_profile_request request = { .profile = drawn.profile, .micro_batches = 1, .members = 2 };
    assert_null(table_set_of_profile(&request, &error));
    assert_error(error, "the profile does not have what is read of tables: profile the model on data (weir"
                        " profile)");
    reads_free(reads);
    profile_free(drawn.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_profile),
        cmocka_unit_test(what_cannot_be_placed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
