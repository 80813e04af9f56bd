// Included by every test file: cmocka with the headers it needs, and the few helpers that cmocka 1.1.5 lacks.
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

// Makes a test from a row of a table; the row's `name` is the test's name.
#define TEST_ROW(function, row) { .name = (row)->name, .test_func = (function), .initial_state = (row) }

// Sanitizers detect a wrong access in the first trial that has one, and make each trial several times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_IS_SANITIZED 1
#else
#define TEST_IS_SANITIZED 0
#endif

// How many random trials to run: `normal`, a quarter of that with a sanitizer, or `soak` under `scons soak`.
static inline uint64_t test_trials(uint64_t normal, uint64_t soak)
{
    return getenv("WEIR_SOAK") ? soak : TEST_IS_SANITIZED ? (normal + 3) / 4 : normal;
}

// The same for a test that counts what its trials have met: `normal` of them with a sanitizer as well.
static inline uint64_t test_all_trials(uint64_t normal, uint64_t soak)
{
    return getenv("WEIR_SOAK") ? soak : normal;
}

// Prints the reason before it skips, so that it is above the skip in the output.
#define TEST_SKIP(reason)                     \
    do {                                      \
        print_message("# skip: %s\n", reason); \
        skip();                               \
    } while (0)

// Compares the whole sentence of a failed call's error.
#define assert_error(error, sentence) assert_string_equal((error).text, sentence)

// A call that must succeed; prints the error's sentence if it does not.
#define assert_good(call, error)             \
    do {                                     \
        if (!(call))                         \
            fail_msg("%s", (error).text);    \
    } while (0)

#endif
