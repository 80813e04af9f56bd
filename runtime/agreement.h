// What all ranks of a run must have alike, such as the plan and the learning rate: compared before they begin, since
// ranks that differ would train together without a word.
#ifndef RUNTIME_AGREEMENT_H
#define RUNTIME_AGREEMENT_H

#include "runtime/process_group.h"

enum { AGREED_SIZE = 80 };

struct agreed {
    const char *what;         // "--rate", for people; the same on all ranks
    char value[AGREED_SIZE];  // "0.003"; a name of its content where that is long (hash_bytes())
};

// All ranks call it, with the same names in the same order. False on all of them where one differs from rank 0, with a
// sentence that says which, in what, and how.
bool ranks_agree(const struct process_group *group, const struct agreed *own, uint32_t count, struct error *error);

// All ranks call it, each with whether what it did went well, and why not: false on all where one failed, with the
// sentence of the first that did. `group` may be NULL: one rank.
bool ranks_all_good(const struct process_group *group, bool good, struct error *error);

#endif
