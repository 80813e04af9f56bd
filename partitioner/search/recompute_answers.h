// The answers of recompute_search() and recompute_least_bytes() so far. A search of many layouts asks the same of the
// same layers again and again, with the same slots and memory. Models repeat their blocks, too, and layers that are
// like others (likeness.h) have the same answer. Dear answers are remembered, and given again. Their work is counted
// again, too, so that a search with a budget ends as it would without them.
//
// All questions are about one profile, as measured, in any order of its layers, and about one storage. The caller must
// see to it.
#ifndef PARTITIONER_SEARCH_RECOMPUTE_ANSWERS_H
#define PARTITIONER_SEARCH_RECOMPUTE_ANSWERS_H

#include "partitioner/search/recompute.h"

// The arguments of recompute_search().
struct recompute_question {
    uint32_t first, end;
    struct slots slots;
    uint64_t capacity_bytes;
    enum recompute_wanted wanted;
    size_t most_labels;
};

struct recompute_answers;
struct recompute_answers *recompute_answers_create(struct error *error);
void recompute_answers_free(struct recompute_answers *answers);

// As recompute_search(), which is asked if the answer is not known; with `answers` NULL it always is. The intervals
// are of the profile in this order of its layers (NULL: its own).
bool recompute_answers_find(struct recompute_answers *answers, struct intervals *intervals, const uint32_t *order,
                            const struct recompute_question *question, uint64_t *work, struct recompute_list *list,
                            struct error *error);

// As recompute_least_bytes(), likewise. The question's capacity, what it wants and its labels do not matter.
bool recompute_answers_least(struct recompute_answers *answers, struct intervals *intervals, const uint32_t *order,
                             const struct recompute_question *question, uint64_t *bytes, bool *complete,
                             uint64_t *work, struct error *error);

// How many answers are remembered.
size_t recompute_answers_count(const struct recompute_answers *answers);

#endif
