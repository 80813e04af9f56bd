// Helpers for all drawings of a timeline.
#ifndef SCHEDULES_DRAWING_H
#define SCHEDULES_DRAWING_H

#include "schedules/timeline.h"

// The time a drawing covers: from the first start to the last end, of exchanges, too.
struct extent {
    uint64_t first_ns, last_ns;
};

struct extent drawing_extent(const struct timeline *timeline);

// A round distance between marks on the time axis: 1, 2 or 5 times a power of ten, such that there are at most
// `marks` of them. If costs have no units (costs.h), `unit_ns` is how many ns the number 1 is; otherwise it is 0.
uint64_t drawing_mark_ns(struct extent extent, uint64_t marks, uint64_t unit_ns);

// A mark's label, in the unit of the distance between marks: "15 us"; without units "15".
const char *drawing_mark(uint64_t time_ns, uint64_t mark_ns, uint64_t unit_ns, char *buffer, size_t size);

// The name of an action kind ("forward", ...), by enum action_kind. And the kinds in a timeline, as a bit set. SENDs
// are in it if they are exchanges.
const char *drawing_kind(unsigned kind);
unsigned drawing_kinds(const struct timeline *timeline);

// An action without its stage, such as "F3", which stands for its exchange SEND_F3, too. `buffer` has ACTION_SIZE bytes
// and is returned.
const char *drawing_label(struct action action, char *buffer);

// The letter of a kind, such as "F".
const char *drawing_letter(unsigned kind, char *buffer);

// Appends a name as the text of an XML or HTML page. Characters that no page may contain become spaces.
void drawing_escape(const char *plain, struct text *text);

#endif
