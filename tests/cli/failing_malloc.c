// Preloaded: the allocations numbered from WEIR_FAIL_FROM on fail, WEIR_FAIL_COUNT of them. How many there were
// is written to the file WEIR_FAIL_SAYS names.
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_size_t allocations;
static size_t fails_from = (size_t)-1, fails_count;

__attribute__((constructor)) static void begin(void)
{
    const char *from = getenv("WEIR_FAIL_FROM"), *count = getenv("WEIR_FAIL_COUNT");
    allocations = 0;
    fails_count = count ? strtoull(count, NULL, 10) : 1;
    fails_from = from ? strtoull(from, NULL, 10) : (size_t)-1;
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("WEIR_FAIL_SAYS");
    const int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (file >= 0)
        dprintf(file, "%zu\n", (size_t)allocations);
}

static int may_have(void)
{
    const size_t number = atomic_fetch_add(&allocations, 1);
    return number < fails_from || number - fails_from >= fails_count;
}

#include "tests/failing_allocator.h"
