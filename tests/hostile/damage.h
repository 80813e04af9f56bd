// Documents, damaged in ways that keep most of their structure, so that what reads them gets far.
//
// The same text, kind and seed give the same damage. Of JSON, values are dropped, repeated (up to 10^5 times),
// exchanged with others of the document, nested and replaced by hostile ones, keys renamed; of lines, lines and words;
// of any document, bytes are changed, put in and cut off.
#ifndef TESTS_HOSTILE_DAMAGE_H
#define TESTS_HOSTILE_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/text.h"

enum damage_kind { DAMAGE_JSON, DAMAGE_LINES, DAMAGE_BYTES };

// Adds the damaged document to `to`.
void damage(enum damage_kind kind, const char *text, size_t length, uint64_t seed, struct text *to);

#endif
