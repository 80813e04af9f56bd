// Checks whether bytes are JSON, strictly by the grammar (RFC 8259). It also requires UTF-8, no lone surrogates, no
// \u0000, at most 64 levels, and at most 4,194,304 keys and values. The parser cJSON accepts much that is not JSON,
// but reads everything that passes this check correctly.
#ifndef COMMON_JSON_SYNTAX_H
#define COMMON_JSON_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

// A tree takes 80 bytes for each value, and more for a key, however short they are. Documents larger than any that
// is needed are therefore refused before there is a tree.
enum { JSON_MOST_LEVELS = 64, JSON_MOST_VALUES = 1 << 22 };

// Sets the first fault as "NAME: line 3, column 7: ...". Columns count characters from 1. Takes one pass and no
// memory.
bool json_syntax_check(const char *text, size_t length, const char *name, struct error *error);

#endif
