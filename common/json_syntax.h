// Whether bytes are JSON, by the letter of the grammar (RFC 8259) and a little
// more: UTF-8, no lone surrogates, no \u0000, at most 64 levels and 4,194,304
// keys and values. cJSON reads much that is not JSON; what this check lets
// through it reads rightly.
#ifndef COMMON_JSON_SYNTAX_H
#define COMMON_JSON_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

// A tree takes 80 bytes for each value, and more for a key, however short they are: what no document needs is refused
// before there is a tree.
enum { JSON_MOST_LEVELS = 64, JSON_MOST_VALUES = 1 << 22 };

// The first fault becomes "NAME: line 3, column 7: ...". Columns count
// characters from 1. Takes one pass and no memory.
bool json_syntax_check(const char *text, size_t length, const char *name, struct error *error);

#endif
