// What every test file includes: cmocka with the headers it needs, and the few
// helpers that cmocka 1.1.5 lacks.
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/random.h"

// One row of a table as a test of its own; a row's `name` is the test's name.
#define TEST_ROW(function, row) { .name = (row)->name, .test_func = (function), .initial_state = (row) }

// How many random trials to run: `normal` of them, or `soak` under `scons soak`.
static inline uint64_t test_trials(uint64_t normal, uint64_t soak)
{
    return getenv("WEIR_SOAK") ? soak : normal;
}

// Says why before skipping: the reason is printed above the skip.
#define TEST_SKIP(reason)                     \
    do {                                      \
        print_message("# skip: %s\n", reason); \
        skip();                               \
    } while (0)

// A failed call's sentence, compared whole.
#define assert_error(error, sentence) assert_string_equal((error).text, sentence)

// A call that must succeed; prints the sentence when it does not.
#define assert_good(call, error)             \
    do {                                     \
        if (!(call))                         \
            fail_msg("%s", (error).text);    \
    } while (0)

#endif
