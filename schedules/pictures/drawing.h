// What all drawings of a timeline have in common.
#ifndef SCHEDULES_DRAWING_H
#define SCHEDULES_DRAWING_H

#include "schedules/timeline.h"

// The time a drawing covers: from the first start to the last end.
struct extent {
    uint64_t first_ns, last_ns;
};

struct extent drawing_extent(const struct timeline *timeline);

// A round distance between marks on the time axis (1, 2 or 5 times a power of
// ten), such that there are at most `marks` of them. `unit_ns` is what 1 is where
// costs have no units (costs.h), otherwise 0.
uint64_t drawing_mark_ns(struct extent extent, uint64_t marks, uint64_t unit_ns);

// A mark's label, in the unit of the distance between marks: "15 us"; without units "15".
const char *drawing_mark(uint64_t time_ns, uint64_t mark_ns, uint64_t unit_ns, char *buffer, size_t size);

// "forward", ... by enum action_kind; and which kinds a timeline has, as bits.
const char *drawing_kind(unsigned kind);
unsigned drawing_kinds(const struct timeline *timeline);

// "F3": an action without its stage. `buffer` has ACTION_SIZE bytes.
const char *drawing_label(struct action action, char *buffer);

// "F".
const char *drawing_letter(unsigned kind, char *buffer);

// Adds a name as the text of an XML or HTML page; what no page may hold becomes a space.
void drawing_escape(const char *plain, struct text *text);

#endif
