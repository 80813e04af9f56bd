// Calls of the played libraries: which one is to fail, and how a fault is told.
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/weir_cuda/played/played.h"

void played_complain(const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dprintf(STDERR_FILENO, "played GPU: %s\n", text);
    _exit(PLAYED_FAULT);
}

enum { MOST_FUNCTIONS = 128 };

static struct {
    pthread_mutex_t lock;
    struct function {
        const char *name;
        uint64_t calls;
    } functions[MOST_FUNCTIONS];
    size_t count;
    char name[64];  // of what is to fail; "" nothing
    uint64_t good;
    bool is_asked;  // whether the environment was
} calls = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void set_failure(const char *function, size_t length, uint64_t good)
{
    snprintf(calls.name, sizeof calls.name, "%.*s", (int)length, function);
    calls.good = good;
}

static void ask_environment(void)
{
    const char *said = getenv("PLAYED_FAIL"), *colon = said ? strchr(said, ':') : NULL;
    calls.is_asked = true;
    if (said && !colon)
        played_complain("PLAYED_FAIL=%s is no FUNCTION:N", said);
    if (said)
        set_failure(said, (size_t)(colon - said), strtoull(colon + 1, NULL, 10) - 1);
}

void weir_played_fail(const char *function, uint64_t good)
{
    pthread_mutex_lock(&calls.lock);
    for (size_t i = 0; i < calls.count; i++)
        calls.functions[i].calls = 0;
    calls.is_asked = true;
    set_failure(function ? function : "", function ? strlen(function) : 0, good);
    pthread_mutex_unlock(&calls.lock);
}

static struct function *function_of(const char *name)
{
    size_t i = 0;
    while (i < calls.count && strcmp(calls.functions[i].name, name) != 0)
        i++;
    if (i == MOST_FUNCTIONS)
        played_complain("there is no room for one more function, %s", name);
    if (i == calls.count)
        calls.functions[calls.count++] = (struct function){ .name = name };
    return &calls.functions[i];
}

bool played_fails(const char *function)
{
    pthread_mutex_lock(&calls.lock);
    if (!calls.is_asked)
        ask_environment();
    const uint64_t before = function_of(function)->calls++;
    const bool fails = strcmp(calls.name, function) == 0 && before == calls.good;
    pthread_mutex_unlock(&calls.lock);
    return fails;
}

uint64_t weir_played_calls(const char *function)
{
    pthread_mutex_lock(&calls.lock);
    const uint64_t count = function_of(function)->calls;
    pthread_mutex_unlock(&calls.lock);
    return count;
}

const char *weir_played_function(size_t i)
{
    return i < calls.count ? calls.functions[i].name : NULL;
}
