// Compares what all ranks of a run must have alike, such as the plan and the learning rate, before they begin. Ranks
// that differ would otherwise train together without an error.
#ifndef RUNTIME_GROUPS_AGREEMENT_H
#define RUNTIME_GROUPS_AGREEMENT_H

#include "runtime/groups/process_group.h"

enum { AGREED_SIZE = 80 };

struct agreed {
    const char *what;         // "--rate", for people; the same on all ranks
    char value[AGREED_SIZE];  // "0.003"; a hash of the content if that is long (hash_bytes())
};

// A collective call: all ranks make it, with the same names in the same order. It returns false on all of them if one
// differs from rank 0. The error says which rank, in what, and how.
bool ranks_agree(const struct process_group *group, const struct agreed *agreed, uint32_t count, struct error *error);

// A collective call: each rank says whether its work succeeded, and if not why. It returns false on all ranks if one
// failed, with the error of the first that did. `group` may be NULL: one rank.
bool ranks_all_good(const struct process_group *group, bool good, struct error *error);

// A collective call: replaces each number by the largest that a rank has there. `group` may be NULL: one rank.
bool ranks_most(const struct process_group *group, uint64_t *numbers, uint32_t count, struct error *error);

#endif
