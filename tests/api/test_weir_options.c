#include "api/weir_options.h"

#include <stdio.h>
#include <string.h>

#include "tests/api/written_profile.h"
#include "tests/test.h"

// --- every struct of options -----------------------------------------------------------

// A reader of one struct of options, over bytes that a test lays out.
struct row {
    const char *name;
    size_t size, least;
    bool (*read)(const void *given, void *own, struct weir_error *error);
};

#define ROW(NAME, LAST)                                                             \
    static bool read_##NAME(const void *given, void *own, struct weir_error *error) \
    {                                                                               \
        return given_##NAME##_options(given, own, error);                           \
    }
WEIR_ALL_OPTIONS(ROW)
#undef ROW

#define ROW(NAME, LAST)                                               \
    { "weir_" #NAME "_options", sizeof(struct weir_##NAME##_options), \
      offsetof(struct weir_##NAME##_options, LAST) + sizeof ((struct weir_##NAME##_options *)0)->LAST, read_##NAME },
static const struct row rows[] = { WEIR_ALL_OPTIONS(ROW) };
#undef ROW

enum { ROWS = sizeof rows / sizeof rows[0], SPACE = 1024, MORE = 16 };

// A caller's struct of this many bytes, all of them set, and behind it zeroes.
static void lay_out(size_t size, unsigned char given[SPACE])
{
    assert_true(size + MORE <= SPACE);
    memset(given, 0, SPACE);
    memset(given, 0x5a, size);
    memcpy(given, &size, sizeof size);
}

static void set_size(size_t size, unsigned char given[SPACE])
{
    memcpy(given, &size, sizeof size);
}

static void no_options_are_all_zero(void **state)
{
    (void)state;
    static const unsigned char zeroes[SPACE];
    for (size_t i = 0; i < ROWS; i++) {
        struct weir_error error = { 0 };
        unsigned char own[SPACE];
        memset(own, 0xa5, sizeof own);
        assert_good(rows[i].read(NULL, own, &error), error);
        assert_memory_equal(own, zeroes, rows[i].size);
        assert_int_equal(own[rows[i].size], 0xa5);
    }
}

static void all_options_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct weir_error error = { 0 };
        unsigned char given[SPACE], own[SPACE] = { 0 };
        lay_out(rows[i].size, given);
        assert_good(rows[i].read(given, own, &error), error);
        assert_memory_equal(own, given, sizeof own);
    }
}

static void a_size_that_is_missing_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct weir_error error = { 0 };
        unsigned char given[SPACE], own[SPACE];
        char sentence[200];
        lay_out(rows[i].size, given);
        set_size(0, given);
        assert_false(rows[i].read(given, own, &error));
        snprintf(sentence, sizeof sentence, "%s.size is needed: sizeof(struct %s), as WEIR_OPTIONS() sets it",
                 rows[i].name, rows[i].name);
        assert_error(error, sentence);
        assert_int_equal(error.code, 2);
    }
}

static void fields_of_a_later_version_may_be_zero(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct weir_error error = { 0 };
        unsigned char given[SPACE], own[SPACE] = { 0 };
        lay_out(rows[i].size, given);
        set_size(rows[i].size + MORE, given);
        assert_good(rows[i].read(given, own, &error), error);
        assert_memory_equal(own + sizeof(size_t), given + sizeof(size_t), rows[i].size);
    }
}

static void fields_of_a_later_version_are_refused_if_they_are_set(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t at = rows[i].size; at < rows[i].size + MORE; at++) {
            struct weir_error error = { 0 };
            unsigned char given[SPACE], own[SPACE];
            char sentence[300];
            lay_out(rows[i].size, given);
            set_size(rows[i].size + MORE, given);
            given[at] = 1;
            assert_false(rows[i].read(given, own, &error));
            snprintf(sentence, sizeof sentence, "%s has a field that this Weir (%s) does not know, at byte %zu; leave"
                     " it out, or use a newer libweir", rows[i].name, weir_version(), at);
            assert_error(error, sentence);
            assert_int_equal(error.code, 2);
        }
}

static void a_size_that_no_struct_has_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        const size_t wrong[] = { 1, rows[i].least - sizeof(size_t), rows[i].least - 1, rows[i].size + 1, 1 << 20,
                                 SIZE_MAX };
        for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
            struct weir_error error = { 0 };
            unsigned char given[SPACE], own[SPACE];
            char sentence[300];
            lay_out(rows[i].size, given);
            set_size(wrong[w], given);
            assert_false(rows[i].read(given, own, &error));
            snprintf(sentence, sizeof sentence, "%s.size: %zu is not the size of such a struct, which has %zu bytes or"
                     " more: set it to sizeof(struct %s)", rows[i].name, wrong[w], rows[i].least, rows[i].name);
            assert_error(error, sentence);
            assert_int_equal(error.code, 2);
        }
    }
}

