// Replaces the program's malloc by one whose calls with some numbers fail (failing_allocator.h).
#ifndef TESTS_FAILING_BETWEEN_H
#define TESTS_FAILING_BETWEEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/sanitizer.h"

static atomic_size_t allocations;              // so far
static atomic_size_t fails_from, fails_until;  // calls with these numbers fail, half open

#if !HAS_SANITIZER
static bool may_have(void)
{
    const size_t number = atomic_fetch_add(&allocations, 1);
    return number < fails_from || number >= fails_until;
}

#include "tests/failing_allocator.h"
#endif

static void fail_between(size_t from, size_t until)
{
    allocations = 0;
    fails_from = from;
    fails_until = until;
}

#endif
