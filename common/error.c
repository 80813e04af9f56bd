#include "common/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

// A sentence that was cut must not end with a part of a character.
static void drop_half_character(char *text)
{
    size_t last = strlen(text);
    while (last > 0 && ((unsigned char)text[last - 1] & 0xc0) == 0x80)
        last--;
    if (last > 0 && utf8_length(text + last - 1, strlen(text + last - 1)) == 0)
        text[last - 1] = '\0';
}

static void set(struct error *error, enum error_kind kind, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

static void set(struct error *error, enum error_kind kind, const char *format, va_list arguments)
{
    assert(kind != ERROR_NONE);
    if (error->kind != ERROR_NONE)
        return;
    error->kind = kind;
    if (vsnprintf(error->text, sizeof error->text, format, arguments) >= (int)sizeof error->text)
        drop_half_character(error->text);
}

bool error_set(struct error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set(error, ERROR_INPUT, format, arguments);
    va_end(arguments);
    return false;
}

bool error_named(struct error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (error->kind == ERROR_NONE)
        error->names_place = true;
    set(error, ERROR_INPUT, format, arguments);
    va_end(arguments);
    return false;
}

bool error_set_kind(struct error *error, enum error_kind kind, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set(error, kind, format, arguments);
    va_end(arguments);
    return false;
}

bool error_hand_on(struct error *error, const struct error *why)
{
    if (error->kind == ERROR_NONE)
        *error = *why;
    return false;
}

bool error_no_memory(struct error *error, const char *what)
{
    if (error->kind == ERROR_NONE)
        error->lacks_memory = true;
    return error_set_kind(error, ERROR_MACHINE, "no memory for %s", what);
}

static void put_in_front(struct error *error, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void put_in_front(struct error *error, const char *format, va_list arguments)
{
    char place[sizeof error->text], whole[2 * sizeof error->text + 2];
    vsnprintf(place, sizeof place, format, arguments);
    snprintf(whole, sizeof whole, "%s: %s", place, error->text);
    const bool cut = strlen(whole) >= sizeof error->text;
    whole[sizeof error->text - 1] = '\0';
    memcpy(error->text, whole, strlen(whole) + 1);
    if (cut)
        drop_half_character(error->text);
}

bool error_at(struct error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_in_front(error, format, arguments);
    va_end(arguments);
    return false;
}

bool error_name(struct error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!error->names_place)
        put_in_front(error, format, arguments);
    va_end(arguments);
    error->names_place = true;
    return false;
}