// --- a struct that has grown -----------------------------------------------------------

struct first_options {
    size_t size;
    const char *name;
};

struct grown_options {
    size_t size;
    const char *name;
    uint64_t added, added_later;
};

static void a_program_that_knows_fewer_fields_gets_the_defaults_of_the_rest(void **state)
{
    (void)state;
    static const struct options_kind kind = { "weir_grown_options", sizeof(struct grown_options),
                                              sizeof(struct first_options) };
    const struct grown_options given = { sizeof given, "it", 7, 8 };
    for (size_t size = sizeof(struct first_options); size <= sizeof given; size += sizeof(uint64_t)) {
        struct weir_error error = { 0 };
        struct grown_options older = given, own;
        older.size = size;
        assert_good(given_options(&older, &kind, &own, &error), error);
        assert_string_equal(own.name, "it");
        assert_int_equal(own.added, size > offsetof(struct grown_options, added) ? 7 : 0);
        assert_int_equal(own.added_later, size > offsetof(struct grown_options, added_later) ? 8 : 0);
    }
}

// --- functions that take options -------------------------------------------------------

static void functions_read_their_options_so(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(4);
    struct {
        struct weir_partition_options known;
        const char *unknown;
    } planning = { .known = { .cluster = small_cluster, .schedule = "1f1b", .micro_batches = 4 } };
    assert_null(weir_partition(profile, &planning.known, &error));
    assert_error(error, "weir_partition_options.size is needed: sizeof(struct weir_partition_options), as"
                        " WEIR_OPTIONS() sets it");
    error = (struct weir_error){ 0 };
    planning.known.size = sizeof planning;
    struct weir_plan *plan = weir_partition(profile, &planning.known, &error);
    assert_good(plan, error);
    planning.unknown = "a later field";
    assert_null(weir_partition(profile, &planning.known, &error));
    assert_int_equal(error.code, 2);
    assert_non_null(strstr(error.text, "weir_partition_options has a field that this Weir ("));
    error = (struct weir_error){ 0 };
    assert_null(weir_partition(profile, NULL, &error));
    assert_non_null(strstr(error.text, "weir_partition_options.cluster is needed"));
    weir_plan_free(plan);
    weir_profile_free(profile);
}

static void options_within_options_are_read_so_too(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct {
        struct weir_price_options known;
        const char *unknown;
    } price = { .known = { .costs = "1us,1us,1us,1us" } };
    struct weir_search_options options = { .size = sizeof options, .ranks = 2, .micro_batches = 2,
                                           .price = &price.known };
    assert_null(weir_search(&options, NULL, &error));
    assert_error(error, "weir_price_options.size is needed: sizeof(struct weir_price_options), as WEIR_OPTIONS() sets"
                        " it");
    error = (struct weir_error){ 0 };
    price.known.size = sizeof price;
    struct weir_schedule *found = weir_search(&options, NULL, &error);
    assert_good(found, error);
    price.unknown = "a later field";
    assert_null(weir_search(&options, NULL, &error));
    assert_int_equal(error.code, 2);
    assert_non_null(strstr(error.text, "weir_price_options has a field that this Weir ("));
    error = (struct weir_error){ 0 };
    options.price = NULL;
    assert_null(weir_search(&options, NULL, &error));
    assert_non_null(strstr(error.text, "weir_price_options.costs is needed"));
    weir_schedule_free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_options_are_all_zero),
        cmocka_unit_test(all_options_are_read),
        cmocka_unit_test(a_size_that_is_missing_is_refused),
        cmocka_unit_test(fields_of_a_later_version_may_be_zero),
        cmocka_unit_test(fields_of_a_later_version_are_refused_if_they_are_set),
        cmocka_unit_test(a_size_that_no_struct_has_is_refused),
        cmocka_unit_test(a_program_that_knows_fewer_fields_gets_the_defaults_of_the_rest),
        cmocka_unit_test(functions_read_their_options_so),
        cmocka_unit_test(options_within_options_are_read_so_too),
    };
    return cmocka_run_group_tests_name("weir_options", tests, NULL, NULL);
}
